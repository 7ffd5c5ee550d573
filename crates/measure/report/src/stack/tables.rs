//! The tables of a bench, for people and as records.

use durio_analyse::attribution::{
    DeviceCost, IntervalBasis, LayerRow, PointFacts, RaidFacts, RaidRow, RowFigures, StackFindings,
    WorkloadRows,
};
use durio_analyse::{LatencyBreakdown, LatencyComponent};

use super::row_name;
use crate::document::{Cell, Column, Table, both, record, shown};
use crate::figures::{decimal, precise};

/// A layer of a workload. Without results its reason is in the remarks below the table.
#[derive(Clone, Copy)]
struct LayerLine<'f> {
    findings: &'f StackFindings,
    workload: &'f WorkloadRows,
    row: &'f LayerRow,
}

impl<'f> LayerLine<'f> {
    fn point(&self) -> Option<&'f PointFacts> {
        self.findings.points.get(self.row.point)
    }

    fn cell(&self, cell: impl Fn(&RowFigures) -> Cell) -> Cell {
        Cell::or_absent(self.row.figures.as_ref(), cell)
    }

    fn figure(&self, kind: fn(f64) -> Cell, figure: impl Fn(&RowFigures) -> Option<f64>) -> Cell {
        self.cell(|figures| Cell::or_absent(figure(figures), kind))
    }

    fn number(&self, figure: impl Fn(&RowFigures) -> Option<f64>) -> Cell {
        self.figure(Cell::Number, figure)
    }

    fn time(&self, component: LatencyComponent) -> Cell {
        let mean = |breakdown: &LatencyBreakdown| {
            breakdown.component(component).map(|component| component.mean_ns)
        };
        self.number(|figures| figures.latency_breakdown.as_ref().and_then(mean))
    }
}

fn lines<'f>(
    findings: &'f StackFindings,
    workload: &'f WorkloadRows,
) -> impl Iterator<Item = LayerLine<'f>> {
    workload.rows.iter().map(move |row| LayerLine { findings, workload, row })
}

/// Every column about a layer of a workload; numbers are in the units of the JSON document.
fn columns<'f>() -> Vec<Column<LayerLine<'f>>> {
    fn of_point(line: &LayerLine<'_>, text: fn(&PointFacts) -> &String) -> Cell {
        Cell::of(line.point().map(text), Cell::text)
    }
    vec![
        record("bench", |line| Cell::text(&line.findings.name)),
        record("timing", |line| Cell::of(line.findings.timing, |timing| Cell::saved(&timing))),
        record("workload", |line| Cell::text(&line.workload.label)),
        record("stack", |line| of_point(line, |point| &point.stack)),
        record("layer", |line| of_point(line, |point| &point.layer)),
        record("name", |line| of_point(line, |point| &point.name)),
        shown("layer", |line| Cell::Text(row_name(line.findings, line.row.point))),
        record("absent", |line| Cell::of(line.row.absent.as_ref(), Cell::text)),
        record("repeats", |line| line.cell(|row| Cell::text(row.repeats.to_string()))),
        both("rate_per_second", "per s", |line| line.cell(|row| Cell::Rate(row.rate_per_second))),
        shown("±", |line| line.cell(interval)),
        record("rate_low_per_second", |line| {
            line.number(|row| Some(row.rate_interval?.low_per_second))
        }),
        record("rate_high_per_second", |line| {
            line.number(|row| Some(row.rate_interval?.high_per_second))
        }),
        both("share_of_raw", "of raw", |line| line.figure(Cell::Share, |row| row.share_of_raw)),
        both("share_of_below", "of below", |line| {
            line.figure(Cell::Share, |row| row.share_of_below)
        }),
        record("published_share_of_raw", |line| line.number(|row| row.published_share_of_raw)),
        both("time_per_operation_ns", "time/op", |line| {
            line.cell(|row| Cell::Latency(row.time_per_operation_ns))
        }),
        record("latency_ns_mean", |line| line.number(|row| Some(row.service.as_ref()?.mean_ns))),
        both("latency_ns_p50", "p50", |line| {
            line.figure(Cell::Latency, |row| row.service.as_ref()?.p50_ns.map(precise))
        }),
        record("latency_ns_p99", |line| {
            line.number(|row| row.service.as_ref()?.p99_ns.map(precise))
        }),
        both("added_to_below_ns_p50", "+ p50", |line| {
            line.figure(Cell::Added, |row| row.against_below?.latency_ns_p50)
        }),
        both("added_to_below_ns_p99", "+ p99", |line| {
            line.figure(Cell::Added, |row| row.against_below?.latency_ns_p99)
        }),
        record("added_to_raw_ns_p50", |line| line.number(|row| row.against_raw?.latency_ns_p50)),
        record("added_to_raw_ns_p99", |line| line.number(|row| row.against_raw?.latency_ns_p99)),
        both("cpu_ns_per_operation", "CPU/op", |line| {
            line.figure(Cell::Latency, |row| row.cpu_ns_per_operation)
        }),
        both("cpu_ns_added_to_below", "+ CPU", |line| {
            line.figure(Cell::Added, |row| row.against_below?.cpu_ns_per_operation)
        }),
        both("context_switches_per_operation", "switches", |line| {
            line.number(|row| row.context_switches_per_operation)
        }),
        shown("+ sw.", |line| {
            line.figure(
                |more| Cell::text(format!("{more:+.2}")),
                |row| row.against_below?.context_switches_per_operation,
            )
        }),
        shown("dev. writes", |line| line.cell(|row| device_cell(row, 0))),
        shown("dev. bytes", |line| line.cell(|row| device_cell(row, 1))),
        record("device_writes_per_write", |line| line.number(|row| devices(row)[0])),
        record("device_bytes_per_byte", |line| line.number(|row| devices(row)[1])),
        both("flushes_per_sync_call", "flushes", |line| line.number(|row| devices(row)[2])),
        record("raid_theoretical_share", |line| {
            line.number(|row| row.raid.as_ref()?.theoretical_share)
        }),
        record("raid_efficiency", |line| line.number(|row| row.raid.as_ref()?.efficiency)),
        record("raid_efficiency_reads_counted", |line| {
            line.number(|row| row.raid.as_ref()?.efficiency_reads_counted)
        }),
        record("raid_share_of_healthy", |line| {
            line.number(|row| row.raid.as_ref()?.share_of_healthy)
        }),
        record("time_program_ns", |line| line.time(LatencyComponent::Program)),
        record("time_entry_ns", |line| line.time(LatencyComponent::Entry)),
        record("time_queued_ns", |line| line.time(LatencyComponent::Queued)),
        record("time_device_ns", |line| line.time(LatencyComponent::Device)),
        record("time_between_ns", |line| line.time(LatencyComponent::Between)),
        record("time_exit_ns", |line| line.time(LatencyComponent::Exit)),
        record("time_off_cpu_share", |line| {
            line.number(|row| Some(row.latency_breakdown.as_ref()?.off_cpu_share))
        }),
    ]
}

