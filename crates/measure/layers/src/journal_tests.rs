//! Journals that are torn, empty, foreign, or held by somebody.

use proptest::prelude::*;

use super::*;
use crate::kinds::RemoveFile;
use crate::{CleanState, clean};

const ID: &str = "abc1234";

fn begun(folder: &Path) -> BuildJournal {
    BuildJournal::create(folder, Begin::of_this_process(ID, "s")).unwrap()
}

fn step(number: usize) -> JournalLine {
    let path = format!("/nowhere/durio/{number}");
    let undo = Undo::RemoveFile(RemoveFile { path });
    JournalLine::Step(JournalStep { number, undo, output: None })
}

fn with_journal(bytes: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("abc1234.jsonl"), bytes).unwrap();
    folder
}

#[test]
fn what_is_written_is_read_back_without_what_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = begun(folder.path());
    let values = Values::from([("zram0".to_owned(), "3".to_owned())]);
    journal.append(&step(1)).unwrap();
    let facts = LayerIdentity::of([("diskseq", Some("9".into()))]);
    let done = FinishedStep { number: 1, values: values.clone(), facts: Some(facts.clone()) };
    journal.append(&JournalLine::Done(done)).unwrap();
    journal.append(&step(2)).unwrap();
    journal.append(&JournalLine::Undone { number: 2 }).unwrap();
    let told = read_journal(folder.path(), ID).unwrap().unwrap();
    assert_eq!(told.steps.iter().map(|step| step.number).collect::<Vec<_>>(), [1]);
    let begun = told.begun();
    let of = |number| begun.iter().find(|begun| begun.step.number == number);
    assert_eq!(of(1).map(|begun| (begun.identity.clone(), begun.done)), Some((Some(facts), true)));
    assert!(of(2).is_none_or(|begun| !begun.done));
    assert_eq!(told.values(folder.path()), values);
    assert!(told.begin.is_alive() && told.begin.is_of_this_boot());
    journal.remove().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Each undo as version 0.1 writes it, a tab, and as it is shown.
const UNDOS: &str = include_str!("journal_undos.jsonl");

#[test]
fn every_undo_that_was_ever_written_is_read_and_written_as_it_was() {
    for (line, shown) in UNDOS.lines().filter_map(|line| line.split_once('\t')) {
        let undo: Undo = serde_json::from_str(line).expect(line);
        assert_eq!(serde_json::to_string(&undo).unwrap(), line);
        assert_eq!(undo.to_string(), shown);
    }
}

/// As version 0.1 writes it.
const JOURNAL: &str = r#"{"begin":{"id":"abc1234","stack":"s","pid":7,"start_ticks":9,"boot":"b"}}
{"step":{"number":1,"undo":{"undo":"remove_directory","path":"/files/durioabc1234"}}}
{"done":{"number":1,"facts":{"birth":"1.000000002","device":"8:1","inode":"5"}}}
{"step":{"number":2,"undo":{"undo":"remove_zram","number":"{zram0}"},"output":"zram0"}}
{"done":{"number":2,"values":{"zram0":"3"},"facts":{"device":"252:3","diskseq":"17"}}}
{"step":{"number":3,"undo":{"undo":"unmount","mount_point":"/run/durio/x","source":"/dev/zram3"}}}
{"undone":{"number":3}}
"#;

#[test]
fn a_journal_is_read_and_written_as_it_was() {
    for line in JOURNAL.lines() {
        let read: JournalLine = serde_json::from_str(line).expect(line);
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
    let folder = with_journal(JOURNAL.as_bytes());
    let told = read_journal(folder.path(), ID).unwrap().unwrap();
    let shown: Vec<String> = told.steps.iter().map(|step| step.undo.to_string()).collect();
    let removed = "write {zram0} to /sys/class/zram-control/hot_remove";
    assert_eq!(shown, ["remove directory /files/durioabc1234", removed]);
    assert_eq!(told.values(folder.path()), Values::from([("zram0".into(), "3".into())]));
    assert!(told.begun().iter().all(|begun| begun.done && begun.identity.is_some()));
    assert!(told.is_begun_to_be_undone);
}

/// The first journals did not say which device a loop and a mount had.
#[test]
fn undos_of_the_first_journals_are_read() {
    for (line, now) in [
        (
            r#"{"undo":"detach_loop","file":"/f/loop0"}"#,
            r#"{"undo":"detach_loop","file":"/f/loop0","device":""}"#,
        ),
        (
            r#"{"undo":"unmount","mount_point":"/run/durio/x"}"#,
            r#"{"undo":"unmount","mount_point":"/run/durio/x","source":""}"#,
        ),
    ] {
        let undo: Undo = serde_json::from_str(line).expect(line);
        assert_eq!(serde_json::to_string(&undo).unwrap(), now);
    }
}

#[test]
fn a_last_line_that_was_cut_off_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    begun(folder.path()).append(&step(1)).unwrap();
    let path = folder.path().join("abc1234.jsonl");
    let whole = fs::read(&path).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let told = read_journal(folder.path(), ID).unwrap();
        let steps = told.map(|told| told.steps.len());
        let expected = if length < first { None } else { Some(usize::from(length == whole.len())) };
        assert_eq!(steps, expected, "{length}");
    }
}

