//! Tables and pictures of the page.
//!
//! In: findings. Out: what the template repeats over. Not here: the drawing of a chart.

use std::io;

use durio_analyse::{Findings, WorkloadFindings};
use durio_record::OperationName;

use super::ValuesByName;
use super::charts::{Bar, BarGroup, Chart, Colour, bars, distribution, over_time};
use crate::figures::{counted, latency, rate};
use crate::rows::{
    Row, has_absent, headline_rate, locations, operation_label, rows, workload_names,
};

/// Points of all time series together; keeps the page well below 1 MiB.
const POINTS_ALL: usize = 6000;

/// More points of one time series than the chart has columns.
const POINTS_MAX: usize = 600;

/// Where a distribution is compared in bars.
const QUANTILES: [&str; 3] = ["p50", "p99", "p99.9"];

/// The colours of locations, in order.
const PLACE_COLOURS: [Colour; 4] = [Colour::First, Colour::Second, Colour::Third, Colour::Fourth];

/// The figures of one location.
#[derive(Debug)]
pub(super) struct PlaceTable {
    pub(super) place: String,
    pub(super) rows: Vec<Row>,
}

impl PlaceTable {
    pub(super) fn has_absent(&self) -> bool {
        has_absent(&self.rows)
    }
}

/// A drawing with its legend.
#[derive(Debug)]
pub(super) struct Picture {
    /// Its name in the page; empty where the script has nothing to do.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) legend: Vec<(String, &'static str)>,
    pub(super) svg: String,
}

/// One workload's pictures and what it is.
#[derive(Debug)]
pub(super) struct WorkloadCharts<'a> {
    pub(super) workload: &'a WorkloadFindings,
    pub(super) evenness: Option<String>,
    pub(super) pictures: Vec<Picture>,
}

pub(super) fn tables(findings: &Findings) -> Vec<PlaceTable> {
    let at = |place: &str| {
        let here = findings.workloads.iter().filter(|it| it.location == place);
        PlaceTable { place: place.to_owned(), rows: here.flat_map(rows).collect() }
    };
    locations(findings).into_iter().map(at).collect()
}

/// Distribution and time series of each workload; their values go into `values`.
pub(super) fn workload_charts<'a>(
    findings: &'a Findings,
    values: &mut ValuesByName,
) -> io::Result<Vec<WorkloadCharts<'a>>> {
    let count = findings.workloads.len().max(1);
    let points_max = (POINTS_ALL / count).clamp(12, POINTS_MAX);
    let mut all = Vec::with_capacity(count);
    for (index, workload) in findings.workloads.iter().enumerate() {
        let mut pictures = Vec::new();
        if let Some(chart) = distribution(workload)? {
            let title = "Latency over percentiles (both logarithmic)";
            pictures.push(hoverable(format!("distribution-{index}"), title, chart, values));
        }
        if let Some(chart) = over_time(workload, points_max, &[])? {
            let title = time_title(workload.intervals.len(), points_max);
            pictures.push(hoverable(format!("time-{index}"), &title, chart, values));
        }
        all.push(WorkloadCharts { workload, evenness: evenness(workload), pictures });
    }
    Ok(all)
}

fn time_title(intervals: usize, points_max: usize) -> String {
    match intervals > points_max {
        true => format!("Rate and latency over time (the extremes of {intervals} intervals)"),
        false => "Rate and latency over time".to_owned(),
    }
}

/// The stalls in words: nobody has to tell colours apart.
fn evenness(workload: &WorkloadFindings) -> Option<String> {
    let it = workload.evenness?;
    let of = counted(it.intervals, "interval");
    Some(match (it.intervals_empty, it.intervals_under_half) {
        (0, 0) => format!("No stall in {of}."),
        (empty, half) => format!(
            "Of {of}, {empty} without any completion and {half} under half of the average rate."
        ),
    })
}

