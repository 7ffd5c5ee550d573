//! Runs as a whole, with faults planted: what the record says, and what is left behind.

use std::error::Error;
use std::fs;
use std::path::Path;

use durio_base::{Bytes, Nanos};
use durio_block::testkit::note_skip;
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, NullScript, PLAN_SCHEMA, Plan, Purpose,
    RawPath, Role, Step, Target, TargetKind,
};
use durio_record::{Event, Interval, Journal, Latency, Outcome};
use durio_run::{EventSink, RunContext, RunError, RunErrorKind, StopFlag, run};
use durio_workload::{CacheMode, PerMille, Workload, self_cost_workload};

/// Keeps every event, and calls `on` with each before it does.
struct Sink<'a> {
    events: Vec<Event>,
    on: &'a mut dyn FnMut(&Event),
}

impl EventSink for Sink<'_> {
    fn event(&mut self, _at: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.on)(&event);
        self.events.push(event);
        Ok(())
    }
}

/// A folder with a journal, for one run.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        // Not in /tmp: that may be a tmpfs.
        Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    fn run(
        &self,
        plan: &Plan,
        on: &mut dyn FnMut(&Event),
    ) -> (Result<Outcome, RunError>, Vec<Event>) {
        let mut journal = Journal::begin(self.folder.path(), None).unwrap();
        let context = RunContext::new(&mut journal, StopFlag::default());
        let mut sink = Sink { events: Vec::new(), on };
        let result = run(plan, context, &mut sink);
        (result, sink.events)
    }

    fn journal(&self) -> String {
        fs::read_to_string(self.folder.path().join("journal.jsonl")).unwrap()
    }

    /// What is in its folder.
    fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn step(engine: EngineKind, workload: Workload) -> Step {
    let load = Load::new(0, workload, engine);
    Step::new(Role::Measure, load, Limit::Operations(64), Nanos::from_millis(100))
}

fn plan(kind: TargetKind, step: Step) -> Plan {
    let size = Bytes::from_mib(1);
    let target = Target { name: "data".into(), location: None, kind, size, destroy: false };
    Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Run,
        seed: 1,
        clock: ClockChoice::Monotonic,
        targets: vec![target],
        steps: vec![step],
        campaign: None,
        thresholds: Vec::new(),
    }
}

fn scripted(workload: Workload, latencies: &[Nanos], fails_at: Option<u64>) -> Plan {
    let script = Some(NullScript { latencies: latencies.to_vec(), fails_at });
    let mut step = step(EngineKind::Null, workload);
    step.load.script = script;
    plan(TargetKind::Scripted, step)
}

fn on_named_file(directory: &Path, workload: Workload) -> Plan {
    let kind = TargetKind::NewFile {
        directory: RawPath::from(directory.to_owned()),
        file_name: RawPath::from("made"),
        named: true,
        layout: FileLayout::ZeroFilled,
    };
    plan(kind, step(EngineKind::Sync, workload))
}

fn reads(jobs: u32) -> Workload {
    Workload { jobs, ..self_cost_workload(1) }
}

/// Reads of a file in the page cache end inside of the submitting call; the parts of an engine that
/// counts such reads apart must still be those of all.
#[test]
fn the_parts_of_latencies_add_up_to_them_where_operations_end_at_once() {
    for engine in [EngineKind::Uring, EngineKind::Aio] {
        let probed = engine.probe();
        if let Err(error) = probed {
            note_skip("parts_where_operations_end_at_once", &error);
            continue;
        }
        let bench = Bench::new();
        let workload = Workload { cache: CacheMode::Buffered, depth: 8, ..reads(2) };
        let mut plan = on_named_file(bench.folder.path(), workload);
        plan.steps[0].load.engine = engine;
        plan.steps[0].limit = Limit::Operations(5_000);
        let (result, events) = bench.run(&plan, &mut |_| ());
        assert_eq!(result.unwrap(), Outcome::Complete);
        let mut at_once = 0;
        let jobs = events.iter().filter_map(|event| match event {
            Event::JobEnded(job) => Some(job),
            _ => None,
        });
        for read in jobs.flat_map(|job| &job.operations) {
            let of = |latency: &Option<Latency>| latency.clone().unwrap().exact;
            let (submit, completion) = (of(&read.submit), of(&read.completion));
            let service = read.service.exact;
            assert_eq!((submit.count, completion.count), (service.count, service.count));
            assert_eq!(submit.sum_ns + completion.sum_ns, service.sum_ns);
            at_once += u64::from(completion.min_ns == 0);
        }
        if engine == EngineKind::Uring {
            assert_eq!(at_once, 2, "no read of either job ended in the call");
        }
    }
}

#[test]
fn an_amount_within_a_time_ends_with_whichever_comes_first() {
    let accesses = |duration: Nanos| {
        let bench = Bench::new();
        let volume = Bytes::from_kib(4 * 50);
        // 1 ms each: 50 take 50 ms.
        let mut plan = scripted(reads(1), &[Nanos::from_millis(1)], None);
        plan.steps[0].load.workload.block_size = Bytes::from_kib(4);
        plan.steps[0].limit = Limit::VolumeWithin { volume, duration };
        let (result, events) = bench.run(&plan, &mut |_| ());
        assert_eq!(result.unwrap(), Outcome::Complete);
        let operations = intervals(&events).into_iter().flat_map(|interval| &interval.operations);
        operations.map(|record| record.service.exact.count).sum::<u64>()
    };
    assert_eq!(accesses(Nanos::from_secs(1)), 50);
    assert_eq!(accesses(Nanos::from_millis(20)), 20);
}

fn errors(events: &[Event]) -> Vec<(Option<u32>, &str)> {
    let errors = events.iter().filter_map(|event| match event {
        Event::Error(error) => Some((error.step, error.message.as_str())),
        _ => None,
    });
    errors.collect()
}

