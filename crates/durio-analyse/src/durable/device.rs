//! What reached the devices for each write: flushes, writes, bytes.
//!
//! In: the findings of a step with the kernel's counters. Out: [`DeviceWork`]. Not here: the
//! commands one by one, which only a trace tells. Others' I/O is in the counters, and a write that
//! bypasses the cache (FUA) is counted as a write, not as a flush.

use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use crate::{OperationFindings, WorkloadFindings};

/// Bytes of a sector in the kernel's counters, whatever the device.
const SECTOR: f64 = 512.0;

/// What the devices did for each commit (or write), all of them together; a ramp is taken to be as
/// fast as the rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeviceWork {
    /// Flushes per commit; `None` if a device does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_per_commit: Option<f64>,
    /// Flushes per sync call, where the method is a call of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_per_sync_call: Option<f64>,
    /// Writes per commit.
    pub writes_per_commit: f64,
    /// Bytes written per byte that the application wrote.
    pub bytes_per_byte: f64,
}

/// `None` without operations, or without counters of every device.
pub(crate) fn device_work(
    found: &WorkloadFindings,
    operation: &OperationFindings,
) -> Option<DeviceWork> {
    let span = found.in_flight.span.max(found.measured).as_secs_f64();
    let commits = operation.rate * span;
    let is_counted = found.devices.iter().all(|device| !device.not_counted);
    if found.devices.is_empty() || !is_counted || commits < 1.0 {
        return None;
    }
    let sum = |of: fn(&durio_observe::DeviceCounters) -> u64| {
        precise(found.devices.iter().map(of).fold(0, u64::saturating_add))
    };
    let counted: Option<Vec<u64>> = found.devices.iter().map(|it| it.flushes_completed).collect();
    let flushes = counted.map(|all| precise(all.into_iter().fold(0, u64::saturating_add)));
    let calls = found.operation(OperationName::Sync).map(|it| it.rate * span);
    let asked = found.operation(OperationName::Write).unwrap_or(operation).bandwidth * span;
    let bytes_per_byte = sum(|it| it.sectors_written) * SECTOR / asked;
    Some(DeviceWork {
        flushes_per_commit: flushes.map(|it| it / commits),
        flushes_per_sync_call: flushes
            .zip(calls)
            .filter(|(_, calls)| *calls >= 1.0)
            .map(|(flushes, calls)| flushes / calls),
        writes_per_commit: sum(|it| it.writes_completed) / commits,
        bytes_per_byte: if bytes_per_byte.is_finite() { bytes_per_byte } else { 0.0 },
    })
}

#[expect(clippy::cast_precision_loss, reason = "a count of requests")]
fn precise(number: u64) -> f64 {
    number as f64
}
