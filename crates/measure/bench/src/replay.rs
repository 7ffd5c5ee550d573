//! A replay whose files are remembered while they exist. `durio-run` replays, `durio-analyse` sums
//! up.

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, SystemTime};

use durio_block::Folder;
use durio_command::{CommandError, StopFlag};
use durio_record::{FolderName, Journal, Leftovers, StatePart, file_names};
use durio_run::{Replay, ReplayProgress, ReplayWish, replay};

use crate::state_folder::{path_of, refused, state_for};

/// Replays a trace.
///
/// # Errors
/// If the state folder that remembers its files is missing, if space is short, or if the storage
/// fails.
pub fn replay_trace(
    wish: ReplayWish<'_>,
    stop: &StopFlag,
    progress: &mut dyn FnMut(ReplayProgress),
) -> Result<Replay, CommandError> {
    let state = state_for("the files of a replay")?;
    let leftovers = Leftovers::below(&state);
    let path = path_of(&state, StatePart::Replays);
    let journals = state.make_part(StatePart::Replays).map_err(|error| refused(&path, &error))?;
    forget_dead(&journals, &leftovers);
    let name = FolderName::new("replay", SystemTime::now(), std::process::id());
    let folder = journals
        .make_folder(name.as_str())
        .map_err(|error| CommandError::io("make", &path.join(name.as_str()), error))?;
    let mut journal = Journal::begin_in(&folder, Some(&leftovers))?;
    let replayed = replay(wish, &mut journal, stop, progress);
    if journal.end() {
        // One journal is left of it, whose files are all gone.
        let _ = forget(&journals, OsStr::new(name.as_str()));
    }
    Ok(replayed?)
}

/// A replay that begins has a folder before its journal is locked.
const YOUNG: Duration = Duration::from_secs(60);

/// Removes the journals of replays that were killed, once nothing points to them: then their files are gone.
fn forget_dead(journals: &Folder, leftovers: &Leftovers) {
    for name in journals.names().unwrap_or_default() {
        let is_replay =
            name.to_str().and_then(FolderName::parse).is_some_and(|it| it.is_of("replay"));
        if is_replay && !leftovers.has(&name) {
            // Files that are not proved to be a dead replay's stay.
            let _ = forget(journals, &name);
        }
    }
}

/// Removes the folder of a replay that has ended: nothing but its journal may be in it.
fn forget(journals: &Folder, name: &OsStr) -> io::Result<()> {
    let Some(folder) = journals.own_folder(name)? else { return Ok(()) };
    match Journal::hold_ended(&folder)? {
        Some(_held) => folder.remove_file(file_names::JOURNAL)?,
        None if folder.age()? < YOUNG => return Ok(()),
        None => {}
    }
    journals.remove_folder(name)
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
