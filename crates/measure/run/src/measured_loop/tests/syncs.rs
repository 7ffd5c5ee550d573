//! Syncs of a range and linked syncs: exact latencies, whose slots, which links, and which of two
//! errors is told.

use durio_block::OperationKind;
use durio_workload::Pattern;

use super::*;

/// The null engine, with every operation that it was given, and completions in the other order if
/// wanted.
struct Spy {
    honest: NullEngine,
    seen: Vec<Vec<Operation>>,
    reversed: bool,
}

impl Spy {
    fn new(latencies: &[u64], depth: u32, fails_at: Option<u64>) -> Self {
        let latencies = latencies.iter().map(|&latency| Nanos::new(latency)).collect();
        let buffers = Buffers::new(depth as usize, 8192).with_bare(depth as usize);
        let honest = NullEngine::new(NullAnswers::new(latencies, fails_at), buffers);
        // Room beforehand: the loop is watched for allocations.
        let mut seen = Vec::with_capacity(10_000);
        seen.resize_with(10_000, || Vec::with_capacity(64));
        Self { honest, seen, reversed: false }
    }

    fn note(&mut self, operations: &[Operation]) {
        let place = self.seen.iter_mut().find(|call| call.is_empty()).unwrap();
        place.extend(operations);
    }

    /// The calls that submitted anything.
    fn calls(&self) -> impl Iterator<Item = &Vec<Operation>> {
        self.seen.iter().filter(|call| !call.is_empty())
    }
}

impl Engine for Spy {
    type Clock = VirtualClock;

    fn clock(&self) -> &VirtualClock {
        self.honest.clock()
    }

    fn capabilities(&self) -> Capabilities {
        self.honest.capabilities()
    }

    fn facts(&self) -> EngineFacts {
        self.honest.facts()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        self.honest.slot_mut(slot)
    }

    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        self.note(operations);
        let count = self.honest.exchange(operations, completions)?;
        if self.reversed {
            completions[..count].reverse();
        }
        Ok(count)
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        self.note(operations);
        self.honest.exchange_until(operations, completions, deadline)
    }
}

fn commits(method: SyncMethod, depth: u32) -> Workload {
    let (_, commit) = check_workloads().remove(0);
    Workload { sync: SyncPolicy::each(method), depth, ..commit }
}

const LINKED: [SyncMethod; 2] = [SyncMethod::LinkedFsync, SyncMethod::LinkedFdatasync];

/// Both sides of Little's law: the time that places were taken, and the latencies of these.
fn assert_accounted(result: &LoopResult, latencies: u64) {
    assert_eq!(latencies, result.accounting.in_flight_ns);
}

#[test]
fn a_linked_commit_ends_with_its_sync_which_has_no_latency_of_its_own() {
    for method in LINKED {
        let mut engine = Spy::new(&[30_000, 70_000], 1, None);
        let (result, intervals) = run(&mut engine, &commits(method, 1), 100, u64::MAX);
        let closed: Vec<_> = intervals.try_iter().collect();
        let exact = |name| exact(&closed[0], name);
        assert_eq!(exact(OperationName::Write).mean_ns(), Some(30_000.0));
        assert_eq!(exact(OperationName::Commit).mean_ns(), Some(100_000.0));
        assert_eq!(
            (exact(OperationName::Write).count, exact(OperationName::Commit).count),
            (100, 100)
        );
        assert!(closed[0].buffer.operations[OperationName::Sync as usize].is_none());
        assert_accounted(&result, exact(OperationName::Commit).sum_ns);
        assert_eq!(result.end_ns, 100 * 100_000);
    }
}

#[test]
fn a_write_and_its_linked_sync_go_in_one_call_to_slots_of_their_own() {
    for (method, kind) in LINKED.into_iter().zip([OperationKind::Fsync, OperationKind::Fdatasync]) {
        let mut engine = Spy::new(&[30_000, 70_000, 11_000], 4, None);
        let (result, intervals) = run(&mut engine, &commits(method, 4), 1000, u64::MAX);
        assert!(result.ending.failure.is_none());
        for call in engine.calls() {
            for pair in call.chunks(2) {
                let [write, sync] = pair else { panic!("{pair:?}") };
                assert_eq!((write.kind, write.link), (OperationKind::Write, true));
                assert_eq!((sync.kind, sync.link), (kind, false));
                assert_eq!((sync.slot, sync.length), (write.slot + 4, 0));
                assert!(write.slot < 4);
            }
        }
        let sum = total(&intervals, OperationName::Commit).exact;
        assert_eq!(sum.count, 1000);
        assert_accounted(&result, sum.sum_ns);
        let in_flight = result.accounting.in_flight_ns as f64 / result.accounting.span_ns as f64;
        assert!((in_flight - 4.0).abs() < 0.02, "{in_flight} places of 4");
    }
}

