//! The measured loop on virtual time: exact latencies, complete accounting, and accounting faults
//! that must show.

mod alike;
mod data;
mod draining;
mod syncs;

use std::sync::mpsc::{Receiver, sync_channel};

use durio_base::{Bytes, Nanos};
use durio_block::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, NullAnswers,
    NullEngine, Operation, Ticks, VirtualClock, WriteFlags,
};
use durio_plan::{CompletionTime, DrainPolicy};
use durio_record::{Latency, OperationName, OperationRecord};
use durio_workload::{
    ArrivalSchedule, Arrivals, BlockFiller, BlockShare, Pattern, PerMille, SyncMethod, SyncPolicy,
    Workload, check_workloads, self_cost_workload,
};

use super::{JobBounds, LoopInput, LoopResult, MeasuredLoop};
use crate::StopFlag;
use crate::recorder::{ClosedInterval, JobRecorder, Parts, PerOperation};

fn null_engine(latencies: &[u64], depth: u32) -> NullEngine {
    let latencies = latencies.iter().map(|&latency| Nanos::new(latency)).collect();
    let buffers = Buffers::new(depth as usize, 8192).with_bare(depth as usize);
    NullEngine::new(NullAnswers::new(latencies, None), buffers)
}

/// Runs `operations` accesses of `workload` and gives the loop's result and the closed intervals.
fn run<E: Engine>(
    engine: &mut E,
    workload: &Workload,
    operations: u64,
    interval: u64,
) -> (LoopResult, Receiver<ClosedInterval>) {
    let bounds = JobBounds { ramp: 0, end: None, interval, operations, bytes: u64::MAX };
    run_bounded(engine, workload, bounds, None)
}

/// As [`run`], with any bounds, and open if there is a schedule.
fn run_bounded<E: Engine>(
    engine: &mut E,
    workload: &Workload,
    bounds: JobBounds,
    schedule: Option<ArrivalSchedule>,
) -> (LoopResult, Receiver<ClosedInterval>) {
    run_draining(engine, workload, bounds, (schedule, None))
}

/// As [`run_bounded`], with a queue that drains if there is a policy of it.
fn run_draining<E: Engine>(
    engine: &mut E,
    workload: &Workload,
    bounds: JobBounds,
    (schedule, drain): (Option<ArrivalSchedule>, Option<DrainPolicy>),
) -> (LoopResult, Receiver<ClosedInterval>) {
    let (result, intervals, _) = run_with_parts(engine, workload, bounds, (schedule, drain));
    (result, intervals)
}

/// As [`run_draining`], with the parts of the latencies.
fn run_with_parts<E: Engine>(
    engine: &mut E,
    workload: &Workload,
    bounds: JobBounds,
    (schedule, drain): (Option<ArrivalSchedule>, Option<DrainPolicy>),
) -> (LoopResult, Receiver<ClosedInterval>, PerOperation<Parts>) {
    let (closed, intervals) = sync_channel(10_000);
    let (spare, empty) = sync_channel(10_000);
    for _ in 0..100 {
        spare.send(crate::recorder::IntervalBuffer::new(workload, schedule.is_some())).unwrap();
    }
    let mut recorder = JobRecorder::new(0, workload, (true, schedule.is_some()), closed, empty);
    let region = workload.region_of(0, Bytes::from_mib(1)).unwrap();
    let (stop, failed) = (StopFlag::default(), StopFlag::default());
    let input = LoopInput {
        stream: durio_workload::Stream::new(workload, region, 1),
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
        files: 1,
        drain,
        completion_time: match drain {
            Some(_) => CompletionTime::Taken,
            None => CompletionTime::Seen,
        },
    };
    let measured = MeasuredLoop::new(engine, bounds, input);
    let mut result = None;
    let allocations = allocation_counter::measure(|| {
        result = Some(match schedule {
            Some(schedule) => measured.run_open(Ticks(0), schedule),
            None => measured.run(Ticks(0)),
        });
    });
    // The completions' slice, before the first operation.
    assert!(allocations.count_total <= 1, "{allocations:?} in the measured loop");
    let parts = recorder.finish();
    (result.unwrap(), intervals, parts)
}

