//! Draws the geometries of simulated arrays, and describes drives and starts for a trace.

use durio_simdisk::Chance;

use crate::geometry::{Geometry, Level};
use crate::superblock::MemberTable;
use crate::{FoundDevice, StartPlan};

pub(super) fn draw_geometry(chance: &mut Chance, only_four: bool) -> Geometry {
    let (level, members) = match chance.below(9) {
        _ if only_four => (Level::StripedMirrors, 4),
        0..=3 => (Level::StripedMirrors, 4),
        4 => (Level::StripedMirrors, 6),
        5 => (Level::Mirrored, 2),
        6 => (Level::Mirrored, 3),
        7 => (Level::Striped, 2),
        _ => (Level::Mirrored, 4),
    };
    let chunk = 4096_u32 << chance.below(2);
    let region = u64::from(chunk) << chance.below(2);
    Geometry { level, members, chunk, region, member_bytes: 16 * 4096 }
}

/// Small, so that rebuilds are short.
pub(super) fn three_copies() -> Geometry {
    let (level, chunk) = (Level::Mirrored, 4096);
    Geometry { level, members: 3, chunk, region: u64::from(chunk), member_bytes: 4 * 4096 }
}

pub(super) fn draw_stripes(chance: &mut Chance) -> Geometry {
    let (level, members) = match chance.below(6) {
        0..=1 => (Level::Parity, 3),
        2 => (Level::Parity, 4),
        3..=4 => (Level::DoubleParity, 4),
        _ => (Level::DoubleParity, 5),
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
