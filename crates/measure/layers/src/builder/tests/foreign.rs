//! What is there under a name of the build and is not what the build asked for.

use super::*;
use crate::{Dm, DmTarget};

/// The place of the command with this word, once all before it are done.
fn built_until(builder: &mut Builder<'_>, word: &str) -> usize {
    let mut texts = builder.planned.commands.iter().map(|command| command.action.to_string());
    let at = texts.position(|text| text.contains(word)).unwrap();
    for number in 0..at {
        let command = builder.planned.commands[number].clone();
        builder.run_command(number, &command).unwrap();
    }
    at
}

/// A builder is killed in the command with this word, which is done all the same: by the journal it has
/// only begun.
fn killed_in(machine: &Scripted, declared: &DeclaredStack, folder: &Path, word: &str) {
    let mut builder = builder(machine, declared, folder, BuildOptions::default());
    let at = built_until(&mut builder, word);
    let command = builder.planned.commands[at].clone();
    let action = command.action.filled(&builder.values);
    builder.begin(at, &command).unwrap();
    let output = builder.output(at);
    let (system, options) = (builder.system.as_mut(), BuildOptions::default());
    let grounds = &mut builder.grounds;
    Stepper { system, grounds, output, options, stack: "" }.carry_out(&action).unwrap();
    builder.die();
}

/// Changes what the one path of the kernel with this beginning and end says.
fn change(machine: &Scripted, (begin, end): (&str, &str), text: &str) {
    let mut account = machine.0.borrow_mut();
    let is_it = |path: &&String| path.starts_with(begin) && path.ends_with(end);
    let paths: Vec<String> = account.there.paths.keys().filter(is_it).cloned().collect();
    let [path] = paths.as_slice() else { panic!("{paths:?}") };
    account.there.paths.insert(path.clone(), text.to_owned());
}

/// What is left alone at first when the rest of a build is cleaned up after `tamper`.
fn left_alone(declared: &DeclaredStack, word: &str, tamper: impl Fn(&Scripted)) -> String {
    let (machine, folder) = (machine(), folder());
    killed_in(&machine, declared, folder.path(), word);
    tamper(&machine);
    let outcomes = clean_on(&machine, folder.path());
    let CleanState::Cleaned { left_alone, .. } = &outcomes[0].state else { panic!("{outcomes:?}") };
    left_alone.first().cloned().unwrap_or_default()
}

#[test]
fn what_a_step_only_began_to_make_is_known_by_more_than_its_name() {
    let zram = stack(vec![DeclaredKind::Zram(Zram { made: made(1, 64) })]);
    let sized = |machine: &Scripted| change(machine, ("/sys/block/zram", "/disksize"), "4096");
    let why = left_alone(&zram, "hot_add", sized);
    assert!(why.contains("hot_remove: another process has set its size"), "{why}");

    let ram = || DeclaredKind::Ram(Ram { made: made(2, 64) });
    let linear = stack(vec![ram(), DeclaredKind::Dm(Dm { target: DmTarget::Linear })]);
    let renamed = |machine: &Scripted| change(machine, ("/sys/block/dm-", "/dm/uuid"), "DURIO-x");
    let why = left_alone(&linear, "dmsetup create", renamed);
    assert!(why.contains("dmsetup remove durioabc1234-1-0: its identifier is another"), "{why}");

    let files = stack(vec![loops(1, 64), ext4()]);
    let moved = |machine: &Scripted| {
        change(machine, ("/sys/block/loop", "/loop/backing_file"), "/home/user/other");
    };
    let why = left_alone(&files, "losetup --find", |machine| {
        machine.0.borrow_mut().there.paths.remove("/sys/block/loop9/loop/backing_file");
        moved(machine);
    });
    assert!(why.contains("it is backed by another file"), "{why}");

    let mounted = |machine: &Scripted| {
        let place = "/run/durio/durioabc1234".to_owned();
        machine.0.borrow_mut().mounted.insert(place, (77, "/dev/sdy".into()));
    };
    let why = left_alone(&files, "mount -t ext4", mounted);
    assert!(why.contains("durioabc1234: another device is mounted there"), "{why}");
}

#[test]
fn ram_disks_of_another_number_or_size_or_with_something_on_them_are_not_unloaded() {
    let declared = stack(vec![DeclaredKind::Ram(Ram { made: made(2, 64) })]);
    let parameter = |name: &'static str, text: &'static str| {
        move |machine: &Scripted| change(machine, ("/sys/module/brd/parameters/", name), text)
    };
    let written = |machine: &Scripted| {
        let found =
            Signature { device: "ram1".into(), name: "ext4".into(), offset: Bytes::new(1080) };
        machine.0.borrow_mut().signatures.push(found);
    };
    for why in [
        left_alone(&declared, "modprobe brd", parameter("/rd_nr", "3")),
        left_alone(&declared, "modprobe brd", parameter("/rd_size", "65537")),
        left_alone(&declared, "modprobe brd", written),
    ] {
        assert!(why.contains("rmmod brd: its RAM disks are not those that"), "{why}");
    }
    let as_asked = left_alone(&declared, "modprobe brd", |_| ());
    assert_eq!(as_asked, "");
}

