//! The curves of a ladder, rows that differ only in the level of its axis; maps, rows on two axes;
//! and what limited a row, by its neighbours on the curve and by its own evidence.

use durio_base::stats::least_squares::float;
use durio_plan::{EngineKind, ParameterValue, SectionKind};
use durio_record::OperationName;
use durio_workload::CacheMode;
use serde::{Deserialize, Serialize};

use super::CampaignInput;
use super::row::{CampaignRow, RowGroup, RowPart};
use crate::cost_model::{self, CostModel, SizeCost};
use crate::ladder::limits::{ComparedStep, StepEvidence, limit_of};
use crate::ladder::{self, LadderFindings, LadderKind, LadderPhase, LadderPoint, RateAndLatency};
use crate::{DeclinedAnalysis, SelfCost, WorkloadFindings, grouped};

/// Rows of a section along one axis, in the order of their levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What its rows have in common, and other curves of the section have not.
    pub name: String,
    pub axis: String,
    /// Positions of its rows in the section.
    pub rows: Vec<usize>,
    /// Phases, knee and best points, if load is varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<LadderFindings>,
    /// Cost per operation and per byte, if the size is varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostModel>,
    /// Why both are missing; `None` for an axis that asks for neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<DeclinedAnalysis>,
    /// Lowest level whose offered rate was not reached: the curve ends there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_reached_from: Option<ParameterValue>,
}

/// The kind of ladder that an axis raises, if it is load.
fn load_of(axis: &str) -> Option<LadderKind> {
    match axis {
        "jobs" => Some(LadderKind::Jobs),
        "depth" => Some(LadderKind::Depth),
        "rate" => Some(LadderKind::OfferedRate),
        _ => None,
    }
}

/// The axis on which one operation becomes larger.
const SIZE_AXIS: &str = "block_size";

/// The curves of the rows; empty unless the section is a ladder.
pub(super) fn curves(kind: &SectionKind, rows: &[CampaignRow]) -> Vec<Curve> {
    let SectionKind::Ladder { axis } = kind else { return Vec::new() };
    let steps = rows.iter().enumerate();
    let steps =
        steps.filter(|(_, row)| row.stream == 0 && row.complete && row.level(axis).is_some());
    let groups = grouped(steps, |a, b| on_one(a.1, b.1, axis));
    groups.into_iter().map(|group| curve(axis, group, has_several_places(rows))).collect()
}

/// Whether a name must say where its rows were measured.
fn has_several_places(rows: &[CampaignRow]) -> bool {
    rows.iter().any(|row| Some(&row.location) != rows.first().map(|first| &first.location))
}

fn others<'a>(row: &'a CampaignRow, axis: &'a str) -> impl Iterator<Item = &'a ParameterValue> {
    row.levels.iter().filter(move |level| level.axis != axis)
}

fn on_one(a: &CampaignRow, b: &CampaignRow, axis: &str) -> bool {
    a.name == b.name
        && (&a.location, &a.target) == (&b.location, &b.target)
        && a.engine == b.engine
        && others(a, axis).eq(others(b, axis))
}

fn curve(axis: &str, mut group: Vec<(usize, &CampaignRow)>, several_places: bool) -> Curve {
    let value = |row: &CampaignRow| row.level(axis).map_or(0.0, |level| level.value);
    group.sort_by(|a, b| value(a.1).total_cmp(&value(b.1)));
    let (positions, found): (Vec<usize>, Vec<&CampaignRow>) = group.into_iter().unzip();
    let ladder = load_of(axis).map(|kind| ladder_of(&found, axis, kind));
    let (ladder, no_ladder) = ladder.map_or((None, None), DeclinedAnalysis::split);
    // With several in flight the time of one contains waiting for the others.
    let one_at_a_time = found.iter().all(|row| row.in_flight_offered <= 1.0);
    let is_size = axis == SIZE_AXIS && one_at_a_time;
    let cost = is_size.then(|| cost_of(&found, axis));
    let (cost, no_cost) = cost.map_or((None, None), DeclinedAnalysis::split);
    // A late loop offers only what the storage takes: the point lies on no curve of offered rates.
    let late = found.iter().find(|row| row.open_loop.is_some_and(|open| !open.keeps_up));
    Curve {
        name: found.first().map_or_else(String::new, |row| name(row, axis, several_places)),
        axis: axis.to_owned(),
        declined: no_ladder.or(no_cost),
        ladder,
        cost,
        not_reached_from: late.and_then(|row| row.level(axis)).cloned(),
        rows: positions,
    }
}

fn name(row: &CampaignRow, axis: &str, several_places: bool) -> String {
    let further = others(row, axis).map(|level| format!(", {} {}", level.axis, level.label));
    let name = row.name.clone() + &further.collect::<String>();
    if several_places { format!("{name} at {}", row.location) } else { name }
}

