//! Members that missed epochs, and a sentence that says why a start rebuilds each; `assembly.rs`
//! decides.

use std::fmt;

use super::{FoundDevice, StartPlan};
use crate::superblock::MemberState;

/// A member that a start rebuilds because its table is older than the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    pub device: u8,
    /// Its entry in the table.
    pub member: u8,
    /// The epoch of the table that the member has.
    pub epoch: u64,
    pub newest: u64,
    /// Only the regions that the map names are copied to it.
    pub by_map: bool,
}

impl StartPlan {
    /// Members that this start rebuilds and the start before did not.
    pub fn behind<'a>(&'a self, found: &'a [FoundDevice]) -> impl Iterator<Item = Behind> + 'a {
        let newest = self.table.epoch;
        let entries = (0..).zip(self.table.entries.iter().zip(&self.devices));
        entries.filter_map(move |(member, (entry, device))| {
            let is_new = entry.state == MemberState::Rebuilding && entry.since > newest;
            let device = device.filter(|_| is_new)?.device;
            let epoch = found.iter().find(|it| it.device == device)?.superblock.table.epoch;
            let by_map = entry.by_map;
            (epoch < newest).then_some(Behind { device, member, epoch, newest, by_map })
        })
    }
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { member, epoch, newest, by_map, .. } = self;
        let missed = newest - epoch;
        let epochs = if missed == 1 { "epoch" } else { "epochs" };
        let what = if *by_map { "the regions that the map names are" } else { "all of it is" };
        write!(
            f,
            "member {member} missed {missed} {epochs} (it has {epoch}, the newest is {newest}): \
             {what} resynced"
        )
    }
}
