//! `durio capture`: what a running program does to its storage.
//!
//! The program is durio itself, whose writes and syncs are known. Where tracefs is not mounted, capture
//! mounts it for itself; the kernel's tracing is one for all, and instances have names of their own.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::durio::Running;
use crate::loops::{Mount, sh};
use crate::requirements::{has, skip};
use crate::sandbox::{Sandbox, entries};

const INSTANCES: &str = "unshare -m sh -c 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; \
                         ls /sys/kernel/tracing/instances' || true";

/// True if this kernel traces system calls, and a test may have it do so.
pub(crate) fn can_trace() -> bool {
    if !has(&["root", "unshare"]) {
        return false;
    }
    let events = "/sys/kernel/tracing/events/syscalls/sys_enter_fdatasync";
    let mount = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null";
    let found = sh(&format!("unshare -m sh -c '{mount}; ls -d {events}' 2>/dev/null || true"));
    if found.is_empty() {
        skip("this kernel has no events of system calls in tracefs");
    }
    !found.is_empty()
}

pub(crate) fn instances_of(process: u32) -> String {
    let prefix = format!("durio-{process}-");
    sh(INSTANCES).lines().filter(|it| it.starts_with(&prefix)).collect()
}

/// A program that writes 4 KiB and syncs, over and over, by one worker, without a limit of its own.
pub(crate) fn writer(sandbox: &Sandbox, words: &str) -> Running {
    let line = "run --quiet --no-self-cost --engine sync --buffered --rw write --sync fdatasync \
                --size 4MiB --target data --duration";
    let running = sandbox.durio(&format!("{line} {words}")).start();
    let begin = Instant::now();
    // Until the file of 4 MiB is laid out and the job writes: the layout has a thread of its own,
    // and a test file for the features of the storage is open only for a moment.
    while begin.elapsed() < Duration::from_secs(20) {
        let io = fs::read_to_string(format!("/proc/{}/io", running.id())).unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        if written.and_then(|bytes| bytes.parse::<u64>().ok()) > Some(6 << 20) {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    running
}

pub(crate) fn end(mut running: Running) {
    running.signal(Signal::INT);
    running.wait();
}

fn log(document: &Value) -> &Value {
    let files = document["files"].as_array().unwrap();
    files.iter().find(|it| it["class"] == "log").unwrap_or_else(|| panic!("{document}"))
}

#[test]
fn what_cannot_be_watched_is_refused_with_what_to_do() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("other.json"), r#"{"schema":"durio-findings-1"}"#).unwrap();
    for (line, code, said) in [
        ("capture", 2, "--pid"),
        ("capture --pid 1 --unit x", 2, "cannot be used with"),
        ("capture --pid 0", 2, "0 is not in"),
        ("capture --pid 1 --duration 0s", 2, "watches nothing"),
        ("capture --pid 1 --profile data", 2, "is not overwritten"),
        ("capture --pid 1 --html none/page.html", 2, "'none' is not a directory"),
        ("capture --pid 1 --against none.json", 3, "none.json"),
        ("capture --pid 1 --against other.json", 2, "'other.json' is not an earlier capture"),
        ("capture --unit a/b", 2, "invalid unit name"),
        ("capture --path none", 3, "none"),
    ] {
        sandbox.durio(line).run().expect_exit(code).expect_stderr(said).expect_no_stdout();
    }
    if !can_trace() {
        return;
    }
    // Beyond the highest number that a kernel gives (PID_MAX_LIMIT).
    for (line, said) in [
        ("capture --pid 4194305", "no process has the ID 4194305"),
        ("capture --unit no-such-unit", "unit 'no-such-unit' is not running"),
        ("capture --path data", "no process holds a file below"),
    ] {
        sandbox.durio(line).run().expect_exit(3).expect_stderr(said).expect_no_stdout();
    }
}

#[test]
fn who_may_not_trace_is_told_that_it_takes_root() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let ended = sandbox.durio_as_nobody("capture --pid 1 --duration 1s").run().expect_exit(3);
    ended.expect_stderr("needs root");
}

