//! The state folder: links on the way, folders of other users, the umask.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use durio_block::testkit::note_skip;
use durio_record::{StateFolder, StatePart};

const NOBODY: u32 = 65_534;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn is_root(test: &str) -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        note_skip(test, &"only root can give a folder to another user");
    }
    is_root
}

#[test]
fn a_new_one_is_private_with_all_that_is_made_in_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a/b/durio");
    assert!(StateFolder::open(&path).unwrap().is_none());
    assert!(!place.path().join("a").exists(), "looking makes nothing");
    let state = StateFolder::make(&path).unwrap();
    for part in StatePart::ALL {
        assert!(state.part(part).unwrap().is_none());
        let folder = state.make_part(part).unwrap();
        assert_eq!((folder.path(), mode(folder.path())), (&*path.join(part.name()), 0o700));
        assert!(state.part(part).unwrap().is_some());
    }
    for made in [place.path().join("a"), place.path().join("a/b"), path] {
        assert_eq!(mode(&made), 0o700, "{}", made.display());
    }
}

#[test]
fn what_an_earlier_version_left_open_to_others_is_closed_to_their_writes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("durio");
    fs::create_dir_all(path.join("runs")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(path.join("runs"), Permissions::from_mode(0o775)).unwrap();
    let state = StateFolder::open(&path).unwrap().unwrap();
    state.part(StatePart::Runs).unwrap().unwrap();
    assert_eq!((mode(&path), mode(&path.join("runs"))), (0o755, 0o755));
}

#[test]
fn no_part_is_reached_by_a_link() {
    let place = tempfile::tempdir().unwrap();
    let victim = place.path().join("victim");
    fs::create_dir(&victim).unwrap();
    let state = StateFolder::make(&place.path().join("durio")).unwrap();
    for part in StatePart::ALL {
        symlink(&victim, place.path().join("durio").join(part.name())).unwrap();
        for error in [state.part(part).unwrap_err(), state.make_part(part).unwrap_err()] {
            assert_eq!(error.to_string(), "it is a link or not a folder");
        }
    }
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    symlink(&victim, place.path().join("linked")).unwrap();
    assert!(StateFolder::make(&place.path().join("linked")).is_err());
    fs::write(place.path().join("file"), "").unwrap();
    assert!(StateFolder::make(&place.path().join("file")).is_err());
}

#[test]
fn a_home_behind_links_of_the_user_is_reached_and_the_path_has_none() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path().canonicalize().unwrap();
    fs::create_dir_all(at.join("data/home/u")).unwrap();
    symlink("data/home", at.join("home")).unwrap();
    symlink(at.join("home/u"), at.join("absolute")).unwrap();
    symlink("../../home/u/./", at.join("data/home/up")).unwrap();
    for way in ["home/u", "absolute", "data/home/up", "data/../home/u"] {
        let state = StateFolder::make(&at.join(way).join("durio")).unwrap();
        assert_eq!(state.folder().path(), at.join("data/home/u/durio"), "{way}");
    }
    symlink("loop", at.join("loop")).unwrap();
    assert!(StateFolder::make(&at.join("loop/durio")).is_err());
    assert!(StateFolder::make(Path::new("relative/durio")).is_err());
}

#[test]
fn links_and_folders_of_other_users_are_refused() {
    if !is_root("links_and_folders_of_other_users_are_refused") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let at = place.path().canonicalize().unwrap();
    fs::set_permissions(&at, Permissions::from_mode(0o755)).unwrap();
    let victim = at.join("victim");
    fs::create_dir(&victim).unwrap();
    let why = |path: &Path| {
        let errors = [StateFolder::open(path).unwrap_err(), StateFolder::make(path).unwrap_err()];
        let [open, make] = errors.map(|error| error.to_string());
        assert_eq!(open, make);
        make
    };
    // Another user's link on the way, also where root cannot be tricked by its name.
    symlink(&victim, at.join("link")).unwrap();
    std::os::unix::fs::lchown(at.join("link"), Some(NOBODY), None).unwrap();
    assert!(why(&at.join("link/durio")).contains("is a link that user 65534 can replace"));
    // Root's own link, in a folder where others can exchange it.
    let open = at.join("open");
    fs::create_dir(&open).unwrap();
    symlink(&victim, open.join("link")).unwrap();
    for (mode, owner) in [(0o777, 0), (0o755, NOBODY), (0o775, 0)] {
        fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
        chown(&open, Some(owner), None).unwrap();
        assert!(why(&open.join("link/durio")).contains("can replace"), "{mode:o} {owner}");
    }
    // Where the sticky bit keeps others from it, as in /tmp.
    chown(&open, Some(0), None).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
    assert!(StateFolder::open(&open.join("link/durio")).unwrap().is_none());
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    // The folder itself and its parts.
    let state = StateFolder::make(&at.join("durio")).unwrap();
    let runs = state.make_part(StatePart::Runs).unwrap();
    chown(runs.path(), Some(NOBODY), None).unwrap();
    let error = state.part(StatePart::Runs).unwrap_err();
    assert_eq!(error.to_string(), "it belongs to user 65534");
    chown(at.join("durio"), Some(NOBODY), None).unwrap();
    assert_eq!(why(&at.join("durio")), "it belongs to user 65534");
    // A folder of root in a user's home, as sudo that keeps HOME makes it, is root's own.
    let home = at.join("home");
    fs::create_dir(&home).unwrap();
    chown(&home, Some(NOBODY), None).unwrap();
    assert!(StateFolder::make(&home.join("durio")).is_ok());
}

#[test]
fn a_folder_is_removed_with_its_files_but_not_what_its_links_lead_to() {
    let place = tempfile::tempdir().unwrap();
    let state = StateFolder::make(&place.path().join("durio")).unwrap();
    let runs = state.make_part(StatePart::Runs).unwrap();
    let victim = place.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("f"), "mine").unwrap();
    let run = runs.make_folder("run").unwrap();
    fs::create_dir_all(run.path().join("a/b")).unwrap();
    fs::write(run.path().join("a/b/file"), "x").unwrap();
    symlink(&victim, run.path().join("a/link")).unwrap();
    symlink(&victim, runs.path().join("linked")).unwrap();
    assert!(runs.remove_own_folder("linked").is_err());
    runs.remove_own_folder("run").unwrap();
    assert!(!run.path().exists());
    assert_eq!(fs::read(victim.join("f")).unwrap(), b"mine");
    let deep = runs.path().join("deep/1/2/3/4/5/6/7/8/9");
    fs::create_dir_all(&deep).unwrap();
    assert!(runs.remove_own_folder("deep").unwrap_err().to_string().contains("deeper"));
    assert!(deep.exists());
}
