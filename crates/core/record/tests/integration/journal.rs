//! The journal: a dead run's files are removed, what is in doubt is told once, a living run's files
//! and everybody else's are left alone.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use durio_block::{FileMark, Folder, create_named};
use durio_plan::RawPath;
use durio_record::{Journal, Leftover, Leftovers, MadeFile, StateFolder, remove_leftovers};
use rustix::fs::{CWD, FileType, Mode, mknodat};

struct Place {
    _directory: tempfile::TempDir,
    run: PathBuf,
    leftovers: Leftovers,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let run = directory.path().join("run");
        fs::create_dir(&run).unwrap();
        let leftovers = Leftovers::below(&StateFolder::make(directory.path()).unwrap());
        Self { _directory: directory, run, leftovers }
    }

    fn pointers(&self) -> Vec<PathBuf> {
        let folder = self.run.parent().unwrap().join("leftovers");
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    fn journal(&self) -> Journal {
        Journal::begin(&self.run, Some(&self.leftovers)).unwrap()
    }

    /// A run that made a file, and was killed: its lock goes with the process, its pointer stays.
    fn killed_run(&self) -> PathBuf {
        let mut journal = self.journal();
        let entry = made(&self.run, &mut journal);
        drop(journal);
        entry.path.as_path().to_owned()
    }

    fn remove(&self) -> Vec<Leftover> {
        remove_leftovers(&self.leftovers)
    }
}

/// Makes a file as a run does.
fn made(folder: &Path, journal: &mut Journal) -> MadeFile {
    let mark = FileMark::new().unwrap();
    let entry = MadeFile::announced(&folder.join(mark.file_name()), mark.clone());
    journal.remember(&entry).unwrap();
    let made = create_named(folder, mark).unwrap();
    let entry = MadeFile { identity: Some(made.identity), mark: made.mark, ..entry };
    journal.remember(&entry).unwrap();
    entry
}

fn removed(path: &Path) -> Leftover {
    Leftover::Removed(RawPath::from(path))
}

#[test]
fn files_of_a_dead_run_are_removed_once() {
    let place = Place::new();
    let mut journal = place.journal();
    let (left, gone) = (made(&place.run, &mut journal), made(&place.run, &mut journal));
    fs::remove_file(gone.path.as_path()).unwrap();
    journal.remember(&MadeFile { removed: true, ..gone }).unwrap();
    drop(journal);
    assert_eq!(place.remove(), [removed(left.path.as_path())]);
    assert!(!left.path.as_path().exists() && place.pointers().is_empty());
    assert_eq!(place.remove(), []);
}

#[test]
fn files_of_a_living_run_are_left_alone() {
    let place = Place::new();
    let mut journal = place.journal();
    let alive = made(&place.run, &mut journal);
    assert_eq!(place.remove(), []);
    fs::remove_file(alive.path.as_path()).unwrap();
    journal.remember(&MadeFile { removed: true, ..alive }).unwrap();
    journal.end();
    assert!(place.pointers().is_empty());
}

#[test]
fn a_file_in_doubt_stays_and_is_told_once() {
    let place = Place::new();
    let left = place.killed_run();
    fs::remove_file(&left).unwrap();
    fs::write(&left, "mine").unwrap();
    let told = place.remove();
    let [Leftover::Kept { path, reason }] = &told[..] else { panic!("{told:?}") };
    assert_eq!((path.as_path(), *reason), (&*left, "another file has its name now"));
    assert_eq!(place.remove(), []);
    assert!(place.pointers().is_empty());
    assert_eq!(fs::read(&left).unwrap(), b"mine");
}

