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
        assert_eq!(identity, Some((1, 2)));
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

impl Place {
    fn pointers(&self) -> Vec<PathBuf> {
        let folder = self.run.parent().unwrap().join("leftovers");
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
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
    journal.remember(&made(Path::new("/x/alive"), true)).unwrap();
    journal.end();
    assert!(place.pointers().is_empty());
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

#[test]
fn a_run_whose_file_could_not_be_removed_is_left_to_the_next_one() {
    let place = place();
    let left = place.run.join("left");
    fs::write(&left, "").unwrap();
    let mut journal = Journal::begin(&place.run, Some(&place.leftovers)).unwrap();
    journal.remember(&made(&left, false)).unwrap();
    journal.end();
    assert_eq!(removed_by(&place.leftovers), [left]);
}

#[test]
fn a_file_that_was_announced_and_never_made_leaves_nothing_to_do() {
    let place = place();
    let announced = MadeFile { identity: None, ..made(&place.run.join("new"), false) };
    let mut journal = Journal::begin(&place.run, Some(&place.leftovers)).unwrap();
    journal.remember(&announced).unwrap();
    journal.end();
    assert!(place.pointers().is_empty());
}

#[test]
fn a_name_that_only_this_run_gives_stands_in_for_the_identity() {
    let place = place();
    let mut journal = Journal::begin(&place.run, Some(&place.leftovers)).unwrap();
    let own = [Path::new("/x/.durio-run"), Path::new("/x/.durio-run.log")];
    journal.remember(&made(own[0], false)).unwrap();
    journal.remember(&MadeFile { identity: None, ..made(own[1], false) }).unwrap();
    journal.remember(&made(Path::new("/x/.durio-running"), false)).unwrap();
    drop(journal);
    let mut asked = Vec::new();
    remove_leftovers(&place.leftovers, |path, identity| {
        asked.push((path.to_owned(), identity));
        Ok::<_, Infallible>(true)
    });
    let expected = [
        (own[0].to_owned(), None),
        (own[1].to_owned(), None),
        (PathBuf::from("/x/.durio-running"), Some((1, 2))),
    ];
    assert_eq!(asked, expected);
}

#[test]
fn a_journal_that_cannot_be_opened_now_is_not_forgotten() {
    let place = place();
    drop(Journal::begin(&place.run, Some(&place.leftovers)).unwrap());
    let [pointer] = place.pointers().try_into().unwrap();
    // A link that leads to itself cannot be opened, not even by root.
    let link = place.run.join("link");
    std::os::unix::fs::symlink(&link, &link).unwrap();
    fs::write(&pointer, link.to_str().unwrap()).unwrap();
    assert_eq!(removed_by(&place.leftovers), Vec::<PathBuf>::new());
    assert!(place.pointers().contains(&pointer));
    fs::write(&pointer, place.run.join("deleted").to_str().unwrap()).unwrap();
    assert_eq!(removed_by(&place.leftovers), Vec::<PathBuf>::new());
    assert!(place.pointers().is_empty(), "the run folder is gone");
}

#[test]
fn a_pointer_that_is_not_written_yet_is_passed_over() {
    let place = place();
    drop(Journal::begin(&place.run, Some(&place.leftovers)).unwrap());
    let [pointer] = place.pointers().try_into().unwrap();
    let unfinished = pointer.with_file_name(".run");
    fs::rename(&pointer, &unfinished).unwrap();
    fs::write(&unfinished, "").unwrap();
    assert_eq!(removed_by(&place.leftovers), Vec::<PathBuf>::new());
    assert_eq!(place.pointers(), [unfinished]);
}

#[test]
fn a_journal_of_somebody_else_has_nothing_removed() {
    let place = place();
    let mut journal = Journal::begin(&place.run, Some(&place.leftovers)).unwrap();
    journal.remember(&made(Path::new("/x/left"), false)).unwrap();
    drop(journal);
    let (path, elsewhere) = (place.run.join("journal.jsonl"), place.run.join("elsewhere"));
    // Another user's, by a link of either kind.
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(removed_by(&place.leftovers).is_empty() && Journal::resume(&place.run, None).is_err());
    fs::remove_file(&path).unwrap();
    fs::hard_link(&elsewhere, &path).unwrap();
    assert!(removed_by(&place.leftovers).is_empty() && Journal::resume(&place.run, None).is_err());
    fs::remove_file(&elsewhere).unwrap();
    assert_eq!(removed_by(&place.leftovers), [PathBuf::from("/x/left")]);
}
