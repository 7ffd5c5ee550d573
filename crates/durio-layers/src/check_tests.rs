//! Declarations that are refused, and those at the edge that are not.

use durio_units::Nanos;
use proptest::prelude::*;

use super::*;
use crate::test_stacks::{ext4, loops, made, md, one_of_each, stack};
use crate::{DeclaredMd, MadeFilesystem, MdBitmap};

fn fault(kinds: Vec<DeclaredKind>) -> String {
    check_declared(&stack(kinds)).unwrap_err().to_string()
}

fn on_loops(count: u32, mib: u64, kind: DeclaredKind) -> Result<(), String> {
    check_declared(&stack(vec![loops(count, mib), kind])).map_err(|error| error.to_string())
}

fn array(count: u32, md: DeclaredMd) -> Result<(), String> {
    on_loops(count, 64, DeclaredKind::Md(md))
}

fn xfs() -> DeclaredKind {
    DeclaredKind::Xfs(MadeFilesystem::default())
}

fn btrfs(profile: BtrfsProfile) -> DeclaredKind {
    DeclaredKind::Btrfs { profile, options: MadeFilesystem::default() }
}

#[test]
fn every_kind_of_stack_that_can_be_built_passes() {
    for declared in one_of_each() {
        assert!(check_declared(&declared).is_ok(), "{declared:?}");
    }
}

#[test]
fn the_order_is_source_devices_filesystem() {
    assert!(fault(vec![]).contains("no layers"));
    assert_eq!(
        fault(vec![ext4()]),
        "stack 'test', layer 1 (ext4): it stands on nothing; put ram, null, loop, zram or device first"
    );
    assert!(fault(vec![loops(1, 64), loops(1, 64)]).contains("can only be the first layer"));
    let above = fault(vec![loops(2, 64), btrfs(BtrfsProfile::Single), DeclaredKind::Md(md(1))]);
    assert!(above.contains("layer 3 (md): nothing can stand on a filesystem"), "{above}");
    assert!(fault(vec![loops(1, 64); 20]).contains("more than 16 layers"));
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
    assert!(error.contains("level 0 needs 2 devices or more, and has 1"), "{error}");
}

#[test]
fn an_array_has_the_members_that_its_level_needs() {
    for (level, least) in [(0, 2), (1, 2), (4, 2), (5, 2), (6, 4), (10, 2)] {
        assert!(array(least, md(level)).is_ok(), "level {level}");
        let error = array(least - 1, md(level)).unwrap_err();
        assert!(error.contains(&format!("needs {least} devices")), "{error}");
    }
    assert!(array(4, md(7)).unwrap_err().contains("no level 7"));
    let journal = |level| DeclaredMd { journal: true, ..md(level) };
    assert!(array(5, journal(6)).is_ok());
    assert!(array(4, journal(6)).unwrap_err().contains("beside the journal, and has 3"));
    assert!(array(4, journal(10)).unwrap_err().contains("no journal device"));
}

#[test]
fn a_layout_belongs_to_its_level_and_its_copies_fit() {
    let with = |level, layout: &str| DeclaredMd { layout: Some(layout.into()), ..md(level) };
    for layout in ["n2", "f2", "o2", "n3", "o4"] {
        assert!(array(4, with(10, layout)).is_ok(), "{layout}");
    }
    for layout in ["", "n", "2", "x2", "n1", "n-2", "n99999999999", "é2", "n5"] {
        assert!(array(4, with(10, layout)).is_err(), "{layout}");
    }
    assert!(array(4, with(10, "f5")).unwrap_err().contains("2 to 4 fit 4 devices"));
    assert!(array(4, with(5, "left-symmetric")).is_ok() && array(4, with(5, "n2")).is_err());
    assert!(
        array(4, with(6, "ddf-N-restart")).is_ok() && array(4, with(5, "ddf-N-restart")).is_err()
    );
    assert!(array(2, with(1, "n2")).is_err() && array(2, with(0, "original")).is_ok());
}

#[test]
fn a_chunk_is_a_power_of_two_from_a_page_up_except_with_level_0() {
    let with = |level, chunk| DeclaredMd { chunk: Some(Bytes::new(chunk)), ..md(level) };
    for level in [4, 5, 6, 10] {
        assert!(array(4, with(level, 4096)).is_ok() && array(4, with(level, 65536)).is_ok());
        for chunk in [0, 512, 2048, 12288, 4097, 1 << 40] {
            assert!(array(4, with(level, chunk)).is_err(), "{chunk} with {level}");
        }
    }
    assert!(array(4, with(0, 12288)).is_ok() && array(4, with(0, 5000)).is_err());
    assert!(array(4, with(0, 0)).is_err() && array(2, with(1, 65536)).is_err());
}