/// One file of a run cannot be looked at now, so its journal is read again, and again tells nothing of
/// the other.
#[test]
fn what_was_told_is_not_told_again_while_the_run_has_other_files() {
    let place = Place::new();
    let mut journal = place.journal();
    let doubtful = made(&place.run, &mut journal);
    let mounted = place.run.join("mounted");
    fs::create_dir(&mounted).unwrap();
    let hidden = made(&mounted, &mut journal);
    drop(journal);
    fs::write(doubtful.path.as_path(), "mine").unwrap();
    fs::remove_file(doubtful.path.as_path()).unwrap();
    fs::write(doubtful.path.as_path(), "mine").unwrap();
    let unmounted = place.run.join("unmounted");
    fs::rename(&mounted, &unmounted).unwrap();
    assert!(matches!(place.remove()[..], [Leftover::Kept { .. }]));
    assert_eq!((place.remove(), place.pointers().len()), (vec![], 1));
    fs::rename(&unmounted, &mounted).unwrap();
    assert_eq!(place.remove(), [removed(hidden.path.as_path())]);
    assert!(place.pointers().is_empty() && doubtful.path.as_path().exists());
}

/// What is told of one file must not look like a sign that the run lived on.
#[test]
fn a_file_that_a_user_changed_stays_though_another_was_told_of_since() {
    let place = Place::new();
    let mut journal = place.journal();
    let doubtful = made(&place.run, &mut journal);
    let mounted = place.run.join("mounted");
    fs::create_dir(&mounted).unwrap();
    let changed = made(&mounted, &mut journal);
    drop(journal);
    let long_ago = SystemTime::now() - Duration::from_secs(60);
    let path = place.run.join("journal.jsonl");
    File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
    for entry in [&doubtful, &changed] {
        fs::write(entry.path.as_path(), "mine").unwrap();
    }
    let unmounted = place.run.join("unmounted");
    fs::rename(&mounted, &unmounted).unwrap();
    assert!(matches!(place.remove()[..], [Leftover::Kept { .. }]));
    assert!(Journal::resume(&place.run, None).is_err(), "its record would look alive again");
    fs::rename(&unmounted, &mounted).unwrap();
    assert!(matches!(place.remove()[..], [Leftover::Kept { .. }]));
    assert_eq!(fs::read(changed.path.as_path()).unwrap(), b"mine");
    assert!(Journal::resume(&place.run, None).is_ok());
}

#[test]
fn a_run_whose_file_could_not_be_removed_is_left_to_the_next_one() {
    let place = Place::new();
    let mut journal = place.journal();
    let left = made(&place.run, &mut journal);
    journal.end();
    assert_eq!(place.remove(), [removed(left.path.as_path())]);
}

#[test]
fn a_run_that_ended_is_held_and_one_that_lives_or_left_a_file_is_not() {
    let place = Place::new();
    let folder = || Folder::open(&place.run).unwrap();
    let held = || Journal::hold_ended(&folder()).map(|journal| journal.is_some());
    let refused = || held().unwrap_err().to_string();
    assert!(!held().unwrap(), "there is no journal yet");
    let mut journal = place.journal();
    assert_eq!(refused(), "it is still running");
    let left = made(&place.run, &mut journal);
    drop(journal);
    assert_eq!(refused(), format!("'{}' may remain of it", left.path));
    let error = Journal::resume(&place.run, None).unwrap_err().source.to_string();
    assert_eq!(error, format!("'{}' may remain of it", left.path));
    assert_eq!(place.remove(), [removed(left.path.as_path())]);
    // What the next run removed is not in the journal, and looked at again.
    fs::write(place.run.join("journal.jsonl"), "").unwrap();
    assert!(held().unwrap());
    let first = Journal::hold_ended(&folder()).unwrap();
    assert_eq!(refused(), "it is still running");
    drop(first);
    // Another kind of error is one.
    fs::remove_file(place.run.join("journal.jsonl")).unwrap();
    fs::create_dir(place.run.join("journal.jsonl")).unwrap();
    assert!(held().is_err());
}

#[test]
fn a_run_whose_journal_is_missing_gets_one_when_it_goes_on() {
    let place = Place::new();
    let journal = Journal::resume(&place.run, Some(&place.leftovers)).unwrap();
    assert!(place.run.join("journal.jsonl").is_file());
    assert!(place.leftovers.has("run".as_ref()) && !place.leftovers.has("other".as_ref()));
    assert!(Journal::resume(&place.run, None).is_err(), "the run lives");
    assert!(journal.end());
    assert!(!place.leftovers.has("run".as_ref()));
}

