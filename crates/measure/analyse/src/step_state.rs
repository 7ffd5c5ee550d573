//! Gathers the events of one step and makes its findings.

mod cost;

use std::collections::BTreeMap;

use durio_base::stats::least_squares::{quotient, saturating_sum};
use durio_base::{Bytes, Nanos, Rate};
use durio_observe::DeviceCounters;
use durio_plan::{EngineKind, Load, Plan, RawPath, Step};
use durio_record::{
    Accounting, Interval, JobEnded, Latency, OperationName, OperationRecord, Outcome, Pacing,
    Phase, StepEnded, StepGated, StepStarted, StreamStarted,
};
use durio_workload::{CacheMode, Workload};

use crate::distribution::{batch_findings, curve, distribution, quantile_or_max, with_fio_bins};
use crate::foreign_load::{ForeignIo, OwnIo, foreign_io};
use crate::rate_variation::rate_variation;
use crate::{
    BatchFindings, DataFindings, Effective, GatedStart, InFlightFindings, IntervalPoint,
    KeptInterval, KeptLatencies, OpenLoop, OperationFindings, WorkloadFindings,
};

/// The streams of a step that starts, without anything to show yet.
pub(crate) fn streams(started: &StepStarted) -> Vec<StreamState> {
    started.streams().cloned().map(StreamState::new).collect()
}

/// The findings of each stream of a step's round; with `keep`, with the latencies whole.
pub(crate) fn step_findings(
    streams: &[StreamState],
    plan: &Plan,
    step: &Step,
    round: u32,
    keep: bool,
) -> Vec<WorkloadFindings> {
    let alone = streams.len() == 1;
    let loads = (0..).zip(step.loads()).zip(streams);
    let findings = |((stream, load), state): ((u32, &Load), &StreamState)| {
        let mut findings = state.findings(plan, step, load, alone);
        (findings.round, findings.stream) = (round, stream);
        for operation in findings.operations.iter_mut().filter(|_| keep) {
            let total = state.totals.get(&operation.operation);
            operation.kept = total.map(|total| KeptLatencies {
                service: total.service.clone(),
                submit: total.submit.clone(),
                completion: total.completion.clone(),
            });
        }
        if keep {
            findings.exchanges = saturating_sum(state.jobs.iter().map(|job| job.exchanges));
        }
        if stream > 0 {
            // The devices' counters are reported once, because the streams share them.
            findings.devices.clear();
        } else {
            findings.foreign_io = foreign_io_of(streams, plan, step);
        }
        findings
    };
    loads.map(findings).collect()
}

/// I/O of other programs on the one device below the streams.
fn foreign_io_of(streams: &[StreamState], plan: &Plan, step: &Step) -> Option<ForeignIo> {
    let device = cost::counting(&streams.first()?.ended.as_ref()?.devices)?;
    let span = streams.iter().map(StreamState::span_ns).max()?;
    let is_real = |state: &StreamState| {
        // fio leaves its ramp out of its results, and the null engine does no I/O.
        !matches!(state.started.engine, EngineKind::Fio | EngineKind::Null)
    };
    let own = OwnIo {
        read: saturating_sum(streams.iter().map(|state| state.read_bytes_ever)),
        reads_known: step.loads().zip(streams).all(|(load, state)| state.reads_all(load)),
        writes_nothing: writes_nothing(plan, step),
    };
    streams.iter().all(is_real).then(|| foreign_io(device, &own, Nanos::new(span))).flatten()
}

/// True if the step writes nothing, and no earlier step left anything in the page cache that the
/// kernel could write back now.
fn writes_nothing(plan: &Plan, step: &Step) -> bool {
    let leaves_dirty = |load: &Load| {
        let workload = &load.workload;
        let is_kept = workload.cache == CacheMode::Buffered && !workload.commits_each_write();
        workload.writes() && is_kept
    };
    let mut earlier = plan.steps.iter().filter(|earlier| earlier.index < step.index);
    !step.loads().any(|load| load.workload.writes())
        && !earlier.any(|earlier| earlier.loads().any(leaves_dirty))
}

