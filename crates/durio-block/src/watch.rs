//! How long an asynchronous engine went without a look for completions.
//!
//! In: the times of its looks. Out: the longest time between two of them, while something was in
//! flight that might have completed. Waiting in the kernel for a completion is looking.

use crate::Ticks;

/// The longest time without a look.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: Ticks,
    longest: u64,
}

impl Watch {
    /// A look at `now`; something has been in flight since the one before.
    #[inline(always)]
    pub(crate) fn looked(&mut self, now: Ticks) {
        self.longest = self.longest.max(now.since(self.last));
        self.last = now;
    }

    /// A look at `now` that ends a wait for completions, or before which nothing was in flight.
    #[inline(always)]
    pub(crate) fn waited(&mut self, now: Ticks) {
        self.last = now;
    }

    /// The last look.
    #[inline(always)]
    pub(crate) fn last(&self) -> Ticks {
        self.last
    }

    /// The longest time without a look, in ticks; counting starts over.
    pub(crate) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_without_a_look_does_not_contain_waits() {
        let mut watch = Watch::default();
        watch.waited(Ticks(100));
        watch.looked(Ticks(107));
        watch.waited(Ticks(900));
        watch.looked(Ticks(903));
        assert_eq!(watch.take(), 7);
        watch.looked(Ticks(905));
        assert_eq!(watch.take(), 2);
    }
}
