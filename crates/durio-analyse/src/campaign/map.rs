//! Maps: rows on two axes.

use durio_plan::{Level, SectionKind};
use serde::{Deserialize, Serialize};

use super::row::Row;

/// A cell of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapCell {
    /// Column, from the left.
    pub x: usize,
    /// Line, from below.
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
    pub x: Vec<Level>,
    /// Levels upwards, rising.
    pub y: Vec<Level>,
    /// The cells that were measured.
    pub cells: Vec<MapCell>,
}

/// The maps of the rows, one for each workload and location; none unless the section is a map.
pub(super) fn maps(kind: &SectionKind, rows: &[Row]) -> Vec<MapFindings> {
    let SectionKind::Map { x, y } = kind else { return Vec::new() };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let same = |a: &Row, b: &Row| {
        (&a.name, &a.location, &a.target, a.stream) == (&b.name, &b.location, &b.target, b.stream)
    };
    for (at, row) in rows.iter().enumerate() {
        if row.level(x).is_none() || row.level(y).is_none() {
            continue;
        }
        let first = |group: &Vec<usize>| group.first().and_then(|first| rows.get(*first));
        match groups.iter_mut().find(|it| first(it).is_some_and(|first| same(first, row))) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    let several_places =
        rows.iter().any(|it| Some(&it.location) != rows.first().map(|it| &it.location));
    groups.iter().map(|group| map(x, y, group, rows, several_places)).collect()
}

fn map(x: &str, y: &str, group: &[usize], rows: &[Row], several_places: bool) -> MapFindings {
    let found = || group.iter().filter_map(|at| Some((*at, rows.get(*at)?)));
    let levels = |axis: &str| {
        let mut levels: Vec<Level> =
            found().filter_map(|(_, row)| row.level(axis).cloned()).collect();
        levels.sort_by(|a, b| a.value.total_cmp(&b.value));
        levels.dedup();
        levels
    };
    let (across, up) = (levels(x), levels(y));
    let place =
        |levels: &[Level], level: Option<&Level>| levels.iter().position(|it| Some(it) == level);
    let cell = |(at, row): (usize, &Row)| {
        Some(MapCell { x: place(&across, row.level(x))?, y: place(&up, row.level(y))?, row: at })
    };
    let name = found().next().map_or_else(String::new, |(_, row)| match several_places {
        true => format!("{} at {}", row.name, row.location),
        false => row.name.clone(),
    });
    MapFindings { name, cells: found().filter_map(cell).collect(), x: across, y: up }
}
