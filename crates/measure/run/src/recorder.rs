//! Takes latencies in the measured loop: buffers that are allocated before it and swapped at each
//! interval.
//!
//! [`BucketCounts`] takes one latency at a time in some 20 instructions, where HdrHistogram's crate
//! with an exact side takes 60 (and an asynchronous operation has three latencies). It is dense,
//! 330 KiB long, and only a job's counters in its loop are: outside of it they become the sparse
//! [`Latency`]. A bucket is noted when it first gets a count: collecting the counts of many jobs,
//! many times in a step, visits no other buckets, and takes little processor time from the
//! measured jobs.

use std::sync::mpsc::{Receiver, SyncSender};

use durio_base::Bytes;
use durio_record::{Exact, Latency, OperationName, OperationRecord, SparseHistogram};
use durio_workload::Workload;

const BUCKETS: usize = SparseHistogram::BUCKETS;

/// Counts per bucket, and the exact sum and bounds.
#[derive(Debug, Clone)]
pub(crate) struct BucketCounts {
    counts: Box<[u64; BUCKETS]>,
    /// Those that are not zero, as they came; each is there once.
    used: Box<[u16; BUCKETS]>,
    used_count: usize,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for BucketCounts {
    fn default() -> Self {
        // On the heap from the start, as zero pages of the kernel: only counted buckets take
        // memory.
        Self {
            counts: zeros(),
            used: zeros(),
            used_count: 0,
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

fn zeros<T: Copy + Default>() -> Box<[T; BUCKETS]> {
    let all = vec![T::default(); BUCKETS].into_boxed_slice();
    all.try_into().unwrap_or_else(|_| unreachable!("the length is the array's"))
}

impl BucketCounts {
    /// Bytes of memory once all buckets are in use.
    pub(crate) const BYTES: u64 = (BUCKETS * (size_of::<u64>() + size_of::<u16>())) as u64;

    /// Takes one latency. A value beyond the last bucket (73 minutes) is counted as 1 h, as the
    /// crate does; sum and maximum stay exact.
    #[inline(always)]
    pub(crate) fn record(&mut self, nanos: u64) {
        self.record_many(nanos, 1);
    }

    /// Takes the same latency `times` times, at least once.
    #[inline(always)]
    pub(crate) fn record_many(&mut self, nanos: u64, times: u64) {
        self.record_in(SparseHistogram::bucket_of(nanos), nanos, times);
    }

    /// The same in two histograms, whose bucket is looked up once.
    #[inline(always)]
    pub(crate) fn record_many_in_both(&mut self, other: &mut Self, nanos: u64, times: u64) {
        let bucket = SparseHistogram::bucket_of(nanos);
        self.record_in(bucket, nanos, times);
        other.record_in(bucket, nanos, times);
    }

    #[inline(always)]
    fn record_in(&mut self, bucket: usize, nanos: u64, times: u64) {
        if self.counts[bucket] == 0 {
            self.use_bucket(bucket);
        }
        self.counts[bucket] += times;
        // 584 years of latencies fit.
        self.sum_ns = self.sum_ns.wrapping_add(nanos.wrapping_mul(times));
        // Branches that are hardly ever taken are cheaper here than unconditional stores.
        if nanos < self.min_ns {
            self.min_ns = nanos;
        }
        if nanos > self.max_ns {
            self.max_ns = nanos;
        }
    }

    #[cold]
    #[expect(clippy::cast_possible_truncation, reason = "there are 33,792 buckets")]
    fn use_bucket(&mut self, bucket: usize) {
        self.used[self.used_count] = bucket as u16;
        self.used_count += 1;
    }

    /// True if it holds no latencies.
    pub(crate) fn is_empty(&self) -> bool {
        self.used_count == 0
    }

    /// Forgets everything, keeps the memory.
    pub(crate) fn clear(&mut self) {
        for &bucket in &self.used[..self.used_count] {
            self.counts[usize::from(bucket)] = 0;
        }
        (self.used_count, self.sum_ns, self.min_ns, self.max_ns) = (0, 0, u64::MAX, 0);
    }

    /// Adds all latencies to `total`.
    pub(crate) fn add_to(&self, total: &mut Latency) {
        if self.is_empty() {
            return;
        }
        let mut used = self.used[..self.used_count].to_vec();
        used.sort_unstable();
        let counts = used.into_iter().map(|bucket| (bucket, self.counts[usize::from(bucket)]));
        let count = counts.clone().map(|(_, count)| count).sum();
        let (sum_ns, min_ns, max_ns) = (self.sum_ns, self.min_ns, self.max_ns);
        total.add_counted(&Exact { count, sum_ns, min_ns, max_ns }, counts);
    }

    /// The latencies as an event has them.
    pub(crate) fn latency(&self) -> Latency {
        let mut latency = Latency::default();
        self.add_to(&mut latency);
        latency
    }
}

/// One value per kind of operation, indexed by its number; absent for kinds that the workload never
/// does.
pub(crate) type PerOperation<T> = [Option<Box<T>>; OperationName::ALL.len()];

/// The operations that a workload can do, each with a fresh `T`.
pub(crate) fn per_operation<T: Default>(workload: &Workload) -> PerOperation<T> {
    let mut all = PerOperation::default();
    for name in OperationName::ALL {
        all[name as usize] = does(workload, name).then(Box::<T>::default);
    }
    all
}

fn does(workload: &Workload, name: OperationName) -> bool {
    match name {
        OperationName::Read => workload.reads(),
        OperationName::Write => workload.writes(),
        OperationName::Sync => {
            workload.writes() && (workload.sync.method.is_separate_call() || workload.syncs_at_end)
        }
        OperationName::Commit => workload.has_commits(),
        OperationName::Reallocate => workload.at_end == durio_workload::AtEnd::Reallocate,
    }
}

/// What the loop counts of one kind of operation in an interval.
#[derive(Debug, Default)]
pub(crate) struct IntervalCounts {
    pub(crate) service: BucketCounts,
    /// From the intended start; open loops only.
    pub(crate) response: Option<BucketCounts>,
    /// Bytes that each of these operations moves: all of a block, or it is an error.
    bytes_each: u64,
    /// Bytes that they moved, where blocks have several sizes.
    bytes_varied: u64,
}

impl IntervalCounts {
    fn is_empty(&self) -> bool {
        self.service.is_empty() && self.response.as_ref().is_none_or(BucketCounts::is_empty)
    }

    fn add_to(&self, record: &mut OperationRecord) {
        // One multiplication per interval instead of an addition per operation.
        let before = record.service.exact.count;
        self.service.add_to(&mut record.service);
        let count = record.service.exact.count - before;
        let bytes = record.bytes.get() + count * self.bytes_each + self.bytes_varied;
        record.bytes = Bytes::new(bytes);
        if let Some(response) = &self.response {
            response.add_to(record.response.get_or_insert_default());
        }
    }
}

/// Adds the counts of an interval to the records of a job or of an interval.
pub(crate) fn add_counts(
    records: &mut Vec<OperationRecord>,
    counted: &PerOperation<IntervalCounts>,
) {
    for name in OperationName::ALL {
        let Some(counts) = &counted[name as usize] else { continue };
        if counts.is_empty() {
            continue;
        }
        let known = records.iter().position(|record| record.operation == name);
        let place = known.unwrap_or_else(|| {
            records.push(OperationRecord::new(name));
            records.len() - 1
        });
        counts.add_to(&mut records[place]);
    }
}

/// The records as an event has them: in the order of reports, and with the parts of their service
/// latencies where there are any.
pub(crate) fn finish_records(
    mut records: Vec<OperationRecord>,
    mut parts: PerOperation<Parts>,
) -> Vec<OperationRecord> {
    // What did not occur has no entry in the histogram log (docs/formats/run-folder.md).
    records.retain(|record| record.service.exact.count > 0);
    let place = |name| OperationName::ALL.iter().position(|known| *known == name);
    records.sort_by_key(|record| place(record.operation));
    for record in &mut records {
        let parts = parts[record.operation as usize].take();
        let parts = parts.filter(|parts| !parts.submit.is_empty());
        (record.submit, record.completion) = parts.map(|parts| parts.latencies()).unzip();
    }
    records
}

/// The two parts of the service latency, kept per job over the measured phase.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    submit: BucketCounts,
    /// Without those of `at_once`.
    completion: BucketCounts,
    /// How many were complete when the submitting call returned: their second part is zero.
    at_once: u64,
}

impl Parts {
    fn clear(&mut self) {
        self.submit.clear();
        self.completion.clear();
        self.at_once = 0;
    }

    fn latencies(mut self) -> (Latency, Latency) {
        // Counted once at the end, not per operation.
        if self.at_once > 0 {
            self.completion.record_many(0, self.at_once);
        }
        (self.submit.latency(), self.completion.latency())
    }
}

/// Everything that completed in one interval of one job.
#[derive(Debug)]
pub(crate) struct IntervalBuffer {
    pub(crate) operations: PerOperation<IntervalCounts>,
}

impl IntervalBuffer {
    pub(crate) fn new(workload: &Workload, is_open: bool) -> Self {
        let mut operations: PerOperation<IntervalCounts> = per_operation(workload);
        let is_log = workload.group_commit.is_some();
        for name in [OperationName::Read, OperationName::Write] {
            if let Some(taken) = &mut operations[name as usize]
                && !(workload.has_mix() || is_log)
            {
                taken.bytes_each = workload.block_size.get();
            }
        }
        // What arrives at a log are commits; when it writes is its own affair.
        let all = [OperationName::Commit, OperationName::Read, OperationName::Write];
        let arriving = if is_log { &all[..1] } else { &all[..] };
        for &name in arriving {
            if let Some(taken) = &mut operations[name as usize] {
                taken.response = is_open.then(BucketCounts::default);
            }
        }
        Self { operations }
    }

    fn clear(&mut self) {
        for taken in self.operations.iter_mut().flatten() {
            taken.service.clear();
            taken.bytes_varied = 0;
            if let Some(response) = &mut taken.response {
                response.clear();
            }
        }
    }
}

/// A closed interval on its way to the collector.
#[derive(Debug)]
pub(crate) struct ClosedInterval {
    pub(crate) job: usize,
    pub(crate) index: u64,
    /// The job will not record into any interval below this number again.
    pub(crate) passed: u64,
    /// The longest time in which the job did not look for completions.
    pub(crate) unwatched_ns: u64,
    pub(crate) buffer: IntervalBuffer,
}

/// A job's side: records into the current buffer.
pub(crate) struct JobRecorder {
    job: usize,
    current: IntervalBuffer,
    index: u64,
    unwatched_ns: u64,
    // Boxed arrays, each of 330 KiB; kinds that a workload never does have none.
    parts: PerOperation<Parts>,
    closed: SyncSender<ClosedInterval>,
    empty: Receiver<IntervalBuffer>,
    /// How often no empty buffer was there and the job had to wait for one.
    pub(crate) waits: u64,
}

impl JobRecorder {
    pub(crate) fn new(
        job: usize,
        workload: &Workload,
        (asynchronous, is_open): (bool, bool),
        closed: SyncSender<ClosedInterval>,
        empty: Receiver<IntervalBuffer>,
    ) -> Self {
        let parts = if asynchronous { per_operation(workload) } else { Default::default() };
        let current = IntervalBuffer::new(workload, is_open);
        Self { job, current, index: 0, unwatched_ns: 0, parts, closed, empty, waits: 0 }
    }

    /// Takes a service latency.
    #[inline(always)]
    pub(crate) fn record(&mut self, name: OperationName, nanos: u64) {
        self.record_many(name, nanos, 1);
    }

    /// Takes the same service latency `times` times.
    #[inline(always)]
    pub(crate) fn record_many(&mut self, name: OperationName, nanos: u64, times: u64) {
        if let Some(taken) = &mut self.current.operations[name as usize] {
            taken.service.record_many(nanos, times);
        }
    }

    /// Takes the bytes of an operation, where blocks have several sizes.
    #[inline(always)]
    pub(crate) fn record_bytes(&mut self, name: OperationName, bytes: u64) {
        if let Some(taken) = &mut self.current.operations[name as usize] {
            taken.bytes_varied += bytes;
        }
    }

    /// Takes a response latency.
    #[inline(always)]
    pub(crate) fn record_response(&mut self, name: OperationName, nanos: u64) {
        if let Some(taken) = &mut self.current.operations[name as usize]
            && let Some(response) = &mut taken.response
        {
            response.record(nanos);
        }
    }

    /// Takes the parts of a service latency: the part until the submitting call returned, and the
    /// rest. An engine that does one operation at a time has none.
    #[inline(always)]
    pub(crate) fn record_parts(&mut self, name: OperationName, submit: u64, service: u64) {
        self.record_parts_of_many(name, submit, service, 1);
    }

    /// Takes the same parts `times` times.
    #[inline(always)]
    pub(crate) fn record_parts_of_many(
        &mut self,
        name: OperationName,
        submit: u64,
        service: u64,
        times: u64,
    ) {
        if let Some(parts) = &mut self.parts[name as usize] {
            // A completion seen while the rest of its submission was refused and repeated.
            let submit = submit.min(service);
            parts.submit.record_many(submit, times);
            parts.completion.record_many(service - submit, times);
        }
    }

    /// Takes the same latency `times` times, for operations that were complete when the submitting
    /// call returned: it is their first part too, and the second is zero.
    #[inline(always)]
    pub(crate) fn record_at_once(&mut self, name: OperationName, nanos: u64, times: u64) {
        let Some(taken) = &mut self.current.operations[name as usize] else { return };
        let Some(parts) = &mut self.parts[name as usize] else {
            return taken.service.record_many(nanos, times);
        };
        taken.service.record_many_in_both(&mut parts.submit, nanos, times);
        parts.at_once += times;
    }

    /// Closes the current interval and continues in number `next`. No allocation: the buffer is
    /// exchanged for an empty one.
    pub(crate) fn rotate(&mut self, next: u64, unwatched_ns: u64) {
        let empty = match self.empty.try_recv() {
            Ok(buffer) => buffer,
            Err(_) => {
                // Waiting is better than losing an interval, but the wait is part of a latency: it
                // is counted.
                self.waits += 1;
                match self.empty.recv() {
                    Ok(buffer) => buffer,
                    // The collector is gone, and with it the step: nothing is kept any more.
                    Err(_) => return,
                }
            }
        };
        let buffer = std::mem::replace(&mut self.current, empty);
        // Here and not by the collector, which has all jobs to serve.
        self.current.clear();
        let (job, index, passed) = (self.job, self.index, next);
        let closed = ClosedInterval { job, index, passed, unwatched_ns, buffer };
        self.index = next;
        // Fails only if the collector is gone.
        let _ = self.closed.send(closed);
    }

    /// Notes for the last interval the time that [`JobRecorder::rotate`] takes for the others.
    pub(crate) fn set_unwatched(&mut self, nanos: u64) {
        self.unwatched_ns = nanos;
    }

    /// Forgets the parts: the ramp is over.
    pub(crate) fn forget_parts(&mut self) {
        for parts in self.parts.iter_mut().flatten() {
            parts.clear();
        }
    }

    /// Hands over the last interval and gives the parts as records without service latencies.
    pub(crate) fn finish(self) -> PerOperation<Parts> {
        let Self { job, current: buffer, index, unwatched_ns, parts, closed, .. } = self;
        let last = ClosedInterval { job, index, passed: u64::MAX, unwatched_ns, buffer };
        let _ = closed.send(last);
        parts
    }
}

#[cfg(test)]
mod rotation_tests;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(values: &[u64]) {
        let (mut counts, mut direct) = (BucketCounts::default(), Latency::default());
        for (&value, times) in values.iter().zip([1, 3].into_iter().cycle()) {
            counts.record_many(value, times);
            (0..times).for_each(|_| direct.record(value));
        }
        assert_eq!(counts.latency(), direct, "{values:?}");
        let mut twice = counts.latency();
        counts.add_to(&mut twice);
        direct.add(&direct.clone());
        assert_eq!(twice, direct, "{values:?}");
        counts.clear();
        assert!(counts.is_empty() && counts.counts.iter().all(|&count| count == 0));
    }

    #[test]
    fn counts_are_those_of_latencies_recorded_one_by_one_around_every_power_of_two() {
        const HOUR: u64 = 3_600_000_000_000;
        let powers = (0..58).map(|power| 1_u64 << power);
        for power in powers {
            check(&[power - 1, power, power + 1, power + power / 3]);
        }
        check(&[]);
        check(&[0, HOUR - 1, HOUR, HOUR + 1, 1 << 60]);
    }

    #[test]
    fn every_kind_of_operation_has_the_parts_of_its_own_latencies() {
        use OperationName::{Commit, Read, Sync, Write};
        let mut parts: PerOperation<Parts> = PerOperation::default();
        for (name, submit, completion, at_once) in
            [(Write, 700, 9000, 0), (Sync, 50, 80_000, 0), (Read, 300, 400, 2)]
        {
            let mut of_kind = Parts { at_once, ..Parts::default() };
            of_kind.submit.record_many(submit, 1 + at_once);
            of_kind.completion.record(completion);
            parts[name as usize] = Some(Box::new(of_kind));
        }
        let record = |name| {
            let mut record = OperationRecord::new(name);
            record.service.record(1_000_000);
            record
        };
        let records =
            finish_records(vec![record(Commit), record(Sync), record(Write), record(Read)], parts);
        let of = |part: &Option<Latency>| {
            part.as_ref().map(|part| (part.exact.count, part.exact.sum_ns))
        };
        let told: Vec<_> = records
            .iter()
            .map(|record| (record.operation, of(&record.submit), of(&record.completion)))
            .collect();
        // Count and sum in nanoseconds; of reads, two of three were complete at once.
        let expected = [
            (Commit, None, None),
            (Read, Some((3, 900)), Some((3, 400))),
            (Write, Some((1, 700)), Some((1, 9000))),
            (Sync, Some((1, 50)), Some((1, 80_000))),
        ];
        assert_eq!(told, expected);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_latencies_recorded_one_by_one_for_any_values(
            values in prop::collection::vec(0_u64..5_000_000_000_000, 0..100),
            small in prop::collection::vec(0_u64..5000, 0..100),
        ) {
            check(&values);
            check(&small);
        }
    }
}