#[test]
fn one_sign_of_ram_disks_is_enough_and_other_names_are_none() {
    let build = |path: &str| {
        let (machine, folder) = (machine(), folder());
        machine.0.borrow_mut().there.paths.insert(path.to_owned(), String::new());
        let declared = stack(vec![DeclaredKind::Ram(Ram { made: made(1, 64) })]);
        let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
        build_all(&mut builder).map(|_| ()).map_err(|error| error.to_string())
    };
    for path in ["/sys/module/brd/parameters/rd_nr", "/sys/block/ram7/size"] {
        let error = build(path).unwrap_err();
        assert!(error.contains("RAM disks of brd exist already"), "{path}: {error}");
    }
    for path in ["/sys/block/ramx/size", "/sys/block/zram0/size", "/sys/module/brdx/parameters"] {
        assert_eq!(build(path), Ok(()), "{path}");
    }
}

/// What a check says where the machine is another one than it should be by then.
fn checked(
    declared: &DeclaredStack,
    check: &str,
    tamper: impl Fn(&Scripted),
) -> Result<(), String> {
    let (machine, folder) = (machine(), folder());
    let mut builder = builder(&machine, declared, folder.path(), BuildOptions::default());
    let at = built_until(&mut builder, check);
    tamper(&machine);
    let command = builder.planned.commands[at].clone();
    builder.run_command(at, &command).map(drop).map_err(|error| error.to_string())
}

#[test]
fn an_array_runs_with_its_level_or_came_up_wrong() {
    let declared = stack(vec![loops(3, 64), DeclaredKind::Md(md(5))]);
    let with = |name: &'static str, text: &'static str| {
        checked(&declared, "runs as raid5", move |machine| {
            change(machine, ("/sys/block/md", name), text);
        })
    };
    for state in ["clean", "active", "write-pending", "readonly"] {
        assert_eq!(with("/md/array_state", state), Ok(()), "{state}");
    }
    for state in ["clear", "inactive", "broken", ""] {
        let error = with("/md/array_state", state).unwrap_err();
        assert!(error.ends_with(&format!("its state is '{state}'")), "{error}");
    }
    let error = with("/md/level", "raid0").unwrap_err();
    assert!(error.ends_with("came up as 'raid0' instead of raid5"), "{error}");
}

#[test]
fn a_filesystem_is_mounted_as_what_it_was_made() {
    let declared = stack(vec![loops(1, 64), ext4()]);
    let place = "/run/durio/durioabc1234";
    let with = |kind: Option<&'static str>| {
        checked(&declared, "check that ext4 is mounted", move |machine| {
            let mounts = &mut machine.0.borrow_mut().there.mounts;
            mounts.remove(place);
            mounts.extend(kind.map(|kind| (place.to_owned(), kind.to_owned())));
        })
    };
    assert_eq!(with(Some("ext4")), Ok(()));
    for (kind, found) in [(Some("xfs"), "xfs"), (None, "nothing")] {
        let expected = format!("{found} is mounted at {place} instead of ext4");
        assert_eq!(with(kind), Err(expected));
    }
}

#[test]
fn an_array_that_is_idle_in_between_is_waited_for_from_anew() {
    let (idle, busy) = (["idle", "0", "none"], ["resync", "0", "8 / 64"]);
    let build = |looks: Vec<[&'static str; 3]>| {
        let (machine, folder) = (machine(), folder());
        machine.0.borrow_mut().looks = looks;
        let array = DeclaredKind::Md(DeclaredMd { initial_sync: true, ..md(1) });
        let declared = stack(vec![loops(2, 64), array]);
        let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
        build_all(&mut builder).map(|_| ()).map_err(|error| error.to_string())
    };
    // Ten seconds of looks are 51.
    let forty = vec![idle; 40];
    let ended = vec![["idle", "none", "none"]];
    let twice = [forty.clone(), vec![busy], forty.clone(), ended.clone()].concat();
    assert_eq!(build(twice), Ok(()));
    let error = build([forty.clone(), forty, ended].concat()).unwrap_err();
    assert!(error.contains("is out of sync and is not resyncing"), "{error}");
}

#[test]
fn a_wish_to_stop_is_heard_while_an_array_syncs() {
    let (machine, folder) = (machine(), folder());
    let before = machine.0.borrow().there.clone();
    // It stays so.
    machine.0.borrow_mut().looks = vec![["resync", "0", "8 / 64"]];
    let told = Cell::new(0);
    let progress = |progress: BuildProgress<'_>| {
        if matches!(progress, BuildProgress::Syncing { .. }) {
            told.set(told.get() + 1);
            assert!(told.get() < 100, "the wish is not heard");
        }
    };
    let options = BuildOptions { stop: &|| told.get() >= 3, progress: &progress };
    let array = DeclaredKind::Md(DeclaredMd { initial_sync: true, ..md(1) });
    let declared = stack(vec![loops(2, 64), array]);
    let mut builder = builder(&machine, &declared, folder.path(), options);
    let error = build_all(&mut builder).unwrap_err();
    assert!(matches!(error, BuildError::Stopped(_)), "{error}");
    assert_eq!((told.get(), &machine.0.borrow().there), (3, &before));
}
