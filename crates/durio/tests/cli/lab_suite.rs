//! Real filesystems and arrays in a guest whose clock counts instructions: what each layer costs
//! repeats on any machine, so shapes are asserted, with the slack that was measured.

use std::time::Duration;

use serde_json::Value;

use crate::requirements::{has, skip};
use crate::sandbox::Sandbox;

/// A minute on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The lab suite, as one JSON document; nothing where no guest can be booted.
fn suite() -> Option<Value> {
    if !has(&["qemu-system-x86_64", "mdadm", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "modprobe"]) {
        return None;
    }
    let sandbox = Sandbox::new();
    let with_kernels = |line: &str| {
        let named = std::env::var_os("DURIO_KERNELS").unwrap_or_default();
        let home = std::env::var_os("HOME").unwrap_or_default();
        sandbox.durio(line).env("DURIO_KERNELS", named).env("HOME", home)
    };
    if with_kernels("lab kernels").run().code() != 0 {
        skip("no kernel with its modules is there; cargo xtask lab kernel fetches one");
        return None;
    }
    let line =
        "stack bench lab-suite --lab --quiet --seed 7 --scale-time 0.2 --format json --out out";
    Some(with_kernels(line).start().wait_at_most(PATIENCE).expect_exit(0).json())
}

/// Median service time of a workload on a layer of a stack, in nanoseconds.
fn p50(document: &Value, workload: &str, stack: &str, layer: &str) -> f64 {
    let points = document["points"].as_array().unwrap();
    let is_it = |point: &Value| {
        point["stack"] == stack && point["layer"].as_str().unwrap().starts_with(layer)
    };
    let at = points.iter().position(is_it).unwrap_or_else(|| panic!("no {layer} in {stack}"));
    let workloads = document["workloads"].as_array().unwrap();
    let rows = workloads.iter().find(|it| it["key"]["workload"] == workload).unwrap();
    let row = &rows["rows"][at];
    row["figures"]["service"]["p50_ns"].as_f64().unwrap_or_else(|| panic!("no figures: {row}"))
}

/// Layers cost what they cost, on real ext4, XFS, Btrfs and md. The margins are several times what
/// differs between runs: medians of counted time repeat within 1 %, of Btrfs within 10 %.
#[test]
fn layers_cost_in_a_guest_what_their_work_is() {
    let Some(document) = suite() else { return };
    assert_eq!(document["timing"], "counted");
    assert!(document["label"].as_str().unwrap().contains("software cost per I/O"), "{document}");
    let write = |stack: &str, layer: &str| p50(&document, "write", stack, layer);
    let raw = write("raid0", "2 × ram");
    for stack in ["ext4", "xfs", "btrfs", "raid1-bitmap-none", "raid10-bitmap-internal"] {
        let points = document["points"].as_array().unwrap();
        let first = points.iter().find(|it| it["stack"] == stack).unwrap();
        let again = write(stack, first["layer"].as_str().unwrap());
        assert!((again / raw - 1.0).abs() < 0.03, "raw drifts: {again} after {raw}");
    }
    let md = |stack: &str| write(stack, "md");
    let (raid0, raid1) = (md("raid0"), md("raid1-bitmap-none"));
    let (raid10, raid5) = (md("raid10-bitmap-none"), md("ext4-on-raid5"));
    assert!(raw < raid0 && raid0 < raid1 && raid1 < raid5, "{raw} {raid0} {raid1} {raid5}");
    assert!((raid10 / raid1 - 1.0).abs() < 0.15, "a mirror is a mirror: {raid1} {raid10}");
    assert!(raid1 / raw > 1.5 && raid1 / raw < 2.5, "two copies: {}", raid1 / raw);
    for (with, without) in [("raid1-bitmap-internal", raid1), ("raid10-bitmap-internal", raid10)] {
        assert!(md(with) > 1.2 * without, "a bitmap costs: {} against {without}", md(with));
    }
    let ext4_above = write("ext4-on-raid5", "ext4");
    assert!(ext4_above > raid5, "a filesystem on RAID5 costs more than it: {ext4_above} {raid5}");
    let filesystems = ["ext4", "xfs", "btrfs"].map(|name| write(name, name));
    assert!(filesystems.iter().all(|it| *it > raw), "{filesystems:?} on {raw}");
    assert!(filesystems[2] > 2.0 * filesystems[0].max(filesystems[1]), "{filesystems:?}");
}
