//! The quantities that durio measures, with their units ([`Bytes`], [`Nanos`] and [`Rate`]), the
//! [statistics](stats) of plain numbers, and the levels of arrays.
//!
//! No bare integer with a unit crosses a crate border; these types do.

mod bytes;
mod nanos;
mod number;
mod operation;
pub mod raid_level;
pub mod stats;
mod text;
mod words;

pub use bytes::Bytes;
pub use nanos::Nanos;
pub use nanos::Rate;
pub use number::{ParseErrorKind, ParseQuantityError};
pub use operation::OperationKind;
pub use raid_level::RaidLevel;
pub use text::{counted, percent, shell_word};
pub use words::{did_you_mean, line_and_column, nearest_word};
