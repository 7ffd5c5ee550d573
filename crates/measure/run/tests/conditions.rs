//! What a step asks of the page cache, seen in the bytes that the process read from the device.
//!
//! One test, for /proc/self/io counts the whole process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::error::Error;
use std::fs;

use durio_base::{Bytes, Nanos};
use durio_block::testkit::note_skip;
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, PLAN_SCHEMA, Plan, Purpose, RawPath, Role,
    Step, Target, TargetKind,
};
use durio_record::{Event, Journal};
use durio_run::{EventSink, RunContext, RunError, StopFlag, run};
use durio_workload::{CacheMode, Workload};

struct Ignored;

impl EventSink for Ignored {
    fn event(&mut self, _: Nanos, _: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

const SIZE: Bytes = Bytes::from_mib(64);

/// Two passes of buffered reads over a file.
fn two_passes() -> Step {
    let workload = Workload {
        name: "scan".into(),
        block_size: Bytes::from_kib(128),
        cache: CacheMode::Buffered,
        ..Workload::default()
    };
    let load = Load::new(0, workload, EngineKind::Sync);
    let limit = Limit::Volume(Bytes::new(2 * SIZE.get()));
    let step = Step::new(Role::Measure, load, limit, Nanos::from_millis(100));
    Step { drop_cache: true, ..step }
}

/// Bytes that this process has had read from devices.
fn device_bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
    line.parse().unwrap()
}

/// Device bytes read per byte asked.
fn amplification(step: Step) -> Result<f64, RunError> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let kind = TargetKind::NewFile {
        directory: RawPath::from(folder.path()),
        file_name: RawPath::from(".durio-test"),
        named: false,
        layout: FileLayout::Incompressible,
    };
    let target = Target { name: "data".into(), location: None, kind, size: SIZE, destroy: false };
    let plan = Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Run,
        seed: 1,
        clock: ClockChoice::Monotonic,
        targets: vec![target],
        steps: vec![step],
        campaign: None,
        thresholds: Vec::new(),
    };
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let context = RunContext::new(&mut journal, StopFlag::default());
    let before = device_bytes_read();
    run(&plan, context, &mut Ignored)?;
    Ok((device_bytes_read() - before) as f64 / (2 * SIZE.get()) as f64)
}

#[test]
fn a_bound_on_the_page_cache_makes_a_second_pass_read_the_device_again() {
    const NAME: &str = "a_bound_on_the_page_cache_makes_a_second_pass_read_the_device_again";
    let cached = amplification(two_passes()).unwrap();
    if cached < 0.1 {
        return note_skip(NAME, &"the filesystem reads from no device that is counted");
    }
    assert!((0.45..0.6).contains(&cached), "one pass of two from the device: {cached}");
    let bounded = Step { memory_bound: Some(Bytes::from_mib(16)), ..two_passes() };
    match amplification(bounded) {
        // More than asked: pages read ahead are pushed out before they are used.
        Ok(bounded) => assert!((0.95..2.0).contains(&bounded), "both passes: {bounded}"),
        Err(error) => note_skip(NAME, &error),
    }
    let group = fs::read_to_string("/proc/self/cgroup").unwrap();
    assert!(!group.contains("durio-"), "the process is where it was: {group}");
}
