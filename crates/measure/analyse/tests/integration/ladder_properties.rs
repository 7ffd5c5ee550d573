//! Rules that hold for any ladder.

use durio_analyse::ladder::{
    Knee, LadderFindings, LadderKind, LadderPoint, RateAndLatency, analyse,
};
use proptest::prelude::*;

fn ladder(steps: &[(f64, f64, f64)]) -> Vec<LadderPoint> {
    let point = |(level, rate, latency): &(f64, f64, f64)| {
        let part = RateAndLatency { rate_per_second: *rate, latency_ns_mean: *latency };
        LadderPoint::of_means(*level, *level, part)
    };
    steps.iter().map(point).collect()
}

/// Ladders as they are measured: each level is above the one before it, rates wander.
fn plausible() -> impl Strategy<Value = Vec<(f64, f64, f64)>> {
    let step = (1.05..4.0_f64, 0.9..3.0_f64, 1e3..1e6_f64);
    prop::collection::vec(step, 4..10).prop_map(|steps| {
        let (mut level, mut rate) = (1.0, 1e4);
        let grown = steps.into_iter().map(|(up, gain, latency)| {
            let point = (level, rate, latency);
            level *= up;
            rate *= gain.min(up);
            point
        });
        grown.collect()
    })
}

fn any_figure() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), 1e-3..1e9_f64, Just(f64::NAN), Just(0.0), Just(f64::INFINITY)]
}

fn scaled(steps: &[(f64, f64, f64)], factor: f64) -> Vec<LadderPoint> {
    let faster: Vec<_> =
        steps.iter().map(|(level, rate, latency)| (*level, rate * factor, *latency)).collect();
    ladder(&faster)
}

fn units(found: &LadderFindings) -> Option<f64> {
    match found.knee {
        Knee::Measured { units, .. } | Knee::AtLeast { units, .. } => Some(units),
        Knee::CannotTell { .. } => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn conclusions_do_not_depend_on_the_scale_of_the_rate(
        steps in plausible(), power in -4..6_i32,
    ) {
        // A power of two loses no digit: what differs is a dependence.
        let factor = 2.0_f64.powi(power);
        let kind = LadderKind::Jobs;
        let (here, there) =
            (analyse(&scaled(&steps, 1.0), kind), analyse(&scaled(&steps, factor), kind));
        prop_assert_eq!(here.is_ok(), there.is_ok());
        let (Ok(here), Ok(there)) = (here, there) else { return Ok(()) };
        prop_assert_eq!(&here.best.levels, &there.best.levels);
        prop_assert_eq!(&here.phases, &there.phases);
        if let (Some(here), Some(there)) = (units(&here), units(&there)) {
            prop_assert!((there / here / factor - 1.0).abs() < 1e-9);
        }
        let (here, there) = (here.saturation.unwrap(), there.saturation.unwrap());
        let moved = (here.knee_load / there.knee_load - 1.0).abs();
        prop_assert!(moved < 0.01, "{} and {}", here.knee_load, there.knee_load);
    }

    #[test]
    fn phases_are_in_order_and_figures_finite(steps in plausible()) {
        let Ok(found) = analyse(&ladder(&steps), LadderKind::Depth) else { return Ok(()) };
        let phases: Vec<_> = found.points.iter().map(|point| point.phase as u8).collect();
        prop_assert!(phases.is_sorted(), "{:?}", phases);
        prop_assert!(found.points.iter().all(|point| point.efficiency_share <= 1.0));
        let text = serde_json::to_string(&found).unwrap();
        let read: LadderFindings = serde_json::from_str(&text).unwrap();
        // A figure that is not finite is saved as nothing and cannot be read again.
        prop_assert_eq!(read.points.len(), found.points.len());
        prop_assert!(!found.best.levels.is_empty());
    }

    #[test]
    fn no_figures_make_it_panic(
        steps in prop::collection::vec((any_figure(), any_figure(), any_figure()), 0..8),
        in_flight in any_figure(),
    ) {
        for kind in [LadderKind::Jobs, LadderKind::OfferedRate] {
            let mut points = ladder(&steps);
            let _ = analyse(&points, kind);
            points.sort_by(|a, b| a.level.total_cmp(&b.level));
            points.iter_mut().for_each(|point| point.in_flight = in_flight);
            let _ = analyse(&points, kind);
        }
    }
}
