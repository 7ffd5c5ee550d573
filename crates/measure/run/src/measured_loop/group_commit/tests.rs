//! Group commit on virtual time: what a committer sees is known to the nanosecond, and a witness
//! between loop and engine sees every record that is written.

mod witness;

use std::sync::mpsc::{Receiver, sync_channel};

use durio_base::{Bytes, Nanos};
use durio_block::{Buffers, Engine, NullAnswers, NullEngine, OperationKind, Ticks, WriteFlags};
use durio_record::{Batches, Exact, Latency, OperationName};
use durio_workload::{
    ArrivalSchedule, Arrivals, BlockFiller, BlockShare, GroupCommit, Pattern, PerMille, Stream,
    SyncMethod, SyncPolicy, Workload,
};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::StopFlag;
use crate::log::Log;
use crate::measured_loop::{Idle, JobBounds, LoopInput, LoopResult, MeasuredLoop};
use crate::recorder::{ClosedInterval, IntervalBuffer, JobRecorder};
use witness::Witness;

const MICRO: u64 = 1000;
const MILLI: u64 = 1_000_000;

/// Of the records' bytes.
const SEED: u64 = 1;

/// A log of 256-byte records made durable by fdatasync.
fn workload(policy: GroupCommit) -> Workload {
    Workload {
        name: "log".to_owned(),
        read_share: PerMille::NONE,
        block_size: Bytes::new(256),
        sync: SyncPolicy::each(SyncMethod::Fdatasync),
        group_commit: Some(policy),
        ..Workload::default()
    }
}

fn records(count: u64) -> JobBounds {
    JobBounds { ramp: 0, end: None, interval: u64::MAX, operations: count, bytes: u64::MAX }
}

fn lasting(nanos: u64) -> JobBounds {
    JobBounds { end: Some(nanos), operations: u64::MAX, ..records(0) }
}

/// What a run gave.
struct Ran {
    result: LoopResult,
    closed: Vec<ClosedInterval>,
    witness: Witness,
}

impl Ran {
    fn batches(&self) -> &Batches {
        self.result.batches.as_ref().unwrap()
    }

    /// (service, response) of an operation.
    fn latencies(&self, name: OperationName) -> (Exact, Exact) {
        let (mut service, mut response) = <(Latency, Latency)>::default();
        for closed in &self.closed {
            if let Some(taken) = &closed.buffer.operations[name as usize] {
                taken.service.add_to(&mut service);
                if let Some(counts) = &taken.response {
                    counts.add_to(&mut response);
                }
            }
        }
        (service.exact, response.exact)
    }

    fn service(&self, name: OperationName) -> Exact {
        self.latencies(name).0
    }
}

/// Writes take the even latencies of the script, syncs the odd ones.
struct Case {
    workload: Workload,
    bounds: JobBounds,
    script: Vec<u64>,
    fails_at: Option<u64>,
    arrivals: Arrivals,
    region: Bytes,
    /// The user stops it before its exchange of this number.
    stop_at: Option<u64>,
}

impl Case {
    fn of(policy: GroupCommit, bounds: JobBounds) -> Self {
        Self {
            workload: workload(policy),
            bounds,
            script: vec![100 * MICRO, 900 * MICRO],
            fails_at: None,
            arrivals: Arrivals::Closed,
            region: Bytes::from_mib(1),
            stop_at: None,
        }
    }

    fn engine(&self) -> NullEngine {
        let slots = if self.policy().double_buffered { 2 } else { 1 };
        let length = usize::try_from(self.workload.transfer_max().get()).unwrap();
        let script = self.script.iter().copied().map(Nanos::new).collect();
        NullEngine::new(NullAnswers::new(script, self.fails_at), Buffers::new(slots, length))
    }

    fn policy(&self) -> GroupCommit {
        self.workload.group_commit.unwrap()
    }

    fn run(&self) -> Ran {
        self.workload.validate().unwrap();
        let stop = StopFlag::default();
        let mut witness = Witness::new(self.engine(), SEED, stop.clone(), self.stop_at);
        let (result, closed) = self.drive(&mut witness, &stop, None);
        Ran { result, closed: closed.try_iter().collect(), witness }
    }

