//! The offset of a host's monotonic clock, estimated from round trips.
//!
//! The host reads its clock at some moment between the question and its answer. Taken at the middle
//! of the round trip, the offset is wrong by half of it at most, however the time is shared between
//! both ways. The smallest round trip of a series gives the smallest bound. Later the bound grows,
//! because clocks drift.

use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_record::fleet::ClockOffset;

use crate::fault::FleetFault;

/// Questions of a series; more bring little.
pub const PROBES: u32 = 16;
pub const PROBE_GAP: Nanos = Nanos::from_millis(20);
/// Time between questions to any hosts, on average: 1,000 that were asked at once, 16 times in 320 ms, and
/// their answers, delayed heartbeats by more than the silence of a lost host.
pub(crate) const QUESTION_EVERY: Nanos = Nanos::from_micros(250);
/// Time between single questions while a campaign lasts.
pub const PROBE_EVERY: Nanos = Nanos::from_secs(5);
/// A series without all answers ends this long after its last question.
const ANSWERS_WAIT: Nanos = Nanos::from_millis(500);
/// How fast two clocks can part: 100 ppm each, and a little for the product.
const DRIFT_PPM: u64 = 201;

/// What is known of a host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockEstimate {
    offset_ns: i64,
    bound_ns: u64,
    /// When the offset was true, on the coordinator's clock.
    at: Nanos,
    pub round_trip: Nanos,
}

impl ClockEstimate {
    /// From a question at `sent` whose answer, the host's clock `host`, arrived at `received`.
    pub fn new(sent: Nanos, host: Nanos, received: Nanos, fault: Option<FleetFault>) -> Self {
        let round_trip = received.saturating_sub(sent);
        let middle = Nanos::new(sent.get() + round_trip.get() / 2);
        // The host's clock may drift within the round trip, too.
        let bound_ns = round_trip.get().div_ceil(2) + drift(round_trip);
        let bound_ns = if FleetFault::BoundTooSmall.is_in(fault) { bound_ns / 8 } else { bound_ns };
        Self { offset_ns: difference(host, middle), bound_ns, at: middle, round_trip }
    }

    /// The offset as it is known at `now`, earlier or later.
    pub fn at(&self, now: Nanos) -> ClockOffset {
        let age = Nanos::new(now.get().abs_diff(self.at.get()));
        aged(ClockOffset { offset_ns: self.offset_ns, bound_ns: self.bound_ns }, age)
    }

    /// Whether no clock that only drifts gives both estimates: one was set or stood still between.
    pub fn contradicts(&self, earlier: &Self) -> bool {
        let before = earlier.at(self.at);
        let apart = self.offset_ns.abs_diff(before.offset_ns);
        apart > self.bound_ns.saturating_add(before.bound_ns)
    }

    /// The clock of a host behind a relay: this is the relay's, `host` is the host's less the relay's,
    /// as it was at `at`. Offsets add, and so do bounds.
    pub(crate) fn through(&self, host: ClockOffset, at: Nanos) -> Self {
        let relay = self.at(at);
        // The time of the report is known as well as the relay's clock.
        let host = aged(host, Nanos::new(relay.bound_ns));
        Self {
            offset_ns: relay.offset_ns.saturating_add(host.offset_ns),
            bound_ns: relay.bound_ns.saturating_add(host.bound_ns),
            at,
            round_trip: self.round_trip,
        }
    }

    /// With one more estimate: the better of both; or the later one, and true, if the clock was set or
    /// stood still between.
    pub(crate) fn renewed(before: Option<Self>, later: Self, now: Nanos) -> (Self, bool) {
        match before {
            Some(before) if later.contradicts(&before) => (later, true),
            Some(before) => (before.better(later, now), false),
            None => (later, false),
        }
    }

    /// The better of both at `now`.
    pub fn better(self, other: Self, now: Nanos) -> Self {
        if other.at(now).bound_ns < self.at(now).bound_ns { other } else { self }
    }
}

/// An offset, `span` later.
pub fn aged(clock: ClockOffset, span: Nanos) -> ClockOffset {
    ClockOffset { bound_ns: clock.bound_ns.saturating_add(drift(span)), ..clock }
}

