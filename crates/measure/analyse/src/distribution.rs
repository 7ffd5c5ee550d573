//! From latencies to a distribution, and from the batches of logs to [`BatchFindings`].

use std::collections::BTreeMap;

use durio_base::stats::least_squares::{float, quotient, saturating_sum};
use durio_fio::histogram::FioBins;
use durio_record::{Batches, Latency};

use crate::{BatchFindings, CurvePoint, Distribution};

/// The quantile, if enough samples were taken that at least one lies beyond it; never above the
/// exact maximum nor below the exact minimum, which a histogram's bucket edge can be.
pub(crate) fn quantile(latency: &Latency, quantile: f64) -> Option<u64> {
    let beyond = float(latency.exact.count) * (1.0 - quantile);
    // 100 × (1 − 0.99) is a hair above or below 1 in binary.
    if beyond > 1.0 - 1e-9 { clamped(latency, quantile) } else { None }
}

/// The quantile, whatever the number of samples; the maximum is the honest answer for few.
pub(crate) fn quantile_or_max(latency: &Latency, wanted: f64) -> Option<u64> {
    let exact = &latency.exact;
    (exact.count > 0).then(|| quantile(latency, wanted).unwrap_or(exact.max_ns))
}

fn clamped(latency: &Latency, quantile: f64) -> Option<u64> {
    let exact = &latency.exact;
    Some(latency.histogram()?.value_at_quantile(quantile).clamp(exact.min_ns, exact.max_ns))
}

/// The distribution; `None` without a sample.
pub fn distribution(latency: &Latency) -> Option<Distribution> {
    Some(Distribution {
        count: latency.exact.count,
        mean_ns: latency.exact.mean_ns()?,
        min_ns: latency.exact.min_ns,
        // As many samples must lie below it as above the 99th.
        p1_ns: quantile(latency, 0.99).and_then(|_| clamped(latency, 0.01)),
        p50_ns: quantile(latency, 0.5),
        p90_ns: quantile(latency, 0.9),
        p99_ns: quantile(latency, 0.99),
        p99_9_ns: quantile(latency, 0.999),
        p99_99_ns: quantile(latency, 0.9999),
        max_ns: latency.exact.max_ns,
    })
}

/// The distribution with fio's percentiles, if fio measured: bit for bit as fio prints them, which
/// is the middle of a bucket and may lie above the largest latency.
pub(crate) fn with_fio_bins(figures: Distribution, bins: &[(u32, u64)]) -> Distribution {
    let bins = bins.iter().map(|&(bin, count)| Some((u16::try_from(bin).ok()?, count)));
    let bins = bins.collect::<Option<Vec<_>>>().unwrap_or_default();
    // A damaged record may have bins that fio does not; then the results of durio's histogram
    // stand.
    let Ok(bins) = FioBins::try_from(bins) else { return figures };
    if bins.is_empty() {
        return figures;
    }
    // fio prints a percentile of any number of samples; where ours lacks one, so does this.
    let at = |known: Option<u64>, percent| known.and_then(|_| bins.percentile_ns(percent));
    Distribution {
        p1_ns: at(figures.p1_ns, 1.0),
        p50_ns: at(figures.p50_ns, 50.0),
        p90_ns: at(figures.p90_ns, 90.0),
        p99_ns: at(figures.p99_ns, 99.0),
        p99_9_ns: at(figures.p99_9_ns, 99.9),
        p99_99_ns: at(figures.p99_99_ns, 99.99),
        ..figures
    }
}

/// The smallest of sorted values with at least this percentage of them at or below it; the 99th only
/// of a hundred or more, because of fewer it would be the maximum.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let is_enough = percent == 50 || sorted.len() >= 100;
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied().filter(|_| is_enough)
}

/// Points per decade of 1 / (1 − quantile).
const CURVE_POINTS_PER_DECADE: u32 = 16;

