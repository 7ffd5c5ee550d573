//! Removes what killed runs left behind: files with names, traces of the kernel. Each removed or
//! doubtful thing gives a line. Settings of the kernel are [`crate::SettingGuard`]'s, stacks of a
//! bench are removed by durio-layers' `clean`, sockets of disks by durio-prove.

use std::path::{Path, PathBuf};

use durio_record::{Leftover, Leftovers, remove_leftovers};
use durio_run::{remove_dead_captures, remove_dead_trace_instances};

use crate::capture_mark::DeadMarks;
use crate::state_folder::state_folder;

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
        Leftover::Removed(path) => format!("removed '{path}', which a killed run had left"),
        Leftover::Kept { path, reason } => format!(
            "a killed run left '{path}', and durio leaves it too: {reason}; if it is not yours: \
             rm '{path}'"
        ),
    }
}

fn of_trace(folder: &Path) -> String {
    format!("removed the kernel trace '{}', which a killed run had left on", folder.display())
}
