//! Times in which this process did not run.
//!
//! Records gaps in a thread's ticking during a measured step: the process was stopped (SIGSTOP, a
//! debugger, a frozen cgroup), the machine suspended, or its processors were given to others. The
//! measured loop knows nothing of it.
//!
//! The thread only sleeps and reads a clock: no storage can hold it, unless its own pages have to be
//! read again, and then its count of major faults says so.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use durio_base::Nanos;
use durio_record::ProcessGap;
use nix::sys::resource::{UsageWho, getrusage};
use rustix::time::{ClockId, clock_gettime};

use crate::counters::ThreadUsage;

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
