//! What one point costs, by itself and against another.
//!
//! In: measurements. Out: figures of a row. Not here: which point is compared with which.

use durio_record::OperationName;

use super::findings::{Added, DeviceCost, RowFigures};
use super::interval::interval;
use super::point::{BaseKind, Point};
use super::steps::{Measured, StepKey};
use crate::TimeSlices;
use crate::campaign::RowLatency;
use crate::durable::device::device_work;

/// The figures that need no other point.
pub(super) fn of_itself(point: &Point<'_>, key: &StepKey, measured: &Measured<'_>) -> RowFigures {
    // The run counts a sync call as an operation; beside the time of a write it is a part of it.
    let each = measured.engine_operations_each();
    RowFigures {
        rate_per_second: measured.rate(),
        rate_interval: interval(measured),
        repeats: measured.rates.len(),
        time_per_operation_ns: 1e9 / measured.rate(),
        service: service(measured),
        cpu_ns_per_operation: positive(measured.found.cpu.per_operation_ns * each),
        context_switches_per_operation: switches(measured).map(|it| it * each),
        involuntary_switches_per_operation: measured
            .found
            .involuntary_switches_per_operation
            .map(|it| it * each),
        raw_point: None,
        share_of_raw: None,
        share_of_below: None,
        against_raw: None,
        against_below: None,
        devices: devices(point, measured),
        time_slices: slices(measured),
        raid: None,
        mirror: None,
        published_share_of_raw: key.published(point).map(|it| it.share_of_raw),
        remarks: measured.left_out.iter().cloned().collect(),
    }
}

fn switches(measured: &Measured<'_>) -> Option<f64> {
    let waited = measured.found.context_switches_per_operation?;
    Some(waited + measured.found.involuntary_switches_per_operation.unwrap_or(0.0))
}

/// Where the time went, if anything could be traced.
fn slices(measured: &Measured<'_>) -> Option<TimeSlices> {
    measured.found.time_slices.clone().filter(|it| !it.slices.is_empty())
}

fn service(measured: &Measured<'_>) -> Option<RowLatency> {
    let service = &measured.headline()?.service;
    let mean_ns = positive(service.mean_ns)?;
    let (p50_ns, p99_ns, p99_9_ns) = (service.p50_ns, service.p99_ns, service.p99_9_ns);
    Some(RowLatency { mean_ns, p50_ns, p99_ns, p99_9_ns })
}

/// A figure that was taken: what was not counted is zero, and some counters are broken.
fn positive(figure: f64) -> Option<f64> {
    (figure > 0.0 && figure.is_finite()).then_some(figure)
}

/// What reached the devices for each write.
fn devices(point: &Point<'_>, measured: &Measured<'_>) -> Option<DeviceCost> {
    let found = measured.found;
    if !found.definition.writes() {
        return None;
    }
    let writes = found.operation(OperationName::Commit).or(found.operation(OperationName::Write));
    let cannot_tell = |why: &str| {
        Some(traced(measured).unwrap_or_else(|| DeviceCost::CannotTell { why: why.to_owned() }))
    };
    let Some(work) = writes.and_then(|writes| device_work(found, writes)) else {
        return cannot_tell("no device below has counters");
    };
    if work.writes_per_commit == 0.0 {
        return cannot_tell(match point.base.kind {
            BaseKind::Ram => "RAM disks count nothing",
            _ => "the devices below counted no write: it stayed in memory, or they count nothing",
        });
    }
    Some(DeviceCost::Counted {
        writes_per_write: work.writes_per_commit,
        bytes_per_byte: work.bytes_per_byte,
        flushes_per_sync_call: work.flushes_per_sync_call,
    })
}

/// What traced operations queued to the lowest devices, of workloads that only write blocks of one
/// size: of others nobody knows which operations were traced.
fn traced(measured: &Measured<'_>) -> Option<DeviceCost> {
    let definition = &measured.found.definition;
    if definition.reads() || definition.has_mix() {
        return None;
    }
    let slices = measured.found.time_slices.as_ref()?;
    let lowest = || slices.devices.iter().filter(|device| device.lowest);
    let writes_per_write: f64 = lowest().map(|device| device.writes).sum();
    let bytes: f64 = lowest().map(|device| device.written_bytes).sum();
    #[expect(clippy::cast_precision_loss, reason = "a block is far below 2⁵³ bytes")]
    let bytes_per_byte = bytes / definition.block_size.get() as f64;
    (writes_per_write > 0.0 && bytes_per_byte.is_finite())
        .then_some(DeviceCost::Traced { writes_per_write, bytes_per_byte })
}

/// What `upper` adds to `lower`, the point at `point`.
pub(super) fn added(upper: &RowFigures, lower: &RowFigures, point: usize) -> Added {
    let latency = |of: fn(&RowLatency) -> Option<f64>| {
        difference(upper.service.as_ref().and_then(of), lower.service.as_ref().and_then(of))
    };
    let (cpu, switches) = (upper.cpu_ns_per_operation, upper.context_switches_per_operation);
    Added {
        point,
        time_per_operation_ns: upper.time_per_operation_ns - lower.time_per_operation_ns,
        latency_ns_mean: latency(|it| Some(it.mean_ns)),
        latency_ns_p50: latency(|it| it.p50_ns.map(precise)),
        latency_ns_p99: latency(|it| it.p99_ns.map(precise)),
        cpu_ns_per_operation: difference(cpu, lower.cpu_ns_per_operation),
        context_switches_per_operation: difference(switches, lower.context_switches_per_operation),
    }
}

fn difference(upper: Option<f64>, lower: Option<f64>) -> Option<f64> {
    Some(upper? - lower?)
}

/// A latency as a figure.
#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
pub(super) fn precise(nanos: u64) -> f64 {
    nanos as f64
}
