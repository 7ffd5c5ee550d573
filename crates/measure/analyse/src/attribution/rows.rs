//! One workload on all points: the cost of each, alone and against the point below. Models of RAID
//! are elsewhere. The time of an operation is also shown layer by layer, from raw storage to the top
//! of a stack. Variation from one run to the next is unknown: the batches of a single run do not
//! show it.
//!
//! Published and measured shares are compared by the order of the layers, because machines differ in
//! absolute rates. Agreement is Kendall's: of all pairs of layers, how many are in the same order on
//! both sides (M. Kendall, A New Measure of Rank Correlation, Biometrika 30, 1938). Pairs that either
//! side cannot tell apart decide nothing.

use durio_base::stats::least_squares::{float, mean, median, range};
use durio_base::stats::repeats::Mean;
use durio_base::stats::student_95;
use durio_record::OperationName;

use super::findings::{
    AddedCost, DeviceCost, IntervalBasis, LayerRow, PublishedOrder, PublishedRow, RateInterval,
    RowFigures, Waterfall, WaterfallBasis, WaterfallStep, WorkloadRows,
};
use super::points::{
    BaseKind, PointKind, StackPoint, StepKey, WorkloadMeasurement, WorkloadTable, full_name,
    way_down,
};
use super::raid::{mirror_row, raid_row};
use crate::campaign::RowLatency;
use crate::measurement::whole_intervals;
use crate::{each_once, grouped};

/// The rows of a workload, one for each point.
pub(super) fn workload_rows(table: &WorkloadTable<'_>) -> WorkloadRows {
    let measured = table.points.iter().zip(&table.measured);
    let alone = measured
        .map(|(point, measured)| Some(of_itself(point, &table.key, measured.as_ref().ok()?)));
    let rows = RowBuilder { table, alone: alone.collect() };
    let rows: Vec<LayerRow> = (0..table.points.len()).map(|at| rows.row(at)).collect();
    WorkloadRows {
        key: table.key.clone(),
        label: table.key.label(),
        waterfalls: waterfalls(table, &rows),
        published: published_order(table.points, &table.key, &rows),
        rows,
    }
}

struct RowBuilder<'a> {
    table: &'a WorkloadTable<'a>,
    /// By point: the results that need no other point.
    alone: Vec<Option<RowFigures>>,
}

