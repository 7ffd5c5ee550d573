//! The command line of this process, for records.

use std::ffi::OsString;
use std::sync::OnceLock;

use durio_plan::RawPath;

static COMMAND_LINE: OnceLock<Vec<OsString>> = OnceLock::new();

/// The command line; bytes that are not UTF-8 are replaced.
#[must_use]
pub fn command_line() -> Vec<String> {
    let words = COMMAND_LINE.get().cloned();
    let words = words.unwrap_or_else(|| std::env::args_os().collect());
    words.into_iter().map(|word| RawPath::from(word).to_string()).collect()
}

/// Sets the command line for records, if it is not the process's: a user's file may have added
/// words.
pub fn set_command_line(words: &[OsString]) {
    // Only the first counts, and there is but one.
    let _ = COMMAND_LINE.set(words.to_vec());
}
