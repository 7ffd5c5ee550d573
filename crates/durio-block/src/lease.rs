//! Whether anybody has a file open for writing, in whatever namespace and by whatever name.
//!
//! In: an open file. Out: yes, or no, or the filesystem does not say. Not here: who it is.

use std::os::fd::{AsRawFd, BorrowedFd};

/// `F_SETSIG` (include/uapi/asm-generic/fcntl.h), which the libc crate does not have.
const SET_SIGNAL: libc::c_int = 10;

/// NFS, SMB, CIFS, FUSE, 9p (include/uapi/linux/magic.h).
const OF_A_SERVER: [u32; 5] = [0x6969, 0xfe53_4d42, 0xff53_4d42, 0x6573_5546, 0x0102_1997];

/// Asks for a read lease, which the kernel gives only if nobody has the file open for writing
/// (fcntl(2), F_SETLEASE): programs, loop devices, swap, the NFS server. It is given back at once.
///
/// False also where nobody can tell: leases are for a file's owner and CAP_LEASE, some filesystems have
/// none, and on those of a network the server's word (no delegation, no oplock) looks like a refusal.
pub(crate) fn has_writers(file: BorrowedFd<'_>) -> bool {
    let magic = rustix::fs::fstatfs(file).ok().and_then(|it| u32::try_from(it.f_type).ok());
    if magic.is_none_or(|magic| OF_A_SERVER.contains(&magic)) {
        return false;
    }
    let number = file.as_raw_fd();
    // Whoever opens the file meanwhile is told by this signal, which is ignored by default; the one
    // that is sent otherwise, SIGIO, would end the process.
    // SAFETY: plain calls on a descriptor that is borrowed; no memory is handed over.
    let answer = unsafe {
        libc::fcntl(number, SET_SIGNAL, libc::SIGURG);
        libc::fcntl(number, libc::F_SETLEASE, libc::F_RDLCK)
    };
    let error = std::io::Error::last_os_error();
    if answer == 0 {
        // SAFETY: as above.
        unsafe { libc::fcntl(number, libc::F_SETLEASE, libc::F_UNLCK) };
        return false;
    }
    error.raw_os_error() == Some(libc::EAGAIN)
}
