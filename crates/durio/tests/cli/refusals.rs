//! Wrong use: exit code 2, a message that names what was wrong, no run folder, nothing measured.

use std::fs;
use std::net::TcpListener;

use crate::sandbox::Sandbox;

const NULL: &str = "run --quiet --engine null";

/// Each line is refused with this exit code and each of these words on stderr.
#[track_caller]
fn refused(code: i32, rows: &[(&str, &[&str])]) {
    let sandbox = Sandbox::new();
    for (line, words) in rows {
        let mut ended = sandbox.durio(line).run().expect_exit(code).expect_no_stdout();
        for word in *words {
            ended = ended.expect_stderr(word);
        }
    }
    assert_eq!(sandbox.runs(), sandbox.pointers(), "a run was begun");
}

/// The same after `durio run --quiet --engine null`.
#[track_caller]
fn refused_by_null(rows: &[(&str, &[&str])]) {
    let lines: Vec<_> =
        rows.iter().map(|(line, words)| (format!("{NULL} {line}"), *words)).collect();
    let rows: Vec<_> = lines.iter().map(|(line, words)| (line.as_str(), *words)).collect();
    refused(2, &rows);
}

#[test]
fn no_command_shows_the_usage_and_an_unknown_one_is_named() {
    refused(
        2,
        &[
            ("", &["Usage: durio", "check"]),
            ("chekc .", &["chekc"]),
            ("--colour", &["--colour"]),
            ("check --sise 4m data", &["durio: unexpected argument", "--sise", "--size"]),
            ("man", &["<DIR>"]),
        ],
    );
}

#[test]
fn durations_that_measure_nothing_or_are_no_durations_are_refused() {
    refused_by_null(&[
        ("--duration 0", &["a duration of 0"]),
        ("--duration 1ns", &["a duration of 1 ns"]),
        ("--duration 10parsecs", &["'10parsecs'", "--duration", "unknown unit"]),
        ("--duration -5s", &["-5"]),
        ("--duration 999999999d", &["'999999999d'", "too large"]),
        ("--duration NaN", &["'NaN'"]),
        ("--duration 1s --ops 5", &["--duration", "--ops"]),
        ("--ramp soon", &["'soon'", "--ramp"]),
        ("--ops 5 --interval 1ns", &["intervals under 1 ms"]),
        ("--ops 5 --null-latency 0", &["null latency of 0"]),
        ("--ops 0", &["--ops 0"]),
        ("--ops 99999999999999999999", &["99999999999999999999"]),
        ("--ops many", &["'many'", "--ops"]),
        ("--ops 5 --ramp 1s", &["--ops", "ramp"]),
        ("--duration 1d --interval 1ms", &["86400000 intervals", "hint: give a longer"]),
    ]);
}

#[test]
fn durations_of_check_have_bounds() {
    refused(
        2,
        &[
            ("check data --duration 0", &["a duration of 0"]),
            ("check data --duration 1ns", &["a duration of 1 ns"]),
            ("check data --duration 32d", &["a duration of 32 d"]),
            ("check data --duration 10parsecs", &["'10parsecs'"]),
            ("check data --quick --duration 1s", &["--quick", "--duration"]),
            ("check data --quick --thorough", &["--quick", "--thorough"]),
        ],
    );
}

#[test]
fn sizes_that_are_no_sizes_are_refused() {
    refused_by_null(&[
        ("--size 99999999999999999999g", &["'99999999999999999999g'", "too large"]),
        ("--size 1.3", &["'1.3'", "--size"]),
        ("--size 4elephants", &["'4elephants'", "unknown unit"]),
        ("--ops 5 --bs 10g", &["block size"]),
        ("--bs -1", &["-1"]),
    ]);
    refused(
        2,
        &[
            ("check data --size 1", &["--size 1 B", "4 MiB"]),
            ("check data --size 0", &["--size 0"]),
        ],
    );
}

#[test]
fn a_block_size_of_zero_is_refused_by_name_and_value() {
    refused_by_null(&[("--ops 5 --bs 0", &["block size", "not 0"])]);
}

#[test]
fn a_size_that_does_not_hold_one_block_is_wrong_use() {
    refused_by_null(&[("--ops 5 --size 1", &["1 B", "4 KiB"])]);
}

