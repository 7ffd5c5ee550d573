//! One line of a section's table: a step and stream, its repetitions or rounds taken together.
//!
//! The table of measurements gives groups of rows that are the same but for round and repetition,
//! and each group a [`CampaignRow`].

use durio_base::{Bytes, Nanos};
use durio_plan::{EngineKind, ParameterValue};
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use super::Convergence;
use crate::ladder::LadderPhase;
use crate::ladder::limits::LimitingFactor;
use crate::measurement::{Measurement, Measurements};
use crate::{Distribution, OperationFindings, SearchFindings, WorkloadFindings};
use durio_base::stats::least_squares::{float, range};

/// The meaning of a row's values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "basis")]
pub enum RowBasis {
    /// Those of the one time that it was measured.
    Once,
    /// The median of each value over the repetitions.
    Repeats { count: usize, rate_min_per_second: f64, rate_max_per_second: f64 },
    /// The mean of each value over the rounds of the measurement window, counted from one.
    Window {
        first_round: u32,
        last_round: u32,
        /// Whether the rule was fulfilled.
        steady: bool,
    },
    /// The trial that gave the search its answer, counted from one.
    Trial { round: u32 },
}

/// Latencies of a row; a percentile is absent if one of its measurements lacks it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RowLatency {
    pub mean_ns: f64,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub p99_9_ns: Option<u64>,
}

/// The load of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OfferedLoad {
    /// Accesses per second that were offered.
    pub offered_per_second: f64,
    /// Accesses per second that were done.
    pub achieved_per_second: f64,
    /// All but a hundredth of the arrivals were started: else the point is not part of a curve.
    pub keeps_up: bool,
}

/// One kind of operation within a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RowPart {
    pub operation: OperationName,
    #[serde(rename = "rate_per_second")]
    pub rate: f64,
    pub service: RowLatency,
}

/// A step and stream, its repetitions or rounds taken together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignRow {
    /// Index of the (first) step in the plan.
    pub step: u32,
    /// Place of the load among those of the step; above 0 it ran together with the first.
    pub stream: u32,
    /// Name of the workload.
    pub name: String,
    /// The location that the user named.
    pub location: String,
    /// Name of the target.
    pub target: String,
    /// Where it is on the axes of its section.
    pub levels: Vec<ParameterValue>,
    /// The meaning of the values.
    #[serde(flatten)]
    pub basis: RowBasis,
    /// The operation that the workload is about.
    pub headline: OperationName,
    /// True if every write was made durable.
    pub durable: bool,
    /// True if it ran to its limit, each time.
    pub complete: bool,
    pub engine: EngineKind,
    /// Jobs in use, in total.
    pub jobs: u32,
    /// Operations offered at once: jobs × depth.
    pub in_flight_offered: f64,
    /// Mean number in flight, as counted.
    pub in_flight_mean: f64,
    /// Bytes per access, the largest.
    pub block_size: Bytes,
    /// Commits per second where there are any, else accesses per second.
    #[serde(rename = "rate_per_second")]
    pub rate: f64,
    pub iops: f64,
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: f64,
    /// Service latency of the headline operation.
    pub service: Option<RowLatency>,
    /// Response latency of it, of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<RowLatency>,
    /// Every kind of operation, where there are several; the headline first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RowPart>,
    /// The rate offered by an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OfferedLoad>,
    /// Longest time in which nothing was in flight before it.
    #[serde(rename = "idle_before_ns", default, skip_serializing_if = "Option::is_none")]
    pub idle_before: Option<Nanos>,
    /// Bytes that the devices below read for each byte that was asked for; others' reads are in it,
    /// and a ramp is taken to be as fast as the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_bytes_per_byte_read: Option<f64>,
    /// The same of writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_bytes_per_byte_written: Option<f64>,
    /// Where it lies on its curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<LadderPhase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitingFactor>,
}

impl CampaignRow {
    /// The level on an axis.
    pub fn level(&self, axis: &str) -> Option<&ParameterValue> {
        self.levels.iter().find(|level| level.axis == axis)
    }
}

