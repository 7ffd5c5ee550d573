//! Builds on the scripted machine: whatever fails and wherever it is cut off, nothing stays.

mod foreign;

use std::cell::{Cell, RefCell};
use std::path::Path;

use durio_base::Bytes;

use super::*;
use crate::take_down::clean_with;
use crate::tests::scripted::{Fails, Scripted, There};
use crate::tests::stacks::{ext4, loops, made, md, one_of_each, raid, stack};
use crate::{CleanOutcome, CleanState};
use crate::{DeclaredKind, DeclaredMd, DeclaredStack, Device, Ram, Zram};
use durio_observe::Signature;

const ID: &str = "abc1234";

fn place() -> BuildPlace {
    let mut place = BuildPlace::with_id(ID, Path::new("/files"));
    place.destroy = vec!["/dev/sdx".into(), "/dev/sdy".into()];
    place
}

/// A machine with two disks of the user's, a loop device and a mount.
fn machine() -> Scripted {
    let machine = Scripted::default();
    let mut account = machine.0.borrow_mut();
    for disk in ["sdx", "sdy", "loop9"] {
        account.there.devices.insert(format!("/dev/{disk}"));
        account.there.paths.insert(format!("/sys/block/{disk}/size"), "8192".into());
    }
    let file = "/sys/block/loop9/loop/backing_file".to_owned();
    account.there.paths.insert(file, "/home/user/image".into());
    account.there.mounts.insert("/mnt".into(), "ext4".into());
    account.there.mounts.insert("/sys/kernel/config".into(), "configfs".into());
    drop(account);
    machine
}

/// In memory where that is at hand: the journal's sync calls are thousands here.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn builder<'a>(
    machine: &Scripted,
    declared: &DeclaredStack,
    folder: &Path,
    options: BuildOptions<'a>,
) -> Builder<'a> {
    let planned = plan(declared, &place()).unwrap();
    let begin = Begin::of_this_process(ID, &declared.name);
    let journal = BuildJournal::create(folder, begin).unwrap();
    Builder::on(Box::new(machine.clone()), &declared.name, planned, journal, options)
}

fn build_all(builder: &mut Builder<'_>) -> Result<Vec<BuiltLayer>, BuildError> {
    std::iter::from_fn(|| builder.build_next().transpose()).collect()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

impl Builder<'_> {
    /// As a process that is killed: its files are closed and nothing else happens.
    fn die(mut self) {
        self.begun.clear();
        drop(self.journal.take());
    }
}

fn clean_on(machine: &Scripted, folder: &Path) -> Vec<CleanOutcome> {
    let machine = machine.clone();
    clean_with(folder, &move |_| Box::new(machine.clone()))
}

/// How many operations the whole build has, and what is there in the beginning.
fn dry_run(declared: &DeclaredStack) -> (usize, There) {
    let (machine, folder) = (machine(), folder());
    let before = machine.0.borrow().there.clone();
    let mut builder = builder(&machine, declared, folder.path(), BuildOptions::default());
    let layers = build_all(&mut builder).unwrap();
    assert_eq!(layers.len(), declared.layers.len());
    let operations = machine.0.borrow().log.len();
    builder.tear_down().unwrap();
    assert_eq!(machine.0.borrow().there, before, "{declared:?}");
    assert!(is_empty(folder.path()));
    (operations, before)
}

#[test]
fn every_stack_is_built_and_torn_down_to_what_was_there() {
    for declared in one_of_each() {
        let (operations, _) = dry_run(&declared);
        assert!(operations >= 3);
    }
}

