//! The block of one job.
//!
//! In: [`FioJob`]. Out: its lines. Not here: tables over jobs.

use super::number::{Prefixes, short};
use super::{FIGURES, RowFacts, bytes_short, line, rates};
use crate::json::{Direction, FioJob, LatencyBlock, Shares};

/// The width of fio's table of percentiles, less its indent.
const COLUMNS: usize = 80 - 7;
/// fio breaks the line of coarse latencies after so many.
const SHARES_PER_LINE: usize = 5;

/// A job that moved nothing has no block.
pub(super) fn job(text: &mut String, job: &FioJob, row: RowFacts, time: &str) {
    let RowFacts { copies, process } = row;
    let directions = [("read", &job.read, ""), ("write", &job.write, "; 0 zone resets")];
    let moved = |direction: &Option<Direction>| {
        direction.as_ref().is_some_and(|it| it.io_bytes > 0 || it.total_ios > 0)
    };
    if !directions.iter().any(|(_, direction, _)| moved(direction)) {
        return;
    }
    let (name, group, error) = (&job.jobname, job.groupid, job.error);
    line(
        text,
        format_args!(
            "{name}: (groupid={group}, jobs={copies}): err={error:2}: pid={process}: {time}"
        ),
    );
    if let Some(description) = &job.desc {
        line(text, format_args!("  Description  : [{description}]"));
    }
    for (name, direction, suffix) in directions {
        if let Some(it) = direction.as_ref().filter(|it| it.io_bytes > 0 && it.runtime > 0) {
            self::direction(text, name, it, suffix);
        }
    }
    let latencies =
        [("nsec", &job.latency.ns), ("usec", &job.latency.us), ("msec", &job.latency.ms)];
    latencies.iter().for_each(|(unit, shares)| coarse(text, unit, shares));
    if let Some(sync) = job.sync.as_ref().filter(|sync| sync.lat_ns.samples() > 0) {
        line(text, format_args!("  fsync/fdatasync/sync_file_range:"));
        latency(text, "sync", &sync.lat_ns);
        percentiles(text, "sync", &sync.lat_ns);
    }
    closing(text, job);
}

fn direction(text: &mut String, name: &str, it: &Direction, suffix: &str) {
    let iops = short(it.whole_iops(), FIGURES, Prefixes::Decimal, "");
    let [bandwidth, decimal] = rates(it.bw_bytes);
    let (moved, runtime) = (bytes_short(it.io_bytes), it.runtime);
    line(
        text,
        format_args!(
            "  {name}: IOPS={iops}, BW={bandwidth} ({decimal})({moved}/{runtime}msec){suffix}"
        ),
    );
    let blocks = [("slat", &it.slat_ns), ("clat", &it.clat_ns), (" lat", &it.lat_ns)];
    blocks.iter().for_each(|(name, block)| latency(text, name, block));
    blocks.iter().for_each(|(name, block)| percentiles(text, name.trim(), block));
    samples(text, it);
}

/// The unit in which a latency with these extremes is shown: how many ns it has, and its name.
const fn unit(min_ns: u64, max_ns: u64) -> (u64, &'static str) {
    if min_ns > 2_000_000 && max_ns > 99_999_999 {
        (1_000_000, "msec")
    } else if min_ns > 2_000 && max_ns > 99_999 {
        (1_000, "usec")
    } else {
        (1, "nsec")
    }
}

fn latency(text: &mut String, name: &str, block: &LatencyBlock) {
    if block.samples() == 0 {
        return;
    }
    let (mut ns, mut named) = unit(block.min, block.max);
    // The larger unit must leave digits of the deviation.
    while ns > 1 && block.stddev <= as_figure(ns) {
        (ns, named) = if ns == 1_000_000 { (1_000, "usec") } else { (1, "nsec") };
    }
    let bound = |value: u64| short(value / ns, 6, Prefixes::Decimal, "");
    let (min, max) = (bound(block.min), bound(block.max));
    let (mean, deviation) = (block.mean / as_figure(ns), block.stddev / as_figure(ns));
    line(
        text,
        format_args!(
            "    {name} ({named}): min={min}, max={max}, avg={mean:5.2}, stdev={deviation:5.2}"
        ),
    );
}

#[expect(clippy::cast_precision_loss, reason = "a power of ten")]
const fn as_figure(ns: u64) -> f64 {
    ns as f64
}

