//! Builds a stack layer by layer and takes it down again.

use std::path::{Path, PathBuf};

use durio_units::Nanos;

use super::command::BuildCommand;
use super::error::BuildError;
use super::place::Place;
use crate::DeclaredStack;

/// What happens while a layer is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// A command is about to run; the text has its names filled in.
    Command(&'a str),
    /// An array is made equal: done and all, in the kernel's sectors.
    Syncing {
        /// The array.
        device: &'a str,
        /// Sectors done.
        done: u64,
        /// Sectors in all.
        all: u64,
    },
    /// Something is undone.
    Undo(&'a str),
}

/// How a build is watched and stopped.
#[derive(Clone, Copy)]
pub struct BuildOptions<'a> {
    /// Asked between commands and while one runs: true ends the build, after the command.
    pub stop: &'a dyn Fn() -> bool,
    /// Told what happens.
    pub progress: &'a dyn Fn(Progress<'_>),
}

impl std::fmt::Debug for BuildOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuildOptions").finish_non_exhaustive()
    }
}

impl Default for BuildOptions<'_> {
    fn default() -> Self {
        Self { stop: &|| false, progress: &|_| () }
    }
}

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

/// Builds one stack. Whatever happens, dropping it tears down what was built.
#[derive(Debug)]
pub struct Builder<'a> {
    #[expect(dead_code, reason = "the signature is published before the body")]
    options: BuildOptions<'a>,
    #[expect(dead_code, reason = "the signature is published before the body")]
    commands: Vec<BuildCommand>,
}

impl<'a> Builder<'a> {
    /// Begins a build: the stack is checked, what is missing is an error, and the journal
    /// `<journals>/<id>.jsonl` is there. Nothing else is done yet.
    ///
    /// # Errors
    /// If the declaration is wrong, something is missing, or the journal cannot be written.
    pub fn new(
        stack: &DeclaredStack,
        place: &Place,
        _journals: &Path,
        options: BuildOptions<'a>,
    ) -> Result<Self, BuildError> {
        Ok(Self { options, commands: super::commands(stack, place)? })
    }

    /// Builds the next layer; nothing if all are built.
    ///
    /// # Errors
    /// If a command fails, something came up wrong or the stop flag is set; everything that was
    /// built is torn down by then.
    pub fn build_next(&mut self) -> Result<Option<BuiltLayer>, BuildError> {
        Ok(None)
    }

    /// Takes everything down, the last first.
    ///
    /// # Errors
    /// What could not be undone; it stays in the journal.
    pub fn tear_down(self) -> Result<(), BuildError> {
        Ok(())
    }
}
