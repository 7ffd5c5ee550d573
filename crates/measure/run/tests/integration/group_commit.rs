//! Group commit through a whole run: on files, with committers that are threads and such that are
//! not, with errors and stops.

use std::error::Error;

use durio_base::{Bytes, Nanos};
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, NullScript, PLAN_SCHEMA, Plan, Purpose,
    RawPath, Role, Step, Target, TargetKind,
};
use durio_record::{
    Event, JobEnded, Journal, Latency, OperationName, OperationRecord, Outcome, StoppedBy,
};
use durio_run::{EventSink, RunContext, RunError, StopFlag, run};
use durio_workload::{
    Arrivals, CacheMode, ClientThreads, CommitterThreads, GroupCommit, LogWriter, PerMille,
    RegionRule, Software, SyncMethod, SyncPolicy, Workload,
};

struct Sink {
    events: Vec<Event>,
    /// Set with the first interval.
    stop: Option<StopFlag>,
}

impl EventSink for Sink {
    fn event(&mut self, _at: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let (Event::Interval(_), Some(stop)) = (&event, &self.stop) {
            stop.set();
        }
        self.events.push(event);
        Ok(())
    }
}

/// A result with its events.
struct Ran {
    result: Result<Outcome, RunError>,
    events: Vec<Event>,
}

impl Ran {
    fn jobs(&self) -> Vec<&JobEnded> {
        let jobs = self.events.iter().filter_map(|event| match event {
            Event::JobEnded(job) => Some(job),
            _ => None,
        });
        jobs.collect()
    }

    /// (count, sum of latencies) of an operation over all intervals.
    fn recorded(&self, name: OperationName) -> (u64, u64) {
        self.summed(name, |record| Some(&record.service))
    }

    /// The same of its latencies since it was due.
    fn responses(&self, name: OperationName) -> (u64, u64) {
        self.summed(name, |record| record.response.as_ref())
    }

    fn summed(
        &self,
        name: OperationName,
        latency: impl Fn(&OperationRecord) -> Option<&Latency>,
    ) -> (u64, u64) {
        let intervals = self.events.iter().filter_map(|event| match event {
            Event::Interval(interval) => Some(interval),
            _ => None,
        });
        let records = intervals
            .flat_map(|interval| &interval.operations)
            .filter(|record| record.operation == name);
        records.filter_map(latency).fold((0, 0), |(count, sum), latency| {
            let exact = latency.exact;
            (count + exact.count, sum + exact.sum_ns)
        })
    }

    fn commits(&self) -> u64 {
        self.recorded(OperationName::Commit).0
    }

    /// Records in all batches.
    fn batched(&self) -> u64 {
        let batches = self.jobs().into_iter().filter_map(|job| job.batches.as_ref());
        let sizes = batches.flat_map(|batches| &batches.sizes);
        sizes.map(|(records, count)| u64::from(*records) * count).sum()
    }

    fn error(&self) -> &StoppedBy {
        let mut errors = self.events.iter().filter_map(|event| match event {
            Event::Error(error) => Some(error),
            _ => None,
        });
        let error = errors.next().unwrap();
        assert!(errors.next().is_none(), "one error");
        error
    }
}

fn threads(committers: u32) -> GroupCommit {
    GroupCommit { threads: CommitterThreads::OneEach, ..GroupCommit::of(committers) }
}

fn log(policy: GroupCommit) -> Workload {
    Workload {
        name: "log".to_owned(),
        read_share: PerMille::NONE,
        block_size: Bytes::new(256),
        cache: CacheMode::Buffered,
        region: RegionRule::ShareEach,
        sync: SyncPolicy::each(SyncMethod::Fdatasync),
        group_commit: Some(policy),
        ..Workload::default()
    }
}

fn step(workload: Workload, limit: Limit) -> Step {
    let load = Load::new(0, workload, EngineKind::Sync);
    Step::new(Role::Measure, load, limit, Nanos::from_millis(20))
}

fn file(folder: &tempfile::TempDir) -> TargetKind {
    TargetKind::NewFile {
        directory: RawPath::from(folder.path().to_owned()),
        file_name: RawPath::from("log"),
        named: true,
        layout: FileLayout::ZeroFilled,
    }
}

fn plan(kind: TargetKind, step: Step) -> Plan {
    let size = Bytes::from_mib(2);
    Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Run,
        seed: 1,
        clock: ClockChoice::Monotonic,
        targets: vec![Target { name: "log".into(), location: None, kind, size, destroy: false }],
        steps: vec![step],
        campaign: None,
        thresholds: Vec::new(),
    }
}

