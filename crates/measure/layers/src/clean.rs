//! Undoes what killed builders left behind.
//!
//! Returns a [`CleanOutcome`] for each journal in the folder. Undoing one step is in
//! [`super::undo`].

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::journal::{BuildJournal, JournalLine, JournalRead, journals_in, read_journal};
use super::place::tag_of;
use super::real_system::RealSystem;
use super::system::System;
use super::take_down::TakeDown;
use super::undo::{Undoer, Undone};

/// What became of one journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanOutcome {
    /// The id of the build.
    pub id: String,
    /// The stack's name; empty if the journal does not say.
    pub stack: String,
    pub state: CleanState,
}

/// The fate of a builder's layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CleanState {
    /// Its builder lives; nothing was touched.
    Alive { pid: u32 },
    /// All is undone and the journal is gone.
    Cleaned {
        /// Undos that were done, in order; those with nothing left to undo are omitted.
        undone: Vec<String>,
        /// Things left untouched because the builder did not make them, with the reason.
        left_alone: Vec<String>,
    },
    /// Something could not be undone and stays in the journal.
    Kept {
        /// Undos that were done, in order.
        undone: Vec<String>,
        /// Things left untouched because the builder did not make them, with the reason.
        left_alone: Vec<String>,
        /// Undos that failed, with the reason.
        failures: Vec<String>,
    },
    /// The journal cannot be read.
    Unreadable(String),
}

/// Undoes the steps of dead builders whose journals are in the folder; a folder that is not there
/// has none.
pub fn clean(journals: &Path) -> Vec<CleanOutcome> {
    clean_with(journals, &|lock| Box::new(RealSystem::new(lock)))
}

/// Makes a machine that passes the lock on to the programs it runs.
pub(super) type MakeSystem<'a> = &'a dyn Fn(File) -> Box<dyn System>;

pub(super) fn clean_with(journals: &Path, system: MakeSystem<'_>) -> Vec<CleanOutcome> {
    let ids = match journals_in(journals) {
        Ok(ids) => ids,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let state = CleanState::Unreadable(error.to_string());
            return vec![CleanOutcome { id: String::new(), stack: String::new(), state }];
        }
    };
    ids.iter().filter_map(|id| clean_one(journals, id, system)).collect()
}

/// Nothing for a build that ended before its journal had a line.
fn clean_one(folder: &Path, id: &str, system: MakeSystem<'_>) -> Option<CleanOutcome> {
    let told = read_journal(folder, id);
    // A first look without the lock, only to know the owner: the journal is read again under it.
    let begin = told.as_ref().ok().and_then(|told| told.as_ref()).map(|told| told.begin.clone());
    let stack = begin.as_ref().map(|begin| begin.stack.clone()).unwrap_or_default();
    let outcome = |state| Some(CleanOutcome { id: id.to_owned(), stack, state });
    if let Ok(Some(told)) = told.as_ref().map(|told| told.as_ref()) {
        release_users(folder, told, system);
    }
    let alive = begin.filter(|begin| begin.is_alive()).map(|begin| begin.pid);
    let journal = match take_over(folder, id, alive.is_some()) {
        Ok(Some(journal)) => journal,
        Ok(None) => return outcome(still_held(alive)),
        Err(error) => return outcome(CleanState::Unreadable(error.to_string())),
    };
    // Read again: until now the journal could grow, or another process could clean it.
    match read_journal(folder, id) {
        Ok(Some(told)) => {
            let machine = journal.lock().map(system);
            outcome(match machine {
                Ok(mut machine) => undo(folder, journal, &told, machine.as_mut()),
                Err(error) => CleanState::Unreadable(error.to_string()),
            })
        }
        // The first line comes before anything else: without it nothing was built.
        Ok(None) => journal
            .remove()
            .err()
            .and_then(|error| outcome(CleanState::Unreadable(error.to_string()))),
        Err(why) => outcome(CleanState::Unreadable(why)),
    }
}

/// A builder that was killed holds its lock as long as it waits for a device whose server was killed too.
fn release_users(folder: &Path, told: &JournalRead, system: MakeSystem<'_>) {
    // No program is run that would need the lock.
    let Some(no_lock) = File::open("/dev/null").ok().filter(|_| !told.begin.is_alive()) else {
        return;
    };
    let (tag, mut system) = (tag_of(&told.begin.id), system(no_lock));
    let output = folder.join(format!("{}-{}", told.begin.id, usize::MAX));
    let take_down = TakeDown::new(&tag, told.begin.is_of_this_boot(), false);
    let mut undoer = Undoer { system: system.as_mut(), output };
    take_down.release(&mut undoer, &told.begun(), &told.values(folder));
}

fn still_held(alive: Option<u32>) -> CleanState {
    alive.map_or_else(
        || {
            let what = "a program that the dead builder started still runs; try again later";
            CleanState::Kept {
                undone: Vec::new(),
                left_alone: Vec::new(),
                failures: vec![what.to_owned()],
            }
        },
        |pid| CleanState::Alive { pid },
    )
}

// A program of a dead builder is given so long to end.
const TRIES: u32 = 300;
const PAUSE: Duration = Duration::from_millis(100);

fn take_over(folder: &Path, id: &str, is_alive: bool) -> io::Result<Option<BuildJournal>> {
    for _ in 0..TRIES {
        let journal = BuildJournal::take_over(folder, id)?;
        // A living builder holds its lock as long as its bench runs, which may be hours.
        if journal.is_some() || is_alive {
            return Ok(journal);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(None)
}

/// Undoes all steps, the last first. Layers below a failed step are in use, and stay in the journal
/// with it.
fn undo(
    folder: &Path,
    mut journal: BuildJournal,
    told: &JournalRead,
    system: &mut dyn System,
) -> CleanState {
    let values = told.values(folder);
    let (mut undone, mut left_alone, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let output: PathBuf = journal.output(usize::MAX);
    let mut undoer = Undoer { system, output };
    let tag = tag_of(&told.begin.id);
    let mut take_down = TakeDown::new(&tag, told.begin.is_of_this_boot(), false)
        .went_on_after(told.is_begun_to_be_undone);
    let mut begun = told.begun();
    take_down.release(&mut undoer, &begun, &values);
    while let Some(last) = begun.last() {
        let (number, undo) = (last.step.number, last.step.undo.filled(&values));
        let carried = take_down.undo_last(&mut undoer, &begun, &values).and_then(|what| {
            let line = JournalLine::Undone { number };
            journal.append(&line).map(|()| what).map_err(|error| error.to_string())
        });
        match carried {
            Ok(Undone::Done | Undone::Remains) => undone.push(undo.to_string()),
            Ok(Undone::Gone) => (),
            Ok(Undone::LeftAlone(why)) => left_alone.push(format!("{undo}: {why}")),
            Err(why) => {
                failures.push(format!("{undo}: {why}"));
                break;
            }
        }
        begun.pop();
    }
    if failures.is_empty() {
        failures.extend(journal.remove().err().map(|error| format!("the journal: {error}")));
    }
    match failures.is_empty() {
        true => CleanState::Cleaned { undone, left_alone },
        false => CleanState::Kept { undone, left_alone, failures },
    }
}
