//! Whether a declaration can be built at all: order, counts, sizes.
//!
//! Returns the first fault of a declared stack from the bottom. The limits of one kind are in
//! [`crate::kinds`]; what exists on a machine is found out while building.

use std::ops::RangeInclusive;

use durio_base::Bytes;

use crate::declared::{DeclaredLayer, DeclaredStack};
use crate::error::BuildError;
use crate::kinds::{KINDS, LayerRole};
use crate::tool_words::check_words;

/// Devices of a layer.
// Enough for any comparison; a typing error must not make a million.
pub(crate) const MOST_DEVICES: u32 = 256;

/// Layers of a stack.
// Enough for any stack, and names of devices must not grow without bounds.
pub(crate) const MOST_LAYERS: usize = 16;

/// The fault, and what to do.
pub(crate) type CheckFault = String;

/// Checks order, counts and sizes.
///
/// # Errors
/// The first thing that is wrong, from the bottom, with what to do.
pub fn check_declared(stack: &DeclaredStack) -> Result<(), BuildError> {
    let whole = |what: &str| BuildError::Failed(format!("stack '{}': {what}", stack.name));
    if stack.layers.is_empty() {
        return Err(whole("it has no layers; the first must be a source of devices"));
    }
    if stack.layers.len() > MOST_LAYERS {
        return Err(whole("it has more than 16 layers, the supported maximum"));
    }
    let mut below = Below::default();
    let mut lower = None;
    for (index, layer) in stack.layers.iter().enumerate() {
        below = check_layer(lower, below, layer).map_err(|what| {
            let (name, number, kind) = (&stack.name, index + 1, layer.kind.name());
            BuildError::Failed(format!("stack '{name}', layer {number} ({kind}): {what}"))
        })?;
        lower = Some(layer);
    }
    Ok(())
}

/// What the next layer stands on.
fn check_layer(
    lower: Option<&DeclaredLayer>,
    below: Below,
    layer: &DeclaredLayer,
) -> Result<Below, CheckFault> {
    check_order(lower, layer)?;
    let kind = layer.kind.layer();
    let above = kind.check(Below { groups: layer.groups, ..below })?;
    // A stack that did not come from a spec, or from an older one, is held to the same lists.
    for (_, tool, words) in kind.tool_words() {
        check_words(tool, words).map_err(|fault| fault.to_string())?;
    }
    Ok(above)
}

fn check_order(lower: Option<&DeclaredLayer>, layer: &DeclaredLayer) -> Result<(), CheckFault> {
    if layer.groups == 0 {
        return Err("groups is 0; leave it out, or give 1 or more".into());
    }
    match (lower, layer.kind.is_source()) {
        (None, false) => Err(format!("it needs devices below it; put {} first", sources())),
        (Some(_), true) => Err("it is a source of devices and must be the first layer".into()),
        (None, true) if layer.groups > 1 => Err("the first layer has no groups".into()),
        (Some(lower), false) if lower.kind.is_filesystem() => {
            Err("nothing can be built on a filesystem; make the filesystem the last layer".into())
        }
        _ => Ok(()),
    }
}

/// `ram, zram or device`.
fn sources() -> String {
    let words = KINDS.iter().filter(|kind| kind.role == LayerRole::Source).map(|kind| kind.word);
    let words = words.collect::<Vec<_>>().join(", ");
    words.rsplit_once(", ").map_or(words.clone(), |(first, last)| format!("{first} or {last}"))
}

/// What a layer stands on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Below {
    pub(crate) devices: u32,
    /// At most so large is each; unknown for existing devices.
    pub(crate) size: Option<Bytes>,
    /// Into how many groups the layer divides them.
    pub(crate) groups: u32,
}

impl Below {
    /// What a source gives.
    pub(crate) const fn of_devices(devices: u32, size: Option<Bytes>) -> Self {
        Self { devices, size, groups: 1 }
    }

    /// The devices of one group, and how many groups there are.
    pub(crate) fn group(self) -> Result<DeviceGroup, CheckFault> {
        let Self { devices, groups, size } = self;
        if devices % groups != 0 {
            return Err(format!("{devices} devices cannot be divided into {groups} equal groups"));
        }
        Ok(DeviceGroup { groups, devices: devices / groups, size })
    }

