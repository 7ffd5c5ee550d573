//! The figures of a run while it goes on.

use durio_plan::Plan;
use durio_record::{Event, Phase};
use durio_units::Nanos;

use crate::distribution::quantile_or_max;
use crate::step_state::headline;

/// What the terminal shows of the latest interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LiveFigures {
    /// Index of the step.
    pub step: u32,
    /// Whether the interval counts.
    pub phase: Phase,
    /// End of the interval, since the step's begin.
    pub to: Nanos,
    /// Operations of the headline per second.
    pub rate: f64,
    /// Their 99th percentile (the maximum below 100 samples).
    pub p99_ns: Option<u64>,
}

/// The figures of an interval event; `None` for every other event.
#[must_use]
pub fn live_figures(plan: &Plan, event: &Event) -> Option<LiveFigures> {
    let Event::Interval(interval) = event else { return None };
    let step = plan.steps.get(interval.step as usize)?;
    let name = headline(&step.workload);
    let record = interval.operations.iter().find(|record| record.operation == name);
    let count = record.map_or(0, |record| record.service.exact.count);
    let span = interval.to.saturating_sub(interval.from);
    Some(LiveFigures {
        step: interval.step,
        phase: interval.phase,
        to: interval.to,
        rate: durio_units::Rate::of(count, span).per_second(),
        p99_ns: record
            .and_then(|record| record.service.histogram())
            .and_then(|latency| quantile_or_max(latency, 0.99)),
    })
}