fn total(intervals: &Receiver<ClosedInterval>, name: OperationName) -> Latency {
    let mut total = Latency::default();
    for closed in intervals.try_iter() {
        if let Some(counted) = &closed.buffer.operations[name as usize] {
            counted.service.add_to(&mut total);
        }
    }
    total
}

fn exact(closed: &ClosedInterval, name: OperationName) -> durio_record::Exact {
    closed.buffer.operations[name as usize].as_ref().unwrap().service.latency().exact
}

#[test]
fn scripted_latencies_come_out_exactly_and_nothing_is_allocated() {
    let mut engine = null_engine(&[100_000, 100_000, 5_000_000], 1);
    let (result, intervals) = run(&mut engine, &self_cost_workload(1), 3000, 100_000_000);
    let latency = total(&intervals, OperationName::Read);
    assert_eq!(latency.exact.count, 3000);
    assert_eq!(latency.exact.sum_ns, 1000 * 5_200_000);
    assert_eq!((latency.exact.min_ns, latency.exact.max_ns), (100_000, 5_000_000));
    assert_eq!(latency.exact.sum_ns, result.accounting.in_flight_ns);
    assert_eq!(result.end_ns, 1000 * 5_200_000);
}

#[test]
fn at_depth_four_four_are_in_flight_all_the_time() {
    let mut engine = null_engine(&[70_000, 110_000, 90_000], 4);
    let (result, intervals) = run(&mut engine, &self_cost_workload(4), 40_000, u64::MAX);
    let accounting = result.accounting;
    assert_eq!(total(&intervals, OperationName::Read).exact.sum_ns, accounting.in_flight_ns);
    let in_flight = accounting.in_flight_ns as f64 / accounting.span_ns as f64;
    assert!((in_flight - 4.0).abs() < 0.001, "{in_flight}");
}

#[test]
fn a_commit_is_its_write_and_its_sync() {
    let (_, commit) = check_workloads().remove(0);
    let mut engine = null_engine(&[30_000, 70_000], 1);
    let (_, intervals) = run(&mut engine, &commit, 100, u64::MAX);
    let closed: Vec<_> = intervals.try_iter().collect();
    let exact = |name| exact(&closed[0], name);
    assert_eq!(exact(OperationName::Write).mean_ns(), Some(30_000.0));
    assert_eq!(exact(OperationName::Sync).mean_ns(), Some(70_000.0));
    assert_eq!(exact(OperationName::Commit).mean_ns(), Some(100_000.0));
    assert_eq!(exact(OperationName::Commit).count, 100);
}

#[test]
fn a_durable_write_without_a_sync_call_is_a_commit_itself() {
    let (_, mut commit) = check_workloads().remove(0);
    commit.sync = SyncPolicy::each(SyncMethod::RwfDsync);
    let mut engine = null_engine(&[30_000], 1);
    let (_, intervals) = run(&mut engine, &commit, 50, u64::MAX);
    let closed: Vec<_> = intervals.try_iter().collect();
    assert_eq!(exact(&closed[0], OperationName::Commit).count, 50);
    assert!(closed[0].buffer.operations[OperationName::Sync as usize].is_none());
}

#[test]
fn a_stall_passes_intervals_in_which_nothing_completed() {
    // Ten quick operations, then one of 5 ms, with intervals of 1 ms.
    let mut script = vec![100_000; 10];
    script.push(5_000_000);
    let mut engine = null_engine(&script, 1);
    let (_, intervals) = run(&mut engine, &self_cost_workload(1), 22, 1_000_000);
    let closed: Vec<_> = intervals.try_iter().map(|closed| (closed.index, closed.passed)).collect();
    // The tenth completes at 1 ms, the end of interval 0; the stall ends at 6 ms, the end of 5.
    assert_eq!(closed, [(0, 5), (5, 6), (6, 11), (11, u64::MAX)]);
}

/// A clock that runs 3 % slow, as one with a wrong calibration would; its reference is right.
struct SlowClock(VirtualClock);

impl Clock for SlowClock {
    fn now(&self) -> Ticks {
        self.0.now()
    }

    fn nanos(&self, ticks: u64) -> u64 {
        ticks * 97 / 100
    }

    fn ticks(&self, nanos: u64) -> u64 {
        nanos / 97 * 100 + nanos % 97 * 100 / 97
    }

    fn reference_nanos(&self) -> u64 {
        self.0.reference_nanos()
    }
}

