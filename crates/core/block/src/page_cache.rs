//! A range of the page cache: written by sync_file_range(2), which rustix does not wrap, or dropped; and
//! whether a file's kernel and filesystem know that call and the flags of pwritev2(2).
//!
//! `durio-run` decides when, and what replaces a missing call.

use std::io;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{Advice, FileType, fadvise, fstat};
use rustix::io::{Errno, ReadWriteFlags};

use crate::{BlockError, WriteFlags};

/// Waits for writes of the range that are on their way, writes the rest, and waits for that.
pub(crate) const RANGE_SYNC_FLAGS: u32 = libc::SYNC_FILE_RANGE_WAIT_BEFORE
    | libc::SYNC_FILE_RANGE_WRITE
    | libc::SYNC_FILE_RANGE_WAIT_AFTER;

/// Syncs `length` bytes from `offset` on; a length of zero is to the end of the file.
pub(crate) fn sync_file_range(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
    call(file, offset, length, RANGE_SYNC_FLAGS)
}

fn call(file: BorrowedFd<'_>, offset: u64, length: u64, flags: u32) -> Result<(), Errno> {
    // A value beyond the kernel's range becomes negative, which it refuses.
    let (offset, length) = (offset.cast_signed(), length.cast_signed());
    let file = file.as_raw_fd();
    // Justification: no crate in use wraps the call.
    // SAFETY: the call takes four numbers and touches no memory of this process.
    let result = unsafe { libc::sync_file_range(file, offset, length, flags) };
    if result == 0 {
        return Ok(());
    }
    let errno = io::Error::last_os_error().raw_os_error();
    Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EIO)))
}

/// Hands the dirty pages of the whole file to its device and does not wait for them (SYNC_FILE_RANGE_WRITE), as
/// databases do ahead of a sync.
///
/// # Errors
/// If the kernel refuses.
pub fn start_write_back(file: impl AsFd) -> Result<(), BlockError> {
    call(file.as_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE)
        .map_err(|errno| BlockError::new("begin to write back", errno))
}

/// Says whether sync_file_range works on `file`, by a call without a flag, which syncs nothing.
///
/// # Errors
/// The reason why not: missing in the kernel, forbidden by seccomp, or no file or block device.
pub fn probe_range_sync(file: impl AsFd) -> Result<(), BlockError> {
    call(file.as_fd(), 0, 1, 0).map_err(|errno| BlockError::new("sync a range of the file", errno))
}

/// Asks the kernel to drop the clean pages of `length` bytes from `offset` on. Dirty pages of a
/// device are first written, which is waited for; those of a file stay.
///
/// # Errors
/// If the kernel refuses.
pub fn drop_cached(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), BlockError> {
    let fail = |errno| BlockError::new("drop the page cache of a pass", errno);
    let kind = FileType::from_raw_mode(fstat(file).map_err(fail)?.st_mode);
    // DONTNEED leaves dirty pages where they are (posix_fadvise(2)).
    if kind == FileType::BlockDevice {
        sync_file_range(file, offset, length).map_err(fail)?;
    }
    fadvise(file, offset, std::num::NonZeroU64::new(length), Advice::DontNeed).map_err(fail)
}

/// Beyond the end of every file and device.
const BEYOND: u64 = 1 << 62;

/// Says whether `flags` work on `file`: the same flags on a read, which does nothing with them but
/// passes the same check of what the kernel and the filesystem know. The read begins where no file
/// reaches, so nothing is read either. `file` is open for reading, without O_DIRECT.
///
/// # Errors
/// The reason why not: a kernel before 4.7, or a filesystem that takes no flags.
pub fn probe_write_flags(file: impl AsFd, flags: WriteFlags) -> Result<(), BlockError> {
    if flags == WriteFlags::None {
        return Ok(());
    }
    let flags = ReadWriteFlags::from_bits_retain(flags.bits().cast_unsigned());
    let mut byte = [0];
    match rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], BEYOND, flags) {
        // A read that fails for another reason says nothing about flags; the write will show.
        Err(errno @ (Errno::OPNOTSUPP | Errno::NOSYS)) => {
            Err(BlockError::new("write with a flag", errno))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    fn file() -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 8192]).unwrap();
        file
    }

    #[test]
    fn a_range_of_a_file_is_synced_and_one_of_a_pipe_is_refused() {
        let file = file();
        sync_file_range(file.as_fd(), 4096, 4096).unwrap();
        probe_range_sync(&file).unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        let error = probe_range_sync(&reader).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::ESPIPE));
        assert_eq!(error.to_string(), "cannot sync a range of the file");
    }

    #[test]
    fn a_range_beyond_what_the_kernel_counts_is_an_error() {
        let error = sync_file_range(file().as_fd(), u64::MAX, 4096).unwrap_err();
        assert_eq!(error, Errno::INVAL);
    }

    #[test]
    fn a_probe_of_flags_writes_nothing() {
        let mut named = tempfile::NamedTempFile::new().unwrap();
        named.write_all(b"kept").unwrap();
        for flags in [WriteFlags::None, WriteFlags::Dsync, WriteFlags::Sync] {
            probe_write_flags(named.as_file(), flags).unwrap();
        }
        assert_eq!(std::fs::read(named.path()).unwrap(), b"kept");
    }

    #[test]
    fn a_file_s_range_is_dropped_and_its_contents_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![7; 1 << 16]).unwrap();
        let file = File::open(&path).unwrap();
        drop_cached(file.as_fd(), 4096, 8192).unwrap();
        assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 7));
    }
}
