//! The power of simulated disks.
//!
//! In: disks. Out: the same after a cut. Not here: who reads them then.

use durio_simdisk::SharedDisk;

/// Takes the power of all away in one instant.
pub fn cut(disks: &[SharedDisk]) {
    // None takes a request between the first that is cut and the last.
    let mut held: Vec<_> = disks.iter().map(SharedDisk::lock).collect();
    held.iter_mut().for_each(|disk| disk.cut());
}

/// Gives a disk its power back, and says whether it came back as large as it was made.
#[must_use]
pub fn restore(disk: &SharedDisk) -> bool {
    let disk = &mut *disk.lock();
    disk.restore().is_ok() && disk.size() == disk.profile().size
}
