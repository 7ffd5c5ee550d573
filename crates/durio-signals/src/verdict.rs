//! Fit or unfit: measured figures against documented thresholds.
//!
//! In: the thresholds that the plan took along, and the findings. Out: a verdict for each threshold
//! and place; of a profile, for each state (idle, under load). A database without a documented
//! threshold gets the percentiles of what it waits for, and no grade of durio's invention.
//! Not here: the thresholds themselves, which are those of the profiles (`durio-workload`).

use durio_observe::Host;
use durio_plan::Purpose;
use durio_record::OperationName;
use durio_units::{Nanos, Rate};
use durio_workload::profile::{Bound, LatencyFigure, Threshold, TimedOperation, check_thresholds};

use crate::Basis;
use crate::warning::disowned;
use durio_analyse::{Distribution, Source, Verdict, VerdictWord, WorkloadFindings};

#[cfg(test)]
mod tests;

/// The verdicts that the plan asks for; none for plans that are not about a database.
pub(crate) fn verdicts(basis: &Basis<'_>) -> Vec<Verdict> {
    let judge = Judge { basis, cpus: cpus(&basis.environment.host) };
    match basis.plan.purpose {
        Purpose::Check => judge.check(&thresholds_of_check(basis)),
        Purpose::Profile => judge.profile(&basis.plan.thresholds),
        Purpose::Run | Purpose::Campaign | Purpose::Sweep | Purpose::Durable => Vec::new(),
    }
}

/// Those that the plan took along; a record of a durio that took none is judged by today's.
fn thresholds_of_check(basis: &Basis<'_>) -> Vec<Threshold> {
    match basis.plan.thresholds.is_empty() {
        // Those that are shipped are right: a test of their crate reads every one.
        true => check_thresholds().unwrap_or_default(),
        false => basis.plan.thresholds.clone(),
    }
}

/// The processors that a database here would have: a limit on them is its limit too.
fn cpus(host: &Host) -> u32 {
    let known = [host.cpus_online, host.cpus_allowed].into_iter().filter(|&cpus| cpus > 0);
    let cpus = known.min().unwrap_or(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let quota = host.cgroup.cpu_quota_cores.map(|cores| cores.ceil() as u32);
    cpus.min(quota.unwrap_or(cpus)).max(1)
}

struct Judge<'a> {
    basis: &'a Basis<'a>,
    cpus: u32,
}

