//! Archives of guests that are honest, and of those that are not.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::*;
use crate::cpio::CpioWriter;

fn header(path: &str, kind: CpioKind, content: &[u8]) -> CpioHeader {
    CpioHeader { path: path.into(), kind, permissions: 0o6777, size: content.len() as u64 }
}

fn archive(entries: &[(&str, CpioKind, &[u8])]) -> Vec<u8> {
    let mut writer = CpioWriter::new(Vec::new());
    for (path, kind, content) in entries {
        writer.append(&header(path, *kind, content), &mut &content[..]).unwrap();
    }
    writer.finish().unwrap()
}

fn unpacked(bytes: &[u8], folder: &Path) -> Result<SkippedEntries, CommandError> {
    unpack(bytes, &Folder::open_or_make(folder).unwrap())
}

#[test]
fn files_folders_and_links_arrive() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("new");
    let bytes = archive(&[
        ("a", CpioKind::Directory, b""),
        ("a/link", CpioKind::Symlink, b"../b"),
        ("b", CpioKind::File, b"content"),
        ("c/d/e", CpioKind::File, b""),
    ]);
    assert_eq!(unpacked(&bytes, &folder).unwrap(), SkippedEntries::default());
    assert_eq!(fs::read(folder.join("a/link")).unwrap(), b"content");
    let mode = fs::metadata(folder.join("b")).unwrap().mode();
    assert_eq!(mode & 0o7000, 0, "neither setuid nor setgid nor sticky: {mode:o}");
}

#[test]
fn what_leads_outside_or_is_no_file_is_left_out_and_counted() {
    let out = tempfile::tempdir().unwrap();
    let bytes = archive(&[
        ("absolute", CpioKind::Symlink, b"/etc/passwd"),
        ("up", CpioKind::Symlink, b".."),
        ("d/up", CpioKind::Symlink, b"../../x"),
        // Inside by its text; where `d/a` is a link to the top, outside.
        ("around", CpioKind::Symlink, b"d/a/../x"),
        ("device", CpioKind::Device(1, 3), b""),
        ("fifo", CpioKind::Other(0o010_000), b""),
        ("kept", CpioKind::File, b"x"),
    ]);
    let skipped = unpacked(&bytes, out.path()).unwrap();
    assert_eq!((skipped.count, skipped.first), (6, Some("absolute".into())));
    let mut names: Vec<_> =
        fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["kept"]);
}

#[test]
fn names_that_lead_elsewhere_end_the_unpacking() {
    let file = |name| [(name, CpioKind::File, b"x".as_slice())];
    let long = "n".repeat(256);
    let deep = "d/".repeat(128) + "f";
    for name in ["../evil", "/tmp/durio-evil", "a/../../evil", "", ".", long.as_str(), &deep] {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("new");
        assert!(unpacked(&archive(&file(name)), &folder).is_err(), "{name}");
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1, "{name}");
    }
    let out = tempfile::tempdir().unwrap();
    assert!(unpacked(&archive(&file(&deep[2..])), out.path()).is_ok(), "128 parts");
    assert!(out.path().join(&deep[2..]).is_file());
}

#[test]
fn what_is_there_is_not_overwritten_or_followed() {
    let out = tempfile::tempdir().unwrap();
    assert!(check_empty(out.path()).is_ok());
    assert!(check_empty(&out.path().join("none")).is_ok());
    fs::write(out.path().join("b"), "mine").unwrap();
    assert!(check_empty(out.path()).is_err());
    for entries in [
        &[("b", CpioKind::File, b"theirs".as_slice())][..],
        &[("b", CpioKind::Symlink, b"x")],
        &[("b", CpioKind::Directory, b"")],
        &[("b/c", CpioKind::File, b"x")],
        &[("c", CpioKind::File, b"1"), ("c", CpioKind::File, b"2")],
        &[("l", CpioKind::Symlink, b"d"), ("l/f", CpioKind::File, b"x")],
    ] {
        assert!(unpacked(&archive(entries), out.path()).is_err(), "{entries:?}");
        let _ = fs::remove_file(out.path().join("c"));
        let _ = fs::remove_file(out.path().join("l"));
    }
    assert_eq!(fs::read(out.path().join("b")).unwrap(), b"mine");
}

#[test]
fn sparse_files_stay_sparse() {
    let out = tempfile::tempdir().unwrap();
    let mut content = vec![0; 8 << 20];
    content[5 << 20] = 1;
    let bytes =
        archive(&[("s", CpioKind::File, &content), ("zeros", CpioKind::File, &content[..4 << 20])]);
    let folder = Folder::open(out.path()).unwrap();
    let mut spool = Spool::new(&folder).unwrap();
    bytes.chunks(1 << 18).for_each(|part| spool.write(part).unwrap());
    spool.unpack(&folder).unwrap();
    let allocated = |name: &str| fs::metadata(out.path().join(name)).unwrap().blocks() * 512;
    assert_eq!(fs::read(out.path().join("s")).unwrap(), content);
    assert_eq!(fs::metadata(out.path().join("zeros")).unwrap().len(), 4 << 20);
    assert!(allocated("s") <= 1 << 20 && allocated("zeros") == 0, "{}", allocated("s"));
}

