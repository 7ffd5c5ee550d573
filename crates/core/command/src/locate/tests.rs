//! Uses as the guard gets them, uses that pass by themselves, and the words of a refusal.

use durio_observe::MountUse;

use super::*;

const NAMED: WriteReason = WriteReason::Named { force_signature: true };

fn on(device: &str, name: &str, offset: u64) -> Signature {
    Signature { device: device.to_owned(), name: name.to_owned(), offset: Bytes::new(offset) }
}

fn signatures(reason: WriteReason, found: &[Signature], kind: TargetType) -> String {
    let signatures = found.to_vec();
    let found = DeviceUse { device: "sdb".into(), signatures, ..DeviceUse::default() };
    usage_for(reason, &found, kind).signatures.join(",")
}

#[test]
fn of_a_member_that_counts_which_is_before_its_data() {
    let device = TargetType::BlockDevice(Bytes::new(1 << 30));
    let rows = [
        (vec![], ""),
        (vec![on("sdb", MEMBER_SIGNATURE, 4096)], "durio raid"),
        (vec![on("sdb", MEMBER_SIGNATURE, (1 << 30) - 4096)], "durio raid"),
        (vec![on("sdb", "ext4", 1024), on("sdb", MEMBER_SIGNATURE, 4096)], "ext4,durio raid"),
        (vec![on("sdb", "xfs", (1 << 20) - 1)], "xfs"),
        // What the array holds, and what a partition of it holds, is the array's.
        (vec![on("sdb", "xfs", 1 << 20)], ""),
        (vec![on("sdb1", "xfs", 0), on("sdb", MEMBER_SIGNATURE, 4096)], "durio raid"),
    ];
    for (found, expected) in rows {
        assert_eq!(signatures(WriteReason::Member, &found, device), expected, "{found:?}");
    }
}

#[test]
fn of_a_named_device_everything_counts_and_of_a_file_a_member_alone() {
    let size = Bytes::new(1 << 30);
    let found =
        [on("sdb", "gpt", 512), on("sdb1", "ext4", 1080), on("sdb", MEMBER_SIGNATURE, 4096)];
    let device = TargetType::BlockDevice(size);
    assert_eq!(signatures(NAMED, &found, device), "gpt,ext4,durio raid");
    assert_eq!(signatures(WriteReason::Built, &found, device), "gpt,ext4,durio raid");
    assert_eq!(signatures(NAMED, &found, TargetType::File(size)), "durio raid");
    assert_eq!(signatures(NAMED, &found[..2], TargetType::File(size)), "");
}

#[test]
fn only_what_passes_is_waited_for() {
    let free = DeviceUse::default();
    let writer = || vec!["postgres (process 8)".to_owned()];
    let written = DeviceUse { writers: writer(), ..DeviceUse::default() };
    let swap = DeviceUse { swaps: vec!["sdb".into()], ..DeviceUse::default() };
    let mount = MountUse { device: "sdb".into(), mount_point: "/d".into() };
    let mounted = DeviceUse { mounts: vec![mount], writers: writer(), ..DeviceUse::default() };
    let in_use = || GuardRefusal::InUse(vec!["somebody".to_owned()]);
    let signed = || GuardRefusal::Signatures(vec!["ext4".to_owned()]);
    // The refusal, the use, whether a named target is waited for, whether a member is.
    let rows = [
        (in_use(), &free, true, true),
        (in_use(), &written, true, false),
        (in_use(), &swap, false, false),
        (in_use(), &mounted, false, false),
        (GuardRefusal::Claimed, &free, true, true),
        (GuardRefusal::Written, &free, true, true),
        (GuardRefusal::Locked, &free, false, true),
        (GuardRefusal::NoMember, &free, false, false),
        (signed(), &free, false, false),
    ];
    for (refusal, found, named, member) in rows {
        assert_eq!(may_pass(&refusal, found, NAMED), named, "{refusal}");
        assert_eq!(may_pass(&refusal, found, WriteReason::Member), member, "{refusal}");
    }
}

#[test]
fn each_refusal_has_its_words_and_its_way_out() {
    let signed = || GuardRefusal::Signatures(vec!["ext4".to_owned(), "gpt".to_owned()]);
    let rows = [
        (signed(), false, "'/d/x' holds ext4, gpt", "--force-signature"),
        (
            signed(),
            true,
            "'/d/x' is a member, but was partly overwritten: ext4, gpt",
            "leave it out",
        ),
        (GuardRefusal::NoMember, true, "'/d/x' is not a member of a durio RAID", ""),
        (
            GuardRefusal::Locked,
            false,
            "'/d/x' is locked by another durio or another program",
            "wait until",
        ),
        (
            GuardRefusal::InUse(vec!["a is swap".to_owned(), "b is c".to_owned()]),
            false,
            "'/d/x' is in use, so durio does not write to it: a is swap; b is c",
            "",
        ),
        (
            GuardRefusal::Claimed,
            false,
            "does not write to it: another process or filesystem holds it exclusively",
            "",
        ),
    ];
    for (refusal, is_member, text, hint) in rows {
        let error = refused(Path::new("/d/x"), refusal, is_member);
        assert_eq!(error.kind, CommandErrorKind::CannotMeasure);
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.hints.len(), usize::from(!hint.is_empty()), "{error}");
        assert!(error.hints.concat().contains(hint), "{:?}", error.hints);
    }
}

#[test]
fn a_place_that_is_not_there_is_named_by_its_whole_path() {
    let names = |named: &str, path: &str| names_absent(Path::new(named), Path::new(path));
    let here = std::env::current_dir().unwrap();
    assert!(names("x/y", "x/y") && names("./x", "x"));
    assert!(names_absent(&here.join("x"), Path::new("x")));
    assert!(!names("x", "y/x") && !names("x", "xy") && !names("/x", "x/"));
}
