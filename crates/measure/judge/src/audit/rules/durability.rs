//! Durability that is claimed and missing: syncs that left no trace, and writes that nothing makes
//! durable. Whether a device honours a flush is not judged.

use super::in_flight::{DepthFit, fit_of};
use super::{Claim, Observation, Tier};
use crate::audit::Durability;
use crate::audit::phrases::words;
use crate::audit::wording::{number, time};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Figure;
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
}
