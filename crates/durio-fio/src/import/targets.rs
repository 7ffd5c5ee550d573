//! The targets of a plan, each once, while jobs name them.
//!
//! In: spots with what is there. Out: [`Target`]s. Not here: regions.

use std::path::{Path, PathBuf};

use durio_plan::{FileLayout, RawPath, Target, TargetKind};
use durio_units::Bytes;

use super::PlaceFacts;
use super::extent::Existing;
use super::place::Spot;
use super::said::Said;
use crate::job_file::Place;

/// The targets so far.
pub(super) struct Targets<'f> {
    /// What is at a path.
    pub(super) facts: &'f dyn Fn(&Path) -> Option<PlaceFacts>,
    file_name: &'f str,
    entries: Vec<Entry>,
}

/// One target.
struct Entry {
    spot: Spot,
    facts: PlaceFacts,
    /// Of a file that durio makes.
    layout: FileLayout,
    /// The end of all regions.
    end: u64,
    /// Who named it first.
    at: Place,
}

impl Entry {
    fn is_made(&self) -> bool {
        matches!(self.facts, PlaceFacts::Directory { .. } | PlaceFacts::Absent { .. })
    }
}

/// What a job wants of a spot.
pub(super) struct Claim<'c> {
    pub(super) at: &'c Place,
    pub(super) writes: bool,
    /// Of the file, should it have to be made.
    pub(super) layout: FileLayout,
}

impl<'f> Targets<'f> {
    pub(super) fn new(facts: &'f dyn Fn(&Path) -> Option<PlaceFacts>, file_name: &'f str) -> Self {
        Self { facts, file_name, entries: Vec::new() }
    }

    /// The index of the target at `spot`; none if it is refused.
    pub(super) fn claim(
        &mut self,
        spot: Spot,
        claim: &Claim<'_>,
        said: &mut Said,
    ) -> Option<usize> {
        let known = self.entries.iter().position(|entry| entry.spot == spot);
        let index = match known {
            Some(index) => index,
            None => {
                let facts = self.facts_of(&spot, claim.at, said)?;
                let (layout, at) = (claim.layout, claim.at.clone());
                self.entries.push(Entry { spot, facts, layout, end: 0, at });
                self.entries.len() - 1
            }
        };
        permitted(self.entries.get(index)?, claim, said).then_some(index)
    }

    fn facts_of(&self, spot: &Spot, at: &Place, said: &mut Said) -> Option<PlaceFacts> {
        let path = match spot {
            Spot::Named(path) | Spot::Own { directory: path, .. } => path,
        };
        let facts = (self.facts)(path);
        let is_directory = matches!(facts, Some(PlaceFacts::Directory { .. }));
        let path = path.display();
        match (spot, facts) {
            (_, None) => {
                said.refuse_at(at, "filename", &format!("it is not known what '{path}' is"));
                None
            }
            (Spot::Named(_), _) if is_directory => {
                said.refuse_at(at, "filename", &format!("'{path}' is a directory; use directory="));
                None
            }
            (Spot::Own { .. }, _) if !is_directory => {
                said.refuse_at(at, "directory", &format!("'{path}' is no directory"));
                None
            }
            (_, facts) => facts,
        }
    }

    /// What is at a target before the job that asks.
    pub(super) fn existing(&self, index: usize) -> Existing {
        match self.entries.get(index) {
            Some(Entry { facts: PlaceFacts::File { size, .. }, .. })
            | Some(Entry { facts: PlaceFacts::Device { size, .. }, .. }) => {
                Existing { size: Some(size.get()), grows: false }
            }
            Some(entry) => {
                let known = entry.is_made() && entry.end > 0;
                Existing { size: known.then_some(entry.end), grows: true }
            }
            None => Existing { size: None, grows: true },
        }
    }

    /// True for one that completes at once.
    pub(super) fn is_null(&self, index: usize) -> bool {
        self.entries.get(index).is_some_and(|entry| entry.facts == PlaceFacts::NullDevice)
    }

    /// True for a file that durio makes.
    pub(super) fn is_made(&self, index: usize) -> bool {
        self.entries.get(index).is_some_and(Entry::is_made)
    }

