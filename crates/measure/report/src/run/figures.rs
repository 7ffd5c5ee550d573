//! The results of a run without a campaign: a table of workloads, with locations side by side.
//!
//! Makes sections with the bars that compare; charts of a single workload are in `over_time`.

use durio_analyse::grouping::each_once;
use durio_analyse::{Distribution, Findings, OperationFindings, WorkloadFindings};
use durio_record::{OperationName, Phase};

use crate::document::chart::{Bar, BarGroup, Chart, Colour};
use crate::document::{Cell, DetailLevel, Row, Section, SectionBody, Table, Tone};
use crate::figures::{latency, precise, rate};

// The columns of a table of workloads.
const COLUMNS: [&str; 10] = [
    "workload",
    "at",
    "per second",
    "bandwidth",
    "p50",
    "p99",
    "p99.9",
    "p99.99",
    "max",
    OVER_TIME,
];
const OVER_TIME: &str = "rate over time";

// In place of the rate of a workload that completed no operation.
const NOT_MEASURED: &str = "nothing was measured";

// Characters of a rate over time.
const TREND_MAX: usize = 14;

/// Every workload in a row; with several locations these stand side by side first.
pub(super) fn section(findings: &Findings) -> Section {
    let mut section = Section::default();
    let locations = locations(findings);
    let several = locations.len() > 1;
    let level = if several {
        section.table(side_by_side(findings, &locations));
        DetailLevel::Detail
    } else {
        DetailLevel::Summary
    };
    let mut table = Table::new(COLUMNS)
        .with_level(DetailLevel::Detail, &["max"])
        .with_level(DetailLevel::Page, &["p99.99"])
        .with_words(&["at", OVER_TIME]);
    for name in each_once(findings.workloads.iter().map(|it| it.name.as_str())) {
        let same = findings.workloads.iter().filter(|it| it.name == name);
        for (at, workload) in same.enumerate() {
            let label = if several && at > 0 { String::new() } else { label(workload) };
            let place = if several { location_name(&workload.location) } else { "" };
            table.rows.extend(rows(workload, &label, place));
        }
    }
    section.push(level, SectionBody::Table(table));
    let is_predicted = |it: &&WorkloadFindings| {
        it.definition.group_commit.is_some_and(|policy| policy.software.is_some())
    };
    let predicted = findings.workloads.iter().filter(is_predicted).map(|it| it.name.as_str());
    let predicted = each_once(predicted);
    if !predicted.is_empty() {
        section.note(format!(
            "{}: predicted commits of that database with so many clients (durio predict)",
            predicted.join(", ")
        ));
    }
    let how = "Latencies: service, syncs apart. Per second: operations.";
    section.push(DetailLevel::Detail, SectionBody::Text(Tone::Note, how.to_owned()));
    let cut = findings.workloads.iter().filter(|it| !it.complete);
    let cut: Vec<String> = cut.map(|it| workload_title(findings, it)).collect();
    if !cut.is_empty() {
        section.say(Tone::Warning, format!("ended before their limit: {}", cut.join(", ")));
    }
    section
}

