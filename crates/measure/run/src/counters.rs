//! Counters of the system around a step.

use durio_base::{Bytes, Nanos};
use durio_observe::{CpuCounters, DeviceCounters, read_cpu_counters, read_device_counters};
use durio_record::{ContextSwitches, Outcome, StepEnded};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// A reading of all counters; those that cannot be read are absent.
pub(crate) struct CounterReading {
    cpu: Option<CpuCounters>,
    devices: Vec<DeviceCounters>,
    process: ThreadUsage,
}

/// What happened between two readings.
#[derive(Debug)]
pub(crate) struct CounterChanges {
    pub(crate) cpu: Option<CpuCounters>,
    pub(crate) devices: Vec<DeviceCounters>,
    /// What this process used, the kernel's workers for it included, without the coordinator's
    /// own.
    pub(crate) process: ThreadUsage,
}

impl CounterReading {
    pub(crate) fn read(devices: &[String]) -> Self {
        Self {
            cpu: read_cpu_counters().ok(),
            devices: devices.iter().filter_map(|name| read_device_counters(name).ok()).collect(),
            // The calling thread records; that cost is durio's and not the load's.
            process: ThreadUsage::of_process().since(ThreadUsage::of_thread()),
        }
    }

    /// The counts since `earlier`; a device that appeared or vanished in between is left out.
    pub(crate) fn since(&self, earlier: &Self) -> CounterChanges {
        let cpu = self.cpu.as_ref().zip(earlier.cpu.as_ref());
        // By name and not by place: a device may have come or gone.
        let devices = self.devices.iter().filter_map(|now| {
            let before = earlier.devices.iter().find(|before| before.name == now.name)?;
            Some(now.saturating_since(before))
        });
        CounterChanges {
            cpu: cpu.map(|(now, before)| now.saturating_since(before)),
            devices: devices.collect(),
            process: self.process.since(earlier.process),
        }
    }
}

impl CounterChanges {
    /// The end of a step, without the parts that only steps with durio's jobs know.
    pub(crate) fn step_ended(
        self,
        step: u32,
        round: u32,
        outcome: Outcome,
        measured: Nanos,
    ) -> StepEnded {
        StepEnded {
            step,
            round,
            outcome,
            measured,
            cpu: self.cpu,
            devices: self.devices,
            cpu_process_user: None,
            cpu_process_system: None,
            idle_before: None,
            context_switches: None,
        }
    }
}

/// What threads have used of the processors.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadUsage {
    /// CPU time in programs.
    pub(crate) user: Nanos,
    /// CPU time in the kernel.
    pub(crate) system: Nanos,
    /// None if the kernel does not report it.
    pub(crate) switches: Option<ContextSwitches>,
}

impl ThreadUsage {
    /// The calling thread's usage so far: one system call.
    pub(crate) fn of_thread() -> Self {
        Self::of(UsageWho::RUSAGE_THREAD)
    }

    /// The usage of all threads of this process so far, ended ones included.
    fn of_process() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    fn of(who: UsageWho) -> Self {
        let Ok(usage) = getrusage(who) else { return Self::default() };
        let count = |number| u64::try_from(number).unwrap_or(0);
        Self {
            user: nanos(usage.user_time()),
            system: nanos(usage.system_time()),
            switches: Some(ContextSwitches {
                voluntary: count(usage.voluntary_context_switches()),
                involuntary: count(usage.involuntary_context_switches()),
            }),
        }
    }

    /// The usage after `earlier`, or outside it.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let switches = self.switches.zip(earlier.switches);
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            switches: switches.map(|(now, before)| now.saturating_since(before)),
        }
    }

    /// What both used.
    pub(crate) fn plus(self, other: Self) -> Self {
        let sum = |a: Nanos, b: Nanos| Nanos::new(a.get().saturating_add(b.get()));
        let switches = self.switches.zip(other.switches);
        Self {
            user: sum(self.user, other.user),
            system: sum(self.system, other.system),
            switches: switches.map(|(a, b)| a.saturating_add(b)),
        }
    }
}

/// The largest resident memory of this process so far.
pub(crate) fn memory_max() -> Bytes {
    let kib = getrusage(UsageWho::RUSAGE_SELF).map(|usage| usage.max_rss()).unwrap_or(0);
    // ru_maxrss is in KiB (getrusage(2)).
    Bytes::from_kib(u64::try_from(kib).unwrap_or(0))
}

fn nanos(time: TimeVal) -> Nanos {
    let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
    Nanos::from_micros(u64::try_from(micros).unwrap_or(0))
}
