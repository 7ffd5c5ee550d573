//! Why a part of a proof cannot continue: a writer, an agent, its witness, a trial, a ledger.

use std::io;

use durio_block::BlockError;
use durio_command::{CommandError, CommandErrorKind};
use durio_nbd::NbdError;

/// Why a part of a proof ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    #[error(transparent)]
    Engine(#[from] BlockError),
    #[error("write {seq} failed: {}", io::Error::from_raw_os_error(*errno))]
    Write { seq: u64, errno: i32 },
    /// The other end of a conversation is gone, or violates the protocol.
    #[error("the {who} is gone")]
    Gone { who: &'static str, source: io::Error },
    #[error("unexpected message from the agent")]
    Unexpected,
    #[error(transparent)]
    Listen(#[from] NbdError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The user wishes to stop.
    #[error("interrupted")]
    Stopped,
    /// Something else, in words.
    #[error("{0}")]
    Failed(String),
}

impl ProveError {
    pub(crate) fn failed(text: &str) -> Self {
        Self::Failed(text.to_owned())
    }
}

impl From<ProveError> for CommandError {
    fn from(error: ProveError) -> Self {
        let kind = match error {
            ProveError::Stopped => CommandErrorKind::Interrupted,
            _ => CommandErrorKind::CannotMeasure,
        };
        Self::of(kind, error)
    }
}

/// Why a file is not a ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be read or written.
    #[error("cannot use the ledger")]
    Io(#[from] io::Error),
    /// An entry contradicts earlier ones.
    #[error("the ledger contradicts itself")]
    Contradiction(#[from] HistoryError),
    /// A line is damaged.
    #[error("line {line} of the ledger is damaged")]
    Damaged { line: u64, source: Box<dyn std::error::Error + Send + Sync> },
    /// It is of a newer durio, or no ledger.
    #[error("not a ledger that this durio can read: {0}")]
    Unknown(String),
}

/// Why a ledger cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// An acknowledgement of a write that was never announced.
    #[error("write {0} was acknowledged, but never announced")]
    Unannounced(u64),
    /// Numbers that do not follow each other.
    #[error("write {0} was announced out of order")]
    OutOfOrder(u64),
    /// Something happened before the target was stamped.
    #[error("an event of a target that has not been stamped yet")]
    Unprepared,
    /// A write outside the stamped cells.
    #[error("write {0} is outside the stamped area")]
    Outside(u64),
}
