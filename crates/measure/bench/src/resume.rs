//! Finds an interrupted campaign that a new one would repeat.

use std::fs;
use std::path::{Path, PathBuf};

use durio_command::CommandError;
use durio_plan::{Plan, TargetKind};
use durio_record::{
    FolderName, Journal, RecordError, ResumePoint, RunFolder, RunResumed, TimedEvent, resume_point,
};
use durio_run::Resume;

/// An interrupted campaign, and the point where it resumes.
#[derive(Debug)]
pub struct InterruptedCampaign {
    pub folder: RunFolder,
    pub point: ResumePoint,
}

impl InterruptedCampaign {
    pub(crate) fn resume(&self) -> Resume {
        let event = RunResumed {
            step: self.point.step,
            repeated: self.point.repeated.clone(),
            resumed: FolderName::rfc3339(std::time::SystemTime::now()),
        };
        Resume { event, elapsed: self.point.elapsed }
    }
}

/// How many run folders are looked at, the latest first.
const FOLDERS_MAX: usize = 500;

/// The latest interrupted run in `runs` of the same spec with the same plan. `plan` has passed
/// every current check, so an equal one may continue. A live run does not count, and neither does
/// one with another seed than requested. As root, a run that another user can write to is an error:
/// they may have made it up.
///
/// # Errors
/// If another user may have made up the interrupted run.
pub fn interrupted(
    runs: &Path,
    plan: &Plan,
    seed: Option<u64>,
) -> Result<Option<InterruptedCampaign>, CommandError> {
    let Some(campaign) = &plan.campaign else { return Ok(None) };
    let is_same_campaign = |folder: &RunFolder| {
        let of_folder = folder.plan.campaign.as_ref();
        of_folder.is_some_and(|known| known.spec_hash == campaign.spec_hash)
            // A user who gives a seed wants the draws of that seed.
            && seed.is_none_or(|seed| seed == folder.plan.seed)
            && is_same(plan, &folder.plan)
    };
    for path in latest_folders(runs) {
        let folder = match RunFolder::open(&path) {
            Err(error) if error.is_of_storage() => return Err(unreadable(error)),
            opened => opened.ok().filter(is_same_campaign),
        };
        let Some(folder) = folder else { continue };
        let Some(point) = resume_point_of(&folder)? else { continue };
        // Before the journal is opened, which makes it where it is missing.
        folder.check_owner().map_err(|error| {
            CommandError::from(error).hint("or start over with --fresh, which leaves it as it is")
        })?;
        // Two durios must not append to one record.
        if !lives(&path) {
            return Ok(Some(InterruptedCampaign { folder, point }));
        }
    }
    Ok(None)
}

fn resume_point_of(folder: &RunFolder) -> Result<Option<ResumePoint>, CommandError> {
    let events = readable_events(folder).map_err(unreadable)?;
    Ok(events.and_then(|events| resume_point(&folder.plan, events.iter())))
}

/// The events up to where a power cut tore the record; `None` if it is damaged elsewhere.
fn readable_events(folder: &RunFolder) -> Result<Option<Vec<TimedEvent>>, RecordError> {
    let mut reader = match folder.events() {
        Err(error) if error.is_of_storage() => return Err(error),
        Err(_) => return Ok(None),
        Ok(reader) => reader,
    };
    let mut events = Vec::new();
    while let Some(event) = reader.next() {
        match event {
            Ok(event) => events.push(event),
            // Data that exists but cannot be read now is not a torn end, which would be cut off.
            Err(error) if error.is_of_storage() => return Err(error),
            // The step that was cut off is run again anyway.
            Err(_) if reader.is_torn_end(&folder.plan) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(events))
}

/// An unreadable record that may be the one to resume.
fn unreadable(error: RecordError) -> CommandError {
    CommandError::from(error).hint("--fresh starts over, and leaves that run as it is")
}

fn latest_folders(runs: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(runs) else { return Vec::new() };
    let mut names: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // Their names start with the time.
    names.sort_unstable_by(|a, b| b.cmp(a));
    names.truncate(FOLDERS_MAX);
    names
}

/// True if only the seed and durio's file names differ.
fn is_same(new: &Plan, old: &Plan) -> bool {
    // Another seed is still the same campaign: the interrupted one keeps its seed.
    let mut new = new.clone();
    new.seed = old.seed;
    for (target, before) in new.targets.iter_mut().zip(&old.targets) {
        if let (
            TargetKind::NewFile { file_name, named: false, .. },
            TargetKind::NewFile { file_name: name, named: false, .. },
        ) = (&mut target.kind, &before.kind)
        {
            *file_name = name.clone();
        }
    }
    new == *old
}

/// True if its journal is locked, or its state is unknown.
fn lives(folder: &Path) -> bool {
    Journal::resume(folder, None).is_err()
}
