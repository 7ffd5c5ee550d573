//! Every way to make writes durable, direct and buffered, with every engine that does I/O, on a real
//! file: what is counted, and what is said where a method is not possible.

use std::error::Error;
use std::path::Path;

use durio_base::{Bytes, Nanos};
use durio_block::testkit::note_skip;
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, PLAN_SCHEMA, Plan, Purpose, RawPath, Role,
    Step, Target, TargetKind,
};
use durio_record::{Event, Journal, OperationName, Outcome};
use durio_run::{EventSink, RunContext, StopFlag, run};
use durio_workload::{CacheMode, Pattern, PerMille, SyncMethod, SyncPolicy, Workload};

/// Few: each waits for the storage.
const WRITES: u64 = 5;

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
        thresholds: Vec::new(),
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
    let context = RunContext::new(&mut journal, StopFlag::default());
    let mut events = Events::default();
    let plan = plan(folder.path(), workload, engine);
    assert_eq!(run(&plan, context, &mut events).unwrap(), Outcome::Complete);
    let count = |name: OperationName| {
        let jobs = events.0.iter().filter_map(|event| match event {
            Event::JobEnded(job) => Some(&job.operations),
            _ => None,
        });
        let of = |record: &&durio_record::OperationRecord| record.operation == name;
        jobs.flatten().filter(of).map(|record| record.service.exact.count).sum()
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

/// False, and said, if the engine cannot be used here.
fn is_there(test: &str, engine: EngineKind) -> bool {
    let probe = match engine {
        EngineKind::Uring => EngineKind::Uring.probe(),
        EngineKind::Aio => EngineKind::Aio.probe(),
        _ => Ok(()),
    };
    probe.inspect_err(|error| note_skip(test, error)).is_ok()
}

fn is_replaced(fallbacks: &[String], method: SyncMethod) -> bool {
    fallbacks.iter().any(|text| text.starts_with(method.name()))
}

/// Every method makes every write a commit; `lacking` are done by other calls, and that is said.
fn check_methods(engine: EngineKind, cache: CacheMode, lacking: &[SyncMethod]) {
    for method in SyncMethod::ALL {
        let what = format!("{method}, {cache:?}, {engine}");
        let seen = counted(log(method, cache, 1), engine);
        let is_durable = method != SyncMethod::None;
        assert_eq!(seen.writes, WRITES, "{what}");
        assert_eq!(seen.commits, if is_durable { WRITES } else { 0 }, "{what}");
        let is_replaced = is_replaced(&seen.fallbacks, method);
        assert_eq!(is_replaced, lacking.contains(&method), "{what}: {:?}", seen.fallbacks);
        let has_calls = method.is_separate_call() || method.is_linked() && is_replaced;
        assert_eq!(seen.syncs, if has_calls { WRITES } else { 0 }, "{what}");
    }
}

const LINKED: [SyncMethod; 2] = [SyncMethod::LinkedFsync, SyncMethod::LinkedFdatasync];

#[test]
fn the_sync_engine_has_every_method_direct_but_links() {
    check_methods(EngineKind::Sync, CacheMode::Direct, &LINKED);
}

#[test]
fn the_sync_engine_has_every_method_buffered_but_links() {
    check_methods(EngineKind::Sync, CacheMode::Buffered, &LINKED);
}

#[test]
fn the_uring_engine_has_every_method_direct() {
    if is_there("the_uring_engine_has_every_method_direct", EngineKind::Uring) {
        check_methods(EngineKind::Uring, CacheMode::Direct, &[]);
    }
}

#[test]
fn the_uring_engine_has_every_method_buffered() {
    if is_there("the_uring_engine_has_every_method_buffered", EngineKind::Uring) {
        check_methods(EngineKind::Uring, CacheMode::Buffered, &[]);
    }
}

#[test]
fn the_aio_engine_has_every_method_but_links_and_ranges() {
    if is_there("the_aio_engine_has_every_method_but_links_and_ranges", EngineKind::Aio) {
        let lacking = [LINKED[0], LINKED[1], SyncMethod::FileRange];
        check_methods(EngineKind::Aio, CacheMode::Direct, &lacking);
    }
}

#[test]
fn linked_commits_fill_a_depth() {
    if !is_there("linked_commits_fill_a_depth", EngineKind::Uring) {
        return;
    }
    for depth in [2, 3, 16] {
        for cache in [CacheMode::Direct, CacheMode::Buffered] {
            let seen = counted(log(SyncMethod::LinkedFsync, cache, depth), EngineKind::Uring);
            assert_eq!((seen.writes, seen.commits, seen.syncs), (WRITES, WRITES, 0));
        }
    }
}
