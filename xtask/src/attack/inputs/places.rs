//! Where a reader expects a regular file: something else.
//!
//! In: a path, the text that would be there. Out: a FIFO, a device, a link, a folder, a huge file in
//! its place. Not here: which file.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::attack::random::Random;

/// More than a reader may take into memory, and no blocks on the disk.
const HUGE_BYTES: u64 = 1 << 30;

/// Puts something other than a regular file of that text at the path, where nothing is.
pub(super) fn put(path: &Path, text: &[u8], random: &mut Random) -> Result<()> {
    match random.below(11) {
        0 | 1 => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?,
        2 => symlink("/dev/zero", path)?,
        3 => symlink(path, path)?,
        4 => symlink("/nowhere/at/all", path)?,
        5 => symlink("/proc/self/fd/0", path)?,
        6 => fs::create_dir(path)?,
        7 => {
            fs::write(path, text)?;
            File::options().write(true).open(path)?.set_len(HUGE_BYTES)?;
        }
        8 => {
            fs::write(path, text)?;
            fs::set_permissions(path, Permissions::from_mode(0o0))?;
        }
        // A socket's name has 107 bytes at most, and goes with nobody: it stays as a file.
        9 => drop(UnixListener::bind(path).or_else(|_| UnixListener::bind("/tmp/attack-socket"))),
        _ => symlink("/proc/kmsg", path)?,
    }
    Ok(())
}
