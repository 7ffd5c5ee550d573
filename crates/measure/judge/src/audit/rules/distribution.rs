//! Latency distributions: order, bounds, and whether there is one; and results that are possible but
//! should make a careful reader stop: stalls, a blocking submission, an expensive kernel, a tail
//! behind the tail. The thresholds of those are the ones of durio's warnings, so that a run and its
//! audit agree.

use durio_base::stats::least_squares::float;

use super::{Claim, ClaimPlace, LocatedObservation, Observation, Tier};
use crate::audit::claim::Operations;
use crate::audit::figure::{Figure, bandwidth, number, percent, time};

// Percentiles are midpoints of buckets, 0.8 % wide in fio and more in others; a maximum is exact.
const BUCKET: f64 = 0.02;

pub(super) fn out_of_order(claim: &Claim) -> Option<Observation> {
    claim.kinds().into_iter().find_map(|(name, operations)| {
        let pairs = operations.percentiles_ns.iter().zip(operations.percentiles_ns.iter().skip(1));
        let broken = pairs.into_iter().find(|(lower, higher)| higher.1.high < lower.1.low);
        let ((lower, shorter), (higher, longer)) = broken?;
        let reason = format!(
            "{name}: p{} is {}, and p{} is {}",
            number(*lower),
            time(shorter.value),
            number(*higher),
            time(longer.value),
        );
        let figures = [
            ("lower_percentile", *lower),
            ("lower_percentile_ns", shorter.value),
            ("higher_percentile", *higher),
            ("higher_percentile_ns", longer.value),
        ];
        Some(Observation::new(Tier::Impossible, reason, figures))
    })
}

pub(super) fn mean(claim: &Claim) -> Option<Observation> {
    claim.kinds().into_iter().find_map(|(name, operations)| {
        let mean = operations.latency_ns_mean?;
        out_of_bounds(name, mean, operations).or_else(|| below_tail(name, mean, operations))
    })
}

fn out_of_bounds(name: &str, mean: Figure, operations: &Operations) -> Option<Observation> {
    let max = operations.latency_ns_max.filter(|max| mean.low > max.high);
    let min = operations.latency_ns_min.filter(|min| mean.high < min.low);
    let above = max.map(|max| ("longest", "max_ns", max));
    let (word, figure, bound) = above.or_else(|| Some(("shortest", "min_ns", min?)))?;
    let (said, limit) = (time(mean.value), time(bound.value));
    let reason = format!("{name}: the mean is {said}, the {word} {limit}");
    Some(Observation::new(
        Tier::Impossible,
        reason,
        [("mean_ns", mean.value), (figure, bound.value)],
    ))
}

fn below_tail(name: &str, mean: Figure, operations: &Operations) -> Option<Observation> {
    operations.percentiles_ns.iter().find_map(|&(percent, figure)| {
        // A share of 1 − q takes at least the q-th percentile: the mean is at least (1 − q) times
        // that (Markov's inequality).
        let least = (1.0 - percent / 100.0) * figure.low * (1.0 - BUCKET);
        (mean.high < least).then(|| {
            let reason = format!(
                "{name}: the mean is {}, and with p{} at {} it is at least {}",
                time(mean.value),
                number(percent),
                time(figure.value),
                time(least),
            );
            let figures = [
                ("mean_ns", mean.value),
                ("percentile", percent),
                ("percentile_ns", figure.value),
                ("mean_ns_least", least),
            ];
            Observation::new(Tier::Impossible, reason, figures)
        })
    })
}

/// A table without percentiles is reported once, at its header.
pub(super) fn average_only(claims: &[Claim]) -> Vec<LocatedObservation> {
    let lacking: Vec<_> = claims.iter().filter(|claim| has_only_mean(claim)).collect();
    let in_table = |claim: &&&Claim| matches!(claim.line, Some(ClaimPlace::Number(_)));
    let table = lacking.iter().filter(in_table).count();
    let none_has = !claims.iter().any(|claim| has_percentiles(claim) && in_table(&&claim));
    let mut found = Vec::new();
    if none_has && table > 0 {
        let rows = float(table as u64);
        let reason =
            format!("the latencies of all {} rows that have some are averages", number(rows));
        let seen = Observation::new(Tier::Method, reason, [("rows", rows)]);
        found.push(LocatedObservation {
            line: ClaimPlace::Number(1),
            label: "the table".to_owned(),
            seen,
        });
    }
    let apart = lacking.into_iter().filter(|claim| !(none_has && in_table(&claim)));
    let seen = || Observation::new(Tier::Method, "only the mean latency is given", []);
    found.extend(apart.map(|claim| LocatedObservation::new(claim, seen())));
    found
}