impl Judge<'_> {
    /// Every threshold at every location.
    fn check(&self, thresholds: &[Threshold]) -> Vec<Verdict> {
        let mut locations: Vec<&str> = Vec::new();
        for workload in self.basis.workloads {
            if !locations.contains(&workload.location.as_str()) {
                locations.push(&workload.location);
            }
        }
        let at = |location: &str| -> Vec<Verdict> {
            let one = |threshold: &Threshold| {
                let is_it = |it: &&WorkloadFindings| {
                    it.location == location && it.name == threshold.workload
                };
                self.verdict(threshold, self.basis.workloads.iter().find(is_it), location)
            };
            thresholds.iter().map(one).collect()
        };
        locations.into_iter().flat_map(at).collect()
    }

    /// Every threshold in every state in which its stream was measured.
    fn profile(&self, thresholds: &[Threshold]) -> Vec<Verdict> {
        let first =
            self.basis.plan.locations().first().map_or_else(String::new, |it| it.to_string());
        let one = |threshold: &Threshold| -> Vec<Verdict> {
            let measured = self.basis.workloads.iter().filter(|it| it.name == threshold.workload);
            let found: Vec<Verdict> =
                measured.map(|it| self.verdict(threshold, Some(it), &it.location)).collect();
            match found.is_empty() {
                true => vec![self.verdict(threshold, None, &first)],
                false => found,
            }
        };
        thresholds.iter().flat_map(one).collect()
    }

    fn verdict(
        &self,
        threshold: &Threshold,
        workload: Option<&WorkloadFindings>,
        location: &str,
    ) -> Verdict {
        match threshold.bound {
            Bound::Undocumented => self.without_threshold(threshold, workload, location),
            bound => self.judged(threshold, bound, workload, location),
        }
    }

    fn judged(
        &self,
        threshold: &Threshold,
        bound: Bound,
        workload: Option<&WorkloadFindings>,
        location: &str,
    ) -> Verdict {
        let Compared { value, limit, unit } = compared(bound, workload, f64::from(self.cpus));
        let known = workload.filter(|_| value.is_some());
        let doubt = known.and_then(|it| disowned(self.basis, it).or_else(|| too_short(bound, it)));
        let word = match value {
            Some(value) if doubt.is_none() => match bound {
                Bound::LatencyBelow { .. } => fit_if(value < limit),
                _ => fit_if(value >= limit),
            },
            _ => VerdictWord::CannotTell,
        };
        let name = workload.map_or_else(|| threshold.workload.clone(), name_in_state);
        let measured = match (value, doubt) {
            (Some(value), Some(doubt)) => {
                format!("{name}: {}, but {doubt}", shown(bound, value))
            }
            (Some(value), None) => format!("{name}: {}", shown(bound, value)),
            (None, _) => format!("{name} was not measured, or too briefly for this figure"),
        };
        Verdict {
            criterion: criterion(threshold, bound, self.cpus),
            threshold: Some(limit),
            source: source(threshold),
            note: threshold.note.clone(),
            ..self.plain(threshold, location, word, measured, value, unit)
        }
    }

    fn plain(
        &self,
        threshold: &Threshold,
        location: &str,
        verdict: VerdictWord,
        measured: String,
        value: Option<f64>,
        unit: &str,
    ) -> Verdict {
        Verdict {
            database: threshold.database.clone(),
            location: location.to_owned(),
            verdict,
            provisional: self.basis.provisional.is_some(),
            criterion: threshold.criterion.clone(),
            measured,
            value,
            threshold: None,
            unit: unit.to_owned(),
            source: None,
            note: None,
        }
    }

    fn without_threshold(
        &self,
        threshold: &Threshold,
        workload: Option<&WorkloadFindings>,
        location: &str,
    ) -> Verdict {
        let headline = workload.and_then(|it| it.operation(it.headline));
        let p99 = headline.and_then(|it| it.service.p99_ns);
        let name = workload.map_or_else(|| threshold.workload.clone(), name_in_state);
        let measured = match (headline, p99) {
            (Some(headline), Some(p99)) => {
                let p50 = headline.service.p50_ns;
                let p50 = p50.map_or_else(String::new, |p50| format!("p50 {}, ", Nanos::new(p50)));
                let what = match headline.operation {
                    OperationName::Commit => "durable commit",
                    other => other.name(),
                };
                format!("{name}: {p50}p99 {} per {what}", Nanos::new(p99))
            }
            _ => format!("{name} was not measured, or too briefly"),
        };
        let word = VerdictWord::NoDocumentedThreshold;
        #[expect(clippy::cast_precision_loss, reason = "latencies far below 2⁵³ ns")]
        let value = p99.map(|nanos| nanos as f64);
        Verdict {
            note: workload.and_then(|workload| disowned(self.basis, workload)),
            ..self.plain(threshold, location, word, measured, value, "ns")
        }
    }
}

/// A run that is shorter than the longest operation permitted could not have shown one.
fn too_short(bound: Bound, workload: &WorkloadFindings) -> Option<String> {
    let Bound::LatencyBelow { operation, figure: LatencyFigure::Max, limit } = bound else {
        return None;
    };
    let kept = latencies_of(workload, operation)?.max_ns < limit.get();
    let measured = workload.measured;
    (kept && measured < limit)
        .then(|| format!("{measured} are shorter than the limit: give a longer --duration"))
}

