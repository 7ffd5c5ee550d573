//! Arrays of durio's own over files: made, served over NBD, killed, degraded, rebuilt; and wrong use.
//!
//! Other programs judge: qemu-io writes and reads, and the data area of each member is compared by its
//! documented place.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use durio_block::EngineKind;
use rustix::process::Signal;
use serde_json::Value;

use crate::durio::{Ended, Running};
use crate::requirements::{has, skip};
use crate::sandbox::Sandbox;

pub(super) const MIB: u64 = 1 << 20;
pub(super) const MEMBER: u64 = 8 * MIB;
/// docs/formats/raid-superblock.md, of an array of this size.
const DATA_AT: u64 = MIB;

pub(super) fn can_serve() -> bool {
    let probed = EngineKind::Uring.probe();
    if let Err(error) = &probed {
        skip(&error.to_string());
    }
    probed.is_ok() && has(&["qemu-io"])
}

pub(super) struct Array {
    pub(super) sandbox: Sandbox,
}

impl Array {
    /// Files of one size, in the sandbox.
    pub(super) fn of_files(names: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        for name in names {
            File::create_new(sandbox.root().join(name)).unwrap().set_len(MEMBER).unwrap();
        }
        Self { sandbox }
    }

    /// Two members with superblocks, and what else was named.
    pub(super) fn mirror(others: &[&str]) -> Self {
        let it = Self::of_files(&[&["a", "b"], others].concat());
        it.create("data --level 1 --assume-clean", &["a", "b"]).expect_exit(0);
        it
    }

    pub(super) fn create(&self, options: &str, members: &[&str]) -> Ended {
        let destroy: Vec<_> = members.iter().map(|it| format!("--destroy {it}")).collect();
        let line = format!("raid create {options} {} {}", destroy.join(" "), members.join(" "));
        self.sandbox.durio(&line).run()
    }

    pub(super) fn start(&self, members: &str) -> Running {
        let mut running = self.sandbox.durio(&format!("raid start --socket s {members}")).start();
        while !self.is_ready() {
            assert!(running.is_alive(), "{}", running.stderr());
            thread::sleep(Duration::from_millis(5));
        }
        running
    }

    fn is_ready(&self) -> bool {
        let ended = self.raid("status --json");
        ended.code() == 0
    }

    pub(super) fn refused(&self, members: &str) -> Ended {
        let ended = self.sandbox.durio(&format!("raid start --socket other {members}")).run();
        assert!(!self.path("other").exists() && !self.path("other.control").exists());
        ended.expect_exit(3).expect_no_stdout()
    }

    pub(super) fn raid(&self, line: &str) -> Ended {
        self.sandbox.durio(&format!("raid {line} --socket s")).run()
    }

    pub(super) fn status(&self) -> Value {
        self.raid("status --json").expect_exit(0).json()
    }

