//! Reads one run of a host as `durio report` does, and keeps the figures that hosts are compared by.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use durio_analyse::{
    Analyser, Distribution, Findings, IntervalPoint, OperationFindings, RunState, WorkloadFindings,
};
use durio_base::stats::least_squares::{float, mean};
use durio_base::{Bytes, Nanos};
use durio_plan::{ParameterValue, Plan};
use durio_record::{OperationName, Phase, RecordError, RunFolder, file_names};

use crate::facts::{host_facts, storage_identity};
use crate::window::{HostStep, StartTimes, StepSpan};
use crate::{FigureKey, HostFigure, HostRun, HostStatistic};

/// The name of a run (`--name`) that was made to confirm or clear suspects, alone or with a dash and
/// more.
pub const CONFIRMATION_NAME: &str = "confirm";

/// Points of a host's rate over time: a chart of 1,000 hosts has no room for more.
const RATE_POINTS_MAX: usize = 240;

/// The longest record of one host that is read: a host may send anything.
const RECORD_LENGTH_MAX: Bytes = Bytes::from_gib(1);

/// A run of a host.
#[derive(Debug)]
pub(crate) struct MeasuredRun {
    pub(crate) path: PathBuf,
    pub(crate) run: HostRun,
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) hostname: Option<String>,
    pub(crate) machine_id: Option<String>,
    pub(crate) durio_version: String,
    /// Equal for plans that differ only in paths and seeds.
    pub(crate) plan_hash: u64,
    pub(crate) steps: Vec<StepSpan>,
    pub(crate) rate_over_time: Vec<f64>,
    /// Why the record was not read to its end.
    pub(crate) damage: Option<String>,
}

/// Reads the run folder at `path`.
///
/// # Errors
/// Why it is not a run, as a sentence.
pub(crate) fn load_run(path: &Path) -> Result<MeasuredRun, String> {
    check_length(path)?;
    let folder = RunFolder::open(path).map_err(|error| sentence(&error))?;
    let (manifest, environment) = (&folder.manifest, &folder.environment);
    let mut starts = StartTimes::new(manifest);
    let mut analyser = Analyser::new(manifest.clone(), folder.plan.clone(), environment.clone());
    let mut damage = None;
    for event in folder.events().map_err(|error| sentence(&error))? {
        match event {
            Ok(timed) => {
                starts.observe(&timed);
                analyser.observe(&timed.event);
            }
            Err(error) => {
                let reason = sentence(&error);
                analyser.damaged(reason.clone());
                damage = Some(reason);
            }
        }
    }
    let findings = analyser.finish(path.display().to_string()).findings;
    let measured = last_rounds(&findings);
    Ok(MeasuredRun {
        path: path.to_owned(),
        facts: host_facts(environment, manifest),
        hostname: environment.host.hostname.clone(),
        machine_id: environment.host.machine_id.clone().filter(|id| is_machine_id(id)),
        durio_version: manifest.durio_version.clone(),
        plan_hash: plan_hash(&folder.plan),
        steps: spans(&findings, &measured, &starts),
        rate_over_time: measured.first().map_or_else(Vec::new, |(_, found)| rates(found)),
        damage,
        run: HostRun {
            folder: findings.run_folder.clone(),
            state: findings.state,
            started: manifest.started.clone(),
            is_confirmation: is_confirmation(manifest.label.as_deref()),
            figures: figures(&measured),
        },
    })
}

pub(crate) fn sentence(error: &RecordError) -> String {
    format!("{error}: {}", error.source)
}

/// As durio writes it: it becomes part of names.
fn is_machine_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_confirmation(label: Option<&str>) -> bool {
    let rest = label.and_then(|label| label.strip_prefix(CONFIRMATION_NAME));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn check_length(path: &Path) -> Result<(), String> {
    for name in [file_names::EVENTS, file_names::HISTOGRAMS] {
        let length = path.join(name).symlink_metadata().map_or(0, |facts| facts.len());
        if length > RECORD_LENGTH_MAX.get() {
            return Err(format!("its {name} is larger than {RECORD_LENGTH_MAX}"));
        }
    }
    Ok(())
}

/// A hash of the steps and the sizes of the targets. Within this process: it is never saved.
fn plan_hash(plan: &Plan) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Floats in a plan have no hash of their own.
    let mut add = |part: &dyn Debug| format!("{part:?}").hash(&mut hasher);
    plan.steps.iter().for_each(|step| add(step));
    plan.targets.iter().for_each(|target| add(&target.size));
    hasher.finish()
}

/// Measurements with their keys, each in its last round: earlier ones led to it.
fn last_rounds(findings: &Findings) -> Vec<(HostStep, &WorkloadFindings)> {
    let found = &findings.workloads;
    let is_last = |row: &&WorkloadFindings| {
        let key = (row.step, row.stream);
        !found.iter().any(|other| (other.step, other.stream) == key && other.round > row.round)
    };
    let locations: Vec<String> =
        findings.plan.locations().into_iter().map(ToString::to_string).collect();
    let mut rows: Vec<(HostStep, &WorkloadFindings)> = Vec::new();
    for row in found.iter().filter(is_last) {
        let mut key = HostStep {
            workload: workload_label(row),
            target: target_label(row, &locations),
            operation: row.headline,
            occurrence: 0,
        };
        let is_same = |known: &HostStep| {
            let known = (&known.workload, &known.target, known.operation);
            known == (&key.workload, &key.target, key.operation)
        };
        key.occurrence = rows.iter().filter(|(known, _)| is_same(known)).count();
        rows.push((key, row));
    }
    rows
}

