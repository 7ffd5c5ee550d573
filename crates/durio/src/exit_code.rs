//! The exit codes, a public table.

use std::process::ExitCode;

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
