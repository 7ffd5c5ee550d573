//! The exact words of every program, and what undoes them.

use std::path::Path;

use durio_units::{Bytes, Nanos};

use super::*;
use crate::test_stacks::{loops, made, md, stack};
use crate::{BtrfsProfile, DeclaredMd, DmTarget, LvmLayout, MadeFilesystem, MdBitmap, ZfsLayout};

/// The plan of the layers above the first one.
fn above(kinds: Vec<DeclaredKind>) -> Vec<String> {
    let place = Place::with_id("abc1234", Path::new("/files"));
    let all = commands(&stack(kinds), &place).unwrap();
    all.iter()
        .filter(|command| command.layer > 0)
        .map(|command| command.action.to_string())
        .collect()
}

fn all(kinds: Vec<DeclaredKind>, place: &Place) -> Vec<String> {
    let text = |command: &BuildCommand| {
        let undo = command.undo.as_ref().map(|undo| format!("  | {undo}"));
        format!("{}{}", command.action, undo.unwrap_or_default())
    };
    commands(&stack(kinds), place).unwrap().iter().map(text).collect()
}

fn place() -> Place {
    Place::with_id("abc1234", Path::new("/files"))
}

fn ram(count: u32) -> DeclaredKind {
    DeclaredKind::Ram(made(count, 512))
}

fn mdadm(count: u32, md: DeclaredMd) -> String {
    let plan = above(vec![ram(count), DeclaredKind::Md(md)]);
    plan.into_iter().find(|line| line.starts_with("mdadm --create")).unwrap()
}

#[test]
fn a_filesystem_in_a_file() {
    let options = MadeFilesystem {
        mkfs: vec!["-b".into(), "4096".into(), "-E".into(), "stride=4".into()],
        mount: vec!["noatime".into(), "data=journal".into()],
    };
    assert_eq!(
        all(vec![loops(1, 64), DeclaredKind::Ext4(options)], &place()),
        [
            "modprobe loop  (unless the driver is there)",
            "make directory /files/durioabc1234  | remove directory /files/durioabc1234",
            "make file /files/durioabc1234/loop0 of 64 MiB  | remove file /files/durioabc1234/loop0",
            "losetup --find --show --direct-io=on /files/durioabc1234/loop0  → {loop0}  \
             | losetup --detach the loop device of /files/durioabc1234/loop0",
            "wait until {loop0} is there",
            "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard,stride=4 -b 4096 \
             -U d8e07156-9f07-b4c4-9422-1e46fbea64d9 -L durioabc1234 {loop0}",
            "make directory /run/durio/durioabc1234  | remove directory /run/durio/durioabc1234",
            "mount -t ext4 -o noatime,data=journal {loop0} /run/durio/durioabc1234  \
             | umount /run/durio/durioabc1234",
            "check that ext4 is mounted at /run/durio/durioabc1234",
        ]
    );
}

#[test]
fn disks_in_memory() {
    assert_eq!(
        all(vec![DeclaredKind::Zram(made(1, 64))], &place()),
        [
            "modprobe zram num_devices=0  (unless the driver is there)",
            "cat /sys/class/zram-control/hot_add  → {zram0}  \
             | write {zram0} to /sys/class/zram-control/hot_remove",
            "write 67108864 to /sys/block/zram{zram0}/disksize",
            "wait until /dev/zram{zram0} is there",
        ]
    );
    assert_eq!(
        all(vec![ram(2)], &place())[..2],
        [
            "check that no RAM disks of brd are there",
            "modprobe brd rd_nr=2 rd_size=524288  | rmmod brd",
        ]
    );
    let null = DeclaredKind::Null {
        made: made(1, 64),
        completion: Some(Nanos::from_micros(20)),
        queue_depth: Some(4),
    };
    assert_eq!(
        all(vec![null], &place())[3..],
        [
            "make directory /sys/kernel/config/nullb/durioabc1234n0  | write 0 to \
             /sys/kernel/config/nullb/durioabc1234n0/power, remove directory \
             /sys/kernel/config/nullb/durioabc1234n0",
            "write 1 to /sys/kernel/config/nullb/durioabc1234n0/memory_backed",
            "write 64 to /sys/kernel/config/nullb/durioabc1234n0/size",
            "write 2 to /sys/kernel/config/nullb/durioabc1234n0/irqmode",
            "write 20000 to /sys/kernel/config/nullb/durioabc1234n0/completion_nsec",
            "write 1 to /sys/kernel/config/nullb/durioabc1234n0/submit_queues",
            "write 4 to /sys/kernel/config/nullb/durioabc1234n0/hw_queue_depth",
            "write 1 to /sys/kernel/config/nullb/durioabc1234n0/power",
            "wait until /dev/durioabc1234n0 is there",
        ]
    );
}