/// The workload's name, and in which state of a profile's database it was measured.
fn name_in_state(workload: &WorkloadFindings) -> String {
    match workload.levels.iter().find(|level| level.axis == "state") {
        Some(level) => format!("{}, {}", workload.name, level.label),
        None => workload.name.clone(),
    }
}

fn source(threshold: &Threshold) -> Option<Source> {
    Some(Source {
        publisher: threshold.publisher.clone().unwrap_or_default(),
        document: threshold.document.clone()?,
        url: threshold.url.clone().unwrap_or_default(),
        kind: threshold.kind,
    })
}

fn criterion(threshold: &Threshold, bound: Bound, cpus: u32) -> String {
    match bound {
        Bound::OperationsPerCpu { .. } | Bound::BandwidthPerCpu { .. } => {
            format!("{}, of which {cpus} may be used here", threshold.criterion)
        }
        Bound::LatencyBelow { .. } | Bound::Undocumented => threshold.criterion.clone(),
    }
}

const fn fit_if(met: bool) -> VerdictWord {
    if met { VerdictWord::Fit } else { VerdictWord::Unfit }
}

/// A measured value beside its limit.
struct Compared {
    value: Option<f64>,
    limit: f64,
    unit: &'static str,
}

/// A step that did not run to its end gives no value.
#[expect(clippy::cast_precision_loss, reason = "latencies and bandwidths far below 2⁵³")]
fn compared(bound: Bound, workload: Option<&WorkloadFindings>, cpus: f64) -> Compared {
    let workload = workload.filter(|workload| workload.complete);
    match bound {
        Bound::LatencyBelow { operation, figure, limit } => {
            let latencies = workload.and_then(|it| latencies_of(it, operation));
            let value = latencies.and_then(|it| figure_of(it, figure));
            Compared { value, limit: limit.get() as f64, unit: "ns" }
        }
        Bound::OperationsPerCpu { at_least_per_second } => Compared {
            value: workload.map(|it| it.iops),
            limit: at_least_per_second * cpus,
            unit: "per second",
        },
        Bound::BandwidthPerCpu { at_least } => Compared {
            value: workload.map(|it| it.bandwidth),
            limit: at_least.get() as f64 * cpus,
            unit: "bytes per second",
        },
        Bound::Undocumented => Compared { value: None, limit: 0.0, unit: "ns" },
    }
}

fn latencies_of(workload: &WorkloadFindings, operation: TimedOperation) -> Option<&Distribution> {
    let name = match operation {
        TimedOperation::Sync => OperationName::Sync,
        TimedOperation::Commit => OperationName::Commit,
        TimedOperation::Read => OperationName::Read,
        TimedOperation::Write => OperationName::Write,
    };
    workload.operation(name).map(|it| &it.service)
}

#[expect(clippy::cast_precision_loss, reason = "latencies far below 2⁵³ ns")]
fn figure_of(latencies: &Distribution, figure: LatencyFigure) -> Option<f64> {
    let exact = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64);
    match figure {
        LatencyFigure::Mean => (latencies.count > 0).then_some(latencies.mean_ns),
        LatencyFigure::P50 => exact(latencies.p50_ns),
        LatencyFigure::P99 => exact(latencies.p99_ns),
        LatencyFigure::P99_9 => exact(latencies.p99_9_ns),
        LatencyFigure::Max => (latencies.count > 0).then_some(latencies.max_ns as f64),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
fn shown(bound: Bound, value: f64) -> String {
    match bound {
        Bound::LatencyBelow { figure, .. } => {
            format!("{} {}", figure.word(), Nanos::new(value as u64))
        }
        Bound::OperationsPerCpu { .. } => {
            format!("{} I/Os", Rate::of(value as u64, Nanos::from_secs(1)))
        }
        Bound::BandwidthPerCpu { .. } | Bound::Undocumented => {
            format!("{:.0} MB/s", value / 1e6)
        }
    }
}
