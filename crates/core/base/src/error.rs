//! Why a text is not a quantity.

use std::fmt;

/// The problem with the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// Nothing, or only blanks.
    Empty,
    /// The part before the unit is not a decimal number.
    NotANumber,
    /// The part after the number is not a unit of this quantity.
    UnknownUnit,
    /// The value does not fit in 64 bits.
    TooLarge,
    /// The value is not a whole number of bytes or nanoseconds.
    NotWhole,
}

/// A text that could not be read as a quantity, with what would have been accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseQuantityError {
    pub kind: ParseErrorKind,
    /// The text as given.
    pub text: String,
    /// With the unit that was probably meant: `30s` for `30secs`.
    pub meant: Option<String>,
    /// The accepted form, for the message.
    pub expected: &'static str,
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.kind {
            ParseErrorKind::Empty => "is empty",
            ParseErrorKind::NotANumber => "does not begin with a number",
            ParseErrorKind::UnknownUnit => "ends with an unknown unit",
            ParseErrorKind::TooLarge => "is too large",
            ParseErrorKind::NotWhole => "is not a whole number of the smallest unit",
        };
        let Self { text, meant, expected, .. } = self;
        match meant {
            Some(meant) => {
                write!(f, "'{text}' {reason}: did you mean '{meant}'? Expected {expected}")
            }
            None => write!(f, "'{text}' {reason}; expected {expected}"),
        }
    }
}

impl std::error::Error for ParseQuantityError {}