/// The null engine with a slow clock in step with its own.
struct SlowEngine {
    honest: NullEngine,
    clock: SlowClock,
}

impl Engine for SlowEngine {
    type Clock = SlowClock;

    fn clock(&self) -> &SlowClock {
        &self.clock
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
        let count = self.honest.exchange(operations, completions)?;
        self.clock.0.advance_to(self.honest.clock().now());
        Ok(count)
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        let count = self.honest.exchange_until(operations, completions, deadline)?;
        self.clock.0.advance_to(self.honest.clock().now());
        Ok(count)
    }
}

#[test]
fn a_wrong_calibration_parts_the_two_sides_of_littles_law() {
    let clock = SlowClock(VirtualClock::default());
    let mut engine = SlowEngine { honest: null_engine(&[100_000], 4), clock };
    let (result, intervals) = run(&mut engine, &self_cost_workload(4), 1000, u64::MAX);
    let sum = total(&intervals, OperationName::Read).exact.sum_ns;
    let deviation = sum as f64 / result.accounting.in_flight_ns as f64 - 1.0;
    assert!((deviation + 0.03).abs() < 0.001, "{deviation}");
}

/// One second of `rate` arrivals per second, equally spaced.
fn one_second(
    engine: &mut NullEngine,
    workload: &Workload,
    rate: f64,
) -> (LoopResult, Receiver<ClosedInterval>) {
    one_second_after(0, engine, workload, rate)
}

/// As [`one_second`], after a ramp of so many nanoseconds.
fn one_second_after(
    ramp: u64,
    engine: &mut NullEngine,
    workload: &Workload,
    rate: f64,
) -> (LoopResult, Receiver<ClosedInterval>) {
    let schedule = ArrivalSchedule::new(&Arrivals::Constant { rate_per_second: rate }, 0, 1, 1);
    let end = Some(ramp + 1_000_000_000);
    let bounds = JobBounds { ramp, end, interval: u64::MAX, operations: u64::MAX, bytes: u64::MAX };
    run_bounded(engine, workload, bounds, schedule)
}

#[test]
fn the_window_of_an_open_loop_is_as_long_as_was_asked_for_whenever_its_last_operation_was() {
    let mut engine = null_engine(&[100_000], 1);
    let (result, intervals) = one_second(&mut engine, &self_cost_workload(1), 2.0);
    assert_eq!(total(&intervals, OperationName::Read).exact.count, 2);
    assert_eq!((result.measured.get(), result.end_ns), (1_000_000_000, 1_000_000_000));
    assert_eq!(result.accounting.span_ns, 1_000_000_000);
}

#[test]
fn the_intervals_of_an_open_loop_reach_to_the_end_of_its_window() {
    let mut engine = null_engine(&[100_000], 1);
    let schedule = ArrivalSchedule::new(&Arrivals::Constant { rate_per_second: 2.0 }, 0, 1, 1);
    let (ramp, end) = (1_600_000_000, Some(2_000_000_000));
    let interval = 100_000_000;
    let bounds = JobBounds { ramp, end, interval, operations: u64::MAX, bytes: u64::MAX };
    let (_, intervals) = run_bounded(&mut engine, &self_cost_workload(1), bounds, schedule);
    let last = intervals.try_iter().last().unwrap();
    // 16 of the ramp, in which all four operations are, and 4 without any.
    assert_eq!(last.index, 19);
}

#[test]
fn an_open_loop_with_nothing_due_lasts_its_time() {
    let mut engine = null_engine(&[100_000], 1);
    let schedule = ArrivalSchedule::new(&Arrivals::Constant { rate_per_second: 0.01 }, 1, 2, 1);
    let end = Some(3_000_000_000);
    let bounds =
        JobBounds { ramp: 0, end, interval: u64::MAX, operations: u64::MAX, bytes: u64::MAX };
    let (result, intervals) = run_bounded(&mut engine, &self_cost_workload(1), bounds, schedule);
    assert_eq!(total(&intervals, OperationName::Read).exact.count, 0);
    assert_eq!(result.measured.get(), 3_000_000_000);
}

