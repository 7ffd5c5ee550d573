//! Storage that an agent of the prover writes to: a device or file of this machine, an NBD export, or
//! a folder.
//!
//! A path or a URI, with a permission to overwrite, gives engines over it, past the page cache.
//! durio-prove decides what to write.
//!
//! In a folder, which belongs to the prover alone, each cell is a file, and a write replaces it:
//!
//! ```text
//!  write of a cell:   new ◄── data ──► sync, by the arm's path ──► rename to the cell ──► sync
//!  write of a control: the cell's file, in place, past the page cache, and no sync
//! ```
//!
//! New files are written through the page cache, as programs write them; reads bypass it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durio_block::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, EngineKind,
    EngineSetup, ErrorKind, MonotonicClock, OpenMode, Operation, OperationKind, TargetAccess,
    TargetType, Ticks, wait_until,
};
use durio_command::{CommandError, CommandErrorKind, Permission, locate};
use durio_nbd::{NbdEngine, Uri};
use durio_observe::{PowerState, read_host, read_power_state, read_stack};
use durio_plan::proof::DurablePath;
use durio_record::proof::Inventory;
use rustix::fs::{Mode, OFlags, fdatasync, fsync, openat, renameat, syncfs};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};

use crate::agent::{AgentStorage, EngineLoan, TargetEngine, TargetOpening};
use crate::error::ProveError;
use crate::layout::CELL;

/// A target that can be opened again and again.
#[derive(Debug)]
pub struct ProofStorage {
    kind: PlaceKind,
    size: u64,
    may_write: bool,
}

#[derive(Debug)]
enum PlaceKind {
    Nbd(Uri),
    Local {
        path: PathBuf,
        access: Arc<TargetAccess>,
        engine: EngineKind,
    },
    /// A file for each cell.
    Folder {
        path: PathBuf,
        writes: FolderWrites,
    },
}

impl ProofStorage {
    /// Finds the target. `destroy` names targets that may be overwritten; without it the target is
    /// only read.
    ///
    /// # Errors
    /// If it is not a device, file or export; if it is in use; if it would be written to without
    /// permission.
    pub fn find(
        target: &str,
        destroy: &[PathBuf],
        force_signature: bool,
        engine: Option<EngineKind>,
    ) -> Result<Self, CommandError> {
        if target.starts_with("nbd") && target.contains("://") {
            return Self::of_nbd(target, destroy);
        }
        let path = PathBuf::from(target);
        let located = locate([&path], Permission::Named { destroy, force_signature })?;
        let access = located.held.find(&path).map_err(|_| {
            CommandError::wrong_use(format!(
                "'{target}' is neither a device, a file nor an NBD URI"
            ))
            .hint("make a file with: fallocate -l 1GiB FILE")
        })?;
        let size = match access.target().kind() {
            TargetType::File(size) | TargetType::BlockDevice(size) => size.get(),
            _ => 0,
        };
        let engine = engine.unwrap_or(match EngineKind::Uring.probe() {
            Ok(()) => EngineKind::Uring,
            Err(_) => EngineKind::Sync,
        });
        let may_write = matches!(*access, TargetAccess::Write(_));
        Self::check_direct(&access, &path)?;
        Ok(Self { kind: PlaceKind::Local { path, access, engine }, size, may_write })
    }

    /// A folder that exists, with room for `size` bytes, which only the prover writes to.
    pub(crate) fn of_folder(path: PathBuf, size: u64, writes: FolderWrites) -> Self {
        Self { kind: PlaceKind::Folder { path, writes }, size, may_write: true }
    }

    fn of_nbd(target: &str, destroy: &[PathBuf]) -> Result<Self, CommandError> {
        let uri: Uri =
            target.parse().map_err(|error| CommandError::of(CommandErrorKind::WrongUse, error))?;
        if let Some(other) = destroy.iter().find(|path| path.as_path() != Path::new(target)) {
            let text = format!("--destroy '{}' does not match '{target}'", other.display());
            return Err(CommandError::wrong_use(text));
        }
        let buffers = Buffers::try_new(1, 4096)?;
        let size = NbdEngine::connect(&uri, MonotonicClock, buffers)
            .map_err(CommandError::cannot)?
            .export()
            .size;
        Ok(Self { kind: PlaceKind::Nbd(uri), size, may_write: !destroy.is_empty() })
    }

