//! Times in which this process did not run.
//!
//! In: a step that is measured. Out: the gaps in a thread's ticking: the process was stopped (SIGSTOP,
//! a debugger, a frozen cgroup), the machine suspended, or its processors were given to others. Not
//! here: what they mean for the figures; the measured loop knows nothing of it.
//!
//! The thread only sleeps and reads a clock: no storage can hold it, unless its own pages have to be
//! read again, and then its count of major faults says so.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use durio_units::Nanos;
use nix::sys::resource::{UsageWho, getrusage};
use rustix::time::{ClockId, clock_gettime};

use crate::counters::Usage;

/// How often it ticks: seldom enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);

/// So much later than it should, a tick shows a gap: on a busy machine a thread that sleeps most of the
/// time waits some tens of milliseconds for a processor at the most.
const LATE: Duration = Duration::from_millis(200);

/// A time in which the process did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The last sign of life before it, from the begin of the watch.
    pub(crate) from: Nanos,
    /// From there to the next one.
    pub(crate) span: Nanos,
}

/// Watches while it is there.
pub(crate) struct GapWatch {
    end: Sender<()>,
    thread: JoinHandle<(Vec<Gap>, Usage)>,
}

impl GapWatch {
    /// None if there is no thread for it.
    pub(crate) fn begin() -> Option<Self> {
        let (end, ended) = channel::<()>();
        let watch = move || {
            let mut ticks = Ticks::new(now(), major_faults());
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                ticks.tick(now(), major_faults);
            }
            ticks.tick(now(), major_faults);
            (ticks.gaps, Usage::of_thread())
        };
        let thread = Builder::new().name("durio-gaps".to_owned()).spawn(watch).ok()?;
        Some(Self { end, thread })
    }

    /// The gaps, and what watching has cost.
    pub(crate) fn end(self) -> (Vec<Gap>, Usage) {
        drop(self.end);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// With the time in which the machine was suspended.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn major_faults() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.major_page_faults())
}

struct Ticks {
    begin: Duration,
    last: Duration,
    faults: i64,
    gaps: Vec<Gap>,
}

impl Ticks {
    const fn new(begin: Duration, faults: i64) -> Self {
        Self { begin, last: begin, faults, gaps: Vec::new() }
    }

    fn tick(&mut self, now: Duration, faults: impl FnOnce() -> i64) {
        let span = now.saturating_sub(self.last);
        if span >= TICK + LATE {
            let faults = faults();
            if faults == self.faults {
                let from = self.last.saturating_sub(self.begin);
                self.gaps.push(Gap { from: Nanos::from(from), span: Nanos::from(span) });
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
        let mut ticks = Ticks::new(at(1000), 7);
        for (now, faults) in [(1100, 7), (1350, 7), (3350, 7), (3450, 7), (5000, 8), (5900, 8)] {
            ticks.tick(at(now), || faults);
        }
        let gap =
            |from, span| Gap { from: Nanos::from_millis(from), span: Nanos::from_millis(span) };
        assert_eq!(ticks.gaps, [gap(350, 2000), gap(4000, 900)]);
    }
}