#[test]
fn reads_among_linked_commits_are_linked_to_nothing() {
    let mixed = Workload {
        pattern: Pattern::Random,
        read_share: PerMille(500),
        ..commits(SyncMethod::LinkedFdatasync, 4)
    };
    let mut engine = Spy::new(&[30_000, 70_000, 11_000], 4, None);
    let (result, intervals) = run(&mut engine, &mixed, 2000, u64::MAX);
    for call in engine.calls() {
        for (operation, next) in call.iter().zip(&call[1..]) {
            let linked = operation.kind == OperationKind::Write;
            assert_eq!(operation.link, linked, "{call:?}");
            assert_eq!(next.kind == OperationKind::Fdatasync, linked, "{call:?}");
        }
        assert!(!call[call.len() - 1].link);
    }
    let closed: Vec<_> = intervals.try_iter().collect();
    let [read, write, commit] = [OperationName::Read, OperationName::Write, OperationName::Commit]
        .map(|name| exact(&closed[0], name));
    assert_eq!(read.count + commit.count, 2000);
    assert_eq!(write.count, commit.count);
    assert!(read.count > 900 && commit.count > 900);
    assert_accounted(&result, read.sum_ns + commit.sum_ns);
}

#[test]
fn the_writes_error_is_told_and_not_the_cancellation_of_its_sync() {
    for reversed in [false, true] {
        // Operations 10 and 11 are the sixth write and its sync.
        let mut engine = Spy::new(&[30_000, 70_000], 1, Some(10));
        engine.reversed = reversed;
        let (result, intervals) =
            run(&mut engine, &commits(SyncMethod::LinkedFdatasync, 1), 100, u64::MAX);
        let failure = result.ending.failure.unwrap();
        assert_eq!((failure.kind, failure.result), (OperationKind::Write, -5));
        assert_eq!(total(&intervals, OperationName::Commit).exact.count, 5);
    }
}

#[test]
fn a_linked_sync_that_fails_is_told_as_what_it_is() {
    let mut engine = Spy::new(&[30_000, 70_000], 1, Some(11));
    let (result, intervals) = run(&mut engine, &commits(SyncMethod::LinkedFsync, 1), 100, u64::MAX);
    let failure = result.ending.failure.unwrap();
    assert_eq!((failure.kind, failure.result), (OperationKind::Fsync, -5));
    let closed: Vec<_> = intervals.try_iter().collect();
    assert_eq!(exact(&closed[0], OperationName::Write).count, 6);
    assert_eq!(exact(&closed[0], OperationName::Commit).count, 5);
}

#[test]
fn what_is_in_flight_when_one_commit_fails_is_waited_for() {
    let mut engine = Spy::new(&[30_000, 70_000, 11_000], 4, Some(21));
    let (result, _) = run(&mut engine, &commits(SyncMethod::LinkedFsync, 4), 1000, u64::MAX);
    assert!(result.ending.failure.is_some());
    let mut completions = [Completion::default(); 8];
    assert_eq!(engine.honest.exchange(&[], &mut completions).unwrap(), 0, "left in flight");
}

#[test]
fn a_range_and_then_its_file_are_one_sync() {
    let mut engine = Spy::new(&[30_000, 10_000, 60_000], 1, None);
    let workload = commits(SyncMethod::FileRange, 1);
    let (result, intervals) = run(&mut engine, &workload, 100, u64::MAX);
    let closed: Vec<_> = intervals.try_iter().collect();
    let [write, sync, commit] = [OperationName::Write, OperationName::Sync, OperationName::Commit]
        .map(|name| exact(&closed[0], name));
    assert_eq!([write, sync, commit].map(|exact| exact.count), [100; 3]);
    assert_eq!([write, sync, commit].map(|exact| exact.max_ns), [30_000, 70_000, 100_000]);
    assert_eq!([write, sync, commit].map(|exact| exact.min_ns), [30_000, 70_000, 100_000]);
    assert_accounted(&result, write.sum_ns + sync.sum_ns);
    let operations: Vec<_> = engine.calls().flatten().collect();
    for three in operations.chunks(3) {
        let kinds: Vec<_> = three.iter().map(|operation| operation.kind).collect();
        use OperationKind::{Fdatasync, SyncFileRange, Write};
        assert_eq!(kinds, [Write, SyncFileRange, Fdatasync]);
        assert_eq!((three[0].offset, three[0].length), (three[1].offset, three[1].length));
        assert!(three.iter().all(|operation| !operation.link));
    }
}

#[test]
fn a_range_that_cannot_be_synced_is_told_as_such() {
    let mut engine = Spy::new(&[30_000, 10_000, 60_000], 1, Some(4));
    let (result, intervals) = run(&mut engine, &commits(SyncMethod::FileRange, 1), 100, u64::MAX);
    let failure = result.ending.failure.unwrap();
    assert_eq!((failure.kind, failure.result), (OperationKind::SyncFileRange, -5));
    let closed: Vec<_> = intervals.try_iter().collect();
    assert_eq!(exact(&closed[0], OperationName::Write).count, 2);
    assert_eq!(exact(&closed[0], OperationName::Sync).count, 1);
}

