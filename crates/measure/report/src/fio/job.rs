//! One load as an entry of fio's `jobs`, with its latencies.
//!
//! Makes a [`FioJob`] with all histograms from a workload's findings. Where findings have no
//! histograms, `bins` and `stddev` are absent or 0 and percentiles come from the curve. `rows`
//! merges several loads.

use durio_analyse::{Distribution, Findings, IntervalPoint, OperationFindings, WorkloadFindings};
use durio_base::Nanos;
use durio_fio::histogram::FioBins;
use durio_fio::import::ShownPercentiles;
use durio_fio::json::{
    DirectionFigures, FioJob, LatencyBlock, LatencySearch, LatencyShares, Shares, SyncSection,
};
use durio_record::{Latency, OperationName, Phase};

use super::options;
use crate::figures::{precise, whole};

pub(super) fn job(findings: &Findings, number: u64, workload: &WorkloadFindings) -> FioJob {
    let direction = |name| direction(workload, workload.operation(name));
    let sync = workload.operation(OperationName::Sync);
    let sync =
        sync.map(|sync| SyncSection { total_ios: sync.service.count, lat_ns: service(sync) });
    let jobs = f64::from(workload.effective.jobs.max(1));
    // fio adds up the runtimes of a group's jobs.
    let runtime = milliseconds(workload.measured).saturating_mul(workload.effective.jobs.into());
    let (read, write) = (direction(OperationName::Read), direction(OperationName::Write));
    FioJob {
        jobname: workload.name.clone(),
        groupid: number,
        error: i64::from(!workload.complete),
        elapsed: Some(workload.measured.get() / 1_000_000_000),
        options: Some(options::options(findings, workload)),
        latency: LatencyShares::from_counts(
            read.clat_ns.bins.iter().chain(write.clat_ns.bins.iter()),
        ),
        iodepth_level: depth_level(workload),
        iodepth_submit: batches(workload),
        iodepth_complete: batches(workload),
        read: Some(read),
        write: Some(write),
        trim: Some(nothing_moved()),
        sync: Some(sync.unwrap_or(SyncSection { total_ios: 0, lat_ns: no_latency() })),
        job_runtime: Some(runtime),
        usr_cpu: finite(100.0 * workload.cpu.user_cores / jobs),
        sys_cpu: finite(100.0 * workload.cpu.system_cores / jobs),
        ctx: whole(switches(workload)),
        latency_search: Some(search(u64::from(workload.effective.depth))),
        ..nothing()
    }
}

/// A job that has done nothing, with every key.
pub(super) fn nothing() -> FioJob {
    let direction = || Some(DirectionFigures { bw_agg: 0.0, ..nothing_moved() });
    FioJob {
        read: direction(),
        write: direction(),
        trim: direction(),
        sync: Some(SyncSection { total_ios: 0, lat_ns: no_latency() }),
        job_runtime: Some(0),
        iodepth_level: levels(&DEPTHS, None),
        iodepth_submit: levels(&BATCHES, None),
        iodepth_complete: levels(&BATCHES, None),
        latency: LatencyShares::from_counts([]),
        latency_search: Some(search(1)),
        ..FioJob::default()
    }
}

// durio searches no depth: fio's output for a job without such a search.
const fn search(depth: u64) -> LatencySearch {
    LatencySearch { depth, target: 0, percentile: 100.0, window: 0 }
}

fn nothing_moved() -> DirectionFigures {
    let (slat_ns, clat_ns, lat_ns) = (no_latency(), no_latency(), no_latency());
    DirectionFigures { slat_ns, clat_ns, lat_ns, ..DirectionFigures::default() }
}

fn switches(workload: &WorkloadFindings) -> f64 {
    let each =
        [workload.context_switches_per_operation, workload.involuntary_switches_per_operation];
    each.into_iter().flatten().sum::<f64>() * operations(workload)
}

fn operations(workload: &WorkloadFindings) -> f64 {
    let names = [OperationName::Read, OperationName::Write, OperationName::Sync];
    let count = |name| workload.operation(name).map_or(0, |operation| operation.service.count);
    precise(names.into_iter().map(count).sum())
}

fn direction(
    workload: &WorkloadFindings,
    operation: Option<&OperationFindings>,
) -> DirectionFigures {
    let Some(it) = operation else { return nothing_moved() };
    let bandwidth = whole(it.bandwidth);
    let mut direction = DirectionFigures {
        io_bytes: whole(it.bandwidth * workload.measured.as_secs_f64()),
        bw_bytes: bandwidth,
        bw: bandwidth >> 10,
        iops: finite(it.rate),
        runtime: milliseconds(workload.measured),
        total_ios: it.service.count,
        slat_ns: submit(it),
        clat_ns: completion(it),
        lat_ns: service(it),
        bw_agg: 100.0,
        ..DirectionFigures::default()
    };
    sample(workload, it, &mut direction);
    direction
}

