//! How a step is undone, and carrying that out.
//!
//! Takes an [`Undo`], the values of its placeholders and the journal's record of the thing; returns
//! the outcome. The undos of one kind of layer are in [`crate::kinds`]; whether the thing is ours
//! is decided in [`crate::proof`].

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::command::in_shell;
use crate::identity::LayerIdentity;
use crate::kinds::Undo;
use crate::permit::{Grounds, PermittedCommand, PermittedWrite, Proven};
use crate::place::Values;
use crate::proof::{LiveThing, OwnershipVerdict, Prover, ThingState, backing_of};
use crate::system::{System, absent_or};

/// Why something could not be undone, or not be found out; it may be later.
pub(crate) type UndoFailure = String;

/// How one thing that a step made is found, proven to be ours, and undone.
pub(crate) trait UndoStep {
    /// As it is shown.
    fn text(&self) -> String;
    /// Fills in the placeholders that are known.
    fn fill(&mut self, _values: &Values) {}
    /// The thing that has the name; the journal keeps its identity.
    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure>;
    /// The evidence against a thing whose step started and never ended: the journal has no identity
    /// of it. Only what this build alone can have made counts in its favour.
    fn fault_of_begun(&self, prover: &Prover<'_>, found: &LiveThing) -> Option<String>;
    /// Conditions in addition to its identity.
    fn further(
        &self,
        _prover: &mut Prover<'_>,
        _found: &LiveThing,
    ) -> Result<ThingState, UndoFailure> {
        Ok(ThingState::Ours(Vec::new()))
    }
    /// The state after a restart of the machine: things in memory are gone, and another thing may
    /// have the name. Ours, if it is known by the same identity as before.
    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::Gone
    }
    /// Releases processes that wait for something that a dead process served, before anything is
    /// undone: otherwise the layers on it could not be taken down.
    fn release(
        &self,
        _undoer: &mut Undoer<'_>,
        _known: &UndoContext<'_>,
    ) -> Result<(), UndoFailure> {
        Ok(())
    }
    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure>;
    /// Removes leftovers around the thing, whether the thing itself was there or not.
    fn tidy(&self, _undoer: &mut Undoer<'_>, _known: &UndoContext<'_>) -> Result<(), UndoFailure> {
        Ok(())
    }
    /// True if the devices below cannot have been used otherwise while it existed.
    fn holds_devices(&self) -> bool {
        false
    }
    /// The file or directory that its step itself makes.
    fn made_path(&self) -> Option<&str> {
        None
    }
    /// The folder of the build that the thing, or a part of it, is in.
    fn folder(&self) -> Option<&str> {
        None
    }
    /// The file of the build that the thing stands on.
    fn file(&self) -> Option<&str> {
        None
    }
    /// Whether a living builder's new thing is as intended; or the fault.
    fn check_made(&self, _grounds: &Grounds, _made: Option<&LayerIdentity>) -> Result<(), String> {
        Ok(())
    }
}

/// The known facts about a step that is undone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UndoContext<'a> {
    pub(crate) values: &'a Values,
    /// The beginning of every name of the build.
    pub(crate) tag: &'a str,
    /// What the step made, as the journal has it.
    pub(crate) recorded: Option<&'a LayerIdentity>,
    /// The folder of a file, as the journal has it.
    pub(crate) folder: Option<&'a LayerIdentity>,
    /// The file behind a loop device, as the journal has it.
    pub(crate) file: Option<&'a LayerIdentity>,
    /// The step's end is in the journal.
    pub(crate) done: bool,
    /// The machine has not been restarted since; disks in memory are gone otherwise.
    pub(crate) same_boot: bool,
    /// The builder itself takes down: no other process could get in between.
    pub(crate) live: bool,
    /// A layer of the build held the devices below it until now.
    pub(crate) vouched: bool,
    /// Why `vouched` does not hold for them, whatever else does.
    pub(crate) broken: Option<&'a str>,
}

impl<'a> UndoContext<'a> {
    /// For a thing that a living builder has just made.
    pub(crate) const fn new(values: &'a Values, tag: &'a str) -> Self {
        Self {
            values,
            tag,
            recorded: None,
            folder: None,
            file: None,
            done: false,
            same_boot: true,
            live: true,
            vouched: true,
            broken: None,
        }
    }
}

/// What became of a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undone {
    /// It was there, it was ours, and it is undone.
    Done,
    /// It had ended by itself, and its remains were removed; it no longer held anything below it.
    Remains,
    /// Nothing was there.
    Gone,
    /// Something is there and was not touched, with the reason.
    LeftAlone(String),
}

/// Carries out undos on a machine.
#[derive(Debug)]
pub(crate) struct Undoer<'a> {
    pub(crate) system: &'a mut dyn System,
    /// Where the output of programs goes.
    pub(crate) output: PathBuf,
}

// Probing programs may hold a device open for a moment; retried for this long.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);

