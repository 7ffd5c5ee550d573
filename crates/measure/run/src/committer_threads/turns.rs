//! Turns on the processors that a database gives to its threads itself, in the order in which they became
//! ready, instead of leaving that to the kernel.
//!
//! Threads are known by their place in the list of all; a turn says which may run.
//!
//! As many have a turn as there are processors. A thread that waits for a client or for storage has
//! none, and joins the end of the queue when it continues.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use durio_base::Nanos;

pub(super) struct Turns {
    /// The longest turn.
    pub(super) longest: Nanos,
    queue: Mutex<TurnQueue>,
    /// By thread: it was given a turn while it waited for one.
    given: Box<[AtomicBool]>,
}

struct TurnQueue {
    free: usize,
    waiting: VecDeque<u32>,
}

impl Turns {
    /// For this many threads, of which `at_once` run at the same time.
    pub(super) fn new(threads: usize, at_once: usize, longest: Nanos) -> Self {
        let waiting = VecDeque::with_capacity(threads);
        Self {
            longest,
            queue: Mutex::new(TurnQueue { free: at_once, waiting }),
            given: (0..threads).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Waits for a turn: `sleep` until another thread may have given it. If it `is_over` before,
    /// the thread continues without: it only has to end.
    pub(super) fn take(&self, me: u32, sleep: impl Fn(), is_over: impl Fn() -> bool) {
        {
            let mut queue = self.lock();
            // A free turn while others wait was given to one of them.
            if queue.free > 0 {
                queue.free -= 1;
                return;
            }
            queue.waiting.push_back(me);
        }
        let given = &self.given[me as usize];
        while !given.swap(false, Ordering::Acquire) {
            if is_over() {
                self.lock().waiting.retain(|waiting| *waiting != me);
                return;
            }
            sleep();
        }
    }

    /// Ends a turn; gives the thread that has it next, to be woken.
    pub(super) fn give(&self) -> Option<u32> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        match next {
            Some(next) => self.given[next as usize].store(true, Ordering::Release),
            None => queue.free += 1,
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, TurnQueue> {
        // Nothing in it can be half done.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_given_in_the_order_of_those_who_wait() {
        let turns = Turns::new(4, 1, Nanos::ZERO);
        turns.take(0, || unreachable!(), || false);
        turns.lock().waiting.extend([2, 1]);
        assert_eq!((turns.give(), turns.give(), turns.give()), (Some(2), Some(1), None));
        turns.take(3, || unreachable!(), || false);
    }

    #[test]
    fn who_is_over_waits_for_none_and_is_given_none() {
        let turns = Turns::new(2, 1, Nanos::ZERO);
        turns.take(0, || unreachable!(), || false);
        turns.take(1, || unreachable!(), || true);
        assert_eq!(turns.give(), None);
    }
}