fn has_percentiles(claim: &Claim) -> bool {
    claim.kinds().into_iter().any(|(_, operations)| !operations.percentiles_ns.is_empty())
}

fn has_only_mean(claim: &Claim) -> bool {
    let has_mean =
        claim.kinds().into_iter().any(|(_, operations)| operations.latency_ns_mean.is_some());
    // The maximum of a handful of operations says as much as a percentile could.
    let has_max =
        claim.kinds().into_iter().any(|(_, operations)| operations.latency_ns_max.is_some());
    has_mean && !has_max && !has_percentiles(claim)
}

// A sample under this share of the mean is a stall.
const STALL_SHARE: f64 = 0.5;

// A call that only submits takes a few microseconds; more means that it blocks.
const SUBMIT_NS_MAX: f64 = 10_000.0;

// Above this share of a processor in the kernel, the processor may be the bottleneck.
const SYSTEM_SHARE_MAX: f64 = 0.3;

// One in ten thousand this many times slower than one in a hundred hides behind the p99.
const TAIL_GAP_MAX: f64 = 10.0;

pub(super) fn stalls(claim: &Claim) -> Option<Observation> {
    claim.kinds().into_iter().find_map(|(name, operations)| {
        let (least, mean) = (operations.bandwidth_min?.value, operations.bandwidth_mean?.value);
        (least < mean * STALL_SHARE).then(|| {
            let reason = format!(
                "{name}: the slowest sample has {}, the mean is {}",
                bandwidth(least),
                bandwidth(mean)
            );
            let figures =
                [("sample_min_bytes_per_second", least), ("sample_mean_bytes_per_second", mean)];
            Observation::new(Tier::Doubtful, reason, figures)
        })
    })
}

pub(super) fn submission(claim: &Claim) -> Option<Observation> {
    // Calls that block by design have no submission latency.
    claim.kinds().into_iter().filter(|_| claim.blocking != Some(true)).find_map(
        |(name, operations)| {
            let submit = operations.submit_ns_mean?.value;
            (submit > SUBMIT_NS_MAX).then(|| {
                let reason = format!("{name}: submitting takes {} on average", time(submit));
                Observation::new(Tier::Doubtful, reason, [("submit_ns_mean", submit)])
            })
        },
    )
}

pub(super) fn system_time(claim: &Claim) -> Option<Observation> {
    let share = claim.system_cpu_share.filter(|share| *share > SYSTEM_SHARE_MAX)?;
    let reason = format!("{} of a processor per job in the kernel", percent(share));
    Some(Observation::new(Tier::Doubtful, reason, [("system_cpu_share", share)]))
}

