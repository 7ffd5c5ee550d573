//! Counters of the system around a step, and times in which this process did not run.
//!
//! [`GapWatch`] records gaps in a thread's ticking during a measured step: the process was stopped (SIGSTOP, a
//! debugger, a frozen cgroup), the machine suspended, or its processors were given to others. The
//! measured loop knows nothing of it.
//!
//! The thread only sleeps and reads a clock: no storage can hold it, unless its own pages have to be
//! read again, and then its count of major faults says so.

use std::fs::File;
use std::io::Read;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use durio_base::{Bytes, Nanos};
use durio_observe::{CpuCounters, DeviceCounters, read_cpu_counters, read_device_counters};
use durio_record::{ContextSwitches, Outcome, ProcessGap, StepEnded};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::time::{ClockId, clock_gettime};

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
    /// Time in which threads were ready to run and waited for a CPU; none for the process, and
    /// where the kernel does not count it.
    pub(crate) run_delay: Option<Nanos>,
}

impl ThreadUsage {
    /// The calling thread's usage so far: a system call, and a small file of /proc.
    pub(crate) fn of_thread() -> Self {
        Self { run_delay: run_delay(), ..Self::of(UsageWho::RUSAGE_THREAD) }
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
            run_delay: None,
        }
    }

    /// The usage after `earlier`, or outside it.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let switches = self.switches.zip(earlier.switches);
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            switches: switches.map(|(now, before)| now.saturating_since(before)),
            run_delay: self.run_delay.zip(earlier.run_delay).map(|(a, b)| a.saturating_sub(b)),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let sum = |a: Nanos, b: Nanos| Nanos::new(a.get().saturating_add(b.get()));
        let switches = self.switches.zip(other.switches);
        Self {
            user: sum(self.user, other.user),
            system: sum(self.system, other.system),
            switches: switches.map(|(a, b)| a.saturating_add(b)),
            run_delay: self.run_delay.zip(other.run_delay).map(|(a, b)| sum(a, b)),
        }
    }
}

/// How long the calling thread has waited for a CPU so far.
fn run_delay() -> Option<Nanos> {
    // Not on the heap: a job that is about to start calls it.
    let mut text = [0_u8; 96];
    let length = File::open("/proc/thread-self/schedstat").ok()?.read(&mut text).ok()?;
    parse_run_delay(std::str::from_utf8(text.get(..length)?).ok()?)
}

