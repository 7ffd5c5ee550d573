//! The device's own time for the requests of a stream, beside the latencies that were recorded.
//!
//! In: what was recorded in all phases, and the kernel's counters of the devices over the same time.
//! Out: [`DeviceTime`], where the path permits it: one device that counts, past the page cache or
//! waited for, and about as many requests as operations. Little's law cannot see time that durio
//! adds by looking late, for it is in both of its sides; this can.

use durio_observe::DeviceCounters;
use durio_workload::CacheMode;

use super::{StreamState, quotient};
use crate::DeviceTime;

/// Requests per access that may be others' (a journal's, another program's), or missing because two
/// were merged.
const OTHERS_MAX: f64 = 0.1;

const NANOS_PER_MILLI: u64 = 1_000_000;

impl StreamState {
    /// `waits` says that every write is made durable before the next: then its requests are waited
    /// for, also through the page cache.
    pub(super) fn device_time(&self, alone: bool, waits: bool) -> Option<DeviceTime> {
        let device = counting(&self.ended.as_ref()?.devices)?;
        let is_direct = self.started.cache == CacheMode::Direct;
        let requests = device.reads_completed.saturating_add(device.writes_completed);
        let per_access = quotient(requests, self.accesses_ever);
        // A sync may write what a journal or an inode needs.
        let most = if waits { f64::MAX } else { 1.0 + OTHERS_MAX };
        let permitted = (1.0 - OTHERS_MAX..=most).contains(&per_access);
        if !(alone && permitted && (is_direct || waits)) {
            return None;
        }
        let flushes = device.flush_ms.unwrap_or(0);
        let millis = device.read_ms.saturating_add(device.write_ms).saturating_add(flushes);
        let at_device = millis.saturating_mul(NANOS_PER_MILLI);
        // Requests side by side for one operation: their times are no part of its time.
        let outside = self.latency_sum_ns.checked_sub(at_device)?;
        Some(DeviceTime {
            device: device.name.clone(),
            requests_per_access: per_access,
            request_ns_mean: quotient(at_device, requests),
            outside_ns_mean: quotient(outside, self.accesses_ever),
            outside_share: quotient(outside, self.latency_sum_ns),
        })
    }
}

/// The one device that counted requests.
fn counting(devices: &[DeviceCounters]) -> Option<&DeviceCounters> {
    let has = |it: &&DeviceCounters| it.reads_completed > 0 || it.writes_completed > 0;
    match devices {
        all if all.iter().any(|it| it.not_counted) => None,
        all => match &all.iter().filter(has).collect::<Vec<_>>()[..] {
            [device] => Some(device),
            _ => None,
        },
    }
}
