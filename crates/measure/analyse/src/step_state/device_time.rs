//! The device's time for the requests of a stream, against the recorded latencies. The record of
//! all phases, and the kernel's counters of the devices over the same time, give [`DeviceTime`],
//! where the path permits it: one device that counts, past the page cache or waited for, and about
//! as many requests as operations. Little's law cannot see time that durio adds by looking late,
//! because it is in both of its sides; this can.

use durio_base::stats::least_squares::quotient;
use durio_observe::DeviceCounters;
use durio_workload::CacheMode;

use super::StreamState;
use crate::DeviceTime;

/// Requests per access may deviate by this share.
// They may be others' or the journal's, or be missing because two were merged.
const OTHERS_MAX: f64 = 0.1;

const NANOS_PER_MILLI: u64 = 1_000_000;

impl StreamState {
    /// `waits`: every write is durable before the next, so its requests are waited for.
    pub(super) fn device_time(&self, alone: bool, waits: bool) -> Option<DeviceTime> {
        let device = counting(&self.ended.as_ref()?.devices)?;
        let is_direct = self.started.cache == CacheMode::Direct;
        let requests = device.reads_completed.saturating_add(device.writes_completed);
        let per_access = quotient(requests, self.accesses_ever);
        // A sync may write the blocks of a journal or an inode.
        let most = if waits { f64::MAX } else { 1.0 + OTHERS_MAX };
        let permitted = (1.0 - OTHERS_MAX..=most).contains(&per_access);
        // Counters are per device, not per stream; and later writeback by the page cache is not
        // part of any latency.
        if !(alone && permitted && (is_direct || waits)) {
            return None;
        }
        // Kernels before 5.5 do not count flushes; their time then counts as outside.
        let flushes = device.flush_ms.unwrap_or(0);
        let millis = device.read_ms.saturating_add(device.write_ms).saturating_add(flushes);
        let at_device = millis.saturating_mul(NANOS_PER_MILLI);
        // Concurrent requests of one operation: the sum of their times exceeds its time.
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
    let has = |device: &&DeviceCounters| device.reads_completed > 0 || device.writes_completed > 0;
    match devices {
        all if all.iter().any(|device| device.not_counted) => None,
        all => match &all.iter().filter(has).collect::<Vec<_>>()[..] {
            [device] => Some(device),
            _ => None,
        },
    }
}

/// The counters; `has_io` says that something must have reached the devices. If no counter moved
/// anyway, the devices do not count, and their zeros mean nothing.
pub(super) fn counted(mut devices: Vec<DeviceCounters>, has_io: bool) -> Vec<DeviceCounters> {
    if has_io && devices.iter().all(DeviceCounters::is_zero) {
        devices.iter_mut().for_each(|device| device.not_counted = true);
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(writes_completed: u64) -> DeviceCounters {
        DeviceCounters { writes_completed, ..DeviceCounters::default() }
    }

    #[test]
    fn zeros_of_devices_that_were_written_to_are_no_figures() {
        let marked = |devices, has_io| -> Vec<bool> {
            counted(devices, has_io).iter().map(|device| device.not_counted).collect()
        };
        assert_eq!(marked(vec![device(0), device(0)], true), [true, true]);
        // One member of an array may well have had nothing to do.
        assert_eq!(marked(vec![device(0), device(9)], true), [false, false]);
        assert_eq!(marked(vec![device(0)], false), [false]);
        assert_eq!(marked(vec![], true), [] as [bool; 0]);
    }
}
