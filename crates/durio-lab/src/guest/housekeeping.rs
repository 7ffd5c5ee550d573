//! What a guest's kernel does not do on its own account while something is measured.
//!
//! In: the kernel's settings. Out: nothing. Not here: what is not even begun at boot, which are words
//! for the kernel.
//!
//! A counted guest has one processor, which a kernel thread of Debian's kernels keeps until it is done.

use std::fs;
use std::io;

/// Settings of the kernel with the value that they get. A kernel without a setting does not do the
/// work.
///
/// Joining small pages to huge ones: a step of 600 ms on devices of 4 ms lost 40 to 60 ms to it. It
/// comes every ten seconds, and goes through some megabytes of the largest process.
const SETTINGS: [(&str, &str); 1] =
    [("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "4294967295")];

/// Makes the kernel leave the processor to what is measured.
pub(super) fn put_off_housekeeping() -> io::Result<()> {
    for (path, value) in SETTINGS {
        match fs::write(path, value) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io::Error::new(error.kind(), format!("setting '{path}': {error}")));
            }
            _ => {}
        }
    }
    Ok(())
}
