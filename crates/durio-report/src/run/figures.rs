//! The figures of a run without a campaign: a table per location, and locations side by side.
//!
//! In: findings. Out: sections, with the bars that compare. Not here: charts of a single workload.

use durio_analyse::{Distribution, Findings, OperationFindings, WorkloadFindings};
use durio_record::OperationName;

use crate::document::chart::{Bar, BarGroup, Chart, Colour};
use crate::document::{Cell, Document, Row, Section, Table, Tone};
use crate::figures::{distinct, latency, precise, rate};

const COLUMNS: [&str; 9] =
    ["workload", "IOPS", "bandwidth", "mean", "p50", "p99", "p99.9", "p99.99", "max"];

pub(super) fn add(findings: &Findings, document: &mut Document) {
    let locations = locations(findings);
    for location in &locations {
        let mut section = Section::new(match locations.len() {
            1 => "Figures".to_owned(),
            _ => format!("Figures at {location}"),
        });
        section.note("Latencies: service, syncs apart. IOPS: operations per second.");
        let here = findings.workloads.iter().filter(|it| it.location == *location);
        let mut table = Table::new(COLUMNS);
        here.clone().for_each(|it| table.rows.extend(rows(it)));
        section.table(table);
        let cut: Vec<&str> = here.filter(|it| !it.complete).map(|it| &*it.name).collect();
        if !cut.is_empty() {
            let text = format!("ended before their limit: {}", cut.join(", "));
            section.say(Tone::Warning, text);
        }
        document.push(section);
    }
    if locations.len() > 1 {
        document.push(side_by_side(findings, &locations));
    }
}

/// The locations of the workloads, each once, in order.
pub(crate) fn locations(findings: &Findings) -> Vec<&str> {
    distinct(findings.workloads.iter().map(|it| it.location.as_str()))
}

/// A location as readers see it; scripted targets have none.
pub(crate) fn location_name(location: &str) -> &str {
    if location.is_empty() { "no location" } else { location }
}

/// A workload with its place, where there are several.
pub(super) fn workload_title(findings: &Findings, it: &WorkloadFindings) -> String {
    match locations(findings).len() {
        0 | 1 => it.name.clone(),
        _ => format!("{} at {}", it.name, it.location),
    }
}

/// The colour of an operation, the same in every chart.
pub(super) const fn colour(operation: OperationName) -> Colour {
    match operation {
        OperationName::Commit | OperationName::Read => Colour::First,
        OperationName::Write => Colour::Second,
        OperationName::Sync => Colour::Third,
        OperationName::Reallocate => Colour::Fourth,
    }
}

/// Commits per second where there are any, else accesses per second.
pub(crate) fn headline_rate(workload: &WorkloadFindings) -> f64 {
    workload.operation(OperationName::Commit).map_or(workload.iops, |commit| commit.rate)
}

/// The name of an operation; a sync call with the call's name.
pub(crate) fn operation_label(workload: &WorkloadFindings, operation: OperationName) -> String {
    match operation {
        OperationName::Sync => format!("sync ({})", workload.definition.sync.method.call_name()),
        other => other.name().to_owned(),
    }
}

/// The rows of one workload: itself, and its parts where it has several.
// Reads and writes are not pooled: a mixed workload has latencies in its parts only.
fn rows(workload: &WorkloadFindings) -> Vec<Row> {
    let (first, parts) = match workload.operations.as_slice() {
        [only] => (Some(only), [].as_slice()),
        [commit, parts @ ..] if commit.operation == OperationName::Commit => (Some(commit), parts),
        parts => (None, parts),
    };
    // The bytes of a commit are counted with its write; the whole row has those of the workload.
    let per_second = first.map_or(workload.iops, |operation| operation.rate);
    let service = first.map(|operation| &operation.service);
    let whole = cells(&workload.name, per_second, workload.bandwidth, service);
    let part = |part: &OperationFindings| {
        let label = operation_label(workload, part.operation);
        let cells = cells(&label, part.rate, part.bandwidth, Some(&part.service));
        Row { is_part: true, cells, ..Row::default() }
    };
    let whole = Row { cells: whole, ..Row::default() };
    std::iter::once(whole).chain(parts.iter().map(part)).collect()
}

fn cells(label: &str, per_second: f64, bytes: f64, service: Option<&Distribution>) -> Vec<Cell> {
    let mut cells = vec![Cell::text(label), Cell::Rate(per_second), Cell::bandwidth(bytes)];
    if let Some(it) = service {
        cells.push(Cell::Latency(it.mean_ns));
        cells.extend([it.p50_ns, it.p99_ns, it.p99_9_ns, it.p99_99_ns].map(Cell::percentile));
        cells.push(Cell::nanos(it.max_ns));
    }
    // Reads and writes together have no latency that would mean anything.
    cells.resize(COLUMNS.len(), Cell::Empty);
    cells
}