#[test]
fn every_write_and_sync_is_counted_and_the_profile_runs() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let running = writer(&sandbox, "60s");
    let process = running.id();
    let line =
        format!("capture --pid {process} --duration 1500ms --profile p.toml --html p.html --json");
    let ended = sandbox.durio(&line).run().expect_exit(0).expect_stderr("durio run profile:p.toml");
    let document = ended.json();
    end(running);
    assert_eq!(document["schema"], "durio-capture-1");
    let log = log(&document);
    let (writes, syncs) =
        (log["writes"].as_u64().unwrap(), log["syncs"]["fdatasync"].as_u64().unwrap());
    // One of a pair may lie beyond either end.
    assert!(writes > 10 && writes.abs_diff(syncs) <= 1, "{log}");
    let sizes = log["sizes"].as_array().unwrap();
    assert_eq!((sizes.len(), sizes[0]["bytes"].as_u64()), (1, Some(4096)), "{log}");
    assert_eq!(
        (log["syncing_threads"].as_u64(), log["syncs_at_once"].as_u64()),
        (Some(1), Some(1))
    );
    assert_eq!(document["cost"]["lost_calls"], 0);
    if fs::exists("/proc/self/io").unwrap() {
        let calls = &document["cost"]["write_calls"];
        let halves = [&calls["halves"][0], &calls["halves"][1]];
        assert!(halves.iter().all(|it| it.as_f64() > Some(1.0)), "{calls}");
        assert!(calls["after"].is_number(), "{calls}");
    }
    let page = fs::read_to_string(sandbox.root().join("p.html")).unwrap();
    assert!(page.contains("Sizes of writes") && page.contains("<svg"), "no picture");
    // Long enough for an operation where others keep the disk busy: a step without one is exit code 3.
    let line = "run profile:p.toml --target data --quiet --duration 1s --size 8MiB --json";
    let run = sandbox.durio(line).run().expect_exit(0).json();
    assert_eq!(run["plan"]["purpose"], "profile");
    let shown = sandbox.durio("profile show ./p.toml").run().expect_exit(0);
    shown.expect_stdout("[traced, captured]");
}

#[test]
fn an_earlier_capture_stands_beside_this_one() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let running = writer(&sandbox, "60s");
    let process = running.id();
    let earlier = sandbox.durio(&format!("capture --pid {process} --duration 800ms --json")).run();
    fs::write(sandbox.root().join("before.json"), earlier.expect_exit(0).text()).unwrap();
    let line = format!("capture --pid {process} --duration 800ms --against before.json");
    let shown = sandbox.durio(&line).run().expect_exit(0);
    shown.expect_stdout("compared with the capture of process").expect_stdout("  in writes of 4k");
    let document = sandbox.durio(&format!("{line} --json")).run().expect_exit(0).json();
    end(running);
    let rows = document["beside"]["rows"].as_array().unwrap();
    let threads = rows.iter().find(|it| it["figure"] == "syncing_threads").unwrap();
    assert_eq!((&threads["before"], &threads["ratio"]), (&1.0.into(), &1.0.into()), "{document}");
    let writes = rows.iter().find(|it| it["figure"] == "writes").unwrap();
    assert!(writes["before"].as_f64() > Some(10.0) && writes["now"].as_f64() > Some(10.0));
}

#[test]
fn only_files_below_the_directory_count() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let running = writer(&sandbox, "60s");
    let document =
        sandbox.durio("capture --path data --duration 800ms --json").run().expect_exit(0).json();
    end(running);
    let data = fs::canonicalize(sandbox.data()).unwrap();
    let files = document["files"].as_array().unwrap();
    let is_below = |it: &Value| it["path"].as_str().unwrap().starts_with(data.to_str().unwrap());
    assert!(!files.is_empty() && files.iter().all(is_below), "{files:?}");
}

/// Writes 4 KiB to the first file, with an fsync each, and twice 512 bytes to the second, with an fdatasync,
/// until it is killed.
const TWO_LOGS: &str = "import os, sys, time
one, two = [os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:3]]
for at in range(10 ** 9):
    os.pwrite(one, b'1' * 4096, 4096 * (at % 64))
    os.fsync(one)
    os.pwrite(two, b'2' * 512, 1024 * (at % 64))
    os.pwrite(two, b'2' * 512, 1024 * (at % 64) + 512)
    os.fdatasync(two)
    time.sleep(0.001)
";

