//! Numbers that fit only in another unit or another place: mistyped units, in results and in notes;
//! reads and writes, or rate and latency, that are exchanged; and the mix of reads and writes.

use durio_base::stats::least_squares::float;

use super::in_flight::{DepthFit, fit, fit_of};
use super::{Claim, Observation, Tier};
use crate::audit::claim::Operations;
use crate::audit::figure::{Figure, bandwidth, number, percent, rate, time};
use crate::audit::phrases::{bandwidth_in, drives, is_memory};

/// MB of a MiB.
pub(super) const MEBI: f64 = 1024.0 * 1024.0 / 1e6;

// Bytes per second in one direction of PCI Express 6.0 with 16 lanes, 64 GT/s each: the widest link
// that a drive or its controller can have (PCI-SIG, PCI Express 6.0).
const LINK_MAX: f64 = 128e9;

// Digits that agree this closely are the same.
const SAME_DIGITS: f64 = 1e-4;

/// Rate × latency that fits a thousandfold, or a million times, more or less.
pub(super) fn thousandfold(claim: &Claim) -> Option<Observation> {
    let (in_flight, slots, as_printed) = fit_of(claim)?;
    let rate = claim.rate()?.value;
    let factors = [
        (1e3, "the latency were in the unit a thousand times larger", "the rate lacked a k"),
        (1e-3, "the latency were in the unit a thousand times smaller", "the rate had a k"),
        (1e6, "the latency were in a unit a million times larger", "the rate lacked an M"),
        (1e-6, "the latency were in a unit a million times smaller", "the rate had an M"),
    ];
    let fits = |(factor, ..): &&(f64, &str, &str)| {
        fit(in_flight.scaled(*factor), slots, rate, 0.0) == DepthFit::Fits
    };
    let (factor, latency, lacks) =
        factors.iter().find(fits).filter(|_| as_printed != DepthFit::Fits)?;
    // A unit that is written out is not in doubt.
    let is_given = |has: fn(&Operations) -> bool| {
        let there = |operations: &&&Operations| {
            operations.rate.is_some() || operations.latency_ns_mean.is_some()
        };
        [&claim.read, &claim.write].iter().filter(there).all(|operations| has(operations))
    };
    let meaning = match (
        is_given(|operations| operations.latency_has_unit),
        is_given(|operations| operations.rate_has_unit),
    ) {
        (true, true) => return None,
        (true, false) => format!("as if {lacks}"),
        (false, true) => format!("as if {latency}"),
        (false, false) => format!("as if {latency}, or {lacks}"),
    };
    let reason = format!(
        "{} of {} in flight; {factor} times that would fit, {meaning}",
        number(in_flight.value),
        number(slots),
    );
    let figures =
        [("in_flight", in_flight.value), ("jobs_times_depth", slots), ("factor", *factor)];
    Some(Observation::new(Tier::Doubtful, reason, figures))
}

pub(super) fn mistyped(claim: &Claim) -> Option<Observation> {
    in_note(claim).or_else(|| beyond_any_link(claim)).or_else(|| gigabytes_of_1024(claim))
}

/// The note quotes the printed value, with the cell's digits and another unit.
fn in_note(claim: &Claim) -> Option<Observation> {
    let (printed, text) = bandwidth_in(&claim.note, "printed as")?;
    let cell = claim.bandwidth?;
    let power = (printed.value / cell.value).log10();
    let same_digits = (power - power.round()).abs() < SAME_DIGITS && power.round() != 0.0;
    let limit = limit(claim)?;
    (same_digits && printed.low > limit).then(|| {
        let reason = format!(
            "printed as {text}, more than the links of the drives carry ({}); the row has the same \
             digits as {}",
            bandwidth(limit),
            bandwidth(cell.value),
        );
        let figures = [
            ("printed_bytes_per_second", printed.value),
            ("cell_bytes_per_second", cell.value),
            ("link_bytes_per_second_max", limit),
        ];
        Observation::new(Tier::Impossible, reason, figures).with_text("note", &claim.note)
    })
}

fn limit(claim: &Claim) -> Option<f64> {
    // Memory and the page cache have no such link.
    let behind_link = !is_memory(&claim.stack) && claim.buffered == Some(false);
    behind_link.then(|| LINK_MAX * f64::from(drives(&claim.stack).unwrap_or(1)))
}

