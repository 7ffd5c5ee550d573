//! Evidence that a machine and its drives were without power between two moments.
//!
//! Compares the machine's reports from before and after into [`CutEvidence`]. durio-analyse decides
//! whether that is enough.

use durio_observe::{DriveCounters, PowerState};
use durio_record::proof::CutEvidence;

/// What the signs of power before and after a cut say about it.
#[must_use]
pub fn compare(before: &PowerState, after: &PowerState) -> CutEvidence {
    let pairs = before.drives.iter().filter_map(|old| {
        let new = after.drives.iter().find(|drive| drive.drive == old.drive)?;
        Some(([old.unsafe_shutdowns?, new.unsafe_shutdowns?], power_cycles(old, new)))
    });
    // A cut of an array counts if each of its drives was without power.
    let least = pairs.min_by_key(|([old, new], _)| new.saturating_sub(*old));
    let boots = before.boot_id.as_ref().zip(after.boot_id.as_ref());
    CutEvidence {
        unsafe_shutdowns: least.map(|(pair, _)| pair),
        power_cycles: least.and_then(|(_, pair)| pair),
        rebooted: boots.map(|(before, after)| before != after),
        ..CutEvidence::default()
    }
}

fn power_cycles(old: &DriveCounters, new: &DriveCounters) -> Option<[u64; 2]> {
    Some([old.power_cycles?, new.power_cycles?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(boot: &str, drives: &[(&str, Option<u64>)]) -> PowerState {
        let drive = |(name, unsafe_shutdowns): &(&str, Option<u64>)| DriveCounters {
            drive: (*name).to_owned(),
            unsafe_shutdowns: *unsafe_shutdowns,
            power_cycles: Some(9),
            missing: None,
        };
        let drives = drives.iter().map(drive).collect();
        PowerState { boot_id: Some(boot.to_owned()), drives }
    }

    #[test]
    fn of_several_drives_the_one_counts_that_rose_least() {
        let before = state("a", &[("S1", Some(4)), ("S2", Some(70)), ("S3", None)]);
        let after = state("b", &[("S3", Some(1)), ("S2", Some(70)), ("S1", Some(5))]);
        let found = compare(&before, &after);
        assert_eq!((found.unsafe_shutdowns, found.power_cycles), (Some([70, 70]), Some([9, 9])));
        assert_eq!(found.rebooted, Some(true));
    }

    #[test]
    fn what_nobody_told_is_no_evidence() {
        let found = compare(&state("a", &[("S1", Some(4))]), &state("a", &[("S2", Some(9))]));
        assert_eq!((found.unsafe_shutdowns, found.rebooted), (None, Some(false)));
        let nothing = compare(&PowerState::default(), &state("a", &[]));
        assert_eq!(nothing, CutEvidence::default());
    }

    #[test]
    fn only_counters_of_the_same_drive_that_both_told_count() {
        let drive = |name: &str, shutdowns, cycles| DriveCounters {
            drive: name.to_owned(),
            unsafe_shutdowns: shutdowns,
            power_cycles: cycles,
            missing: None,
        };
        let of = |drives: Vec<DriveCounters>| PowerState { boot_id: None, drives };
        let before = of(vec![drive("A", Some(3), Some(20)), drive("B", Some(5), Some(30))]);
        let after = of(vec![drive("B", Some(7), Some(33)), drive("A", Some(4), Some(21))]);
        let found = compare(&before, &after);
        let pairs = (found.unsafe_shutdowns, found.power_cycles, found.rebooted);
        assert_eq!(pairs, (Some([3, 4]), Some([20, 21]), None));
        // The cycles of the drive whose shutdowns count; of none, if it told them but once.
        let after = of(vec![drive("B", Some(6), None), drive("A", Some(9), Some(29))]);
        let found = compare(&before, &after);
        assert_eq!((found.unsafe_shutdowns, found.power_cycles), (Some([5, 6]), None));
        // A counter that went back has not risen.
        let after = of(vec![drive("A", Some(1), Some(1)), drive("B", Some(6), Some(31))]);
        assert_eq!(compare(&before, &after).unsafe_shutdowns, Some([3, 1]));
    }
}
