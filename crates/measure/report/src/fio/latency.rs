//! Latencies as fio's blocks of numbers.
//!
//! Makes a [`LatencyBlock`] from the findings of an operation.

use durio_analyse::{Distribution, OperationFindings};
use durio_fio::histogram::FioBins;
use durio_fio::import::ShownPercentiles;
use durio_fio::json::LatencyBlock;
use durio_record::Latency;

pub(super) fn service(operation: &OperationFindings) -> LatencyBlock {
    let kept = operation.kept.as_ref().map(|it| &it.service);
    let mut block = block(&operation.service, kept);
    // fio's own counts are nearer to fio's than any of durio.
    let own =
        operation.fio_bins.iter().map(|&(bin, count)| Some((u16::try_from(bin).ok()?, count)));
    let own = own.collect::<Option<Vec<_>>>().and_then(|it| FioBins::try_from(it).ok());
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
pub(super) fn submit(operation: &OperationFindings) -> LatencyBlock {
    let kept = operation.kept.as_ref().and_then(|it| it.submit.as_ref());
    operation.submit.as_ref().map_or_else(nothing, |it| block(it, kept))
}

/// From then on; all of it for engines whose calls block.
pub(super) fn completion(operation: &OperationFindings) -> LatencyBlock {
    let kept = operation.kept.as_ref().and_then(|it| it.completion.as_ref());
    operation.completion.as_ref().map_or_else(|| service(operation), |it| block(it, kept))
}

/// The block without operations.
pub(super) fn nothing() -> LatencyBlock {
    LatencyBlock { n: Some(0), ..LatencyBlock::default() }
}

fn block(figures: &Distribution, kept: Option<&Latency>) -> LatencyBlock {
    let bins = kept.map(bins).unwrap_or_default();
    LatencyBlock {
        min: figures.min_ns,
        max: figures.max_ns,
        mean: super::job::finite(figures.mean_ns),
        stddev: kept.map_or(0.0, |kept| deviation(kept, figures.mean_ns)),
        n: Some(figures.count),
        percentiles: of_bins(&bins),
        bins,
    }
}

// Every bucket of durio's lies within one of fio's, which are wider and part at powers of two too.
fn bins(latency: &Latency) -> FioBins {
    let mut bins = FioBins::default();
    for (lowest, _, count) in latency.histogram().into_iter().flat_map(|it| it.buckets()) {
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
        let beyond = operation.curve.iter().find(|it| it.quantile * 100.0 >= percent - 1e-9);
        (percent, beyond.map_or(operation.service.max_ns, |point| point.latency_ns))
    };
    match operation.curve.is_empty() {
        true => Vec::new(),
        false => ShownPercentiles::default().list.into_iter().map(at).collect(),
    }
}

/// Standard deviation of a sample, each latency taken as the middle of its bucket.
#[expect(clippy::cast_precision_loss, reason = "a figure of three digits")]
fn deviation(latency: &Latency, mean_ns: f64) -> f64 {
    let buckets = latency.histogram().into_iter().flat_map(|it| it.buckets());
    let squares: f64 = buckets
        .map(|(lowest, highest, count)| {
            let middle = (lowest as f64 + highest as f64) / 2.0;
            (middle - mean_ns).powi(2) * count as f64
        })
        .sum();
    let count = latency.exact.count as f64;
    if count > 1.0 { super::job::finite((squares / (count - 1.0)).sqrt()) } else { 0.0 }
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
        let values: Vec<u64> = (0..5_000).map(|it| it * it * 37 + it).collect();
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
