//! Where a reader expects a regular file: something else.
//!
//! Puts a FIFO, a device, a link, a folder or a huge file in place of the expected text.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::attack::random::Random;

/// More than a reader may take into memory, and no blocks on the disk.
const HUGE_BYTES: u64 = 1 << 30;

/// Puts something other than a regular file with that text at a free path; returns its kind.
pub(super) fn put(path: &Path, text: &[u8], random: &mut Random) -> Result<&'static str> {
    Ok(match random.below(10) {
        0 => {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
            "a FIFO"
        }
        1 => linked("/dev/zero", path, "a link to /dev/zero")?,
        2 => linked(path, path, "a link to itself")?,
        3 => linked("/nowhere/at/all", path, "a link to nothing")?,
        4 => linked("/proc/self/fd/0", path, "a link to its input")?,
        5 => linked("/dev/random", path, "a link to /dev/random")?,
        6 => {
            fs::create_dir(path)?;
            "a folder"
        }
        7 => {
            fs::write(path, text)?;
            File::options().write(true).open(path)?.set_len(HUGE_BYTES)?;
            "a file of 1 GiB"
        }
        8 => {
            fs::write(path, text)?;
            fs::set_permissions(path, Permissions::from_mode(0o0))?;
            "a file without rights"
        }
        _ => {
            // The name of a socket has 107 bytes at most; one elsewhere does no harm.
            drop(UnixListener::bind(path).or_else(|_| UnixListener::bind("/tmp/attack-socket")));
            "a socket"
        }
    })
}

fn linked(to: impl AsRef<Path>, path: &Path, what: &'static str) -> Result<&'static str> {
    symlink(to, path)?;
    Ok(what)
}
