//! What holds for every kind: each is named, labelled, planned, checked, needs something, and is
//! read again as it was written.
//!
//! That each is built, undone and proven at any step: the tests of the builder, over the same list.

use std::collections::BTreeSet;

use super::*;
use crate::step::Action;
use crate::tests::stacks::{TAG, head, one_of_each, place, signature, types_on};
use crate::{check_declared, commands};

#[test]
fn every_kind_has_a_word_of_its_own_by_which_it_is_saved() {
    let mut words = BTreeSet::new();
    for kind in KINDS {
        assert!(words.insert(kind.word), "{} is there twice", kind.word);
        let stacks = (kind.examples)();
        let mut layers = stacks.iter().flat_map(|stack| &stack.layers);
        let layer = layers.find(|layer| layer.kind.name() == kind.word).expect(kind.word);
        let saved = serde_json::to_value(layer).unwrap();
        assert_eq!(saved["layer"], kind.word);
        let read: crate::DeclaredLayer = serde_json::from_value(saved).unwrap();
        assert_eq!(read, *layer);
    }
}

#[test]
fn every_kind_passes_its_check_has_a_label_and_needs_something() {
    for declared in one_of_each() {
        check_declared(&declared).unwrap();
        for layer in &declared.layers {
            assert!(!layer.label().is_empty() && !layer.kind.layer().needs().is_empty());
        }
        let sizes = declared.device_sizes(|_| Some(Bytes::from_mib(100)));
        assert!(sizes.iter().flatten().all(|size| *size > Bytes::ZERO), "{sizes:?}");
    }
}

/// A kind that loads a driver, or needs one, says where the kernel shows it.
#[test]
fn every_driver_that_is_loaded_or_needed_is_listed() {
    let listed = |module: &str| {
        KINDS.iter().flat_map(|kind| kind.drivers).any(|driver| driver.module == module)
    };
    for declared in one_of_each() {
        let needs = declared.layers.iter().flat_map(|layer| layer.kind.layer().needs());
        for need in needs {
            assert!(!matches!(need, Missing::Driver { module, .. } if !listed(module)), "{need}");
        }
        for command in commands(&declared, &place()).unwrap() {
            let action = command.action;
            assert!(!matches!(&action, Action::Load { module, .. } if !listed(module)), "{action}");
        }
    }
}

#[test]
fn every_name_begins_with_the_tag_and_every_making_step_has_its_undo() {
    for declared in one_of_each() {
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
fn every_signature_must_be_one_that_a_build_wrote() {
    let (uuid, label) = (filesystem_uuid(TAG).1, TAG.as_bytes());
    assert!(types_on("gpt", &[]).unwrap_err().contains("gpt is on it"));
    let both = [signature("ext4"), signature("xfs")];
    assert!(written(&head(&[(0x468, &uuid), (0x478, label)]), &both, TAG).is_err());
}

/// Bytes of a device are anybody's.
#[test]
fn no_superblock_of_a_short_or_empty_device_is_ours() {
    for kind in KINDS.iter().filter_map(|kind| kind.superblock.as_ref()) {
        for length in [0, 512, 4096, 70_000, 2 << 20] {
            assert!((kind.read)(&DeviceHead(&vec![0; length]), TAG).is_none());
            assert!((kind.read)(&DeviceHead(&vec![0xff; length]), TAG).is_none());
        }
    }
}
