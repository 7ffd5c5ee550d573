//! The results of a run: a table of workloads, with locations side by side, and records.
//!
//! Makes sections with the bars that compare; charts of a single workload are in `over_time`.

use durio_analyse::{Distribution, Findings, OperationFindings, WorkloadFindings, each_once};
use durio_judge::compare::between_places;
use durio_judge::summary::of_run;
use durio_record::{OperationName, Phase};

use super::machine::cache_name;
use crate::document::chart::{Bar, BarGroup, Chart, Colour};
use crate::document::{
    Cell, Column, DetailLevel, Section, SectionBody, Table, Tone, both, detail, page, record,
    shown, words,
};
use crate::figures::{latency, location_name, precise, rate};

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
        let labels = compared_places(findings, &mut section);
        section.table(side_by_side(findings, &locations, &labels));
        DetailLevel::Detail
    } else {
        DetailLevel::Summary
    };
    let mut rows = Vec::new();
    for name in each_once(findings.workloads.iter().map(|workload| workload.name.as_str())) {
        let same = findings.workloads.iter().filter(|workload| workload.name == name);
        for (at, workload) in same.enumerate() {
            let label = if several && at > 0 { String::new() } else { label(workload) };
            let place = if several { location_name(&workload.location) } else { "" };
            rows.extend(shown_rows(findings, workload, label, place));
        }
    }
    let mut table = Table::shown(&columns(), &rows);
    for (line, row) in table.rows.iter_mut().zip(&rows).filter(|(_, row)| row.is_part) {
        (line.level, line.is_part) = (DetailLevel::Detail, row.is_part);
    }
    section.push(level, SectionBody::Table(table));
    let how = "Latencies: service, syncs apart. Per second: operations.";
    section.say_at(DetailLevel::Detail, Tone::Note, how);
    let cut = findings.workloads.iter().filter(|workload| !workload.complete);
    let cut: Vec<String> = cut.map(|workload| workload_title(findings, workload)).collect();
    if !cut.is_empty() {
        section.warn(format!("ended before their limit: {}", cut.join(", ")));
    }
    section
}

/// The locations of the workloads, each once, in order.
pub(crate) fn locations(findings: &Findings) -> Vec<&str> {
    each_once(findings.workloads.iter().map(|workload| workload.location.as_str()))
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
        true => format!("{} ({} latency)", workload.name, workload.headline.name()),
        false => workload.name.clone(),
    }
}

/// A workload as a whole, or one of its operations.
struct ResultLine<'f> {
    findings: &'f Findings,
    workload: &'f WorkloadFindings,
    /// The row's own; of a whole workload its headline, if it completed any.
    operation: Option<&'f OperationFindings>,
    label: String,
    place: &'f str,
    rate: f64,
    bandwidth: f64,
    is_part: bool,
}

impl ResultLine<'_> {
    fn cell(&self, cell: impl Fn(&OperationFindings) -> Cell) -> Cell {
        Cell::of(self.operation, cell)
    }

    fn response(&self, cell: impl Fn(&Distribution) -> Cell) -> Cell {
        Cell::of(self.operation.and_then(|operation| operation.response.as_ref()), cell)
    }

    fn percentile(&self, percentile: impl Fn(&Distribution) -> Option<u64>) -> Cell {
        self.cell(|operation| Cell::percentile(percentile(&operation.service)))
    }
}

