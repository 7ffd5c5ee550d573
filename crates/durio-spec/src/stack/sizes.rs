//! How large the devices of a stack are: estimated before it is built, and scaled.

use durio_layers::{
    BtrfsProfile, DeclaredKind, DeclaredLayer, DeclaredMd, DeclaredStack, LvmLayout, Made,
    ZfsLayout,
};
use durio_units::Bytes;

use super::GRAIN;
use crate::table::value::Scale;

/// After each layer the sizes of its devices, about: what a layer keeps for itself is not known
/// before it is there. Of a filesystem, nine tenths of what is below. `existing` gives the size of a
/// device that is there.
#[must_use]
pub fn devices_after(
    stack: &DeclaredStack,
    existing: impl Fn(&str) -> Option<Bytes>,
) -> Vec<Vec<Bytes>> {
    let mut all: Vec<Vec<Bytes>> = Vec::new();
    for layer in &stack.layers {
        let below = all.last().map_or(&[][..], Vec::as_slice);
        all.push(after(layer, below, &existing));
    }
    all
}

fn after(
    layer: &DeclaredLayer,
    below: &[Bytes],
    existing: &impl Fn(&str) -> Option<Bytes>,
) -> Vec<Bytes> {
    match &layer.kind {
        DeclaredKind::Device { paths } => {
            paths.iter().map(|path| existing(path).unwrap_or(Bytes::ZERO)).collect()
        }
        DeclaredKind::Dm { .. } => below.to_vec(),
        kind => match made(kind) {
            Some(made) => vec![made.size; made.count as usize],
            None => groups(layer.groups, below).map(|group| joined(kind, group)).collect(),
        },
    }
}

fn groups(groups: u32, below: &[Bytes]) -> impl Iterator<Item = &[Bytes]> {
    let length = below.len() / (groups.max(1) as usize);
    below.chunks(length.max(1))
}

const fn made(kind: &DeclaredKind) -> Option<Made> {
    match kind {
        DeclaredKind::Ram(made)
        | DeclaredKind::Zram(made)
        | DeclaredKind::Null { made, .. }
        | DeclaredKind::Loop { made, .. } => Some(*made),
        _ => None,
    }
}

/// What a group of devices holds once it is one.
fn joined(kind: &DeclaredKind, group: &[Bytes]) -> Bytes {
    let least = group.iter().copied().min().unwrap_or(Bytes::ZERO).get();
    let count = group.len() as u64;
    let sum = group.iter().fold(0_u64, |sum, size| sum.saturating_add(size.get()));
    let (held, is_filesystem) = match kind {
        DeclaredKind::Md(md) => (md_members(md, count, least), false),
        DeclaredKind::Lvm { layout: LvmLayout::Raid1, .. } => (least, false),
        DeclaredKind::Lvm { layout: LvmLayout::Raid10, .. } => (sum / 2, false),
        DeclaredKind::Btrfs { profile: BtrfsProfile::Raid1 | BtrfsProfile::Raid10, .. } => {
            (sum / 2, true)
        }
        DeclaredKind::Zfs { layout: ZfsLayout::Mirror, .. } => (least, true),
        DeclaredKind::Zfs { layout: ZfsLayout::Raidz1, .. } => (sum.saturating_sub(least), true),
        DeclaredKind::Zfs { layout: ZfsLayout::Raidz2, .. } => {
            (sum.saturating_sub(least.saturating_mul(2)), true)
        }
        kind => (sum, kind.is_filesystem()),
    };
    let held = if is_filesystem { held / 10 * 9 } else { held };
    Bytes::new(held).rounded_down_to(GRAIN)
}

fn md_members(md: &DeclaredMd, count: u64, least: u64) -> u64 {
    let count = count.saturating_sub(u64::from(md.journal));
    match md.level {
        1 => least,
        4 | 5 => least.saturating_mul(count.saturating_sub(1)),
        6 => least.saturating_mul(count.saturating_sub(2)),
        10 => least.saturating_mul(count) / copies(md),
        _ => least.saturating_mul(count),
    }
}

/// Copies of level 10 by the digits of its layout; 2 without one, as mdadm has it.
fn copies(md: &DeclaredMd) -> u64 {
    let digits = md.layout.as_deref().and_then(|layout| layout.get(1..));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(2).max(1)
}

/// The stack with the devices that durio makes in so many thousandths of their size.
pub(super) fn scaled(stack: &DeclaredStack, per_mille: u32) -> DeclaredStack {
    let scale = Scale { size_per_mille: per_mille, ..Scale::WHOLE };
    let mut stack = stack.clone();
    for layer in &mut stack.layers {
        if let DeclaredKind::Ram(made)
        | DeclaredKind::Zram(made)
        | DeclaredKind::Null { made, .. }
        | DeclaredKind::Loop { made, .. } = &mut layer.kind
        {
            made.size = scale.size(made.size);
        }
    }
    stack
}
