//! One entry of `jobs`: a job, or the jobs of a reporting group.
//!
//! In: an object of `jobs` or `client_stats`. Out: [`FioJob`]. Not here: what hides behind figures
//! (a group has the first job's name with the last one's options; see the fields).

use super::latency::{LatencyBlock, PriorityLatency};
use super::output::Options;
use super::shares::{LatencyShares, Shares};
use super::steady_state::SteadyState;
use super::table::{ToJson as _, object};
use super::write::Printer;

/// -1 in 32 bits.
const NO_GROUP: u64 = 0xffff_ffff;

/// Reads, writes, trims, or all of them together. Field names are fio's keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Direction {
    /// Bytes moved.
    pub io_bytes: u64,
    /// Bytes per second over `runtime`; from `bw` where fio (before 3.2) does not say.
    pub bw_bytes: u64,
    /// KiB per second, rounded down.
    pub bw: u64,
    /// Operations per second over `runtime`.
    pub iops: f64,
    /// In ms: the longest of the jobs of a group, syncs included.
    pub runtime: u64,
    /// Operations done.
    pub total_ios: u64,
    /// Operations that moved less than asked for. fio counts syncs among the short reads.
    pub short_ios: u64,
    /// Operations left out.
    pub drop_ios: u64,
    /// From the preparation until the submitting call returned; nothing for blocking engines.
    pub slat_ns: LatencyBlock,
    /// From then until the completion.
    pub clat_ns: LatencyBlock,
    /// All of it.
    pub lat_ns: LatencyBlock,
    /// Per I/O priority.
    pub prios: Vec<PriorityLatency>,
    /// KiB per second of the slowest sample (of 500 ms); 0 if the run was shorter than a sample.
    pub bw_min: u64,
    /// KiB per second of the fastest sample.
    pub bw_max: u64,
    /// Percent of the group's bandwidth.
    pub bw_agg: f64,
    /// KiB per second, mean of the samples of single jobs.
    pub bw_mean: f64,
    /// Standard deviation of the same.
    pub bw_dev: f64,
    /// How many samples.
    pub bw_samples: u64,
    /// Operations per second of the slowest sample.
    pub iops_min: u64,
    /// Operations per second of the fastest sample.
    pub iops_max: u64,
    /// Mean of the samples of single jobs.
    pub iops_mean: f64,
    /// Standard deviation of the same.
    pub iops_stddev: f64,
    /// How many samples.
    pub iops_samples: u64,
    /// Percent of reads that hit a cache, where the engine knows.
    pub cachehit: Option<f64>,
}

impl Direction {
    /// Operations per second as fio's texts have them: from the counts, rounded down.
    #[must_use]
    pub fn whole_iops(&self) -> u64 {
        self.total_ios.saturating_mul(1000).checked_div(self.runtime).unwrap_or(0)
    }

    /// fio before 3.2 says it in KiB alone.
    fn fill_bytes(&mut self) {
        if self.bw_bytes == 0 {
            self.bw_bytes = self.bw.saturating_mul(1024);
        }
    }

    fn put_kbytes(&self, printer: &mut Printer) {
        (self.io_bytes >> 10).put(printer, "io_kbytes");
    }

    fn put_priorities(&self, printer: &mut Printer) {
        if !self.prios.is_empty() {
            self.prios.put(printer, "prios");
        }
    }
}

object! {
    Direction {
        "io_bytes" => io_bytes then put_kbytes,
        "bw_bytes" => bw_bytes,
        "bw" => bw,
        "iops" => iops,
        "runtime" => runtime,
        "total_ios" => total_ios,
        "short_ios" => short_ios,
        "drop_ios" => drop_ios,
        "slat_ns" => slat_ns,
        "clat_ns" => clat_ns,
        "lat_ns" => lat_ns then put_priorities,
        "bw_min" => bw_min,
        "bw_max" => bw_max,
        "bw_agg" => bw_agg,
        "bw_mean" => bw_mean,
        "bw_dev" => bw_dev,
        "bw_samples" => bw_samples,
        "iops_min" => iops_min,
        "iops_max" => iops_max,
        "iops_mean" => iops_mean,
        "iops_stddev" => iops_stddev,
        "iops_samples" => iops_samples,
        "cachehit" => cachehit,
    }
    reading { "prios" => prios, }
    finish fill_bytes
}

/// fsync, fdatasync and `sync_file_range` together; they are not told apart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SyncSection {
    /// As fio says; 0 for fdatasync up to fio 3.42. `lat_ns.n` is right.
    pub total_ios: u64,
    /// Of the sync call alone.
    pub lat_ns: LatencyBlock,
}

object! {
    SyncSection {
        "total_ios" => total_ios,
        "lat_ns" => lat_ns,
    }
}

