//! What ends a command early: an exit code, a chain of causes, hints.

use std::panic::{self, AssertUnwindSafe};

use durio_advise::AdviceError;
use durio_audit::AuditError;
use durio_bench::BenchError;
use durio_lab::LabError;
use durio_record::RecordError;
use durio_spec::SpecError;

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

    pub(crate) fn of(exit: Exit, error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { exit, error: error.into(), hints: Vec::new() }
    }

    /// A report that could not be written down, which only a fault prevents.
    pub(crate) fn unmade(error: std::io::Error) -> Self {
        Self::of(Exit::Fault, error).context("cannot make the report")
    }

    pub(crate) fn context(self, context: impl Into<String>) -> Self {
        Self { error: self.error.context(context.into()), ..self }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<BenchError> for Failure {
    fn from(mut error: BenchError) -> Self {
        let hints = std::mem::take(&mut error.hints);
        Self { hints, ..Self::of(error.kind.into(), error) }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        BenchError::from(error).into()
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        BenchError::from(error).into()
    }
}

impl From<AdviceError> for Failure {
    fn from(error: AdviceError) -> Self {
        BenchError::from(error).into()
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        BenchError::from(error).into()
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
