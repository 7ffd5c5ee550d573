//! The figures where they are known beforehand: a scripted engine on a virtual clock; and the check
//! that every result carries, on real files.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Half of the last of three significant digits.
const RESOLUTION: f64 = 0.0005;

fn null(line: &str) -> Value {
    let sandbox = Sandbox::new();
    let line = format!("run --quiet --engine null --format json {line}");
    let document = sandbox.durio(&line).run().expect_exit(0).json();
    document["workloads"][0].clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[track_caller]
fn assert_close(value: &Value, expected: f64) {
    let off = (number(value) - expected).abs();
    assert!(off <= expected * RESOLUTION, "{value} is not {expected}");
}

#[test]
fn one_latency_is_every_percentile_and_the_rate_is_its_inverse() {
    let workload = null("--null-latency 100us --ops 10000 --jobs 1");
    assert_eq!(workload["iops"], 10_000.0);
    let service = &workload["operations"][0]["service"];
    assert_eq!(service["count"], 10_000);
    assert_eq!(service["mean_ns"], 100_000.0);
    assert_eq!((&service["min_ns"], &service["max_ns"]), (&100_000.into(), &100_000.into()));
    for percentile in ["p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "p99_99_ns"] {
        assert_close(&service[percentile], 100_000.0);
        assert!(number(&service[percentile]) <= 100_000.0, "above the maximum");
    }
}

#[test]
fn four_in_flight_are_four_times_the_rate_at_the_same_latency() {
    let workload = null("--null-latency 100us --ops 10000 --depth 4");
    assert_eq!(workload["iops"], 40_000.0);
    assert_eq!(workload["operations"][0]["service"]["mean_ns"], 100_000.0);
    for side in ["by_latency", "counted", "offered"] {
        assert_eq!(workload["in_flight"][side], 4.0, "{side}");
    }
}

#[test]
fn jobs_add_up_and_share_the_operations() {
    let workload = null("--null-latency 100us --ops 10001 --jobs 3 --depth 2");
    assert_eq!(workload["operations"][0]["service"]["count"], 10_001);
    let iops = number(&workload["iops"]);
    assert!((iops - 60_000.0).abs() < 60.0, "{iops}");
}

#[test]
fn bandwidth_is_rate_times_block() {
    let workload = null("--null-latency 100us --ops 1000 --bs 12345");
    assert_eq!(workload["bandwidth_bytes_per_second"], 123_450_000.0);
}

/// 98 of 100 take 100 µs, two take 5 ms: p50 and p90 are of the first, p99 of the second kind.
#[test]
fn a_scripted_tail_is_at_its_percentile() {
    let script = [vec!["100us"; 98], vec!["5ms"; 2]].concat().join(",");
    let workload = null(&format!("--null-latency {script} --ops 10000"));
    let service = &workload["operations"][0]["service"];
    assert_eq!(service["mean_ns"], (98.0 * 100_000.0 + 2.0 * 5_000_000.0) / 100.0);
    assert_close(&service["p50_ns"], 100_000.0);
    assert_close(&service["p90_ns"], 100_000.0);
    assert_close(&service["p99_ns"], 5_000_000.0);
    assert_eq!(service["max_ns"], 5_000_000);
}

#[test]
fn a_percentile_without_enough_samples_is_absent_and_not_invented() {
    let workload = null("--null-latency 100us,200us --ops 99");
    let service = &workload["operations"][0]["service"];
    assert!(service["p50_ns"].is_u64() && service["p99_ns"].is_null(), "{service}");
    let enough = null("--null-latency 100us,200us --ops 100");
    assert!(enough["operations"][0]["service"]["p99_ns"].is_u64());
}

/// Script: write 100 µs, sync 300 µs, again and again.
#[test]
fn a_commit_is_its_write_and_its_sync_and_they_are_kept_apart() {
    let workload = null("--null-latency 100us,300us --ops 1000 --rw write --sync fdatasync");
    let mean = |name: &str| {
        let operations = workload["operations"].as_array().unwrap();
        let of = operations.iter().find(|operation| operation["operation"] == name).unwrap();
        (number(&of["service"]["mean_ns"]), number(&of["service"]["count"]))
    };
    assert_eq!(mean("sync"), (300_000.0, 1000.0));
    assert_eq!(mean("write"), (100_000.0, 1000.0));
    assert_eq!(mean("commit"), (400_000.0, 1000.0));
    assert_eq!(workload["headline"], "commit");
    assert_eq!(workload["iops"], 2500.0);
}

#[test]
fn a_duration_on_the_virtual_clock_is_exact_and_the_ramp_is_not_in_it() {
    let workload = null("--null-latency 1ms --duration 2s --ramp 500us");
    assert_eq!(workload["measured_ns"], 2_000_500_000_u64, "until the last completion");
    assert_eq!(workload["operations"][0]["service"]["count"], 2001);
    assert_eq!(number(&workload["iops"]), 2001.0 / 2.0005);
}

/// One operation of 900 ms spans intervals of 100 ms: they are there, and empty.
#[test]
fn an_interval_without_a_completion_is_recorded_and_counted() {
    let mut script = vec!["1ms"; 100];
    script.push("900ms");
    let script = script.join(",");
    let workload = null(&format!("--null-latency {script} --duration 1s --interval 100ms"));
    let evenness = &workload["evenness"];
    assert_eq!(evenness["intervals"], 10, "{evenness}");
    assert_eq!(evenness["intervals_empty"], 8, "{evenness}");
}

/// The last completion is at the very end of the duration.
#[test]
fn no_interval_is_of_no_length() {
    let workload = null("--null-latency 1ms --duration 1s --interval 100ms");
    for interval in workload["intervals"].as_array().unwrap() {
        assert!(number(&interval["to_ns"]) > number(&interval["from_ns"]), "{interval}");
    }
}

/// What completes at the very end of the ramp is the ramp's.
#[test]
fn a_ramp_takes_with_it_what_completes_at_its_end() {
    let workload = null("--null-latency 1ms --duration 2s --ramp 500ms");
    assert_eq!(workload["iops"], 1000.0);
}

#[test]
fn a_failed_operation_ends_the_run_and_is_in_the_document() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --engine null --null-fails-at 5 --ops 100 --format json";
    let ended = sandbox.durio(line).run().expect_exit(3).expect_stderr("os error 5");
    let document = ended.json();
    assert_eq!(document["state"], "failed");
    assert!(document["errors"][0].as_str().unwrap().contains("os error 5"));
    assert_eq!(document["workloads"][0]["operations"][0]["service"]["count"], 5);
    assert_eq!(document["workloads"][0]["complete"], false);
}

