//! fio's rows: a copy of a job each, or all jobs of a reporting group.
//!
//! Makes the [`FioJob`]s in order, given the loads of each row.

use durio_analyse::Findings;
use durio_fio::import::{ResultRow, ResultShape, ShownPercentiles};
use durio_fio::json::{DirectionFigures, FioJob, FioOutput, LatencyBlock, LatencyShares};

use super::{job, merge, workload_at};

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
    let whole = loads.reduce(merge::add).unwrap_or_else(job::nothing);
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
        direction.iter().flat_map(|it| it.clat_ns.bins.iter()).collect::<Vec<_>>()
    };
    // fio's shares by latency are those of completions (io_u.c, `io_u_mark_latency`).
    let counts = [bins(&job.read), bins(&job.write)].concat();
    job.latency = LatencyShares::from_counts(counts);
    [&mut job.read, &mut job.write].into_iter().flatten().for_each(divide_as_fio);
    show(&mut job, &row.percentiles);
    job
}

// Rates over the runtime in whole ms, as fio has them: dividing the printed numbers gives the same.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn divide_as_fio(direction: &mut DirectionFigures) {
    if direction.total_ios == 0 {
        return;
    }
    // A job that ended within a millisecond has done something, and is divided by that.
    direction.runtime = direction.runtime.max(1);
    direction.bw_bytes = direction.io_bytes.saturating_mul(1000) / direction.runtime;
    direction.bw = direction.bw_bytes >> 10;
    direction.iops = 1000.0 * direction.total_ios as f64 / direction.runtime as f64;
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
        let blocks = directions.flat_map(|it| [&mut it.slat_ns, &mut it.clat_ns, &mut it.lat_ns]);
        let sync = job.sync.as_mut().map(|sync| &mut sync.lat_ns);
        blocks.chain(sync).for_each(|block| block.bins = Default::default());
    }
    output
}

/// Bytes per second of a group: its bytes over its longest runtime.
fn of_group(jobs: &[FioJob], group: u64) -> [u64; 2] {
    let of = |direction: fn(&FioJob) -> Option<&DirectionFigures>| {
        let all = jobs.iter().filter(|job| job.groupid == group).filter_map(direction);
        let (bytes, runtime) = all.fold((0_u64, 0), |(bytes, runtime), it| {
            (bytes.saturating_add(it.io_bytes), it.runtime.max(runtime))
        });
        bytes.saturating_mul(1000).checked_div(runtime).unwrap_or(0)
    };
    [of(|job| job.read.as_ref()), of(|job| job.write.as_ref())]
}

// The mean of the samples in percent of the group's bandwidth; 0 without samples, as in fio.
#[expect(clippy::cast_precision_loss, reason = "a share in percent")]
fn share_of_group(direction: Option<&mut DirectionFigures>, bytes_per_second: u64) {
    let Some(direction) = direction else { return };
    let kib = (bytes_per_second >> 10) as f64;
    let share = if kib > 0.0 { 100.0 * direction.bw_mean / kib } else { 100.0 };
    // fio caps it too: the mean of samples may exceed the bandwidth of the whole.
    direction.bw_agg = if direction.bw_samples > 0 { share.min(100.0) } else { 0.0 };
}
