//! Results that are possible but should make a careful reader stop: stalls, a blocking submission,
//! an expensive kernel, a tail behind the tail. The thresholds are those of durio's warnings, so
//! that a run and its audit agree.

use super::{Claim, Observation, Tier};
use crate::audit::wording::{bandwidth, number, percent, time};

// A sample under this share of the mean is a stall.
const STALL_SHARE: f64 = 0.5;

// A call that only submits takes a few microseconds; more means that it blocks.
const SUBMIT_NS_MAX: f64 = 10_000.0;

// Above this share of a processor in the kernel, the processor may be the bottleneck.
const SYSTEM_SHARE_MAX: f64 = 0.3;

// One in ten thousand this many times slower than one in a hundred hides behind the p99.
const TAIL_GAP_MAX: f64 = 10.0;

pub(super) fn stalls(claim: &Claim) -> Option<Observation> {
    claim.kinds().into_iter().find_map(|(name, it)| {
        let (least, mean) = (it.bandwidth_min?.value, it.bandwidth_mean?.value);
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
    claim.kinds().into_iter().filter(|_| claim.blocking != Some(true)).find_map(|(name, it)| {
        let submit = it.submit_ns_mean?.value;
        (submit > SUBMIT_NS_MAX).then(|| {
            let reason = format!("{name}: submitting takes {} on average", time(submit));
            Observation::new(Tier::Doubtful, reason, [("submit_ns_mean", submit)])
        })
    })
}

pub(super) fn system_time(claim: &Claim) -> Option<Observation> {
    let share = claim.system_cpu_share.filter(|share| *share > SYSTEM_SHARE_MAX)?;
    let reason = format!("{} of a processor per job in the kernel", percent(share));
    Some(Observation::new(Tier::Doubtful, reason, [("system_cpu_share", share)]))
}

pub(super) fn tail(claim: &Claim) -> Option<Observation> {
    claim.kinds().into_iter().find_map(|(name, it)| {
        let at = |wanted: f64| {
            let mut known = it.percentiles_ns.iter();
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
    use crate::audit::Figure;
    use crate::audit::rules::tests::{codes, sound};

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
