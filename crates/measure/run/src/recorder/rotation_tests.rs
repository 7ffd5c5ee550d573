//! Kinds of operations that are counted, buffers that are exchanged, parts of latencies.

use std::sync::mpsc::sync_channel;

use durio_workload::{AtEnd, BlockShare, GroupCommit, PerMille, SyncMethod, SyncPolicy};

use super::*;
use OperationName::{Commit, Read, Reallocate, Sync, Write};

fn mixed(read_share: u16, method: SyncMethod, every: u32) -> Workload {
    let sync = SyncPolicy { method, every };
    Workload { read_share: PerMille(read_share), sync, ..Workload::default() }
}

fn log() -> Workload {
    Workload { group_commit: Some(GroupCommit::of(2)), ..mixed(0, SyncMethod::None, 1) }
}

#[test]
fn a_workload_counts_the_kinds_of_operations_that_it_does_and_no_others() {
    let kinds = |workload: &Workload| -> Vec<OperationName> {
        let counted = per_operation::<IntervalCounts>(workload);
        OperationName::ALL.into_iter().filter(|name| counted[*name as usize].is_some()).collect()
    };
    let of = |read_share, method, every| kinds(&mixed(read_share, method, every));
    assert_eq!(of(1000, SyncMethod::Fsync, 1), [Read]);
    assert_eq!(of(0, SyncMethod::None, 1), [Write]);
    assert_eq!(of(0, SyncMethod::Fsync, 1), [Commit, Write, Sync]);
    assert_eq!(of(0, SyncMethod::FileRange, 1), [Commit, Write, Sync]);
    assert_eq!(of(0, SyncMethod::Fdatasync, 2), [Write, Sync]);
    assert_eq!(of(0, SyncMethod::RwfDsync, 1), [Commit, Write]);
    assert_eq!(of(0, SyncMethod::LinkedFsync, 1), [Commit, Write]);
    assert_eq!(of(500, SyncMethod::ODsync, 1), [Commit, Read, Write]);
    assert_eq!(kinds(&log()), [Commit, Write]);
    let at_the_end = |read_share| {
        let plain = mixed(read_share, SyncMethod::None, 1);
        kinds(&Workload { syncs_at_end: true, ..plain })
    };
    assert_eq!((at_the_end(0), at_the_end(1000)), (vec![Write, Sync], vec![Read]));
    let segment = Workload { at_end: AtEnd::Reallocate, ..mixed(0, SyncMethod::None, 1) };
    assert_eq!(kinds(&segment), [Write, Reallocate]);
}

#[test]
fn responses_are_taken_in_open_loops_alone_and_at_a_log_of_its_commits() {
    let responding = |workload: &Workload, is_open| -> Vec<OperationName> {
        let buffer = IntervalBuffer::new(workload, is_open);
        let responds = |name: &OperationName| {
            buffer.operations[*name as usize]
                .as_ref()
                .is_some_and(|counts| counts.response.is_some())
        };
        OperationName::ALL.into_iter().filter(responds).collect()
    };
    let durable = mixed(500, SyncMethod::Fsync, 1);
    assert_eq!(responding(&durable, true), [Commit, Read, Write]);
    assert!(responding(&durable, false).is_empty());
    assert_eq!((responding(&log(), true), responding(&log(), false)), (vec![Commit], vec![]));
}

#[test]
fn bytes_are_those_of_reads_and_writes_and_not_of_syncs_or_commits() {
    let workload = Workload { block_size: Bytes::from_kib(8), ..mixed(500, SyncMethod::Fsync, 1) };
    let mut buffer = IntervalBuffer::new(&workload, false);
    for (name, count) in [(Read, 2), (Write, 3), (Sync, 4), (Commit, 5)] {
        let counts = buffer.operations[name as usize].as_mut().unwrap();
        counts.service.record_many(1000, count);
    }
    let mut records = Vec::new();
    for _ in 0..2 {
        add_counts(&mut records, &buffer.operations);
    }
    let told: Vec<_> = finish_records(records, PerOperation::default())
        .iter()
        .map(|record| (record.operation, record.service.exact.count, record.bytes.get()))
        .collect();
    assert_eq!(told, [(Commit, 10, 0), (Read, 4, 4 * 8192), (Write, 6, 6 * 8192), (Sync, 8, 0)]);
}