/// The time on a CPU, the time waited for one, both in nanoseconds, and the number of time slices
/// (Documentation/scheduler/sched-stats.rst).
fn parse_run_delay(schedstat: &str) -> Option<Nanos> {
    let mut fields = schedstat.split_whitespace().map(str::parse::<u64>);
    let (ran, waited) = (fields.next()?.ok()?, fields.next()?.ok()?);
    // A kernel that counts neither shows zeros (fs/proc/base.c), but a thread that asks has run.
    (ran > 0).then(|| Nanos::new(waited))
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

/// How often it ticks: seldom enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);

// So much later than it should, a tick shows a gap: on a busy machine a thread that sleeps most of
// the time waits some tens of milliseconds for a processor at the most.
const LATE: Duration = Duration::from_millis(200);

/// Watches while it is there.
pub(crate) struct GapWatch {
    end: Sender<()>,
    thread: JoinHandle<(Vec<ProcessGap>, ThreadUsage)>,
}

impl GapWatch {
    /// Watches a round of a step, which starts now. None if the thread cannot be started.
    pub(crate) fn begin(step: u32, round: u32) -> Option<Self> {
        let (end, ended) = channel::<()>();
        let watch = move || {
            let mut ticks = ProcessTicks::new((step, round), now(), major_faults());
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                ticks.tick(now(), major_faults);
            }
            ticks.tick(now(), major_faults);
            (ticks.gaps, ThreadUsage::of_thread())
        };
        let thread = Builder::new().name("durio-gaps".to_owned()).spawn(watch).ok()?;
        Some(Self { end, thread })
    }

    /// The gaps, and the cost of watching.
    pub(crate) fn end(self) -> (Vec<ProcessGap>, ThreadUsage) {
        drop(self.end);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// With the time in which the machine was suspended.
fn now() -> Duration {
    // CLOCK_MONOTONIC stands still while the machine is suspended.
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn major_faults() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.major_page_faults())
}

struct ProcessTicks {
    step: u32,
    round: u32,
    begin: Duration,
    last: Duration,
    faults: i64,
    gaps: Vec<ProcessGap>,
}

impl ProcessTicks {
    const fn new((step, round): (u32, u32), begin: Duration, faults: i64) -> Self {
        Self { step, round, begin, last: begin, faults, gaps: Vec::new() }
    }

    fn tick(&mut self, now: Duration, faults: impl FnOnce() -> i64) {
        let span = now.saturating_sub(self.last);
        if span >= TICK + LATE {
            let faults = faults();
            // A late tick that had to read its own pages again says nothing of the process.
            if faults == self.faults {
                let from = Nanos::from(self.last.saturating_sub(self.begin));
                let (step, round, span) = (self.step, self.round, Nanos::from(span));
                self.gaps.push(ProcessGap { step, round, from, span });
            }
            self.faults = faults;
        }
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const fn usage(user: u64, system: u64, switches: Option<(u64, u64)>) -> ThreadUsage {
        let switches = match switches {
            Some((voluntary, involuntary)) => Some(ContextSwitches { voluntary, involuntary }),
            None => None,
        };
        let (user, system) = (Nanos::new(user), Nanos::new(system));
        ThreadUsage { user, system, switches, run_delay: None }
    }

    fn parts(usage: ThreadUsage) -> (u64, u64, Option<(u64, u64)>) {
        let switches = usage.switches.map(|both| (both.voluntary, both.involuntary));
        (usage.user.get(), usage.system.get(), switches)
    }

    #[test]
    fn the_usage_of_threads_is_added_and_taken_away_kind_by_kind() {
        let (one, other) = (usage(50, 7, Some((30, 4))), usage(20, 5, Some((11, 1))));
        assert_eq!(parts(one.since(other)), (30, 2, Some((19, 3))));
        assert_eq!(parts(one.plus(other)), (70, 12, Some((41, 5))));
        let unknown = usage(1, 2, None);
        assert_eq!(parts(one.since(unknown)), (49, 5, None));
        assert_eq!(parts(one.plus(unknown)), (51, 9, None));
        assert_eq!(parts(other.since(one)), (0, 0, Some((0, 0))), "never below zero");
    }

    #[test]
    fn waits_for_a_cpu_are_the_second_field_of_schedstat() {
        let parsed = |text: &str| parse_run_delay(text).map(Nanos::get);
        assert_eq!(parsed("117494 2353467 2\n"), Some(2_353_467));
        assert_eq!(parsed("1 0 1\n"), Some(0));
        assert_eq!(parsed("0 0 0\n"), None, "the kernel does not count it");
        assert_eq!([parsed(""), parsed("7\n"), parsed("7 x 1\n")], [None; 3]);
    }

    #[test]
    fn waits_for_a_cpu_are_added_and_taken_away_where_both_are_known() {
        let waited =
            |nanos| ThreadUsage { run_delay: Some(Nanos::new(nanos)), ..usage(0, 0, None) };
        let (one, other, unknown) = (waited(700), waited(40), usage(1, 2, None));
        let nanos = |usage: ThreadUsage| usage.run_delay.map(Nanos::get);
        assert_eq!([nanos(one.plus(other)), nanos(one.since(other))], [Some(740), Some(660)]);
        assert_eq!(nanos(other.since(one)), Some(0), "never below zero");
        assert_eq!([nanos(one.plus(unknown)), nanos(unknown.since(one))], [None; 2]);
    }

    /// Voluntary and involuntary ones of this thread, as /proc has them.
    fn switches_in_proc() -> (u64, u64) {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let of = |name: &str| -> u64 {
            let count = status.lines().find_map(|line| line.strip_prefix(name));
            count.unwrap().trim().parse().unwrap()
        };
        (of("voluntary_ctxt_switches:"), of("nonvoluntary_ctxt_switches:"))
    }

    #[test]
    fn both_kinds_of_switches_of_a_thread_are_those_that_the_kernel_counts() {
        let counted = || {
            // Waiting for another thread is a voluntary one, nearly always.
            (0..100).for_each(|_| Builder::new().spawn(|| ()).unwrap().join().unwrap());
            let before = switches_in_proc();
            let (_, _, switches) = parts(ThreadUsage::of_thread());
            (before, switches.unwrap(), switches_in_proc())
        };
        let (before, (voluntary, involuntary), after) =
            Builder::new().spawn(counted).unwrap().join().unwrap();
        assert!((before.0..=after.0).contains(&voluntary), "{before:?} {voluntary} {after:?}");
        assert!((before.1..=after.1).contains(&involuntary), "{before:?} {involuntary} {after:?}");
    }

    /// The second reading has them in another order, one of them new and one gone.
    #[test]
    fn devices_are_known_by_their_names_from_one_reading_to_the_next() {
        let device = |name: &str, writes_completed, sectors_written| DeviceCounters {
            name: name.to_owned(),
            writes_completed,
            sectors_written,
            ..DeviceCounters::default()
        };
        let reading = |devices, process| CounterReading { cpu: None, devices, process };
        let before = reading(
            vec![device("sda", 100, 800), device("sdb", 7, 56), device("sdc", 1, 8)],
            usage(10, 3, Some((2, 1))),
        );
        let after = reading(
            vec![device("sdd", 9, 72), device("sdb", 10, 80), device("sda", 105, 1000)],
            usage(25, 4, Some((2, 9))),
        );
        let changes = after.since(&before);
        assert_eq!(changes.devices, [device("sdb", 3, 24), device("sda", 5, 200)]);
        assert_eq!(parts(changes.process), (15, 1, Some((0, 8))));
        let ended = changes.step_ended(4, 2, Outcome::Interrupted, Nanos::new(77));
        assert_eq!((ended.step, ended.round, ended.measured.get()), (4, 2, 77));
        assert_eq!((ended.outcome, ended.devices.len()), (Outcome::Interrupted, 2));
    }

    #[test]
    fn a_tick_that_comes_late_shows_a_gap_and_one_that_waited_for_its_pages_does_not() {
        let mut ticks = ProcessTicks::new((3, 1), at(1000), 7);
        for (now, faults) in [(1100, 7), (1350, 7), (3350, 7), (3450, 7), (5000, 8), (5900, 8)] {
            ticks.tick(at(now), || faults);
        }
        let gap = |from, span| {
            let (from, span) = (Nanos::from_millis(from), Nanos::from_millis(span));
            ProcessGap { step: 3, round: 1, from, span }
        };
        assert_eq!(ticks.gaps, [gap(350, 2000), gap(4000, 900)]);
    }

    #[test]
    fn a_gap_begins_at_300_ms_from_one_look_to_the_next() {
        let gaps = |millis: u64| {
            let mut ticks = ProcessTicks::new((0, 0), at(50), 7);
            ticks.tick(at(50 + millis), || 7);
            ticks.gaps.iter().map(|gap| gap.span).collect::<Vec<_>>()
        };
        assert_eq!((gaps(299), gaps(300)), (vec![], vec![Nanos::from_millis(300)]));
    }
}