#[test]
fn an_id_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    drop(begun(folder.path()));
    let again = BuildJournal::create(folder.path(), Begin::of_this_process(ID, "s"));
    assert!(matches!(again, Err(BuildError::Journal { .. })));
}

#[test]
fn another_process_of_the_same_number_or_another_boot_is_not_the_builder() {
    let begin = Begin::of_this_process(ID, "s");
    assert!(begin.is_alive());
    let later = begin.start_ticks.map(|ticks| ticks + 1);
    assert!(!Begin { start_ticks: later, ..begin.clone() }.is_alive());
    assert!(!Begin { start_ticks: None, ..begin.clone() }.is_alive());
    assert!(!Begin { boot: Some("another".into()), ..begin.clone() }.is_alive());
    assert!(!Begin { boot: None, ..begin }.is_of_this_boot());
}

/// Whoever started it has not asked how it ended, so it is still there.
#[test]
fn a_process_that_was_killed_is_not_alive_though_it_is_there() {
    let mut killed = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = killed.id();
    let begin = Begin { pid, start_ticks: start_ticks(pid), ..Begin::of_this_process(ID, "s") };
    assert!(begin.is_alive());
    killed.kill().unwrap();
    while begin.is_alive() {
        std::thread::yield_now();
    }
    assert_eq!(start_ticks(pid), begin.start_ticks);
    killed.wait().unwrap();
}

#[test]
fn a_builder_that_died_before_its_first_line_leaves_nothing_to_report() {
    let folder = with_journal(b"{\"begin\":{\"id\":\"abc");
    fs::write(folder.path().join("other.lock"), "").unwrap();
    assert_eq!(clean(folder.path()), []);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_journal_that_is_none_is_told_and_left() {
    for bytes in [&b"not json\n"[..], b"\xff\xfe\n", b"{}\n", b"{\"undone\":{\"number\":1}}\n"] {
        let folder = with_journal(bytes);
        let outcomes = clean(folder.path());
        assert!(matches!(&outcomes[..], [one] if matches!(one.state, CleanState::Unreadable(_))));
        assert_eq!(fs::read(folder.path().join("abc1234.jsonl")).unwrap(), bytes);
    }
}

#[test]
fn a_folder_that_is_not_there_has_nothing_to_clean() {
    assert_eq!(clean(Path::new("/no/such/folder/of/durio")), []);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let folder = with_journal(&bytes);
        drop(read_journal(folder.path(), ID));
    }
}

#[test]
fn a_journal_of_another_user_is_not_heeded() {
    if !rustix::process::geteuid().is_root() {
        let name = "a_journal_of_another_user_is_not_heeded";
        return durio_block::testkit::note_skip(name, &"only root can give a file away");
    }
    let folder = tempfile::tempdir().unwrap();
    drop(begun(folder.path()));
    let path = folder.path().join(format!("{ID}.jsonl"));
    std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
    let error = read_journal(folder.path(), ID).unwrap_err();
    assert!(error.contains("belongs to another user"), "{error}");
}

#[test]
fn a_journal_without_a_line_in_its_first_64_mib_is_none() {
    let read = |length| {
        let folder = with_journal(b"");
        let file = OpenOptions::new().write(true).open(journal_path(folder.path(), ID)).unwrap();
        file.set_len(length).unwrap();
        read_journal(folder.path(), ID)
    };
    assert_eq!(read(67_108_863), Ok(None));
    let error = read(67_108_864).unwrap_err();
    assert_eq!(error, "it is too large for a journal of a build");
}

#[test]
fn a_journal_and_its_lock_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let _journal = begun(folder.path());
    for path in [journal_path(folder.path(), ID), lock_path(folder.path(), ID)] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{}", path.display());
    }
}
