//! A bench of stacks as records: one per workload and point.
//!
//! Figures are in the units of the JSON document. Not here: waterfalls, mirrors' distributions,
//! warnings.

use durio_analyse::Stretch;
use durio_analyse::attribution::{
    DeviceCost, LayerRow, PointFacts, RowFigures, StackFindings, Timing, WorkloadRows,
};

use crate::document::{Cell, Table};

const COLUMNS: [&str; 39] = [
    "bench",
    "timing",
    "workload",
    "stack",
    "layer",
    "name",
    "absent",
    "repeats",
    "rate_per_second",
    "rate_low_per_second",
    "rate_high_per_second",
    "share_of_raw",
    "share_of_below",
    "published_share_of_raw",
    "time_per_operation_ns",
    "latency_ns_mean",
    "latency_ns_p50",
    "latency_ns_p99",
    "added_to_below_ns_p50",
    "added_to_below_ns_p99",
    "added_to_raw_ns_p50",
    "added_to_raw_ns_p99",
    "cpu_ns_per_operation",
    "cpu_ns_added_to_below",
    "context_switches_per_operation",
    "device_writes_per_write",
    "device_bytes_per_byte",
    "flushes_per_sync_call",
    "raid_theoretical_share",
    "raid_efficiency",
    "raid_efficiency_reads_counted",
    "raid_share_of_healthy",
    "time_program_ns",
    "time_entry_ns",
    "time_queued_ns",
    "time_device_ns",
    "time_between_ns",
    "time_exit_ns",
    "time_off_cpu_share",
];

pub(super) fn records(findings: &StackFindings) -> Table {
    let mut records = Table::new(COLUMNS);
    for workload in &findings.workloads {
        for row in &workload.rows {
            let Some(point) = findings.points.get(row.point) else { continue };
            records.row(record(findings, workload, point, row));
        }
    }
    records
}

fn record(
    findings: &StackFindings,
    workload: &WorkloadRows,
    point: &PointFacts,
    row: &LayerRow,
) -> Vec<Cell> {
    let timing = match findings.timing {
        None => "",
        Some(Timing::Counted) => "counted",
        Some(Timing::Wall) => "wall",
    };
    let absent = row.absent.as_deref().unwrap_or_default();
    let mut record: Vec<Cell> =
        [&findings.name, timing, &workload.label, &point.stack, &point.layer, &point.name, absent]
            .map(Cell::text)
            .into();
    if let Some(figures) = &row.figures {
        record.push(Cell::text(figures.repeats.to_string()));
        let figures = rates(figures).into_iter().chain(costs(figures));
        record.extend(figures.map(|it| Cell::of(it, Cell::Number)));
    }
    record.resize(COLUMNS.len(), Cell::Empty);
    record
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
fn rates(it: &RowFigures) -> [Option<f64>; 14] {
    let service = it.service.as_ref();
    let precise = |nanos: Option<u64>| nanos.map(|it| it as f64);
    let (below, raw) = (it.against_below.as_ref(), it.against_raw.as_ref());
    [
        Some(it.rate_per_second),
        it.rate_interval.map(|it| it.low_per_second),
        it.rate_interval.map(|it| it.high_per_second),
        it.share_of_raw,
        it.share_of_below,
        it.published_share_of_raw,
        Some(it.time_per_operation_ns),
        service.map(|it| it.mean_ns),
        precise(service.and_then(|it| it.p50_ns)),
        precise(service.and_then(|it| it.p99_ns)),
        below.and_then(|it| it.latency_ns_p50),
        below.and_then(|it| it.latency_ns_p99),
        raw.and_then(|it| it.latency_ns_p50),
        raw.and_then(|it| it.latency_ns_p99),
    ]
}

fn costs(it: &RowFigures) -> [Option<f64>; 17] {
    let [writes, bytes, flushes] = match &it.devices {
        Some(DeviceCost::Counted { writes_per_write, bytes_per_byte, flushes_per_sync_call }) => {
            [Some(*writes_per_write), Some(*bytes_per_byte), *flushes_per_sync_call]
        }
        Some(DeviceCost::Traced { writes_per_write, bytes_per_byte }) => {
            [Some(*writes_per_write), Some(*bytes_per_byte), None]
        }
        _ => [None; 3],
    };
    let raid = it.raid.as_ref();
    let slices = it.time_slices.as_ref();
    let slice = |stretch| slices?.slice(stretch).map(|slice| slice.mean_ns);
    let [program, entry, queued, device, between, exit] = Stretch::ALL.map(slice);
    [
        it.cpu_ns_per_operation,
        it.against_below.and_then(|it| it.cpu_ns_per_operation),
        it.context_switches_per_operation,
        writes,
        bytes,
        flushes,
        raid.and_then(|it| it.theoretical_share),
        raid.and_then(|it| it.efficiency),
        raid.and_then(|it| it.efficiency_reads_counted),
        raid.and_then(|it| it.share_of_healthy),
        program,
        entry,
        queued,
        device,
        between,
        exit,
        slices.map(|slices| slices.off_cpu_share),
    ]
}