fn workload_label(row: &WorkloadFindings) -> String {
    let levels: Vec<String> = row.levels.iter().map(ParameterValue::words).collect();
    match levels.is_empty() {
        true => row.name.clone(),
        false => format!("{} ({})", row.name, levels.join(", ")),
    }
}

/// The target's name, with the number of its location where there are several: paths differ from
/// host to host.
fn target_label(row: &WorkloadFindings, locations: &[String]) -> String {
    match locations.iter().position(|location| *location == row.location) {
        Some(place) if locations.len() > 1 => format!("{} {}", row.target, place + 1),
        _ => row.target.clone(),
    }
}

/// From the intended start in an open loop, else from preparation to completion.
fn latency(operation: &OperationFindings) -> &Distribution {
    operation.response.as_ref().unwrap_or(&operation.service)
}

/// The figures of complete steps; of repeats the geometric mean.
fn figures(measured: &[(HostStep, &WorkloadFindings)]) -> Vec<HostFigure> {
    let mut repeats: BTreeMap<FigureKey, Vec<f64>> = BTreeMap::new();
    for (step, row) in measured.iter().filter(|(_, row)| row.complete) {
        // The rate of a mix is that of its reads and of its writes.
        let is_access = row.headline != OperationName::Commit;
        let is_compared = |operation: &&OperationFindings| match operation.operation {
            OperationName::Read | OperationName::Write => is_access,
            other => other == row.headline,
        };
        for operation in row.operations.iter().filter(is_compared) {
            for (statistic, value) in statistics(operation) {
                let key = FigureKey {
                    workload: step.workload.clone(),
                    target: step.target.clone(),
                    operation: operation.operation,
                    statistic,
                };
                repeats.entry(key).or_default().push(value);
            }
        }
    }
    let figure = |(key, values): (FigureKey, Vec<f64>)| match values[..] {
        // The logarithm and back would change the last digit.
        [value] => HostFigure { key, value },
        _ => {
            let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            HostFigure { key, value: mean(&logarithms).unwrap_or_default().exp() }
        }
    };
    repeats.into_iter().map(figure).collect()
}

/// The statistics of an operation, as far as they have a logarithm.
fn statistics(operation: &OperationFindings) -> impl Iterator<Item = (HostStatistic, f64)> {
    let latency = latency(operation);
    let values = [
        (HostStatistic::Rate, Some(operation.rate)),
        (HostStatistic::P50, latency.p50_ns.map(float)),
        (HostStatistic::P99, latency.p99_ns.map(float)),
        (HostStatistic::P999, latency.p99_9_ns.map(float)),
    ];
    let known = values.into_iter().filter_map(|(statistic, value)| Some((statistic, value?)));
    known.filter(|(_, value)| *value > 0.0 && value.is_finite())
}

fn spans(
    findings: &Findings,
    measured: &[(HostStep, &WorkloadFindings)],
    starts: &StartTimes,
) -> Vec<StepSpan> {
    let locations = findings.plan.locations();
    let storage = |row: &WorkloadFindings| {
        let place = locations.iter().position(|location| location.to_string() == row.location)?;
        Some(storage_identity(findings.stack.get(place)?))
    };
    let span = |(key, row): &(HostStep, &WorkloadFindings)| {
        let whole = || row.intervals.iter().filter(|point| is_whole(point));
        let times = whole().map(|point| point.from).min().zip(whole().map(|point| point.to).max());
        // A step loads the storage also before the end of its first interval.
        let (from, to) = times.or_else(|| (!row.complete).then_some((Nanos::ZERO, Nanos::ZERO)))?;
        let operation = row.operation(row.headline);
        Some(StepSpan {
            key: key.clone(),
            step: row.step,
            round: row.round,
            stream: row.stream,
            is_complete: row.complete,
            start: starts.start_of(row.step, row.round),
            from,
            to,
            interval: findings.plan.steps.get(row.step as usize)?.interval,
            rate: operation.map_or(0.0, |operation| operation.rate),
            p99_ns: operation.and_then(|operation| latency(operation).p99_ns),
            storage: storage(row).unwrap_or_default(),
        })
    };
    measured.iter().filter_map(span).collect()
}

fn is_whole(point: &IntervalPoint) -> bool {
    point.phase == Phase::Measure && !point.cut_short && point.to > point.from
}

/// The rate in whole intervals.
fn rates(row: &WorkloadFindings) -> Vec<f64> {
    let whole = row.intervals.iter().filter(|point| is_whole(point));
    shortened(&whole.map(|point| point.rate).collect::<Vec<f64>>(), RATE_POINTS_MAX)
}

/// At most as many rates: means of as many successive ones as are needed.
pub(crate) fn shortened(rates: &[f64], most: usize) -> Vec<f64> {
    rates.chunks(rates.len().div_ceil(most).max(1)).filter_map(mean).collect()
}

impl MeasuredRun {
    pub(crate) fn is_complete(&self) -> bool {
        self.run.state == RunState::Complete
    }
}
