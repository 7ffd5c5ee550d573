//! Where jobs go: paths as fio builds them, and the targets of a plan, each once.
//!
//! Takes the options of targets and a function that says what each path is; gives the paths to
//! examine and the [`Target`]s.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use durio_plan::{FileLayout, Location, LocationFacts, Target};
use durio_workload::Workload;

use super::ImportNotes;
use super::accesses::AccessSizes;
use super::queue::JobTiming;
use crate::job_file::{ResolvedJob, SourcePosition, TargetOptions};

/// A job whose copies get their targets, with what else decides on them.
pub(super) struct TargetsOf<'j> {
    pub(super) job: &'j ResolvedJob,
    pub(super) workload: &'j Workload,
    pub(super) sizes: &'j AccessSizes,
    pub(super) timing: JobTiming,
    pub(super) is_mapped: bool,
}

/// What a path is, as far as known.
pub(super) type Locate<'f> = &'f dyn Fn(&Path) -> Option<Location>;

/// What one copy of a job works on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum TargetPath {
    /// A path that the job names.
    Named(PathBuf),
    /// A file that fio would name after the job, in this directory.
    Own { directory: PathBuf, name: String },
}

/// The target_paths of copy `copy` (from 0) of a job, in fio's order: one or several.
pub(super) fn target_paths(
    job: &ResolvedJob,
    copy: u32,
    is_device: &dyn Fn(&Path) -> bool,
) -> Vec<TargetPath> {
    let target = &job.options.target;
    if let Some(path) = named_by_section(job).filter(|path| is_device(path)) {
        return vec![TargetPath::Named(path)];
    }
    let directory = directory(target, copy);
    // fio puts the directory in front of every name, also of an absolute one.
    let whole = |name: &str| match directory {
        Some(directory) => PathBuf::from(format!("{directory}/{name}")),
        None => PathBuf::from(name),
    };
    if let Some(names) = &target.filenames {
        return names.value.iter().map(|name| TargetPath::Named(whole(name))).collect();
    }
    let files = target.files.as_ref().map_or(1, |given| given.value).min(FILES_MAX);
    let own = |file: u32| {
        let name = own_name(job, copy, file);
        let whole = whole(&name);
        let directory = parent_of(&whole);
        let name = whole.file_name().map_or(name, |name| name.to_string_lossy().into_owned());
        TargetPath::Own { directory, name }
    };
    (0..files).map(own).collect()
}

/// The most files of all copies of a job; more are refused elsewhere.
pub(super) const FILES_MAX: u32 = 4096;

/// The name that fio gives the `file`th file of copy `copy`, which may be a path:
/// `filename_format`, by default the section's name and the numbers of the copy and of its file.
fn own_name(job: &ResolvedJob, copy: u32, file: u32) -> String {
    let format = job.options.target.name_format.as_ref().map(|given| given.value.as_str());
    let format = format.filter(|format| !format.is_empty()).unwrap_or("$jobname.$jobnum.$filenum");
    let with_job = replaced(format, "$jobname", &job.section);
    let with_copy = replaced(&with_job, "$jobnum", &copy.to_string());
    replaced(&with_copy, "$filenum", &file.to_string())
}

// fio's keywords count in any case.
fn replaced(text: &str, keyword: &str, by: &str) -> String {
    let mut rest = text;
    let mut whole = String::with_capacity(text.len());
    // Lower case of ASCII keeps the bytes in their places.
    while let Some(at) = rest.to_ascii_lowercase().find(keyword) {
        let (before, after) = rest.split_at(at);
        whole.push_str(before);
        whole.push_str(by);
        rest = after.get(keyword.len()..).unwrap_or_default();
    }
    whole + rest
}

// If the path of the section's own name is not a regular file, fio works on it: `[/dev/sdb]`.
fn named_by_section(job: &ResolvedJob) -> Option<PathBuf> {
    let target = &job.options.target;
    let is_one = target.files.as_ref().is_none_or(|given| given.value == 1);
    let is_free = target.filenames.is_none() && target.directories.is_none() && is_one;
    (is_free && job.section.contains('/')).then(|| PathBuf::from(&job.section))
}

// Copies take turns with the directories.
fn directory(target: &TargetOptions, copy: u32) -> Option<&str> {
    let directories = &target.directories.as_ref()?.value;
    let index = copy as usize % directories.len().max(1);
    directories.get(index).map(String::as_str)
}