/// Bars of write, sync and both, of each durable workload that has them apart.
pub(super) fn write_and_sync(findings: &Findings) -> io::Result<Vec<Picture>> {
    let has_both = |it: &&WorkloadFindings| {
        it.operation(OperationName::Sync).is_some() && it.operation(OperationName::Write).is_some()
    };
    let several = locations(findings).len() > 1;
    let pictures = findings.workloads.iter().filter(has_both).map(|workload| {
        let place = if several { format!(" at {}", workload.location) } else { String::new() };
        Ok(printed(format!("{}{place}", workload.name), parts_of_commit(workload)?))
    });
    pictures.collect()
}

fn parts_of_commit(workload: &WorkloadFindings) -> io::Result<Chart> {
    let names = [OperationName::Write, OperationName::Sync, OperationName::Commit];
    let colours = [Colour::Second, Colour::Third, Colour::First];
    let parts = names
        .into_iter()
        .zip(colours)
        .filter_map(|(name, colour)| workload.operation(name).map(|operation| (operation, colour)));
    let parts: Vec<_> = parts.collect();
    let group = |(index, name): (usize, &&str)| {
        let bars = parts.iter().filter_map(|(operation, colour)| {
            let service = &operation.service;
            let nanos = [service.p50_ns, service.p99_ns, service.p99_9_ns][index]?;
            Some(Bar { value: precise(nanos), text: latency(nanos), colour: *colour })
        });
        BarGroup { name: (*name).to_owned(), bars: bars.collect() }
    };
    let groups: Vec<_> = QUANTILES.iter().enumerate().map(group).collect();
    let groups: Vec<_> = groups.into_iter().filter(|it| !it.bars.is_empty()).collect();
    let legend =
        parts.iter().map(|(it, colour)| (operation_label(workload, it.operation), *colour));
    bars(&groups, legend.collect())
}

/// Rate and p99 of every workload, location beside location; nothing with one location.
pub(super) fn side_by_side(findings: &Findings) -> io::Result<Vec<Picture>> {
    if locations(findings).len() < 2 {
        return Ok(Vec::new());
    }
    let by_rate = compared(findings, |it| Some((headline_rate(it), rate(headline_rate(it)))))?;
    let by_p99 = compared(findings, |it| {
        let nanos = it.operation(it.headline)?.service.p99_ns?;
        Some((precise(nanos), latency(nanos)))
    })?;
    let rates = printed("Operations per second: longer is better".to_owned(), by_rate);
    Ok(vec![rates, printed("p99 of the headline operation: shorter is better".to_owned(), by_p99)])
}

fn compared(
    findings: &Findings,
    figure: impl Fn(&WorkloadFindings) -> Option<(f64, String)>,
) -> io::Result<Chart> {
    let places: Vec<_> =
        locations(findings).into_iter().zip(PLACE_COLOURS.into_iter().cycle()).collect();
    let group = |name: &str| {
        let bars = places.iter().filter_map(|(place, colour)| {
            let is_it = |it: &&WorkloadFindings| it.name == name && it.location == *place;
            let (value, text) = figure(findings.workloads.iter().find(is_it)?)?;
            Some(Bar { value, text, colour: *colour })
        });
        BarGroup { name: name.to_owned(), bars: bars.collect() }
    };
    let groups: Vec<_> = workload_names(findings).into_iter().map(group).collect();
    bars(&groups, places.iter().map(|(place, colour)| ((*place).to_owned(), *colour)).collect())
}

pub(super) fn hoverable(
    id: String,
    title: &str,
    chart: Chart,
    values: &mut ValuesByName,
) -> Picture {
    let Chart { svg, legend, values: own } = chart;
    values.extend(own.map(|own| (id.clone(), own)));
    Picture { id, title: title.to_owned(), legend: classes(legend), svg }
}

pub(super) fn printed(title: String, chart: Chart) -> Picture {
    Picture { id: String::new(), title, legend: classes(chart.legend), svg: chart.svg }
}

fn classes(legend: Vec<(String, Colour)>) -> Vec<(String, &'static str)> {
    legend.into_iter().map(|(name, colour)| (name, colour.class())).collect()
}

#[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
fn precise(nanos: u64) -> f64 {
    nanos as f64
}
