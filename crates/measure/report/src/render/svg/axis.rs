//! The marks of axes, and their labels.
//!
//! A scale and the values that must fit give a range, marks and labels, in the axis's coordinates:
//! decimal logarithms on a logarithmic one.

use super::count;
use crate::document::chart::{AxisScale, AxisUnit};
use crate::figures;

// More marks than this on a logarithmic axis run into each other.
const MARKS_MAX: usize = 7;

// More steps than this have a label only here and there.
const STEPS_MAX: usize = 10;

/// One axis of a panel.
#[derive(Debug, PartialEq)]
pub(super) struct PanelAxis {
    pub(super) low: f64,
    pub(super) high: f64,
    /// The lines of the grid, with their labels.
    pub(super) marks: Vec<(f64, String)>,
}

/// A value's coordinate; NaN for a value without a place on this scale.
pub(super) fn coordinate(scale: &AxisScale, value: f64) -> f64 {
    match scale {
        // Zero is drawn like one nanosecond.
        AxisScale::Logarithmic(AxisUnit::Latency) if value.is_finite() => value.max(1.0).log10(),
        AxisScale::Logarithmic(_) if (1e-12..1e18).contains(&value) => value.log10(),
        AxisScale::Logarithmic(_) => f64::NAN,
        AxisScale::Linear(_) | AxisScale::Nines | AxisScale::Steps(_) | AxisScale::Time => value,
    }
}

impl PanelAxis {
    /// For these values, in the order of magnitude that they have.
    pub(super) fn new(scale: &AxisScale, values: impl Iterator<Item = f64>) -> Self {
        let values = values.map(|value| coordinate(scale, value)).filter(|value| value.is_finite());
        let (low, high) = values
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        match scale {
            AxisScale::Linear(unit) => linear(*unit, low, high),
            AxisScale::Logarithmic(unit) => logarithmic(*unit, low, high),
            AxisScale::Nines => nines(high.max(1.0)),
            AxisScale::Steps(labels) => steps(labels),
            AxisScale::Time => moments(low, high),
        }
    }
}

fn linear(unit: AxisUnit, lowest: f64, highest: f64) -> PanelAxis {
    // Air before the first point of an axis that does not begin at zero, too.
    let low = if lowest < 0.0 { lowest * 1.02 } else { 0.0 };
    let high = match (highest > 0.0, unit) {
        (false, _) if low < 0.0 => -low * 0.02,
        (false, _) => 1.0,
        // Time ends where the run did; other axes leave air above the highest point.
        (true, AxisUnit::Seconds) => highest,
        (true, _) => highest * 1.06,
    };
    // Round in the unit of the mark's label.
    let unit_size = match unit {
        AxisUnit::Bytes => 1024_f64.powf((high.max(1.0).log2() / 10.0).floor()),
        _ => 1.0,
    };
    let marks = linear_marks(low / unit_size, high / unit_size, 6.0);
    let marks = marks.into_iter().map(|at| at * unit_size).map(|at| (at, unit.label(at)));
    PanelAxis { low, high, marks: marks.collect() }
}

/// Round numbers from `begin`, which is not above zero, to `end`, about this many.
fn linear_marks(begin: f64, end: f64, about: f64) -> Vec<f64> {
    let rough = (end - begin) / about;
    let decade = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|value| value * decade).into_iter().find(|value| *value >= rough);
    let step = step.unwrap_or(rough);
    let first = (begin / step).ceil();
    // Bounded, whatever rounding makes of the step; no minus before zero. Without a finite span all are
    // NaN, and none is a mark.
    let places = (0..=20).map(|value| (first + f64::from(value)) * step + 0.0);
    places.take_while(|place| *place <= end).collect()
}

fn logarithmic(unit: AxisUnit, low: f64, high: f64) -> PanelAxis {
    if low > high {
        return PanelAxis { low: 0.0, high: 1.0, marks: Vec::new() };
    }
    // At least half a decade: a flat line must not look like a mountain range.
    let (low, high) = (low - 0.08, (high + 0.08).max(low + 0.5));
    let places = match unit {
        // Sizes, depths and numbers of jobs are mostly varied by doubling.
        AxisUnit::Bytes | AxisUnit::Number => powers_of_two(low, high),
        _ => powers_of_ten(low, high),
    };
    let marks = places.into_iter().map(|at| (at, unit.label(10_f64.powf(at)))).collect();
    PanelAxis { low, high, marks }
}

fn powers_of_two(low: f64, high: f64) -> Vec<f64> {
    let powers = (-40..=64).map(|power| f64::from(power) * 2_f64.log10());
    let within: Vec<f64> = powers.filter(|at| (low..high).contains(at)).collect();
    let every = within.len().div_ceil(MARKS_MAX).max(1);
    within.into_iter().step_by(every).collect()
}

fn powers_of_ten(low: f64, high: f64) -> Vec<f64> {
    let within = |steps: &[f64]| -> Vec<f64> {
        let decades = (-12..=20).map(f64::from);
        let marks = decades.flat_map(|decade| steps.iter().map(move |step| decade + step.log10()));
        marks.filter(|at| (low..high).contains(at)).collect()
    };
    let kinds: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let fits = |marks: &Vec<f64>| marks.len() <= MARKS_MAX;
    kinds.into_iter().map(within).find(fits).unwrap_or_default()
}

/// The axis of quantiles: 0, 50 %, 90 %, 99 %.
fn nines(highest: f64) -> PanelAxis {
    let whole = (1..=9).map(f64::from);
    let half = -0.5_f64.log10();
    // Nines are logarithms of quantiles: rounding may leave a whole one just out of reach.
    let marks = [0.0, half].into_iter().chain(whole).filter(|value| *value <= highest + 1e-6);
    let marks = marks.map(|at| (at, quantile_label(at))).collect();
    PanelAxis { low: 0.0, high: highest * 1.02, marks }
}

