//! Claims from durio's findings: a [`Claim`] per workload, with the settings in effect rather than
//! the requested ones. The warnings of the run use more evidence and stand in its report.

use durio_base::{Bytes, Nanos};
use durio_plan::{Target, TargetKind};
use durio_record::{OperationName, Phase};
use durio_workload::{CacheMode, CommitterThreads, Pattern, SyncMethod, Workload};

use super::figure::real;
use super::{Claim, ClaimPlace, Durability, Figure, Operations};
use durio_analyse::{
    BatchFindings, Distribution, Findings, IntervalPoint, OperationFindings, WorkloadFindings,
};

/// The claims of a run, in the order of its steps; rounds and streams are separate claims.
#[must_use]
pub fn run_claims(findings: &Findings) -> Vec<Claim> {
    findings.workloads.iter().map(|it| claim(findings, it)).collect()
}

fn claim(findings: &Findings, workload: &WorkloadFindings) -> Claim {
    let definition = &workload.definition;
    let effective = &workload.effective;
    let (name, every) = (definition.sync.method.name(), definition.sync.every);
    let is_call = definition.sync.method.is_separate_call();
    let jobs = f64::from(effective.jobs.max(1));
    let of = |name| operations(workload, name);
    let is_one_size = definition.block_mix.is_empty() && definition.write_block_mix.is_empty();
    let step = findings.plan.steps.get(workload.step as usize);
    // A linked sync holds its write's place until the commit is done, which alone has a latency then.
    let is_linked = workload.operation(OperationName::Sync).is_none()
        && definition.sync.method.is_linked()
        && workload.operation(OperationName::Commit).is_some();
    Claim {
        line: Some(ClaimPlace::Name(place(workload))),
        source: findings.run.run.clone(),
        stack: workload.location.clone(),
        workload: workload.name.clone(),
        durable: if is_call { format!("{name} every {every} writes") } else { name.to_owned() },
        // Rounds and levels of a run are not duplicate rows.
        note: place(workload),
        read_share: Some(f64::from(definition.read_share.0) / 1000.0),
        random: Some(definition.pattern == Pattern::Random),
        block_size: is_one_size.then_some(definition.block_size),
        jobs: Some(effective.jobs),
        depth: Some(effective.depth),
        engine: Some(effective.engine.name().to_owned()),
        blocking: Some(!effective.engine.is_asynchronous()),
        buffered: Some(effective.cache == CacheMode::Buffered),
        mean_bytes: workload.batches.as_ref().and_then(|it| batch_bytes(it, definition)),
        durability: if is_linked { Durability::InTheWrite } else { durability(definition) },
        writes_per_sync: (is_call && !is_linked).then_some(every),
        paced: workload.open_loop.is_some() || waits_for_records(workload),
        // The queue drains after the end, and holds the ramp's operations at the start.
        open_ends: 1 + u8::from(step.is_some_and(|step| step.ramp > Nanos::ZERO)),
        jobs_time_share: busy_share(workload),
        read: of(OperationName::Read),
        write: if is_linked { linked(workload) } else { of(OperationName::Write) },
        sync: of(OperationName::Sync),
        bandwidth: Some(Figure::exact(workload.bandwidth)).filter(|it| it.value > 0.0),
        runtime: Some(workload.measured),
        size: target(findings, workload).map(|it| it.size),
        memory: Some(findings.host.memory).filter(|&memory| memory > Bytes::ZERO),
        target: Some(workload.location.clone()).filter(|place| !place.is_empty()),
        preconditioned: preconditioned(findings, workload),
        idle: workload.idle_before,
        system_cpu_share: Some(workload.cpu.system_cores / jobs),
        ..Claim::default()
    }
}

/// The share of the jobs' time in which their places in the queue were taken.
fn busy_share(workload: &WorkloadFindings) -> Option<f64> {
    // In a closed loop that was counted: they are idle while data is made, while a place waits to be
    // filled again, and when a job has ended before the others.
    let in_flight = &workload.in_flight;
    let is_counted = in_flight.counted > 0.0 && in_flight.offered > 0.0;
    match workload.open_loop.is_none() && workload.batches.is_none() && is_counted {
        true => Some((in_flight.counted / in_flight.offered).min(1.0)),
        false => in_flight.jobs_time_share,
    }
}

/// `step 3, commit`, with round, repetition and stream where they are not the first.
fn place(workload: &WorkloadFindings) -> String {
    let mut place = format!("step {}", workload.step);
    let parts =
        [("round", workload.round), ("repeat", workload.repeat), ("stream", workload.stream)];
    for (word, number) in parts.into_iter().filter(|it| it.1 > 0) {
        place.push_str(&format!(", {word} {number}"));
    }
    format!("{place}, {}", workload.name)
}

/// Writes with linked syncs: their number, and the latency of the commits that they are part of.
fn linked(workload: &WorkloadFindings) -> Operations {
    let Operations { rate, count, .. } = operations(workload, OperationName::Write);
    Operations { rate, count, ..operations(workload, OperationName::Commit) }
}