#[test]
fn files_of_one_name_and_one_inode_on_two_filesystems_are_told_apart() {
    if !can_trace() || !has(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let points = ["one", "two"].map(|name| Mount::tmpfs(8, &sandbox.root().join(name)));
    let logs = points.each_ref().map(|mount| mount.point().join("log"));
    let mut program = Command::new("python3").args(["-c", TWO_LOGS]).args(&logs).spawn().unwrap();
    let begin = Instant::now();
    while !logs.iter().all(|log| log.exists()) && begin.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(10));
    }
    let inodes = logs.each_ref().map(|log| fs::metadata(log).unwrap().ino());
    let line = format!("capture --pid {} --duration 800ms --json", program.id());
    let ended = sandbox.durio(&line).run();
    program.kill().unwrap();
    program.wait().unwrap();
    // Memory filesystems count from the same number on, each for itself (Linux 5.9).
    assert_eq!(inodes[0], inodes[1]);
    let document = ended.expect_exit(0).json();
    let files = document["files"].as_array().unwrap();
    assert_eq!(files.len(), 2, "{document}");
    for (log, sync, size, writes_per_sync) in
        [(&logs[0], "fsync", 4096, 1), (&logs[1], "fdatasync", 512, 2)]
    {
        let path = fs::canonicalize(log).unwrap();
        let file = files.iter().find(|it| it["path"] == path.to_str().unwrap());
        let file = file.unwrap_or_else(|| panic!("no {}: {document}", path.display()));
        let writes = file["writes"].as_u64().unwrap();
        assert_eq!(
            file["sizes"],
            serde_json::json!([{ "bytes": size, "count": writes }]),
            "{file}"
        );
        let syncs = file["syncs"].as_object().unwrap();
        let count = syncs[sync].as_u64().unwrap();
        assert!(syncs.len() == 1 && count > 10, "{file}");
        // The first and the last may have been under way.
        assert!(writes.abs_diff(count * writes_per_sync) <= 2, "{file}");
        assert_eq!(file["written_bytes"], writes * size, "{file}");
    }
}

#[test]
fn a_process_that_ends_amid_is_told_with_what_was_seen() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    // On a busy machine the capture starts a second after the writer.
    let running = writer(&sandbox, "4s");
    let line = format!("capture --pid {} --duration 60s --json", running.id());
    let capture = sandbox.durio(&line).start();
    running.wait();
    let document = capture.wait_at_most(Duration::from_secs(30)).expect_exit(0).json();
    let early = document["ended_early"].as_str().unwrap();
    assert!(early.contains("the watched process ended after"), "{early}");
    assert!(document["writes"].as_u64().unwrap() > 0, "{document}");
}

#[test]
fn events_that_the_kernel_could_not_keep_are_counted_and_told() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    // In memory, where a write and its sync take a microsecond: the buffers are full in a second.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let line = "run --quiet --no-self-cost --engine sync --buffered --rw write --sync fdatasync \
                --size 4MiB --duration 60s --target";
    let running = sandbox.durio(line).word(memory.path().to_str().unwrap()).start();
    let line = format!("capture --pid {} --duration 12s --json", running.id());
    let mut capture = sandbox.durio(&line).start();
    let begin = Instant::now();
    while instances_of(capture.id()).is_empty() && begin.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(50));
    }
    // Until its events are on.
    sleep(Duration::from_secs(2));
    // Nobody empties them.
    capture.signal(Signal::STOP);
    sleep(Duration::from_secs(6));
    capture.signal(Signal::CONT);
    let document = capture.wait().expect_exit(0).json();
    end(running);
    assert!(document["cost"]["lost_calls"].as_u64() > Some(0), "{}", document["cost"]);
}

#[test]
fn within_a_pid_namespace_nothing_is_watched() {
    if !can_trace() {
        return;
    }
    let durio = env!("CARGO_BIN_EXE_durio");
    let sandbox = Sandbox::new();
    let said = sh(&format!(
        "cd {}; unshare --pid --fork --mount-proc {durio} capture --pid 1 --duration 1s 2>&1; echo $?",
        sandbox.root().display()
    ));
    assert!(said.contains("PID namespace (a container)") && said.ends_with('3'), "{said}");
}