    pub(super) fn wait_for(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let status = self.status();
            assert_ne!(status["state"], "stopped", "{status}");
            if is_it(&status) {
                return status;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.sandbox.root().join(name)
    }

    /// What qemu-io says; true if all went well.
    fn qemu_io(&self, orders: &[&str]) -> (bool, String) {
        let mut command = Command::new("qemu-io");
        command.args(["-f", "raw", "-t", "writeback"]);
        for order in orders {
            command.args(["-c", order]);
        }
        let uri = format!("nbd+unix:///?socket={}", self.path("s").display());
        let output = command.arg(uri).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let is_good = output.status.success()
            && !said.contains("failed")
            && !said.contains("Pattern verification");
        (is_good, said)
    }

    #[track_caller]
    pub(super) fn must(&self, orders: &[&str]) {
        let (is_good, said) = self.qemu_io(orders);
        assert!(is_good, "{orders:?}: {said}");
    }

    /// The data of a member, by its documented place: whole chunks of 16 KiB.
    pub(super) fn data(&self, name: &str) -> Vec<u8> {
        let length = (MEMBER - DATA_AT - 8192) >> 14 << 14;
        let mut bytes = vec![0; usize::try_from(length).unwrap()];
        File::open(self.path(name)).unwrap().read_exact_at(&mut bytes, DATA_AT).unwrap();
        bytes
    }

    pub(super) fn end(mut running: Running, signal: Signal) -> Ended {
        running.signal(signal);
        running.wait()
    }
}

pub(super) fn standing(status: &Value, path: &str) -> String {
    let devices = status["devices"].as_array().unwrap().iter();
    let mut of_path = devices.filter(|it| it["path"].as_str().is_some_and(|it| it.ends_with(path)));
    of_path.next().map_or("", |it| it["state"].as_str().unwrap()).to_owned()
}

#[test]
fn what_is_written_is_on_both_members_when_it_is_answered() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    let running = array.start("a b");
    // Without a flush: an answer alone is enough.
    array.must(&["write -P 7 1M 2M", "write -P 9 4608 512", "read -P 7 1M 2M"]);
    let (first, second) = (array.data("a"), array.data("b"));
    assert!(first == second);
    let mib = usize::try_from(MIB).unwrap();
    assert!(first[mib..3 * mib].iter().all(|&byte| byte == 7));
    assert!(first[4608..5120].iter().all(|&byte| byte == 9));
    assert!(first[..4608].iter().chain(&first[5120..mib]).all(|&byte| byte == 0));
    array.must(&["write -z 1M 100k", "read -P 0 1M 100k", "read -P 7 1148k 900k"]);
    array.raid("stop").expect_exit(0).expect_no_stdout().expect_stderr("durio: stopped");
    let ended = running.wait().expect_exit(0).expect_stdout("ready: nbd+unix:///?socket=");
    drop(ended);
    assert!(!array.path("s").exists() && !array.path("s.control").exists());
    // A clean end leaves nothing marked.
    let examined = array.sandbox.durio("raid examine --json a b").run().expect_exit(0).json();
    assert_eq!(examined["devices"][1]["member"]["regions_marked"], 0);
    let running = array.start("b a");
    array.must(&["read -P 7 1148k 900k", "read -P 9 4608 512"]);
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn level_10_and_level_0_give_back_what_was_written() {
    if !can_serve() {
        return;
    }
    let all = ["a", "b", "c", "d"];
    for (level, size) in [("10", 2 * (MEMBER - DATA_AT)), ("0", 4 * (MEMBER - DATA_AT))] {
        let array = Array::of_files(&all);
        array.create(&format!("data --level {level} --chunk 64KiB"), &all).expect_exit(0);
        let running = array.start("d c b a");
        let status = array.status();
        assert!(status["size_bytes"].as_u64().unwrap() > size - 4 * 128 * 1024, "{status}");
        array.must(&["write -P 5 100k 5M", "read -P 5 100k 5M"]);
        array.wait_for(|it| it["regions_to_resync"] == 0);
        let (first, second) = (array.data("a"), array.data("b"));
        assert_eq!(first == second, level == "10");
        Array::end(running, Signal::TERM).expect_exit(0);
    }
}

#[test]
fn a_new_mirror_of_devices_that_held_something_is_made_equal_and_may_be_made_of_old_members() {
    if !can_serve() {
        return;
    }
    let array = Array::of_files(&["a", "b"]);
    let length = usize::try_from(MEMBER).unwrap();
    for (name, byte) in [("a", 0x11), ("b", 0x22)] {
        fs::write(array.path(name), vec![byte; length]).unwrap();
    }
    array.create("old --level 1", &["a", "b"]).expect_exit(0);
    assert!(array.data("a") != array.data("b"));
    let running = array.start("a b");
    array.wait_for(|it| it["regions_to_resync"] == 0);
    assert!(array.data("a") == array.data("b") && array.data("a").iter().all(|&it| it == 0x11));
    Array::end(running, Signal::INT).expect_exit(0);
    array.create("new --level 1", &["a", "b"]).expect_exit(3);
    array.create("new --level 1 --force-signature", &["a", "b"]).expect_exit(0);
    let running = array.start("a b");
    assert_eq!(array.status()["name"], "new");
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn acknowledged_writes_survive_a_killed_server_and_the_copies_become_equal() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    for round in 1..=3 {
        let running = array.start("a b");
        array.must(&[&format!("write -P {round} {round}M 300k")]);
        let uri = format!("nbd+unix:///?socket={}", array.path("s").display());
        let endless: Vec<String> =
            (0..2000).map(|at| format!("write -P 77 {}k 4k", at % 512 * 4)).collect();
        let mut writer = Command::new("qemu-io");
        writer.args(["-f", "raw"]).args(endless.iter().flat_map(|it| ["-c", it.as_str()]));
        let mut writer = writer
            .arg(uri)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        array.wait_for(|it| it["devices"][0]["writes"].as_u64().unwrap() > 100);
        Array::end(running, Signal::KILL);
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    let examined = array.sandbox.durio("raid examine --json a b").run().expect_exit(0).json();
    assert_ne!(examined["devices"][0]["member"]["regions_marked"], 0, "{examined}");
    let running = array.start("a b");
    array.must(&["read -P 2 2M 300k", "read -P 3 3M 300k"]);
    array.wait_for(|it| it["regions_to_resync"] == 0);
    assert!(array.data("a") == array.data("b"));
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn a_scrub_finds_a_copy_that_differs_and_repairs_it() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    let running = array.start("a b");
    array.must(&["write -P 1 0 4M"]);
    let scrubbed = |options: &str| {
        array.raid(&format!("scrub {options}")).expect_exit(0);
        array.wait_for(|it| it["scrub"]["is_running"] == false);
        array.status()["scrub"].clone()
    };
    assert_eq!(scrubbed("")["mismatches"], 0);
    // Behind the array's back, in the third of its chunks.
    let file = File::options().write(true).open(array.path("b")).unwrap();
    file.write_all_at(&[9; 512], DATA_AT + 2 * 16384 + 512).unwrap();
    file.sync_all().unwrap();
    let found = scrubbed("");
    assert_eq!((&found["mismatches"], &found["repaired"]), (&1.into(), &0.into()), "{found}");
    assert_eq!(found["places"][0]["offset_bytes"], 2 * 16384, "{found}");
    assert_eq!(found["places"][0]["role"], 1, "{found}");
    array.raid("status").expect_exit(0).expect_stdout("copies of chunks that differ: 1");
    assert_eq!(scrubbed("--repair")["repaired"], 1);
    assert_eq!(scrubbed("")["mismatches"], 0);
    assert!(array.data("a") == array.data("b"));
    Array::end(running, Signal::TERM).expect_exit(0);
}

#[test]
fn a_member_fails_comes_back_by_the_map_and_is_replaced_under_load() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&["c"]);
    // Each client comes to another thread.
    let running = array.start(&format!("--queues {} a b", processors().min(2)));
    array.must(&["write -P 1 0 4M"]);
    array.raid("fail b").expect_exit(0).expect_stderr("durio: degraded: ");
    assert_eq!(array.status()["state"], "degraded");
    array.raid("fail a").expect_exit(3).expect_stderr("the only copy of its data");
    array.must(&["write -P 2 1M 64k", "read -P 1 0 1M"]);
    array.raid("add b").expect_exit(0);
    array.must(&["write -P 3 2M 1M", "write -P 4 5M 64k"]);
    array.wait_for(|it| it["state"] == "running");
    assert!(array.data("a") == array.data("b"));
    // A device that is no member, in the place of one that was removed.
    array.raid("remove b").expect_exit(3).expect_stderr("durio raid fail marks it as failed first");
    // By its role, as durio raid status prints it.
    array.raid("fail 7").expect_exit(3).expect_stderr("no device of the array has the role 7");
    array.raid("fail 1").expect_exit(0);
    array.raid("remove b").expect_exit(0);
    assert_eq!(standing(&array.status(), "/b"), "");
    array.raid("add c").expect_exit(3).expect_stderr("not a member of a durio RAID");
    assert_eq!(standing(&array.status(), "/c"), "");
    array.raid("add --destroy b c").expect_exit(2).expect_stderr("does not match");
    array.raid("add --destroy c c").expect_exit(0);
    array.must(&["write -P 5 3M 1M", "write -P 6 6M 64k"]);
    let status = array.wait_for(|it| it["state"] == "running");
    assert_eq!(standing(&status, "/c"), "in_sync");
    assert!(array.data("a") == array.data("c"));
    array.raid("add b").expect_exit(3).expect_stderr("no member is missing");
    assert_eq!(standing(&array.status(), "/b"), "");
    Array::end(running, Signal::INT).expect_exit(0);
    // The one that was replaced is not taken for a member again.
    let running = array.start("a b c");
    assert_eq!(standing(&array.status(), "/b"), "given_up");
    array.must(&["read -P 5 3M 1M"]);
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn a_detached_start_ends_when_users_can_come_and_says_why_nobody_can() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    let start = |members: &str| {
        array.sandbox.durio(&format!("raid start --detach --socket s {members}")).run()
    };
    start("a").expect_exit(3).expect_stderr("1 of 2 members in sync");
    start("a b").expect_exit(0).expect_stdout("ready: nbd+unix:///?socket=").expect_no_stderr();
    assert!(array.is_ready());
    // The one that is served goes on, and its log too.
    start("a b").expect_exit(3).expect_stderr("'a' is in use");
    array.raid("stop").expect_exit(0);
    assert!(!array.is_ready());
    let log = fs::read_to_string(array.sandbox.root().join("s.log")).unwrap();
    assert_eq!(log.matches("durio: ").count(), 2, "{log}");
}

