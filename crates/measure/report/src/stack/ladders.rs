//! The levels of a ladder side by side: rate against jobs, depth or committers, layer by layer.
//!
//! Makes a table and charts for each ladder from findings. Each level is a separate workload with
//! its own details.

use durio_analyse::attribution::{PointKind, RowFigures, StackFindings, StepKey, WorkloadRows};

use super::row_name;
use crate::document::chart::{AxisUnit, Chart, ChartSeries, Colour};
use crate::document::{Cell, Table};
use crate::figures::grouped;

// Fewer levels do not make a curve.
const CHART_LEVELS_MIN: usize = 3;
// Further stacks are in the table.
const CHARTS_MAX: usize = 12;

/// Said under the table of a ladder.
pub(super) const LADDER_NOTE: &str = "per s: commits per second where there are any, else accesses. \
     of raw: rate as a share of that of the raw storage at the same level.";

/// A workload at several levels of one axis.
#[derive(Debug)]
pub(super) struct WorkloadLadder<'f> {
    /// What varies: `jobs`.
    axis: &'f str,
    name: &'f str,
    /// Each level with its workload, the lowest level first.
    levels: Vec<(f64, &'f WorkloadRows)>,
}

/// Every ladder, in the order in which they were measured.
pub(super) fn ladders(findings: &StackFindings) -> Vec<WorkloadLadder<'_>> {
    let levels = findings.workloads.iter().filter_map(|workload| {
        let key = &workload.key;
        let (axis, level) = level_of(key)?;
        Some(((axis, key.workload.as_str(), key.section.as_deref(), key.stream), (level, workload)))
    });
    let mut ladders = Vec::new();
    for ((axis, workload, section, stream), mut levels) in grouped(levels) {
        // A bench runs its steps in the order of the spec, which may fall or jump.
        levels.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        // Loads of `beside` have separate names in the section.
        let name = section.filter(|_| stream == 0).unwrap_or(workload);
        ladders.push(WorkloadLadder { axis, name, levels });
    }
    ladders.retain(|ladder| ladder.levels.len() > 1);
    ladders
}

/// The one level of a workload that is a plain number: `jobs 96`.
fn level_of(key: &StepKey) -> Option<(&str, f64)> {
    let [words] = key.levels.as_slice() else { return None };
    let (axis, number) = words.rsplit_once(' ')?;
    Some((axis, number.parse().ok().filter(|value: &f64| value.is_finite())?))
}

impl WorkloadLadder<'_> {
    /// True for one of its levels but the highest.
    pub(super) fn is_below_its_top(&self, workload: &WorkloadRows) -> bool {
        let below = self.levels.iter().rev().skip(1);
        below.into_iter().any(|(_, lower)| std::ptr::eq(*lower, workload))
    }

    pub(super) fn title(&self) -> String {
        format!("{}: rate by {}", self.name, self.axis)
    }

    /// Rates of all points, and the share of raw storage that those above it keep.
    pub(super) fn table(&self, findings: &StackFindings) -> Table {
        let levels = self.levels.iter().map(|(level, _)| level.to_string());
        let mut table = Table::new(std::iter::once(format!("per s, {}", self.axis)).chain(levels));
        for (at, point) in findings.points.iter().enumerate() {
            let mut row = |name: String, cell: &dyn Fn(&RowFigures) -> Cell| {
                let cells = self.figures(at).map(|figures| Cell::or_absent(figures, cell));
                table.row(std::iter::once(Cell::Text(name)).chain(cells));
            };
            row(row_name(findings, at), &|figures| Cell::Rate(figures.rate_per_second));
            if point.kind != PointKind::Raw {
                let share =
                    |figures: &RowFigures| Cell::or_absent(figures.share_of_raw, Cell::Share);
                row("of raw".to_owned(), &share);
            }
        }
        table
    }

    fn figures(&self, point: usize) -> impl Iterator<Item = Option<&RowFigures>> {
        self.levels.iter().map(move |(_, workload)| {
            workload.rows.iter().find(|row| row.point == point)?.figures.as_ref()
        })
    }

    /// One chart of all points, or where they are too many for that one of each stack.
    pub(super) fn pictures(&self, findings: &StackFindings) -> Vec<Chart> {
        if self.levels.len() < CHART_LEVELS_MIN {
            return Vec::new();
        }
        let all: Vec<usize> = (0..findings.points.len()).collect();
        // More lines than colours cannot be distinguished: then each stack has a chart.
        if all.len() <= Colour::SERIES.len() {
            return vec![self.picture(findings, &all, &self.title())];
        }
        let same = |a: &usize, b: &usize| findings.points[*a].stack == findings.points[*b].stack;
        let of_stack = |points: &[usize]| {
            let stack = points.first().map_or("", |at| findings.points[*at].stack.as_str());
            self.picture(findings, points, &format!("{stack}: {}", self.title()))
        };
        all.chunk_by(same).take(CHARTS_MAX).map(of_stack).collect()
    }

    /// The lowest of the points and those above it, as far as there are colours.
    fn picture(&self, findings: &StackFindings, points: &[usize], title: &str) -> Chart {
        let series = points.iter().zip(Colour::SERIES).flat_map(|(at, colour)| {
            let rates = self.levels.iter().map(|(level, _)| *level).zip(self.figures(*at));
            let points =
                rates.filter_map(|(level, figures)| Some((level, figures?.rate_per_second)));
            ChartSeries::measured(row_name(findings, *at), colour, points.collect(), Vec::new())
        });
        let (x, y) = (AxisUnit::Number.logarithmic(), AxisUnit::Rate.logarithmic());
        Chart::plot(format!("{title} (per second, both logarithmic)"), x, y, series.collect())
    }
}