/// The first failed sync ends the run; it is not done again.
#[test]
fn a_failed_sync_is_never_retried() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --engine null --null-fails-at 7 --ops 100 --rw write --sync fsync";
    let ended = sandbox.durio(line).words("--format json").run().expect_exit(3);
    let document = ended.expect_stderr("sync").json();
    assert_eq!(document["state"], "failed");
    assert_eq!(document["workloads"][0]["operations"][0]["operation"], "commit");
    assert_eq!(document["workloads"][0]["operations"][0]["service"]["count"], 3);
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let line = "--rw randrw --mix 70 --null-latency 90us,110us,1ms --ops 5000 --jobs 3 --depth 4";
    let figures = |seed: u32| {
        let mut workload = null(&format!("{line} --seed {seed}"));
        // Processor time and context switches are the machine's.
        let figures = workload.as_object_mut().unwrap();
        figures.retain(|name, _| name != "cpu" && !name.ends_with("switches_per_operation"));
        workload
    };
    assert_eq!(figures(7), figures(7));
    assert_ne!(figures(7), figures(8), "the seed decides something");
}

/// A document of which every workload keeps Little's law within 2 %. A busy machine can take the
/// processor away between the readings of the two clocks, which is much of a short step: then it is
/// run again.
pub(crate) fn accounted(run: impl Fn() -> Value) -> Value {
    let mut seen = Vec::new();
    for _ in 0..8 {
        let document = run();
        let of = |workload: &Value| number(&workload["in_flight"]["deviation"]);
        let all: Vec<f64> = document["workloads"].as_array().unwrap().iter().map(of).collect();
        if all.iter().all(|deviation| deviation.abs() <= 0.02) {
            return document;
        }
        seen.push(all);
    }
    panic!("{seen:?}");
}

#[test]
fn latency_times_rate_is_the_number_in_flight_on_a_real_file() {
    let sandbox = Sandbox::new();
    for engine in ["sync --jobs 2", "uring --depth 8", "aio --depth 8"] {
        let line = format!("run --quiet --duration 300ms --engine {engine} --format json --target");
        let run = || sandbox.durio(&line).word(sandbox.user_file()).run().expect_exit(0).json();
        let document = accounted(run);
        let workload = &document["workloads"][0];
        let in_flight = &workload["in_flight"];
        assert!(number(&in_flight["by_latency"]) <= number(&in_flight["offered"]) * 1.02);
        for operation in workload["operations"].as_array().unwrap() {
            let service = &operation["service"];
            let mut last = number(&service["min_ns"]);
            for name in ["p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns"] {
                let Some(value) = service[name].as_f64() else { continue };
                assert!(
                    value >= last,
                    "{engine}: {name} is less than what is before it: {service}"
                );
                last = value;
            }
        }
    }
}
