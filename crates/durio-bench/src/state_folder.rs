//! Where durio keeps runs: the user's state folder, as the XDG base directory specification says.

use std::path::{Path, PathBuf};

use crate::error::BenchError;

/// `$XDG_STATE_HOME/durio`, or `~/.local/state/durio`; none without a home.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        // A relative one is to be ignored, says the specification.
        path.is_absolute().then_some(path)
    };
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("durio"))
}

/// The directory that run folders are made in.
///
/// # Errors
/// If neither it nor a home is named.
pub fn runs_folder(out: Option<&Path>) -> Result<PathBuf, BenchError> {
    if let Some(out) = out {
        return Ok(out.to_owned());
    }
    let state = state_folder().ok_or_else(|| {
        BenchError::cannot_measure(
            "there is no state folder: neither XDG_STATE_HOME nor HOME is set",
        )
        .hint("say with --out DIR where the run folder shall be")
    })?;
    Ok(state.join("runs"))
}

/// The directory that run folders of `durio watch` are made in: they are many, and `last` is none of
/// them.
///
/// # Errors
/// If there is no state folder.
pub fn probes_folder() -> Result<PathBuf, BenchError> {
    state_for("probes").map(|state| state.join("watch"))
}

/// Where the journals of builds are.
///
/// # Errors
/// If there is no state folder.
pub fn build_journals() -> Result<PathBuf, BenchError> {
    state_for("what was built").map(|state| state.join("stacks"))
}

/// The state folder, to remember `what` in.
pub(crate) fn state_for(what: &str) -> Result<PathBuf, BenchError> {
    state_folder().ok_or_else(|| {
        let text = format!("there is no state folder to remember {what} in");
        BenchError::cannot_measure(text).hint("set HOME or XDG_STATE_HOME")
    })
}
