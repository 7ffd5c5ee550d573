//! Units that a number cannot have: mistyped units, in results and in notes.

use super::in_flight::{DepthFit, fit, fit_of};
use super::{Claim, Observation, Tier};
use crate::audit::phrases::{bandwidth_in, drives, is_memory};
use crate::audit::wording::{bandwidth, number};
use crate::audit::{Figure, Operations};

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
        let there = |it: &&&Operations| it.rate.is_some() || it.latency_ns_mean.is_some();
        [&claim.read, &claim.write].iter().filter(there).all(|it| has(it))
    };
    let meaning = match (is_given(|it| it.latency_has_unit), is_given(|it| it.rate_has_unit)) {
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
            "{megabytes:.1} MB/s is {gigabytes} × 1024: a figure in GB/s was multiplied by 1024, \
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::rules::tests::{codes, operations, sound};

    fn has(claim: &Claim, code: &str) -> bool {
        codes(claim).iter().any(|it| it == code)
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
}
