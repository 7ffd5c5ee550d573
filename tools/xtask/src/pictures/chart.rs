//! The chart of docs/results.md: predicted divided by real commits, from the table in
//! docs/benchmarks.md, as SVG.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

const TABLE: &str = "docs/benchmarks.md";
const CHART: &str = "docs/results.svg";

const MARK: &str = "<!-- cargo xtask bench databases -->";
const END: &str = "<!-- end -->";

/// Ratios in hundredths: the ends of the axis, its ticks, and the goal of `bench databases`.
const LEAST: usize = 60;
const GREATEST: usize = 140;
const TICKS: [usize; 5] = [60, 80, 100, 120, 140];
const GOAL: (usize, usize) = (85, 115);

/// In pixels.
const WIDTH: usize = 720;
const LEFT: usize = 160;
const TOP: usize = 30;
const ROW_HEIGHT: usize = 22;
const HUNDREDTH: usize = 6;

/// The ratio for one database and number of clients: median of its pairs, least, and greatest.
#[derive(Debug, PartialEq, Eq)]
struct RatioRow<'a> {
    name: &'a str,
    median: usize,
    least: usize,
    greatest: usize,
}

/// Writes the chart.
pub(super) fn write(root: &Path) -> Result<()> {
    let table = fs::read_to_string(root.join(TABLE)).with_context(|| format!("no {TABLE}"))?;
    let rows = rows(&table);
    ensure!(!rows.is_empty(), "{TABLE} has no ratios behind '{MARK}'");
    fs::write(root.join(CHART), svg(&rows)).with_context(|| format!("cannot write {CHART}"))
}

fn rows(document: &str) -> Vec<RatioRow<'_>> {
    let behind = document.split_once(MARK).map_or("", |(_, rest)| rest);
    let section = behind.split_once(END).map_or(behind, |(section, _)| section);
    section.lines().filter_map(row).collect()
}

/// `| name | real | predicted | 0.94 (0.87–0.95) | …`
fn row(line: &str) -> Option<RatioRow<'_>> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let name = cells.next()?.trim();
    let (median, range) = cells.nth(2)?.trim().split_once(" (")?;
    let (least, greatest) = range.strip_suffix(')')?.split_once('–')?;
    Some(RatioRow {
        name,
        median: hundredths(median)?,
        least: hundredths(least)?,
        greatest: hundredths(greatest)?,
    })
}

fn hundredths(text: &str) -> Option<usize> {
    let (whole, decimals) = text.split_once('.')?;
    let digits = format!("{whole}{decimals}");
    if decimals.len() == 2 { digits.parse().ok() } else { None }
}

fn svg(rows: &[RatioRow<'_>]) -> String {
    let bottom = TOP + rows.len() * ROW_HEIGHT;
    let height = bottom + 26;
    let (goal, goal_width) = (x(GOAL.0), x(GOAL.1) - x(GOAL.0));
    let head = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>Predicted commits per second divided by real ones</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <rect x=\"{goal}\" y=\"{TOP}\" width=\"{goal_width}\" height=\"{}\" fill=\"#dff0e2\"/>\n\
         <text x=\"{}\" y=\"18\" text-anchor=\"middle\">predicted / real commits per second, by \
         database and clients (shaded: within 15 %)</text>\n",
        bottom - TOP,
        WIDTH / 2,
    );
    let ticks = TICKS.map(|tick| tick_line(tick, bottom));
    let rows = rows.iter().enumerate().map(|(at, row)| row_line(at, row));
    [head].into_iter().chain(ticks).chain(rows).chain(["</svg>\n".to_owned()]).collect()
}

fn x(hundredths: usize) -> usize {
    LEFT + (hundredths.clamp(LEAST, GREATEST) - LEAST) * HUNDREDTH
}

fn ratio(hundredths: usize) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn tick_line(tick: usize, bottom: usize) -> String {
    let (x, label, below) = (x(tick), ratio(tick), bottom + 18);
    format!(
        "<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"#cccccc\"/>\
         <text x=\"{x}\" y=\"{below}\" text-anchor=\"middle\">{label}</text>\n"
    )
}

fn row_line(at: usize, row: &RatioRow<'_>) -> String {
    let y = TOP + at * ROW_HEIGHT + ROW_HEIGHT / 2;
    let (middle, least, greatest) = (x(row.median), x(row.least), x(row.greatest));
    let (name, label, baseline) = (row.name, ratio(row.median), y + 4);
    format!(
        "<text x=\"150\" y=\"{baseline}\" text-anchor=\"end\">{name}</text>\
         <line x1=\"{least}\" y1=\"{y}\" x2=\"{greatest}\" y2=\"{y}\" stroke=\"#1f5fa8\" \
         stroke-width=\"2\"/><circle cx=\"{middle}\" cy=\"{y}\" r=\"4\" fill=\"#1f5fa8\"/>\
         <text x=\"655\" y=\"{baseline}\">{label}</text>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo;

    #[test]
    fn rows_are_the_ratios_behind_the_mark() {
        let document = format!(
            "| other, 1 | 1 | 2 | 0.50 (0.40–0.60) | - |\n{MARK}\n\n\
             | database, clients | real | predicted | predicted / real | pairs |\n\
             |---|---|---|---|---|\n\
             | etcd, 32 |    8111 (7088 to 8271) | 6311 (6085 to 6892) | 0.79 (0.75–0.90) | 7 of 7 |\n\
             | redis, 32 | 75767 (1 to 2) | 89155 (1 to 2) |  1.20 (1.12–1.24) | 7 of 7 |\n{END}\n\
             | etcd, 1 | 1 | 2 | 0.50 (0.40–0.60) | - |\n"
        );
        let etcd = RatioRow { name: "etcd, 32", median: 79, least: 75, greatest: 90 };
        let redis = RatioRow { name: "redis, 32", median: 120, least: 112, greatest: 124 };
        assert_eq!(rows(&document), [etcd, redis]);
        assert_eq!((x(79), x(60), x(40), x(140), x(150)), (274, 160, 160, 640, 640));
        assert_eq!(
            (hundredths("1.2"), hundredths("12"), hundredths("0.05")),
            (None, None, Some(5))
        );
    }

    #[test]
    fn the_chart_in_docs_shows_the_table_in_docs() {
        let root = cargo::workspace_root();
        let table = fs::read_to_string(root.join(TABLE)).unwrap();
        let chart = fs::read_to_string(root.join(CHART)).unwrap();
        assert!(chart == svg(&rows(&table)), "cargo xtask pictures chart draws it again");
    }
}
