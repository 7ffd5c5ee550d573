//! Gathers the closed intervals of all jobs and emits each when no job can add to it any more.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender};

use durio_base::Nanos;
use durio_plan::Step;
use durio_record::{Event, Interval, OperationRecord, Phase};
use durio_workload::Workload;

use crate::grid::Grid;
use crate::recorder::{ClosedInterval, IntervalBuffer, add_counts, finish_records};

/// How many intervals without a completion are separate events. The rest of a longer gap is one
/// event: a stall of hours must not make millions of them.
const EMPTY_MAX: u64 = 1000;

/// One load of the step, as it is run.
pub(crate) struct StepStream {
    /// May differ from the plan's.
    pub(crate) workload: Workload,
    pub(crate) target: usize,
    /// Its jobs, which are numbered over all loads.
    pub(crate) jobs: usize,
}

/// The counts of an interval of one stream so far.
#[derive(Default)]
struct OpenInterval {
    operations: Vec<OperationRecord>,
    unwatched_ns: u64,
}

pub(crate) struct Collector {
    pub(crate) step: u32,
    repeat: u32,
    pub(crate) round: u32,
    streams: Vec<StepStream>,
    /// Per job: its stream.
    stream_of: Vec<usize>,
    grid: Grid,
    /// Per interval and stream.
    open: BTreeMap<u64, Vec<Option<OpenInterval>>>,
    /// Per job: below which interval it will not record again.
    passed: Vec<u64>,
    /// Per job: totals of the measured phase.
    pub(crate) totals: Vec<Vec<OperationRecord>>,
    empty: Vec<SyncSender<IntervalBuffer>>,
    next: u64,
    highest: u64,
    /// Intervals without a completion, up to the next one.
    empty_run: u64,
}

impl Collector {
    /// `empty` gives the jobs their buffers back, in the order of the jobs.
    pub(crate) fn new(
        step: &Step,
        round: u32,
        streams: Vec<StepStream>,
        empty: Vec<SyncSender<IntervalBuffer>>,
    ) -> Self {
        let stream_of: Vec<usize> = streams
            .iter()
            .enumerate()
            .flat_map(|(index, stream)| std::iter::repeat_n(index, stream.jobs))
            .collect();
        assert_eq!(stream_of.len(), empty.len(), "a way back for the buffers of every job");
        Self {
            step: step.index,
            repeat: step.repeat,
            round,
            grid: Grid::new(step.ramp.get(), step.interval.get()),
            open: BTreeMap::new(),
            passed: vec![0; stream_of.len()],
            totals: vec![Vec::new(); stream_of.len()],
            streams,
            stream_of,
            empty,
            next: 0,
            highest: 0,
            empty_run: 0,
        }
    }

    pub(crate) fn stream_of(&self, job: u32) -> u32 {
        u32::try_from(self.stream_of[job as usize]).unwrap_or(u32::MAX)
    }

    pub(crate) fn name_of(&self, job: u32) -> &str {
        &self.streams[self.stream_of[job as usize]].workload.name
    }

    /// Takes intervals until every job has ended; `emit` gets each event in order.
    pub(crate) fn collect(
        &mut self,
        closed: &Receiver<ClosedInterval>,
        mut emit: impl FnMut(Event),
    ) {
        while let Ok(interval) = closed.recv() {
            self.take(interval);
            let settled = self.passed.iter().copied().min().unwrap_or(0);
            // The latest interval waits for the step's end, which is its end.
            let bound = settled.min(self.highest);
            while self.next < bound {
                self.close(bound, u64::MAX, &mut emit);
            }
        }
    }

    /// Emits the remaining intervals, now that the step's end is known.
    pub(crate) fn finish(&mut self, step_end: Nanos, mut emit: impl FnMut(Event)) {
        while self.next <= self.highest {
            self.close(self.highest + 1, step_end.get(), &mut emit);
        }
    }

    fn take(&mut self, closed: ClosedInterval) {
        let ClosedInterval { job, index, passed, unwatched_ns, buffer } = closed;
        // A job that has ended passes all intervals; that number is not an interval that occurred.
        self.highest = self.highest.max(index).max(if passed == u64::MAX { 0 } else { passed });
        self.passed[job] = passed;
        let stream = self.stream_of[job];
        let streams = self.streams.len();
        let open = self.open.entry(index).or_insert_with(|| (0..streams).map(|_| None).collect());
        let open = open[stream].get_or_insert_default();
        open.unwatched_ns = open.unwatched_ns.max(unwatched_ns);
        add_counts(&mut open.operations, &buffer.operations);
        // Totals are summed up from the intervals that are recorded, so the two cannot disagree.
        if self.grid.span(index).0 == Phase::Measure {
            add_counts(&mut self.totals[job], &buffer.operations);
        }
        // The job that ended takes no buffer back.
        let _ = self.empty[job].try_send(buffer);
    }