    /// Runs it on `engine`, and asserts that at most `allocations` are made in the loop.
    fn drive<E: Engine>(
        &self,
        engine: &mut E,
        stop: &StopFlag,
        allocations: Option<u64>,
    ) -> (LoopResult, Receiver<ClosedInterval>) {
        let workload = &self.workload;
        let schedule = ArrivalSchedule::new(&self.arrivals, 0, 1, 7);
        let (closed, intervals) = sync_channel(100_000);
        let (spare, empty) = sync_channel(1000);
        for _ in 0..20 {
            spare.send(IntervalBuffer::new(workload, schedule.is_some())).unwrap();
        }
        let mut recorder = JobRecorder::new(0, workload, (true, schedule.is_some()), closed, empty);
        let region = workload.region_of(0, self.region).unwrap();
        let mut log = Log::of(workload, region).unwrap();
        let mut idle = Idle::with_capacity(self.policy().committers as usize);
        let failed = StopFlag::default();
        let input = LoopInput {
            stream: Stream::new(workload, region, 1),
            recorder: &mut recorder,
            stop: stop.flag(),
            failed: failed.flag(),
            write_flags: WriteFlags::None,
            commits: workload.commits_each_write(),
            sync: workload.sync.method,
            depth: workload.depth,
            batch: 1,
            varied: workload.has_mix(),
            filler: BlockFiller::new(workload, SEED),
            pass_files: Vec::new(),
            syncs_at_end: workload.syncs_at_end,
            files: 1,
            drain: None,
            completion_time: durio_plan::CompletionTime::Seen,
        };
        let measured = MeasuredLoop::new(engine, self.bounds, input);
        let mut result = None;
        let counted = allocation_counter::measure(|| {
            result = Some(measured.run_log(Ticks(0), &mut log, &mut idle, schedule));
        });
        if let Some(allowed) = allocations {
            assert!(counted.count_total <= allowed, "{counted:?} in the measured loop");
        }
        recorder.finish();
        (result.unwrap(), intervals)
    }
}

fn policy(committers: u32) -> GroupCommit {
    GroupCommit::of(committers)
}

#[test]
fn all_committers_share_a_write_and_a_sync() {
    let ran = Case::of(policy(64), records(6400)).run();
    let commits = ran.service(OperationName::Commit);
    assert_eq!(commits.count, 6400);
    assert_eq!((commits.min_ns, commits.max_ns), (MILLI, MILLI));
    assert_eq!(ran.service(OperationName::Write).count, 100);
    assert_eq!(ran.service(OperationName::Sync).sum_ns, 100 * 900 * MICRO);
    assert_eq!(ran.batches().sizes, [(64, 100)]);
    assert_eq!((ran.batches().padding, ran.batches().full), (Bytes::ZERO, 0));
    assert_eq!(ran.result.end_ns, 100 * MILLI);
    // The log has one operation in flight all the time: Little's law, exactly.
    let log = ran.service(OperationName::Write).sum_ns + ran.service(OperationName::Sync).sum_ns;
    assert_eq!(log, ran.result.accounting.in_flight_ns);
    ran.witness.assert_each_once(6400);
}

/// 64 independent writers on one log device, whose flushes it does one at a time: each writes, and
/// waits for a flush of its own. With a flush of 1 ms and writes that cost nothing next to it, their
/// flushes follow each other, so the device gives 1000 commits per second however many writers
/// there are: exactly what one writer of depth 1 gets from a script of one flush after the other.
/// (A device that merges concurrent flushes does a group commit of its own; that is not this one.)
fn independent_writers_per_second(flush_ns: u64) -> f64 {
    let alone = GroupCommit { batch_max: Bytes::new(1), ..policy(64) };
    let case = Case { script: vec![1, flush_ns], ..Case::of(alone, lasting(1000 * MILLI)) };
    let ran = case.run();
    let commits = ran.service(OperationName::Commit);
    // 64 writers wait for 64 flushes: Little's law for a server that serves one at a time.
    assert!(commits.max_ns <= 64 * (flush_ns + 1), "{commits:?}");
    assert_eq!(ran.batches().sizes.len(), 1, "every flush is one writer's");
    per_second(&ran)
}

fn per_second(ran: &Ran) -> f64 {
    ran.service(OperationName::Commit).count as f64 / (ran.result.end_ns as f64 / 1e9)
}

#[test]
fn group_commit_of_64_gives_fifty_times_the_commits_of_independent_writers() {
    let independent = independent_writers_per_second(MILLI);
    assert!((independent - 1000.0).abs() < 1.0, "{independent}");
    let case = Case { script: vec![1, MILLI], ..Case::of(policy(64), lasting(1000 * MILLI)) };
    let grouped = per_second(&case.run());
    assert!(grouped >= 50.0 * independent, "{grouped} against {independent}");
    assert!(grouped <= 64.0 * independent * 1.001, "more than one record of each per flush");
}

