//! Counters of the system around a step.

use durio_stack::{CpuCounters, DeviceCounters, read_cpu_counters, read_device_counters};
use durio_units::{Bytes, Nanos};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// A reading of everything that is watched; what cannot be read is absent.
pub(crate) struct Watch {
    cpu: Option<CpuCounters>,
    devices: Vec<DeviceCounters>,
    process: (Nanos, Nanos),
}

/// What happened between two readings.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) cpu: Option<CpuCounters>,
    pub(crate) devices: Vec<DeviceCounters>,
    /// User and system CPU time of this process, the kernel's workers for it included, without
    /// the coordinator's own.
    pub(crate) process: (Nanos, Nanos),
}

impl Watch {
    pub(crate) fn read(devices: &[String]) -> Self {
        Self {
            cpu: read_cpu_counters().ok(),
            devices: devices.iter().filter_map(|name| read_device_counters(name).ok()).collect(),
            process: process_cpu_time(),
        }
    }

    /// What happened since `earlier`; a device that came or went meanwhile is left out.
    pub(crate) fn since(&self, earlier: &Self) -> Watched {
        let cpu = self.cpu.as_ref().zip(earlier.cpu.as_ref());
        let devices = self.devices.iter().filter_map(|now| {
            let before = earlier.devices.iter().find(|before| before.name == now.name)?;
            Some(now.saturating_since(before))
        });
        Watched {
            cpu: cpu.map(|(now, before)| now.saturating_since(before)),
            devices: devices.collect(),
            process: (
                self.process.0.saturating_sub(earlier.process.0),
                self.process.1.saturating_sub(earlier.process.1),
            ),
        }
    }
}

/// CPU time of this process so far, without that of the calling thread: user, system.
fn process_cpu_time() -> (Nanos, Nanos) {
    let (user, system) = cpu_time(UsageWho::RUSAGE_SELF);
    let (own_user, own_system) = thread_cpu_time();
    (user.saturating_sub(own_user), system.saturating_sub(own_system))
}

/// CPU time of the calling thread so far: user, system.
pub(crate) fn thread_cpu_time() -> (Nanos, Nanos) {
    cpu_time(UsageWho::RUSAGE_THREAD)
}

fn cpu_time(who: UsageWho) -> (Nanos, Nanos) {
    match getrusage(who) {
        Ok(usage) => (nanos(usage.user_time()), nanos(usage.system_time())),
        Err(_) => (Nanos::ZERO, Nanos::ZERO),
    }
}

/// The largest resident memory of this process so far.
pub(crate) fn memory_max() -> Bytes {
    let kib = getrusage(UsageWho::RUSAGE_SELF).map(|usage| usage.max_rss()).unwrap_or(0);
    Bytes::from_kib(u64::try_from(kib).unwrap_or(0))
}

fn nanos(time: TimeVal) -> Nanos {
    let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
    Nanos::from_micros(u64::try_from(micros).unwrap_or(0))
}
