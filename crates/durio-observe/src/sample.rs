//! A look at both ends of a device, for reading only.
//!
//! In: a path. Out: a [`Sample`] of bytes, and whether somebody holds the device.
//! Not here: what the bytes mean.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Holds the first label of ZFS, the longest of all that stand at the beginning.
const HEAD_LEN: u64 = 256 << 10;

/// Holds the last two labels of ZFS (2 × 256 KiB), which end at a multiple of 256 KiB.
const TAIL_LEN: u64 = 768 << 10;

/// The first and the last bytes of a device or partition.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sample {
    pub(crate) size: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Sample {
    /// The `len` bytes at `offset`, if they were read.
    pub(crate) fn at(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let tail_start = self.size - self.tail.len() as u64;
        let within = |bytes, start| slice_at(bytes, offset.checked_sub(start)?, len);
        within(&self.head, 0).or_else(|| within(&self.tail, tail_start))
    }

    pub(crate) fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.at(offset, magic.len()) == Some(magic)
    }

    pub(crate) fn u32_le(&self, offset: u64) -> Option<u32> {
        let bytes = self.at(offset, 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    #[cfg(test)]
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let head = bytes[..bytes.len().min(256 << 10)].to_vec();
        let tail = bytes[bytes.len().saturating_sub(768 << 10)..].to_vec();
        Self { size: bytes.len() as u64, head, tail }
    }
}

fn slice_at(bytes: &[u8], start: u64, len: usize) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..start.checked_add(len)?)
}

/// The size of an opened device or file.
pub(crate) fn size_of_file(file: &mut File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Reads both ends of the `size` bytes that begin at `start`.
pub(crate) fn read_sample(file: &File, start: u64, size: u64) -> io::Result<Sample> {
    // On a small device both pieces overlap, or are all of it.
    let tail_len = size.min(TAIL_LEN);
    let head = read_at(file, start, size.min(HEAD_LEN))?;
    let tail = read_at(file, start + (size - tail_len), tail_len)?;
    Ok(Sample { size, head, tail })
}

fn read_at(file: &File, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// True if the kernel says that a filesystem, an array or a program holds the device for itself,
/// whatever namespace it is in.
///
/// Opening a block device for reading with O_EXCL asks exactly this; it is let go at once.
pub(crate) fn is_claimed(device: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    matches!(rustix::fs::open(device, flags, Mode::empty()), Err(Errno::BUSY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_read_by_their_place_on_the_device() {
        let mut bytes = vec![0_u8; 2 << 20];
        bytes[5] = 7;
        let last = bytes.len() - 1;
        bytes[last] = 9;
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &bytes).unwrap();
        let size = size_of_file(&mut file).unwrap();
        let sample = read_sample(&file, 0, size).unwrap();
        assert_eq!(sample, Sample::of_bytes(&bytes));
        assert!(sample.has(5, &[7]) && sample.has(last as u64, &[9]));
        assert_eq!(sample.at(1 << 20, 1), None);
        assert_eq!(sample.at(u64::MAX, 1), None);
        assert_eq!(sample.at(last as u64, 2), None);
    }

    #[test]
    fn a_part_is_read_from_its_start() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &[1, 2, 3, 4, 5]).unwrap();
        let sample = read_sample(&file, 2, 2).unwrap();
        assert_eq!(sample.at(0, 2), Some(&[3, 4][..]));
        assert!(read_sample(&file, 2, 9).is_err());
    }
}
