//! Little's law: rate × latency against jobs × depth. Reports impossible results and shortfalls.

use super::{Claim, Observation, Tier};
use crate::audit::claim::Durability;
use crate::audit::figure::{Figure, number, percent, rate, time};
use crate::audit::phrases::drives;

// fio prints run times in ms; half of one in a second-long run, for the rate and for the mean.
const CLOCK_MARGIN: f64 = 0.001;

// Below this share of busy workers the rest needs a reason. durio's threshold: consistent rows of
// the published tables have 0.92 and more.
const BUSY_MIN: f64 = 0.9;

// A load generator's time per operation outside of the latency, in nanoseconds. fio 3.33 on a
// memory disk spends 16 / 3461k − 4.24 µs = 0.4 µs (Random Write Performance Test Across
// Filesystems and RAID Configurations, 2025).
const GENERATOR_NS: f64 = 1_000.0;

// A write into the page cache takes less, in nanoseconds: 4 KiB take 1 to 5 µs, and 128 KiB some 30.
const WRITE_NS_MAX: f64 = 100_000.0;

/// How well the values of a claim fit its jobs × depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DepthFit {
    Impossible,
    /// Above, but within the source's tolerance.
    Above,
    Fits,
    Shortfall,
}

/// Judges a number in flight; `rate` is that of all operations, `tolerance` the source's.
pub(super) fn fit(in_flight: Figure, slots: f64, rate: f64, tolerance: f64) -> DepthFit {
    if in_flight.low > slots * (1.0 + CLOCK_MARGIN.max(tolerance)) {
        return DepthFit::Impossible;
    }
    if in_flight.low > slots * (1.0 + CLOCK_MARGIN) {
        return DepthFit::Above;
    }
    let lost_ns = (slots - in_flight.high) / rate.max(1e-9) * 1e9;
    match in_flight.high < slots * BUSY_MIN && lost_ns > GENERATOR_NS {
        true => DepthFit::Shortfall,
        false => DepthFit::Fits,
    }
}

/// Number in flight, slots, and how they fit.
pub(super) fn fit_of(claim: &Claim) -> Option<(Figure, f64, DepthFit)> {
    let (in_flight, slots, rate) = (claim.in_flight()?, claim.slots()?, claim.rate()?.value);
    let fit = match fit(in_flight, slots, rate, claim.tolerance) {
        // A paced load has idle workers by design.
        DepthFit::Shortfall if claim.paced => DepthFit::Fits,
        fit => fit,
    };
    // A rate of zero says nothing about how busy the workers were.
    (rate > 0.0).then_some((in_flight, slots, fit))
}

/// The observation if the numbers fit in this way; `reason` continues the sentence after the
/// product.
fn seen(
    claim: &Claim,
    (wanted, tier): (DepthFit, Tier),
    reason: impl Fn(Figure, f64) -> String,
) -> Option<Observation> {
    let (in_flight, slots, fit) = fit_of(claim)?;
    let figures = [
        ("in_flight", in_flight.value),
        ("in_flight_low", in_flight.low),
        ("in_flight_high", in_flight.high),
        ("jobs_times_depth", slots),
        ("share", in_flight.value / slots),
    ];
    let reason = || format!("{} is {}", product(claim), reason(in_flight, slots));
    (fit == wanted).then(|| Observation::new(tier, reason(), figures))
}

/// The product in words: `56.8k/s × 70.93 µs`.
fn product(claim: &Claim) -> String {
    let one = |operations: &crate::audit::Operations| {
        let (count, latency) = (operations.rate?, operations.latency_ns_mean?);
        Some(format!("{} × {}", rate(count.value), time(latency.value)))
    };
    let mut parts: Vec<_> = [one(&claim.read), one(&claim.write)].into_iter().flatten().collect();
    if let (Durability::SyncCall, Some(sync)) = (claim.durability, claim.sync.latency_ns_mean) {
        let often = match claim.writes_per_sync {
            Some(1) => "after each write".to_owned(),
            Some(writes) => format!("after every {writes} writes"),
            None => "after writes".to_owned(),
        };
        parts.push(format!("sync {often} {}", time(sync.value)));
    }
    parts.join(" + ")
}

pub(super) fn impossible(claim: &Claim) -> Option<Observation> {
    all_known(claim).or_else(|| part_known(claim))
}

