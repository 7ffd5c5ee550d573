//! Two loads of one row, as fio adds the jobs of a reporting group.
//!
//! Makes one [`FioJob`] with histograms from two. Counts add up, the longest runtime counts,
//! latencies are those of all operations; samples of rates are added up, as the loads ran side by
//! side. Rates and percentiles are computed from the result afterwards.

use durio_fio::json::{DirectionFigures, FioJob, LatencyBlock, Shares, SyncSection};

pub(super) fn add(one: FioJob, other: FioJob) -> FioJob {
    let runtimes = [&one, &other].map(|job| figure(job.job_runtime.unwrap_or(0)));
    let operations = [&one, &other].map(|job| figure(accesses(job)));
    // fio keeps the first error of a group.
    let error = if one.error == 0 { other.error } else { one.error };
    FioJob {
        error,
        read: direction(one.read, other.read),
        write: direction(one.write, other.write),
        sync: sync(one.sync, other.sync),
        job_runtime: Some(
            one.job_runtime.unwrap_or(0).saturating_add(other.job_runtime.unwrap_or(0)),
        ),
        // fio divides the CPU time of all jobs by the runtimes of all.
        usr_cpu: mean([one.usr_cpu, other.usr_cpu], runtimes),
        sys_cpu: mean([one.sys_cpu, other.sys_cpu], runtimes),
        ctx: one.ctx.saturating_add(other.ctx),
        iodepth_level: shares(one.iodepth_level, &other.iodepth_level, operations),
        iodepth_submit: shares(one.iodepth_submit, &other.iodepth_submit, operations),
        iodepth_complete: shares(one.iodepth_complete, &other.iodepth_complete, operations),
        ..one
    }
}

fn accesses(job: &FioJob) -> u64 {
    [&job.read, &job.write].into_iter().flatten().map(|it| it.total_ios).sum()
}

fn direction(
    one: Option<DirectionFigures>,
    other: Option<DirectionFigures>,
) -> Option<DirectionFigures> {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (one, other) => return one.or(other),
    };
    if one.total_ios == 0 || other.total_ios == 0 {
        return Some(if one.total_ios == 0 { other } else { one });
    }
    let io_bytes = one.io_bytes.saturating_add(other.io_bytes);
    let total_ios = one.total_ios.saturating_add(other.total_ios);
    let runtime = one.runtime.max(other.runtime);
    let both = |of: fn(&DirectionFigures) -> u64| of(&one).saturating_add(of(&other));
    Some(DirectionFigures {
        io_bytes,
        total_ios,
        runtime,
        bw_min: both(|it| it.bw_min),
        bw_max: both(|it| it.bw_max),
        bw_samples: both(|it| it.bw_samples),
        bw_mean: one.bw_mean + other.bw_mean,
        bw_dev: deviation(one.bw_dev, other.bw_dev),
        iops_min: both(|it| it.iops_min),
        iops_max: both(|it| it.iops_max),
        iops_samples: both(|it| it.iops_samples),
        iops_mean: one.iops_mean + other.iops_mean,
        iops_stddev: deviation(one.iops_stddev, other.iops_stddev),
        slat_ns: block(one.slat_ns, other.slat_ns),
        clat_ns: block(one.clat_ns, other.clat_ns),
        lat_ns: block(one.lat_ns, other.lat_ns),
        ..one
    })
}

/// Variances of independent loads add up.
fn deviation(one: f64, other: f64) -> f64 {
    (one.powi(2) + other.powi(2)).sqrt()
}

fn sync(one: Option<SyncSection>, other: Option<SyncSection>) -> Option<SyncSection> {
    match (one, other) {
        (Some(one), Some(other)) => Some(SyncSection {
            total_ios: one.total_ios.saturating_add(other.total_ios),
            lat_ns: block(one.lat_ns, other.lat_ns),
        }),
        (one, other) => one.or(other),
    }
}

// All operations of both: the squares about the common mean are those about each mean, plus the
// difference of the means.
fn block(one: LatencyBlock, other: LatencyBlock) -> LatencyBlock {
    let (n, m) = (one.samples(), other.samples());
    if n == 0 || m == 0 {
        return if n == 0 { other } else { one };
    }
    let counts = [figure(n), figure(m)];
    let mean = mean([one.mean, other.mean], counts);
    let squares = |block: &LatencyBlock, count: f64| {
        block.stddev.powi(2) * (count - 1.0) + count * (block.mean - mean).powi(2)
    };
    let all = squares(&one, counts[0]) + squares(&other, counts[1]);
    let mut bins = one.bins;
    bins.merge(&other.bins);
    LatencyBlock {
        min: one.min.min(other.min),
        max: one.max.max(other.max),
        mean,
        // Rounding may leave less than nothing, which has no root.
        stddev: (all / (counts[0] + counts[1] - 1.0)).max(0.0).sqrt(),
        n: Some(n.saturating_add(m)),
        // Percentiles cannot be added: they are drawn from the bins afterwards.
        percentiles: Vec::new(),
        bins,
    }
}

fn shares(one: Shares, other: &Shares, weights: [f64; 2]) -> Shares {
    let pairs = one.into_iter().zip(other);
    pairs.map(|((label, one), (_, other))| (label, mean([one, *other], weights))).collect()
}

fn mean([one, other]: [f64; 2], [n, m]: [f64; 2]) -> f64 {
    if n + m > 0.0 { (one * n + other * m) / (n + m) } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a weight")]
fn figure(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use durio_fio::histogram::FioBins;

    /// Mean and deviation as fio has them, from the values.
    fn of(values: &[u64]) -> LatencyBlock {
        let count = values.len() as f64;
        let mean = values.iter().sum::<u64>() as f64 / count;
        let squares: f64 = values.iter().map(|&it| (it as f64 - mean).powi(2)).sum();
        let mut bins = FioBins::default();
        values.iter().for_each(|&value| bins.add(value, 1));
        LatencyBlock {
            min: *values.iter().min().unwrap(),
            max: *values.iter().max().unwrap(),
            mean,
            stddev: (squares / (count - 1.0)).sqrt(),
            n: Some(values.len() as u64),
            percentiles: Vec::new(),
            bins,
        }
    }

    #[test]
    fn two_blocks_are_what_all_their_values_are() {
        let (one, other) = ([10, 20, 90, 1000], [5000, 70, 60]);
        let sum = block(of(&one), of(&other));
        let all = of(&[one.as_slice(), &other].concat());
        assert!((sum.mean - all.mean).abs() < 1e-9 && (sum.stddev - all.stddev).abs() < 1e-9);
        assert_eq!((sum.min, sum.max, sum.n, &sum.bins), (all.min, all.max, all.n, &all.bins));
        assert_eq!(block(LatencyBlock::default(), of(&one)), of(&one));
    }

    #[test]
    fn a_group_has_the_bytes_of_all_over_the_longest_runtime() {
        let of = |io_bytes, runtime| FioJob {
            write: Some(DirectionFigures {
                io_bytes,
                total_ios: 4,
                runtime,
                ..DirectionFigures::default()
            }),
            job_runtime: Some(runtime),
            usr_cpu: figure(runtime) / 100.0,
            ..FioJob::default()
        };
        let sum = add(of(1000, 1000), of(3000, 2000));
        let write = sum.write.unwrap();
        assert_eq!((write.io_bytes, write.total_ios, write.runtime), (4000, 8, 2000));
        assert_eq!(sum.job_runtime, Some(3000));
        assert!((sum.usr_cpu - (10.0 + 40.0) / 3.0).abs() < 1e-9);
    }
}
