//! Reads a text that a user wrote: a spec, a profile.

use std::io::Read;
use std::path::Path;

use durio_block::open_input;

use crate::error::BenchError;

/// A byte more than such a text may have: what reads it says that it is too long.
const LENGTH_READ: u64 = (1 << 20) + 1;

/// What a path may be the name of among the built-in ones: nothing is there, or a folder, which
/// nobody means as a file.
#[must_use]
pub fn name_if_no_file(path: &Path) -> Option<&str> {
    path.to_str().filter(|_| !path.exists() || path.is_dir())
}

/// The text of a file that is meant to be a `what`, to its end or one byte beyond what is allowed.
///
/// # Errors
/// If it cannot be read, or is no text.
pub fn read_text(path: &Path, what: &str) -> Result<String, BenchError> {
    let mut bytes = Vec::new();
    open_input(path)
        .and_then(|file| file.take(LENGTH_READ).read_to_end(&mut bytes))
        .map_err(|error| BenchError::io("read", path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = format!("'{}' is no {what}: byte {at} is no text (UTF-8)", path.display());
        BenchError::wrong_use(text)
    })
}