pub(super) fn tail(claim: &Claim) -> Option<Observation> {
    claim.kinds().into_iter().find_map(|(name, operations)| {
        let at = |wanted: f64| {
            let mut known = operations.percentiles_ns.iter();
            Some(known.find(|(percent, _)| (percent - wanted).abs() < 1e-6)?.1)
        };
        let (p99, p99_99) = (at(99.0)?, at(99.99)?);
        (p99_99.low > p99.high * TAIL_GAP_MAX).then(|| {
            let reason = format!(
                "{name}: p99.99 is {}, {} times the p99 of {}",
                time(p99_99.value),
                number((p99_99.value / p99.value.max(1.0)).round()),
                time(p99.value),
            );
            let figures = [("p99_ns", p99.value), ("p99_99_ns", p99_99.value)];
            Observation::new(Tier::Doubtful, reason, figures)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::figure::Figure;
    use crate::audit::rules::tests::{codes, sound};

    fn with_percentiles(percentiles_us: &[(f64, f64)]) -> Claim {
        let mut claim = sound("randread");
        let figures = percentiles_us.iter().map(|&(q, us)| (q, Figure::exact(us * 1e3)));
        claim.read.percentiles_ns = figures.collect();
        claim
    }

    #[test]
    fn percentiles_that_fall_are_impossible() {
        assert!(codes(&with_percentiles(&[(50.0, 90.0), (99.0, 200.0)])).is_empty());
        assert!(codes(&with_percentiles(&[(50.0, 90.0), (99.0, 90.0)])).is_empty());
        let falling = with_percentiles(&[(50.0, 90.0), (99.0, 89.0)]);
        assert_eq!(codes(&falling), ["percentiles-out-of-order"]);
        let mut rounded = falling;
        rounded.read.percentiles_ns[1].1 = Figure::printed(89_000.0, 1_000.0);
        assert!(codes(&rounded).is_empty(), "89 may be 90 that was cut off");
    }

    #[test]
    fn a_mean_outside_of_its_bounds_is_impossible() {
        let mut claim = with_percentiles(&[(50.0, 90.0)]);
        claim.read.latency_ns_max = Some(Figure::exact(99_000.0));
        claim.read.latency_ns_min = Some(Figure::exact(99_000.0));
        assert!(codes(&claim).is_empty());
        claim.read.latency_ns_max = Some(Figure::exact(98_000.0));
        assert_eq!(codes(&claim), ["mean-impossible"]);
        claim.read.latency_ns_max = None;
        claim.read.latency_ns_min = Some(Figure::exact(100_000.0));
        assert_eq!(codes(&claim), ["mean-impossible"]);
    }

    #[test]
    fn rounding_of_a_mean_and_of_its_bounds_is_given_to_the_claim() {
        let told = |mean: Figure, min: Option<Figure>, max: Option<Figure>| {
            let mut claim = sound("randread");
            claim.read.latency_ns_mean = Some(mean);
            (claim.read.latency_ns_min, claim.read.latency_ns_max) = (min, max);
            codes(&claim).iter().any(|code| code == "mean-impossible")
        };
        // 99 µs stand for 98.5 to 100 µs.
        let (mean, exact) = (Figure::printed(99_000.0, 1_000.0), |ns| Some(Figure::exact(ns)));
        assert_eq!([98_500.0, 98_499.0].map(|nanos| told(mean, None, exact(nanos))), [false, true]);
        assert_eq!(
            [100_000.0, 100_001.0].map(|nanos| told(mean, exact(nanos), None)),
            [false, true]
        );
        // A longest of 98 µs may be one of 99, a shortest of 100 one of 99.5.
        let printed = |ns| Some(Figure::printed(ns, 1_000.0));
        assert_eq!(
            [99_000.0, 99_001.0].map(|nanos| told(Figure::exact(nanos), None, printed(98_000.0))),
            [false, true]
        );
        assert_eq!(
            [99_500.0, 99_499.0].map(|nanos| told(Figure::exact(nanos), printed(100_000.0), None)),
            [false, true]
        );
    }

    #[test]
    fn a_mean_that_its_own_tail_exceeds_is_impossible() {
        assert!(codes(&with_percentiles(&[(99.0, 9_900.0)])).is_empty(), "99 µs at least");
        assert_eq!(codes(&with_percentiles(&[(99.0, 10_200.0)])), ["mean-impossible"]);
    }

    #[test]
    fn a_table_of_averages_is_told_once_and_a_named_job_each() {
        let row = |line| {
            let mut claim = sound("randread");
            claim.line = Some(line);
            claim.read.percentiles_ns.clear();
            claim
        };
        let rows = [
            row(ClaimPlace::Number(2)),
            row(ClaimPlace::Number(3)),
            row(ClaimPlace::Name("job".into())),
        ];
        let lines: Vec<_> = average_only(&rows).into_iter().map(|about| about.line).collect();
        assert_eq!(lines, [ClaimPlace::Number(1), ClaimPlace::Name("job".into())]);
        let mixed = [rows[0].clone(), with_percentiles(&[(99.0, 200.0)])];
        let lines: Vec<_> = average_only(&mixed).into_iter().map(|about| about.line).collect();
        assert_eq!(lines, [ClaimPlace::Number(2)], "the others have some");
    }

    #[test]
    fn the_bound_of_a_tail_leaves_a_bucket_of_two_percent() {
        // A hundredth of the p99, less 2 %: 99 µs for 10.102 ms.
        let told = |micros: f64| !codes(&with_percentiles(&[(99.0, micros)])).is_empty();
        assert_eq!([10_101.0, 10_103.0].map(told), [false, true]);
        let told = |micros: f64| !codes(&with_percentiles(&[(90.0, micros)])).is_empty();
        assert_eq!([1_010.0, 1_011.0].map(told), [false, true]);
    }

    #[test]
    fn who_has_a_longest_time_or_a_percentile_has_more_than_an_average() {
        let lacks = |change: &dyn Fn(&mut Claim)| {
            let mut claim = sound("randread");
            claim.line = Some(ClaimPlace::Name("job".into()));
            claim.read.percentiles_ns.clear();
            change(&mut claim);
            average_only(&[claim]).len()
        };
        let figure = Some(Figure::exact(1.0));
        assert_eq!(lacks(&|_| {}), 1);
        assert_eq!(lacks(&|claim| claim.read.latency_ns_max = figure), 0);
        assert_eq!(lacks(&|claim| claim.read.latency_ns_min = figure), 1);
        assert_eq!(lacks(&|claim| claim.write.percentiles_ns.push((99.0, Figure::exact(1.0)))), 0);
        assert_eq!(lacks(&|claim| claim.read.latency_ns_mean = None), 0);
    }

    #[test]
    fn a_sample_under_half_of_the_mean_is_a_stall() {
        let mut claim = sound("randwrite");
        claim.write.bandwidth_mean = Some(Figure::exact(100e6));
        claim.write.bandwidth_min = Some(Figure::exact(50e6));
        assert_eq!(codes(&claim), [""; 0]);
        claim.write.bandwidth_min = Some(Figure::exact(49e6));
        assert_eq!(codes(&claim), ["stalls"]);
    }

    #[test]
    fn a_submission_that_blocks_is_told_where_calls_should_not() {
        let mut claim = sound("randread");
        claim.read.submit_ns_mean = Some(Figure::exact(10_000.0));
        assert_eq!(codes(&claim), [""; 0]);
        claim.read.submit_ns_mean = Some(Figure::exact(10_001.0));
        assert_eq!(codes(&claim), ["submission-blocks"]);
        claim.blocking = Some(true);
        assert_eq!(codes(&claim), [""; 0]);
    }

    #[test]
    fn a_third_of_a_processor_in_the_kernel_is_told() {
        let mut claim = sound("randread");
        claim.system_cpu_share = Some(0.3);
        assert_eq!(codes(&claim), [""; 0]);
        claim.system_cpu_share = Some(0.31);
        assert_eq!(codes(&claim), ["system-time"]);
    }

    #[test]
    fn a_tail_behind_the_tail_is_told() {
        let mut claim = sound("randread");
        let percentile = |percent, nanos| (percent, Figure::exact(nanos));
        claim.read.percentiles_ns = vec![percentile(99.0, 200e3), percentile(99.99, 2e6)];
        assert_eq!(codes(&claim), [""; 0]);
        claim.read.percentiles_ns = vec![percentile(99.0, 200e3), percentile(99.99, 2.1e6)];
        assert_eq!(codes(&claim), ["tail-gap"]);
    }

    #[test]
    fn a_tail_is_told_with_how_many_times_it_is_and_needs_both_percentiles() {
        let told = |percentiles: &[(f64, f64)]| {
            let mut claim = sound("randread");
            let figures =
                percentiles.iter().map(|&(percent, nanos)| (percent, Figure::exact(nanos)));
            claim.read.percentiles_ns = figures.collect();
            super::tail(&claim).map(|seen| seen.reason)
        };
        let reason = told(&[(50.0, 100e3), (99.0, 200e3), (99.9, 3e6), (99.99, 5e6)]).unwrap();
        assert_eq!(reason, "read: p99.99 is 5 ms, 25 times the p99 of 200 µs");
        // None of the others stands for one of the two.
        assert_eq!(told(&[(99.0, 200e3), (99.9, 9e6)]), None);
        assert_eq!(told(&[(98.0, 200e3), (99.99, 9e6)]), None);
        let reason = told(&[(99.0, 0.5), (99.99, 40.0)]).unwrap();
        assert!(reason.contains("40 times"), "{reason}");
    }
}
