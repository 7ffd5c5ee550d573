//! The tables of a bench, for people and as records.
//!
//! Makes [`Table`]s from findings, and the remarks under them.

use durio_analyse::attribution::{
    DeviceCost, IntervalBasis, LayerRow, PointFacts, RaidFacts, RaidRow, RowFigures, StackFindings,
    WorkloadRows,
};
use durio_analyse::{LatencyBreakdown, LatencyComponent};

use super::row_name;
use crate::document::{Cell, Column, Table};
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
        let mean =
            |it: &LatencyBreakdown| it.component(component).map(|component| component.mean_ns);
        self.number(|it| it.latency_breakdown.as_ref().and_then(mean))
    }
}

fn lines<'f>(
    findings: &'f StackFindings,
    workload: &'f WorkloadRows,
) -> impl Iterator<Item = LayerLine<'f>> {
    workload.rows.iter().map(move |row| LayerLine { findings, workload, row })
}

/// Every column about a layer of a workload; numbers are in the units of the JSON document.
fn columns<'f>() -> [Column<LayerLine<'f>>; 44] {
    fn of_point(line: &LayerLine<'_>, text: fn(&PointFacts) -> &String) -> Cell {
        Cell::of(line.point().map(text), Cell::text)
    }
    [
        Column::record("bench", |line| Cell::text(&line.findings.name)),
        Column::record("timing", |line| Cell::of(line.findings.timing, |it| Cell::saved(&it))),
        Column::record("workload", |line| Cell::text(&line.workload.label)),
        Column::record("stack", |line| of_point(line, |it| &it.stack)),
        Column::record("layer", |line| of_point(line, |it| &it.layer)),
        Column::record("name", |line| of_point(line, |it| &it.name)),
        Column::shown("layer", |line| Cell::Text(row_name(line.findings, line.row.point))),
        Column::record("absent", |line| Cell::of(line.row.absent.as_ref(), Cell::text)),
        Column::record("repeats", |line| line.cell(|it| Cell::text(it.repeats.to_string()))),
        Column::new("rate_per_second", "per s", |line| {
            line.cell(|it| Cell::Rate(it.rate_per_second))
        }),
        Column::shown("±", |line| line.cell(interval)),
        Column::record("rate_low_per_second", |line| {
            line.number(|it| Some(it.rate_interval?.low_per_second))
        }),
        Column::record("rate_high_per_second", |line| {
            line.number(|it| Some(it.rate_interval?.high_per_second))
        }),
        Column::new("share_of_raw", "of raw", |line| {
            line.figure(Cell::Share, |it| it.share_of_raw)
        }),
        Column::new("share_of_below", "of below", |line| {
            line.figure(Cell::Share, |it| it.share_of_below)
        }),
        Column::record("published_share_of_raw", |line| {
            line.number(|it| it.published_share_of_raw)
        }),
        Column::new("time_per_operation_ns", "time/op", |line| {
            line.cell(|it| Cell::Latency(it.time_per_operation_ns))
        }),
        Column::record("latency_ns_mean", |line| {
            line.number(|it| Some(it.service.as_ref()?.mean_ns))
        }),
        Column::new("latency_ns_p50", "p50", |line| {
            line.figure(Cell::Latency, |it| it.service.as_ref()?.p50_ns.map(precise))
        }),
        Column::record("latency_ns_p99", |line| {
            line.number(|it| it.service.as_ref()?.p99_ns.map(precise))
        }),
        Column::new("added_to_below_ns_p50", "+ p50", |line| {
            line.figure(Cell::Added, |it| it.against_below?.latency_ns_p50)
        }),
        Column::new("added_to_below_ns_p99", "+ p99", |line| {
            line.figure(Cell::Added, |it| it.against_below?.latency_ns_p99)
        }),
        Column::record("added_to_raw_ns_p50", |line| {
            line.number(|it| it.against_raw?.latency_ns_p50)
        }),
        Column::record("added_to_raw_ns_p99", |line| {
            line.number(|it| it.against_raw?.latency_ns_p99)
        }),
        Column::new("cpu_ns_per_operation", "CPU/op", |line| {
            line.figure(Cell::Latency, |it| it.cpu_ns_per_operation)
        }),
        Column::new("cpu_ns_added_to_below", "+ CPU", |line| {
            line.figure(Cell::Added, |it| it.against_below?.cpu_ns_per_operation)
        }),
        Column::new("context_switches_per_operation", "switches", |line| {
            line.number(|it| it.context_switches_per_operation)
        }),
        Column::shown("+ sw.", |line| {
            line.figure(
                |more| Cell::text(format!("{more:+.2}")),
                |it| it.against_below?.context_switches_per_operation,
            )
        }),
        Column::shown("dev. writes", |line| line.cell(|it| device_cell(it, 0))),
        Column::shown("dev. bytes", |line| line.cell(|it| device_cell(it, 1))),
        Column::record("device_writes_per_write", |line| line.number(|it| devices(it)[0])),
        Column::record("device_bytes_per_byte", |line| line.number(|it| devices(it)[1])),
        Column::new("flushes_per_sync_call", "flushes", |line| line.number(|it| devices(it)[2])),
        Column::record("raid_theoretical_share", |line| {
            line.number(|it| it.raid.as_ref()?.theoretical_share)
        }),
        Column::record("raid_efficiency", |line| line.number(|it| it.raid.as_ref()?.efficiency)),
        Column::record("raid_efficiency_reads_counted", |line| {
            line.number(|it| it.raid.as_ref()?.efficiency_reads_counted)
        }),
        Column::record("raid_share_of_healthy", |line| {
            line.number(|it| it.raid.as_ref()?.share_of_healthy)
        }),
        Column::record("time_program_ns", |line| line.time(LatencyComponent::Program)),
        Column::record("time_entry_ns", |line| line.time(LatencyComponent::Entry)),
        Column::record("time_queued_ns", |line| line.time(LatencyComponent::Queued)),
        Column::record("time_device_ns", |line| line.time(LatencyComponent::Device)),
        Column::record("time_between_ns", |line| line.time(LatencyComponent::Between)),
        Column::record("time_exit_ns", |line| line.time(LatencyComponent::Exit)),
        Column::record("time_off_cpu_share", |line| {
            line.number(|it| Some(it.latency_breakdown.as_ref()?.off_cpu_share))
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
    lines(findings, workload).filter_map(move |it| {
        let raid = it.row.figures.as_ref()?.raid.as_ref()?;
        Some((row_name(findings, it.row.point), raid, it.point()?.raid.as_ref()?))
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
            ("of drives", |(_, it, _)| share(it.share_of_drives)),
            ("theory", |(_, it, _)| share(it.theoretical_share)),
            ("efficiency", |(_, it, _)| share(it.efficiency)),
            ("theory*", |(_, it, _)| share(it.theoretical_share_reads_counted)),
            ("efficiency*", |(_, it, _)| share(it.efficiency_reads_counted)),
            ("of whole", |(_, it, _)| share(it.share_of_healthy)),
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
            ("layer", |it| Cell::text(&it.name)),
            ("published of raw", |it| Cell::Share(it.published)),
            ("measured of raw", |it| Cell::or_absent(it.measured, Cell::Share)),
            ("×", |it| {
                Cell::or_absent(it.measured.map(|measured| measured / it.published), Cell::Number)
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
