//! Wrong use: exit code 2, a message that names what was wrong, no run folder, nothing measured.

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
            ("check --sise 4m data", &["--sise", "--size"]),
            ("report", &["<RUN>"]),
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
            ("check data data/../data", &["'data' and 'data/../data' are one and the same"]),
        ],
    );
}

#[test]
fn what_does_not_fit_cannot_be_measured_and_the_free_space_is_told() {
    refused(
        3,
        &[
            (
                "check data --size 1000t",
                &["--size 1000 TiB", "free", "hint: give a smaller --size"],
            ),
            ("run --target data --ops 5 --size 1000t", &["does not fit", "free", "hint:"]),
            ("run --target data/new --ops 5 --size 1000t", &["does not fit", "free", "hint:"]),
            ("run --target data/user.db --ops 5 --size 1g", &["5 MiB", "--size 1 GiB"]),
            ("check data/user.db --size 1g", &["5 MiB", "1 GiB"]),
        ],
    );
}
