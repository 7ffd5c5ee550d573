//! Specs that a user names: the text of one, and the plan of a campaign with its targets as they
//! exist. The spec is a file or a built-in name; paths are as the command line names them. Also finds
//! an interrupted campaign that a new one would repeat.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use durio_base::did_you_mean;
use durio_block::{HeldTargets, open_input};
use durio_command::{CommandError, LocatedPlaces, Permission, locate};
use durio_plan::{ClockChoice, Location, LocationFacts, Plan, TargetKind};
use durio_record::{
    FolderName, Journal, RecordError, ResumePoint, RunFolder, RunResumed, TimedEvent,
    is_of_storage, resume_point,
};
use durio_run::Resume;
use durio_spec::{
    CampaignPlan, CampaignRequest, CampaignSpec, ShippedSpec, SpecTarget, plan_campaign,
    shipped_specs,
};

// A byte more than such a text may have: what reads it says that it is too long.
const LENGTH_READ: u64 = (1 << 20) + 1;

/// The path as a possible name of a built-in text: it does not exist, or it is a folder, which is
/// never meant as a file.
pub fn name_if_no_file(path: &Path) -> Option<&str> {
    path.to_str().filter(|_| !path.exists() || path.is_dir())
}

/// The name and the text of a spec: of a file, or of the built-in one of this name.
pub(crate) fn read_spec<'p>(
    path: &'p Path,
    what: &str,
    shipped: &[ShippedSpec],
) -> Result<(Cow<'p, str>, Cow<'static, str>), CommandError> {
    if let Some(name) = name_if_no_file(path) {
        match shipped.iter().find(|spec| spec.name == name) {
            Some(spec) => return Ok((spec.name.into(), spec.text.into())),
            // Reading it says that it is a folder.
            None if path.is_dir() => {}
            None => {
                let names: Vec<&str> = shipped.iter().map(|spec| spec.name).collect();
                let text = format!("'{name}' is neither a file nor a built-in {what}");
                return Err(CommandError::wrong_use(text).hint(did_you_mean(
                    name,
                    &names,
                    &format!("built-in {what}s:"),
                )));
            }
        }
    }
    Ok((path.display().to_string().into(), read_text(path, "spec")?.into()))
}

/// The text of a file that should be a `what`, to its end or one byte beyond the limit.
///
/// # Errors
/// If it cannot be read, or is not UTF-8.
pub fn read_text(path: &Path, what: &str) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    open_input(path)
        .and_then(|file| file.take(LENGTH_READ).read_to_end(&mut bytes))
        .map_err(|error| CommandError::io("read", path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = format!("'{}' is not a {what}: byte {at} is not text (UTF-8)", path.display());
        CommandError::wrong_use(text)
    })
}

/// How much of a spec.
#[derive(Debug, Clone, Copy)]
pub struct CampaignScale {
    /// Thousandths of each time.
    pub time_per_mille: u32,
    /// Thousandths of each size.
    pub size_per_mille: u32,
    /// How many steps the user permitted; 0 if not given.
    pub steps_confirmed: u64,
}

/// The input of a campaign.
#[derive(Debug, Clone, Copy)]
pub struct SpecRequest<'a> {
    /// A file, or the name of a built-in spec.
    pub spec: &'a Path,
    /// Paths, or NAME=PATH for a target that the spec names.
    pub targets: &'a [PathBuf],
    /// How much of it.
    pub scale: CampaignScale,
    /// What may be overwritten.
    pub permission: Permission<'a>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The clock of all latencies.
    pub clock: ClockChoice,
}

/// The plan, what exists of its targets, and what came with the file name, which is asked for once
/// everything that was named is known to be there.
///
/// # Errors
/// If the spec is wrong, or its targets are.
pub fn plan_of_spec<T, E: From<CommandError>>(
    request: &SpecRequest<'_>,
    file_name: impl FnOnce() -> Result<(String, T), E>,
) -> Result<(CampaignPlan, HeldTargets, T), E> {
    let (name, text) = read_spec(request.spec, "spec", shipped_specs())?;
    let spec = CampaignSpec::parse(&name, &text)?;
    let paths = assign(&spec.targets(), request.targets)?;
    let (places, held) = locate_all(&spec.targets(), &paths, request.permission)?;
    let (file_name, with_it) = file_name()?;
    let made = plan_campaign(&CampaignRequest {
        spec,
        places,
        time_scale_per_mille: request.scale.time_per_mille,
        size_scale_per_mille: request.scale.size_per_mille,
        steps_confirmed: request.scale.steps_confirmed,
        seed: request.seed,
        clock: request.clock,
        file_name,
    })?;
    Ok((made, held, with_it))
}

