//! A span of time in nanoseconds, and events per second over it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ParseQuantityError;
use crate::number::{in_largest_unit, parse_scaled};

/// A span of time in whole nanoseconds, saved as an integer.
///
/// Read with the units `ns`, `us` (or `µs`), `ms`, `s`, `m`, `h`, `d`; without a unit, as seconds.
///
/// ```
/// use durio_base::Nanos;
/// assert_eq!("1.5ms".parse::<Nanos>().unwrap().get(), 1_500_000);
/// assert_eq!(Nanos::from_secs(2).to_string(), "2 s");
/// assert_eq!(Nanos::new(121_400).to_string(), "121 µs");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    pub const ZERO: Self = Self(0);

    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    // A longer time, as in a mutated document, saturates at 584 years.

    pub const fn from_micros(count: u64) -> Self {
        Self(count.saturating_mul(1_000))
    }

    pub const fn from_millis(count: u64) -> Self {
        Self(count.saturating_mul(1_000_000))
    }

    pub const fn from_secs(count: u64) -> Self {
        Self(count.saturating_mul(1_000_000_000))
    }

    /// The count of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// In seconds, for rates and axes.
    #[expect(clippy::cast_precision_loss, reason = "exact to 53 bits, 104 days")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference, or zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

impl From<Duration> for Nanos {
    /// Saturates at 584 years.
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

// `5M` are minutes sooner than milliseconds.
const UNIT_NAMES: [(&str, &str); 7] = [
    ("seconds", "s"),
    ("minutes", "m"),
    ("hours", "h"),
    ("days", "d"),
    ("milliseconds", "ms"),
    ("microseconds", "us"),
    ("nanoseconds", "ns"),
];

fn unit_scale(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        // The micro sign and the Greek letter look the same and are two characters.
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "" | "s" | "sec" => Some(1_000_000_000),
        "m" | "min" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        "d" => Some(86_400_000_000_000),
        _ => None,
    }
}

impl FromStr for Nanos {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "a time such as 10s, 250ms, 1.5m or 2h (plain numbers are seconds)";
        parse_scaled(text, expected, unit_scale, &UNIT_NAMES).map(Self)
    }
}

impl fmt::Display for Nanos {
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1.0, "ns"),
            (1e3, "µs"),
            (1e6, "ms"),
            (1e9, "s"),
            (60e9, "min"),
            (3600e9, "h"),
            (86_400e9, "d"),
        ];
        f.pad(&in_largest_unit(self.0 as f64, &units))
    }
}

/// Events per second; never negative, never infinite.
///
/// ```
/// use durio_base::{Nanos, Rate};
/// assert_eq!(Rate::of(500, Nanos::from_secs(2)).per_second(), 250.0);
/// assert_eq!(Rate::of(81_400, Nanos::from_secs(1)).to_string(), "81.4 k/s");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(f64);

impl Rate {
    /// A rate that was calculated, per second.
    pub const fn new(per_second: f64) -> Self {
        Self(per_second)
    }

    /// `count` events in `span`; zero if the span is empty.
    #[expect(clippy::cast_precision_loss, reason = "a rate is a quotient")]
    pub fn of(count: u64, span: Nanos) -> Self {
        match span.get() {
            // A quotient would be infinite, which no table can show.
            0 => Self(0.0),
            _ => Self(count as f64 / span.as_secs_f64()),
        }
    }

    pub const fn per_second(self) -> f64 {
        self.0
    }

    /// Two digits, for a rate that is not known better: more would suggest that it is exact.
    #[must_use]
    pub fn to_two_digits(self) -> Self {
        if self.0 <= 0.0 {
            return self;
        }
        let digit = 10_f64.powf(self.0.log10().floor() - 1.0);
        Self((self.0 / digit).round() * digit)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")];
        f.pad(&in_largest_unit(self.0, &units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseErrorKind;

    #[test]
    fn a_rate_that_is_known_roughly_has_two_digits() {
        for (rate, shown) in [(8174.0, 8200.0), (11_059.0, 11_000.0), (9.96, 10.0), (0.0, 0.0)] {
            let rounded = Rate::new(rate).to_two_digits().per_second();
            assert!((rounded - shown).abs() < 1e-9, "{rate}: {rounded}");
        }
        assert_eq!(Rate::new(4170.4).to_two_digits().to_string(), "4.2 k/s");
    }

    #[test]
    fn a_time_beyond_the_largest_is_the_largest() {
        assert_eq!(Nanos::from_millis(u64::MAX).get(), u64::MAX);
        assert_eq!(Nanos::from_secs(18_446_744_074).get(), u64::MAX);
        assert_eq!(Nanos::from_micros(7).get(), 7_000);
    }

    #[test]
    fn times_are_read_with_their_units() {
        let rows = [
            ("10", 10_000_000_000),
            ("0", 0),
            ("250ms", 250_000_000),
            ("1.5us", 1_500),
            ("7µs", 7_000),
            ("3ns", 3),
            ("2 h", 7_200_000_000_000),
        ];
        for (text, expected) in rows {
            assert_eq!(text.parse::<Nanos>().map(Nanos::get), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_time_is_refused_with_its_reason() {
        let rows = [
            ("", ParseErrorKind::Empty),
            ("ms", ParseErrorKind::NotANumber),
            ("-5s", ParseErrorKind::NotANumber),
            ("8k", ParseErrorKind::UnknownUnit),
            ("0.5ns", ParseErrorKind::NotWhole),
            ("999999999d", ParseErrorKind::TooLarge),
        ];
        for (text, kind) in rows {
            assert_eq!(text.parse::<Nanos>().unwrap_err().kind, kind, "{text}");
        }
    }

    #[test]
    fn a_unit_of_another_spelling_is_answered_with_the_one_that_is_meant() {
        let meant = |text: &str| text.parse::<Nanos>().unwrap_err().meant;
        for (text, expected) in [
            ("30secs", "30s"),
            ("5 minutes", "5m"),
            ("5M", "5m"),
            ("250MS", "250ms"),
            ("250millis", "250ms"),
            ("1.5hrs", "1.5h"),
            ("90days", "90d"),
            ("7nanos", "7ns"),
        ] {
            assert_eq!(meant(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["10parsecs", "4k", "5x", "ms", "", "3ss s"] {
            assert_eq!(meant(text), None, "{text}");
        }
        let message = "5mins".parse::<Nanos>().unwrap_err().to_string();
        assert!(message.contains("unknown unit: did you mean '5m'? Expected a time"), "{message}");
    }

    #[test]
    fn times_are_printed_with_three_digits_and_no_rounding_to_a_thousand() {
        let rows = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 µs"),
            (999_400, "999 µs"),
            (999_600, "1 ms"),
            (1_234_000, "1.23 ms"),
            (12_340_000, "12.3 ms"),
            (60_000_000_000, "1 min"),
        ];
        for (count, text) in rows {
            assert_eq!(Nanos::new(count).to_string(), text);
        }
    }

    #[test]
    fn an_empty_span_has_no_rate() {
        assert!(Rate::of(7, Nanos::ZERO).per_second() < f64::EPSILON);
    }

    #[test]
    fn rates_are_printed_with_their_unit() {
        let second = Nanos::from_secs(1);
        let rows = [(7, "7 /s"), (999, "999 /s"), (7_312, "7.31 k/s"), (2_500_000, "2.5 M/s")];
        for (count, text) in rows {
            assert_eq!(Rate::of(count, second).to_string(), text);
        }
    }
}
