//! Swapped values: reads and writes, or rate and latency, that fit only when exchanged; and the mix
//! of reads and writes.

use super::in_flight::{DepthFit, fit, fit_of};
use super::{Claim, Observation, Tier};
use crate::audit::Figure;
use crate::audit::figure::real;
use crate::audit::wording::{percent, rate, time};

// A measured share of reads may be off by this much: the share of a random mix is itself random,
// by 0.3 percentage points at 22 000 operations.
const MIX_TOLERANCE: f64 = 0.01;

// Where the operations are counted, by as many standard deviations of a random mix: of true mixes
// one in 16 000 is beyond.
const MIX_DEVIATIONS: f64 = 4.0;

// This many equal digits are not chance.
const DIGITS_MIN: usize = 4;

pub(super) fn exchanged(claim: &Claim) -> Option<Observation> {
    latencies(claim).or_else(|| rates(claim))
}

/// Latencies of reads and writes in each other's columns.
fn latencies(claim: &Claim) -> Option<Observation> {
    let (_, slots, as_printed) = fit_of(claim)?;
    let (read, write) = (claim.read.latency_ns_mean?, claim.write.latency_ns_mean?);
    let mut other = claim.clone();
    other.read.latency_ns_mean = Some(write);
    other.write.latency_ns_mean = Some(read);
    let in_flight = other.in_flight()?;
    let fits = fit(in_flight, slots, claim.rate()?.value, claim.tolerance) == DepthFit::Fits;
    (as_printed != DepthFit::Fits && fits).then(|| {
        let reason = format!(
            "with the latencies exchanged (reads {}, writes {}) the figures fit: {} of jobs × depth",
            time(write.value),
            time(read.value),
            percent(in_flight.value / slots),
        );
        let figures = [
            ("in_flight_exchanged", in_flight.value),
            ("jobs_times_depth", slots),
            ("read_latency_ns", read.value),
            ("write_latency_ns", write.value),
        ];
        Observation::new(Tier::Doubtful, reason, figures)
    })
}

/// Rates of reads and writes in each other's columns.
fn rates(claim: &Claim) -> Option<Observation> {
    let (share, stated, [as_stated, as_exchanged]) = mix_of(claim)?;
    (!as_stated && as_exchanged).then(|| {
        let reason = format!(
            "{} of the operations are reads where {} are asked for: the rates of reads and writes \
             stand in each other's place",
            percent(share.value),
            percent(stated),
        );
        Observation::new(Tier::Doubtful, reason, mix_figures(share, stated))
    })
}

pub(super) fn mix(claim: &Claim) -> Option<Observation> {
    let (share, stated, [as_stated, as_exchanged]) = mix_of(claim)?;
    (!as_stated && !as_exchanged).then(|| {
        let reason = format!(
            "{} of the operations are reads ({} to {} after rounding) where {} are asked for",
            percent(share.value),
            percent(share.low),
            percent(share.high),
            percent(stated),
        );
        Observation::new(Tier::Doubtful, reason, mix_figures(share, stated))
    })
}

/// The share of reads, the stated one, and whether it is near that and near its opposite.
fn mix_of(claim: &Claim) -> Option<(Figure, f64, [bool; 2])> {
    let (stated, share) = (claim.read_share?, read_share(claim)?);
    let near = [stated, 1.0 - stated].map(|stated| {
        let tolerance = tolerance(claim, stated);
        (share.low - tolerance..=share.high + tolerance).contains(&stated)
    });
    Some((share, stated, near))
}