impl RowBasis {
    /// That of the rounds of a section that count.
    pub(super) fn of_rounds(
        convergence: Option<&Convergence>,
        search: Option<&SearchFindings>,
    ) -> Self {
        let number = |round: usize| u32::try_from(round).unwrap_or(u32::MAX);
        let window = convergence.and_then(|found| found.state.as_ref()).and_then(|state| {
            let window = state.window?;
            Some(Self::Window {
                first_round: number(window.first_round),
                last_round: number(window.last_round),
                steady: state.attained_at.is_some(),
            })
        });
        let trial = search.and_then(answer);
        let trial = trial.map(|round| Self::Trial { round: round.saturating_add(1) });
        window.or(trial).unwrap_or(Self::Once)
    }

    /// Whether a round counts, numbered from zero as in the record.
    fn has(self, round: u32) -> bool {
        let number = round.saturating_add(1);
        match self {
            Self::Once | Self::Repeats { .. } => true,
            Self::Window { first_round, last_round, .. } => {
                (first_round..=last_round).contains(&number)
            }
            Self::Trial { round } => number == round,
        }
    }
}

/// The last trial at the highest rate that kept the goal; else the last of all.
fn answer(found: &SearchFindings) -> Option<u32> {
    let kept = |rate: f64| {
        // Rates come from halving and doubling, and may differ in their last digits.
        let is_it = |rate_tried: f64| (rate_tried / rate - 1.0).abs() < 1e-9;
        found.trials.iter().rfind(|trial| trial.kept && is_it(trial.rate_per_second))
    };
    let trial = found.kept_per_second.and_then(kept).or(found.trials.last())?;
    Some(trial.round)
}

/// What one row is made of: the same step and stream, repeated or in rounds.
pub(super) struct RowGroup<'a> {
    /// What all of them are.
    pub(super) first: Measurement<'a>,
    /// The measurements that count; at least one.
    counting: Measurements<'a>,
    /// All rounds of it, also those that do not count.
    pub(super) all: Measurements<'a>,
    basis: RowBasis,
}

/// The groups of some steps, in their order.
pub(super) fn groups<'a>(
    table: &Measurements<'a>,
    steps: impl Iterator<Item = u32>,
    basis: RowBasis,
) -> Vec<RowGroup<'a>> {
    let mut groups: Vec<RowGroup<'a>> = Vec::new();
    for step in steps {
        for stream in table.of_step(step).chunk_by(|a, b| a.stream == b.stream) {
            add(&mut groups, stream, basis);
        }
    }
    groups
}

fn add<'a>(groups: &mut Vec<RowGroup<'a>>, stream: &[Measurement<'a>], basis: RowBasis) {
    // A step without such rounds (a ceiling, a run that was stopped) counts with the rounds it has.
    let counting = stream.iter().filter(|row| basis.has(row.round)).copied();
    let (counting, basis) = match counting.collect::<Measurements<'_>>() {
        none if none.is_empty() => (stream.iter().copied().collect(), RowBasis::Once),
        some => (some, basis),
    };
    let Some(first) = counting.first().copied() else { return };
    match groups.iter_mut().find(|group| is_repeat(&group.first, &first)) {
        Some(group) => {
            group.counting.extend(&counting);
            group.all.extend(stream);
        }
        None => {
            let all = stream.iter().copied().collect();
            groups.push(RowGroup { first, counting, all, basis });
        }
    }
}

/// Whether two steps are the same but for their repetition.
fn is_repeat(a: &WorkloadFindings, b: &WorkloadFindings) -> bool {
    // Steps of one repetition are different steps, however alike they look.
    a.repeat != b.repeat
        && a.stream == b.stream
        && a.levels == b.levels
        && a.name == b.name
        && (&a.location, &a.target) == (&b.location, &b.target)
        && a.effective.engine == b.effective.engine
        && a.definition == b.definition
}

