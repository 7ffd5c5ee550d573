//! Takes down builds, each from its last step: the one of a live builder, and those that killed
//! builders left behind ([`clean`]).
//!
//! A [`TakeDown`] takes the started steps with the journal's record of each; it returns the outcome of
//! each, which the caller writes to the journal. [`clean`] does so for each journal in a folder, and
//! returns a [`CleanOutcome`] of it. Undoing one step is in [`super::undo`].
//!
//! A stack is a tower: when a step cannot be undone, the layers below it are in use and stay.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::identity::LayerIdentity;
use super::journal::{
    BegunStep, BuildJournal, JournalLine, JournalRead, journals_in, read_journal,
};
use super::kinds::Undo;
use super::place::{Values, tag_of};
use super::real_system::RealSystem;
use super::system::System;
use super::undo::{UndoContext, Undoer, Undone};

/// Observations about the steps above.
#[derive(Debug)]
pub(super) struct TakeDown<'a> {
    pub(super) tag: &'a str,
    pub(super) same_boot: bool,
    /// The builder itself takes down.
    pub(super) live: bool,
    /// A layer above held the devices below until it was taken down just now.
    held: bool,
    broken: Option<String>,
}

impl<'a> TakeDown<'a> {
    pub(super) const fn new(tag: &'a str, same_boot: bool, live: bool) -> Self {
        Self { tag, same_boot, live, held: false, broken: None }
    }

    /// An earlier clean took down layers above; those below may have been used since.
    pub(super) fn went_on_after(mut self, earlier: bool) -> Self {
        self.broken = earlier
            .then(|| "it may have been used since an earlier clean that did not finish".to_owned());
        self
    }

    /// Releases processes that wait for a dead server.
    pub(super) fn release(&self, undoer: &mut Undoer<'_>, steps: &[BegunStep], values: &Values) {
        for (place, begun) in steps.iter().enumerate() {
            let undo = &begun.step.undo.filled(values);
            let below = steps.get(..place).unwrap_or_default();
            // If that fails, the undo itself reports why.
            let _ = undo.step().release(undoer, &self.known(begun, below, undo, values));
        }
    }

    /// Undoes the last of the steps; the others are those below it.
    pub(super) fn undo_last(
        &mut self,
        undoer: &mut Undoer<'_>,
        steps: &[BegunStep],
        values: &Values,
    ) -> Result<Undone, String> {
        let Some((begun, below)) = steps.split_last() else { return Ok(Undone::Gone) };
        let undo = &begun.step.undo.filled(values);
        let known = self.known(begun, below, undo, values);
        let undone = undoer.carry_out(undo.step(), &known)?;
        self.saw(begun, &undone);
        Ok(undone)
    }

    fn known<'k>(
        &'k self,
        begun: &'k BegunStep,
        below: &'k [BegunStep],
        undo: &'k Undo,
        values: &'k Values,
    ) -> UndoContext<'k> {
        let made = |path| made(below, path);
        UndoContext {
            values,
            tag: self.tag,
            recorded: begun.identity.as_ref(),
            folder: undo.step().folder().and_then(made),
            file: undo.step().file().and_then(made),
            done: begun.done,
            same_boot: self.same_boot,
            live: self.live,
            // While an array or a mounted filesystem held them, no other process could open the
            // devices exclusively.
            vouched: self.live || self.held,
            broken: self.broken.as_deref(),
        }
    }

    fn saw(&mut self, begun: &BegunStep, undone: &Undone) {
        let undo = &begun.step.undo;
        let holds = undo.step().holds_devices();
        match undone {
            Undone::Done => self.held |= holds,
            // A clean that was itself interrupted, or a person: in between the devices were free
            // for use.
            Undone::Gone if holds && begun.done => {
                self.broken =
                    Some(format!("another process ran `{undo}` and may have used it since"));
            }
            Undone::LeftAlone(_) if holds => {
                self.broken = Some(format!("`{undo}` was not done"));
            }
            // Whatever its user was, the devices below were free since its end.
            Undone::Remains => self.held = false,
            Undone::Gone | Undone::LeftAlone(_) => (),
        }
    }
}

/// What a step made at the path, as the journal has it.
fn made<'b>(steps: &'b [BegunStep], path: &str) -> Option<&'b LayerIdentity> {
    let mut steps = steps.iter();
    steps.find(|begun| begun.step.undo.step().made_path() == Some(path))?.identity.as_ref()
}

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
            let what = "a program that the dead builder started is still running; try again later";
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
