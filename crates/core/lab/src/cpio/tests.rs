//! Archives against the program cpio, and against damage; trees of files as archives.

use std::io::{Seek, SeekFrom};
use std::process::{Command, Stdio};

use proptest::prelude::*;

use durio_block::testkit::note_skip;

use super::*;

fn file(path: &str, content: &[u8]) -> (CpioHeader, Vec<u8>) {
    let (path, size) = (PathBuf::from(path), content.len() as u64);
    (CpioHeader { path, kind: CpioKind::File, permissions: 0o644, size }, content.to_vec())
}

fn sample() -> Vec<(CpioHeader, Vec<u8>)> {
    let mut entries = vec![(
        CpioHeader { path: "d".into(), kind: CpioKind::Directory, permissions: 0o750, size: 0 },
        Vec::new(),
    )];
    for length in 0..6 {
        entries.push(file(&format!("d/{}", "n".repeat(length + 1)), &b"abcdef"[..length]));
    }
    let link =
        CpioHeader { path: "d/link".into(), kind: CpioKind::Symlink, permissions: 0o777, size: 2 };
    entries.push((link, b"nn".to_vec()));
    entries
}

fn archive(entries: &[(CpioHeader, Vec<u8>)]) -> Vec<u8> {
    let mut writer = CpioWriter::new(Vec::new());
    for (header, content) in entries {
        writer.append(header, &mut content.as_slice()).unwrap();
    }
    writer.finish().unwrap()
}

fn read_all(bytes: &[u8]) -> io::Result<Vec<(CpioHeader, Vec<u8>)>> {
    let mut reader = CpioReader::new(bytes);
    let mut entries = Vec::new();
    while let Some(header) = reader.next_entry()? {
        let mut content = Vec::new();
        reader.read_to_end(&mut content)?;
        entries.push((header, content));
    }
    Ok(entries)
}

#[test]
fn an_archive_comes_back_as_it_was() {
    assert_eq!(read_all(&archive(&sample())).unwrap(), sample());
}

#[test]
fn content_that_is_not_asked_for_is_passed_over() {
    let bytes = archive(&sample());
    let mut reader = CpioReader::new(bytes.as_slice());
    let mut names = Vec::new();
    while let Some(header) = reader.next_entry().unwrap() {
        names.push(header.path);
    }
    assert_eq!(names.len(), sample().len());
}

#[test]
fn devices_keep_their_numbers() {
    let console = CpioHeader {
        path: "dev/console".into(),
        kind: CpioKind::Device(5, 1),
        permissions: 0o600,
        size: 0,
    };
    let bytes = archive(&[(console.clone(), Vec::new())]);
    assert_eq!(read_all(&bytes).unwrap(), [(console, Vec::new())]);
}

#[test]
fn a_name_has_4095_bytes_at_most_and_its_end() {
    let read = |length: usize| read_all(&archive(&[file(&"n".repeat(length), b"x")]));
    assert_eq!(read(4095).unwrap()[0].0.path.as_os_str().len(), 4095);
    let error = read(4096).unwrap_err();
    assert!(error.to_string().contains("empty or too long"), "{error}");
}

/// The program that everybody unpacks such archives with, if it is there.
fn unpacked_by(program: &[&str]) -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("archive");
    fs::write(&source, archive(&sample())).unwrap();
    let [name, arguments @ ..] = program else { return None };
    let status = Command::new(name)
        .args(arguments)
        .current_dir(folder.path())
        .stdin(fs::File::open(&source).unwrap())
        .stderr(Stdio::null())
        .status();
    status.ok()?.success().then_some(folder)
}

#[test]
fn other_programs_unpack_it() {
    let programs = [["cpio", "-i", "--quiet"].as_slice(), &["busybox", "cpio", "-i"]];
    let unpacked: Vec<_> = programs.into_iter().filter_map(unpacked_by).collect();
    if unpacked.is_empty() {
        return note_skip("other_programs_unpack_it", &"neither cpio nor busybox is there");
    }
    for folder in unpacked {
        assert_eq!(fs::read(folder.path().join("d/nnnnnn")).unwrap(), b"abcde");
        assert_eq!(fs::read_link(folder.path().join("d/link")).unwrap(), Path::new("nn"));
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(folder.path().join("d")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o750);
    }
}