impl RowBuilder<'_> {
    fn row(&self, at: usize) -> LayerRow {
        let absent = self.table.measured.get(at).and_then(|measured| measured.as_ref().err());
        LayerRow { point: at, absent: absent.cloned(), figures: self.figures(at) }
    }

    fn alone(&self, at: usize) -> Option<&RowFigures> {
        self.alone.get(at)?.as_ref()
    }

    fn figures(&self, at: usize) -> Option<RowFigures> {
        let mut figures = self.alone(at)?.clone();
        let point = self.table.points.get(at)?;
        let raw = self.table.raw(at);
        figures.remarks.extend(self.remark(at, raw));
        self.compare(&mut figures, at, raw);
        figures.raid = point.raid.and_then(|array| raid_row(self.table, at, array, raw));
        figures.mirror = point.raid.and_then(|array| mirror_row(self.table, at, array, raw));
        if point.kind == PointKind::Raid && point.raid.is_none() {
            let why = point.no_model.unwrap_or("there is no model of its layout");
            figures.remarks.push(why.to_owned());
        }
        Some(figures)
    }

    /// Shares of the storage below, and the point's difference to it.
    fn compare(&self, figures: &mut RowFigures, at: usize, raw: Option<usize>) {
        let table = self.table;
        let below = table.points.get(at).and_then(|point| point.below);
        let share = |lower: Option<usize>| Some(table.at(at)?.rate() / table.at(lower?)?.rate());
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

    fn remark(&self, at: usize, raw: Option<usize>) -> Option<String> {
        let (points, table) = (self.table.points, self.table);
        let raw_words = match raw {
            None => Some("raw storage was not measured with this workload: no share of raw".into()),
            Some(raw) if way_down(points, at).all(|below| below != raw) => {
                Some(format!("compared with the raw storage of stack {}", points.get(raw)?.stack))
            }
            Some(_) => None,
        };
        let unknown = points.get(at)?.below.filter(|below| table.at(*below).is_none());
        let unknown = unknown.and_then(|below| points.get(below));
        let below_words =
            unknown.map(|below| format!("{}, just below, has no results", below.layer));
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
    let found = measured.row.found;
    let waited = found.context_switches_per_operation;
    let preempted = found.involuntary_switches_per_operation;
    RowFigures {
        rate_per_second: measured.rate(),
        rate_interval: interval(measured),
        repeats: measured.rates.len(),
        time_per_operation_ns: 1e9 / measured.rate(),
        service: service(measured),
        cpu_ns_per_operation: positive(found.cpu.per_operation_ns * each),
        context_switches_per_operation: waited
            .map(|waited| (waited + preempted.unwrap_or(0.0)) * each),
        involuntary_switches_per_operation: preempted.map(|preempted| preempted * each),
        devices: devices(point, measured),
        latency_breakdown: found
            .latency_breakdown
            .clone()
            .filter(|breakdown| !breakdown.components.is_empty()),
        published_share_of_raw: key.published(point).map(|share| share.share_of_raw),
        remarks: measured.left_out.iter().cloned().collect(),
        ..RowFigures::default()
    }
}

fn service(measured: &WorkloadMeasurement<'_>) -> Option<RowLatency> {
    let service = &measured.row.headline_operation()?.service;
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
    let found = measured.row.found;
    if !found.definition.writes() {
        return None;
    }
    let writes = found.operation(OperationName::Commit).or(found.operation(OperationName::Write));
    let cannot_tell = |why: &str| {
        Some(traced(measured).unwrap_or_else(|| DeviceCost::CannotTell { why: why.to_owned() }))
    };
    let Some(work) = writes.and_then(|writes| found.device_work(writes)) else {
        return cannot_tell("no device below keeps counters");
    };
    // Zero is not a count here: the writes stayed in memory, or the device has no counters.
    if work.writes_per_commit == 0.0 {
        return cannot_tell(match point.base.kind {
            BaseKind::Ram => "RAM disks count nothing",
            _ => {
                "the devices below counted no writes: they do not count them, or the data stayed in memory"
            }
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
    let definition = &measured.row.definition;
    if definition.reads() || definition.has_mix() {
        return None;
    }
    let components = measured.row.latency_breakdown.as_ref()?;
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
        latency_ns_mean: latency(|service| Some(service.mean_ns)),
        latency_ns_p50: latency(|service| service.p50_ns.map(float)),
        latency_ns_p99: latency(|service| service.p99_ns.map(float)),
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
    let whole = whole_intervals(&measured.row.found.intervals);
    let rates: Vec<f64> = whole.iter().map(|point| point.rate).collect();
    let per_batch = rates.len() / BATCHES;
    let batches = rates.chunks_exact(per_batch.max(1)).take(BATCHES);
    let means: Vec<f64> = batches.filter_map(mean).collect();
    let found = Mean::of(&means).filter(|mean| means.len() == BATCHES && mean.value > 0.0)?;
    // Relative, around the run's rate: the mean of the batches leaves out the remainder.
    let share = student_95(BATCHES - 1)? * found.variance.sqrt() / found.value;
    let rate = measured.rate();
    share.is_finite().then(|| RateInterval {
        low_per_second: rate * (1.0 - share).max(0.0),
        high_per_second: rate * (1.0 + share),
        basis: IntervalBasis::Batches,
    })
}

/// A waterfall for each point that nothing was built on, from the bottom of its stack.
fn waterfalls(table: &WorkloadTable<'_>, rows: &[LayerRow]) -> Vec<Waterfall> {
    let is_top = |at: &usize| table.points.iter().all(|point| point.below != Some(*at));
    let tops = (0..table.points.len()).filter(is_top);
    tops.filter_map(|top| waterfall(table, rows, top)).collect()
}

fn waterfall(table: &WorkloadTable<'_>, rows: &[LayerRow], top: usize) -> Option<Waterfall> {
    let points = table.points;
    let way = way_down(points, top).filter_map(|at| Some((at, rows.get(at)?.figures.as_ref()?)));
    let mut way: Vec<(usize, &RowFigures)> = way.collect();
    way.reverse();
    let basis = basis(&way, table.counted);
    // One basis for all steps: a median less a mean would be no layer's time.
    let mut steps: Vec<WaterfallStep> = Vec::new();
    for (at, figures) in way {
        let total_ns = basis.of(figures)?;
        let before = steps.last().map_or(0.0, |step| step.total_ns);
        let layer = points.get(at)?.layer.clone();
        steps.push(WaterfallStep { point: at, layer, total_ns, added_ns: total_ns - before });
    }
    let stack = points.get(top)?.stack.clone();
    (steps.len() > 1).then_some(Waterfall { stack, basis, steps })
}

/// The time that every layer has.
fn basis(way: &[(usize, &RowFigures)], counted: bool) -> WaterfallBasis {
    let has = |basis: WaterfallBasis| way.iter().all(|(_, figures)| basis.of(figures).is_some());
    // Counted results use the rate: on the one processor a latency includes the turns of other
    // jobs.
    let latencies = [WaterfallBasis::LatencyP50, WaterfallBasis::LatencyMean];
    let found = latencies.into_iter().find(|basis| !counted && has(*basis));
    found.unwrap_or(WaterfallBasis::TimePerOperation)
}

/// Shares that differ by less count as the same.
// Rates repeat to two per cent at best.
const SAME_SHARE: f64 = 0.02;

/// Pairs that are named in the sentence.
const NAMED_MAX: usize = 3;

/// Both sides; `None` without a published share of this workload.
fn published_order(
    points: &[StackPoint<'_>],
    key: &StepKey,
    rows: &[LayerRow],
) -> Option<PublishedOrder> {
    let mut rows = layers(points, key, rows)?;
    rows.sort_by(|a, b| b.published.total_cmp(&a.published));
    let (mut pairs_same, mut pairs_undecided, mut turned) = (0, 0, Vec::new());
    for (at, upper) in rows.iter().enumerate() {
        for lower in rows.iter().skip(at + 1) {
            let Some((high, low)) = upper.measured.zip(lower.measured) else { continue };
            match is_same_order(upper, lower, [high, low]) {
                Some(true) => pairs_same += 1,
                Some(false) => turned.push((upper, lower)),
                None => pairs_undecided += 1,
            }
        }
    }
    Some(PublishedOrder {
        sources: sources(points, key),
        pairs_same,
        pairs_other: turned.len(),
        pairs_undecided,
        sentence: sentence(pairs_same, pairs_undecided, &turned),
        rows,
    })
}

fn sources(points: &[StackPoint<'_>], key: &StepKey) -> Vec<String> {
    let shares = points.iter().filter_map(|point| key.published(point));
    each_once(shares.map(|share| share.source.clone().unwrap_or_default()))
}

/// The layers with a published share for this workload, each once.
fn layers(
    points: &[StackPoint<'_>],
    key: &StepKey,
    rows: &[LayerRow],
) -> Option<Vec<PublishedRow>> {
    let layered = points.iter().zip(rows).filter(|(point, _)| point.kind != PointKind::Raw);
    let known = layered.filter_map(|(point, row)| {
        let measured = row.figures.as_ref().and_then(|figures| figures.share_of_raw);
        Some((full_name(points, row.point), key.published(point)?.share_of_raw, measured))
    });
    let row = |layer: Vec<(String, f64, Option<f64>)>| {
        let shares: Vec<f64> = layer.iter().filter_map(|layer| layer.2).collect();
        let (name, published, _) = layer.into_iter().next()?;
        Some(PublishedRow { name, published, measured: median(&shares), spread: spread(&shares) })
    };
    let found: Vec<_> = grouped(known, |a, b| a.0 == b.0).into_iter().filter_map(row).collect();
    (!found.is_empty()).then_some(found)
}

fn spread(shares: &[f64]) -> f64 {
    let (low, high) = range(shares.iter().copied());
    let half = (high - low) / 2.0 / median(shares).unwrap_or(1.0);
    if half.is_finite() { half } else { 0.0 }
}

/// Whether both sides have two layers in the same order; `None` if one side cannot tell them apart.
/// `upper` has the larger published share, or an equal one.
fn is_same_order(upper: &PublishedRow, lower: &PublishedRow, measured: [f64; 2]) -> Option<bool> {
    let [high, low] = measured;
    let apart = |a: f64, b: f64, least: f64| (a - b).abs() > least * a.max(b);
    // Stacks with the same measured layer differ by their scatter.
    let noise = SAME_SHARE.max(upper.spread.max(lower.spread));
    let decided = apart(upper.published, lower.published, SAME_SHARE) && apart(high, low, noise);
    decided.then_some(high > low)
}

fn sentence(same: usize, open: usize, turned: &[(&PublishedRow, &PublishedRow)]) -> String {
    let told = same + turned.len();
    let undecided = match open {
        0 => String::new(),
        count => format!("; {count} more are too close to tell apart"),
    };
    if told == 0 {
        return format!("undecided: both sides distinguish no two layers{undecided}");
    }
    if turned.is_empty() {
        return format!("same order of layers as published, in {told} of {told} pairs{undecided}");
    }
    let named = turned.iter().take(NAMED_MAX).map(|(upper, lower)| {
        format!("{} is published above {} but was measured below it", upper.name, lower.name)
    });
    let named: Vec<String> = named.collect();
    let more = match turned.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        count => format!("; and {count} more"),
    };
    format!(
        "order of layers differs from the published one in {} of {told} pairs{undecided}: {}{more}",
        turned.len(),
        named.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, published: f64, spread: f64) -> PublishedRow {
        PublishedRow { name: name.to_owned(), published, measured: None, spread }
    }

    #[test]
    fn shares_within_two_percent_or_their_own_scatter_are_not_told_apart() {
        let order = |published: f64, measured: f64, spread: f64| {
            let (upper, lower) = (row("a", 1.0, 0.0), row("b", 1.0 - published, spread));
            is_same_order(&upper, &lower, [0.5, 0.5 * (1.0 - measured)])
        };
        assert_eq!([order(0.0195, 0.5, 0.0), order(0.0205, 0.5, 0.0)], [None, Some(true)]);
        assert_eq!([order(0.5, 0.0195, 0.0), order(0.5, 0.0205, 0.0)], [None, Some(true)]);
        assert_eq!([order(0.5, 0.099, 0.1), order(0.5, 0.101, 0.1)], [None, Some(true)]);
        assert_eq!(order(0.5, -0.5, 0.0), Some(false));
    }

    #[test]
    fn three_pairs_in_another_order_are_named_and_more_are_counted() {
        let rows: Vec<PublishedRow> =
            ["a", "b", "c", "d", "e"].map(|name| row(name, 1.0, 0.0)).into();
        let said = |count: usize| {
            let turned: Vec<_> = rows[..count].iter().zip(&rows[1..]).collect();
            sentence(7, 2, &turned)
        };
        assert_eq!(
            said(3),
            "order of layers differs from the published one in 3 of 10 pairs; 2 more are too close to tell \
             apart: a is published above b but was measured below it; b is published above c but \
             was measured below it; c is published above d but was measured below it"
        );
        assert!(said(4).ends_with("c is published above d but was measured below it; and 1 more"));
        assert_eq!(sentence(5, 0, &[]), "same order of layers as published, in 5 of 5 pairs");
    }
}
