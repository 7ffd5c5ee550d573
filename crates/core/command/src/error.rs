//! The error of a command: who has to act, the failed step, the cause, and hints.

use std::error::Error;
use std::fmt;

use durio_base::{CallError, CallErrorKind};

/// Who has to act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandErrorKind {
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
pub struct CommandError {
    /// Who has to act.
    pub kind: CommandErrorKind,
    /// The failed step; without it the source is shown alone.
    context: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
    /// Hints to the user, a line each.
    pub hints: Vec<String>,
}

impl CommandError {
    /// An error that has no other cause.
    pub fn new(kind: CommandErrorKind, message: impl Into<String>) -> Self {
        Self { kind, context: Some(message.into()), source: None, hints: Vec::new() }
    }

    /// A wish that cannot be followed.
    pub fn wrong_use(message: impl Into<String>) -> Self {
        Self::new(CommandErrorKind::WrongUse, message)
    }

    /// Something that this machine does not permit.
    pub fn cannot_measure(message: impl Into<String>) -> Self {
        Self::new(CommandErrorKind::CannotMeasure, message)
    }

    /// The same, with the text of `source`.
    #[must_use]
    pub fn cannot(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(CommandErrorKind::CannotMeasure, source)
    }

    /// An error of this kind, with the text of `source`.
    pub fn of(kind: CommandErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, context: None, source: Some(source.into()), hints: Vec::new() }
    }

    /// `doing` what could not be done with a file or folder, as in "cannot make the folder 'x'".
    pub fn io(doing: &str, path: &std::path::Path, error: std::io::Error) -> Self {
        Self::of(CommandErrorKind::CannotMeasure, error)
            .context(format!("cannot {doing} '{}'", path.display()))
    }

    /// A report that could not be written down, which only a fault prevents.
    pub fn unmade(error: std::io::Error) -> Self {
        Self::of(CommandErrorKind::Fault, error).context("cannot make the report")
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

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.context, &self.source) {
            (Some(context), _) => f.write_str(context),
            (None, Some(source)) => source.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

impl Error for CommandError {
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
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    text
}

impl<K: CallErrorKind> From<CallError<K>> for CommandError {
    fn from(error: CallError<K>) -> Self {
        let (message, hint) = (error.to_string(), error.hint());
        // The system's own error: its number is looked for there.
        let error = Self::of(CommandErrorKind::CannotMeasure, error.source).context(message);
        hint.into_iter().fold(error, Self::hint)
    }
}

/// How something ended that has a record, and has said itself what went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Complete,
    Interrupted,
    Failed(CommandErrorKind),
}

impl Ending {
    /// The kind of an exit code of a durio started from here; `None` if a signal ended it.
    pub const fn of_durio(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Complete,
            // 128 and SIGINT, as shells tell it; without a code a signal has ended it.
            Some(130) | None => Self::Interrupted,
            Some(2) => Self::Failed(CommandErrorKind::WrongUse),
            Some(4) => Self::Failed(CommandErrorKind::Fault),
            Some(_) => Self::Failed(CommandErrorKind::CannotMeasure),
        }
    }

    /// The first of two that is not well.
    #[must_use]
    pub fn or_else(self, other: Self) -> Self {
        if self == Self::Complete { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_being_done_comes_before_the_causes_and_nothing_is_told_twice() {
        let error = CommandError::of(CommandErrorKind::Fault, std::io::Error::other("disk full"));
        assert_eq!(error_chain(&error), "disk full");
        let error = error.hint("free some space").context("cannot save").context("stack 'a'");
        assert_eq!(error_chain(&error), "stack 'a': cannot save: disk full");
        assert_eq!(
            (error.kind, error.hints),
            (CommandErrorKind::Fault, vec!["free some space".into()])
        );
    }

    #[test]
    fn the_code_of_a_durio_says_who_has_to_act() {
        let rows = [
            (Some(0), Ending::Complete),
            (Some(130), Ending::Interrupted),
            (None, Ending::Interrupted),
            (Some(2), Ending::Failed(CommandErrorKind::WrongUse)),
            (Some(4), Ending::Failed(CommandErrorKind::Fault)),
            (Some(1), Ending::Failed(CommandErrorKind::CannotMeasure)),
            (Some(3), Ending::Failed(CommandErrorKind::CannotMeasure)),
            (Some(137), Ending::Failed(CommandErrorKind::CannotMeasure)),
        ];
        for (code, ending) in rows {
            assert_eq!(Ending::of_durio(code), ending, "{code:?}");
        }
    }

    #[test]
    fn the_first_that_is_not_well_is_the_ending() {
        let failed = Ending::Failed(CommandErrorKind::Fault);
        let (fine, stopped) = (Ending::Complete, Ending::Interrupted);
        let rows = [
            (fine, fine, fine),
            (fine, failed, failed),
            (failed, fine, failed),
            (failed, stopped, failed),
            (stopped, failed, stopped),
        ];
        for (first, second, expected) in rows {
            assert_eq!(first.or_else(second), expected, "{first:?} {second:?}");
        }
    }

    #[test]
    fn an_error_of_the_system_keeps_its_place_its_cause_and_its_hint() {
        let path = std::path::Path::new("/d/x");
        let error = CommandError::io("make the folder", path, std::io::Error::other("full"));
        assert_eq!(error_chain(&error), "cannot make the folder '/d/x': full");
        assert_eq!(error.kind, CommandErrorKind::CannotMeasure);
        let fault = CommandError::unmade(std::io::Error::other("torn"));
        assert_eq!(error_chain(&fault), "cannot make the report: torn");
        assert_eq!(fault.kind, CommandErrorKind::Fault);
    }
}