#[test]
fn a_batch_has_at_most_its_bytes_and_the_rest_waits_for_the_next() {
    let bound = GroupCommit { batch_max: Bytes::new(1024), ..policy(10) };
    let ran = Case::of(bound, records(30)).run();
    // 4 of 10, 4, then the 2 left over with the first 2 that came back, …: 7 × 4 and 2.
    assert_eq!(ran.batches().sizes, [(2, 1), (4, 7)]);
    assert_eq!(ran.service(OperationName::Commit).count, 30);
    assert_eq!(ran.service(OperationName::Commit).max_ns, 3 * MILLI);
    assert!(ran.batches().full > 0);
    assert!(ran.witness.writes.iter().all(|write| write.records.len() <= 4));
    let padding: u64 =
        ran.witness.writes.iter().map(|write| 4096 - 256 * write.records.len() as u64).sum();
    assert_eq!(ran.batches().padding.get(), padding);
}

#[test]
fn batches_are_filled_up_and_go_around_at_the_end_of_the_log() {
    let case = Case { region: Bytes::from_kib(20), ..Case::of(policy(20), records(200)) };
    let ran = case.run();
    // 5120 bytes are 8 KiB: two fit in 20 KiB, the third starts over.
    let offsets: Vec<u64> = ran.witness.writes.iter().map(|write| write.offset).collect();
    assert_eq!(offsets[..5], [0, 8192, 0, 8192, 0]);
    assert!(ran.witness.writes.iter().all(|write| write.length == 8192));
    assert!(ran.witness.writes.iter().all(|write| write.padding_is_zero));
    assert_eq!(ran.batches().padding, Bytes::new(10 * 3072));
}

#[test]
fn a_leader_waits_its_delay_if_enough_others_are_at_work() {
    let delay = Nanos::from_micros(250);
    let of = |siblings| GroupCommit { delay, siblings, ..policy(8) };
    for (siblings, delayed) in [(0, true), (5, true), (7, true), (8, false)] {
        let ran = Case::of(of(siblings), records(80)).run();
        let expected = MILLI + if delayed { 250 * MICRO } else { 0 };
        let commits = ran.service(OperationName::Commit);
        assert_eq!((commits.min_ns, commits.max_ns), (expected, expected), "{siblings}");
        assert_eq!(ran.batches().delayed, if delayed { 10 } else { 0 }, "{siblings}");
    }
}

#[test]
fn a_full_batch_is_not_waited_with() {
    let delay = Nanos::from_millis(5);
    let full = GroupCommit { delay, batch_max: Bytes::new(1024), ..policy(8) };
    let ran = Case::of(full, records(80)).run();
    assert_eq!((ran.batches().delayed, ran.service(OperationName::Commit).max_ns), (0, 2 * MILLI));
}

/// Arrivals every `gap`, for a second.
fn arriving(policy: GroupCommit, gap_us: u64) -> Case {
    let rate_per_second = 1e6 / gap_us as f64;
    let arrivals = Arrivals::Constant { rate_per_second };
    Case { arrivals, ..Case::of(policy, lasting(1000 * MILLI)) }
}

#[test]
fn in_an_open_loop_a_delay_gathers_what_arrives_meanwhile() {
    // An arrival each 400 us, a write of 100 us and a sync of 200 us.
    let script = vec![100 * MICRO, 200 * MICRO];
    let none = Case { script: script.clone(), ..arriving(policy(8), 400) }.run();
    assert_eq!(none.batches().sizes, [(1, 2500)]);
    assert_eq!(none.latencies(OperationName::Commit).1.max_ns, 300 * MICRO);
    // 900 us after the first arrival two more are there; with the flush, a cycle is 1.2 ms.
    let delay = Nanos::from_micros(900);
    let waiting = GroupCommit { delay, ..policy(8) };
    let ran = Case { script, ..arriving(waiting, 400) }.run();
    let (service, response) = ran.latencies(OperationName::Commit);
    assert_eq!(service, response, "no arrival waited for a committer");
    assert_eq!(response.max_ns, 1200 * MICRO);
    assert_eq!(response.min_ns, 400 * MICRO);
    assert_eq!(ran.batches().sizes, [(1, 1), (3, 833)], "the last one is alone");
    // With a sibling asked for, a lone record is not delayed: nobody else is at work.
    let lone = GroupCommit { siblings: 1, ..waiting };
    let ran = Case { script: vec![100 * MICRO, 200 * MICRO], ..arriving(lone, 400) }.run();
    assert_eq!((ran.batches().delayed, ran.batches().sizes.len()), (0, 1));
}

