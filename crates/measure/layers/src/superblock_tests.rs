//! Signatures that no kind of layer writes, or that are not all a build's.

use super::*;
use crate::place::filesystem_uuid;
use crate::tests::stacks::{TAG, head, signature, types_on};

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