#[test]
fn whichever_command_fails_everything_before_it_is_undone_in_reverse() {
    for declared in one_of_each() {
        let (operations, before) = dry_run(&declared);
        for failing in (0..operations).flat_map(|n| [Fails::Early(n), Fails::Late(n)]) {
            let (machine, folder) = (machine(), folder());
            machine.0.borrow_mut().fails = Some(failing);
            let (ran, undone) = (Cell::new(0), RefCell::new(Vec::new()));
            let progress = |progress: BuildProgress<'_>| match progress {
                BuildProgress::Command(_) => ran.set(ran.get() + 1),
                BuildProgress::Undo(text) => undone.borrow_mut().push(text.to_owned()),
                BuildProgress::Syncing { .. } | BuildProgress::LeftAlone { .. } => (),
            };
            let options = BuildOptions { stop: &|| false, progress: &progress };
            let mut builder = builder(&machine, &declared, folder.path(), options);
            let error = build_all(&mut builder).unwrap_err();
            assert!(error.to_string().contains("` failed ("), "{failing:?}: {error}");
            assert_eq!(machine.0.borrow().there, before, "{failing:?} of {declared:?}");
            let values = builder.values.clone();
            let begun = builder.planned.commands.iter().take(ran.get());
            let undos: Vec<String> = begun
                .filter_map(|command| command.undo.as_ref())
                .map(|undo| crate::place::filled(&undo.to_string(), &values))
                .collect();
            let undone: Vec<String> = undone.borrow().clone();
            assert_eq!(undone.len(), undos.len());
            // A number that the failed command itself would have told is not known here.
            let known = undos.iter().rev().zip(&undone).filter(|(undo, _)| !undo.contains('{'));
            known.for_each(|(undo, undone)| assert_eq!(undo, undone));
            drop(builder);
            assert!(is_empty(folder.path()));
        }
    }
}

#[test]
fn whichever_command_of_a_tear_down_fails_the_next_clean_leaves_what_was_there() {
    let mut told = 0;
    for declared in one_of_each() {
        let (operations, before) = dry_run(&declared);
        let is_as_before = |machine: &Scripted, folder: &Path| {
            machine.0.borrow().there == before && is_empty(folder)
        };
        let tear_down = |failing: Option<Fails>| {
            let (machine, folder) = (machine(), folder());
            let options = BuildOptions::default();
            let mut builder = builder(&machine, &declared, folder.path(), options);
            build_all(&mut builder).unwrap();
            machine.0.borrow_mut().fails = failing;
            let outcome = builder.tear_down();
            machine.0.borrow_mut().fails = None;
            (machine, folder, outcome)
        };
        let all = tear_down(None).0.0.borrow().log.len();
        assert!(all > operations, "{declared:?}");
        // A command that fails once is retried.
        let fails = |n| [Fails::Early(n), Fails::Late(n), Fails::From(n)];
        for failing in (operations..all).flat_map(fails) {
            let (machine, folder, outcome) = tear_down(Some(failing));
            if outcome.is_ok() {
                assert!(is_as_before(&machine, folder.path()), "{failing:?} of {declared:?}");
                continue;
            }
            told += 1;
            assert!(!is_empty(folder.path()), "{failing:?}: no journal of what is left");
            let outcomes = clean_on(&machine, folder.path());
            let is_cleaned =
                |outcome: &CleanOutcome| matches!(outcome.state, CleanState::Cleaned { .. });
            assert!(outcomes.len() == 1 && is_cleaned(&outcomes[0]), "{failing:?}: {outcomes:?}");
            assert!(is_as_before(&machine, folder.path()), "{failing:?} of {declared:?}");
        }
    }
    assert!(told > 100, "{told} tear-downs failed");
}

#[test]
fn a_build_that_is_killed_at_any_step_is_cleaned_up_later() {
    for declared in one_of_each() {
        let (_, before) = dry_run(&declared);
        let steps = plan(&declared, &place()).unwrap().commands.len();
        for killed_at in 0..=steps {
            let (machine, folder) = (machine(), folder());
            let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
            for number in 0..killed_at {
                let command = builder.planned.commands[number].clone();
                builder.run_command(number, &command).unwrap();
            }
            if let Some(command) = builder.planned.commands.get(killed_at).cloned() {
                // The undo of the next step is on disk and the step is not done.
                builder.begin(killed_at, &command).unwrap();
            }
            builder.die();
            let outcomes = clean_on(&machine, folder.path());
            assert_eq!(machine.0.borrow().there, before, "killed at {killed_at} of {declared:?}");
            assert!(outcomes.iter().all(|o| matches!(o.state, CleanState::Cleaned { .. })));
            assert!(is_empty(folder.path()) && clean_on(&machine, folder.path()).is_empty());
        }
    }
}