/// The largest change of an offset within `span`, rounded up to whole milliseconds of it.
fn drift(span: Nanos) -> u64 {
    (span.get() / 1_000_000 + 1).saturating_mul(DRIFT_PPM)
}

pub fn later(time: Nanos, span: Nanos) -> Nanos {
    Nanos::new(time.get().saturating_add(span.get()))
}

fn difference(a: Nanos, b: Nanos) -> i64 {
    let signed = |span: u64| i64::try_from(span).unwrap_or(i64::MAX);
    if a >= b { signed(a.get() - b.get()) } else { -signed(b.get() - a.get()) }
}

/// A time of the coordinator's clock on the host's.
pub fn on_host(time: Nanos, clock: ClockOffset) -> Nanos {
    Nanos::new(time.get().saturating_add_signed(clock.offset_ns))
}

/// A time of the host's clock on the coordinator's.
pub fn on_coordinator(time: Nanos, clock: ClockOffset) -> Nanos {
    Nanos::new(time.get().saturating_add_signed(clock.offset_ns.saturating_neg()))
}

/// Questions to a host, a short time apart.
#[derive(Debug, Clone, Default)]
pub struct ProbeSeries {
    left: u32,
    next: Nanos,
    /// When each question was sent that has no answer yet.
    open: BTreeMap<u64, Nanos>,
    largest_round_trip: Nanos,
}

impl ProbeSeries {
    pub fn new(probes: u32, now: Nanos) -> Self {
        Self { left: probes, next: now, ..Self::default() }
    }

    /// True if the next question is due; it is sent with this number.
    pub fn ask(&mut self, nonce: u64, now: Nanos) -> bool {
        if self.left == 0 || now < self.next {
            return false;
        }
        self.left -= 1;
        self.next = later(now, PROBE_GAP);
        self.open.insert(nonce, now);
        true
    }

    /// The estimate of one answer; `None` if nothing is known of its question.
    pub fn answer(
        &mut self,
        (nonce, host): (u64, Nanos),
        now: Nanos,
        fault: Option<FleetFault>,
    ) -> Option<ClockEstimate> {
        let sent = self.open.remove(&nonce)?;
        let estimate = ClockEstimate::new(sent, host, now, fault);
        self.largest_round_trip = self.largest_round_trip.max(estimate.round_trip);
        Some(estimate)
    }

    pub fn is_done(&self, now: Nanos) -> bool {
        let waited = now.saturating_sub(self.next);
        self.left == 0 && (self.open.is_empty() || waited > ANSWERS_WAIT)
    }