#[test]
fn an_existing_device_is_looked_at_before_anything_is_wiped_and_labelled_as_ours() {
    let mut place = place();
    place.destroy = vec!["/dev/sdx".into()];
    let paths = vec!["/dev/sdx".into(), "/dev/sdy".into()];
    let btrfs =
        DeclaredKind::Btrfs { profile: BtrfsProfile::Raid1, options: MadeFilesystem::default() };
    let plan = commands(&stack(vec![DeclaredKind::Device { paths }, btrfs]), &place).unwrap();
    let unused = |device: &str, destroy| {
        Action::Check(Check::Unused { device: device.into(), destroy, force: false })
    };
    assert_eq!(plan[0].action, unused("/dev/sdx", true));
    assert_eq!(plan[1].action, unused("/dev/sdy", false));
    let words: Vec<String> = plan[2..5].iter().map(|command| command.action.to_string()).collect();
    assert_eq!(
        words,
        [
            "wipefs --all --quiet /dev/sdx",
            "wipefs --all --quiet /dev/sdy",
            "mkfs.btrfs -q -f -K -d raid1 -m raid1 -U d8e07156-9f07-b4c4-9422-1e46fbea64d9 \
             -L durioabc1234 /dev/sdx /dev/sdy",
        ]
    );
    let wipe = Undo::Wipe { device: "/dev/sdx".into(), tag: "durioabc1234".into() };
    assert_eq!(plan[2].undo, Some(wipe));
}

/// The identifier is the same for the same name, and another for every other one.
#[test]
fn arrays_are_made_with_every_word_that_could_otherwise_be_asked_for() {
    let common = "mdadm --create /dev/md/durioabc1234-1-0 --run --quiet --metadata=1.2 \
                  --homehost=any --name=durioabc1234-1-0 --uuid=";
    let words = |md, count| {
        let line = mdadm(count, md);
        let rest = line.strip_prefix(common).expect("the common words").to_owned();
        assert_eq!(rest.split(' ').next().unwrap().len(), 35, "{rest}");
        rest[36..].to_owned()
    };
    let chunk = |kib| Some(Bytes::from_kib(kib));
    let flagship = DeclaredMd { layout: Some("n2".into()), chunk: chunk(16), ..md(10) };
    assert_eq!(
        words(flagship.clone(), 4),
        "--level=10 --layout=n2 --chunk=16 --bitmap=none --assume-clean --raid-devices=4 \
         /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3"
    );
    let bitmap = DeclaredMd {
        bitmap: MdBitmap::Internal,
        bitmap_chunk: chunk(65536),
        initial_sync: true,
        ..md(1)
    };
    assert_eq!(
        words(bitmap, 2),
        "--level=1 --bitmap=internal --bitmap-chunk=65536 --raid-devices=2 /dev/ram0 /dev/ram1"
    );
    assert_eq!(words(md(0), 2), "--level=0 --raid-devices=2 /dev/ram0 /dev/ram1");
    let ppl = DeclaredMd { ppl: true, chunk: chunk(4), ..md(5) };
    assert_eq!(
        words(ppl, 3),
        "--level=5 --chunk=4 --consistency-policy=ppl --assume-clean --raid-devices=3 /dev/ram0 \
         /dev/ram1 /dev/ram2"
    );
    assert_eq!(
        words(DeclaredMd { journal: true, ..md(5) }, 4),
        "--level=5 --assume-clean --raid-devices=3 --write-journal /dev/ram3 /dev/ram0 /dev/ram1 \
         /dev/ram2"
    );
    let lockless = DeclaredMd { bitmap: MdBitmap::Lockless, ..md(1) };
    assert!(words(lockless, 2).starts_with("--level=1 --bitmap=lockless --assume-clean"));
}