    /// A job touches a target up to `end`; a file that must grow for it is laid out as its first
    /// user wants it.
    pub(super) fn reach(&mut self, index: usize, end: u64, claim: &Claim<'_>, said: &mut Said) {
        let Some(entry) = self.entries.get_mut(index) else { return };
        if entry.is_made() && entry.end > 0 && end > entry.end && entry.layout != claim.layout {
            let reason = "this job would make a file longer that an earlier job lays out in \
                          another way; let the first job that names the file have the largest size";
            said.refuse_at(claim.at, "size", reason);
        }
        entry.end = entry.end.max(end);
    }

    /// All targets in order.
    pub(super) fn finish(self, said: &mut Said) -> Vec<Target> {
        self.check_free(said);
        let file_name = self.file_name;
        (0..).zip(self.entries).map(|(number, entry)| target(number, entry, file_name)).collect()
    }

    /// Refuses files that do not fit together into their directory.
    fn check_free(&self, said: &mut Said) {
        let mut sums: Vec<(PathBuf, u64)> = Vec::new();
        for entry in &self.entries {
            let (PlaceFacts::Directory { free } | PlaceFacts::Absent { free }) = entry.facts else {
                continue;
            };
            let directory = directory_of(&entry.spot);
            let known = sums.iter().position(|(known, _)| *known == directory);
            let index = known.unwrap_or_else(|| {
                sums.push((directory, 0));
                sums.len() - 1
            });
            let Some((directory, sum)) = sums.get_mut(index) else { continue };
            *sum = sum.saturating_add(entry.end);
            if *sum > free.get() {
                let reason = format!(
                    "files of {} do not fit: '{}' has {free} free",
                    Bytes::new(*sum),
                    directory.display()
                );
                said.refuse_at(&entry.at, "size", &reason);
            }
        }
    }
}

fn permitted(entry: &Entry, claim: &Claim<'_>, said: &mut Said) -> bool {
    let (PlaceFacts::File { destroy, .. } | PlaceFacts::Device { destroy, .. }) = entry.facts
    else {
        return true;
    };
    if claim.writes && !destroy {
        let Spot::Named(path) = &entry.spot else { return false };
        let path = path.display();
        let reason = format!(
            "'{path}' exists, and this job writes to it; permit it with --destroy '{path}', or name \
             a file that is not there"
        );
        said.refuse_at(claim.at, "filename", &reason);
        return false;
    }
    true
}

fn directory_of(spot: &Spot) -> PathBuf {
    match spot {
        Spot::Own { directory, .. } => directory.clone(),
        Spot::Named(path) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            parent.unwrap_or(Path::new(".")).to_owned()
        }
    }
}

fn target(number: usize, entry: Entry, file_name: &str) -> Target {
    let Entry { spot, facts, layout, end, .. } = entry;
    let directory = RawPath::from(directory_of(&spot));
    let (path, own) = match spot {
        Spot::Named(path) => (path, false),
        Spot::Own { directory, .. } => (directory, true),
    };
    let location = RawPath::from(path.clone());
    let (kind, size, destroy) = match facts {
        PlaceFacts::Directory { .. } | PlaceFacts::Absent { .. } => {
            let file_name = match path.file_name().filter(|_| !own) {
                Some(name) => RawPath::from(name),
                None => RawPath::from(format!("{file_name}-{number}")),
            };
            let kind = TargetKind::NewFile { directory, file_name, named: !own, layout };
            (kind, end, false)
        }
        PlaceFacts::File { size, destroy } => {
            (TargetKind::ExistingFile { path: location.clone() }, size.get(), destroy)
        }
        PlaceFacts::Device { size, destroy } => {
            (TargetKind::Device { path: location.clone() }, size.get(), destroy)
        }
        PlaceFacts::NullDevice => (TargetKind::NullDevice { path: location.clone() }, end, false),
    };
    let name = match &kind {
        TargetKind::Device { .. } => format!("device {}", number + 1),
        TargetKind::NullDevice { .. } => format!("null device {}", number + 1),
        _ => format!("file {}", number + 1),
    };
    Target { name, location: Some(location), kind, size: Bytes::new(size), destroy }
}
