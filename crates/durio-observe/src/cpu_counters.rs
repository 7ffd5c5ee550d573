//! The kernel's counters of all processors together.
//!
//! In: `/proc/stat` and the control group's `cpu.stat`. Out: [`CpuCounters`] and differences.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cgroup::throttled_usec;
use crate::system_dir::{SystemDir, line_after};
use crate::{StackError, StackErrorKind};

/// How the processors spent their time since start, or between two readings, in clock ticks
/// (1/100 s on every common system), summed over processors.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuCounters {
    /// In programs.
    pub user: u64,
    /// In programs of lowered priority.
    pub nice: u64,
    /// In the kernel.
    pub system: u64,
    /// Doing nothing.
    pub idle: u64,
    /// Doing nothing while I/O was under way; unreliable, says the kernel.
    pub iowait: u64,
    /// Serving interrupts.
    pub irq: u64,
    /// Serving soft interrupts.
    pub softirq: u64,
    /// Taken by the hypervisor for others.
    pub steal: u64,
    /// Microseconds for which this process's control groups were held back; absent where no group
    /// has a limit on processors to show.
    pub cgroup_throttled_usec: Option<u64>,
    /// Context switches of all processors; absent in records that have it not. Unlike the rest these
    /// are no ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<u64>,
}

impl CpuCounters {
    /// What was counted after `earlier`; zero where a counter has gone back.
    #[must_use]
    pub fn saturating_since(&self, earlier: &Self) -> Self {
        let both = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        let mut since = Self {
            cgroup_throttled_usec: both(self.cgroup_throttled_usec, earlier.cgroup_throttled_usec),
            context_switches: both(self.context_switches, earlier.context_switches),
            ..self.clone()
        };
        for (now, before) in since.ticks().into_iter().zip(earlier.clone().ticks()) {
            *now = now.saturating_sub(*before);
        }
        since
    }

    /// All ticks, idle ones included.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.clone().ticks().into_iter().fold(0, |sum, ticks| sum.saturating_add(*ticks))
    }

    /// The fields of the line in the order of the text (proc_stat(5)). Those of guests, which follow,
    /// are part of `user` and `nice`.
    fn ticks(&mut self) -> [&mut u64; 8] {
        [
            &mut self.user,
            &mut self.nice,
            &mut self.system,
            &mut self.idle,
            &mut self.iowait,
            &mut self.irq,
            &mut self.softirq,
            &mut self.steal,
        ]
    }
}

/// The counters of all processors together.
///
/// # Errors
/// If `/proc/stat` cannot be read.
pub fn read_cpu_counters() -> Result<CpuCounters, StackError> {
    cpu_counters_in(&SystemDir::live_root())
}

fn cpu_counters_in(root: &SystemDir) -> Result<CpuCounters, StackError> {
    let error = |kind| StackError::new(kind, Path::new("/proc/stat"));
    let text = root.text("proc/stat").ok_or_else(|| error(StackErrorKind::Unreadable))?;
    let counters = parse_cpu_line(&text).ok_or_else(|| error(StackErrorKind::Malformed))?;
    let context_switches = line_after(&text, "ctxt ").and_then(|count| count.parse().ok());
    Ok(CpuCounters { cgroup_throttled_usec: throttled_usec(root), context_switches, ..counters })
}

fn parse_cpu_line(stat: &str) -> Option<CpuCounters> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
    // Fields were added behind these, and more may be.
    let fields: [u64; 8] = *fields.ok()?.first_chunk()?;
    let mut counters = CpuCounters::default();
    for (ticks, field) in counters.ticks().into_iter().zip(fields) {
        *ticks = field;
    }
    Some(counters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn time_between_two_readings_is_the_difference() {
        let fixture = Fixture::new();
        fixture.file("proc/stat", "cpu  10 1 20 300 4 0 5 6 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
        let earlier = cpu_counters_in(&fixture.root()).unwrap();
        fixture.file("proc/stat", "cpu  15 1 22 290 5 0 5 9 0 0\n");
        let since = cpu_counters_in(&fixture.root()).unwrap().saturating_since(&earlier);
        let expected = CpuCounters { user: 5, system: 2, iowait: 1, steal: 3, ..since.clone() };
        assert_eq!(since, expected);
        assert_eq!((since.idle, since.total()), (0, 11));
        assert_eq!(since.cgroup_throttled_usec, None);
    }

    #[test]
    fn switches_of_all_processors_are_counted_where_the_kernel_shows_them() {
        let fixture = Fixture::new();
        let read = |text: &str| {
            fixture.file("proc/stat", text);
            cpu_counters_in(&fixture.root()).unwrap()
        };
        let times = "cpu  1 1 1 1 1 1 1 1 0 0\n";
        let earlier = read(&format!("{times}intr 5 0 1\nctxt 1000\nbtime 17\nprocesses 9\n"));
        let later = read(&format!("{times}intr 9 0 1\nctxt 1250\nbtime 17\nprocesses 9\n"));
        assert_eq!(later.saturating_since(&earlier).context_switches, Some(250));
        for absent in [times.to_owned(), format!("{times}ctxt x\n"), format!("{times}ctxt\n")] {
            let odd = read(&absent);
            assert_eq!(
                (odd.context_switches, odd.saturating_since(&earlier).context_switches),
                (None, None)
            );
        }
    }

    #[test]
    fn what_is_not_a_line_of_processor_times_is_refused() {
        for text in ["cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3\n", "cpu a b c d e f g h\n"] {
            assert_eq!(parse_cpu_line(text), None, "{text}");
        }
        let error = cpu_counters_in(&Fixture::new().root()).unwrap_err();
        assert_eq!(error.kind, StackErrorKind::Unreadable);
    }
}
