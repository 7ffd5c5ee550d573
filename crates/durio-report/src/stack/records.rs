//! A bench of stacks as records: one per workload and point.
//!
//! Figures are in the units of the JSON document. Not here: waterfalls, mirrors' distributions,
//! warnings.

use durio_analyse::attribution::{
    DeviceCost, LayerRow, PointFacts, RowFigures, StackFindings, Timing, WorkloadRows,
};
use durio_analyse::{Stretch, TimeSlices};

use crate::document::{Cell, Table};

struct Line<'f> {
    findings: &'f StackFindings,
    workload: &'f WorkloadRows,
    point: &'f PointFacts,
    row: &'f LayerRow,
}

impl Line<'_> {
    fn number(&self, figure: impl Fn(&RowFigures) -> Option<f64>) -> Cell {
        Cell::of(self.row.figures.as_ref().and_then(figure), Cell::Number)
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn nanos(&self, figure: impl Fn(&RowFigures) -> Option<u64>) -> Cell {
        self.number(|it| figure(it).map(|it| it as f64))
    }

    fn time(&self, stretch: Stretch) -> Cell {
        let mean = |it: &TimeSlices| it.slice(stretch).map(|slice| slice.mean_ns);
        self.number(|it| it.time_slices.as_ref().and_then(mean))
    }
}

pub(super) fn records(findings: &StackFindings) -> Table {
    let lines = findings.workloads.iter().flat_map(|workload| {
        workload.rows.iter().filter_map(move |row| {
            Some(Line { findings, workload, point: findings.points.get(row.point)?, row })
        })
    });
    Table::of(
        lines,
        [
            ("bench", |it| Cell::text(&it.findings.name)),
            ("timing", |it| Cell::text(timing(it.findings.timing))),
            ("workload", |it| Cell::text(&it.workload.label)),
            ("stack", |it| Cell::text(&it.point.stack)),
            ("layer", |it| Cell::text(&it.point.layer)),
            ("name", |it| Cell::text(&it.point.name)),
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
            ("time_program_ns", |it| it.time(Stretch::Program)),
            ("time_entry_ns", |it| it.time(Stretch::Entry)),
            ("time_queued_ns", |it| it.time(Stretch::Queued)),
            ("time_device_ns", |it| it.time(Stretch::Device)),
            ("time_between_ns", |it| it.time(Stretch::Between)),
            ("time_exit_ns", |it| it.time(Stretch::Exit)),
            ("time_off_cpu_share", |it| {
                it.number(|it| Some(it.time_slices.as_ref()?.off_cpu_share))
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

/// Writes per write, bytes per byte, flushes per sync call.
fn devices(it: &RowFigures) -> [Option<f64>; 3] {
    match it.devices {
        Some(DeviceCost::Counted { writes_per_write, bytes_per_byte, flushes_per_sync_call }) => {
            [Some(writes_per_write), Some(bytes_per_byte), flushes_per_sync_call]
        }
        Some(DeviceCost::Traced { writes_per_write, bytes_per_byte }) => {
            [Some(writes_per_write), Some(bytes_per_byte), None]
        }
        _ => [None; 3],
    }
}
