//! One entry of `jobs`: a job, or the jobs of a reporting group.
//!
//! In: an object of `jobs` or `client_stats`. Out: [`FioJob`]. Not here: what hides behind figures
//! (a group has the first job's name with the last one's options; see the fields).

use super::cursor::{Cursor, Read};
use super::fields;
use super::latency::{LatencyBlock, PriorityLatency};
use super::output::Options;
use super::shares::{LatencyShares, Shares};
use super::steady_state::SteadyState;

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

    pub(super) fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        let mut direction = Self::default();
        let mut has_bytes = false;
        cursor.object(|cursor, key| {
            has_bytes |= key == "bw_bytes";
            direction.field(cursor, key)
        })?;
        if !has_bytes {
            direction.bw_bytes = direction.bw.saturating_mul(1024);
        }
        Ok(direction)
    }

    fn field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()> {
        match key {
            "io_bytes" => self.io_bytes = cursor.u64()?,
            "bw_bytes" => self.bw_bytes = cursor.u64()?,
            "bw" => self.bw = cursor.u64()?,
            "iops" => self.iops = cursor.f64()?,
            "runtime" => self.runtime = cursor.u64()?,
            "total_ios" => self.total_ios = cursor.u64()?,
            "short_ios" => self.short_ios = cursor.u64()?,
            "drop_ios" => self.drop_ios = cursor.u64()?,
            "slat_ns" => self.slat_ns = LatencyBlock::read(cursor)?,
            "clat_ns" => self.clat_ns = LatencyBlock::read(cursor)?,
            "lat_ns" => self.lat_ns = LatencyBlock::read(cursor)?,
            "prios" => self.prios = fields::list(cursor, PriorityLatency::read)?,
            "cachehit" => self.cachehit = Some(cursor.f64()?),
            _ => return self.sample_field(cursor, key),
        }
        Ok(())
    }

    fn sample_field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()> {
        match key {
            "bw_min" => self.bw_min = cursor.u64()?,
            "bw_max" => self.bw_max = cursor.u64()?,
            "bw_agg" => self.bw_agg = cursor.f64()?,
            "bw_mean" => self.bw_mean = cursor.f64()?,
            "bw_dev" => self.bw_dev = cursor.f64()?,
            "bw_samples" => self.bw_samples = cursor.u64()?,
            "iops_min" => self.iops_min = cursor.u64()?,
            "iops_max" => self.iops_max = cursor.u64()?,
            "iops_mean" => self.iops_mean = cursor.f64()?,
            "iops_stddev" => self.iops_stddev = cursor.f64()?,
            "iops_samples" => self.iops_samples = cursor.u64()?,
            _ => cursor.skip_value()?,
        }
        Ok(())
    }
}

/// fsync, fdatasync and `sync_file_range` together; they are not told apart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SyncSection {
    /// As fio says; 0 for fdatasync up to fio 3.42. `lat_ns.n` is right.
    pub total_ios: u64,
    /// Of the sync call alone.
    pub lat_ns: LatencyBlock,
}

impl SyncSection {
    fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        let mut section = Self::default();
        cursor.object(|cursor, key| {
            match key {
                "total_ios" => section.total_ios = cursor.u64()?,
                "lat_ns" => section.lat_ns = LatencyBlock::read(cursor)?,
                _ => cursor.skip_value()?,
            }
            Ok(())
        })?;
        Ok(section)
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

    pub(super) fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        let mut job = Self { line: cursor.line(), ..Self::default() };
        cursor.object(|cursor, key| {
            if cursor.takes_null() {
                return Ok(());
            }
            job.field(cursor, key)
        })?;
        Ok(job)
    }

    fn field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()> {
        match key {
            "jobname" => self.jobname = cursor.string()?,
            "groupid" => self.groupid = cursor.u64()?,
            "job_start" => self.job_start = Some(cursor.u64()?),
            "error" => self.error = cursor.i64()?,
            "eta" => self.eta = Some(cursor.u64()?),
            "elapsed" => self.elapsed = Some(cursor.u64()?),
            "job options" => self.options = Some(fields::options(cursor)?),
            "read" => self.read = Some(Direction::read(cursor)?),
            "write" => self.write = Some(Direction::read(cursor)?),
            "trim" => self.trim = Some(Direction::read(cursor)?),
            "mixed" => self.mixed = Some(Direction::read(cursor)?),
            "sync" => self.sync = Some(SyncSection::read(cursor)?),
            "desc" => self.desc = Some(cursor.string()?),
            "steadystate" => self.steadystate = Some(SteadyState::read(cursor)?),
            "hostname" => self.hostname = Some(cursor.string()?),
            "port" => self.port = Some(cursor.u64()?),
            _ => return self.machine_field(cursor, key),
        }
        Ok(())
    }

    fn machine_field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()> {
        match key {
            "job_runtime" => self.job_runtime = Some(cursor.u64()?),
            "usr_cpu" => self.usr_cpu = cursor.f64()?,
            "sys_cpu" => self.sys_cpu = cursor.f64()?,
            "ctx" => self.ctx = cursor.u64()?,
            "majf" => self.majf = cursor.u64()?,
            "minf" => self.minf = cursor.u64()?,
            "iodepth_level" => self.iodepth_level = fields::shares(cursor)?,
            "iodepth_submit" => self.iodepth_submit = fields::shares(cursor)?,
            "iodepth_complete" => self.iodepth_complete = fields::shares(cursor)?,
            "latency_ns" => self.latency.ns = fields::shares(cursor)?,
            "latency_us" => self.latency.us = fields::shares(cursor)?,
            "latency_ms" => self.latency.ms = fields::shares(cursor)?,
            "total_err" => self.errors.get_or_insert_default().0 = cursor.u64()?,
            "first_error" => self.errors.get_or_insert_default().1 = cursor.i64()?,
            _ => return self.search_field(cursor, key),
        }
        Ok(())
    }

    fn search_field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()> {
        let search = match key {
            "latency_depth" | "latency_target" | "latency_percentile" | "latency_window" => {
                self.latency_search.get_or_insert_default()
            }
            _ => return cursor.skip_value(),
        };
        match key {
            "latency_depth" => search.depth = cursor.u64()?,
            "latency_target" => search.target = cursor.u64()?,
            "latency_percentile" => search.percentile = cursor.f64()?,
            _ => search.window = cursor.u64()?,
        }
        Ok(())
    }
}