/// Every column of results: of the table of workloads, and of records, which are one for each
/// workload and operation.
fn columns<'f>() -> Vec<Column<ResultLine<'f>>> {
    fn named(name: &str) -> Cell {
        if name.is_empty() { Cell::Empty } else { Cell::text(name) }
    }
    vec![
        shown("workload", |row| named(&row.label)),
        words(shown("at", |row| named(row.place))),
        record("run", |row| Cell::text(&row.findings.run.run)),
        record("location", |row| Cell::text(&row.workload.location)),
        record("step", |row| Cell::Count(row.workload.step.into())),
        record("workload", |row| Cell::text(&row.workload.name)),
        record("operation", |row| row.cell(|operation| Cell::text(operation.operation.name()))),
        record("target", |row| Cell::text(&row.workload.target)),
        record("engine", |row| Cell::text(row.workload.effective.engine.name())),
        record("jobs", |row| Cell::Count(row.workload.effective.jobs.into())),
        record("depth", |row| Cell::Count(row.workload.effective.depth.into())),
        record("batch", |row| Cell::Count(row.workload.effective.batch.into())),
        record("cache", |row| Cell::text(cache_name(row.workload.effective.cache))),
        record("block_size_bytes", |row| Cell::Count(row.workload.definition.block_size.get())),
        record("read_share", |row| {
            Cell::Number(f64::from(row.workload.definition.read_share.0) / 1000.0)
        }),
        record("sync_method", |row| Cell::text(row.workload.definition.sync.method.name())),
        record("durable", |row| Cell::text(row.workload.durable.to_string())),
        record("complete", |row| Cell::text(row.workload.complete.to_string())),
        record("measured_ns", |row| Cell::Count(row.workload.measured.get())),
        record("count", |row| row.cell(|operation| Cell::Count(operation.service.count))),
        both("rate_per_s", "per second", |row| match row.workload.operations.is_empty() {
            true => Cell::Absent(NOT_MEASURED),
            false => Cell::Rate(row.rate),
        }),
        // A sync moves no bytes: people see an empty cell.
        shown("bandwidth", |row| Cell::bandwidth(row.bandwidth)),
        record("bandwidth_bytes_per_s", |row| Cell::Number(row.bandwidth)),
        record("mean_ns", |row| row.cell(|operation| Cell::Latency(operation.service.mean_ns))),
        record("min_ns", |row| row.cell(|operation| Cell::nanos(operation.service.min_ns))),
        both("p50_ns", "p50", |row| row.percentile(|latency| latency.p50_ns)),
        record("p90_ns", |row| row.percentile(|latency| latency.p90_ns)),
        both("p99_ns", "p99", |row| row.percentile(|latency| latency.p99_ns)),
        both("p99_9_ns", "p99.9", |row| row.percentile(|latency| latency.p99_9_ns)),
        page(both("p99_99_ns", "p99.99", |row| row.percentile(|latency| latency.p99_99_ns))),
        detail(both("max_ns", "max", |row| {
            row.cell(|operation| Cell::nanos(operation.service.max_ns))
        })),
        words(shown("rate over time", |row| match row.is_part {
            true => Cell::Empty,
            false => trend(row.workload),
        })),
        record("section", |row| {
            let campaign = row.findings.plan.campaign.as_ref();
            let section = campaign.zip(row.workload.section);
            let section = section.and_then(|(campaign, at)| campaign.sections.get(at as usize));
            Cell::of(section, |section| Cell::text(&section.name))
        }),
        record("levels", |row| {
            let levels = row.workload.levels.iter();
            let levels = levels.map(|level| format!("{}={}", level.axis, level.value));
            Cell::text(levels.collect::<Vec<_>>().join(";"))
        }),
        record("round", |row| Cell::Count(row.workload.round.into())),
        record("repeat", |row| Cell::Count(row.workload.repeat.into())),
        record("stream", |row| Cell::Count(row.workload.stream.into())),
        record("offered_per_s", |row| {
            Cell::of(row.workload.open_loop, |open| Cell::Number(open.offered_per_second))
        }),
        record("response_mean_ns", |row| row.response(|latency| Cell::Latency(latency.mean_ns))),
        record("response_p99_ns", |row| {
            row.response(|latency| Cell::of(latency.p99_ns, Cell::nanos))
        }),
        record("idle_before_ns", |row| {
            Cell::of(row.workload.idle_before, |idle| Cell::Count(idle.get()))
        }),
    ]
}

