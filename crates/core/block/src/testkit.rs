//! What tests of this crate and of others need of it, and nobody else may have.

pub mod conformance;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::{BlockError, OpenMode, OpenTarget};

/// Opens a file of a test by its name, also for writing, which durio itself does with a permit alone.
///
/// # Errors
/// If it cannot be opened.
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
