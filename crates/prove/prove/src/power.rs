//! The power of simulated disks.
//!
//! Cuts the power of a set of disks.

use durio_simdisk::SharedDisk;

/// Cuts the power of all disks in one instant.
pub fn cut(disks: &[SharedDisk]) {
    // All are locked first, so that no disk takes a request between the first cut and the last.
    let mut held: Vec<_> = disks.iter().map(SharedDisk::lock).collect();
    held.iter_mut().for_each(|disk| disk.cut());
}

/// Restores a disk's power, and returns whether it came back with its full size.
#[must_use]
pub fn restore(disk: &SharedDisk) -> bool {
    let disk = &mut *disk.lock();
    disk.restore().is_ok() && disk.size() == disk.profile().size
}