/// A latency is missing, and the known part alone is already too much.
fn part_known(claim: &Claim) -> Option<Observation> {
    let (in_flight, slots) = (claim.in_flight_at_least()?, claim.slots()?);
    let fit = fit(in_flight, slots, claim.rate()?.value, claim.tolerance);
    (claim.in_flight().is_none() && fit == DepthFit::Impossible).then(|| {
        let reason = format!(
            "{} is already {}; the other latency is not given",
            product(claim),
            beyond(in_flight, slots)
        );
        let figures = [
            ("in_flight", in_flight.value),
            ("in_flight_low", in_flight.low),
            ("jobs_times_depth", slots),
        ];
        Observation::new(Tier::Impossible, reason, figures)
    })
}

fn all_known(claim: &Claim) -> Option<Observation> {
    seen(claim, (DepthFit::Impossible, Tier::Impossible), |in_flight, slots| {
        // Some tables give the jobs per drive in the column of all jobs.
        let drives = drives(&claim.stack).map(f64::from).filter(|&drives| {
            let of_all = slots * drives;
            drives > 1.0
                && in_flight.low <= of_all * (1.0 + CLOCK_MARGIN)
                && in_flight.high >= of_all * BUSY_MIN
        });
        let per_drive = drives.map(|drives| {
            format!("; it fits if the jobs are per drive, {} in all", number(slots * drives))
        });
        format!("{}{}", beyond(in_flight, slots), per_drive.unwrap_or_default())
    })
}

/// Above by so little that averages over different times may explain it.
pub(super) fn above(claim: &Claim) -> Option<Observation> {
    seen(claim, (DepthFit::Above, Tier::Doubtful), |in_flight, slots| {
        format!(
            "{}, {} less: averages of samples and of all operations can be that far apart",
            beyond(in_flight, slots),
            percent(in_flight.low / slots - 1.0),
        )
    })
}

fn beyond(in_flight: Figure, slots: f64) -> String {
    format!(
        "{} in flight, at least {} after rounding; jobs × depth is {}",
        number(in_flight.value),
        number(in_flight.low),
        number(slots),
    )
}

pub(super) fn shortfall(claim: &Claim) -> Option<Observation> {
    with_writes(claim).or_else(|| sync_alone(claim))
}

/// For a claim without a latency of writes: if syncs, one after each write, take no time, all of it
/// is left to a write into the page cache.
fn sync_alone(claim: &Claim) -> Option<Observation> {
    let (writes, sync) = (claim.write.rate?, claim.sync.latency_ns_mean?);
    let is_each = claim.durability == Durability::SyncCall && claim.writes_per_sync == Some(1);
    let is_alone = is_each && claim.write.latency_ns_mean.is_none() && claim.read.rate.is_none();
    // A direct write may well take longer than the sync behind it.
    if !is_alone || claim.buffered == Some(false) || claim.paced || writes.value <= 0.0 {
        return None;
    }
    let slots = claim.slots()?;
    let each = slots / writes.value * 1e9;
    let left = each - sync.high;
    (left > each * BUSY_MIN && left > WRITE_NS_MAX).then(|| {
        let reason = format!(
            "{} with a sync after each are {} for each, of which the sync takes {}: {} % is left to a write into the \
             page cache, so that is not the latency of the sync",
            rate(writes.value),
            time(each),
            time(sync.value),
            number(100.0 - 100.0 * sync.value / each),
        );
        let figures = [
            ("each_ns", each),
            ("sync_latency_ns", sync.value),
            ("left_share", 1.0 - sync.value / each),
        ];
        Observation::new(Tier::Shortfall, reason, figures)
    })
}

