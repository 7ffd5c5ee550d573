//! The quantities that durio measures, with their units ([`Bytes`], [`Nanos`] and [`Rate`]), the
//! [statistics](stats) of plain numbers, the levels of arrays, the kinds of operations, and the
//! error of a failed call.
//!
//! No bare integer with a unit crosses a crate border; these types do.

mod bytes;
mod error;
mod nanos;
mod number;
pub mod raid_level;
pub mod stats;
mod visible;
mod words;

pub use bytes::Bytes;
pub use error::{CallError, CallErrorKind};
pub use nanos::Nanos;
pub use nanos::Rate;
pub use number::{ParseErrorKind, ParseQuantityError};
pub use raid_level::RaidLevel;
pub use visible::{EscapedText, is_hidden, visible, visible_lines};
pub use words::{counted, did_you_mean, line_and_column, nearest_word, percent, shell_word};

/// What an operation does, as workloads ask for it and engines do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Read,
    Write,
    Fsync,
    Fdatasync,
    /// Return the range to the preallocated state (fallocate, FALLOC_FL_ZERO_RANGE).
    Reallocate,
    /// sync_file_range of the range, waited for (WAIT_BEFORE, WRITE and WAIT_AFTER): its pages are
    /// handed to the device and taken by it. No metadata, no flush.
    SyncFileRange,
}

impl OperationKind {
    /// True if data moves between a buffer and the target.
    #[inline]
    pub const fn is_transfer(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}