#[test]
fn more_entries_or_bytes_than_a_guest_may_bring_out_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let folder = Folder::open(out.path()).unwrap();
    let entries: Vec<String> = (0..=3).map(|number| format!("f{number}")).collect();
    let files: Vec<_> =
        entries.iter().map(|name| (name.as_str(), CpioKind::File, b"four".as_slice())).collect();
    let bytes = archive(&files);
    let limits = |entries, bytes| UnpackLimits { entries, bytes };
    let refusal = |limits| unpack_within(limits, bytes.as_slice(), &folder).unwrap_err();
    let text = |error: CommandError| std::error::Error::source(&error).unwrap().to_string();
    assert!(text(refusal(limits(3, 16))).contains("more than 3 entries"));
    entries.iter().for_each(|name| folder.remove_file(name).unwrap());
    assert!(text(refusal(limits(4, 15))).contains("more than 15 B"));
    entries.iter().for_each(|name| folder.remove_file(name).unwrap());
    assert!(unpack_within(limits(4, 16), bytes.as_slice(), &folder).is_ok());
    // A million entries, and 64 GiB.
    assert_eq!((LIMITS.entries, LIMITS.bytes), (1_000_000, 68_719_476_736));
}

/// A seeded sequence (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// How many of the names are none that is refused by itself.
const TAME_NAMES: usize = 12;

/// Some entries that mean ill; one archive in four has a wrong byte besides.
fn forged(draw: &mut Draw, witness: &str) -> Vec<u8> {
    let absolute = format!("{witness}/by-name");
    let up = "../".repeat(40) + witness.trim_start_matches('/') + "/by-climbing";
    let names = [
        "a",
        "b",
        "a/b",
        "a/b/c",
        "l",
        "l/x",
        "l/l",
        "l/l/x",
        "a/l",
        "a/l/x",
        "m",
        "m/x",
        "./a",
        "a//b",
        "../witness/by-parent",
        "a/../../witness/by-detour",
        "..",
        ".",
        "",
        "a\0b",
        "l/../x",
        &absolute,
        &up,
    ];
    let targets = [
        witness,
        "../witness",
        "..",
        ".",
        "a",
        "l",
        "m",
        "a/..",
        "../..",
        "l/..",
        "l/../witness",
        "a/b/../../../witness",
        "/",
        "/proc/self/cwd",
        "/proc/self/root",
        "../witness/kept",
        "m/l",
    ];
    // A name that is refused ends all, so most archives have none.
    let names = if draw.below(4) == 0 { &names[..] } else { &names[..TAME_NAMES] };
    let mut writer = CpioWriter::new(Vec::new());
    for _ in 0..2 + draw.below(8) {
        let kind = match draw.below(10) {
            0..=2 => CpioKind::Directory,
            3..=5 => CpioKind::File,
            6..=8 => CpioKind::Symlink,
            _ => [CpioKind::Device(1, 3), CpioKind::Other(0o010_000), CpioKind::Other(0o140_000)]
                [draw.below(3)],
        };
        let content =
            if kind == CpioKind::Symlink { draw.of(&targets) } else { draw.of(&["", "x"]) };
        let entry = header(draw.of(names), kind, content.as_bytes());
        writer.append(&entry, &mut content.as_bytes()).unwrap();
    }
    let mut bytes = writer.finish().unwrap();
    if draw.below(4) == 0 {
        let at = draw.below(bytes.len());
        bytes[at] = u8::try_from(draw.below(256)).unwrap();
    }
    bytes
}

/// All that is in a folder but `except`: names, kinds, contents.
fn contents(folder: &Path, except: &Path, found: &mut Vec<String>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries.into_iter().filter(|path| path != except) {
        let facts = path.symlink_metadata().unwrap();
        let content = if facts.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        found.push(format!("{} {:o} {content:?}", path.display(), facts.mode()));
        if facts.is_dir() {
            contents(&path, except, found);
        }
    }
}

/// Nothing in it is anything but a file, a folder, or a link that stays inside.
fn check_inside(folder: &Path, top: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{}", path.display());
        assert!(!kind.is_fifo() && !kind.is_char_device());
        if kind.is_dir() {
            check_inside(&path, top);
        }
        if kind.is_symlink()
            && let Ok(leads_to) = path.canonicalize()
        {
            assert!(leads_to.starts_with(top), "{} -> {}", path.display(), leads_to.display());
        }
    }
}

#[test]
fn of_1000_forged_archives_none_makes_or_changes_anything_outside() {
    let mut draw = Draw(12);
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let (out, witness) = (place.join("out"), place.join("witness"));
    fs::create_dir(&witness).unwrap();
    fs::write(witness.join("kept"), "mine").unwrap();
    let seen = || {
        let mut found = Vec::new();
        contents(&place, &out, &mut found);
        found
    };
    let before = seen();
    let mut whole = 0;
    for number in 0..1000 {
        let bytes = forged(&mut draw, std::str::from_utf8(witness.as_os_str().as_bytes()).unwrap());
        whole += u32::from(unpacked(&bytes, &out).is_ok());
        assert_eq!(seen(), before, "archive {number}");
        check_inside(&out, &out);
        fs::remove_dir_all(&out).unwrap();
    }
    assert!(whole > 20, "some are unpacked to their end: {whole}");
}