#[test]
fn a_service_manager_is_told_when_users_can_come() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    let path = array.sandbox.root().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut server =
        array.sandbox.durio("raid start --socket s a b").env("NOTIFY_SOCKET", path).start();
    let mut said = [0; 64];
    let length = manager.recv(&mut said).unwrap();
    assert_eq!(&said[..length], b"READY=1");
    assert!(array.is_ready() && server.is_alive());
    array.raid("stop").expect_exit(0);
}

#[test]
fn a_member_that_is_missing_at_the_start_comes_back_later() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    array.refused("a").expect_stderr("only 1 of 2 members in sync are present");
    let line = "raid start --force --socket s a";
    let mut running = array.sandbox.durio(line).start();
    while !array.is_ready() {
        assert!(running.is_alive(), "{}", running.stderr());
    }
    array.must(&["write -P 8 0 1M"]);
    Array::end(running, Signal::INT).expect_exit(0);
    // It was away, and comes back by the map.
    let running = array.start("a b");
    array.wait_for(|it| it["state"] == "running");
    assert!(array.data("a") == array.data("b"));
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn halves_that_both_went_on_do_not_start_together() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    for half in ["a", "b"] {
        let line = format!("raid start --force --socket s {half}");
        let mut running = array.sandbox.durio(&line).start();
        while !array.is_ready() {
            assert!(running.is_alive(), "{}", running.stderr());
        }
        array.must(&["write -P 8 0 64k"]);
        Array::end(running, Signal::INT).expect_exit(0);
    }
    array.refused("a b").expect_stderr("continued without the others");
    let examined = array.sandbox.durio("raid examine a b").run();
    examined.expect_exit(0).expect_stdout("continued without the others");
}

