//! Waiting as RocksDB does it: at first by yielding the processor, if waits are short and no other
//! thread wants it; else asleep.
//!
//! The caller gives the condition and the longest wait, and learns whether the condition came true.
//!
//! The rule is that of AwaitState in db/write_thread.cc: a yield that takes long has let another
//! thread run, and after three of those the thread sleeps. A balance of such waits says whether the
//! next one yields at all; one in 256 does it anyway, to find out.

use std::sync::TryLockError;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread::yield_now;

use durio_base::Nanos;
use durio_block::Clock;

use super::CommitterTeam;
use super::state::CommitOutcome;

/// A yield that takes so long was a slow one (write_thread_slow_yield_usec).
const SLOW: Nanos = Nanos::from_micros(3);

/// After this many slow yields a thread sleeps.
const SLOW_MAX: u32 = 3;

/// One in this many waits is counted regardless of its outcome.
const SAMPLED: u32 = 256;

/// What a wait adds to the balance, which decays by a 1024th each time.
const STEP: i32 = 131_072;

/// The balance of waits of one kind.
#[derive(Debug, Default)]
pub(super) struct Yields {
    balance: AtomicI32,
    waits: AtomicU32,
}

impl Yields {
    /// Whether the next wait yields, and whether it is counted.
    fn begin(&self) -> (bool, bool) {
        let is_sampled = self.waits.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLED);
        (is_sampled || self.balance.load(Ordering::Relaxed) >= 0, is_sampled)
    }

    fn count(&self, was_worth_it: bool) {
        let before = self.balance.load(Ordering::Relaxed);
        let step = if was_worth_it { STEP } else { -STEP };
        // Two at the same time lose one of them, which does no harm.
        self.balance.store(before - before / 1024 + step, Ordering::Relaxed);
    }
}

/// Slow yields of a wait.
struct SlowYields(u32);

impl SlowYields {
    /// True if, after a yield of this many nanoseconds, the thread sleeps.
    fn are_enough(&mut self, nanos: u64) -> bool {
        self.0 += u32::from(nanos >= SLOW.get());
        self.0 == SLOW_MAX
    }
}

impl<C: Clock + Copy + Send + Sync> CommitterTeam<'_, C> {
    /// Yields until something is to do for this committer; false if it is to sleep.
    pub(super) fn yield_until_ready(&self, me: u32, has_applied: bool) -> bool {
        let Some(longest) = self.policy.software.and_then(|software| software.yields) else {
            return false;
        };
        let yields = &self.yields[usize::from(has_applied)];
        let (begins, mut is_counted) = yields.begin();
        if !begins {
            return false;
        }
        let nanos = |from, to: durio_block::Ticks| self.clock.nanos(to.since(from));
        let begin = self.clock.now();
        let (mut last, mut slow, mut came) = (begin, SlowYields(0), false);
        while nanos(begin, last) <= longest.get() {
            yield_now();
            if self.is_ready(me) {
                came = true;
                break;
            }
            let now = self.clock.now();
            if slow.are_enough(nanos(last, now)) {
                is_counted = true;
                break;
            }
            last = now;
        }
        if is_counted {
            yields.count(came);
        }
        came
    }

    /// True if its record has an outcome, or it may lead.
    fn is_ready(&self, me: u32) -> bool {
        match self.state.try_lock() {
            Ok(state) => {
                state.outcomes[me as usize] != CommitOutcome::Waiting || state.leader.is_some()
            }
            // The holder of the lock is about to change the outcome.
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Poisoned(_)) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_are_not_worth_it_end_yielding_but_for_one_in_256() {
        let yields = Yields::default();
        // The first one is sampled.
        assert_eq!(yields.begin(), (true, true));
        yields.count(false);
        let begun = (0..512).filter(|_| yields.begin().0).count();
        assert_eq!(begun, 2);
        for _ in 0..2 {
            yields.count(true);
        }
        assert_eq!(yields.begin(), (true, false));
    }

    /// The numbers are those of RocksDB's options and of db/write_thread.cc.
    #[test]
    fn a_thread_sleeps_after_three_yields_of_3_us_and_a_wait_weighs_131_072() {
        let mut slow = SlowYields(0);
        let enough = [2999, 3000, 2999, 9000, 0, 3000].map(|nanos| slow.are_enough(nanos));
        assert_eq!(enough, [false, false, false, false, false, true]);
        let yields = Yields::default();
        let after = |was_worth_it| {
            yields.count(was_worth_it);
            yields.balance.load(Ordering::Relaxed)
        };
        // A 1024th of the balance is lost each time.
        assert_eq!([after(true), after(true), after(false)], [131_072, 262_016, 130_689]);
    }

    #[test]
    fn the_balance_stays_within_bounds() {
        let yields = Yields::default();
        for _ in 0..10_000 {
            yields.count(true);
        }
        let most = yields.balance.load(Ordering::Relaxed);
        assert!(most > 0 && most <= STEP * 1024, "{most}");
        for _ in 0..20_000 {
            yields.count(false);
        }
        assert!(yields.balance.load(Ordering::Relaxed) >= -STEP * 1024);
    }
}
