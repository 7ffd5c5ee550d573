//! The journal of a build: what undoes each step is on disk before the step is done.
//!
//! `<folder>/<id>.jsonl` takes the steps and gives them back; doing and undoing are elsewhere.
//!
//! Next to it are `<id>.lock`, locked (flock) while the builder or a program that it started lives,
//! servers aside, and the output of the running program: the answer to a builder that died is found
//! there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::error::BuildError;
use super::identity::LayerIdentity;
use super::kinds::Undo;
use super::place::Values;
use super::system::{absent_or, beginning};

/// The names in a journal do not concern other users, whatever the umask.
const PRIVATE: u32 = 0o600;

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JournalLine {
    Begin(Begin),
    /// About to be done.
    Step(JournalStep),
    /// Done, with its result.
    Done(FinishedStep),
    Undone {
        number: usize,
    },
}

/// The first line: which process builds which stack, and the boot of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begin {
    pub(super) id: String,
    pub(super) stack: String,
    pub(super) pid: u32,
    /// In ticks since the machine started; a later process of the same number has another.
    pub(super) start_ticks: Option<u64>,
    /// The kernel's name of this run of the machine.
    pub(super) boot: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalStep {
    pub(super) number: usize,
    pub(super) undo: Undo,
    /// The placeholder that its output fills in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FinishedStep {
    pub(super) number: usize,
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub(super) values: Values,
    /// The identity of the thing that was made. Journals of older versions have none: what they
    /// made is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) facts: Option<LayerIdentity>,
}

/// A step that was started, and its end, if it came.
#[derive(Debug, Clone)]
pub(super) struct BegunStep {
    pub(super) step: JournalStep,
    /// What it made, if it ended.
    pub(super) identity: Option<LayerIdentity>,
    pub(super) done: bool,
}

impl Begin {
    pub(super) fn of_this_process(id: &str, stack: &str) -> Self {
        let pid = std::process::id();
        let (id, stack) = (id.to_owned(), stack.to_owned());
        Self { id, stack, pid, start_ticks: start_ticks(pid), boot: boot() }
    }

    /// True if the process that wrote it lives.
    pub(super) fn is_alive(&self) -> bool {
        self.boot == boot()
            // Where /proc gives no start times, two unknown starts would pass for the same process.
            && self.start_ticks.is_some()
            && start_ticks(self.pid) == self.start_ticks
            && !is_dying(self.pid)
    }

    pub(super) fn is_of_this_boot(&self) -> bool {
        self.boot.is_some() && self.boot == boot()
    }
}

/// The 22nd field of `/proc/<pid>/stat` (proc_pid_stat(5)); the second may hold blanks.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// It was killed and does nothing more, but a thread of it waits in the kernel for a device.
fn is_dying(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let pending = field("SigPnd:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    // A SIGKILL, of number 9, is there for each thread until the thread sees it (proc_pid_status(5)).
    field("State:").is_some_and(|state| state.starts_with(['Z', 'X']))
        || pending.is_some_and(|mask| mask & 1 << 8 != 0)
}

fn boot() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// A journal that is open for writing, with its lock.
#[derive(Debug)]
pub(super) struct BuildJournal {
    folder: PathBuf,
    id: String,
    file: File,
    lock: File,
}

impl BuildJournal {
    /// A new one; its lock is held before the journal is there.
    pub(super) fn create(folder: &Path, begin: Begin) -> Result<Self, BuildError> {
        let id = begin.id.clone();
        let path = journal_path(folder, &id);
        let failed = |source| BuildError::journal(&path, source);
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = open_lock(folder, &id).map_err(failed)?;
        // In this order, because a concurrent `clean` takes over every journal whose lock is free.
        lock_now(&lock).map_err(failed)?;
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(PRIVATE)
            .open(&path)
            .map_err(failed)?;
        let mut journal = Self { folder: folder.to_owned(), id, file, lock };
        journal.append(&JournalLine::Begin(begin))?;
        // The name of a new file is on disk only with its directory.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(journal)
    }

    /// Takes the journal of a dead builder; nothing if its lock is held, or the journal is gone.
    pub(super) fn take_over(folder: &Path, id: &str) -> io::Result<Option<Self>> {
        let lock = open_lock(folder, id)?;
        if lock_now(&lock).is_err() {
            return Ok(None);
        }
        let path = journal_path(folder, id);
        // A builder that died between lock and journal left the lock alone. With an empty journal
        // it is cleaned like any other.
        let file = OpenOptions::new().append(true).create(true).mode(PRIVATE).open(path)?;
        Ok(Some(Self { folder: folder.to_owned(), id: id.to_owned(), file, lock }))
    }

    pub(super) fn append(&mut self, line: &JournalLine) -> Result<(), BuildError> {
        let write = |file: &mut File| -> io::Result<()> {
            let mut text = serde_json::to_string(line)?;
            text.push('\n');
            file.write_all(text.as_bytes())?;
            // A power cut that takes away a line would leave its step without an undo.
            file.sync_data()
        };
        write(&mut self.file)
            .map_err(|source| BuildError::journal(&journal_path(&self.folder, &self.id), source))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn lock(&self) -> io::Result<File> {
        self.lock.try_clone()
    }

    /// Where the output of a step goes, without an ending.
    pub(super) fn output(&self, step: usize) -> PathBuf {
        self.folder.join(format!("{}-{step}", self.id))
    }

    /// Takes away the output of a step.
    pub(super) fn forget_output(&self, step: usize) {
        // That a program's output stays is not worth an error.
        for ending in ["out", "err"] {
            drop(fs::remove_file(self.output(step).with_extension(ending)));
        }
    }

    /// Everything is undone: nothing is left of the journal.
    pub(super) fn remove(self) -> io::Result<()> {
        let prefix = format!("{}-", self.id);
        for entry in fs::read_dir(&self.folder)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                fs::remove_file(entry.path())?;
            }
        }
        // The lock last: while the journal exists, no other process may take it over.
        absent_or(fs::remove_file(journal_path(&self.folder, &self.id)))?;
        absent_or(fs::remove_file(lock_path(&self.folder, &self.id)))
    }
}

