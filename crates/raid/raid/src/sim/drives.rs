//! The drives of a simulated array.
//!
//! Takes sizes and cuts. Operations on drives are in `simulated.rs`, their order is in `life.rs`.

use durio_base::Nanos;
use durio_simdisk::{Disk, DiskRequest, Profile};

use crate::geometry::SECTOR;
use crate::{FoundDevice, Id, simulated};

/// Bytes of a sector that hold its value.
pub(super) const STAMP: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Drive {
    pub(super) disk: Disk,
    pub(super) id: Id,
    /// Its size as others see it: smaller than its disk if the file was truncated, larger if it
    /// grew.
    pub(super) bytes: u64,
    /// It has no FUA.
    pub(super) flushes: bool,
    /// Answers nothing, for ever.
    pub(super) is_stalled: bool,
}

impl Drive {
    pub(super) fn blank(profile: Profile, flushes: bool, number: u64, seed: u64) -> Self {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        let disk = Disk::new(profile, seed);
        let bytes = disk.size();
        Self { disk, id: Id(id), bytes, flushes, is_stalled: false }
    }

    /// What assembly reads of it; `None` if it has no superblock.
    pub(super) fn find(&mut self, device: u8) -> Option<FoundDevice> {
        simulated::find(&mut self.disk, device, self.bytes)
    }

    /// Flips a bit on the medium, without the engine's knowledge.
    pub(super) fn turn_bit(&mut self, sector: u64, byte: usize) {
        let mut data = [0; SECTOR as usize];
        self.disk.durable().read(sector, &mut data);
        data[byte] ^= 1;
        let write = DiskRequest::Write { sector, data: &data, fua: true };
        // An honest disk with power accepts writes within its size.
        let _ = self.disk.carry_out(0, Nanos::new(0), write, &mut []);
    }

    /// Cuts the power and restores it: operations in flight are lost.
    pub(super) fn reset(&mut self) {
        self.disk.cut();
        // An honest disk comes back; another has no power then.
        let _ = self.disk.restore();
        self.is_stalled = false;
    }
}
