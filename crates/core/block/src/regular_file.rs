//! Regular files that are read whole or in part, and refusal of anything else in their place.
//!
//! Opening a FIFO blocks until it has a writer, a terminal or a disk has no end, and opening some
//! devices has effects (a watchdog starts). So a name's type is checked before it is opened, the
//! opening does not wait, and the type is checked again on the open file: it may have been
//! exchanged.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use durio_base::Bytes;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, openat, statat,
};

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
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use super::*;

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
