//! Data that did not reach the device: syncs that left no trace, writes that nothing makes durable,
//! and the page cache measured as if it were the device. Whether a device honours a flush is not
//! judged.

use durio_base::stats::least_squares::float;

use std::collections::HashMap;

use super::in_flight::{DepthFit, fit_of};
use super::{Claim, LocatedObservation, Observation, Tier};
use crate::audit::claim::Durability;
use crate::audit::figure::{Figure, bandwidth, number, time};
use crate::audit::phrases::words;

// A call that reaches a device and waits takes longer, in nanoseconds. Syncs that fio 3.33 dropped
// took 80 ns (fio, issue 1577); a 4 KiB page-cache hit alone takes 900 ns and more.
const SYNC_NS_MIN: f64 = 1_000.0;

// Words with which a workload says that its writes are waited for until they are durable.
const DURABLE_WORDS: [&str; 9] =
    ["wal", "durable", "durability", "commit", "commits", "fsync", "fdatasync", "redo", "journal"];

pub(super) fn never_issued(claim: &Claim) -> Option<Observation> {
    if claim.durability != Durability::SyncCall {
        return None;
    }
    none_counted(claim).or_else(|| too_fast(claim)).or_else(|| no_time(claim))
}

fn none_counted(claim: &Claim) -> Option<Observation> {
    (claim.sync.count? == 0 && claim.writes()).then(|| {
        let reason = format!("'{}', and no sync was counted", asked(claim));
        Observation::new(Tier::Doubtful, reason, [("syncs", 0.0)])
    })
}

fn too_fast(claim: &Claim) -> Option<Observation> {
    let mean = claim.sync.latency_ns_mean?;
    (mean.high < SYNC_NS_MIN).then(|| {
        let reason = format!(
            "a sync took {} on average: less than a call to a device, so none reached it",
            time(mean.value)
        );
        Observation::new(Tier::Doubtful, reason, [("sync_latency_ns", mean.value)])
    })
}

fn no_time(claim: &Claim) -> Option<Observation> {
    // Writes that fill all of the workers' time leave none for the syncs between them.
    if claim.sync.latency_ns_mean.is_some() || claim.writes_per_sync != Some(1) {
        return None;
    }
    let (in_flight, slots, fit) = fit_of(claim)?;
    let (rate, latency) = (claim.write.rate?, claim.write.latency_ns_mean?);
    let left_ns = (slots - in_flight.low).max(0.0) / rate.low.max(1e-9) * 1e9;
    (fit == DepthFit::Fits && left_ns < SYNC_NS_MIN).then(|| {
        let reason = format!(
            "writes of {} fill {} of {} workers and leave {} at most for the sync after each: it is \
             part of that latency, was not waited for, or was not issued",
            time(latency.value),
            number(in_flight.value),
            number(slots),
            time(left_ns),
        );
        let figures = [
            ("left_for_sync_ns", left_ns),
            ("write_latency_ns", latency.value),
            ("in_flight", in_flight.value),
        ];
        Observation::new(Tier::Doubtful, reason, figures).with_text("durable", &claim.durable)
    })
}

fn asked(claim: &Claim) -> &str {
    if claim.durable.is_empty() { &claim.workload } else { &claim.durable }
}

/// The durability field only describes how the call is made; graver if the workload mentions
/// durability itself.
pub(super) fn without_sync(claim: &Claim) -> Option<Observation> {
    let names = words(&claim.workload).iter().any(|word| DURABLE_WORDS.contains(&word.as_str()));
    let only_call = claim.durability == Durability::OnlyTheCall;
    let denied = claim.durability == Durability::Denied && names;
    (claim.writes() && (only_call || denied)).then(|| {
        let tier = if names { Tier::Doubtful } else { Tier::Method };
        let reason = match only_call {
            true => format!("'{}' names no sync: not durable", claim.durable),
            false => format!("'{}', and no sync ('{}')", claim.workload, claim.durable),
        };
        Observation::new(tier, reason, []).with_text("durable", &claim.durable)
    })
}

