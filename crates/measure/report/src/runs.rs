//! Lists of runs, and the history of a result, as documents.
//!
//! Shows rows as a table, and a [`FigureHistory`] as a line over the runs with its lasting changes.

use std::collections::BTreeMap;

use durio_analyse::RunState;
use durio_analyse::history::{FigureHistory, HistoryPoint, RunFigure, RunRow};
use serde::Serialize;

use crate::Report;
use crate::document::chart::{AxisScale, AxisUnit, Chart, ChartSeries, Colour, Style};
use crate::document::{
    Cell, Column, DetailLevel, Document, Section, SectionBody, Table, Tone, both, detail, record,
    shown, words,
};
use crate::figures::{counted, deviation, mean_latency, minute, rate, seconds, sparkline};

/// The form of the JSON document.
const SCHEMA: &str = "durio-runs-1";

/// Runs, the latest first.
#[derive(Debug, Serialize)]
pub struct ShownRuns<'a> {
    schema: &'static str,
    runs: &'a [RunRow],
}

impl<'a> ShownRuns<'a> {
    /// Runs with the schema of their document.
    pub const fn new(runs: &'a [RunRow]) -> Self {
        Self { schema: SCHEMA, runs }
    }
}

impl Report for ShownRuns<'_> {
    fn document(&self) -> Document {
        let mut section = Section::default();
        if self.runs.is_empty() {
            section.note("there are no runs yet; durio check DIR makes one");
        }
        let mut times = BTreeMap::new();
        self.runs.iter().for_each(|run| *times.entry(short_name(run)).or_insert(0) += 1);
        let rows = self.runs.iter().map(|run| (run, times.get(short_name(run)) == Some(&1)));
        section.table(Table::shown(&columns(), rows.clone()));
        for it in self.runs {
            let damage = it.damage.iter();
            damage.for_each(|why| section.toned(Tone::Warning, &it.run, format!("damaged: {why}")));
        }
        let mut document = Document { sections: vec![section], ..Document::default() };
        document.records = Table::records(&columns(), rows);
        document
    }
}

/// A run, and whether no other has its short name.
type NamedRun<'r> = (&'r RunRow, bool);

fn columns<'r>() -> Vec<Column<NamedRun<'r>>> {
    vec![
        shown("run", |(run, is_unique)| match is_unique {
            true => Cell::text(short_name(run)),
            // Among several with one name, only the time is unique.
            false => Cell::text(run.run.get(..17).unwrap_or(&run.run)),
        }),
        record("run", |(run, _)| Cell::text(&run.run)),
        record("label", |(run, _)| Cell::of(run.label.as_ref(), Cell::text)),
        words(shown("started (UTC)", |(run, _)| Cell::text(minute(&run.started)))),
        record("started", |(run, _)| Cell::text(&run.started)),
        detail(words(both("host", "machine", |(run, _)| Cell::text(&run.host)))),
        words(both("command", "command", |(run, _)| Cell::text(&run.command))),
        words(shown("target", |(run, _)| Cell::of(target(run), Cell::Text))),
        detail(words(shown("all targets", |(run, _)| match target(run) {
            Some(target) if run.targets != [target.as_str()] => Cell::text(run.targets.join(", ")),
            _ => Cell::Empty,
        }))),
        record("targets", |(run, _)| Cell::text(run.targets.join(";"))),
        words(shown("found", |(run, _)| found(run))),
        record("commit_rate_per_s", |(run, _)| {
            Cell::of(run.headline.as_ref(), |headline| {
                Cell::Number(headline.durable_commits_per_second)
            })
        }),
        both("commit_p99_ns", "p99", |(run, _)| {
            let p99 = run.headline.as_ref().and_then(|headline| headline.commit_latency_ns_p99);
            Cell::of(p99, Cell::nanos)
        }),
        detail(both("size_bytes", "size", |(run, _)| Cell::Bytes(run.bytes))),
    ]
}

/// Characters of a target with which each run keeps to a line of 100 columns.
const TARGET_MAX: usize = 16;

/// The first target and how many others there are; of a long path its end, which says more.
fn target(it: &RunRow) -> Option<String> {
    let (first, more) = it.targets.split_first()?;
    let more = if more.is_empty() { String::new() } else { format!(" +{}", more.len()) };
    let (length, most) = (first.chars().count(), TARGET_MAX.saturating_sub(more.len()));
    if length <= most {
        return Some(format!("{first}{more}"));
    }
    let end: String = first.chars().skip((length + 1).saturating_sub(most)).collect();
    Some(format!("…{end}{more}"))
}

/// The label, or the end of the folder's name.
fn short_name(it: &RunRow) -> &str {
    it.label.as_deref().unwrap_or_else(|| end_of_name(&it.run))
}

