//! One side of a comparison: its [`ComparedRun`]s, read from events. Each has findings, and for each step a
//! [`StepSeries`] of at most [`CELLS_MAX`] cells, the form that is resampled.

use std::collections::BTreeMap;

use durio_analyse::why::WhyFindings;
use durio_analyse::{Analyser, Findings, headline, is_cut_short};
use durio_plan::{Load, Plan, Role, Step};
use durio_record::{Environment, Event, Interval, Manifest, OperationName, Phase};

use super::bins::Bins;

/// Step, round and stream.
pub(super) type StreamKey = (u32, u32, u32);

/// Gathers one run from its events.
#[derive(Debug)]
pub struct RunReader {
    analyser: Analyser,
    plan: Plan,
    series: BTreeMap<StreamKey, StepSeries>,
}

impl RunReader {
    /// A reader of the run that the manifest names.
    pub fn new(manifest: Manifest, plan: Plan, environment: Environment) -> Self {
        let analyser = Analyser::new(manifest, plan.clone(), environment);
        Self { analyser, plan, series: BTreeMap::new() }
    }

    /// Takes the next event.
    pub fn observe(&mut self, event: &Event) {
        self.analyser.observe(event);
        let Event::Interval(interval) = event else { return };
        let step = self.plan.steps.get(interval.step as usize);
        // Preconditioning and traces are never compared, and each series takes memory.
        let step = step.filter(|step| step.role == Role::Measure);
        if let Some((step, load)) =
            step.and_then(|step| Some((step, step.stream(interval.stream)?)))
        {
            let place = (interval.step, interval.round, interval.stream);
            self.series.entry(place).or_default().take(interval, step, load);
        }
    }

    /// Takes note that the record cannot be read any further, and why.
    pub fn damaged(&mut self, reason: String) {
        self.analyser.damaged(reason);
    }

    /// The run up to the last event seen.
    pub fn finish(self, run_folder: String) -> ComparedRun {
        ComparedRun { findings: self.analyser.finish(run_folder).findings, series: self.series }
    }
}

#[derive(Debug, Clone)]
pub struct ComparedRun {
    pub(super) findings: Findings,
    pub(super) series: BTreeMap<StreamKey, StepSeries>,
}

impl ComparedRun {
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// True if it recorded slow commits while it measured.
    pub(super) fn has_recorded(&self) -> bool {
        self.findings.why.is_some()
    }

    /// The run, with the slow commits that it recorded while it measured.
    #[must_use]
    pub fn with_why(mut self, why: Option<Box<WhyFindings>>) -> Self {
        self.findings.why = why;
        self
    }
}

/// One side: a run, or several of the same thing.
#[derive(Debug)]
pub struct Side {
    /// As the user named it.
    pub source: String,
    pub runs: Vec<ComparedRun>,
}

/// More cells than this are merged in pairs: blocks of them are resampled anyway, and memory stays
/// bounded however fine the intervals are.
const CELLS_MAX: usize = 512;

/// One or more intervals that follow each other.
#[derive(Debug, Clone, Default)]
pub(super) struct IntervalGroup {
    pub(super) span_ns: u64,
    /// Commits, or else reads and writes.
    pub(super) count: u64,
    /// Bytes read and written.
    pub(super) bytes: u64,
    /// The headline operation's latencies.
    pub(super) headline: OperationLatencies,
    /// The sync calls' latencies.
    pub(super) sync: OperationLatencies,
}

/// Latencies of one kind of operation in a cell.
#[derive(Debug, Clone, Default)]
pub(super) struct OperationLatencies {
    pub(super) count: u64,
    pub(super) sum_ns: u64,
    /// How many lie in which bin.
    pub(super) bins: Bins,
}

impl OperationLatencies {
    fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.bins.add(&other.bins);
    }
}

impl IntervalGroup {
    fn add(&mut self, other: &Self) {
        self.span_ns = self.span_ns.saturating_add(other.span_ns);
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.headline.add(&other.headline);
        self.sync.add(&other.sync);
    }
}

/// The measured phase of one step.
#[derive(Debug, Clone, Default)]
pub(super) struct StepSeries {
    cells: Vec<IntervalGroup>,
    /// Intervals per cell, and how many the last cell has.
    per_cell: usize,
    in_last: usize,
}

