//! The quantities that durio measures, with their units ([`Bytes`], [`Nanos`] and [`Rate`]), and the
//! [statistics](stats) of plain numbers.
//!
//! No bare integer with a unit crosses a crate border; these types do.

mod bytes;
mod nanos;
mod number;
pub mod stats;
mod text;
mod words;

pub use bytes::Bytes;
pub use nanos::Nanos;
pub use nanos::Rate;
pub use number::{ParseErrorKind, ParseQuantityError};
pub use text::{counted, percent, shell_word};
pub use words::{did_you_mean, line_and_column, nearest_word};
