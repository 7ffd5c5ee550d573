//! A replay, with its files remembered while they are there.
//!
//! In: a trace, a directory. Out: how it went. Not here: doing it (`durio-run`), what it adds up to
//! (`durio-analyse`).

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use durio_record::{FolderName, Journal, Leftovers};
use durio_run::{Replay, ReplayProgress, ReplayWish, StopFlag, replay};

use crate::error::BenchError;
use crate::state_folder::state_for;

/// Replays a trace.
///
/// # Errors
/// If there is no state folder to remember its files in, no room, or the storage fails.
pub fn replay_trace(
    wish: ReplayWish<'_>,
    stop: &StopFlag,
    progress: &mut dyn FnMut(ReplayProgress),
) -> Result<Replay, BenchError> {
    let state = state_for("the files of a replay")?;
    let leftovers = Leftovers::below(&state);
    let journals = state.join("replays");
    let name = FolderName::new("replay", SystemTime::now(), std::process::id());
    let folder = journals.join(name.as_str());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|error| BenchError::io("make", &folder, error))?;
    forget_dead(&journals, &leftovers);
    let mut journal = Journal::begin(&folder, Some(&leftovers))?;
    let replayed = replay(wish, &mut journal, stop, progress);
    if journal.end() {
        // What is left of it is one journal, all of whose files are gone.
        let _ = fs::remove_dir_all(&folder);
    }
    Ok(replayed?)
}

/// A replay that begins has a folder before something points to it.
const YOUNG: Duration = Duration::from_secs(60);

/// Removes the journals of replays that were killed, once nothing points to them: then their files are gone.
fn forget_dead(journals: &Path, leftovers: &Leftovers) {
    for it in fs::read_dir(journals).into_iter().flatten().filter_map(io::Result::ok) {
        let age = it.metadata().and_then(|it| it.modified()).map(|it| it.elapsed());
        if !leftovers.has(&it.file_name()) && age.is_ok_and(|it| it.is_ok_and(|it| it > YOUNG)) {
            let _ = fs::remove_dir_all(it.path());
        }
    }
}
