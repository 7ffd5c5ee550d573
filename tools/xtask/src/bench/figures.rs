//! Medians, and ratios of paired rounds.

use std::fmt;

/// The median; NaN without values.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => f64::NAN,
        Some(&upper) if sorted.len() % 2 == 1 => upper,
        Some(&upper) => f64::midpoint(sorted[middle - 1], upper),
    }
}

/// The ratios of two things over rounds in which both were measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
}

impl Ratio {
    /// The ratios of the first to the second, round by round.
    pub(super) fn of(these: &[f64], those: &[f64]) -> Self {
        // Within a round both met the same machine: a slow minute drops out of the ratio.
        let ratios: Vec<_> = these.iter().zip(those).map(|(this, that)| this / that).collect();
        Self {
            median: median(&ratios),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            greatest: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}–{:.2})", self.median, self.least, self.greatest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let ratio = Ratio::of(&[1.0, 4.0, 9.0], &[2.0, 2.0, 3.0]);
        assert_eq!(ratio, Ratio { median: 2.0, least: 0.5, greatest: 3.0 });
        assert_eq!(ratio.to_string(), "2.00 (0.50–3.00)");
    }
}