fn intervals(events: &[Event]) -> Vec<&Interval> {
    let intervals = events.iter().filter_map(|event| match event {
        Event::Interval(interval) => Some(interval),
        _ => None,
    });
    intervals.collect()
}

fn no_step_began(events: &[Event]) -> bool {
    !events.iter().any(|event| matches!(event, Event::StepStarted(_)))
}

#[test]
fn a_job_that_panics_before_the_start_is_a_refusal_and_no_wait_for_ever() {
    // A script without a latency is the null engine's panic.
    let plan = scripted(reads(4), &[], None);
    let (result, events) = Bench::new().run(&plan, &mut |_| {});
    assert!(result.unwrap_err().to_string().ends_with("ended before it began"));
    assert!(no_step_began(&events));
    assert_eq!(errors(&events).len(), 1);
}

#[test]
fn every_job_has_its_end_also_when_all_fail_at_once() {
    for _ in 0..20 {
        let plan = scripted(reads(16), &[Nanos::from_micros(10)], Some(0));
        let (result, events) = Bench::new().run(&plan, &mut |_| {});
        assert_eq!(result.unwrap_err().kind, RunErrorKind::Target);
        let ended = events.iter().filter_map(|event| match event {
            Event::JobEnded(job) => Some(job.job),
            _ => None,
        });
        assert_eq!(ended.collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
        assert_eq!(errors(&events).len(), 1, "one error, recorded once");
    }
}

#[test]
fn an_error_that_prevents_a_step_is_in_the_record() {
    let bench = Bench::new();
    let workload = Workload { block_size: Bytes::from_mib(2), ..reads(1) };
    let (result, events) = bench.run(&on_named_file(bench.folder.path(), workload), &mut |_| {});
    let message = result.unwrap_err().to_string();
    assert_eq!(errors(&events), [(Some(0), message.as_str())]);
    assert_eq!(bench.entries(), ["journal.jsonl"]);
}

#[test]
fn more_memory_than_there_is_is_refused_before_a_file_is_made() {
    let bench = Bench::new();
    let workload =
        Workload { block_size: Bytes::from_gib(1), jobs: 4096, ..self_cost_workload(64) };
    let (result, events) = bench.run(&on_named_file(bench.folder.path(), workload), &mut |_| {});
    let error = result.unwrap_err();
    assert_eq!(error.kind, RunErrorKind::Unsupported);
    assert!(error.to_string().contains("of memory"), "{error}");
    assert_eq!(errors(&events), [(Some(0), error.to_string().as_str())]);
    assert_eq!(bench.journal(), "");
}

/// What has the name that the user gave is the user's, whenever it came.
#[test]
fn a_file_that_takes_the_users_name_meanwhile_is_not_touched() {
    let bench = Bench::new();
    let file = bench.folder.path().join("made");
    let mut take = |event: &Event| {
        if matches!(event, Event::TargetPrepared(_)) {
            assert!(!file.exists());
            fs::write(&file, "somebody's").unwrap();
        }
    };
    let plan = on_named_file(bench.folder.path(), reads(1));
    assert_eq!(bench.run(&plan, &mut take).0.unwrap(), Outcome::Complete);
    assert_eq!(fs::read(&file).unwrap(), b"somebody's");
    assert_eq!(bench.entries(), ["journal.jsonl", "made"]);
}

#[test]
fn a_stall_of_an_hour_is_a_thousand_intervals_and_one_for_the_rest() {
    let latencies = [Nanos::from_micros(100), Nanos::from_secs(3600)];
    let mut plan = scripted(reads(1), &latencies, None);
    plan.steps[0].limit = Limit::Operations(3);
    plan.steps[0].interval = Nanos::from_millis(1);
    let (result, events) = Bench::new().run(&plan, &mut |_| {});
    assert_eq!(result.unwrap(), Outcome::Complete);
    let intervals = intervals(&events);
    assert!(intervals.len() < 1010, "{}", intervals.len());
    for pair in intervals.windows(2) {
        assert_eq!(pair[0].to, pair[1].from, "no time between two intervals is lost");
        assert_eq!(pair[0].to.get(), pair[1].index * 1_000_000);
    }
    let long = intervals
        .iter()
        .filter(|interval| interval.to.saturating_sub(interval.from).get() > 1_000_000);
    assert!(long.clone().all(|interval| interval.operations.is_empty()));
    assert_eq!(long.count(), 1);
}

#[test]
fn a_gap_ends_with_the_ramp() {
    let mut plan = scripted(reads(1), &[Nanos::from_secs(10)], None);
    plan.steps[0].limit = Limit::Duration(Nanos::from_secs(5));
    plan.steps[0].ramp = Nanos::from_secs(5);
    plan.steps[0].interval = Nanos::from_millis(1);
    let (_, events) = Bench::new().run(&plan, &mut |_| {});
    let ramp = Nanos::from_secs(5);
    assert!(intervals(&events).iter().any(|interval| interval.to == ramp));
    assert!(intervals(&events).iter().any(|interval| interval.from == ramp));
}

#[test]
fn the_cpu_time_of_the_process_is_recorded() {
    let bench = Bench::new();
    let workload = Workload { cache: CacheMode::Buffered, read_share: PerMille::ALL, ..reads(2) };
    let (result, events) = bench.run(&on_named_file(bench.folder.path(), workload), &mut |_| {});
    assert_eq!(result.unwrap(), Outcome::Complete);
    let ended = events.iter().find_map(|event| match event {
        Event::StepEnded(ended) => Some(ended),
        _ => None,
    });
    let ended = ended.unwrap();
    assert!(ended.cpu_process_user.is_some() && ended.cpu_process_system.is_some());
}
