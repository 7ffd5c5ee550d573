//! The results of a run in progress.

use durio_base::Nanos;
use durio_plan::{Load, Plan};
use durio_record::{Event, Interval, Latency, OperationRecord, Phase};

use crate::distribution::quantile_or_max;
use crate::step_state::{headline, is_cut_short, rate};

/// The latest interval, for the terminal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LiveFigures {
    /// Index of the step.
    pub step: u32,
    /// Whether the interval counts.
    pub phase: Phase,
    /// End of the interval, since the step's start.
    pub to: Nanos,
    /// Commits, or else reads and writes, per second.
    pub rate: f64,
    /// 99th percentile of the headline operation (the maximum below 100 samples).
    pub p99_ns: Option<u64>,
}

/// The results of an interval event; `None` for other events and intervals too short for a rate.
pub fn live_figures(plan: &Plan, event: &Event) -> Option<LiveFigures> {
    let Event::Interval(interval) = event else { return None };
    let step = plan.steps.get(interval.step as usize)?;
    let load = step.stream(interval.stream)?;
    let record = headline_record(interval, load);
    // The few completions of a last moment would flash up as a rate.
    if is_cut_short(interval, step) {
        return None;
    }
    Some(LiveFigures {
        step: interval.step,
        phase: interval.phase,
        to: interval.to,
        rate: rate(interval, load),
        p99_ns: record
            .filter(|record| record.service.histogram().is_some())
            .and_then(|record| quantile_or_max(&record.service, 0.99)),
    })
}

fn headline_record<'a>(interval: &'a Interval, load: &Load) -> Option<&'a OperationRecord> {
    let name = headline(load);
    interval.operations.iter().find(|record| record.operation == name)
}

/// The results of a step so far: of the intervals that count, and of its first load.
#[derive(Debug)]
pub struct StepSoFar {
    step: u32,
    operations: f64,
    measured: Nanos,
    service: Latency,
}

impl StepSoFar {
    /// The state of step `step`.
    pub fn new(step: u32) -> Self {
        Self { step, operations: 0.0, measured: Nanos::ZERO, service: Latency::default() }
    }

    /// Adds an interval of this step; passes over all other events.
    pub fn add(&mut self, plan: &Plan, event: &Event) {
        let Event::Interval(interval) = event else { return };
        let is_its = interval.step == self.step && interval.stream == 0;
        let Some(step) = plan.steps.get(interval.step as usize).filter(|_| is_its) else { return };
        if interval.phase != Phase::Measure {
            return;
        }
        let span = interval.to.saturating_sub(interval.from);
        self.measured = Nanos::new(self.measured.get().saturating_add(span.get()));
        self.operations += rate(interval, &step.load) * span.as_secs_f64();
        if let Some(record) = headline_record(interval, &step.load) {
            self.service.add(&record.service);
        }
    }

    /// Its results; `None` before the first interval that counts.
    pub fn figures(&self) -> Option<LiveFigures> {
        let seconds = self.measured.as_secs_f64();
        (seconds > 0.0).then(|| LiveFigures {
            step: self.step,
            phase: Phase::Measure,
            to: self.measured,
            rate: self.operations / seconds,
            p99_ns: quantile_or_max(&self.service, 0.99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::sample;
    use durio_record::OperationName;
    use durio_workload::{PerMille, SyncPolicy};
    use testkit::runs;

    fn mixed() -> Plan {
        let mut plan = sample().plan;
        plan.steps[0].load.workload.read_share = PerMille(700);
        plan.steps[0].load.workload.sync = SyncPolicy::NONE;
        plan
    }

    fn interval(index: u64, length: Nanos) -> Event {
        let [reads, writes] = [(OperationName::Read, 70), (OperationName::Write, 30)]
            .map(|(name, count)| runs::operation(name, &[(1000, count)]));
        let second = runs::interval(index, vec![reads, writes]);
        let to = Nanos::new(second.from.get() + length.get());
        Event::Interval(Interval { to, ..second })
    }

    #[test]
    fn reads_and_writes_count_together_as_in_the_report() {
        let figures = live_figures(&mixed(), &interval(3, Nanos::from_secs(1))).unwrap();
        assert!((figures.rate - 100.0).abs() < 1e-9, "{figures:?}");
    }

    #[test]
    fn an_interval_that_holds_only_the_end_is_not_shown_as_a_rate() {
        assert_eq!(live_figures(&mixed(), &interval(3, Nanos::from_millis(499))), None);
        assert!(live_figures(&mixed(), &interval(3, Nanos::from_millis(500))).is_some());
        assert!(live_figures(&mixed(), &interval(0, Nanos::from_millis(1))).is_some());
    }

    #[test]
    fn a_step_s_figures_are_of_all_its_intervals_that_count() {
        let plan = mixed();
        let mut so_far = StepSoFar::new(0);
        assert_eq!(so_far.figures(), None);
        so_far.add(&plan, &interval(0, Nanos::from_secs(1)));
        so_far.add(&plan, &interval(1, Nanos::from_secs(3)));
        if let Event::Interval(mut other) = interval(2, Nanos::from_secs(1)) {
            other.stream = 1;
            so_far.add(&plan, &Event::Interval(other));
        }
        let figures = so_far.figures().unwrap();
        assert!((figures.rate - 50.0).abs() < 1e-9, "{figures:?}");
        assert_eq!((figures.to, figures.p99_ns), (Nanos::from_secs(4), Some(1000)));
    }

    #[test]
    fn an_interval_is_shown_with_its_end_its_phase_and_the_latency_of_its_headline() {
        let Event::Interval(mut it) = interval(6, Nanos::from_secs(2)) else { unreachable!() };
        it.phase = Phase::Ramp;
        it.operations.iter_mut().for_each(|record| record.service = Latency::default());
        (0..70).for_each(|_| it.operations[0].service.record(2000));
        (0..30).for_each(|_| it.operations[1].service.record(5000));
        let found = live_figures(&mixed(), &Event::Interval(it.clone())).unwrap();
        let expected = LiveFigures {
            step: 0,
            phase: Phase::Ramp,
            to: Nanos::from_secs(8),
            rate: 50.0,
            p99_ns: Some(2000),
        };
        assert_eq!(found, expected);
        it.operations.remove(0);
        let writes = live_figures(&mixed(), &Event::Interval(it)).unwrap();
        assert_eq!((writes.rate, writes.p99_ns), (15.0, None), "no read, no latency of reads");
    }

    #[test]
    fn a_step_so_far_leaves_out_its_ramp_and_other_steps() {
        let plan = mixed();
        let mut so_far = StepSoFar::new(0);
        let spoiled = |spoil: fn(&mut Interval)| {
            let Event::Interval(mut it) = interval(0, Nanos::from_secs(5)) else { unreachable!() };
            spoil(&mut it);
            Event::Interval(it)
        };
        so_far.add(&plan, &spoiled(|it| it.phase = Phase::Ramp));
        so_far.add(&plan, &spoiled(|it| it.step = 1));
        assert_eq!(so_far.figures(), None);
        so_far.add(&plan, &interval(1, Nanos::from_secs(4)));
        let found = so_far.figures().unwrap();
        assert_eq!((found.rate, found.to), (25.0, Nanos::from_secs(4)));
    }
}