/// What one stream of a step has shown so far.
#[derive(Debug, Clone)]
pub(crate) struct StreamState {
    started: StreamStarted,
    /// Sums over the measured phase.
    totals: BTreeMap<OperationName, OperationRecord>,
    points: Vec<IntervalPoint>,
    /// Sum of all recorded latencies of operations that occupy a place in the queue.
    latency_sum_ns: u64,
    /// Syncs are linked to their writes: a slot is busy until the commit, one sync per commit.
    links_syncs: bool,
    /// Commits of all phases, as the devices' counters are.
    commits_ever: u64,
    /// Reads and writes of all phases.
    accesses_ever: u64,
    /// Bytes read and written, in all phases.
    bytes_ever: u64,
    /// Bytes read, in all phases.
    read_bytes_ever: u64,
    /// The ends of its jobs, without their histograms.
    jobs: Vec<JobEnded>,
    gated: Option<GatedStart>,
    ended: Option<StepEnded>,
}

/// Adds latencies that only some engines or loops record.
fn add(latency: Option<&Latency>, total: &mut Option<Latency>) {
    if let Some(latency) = latency {
        total.get_or_insert_default().add(latency);
    }
}

/// The operation that a load is about. fio measures a write and the sync call after it apart, and
/// so knows no single commit of them.
pub fn headline(load: &Load) -> OperationName {
    let workload = &load.workload;
    let is_known = load.engine != EngineKind::Fio || !workload.sync.method.is_separate_call();
    if workload.has_commits() && is_known {
        OperationName::Commit
    } else if workload.read_share.0 >= 500 {
        OperationName::Read
    } else {
        OperationName::Write
    }
}

impl StreamState {
    fn new(started: StreamStarted) -> Self {
        Self {
            started,
            totals: BTreeMap::new(),
            points: Vec::new(),
            latency_sum_ns: 0,
            links_syncs: false,
            commits_ever: 0,
            accesses_ever: 0,
            bytes_ever: 0,
            read_bytes_ever: 0,
            jobs: Vec::new(),
            gated: None,
            ended: None,
        }
    }

    /// The sums of one kind of operation.
    fn total(&mut self, operation: OperationName) -> &mut OperationRecord {
        self.totals.entry(operation).or_insert_with(|| OperationRecord::new(operation))
    }

    /// Takes an interval; with `keep`, its counts by operation too.
    pub(crate) fn take_interval(
        &mut self,
        interval: &Interval,
        step: &Step,
        load: &Load,
        keep: bool,
    ) {
        let kept = interval.operations.iter().filter(|_| keep).map(kept_interval).collect();
        self.points.push(IntervalPoint { kept, ..point(interval, step, load) });
        let linked = load.workload.sync.method.is_linked();
        self.links_syncs = linked && self.started.engine.links_syncs();
        // A commit is its write and its sync. If these have separate latencies they are counted
        // already; a linked sync has none, so the commit is counted.
        let part = if self.links_syncs { OperationName::Write } else { OperationName::Commit };
        let occupying = |record: &&OperationRecord| record.operation != part;
        let sums = interval.operations.iter().filter(occupying);
        self.latency_sum_ns = saturating_sum(
            sums.map(|record| record.service.exact.sum_ns).chain([self.latency_sum_ns]),
        );
        let mut commits = interval.operations.iter().filter(|record| !occupying(record));
        let count = commits.next().map_or(0, |record| record.service.exact.count);
        self.commits_ever = self.commits_ever.saturating_add(count);
        for record in
            interval.operations.iter().filter(|record| ACCESSES.contains(&record.operation))
        {
            self.accesses_ever = self.accesses_ever.saturating_add(record.service.exact.count);
            self.bytes_ever = self.bytes_ever.saturating_add(record.bytes.get());
            if record.operation == OperationName::Read {
                self.read_bytes_ever = self.read_bytes_ever.saturating_add(record.bytes.get());
            }
        }
        // The ramp stays in the sums above, because they are compared with counters that include
        // it.
        if interval.phase == Phase::Ramp {
            return;
        }
        for record in &interval.operations {
            let total = self.total(record.operation);
            total.service.add(&record.service);
            add(record.response.as_ref(), &mut total.response);
            add_bins(&record.fio_bins, &mut total.fio_bins);
            total.bytes = Bytes::new(total.bytes.get().saturating_add(record.bytes.get()));
        }
    }