/// A program whose builder is killed meanwhile goes on, and its answer is in its output file.
#[test]
fn what_a_command_did_after_its_builder_was_killed_is_undone_too() {
    for declared in one_of_each() {
        let (_, before) = dry_run(&declared);
        let steps = plan(&declared, &place()).unwrap().commands.len();
        for killed_at in 0..steps {
            let (machine, folder) = (machine(), folder());
            let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
            for number in 0..killed_at {
                let command = builder.planned.commands[number].clone();
                builder.run_command(number, &command).unwrap();
            }
            let command = builder.planned.commands[killed_at].clone();
            let action = command.action.filled(&builder.values);
            builder.begin(killed_at, &command).unwrap();
            let output = builder.output(killed_at);
            let system = builder.system.as_mut();
            let options = BuildOptions::default();
            let grounds = &mut builder.grounds;
            Stepper { system, grounds, output, options, stack: "" }.carry_out(&action).unwrap();
            builder.die();
            clean_on(&machine, folder.path());
            assert_eq!(machine.0.borrow().there, before, "killed in {killed_at} of {declared:?}");
            assert!(is_empty(folder.path()));
        }
    }
}

#[test]
fn dropping_a_builder_tears_down() {
    let (machine, folder) = (machine(), folder());
    let before = machine.0.borrow().there.clone();
    let declared = stack(vec![loops(2, 64), DeclaredKind::Md(md(1)), ext4()]);
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    builder.build_next().unwrap();
    builder.build_next().unwrap();
    assert_ne!(machine.0.borrow().there, before);
    drop(builder);
    assert_eq!(machine.0.borrow().there, before);
}

#[test]
fn the_stop_flag_ends_a_build_between_commands() {
    for stops_at in 0..8 {
        let (machine, folder) = (machine(), folder());
        let before = machine.0.borrow().there.clone();
        let asked = Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) >= stops_at;
        let options = BuildOptions { stop: &stop, progress: &|_| () };
        let declared = stack(vec![loops(2, 64), DeclaredKind::Md(md(1)), ext4()]);
        let mut builder = builder(&machine, &declared, folder.path(), options);
        let error = build_all(&mut builder).unwrap_err();
        assert!(matches!(error, BuildError::Stopped(_)));
        assert_eq!(machine.0.borrow().there, before);
        assert!(builder.build_next().unwrap().is_none(), "a stopped build does not go on");
    }
}

#[test]
fn an_array_that_comes_up_degraded_is_an_error_unless_asked_for() {
    let build = |removed: u32, degraded: u32| {
        let (machine, folder) = (machine(), folder());
        machine.0.borrow_mut().degraded = degraded;
        let array = DeclaredKind::Md(DeclaredMd { removed, ..md(5) });
        let declared = stack(vec![loops(3, 64), array]);
        let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
        build_all(&mut builder).map(|_| ())
    };
    assert!(build(0, 0).is_ok() && build(1, 0).is_ok());
    let error = build(0, 1).unwrap_err().to_string();
    assert!(error.contains("came up degraded: 1 members are missing instead of 0"), "{error}");
    assert!(build(1, 1).unwrap_err().to_string().contains("2 members are missing"));
}