#[test]
fn nothing_durable_makes_no_profile() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut idle = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let line = format!("capture --pid {} --duration 300ms --profile p.toml", idle.id());
    let ended = sandbox.durio(&line).run();
    idle.kill().unwrap();
    idle.wait().unwrap();
    ended.expect_exit(3).expect_stderr("no durable writes were seen").expect_stdout("under load");
    assert!(!sandbox.root().join("p.toml").exists());
}

#[test]
fn an_interrupt_shows_what_was_seen_and_what_a_kill_leaves_the_next_capture_removes() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let running = writer(&sandbox, "60s");
    let line = format!("capture --pid {} --duration 60s --json", running.id());
    let ended_by = |signal, after: u64| {
        let mut capture = sandbox.durio(&line).start();
        let process = capture.id();
        let begin = Instant::now();
        while instances_of(process).is_empty() && begin.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(20));
        }
        sleep(Duration::from_millis(after));
        capture.signal(signal);
        (capture.wait(), process)
    };
    // On a busy machine the writer may not come to write for a while.
    let sees_writes = [300, 1000, 3000, 9000].into_iter().any(|after| {
        let (ended, process) = ended_by(Signal::INT, after);
        assert_eq!(instances_of(process), "", "after an interrupt");
        ended.expect_exit(130).json()["writes"].as_u64().unwrap() > 0
    });
    assert!(sees_writes);
    let (_, process) = ended_by(Signal::KILL, 300);
    sandbox.durio(&line.replace("60s", "10ms")).run().expect_exit(0);
    assert_eq!(instances_of(process), "", "after a kill");
    end(running);
}

/// A capture that was killed while it traced; gives its process.
fn killed_capture(sandbox: &Sandbox, watched: u32) -> u32 {
    let mut capture = sandbox.durio(&format!("capture --pid {watched} --duration 60s")).start();
    let process = capture.id();
    let begin = Instant::now();
    while instances_of(process).is_empty() && begin.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(20));
    }
    capture.signal(Signal::KILL);
    capture.wait();
    process
}

#[test]
fn what_a_killed_capture_left_on_is_found_by_whatever_comes_next() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let running = writer(&sandbox, "300s");
    let marks = || entries(&sandbox.state().join("durio/captures"));
    for next in [
        "run --quiet --engine null --ops 10",
        "doctor data",
        "stack clean",
        "capture --pid 4194305",
    ] {
        let is_told = || {
            let process = killed_capture(&sandbox, running.id());
            assert_eq!(marks().len(), 1, "{next}");
            let ended = sandbox.durio(next).run();
            let said = format!("{}{}", ended.stderr, ended.text());
            assert_eq!(
                (instances_of(process), marks().len()),
                (String::new(), 0),
                "{next}: {said}"
            );
            said.contains(&format!(
                "removed the kernel trace '/sys/kernel/tracing/instances/durio-{process}-"
            ))
        };
        // The kernel's tracing is one for all: another durio may have been quicker to end it.
        assert!((0..5).any(|_| is_told()), "{next}");
    }
    // A capture with another state folder.
    let is_left_to_clean = || {
        let process = killed_capture(&sandbox, running.id());
        fs::remove_dir_all(sandbox.state().join("durio/captures")).unwrap();
        sandbox.durio("run --quiet --engine null --ops 10").run().expect_exit(0);
        // Where tracefs is mounted, every run looks there.
        let is_mounted = fs::read_to_string("/proc/mounts").unwrap().contains(" tracefs ");
        let is_left = !instances_of(process).is_empty();
        if is_mounted {
            return !is_left;
        }
        let said = sandbox.durio("stack clean").run().expect_exit(0).text();
        assert_eq!(instances_of(process), "");
        is_left && said.contains("removed the kernel trace")
    };
    assert!((0..5).any(|_| is_left_to_clean()));
    end(running);
}

#[test]
fn a_capture_that_lives_keeps_its_traces_and_its_mark() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let running = writer(&sandbox, "300s");
    let line = format!("capture --pid {} --duration 60s --json", running.id());
    let mut capture = sandbox.durio(&line).start();
    let process = capture.id();
    let begin = Instant::now();
    while instances_of(process).is_empty() && begin.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(20));
    }
    let before = instances_of(process);
    sandbox.durio("stack clean").run().expect_exit(0).expect_stdout("no bench left anything");
    sandbox.durio("run --quiet --engine null --ops 10").run().expect_exit(0);
    // The second one may have been made since.
    assert!(instances_of(process).starts_with(&before), "{before}");
    assert_eq!(entries(&sandbox.state().join("durio/captures")).len(), 1);
    capture.signal(Signal::INT);
    capture.wait().expect_exit(130);
    assert_eq!(entries(&sandbox.state().join("durio/captures")).len(), 0);
    end(running);
}