/// The curve, evenly spaced on an axis of −log10(1 − quantile), up to the last sample.
pub(crate) fn curve(latency: &Latency) -> Vec<CurvePoint> {
    let count = latency.exact.count;
    if count == 0 {
        return Vec::new();
    }
    let count = float(count);
    let mut points = Vec::new();
    for step in 0_u32.. {
        let tail = 10_f64.powf(-f64::from(step) / f64::from(CURVE_POINTS_PER_DECADE));
        if tail * count < 1.0 {
            break;
        }
        let quantile = 1.0 - tail;
        let latency_ns = clamped(latency, quantile).unwrap_or(latency.exact.max_ns);
        points.push(CurvePoint { quantile, latency_ns });
    }
    let last = CurvePoint { quantile: 1.0 - 1.0 / count, latency_ns: latency.exact.max_ns };
    // Rounding may put the last step of the axis on the last sample, or beyond it.
    points.retain(|point| point.quantile < last.quantile);
    points.push(last);
    points
}

/// The findings of all logs together; `None` without batches. `record` is the size of every record
/// in bytes, if they have one, `written` are the bytes of their writes, `syncs` their sync calls.
/// The caller adds the devices' counts.
pub(crate) fn batch_findings<'a>(
    logs: impl Iterator<Item = &'a Batches>,
    syncs: u64,
    record: Option<u64>,
    written: u64,
) -> Option<BatchFindings> {
    let (mut sizes, mut padding, mut delayed, mut full) = (BTreeMap::<u32, u64>::new(), 0, 0, 0);
    for log in logs {
        for &(records, count) in &log.sizes {
            let sum = sizes.entry(records).or_default();
            *sum = sum.saturating_add(count);
        }
        padding = log.padding.get().saturating_add(padding);
        delayed = log.delayed.saturating_add(delayed);
        full = log.full.saturating_add(full);
    }
    let sizes: Vec<(u32, u64)> = sizes.into_iter().filter(|(_, count)| *count > 0).collect();
    let count = saturating_sum(sizes.iter().map(|(_, count)| *count));
    let (records_max, _) = *sizes.last()?;
    let each = |&(records, count): &(u32, u64)| u64::from(records).saturating_mul(count);
    let records = saturating_sum(sizes.iter().map(each));
    // Computed from the same batches: a write at the edge of the measured time may be on its other
    // side.
    let of_records = |record: u64| records.saturating_mul(record).saturating_add(padding);
    Some(BatchFindings {
        count,
        records_mean: quotient(records, count),
        records_p50: size_quantile(&sizes, count, 50),
        records_p99: size_quantile(&sizes, count, 99),
        records_max,
        commits_per_sync: (syncs > 0).then(|| quotient(records, syncs)),
        padding_share: quotient(padding, record.map_or(written, of_records)),
        delayed_share: quotient(delayed, count),
        full_share: quotient(full, count),
        device_writes_per_commit: None,
        sizes,
    })
}

