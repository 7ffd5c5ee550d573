//! `durio fio`: the same job files run by fio and by durio do the same, as far as it can be counted:
//! accesses, bytes, syncs, reads among them. Speed is not compared here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::requirements::has;
use crate::sandbox::Sandbox;

/// What a job has done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Done {
    reads: u64,
    writes: u64,
    syncs: u64,
    bytes: u64,
    seconds: f64,
}

impl Done {
    fn accesses(&self) -> u64 {
        self.reads + self.writes
    }

    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            syncs: self.syncs + other.syncs,
            bytes: self.bytes + other.bytes,
            seconds: self.seconds.max(other.seconds),
        }
    }
}

fn job_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fio/{name}.fio"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// The document in what fio prints, which may have notes before it.
fn document(text: &str) -> Value {
    serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap()
}

fn by_fio(sandbox: &Sandbox, file: &Path) -> Vec<(String, Done)> {
    let mut fio = Command::new("fio");
    let fio = fio.arg("--output-format=json").arg(file).current_dir(sandbox.root());
    let output = fio.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let document = document(&String::from_utf8(output.stdout).unwrap());
    let job = |job: &Value| {
        let runtime = number(&job["read"]["runtime"]).max(number(&job["write"]["runtime"]));
        let done = Done {
            reads: number(&job["read"]["total_ios"]),
            writes: number(&job["write"]["total_ios"]),
            syncs: number(&job["sync"]["lat_ns"]["N"]),
            bytes: number(&job["read"]["io_bytes"]) + number(&job["write"]["io_bytes"]),
            seconds: runtime as f64 / 1e3,
        };
        (job["jobname"].as_str().unwrap().to_owned(), done)
    };
    together(document["jobs"].as_array().unwrap().iter().map(job))
}

fn by_durio(sandbox: &Sandbox, file: &Path) -> Vec<(String, Done)> {
    by_durio_with(sandbox, "fio --quiet --format json --destroy data/file", file)
}

fn by_durio_reading(sandbox: &Sandbox, file: &Path) -> Vec<(String, Done)> {
    by_durio_with(sandbox, "fio --quiet --format json", file)
}

fn by_durio_with(sandbox: &Sandbox, line: &str, file: &Path) -> Vec<(String, Done)> {
    let document = sandbox.durio(line).word(file).run().expect_exit(0).json();
    let load = |load: &Value| {
        let seconds = number(&load["measured_ns"]) as f64 / 1e9;
        let mut done = Done { seconds, ..Done::default() };
        for operation in load["operations"].as_array().unwrap() {
            let count = number(&operation["service"]["count"]);
            let rate = operation["bandwidth_bytes_per_second"].as_f64().unwrap();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes")]
            let bytes = (rate * seconds).round() as u64;
            match operation["operation"].as_str().unwrap() {
                "read" => (done.reads, done.bytes) = (count, done.bytes + bytes),
                "write" => (done.writes, done.bytes) = (count, done.bytes + bytes),
                "sync" => done.syncs = count,
                _ => {}
            }
        }
        (load["name"].as_str().unwrap().to_owned(), done)
    };
    together(document["workloads"].as_array().unwrap().iter().map(load))
}

/// Copies of one job in one.
fn together(jobs: impl Iterator<Item = (String, Done)>) -> Vec<(String, Done)> {
    let mut sums: Vec<(String, Done)> = Vec::new();
    for (name, done) in jobs {
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.add(done),
            None => sums.push((name, done)),
        }
    }
    sums
}

/// Runs a job file by both; none without fio. Pairs by the names of the jobs.
fn both(name: &str) -> Option<Vec<(Done, Done)>> {
    if !has(&["fio"]) {
        return None;
    }
    let mut sandbox = Sandbox::new();
    let block = |number: u32| number.wrapping_mul(2_654_435_761).to_le_bytes().repeat(1024);
    let bytes: Vec<u8> = (0..4096_u32).flat_map(block).collect();
    fs::write(sandbox.data().join("file"), bytes).unwrap();
    sandbox.accept_changes();
    let file = job_file(name);
    let (fio, durio) = (by_fio(&sandbox, &file), by_durio(&sandbox, &file));
    sandbox.accept_changes();
    let names = |jobs: &[(String, Done)]| -> Vec<String> {
        jobs.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&fio), names(&durio));
    let pairs: Vec<_> = fio.into_iter().zip(durio).map(|(fio, durio)| (fio.1, durio.1)).collect();
    eprintln!("{name}: {pairs:?}");
    Some(pairs)
}

/// Reads, writes and bytes are the same, to the last one.
#[track_caller]
fn same_counts(name: &str) {
    for (fio, durio) in both(name).into_iter().flatten() {
        let of = |done: Done| (done.reads, done.writes, done.bytes);
        assert_eq!(of(fio), of(durio), "{name}");
        assert!(fio.accesses() > 0, "{name}");
    }
}

#[test]
fn a_sequential_reader_reads_each_block_once() {
    same_counts("sequential_read");
}

#[test]
fn copies_with_a_share_each_read_their_shares() {
    same_counts("shares");
}

#[test]
fn hot_blocks_are_read_for_as_many_bytes() {
    same_counts("zipf");
}

#[test]
fn jobs_of_groups_do_as_much_one_after_the_other() {
    same_counts("groups");
}

#[test]
fn libaio_with_eight_in_flight_does_as_much() {
    same_counts("libaio");
}