/// `check-4711` of the name of a folder, which begins with the time; other commands take it too.
pub(crate) fn end_of_name(run: &str) -> &str {
    run.split_once("Z-").map_or(run, |(_, end)| end)
}

fn found(it: &RunRow) -> Cell {
    match (it.state, &it.headline) {
        (Some(RunState::Interrupted), _) => Cell::Word(Tone::Warning, "interrupted".to_owned()),
        (Some(RunState::Failed), _) => Cell::Word(Tone::Bad, "failed".to_owned()),
        (Some(RunState::Partial), _) => Cell::Word(Tone::Warning, "no end".to_owned()),
        _ if it.found.is_some() => Cell::of(it.found.as_ref(), Cell::text),
        // Its rate was offered, not found.
        _ if it.command == "watch" => Cell::text("probe"),
        (_, Some(headline)) => {
            Cell::text(format!("{} commits", rate(headline.durable_commits_per_second)))
        }
        (_, None) => {
            let first = it.figures.first();
            Cell::of(first, |result| {
                Cell::text(format!("{} {}", rate(result.rate_per_second), result.workload))
            })
        }
    }
}

// The most characters of a line.
const LINE_MAX: usize = 80;

impl Report for FigureHistory {
    fn document(&self) -> Document {
        let metric = format!("{} {}", self.metric.workload, self.metric.figure.name());
        let host = if self.host.is_empty() { "" } else { &format!(" on {}", self.host) };
        let mut document =
            Document::new("durio history", format!("{metric} at {}{host}", self.target));
        let mut section = Section::default();
        let values: Vec<f64> = self.points.iter().map(|point| point.value).collect();
        let recent = values.get(values.len().saturating_sub(LINE_MAX)..).unwrap_or(&values);
        section.say(Tone::Plain, sparkline(recent));
        if let (Some(first), Some(last)) = (self.points.first(), self.points.last()) {
            section.note(format!(
                "{}, {} to {} UTC; the latest {}",
                counted(values.len() as u64, "run"),
                minute(&first.started),
                minute(&last.started),
                in_words(self, last.value)
            ));
        }
        for it in &self.changes {
            let Some(point) = self.points.get(it.at_interval) else { continue };
            let text = format!(
                "{} to {} in the median ({}), from {} on (p = {:.0e}, Pettitt's test)",
                in_words(self, it.before_median),
                in_words(self, it.after_median),
                deviation(it.after_median / it.before_median - 1.0),
                point.run,
                it.probability
            );
            section.toned(Tone::Warning, "changed", text);
        }
        if self.changes.is_empty() {
            section.note("no lasting change (needs 5 runs before and after)");
        }
        // Records have targets as they were named.
        if !self.target.starts_with('/') {
            let text =
                "it is a relative path: runs in other directories may have measured other storage";
            section.toned(Tone::Warning, &self.target, text);
        }
        section.charts([chart(self)]);
        let points = self.points.iter().map(|point| (self, point));
        let table = Table::shown(&point_columns(), points.clone());
        section.push(DetailLevel::Detail, SectionBody::Table(table));
        document.push(section);
        document.records = Table::records(&point_columns(), points);
        document
    }
}

fn point_columns<'h>() -> Vec<Column<(&'h FigureHistory, &'h HistoryPoint)>> {
    vec![
        both("run", "run", |(_, point)| Cell::text(&point.run)),
        shown("started (UTC)", |(_, point)| Cell::text(minute(&point.started))),
        record("started", |(_, point)| Cell::text(&point.started)),
        shown("value", |(history, point)| Cell::text(in_words(history, point.value))),
        record("value", |(_, point)| Cell::Number(point.value)),
    ]
}

fn in_words(history: &FigureHistory, value: f64) -> String {
    match history.metric.figure {
        RunFigure::Rate => rate(value),
        _ => mean_latency(value),
    }
}

fn chart(history: &FigureHistory) -> Chart {
    let at = |point: &HistoryPoint| seconds(&point.started).unwrap_or(f64::NAN);
    let points = history.points.iter().map(|point| (at(point), point.value));
    let changed =
        history.changes.iter().filter_map(|change| history.points.get(change.at_interval));
    let changes = changed.map(|point| (at(point), 0.0));
    let series = vec![
        ChartSeries::new("lasting change", Colour::Ink, Style::Upright, changes),
        ChartSeries::new(history.metric.figure.name(), Colour::First, Style::Line, points),
    ];
    let y = match history.metric.figure {
        RunFigure::Rate => AxisUnit::Rate.linear(),
        _ => AxisUnit::Latency.linear(),
    };
    let series = series.into_iter().filter(|series| !series.points.is_empty()).collect();
    Chart::plot("Over time", AxisScale::Time, y, series)
}
