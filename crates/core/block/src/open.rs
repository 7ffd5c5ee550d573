//! Opening: targets with their flags, and regular files that are read whole or in part, with refusal
//! of anything else in their place.
//!
//! Also the range of an open file in the page cache: written by sync_file_range(2), which rustix
//! does not wrap, or dropped; and whether a file's kernel and filesystem know that call and the
//! flags of pwritev2(2). `durio-run` decides when, and what replaces a missing call.
//!
//! Opening a FIFO blocks until it has a writer, a terminal or a disk has no end, and opening some
//! devices has effects (a watchdog starts). So a name's type is checked before it is opened, the
//! opening does not wait, and the type is checked again on the open file: it may have been
//! exchanged.

use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use rustix::fs::{
    Advice, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, StatxFlags, fadvise, fcntl_getfl,
    fcntl_setfl, fstat, open as open_at, openat, statat, statx,
};
use rustix::io::{Errno, ReadWriteFlags};
use serde::{Deserialize, Serialize};

use crate::{BlockError, WriteFlags};

/// How a target is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// For reading and writing, instead of reading alone.
    pub write: bool,
    /// O_DIRECT: past the page cache.
    pub direct: bool,
    /// O_DSYNC: each write is durable when it returns.
    pub data_sync: bool,
    /// O_SYNC: each write and its metadata are durable when it returns.
    pub sync: bool,
    /// O_EXCL on a block device: refused while it is mounted or a member of an array.
    pub exclusive: bool,
}

/// An open target, and whether O_DIRECT is in force.
#[derive(Debug)]
pub struct OpenTarget {
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

/// Opens a file that a program wrote among others, such as those of a run folder: a regular file,
/// not a link.
///
/// # Errors
/// If it is anything else, or cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_regular_at(CWD, path)
}

pub(crate) fn open_regular_at(folder: impl AsFd, name: &Path) -> io::Result<File> {
    let kind = |mode| FileType::from_raw_mode(mode);
    check_kind(kind(statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode), false)?;
    let file = openat(&folder, name, READING | OFlags::NOFOLLOW, Mode::empty())?;
    check_kind(kind(fstat(&file)?.st_mode), false)?;
    Ok(file.into())
}

/// Opens a file that the user named: links to it are followed, and it may be a pipe, as of a shell's
/// `<(command)`, which ends when its writers do.
///
/// # Errors
/// If it is a device, a folder or a socket, or cannot be opened.
pub fn open_input(path: &Path) -> io::Result<File> {
    let kind = |mode| FileType::from_raw_mode(mode);
    check_kind(kind(statat(CWD, path, AtFlags::empty())?.st_mode), true)?;
    let file = openat(CWD, path, READING, Mode::empty())?;
    check_kind(kind(fstat(&file)?.st_mode), true)?;
    // A pipe that was opened without a writer reads as ended; otherwise reads wait for bytes.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file.into())
}

const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

fn check_kind(kind: FileType, may_be_pipe: bool) -> io::Result<()> {
    let is = match kind {
        FileType::RegularFile => return Ok(()),
        FileType::Fifo if may_be_pipe => return Ok(()),
        FileType::Fifo => "a pipe",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {is}, not a regular file")))
}

/// All bytes, at most `max`.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] if there are more; what reading gives.
pub fn read_bounded(file: impl Read, max: Bytes) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more separates a file that is too long from one that just fits.
    file.take(max.get().saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max.get() {
        let reason = format!("it is larger than {max}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

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
    fn each_wish_is_a_flag_of_its_own() {
        let always = libc::O_CLOEXEC | libc::O_NOCTTY;
        let plain = OpenMode::default();
        for (mode, expected) in [
            (plain, libc::O_RDONLY),
            (OpenMode { write: true, ..plain }, libc::O_RDWR),
            (OpenMode { direct: true, ..plain }, libc::O_DIRECT),
            (OpenMode { data_sync: true, ..plain }, libc::O_DSYNC),
            (OpenMode { sync: true, ..plain }, libc::O_SYNC),
            (OpenMode { exclusive: true, ..plain }, libc::O_EXCL),
            (
                OpenMode { write: true, direct: true, data_sync: true, ..plain },
                libc::O_RDWR | libc::O_DIRECT | libc::O_DSYNC,
            ),
        ] {
            assert_eq!(flags_of(mode).bits().cast_signed(), always | expected, "{mode:?}");
        }
    }

    /// Files of proc know no direct I/O; this one may be written to.
    #[test]
    fn where_direct_io_is_not_possible_the_other_flags_stay() {
        let mode = OpenMode { write: true, direct: true, data_sync: true, ..OpenMode::default() };
        let opened = open_path("/proc/self/comm".as_ref(), mode).unwrap();
        assert!(!opened.direct);
        let flags = rustix::fs::fcntl_getfl(&opened.file).unwrap().bits().cast_signed();
        let asked = libc::O_DIRECT | libc::O_SYNC | libc::O_ACCMODE;
        assert_eq!(flags & asked, libc::O_DSYNC | libc::O_RDWR);
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

    fn pipe_at(path: &Path) {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "x").unwrap();
        pipe_at(&path("pipe"));
        symlink(path("file"), path("link")).unwrap();
        let begin = Instant::now();
        for (place, word) in [
            (path("pipe"), "a pipe"),
            (path("link"), "a symbolic link"),
            (folder.path().to_owned(), "a folder"),
            ("/dev/zero".into(), "a device"),
        ] {
            let error = open_regular(&place).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert!(begin.elapsed() < Duration::from_secs(5), "nothing was waited for");
        assert_eq!(
            read_bounded(open_regular(&path("file")).unwrap(), Bytes::new(1)).unwrap(),
            b"x"
        );
    }

    #[test]
    fn what_a_user_names_may_be_a_pipe_or_a_link_and_never_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        pipe_at(&pipe);
        let all = Bytes::from_mib(1);
        assert!(read_bounded(open_input(&pipe).unwrap(), all).unwrap().is_empty(), "no writer");
        let (reader, mut writer) = io::pipe().unwrap();
        let named = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let file = open_input(Path::new(&named)).unwrap();
        drop(reader);
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            io::Write::write_all(&mut writer, b"late").unwrap();
        });
        assert_eq!(read_bounded(file, all).unwrap(), b"late");
        late.join().unwrap();
        assert!(open_input(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn no_byte_beyond_the_bound_is_kept() {
        let of = |length: u64| read_bounded(io::repeat(7).take(length), Bytes::new(10));
        assert_eq!(of(10).unwrap().len(), 10);
        assert_eq!(of(11).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
