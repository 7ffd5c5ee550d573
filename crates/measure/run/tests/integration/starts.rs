//! Steps whose start the sink orders.

use std::error::Error;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use durio_base::{Bytes, Nanos};
use durio_block::{Clock, MonotonicClock};
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, PLAN_SCHEMA, Plan, Purpose, RawPath, Role,
    Step, Target, TargetKind,
};
use durio_record::{Event, Journal, Outcome, StepGated};
use durio_run::{EventSink, GateOrder, RunContext, StepStart, StopFlag, run};
use durio_workload::{Workload, self_cost_workload};

/// Keeps every event, and answers each ready step by its index.
struct Sink<'a> {
    events: Vec<Event>,
    asked: Vec<(u32, u32)>,
    start: &'a dyn Fn(u32) -> StepStart,
}

impl EventSink for Sink<'_> {
    fn event(&mut self, _: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.events.push(event);
        Ok(())
    }

    fn step_ready(&mut self, step: &Step, round: u32) -> StepStart {
        self.asked.push((step.index, round));
        (self.start)(step.index)
    }
}

struct RunResult {
    outcome: Outcome,
    events: Vec<Event>,
    asked: Vec<(u32, u32)>,
    /// Names in the folder of its file.
    left: Vec<String>,
}

impl RunResult {
    fn gated(&self) -> Vec<StepGated> {
        let gated = self.events.iter().filter_map(|event| match event {
            Event::StepGated(gated) => Some(*gated),
            _ => None,
        });
        gated.collect()
    }

    fn started(&self) -> Vec<u32> {
        let started = self.events.iter().filter_map(|event| match event {
            Event::StepStarted(started) => Some(started.step),
            _ => None,
        });
        started.collect()
    }
}

/// Three jobs read a named file in each of two measured steps, after one that preconditions.
fn plan(directory: &Path) -> Plan {
    let step = |index, role| {
        let workload = Workload { jobs: 3, ..self_cost_workload(1) };
        let load = Load::new(0, workload, EngineKind::Sync);
        let limit = Limit::Operations(90);
        Step { index, ..Step::new(role, load, limit, Nanos::from_millis(100)) }
    };
    let kind = TargetKind::NewFile {
        directory: RawPath::from(directory.to_owned()),
        file_name: RawPath::from("made"),
        named: true,
        layout: FileLayout::ZeroFilled,
    };
    let size = Bytes::from_mib(1);
    let target = Target { name: "data".into(), location: None, kind, size, destroy: false };
    Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Run,
        seed: 1,
        clock: ClockChoice::Auto,
        targets: vec![target],
        steps: vec![step(0, Role::Precondition), step(1, Role::Measure), step(2, Role::Measure)],
        campaign: None,
        thresholds: Vec::new(),
    }
}

fn carry_out(stop: StopFlag, start: &dyn Fn(u32) -> StepStart) -> RunResult {
    // Not in /tmp: that may be a tmpfs.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let mut sink = Sink { events: Vec::new(), asked: Vec::new(), start };
    let context = RunContext::new(&mut journal, stop);
    let outcome = run(&plan(folder.path()), context, &mut sink).unwrap();
    let names = std::fs::read_dir(folder.path()).unwrap();
    let left = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    RunResult { outcome, events: sink.events, asked: sink.asked, left }
}

fn now() -> Nanos {
    Nanos::new(MonotonicClock.now().0)
}

fn after(span: Nanos) -> StepStart {
    let at = Nanos::new(now().get() + span.get());
    StepStart::At(GateOrder { at, offset_ns: 250, bound_ns: 31 })
}

#[test]
fn no_operation_starts_before_the_ordered_time() {
    let began = now();
    let ran = carry_out(StopFlag::default(), &|step| match step {
        1 => after(Nanos::from_millis(120)),
        _ => StepStart::Now,
    });
    assert_eq!((ran.outcome, &ran.asked[..]), (Outcome::Complete, &[(1, 0), (2, 0)][..]));
    assert_eq!(ran.left, ["journal.jsonl"]);
    let [gated] = ran.gated()[..] else { panic!("{:?}", ran.gated()) };
    assert_eq!((gated.step, gated.round, gated.offset_ns, gated.bound_ns), (1, 0, 250, 31));
    assert!(began < gated.armed && gated.armed < gated.ordered_at, "{gated:?}");
    assert!(gated.started >= gated.ordered_at && gated.lateness_ns() >= 0, "{gated:?}");
    let is_of_step = |event: &&Event| match event {
        Event::StepStarted(event) => event.step == 1,
        Event::StepEnded(event) => event.step == 1,
        Event::StepGated(_) => true,
        _ => false,
    };
    let order: Vec<&Event> = ran.events.iter().filter(is_of_step).collect();
    assert!(
        matches!(order[..], [Event::StepStarted(_), Event::StepGated(_), Event::StepEnded(_)]),
        "{order:?}"
    );
}

#[test]
fn a_start_whose_time_is_past_is_made_at_once_and_recorded_as_late() {
    let past = Nanos::new(now().get() - 5_000_000);
    let order = GateOrder { at: past, offset_ns: 0, bound_ns: 0 };
    let ran = carry_out(StopFlag::default(), &|_| StepStart::At(order));
    assert_eq!(ran.outcome, Outcome::Complete);
    let steps: Vec<u32> = ran.gated().iter().map(|gated| gated.step).collect();
    assert_eq!(steps, [1, 2]);
    assert!(ran.gated().iter().all(|gated| gated.lateness_ns() > 5_000_000), "{:?}", ran.gated());
}

#[test]
fn an_abort_interrupts_the_run_before_the_step_and_removes_its_file() {
    let ran = carry_out(StopFlag::default(), &|step| match step {
        1 => StepStart::Now,
        _ => StepStart::Aborted,
    });
    assert_eq!((ran.outcome, ran.started()), (Outcome::Interrupted, vec![0, 1]));
    assert_eq!(ran.left, ["journal.jsonl"]);
    let Some(Event::RunEnded(ended)) = ran.events.last() else { panic!("{:?}", ran.events) };
    assert_eq!(ended.outcome, Outcome::Interrupted);
}

#[test]
fn a_wish_to_stop_ends_the_wait_for_a_start_of_tomorrow() {
    let stop = StopFlag::default();
    let begin = Instant::now();
    let ran = carry_out(stop.clone(), &|_| {
        let stop = stop.clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            stop.set();
        });
        after(Nanos::from_secs(86_400))
    });
    assert_eq!((ran.outcome, ran.started()), (Outcome::Interrupted, vec![0]));
    assert!(begin.elapsed() < Duration::from_secs(60) && ran.gated().is_empty());
}
