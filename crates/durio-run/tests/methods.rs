//! Every way to make writes durable, direct and buffered, with every engine that does I/O, on a real
//! file: what is counted, and what is said where a method is not possible.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::error::Error;
use std::path::Path;

use durio_block::conformance::note_skip;
use durio_block::{probe_aio, probe_uring};
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, PLAN_SCHEMA, Plan, Purpose, RawPath, Role,
    Step, Target, TargetKind,
};
use durio_record::{Event, Journal, OperationName, Outcome};
use durio_run::{Context, EventSink, Processors, StopFlag, run};
use durio_units::{Bytes, Nanos};
use durio_workload::{CacheMode, Pattern, PerMille, SyncMethod, SyncPolicy, Workload};

const WRITES: u64 = 24;

#[derive(Default)]
struct Events(Vec<Event>);

impl EventSink for Events {
    fn event(&mut self, _at: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.push(event);
        Ok(())
    }
}

fn plan(directory: &Path, workload: Workload, engine: EngineKind) -> Plan {
    let kind = TargetKind::NewFile {
        directory: RawPath::from(directory.to_owned()),
        file_name: RawPath::from("made"),
        named: false,
        layout: FileLayout::ZeroFilled,
    };
    let size = Bytes::from_kib(256);
    let target = Target { name: "log".into(), location: None, kind, size, destroy: false };
    let load = Load::new(0, workload, engine);
    let limit = Limit::Operations(WRITES);
    Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Durable,
        seed: 1,
        clock: ClockChoice::Monotonic,
        targets: vec![target],
        steps: vec![Step::new(Role::Measure, load, limit, Nanos::from_millis(100))],
        campaign: None,
    }
}

/// What a run of one workload counted, and what it said.
struct Counted {
    writes: u64,
    syncs: u64,
    commits: u64,
    fallbacks: Vec<String>,
}

fn counted(workload: Workload, engine: EngineKind) -> Counted {
    // Not in /tmp: that may be a tmpfs.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let context = Context {
        journal: &mut journal,
        devices: Vec::new(),
        processors: Processors::default(),
        stop: StopFlag::default(),
        resume: None,
    };
    let mut events = Events::default();
    let plan = plan(folder.path(), workload, engine);
    assert_eq!(run(&plan, context, &mut events).unwrap(), Outcome::Complete);
    let count = |name: OperationName| {
        let jobs = events.0.iter().filter_map(|event| match event {
            Event::JobEnded(job) => Some(&job.operations),
            _ => None,
        });
        let of = |it: &&durio_record::OperationRecord| it.operation == name;
        jobs.flatten().filter(of).map(|it| it.service.exact.count).sum()
    };
    let fallbacks = events.0.iter().find_map(|event| match event {
        Event::StepStarted(started) => Some(started.stream.fallbacks.clone()),
        _ => None,
    });
    Counted {
        writes: count(OperationName::Write),
        syncs: count(OperationName::Sync),
        commits: count(OperationName::Commit),
        fallbacks: fallbacks.unwrap(),
    }
}

fn log(method: SyncMethod, cache: CacheMode, depth: u32) -> Workload {
    Workload {
        pattern: Pattern::Sequential,
        read_share: PerMille::NONE,
        sync: SyncPolicy::each(method),
        cache,
        depth,
        ..Workload::default()
    }
}

/// The engines that can be used here.
fn engines(test: &str) -> Vec<EngineKind> {
    let mut engines = vec![EngineKind::Sync];
    for (engine, probe) in [(EngineKind::Uring, probe_uring()), (EngineKind::Aio, probe_aio())] {
        match probe {
            Ok(()) => engines.push(engine),
            Err(error) => note_skip(&format!("{test}, {engine}"), &error),
        }
    }
    engines
}

fn replaced(fallbacks: &[String], method: SyncMethod) -> bool {
    fallbacks.iter().any(|text| text.starts_with(method.name()))
}

#[test]
fn every_method_makes_every_write_a_commit_direct_and_buffered_with_every_engine() {
    for engine in engines("every_method_makes_every_write_a_commit") {
        for cache in [CacheMode::Direct, CacheMode::Buffered] {
            for method in SyncMethod::ALL {
                let what = format!("{method}, {cache:?}, {engine}");
                let seen = counted(log(method, cache, 1), engine);
                let is_durable = method != SyncMethod::None;
                assert_eq!(seen.writes, WRITES, "{what}");
                assert_eq!(seen.commits, if is_durable { WRITES } else { 0 }, "{what}");
                let linked = method.is_linked() && engine == EngineKind::Uring;
                let has_calls = method.is_sync_call() && !linked;
                assert_eq!(seen.syncs, if has_calls { WRITES } else { 0 }, "{what}");
                let lacks_range = method == SyncMethod::FileRange && engine == EngineKind::Aio;
                let told = lacks_range || method.is_linked() && engine != EngineKind::Uring;
                assert_eq!(replaced(&seen.fallbacks, method), told, "{what}: {:?}", seen.fallbacks);
            }
        }
    }
}

#[test]
fn linked_commits_fill_a_depth() {
    let test = "linked_commits_fill_a_depth";
    if !engines(test).contains(&EngineKind::Uring) {
        return;
    }
    for depth in [2, 7, 16] {
        for cache in [CacheMode::Direct, CacheMode::Buffered] {
            let seen = counted(log(SyncMethod::LinkedFsync, cache, depth), EngineKind::Uring);
            assert_eq!((seen.writes, seen.commits, seen.syncs), (WRITES, WRITES, 0));
        }
    }
}
