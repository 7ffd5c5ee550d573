//! Rules that hold for any rates.

use proptest::prelude::*;

use super::*;
use crate::Findings;

/// One stack with a point for each run, from the bottom up.
fn column(runs: &[Findings]) -> Vec<StackPoint<'_>> {
    let mut points = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let kind = if at == 0 { PointKind::Raw } else { PointKind::Volume };
        points.push(point("s", &format!("layer {at}"), kind, at.checked_sub(1), Some(run)));
    }
    points
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn shares_multiply_along_the_stack(rates in prop::collection::vec(1e-3..1e9_f64, 1..12)) {
        let runs: Vec<Findings> = rates.iter().map(|rate| run(&[writes(*rate)])).collect();
        let found = attribution(&bench(column(&runs))).unwrap();
        let mut product = 1.0;
        for (at, rate) in rates.iter().enumerate() {
            let row = figures(&found, at);
            product *= row.share_of_below.unwrap();
            let share = row.share_of_raw.unwrap();
            prop_assert!((share / product - 1.0).abs() < 1e-9, "{share} {product}");
            prop_assert!((share - rate / rates[0]).abs() <= 1e-9 * share);
        }
    }

    #[test]
    fn added_times_sum_up_to_the_top(rates in prop::collection::vec(1.0..1e7_f64, 2..12)) {
        let runs: Vec<Findings> = rates.iter().map(|rate| run(&[writes(*rate)])).collect();
        let mut made = bench(column(&runs));
        made.timing = Some(Timing::Counted);
        let found = attribution(&made).unwrap();
        let fall = &found.workloads[0].waterfalls[0];
        let sum: f64 = fall.steps.iter().map(|step| step.added_ns).sum();
        let top = 1e9 / rates[rates.len() - 1];
        let largest = rates.iter().map(|rate| 1e9 / rate).fold(0.0, f64::max);
        prop_assert!((sum - top).abs() <= 1e-9 * largest, "{sum} {top}");
    }

    #[test]
    fn any_figures_give_findings_that_read_back(
        rates in prop::collection::vec(
            prop_oneof![any::<f64>(), Just(f64::NAN), Just(0.0), 1.0..1e6_f64], 1..6),
        shares in prop::collection::vec(1e-9..1e3_f64, 6),
    ) {
        let runs: Vec<Findings> = rates.iter().map(|rate| run(&[writes(*rate)])).collect();
        let mut points = column(&runs);
        for (point, share_of_raw) in points.iter_mut().zip(shares) {
            point.published = vec![published(share_of_raw, None, "made")];
        }
        let found = attribution(&bench(points)).unwrap();
        let text = serde_json::to_string(&found).unwrap();
        prop_assert!(serde_json::from_str::<StackFindings>(&text).is_ok(), "{text}");
    }
}
