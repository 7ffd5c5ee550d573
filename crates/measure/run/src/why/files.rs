//! The files behind the descriptors of watched calls, and whether a write to one is durable.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use durio_observe::{open_file, process_of};
use rustix::fs::OFlags;

use super::calls::{FollowedCall, WatchedCallRole};

/// What a descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FollowedDescriptor {
    /// A file whose writes are durable.
    Durable,
    File,
    /// A socket, a pipe, a terminal, a file elsewhere, or gone.
    Other,
}

/// How a call counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallUse {
    /// It makes writes durable.
    Durable,
    /// It writes to a file, which waits as a rule only when it is made to.
    Write,
    Ignored,
}

/// More descriptors and threads than are used at a time; those that are gone are forgotten so.
const KNOWN_MAX: usize = 20_000;

#[derive(Debug)]
pub(super) struct WatchedDescriptors<'a> {
    root: &'a Path,
    /// Only files at or below these paths count, unless it is empty.
    places: Vec<PathBuf>,
    known: HashMap<(u32, i32), FollowedDescriptor>,
    /// The process of each thread.
    processes: HashMap<u32, u32>,
}

impl<'a> WatchedDescriptors<'a> {
    pub(super) fn new(root: &'a Path, places: &[PathBuf]) -> Self {
        let places = places.to_vec();
        Self { root, places, known: HashMap::new(), processes: HashMap::new() }
    }

    /// The process of a thread; one that is gone counts as a process itself.
    pub(super) fn process(&mut self, thread: u32) -> u32 {
        if self.processes.len() > KNOWN_MAX {
            self.processes.clear();
        }
        let root = self.root;
        *self.processes.entry(thread).or_insert_with(|| process_of(root, thread).unwrap_or(thread))
    }

    /// How a call counts, by what its descriptor was when it was first seen.
    pub(super) fn use_of(&mut self, call: &FollowedCall) -> CallUse {
        let kind = match call.call.role {
            WatchedCallRole::Ring => return CallUse::Ignored,
            // It names no file.
            WatchedCallRole::SyncElsewhere => return CallUse::Durable,
            WatchedCallRole::Sync if self.places.is_empty() => return CallUse::Durable,
            WatchedCallRole::Sync | WatchedCallRole::Write => {
                let holder = (self.process(call.thread), call.fd);
                match self.known.get(&holder).copied() {
                    Some(kind) => kind,
                    None => self.look(holder).0,
                }
            }
        };
        use_by_kind(call.call.role, kind)
    }

    /// The same by what the descriptor is now, and the path of its file. It may have been closed
    /// and opened again.
    pub(super) fn look_again(&mut self, call: &FollowedCall) -> (CallUse, Option<PathBuf>) {
        match call.call.role {
            WatchedCallRole::Ring | WatchedCallRole::SyncElsewhere => (self.use_of(call), None),
            WatchedCallRole::Sync | WatchedCallRole::Write => {
                let holder = (self.process(call.thread), call.fd);
                let (kind, path) = self.look(holder);
                match (call.call.role, self.places.is_empty()) {
                    (WatchedCallRole::Sync, true) => (CallUse::Durable, path),
                    (role, _) => (use_by_kind(role, kind), path),
                }
            }
        }
    }

    fn counts(&self, path: &Path) -> bool {
        self.places.is_empty() || self.places.iter().any(|place| path.starts_with(place))
    }

    fn look(&mut self, holder: (u32, i32)) -> (FollowedDescriptor, Option<PathBuf>) {
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        let (process, fd) = holder;
        let open = u32::try_from(fd).ok().and_then(|fd| open_file(self.root, process, fd));
        let (kind, path) = match open {
            Some(open) if self.counts(&open.path) => {
                // O_SYNC has O_DSYNC in it.
                let is_durable = open.flags & OFlags::DSYNC.bits() != 0;
                let kind =
                    if is_durable { FollowedDescriptor::Durable } else { FollowedDescriptor::File };
                (kind, Some(open.path))
            }
            Some(_) | None => (FollowedDescriptor::Other, None),
        };
        self.known.insert(holder, kind);
        (kind, path)
    }
}

fn use_by_kind(role: WatchedCallRole, kind: FollowedDescriptor) -> CallUse {
    match (role, kind) {
        (_, FollowedDescriptor::Other) => CallUse::Ignored,
        (WatchedCallRole::Write, FollowedDescriptor::File) => CallUse::Write,
        _ => CallUse::Durable,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::pipe;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    use super::super::calls::call_named;
    use super::*;

    fn of(name: &str, fd: i32) -> FollowedCall {
        let call = call_named(name).unwrap();
        FollowedCall { thread: std::process::id(), call, fd, begin: 1, end: 9 }
    }

    #[test]
    fn a_write_is_durable_by_the_flags_of_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let plain = fs::File::create(&path).unwrap();
        let open = |flags: OFlags| {
            let flags = flags.bits().cast_signed();
            fs::OpenOptions::new().write(true).custom_flags(flags).open(&path).unwrap()
        };
        let (dsync, sync) = (open(OFlags::DSYNC), open(OFlags::SYNC));
        let (reader, writer) = pipe().unwrap();
        let mut files = WatchedDescriptors::new(Path::new("/"), &[]);
        let mut used = |name: &str, fd: i32| files.use_of(&of(name, fd));
        assert_eq!(used("write", plain.as_raw_fd()), CallUse::Write);
        assert_eq!(used("pwrite64", dsync.as_raw_fd()), CallUse::Durable);
        assert_eq!(used("pwritev2", sync.as_raw_fd()), CallUse::Durable);
        assert_eq!(used("fdatasync", plain.as_raw_fd()), CallUse::Durable);
        assert_eq!(used("write", writer.as_raw_fd()), CallUse::Ignored);
        assert_eq!(used("write", i32::MAX), CallUse::Ignored, "no process has as many open");
        assert_eq!(used("msync", 0), CallUse::Durable);
        drop((reader, writer));
        let (used, named) = files.look_again(&of("pwrite64", dsync.as_raw_fd()));
        assert_eq!((used, named.as_deref()), (CallUse::Durable, Some(path.as_path())));
    }

    #[test]
    fn a_descriptor_that_is_another_file_now_is_looked_at_again_when_its_call_was_slow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = fs::File::create(&path).unwrap();
        let fd = file.as_raw_fd();
        let mut files = WatchedDescriptors::new(Path::new("/"), &[]);
        files.known.insert((std::process::id(), fd), FollowedDescriptor::Other);
        assert_eq!(files.use_of(&of("write", fd)), CallUse::Ignored);
        assert_eq!(files.look_again(&of("write", fd)), (CallUse::Write, Some(path)));
        assert_eq!(files.use_of(&of("write", fd)), CallUse::Write);
    }

    #[test]
    fn only_files_below_the_directory_count() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().canonicalize().unwrap();
        let inside = fs::File::create(below.join("log")).unwrap();
        let outside = tempfile::tempfile().unwrap();
        let mut files = WatchedDescriptors::new(Path::new("/"), std::slice::from_ref(&below));
        assert_eq!(files.use_of(&of("fsync", inside.as_raw_fd())), CallUse::Durable);
        assert_eq!(files.use_of(&of("fsync", outside.as_raw_fd())), CallUse::Ignored);
        assert_eq!(files.use_of(&of("write", inside.as_raw_fd())), CallUse::Write);
        assert_eq!(files.look_again(&of("fsync", outside.as_raw_fd())), (CallUse::Ignored, None));
    }
}
