//! The curves of a ladder, rows that differ only in the level of its axis; and maps, rows on two
//! axes.

use durio_base::stats::least_squares::float;
use durio_plan::{ParameterValue, SectionKind};
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use super::row::{CampaignRow, RowPart};
use crate::DeclinedAnalysis;
use crate::cost_model::{self, CostModel, SizeCost};
use crate::grouping::grouped;
use crate::ladder::{self, LadderFindings, LadderKind, LadderPhase, LadderPoint, RateAndLatency};

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
