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
        return Err(format!("{} belongs to another user; nothing it says is done", path.display()));
    }
    file.take(LARGEST).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    // The line is written before its step begins, so a torn one belongs to a step that did not.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    if bytes.len() - whole >= usize::try_from(LARGEST).unwrap_or(usize::MAX) {
        return Err("it is too large for a journal of a build".into());
    }
    let mut told: Option<JournalRead> = None;
    let lines = bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
    for (number, text) in (1..).zip(lines).filter(|(_, text)| !text.is_empty()) {
        let line: JournalLine = serde_json::from_slice(text)
            .map_err(|error| format!("line {number} is not of a journal: {error}"))?;
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
#[path = "journal_tests.rs"]
mod tests;
