//! A log of writes in the format of the kernel's dm-log-writes, which `replay-log` reads.
//!
//! Converts writes and flushes to the log's bytes, and such bytes to entries; [`crate::Logger`]
//! determines the order.
//!
//! The format (Documentation/admin-guide/device-mapper/log-writes.rst, drivers/md/dm-log-writes.c):
//! a superblock in the first sector, then for each entry a sector with its head and the data,
//! padded to sectors. All numbers are little-endian. A sector of the log is a logical block of the
//! device, whose size is in the superblock; places and lengths count such sectors.

use std::borrow::Cow;

use crate::image::SECTOR;

/// `WRITE_LOG_MAGIC`.
const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// Bytes of the head of an entry; the data of a mark follows it in the same sector.
const HEAD: usize = 32;
/// Bytes of a mark's name in a log that durio writes: a sector, less the head and the zero at the end,
/// which `replay-log` looks for.
pub const MARK_MAX: usize = SECTOR - HEAD - 1;
const KNOWN_FLAGS: u64 = FLUSH | FUA | DISCARD | MARK | METADATA;
/// More data than a bio has; a log with more is damaged.
const DATA_MAX: u64 = 1 << 30;
/// Limit for the size of logical blocks.
const BLOCK_MAX: usize = 64 << 10;

/// The mark that the kernel makes when it ends a log; so does durio.
pub const END_MARK: &str = "dm-log-writes-end";
/// The mark of a power cut. The disk's surviving writes follow as writes with FUA.
pub const CUT_MARK: &str = "durio-cut";

/// A flush comes before the data.
pub const FLUSH: u64 = 1;
/// The write was durable when it ended.
pub const FUA: u64 = 2;
/// A discard of sectors; the entry has no data.
pub const DISCARD: u64 = 4;
/// A mark; its data is a name.
pub const MARK: u64 = 8;
/// The write was metadata.
pub const METADATA: u64 = 16;

/// One entry of a log. Its sectors have 512 bytes, whatever the log's block size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteLogEntry {
    pub sector: u64,
    pub sectors: u64,
    /// [`FLUSH`], [`FUA`], [`DISCARD`], [`MARK`], [`METADATA`].
    pub flags: u64,
    /// The written data, or a mark's name.
    pub data: Vec<u8>,
}

/// The superblock of a log with this many entries.
#[must_use]
pub fn superblock(entries: u64) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    sector[..8].copy_from_slice(&MAGIC.to_le_bytes());
    sector[8..16].copy_from_slice(&VERSION.to_le_bytes());
    sector[16..24].copy_from_slice(&entries.to_le_bytes());
    sector[24..28].copy_from_slice(&512_u32.to_le_bytes());
    sector
}

impl WriteLogEntry {
    /// A write, or a flush if `data` is empty.
    #[must_use]
    pub fn write(sector: u64, flags: u64, data: &[u8]) -> Self {
        Self { sector, sectors: (data.len() / SECTOR) as u64, flags, data: data.to_vec() }
    }

    #[must_use]
    pub fn mark(name: &str) -> Self {
        Self { sector: 0, sectors: 0, flags: MARK, data: name.as_bytes().to_vec() }
    }

    /// The name of a mark, up to a zero.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        let name = self.data.split(|&byte| byte == 0).next();
        String::from_utf8_lossy(name.unwrap_or_default())
    }

    /// Rounded up to whole sectors of the log.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SECTOR + self.data.len());
        for field in [self.sector, self.sectors, self.flags, self.data_length()] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        if self.flags & MARK != 0 {
            bytes.extend_from_slice(&self.data[..self.data.len().min(MARK_MAX)]);
            bytes.resize(SECTOR, 0);
        } else {
            bytes.resize(SECTOR, 0);
            bytes.extend_from_slice(&self.data);
            bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
        }
        bytes
    }

    /// The length in the head: only marks have it, other entries count sectors.
    fn data_length(&self) -> u64 {
        if self.flags & MARK == 0 { 0 } else { self.data.len().min(MARK_MAX) as u64 }
    }
}