    /// Closes the next interval, or the rest of a long gap, but none from number `bound` on.
    fn close(&mut self, bound: u64, step_end: u64, emit: &mut impl FnMut(Event)) {
        let index = self.next;
        let open = self.open.remove(&index);
        self.empty_run = if open.is_some() { 0 } else { self.empty_run + 1 };
        // Up to that many are recorded one by one: an interval without completions is a finding.
        self.next = if self.empty_run > EMPTY_MAX { self.gap_end(bound) } else { index + 1 };
        let (phase, from, _) = self.grid.span(index);
        let (_, _, to) = self.grid.span(self.next - 1);
        let mut open = open.unwrap_or_default().into_iter();
        for (number, stream) in (0..).zip(&self.streams) {
            let open = open.next().flatten().unwrap_or_default();
            let unwatched_max = (open.unwatched_ns > 0).then_some(Nanos::new(open.unwatched_ns));
            emit(Event::Interval(Interval {
                step: self.step,
                repeat: self.repeat,
                round: self.round,
                stream: number,
                target: stream.target,
                phase,
                index,
                from: Nanos::new(from),
                // The last one ends with the step: over time in which nothing could run, its rate
                // would be too low.
                to: Nanos::new(to.min(step_end).max(from)),
                unwatched_max,
                operations: finish_records(open.operations, Default::default()),
            }));
        }
    }