impl<'f> ResultLine<'f> {
    /// One operation of a workload.
    fn part(
        findings: &'f Findings,
        workload: &'f WorkloadFindings,
        operation: &'f OperationFindings,
    ) -> Self {
        Self {
            findings,
            workload,
            operation: Some(operation),
            label: operation_label(workload, operation.operation),
            place: "",
            rate: operation.rate,
            bandwidth: operation.bandwidth,
            is_part: true,
        }
    }
}

/// A record for each workload and operation.
pub(super) fn records(findings: &Findings) -> Table {
    let rows = findings.workloads.iter().flat_map(|workload| {
        let operations = workload.operations.iter();
        operations.map(move |operation| ResultLine::part(findings, workload, operation))
    });
    Table::records(&columns(), rows)
}

/// The rows of one workload: itself, and its parts where it has several.
fn shown_rows<'f>(
    findings: &'f Findings,
    workload: &'f WorkloadFindings,
    label: String,
    place: &'f str,
) -> Vec<ResultLine<'f>> {
    // The bytes of a commit are counted with its write; the whole row has those of the workload.
    let whole = ResultLine {
        findings,
        workload,
        operation: workload.operation(workload.headline),
        label,
        place,
        rate: headline_rate(workload),
        bandwidth: workload.bandwidth,
        is_part: false,
    };
    let parts = workload.operations.iter().filter(|_| workload.operations.len() > 1);
    let parts = parts.filter(|part| part.operation != OperationName::Commit);
    let parts = parts.map(|part| ResultLine::part(findings, workload, part));
    std::iter::once(whole).chain(parts).collect()
}

/// The rates of its intervals, of several that follow each other their mean.
fn trend(workload: &WorkloadFindings) -> Cell {
    let measured = workload.intervals.iter().filter(|interval| interval.phase == Phase::Measure);
    let rates: Vec<f64> =
        measured.filter(|interval| !interval.cut_short).map(|interval| interval.rate).collect();
    if rates.len() < 2 {
        return Cell::Empty;
    }
    let together = rates.chunks(rates.len().div_ceil(TREND_MAX));
    let mean = |part: &[f64]| part.iter().sum::<f64>() / precise(part.len() as u64);
    Cell::Trend(together.map(mean).collect())
}

/// How many times the first place's rate the others have; gives the labels of the places.
fn compared_places(findings: &Findings, section: &mut Section) -> Vec<String> {
    let Some(answer) = between_places(findings) else { return Vec::new() };
    // The summary has it, unless it is about databases.
    if !of_run(findings).sentence.contains(&answer.sentence) {
        section.say(Tone::Strong, &answer.sentence);
    }
    for remark in &answer.remarks {
        section.toned(Tone::Warning, "NOTE", remark);
    }
    if let Some(command) = &answer.command {
        let command = format!("{command}  # alternating, with an interval");
        section.push(DetailLevel::Summary, SectionBody::Verbatim(command));
    }
    answer.places.into_iter().map(|(label, _)| label).collect()
}

/// Label and location of each of several places whose results stand side by side.
pub(super) fn labelled_places(findings: &Findings) -> Vec<(String, String)> {
    let answer = findings.campaign.is_none().then(|| between_places(findings)).flatten();
    answer.map_or_else(Vec::new, |answer| answer.places)
}

/// The label of a place, if the results of several stand side by side.
pub(super) fn place_label(findings: &Findings, location: &str) -> Option<String> {
    let mut places = labelled_places(findings).into_iter();
    places.find(|(_, place)| place == location).map(|(label, _)| label)
}

