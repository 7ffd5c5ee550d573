//! A number as it was printed, the interval that its rounding may hide, and how sentences show it.

use durio_base::stats::least_squares::float;

/// A non-negative quantity and the bounds that its printed digits leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// As printed, in the unit of the field that holds it.
    pub value: f64,
    /// The least that it can stand for.
    pub low: f64,
    /// The most that it can stand for.
    pub high: f64,
}

impl Figure {
    /// A value that was not rounded, such as one from a machine-readable document.
    pub const fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// A count, a time or a size of a machine-readable document.
    pub fn of(count: u64) -> Self {
        Self::exact(float(count))
    }

    /// A value whose last digit counts `unit`: half a unit less if it was rounded up, a whole one
    /// more if its further digits were cut off. Both habits are found in print.
    pub fn printed(value: f64, unit: f64) -> Self {
        Self { value, low: (value - unit / 2.0).max(0.0), high: value + unit }
    }

    /// Joins value with value and bound with bound, by what grows with both.
    fn with(self, other: Self, join: fn(f64, f64) -> f64) -> Self {
        Self {
            value: join(self.value, other.value),
            low: join(self.low, other.low),
            high: join(self.high, other.high),
        }
    }

    /// In another unit, `factor` of which make one of this.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        self.with(Self::exact(factor), |value, factor| value * factor)
    }

    #[must_use]
    pub fn times(self, other: Self) -> Self {
        self.with(other, |one, other| one * other)
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, |one, other| one + other)
    }

    /// True if the two can stand for the same quantity, up to `share` of it.
    pub fn agrees_with(self, other: Self, share: f64) -> bool {
        self.low <= other.high * (1.0 + share) && other.low <= self.high * (1.0 + share)
    }
}

/// A number with four significant digits, without meaningless zeros.
pub(super) fn number(value: f64) -> String {
    let rounded = significant(value, 4);
    let magnitude = if rounded == 0.0 { 0.0 } else { rounded.abs().log10().floor() };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9")]
    let decimals = (3.0 - magnitude).clamp(0.0, 9.0) as usize;
    let text = format!("{rounded:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Events per second, with `k` or `M`.
pub(super) fn rate(per_second: f64) -> String {
    let (scale, unit) = scale(per_second, &[(1e6, "M"), (1e3, "k")]);
    format!("{}{unit}/s", number(per_second / scale))
}

pub(super) fn time(nanos: f64) -> String {
    let units = [(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")];
    let (scale, unit) = scale(nanos, &units);
    format!("{}{unit}", number(nanos / scale))
}

/// Bytes per second in powers of 1000, as most tools print it.
pub(super) fn bandwidth(bytes_per_second: f64) -> String {
    // GB/s only from ten: rows of one table compare better in one unit.
    let units = [(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")];
    let skipped = usize::from(bytes_per_second < 1e10);
    let (scale, unit) = scale(bytes_per_second, units.get(skipped..).unwrap_or(&units));
    format!("{}{unit}", number(bytes_per_second / scale))
}

/// A share as per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", number(significant(share * 100.0, 3)))
}

fn scale<'a>(value: f64, units: &[(f64, &'a str)]) -> (f64, &'a str) {
    let fits = |(scale, _): &&(f64, &str)| value >= *scale;
    // A value below every unit is shown in the smallest one, or plain if no unit has scale 1.
    let least = units.last().filter(|(scale, _)| *scale == 1.0);
    units.iter().find(fits).or(least).copied().unwrap_or((1.0, ""))
}

/// Rounded to `digits` significant digits; NaN and infinity become zero, because JSON has neither.
pub(super) fn significant(value: f64, digits: usize) -> f64 {
    match value.is_finite() {
        true => format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_figure_may_have_been_rounded_or_cut_off() {
        let figure = Figure::printed(56_800.0, 100.0);
        assert_eq!((figure.low, figure.high), (56_750.0, 56_900.0));
        assert_eq!(Figure::printed(0.0, 1.0).low, 0.0);
    }

    #[test]
    fn bounds_follow_through_sums_and_products() {
        let product = Figure::printed(10.0, 2.0).times(Figure::printed(4.0, 2.0));
        assert_eq!(product, Figure { value: 40.0, low: 27.0, high: 72.0 });
        let sum = product.plus(Figure::exact(1.0));
        assert_eq!((sum.low, sum.high), (28.0, 73.0));
    }

    #[test]
    fn intervals_that_touch_agree() {
        let (a, b) = (Figure::printed(100.0, 10.0), Figure::printed(115.0, 10.0));
        assert!(a.agrees_with(b, 0.0) && b.agrees_with(a, 0.0));
        assert!(!a.agrees_with(Figure::exact(111.0), 0.0));
        assert!(a.agrees_with(Figure::exact(111.0), 0.01));
    }

    #[test]
    fn a_figure_in_another_unit_has_all_its_bounds_there() {
        let scaled = Figure::printed(10.0, 2.0).scaled(3.0);
        assert_eq!(scaled, Figure { value: 30.0, low: 27.0, high: 36.0 });
        assert_eq!(Figure::of(7), Figure { value: 7.0, low: 7.0, high: 7.0 });
        assert_eq!(float(1 << 40), 1_099_511_627_776.0);
        // The share widens both ends.
        let (low, high) = (Figure::exact(100.0), Figure::exact(110.0));
        assert!(low.agrees_with(high, 0.1001) && high.agrees_with(low, 0.1001));
        assert!(!low.agrees_with(high, 0.0999) && !high.agrees_with(low, 0.0999));
    }

    #[test]
    fn numbers_have_four_digits_and_a_unit() {
        assert_eq!(number(14.36412), "14.36");
        assert_eq!(
            (number(0.0), number(96.0), number(123_456.0)),
            ("0".into(), "96".into(), "123500".into())
        );
        assert_eq!(rate(56_800.0), "56.8k/s");
        assert_eq!((rate(12.0), rate(2.7e6)), ("12/s".into(), "2.7M/s".into()));
        assert_eq!((time(70_930.0), time(0.5)), ("70.93 µs".into(), "0.5 ns".into()));
        assert_eq!((bandwidth(584e6), bandwidth(1328e6)), ("584 MB/s".into(), "1328 MB/s".into()));
        assert_eq!(bandwidth(584e9), "584 GB/s");
        assert_eq!(percent(0.46181), "46.2 %");
        assert_eq!((number(f64::NAN), number(1e300)).0, "0");
    }
}