/// 0, 50 %, 90 %, 99.9 %.
fn quantile_label(nines: f64) -> String {
    if nines <= 0.0 {
        return "0".to_owned();
    }
    let text = format!("{:.7}", (1.0 - 10_f64.powf(-nines)) * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn steps(labels: &[String]) -> PanelAxis {
    let every = labels.len().div_ceil(STEPS_MAX).max(1);
    let marks = labels.iter().enumerate().step_by(every);
    let marks = marks.map(|(at, label)| (count(at), label.clone())).collect();
    // Room for half a column, and a little, on both sides.
    PanelAxis { low: -0.6, high: count(labels.len()) - 0.4, marks }
}

/// Steps of an axis of time in seconds, each a part of the next.
const TIME_STEPS: [u32; 15] = [
    1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 86_400, 172_800, 604_800, 2_592_000, 7_776_000,
    31_104_000,
];

const DAY: f64 = 86_400.0;

/// An axis of moments in UTC: to the second, to the minute or to the day, as its marks need.
fn moments(low: f64, high: f64) -> PanelAxis {
    if low > high {
        return PanelAxis { low: 0.0, high: 1.0, marks: Vec::new() };
    }
    // A single moment has no length.
    let high = high.max(low + 1.0);
    let step = TIME_STEPS.into_iter().map(f64::from).find(|step| (high - low) / step <= 6.0);
    let step = step.unwrap_or((high - low) / 6.0);
    let first = (low / step).ceil();
    let places = (0..=8).map(|value| (first + f64::from(value)) * step);
    let places = places.take_while(|place| *place <= high);
    let marks = places.map(|at| (at, moment_label(at, step))).collect();
    PanelAxis { low, high, marks }
}

/// `2026-11-23`, `11-23`, `11-23 15:30` or `15:30:15`.
fn moment_label(seconds: f64, step: f64) -> String {
    let text = figures::utc(seconds);
    let part = match step {
        step if step > 7.0 * DAY => text.get(..10),
        step if step >= DAY => text.get(5..10),
        step if step >= 60.0 => text.get(5..16),
        _ => text.get(11..19),
    };
    part.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &PanelAxis) -> Vec<&str> {
        axis.marks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn quantiles_are_marked_by_their_nines() {
        let axis = PanelAxis::new(&AxisScale::Nines, [4.0].into_iter());
        assert_eq!(labels(&axis), ["0", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn latencies_are_marked_in_round_numbers() {
        let values = [120_000.0, 3_400_000.0];
        let axis = PanelAxis::new(&AxisScale::Logarithmic(AxisUnit::Latency), values.into_iter());
        assert!(axis.low < values[0].log10() && axis.high > values[1].log10());
        assert_eq!(labels(&axis), ["100 µs", "200 µs", "500 µs", "1 ms", "2 ms"]);
    }

    #[test]
    fn sizes_are_marked_at_powers_of_two() {
        let axis = PanelAxis::new(
            &AxisScale::Logarithmic(AxisUnit::Bytes),
            [4096.0, 65_536.0].into_iter(),
        );
        assert_eq!(labels(&axis), ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB"]);
    }

    #[test]
    fn other_values_are_marked_in_round_steps() {
        assert_eq!(linear_marks(0.0, 7_900.0, 4.0), [0.0, 2000.0, 4000.0, 6000.0]);
        assert_eq!(linear_marks(0.0, 6.0, 6.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        for end in [0.0, -6.0, f64::INFINITY, f64::NAN] {
            assert!(linear_marks(0.0, end, 4.0).is_empty(), "{end}");
        }
        assert!(linear_marks(f64::NEG_INFINITY, 1.0, 4.0).is_empty());
        assert!(linear_marks(-5.0, -5.0, 4.0).is_empty());
        assert_eq!(linear_marks(-5.2, 0.1, 6.0), [-5.0, -4.0, -3.0, -2.0, -1.0, 0.0]);
    }

    #[test]
    fn moments_are_marked_by_the_second_the_minute_or_the_day_in_utc() {
        let axis = |from: &str, to: &str| {
            let ends = [from, to].map(|text| figures::seconds(text).unwrap());
            PanelAxis::new(&AxisScale::Time, ends.into_iter())
        };
        let day = axis("2026-11-21T01:30:00Z", "2026-11-23T15:27:32.115Z");
        assert_eq!(labels(&day), ["11-22", "11-23"]);
        let minutes = axis("2026-11-23T23:50:00Z", "2026-11-24T00:14:59Z");
        assert_eq!(
            labels(&minutes),
            ["11-23 23:50", "11-23 23:55", "11-24 00:00", "11-24 00:05", "11-24 00:10"]
        );
        let seconds = axis("2026-11-23T15:27:32Z", "2026-11-23T15:28:35Z");
        assert_eq!(labels(&seconds), ["15:27:45", "15:28:00", "15:28:15", "15:28:30"]);
        let none = PanelAxis::new(&AxisScale::Time, [f64::NAN].into_iter());
        assert_eq!(none, PanelAxis { low: 0.0, high: 1.0, marks: Vec::new() });
    }

    #[test]
    fn figures_that_are_none_have_no_place() {
        let scale = AxisScale::Logarithmic(AxisUnit::Rate);
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(coordinate(&scale, odd).is_nan(), "{odd}");
        }
        let axis = PanelAxis::new(&scale, [f64::NAN, 0.0].into_iter());
        assert_eq!(axis, PanelAxis { low: 0.0, high: 1.0, marks: Vec::new() });
    }
}
