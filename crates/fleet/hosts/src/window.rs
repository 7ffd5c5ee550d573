//! When the steps of all hosts ran, on one clock, and the time that they have in common.

use std::collections::BTreeMap;
use std::time::SystemTime;

use durio_base::Nanos;
use durio_record::{Event, Manifest, OperationName, StepGated, TimedEvent};

use crate::facts::StorageIdentity;

/// The same measurement on several hosts has the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostStep {
    pub(crate) workload: String,
    pub(crate) target: String,
    pub(crate) operation: OperationName,
    /// Which of several steps with these names it is, from 0.
    pub(crate) occurrence: usize,
}

/// A measured step of one host.
#[derive(Debug, Clone)]
pub(crate) struct StepSpan {
    pub(crate) key: HostStep,
    /// Where its events are in the record.
    pub(crate) step: u32,
    pub(crate) round: u32,
    pub(crate) stream: u32,
    /// False if it was cut.
    pub(crate) is_complete: bool,
    pub(crate) start: AlignedStart,
    /// The whole intervals of the measured phase, since the step's start.
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    /// Length of the recorded intervals.
    pub(crate) interval: Nanos,
    /// Mean rate of the whole step.
    pub(crate) rate: f64,
    pub(crate) p99_ns: Option<u64>,
    /// Identity of the storage below the target.
    pub(crate) storage: StorageIdentity,
}

/// Nanoseconds on a clock; signed and wide, since times in a record may be any.
pub(crate) type ClockTime = i128;

/// The start of a step, by the clocks that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AlignedStart {
    /// On the clock of the process that ordered starts, with the largest error.
    pub(crate) ordered: Option<(ClockTime, u64)>,
    /// On the host's wall clock, since 1970.
    pub(crate) wall: Option<ClockTime>,
    /// False if the host started by itself, without an order for this step.
    pub(crate) is_agreed: bool,
}

/// Between the report of a start and the start itself the runner reads counters.
const REPORTED_BEFORE: u64 = 10_000_000;

/// Gathers the starts of a run's steps from its events.
#[derive(Debug)]
pub(crate) struct StartTimes {
    /// Start of the run on the wall clock.
    run: Option<ClockTime>,
    reported: BTreeMap<(u32, u32), Nanos>,
    gated: BTreeMap<(u32, u32), StepGated>,
    is_resumed: bool,
}

impl StartTimes {
    pub(crate) fn new(manifest: &Manifest) -> Self {
        let since_1970 = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
        let run = manifest.started_at().and_then(since_1970);
        Self {
            run: run.map(|time| ClockTime::from(Nanos::from(time).get())),
            reported: BTreeMap::new(),
            gated: BTreeMap::new(),
            is_resumed: false,
        }
    }

    pub(crate) fn observe(&mut self, timed: &TimedEvent) {
        match &timed.event {
            Event::StepStarted(started) => {
                let key = (started.step, started.round);
                self.reported.insert(key, timed.at);
                self.gated.remove(&key);
            }
            Event::StepGated(gated) => {
                self.gated.insert((gated.step, gated.round), *gated);
            }
            // Its times continue those before the interruption, however long that was.
            Event::RunResumed(_) => {
                self.is_resumed = true;
                self.reported.clear();
                self.gated.clear();
            }
            _ => {}
        }
    }

    pub(crate) fn start_of(&self, step: u32, round: u32) -> AlignedStart {
        let key = (step, round);
        let Some(reported) = self.reported.get(&key) else { return AlignedStart::default() };
        let at = ClockTime::from(reported.get());
        // A step without an order is on the same clock as one with it, by the time between them.
        let ordered = self.gated.get(&key).map(ordered_start).or_else(|| {
            let (anchor, gated) = self.gated.first_key_value()?;
            let (start, bound) = ordered_start(gated);
            let since = at - ClockTime::from(self.reported.get(anchor)?.get());
            Some((start + since, bound.saturating_add(REPORTED_BEFORE)))
        });
        let wall = self.run.filter(|_| !self.is_resumed).map(|run| run + at);
        AlignedStart { ordered, wall, is_agreed: self.gated.contains_key(&key) }
    }
}

/// From the first start of a run that was ordered to the end of its last step, on the clock of orders.
pub(crate) fn ordered_time(steps: &[StepSpan]) -> Option<[ClockTime; 2]> {
    let agreed = steps.iter().filter(|step| step.start.is_agreed);
    let (first, _) = agreed.filter_map(|step| step.start.ordered).min()?;
    let end = |step: &StepSpan| Some(step.start.ordered?.0 + ClockTime::from(step.to.get()));
    Some([first, steps.iter().filter_map(end).max()?])
}

