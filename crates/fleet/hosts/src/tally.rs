//! The operations of each host within the time that all hosts ran a step.
//!
//! Counts and histograms of whole intervals are added. Hosts are read one after the other, so that only
//! sums are in memory.

use std::path::Path;

use durio_analyse::{distribution, is_cut_short};
use durio_base::Nanos;
use durio_base::stats::least_squares::{count, float};
use durio_plan::Step;
use durio_record::{Event, Interval, Latency, Phase, RunFolder};

use crate::window::{CommonWindow, StepSpan};

/// A step whose intervals are wanted from a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedStep<'a> {
    /// Place of its pool.
    pub(crate) pool: usize,
    pub(crate) span: &'a StepSpan,
    pub(crate) window: CommonWindow,
}

impl WantedStep<'_> {
    fn has(&self, interval: &Interval) -> bool {
        let span = self.span;
        (interval.step, interval.round, interval.stream) == (span.step, span.round, span.stream)
    }
}

/// More seconds of a window are not shown one by one.
const SECONDS_MAX: u64 = 86_400;

const SECOND_NS: u64 = 1_000_000_000;

/// Operations in a second of the window, and how much of it whole intervals cover.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Second {
    operations: f64,
    covered_ns: u64,
}

/// Operations of one host in the common window.
#[derive(Debug, Default)]
pub(crate) struct PooledCounts {
    count: u64,
    covered_ns: u64,
    latency: Latency,
    /// The record lost histograms of some of the operations.
    lacks_histograms: bool,
    seconds: Vec<Second>,
}

impl PooledCounts {
    fn new(window: &CommonWindow) -> Self {
        let seconds = window.length.get() / SECOND_NS;
        let shown = usize::try_from(seconds).unwrap_or_default();
        let shown = if seconds > SECONDS_MAX { 0 } else { shown };
        Self { seconds: vec![Second::default(); shown], ..Self::default() }
    }

    fn add(&mut self, wanted: &WantedStep<'_>, interval: &Interval, step: &Step) {
        if interval.phase != Phase::Measure || is_cut_short(interval, step) {
            return;
        }
        let (from, to) = (interval.from, interval.to);
        let Some(offset) = wanted.window.offset_of(wanted.span, from, to) else { return };
        let operation = wanted.span.key.operation;
        let record = interval.operations.iter().find(|record| record.operation == operation);
        let count = record.map_or(0, |record| record.service.exact.count);
        let length = to.saturating_sub(from).get();
        self.count = self.count.saturating_add(count);
        self.covered_ns = self.covered_ns.saturating_add(length);
        if let Some(record) = record {
            // From the intended start in an open loop.
            let latency = record.response.as_ref().unwrap_or(&record.service);
            self.lacks_histograms |= latency.exact.count > 0 && latency.histogram().is_none();
            self.latency.add(latency);
        }
        self.add_to_seconds(offset.get(), length, count);
    }

    /// Divides the operations of an interval among the seconds of the window, by time.
    fn add_to_seconds(&mut self, offset: u64, length: u64, operations: u64) {
        let end = offset.saturating_add(length);
        let mut at = offset;
        while at < end {
            let second = at / SECOND_NS;
            let next = (second + 1).saturating_mul(SECOND_NS).min(end);
            let place = usize::try_from(second).ok();
            let Some(known) = place.and_then(|place| self.seconds.get_mut(place)) else { return };
            known.operations += float(operations) * float(next - at) / float(length);
            known.covered_ns += next - at;
            at = next;
        }
    }
}

