//! fio's JSON and json+ output, read and written; and one document of it: the jobs it ran and their
//! results.
//!
//! Reads the bytes of a file that fio 3.0 or later wrote with `--output-format=json` or `json+`,
//! with all that surrounds and repeats the documents in practice, into a [`FioFile`] with the last
//! complete result, a [`FioOutput`]: `files` finds it. [`write()`] turns a result into the same JSON,
//! json+ byte for byte as fio 3.33 prints it, except where that would not be JSON: control characters
//! are escaped, counts above i64 stay positive, `nan` and `inf` become 0. Keys that fio 3.33 lacks are
//! written only if the result has them.
//!
//! Accepted without complaint, because fio does it: text before, between and after documents;
//! several documents (`--status-interval`: the last complete one of a run counts; `>> FILE`: runs
//! before the last); `client_stats` instead of `jobs`; missing sections and keys; repeated keys;
//! `nan` and `inf`; unsigned numbers printed as negative ones; control characters and broken UTF-8
//! in strings; numbers as strings. Keys that are not listed in the types are skipped.

mod cursor;
mod files;
mod job;
mod table;

pub use files::{FioFile, MAX_BYTES, read, read_file};
pub use job::{
    DirectionFigures, FioJob, LatencyBlock, LatencySearch, LatencyShares, PercentileList,
    PriorityLatency, SteadyStateData, SteadyStateLatency, SteadyStateTest, SyncSection,
};
pub use table::{OptionPairs, Shares};

use cursor::{Cursor, JsonResult};
use table::{Json as _, Object, Printer, object};

/// A result of fio. Field names are fio's keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FioOutput {
    /// As fio names itself: `fio-3.33`.
    pub version: String,
    /// When it was written, in s since 1970.
    pub timestamp: Option<u64>,
    /// The same in ms; missing in client mode.
    pub timestamp_ms: Option<u64>,
    /// The same as text.
    pub time: Option<String>,
    /// Options of all jobs; may be empty.
    pub global_options: OptionPairs,
    /// True if a client wrote it (`client_stats` in place of `jobs`).
    pub is_client: bool,
    /// The jobs or reporting groups, without the empty entries that fio adds to some groups.
    pub jobs: Vec<FioJob>,
    /// The counters of the block devices; `None` if fio was asked to leave them out.
    pub disk_util: Option<Vec<DiskUtil>>,
}

impl FioOutput {
    /// Reads an object; `None` if it is not fio's.
    fn read_fio(cursor: &mut Cursor<'_>) -> JsonResult<Option<Self>> {
        let output = Self::read(cursor)?;
        // A document whose keys were sorted may lack the version before its jobs; one without both
        // is not fio's.
        let is_fio =
            !output.version.is_empty() || output.jobs.iter().any(|job| !job.jobname.is_empty());
        Ok(is_fio.then_some(output))
    }

    fn read_jobs(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        cursor.array(|cursor| {
            let line = cursor.line();
            let job = FioJob { line, ..FioJob::read(cursor)? };
            if !job.is_phantom() {
                self.jobs.push(job);
            }
            Ok(())
        })
    }
}

impl Object for FioOutput {
    fn field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> JsonResult<()> {
        match key {
            "fio version" => self.version.load(cursor),
            "timestamp" => self.timestamp.load(cursor),
            "timestamp_ms" => self.timestamp_ms.load(cursor),
            "time" => self.time.load(cursor),
            "global options" => self.global_options.load(cursor),
            "jobs" | "client_stats" => {
                self.is_client |= key == "client_stats";
                self.read_jobs(cursor)
            }
            "disk_util" => self.disk_util.load(cursor),
            _ => cursor.skip_value(),
        }
    }

    fn fields(&self, printer: &mut Printer) {
        self.version.put(printer, "fio version");
        self.timestamp.put(printer, "timestamp");
        self.timestamp_ms.put(printer, "timestamp_ms");
        self.time.put(printer, "time");
        // A client prints the key even without options.
        if !self.global_options.is_empty() || self.is_client {
            self.global_options.put(printer, "global options");
        }
        self.jobs.put(printer, if self.is_client { "client_stats" } else { "jobs" });
        self.disk_util.put(printer, "disk_util");
    }
}

/// The document as text, with a final new line. Keys of `None` values are left out.
pub fn write(output: &FioOutput) -> String {
    let mut printer = Printer::default();
    printer.object(None, |printer| output.fields(printer));
    printer.finish()
}

/// What a block device did while fio ran, or the means of its members.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DiskCounters {
    /// Reads that were completed.
    pub read_ios: u64,
    /// Writes that were completed.
    pub write_ios: u64,
    /// Sectors of 512 bytes read; since fio 3.36.
    pub read_sectors: Option<u64>,
    /// Sectors of 512 bytes written; since fio 3.36.
    pub write_sectors: Option<u64>,
    /// Reads merged into others.
    pub read_merges: u64,
    /// Writes merged into others.
    pub write_merges: u64,
    /// Time of all reads, ms.
    pub read_ticks: u64,
    /// Time of all writes, ms.
    pub write_ticks: u64,
    /// Time of all in flight, ms.
    pub in_queue: u64,
    /// Percent of the time with something in flight; of members that of the busiest.
    pub util: f64,
}

object! {
    /// A block device, from its diskstats.
    struct DiskUtil {
        name: String,
        /// What it did itself.
        own: DiskCounters => [
            "read_ios" .read_ios, "write_ios" .write_ios,
            "read_sectors" .read_sectors, "write_sectors" .write_sectors,
            "read_merges" .read_merges, "write_merges" .write_merges,
            "read_ticks" .read_ticks, "write_ticks" .write_ticks,
            "in_queue" .in_queue, "util" .util
        ],
        /// Means over the member devices of a RAID or mapped device (`aggr_*`).
        // fio's own key of merged writes lacks its last letter.
        members: Option<DiskCounters> => [
            "aggr_read_ios" ?.read_ios, "aggr_write_ios" ?.write_ios,
            "aggr_read_sectors" ?.read_sectors, "aggr_write_sectors" ?.write_sectors,
            "aggr_read_merges" ?.read_merges, "aggr_write_merge" ?.write_merges,
            "aggr_read_ticks" ?.read_ticks, "aggr_write_ticks" ?.write_ticks,
            "aggr_in_queue" ?.in_queue, "aggr_util" ?.util, read "aggr_write_merges" ?.write_merges
        ],
        /// Client mode: the server.
        hostname: Option<String>,
        /// Client mode: the server's port.
        port: Option<u64>,
    }
}

#[cfg(test)]
mod tests;
