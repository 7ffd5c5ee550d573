//! fio's rows: a copy of a job each, or all jobs of a reporting group.

use durio_analyse::Findings;
use durio_fio::import::{ResultRow, ResultShape, ShownPercentiles};
use durio_fio::json::{
    DirectionFigures, FioJob, FioOutput, LatencyBlock, LatencyShares, Shares, SyncSection,
};

use super::{job, workload_at};
use crate::figures::precise;

/// All rows, also those of jobs that the run did not come to: they are zero, as fio's are.
pub(super) fn jobs(findings: &Findings, shape: &ResultShape, elapsed: u64) -> Vec<FioJob> {
    let mut jobs: Vec<FioJob> =
        shape.rows.iter().map(|row| self::row(findings, row, elapsed)).collect();
    let totals: Vec<[u64; 2]> = jobs.iter().map(|job| of_group(&jobs, job.groupid)).collect();
    for (job, [reads, writes]) in jobs.iter_mut().zip(totals) {
        share_of_group(job.read.as_mut(), reads);
        share_of_group(job.write.as_mut(), writes);
    }
    jobs
}

fn row(findings: &Findings, row: &ResultRow, elapsed: u64) -> FioJob {
    let measured = row.places.iter().filter_map(|&place| workload_at(findings, place));
    let loads = measured.map(|workload| job::job(findings, 0, workload));
    let whole = loads.reduce(merged).unwrap_or_else(job::nothing);
    let mut job = FioJob {
        jobname: row.name.clone(),
        groupid: u64::from(row.group),
        eta: Some(0),
        elapsed: Some(elapsed),
        // Without options fio leaves the key out.
        options: Some(row.options.clone()).filter(|options| !options.is_empty()),
        desc: Some(row.description.clone()).filter(|text| !text.is_empty()),
        ..whole
    };
    let bins = |direction: &Option<DirectionFigures>| {
        direction.iter().flat_map(|direction| direction.clat_ns.bins.iter()).collect::<Vec<_>>()
    };
    // fio's shares by latency are those of completions (io_u.c, `io_u_mark_latency`).
    let counts = [bins(&job.read), bins(&job.write)].concat();
    job.latency = LatencyShares::from_counts(counts);
    [&mut job.read, &mut job.write].into_iter().flatten().for_each(divide_as_fio);
    show(&mut job, &row.percentiles);
    job
}

// Rates over the runtime in whole ms, as fio has them: dividing the printed numbers gives the same.
fn divide_as_fio(direction: &mut DirectionFigures) {
    if direction.total_ios == 0 {
        return;
    }
    // A job that ended within a millisecond has done something, and is divided by that.
    direction.runtime = direction.runtime.max(1);
    direction.bw_bytes = direction.io_bytes.saturating_mul(1000) / direction.runtime;
    direction.bw = direction.bw_bytes >> 10;
    direction.iops = 1000.0 * precise(direction.total_ios) / precise(direction.runtime);
}

/// Percentiles as the options ask for them. Those of syncs are there if any are.
fn show(job: &mut FioJob, percentiles: &ShownPercentiles) {
    let ShownPercentiles { submit, completion, total, list } = percentiles;
    for direction in [&mut job.read, &mut job.write].into_iter().flatten() {
        for (block, is_shown) in [
            (&mut direction.slat_ns, submit),
            (&mut direction.clat_ns, completion),
            (&mut direction.lat_ns, total),
        ] {
            show_block(block, *is_shown, list);
        }
    }
    if let Some(sync) = &mut job.sync {
        show_block(&mut sync.lat_ns, *completion || *total, list);
    }
}

fn show_block(block: &mut LatencyBlock, is_shown: bool, list: &[f64]) {
    block.percentiles.clear();
    if is_shown {
        let known = |&percent: &f64| Some((percent, block.bins.percentile_ns(percent)?));
        block.percentiles = list.iter().filter_map(known).collect();
    } else {
        block.bins = Default::default();
    }
}

