//! What a loop counts apart from latencies, which are in the recorder: how many operations were in
//! flight, on another clock (the other side of Little's law); what became of a schedule's arrivals;
//! and the errors that ended a job early.
//!
//! For each arrival the loop says when it was due and what held it up; once the ramp is over the
//! outcomes are counted as [`Pacing`].

use durio_base::Nanos;
use durio_block::{BlockError, Clock, OperationKind, Ticks};
use durio_record::{Accounting, Batches, Pacing};
use rustix::io::Errno;

/// Number in flight over time, on the engine's reference clock: a side of Little's law that shares
/// no stamp with the latencies. The clock is read only when the number changes, so a closed loop at
/// full depth costs nothing.
#[derive(Debug, Default)]
pub(crate) struct InFlightCount {
    pub(super) now: u64,
    since: u64,
    pub(crate) integral: u64,
}

impl InFlightCount {
    pub(crate) fn begin(&mut self, reference_nanos: u64) {
        self.since = reference_nanos;
    }

    #[cold]
    pub(crate) fn change(&mut self, by: i64, reference_nanos: u64) {
        self.integral += self.now * reference_nanos.saturating_sub(self.since);
        self.since = reference_nanos;
        self.now = self.now.saturating_add_signed(by);
    }
}

/// The engine's clock and its reference, read at the same moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClockPair {
    pub(crate) ticks: Ticks,
    pub(crate) reference_nanos: u64,
}

impl ClockPair {
    /// Takes several readings and keeps the one with the least time between the two clocks: on a
    /// busy machine a thread can lose the processor in between.
    pub(crate) fn read(clock: &impl Clock) -> Self {
        let readings = (0..8).map(|_| {
            let before = clock.now();
            let reference_nanos = clock.reference_nanos();
            // The true moment of the reference lies somewhere within the width; its middle is off by half of
            // it at most.
            let width = clock.now().since(before);
            (width, Self { ticks: before.plus(width / 2), reference_nanos })
        });
        readings.min_by_key(|(width, _)| *width).map(|(_, pair)| pair).unwrap_or_default()
    }
}

/// What ended a job early.
#[derive(Debug)]
pub(crate) struct JobFailure {
    pub(crate) kind: OperationKind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Bytes moved, or a negated errno.
    pub(crate) result: i32,
}

/// What ended operations early, if anything did.
#[derive(Debug, Default)]
pub(crate) struct EarlyEnding {
    pub(crate) failure: Option<JobFailure>,
    /// Another error of the engine itself.
    pub(crate) engine_error: Option<BlockError>,
}

impl EarlyEnding {
    pub(crate) const fn is_early(&self) -> bool {
        self.failure.is_some() || self.engine_error.is_some()
    }

    /// Keeps a failure, the first of several.
    pub(crate) fn keep(&mut self, failure: JobFailure) {
        // io_uring cancels a sync whose linked write failed, and may show that first: a cancellation
        // gives way to its cause.
        let cancelled = -Errno::CANCELED.raw_os_error();
        if self.failure.as_ref().is_none_or(|known| known.result == cancelled) {
            self.failure = Some(failure);
        }
    }
}

/// The loop's counts; latencies are elsewhere.
#[derive(Debug, Default)]
pub(crate) struct LoopResult {
    pub(crate) accounting: Accounting,
    /// What became of the schedule of an open loop.
    pub(crate) pacing: Option<Pacing>,
    pub(crate) batches: Option<Batches>,
    pub(crate) reference: (u64, u64),
    /// From the end of the ramp to the end.
    pub(crate) measured: Nanos,
    /// From the common begin to the end, in nanoseconds: the last completion, or the end of an open
    /// loop's window if that is later.
    pub(crate) end_ns: u64,
    pub(crate) exchanges: u64,
    pub(crate) ending: EarlyEnding,
}

/// True if a completion with this result has done all of an operation. Moving too few bytes is a
/// failure: the rest would be another operation, with another latency.
pub(crate) fn is_done(kind: OperationKind, length: u64, result: i32) -> bool {
    match kind {
        OperationKind::Read | OperationKind::Write => i64::from(result) == length.cast_signed(),
        _ => result >= 0,
    }
}

/// More arrivals are not counted one by one after the end: at 20 ns each that takes seconds.
pub(crate) const MISSED_MAX: u64 = 1 << 28;

/// The count of a job or committer.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    counted_from: Ticks,
    pacing: Pacing,
}

/// How late an arrival was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lateness {
    /// A place was free when it was due.
    pub(crate) punctual: bool,
    /// From the intended start to the real one.
    pub(crate) behind_ns: u64,
    /// The part of it in which nothing but the generator was in the way.
    pub(crate) lag_ns: u64,
}

impl Pacer {
    /// Counts the arrivals that are due from `ramp_end` on.
    pub(crate) fn new(ramp_end: Ticks) -> Self {
        Self { counted_from: ramp_end, pacing: Pacing::default() }
    }

    /// An arrival that was due at `due` has been started; true if it is counted, and was punctual.
    #[inline]
    pub(crate) fn started(&mut self, due: Ticks, late: Lateness) -> bool {
        // By when it was due, not by when it started: a late arrival of the ramp is the ramp's.
        if due < self.counted_from {
            return false;
        }
        let pacing = &mut self.pacing;
        pacing.due += 1;
        pacing.started += 1;
        pacing.behind_ns_max = pacing.behind_ns_max.max(late.behind_ns);
        if late.punctual {
            pacing.punctual += 1;
            pacing.lag_ns_sum = pacing.lag_ns_sum.saturating_add(late.lag_ns);
            pacing.lag_ns_max = pacing.lag_ns_max.max(late.lag_ns);
        }
        late.punctual
    }