#[test]
fn a_journal_ends_only_without_files_and_where_they_can_be_looked_for() {
    let place = Place::new();
    let mut journal = place.journal();
    let left = made(&place.run, &mut journal);
    assert!(!journal.end() && place.leftovers.has("run".as_ref()));
    fs::remove_file(place.run.join("journal.jsonl")).unwrap();
    let mut journal = place.journal();
    journal.remember(&left).unwrap();
    journal.remember(&MadeFile { removed: true, ..left.clone() }).unwrap();
    assert!(journal.end(), "it is remembered as removed");
    fs::remove_file(place.run.join("journal.jsonl")).unwrap();
    // Its directory is not there now: nobody knows of the file.
    let mut journal = place.journal();
    let mark = FileMark::new().unwrap();
    let away = place.run.join("away").join(mark.file_name());
    journal.remember(&MadeFile::announced(&away, mark)).unwrap();
    assert!(!journal.end());
}

#[test]
fn a_pointer_that_a_killed_process_left_half_written_is_forgotten() {
    let place = Place::new();
    drop(place.journal());
    let pointers = place.run.parent().unwrap().join("leftovers");
    let dead = pointers.join(".run-4194999.new");
    let living = pointers.join(format!(".run-{}.new", std::process::id()));
    let strange = pointers.join(".run-x.new");
    [&dead, &living, &strange].into_iter().for_each(|path| fs::write(path, "").unwrap());
    assert_eq!(place.remove(), []);
    assert!(!dead.exists() && living.exists() && strange.exists());
}

#[test]
fn a_pointer_leads_to_the_journal_of_the_run_of_its_name_or_nowhere() {
    let place = Place::new();
    let left = place.killed_run();
    let pointers = place.run.parent().unwrap().join("leftovers");
    let journal = fs::read_to_string(pointers.join("run")).unwrap();
    let events = journal.replace("journal.jsonl", "events.jsonl");
    for (name, text) in [("run", "run/journal.jsonl"), ("run", &events), ("other", &journal)] {
        fs::remove_file(pointers.join("run")).ok();
        fs::write(pointers.join(name), text).unwrap();
        assert_eq!(place.remove(), [], "{name}: {text}");
        fs::remove_file(pointers.join(name)).ok();
    }
    assert!(left.exists());
    fs::write(pointers.join("run"), &journal).unwrap();
    assert_eq!(place.remove(), [removed(&left)]);
    assert!(place.pointers().is_empty());
    // A run folder that was moved or deleted: what it made can no longer be known.
    fs::write(pointers.join("run"), &journal).unwrap();
    fs::rename(&place.run, place.run.with_file_name("moved")).unwrap();
    assert_eq!(place.remove(), []);
    assert!(place.pointers().is_empty());
}

#[test]
fn a_file_that_was_announced_and_never_made_leaves_nothing_to_do() {
    let place = Place::new();
    let mut journal = place.journal();
    let mark = FileMark::new().unwrap();
    journal.remember(&MadeFile::announced(&place.run.join(mark.file_name()), mark)).unwrap();
    journal.end();
    assert!(place.pointers().is_empty());
}

#[test]
fn a_journal_that_names_a_users_file_is_not_obeyed() {
    let place = Place::new();
    let users = place.run.join("users");
    fs::write(&users, "").unwrap();
    let facts = users.metadata().unwrap();
    let mut journal = place.journal();
    let entry = MadeFile::announced(&users, FileMark::new().unwrap());
    journal.remember(&entry).unwrap();
    let identity = Some((facts.dev(), facts.ino()));
    journal.remember(&MadeFile { identity, ..entry }).unwrap();
    drop(journal);
    assert!(matches!(place.remove()[..], [Leftover::Kept { .. }]));
    assert!(users.exists());
}