/// json instead of json+.
pub(super) fn without_bins(mut output: FioOutput) -> FioOutput {
    for job in &mut output.jobs {
        let directions = [&mut job.read, &mut job.write].into_iter().flatten();
        let blocks = directions.flat_map(|direction| {
            [&mut direction.slat_ns, &mut direction.clat_ns, &mut direction.lat_ns]
        });
        let sync = job.sync.as_mut().map(|sync| &mut sync.lat_ns);
        blocks.chain(sync).for_each(|block| block.bins = Default::default());
    }
    output
}

/// Bytes per second of a group: its bytes over its longest runtime.
fn of_group(jobs: &[FioJob], group: u64) -> [u64; 2] {
    let of = |direction: fn(&FioJob) -> Option<&DirectionFigures>| {
        let all = jobs.iter().filter(|job| job.groupid == group).filter_map(direction);
        let (bytes, runtime) = all.fold((0_u64, 0), |(bytes, runtime), direction| {
            (bytes.saturating_add(direction.io_bytes), direction.runtime.max(runtime))
        });
        bytes.saturating_mul(1000).checked_div(runtime).unwrap_or(0)
    };
    [of(|job| job.read.as_ref()), of(|job| job.write.as_ref())]
}

// The mean of the samples in percent of the group's bandwidth; 0 without samples, as in fio.
fn share_of_group(direction: Option<&mut DirectionFigures>, bytes_per_second: u64) {
    let Some(direction) = direction else { return };
    let kib = precise(bytes_per_second >> 10);
    let share = if kib > 0.0 { 100.0 * direction.bw_mean / kib } else { 100.0 };
    // fio caps it too: the mean of samples may exceed the bandwidth of the whole.
    direction.bw_agg = if direction.bw_samples > 0 { share.min(100.0) } else { 0.0 };
}

