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
    /// From the last host's start to the first host's end; zero if they have no time in common.
    pub(crate) length: Nanos,
    is_ordered: bool,
    is_agreed: bool,
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
            length: nanos(end - start),
            is_ordered,
            is_agreed: is_ordered && spans.iter().all(|span| span.start.is_agreed),
            first_start,
            last_end,
            start,
        })
    }

    /// True if one process ordered all starts; else hosts are aligned by their wall clocks.
    pub(crate) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// True if every host had an order to start this step; else hosts started it when they were ready.
    pub(crate) fn is_agreed(&self) -> bool {
        self.is_agreed
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

/// The most by which starts may differ for a rate of shared storage: 10 ms, or 1 % of an interval if
/// that is less.
pub(crate) fn skew_limit(spans: &[&StepSpan]) -> Nanos {
    let shortest = spans.iter().map(|span| span.interval.get() / 100).min();
    Nanos::new(shortest.unwrap_or(u64::MAX)).min(Nanos::from_millis(10))
}

/// A difference of times; zero for a negative one.
fn nanos(difference: ClockTime) -> Nanos {
    Nanos::new(u64::try_from(difference.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(started: &str, lines: &[&str]) -> StartTimes {
        let manifest = Manifest {
            schema: 2,
            run: "made".to_owned(),
            durio_version: "0.1.0".to_owned(),
            started: started.to_owned(),
            command: Vec::new(),
            label: None,
        };
        let mut starts = StartTimes::new(&manifest);
        for line in lines {
            starts.observe(&TimedEvent::read(line.as_bytes()).unwrap());
        }
        starts
    }

    fn step_started(step: u32, at_ns: u64) -> String {
        format!(
            r#"{{"at_ns":{at_ns},"event":"step_started","step":{step},"engine":"sync","jobs":1,"depth":1,"batch":1,"cache":"direct","region":"shared","clock":"tsc","features":[],"fallbacks":[]}}"#
        )
    }

    const GATED: &str = r#"{"at_ns":4000000000,"event":"step_gated","step":0,"armed_ns":10,"ordered_at_ns":50,"started_ns":100,"offset_ns":900,"bound_ns":7}"#;

    #[test]
    fn a_step_is_on_the_clock_of_its_order_or_of_an_earlier_one_and_on_the_wall_clock() {
        let (first, second) = (step_started(0, 1_000_000_000), step_started(1, 6_000_000_000));
        let found = starts("1970-01-01T00:00:02Z", &[&first, GATED, &second]);
        let wall = |nanos| Some(ClockTime::from(nanos));
        let expected = AlignedStart {
            ordered: Some((1000, 7)),
            wall: wall(3_000_000_000_u64),
            is_agreed: true,
        };
        assert_eq!(found.start_of(0, 0), expected);
        let expected = AlignedStart {
            ordered: Some((5_000_001_000, 10_000_007)),
            wall: wall(8_000_000_000_u64),
            is_agreed: false,
        };
        assert_eq!(found.start_of(1, 0), expected);
        assert_eq!(found.start_of(2, 0), AlignedStart::default());
        assert_eq!(found.start_of(0, 1), AlignedStart::default());
        let found = starts("noon", &[&first]);
        assert_eq!(found.start_of(0, 0), AlignedStart::default());
    }

    #[test]
    fn a_resumed_run_has_no_clock_until_another_order() {
        let resumed =
            r#"{"at_ns":7000000000,"event":"run_resumed","step":1,"repeated":[],"resumed":"now"}"#;
        let (first, second) = (step_started(0, 1_000_000_000), step_started(1, 9_000_000_000));
        let lines = [first.as_str(), GATED, resumed, second.as_str()];
        let found = starts("1970-01-01T00:00:02Z", &lines);
        assert_eq!(found.start_of(0, 0), AlignedStart::default());
        assert_eq!(found.start_of(1, 0), AlignedStart::default());
        let gated = GATED.replace(r#""step":0"#, r#""step":1"#);
        let lines = [first.as_str(), GATED, resumed, second.as_str(), gated.as_str()];
        let found = starts("1970-01-01T00:00:02Z", &lines);
        let expected = AlignedStart { ordered: Some((1000, 7)), wall: None, is_agreed: true };
        assert_eq!(found.start_of(1, 0), expected);
    }

    fn span(start: AlignedStart, interval: Nanos) -> StepSpan {
        StepSpan {
            key: HostStep {
                workload: "randread".to_owned(),
                target: "data".to_owned(),
                operation: OperationName::Read,
                occurrence: 0,
            },
            step: 0,
            round: 0,
            stream: 0,
            is_complete: true,
            start,
            from: Nanos::from_secs(1),
            to: Nanos::from_secs(5),
            interval,
            rate: 1.0,
            p99_ns: None,
            storage: StorageIdentity::default(),
        }
    }

    #[test]
    fn a_start_is_agreed_if_every_host_had_an_order_for_it() {
        let is_agreed = |hosts: [bool; 2]| {
            let spans = hosts.map(|is_agreed| {
                let start = AlignedStart { ordered: Some((0, 0)), wall: Some(0), is_agreed };
                span(start, Nanos::from_secs(1))
            });
            let window = |has_order| CommonWindow::new(&[&spans[0], &spans[1]], has_order);
            assert!(!window(false).unwrap().is_agreed());
            window(true).unwrap().is_agreed()
        };
        assert!(is_agreed([true, true]));
        assert!(!is_agreed([true, false]));
    }

    #[test]
    fn the_skew_that_is_allowed_is_10_ms_or_a_hundredth_of_the_shortest_interval() {
        let limit = |millis: &[u64]| {
            let spans: Vec<StepSpan> = millis
                .iter()
                .map(|&millis| span(AlignedStart::default(), Nanos::from_millis(millis)))
                .collect();
            skew_limit(&spans.iter().collect::<Vec<_>>())
        };
        assert_eq!(limit(&[1000, 1000]), Nanos::from_millis(10));
        assert_eq!(limit(&[10_000, 60_000]), Nanos::from_millis(10));
        assert_eq!(limit(&[1000, 100]), Nanos::from_millis(1));
        assert_eq!(limit(&[]), Nanos::from_millis(10));
    }

    #[test]
    fn a_window_begins_with_the_last_start_after_the_ramp_and_has_whole_intervals_alone() {
        let second = Nanos::from_secs(1);
        let at = |start| AlignedStart { wall: Some(start), ..AlignedStart::default() };
        let (early, late) = (span(at(0), second), span(at(500_000_000), second));
        let window = CommonWindow::new(&[&early, &late], true).unwrap();
        let expected = (Nanos::from_millis(500), Nanos::from_millis(3500), false);
        assert_eq!((window.skew, window.length, window.is_ordered()), expected);
        let offset = |span: &StepSpan, from, to| {
            window.offset_of(span, Nanos::from_millis(from), Nanos::from_millis(to))
        };
        assert_eq!(offset(&early, 1000, 2000), None);
        assert_eq!(offset(&early, 1500, 5000), Some(Nanos::ZERO));
        assert_eq!(offset(&early, 1500, 5001), None);
        assert_eq!(offset(&late, 1000, 2000), Some(Nanos::ZERO));
        assert_eq!(offset(&late, 3000, 4000), Some(Nanos::from_secs(2)));
        assert_eq!(offset(&late, 4000, 5000), None);
        let unknown = span(AlignedStart::default(), second);
        assert_eq!(CommonWindow::new(&[&early, &unknown], true), None);
        assert_eq!(CommonWindow::new(&[], true), None);
    }
}
