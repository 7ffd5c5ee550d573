//! fio's normal output, for people and for scripts that look for its lines.
//!
//! Prints a [`FioOutput`] as fio does after a run: a block per job, a table of the whole run per
//! reporting group, the counters of block devices. Lines before a run are left out, except
//! [`head`].

use crate::json::{DirectionFigures, DiskCounters, FioJob, FioOutput, LatencyBlock, Shares};

/// Facts about a job that fio shows and its JSON lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFacts {
    /// How many jobs the row stands for.
    pub copies: u32,
    /// The number of the process.
    pub process: u32,
}

// Digits and point of rates and sizes (fio's default of `significant_figures`).
const FIGURES: usize = 4;

/// The text; `rows` has the facts of each job, in order.
pub fn write(output: &FioOutput, rows: &[RowFacts]) -> String {
    let time = output.time.as_deref().unwrap_or_default();
    let mut text = "\n".to_owned();
    for (job, row) in output.jobs.iter().zip(rows) {
        job_block(&mut text, job, *row, time);
    }
    let groups = output.jobs.iter().map(|job| job.groupid).max();
    // fio has a table for each group up to the last, also for one in which nothing ran.
    for group in groups.into_iter().flat_map(|last| 0..=last) {
        whole_run(&mut text, group, &output.jobs);
    }
    disks(&mut text, output);
    text
}

/// What a job is going to do, in the line that fio prints before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobHead {
    pub name: String,
    pub group: u32,
    /// The pattern, as `rw` has it.
    pub pattern: String,
    /// The smallest and the largest access in bytes.
    pub block_bytes: (u64, u64),
    /// fio's name of the engine.
    pub engine: String,
    /// Accesses in flight per copy.
    pub depth: u32,
    /// How many copies run.
    pub copies: u32,
}

/// The lines before a run.
pub fn head(version: &str, jobs: &[JobHead]) -> String {
    let mut text = String::new();
    for job in jobs {
        let JobHead { name, group, pattern, block_bytes: (least, most), engine, depth, copies } =
            job;
        let [least, most] = [least, most].map(|bytes| bytes_short(*bytes));
        text += &format!(
            "{name}: (g={group}): rw={pattern}, bs=(R) {least}-{most}, (W) {least}-{most}, \
             (T) {least}-{most}, ioengine={engine}, iodepth={depth}\n"
        );
        if *copies > 1 {
            text += "...\n";
        }
    }
    let copies: u32 = jobs.iter().map(|job| job.copies).fold(0, u32::saturating_add);
    text += &format!("{version}\n");
    let processes = if copies == 1 { "process" } else { "processes" };
    text += &format!("Starting {copies} {processes}\n");
    text
}

fn bytes_short(bytes: u64) -> String {
    short(bytes, FIGURES, Prefixes::Binary, "B")
}

/// Both ways: `90.9MiB/s (95.3MB/s)`, the parts apart.
fn rates(bytes_per_second: u64) -> [String; 2] {
    [Prefixes::Binary, Prefixes::Decimal]
        .map(|prefixes| short(bytes_per_second, FIGURES, prefixes, "B/s"))
}

fn whole_run(text: &mut String, group: u64, jobs: &[FioJob]) {
    *text += &format!("\nRun status group {group} (all jobs):\n");
    type Of = fn(&FioJob) -> Option<&DirectionFigures>;
    let directions: [(&str, Of); 3] = [
        ("   READ", |job| job.read.as_ref()),
        ("  WRITE", |job| job.write.as_ref()),
        ("   TRIM", |job| job.trim.as_ref()),
    ];
    for (name, of) in directions {
        let of_group = jobs.iter().filter(|job| job.groupid == group).filter_map(of);
        let ran: Vec<&DirectionFigures> =
            of_group.filter(|direction| direction.runtime > 0).collect();
        let runtimes = ran.iter().map(|figures| figures.runtime);
        let (Some(least), Some(most)) = (runtimes.clone().min(), runtimes.max()) else { continue };
        let bytes = ran.iter().map(|figures| figures.io_bytes).fold(0, u64::saturating_add);
        let [all, all_si] = rates(bytes.saturating_mul(1000) / most.max(1));
        let each = ran.iter().map(|figures| figures.bw_bytes);
        let [slowest, slowest_si] = rates(each.clone().min().unwrap_or(0));
        let [fastest, fastest_si] = rates(each.max().unwrap_or(0));
        let (moved, moved_si) = (bytes_short(bytes), short(bytes, FIGURES, Prefixes::Decimal, "B"));
        *text += &format!(
            "{name}: bw={all} ({all_si}), {slowest}-{fastest} ({slowest_si}-{fastest_si}), \
             io={moved} ({moved_si}), run={least}-{most}msec\n"
        );
    }
}