#[test]
fn a_trace_of_strace_gives_a_profile_as_a_capture_does() {
    if !has(&["strace"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let folder = sandbox.root().display().to_string();
    let strace = format!("cd {folder} && strace -f -ttt -T -y -o trace.txt");
    sh(&format!("{strace} dd if=/dev/zero of=log bs=4096 count=200 oflag=dsync 2>/dev/null"));
    let line = "capture --strace trace.txt --json --profile mine.toml";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    let log = log(&document);
    let path = log["path"].as_str().unwrap();
    assert!(path.ends_with("/log"), "{path}");
    assert_eq!((&log["writes"], &log["durable_writes"]), (&200.into(), &200.into()), "{log}");
    assert_eq!((&log["sizes"][0]["bytes"], &log["flags"][0]), (&4096.into(), &"O_DSYNC".into()));
    assert_eq!(log["grown_bytes"], 200 * 4096);
    assert!(document["devices"].as_array().unwrap().is_empty());
    let replayed = "run profile:./mine.toml --target data --duration 200ms --quiet";
    sandbox.durio(replayed).run().expect_exit(0);
}

#[test]
fn what_is_no_trace_of_strace_says_how_to_make_one() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("no.txt"), "812 write(3, \"x\", 1) = 1\n\0\u{1}").unwrap();
    let read = |words: &str| sandbox.durio(&format!("capture --strace {words}")).run();
    read("no.txt").expect_exit(2).expect_stderr("no time").expect_stderr("strace -f -ttt -T -y");
    read("nowhere.txt").expect_exit(3).expect_stderr("nowhere.txt");
    read("no.txt --duration 5s").expect_exit(2).expect_stderr("--duration");
    // The word of earlier versions means the same.
    let ended = sandbox.durio("capture --pid 1 --for=0s").run().expect_exit(2);
    ended.expect_stderr("hint: --for is --duration").expect_stderr("--duration 0s watches nothing");
    fs::write(sandbox.root().join("call.txt"), "812 1.0 write(3, \"x\", 1) = 1\n").unwrap();
    let device = sandbox.durio("capture --block-trace call.txt").run();
    let device = device.expect_exit(2).expect_stderr("not a usable trace of blkparse");
    device.expect_stderr("read it with --strace").expect_stderr("blktrace -d DEV");
    read("no.txt --pid 1").expect_exit(2).expect_stderr("--pid");
}