#[test]
fn a_sync_is_waited_for_from_before_it_begins_until_it_has_ended() {
    let build = |looks: Vec<[&'static str; 3]>| {
        let (machine, folder) = (machine(), folder());
        machine.0.borrow_mut().looks = looks;
        let told = RefCell::new(Vec::new());
        let progress = |progress: BuildProgress<'_>| {
            if let BuildProgress::Syncing { done, all, .. } = progress {
                told.borrow_mut().push((done, all));
            }
        };
        let options = BuildOptions { stop: &|| false, progress: &progress };
        let array = DeclaredKind::Md(DeclaredMd { initial_sync: true, ..md(1) });
        let declared = stack(vec![loops(2, 64), array]);
        let mut builder = builder(&machine, &declared, folder.path(), options);
        let outcome = build_all(&mut builder).map(|_| ()).map_err(|error| error.to_string());
        let left = machine.0.borrow().looks.len();
        (outcome, left, told.take())
    };
    let (before, during) = (["idle", "0", "none"], ["resync", "0", "8 / 64"]);
    let late = ["resync", "32", "40 / 64"];
    let (outcome, left, told) = build(vec![before, during, late, ["idle", "none", "none"]]);
    assert_eq!((outcome, left, told), (Ok(()), 0, vec![(8, 64), (40, 64)]));
    let (outcome, ..) = build(vec![before, during, ["idle", "32", "none"]]);
    assert!(outcome.unwrap_err().contains("is out of sync and is not resyncing"));
}

#[test]
fn a_device_is_overwritten_only_if_it_is_named_unused_and_blank() {
    let build = |destroy: bool, force: bool, signature: bool| {
        let (machine, folder) = (machine(), folder());
        let found =
            Signature { device: "sdx".into(), name: "ext4".into(), offset: Bytes::new(1080) };
        machine.0.borrow_mut().signatures.extend(signature.then_some(found));
        let paths = vec!["/dev/sdx".to_owned()];
        let declared = stack(vec![DeclaredKind::Device(Device { paths }), ext4()]);
        let mut place = BuildPlace { force, ..place() };
        if !destroy {
            place.destroy.clear();
        }
        let planned = plan(&declared, &place).unwrap();
        let journal = BuildJournal::create(folder.path(), Begin::of_this_process(ID, "s")).unwrap();
        let options = BuildOptions::default();
        let mut builder = Builder::on(Box::new(machine.clone()), "s", planned, journal, options);
        let outcome = build_all(&mut builder).map(|_| ()).map_err(|error| error.to_string());
        let touched = machine.0.borrow().log.iter().any(|line| line.contains("/dev/sdx"));
        (outcome, touched)
    };
    assert!(build(true, false, false).0.is_ok() && build(true, true, true).0.is_ok());
    let (outcome, touched) = build(false, true, true);
    assert!(outcome.unwrap_err().contains("--destroy /dev/sdx") && !touched);
    let (outcome, touched) = build(true, false, true);
    let error = outcome.unwrap_err();
    assert!(error.contains("ext4 is on it") && error.contains("--force-signature ") && !touched);
}

#[test]
fn ram_disks_that_are_there_are_left_alone() {
    let (machine, folder) = (machine(), folder());
    machine.0.borrow_mut().there.paths.insert("/sys/module/brd".into(), String::new());
    machine.0.borrow_mut().there.paths.insert("/sys/block/ram0/size".into(), "8".into());
    let before = machine.0.borrow().there.clone();
    let declared = stack(vec![DeclaredKind::Ram(Ram { made: made(1, 64) })]);
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    let error = build_all(&mut builder).unwrap_err();
    assert!(error.to_string().starts_with("RAM disks of brd exist already"), "{error}");
    assert_eq!(machine.0.borrow().there, before);
}

