//! Events per second.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::number::in_largest_unit;

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
    /// `count` events in `span`; zero if the span is empty.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate is a quotient")]
    pub fn of(count: u64, span: Nanos) -> Self {
        match span.get() {
            // A quotient would be infinite, which no table can show.
            0 => Self(0.0),
            _ => Self(count as f64 / span.as_secs_f64()),
        }
    }

    /// Events per second.
    #[must_use]
    pub const fn per_second(self) -> f64 {
        self.0
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
