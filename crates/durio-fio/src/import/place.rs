//! Where jobs go: paths as fio builds them, and what a path is.
//!
//! In: the options of targets. Out: paths to be looked at. Not here: regions.

use std::path::{Path, PathBuf};

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
pub(super) fn spot(
    job: &ResolvedJob,
    copy: u32,
    facts: &dyn Fn(&Path) -> Option<PlaceFacts>,
) -> Option<Spot> {
    let target = &job.options.target;
    let special = named_by_section(job).filter(|path| {
        matches!(facts(path), Some(PlaceFacts::Device { .. } | PlaceFacts::NullDevice))
    });
    if let Some(path) = special {
        return Some(Spot::Named(path));
    }
    let directory = directory(target, copy);
    match target.filenames.as_ref().map(|names| names.value.as_slice()) {
        Some([name]) => Some(Spot::Named(match directory {
            // fio puts the directory in front of every name, also of an absolute one.
            Some(directory) => PathBuf::from(format!("{directory}/{name}")),
            None => PathBuf::from(name),
        })),
        Some(_) => None,
        None => {
            let name = own_name(job, copy);
            let whole = match directory {
                Some(directory) => PathBuf::from(format!("{directory}/{name}")),
                None => PathBuf::from(&name),
            };
            let folder = whole.parent().filter(|it| !it.as_os_str().is_empty());
            let directory = folder.unwrap_or(Path::new(".")).to_owned();
            let name = whole.file_name().map_or(name, |it| it.to_string_lossy().into_owned());
            Some(Spot::Own { directory, name })
        }
    }
}

/// The name that fio gives the file of copy `copy`, which may be a path: `filename_format`, by
/// default the section's name and the numbers of the copy and of its file.
fn own_name(job: &ResolvedJob, copy: u32) -> String {
    let format = job.options.target.name_format.as_ref().map(|given| given.value.as_str());
    let format = format.filter(|it| !it.is_empty()).unwrap_or("$jobname.$jobnum.$filenum");
    let with_job = replaced(format, "$jobname", &job.section);
    replaced(&replaced(&with_job, "$jobnum", &copy.to_string()), "$filenum", "0")
}

/// fio's keywords count in any case.
fn replaced(text: &str, keyword: &str, by: &str) -> String {
    let mut rest = text;
    let mut whole = String::with_capacity(text.len());
    while let Some(at) = rest.to_ascii_lowercase().find(keyword) {
        let (before, after) = rest.split_at(at);
        whole.push_str(before);
        whole.push_str(by);
        rest = after.get(keyword.len()..).unwrap_or_default();
    }
    whole + rest
}

/// What stands at the path of the section's own name, if it is no regular file, is what fio works
/// on: `[/dev/sdb]`.
fn named_by_section(job: &ResolvedJob) -> Option<PathBuf> {
    let target = &job.options.target;
    let is_one = target.files.as_ref().is_none_or(|given| given.value == 1);
    let is_free = target.filenames.is_none() && target.directories.is_none() && is_one;
    (is_free && job.section.contains('/')).then(|| PathBuf::from(&job.section))
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
/// durio makes; each once, in the order of the jobs. `is_device` looks at a path.
#[must_use]
pub fn named_paths(jobs: &[ResolvedJob], is_device: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let facts = |path: &Path| is_device(path).then_some(PlaceFacts::NullDevice);
    let mut paths: Vec<PathBuf> = Vec::new();
    for job in jobs {
        for copy in 0..job.copies.min(COPIES_LOOKED_AT) {
            let path = match spot(job, copy, &facts) {
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
