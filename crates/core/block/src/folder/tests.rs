//! Folders that are exchanged, links in the place of files, names that lead elsewhere.

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn links_in_the_place_of_files_are_replaced_and_their_targets_stay() {
    let place = tempfile::tempdir().unwrap();
    let (inside, victim) = (place.path().join("in"), place.path().join("victim"));
    fs::write(&victim, "mine").unwrap();
    let folder = Folder::make(&inside).unwrap();
    symlink(&victim, inside.join("report")).unwrap();
    symlink(&victim, inside.join(".report.new")).unwrap();
    folder.replace("report", b"new").unwrap();
    assert_eq!((text(&victim).as_str(), text(&inside.join("report")).as_str()), ("mine", "new"));
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 1, "nothing else is left");
    symlink(&victim, inside.join("events")).unwrap();
    assert!(folder.make_file("events").is_err() && folder.open_own("events").is_err());
    fs::hard_link(&victim, inside.join("hard")).unwrap();
    assert!(folder.open_own("hard").unwrap_err().to_string().contains("other names"));
    assert_eq!(text(&victim), "mine");
}

#[test]
fn what_is_made_is_made_in_the_folder_that_was_opened() {
    let place = tempfile::tempdir().unwrap();
    let (inside, moved, other) =
        (place.path().join("in"), place.path().join("moved"), place.path().join("other"));
    let folder = Folder::make(&inside).unwrap();
    fs::create_dir(&other).unwrap();
    fs::rename(&inside, &moved).unwrap();
    symlink(&other, &inside).unwrap();
    folder.replace("a", b"x").unwrap();
    folder.make_folder("b").unwrap();
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    assert!(moved.join("a").is_file() && moved.join("b").is_dir());
    assert!(Folder::open(&place.path().join("in")).is_ok(), "a user's link is followed");
    assert!(Folder::open(place.path()).unwrap().folder("in").is_err(), "a link inside is not");
}

#[test]
fn names_lead_nowhere_else() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    for name in ["", ".", "..", "/etc", "a/b", "a/", "../x", "./a"] {
        assert!(folder.make_file(name).is_err(), "{name}");
        assert!(folder.make_folder(name).is_err(), "{name}");
        assert!(folder.replace(name, b"").is_err(), "{name}");
    }
    assert!(folder.make_file("a\0b").is_err());
    assert!(folder.make_file("n".repeat(256)).is_err());
}

#[test]
fn root_writes_into_no_folder_of_somebody_else() {
    if !geteuid().is_root() {
        let name = "root_writes_into_no_folder_of_somebody_else";
        return crate::testkit::note_skip(name, &"only root can give a folder away");
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("in");
    let folder = Folder::make(&path).unwrap();
    assert!(folder.check_owner().is_ok());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(folder.check_owner().unwrap_err().to_string().contains("others can write"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    chown(&path, Some(65_534), None).unwrap();
    assert!(folder.check_owner().unwrap_err().to_string().contains("user 65534"));
}

#[test]
fn a_file_without_a_name_is_on_the_folders_filesystem() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    let mut file = folder.make_unnamed().unwrap();
    file.write_all(b"x").unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_log_is_added_to_if_it_is_a_file_of_our_own_and_is_made_for_its_owner_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let folder = Folder::open(place.path()).unwrap();
    folder.append_own("log").unwrap().write_all(b"one ").unwrap();
    let mut log = folder.append_own("log").unwrap();
    fs::write(path("log"), "another ").unwrap();
    log.write_all(b"two").unwrap();
    assert_eq!(text(&path("log")), "another two");
    assert_eq!(fs::metadata(path("log")).unwrap().permissions().mode() & 0o777, 0o600);
    symlink(path("victim"), path("dangling")).unwrap();
    let error = folder.append_own("dangling").unwrap_err();
    assert_eq!(error.to_string(), "it is a symbolic link");
    assert!(!path("victim").exists());
    rustix::fs::mkfifoat(&folder.held, "pipe", Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(folder.append_own("pipe").unwrap_err().to_string(), "it is not a regular file");
}

#[test]
fn a_folder_of_eight_levels_is_removed_and_none_of_more_and_no_link_is_followed() {
    let place = tempfile::tempdir().unwrap();
    let victim = place.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("kept"), "mine").unwrap();
    let folder = Folder::open(place.path()).unwrap();
    for (levels, is_removed) in [(1, true), (8, true), (9, false)] {
        let deepest: PathBuf = std::iter::repeat_n("x", levels).collect();
        let deepest = place.path().join(deepest);
        fs::create_dir_all(&deepest).unwrap();
        fs::write(deepest.join("file"), "").unwrap();
        symlink(&victim, deepest.join("link")).unwrap();
        assert_eq!(folder.remove_own_folder("x").is_ok(), is_removed, "{levels}");
        assert_eq!(place.path().join("x").exists(), !is_removed, "{levels}");
    }
    assert_eq!(text(&victim.join("kept")), "mine");
    symlink(&victim, place.path().join("to-victim")).unwrap();
    assert!(folder.remove_own_folder("to-victim").is_err());
    assert!(folder.remove_own_folder("none").is_err());
    assert_eq!(text(&victim.join("kept")), "mine");
}