/// Two loads of one row, as fio adds the jobs of a reporting group: counts add up, the longest runtime
/// counts, latencies are those of all operations; samples of rates are added up, as the loads ran side by
/// side. Rates and percentiles are computed from the result afterwards.
fn merged(one: FioJob, other: FioJob) -> FioJob {
    let runtimes = [&one, &other].map(|job| precise(job.job_runtime.unwrap_or(0)));
    let operations = [&one, &other].map(|job| precise(accesses(job)));
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
    [&job.read, &job.write].into_iter().flatten().map(|direction| direction.total_ios).sum()
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
        bw_min: both(|direction| direction.bw_min),
        bw_max: both(|direction| direction.bw_max),
        bw_samples: both(|direction| direction.bw_samples),
        bw_mean: one.bw_mean + other.bw_mean,
        bw_dev: deviation(one.bw_dev, other.bw_dev),
        iops_min: both(|direction| direction.iops_min),
        iops_max: both(|direction| direction.iops_max),
        iops_samples: both(|direction| direction.iops_samples),
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
    let counts = [precise(n), precise(m)];
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

#[cfg(test)]
mod tests {
    use super::*;
    use durio_fio::histogram::FioBins;

    /// Mean and deviation as fio has them, from the values.
    fn of(values: &[u64]) -> LatencyBlock {
        let count = values.len() as f64;
        let mean = values.iter().sum::<u64>() as f64 / count;
        let squares: f64 = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum();
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
            usr_cpu: precise(runtime) / 100.0,
            ..FioJob::default()
        };
        let sum = merged(of(1000, 1000), of(3000, 2000));
        let write = sum.write.unwrap();
        assert_eq!((write.io_bytes, write.total_ios, write.runtime), (4000, 8, 2000));
        assert_eq!(sum.job_runtime, Some(3000));
        assert!((sum.usr_cpu - (10.0 + 40.0) / 3.0).abs() < 1e-9);
    }

    fn latency(n: u64, at: u64) -> LatencyBlock {
        let mean = precise(at) + 10.0;
        LatencyBlock { n: Some(n), min: at, max: at + 90, mean, ..LatencyBlock::default() }
    }

    /// A load in which no two figures are alike, so many times as much of everything.
    fn unlike(unit: u64, error: i64) -> FioJob {
        let direction = |unit: u64| {
            let times = |part: f64| part * precise(unit);
            Some(DirectionFigures {
                io_bytes: 1000 * unit,
                total_ios: 10 * unit,
                runtime: 100 * unit,
                bw_min: 2 * unit,
                bw_max: 3 * unit,
                bw_samples: 5 * unit,
                bw_mean: times(7.0),
                bw_dev: times(11.0),
                iops_min: 13 * unit,
                iops_max: 17 * unit,
                iops_samples: 19 * unit,
                iops_mean: times(23.0),
                iops_stddev: times(29.0),
                slat_ns: latency(unit, 100 * unit),
                clat_ns: latency(2 * unit, 200 * unit),
                lat_ns: latency(3 * unit, 300 * unit),
                ..DirectionFigures::default()
            })
        };
        let shares = if unit == 1 { [100.0, 0.0] } else { [0.0, 100.0] };
        FioJob {
            error,
            read: direction(unit),
            write: direction(10 * unit),
            sync: Some(SyncSection { total_ios: 31 * unit, lat_ns: latency(4 * unit, 400 * unit) }),
            job_runtime: Some(37 * unit),
            usr_cpu: 2.0 * precise(unit),
            sys_cpu: 3.0 * precise(unit),
            ctx: 41 * unit,
            iodepth_level: vec![("1".to_owned(), shares[0]), ("2".to_owned(), shares[1])],
            ..FioJob::default()
        }
    }

    #[test]
    fn each_figure_of_two_loads_is_added_to_its_own() {
        let sum = merged(unlike(1, 0), unlike(3, 5));
        for (direction, unit) in [(sum.read.unwrap(), 1), (sum.write.unwrap(), 10)] {
            let it = &direction;
            assert_eq!([it.io_bytes, it.total_ios, it.runtime], [4000, 40, 300].map(|n| n * unit));
            let samples = [it.bw_min, it.bw_max, it.bw_samples];
            assert_eq!(samples, [8, 12, 20].map(|n| n * unit));
            let samples = [it.iops_min, it.iops_max, it.iops_samples];
            assert_eq!(samples, [52, 68, 76].map(|n| n * unit));
            let means = [it.bw_mean, it.iops_mean, it.bw_dev, it.iops_stddev];
            let root = 10.0_f64.sqrt();
            for (found, expected) in means.into_iter().zip([28.0, 92.0, 11.0 * root, 29.0 * root]) {
                let off = found / precise(unit) - expected;
                assert!(off.abs() < 1e-9, "{found}, not {expected}");
            }
        }
        // So many operations of so many nanoseconds each, from the least to the most.
        let sum = merged(unlike(1, 0), unlike(3, 5));
        let (read, write) = (sum.read.unwrap(), sum.write.unwrap());
        for (block, count, bounds, mean) in [
            (&read.slat_ns, 4, (100, 390), 260.0),
            (&read.clat_ns, 8, (200, 690), 510.0),
            (&read.lat_ns, 12, (300, 990), 760.0),
            (&write.slat_ns, 40, (1000, 3090), 2510.0),
            (&sum.sync.as_ref().unwrap().lat_ns, 16, (400, 1290), 1010.0),
        ] {
            assert_eq!((block.n, (block.min, block.max)), (Some(count), bounds));
            assert!((block.mean - mean).abs() < 1e-9, "{} is not {mean}", block.mean);
        }
        assert_eq!(sum.sync.as_ref().unwrap().total_ios, 124);
        assert_eq!((sum.error, sum.job_runtime, sum.ctx), (5, Some(148), 164));
        assert_eq!(merged(unlike(1, 7), unlike(3, 5)).error, 7, "the first of them");
        // By 37 and 111 ms, and by 110 and 330 accesses.
        assert!((sum.usr_cpu - 5.0).abs() < 1e-9 && (sum.sys_cpu - 7.5).abs() < 1e-9);
        let shares: Vec<f64> = sum.iodepth_level.iter().map(|(_, share)| *share).collect();
        assert!((shares[0] - 25.0).abs() < 1e-9 && (shares[1] - 75.0).abs() < 1e-9, "{shares:?}");
    }
}
