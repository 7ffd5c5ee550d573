//! A replay whose files are remembered while they exist. `durio-run` replays, `durio-analyse` sums
//! up.

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, SystemTime};

use durio_analyse::why::WhyFindings;
use durio_block::Folder;
use durio_command::{CommandError, StopFlag};
use durio_record::{FolderName, Journal, Leftovers, StatePart, file_names};
use durio_run::{Replay, ReplayProgress, ReplayWish, replay};

use crate::own_commits::OwnCommits;
use crate::state_folder::{path_of, refused, state_for};

/// Replays a trace, and explains this many of the slowest commits, if they are to be recorded.
///
/// # Errors
/// If the state folder that remembers its files is missing, if space is short, or if the storage
/// fails.
pub fn replay_trace(
    wish: ReplayWish<'_>,
    why: Option<usize>,
    stop: &StopFlag,
    progress: &mut dyn FnMut(ReplayProgress),
) -> Result<(Replay, Option<WhyFindings>), CommandError> {
    let own = why.map(|worst| OwnCommits::begin([wish.directory], worst)).transpose()?;
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
    let mut is_laid_out = false;
    let replayed = replay(wish, &mut journal, stop, &mut |step| {
        if let (ReplayProgress::Operations(..), false) = (&step, is_laid_out) {
            is_laid_out = true;
            own.iter().for_each(OwnCommits::measures);
        }
        progress(step);
    });
    let why = own.and_then(OwnCommits::end);
    if journal.end() {
        // One journal is left of it, whose files are all gone.
        let _ = forget(&journals, OsStr::new(name.as_str()));
    }
    Ok((replayed?, why))
}

/// A replay that begins has a folder before its journal is locked.
const YOUNG: Duration = Duration::from_secs(60);

/// Removes the journals of replays that were killed, once nothing points to them: then their files are gone.
fn forget_dead(journals: &Folder, leftovers: &Leftovers) {
    for name in journals.names().unwrap_or_default() {
        let is_replay =
            name.to_str().and_then(FolderName::parse).is_some_and(|name| name.is_of("replay"));
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
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use durio_record::StateFolder;

    use super::*;

    const DEAD: &str = "2026-11-22T101112-345Z-replay-4711";

    struct Place {
        root: tempfile::TempDir,
        state: StateFolder,
        journals: Folder,
    }

    impl Place {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let state = StateFolder::make(&root.path().join("durio")).unwrap();
            let journals = state.make_part(StatePart::Replays).unwrap();
            Self { root, state, journals }
        }

        /// A folder with an ended journal.
        fn dead(&self, name: &str) -> PathBuf {
            let folder = self.journals.make_folder(name).unwrap();
            drop(Journal::begin_in(&folder, None).unwrap());
            folder.path().to_owned()
        }

        fn forget(&self) {
            forget_dead(&self.journals, &Leftovers::below(&self.state));
        }
    }

    fn make_old(path: &Path) {
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::open(path).unwrap().set_modified(hour_ago).unwrap();
    }

    #[test]
    fn only_a_dead_replays_journal_is_removed() {
        let place = Place::new();
        let dead = place.dead(DEAD);
        let other_command = place.dead("2026-11-22T101112-345Z-run-4711");
        let foreign_name = place.dead("precious");
        let with_more = place.dead("2026-11-22T101112-345Z-replay-1");
        fs::write(with_more.join("data"), "mine").unwrap();
        let alive = place.journals.make_folder("2026-11-22T101112-345Z-replay-2").unwrap();
        let living = Journal::begin_in(&alive, None).unwrap();
        let pointed = place.journals.make_folder("2026-11-22T101112-345Z-replay-3").unwrap();
        drop(Journal::begin_in(&pointed, Some(&Leftovers::below(&place.state))).unwrap());
        let empty_old = place.journals.make_folder("2026-11-22T101112-345Z-replay-5").unwrap();
        make_old(empty_old.path());
        let empty_young = place.journals.make_folder("2026-11-22T101112-345Z-replay-6").unwrap();
        for folder in [&foreign_name, &with_more, &other_command] {
            make_old(folder);
        }
        place.forget();
        assert!(!dead.exists() && !empty_old.path().exists());
        assert_eq!(fs::read(with_more.join("data")).unwrap(), b"mine");
        for left in [&other_command, &foreign_name, pointed.path(), empty_young.path()] {
            assert!(left.exists(), "{}", left.display());
        }
        assert!(alive.path().join("journal.jsonl").exists());
        drop(living);
        place.forget();
        assert!(!alive.path().exists());
    }

    #[test]
    fn a_link_in_the_place_of_a_replay_or_its_journal_is_left_with_what_it_leads_to() {
        let place = Place::new();
        let victim = place.root.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("journal.jsonl"), "mine").unwrap();
        make_old(&victim);
        let link = place.journals.path().join(DEAD);
        symlink(&victim, &link).unwrap();
        let folder = place.journals.make_folder("2026-11-22T101112-345Z-replay-1").unwrap();
        symlink(victim.join("journal.jsonl"), folder.path().join("journal.jsonl")).unwrap();
        make_old(folder.path());
        place.forget();
        assert_eq!(fs::read(victim.join("journal.jsonl")).unwrap(), b"mine");
        assert!(link.is_symlink() && folder.path().join("journal.jsonl").is_symlink());
    }
}
