//! The quantities that durio measures, with their units: [`Bytes`], [`Nanos`] and [`Rate`].
//!
//! In: text from a command line or a file. Out: integers with a unit, and text for people.
//! Not here: clocks, I/O, any arithmetic on measurements beyond conversion.
//!
//! No bare integer with a unit crosses a crate border; these types do.

mod bytes;
mod error;
mod nanos;
mod number;
mod rate;
mod text;

pub use bytes::Bytes;
pub use error::{ParseErrorKind, ParseQuantityError};
pub use nanos::Nanos;
pub use rate::Rate;
pub use text::{counted, percent, shell_word};
