//! Builds a stack layer by layer and takes it down again.
//!
//! A [`Builder`] makes the layers of a declared stack, keeps a journal of them, and at the end
//! restores the machine. Single steps are in [`super::step`], their undoing in [`super::undo`].

use std::path::{Path, PathBuf};
use std::time::Instant;

use durio_base::Nanos;

use super::error::BuildError;
use super::identity::LayerIdentity;
use super::journal::{Begin, BegunStep, BuildJournal, FinishedStep, JournalLine, JournalStep};
use super::needs::missing;
use super::permit::Grounds;
use super::place::{BuildPlace, Values};
use super::plan::{BuildPlan, plan};
use super::real_system::RealSystem;
use super::step::{Action, BuildCommand, BuildOptions, BuildProgress, Stepper};
use super::system::System;
use super::take_down::TakeDown;
use super::undo::{UndoContext, Undoer, Undone};
use crate::DeclaredStack;

/// A layer that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltLayer {
    /// Which, from zero at the bottom.
    pub index: usize,
    /// Its devices; of a filesystem those that it stands on.
    pub devices: Vec<PathBuf>,
    /// Where the filesystem is mounted; nothing for devices.
    pub mount: Option<PathBuf>,
    /// What ran, with all names filled in.
    pub commands: Vec<String>,
    /// How long it took.
    pub taken: Nanos,
}

/// Builds one stack. In every case, dropping it tears down the built layers.
#[derive(Debug)]
pub struct Builder<'a> {
    stack: String,
    /// The beginning of every name.
    tag: String,
    planned: BuildPlan,
    /// What may be written to.
    grounds: Grounds,
    options: BuildOptions<'a>,
    system: Box<dyn System>,
    /// Gone once everything is undone.
    journal: Option<BuildJournal>,
    values: Values,
    /// The steps to undo, in the order of building.
    begun: Vec<BegunStep>,
    next_command: usize,
    next_layer: usize,
}

impl<'a> Builder<'a> {
    /// Starts a build: checks the stack, fails if anything is missing, and creates the journal
    /// `<journals>/<id>.jsonl`. Changes nothing else yet.
    ///
    /// # Errors
    /// If the declaration is wrong, something is missing, or the journal cannot be written.
    pub fn new(
        stack: &DeclaredStack,
        place: &BuildPlace,
        journals: &Path,
        options: BuildOptions<'a>,
    ) -> Result<Self, BuildError> {
        let planned = plan(stack, place)?;
        // Before the journal is made: a machine that lacks something is left without a trace of the
        // try.
        let missing = missing(stack);
        if !missing.is_empty() {
            return Err(BuildError::Missing { stack: stack.name.clone(), missing });
        }
        let begin = Begin::of_this_process(&place.id, &stack.name);
        let journal = BuildJournal::create(journals, begin)?;
        let lock = journal.lock().map_err(|source| BuildError::journal(journals, source))?;
        Ok(Self::on(Box::new(RealSystem::new(lock)), &stack.name, planned, journal, options))
    }

    /// On any machine, be it a scripted one.
    pub(super) fn on(
        system: Box<dyn System>,
        stack: &str,
        planned: BuildPlan,
        journal: BuildJournal,
        options: BuildOptions<'a>,
    ) -> Self {
        Self {
            stack: stack.to_owned(),
            tag: super::place::tag_of(journal.id()),
            planned,
            grounds: Grounds::default(),
            options,
            system,
            journal: Some(journal),
            values: Values::new(),
            begun: Vec::new(),
            next_command: 0,
            next_layer: 0,
        }
    }