#[test]
fn a_linked_commit_responds_when_its_sync_is_done_and_frees_its_place_then() {
    let schedule = ArrivalSchedule::new(&Arrivals::Constant { rate_per_second: 100.0 }, 0, 1, 1);
    let end = Some(1_000_000_000);
    let bounds =
        JobBounds { ramp: 0, end, interval: u64::MAX, operations: u64::MAX, bytes: u64::MAX };
    let mut engine = Spy::new(&[30_000, 70_000], 2, None);
    let (result, intervals) =
        run_bounded(&mut engine, &commits(SyncMethod::LinkedFdatasync, 2), bounds, schedule);
    let closed: Vec<_> = intervals.try_iter().collect();
    let commit = responses(&closed[0], OperationName::Commit);
    assert_eq!((commit.count, commit.max_ns), (100, 100_000));
    assert_eq!(responses(&closed[0], OperationName::Write).max_ns, 30_000);
    assert_eq!(result.pacing.as_ref().unwrap().started, 100);
    assert_accounted(&result, 100 * 100_000);
}

/// Runs a job that works on three files in turn; gives what ended it early and what it recorded.
fn run_over_files(
    engine: &mut Spy,
    workload: &Workload,
    operations: u64,
) -> (LoopResult, Vec<ClosedInterval>) {
    let (closed, intervals) = sync_channel(10);
    let (_spare, empty) = sync_channel(10);
    let mut recorder = JobRecorder::new(0, workload, (true, false), closed, empty);
    let region = workload.region_of(0, Bytes::from_mib(1)).unwrap();
    let (stop, failed) = (StopFlag::default(), StopFlag::default());
    let files = (3, durio_workload::FileOrder::EACH_IN_TURN);
    let input = LoopInput {
        stream: durio_workload::Stream::over_files(workload, region, 1, files),
        recorder: &mut recorder,
        stop: stop.flag(),
        failed: failed.flag(),
        write_flags: WriteFlags::None,
        commits: workload.commits_each_write(),
        sync: workload.sync.method,
        depth: workload.depth,
        batch: 4,
        varied: workload.has_mix(),
        filler: BlockFiller::new(workload, 1),
        pass_files: Vec::new(),
        syncs_at_end: workload.syncs_at_end,
        files: 3,
        drain: None,
        completion_time: CompletionTime::Seen,
    };
    let (interval, bytes) = (u64::MAX, u64::MAX);
    let bounds = JobBounds { ramp: 0, end: None, interval, operations, bytes };
    let result = MeasuredLoop::new(engine, bounds, input).run(Ticks(0));
    recorder.finish();
    (result, intervals.try_iter().collect())
}

#[test]
fn of_several_files_the_written_one_is_synced_and_each_of_them_at_the_end() {
    use OperationKind::{Fdatasync, Fsync, Write};
    let workload = Workload { syncs_at_end: true, ..commits(SyncMethod::Fdatasync, 1) };
    let block = workload.block_size.get();
    let mut engine = Spy::new(&[30_000, 10_000], 1, None);
    let (result, closed) = run_over_files(&mut engine, &workload, 7);
    let told: Vec<_> = engine
        .calls()
        .flatten()
        .map(|operation| (operation.kind, operation.file, operation.offset))
        .collect();
    let mut expected = Vec::new();
    for access in 0..7_u32 {
        let file = access % 3;
        expected.push((Write, file, u64::from(access / 3) * block));
        expected.push((Fdatasync, file, 0));
    }
    expected.extend([0, 1, 2].map(|file| (Fsync, file, 0)));
    assert_eq!(told, expected);
    assert!(!result.ending.is_early());
    let counted = [OperationName::Write, OperationName::Sync, OperationName::Commit]
        .map(|name| exact(&closed[0], name))
        .map(|exact| (exact.count, exact.sum_ns));
    // The script goes on: the last three take 30, 10 and 30 us.
    assert_eq!(counted, [(7, 210_000), (10, 140_000), (7, 280_000)]);
}

#[test]
fn a_job_that_failed_syncs_none_of_its_files_at_the_end() {
    use OperationKind::{Fdatasync, Write};
    let workload = Workload { syncs_at_end: true, ..commits(SyncMethod::Fdatasync, 1) };
    let mut engine = Spy::new(&[30_000, 10_000], 1, Some(3));
    let (result, _) = run_over_files(&mut engine, &workload, 7);
    let told: Vec<_> =
        engine.calls().flatten().map(|operation| (operation.kind, operation.file)).collect();
    assert_eq!(told, [(Write, 0), (Fdatasync, 0), (Write, 1), (Fdatasync, 1)]);
    let failure = result.ending.failure.unwrap();
    assert_eq!((failure.kind, failure.result), (Fdatasync, -5));
}
