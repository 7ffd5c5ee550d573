//! Stacks for tests: every kind of layer, alone and in combination.

use durio_units::{Bytes, Nanos};

use crate::{
    BtrfsProfile, DeclaredKind, DeclaredLayer, DeclaredMd, DeclaredStack, DmTarget, LvmLayout,
    Made, MadeFilesystem, MdBitmap, ZfsLayout,
};

pub(super) fn stack(kinds: Vec<DeclaredKind>) -> DeclaredStack {
    let layer = |kind| DeclaredLayer { kind, groups: 1, measured: true };
    DeclaredStack { name: "test".into(), layers: kinds.into_iter().map(layer).collect() }
}

pub(super) const fn made(count: u32, mib: u64) -> Made {
    Made { count, size: Bytes::from_mib(mib) }
}

pub(super) fn md(level: u8) -> DeclaredMd {
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
    }
}

pub(super) fn loops(count: u32, mib: u64) -> DeclaredKind {
    DeclaredKind::Loop { made: made(count, mib), directory: None }
}

pub(super) fn ext4() -> DeclaredKind {
    DeclaredKind::Ext4(MadeFilesystem::default())
}

/// One stack for each thing that can be built.
pub(super) fn one_of_each() -> Vec<DeclaredStack> {
    let ram = |count| DeclaredKind::Ram(made(count, 512));
    let null = DeclaredKind::Null {
        made: made(2, 64),
        completion: Some(Nanos::from_micros(20)),
        queue_depth: None,
    };
    let array = |md| vec![ram(4), DeclaredKind::Md(md), ext4()];
    let lvm = |layout| vec![ram(4), DeclaredKind::Lvm { layout, chunk: None }, ext4()];
    let dm = |target| vec![ram(2), DeclaredKind::Dm { target }, DeclaredKind::Md(md(1)), ext4()];
    let btrfs = |profile| DeclaredKind::Btrfs { profile, options: MadeFilesystem::default() };
    let zfs = |layout| DeclaredKind::Zfs { layout, properties: vec![], pool_properties: vec![] };
    let existing = DeclaredKind::Device { paths: vec!["/dev/sdx".into(), "/dev/sdy".into()] };
    let external = MdBitmap::External("/srv/bitmap".into());
    let mut nested = stack(vec![ram(4), DeclaredKind::Md(md(0)), DeclaredKind::Md(md(1)), ext4()]);
    nested.layers[1].groups = 2;
    let mut stacks: Vec<DeclaredStack> = [
        vec![loops(1, 300), DeclaredKind::Xfs(MadeFilesystem::default())],
        vec![DeclaredKind::Zram(made(2, 128)), btrfs(BtrfsProfile::Raid1)],
        vec![null, DeclaredKind::Md(md(0)), ext4()],
        array(DeclaredMd { removed: 1, ..md(10) }),
        array(DeclaredMd { bitmap: external, ..md(1) }),
        array(DeclaredMd { journal: true, ..md(5) }),
        lvm(LvmLayout::Striped),
        lvm(LvmLayout::Raid10),
        dm(DmTarget::Crypt),
        dm(DmTarget::Delay { delay: Nanos::from_millis(2) }),
        vec![ram(3), zfs(ZfsLayout::Raidz1)],
        vec![existing, DeclaredKind::Md(md(1)), ext4()],
    ]
    .into_iter()
    .map(stack)
    .collect();
    stacks.push(nested);
    stacks
}