/// A job, or a reporting group. Field names are fio's keys; `Option` where fio may leave out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FioJob {
    /// The line of the file in which the job begins, from 1; 0 if it is from no file.
    pub line: u64,
    /// The name; in a reporting group that of its first job.
    pub jobname: String,
    /// The reporting group, from 0.
    pub groupid: u64,
    /// When the job began, in ms since 1970; since fio 3.36.
    pub job_start: Option<u64>,
    /// The first error's number, 0 if there was none.
    pub error: i64,
    /// Seconds that fio still expected to run.
    pub eta: Option<u64>,
    /// Seconds since fio began.
    pub elapsed: Option<u64>,
    /// The options given for it, in order; in a reporting group those of its last job. An
    /// option given bare, as `time_based`, has the value "" since fio 3.39; older ones leave it out.
    pub options: Option<Options>,
    /// Reads.
    pub read: Option<Direction>,
    /// Writes.
    pub write: Option<Direction>,
    /// Trims.
    pub trim: Option<Direction>,
    /// Syncs; since fio 3.4.
    pub sync: Option<SyncSection>,
    /// All directions together, with `unified_rw_reporting`.
    pub mixed: Option<Direction>,
    /// In ms, the sum over the jobs of a group; since fio 3.8.
    pub job_runtime: Option<u64>,
    /// Percent of one processor in user mode.
    pub usr_cpu: f64,
    /// Percent of one processor in the kernel.
    pub sys_cpu: f64,
    /// Context switches.
    pub ctx: u64,
    /// Major page faults.
    pub majf: u64,
    /// Minor page faults.
    pub minf: u64,
    /// Percent of operations by the number in flight; exceeds 100 in sum where writes are synced.
    pub iodepth_level: Shares,
    /// Percent of submitting calls by the number of operations.
    pub iodepth_submit: Shares,
    /// Percent of reaping calls by the number of operations.
    pub iodepth_complete: Shares,
    /// Percent of operations by latency.
    pub latency: LatencyShares,
    /// With `continue_on_error`: how many errors, and the first one's number.
    pub errors: Option<(u64, i64)>,
    /// The queue depth in force, and the search for it.
    pub latency_search: Option<LatencySearch>,
    /// The job's description.
    pub desc: Option<String>,
    /// With `steadystate`.
    pub steadystate: Option<SteadyState>,
    /// Client mode: the server.
    pub hostname: Option<String>,
    /// Client mode: the server's port.
    pub port: Option<u64>,
}

/// fio's search for a queue depth under a latency (`latency_target`); fio prints it always.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencySearch {
    /// The depth found, or the job's depth without a search.
    pub depth: u64,
    /// The target in ns, 0 if there is none.
    pub target: u64,
    /// The percentile that must meet the target.
    pub percentile: f64,
    /// The window of one test in µs.
    pub window: u64,
}

impl FioJob {
    /// The job's option, or the global one.
    #[must_use]
    pub fn option<'a>(&'a self, name: &str, global: &'a Options) -> Option<&'a str> {
        let own = self.options.iter().flatten().rev();
        let mut all = own.chain(global.iter().rev());
        all.find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// True for the entry without name and group that fio prints where only some of the jobs of a
    /// group ask for `group_reporting` (it counts one entry too many in `__show_run_stats`).
    pub(super) fn is_phantom(&self) -> bool {
        self.jobname.is_empty() && matches!(self.groupid, NO_GROUP | u64::MAX)
    }

    /// Where all directions are in one, fio prints it in the place of the reads.
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
    FioJob {
        "jobname" => jobname,
        "groupid" => groupid,
        "job_start" => job_start,
        "error" => error,
        "eta" => eta,
        "elapsed" => elapsed,
        "job options" => options then put_mixed_first,
        "read" => read,
        "write" => write,
        "trim" => trim,
        "sync" => sync then put_mixed_last,
        "job_runtime" => job_runtime,
        "usr_cpu" => usr_cpu,
        "sys_cpu" => sys_cpu,
        "ctx" => ctx,
        "majf" => majf,
        "minf" => minf,
        "iodepth_level" => iodepth_level,
        "iodepth_submit" => iodepth_submit,
        "iodepth_complete" => iodepth_complete,
        "latency_ns" => latency.ns,
        "latency_us" => latency.us,
        "latency_ms" => latency.ms,
        "total_err" => errors?.0,
        "first_error" => errors?.1,
        "latency_depth" => latency_search?.depth,
        "latency_target" => latency_search?.target,
        "latency_percentile" => latency_search?.percentile,
        "latency_window" => latency_search?.window,
        "desc" => desc,
        "steadystate" => steadystate,
        "hostname" => hostname,
        "port" => port,
    }
    reading { "mixed" => mixed, }
}
