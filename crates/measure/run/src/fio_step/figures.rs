//! fio's results as records.
//!
//! Jobs of fio's JSON give an [`Interval`] per stream and a [`JobEnded`] per job. fio's latency is
//! durio's service latency, its slat the submit and its clat the completion latency. Bins are kept
//! as fio has them; the histogram next to them has each bin at its middle.

use durio_base::{Bytes, Nanos};
use durio_fio::export_job::{engine_of, is_asynchronous};
use durio_fio::histogram::FioBins;
use durio_fio::json::{DirectionFigures, FioJob, LatencyBlock};
use durio_plan::{Load, Step};
use durio_record::{
    Accounting, Exact, Interval, JobEnded, Latency, OperationName, OperationRecord, Phase,
};
use durio_workload::SyncMethod;

pub(super) struct FioStream<'a> {
    pub(super) step: &'a Step,
    pub(super) round: u32,
    pub(super) stream: u32,
    pub(super) load: &'a Load,
}

/// The counts of one kind of operation, over jobs.
#[derive(Default)]
struct JobTotals {
    bytes: u64,
    service: JobLatencies,
    submit: JobLatencies,
    completion: JobLatencies,
}

/// Latencies of several jobs together.
#[derive(Default)]
struct JobLatencies {
    exact: Exact,
    bins: FioBins,
}

impl JobLatencies {
    fn add(&mut self, block: &LatencyBlock) {
        let count = block.samples();
        #[expect(clippy::cast_precision_loss, reason = "a sum of latencies")]
        let sum = block.mean * count as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float becomes the nearest number there is"
        )]
        let sum_ns = sum.round() as u64;
        let (min_ns, max_ns) = (block.min, block.max.max(block.min));
        self.exact.add(&Exact { count, sum_ns, min_ns, max_ns });
        self.bins.merge(&block.bins);
    }

    fn latency(&self) -> Latency {
        Latency::about(self.exact, self.bins.iter())
    }

    fn native(&self) -> Vec<(u32, u64)> {
        self.bins.buckets().map(|(bucket, count)| (bucket.into(), count)).collect()
    }
}

impl JobTotals {
    fn add(&mut self, direction: &DirectionFigures) {
        self.bytes = self.bytes.saturating_add(direction.io_bytes);
        self.service.add(&direction.lat_ns);
        self.submit.add(&direction.slat_ns);
        self.completion.add(&direction.clat_ns);
    }

    fn record(&self, operation: OperationName, has_parts: bool) -> Option<OperationRecord> {
        (self.service.exact.count > 0).then(|| OperationRecord {
            operation,
            bytes: Bytes::new(self.bytes),
            service: self.service.latency(),
            submit: has_parts.then(|| self.submit.latency()),
            completion: has_parts.then(|| self.completion.latency()),
            response: None,
            fio_bins: self.service.native(),
        })
    }
}

/// The time of the longest job: that of its slowest direction, as fio counts it.
pub(super) fn measured(jobs: &[FioJob]) -> Nanos {
    jobs.iter().map(runtime).max().unwrap_or(Nanos::ZERO)
}

fn runtime(job: &FioJob) -> Nanos {
    let of = |direction: &Option<DirectionFigures>| {
        direction.as_ref().map_or(0, |direction| direction.runtime)
    };
    of_millis(of(&job.read).max(of(&job.write)))
}

fn of_millis(millis: u64) -> Nanos {
    Nanos::new(millis.saturating_mul(1_000_000))
}

/// The counts of jobs together. `parts` says whether the record is that of a job, which has submit
/// and completion latencies where the engine is asynchronous.
fn operations(load: &Load, jobs: &[FioJob], parts: bool) -> Vec<OperationRecord> {
    let (mut reads, mut writes, mut syncs) =
        (JobTotals::default(), JobTotals::default(), JobTotals::default());
    for job in jobs {
        job.read.iter().for_each(|direction| reads.add(direction));
        job.write.iter().for_each(|direction| writes.add(direction));
        job.sync.iter().for_each(|section| syncs.service.add(&section.lat_ns));
    }
    // fio has no slat for synchronous engines: the submitting call is the operation.
    let has_parts = parts && is_asynchronous(engine_of(load));
    let mut records: Vec<OperationRecord> = Vec::new();
    if commits_by_writing(load) {
        // The write is acknowledged when it is durable; its bytes are the write's.
        let bytes = std::mem::take(&mut writes.bytes);
        records.extend(writes.record(OperationName::Commit, false));
        writes.bytes = bytes;
    }
    records.extend(reads.record(OperationName::Read, has_parts));
    records.extend(writes.record(OperationName::Write, has_parts));
    records.extend(syncs.record(OperationName::Sync, false));
    records
}

/// True if each write is a commit by itself. A write and the call after it fio measures apart: their
/// sum is not known for any single commit.
fn commits_by_writing(load: &Load) -> bool {
    let method = load.workload.sync.method;
    load.workload.commits_each_write() && matches!(method, SyncMethod::ODsync | SyncMethod::OSync)
}

pub(super) fn interval(place: &FioStream<'_>, jobs: &[FioJob]) -> Interval {
    let FioStream { step, round, stream, load } = *place;
    Interval {
        step: step.index,
        repeat: step.repeat,
        round,
        stream,
        target: load.target,
        phase: Phase::Measure,
        index: 0,
        from: Nanos::ZERO,
        to: measured(jobs),
        unwatched_max: None,
        operations: operations(load, jobs, false),
    }
}

/// A job's end. fio counts no operations in flight: the accounting has its time alone.
pub(super) fn job_ended(place: &FioStream<'_>, number: u32, job: &FioJob) -> JobEnded {
    let FioStream { step, round, stream, load } = *place;
    let measured = runtime(job);
    // Shares of CPU time are of this time, which has the ramp in it.
    let whole = job.job_runtime.map_or(measured, of_millis);
    JobEnded {
        batches: None,
        step: step.index,
        round,
        stream,
        job: number,
        measured,
        cpu_user: percent_of(whole, job.usr_cpu),
        cpu_system: percent_of(whole, job.sys_cpu),
        // fio adds both kinds up.
        context_switches: None,
        exchanges: 0,
        accounting: Accounting { engine_span_ns: whole.get(), ..Accounting::default() },
        pacing: None,
        operations: operations(load, std::slice::from_ref(job), true),
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a time, as fio rounds it"
)]
fn percent_of(span: Nanos, percent: f64) -> Nanos {
    Nanos::new((span.get() as f64 * percent.clamp(0.0, 1e6) / 100.0) as u64)
}
