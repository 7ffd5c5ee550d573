//! Writes a disk's events into a log, in the order of dm-log-writes.
//!
//! Takes events, and a seekable file or memory for the log.
//!
//! The order: a write enters the log when the next flush that covers it ends, ordered by the ends
//! of the writes; one with FUA when it ends; discards like writes. So everything before a flush in
//! the log was durable after it. The superblock's count of entries is updated after each batch of
//! events, so an unfinished log can be read.

use std::io::{self, Seek, SeekFrom};

use super::{DISCARD, FLUSH, FUA, WriteLogEntry, superblock};
use crate::image::SECTOR;
use crate::recording::{DiskEvent, Unflushed, Write};

/// The mark that the kernel makes when it ends a log; so does durio.
pub const END_MARK: &str = "dm-log-writes-end";
/// The mark of a power cut. The disk's surviving writes follow as writes with FUA.
pub const CUT_MARK: &str = "durio-cut";
/// replay-log skips more zeros than this at once when it replays into a file.
const DISCARD_MAX: u64 = (128 << 20) / SECTOR as u64;

/// A log that grows.
#[derive(Debug)]
pub struct Logger<W: io::Write + Seek> {
    out: W,
    unflushed: Unflushed,
    entries: u64,
    counted: u64,
}

impl<W: io::Write + Seek> Logger<W> {
    /// A log without entries.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&superblock(0))?;
        Ok(Self { out, unflushed: Unflushed::default(), entries: 0, counted: 0 })
    }

    /// Takes the next events.
    ///
    /// # Errors
    /// If the log cannot be written. Then it is damaged beyond the entries that the superblock
    /// counts.
    pub fn take(&mut self, events: &[DiskEvent]) -> io::Result<()> {
        for event in events {
            self.take_event(event)?;
        }
        self.count()
    }

    /// Finishes the log: completed but unflushed writes come last, then a mark.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        for write in self.unflushed.take_ended() {
            self.add_write(&write, 0)?;
        }
        self.add(&WriteLogEntry::mark(END_MARK))?;
        self.count()?;
        Ok(self.out)
    }

    fn take_event(&mut self, event: &DiskEvent) -> io::Result<()> {
        let flags = if matches!(event, DiskEvent::Ended { .. }) { FUA } else { 0 };
        for write in self.unflushed.take(event) {
            self.add_write(&write, flags)?;
        }
        match event {
            DiskEvent::Flushed { .. } => self.add(&WriteLogEntry::write(0, FLUSH, &[])),
            DiskEvent::Mark(name) => self.add(&WriteLogEntry::mark(name)),
            DiskEvent::Cut => self.add(&WriteLogEntry::mark(CUT_MARK)),
            DiskEvent::Begun(_) | DiskEvent::Ended { .. } => Ok(()),
        }
    }

    fn add_write(&mut self, write: &Write, flags: u64) -> io::Result<()> {
        entries_of(write, flags).iter().try_for_each(|entry| self.add(entry))
    }

    fn add(&mut self, entry: &WriteLogEntry) -> io::Result<()> {
        self.entries += 1;
        self.out.write_all(&entry.to_bytes())
    }

    fn count(&mut self) -> io::Result<()> {
        if self.counted == self.entries {
            return Ok(());
        }
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&superblock(self.entries))?;
        self.out.seek(SeekFrom::End(0))?;
        self.out.flush()?;
        self.counted = self.entries;
        Ok(())
    }
}

/// One entry for all sectors that follow each other: as a rule one for the write.
fn entries_of(write: &Write, flags: u64) -> Vec<WriteLogEntry> {
    let mut entries: Vec<WriteLogEntry> = Vec::new();
    for (sector, bytes) in write.sectors() {
        let kind = if bytes.is_some() { 0 } else { DISCARD };
        let data = bytes.unwrap_or_default();
        match entries.last_mut() {
            Some(last)
                if last.sector + last.sectors == sector
                    && last.flags & DISCARD == kind
                    && last.sectors < DISCARD_MAX =>
            {
                last.sectors += 1;
                last.data.extend_from_slice(data);
            }
            _ => {
                let entry =
                    WriteLogEntry { sector, sectors: 1, flags: flags | kind, data: data.to_vec() };
                entries.push(entry);
            }
        }
    }
    entries
}
