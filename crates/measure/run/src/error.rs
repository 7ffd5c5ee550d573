//! Why a run cannot go on.

use durio_block::BlockError;
use durio_command::{CommandError, CommandErrorKind};

/// What callers can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunErrorKind {
    /// The target cannot be measured here, or answered with an error: the reason is the storage's
    /// or the system's.
    Target,
    /// The plan asks for something that this target cannot do.
    Unsupported,
    /// The record could not be written.
    Sink,
}

/// A run that ended early.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct RunError {
    /// What callers can act on.
    pub kind: RunErrorKind,
    /// What happened, as a sentence without its cause.
    pub message: String,
    pub hint: Option<String>,
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl From<RunError> for CommandError {
    fn from(error: RunError) -> Self {
        let hint = error.hint.clone();
        hint.into_iter().fold(Self::of(CommandErrorKind::CannotMeasure, error), Self::hint)
    }
}

impl From<BlockError> for RunError {
    fn from(error: BlockError) -> Self {
        Self {
            kind: RunErrorKind::Target,
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
            // The system's own error: its number is looked for there.
            source: Some(Box::new(error.source)),
        }
    }
}

impl RunError {
    fn new(kind: RunErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(RunErrorKind::Unsupported, message)
    }

    pub(crate) fn target(message: impl Into<String>) -> Self {
        Self::new(RunErrorKind::Target, message)
    }

    pub(crate) fn sink(source: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::new(RunErrorKind::Sink, "cannot record the run")
            .because(source)
            .hint("free space for the run folder, or name another place with --out")
    }

    pub(crate) fn because(
        self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds to the hint that a file stays, which the error of its removal names.
    pub(crate) fn add_left(&mut self, removal: &Self) {
        let why = removal.source.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
        let left = format!("{removal}{why}; the next run tries again");
        self.hint = Some(match self.hint.take() {
            Some(hint) => format!("{hint}; {left}"),
            None => left,
        });
    }

    /// The system's error number behind this error, if there is one.
    pub(crate) fn errno(&self) -> Option<i32> {
        let source = self.source.as_deref()?;
        source.downcast_ref::<std::io::Error>()?.raw_os_error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_number_is_that_of_the_cause_and_of_no_text() {
        let full = || std::io::Error::from_raw_os_error(28);
        assert_eq!(RunError::target("x").because(full()).errno(), Some(28));
        assert_eq!(RunError::target("x").because(full()).because("28").errno(), None);
        assert_eq!(RunError::target("x").because(std::io::Error::other("28")).errno(), None);
        assert_eq!(RunError::target("x").errno(), None);
    }

    #[test]
    fn a_file_that_stays_is_added_to_the_hint_with_its_cause() {
        let removal = RunError::target("'/x' stays: moved");
        let mut error = RunError::unsupported("first");
        error.add_left(&removal);
        assert_eq!(error.hint.as_deref(), Some("'/x' stays: moved; the next run tries again"));
        let mut error = RunError::unsupported("first").hint("do this");
        error.add_left(&removal.because("no right"));
        let expected = "do this; '/x' stays: moved: no right; the next run tries again";
        assert_eq!(error.hint.as_deref(), Some(expected));
    }
}
