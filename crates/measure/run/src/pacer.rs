//! Counts the outcomes of a schedule's arrivals, once the ramp is over.
//!
//! For each arrival the loop says when it was due and what held it up; the result is [`Pacing`].

use durio_block::Ticks;
use durio_record::Pacing;

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