/// The results that fit a screen with another location's, under the labels of the places: paths would
/// be broken within words.
fn side_by_side(findings: &Findings, locations: &[&str], labels: &[String]) -> Table {
    let titles =
        |label: &String| [format!("{label} /s"), "p50".into(), "p99".into(), "p99.9".into()];
    let titles = labels.iter().flat_map(titles);
    let mut table = Table::new(std::iter::once("workload".to_owned()).chain(titles));
    if locations.len() > 2 {
        table = table.with_level(DetailLevel::Detail, &["p50", "p99.9"]);
    }
    for name in each_once(findings.workloads.iter().map(|workload| workload.name.as_str())) {
        let figures = locations.iter().flat_map(|location| {
            let is_it = |workload: &&WorkloadFindings| {
                workload.name == name && workload.location == *location
            };
            let workload = findings.workloads.iter().find(is_it);
            let service = workload
                .and_then(|workload| workload.operation(workload.headline))
                .map(|workload| &workload.service);
            let percentiles: [fn(&Distribution) -> Option<u64>; 3] =
                [|latency| latency.p50_ns, |latency| latency.p99_ns, |latency| latency.p99_9_ns];
            let rate = Cell::of(workload, |workload| match workload.operations.is_empty() {
                true => Cell::Absent(NOT_MEASURED),
                false => Cell::Rate(headline_rate(workload)),
            });
            let cell = move |percentile: fn(&Distribution) -> Option<u64>| {
                Cell::of(service, |service| Cell::percentile(percentile(service)))
            };
            std::iter::once(rate).chain(percentiles.map(cell))
        });
        let first = findings.workloads.iter().find(|workload| workload.name == name);
        let label = first.map_or_else(|| name.to_owned(), label);
        table.row(std::iter::once(Cell::Text(label)).chain(figures));
    }
    table
}

/// Bars that compare locations, for a page.
pub(super) fn beside_each_other(findings: &Findings) -> Section {
    let mut section = Section::detail("Side by side");
    if locations(findings).len() > 1 {
        let by_rate = compared(findings, "Operations per second: longer is better", |workload| {
            Some((headline_rate(workload), rate(headline_rate(workload))))
        });
        let title = "p99 of the headline operation: shorter is better";
        let by_p99 = compared(findings, title, |workload| {
            let nanos = workload.operation(workload.headline)?.service.p99_ns?;
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
            let is_it =
                |workload: &&WorkloadFindings| workload.name == name && workload.location == *place;
            let (value, text) = figure(findings.workloads.iter().find(is_it)?)?;
            Some(Bar::new("", value, *colour, text))
        });
        BarGroup::new(name, bars)
    };
    let names = each_once(findings.workloads.iter().map(|workload| workload.name.as_str()));
    let groups = names.into_iter().map(group).collect();
    Chart::bars(title, groups, places.iter().copied()).scaled_by_group()
}

/// Bars of write, sync and both, of each durable workload that has them apart.
pub(super) fn write_and_sync(findings: &Findings) -> Section {
    let mut section = Section::detail("Write against sync");
    let has_both = |workload: &&WorkloadFindings| {
        workload.operation(OperationName::Sync).is_some()
            && workload.operation(OperationName::Write).is_some()
    };
    let durable = findings.workloads.iter().filter(has_both);
    let charts: Vec<Chart> = durable
        .map(|workload| parts_of_commit(workload_title(findings, workload), workload))
        .collect();
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
    let quantiles: [(&str, Quantile); 3] = [
        ("p50", |latency| latency.p50_ns),
        ("p99", |latency| latency.p99_ns),
        ("p99.9", |latency| latency.p99_9_ns),
    ];
    let groups = quantiles.into_iter().map(|(name, quantile)| {
        let bars = parts.iter().filter_map(|part| {
            let nanos = quantile(&part.service)?;
            Some(Bar::new("", precise(nanos), colour(part.operation), latency(nanos)))
        });
        BarGroup::new(name, bars)
    });
    let groups = groups.filter(|group| !group.bars.is_empty()).collect();
    let legend = parts
        .iter()
        .map(|part| (operation_label(workload, part.operation), colour(part.operation)));
    Chart::bars(title, groups, legend).scaled_by_group()
}