fn execute(kind: Option<TargetKind>, step: Step, stop: bool) -> Ran {
    // Not in /tmp: that may be a tmpfs.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let kind = kind.unwrap_or_else(|| file(&folder));
    let plan = plan(kind, step);
    plan.validate().unwrap();
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let flag = StopFlag::default();
    let context = RunContext::new(&mut journal, flag.clone());
    let mut sink = Sink { events: Vec::new(), stop: stop.then_some(flag) };
    let result = run(&plan, context, &mut sink);
    Ran { result, events: sink.events }
}

/// Little's law of the log: its writes and syncs against what was in flight, on another clock.
///
/// A busy machine can take the processor away between two readings: then it is run again.
fn assert_accounted(policy: GroupCommit, ran: &Ran) {
    let deviation = |ran: &Ran| {
        let (_, writes) = ran.recorded(OperationName::Write);
        let (_, syncs) = ran.recorded(OperationName::Sync);
        let counted: u64 = ran.jobs().iter().map(|job| job.accounting.in_flight_ns).sum();
        (writes + syncs) as f64 / counted as f64 - 1.0
    };
    let mut seen = vec![deviation(ran)];
    while seen.last().is_some_and(|swing| swing.abs() >= 0.05) {
        assert!(seen.len() < 8, "{seen:?}");
        let again = execute(None, step(log(policy), Limit::Operations(400)), false);
        seen.push(deviation(&again));
    }
}

#[test]
fn committers_with_a_thread_each_share_writes_and_syncs_on_a_file() {
    for double_buffered in [true, false] {
        let policy = GroupCommit { double_buffered, ..threads(8) };
        let ran = execute(None, step(log(policy), Limit::Operations(400)), false);
        assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Complete);
        assert_eq!((ran.commits(), ran.batched()), (400, 400));
        let (writes, write_ns) = ran.recorded(OperationName::Write);
        let (syncs, sync_ns) = ran.recorded(OperationName::Sync);
        assert_eq!(writes, syncs);
        assert!(writes < 400, "some were written together");
        // Each commit has waited for a write and a sync at least, its own or one that began later.
        let (_, commit_ns) = ran.recorded(OperationName::Commit);
        assert!(commit_ns >= write_ns + sync_ns, "{commit_ns} {write_ns} {sync_ns}");
        assert_accounted(policy, &ran);
    }
}

fn software(clients: ClientThreads, writer: LogWriter) -> Software {
    let time = Nanos::from_micros(1);
    let client = if clients == ClientThreads::Embedded { Nanos::ZERO } else { time };
    let (before, after, batch, wake) = (time, time, time, time);
    Software {
        clients,
        writer,
        wakes_all: true,
        flushes: 1,
        turn: None,
        client,
        before,
        after,
        batch,
        apply: None,
        yields: None,
        wake,
    }
}

/// Every way in which a database can be made of threads.
fn databases() -> Vec<Software> {
    let writers = [LogWriter::Committer, LogWriter::LogThread, LogWriter::EventLoop];
    let of = |writer| {
        let clients = [ClientThreads::Embedded, ClientThreads::One, ClientThreads::Each];
        clients.map(|clients| software(clients, writer))
    };
    let plain: Vec<Software> = writers.into_iter().flat_map(of).collect();
    let turns = plain.iter().map(|software| Software { turn: Some(Nanos::new(700)), ..*software });
    let parts = plain.iter().map(|software| Software { apply: Some(software.batch), ..*software });
    let yields = Some(Nanos::from_micros(100));
    let yielding =
        plain.iter().map(|software| Software { apply: Some(software.batch), yields, ..*software });
    let all = plain.iter().copied().chain(turns).chain(parts).chain(yielding);
    all.filter(|software| software.validate().is_ok()).collect()
}

#[test]
fn clients_of_every_kind_of_database_have_their_transactions_committed_once() {
    for software in databases() {
        let policy = GroupCommit { software: Some(software), ..threads(8) };
        let limit = Limit::Duration(Nanos::from_millis(200));
        let ran = execute(None, step(log(policy), limit), false);
        assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Complete, "{software:?}");
        let (commits, batched) = (ran.commits(), ran.batched());
        // Each client waits for one answer, and the last ones may come after the end.
        assert!(commits > 8 && batched.abs_diff(commits) <= 8, "{software:?} {commits} {batched}");
        let (writes, flush_ns) = ran.recorded(OperationName::Sync);
        assert!(writes < batched, "{software:?}: some were written together");
        // A client sees its own flush at least, and the time that software takes.
        let (_, commit_ns) = ran.recorded(OperationName::Commit);
        assert!(commit_ns / commits >= flush_ns / writes, "{software:?}");
    }
}

