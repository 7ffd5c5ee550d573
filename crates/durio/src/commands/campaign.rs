//! `durio run SPEC`, and what it has in common with `durio plan SPEC`: the spec, its targets, the
//! plan.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use durio_block::HeldTargets;
use durio_plan::ClockChoice;
use durio_spec::{
    CampaignPlan, CampaignRequest, CampaignSpec, Location, LocationFacts, SpecTarget,
    plan_campaign, shipped_spec, shipped_specs,
};

use crate::args::{Expanding, RunCommand};
use crate::execute::{Execution, execute, go_on};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::locate::{Located, Permission, locate_with};
use crate::output;
use crate::resume::interrupted;
use crate::text_file::{name_if_no_file, read_text};

pub(crate) fn run(spec: &Path, arguments: &RunCommand) -> Result<Exit, Failure> {
    let options = &arguments.job.common;
    let (made, held, execution) = campaign_plan(&Wanted {
        spec,
        targets: &arguments.job.target,
        expanding: &arguments.expanding,
        destroy: &options.destroy,
        force_signature: options.force_signature,
        seed: options.seed.unwrap_or(0),
        clock: options.clock,
        file_name: || {
            let execution = Execution::begin("campaign", options)?;
            Ok((execution.file_name(), execution))
        },
    })?;
    if let Some(obstacle) = made.obstacles.into_iter().next() {
        return Err(obstacle.into());
    }
    let plan = durio_plan::Plan { seed: execution.seed, ..made.plan };
    let earlier = match arguments.fresh {
        true => None,
        false => interrupted(execution.runs(), &plan, options.seed)?,
    };
    let Some(earlier) = earlier else {
        return execute(&execution, &plan, held, options).map(|(exit, _)| exit);
    };
    output::remark(&format!(
        "durio: resuming {} at step {} of {}; --fresh starts over",
        earlier.folder.path().display(),
        earlier.point.step + 1,
        plan.steps.len()
    ));
    go_on(&execution, &earlier, held, options).map(|(exit, _)| exit)
}

/// What a campaign is made from.
pub(super) struct Wanted<'a, F> {
    pub(super) spec: &'a Path,
    pub(super) targets: &'a [PathBuf],
    pub(super) expanding: &'a Expanding,
    pub(super) destroy: &'a [PathBuf],
    pub(super) force_signature: bool,
    pub(super) seed: u64,
    pub(super) clock: ClockChoice,
    /// Called once everything that was named is known to be there.
    pub(super) file_name: F,
}

/// The plan, what exists of its targets, and what came with the file name.
pub(super) fn campaign_plan<T, F>(
    wanted: &Wanted<'_, F>,
) -> Result<(CampaignPlan, HeldTargets, T), Failure>
where
    F: Fn() -> Result<(String, T), Failure>,
{
    let spec = read(wanted.spec)?;
    let paths = assign(&spec.targets(), wanted.targets)?;
    let (places, held) =
        locate_all(&spec.targets(), &paths, wanted.destroy, wanted.force_signature)?;
    let (file_name, with_it) = (wanted.file_name)()?;
    let made = plan_campaign(&CampaignRequest {
        spec,
        places,
        time_scale_per_mille: wanted.expanding.scale_time,
        size_scale_per_mille: wanted.expanding.scale_size,
        steps_confirmed: wanted.expanding.confirm_steps.unwrap_or(0),
        seed: wanted.seed,
        clock: wanted.clock,
        file_name,
    })?;
    Ok((made, held, with_it))
}

/// Reads a file, or the built-in one of this name.
fn read(path: &Path) -> Result<CampaignSpec, Failure> {
    if let Some(name) = name_if_no_file(path) {
        match shipped_spec(name) {
            Some(shipped) => return Ok(CampaignSpec::parse(shipped.name, shipped.text)?),
            None if path.is_dir() => {}
            None => return Err(unknown(name)),
        }
    }
    let text = read_text(path, "spec")?;
    Ok(CampaignSpec::parse(&path.display().to_string(), &text)?)
}

fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = shipped_specs().iter().map(|spec| spec.name).collect();
    let text = format!("'{name}' is neither a file nor a built-in spec");
    Failure::new(Exit::WrongUse, text).hint(format!("built-in specs: {}", names.join(", ")))
}

/// Per target of the spec its paths: those of the command line, else its own.
fn assign(targets: &[SpecTarget], given: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>, Failure> {
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
        Some((_, target)) => Err(Failure::new(
            Exit::WrongUse,
            format!("the spec does not say where its target '{}' is", target.name),
        )
        .hint(format!("name a directory, file or device: --target {}=PATH", target.name))),
    }
}

/// NAME=PATH; none for a path alone.
fn split(targets: &[SpecTarget], text: &Path) -> Result<Option<(usize, PathBuf)>, Failure> {
    let bytes = text.as_os_str().as_bytes();
    let Some(at) = bytes.iter().position(|byte| *byte == b'=') else { return Ok(None) };
    let (name, path) = (&bytes[..at], &bytes[at + 1..]);
    if let Some(found) = targets.iter().position(|target| target.name.as_bytes() == name) {
        return Ok(Some((found, PathBuf::from(OsStr::from_bytes(path)))));
    }
    if name.contains(&b'/') || text.exists() {
        return Ok(None);
    }
    let known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let name = String::from_utf8_lossy(name);
    Err(Failure::new(Exit::WrongUse, format!("the spec has no target '{name}'")).hint(format!(
        "its targets are {}; a path with '=' in it begins with './'",
        known.join(", ")
    )))
}

/// Paths alone are for the targets that have none yet, or for the only one.
fn place_unnamed(
    targets: &[SpecTarget],
    unnamed: Vec<PathBuf>,
    named: &mut [Vec<PathBuf>],
) -> Result<(), Failure> {
    if let [only] = named {
        *only = unnamed;
        return Ok(());
    }
    let missing: Vec<&mut Vec<PathBuf>> =
        named.iter_mut().filter(|paths| paths.is_empty()).collect();
    if missing.is_empty() {
        let known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        return Err(Failure::new(Exit::WrongUse, "--target does not say which target it is")
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
    destroy: &[PathBuf],
    force_signature: bool,
) -> Result<(Vec<Vec<Location>>, HeldTargets), Failure> {
    let mut unique: Vec<&PathBuf> = Vec::new();
    for (paths, target) in paths.iter().zip(targets) {
        for (position, path) in paths.iter().enumerate() {
            if paths[..position].contains(path) {
                let text =
                    format!("'{}' is there twice in target '{}'", path.display(), target.name);
                return Err(Failure::new(Exit::WrongUse, text).hint("name each path once"));
            }
            if !unique.contains(&path) {
                unique.push(path);
            }
        }
    }
    let permission = Permission::Named { destroy, force_signature };
    let Located { places: located, held } = locate_with(unique.iter().copied(), permission)?;
    let find = |path: &PathBuf| unique.iter().position(|known| *known == path);
    let of = |paths: &Vec<PathBuf>| -> Vec<Location> {
        paths.iter().filter_map(|path| located.get(find(path)?).cloned()).collect()
    };
    let places: Vec<Vec<Location>> = paths.iter().map(of).collect();
    refuse_null_groups(&places)?;
    Ok((places, held))
}

/// A null device beside storage would give figures of neither.
fn refuse_null_groups(places: &[Vec<Location>]) -> Result<(), Failure> {
    let is_null = |location: &Location| location.facts == LocationFacts::NullDevice;
    match places.iter().find(|group| group.len() > 1 && group.iter().any(is_null)) {
        None => Ok(()),
        Some(_) => {
            Err(Failure::new(Exit::WrongUse, "a null device cannot be one of several paths"))
        }
    }
}