fn percentiles(text: &mut String, name: &str, block: &LatencyBlock) {
    let values = block.percentiles.iter().map(|&(_, value)| value);
    let (Some(min), Some(max)) = (values.clone().min(), values.max()) else { return };
    let (ns, named) = unit(min, max);
    line(text, format_args!("    {name} percentiles ({named}):"));
    let width = (max / ns).checked_ilog10().map_or(1, |log| log as usize + 1).max(5);
    let digits = block.percentiles.iter().map(|&(percent, _)| decimals(percent)).max().unwrap_or(0);
    let per_line = (COLUMNS / (digits + 10 + width)).max(1);
    for (index, row) in block.percentiles.chunks(per_line).enumerate() {
        let cell = |&(percent, value): &(f64, u64)| {
            format!(" {percent:>0$.digits$}th=[{1:>width$}]", digits + 3, value.div_ceil(ns))
        };
        let is_last = (index + 1) * per_line >= block.percentiles.len();
        let cells = row.iter().map(cell).collect::<Vec<_>>().join(",");
        line(text, format_args!("     |{cells}{}", if is_last { "" } else { "," }));
    }
}

/// How many digits behind the point a percentage is given with.
fn decimals(percent: f64) -> usize {
    percent.to_string().split_once('.').map_or(0, |(_, behind)| behind.len())
}

fn samples(text: &mut String, it: &Direction) {
    if it.bw_samples > 0 {
        let is_large = it.bw_mean > 1024.0 * 1024.0;
        let (divisor, unit) = if is_large { (1024, "MiB") } else { (1, "KiB") };
        let (min, max) = (it.bw_min / divisor, it.bw_max / divisor);
        let (mean, deviation) = (it.bw_mean / as_figure(divisor), it.bw_dev / as_figure(divisor));
        let (share, count) = (it.bw_agg, it.bw_samples);
        line(
            text,
            format_args!(
                "   bw ({unit:>5}/s): min={min:5}, max={max:5}, per={share:.2}%, avg={mean:5.2}, \
             stdev={deviation:5.2}, samples={count}"
            ),
        );
    }
    if it.iops_samples > 0 {
        let (min, max, count) = (it.iops_min, it.iops_max, it.iops_samples);
        let (mean, deviation) = (it.iops_mean, it.iops_stddev);
        line(
            text,
            format_args!(
                "   iops        : min={min:5}, max={max:5}, avg={mean:5.2}, stdev={deviation:5.2}, \
             samples={count}"
            ),
        );
    }
}

fn coarse(text: &mut String, unit: &str, shares: &Shares) {
    let shown: Vec<String> = shares
        .iter()
        .filter(|(_, percent)| *percent > 0.0)
        .map(|(label, percent)| format!("{label}={percent:.2}%"))
        .collect();
    for row in shown.chunks(SHARES_PER_LINE) {
        line(text, format_args!("  lat ({unit})   : {}", row.join(", ")));
    }
}

fn closing(text: &mut String, job: &FioJob) {
    line(
        text,
        format_args!(
            "  cpu          : usr={:.2}%, sys={:.2}%, ctx={}, majf={}, minf={}",
            job.usr_cpu, job.sys_cpu, job.ctx, job.majf, job.minf
        ),
    );
    let distribution = |shares: &Shares| {
        let cell = |(label, percent): &(String, f64)| format!("{label}={percent:.1}%");
        shares.iter().map(cell).collect::<Vec<_>>().join(", ")
    };
    line(text, format_args!("  IO depths    : {}", distribution(&job.iodepth_level)));
    line(text, format_args!("     submit    : {}", distribution(&job.iodepth_submit)));
    line(text, format_args!("     complete  : {}", distribution(&job.iodepth_complete)));
    let count = |of: fn(&Direction) -> u64| {
        [&job.read, &job.write, &job.trim].map(|it| it.as_ref().map_or(0, of))
    };
    let [reads, writes, trims] = count(|it| it.total_ios);
    let [short_reads, short_writes, short_trims] = count(|it| it.short_ios);
    let syncs = job.sync.as_ref().map_or(0, |sync| sync.total_ios);
    line(
        text,
        format_args!(
            "     issued rwts: total={reads},{writes},{trims},{syncs} \
         short={short_reads},{short_writes},{short_trims},0 dropped=0,0,0,0"
        ),
    );
    if let Some(search) = &job.latency_search {
        line(
            text,
            format_args!(
                "     latency   : target={}, window={}, percentile={:.2}%, depth={}",
                search.target, search.window, search.percentile, search.depth
            ),
        );
    }
}