fn beyond_any_link(claim: &Claim) -> Option<Observation> {
    let (cell, limit) = (claim.bandwidth?, limit(claim)?);
    (cell.low > limit).then(|| {
        let reason = format!(
            "{} is more than the links of the drives carry ({})",
            bandwidth(cell.value),
            bandwidth(limit),
        );
        let figures = [("bytes_per_second", cell.value), ("link_bytes_per_second_max", limit)];
        Observation::new(Tier::Impossible, reason, figures)
    })
}

/// MB/s that are a round number of GB/s times 1024.
fn gigabytes_of_1024(claim: &Claim) -> Option<Observation> {
    // The converter took 1024, but dd and fio print powers of 1000.
    let cell = claim.bandwidth?;
    let megabytes = cell.value / 1e6;
    let tenths = megabytes / 102.4;
    let is_round = tenths >= 10.0 && (tenths - tenths.round()).abs() < 1e-6;
    // Whole numbers such as 1024 and 2048 are plausible values.
    let has_decimals = (megabytes - megabytes.round()).abs() > 1e-6;
    (is_round && has_decimals).then(|| {
        let gigabytes = tenths.round() / 10.0;
        let reason = format!(
            "{megabytes:.1} MB/s is {gigabytes} × 1024: a value in GB/s was multiplied by 1024, \
             not 1000; {gigabytes} GB/s are {} MB/s",
            number(gigabytes * 1000.0),
        );
        let figures =
            [("bytes_per_second", cell.value), ("bytes_per_second_by_1000", gigabytes * 1e9)];
        Observation::new(Tier::Doubtful, reason, figures)
    })
}

