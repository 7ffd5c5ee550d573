//! Why a request cannot become a plan.

use durio_command::{CommandError, CommandErrorKind};
use durio_plan::RawPath;
use durio_workload::DefinitionError;

/// What callers can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecErrorKind {
    /// The request contradicts itself or is out of bounds: wrong use.
    WrongUse,
    /// The request would overwrite existing data without permission: wrong use.
    WouldDestroy,
    /// The location does not offer what the request needs: it cannot be measured here.
    CannotMeasure,
}

impl From<DefinitionError> for SpecError {
    fn from(error: DefinitionError) -> Self {
        Self::wrong_use(error.0)
    }
}

/// A refused request, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SpecError {
    /// What callers can act on.
    pub kind: SpecErrorKind,
    /// The fault in a sentence, without the remedy.
    pub message: String,
    /// The remedy; callers print it on a line after the message.
    pub hint: Option<String>,
}

impl From<SpecError> for CommandError {
    fn from(error: SpecError) -> Self {
        let kind = match error.kind {
            SpecErrorKind::WrongUse | SpecErrorKind::WouldDestroy => CommandErrorKind::WrongUse,
            SpecErrorKind::CannotMeasure => CommandErrorKind::CannotMeasure,
        };
        let hint = error.hint.clone();
        hint.into_iter().fold(Self::of(kind, error), Self::hint)
    }
}

impl SpecError {
    pub(crate) fn wrong_use(message: impl Into<String>) -> Self {
        Self { kind: SpecErrorKind::WrongUse, message: message.into(), hint: None }
    }

    pub(crate) fn cannot_measure(message: impl Into<String>) -> Self {
        Self { kind: SpecErrorKind::CannotMeasure, message: message.into(), hint: None }
    }

    /// The refusal of a plan that writes to an existing target.
    pub(crate) fn would_destroy(path: &RawPath) -> Self {
        let message = format!("'{path}' exists, and this would write to it");
        Self { kind: SpecErrorKind::WouldDestroy, message, hint: None }
            .hint(format!("permit it with --destroy '{path}', or name a directory"))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