// fio's samples of rate and bandwidth, from durio's whole intervals of the measured phase. If these
// do not separate reads from writes, only for loads that do one of the two.
fn sample(
    workload: &WorkloadFindings,
    operation: &OperationFindings,
    direction: &mut DirectionFigures,
) {
    let is_mixed = workload.definition.reads() && workload.definition.writes();
    let measured = workload.intervals.iter().filter(|interval| interval.phase == Phase::Measure);
    let whole_ones = measured.filter(|interval| !interval.cut_short && interval.rate.is_finite());
    let is_kept = workload.intervals.iter().any(|interval| !interval.kept.is_empty());
    // The interval's rate is that of reads and writes together.
    if (is_mixed && !is_kept) || operation.rate <= 0.0 {
        return;
    }
    let of =
        |point| if is_kept { kept_rates(point, operation) } else { shown_rates(point, operation) };
    let (rates, bandwidths): (Vec<f64>, Vec<f64>) = whole_ones.map(of).unzip();
    if rates.is_empty() {
        return;
    }
    let (count, iops, bw) = (rates.len() as u64, spread(&rates), spread(&bandwidths));
    (direction.iops_samples, direction.bw_samples) = (count, count);
    (direction.iops_min, direction.iops_max) = (whole(iops.min), whole(iops.max));
    (direction.bw_min, direction.bw_max) = (whole(bw.min), whole(bw.max));
    (direction.bw_mean, direction.bw_dev) = (finite(bw.mean), finite(bw.deviation));
    (direction.iops_mean, direction.iops_stddev) = (finite(iops.mean), finite(iops.deviation));
}

/// Operations and KiB per second of an interval, from its counts.
fn kept_rates(point: &IntervalPoint, operation: &OperationFindings) -> (f64, f64) {
    let seconds = point.to.saturating_sub(point.from).as_secs_f64();
    let kept = point.kept.iter().find(|kept| kept.operation == operation.operation);
    let (count, bytes) = kept.map_or((0, 0), |kept| (kept.count, kept.bytes));
    let rate = |count: u64| finite(precise(count) / seconds);
    (rate(count), rate(bytes) / 1024.0)
}

/// The same from its rate, by the mean size.
fn shown_rates(point: &IntervalPoint, operation: &OperationFindings) -> (f64, f64) {
    (point.rate, point.rate * operation.bandwidth / operation.rate / 1024.0)
}

