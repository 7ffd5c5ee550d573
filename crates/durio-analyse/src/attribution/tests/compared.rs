//! Two kernels: what became cheaper, and what the noise hides.

use super::*;
use crate::{Declined, Findings};

/// Raw and mirror, three repeats each, at these rates and one per cent around them.
struct Side {
    raw: Vec<Findings>,
    mirror: Vec<Findings>,
}

impl Side {
    fn new(kernel: &str, raw: f64, mirror: f64, spread: f64) -> Self {
        let repeats = |rate: f64| {
            let each =
                [1.0 - spread, 1.0, 1.0 + spread].map(|factor| run(&[writes(rate * factor)]));
            each.map(|mut it| {
                it.host.kernel = kernel.into();
                it
            })
        };
        Self { raw: repeats(raw).into(), mirror: repeats(mirror).into() }
    }

    fn findings(&self) -> StackFindings {
        let mut points = vec![
            point("bitmap", "raw", PointKind::Raw, None, None),
            point("bitmap", "RAID10", PointKind::Raid, Some(0), None),
        ];
        points[0].runs = self.raw.iter().collect();
        points[1].runs = self.mirror.iter().collect();
        let mut bench = bench(points);
        bench.timing = Some(Timing::Counted);
        attribution(&bench).unwrap()
    }
}

#[test]
fn a_layer_that_became_cheaper_beyond_the_noise_is_told() {
    let old = Side::new("6.1", 100_000.0, 20_000.0, 0.005).findings();
    let new = Side::new("6.12", 100_000.0, 40_000.0, 0.005).findings();
    let found = compare_labs(&old, &new).unwrap();
    assert_eq!(found.sides.each_ref().map(|it| it.kernels.clone()), [["6.1"], ["6.12"]]);
    let [raw, mirror] = found.workloads[0].layers.as_slice() else { panic!("{found:?}") };
    assert_eq!((raw.change, raw.added_ns, raw.ratio), (CostChange::NoDifference, None, 1.0));
    assert_eq!((mirror.change, mirror.noise), (CostChange::Cheaper, Noise::Repeats));
    // 50 µs became 25; of those the mirror added 40 to raw's 10, and now adds 15.
    assert!((mirror.ratio - 0.5).abs() < 1e-12);
    assert!((mirror.added_ratio.unwrap() - 0.375).abs() < 1e-9);
    let [low, high] = mirror.ratio_range.unwrap();
    assert!((low - 0.5 * 0.995 / 1.005).abs() < 1e-9 && (high - 0.5 * 1.005 / 0.995).abs() < 1e-9);
    assert_eq!(found.label.as_deref(), Some(COUNTED_LABEL));
}

#[test]
fn what_lies_within_the_noise_is_no_difference() {
    let old = Side::new("6.1", 100_000.0, 20_000.0, 0.06).findings();
    let new = Side::new("6.12", 100_000.0, 21_500.0, 0.06).findings();
    let found = compare_labs(&old, &new).unwrap();
    assert_eq!(found.workloads[0].layers[1].change, CostChange::NoDifference);
    let exact = Side::new("6.12", 100_000.0, 21_500.0, 0.001).findings();
    let old = Side::new("6.1", 100_000.0, 20_000.0, 0.001).findings();
    let found = compare_labs(&old, &exact).unwrap();
    assert_eq!(found.workloads[0].layers[1].change, CostChange::Cheaper);
    let turned = compare_labs(&exact, &old).unwrap();
    assert_eq!(turned.workloads[0].layers[1].change, CostChange::Dearer);
}

#[test]
fn what_only_one_side_has_is_named_and_kinds_of_time_do_not_mix() {
    let old = Side::new("6.1", 100_000.0, 20_000.0, 0.01).findings();
    let mut new = Side::new("6.12", 100_000.0, 20_000.0, 0.01).findings();
    new.workloads[0].rows[1].figures = None;
    let found = compare_labs(&old, &new).unwrap();
    assert_eq!(found.workloads[0].layers.len(), 1);
    assert_eq!(
        found.only_one_side,
        ["randwrite on RAID10 in stack bitmap: measured on the baseline only"]
    );
    new.timing = Some(Timing::Wall);
    assert!(matches!(compare_labs(&old, &new), Err(Declined::NoSuchRule { .. })));
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<LabComparison>(&text).unwrap(), found);
}