/// The smallest number of records that `percent` of the batches do not exceed.
fn size_quantile(sizes: &[(u32, u64)], count: u64, percent: u64) -> u32 {
    // 128 bits: a damaged record may claim any count.
    let rank = (u128::from(count) * u128::from(percent)).div_ceil(100);
    let mut below = 0;
    let found = sizes.iter().find(|(_, count)| {
        below += u128::from(*count);
        below >= rank
    });
    found.or(sizes.last()).map_or(0, |(records, _)| *records)
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;

    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::default();
        values.into_iter().for_each(|value| latency.record(value));
        latency
    }

    #[test]
    fn percentiles_never_exceed_the_maximum() {
        let latency = of(std::iter::repeat_n(1_234_567, 20_000));
        let figures = distribution(&latency).unwrap();
        assert_eq!(figures.p50_ns, Some(1_234_567));
        assert_eq!(figures.p99_99_ns, Some(1_234_567));
        assert_eq!(figures.max_ns, 1_234_567);
    }

    #[test]
    fn a_percentile_needs_a_sample_beyond_it() {
        let figures = distribution(&of(1..=100)).unwrap();
        assert_eq!([figures.p1_ns, figures.p50_ns, figures.p90_ns], [Some(1), Some(50), Some(90)]);
        assert_eq!([figures.p99_ns, figures.p99_9_ns], [Some(99), None]);
        assert_eq!((figures.count, figures.min_ns, figures.max_ns), (100, 1, 100));
        assert_eq!(distribution(&of(1..=300)).unwrap().p1_ns, Some(3));
        let few = distribution(&of(1..=99)).unwrap();
        assert_eq!([few.p1_ns, few.p99_ns], [None; 2]);
        assert_eq!(quantile_or_max(&of([7, 9]), 0.99), Some(9));
        assert!(distribution(&of([])).is_none());
    }

    #[test]
    fn the_curve_rises_from_the_smallest_to_the_largest_sample() {
        let points = curve(&of(1..=10_000));
        assert_eq!(points[0].latency_ns, 1);
        assert_eq!(points.last().unwrap().latency_ns, 10_000);
        let rises = |pair: &[CurvePoint]| {
            pair[0].quantile < pair[1].quantile && pair[0].latency_ns <= pair[1].latency_ns
        };
        assert!(points.windows(2).all(rises));
        assert!(curve(&of([])).is_empty());
        assert_eq!(curve(&of([5])).len(), 1);
    }

    #[test]
    fn a_curve_has_sixteen_points_in_a_decade() {
        // Of a thousand: three decades, and the last sample in the place of the last point.
        let points = curve(&of(1..=1000));
        assert_eq!(points.len(), 49);
        assert!((points[16].quantile - 0.9).abs() < 1e-12, "{:?}", points[16]);
        assert!((points[32].quantile - 0.99).abs() < 1e-12, "{:?}", points[32]);
        assert_eq!([points[16].latency_ns, points[32].latency_ns], [900, 990]);
    }

    fn log(sizes: &[(u32, u64)], padding: u64) -> Batches {
        Batches { sizes: sizes.to_vec(), padding: Bytes::new(padding), delayed: 5, full: 2 }
    }

    #[test]
    fn logs_are_added_up() {
        let logs = [log(&[(1, 60), (4, 39)], 2800), log(&[(4, 0), (64, 1)], 0)];
        let found = batch_findings(logs.iter(), 50, Some(30), 9999).unwrap();
        assert_eq!((found.count, found.records_max), (100, 64));
        assert_eq!((found.records_p50, found.records_p99), (1, 4));
        assert!((found.records_mean - 2.8).abs() < 1e-9);
        assert_eq!((found.commits_per_sync, found.padding_share), (Some(5.6), 0.25));
        assert_eq!((found.delayed_share, found.full_share), (0.1, 0.04));
        assert_eq!(found.sizes, [(1, 60), (4, 39), (64, 1)]);
    }

    #[test]
    fn no_batch_is_no_finding_and_damaged_counts_do_not_overflow() {
        assert_eq!(batch_findings([].iter(), 0, None, 0), None);
        assert_eq!(batch_findings([log(&[(3, 0)], 0)].iter(), 0, None, 0), None);
        let huge = log(&[(u32::MAX, u64::MAX), (7, u64::MAX)], u64::MAX);
        let found = batch_findings([huge.clone(), huge].iter(), 0, None, 1).unwrap();
        assert_eq!((found.count, found.commits_per_sync), (u64::MAX, None));
    }

    #[test]
    fn padding_is_a_share_of_what_was_written_where_records_differ_in_size() {
        let found = batch_findings([log(&[(1, 3)], 2500)].iter(), 0, None, 10_000).unwrap();
        assert_eq!((found.padding_share, found.commits_per_sync), (0.25, None));
        let median = |sizes: &[(u32, u64)]| {
            batch_findings([log(sizes, 0)].iter(), 1, None, 1).unwrap().records_p50
        };
        assert_eq!((median(&[(1, 2), (9, 2)]), median(&[(1, 1), (9, 2)])), (1, 9));
    }
}
