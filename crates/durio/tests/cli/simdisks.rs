//! Simulated disks over NBD: other programs use them, orders reach them, nothing stays behind.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::durio::{Ended, Running};
use crate::requirements::has;
use crate::sandbox::Sandbox;

/// A disk that is served in a sandbox, at the socket `disk`.
struct Disk<'a> {
    sandbox: &'a Sandbox,
    running: Running,
}

fn serve<'a>(sandbox: &'a Sandbox, options: &str) -> Disk<'a> {
    let line = format!("simdisk serve --socket disk --seed 7 --size 1MiB {options}");
    let mut running = sandbox.durio(&line).start();
    let socket = sandbox.root().join("disk");
    while fs::symlink_metadata(sandbox.root().join("disk.control")).is_err()
        || std::os::unix::net::UnixStream::connect(&socket).is_err()
    {
        assert!(running.is_alive(), "{}", running.stderr());
        thread::sleep(Duration::from_millis(5));
    }
    Disk { sandbox, running }
}

impl Disk<'_> {
    fn uri(&self, socket: &str) -> String {
        format!("nbd+unix:///?socket={}", self.sandbox.root().join(socket).display())
    }

    fn order(&self, line: &str) -> Ended {
        self.sandbox.durio(&format!("simdisk {line} --socket disk")).run()
    }

    fn stats(&self) -> Value {
        self.order("stats").expect_exit(0).json()
    }

    fn cut_and_restore(&self) {
        self.order("cut").expect_exit(0).expect_no_stdout();
        self.order("restore").expect_exit(0).expect_no_stdout();
    }

    /// What qemu-io says; without FUA unless it flushes.
    fn qemu_io(&self, socket: &str, orders: &[&str]) -> (bool, String) {
        let mut command = Command::new("qemu-io");
        command.args(["-f", "raw", "-t", "writeback"]);
        for order in orders {
            command.args(["-c", order]);
        }
        let output = command.arg(self.uri(socket)).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Sixteen writes of 4 KiB, made durable by a flush at the end.
    fn write(&self, socket: &str, pattern: u8) {
        let writes: Vec<String> =
            (0..16).map(|at| format!("write -P {pattern} {} 4096", at * 4096)).collect();
        let orders: Vec<&str> = writes.iter().map(String::as_str).chain(["flush"]).collect();
        let (is_good, said) = self.qemu_io(socket, &orders);
        assert!(is_good && !said.contains("failed"), "{said}");
    }

    /// True if all of them are there.
    fn holds(&self, socket: &str, pattern: u8) -> bool {
        let (_, said) = self.qemu_io(socket, &[&format!("read -P {pattern} 0 65536")]);
        assert!(said.contains("read 65536/65536"), "{said}");
        !said.contains("Pattern verification failed")
    }

    fn end(mut self, signal: Signal) -> Ended {
        self.running.signal(signal);
        self.running.wait()
    }
}

fn sockets(sandbox: &Sandbox) -> Vec<PathBuf> {
    let all = crate::sandbox::entries(sandbox.root()).into_iter();
    all.filter(|it| fs::symlink_metadata(it).is_ok_and(|it| it.file_type().is_socket())).collect()
}

#[test]
fn the_list_has_every_disk_with_what_it_does() {
    let ended = Sandbox::new().durio("simdisk list").run().expect_exit(0).expect_no_stderr();
    let text = ended.text();
    assert!(text.lines().count() >= 20, "{text}");
    assert!(text.starts_with("write-back ") && text.contains("\nflush-ignored "), "{text}");
    assert!(text.lines().all(|line| line.split_once("  ").is_some()), "{text}");
}

#[test]
fn an_honest_disk_keeps_what_was_flushed_and_a_liar_does_not() {
    if !has(&["qemu-io"]) {
        return;
    }
    for (profile, is_kept) in [("write-back", true), ("protected", true), ("flush-ignored", false)]
    {
        let sandbox = Sandbox::new();
        let disk = serve(&sandbox, &format!("--profile {profile}"));
        disk.write("disk", 7);
        assert!(disk.holds("disk", 7), "{profile} before the cut");
        disk.cut_and_restore();
        assert_eq!(disk.holds("disk", 7), is_kept, "{profile}");
        disk.end(Signal::INT).expect_exit(0);
    }
}

