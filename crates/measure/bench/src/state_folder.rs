//! Where durio keeps runs: the user's state folder, as the XDG base directory specification says; and
//! what killed runs left behind, there and elsewhere: files with names, traces of the kernel.
//!
//! Each removed or doubtful thing gives a line. Settings of the kernel are `setting_guard`'s,
//! stacks of a bench are removed by durio-layers' `clean`, sockets of disks by durio-prove.
//!
//! A capture of the kernel leaves a mark in the state folder: a file, locked while the capture lives; an
//! unlocked one shows that a capture was killed. Where tracefs is not mounted, a capture mounts it for
//! itself, and its instances trace on after a kill where no other process sees them. To look for them
//! takes a mount, so it is done only for a mark.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use durio_block::Folder;
use durio_command::CommandError;
use durio_record::{FolderName, Leftover, Leftovers, StateFolder, StatePart, remove_leftovers};
use durio_run::{remove_dead_captures, remove_dead_trace_instances};
use rustix::fs::{FlockOperation, flock};

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
        let text = format!("there is no state folder in which to record {what}");
        CommandError::cannot_measure(text).hint("set HOME or XDG_STATE_HOME")
    })?;
    StateFolder::make(&path).map_err(|error| refused(&path, &error))
}

/// Why the state folder, or a part of it, is not used.
pub(crate) fn refused(path: &Path, error: &io::Error) -> CommandError {
    let text = format!("cannot use the state folder '{}': {error}", path.display());
    // An error without a number is a refusal of another user's folder.
    let kind = error.raw_os_error().map(|_| error.kind());
    let hint = match kind {
        // Typical of a service account, whose home is missing or another user's.
        Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            "set XDG_STATE_HOME to a directory that you can write to"
        }
        Some(ErrorKind::StorageFull) => {
            "free some space there, or set XDG_STATE_HOME to a directory with free space"
        }
        _ => "set XDG_STATE_HOME to a folder that you own and no other user can replace",
    };
    CommandError::cannot_measure(text).hint(hint)
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
        return Err(CommandError::cannot_measure(text).hint("set HOME or XDG_STATE_HOME"));
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

const ROOT: &str = "/";

/// Where captures are looked for that nothing else shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookFor {
    /// Only things with a mark in the state folder.
    Marked,
    /// All: also of captures whose state folder is another.
    All,
}

/// Removes what dead runs left behind, where that is proved to be theirs; a line for each thing.
pub fn clear_leftovers(look_for: LookFor) -> Vec<String> {
    // The contents of another user's folder are not acted on.
    let state = state_folder().ok().flatten();
    let leftovers = state.as_ref().map(Leftovers::below);
    let files = leftovers.as_ref().map(remove_leftovers).unwrap_or_default();
    let mut traces = remove_dead_trace_instances(Path::new(ROOT));
    let marks = state.as_ref().map(DeadMarks::of).unwrap_or_default();
    if look_for == LookFor::All || !marks.is_empty() {
        traces.extend(traces_of_captures(marks));
    }
    let files = files.iter().map(of_file);
    files.chain(traces.iter().map(|folder| of_trace(folder))).collect()
}

fn traces_of_captures(marks: DeadMarks) -> Vec<PathBuf> {
    // Without permission to look, the marks stay for a user who has it.
    let Ok(removed) = remove_dead_captures(Path::new(ROOT)) else { return Vec::new() };
    marks.forget();
    removed
}

fn of_file(left: &Leftover) -> String {
    match left {
        Leftover::Removed(path) => format!("removed '{path}', left by a killed run"),
        Leftover::Kept { path, reason } => format!(
            "a killed run left '{path}', and durio leaves it too: {reason}; if it is not yours: \
             rm '{path}'"
        ),
    }
}

fn of_trace(folder: &Path) -> String {
    format!("removed the kernel trace '{}', left on by a killed run", folder.display())
}

/// The mark of a capture, gone when this is dropped.
#[derive(Debug)]
pub struct CaptureMark {
    folder: Folder,
    name: FolderName,
    /// Keeps the mark locked as long as the capture lives.
    _file: File,
}

impl CaptureMark {
    /// Makes it, before anything is traced.
    ///
    /// # Errors
    /// If the state folder cannot be used.
    pub fn begin() -> Result<Self, CommandError> {
        let state = state_for("a capture")?;
        let path = path_of(&state, StatePart::Captures);
        let name = FolderName::new("capture", SystemTime::now(), std::process::id());
        let begun = state.make_part(StatePart::Captures).and_then(|folder| {
            let file = folder.make_file_with(name.as_str(), 0o600)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok((folder, file))
        });
        let (folder, file) = begun.map_err(|error| refused(&path, &error))?;
        Ok(Self { folder, name, _file: file })
    }
}

impl Drop for CaptureMark {
    fn drop(&mut self) {
        // One that stays costs the next run a look.
        let _ = self.folder.remove_file(self.name.as_str());
    }
}

/// Marks of captures that were killed.
#[derive(Default)]
struct DeadMarks(Option<(Folder, Vec<OsString>)>);

impl DeadMarks {
    fn of(state: &StateFolder) -> Self {
        let Ok(Some(folder)) = state.part(StatePart::Captures) else { return Self(None) };
        let names = folder.names().unwrap_or_default();
        let is_dead = |name: &OsString| {
            let file = folder.open_own(name);
            file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
        };
        let dead: Vec<OsString> = names.into_iter().filter(is_dead).collect();
        Self((!dead.is_empty()).then_some((folder, dead)))
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Once nothing is left of their captures.
    fn forget(self) {
        if let Some((folder, names)) = self.0 {
            for name in names {
                // It is looked at again, no more.
                let _ = folder.remove_file(name);
            }
        }
    }
}
