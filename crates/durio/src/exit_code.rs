//! The exit codes, a public table.

use std::process::ExitCode;

use durio_command::{CommandErrorKind, Ending};
use durio_record::Outcome;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Fine,
    /// The requested verdict is negative.
    Negative,
    /// It was not done, or not to its end.
    Failed(CommandErrorKind),
    /// The exit code of a command that durio ran for the user.
    Command(u8),
}

impl Exit {
    /// A missing right, kernel feature, place or device; or a question that has no answer.
    pub(crate) const CANNOT_MEASURE: Self = Self::Failed(CommandErrorKind::CannotMeasure);

    /// Stopped by the user; the record is partial and marked so.
    pub(crate) const INTERRUPTED: Self = Self::Failed(CommandErrorKind::Interrupted);

    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Negative => 1,
            Self::Command(code) => code,
            Self::Failed(CommandErrorKind::WrongUse) => 2,
            Self::Failed(CommandErrorKind::CannotMeasure) => 3,
            Self::Failed(CommandErrorKind::Fault) => 4,
            // 128 + SIGINT, as shells have it.
            Self::Failed(CommandErrorKind::Interrupted) => 130,
            // As in timeout(1), and 125 for a failure of the lab itself.
            Self::Failed(CommandErrorKind::TimeLimit) => 124,
            Self::Failed(CommandErrorKind::LabFailed) => 125,
        }
    }

    /// The code of a command that showed a file: completely, or not to the end.
    pub(crate) const fn of_read(is_damaged: bool) -> Self {
        if is_damaged { Self::CANNOT_MEASURE } else { Self::Fine }
    }
}

impl From<Ending> for Exit {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Complete => Self::Fine,
            Ending::Interrupted => Self::INTERRUPTED,
            Ending::Failed(kind) => Self::Failed(kind),
        }
    }
}

impl From<Outcome> for Exit {
    fn from(outcome: Outcome) -> Self {
        Ending::from(outcome).into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// The table, for `--help`.
pub(crate) const TABLE: &str = "\
Exit codes:
  0    success
  1    a goal was missed
  2    usage error
  3    cannot be measured here; the reason is on stderr
  4    internal error
  130  interrupted; the record is partial and marked so";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_the_number_of_the_table() {
        use CommandErrorKind as Kind;
        let rows = [
            (Exit::Fine, 0),
            (Exit::Negative, 1),
            (Exit::Failed(Kind::WrongUse), 2),
            (Exit::Failed(Kind::CannotMeasure), 3),
            (Exit::CANNOT_MEASURE, 3),
            (Exit::Failed(Kind::Fault), 4),
            (Exit::Failed(Kind::TimeLimit), 124),
            (Exit::Failed(Kind::LabFailed), 125),
            (Exit::Failed(Kind::Interrupted), 130),
            (Exit::INTERRUPTED, 130),
            (Exit::Command(0), 0),
            (Exit::Command(77), 77),
            (Exit::Command(255), 255),
        ];
        for (exit, number) in rows {
            assert_eq!(exit.number(), number, "{exit:?}");
        }
    }

    #[test]
    fn what_was_shown_or_recorded_not_to_its_end_is_not_fine() {
        assert_eq!((Exit::of_read(false), Exit::of_read(true)), (Exit::Fine, Exit::CANNOT_MEASURE));
        assert_eq!(Exit::from(Ending::Complete), Exit::Fine);
        assert_eq!(Exit::from(Ending::Interrupted), Exit::INTERRUPTED);
        let fault = CommandErrorKind::Fault;
        assert_eq!(Exit::from(Ending::Failed(fault)), Exit::Failed(fault));
        assert_eq!(Exit::from(Outcome::Failed), Exit::CANNOT_MEASURE);
        assert_eq!(Exit::from(Outcome::Complete), Exit::Fine);
    }
}
