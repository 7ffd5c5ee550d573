//! The indexes as kmod itself reads them.

use std::fs;
use std::path::Path;
use std::process::Command;

use durio_block::testkit::note_skip;

use super::*;
use crate::modules::ModuleInfo;

fn module(path: &str, depends: &[&str], aliases: &[&str], soft: &[&str]) -> Module {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let info = ModuleInfo {
        release: "6.1.0".to_owned(),
        depends: owned(depends),
        soft: Vec::new(),
        soft_texts: owned(soft),
        aliases: owned(aliases),
    };
    let name = module_name(Path::new(path)).unwrap();
    Module { name, path: path.into(), content: Vec::new(), info }
}

fn sample() -> Vec<Module> {
    vec![
        module("kernel/lib/raid6/raid6_pq.ko", &[], &[], &[]),
        module("kernel/crypto/crc32c_generic.ko", &[], &["crypto-crc32c", "crc32c"], &[]),
        module("kernel/crypto/async-tx.ko", &["raid6_pq"], &[], &[]),
        module("kernel/md/raid456.ko", &["async-tx"], &["md-level-5", "pci:v[0-9]*"], &[]),
        module("kernel/fs/btrfs.ko", &["raid6_pq"], &["fs-btrfs"], &["pre: crc32c"]),
    ]
}

/// The header of a 64-bit ELF object without sections.
const EMPTY_OBJECT: [u8; 64] = {
    let mut bytes = [0; 64];
    (bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]) = (0x7f, b'E', b'L', b'F', 2);
    (bytes[5], bytes[6], bytes[16], bytes[18], bytes[20]) = (1, 1, 1, 62, 1);
    (bytes[52], bytes[58]) = (64, 64);
    bytes
};

/// The file names that kmod would load for `name`, in its order.
fn loaded_by_kmod(root: &Path, name: &str) -> String {
    let mut command = Command::new("modprobe");
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").arg("-d").arg(root);
    let output = command.args(["-S", "6.1.0", "--show-depends", name]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
    let names = text.lines().map(|line| line.trim().rsplit('/').next().unwrap().to_owned());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn kmod_finds_modules_by_name_and_alias_with_all_that_they_need() {
    if !["/usr/sbin/modprobe", "/sbin/modprobe"].iter().any(|path| Path::new(path).exists()) {
        return note_skip("kmod_finds_modules", &"modprobe is missing");
    }
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("lib/modules/6.1.0");
    fs::create_dir_all(&folder).unwrap();
    for (name, content) in index_files(&sample(), "kernel/fs/ext4/ext4.ko\n") {
        fs::write(folder.join(name), content).unwrap();
    }
    // kmod looks into them for further needs, and is content with files that say nothing.
    for module in sample() {
        let path = folder.join(module.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, EMPTY_OBJECT).unwrap();
    }
    let found = |name: &str| loaded_by_kmod(root.path(), name);
    assert_eq!(found("raid6-pq"), "raid6_pq.ko");
    assert_eq!(found("raid456"), "raid6_pq.ko async-tx.ko raid456.ko");
    assert_eq!(found("md-level-5"), "raid6_pq.ko async-tx.ko raid456.ko");
    assert_eq!(found("pci:v7x"), "raid6_pq.ko async-tx.ko raid456.ko");
    // With what it asks for softly, before itself.
    assert_eq!(found("btrfs"), "raid6_pq.ko crc32c_generic.ko btrfs.ko");
    assert_eq!(found("ext4"), "builtin ext4");
    assert!(!found("nothing").contains(".ko"), "{}", found("nothing"));
}

#[test]
fn the_text_lists_what_is_needed_the_last_first() {
    let files = index_files(&sample(), "");
    let (_, dep) = files.iter().find(|(name, _)| *name == "modules.dep").unwrap();
    let text = std::str::from_utf8(dep).unwrap();
    let line = "kernel/md/raid456.ko: kernel/crypto/async-tx.ko kernel/lib/raid6/raid6_pq.ko\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn an_alias_without_bounds_costs_no_depth() {
    let long = "x".repeat(1_000_000);
    let files = index_files(&[module("a.ko", &[], &[&long, "é"], &[])], "");
    let (_, index) = files.iter().find(|(name, _)| *name == "modules.alias.bin").unwrap();
    assert!(index.len() < 100);
}

#[test]
fn an_alias_has_1024_characters_at_most() {
    for (length, is_there) in [(1024, true), (1025, false)] {
        let files = index_files(&[module("a.ko", &[], &[&"x".repeat(length)], &[])], "");
        let (_, index) = files.iter().find(|(name, _)| *name == "modules.alias.bin").unwrap();
        assert_eq!(index.len() > 1024, is_there, "{length}");
    }
}
