//! One workload on all points: the cost of each, alone and against the point below. Models of RAID
//! are elsewhere. Variation from one run to the next is unknown: the batches of a single run do not
//! show it.

use durio_base::stats::least_squares::{float, mean};
use durio_base::stats::repeats::Mean;
use durio_base::stats::student::student_95;
use durio_record::{OperationName, Phase};

use super::findings::{
    AddedCost, DeviceCost, IntervalBasis, LayerRow, RateInterval, RowFigures, WorkloadRows,
};
use super::point::{BaseKind, BenchPoints, PointKind, StackPoint, Timing, way_down};
use super::raid::{mirror_row, raid_row};
use super::steps::{StepKey, WorkloadMeasurement, measured};
use super::{published, waterfall};
use crate::campaign::RowLatency;
use crate::durable::device::device_work;

/// One workload on every point.
#[derive(Debug)]
pub(super) struct WorkloadTable<'a> {
    pub(super) points: &'a [StackPoint<'a>],
    pub(super) counted: bool,
    pub(super) key: StepKey,
    /// By point: its measurement, or why it is missing.
    pub(super) measured: Vec<Result<WorkloadMeasurement<'a>, String>>,
    /// By point: the results that need no other point.
    alone: Vec<Option<RowFigures>>,
}

/// The raw storage that a point is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a> {
    pub(super) at: usize,
    pub(super) measured: &'a WorkloadMeasurement<'a>,
    /// It belongs to another stack.
    borrowed: bool,
}

impl<'a> WorkloadTable<'a> {
    pub(super) fn new(bench: &'a BenchPoints<'a>, key: StepKey) -> Self {
        let points = &bench.points;
        let measured: Vec<_> = points.iter().map(|point| measured(point, &key)).collect();
        let each = points.iter().zip(&measured);
        let alone = each.map(|(point, it)| Some(of_itself(point, &key, it.as_ref().ok()?)));
        let alone = alone.collect();
        let counted = bench.timing == Some(Timing::Counted);
        Self { points, counted, key, measured, alone }
    }