impl<'a> RowGroup<'a> {
    /// The one with the median rate.
    pub(super) fn middle(&self) -> Measurement<'a> {
        self.counting.clone().rising(|row| row.iops).middle().unwrap_or(self.first)
    }

    /// The row that the group makes.
    pub(super) fn row(&self) -> CampaignRow {
        let (first, all) = (self.first, &self.counting);
        let offered = self.value(|found| Some(found.open_loop?.offered_per_second));
        CampaignRow {
            step: first.step,
            stream: first.stream,
            name: first.name.clone(),
            location: first.location.clone(),
            target: first.target.clone(),
            levels: first.levels.clone(),
            basis: self.row_basis(),
            headline: first.headline,
            durable: first.durable,
            complete: all.iter().all(|row| row.complete),
            engine: first.effective.engine,
            jobs: first.effective.jobs,
            in_flight_offered: first.in_flight.offered,
            in_flight_mean: self.or_zero(|found| found.in_flight.counted),
            block_size: first.definition.block_size,
            rate: self.or_zero(WorkloadFindings::headline_rate),
            iops: self.or_zero(|found| found.iops),
            bandwidth: self.or_zero(|found| found.bandwidth),
            service: self.latency(|found| Some(&found.operation(found.headline)?.service)),
            response: self.latency(|found| found.operation(found.headline)?.response.as_ref()),
            parts: self.parts(),
            open_loop: offered.map(|offered_per_second| OfferedLoad {
                offered_per_second,
                achieved_per_second: self
                    .or_zero(|found| found.open_loop.map_or(0.0, |open| open.achieved_per_second)),
                keeps_up: all.iter().all(|row| row.open_loop.is_none_or(|open| open.keeps_up())),
            }),
            // The longest: a pause lets drives collect garbage, and one is enough to change the
            // result.
            idle_before: all.iter().filter_map(|row| row.idle_before).max(),
            device_bytes_per_byte_read: self.value(|found| {
                let asked = found.operation(OperationName::Read)?.bandwidth;
                let bytes = found.device_bytes_per_byte(asked, |device| device.sectors_read);
                bytes.filter(|bytes| bytes.is_finite())
            }),
            device_bytes_per_byte_written: self.value(|found| {
                let written = found.operation(OperationName::Write);
                let asked = written.or_else(|| found.operation(OperationName::Commit))?.bandwidth;
                let bytes = found.device_bytes_per_byte(asked, |device| device.sectors_written);
                bytes.filter(|bytes| bytes.is_finite())
            }),
            phase: None,
            limit: None,
        }
    }

    fn row_basis(&self) -> RowBasis {
        match self.basis {
            RowBasis::Once if self.counting.len() > 1 => {
                let (low, high) = range(self.counting.iter().map(|row| row.headline_rate()));
                RowBasis::Repeats {
                    count: self.counting.len(),
                    rate_min_per_second: low,
                    rate_max_per_second: high,
                }
            }
            basis => basis,
        }
    }

    fn value(&self, value: impl Fn(&'a WorkloadFindings) -> Option<f64>) -> Option<f64> {
        // Rounds of a steady window are one state, whose mean is the result (SNIA); repetitions may
        // have an outlier, which a median leaves out.
        self.counting.together(matches!(self.basis, RowBasis::Window { .. }), value)
    }

    fn or_zero(&self, value: impl Fn(&'a WorkloadFindings) -> f64) -> f64 {
        self.value(|found| Some(value(found))).unwrap_or(0.0)
    }

    fn latency(
        &self,
        of: impl Fn(&'a WorkloadFindings) -> Option<&'a Distribution>,
    ) -> Option<RowLatency> {
        let percentile = |which: fn(&Distribution) -> Option<u64>| {
            self.value(|found| which(of(found)?).map(float)).map(whole)
        };
        Some(RowLatency {
            mean_ns: self.value(|found| Some(of(found)?.mean_ns))?,
            p50_ns: percentile(|service| service.p50_ns),
            p99_ns: percentile(|service| service.p99_ns),
            p99_9_ns: percentile(|service| service.p99_9_ns),
        })
    }

    /// Every kind of operation, where there are several.
    fn parts(&self) -> Vec<RowPart> {
        let part = |operation: &OperationFindings| {
            let name = operation.operation;
            Some(RowPart {
                operation: name,
                rate: self.value(|found| Some(found.operation(name)?.rate))?,
                service: self.latency(|found| Some(&found.operation(name)?.service))?,
            })
        };
        let operations = &self.first.operations;
        let some = if operations.len() < 2 { &[][..] } else { operations };
        some.iter().filter_map(part).collect()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(nanos: f64) -> u64 {
    nanos.round() as u64
}
