//! The files behind the descriptors of watched processes, while a capture runs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use durio_observe::{
    CaptureEvent, CapturedDevice, CapturedFile, block_device_number, descriptors,
    has_request_queue, leaf_devices, open_file, process_of, read_stack,
};
use rustix::fs::OFlags;

/// What a descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DescriptorKind {
    /// The file of this number.
    File(usize),
    /// A socket, a pipe, a terminal, a file elsewhere: nothing that is looked for.
    Other,
    /// It was gone before we could look.
    Gone,
}

/// The files of the watched processes.
#[derive(Debug)]
pub(super) struct WatchedFiles<'a> {
    root: &'a Path,
    /// Only files below it count.
    below: Option<&'a Path>,
    descriptors: HashMap<(u32, i32), DescriptorKind>,
    /// By path and those flags that decide how a write becomes durable.
    files: HashMap<(PathBuf, u32), usize>,
    /// By number.
    paths: Vec<PathBuf>,
    /// Processes by thread; none of threads that were gone.
    threads: HashMap<u32, Option<u32>>,
}

/// O_APPEND, O_DSYNC, O_SYNC, O_DIRECT of this machine (arm has another O_DIRECT).
const WRITE_FLAGS: u32 =
    OFlags::APPEND.bits() | OFlags::DSYNC.bits() | OFlags::SYNC.bits() | OFlags::DIRECT.bits();

impl<'a> WatchedFiles<'a> {
    pub(super) fn new(root: &'a Path, below: Option<&'a Path>) -> Self {
        Self {
            root,
            below,
            descriptors: HashMap::new(),
            files: HashMap::new(),
            paths: Vec::new(),
            threads: HashMap::new(),
        }
    }

    /// Looks at all open files of these processes; gives the devices below those that they may
    /// write.
    pub(super) fn begin(
        &mut self,
        processes: &[u32],
        emit: &mut dyn FnMut(CaptureEvent),
    ) -> Vec<CapturedDevice> {
        let mut folders = BTreeSet::new();
        folders.extend(self.below.map(Path::to_path_buf));
        for &process in processes {
            for fd in descriptors(self.root, process) {
                let Ok(number) = i32::try_from(fd) else { continue };
                let Some(file) = open_file(self.root, process, fd) else { continue };
                // O_RDONLY is zero.
                if file.flags & OFlags::ACCMODE.bits() != 0 {
                    folders.extend(file.path.parent().map(Path::to_path_buf));
                }
                self.look((process, number), Position::AsItIs, emit);
            }
            // A database that holds no file yet has its data where it runs.
            folders.extend(fs::read_link(self.root.join(format!("proc/{process}/cwd"))));
        }
        self.devices(&folders)
    }

    fn devices(&self, folders: &BTreeSet<PathBuf>) -> Vec<CapturedDevice> {
        let mut seen = HashSet::new();
        let mut found: Vec<CapturedDevice> = Vec::new();
        for folder in folders {
            use std::os::unix::fs::MetadataExt;
            // Files of one filesystem have one stack.
            let is_new = fs::metadata(folder).is_ok_and(|facts| seen.insert(facts.dev()));
            let Some(stack) = is_new.then(|| read_stack(folder).ok()).flatten() else { continue };
            for name in leaf_devices(&stack) {
                let Some(number) = block_device_number(self.root, &name) else { continue };
                if found.iter().all(|device| device.number != number) {
                    let has_requests = has_request_queue(self.root, &name);
                    found.push(CapturedDevice { name, number, has_requests });
                }
            }
        }
        found
    }

    /// The process of a thread.
    pub(super) fn process(&mut self, thread: u32) -> Option<u32> {
        let root = self.root;
        *self.threads.entry(thread).or_insert_with(|| process_of(root, thread))
    }

    pub(super) fn processes(&self) -> usize {
        self.threads.values().flatten().collect::<HashSet<_>>().len()
    }

    pub(super) fn closed(&mut self, holder: (u32, i32)) {
        self.descriptors.remove(&holder);
    }

    pub(super) fn opened(&mut self, holder: (u32, i32), emit: &mut dyn FnMut(CaptureEvent)) {
        self.look(holder, Position::Begin, emit);
    }

    /// The file of a descriptor; none if it is not a watched file, and `usize::MAX` if the file is
    /// unknown.
    pub(super) fn file(
        &mut self,
        holder: (u32, i32),
        emit: &mut dyn FnMut(CaptureEvent),
    ) -> Option<usize> {
        let known = self.descriptors.get(&holder).copied();
        match known.unwrap_or_else(|| self.look(holder, Position::Unknown, emit)) {
            DescriptorKind::File(file) => Some(file),
            DescriptorKind::Other => None,
            DescriptorKind::Gone => self.below.is_none().then_some(usize::MAX),
        }
    }

    fn look(
        &mut self,
        holder: (u32, i32),
        position: Position,
        emit: &mut dyn FnMut(CaptureEvent),
    ) -> DescriptorKind {
        let (process, fd) = holder;
        let link = self.root.join(format!("proc/{process}/fd/{fd}"));
        let open = u32::try_from(fd).ok().and_then(|fd| open_file(self.root, process, fd));
        let found = match open {
            Some(open) if self.below.is_none_or(|folder| open.path.starts_with(folder)) => {
                let number = self.number(&open.path, open.flags, open.size, emit);
                let position = match position {
                    Position::AsItIs => open.position,
                    Position::Begin => Some(0),
                    Position::Unknown => None,
                };
                emit(CaptureEvent::Opened { holder, file: number, position });
                DescriptorKind::File(number)
            }
            Some(_) => DescriptorKind::Other,
            None if fs::symlink_metadata(&link).is_ok() => DescriptorKind::Other,
            None => DescriptorKind::Gone,
        };
        self.descriptors.insert(holder, found);
        found
    }

    fn number(
        &mut self,
        path: &Path,
        flags: u32,
        size: Option<u64>,
        emit: &mut dyn FnMut(CaptureEvent),
    ) -> usize {
        let key = (path.to_owned(), flags & WRITE_FLAGS);
        if let Some(number) = self.files.get(&key) {
            return *number;
        }
        let number = self.paths.len();
        self.files.insert(key, number);
        self.paths.push(path.to_owned());
        let path = path.to_string_lossy().into_owned();
        emit(CaptureEvent::File(CapturedFile { path, flags, size }));
        number
    }

    /// Bytes of each file now; none of those that are gone.
    pub(super) fn sizes(&self) -> Vec<Option<u64>> {
        self.paths.iter().map(|path| fs::metadata(path).ok().map(|facts| facts.len())).collect()
    }
}

/// The known position of a descriptor when it is looked at.
#[derive(Debug, Clone, Copy)]
enum Position {
    /// Not written since.
    AsItIs,
    /// It was just opened.
    Begin,
    Unknown,
}