pub(super) fn rates(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    let titles = ["layer", "per s", "±", "of raw", "of below", "p50", "+ p50", "+ p99"];
    Table::part(&columns(), &titles, lines(findings, workload))
}

/// How far the ends of the interval are from the rate; `*` marks the range of repeats.
fn interval(figures: &RowFigures) -> Cell {
    Cell::or_absent(figures.rate_interval, |interval| {
        let rate = figures.rate_per_second;
        let below = 1.0 - interval.low_per_second / rate;
        let above = interval.high_per_second / rate - 1.0;
        let mark = match interval.basis {
            IntervalBasis::Repeats => "*",
            IntervalBasis::Batches => "",
        };
        // The interval need not be symmetric: shown is its farther end.
        Cell::text(format!("±{:.1} %{mark}", below.max(above) * 100.0))
    })
}

/// Said under a table of rates.
pub(super) const INTERVAL_NOTE: &str = "per s: commits per second where there are any, else accesses. \
     ±: 95 % from batches of one run, in which what differs between runs is not; * the farthest of \
     the repeats. of raw, of below: rate as a share of that of the raw storage and of the layer just \
     below. p50: median service latency; + p50, + p99: what the layer adds to the median and to the \
     99th percentile of the one just below.";

pub(super) fn costs(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    let titles = [
        "layer",
        "time/op",
        "CPU/op",
        "+ CPU",
        "switches",
        "+ sw.",
        "dev. writes",
        "dev. bytes",
        "flushes",
    ];
    Table::part(&columns(), &titles, lines(findings, workload))
}

/// Said under a table of costs.
pub(super) const COST_NOTE: &str = "time/op: 1 ÷ rate. CPU/op, switches: processor time and context \
     switches of the jobs (waits and preemptions) per operation; + CPU, + sw.: what the layer adds to \
     the one just below. dev. writes, dev. bytes: what the devices at the bottom were given per write \
     and byte of the application (†: of operations that were traced one at a time, for the devices \
     count nothing); flushes: per sync call.";