    pub(crate) fn take_job(&mut self, job: &JobEnded) {
        for record in &job.operations {
            let total = self.total(record.operation);
            add(record.submit.as_ref(), &mut total.submit);
            add(record.completion.as_ref(), &mut total.completion);
        }
        // Its histograms are in the totals now.
        self.jobs.push(JobEnded { batches: job.batches.clone(), operations: Vec::new(), ..*job });
    }

    pub(crate) fn take_gate(&mut self, gated: &StepGated) {
        self.gated = Some(gated.into());
    }

    pub(crate) fn take_end(&mut self, ended: &StepEnded) {
        self.ended = Some(ended.clone());
    }

    /// True if the device reads exactly what the load reads: without the page cache, which reads
    /// ahead and answers by itself, and reads the rest of a page before a part of it is written.
    fn reads_all(&self, load: &Load) -> bool {
        let workload = &load.workload;
        let has_mix = !(workload.block_mix.is_empty() && workload.write_block_mix.is_empty());
        let is_whole = workload.block_size.get().is_multiple_of(PAGE) && !has_mix;
        // A mapped page is read before it is written.
        let is_mapped = self.started.engine == EngineKind::Mmap;
        let is_direct = self.started.cache == CacheMode::Direct;
        !is_mapped && (is_direct || (!workload.reads() && is_whole))
    }

    /// The measured time: as the step reports, or without that the recorded intervals. One of
    /// several streams has that of its longest job: it may have ended before the others.
    fn measured(&self, alone: bool) -> Nanos {
        if let Some(ended) = &self.ended {
            let longest = self.jobs.iter().map(|job| job.measured).max().filter(|_| !alone);
            return longest.unwrap_or(ended.measured);
        }
        let measured = self.points.iter().filter(|point| point.phase == Phase::Measure);
        Nanos::new(saturating_sum(measured.map(|point| point.to.saturating_sub(point.from).get())))
    }

    /// `alone` means that no other stream ran: then the process's CPU time is this stream's.
    fn findings(&self, plan: &Plan, step: &Step, load: &Load, alone: bool) -> WorkloadFindings {
        let target = plan.target_of(load);
        let workload = &load.workload;
        let measured = self.measured(alone);
        let headline = headline(load);
        let switches = self.switches(measured, alone);
        let accesses = saturating_sum(ACCESSES.map(|name| self.count(name)));
        let bytes = saturating_sum(self.totals.values().map(|total| total.bytes.get()));
        // A commit's bytes are its write's: counted once.
        let commit_bytes = self.recorded_bytes(OperationName::Commit);
        WorkloadFindings {
            name: workload.name.clone(),
            step: step.index,
            stream: 0,
            round: 0,
            repeat: step.repeat,
            section: step.section,
            levels: step.levels.clone(),
            location: target.location.as_ref().map_or_else(String::new, RawPath::to_string),
            target: target.name.clone(),
            definition: workload.clone(),
            effective: effective(&self.started),
            complete: self.ended.as_ref().is_some_and(|end| end.outcome == Outcome::Complete),
            durable: workload.is_durable(),
            measured,
            headline,
            iops: Rate::of(accesses, measured).per_second(),
            bandwidth: Rate::of(bytes.saturating_sub(commit_bytes), measured).per_second(),
            operations: self.operations(headline, measured),
            in_flight: self.in_flight(alone),
            open_loop: self.open_loop(measured),
            batches: self.batches(workload, alone),
            data: self.data(workload),
            idle_before: self.ended.as_ref().and_then(|ended| ended.idle_before),
            gated: self.gated,
            cpu: self.cpu(
                measured,
                alone,
                workload.group_commit.map_or(1, |group| group.thread_count()),
            ),
            context_switches_per_operation: switches.map(|switches| switches.voluntary),
            involuntary_switches_per_operation: switches.map(|switches| switches.involuntary),
            machine_switches_per_operation: switches.and_then(|switches| switches.machine),
            // A trace is a separate step; the analyser attaches it when all steps have ended.
            latency_breakdown: None,
            device_time: self.device_time(alone, workload.commits_each_write()),
            foreign_io: None,
            unwatched_max: self.points.iter().filter_map(|point| point.unwatched_max).max(),
            rate_variation: rate_variation(&self.points, step.interval, self.started.arrivals),
            intervals: self.points.clone(),
            devices: self.devices(workload.is_durable() && workload.writes()),
            exchanges: 0,
        }
    }

