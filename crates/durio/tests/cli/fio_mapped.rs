//! Mapped files: the calls and amounts of fio, and an error where a page cannot be had.

use std::fs::File;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fio_trace::Fact::{Advice, Contents, Mappings, OpenFlags};
use crate::fio_trace::{Traced, with_files};
use crate::requirements::has;

/// Accesses and bytes of both directions, by the program's own JSON.
fn amounts(traced: &Traced) -> Value {
    let begin = traced.stdout.iter().position(|&byte| byte == b'{').unwrap();
    let document: Value = serde_json::from_slice(&traced.stdout[begin..]).unwrap();
    let job = &document["jobs"][0];
    let of = |side: &str| [job[side]["io_bytes"].clone(), job[side]["total_ios"].clone()];
    json!([of("read"), of("write")])
}

#[test]
fn mapped_files_are_mapped_advised_and_synced_as_by_fio() {
    if !has(&["fio", "strace"]) {
        return;
    }
    for (lines, amount) in [
        ("rw=randread", json!([[262_144, 64], [0, 0]])),
        ("rw=randread\ndirect=1\nbs=8k", json!([[262_144, 32], [0, 0]])),
        ("rw=read\nfadvise_hint=sequential\nbs=6k", json!([[258_048, 42], [0, 0]])),
        ("rw=write\nend_fsync=1\nzero_buffers\nfadvise_hint=0", json!([[0, 0], [262_144, 64]])),
        ("rw=write\ndirect=1\nbs=64k\nzero_buffers", json!([[0, 0], [262_144, 4]])),
        (
            "rw=randwrite\nfsync=1\nbs=16k\nend_fsync=1\nzero_buffers",
            json!([[0, 0], [262_144, 16]]),
        ),
    ] {
        let lines = format!("filename=data/f\nioengine=mmap\n{lines}");
        let fio = Traced::run(&["fio", "--output-format=json"], &lines);
        let destroy = lines.contains("write").then_some(["--destroy", "data/f"]);
        let mut words = vec![env!("CARGO_BIN_EXE_durio"), "fio", "--quiet", "--out", "runs"];
        words.extend(destroy.into_iter().flatten());
        words.push("--output-format=json");
        let durio = Traced::run(&words, &lines);
        assert_eq!(amounts(&fio), amount, "{lines}");
        assert_eq!(amounts(&durio), amount, "{lines}");
        let syncs = fio.fact(Mappings).as_array().unwrap().len();
        assert!(syncs > 0, "{lines}: fio maps nothing");
        for fact in [Mappings, Advice, OpenFlags, Contents] {
            assert_eq!(durio.fact(fact), fio.fact(fact), "{lines}: {fact:?} (left is durio)");
        }
    }
}

#[test]
fn a_file_that_is_cut_off_while_it_is_mapped_ends_the_run_with_an_error() {
    for (rw, destroy) in [("randread", ""), ("randwrite", "--destroy data/f")] {
        let mut sandbox = with_files();
        let line = format!(
            "fio {destroy} --name=a --filename=data/f --ioengine=mmap --rw={rw} --time_based \
             --runtime=60"
        );
        let running = sandbox.durio(&line).start();
        let maps = format!("/proc/{}/maps", running.id());
        let file = sandbox.data().join("f");
        let is_mapped = || std::fs::read_to_string(&maps).unwrap().contains(file.to_str().unwrap());
        while !is_mapped() {
            std::thread::sleep(Duration::from_millis(20));
        }
        File::options().write(true).open(&file).unwrap().set_len(8192).unwrap();
        let ended = running.wait_at_most(Duration::from_secs(40));
        ended.expect_exit(3).expect_stderr("Input/output error");
        sandbox.accept_changes();
    }
}

#[test]
fn a_way_to_sync_that_mapped_writes_do_not_have_is_refused() {
    let sandbox = with_files();
    let line = "run --target data --engine mmap --rw write --size 1m --ops 20 --sync";
    for method in ["o_dsync", "o_sync", "rwf_dsync", "rwf_sync", "sync_file_range"] {
        let ended = sandbox.durio(&format!("{line} {method}")).run().expect_exit(2);
        ended.expect_stderr(&format!("{method}, which has no effect on the engine mmap"));
    }
    for method in ["none", "fsync", "fdatasync"] {
        sandbox.durio(&format!("{line} {method}")).run().expect_exit(0);
    }
}
