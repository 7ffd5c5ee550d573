//! Values as people write them, in specs and on the command line alike.
//!
//! In: text. Out: a rate, a goal, thousandths. Not here: bytes and times (durio-units), and what a
//! value is for.

use durio_plan::Goal;
use durio_units::Nanos;
use durio_workload::Arrivals;

/// A rate per second: `1000`, `2.5k`, `1M`, `20k/s`; k and M are thousands and millions.
///
/// # Errors
/// A sentence, for what is no number or no rate that arrivals can have.
pub fn rate(text: &str) -> Result<f64, String> {
    let wrong =
        || format!("'{text}' is no rate per second; expected a number such as 500, 20k or 1.5M");
    let trimmed = text.trim();
    let trimmed = trimmed.strip_suffix("/s").unwrap_or(trimmed);
    let (digits, factor) = match (trimmed.strip_suffix('k'), trimmed.strip_suffix('M')) {
        (Some(digits), _) => (digits, 1e3),
        (_, Some(digits)) => (digits, 1e6),
        _ => (trimmed, 1.0),
    };
    // Rust's parser takes inf, nan and 1e9 as well.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match digits.parse::<f64>() {
        Ok(number) if is_plain => checked_rate(number * factor),
        _ => Err(wrong()),
    }
}

/// A rate that arrivals can have.
pub(crate) fn checked_rate(rate_per_second: f64) -> Result<f64, String> {
    let arrivals = Arrivals::Constant { rate_per_second };
    arrivals.validate().map(|()| rate_per_second).map_err(|error| error.to_string())
}

/// A latency goal: `p99=2ms` or `p99.9 <= 500us`.
///
/// # Errors
/// A sentence, for what is no percentile below 100 with a limit that has a unit.
pub fn goal(text: &str) -> Result<Goal, String> {
    let wrong =
        || format!("'{text}' is no goal; expected a percentile and its limit, such as p99=2ms");
    // The longer sign first: = is a part of it.
    let parts = text.split_once("<=").or_else(|| text.split_once('='));
    let (percentile, latency) = parts.ok_or_else(wrong)?;
    let digits = percentile.trim().strip_prefix('p').ok_or_else(wrong)?;
    let percentile: f64 = digits.parse().map_err(|_| wrong())?;
    match percentile > 0.0 && percentile < 100.0 {
        true => Ok(Goal { percentile, latency: time(latency.trim())? }),
        false => Err(wrong()),
    }
}

/// A time with its unit: `2ms`, `60s`; a zero needs none.
pub(crate) fn time(text: &str) -> Result<Nanos, String> {
    let span = text.parse::<Nanos>().map_err(|error| error.to_string())?;
    has_unit(text, "\"60s\"", span == Nanos::ZERO).map(|()| span)
}

// A reader must not have to guess.
pub(crate) fn has_unit(text: &str, such_as: &str, is_zero: bool) -> Result<(), String> {
    match is_zero || text.trim().ends_with(char::is_alphabetic) {
        true => Ok(()),
        false => Err(format!("'{text}' has no unit; write it as {such_as}")),
    }
}

/// `0.99` as 990; below 10 000, at most three decimals, nothing is rounded.
#[must_use]
pub fn thousandths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str, most: usize| {
        !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole, 4) || !is_number(fraction, 3) {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let fraction: u32 = format!("{fraction:0<3}").parse().ok()?;
    Some(whole * 1000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_thousands_and_millions() {
        let texts = ["500", "2.5k", "1M/s", "20k"];
        assert_eq!(texts.map(|text| rate(text).unwrap()), [500.0, 2500.0, 1e6, 20_000.0]);
        for wrong in ["", "k", "0", "-5", "1G", "nan", "inf", "1e9", "5m", "1k/s/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_goal_may_be_written_in_two_ways() {
        let goal_of = |percentile, latency| Ok(Goal { percentile, latency });
        assert_eq!(goal("p99=2ms"), goal_of(99.0, Nanos::from_millis(2)));
        assert_eq!(goal("p99.9 <= 500us"), goal_of(99.9, Nanos::from_micros(500)));
        for wrong in ["p100=2ms", "p0=2ms", "p99", "99=2ms", "p99=2", "p99=x", "pnan=1ms"] {
            assert!(goal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn thousandths_are_never_rounded() {
        assert_eq!(
            ["0.02", "1", "0.001", "99.5"].map(thousandths),
            [20, 1000, 1, 99_500].map(Some)
        );
        for wrong in ["", "0.0001", "10000", "-1", "x", "1e3", ".5", "5."] {
            assert_eq!(thousandths(wrong), None, "{wrong}");
        }
    }
}