#[test]
fn numbers_of_jobs_and_operations_in_flight_have_bounds() {
    refused_by_null(&[
        ("--ops 5 --jobs 0", &["jobs", "not 0"]),
        ("--ops 5 --jobs 4294967295", &["jobs", "not 4294967295"]),
        ("--ops 5 --jobs 4294967296", &["4294967296"]),
        ("--ops 5 --depth 0", &["depth", "not 0"]),
        ("--ops 5 --depth 99999999", &["depth", "not 99999999"]),
        ("--ops 5 --batch 0", &["--batch 0"]),
        ("--ops 5 --rw write --sync fsync --sync-every 0", &["every 0 writes"]),
    ]);
    refused(
        2,
        &[
            (
                "run --target data --engine sync --depth 4 --ops 5",
                &["sync engine", "--engine uring"],
            ),
            ("run --target data --engine uring --depth 99999999", &["depth", "not 99999999"]),
        ],
    );
}

#[test]
fn words_that_are_not_known_are_answered_with_those_that_are() {
    refused_by_null(&[
        ("--ops 5 --sync flush", &["'flush'", "fdatasync"]),
        ("--ops 5 --rw sideways", &["'sideways'", "randwrite"]),
        ("--ops 5 --format pdf", &["'pdf'", "html"]),
        ("--ops 5 --clock sundial", &["'sundial'", "monotonic"]),
        ("--ops 5 --engine steam", &["--engine"]),
        ("--ops 5 --mix 101", &["'101'", "--mix"]),
        ("--ops 5 --seed x", &["'x'", "--seed"]),
    ]);
    refused(
        2,
        &[
            ("run --engine steam --ops 5", &["'steam'", "uring"]),
            ("check data --database nosuch", &["'nosuch'", "etcd", "postgresql"]),
            ("check data --clock sundial", &["'sundial'"]),
            ("check data --workload nosuch", &["commit-etcd"]),
            ("check data --format pdf", &["'pdf'"]),
        ],
    );
}

/// The other workload would run without a word about this one.
#[test]
fn an_unknown_workload_beside_a_known_one_is_refused_too() {
    refused(
        2,
        &[(
            "check data --size 4m --duration 100ms --workload commit --workload nosuch",
            &["nosuch"],
        )],
    );
}

#[test]
fn contradictions_are_named() {
    refused_by_null(&[
        ("--ops 5 --rw randread --mix 70", &["--mix", "randread"]),
        ("--ops 5 --target data", &["--target"]),
        ("--ops 5 --force-signature", &["--destroy"]),
    ]);
    refused(
        2,
        &[
            ("run --ops 5", &["--target"]),
            ("run --target data --ops 5 --null-latency 5us", &["--null-latency", "--engine null"]),
            ("run --target data --ops 5 --null-fails-at 5", &["--null-fails-at"]),
            (
                "run --target data --ops 5 --destroy user.db",
                &["--destroy 'user.db' does not match any target"],
            ),
            ("check data data/../data", &["'data' and 'data/../data' are the same"]),
        ],
    );
}

#[test]
fn what_does_not_fit_cannot_be_measured_and_the_free_space_is_told() {
    refused(
        3,
        &[
            ("check data --size 1000t", &["--size 1000 TiB", "free", "hint: use a smaller --size"]),
            ("run --target data --ops 5 --size 1000t", &["does not fit", "free", "hint:"]),
            ("run --target data/new --ops 5 --size 1000t", &["does not fit", "free", "hint:"]),
            ("run --target data/user.db --ops 5 --size 1g", &["5 MiB", "--size 1 GiB"]),
            ("check data/user.db --size 1g", &["5 MiB", "1 GiB"]),
        ],
    );
}