/// The locations of the workloads, each once, in order.
pub(crate) fn locations(findings: &Findings) -> Vec<&str> {
    each_once(findings.workloads.iter().map(|it| it.location.as_str()))
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

/// Its name, and of which operations its percentiles are where those of reads and writes would have to
/// be pooled.
fn label(workload: &WorkloadFindings) -> String {
    let is_pooled =
        workload.operation(OperationName::Commit).is_none() && workload.operations.len() > 1;
    match is_pooled {
        true => format!("{}, p of {}s", workload.name, workload.headline.name()),
        false => workload.name.clone(),
    }
}

/// The rows of one workload: itself, and its parts where it has several.
fn rows(workload: &WorkloadFindings, label: &str, place: &str) -> Vec<Row> {
    let operations = workload.operations.as_slice();
    let parts = operations.iter().filter(|it| it.operation != OperationName::Commit);
    let service = workload.operation(workload.headline).map(|it| &it.service);
    // The bytes of a commit are counted with its write; the whole row has those of the workload.
    let mut whole = cells([label, place], headline_rate(workload), workload.bandwidth, service);
    if workload.operations.is_empty() {
        whole[2] = Cell::Absent(NOT_MEASURED);
    }
    whole.push(trend(workload));
    let part = |part: &OperationFindings| {
        let label = operation_label(workload, part.operation);
        let cells = cells([&label, ""], part.rate, part.bandwidth, Some(&part.service));
        Row { level: DetailLevel::Detail, is_part: true, cells }
    };
    let parts = parts.filter(|_| operations.len() > 1);
    let whole = Row { cells: whole, ..Row::default() };
    std::iter::once(whole).chain(parts.map(part)).collect()
}

fn cells(names: [&str; 2], rate: f64, bytes: f64, service: Option<&Distribution>) -> Vec<Cell> {
    let mut cells: Vec<Cell> =
        names.map(|it| if it.is_empty() { Cell::Empty } else { Cell::text(it) }).into();
    cells.extend([Cell::Rate(rate), Cell::bandwidth(bytes)]);
    if let Some(it) = service {
        cells.extend([it.p50_ns, it.p99_ns, it.p99_9_ns, it.p99_99_ns].map(Cell::percentile));
        cells.push(Cell::nanos(it.max_ns));
    }
    cells.resize(COLUMNS.len() - 1, Cell::Empty);
    cells
}

/// The rates of its intervals, of several that follow each other their mean.
fn trend(workload: &WorkloadFindings) -> Cell {
    let measured = workload.intervals.iter().filter(|it| it.phase == Phase::Measure);
    let rates: Vec<f64> = measured.filter(|it| !it.cut_short).map(|it| it.rate).collect();
    if rates.len() < 2 {
        return Cell::Empty;
    }
    let together = rates.chunks(rates.len().div_ceil(TREND_MAX));
    let mean = |it: &[f64]| it.iter().sum::<f64>() / precise(it.len() as u64);
    Cell::Trend(together.map(mean).collect())
}

/// The results that fit a screen with another location's.
fn side_by_side(findings: &Findings, locations: &[&str]) -> Table {
    let titles = |it: &&str| {
        [format!("{} /s", location_name(it)), "p50".into(), "p99".into(), "p99.9".into()]
    };
    let titles = locations.iter().flat_map(titles);
    let mut table = Table::new(std::iter::once("workload".to_owned()).chain(titles));
    if locations.len() > 2 {
        table = table.with_level(DetailLevel::Detail, &["p50", "p99.9"]);
    }
    for name in each_once(findings.workloads.iter().map(|it| it.name.as_str())) {
        let figures = locations.iter().flat_map(|location| {
            let is_it = |it: &&WorkloadFindings| it.name == name && it.location == *location;
            let workload = findings.workloads.iter().find(is_it);
            let service = workload.and_then(|it| it.operation(it.headline)).map(|it| &it.service);
            let percentiles: [fn(&Distribution) -> Option<u64>; 3] =
                [|it| it.p50_ns, |it| it.p99_ns, |it| it.p99_9_ns];
            let rate = Cell::of(workload, |it| match it.operations.is_empty() {
                true => Cell::Absent(NOT_MEASURED),
                false => Cell::Rate(headline_rate(it)),
            });
            let cell = move |percentile: fn(&Distribution) -> Option<u64>| {
                Cell::of(service, |it| Cell::percentile(percentile(it)))
            };
            std::iter::once(rate).chain(percentiles.map(cell))
        });
        let first = findings.workloads.iter().find(|it| it.name == name);
        let label = first.map_or_else(|| name.to_owned(), label);
        table.row(std::iter::once(Cell::Text(label)).chain(figures));
    }
    table
}

/// Bars that compare locations, for a page.
pub(super) fn beside_each_other(findings: &Findings) -> Section {
    let mut section = Section::detail("Side by side");
    if locations(findings).len() > 1 {
        let by_rate = compared(findings, "Operations per second: longer is better", |it| {
            Some((headline_rate(it), rate(headline_rate(it))))
        });
        let title = "p99 of the headline operation: shorter is better";
        let by_p99 = compared(findings, title, |it| {
            let nanos = it.operation(it.headline)?.service.p99_ns?;
            Some((precise(nanos), latency(nanos)))
        });
        section.charts([by_rate, by_p99]);
    }
    section
}

/// Bars of every workload, locations side by side, to scale within one workload.
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
    let names = each_once(findings.workloads.iter().map(|it| it.name.as_str()));
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
