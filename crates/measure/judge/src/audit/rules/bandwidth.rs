//! Numbers that must match: bandwidth against rate × block size, and totals against their threads
//! and drives.

use std::collections::HashSet;

use super::units::{MEBI, other_units};
use super::{Claim, LocatedObservation, Observation, Tier};
use crate::audit::cell::bandwidth_unit;
use crate::audit::figure::{Figure, bandwidth, number, rate};
use crate::audit::phrases::{bandwidth_in, drives, number_before};

// Bandwidths are often converted after they were rounded (223 MiB/s to 233.8 MB/s); the smallest
// difference between units is 2.4 %. Values per thread are averages, rounded as well.
const TOLERANCE: f64 = 0.01;

// Rows of a series are in another unit if they agree on it this closely.
const UNIT_TOLERANCE: f64 = 0.005;

/// The bandwidth computed from rate and bytes per operation, and the stated one.
fn made_and_said(claim: &Claim) -> Option<(Figure, Figure)> {
    Some((claim.rate()?.times(bytes_each(claim)?), claim.bandwidth?))
}

fn bytes_each(claim: &Claim) -> Option<Figure> {
    claim.mean_bytes.or_else(|| Some(Figure::of(claim.block_size?.get())))
}

pub(super) fn contradiction(claim: &Claim) -> Option<Observation> {
    let (made, said) = made_and_said(claim)?;
    (!made.agrees_with(said, TOLERANCE)).then(|| {
        let fits = |(said, _): &(Figure, &str)| made.agrees_with(*said, TOLERANCE);
        // A unit that is written out is not in doubt.
        let guessed = claim.bandwidth_unit.is_none();
        let other = other_units(said).into_iter().find(fits).filter(|_| guessed);
        let cause = match (lost_carry(claim, made, said), other) {
            (Some(cause), _) => cause,
            (None, Some((_, unit))) => {
                format!("; it fits if the bandwidth is in {unit}, not MB/s")
            }
            (None, None) => String::new(),
        };
        let each = match claim.mean_bytes {
            Some(mean) => format!("{} bytes in the mean", number(mean.value)),
            None => format!("{} each", claim.block_size.unwrap_or_default()),
        };
        let reason = format!(
            "{} of {each} are {}, and the bandwidth is given as {}{cause}",
            rate(claim.rate().map_or(0.0, |rate| rate.value)),
            bandwidth(made.value),
            said_as(claim, said),
        );
        Observation::new(Tier::Impossible, reason, figures(made, said))
    })
}

/// In the unit that it is given in.
fn said_as(claim: &Claim, figure: Figure) -> String {
    let unit = claim.bandwidth_unit.as_deref();
    match unit.and_then(|unit| Some((bandwidth_unit(unit)?, unit))) {
        Some((scale, unit)) => format!("{} {unit}", number(figure.value / scale)),
        None => bandwidth(figure.value),
    }
}

/// An older fio prints 22.97 as 22.0: then one of the values is almost 1 too small.
fn lost_carry(claim: &Claim, made: Figure, said: Figure) -> Option<String> {
    let seen = "older fio (3.1, 3.8) loses the carry of its rounding";
    if claim.bandwidth_of_lost_carry.is_some_and(|meant| made.agrees_with(meant, 0.0)) {
        let (meant, printed) = (said_as(claim, made), said_as(claim, said));
        return Some(format!("; {seen}, and prints {meant} as {printed}"));
    }
    let [one] = [&claim.read, &claim.write]
        .into_iter()
        .filter(|operations| operations.rate.is_some())
        .collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let meant = one.rate_of_lost_carry?;
    let fits = meant.times(bytes_each(claim)?).agrees_with(said, 0.0);
    let printed = rate(one.rate?.value);
    fits.then(|| format!("; {seen}, and prints {} as {printed}", rate(meant.value)))
}