/// Device writes per write, bytes per byte and flushes per sync call.
fn devices(it: &RowFigures) -> [Option<f64>; 3] {
    match it.devices {
        Some(DeviceCost::Counted { writes_per_write, bytes_per_byte, flushes_per_sync_call }) => {
            [Some(writes_per_write), Some(bytes_per_byte), flushes_per_sync_call]
        }
        Some(DeviceCost::Traced { writes_per_write, bytes_per_byte }) => {
            [Some(writes_per_write), Some(bytes_per_byte), None]
        }
        Some(DeviceCost::CannotTell { .. }) | None => [None; 3],
    }
}

/// One of the device costs; a dagger marks a traced one.
fn device_cell(it: &RowFigures, which: usize) -> Cell {
    match (&it.devices, devices(it)[which]) {
        (Some(DeviceCost::CannotTell { .. }), None) if which < 2 => Cell::text("cannot tell"),
        (Some(DeviceCost::Traced { .. }), Some(it)) => Cell::text(format!("{}†", decimal(it))),
        (_, it) => Cell::or_absent(it, Cell::Number),
    }
}

type ArrayRow<'f> = (String, &'f RaidRow, &'f RaidFacts);

fn all_arrays<'f>(
    findings: &'f StackFindings,
    workload: &'f WorkloadRows,
) -> impl Iterator<Item = ArrayRow<'f>> {
    lines(findings, workload).filter_map(move |figures| {
        let raid = figures.row.figures.as_ref()?.raid.as_ref()?;
        Some((row_name(findings, figures.row.point), raid, figures.point()?.raid.as_ref()?))
    })
}

/// Arrays next to their models; no rows without arrays.
pub(super) fn arrays(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    fn share(share: Option<f64>) -> Cell {
        Cell::or_absent(share, Cell::Share)
    }
    Table::with_columns(
        all_arrays(findings, workload),
        [
            ("array", |(name, ..)| Cell::text(name)),
            ("of drives", |(_, raid, _)| share(raid.share_of_drives)),
            ("theory", |(_, raid, _)| share(raid.theoretical_share)),
            ("efficiency", |(_, raid, _)| share(raid.efficiency)),
            ("theory*", |(_, raid, _)| share(raid.theoretical_share_reads_counted)),
            ("efficiency*", |(_, raid, _)| share(raid.efficiency_reads_counted)),
            ("of whole", |(_, raid, _)| share(raid.share_of_healthy)),
            ("survives", |(.., facts)| Cell::text(survives(facts))),
        ],
    )
}

fn survives(facts: &RaidFacts) -> String {
    let further = if facts.degraded_members > 0 { " more" } else { "" };
    match (facts.failures_left_min, facts.failures_left_max) {
        (least, most) if least == most => format!("{least}{further}"),
        (least, most) => format!("{least} to {most}{further}"),
    }
}

/// Said under the table of arrays.
pub(super) const ARRAYS_NOTE: &str = "of drives: rate as a share of the raw rate of all its drives \
     together, which is that of the drives measured times their number, or where the processor limits \
     it that rate itself: the line of the model says which. theory: the share of that which the layout \
     leaves, device writes only counted. efficiency: of drives ÷ theory. theory*, efficiency*: device \
     reads counted too. of whole: of a degraded array, its rate as a share of the whole one's. \
     survives: failures of members.";

/// Each model once, and the comparison of each array.
pub(super) fn array_words(findings: &StackFindings, workload: &WorkloadRows) -> Vec<String> {
    let line = |(name, raid, facts): ArrayRow<'_>| {
        let model = facts.model.as_ref().map(|model| model.sentence.as_str());
        let parts = [model, raid.basis.as_deref(), raid.declined.as_deref()];
        format!("{name}: {}", parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    };
    all_arrays(findings, workload).map(line).collect()
}

pub(super) fn published(workload: &WorkloadRows) -> Option<Table> {
    let order = workload.published.as_ref()?;
    Some(Table::with_columns(
        &order.rows,
        [
            ("layer", |figures| Cell::text(&figures.name)),
            ("published of raw", |figures| Cell::Share(figures.published)),
            ("measured of raw", |figures| Cell::or_absent(figures.measured, Cell::Share)),
            ("×", |interval| {
                Cell::or_absent(
                    interval.measured.map(|measured| measured / interval.published),
                    Cell::Number,
                )
            }),
        ],
    ))
}

/// Said under a table of published shares.
pub(super) const PUBLISHED_NOTE: &str = "published of raw, measured of raw: rate as a share of that \
     of the raw storage, there and here. ×: measured ÷ published.";

/// One for each workload and point.
pub(super) fn records(findings: &StackFindings) -> Table {
    let all = findings.workloads.iter().flat_map(|workload| lines(findings, workload));
    Table::records(&columns(), all.filter(|line| line.point().is_some()))
}
