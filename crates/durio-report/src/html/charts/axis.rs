//! Where axes have their marks, and what stands beside them.
//!
//! In: the values that must fit. Out: a range, marks, labels. Latencies are on the axis by their
//! decimal logarithm, quantiles by their nines, −log10(1 − q).

use std::ops::Range;

use durio_units::Nanos;

/// More marks than this on an axis of latencies, and only every other kind is labelled.
const MARKS_MAX: usize = 7;

/// One axis of a chart.
pub(super) struct Axis {
    /// What the edges stand for.
    pub(super) range: Range<f64>,
    /// Where lines of the grid are.
    pub(super) marks: Vec<f64>,
    /// What stands beside them.
    pub(super) label: Box<dyn Fn(f64) -> String>,
}

impl Axis {
    pub(super) fn new(
        range: Range<f64>,
        marks: Vec<f64>,
        label: impl Fn(f64) -> String + 'static,
    ) -> Self {
        Self { range, marks, label: Box::new(label) }
    }
}

/// Round numbers from zero to `end`, about this many.
pub(super) fn linear_marks(end: f64, about: f64) -> Vec<f64> {
    let rough = end / about;
    if !rough.is_finite() || rough <= 0.0 {
        return Vec::new();
    }
    let decade = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * decade).into_iter().find(|it| *it >= rough);
    let step = step.unwrap_or(rough);
    let marks = (0..=20).map(|it| f64::from(it) * step);
    marks.take_while(|it| *it <= end).collect()
}

/// The nines of a quantile: 0 → 0, 0.9 → 1, 0.99 → 2.
pub(super) fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile.clamp(0.0, 1.0 - 1e-9)).log10()
}

/// The marks of an axis of quantiles up to this many nines.
pub(super) fn quantile_marks(nines_max: f64) -> Vec<f64> {
    let whole = (1..=9).map(f64::from);
    [0.0, nines(0.5)].into_iter().chain(whole).filter(|it| *it <= nines_max + 1e-6).collect()
}

/// The label of a mark: 0, 50 %, 90 %, 99.9 %. Zero needs no unit, and has no room for one.
pub(super) fn quantile_label(nines: f64) -> String {
    if nines <= 0.0 {
        return "0".to_owned();
    }
    let percent = (1.0 - 10_f64.powf(-nines)) * 100.0;
    let text = format!("{percent:.7}");
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The logarithm of a latency; of nothing, as of one nanosecond.
#[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
pub(super) fn logarithm(nanos: u64) -> f64 {
    (nanos.max(1) as f64).log10()
}

/// An axis that holds all these latencies with some room, and its marks.
pub(super) fn latency_axis(latencies: impl Iterator<Item = u64>) -> (Range<f64>, Vec<f64>) {
    let (low, high) = latencies
        .map(logarithm)
        .fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(it), high.max(it)));
    if low > high {
        return (0.0..1.0, Vec::new());
    }
    let range = low - 0.08..(high + 0.08).max(low + 0.5);
    let marks = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0][..], &[1.0][..]]
        .into_iter()
        .map(|steps| marks_within(&range, steps))
        .find(|marks| marks.len() <= MARKS_MAX);
    (range, marks.unwrap_or_default())
}

/// The label of a mark on an axis of latencies.
#[expect(clippy::cast_possible_truncation, reason = "saturates; a label")]
#[expect(clippy::cast_sign_loss, reason = "a power of ten is positive")]
pub(super) fn latency_label(logarithm: f64) -> String {
    Nanos::new(10_f64.powf(logarithm).round() as u64).to_string()
}

fn marks_within(range: &Range<f64>, steps: &[f64]) -> Vec<f64> {
    let decades = (0..=19).map(f64::from);
    let marks = decades.flat_map(|decade| steps.iter().map(move |step| decade + step.log10()));
    marks.filter(|mark| range.contains(mark)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_marked_by_their_nines() {
        let labels: Vec<_> = quantile_marks(4.0).into_iter().map(quantile_label).collect();
        assert_eq!(labels, ["0", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn latencies_are_marked_in_round_numbers() {
        let (range, marks) = latency_axis([120_000, 3_400_000].into_iter());
        assert!(range.contains(&logarithm(120_000)) && range.contains(&logarithm(3_400_000)));
        let labels: Vec<_> = marks.into_iter().map(latency_label).collect();
        assert_eq!(labels, ["100 µs", "200 µs", "500 µs", "1 ms", "2 ms"]);
    }

    #[test]
    fn other_values_are_marked_in_round_steps() {
        assert_eq!(linear_marks(7_900.0, 4.0), [0.0, 2000.0, 4000.0, 6000.0]);
        assert_eq!(linear_marks(6.0, 6.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert!(linear_marks(0.0, 4.0).is_empty());
    }

    #[test]
    fn an_axis_without_latencies_has_no_marks() {
        assert_eq!(latency_axis(std::iter::empty()), (0.0..1.0, Vec::new()));
    }
}
