//! One entry of `jobs`: a job, or the jobs of a reporting group, with its latencies.
//!
//! Reads an object of `jobs` or `client_stats` into a [`FioJob`]. A group has the first job's name
//! with the last one's options; see the fields. `slat_ns`, `clat_ns` and `lat_ns` become a
//! [`LatencyBlock`], objects like `iodepth_level` or a histogram [`Shares`].

use super::cursor::{Cursor, JsonFault, JsonResult};
use super::table::{Json, OptionPairs, Printer, Shares, object};
use crate::histogram::FioBins;

/// -1 in 32 bits.
const NO_GROUP: u64 = 0xffff_ffff;

object! {
    /// Reads, writes, trims, or all of them together. Field names are fio's keys.
    struct DirectionFigures {
        /// Bytes read, written or trimmed.
        io_bytes: u64 => ["io_bytes", put put_kbytes],
        /// Bytes per second over `runtime`; from `bw` where fio (before 3.2) does not say.
        bw_bytes: u64,
        /// KiB per second, rounded down.
        bw: u64,
        /// Operations per second over `runtime`.
        iops: f64,
        /// In ms: the longest of the jobs of a group, syncs included.
        runtime: u64,
        /// Operations that were done.
        total_ios: u64,
        /// Operations that moved less than asked for. fio counts syncs among the short reads.
        short_ios: u64,
        /// Operations that fio left out.
        drop_ios: u64,
        /// From the preparation until the submitting call returned; nothing for blocking engines.
        slat_ns: LatencyBlock,
        /// From then until the completion.
        clat_ns: LatencyBlock,
        lat_ns: LatencyBlock,
        /// The latency of each I/O priority.
        prios: Vec<PriorityLatency> => [read "prios", put put_priorities],
        /// KiB per second of the slowest sample (of 500 ms); 0 if the run was shorter than a sample.
        bw_min: u64,
        /// KiB per second of the fastest sample.
        bw_max: u64,
        /// Percent of the group's bandwidth.
        bw_agg: f64,
        /// KiB per second, mean of the samples of single jobs.
        bw_mean: f64,
        /// Standard deviation of the same.
        bw_dev: f64,
        bw_samples: u64,
        /// Operations per second of the slowest sample.
        iops_min: u64,
        /// Operations per second of the fastest sample.
        iops_max: u64,
        /// Mean of the samples of single jobs.
        iops_mean: f64,
        /// Standard deviation of the same.
        iops_stddev: f64,
        iops_samples: u64,
        /// Percent of reads that hit a cache, where the engine knows.
        cachehit: Option<f64>,
    }
    finish fill_bytes
}

impl DirectionFigures {
    /// Operations per second as fio's texts have them: from the counts, rounded down.
    pub fn whole_iops(&self) -> u64 {
        self.total_ios.saturating_mul(1000).checked_div(self.runtime).unwrap_or(0)
    }

    // fio before 3.2 says it in KiB alone.
    fn fill_bytes(&mut self) {
        if self.bw_bytes == 0 {
            self.bw_bytes = self.bw.saturating_mul(1024);
        }
    }

    fn put_kbytes(&self, printer: &mut Printer) {
        // fio prints both; it says no more than the bytes, so it is not kept.
        (self.io_bytes >> 10).put(printer, "io_kbytes");
    }

    fn put_priorities(&self, printer: &mut Printer) {
        if !self.prios.is_empty() {
            self.prios.put(printer, "prios");
        }
    }
}

object! {
    /// fsync, fdatasync and `sync_file_range` together; fio does not distinguish them.
    struct SyncSection {
        /// As fio says; 0 for fdatasync up to fio 3.42. `lat_ns.n` is right.
        total_ios: u64,
        /// The latency of the sync call alone.
        lat_ns: LatencyBlock,
    }
}