    /// The devices' counters. I/O past the page cache, or made durable, must have moved them.
    fn devices(&self, is_durable: bool) -> Vec<DeviceCounters> {
        let devices = self.ended.as_ref().map_or_else(Vec::new, |ended| ended.devices.clone());
        let is_direct = self.started.cache == CacheMode::Direct;
        cost::counted(devices, (is_direct || is_durable) && self.operations_done() > 0)
    }

    fn count(&self, name: OperationName) -> u64 {
        self.totals.get(&name).map_or(0, |total| total.service.exact.count)
    }

    /// The bytes that an operation moved. Most commits are recorded without: theirs were counted with
    /// their writes.
    fn bytes(&self, name: OperationName) -> u64 {
        match (name, self.recorded_bytes(name)) {
            (OperationName::Commit, 0) => self.recorded_bytes(OperationName::Write),
            (_, bytes) => bytes,
        }
    }

    fn recorded_bytes(&self, name: OperationName) -> u64 {
        self.totals.get(&name).map_or(0, |total| total.bytes.get())
    }

    fn operations(&self, headline: OperationName, measured: Nanos) -> Vec<OperationFindings> {
        let mut operations: Vec<_> = OperationName::ALL
            .into_iter()
            .filter_map(|name| operation(self.totals.get(&name)?, self.bytes(name), measured))
            .collect();
        // Reports take the first for the headline.
        operations.sort_by_key(|operation| operation.operation != headline);
        operations
    }

    /// The offered and the reached rate; `None` for a closed loop.
    fn open_loop(&self, measured: Nanos) -> Option<OpenLoop> {
        // The rate that the runner used: a search changes it from round to round, and the plan has
        // only the first.
        let offered = self.started.arrivals.rate_per_second()?;
        let paced: Vec<&Pacing> = self.jobs.iter().filter_map(|job| job.pacing.as_ref()).collect();
        let sum = |of: fn(&Pacing) -> u64| saturating_sum(paced.iter().map(|pacing| of(pacing)));
        let max = |of: fn(&Pacing) -> u64| paced.iter().map(|pacing| of(pacing)).max().unwrap_or(0);
        let (due, started) = (sum(|pacing| pacing.due), sum(|pacing| pacing.started));
        Some(OpenLoop {
            arrivals: self.started.arrivals,
            offered_per_second: offered,
            achieved_per_second: Rate::of(self.arrived(), measured).per_second(),
            due,
            never_started: due.saturating_sub(started),
            started_share: if due == 0 { 1.0 } else { quotient(started, due) },
            lag_ns_mean: quotient(sum(|pacing| pacing.lag_ns_sum), sum(|pacing| pacing.punctual)),
            lag_ns_max: max(|pacing| pacing.lag_ns_max),
            behind_ns_max: max(|pacing| pacing.behind_ns_max),
        })
    }

