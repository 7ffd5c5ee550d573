//! Where the next batch goes: after the last one, and around at the end of the log.

use durio_workload::Region;

/// The end of a log, in bytes of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPosition {
    begin: u64,
    next: u64,
    end: u64,
}

impl LogPosition {
    /// A log that begins at the begin of `region`.
    pub(crate) fn new(region: Region) -> Self {
        let begin = region.offset.get();
        Self { begin, next: begin, end: begin.saturating_add(region.length.get()) }
    }

    /// Where a write of `length` bytes goes. One that would reach past the end goes to the begin:
    /// the region holds the largest batch (`Workload::region_among`).
    #[inline]
    pub(crate) fn place(&mut self, length: u64) -> u64 {
        let fits = self.next.checked_add(length).is_some_and(|end| end <= self.end);
        let at = if fits { self.next } else { self.begin };
        self.next = at.saturating_add(length);
        at
    }
}

#[cfg(test)]
mod tests {
    use durio_units::Bytes;

    use super::*;

    #[test]
    fn a_batch_that_does_not_fit_any_more_goes_to_the_begin() {
        let region = Region { offset: Bytes::new(4096), length: Bytes::new(10_000) };
        let mut position = LogPosition::new(region);
        let places = [4096, 4096, 2000, 10_000, 1].map(|length| position.place(length));
        assert_eq!(places, [4096, 8192, 4096, 4096, 4096]);
        let mut exact = LogPosition::new(Region { length: Bytes::new(8192), ..region });
        assert_eq!([4096, 4096, 4096].map(|length| exact.place(length)), [4096, 8192, 4096]);
    }
}
