//! Finds the page cache measured as if it were the device: buffered results that show it.

use std::collections::HashMap;

use super::{Claim, LocatedObservation, Observation, Tier};
use crate::audit::figure::real;
use crate::audit::wording::{bandwidth, number};
use crate::audit::{Durability, Figure};

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
            [("touched_bytes", real(touched.get())), ("memory_bytes", real(memory.get()))];
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
        let ratio = real(largest) / real(total.max(1));
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
    use super::*;
    use crate::audit::rules::tests::{codes, sound};
    use durio_base::Bytes;

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
        // The fastest of the largest volumes is what is sustained.
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
        assert_eq!(told(&|it| it.source = "b".into()), 0);
        assert_eq!(told(&|it| it.stack = "xfs".into()), 0);
        assert_eq!(told(&|it| it.jobs = Some(2)), 0);
        assert_eq!(told(&|it| it.read_share = Some(0.5)), 0);
        assert_eq!(told(&|it| it.total = None), 0);
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
