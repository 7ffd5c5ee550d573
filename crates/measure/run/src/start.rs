//! When a measured step starts: at once, or at a time that the sink orders.

use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_block::{Clock as _, MonotonicClock, sleep_until};
use durio_plan::{Role, Step};
use durio_record::{Event, StepGated};

use crate::{EventSink, StopFlag};

/// The answer of a sink to a step that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStart {
    Now,
    At(GateOrder),
    /// Not at all: the run ends as interrupted, and the sink knows why.
    Aborted,
}

/// An order to start at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateOrder {
    /// On this host's CLOCK_MONOTONIC; a step whose time is past starts at once.
    pub at: Nanos,
    /// The sender's estimate of its clock minus this host's, which is only recorded.
    pub offset_ns: i64,
    /// The largest error of that estimate.
    pub bound_ns: u64,
}

/// The time before an ordered start at which the step is reported as started and the counters of
/// the machine are read: these take up to some milliseconds.
const LEAD: Nanos = Nanos::from_millis(10);

/// When a step starts, and when it was ready to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartTime {
    armed: Nanos,
    order: Option<GateOrder>,
}

impl StartTime {
    /// Asks the sink when `step` starts, and waits until shortly before; `None` if the run ends
    /// instead.
    pub(crate) fn ask(
        sink: &mut dyn EventSink,
        (step, round): (&Step, u32),
        stop: &StopFlag,
    ) -> Option<Self> {
        let armed = monotonic_now();
        if step.role != Role::Measure {
            return Some(Self { armed, order: None });
        }
        let order = match sink.step_ready(step, round) {
            StepStart::Now => return Some(Self { armed, order: None }),
            StepStart::At(order) => order,
            StepStart::Aborted => return None,
        };
        let left = order.at.saturating_sub(monotonic_now()).saturating_sub(LEAD);
        wait(left, stop).then_some(Self { armed, order: Some(order) })
    }

    /// Sleeps until the ordered time, if there is one and it is not past.
    pub(crate) fn sleep(&self) {
        if let Some(order) = self.order {
            sleep_until(order.at.get());
        }
    }

    /// What the record has of an ordered start.
    pub(crate) fn event(&self, (step, round): (u32, u32), started: Nanos) -> Option<Event> {
        let GateOrder { at: ordered_at, offset_ns, bound_ns } = self.order?;
        let armed = self.armed;
        let gated = StepGated { step, round, armed, ordered_at, started, offset_ns, bound_ns };
        Some(Event::StepGated(gated))
    }
}

pub(crate) fn monotonic_now() -> Nanos {
    Nanos::new(MonotonicClock.now().0)
}

/// Waits; false if the user wants to end before it is over.
pub(crate) fn wait(span: Nanos, stop: &StopFlag) -> bool {
    // A wish to stop is heard soon enough, and a pause of minutes is some thousand wake-ups.
    const LOOK: Duration = Duration::from_millis(50);
    let begin = Instant::now();
    loop {
        let left = Duration::from(span).saturating_sub(begin.elapsed());
        if stop.is_set() || left.is_zero() {
            return !stop.is_set();
        }
        std::thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use durio_plan::{EngineKind, Limit, Load};
    use durio_workload::self_cost_workload;

    use super::*;

    /// Gives one answer, and counts the questions.
    struct Answering {
        start: StepStart,
        asked: u32,
    }

    impl EventSink for Answering {
        fn event(
            &mut self,
            _at: Nanos,
            _event: Event,
        ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            Ok(())
        }

        fn step_ready(&mut self, _step: &Step, _round: u32) -> StepStart {
            self.asked += 1;
            self.start
        }
    }

    fn asked(role: Role, start: StepStart, stop: &StopFlag) -> (Option<StartTime>, u32) {
        let load = Load::new(0, self_cost_workload(1), EngineKind::Null);
        let step = Step::new(role, load, Limit::Operations(1), Nanos::from_secs(1));
        let mut sink = Answering { start, asked: 0 };
        (StartTime::ask(&mut sink, (&step, 4), stop), sink.asked)
    }

    fn at(at: Nanos) -> GateOrder {
        GateOrder { at, offset_ns: -70, bound_ns: 900 }
    }

    #[test]
    fn measured_steps_alone_wait_for_an_order() {
        let stop = StopFlag::default();
        let order = StepStart::At(at(Nanos::ZERO));
        for role in [Role::SelfCost, Role::Precondition, Role::Trace] {
            let (start, asked) = asked(role, order, &stop);
            assert_eq!((start.unwrap().order, asked), (None, 0), "{role:?}");
        }
        let (start, asked) = asked(Role::Measure, order, &stop);
        assert_eq!((start.unwrap().order, asked), (Some(at(Nanos::ZERO)), 1));
    }

    #[test]
    fn an_order_is_waited_for_up_to_its_lead_and_then_slept_for() {
        let begin = monotonic_now();
        let time = Nanos::new(begin.get() + 60_000_000);
        let (start, _) = asked(Role::Measure, StepStart::At(at(time)), &StopFlag::default());
        assert!(monotonic_now() >= time.saturating_sub(Nanos::from_millis(10)));
        let start = start.unwrap();
        start.sleep();
        let now = monotonic_now();
        assert!(now >= time);
        let Some(Event::StepGated(gated)) = start.event((3, 4), now) else { panic!("{start:?}") };
        assert_eq!((gated.step, gated.round, gated.ordered_at), (3, 4, time));
        assert_eq!((gated.started, gated.offset_ns, gated.bound_ns), (now, -70, 900));
        assert!(begin <= gated.armed && gated.armed < time);
    }

    #[test]
    fn a_step_without_an_order_starts_at_once_and_has_no_event() {
        let (start, asked) = asked(Role::Measure, StepStart::Now, &StopFlag::default());
        let start = start.unwrap();
        start.sleep();
        assert!(asked == 1 && start.event((0, 0), Nanos::new(5)).is_none());
    }

    #[test]
    fn an_abort_and_a_wish_to_stop_are_no_start() {
        let stop = StopFlag::default();
        assert!(asked(Role::Measure, StepStart::Aborted, &stop).0.is_none());
        stop.set();
        let late = StepStart::At(at(Nanos::new(monotonic_now().get() + 3_600_000_000_000)));
        assert!(asked(Role::Measure, late, &stop).0.is_none());
    }

    #[test]
    fn a_wait_ends_with_its_time_or_with_a_wish_to_stop_which_it_tells() {
        let stop = StopFlag::default();
        assert!(wait(Nanos::ZERO, &stop) && wait(Nanos::new(1), &stop));
        let begin = Instant::now();
        assert!(wait(Nanos::from_millis(20), &stop));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        stop.set();
        assert!(!wait(Nanos::ZERO, &stop) && !wait(Nanos::from_secs(3600), &stop));
    }
}
