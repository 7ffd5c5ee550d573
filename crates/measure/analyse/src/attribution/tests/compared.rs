//! Two kernels: what became cheaper, and what the noise hides.

use super::*;
use crate::{DeclinedAnalysis, Findings};

/// Raw and mirror of one guest, at these rates.
fn guest(kernel: &str, raw: f64, mirror: f64) -> StackFindings {
    let of = |rate: f64| -> Findings {
        let mut it = run(&[writes(rate)]);
        it.host.kernel = kernel.into();
        it.workloads[0].context_switches_per_operation = Some(rate / 1e5);
        it
    };
    let (raw, mirror) = (of(raw), of(mirror));
    let mut bench = bench(vec![
        point("bitmap", "raw", PointKind::Raw, None, Some(&raw)),
        point("bitmap", "RAID10", PointKind::Raid, Some(0), Some(&mirror)),
    ]);
    bench.timing = Some(Timing::Counted);
    attribution(&bench).unwrap()
}

/// Three repeats at these rates, each this far from the next.
fn side(kernel: &str, raw: f64, mirror: f64, spread: f64) -> Vec<StackFindings> {
    let each = [1.0, 1.0 - spread, 1.0 + spread];
    each.map(|factor| guest(kernel, raw * factor, mirror * factor)).into()
}

#[test]
fn a_layer_that_became_cheaper_beyond_the_noise_is_told() {
    let old = side("6.1", 100_000.0, 20_000.0, 0.005);
    let new = side("6.12", 100_000.0, 40_000.0, 0.005);
    let found = compare_labs(&old, &new).unwrap();
    assert_eq!(found.sides.each_ref().map(|side| side.kernels.clone()), [["6.1"], ["6.12"]]);
    assert_eq!(found.sides.each_ref().map(|side| side.repeats), [3, 3]);
    let [raw, mirror] = found.workloads[0].layers.as_slice() else { panic!("{found:?}") };
    assert_eq!((raw.change, raw.added_ns), (CostChange::Undecided, None));
    let reason = raw.reason.as_deref().unwrap();
    // Student's quantiles for four degrees of freedom: 2.776 and 0.941.
    assert_eq!(reason, "the repeats scatter by 0.5 %, a change of 1.5 % could be seen");
    assert_eq!((mirror.change, &mirror.reason), (CostChange::Cheaper, &None));
    // 50 µs became 25; of those the mirror added 40 to raw's 10, and now adds 15.
    assert!((mirror.ratio - 0.5).abs() < 1e-9);
    assert!((mirror.added_ratio.unwrap() - 0.375).abs() < 1e-9);
    let [low, high] = mirror.ratio_interval.unwrap();
    // Four degrees of freedom, and a deviation of 0.5 % with three repeats on each side.
    let half = 2.776 * 0.005 * (2.0_f64 / 3.0).sqrt();
    assert!((low - 0.5 * (-half).exp()).abs() < 1e-4 && (high - 0.5 * half.exp()).abs() < 1e-4);
    assert!((mirror.scatter.unwrap()[0] - (1.005 / 0.995 - 1.0)).abs() < 1e-9);
    assert_eq!(mirror.time_per_operation_ns_of_repeats[1][0], 25_000.0, "in their order");
    assert_eq!(
        mirror.context_switches_per_operation.unwrap().map(|ratio| (ratio * 10.0).round()),
        [2.0, 4.0]
    );
    assert_eq!(found.label.as_deref(), Some(COUNTED_LABEL));
}

#[test]
fn single_runs_are_shown_and_not_judged() {
    let old = [guest("6.1", 100_000.0, 20_000.0)];
    let new = [guest("6.12", 100_000.0, 40_000.0)];
    let found = compare_labs(&old, &new).unwrap();
    let mirror = &found.workloads[0].layers[1];
    assert!((mirror.ratio - 0.5).abs() < 1e-9);
    assert_eq!(mirror.change, CostChange::Undecided);
    assert_eq!((mirror.ratio_interval, mirror.scatter), (None, None));
    assert_eq!(mirror.reason.as_deref(), Some("one run per side; use --repeat N to find out"));
}

#[test]
fn repeats_within_one_guest_are_no_repeats() {
    let (fast, slow) = (run(&[writes(1e5)]), run(&[writes(0.9e5)]));
    let mut points = vec![point("bitmap", "raw", PointKind::Raw, None, None)];
    points[0].runs = vec![&fast, &slow, &fast];
    let findings = attribution(&bench(points)).unwrap();
    assert_eq!(findings.workloads[0].rows[0].figures.as_ref().unwrap().repeats, 3);
    let found =
        compare_labs(std::slice::from_ref(&findings), std::slice::from_ref(&findings)).unwrap();
    assert_eq!(found.workloads[0].layers[0].change, CostChange::Undecided);
}

#[test]
fn what_lies_within_the_noise_is_undecided() {
    let mirror = |rate, spread| side("k", 100_000.0, rate, spread);
    let change = |before: &[StackFindings], after: &[StackFindings]| {
        compare_labs(before, after).unwrap().workloads[0].layers[1].change
    };
    assert_eq!(change(&mirror(2e4, 0.06), &mirror(21_500.0, 0.06)), CostChange::Undecided);
    assert_eq!(change(&mirror(2e4, 0.001), &mirror(2e4, 0.001)), CostChange::NoDifference);
    assert_eq!(change(&mirror(2e4, 0.001), &mirror(21_500.0, 0.001)), CostChange::Cheaper);
    assert_eq!(change(&mirror(21_500.0, 0.001), &mirror(2e4, 0.001)), CostChange::Dearer);
}

#[test]
fn a_repeat_without_figures_of_a_point_is_one_less() {
    let old = side("6.1", 100_000.0, 20_000.0, 0.001);
    let mut new = side("6.12", 100_000.0, 40_000.0, 0.001);
    for findings in &mut new[..2] {
        findings.workloads[0].rows[1].figures = None;
    }
    let found = compare_labs(&old, &new).unwrap();
    let mirror = &found.workloads[0].layers[1];
    assert_eq!(mirror.time_per_operation_ns_of_repeats.each_ref().map(Vec::len), [3, 1]);
    assert_eq!(mirror.change, CostChange::Undecided);
    assert_eq!(mirror.reason.as_deref(), Some("one run on one side; use --repeat N to find out"));
}

#[test]
fn what_only_one_side_has_is_named_and_kinds_of_time_do_not_mix() {
    let old = [guest("6.1", 100_000.0, 20_000.0)];
    let mut new = [guest("6.12", 100_000.0, 20_000.0)];
    new[0].workloads[0].rows[1].figures = None;
    let found = compare_labs(&old, &new).unwrap();
    assert_eq!(found.workloads[0].layers.len(), 1);
    assert_eq!(
        found.only_one_side,
        ["randwrite on RAID10 in stack bitmap: measured on the baseline only"]
    );
    new[0].timing = Some(Timing::Wall);
    assert!(matches!(compare_labs(&old, &new), Err(DeclinedAnalysis::NoSuchRule { .. })));
    assert!(matches!(compare_labs(&old, &[]), Err(DeclinedAnalysis::TooFew { .. })));
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<LabComparison>(&text).unwrap(), found);
}
