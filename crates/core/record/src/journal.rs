//! Which files with names durio made, so that the next run removes what a killed run left behind.
//!
//! A run that makes such files writes each into the journal of its folder before it makes it, and
//! after removal once more. While it lives it holds a lock on the journal, and while it has such files
//! it touches the journal each second. A pointer in the state folder (`leftovers/<run>`) leads the
//! next run to the journal, wherever the run folder is ([`remove_leftovers`]).
//!
//! What a dead run's file contains is the user's if it was changed after the run. So the journal says
//! until when the run lived; its lock says only that it does not any more. One wake-up each second
//! is 20 us of processor time or less, on the few filesystems where durio's files have names.

mod leftovers;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use durio_base::Bytes;
use durio_block::{FileMark, Folder};
use durio_plan::RawPath;
use leftovers::left_in;
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, futimens};
use serde::{Deserialize, Serialize};

use crate::error::{failed, malformed};
use crate::{RecordError, StateFolder, StatePart, file_names};

pub use leftovers::{Leftover, remove_leftovers};

/// A file with a name that durio made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFile {
    pub path: RawPath,
    /// Device and inode; none while the file is being made.
    pub identity: Option<(u64, u64)>,
    /// Further identification; none in journals of versions that had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<FileMark>,
    /// Its size since it was laid out; none before, and of files that grow.
    #[serde(default, rename = "size_bytes", skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// True once it is removed.
    pub removed: bool,
    /// True once its staying was reported to the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

impl MadeFile {
    /// A file of this mark that is about to be made.
    pub fn announced(path: &Path, mark: FileMark) -> Self {
        let path = RawPath::from(path);
        Self { path, identity: None, mark: Some(mark), size: None, removed: false, kept: false }
    }
}

/// The longest path that Linux takes.
const PATH_MAX: Bytes = Bytes::from_kib(4);

/// Where the pointers to journals are.
#[derive(Debug, Clone)]
pub struct Leftovers(StateFolder);

impl Leftovers {
    /// The leftovers in durio's state folder.
    pub fn below(state: &StateFolder) -> Self {
        Self(state.clone())
    }

    /// True if there is a pointer to the journal in the folder of this name, or that cannot be known.
    pub fn has(&self, run: &OsStr) -> bool {
        match self.0.part(StatePart::Leftovers) {
            Ok(Some(pointers)) => pointers.has(run).unwrap_or(true),
            Ok(None) => false,
            Err(_) => true,
        }
    }
}

/// The journal of a running run.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    pointer: Option<Pointer>,
    /// Files that were announced or made, and not removed.
    left: Vec<RawPath>,
    /// As long as there was any of them.
    sign: Option<SignOfLife>,
}

impl Journal {
    /// Begins the journal of the run folder and points to it from `leftovers`.
    ///
    /// # Errors
    /// If it cannot be written. Without a pointer the next run could not find it, so a state folder
    /// that cannot be written to is an error too, unless none was given.
    pub fn begin(run_folder: &Path, leftovers: Option<&Leftovers>) -> Result<Self, RecordError> {
        let path = run_folder.join(file_names::JOURNAL);
        let folder = Folder::open(run_folder).map_err(|error| failed("make", &path, error))?;
        Self::begin_in(&folder, leftovers)
    }

    /// The same in a folder that is held open.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn begin_in(folder: &Folder, leftovers: Option<&Leftovers>) -> Result<Self, RecordError> {
        let path = folder.path().join(file_names::JOURNAL);
        let file = folder
            .check_owner()
            .and_then(|()| {
                let file = folder.make_file_with(file_names::JOURNAL, 0o600)?;
                // The name too: a power cut that removed the journal would leave unknown files.
                folder.sync().map(|()| file)
            })
            .map_err(|error| failed("make", &path, error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| failed("lock", &path, errno.into()))?;
        let pointer = leftovers.map(|leftovers| point_to(leftovers, &path)).transpose()?;
        Ok(Self { file, path, pointer, left: Vec::new(), sign: None })
    }