fn ladder_of(
    rows: &[&CampaignRow],
    axis: &str,
    kind: LadderKind,
) -> Result<LadderFindings, DeclinedAnalysis> {
    let points: Vec<LadderPoint> = rows.iter().filter_map(|row| point(row, axis, kind)).collect();
    ladder::analyse(&points, kind)
}

/// A row as a point; `None` without a single operation.
fn point(row: &CampaignRow, axis: &str, kind: LadderKind) -> Option<LadderPoint> {
    let level = row.level(axis)?.value;
    let in_flight = match kind {
        LadderKind::Jobs | LadderKind::Depth => row.in_flight_offered,
        // An open loop has no depth: the measured number in flight counts.
        LadderKind::OfferedRate => row.in_flight_mean,
    };
    let service = row.service?;
    let part =
        |name: OperationName| row.parts.iter().find(|part| part.operation == name).map(as_part);
    // A commit waits for its write and its sync: its latency is that of the workload.
    let is_mix = row.headline != OperationName::Commit;
    let point = match (part(OperationName::Read), part(OperationName::Write)) {
        (Some(read), Some(write)) if is_mix => LadderPoint::of_mix(level, in_flight, read, write),
        _ => {
            let only =
                RateAndLatency { rate_per_second: row.rate, latency_ns_mean: service.mean_ns };
            LadderPoint::of_means(level, in_flight, only)
        }
    };
    let (p50, p99) = (service.p50_ns.map(float), service.p99_ns.map(float));
    Some(LadderPoint { latency_ns_p50: p50, latency_ns_p99: p99, ..point })
}

fn as_part(part: &RowPart) -> RateAndLatency {
    RateAndLatency { rate_per_second: part.rate, latency_ns_mean: part.service.mean_ns }
}

fn cost_of(rows: &[&CampaignRow], axis: &str) -> Result<CostModel, DeclinedAnalysis> {
    let size = |row: &&CampaignRow| {
        let (level, service) = (row.level(axis)?, row.service?);
        Some(SizeCost { size_bytes: level.value, latency_ns: service.mean_ns })
    };
    cost_model::describe(&rows.iter().filter_map(size).collect::<Vec<_>>())
}

/// Puts the phase of each level into its row.
pub(super) fn set_phases(rows: &mut [CampaignRow], curves: &[Curve]) {
    for curve in curves {
        let Some(ladder) = &curve.ladder else { continue };
        for at in &curve.rows {
            let Some(row) = rows.get_mut(*at) else { continue };
            row.phase = row
                .level(&curve.axis)
                .map(|level| -> LadderPhase { ladder.phases.of(level.value) });
        }
    }
}

/// A cell of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapCell {
    /// Column, from the left.
    pub x: usize,
    /// Line, counted from below.
    pub y: usize,
    /// Position of its row in the section.
    pub row: usize,
}

/// Rows of a section on two axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapFindings {
    /// What its rows have in common.
    pub name: String,
    /// Levels to the right, rising.
    pub x: Vec<ParameterValue>,
    /// Levels upwards, from the lowest.
    pub y: Vec<ParameterValue>,
    /// The cells that were measured.
    pub cells: Vec<MapCell>,
}

/// The maps of the rows, one for each workload and location; empty unless the section is a map.
pub(super) fn maps(kind: &SectionKind, rows: &[CampaignRow]) -> Vec<MapFindings> {
    let SectionKind::Map { x, y } = kind else { return Vec::new() };
    let same = |a: &CampaignRow, b: &CampaignRow| {
        (&a.name, &a.location, &a.target, a.stream) == (&b.name, &b.location, &b.target, b.stream)
    };
    let cells = rows.iter().enumerate();
    let cells = cells.filter(|(_, row)| row.level(x).is_some() && row.level(y).is_some());
    let groups = grouped(cells, |a, b| same(a.1, b.1));
    groups.iter().map(|group| map(x, y, group, has_several_places(rows))).collect()
}

fn map(x: &str, y: &str, group: &[(usize, &CampaignRow)], several_places: bool) -> MapFindings {
    let levels = |axis: &str| {
        let found = group.iter().filter_map(|(_, row)| row.level(axis).cloned());
        let mut levels: Vec<ParameterValue> = found.collect();
        levels.sort_by(|a, b| a.value.total_cmp(&b.value));
        levels.dedup();
        levels
    };
    let (across, up) = (levels(x), levels(y));
    let place = |levels: &[ParameterValue], level: Option<&ParameterValue>| {
        levels.iter().position(|other| Some(other) == level)
    };
    let cell = |(at, row): &(usize, &CampaignRow)| {
        Some(MapCell { x: place(&across, row.level(x))?, y: place(&up, row.level(y))?, row: *at })
    };
    let name = group.first().map_or_else(String::new, |(_, row)| match several_places {
        true => format!("{} at {}", row.name, row.location),
        false => row.name.clone(),
    });
    MapFindings { name, cells: group.iter().filter_map(cell).collect(), x: across, y: up }
}

