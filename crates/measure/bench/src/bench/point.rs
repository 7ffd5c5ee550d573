//! The plan of a point: the spec's workloads on the devices or the mount point that are there.

use std::path::Path;

use durio_base::{Bytes, Nanos};
use durio_block::{HeldTarget, HeldTargets, TargetType};
use durio_command::{CommandError, LocatedPlaces, Permission, locate};
use durio_layers::{BuiltLayer, DeclaredStack};
use durio_plan::{ClockChoice, Limit, Location, LocationFacts, Plan, RawPath, SeveralDevices};
use durio_spec::{CampaignPlan, CampaignRequest, StackBench, plan_campaign};

use super::chosen_stacks;
use crate::campaign::CampaignScale;

/// Which stacks of a spec, and how much of them.
#[derive(Debug, Clone)]
pub struct StackChoice {
    /// Their names; all without one.
    pub only: Vec<String>,
    /// How much of them.
    pub scale: CampaignScale,
    /// Short steps on small devices, whatever `scale` says: see [`StackChoice::scaled_for`].
    pub quick: bool,
}

/// The longest step of a quick bench takes this time.
// A quick check measures a workload for 1.4 s; a bench repeats each workload on every layer.
const QUICK_STEP: Nanos = Nanos::from_secs(1);
/// The smallest devices of a quick bench that are larger in its spec.
// mkfs.xfs refuses less than 300 MiB, and RAID and LVM keep some MiB of what lies below it.
const QUICK_DEVICE: Bytes = Bytes::from_mib(320);

impl StackChoice {
    /// The same with the scale of a quick bench of this spec, if that is wanted: its longest step
    /// takes 1 s, and its smallest device has 320 MiB, unless some stack would be too small then.
    ///
    /// # Errors
    /// If the workloads do not fit a point at full size.
    pub fn scaled_for(&self, bench: &StackBench) -> Result<Self, CommandError> {
        if !self.quick {
            return Ok(self.clone());
        }
        let with = |time_per_mille, size_per_mille| {
            let scale = CampaignScale { time_per_mille, size_per_mille, ..self.scale };
            Self { scale, ..self.clone() }
        };
        let whole = with(1000, 1000);
        let steps = whole.plans(bench)?;
        let steps = steps.iter().flat_map(|point| point.plan.measured_steps());
        let times = steps.filter_map(|step| match step.limit {
            Limit::Duration(time) | Limit::VolumeWithin { duration: time, .. } => Some(time.get()),
            Limit::Operations(_) | Limit::Volume(_) => None,
        });
        let time = times.max().map_or(1000, |longest| per_mille(QUICK_STEP.get(), longest));
        let layers = bench.stacks.iter().flat_map(|stack| &stack.layers);
        let sizes = layers.filter_map(|layer| Some(layer.kind.made()?.size.get()));
        let size = sizes.min().map_or(1000, |least| per_mille(QUICK_DEVICE.get(), least));
        let small = with(time, size);
        Ok(if small.plans(bench).is_ok() { small } else { with(time, 1000) })
    }

    fn plans(&self, bench: &StackBench) -> Result<Vec<PointEstimate>, CommandError> {
        let stacks = chosen_stacks(bench, self)?;
        // Any seed and any clock will do: sizes and times do not depend on them.
        let planning = Planning { bench, choice: self, seed: 0, clock: ClockChoice::Auto };
        estimates(&planning, &stacks)
    }
}

/// `part` in thousandths of `whole`, rounded up; all of it at most.
fn per_mille(part: u64, whole: u64) -> u32 {
    let share = (u128::from(part) * 1000).div_ceil(u128::from(whole.max(1)));
    u32::try_from(share).unwrap_or(1000).clamp(1, 1000)
}

/// What all plans of a bench have in common.
#[derive(Debug, Clone, Copy)]
pub struct Planning<'a> {
    pub bench: &'a StackBench,
    /// What of it, and how much.
    pub choice: &'a StackChoice,
    /// The seed of all random choices.
    pub seed: u64,
    /// The clock of all latencies.
    pub clock: ClockChoice,
}

/// A point before it is there.
#[derive(Debug)]
pub struct PointEstimate {
    pub stack: usize,
    /// Which of its layers.
    pub layer: usize,
    /// The plan on devices or a filesystem of about that size.
    pub plan: Plan,
}