#[test]
fn a_disk_without_power_answers_nothing_and_comes_back() {
    if !has(&["qemu-io"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = serve(&sandbox, "");
    disk.write("disk", 7);
    disk.order("cut").expect_exit(0);
    let (_, said) = disk.qemu_io("disk", &["read 0 4096"]);
    assert!(!said.contains("read 4096/4096"), "{said}");
    // Orders that change nothing are none to complain of.
    disk.order("cut").expect_exit(0);
    disk.order("restore").expect_exit(0);
    disk.order("restore").expect_exit(0);
    assert!(disk.holds("disk", 7));
    assert_eq!(disk.stats()["cuts"], 1);
    disk.end(Signal::TERM);
}

#[test]
fn the_counters_tell_what_clients_did() {
    if !has(&["qemu-io"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = serve(&sandbox, "--profile flush-ignored");
    let fresh = disk.stats();
    assert_eq!((&fresh["size"], &fresh["writes"]), (&1_048_576.into(), &0.into()));
    disk.write("disk", 7);
    let stats = disk.stats();
    assert_eq!((&stats["writes"], &stats["fua_writes"]), (&16.into(), &0.into()));
    assert!(stats["flushes"].as_u64().unwrap() > 0, "{stats}");
    assert_eq!(stats["volatile_bytes"], 65_536, "it ignored the flush");
    disk.cut_and_restore();
    assert_eq!(disk.stats()["volatile_bytes"], 0);
    disk.end(Signal::INT).expect_exit(0);
}

#[test]
fn what_is_not_advertised_is_not_sent() {
    if !has(&["nbdinfo", "qemu-io"]) {
        return;
    }
    let offered = |options: &str| {
        let sandbox = Sandbox::new();
        let disk = serve(&sandbox, options);
        let output = Command::new("nbdinfo").arg("--json").arg(disk.uri("disk")).output().unwrap();
        let info: Value = serde_json::from_slice(&output.stdout).unwrap();
        let export = &info["exports"][0];
        assert_eq!(export["export-size"], 1_048_576, "{info}");
        disk.write("disk", 7);
        let flushes = disk.stats()["flushes"].as_u64().unwrap();
        disk.end(Signal::INT).expect_exit(0);
        let can = |name: &str| export[name].as_bool().unwrap();
        (can("can_flush"), can("can_fua"), flushes > 0)
    };
    assert_eq!(offered(""), (true, true, true));
    assert_eq!(offered("--no-fua"), (true, false, true));
    assert_eq!(offered("--no-flush"), (false, false, false));
    assert_eq!(offered("--profile claims-write-through"), (false, false, false));
}

#[test]
fn a_fork_goes_its_own_way() {
    if !has(&["qemu-io"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = serve(&sandbox, "");
    disk.write("disk", 7);
    disk.order("fork --to copy").expect_exit(0).expect_no_stdout();
    disk.write("copy", 8);
    assert!(disk.holds("disk", 7) && disk.holds("copy", 8));
    disk.order("cut").expect_exit(0);
    assert!(disk.holds("copy", 8), "its power is its own");
    let stats = sandbox.durio("simdisk stats --socket copy").run().expect_exit(0).json();
    assert_eq!(stats["cuts"], 0);
    disk.order("fork --to copy")
        .expect_exit(3)
        .expect_stderr("a server is listening there already");
    assert_eq!(sockets(&sandbox).len(), 4);
    disk.end(Signal::INT).expect_exit(0);
    assert_eq!(sockets(&sandbox), [""; 0].map(PathBuf::from), "the copy's too");
}

#[test]
fn an_honest_disk_can_be_told_to_lie() {
    if !has(&["qemu-io"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = serve(&sandbox, "");
    disk.write("disk", 7);
    disk.order("fault write-back").expect_exit(3).expect_stderr("not a profile that lies");
    disk.order("fault flush-ignord").expect_exit(2).expect_stderr("mean 'flush-ignored'?");
    disk.order("fault flush-ignored").expect_exit(0);
    disk.write("disk", 8);
    disk.cut_and_restore();
    assert!(!disk.holds("disk", 8));
    disk.end(Signal::INT).expect_exit(0);
}

#[test]
fn the_sockets_go_with_the_server_and_a_dead_one_is_replaced() {
    let sandbox = Sandbox::new();
    let ended = serve(&sandbox, "").end(Signal::INT).expect_exit(0);
    let root = sandbox.root().display();
    ended
        .expect_stdout(&format!("ready: nbd+unix:///?socket={root}/disk\n"))
        .expect_stderr("seed 7");
    assert_eq!(sockets(&sandbox), [""; 0].map(PathBuf::from));
    serve(&sandbox, "").end(Signal::KILL);
    assert_eq!(sockets(&sandbox).len(), 2, "nobody could remove them");
    let disk = serve(&sandbox, "");
    assert_eq!(disk.stats()["cuts"], 0);
    // Not by a hang-up, which nohup has every child ignore.
    disk.end(Signal::TERM);
    assert_eq!(sockets(&sandbox), [""; 0].map(PathBuf::from));
}

#[test]
fn a_name_that_is_taken_is_left_alone() {
    let sandbox = Sandbox::new();
    let serve_at = |socket: &str| {
        sandbox.durio("simdisk serve --size 1MiB --socket").word(socket).run().expect_exit(3)
    };
    serve_at("data/notes.txt").expect_stderr("it exists and is not a socket");
    serve_at("data").expect_stderr("it exists and is not a socket");
    fs::write(sandbox.root().join("x.control"), "mine").unwrap();
    serve_at("x").expect_stderr("it exists and is not a socket");
    assert_eq!(fs::read_to_string(sandbox.root().join("x.control")).unwrap(), "mine");
    assert_eq!(sockets(&sandbox), [""; 0].map(PathBuf::from), "what was made is gone");
    let disk = serve(&sandbox, "");
    serve_at("disk").expect_stderr("a server is listening there already");
    assert_eq!(disk.stats()["size"], 1_048_576);
    disk.end(Signal::INT).expect_exit(0);
}

#[test]
fn orders_to_nobody_and_wrong_orders_say_what_to_do() {
    let sandbox = Sandbox::new();
    for order in ["cut", "restore", "stats", "fault drops", "fork --to copy"] {
        let ended = sandbox.durio(&format!("simdisk {order} --socket nobody")).run();
        let ended = ended.expect_exit(3).expect_no_stdout().expect_stderr("nobody.control");
        ended.expect_stderr("durio simdisk serve --socket PATH");
    }
    let refused = |line: &str| sandbox.durio(line).run().expect_exit(2).expect_no_stdout();
    refused("simdisk cut").expect_stderr("--socket");
    refused("simdisk serve --socket x --profile drop").expect_stderr("did you mean 'drops'?");
    refused("simdisk serve --socket x --size 5000").expect_stderr("a multiple of 4 KiB");
    refused("simdisk serve --socket x --size 0").expect_stderr("a multiple of 4 KiB");
    refused("simdisk serve --socket x --size many").expect_stderr("64MiB");
    assert_eq!(sockets(&sandbox), [""; 0].map(PathBuf::from));
}

#[test]
fn a_disk_over_tcp_has_its_control_socket_beside() {
    if !has(&["nbdinfo"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "simdisk serve --size 1MiB --socket disk --listen 127.0.0.1:0";
    let mut running = sandbox.durio(line).start();
    while fs::symlink_metadata(sandbox.root().join("disk.control")).is_err() {
        assert!(running.is_alive(), "{}", running.stderr());
        thread::sleep(Duration::from_millis(5));
    }
    sandbox.durio("simdisk stats --socket disk").run().expect_exit(0);
    running.signal(Signal::INT);
    let text = running.wait().expect_exit(0).text();
    assert!(text.starts_with("ready: nbd://127.0.0.1:"), "{text}");
    assert_eq!(sockets(&sandbox), [""; 0].map(PathBuf::from));
}