// Buffered writes this many times faster than the largest volume were not written to the device.
const FASTER_THAN_SUSTAINED: f64 = 1.2;

// A volume at least this many times larger shows the sustained rate.
const LARGER: u64 = 4;

/// The most that is known of the volume touched: file size, else bytes in all.
pub(super) fn fits_in_memory(claim: &Claim) -> Option<Observation> {
    let (memory, touched) = (claim.memory?, claim.size.or(claim.total)?);
    (claim.buffered == Some(true) && !waits_for_device(claim) && touched <= memory).then(|| {
        let reason = format!("{touched} through the page cache of a machine with {memory}");
        let figures =
            [("touched_bytes", float(touched.get())), ("memory_bytes", float(memory.get()))];
        Observation::new(Tier::Doubtful, reason, figures)
    })
}

fn waits_for_device(claim: &Claim) -> bool {
    // Writes that a sync follows, each or a known number of them, wait for the device all the same.
    let syncs = match claim.durability {
        Durability::InTheWrite => true,
        Durability::SyncCall => claim.writes_per_sync.is_some(),
        Durability::Unknown | Durability::Denied | Durability::OnlyTheCall => false,
    };
    syncs && claim.read_share == Some(0.0)
}

pub(super) fn by_volume(claims: &[Claim]) -> Vec<LocatedObservation> {
    // The largest volume of each series, and its fastest result.
    let mut sustained: HashMap<_, (u64, Figure)> = HashMap::new();
    for (claim, total, figure) in claims.iter().filter_map(buffered_writes) {
        let known = sustained.entry(series(claim)).or_insert((total, figure));
        if total > known.0 || total == known.0 && figure.high > known.1.high {
            *known = (total, figure);
        }
    }
    let about = |(claim, total, figure): (&Claim, u64, Figure)| {
        let seen = faster(total, figure, *sustained.get(&series(claim))?)?;
        Some(LocatedObservation::new(claim, seen))
    };
    claims.iter().filter_map(buffered_writes).filter_map(about).collect()
}

fn buffered_writes(claim: &Claim) -> Option<(&Claim, u64, Figure)> {
    let is_meant = claim.buffered == Some(true) && claim.read_share == Some(0.0);
    is_meant.then_some((claim, claim.total?.get(), claim.bandwidth?))
}

fn series(claim: &Claim) -> (&str, &str, Option<u32>) {
    (&claim.source, &claim.stack, claim.jobs)
}

