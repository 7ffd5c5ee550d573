//! One entry of `jobs`: a job, or the jobs of a reporting group.
//!
//! Reads an object of `jobs` or `client_stats` into a [`FioJob`]. A group has the first job's name
//! with the last one's options; see the fields.

use super::latency::{LatencyBlock, LatencyShares, PriorityLatency, Shares};
use super::output::OptionPairs;
use super::table::{Json as _, object};
use super::write::Printer;

/// -1 in 32 bits.
const NO_GROUP: u64 = 0xffff_ffff;

object! {
    /// Reads, writes, trims, or all of them together. Field names are fio's keys.
    struct DirectionFigures {
        /// Bytes moved.
        io_bytes: u64 => ["io_bytes", put put_kbytes],
        /// Bytes per second over `runtime`; from `bw` where fio (before 3.2) does not say.
        bw_bytes: u64,
        /// KiB per second, rounded down.
        bw: u64,
        /// Operations per second over `runtime`.
        iops: f64,
        /// In ms: the longest of the jobs of a group, syncs included.
        runtime: u64,
        /// Operations done.
        total_ios: u64,
        /// Operations that moved less than asked for. fio counts syncs among the short reads.
        short_ios: u64,
        /// Operations left out.
        drop_ios: u64,
        /// From the preparation until the submitting call returned; nothing for blocking engines.
        slat_ns: LatencyBlock,
        /// From then until the completion.
        clat_ns: LatencyBlock,
        lat_ns: LatencyBlock,
        /// Per I/O priority.
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
    #[must_use]
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
        /// Context switches.
        ctx: u64,
        /// Major page faults.
        majf: u64,
        /// Minor page faults.
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
        /// The job's description.
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
    #[must_use]
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
        /// The window.
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
    /// Mean in ns.
    pub lat_mean: u64,
    /// Per interval in ns.
    pub lat_ns: Vec<u64>,
}
