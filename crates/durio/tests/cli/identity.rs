//! What is measured and written to is the very thing that was named, whatever other names it has,
//! whoever uses it, and whatever becomes of its name meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::durio::Running;
use crate::loops::{LoopDevice, Mount, sh, sparse_file};
use crate::requirements::has;
use crate::sandbox::Sandbox;

const MIB: usize = 1 << 20;

/// Waits until the only run has a step of this number under way.
fn wait_for_step(sandbox: &Sandbox, running: &mut Running, step: u32) {
    let number = format!("\"step\":{step},");
    let events = || {
        let text = |run: &PathBuf| fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
        let is_it = |line: &str| line.contains("step_started") && line.contains(&number);
        sandbox.runs().iter().any(|run| text(run).lines().any(is_it))
    };
    while !events() {
        assert!(running.is_alive(), "{}", running.stderr());
        thread::sleep(Duration::from_millis(20));
    }
}

/// fio cuts a name at `#` and `;`, takes `:` for the end of one, and strips blanks.
#[test]
fn fio_is_given_the_file_that_was_named_and_no_other() {
    if !has(&["fio"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.root().join("images");
    fs::create_dir(&images).unwrap();
    let keep = images.join("keep");
    for (name, rw) in [
        ("keep#1", "randread"),
        ("keep#1", "randwrite"),
        ("keep;1", "randwrite"),
        ("keep ", "randwrite"),
        ("keep:1", "randwrite"),
        ("keep\\", "randwrite"),
    ] {
        fs::write(&keep, "the user's").unwrap();
        let named = images.join(name);
        fs::write(&named, vec![7; MIB]).unwrap();
        let mut durio = sandbox
            .durio("run --quiet --engine fio:psync --bs 4k --ops 50 --no-self-cost")
            .words(&format!("--rw {rw} --target"))
            .word(&named);
        if rw == "randwrite" {
            durio = durio.word("--destroy").word(&named);
        }
        durio.run().expect_exit(0);
        assert_eq!(fs::read_to_string(&keep).unwrap(), "the user's", "{name:?} {rw}");
        let is_changed = fs::read(&named).unwrap().iter().any(|byte| *byte != 7);
        assert_eq!(is_changed, rw == "randwrite", "{name:?} {rw}");
        fs::remove_file(&named).unwrap();
    }
    assert_eq!(fs::read_dir(&images).unwrap().count(), 1, "fio made a file of its own");
}

#[test]
fn fio_ends_with_a_killed_durio_and_leaves_no_folder() {
    if !has(&["fio"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.may_leave_pointers();
    let temporary = sandbox.root().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let durio = sandbox.durio("run --quiet --engine fio --rw randread --duration 60s");
    let mut running = durio.words("--target data --size 4MiB").env("TMPDIR", &temporary).start();
    let children = format!("/proc/{0}/task/{0}/children", running.id());
    let fio = || {
        let children = fs::read_to_string(&children).unwrap_or_default();
        let is_working = |process: &&str| {
            let words = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
            words.contains("--filename=/proc/")
        };
        children.split_whitespace().find(is_working).map(str::to_owned)
    };
    let process = loop {
        match fio() {
            Some(process) => break process,
            None => assert!(running.is_alive(), "{}", running.stderr()),
        }
        thread::sleep(Duration::from_millis(20));
    };
    running.signal(Signal::KILL);
    running.wait();
    let begin = Instant::now();
    while Path::new("/proc").join(&process).exists() {
        assert!(begin.elapsed() < Duration::from_secs(20), "fio, process {process}, lives on");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "something stays in TMPDIR");
}

/// By what was its name, nobody finds the image any more.
#[test]
fn a_mounted_image_is_refused_though_the_name_that_the_loop_device_knows_is_gone() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let image = sandbox.root().join("image");
    sparse_file(&image, 32);
    sh(&format!("mkfs.ext4 -q -F '{}'", image.display()));
    let device = LoopDevice::read_only_over(&image);
    let mounted =
        Mount::new(&format!("-o ro {}", device.display()), &sandbox.root().join("mounted"));
    let moved = sandbox.root().join("moved");
    fs::rename(&image, &moved).unwrap();
    let run = "run --quiet --rw randwrite --ops 10 --target moved --destroy moved";
    sandbox.durio(run).run().expect_exit(3).expect_stderr("is part of loop");
    drop(mounted);
    drop(device);
}

/// What is loop-mounted is in use by each of its names.
#[test]
fn a_mounted_image_is_refused_through_a_hard_link_and_a_bind_mount() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.root().join("images");
    fs::create_dir(&images).unwrap();
    let (image, link) = (images.join("image"), images.join("link"));
    let mounted = Mount::filesystem("ext4", &image, 32, &sandbox.root().join("mounted"));
    fs::hard_link(&image, &link).unwrap();
    let bound =
        Mount::new(&format!("--bind '{}'", images.display()), &sandbox.root().join("bound"));
    for name in [link, bound.point().join("image"), image] {
        let name = name.display();
        sandbox
            .durio(&format!("run --quiet --rw randwrite --ops 10 --target {name} --destroy {name}"))
            .words("--force-signature")
            .run()
            .expect_exit(3)
            .expect_stderr("is mounted on");
    }
    drop(bound);
    drop(mounted);
}

#[test]
fn a_file_that_a_program_has_open_for_writing_is_refused_and_the_program_named() {
    let sandbox = Sandbox::new();
    let (data, link) = (sandbox.root().join("db"), sandbox.root().join("link"));
    fs::write(&data, vec![1; MIB]).unwrap();
    fs::hard_link(&data, &link).unwrap();
    let file = fs::OpenOptions::new().append(true).open(&data).unwrap();
    let mut program = Command::new("sleep").arg("600").stdout(Stdio::from(file)).spawn().unwrap();
    let run = "run --quiet --rw randwrite --ops 10 --no-self-cost --target link --destroy link";
    let ended = sandbox.durio(run).run();
    program.kill().unwrap();
    program.wait().unwrap();
    let named = format!("sleep (process {}) has it open for writing", program.id());
    ended.expect_exit(3).expect_stderr(&named);
    assert_eq!(fs::read(&data).unwrap(), vec![1; MIB]);
    sandbox.durio(run).run().expect_exit(0);
}

#[test]
fn a_program_that_is_about_to_close_a_file_is_waited_for() {
    let sandbox = Sandbox::new();
    let data = sandbox.root().join("db");
    fs::write(&data, vec![1; MIB]).unwrap();
    let file = fs::OpenOptions::new().append(true).open(&data).unwrap();
    let mut cat = Command::new("cat");
    let mut program = cat.stdin(Stdio::piped()).stdout(Stdio::from(file)).spawn().unwrap();
    // It would keep the file open in this process.
    drop(cat);
    let run = "run --quiet --rw randwrite --ops 10 --no-self-cost --target db --destroy db";
    let running = sandbox.durio(run).start();
    thread::sleep(Duration::from_millis(500));
    drop(program.stdin.take());
    program.wait().unwrap();
    running.wait().expect_exit(0);
    assert_ne!(fs::read(&data).unwrap(), vec![1; MIB]);
}

#[test]
fn what_writes_and_has_no_name_is_said_to_have_none() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("db"), vec![1; MIB]).unwrap();
    // Outside of the namespace of processes in which durio looks.
    let hidden = "exec 3>>db; exec sleep 600";
    let mut shell = Command::new("sh");
    let mut program = shell.args(["-c", hidden]).current_dir(sandbox.root()).spawn().unwrap();
    thread::sleep(Duration::from_millis(200));
    let run = "run --quiet --rw randwrite --ops 10 --no-self-cost --target db --destroy db";
    let alone = ["unshare", "--pid", "--fork", "--mount-proc"];
    let ended = sandbox.durio(run).within(alone).run();
    program.kill().unwrap();
    program.wait().unwrap();
    ended.expect_exit(3).expect_stderr("it is open for writing by an unknown holder");
    assert_eq!(fs::read(sandbox.root().join("db")).unwrap(), vec![1; MIB]);
}