#[test]
fn there_is_one_consistency_policy_and_the_level_has_it() {
    let bitmap = |level| DeclaredMd { bitmap: MdBitmap::Internal, ..md(level) };
    assert!(array(4, bitmap(1)).is_ok() && array(4, bitmap(0)).unwrap_err().contains("no bitmap"));
    let ppl = |level| DeclaredMd { ppl: true, ..md(level) };
    assert!(array(4, ppl(5)).is_ok() && array(4, ppl(6)).is_err());
    assert!(array(4, DeclaredMd { ppl: true, ..bitmap(5) }).unwrap_err().contains("choose one"));
    assert!(array(4, DeclaredMd { journal: true, ..bitmap(5) }).is_err());
    let external = MdBitmap::External("bitmap".into());
    assert!(array(4, DeclaredMd { bitmap: external, ..md(1) }).unwrap_err().contains("absolute"));
    let chunk = Some(Bytes::from_mib(1));
    assert!(array(4, DeclaredMd { bitmap_chunk: chunk, ..md(1) }).is_err());
    assert!(array(4, DeclaredMd { bitmap_chunk: chunk, ..bitmap(1) }).is_ok());
}

#[test]
fn no_more_members_are_removed_than_the_level_survives() {
    let with = |level, removed| DeclaredMd { removed, ..md(level) };
    for (level, survives) in [(0, 0), (1, 3), (4, 1), (5, 1), (6, 2), (10, 1)] {
        assert!(array(4, with(level, survives)).is_ok(), "level {level}");
        let error = array(4, with(level, survives + 1)).unwrap_err();
        assert!(error.contains(&format!("survives {survives} removed")), "{error}");
    }
    let three = DeclaredMd { layout: Some("n3".into()), ..with(10, 2) };
    assert!(array(6, three).is_ok());
}

#[test]
fn a_filesystem_smaller_than_its_minimum_is_refused() {
    assert!(on_loops(1, 300, xfs()).is_ok());
    let error = on_loops(1, 299, xfs()).unwrap_err();
    assert!(error.contains("needs 300 MiB") && error.contains("299 MiB"), "{error}");
    assert!(on_loops(1, 45, btrfs(BtrfsProfile::Single)).is_ok());
    assert!(on_loops(1, 44, btrfs(BtrfsProfile::Single)).is_err());
    assert!(on_loops(2, 125, btrfs(BtrfsProfile::Raid1)).is_ok());
    assert!(on_loops(2, 124, btrfs(BtrfsProfile::Raid1)).is_err());
    assert!(on_loops(1, 2, ext4()).is_ok() && on_loops(1, 1, ext4()).is_err());
    let zfs = |layout| DeclaredKind::Zfs { layout, properties: vec![], pool_properties: vec![] };
    assert!(on_loops(2, 64, zfs(ZfsLayout::Mirror)).is_ok());
    assert!(on_loops(2, 63, zfs(ZfsLayout::Mirror)).is_err());
    assert!(on_loops(2, 64, zfs(ZfsLayout::Raidz2)).is_err());
}

/// Two disks of 200 MiB joined are enough, two copies of one are not.
#[test]
fn sizes_are_followed_through_the_layers() {
    let over = |kind| check_declared(&stack(vec![loops(2, 200), kind, xfs()]));
    assert!(over(DeclaredKind::Md(md(0))).is_ok());
    assert!(over(DeclaredKind::Md(md(1))).is_err());
    assert!(over(DeclaredKind::Md(md(10))).is_err());
    assert!(over(DeclaredKind::Lvm { layout: LvmLayout::Linear, chunk: None }).is_ok());
    assert!(over(DeclaredKind::Lvm { layout: LvmLayout::Raid1, chunk: None }).is_err());
    let existing = DeclaredKind::Device { paths: vec!["/dev/sdx".into()] };
    assert!(check_declared(&stack(vec![existing, xfs()])).is_ok(), "its size is not known yet");
}

#[test]
fn one_filesystem_stands_on_one_device_unless_it_joins_them_itself() {
    let error = on_loops(2, 300, xfs()).unwrap_err();
    assert!(error.contains("join them with md or lvm"), "{error}");
    assert!(on_loops(3, 300, btrfs(BtrfsProfile::Single)).is_ok());
    assert!(on_loops(1, 300, btrfs(BtrfsProfile::Raid10)).is_err());
}

