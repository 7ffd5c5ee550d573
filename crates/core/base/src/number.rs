//! A decimal number followed by a unit, in exact integer arithmetic, and why a text is not one.

use std::fmt;

// Digits kept after the decimal point; more are refused rather than rounded.
const FRACTION_DIGITS_MAX: usize = 9;

/// Reads `text` as a number and a unit, and multiplies the number by the unit's scale.
///
/// The scale is the count of smallest units (bytes, nanoseconds) in one unit; `None` for an unknown
/// unit. `names` pairs full unit names with their short forms, for the message.
pub(crate) fn parse_scaled(
    text: &str,
    expected: &'static str,
    unit_scale: impl Fn(&str) -> Option<u64>,
    names: &[(&str, &str)],
) -> Result<u64, ParseQuantityError> {
    let fail = |kind| ParseQuantityError { kind, text: text.to_owned(), meant: None, expected };
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(fail(ParseErrorKind::Empty));
    }
    // No sign and no exponent: -1 and 1e9 are mistakes where a size or a time is asked for.
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return Err(fail(ParseErrorKind::NotANumber));
    }
    // Zeros at the end say nothing, and would count as digits.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > FRACTION_DIGITS_MAX {
        return Err(fail(ParseErrorKind::NotWhole));
    }
    let scale = unit_scale(unit.trim()).ok_or_else(|| {
        let meant = meant_unit(unit.trim(), names).map(|unit| format!("{number}{unit}"));
        ParseQuantityError { meant, ..fail(ParseErrorKind::UnknownUnit) }
    })?;
    let digits: u128 =
        format!("{whole}{fraction}").parse().map_err(|_| fail(ParseErrorKind::TooLarge))?;
    let scaled =
        digits.checked_mul(u128::from(scale)).ok_or_else(|| fail(ParseErrorKind::TooLarge))?;
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    // Refused and not rounded: half a byte is a mistaken unit.
    if scaled % divisor != 0 {
        return Err(fail(ParseErrorKind::NotWhole));
    }
    u64::try_from(scaled / divisor).map_err(|_| fail(ParseErrorKind::TooLarge))
}

// The unit whose full name this abbreviates: `mins` and `Minute` mean `m`. The first of several
// matches is the usual one.
fn meant_unit<'n>(unit: &str, names: &[(&str, &'n str)]) -> Option<&'n str> {
    let lower = unit.to_lowercase();
    let exact = names.iter().find(|(_, written)| *written == lower);
    let begin = match lower.trim_end_matches('s') {
        "hr" => "hour",
        "kk" | "mm" | "gg" | "tt" | "kb" | "mb" | "gb" | "tb" => &lower[..1],
        begin => begin,
    };
    let begins = |(name, _): &&(&str, &str)| !begin.is_empty() && name.starts_with(begin);
    exact.or_else(|| names.iter().find(begins)).map(|(_, written)| *written)
}

/// Prints `value` with three significant digits, without an exponent, without trailing zeros.
pub(crate) fn three_digits(value: f64) -> String {
    // The bounds are where rounding would add a digit: 99.96 would print as 100.0.
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The value in the largest unit that leaves at least one before the decimal point.
///
/// `units` runs from the smallest to the largest, as (count of smallest units, name).
pub(crate) fn in_largest_unit(value: f64, units: &[(f64, &str)]) -> String {
    // 999.5 would print as "1000"; the next unit reads better.
    let unit = units.iter().rev().find(|(scale, _)| value >= scale * 0.9995).or(units.first());
    match unit {
        Some((scale, name)) => format!("{} {name}", three_digits(value / scale)),
        None => three_digits(value),
    }
}

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