/// The tallies of the wanted steps, in their order, of the run at `path`; `None` if it cannot be
/// opened.
pub(crate) fn tally_run(path: &Path, wanted: &[WantedStep<'_>]) -> Option<Vec<PooledCounts>> {
    let folder = RunFolder::open(path).ok()?;
    let mut tallies: Vec<PooledCounts> =
        wanted.iter().map(|wanted| PooledCounts::new(&wanted.window)).collect();
    // The steps were complete: they end before damage that there may be.
    for timed in folder.events().ok()?.map_while(Result::ok) {
        for (wanted, tally) in wanted.iter().zip(&mut tallies) {
            let span = wanted.span;
            match &timed.event {
                // A resumed run does a step again, and the first attempt is void.
                Event::StepStarted(started)
                    if (started.step, started.round) == (span.step, span.round) =>
                {
                    *tally = PooledCounts::new(&wanted.window);
                }
                Event::Interval(interval) if wanted.has(interval) => {
                    if let Some(step) = folder.plan.steps.get(span.step as usize) {
                        tally.add(wanted, interval, step);
                    }
                }
                _ => {}
            }
        }
    }
    Some(tallies)
}

/// Results of one host in the common window, without its histogram.
#[derive(Debug)]
pub(crate) struct HostTotal {
    pub(crate) host: String,
    pub(crate) rate: f64,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
}

/// Operations of all hosts in the common window.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) latency: Latency,
    pub(crate) lacks_histograms: bool,
    pub(crate) hosts: Vec<HostTotal>,
    /// The shortest time that the whole intervals of one of the hosts cover.
    pub(crate) counted_min: Option<Nanos>,
    /// Hosts without a whole interval in the window.
    pub(crate) empty: Vec<String>,
    /// The rate of each second, and the hosts that are in it.
    seconds: Vec<(f64, usize)>,
}

impl Totals {
    pub(crate) fn add(&mut self, host: &str, tally: &PooledCounts) {
        if tally.covered_ns == 0 {
            self.empty.push(host.to_owned());
            return;
        }
        let counted = Nanos::new(tally.covered_ns);
        self.counted_min = Some(self.counted_min.map_or(counted, |least| least.min(counted)));
        let own = distribution(&tally.latency).filter(|_| !tally.lacks_histograms);
        self.hosts.push(HostTotal {
            host: host.to_owned(),
            rate: per_second(float(tally.count), tally.covered_ns),
            p50_ns: own.as_ref().and_then(|own| own.p50_ns),
            p99_ns: own.as_ref().and_then(|own| own.p99_ns),
        });
        self.lacks_histograms |= tally.lacks_histograms;
        self.latency.add(&tally.latency);
        self.seconds.resize(self.seconds.len().max(tally.seconds.len()), (0.0, 0));
        for (sum, second) in self.seconds.iter_mut().zip(&tally.seconds) {
            // A shorter part of a second says little about all of it.
            if second.covered_ns >= SECOND_NS / 2 {
                sum.0 += per_second(second.operations, second.covered_ns);
                sum.1 += 1;
            }
        }
    }

    /// The rates from the first to the last second that all `hosts` are in, and which second of the
    /// window is the first: where one is missing the rate would seem to fall.
    pub(crate) fn rate_over_time(&self, hosts: usize) -> (f64, Vec<f64>) {
        let is_full = |second: &(f64, usize)| second.1 == hosts;
        let first = self.seconds.iter().position(is_full).unwrap_or_default();
        let behind = self.seconds.iter().rposition(is_full).map_or(first, |last| last + 1);
        let rates = self.seconds.get(first..behind).into_iter().flatten().map(|second| second.0);
        (count(first), rates.collect())
    }
}

fn per_second(operations: f64, nanos: u64) -> f64 {
    operations / (float(nanos) / 1e9)
}

#[cfg(test)]
mod tests {
    use durio_plan::{Limit, Role};
    use durio_record::{Exact, OperationName, OperationRecord};
    use testkit::{plans, runs};

    use super::*;
    use crate::window::AlignedStart;
    use crate::window::tests::span;