    /// A filesystem on a number of devices in this range, each of at least `least` bytes.
    pub(crate) fn filesystem(
        self,
        devices: RangeInclusive<u32>,
        least: Bytes,
        of_what: &str,
    ) -> Result<Self, CheckFault> {
        if self.groups > 1 {
            return Err("a filesystem has no groups".into());
        }
        let (fewest, found) = (devices.start(), self.devices);
        if found < *fewest {
            return Err(format!("it needs at least {fewest} devices, but has {found} below it"));
        }
        if found > *devices.end() {
            return Err(format!(
                "it needs one device, but has {found} below it; join them with md or lvm, or use one"
            ));
        }
        at_least(least, self.size, of_what).map(|()| self)
    }
}

/// What becomes one device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceGroup {
    groups: u32,
    pub(crate) devices: u32,
    /// At most so large is each device.
    pub(crate) size: Option<Bytes>,
}

impl DeviceGroup {
    /// One device for each group, as large as at most `members` of its members.
    pub(crate) fn joined(self, members: u32) -> Below {
        let times = |size: Bytes| Bytes::new(size.get().saturating_mul(u64::from(members)));
        Below::of_devices(self.groups, self.size.map(times))
    }
}

/// Each device is so large for all that is known. What a program itself needs on top, it says itself.
pub(crate) fn at_least(least: Bytes, size: Option<Bytes>, of_what: &str) -> Result<(), CheckFault> {
    // A declaration does not know the size of an existing device: mkfs and mdadm report that
    // themselves.
    match size {
        Some(size) if size < least => Err(format!(
            "it needs {least} {of_what} or more and there is {size}; declare larger devices"
        )),
        _ => Ok(()),
    }
}