#[test]
fn arrivals_of_the_ramp_are_not_counted() {
    let mut engine = null_engine(&[100_000], 1);
    let ramp = 2_000_000_000;
    let (result, _) = one_second_after(ramp, &mut engine, &self_cost_workload(1), 1000.0);
    let pacing = result.pacing.unwrap();
    assert_eq!((pacing.due, pacing.started, pacing.punctual), (1000, 1000, 1000));
    assert_eq!(result.measured.get(), 1_000_000_000);
}

fn responses(closed: &ClosedInterval, name: OperationName) -> durio_record::Exact {
    let taken = closed.buffer.operations[name as usize].as_ref().unwrap();
    taken.response.as_ref().unwrap().latency().exact
}

#[test]
fn an_open_loop_that_keeps_up_offers_its_rate_and_waits_for_nothing() {
    let mut engine = null_engine(&[100_000], 1);
    let (result, intervals) = one_second(&mut engine, &self_cost_workload(1), 1000.0);
    let closed: Vec<_> = intervals.try_iter().collect();
    let service = exact(&closed[0], OperationName::Read);
    let response = responses(&closed[0], OperationName::Read);
    assert_eq!((service.count, service.max_ns), (1000, 100_000));
    assert_eq!(response, service);
    let pacing = result.pacing.unwrap();
    assert_eq!((pacing.due, pacing.started, pacing.punctual), (1000, 1000, 1000));
    assert_eq!((pacing.lag_ns_max, pacing.behind_ns_max), (0, 0));
    // A tenth of the time something is in flight.
    assert_eq!(result.accounting.in_flight_ns, 100_000_000);
}

#[test]
fn behind_a_stall_service_stays_short_and_response_tells_the_truth() {
    // One operation of 100 ms, then quick ones: those due meanwhile have waited.
    let mut script = vec![10_000; 1000];
    script[0] = 100_000_000;
    let mut engine = null_engine(&script, 1);
    let (result, intervals) = one_second(&mut engine, &self_cost_workload(1), 1000.0);
    let closed: Vec<_> = intervals.try_iter().collect();
    let service = exact(&closed[0], OperationName::Read);
    let response = responses(&closed[0], OperationName::Read);
    assert_eq!(service.count, 1000);
    assert_eq!(service.sum_ns, 100_000_000 + 999 * 10_000);
    // Arrival k of the first hundred waited about 100 − k ms.
    let waited = response.sum_ns - service.sum_ns;
    assert!((4_900_000_000..5_100_000_000).contains(&waited), "{waited}");
    let pacing = result.pacing.unwrap();
    assert_eq!((pacing.due, pacing.started), (1000, 1000));
    assert!((890..=901).contains(&pacing.punctual), "{pacing:?}");
    assert_eq!(pacing.lag_ns_max, 0, "the storage was late, not the generator");
    assert!(pacing.behind_ns_max > 98_000_000, "{pacing:?}");
}

#[test]
fn an_offered_rate_beyond_what_there_is_shows_as_arrivals_that_never_started() {
    let mut engine = null_engine(&[10_000_000], 1);
    let (result, intervals) = one_second(&mut engine, &self_cost_workload(1), 1000.0);
    assert_eq!(total(&intervals, OperationName::Read).exact.count, 100);
    let pacing = result.pacing.unwrap();
    assert_eq!((pacing.due, pacing.started), (1000, 100));
}

#[test]
fn a_commit_responds_when_its_sync_is_done() {
    let (_, commit) = check_workloads().remove(0);
    let mut engine = null_engine(&[30_000, 70_000], 1);
    let (_, intervals) = one_second(&mut engine, &commit, 100.0);
    let closed: Vec<_> = intervals.try_iter().collect();
    assert_eq!(responses(&closed[0], OperationName::Commit).max_ns, 100_000);
    assert_eq!(responses(&closed[0], OperationName::Write).max_ns, 30_000);
}

#[test]
fn a_volume_of_mixed_sizes_ends_when_its_bytes_are_issued() {
    let share = |kib, weight| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) };
    let workload = Workload {
        block_size: Bytes::from_kib(8),
        block_mix: vec![share(4, 500), share(8, 500)],
        ..self_cost_workload(4)
    };
    let bytes = 10 << 20;
    let bounds = JobBounds { ramp: 0, end: None, interval: u64::MAX, operations: u64::MAX, bytes };
    let mut engine = null_engine(&[1000], 4);
    let (_, intervals) = run_bounded(&mut engine, &workload, bounds, None);
    let closed: Vec<_> = intervals.try_iter().collect();
    let mut records = Vec::<OperationRecord>::new();
    crate::recorder::add_counts(&mut records, &closed[0].buffer.operations);
    assert_eq!(records.len(), 1, "reads");
    let counted = records[0].bytes.get();
    assert!((bytes..bytes + 8192).contains(&counted), "{counted}");
}

