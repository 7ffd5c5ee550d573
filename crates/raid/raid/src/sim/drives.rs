//! The drives of a simulated array.
//!
//! In: sizes, cuts. Out: drives. Not here: operations on them (`simulated.rs`), the order in which those
//! begin and end (`life.rs`).

use durio_base::Nanos;
use durio_simdisk::{Disk, Profile, Request};

use crate::geometry::SECTOR;
use crate::{Found, Id, simulated};

/// Bytes of a sector that tell its value.
pub(super) const STAMP: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Drive {
    pub(super) disk: Disk,
    pub(super) id: Id,
    /// Its size as others see it: a file that was truncated has less than its disk, one that grew has more.
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

    /// What assembly reads of it; none if it has no superblock.
    pub(super) fn find(&mut self, device: u8) -> Option<Found> {
        simulated::find(&mut self.disk, device, self.bytes)
    }

    /// Turns a bit on the medium, behind everybody's back.
    pub(super) fn turn_bit(&mut self, sector: u64, byte: usize) {
        let mut data = [0; SECTOR as usize];
        self.disk.durable().read(sector, &mut data);
        data[byte] ^= 1;
        let write = Request::Write { sector, data: &data, fua: true };
        // An honest disk with power takes what is within its size.
        let _ = self.disk.carry_out(0, Nanos::new(0), write, &mut []);
    }

    /// Takes its power away and gives it back: what was on its way is gone.
    pub(super) fn reset(&mut self) {
        self.disk.cut();
        // An honest disk comes back; another has no power then.
        let _ = self.disk.restore();
        self.is_stalled = false;
    }
}