impl StepSeries {
    /// Takes the next interval; the ramp does not count.
    pub(super) fn take(&mut self, interval: &Interval, step: &Step, load: &Load) {
        if interval.phase == Phase::Ramp {
            return;
        }
        // An interval that the end cut short has no usable rate: it is added to the one before.
        self.push(cell(interval, load), is_cut_short(interval, step));
    }

    fn push(&mut self, cell: IntervalGroup, is_rest: bool) {
        let joins = is_rest || self.in_last < self.per_cell;
        match self.cells.last_mut() {
            Some(last) if joins => last.add(&cell),
            _ => {
                self.halve_if_full();
                self.cells.push(cell);
                self.in_last = 0;
            }
        }
        self.in_last += usize::from(!is_rest);
        self.per_cell = self.per_cell.max(1);
    }

    fn halve_if_full(&mut self) {
        if self.cells.len() < CELLS_MAX {
            return;
        }
        let pairs = self.cells.chunks(2).map(|pair| {
            let mut sum = IntervalGroup::default();
            pair.iter().for_each(|cell| sum.add(cell));
            sum
        });
        self.cells = pairs.collect();
        self.per_cell = self.per_cell.saturating_mul(2);
    }

    /// The cells; the last one is left out where it has less than half of the others' intervals.
    pub(super) fn cells(&self) -> &[IntervalGroup] {
        match self.cells.split_last() {
            // In a draw it would weigh as much as the others, and a rate over a short time scatters
            // farther.
            Some((_, whole)) if self.in_last * 2 < self.per_cell => whole,
            _ => &self.cells,
        }
    }
}

fn cell(interval: &Interval, load: &Load) -> IntervalGroup {
    let headline = headline(load);
    let mut cell = IntervalGroup {
        span_ns: interval.to.saturating_sub(interval.from).get(),
        ..IntervalGroup::default()
    };
    for record in &interval.operations {
        let exact = &record.service.exact;
        if matches!(record.operation, OperationName::Read | OperationName::Write) {
            cell.bytes = cell.bytes.saturating_add(record.bytes.get());
        }
        if is_counted(record.operation, headline) {
            cell.count = cell.count.saturating_add(exact.count);
        }
        let bins = || record.service.histogram().map(Bins::of).unwrap_or_default();
        let latencies =
            || OperationLatencies { count: exact.count, sum_ns: exact.sum_ns, bins: bins() };
        if record.operation == headline {
            cell.headline = latencies();
        } else if record.operation == OperationName::Sync {
            cell.sync = latencies();
        }
    }
    cell
}