/// The paths that must be examined: named files, and directories of files that durio makes; each
/// once, in the order of the jobs. `is_device` looks at a path.
pub fn named_paths(jobs: &[ResolvedJob], is_device: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut known: HashSet<PathBuf> = HashSet::new();
    for job in jobs {
        let target_paths = (0..job.copies).flat_map(|copy| target_paths(job, copy, is_device));
        // More files than this are refused elsewhere.
        for spot in target_paths.take(FILES_MAX as usize) {
            let (TargetPath::Named(path) | TargetPath::Own { directory: path, .. }) = spot;
            if known.insert(path.clone()) {
                paths.push(path);
            }
        }
    }
    paths
}

pub(super) struct ImportTargets<'f> {
    locate: Locate<'f>,
    file_name: &'f str,
    entries: Vec<TargetEntry>,
    /// The place of each spot among the entries.
    places: HashMap<TargetPath, usize>,
}

struct TargetEntry {
    spot: TargetPath,
    location: Location,
    /// The layout of a file that durio makes.
    layout: FileLayout,
    /// The end of all regions.
    end: u64,
    /// Who named it first.
    at: SourcePosition,
}

impl TargetEntry {
    fn is_made(&self) -> bool {
        matches!(
            self.location.facts,
            LocationFacts::Directory { .. } | LocationFacts::Absent { .. }
        )
    }
}

/// The state of a target before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Existing {
    /// Its bytes; none for a file still to be made, and for the null devices.
    pub(super) size: Option<u64>,
    /// True if it may become larger, because durio makes it.
    pub(super) grows: bool,
}

/// What a job wants of a spot.
pub(super) struct SpotClaim<'c> {
    pub(super) at: &'c SourcePosition,
    pub(super) writes: bool,
    /// The layout of the file, if it must be made.
    pub(super) layout: FileLayout,
}

impl<'f> ImportTargets<'f> {
    pub(super) fn new(locate: Locate<'f>, file_name: &'f str) -> Self {
        Self { locate, file_name, entries: Vec::new(), places: HashMap::new() }
    }

    pub(super) fn is_device(&self, path: &Path) -> bool {
        (self.locate)(path).is_some_and(|location| {
            matches!(location.facts, LocationFacts::Device { .. } | LocationFacts::NullDevice)
        })
    }

    /// The index of the target at `spot`; none if it is refused.
    pub(super) fn claim(
        &mut self,
        spot: TargetPath,
        claim: &SpotClaim<'_>,
        said: &mut ImportNotes,
    ) -> Option<usize> {
        let index = match self.places.get(&spot) {
            Some(&index) => index,
            None => {
                let location = self.located(&spot, claim.at, said)?;
                let (layout, at) = (claim.layout, claim.at.clone());
                self.places.insert(spot.clone(), self.entries.len());
                self.entries.push(TargetEntry { spot, location, layout, end: 0, at });
                self.entries.len() - 1
            }
        };
        permitted(self.entries.get(index)?, claim, said).then_some(index)
    }

    fn located(
        &self,
        spot: &TargetPath,
        at: &SourcePosition,
        said: &mut ImportNotes,
    ) -> Option<Location> {
        let path = match spot {
            TargetPath::Named(path) | TargetPath::Own { directory: path, .. } => path,
        };
        let location = (self.locate)(path);
        let facts = location.as_ref().map(|location| location.facts);
        let is_directory = matches!(facts, Some(LocationFacts::Directory { .. }));
        let path = path.display();
        match (spot, location) {
            (_, None) => {
                said.refuse_at(at, "filename", &format!("cannot determine what '{path}' is"));
                None
            }
            (TargetPath::Named(_), _) if is_directory => {
                said.refuse_at(at, "filename", &format!("'{path}' is a directory; use directory="));
                None
            }
            (TargetPath::Own { .. }, _) if !is_directory => {
                said.refuse_at(at, "directory", &format!("'{path}' is not a directory"));
                None
            }
            (_, location) => location,
        }
    }

    /// The state of a target before the asking job.
    pub(super) fn existing(&self, index: usize) -> Existing {
        let Some(entry) = self.entries.get(index) else {
            return Existing { size: None, grows: true };
        };
        match entry.location.facts {
            LocationFacts::File { size } | LocationFacts::Device { size } => {
                Existing { size: Some(size.get()), grows: false }
            }
            _ => {
                // A file that durio makes is as long as the jobs so far need it.
                let known = entry.is_made() && entry.end > 0;
                Existing { size: known.then_some(entry.end), grows: true }
            }
        }
    }

