//! A descriptor that another process left open for durio, known by its number alone.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};

/// A second descriptor of a connected Unix stream socket that was inherited under `number`. Programs
/// that durio starts inherit neither.
///
/// # Errors
/// If no descriptor is open under the number, or it is not such a socket.
pub fn inherited_socket(number: RawFd) -> io::Result<UnixStream> {
    // By libc, because rustix asks for a `BorrowedFd`, which must be open already.
    // SAFETY: the call takes numbers alone; one that is not open gives EBADF.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, so nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(copy) };
    if (socket_domain(&socket)?, socket_type(&socket)?) != (AddressFamily::UNIX, SocketType::STREAM)
    {
        return Err(Errno::PROTOTYPE.into());
    }
    let stream = UnixStream::from(socket);
    // Fails for one that listens or is not connected.
    stream.peer_addr()?;
    // SAFETY: as above, the call takes numbers alone.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    fn errno(number: RawFd) -> Option<i32> {
        inherited_socket(number).unwrap_err().raw_os_error()
    }

    #[test]
    fn a_connected_stream_is_taken_and_speaks_with_its_other_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut taken = inherited_socket(ours.as_raw_fd()).unwrap();
        drop(ours);
        taken.write_all(b"ready").unwrap();
        let mut heard = [0; 5];
        theirs.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"ready");
    }

    #[test]
    fn everything_else_is_refused_with_the_reason() {
        let file = File::open("/dev/null").unwrap();
        assert_eq!(errno(file.as_raw_fd()), Some(libc::ENOTSOCK));
        let (datagrams, _other) = UnixDatagram::pair().unwrap();
        assert_eq!(errno(datagrams.as_raw_fd()), Some(libc::EPROTOTYPE));
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(errno(tcp.as_raw_fd()), Some(libc::EPROTOTYPE));
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        assert_eq!(errno(listener.as_raw_fd()), Some(libc::ENOTCONN));
        for closed in [-1, 1_000_000] {
            assert_eq!(errno(closed), Some(libc::EBADF), "{closed}");
        }
    }
}