impl PointEstimate {
    /// How long its timed steps take, with their pauses and at most with all rounds.
    pub fn time(&self) -> Nanos {
        self.plan.cost().time
    }
}

impl Planning<'_> {
    /// The plan on a layer that exists: durio made it, or had permission to overwrite the device
    /// below.
    pub(crate) fn plan(
        &self,
        built: &BuiltLayer,
        file_name: String,
    ) -> Result<(Plan, HeldTargets), CommandError> {
        let paths = match &built.mount {
            Some(mount) => vec![mount.clone()],
            // A filesystem stands on all of them; of bare devices the spec says how many.
            None => self.chosen(built.devices.clone()),
        };
        let LocatedPlaces { places, held } = locate(&paths, Permission::Built)?;
        let places = places.into_iter().map(|location| self.place(location)).collect();
        let made = self.made(places, built.mount.is_some(), file_name)?;
        match made.obstacles.into_iter().next() {
            None => Ok((made.plan, held)),
            Some(obstacle) => Err(obstacle),
        }
    }

    fn chosen<T>(&self, mut devices: Vec<T>) -> Vec<T> {
        if self.bench.several_devices == SeveralDevices::One {
            devices.truncate(1);
        }
        devices
    }

    fn place(&self, location: Location) -> Location {
        let facts = match location.facts {
            LocationFacts::Device { size } => LocationFacts::Device {
                size: self.bench.region_of(size, self.choice.scale.size_per_mille),
            },
            other => other,
        };
        Location { facts, destroy: true, ..location }
    }

    fn made(
        &self,
        places: Vec<Location>,
        is_filesystem: bool,
        file_name: String,
    ) -> Result<CampaignPlan, CommandError> {
        plan_campaign(&CampaignRequest {
            spec: self.bench.campaign(is_filesystem).clone(),
            places: vec![places],
            time_scale_per_mille: self.choice.scale.time_per_mille,
            size_scale_per_mille: self.choice.scale.size_per_mille,
            steps_confirmed: self.choice.scale.steps_confirmed,
            seed: self.seed,
            clock: self.clock,
            file_name,
        })
    }

    /// The plan on a layer whose devices will have about these sizes.
    fn estimated(&self, sizes: Vec<Bytes>, is_filesystem: bool) -> Result<Plan, CommandError> {
        let of = |(number, size): (usize, Bytes)| {
            let (path, facts) = match is_filesystem {
                true => ("/mnt".to_owned(), LocationFacts::Directory { free: size, filesystem: 0 }),
                // Names of nothing: only their number and their sizes matter to a plan.
                false => (format!("/dev/{}", number + 1), LocationFacts::Device { size }),
            };
            self.place(Location { path: RawPath::from(path.as_str()), facts, destroy: true })
        };
        let places = self.chosen(sizes).into_iter().enumerate().map(of).collect();
        Ok(self.made(places, is_filesystem, ".durio-plan".to_owned())?.plan)
    }
}

/// The plans of all points that are to be measured, on estimated sizes.
///
/// # Errors
/// If the workloads do not fit a point: nothing needs to be built to know that.
pub fn estimates(
    planning: &Planning<'_>,
    stacks: &[DeclaredStack],
) -> Result<Vec<PointEstimate>, CommandError> {
    let mut all = Vec::new();
    for (stack, declared) in stacks.iter().enumerate() {
        for (layer, sizes) in declared.device_sizes(existing).into_iter().enumerate() {
            let Some(it) = declared.layers.get(layer).filter(|layer| layer.measured) else {
                continue;
            };
            let plan = planning.estimated(sizes, it.kind.is_filesystem()).map_err(|error| {
                error.context(format!("stack '{}', layer {}", declared.name, layer + 1))
            })?;
            all.push(PointEstimate { stack, layer, plan });
        }
    }
    match all.is_empty() {
        false => Ok(all),
        true => Err(CommandError::wrong_use("no layer of any stack is measured")),
    }
}

/// The size of a device that is there; of one that is not, that of a small one.
fn existing(path: &str) -> Option<Bytes> {
    const UNKNOWN: Bytes = Bytes::from_gib(64);
    Some(match HeldTarget::open(Path::new(path)).ok()?.kind() {
        TargetType::BlockDevice(size) => size,
        _ => UNKNOWN,
    })
}
