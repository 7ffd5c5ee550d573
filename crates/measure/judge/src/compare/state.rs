//! Whether a step's results can be used: it ended, kept to its definition and ran at a steady rate.
//! Environment and definitions are compared elsewhere.

use super::bootstrap::autocorrelation;
use super::side::IntervalGroup;
use super::units::UnitMember;
use durio_base::stats::least_squares::{count, float, line, mean};

/// The best line through the rates may rise or fall by this share of their mean over the whole
/// phase: the criterion for the slope of SNIA's Solid State Storage Performance Test Specification,
/// Enterprise, 2.0.1, "steady state".
const DRIFT_MAX: f64 = 0.10;

/// A drift must be this many standard errors from zero, because short runs scatter.
// Among steady runs with normal scatter, 3 in 1000 drift farther by chance.
const DRIFT_ERRORS: f64 = 3.0;

/// Fewer cells show no drift.
const CELLS_MIN: usize = 10;

/// Why one side's results are unusable; empty if they are fine.
pub(super) fn faults(label: &str, members: &[UnitMember<'_>]) -> Vec<String> {
    let of = |member: &UnitMember<'_>| {
        let place = match members.len() {
            1 => label.to_owned(),
            _ => format!("{label}, run {} ({})", member.run_index + 1, member.run.findings.run.run),
        };
        (faults_of_one(&place, member), drifted(&place, member))
    };
    let (faults, drifts): (Vec<_>, Vec<_>) = members.iter().map(of).unzip();
    let drifts: Vec<String> = drifts.into_iter().flatten().collect();
    // If a few of many repeats drift, that is part of the repeats' scatter, and counted as such:
    // else more repeats would decide less, because each is as likely to drift. If most do, it is
    // the step.
    let is_of_most = 2 * drifts.len() > members.len();
    faults.into_iter().flatten().chain(drifts.into_iter().filter(|_| is_of_most)).collect()
}

fn faults_of_one(place: &str, member: &UnitMember<'_>) -> Vec<String> {
    let workload = member.workload;
    let mut faults = Vec::new();
    if !workload.complete {
        faults.push(format!("{place} did not run to its limit"));
    }
    // If I/O went through the page cache instead of past it, the results depend on memory as much
    // as on the storage.
    if workload.effective.cache != workload.definition.cache {
        let fallbacks = workload.effective.fallbacks.join("; ");
        faults
            .push(format!("{place} could not have the cache mode of its definition: {fallbacks}"));
    }
    faults
}

fn drifted(place: &str, member: &UnitMember<'_>) -> Option<String> {
    let drift = drift(member.series.map(|it| it.cells()).unwrap_or_default())?;
    let way = if drift > 0.0 { "rose" } else { "fell" };
    let share = drift.abs() * 100.0;
    Some(format!("{place} was in no steady state: its rate {way} by {share:.0} %"))
}

/// The share of the mean by which the rate drifted, if more than steady state allows.
fn drift(cells: &[IntervalGroup]) -> Option<f64> {
    let rate = |cell: &IntervalGroup| float(cell.count) / float(cell.span_ns.max(1));
    let rates: Vec<f64> = cells.iter().map(rate).collect();
    if rates.len() < CELLS_MIN {
        return None;
    }
    let (cells, mean, (start, slope)) = (count(rates.len()), mean(&rates)?, line(&rates)?);
    // Σ (i − (n − 1) ÷ 2)², the spread of the positions.
    let squares = cells * (cells * cells - 1.0) / 12.0;
    let rest = rates.iter().enumerate().map(|(at, it)| it - start - slope * count(at));
    let rest: Vec<f64> = rest.collect();
    // Below one: a correlation of one would make any drift chance.
    let r = autocorrelation(&rest).clamp(0.0, 0.95);
    // Neighbours that are alike say less than as many independent cells: (1 + r) ÷ (1 − r).
    let variance = rest.iter().map(|it| it * it).sum::<f64>() / (cells - 2.0);
    let error = (variance / squares * (1.0 + r) / (1.0 - r)).sqrt();
    let drift = slope * (cells - 1.0) / mean;
    let is_clear = slope.abs() > DRIFT_ERRORS * error;
    (is_clear && drift.is_finite() && drift.abs() > DRIFT_MAX).then_some(drift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(rates: impl IntoIterator<Item = u64>) -> Vec<IntervalGroup> {
        let cell =
            |count| IntervalGroup { span_ns: 1_000_000_000, count, ..IntervalGroup::default() };
        rates.into_iter().map(cell).collect()
    }

    #[test]
    fn a_rate_that_falls_by_a_fifth_is_not_steady() {
        let drift = drift(&cells((0..50).map(|it| 10_000 - it * 40 + it % 7 * 20))).unwrap();
        assert!((drift + 0.217).abs() < 0.01, "{drift}");
    }

    #[test]
    fn noise_and_a_small_drift_are_steady() {
        assert_eq!(drift(&cells((0..50).map(|it| 10_000 - it * 10))), None);
        assert_eq!(drift(&cells((0..50).map(|it| 10_000 + it * 7919 % 1000 * 10))), None);
        assert_eq!(drift(&cells([0; 50])), None);
        assert_eq!(drift(&cells([5, 1])), None);
        assert_eq!(drift(&[]), None);
    }

    fn of_counts(counts: impl IntoIterator<Item = u64>) -> Vec<IntervalGroup> {
        counts
            .into_iter()
            .map(|count| IntervalGroup { span_ns: 1, count, ..IntervalGroup::default() })
            .collect()
    }

    #[test]
    fn a_drift_of_a_tenth_is_steady_and_a_little_more_is_not() {
        // Mean 100,000; over ten steps the rate changes by a tenth of that.
        assert_eq!(drift(&of_counts((0..11).map(|at| 95_000 + 1000 * at))), None);
        let rising = drift(&of_counts((0..11).map(|at| 94_995 + 1001 * at))).unwrap();
        assert!((rising - 0.1001).abs() < 1e-9, "{rising}");
        let falling = drift(&of_counts((0..11).map(|at| 105_005 - 1001 * at))).unwrap();
        assert!((falling + 0.1001).abs() < 1e-9, "{falling}");
    }

    #[test]
    fn ten_cells_show_a_drift_and_nine_do_not() {
        let rising = |cells: u64| drift(&of_counts((0..cells).map(|at| 1000 + 100 * at)));
        assert_eq!(rising(9), None);
        assert!((rising(10).unwrap() - 900.0 / 1450.0).abs() < 1e-9);
    }

    #[test]
    fn a_drift_counts_from_three_standard_errors_on_with_neighbours_that_are_alike() {
        // Errors by NumPy: the rest's correlation is 0.588; the slope is 2.994 and 3.015 errors.
        let noise =
            [0, 300, 500, 200, -400, -700, -300, 100, 600, 800, 300, -200, -600, -100, 400, -500];
        let sloped = |slope: i64| {
            let rates = (0..).zip(noise).map(|(at, noise)| 5000 + slope * at + noise);
            drift(&of_counts(rates.map(|rate| u64::try_from(rate).unwrap())))
        };
        assert_eq!(sloped(161), None);
        assert!((sloped(162).unwrap() - 0.354_779_411_764_706).abs() < 1e-9);
    }
}