#[test]
fn a_commit_of_several_flushes_waits_for_all_of_them() {
    let flushes = 4;
    let one = software(ClientThreads::Embedded, LogWriter::Client);
    let policy = GroupCommit { software: Some(Software { flushes, ..one }), ..threads(1) };
    let limit = Limit::Duration(Nanos::from_millis(200));
    let ran = execute(None, step(log(policy), limit), false);
    assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Complete);
    let (commits, commit_ns) = ran.recorded(OperationName::Commit);
    let (syncs, sync_ns) = ran.recorded(OperationName::Sync);
    assert!(
        syncs.abs_diff(commits * u64::from(flushes)) <= u64::from(flushes),
        "{commits} {syncs}"
    );
    assert!(commit_ns / commits >= u64::from(flushes) * (sync_ns / syncs), "{commit_ns} {sync_ns}");
}

#[test]
fn transactions_come_at_the_rate_that_is_offered_to_every_kind_of_database() {
    for software in databases() {
        let policy = GroupCommit { software: Some(software), ..threads(4) };
        let mut step = step(log(policy), Limit::Duration(Nanos::from_millis(400)));
        step.load.arrivals = Arrivals::Poisson { rate_per_second: 500.0 };
        let ran = execute(None, step, false);
        assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Complete, "{software:?}");
        let pacing = ran.jobs()[0].pacing.unwrap();
        // 200 are expected; 7 standard deviations.
        assert!((100..=300).contains(&pacing.due), "{software:?} {pacing:?}");
        assert_eq!(ran.commits(), pacing.started, "{software:?}");
        assert_eq!(ran.batched(), pacing.started, "{software:?}");
        let (waited, due) =
            (ran.recorded(OperationName::Commit), ran.responses(OperationName::Commit));
        assert_eq!(waited.0, due.0, "{software:?}");
        assert!(due.1 > waited.1, "{software:?}: a transaction is due before it is sent");
    }
}

#[test]
fn a_failed_write_ends_every_kind_of_database() {
    for software in databases() {
        let policy = GroupCommit { software: Some(software), ..threads(8) };
        let limit = Limit::Duration(Nanos::from_secs(20));
        let ran = execute(device("/dev/full"), step(log(policy), limit), false);
        assert_eq!(ran.error().errno, Some(28), "{software:?}");
        assert_eq!(ran.commits(), 0, "{software:?}");
    }
}

#[test]
fn a_stop_ends_every_kind_of_database() {
    for software in databases() {
        let policy = GroupCommit { software: Some(software), ..threads(8) };
        let limit = Limit::Duration(Nanos::from_secs(60));
        let ran = execute(None, step(log(policy), limit), true);
        assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Interrupted, "{software:?}");
    }
}

#[test]
fn committers_that_are_no_threads_do_the_same() {
    let policy = GroupCommit::of(8);
    let ran = execute(None, step(log(policy), Limit::Operations(400)), false);
    assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Complete);
    assert_eq!((ran.commits(), ran.batched()), (400, 400));
    assert_eq!(ran.recorded(OperationName::Sync).0, 50);
    assert_accounted(policy, &ran);
}

#[test]
fn several_logs_have_committers_of_their_own() {
    for policy in [GroupCommit::of(4), threads(4)] {
        let workload = Workload { jobs: 2, ..log(policy) };
        let ran = execute(None, step(workload, Limit::Operations(101)), false);
        assert_eq!(ran.commits(), 101);
        assert_eq!(ran.jobs().len(), 2);
    }
}

#[test]
fn a_delay_gathers_the_threads_that_are_just_awake() {
    let delay = Nanos::from_millis(3);
    let policy = GroupCommit { delay, siblings: 3, ..threads(4) };
    let ran = execute(None, step(log(policy), Limit::Operations(80)), false);
    assert_eq!(ran.commits(), 80);
    let job = ran.jobs()[0];
    let batches = job.batches.as_ref().unwrap();
    assert!(batches.delayed > 0, "{batches:?}");
    let (commits, sum) = ran.recorded(OperationName::Commit);
    assert!(sum / commits >= 2_000_000, "the delay is in the latency: {}", sum / commits);
    // A waiting leader looks every 100 ms whether the run is over; its delay must not grow to that.
    let (writes, write_ns) = ran.recorded(OperationName::Write);
    let (_, sync_ns) = ran.recorded(OperationName::Sync);
    let aside = (job.measured.get() - write_ns - sync_ns) / writes;
    assert!(aside < 50_000_000, "{aside} ns for each batch, besides its write and sync");
    let alone = GroupCommit { siblings: 4, ..policy };
    let ran = execute(None, step(log(alone), Limit::Operations(80)), false);
    assert_eq!(ran.jobs()[0].batches.as_ref().unwrap().delayed, 0);
}