object! {
    /// A job, or a reporting group. Field names are fio's keys; `Option` where fio may leave out.
    struct FioJob {
        /// The line of the file in which the job begins, from 1; 0 if it is from no file.
        line: u64 => [],
        /// The name; in a reporting group that of its first job.
        jobname: String,
        /// The reporting group, from 0.
        groupid: u64,
        /// When the job began, in ms since 1970; since fio 3.36.
        job_start: Option<u64>,
        /// The first error's number, 0 without one.
        error: i64,
        /// Seconds that fio still expected to run.
        eta: Option<u64>,
        /// Seconds since fio began.
        elapsed: Option<u64>,
        /// The options given for it, in order; in a reporting group those of its last job. An
        /// option given bare, as `time_based`, has the value "" since fio 3.39; older ones leave it out.
        options: Option<OptionPairs> => ["job options", put put_mixed_first],
        read: Option<DirectionFigures>,
        write: Option<DirectionFigures>,
        trim: Option<DirectionFigures>,
        /// Syncs; since fio 3.4.
        sync: Option<SyncSection> => ["sync", put put_mixed_last],
        /// All directions together, with `unified_rw_reporting`.
        mixed: Option<DirectionFigures> => [read "mixed"],
        /// In ms, the sum over the jobs of a group; since fio 3.8.
        job_runtime: Option<u64>,
        /// Percent of one processor in user mode.
        usr_cpu: f64,
        /// Percent of one processor in the kernel.
        sys_cpu: f64,
        /// Context switches of the job's threads.
        ctx: u64,
        /// Page faults that needed I/O.
        majf: u64,
        /// Page faults that needed none.
        minf: u64,
        /// Percent of operations by the number in flight; exceeds 100 in sum where writes are synced.
        iodepth_level: Shares,
        /// Percent of submitting calls by the number of operations.
        iodepth_submit: Shares,
        /// Percent of reaping calls by the number of operations.
        iodepth_complete: Shares,
        /// Percent of operations by latency.
        latency: LatencyShares => ["latency_ns" .ns, "latency_us" .us, "latency_ms" .ms],
        /// With `continue_on_error`: how many errors, and the first one's number.
        errors: Option<(u64, i64)> => ["total_err" ?.0, "first_error" ?.1],
        /// The queue depth in force, and the search for it.
        latency_search: Option<LatencySearch> => [
                "latency_depth" ?.depth, "latency_target" ?.target,
                "latency_percentile" ?.percentile, "latency_window" ?.window
            ],
        desc: Option<String>,
        steadystate: Option<SteadyStateTest>,
        /// Client mode: the server.
        hostname: Option<String>,
        /// Client mode: the server's port.
        port: Option<u64>,
    }
}

/// fio's search for a queue depth under a latency (`latency_target`); fio prints it always.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencySearch {
    /// The depth found, or the job's depth without a search.
    pub depth: u64,
    /// The target in ns, 0 without one.
    pub target: u64,
    /// The percentile that must meet the target.
    pub percentile: f64,
    /// The window of one test in µs.
    pub window: u64,
}

impl FioJob {
    /// The job's option, or the global one.
    pub fn option<'a>(&'a self, name: &str, global: &'a OptionPairs) -> Option<&'a str> {
        // If an option is given twice, fio takes the later one.
        let own = self.options.iter().flatten().rev();
        let mut all = own.chain(global.iter().rev());
        all.find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// True for the entry without name and group that fio prints where only some of the jobs of a
    /// group ask for `group_reporting` (it counts one entry too many in `__show_run_stats`).
    pub(super) fn is_phantom(&self) -> bool {
        self.jobname.is_empty() && matches!(self.groupid, NO_GROUP | u64::MAX)
    }

    // Where all directions are in one, fio prints it in the place of the reads.
    fn put_mixed_first(&self, printer: &mut Printer) {
        if self.read.is_none() && self.sync.is_none() {
            self.mixed.put(printer, "mixed");
        }
    }

    fn put_mixed_last(&self, printer: &mut Printer) {
        if self.read.is_some() || self.sync.is_some() {
            self.mixed.put(printer, "mixed");
        }
    }
}

object! {
    /// The result of fio's test of one criterion. The job's results cover the whole run; only the
    /// lists and means here cover the window.
    struct SteadyStateTest {
        /// The criterion, as `iops_slope:0.300000%`.
        ss: String,
        /// The window in s.
        duration: i64,
        /// Whether the job ended because it was met.
        attained: bool,
        /// The value that was tested, with `%` if it is one.
        criterion: String,
        /// The largest deviation from the mean.
        max_deviation: f64,
        /// The slope per interval of the least-squares line.
        slope: f64,
        /// The intervals of the window.
        data: SteadyStateData,
    }
}

object! {
    /// The intervals of the window.
    struct SteadyStateData {
        bw_mean: u64,
        iops_mean: u64,
        /// Latency; since fio 3.42 and with a criterion of latency.
        latency: Option<SteadyStateLatency> => ["lat_mean" ?.lat_mean, "lat_ns" ?.lat_ns],
        /// Operations per second of each interval of the window.
        iops: Vec<u64>,
        /// Bytes per second of each interval of the window.
        bw: Vec<u64>,
    }
}

/// Latency in the window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SteadyStateLatency {
    /// Mean of the window, in ns.
    pub lat_mean: u64,
    /// Per interval in ns.
    pub lat_ns: Vec<u64>,
}

/// `(percent, ns)`, ascending by percent.
pub type PercentileList = Vec<(f64, u64)>;

