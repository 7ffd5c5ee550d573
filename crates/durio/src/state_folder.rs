//! Where durio keeps runs: the user's state folder, as the XDG base directory specification says.

use std::path::{Path, PathBuf};

use crate::exit_code::Exit;
use crate::failure::Failure;

/// `$XDG_STATE_HOME/durio`, or `~/.local/state/durio`; none without a home.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("durio"))
}

/// The directory that run folders are made in.
pub(crate) fn runs_folder(out: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(out) = out {
        return Ok(out.to_owned());
    }
    let state = state_folder().ok_or_else(|| {
        Failure::new(
            Exit::CannotMeasure,
            "there is no state folder: neither XDG_STATE_HOME nor HOME is set",
        )
        .hint("say with --out DIR where the run folder shall be")
    })?;
    Ok(state.join("runs"))
}
