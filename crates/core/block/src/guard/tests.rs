//! The guard against every way in which a name may mislead it.

use std::fs;
use std::io::Write as _;

use super::*;

const NAMED: WriteReason = WriteReason::Named { force_signature: false };

fn folder_with(contents: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::write(&path, contents).unwrap();
    (folder, path)
}

fn permitted(path: &Path) -> Result<WritePermit, GuardRefusal> {
    HeldTarget::open(path).unwrap().permit(NAMED, &Usage::default())
}

#[test]
fn what_is_written_to_is_what_was_permitted_whatever_its_name_leads_to_by_then() {
    let (folder, path) = folder_with("old");
    let permit = permitted(&path).unwrap();
    fs::rename(&path, folder.path().join("moved")).unwrap();
    fs::write(&path, "somebody's").unwrap();
    let opened = permit.open(OpenMode { write: true, ..OpenMode::default() }).unwrap();
    fs::File::from(opened.file).write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("moved")).unwrap(), "new");
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
}

#[test]
fn without_a_permit_nothing_is_opened_for_writing() {
    let (_folder, path) = folder_with("x");
    let held = HeldTarget::open(&path).unwrap();
    let write = OpenMode { write: true, ..OpenMode::default() };
    assert_eq!(held.open_to_read(write).unwrap_err().kind, ErrorKind::PermissionDenied);
    assert!(held.open_to_read(OpenMode::default()).is_ok());
}

#[test]
fn what_is_used_or_holds_something_is_not_permitted() {
    let (_folder, path) = folder_with("x");
    let refusal = |usage: Usage, reason| {
        HeldTarget::open(&path)
            .unwrap()
            .permit(reason, &usage)
            .err()
            .map(|refusal| refusal.to_string())
    };
    let force = WriteReason::Named { force_signature: true };
    let used = Usage { users: vec!["x is swap".into()], ..Usage::default() };
    for reason in [NAMED, force, WriteReason::Built] {
        assert_eq!(refusal(used.clone(), reason).unwrap(), "it is in use: x is swap");
    }
    let signed = Usage { signatures: vec!["ext4".into()], ..Usage::default() };
    assert_eq!(refusal(signed.clone(), NAMED).unwrap(), "it holds ext4");
    assert_eq!(refusal(signed, force), None);
}

#[test]
fn a_member_of_an_array_needs_the_signature_of_one_and_no_other() {
    let (_folder, path) = folder_with("x");
    let refusal = |signatures: &[&str]| {
        let signatures = signatures.iter().map(|signature| (*signature).to_owned()).collect();
        let usage = Usage { signatures, ..Usage::default() };
        let permit = HeldTarget::open(&path).unwrap().permit(WriteReason::Member, &usage);
        permit.err().map(|refusal| refusal.to_string())
    };
    assert_eq!(refusal(&[]).unwrap(), "it is not a member of a durio RAID");
    assert_eq!(refusal(&["ext4"]).unwrap(), "it is not a member of a durio RAID");
    assert_eq!(refusal(&[MEMBER_SIGNATURE, "ext4"]).unwrap(), "it holds ext4");
    assert_eq!(refusal(&[MEMBER_SIGNATURE]), None);
}

#[test]
fn a_claim_lasts_as_long_as_the_last_descriptor_of_it() {
    let (_folder, path) = folder_with("x");
    let permit = permitted(&path).unwrap();
    let claim = permit.claim().unwrap().unwrap();
    drop(permit);
    assert!(matches!(permitted(&path), Err(GuardRefusal::Locked)));
    drop(claim);
    assert!(permitted(&path).is_ok());
}

/// By a hard link, for it is the file that counts.
#[test]
fn a_file_that_somebody_has_open_for_writing_is_not_permitted() {
    let (folder, path) = folder_with("x");
    let link = folder.path().join("link");
    fs::hard_link(&path, &link).unwrap();
    let writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
    assert!(matches!(permitted(&link), Err(GuardRefusal::Written)));
    drop(writer);
    let _reader = fs::File::open(&path).unwrap();
    assert!(permitted(&link).is_ok());
}

#[test]
fn two_durios_do_not_work_on_one_file_unless_both_read_it() {
    let (_folder, path) = folder_with("x");
    let held = HeldTarget::open(&path).unwrap();
    let reading = held.lock_to_read().unwrap();
    assert!(HeldTarget::open(&path).unwrap().lock_to_read().is_ok());
    assert!(matches!(permitted(&path), Err(GuardRefusal::Locked)));
    drop(reading);
    let _writing = permitted(&path).unwrap();
    assert!(matches!(permitted(&path), Err(GuardRefusal::Locked)));
    assert!(matches!(held.lock_to_read(), Err(GuardRefusal::Locked)));
}

