//! Context switches of jobs: a synchronous write to a disk waits as often as one by hand, a write to nowhere never.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::error::Error;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use durio_base::{Bytes, Nanos};
use durio_block::testkit::note_skip;
use durio_observe::{leaf_devices, read_stack};
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, NullScript, PLAN_SCHEMA, Plan, Purpose,
    RawPath, Role, Step, Target, TargetKind,
};
use durio_record::{ContextSwitches, Event, JobEnded, Journal, Outcome, StepEnded};
use durio_run::{EventSink, RunContext, RunError, StopFlag, run};
use durio_workload::{CacheMode, PerMille, SyncMethod, SyncPolicy, Workload};
use rustix::fs::OFlags;

#[derive(Default)]
struct Sink(Vec<Event>);

impl EventSink for Sink {
    fn event(&mut self, _: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.push(event);
        Ok(())
    }
}

fn writes(method: SyncMethod, cache: CacheMode) -> Workload {
    Workload {
        name: "writes".into(),
        read_share: PerMille::NONE,
        sync: SyncPolicy::each(method),
        cache,
        ..Workload::default()
    }
}

/// The ends of the job and of the step of so many operations by one job.
fn ends(kind: TargetKind, load: Load, operations: u64) -> (JobEnded, StepEnded) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let size = Bytes::from_mib(1);
    let step =
        Step::new(Role::Measure, load, Limit::Operations(operations), Nanos::from_millis(100));
    let plan = Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Run,
        seed: 1,
        clock: ClockChoice::Monotonic,
        targets: vec![Target { name: "data".into(), location: None, kind, size, destroy: true }],
        steps: vec![step],
        campaign: None,
        thresholds: Vec::new(),
    };
    let events = run_plan(&plan, folder.path()).unwrap();
    let job = events.iter().find_map(|event| match event {
        Event::JobEnded(job) => Some(job.clone()),
        _ => None,
    });
    let step = events.iter().find_map(|event| match event {
        Event::StepEnded(step) => Some(step.clone()),
        _ => None,
    });
    (job.unwrap(), step.unwrap())
}

fn run_plan(plan: &Plan, folder: &Path) -> Result<Vec<Event>, RunError> {
    let mut journal = Journal::begin(folder, None).unwrap();
    let context = RunContext {
        devices: vec![Vec::new()],
        ..RunContext::new(&mut journal, StopFlag::default())
    };
    let mut sink = Sink::default();
    assert_eq!(run(plan, context, &mut sink)?, Outcome::Complete);
    Ok(sink.0)
}

#[expect(clippy::cast_precision_loss, reason = "a count of a few hundred")]
fn per_operation(count: u64, operations: u64) -> f64 {
    count as f64 / operations as f64
}

/// True if a write past the page cache waits for a driver here.
fn blocks(test: &str) -> bool {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let devices = leaf_devices(&read_stack(folder).unwrap());
    let has_requests = |name: &String| Path::new("/sys/block").join(name).join("mq").is_dir();
    let blocks = !devices.is_empty() && devices.iter().all(has_requests);
    if !blocks {
        note_skip(test, &"the build folder is on no disk whose driver takes requests");
    }
    blocks
}

/// The waits per write of a loop that the kernel counts for this thread.
fn waits_by_hand(operations: u64) -> f64 {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(file.path(), vec![0; 1 << 20]).unwrap();
    file.as_file().sync_all().unwrap();
    let flags = (OFlags::DIRECT | OFlags::DSYNC).bits().cast_signed();
    let direct = File::options().write(true).custom_flags(flags).open(file.path()).unwrap();
    let buffer = Aligned([0; 4096]);
    let before = thread_waits();
    for block in 0..operations {
        direct.write_all_at(&buffer.0, block * 37 % 256 * 4096).unwrap();
    }
    per_operation(thread_waits() - before, operations)
}

#[repr(align(4096))]
struct Aligned([u8; 4096]);

/// `voluntary_ctxt_switches` of this thread.
fn thread_waits() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let of_line = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok();
    status.lines().find_map(of_line).unwrap()
}

#[test]
fn a_durable_write_to_a_disk_waits_as_often_as_one_by_hand() {
    if !blocks("a_durable_write_to_a_disk_waits_as_often_as_one_by_hand") {
        return;
    }
    const OPERATIONS: u64 = 200;
    let kind = TargetKind::NewFile {
        directory: RawPath::from(Path::new(env!("CARGO_TARGET_TMPDIR"))),
        file_name: RawPath::from(".durio-switches"),
        named: false,
        layout: FileLayout::ZeroFilled,
    };
    let run = || {
        let workload = writes(SyncMethod::ODsync, CacheMode::Direct);
        let (job, step) = ends(kind.clone(), Load::new(0, workload, EngineKind::Sync), OPERATIONS);
        let of_job = job.context_switches.unwrap();
        eprintln!("{of_job:?} of the job, {:?} of the process", step.context_switches);
        let machine = step.cpu.unwrap().context_switches.unwrap();
        assert!(machine >= of_job.voluntary, "{machine}");
        per_operation(of_job.voluntary, OPERATIONS)
    };
    // About one on a quiet disk; one with a cache and no FUA has a flush to wait for too, a busy one a
    // place in its queue, and a fast one may be done before the wait begins. So it changes from run to
    // run, for both.
    let mut seen = Vec::new();
    let is_alike = |(job, by_hand): &(f64, f64)| (job - by_hand).abs() <= 0.2 + 0.5 * by_hand;
    while !seen.last().is_some_and(is_alike) {
        assert!(seen.len() < 8, "per write, of the job and by hand: {seen:?}");
        seen.push((run(), waits_by_hand(OPERATIONS)));
    }
    eprintln!("per write, of the job and by hand: {seen:?}");
}

#[test]
fn a_write_to_nowhere_does_not_wait() {
    const OPERATIONS: u64 = 20_000;
    let null = TargetKind::NullDevice { path: RawPath::from(PathBuf::from("/dev/null")) };
    let workload = writes(SyncMethod::None, CacheMode::Buffered);
    let real = Load::new(0, workload.clone(), EngineKind::Sync);
    let script = NullScript { latencies: vec![Nanos::from_micros(10)], fails_at: None };
    let scripted = Load { script: Some(script), ..Load::new(0, workload, EngineKind::Null) };
    for (kind, load) in [(null, real), (TargetKind::Scripted, scripted)] {
        let (job, _) = ends(kind, load, OPERATIONS);
        let ContextSwitches { voluntary, involuntary } = job.context_switches.unwrap();
        eprintln!("{voluntary} voluntary, {involuntary} involuntary");
        assert!(per_operation(voluntary, OPERATIONS) < 0.02, "{voluntary}");
    }
}