#[test]
fn an_open_loop_offers_its_rate_and_tells_response_from_the_intended_start() {
    let arrivals = Arrivals::Poisson { rate_per_second: 20_000.0 };
    let ran = Case { arrivals, ..Case::of(policy(64), lasting(2000 * MILLI)) }.run();
    let pacing = ran.result.pacing.unwrap();
    let commits = ran.service(OperationName::Commit);
    assert!((39_000..41_000).contains(&commits.count), "{commits:?}");
    assert_eq!((pacing.due, pacing.started), (commits.count, commits.count));
    assert_eq!((pacing.punctual, pacing.lag_ns_max), (commits.count, 0));
    // A record arrives somewhere in a flush of 1 ms and waits for the rest and for its own.
    let mean = commits.mean_ns().unwrap();
    assert!((1.4e6..1.6e6).contains(&mean), "{mean}");
    ran.witness.assert_each_once(commits.count);
}

#[test]
fn arrivals_beyond_the_committers_wait_and_their_response_says_so() {
    // 4 committers and a flush of 1 ms: 4000 per second at most, of 8000.
    let case = arriving(policy(4), 125);
    let ran = case.run();
    let (service, response) = ran.latencies(OperationName::Commit);
    assert_eq!(service.max_ns, 2 * MILLI - 125 * MICRO);
    assert!(response.max_ns > 450 * MILLI, "{response:?}");
    let pacing = ran.result.pacing.unwrap();
    assert_eq!(pacing.due, 8000);
    assert!((3990..=4004).contains(&pacing.started), "{pacing:?}");
}

#[test]
fn without_a_second_buffer_the_commits_are_the_same() {
    let single = GroupCommit { double_buffered: false, ..policy(16) };
    let (one, two) =
        (Case::of(single, records(800)).run(), Case::of(policy(16), records(800)).run());
    assert_eq!(one.batches(), two.batches());
    assert_eq!(one.service(OperationName::Commit), two.service(OperationName::Commit));
    assert!(one.witness.writes.iter().all(|write| write.slot == 0));
    assert!(two.witness.writes.iter().any(|write| write.slot == 1));
}

#[test]
fn a_durable_write_needs_no_sync_and_an_unsynced_log_is_there_for_contrast() {
    for method in [SyncMethod::RwfDsync, SyncMethod::None] {
        let mut case = Case::of(policy(8), records(80));
        case.workload.sync = SyncPolicy::each(method);
        case.script = vec![300 * MICRO];
        let ran = case.run();
        let commits = ran.service(OperationName::Commit);
        assert_eq!((commits.count, commits.max_ns), (80, 300 * MICRO), "{method}");
        assert!(ran.witness.writes.iter().all(|write| write.durable_at == write.written_at));
        assert_eq!(ran.service(OperationName::Sync).count, 0);
    }
}

#[test]
fn an_error_in_write_or_sync_fails_every_commit_that_waits() {
    // Operation 4 is the third batch's write, 5 its sync.
    for (fails_at, kind) in [(4, OperationKind::Write), (5, OperationKind::Fdatasync)] {
        let bound = GroupCommit { batch_max: Bytes::new(1024), ..policy(10) };
        let case = Case { fails_at: Some(fails_at), ..Case::of(bound, lasting(1000 * MILLI)) };
        let ran = case.run();
        let failure = ran.result.ending.failure.unwrap();
        assert_eq!((failure.kind, failure.result), (kind, -5));
        assert_eq!((failure.offset, failure.length), (8192, 4096));
        let taken = &ran.closed[0].buffer.operations[OperationName::Commit as usize];
        let commits = taken.as_ref().unwrap().service.latency().exact.count;
        assert_eq!(commits, 8, "two batches of four were durable before");
        assert_eq!(ran.result.batches.unwrap().sizes, [(4, 2)]);
        assert_eq!(ran.witness.writes.len(), 3, "nothing is retried");
    }
}