    /// The last `punctual` arrivals started later than was counted, by `more_ns` each; the latest of
    /// them was `latest_ns` late.
    #[inline]
    pub(crate) fn lagged(&mut self, punctual: u64, latest_ns: u64, more_ns: u64) {
        if punctual > 0 {
            let pacing = &mut self.pacing;
            pacing.lag_ns_sum = pacing.lag_ns_sum.saturating_add(more_ns * punctual);
            pacing.lag_ns_max = pacing.lag_ns_max.max(latest_ns + more_ns);
        }
    }

    /// Counts the arrivals that were due before `end` and were never started; at most `bound`.
    pub(crate) fn missed(
        &mut self,
        mut due: Ticks,
        (end, bound): (Ticks, u64),
        mut next: impl FnMut() -> Ticks,
    ) {
        let mut left = bound;
        while due < end && left > 0 {
            self.pacing.due += u64::from(due >= self.counted_from);
            due = next();
            left -= 1;
        }
    }

    pub(crate) fn pacing(&self) -> Pacing {
        self.pacing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_in_flight_is_summed_over_the_time_that_it_lasted() {
        let mut count = InFlightCount::default();
        count.begin(1000);
        // None for 10 ns, 3 for 20 ns, 2 for 5 ns.
        for (by, at) in [(3, 1010), (-1, 1030), (-2, 1035)] {
            count.change(by, at);
        }
        assert_eq!((count.now, count.integral), (0, 70));
        // A clock that goes back adds nothing.
        count.change(4, 1040);
        count.change(-4, 1020);
        assert_eq!((count.now, count.integral), (0, 70));
    }

    #[test]
    fn the_first_failure_is_kept_and_only_a_cancellation_gives_way() {
        let cancelled = -Errno::CANCELED.raw_os_error();
        let kept = |results: &[i32]| {
            let mut ending = EarlyEnding::default();
            assert!(!ending.is_early());
            for &result in results {
                let kind = OperationKind::Write;
                ending.keep(JobFailure { kind, offset: 4096, length: 512, result });
            }
            assert!(ending.is_early());
            ending.failure.unwrap().result
        };
        assert_eq!(kept(&[-5, -28]), -5);
        assert_eq!(kept(&[100, -5]), 100);
        assert_eq!(kept(&[cancelled, -28, -5]), -28);
        assert_eq!(kept(&[-5, cancelled]), -5);
        assert_eq!(kept(&[cancelled]), cancelled);
    }

    #[test]
    fn a_transfer_is_done_with_its_last_byte_and_a_sync_without_an_error() {
        use OperationKind::{Fdatasync, Fsync, Read, Reallocate, SyncFileRange, Write};
        for kind in [Read, Write] {
            let done = [4095, 4096, 4097, 0, -5].map(|result| is_done(kind, 4096, result));
            assert_eq!(done, [false, true, false, false, false], "{kind:?}");
        }
        for kind in [Fsync, Fdatasync, SyncFileRange, Reallocate] {
            let done = [0, 1, -1].map(|result| is_done(kind, 4096, result));
            assert_eq!(done, [true, true, false], "{kind:?}");
        }
    }

    #[test]
    fn arrivals_count_from_the_ramps_end_and_lag_is_that_of_the_punctual_ones() {
        let mut pacer = Pacer::new(Ticks(1000));
        let late = |punctual, behind_ns, lag_ns| Lateness { punctual, behind_ns, lag_ns };
        assert!(!pacer.started(Ticks(999), late(true, 9000, 9000)));
        assert!(pacer.started(Ticks(1000), late(true, 70, 30)));
        assert!(!pacer.started(Ticks(1500), late(false, 800, 600)));
        assert!(pacer.started(Ticks(1600), late(true, 20, 50)));
        let expected = Pacing {
            due: 3,
            started: 3,
            punctual: 2,
            lag_ns_sum: 80,
            lag_ns_max: 50,
            behind_ns_max: 800,
        };
        assert_eq!(pacer.pacing(), expected);
        pacer.lagged(0, 5000, 5000);
        assert_eq!(pacer.pacing(), expected);
        pacer.lagged(2, 50, 10);
        assert_eq!(pacer.pacing(), Pacing { lag_ns_sum: 100, lag_ns_max: 60, ..expected });
    }

    #[test]
    fn missed_arrivals_are_those_due_after_the_ramp_and_before_the_end() {
        let missed = |first: u64, end: u64, bound: u64| {
            let mut pacer = Pacer::new(Ticks(1000));
            let mut due = first;
            pacer.missed(Ticks(first), (Ticks(end), bound), || {
                due += 100;
                Ticks(due)
            });
            let pacing = pacer.pacing();
            assert_eq!(pacing, Pacing { due: pacing.due, ..Pacing::default() });
            pacing.due
        };
        assert_eq!([missed(1000, 1400, 99), missed(1000, 1401, 99)], [4, 5]);
        assert_eq!(missed(800, 1400, 99), 4, "two are of the ramp");
        assert_eq!([missed(1000, 1400, 3), missed(800, 1400, 3)], [3, 1]);
        assert_eq!(missed(1400, 1400, 99), 0);
    }
}