#[test]
fn all_names_of_a_thing_have_one_identity() {
    let (folder, path) = folder_with("x");
    let (hard, soft) = (folder.path().join("hard"), folder.path().join("soft"));
    fs::hard_link(&path, &hard).unwrap();
    std::os::unix::fs::symlink(&path, &soft).unwrap();
    let identity = |path: &Path| HeldTarget::open(path).unwrap().identity();
    assert_eq!(identity(&hard), identity(&path));
    assert_eq!(identity(&soft), identity(&path));
    assert_ne!(identity(folder.path()), identity(&path));
}

#[test]
fn pipes_are_refused_and_do_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR).unwrap();
    assert_eq!(HeldTarget::open(&path).unwrap_err().kind, ErrorKind::WrongType);
}

#[test]
fn only_devices_that_keep_nothing_are_written_to_for_that_reason() {
    for path in ["/dev/null", "/dev/zero", "/dev/full"] {
        let held = HeldTarget::open(path.as_ref()).unwrap();
        assert_eq!(held.kind(), TargetType::NullDevice, "{path}");
        let permit = held.permit(WriteReason::KeepsNothing, &Usage::default()).unwrap();
        assert!(permit.claim().unwrap().is_none(), "{path}");
    }
    for path in ["/dev/random", "/dev/urandom"] {
        let refusal = HeldTarget::open(path.as_ref()).unwrap_err();
        assert_eq!(refusal.kind, ErrorKind::WrongType, "{path}");
    }
    let (folder, path) = folder_with("x");
    for path in [path.as_path(), folder.path()] {
        let held = HeldTarget::open(path).unwrap();
        let refusal = held.permit(WriteReason::KeepsNothing, &Usage::default()).unwrap_err();
        let is_denied = |error: &BlockError| error.kind == ErrorKind::PermissionDenied;
        assert!(matches!(&refusal, GuardRefusal::Failed(error) if is_denied(error)), "{refusal}");
    }
}

#[test]
fn what_durio_built_may_lose_signatures_and_a_user_of_it_keeps_it() {
    let (_folder, path) = folder_with("x");
    let of = |reason, users: &[&str]| {
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        let signatures = vec!["ext4".to_owned(), MEMBER_SIGNATURE.to_owned()];
        let permit = HeldTarget::open(&path).unwrap().permit(reason, &Usage { users, signatures });
        permit.err().map(|refusal| refusal.to_string())
    };
    assert_eq!(of(WriteReason::Built, &[]), None);
    let told = of(NAMED, &[]).unwrap();
    assert_eq!(told, format!("it holds ext4, {MEMBER_SIGNATURE}"));
    for reason in [WriteReason::Built, WriteReason::Member, NAMED] {
        assert_eq!(of(reason, &["a", "b"]).unwrap(), "it is in use: a; b", "{reason:?}");
    }
}

#[test]
fn each_held_target_is_found_by_its_own_name_and_with_its_own_access() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["a", "b", "c"] {
        fs::write(at(name), name).unwrap();
    }
    let mut targets = HeldTargets::default();
    targets.hold(TargetAccess::Read(HeldTarget::open(&at("a")).unwrap(), None));
    targets.hold(TargetAccess::Write(permitted(&at("b")).unwrap()));
    let write = OpenMode { write: true, ..OpenMode::default() };
    let (first, second) = (targets.find(&at("a")).unwrap(), targets.find(&at("b")).unwrap());
    assert_eq!((first.target().path(), second.target().path()), (&*at("a"), &*at("b")));
    assert_eq!(first.open(write).unwrap_err().kind, ErrorKind::PermissionDenied);
    fs::File::from(second.open(write).unwrap().file).write_all(b"B").unwrap();
    assert_eq!(fs::read_to_string(at("b")).unwrap(), "B");
    assert_eq!(targets.find(&at("c")).unwrap_err().kind, ErrorKind::PermissionDenied);
}

#[test]
fn what_is_held_has_its_kind_its_size_and_its_own_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let held = |path: &Path| HeldTarget::open(path).unwrap();
    let (three, five) = (folder.path().join("three"), folder.path().join("five"));
    fs::write(&three, "abc").unwrap();
    fs::write(&five, "abcde").unwrap();
    let kinds = [held(&three), held(&five), held(folder.path())].map(|held| held.kind());
    let file = |size| TargetType::File(Bytes::new(size));
    assert_eq!(kinds, [file(3), file(5), TargetType::Directory]);
    assert_ne!(held(&three).identity(), held(&five).identity());
    let devices = ["/dev/null", "/dev/zero"].map(|path| held(Path::new(path)).identity());
    assert!(devices.iter().all(|identity| matches!(identity, TargetIdentity::Device(_))));
    assert_ne!(devices[0], devices[1]);
    // Files alone are locked.
    let locks = [three.as_path(), folder.path(), Path::new("/dev/null")]
        .map(|path| held(path).lock_to_read().unwrap().is_some());
    assert_eq!(locks, [true, false, false]);
    let absent = HeldTarget::open(&folder.path().join("none")).unwrap_err();
    assert_eq!(absent.kind, ErrorKind::NotFound);
}