#[test]
fn a_wish_to_stop_waits_for_the_batch_in_flight_alone() {
    let bound = GroupCommit { batch_max: Bytes::new(1024), ..policy(100) };
    // Before the third exchange the first batch is written and synced.
    let case = Case { stop_at: Some(3), ..Case::of(bound, lasting(10_000 * MILLI)) };
    let ran = case.run();
    assert_eq!(ran.service(OperationName::Commit).count, 8);
    assert!(ran.result.ending.failure.is_none());
    // The delay does not hold it up either.
    let delay = Nanos::from_secs(1);
    let slow = Case::of(GroupCommit { delay, ..policy(4) }, lasting(10_000 * MILLI));
    let ran = Case { stop_at: Some(0), ..slow }.run();
    assert_eq!(ran.service(OperationName::Commit).count, 0);
    assert!(ran.result.end_ns <= 100 * MILLI, "{}", ran.result.end_ns);
}

#[test]
fn nothing_is_handed_over_after_the_end_and_what_was_is_acknowledged() {
    let bound = GroupCommit { batch_max: Bytes::new(1024), ..policy(10) };
    let ran = Case::of(bound, lasting(10 * MILLI + 1)).run();
    // 11 batches of four begin before the end; the records that wait then are still written.
    let commits = ran.service(OperationName::Commit).count;
    assert_eq!(commits, 10 * 4 + 10);
    ran.witness.assert_each_once(commits);
}

#[test]
fn the_ramp_is_no_part_of_the_batches() {
    let bounds = JobBounds { ramp: 50 * MILLI, interval: 10 * MILLI, ..lasting(100 * MILLI) };
    let ran = Case::of(policy(8), bounds).run();
    assert_eq!(ran.batches().sizes, [(8, 50)]);
    assert_eq!(ran.closed.len(), 10);
}

#[test]
fn nothing_is_allocated_in_the_loop() {
    let open = Arrivals::Poisson { rate_per_second: 50_000.0 };
    for arrivals in [Arrivals::Closed, open] {
        let bounds = JobBounds { interval: 100 * MILLI, ..lasting(1000 * MILLI) };
        let delay = Nanos::from_micros(50);
        let case = Case { arrivals, ..Case::of(GroupCommit { delay, ..policy(64) }, bounds) };
        // The list of batch sizes, after the last operation: it grows a few times.
        case.drive(&mut case.engine(), &StopFlag::default(), Some(8));
    }
}

/// A policy, sizes and latencies by chance.
fn arbitrary(seed: u64) -> Case {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |bound: u32| random.next_u32() % bound;
    let policy = GroupCommit {
        committers: 1 + below(90),
        delay: Nanos::from_micros((below(3) * below(400)).into()),
        siblings: below(12),
        batch_max: Bytes::new((1 + below(40_000)).into()),
        pad_to: if below(3) == 0 { Bytes::ZERO } else { Bytes::new(512 << below(4)) },
        double_buffered: below(2) == 0,
        ..GroupCommit::of(1)
    };
    let mut case = Case::of(policy, records((1 + below(3000)).into()));
    case.script = (0..5).map(|_| u64::from(1 + below(2_000_000))).collect();
    case.region = Bytes::new((200_000 + below(1 << 20)).into());
    let share = |bytes, weight| BlockShare { size: Bytes::new(bytes), weight: PerMille(weight) };
    if below(2) == 0 {
        case.workload.block_size = Bytes::new(4000);
        case.workload.block_mix = vec![share(24, 300), share(700, 500), share(4000, 200)];
    }
    if below(3) == 0 {
        case.arrivals = Arrivals::Poisson { rate_per_second: f64::from(10 + below(100_000)) };
    }
    case
}

#[test]
fn every_record_is_acknowledged_once_and_only_after_its_sync() {
    let seed = std::env::var("DURIO_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand_seed);
    println!("DURIO_TEST_SEED={seed}");
    for number in 0..60 {
        let case = arbitrary(seed + number);
        println!("case {number}: {:?} {:?}", case.policy(), case.bounds.operations);
        assert_eq!(case.workload.pattern, Pattern::Sequential);
        let ran = case.run();
        let count = case.bounds.operations;
        ran.witness.assert_each_once(count);
        ran.witness.assert_within(&case.workload, case.region);
        let commits = ran.service(OperationName::Commit);
        assert_eq!(commits.count, count);
        if case.arrivals.is_closed() {
            assert_eq!(commits, ran.witness.expected_commits(case.policy().committers));
        }
        let batched: u64 =
            ran.batches().sizes.iter().map(|(size, count)| u64::from(*size) * count).sum();
        assert_eq!(batched, count);
        let log =
            ran.service(OperationName::Write).sum_ns + ran.service(OperationName::Sync).sum_ns;
        assert_eq!(log, ran.result.accounting.in_flight_ns);
    }
}

fn rand_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.as_secs())
}
