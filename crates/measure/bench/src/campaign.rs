//! The plan of a campaign spec, and its targets as they exist. The spec is a file or a built-in
//! name; paths are as the command line names them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use durio_block::HeldTargets;
use durio_command::{CommandError, LocatedPlaces, Permission, locate};
use durio_plan::{ClockChoice, Location, LocationFacts};
use durio_spec::{
    CampaignPlan, CampaignRequest, CampaignSpec, SpecTarget, plan_campaign, shipped_specs,
};

use crate::text_file::read_spec;

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
    let spec = CampaignSpec::parse(&name, &text).map_err(CommandError::from)?;
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
    })
    .map_err(CommandError::from)?;
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
