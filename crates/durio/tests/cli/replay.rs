//! `durio replay`: what a trace has, done again.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::loops::{Mount, sh};
use crate::requirements::has;
use crate::sandbox::Sandbox;

/// What strace writes of two threads that take turns to write 8 KiB into the last page of a log and to sync it,
/// each millisecond, and of one that writes a table here and there; kept as a trace in `t.trace`.
pub(crate) fn make_trace(sandbox: &Sandbox, milliseconds: u32) {
    let mut text = String::new();
    for at in 0..milliseconds {
        let time = 1000.0 + f64::from(at) / 1000.0;
        let (task, page) = (800 + at % 2, 8192 * (at / 10));
        let (log, table) = ("3</old/pg_wal/000000010000000000000001>", "4</old/base/5/16384>");
        text +=
            &format!("{task} {time:.6} pwrite64({log}, \"\"..., 8192, {page}) = 8192 <0.000020>\n");
        let (time, place) = (time + 0.0001, 8192 * (at * 7919 % 100));
        text += &format!("{task} {time:.6} fdatasync({log}) = 0 <0.000100>\n");
        text +=
            &format!("820 {time:.6} pwrite64({table}, \"\"..., 8192, {place}) = 8192 <0.000020>\n");
    }
    fs::write(sandbox.root().join("strace.txt"), text).unwrap();
    let line = "capture --strace strace.txt --trace t.trace";
    let ended = sandbox.durio(line).run().expect_exit(0);
    ended.expect_stderr("wrote t.trace; do it again with: durio replay t.trace DIR");
}

fn ratios(document: &Value) -> Vec<(String, f64)> {
    let rows = document["beside"]["rows"].as_array().unwrap().iter();
    rows.map(|it| (it["figure"].to_string(), it["ratio"].as_f64().unwrap())).collect()
}

#[test]
fn what_was_written_and_synced_is_done_again_at_the_same_times() {
    let sandbox = Sandbox::new();
    make_trace(&sandbox, 400);
    let line = "replay t.trace data --quiet --html page.html --json";
    let begin = Instant::now();
    let ended = sandbox.durio(line).run();
    assert!(begin.elapsed() > Duration::from_millis(399), "it took its time");
    let document = ended.json();
    // On a busy machine it may end later than it should.
    let kept_up = ended.code() == 0;
    assert!(kept_up || ended.code() == 1, "{}", ended.stderr);
    let replay = &document["replay"];
    assert_eq!((&replay["operations"], &replay["done"]), (&1200.into(), &1200.into()), "{replay}");
    assert_eq!((&replay["threads"], &replay["kept_up"]), (&3.into(), &kept_up.into()), "{replay}");
    assert_eq!((&document["writes"], &document["durable"]), (&800.into(), &400.into()));
    let log = &document["files"][0];
    assert_eq!(
        (&log["class"], &log["path"]),
        (&"log".into(), &"/old/pg_wal/000000010000000000000001".into())
    );
    assert_eq!(log["pattern"]["tail_rewritten"], 360, "{log}");
    for (figure, ratio) in ratios(&document).iter().filter(|it| !it.0.contains("sync_p")) {
        assert!(*ratio < 1.02 && (!kept_up || *ratio > 0.98), "{figure}: {ratio}");
    }
    let page = fs::read_to_string(sandbox.root().join("page.html")).unwrap();
    assert!(page.contains("replay / trace"));
    let shown = sandbox.durio("replay t.trace data --speed 2").run();
    shown.expect_stdout("at 2 times the speed of the trace").expect_stdout("began late by");
    assert_eq!(sandbox.pointers(), [""; 0].map(std::path::PathBuf::from));
    let journals = fs::read_dir(sandbox.state().join("durio/replays")).unwrap();
    assert_eq!(journals.count(), 0, "a replay leaves nothing");
}

#[test]
fn strace_counts_the_calls_that_the_trace_has() {
    if !has(&["strace"]) {
        return;
    }
    let sandbox = Sandbox::new();
    make_trace(&sandbox, 200);
    let durio = env!("CARGO_BIN_EXE_durio");
    let counted = sh(&format!(
        "cd {}; XDG_STATE_HOME=$PWD/state strace -f -c -e trace=pwrite64,fdatasync -o calls.txt \
         {durio} replay t.trace data --speed 0.2 --quiet >shown.txt; cat calls.txt",
        sandbox.root().display()
    ));
    let calls = |name: &str| {
        let line = counted.lines().find(|it| it.ends_with(name)).unwrap_or_default();
        line.split_whitespace().nth(3).map(str::to_owned)
    };
    assert_eq!(calls("fdatasync").as_deref(), Some("200"), "{counted}");
    // Beside them each of the two files is laid out by one.
    assert_eq!(calls("pwrite64").as_deref(), Some("402"), "{counted}");
}