#[test]
fn removed_members_are_failed_and_removed_from_the_last_and_then_counted() {
    let plan = above(vec![ram(4), DeclaredKind::Md(DeclaredMd { removed: 2, ..md(6) })]);
    let device = "/dev/md/durioabc1234-1-0";
    assert_eq!(
        plan[4..],
        [
            format!("mdadm {device} --quiet --fail /dev/ram3"),
            format!("mdadm {device} --quiet --remove /dev/ram3"),
            format!("mdadm {device} --quiet --fail /dev/ram2"),
            format!("mdadm {device} --quiet --remove /dev/ram2"),
            format!("check that {device} runs as raid6 without 2 of its members"),
        ]
    );
}

#[test]
fn a_sync_is_waited_for_before_the_members_are_counted() {
    let plan = above(vec![ram(3), DeclaredKind::Md(DeclaredMd { initial_sync: true, ..md(5) })]);
    let tail: Vec<&str> = plan.iter().rev().take(2).map(String::as_str).collect();
    let device = "/dev/md/durioabc1234-1-0";
    assert_eq!(tail[1], format!("wait until {device} is in sync"));
    assert_eq!(tail[0], format!("check that {device} runs as raid5 with all members"));
}

#[test]
fn nested_arrays_have_names_of_their_own() {
    let mut nested = stack(vec![ram(4), DeclaredKind::Md(md(0)), DeclaredKind::Md(md(1))]);
    nested.layers[1].groups = 2;
    let plan = commands(&nested, &place()).unwrap();
    let creates: Vec<String> = plan
        .iter()
        .map(|command| command.action.to_string())
        .filter(|line| line.starts_with("mdadm --create"))
        .collect();
    let ends = [
        "--raid-devices=2 /dev/ram0 /dev/ram1",
        "--raid-devices=2 /dev/ram2 /dev/ram3",
        "--raid-devices=2 /dev/md/durioabc1234-1-0 /dev/md/durioabc1234-1-1",
    ];
    assert_eq!(creates.len(), 3);
    for (line, end) in creates.iter().zip(ends) {
        assert!(line.ends_with(end), "{line}");
    }
    let uuid = |line: &String| line.split("--uuid=").nth(1).unwrap()[..35].to_owned();
    let uuids: std::collections::BTreeSet<String> = creates.iter().map(uuid).collect();
    assert_eq!(uuids.len(), 3);
}

#[test]
fn lvm_sees_only_the_devices_of_its_layer() {
    let layer = DeclaredKind::Lvm { layout: LvmLayout::Raid10, chunk: Some(Bytes::from_kib(64)) };
    let plan = commands(&stack(vec![ram(4), layer]), &place()).unwrap();
    let lvm: Vec<Vec<String>> = plan
        .iter()
        .filter_map(|command| match &command.action {
            Action::Run { program, arguments, .. } if program == "lvm" => Some(arguments.clone()),
            _ => None,
        })
        .collect();
    for words in &lvm {
        assert_eq!(words[1], "--config");
        let filter = r#"filter=["a|^/dev/ram0$|","a|^/dev/ram1$|","a|^/dev/ram2$|","a|^/dev/ram3$|","r|.*|"]"#;
        assert!(words[2].contains(filter) && words[2].contains("use_devicesfile=0"), "{words:?}");
        assert!(words[2].contains("backup=0 archive=0"));
    }
    let tails: Vec<String> = lvm.iter().map(|words| words[5..].join(" ")).collect();
    assert_eq!(
        tails,
        [
            "--uuid 00e0f4-a51d-8265-7c01-065d-3fcb-eb126c --norestorefile /dev/ram0",
            "--uuid 144f21-ae5e-012e-0563-81ef-04f9-7e946f --norestorefile /dev/ram1",
            "--uuid dbf195-c314-68e6-7fd1-2e65-7766-a0b6ee --norestorefile /dev/ram2",
            "--uuid 4a0322-0b9e-e7ae-20ad-b228-c45a-ce4472 --norestorefile /dev/ram3",
            "durioabc1234v1g0 /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3",
            "--name data --extents 100%FREE --type raid10 --nosync --mirrors 1 --stripes 2 \
             --stripesize 64k --wipesignatures n durioabc1234v1g0",
        ]
    );
}

