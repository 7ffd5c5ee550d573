//! Memory for large requests, which all connections of a server share.
//!
//! A request waits until its memory is available.
//!
//! Most requests are small, and each connection has memory for those. A larger request reserves all
//! its memory at once, before its data has come: two requests that each had half would wait for
//! each other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Memory for large requests of all clients: eight of the largest.
pub(super) const BUDGET: usize = 8 * crate::PAYLOAD_MAX as usize + 8 * RESERVE;
/// For their heads, and for small requests in front of them.
const RESERVE: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Budget {
    /// Free bytes; `None` when the server ends.
    free: Mutex<Option<usize>>,
    changed: Condvar,
}

/// Reserved bytes, until this is dropped.
#[derive(Debug)]
pub(super) struct BudgetShare<'b> {
    budget: &'b Budget,
    bytes: usize,
}

impl Budget {
    pub(super) const fn new() -> Self {
        Self { free: Mutex::new(Some(BUDGET)), changed: Condvar::new() }
    }

    /// Waits until this many bytes are free; `None` if the server ends.
    pub(super) fn take(&self, bytes: usize) -> Option<BudgetShare<'_>> {
        let bytes = bytes.min(BUDGET);
        let mut free = self.lock();
        loop {
            match &mut *free {
                None => return None,
                Some(left) if *left >= bytes => {
                    *left -= bytes;
                    return Some(BudgetShare { budget: self, bytes });
                }
                Some(_) => {}
            }
            free = self.changed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn end(&self) {
        *self.lock() = None;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BudgetShare<'_> {
    fn drop(&mut self) {
        if let Some(free) = &mut *self.budget.lock() {
            *free += self.bytes;
        }
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn eight_of_the_largest_requests_have_memory_and_a_ninth_waits_for_one_of_them() {
        let budget = Budget::new();
        let largest = crate::PAYLOAD_MAX as usize + 28;
        let mut shares: Vec<_> = (0..8).map(|_| budget.take(largest).unwrap()).collect();
        // 1 MiB for each is left, without the heads of the requests.
        assert_eq!(*budget.lock(), Some(8 * 1_048_576 - 8 * 28));
        thread::scope(|scope| {
            let ninth = scope.spawn(|| budget.take(largest).is_some());
            thread::sleep(Duration::from_millis(20));
            assert!(!ninth.is_finished());
            shares.pop();
            assert!(ninth.join().unwrap());
        });
        drop(shares);
        assert_eq!(*budget.lock(), Some(BUDGET));
    }

    #[test]
    fn nobody_waits_for_memory_of_a_server_that_ends() {
        let budget = Budget::new();
        let all = budget.take(usize::MAX).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.take(1).is_none());
            thread::sleep(Duration::from_millis(20));
            budget.end();
            assert!(waiting.join().unwrap());
        });
        drop(all);
        assert!(budget.take(1).is_none());
    }
}
