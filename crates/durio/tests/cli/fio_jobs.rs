//! `durio fio`: the same job files run by fio and by durio do the same, as far as it can be counted:
//! accesses, bytes, syncs, reads among them. Speed is not compared here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::requirements::{has, skip};
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
    both_in(Sandbox::new(), name)
}

/// The same on a target that no other load of the machine's disk keeps waiting: for jobs whose rate or
/// time is asserted. A busy disk answered fio once in a second.
fn both_in_memory(name: &str) -> Option<Vec<(Done, Done)>> {
    both_in(Sandbox::in_memory(), name)
}

fn both_in(mut sandbox: Sandbox, name: &str) -> Option<Vec<(Done, Done)>> {
    if !has(&["fio"]) {
        return None;
    }
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
fn vectors_that_nothing_is_joined_to_are_calls_of_one_access() {
    same_counts("vsync");
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
fn reads_and_writes_have_a_place_each() {
    for (fio, durio) in both("two_places").into_iter().flatten() {
        assert_eq!((fio.accesses(), fio.bytes), (durio.accesses(), durio.bytes));
        for done in [fio, durio] {
            assert!((500..730).contains(&done.reads), "{done:?}");
        }
    }
}

#[test]
fn sizes_of_a_range_end_where_the_size_ends() {
    for name in ["size_range", "mapped_sizes"] {
        for (fio, durio) in both(name).into_iter().flatten() {
            assert_eq!(fio.bytes, durio.bytes, "{name}");
            // Sizes are drawn: no more than a quarter apart.
            assert!(fio.accesses().abs_diff(durio.accesses()) * 4 < fio.accesses(), "{name}");
        }
    }
}

#[test]
fn a_last_sync_is_part_of_the_job() {
    for (fio, durio) in both("last_sync").into_iter().flatten() {
        // fio has no latency of it.
        assert_eq!((fio.writes, fio.bytes, fio.syncs), (durio.writes, durio.bytes, 0));
        assert_eq!(durio.syncs, 1);
    }
}

#[test]
fn reads_and_writes_have_a_rate_each() {
    for (fio, durio) in both("two_rates").into_iter().flatten() {
        let kept =
            |done: &Done| (400..500).contains(&done.reads) && (100..200).contains(&done.writes);
        // On a busy machine neither may reach the rates; fio alone says nothing of durio.
        if !kept(&fio) && durio.reads < 400 {
            skip("the disk does not reach the rates of the job, with fio neither");
            continue;
        }
        assert!(kept(&durio), "{fio:?} {durio:?}");
    }
}

#[test]
fn some_of_the_random_accesses_follow_the_one_before() {
    same_counts("partly_random");
}

#[test]
fn a_size_counts_what_the_ramp_moves() {
    for (fio, durio) in both("ramp_by_size").into_iter().flatten() {
        for done in [fio, durio] {
            // 512 accesses at 1000 a second, the first 200 of them in the ramp; fewer where others
            // have the processor then.
            assert!((250..512).contains(&done.reads), "{done:?}");
        }
    }
}

#[test]
fn copies_of_a_file_with_a_size_of_its_own_end_with_it() {
    same_counts("file_size");
}

/// How often lines of a traced run hold `wanted`, by fio and by durio; none without the programs.
fn calls(name: &str, traced: &str, wanted: &str) -> Option<(usize, usize)> {
    if !has(&["fio", "strace"]) {
        return None;
    }
    let mut sandbox = Sandbox::new();
    let data = sandbox.data().join("file");
    let count = |program: &[&str]| {
        fs::write(&data, vec![1; 16 << 20]).unwrap();
        let trace = sandbox.root().join("trace");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-v", "-y", "-s", "0", "-o"]).arg(&trace).args(["-e", traced]);
        let strace = strace.args(program).arg(job_file(name)).current_dir(sandbox.root());
        let output = strace.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = fs::read_to_string(trace).unwrap();
        text.lines().filter(|line| line.contains(wanted)).count()
    };
    let durio = env!("CARGO_BIN_EXE_durio");
    let by_fio = count(&["fio"]);
    let by_durio = count(&[durio, "fio", "--quiet", "--out", "runs", "--destroy", "data/file"]);
    sandbox.accept_changes();
    Some((by_fio, by_durio))
}

#[test]
fn every_pass_through_the_page_cache_begins_without_it() {
    for (name, passes) in [("passes", 4), ("random_passes", 3)] {
        if let Some(counts) = calls(name, "trace=fadvise64", "DONTNEED") {
            assert_eq!(counts, (passes, passes), "{name}");
        }
    }
}

#[test]
fn several_files_are_used_in_turn() {
    same_counts("several_names");
    for file in ["data/file>", "data/second>"] {
        if let Some((fio, durio)) = calls("several_names", "trace=pread64", file) {
            // durio looks at what is there by a few more.
            assert!(fio == 512 && (512..520).contains(&durio), "{file}: {fio} {durio}");
        }
    }
    if !has(&["fio"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let file = job_file("several_files");
    let (fio, durio) = (by_fio(&sandbox, &file), by_durio_reading(&sandbox, &file));
    sandbox.accept_changes();
    let ([(_, fio), ..], [(_, durio), ..]) = (&fio[..], &durio[..]) else { panic!("{fio:?}") };
    assert_eq!((fio.accesses(), fio.bytes), (durio.accesses(), durio.bytes));
    assert_eq!(durio.syncs, 6, "a sync of each file of each copy");
}

#[test]
fn libaio_waits_in_each_sync() {
    let Some((fio, durio)) = calls("aio_syncs", "trace=io_submit,fsync", " fsync(") else { return };
    // fio leaves out the last, and after some writes none is due; durio syncs target and record by
    // some more.
    assert!(fio > 200 && (256..320).contains(&durio), "{fio} {durio}");
    let submitted = calls("aio_syncs", "trace=io_submit", "CMD_FSYNC");
    assert_eq!(submitted, Some((0, 0)), "no sync is in the queue");
}

#[test]
fn a_job_file_comes_from_stdin_or_has_any_name() {
    let sandbox = Sandbox::new();
    let text = "; any\n[a]\nfilename=data/user.db\nrw=randread\nio_size=64k\n";
    for name in ["plain.job", "no_ending"] {
        fs::write(sandbox.root().join(name), text).unwrap();
        for command in ["fio", "run"] {
            let line = format!("{command} --quiet --format json {name}");
            let document = sandbox.durio(&line).run().expect_exit(0).json();
            assert_eq!(document["workloads"][0]["operations"][0]["service"]["count"], 16);
        }
    }
    let mut durio = Command::new(env!("CARGO_BIN_EXE_durio"));
    let file = fs::File::open(sandbox.root().join("plain.job")).unwrap();
    let durio = durio.args(["fio", "--plan", "-"]).stdin(file).current_dir(sandbox.root());
    let output = durio.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn with_readonly_no_job_writes() {
    let sandbox = Sandbox::new();
    let line = "fio --plan -- --readonly --name=a --filename=data/user.db --rw=read --loop=2";
    sandbox.durio(line).run().expect_exit(0);
    let line = line.replace("rw=read", "rw=write");
    sandbox.durio(&line).run().expect_exit(2).expect_stderr("--readonly");
}

#[test]
fn files_are_where_fio_s_names_put_them() {
    let sandbox = Sandbox::new();
    let line = "fio --plan -- --name=data/deep --rw=write --size=1m";
    let plan = sandbox.durio(line).run().expect_exit(0).json();
    assert_eq!(plan["targets"][0]["directory"], "data");
    let line = "fio --plan -- --name=a --filename_format=data/$jobnum/f --rw=write --size=1m";
    sandbox.durio(line).run().expect_exit(2).expect_stderr("data/0");
}

#[test]
fn arrivals_come_as_often() {
    for (fio, durio) in both_in_memory("poisson").into_iter().flatten() {
        // 600 arrivals: five standard deviations are 20 %.
        let kept = |it: &Done| (320.0..480.0).contains(&(it.accesses() as f64 / it.seconds));
        if !kept(&fio) && !kept(&durio) {
            skip("the machine is too busy for the arrivals of the job, with fio too");
            continue;
        }
        assert!(kept(&durio), "{fio:?} {durio:?}");
    }
}

#[test]
fn a_job_that_ends_before_its_neighbour_has_its_own_time() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("job.fio");
    let text = "[global]\nfilename=data/user.db\nrw=randread\ndirect=1\n[short]\nio_size=64k\n\
                [long]\nio_size=128k\nrate_iops=20\n";
    fs::write(&file, text).unwrap();
    let jobs = by_durio_reading(&sandbox, &file);
    assert_eq!(jobs.iter().map(|(_, done)| done.reads).collect::<Vec<_>>(), [16, 32]);
    // The long one keeps its schedule on any machine: 31 gaps of 50 ms. The short one took 0.4 s on a
    // machine with 8 times its load, so there is more than a second between the two.
    assert!(jobs[1].1.seconds >= 1.55, "{jobs:?}");
    assert!(jobs[0].1.seconds < jobs[1].1.seconds - 0.1, "{jobs:?}");
}

#[test]
fn a_ramp_is_not_part_of_the_time() {
    for (fio, durio) in both_in_memory("timed").into_iter().flatten() {
        // With its ramp it would be 1.8 s. The processor may be taken for a while: beside other work
        // fio took up to 7 s.
        assert!(fio.seconds >= 0.75, "{fio:?}");
        assert!((0.75..1.6).contains(&durio.seconds), "{durio:?}");
    }
}

#[test]
fn a_job_that_thinks_pauses_as_often_as_in_fio() {
    for (fio, durio) in both_in_memory("thinking").into_iter().flatten() {
        let of = |done: Done| (done.reads, done.writes, done.bytes);
        assert_eq!(of(fio), of(durio));
        // Eight pauses of 50 ms; durio's time ends with the last access, before the last pause. The
        // processor may be taken for a while.
        assert!(fio.seconds >= 0.4, "{fio:?}");
        assert!((0.35..1.2).contains(&durio.seconds), "{durio:?}");
    }
}

#[test]
fn an_option_that_cannot_be_honoured_is_named_with_its_line() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("job.fio");
    fs::write(&file, "[a]\nfilename=data/user.db\nrw=randread\nthinktime_iotime=1\n").unwrap();
    let ended = sandbox.durio("fio").word(&file).run().expect_exit(2).expect_no_stdout();
    ended.expect_stderr("job.fio:4: thinktime_iotime=1").expect_stderr("thinktime_blocks");
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
    let workloads = document["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), 1, "both copies are one workload");
    assert_eq!(workloads[0]["effective"]["jobs"], 2);
    assert_eq!(workloads[0]["operations"][0]["service"]["count"], 2 * 1024);
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

#[test]
fn calls_that_submit_a_whole_batch_are_shown_as_such_as_fio_shows_them() {
    let sandbox = Sandbox::new();
    let job = "[batch]\nrw=randread\nioengine=libaio\ndirect=1\nbs=4k\nsize=1m\niodepth=32\n\
               iodepth_batch=32\niodepth_batch_complete_min=32\niodepth_batch_complete_max=32\n";
    fs::write(sandbox.root().join("batch.fio"), job).unwrap();
    let levels = "0=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=100.0%, 64=0.0%, >=64=0.0%";
    let ended = sandbox.durio("fio batch.fio").run().expect_exit(0);
    let ended = ended.expect_stdout(&format!("submit    : {levels}"));
    ended.expect_stdout(&format!("complete  : {levels}"));
}