fn disks(text: &mut String, output: &FioOutput) {
    let disks = output.disk_util.iter().flatten().collect::<Vec<_>>();
    if !disks.is_empty() {
        *text += "\nDisk stats (read/write):\n";
    }
    for disk in disks {
        let indent = if disk.members.is_some() { "    " } else { "  " };
        let members =
            disk.members.as_ref().map(|members| format!(", {}", counters("aggr", members)));
        let (own, members) = (counters("", &disk.own), members.unwrap_or_default());
        *text += &format!("{indent}{}: {own}{members}\n", disk.name);
    }
}

fn counters(prefix: &str, disk: &DiskCounters) -> String {
    let pairs = [
        ("ios", disk.read_ios, disk.write_ios),
        ("merge", disk.read_merges, disk.write_merges),
        ("ticks", disk.read_ticks, disk.write_ticks),
    ];
    let pairs = pairs.map(|(name, reads, writes)| format!("{prefix}{name}={reads}/{writes}, "));
    let (pairs, queue, util) = (pairs.concat(), disk.in_queue, disk.util);
    format!("{pairs}{prefix}in_queue={queue}, {prefix}util={util:.2}%")
}

// The width of fio's table of percentiles, less its indent.
const COLUMNS: usize = 80 - 7;
// fio breaks the line of coarse latencies after this number of shares.
const SHARES_PER_LINE: usize = 5;

// A job that moved nothing has no block.
fn job_block(text: &mut String, job: &FioJob, row: RowFacts, time: &str) {
    let RowFacts { copies, process } = row;
    // fio says so of writes to any device, zoned or not.
    let directions = [("read", &job.read, ""), ("write", &job.write, "; 0 zone resets")];
    let moved = |direction: &Option<DirectionFigures>| {
        direction.as_ref().is_some_and(|figures| figures.io_bytes > 0 || figures.total_ios > 0)
    };
    if !directions.iter().any(|(_, direction, _)| moved(direction)) {
        return;
    }
    let (name, group, error) = (&job.jobname, job.groupid, job.error);
    *text += &format!(
        "{name}: (groupid={group}, jobs={copies}): err={error:2}: pid={process}: {time}\n"
    );
    if let Some(description) = &job.desc {
        *text += &format!("  Description  : [{description}]\n");
    }
    for (name, direction, suffix) in directions {
        // fio divides by the runtime, and prints nothing for a runtime below a millisecond.
        if let Some(figures) =
            direction.as_ref().filter(|figures| figures.io_bytes > 0 && figures.runtime > 0)
        {
            self::direction(text, name, figures, suffix);
        }
    }
    let latencies =
        [("nsec", &job.latency.ns), ("usec", &job.latency.us), ("msec", &job.latency.ms)];
    latencies.iter().for_each(|(unit, shares)| coarse(text, unit, shares));
    if let Some(sync) = job.sync.as_ref().filter(|sync| sync.lat_ns.samples() > 0) {
        *text += "  fsync/fdatasync/sync_file_range:\n";
        latency(text, "sync", &sync.lat_ns);
        percentiles(text, "sync", &sync.lat_ns);
    }
    closing(text, job);
}

fn direction(text: &mut String, name: &str, figures: &DirectionFigures, suffix: &str) {
    let iops = short(figures.whole_iops(), FIGURES, Prefixes::Decimal, "");
    let [bandwidth, decimal] = rates(figures.bw_bytes);
    let (moved, runtime) = (bytes_short(figures.io_bytes), figures.runtime);
    *text += &format!(
        "  {name}: IOPS={iops}, BW={bandwidth} ({decimal})({moved}/{runtime}msec){suffix}\n"
    );
    let blocks =
        [("slat", &figures.slat_ns), ("clat", &figures.clat_ns), (" lat", &figures.lat_ns)];
    blocks.iter().for_each(|(name, block)| latency(text, name, block));
    blocks.iter().for_each(|(name, block)| percentiles(text, name.trim(), block));
    samples(text, figures);
}

