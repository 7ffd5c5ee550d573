//! The tables of a bench, for people and as records.
//!
//! Makes [`Table`]s from findings, and the remarks under them.

use durio_analyse::attribution::{
    DeviceCost, IntervalBasis, LayerRow, PointFacts, RaidFacts, RaidRow, RowFigures, StackFindings,
    Timing, WorkloadRows,
};
use durio_analyse::{LatencyBreakdown, LatencyComponent};

use super::row_name;
use crate::document::{Cell, Table};
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

    fn name(&self) -> Cell {
        Cell::Text(row_name(self.findings, self.row.point))
    }

    fn cell(&self, cell: impl Fn(&RowFigures) -> Cell) -> Cell {
        Cell::or_absent(self.row.figures.as_ref(), cell)
    }

    fn figure(&self, kind: fn(f64) -> Cell, figure: impl Fn(&RowFigures) -> Option<f64>) -> Cell {
        self.cell(|it| Cell::or_absent(figure(it), kind))
    }

    // For records, which have an empty cell where people see a sign.
    fn number(&self, figure: impl Fn(&RowFigures) -> Option<f64>) -> Cell {
        Cell::of(self.row.figures.as_ref().and_then(figure), Cell::Number)
    }

    fn nanos(&self, figure: impl Fn(&RowFigures) -> Option<u64>) -> Cell {
        self.number(|it| figure(it).map(precise))
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

pub(super) fn rates(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    Table::with_columns(
        lines(findings, workload),
        [
            ("layer", LayerLine::name),
            ("per s", |it| it.cell(|it| Cell::Rate(it.rate_per_second))),
            ("±", |it| it.cell(interval)),
            ("of raw", |it| it.figure(Cell::Share, |it| it.share_of_raw)),
            ("of below", |it| it.figure(Cell::Share, |it| it.share_of_below)),
            ("p50", |it| it.figure(Cell::Latency, |it| it.service.as_ref()?.p50_ns.map(precise))),
            ("+ p50", |it| it.figure(Cell::Added, |it| it.against_below?.latency_ns_p50)),
            ("+ p99", |it| it.figure(Cell::Added, |it| it.against_below?.latency_ns_p99)),
        ],
    )
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
    fn switches(more: f64) -> Cell {
        Cell::text(format!("{more:+.2}"))
    }
    Table::with_columns(
        lines(findings, workload),
        [
            ("layer", LayerLine::name),
            ("time/op", |it| it.cell(|it| Cell::Latency(it.time_per_operation_ns))),
            ("CPU/op", |it| it.figure(Cell::Latency, |it| it.cpu_ns_per_operation)),
            ("+ CPU", |it| it.figure(Cell::Added, |it| it.against_below?.cpu_ns_per_operation)),
            ("switches", |it| it.figure(Cell::Number, |it| it.context_switches_per_operation)),
            ("+ sw.", |it| {
                it.figure(switches, |it| it.against_below?.context_switches_per_operation)
            }),
            ("dev. writes", |it| it.cell(|it| device_cell(it, 0))),
            ("dev. bytes", |it| it.cell(|it| device_cell(it, 1))),
            ("flushes", |it| it.cell(|it| device_cell(it, 2))),
        ],
    )
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

/// One for each workload and point, in the units of the JSON document.
pub(super) fn records(findings: &StackFindings) -> Table {
    fn of_point(it: &LayerLine<'_>, text: fn(&PointFacts) -> &String) -> Cell {
        Cell::of(it.point().map(text), Cell::text)
    }
    let all = findings.workloads.iter().flat_map(|it| lines(findings, it));
    Table::with_columns(
        all.filter(|it| it.point().is_some()),
        [
            ("bench", |it| Cell::text(&it.findings.name)),
            ("timing", |it| Cell::text(timing(it.findings.timing))),
            ("workload", |it| Cell::text(&it.workload.label)),
            ("stack", |it| of_point(it, |it| &it.stack)),
            ("layer", |it| of_point(it, |it| &it.layer)),
            ("name", |it| of_point(it, |it| &it.name)),
            ("absent", |it| Cell::of(it.row.absent.as_ref(), Cell::text)),
            ("repeats", |it| {
                Cell::of(it.row.figures.as_ref(), |it| Cell::text(it.repeats.to_string()))
            }),
            ("rate_per_second", |it| it.number(|it| Some(it.rate_per_second))),
            ("rate_low_per_second", |it| it.number(|it| Some(it.rate_interval?.low_per_second))),
            ("rate_high_per_second", |it| it.number(|it| Some(it.rate_interval?.high_per_second))),
            ("share_of_raw", |it| it.number(|it| it.share_of_raw)),
            ("share_of_below", |it| it.number(|it| it.share_of_below)),
            ("published_share_of_raw", |it| it.number(|it| it.published_share_of_raw)),
            ("time_per_operation_ns", |it| it.number(|it| Some(it.time_per_operation_ns))),
            ("latency_ns_mean", |it| it.number(|it| Some(it.service.as_ref()?.mean_ns))),
            ("latency_ns_p50", |it| it.nanos(|it| it.service.as_ref()?.p50_ns)),
            ("latency_ns_p99", |it| it.nanos(|it| it.service.as_ref()?.p99_ns)),
            ("added_to_below_ns_p50", |it| it.number(|it| it.against_below?.latency_ns_p50)),
            ("added_to_below_ns_p99", |it| it.number(|it| it.against_below?.latency_ns_p99)),
            ("added_to_raw_ns_p50", |it| it.number(|it| it.against_raw?.latency_ns_p50)),
            ("added_to_raw_ns_p99", |it| it.number(|it| it.against_raw?.latency_ns_p99)),
            ("cpu_ns_per_operation", |it| it.number(|it| it.cpu_ns_per_operation)),
            ("cpu_ns_added_to_below", |it| it.number(|it| it.against_below?.cpu_ns_per_operation)),
            ("context_switches_per_operation", |it| {
                it.number(|it| it.context_switches_per_operation)
            }),
            ("device_writes_per_write", |it| it.number(|it| devices(it)[0])),
            ("device_bytes_per_byte", |it| it.number(|it| devices(it)[1])),
            ("flushes_per_sync_call", |it| it.number(|it| devices(it)[2])),
            ("raid_theoretical_share", |it| it.number(|it| it.raid.as_ref()?.theoretical_share)),
            ("raid_efficiency", |it| it.number(|it| it.raid.as_ref()?.efficiency)),
            ("raid_efficiency_reads_counted", |it| {
                it.number(|it| it.raid.as_ref()?.efficiency_reads_counted)
            }),
            ("raid_share_of_healthy", |it| it.number(|it| it.raid.as_ref()?.share_of_healthy)),
            ("time_program_ns", |it| it.time(LatencyComponent::Program)),
            ("time_entry_ns", |it| it.time(LatencyComponent::Entry)),
            ("time_queued_ns", |it| it.time(LatencyComponent::Queued)),
            ("time_device_ns", |it| it.time(LatencyComponent::Device)),
            ("time_between_ns", |it| it.time(LatencyComponent::Between)),
            ("time_exit_ns", |it| it.time(LatencyComponent::Exit)),
            ("time_off_cpu_share", |it| {
                it.number(|it| Some(it.latency_breakdown.as_ref()?.off_cpu_share))
            }),
        ],
    )
}

const fn timing(timing: Option<Timing>) -> &'static str {
    match timing {
        None => "",
        Some(Timing::Counted) => "counted",
        Some(Timing::Wall) => "wall",
    }
}