#[test]
fn an_array_has_one_server_and_a_member_no_other_user() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    let running = array.start("a b");
    array.refused("a b").expect_stderr("has it open for writing");
    let check = array.sandbox.durio("run --target a --destroy a --rw write --duration 1s").run();
    check.expect_exit(3);
    array.must(&["write -P 1 0 64k", "read -P 1 0 64k"]);
    Array::end(running, Signal::INT).expect_exit(0);
    // It is a member when nobody serves it, too.
    let line = "run --target a --destroy a --rw write --duration 1s";
    array.sandbox.durio(line).run().expect_exit(3).expect_stderr("'a' holds durio raid");
    let again = array.create("other --level 1", &["a", "b"]);
    again.expect_exit(3).expect_stderr("--force-signature");
}

#[test]
fn members_that_do_not_fit_together_are_told_by_name() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&["c", "d", "e"]);
    array.create("other --level 1", &["c", "d"]).expect_exit(0);
    array.refused("a c").expect_stderr("belong to different arrays");
    array.refused("a e").expect_stderr("'e' is not a member of a durio RAID");
    array.refused("a nobody").expect_stderr("'nobody'");
    fs::copy(array.path("a"), array.path("twin")).unwrap();
    array.refused("a twin").expect_stderr("'a' and 'twin' are the same member");
    let again = array.sandbox.durio("raid start --socket other a a").run();
    again.expect_exit(2).expect_stderr("are the same");
    // A magic number with anything behind it.
    let mut random: Vec<u8> = (0..MEMBER).map(|at| (at * 2_654_435_761).to_le_bytes()[1]).collect();
    random[..8].copy_from_slice(b"durioRDS");
    fs::write(array.path("e"), &random).unwrap();
    array.refused("a e").expect_stderr("/e' has a damaged superblock");
    assert!(fs::read(array.path("e")).unwrap() == random);
    // One that was overwritten by something else.
    File::options().write(true).open(array.path("b")).unwrap().write_all_at(b"XFSB", 0).unwrap();
    array.refused("a b").expect_stderr("is a member, but was partly overwritten: xfs");
}

#[test]
fn a_newer_superblock_is_not_touched() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    let file = File::options().read(true).write(true).open(array.path("b")).unwrap();
    for place in [0, 4096, MEMBER - 8192, MEMBER - 4096] {
        let mut block = [0; 4096];
        file.read_exact_at(&mut block, place).unwrap();
        block[8] = 4;
        let checksum = crc32c(&block[..4092]);
        block[4092..].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&block, place).unwrap();
    }
    drop(file);
    let before = fs::read(array.path("b")).unwrap();
    array.refused("a b").expect_stderr("use a newer durio");
    assert!(fs::read(array.path("b")).unwrap() == before);
}

/// Bit by bit, as RFC 3720 has it.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

