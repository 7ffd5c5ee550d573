//! Stacks for tests, and what is asked of them.

use std::path::Path;

use durio_base::{Bytes, RaidLevel};
use durio_observe::Signature;

use crate::identity::WrittenSuperblock;
use crate::kinds::KINDS;
use crate::kinds::written;
use crate::{
    Btrfs, BtrfsProfile, BuildCommand, BuildPlace, DeclaredKind, DeclaredLayer, DeclaredMd,
    DeclaredStack, Ext4, Loop, MadeFilesystem, MdBitmap, NewDevices, Raid, RaidFront, Ram, Xfs,
    check_declared, commands,
};

/// The tag of [`place`].
pub(crate) const TAG: &str = "durioabc1234";

pub(crate) fn place() -> BuildPlace {
    BuildPlace::with_id("abc1234", Path::new("/files"))
}

pub(crate) fn stack(kinds: Vec<DeclaredKind>) -> DeclaredStack {
    let layer = |kind| DeclaredLayer { kind, groups: 1, measured: true };
    DeclaredStack { name: "test".into(), layers: kinds.into_iter().map(layer).collect() }
}

pub(crate) const fn made(count: u32, mib: u64) -> NewDevices {
    NewDevices { count, size: Bytes::from_mib(mib) }
}

pub(crate) fn ram(count: u32) -> DeclaredKind {
    DeclaredKind::Ram(Ram { made: made(count, 512) })
}

pub(crate) fn loops(count: u32, mib: u64) -> DeclaredKind {
    DeclaredKind::Loop(Loop { made: made(count, mib), directory: None })
}

pub(crate) fn md(level: u8) -> DeclaredMd {
    DeclaredMd {
        level,
        layout: None,
        chunk: None,
        bitmap: MdBitmap::None,
        bitmap_chunk: None,
        ppl: false,
        journal: false,
        initial_sync: false,
        removed: 0,
        degraded: false,
    }
}

pub(crate) fn raid(level: u8) -> DeclaredKind {
    raid_by(level, RaidFront::Ublk)
}

pub(crate) fn raid_by(level: u8, front: RaidFront) -> DeclaredKind {
    let (level, chunk) = (RaidLevel::of_number(level).unwrap(), Bytes::from_kib(16));
    DeclaredKind::Raid(Raid { level, chunk, front, queues: 1 })
}

pub(crate) fn ext4() -> DeclaredKind {
    ext4_with(MadeFilesystem::default())
}

pub(crate) fn ext4_with(options: MadeFilesystem) -> DeclaredKind {
    DeclaredKind::Ext4(Ext4 { options })
}

pub(crate) fn xfs() -> DeclaredKind {
    DeclaredKind::Xfs(Xfs::default())
}

pub(crate) fn btrfs(profile: BtrfsProfile) -> DeclaredKind {
    DeclaredKind::Btrfs(Btrfs { profile, options: MadeFilesystem::default() })
}

/// Stacks of every kind, alone and in combination.
pub(crate) fn one_of_each() -> Vec<DeclaredStack> {
    KINDS.iter().flat_map(|kind| (kind.examples)()).collect()
}

/// Why the stack is refused.
pub(crate) fn fault(kinds: Vec<DeclaredKind>) -> String {
    check_declared(&stack(kinds)).unwrap_err().to_string()
}

pub(crate) fn on_loops(count: u32, mib: u64, kind: DeclaredKind) -> Result<(), String> {
    check_declared(&stack(vec![loops(count, mib), kind])).map_err(|error| error.to_string())
}

/// The commands, each with its undo.
pub(crate) fn plan(kinds: Vec<DeclaredKind>) -> Vec<String> {
    let text = |command: &BuildCommand| {
        let undo = command.undo.as_ref().map(|undo| format!("  | {undo}"));
        format!("{}{}", command.action, undo.unwrap_or_default())
    };
    commands(&stack(kinds), &place()).unwrap().iter().map(text).collect()
}

/// The commands of the layers above the first one.
pub(crate) fn plan_above(kinds: Vec<DeclaredKind>) -> Vec<String> {
    let all = commands(&stack(kinds), &place()).unwrap();
    let above = all.iter().filter(|command| command.layer > 0);
    above.map(|command| command.action.to_string()).collect()
}

/// What is found on a device with this signature and these bytes.
pub(crate) fn types_on(name: &str, parts: &[(usize, &[u8])]) -> Result<WrittenSuperblock, String> {
    written(&head(parts), &[signature(name)], TAG)
}

pub(crate) fn signature(name: &str) -> Signature {
    Signature { device: "sdx".into(), name: name.into(), offset: Bytes::new(0) }
}

/// The first bytes of a device with these parts.
pub(crate) fn head(parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 2 << 20];
    for (place, part) in parts {
        bytes[*place..*place + part.len()].copy_from_slice(part);
    }
    bytes
}