#[test]
fn threads_commit_at_the_rate_that_is_offered() {
    let mut step = step(log(threads(8)), Limit::Duration(Nanos::from_millis(500)));
    step.load.arrivals = Arrivals::Constant { rate_per_second: 200.0 };
    let ran = execute(None, step, false);
    assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Complete);
    let pacing = ran.jobs()[0].pacing.unwrap();
    assert!((95..=100).contains(&pacing.due), "{pacing:?}");
    assert_eq!(ran.commits(), pacing.started);
}

#[test]
fn threads_that_have_committed_what_was_asked_for_missed_no_later_arrival() {
    // 40 records of 256 bytes, due within 100 ms.
    let limit =
        Limit::VolumeWithin { volume: Bytes::new(40 * 256), duration: Nanos::from_secs(20) };
    let mut step = step(log(threads(4)), limit);
    step.load.arrivals = Arrivals::Constant { rate_per_second: 400.0 };
    let ran = execute(None, step, false);
    assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Complete);
    let pacing = ran.jobs()[0].pacing.unwrap();
    assert_eq!((pacing.due, pacing.started, ran.commits()), (40, 40, 40), "{pacing:?}");
}

#[test]
fn a_time_limit_and_a_wish_to_stop_end_every_thread() {
    let limited = step(log(threads(16)), Limit::Duration(Nanos::from_millis(100)));
    let ran = execute(None, limited, false);
    assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Complete);
    assert_eq!(ran.commits(), ran.batched());
    for policy in [threads(16), GroupCommit::of(16)] {
        let endless = step(log(policy), Limit::Duration(Nanos::from_secs(3600)));
        let ran = execute(None, endless, true);
        assert_eq!(*ran.result.as_ref().unwrap(), Outcome::Interrupted);
        assert_eq!(ran.commits(), ran.batched());
    }
}

/// A device that takes no writes, or no syncs.
fn device(path: &str) -> Option<TargetKind> {
    Some(TargetKind::NullDevice { path: RawPath::from(path) })
}

#[test]
fn a_failed_write_or_sync_fails_every_commit_and_the_step() {
    for policy in [threads(8), GroupCommit::of(8)] {
        let endless = || step(log(policy), Limit::Duration(Nanos::from_secs(3600)));
        let ran = execute(device("/dev/full"), endless(), false);
        assert!(ran.result.is_err());
        assert_eq!((ran.error().errno, ran.error().offset), (Some(28), Some(Bytes::ZERO)));
        assert_eq!((ran.commits(), ran.batched()), (0, 0));
        // /dev/zero takes writes and knows no sync.
        let ran = execute(device("/dev/zero"), endless(), false);
        assert_eq!((ran.error().errno, ran.commits()), (Some(22), 0));
        assert!(ran.error().message.contains("fdatasync"), "{}", ran.error().message);
    }
}

#[test]
fn a_scripted_error_is_in_the_record_with_its_place() {
    let script = NullScript { latencies: vec![Nanos::from_micros(50)], fails_at: Some(6) };
    let mut step = step(log(GroupCommit::of(8)), Limit::Operations(1000));
    (step.load.engine, step.load.script) = (EngineKind::Null, Some(script));
    let ran = execute(Some(TargetKind::Scripted), step, false);
    assert_eq!((ran.error().errno, ran.error().offset), (Some(5), Some(Bytes::new(3 * 4096))));
    assert_eq!((ran.commits(), ran.batched()), (24, 24));
}

#[test]
fn batches_that_direct_io_cannot_take_are_refused() {
    let policy = GroupCommit { pad_to: Bytes::new(100), ..GroupCommit::of(4) };
    let workload = Workload { cache: CacheMode::Direct, ..log(policy) };
    let ran = execute(None, step(workload, Limit::Operations(8)), false);
    // Where the filesystem knows no direct I/O, it falls back and runs.
    if let Err(error) = &ran.result {
        assert!(error.to_string().contains("100 B is not a multiple"), "{error}");
        assert!(error.hint.as_ref().unwrap().contains("--pad-to"));
    }
}

#[test]
fn what_a_plan_must_not_ask_of_a_log_is_refused() {
    let refused = |engine, policy| {
        let load = Load::new(0, log(policy), engine);
        let step = Step::new(Role::Measure, load, Limit::Operations(1), Nanos::from_secs(1));
        let plan = Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Run,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: vec![Target {
                name: "log".into(),
                location: None,
                kind: TargetKind::Scripted,
                size: Bytes::from_mib(1),
                destroy: false,
            }],
            steps: vec![step],
            campaign: None,
            thresholds: Vec::new(),
        };
        plan.validate().is_err()
    };
    assert!(refused(EngineKind::Fio, GroupCommit::of(4)));
    for engine in [EngineKind::Null, EngineKind::Uring, EngineKind::Aio] {
        assert!(refused(engine, threads(4)), "{engine}");
        assert!(!refused(engine, GroupCommit::of(4)), "{engine}");
    }
}
