//! What durio made goes, what anybody else made or changed stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::*;
use crate::made_file::Removal::{Absent, Kept, Removed};

const CONTENTS: &[u8] = b"what durio wrote";

/// A file that a dead run left in a folder, and what its journal says.
struct Left {
    folder: tempfile::TempDir,
    path: PathBuf,
    identity: Option<(u64, u64)>,
    mark: FileMark,
    size: Option<u64>,
    last_sign: SystemTime,
}

impl Left {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = create_named(folder.path(), FileMark::new().unwrap()).unwrap();
        rustix::io::write(&made.file, CONTENTS).unwrap();
        let (path, mark) = (made.path.unwrap(), made.mark.unwrap());
        let size = Some(CONTENTS.len() as u64);
        let last_sign = SystemTime::now();
        Self { folder, path, identity: Some(made.identity), mark, size, last_sign }
    }

    fn remove(&self) -> Removal {
        let Self { path, identity, mark, size, last_sign, .. } = self;
        let left = LeftFile {
            path,
            identity: *identity,
            mark: Some(mark),
            size: *size,
            last_sign: *last_sign,
        };
        remove_left(&left).unwrap()
    }

    fn other(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The last sign was so long ago that a change now is after the run's end.
    fn long_dead(mut self) -> Self {
        self.last_sign -= Duration::from_secs(60);
        self
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn what_is_as_durio_left_it_is_removed_once() {
    let left = Left::new();
    assert!(left.mark.birth.is_some() || left.mark.in_attribute, "{:?}", left.mark);
    assert_eq!((left.remove(), left.remove()), (Removed, Absent));
    assert!(names(left.folder.path()).is_empty());
}

#[test]
fn each_name_is_another_one_and_no_users() {
    let (a, b) = (FileMark::new().unwrap().file_name(), FileMark::new().unwrap().file_name());
    assert!(a != b && a.starts_with(".durio-") && a.len() == ".durio-".len() + 36, "{a} {b}");
}

#[test]
fn another_file_of_the_name_stays_also_with_the_same_inode_or_a_copied_attribute() {
    let left = Left::new();
    let kept = Kept("another file has its name now");
    // Its inode, as the filesystem may give it out again, without what a new file has not.
    let marks = [
        FileMark { birth: Some((1, 2)), ..left.mark.clone() },
        FileMark { generation: left.mark.generation.map(|number| number ^ 1), ..left.mark.clone() },
        FileMark { word: "other".into(), ..left.mark.clone() },
    ];
    let decides =
        |mark: &&FileMark| **mark != left.mark && (mark.word != "other" || mark.in_attribute);
    for mark in marks.iter().filter(decides) {
        let left = LeftFile {
            path: &left.path,
            identity: left.identity,
            mark: Some(mark),
            size: left.size,
            last_sign: left.last_sign,
        };
        assert_eq!(remove_left(&left).unwrap(), kept, "{mark:?}");
    }
    // A copy with its attributes, put in its place.
    let copy = left.other("copy");
    let status = std::process::Command::new("cp").arg("-a").args([&left.path, &copy]).status();
    assert!(status.unwrap().success());
    fs::rename(&copy, &left.path).unwrap();
    assert_eq!(left.remove(), kept);
    assert_eq!(fs::read(&left.path).unwrap(), CONTENTS);
}

#[test]
fn a_file_that_was_written_to_after_the_run_stays_whatever_its_times_say() {
    let left = Left::new().long_dead();
    fs::write(&left.path, b"mine, as long...").unwrap();
    let old = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&left.path).unwrap().set_modified(old).unwrap();
    assert_eq!(left.remove(), Kept("it was changed after its run ended"));
    assert_eq!(fs::read(&left.path).unwrap(), b"mine, as long...");
}

#[test]
fn a_file_of_another_size_stays_also_at_the_moment_of_the_kill() {
    let left = Left::new();
    fs::write(&left.path, "mine").unwrap();
    assert_eq!(left.remove(), Kept("its size was changed"));
    assert_eq!(fs::read(&left.path).unwrap(), b"mine");
}

#[test]
fn a_file_that_was_announced_goes_only_if_it_is_empty_under_its_random_name() {
    let mut left = Left { identity: None, ..Left::new().long_dead() };
    assert_eq!(left.remove(), Kept("its run ended while it made the file"));
    fs::write(&left.path, "").unwrap();
    let users = left.other("users");
    fs::write(&users, "").unwrap();
    let own = std::mem::replace(&mut left.path, users);
    assert_eq!(left.remove(), Kept("its run ended while it made the file"));
    left.path = own;
    assert_eq!(left.remove(), Removed);
}

#[test]
fn a_link_a_folder_and_a_device_of_the_name_stay() {
    let left = Left::new();
    let kept = Kept("its name now belongs to something that is not a file");
    let moved = left.other("moved");
    fs::rename(&left.path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &left.path).unwrap();
    assert_eq!(left.remove(), kept);
    fs::remove_file(&left.path).unwrap();
    fs::create_dir(&left.path).unwrap();
    assert_eq!(left.remove(), kept);
    fs::remove_dir(&left.path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&left.path).status().unwrap().success());
    assert_eq!(left.remove(), kept);
    assert_eq!(fs::read(&moved).unwrap(), CONTENTS);
}

