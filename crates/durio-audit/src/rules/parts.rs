//! Parts that must add up to the total: threads and drives.
//!
//! In: a claim with a note. Out: sums that do not fit. Not here: rate and latency.

use super::super::phrases::{bandwidth_in, drives, number_before};
use super::super::wording::{bandwidth, evidence, number, with_text};
use super::{Claim, Seen, Tier};

/// Per-thread figures are averages of threads, rounded.
const TOLERANCE: f64 = 0.01;

pub(super) fn parts(claim: &Claim) -> Option<Seen> {
    per_thread(claim).or_else(|| per_drive(claim))
}

fn per_thread(claim: &Claim) -> Option<Seen> {
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
        let evidence =
            evidence([("sum_bytes_per_second", sum.value), ("bytes_per_second", said.value)]);
        Seen::new(Tier::Doubtful, reason, with_text(evidence, "note", &claim.note))
    })
}

fn per_drive(claim: &Claim) -> Option<Seen> {
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
        let evidence = evidence([("jobs_per_drive", each), ("drives", drives), ("jobs", jobs)]);
        Seen::new(Tier::Doubtful, reason, evidence)
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::sound;
    use super::*;
    use crate::Figure;

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
}
