//! The other side of Little's law: how many operations were in flight, on another clock.

use durio_block::{Clock, Ticks};

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