#[test]
fn what_makes_no_array_is_refused_and_nothing_is_written() {
    let array = Array::of_files(&["a", "b", "c", "d", "e"]);
    let refused = |options: &str, members: &[&str], words: &str| {
        array.create(options, members).expect_exit(2).expect_no_stdout().expect_stderr(words);
    };
    refused("x --level 1", &["a"], "level 1 takes 2 to 4");
    refused("x --level 1", &["a", "b", "c", "d", "e"], "level 1 takes 2 to 4");
    refused("x --level 10", &["a", "b", "c"], "an even number from 4 to 32");
    refused("x --level 4", &["a", "b", "c"], "expected 0, 1, 5, 6 or 10");
    refused("x --level 5", &["a", "b"], "level 5 takes 3 to 16");
    refused("x --level 6", &["a", "b", "c"], "level 6 takes 4 to 16");
    refused("x --level 1 --chunk 5000", &["a", "b"], "a power of two from 4 KiB to 1 MiB");
    refused("x --level 1 --chunk 8MiB", &["a", "b"], "a power of two from 4 KiB to 1 MiB");
    refused("x --level 1", &["a", "a"], "are the same");
    refused("x --level 1", &["a", "nobody"], "nobody");
    refused("x --level 0 --spare c --destroy c", &["a", "b"], "level 0");
    refused(&format!("{} --level 1", "n".repeat(33)), &["a", "b"], "1 to 32 bytes");
    let line = "raid create x --level 1 a b --destroy a";
    let unnamed = array.sandbox.durio(line).run().expect_exit(2);
    unnamed.expect_stderr("'b' would be overwritten").expect_stderr("--destroy");
    File::create_new(array.path("small")).unwrap().set_len(MIB).unwrap();
    refused("x --level 1", &["small", "a"], "differ by more than 10 %");
    File::create_new(array.path("tiny")).unwrap().set_len(MIB).unwrap();
    refused("x --level 1", &["small", "tiny"], "is too small");
    for name in ["a", "b", "c", "d", "e"] {
        assert!(fs::read(array.path(name)).unwrap().iter().all(|&byte| byte == 0), "{name}");
    }
    let nobody = array.raid("status").expect_exit(3).expect_no_stdout();
    nobody.expect_stderr("durio raid start --socket PATH");
    let line = "raid start --front vhost --socket s a b";
    array.sandbox.durio(line).run().expect_exit(2).expect_stderr("ublk");
}

pub(super) fn processors() -> usize {
    thread::available_parallelism().unwrap().get()
}

#[test]
fn queues_that_nobody_would_serve_are_refused_and_nothing_is_written() {
    let array = Array::mirror(&[]);
    let before = fs::read(array.path("a")).unwrap();
    let more = format!("--queues {}", processors() + 1);
    for (options, words) in [
        ("--queues 0", "1..=64"),
        ("--queues 65", "1..=64"),
        ("--queues 2 --attach", "the kernel's NBD client has one connection"),
        (more.as_str(), "queues"),
    ] {
        let line = format!("raid start {options} --socket s a b");
        array.sandbox.durio(&line).run().expect_exit(2).expect_no_stdout().expect_stderr(words);
    }
    assert!(fs::read(array.path("a")).unwrap() == before && !array.path("s").exists());
}

#[test]
fn without_ublk_there_is_no_block_device_and_nothing_is_written() {
    if std::path::Path::new("/dev/ublk-control").exists() {
        return skip("this kernel has ublk");
    }
    if !can_serve() {
        return;
    }
    let array = Array::of_files(&["a", "b"]);
    array.create("data --level 1", &["a", "b"]).expect_exit(0);
    let before = fs::read(array.path("a")).unwrap();
    let ended = array.sandbox.durio("raid start --front ublk --socket s a b").run().expect_exit(3);
    ended.expect_stderr("no ublk here").expect_stderr("--front nbd");
    assert!(fs::read(array.path("a")).unwrap() == before, "it was written to");
}

#[test]
fn a_spare_takes_the_place_of_a_member_that_fails() {
    if !can_serve() {
        return;
    }
    let array = Array::of_files(&["a", "b", "c"]);
    let options = "data --level 1 --assume-clean --spare c --destroy c";
    array.create(options, &["a", "b"]).expect_exit(0);
    let running = array.start("a b c");
    array.must(&["write -P 3 0 1M"]);
    assert_eq!(standing(&array.status(), "/c"), "spare");
    array.raid("fail b").expect_exit(0);
    let status = array.wait_for(|it| it["state"] == "running");
    assert_eq!(standing(&status, "/c"), "in_sync");
    assert!(array.data("a") == array.data("c"));
    Array::end(running, Signal::INT).expect_exit(0);
}
