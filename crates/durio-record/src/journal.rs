//! Which named files durio made, so that the next run removes what a killed run left behind.
//!
//! A run that makes named files writes each into the journal of its folder before it makes it, and
//! after removal once more. While it lives it holds a lock on the journal. A pointer in the state
//! folder (`leftovers/<run>`) leads the next run to the journal, wherever the run folder is: if the
//! lock is free, the run is dead, and its files go, if they still are the very files it made. The
//! pointer goes when all of them are proved to be gone.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use durio_block::{Folder, open_regular, read_bounded};
use durio_plan::RawPath;
use durio_units::Bytes;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::{RecordError, file_names};

/// A named file that durio made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFile {
    /// Where.
    pub path: RawPath,
    /// Device and inode; none while the file is being made.
    pub identity: Option<(u64, u64)>,
    /// True once it is removed.
    pub removed: bool,
}

/// The longest path that Linux takes.
const PATH_MAX: Bytes = Bytes::from_kib(4);

/// Far more than any journal has: a line for each file that is made or removed.
const LENGTH_MAX: u64 = 64 << 20;

/// Where the pointers to journals are.
#[derive(Debug, Clone)]
pub struct Leftovers(PathBuf);

impl Leftovers {
    /// Below durio's state folder.
    #[must_use]
    pub fn below(state_folder: &Path) -> Self {
        Self(state_folder.join("leftovers"))
    }
}

/// The journal of a running run.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    pointer: Option<PathBuf>,
    /// Files that were announced or made, and not removed.
    left: Vec<RawPath>,
}

impl Journal {
    /// Begins the journal of the run folder and points to it from `leftovers`.
    ///
    /// # Errors
    /// If it cannot be written. Without a pointer the next run could not find it, so a state folder
    /// that cannot be written to is an error too, unless none was given.
    pub fn begin(run_folder: &Path, leftovers: Option<&Leftovers>) -> Result<Self, RecordError> {
        let path = run_folder.join(file_names::JOURNAL);
        let file = Folder::open(run_folder)
            .and_then(|folder| {
                folder.check_owner()?;
                let file = folder.make_file(file_names::JOURNAL)?;
                folder.sync().map(|()| file)
            })
            .map_err(|error| RecordError::io("make", &path, error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| RecordError::io("lock", &path, errno.into()))?;
        let pointer = leftovers.map(|leftovers| point_to(leftovers, &path)).transpose()?;
        Ok(Self { file, path, pointer, left: Vec::new() })
    }

    /// Goes on with the journal of an interrupted run, whose files must be removed before.
    ///
    /// # Errors
    /// If it cannot be written, or the run lives.
    pub fn resume(run_folder: &Path, leftovers: Option<&Leftovers>) -> Result<Self, RecordError> {
        let path = run_folder.join(file_names::JOURNAL);
        let fail = |error| RecordError::io("go on with", &path, error);
        let mut file = open_or_make(run_folder).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| RecordError::io("lock (the run lives?)", &path, errno.into()))?;
        let pointer = leftovers.map(|leftovers| point_to(leftovers, &path)).transpose()?;
        Ok(Self { file, path, pointer, left: Vec::new() })
    }

    /// Remembers what was made or removed, before the next step.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn remember(&mut self, made: &MadeFile) -> Result<(), RecordError> {
        let mut line = serde_json::to_vec(made)
            .map_err(|error| RecordError::malformed("write", &self.path, error))?;
        line.push(b'\n');
        self.left.retain(|path| *path != made.path);
        if !made.removed {
            self.left.push(made.path.clone());
        }
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|error| RecordError::io("write", &self.path, error))
    }

    /// Ends the journal. What was not removed is left to the next run.
    pub fn end(self) {
        let gone = self.left.iter().all(|path| is_gone(path.as_path()));
        if let Some(pointer) = self.pointer.filter(|_| gone) {
            // A pointer that stays leads to a journal whose files are all marked as removed.
            let _ = fs::remove_file(pointer);
        }
    }
}

/// A journal may be missing: the run was killed before it had one.
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
    let absent = path.symlink_metadata().is_err_and(|it| it.kind() == io::ErrorKind::NotFound);
    absent && path.parent().is_some_and(Path::is_dir)
}