#[test]
fn what_takes_long_or_writes_much_is_agreed_with_first() {
    let sandbox = Sandbox::new();
    let long = "run --quiet --target data --size 4MiB --duration 1h";
    let ended = sandbox.durio(long).run().expect_exit(2).expect_no_stdout();
    ended.expect_stderr("takes up to 1 h").expect_stderr("--yes");
    let ended = sandbox.durio("check data --thorough").run().expect_exit(2);
    ended.expect_stderr("of space").expect_stderr("writes as fast as the storage takes it");
    let check = "check data --quick --workload lookup --size 17GiB";
    sandbox.durio(check).run().expect_exit(2).expect_stderr("writes up to 17 GiB");
    let bytes = "run --quiet --rw write --bs 1m --size 8MiB --ops 20000 --target data";
    sandbox.durio(bytes).run().expect_exit(2).expect_stderr("writes up to 19.5 GiB");
    assert!(sandbox.runs().is_empty() && sandbox.differences().is_empty());
    // Nothing is written and no time passes on the virtual clock.
    let ops = "run --quiet --engine null --rw write --bs 1m --ops 20000";
    sandbox.durio(ops).run().expect_exit(0);
}

/// What people type, the exit code, and what the answer must have: what is wrong, and what to do.
type Mistake = (&'static str, i32, &'static [&'static str]);

const WORDS_OF_FIO: &[Mistake] = &[
    ("run --target data --numjobs 4", 2, &["--numjobs", "--jobs N"]),
    ("run --target data --iodepth=32", 2, &["--iodepth", "--depth N"]),
    ("run --target data --runtime 30", 2, &["--runtime", "--duration TIME"]),
    ("run --filename x", 2, &["--filename", "--target PATH"]),
    ("run --directory data", 2, &["--directory", "--target PATH"]),
    ("run --target data --direct=1", 2, &["--direct", "O_DIRECT unless --buffered"]),
    ("run --target data --fsync=1", 2, &["--fsync", "--sync fsync"]),
    ("run --target data --fdatasync=1", 2, &["--fdatasync", "--sync fdatasync"]),
    ("run --target data --ioengine=libaio", 2, &["--ioengine", "libaio is aio"]),
    ("run --target data --readwrite randread", 2, &["--readwrite", "--rw PATTERN"]),
    ("run --target data --rwmixread 70", 2, &["--rwmixread", "--mix READS"]),
    ("run --target data --time_based", 2, &["--time_based", "always the measured time"]),
    ("run --target data --group_reporting", 2, &["always reported together"]),
    ("run --target data --ramp_time 2", 2, &["--ramp_time", "--ramp TIME"]),
    ("run --target data --blocksize=8k", 2, &["--blocksize", "--bs SIZE"]),
    ("run --target data --rwmixwrite 30", 2, &["--mix READS, the percentage of reads"]),
    ("run --target data --rate_iops 100", 2, &["--rate_iops", "--rate PER_SECOND"]),
    ("run --target data --iodepth_batch=4", 2, &["--iodepth_batch", "--batch N"]),
    ("run --target data --number_ios 9", 2, &["--number_ios", "--ops N"]),
    ("run --target data --cpus_allowed 0-3", 2, &["--cpus_allowed", "--cpus LIST"]),
    ("run --target data --randseed 7", 2, &["--randseed", "--seed N"]),
    ("run --target data --output-format=json", 2, &["--output-format", "--format FORMAT"]),
    ("run --target data --norandommap", 2, &["fio has --norandommap", "durio fio"]),
    ("run --target data --engine fio:libiao", 2, &["'libiao'", "libaio"]),
    ("run --target data --buffered=1", 2, &["--buffered is given without a value"]),
    ("check --numjobs 4 data", 2, &["--jobs N (of durio run, durio sweep)"]),
    ("check --ioengine=libaio data", 2, &["--engine ENGINE", "durio run"]),
    ("check --bs 8k data", 2, &["--bs is an option of durio run, durio sweep"]),
    ("stack plan loop-layers --lab", 2, &["hint: --lab is an option of durio stack bench"]),
    ("report last --html x", 2, &["hint: durio report has --output FILE, such as report.html"]),
    ("compare a b --out x", 2, &["hint: durio compare has --output FILE, such as report.html"]),
    ("check --export-markdown x", 2, &["durio check has --output FILE, such as report.md"]),
    ("compare a b --runs 9", 2, &["hint: durio compare has --pairs N"]),
    ("run randwrite data", 2, &["hint: a path follows --target: --target data"]),
    ("check --filename=data", 2, &["PATH itself", "durio check PATH"]),
    ("durable --directory data", 2, &["PATH itself", "durio durable PATH"]),
    ("durable --runtime 30 data", 2, &["--runtime", "--duration TIME"]),
    ("durable --sync fsync data", 2, &["--sync is an option of durio run"]),
    ("sweep --goal p99=2ms --target data --iodepth 4", 2, &["--depth N"]),
    ("sweep --goal p99=2ms --filename data", 2, &["--target PATH"]),
    ("fio --name=a --rw=sideways --size=1m", 2, &["\"sideways\"", "randwrite"]),
    ("fio nosuch.fio", 2, &["cannot read \"nosuch.fio\"", "hint: name a job file"]),
    ("run --target data --nosuchword", 2, &["--nosuchword", "--help"]),
    ("check data -v", 2, &["'-v'", "hint: durio check has --verbose"]),
    ("check data -f json", 2, &["'-f'", "hint: durio check has --format FORMAT"]),
    ("-v", 2, &["such as durio check --verbose; durio --version shows the version"]),
    ("-v check data", 2, &["hint: options follow a command, such as durio check --verbose"]),
    ("-f json", 2, &["'-f'", "options follow a command, such as durio check --format FORMAT"]),
    ("--json", 2, &["hint: options follow a command, such as durio check --json"]),
    ("check -V", 2, &["'-V'", "hint: durio --version shows the version"]),
    ("check --version", 2, &["hint: durio --version shows the version"]),
    ("stack -v", 2, &["hint: --verbose is an option of durio stack show, durio stack plan"]),
    ("man -v", 2, &["--verbose is an option of durio check, ", "durio run and ", " more commands"]),
    ("report -n x", 2, &["'-n'", "--help"]),
    ("predict redis data --quick", 2, &["durio predict has --duration TIME"]),
    ("predict redis data --jobs 8", 2, &["durio predict has --clients LIST"]),
    ("run --target data --clients 8", 2, &["durio run has --committers N"]),
];

const MISSPELT: &[Mistake] = &[
    ("chek data", 2, &["chek", "'check'"]),
    ("data", 2, &["'data'", "hint: a command comes first: durio check data"]),
    ("benchmark data", 2, &["'benchmark'", "--help"]),
    ("profile shwo etcd", 2, &["'shwo'", "'show'"]),
    ("check data --sise 1g", 2, &["--sise", "--size"]),
    ("check data --database postgre", 2, &["'postgre'", "did you mean 'postgresql'?"]),
    ("check data --database cockroachd", 2, &["did you mean 'cockroachdb'?"]),
    ("check data --database nosuch", 2, &["'nosuch'", "known databases: etcd"]),
    ("advise data --database postgre", 2, &["did you mean 'postgresql'?"]),
    ("advise data --rule X99", 2, &["'X99'", "durio explain --all lists the rules"]),
    ("check data --workload comit", 2, &["did you mean 'commit'?"]),
    ("check data --format jsn", 2, &["did you mean 'json'?"]),
    ("plan for-tests --target data", 2, &["did you mean 'four-tests'?"]),
    ("stack plan raid-mode", 2, &["did you mean 'raid-modes'?"]),
    ("stack bench loop-layers --only nosuch", 2, &["'nosuch'", "its stacks are ext4-on-loop"]),
    ("run profile:etdc --target data", 2, &["did you mean 'etcd'?"]),
    ("run --target data --sync fdatasnyc", 2, &["did you mean 'fdatasync'?"]),
    ("run --target data --rw randwriet", 2, &["'randwrite'"]),
    ("run --target data --engine urng", 2, &["did you mean 'uring'?"]),
    ("durable data --only method", 2, &["'method'", "methods"]),
    ("explain flush-fats", 2, &["'flush-fats'", "did you mean flush-fast?"]),
];

const UNITS: &[Mistake] = &[
    ("check data --size 1Gb", 2, &["'1Gb'", "did you mean '1GiB'?", "64MiB"]),
    ("run --target data --bs 4kk", 2, &["'4kk'", "did you mean '4KiB'?"]),
    ("run --target data --size 30s", 2, &["'30s' ends with an unknown unit", "64MiB"]),
    ("check data --size 4 GB", 2, &["a space between number and unit", "write --size 4GB"]),
    ("run --target data --size 1G B", 2, &["a space between number and unit", "--size 1GB"]),
    ("run --target data --duration=30 secs", 2, &["a space", "write --duration 30s"]),
    ("watch data --every 5 minutes", 2, &["a space", "write --every 5m"]),
    ("watch data --every 10mins", 2, &["'10mins'", "did you mean '10m'?"]),
    ("check data --duration 30secs", 2, &["'30secs'", "did you mean '30s'?"]),
    ("check data --duration 10parsecs", 2, &["'10parsecs'", "10s, 250ms"]),
    ("runs prune --older-than 90days", 2, &["'90days'", "did you mean '90d'?"]),
    ("run --target data --jobs -1", 2, &["'-1'", "cannot be negative"]),
    ("run --target data --depth 4k", 2, &["'4k'", "a whole number"]),
    ("run --target data --cpus 0-", 2, &["'0-'", "such as 0,2,4-7"]),
];

const GOALS: &[Mistake] = &[
    ("sweep --target data", 2, &["--goal <GOAL>", "such as --goal 'p99 < 2ms'"]),
    ("sweep --goal p99 --target data", 2, &["'p99' is not a goal", "such as 'p99 < 2ms'"]),
    ("sweep --goal p99=2 --target data", 2, &["missing unit in '2'", "\"2ms\" or \"2s\""]),
    ("sweep --goal p99=2 --target data", 2, &["hint: a goal is written", "--goal 'p99 < 2ms'"]),
    ("sweep --goal=p99=2 --target data", 2, &["hint: a goal is written", "--goal 'p99 < 2ms'"]),
    ("sweep --goal p99=2parsecs --target data", 2, &["'2parsecs'", "250ms"]),
    ("sweep --goal p99>2ms --target data", 2, &["'p99>2ms' is not a goal", "such as 'p99 < 2ms'"]),
    ("check data --goal <2ms", 2, &["a workload and a measure", "'commit p99 < 5ms'"]),
    ("check data --goal iops>100", 2, &["'iops' is called rate here: commit rate > 100"]),
    ("predict redis data --goal tps>100", 2, &["'tps' is called rate here: commit rate > 100"]),
    ("check data --goal p95<2ms", 2, &["unknown measure 'p95'; expected mean, p50, p99, p99.9"]),
    ("check data --goal commit", 2, &["'commit' is not a goal", "'commit p99 < 5ms'"]),
];

const PLACES: &[Mistake] = &[
    ("check nosuch", 2, &["'nosuch' does not exist", "hint: name an existing directory"]),
    ("durable nosuch", 2, &["'nosuch' does not exist", "hint: name an existing directory"]),
    ("run --target nosuch --ops 5", 2, &["nosuch' does not exist", "hint: name an existing"]),
    ("run --target nosuch/deeper --ops 5", 2, &["nosuch/deeper", "hint: name an existing"]),
    ("check data/user.db/x", 2, &["Not a directory", "hint: name an existing"]),
    ("check data/notes.txt", 3, &["has 11 B", "hint: name a directory"]),
    ("check /dev/null", 3, &["is not storage", "hint: name a directory"]),
    ("advise nosuch", 2, &["'nosuch'", "hint: name an existing directory"]),
    ("watch data/notes.txt", 2, &["not a directory", "hint: name a directory on the storage"]),
    ("durable data/user.db", 2, &["exists", "--destroy 'data/user.db', or name a directory"]),
    ("run --target data/user.db --rw write --ops 5", 2, &["--destroy 'data/user.db'"]),
    ("check data --destroy data/usr.db", 2, &["'data/usr.db' does not match", "exact path"]),
    ("run --target data --target data/user.db --ops 5", 2, &["second one", "a spec has several"]),
    ("run --ops 5", 2, &["--target names what to measure", "durio run --target DIR"]),
    ("run data --ops 5", 2, &["[SPEC]", "one job takes --target PATH"]),
    ("run --rw randread data", 2, &["[SPEC]", "one job takes --target PATH"]),
    ("run data", 2, &["'data' is a directory", "durio run --target data"]),
    ("run db-ladder", 2, &["its target 'data'", "--target data=PATH"]),
    ("man nosuch", 3, &["'nosuch'", "hint: name an existing directory"]),
];

const RUNS: &[Mistake] = &[
    ("report", 3, &["there are no runs yet", "durio check DIR makes one"]),
    ("report nosuch", 3, &["'nosuch' is neither a path nor a run", "durio runs lists the runs"]),
    ("report data", 3, &["no file 'run.json'", "durio runs lists"]),
    ("report data/notes.txt", 3, &["Not a directory", "durio runs lists"]),
    ("report damaged", 3, &["'damaged/run.json'", "damaged or was modified"]),
    ("runs rm nosuch", 3, &["'nosuch' is neither a path nor a run", "durio runs lists"]),
    ("compare last", 2, &["one side", "name two run folders"]),
    ("compare nosuch other", 3, &["'nosuch' is neither a path nor a run"]),
    ("history data", 3, &["no finished run has", "durio runs lists the runs"]),
    ("history data --metric commit.p98", 2, &["'commit.p98' is not a metric", "p99.9"]),
    ("audit nosuch.csv", 3, &["'nosuch.csv' is neither a path nor a run"]),
    ("watch data --every 1s", 2, &["1 s is too short", "give 10s or more"]),
    ("watch data --interval 1s", 2, &["hint: --interval is --every in durio watch", "1 s is too"]),
    ("watch data --interval=2s", 2, &["hint: --interval is --every in durio watch", "2 s is too"]),
    ("check data --time 0", 2, &["hint: --time is --duration in durio check", "a duration of 0"]),
    ("watch data --listen 9119", 2, &["'9119' is not a numeric address", "127.0.0.1:9119"]),
    ("watch data --listen localhost:80", 2, &["'localhost:80'", "127.0.0.1:80"]),
];

#[track_caller]
fn answered(mistakes: &[Mistake]) {
    let sandbox = Sandbox::new();
    let damaged = sandbox.root().join("damaged");
    fs::create_dir(&damaged).unwrap();
    fs::write(damaged.join("run.json"), "{").unwrap();
    for (line, code, words) in mistakes {
        let mut ended = sandbox.durio(line).run().expect_exit(*code).expect_no_stdout();
        for word in *words {
            ended = ended.expect_stderr(word);
        }
    }
    assert!(sandbox.runs().is_empty() && sandbox.differences().is_empty(), "something was begun");
}

#[test]
fn words_of_fio_are_answered_with_those_of_durio() {
    answered(WORDS_OF_FIO);
}

#[test]
fn misspelt_names_are_answered_with_those_that_were_meant() {
    answered(MISSPELT);
}

#[test]
fn wrong_units_are_answered_with_those_that_were_meant() {
    answered(UNITS);
}

#[test]
fn goals_that_are_none_are_answered_with_one() {
    answered(GOALS);
}

#[test]
fn places_that_cannot_be_measured_are_answered_with_what_can() {
    answered(PLACES);
}

#[test]
fn runs_that_are_not_there_are_answered_with_how_to_find_them() {
    answered(RUNS);
}

#[test]
fn a_port_in_use_is_answered_with_another_one() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let sandbox = Sandbox::new();
    let line = format!("watch data --listen {}", taken.local_addr().unwrap());
    let ended = sandbox.durio(&line).run().expect_exit(3).expect_no_stdout();
    ended.expect_stderr("cannot listen at").expect_stderr("another port");
    assert!(sandbox.runs().is_empty());
}

/// A quantity in quotes may have a blank, and a path may be called as a unit is.
#[test]
fn blanks_that_are_meant_are_no_mistakes() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --engine null --ops 5 --size";
    sandbox.durio(line).word("4 MB").run().expect_exit(0);
    sandbox.durio("check --size 1 data").run().expect_exit(2).expect_stderr("--size 1 B");
    fs::create_dir(sandbox.root().join("GB")).unwrap();
    sandbox.durio("check --size 4 GB").run().expect_exit(2).expect_stderr("--size 4 B");
    sandbox.durio(&format!("{NULL} --ops 5 --rw readwrite")).run().expect_exit(0);
}