/// The paths of each target: those of the command line, else the spec's.
fn assign(targets: &[SpecTarget], given: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>, CommandError> {
    let mut named: Vec<Vec<PathBuf>> = vec![Vec::new(); targets.len()];
    let mut unnamed = Vec::new();
    for text in given {
        match split(targets, text)? {
            Some((target, path)) => named[target].push(path),
            None => unnamed.push(text.clone()),
        }
    }
    let own = |target: &SpecTarget| target.paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    for (paths, target) in named.iter_mut().zip(targets) {
        if paths.is_empty() {
            *paths = own(target);
        }
    }
    if !unnamed.is_empty() {
        place_unnamed(targets, unnamed, &mut named)?;
    }
    match named.iter().zip(targets).find(|(paths, _)| paths.is_empty()) {
        None => Ok(named),
        Some((_, target)) => Err(CommandError::wrong_use(format!(
            "the spec does not say where its target '{}' is",
            target.name
        ))
        .hint(format!("name a directory, file or device: --target {}=PATH", target.name))),
    }
}

/// NAME=PATH; `None` for a path alone.
fn split(targets: &[SpecTarget], text: &Path) -> Result<Option<(usize, PathBuf)>, CommandError> {
    let bytes = text.as_os_str().as_bytes();
    let Some(at) = bytes.iter().position(|byte| *byte == b'=') else { return Ok(None) };
    let (name, path) = (&bytes[..at], &bytes[at + 1..]);
    if let Some(found) = targets.iter().position(|target| target.name.as_bytes() == name) {
        return Ok(Some((found, PathBuf::from(OsStr::from_bytes(path)))));
    }
    // A path may have a '=' in it; a name of a target has no slash.
    if name.contains(&b'/') || text.exists() {
        return Ok(None);
    }
    let known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let name = String::from_utf8_lossy(name);
    Err(CommandError::wrong_use(format!("the spec has no target '{name}'")).hint(format!(
        "its targets are {}; a path with '=' in it begins with './'",
        known.join(", ")
    )))
}

/// Paths alone are for the targets that have none yet, or for the only one.
fn place_unnamed(
    targets: &[SpecTarget],
    unnamed: Vec<PathBuf>,
    named: &mut [Vec<PathBuf>],
) -> Result<(), CommandError> {
    // With one target nothing else can be meant.
    if let [only] = named {
        *only = unnamed;
        return Ok(());
    }
    let missing: Vec<&mut Vec<PathBuf>> =
        named.iter_mut().filter(|paths| paths.is_empty()).collect();
    if missing.is_empty() {
        let known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        return Err(CommandError::wrong_use("--target does not say which target it is")
            .hint(format!("write --target NAME=PATH; the targets are {}", known.join(", "))));
    }
    for paths in missing {
        *paths = unnamed.clone();
    }
    Ok(())
}

/// The facts about every path; a directory may hold several targets.
fn locate_all(
    targets: &[SpecTarget],
    paths: &[Vec<PathBuf>],
    permission: Permission<'_>,
) -> Result<(Vec<Vec<Location>>, HeldTargets), CommandError> {
    let mut unique: Vec<&PathBuf> = Vec::new();
    for (paths, target) in paths.iter().zip(targets) {
        for (position, path) in paths.iter().enumerate() {
            if paths[..position].contains(path) {
                let text =
                    format!("'{}' is there twice in target '{}'", path.display(), target.name);
                return Err(CommandError::wrong_use(text).hint("name each path once"));
            }
            if !unique.contains(&path) {
                unique.push(path);
            }
        }
    }
    // All together: two targets must not be one and the same place by two names.
    let LocatedPlaces { places: located, held } = locate(unique.iter().copied(), permission)?;
    let find = |path: &PathBuf| unique.iter().position(|known| *known == path);
    let of = |paths: &Vec<PathBuf>| -> Vec<Location> {
        paths.iter().filter_map(|path| located.get(find(path)?).cloned()).collect()
    };
    let places: Vec<Vec<Location>> = paths.iter().map(of).collect();
    refuse_null_groups(&places)?;
    Ok((places, held))
}

// A null device next to storage would give results of neither.
fn refuse_null_groups(places: &[Vec<Location>]) -> Result<(), CommandError> {
    let is_null = |location: &Location| location.facts == LocationFacts::NullDevice;
    match places.iter().find(|group| group.len() > 1 && group.iter().any(is_null)) {
        None => Ok(()),
        Some(_) => Err(CommandError::wrong_use("a null device cannot be one of several paths")),
    }
}

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
            Err(error) if is_of_storage(&error) => return Err(unreadable(error)),
            opened => opened.ok().filter(is_same_campaign),
        };
        let Some(folder) = folder else { continue };
        let Some(point) = resume_point_of(&folder)? else { continue };
        // Before the journal is opened, which makes it where it is missing.
        folder.check_owner().map_err(|error| {
            CommandError::from(error).hint("or start over with --fresh, which leaves it unchanged")
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
        Err(error) if is_of_storage(&error) => return Err(error),
        Err(_) => return Ok(None),
        Ok(reader) => reader,
    };
    let mut events = Vec::new();
    while let Some(event) = reader.next() {
        match event {
            Ok(event) => events.push(event),
            // Data that exists but cannot be read now is not a torn end, which would be cut off.
            Err(error) if is_of_storage(&error) => return Err(error),
            // The step that was cut off is run again anyway.
            Err(_) if reader.is_torn_end(&folder.plan) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(events))
}

/// An unreadable record that may be the one to resume.
fn unreadable(error: RecordError) -> CommandError {
    CommandError::from(error).hint("--fresh starts over and leaves that run unchanged")
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

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_plan::{ClockChoice, FileLayout, PLAN_SCHEMA, Purpose, RawPath, Target};

    use super::*;

    fn file(name: &str, named: bool, mib: u64) -> Target {
        Target {
            name: "data".to_owned(),
            location: Some(RawPath::from("/data")),
            kind: TargetKind::NewFile {
                directory: RawPath::from("/data"),
                file_name: RawPath::from(name),
                named,
                layout: FileLayout::Empty,
            },
            size: Bytes::from_mib(mib),
            destroy: false,
        }
    }

    fn plan(seed: u64, targets: Vec<Target>) -> Plan {
        Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Campaign,
            seed,
            clock: ClockChoice::Auto,
            targets,
            steps: Vec::new(),
            campaign: None,
            thresholds: Vec::new(),
        }
    }

    #[test]
    fn a_plan_is_the_same_but_for_its_seed_and_the_names_that_durio_gave() {
        let old = plan(1, vec![file("a", false, 8), file("user", true, 16)]);
        let is_like = |new: Plan| is_same(&new, &old);
        assert!(is_like(plan(1, vec![file("a", false, 8), file("user", true, 16)])));
        assert!(is_like(plan(9, vec![file("b", false, 8), file("user", true, 16)])));
        for targets in [
            vec![file("a", false, 8), file("other", true, 16)],
            vec![file("a", true, 8), file("user", true, 16)],
            vec![file("a", false, 9), file("user", true, 16)],
            vec![file("a", false, 8)],
            vec![file("a", false, 8), file("user", true, 16), file("c", false, 1)],
        ] {
            assert!(!is_like(plan(1, targets.clone())), "{targets:?}");
        }
        let clock = ClockChoice::Monotonic;
        assert!(!is_like(Plan { clock, ..old.clone() }));
    }

    #[test]
    fn the_latest_runs_are_looked_at_first_and_500_of_them() {
        let runs = tempfile::tempdir().unwrap();
        assert!(latest_folders(&runs.path().join("none")).is_empty());
        for number in 0..502 {
            fs::create_dir(runs.path().join(format!("run-{number:03}"))).unwrap();
        }
        let found = latest_folders(runs.path());
        assert_eq!(found.len(), 500);
        for (place, name) in [(0, "run-501"), (1, "run-500"), (499, "run-002")] {
            assert_eq!(found[place], runs.path().join(name));
        }
    }
}