    /// Builds the next layer; nothing if all are built.
    ///
    /// # Errors
    /// If a command fails, something came up wrong or the stop flag is set; everything that was
    /// built is torn down by then. What could not be torn down is in the error too, and stays in
    /// the journal.
    pub fn build_next(&mut self) -> Result<Option<BuiltLayer>, BuildError> {
        let index = self.next_layer;
        if index >= self.planned.layers.len() {
            return Ok(None);
        }
        let started = Instant::now();
        match self.run_layer(index) {
            Ok(commands) => {
                self.next_layer += 1;
                Ok(Some(self.built(index, commands, started)))
            }
            Err(error) => {
                // No further layer is built on a stack that is being taken down.
                self.next_layer = usize::MAX;
                match self.undo_all() {
                    Ok(()) => Err(error),
                    Err(left) => Err(error.and_not_torn_down(left)),
                }
            }
        }
    }

    /// Takes everything down, the last first.
    ///
    /// # Errors
    /// What could not be undone; it stays in the journal.
    pub fn tear_down(mut self) -> Result<(), BuildError> {
        self.next_layer = usize::MAX;
        self.undo_all().map_err(BuildError::NotTornDown)
    }

    fn built(&self, index: usize, commands: Vec<String>, started: Instant) -> BuiltLayer {
        let planned = self.planned.layers.get(index).cloned().unwrap_or_default();
        let filled = |name: &String| PathBuf::from(super::place::filled(name, &self.values));
        BuiltLayer {
            index,
            devices: planned.devices.iter().map(filled).collect(),
            mount: planned.mount.map(PathBuf::from),
            commands,
            taken: Nanos::new(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)),
        }
    }

    fn run_layer(&mut self, index: usize) -> Result<Vec<String>, BuildError> {
        let mut ran = Vec::new();
        while let Some(command) = self.planned.commands.get(self.next_command).cloned() {
            if command.layer != index {
                break;
            }
            if (self.options.stop)() {
                return Err(BuildError::Stopped(self.stack.clone()));
            }
            ran.push(self.run_command(self.next_command, &command)?);
            self.next_command += 1;
        }
        // The flag may have been set while the last command ran.
        if (self.options.stop)() {
            return Err(BuildError::Stopped(self.stack.clone()));
        }
        Ok(ran)
    }

    /// Undo to disk, step, outcome to disk.
    fn run_command(&mut self, number: usize, command: &BuildCommand) -> Result<String, BuildError> {
        let action = command.action.filled(&self.values);
        let text = action.to_string();
        (self.options.progress)(BuildProgress::Command(&text));
        self.begin(number, command)?;
        let output = self.output(number);
        let mut stepper = Stepper {
            system: self.system.as_mut(),
            grounds: &mut self.grounds,
            output,
            options: self.options,
            stack: &self.stack,
        };
        let answer = stepper.carry_out(&action)?;
        if let (Some(name), Some(answer)) = (action.output(), answer) {
            self.values.insert(name.clone(), answer);
        }
        self.finish(number, &action)?;
        Ok(text)
    }

    fn begin(&mut self, number: usize, command: &BuildCommand) -> Result<(), BuildError> {
        let Some(undo) = &command.undo else { return Ok(()) };
        let undo = undo.filled(&self.values);
        let step = JournalStep { number, undo, output: command.action.output().cloned() };
        // On disk before the step runs: if we are killed in between, the journal holds an undo that
        // finds nothing, never a device without an undo.
        self.append(&JournalLine::Step(step.clone()))?;
        self.begun.push(BegunStep { step, identity: None, done: false });
        Ok(())
    }

    fn finish(&mut self, number: usize, action: &Action) -> Result<(), BuildError> {
        if self.begun.last().is_none_or(|begun| begun.step.number != number) {
            self.forget_output(number);
            return Ok(());
        }
        // Looked up at once: the later, the likelier that the name is another thing's.
        let facts = self.identity_of_last();
        if let Some(begun) = self.begun.last() {
            let step = begun.step.undo.step();
            // Before the identity is kept: recording something that another process made would
            // later prove it to be ours.
            let checked = step.check_made(&self.grounds, facts.as_ref());
            checked.map_err(BuildError::Failed)?;
        }
        if let Some(begun) = self.begun.last_mut() {
            begun.identity.clone_from(&facts);
            begun.done = true;
        }
        let value = |name: &String| Some((name.clone(), self.values.get(name)?.clone()));
        let values = action.output().and_then(value).into_iter().collect();
        // The output of the program goes only once its answer is in the journal.
        self.append(&JournalLine::Done(FinishedStep { number, values, facts }))?;
        self.forget_output(number);
        Ok(())
    }

    /// The identity of what the last step made.
    fn identity_of_last(&mut self) -> Option<LayerIdentity> {
        let undo = self.begun.last()?.step.undo.filled(&self.values);
        if let Some(path) = undo.step().made_path() {
            // The identity at its making, even if another thing has the name by now.
            return self.grounds.path(Path::new(path)).cloned();
        }
        let known = UndoContext { done: true, ..UndoContext::new(&self.values, &self.tag) };
        let output = self.output(usize::MAX);
        let mut undoer = Undoer { system: self.system.as_mut(), output };
        undoer.prover(&known).identity(undo.step())
    }

    fn append(&mut self, line: &JournalLine) -> Result<(), BuildError> {
        self.journal.as_mut().map_or(Ok(()), |journal| journal.append(line))
    }

    fn output(&self, number: usize) -> PathBuf {
        self.journal.as_ref().map(|journal| journal.output(number)).unwrap_or_default()
    }

    fn forget_output(&self, number: usize) {
        if let Some(journal) = &self.journal {
            journal.forget_output(number);
        }
    }

    /// Undoes all started steps, the last first. Layers below a step that cannot be undone are in
    /// use, and stay with it.
    fn undo_all(&mut self) -> Result<(), Vec<String>> {
        let mut failures = Vec::new();
        let tag = self.tag.clone();
        // While we live no other process can take the devices: all that was made is vouched for.
        let mut take_down = TakeDown::new(&tag, true, true);
        let output = self.output(usize::MAX);
        let mut undoer = Undoer { system: self.system.as_mut(), output };
        take_down.release(&mut undoer, &self.begun, &self.values);
        while failures.is_empty() && !self.begun.is_empty() {
            if let Err(why) = self.undo_last(&mut take_down) {
                failures
                    .extend(self.begun.last().map(|begun| format!("{}: {why}", begun.step.undo)));
            }
            self.begun.pop();
        }
        self.begun.clear();
        if !failures.is_empty() {
            // Closed and not removed: it is the next clean's.
            drop(self.journal.take());
            return Err(failures);
        }
        let removed = self.journal.take().map_or(Ok(()), BuildJournal::remove);
        removed.map_err(|error| vec![format!("the journal cannot be removed: {error}")])
    }

    fn undo_last(&mut self, take_down: &mut TakeDown<'_>) -> Result<(), String> {
        let Some(begun) = self.begun.last() else { return Ok(()) };
        let number = begun.step.number;
        let mut values = self.values.clone();
        if let Some(name) = &begun.step.output {
            // The program may have answered before it failed.
            values.entry(name.clone()).or_insert_with(|| answer_in(&self.output(number)));
        }
        let undo = begun.step.undo.filled(&values).to_string();
        (self.options.progress)(BuildProgress::Undo(&undo));
        let output = self.output(usize::MAX);
        let mut undoer = Undoer { system: self.system.as_mut(), output };
        let undone = take_down.undo_last(&mut undoer, &self.begun, &values)?;
        if let Undone::LeftAlone(why) = &undone {
            (self.options.progress)(BuildProgress::LeftAlone { undo: &undo, why });
        }
        self.append(&JournalLine::Undone { number }).map_err(|error| error.to_string())
    }
}

fn answer_in(output: &Path) -> String {
    super::system::beginning(&output.with_extension("out")).trim().to_owned()
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // Failed undos stay in the journal; a drop cannot report them.
        drop(self.undo_all());
    }
}

#[cfg(test)]
mod tests;
