//! The targets of a spec on the named places: files to make, existing targets, and obstacles.

use std::collections::BTreeMap;
use std::path::Path;

use durio_base::Bytes;
use durio_plan::{
    DeclaredLayout, DeclaredTarget, FileLayout, Location, LocationFacts, RawPath, Sheet, Target,
    TargetKind,
};

use super::file::CampaignSpec;
use super::file::{CampaignTargetTable, FewJobs, Files};
use crate::SpecError;
use crate::table::PlacedValue;
use crate::table::value::{Amount, TimeScale};

/// The size of a file that is made without `size`.
const SIZE_DEFAULT: Bytes = Bytes::from_gib(1);
/// Sizes that follow the free space are whole multiples of this.
const GRAIN: Bytes = Bytes::from_mib(1);

/// What one target of the spec became.
#[derive(Debug)]
pub(crate) struct TargetGroup {
    pub(crate) name: String,
    /// Indices in the plan.
    pub(crate) members: Vec<usize>,
    /// One file per job.
    pub(crate) is_per_job: bool,
    /// Fewer jobs than members use only the first members.
    pub(crate) may_be_few: bool,
}

/// The targets of a campaign's plan, and how its groups map to them.
#[derive(Debug, Default)]
pub(crate) struct CampaignTargets {
    pub(crate) targets: Vec<Target>,
    pub(crate) groups: Vec<TargetGroup>,
    pub(crate) declared: Vec<DeclaredTarget>,
    pub(crate) obstacles: Vec<SpecError>,
}

/// What targets need in addition to the spec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetPlaces<'a> {
    pub(crate) spec: &'a CampaignSpec,
    /// Per target of the spec.
    pub(crate) places: &'a [Vec<Location>],
    pub(crate) scale: TimeScale,
    pub(crate) file_name: &'a str,
}

/// Makes the targets; `jobs_max` is the most jobs that a step has on each target of the spec.
pub(crate) fn targets(
    places: TargetPlaces<'_>,
    jobs_max: &[u32],
) -> Result<CampaignTargets, SpecError> {
    // Every plan has it first: durio's own cost is measured on target 0.
    let mut made =
        CampaignTargets { targets: vec![crate::null_target()], ..CampaignTargets::default() };
    let blocks = places.spec.file.target.iter();
    for ((block, locations), &jobs) in blocks.zip(places.places).zip(jobs_max) {
        let first = made.targets.len();
        let group = group(places, block, locations, jobs, &mut made.targets)?;
        let declared = declared(block);
        if declared != DeclaredLayout::default() {
            made.declared.extend(made.targets[first..].iter().map(|target| DeclaredTarget {
                target: target.name.clone(),
                location: target.location.clone(),
                declared: declared.clone(),
            }));
        }
        made.groups.push(group);
    }
    refuse_overlaps(&made)?;
    made.obstacles = lack_of_space(places, &made.targets);
    Ok(made)
}

fn group(
    places: TargetPlaces<'_>,
    block: &PlacedValue<CampaignTargetTable>,
    locations: &[Location],
    jobs: u32,
    targets: &mut Vec<Target>,
) -> Result<TargetGroup, SpecError> {
    let name = &block.name.0;
    let fail = |text: String| Err(places.spec.source().error(block.at, text));
    let is_per_job = block.files.get() == Some(Files::PerJob);
    if locations.is_empty() {
        return fail(format!("no path is given for target '{name}'"));
    }
    let is_directory =
        |location: &Location| matches!(location.facts, LocationFacts::Directory { .. });
    if is_per_job && !(locations.len() == 1 && locations.iter().all(is_directory)) {
        return fail(format!("files = \"per-job\" of target '{name}' needs one directory"));
    }
    let count = if is_per_job { jobs as usize } else { locations.len() };
    let mut members = Vec::new();
    for number in 0..count {
        let location = locations.get(number).unwrap_or(&locations[0]);
        let full_name = if count == 1 { name.clone() } else { format!("{name}-{}", number + 1) };
        members.push(targets.len());
        targets.push(target(places, block, location, full_name));
    }
    let may_be_few = block.few_jobs.get() == Some(FewJobs::FirstPaths);
    Ok(TargetGroup { name: name.clone(), members, is_per_job, may_be_few })
}

