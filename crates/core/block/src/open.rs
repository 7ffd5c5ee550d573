//! Opening targets.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, Mode, OFlags, StatxFlags, open as open_at, statx,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::BlockError;

/// How a target is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// For writing too.
    pub write: bool,
    /// O_DIRECT.
    pub direct: bool,
    /// O_DSYNC.
    pub data_sync: bool,
    /// O_SYNC.
    pub sync: bool,
    /// O_EXCL on a block device: refused while it is mounted or a member of an array.
    pub exclusive: bool,
}

/// An open target, and whether O_DIRECT is in force.
#[derive(Debug)]
pub struct OpenTarget {
    /// The open file.
    pub file: OwnedFd,
    /// True if O_DIRECT is in force; false if it was not asked for or is not possible.
    pub direct: bool,
}

/// The alignment that direct I/O asks for; both zero where the kernel says that it is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// Alignment of offsets and lengths.
    #[serde(rename = "offset_bytes")]
    pub offset: Bytes,
}

fn flags_of(mode: OpenMode) -> OFlags {
    let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY;
    flags |= if mode.write { OFlags::RDWR } else { OFlags::RDONLY };
    for (wanted, flag) in [
        (mode.direct, OFlags::DIRECT),
        (mode.data_sync, DATA_SYNC),
        (mode.sync, OFlags::SYNC),
        (mode.exclusive, OFlags::EXCL),
    ] {
        // Only ever added: the bits of O_DSYNC are among those of O_SYNC.
        flags |= if wanted { flag } else { OFlags::empty() };
    }
    flags
}

/// O_DSYNC as the kernel has it; rustix's own constant of that name has the bits of O_SYNC too.
const DATA_SYNC: OFlags = OFlags::from_bits_retain(libc::O_DSYNC.cast_unsigned());

/// Opens an existing target. Where O_DIRECT is not possible, opens it without and says so.
///
/// A device is opened with O_NOATIME where that is permitted (to owners and CAP_FOWNER), a file never:
/// so fio does it (filesetup.c), and so databases open their files. Looking at the time is a part of
/// what a cached read of a file costs them: 70 to 140 ns of 1.5 us (perf; a loop in C with and
/// without the flag).
///
/// # Errors
/// If it cannot be opened either way.
pub(crate) fn open_path(path: &Path, mode: OpenMode) -> Result<OpenTarget, BlockError> {
    let is_file = rustix::fs::stat(path)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    let attempt = |mode: OpenMode| {
        let flags = flags_of(mode);
        if is_file {
            return open_at(path, flags, Mode::empty());
        }
        match open_at(path, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => open_at(path, flags, Mode::empty()),
            opened => opened,
        }
    };
    match attempt(mode) {
        Ok(file) => Ok(OpenTarget { file, direct: mode.direct }),
        // So say filesystems without direct I/O (open(2)), tmpfs before Linux 6.6 among them.
        Err(Errno::INVAL) if mode.direct => {
            let file = attempt(OpenMode { direct: false, ..mode })
                .map_err(|errno| BlockError::at("open", path, errno))?;
            Ok(OpenTarget { file, direct: false })
        }
        Err(errno) => Err(BlockError::at("open", path, errno)),
    }
}

/// Opens the file behind an open descriptor once more, with another mode.
pub(crate) fn reopen(file: &OwnedFd, mode: OpenMode) -> Result<OpenTarget, BlockError> {
    open_path(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())), mode)
}

/// What the kernel says about direct I/O on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectIo {
    /// Nothing: kernels before 6.1, and filesystems that do not report it.
    Unknown,
    /// It is not possible, also where opening with O_DIRECT succeeds: I/O through such a descriptor
    /// goes through the page cache all the same (ext4 with data=journal, encrypted or compressed
    /// files).
    Impossible,
    /// It is possible with this alignment.
    Possible(Alignment),
    /// It is possible with this alignment; with that of memory alone reads pass the cache too, and
    /// writes are taken and go through the filesystem's cache (ZFS: writes other than whole
    /// records; OpenZFS 2.3, module/zfs/zfs_vnops.c, `zfs_setup_direct` and `zfs_write`).
    CachesParts(Alignment),
}

