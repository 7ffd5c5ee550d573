//! The exact words of durio's own commands, limits, and what proves an array.

use super::*;
use crate::tests::stacks::{
    TAG, ext4, fault, head, loops, on_loops, plan, raid, raid_by, ram, stack, types_on,
};
use crate::{DeclaredKind, DeclaredStack};

pub(super) fn examples() -> Vec<DeclaredStack> {
    let paths = ["/dev/sdx", "/dev/sdy"].map(str::to_owned).into();
    let devices = DeclaredKind::Device(crate::Device { paths });
    let mut nested = stack(vec![ram(4), raid(1), raid(0)]);
    nested.layers[1].groups = 2;
    vec![
        stack(vec![ram(4), raid(10), ext4()]),
        stack(vec![loops(2, 64), raid(1)]),
        stack(vec![ram(4), raid_by(10, RaidFront::Nbd), ext4()]),
        stack(vec![ram(2), queues(RaidFront::Ublk, 2)]),
        stack(vec![devices, raid(1), ext4()]),
        nested,
    ]
}

#[test]
fn an_array_is_made_and_served_by_durio_itself() {
    let plan = plan(vec![ram(4), raid(10)]);
    let above = plan.iter().position(|line| line.contains("ublk_drv")).unwrap();
    let folder = "/run/durio/durioabc1234-1-0";
    assert_eq!(
        plan[above..],
        [
            "modprobe ublk_drv  (unless the driver is there)".to_owned(),
            format!("make directory {folder}  | remove directory {folder}"),
            "durio raid create durioabc1234-1-0 --level 10 --chunk 16KiB --assume-clean \
             --force-signature --destroy /dev/ram0 --destroy /dev/ram1 --destroy /dev/ram2 --destroy \
             /dev/ram3 /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3"
                .to_owned(),
            format!(
                "durio raid start --front ublk --socket {folder}/array /dev/ram0 /dev/ram1 /dev/ram2 \
                 /dev/ram3 &  → {{array1-0}}  | durio raid stop --socket {folder}/array"
            ),
            "wait until {array1-0} is there".to_owned(),
        ]
    );
}

#[test]
fn a_kernel_without_ublk_gets_the_device_by_its_nbd_client() {
    let plan = plan(vec![ram(2), raid_by(1, RaidFront::Nbd)]);
    let has = |text: &str| plan.iter().any(|line| line.contains(text));
    assert!(has("modprobe nbd ") && !has("ublk_drv"), "{plan:?}");
    assert!(has(
        "start --front nbd --socket /run/durio/durioabc1234-1-0/array --attach /dev/ram0 "
    ));
}

#[test]
fn an_array_has_chunks_of_16_kib_and_one_queue_of_ublk_unless_it_is_declared_otherwise() {
    let values = SpecValues::from([("level", SpecValue::Count(1))]);
    let declared = <Raid as crate::spec::SpecField>::read(&values, "").unwrap();
    let expected = "durio RAID1, chunk 16 KiB, ublk";
    assert_eq!(DeclaredKind::Raid(declared).layer().label().join(", "), expected);
}

fn queues(front: RaidFront, queues: u32) -> DeclaredKind {
    DeclaredKind::Raid(Raid { level: DurioRaidLevel(1), chunk: CHUNK_DEFAULT, front, queues })
}

#[test]
fn a_device_has_the_queues_that_it_shall_have() {
    let plan = plan(vec![ram(2), queues(RaidFront::Ublk, 2)]);
    assert!(plan.iter().any(|line| line.contains(" --queues 2 /dev/ram0 ")), "{plan:?}");
    for (front, count, part) in [
        (RaidFront::Ublk, 0, "1 to 64 queues, not 0"),
        (RaidFront::Ublk, 65, "1 to 64 queues, not 65"),
        (RaidFront::Nbd, 2, "several queues take front = \"ublk\""),
    ] {
        let error = on_loops(2, 64, queues(front, count)).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    assert!(on_loops(2, 64, queues(RaidFront::Ublk, 64)).is_ok());
}

#[test]
fn each_level_takes_the_devices_that_it_can_use() {
    for (level, fits, not) in [
        (0, [2, 32], [1, 33]),
        (1, [2, 4], [1, 5]),
        (5, [3, 16], [2, 17]),
        (6, [4, 16], [3, 17]),
        (10, [4, 32], [2, 5]),
    ] {
        for count in fits {
            on_loops(count, 64, raid(level)).unwrap();
        }
        for count in not {
            let error = on_loops(count, 64, raid(level)).unwrap_err();
            assert!(error.contains(&format!("level {level} takes ")), "{error}");
        }
    }
    let with = |chunk| {
        let (level, front) = (DurioRaidLevel(10), RaidFront::Ublk);
        on_loops(4, 64, DeclaredKind::Raid(Raid { level, chunk, front, queues: 1 }))
    };
    assert!(with(Bytes::from_kib(4)).is_ok() && with(Bytes::from_mib(1)).is_ok());
    for chunk in [Bytes::from_kib(2), Bytes::from_kib(12), Bytes::from_mib(2)] {
        assert!(with(chunk).unwrap_err().contains("the chunk"), "{chunk}");
    }
    assert!(on_loops(2, 2, raid(1)).unwrap_err().contains("per member"));
    assert!(fault(vec![raid(1)]).contains("stands on nothing"));
}

fn superblock(slot: usize, name: &str, epoch: u8) -> Vec<u8> {
    let epoch = [epoch];
    let parts: [(usize, &[u8]); 4] = [
        (slot, MAGIC_BYTES),
        (slot + 16, b"0123456789abcdef"),
        (slot + 48, &epoch),
        (slot + 104, name.as_bytes()),
    ];
    head(&parts)
}

const MAGIC_BYTES: &[u8] = b"durioRDS";

#[test]
fn a_member_is_ours_by_its_name_and_unused_by_its_epoch() {
    let read = |bytes: &[u8]| server::superblock(&DeviceHead(bytes), TAG);
    let ours = format!("{TAG}-1-0");
    for slot in [0, 4096] {
        assert_eq!(read(&superblock(slot, &ours, 2)), Some((&["durio raid"][..], true)));
        assert_eq!(read(&superblock(slot, &ours, 3)), Some((&["durio raid"][..], false)));
        for name in ["", "data", TAG, "durioxyz1234-1-0"] {
            assert_eq!(read(&superblock(slot, name, 2)), None, "{name}");
        }
        assert_eq!(read(&superblock(slot + 512, &ours, 2)), None);
    }
    // The newer of two slots counts.
    let mut both = superblock(0, &ours, 2);
    both[4096..8192].copy_from_slice(&superblock(4096, &ours, 9)[4096..8192]);
    assert_eq!(read(&both), Some((&["durio raid"][..], false)));
    assert!(types_on("durio raid", &[(0, b"durioRDS")]).is_err());
}
