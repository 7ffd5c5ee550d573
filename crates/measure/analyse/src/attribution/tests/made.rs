//! Findings of a point as a run would give them, made up, for tests.

use std::sync::LazyLock;

use durio_base::Nanos;
use durio_observe::DeviceCounters;
use durio_plan::{EngineKind, PublishedShare};
use durio_record::{Manifest, OperationName};
use durio_workload::{Pattern, PerMille, SyncPolicy, Workload};

use super::super::*;
use crate::sample::sample;
use crate::{Analyser, Findings, WorkloadFindings};

/// What a workload measured: operations per second, and mean latency in microseconds.
pub(crate) struct Figures {
    pub(crate) name: &'static str,
    pub(crate) read_share: PerMille,
    pub(crate) jobs: u32,
    pub(crate) rate: f64,
    pub(crate) latency_us: f64,
}

/// 4 KiB random writes of one job.
pub(crate) fn writes(rate: f64) -> Figures {
    let latency_us = 1e6 / rate;
    Figures { name: "randwrite", read_share: PerMille::NONE, jobs: 1, rate, latency_us }
}

/// An empty run, and a workload to be changed: made once, for the analyser takes its time.
static CLEAN: LazyLock<(Findings, WorkloadFindings)> = LazyLock::new(|| {
    let mut made = sample();
    let manifest = Manifest {
        label: None,
        schema: 1,
        run: "made".into(),
        durio_version: "0".into(),
        started: "2026-11-21T10:09:00Z".into(),
        command: vec!["durio".into()],
    };
    let workload = made.workloads.remove(0);
    let analyser = Analyser::new(manifest, made.plan, made.environment);
    (analyser.finish(String::new()).findings, workload)
});

/// A run of so many workloads, one after the other.
pub(crate) fn run(figures: &[Figures]) -> Findings {
    let mut findings = CLEAN.0.clone();
    findings.workloads =
        (0..).zip(figures).map(|(step, figures)| workload(step, figures)).collect();
    findings
}

fn workload(step: u32, figures: &Figures) -> WorkloadFindings {
    let mut found = CLEAN.1.clone();
    let mut operation = found.operations.remove(1);
    let reads = figures.read_share == PerMille::ALL;
    found.headline = if reads { OperationName::Read } else { OperationName::Write };
    (operation.operation, operation.rate) = (found.headline, figures.rate);
    operation.bandwidth = figures.rate * 4096.0;
    set_latency(&mut operation.service, figures.latency_us * 1e3);
    found.operations = vec![operation];
    (found.step, found.iops, found.bandwidth) = (step, figures.rate, figures.rate * 4096.0);
    found.name = figures.name.into();
    found.definition = Workload {
        name: figures.name.into(),
        pattern: Pattern::Random,
        read_share: figures.read_share,
        jobs: figures.jobs,
        depth: 1,
        sync: SyncPolicy::NONE,
        ..Workload::default()
    };
    (found.effective.engine, found.effective.jobs) = (EngineKind::Aio, figures.jobs);
    (found.durable, found.measured) = (false, Nanos::from_secs(60));
    found.in_flight.span = Nanos::from_secs(60);
    found
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made up")]
fn set_latency(service: &mut crate::Distribution, mean_ns: f64) {
    service.mean_ns = mean_ns;
    service.p50_ns = Some((mean_ns * 0.9) as u64);
    service.p99_ns = Some((mean_ns * 2.0) as u64);
}

/// Counters of one device after a minute with so many writes of 4 KiB per second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made up")]
pub(crate) fn device(writes_per_second: f64) -> DeviceCounters {
    let writes = (writes_per_second * 60.0) as u64;
    DeviceCounters {
        name: "nullb0".into(),
        writes_completed: writes,
        sectors_written: writes * 8,
        flushes_completed: Some(0),
        ..DeviceCounters::default()
    }
}

/// A point of a stack over RAM disks.
pub(crate) fn point<'a>(
    stack: &str,
    layer: &str,
    kind: PointKind,
    below: Option<usize>,
    run: Option<&'a Findings>,
) -> StackPoint<'a> {
    StackPoint {
        stack: stack.into(),
        layer: layer.into(),
        kind,
        base: Base { kind: BaseKind::Ram, label: "RAM disks".into() },
        below,
        raid: None,
        no_model: None,
        published: Vec::new(),
        runs: run.into_iter().collect(),
        failure: None,
    }
}

pub(crate) fn bench(points: Vec<StackPoint<'_>>) -> BenchPoints<'_> {
    BenchPoints { name: "made".into(), summary: "Made up.".into(), timing: None, points }
}

/// A share of raw, as published for a layer of random writes.
pub(crate) fn published(share_of_raw: f64, jobs: Option<u32>, source: &str) -> PublishedShare {
    PublishedShare {
        stack: "s".into(),
        layer: 0,
        workload: "randwrite".into(),
        jobs,
        share_of_raw,
        rate: None,
        source: Some(source.into()),
    }
}