    pub fn largest_round_trip(&self) -> Nanos {
        self.largest_round_trip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn estimate(sent: u64, host: u64, received: u64) -> ClockEstimate {
        let [sent, host, received] = [sent, host, received].map(Nanos::new);
        ClockEstimate::new(sent, host, received, None)
    }

    #[test]
    fn the_bound_is_half_of_the_round_trip_and_is_reached_by_a_path_that_is_all_one_way() {
        // The host's clock is 70 ms ahead, and all of 4 ms pass on the way there, or back.
        for host in [74 * MS, 70 * MS] {
            let clock = estimate(0, host, 4 * MS).at(Nanos::new(2 * MS));
            let truth = 70_000_000;
            let error = clock.offset_ns.abs_diff(truth);
            assert_eq!(error, 2_000_000, "{clock:?}");
            // Drift of 4 ms and of none, each of one more started millisecond.
            assert_eq!(clock.bound_ns, 2_000_000 + 5 * 201 + 201);
        }
    }

    #[test]
    fn a_clock_that_is_behind_has_a_negative_offset_and_times_go_both_ways() {
        let clock = estimate(10 * MS, 3 * MS, 12 * MS).at(Nanos::new(11 * MS));
        assert_eq!(clock.offset_ns, -8_000_000);
        let time = Nanos::from_millis(500);
        assert_eq!(on_host(time, clock), Nanos::from_millis(492));
        assert_eq!(on_coordinator(on_host(time, clock), clock), time);
        assert_eq!(on_host(Nanos::from_millis(7), clock), Nanos::ZERO);
    }

    #[test]
    fn the_bound_grows_by_201_ppm_and_an_earlier_better_estimate_is_given_up_in_the_end() {
        let narrow = estimate(0, 0, 2 * MS);
        let later = narrow.at(Nanos::new(MS + 10_000 * MS));
        assert_eq!(later.bound_ns - narrow.at(Nanos::new(MS)).bound_ns, 2_010_000);
        let wide = estimate(10_000 * MS, 10_000 * MS, 10_006 * MS);
        assert_eq!(narrow.better(wide, Nanos::new(10_003 * MS)).round_trip, Nanos::new(6 * MS));
        let wider = estimate(10_000 * MS, 10_000 * MS, 10_007 * MS);
        assert_eq!(narrow.better(wider, Nanos::new(10_003 * MS)).round_trip, Nanos::new(2 * MS));
    }

    #[test]
    fn a_bound_is_rounded_up_and_grows_both_ways_and_of_two_alike_the_first_stays() {
        // Half of 7 ns, and twice the drift of a started millisecond.
        let clock = estimate(0, 10, 7).at(Nanos::new(3));
        assert_eq!(clock, ClockOffset { offset_ns: 7, bound_ns: 4 + 201 + 201 });
        let later = estimate(10_000 * MS, 10_000 * MS, 10_002 * MS);
        let bound_at = |millis: u64| later.at(Nanos::from_millis(millis)).bound_ns;
        assert_eq!(bound_at(1) - bound_at(10_001), 2_010_000);
        let [first, second] = [MS, 5 * MS].map(|host| estimate(0, host, 2 * MS));
        let offset = |clock: ClockEstimate| clock.at(Nanos::ZERO).offset_ns;
        assert_eq!((offset(first), offset(second)), (0, 4_000_000));
        assert_eq!(offset(first.better(second, Nanos::ZERO)), 0);
    }

    #[test]
    fn behind_a_relay_offsets_add_and_bounds_add() {
        // The relay is 70 ms ahead ± 2 ms, the host 30 ms behind the relay ± 1 ms.
        let relay = estimate(0, 72 * MS, 4 * MS);
        let host = ClockOffset { offset_ns: -30_000_000, bound_ns: 1_000_000 };
        let at = Nanos::new(2 * MS);
        let clock = relay.through(host, at).at(at);
        assert_eq!(clock.offset_ns, 40_000_000);
        // Drift of the relay's round trip, and since; of its bound; and of the estimate's own age.
        let drift = (5 + 1 + 3 + 1) * 201;
        assert_eq!(clock.bound_ns, 3_000_000 + drift);
        let later = relay.through(host, at).at(Nanos::new(1_002 * MS));
        assert_eq!(later.bound_ns - clock.bound_ns, 1_000 * 201);
    }

    #[test]
    fn a_step_of_the_clock_contradicts_and_drift_within_the_bounds_does_not() {
        let before = estimate(0, MS, 2 * MS);
        let after = |shift: u64| estimate(1_000 * MS, 1_001 * MS + shift, 1_002 * MS);
        assert!(!after(0).contradicts(&before));
        // 1 ms of either round trip, and 201 µs of drift in 1 s.
        assert!(!after(2_202_000).contradicts(&before));
        assert!(after(2_203_000).contradicts(&before));
    }

    #[test]
    fn a_series_asks_16_times_20_ms_apart_and_keeps_the_longest_round_trip() {
        let mut series = ProbeSeries::new(PROBES, Nanos::from_millis(100));
        let asked: Vec<u64> =
            (0..1_000u64).filter(|&time| series.ask(time, Nanos::from_millis(time))).collect();
        assert_eq!((asked.len(), asked[0], asked[1], asked[15]), (16, 100, 120, 400));
        let mut hear = |nonce: u64, after: u64| {
            let now = Nanos::from_millis(nonce + after);
            series.answer((nonce, now), now, None).map(|estimate| estimate.round_trip)
        };
        assert_eq!(hear(100, 9), Some(Nanos::from_millis(9)));
        assert_eq!(hear(120, 3), Some(Nanos::from_millis(3)));
        assert_eq!(hear(140, 5), Some(Nanos::from_millis(5)));
        // Once each, and none that was not asked.
        assert_eq!((hear(120, 1), hear(7, 1)), (None, None));
        assert_eq!(series.largest_round_trip(), Nanos::from_millis(9));
        assert!(!series.is_done(Nanos::from_millis(920)));
        assert!(series.is_done(Nanos::from_millis(921)));
    }
}