    /// I/O through the page cache proves nothing about the layers below.
    fn check_direct(access: &TargetAccess, path: &Path) -> Result<(), CommandError> {
        let opened = access.open(OpenMode { direct: true, ..OpenMode::default() })?;
        if opened.direct {
            return Ok(());
        }
        let text = format!("'{}' cannot be read past the page cache (O_DIRECT)", path.display());
        Err(CommandError::cannot_measure(text).hint("use a block device, or a file on ext4 or XFS"))
    }

    /// The target's description, and the signs that show later whether its power was gone.
    pub(crate) fn inventory(&self) -> Inventory {
        let stack = match &self.kind {
            // A target that can be written to can be proved, whether its layers are shown or not.
            PlaceKind::Local { path, .. } | PlaceKind::Folder { path, .. } => read_stack(path).ok(),
            PlaceKind::Nbd(_) => None,
        };
        let power = stack.as_ref().map_or_else(PowerState::of_machine, read_power_state);
        Inventory { host: read_host(), stack, qemu: None, power }
    }

    fn setup(
        access: &TargetAccess,
        wanted: TargetOpening,
    ) -> Result<EngineSetup<MonotonicClock>, BlockError> {
        let TargetOpening { write, data_sync, depth, slot } = wanted;
        let file =
            access.open(OpenMode { write, direct: true, data_sync, ..OpenMode::default() })?;
        Ok(EngineSetup {
            clock: MonotonicClock,
            file: file.file,
            more_files: Vec::new(),
            buffers: Buffers::try_new(depth as usize, slot)?,
            depth,
            entries: depth,
            blocking_syncs: false,
            advice: None,
        })
    }
}

impl AgentStorage for ProofStorage {
    fn size(&self) -> u64 {
        self.size
    }

    fn open<T>(
        &mut self,
        wanted: TargetOpening,
        work: impl FnOnce(&mut TargetEngine<'_>) -> Result<T, ProveError>,
    ) -> Result<T, ProveError> {
        if wanted.write && !self.may_write {
            let reason = "overwriting it was not permitted (--destroy)";
            let error = BlockError::because(ErrorKind::PermissionDenied, "write to", reason);
            return Err(error.into());
        }
        match &self.kind {
            PlaceKind::Nbd(uri) => {
                let buffers = Buffers::try_new(wanted.depth as usize, wanted.slot)?;
                let engine = NbdEngine::connect(uri, MonotonicClock, buffers)
                    .map_err(|error| BlockError::because(ErrorKind::Io, "use the target", error));
                work(&mut engine?)
            }
            PlaceKind::Folder { path, writes } => {
                let buffers = Buffers::try_new(wanted.depth as usize, CELL)?;
                work(&mut FolderEngine::open(path, writes.clone(), buffers)?)
            }
            PlaceKind::Local { access, engine, .. } => {
                engine.open(Self::setup(access, wanted)?, EngineLoan(work))
            }
        }
    }
}

/// The file that replaces another, until it does.
const NEW: &str = "new";

/// The effect of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FolderWrites {
    /// It makes the cell's file, which a later fsync makes durable with all others.
    Make,
    /// It replaces the cell's file, and is durable when it returns.
    Replace {
        /// What makes the new file durable.
        path: DurablePath,
        /// Whether the folder is synced, without which the new name may be lost.
        syncs_folder: bool,
        controls: Range<u64>,
    },
}

/// An engine that does one operation at a time, of one cell each.
#[derive(Debug)]
pub(crate) struct FolderEngine {
    clock: MonotonicClock,
    folder: OwnedFd,
    writes: FolderWrites,
    buffers: Buffers,
    done: VecDeque<Completion>,
}