fn faster(total: u64, figure: Figure, (largest, sustained): (u64, Figure)) -> Option<Observation> {
    let is_larger = largest / total.max(1) >= LARGER;
    (is_larger && figure.low > sustained.high * FASTER_THAN_SUSTAINED).then(|| {
        let ratio = float(largest) / float(total.max(1));
        let reason = format!(
            "{} buffered with {}; {} on the same storage with a volume {} times larger",
            bandwidth(figure.value),
            durio_base::Bytes::new(total),
            bandwidth(sustained.value),
            number(ratio),
        );
        let figures = [
            ("bytes_per_second", figure.value),
            ("sustained_bytes_per_second", sustained.value),
            ("volume_ratio", ratio),
        ];
        Observation::new(Tier::Doubtful, reason, figures)
    })
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;

    use super::*;
    use crate::audit::figure::Figure;
    use crate::audit::phrases::describe;
    use crate::audit::rules::tests::{codes, operations, sound};

    fn synced() -> Claim {
        let mut claim = sound("randwrite");
        claim.durable = "fsync each".into();
        claim.durability = Durability::SyncCall;
        claim.writes_per_sync = Some(1);
        claim.write = operations(10_000.0, 30.0);
        claim.sync = operations(10_000.0, 69.0);
        claim
    }

    #[test]
    fn syncs_that_are_there_are_fine() {
        let mut claim = synced();
        claim.sync.count = Some(1);
        assert_eq!(codes(&claim), [""; 0]);
    }

    #[test]
    fn no_counted_sync_and_one_that_takes_no_time_are_told() {
        let mut claim = synced();
        claim.sync.count = Some(0);
        assert!(never_issued(&claim).unwrap().reason.contains("no sync was counted"));
        let mut claim = synced();
        claim.sync.latency_ns_mean = Some(Figure::exact(80.0));
        assert!(never_issued(&claim).unwrap().reason.contains("80 ns"));
        claim.sync.latency_ns_mean = Some(Figure::exact(1_000.0));
        assert_eq!(never_issued(&claim), None);
    }

    #[test]
    fn writes_that_leave_no_time_for_a_sync_are_told() {
        let mut claim = synced();
        claim.sync = crate::audit::Operations::default();
        claim.write = operations(28_571.0, 35.0);
        assert!(never_issued(&claim).is_some());
        claim.write = operations(28_571.0, 33.5);
        assert_eq!(never_issued(&claim), None, "1.5 µs are left");
        claim.write = operations(28_571.0, 35.0);
        claim.writes_per_sync = Some(100);
        assert_eq!(never_issued(&claim), None, "one in a hundred may be short of a microsecond");
        claim.writes_per_sync = Some(1);
        claim.durability = Durability::InTheWrite;
        assert_eq!(never_issued(&claim), None, "O_DSYNC is in the write's latency");
    }

    #[test]
    fn how_a_call_is_made_is_no_durability() {
        let told = |workload: &str, durable: &str| {
            let mut claim = sound(workload);
            claim.durable = durable.into();
            claim.durability = Durability::Unknown;
            describe(&mut claim);
            without_sync(&claim).map(|seen| seen.tier)
        };
        assert_eq!(told("randwrite", "psync+direct"), Some(Tier::Method));
        assert_eq!(told("wal: seq write", "O_DIRECT"), Some(Tier::Doubtful));
        assert_eq!(told("commit: seq write", "none"), Some(Tier::Doubtful));
        assert_eq!(told("randread", "psync+direct"), None, "reads need none");
        assert_eq!(told("randwrite", "O_DIRECT+O_SYNC"), None);
        assert_eq!(told("randwrite", "no (buffered)"), None, "it says so");
        assert_eq!(told("randwrite", ""), None, "it says nothing");
    }

    #[test]
    fn each_sign_of_a_missing_sync_has_its_bounds() {
        let mut claim = synced();
        claim.sync.count = Some(0);
        claim.write.rate = None;
        claim.read_share = Some(1.0);
        assert_eq!(never_issued(&claim), None, "nothing was written");
        let left = |latency_us| {
            let mut claim = synced();
            claim.sync = crate::audit::Operations::default();
            claim.write = operations(20_000.0, latency_us);
            never_issued(&claim).map(|seen| seen.evidence["left_for_sync_ns"].clone())
        };
        // 50 µs for each write.
        assert_eq!(left(48.9), None);
        let value = crate::audit::EvidenceValue::Number(900.0);
        assert_eq!(left(49.1), Some(value));
        // Beyond all of it, the row is impossible and none of these.
        assert_eq!(left(52.0), None);
        let mut claim = synced();
        claim.durable.clear();
        claim.sync.count = Some(0);
        assert!(never_issued(&claim).unwrap().reason.starts_with("'randwrite', and no"));
    }

    #[test]
    fn a_buffered_volume_that_fits_into_memory_is_told() {
        let mut claim = sound("randread");
        claim.buffered = Some(true);
        claim.memory = Some(Bytes::from_gib(64));
        claim.size = Some(Bytes::from_gib(4));
        assert!(codes(&claim).contains(&"page-cache".to_owned()));
        claim.size = Some(Bytes::from_gib(65));
        assert!(!codes(&claim).contains(&"page-cache".to_owned()));
        claim.size = Some(Bytes::from_gib(4));
        claim.buffered = Some(false);
        assert!(!codes(&claim).contains(&"page-cache".to_owned()));
        claim.buffered = None;
        assert!(!codes(&claim).contains(&"page-cache".to_owned()), "unknown is no evidence");
    }

    #[test]
    fn buffered_writes_that_are_synced_are_no_figure_of_the_page_cache() {
        let mut claim = sound("randwrite");
        claim.buffered = Some(true);
        (claim.memory, claim.size) = (Some(Bytes::from_gib(64)), Some(Bytes::from_gib(4)));
        assert!(fits_in_memory(&claim).is_some());
        (claim.durability, claim.writes_per_sync) = (Durability::SyncCall, Some(1));
        assert_eq!(fits_in_memory(&claim), None);
        claim.writes_per_sync = None;
        assert!(fits_in_memory(&claim).is_some(), "how often is not said");
        claim.durability = Durability::InTheWrite;
        assert_eq!(fits_in_memory(&claim), None);
        claim.read_share = Some(0.7);
        assert!(fits_in_memory(&claim).is_some(), "the reads do not wait");
    }

    fn written(gib: u64, megabytes: f64) -> Claim {
        let mut claim = sound("seq write");
        claim.buffered = Some(true);
        claim.total = Some(Bytes::from_gib(gib));
        claim.bandwidth = Some(Figure::printed(megabytes * 1e6, 1e6));
        claim
    }

    #[test]
    fn buffered_writes_that_a_larger_volume_does_not_sustain_are_told() {
        let rows = [written(1, 1200.0), written(2, 650.0), written(8, 900.0), written(16, 557.0)];
        assert_eq!(by_volume(&rows).len(), 1, "1.17 times as fast, and a volume half as large");
        let direct = rows.map(|row| Claim { buffered: Some(false), ..row });
        assert!(by_volume(&direct).is_empty());
    }

    #[test]
    fn what_is_larger_and_what_is_faster_have_bounds() {
        let told = |rows: &[Claim]| by_volume(rows).len();
        // Four times as large: less is too little to tell.
        assert_eq!(told(&[written(2, 1300.0), written(8, 1000.0)]), 1);
        assert_eq!(told(&[written(3, 1300.0), written(8, 1000.0)]), 0);
        // 1.2 times as fast as 1001 MB/s: 1201.2.
        assert_eq!(told(&[written(2, 1201.0), written(8, 1000.0)]), 0);
        assert_eq!(told(&[written(2, 1202.0), written(8, 1000.0)]), 1);
        // The fastest of the largest volumes is the sustained one.
        assert_eq!(told(&[written(2, 1300.0), written(8, 1000.0), written(8, 1290.0)]), 0);
        assert_eq!(told(&[written(2, 1300.0), written(8, 1290.0), written(8, 1000.0)]), 0);
        assert_eq!(told(&[written(8, 1000.0), written(2, 1300.0), written(4, 1290.0)]), 1);
    }

    #[test]
    fn only_rows_of_one_series_are_held_against_each_other() {
        let told = |change: &dyn Fn(&mut Claim)| {
            let mut other = written(8, 500.0);
            change(&mut other);
            by_volume(&[written(1, 1200.0), other]).len()
        };
        assert_eq!(told(&|_| {}), 1);
        assert_eq!(told(&|claim| claim.source = "b".into()), 0);
        assert_eq!(told(&|claim| claim.stack = "xfs".into()), 0);
        assert_eq!(told(&|claim| claim.jobs = Some(2)), 0);
        assert_eq!(told(&|claim| claim.read_share = Some(0.5)), 0);
        assert_eq!(told(&|claim| claim.total = None), 0);
    }

    #[test]
    fn as_much_as_the_memory_fits_and_the_file_counts_before_the_total() {
        let told = |size: Option<u64>, total: Option<u64>| {
            let mut claim = sound("randread");
            claim.buffered = Some(true);
            claim.memory = Some(Bytes::from_gib(64));
            (claim.size, claim.total) = (size.map(Bytes::new), total.map(Bytes::new));
            fits_in_memory(&claim).is_some()
        };
        assert!(told(Some(64 << 30), None) && !told(Some((64 << 30) + 1), None));
        assert!(told(None, Some(64 << 30)) && !told(None, Some((64 << 30) + 1)));
        assert!(!told(Some(65 << 30), Some(1)) && !told(None, None));
    }
}
