//! Where durio keeps runs: the user's state folder, as the XDG base directory specification says.

use std::io;
use std::path::{Path, PathBuf};

use durio_command::CommandError;
use durio_record::{StateFolder, StatePart};

/// `$XDG_STATE_HOME/durio`, or `~/.local/state/durio`; `None` without a home.
pub(crate) fn state_path() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        // The specification says to ignore a relative one.
        path.is_absolute().then_some(path)
    };
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("durio"))
}

/// The state folder; `None` if it does not exist yet.
///
/// # Errors
/// If it does not belong to the user.
pub(crate) fn state_folder() -> Result<Option<StateFolder>, CommandError> {
    let Some(path) = state_path() else { return Ok(None) };
    StateFolder::open(&path).map_err(|error| refused(&path, &error))
}

/// The state folder, made if need be, to remember `what` in.
///
/// # Errors
/// If neither it nor a home is named, it cannot be made, or it does not belong to the user.
pub(crate) fn state_for(what: &str) -> Result<StateFolder, CommandError> {
    let path = state_path().ok_or_else(|| {
        let text = format!("there is no state folder to remember {what} in");
        CommandError::cannot_measure(text).hint("set HOME or XDG_STATE_HOME")
    })?;
    StateFolder::make(&path).map_err(|error| refused(&path, &error))
}

/// Why the state folder, or a part of it, is not used.
pub(crate) fn refused(path: &Path, error: &io::Error) -> CommandError {
    let text = format!("cannot use the state folder '{}': {error}", path.display());
    CommandError::cannot_measure(text)
        .hint("set XDG_STATE_HOME to a folder of yours that no other user can exchange")
}

/// The directory that run folders are made in.
///
/// # Errors
/// If neither it nor a home is named, or the state folder cannot be used.
pub fn runs_folder(out: Option<&Path>) -> Result<PathBuf, CommandError> {
    if let Some(out) = out {
        return Ok(out.to_owned());
    }
    if state_path().is_none() {
        let text = "there is no state folder: neither XDG_STATE_HOME nor HOME is set";
        return Err(CommandError::cannot_measure(text)
            .hint("say with --out DIR where the run folder shall be"));
    }
    part_of(&state_for("runs")?, StatePart::Runs)
}

/// The directory that run folders of `durio watch` are made in.
///
/// # Errors
/// If the state folder is missing or cannot be used.
pub fn probes_folder() -> Result<PathBuf, CommandError> {
    part_of(&state_for("probes")?, StatePart::Probes)
}

/// Where the journals of builds are.
///
/// # Errors
/// If the state folder is missing or cannot be used.
pub fn build_journals() -> Result<PathBuf, CommandError> {
    part_of(&state_for("what was built")?, StatePart::Stacks)
}

/// The same if it exists; `None` if nothing was built.
///
/// # Errors
/// If the state folder cannot be used.
pub fn journals_of_builds() -> Result<Option<PathBuf>, CommandError> {
    let Some(state) = state_folder()? else { return Ok(None) };
    let folder = state.part(StatePart::Stacks);
    let folder = folder.map_err(|error| refused(&path_of(&state, StatePart::Stacks), &error))?;
    Ok(folder.map(|folder| folder.path().to_owned()))
}

fn part_of(state: &StateFolder, part: StatePart) -> Result<PathBuf, CommandError> {
    match state.make_part(part) {
        Ok(folder) => Ok(folder.path().to_owned()),
        Err(error) => Err(refused(&path_of(state, part), &error)),
    }
}

pub(crate) fn path_of(state: &StateFolder, part: StatePart) -> PathBuf {
    state.folder().path().join(part.name())
}
