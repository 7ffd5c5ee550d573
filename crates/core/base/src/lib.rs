//! The quantities that durio measures, with their units ([`Bytes`], [`Nanos`] and [`Rate`]), and the
//! [statistics](stats) of plain numbers.
//!
//! No bare integer with a unit crosses a crate border; these types do.

mod bytes;
mod error;
mod nanos;
mod number;
mod rate;
pub mod stats;
mod text;
mod words;

pub use bytes::Bytes;
pub use error::{ParseErrorKind, ParseQuantityError};
pub use nanos::Nanos;
pub use rate::Rate;
pub use text::{counted, percent, shell_word};
pub use words::{did_you_mean, line_and_column, nearest_word};
