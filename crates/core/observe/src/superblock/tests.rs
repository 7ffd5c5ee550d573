//! Superblocks as their makers write them, and damaged ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::*;

fn facts(fs_type: &str, bytes: &[u8]) -> BTreeMap<String, String> {
    let facts = superblock_facts(fs_type, bytes);
    facts.into_iter().map(|fact| (fact.name, fact.value)).collect()
}

/// The first bytes of a file of 400 MiB after `program`, or none if there is no such program.
fn made_by(test: &str, program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(400 << 20).unwrap();
    let path = std::env::join_paths(["/usr/sbin", "/sbin", "/usr/bin"]).unwrap();
    let mut command = Command::new(program);
    command.env("PATH", path).args(arguments).arg(file.path());
    match command.stdout(Stdio::null()).stderr(Stdio::piped()).output() {
        Err(error) => {
            skipped(test, &format!("{program} is missing: {error}"));
            None
        }
        Ok(ended) => {
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
            let mut bytes = Vec::new();
            File::open(file.path()).unwrap().take(4096).read_to_end(&mut bytes).unwrap();
            Some(bytes)
        }
    }
}

fn skipped(test: &str, reason: &str) {
    // Not by eprintln, which libtest swallows in a test that passes.
    std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes()).unwrap();
    if let Some(list) = std::env::var_os("DURIO_TEST_SKIPS") {
        let list = File::options().append(true).create(true).open(list);
        writeln!(list.unwrap(), "{test}: {reason}").unwrap();
    }
}

#[test]
fn ext4_is_read_as_mkfs_was_told_to_make_it() {
    let options = ["-q", "-F", "-b", "4096", "-J", "size=16", "-E", "stride=4,stripe_width=12"];
    let test = "ext4_is_read_as_mkfs_was_told_to_make_it";
    let Some(bytes) = made_by(test, "mkfs.ext4", &options) else { return };
    let found = facts("ext4", &bytes);
    let expected = [
        ("block_size_bytes", "4096"),
        // 400 MiB in groups of 32768 blocks.
        ("block_groups", "4"),
        ("journal_size_bytes", "16777216"),
        ("stripe_unit_bytes", "16384"),
        ("stripe_width_bytes", "49152"),
    ];
    for (name, value) in expected {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}: {found:?}");
    }
    assert!(found["features"].starts_with("has_journal,"), "{found:?}");
    assert!(found["features"].contains("extent"), "{found:?}");
}

#[test]
fn ext4_without_a_journal_tells_no_size_of_one() {
    let options = ["-q", "-F", "-b", "1024", "-O", "^has_journal,^resize_inode"];
    let test = "ext4_without_a_journal_tells_no_size_of_one";
    let Some(bytes) = made_by(test, "mkfs.ext4", &options) else { return };
    let found = facts("ext4", &bytes);
    assert_eq!(found["block_size_bytes"], "1024");
    assert!(!found.contains_key("journal_size_bytes") && !found.contains_key("stripe_unit_bytes"));
    assert!(!found["features"].contains("has_journal"), "{found:?}");
}

#[test]
fn xfs_is_read_as_mkfs_was_told_to_make_it() {
    let options = ["-q", "-f", "-b", "size=4096", "-d", "agcount=5,su=64k,sw=3", "-l", "size=64m"];
    let test = "xfs_is_read_as_mkfs_was_told_to_make_it";
    let Some(bytes) = made_by(test, "mkfs.xfs", &options) else { return };
    let found = facts("xfs", &bytes);
    let expected = [
        ("block_size_bytes", "4096"),
        ("allocation_groups", "5"),
        ("log", "internal"),
        ("log_size_bytes", "67108864"),
        ("log_stripe_unit_bytes", "65536"),
        ("stripe_unit_bytes", "65536"),
        ("stripe_width_bytes", "196608"),
    ];
    for (name, value) in expected {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}: {found:?}");
    }
    assert!(found["features"].starts_with("crc,"), "{found:?}");
}

/// Made by hand from the documents: the fewest fields that make one.
fn smallest(fs_type: &str) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    match fs_type {
        "xfs" => {
            bytes[..4].copy_from_slice(b"XFSB");
            bytes[4..8].copy_from_slice(&4096_u32.to_be_bytes());
            bytes[100..102].copy_from_slice(&0xb4a5_u16.to_be_bytes());
        }
        _ => {
            bytes[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
            bytes[1024 + 0x18] = 2;
        }
    }
    bytes
}

#[test]
fn a_superblock_with_empty_fields_tells_what_it_has() {
    assert_eq!(facts("ext4", &smallest("ext4"))["block_size_bytes"], "4096");
    let found = facts("xfs", &smallest("xfs"));
    assert_eq!((found["log"].as_str(), found["features"].as_str()), ("external", "crc"));
}

