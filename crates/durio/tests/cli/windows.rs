//! Windows and intervals: what is divided by what, and which interval is which.

use serde_json::Value;

use crate::sandbox::Sandbox;

fn read(line: &str) -> Value {
    let sandbox = Sandbox::new();
    let line = format!(
        "run --quiet --no-self-cost --target data/user.db --rw randread --bs 4k --engine sync \
         --format json {line}"
    );
    sandbox.durio(&line).run().expect_exit(0).json()["workloads"][0].clone()
}

/// The time-stamp counter's ticks divide no interval. From memory, for a disk may stall longer than one.
#[test]
fn after_a_ramp_the_first_interval_is_as_full_as_the_others() {
    for _ in 0..5 {
        let workload = read("--buffered --ramp 1s --duration 300ms --interval 100ms");
        let all = workload["intervals"].as_array().unwrap();
        let of = |phase: &str| all.iter().filter(|it| it["phase"] == phase).collect::<Vec<_>>();
        assert_eq!(of("ramp").len(), 10);
        let measured = of("measure");
        let whole = measured.iter().filter(|it| it["cut_short"] != true);
        let rates: Vec<f64> = whole.map(|it| it["rate_per_second"].as_f64().unwrap()).collect();
        assert_eq!(rates.len(), 3, "{rates:?}");
        assert!(rates.iter().all(|&rate| rate > 0.0), "{rates:?}");
        assert_eq!(measured[0]["from_ns"], 1_000_000_000);
    }
}

#[test]
fn a_slow_open_loop_has_the_rate_it_was_given() {
    let workload = read("--rate 4 --constant --duration 2s");
    // A tick of the clock is a fraction of a nanosecond.
    assert!(workload["measured_ns"].as_u64().unwrap().abs_diff(2_000_000_000) < 100);
    let achieved = workload["open_loop"]["achieved_per_second"].as_f64().unwrap();
    assert!((achieved - 4.0).abs() < 1e-6, "{achieved}");
    assert_eq!(workload["open_loop"]["due"], 8);
}

#[test]
fn what_was_due_in_the_ramp_is_not_offered() {
    let workload = read("--rate 1000 --constant --ramp 500ms --duration 500ms");
    assert_eq!(workload["open_loop"]["due"], 500);
}

#[test]
fn a_rate_at_which_nothing_is_due_in_time_is_refused() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --target data/user.db --rw randread --rate 0.01 --duration 3s";
    sandbox.durio(line).run().expect_exit(2).expect_stderr("one operation is due every");
}
