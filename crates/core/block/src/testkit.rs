//! What tests of this crate and of others need of it, and nobody else may have.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use crate::{BlockError, OpenMode, OpenTarget};

/// Opens a file of a test by its name, also for writing, which durio itself does with a permit alone.
pub fn open_path(path: &Path, mode: OpenMode) -> Result<OpenTarget, BlockError> {
    crate::open::open_path(path, mode)
}

/// Says what a test could not do here: on stderr, and in the file that DURIO_TEST_SKIPS names.
///
/// # Panics
/// If that cannot be written: a skip that nobody hears of would pass for a success.
pub fn note_skip(test: &str, reason: &dyn std::fmt::Display) {
    // Not by eprintln, which libtest swallows in a test that passes.
    let said = std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
    said.expect("saying that a test is skipped");
    if let Some(path) = std::env::var_os("DURIO_TEST_SKIPS") {
        let file = File::options().append(true).create(true).open(path);
        let written = file.and_then(|mut file| {
            // One call, so that lines of tests in parallel do not mix.
            file.write_all(format!("{test}: {reason}\n").as_bytes())
        });
        written.expect("writing the list of skips");
    }
}

/// Pages of a file in the page cache that are dirty or being written, by cachestat(2), since 6.5.
pub fn unwritten_pages(file: &impl AsFd) -> Option<u64> {
    // The same number on all architectures but alpha.
    const SYS_CACHESTAT: libc::c_long = 451;
    // struct cachestat_range: offset, length (zero: to the end).
    let range = [0_u64; 2];
    // struct cachestat: cached, dirty, under writeback, evicted, recently evicted.
    let mut counts = [0_u64; 5];
    let file = file.as_fd().as_raw_fd();
    // Justification: no crate in use wraps the call, and it alone shows whether a sync did anything.
    // SAFETY: the kernel reads two and writes five 64-bit numbers at valid addresses.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file, range.as_ptr(), counts.as_mut_ptr(), 0_u32) };
    (result == 0).then_some(counts[1] + counts[2])
}