    /// Completed arrivals of an open loop: records at a log, else accesses.
    fn arrived(&self) -> u64 {
        // A log's arrivals are records; its writes are as many as its batches.
        let is_log = self.jobs.iter().any(|job| job.batches.is_some());
        let names = if is_log { &[OperationName::Commit][..] } else { &ACCESSES };
        saturating_sum(names.iter().map(|&name| self.count(name)))
    }

    /// The batches of all logs of the stream; `None` without group commit.
    fn batches(&self, workload: &Workload, alone: bool) -> Option<BatchFindings> {
        let batches = self.jobs.iter().filter_map(|job| job.batches.as_ref());
        let devices = self.ended.as_ref().filter(|_| alone).map(|ended| &ended.devices[..]);
        let devices = devices.filter(|all| all.iter().all(|device| !device.not_counted));
        let written = self.recorded_bytes(OperationName::Write);
        let (record, syncs) = (workload.block_mix.is_empty(), self.count(OperationName::Sync));
        let record = record.then_some(workload.block_size.get());
        let mut found = batch_findings(batches, syncs, record, written)?;
        // A write passes through several devices: the one with the most writes has seen them all.
        let writes = devices.and_then(|all| all.iter().map(|device| device.writes_completed).max());
        let per_commit = |writes| quotient(writes, self.commits_ever);
        found.device_writes_per_commit = writes.filter(|_| self.commits_ever > 0).map(per_commit);
        Some(found)
    }

    /// The written data, and the jobs' time spent making it.
    fn data(&self, workload: &Workload) -> Option<DataFindings> {
        let sum = |of: fn(&Accounting) -> u64| {
            saturating_sum(self.jobs.iter().map(|job| of(&job.accounting)))
        };
        let span = sum(|accounting| accounting.engine_span_ns);
        let making_share =
            if span == 0 { 0.0 } else { quotient(sum(|accounting| accounting.filling_ns), span) };
        Some(DataFindings { contents: workload.data_words()?, making_share })
    }

    /// Both sides over all phases and jobs: the latencies as they were recorded, against the count
    /// on a clock that shares no stamp with them.
    fn in_flight(&self, alone: bool) -> InFlightFindings {
        let offered = f64::from(self.started.jobs) * f64::from(self.started.depth);
        let span = self.jobs.iter().map(|job| job.accounting.span_ns).max().unwrap_or(0);
        // One side is the latencies as recorded, after every conversion, the other was integrated
        // on CLOCK_MONOTONIC: from one clock both would be the same number (docs/design/0001).
        let latency = self.latency_sum_ns;
        let counted = saturating_sum(self.jobs.iter().map(|job| job.accounting.in_flight_ns));
        InFlightFindings {
            by_latency: quotient(latency, span),
            counted: quotient(counted, span),
            offered,
            deviation: if counted == 0 { 0.0 } else { quotient(latency, counted) - 1.0 },
            span: Nanos::new(span),
            clock_deviation: self.clock_deviation(),
            jobs_time_share: self.jobs_time_share(alone),
        }
    }

    /// How long the jobs measured in the mean, as a share of the step's time.
    fn jobs_time_share(&self, alone: bool) -> Option<f64> {
        let times = saturating_sum(self.jobs.iter().map(|job| job.measured.get()));
        let all = self.measured(alone).get().saturating_mul(u64::try_from(self.jobs.len()).ok()?);
        (all > 0 && times > 0).then(|| quotient(times, all).min(1.0))
    }

    /// How far the engine's clock is from the reference, over the longest job.
    fn clock_deviation(&self) -> f64 {
        let longest = self.jobs.iter().max_by_key(|job| job.accounting.span_ns);
        let Some(JobEnded { accounting, .. }) = longest else { return 0.0 };
        match accounting.span_ns {
            0 => 0.0,
            span => quotient(accounting.engine_span_ns, span) - 1.0,
        }
    }
}