struct Spread {
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

/// Bounds, mean and standard deviation (divided by n − 1, as fio does).
fn spread(values: &[f64]) -> Spread {
    let count = precise(values.len() as u64);
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Spread {
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(0.0, f64::max),
        mean,
        deviation: if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
    }
}

// Depths by the least number in flight, as fio counts them when it submits.
const DEPTHS: [(&str, f64); 7] =
    [("1", 1.0), ("2", 2.0), ("4", 4.0), ("8", 8.0), ("16", 16.0), ("32", 32.0), (">=64", 64.0)];
// Operations per call, likewise: `4` is 1 to 4.
const BATCHES: [(&str, f64); 7] =
    [("0", 0.0), ("4", 0.5), ("8", 4.5), ("16", 8.5), ("32", 16.5), ("64", 32.5), (">=64", 64.5)];

// Everything at one level, because durio counts the mean number in flight and not how often each
// number occurred. A closed loop refills its queue, so that each operation is submitted at the
// full depth; an open one has the mean.
fn depth_level(workload: &WorkloadFindings) -> Shares {
    let depth = match workload.open_loop {
        None => f64::from(workload.effective.depth),
        // At least the one that is just submitted: that is when fio counts.
        Some(_) => (workload.in_flight.counted / f64::from(workload.effective.jobs.max(1)))
            .round()
            .max(1.0),
    };
    levels(&DEPTHS, (operations(workload) > 0.0).then_some(depth))
}

/// Everything at the mean number of operations per call.
fn batches(workload: &WorkloadFindings) -> Shares {
    let mean = operations(workload) / precise(workload.exchanges.max(1));
    levels(&BATCHES, (mean > 0.0).then(|| mean.max(1.0)))
}

fn levels(levels: &[(&str, f64); 7], value: Option<f64>) -> Shares {
    let place = value.and_then(|value| levels.iter().rposition(|(_, least)| value >= *least));
    let level = |(index, (label, _)): (usize, &(&str, f64))| {
        ((*label).to_owned(), if Some(index) == place { 100.0 } else { 0.0 })
    };
    levels.iter().enumerate().map(level).collect()
}

fn milliseconds(time: Nanos) -> u64 {
    time.get() / 1_000_000
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

fn service(operation: &OperationFindings) -> LatencyBlock {
    let kept = operation.kept.as_ref().map(|kept| &kept.service);
    let mut block = block(&operation.service, kept);
    // fio's own counts are nearer to fio's than any of durio.
    let own =
        operation.fio_bins.iter().map(|&(bin, count)| Some((u16::try_from(bin).ok()?, count)));
    let own = own.collect::<Option<Vec<_>>>().and_then(|bins| FioBins::try_from(bins).ok());
    if let Some(own) = own.filter(|own| !own.is_empty()) {
        block.bins = own;
        block.percentiles = of_bins(&block.bins);
    }
    // Findings without histograms have the curve that was made of them.
    if block.percentiles.is_empty() {
        block.percentiles = of_curve(operation);
    }
    block
}

/// Until the submitting call returned; nothing for engines whose calls block.
fn submit(operation: &OperationFindings) -> LatencyBlock {
    let kept = operation.kept.as_ref().and_then(|kept| kept.submit.as_ref());
    operation.submit.as_ref().map_or_else(no_latency, |submit| block(submit, kept))
}

/// From then on; all of it for engines whose calls block.
fn completion(operation: &OperationFindings) -> LatencyBlock {
    let kept = operation.kept.as_ref().and_then(|kept| kept.completion.as_ref());
    operation
        .completion
        .as_ref()
        .map_or_else(|| service(operation), |completion| block(completion, kept))
}

/// The block without operations.
fn no_latency() -> LatencyBlock {
    LatencyBlock { n: Some(0), ..LatencyBlock::default() }
}

fn block(figures: &Distribution, kept: Option<&Latency>) -> LatencyBlock {
    let bins = kept.map(bins).unwrap_or_default();
    LatencyBlock {
        min: figures.min_ns,
        max: figures.max_ns,
        mean: finite(figures.mean_ns),
        stddev: kept.map_or(0.0, |kept| deviation(kept, figures.mean_ns)),
        n: Some(figures.count),
        percentiles: of_bins(&bins),
        bins,
    }
}

// Every bucket of durio's lies within one of fio's, which are wider and part at powers of two too.
fn bins(latency: &Latency) -> FioBins {
    let mut bins = FioBins::default();
    for (lowest, _, count) in
        latency.histogram().into_iter().flat_map(|histogram| histogram.buckets())
    {
        bins.add(lowest, count);
    }
    bins
}

fn of_bins(bins: &FioBins) -> Vec<(f64, u64)> {
    let known = |percent| Some((percent, bins.percentile_ns(percent)?));
    ShownPercentiles::default().list.into_iter().filter_map(known).collect()
}

// The first point of the curve that is not below the percentile; beyond its end the longest.
fn of_curve(operation: &OperationFindings) -> Vec<(f64, u64)> {
    let at = |percent: f64| {
        // Percentages and quantiles may differ in their last digit.
        let beyond = operation.curve.iter().find(|point| point.quantile * 100.0 >= percent - 1e-9);
        (percent, beyond.map_or(operation.service.max_ns, |point| point.latency_ns))
    };
    match operation.curve.is_empty() {
        true => Vec::new(),
        false => ShownPercentiles::default().list.into_iter().map(at).collect(),
    }
}

/// Standard deviation of a sample, each latency taken as the middle of its bucket.
fn deviation(latency: &Latency, mean_ns: f64) -> f64 {
    let buckets = latency.histogram().into_iter().flat_map(|histogram| histogram.buckets());
    let squares: f64 = buckets
        .map(|(lowest, highest, count)| {
            let middle = (precise(lowest) + precise(highest)) / 2.0;
            (middle - mean_ns).powi(2) * precise(count)
        })
        .sum();
    let count = precise(latency.exact.count);
    if count > 1.0 { finite((squares / (count - 1.0)).sqrt()) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::default();
        values.into_iter().for_each(|value| latency.record(value));
        latency
    }

    #[test]
    fn counts_lie_in_the_buckets_in_which_fio_would_have_counted_them() {
        let values: Vec<u64> = (0..5_000).map(|number| number * number * 37 + number).collect();
        let mut expected = FioBins::default();
        values.iter().for_each(|&value| expected.add(value, 1));
        assert_eq!(bins(&of(values)), expected);
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let latency = of([1_000, 2_000, 3_000]);
        assert!((deviation(&latency, 2_000.0) - 1_000.0).abs() < 2.0);
        assert!(deviation(&of([5]), 5.0).abs() < 1e-9);
    }
}
