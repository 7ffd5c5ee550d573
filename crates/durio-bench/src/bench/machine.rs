//! This machine as what builds the stacks of a bench.

use std::path::PathBuf;

use durio_layers::DeclaredStack;
use durio_layers::{BuildError, BuildOptions, Builder, BuiltLayer, Place, Progress};

use super::schedule::{StackBackend, StackHandle};

/// Builds stacks on this machine.
pub(crate) struct Machine<'a> {
    /// Where files of loop devices are made.
    pub(crate) files: PathBuf,
    /// Where the journals are.
    pub(crate) journals: PathBuf,
    /// Existing devices that may be overwritten.
    pub(crate) destroy: Vec<PathBuf>,
    /// Also those that hold something.
    pub(crate) force: bool,
    pub(crate) stop: &'a dyn Fn() -> bool,
    pub(crate) progress: &'a dyn Fn(Progress<'_>),
}

impl StackBackend for Machine<'_> {
    fn begin(&self, stack: &DeclaredStack) -> Result<Box<dyn StackHandle + '_>, BuildError> {
        let place =
            Place { destroy: self.destroy.clone(), force: self.force, ..Place::new(&self.files) };
        let options = BuildOptions { stop: self.stop, progress: self.progress };
        Ok(Box::new(Builder::new(stack, &place, &self.journals, options)?))
    }
}

impl StackHandle for Builder<'_> {
    fn build_next(&mut self) -> Result<Option<BuiltLayer>, BuildError> {
        Builder::build_next(self)
    }

    fn tear_down(self: Box<Self>) -> Result<(), BuildError> {
        Builder::tear_down(*self)
    }
}
