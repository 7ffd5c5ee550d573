//! Claims from durio's own findings.
//!
//! In: [`Findings`]. Out: a [`Claim`] per workload, with what was in effect rather than what was
//! asked for. Not here: the warnings of the run, which rest on more and stand in its report.

use durio_plan::{EngineKind, TargetKind};
use durio_record::{OperationName, Phase};
use durio_units::{Bytes, Nanos};
use durio_workload::{CacheMode, Pattern, SyncMethod, Workload};

use super::{Claim, Durability, Figure, Line, Operations};
use crate::{Distribution, Findings, OperationFindings, WorkloadFindings};

/// The claims of a run, in the order of its steps; rounds and streams each their own.
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
    let of = |name| operations(workload, workload.operation(name));
    Claim {
        line: Some(Line::Name(place(workload))),
        source: findings.run.run.clone(),
        stack: workload.location.clone(),
        workload: workload.name.clone(),
        durable: if is_call { format!("{name} every {every} writes") } else { name.to_owned() },
        read_share: Some(f64::from(definition.read_share.0) / 1000.0),
        random: Some(definition.pattern == Pattern::Random),
        block_size: block_size(definition),
        jobs: Some(effective.jobs),
        depth: Some(effective.depth),
        engine: Some(effective.engine.name().to_owned()),
        blocking: Some(effective.engine == EngineKind::Sync),
        buffered: Some(effective.cache == CacheMode::Buffered),
        durability: durability(definition),
        writes_per_sync: is_call.then_some(every),
        paced: workload.open_loop.is_some(),
        read: of(OperationName::Read),
        write: of(OperationName::Write),
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

fn block_size(definition: &Workload) -> Option<Bytes> {
    let single = definition.block_mix.is_empty() && definition.write_block_mix.is_empty();
    single.then_some(definition.block_size)
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

fn target<'f>(
    findings: &'f Findings,
    workload: &WorkloadFindings,
) -> Option<&'f durio_plan::Target> {
    let step = findings.plan.steps.get(workload.step as usize)?;
    findings.plan.targets.get(step.stream(workload.stream)?.target)
}

/// Only of a device it is known that nothing else could have brought it into its state in this run.
fn preconditioned(findings: &Findings, workload: &WorkloadFindings) -> Option<bool> {
    let device = matches!(target(findings, workload)?.kind, TargetKind::Device { .. });
    let before = findings.preconditioning.iter().any(|it| it.location == workload.location);
    match (before, device) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

fn operations(workload: &WorkloadFindings, operation: Option<&OperationFindings>) -> Operations {
    let Some(operation) = operation else { return Operations::default() };
    let service = &operation.service;
    let slots = u64::from(workload.effective.jobs) * u64::from(workload.effective.depth);
    let (bandwidth_min, bandwidth_mean) = samples(workload, operation).unzip();
    Operations {
        rate: Some(rate(service.count, slots, workload.measured, operation.rate)),
        latency_ns_mean: Some(Figure::exact(service.mean_ns)),
        latency_ns_min: Some(exact(service.min_ns)),
        latency_ns_max: Some(exact(service.max_ns)),
        percentiles_ns: percentiles(service),
        count: Some(service.count),
        submit_ns_mean: operation.submit.as_ref().map(|it| Figure::exact(it.mean_ns)),
        bandwidth_min,
        bandwidth_mean,
    }
}

/// What began in the ramp and ended in the measured time has latency from outside of it: as much as
/// there are places in the queue.
#[expect(clippy::cast_precision_loss, reason = "counts and times of some digits")]
fn rate(count: u64, slots: u64, measured: Nanos, value: f64) -> Figure {
    let low = count.saturating_sub(slots) as f64 * 1e9 / measured.get().max(1) as f64;
    Figure { value, low: low.min(value), high: value }
}

fn percentiles(service: &Distribution) -> Vec<(f64, Figure)> {
    let all = [
        (50.0, service.p50_ns),
        (90.0, service.p90_ns),
        (99.0, service.p99_ns),
        (99.9, service.p99_9_ns),
        (99.99, service.p99_99_ns),
    ];
    all.into_iter().filter_map(|(percent, nanos)| Some((percent, exact(nanos?)))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a time of some digits")]
fn exact(nanos: u64) -> Figure {
    Figure::exact(nanos as f64)
}

/// Fewer intervals than this say nothing about evenness.
const INTERVALS_MIN: usize = 8;

/// The slowest interval's bandwidth and the mean, where all accesses are of one kind.
#[expect(clippy::cast_precision_loss, reason = "a number of intervals")]
fn samples(workload: &WorkloadFindings, operation: &OperationFindings) -> Option<(Figure, Figure)> {
    let definition = &workload.definition;
    let alone = definition.reads() != definition.writes();
    let measured = workload.intervals.iter().filter(|it| it.phase == Phase::Measure);
    let rates: Vec<f64> = measured.filter(|it| !it.cut_short).map(|it| it.rate).collect();
    if !alone || rates.len() < INTERVALS_MIN || operation.rate <= 0.0 {
        return None;
    }
    let each = operation.bandwidth / operation.rate;
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    Some((Figure::exact(least * each), Figure::exact(mean * each)))
}
