//! What can be foreseen of a plan before it is run: the upper bound of its time, bytes written and
//! space, as far as the plan determines them; and sequential jobs that walk the same blocks.
//!
//! The jobs of a step are counted that start at the same block of a target. The first to reach a block
//! brings it into a cache or has just written it, so the others do not measure the storage. fio
//! does so by default; durio only where a plan says so.

use std::collections::BTreeMap;

use durio_base::{Bytes, Nanos};
use durio_workload::Pattern;

use crate::step::JobPlace;
use crate::{FileLayout, Limit, Plan, Rounds, Step, TargetKind};

/// What a plan costs at most, with all rounds. Steps that end by operations or bytes take an
/// unknown time, and steps that end by time write as fast as the storage accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Duration of the steps that end by time.
    pub time: Nanos,
    /// Bytes of the laid-out files, and of the steps that end by bytes or operations.
    pub written: Bytes,
    /// Time for which steps that end by time write.
    pub writing: Nanos,
    /// The files to make.
    pub space: Bytes,
}

impl Cost {
    /// Both together, one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let bytes = |a: Bytes, b: Bytes| Bytes::new(a.get().saturating_add(b.get()));
        let nanos = |a: Nanos, b: Nanos| Nanos::new(a.get().saturating_add(b.get()));
        Self {
            time: nanos(self.time, other.time),
            written: bytes(self.written, other.written),
            writing: nanos(self.writing, other.writing),
            // Files of one are gone before those of the other are made.
            space: self.space.max(other.space),
        }
    }
}

impl Plan {
    /// What it costs at most.
    pub fn cost(&self) -> Cost {
        let layout = self.targets.iter().map(|target| match &target.kind {
            TargetKind::NewFile { layout, .. } => {
                let is_written =
                    matches!(layout, FileLayout::Incompressible | FileLayout::ZeroFilled);
                let written = if is_written { target.size } else { Bytes::ZERO };
                Cost { written, space: target.size, ..Cost::default() }
            }
            _ => Cost::default(),
        });
        let layout = layout.fold(Cost::default(), |sum, target| {
            let space = Bytes::new(sum.space.get().saturating_add(target.space.get()));
            Cost { space, ..sum.and(target) }
        });
        // On the virtual clock no time passes, and nothing is written.
        let is_real = |step: &&Step| {
            let scripted = Some(&TargetKind::Scripted);
            let is_scripted =
                |at: usize| self.targets.get(at).map(|target| &target.kind) == scripted;
            !step.loads().flat_map(|load| load.targets()).all(is_scripted)
        };
        let steps = self.steps.iter().filter(is_real).map(|step| {
            let rounds = u64::from(self.rounds_of(step).map_or(1, |rounds| rounds.max));
            let time = Nanos::new(step.span().get().saturating_mul(rounds));
            let (written, writing) = match step.write_bytes_max() {
                Some(bytes) => (Bytes::new(bytes.get().saturating_mul(rounds)), Nanos::ZERO),
                None => (Bytes::ZERO, time),
            };
            Cost { time, written, writing, space: Bytes::ZERO }
        });
        steps.fold(layout, Cost::and)
    }

    /// The rounds in which a step is repeated.
    pub fn rounds_of(&self, step: &Step) -> Option<&Rounds> {
        self.section_of(step)?.rounds.as_ref()
    }
}

impl Step {
    /// The time of one round that is known before: only the pause, if the step ends by bytes or
    /// operations.
    pub fn span(&self) -> Nanos {
        let limit = match self.limit {
            Limit::Duration(span) | Limit::VolumeWithin { duration: span, .. } => {
                span.get().saturating_add(self.ramp.get())
            }
            Limit::Operations(_) | Limit::Volume(_) => 0,
        };
        Nanos::new(limit.saturating_add(self.pause_before.get()))
    }
}

/// Jobs that walk a target together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedWalk {
    /// Index of the target.
    pub target: usize,
    /// How many, at least two: the most that begin at one block.
    pub jobs: u32,
}

impl Plan {
    /// The targets that several sequential jobs of `step` walk from the same block on, ascending.
    pub fn shared_walks(&self, step: &Step) -> Vec<SharedWalk> {
        let mut begins: BTreeMap<(usize, Bytes), u32> = BTreeMap::new();
        // Random jobs meet at a block by chance alone.
        for load in step.loads().filter(|load| load.workload.pattern == Pattern::Sequential) {
            for job in 0..load.workload.jobs {
                let JobPlace { place, sharers, .. } = load.place_of(job);
                for index in load.targets_of(job) {
                    let Some(target) = self.targets.get(index) else { continue };
                    let region = load.workload.region_among(place, sharers, target.size);
                    // A null target has no cache that could be warm.
                    if let (true, Ok(region)) = (is_storage(&target.kind), region) {
                        *begins.entry((index, region.offset)).or_default() += 1;
                    }
                }
            }
        }
        let mut walks: BTreeMap<usize, u32> = BTreeMap::new();
        // One warning per target is enough: the one for its most walked block.
        for ((target, _), jobs) in begins.into_iter().filter(|(_, jobs)| *jobs > 1) {
            let most = walks.entry(target).or_default();
            *most = jobs.max(*most);
        }
        walks.into_iter().map(|(target, jobs)| SharedWalk { target, jobs }).collect()
    }
}

