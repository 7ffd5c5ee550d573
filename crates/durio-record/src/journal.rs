//! Which named files durio made, so that the next run removes what a killed run left behind.
//!
//! A run that makes named files writes each into the journal of its folder before it makes it, and
//! after removal once more. While it lives it holds a lock on the journal. A pointer in the state
//! folder (`leftovers/<run>`) leads the next run to the journal, wherever the run folder is: if the
//! lock is free, the run is dead, and its files go, if they still are the very files it made.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use durio_plan::RawPath;
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
}

impl Journal {
    /// Begins the journal of the run folder and points to it from `leftovers`.
    ///
    /// # Errors
    /// If it cannot be written. Without a pointer the next run could not find it, so a state folder
    /// that cannot be written to is an error too, unless none was given.
    pub fn begin(run_folder: &Path, leftovers: Option<&Leftovers>) -> Result<Self, RecordError> {
        let path = run_folder.join(file_names::JOURNAL);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| RecordError::io("make", &path, error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| RecordError::io("lock", &path, errno.into()))?;
        let pointer = leftovers.map(|leftovers| point_to(leftovers, &path)).transpose()?;
        Ok(Self { file, path, pointer })
    }

    /// Remembers what was made or removed, before the next step.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn remember(&mut self, made: &MadeFile) -> Result<(), RecordError> {
        let mut line = serde_json::to_vec(made)
            .map_err(|error| RecordError::malformed("write", &self.path, error))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| RecordError::io("write", &self.path, error))
    }

    /// Ends the journal; call it when every file is removed.
    pub fn end(self) {
        if let Some(pointer) = &self.pointer {
            // A pointer that stays leads to a journal whose files are all marked as removed.
            let _ = fs::remove_file(pointer);
        }
    }
}

fn point_to(leftovers: &Leftovers, journal: &Path) -> Result<PathBuf, RecordError> {
    let directory = &leftovers.0;
    fs::create_dir_all(directory)
        .map_err(|error| RecordError::io("make the folder", directory, error))?;
    let absolute =
        fs::canonicalize(journal).map_err(|error| RecordError::io("look at", journal, error))?;
    let run = absolute.parent().and_then(Path::file_name).unwrap_or_default().to_owned();
    let pointer = directory.join(run);
    fs::write(&pointer, absolute.as_os_str().as_bytes())
        .map_err(|error| RecordError::io("write", &pointer, error))?;
    Ok(pointer)
}

/// Hands every file that a dead run left behind to `remove`, and forgets the run when it succeeds
/// for all. Returns the files that are gone now.
///
/// `remove` gets path and identity, must remove only that very file, and says whether it did.
pub fn remove_leftovers<E>(
    leftovers: &Leftovers,
    mut remove: impl FnMut(&Path, (u64, u64)) -> Result<bool, E>,
) -> Vec<RawPath> {
    let mut gone = Vec::new();
    let Ok(pointers) = fs::read_dir(&leftovers.0) else { return gone };
    for pointer in pointers.filter_map(Result::ok) {
        let Ok(target) = fs::read(pointer.path()) else { continue };
        let journal = PathBuf::from(std::ffi::OsString::from_vec(target));
        let Some(files) = files_of_dead_run(&journal) else { continue };
        let mut all_removed = true;
        for (path, identity) in files {
            match remove(path.as_path(), identity) {
                Ok(true) => gone.push(path),
                Ok(false) => {}
                Err(_) => all_removed = false,
            }
        }
        if all_removed {
            let _ = fs::remove_file(pointer.path());
        }
    }
    gone
}

/// The files that the journal's run made and did not remove; none while the run lives.
fn files_of_dead_run(journal: &Path) -> Option<Vec<(RawPath, (u64, u64))>> {
    let Ok(file) = File::open(journal) else {
        // The run folder was deleted or moved: what it made can no longer be known.
        return Some(Vec::new());
    };
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut made: Vec<MadeFile> = Vec::new();
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        let Ok(entry) = serde_json::from_str::<MadeFile>(&line) else { continue };
        made.retain(|earlier| earlier.path != entry.path);
        made.push(entry);
    }
    let left = made.into_iter().filter(|entry| !entry.removed);
    Some(left.filter_map(|entry| Some((entry.path, entry.identity?))).collect())
}
