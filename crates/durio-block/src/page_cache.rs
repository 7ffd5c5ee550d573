//! Dropping what the page cache holds of a file.
//!
//! In: an open file or device, a range. Out: nothing, or the kernel's refusal. Not here: when.

use std::os::fd::BorrowedFd;

use rustix::fs::{Advice, FileType, fadvise, fstat};

use crate::BlockError;
use crate::sync_range::sync_file_range;

/// Asks the kernel to drop the clean pages of `length` bytes from `offset` on. What is dirty is
/// written first on a device, which waits for it; of a file it stays.
///
/// # Errors
/// If the kernel refuses.
pub fn drop_cached(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), BlockError> {
    let fail = |errno| BlockError::new("drop the page cache of a pass", errno);
    let kind = FileType::from_raw_mode(fstat(file).map_err(fail)?.st_mode);
    if kind == FileType::BlockDevice {
        sync_file_range(file, offset, length).map_err(fail)?;
    }
    fadvise(file, offset, std::num::NonZeroU64::new(length), Advice::DontNeed).map_err(fail)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

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