fn with_writes(claim: &Claim) -> Option<Observation> {
    seen(claim, (DepthFit::Shortfall, Tier::Shortfall), |in_flight, slots| {
        format!(
            "{} in flight of {}: {} of the workers' time, {} at most",
            number(in_flight.value),
            number(slots),
            percent(in_flight.value / slots),
            percent(in_flight.high / slots),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::rules::tests::{codes, operations, sound};

    fn has(claim: &Claim, code: &str) -> bool {
        codes(claim).iter().any(|found| found == code)
    }

    #[test]
    fn more_in_flight_than_jobs_times_depth_is_impossible() {
        let mut claim = sound("randread");
        claim.read = operations(10_000.0, 100.05);
        assert!(!has(&claim, "in-flight-impossible"), "within the clock's margin");
        claim.read = operations(10_000.0, 100.2);
        assert!(has(&claim, "in-flight-impossible"));
    }

    #[test]
    fn what_the_source_itself_may_be_off_is_doubtful_and_not_impossible() {
        let mut claim = sound("randread");
        claim.read = operations(10_000.0, 100.7);
        assert!(has(&claim, "in-flight-impossible"));
        claim.tolerance = 0.01;
        assert_eq!(codes(&claim), ["in-flight-above"]);
        claim.read = operations(10_000.0, 101.1);
        assert!(has(&claim, "in-flight-impossible") && !has(&claim, "in-flight-above"));
    }

    #[test]
    fn rounding_is_not_held_against_a_claim() {
        let mut claim = sound("randread");
        claim.read.rate = Some(Figure::printed(10_400.0, 100.0));
        claim.read.latency_ns_mean = Some(Figure::printed(97_000.0, 1_000.0));
        assert!(!has(&claim, "in-flight-impossible"), "10.35k × 96.5 µs = 0.999");
        claim.read.latency_ns_mean = Some(Figure::printed(98_000.0, 1_000.0));
        assert!(has(&claim, "in-flight-impossible"), "10.35k × 97.5 µs = 1.009");
    }

    #[test]
    fn a_shortfall_is_told_with_its_share() {
        let mut claim = sound("randread");
        claim.read = operations(10_000.0, 90.0);
        assert!(!has(&claim, "in-flight-shortfall"));
        claim.read = operations(10_000.0, 46.2);
        assert!(shortfall(&claim).unwrap().reason.contains("46.2 %"));
        claim.paced = true;
        assert_eq!(codes(&claim), [""; 0], "a paced load idles by design");
        claim.read = operations(10.0, 99.0);
        assert_eq!(codes(&claim), [""; 0], "and by a factor of a thousand if it is slow");
    }

    #[test]
    fn what_the_generator_itself_costs_is_no_shortfall() {
        let mut claim = sound("randread");
        claim.read = operations(500_000.0, 1.5);
        assert!(!has(&claim, "in-flight-shortfall"), "0.5 µs per operation");
        claim.read = operations(250_000.0, 1.5);
        assert!(has(&claim, "in-flight-shortfall"), "2.5 µs per operation");
    }

    #[test]
    fn a_sync_after_each_write_counts_with_the_write() {
        let mut claim = sound("wal: seq write + fsync");
        claim.writes_per_sync = Some(1);
        claim.write = operations(28_571.0, 35.0);
        assert!(!has(&claim, "in-flight-impossible"));
        claim.sync.latency_ns_mean = Some(Figure::printed(34_800.0, 100.0));
        let seen = impossible(&claim).unwrap();
        assert!(seen.reason.contains("sync after each write 34.8 µs"), "{}", seen.reason);
    }

    #[test]
    fn a_sync_that_takes_none_of_the_time_is_none() {
        let mut claim = sound("write");
        (claim.durability, claim.writes_per_sync) = (Durability::SyncCall, Some(1));
        claim.buffered = Some(true);
        claim.write =
            crate::audit::Operations { rate: Some(Figure::exact(86.0)), ..Default::default() };
        claim.sync.latency_ns_mean = Some(Figure::exact(4_300.0));
        let reason = shortfall(&claim).unwrap().reason;
        for words in ["11.63 ms for each", "the sync takes 4.3 µs", "99.96 % is left"] {
            assert!(reason.contains(words), "{words}: {reason}");
        }
        // Half of the time is a sync's, though most of the rest is somebody else's.
        claim.sync.latency_ns_mean = Some(Figure::exact(6e6));
        assert_eq!(shortfall(&claim), None);
        claim.sync.latency_ns_mean = Some(Figure::exact(4_300.0));
        for spoil in [
            |claim: &mut Claim| claim.buffered = Some(false),
            |claim: &mut Claim| claim.paced = true,
            |claim: &mut Claim| claim.durability = Durability::InTheWrite,
            |claim: &mut Claim| claim.writes_per_sync = Some(32),
            |claim: &mut Claim| claim.write.rate = Some(Figure::exact(20_000.0)),
        ] {
            let mut other = claim.clone();
            spoil(&mut other);
            assert_eq!(sync_alone(&other), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_known_alone_may_be_too_much() {
        let mut claim = sound("write");
        (claim.durability, claim.writes_per_sync) = (Durability::SyncCall, Some(1));
        claim.write =
            crate::audit::Operations { rate: Some(Figure::exact(1000.0)), ..Default::default() };
        claim.sync.latency_ns_mean = Some(Figure::exact(0.99e6));
        assert!(!has(&claim, "in-flight-impossible"));
        claim.sync.latency_ns_mean = Some(Figure::exact(5e6));
        let reason = impossible(&claim).unwrap().reason;
        assert!(reason.contains("sync after each write 5 ms is already 5 in flight"), "{reason}");
        // Reads whose writes have no latency.
        let mut claim = sound("randrw read70");
        claim.write.latency_ns_mean = None;
        assert!(!has(&claim, "in-flight-impossible"));
        claim.read = operations(7000.0, 300.0);
        assert!(has(&claim, "in-flight-impossible"));
    }

    #[test]
    fn jobs_that_are_per_drive_are_recognised() {
        let mut claim = sound("randread");
        claim.stack = "raw 8x NVMe".into();
        claim.jobs = Some(12);
        claim.read = operations(1_000_000.0, 95.0);
        assert!(impossible(&claim).unwrap().reason.contains("96 in all"));
        claim.read = operations(1_000_000.0, 20.0);
        assert!(!impossible(&claim).unwrap().reason.contains("in all"), "20.0 of 96 fits badly");
    }

    #[test]
    fn unknown_jobs_or_depth_give_no_finding() {
        let mut claim = sound("randread");
        claim.read = operations(1e6, 1e6);
        claim.depth = None;
        assert_eq!(codes(&claim), [""; 0]);
    }

    #[test]
    fn each_bound_of_the_fit_is_kept_on_both_sides() {
        let fits = |in_flight, slots, rate, tolerance| {
            fit(Figure::exact(in_flight), slots, rate, tolerance)
        };
        // A thousandth for the clock, and what the source may be off.
        let above =
            [10.009, 10.011, 10.049, 10.051].map(|in_flight| fits(in_flight, 10.0, 1e5, 0.005));
        assert_eq!(above, [DepthFit::Fits, DepthFit::Above, DepthFit::Above, DepthFit::Impossible]);
        let exact = [10.009, 10.011].map(|in_flight| fits(in_flight, 10.0, 1e5, 0.0));
        assert_eq!(exact, [DepthFit::Fits, DepthFit::Impossible]);
        // Nine tenths of the workers, and a microsecond of each operation.
        let below = [9.01, 8.99].map(|in_flight| fits(in_flight, 10.0, 1e5, 0.0));
        assert_eq!(below, [DepthFit::Fits, DepthFit::Shortfall]);
        let lost = [8.01, 7.99].map(|in_flight| fits(in_flight, 10.0, 2e6, 0.0));
        assert_eq!(lost, [DepthFit::Fits, DepthFit::Shortfall]);
        // What the rounding leaves open is held against nobody.
        let wide = |low, high| fit(Figure { value: 10.0, low, high }, 10.0, 1e5, 0.0);
        assert_eq!([wide(9.0, 20.0), wide(5.0, 9.5)], [DepthFit::Fits, DepthFit::Fits]);
        assert_eq!(wide(10.1, 20.0), DepthFit::Impossible);
    }

    #[test]
    fn a_rate_of_zero_is_judged_by_nobody() {
        let mut claim = sound("randread");
        claim.read.rate = Some(Figure::exact(0.0));
        assert!(fit_of(&claim).is_none());
        claim.read.rate = Some(Figure::exact(1.0));
        assert_eq!(fit_of(&claim).unwrap().2, DepthFit::Shortfall);
        claim.paced = true;
        assert_eq!(fit_of(&claim).unwrap().2, DepthFit::Fits);
        claim.read = operations(10_000.0, 900.0);
        assert_eq!(fit_of(&claim).unwrap().2, DepthFit::Impossible, "paced or not");
    }

    #[test]
    fn jobs_per_drive_must_fit_within_the_same_bounds() {
        let per_drive = |stack: &str, latency_us| {
            let mut claim = sound("randread");
            claim.stack = stack.to_owned();
            claim.read = operations(100_000.0, latency_us);
            impossible(&claim).unwrap().reason.contains("jobs are per drive")
        };
        // Of 8 slots: 8.008 and 7.2.
        assert!(per_drive("raw 8x NVMe", 80.0) && per_drive("raw 8x NVMe", 80.07));
        assert!(!per_drive("raw 8x NVMe", 80.09));
        assert!(per_drive("raw 8x NVMe", 72.1) && !per_drive("raw 8x NVMe", 71.9));
        assert!(!per_drive("raw 1x NVMe", 80.0) && !per_drive("raw NVMe", 80.0));
    }

    #[test]
    fn what_a_lone_sync_leaves_has_two_bounds() {
        let left = |rate: f64, sync_us: f64| {
            let mut claim = sound("write");
            (claim.durability, claim.writes_per_sync) = (Durability::SyncCall, Some(1));
            claim.write =
                crate::audit::Operations { rate: Some(Figure::exact(rate)), ..Default::default() };
            claim.sync.latency_ns_mean = Some(Figure::exact(sync_us * 1e3));
            sync_alone(&claim).is_some()
        };
        // Nine tenths of a millisecond.
        assert!(left(1000.0, 99.0) && !left(1000.0, 101.0));
        // 100 µs.
        assert!(left(9_000.0, 11.0) && !left(9_000.0, 11.2));
        assert!(!left(0.0, 11.0));
    }
}
