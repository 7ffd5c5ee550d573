//! What ends a command early: an exit code, a chain of causes, hints.

use std::panic::{self, AssertUnwindSafe};

use durio_advise::AdviceError;
use durio_audit::AuditError;
use durio_block::BlockError;
use durio_record::{RecordError, RecordErrorKind};
use durio_run::RunError;
use durio_spec::{SpecError, SpecErrorKind};

use crate::exit_code::Exit;

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
    pub(crate) hints: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, error: anyhow::Error::msg(message.into()), hints: Vec::new() }
    }

    fn of(exit: Exit, error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { exit, error: error.into(), hints: Vec::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        let exit = match error.kind {
            SpecErrorKind::WrongUse | SpecErrorKind::WouldDestroy => Exit::WrongUse,
            SpecErrorKind::CannotMeasure => Exit::CannotMeasure,
        };
        let hints = error.hint.clone().into_iter().collect();
        Self { hints, ..Self::of(exit, error) }
    }
}

impl From<BlockError> for Failure {
    fn from(error: BlockError) -> Self {
        RunError::from(error).into()
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let hints = error.hint.clone().into_iter().collect();
        Self { hints, ..Self::of(Exit::CannotMeasure, error) }
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let hint = match error.kind {
            RecordErrorKind::NotOurs => {
                Some("run durio as its owner, or make it root's: chown -R root, chmod -R go-w")
            }
            _ => error.is_disk_full().then_some("make room, or name another place with --out"),
        };
        let failure = Self::of(Exit::CannotMeasure, error);
        hint.into_iter().fold(failure, Self::hint)
    }
}

impl From<AdviceError> for Failure {
    fn from(error: AdviceError) -> Self {
        let exit = match error {
            AdviceError::BadRule { .. } => Exit::Fault,
            _ => Exit::WrongUse,
        };
        Self::of(exit, error)
    }
}

impl From<AuditError> for Failure {
    fn from(error: AuditError) -> Self {
        let hint = error.advice();
        Self::of(Exit::CannotMeasure, error).hint(hint)
    }
}

/// Runs `command`; a panic becomes a fault with an exit code, after everything was unwound and so
/// cleaned up.
pub(crate) fn catch_panic(
    command: impl FnOnce() -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    panic::catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        Err(Failure::new(Exit::Fault, "a fault in durio: see the message above")
            .hint("please report it with the command line and the run folder"))
    })
}