fn ordered_start(gated: &StepGated) -> (ClockTime, u64) {
    let start = ClockTime::from(gated.started.get()) + ClockTime::from(gated.offset_ns);
    (start, gated.bound_ns)
}

/// The time in which all hosts ran a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommonWindow {
    /// Latest start − earliest start.
    pub(crate) skew: Nanos,
    /// The same with the errors of the clocks; equal to it on wall clocks, whose errors are unknown.
    pub(crate) skew_max: Nanos,
    /// Agreed starts that differ by more are a doubt.
    pub(crate) skew_limit: Nanos,
    /// From the last host's start to the first host's end; zero if they have no time in common.
    pub(crate) length: Nanos,
    /// True if one process ordered all starts; else hosts are aligned by their wall clocks.
    pub(crate) is_ordered: bool,
    /// True if every host had an order to start this step; else hosts started it when they were ready.
    pub(crate) is_agreed: bool,
    /// The first host's start, and the last host's end.
    first_start: ClockTime,
    last_end: ClockTime,
    start: ClockTime,
}

impl CommonWindow {
    /// The window of the spans; `None` if no clock has all of them. `has_order` is false if the
    /// orders of starts came from different processes.
    pub(crate) fn new(spans: &[&StepSpan], has_order: bool) -> Option<Self> {
        let ordered = || spans.iter().map(move |span| span.start.ordered.filter(|_| has_order));
        let wall = || spans.iter().map(|span| Some((span.start.wall?, 0)));
        let is_ordered = ordered().all(|start| start.is_some());
        let starts: Option<Vec<(ClockTime, u64)>> =
            if is_ordered { ordered().collect() } else { wall().collect() };
        let starts = starts?;
        let measured = |since: fn(&StepSpan) -> Nanos| {
            let times = starts.iter().zip(spans);
            times.map(move |((start, _), span)| start + ClockTime::from(since(span).get()))
        };
        let start = measured(|span| span.from).max()?;
        let end = measured(|span| span.to).min()?;
        let last_end = measured(|span| span.to).max()?;
        let bounds = starts.iter().map(|&(at, bound)| (at, ClockTime::from(bound)));
        let latest = bounds.clone().map(|(at, bound)| at + bound).max()?;
        let earliest = bounds.clone().map(|(at, bound)| at - bound).min()?;
        let first_start = bounds.clone().map(|(at, _)| at).min()?;
        let skew = bounds.map(|(at, _)| at).max()? - first_start;
        Some(Self {
            skew: nanos(skew),
            skew_max: nanos(latest - earliest),
            skew_limit: skew_limit(spans),
            length: nanos(end - start),
            is_ordered,
            is_agreed: is_ordered && spans.iter().all(|span| span.start.is_agreed),
            first_start,
            last_end,
            start,
        })
    }

    /// The first and the last start.
    pub(crate) fn starts(&self) -> [ClockTime; 2] {
        [self.first_start, self.first_start + ClockTime::from(self.skew.get())]
    }

    /// True from the first start to the last end.
    pub(crate) fn is_during(&self, time: ClockTime) -> bool {
        (self.first_start..=self.last_end).contains(&time)
    }

    /// Seconds since the window's start; negative before it.
    pub(crate) fn seconds_at(&self, time: ClockTime) -> f64 {
        nanos(time - self.start).as_secs_f64() - nanos(self.start - time).as_secs_f64()
    }

    /// Where an interval of `span` lies, since the window's start; `None` unless all of it is within
    /// the window.
    pub(crate) fn offset_of(&self, span: &StepSpan, from: Nanos, to: Nanos) -> Option<Nanos> {
        let start = if self.is_ordered { span.start.ordered?.0 } else { span.start.wall? };
        let offset = start + ClockTime::from(from.get()) - self.start;
        let end = start + ClockTime::from(to.get()) - self.start;
        let is_within = offset >= 0 && end <= ClockTime::from(self.length.get());
        is_within.then(|| nanos(offset))
    }
}

/// The most by which agreed starts may differ without a doubt: 10 ms, or 1 % of an interval if that is
/// less.
fn skew_limit(spans: &[&StepSpan]) -> Nanos {
    let shortest = spans.iter().map(|span| span.interval.get() / 100).min();
    Nanos::new(shortest.unwrap_or(u64::MAX)).min(Nanos::from_millis(10))
}

/// A difference of times; zero for a negative one.
fn nanos(difference: ClockTime) -> Nanos {
    Nanos::new(u64::try_from(difference.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
pub(crate) mod tests;