    pub(super) fn is_null(&self, index: usize) -> bool {
        self.entries
            .get(index)
            .is_some_and(|entry| entry.location.facts == LocationFacts::NullDevice)
    }

    pub(super) fn is_made(&self, index: usize) -> bool {
        self.entries.get(index).is_some_and(TargetEntry::is_made)
    }

    /// A file that was there before.
    pub(super) fn is_file(&self, index: usize) -> bool {
        let facts = self.entries.get(index).map(|entry| entry.location.facts);
        matches!(facts, Some(LocationFacts::File { .. }))
    }

    /// A job touches a target up to `end`; a file that must grow for it is laid out as its first
    /// user wants it.
    pub(super) fn reach(
        &mut self,
        index: usize,
        end: u64,
        claim: &SpotClaim<'_>,
        said: &mut ImportNotes,
    ) {
        let Some(entry) = self.entries.get_mut(index) else { return };
        if entry.is_made() && entry.end > 0 && end > entry.end && entry.layout != claim.layout {
            let reason = "this job needs a longer file than an earlier job creates; let the first \
                          job that names the file have the largest size";
            said.refuse_at(claim.at, "size", reason);
        }
        entry.end = entry.end.max(end);
    }

    pub(super) fn finish(self, said: &mut ImportNotes) -> Vec<Target> {
        self.check_free(said);
        let file_name = self.file_name;
        (0..).zip(self.entries).map(|(number, entry)| target(number, entry, file_name)).collect()
    }

    /// Refuses files that do not fit together into their directory.
    fn check_free(&self, said: &mut ImportNotes) {
        // Together, as all files are laid out before the first job.
        // With what a directory has free, and who first goes beyond it.
        let mut sums: Vec<(PathBuf, u64, Bytes, Option<&SourcePosition>)> = Vec::new();
        for entry in &self.entries {
            let (LocationFacts::Directory { free, .. } | LocationFacts::Absent { free }) =
                entry.location.facts
            else {
                continue;
            };
            let directory = directory_of(&entry.spot);
            let known = sums.iter().position(|(known, ..)| *known == directory);
            let index = known.unwrap_or_else(|| {
                sums.push((directory, 0, free, None));
                sums.len() - 1
            });
            let Some((_, sum, free, beyond)) = sums.get_mut(index) else { continue };
            *sum = sum.saturating_add(entry.end);
            if *sum > free.get() {
                beyond.get_or_insert(&entry.at);
            }
        }
        for (directory, sum, free, beyond) in sums {
            let Some(at) = beyond else { continue };
            let (sum, directory) = (Bytes::new(sum), directory.display());
            let reason = format!("files of {sum} do not fit: '{directory}' has {free} free");
            said.refuse_at(at, "size", &reason);
        }
    }
}

fn permitted(entry: &TargetEntry, claim: &SpotClaim<'_>, said: &mut ImportNotes) -> bool {
    let exists =
        matches!(entry.location.facts, LocationFacts::File { .. } | LocationFacts::Device { .. });
    if exists && claim.writes && !entry.location.destroy {
        // Only a path that was named can be there already.
        let TargetPath::Named(path) = &entry.spot else { return false };
        let path = path.display();
        let reason = format!(
            "'{path}' exists, and this job writes to it; permit it with --destroy '{path}', or \
             name a file that does not exist"
        );
        said.refuse_at(claim.at, "filename", &reason);
        return false;
    }
    true
}

fn directory_of(spot: &TargetPath) -> PathBuf {
    match spot {
        TargetPath::Own { directory, .. } => directory.clone(),
        TargetPath::Named(path) => parent_of(path),
    }
}

fn parent_of(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

fn target(number: usize, entry: TargetEntry, file_name: &str) -> Target {
    let TargetEntry { location, layout, end, .. } = entry;
    let end = Bytes::new(end);
    let (noun, size) = match location.facts {
        LocationFacts::Directory { .. } | LocationFacts::Absent { .. } => ("file", end),
        LocationFacts::File { size } => ("file", size),
        LocationFacts::Device { size } => ("device", size),
        LocationFacts::NullDevice => ("null device", end),
    };
    let name = format!("{noun} {}", number + 1);
    location.target(name, format!("{file_name}-{number}"), layout, size)
}
