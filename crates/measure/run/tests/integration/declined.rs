//! Steps that a plan lets be declined: refused, they are told and passed over; the storage's own
//! errors end the run all the same.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use durio_base::{Bytes, Nanos};
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, NullScript, PLAN_SCHEMA, Plan, Purpose,
    RawPath, Role, Step, Target, TargetKind,
};
use durio_record::{Event, Journal, Outcome, StepDeclined};
use durio_run::{EventSink, RunContext, RunError, StopFlag, run};
use durio_workload::{CacheMode, PerMille, SyncMethod, SyncPolicy, Workload};

/// Keeps every event, and counts durio's files in a folder at the begin of each step.
struct Sink {
    folder: PathBuf,
    events: Vec<Event>,
    files: Vec<usize>,
}

impl EventSink for Sink {
    fn event(&mut self, _at: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        if matches!(event, Event::StepStarted(_)) {
            self.files.push(files_without_a_name(&self.folder)?);
        }
        self.events.push(event);
        Ok(())
    }
}

/// Files of a folder that this process has open and that have no name, each once.
fn files_without_a_name(folder: &Path) -> std::io::Result<usize> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let paths = open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let is_one =
        |path: &PathBuf| path.starts_with(folder) && path.to_string_lossy().ends_with(" (deleted)");
    Ok(paths.filter(is_one).collect::<BTreeSet<_>>().len())
}

fn writes(sync: SyncMethod, cache: CacheMode) -> Workload {
    let name = "log".to_owned();
    let sync = SyncPolicy::each(sync);
    Workload { name, read_share: PerMille::NONE, sync, cache, ..Workload::default() }
}

fn step(target: usize, workload: Workload, engine: EngineKind) -> Step {
    let load = Load::new(target, workload, engine);
    let limit = Limit::Operations(20);
    Step { declinable: true, ..Step::new(Role::Measure, load, limit, Nanos::from_millis(100)) }
}

fn buffered(target: usize) -> Step {
    step(target, writes(SyncMethod::Fdatasync, CacheMode::Buffered), EngineKind::Sync)
}

/// Runs `steps`, numbered here, over targets of 1 MiB.
fn run_all(
    kinds: impl Fn(&Path) -> Vec<TargetKind>,
    steps: Vec<Step>,
) -> (Result<Outcome, RunError>, Sink) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let target = |kind| Target {
        name: "log".into(),
        location: None,
        kind,
        size: Bytes::from_mib(1),
        destroy: false,
    };
    let steps = (0..).zip(steps).map(|(index, step)| Step { index, ..step }).collect();
    let plan = Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Durable,
        seed: 1,
        clock: ClockChoice::Monotonic,
        targets: kinds(folder.path()).into_iter().map(target).collect(),
        steps,
        campaign: None,
        thresholds: Vec::new(),
    };
    plan.validate().unwrap();
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let context = RunContext::new(&mut journal, StopFlag::default());
    let mut sink = Sink { folder: folder.path().to_owned(), events: Vec::new(), files: Vec::new() };
    let result = run(&plan, context, &mut sink);
    (result, sink)
}

fn new_file(directory: &Path, name: &str, layout: FileLayout) -> TargetKind {
    TargetKind::NewFile {
        directory: RawPath::from(directory.to_owned()),
        file_name: RawPath::from(name),
        named: true,
        layout,
    }
}

fn null_device(_: &Path) -> Vec<TargetKind> {
    vec![TargetKind::NullDevice { path: RawPath::from("/dev/null") }]
}

fn declined(events: &[Event]) -> Vec<&StepDeclined> {
    let declined = events.iter().filter_map(|event| match event {
        Event::StepDeclined(declined) => Some(declined),
        _ => None,
    });
    declined.collect()
}

fn ended(events: &[Event]) -> Vec<u32> {
    let ended = events.iter().filter_map(|event| match event {
        Event::StepEnded(ended) => Some(ended.step),
        _ => None,
    });
    ended.collect()
}

#[test]
fn what_cannot_be_opened_as_planned_is_told_and_the_next_step_runs() {
    let odd = Workload {
        block_size: Bytes::new(1000),
        ..writes(SyncMethod::Fdatasync, CacheMode::Direct)
    };
    let steps = vec![step(0, odd, EngineKind::Sync), buffered(0)];
    let (result, sink) =
        run_all(|folder| vec![new_file(folder, "made", FileLayout::ZeroFilled)], steps);
    assert_eq!(result.unwrap(), Outcome::Complete);
    let told = declined(&sink.events);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].step, told[0].errno), (0, None));
    assert!(told[0].message.contains("O_DIRECT"), "{}", told[0].message);
    assert_eq!(ended(&sink.events), [1]);
    assert!(!sink.events.iter().any(|event| matches!(event, Event::Error(_))));
}

/// /dev/null takes writes, and knows no sync.
#[test]
fn what_the_kernel_refuses_at_the_first_call_has_no_figures_and_no_error() {
    let durable = buffered(0);
    let unsynced = step(0, writes(SyncMethod::None, CacheMode::Buffered), EngineKind::Sync);
    let (result, sink) = run_all(null_device, vec![durable.clone(), unsynced]);
    assert_eq!(result.unwrap(), Outcome::Complete);
    let told = declined(&sink.events);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].errno, Some(rustix::io::Errno::INVAL.raw_os_error()));
    assert!(told[0].message.contains("fdatasync"), "{}", told[0].message);
    assert_eq!(ended(&sink.events), [1]);
    assert!(!sink.events.iter().any(|event| matches!(event, Event::Error(_))));

    let strict = Step { declinable: false, ..durable };
    let (result, sink) = run_all(null_device, vec![strict]);
    result.unwrap_err();
    assert!(declined(&sink.events).is_empty());
    assert!(sink.events.iter().any(|event| matches!(event, Event::Error(_))));
}

#[test]
fn an_input_output_error_ends_a_run_of_declinable_steps() {
    let workload = writes(SyncMethod::Fdatasync, CacheMode::Direct);
    let mut failing = step(0, workload, EngineKind::Null);
    let latencies = vec![Nanos::from_micros(100)];
    failing.load.script = Some(NullScript { latencies, fails_at: Some(3) });
    let steps = vec![failing.clone(), failing];
    let (result, sink) = run_all(|_| vec![TargetKind::Scripted], steps);
    assert_eq!(result.unwrap_err().message, "log: fdatasync failed");
    assert!(declined(&sink.events).is_empty());
    assert_eq!(ended(&sink.events), [0]);
}

#[test]
fn a_file_is_removed_after_the_last_declinable_step_that_uses_it() {
    let kinds = |folder: &Path| {
        let made = |name| new_file(folder, name, FileLayout::Empty);
        vec![made("made-0"), made("made-1"), made("made-2")]
    };
    let steps = vec![buffered(0), buffered(1), buffered(2), buffered(0)];
    let (result, sink) = run_all(kinds, steps);
    assert_eq!(result.unwrap(), Outcome::Complete);
    // The first stays for the last step; the second and the third are there for one each.
    assert_eq!(sink.files, [1, 2, 2, 1]);
}
