//! Reads a text that a user wrote: a spec, a profile.

use std::io::Read;
use std::path::Path;

use durio_block::open_input;

use crate::exit_code::Exit;
use crate::failure::Failure;

/// A byte more than such a text may have: what reads it says that it is too long.
const LENGTH_READ: u64 = (1 << 20) + 1;

/// What a path may be the name of among the built-in ones: nothing is there, or a folder, which
/// nobody means as a file.
pub(crate) fn name_if_no_file(path: &Path) -> Option<&str> {
    path.to_str().filter(|_| !path.exists() || path.is_dir())
}

/// The text of a file that is meant to be a `what`, to its end or one byte beyond what is allowed.
pub(crate) fn read_text(path: &Path, what: &str) -> Result<String, Failure> {
    let fail = |error: std::io::Error| Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error).context(format!("cannot read '{}'", path.display())),
        hints: Vec::new(),
    };
    let mut bytes = Vec::new();
    open_input(path)
        .and_then(|file| file.take(LENGTH_READ).read_to_end(&mut bytes))
        .map_err(fail)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = format!("'{}' is no {what}: byte {at} is no text (UTF-8)", path.display());
        Failure::new(Exit::WrongUse, text)
    })
}