/// A superblock with these fields in addition.
fn with(fs_type: &str, begin: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = smallest(fs_type);
    for (at, value) in fields {
        bytes[begin + at..begin + at + value.len()].copy_from_slice(value);
    }
    bytes
}

fn of_rows(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Places of the kernel's ext4/super.rst.
#[test]
fn each_field_of_ext4_is_read_at_its_place() {
    let fields: [(usize, &[u8]); 11] = [
        (0x04, &100_001_u32.to_le_bytes()),
        (0x20, &32_768_u32.to_le_bytes()),
        (0x58, &256_u16.to_le_bytes()),
        (0x5c, &0x424_u32.to_le_bytes()),
        (0x60, &0x240_u32.to_le_bytes()),
        (0x64, &0x400_u32.to_le_bytes()),
        (0xfd, &[1]),
        (0x148, &1_u32.to_le_bytes()),
        (0x14c, &67_108_864_u32.to_le_bytes()),
        (0x164, &16_u16.to_le_bytes()),
        (0x170, &48_u32.to_le_bytes()),
    ];
    let mut bytes = with("ext4", 1024, &fields);
    let mut expected = of_rows(&[
        ("block_size_bytes", "4096"),
        ("block_groups", "4"),
        ("inode_size_bytes", "256"),
        ("journal_size_bytes", "4362076160"),
        ("stripe_unit_bytes", "65536"),
        ("stripe_width_bytes", "196608"),
        ("features", "has_journal,dir_index,fast_commit,extent,flex_bg,metadata_csum"),
    ]);
    assert_eq!(facts("ext4", &bytes), expected);
    // Without a copy of the journal's inode.
    bytes[1024 + 0xfd] = 0;
    expected.remove("journal_size_bytes");
    assert_eq!(facts("ext3", &bytes), expected);
}

/// Places of the XFS Algorithms and Data Structures book.
#[test]
fn each_field_of_xfs_is_read_at_its_place() {
    let fields: [(usize, &[u8]); 10] = [
        (48, &(1_u64 << 40).to_be_bytes()),
        (88, &5_u32.to_be_bytes()),
        (96, &16_384_u32.to_be_bytes()),
        (102, &512_u16.to_be_bytes()),
        (104, &1024_u16.to_be_bytes()),
        (184, &16_u32.to_be_bytes()),
        (188, &48_u32.to_be_bytes()),
        (196, &32_768_u32.to_be_bytes()),
        (212, &0x5_u32.to_be_bytes()),
        (216, &0xa_u32.to_be_bytes()),
    ];
    let mut bytes = with("xfs", 0, &fields);
    let mut expected = of_rows(&[
        ("block_size_bytes", "4096"),
        ("sector_size_bytes", "512"),
        ("inode_size_bytes", "1024"),
        ("allocation_groups", "5"),
        ("log", "internal"),
        ("log_size_bytes", "67108864"),
        ("log_stripe_unit_bytes", "32768"),
        ("stripe_unit_bytes", "65536"),
        ("stripe_width_bytes", "196608"),
        ("features", "crc,finobt,reflink,sparse,bigtime"),
    ]);
    assert_eq!(facts("xfs", &bytes), expected);
    // Version 4 has no checksums, and other contents in their place; a unit of 1 is none.
    bytes[101] = 0xa4;
    bytes[196..200].copy_from_slice(&1_u32.to_be_bytes());
    expected.remove("features");
    expected.remove("log_stripe_unit_bytes");
    assert_eq!(facts("xfs", &bytes), expected);
}

#[test]
fn what_is_no_superblock_tells_nothing() {
    for fs_type in ["ext4", "xfs", "btrfs", ""] {
        assert!(facts(fs_type, &[]).is_empty());
        assert!(facts(fs_type, &[0xff; 4096]).is_empty());
        assert!(facts(fs_type, &[0; 4096]).is_empty());
    }
    assert!(facts("xfs", &smallest("ext4")).is_empty());
    let mut shifted = smallest("ext4");
    shifted[1024 + 0x18] = 60;
    assert!(facts("ext4", &shifted).is_empty());
}

#[test]
fn whatever_a_superblock_holds_it_is_read() {
    use proptest::prelude::*;
    proptest!(ProptestConfig::with_cases(300), |(
        noise in proptest::collection::vec(any::<(u16, u8)>(), 0..200),
        len in 0..4096_usize,
    )| {
        for fs_type in ["ext4", "xfs"] {
            let mut bytes = smallest(fs_type);
            for (place, byte) in &noise {
                bytes[usize::from(place % 2048)] = *byte;
            }
            superblock_facts(fs_type, &bytes);
            superblock_facts(fs_type, &bytes[..len]);
        }
    });
}