/// From 4 KiB, a page, up to `most`.
pub(crate) fn power_of_two(size: Bytes, what: &str, most: Bytes) -> Result<(), CheckFault> {
    let least = Bytes::from_kib(4);
    if size.get().is_power_of_two() && size >= least && size <= most {
        return Ok(());
    }
    Err(format!("{what}, {size}, is not a power of two from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    //! Declarations that are refused, and those at the edge that are not.

    use proptest::prelude::*;

    use super::*;
    use crate::tests::stacks::raid;
    use crate::tests::stacks::{btrfs, ext4, fault, loops, md, place, stack, xfs};
    use crate::{
        BtrfsProfile, DeclaredKind, DeclaredMd, Lvm, LvmLayout, MdBitmap, NewDevices, Ram, Zfs,
        ZfsLayout,
    };

    #[test]
    fn the_order_is_source_devices_filesystem() {
        assert!(fault(vec![]).contains("no layers"));
        assert_eq!(
            fault(vec![ext4()]),
            "stack 'test', layer 1 (ext4): it needs devices below it; put ram, zram, null, loop or device first"
        );
        assert!(fault(vec![loops(1, 64), loops(1, 64)]).contains("must be the first layer"));
        let above = fault(vec![loops(2, 64), btrfs(BtrfsProfile::Single), DeclaredKind::Md(md(1))]);
        assert!(above.contains("layer 3 (md): nothing can be built on a filesystem"), "{above}");
        assert!(fault(vec![loops(1, 64); 17]).contains("more than 16 layers"));
        assert!(fault(vec![loops(1, 64); 16]).contains("layer 2 (loop)"));
    }

    #[test]
    fn devices_are_divided_into_equal_groups() {
        let mut nested = stack(vec![loops(5, 64), DeclaredKind::Md(md(0))]);
        nested.layers[1].groups = 2;
        let error = check_declared(&nested).unwrap_err().to_string();
        assert!(error.contains("5 devices cannot be divided into 2"), "{error}");
        nested.layers[1].groups = 0;
        assert!(check_declared(&nested).unwrap_err().to_string().contains("groups is 0"));
        nested.layers[1].groups = 5;
        let error = check_declared(&nested).unwrap_err().to_string();
        assert!(error.contains("level 0 needs at least 2 devices, but has 1"), "{error}");
    }

    /// Two disks of 200 MiB joined are enough, two copies of one are not.
    #[test]
    fn sizes_are_followed_through_the_layers() {
        let lvm = |layout| DeclaredKind::Lvm(Lvm { layout, chunk: None });
        let over = |kind| check_declared(&stack(vec![loops(2, 200), kind, xfs()]));
        assert!(over(DeclaredKind::Md(md(0))).is_ok());
        assert!(over(DeclaredKind::Md(md(1))).is_err());
        assert!(over(DeclaredKind::Md(md(10))).is_err());
        assert!(over(lvm(LvmLayout::Linear)).is_ok());
        assert!(over(lvm(LvmLayout::Raid1)).is_err());
    }

    /// The numbers are those of the tools' manuals and sources, each next to its constant.
    #[test]
    fn each_kind_needs_devices_of_its_least_size() {
        let lvm = DeclaredKind::Lvm(Lvm { layout: LvmLayout::Linear, chunk: None });
        let chunked = |kib| DeclaredMd { chunk: Some(Bytes::from_kib(kib)), ..md(0) };
        let bitmap = DeclaredMd { bitmap: MdBitmap::Internal, ..md(1) };
        let mib = |mib: u64| mib << 20;
        let zfs = Zfs { layout: ZfsLayout::Single, properties: vec![], pool_properties: vec![] };
        for (kind, count, least) in [
            (ext4(), 1, mib(2)),
            (xfs(), 1, mib(300)),
            (DeclaredKind::Zfs(zfs), 1, mib(64)),
            (btrfs(BtrfsProfile::Single), 1, 47_185_920),
            (btrfs(BtrfsProfile::Raid1), 2, 131_072_000),
            (btrfs(BtrfsProfile::Raid10), 2, 131_072_000),
            (lvm, 1, mib(9)),
            (raid(1), 2, mib(4)),
            // A chunk of 512 KiB next to the metadata, unless another is declared; 1 MiB for a bitmap.
            (DeclaredKind::Md(md(0)), 2, mib(4) + (512 << 10)),
            (DeclaredKind::Md(chunked(64)), 2, mib(4) + (64 << 10)),
            (DeclaredKind::Md(bitmap), 2, mib(5) + (512 << 10)),
        ] {
            let word = kind.name();
            let on = |size| {
                let made = NewDevices { count, size: Bytes::new(size) };
                check_declared(&stack(vec![DeclaredKind::Ram(Ram { made }), kind.clone()]))
            };
            assert!(on(least).is_ok(), "{word}: {:?}", on(least));
            let error = on(least - 4096).unwrap_err().to_string();
            assert!(error.contains(&format!("it needs {} ", Bytes::new(least))), "{word}: {error}");
        }
    }

    #[test]
    fn a_chunk_of_md_has_1_gib_at_most_and_level_5_the_layouts_of_its_own() {
        let on = |md| {
            let made = NewDevices { count: 4, size: Bytes::from_gib(64) };
            let over = stack(vec![DeclaredKind::Ram(Ram { made }), DeclaredKind::Md(md)]);
            check_declared(&over).map_err(|error| error.to_string())
        };
        let chunked = |level, bytes| on(DeclaredMd { chunk: Some(Bytes::new(bytes)), ..md(level) });
        let gib = 1 << 30;
        assert!(chunked(0, gib).is_ok() && chunked(5, gib).is_ok());
        let refused = [chunked(0, gib + 4096).unwrap_err(), chunked(5, 2 * gib).unwrap_err()];
        assert!(refused[0].ends_with("is not a multiple of 4 KiB up to 1 GiB"), "{}", refused[0]);
        assert!(
            refused[1].ends_with("is not a power of two from 4 KiB to 1 GiB"),
            "{}",
            refused[1]
        );
        let layout =
            |level, word: &str| on(DeclaredMd { layout: Some(word.to_owned()), ..md(level) });
        for word in ["left-asymmetric", "rs", "parity-first", "parity-last"] {
            assert!(layout(5, word).is_ok() && layout(6, word).is_ok(), "{word}");
        }
        for word in ["ddf-zero-restart", "ddf-N-continue", "left-asymmetric-6", "parity-first-6"] {
            let error = layout(5, word).unwrap_err();
            assert!(error.contains("level 5 has no layout"), "{error}");
            assert!(layout(6, word).is_ok(), "{word}");
        }
    }

    fn any_array() -> impl Strategy<Value = DeclaredMd> {
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        let layout = proptest::option::of("[nfo]?[0-9]{0,3}|left-symmetric");
        let sizes = (proptest::option::of(any::<u64>()), proptest::option::of(0_u64..1 << 32));
        (0_u8..12, layout, sizes, flags, any::<u32>()).prop_map(
            |(level, layout, sizes, flags, removed)| {
                let bitmap = if flags.0 { MdBitmap::Internal } else { MdBitmap::None };
                let (chunk, bitmap_chunk) = (sizes.0.map(Bytes::new), sizes.1.map(Bytes::new));
                let removed = removed % 4;
                let md = md(level);
                DeclaredMd {
                    layout,
                    chunk,
                    bitmap,
                    bitmap_chunk,
                    ppl: flags.1,
                    journal: flags.2,
                    removed,
                    ..md
                }
            },
        )
    }

    proptest! {
        /// No declaration makes the check overflow, and what passes can be planned.
        #[test]
        fn any_declaration_is_judged(
            count in any::<u32>(), size in any::<u64>(), groups in any::<u32>(), md in any_array(),
        ) {
            let made = NewDevices { count, size: Bytes::new(size) };
            let mut declared = stack(vec![DeclaredKind::Ram(Ram { made }), DeclaredKind::Md(md), ext4()]);
            declared.layers[1].groups = groups;
            let passes = check_declared(&declared).is_ok();
            prop_assert_eq!(crate::commands(&declared, &place()).is_ok(), passes);
        }
    }

    /// Of four devices, of which the second is the smallest.
    #[test]
    fn a_layer_has_what_its_layout_leaves_of_its_devices() {
        let held = |kind: DeclaredKind| -> Vec<u64> {
            let paths = ["/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdd"].map(str::to_owned).into();
            let declared = stack(vec![DeclaredKind::Device(crate::Device { paths }), kind]);
            let size =
                |path: &str| Some(Bytes::from_mib(if path == "/dev/sdb" { 1000 } else { 2000 }));
            declared.device_sizes(size)[1].iter().map(|size| size.get() >> 20).collect()
        };
        let lvm = |layout| DeclaredKind::Lvm(Lvm { layout, chunk: None });
        let array = |level, layout: &str, journal| {
            let layout = (!layout.is_empty()).then(|| layout.to_owned());
            DeclaredKind::Md(DeclaredMd { layout, journal, ..md(level) })
        };
        let linear = crate::Dm { target: crate::DmTarget::Linear };
        for (kind, expected) in [
            (lvm(LvmLayout::Linear), vec![7000]),
            (lvm(LvmLayout::Striped), vec![7000]),
            (lvm(LvmLayout::Raid1), vec![1000]),
            (lvm(LvmLayout::Raid10), vec![3500]),
            (btrfs(BtrfsProfile::Single), vec![6300]),
            (btrfs(BtrfsProfile::Raid1), vec![3150]),
            (btrfs(BtrfsProfile::Raid10), vec![3150]),
            (array(0, "", false), vec![4000]),
            (array(1, "", false), vec![1000]),
            (array(4, "", false), vec![3000]),
            (array(5, "", false), vec![3000]),
            (array(5, "", true), vec![2000]),
            (array(6, "", false), vec![2000]),
            (array(10, "", false), vec![2000]),
            (array(10, "n3", false), vec![1333]),
            (array(10, "f4", false), vec![1000]),
            // 1 MiB before and behind the data, and of parities a log of 5 MiB.
            (raid(0), vec![4 * 998]),
            (raid(1), vec![998]),
            (raid(5), vec![3 * 993]),
            (raid(6), vec![2 * 993]),
            (raid(10), vec![2 * 998]),
            (DeclaredKind::Dm(linear), vec![2000, 1000, 2000, 2000]),
        ] {
            let label = format!("{kind:?}");
            assert_eq!(held(kind), expected, "{label}");
        }
    }

    #[test]
    fn a_pool_has_nine_tenths_of_what_its_layout_leaves_of_its_devices() {
        let held = |layout| {
            let paths = ["/dev/sdx", "/dev/sdy", "/dev/sdz"].map(str::to_owned).into();
            let zfs = Zfs { layout, properties: vec![], pool_properties: vec![] };
            let declared =
                stack(vec![DeclaredKind::Device(crate::Device { paths }), DeclaredKind::Zfs(zfs)]);
            let size =
                |path: &str| Some(Bytes::from_mib(if path == "/dev/sdy" { 1000 } else { 2000 }));
            declared.device_sizes(size)[1].clone()
        };
        for (layout, mib) in [
            (ZfsLayout::Single, 4500),
            (ZfsLayout::Mirror, 900),
            (ZfsLayout::Raidz1, 3600),
            (ZfsLayout::Raidz2, 2700),
        ] {
            assert_eq!(held(layout), [Bytes::from_mib(mib)], "{layout:?}");
        }
    }
}
