//! The curves of a ladder: rows that differ only in the level of its axis.

use durio_plan::{Level, SectionKind};
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use super::row::{Row, RowPart};
use crate::Declined;
use crate::cost_model::{self, CostModel, SizeCost};
use crate::ladder::{self, LadderFindings, LadderKind, Part, Phase, Point};

/// Rows of a section along one axis, in the order of their levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What its rows have in common, and other curves of the section have not.
    pub name: String,
    /// What is varied.
    pub axis: String,
    /// Positions of its rows in the section.
    pub rows: Vec<usize>,
    /// Phases, knee and best points, if load is what is varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<LadderFindings>,
    /// Cost per operation and per byte, if the size is what is varied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostModel>,
    /// Why there is neither; none for an axis of which neither is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<Declined>,
    /// The lowest level at which an offered rate was not reached: from there on the points are none
    /// of a curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_reached_from: Option<Level>,
}

/// What an axis raises, if it is load.
fn load_of(axis: &str) -> Option<LadderKind> {
    match axis {
        "jobs" => Some(LadderKind::Jobs),
        "depth" => Some(LadderKind::Depth),
        "rate" => Some(LadderKind::OfferedRate),
        _ => None,
    }
}

/// Axes on which one operation becomes larger.
const SIZE_AXES: [&str; 1] = ["block_size"];

/// The curves of the rows; none unless the section is a ladder.
pub(super) fn curves(kind: &SectionKind, rows: &[Row]) -> Vec<Curve> {
    let SectionKind::Ladder { axis } = kind else { return Vec::new() };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if row.stream > 0 || !row.complete || row.level(axis).is_none() {
            continue;
        }
        let first = |group: &Vec<usize>| group.first().and_then(|first| rows.get(*first));
        match groups.iter_mut().find(|it| first(it).is_some_and(|first| on_one(first, row, axis))) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    let several_places =
        rows.iter().any(|it| Some(&it.location) != rows.first().map(|it| &it.location));
    groups.into_iter().map(|group| curve(axis, group, rows, several_places)).collect()
}

fn others<'a>(row: &'a Row, axis: &'a str) -> impl Iterator<Item = &'a Level> {
    row.levels.iter().filter(move |level| level.axis != axis)
}

fn on_one(a: &Row, b: &Row, axis: &str) -> bool {
    a.name == b.name
        && (&a.location, &a.target) == (&b.location, &b.target)
        && a.engine == b.engine
        && others(a, axis).eq(others(b, axis))
}

fn curve(axis: &str, mut group: Vec<usize>, rows: &[Row], several_places: bool) -> Curve {
    let level = |at: &usize| rows.get(*at).and_then(|row| row.level(axis));
    let value = |at: &usize| level(at).map_or(0.0, |level| level.value);
    group.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let found: Vec<&Row> = group.iter().filter_map(|at| rows.get(*at)).collect();
    let ladder = load_of(axis).map(|kind| ladder_of(&found, axis, kind));
    // With several in flight the time of one contains waiting for the others.
    let one_at_a_time = found.iter().all(|row| row.in_flight_offered <= 1.0);
    let is_size = SIZE_AXES.contains(&axis) && one_at_a_time;
    let cost = is_size.then(|| cost_of(&found, axis));
    let of_ladder = ladder.as_ref().and_then(|it| it.as_ref().err());
    let of_cost = cost.as_ref().and_then(|it| it.as_ref().err());
    let late = found.iter().find(|row| row.open_loop.is_some_and(|open| !open.keeps_up));
    Curve {
        name: found.first().map_or_else(String::new, |row| name(row, axis, several_places)),
        axis: axis.to_owned(),
        declined: of_ladder.or(of_cost).cloned(),
        ladder: ladder.and_then(Result::ok),
        cost: cost.and_then(Result::ok),
        not_reached_from: late.and_then(|row| row.level(axis)).cloned(),
        rows: group,
    }
}

fn name(row: &Row, axis: &str, several_places: bool) -> String {
    let mut parts = vec![row.name.clone()];
    parts.extend(others(row, axis).map(|level| format!("{} {}", level.axis, level.label)));
    let name = parts.join(", ");
    if several_places { format!("{name} at {}", row.location) } else { name }
}

fn ladder_of(rows: &[&Row], axis: &str, kind: LadderKind) -> Result<LadderFindings, Declined> {
    let points: Vec<Point> = rows.iter().filter_map(|row| point(row, axis, kind)).collect();
    ladder::analyse(&points, kind)
}

/// A row as a point; none without a single operation.
fn point(row: &Row, axis: &str, kind: LadderKind) -> Option<Point> {
    let level = row.level(axis)?.value;
    let in_flight = match kind {
        LadderKind::Jobs | LadderKind::Depth => row.in_flight_offered,
        LadderKind::OfferedRate => row.in_flight_mean,
    };
    let service = row.service?;
    let part = |name: OperationName| row.parts.iter().find(|it| it.operation == name).map(as_part);
    // A commit waits for its write and its sync: its own latency is that of the workload.
    let is_mix = row.headline != OperationName::Commit;
    let point = match (part(OperationName::Read), part(OperationName::Write)) {
        (Some(read), Some(write)) if is_mix => Point::of_mix(level, in_flight, read, write),
        _ => {
            let only = Part { rate_per_second: row.rate, latency_ns_mean: service.mean_ns };
            Point::of_means(level, in_flight, only)
        }
    };
    let exact = |nanos: Option<u64>| nanos.map(super::row::precise);
    Some(Point {
        latency_ns_p50: exact(service.p50_ns),
        latency_ns_p99: exact(service.p99_ns),
        ..point
    })
}

fn as_part(part: &RowPart) -> Part {
    Part { rate_per_second: part.rate, latency_ns_mean: part.service.mean_ns }
}

fn cost_of(rows: &[&Row], axis: &str) -> Result<CostModel, Declined> {
    let size = |row: &&Row| {
        let (level, service) = (row.level(axis)?, row.service?);
        Some(SizeCost { size_bytes: level.value, latency_ns: service.mean_ns })
    };
    cost_model::describe(&rows.iter().filter_map(size).collect::<Vec<_>>())
}

/// Puts the phase of each level into its row.
pub(super) fn set_phases(rows: &mut [Row], curves: &[Curve]) {
    for curve in curves {
        let Some(ladder) = &curve.ladder else { continue };
        for at in &curve.rows {
            let Some(row) = rows.get_mut(*at) else { continue };
            row.phase =
                row.level(&curve.axis).map(|level| -> Phase { ladder.phases.of(level.value) });
        }
    }
}
