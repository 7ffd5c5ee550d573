//! The exact words of mdadm, and what proves an array.

use super::*;
use crate::tests::stacks::{TAG, ext4, md, place, plan, plan_above, ram, stack, types_on};
use crate::{DeclaredKind, DeclaredStack, commands};

pub(super) fn examples() -> Vec<DeclaredStack> {
    let external = MdBitmap::External("/srv/bitmap".into());
    let arrays = [
        DeclaredMd { removed: 1, ..md(10) },
        DeclaredMd { bitmap: external, ..md(1) },
        DeclaredMd { journal: true, ..md(5) },
    ];
    let mut stacks: Vec<DeclaredStack> =
        arrays.map(|array| stack(vec![ram(4), DeclaredKind::Md(array), ext4()])).into();
    let mut nested = stack(vec![ram(4), DeclaredKind::Md(md(0)), DeclaredKind::Md(md(1)), ext4()]);
    nested.layers[1].groups = 2;
    stacks.push(nested);
    stacks
}

fn mdadm(count: u32, md: DeclaredMd) -> String {
    let plan = plan_above(vec![ram(count), DeclaredKind::Md(md)]);
    plan.into_iter().find(|line| line.starts_with("mdadm --create")).unwrap()
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
    let plan = plan_above(vec![ram(4), DeclaredKind::Md(DeclaredMd { removed: 2, ..md(6) })]);
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
    let plan =
        plan_above(vec![ram(3), DeclaredKind::Md(DeclaredMd { initial_sync: true, ..md(5) })]);
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
fn an_external_bitmap_is_made_in_a_folder_of_the_build() {
    let md = DeclaredMd { bitmap: MdBitmap::External("/srv/bitmap".into()), ..md(1) };
    let plan = plan(vec![ram(2), DeclaredKind::Md(md)]);
    let make = "make directory /srv/durioabc1234-1-0  | remove directory /srv/durioabc1234-1-0";
    assert!(plan.iter().any(|line| line == make), "{plan:?}");
    let create = plan.iter().find(|line| line.starts_with("mdadm --create")).unwrap();
    assert!(create.contains("--bitmap=/srv/durioabc1234-1-0/bitmap "), "{create}");
    assert!(create.ends_with("remove file /srv/durioabc1234-1-0/bitmap"), "{create}");
}

#[test]
fn lockless_bitmaps_need_a_new_kernel_and_a_new_mdadm() {
    let fault = |mdadm, release| array::lockless_fault(mdadm, release);
    let old = "mdadm - v4.2 - 2021-12-30 - Debian 4.2-5";
    assert_eq!(
        fault(old, "6.12.95+deb12-amd64").unwrap(),
        "lockless bitmaps need Linux 6.18, and this is 6.12"
    );
    assert_eq!(fault(old, "6.18.44").unwrap(), "lockless bitmaps need mdadm 4.6, and this is 4.2");
    assert_eq!(fault("mdadm - v4.6 - 2026-03-01", "6.18.0-rc1"), None);
    assert_eq!(fault("mdadm - v5.0", "7.0.1"), None);
    assert!(fault("", "").unwrap().contains("unknown"));
}

#[test]
fn a_member_is_ours_by_the_name_and_identifier_of_its_array() {
    for host in ["", "any:"] {
        let name = format!("{host}{TAG}-1-0");
        let (_, array) = md_uuid(&format!("{TAG}-1-0"));
        types_on("md 1.2", &[(4096 + 32, name.as_bytes()), (4096 + 16, &array)]).unwrap();
    }
    assert!(types_on("md 1.2", &[(4096 + 32, b"durioabc1234-1-0")]).is_err());
}