fn target(
    places: TargetPlaces<'_>,
    block: &CampaignTargetTable,
    location: &Location,
    name: String,
) -> Target {
    let file_name = format!("{}.{name}", places.file_name);
    let layout = block.layout.get().unwrap_or(FileLayout::Incompressible);
    let size = match location.facts {
        LocationFacts::Directory { free, .. } | LocationFacts::Absent { free } => {
            size(places, block, free)
        }
        LocationFacts::File { size } | LocationFacts::Device { size } => size,
        // It has no size; this one only bounds offsets.
        LocationFacts::NullDevice => SIZE_DEFAULT,
    };
    location.target(name, file_name, layout, size)
}

/// The size of a file that is made; a share is one of the free space, whatever the scale.
fn size(places: TargetPlaces<'_>, block: &CampaignTargetTable, free: Bytes) -> Bytes {
    match block.size.get() {
        Some(Amount::Bytes(size)) => places.scale.size(size),
        // Whole MiB, which every usual block size divides: a region that ends within a block is
        // refused.
        Some(share) => share.of(free).rounded_down_to(GRAIN),
        None => SIZE_DEFAULT.min(Bytes::new(free.get() / 10).rounded_down_to(GRAIN)),
    }
}

// Files that durio makes are private; an existing path may be one target only.
fn refuse_overlaps(made: &CampaignTargets) -> Result<(), SpecError> {
    let shared =
        |target: &&Target| !matches!(target.kind, TargetKind::NewFile { named: false, .. });
    let mut known: BTreeMap<&Path, &str> = BTreeMap::new();
    for target in made.targets.iter().skip(1).filter(shared) {
        let Some(path) = target.location.as_ref().map(RawPath::as_path) else { continue };
        // Two loads on one file would disturb each other, and one would overwrite the other's data.
        if let Some(other) = known.insert(path, &target.name) {
            return Err(SpecError::wrong_use(format!(
                "targets '{other}' and '{}' overlap: both are '{}'",
                target.name,
                path.display()
            ))
            .hint("give each target a separate place: --target NAME=PATH"));
        }
    }
    Ok(())
}

// Files that are made on one filesystem are there at the same time.
fn lack_of_space(places: TargetPlaces<'_>, targets: &[Target]) -> Vec<SpecError> {
    let mut wanted: BTreeMap<u64, (Bytes, u64, &RawPath)> = BTreeMap::new();
    let mut alone = Vec::new();
    for target in targets {
        let Some(path) = &target.location else { continue };
        let facts = places.places.iter().flatten().find(|location| location.path == *path);
        match facts.map(|location| location.facts) {
            Some(LocationFacts::Directory { free, filesystem }) => {
                let sum = wanted.entry(filesystem).or_insert((free, 0, path));
                sum.1 = sum.1.saturating_add(target.size.get());
            }
            // On which filesystem it will be is not among its facts, so it is held against its own
            // free space.
            Some(LocationFacts::Absent { free }) => alone.push((free, target.size.get(), path)),
            _ => {}
        }
    }
    let all = wanted.into_values().chain(alone);
    all.filter(|(free, sum, _)| *sum > free.get()).map(does_not_fit).collect()
}

fn does_not_fit((free, sum, path): (Bytes, u64, &RawPath)) -> SpecError {
    let sum = Bytes::new(sum);
    SpecError::cannot_measure(format!("the files at '{path}' need {sum}, but {free} is free"))
        .hint("free some space, or shrink them with --scale-size, for example --scale-size 0.1")
}

fn declared(block: &CampaignTargetTable) -> DeclaredLayout {
    let said = block.declared.as_ref();
    DeclaredLayout {
        raid: said.and_then(|said| said.raid.get()),
        members: said.and_then(|said| said.members.get()),
        copies: said.and_then(|said| said.copies.get()),
        replicas: said.and_then(|said| said.replicas.get()),
        sheet: block.sheet.as_ref().map(|sheet| Sheet {
            price: sheet.price.get(),
            currency: sheet.currency.get(),
            random_read_iops: sheet.random_read_iops.get(),
            random_write_iops: sheet.random_write_iops.get(),
            read_bandwidth: sheet.read_bandwidth.get(),
            write_bandwidth: sheet.write_bandwidth.get(),
        }),
    }
}