/// Journals without marks: such names were given by durio itself, others by users.
#[test]
fn of_journals_of_earlier_versions_only_files_of_durios_own_names_are_removed() {
    let place = Place::new();
    let line = |name: &str, is_known: bool| {
        let path = place.run.join(name);
        let facts = File::create_new(&path).unwrap().metadata().unwrap();
        let identity = match is_known {
            true => format!("[{},{}]", facts.dev(), facts.ino()),
            false => "null".to_owned(),
        };
        format!(r#"{{"path":"{}","identity":{identity},"removed":false}}"#, path.display()) + "\n"
    };
    drop(place.journal());
    let names = [("users", true), (".durio-run", true), (".durio-run.log", true)];
    let doubtful = [("announced", false), (".durio-running", true), (".durio-run.new", false)];
    let lines: String =
        names.iter().chain(&doubtful).map(|&(name, known)| line(name, known)).collect();
    fs::write(place.run.join("journal.jsonl"), lines).unwrap();
    let told = place.remove();
    let (gone, kept): (Vec<_>, Vec<_>) =
        told.iter().partition(|leftover| matches!(leftover, Leftover::Removed(_)));
    assert_eq!((gone.len(), kept.len()), (2, 4), "{told:?}");
    for name in ["users", "announced", ".durio-running", ".durio-run.new"] {
        assert!(place.run.join(name).exists(), "{name}");
    }
    assert!(!place.run.join(".durio-run").exists() && place.pointers().is_empty());
}

#[test]
fn a_journal_that_cannot_be_opened_now_is_not_forgotten() {
    let place = Place::new();
    drop(place.journal());
    let [pointer] = place.pointers().try_into().unwrap();
    // A link that leads to itself cannot be opened, not even by root.
    fs::rename(&place.run, place.run.with_file_name("moved")).unwrap();
    std::os::unix::fs::symlink(&place.run, &place.run).unwrap();
    assert_eq!(place.remove(), []);
    assert!(place.pointers().contains(&pointer));
    fs::remove_file(&place.run).unwrap();
    assert_eq!(place.remove(), []);
    assert!(place.pointers().is_empty(), "the run folder is gone");
}

#[test]
fn a_fifo_in_the_place_of_a_journal_holds_nobody_up() {
    let place = Place::new();
    drop(place.journal());
    let journal = place.run.join("journal.jsonl");
    fs::remove_file(&journal).unwrap();
    // Not by a program: until it runs it would hold the locks of all tests beside this one.
    mknodat(CWD, &journal, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert_eq!(place.remove(), []);
}

#[test]
fn a_pointer_that_is_not_written_yet_is_passed_over() {
    let place = Place::new();
    drop(place.journal());
    let [pointer] = place.pointers().try_into().unwrap();
    let unfinished = pointer.with_file_name(".run");
    fs::rename(&pointer, &unfinished).unwrap();
    fs::write(&unfinished, "").unwrap();
    assert_eq!(place.remove(), []);
    assert_eq!(place.pointers(), [unfinished]);
}

#[test]
fn a_journal_of_somebody_else_has_nothing_removed() {
    let place = Place::new();
    let left = place.killed_run();
    let (path, elsewhere) = (place.run.join("journal.jsonl"), place.run.join("elsewhere"));
    // Another user's, by a link of either kind.
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(place.remove().is_empty() && Journal::resume(&place.run, None).is_err());
    fs::remove_file(&path).unwrap();
    fs::hard_link(&elsewhere, &path).unwrap();
    assert!(place.remove().is_empty() && Journal::resume(&place.run, None).is_err());
    fs::remove_file(&elsewhere).unwrap();
    assert_eq!(place.remove(), [removed(&left)]);
}

/// Whoever may write to root's home, or has root run durio with another home, points it elsewhere.
#[test]
fn where_the_pointers_are_a_link_or_somebody_elses_nothing_is_removed() {
    let place = Place::new();
    let (elsewhere, state) = (place.run.join("elsewhere"), place.run.parent().unwrap());
    fs::create_dir(&elsewhere).unwrap();
    // As in /etc: small, and the path of nothing.
    fs::write(elsewhere.join("hostname"), "box\n").unwrap();
    fs::write(elsewhere.join("other"), "/nowhere/other/journal.jsonl2").unwrap();
    let pointers = state.join("leftovers");
    std::os::unix::fs::symlink(&elsewhere, &pointers).unwrap();
    assert_eq!(place.remove(), []);
    fs::remove_file(&pointers).unwrap();
    fs::rename(&elsewhere, &pointers).unwrap();
    assert_eq!(place.remove(), []);
    assert_eq!(fs::read_dir(&pointers).unwrap().count(), 2);
}