fn effective(started: &StreamStarted) -> Effective {
    Effective {
        engine: started.engine,
        jobs: started.jobs,
        depth: started.depth,
        batch: started.batch,
        cache: started.cache,
        clock: started.clock.clone(),
        features: started.features.clone(),
        fallbacks: started.fallbacks.clone(),
    }
}

/// Adds the counts of fio's buckets, which stay in their order.
fn add_bins(bins: &[(u32, u64)], total: &mut Vec<(u32, u64)>) {
    for &(bin, count) in bins {
        match total.binary_search_by_key(&bin, |(bin, _)| *bin) {
            Ok(at) => total[at].1 = total[at].1.saturating_add(count),
            Err(at) => total.insert(at, (bin, count)),
        }
    }
}

fn operation(total: &OperationRecord, bytes: u64, measured: Nanos) -> Option<OperationFindings> {
    let figures = distribution(&total.service)?;
    Some(OperationFindings {
        operation: total.operation,
        rate: Rate::of(total.service.exact.count, measured).per_second(),
        bandwidth: Rate::of(bytes, measured).per_second(),
        service: with_fio_bins(figures, &total.fio_bins),
        submit: total.submit.as_ref().and_then(distribution),
        completion: total.completion.as_ref().and_then(distribution),
        response: total.response.as_ref().and_then(distribution),
        curve: curve(&total.service),
        response_curve: total.response.as_ref().map(curve).unwrap_or_default(),
        fio_bins: total.fio_bins.clone(),
        kept: None,
    })
}

/// One point of the series: the rate of the headline's accesses, the latencies of the headline.
fn point(interval: &Interval, step: &Step, load: &Load) -> IntervalPoint {
    let headline = headline(load);
    let mut operations = interval.operations.iter();
    let latency = operations
        .find(|record| record.operation == headline)
        .map(|record| &record.service)
        .filter(|latency| latency.histogram().is_some());
    IntervalPoint {
        phase: interval.phase,
        from: interval.from,
        to: interval.to,
        rate: rate(interval, load),
        p50_ns: latency.and_then(|latency| quantile_or_max(latency, 0.5)),
        p99_ns: latency.and_then(|latency| quantile_or_max(latency, 0.99)),
        max_ns: latency.map(|latency| latency.exact.max_ns),
        unwatched_max: interval.unwatched_max,
        cut_short: is_cut_short(interval, step),
        kept: Vec::new(),
    }
}

fn kept_interval(record: &OperationRecord) -> KeptInterval {
    KeptInterval {
        operation: record.operation,
        count: record.service.exact.count,
        bytes: record.bytes.get(),
        service_ns: record.service.exact.sum_ns,
    }
}

// Size of a page in the cache on most processors; larger ones are whole multiples.
const PAGE: u64 = 4096;

/// Operations that move data for the program; syncs and commits are counted separately.
const ACCESSES: [OperationName; 2] = [OperationName::Read, OperationName::Write];

/// True for an interval, other than the only one, that is too short for a rate.
pub fn is_cut_short(interval: &Interval, step: &Step) -> bool {
    let span = interval.to.saturating_sub(interval.from);
    // The only interval of a short step counts, however short.
    interval.index > 0 && span.get() < step.interval.get() / 2
}

/// The rate that a workload is about: of commits, or else of reads and writes together.
pub(crate) fn rate(interval: &Interval, load: &Load) -> f64 {
    let find = |name| interval.operations.iter().find(|record| record.operation == name);
    let count = |name| find(name).map_or(0, |record: &OperationRecord| record.service.exact.count);
    let counted = match headline(load) {
        OperationName::Commit => count(OperationName::Commit),
        _ => saturating_sum(ACCESSES.map(count)),
    };
    Rate::of(counted, interval.to.saturating_sub(interval.from)).per_second()
}

#[cfg(test)]
mod tests;
