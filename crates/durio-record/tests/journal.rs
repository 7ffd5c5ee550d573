//! The journal: a dead run's files are found, a living run's are left alone.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

use durio_plan::RawPath;
use durio_record::{Journal, Leftovers, MadeFile, remove_leftovers};

fn made(path: &Path, removed: bool) -> MadeFile {
    MadeFile { path: RawPath::from(path), identity: Some((1, 2)), removed }
}

fn removed_by(leftovers: &Leftovers) -> Vec<PathBuf> {
    let mut asked = Vec::new();
    remove_leftovers(leftovers, |path, identity| {
        assert_eq!(identity, (1, 2));
        asked.push(path.to_owned());
        Ok::<_, Infallible>(true)
    });
    asked
}

struct Place {
    _directory: tempfile::TempDir,
    run: PathBuf,
    leftovers: Leftovers,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    fs::create_dir(&run).unwrap();
    let leftovers = Leftovers::below(directory.path());
    Place { _directory: directory, run, leftovers }
}

#[test]
fn files_of_a_dead_run_are_removed_once() {
    let place = place();
    let mut journal = Journal::begin(&place.run, Some(&place.leftovers)).unwrap();
    journal.remember(&made(Path::new("/x/left"), false)).unwrap();
    journal.remember(&made(Path::new("/x/gone"), false)).unwrap();
    journal.remember(&made(Path::new("/x/gone"), true)).unwrap();
    // Killed: the lock goes with the process, the pointer stays.
    drop(journal);
    assert_eq!(removed_by(&place.leftovers), [PathBuf::from("/x/left")]);
    assert_eq!(removed_by(&place.leftovers), Vec::<PathBuf>::new());
}

#[test]
fn files_of_a_living_run_are_left_alone() {
    let place = place();
    let mut journal = Journal::begin(&place.run, Some(&place.leftovers)).unwrap();
    journal.remember(&made(Path::new("/x/alive"), false)).unwrap();
    assert_eq!(removed_by(&place.leftovers), Vec::<PathBuf>::new());
    journal.end();
    assert_eq!(removed_by(&place.leftovers), Vec::<PathBuf>::new());
}

#[test]
fn a_file_that_was_only_announced_is_not_touched() {
    let place = place();
    let mut journal = Journal::begin(&place.run, Some(&place.leftovers)).unwrap();
    let announced = MadeFile { identity: None, ..made(Path::new("/x/announced"), false) };
    journal.remember(&announced).unwrap();
    drop(journal);
    assert_eq!(removed_by(&place.leftovers), Vec::<PathBuf>::new());
}

#[test]
fn a_removal_that_fails_is_tried_again_by_the_next_run() {
    let place = place();
    let mut journal = Journal::begin(&place.run, Some(&place.leftovers)).unwrap();
    journal.remember(&made(Path::new("/x/left"), false)).unwrap();
    drop(journal);
    let gone = remove_leftovers(&place.leftovers, |_, _| Err("busy"));
    assert!(gone.is_empty());
    assert_eq!(removed_by(&place.leftovers), [PathBuf::from("/x/left")]);
}
