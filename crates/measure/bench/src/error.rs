//! The error of this crate: its kind, the failed step, the cause, and hints.

use std::error::Error;
use std::fmt;

use durio_block::BlockError;
use durio_judge::advise::AdviceError;
use durio_lab::LabError;
use durio_record::{Outcome, RecordError, RecordErrorKind};
use durio_run::RunError;
use durio_spec::{SpecError, SpecErrorKind};

/// Who has to act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchErrorKind {
    /// The user's: contradicting wishes, or something that would overwrite what exists.
    WrongUse,
    /// The machine's: a missing right, kernel feature, place or device.
    CannotMeasure,
    /// durio's: a bug.
    Fault,
    /// The user stopped it before there was anything to show.
    Interrupted,
    /// A guest was ended at its time limit.
    TimeLimit,
    /// A guest could not be made ready, or died.
    LabFailed,
}

/// Why something was not done.
#[derive(Debug)]
pub struct BenchError {
    /// Who has to act.
    pub kind: BenchErrorKind,
    /// The failed step; without it the source is shown alone.
    context: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
    /// Hints to the user, a line each.
    pub hints: Vec<String>,
}

impl BenchError {
    /// An error that has no other cause.
    #[must_use]
    pub fn new(kind: BenchErrorKind, message: impl Into<String>) -> Self {
        Self { kind, context: Some(message.into()), source: None, hints: Vec::new() }
    }

    /// A wish that cannot be followed.
    #[must_use]
    pub fn wrong_use(message: impl Into<String>) -> Self {
        Self::new(BenchErrorKind::WrongUse, message)
    }

    /// Something that this machine does not permit.
    #[must_use]
    pub fn cannot_measure(message: impl Into<String>) -> Self {
        Self::new(BenchErrorKind::CannotMeasure, message)
    }

    /// An error of this kind, with the text of `source`.
    #[must_use]
    pub fn of(kind: BenchErrorKind, source: impl Error + Send + Sync + 'static) -> Self {
        Self { kind, context: None, source: Some(Box::new(source)), hints: Vec::new() }
    }

    /// `doing` what could not be done with a file or folder, as in "cannot make the folder 'x'".
    #[must_use]
    pub fn io(doing: &str, path: &std::path::Path, error: std::io::Error) -> Self {
        Self::of(BenchErrorKind::CannotMeasure, error)
            .context(format!("cannot {doing} '{}'", path.display()))
    }

    /// A report that could not be written down, which only a fault prevents.
    #[must_use]
    pub fn unmade(error: std::io::Error) -> Self {
        Self::of(BenchErrorKind::Fault, error).context("cannot make the report")
    }

    /// Adds the failed step in front of the error.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        // Kind and hints belong to the outermost error, wherever they came from: readers look no
        // further.
        let (kind, hints) = (self.kind, std::mem::take(&mut self.hints));
        let source: Option<Box<dyn Error + Send + Sync>> = match self.context {
            Some(_) => Some(Box::new(self)),
            None => self.source,
        };
        Self { kind, context: Some(context.into()), source, hints }
    }

    /// The error with one hint more.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.context, &self.source) {
            (Some(context), _) => f.write_str(context),
            (None, Some(source)) => source.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

impl Error for BenchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let source: &(dyn Error + 'static) = self.source.as_deref()?;
        match self.context {
            Some(_) => Some(source),
            // That one was printed already.
            None => source.source(),
        }
    }
}

/// An error with its causes, in one line.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    text
}

impl From<SpecError> for BenchError {
    fn from(error: SpecError) -> Self {
        let kind = match error.kind {
            SpecErrorKind::WrongUse | SpecErrorKind::WouldDestroy => BenchErrorKind::WrongUse,
            SpecErrorKind::CannotMeasure => BenchErrorKind::CannotMeasure,
        };
        let hints = error.hint.clone().into_iter().collect();
        Self { hints, ..Self::of(kind, error) }
    }
}

impl From<BlockError> for BenchError {
    fn from(error: BlockError) -> Self {
        RunError::from(error).into()
    }
}

impl From<RunError> for BenchError {
    fn from(error: RunError) -> Self {
        let hints = error.hint.clone().into_iter().collect();
        Self { hints, ..Self::of(BenchErrorKind::CannotMeasure, error) }
    }
}

impl From<RecordError> for BenchError {
    fn from(error: RecordError) -> Self {
        let hint = match error.kind {
            RecordErrorKind::NotOurs => {
                Some("run durio as its owner, or make it root's: chown -R root, chmod -R go-w")
            }
            RecordErrorKind::NotARunFolder => Some(
                "a run folder is what durio measured into; durio runs lists those that are kept",
            ),
            RecordErrorKind::NewerSchema => {
                Some("read it with the durio that wrote it, or a newer one")
            }
            RecordErrorKind::Malformed => {
                Some("the record is damaged, or was changed; durio runs lists the others")
            }
            _ => error.is_disk_full().then_some("make room, or name another place with --out"),
        };
        let error = Self::of(BenchErrorKind::CannotMeasure, error);
        hint.into_iter().fold(error, Self::hint)
    }
}

impl From<AdviceError> for BenchError {
    fn from(error: AdviceError) -> Self {
        let kind = match error {
            AdviceError::BadRule { .. } => BenchErrorKind::Fault,
            _ => BenchErrorKind::WrongUse,
        };
        let is_rule = matches!(error, AdviceError::Unknown { what: "there is no rule", .. });
        let hint = is_rule.then_some("durio explain lists the rules");
        hint.into_iter().fold(Self::of(kind, error), Self::hint)
    }
}

impl From<LabError> for BenchError {
    fn from(error: LabError) -> Self {
        let hints = error.advice().into_iter().collect();
        let kind = match error {
            // The machine's lack, not the guest's failure.
            LabError::NoKvm { .. } => BenchErrorKind::CannotMeasure,
            _ => BenchErrorKind::LabFailed,
        };
        Self { hints, ..Self::of(kind, error) }
    }
}

/// How something ended that has a record, and has said itself what went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Complete,
    /// By the user.
    Interrupted,
    /// Otherwise.
    Failed(BenchErrorKind),
}

impl Ending {
    /// The kind of an exit code of a durio started from here; `None` if a signal ended it.
    pub(crate) const fn of_durio(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Complete,
            // 128 and SIGINT, as shells tell it; without a code a signal has ended it.
            Some(130) | None => Self::Interrupted,
            Some(2) => Self::Failed(BenchErrorKind::WrongUse),
            Some(4) => Self::Failed(BenchErrorKind::Fault),
            Some(_) => Self::Failed(BenchErrorKind::CannotMeasure),
        }
    }

    /// The first of two that is not well.
    pub(crate) fn or_else(self, other: Self) -> Self {
        if self == Self::Complete { other } else { self }
    }
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Complete => Self::Complete,
            Outcome::Interrupted => Self::Interrupted,
            Outcome::Failed => Self::Failed(BenchErrorKind::CannotMeasure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_being_done_comes_before_the_causes_and_nothing_is_told_twice() {
        let error = BenchError::of(BenchErrorKind::Fault, std::io::Error::other("disk full"));
        assert_eq!(with_causes(&error), "disk full");
        let error = error.hint("make room").context("cannot save").context("stack 'a'");
        assert_eq!(with_causes(&error), "stack 'a': cannot save: disk full");
        assert_eq!((error.kind, error.hints), (BenchErrorKind::Fault, vec!["make room".into()]));
    }
}