#[test]
fn what_is_busy_stays_in_the_journal_until_it_is_not() {
    let (machine, folder) = (machine(), folder());
    let before = machine.0.borrow().there.clone();
    let declared = stack(vec![loops(1, 64), ext4()]);
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    build_all(&mut builder).unwrap();
    machine.0.borrow_mut().busy = true;
    let error = builder.tear_down().unwrap_err();
    assert!(error.to_string().contains("umount /run/durio/durioabc1234"), "{error}");
    // For three seconds.
    let tries = |machine: &Scripted| {
        let account = machine.0.borrow();
        account.log.iter().filter(|line| line.starts_with("umount ")).count()
    };
    assert_eq!(tries(&machine), 30);
    let still_busy = clean_on(&machine, folder.path());
    assert!(
        matches!(&still_busy[0].state, CleanState::Kept { failures, .. } if failures.len() == 1)
    );
    machine.0.borrow_mut().busy = false;
    let cleaned = clean_on(&machine, folder.path());
    assert!(matches!(&cleaned[0].state, CleanState::Cleaned { undone, .. } if undone.len() == 5));
    assert_eq!((&cleaned[0].stack, &machine.0.borrow().there), (&"test".to_owned(), &before));
}

#[test]
fn a_later_disk_of_the_same_number_is_not_ours() {
    let (machine, folder) = (machine(), folder());
    let declared = stack(vec![DeclaredKind::Zram(Zram { made: made(1, 64) })]);
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    build_all(&mut builder).unwrap();
    let disk = builder.values.get("zram0").unwrap().clone();
    builder.die();
    // Somebody removed it and made another one, which got its number.
    let sequence = format!("/sys/block/zram{disk}/diskseq");
    machine.0.borrow_mut().there.paths.insert(sequence, "77".into());
    let before = machine.0.borrow().there.clone();
    clean_on(&machine, folder.path());
    assert_eq!(machine.0.borrow().there, before);
    assert!(is_empty(folder.path()));
}

#[test]
fn a_living_builder_is_left_alone() {
    let (machine, folder) = (machine(), folder());
    let declared = stack(vec![loops(1, 64), ext4()]);
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    build_all(&mut builder).unwrap();
    let there = machine.0.borrow().there.clone();
    let outcomes = clean_on(&machine, folder.path());
    let alive = CleanState::Alive { pid: std::process::id() };
    assert_eq!(outcomes[0].state, alive);
    assert_eq!(machine.0.borrow().there, there);
    builder.tear_down().unwrap();
}

/// Between the look at a device and the first command on it.
#[test]
fn a_device_that_becomes_another_one_under_its_name_is_not_written_to() {
    let (machine, folder) = (machine(), folder());
    let declared =
        stack(vec![DeclaredKind::Device(Device { paths: vec!["/dev/sdx".to_owned()] }), ext4()]);
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    let look = builder.planned.commands[0].clone();
    builder.run_command(0, &look).unwrap();
    let sequence = "/sys/block/sdx/diskseq".to_owned();
    machine.0.borrow_mut().there.paths.insert(sequence, "77".into());
    let wipe = builder.planned.commands[1].clone();
    let error = builder.run_command(1, &wipe).unwrap_err().to_string();
    assert!(error.contains("no longer the same device: its diskseq was"), "{error}");
    drop(builder);
    let touched = |line: &String| line.contains("/dev/sdx");
    assert!(!machine.0.borrow().log.iter().any(touched), "{:?}", machine.0.borrow().log);
}

/// Whatever the plan says: by mistake it could name any device.
#[test]
fn no_command_runs_on_a_device_that_is_neither_made_nor_permitted() {
    let declared = stack(vec![loops(1, 64), ext4()]);
    for word in ["/dev/sdx", "logdev=/dev/sdx", "0 8 linear /dev/sdx 0", "[\"a|^/dev/sdx$|\"]"] {
        let (machine, folder) = (machine(), folder());
        let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
        let mkfs = builder.planned.commands.iter_mut().find(|command| {
            matches!(&command.action, Action::Run { program, .. } if program == "mkfs.ext4")
        });
        match mkfs.map(|command| &mut command.action) {
            Some(Action::Run { arguments, .. }) => arguments.push(word.to_owned()),
            other => panic!("{other:?}"),
        }
        let error = build_all(&mut builder).unwrap_err().to_string();
        assert!(error.contains("/dev/sdx was neither created by this build nor"), "{error}");
        let ran = machine.0.borrow().log.iter().any(|line| line.starts_with("mkfs"));
        assert!(!ran, "{word}");
    }
}