/// The unit in which a latency with these extremes is shown: how many ns it has, and its name.
const fn unit(min_ns: u64, max_ns: u64) -> (u64, &'static str) {
    // The bounds of nsec_to_usec and nsec_to_msec in fio's stat.c.
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
    *text += &format!(
        "    {name} ({named}): min={min}, max={max}, avg={mean:5.2}, stdev={deviation:5.2}\n"
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
    *text += &format!("    {name} percentiles ({named}):\n");
    let width = (max / ns).checked_ilog10().map_or(1, |log| log as usize + 1).max(5);
    let digits = block.percentiles.iter().map(|&(percent, _)| decimals(percent)).max().unwrap_or(0);
    let per_line = (COLUMNS / (digits + 10 + width)).max(1);
    for (index, row) in block.percentiles.chunks(per_line).enumerate() {
        let cell = |&(percent, value): &(f64, u64)| {
            // fio rounds percentiles up to the unit.
            format!(" {percent:>0$.digits$}th=[{1:>width$}]", digits + 3, value.div_ceil(ns))
        };
        let is_last = (index + 1) * per_line >= block.percentiles.len();
        let cells = row.iter().map(cell).collect::<Vec<_>>().join(",");
        *text += &format!("     |{cells}{}\n", if is_last { "" } else { "," });
    }
}

/// How many digits behind the point a percentage is given with.
fn decimals(percent: f64) -> usize {
    percent.to_string().split_once('.').map_or(0, |(_, behind)| behind.len())
}

fn samples(text: &mut String, figures: &DirectionFigures) {
    if figures.bw_samples > 0 {
        let is_large = figures.bw_mean > 1024.0 * 1024.0;
        let (divisor, unit) = if is_large { (1024, "MiB") } else { (1, "KiB") };
        let (min, max) = (figures.bw_min / divisor, figures.bw_max / divisor);
        let (mean, deviation) =
            (figures.bw_mean / as_figure(divisor), figures.bw_dev / as_figure(divisor));
        let (share, count) = (figures.bw_agg, figures.bw_samples);
        *text += &format!(
            "   bw ({unit:>5}/s): min={min:5}, max={max:5}, per={share:.2}%, avg={mean:5.2}, \
             stdev={deviation:5.2}, samples={count}\n"
        );
    }
    if figures.iops_samples > 0 {
        let (min, max, count) = (figures.iops_min, figures.iops_max, figures.iops_samples);
        let (mean, deviation) = (figures.iops_mean, figures.iops_stddev);
        *text += &format!(
            "   iops        : min={min:5}, max={max:5}, avg={mean:5.2}, stdev={deviation:5.2}, \
             samples={count}\n"
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
        *text += &format!("  lat ({unit})   : {}\n", row.join(", "));
    }
}

fn closing(text: &mut String, job: &FioJob) {
    *text += &format!(
        "  cpu          : usr={:.2}%, sys={:.2}%, ctx={}, majf={}, minf={}\n",
        job.usr_cpu, job.sys_cpu, job.ctx, job.majf, job.minf
    );
    let distribution = |shares: &Shares| {
        let cell = |(label, percent): &(String, f64)| format!("{label}={percent:.1}%");
        shares.iter().map(cell).collect::<Vec<_>>().join(", ")
    };
    *text += &format!("  IO depths    : {}\n", distribution(&job.iodepth_level));
    *text += &format!("     submit    : {}\n", distribution(&job.iodepth_submit));
    *text += &format!("     complete  : {}\n", distribution(&job.iodepth_complete));
    let count = |of: fn(&DirectionFigures) -> u64| {
        [&job.read, &job.write, &job.trim].map(|figures| figures.as_ref().map_or(0, of))
    };
    let [reads, writes, trims] = count(|figures| figures.total_ios);
    let [short_reads, short_writes, short_trims] = count(|figures| figures.short_ios);
    let syncs = job.sync.as_ref().map_or(0, |sync| sync.total_ios);
    *text += &format!(
        "     issued rwts: total={reads},{writes},{trims},{syncs} \
         short={short_reads},{short_writes},{short_trims},0 dropped=0,0,0,0\n"
    );
    if let Some(search) = &job.latency_search {
        *text += &format!(
            "     latency   : target={}, window={}, percentile={:.2}%, depth={}\n",
            search.target, search.window, search.percentile, search.depth
        );
    }
}

/// The factor between prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefixes {
    /// k, M, G: thousands.
    Decimal,
    /// Ki, Mi, Gi: 1024 each.
    Binary,
}

const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// At most `characters` digits and point, with prefix and `unit`.
// As in fio, the number is cut step by step to whole units, and the rest of the last step gives the
// digits behind the point: anything below that rest is dropped, and a rest that rounds up to one
// carries.
fn short(number: u64, characters: usize, prefixes: Prefixes, unit: &str) -> String {
    let (step, names) = match prefixes {
        Prefixes::Decimal => (1000, DECIMAL),
        Prefixes::Binary => (1024, BINARY),
    };
    let (mut whole, mut rest, mut prefix) = (number, None, 0);
    while digits(whole) > characters && prefix + 1 < names.len() {
        rest = Some(whole % step);
        whole /= step;
        prefix += 1;
    }
    let name = names.get(prefix).copied().unwrap_or_default();
    let Some(rest) = rest else { return format!("{whole}{name}{unit}") };
    let room = characters.saturating_sub(digits(whole));
    if room <= 1 {
        let carried = whole + u64::from(rest >= step / 2);
        return format!("{carried}{name}{unit}");
    }
    #[expect(clippy::cast_precision_loss, reason = "below 1024")]
    let fraction = format!("{:.*}", room - 1, rest as f64 / step as f64);
    // 0.999 to one digit is 1.0.
    let carry = u64::from(fraction.starts_with('1'));
    let behind = fraction.get(2..).unwrap_or_default();
    format!("{}.{behind}{name}{unit}", whole + carry)
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;

    /// Output of fio 3.33 with `--output-format=json,normal`: the document, then the text.
    fn check(recorded: &str) {
        let (document, expected) = recorded.split_once("\n}\n").unwrap();
        let document = format!("{document}\n}}\n");
        let output = read(document.as_bytes()).unwrap().output;
        let facts = |block: &str| {
            let copies = block.split_once("jobs=").unwrap().1.split_once(')').unwrap().0;
            let process = block.split_once(": pid=").unwrap().1.split_once(':').unwrap().0;
            RowFacts { copies: copies.parse().unwrap(), process: process.parse().unwrap() }
        };
        let rows: Vec<_> =
            expected.lines().filter(|line| line.contains("groupid=")).map(facts).collect();
        let written = write(&output, &rows);
        for (written, expected) in written.lines().zip(expected.lines()) {
            assert_eq!(written, expected);
        }
        assert_eq!(written, expected);
    }

    #[test]
    fn reads_in_a_group_are_as_fio_prints_them() {
        check(include_str!("../tests/recorded/normal_group.txt"));
    }

    #[test]
    fn writes_with_syncs_are_as_fio_prints_them() {
        check(include_str!("../tests/recorded/normal_sync.txt"));
    }

    #[test]
    fn a_mix_with_percentiles_of_its_own_is_as_fio_prints_it() {
        check(include_str!("../tests/recorded/normal_mixed.txt"));
    }

    #[test]
    fn the_lines_before_a_run_are_fio_s() {
        let head_of = |copies| JobHead {
            name: "rr".to_owned(),
            group: 0,
            pattern: "randread".to_owned(),
            block_bytes: (4096, 65536),
            engine: "libaio".to_owned(),
            depth: 4,
            copies,
        };
        let expected = "rr: (g=0): rw=randread, bs=(R) 4096B-64.0KiB, (W) 4096B-64.0KiB, \
                    (T) 4096B-64.0KiB, ioengine=libaio, iodepth=4\n...\nfio-3.33\n\
                    Starting 2 processes\n";
        assert_eq!(head("fio-3.33", &[head_of(2)]), expected);
    }

    #[test]
    fn numbers_are_as_short_as_fio_makes_them() {
        let rate = |number| short(number, 4, Prefixes::Decimal, "");
        assert_eq!([0, 1022, 9999, 10_000].map(rate), ["0", "1022", "9999", "10.0k"]);
        assert_eq!([23_272, 127_150, 222_256].map(rate), ["23.3k", "127k", "222k"]);
        // The rest rounds up to one.
        assert_eq!([99_999, 999_999].map(rate), ["100.0k", "1000k"]);
        let binary = |number| short(number, 4, Prefixes::Binary, "B/s");
        assert_eq!([4_190_113, 95_325_090].map(binary), ["4092KiB/s", "90.9MiB/s"]);
        let decimal = |number| short(number, 4, Prefixes::Decimal, "B/s");
        assert_eq!([4_190_113, 95_325_090].map(decimal), ["4190kB/s", "95.3MB/s"]);
        assert_eq!(short(u64::MAX, 4, Prefixes::Binary, "B"), "16.0EiB");
    }
}
