//! Machines that lack something.

use super::*;
use crate::DeclaredKind;
use crate::tests::stacks::{ext4, loops, md, stack};

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
    for declared in crate::tests::stacks::one_of_each() {
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