    /// Continues the journal of an interrupted run whose files are all gone.
    ///
    /// # Errors
    /// If it cannot be written, the run lives, or one of its files could not be looked at so far:
    /// the run would take later changes of that file for its own.
    pub fn resume(run_folder: &Path, leftovers: Option<&Leftovers>) -> Result<Self, RecordError> {
        let path = run_folder.join(file_names::JOURNAL);
        let fail = |error| failed("go on with", &path, error);
        let mut file = open_or_make(run_folder).map_err(fail)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| failed("lock (the run lives?)", &path, errno.into()))?;
        if let Some(left) = left_in(&file).map_err(fail)?.first() {
            return Err(fail(io::Error::other(format!("'{}' may remain of it", left.path))));
        }
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        let pointer = leftovers.map(|leftovers| point_to(leftovers, &path)).transpose()?;
        Ok(Self { file, path, pointer, left: Vec::new(), sign: None })
    }

    /// Holds the journal of an ended run whose files are all gone, so that no process continues it;
    /// none if the run has no journal.
    ///
    /// # Errors
    /// If the run lives, a file of it may be left, or the journal is not the user's own.
    pub fn hold_ended(folder: &Folder) -> io::Result<Option<File>> {
        let journal = match folder.open_own(file_names::JOURNAL) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        flock(&journal, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::other("it is still running"))?;
        match left_in(&journal)?.first() {
            Some(left) => Err(io::Error::other(format!("'{}' may remain of it", left.path))),
            None => Ok(Some(journal)),
        }
    }

    /// Remembers a file that was made or removed, before the next step.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn remember(&mut self, made: &MadeFile) -> Result<(), RecordError> {
        let mut line =
            serde_json::to_vec(made).map_err(|error| malformed("write", &self.path, error))?;
        line.push(b'\n');
        self.left.retain(|path| *path != made.path);
        if !made.removed {
            self.left.push(made.path.clone());
        }
        // On disk before the file is made: a power cut must not leave unknown files.
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        let written = written.and_then(|()| self.live());
        written.map_err(|error| failed("write", &self.path, error))
    }

    fn live(&mut self) -> io::Result<()> {
        // One wake-up a second is spent only where files have names.
        if self.sign.is_none() && !self.left.is_empty() {
            self.sign = Some(SignOfLife::begin(&self.file)?);
        }
        Ok(())
    }

    /// Ends the journal; true if all its files are gone. The next run removes the others.
    pub fn end(self) -> bool {
        // Looked at, not computed: a failed removal leaves its file, and the pointer must lead to
        // it.
        let gone = self.left.iter().all(|path| is_gone(path.as_path()));
        if let Some(pointer) = self.pointer.filter(|_| gone) {
            // A pointer that stays leads to a journal whose files are all marked as removed.
            let _ = pointer.folder.remove_file(&pointer.name);
        }
        gone
    }
}

// A journal may be missing: the run was killed before it had one.
fn open_or_make(run_folder: &Path) -> io::Result<File> {
    let folder = Folder::open(run_folder)?;
    folder.check_owner()?;
    match folder.open_own(file_names::JOURNAL) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            folder.make_file(file_names::JOURNAL)
        }
        other => other,
    }
}

/// True if the directory is there and has nothing of that name: an announced file was never made.
fn is_gone(path: &Path) -> bool {
    let absent =
        path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    // Where its filesystem is not mounted now, the file may be there all the same.
    absent && path.parent().is_some_and(Path::is_dir)
}

/// How the name of a pointer begins that is not written yet.
const HIDDEN: &str = ".";

/// What leads the next run to the journal.
#[derive(Debug)]
struct Pointer {
    folder: Folder,
    name: OsString,
}

fn point_to(leftovers: &Leftovers, journal: &Path) -> Result<Pointer, RecordError> {
    let state = &leftovers.0;
    let place = state.folder().path().join(StatePart::Leftovers.name());
    let folder = state
        .make_part(StatePart::Leftovers)
        .map_err(|error| failed("make the folder", &place, error))?;
    // Readers of the pointer have another working directory.
    let absolute = fs::canonicalize(journal).map_err(|error| failed("look at", journal, error))?;
    let name = absolute.parent().and_then(Path::file_name).unwrap_or_default().to_owned();
    // Half a pointer must not be readable: it would lead nowhere, and be forgotten.
    if let Err(error) = folder.replace(&name, absolute.as_os_str().as_bytes()) {
        // It may be there, and not last.
        let _ = folder.remove_file(&name);
        return Err(failed("write", &place.join(&name), error));
    }
    Ok(Pointer { folder, name })
}

/// How often; who reads it adds more (`durio_block::remove_left`).
const PERIOD: Duration = Duration::from_secs(1);

/// Touches the journal until it is dropped.
#[derive(Debug)]
struct SignOfLife {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SignOfLife {
    fn begin(journal: &File) -> io::Result<Self> {
        // The same open file: its lock goes when both are closed.
        let journal = journal.try_clone()?;
        let (end, ended) = channel();
        let give = move || {
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // The journal's disk may be full or gone; then remaining files are kept in doubt.
                let _ = touch(&journal);
            }
        };
        let thread = std::thread::Builder::new().name("sign-of-life".to_owned()).spawn(give)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for SignOfLife {
    fn drop(&mut self) {
        // Woken at once: a run does not end a second later for it.
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sets the time to that of the kernel, which is the clock of all other files too.
fn touch(journal: &File) -> rustix::io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    futimens(journal, &Timestamps { last_access: now, last_modification: now })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_journal_goes_on_while_its_run_lives_and_stays_afterwards() {
        let file = tempfile::tempfile().unwrap();
        let at = || file.metadata().unwrap().modified().unwrap();
        let sign = SignOfLife::begin(&file).unwrap();
        let begin = at();
        while at() == begin {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(sign);
        let end = at();
        std::thread::sleep(PERIOD * 2);
        assert_eq!(at(), end);
    }
}