    /// The counts of a host with this interval, of a window of seconds 1 to 5.
    fn tallied(interval: &Interval) -> PooledCounts {
        let second = Nanos::from_secs(1);
        let span = span(AlignedStart { wall: Some(0), ..AlignedStart::default() }, second);
        let window = CommonWindow::new(&[&span, &span], false).unwrap();
        let limit = Limit::Duration(Nanos::from_secs(5));
        let plan = plans::campaign(&[(0, Role::Measure, limit)], 1, 1);
        let mut tally = PooledCounts::new(&window);
        tally.add(&WantedStep { pool: 0, span: &span, window }, interval, &plan.steps[0]);
        tally
    }

    #[test]
    fn latencies_begin_with_the_intended_start_and_need_their_histograms() {
        let closed = runs::operation(OperationName::Read, &[(100_000, 400)]);
        let response = Some(runs::latency(&[(300_000, 400)]));
        let open = OperationRecord { response, ..closed.clone() };
        let mut lost = closed.clone();
        lost.service = Latency::default();
        lost.service.exact =
            Exact { count: 400, sum_ns: 40_000_000, min_ns: 100_000, max_ns: 100_000 };
        let other = OperationRecord { operation: OperationName::Write, ..closed.clone() };
        let mut totals = Totals::default();
        for (host, operations) in
            [("closed", vec![closed]), ("open", vec![open]), ("other", vec![other])]
        {
            totals.add(host, &tallied(&runs::interval(2, operations)));
        }
        assert!(!totals.lacks_histograms);
        totals.add("lost", &tallied(&runs::interval(2, vec![lost])));
        assert!(totals.lacks_histograms);
        let found: Vec<_> =
            totals.hosts.iter().map(|host| (host.host.as_str(), host.rate, host.p50_ns)).collect();
        let expected = [
            ("closed", 400.0, Some(100_000)),
            ("open", 400.0, Some(300_000)),
            ("other", 0.0, None),
            ("lost", 400.0, None),
        ];
        assert_eq!(found, expected);
        assert_eq!(totals.latency, runs::latency(&[(100_000, 400), (300_000, 400)]));
    }

    #[test]
    fn the_ramp_and_a_rest_of_less_than_half_an_interval_do_not_count() {
        let read = || vec![runs::operation(OperationName::Read, &[(100_000, 400)])];
        let until =
            |millis| Interval { to: Nanos::from_millis(millis), ..runs::interval(2, read()) };
        let counts = |interval: &Interval| {
            let tally = tallied(interval);
            (tally.count, tally.covered_ns)
        };
        assert_eq!(counts(&until(2500)), (400, 500_000_000));
        assert_eq!(counts(&until(2499)), (0, 0));
        assert_eq!(counts(&Interval { phase: Phase::Ramp, ..until(3000) }), (0, 0));
        let mut totals = Totals::default();
        totals.add("db1", &tallied(&until(2500)));
        totals.add("db2", &tallied(&until(2499)));
        assert_eq!((totals.hosts.len(), totals.empty), (1, vec!["db2".to_owned()]));
        assert_eq!(totals.hosts[0].rate, 800.0);
        let mut totals = Totals::default();
        let counted_min = [2499, 3000, 2500, 3000].map(|millis| {
            totals.add("db", &tallied(&until(millis)));
            totals.counted_min
        });
        let millis = |millis| Some(Nanos::from_millis(millis));
        assert_eq!(counted_min, [None, millis(1000), millis(500), millis(500)]);
    }

    #[test]
    fn operations_are_divided_among_the_seconds_that_an_interval_covers() {
        let seconds = vec![Second::default(); 3];
        let mut tally = PooledCounts { seconds, ..PooledCounts::default() };
        tally.add_to_seconds(250_000_000, 1_000_000_000, 100);
        tally.add_to_seconds(2_500_000_000, 1_000_000_000, 40);
        let seconds: Vec<(f64, u64)> =
            tally.seconds.iter().map(|second| (second.operations, second.covered_ns)).collect();
        assert_eq!(seconds, [(75.0, 750_000_000), (25.0, 250_000_000), (20.0, 500_000_000)]);
    }
}