fn figures(made: Figure, said: Figure) -> [(&'static str, f64); 3] {
    [
        ("rate_times_block_bytes_per_second", made.value),
        ("bytes_per_second", said.value),
        // A bandwidth of 0 can be claimed, and JSON has no infinities.
        ("ratio", made.value / said.value.max(1e-9)),
    ]
}

/// Rows with too few digits to show their unit, in a series where other rows call MiB MB.
pub(super) fn unit_of_series(claims: &[Claim]) -> Vec<LocatedObservation> {
    let series = |claim: &Claim| {
        (claim.source.clone(), claim.stack.clone(), claim.workload.clone(), claim.block_size)
    };
    let is_mebi = |claim: &Claim| {
        claim.bandwidth_unit.is_none()
            && made_and_said(claim).is_some_and(|(made, said)| {
                (made.value / said.value / MEBI - 1.0).abs() < UNIT_TOLERANCE
            })
    };
    let rules_out_mb = |claim: &&Claim| {
        let fits = made_and_said(claim)
            .is_some_and(|(made, said)| made.agrees_with(said.scaled(MEBI), TOLERANCE));
        fits && contradiction(claim).is_some()
    };
    let told: HashSet<_> = claims.iter().filter(rules_out_mb).map(series).collect();
    let about = |claim: &Claim| {
        let (made, said) = made_and_said(claim)?;
        let is_meant =
            is_mebi(claim) && contradiction(claim).is_none() && told.contains(&series(claim));
        let reason = format!(
            "given as {}, which is rate × block size ({}) in MiB/s, as in rows of the same series \
             whose digits rule out MB/s",
            bandwidth(said.value),
            bandwidth(made.value),
        );
        let seen = || Observation::new(Tier::Doubtful, reason, figures(made, said));
        is_meant.then(|| LocatedObservation::new(claim, seen()))
    };
    claims.iter().filter_map(about).collect()
}

pub(super) fn parts(claim: &Claim) -> Option<Observation> {
    per_thread(claim).or_else(|| per_drive(claim))
}

fn per_thread(claim: &Claim) -> Option<Observation> {
    let (each, _) = bandwidth_in(&claim.note, "per thread")?;
    let jobs = f64::from(claim.jobs?);
    let (sum, said) = (each.scaled(jobs), claim.bandwidth?);
    (!sum.agrees_with(said, TOLERANCE)).then(|| {
        let reason = format!(
            "{} threads with {} each make {}, and the total is given as {}",
            number(jobs),
            bandwidth(each.value),
            bandwidth(sum.value),
            bandwidth(said.value),
        );
        let figures = [("sum_bytes_per_second", sum.value), ("bytes_per_second", said.value)];
        Observation::new(Tier::Doubtful, reason, figures).with_text("note", &claim.note)
    })
}

fn per_drive(claim: &Claim) -> Option<Observation> {
    let each = number_before(&claim.note, "jobs per drive")?.value;
    let (drives, jobs) = (f64::from(drives(&claim.stack)?), f64::from(claim.jobs?));
    ((each * drives - jobs).abs() > 0.5).then(|| {
        let reason = format!(
            "{} jobs on each of {} drives are {}, and the jobs in total are given as {}",
            number(each),
            number(drives),
            number(each * drives),
            number(jobs),
        );
        let figures = [("jobs_per_drive", each), ("drives", drives), ("jobs", jobs)];
        Observation::new(Tier::Doubtful, reason, figures)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::audit;
    use crate::audit::rules::tests::{codes, sound};

    fn with(rate: Figure, megabytes: Figure) -> Claim {
        let mut claim = sound("randread");
        claim.jobs = None;
        claim.read.rate = Some(rate);
        claim.bandwidth = Some(megabytes.scaled(1e6));
        claim
    }

    #[test]
    fn a_bandwidth_in_another_unit_is_told_with_the_unit_that_fits() {
        let rows =
            [(1328.0, "MiB/s"), (1.3926, "GB/s"), (1_392_640.0, "kB/s"), (11_141.0, "Mbit/s")];
        for (said, unit) in rows {
            let claim = with(Figure::exact(340_000.0), Figure::exact(said));
            assert!(contradiction(&claim).unwrap().reason.contains(unit), "{said} {unit}");
        }
        let claim = with(Figure::exact(340_000.0), Figure::exact(700.0));
        assert!(!contradiction(&claim).unwrap().reason.contains("fits"), "no unit does");
    }

    #[test]
    fn a_unit_that_is_written_is_believed() {
        let mut claim = with(Figure::printed(11.7e6, 1e5), Figure::printed(46_000.0, 1000.0));
        assert!(contradiction(&claim).unwrap().reason.contains("in MiB/s"), "47.9 of 46 GB/s");
        claim.bandwidth_unit = Some("GB/s".into());
        let reason = contradiction(&claim).unwrap().reason;
        assert!(
            reason.ends_with("are 47.92 GB/s, and the bandwidth is given as 46 GB/s"),
            "{reason}"
        );
        // Nor do rows of its series make it another.
        let clear = with(Figure::exact(340_000.0), Figure::exact(1328.0));
        let mut vague = with(Figure::printed(12_800.0, 100.0), Figure::printed(50.0, 10.0));
        vague.bandwidth_unit = Some("MB/s".into());
        let findings = audit(&[clear, vague]).findings;
        assert!(
            findings.iter().all(|finding| finding.rule != "bandwidth-unit-of-series"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_carry_that_an_older_fio_lost_is_the_cause() {
        let mebi = 1024.0 * 1024.0;
        let mut claim = sound("read");
        claim.block_size = Some(durio_base::Bytes::from_kib(32));
        claim.jobs = None;
        claim.read.rate = Some(Figure::printed(735.0, 1.0));
        claim.bandwidth = Some(Figure::printed(22.0, 0.1).scaled(mebi));
        claim.bandwidth_unit = Some("MiB/s".into());
        assert!(contradiction(&claim).unwrap().reason.ends_with("given as 22 MiB/s"));
        claim.bandwidth_of_lost_carry =
            Some(Figure { value: 22.975, low: 22.95, high: 23.0 }.scaled(mebi));
        let reason = contradiction(&claim).unwrap().reason;
        let words = "older fio (3.1, 3.8) loses the carry of its rounding, and prints 22.97 MiB/s as 22 MiB/s";
        assert!(reason.ends_with(words), "{reason}");
        // 22.5 would have been printed so.
        claim.read.rate = Some(Figure::printed(720.0, 1.0));
        assert!(!contradiction(&claim).unwrap().reason.contains("carry"));
        // The same of the rate: 22.97k/s of 4 KiB are 94.1 MB/s.
        let mut claim = with(Figure::printed(22_000.0, 100.0), Figure::printed(94.1, 0.1));
        claim.read.rate_of_lost_carry =
            Some(Figure { value: 22_975.0, low: 22_950.0, high: 23_000.0 });
        let reason = contradiction(&claim).unwrap().reason;
        let words = "carry of its rounding, and prints 22.98k/s as 22k/s";
        assert!(reason.contains(words), "{reason}");
    }

    #[test]
    fn what_agrees_up_to_rounding_is_fine() {
        let claim = with(Figure::printed(340_000.0, 10_000.0), Figure::printed(1400.0, 100.0));
        assert_eq!(contradiction(&claim), None);
        let claim = with(Figure::exact(57_086.0), Figure::exact(233.8));
        assert_eq!(contradiction(&claim), None, "converted from 223 MiB/s");
    }

    #[test]
    fn batches_of_records_are_counted_with_their_padding() {
        let mut claim = with(Figure::exact(413.8), Figure::exact(1.695));
        claim.block_size = Some(durio_base::Bytes::new(256));
        assert!(contradiction(&claim).unwrap().reason.contains("413.8/s of 256 B each"));
        claim.mean_bytes = Some(Figure::exact(4096.0));
        assert_eq!(contradiction(&claim), None);
        claim.mean_bytes = Some(Figure::exact(3072.0));
        assert!(contradiction(&claim).unwrap().reason.contains("3072 bytes in the mean"));
    }

    #[test]
    fn rows_with_few_digits_follow_their_series() {
        let clear = with(Figure::exact(340_000.0), Figure::exact(1328.0));
        let vague = with(Figure::printed(12_800.0, 100.0), Figure::printed(50.0, 10.0));
        assert_eq!(codes(&vague), [""; 0]);
        let findings = audit(&[clear.clone(), vague.clone()]);
        let found = |findings: &crate::audit::AuditFindings| {
            findings
                .findings
                .iter()
                .filter(|finding| finding.rule == "bandwidth-unit-of-series")
                .count()
        };
        assert_eq!(found(&findings), 1);
        let elsewhere = Claim { stack: "another drive".into(), ..vague };
        assert_eq!(found(&audit(&[clear, elsewhere])), 0);
    }

    #[test]
    fn jobs_per_drive_must_make_the_jobs() {
        let mut claim = sound("randread");
        claim.stack = "raw 8x NVMe".into();
        claim.note = "12 jobs per drive".into();
        claim.jobs = Some(96);
        assert_eq!(parts(&claim), None);
        claim.jobs = Some(12);
        assert!(parts(&claim).unwrap().reason.contains("96"));
    }

    #[test]
    fn threads_must_make_the_bandwidth() {
        let mut claim = sound("seq write");
        claim.jobs = Some(128);
        claim.note = "4.09 MB/s per thread".into();
        claim.bandwidth = Some(Figure::printed(522.56e6, 1e4));
        assert_eq!(parts(&claim), None);
        claim.bandwidth = Some(Figure::printed(600e6, 1e6));
        assert!(parts(&claim).is_some());
    }

    #[test]
    fn what_is_made_and_what_is_said_may_differ_by_a_hundredth() {
        let told = |megabytes: f64| {
            contradiction(&with(Figure::exact(1e6), Figure::exact(megabytes))).is_some()
        };
        // 1M of 4 KiB are 4096 MB/s.
        assert_eq!([4055.0, 4056.0, 4136.0, 4137.0].map(told), [true, false, false, true]);
    }

    #[test]
    fn threads_and_drives_must_add_up() {
        let threads = |each: &str, megabytes: f64| {
            let mut claim = with(Figure::exact(1.0), Figure::exact(megabytes));
            claim.jobs = Some(10);
            claim.note = format!("{each} MB/s per thread");
            per_thread(&claim).map(|seen| seen.reason)
        };
        assert_eq!((threads("5.0", 49.1), threads("5.0", 51.4)), (None, None));
        assert!(threads("5.0", 48.9).is_some() && threads("5.0", 51.6).is_some());
        let reason = threads("5.0", 60.0).unwrap();
        assert_eq!(
            reason,
            "10 threads with 5 MB/s each make 50 MB/s, and the total is given as 60 MB/s"
        );
        let drives = |jobs: u32| {
            let mut claim = sound("randread");
            claim.stack = "raw 8x NVMe".into();
            (claim.jobs, claim.note) = (Some(jobs), "12 jobs per drive".into());
            per_drive(&claim).is_some()
        };
        assert_eq!([95, 96, 97].map(drives), [true, false, true]);
    }

    #[test]
    fn rows_are_in_the_unit_of_their_series_if_they_agree_within_half_a_percent() {
        // 100 000 of 8 KiB are 781.25 MiB/s and 819.2 MB/s.
        let row = |block_kib: u64, said: Figure, source: &str| {
            let mut claim = with(Figure::printed(100_000.0, 10_000.0), said);
            claim.block_size = Some(durio_base::Bytes::from_kib(block_kib));
            claim.source = source.into();
            claim
        };
        let exact = |said: f64| {
            let mut claim = row(8, Figure::exact(said), "a");
            claim.read.rate = Some(Figure::exact(100_000.0));
            claim
        };
        let told = |source: &str, said: f64| {
            unit_of_series(&[exact(781.25), row(8, Figure::printed(said, 1.0), source)]).len()
        };
        assert_eq!((told("a", 781.0), told("b", 781.0)), (1, 0));
        assert_eq!([777.0, 778.0, 785.0, 786.0].map(|said| told("a", said)), [0, 1, 1, 0]);
        // A unit that is written is meant.
        let mut written = row(8, Figure::printed(781.0, 1.0), "a");
        written.bandwidth_unit = Some("MB/s".into());
        assert!(unit_of_series(&[exact(781.25), written]).is_empty());
    }
}