#[test]
fn passes_that_drop_the_cache_and_a_last_sync_are_no_accesses() {
    let workload = Workload {
        read_share: PerMille::NONE,
        drops_cache_each_pass: true,
        syncs_at_end: true,
        jobs: 1,
        depth: 1,
        ..Workload::default()
    };
    // A region of 1 MiB has 256 blocks: three passes and a part of a fourth.
    let mut engine = null_engine(&[10_000], 1);
    let (result, intervals) = run(&mut engine, &workload, 800, 1_000_000_000);
    assert!(result.ending.failure.is_none());
    // A last sync takes as long as any operation on this clock.
    assert_eq!(result.measured, Nanos::from_micros(8010));
    let closed: Vec<_> = intervals.try_iter().collect();
    let of = |name| {
        let counted =
            closed.iter().filter_map(|interval| interval.buffer.operations[name as usize].as_ref());
        counted.map(|counts| counts.service.latency().exact.count).sum::<u64>()
    };
    assert_eq!((of(OperationName::Write), of(OperationName::Sync)), (800, 1));
}

#[test]
fn a_pass_begins_when_nothing_of_the_one_before_is_in_flight() {
    let workload =
        Workload { drops_cache_each_pass: true, jobs: 1, depth: 4, ..self_cost_workload(4) };
    // 256 blocks are a pass; the last operation of each takes 5 ms, more than all the others.
    let latencies: Vec<u64> =
        (1..=256).map(|number| if number == 256 { 5_000_000 } else { 10_000 }).collect();
    let workload = Workload { pattern: Pattern::Sequential, ..workload };
    let mut engine = null_engine(&latencies, 4);
    let (result, intervals) = run(&mut engine, &workload, 512, u64::MAX);
    assert!(result.ending.failure.is_none());
    // In each pass four at a time in 10 us, 63 times, and the last four in 5 ms.
    assert_eq!(result.end_ns, 2 * (63 * 10_000 + 5_000_000), "one after the other");
    let sum = total(&intervals, OperationName::Read).exact.sum_ns;
    assert_eq!(sum, result.accounting.in_flight_ns, "the places that waited were not in flight");
}

#[test]
fn passes_of_an_open_loop_wait_for_each_other_and_arrivals_for_them() {
    let workload = Workload {
        drops_cache_each_pass: true,
        pattern: Pattern::Sequential,
        ..self_cost_workload(4)
    };
    let latencies: Vec<u64> =
        (1..=256).map(|number| if number == 256 { 5_000_000 } else { 10_000 }).collect();
    let mut engine = null_engine(&latencies, 4);
    let schedule = ArrivalSchedule::new(&Arrivals::Constant { rate_per_second: 10_000.0 }, 0, 1, 1);
    let bounds =
        JobBounds { ramp: 0, end: None, interval: u64::MAX, operations: 512, bytes: u64::MAX };
    let (result, _) = run_bounded(&mut engine, &workload, bounds, schedule);
    let pacing = result.pacing.unwrap();
    assert_eq!((pacing.due, pacing.started), (512, 512));
    // 5 ms behind at the begin of the second pass, but for one interval of 0.1 ms.
    assert_eq!(pacing.behind_ns_max, 4_900_000);
}

#[test]
fn an_open_loop_that_has_done_its_volume_before_its_time_missed_nothing() {
    let schedule = ArrivalSchedule::new(&Arrivals::Constant { rate_per_second: 1000.0 }, 0, 1, 1);
    let end = Some(10_000_000_000);
    let bounds = JobBounds { ramp: 0, end, interval: u64::MAX, operations: 100, bytes: u64::MAX };
    let mut engine = null_engine(&[5_000_000], 8);
    let (result, _) = run_bounded(&mut engine, &self_cost_workload(8), bounds, schedule);
    let pacing = result.pacing.unwrap();
    assert_eq!((pacing.due, pacing.started), (100, 100));
    assert_eq!(result.end_ns, 104_000_000, "its last completion");
}