#[test]
fn what_is_written_to_is_what_was_named_though_its_name_is_given_to_another_file() {
    let sandbox = Sandbox::new();
    let (named, moved) = (sandbox.root().join("named"), sandbox.root().join("moved"));
    fs::write(&named, vec![1; 4 * MIB]).unwrap();
    let check = sandbox.durio("check named --destroy named --quiet --duration 1s");
    let mut running = check.start();
    wait_for_step(&sandbox, &mut running, 0);
    fs::rename(&named, &moved).unwrap();
    fs::write(&named, vec![2; 4 * MIB]).unwrap();
    running.wait().expect_exit(0);
    assert_eq!(fs::read(&named).unwrap(), vec![2; 4 * MIB], "another file's bytes");
    assert_ne!(fs::read(&moved).unwrap(), vec![1; 4 * MIB], "the file that was named");
}

#[test]
fn two_durios_do_not_measure_one_file_at_once() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("named"), vec![1; 4 * MIB]).unwrap();
    let run = "run --quiet --no-self-cost --target named --rw";
    let first = sandbox.durio(&format!("{run} randwrite --duration 60s --destroy named"));
    let mut first = first.start();
    wait_for_step(&sandbox, &mut first, 0);
    for (second, reason) in [
        ("randwrite --ops 10 --destroy named", "durio (process"),
        ("randread --ops 10", "'named' is locked by another durio or another program"),
    ] {
        sandbox.durio(&format!("{run} {second}")).run().expect_exit(3).expect_stderr(reason);
    }
    first.signal(Signal::INT);
    first.wait().expect_exit(130);
}

/// A misspelt device would become a file in memory, and a figure of it one of the device.
#[test]
fn a_misspelt_device_is_no_file_among_the_devices() {
    let sandbox = Sandbox::new();
    let typo = format!("/dev/durio-typo-{}", std::process::id());
    let run = format!("run --quiet --rw randwrite --ops 10 --size 1MiB --target {typo}");
    sandbox.durio(&run).run().expect_exit(3).expect_stderr("among device nodes");
    let destroy = format!("{run} --destroy {typo}");
    sandbox.durio(&destroy).run().expect_exit(2).expect_stderr("does not exist");
    sandbox.durio("check /dev --quiet --duration 50ms").run().expect_exit(3);
    assert!(!Path::new(&typo).exists());
}

/// While it is permitted, nobody can mount the device.
#[test]
fn a_device_cannot_be_mounted_while_it_is_overwritten() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let image = sandbox.root().join("image");
    sparse_file(&image, 32);
    sh(&format!("mkfs.ext4 -q -F '{}'", image.display()));
    let device = LoopDevice::over(&image);
    let name = device.display();
    let run = format!("run --quiet --rw randread --duration 60s --target {name} --destroy {name}");
    let mut running = sandbox.durio(&run).words("--force-signature").start();
    wait_for_step(&sandbox, &mut running, 0);
    let point = sandbox.root().join("point");
    fs::create_dir(&point).unwrap();
    let mounted = Command::new("mount").arg(&name).arg(&point).output().unwrap();
    running.signal(Signal::INT);
    running.wait().expect_exit(130);
    assert!(!mounted.status.success());
}
