//! Removes the files that dead runs left behind.
//!
//! Finds dead runs by the pointers in the state folder, and reports each of their files once.
//! [`durio_block::remove_left`] decides whether a file is the very one.
//!
//! A file in doubt stays, and the user learns where it is and why; the journal then says so, and no
//! later run asks again, for time does not make a doubt smaller. A file that cannot be checked now
//! (its filesystem is not there) is silently looked at again by every next run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use durio_base::Bytes;
use durio_block::{Folder, LeftFile, Removal, read_bounded, remove_left};
use durio_plan::RawPath;
use rustix::fs::{FlockOperation, flock};

use super::{HIDDEN, Leftovers, MadeFile, PATH_MAX};
use crate::{StatePart, file_names};

// Far more than any journal has: some lines for each file that is made.
const JOURNAL_BYTES_MAX: u64 = 16 << 20;

/// The outcome of a killed run's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    Removed(RawPath),
    /// The file stays, for a reason that the user is told.
    Kept {
        path: RawPath,
        reason: &'static str,
    },
}

/// Removes the files of dead runs that are proved to be theirs, and forgets each run without an
/// open question.
pub fn remove_leftovers(leftovers: &Leftovers) -> Vec<Leftover> {
    let Ok(Some(pointers)) = leftovers.0.part(StatePart::Leftovers) else { return Vec::new() };
    let mut found = Vec::new();
    for name in pointers.names().unwrap_or_default() {
        let is_settled = match journal_at(&pointers, &name) {
            Some(journal) => remove_those_of(&journal, name.as_bytes(), &mut found),
            None => is_half_written_by_dead(&name),
        };
        if is_settled {
            let _ = pointers.remove_file(&name);
        }
    }
    found
}

/// The journal that a pointer leads to; none for what durio did not write so.
fn journal_at(pointers: &Folder, run: &OsStr) -> Option<PathBuf> {
    if run.as_bytes().starts_with(HIDDEN.as_bytes()) {
        return None;
    }
    let bytes = read_bounded(pointers.open_own(run).ok()?, PATH_MAX).ok()?;
    let journal = PathBuf::from(OsString::from_vec(bytes));
    let is_of_run = journal.parent().and_then(Path::file_name) == Some(run);
    let is_journal = journal.file_name() == Some(OsStr::new(file_names::JOURNAL));
    (journal.is_absolute() && is_of_run && is_journal).then_some(journal)
}

/// `.RUN-PROCESS.new`, of a process that was killed before the pointer had its name.
fn is_half_written_by_dead(name: &OsStr) -> bool {
    let run = name.to_str().and_then(|name| name.strip_prefix(HIDDEN)?.strip_suffix(".new"));
    let process = run.and_then(|run| run.rsplit_once('-')?.1.parse::<u32>().ok());
    // A process number that is in use again makes it stay a while longer, which is harmless.
    process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists())
}

/// True if the run needs no further look.
fn remove_those_of(journal: &Path, run: &[u8], found: &mut Vec<Leftover>) -> bool {
    let mut dead = match DeadRun::open(journal) {
        Ok(Some(dead)) => dead,
        // The run folder was deleted or moved: what it made can no longer be known.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
        _ => return false,
    };
    let Ok(left) = left_in(&dead.journal) else { return false };
    let mut is_settled = true;
    for entry in left {
        match dead.remove(&entry, run) {
            Some(Removal::Removed) => found.push(Leftover::Removed(entry.path)),
            Some(Removal::Absent) => {}
            Some(Removal::Kept(reason)) => {
                dead.remember_kept(&entry);
                found.push(Leftover::Kept { path: entry.path, reason });
            }
            None => is_settled = false,
        }
    }
    is_settled
}

/// The files that a run made, did not remove and did not report as kept; reads to the end.
pub(super) fn left_in(journal: &File) -> io::Result<Vec<MadeFile>> {
    let mut made: Vec<MadeFile> = Vec::new();
    for line in BufReader::new(journal.take(JOURNAL_BYTES_MAX)).split(b'\n') {
        // The line that a kill tore is passed over: no file is made before its line is on disk.
        let Ok(entry) = serde_json::from_slice::<MadeFile>(&line?) else { continue };
        // The last entry of a path counts: announced, made, laid out, removed.
        made.retain(|earlier| earlier.path != entry.path);
        made.push(entry);
    }
    made.retain(|entry| !entry.removed && !entry.kept);
    Ok(made)
}

/// The journal of a run that is dead as long as this holds its lock.
struct DeadRun {
    journal: File,
    last_sign: SystemTime,
}