/// Bytes of a batch in the mean: its records, and what fills it up.
fn batch_bytes(batches: &BatchFindings, definition: &Workload) -> Option<Figure> {
    let filled = 1.0 - batches.padding_share;
    let single = definition.block_mix.is_empty();
    let records = batches.records_mean * real(definition.block_size.get());
    (single && filled > 0.0).then(|| Figure::exact(records / filled))
}

/// A log that waits for records before it writes: by a delay, or for the threads that bring them.
fn waits_for_records(workload: &WorkloadFindings) -> bool {
    let policy = workload.definition.group_commit;
    let threads = policy.is_some_and(|it| it.threads == CommitterThreads::OneEach);
    threads || workload.batches.as_ref().is_some_and(|it| it.delayed_share > 0.0)
}

fn durability(definition: &Workload) -> Durability {
    match definition.sync.method {
        SyncMethod::None => Durability::Denied,
        SyncMethod::Fsync
        | SyncMethod::Fdatasync
        | SyncMethod::FileRange
        | SyncMethod::LinkedFsync
        | SyncMethod::LinkedFdatasync => Durability::SyncCall,
        SyncMethod::ODsync | SyncMethod::OSync | SyncMethod::RwfDsync | SyncMethod::RwfSync => {
            Durability::InTheWrite
        }
    }
}

fn target<'f>(findings: &'f Findings, workload: &WorkloadFindings) -> Option<&'f Target> {
    let step = findings.plan.steps.get(workload.step as usize)?;
    findings.plan.targets.get(step.stream(workload.stream)?.target)
}

fn preconditioned(findings: &Findings, workload: &WorkloadFindings) -> Option<bool> {
    let device = matches!(target(findings, workload)?.kind, TargetKind::Device { .. });
    let before = findings.preconditioning.iter().any(|it| it.location == workload.location);
    // Only of a device it is known that nothing else could have brought it into its state.
    (before || device).then_some(before)
}

fn operations(workload: &WorkloadFindings, name: OperationName) -> Operations {
    let Some(operation) = workload.operation(name) else { return Operations::default() };
    let service = &operation.service;
    let (bandwidth_min, bandwidth_mean) = samples(workload, operation).unzip();
    Operations {
        rate: Some(Figure::exact(operation.rate)),
        latency_ns_mean: Some(Figure::exact(service.mean_ns)),
        latency_ns_min: Some(Figure::of(service.min_ns)),
        latency_ns_max: Some(Figure::of(service.max_ns)),
        percentiles_ns: percentiles(service),
        count: Some(service.count),
        submit_ns_mean: operation.submit.as_ref().map(|it| Figure::exact(it.mean_ns)),
        bandwidth_min,
        bandwidth_mean,
        ..Operations::default()
    }
}

fn percentiles(service: &Distribution) -> Vec<(f64, Figure)> {
    let all = [
        (50.0, service.p50_ns),
        (90.0, service.p90_ns),
        (99.0, service.p99_ns),
        (99.9, service.p99_9_ns),
        (99.99, service.p99_99_ns),
    ];
    all.into_iter().filter_map(|(percent, nanos)| Some((percent, Figure::of(nanos?)))).collect()
}

// The length of a sample, as fio's: the rule that a slow one is a stall is made for those.
const SAMPLE: Nanos = Nanos::from_millis(500);

// Fewer samples than this show no unevenness.
const SAMPLES_MIN: usize = 8;

// In a sample of this many random arrivals, half as many are five standard deviations away.
const ARRIVALS_MIN: f64 = 100.0;

/// The slowest sample's bandwidth and the mean, if all accesses are of one kind.
fn samples(workload: &WorkloadFindings, operation: &OperationFindings) -> Option<(Figure, Figure)> {
    let definition = &workload.definition;
    let alone = definition.reads() != definition.writes();
    let rates = sample_rates(&workload.intervals);
    if !alone || rates.len() < SAMPLES_MIN || operation.rate <= 0.0 {
        return None;
    }
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = rates.iter().sum::<f64>() / real(rates.len() as u64);
    let expected = mean * SAMPLE.as_secs_f64();
    let each = operation.bandwidth / operation.rate;
    let is_chance = workload.open_loop.is_some() && expected < ARRIVALS_MIN;
    (!is_chance).then(|| (Figure::exact(least * each), Figure::exact(mean * each)))
}

/// Rates over neighbouring intervals that are a sample long together.
fn sample_rates(intervals: &[IntervalPoint]) -> Vec<f64> {
    let (mut rates, mut nanos, mut done) = (Vec::new(), 0.0, 0.0);
    for it in intervals.iter().filter(|it| it.phase == Phase::Measure && !it.cut_short) {
        let span = real(it.to.saturating_sub(it.from).get());
        (nanos, done) = (nanos + span, done + it.rate * span);
        if nanos >= real(SAMPLE.get()) {
            rates.push(done / nanos);
            (nanos, done) = (0.0, 0.0);
        }
    }
    rates
}

#[cfg(test)]
mod tests;