/// Four commits of a log, each of another size.
const SIZES_OF_A_LOG: &str = "\
77 100.000000 pwrite64(5</d/log>, \"x\"..., 4096, 0) = 4096 <0.000010>
77 100.001000 fdatasync(5</d/log>) = 0 <0.000500>
77 100.002000 pwrite64(5</d/log>, \"x\"..., 8192, 4096) = 8192 <0.000010>
77 100.003000 fdatasync(5</d/log>) = 0 <0.000500>
77 100.004000 pwrite64(5</d/log>, \"x\"..., 16384, 12288) = 16384 <0.000010>
77 100.005000 fdatasync(5</d/log>) = 0 <0.000500>
77 100.006000 pwrite64(5</d/log>, \"x\"..., 512, 28672) = 512 <0.000010>
77 100.007000 fdatasync(5</d/log>) = 0 <0.000500>
";

#[test]
fn sizes_of_a_file_are_shares_of_all_its_writes() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("log.strace"), SIZES_OF_A_LOG).unwrap();
    for format in ["text", "markdown", "html"] {
        let line = format!("capture --strace log.strace --verbose --format {format}");
        let shown = sandbox.durio(&line).run().expect_exit(0);
        let shown = shown.expect_stdout("512 B 25.0 %, 4k 25.0 %, 8k 25.0 %, 16k 25.0 %");
        // In a text the cell takes several lines.
        let cell =
            if format == "text" { "more 50.0 %" } else { "512 B 25.0 %, 4k 25.0 %, 2 more 50.0 %" };
        shown.expect_stdout(cell);
    }
}

#[test]
fn biosnoop_is_read_and_says_what_it_does_not_show() {
    let sandbox = Sandbox::new();
    let trace = "\
TIME(s)     COMM           PID     DISK    T SECTOR     BYTES  LAT(ms)
0.000000    db             812     nvme0n1 W 1000       4096      3.10
0.005000    jbd2/nvme0n1p1 477     nvme0n1 W 9000       8192      4.90
0.012000    db             812     nvme0n1 W 1008       4096      3.20
";
    fs::write(sandbox.root().join("blk.txt"), trace).unwrap();
    let line = "capture --block-trace blk.txt";
    let shown = sandbox.durio(line).run().expect_exit(0).expect_stdout("neither flushes nor FUA");
    shown.expect_stdout("3 (199 /s), 16 KiB, p50 3.2 ms\n");
    let document = sandbox.durio(&format!("{line} --json")).run().expect_exit(0).json();
    assert_eq!(document["write_p50_ns"], 3_200_000);
    assert!(document.get("write_p99_ns").is_none(), "of three writes");
    assert_eq!((&document["writes"], &document["written_bytes"]), (&3.into(), &16384.into()));
    assert_eq!(document["files"][0]["path"], "device nvme0n1");
    assert_eq!((&document["processes"], &document["seconds"]), (&2.into(), &0.0151.into()));
}

/// True if durio reads the text that this shell gives it at its standard input for an option.
fn reads_from_shell(sandbox: &Sandbox, shell: &str, option: &str) -> bool {
    let blocks = "\
TIME(s)     COMM           PID     DISK    T SECTOR     BYTES  LAT(ms)
0.000000    db             812     nvme0n1 W 1000       4096      3.10
";
    let path = |name: &str| sandbox.root().join(name);
    fs::write(path("blocks.txt"), blocks).unwrap();
    fs::write(path("calls.txt"), SIZES_OF_A_LOG).unwrap();
    if option == "--against" {
        let earlier = sandbox.durio("capture --strace calls.txt --json").run().expect_exit(0);
        fs::write(path("earlier.json"), earlier.text()).unwrap();
    }
    let (text, rest) = match option {
        "--strace" => ("calls.txt", ""),
        "--block-trace" => ("blocks.txt", ""),
        _ => ("earlier.json", "--strace calls.txt"),
    };
    let line = format!("{} capture {option} /dev/stdin {rest}", env!("CARGO_BIN_EXE_durio"));
    let line = shell.replace("TEXT", text).replace("DURIO", &line);
    let ended = Command::new("sh").args(["-c", &line]).current_dir(sandbox.root()).output();
    ended.unwrap().status.success()
}

#[test]
fn what_has_no_end_is_not_read_to_it() {
    let sandbox = Sandbox::new();
    let torn = fs::File::create(sandbox.root().join("torn.strace")).unwrap();
    std::io::Write::write_all(&mut &torn, SIZES_OF_A_LOG.as_bytes()).unwrap();
    // More zeros than this machine has memory.
    torn.set_len(1 << 40).unwrap();
    let shown = sandbox.durio("capture --strace torn.strace").run().expect_exit(0);
    shown.expect_stdout("line 9 contains NUL bytes").expect_stdout("4 (");
    sandbox.durio("capture --block-trace torn.strace").run().expect_exit(2);
    sandbox
        .durio("capture --strace torn.strace --against torn.strace")
        .run()
        .expect_exit(2)
        .expect_stderr("it is larger than 32 MiB");
    sh(&format!("mkfifo {}/pipe", sandbox.root().display()));
    for option in ["--strace", "--block-trace", "--against"] {
        let read = |name: &str| {
            let line = format!("capture {option} {name}");
            let rest = if option == "--against" { " --strace torn.strace" } else { "" };
            sandbox.durio(&(line + rest)).run()
        };
        read("/dev/zero").expect_exit(3).expect_stderr("it is a device");
        read("pipe").expect_exit(3).expect_stderr("it is a pipe without a writer");
        // The writer has gone before the open, or writes later.
        for shell in ["cat TEXT | (sleep 0.3; DURIO)", "(sleep 0.3; cat TEXT) | DURIO"] {
            assert!(reads_from_shell(&sandbox, shell, option), "{option}: {shell}");
        }
    }
}