/// The entries of a log.
///
/// # Errors
/// If the bytes are not a log, or a damaged one. The entries before the damage are discarded too: a
/// log that ends early belongs to another run.
pub fn parse(bytes: &[u8]) -> Result<Vec<WriteLogEntry>, String> {
    let not_a_log = |why: &str| format!("not a log of dm-log-writes: {why}");
    let head = bytes.get(..SECTOR).ok_or_else(|| not_a_log("it is shorter than a sector"))?;
    if field(head, 0) != MAGIC {
        return Err(not_a_log("it does not start with their number"));
    }
    if field(head, 1) != VERSION {
        return Err(not_a_log("its version is not 1"));
    }
    // 4 bytes; the kernel leaves bytes from its stack after them.
    let block = usize::try_from(field(head, 3) & u64::from(u32::MAX)).unwrap_or(usize::MAX);
    if !block.is_power_of_two() || !(SECTOR..=BLOCK_MAX).contains(&block) {
        return Err(not_a_log("invalid sector size"));
    }
    let mut rest = bytes.get(block..).ok_or_else(|| not_a_log("it ends in its first sector"))?;
    let mut entries = Vec::new();
    for number in 0..field(head, 2) {
        let damaged = |why: &str| format!("entry {number} of the log is damaged: {why}");
        let (entry, length) = parse_entry(rest, block).map_err(damaged)?;
        entries.push(entry);
        rest = &rest[length..];
    }
    Ok(entries)
}

/// Parses an entry of a log whose sectors have `block` bytes; returns it and its length.
fn parse_entry(bytes: &[u8], block: usize) -> Result<(WriteLogEntry, usize), &'static str> {
    let head = bytes.get(..block).ok_or("the log ends before it")?;
    let [sector, sectors, flags, length] = [0, 1, 2, 3].map(|at| field(head, at));
    if flags & !KNOWN_FLAGS != 0 {
        return Err("an unknown flag");
    }
    if flags & MARK != 0 {
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(block - HEAD);
        let data = head[HEAD..HEAD + length].to_vec();
        return Ok((WriteLogEntry { sector: 0, sectors: 0, flags, data }, block));
    }
    // No device has more bytes than a file may have.
    let end = sector.checked_add(sectors).and_then(|bytes| bytes.checked_mul(block as u64));
    end.filter(|&end| i64::try_from(end).is_ok()).ok_or("beyond the end of any device")?;
    let data = if flags & DISCARD != 0 { 0 } else { sectors * block as u64 };
    let length = usize::try_from(data).ok().filter(|_| data <= DATA_MAX);
    let end = block + length.ok_or("too many sectors")?;
    let data = bytes.get(block..end).ok_or("the log ends within its data")?;
    let [sector, sectors] = [sector, sectors].map(|count| count * (block / SECTOR) as u64);
    Ok((WriteLogEntry { sector, sectors, flags, data: data.to_vec() }, end))
}