fn side_by_side(findings: &Findings, locations: &[&str]) -> Section {
    let mut section = Section::new("Side by side: operations per second and p99");
    let titles = locations.iter().flat_map(|location| [*location, "p99"]);
    let mut table = Table::new(std::iter::once("workload").chain(titles));
    let find = |name: &str, location: &str| {
        findings.workloads.iter().find(|it| it.name == name && it.location == location)
    };
    for name in distinct(findings.workloads.iter().map(|it| it.name.as_str())) {
        let figures = locations.iter().flat_map(|location| {
            let workload = find(name, location);
            let headline = workload.and_then(|it| it.operation(it.headline));
            [
                Cell::of(workload, |it| Cell::text(rate(headline_rate(it)))),
                Cell::of(headline, |it| Cell::percentile(it.service.p99_ns)),
            ]
        });
        table.row(std::iter::once(Cell::text(name)).chain(figures));
    }
    section.table(table);
    let by_rate = compared(findings, "Operations per second: longer is better", |it| {
        Some((headline_rate(it), rate(headline_rate(it))))
    });
    let title = "p99 of the headline operation: shorter is better";
    let by_p99 = compared(findings, title, |it| {
        let nanos = it.operation(it.headline)?.service.p99_ns?;
        Some((precise(nanos), latency(nanos)))
    });
    section.charts([by_rate, by_p99]);
    section
}

/// Bars of every workload, location beside location, to scale within one workload.
fn compared(
    findings: &Findings,
    title: &str,
    figure: impl Fn(&WorkloadFindings) -> Option<(f64, String)>,
) -> Chart {
    let places: Vec<_> =
        locations(findings).into_iter().zip(Colour::SERIES.into_iter().cycle()).collect();
    let group = |name: &str| {
        // A place where the workload was not run leaves no gap: the colours say whose bar is whose.
        let bars = places.iter().filter_map(|(place, colour)| {
            let is_it = |it: &&WorkloadFindings| it.name == name && it.location == *place;
            let (value, text) = figure(findings.workloads.iter().find(is_it)?)?;
            Some(Bar::new("", value, *colour, text))
        });
        BarGroup { title: name.to_owned(), bars: bars.collect() }
    };
    let names = distinct(findings.workloads.iter().map(|it| it.name.as_str()));
    let groups = names.into_iter().map(group).collect();
    Chart::bars(title, groups, places.iter().copied()).scaled_by_group()
}

/// Bars of write, sync and both, of each durable workload that has them apart.
pub(super) fn write_and_sync(findings: &Findings) -> Section {
    let mut section = Section::detail("Write against sync");
    let has_both = |it: &&WorkloadFindings| {
        it.operation(OperationName::Sync).is_some() && it.operation(OperationName::Write).is_some()
    };
    let durable = findings.workloads.iter().filter(has_both);
    let charts: Vec<Chart> =
        durable.map(|it| parts_of_commit(workload_title(findings, it), it)).collect();
    if !charts.is_empty() {
        section.note(
            "What a durable commit waits for: the write, the sync call, both together. Bars are to \
             scale within one percentile; percentiles do not add up.",
        );
    }
    section.charts(charts);
    section
}

fn parts_of_commit(title: String, workload: &WorkloadFindings) -> Chart {
    let parts = [OperationName::Write, OperationName::Sync, OperationName::Commit];
    let parts: Vec<_> = parts.into_iter().filter_map(|name| workload.operation(name)).collect();
    type Quantile = fn(&Distribution) -> Option<u64>;
    let quantiles: [(&str, Quantile); 3] =
        [("p50", |it| it.p50_ns), ("p99", |it| it.p99_ns), ("p99.9", |it| it.p99_9_ns)];
    let groups = quantiles.into_iter().map(|(name, quantile)| {
        let bars = parts.iter().filter_map(|it| {
            let nanos = quantile(&it.service)?;
            Some(Bar::new("", precise(nanos), colour(it.operation), latency(nanos)))
        });
        BarGroup { title: name.to_owned(), bars: bars.collect() }
    });
    let groups = groups.filter(|it| !it.bars.is_empty()).collect();
    let legend =
        parts.iter().map(|it| (operation_label(workload, it.operation), colour(it.operation)));
    Chart::bars(title, groups, legend).scaled_by_group()
}
