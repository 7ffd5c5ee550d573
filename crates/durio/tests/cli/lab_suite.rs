//! Real filesystems and arrays in a guest whose clock counts instructions: what each layer costs
//! repeats on any machine, so shapes are asserted, with the slack that was measured.

use std::time::Duration;

use crate::guests::{benched, bootable, p50};

/// A minute and a half on a quiet machine, more than ten beside a build and other guests.
const PATIENCE: Duration = Duration::from_secs(2400);

/// Layers cost what they cost, on real ext4, XFS, Btrfs and md. The margins are several times what
/// differs between runs: medians of counted time repeat within 1 %, of Btrfs within 10 %.
#[test]
#[ignore = "slow"]
fn layers_cost_in_a_guest_what_their_work_is() {
    let programs = ["mdadm", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"];
    let Some(sandbox) = bootable(&programs) else { return };
    let document = benched(&sandbox, "lab-suite --scale-time 0.1", PATIENCE);
    assert_eq!(document["timing"], "counted");
    assert!(document["label"].as_str().unwrap().contains("software cost per I/O"), "{document}");
    let write = |stack: &str, layer: usize| p50(&document, "write", stack, layer);
    let raw = write("raid0", 0);
    for stack in ["ext4", "xfs", "btrfs", "raid1-bitmap-none", "raid10-bitmap-internal"] {
        let again = write(stack, 0);
        assert!((again / raw - 1.0).abs() < 0.03, "raw drifts: {again} after {raw}");
    }
    let md = |stack: &str| write(stack, 1);
    let (raid0, raid1) = (md("raid0"), md("raid1-bitmap-none"));
    let (raid10, raid5) = (md("raid10-bitmap-none"), md("ext4-on-raid5"));
    assert!(raw < raid0 && raid0 < raid1 && raid1 < raid5, "{raw} {raid0} {raid1} {raid5}");
    assert!((raid10 / raid1 - 1.0).abs() < 0.15, "a mirror is a mirror: {raid1} {raid10}");
    assert!(raid1 / raw > 1.5 && raid1 / raw < 2.5, "two copies: {}", raid1 / raw);
    for (with, without) in [("raid1-bitmap-internal", raid1), ("raid10-bitmap-internal", raid10)] {
        assert!(md(with) > 1.2 * without, "a bitmap costs: {} against {without}", md(with));
    }
    let ext4_above = write("ext4-on-raid5", 2);
    assert!(ext4_above > raid5, "a filesystem on RAID5 costs more than it: {ext4_above} {raid5}");
    let filesystems = ["ext4", "xfs", "btrfs"].map(|name| write(name, 1));
    assert!(filesystems.iter().all(|it| *it > raw), "{filesystems:?} on {raw}");
    assert!(filesystems[2] > 2.0 * filesystems[0].max(filesystems[1]), "{filesystems:?}");
}