fn is_storage(kind: &TargetKind) -> bool {
    !matches!(kind, TargetKind::NullDevice { .. } | TargetKind::Scripted)
}

#[cfg(test)]
mod tests {
    use durio_workload::{RegionRule, Workload};

    use super::*;
    use crate::{ClockChoice, EngineKind, Load, PLAN_SCHEMA, Purpose, RawPath, Role, Target};

    fn walks(workload: Workload, paths: usize) -> Vec<u32> {
        let kind = TargetKind::Device { path: RawPath::from("/dev/x") };
        let target = |_| Target {
            name: "d".to_owned(),
            location: None,
            kind: kind.clone(),
            size: Bytes::from_mib(64),
            destroy: false,
        };
        let more_targets = (1..paths).collect();
        let load = Load { more_targets, ..Load::new(0, workload, EngineKind::Sync) };
        let limit = Limit::Duration(Nanos::from_secs(1));
        let step = Step::new(Role::Measure, load, limit, Nanos::from_secs(1));
        let plan = Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Run,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: (0..paths).map(target).collect(),
            steps: vec![step.clone()],
            campaign: None,
            thresholds: Vec::new(),
        };
        plan.shared_walks(&step).iter().map(|walk| walk.jobs).collect()
    }

    #[test]
    fn only_sequential_jobs_from_one_block_of_one_target_walk_it_together() {
        let of = |region, pattern| Workload { jobs: 4, region, pattern, ..Workload::default() };
        let shared = of(RegionRule::Shared, Pattern::Sequential);
        assert_eq!(walks(shared.clone(), 1), [4]);
        assert_eq!(walks(shared.clone(), 2), [2, 2]);
        assert!(walks(shared, 4).is_empty());
        assert!(walks(of(RegionRule::ShareEach, Pattern::Sequential), 1).is_empty());
        assert!(walks(of(RegionRule::Shared, Pattern::Random), 1).is_empty());
        let apart = RegionRule::OffsetEach { by: Bytes::from_mib(1) };
        assert!(walks(of(apart, Pattern::Sequential), 1).is_empty());
        let together = RegionRule::OffsetEach { by: Bytes::ZERO };
        assert_eq!(walks(of(together, Pattern::Sequential), 1), [4]);
    }

    fn plan(targets: Vec<TargetKind>, steps: Vec<Step>) -> Plan {
        let targets = (1..).zip(targets).map(|(mib, kind)| Target {
            name: "data".into(),
            location: None,
            kind,
            size: Bytes::from_mib(mib),
            destroy: false,
        });
        Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Campaign,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: targets.collect(),
            steps,
            campaign: None,
            thresholds: Vec::new(),
        }
    }

    #[test]
    fn one_after_the_other_takes_both_times_and_the_larger_space() {
        let of = |time, written, writing, space| Cost {
            time: Nanos::new(time),
            written: Bytes::new(written),
            writing: Nanos::new(writing),
            space: Bytes::new(space),
        };
        let (first, second) = (of(1, 10, 3, 7), of(2, 20, 4, 5));
        assert_eq!(first.and(second), of(3, 30, 7, 7));
        assert_eq!(second.and(first), of(3, 30, 7, 7));
        let most = of(u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(most.and(first), most);
    }

    #[test]
    fn all_files_of_a_plan_are_there_at_once_and_not_all_are_written() {
        let new = |layout| TargetKind::NewFile {
            directory: "/d".into(),
            file_name: "f".into(),
            named: false,
            layout,
        };
        // Of 1, 2, 3, 4 and 5 MiB.
        let targets = vec![
            new(FileLayout::Incompressible),
            new(FileLayout::ZeroFilled),
            new(FileLayout::Preallocated),
            new(FileLayout::Empty),
            TargetKind::ExistingFile { path: "/d/x".into() },
        ];
        let cost = plan(targets, Vec::new()).cost();
        assert_eq!((cost.written, cost.space), (Bytes::from_mib(3), Bytes::from_mib(10)));
        assert_eq!((cost.time, cost.writing), (Nanos::ZERO, Nanos::ZERO));
    }

    #[test]
    fn a_step_takes_its_pause_its_ramp_and_its_time_unless_its_clock_is_virtual() {
        let load = || Load::new(0, Workload::default(), EngineKind::Null);
        let second = Nanos::from_secs(1);
        let step = |limit| Step {
            ramp: Nanos::from_secs(2),
            pause_before: Nanos::from_secs(4),
            ..Step::new(Role::Measure, load(), limit, second)
        };
        let volume = Bytes::from_mib(1);
        let duration = Nanos::from_secs(10);
        let rows = [
            (Limit::Duration(duration), 16),
            (Limit::VolumeWithin { volume, duration }, 16),
            (Limit::Operations(5), 4),
            (Limit::Volume(volume), 4),
        ];
        for (limit, seconds) in rows {
            assert_eq!(step(limit).span(), Nanos::from_secs(seconds), "{limit:?}");
            let device = TargetKind::Device { path: "/dev/x".into() };
            let cost = plan(vec![device], vec![step(limit), step(limit)]).cost();
            assert_eq!(cost.time, Nanos::from_secs(2 * seconds), "{limit:?}");
            let scripted = plan(vec![TargetKind::Scripted], vec![step(limit)]).cost();
            assert_eq!((scripted.time, scripted.written), (Nanos::ZERO, Bytes::ZERO));
        }
    }
}
