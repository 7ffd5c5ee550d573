//! Superblocks with a label and identifier at their exact place, and without.

use durio_units::Bytes;

use super::*;

const TAG: &str = "durioabc1234";

fn signature(name: &str) -> Signature {
    Signature { device: "sdx".into(), name: name.into(), offset: Bytes::new(0) }
}

fn head(parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 2 << 20];
    for (place, part) in parts {
        bytes[*place..*place + part.len()].copy_from_slice(part);
    }
    bytes
}

fn types(name: &str, parts: &[(usize, &[u8])]) -> Result<Written, String> {
    written(&head(parts), &[signature(name)], TAG)
}

#[test]
fn each_kind_is_known_by_label_and_identifier_at_their_exact_place() {
    let uuid = filesystem_uuid(TAG).1;
    let label = TAG.as_bytes();
    let ext4 = types("ext4", &[(0x468, &uuid), (0x478, label)]).unwrap();
    assert!(ext4.is_fresh && ext4.types.contains(&"ext4"));
    let counts = [64_u64.to_be_bytes(), 61_u64.to_be_bytes()].concat();
    let xfs = types("xfs", &[(32, &uuid), (108, label), (128, &counts)]).unwrap();
    assert!(xfs.is_fresh);
    let btrfs = types("btrfs", &[(0x1_0020, &uuid), (0x1_012b, label)]).unwrap();
    assert_eq!(btrfs, Written { types: vec!["btrfs"], is_fresh: false });
    for host in ["", "any:"] {
        let name = format!("{host}{TAG}-1-0");
        let array = md_uuid_bytes(&format!("{TAG}-1-0"));
        types("md 1.2", &[(4096 + 32, name.as_bytes()), (4096 + 16, &array)]).unwrap();
    }
    let volume = volume_uuid(TAG, 2, 7).replace('-', "");
    let area = (4096 + 4, &b" LVM2 x[5A%r0N*>"[..]);
    types("lvm2", &[(544, volume.as_bytes()), area]).unwrap();
    let name = [&b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01\0\0\0\x0c"[..], label].concat();
    types("zfs", &[((16 << 10) + 40, &name)]).unwrap();
}

#[test]
fn a_label_elsewhere_or_an_identifier_alone_is_not_ours() {
    let uuid = filesystem_uuid(TAG).1;
    let label = TAG.as_bytes();
    assert!(types("xfs", &[(4096, label), (32, &uuid)]).is_err());
    assert!(types("ext4", &[(0x478, label)]).is_err());
    assert!(types("ext4", &[(0x468, &uuid), (0x478, b"durioabc1234x")]).is_err());
    assert!(types("md 1.2", &[(4096 + 32, b"durioabc1234-1-0")]).is_err());
    assert!(types("gpt", &[]).unwrap_err().contains("gpt is on it"));
    let both = [signature("ext4"), signature("xfs")];
    assert!(written(&head(&[(0x468, &uuid), (0x478, label)]), &both, TAG).is_err());
}

#[test]
fn a_filesystem_that_was_used_is_not_fresh() {
    let uuid = filesystem_uuid(TAG).1;
    let label = TAG.as_bytes();
    let mounted = types("ext4", &[(0x468, &uuid), (0x478, label), (0x434, &[1, 0])]).unwrap();
    let filled = [64_u64.to_be_bytes(), 60_u64.to_be_bytes()].concat();
    let xfs = types("xfs", &[(32, &uuid), (108, label), (128, &filled)]).unwrap();
    assert!(!mounted.is_fresh && !xfs.is_fresh);
}

/// A volume group takes a physical volume over with its identifier.
#[test]
fn a_volume_with_a_group_of_somebody_else_is_not_ours() {
    let volume = volume_uuid(TAG, 1, 0).replace('-', "");
    let area = (4096 + 4, &b" LVM2 x[5A%r0N*>"[..]);
    let at = 512_u64.to_le_bytes();
    let of =
        |name: &[u8]| types("lvm2", &[(544, volume.as_bytes()), area, (4136, &at), (4608, name)]);
    assert!(of(b"durioabc1234v1g0 {").is_ok());
    assert!(of(b"database {").is_err());
}