#[test]
fn a_mount_of_somebody_else_at_our_mount_point_is_left_alone() {
    let (machine, folder) = (machine(), folder());
    let declared = stack(vec![loops(1, 64), ext4()]);
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    build_all(&mut builder).unwrap();
    builder.die();
    let place = "/run/durio/durioabc1234".to_owned();
    machine.0.borrow_mut().mounted.insert(place.clone(), (77, "/dev/sdy".into()));
    let outcomes = clean_on(&machine, folder.path());
    let CleanState::Cleaned { undone, left_alone } = &outcomes[0].state else {
        panic!("{outcomes:?}")
    };
    assert!(machine.0.borrow().there.mounts.contains_key(&place));
    assert!(left_alone[0].contains("umount") && left_alone[0].contains("was"), "{left_alone:?}");
    assert!(!undone.iter().any(|line| line.contains("umount")), "{undone:?}");
}

#[test]
fn what_is_gone_is_not_said_to_be_undone() {
    let (machine, folder) = (machine(), folder());
    let before = machine.0.borrow().there.clone();
    let declared = stack(vec![loops(1, 64), ext4()]);
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    build_all(&mut builder).unwrap();
    builder.die();
    machine.0.borrow_mut().there = before;
    let outcomes = clean_on(&machine, folder.path());
    let nothing = CleanState::Cleaned { undone: Vec::new(), left_alone: Vec::new() };
    assert_eq!(outcomes[0].state, nothing);
}

/// The socket of the one array of a build.
const SOCKET: &str = "/run/durio/durioabc1234-1-0/array";

/// A machine, and a build of ext4 on an array of durio's own over devices of the user's, that is killed.
fn killed_over_an_array(folder: &Path, kind: DeclaredKind) -> (Scripted, There) {
    let machine = machine();
    let before = machine.0.borrow().there.clone();
    let paths = ["/dev/sdx", "/dev/sdy"].map(str::to_owned).into();
    let declared = stack(vec![DeclaredKind::Device(Device { paths }), kind, ext4()]);
    let mut builder = builder(&machine, &declared, folder, BuildOptions::default());
    build_all(&mut builder).unwrap();
    machine.0.borrow_mut().log.clear();
    builder.die();
    (machine, before)
}

fn line_of(machine: &Scripted, part: &str) -> Option<usize> {
    machine.0.borrow().log.iter().position(|line| line.contains(part))
}

#[test]
fn a_server_that_was_killed_too_leaves_nothing_and_its_users_are_released_first() {
    let folder = folder();
    let (machine, before) = killed_over_an_array(folder.path(), raid(1));
    machine.0.borrow_mut().end_server(SOCKET, false);
    let outcomes = clean_on(&machine, folder.path());
    let CleanState::Cleaned { undone, left_alone } = &outcomes[0].state else {
        panic!("{outcomes:?}")
    };
    assert!(
        left_alone.is_empty() && undone.iter().any(|line| line.contains("raid stop")),
        "{undone:?}"
    );
    assert_eq!(machine.0.borrow().there, before);
    // Else unmounting would wait for the dead server for ever.
    let released = line_of(&machine, "fail the users").unwrap();
    assert!(released < line_of(&machine, "umount").unwrap());
    assert_eq!(line_of(&machine, "signal"), None);
    assert!(line_of(&machine, "remove the device").is_some());
}

