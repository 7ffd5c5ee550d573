//! Devices that take a known time for a known number of requests at once, in a guest whose clock counts
//! instructions: what arrays, depth and group commit give of them is arithmetic.
//!
//! 4 ms and two requests at once are 500 per second and device (measure/spec/specs/stacks/timed-devices.toml).
//!
//! Of the mirrors' writes that depends on the kernel, so a guest with the same kernel is asked first
//! ([`Mirror`], docs/benchmarks.md).

use std::time::Duration;

use serde_json::Value;

use crate::guests::{benched, bootable, row, with_kernels};
use crate::sandbox::Sandbox;

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

/// A mirror of two such devices made by hand, which 8 jobs write to: as the kernel has it, and without
/// writeback throttling of the devices.
///
/// Kernels before 6.15 whose stable branch has not taken commit e879a0d9cb08 ("md/raid1,raid10: don't
/// ignore IO flags") lose REQ_IDLE on the way to the members. What is left looks like writeback, of
/// which blk-wbt lets one at a time through to a device that takes two: half the rate. Seen on Debian's
/// 6.1.192, not on 6.12.101.
const MIRROR: &str = r"
set -e
modprobe null_blk nr_devices=0
modprobe raid1
mount -t configfs none /sys/kernel/config 2>/dev/null || true
for name in nullb0 nullb1; do
    mkdir /sys/kernel/config/nullb/$name
    cd /sys/kernel/config/nullb/$name
    echo 64 >size; echo 1 >memory_backed
    echo 2 >irqmode; echo 4000000 >completion_nsec; echo 2 >hw_queue_depth
    echo 1 >power
done
mdadm --quiet --create /dev/md7 --level=1 --raid-devices=2 --bitmap=none --assume-clean --run \
    /dev/nullb0 /dev/nullb1 >&2
measure() {
    durio run --quiet --format json --out /tmp/runs --destroy /dev/md7 --target /dev/md7 \
        --rw randwrite --jobs 8 --duration 600ms --interval 600ms
}
measure
for name in nullb0 nullb1; do echo 0 >/sys/block/$name/queue/wbt_lat_usec; done
measure
";

/// What a mirror's writes reach on this kernel, of what its devices can do: 1 or a half.
struct Mirror(f64);

impl Mirror {
    fn ask(sandbox: &Sandbox) -> Self {
        let line = with_kernels(sandbox, "lab run -- sh -c").word(MIRROR).start();
        let text = line.wait_at_most(PATIENCE).expect_exit(0).text();
        let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let rate =
            |document: Value| number(&document["workloads"][0]["operations"][0]["rate_per_second"]);
        let rates: Vec<f64> = documents.map(|document| rate(document.unwrap())).collect();
        let [as_it_is, unthrottled] = rates[..] else { panic!("{rates:?}") };
        is_near(unthrottled, DEVICE, SLACK, "a mirror's writes without throttling");
        let share = if as_it_is < 0.75 * DEVICE { 0.5 } else { 1.0 };
        is_near(as_it_is, share * DEVICE, SLACK, "a mirror's writes");
        Self(share)
    }
}

/// A bench of timed devices.
struct Bench {
    document: Value,
    mirror: Mirror,
}

impl Bench {
    /// Runs it; nothing where no guest can be booted.
    fn run() -> Option<Self> {
        let sandbox = bootable(&["mdadm"])?;
        let mirror = Mirror::ask(&sandbox);
        let document = benched(&sandbox, "timed-devices --scale-time 0.3", PATIENCE);
        Some(Self { document, mirror })
    }

    /// What writes at once to an array with so many copies reach of what arithmetic says, on this kernel.
    fn share_of_writes(&self, copies: f64) -> f64 {
        if copies > 1.0 { self.mirror.0 } else { 1.0 }
    }

    /// The figures of a workload on the raw devices or the array of a stack.
    fn figures(&self, workload: &str, stack: &str, layer: Layer) -> &Value {
        &row(&self.document, workload, stack, layer as usize)["figures"]
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
#[ignore = "slow"]
fn timed_devices_give_in_a_guest_what_arithmetic_says() {
    let Some(bench) = Bench::run() else { return };
    assert_eq!(bench.document["timing"], "counted");
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
            let what = format!("{workload} on {stack}, kernels {}", bench.document["kernels"]);
            let share = bench.share_of_writes(per_operation);
            is_near(bench.rate(workload, stack, Layer::Raw), members * DEVICE, SLACK, &what);
            let array = bench.rate(workload, stack, Layer::Array);
            is_near(array, share * members * DEVICE / per_operation, slack, &what);
            let raid = &bench.figures(workload, stack, Layer::Array)["raid"];
            is_near(number(&raid["efficiency"]), share, slack, &what);
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