/// Sets the limit of each row that ran alone: concurrent loads limit each other.
pub(super) fn set_limits(
    measured: &CampaignInput<'_>,
    rows: &mut [CampaignRow],
    groups: &[RowGroup<'_>],
    curves: &[Curve],
) {
    let mut lower = vec![(None, None); rows.len()];
    for curve in curves {
        let steps: Vec<_> = curve.rows.iter().map(|at| rows.get(*at).and_then(compared)).collect();
        let before = std::iter::once(None).chain(steps.iter().copied());
        for (at, before) in curve.rows.iter().zip(before) {
            // A level alone has nothing to be compared with but itself.
            // Rows stand by rising load: the first is the nearest to an idle storage that there is.
            let unloaded = steps.first().copied().flatten().filter(|_| steps.len() > 1);
            if let Some(place) = lower.get_mut(*at) {
                *place = (before, unloaded);
            }
        }
    }
    for ((row, group), (lower, unloaded)) in rows.iter_mut().zip(groups).zip(lower) {
        let step = measured.plan.steps.get(row.step as usize);
        if step.is_none_or(|step| step.beside.is_empty()) {
            let known = of_workload(&group.middle(), measured);
            let mut known = with_neighbours(row, known, lower, unloaded);
            // The number of random arrivals differed a little from the offer: the started ones
            // count.
            if let Some(open) = group.middle().open_loop.filter(|open| open.keeps_up()) {
                known.rate_per_second = Some(open.offered_per_second * open.started_share);
            }
            row.limit = Some(limit_of(&known));
        }
    }
}

/// Operations at once that a row's load stands for: of an open loop, those that there were.
fn in_flight(row: &CampaignRow) -> f64 {
    if row.open_loop.is_some() { row.in_flight_mean } else { row.in_flight_offered }
}

fn compared(row: &CampaignRow) -> Option<ComparedStep> {
    Some(ComparedStep {
        in_flight: in_flight(row),
        rate_per_second: row.rate,
        latency_ns_mean: row.service?.mean_ns,
    })
}

fn with_neighbours(
    row: &CampaignRow,
    known: StepEvidence,
    lower: Option<ComparedStep>,
    unloaded: Option<ComparedStep>,
) -> StepEvidence {
    StepEvidence {
        jobs: Some(row.jobs),
        in_flight_offered: Some(in_flight(row)),
        in_flight_mean: Some(row.in_flight_mean),
        rate_per_second: Some(row.rate),
        latency_ns_mean: row.service.map(|service| service.mean_ns),
        offered_rate_per_second: row.open_loop.map(|open| open.offered_per_second),
        // An open loop has no depth that could be too small.
        unloaded: unloaded.filter(|_| row.open_loop.is_none()),
        lower,
        bytes_per_second: Some(row.bandwidth),
        ..known
    }
}

/// Evidence from the machine and the device; virtual time gives none.
fn of_workload(workload: &WorkloadFindings, measured: &CampaignInput<'_>) -> StepEvidence {
    if workload.effective.engine == EngineKind::Null {
        return StepEvidence::default();
    }
    StepEvidence {
        device_busy_share: busy_share(workload),
        job_cpu_shares: workload.cpu.job_shares.clone(),
        machine_system_share: workload.cpu.machine_system_share,
        generator_ns_per_operation: own_cost(workload, measured.self_cost),
        memory_bytes_per_second: memory(workload, measured),
        ..StepEvidence::default()
    }
}

/// Bytes of I/O per second that the memory would take.
// A buffered byte is copied once; a direct byte only crosses the memory, which moves twice the
// bytes that it copies.
fn memory(workload: &WorkloadFindings, measured: &CampaignInput<'_>) -> Option<f64> {
    let copied = float(measured.memory_copied?.copied_per_second.get());
    Some(match workload.effective.cache {
        CacheMode::Buffered => copied,
        CacheMode::Direct => 2.0 * copied,
    })
}

/// That of the busiest device; its counters cover the whole step.
fn busy_share(workload: &WorkloadFindings) -> Option<f64> {
    let counting = workload.devices.iter().filter(|device| !device.not_counted);
    // Time with a request in flight (Documentation/block/stat.rst): a device that works on several
    // at once is not full when it is busy all the time.
    let busiest = counting.map(|device| device.io_ms).max()?;
    let share = float(busiest) / 1000.0 / workload.counted_seconds();
    share.is_finite().then_some(share.min(1.0))
}

/// durio's cost with the same engine, at the nearest depth.
fn own_cost(workload: &WorkloadFindings, self_cost: &[SelfCost]) -> Option<f64> {
    let same = self_cost.iter().filter(|cost| cost.engine == workload.effective.engine);
    // Operations in flight share calls: cost per operation falls with the depth, so it is not a
    // constant of the engine.
    let nearest = same.min_by_key(|cost| cost.depth.abs_diff(workload.effective.depth))?;
    Some(nearest.per_operation_ns)
}