#[test]
fn a_server_that_lives_is_asked_to_end_and_ended_if_it_does_not() {
    for stubborn in [false, true] {
        let folder = folder();
        let (machine, before) = killed_over_an_array(folder.path(), raid(1));
        machine.0.borrow_mut().stubborn = stubborn;
        clean_on(&machine, folder.path());
        assert_eq!(machine.0.borrow().there, before);
        assert!(line_of(&machine, "TERM").is_some());
        assert_eq!(line_of(&machine, "KILL").is_some(), stubborn);
        assert_eq!(line_of(&machine, "fail the users"), None);
    }
}

#[test]
fn a_device_of_an_array_that_somebody_uses_keeps_its_server() {
    let folder = folder();
    let (machine, _) = killed_over_an_array(folder.path(), raid(1));
    {
        let mut account = machine.0.borrow_mut();
        account.there.mounts.remove("/run/durio/durioabc1234");
        account.busy = true;
    }
    let outcomes = clean_on(&machine, folder.path());
    let CleanState::Kept { failures, .. } = &outcomes[0].state else { panic!("{outcomes:?}") };
    assert!(failures[0].contains("raid stop") && failures[0].contains("in use"), "{failures:?}");
    assert_eq!(line_of(&machine, "signal"), None);
    assert!(machine.0.borrow().servers.contains(SOCKET));
}

/// The members were free as soon as the server was dead, and their superblocks say so.
#[test]
fn an_array_that_was_started_again_since_its_server_was_killed_is_not_wiped() {
    let folder = folder();
    let (machine, _) = killed_over_an_array(folder.path(), raid(1));
    let mut account = machine.0.borrow_mut();
    account.end_server(SOCKET, false);
    let member = account.there.paths.get("/dev/sdx").unwrap().replace('\u{1}', "\u{5}");
    account.there.paths.insert("/dev/sdx".into(), member);
    drop(account);
    let outcomes = clean_on(&machine, folder.path());
    let CleanState::Cleaned { left_alone, .. } = &outcomes[0].state else { panic!("{outcomes:?}") };
    assert!(left_alone[0].contains("/dev/sdx") && left_alone.len() == 1, "{left_alone:?}");
    assert!(machine.0.borrow().there.paths.contains_key("/dev/sdx"));
    assert!(!machine.0.borrow().there.paths.contains_key("/dev/sdy"));
}

#[test]
fn a_server_that_ends_before_it_is_ready_is_told_with_what_it_said() {
    let (machine, folder) = (machine(), folder());
    let declared = stack(vec![loops(2, 64), raid(1)]);
    let before = machine.0.borrow().there.clone();
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    let start = builder.planned.commands.iter_mut().find_map(|command| match &mut command.action {
        Action::Serve { arguments, .. } => Some(arguments),
        _ => None,
    });
    // A word that the server does not know.
    start.unwrap().insert(2, "--no-such-word".into());
    let error = build_all(&mut builder).unwrap_err().to_string();
    assert!(error.contains("durio raid start") && error.contains("it said why"), "{error}");
    assert_eq!(machine.0.borrow().there, before);
}

/// Everything that was in memory is gone then, and whose a device is by now nobody can tell.
#[test]
fn after_a_restart_of_the_machine_only_files_and_folders_are_removed() {
    let (machine, folder) = (machine(), folder());
    let declared = stack(vec![loops(2, 64), DeclaredKind::Md(md(1)), ext4()]);
    let mut builder = builder(&machine, &declared, folder.path(), BuildOptions::default());
    build_all(&mut builder).unwrap();
    builder.die();
    let journal = folder.path().join(format!("{ID}.jsonl"));
    let text = std::fs::read_to_string(&journal).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    std::fs::write(&journal, text.replace(boot.trim(), "another-boot")).unwrap();
    // The loop devices, the mount and so on are somebody else's by now.
    machine.0.borrow_mut().log.clear();
    clean_on(&machine, folder.path());
    let log = machine.0.borrow().log.clone();
    let removes = |line: &String| line.starts_with("remove /");
    assert!(log.iter().all(removes), "{log:?}");
}