impl Undoer<'_> {
    pub(crate) fn carry_out(
        &mut self,
        undo: &Undo,
        known: &UndoContext<'_>,
    ) -> Result<Undone, UndoFailure> {
        let step = undo.step();
        let undone = match self.prover(known).prove(step)? {
            OwnershipVerdict::NotOurs(why) => return Ok(Undone::LeftAlone(why)),
            OwnershipVerdict::Gone => Undone::Gone,
            OwnershipVerdict::Ours(proven) => step.undo(self, &proven)?,
        };
        // Also where the thing itself is gone: a restart takes an array away and leaves its link
        // and bitmap.
        step.tidy(self, known)?;
        Ok(undone)
    }

    pub(crate) fn prover<'p>(&'p mut self, known: &'p UndoContext<'p>) -> Prover<'p> {
        Prover { system: self.system, output: self.output.clone(), known }
    }

    /// Runs a program until the thing is gone, for a while.
    pub(crate) fn run_until(
        &mut self,
        proven: &Proven,
        program: &str,
        words: &[&str],
        is_gone: impl Fn(&dyn System) -> bool,
    ) -> Result<Undone, UndoFailure> {
        let mut failure = String::new();
        for _ in 0..TRIES {
            let ran = self.run(proven, program, words);
            // Not by its exit code: umount and mdadm fail if another process was faster, and
            // losetup succeeds before the kernel is done.
            if is_gone(self.system) {
                return Ok(Undone::Done);
            }
            failure = ran.err().unwrap_or_else(|| "it is still there".into());
            self.system.pause(PAUSE);
        }
        Err(format!("`{}`: {failure}", in_shell(program, words)))
    }

    pub(crate) fn run(
        &mut self,
        proven: &Proven,
        program: &str,
        words: &[&str],
    ) -> Result<String, UndoFailure> {
        self.run_permitted(&PermittedCommand::undoing(proven, program, words))
    }

    /// Its standard output, or what went wrong.
    pub(crate) fn run_permitted(
        &mut self,
        command: &PermittedCommand,
    ) -> Result<String, UndoFailure> {
        let ended = self.system.run(command, &self.output).map_err(|error| error.to_string())?;
        match ended.failure {
            None => Ok(ended.stdout),
            Some(how) => Err(format!("{how}: {}", ended.stderr.trim())),
        }
    }

    pub(crate) fn write_until_gone(
        &mut self,
        proven: &Proven,
        file: &str,
        thing: &str,
    ) -> Result<Undone, UndoFailure> {
        let write = PermittedWrite::undoing(proven, Path::new(file), proven.target());
        let mut failure = String::new();
        for _ in 0..TRIES {
            let written = self.system.write(&write);
            if !self.system.is_there(Path::new(thing)) {
                return Ok(Undone::Done);
            }
            failure = written.err().map_or_else(|| "it is still there".into(), |e| e.to_string());
            self.system.pause(PAUSE);
        }
        Err(format!("write {} to {file}: {failure}", proven.target()))
    }
}

pub(crate) fn in_words(result: io::Result<()>) -> Result<(), UndoFailure> {
    absent_or(result).map_err(|error| error.to_string())
}

/// The folder of a path.
pub(crate) fn parent_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder)
}

/// A file that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveFile {
    pub(crate) path: String,
}

impl UndoStep for RemoveFile {
    fn text(&self) -> String {
        format!("remove file {}", self.path)
    }

    fn made_path(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn folder(&self) -> Option<&str> {
        parent_of(&self.path)
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        Ok(LiveThing::of(&self.path, prover.system.file_identity(Path::new(&self.path))))
    }

    fn fault_of_begun(&self, prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        let folder = Path::new(&self.path).parent();
        let now = folder.and_then(|folder| prover.system.file_identity(folder));
        let is_ours =
            matches!((prover.known.folder, &now), (Some(a), Some(b)) if a.difference(b).is_none());
        (!is_ours).then(|| "its folder is not the one that this bench made".to_owned())
    }

    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::Ours(Vec::new())
    }

    /// A file that a loop device stands on is in use.
    fn further(
        &self,
        prover: &mut Prover<'_>,
        found: &LiveThing,
    ) -> Result<ThingState, UndoFailure> {
        let backing = backing_of(&found.identity);
        // The kernel would remove the name and keep the space until the device is detached, unseen.
        match prover.loops()?.into_iter().find(|(_, behind)| Some(behind) == backing.as_ref()) {
            Some((node, _)) => Err(format!("{node} stands on it")),
            None => Ok(ThingState::Ours(Vec::new())),
        }
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        in_words(undoer.system.remove_file(proven)).map(|()| Undone::Done)
    }
}

/// A directory that was made, if it is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDirectory {
    pub(crate) path: String,
}

impl UndoStep for RemoveDirectory {
    fn text(&self) -> String {
        format!("remove directory {}", self.path)
    }

    fn made_path(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        Ok(LiveThing::of(&self.path, prover.system.file_identity(Path::new(&self.path))))
    }

    /// Its name has this build's tag, and only an empty one is removed.
    fn fault_of_begun(&self, _prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        None
    }

    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::Ours(Vec::new())
    }

    /// Files that others put there are not removed with it.
    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        match undoer.system.remove_directory(proven) {
            Ok(()) => Ok(Undone::Done),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Ok(Undone::LeftAlone("something is in it that this bench did not make".into()))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