type Started = (JobRecorder, Receiver<ClosedInterval>, SyncSender<IntervalBuffer>);

/// The recorder of job 5, the intervals that it closes, and where its empty buffers come from.
fn started(workload: &Workload, is_asynchronous: bool) -> Started {
    let (closed, intervals) = sync_channel(10);
    let (spare, empty) = sync_channel(10);
    (JobRecorder::new(5, workload, (is_asynchronous, false), closed, empty), intervals, spare)
}

/// Count and bytes of an interval's reads.
fn reads(closed: &ClosedInterval) -> (u64, u64) {
    let mut records = Vec::new();
    add_counts(&mut records, &closed.buffer.operations);
    let of = |record: &OperationRecord| (record.service.exact.count, record.bytes.get());
    records.first().map_or((0, 0), of)
}

#[test]
fn an_interval_has_its_own_operations_whatever_was_in_the_buffer_before() {
    let share = |kib| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(500) };
    let mix = Workload {
        block_size: Bytes::from_kib(8),
        block_mix: vec![share(4), share(8)],
        ..Workload::default()
    };
    let (mut recorder, intervals, spare) = started(&mix, false);
    let mut used = IntervalBuffer::new(&mix, false);
    let before = used.operations[Read as usize].as_mut().unwrap();
    before.service.record_many(9, 4);
    before.bytes_varied = 77;
    spare.send(used).unwrap();
    recorder.record(Read, 100);
    recorder.record_bytes(Read, 4096);
    recorder.rotate(3, 55);
    recorder.record_many(Read, 200, 2);
    recorder.record_bytes(Read, 8192);
    recorder.record_bytes(Read, 4096);
    recorder.set_unwatched(66);
    assert_eq!(recorder.waits, 0);
    recorder.finish();
    let told: Vec<_> = intervals
        .try_iter()
        .map(|closed| {
            let (index, passed) = (closed.index, closed.passed);
            ((closed.job, index, passed, closed.unwatched_ns), reads(&closed))
        })
        .collect();
    assert_eq!(told, [((5, 0, 3, 55), (1, 4096)), ((5, 3, u64::MAX, 66), (2, 12_288))]);
}

#[test]
fn a_wait_for_an_empty_buffer_is_counted_and_loses_no_operation() {
    let (mut recorder, intervals, spare) = started(&Workload::default(), false);
    drop(spare);
    recorder.record(Read, 5);
    recorder.rotate(4, 1);
    recorder.record(Read, 6);
    assert_eq!(recorder.waits, 1);
    recorder.finish();
    let last = intervals.recv().unwrap();
    assert_eq!((last.index, reads(&last)), (0, (2, 8192)));
}

#[test]
fn a_submission_is_at_most_the_whole_latency_and_the_ramps_parts_are_forgotten() {
    let (mut recorder, intervals, _spare) = started(&Workload::default(), true);
    recorder.record_parts(Read, 9999, 10_000);
    recorder.record_at_once(Read, 70, 1);
    recorder.forget_parts();
    recorder.record_parts(Read, 500, 300);
    recorder.record_parts_of_many(Read, 20, 300, 2);
    recorder.record_at_once(Read, 40, 3);
    let mut parts = recorder.finish();
    let (submit, completion) = parts[Read as usize].take().unwrap().latencies();
    let of = |part: &Latency| {
        let Exact { count, sum_ns, min_ns, max_ns } = part.exact;
        [count, sum_ns, min_ns, max_ns]
    };
    assert_eq!(of(&submit), [6, 300 + 2 * 20 + 3 * 40, 20, 300]);
    assert_eq!(of(&completion), [6, 2 * 280, 0, 280]);
    assert_eq!(reads(&intervals.recv().unwrap()), (4, 4 * 4096), "with those of the ramp");
}

#[test]
fn an_engine_that_does_one_operation_at_a_time_has_latencies_and_no_parts() {
    let (mut recorder, intervals, _spare) = started(&Workload::default(), false);
    recorder.record_at_once(Read, 40, 3);
    recorder.record_parts(Read, 20, 40);
    assert!(recorder.finish().iter().all(Option::is_none));
    assert_eq!(reads(&intervals.recv().unwrap()), (3, 3 * 4096));
}
