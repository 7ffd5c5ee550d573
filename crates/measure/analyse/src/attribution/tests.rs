//! Points in, findings out: published studies, models by hand, planted faults, and rules that hold
//! for any rates. The points are made up of findings as a run would give them.

mod compared;
mod faults;
mod models;

use std::sync::LazyLock;

use durio_base::Nanos;
use durio_observe::DeviceCounters;
use durio_plan::{EngineKind, PublishedShare};
use durio_record::{Manifest, OperationName};
use durio_workload::{Pattern, PerMille, SyncPolicy, Workload};
use proptest::prelude::*;

use super::*;
use crate::tests::sample::sample;
use crate::{Analyser, Findings, WorkloadFindings};

/// The figures of the workload's row at a point.
fn figures(found: &StackFindings, at: usize) -> &RowFigures {
    found.workloads[0].rows[at].figures.as_ref().unwrap()
}

fn codes(found: &StackFindings) -> Vec<&str> {
    found.warnings.iter().map(|warning| warning.code.as_str()).collect()
}

/// What a workload measured: operations per second, and mean latency in microseconds.
pub(in crate::attribution) struct Figures {
    pub(in crate::attribution) name: &'static str,
    pub(in crate::attribution) read_share: PerMille,
    pub(in crate::attribution) jobs: u32,
    pub(in crate::attribution) rate: f64,
    pub(in crate::attribution) latency_us: f64,
}

/// 4 KiB random writes of one job.
pub(in crate::attribution) fn writes(rate: f64) -> Figures {
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
pub(in crate::attribution) fn run(figures: &[Figures]) -> Findings {
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
pub(in crate::attribution) fn device(writes_per_second: f64) -> DeviceCounters {
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
pub(in crate::attribution) fn point<'a>(
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

pub(in crate::attribution) fn bench(points: Vec<StackPoint<'_>>) -> BenchPoints<'_> {
    BenchPoints { name: "made".into(), summary: "Made up.".into(), timing: None, points }
}

/// A share of raw, as published for a layer of random writes.
pub(in crate::attribution) fn published(
    share_of_raw: f64,
    jobs: Option<u32>,
    source: &str,
) -> PublishedShare {
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

/// One stack with a point for each run, from the bottom up.
fn column(runs: &[Findings]) -> Vec<StackPoint<'_>> {
    let mut points = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let kind = if at == 0 { PointKind::Raw } else { PointKind::Volume };
        points.push(point("s", &format!("layer {at}"), kind, at.checked_sub(1), Some(run)));
    }
    points
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn shares_multiply_along_the_stack(rates in prop::collection::vec(1e-3..1e9_f64, 1..12)) {
        let runs: Vec<Findings> = rates.iter().map(|rate| run(&[writes(*rate)])).collect();
        let found = attribution(&bench(column(&runs))).unwrap();
        let mut product = 1.0;
        for (at, rate) in rates.iter().enumerate() {
            let row = figures(&found, at);
            product *= row.share_of_below.unwrap();
            let share = row.share_of_raw.unwrap();
            prop_assert!((share / product - 1.0).abs() < 1e-9, "{share} {product}");
            prop_assert!((share - rate / rates[0]).abs() <= 1e-9 * share);
        }
    }

    #[test]
    fn added_times_sum_up_to_the_top(rates in prop::collection::vec(1.0..1e7_f64, 2..12)) {
        let runs: Vec<Findings> = rates.iter().map(|rate| run(&[writes(*rate)])).collect();
        let mut made = bench(column(&runs));
        made.timing = Some(Timing::Counted);
        let found = attribution(&made).unwrap();
        let fall = &found.workloads[0].waterfalls[0];
        let sum: f64 = fall.steps.iter().map(|step| step.added_ns).sum();
        let top = 1e9 / rates[rates.len() - 1];
        let largest = rates.iter().map(|rate| 1e9 / rate).fold(0.0, f64::max);
        prop_assert!((sum - top).abs() <= 1e-9 * largest, "{sum} {top}");
    }

    #[test]
    fn any_figures_give_findings_that_read_back(
        rates in prop::collection::vec(
            prop_oneof![any::<f64>(), Just(f64::NAN), Just(0.0), 1.0..1e6_f64], 1..6),
        shares in prop::collection::vec(1e-9..1e3_f64, 6),
    ) {
        let runs: Vec<Findings> = rates.iter().map(|rate| run(&[writes(*rate)])).collect();
        let mut points = column(&runs);
        for (point, share_of_raw) in points.iter_mut().zip(shares) {
            point.published = vec![published(share_of_raw, None, "made")];
        }
        let found = attribution(&bench(points)).unwrap();
        let text = serde_json::to_string(&found).unwrap();
        prop_assert!(serde_json::from_str::<StackFindings>(&text).is_ok(), "{text}");
    }
}
