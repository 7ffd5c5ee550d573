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

/// The spots of copy `copy` (from 0) of a job, in fio's order: one or several.
pub(super) fn spots(
    job: &ResolvedJob,
    copy: u32,
    facts: &dyn Fn(&Path) -> Option<PlaceFacts>,
) -> Vec<Spot> {
    let target = &job.options.target;
    let special = named_by_section(job).filter(|path| {
        matches!(facts(path), Some(PlaceFacts::Device { .. } | PlaceFacts::NullDevice))
    });
    if let Some(path) = special {
        return vec![Spot::Named(path)];
    }
    let directory = directory(target, copy);
    // fio puts the directory in front of every name, also of an absolute one.
    let whole = |name: &str| match directory {
        Some(directory) => PathBuf::from(format!("{directory}/{name}")),
        None => PathBuf::from(name),
    };
    if let Some(names) = &target.filenames {
        return names.value.iter().map(|name| Spot::Named(whole(name))).collect();
    }
    let files = target.files.as_ref().map_or(1, |given| given.value).min(FILES_MAX);
    let own = |file: u32| {
        let name = own_name(job, copy, file);
        let whole = whole(&name);
        let folder = whole.parent().filter(|it| !it.as_os_str().is_empty());
        let directory = folder.unwrap_or(Path::new(".")).to_owned();
        let name = whole.file_name().map_or(name, |it| it.to_string_lossy().into_owned());
        Spot::Own { directory, name }
    };
    (0..files).map(own).collect()
}

/// The most files of all copies of a job; more are refused elsewhere.
pub(super) const FILES_MAX: u32 = 4096;

/// The name that fio gives the `file`th file of copy `copy`, which may be a path:
/// `filename_format`, by default the section's name and the numbers of the copy and of its file.
fn own_name(job: &ResolvedJob, copy: u32, file: u32) -> String {
    let format = job.options.target.name_format.as_ref().map(|given| given.value.as_str());
    let format = format.filter(|it| !it.is_empty()).unwrap_or("$jobname.$jobnum.$filenum");
    let with_job = replaced(format, "$jobname", &job.section);
    let with_copy = replaced(&with_job, "$jobnum", &copy.to_string());
    replaced(&with_copy, "$filenum", &file.to_string())
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

/// What is beyond is refused elsewhere.
const SPOTS_LOOKED_AT: usize = FILES_MAX as usize;

/// The paths of which must be known what they are: named files, and directories of files that
/// durio makes; each once, in the order of the jobs. `is_device` looks at a path.
#[must_use]
pub fn named_paths(jobs: &[ResolvedJob], is_device: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let facts = |path: &Path| is_device(path).then_some(PlaceFacts::NullDevice);
    let mut paths: Vec<PathBuf> = Vec::new();
    for job in jobs {
        let spots = (0..job.copies).flat_map(|copy| spots(job, copy, &facts));
        for spot in spots.take(SPOTS_LOOKED_AT) {
            let (Spot::Named(path) | Spot::Own { directory: path, .. }) = spot;
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths
}