/// True for operations that the headline rate counts.
fn is_counted(operation: OperationName, headline: OperationName) -> bool {
    match headline {
        OperationName::Commit => operation == OperationName::Commit,
        _ => matches!(operation, OperationName::Read | OperationName::Write),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(intervals: u64) -> StepSeries {
        let mut series = StepSeries::default();
        for count in 0..intervals {
            series.push(IntervalGroup { span_ns: 10, count, ..IntervalGroup::default() }, false);
        }
        series
    }

    #[test]
    fn few_intervals_are_a_cell_each() {
        let series = taken(50);
        assert_eq!(series.cells().len(), 50);
        assert!(series.cells().iter().all(|cell| cell.span_ns == 10));
    }

    #[test]
    fn many_intervals_share_cells_and_none_is_lost() {
        for intervals in [512, 513, 700, 1024, 1025, 100_000] {
            let series = taken(intervals);
            assert!((256..=512).contains(&series.cells.len()), "{intervals}");
            let count: u64 = series.cells.iter().map(|cell| cell.count).sum();
            assert_eq!(count, intervals * (intervals - 1) / 2, "{intervals}");
            let whole = series.cells.first().unwrap().span_ns;
            assert!(series.cells().iter().all(|cell| cell.span_ns * 2 >= whole), "{intervals}");
        }
    }

    #[test]
    fn what_the_end_cut_short_belongs_to_the_interval_before() {
        let mut series = taken(3);
        series.push(IntervalGroup { span_ns: 1, count: 5, ..IntervalGroup::default() }, true);
        assert_eq!(series.cells().len(), 3);
        assert_eq!(series.cells().last().unwrap().count, 7);
    }

    #[test]
    fn a_last_cell_counts_from_half_of_its_intervals_on() {
        // 1024 intervals fill 512 cells of two; of four in each, 256 and a rest.
        assert_eq!(CELLS_MAX, 512);
        let of = |intervals| {
            let series = taken(intervals);
            (series.per_cell, series.cells.len(), series.cells().len(), series.in_last)
        };
        assert_eq!(of(512), (1, 512, 512, 1));
        assert_eq!(of(513), (2, 257, 257, 1));
        assert_eq!(of(1024), (2, 512, 512, 2));
        assert_eq!(of(1025), (4, 257, 256, 1));
        assert_eq!(of(1026), (4, 257, 257, 2));
        assert_eq!(of(0), (0, 0, 0, 0));
        // The first may be a rest.
        let mut series = StepSeries::default();
        series.push(IntervalGroup { count: 5, ..IntervalGroup::default() }, true);
        series.push(IntervalGroup { count: 7, ..IntervalGroup::default() }, false);
        assert_eq!(series.cells.iter().map(|cell| cell.count).collect::<Vec<_>>(), [12]);
        series.push(IntervalGroup { count: 1, ..IntervalGroup::default() }, false);
        assert_eq!(series.cells.len(), 2);
    }

    fn interval(operations: &[(OperationName, u64, u64, u64)]) -> Interval {
        use durio_base::{Bytes, Nanos};
        use durio_record::OperationRecord;
        use testkit::runs;
        let record = |&(operation, count, bytes, nanos): &(OperationName, u64, u64, u64)| {
            let bytes = Bytes::new(bytes);
            OperationRecord { bytes, ..runs::operation(operation, &[(nanos, count)]) }
        };
        let second = runs::interval(0, operations.iter().map(record).collect());
        Interval { from: Nanos::new(100), to: Nanos::new(350), ..second }
    }

    #[test]
    fn a_cell_has_each_figure_of_its_interval_in_its_place() {
        use OperationName::{Commit, Read, Sync, Write};
        let load = |read_share, method| {
            use durio_workload::{PerMille, SyncPolicy, Workload};
            let sync = SyncPolicy::each(method);
            let workload =
                Workload { read_share: PerMille(read_share), sync, ..Workload::default() };
            Load::new(0, workload, durio_plan::EngineKind::Null)
        };
        let all = interval(&[
            (Commit, 3, 700, 50),
            (Read, 5, 800, 60),
            (Write, 4, 900, 70),
            (Sync, 2, 1000, 80),
        ]);
        let told = |latencies: &OperationLatencies| {
            (latencies.count, latencies.sum_ns, latencies.bins.iter().collect::<Vec<_>>())
        };
        let commits = cell(&all, &load(0, durio_workload::SyncMethod::Fsync));
        assert_eq!((commits.span_ns, commits.count, commits.bytes), (250, 3, 1700));
        assert_eq!(told(&commits.headline), (3, 150, vec![(50, 3)]));
        assert_eq!(told(&commits.sync), (2, 160, vec![(80, 2)]));
        let reads = cell(&all, &load(1000, durio_workload::SyncMethod::None));
        assert_eq!((reads.count, reads.bytes), (9, 1700));
        assert_eq!(told(&reads.headline), (5, 300, vec![(60, 5)]));
        let mut sum = commits.clone();
        sum.add(&reads);
        assert_eq!((sum.span_ns, sum.count, sum.bytes), (500, 12, 3400));
        assert_eq!(told(&sum.headline), (8, 450, vec![(50, 3), (60, 5)]));
        let ramp = Interval { phase: Phase::Ramp, ..all };
        let step = Step::new(
            Role::Measure,
            load(1000, durio_workload::SyncMethod::None),
            durio_plan::Limit::Operations(1),
            durio_base::Nanos::new(250),
        );
        let mut series = StepSeries::default();
        series.take(&ramp, &step, &step.load);
        assert_eq!(series.cells().len(), 0);
        series.take(&Interval { phase: Phase::Measure, ..ramp }, &step, &step.load);
        assert_eq!(series.cells().len(), 1);
    }
}
