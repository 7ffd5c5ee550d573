//! The intervals of a run's workloads, a row each: its results over time, for other programs.

use durio_analyse::{Findings, IntervalPoint, WorkloadFindings};
use serde::Serialize;

use super::figures::workload_title;
use crate::Report;
use crate::document::{Cell, Column, Document, Section, Table, both, record, shown, words};

/// The intervals of a run, as `durio report --intervals` shows them. The JSON is that of the whole
/// run, which has them.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ShownIntervals<'f>(pub &'f Findings);

struct IntervalLine<'f> {
    findings: &'f Findings,
    workload: &'f WorkloadFindings,
    point: &'f IntervalPoint,
}

fn columns<'f>() -> Vec<Column<IntervalLine<'f>>> {
    vec![
        shown("workload", |line| Cell::text(workload_title(line.findings, line.workload))),
        record("run", |line| Cell::text(&line.findings.run.run)),
        record("location", |line| Cell::text(&line.workload.location)),
        record("step", |line| Cell::Count(line.workload.step.into())),
        record("workload", |line| Cell::text(&line.workload.name)),
        record("operation", |line| Cell::text(line.workload.headline.name())),
        record("round", |line| Cell::Count(line.workload.round.into())),
        record("repeat", |line| Cell::Count(line.workload.repeat.into())),
        record("stream", |line| Cell::Count(line.workload.stream.into())),
        words(both("phase", "phase", |line| Cell::saved(&line.point.phase))),
        both("from_ns", "from", |line| Cell::nanos(line.point.from.get())),
        both("to_ns", "to", |line| Cell::nanos(line.point.to.get())),
        both("rate_per_s", "per second", |line| Cell::Rate(line.point.rate)),
        both("p50_ns", "p50", |line| Cell::of(line.point.p50_ns, Cell::nanos)),
        both("p99_ns", "p99", |line| Cell::of(line.point.p99_ns, Cell::nanos)),
        both("max_ns", "max", |line| Cell::of(line.point.max_ns, Cell::nanos)),
        record("cut_short", |line| Cell::text(line.point.cut_short.to_string())),
    ]
}

impl Report for ShownIntervals<'_> {
    fn document(&self) -> Document {
        let findings = self.0;
        let lines = findings.workloads.iter().flat_map(|workload| {
            let points = workload.intervals.iter();
            points.map(move |point| IntervalLine { findings, workload, point })
        });
        let lines: Vec<IntervalLine<'_>> = lines.collect();
        let title = format!("intervals of {}", findings.run.run);
        let mut document = Document::new("durio report", title);
        let mut section = Section::default();
        match lines.is_empty() {
            true => section.warn("the run recorded no intervals"),
            false => section.table(Table::shown(&columns(), &lines)),
        }
        document.push(section);
        document.records = Table::records(&columns(), &lines);
        document
    }
}