#[test]
fn an_archive_that_is_cut_off_is_an_error_at_every_length() {
    let bytes = archive(&sample());
    let trailer = HEADER_BYTES + TRAILER.len() + 1;
    for length in 0..bytes.len() - trailer {
        assert!(read_all(&bytes[..length]).is_err(), "{length}");
    }
}

#[test]
fn content_of_another_length_than_announced_is_an_error() {
    let (mut header, content) = file("x", b"abc");
    header.size = 4;
    assert!(CpioWriter::new(Vec::new()).append(&header, &mut content.as_slice()).is_err());
}

fn unpacked(tree: &Tree) -> Vec<(String, CpioKind, Vec<u8>)> {
    let mut file = tree.archive().unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut reader = CpioReader::new(file);
    let mut found = Vec::new();
    while let Some(header) = reader.next_entry().unwrap() {
        let mut content = Vec::new();
        reader.read_to_end(&mut content).unwrap();
        found.push((header.path.display().to_string(), header.kind, content));
    }
    found
}

#[test]
fn folders_come_before_what_is_in_them_and_links_are_not_replaced_by_folders() {
    let mut tree = Tree::default();
    tree.bytes("/lib/modules/x", "content");
    tree.symlink("/lib", "usr/lib");
    tree.directory("/lib");
    let found = unpacked(&tree);
    assert_eq!(found[0], ("lib".to_owned(), CpioKind::Symlink, b"usr/lib".to_vec()));
    assert_eq!(found[1].1, CpioKind::Directory);
    assert_eq!(found[2], ("lib/modules/x".to_owned(), CpioKind::File, b"content".to_vec()));
}

#[test]
fn an_entry_has_the_permissions_of_its_kind_and_a_copy_those_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut tree = Tree::default();
    tree.bytes("/etc/passwd", "root");
    tree.symlink("/link", "etc");
    tree.device("/dev/null", 1, 3);
    tree.directory("/tmp");
    for (name, mode) in [("program", 0o4750), ("secret", 0o600)] {
        let path = folder.path().join(name);
        fs::write(&path, name).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        tree.host_file(Path::new("/own").join(name), path);
    }
    let entries = read_all(&tree.write_to(Vec::new()).unwrap()).unwrap();
    let found =
        entries.iter().map(|(header, _)| (header.path.to_str().unwrap(), header.permissions));
    let expected = [
        ("dev", 0o755),
        ("dev/null", 0o600),
        ("etc", 0o755),
        ("etc/passwd", 0o644),
        ("link", 0o777),
        ("own", 0o755),
        // Without the bit that runs it as its owner.
        ("own/program", 0o750),
        ("own/secret", 0o600),
        ("tmp", 0o755),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn folders_of_this_machine_are_copied_with_their_links() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/b"), "text").unwrap();
    std::os::unix::fs::symlink("b", folder.path().join("a/c")).unwrap();
    let mut tree = Tree::default();
    tree.host_tree(Path::new("/given"), folder.path()).unwrap();
    let found = unpacked(&tree);
    let file = ("given/a/b".to_owned(), CpioKind::File, b"text".to_vec());
    let link = ("given/a/c".to_owned(), CpioKind::Symlink, b"b".to_vec());
    assert!(found.contains(&file) && found.contains(&link), "{found:?}");
}

#[test]
fn a_file_that_is_gone_is_an_error_that_names_it() {
    let mut tree = Tree::default();
    tree.host_file("/x", "/nonexistent/file");
    assert!(tree.archive().unwrap_err().to_string().contains("/nonexistent/file"));
}

proptest! {
    #[test]
    fn a_damaged_archive_is_an_error_or_entries_never_a_panic(
        place in 0_usize..1000, value in any::<u8>(),
    ) {
        let mut bytes = archive(&sample());
        let place = place % bytes.len();
        bytes[place] = value;
        let _ = read_all(&bytes);
    }
}
