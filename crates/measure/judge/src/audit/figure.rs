//! A number as it was printed, and the interval that its rounding may hide.

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
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// A count, a time or a size of a machine-readable document.
    #[must_use]
    pub fn of(count: u64) -> Self {
        Self::exact(real(count))
    }

    /// A value whose last digit counts `unit`: half a unit less if it was rounded up, a whole one
    /// more if its further digits were cut off. Both habits are found in print.
    #[must_use]
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

    /// The product.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        self.with(other, |one, other| one * other)
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, |one, other| one + other)
    }

    /// True if the two can stand for the same quantity, up to `share` of it.
    #[must_use]
    pub fn agrees_with(self, other: Self, share: f64) -> bool {
        self.low <= other.high * (1.0 + share) && other.low <= self.high * (1.0 + share)
    }
}

/// A count, a time or a size as a number with a fraction.
#[expect(clippy::cast_precision_loss, reason = "of some digits, far below 2⁵³")]
pub(super) fn real(count: u64) -> f64 {
    count as f64
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
        assert_eq!(real(1 << 40), 1_099_511_627_776.0);
        // The share widens both ends.
        let (low, high) = (Figure::exact(100.0), Figure::exact(110.0));
        assert!(low.agrees_with(high, 0.1001) && high.agrees_with(low, 0.1001));
        assert!(!low.agrees_with(high, 0.0999) && !high.agrees_with(low, 0.0999));
    }
}
