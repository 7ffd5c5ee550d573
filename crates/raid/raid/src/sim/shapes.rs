//! Draws the geometries of simulated arrays, and describes drives and starts for a trace.

use durio_base::RaidLevel;
use durio_simdisk::Chance;

use crate::geometry::Geometry;
use crate::superblock::MemberTable;
use crate::{FoundDevice, StartPlan};

pub(super) fn draw_geometry(chance: &mut Chance, only_four: bool) -> Geometry {
    let (level, members) = match chance.below(9) {
        _ if only_four => (RaidLevel::Raid10, 4),
        0..=3 => (RaidLevel::Raid10, 4),
        4 => (RaidLevel::Raid10, 6),
        5 => (RaidLevel::Raid1, 2),
        6 => (RaidLevel::Raid1, 3),
        7 => (RaidLevel::Raid0, 2),
        _ => (RaidLevel::Raid1, 4),
    };
    let chunk = 4096_u32 << chance.below(2);
    let region = u64::from(chunk) << chance.below(2);
    Geometry { level, members, chunk, region, member_bytes: 16 * 4096 }
}

/// Small, so that rebuilds are short.
pub(super) fn three_copies() -> Geometry {
    let (level, chunk) = (RaidLevel::Raid1, 4096);
    Geometry { level, members: 3, chunk, region: u64::from(chunk), member_bytes: 4 * 4096 }
}

pub(super) fn draw_stripes(chance: &mut Chance) -> Geometry {
    let (level, members) = match chance.below(6) {
        0..=1 => (RaidLevel::Raid5, 3),
        2 => (RaidLevel::Raid5, 4),
        3..=4 => (RaidLevel::Raid6, 4),
        _ => (RaidLevel::Raid6, 5),
    };
    let chunk = 4096_u32 << chance.below(2);
    let region = u64::from(chunk) << chance.below(2);
    // Half of them are small, so that rebuilds end often.
    Geometry { level, members, chunk, region, member_bytes: 8192 << (1 + 2 * chance.below(2)) }
}

pub(super) fn describe_found(found: &FoundDevice) -> String {
    let MemberTable { epoch, revision, committed, voters, ref entries, .. } =
        found.superblock.table;
    let states: Vec<String> = entries.iter().map(|entry| format!("{:?}", entry.state)).collect();
    let states = states.join(", ");
    let device = found.device;
    format!("device {device} has {epoch}.{revision} on {committed} by {voters:b}: {states}")
}

pub(super) fn describe(plan: &StartPlan) -> String {
    let entries = plan.table.entries.iter().zip(&plan.devices);
    let words = entries.map(|(entry, device)| {
        let device = device.map_or_else(|| "-".to_owned(), |device| device.device.to_string());
        let by_map = if entry.by_map { " by map" } else { "" };
        format!("{:?}{by_map} on {device}", entry.state)
    });
    let words: Vec<String> = words.collect();
    format!("epoch {}: {}", plan.table.epoch, words.join(", "))
}