#[test]
fn io_uring_with_sixteen_in_flight_does_as_much() {
    same_counts("io_uring");
}

#[test]
fn holes_and_runs_are_as_many() {
    same_counts("holes");
}

#[test]
fn a_log_opened_with_o_dsync_has_as_many_writes() {
    same_counts("dsync");
}

#[test]
fn a_mix_has_its_share_of_reads_and_all_its_bytes() {
    for (fio, durio) in both("random_mixed").into_iter().flatten() {
        assert_eq!((fio.accesses(), fio.bytes), (durio.accesses(), durio.bytes));
        for done in [fio, durio] {
            let share = done.reads as f64 / done.accesses() as f64;
            // Four standard deviations of 3072 draws.
            assert!((share - 0.7).abs() < 4.0 * (0.21_f64 / 3072.0).sqrt(), "{done:?}");
        }
    }
}

#[test]
fn sizes_are_mixed_as_they_are_split() {
    for (fio, durio) in both("split_sizes").into_iter().flatten() {
        // 60 % of 4 KiB, 30 % of 8 KiB, 10 % of 16 KiB; the last access may go over the amount.
        for done in [fio, durio] {
            let mean = done.bytes as f64 / done.accesses() as f64 / 1024.0;
            assert!((mean - 6.4).abs() < 0.35, "{done:?}");
            assert!((16 << 20..(16 << 20) + (16 << 10)).contains(&done.bytes), "{done:?}");
        }
    }
}

#[test]
fn a_log_syncs_after_each_write_and_after_the_last() {
    for (fio, durio) in both("wal").into_iter().flatten() {
        assert_eq!((fio.writes, fio.bytes), (durio.writes, durio.bytes));
        // fio leaves out the sync after the last write.
        assert_eq!((fio.syncs + 1, durio.syncs), (fio.writes, durio.writes));
    }
    for (fio, durio) in both("every_eighth").into_iter().flatten() {
        assert_eq!((fio.writes, fio.bytes), (durio.writes, durio.bytes));
        assert_eq!((fio.syncs + 1, durio.syncs), (fio.writes / 8, durio.writes / 8));
    }
}

#[test]
fn arrivals_come_as_often() {
    for (fio, durio) in both("poisson").into_iter().flatten() {
        for done in [fio, durio] {
            let rate = done.accesses() as f64 / done.seconds;
            // 600 arrivals: five standard deviations are 20 %.
            assert!((320.0..480.0).contains(&rate), "{done:?}");
        }
    }
}

#[test]
fn a_job_that_ends_before_its_neighbour_has_its_own_time() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("job.fio");
    let text = "[global]\nfilename=data/user.db\nrw=randread\ndirect=1\n[short]\nio_size=64k\n\
                [long]\nio_size=128k\nrate_iops=50\n";
    fs::write(&file, text).unwrap();
    let jobs = by_durio_reading(&sandbox, &file);
    assert_eq!(jobs.iter().map(|(_, done)| done.reads).collect::<Vec<_>>(), [16, 32]);
    assert!(jobs[0].1.seconds < jobs[1].1.seconds / 2.0, "{jobs:?}");
}

#[test]
fn a_ramp_is_not_part_of_the_time() {
    for (fio, durio) in both("timed").into_iter().flatten() {
        for done in [fio, durio] {
            assert!((0.75..0.95).contains(&done.seconds), "{done:?}");
        }
    }
}

#[test]
fn an_option_that_cannot_be_honoured_is_named_with_its_line() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("job.fio");
    fs::write(&file, "[a]\nfilename=data/user.db\nrw=randread\nthinktime=1ms\n").unwrap();
    let ended = sandbox.durio("fio").word(&file).run().expect_exit(2).expect_no_stdout();
    ended.expect_stderr("job.fio:4: thinktime=1ms").expect_stderr("rate_iops");
    assert!(sandbox.runs().is_empty());
}

#[test]
fn a_job_that_writes_to_what_exists_needs_permission() {
    let sandbox = Sandbox::new();
    let line = "fio -- --name=a --filename=data/user.db --rw=write --size=1m";
    sandbox.durio(line).run().expect_exit(2).expect_stderr("--destroy 'data/user.db'");
}

#[test]
fn a_command_line_of_fio_makes_its_file_and_removes_it() {
    let sandbox = Sandbox::new();
    let line = "fio --quiet --format json -- --name=a --directory=data --rw=randread --size=4m \
                --direct=1 --numjobs=2";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    assert_eq!(document["workloads"][0]["operations"][0]["service"]["count"], 2048);
}

#[test]
fn a_plan_is_shown_and_nothing_is_run() {
    let sandbox = Sandbox::new();
    let line = "fio --plan -- --name=a --filename=data/user.db --rw=randread --norandommap \
                --bs=8k --time_based --runtime=1h";
    let plan = sandbox.durio(line).run().expect_exit(0).json();
    assert_eq!(plan["steps"][0]["workload"]["block_size_bytes"], 8192);
    assert!(sandbox.runs().is_empty());
}

#[test]
fn neither_files_nor_words_is_wrong_use() {
    let sandbox = Sandbox::new();
    sandbox.durio("fio").run().expect_exit(2).expect_stderr("durio fio JOB.fio");
    sandbox.durio("fio nowhere.fio").run().expect_exit(2).expect_stderr("nowhere.fio");
}