fn field(head: &[u8], number: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[number * 8..number * 8 + 8]);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Image, Recording};

    fn log(entries: &[WriteLogEntry]) -> Vec<u8> {
        let mut bytes = superblock(entries.len() as u64).to_vec();
        entries.iter().for_each(|entry| bytes.extend(entry.to_bytes()));
        bytes
    }

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let entries = [
            WriteLogEntry::write(8, FUA, &[7; 1024]),
            WriteLogEntry::write(0, FLUSH, &[]),
            WriteLogEntry::mark("commit 1"),
            WriteLogEntry { sector: 4, sectors: 1 << 40, flags: DISCARD, data: Vec::new() },
        ];
        assert_eq!(parse(&log(&entries)).unwrap(), entries);
    }

    #[test]
    fn a_log_that_ends_early_says_where() {
        let bytes = log(&[WriteLogEntry::mark("a"), WriteLogEntry::write(8, 0, &[7; 1024])]);
        let error = parse(&bytes[..bytes.len() - 1]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "entry 1 of the log is damaged: the log ends within its data"
        );
    }

    #[test]
    fn a_log_of_a_device_with_large_blocks_counts_in_them() {
        let mut bytes = vec![0; 4096];
        bytes[..SECTOR].copy_from_slice(&superblock(2));
        bytes[24..28].copy_from_slice(&4096_u32.to_le_bytes());
        for head in [[3, 2, FUA, 0], [0, 0, MARK, 700]] {
            let fields: Vec<u8> = head.iter().flat_map(|field| field.to_le_bytes()).collect();
            bytes.extend(&fields);
            bytes.extend([b'x'; 4096 - HEAD]);
            let data = usize::try_from(head[1]).unwrap() * 4096;
            bytes.resize(bytes.len() + data, 7);
        }
        let name = "x".repeat(700);
        let expected = [WriteLogEntry::write(24, FUA, &[7; 8192]), WriteLogEntry::mark(&name)];
        assert_eq!(parse(&bytes).unwrap(), expected);
    }

    #[test]
    fn an_entry_beyond_any_device_is_damage() {
        let entry =
            WriteLogEntry { sector: u64::MAX, sectors: 2, flags: DISCARD, data: Vec::new() };
        let error = parse(&log(&[entry])).unwrap_err();
        assert!(error.to_string().contains("beyond the end"), "{error}");
    }

    #[test]
    fn a_head_that_no_log_has_is_refused_with_the_reason() {
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = log(&[WriteLogEntry::mark("a")]);
            change(&mut bytes);
            parse(&bytes).unwrap_err().to_string()
        };
        let not_a_log = "not a log of dm-log-writes: ";
        let word = |at: usize, value: u32| {
            move |bytes: &mut Vec<u8>| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes())
        };
        assert_eq!(refused(&word(0, 1)), format!("{not_a_log}it does not start with their number"));
        assert_eq!(refused(&word(8, 2)), format!("{not_a_log}its version is not 1"));
        for size in [0, 256, 513, 131_072] {
            let said = refused(&word(24, size));
            assert_eq!(said, format!("{not_a_log}invalid sector size"));
        }
        let short = refused(&|bytes| bytes.truncate(SECTOR - 1));
        assert_eq!(short, format!("{not_a_log}it is shorter than a sector"));
        let damaged = "entry 0 of the log is damaged: ";
        assert_eq!(
            refused(&|bytes| bytes.truncate(SECTOR)),
            format!("{damaged}the log ends before it")
        );
        // The flags of the entry: one beyond the known five.
        assert_eq!(refused(&word(SECTOR + 16, 32)), format!("{damaged}an unknown flag"));
        let gibibyte = |bytes: &mut Vec<u8>| {
            bytes[SECTOR + 8..SECTOR + 24].fill(0);
            bytes[SECTOR + 8..SECTOR + 16].copy_from_slice(&((1_u64 << 21) + 1).to_le_bytes());
        };
        assert_eq!(refused(&gibibyte), format!("{damaged}too many sectors"));
        // What the superblock counts is there.
        assert!(refused(&word(16, 2)).starts_with("entry 1 of the log is damaged"));
    }

    #[test]
    fn the_name_of_a_mark_is_cut_where_its_sector_ends() {
        for (length, kept) in [(0, 0), (1, 1), (478, 478), (479, 479), (480, 479), (9000, 479)] {
            let bytes = log(&[WriteLogEntry::mark(&"m".repeat(length))]);
            assert_eq!(bytes.len(), 1024);
            let entries = parse(&bytes).unwrap();
            assert_eq!((entries[0].name().len(), bytes[1023]), (kept, 0), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_log_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..2000), entries in any::<u64>()) {
            let _ = parse(&bytes);
            if bytes.len() >= SECTOR {
                bytes[..SECTOR].copy_from_slice(&superblock(entries));
                // Whatever is read can be replayed.
                let _ = parse(&bytes).map(|entries| Recording::from_log(Image::default(), &entries));
            }
        }
    }
}
