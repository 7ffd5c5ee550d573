//! Goals of a user against the figures of each host.

use std::collections::BTreeMap;

use durio_plan::{LatencyFigure, OperationName, Threshold, ThresholdBound};
use durio_report::figures::{mean_latency, rate};
use serde::{Deserialize, Serialize};

use crate::{FigureKey, FleetFindings, HostFigure, HostOutcome, HostRun, HostStatistic};

/// A goal, and the hosts that miss it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetGoal {
    /// As the user wrote it.
    pub goal: String,
    pub statistic: HostStatistic,
    /// Per second or nanoseconds, as the figures of the hosts.
    pub limit: f64,
    /// Hosts that miss it in their worst run, and that run's figure: per second or nanoseconds.
    pub missed: Vec<(String, f64)>,
    /// Hosts without such a figure.
    pub open: Vec<String>,
}

impl FleetGoal {
    /// The goal with the hosts that miss it; `None` if none does.
    pub fn missed_text(&self) -> Option<String> {
        let value = |value| figure_value(self.statistic, value);
        let hosts = self.missed.iter().map(|(name, worst)| format!("{name} {}", value(*worst)));
        self.on(&hosts.collect::<Vec<_>>())
    }

    /// The goal with the hosts that were not compared with it; `None` if all were.
    pub fn open_text(&self) -> Option<String> {
        self.on(&self.open)
    }

    /// `commit p99 < 5ms on 4 hosts (db1 6.2 ms, db2 7 ms, db3 9 ms, + 1 more)`.
    fn on(&self, hosts: &[String]) -> Option<String> {
        let count = durio_base::counted(hosts.len() as u64, "host");
        let named = first_of(hosts, ", ", NAMED_MAX);
        (!hosts.is_empty()).then(|| format!("{} on {count} ({named})", self.goal))
    }
}

/// Compares every host with a goal.
///
/// # Errors
/// A sentence, if hosts have no such figure.
pub fn judge_goal(goal: &Threshold, findings: &FleetFindings) -> Result<FleetGoal, String> {
    let (operation, statistic, limit) = bound(goal)?;
    let is_asked = |key: &FigureKey| {
        key.workload == goal.workload
            && key.statistic == statistic
            && operation.is_none_or(|operation| key.operation == operation)
    };
    let (missed, open) = (Vec::new(), Vec::new());
    let mut judged = FleetGoal { goal: goal.criterion.clone(), statistic, limit, missed, open };
    for host in &findings.hosts {
        let values = host.runs.iter().flat_map(|run| target_values(run, statistic, is_asked));
        let worst = match statistic.is_higher_better() {
            true => values.reduce(f64::min),
            false => values.reduce(f64::max),
        };
        match worst {
            Some(value) if is_missed(statistic, value, limit) => {
                judged.missed.push((host.name.clone(), value));
            }
            Some(_) if host.outcome == HostOutcome::Measured => {}
            // The rest of a run that was cut could have missed it.
            _ => judged.open.push(host.name.clone()),
        }
    }
    Ok(judged)
}

/// The operation if the goal names one, the figure, and its limit.
fn bound(goal: &Threshold) -> Result<(Option<OperationName>, HostStatistic, f64), String> {
    match goal.bound {
        ThresholdBound::RateAtLeast { at_least_per_second } => {
            Ok((None, HostStatistic::Rate, at_least_per_second))
        }
        ThresholdBound::LatencyBelow { operation, figure, limit } => {
            let statistic = match figure {
                LatencyFigure::P50 => HostStatistic::P50,
                LatencyFigure::P99 => HostStatistic::P99,
                LatencyFigure::P99_9 => HostStatistic::P999,
                LatencyFigure::Mean | LatencyFigure::Max => return Err(unsupported(goal)),
            };
            Ok((Some(operation), statistic, durio_report::figures::precise(limit.get())))
        }
        _ => Err(unsupported(goal)),
    }
}

fn unsupported(goal: &Threshold) -> String {
    format!("'{}': hosts are compared by rate, p50, p99 and p99.9", goal.criterion)
}

fn is_missed(statistic: HostStatistic, value: f64, limit: f64) -> bool {
    if statistic.is_higher_better() { value < limit } else { value >= limit }
}

/// The figure of each target in a run. A rate counts commits, or all accesses of a target without
/// commits, as goals of `check` do.
fn target_values(
    run: &HostRun,
    statistic: HostStatistic,
    is_asked: impl Fn(&FigureKey) -> bool,
) -> Vec<f64> {
    let mut targets: BTreeMap<&str, Vec<&HostFigure>> = BTreeMap::new();
    for figure in run.figures.iter().filter(|figure| is_asked(&figure.key)) {
        targets.entry(&figure.key.target).or_default().push(figure);
    }
    let value = |figures: Vec<&HostFigure>| {
        let of = |operation| figures.iter().find(|figure| figure.key.operation == operation);
        let accesses = [of(OperationName::Read), of(OperationName::Write)];
        match (statistic, of(OperationName::Commit)) {
            (HostStatistic::Rate, None) => {
                accesses.into_iter().flatten().map(|figure| figure.value).reduce(|a, b| a + b)
            }
            (HostStatistic::Rate, Some(commits)) => Some(commits.value),
            _ => figures.first().map(|figure| figure.value),
        }
    };
    targets.into_values().filter_map(value).collect()
}

/// Hosts that a list names.
pub(crate) const NAMED_MAX: usize = 3;

pub(crate) fn figure_value(statistic: HostStatistic, value: f64) -> String {
    if statistic.is_higher_better() { rate(value) } else { mean_latency(value) }
}

/// At most as many of these, and how many more there are: `db1, db2, + 7 more`.
pub(crate) fn first_of(names: &[String], separator: &str, most: usize) -> String {
    let (first, more) = names.split_at(names.len().min(most));
    match more.len() {
        0 => first.join(separator),
        more => format!("{}{separator}+ {more} more", first.join(separator)),
    }
}
