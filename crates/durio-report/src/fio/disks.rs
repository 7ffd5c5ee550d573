//! `disk_util`: what the block devices below did.
//!
//! In: the counters of all steps. Out: an entry per device. Not here: means over members, for the
//! counters are of the lowest devices, which have none.

use durio_analyse::Findings;
use durio_fio::json::DiskUtil;

/// None without a device whose counters the kernel keeps, as fio has it.
pub(super) fn disks(findings: &Findings) -> Option<Vec<DiskUtil>> {
    let mut disks: Vec<(DiskUtil, u64)> = Vec::new();
    let measured = findings.workloads.iter();
    let counted = measured.flat_map(|it| it.devices.iter().map(|device| (it.measured, device)));
    // fio counts from the start of the first job to the end of the last.
    let whole: u64 =
        findings.workloads.iter().filter(|it| it.stream == 0).map(|it| it.measured.get()).sum();
    for (_, device) in counted.filter(|(_, device)| !device.not_counted) {
        let known = disks.iter().position(|(disk, _)| disk.name == device.name);
        let index = known.unwrap_or(disks.len());
        if known.is_none() {
            disks.push((DiskUtil { name: device.name.clone(), ..DiskUtil::default() }, 0));
        }
        let Some((disk, busy_ms)) = disks.get_mut(index) else { continue };
        disk.own.read_ios += device.reads_completed;
        disk.own.write_ios += device.writes_completed;
        disk.own.read_merges += device.reads_merged;
        disk.own.write_merges += device.writes_merged;
        disk.own.read_ticks += device.read_ms;
        disk.own.write_ticks += device.write_ms;
        disk.own.in_queue += device.weighted_io_ms;
        *busy_ms += device.io_ms;
    }
    let util = |(mut disk, busy_ms): (DiskUtil, u64)| {
        disk.own.util = share(busy_ms, whole);
        disk
    };
    let disks: Vec<_> = disks.into_iter().map(util).collect();
    (!disks.is_empty()).then_some(disks)
}

#[expect(clippy::cast_precision_loss, reason = "a share in percent")]
fn share(busy_ms: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 { 0.0 } else { (100.0 * busy_ms as f64 * 1e6 / whole_ns as f64).min(100.0) }
}