/// Bandwidth in other units than its column's, for rules that look for one that fits.
pub(super) fn other_units(figure: Figure) -> [(Figure, &'static str); 6] {
    [
        (figure.scaled(MEBI), "MiB/s"),
        (figure.scaled(1024.0 / 1000.0), "units of 1024 × 1000 bytes per second"),
        (figure.scaled(1000.0), "GB/s"),
        (figure.scaled(MEBI * 1024.0), "GiB/s"),
        (figure.scaled(1e-3), "kB/s"),
        (figure.scaled(1.0 / 8.0), "Mbit/s"),
    ]
}

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
            "with the latencies swapped (reads {}, writes {}) the numbers match: {} of jobs × depth",
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
            "{} of the operations are reads instead of {}: the rates of reads and writes are \
             swapped",
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
    let count = counts.map_or(f64::INFINITY, |(read, write)| float(read.saturating_add(write)));
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
    let (count, latency) = [&claim.read, &claim.write].into_iter().find_map(|operations| {
        let (count, latency) = (operations.rate?.value, operations.latency_ns_mean?.value);
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
        codes(claim).iter().any(|found| found == code)
    }

    #[test]
    fn a_factor_of_a_thousand_is_told_as_a_unit() {
        let mut claim = sound("randread");
        claim.read = operations(10_000.0, 99_000.0);
        assert_eq!(codes(&claim)[..2], ["in-flight-impossible", "latency-unit"]);
        claim.read = operations(10_000.0, 0.099);
        assert_eq!(codes(&claim)[..2], ["in-flight-shortfall", "latency-unit"]);
        claim.read = operations(10_000.0, 9_900.0);
        assert!(!has(&claim, "latency-unit"), "a factor of a hundred is no unit");
        claim.read = operations(10_000.0, 99_000.0);
        let both = thousandfold(&claim).unwrap().reason;
        assert!(both.ends_with("a thousand times smaller, or the rate had a k"), "{both}");
        claim.read.latency_has_unit = true;
        let rate = thousandfold(&claim).unwrap().reason;
        assert!(rate.ends_with("would fit, as if the rate had a k"), "{rate}");
        claim.read.rate_has_unit = true;
        assert_eq!(thousandfold(&claim), None, "both units are written");
    }

    #[test]
    fn a_printed_unit_that_no_link_carries_is_impossible() {
        let mut claim = sound("seq write");
        claim.write = crate::audit::Operations::default();
        claim.buffered = Some(false);
        claim.bandwidth = Some(Figure::printed(584e6, 1e6));
        claim.note = "printed as 584 GB/s".into();
        assert_eq!(mistyped(&claim).map(|seen| seen.tier), Some(Tier::Impossible));
        claim.note = "printed as 584 MB/s".into();
        assert_eq!(mistyped(&claim), None);
        claim.note = "printed as 583 GB/s".into();
        assert_eq!(mistyped(&claim), None, "other digits are another figure");
        claim.note = "printed as 584 GB/s".into();
        claim.stack = "raw brd".into();
        assert_eq!(mistyped(&claim), None, "memory has no link");
    }

    #[test]
    fn a_bandwidth_beyond_the_links_of_all_drives_is_impossible() {
        let mut claim = sound("seq read");
        claim.read = crate::audit::Operations::default();
        claim.buffered = Some(false);
        claim.bandwidth = Some(Figure::exact(584e9));
        assert!(has(&claim, "unit-mistyped"));
        claim.stack = "raw 8x NVMe".into();
        assert!(!has(&claim, "unit-mistyped"));
    }

    #[test]
    fn gigabytes_that_were_multiplied_by_1024_are_told() {
        let mut claim = sound("seq write");
        claim.write = crate::audit::Operations::default();
        claim.bandwidth = Some(Figure::printed(1638.4e6, 1e5));
        assert!(mistyped(&claim).unwrap().reason.contains("1600 MB/s"));
        for sound in [1638.5e6, 1024e6, 2048e6, 150.9e6, 522.56e6] {
            claim.bandwidth = Some(Figure::printed(sound, 1e5));
            assert_eq!(mistyped(&claim), None, "{sound}");
        }
    }

    #[test]
    fn each_factor_between_units_is_told_by_its_words() {
        let told = |latency_us: f64| {
            let mut claim = sound("randread");
            claim.read = operations(10_000.0, latency_us);
            thousandfold(&claim).map(|seen| seen.reason)
        };
        for (latency_us, factor, words) in [
            (0.099, "1000 times", "a thousand times larger, or the rate lacked a k"),
            (99e3, "0.001 times", "a thousand times smaller, or the rate had a k"),
            (99e-6, "1000000 times", "a million times larger, or the rate lacked an M"),
            (99e6, "0.000001 times", "a million times smaller, or the rate had an M"),
        ] {
            let reason = told(latency_us).unwrap();
            assert!(reason.contains(factor) && reason.ends_with(words), "{reason}");
        }
        assert_eq!((told(99.0), told(9.9)), (None, None));
    }

    #[test]
    fn a_link_carries_128_gigabytes_a_second_to_each_drive() {
        let told = |stack: &str, gigabytes: f64| {
            let mut claim = sound("seq read");
            claim.read = crate::audit::Operations::default();
            claim.buffered = Some(false);
            claim.stack = stack.into();
            claim.bandwidth = Some(Figure::exact(gigabytes * 1e9));
            beyond_any_link(&claim).is_some()
        };
        assert!(!told("raw NVMe", 128.0) && told("raw NVMe", 128.1));
        assert!(!told("raw 3x NVMe", 384.0) && told("raw 3x NVMe", 384.1));
        assert!(!told("raw brd", 1000.0));
    }

    #[test]
    fn a_round_number_of_gigabytes_has_one_decimal_and_is_at_least_one() {
        let told = |megabytes: f64| {
            let bandwidth = Some(Figure::exact(megabytes * 1e6));
            gigabytes_of_1024(&Claim { bandwidth, ..Claim::default() }).is_some()
        };
        // 1.1, 2.5 and 12.3 GB/s.
        assert!(told(1126.4) && told(12_595.2) && told(1433.6));
        // 0.9, whole megabytes, and none.
        assert!(!told(921.6) && !told(2560.0) && !told(1126.5));
    }

    #[test]
    fn other_units_are_so_many_times_as_large() {
        let found = other_units(Figure::exact(1e6)).map(|(figure, unit)| (figure.value, unit));
        let expected = [
            (1_048_576.0, "MiB/s"),
            (1_024_000.0, "units of 1024 × 1000 bytes per second"),
            (1e9, "GB/s"),
            (1_073_741_824.0, "GiB/s"),
            (1e3, "kB/s"),
            (125_000.0, "Mbit/s"),
        ];
        for ((found, unit), (value, name)) in found.into_iter().zip(expected) {
            assert!(unit == name && (found / value - 1.0).abs() < 1e-12, "{found} {unit}");
        }
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
        assert_eq!([7_099.0, 7_101.0].map(|reads| told(reads, None)), [false, true]);
        assert_eq!([6_901.0, 6_899.0].map(|reads| told(reads, None)), [false, true]);
        // Of 10 000 operations four deviations are 1.83 percentage points.
        assert_eq!([7_183.0, 7_184.0].map(|reads| told(reads, Some(10_000))), [false, true]);
        assert_eq!([6_817.0, 6_816.0].map(|reads| told(reads, Some(10_000))), [false, true]);
        assert_eq!([7_099.0, 7_101.0].map(|reads| told(reads, Some(1_000_000))), [false, true]);
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
