//! Takes latencies in the measured loop: buffers that are allocated before it and swapped at each
//! interval.

use std::sync::mpsc::{Receiver, SyncSender};

use durio_base::Bytes;
use durio_record::{BucketCounts, Latency, OperationName, OperationRecord};
use durio_workload::Workload;

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

/// The counts of one kind of operation over several jobs or intervals.
#[derive(Debug, Default)]
pub(crate) struct OperationTotals {
    pub(crate) service: Latency,
    pub(crate) response: Option<Latency>,
    pub(crate) bytes: u64,
}

impl OperationTotals {
    pub(crate) fn add(&mut self, taken: &IntervalCounts) {
        // One multiplication per interval instead of an addition per operation.
        let before = self.service.exact.count;
        taken.service.add_to(&mut self.service);
        self.bytes += (self.service.exact.count - before) * taken.bytes_each + taken.bytes_varied;
        if let Some(response) = &taken.response {
            response.add_to(self.response.get_or_insert_default());
        }
    }
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

/// The records of an event, from the counts and, where there are any, the parts.
pub(crate) fn operation_records(
    mut counted: PerOperation<OperationTotals>,
    mut parts: PerOperation<Parts>,
) -> Vec<OperationRecord> {
    let mut records = Vec::new();
    for name in OperationName::ALL {
        let counted = counted[name as usize].take();
        // What did not occur has no entry in the histogram log (docs/formats/run-folder.md).
        let Some(counted) = counted.filter(|counted| counted.service.exact.count > 0) else {
            continue;
        };
        let parts = parts[name as usize].take().filter(|parts| !parts.submit.is_empty());
        let (submit, completion) = parts.map(|parts| parts.latencies()).unzip();
        records.push(OperationRecord {
            operation: name,
            bytes: Bytes::new(counted.bytes),
            service: counted.service,
            submit,
            completion,
            response: counted.response,
            fio_bins: Vec::new(),
        });
    }
    records
}