    /// The interval after the gap that begins at the next one; a phase ends it too.
    fn gap_end(&self, bound: u64) -> u64 {
        let occupied = self.open.keys().next().copied();
        let ramp_end = Some(self.grid.ramp_intervals()).filter(|&end| self.next < end);
        [occupied, ramp_end].into_iter().flatten().fold(bound, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use durio_base::Bytes;
    use durio_plan::{EngineKind, Limit, Load, Role};
    use durio_record::OperationName;
    use durio_workload::self_cost_workload;

    use super::*;

    /// From and to of the intervals that are told of a job which completes something in number 0 and in
    /// this one.
    fn told(second: u64) -> Vec<(u64, u64)> {
        let workload = self_cost_workload(1);
        let load = Load::new(0, workload.clone(), EngineKind::Null);
        let step = Step::new(Role::Measure, load, Limit::Operations(2), Nanos::new(100));
        let streams = vec![StepStream { workload: workload.clone(), target: 0, jobs: 1 }];
        let (empty, _spare) = sync_channel(10);
        let mut collector = Collector::new(&step, 0, streams, vec![empty]);
        let (closed, intervals) = sync_channel(10);
        for (index, passed) in [(0, 1), (second, u64::MAX)] {
            let buffer = IntervalBuffer::new(&workload, false);
            closed.send(ClosedInterval { job: 0, index, passed, unwatched_ns: 0, buffer }).unwrap();
        }
        drop(closed);
        let mut told = Vec::new();
        let mut emit = |event| {
            if let Event::Interval(interval) = event {
                told.push((interval.from.get(), interval.to.get()));
            }
        };
        collector.collect(&intervals, &mut emit);
        collector.finish(Nanos::new((second + 1) * 100), &mut emit);
        told
    }

    #[test]
    fn a_thousand_intervals_without_a_completion_are_told_one_by_one_and_the_rest_as_one() {
        let whole = told(1001);
        assert_eq!(whole.len(), 1002);
        assert!((0..).zip(&whole).all(|(at, interval)| *interval == (at * 100, at * 100 + 100)));
        let long = told(5000);
        // The first, a thousand that are empty, the rest of the gap, and the last.
        assert_eq!(long.len(), 1003);
        let expected = [(100_000, 100_100), (100_100, 500_000), (500_000, 500_100)];
        assert_eq!(long[1000..], expected);
    }

    #[test]
    fn an_interval_has_the_longest_time_in_which_one_of_its_jobs_did_not_look() {
        let workload = self_cost_workload(1);
        let load = Load::new(0, workload.clone(), EngineKind::Null);
        let step = Step::new(Role::Measure, load, Limit::Operations(2), Nanos::new(100));
        let streams = vec![StepStream { workload: workload.clone(), target: 0, jobs: 3 }];
        let (empty, _spare) = sync_channel(10);
        let mut collector = Collector::new(&step, 0, streams, vec![empty; 3]);
        let (closed, intervals) = sync_channel(10);
        for (job, unwatched_ns) in [(0, 70), (1, 900), (2, 30)] {
            let buffer = IntervalBuffer::new(&workload, false);
            let passed = u64::MAX;
            closed.send(ClosedInterval { job, index: 0, passed, unwatched_ns, buffer }).unwrap();
        }
        drop(closed);
        let mut told = Vec::new();
        let mut emit = |event| {
            if let Event::Interval(interval) = event {
                told.push(interval.unwatched_max);
            }
        };
        collector.collect(&intervals, &mut emit);
        collector.finish(Nanos::new(100), &mut emit);
        assert_eq!(told, [Some(Nanos::new(900))]);
    }

    /// Jobs 0 and 1 are of one stream and job 2 of another, with another target and other blocks.
    #[test]
    fn each_stream_has_its_own_counts_and_the_ramp_is_in_no_total_of_a_job() {
        let small = self_cost_workload(1);
        let (name, block_size) = ("large".to_owned(), Bytes::from_kib(8));
        let large = Workload { name, block_size, ..small.clone() };
        let load = Load::new(4, small.clone(), EngineKind::Null);
        let step = Step::new(Role::Measure, load, Limit::Operations(2), Nanos::new(100));
        let step = Step { ramp: Nanos::new(150), index: 6, repeat: 2, ..step };
        let streams = vec![
            StepStream { workload: small.clone(), target: 4, jobs: 2 },
            StepStream { workload: large.clone(), target: 9, jobs: 1 },
        ];
        let (empty, _spare) = sync_channel(10);
        let mut collector = Collector::new(&step, 3, streams, vec![empty; 3]);
        let (closed, intervals) = sync_channel(10);
        for (job, index, passed, count) in [
            (0, 0, 2, 2),
            (1, 2, u64::MAX, 3),
            (2, 1, 3, 5),
            (0, 2, u64::MAX, 7),
            (2, 3, u64::MAX, 11),
        ] {
            let mut buffer = IntervalBuffer::new(if job == 2 { &large } else { &small }, false);
            let reads = buffer.operations[OperationName::Read as usize].as_mut().unwrap();
            reads.service.record_many(1000, count);
            closed.send(ClosedInterval { job, index, passed, unwatched_ns: 0, buffer }).unwrap();
        }
        drop(closed);
        let mut told = Vec::new();
        let mut emit = |event: Event| {
            let Event::Interval(interval) = event else { panic!("{event:?}") };
            assert_eq!((interval.step, interval.repeat, interval.round), (6, 2, 3));
            let of = |reads: &OperationRecord| (reads.service.exact.count, reads.bytes.get());
            let counted: Vec<(u64, u64)> = interval.operations.iter().map(of).collect();
            let (from, to) = (interval.from.get(), interval.to.get());
            told.push(((interval.stream, interval.target), interval.phase, (from, to), counted));
        };
        collector.collect(&intervals, &mut emit);
        collector.finish(Nanos::new(320), &mut emit);
        let (first, second) = ((0, 4), (1, 9));
        let expected = [
            (first, Phase::Ramp, (0, 100), vec![(2, 2 * 4096)]),
            (second, Phase::Ramp, (0, 100), vec![]),
            (first, Phase::Ramp, (100, 150), vec![]),
            (second, Phase::Ramp, (100, 150), vec![(5, 5 * 8192)]),
            (first, Phase::Measure, (150, 250), vec![(10, 10 * 4096)]),
            (second, Phase::Measure, (150, 250), vec![]),
            (first, Phase::Measure, (250, 320), vec![]),
            (second, Phase::Measure, (250, 320), vec![(11, 11 * 8192)]),
        ];
        assert_eq!(told, expected);
        let totals = collector.totals.iter().map(|reads| reads[0].service.exact.count);
        assert_eq!(totals.collect::<Vec<_>>(), [7, 3, 11]);
        let streams = [0, 1, 2].map(|job| (collector.stream_of(job), collector.name_of(job)));
        assert_eq!(streams, [(0, "self"), (0, "self"), (1, "large")]);
    }

    #[test]
    fn no_interval_ends_before_it_begins_also_where_the_step_ended_earlier() {
        let workload = self_cost_workload(1);
        let load = Load::new(0, workload.clone(), EngineKind::Null);
        let step = Step::new(Role::Measure, load, Limit::Operations(2), Nanos::new(100));
        for (end, expected) in [(150, (100, 150)), (200, (100, 200)), (70, (100, 100))] {
            let streams = vec![StepStream { workload: workload.clone(), target: 0, jobs: 1 }];
            let (empty, _spare) = sync_channel(10);
            let mut collector = Collector::new(&step, 0, streams, vec![empty]);
            let (closed, intervals) = sync_channel(10);
            let buffer = IntervalBuffer::new(&workload, false);
            let (index, passed) = (1, u64::MAX);
            closed.send(ClosedInterval { job: 0, index, passed, unwatched_ns: 0, buffer }).unwrap();
            drop(closed);
            let mut last = None;
            let mut emit = |event: Event| {
                let Event::Interval(interval) = event else { panic!("{event:?}") };
                last = Some((interval.from.get(), interval.to.get()));
            };
            collector.collect(&intervals, &mut emit);
            collector.finish(Nanos::new(end), &mut emit);
            assert_eq!(last, Some(expected), "{end}");
        }
    }
}