/// `ZFS_SUPER_MAGIC` (OpenZFS, include/sys/fs/zfs.h).
const ZFS_MAGIC: u32 = 0x2fc1_2fc1;

/// What the kernel says about direct I/O on the file.
#[must_use]
pub fn direct_io(file: BorrowedFd<'_>) -> DirectIo {
    let answer = match statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(stat) if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN) => {
            direct_io_of(stat.stx_dio_mem_align, stat.stx_dio_offset_align)
        }
        _ => DirectIo::Unknown,
    };
    let magic = rustix::fs::fstatfs(file).ok().and_then(|facts| u32::try_from(facts.f_type).ok());
    if magic == Some(ZFS_MAGIC) { on_zfs(answer) } else { answer }
}

/// ZFS is silent where its property says `direct=disabled`, and before 2.3: it then opens files with
/// O_DIRECT and ignores it.
const fn on_zfs(answer: DirectIo) -> DirectIo {
    match answer {
        DirectIo::Possible(alignment) => DirectIo::CachesParts(alignment),
        _ => DirectIo::Impossible,
    }
}

/// The kernel says zero where direct I/O is not possible.
fn direct_io_of(memory: u32, offset: u32) -> DirectIo {
    if offset == 0 {
        return DirectIo::Impossible;
    }
    DirectIo::Possible(Alignment {
        memory: Bytes::new(memory.into()),
        offset: Bytes::new(offset.into()),
    })
}

/// Says whether the filesystem can return a range to the preallocated state, by doing it to the
/// first `length` bytes of a file that durio has just preallocated.
#[must_use]
pub fn supports_reallocate(file: BorrowedFd<'_>, length: Bytes) -> bool {
    reallocate(file, 0, length.get()).is_ok()
}

/// Returns a range to the preallocated state: it reads as zeros, and the size of the file stays.
pub(crate) fn reallocate(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
    let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, mode, offset, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks the kernel, for a flag that is lost makes writes fast and loses them.
    #[test]
    fn a_file_is_open_with_the_sync_flags_that_were_asked_for_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let plain = OpenMode { write: true, ..OpenMode::default() };
        let made = open_path(&path, plain).unwrap().file;
        let (data_sync, sync) = (libc::O_DSYNC, libc::O_SYNC);
        for (mode, expected) in [
            (plain, 0),
            (OpenMode { data_sync: true, ..plain }, data_sync),
            (OpenMode { sync: true, ..plain }, sync),
        ] {
            for opened in [open_path(&path, mode).unwrap(), reopen(&made, mode).unwrap()] {
                let flags = rustix::fs::fcntl_getfl(&opened.file).unwrap().bits().cast_signed();
                assert_eq!(flags & (data_sync | sync), expected, "{mode:?}");
            }
        }
    }

    #[test]
    fn files_are_opened_as_databases_open_theirs_and_devices_without_their_time_of_access() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let device = Path::new("/dev/zero");
        // Nobody but its owner, and who may do everything, may open a device so.
        let is_permitted = open_at(device, OFlags::NOATIME, Mode::empty()).is_ok();
        for (path, expected) in [(path.as_path(), false), (device, is_permitted)] {
            let file = open_path(path, OpenMode::default()).unwrap().file;
            let flags = rustix::fs::fcntl_getfl(&file).unwrap();
            assert_eq!(flags.contains(OFlags::NOATIME), expected, "{}", path.display());
        }
    }

    #[test]
    fn an_alignment_of_zero_is_a_refusal_and_not_a_silence() {
        assert_eq!(direct_io_of(0, 0), DirectIo::Impossible);
        let (memory, offset) = (Bytes::new(4), Bytes::new(512));
        assert_eq!(direct_io_of(4, 512), DirectIo::Possible(Alignment { memory, offset }));
    }

    #[test]
    fn zfs_takes_parts_of_records_and_its_silence_is_a_refusal() {
        assert_eq!(on_zfs(DirectIo::Unknown), DirectIo::Impossible);
        let alignment = Alignment { memory: Bytes::from_kib(4), offset: Bytes::from_kib(128) };
        assert_eq!(on_zfs(direct_io_of(4096, 128 << 10)), DirectIo::CachesParts(alignment));
    }
}
