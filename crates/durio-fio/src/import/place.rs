//! Where jobs go: paths as fio builds them, and what a path is.
//!
//! In: the options of targets. Out: paths to be looked at. Not here: regions.

use std::path::PathBuf;

use durio_units::Bytes;

use crate::job_file::{ResolvedJob, TargetOptions};

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceFacts {
    /// A directory with so much free space.
    Directory {
        /// Bytes that may still be allocated.
        free: Bytes,
    },
    /// Nothing, in a directory with so much free space.
    Absent {
        /// Bytes that may still be allocated.
        free: Bytes,
    },
    /// A regular file.
    File {
        /// Its size.
        size: Bytes,
        /// True if the user permitted to overwrite it.
        destroy: bool,
    },
    /// A block device.
    Device {
        /// Its size.
        size: Bytes,
        /// True if the user permitted to overwrite it.
        destroy: bool,
    },
    /// A character device that completes at once.
    NullDevice,
}

/// What one copy of a job works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spot {
    /// A path that the job names.
    Named(PathBuf),
    /// A file that fio would name after the job, in this directory.
    Own { directory: PathBuf, name: String },
}

/// The spot of copy `copy` (from 0) of a job; none if it names several files.
pub(super) fn spot(job: &ResolvedJob, copy: u32) -> Option<Spot> {
    let target = &job.options.target;
    let directory = directory(target, copy);
    match target.filenames.as_ref().map(|names| names.value.as_slice()) {
        Some([name]) => Some(Spot::Named(match directory {
            // fio puts the directory in front of every name, also of an absolute one.
            Some(directory) => PathBuf::from(format!("{directory}/{name}")),
            None => PathBuf::from(name),
        })),
        Some(_) => None,
        None => Some(Spot::Own {
            directory: PathBuf::from(directory.unwrap_or(".")),
            name: format!("{}.{copy}.0", job.name),
        }),
    }
}

/// Copies take turns with the directories.
fn directory(target: &TargetOptions, copy: u32) -> Option<&str> {
    let directories = &target.directories.as_ref()?.value;
    let index = copy as usize % directories.len().max(1);
    directories.get(index).map(String::as_str)
}

/// More copies than any machine runs; what is beyond is refused elsewhere.
const COPIES_LOOKED_AT: u32 = 4096;

/// The paths of which must be known what they are: named files, and directories of files that
/// durio makes; each once, in the order of the jobs.
#[must_use]
pub fn named_paths(jobs: &[ResolvedJob]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for job in jobs {
        let directories = job.options.target.directories.as_ref();
        // Further copies are on the same paths again.
        let different = directories.map_or(1, |given| given.value.len());
        let different = u32::try_from(different).unwrap_or(u32::MAX).min(COPIES_LOOKED_AT);
        for copy in 0..job.copies.min(different) {
            let path = match spot(job, copy) {
                Some(Spot::Named(path) | Spot::Own { directory: path, .. }) => path,
                None => continue,
            };
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths
}