fn journal_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.jsonl"))
}

fn lock_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

fn open_lock(folder: &Path, id: &str) -> io::Result<File> {
    let path = lock_path(folder, id);
    OpenOptions::new().read(true).append(true).create(true).mode(PRIVATE).open(path)
}

fn lock_now(lock: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive)?)
}

/// The ids of all journals in a folder, sorted; also of builds that ended before they had one.
pub(super) fn journals_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_ours = path.extension().is_some_and(|ending| ending == "jsonl" || ending == "lock");
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        ids.extend(stem.filter(|_| is_ours));
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// A journal that was read: the steps that are not undone, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JournalRead {
    pub(super) begin: Begin,
    pub(super) steps: Vec<JournalStep>,
    pub(super) done: Vec<FinishedStep>,
    /// Some steps are undone already.
    pub(super) is_begun_to_be_undone: bool,
}

/// Larger than any journal of a build.
const LARGEST: u64 = 64 << 20;

/// Reads a journal; nothing if its builder died before the first line was written. An unfinished
/// last line is skipped: its step had not started.
pub(super) fn read_journal(folder: &Path, id: &str) -> Result<Option<JournalRead>, String> {
    let path = journal_path(folder, id);
    let mut bytes = Vec::new();
    let file = File::open(&path).map_err(|error| error.to_string())?;
    // The writer of a journal decides what root removes.
    let owner = file.metadata().map_err(|error| error.to_string())?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Err(format!("{} belongs to another user and is ignored", path.display()));
    }
    file.take(LARGEST).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    // The line is written before its step begins, so a torn one belongs to a step that did not.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    if bytes.len() - whole >= usize::try_from(LARGEST).unwrap_or(usize::MAX) {
        return Err("it is too large for a build journal".into());
    }
    let mut told: Option<JournalRead> = None;
    let lines = bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
    for (number, text) in (1..).zip(lines).filter(|(_, text)| !text.is_empty()) {
        let line: JournalLine = serde_json::from_slice(text)
            .map_err(|error| format!("line {number} is not a journal entry: {error}"))?;
        add(&mut told, line).ok_or_else(|| format!("line {number} is out of order"))?;
    }
    Ok(told)
}

fn add(told: &mut Option<JournalRead>, line: JournalLine) -> Option<()> {
    match (line, told.as_mut()) {
        (JournalLine::Begin(begin), None) => {
            *told = Some(JournalRead {
                begin,
                steps: Vec::new(),
                done: Vec::new(),
                is_begun_to_be_undone: false,
            });
        }
        (JournalLine::Step(step), Some(told)) => told.steps.push(step),
        (JournalLine::Done(done), Some(told)) => told.done.push(done),
        (JournalLine::Undone { number }, Some(told)) => {
            told.steps.retain(|step| step.number != number);
            told.is_begun_to_be_undone = true;
        }
        _ => return None,
    }
    Some(())
}

impl JournalRead {
    /// The values of all placeholders, also of the step whose program ended after its builder.
    pub(super) fn values(&self, folder: &Path) -> Values {
        let mut values = Values::new();
        for step in &self.steps {
            let output = folder.join(format!("{}-{}", self.begin.id, step.number));
            let text = beginning(&output.with_extension("out"));
            if let (Some(name), false) = (&step.output, text.trim().is_empty()) {
                values.insert(name.clone(), text.trim().to_owned());
            }
        }
        // The journal wins: an output may have been cut short by the kill.
        values.extend(self.done.iter().flat_map(|done| done.values.clone()));
        values
    }

    /// The steps that are not undone, with the identity of what each made.
    pub(super) fn begun(&self) -> Vec<BegunStep> {
        let of = |step: &JournalStep| {
            let done = self.done.iter().find(|done| done.number == step.number);
            let identity = done.and_then(|done| done.facts.clone());
            BegunStep { step: step.clone(), identity, done: done.is_some() }
        };
        self.steps.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    //! Journals that are torn, empty, foreign, or locked by another process.

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
        assert_eq!(
            of(1).map(|begun| (begun.identity.clone(), begun.done)),
            Some((Some(facts), true))
        );
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
            let expected =
                if length < first { None } else { Some(usize::from(length == whole.len())) };
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
        for bytes in [&b"not json\n"[..], b"\xff\xfe\n", b"{}\n", b"{\"undone\":{\"number\":1}}\n"]
        {
            let folder = with_journal(bytes);
            let outcomes = clean(folder.path());
            assert!(
                matches!(&outcomes[..], [one] if matches!(one.state, CleanState::Unreadable(_)))
            );
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
            let file =
                OpenOptions::new().write(true).open(journal_path(folder.path(), ID)).unwrap();
            file.set_len(length).unwrap();
            read_journal(folder.path(), ID)
        };
        assert_eq!(read(67_108_863), Ok(None));
        let error = read(67_108_864).unwrap_err();
        assert_eq!(error, "it is too large for a build journal");
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
}
