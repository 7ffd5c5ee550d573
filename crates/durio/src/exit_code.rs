//! The exit codes, a public table.

use std::process::ExitCode;

use durio_bench::{BenchErrorKind, Ending};
use durio_record::Outcome;

/// How durio ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Fine.
    Fine,
    /// The verdict that was asked for is negative.
    Negative,
    /// Wrong use: arguments that contradict each other, or that would overwrite what exists.
    WrongUse,
    /// It cannot be measured here: missing right, kernel feature, place or device; with the reason.
    CannotMeasure,
    /// A fault in durio.
    Fault,
    /// Stopped by the user; the record is partial and marked so.
    Interrupted,
    /// What a command that durio ran for the user ended with.
    Command(u8),
    /// A command that durio ran for the user was ended at its time limit.
    TimeLimit,
    /// A guest could not be made ready, or died.
    LabFailed,
}

impl Exit {
    /// The number.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Negative => 1,
            Self::WrongUse => 2,
            Self::CannotMeasure => 3,
            Self::Fault => 4,
            Self::Interrupted => 130,
            Self::Command(code) => code,
            Self::TimeLimit => 124,
            Self::LabFailed => 125,
        }
    }
}

impl From<BenchErrorKind> for Exit {
    fn from(kind: BenchErrorKind) -> Self {
        match kind {
            BenchErrorKind::WrongUse => Self::WrongUse,
            BenchErrorKind::CannotMeasure => Self::CannotMeasure,
            BenchErrorKind::Fault => Self::Fault,
            BenchErrorKind::Interrupted => Self::Interrupted,
            BenchErrorKind::TimeLimit => Self::TimeLimit,
            BenchErrorKind::LabFailed => Self::LabFailed,
        }
    }
}

impl From<Ending> for Exit {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Complete => Self::Fine,
            Ending::Interrupted => Self::Interrupted,
            Ending::Failed(kind) => kind.into(),
        }
    }
}

impl From<Outcome> for Exit {
    fn from(outcome: Outcome) -> Self {
        Ending::from(outcome).into()
    }
}

impl Exit {
    /// That of a command that showed what it read: all of it, or not to the end.
    pub(crate) const fn of_read(is_damaged: bool) -> Self {
        if is_damaged { Self::CannotMeasure } else { Self::Fine }
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
  0    fine
  1    the verdict that was asked for is negative
  2    wrong use
  3    it cannot be measured here; the reason is on stderr
  4    a fault in durio
  130  interrupted; the record is partial and marked so";