impl DeadRun {
    /// None while the run lives, and for files that are not journals.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        // Not another user's journal: it could name any user's files as durio's.
        let journal = Folder::open(folder)?.open_own(name)?;
        let facts = journal.metadata()?;
        // A lock ends with its process, in any case: an unlocked journal has no process.
        if flock(&journal, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let events =
            path.with_file_name(file_names::EVENTS).metadata().and_then(|facts| facts.modified());
        let touched = facts.modified()?;
        Ok(Some(Self { journal, last_sign: events.map_or(touched, |events| events.max(touched)) }))
    }

    /// None if this cannot be determined now.
    fn remove(&self, entry: &MadeFile, run: &[u8]) -> Option<Removal> {
        let path = entry.path.as_path();
        let is_own = match &entry.mark {
            Some(mark) => path.ends_with(mark.file_name()),
            None => is_name_of(path, run),
        };
        if !is_own {
            return look_at_users(entry);
        }
        let left = LeftFile {
            path,
            identity: entry.identity,
            mark: entry.mark.as_ref(),
            size: entry.size.map(Bytes::get),
            last_sign: self.last_sign,
        };
        remove_left(&left).ok()
    }

    // If this cannot be written, the next run reports the file again. The journal's time stays the
    // run's last sign of life: the next run must not take changes to the run's other files after
    // its end for durio's.
    fn remember_kept(&mut self, entry: &MadeFile) {
        let entry = MadeFile { kept: true, ..entry.clone() };
        if let Ok(mut line) = serde_json::to_vec(&entry) {
            line.push(b'\n');
            let written = self.journal.write_all(&line);
            let _ = self.journal.set_modified(self.last_sign).and(written);
            let _ = self.journal.sync_all();
        }
    }
}

/// True for a name that an earlier version gave: `.durio-`, the run, and maybe a dot and more.
fn is_name_of(path: &Path, run: &[u8]) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let after = name.strip_prefix(b".durio-").and_then(|name| name.strip_prefix(run));
    matches!(after, Some([] | [b'.', ..]))
}

// An earlier version made its file under the name that the user gave, without a mark: it stays.
fn look_at_users(entry: &MadeFile) -> Option<Removal> {
    let path = entry.path.as_path();
    match path.symlink_metadata() {
        Ok(facts)
            if entry.identity.is_some_and(|identity| identity != (facts.dev(), facts.ino())) =>
        {
            Some(Removal::Absent)
        }
        Ok(_) if entry.mark.is_some() => Some(Removal::Kept("durio never uses such a name")),
        Ok(_) => Some(Removal::Kept(
            "it was created by an earlier version, which did not mark its files",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent()?.metadata().ok()?;
            // On another device the file's own filesystem is not mounted, and its state is unknown.
            let is_there = entry.identity.is_none_or(|(device, _)| device == parent.dev());
            is_there.then_some(Removal::Absent)
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    #[test]
    fn a_journal_is_read_to_16_mib() {
        let made = MadeFile {
            path: Path::new("/d/file").into(),
            identity: None,
            mark: None,
            size: None,
            removed: false,
            kept: false,
        };
        let line = serde_json::to_vec(&made).unwrap();
        for (end, is_seen) in [(16_777_216, true), (16_777_217, false)] {
            let mut journal = tempfile::tempfile().unwrap();
            let before = vec![b' '; end - line.len() - 1];
            journal.write_all(&[&before[..], b"\n", &line].concat()).unwrap();
            journal.rewind().unwrap();
            assert_eq!(left_in(&journal).unwrap().len(), usize::from(is_seen), "{end}");
        }
    }

    #[test]
    fn of_each_path_the_last_line_counts_and_what_was_removed_or_kept_is_not_left() {
        let line = |path: &str, removed, kept| {
            let path = Path::new(path).into();
            let made = MadeFile { path, identity: None, mark: None, size: None, removed, kept };
            serde_json::to_string(&made).unwrap() + "\n"
        };
        let torn = line("/d/torn", false, false);
        let text = [
            line("/d/gone", false, false),
            line("/d/left", false, false),
            line("/d/gone", true, false),
            line("/d/doubtful", false, false),
            "{\"path\":\n".to_owned(),
            line("/d/doubtful", false, true),
            line("/d/again", true, false),
            line("/d/again", false, false),
            torn[..torn.len() / 2].to_owned(),
        ];
        let mut journal = tempfile::tempfile().unwrap();
        journal.write_all(text.concat().as_bytes()).unwrap();
        journal.rewind().unwrap();
        let left = left_in(&journal).unwrap();
        let left: Vec<&Path> = left.iter().map(|made| made.path.as_path()).collect();
        assert_eq!(left, ["/d/left", "/d/again"].map(Path::new));
    }
}