#[test]
fn a_load_that_is_too_much_is_told_and_the_exit_code_is_1() {
    let sandbox = Sandbox::new();
    // 60,000 operations, half of them syncs or what waits for one, in a fifth of a millisecond.
    make_trace(&sandbox, 20_000);
    let ended = sandbox.durio("replay t.trace data --speed 100000 --quiet").run().expect_exit(1);
    ended.expect_stdout("here this load is too much");
}

#[test]
fn what_cannot_be_replayed_is_refused_with_what_to_do() {
    let sandbox = Sandbox::new();
    make_trace(&sandbox, 50);
    let whole = fs::read(sandbox.root().join("t.trace")).unwrap();
    fs::write(sandbox.root().join("cut.trace"), &whole[..whole.len() / 2]).unwrap();
    fs::write(sandbox.root().join("empty.trace"), "").unwrap();
    let head = r#"{"schema":"durio-trace-1","operations":1,"files":[{"path":"a","flags":[],"size_bytes":0}],"capture":null}"#;
    let text = format!("{head}\n[0,9,7,0,\"write\",0,8,false]\n");
    fs::write(sandbox.root().join("other"), text).unwrap();
    sh(&format!("cd {}; gzip -c other >other.trace; rm other", sandbox.root().display()));
    let untimed = "8 1.0 pwrite64(3</d/log>, \"\"..., 512, 0) = 512\n";
    fs::write(sandbox.root().join("untimed.txt"), untimed).unwrap();
    for (line, code, said) in [
        ("replay", 2, "<TRACE>"),
        ("replay t.trace", 2, "<DIR>"),
        ("replay none.trace data", 3, "none.trace"),
        ("replay empty.trace data", 2, "not a trace of durio capture --trace"),
        ("replay strace.txt data", 2, "not a trace of durio capture --trace"),
        ("replay cut.trace data", 2, "'cut.trace' cannot be replayed: it is truncated"),
        ("replay t.trace none", 3, "none"),
        ("replay t.trace t.trace", 2, "'t.trace' is not a directory"),
        ("replay t.trace data --speed 0", 2, "expected a factor"),
        ("replay t.trace data --speed -1", 2, "-1"),
        ("replay t.trace data --speed nan", 2, "expected a factor"),
        ("replay t.trace data --html t.trace", 2, "is not overwritten"),
        ("replay other.trace data", 2, "has no capture to compare with"),
        ("replay t.trace data --format fio-json", 2, "not supported"),
        ("capture --strace strace.txt --trace t.trace", 2, "is not overwritten"),
        ("capture --block-trace strace.txt --trace b.trace", 2, "cannot be used with"),
    ] {
        sandbox.durio(line).run().expect_exit(code).expect_stderr(said).expect_no_stdout();
    }
    fs::write(
        sandbox.root().join("idle.txt"),
        "8 1.0 fsync(3</d/log>) = -1 EIO (Input/output error) <0.1>\n",
    )
    .unwrap();
    let ended = sandbox.durio("capture --strace idle.txt --trace idle.trace").run();
    // What was seen is shown all the same.
    ended.expect_exit(3).expect_stderr("there is no trace to write").expect_stdout("writes");
    let ended = sandbox.durio("capture --strace untimed.txt --trace untimed.trace").run();
    ended.expect_exit(2).expect_stderr("how long calls took").expect_stderr("strace -f -ttt -T");
    for left in ["idle.trace", "untimed.trace"] {
        assert!(!sandbox.root().join(left).exists());
    }
}

#[test]
fn a_full_filesystem_is_told_before_anything_is_made() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    // The table reaches 800 KiB, and a chunk of a megabyte of the log is laid out.
    make_trace(&sandbox, 2000);
    let small = Mount::tmpfs(1, &sandbox.root().join("small"));
    let ended = sandbox.durio("replay t.trace").word(small.point()).run().expect_exit(3);
    ended.expect_stderr("the files of the trace need").expect_stderr("free some space");
    assert_eq!(fs::read_dir(small.point()).unwrap().count(), 0);
}

