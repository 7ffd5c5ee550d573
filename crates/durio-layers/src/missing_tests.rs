//! Machines that lack something.

use super::*;
use crate::test_stacks::{ext4, loops, md, stack};

#[test]
fn what_is_missing_is_named_once_with_its_package() {
    let declared =
        stack(vec![loops(4, 64), DeclaredKind::Md(md(10)), DeclaredKind::Md(md(10)), ext4()]);
    let here = Here {
        is_root: false,
        has_program: &|name| name != "mdadm",
        has_driver: &|module| module != "raid10",
    };
    let words: Vec<String> = missing_in(&declared, &here).iter().map(Missing::to_string).collect();
    assert_eq!(
        words,
        [
            "no program mdadm (Debian package mdadm)",
            "no driver raid10 (RAID arrays)",
            "only root can build it",
        ]
    );
    let all = Here { is_root: true, has_program: &|_| true, has_driver: &|_| true };
    assert_eq!(missing_in(&declared, &all), []);
}

#[test]
fn every_kind_of_layer_needs_something() {
    let nothing = Here { is_root: true, has_program: &|_| false, has_driver: &|_| false };
    for declared in crate::test_stacks::one_of_each() {
        for layer in &declared.layers {
            let alone = DeclaredStack { name: String::new(), layers: vec![layer.clone()] };
            assert!(!missing_in(&alone, &nothing).is_empty(), "{layer:?}");
        }
    }
}

#[test]
fn programs_are_looked_for_in_the_path_and_drivers_in_the_kernel() {
    assert!(has_program("sh") && !has_program("no-such-program-of-durio"));
    assert!(!has_driver("no_such_driver_of_durio") && !can_load("no_such_driver_of_durio"));
}

#[test]
fn lockless_bitmaps_need_a_new_kernel_and_a_new_mdadm() {
    let fault = |mdadm, release| lockless_fault(mdadm, release);
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