#[test]
fn logical_volumes_need_what_lvm_needs() {
    let lvm = |count, layout, kib: Option<u64>| {
        let chunk = kib.map(Bytes::from_kib);
        on_loops(count, 64, DeclaredKind::Lvm { layout, chunk })
    };
    assert!(lvm(1, LvmLayout::Linear, None).is_ok());
    assert!(lvm(1, LvmLayout::Linear, Some(64)).is_err());
    assert!(lvm(2, LvmLayout::Striped, Some(64)).is_ok());
    assert!(lvm(2, LvmLayout::Striped, Some(65)).is_err());
    assert!(lvm(2, LvmLayout::Striped, Some(8192)).is_err());
    assert!(lvm(1, LvmLayout::Raid1, None).is_err());
    assert!(lvm(5, LvmLayout::Raid10, None).unwrap_err().contains("even number"));
}

#[test]
fn sources_make_a_sensible_number_of_whole_devices() {
    for (count, size) in [(0, 1 << 20), (257, 1 << 20), (u32::MAX, 1 << 20), (1, 0), (1, 1000)] {
        let made = Made { count, size: Bytes::new(size) };
        assert!(check_declared(&stack(vec![DeclaredKind::Ram(made)])).is_err(), "{made:?}");
    }
    let odd = Made { count: 1, size: Bytes::from_kib(1500) };
    let null = |made, queue_depth| {
        check_declared(&stack(vec![DeclaredKind::Null { made, completion: None, queue_depth }]))
    };
    assert!(null(odd, None).is_err() && null(made(1, 64), None).is_ok());
    for (depth, fits) in [(0, false), (1, true), (10_240, true), (10_241, false)] {
        assert_eq!(null(made(1, 64), Some(depth)).is_ok(), fits, "{depth}");
    }
    let device = |paths: &[&str]| {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        fault(vec![DeclaredKind::Device { paths }])
    };
    assert!(device(&[]).contains("names 0 devices"));
    assert!(device(&["sda"]).contains("begin it with /dev/"));
    assert!(device(&["/dev/sda", "/dev/sda"]).contains("named twice"));
    let relative = DeclaredKind::Loop { made: made(1, 64), directory: Some("files".into()) };
    assert!(fault(vec![relative]).contains("is not an absolute path"));
}

#[test]
fn targets_of_the_device_mapper_stand_on_each_device() {
    let delay = |nanos| DeclaredKind::Dm { target: DmTarget::Delay { delay: Nanos::new(nanos) } };
    assert!(on_loops(4, 64, delay(1_000_000)).is_ok());
    for nanos in [0, 999_999, 1_500_000] {
        assert!(on_loops(1, 64, delay(nanos)).unwrap_err().contains("whole milliseconds"));
    }
    let flakey = DmTarget::Flakey { up_seconds: 0, down_seconds: 1 };
    assert!(on_loops(1, 64, DeclaredKind::Dm { target: flakey }).is_err());
    let mut groups = stack(vec![loops(4, 64), delay(1_000_000)]);
    groups.layers[1].groups = 2;
    assert!(check_declared(&groups).is_err());
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
        let made = Made { count, size: Bytes::new(size) };
        let mut declared = stack(vec![DeclaredKind::Ram(made), DeclaredKind::Md(md), ext4()]);
        declared.layers[1].groups = groups;
        let place = crate::Place::with_id("abc1234", std::path::Path::new("/files"));
        let passes = check_declared(&declared).is_ok();
        prop_assert_eq!(crate::commands(&declared, &place).is_ok(), passes);
    }
}

#[test]
fn the_path_of_a_device_means_nothing_else_in_any_command() {
    let device = |path: &str| {
        let paths = vec![path.to_owned()];
        check_declared(&stack(vec![DeclaredKind::Device { paths }])).map_err(|e| e.to_string())
    };
    device("/dev/disk/by-id/nvme-eui.0025_1").unwrap();
    for path in
        ["/home/x", "/dev/a b", "/dev/a,b", "/dev/../x", "/dev/{loop0}", "/dev/a|b", "/dev/\u{1b}"]
    {
        let error = device(path).unwrap_err();
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn a_stack_that_is_no_specs_is_held_to_the_words_of_specs() {
    let made = MadeFilesystem { mkfs: vec!["/dev/loop7".into()], mount: Vec::new() };
    let btrfs = DeclaredKind::Btrfs { profile: BtrfsProfile::Single, options: made };
    let error = check_declared(&stack(vec![loops(1, 64), btrfs])).unwrap_err().to_string();
    assert!(error.contains("mkfs.btrfs is not given '/dev/loop7'"), "{error}");
}