#[test]
fn an_interrupt_shows_what_was_done_and_what_a_kill_leaves_the_next_replay_removes() {
    if !has(&["root", "losetup", "mkfs.btrfs"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    make_trace(&sandbox, 20_000);
    // Where files need names.
    let image = sandbox.root().join("image");
    let named = Mount::filesystem("btrfs", &image, 256, &sandbox.root().join("disk"));
    let start = |signal| {
        let line = "replay t.trace --quiet --json";
        let mut running = sandbox.durio(line).word(named.point()).start();
        let begin = Instant::now();
        let files = || fs::read_dir(named.point()).unwrap().count();
        // Until its threads are there: the files are laid out then.
        let threads =
            || fs::read_dir(format!("/proc/{}/task", running.id())).map_or(0, Iterator::count);
        while threads() < 4 && begin.elapsed() < Duration::from_secs(60) {
            sleep(Duration::from_millis(10));
        }
        sleep(Duration::from_secs(1));
        running.signal(signal);
        (running.wait(), files())
    };
    let (ended, left) = start(Signal::INT);
    let document = ended.expect_exit(130).json();
    assert_eq!(left, 0, "after an interrupt");
    let early = document["ended_early"].as_str().unwrap();
    assert!(early.contains("of 60000 operations"), "{early}");
    let (ended, left) = start(Signal::KILL);
    assert_eq!((ended.code(), left), (137, 2), "what a kill leaves");
    sandbox.may_leave_pointers();
    make_short(&sandbox);
    let line = "replay short.trace --quiet";
    let next = sandbox.durio(line).word(named.point()).run();
    next.expect_stderr("left by a killed run");
    assert_eq!(fs::read_dir(named.point()).unwrap().count(), 0, "after the next replay");
}

#[test]
fn a_trace_of_the_first_version_of_the_format_is_replayed() {
    let sandbox = Sandbox::new();
    let golden =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../core/record/tests/golden/trace1/trace.jsonl");
    sh(&format!("gzip -c '{golden}' >'{}/t.trace'", sandbox.root().display()));
    let document = sandbox.durio("replay t.trace data --quiet --json").run().json();
    let replay = &document["replay"];
    assert_eq!((&replay["done"], &replay["threads"]), (&6.into(), &2.into()), "{replay}");
    // Two syncs, a write of a file with O_DSYNC, and one that asks for it.
    assert_eq!((&document["writes"], &document["durable"]), (&4.into(), &4.into()));
    assert_eq!(document["written_bytes"], 8192 + 100 + 16384 + 512);
    assert_eq!(document["beside"]["before"]["target"], "what strace wrote in s.txt");
}

fn make_short(sandbox: &Sandbox) {
    let text = "8 1.0 pwrite64(3</d/log>, \"\"..., 512, 0) = 512 <0.1>\n";
    fs::write(sandbox.root().join("short.txt"), text).unwrap();
    sandbox.durio("capture --strace short.txt --trace short.trace").run().expect_exit(0);
}

#[test]
fn a_replay_of_hours_says_how_long_it_takes_and_asks() {
    let sandbox = Sandbox::new();
    // Ten minutes and a second lie between two writes; with `-ttt` any gap may.
    let text = "7 1000.000000 pwrite64(3</old/w>, \"\"..., 512, 0) = 512 <0.000020>\n\
                7 1601.000000 pwrite64(3</old/w>, \"\"..., 512, 512) = 512 <0.000020>\n";
    fs::write(sandbox.root().join("strace.txt"), text).unwrap();
    sandbox.durio("capture --strace strace.txt --trace t.trace").run().expect_exit(0);
    let asked = sandbox.durio("replay t.trace data").run().expect_exit(2);
    asked.expect_stderr("this takes 10 min").expect_stderr("--yes").expect_no_stdout();
    let far = text.replace("1601.", "9000000000.");
    fs::write(sandbox.root().join("far.txt"), far).unwrap();
    sandbox.durio("capture --strace far.txt --trace far.trace").run().expect_exit(0);
    sandbox.durio("replay far.trace data").run().expect_exit(2).expect_stderr("this takes");
    sandbox.durio("replay /dev/zero data").run().expect_exit(3).expect_stderr("it is a device");
}