impl FolderEngine {
    /// An engine over a folder that exists; buffers have one cell.
    pub(crate) fn open(
        folder: &Path,
        writes: FolderWrites,
        buffers: Buffers,
    ) -> Result<Self, BlockError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty()).map_err(|errno| {
            BlockError { kind: ErrorKind::Io, ..BlockError::at("open", folder, errno) }
        })?;
        Ok(Self { clock: MonotonicClock, folder, writes, buffers, done: VecDeque::new() })
    }

    fn perform(&mut self, operation: &Operation) -> Result<usize, Errno> {
        let cell = operation.offset / CELL as u64;
        match (operation.kind, &self.writes) {
            (OperationKind::Read, _) => self.read(operation.slot, cell),
            (OperationKind::Write, FolderWrites::Make) => {
                self.write(operation.slot, cell, OFlags::CREATE | OFlags::TRUNC)
            }
            (OperationKind::Write, FolderWrites::Replace { controls, .. })
                if controls.contains(&cell) =>
            {
                self.write(operation.slot, cell, OFlags::DIRECT)
            }
            (OperationKind::Write, &FolderWrites::Replace { path, syncs_folder, .. }) => {
                self.replace(operation.slot, cell, path)?;
                if syncs_folder {
                    fsync(&self.folder)?;
                }
                Ok(CELL)
            }
            (OperationKind::Fsync, FolderWrites::Make) => syncfs(&self.folder).map(|()| 0),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// No byte without a file; the missing end of a cell is zeros, as in a hole.
    fn read(&mut self, slot: u32, cell: u64) -> Result<usize, Errno> {
        let file = match self.file(&name(cell), OFlags::RDONLY | OFlags::DIRECT) {
            Err(Errno::NOENT) => return Ok(0),
            file => file?,
        };
        let data = self.buffers.slot_mut(slot as usize);
        let count = pread(file, &mut *data, 0)?;
        data[count..].fill(0);
        Ok(if count == 0 { 0 } else { CELL })
    }

    fn write(&mut self, slot: u32, cell: u64, flags: OFlags) -> Result<usize, Errno> {
        let file = self.file(&name(cell), OFlags::WRONLY | flags)?;
        pwrite(file, self.buffers.slot_mut(slot as usize), 0)
    }

    fn replace(&mut self, slot: u32, cell: u64, path: DurablePath) -> Result<(), Errno> {
        let sync = if path == DurablePath::ODsync { OFlags::DSYNC } else { OFlags::empty() };
        // A cut may have left one.
        let file = self.file(NEW, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | sync)?;
        let data = &*self.buffers.slot_mut(slot as usize);
        let flags = match path {
            DurablePath::RwfDsync => ReadWriteFlags::DSYNC,
            _ => ReadWriteFlags::empty(),
        };
        if pwritev2(&file, &[IoSlice::new(data)], 0, flags)? < CELL {
            return Err(Errno::NOSPC);
        }
        match path {
            DurablePath::Fsync => fsync(&file)?,
            DurablePath::Fdatasync => fdatasync(&file)?,
            DurablePath::RwfDsync | DurablePath::ODsync => {}
        }
        renameat(&self.folder, NEW, &self.folder, name(cell))
    }

    fn file(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(self.folder.as_fd(), name, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
    }
}

fn name(cell: u64) -> String {
    format!("cell-{cell}")
}

impl Engine for FolderEngine {
    type Clock = MonotonicClock;

    fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { asynchronous: false, write_flags: false, range_syncs: false, links: false }
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts::default()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        self.buffers.slot_mut(slot as usize)
    }

    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        for operation in operations {
            let result = match self.perform(operation) {
                Ok(count) => i32::try_from(count).unwrap_or(i32::MAX),
                Err(errno) => -errno.raw_os_error(),
            };
            let now = self.clock.now();
            let slot = operation.slot;
            self.done.push_back(Completion { slot, result, submitted_at: now, completed_at: now });
        }
        let count = self.done.len().min(completions.len());
        for (completion, done) in completions.iter_mut().zip(self.done.drain(..count)) {
            *completion = done;
        }
        Ok(count)
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        let count = self.exchange(operations, completions)?;
        if count == 0 {
            wait_until(&self.clock, deadline);
        }
        Ok(count)
    }
}