#[test]
fn a_removal_that_was_cut_short_is_finished() {
    let left = Left::new();
    let mut aside = left.path.clone().into_os_string();
    aside.push(".removing");
    fs::rename(&left.path, &aside).unwrap();
    assert_eq!(Left { last_sign: SystemTime::UNIX_EPOCH, ..left }.remove(), Removed);
}

#[test]
fn another_device_number_is_a_doubt_only_without_an_attribute() {
    let left = Left::new();
    let has_attributes = left.mark.in_attribute;
    let identity = left.identity.map(|(device, inode)| (device ^ 1, inode));
    let mark = FileMark { in_attribute: false, ..left.mark.clone() };
    let bare = Left { identity, mark, ..left };
    assert_eq!(bare.remove(), Kept("its filesystem has another device number now"));
    let mark = FileMark { in_attribute: true, ..bare.mark.clone() };
    assert_eq!(Left { mark, ..bare }.remove() == Removed, has_attributes);
}

#[test]
fn a_folder_that_is_not_there_leaves_it_open_whether_the_file_is_gone() {
    let left = Left::new();
    let file = LeftFile {
        path: &left.other("unmounted").join(left.path.file_name().unwrap()),
        identity: left.identity,
        mark: Some(&left.mark),
        size: None,
        last_sign: left.last_sign,
    };
    assert_eq!(remove_left(&file).unwrap_err().kind, crate::ErrorKind::NotFound);
    fs::remove_file(&left.path).unwrap();
    let elsewhere = left.identity.map(|(device, inode)| (device ^ 1, inode));
    let file = LeftFile { path: &left.path, identity: elsewhere, ..file };
    assert_eq!(remove_left(&file).unwrap_err().kind, crate::ErrorKind::NotFound);
}

#[test]
fn at_the_end_only_the_open_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let made = || create_named(folder.path(), FileMark::new().unwrap()).unwrap();
    assert_eq!(made().remove().unwrap(), Removed);
    let replaced = made();
    let path = replaced.path.clone().unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    assert_eq!(replaced.remove().unwrap(), Kept("another file has its name now"));
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    let moved = made();
    fs::rename(moved.path.as_ref().unwrap(), folder.path().join("moved")).unwrap();
    assert_eq!(moved.remove().unwrap(), Kept("it was moved while durio used it"));
    let gone = made();
    fs::remove_file(gone.path.as_ref().unwrap()).unwrap();
    assert_eq!(gone.remove().unwrap(), Absent);
}

/// Its folder is held open, not looked up again.
#[test]
fn a_file_is_removed_from_its_folder_wherever_that_was_moved() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    fs::create_dir(&before).unwrap();
    let made = create_named(&before, FileMark::new().unwrap()).unwrap();
    fs::rename(&before, &after).unwrap();
    assert_eq!(made.remove().unwrap(), Removed);
    assert!(names(&after).is_empty());
}

/// Another process exchanges the names all the time; whatever comes of it, its file is never lost.
#[test]
fn a_users_file_that_takes_the_name_at_any_moment_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    for turn in 0..300_u32 {
        let made = create_named(folder.path(), FileMark::new().unwrap()).unwrap();
        let (name, users) = (made.path.clone().unwrap(), folder.path().join("users"));
        fs::write(&users, turn.to_le_bytes()).unwrap();
        let racing = std::thread::spawn(move || fs::rename(&users, &name));
        let _ = made.remove().unwrap();
        let _ = racing.join().unwrap();
        let kept: Vec<_> = names(folder.path());
        let [kept] = kept.as_slice() else { panic!("{kept:?}") };
        let path = folder.path().join(kept);
        assert_eq!(fs::read(&path).unwrap(), turn.to_le_bytes(), "turn {turn}");
        fs::remove_file(&path).unwrap();
    }
}
