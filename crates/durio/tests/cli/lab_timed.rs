//! Devices that take a known time for a known number of requests at once, in a guest whose clock counts
//! instructions: what arrays, depth and group commit give of them is arithmetic.
//!
//! 4 ms and two requests at once are 500 per second and device (specs/stacks/timed-devices.toml).

use std::time::Duration;

use serde_json::Value;

use crate::guests::{benched, bootable, row};

/// Two minutes on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// What one device does in a second.
const DEVICE: f64 = 500.0;

/// How far from arithmetic a rate may be: a request takes the processor a fiftieth of its time. Raw
/// rates were 1 to 3 % below it with debug builds, those of mirrors and of one write to RAID4 up to 5.5 %.
const SLACK: f64 = 0.08;
/// Of raw devices at any depth. A knee in the wrong place is 50 % off.
const LADDER_SLACK: f64 = 0.06;
/// Of commits, and because a batch of 64 takes the processor a tenth of the time of a request: 7.9 to
/// 8.0 and 58 to 61 times the commits of one were seen.
const COMMITS_SLACK: f64 = 0.12;
/// What stripes may miss: ten jobs per device that choose at random leave some device idle at times.
/// 1 to 9 % were seen. The wrong number of devices or copies is 50 % off.
const STRIPED_SLACK: f64 = 0.14;

/// A bench of timed devices.
struct Bench(Value);

impl Bench {
    /// Runs it; nothing where no guest can be booted.
    fn run() -> Option<Self> {
        let sandbox = bootable(&["mdadm"])?;
        Some(Self(benched(&sandbox, "timed-devices --scale-time 0.3", PATIENCE)))
    }

    /// The figures of a workload on the raw devices or the array of a stack.
    fn figures(&self, workload: &str, stack: &str, layer: Layer) -> &Value {
        &row(&self.0, workload, stack, layer as usize)["figures"]
    }

    fn rate(&self, workload: &str, stack: &str, layer: Layer) -> f64 {
        number(&self.figures(workload, stack, layer)["rate_per_second"])
    }

    fn mean_ms(&self, workload: &str, stack: &str, layer: Layer) -> f64 {
        number(&self.figures(workload, stack, layer)["service"]["mean_ns"]) / 1e6
    }
}

/// Which point of a stack.
#[derive(Clone, Copy)]
enum Layer {
    Raw,
    Array,
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no figure: {value}"))
}

/// One bench for all of them, for the guest's boot and the building are most of its time.
#[test]
fn timed_devices_give_in_a_guest_what_arithmetic_says() {
    let Some(bench) = Bench::run() else { return };
    assert_eq!(bench.0["timing"], "counted");
    arrays_reach_their_share(&bench);
    the_parity_member_limits_level_4(&bench);
    a_mirror_of_constant_times_is_as_fast_as_a_single_device(&bench);
    depth_gives_more_until_every_device_is_busy(&bench);
    committers_share_a_write(&bench);
}

/// Of 4000 and 2000 operations per second, how far from a figure it may be: see docs/benchmarks.md.
fn is_near(found: f64, expected: f64, slack: f64, what: &str) {
    let off = found / expected - 1.0;
    assert!(off.abs() <= slack, "{what}: {found} and not {expected}, {:.1} % off", off * 100.0);
}

/// All devices busy: reads are spread over all of them, each write takes all of its copies.
fn arrays_reach_their_share(bench: &Bench) {
    for (stack, members, copies) in [("raid0", 4.0, 1.0), ("raid1", 2.0, 2.0), ("raid10", 4.0, 2.0)]
    {
        let slack = if stack == "raid1" { SLACK } else { STRIPED_SLACK };
        for (workload, per_operation) in [("read", 1.0), ("write", copies)] {
            let what = format!("{workload} on {stack}");
            is_near(bench.rate(workload, stack, Layer::Raw), members * DEVICE, SLACK, &what);
            let array = bench.rate(workload, stack, Layer::Array);
            is_near(array, members * DEVICE / per_operation, slack, &what);
            let raid = &bench.figures(workload, stack, Layer::Array)["raid"];
            is_near(number(&raid["efficiency"]), 1.0, slack, &what);
        }
    }
}

/// Each write is a read and then a write of the one parity member, however many devices there are.
/// md has few stripes at a time read what they lack: of many writes at once it gave 77 %.
fn the_parity_member_limits_level_4(bench: &Bench) {
    is_near(bench.mean_ms("one-write", "raid4", Layer::Array), 8.0, SLACK, "read, then write");
    let raid = &bench.figures("write", "raid4", Layer::Array)["raid"];
    let efficiency = number(&raid["efficiency_reads_counted"]);
    assert!((0.65..=1.0 + SLACK).contains(&efficiency), "{efficiency}");
    assert!(number(&raid["share_of_drives"]) < 0.11, "a tenth of five drives: {raid}");
}

/// The slower of two copies that take the same time takes that time.
fn a_mirror_of_constant_times_is_as_fast_as_a_single_device(bench: &Bench) {
    for stack in ["raid1", "raid10"] {
        let of = |layer| bench.mean_ms("one-write", stack, layer);
        is_near(of(Layer::Array), of(Layer::Raw), SLACK, stack);
        is_near(of(Layer::Array), 4.0, SLACK, stack);
    }
    let mirror = &bench.figures("one-write", "raid1", Layer::Array)["mirror"];
    is_near(number(&mirror["beside"]["mean_ratio"]), 1.0, SLACK, "the slower of two draws");
}

/// Four jobs on four devices that each work on two requests at once: 8 in flight keep them busy.
fn depth_gives_more_until_every_device_is_busy(bench: &Bench) {
    for depth in [1.0_f64, 2.0, 4.0, 8.0, 16.0] {
        let step = format!("ladder, depth {depth}");
        let rate = bench.rate(&step, "raid0", Layer::Raw);
        is_near(rate, 4.0 * depth.min(2.0) * DEVICE / 2.0, LADDER_SLACK, &step);
        // Little's law: in flight = rate × time.
        let in_flight = rate * bench.mean_ms(&step, "raid0", Layer::Raw) / 1000.0;
        is_near(in_flight, 4.0 * depth, SLACK, &step);
    }
}

/// However many commit, a write takes the time of one request.
fn committers_share_a_write(bench: &Bench) {
    for stack in ["raid0", "raid1"] {
        for layer in [Layer::Raw, Layer::Array] {
            let rate = |n: f64| bench.rate(&format!("group-commit, committers {n}"), stack, layer);
            is_near(rate(1.0), DEVICE / 2.0, COMMITS_SLACK, stack);
            is_near(rate(8.0) / rate(1.0), 8.0, COMMITS_SLACK, stack);
            is_near(rate(64.0) / rate(1.0), 64.0, COMMITS_SLACK, stack);
        }
    }
}
