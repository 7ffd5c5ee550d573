//! One document of fio: what was run and what came of it.
//!
//! In: an object with `fio version`. Out: [`FioOutput`]. Not here: finding it in a file.

use super::cursor::{Cursor, Read};
use super::fields;
use super::job::FioJob;

/// Options in the order given; a value is text as the user wrote it.
pub type Options = Vec<(String, String)>;

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
    /// Options of all jobs; empty if there are none.
    pub global_options: Options,
    /// True if a client wrote it (`client_stats` in place of `jobs`).
    pub is_client: bool,
    /// The jobs or reporting groups, without the empty entries that fio adds to some groups.
    pub jobs: Vec<FioJob>,
    /// What the block devices did; `None` if fio was told not to look.
    pub disk_util: Option<Vec<DiskUtil>>,
}

impl FioOutput {
    /// Reads an object; `None` if it is not fio's.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Read<Option<Self>> {
        let mut output = Self::default();
        cursor.object(|cursor, key| {
            if cursor.takes_null() {
                return Ok(());
            }
            output.field(cursor, key)
        })?;
        Ok(output.is_fio().then_some(output))
    }

    fn is_fio(&self) -> bool {
        !self.version.is_empty() || self.jobs.iter().any(|job| !job.jobname.is_empty())
    }

    fn field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()> {
        match key {
            "fio version" => self.version = cursor.string()?,
            "timestamp" => self.timestamp = Some(cursor.u64()?),
            "timestamp_ms" => self.timestamp_ms = Some(cursor.u64()?),
            "time" => self.time = Some(cursor.string()?),
            "global options" => self.global_options = fields::options(cursor)?,
            "jobs" | "client_stats" => {
                self.is_client |= key == "client_stats";
                self.read_jobs(cursor)?;
            }
            "disk_util" => self.disk_util = Some(fields::list(cursor, DiskUtil::read)?),
            _ => cursor.skip_value()?,
        }
        Ok(())
    }

    fn read_jobs(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        cursor.array(|cursor| {
            let job = FioJob::read(cursor)?;
            if !job.is_phantom() {
                self.jobs.push(job);
            }
            Ok(())
        })
    }
}

/// What a block device did while fio ran, from its diskstats.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DiskUtil {
    /// The device's name.
    pub name: String,
    /// Client mode: the server.
    pub hostname: Option<String>,
    /// Client mode: the server's port.
    pub port: Option<u64>,
    /// Reads completed.
    pub read_ios: u64,
    /// Writes completed.
    pub write_ios: u64,
    /// Sectors of 512 bytes read and written; since fio 3.36.
    pub sectors: Option<(u64, u64)>,
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
    /// Percent of the time with something in flight.
    pub util: f64,
    /// Means over the member devices of a RAID or mapped device.
    pub members: Option<MembersUtil>,
}

/// Means over the members of a device (`aggr_*`), `util` is the largest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MembersUtil {
    /// Reads completed.
    pub read_ios: u64,
    /// Writes completed.
    pub write_ios: u64,
    /// Sectors of 512 bytes read and written; since fio 3.36.
    pub sectors: Option<(u64, u64)>,
    /// Reads merged into others.
    pub read_merges: u64,
    /// Writes merged into others; fio's key lacks the last letter.
    pub write_merges: u64,
    /// Time of all reads, ms.
    pub read_ticks: u64,
    /// Time of all writes, ms.
    pub write_ticks: u64,
    /// Time of all in flight, ms.
    pub in_queue: u64,
    /// Percent of the time with something in flight, of the busiest member.
    pub util: f64,
}

impl DiskUtil {
    fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        let mut disk = Self::default();
        cursor.object(|cursor, key| disk.field(cursor, key))?;
        Ok(disk)
    }

    fn field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()> {
        match key {
            "name" => self.name = cursor.string()?,
            "hostname" => self.hostname = Some(cursor.string()?),
            "port" => self.port = Some(cursor.u64()?),
            "read_ios" => self.read_ios = cursor.u64()?,
            "write_ios" => self.write_ios = cursor.u64()?,
            "read_sectors" => self.sectors.get_or_insert_default().0 = cursor.u64()?,
            "write_sectors" => self.sectors.get_or_insert_default().1 = cursor.u64()?,
            "read_merges" => self.read_merges = cursor.u64()?,
            "write_merges" => self.write_merges = cursor.u64()?,
            "read_ticks" => self.read_ticks = cursor.u64()?,
            "write_ticks" => self.write_ticks = cursor.u64()?,
            "in_queue" => self.in_queue = cursor.u64()?,
            "util" => self.util = cursor.f64()?,
            _ => match key.strip_prefix("aggr_") {
                Some(key) => self.members.get_or_insert_default().field(cursor, key)?,
                None => cursor.skip_value()?,
            },
        }
        Ok(())
    }
}

impl MembersUtil {
    fn field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()> {
        match key {
            "read_ios" => self.read_ios = cursor.u64()?,
            "write_ios" => self.write_ios = cursor.u64()?,
            "read_sectors" => self.sectors.get_or_insert_default().0 = cursor.u64()?,
            "write_sectors" => self.sectors.get_or_insert_default().1 = cursor.u64()?,
            "read_merges" => self.read_merges = cursor.u64()?,
            "write_merge" | "write_merges" => self.write_merges = cursor.u64()?,
            "read_ticks" => self.read_ticks = cursor.u64()?,
            "write_ticks" => self.write_ticks = cursor.u64()?,
            "in_queue" => self.in_queue = cursor.u64()?,
            "util" => self.util = cursor.f64()?,
            _ => cursor.skip_value()?,
        }
        Ok(())
    }
}