object! {
    /// One kind of latency of one kind of operation. All zero if nothing was measured.
    struct LatencyBlock {
        /// The smallest, in ns.
        min: u64,
        /// The largest, in ns; a percentile can exceed it, as it is the middle of a bucket.
        max: u64,
        /// The mean, in ns.
        mean: f64,
        /// In ns, of a sample (divided by N - 1).
        stddev: f64,
        /// How many were measured (`N`); `None` before fio 3.18, which does not say.
        n: Option<u64> => ["N"],
        /// Empty unless asked for and something was measured.
        percentiles: PercentileList => ["percentile"],
        /// All of the measured; empty unless in json+ and percentiles were asked for.
        bins: FioBins,
    }
    finish drop_zeros
}

impl LatencyBlock {
    /// The number of samples: fio's count, or else that of the bins.
    pub fn samples(&self) -> u64 {
        self.n.unwrap_or_else(|| self.bins.total())
    }

    /// The percentile that fio printed for exactly this percentage, in ns.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let printed = self.percentiles.iter().find(|&&(printed, _)| printed == percent);
        printed.map(|&(_, value_ns)| value_ns)
    }

    // For a latency that was not measured, fio before 3.18 prints percentiles of 0.
    fn drop_zeros(&mut self) {
        let is_of_nothing = self.samples() == 0 && self.max == 0;
        if is_of_nothing && self.percentiles.iter().all(|&(_, ns)| ns == 0) {
            self.percentiles.clear();
        }
    }
}

// Without the entries for 0 %, with which fio 3.0 fills its list.
impl Json for PercentileList {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        self.clear();
        cursor.object(|cursor, key| {
            let percent = key_number::<f64>(cursor, key)?;
            let value_ns = cursor.u64()?;
            if percent > 0.0 {
                self.push((percent, value_ns));
            }
            Ok(())
        })?;
        self.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Ok(())
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        if self.is_empty() {
            return;
        }
        printer.object(Some(key), |printer| {
            for (percent, value_ns) in self {
                printer.plain(&format!("{percent:.6}"), value_ns);
            }
        });
    }
}

impl Json for FioBins {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        *self = Self::default();
        cursor.object(|cursor, key| {
            let value_ns = key_number(cursor, key)?;
            let count = cursor.u64()?;
            let line = cursor.line();
            self.add_middle(value_ns, count)
                .map_err(|error| JsonFault::new(line, error.to_string()))
        })
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        if self.is_empty() {
            return;
        }
        printer.object(Some(key), |printer| {
            for (middle_ns, count) in self.iter() {
                printer.plain(&middle_ns.to_string(), &count);
            }
        });
    }
}

fn key_number<T: std::str::FromStr>(cursor: &mut Cursor<'_>, key: &str) -> JsonResult<T> {
    let line = cursor.line();
    key.trim().parse().map_err(|_| JsonFault::new(line, "the key is not a number"))
}

object! {
    /// The latency of operations of one I/O priority; only where there are at least two priorities.
    struct PriorityLatency {
        /// The class, 0 to 3.
        prioclass: u64,
        /// The level in the class, 0 to 7.
        prio: u64,
        /// The hint; since fio 3.36.
        priohint: Option<u64>,
        /// All of it, where the job has total latencies.
        lat_ns: Option<LatencyBlock>,
        /// Up to the completion, where it has not.
        clat_ns: Option<LatencyBlock>,
    }
}

// fio's edges within each of ns, µs and ms: a label is the first value that is above its share.
const EDGES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// Percent of operations by completion latency: below 1 µs, below 1 ms, and from 1 ms. Together they
/// are 100 %.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencyShares {
    /// By ns: `2` to `1000`.
    pub ns: Shares,
    /// By µs: `2` to `1000`.
    pub us: Shares,
    /// By ms: `2` to `2000`, then `>=2000`.
    pub ms: Shares,
}

impl LatencyShares {
    /// From `(latency in ns, count)`; all 0 if nothing was counted. The edges are those of
    /// `io_u_mark_latency` in fio's io_u.c.
    pub fn from_counts(counts: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let (mut ns, mut us, mut ms) = ([0_u128; 10], [0_u128; 10], [0_u128; 12]);
        let mut total = 0_u128;
        for (latency_ns, count) in counts {
            let (shares, value) = match latency_ns {
                0..1_000 => (ns.as_mut_slice(), latency_ns),
                1_000..1_000_000 => (us.as_mut_slice(), latency_ns / 1_000),
                _ => (ms.as_mut_slice(), latency_ns / 1_000_000),
            };
            if let Some(share) = shares.get_mut(place(value)) {
                *share += u128::from(count);
            }
            total += u128::from(count);
        }
        Self { ns: labelled(&ns, total), us: labelled(&us, total), ms: labelled(&ms, total) }
    }
}

/// Where a value belongs among the edges, then `2000`, then the rest.
fn place(value: u64) -> usize {
    let edges = EDGES.into_iter().chain([2000]);
    edges.take_while(|&edge| value >= edge).count()
}