fn mix_figures(share: Figure, stated: f64) -> [(&'static str, f64); 4] {
    [
        ("read_share", share.value),
        ("read_share_low", share.low),
        ("read_share_high", share.high),
        ("read_share_stated", stated),
    ]
}

/// How far the share of a random mix may be off, by the number of operations where that is known.
fn tolerance(claim: &Claim, stated: f64) -> f64 {
    let counts = claim.read.count.zip(claim.write.count);
    let count = counts.map_or(f64::INFINITY, |(read, write)| real(read.saturating_add(write)));
    MIX_TOLERANCE.max(MIX_DEVIATIONS * (stated * (1.0 - stated) / count.max(1.0)).sqrt())
}

/// Share of reads in the rates, where both are given.
fn read_share(claim: &Claim) -> Option<Figure> {
    let (read, write) = (claim.read.rate?, claim.write.rate?);
    let share = |read: f64, write: f64| read / (read + write);
    (read.value + write.value > 0.0).then(|| Figure {
        value: share(read.value, write.value),
        low: share(read.low, write.high),
        high: if read.high > 0.0 { share(read.high, write.low) } else { 0.0 },
    })
}

pub(super) fn digits_repeated(claim: &Claim) -> Option<Observation> {
    let (in_flight, slots, as_printed) = fit_of(claim)?;
    let (count, latency) = [&claim.read, &claim.write].into_iter().find_map(|it| {
        let (count, latency) = (it.rate?.value, it.latency_ns_mean?.value);
        let same = digits(count) == digits(latency) && digits(count).len() >= DIGITS_MIN;
        same.then_some((count, latency))
    })?;
    (as_printed != DepthFit::Fits).then(|| {
        let reason = format!(
            "rate ({}) and latency ({}) have the same digits, which do not fit: at this latency the \
             workers would make {}, at this rate an operation would take {}",
            rate(count),
            time(latency),
            rate(slots / latency * 1e9),
            time(slots / count * 1e9),
        );
        let figures = [
            ("rate_per_second", count),
            ("latency_ns", latency),
            ("share", in_flight.value / slots),
        ];
        Observation::new(Tier::Doubtful, reason, figures)
    })
}

/// The significant digits of a number of at most nine.
fn digits(value: f64) -> String {
    let text = format!("{value:.9}");
    text.replace('.', "").trim_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::rules::tests::{codes, operations, sound};

    fn has(claim: &Claim, code: &str) -> bool {
        codes(claim).iter().any(|it| it == code)
    }

    #[test]
    fn latencies_that_fit_only_when_exchanged_are_told() {
        let mut claim = sound("randrw read30");
        claim.read = operations(6_900.0, 32.57);
        claim.write = operations(16_000.0, 68.01);
        assert!(has(&claim, "columns-exchanged") && has(&claim, "in-flight-impossible"));
        claim.read = operations(6_900.0, 68.01);
        claim.write = operations(16_000.0, 32.57);
        assert!(!has(&claim, "columns-exchanged"));
        claim.jobs = Some(2);
        assert!(!has(&claim, "columns-exchanged"), "fits neither way");
    }

    #[test]
    fn rates_that_have_the_mix_only_when_exchanged_are_told() {
        let mut claim = sound("randrw read70");
        claim.read = operations(3_000.0, 99.0);
        claim.write = operations(7_000.0, 99.0);
        assert_eq!(codes(&claim), ["columns-exchanged"]);
        claim.read = operations(6_950.0, 99.0);
        claim.write = operations(3_050.0, 99.0);
        assert_eq!(codes(&claim), [""; 0]);
    }

    #[test]
    fn a_mix_that_is_neither_is_told() {
        let mut claim = sound("randrw read70");
        claim.read = operations(5_000.0, 99.0);
        claim.write = operations(5_000.0, 99.0);
        assert!(has(&claim, "mix-unlike-stated"));
        claim.read = operations(6_910.0, 99.0);
        claim.write = operations(3_090.0, 99.0);
        assert!(!has(&claim, "mix-unlike-stated"));
        claim.read = operations(6_600.0, 99.0);
        claim.write = operations(3_400.0, 99.0);
        assert!(has(&claim, "mix-unlike-stated"));
        (claim.read.count, claim.write.count) = (Some(66), Some(34));
        assert!(!has(&claim, "mix-unlike-stated"), "chance makes 66 of 100 of 70 %");
        (claim.read.count, claim.write.count) = (Some(6_600), Some(3_400));
        assert!(has(&claim, "mix-unlike-stated"));
    }

    #[test]
    fn the_same_digits_in_rate_and_latency_are_told_if_they_do_not_fit() {
        let mut claim = sound("randwrite");
        claim.write = operations(21_490.0, 21.49);
        assert!(has(&claim, "digits-repeated"));
        claim.write = operations(21_490.0, 21.48);
        assert!(!has(&claim, "digits-repeated"));
        claim.write = operations(31_540.0, 31.54);
        assert!(!has(&claim, "digits-repeated"), "31.54k × 31.54 µs is 0.995: chance");
        claim.write = operations(21_000.0, 21.0);
        assert!(!has(&claim, "digits-repeated"), "two digits are chance");
    }

    #[test]
    fn the_tolerance_of_a_mix_is_a_hundredth_or_four_deviations() {
        let told = |reads: f64, counts: Option<u64>| {
            let mut claim = sound("randrw read70");
            claim.read = operations(reads, 99.0);
            claim.write = operations(10_000.0 - reads, 99.0);
            claim.read.count = counts.map(|all| all * 7 / 10);
            claim.write.count = counts.map(|all| all * 3 / 10);
            mix(&claim).is_some()
        };
        assert_eq!([7_099.0, 7_101.0].map(|it| told(it, None)), [false, true]);
        assert_eq!([6_901.0, 6_899.0].map(|it| told(it, None)), [false, true]);
        // Of 10 000 operations four deviations are 1.83 percentage points.
        assert_eq!([7_183.0, 7_184.0].map(|it| told(it, Some(10_000))), [false, true]);
        assert_eq!([6_817.0, 6_816.0].map(|it| told(it, Some(10_000))), [false, true]);
        assert_eq!([7_099.0, 7_101.0].map(|it| told(it, Some(1_000_000))), [false, true]);
    }

    #[test]
    fn a_share_of_reads_has_the_bounds_of_both_rates() {
        let share = |read: Figure, write: Figure| {
            let mut claim = sound("randrw read70");
            (claim.read.rate, claim.write.rate) = (Some(read), Some(write));
            read_share(&claim)
        };
        let found = share(Figure::printed(30.0, 10.0), Figure::printed(70.0, 20.0)).unwrap();
        let expected = [30.0 / 100.0, 25.0 / 115.0, 40.0 / 100.0];
        for (found, expected) in [found.value, found.low, found.high].into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        let none = Figure::exact(0.0);
        assert_eq!(share(none, none), None);
        assert_eq!(share(none, Figure::exact(5.0)).unwrap().high, 0.0);
    }

    #[test]
    fn four_digits_that_are_the_same_are_no_chance() {
        assert_eq!(digits(21_490.0), "2149");
        assert_eq!(digits(0.0214), "214");
        let told = |rate, latency_us| {
            let mut claim = sound("randwrite");
            claim.write = operations(rate, latency_us);
            digits_repeated(&claim).is_some()
        };
        assert!(told(21_490.0, 21.49) && !told(2_150.0, 21.5));
    }
}