/// How the name of a pointer begins that is not written yet.
const HIDDEN: &str = ".";

fn point_to(leftovers: &Leftovers, journal: &Path) -> Result<PathBuf, RecordError> {
    let directory = &leftovers.0;
    fs::create_dir_all(directory)
        .map_err(|error| RecordError::io("make the folder", directory, error))?;
    let absolute =
        fs::canonicalize(journal).map_err(|error| RecordError::io("look at", journal, error))?;
    let run = absolute.parent().and_then(Path::file_name).unwrap_or_default().to_owned();
    let pointer = directory.join(&run);
    // Nobody shall read half a pointer: it would lead nowhere, and be forgotten.
    Folder::open(directory)
        .and_then(|folder| folder.replace(&run, absolute.as_os_str().as_bytes()))
        .map_err(|error| RecordError::io("write", &pointer, error))?;
    Ok(pointer)
}

/// Hands every file that a dead run left behind to `remove`, and forgets the run when all are proved
/// to be gone. Returns the files that were removed now.
///
/// `remove` gets path and identity and must remove only that very file; without an identity the name
/// is durio's own and stands in for it. It says whether it removed the file (true) or the file is
/// proved to be gone (false); everything else is an error, and is tried again by the next run.
pub fn remove_leftovers<E>(
    leftovers: &Leftovers,
    mut remove: impl FnMut(&Path, Option<(u64, u64)>) -> Result<bool, E>,
) -> Vec<RawPath> {
    let mut removed = Vec::new();
    let Ok(pointers) = fs::read_dir(&leftovers.0) else { return removed };
    for pointer in pointers.filter_map(Result::ok) {
        let run = pointer.file_name();
        if run.as_bytes().starts_with(HIDDEN.as_bytes()) {
            continue;
        }
        let target = open_regular(&pointer.path()).and_then(|it| read_bounded(it, PATH_MAX));
        let Ok(target) = target else { continue };
        let journal = PathBuf::from(std::ffi::OsString::from_vec(target));
        let Some(left) = left_by_dead_run(&journal) else { continue };
        let mut all_gone = true;
        for entry in left {
            let Some(identity) = identity_for_removal(&entry, run.as_bytes()) else { continue };
            match remove(entry.path.as_path(), identity) {
                Ok(true) => removed.push(entry.path),
                Ok(false) => {}
                Err(_) => all_gone = false,
            }
        }
        if all_gone {
            let _ = fs::remove_file(pointer.path());
        }
    }
    removed
}

/// By what a file is known: its identity, or nothing but its name if that is durio's own, for some
/// filesystems give other numbers after each mount. None for a file that was only announced under a
/// user's name: it may be the user's.
fn identity_for_removal(entry: &MadeFile, run: &[u8]) -> Option<Option<(u64, u64)>> {
    let name = entry.path.as_path().file_name().unwrap_or_default().as_bytes();
    let after = name.strip_prefix(OWN_NAME).and_then(|name| name.strip_prefix(run));
    match after {
        Some([] | [b'.', ..]) => Some(None),
        _ => entry.identity.map(Some),
    }
}

/// How the names begin that durio itself gives: this, the run, and maybe a dot and more.
const OWN_NAME: &[u8] = b".durio-";

/// The files that the journal's run made and did not remove; none while the run lives, or while
/// nobody can tell.
fn left_by_dead_run(journal: &Path) -> Option<Vec<MadeFile>> {
    let (folder, name) = (Folder::open(journal.parent()?), journal.file_name()?);
    let file = match folder.and_then(|folder| folder.open_own(name)) {
        Ok(file) => file,
        // The run folder was deleted or moved: what it made can no longer be known.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        // Also a journal of somebody else: what it says durio made may be anybody's.
        Err(_) => return None,
    };
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut made: Vec<MadeFile> = Vec::new();
    for line in BufReader::new(file.take(LENGTH_MAX)).split(b'\n') {
        let Ok(entry) = serde_json::from_slice::<MadeFile>(&line.ok()?) else { continue };
        made.retain(|earlier| earlier.path != entry.path);
        made.push(entry);
    }
    made.retain(|entry| !entry.removed);
    Some(made)
}