fn labelled(counts: &[u128], total: u128) -> Shares {
    let edges = EDGES.map(|edge| edge.to_string()).into_iter();
    let labels = edges.chain(["2000".to_owned(), ">=2000".to_owned()]);
    labels.zip(counts).map(|(label, &count)| (label, percent(count, total))).collect()
}

// The least percentage that fio shows for a count above 0.
const LEAST: f64 = 0.01;

#[expect(clippy::cast_precision_loss, reason = "printed with six decimals")]
fn percent(count: u128, total: u128) -> f64 {
    if total == 0 || count == 0 { 0.0 } else { (100.0 * count as f64 / total as f64).max(LEAST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_zero(shares: &Shares) -> Vec<(&str, f64)> {
        shares
            .iter()
            .filter(|(_, percent)| *percent > 0.0)
            .map(|(at, percent)| (at.as_str(), *percent))
            .collect()
    }

    #[test]
    fn a_label_is_the_first_value_above_its_share() {
        let counts = [(1, 1), (2, 1), (999, 1), (1_999, 1), (999_999, 1), (1_999_999, 1)];
        let late = [(1_000_000_000, 1), (1_999_999_999, 1), (2_000_000_000, 1), (u64::MAX, 1)];
        let shares = LatencyShares::from_counts(counts.into_iter().chain(late));
        assert_eq!(not_zero(&shares.ns), [("2", 10.0), ("4", 10.0), ("1000", 10.0)]);
        assert_eq!(not_zero(&shares.us), [("2", 10.0), ("1000", 10.0)]);
        assert_eq!(not_zero(&shares.ms), [("2", 10.0), ("2000", 20.0), (">=2000", 20.0)]);
    }

    #[test]
    fn nothing_counted_is_all_zero_with_every_label() {
        let shares = LatencyShares::from_counts([]);
        let lengths = [shares.ns.len(), shares.us.len(), shares.ms.len()];
        assert_eq!(lengths, [10, 10, 12]);
        assert!(not_zero(&shares.ms).is_empty());
    }

    #[test]
    fn each_edge_belongs_to_the_share_above_it() {
        let edges = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];
        for (index, edge) in edges.into_iter().enumerate() {
            assert_eq!((place(edge - 1), place(edge)), (index, index + 1), "{edge}");
        }
    }

    #[test]
    fn a_share_above_nothing_is_a_hundredth_of_a_percent_at_least() {
        let shares = [percent(0, 7), percent(1, 1_000_000), percent(1, 5000), percent(7, 7)];
        assert_eq!(shares, [0.0, 0.01, 0.02, 100.0]);
        assert_eq!(percent(0, 0), 0.0);
    }

    #[test]
    fn an_option_is_the_last_of_the_jobs_own_or_else_the_last_of_all_jobs() {
        let pairs = |list: &[(&str, &str)]| -> OptionPairs {
            list.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let global = pairs(&[("bs", "1k"), ("rw", "read"), ("bs", "2k")]);
        let own = pairs(&[("rw", "write"), ("rw", "randread"), ("size", "1m")]);
        let job = FioJob { options: Some(own), ..FioJob::default() };
        let found = ["rw", "bs", "size", "iodepth"].map(|name| job.option(name, &global));
        assert_eq!(found, [Some("randread"), Some("2k"), Some("1m"), None]);
        assert_eq!(FioJob::default().option("rw", &global), Some("read"));
    }

    #[test]
    fn whole_rates_are_rounded_down_and_those_of_no_time_are_zero() {
        let of = |total_ios, runtime| {
            DirectionFigures { total_ios, runtime, ..DirectionFigures::default() }.whole_iops()
        };
        assert_eq!([of(1999, 1000), of(7, 3000), of(3, 2000), of(5, 0)], [1999, 2, 1, 0]);
    }

    #[test]
    fn a_phantom_has_neither_name_nor_group() {
        let of = |name: &str, groupid| {
            FioJob { jobname: name.to_owned(), groupid, ..FioJob::default() }.is_phantom()
        };
        assert!(of("", 0xffff_ffff) && of("", u64::MAX));
        assert!(!of("a", 0xffff_ffff) && !of("", 0) && !of("", 0xffff_fffe));
    }

    #[test]
    fn samples_are_fios_count_or_else_those_of_the_bins() {
        let bins = FioBins::from_middles([(10, 3), (20, 4)]).unwrap();
        let of = |n| LatencyBlock { n, bins: bins.clone(), ..LatencyBlock::default() }.samples();
        assert_eq!([of(None), of(Some(0)), of(Some(9))], [7, 0, 9]);
        let percentiles = vec![(50.0, 5), (99.0, 8), (99.9, 9)];
        let block = LatencyBlock { percentiles, ..LatencyBlock::default() };
        let found = [50.0, 99.0, 99.9, 95.0].map(|percent| block.percentile_ns(percent));
        assert_eq!(found, [Some(5), Some(8), Some(9), None]);
    }
}