#[test]
fn targets_of_the_device_mapper() {
    let table = |target| above(vec![ram(1), DeclaredKind::Dm { target }]).join("\n");
    let head = "dmsetup create durioabc1234-1-0 --verifyudev --uuid DURIO-durioabc1234-1-0 --table";
    let linear = table(DmTarget::Linear);
    assert!(linear.contains("blockdev --getsz /dev/ram0  → {sectors1-0}"), "{linear}");
    assert!(linear.contains(&format!("{head} '0 {{sectors1-0}} linear /dev/ram0 0'")), "{linear}");
    let delay = table(DmTarget::Delay { delay: Nanos::from_millis(5) });
    assert!(delay.contains("delay /dev/ram0 0 5'"), "{delay}");
    let flakey = table(DmTarget::Flakey { up_seconds: 9, down_seconds: 2 });
    assert!(flakey.contains("flakey /dev/ram0 0 9 2'"), "{flakey}");
    let crypt = table(DmTarget::Crypt);
    let words = "cryptsetup open --batch-mode --type plain --cipher aes-xts-plain64 --key-size 512 \
                 --key-file /dev/urandom /dev/ram0 durioabc1234-1-0";
    assert!(crypt.contains(words), "{crypt}");
}

#[test]
fn pools_of_zfs() {
    let zfs = DeclaredKind::Zfs {
        layout: ZfsLayout::Raidz1,
        properties: vec!["recordsize=4k".into()],
        pool_properties: vec!["ashift=12".into()],
    };
    let plan = above(vec![ram(3), zfs]);
    assert_eq!(
        plan[2],
        "zpool create -f -o cachefile=none -o ashift=12 -O \
         mountpoint=/run/durio/durioabc1234 -O recordsize=4k durioabc1234 raidz1 /dev/ram0 \
         /dev/ram1 /dev/ram2"
    );
}

#[test]
fn every_name_begins_with_the_tag_and_every_making_step_has_its_undo() {
    for declared in crate::test_stacks::one_of_each() {
        for command in commands(&declared, &place()).unwrap() {
            let makes = match &command.action {
                Action::MakeDirectory { path } | Action::MakeFile { path, .. } => {
                    assert!(path.contains("/durioabc1234"), "{path}");
                    true
                }
                Action::Run { program, arguments, .. } => {
                    let first = arguments.first().map(String::as_str).unwrap_or_default();
                    let makers = ["--create", "create", "vgcreate", "open", "brd", "-t", "--find"];
                    makers.contains(&first) && program != "mkfs.ext4"
                }
                _ => false,
            };
            assert!(!makes || command.undo.is_some(), "{}", command.action);
        }
    }
}

#[test]
fn a_dot_in_a_device_s_path_lets_lvm_see_no_other_device() {
    let paths = vec!["/dev/disk/by-id/nvme.1".to_owned()];
    let lvm = DeclaredKind::Lvm { layout: LvmLayout::Linear, chunk: None };
    let plan = above(vec![DeclaredKind::Device { paths }, lvm]).join("\n");
    assert!(plan.contains("\"a|^/dev/disk/by-id/nvme[.]1$|\""), "{plan}");
}

#[test]
fn an_external_bitmap_is_made_in_a_folder_of_the_build() {
    let md = DeclaredMd { bitmap: MdBitmap::External("/srv/bitmap".into()), ..md(1) };
    let plan = all(vec![ram(2), DeclaredKind::Md(md)], &place());
    let make = "make directory /srv/durioabc1234-1-0  | remove directory /srv/durioabc1234-1-0";
    assert!(plan.iter().any(|line| line == make), "{plan:?}");
    let create = plan.iter().find(|line| line.starts_with("mdadm --create")).unwrap();
    assert!(create.contains("--bitmap=/srv/durioabc1234-1-0/bitmap "), "{create}");
    assert!(create.ends_with("remove file /srv/durioabc1234-1-0/bitmap"), "{create}");
}