    /// The measurement on the point at a position.
    pub(super) fn at(&self, at: usize) -> Option<&WorkloadMeasurement<'a>> {
        self.measured.get(at)?.as_ref().ok()
    }

    fn alone(&self, at: usize) -> Option<&RowFigures> {
        self.alone.get(at)?.as_ref()
    }

    pub(super) fn workload_rows(&self) -> WorkloadRows {
        let rows: Vec<LayerRow> = (0..self.points.len()).map(|at| self.row(at)).collect();
        WorkloadRows {
            key: self.key.clone(),
            label: self.key.label(),
            waterfalls: waterfall::waterfalls(self.points, &rows, self.counted),
            published: published::order(self.points, &self.key, &rows),
            rows,
        }
    }

    fn row(&self, at: usize) -> LayerRow {
        let absent = self.measured.get(at).and_then(|it| it.as_ref().err());
        LayerRow { point: at, absent: absent.cloned(), figures: self.figures(at) }
    }

    fn figures(&self, at: usize) -> Option<RowFigures> {
        let mut figures = self.alone(at)?.clone();
        let point = self.points.get(at)?;
        let raw = self.raw(at);
        figures.remarks.extend(self.remark(at, raw));
        self.compare(&mut figures, at, raw);
        figures.raid = point.raid.and_then(|array| raid_row(self, at, array, raw));
        figures.mirror = point.raid.and_then(|array| mirror_row(self, at, array, raw));
        if point.kind == PointKind::Raid && point.raid.is_none() {
            let why = point.no_model.unwrap_or("there is no model of its layout");
            figures.remarks.push(why.to_owned());
        }
        Some(figures)
    }

    /// The raw storage below a point: its stack's, or else the median rate of the other stacks over
    /// the same devices.
    fn raw(&self, at: usize) -> Option<Raw<'_>> {
        let own = way_down(self.points, at).last()?;
        let is_raw = |point: &StackPoint<'_>| point.kind == PointKind::Raw;
        if let Some(measured) = self.at(own).filter(|_| self.points.get(own).is_some_and(is_raw)) {
            return Some(Raw { at: own, measured, borrowed: false });
        }
        let base = &self.points.get(at)?.base;
        let alike = self.points.iter().enumerate();
        let alike = alike.filter(|(_, point)| is_raw(point) && point.base == *base);
        let mut others: Vec<(usize, &WorkloadMeasurement<'a>)> =
            alike.filter_map(|(at, _)| Some((at, self.at(at)?))).collect();
        // The median, because a disturbed raw run would move the shares of every layer that borrows
        // it.
        others.sort_by(|(_, a), (_, b)| a.rate().total_cmp(&b.rate()));
        let (at, measured) = *others.get(others.len().saturating_sub(1) / 2)?;
        Some(Raw { at, measured, borrowed: true })
    }

    /// Shares of the storage below, and the point's difference to it.
    fn compare(&self, figures: &mut RowFigures, at: usize, raw: Option<Raw<'_>>) {
        let below = self.points.get(at).and_then(|point| point.below);
        let raw = raw.map(|raw| raw.at);
        let share = |lower: Option<usize>| Some(self.at(at)?.rate() / self.at(lower?)?.rate());
        figures.raw_point = raw;
        figures.share_of_raw = share(raw);
        figures.share_of_below = match below {
            Some(_) => share(below),
            None => raw.filter(|raw| *raw == at).map(|_| 1.0),
        };
        let against = |lower: Option<usize>| {
            let lower = lower.filter(|lower| *lower != at)?;
            Some(added(self.alone(at)?, self.alone(lower)?, lower))
        };
        figures.against_raw = against(raw);
        figures.against_below = against(below);
    }

    fn remark(&self, at: usize, raw: Option<Raw<'_>>) -> Option<String> {
        let below = self.points.get(at)?.below;
        let unknown = below.filter(|below| self.at(*below).is_none());
        let unknown = unknown.and_then(|below| self.points.get(below));
        let raw_words = match raw {
            None => Some("no raw storage was measured with this workload: no share of raw".into()),
            Some(raw) if raw.borrowed => {
                let stack = &self.points.get(raw.at)?.stack;
                Some(format!("compared with the raw storage of stack {stack}"))
            }
            Some(_) => None,
        };
        let below_words =
            unknown.map(|below| format!("{}, just below, has no figures", below.layer));
        let words: Vec<String> = raw_words.into_iter().chain(below_words).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// The results that need no other point.
fn of_itself(
    point: &StackPoint<'_>,
    key: &StepKey,
    measured: &WorkloadMeasurement<'_>,
) -> RowFigures {
    // The run counts a sync call as an operation; here its time is a part of the write's.
    let each = measured.engine_operations_each();
    let found = measured.found;
    let waited = found.context_switches_per_operation;
    let preempted = found.involuntary_switches_per_operation;
    RowFigures {
        rate_per_second: measured.rate(),
        rate_interval: interval(measured),
        repeats: measured.rates.len(),
        time_per_operation_ns: 1e9 / measured.rate(),
        service: service(measured),
        cpu_ns_per_operation: positive(found.cpu.per_operation_ns * each),
        context_switches_per_operation: waited.map(|it| (it + preempted.unwrap_or(0.0)) * each),
        involuntary_switches_per_operation: preempted.map(|it| it * each),
        devices: devices(point, measured),
        latency_breakdown: found.latency_breakdown.clone().filter(|it| !it.components.is_empty()),
        published_share_of_raw: key.published(point).map(|it| it.share_of_raw),
        remarks: measured.left_out.iter().cloned().collect(),
        ..RowFigures::default()
    }
}

fn service(measured: &WorkloadMeasurement<'_>) -> Option<RowLatency> {
    let service = &measured.headline()?.service;
    let mean_ns = positive(service.mean_ns)?;
    let (p50_ns, p99_ns, p99_9_ns) = (service.p50_ns, service.p99_ns, service.p99_9_ns);
    Some(RowLatency { mean_ns, p50_ns, p99_ns, p99_9_ns })
}

/// A measured value: zero means not counted, and some counters are broken.
fn positive(figure: f64) -> Option<f64> {
    (figure > 0.0 && figure.is_finite()).then_some(figure)
}

/// What reached the devices for each write.
fn devices(point: &StackPoint<'_>, measured: &WorkloadMeasurement<'_>) -> Option<DeviceCost> {
    let found = measured.found;
    if !found.definition.writes() {
        return None;
    }
    let writes = found.operation(OperationName::Commit).or(found.operation(OperationName::Write));
    let cannot_tell = |why: &str| {
        Some(traced(measured).unwrap_or_else(|| DeviceCost::CannotTell { why: why.to_owned() }))
    };
    let Some(work) = writes.and_then(|writes| device_work(found, writes)) else {
        return cannot_tell("no device below has counters");
    };
    // Zero is not a count here: the writes stayed in memory, or the device has no counters.
    if work.writes_per_commit == 0.0 {
        return cannot_tell(match point.base.kind {
            BaseKind::Ram => "RAM disks count nothing",
            _ => "the devices below counted no write: it stayed in memory, or they count nothing",
        });
    }
    Some(DeviceCost::Counted {
        writes_per_write: work.writes_per_commit,
        bytes_per_byte: work.bytes_per_byte,
        flushes_per_sync_call: work.flushes_per_sync_call,
    })
}

/// What traced operations queued to the lowest devices, of workloads that only write blocks of one
/// size.
// In other workloads it is unknown which operations were traced.
fn traced(measured: &WorkloadMeasurement<'_>) -> Option<DeviceCost> {
    let definition = &measured.found.definition;
    if definition.reads() || definition.has_mix() {
        return None;
    }
    let components = measured.found.latency_breakdown.as_ref()?;
    let lowest = || components.devices.iter().filter(|device| device.lowest);
    let writes_per_write: f64 = lowest().map(|device| device.writes).sum();
    let bytes: f64 = lowest().map(|device| device.written_bytes).sum();
    let bytes_per_byte = bytes / float(definition.block_size.get());
    (writes_per_write > 0.0 && bytes_per_byte.is_finite())
        .then_some(DeviceCost::Traced { writes_per_write, bytes_per_byte })
}

/// What `upper` adds to `lower`, the point at `point`.
fn added(upper: &RowFigures, lower: &RowFigures, point: usize) -> AddedCost {
    let difference = |upper: Option<f64>, lower: Option<f64>| Some(upper? - lower?);
    let latency = |of: fn(&RowLatency) -> Option<f64>| {
        difference(upper.service.as_ref().and_then(of), lower.service.as_ref().and_then(of))
    };
    let (cpu, switches) = (upper.cpu_ns_per_operation, upper.context_switches_per_operation);
    AddedCost {
        point,
        time_per_operation_ns: upper.time_per_operation_ns - lower.time_per_operation_ns,
        latency_ns_mean: latency(|it| Some(it.mean_ns)),
        latency_ns_p50: latency(|it| it.p50_ns.map(float)),
        latency_ns_p99: latency(|it| it.p99_ns.map(float)),
        cpu_ns_per_operation: difference(cpu, lower.cpu_ns_per_operation),
        context_switches_per_operation: difference(switches, lower.context_switches_per_operation),
    }
}

/// Batches that a single measurement is cut into.
// Enough for an interval, and few enough that each is longer than the correlation of neighbouring
// intervals (Law and Kelton, Simulation Modeling and Analysis, section 9.5, advise 10 to 20).
const BATCHES: usize = 10;

/// The interval around a measurement's rate; `None` of one that is too short.
fn interval(measured: &WorkloadMeasurement<'_>) -> Option<RateInterval> {
    match measured.rates.as_slice() {
        // Student's interval of two repeats would be twelve times as wide as their distance: their
        // range says more.
        [low, .., high] => Some(RateInterval {
            low_per_second: *low,
            high_per_second: *high,
            basis: IntervalBasis::Repeats,
        }),
        _ => by_batches(measured),
    }
}

fn by_batches(measured: &WorkloadMeasurement<'_>) -> Option<RateInterval> {
    let counted = measured.found.intervals.iter();
    let counted = counted.filter(|it| it.phase == Phase::Measure && !it.cut_short);
    let rates: Vec<f64> = counted.map(|it| it.rate).collect();
    let per_batch = rates.len() / BATCHES;
    let batches = rates.chunks_exact(per_batch.max(1)).take(BATCHES);
    let means: Vec<f64> = batches.filter_map(mean).collect();
    let found = Mean::of(&means).filter(|it| means.len() == BATCHES && it.value > 0.0)?;
    // Relative, around the run's rate: the mean of the batches leaves out the remainder.
    let share = student_95(BATCHES - 1)? * found.variance.sqrt() / found.value;
    let rate = measured.rate();
    share.is_finite().then(|| RateInterval {
        low_per_second: rate * (1.0 - share).max(0.0),
        high_per_second: rate * (1.0 + share),
        basis: IntervalBasis::Batches,
    })
}
