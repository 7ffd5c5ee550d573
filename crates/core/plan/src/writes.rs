//! What a plan writes to each target, as far as the plan itself limits it. Time limits nothing: a step
//! in a closed loop writes as fast as the storage accepts.

use durio_base::{Bytes, Nanos};
use serde::Serialize;

use crate::{FileLayout, Limit, Load, Plan, Step, Target, TargetKind, Until};

/// The most that is written to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TargetWrites {
    /// Index of the target in the plan.
    pub target: usize,
    /// By its layout and by all steps and rounds; absent if a step has no limit but time.
    #[serde(rename = "written_max_bytes", skip_serializing_if = "Option::is_none")]
    pub written: Option<Bytes>,
    /// The offered rate, as its mean over a step; absent if anything is written without a rate, as a
    /// layout is.
    // After a stall the writes that are due follow as fast as the storage accepts.
    #[serde(rename = "rate_max_bytes_per_second", skip_serializing_if = "Option::is_none")]
    pub rate: Option<Bytes>,
}

impl Plan {
    /// The most that is written to each target, null targets apart.
    pub fn writes(&self) -> Vec<TargetWrites> {
        let is_storage = |target: &Target| {
            !matches!(target.kind, TargetKind::NullDevice { .. } | TargetKind::Scripted)
        };
        let targets = self.targets.iter().enumerate().filter(|(_, target)| is_storage(target));
        targets.map(|(index, target)| self.target_writes(index, target)).collect()
    }

    fn target_writes(&self, index: usize, target: &Target) -> TargetWrites {
        let layout = match target.kind {
            // Where a filesystem cannot preallocate, zeros are written.
            TargetKind::NewFile { layout, .. } if layout != FileLayout::Empty => target.size,
            _ => Bytes::ZERO,
        };
        let steps = || self.steps.iter().filter(move |step| step.writes_to(index));
        let amounts = steps().map(|step| self.step_written(step, index));
        let written = sum(std::iter::once(Some(layout.get())).chain(amounts));
        let highest = |highest: u64, step: &Step| Some(self.step_rate(step, index)?.max(highest));
        let rate = steps().try_fold(0, highest).filter(|_| layout == Bytes::ZERO);
        TargetWrites { target: index, written: written.map(Bytes::new), rate: rate.map(Bytes::new) }
    }

    /// What a step writes to a target, with all its rounds.
    fn step_written(&self, step: &Step, target: usize) -> Option<u64> {
        let has_rate = !self.is_search(step);
        let loads = step.loads().filter(|load| load.writes_to(target));
        let once = sum(loads.map(|load| load.written_until(step.limit, step.ramp, has_rate)))?;
        let rounds = self.rounds_of(step).map_or(1, |rounds| rounds.max);
        Some(once.saturating_mul(u64::from(rounds)))
    }

    fn step_rate(&self, step: &Step, target: usize) -> Option<u64> {
        let loads = step.loads().filter(|load| load.writes_to(target));
        sum(loads.map(|load| load.write_rate().filter(|_| !self.is_search(step))))
    }

    /// True if each round has a rate that results of earlier rounds decide.
    fn is_search(&self, step: &Step) -> bool {
        let until = self.rounds_of(step).map(|rounds| rounds.until);
        matches!(until, Some(Until::GoalFound { .. }))
    }
}

impl Load {
    /// The most bytes that it writes, to all its targets together.
    fn written_until(&self, step: Limit, ramp: Nanos, has_rate: bool) -> Option<u64> {
        let each = self.written_each_max().get();
        match self.own_limit.unwrap_or(step) {
            Limit::Operations(count) => Some(count.saturating_mul(each)),
            Limit::Volume(volume) | Limit::VolumeWithin { volume, .. } => {
                Some(self.written_for(volume))
            }
            Limit::Duration(time) => {
                let span = Nanos::new(time.get().saturating_add(ramp.get()));
                // Reads are counted as writes: which accesses are writes is drawn by chance.
                let accesses = self.arrivals.count_max(span).filter(|_| has_rate)?;
                Some(accesses.saturating_mul(each))
            }
        }
    }

    /// The most bytes that are written until accesses have this volume.
    fn written_for(&self, volume: Bytes) -> u64 {
        let block = self.workload.block_size.get().max(1);
        if self.workload.has_mix() {
            // Each job finds its end after an access.
            let last = u64::from(self.workload.jobs).saturating_mul(self.written_each_max().get());
            return self.written_max(volume).saturating_add(last);
        }
        self.written_max(Bytes::new(volume.get().div_ceil(block).saturating_mul(block)))
    }

    /// Bytes per second, if every access is a write of the largest size.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and rates are not negative"
    )]
    fn write_rate(&self) -> Option<u64> {
        let accesses = self.arrivals.rate_per_second()?.ceil();
        Some((accesses as u64).saturating_mul(self.written_each_max().get()))
    }
}

/// None if one of them is not limited.
fn sum(mut amounts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    amounts.try_fold(0_u64, |sum, amount| Some(sum.saturating_add(amount?)))
}

#[cfg(test)]
mod tests {
    use durio_workload::{Arrivals, BlockShare, GroupCommit, PerMille, Workload};

    use super::*;
    use crate::{
        Campaign, ClockChoice, EngineKind, Goal, PLAN_SCHEMA, PlanSection, Purpose, Role, Rounds,
        SectionKind, Tracking,
    };

    const SECOND: Nanos = Nanos::from_secs(1);
    const BLOCK: u64 = 4096;

    fn new_file(layout: FileLayout) -> TargetKind {
        TargetKind::NewFile { directory: "/d".into(), file_name: "f".into(), named: false, layout }
    }

    fn plan(kind: TargetKind, steps: Vec<Step>) -> Plan {
        let target = |name: &str, kind| Target {
            name: name.to_owned(),
            location: None,
            kind,
            size: Bytes::from_mib(8),
            destroy: true,
        };
        let null = TargetKind::NullDevice { path: "/dev/zero".into() };
        Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Campaign,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: vec![target("null", null), target("data", kind)],
            steps,
            campaign: None,
            thresholds: Vec::new(),
        }
    }

    /// Random writes of 4 KiB by 2 jobs.
    fn writes(limit: Limit, arrivals: Arrivals) -> Step {
        let block_size = Bytes::new(BLOCK);
        let read_share = PerMille::NONE;
        let workload = Workload { jobs: 2, read_share, block_size, ..Workload::default() };
        let load = Load { arrivals, ..Load::new(1, workload, EngineKind::Sync) };
        Step { ramp: SECOND, ..Step::new(Role::Measure, load, limit, SECOND) }
    }

    fn of_plan(plan: &Plan) -> (Option<u64>, Option<u64>) {
        let [data] = plan.writes()[..] else { panic!("{:?}", plan.writes()) };
        assert_eq!(data.target, 1, "the null target is not storage");
        (data.written.map(Bytes::get), data.rate.map(Bytes::get))
    }

    #[test]
    fn a_layout_is_written_without_a_rate_unless_the_file_starts_empty() {
        let size = Bytes::from_mib(8).get();
        let device = TargetKind::Device { path: "/dev/x".into() };
        for (kind, expected) in [
            (new_file(FileLayout::Incompressible), (Some(size), None)),
            (new_file(FileLayout::ZeroFilled), (Some(size), None)),
            (new_file(FileLayout::Preallocated), (Some(size), None)),
            (new_file(FileLayout::Empty), (Some(0), Some(0))),
            (device, (Some(0), Some(0))),
        ] {
            assert_eq!(of_plan(&plan(kind.clone(), Vec::new())), expected, "{kind:?}");
        }
    }

    #[test]
    fn steps_write_at_most_their_operations_volume_or_arrivals_and_time_limits_nothing() {
        let constant = Arrivals::Constant { rate_per_second: 99.5 };
        let poisson = Arrivals::Poisson { rate_per_second: 100.0 };
        let (volume, duration) = (Bytes::new(3 * BLOCK + 1), Nanos::from_secs(3));
        let rate = Some(100 * BLOCK);
        let rows = [
            (Limit::Operations(5), Arrivals::Closed, Some(5 * BLOCK), None),
            (Limit::Volume(volume), Arrivals::Closed, Some(4 * BLOCK), None),
            (Limit::VolumeWithin { volume, duration }, constant, Some(4 * BLOCK), rate),
            (Limit::Duration(duration), Arrivals::Closed, None, None),
            // 99.5 per second in 4 s with the ramp, and 2.
            (Limit::Duration(duration), constant, Some(400 * BLOCK), rate),
            // 400, 7 standard deviations of 20, and 25.
            (Limit::Duration(duration), poisson, Some(565 * BLOCK), rate),
        ];
        for (limit, arrivals, written, rate) in rows {
            let plan = plan(new_file(FileLayout::Empty), vec![writes(limit, arrivals)]);
            assert_eq!(of_plan(&plan), (written, rate), "{limit:?} {arrivals:?}");
        }
    }

    #[test]
    fn amounts_of_steps_add_up_and_the_highest_rate_counts() {
        let rate = |rate_per_second| Arrivals::Constant { rate_per_second };
        let mut both = writes(Limit::Operations(7), rate(10.0));
        both.beside.push(Load { own_limit: Some(Limit::Operations(2)), ..both.load.clone() });
        let mut reading = writes(Limit::Duration(SECOND), Arrivals::Closed);
        reading.load.workload.read_share = PerMille::ALL;
        let steps = vec![both, writes(Limit::Operations(1), rate(15.0)), reading];
        let plan = plan(new_file(FileLayout::Empty), steps);
        assert_eq!(of_plan(&plan), (Some(10 * BLOCK), Some(20 * BLOCK)));
        let text = serde_json::to_string(&plan.writes()).unwrap();
        let expected =
            r#"[{"target":1,"written_max_bytes":40960,"rate_max_bytes_per_second":81920}]"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn a_mix_writes_one_more_of_its_largest_size_and_a_batch_is_filled_up() {
        let amounts = |change: &dyn Fn(&mut Workload), volume: u64| {
            [Limit::Operations(5), Limit::Volume(Bytes::new(volume))].map(|limit| {
                let mut step = writes(limit, Arrivals::Closed);
                change(&mut step.load.workload);
                of_plan(&plan(new_file(FileLayout::Empty), vec![step])).0
            })
        };
        let share = |size| BlockShare { size: Bytes::new(size), weight: PerMille::ALL };
        let large = 16 * BLOCK;
        // Each of two jobs ends after an access.
        let mixed = [Some(5 * large), Some(10 * BLOCK + 2 * large)];
        let mix = vec![share(BLOCK), share(large)];
        let block_size = Bytes::new(large);
        let set = |workload: &mut Workload| {
            (workload.block_mix, workload.block_size) = (mix.clone(), block_size);
        };
        assert_eq!(amounts(&set, 10 * BLOCK), mixed);
        let set = |workload: &mut Workload| {
            (workload.write_block_mix, workload.block_size) = (mix.clone(), block_size);
        };
        assert_eq!(amounts(&set, 10 * BLOCK), mixed);
        // Three records of 300 bytes are at least 700 bytes, and each may be a batch.
        for (rewrites_tail, each) in [(false, BLOCK), (true, 2 * BLOCK)] {
            let policy = GroupCommit { rewrites_tail, ..GroupCommit::of(3) };
            let set = |workload: &mut Workload| {
                (workload.group_commit, workload.block_size) = (Some(policy), Bytes::new(300));
            };
            assert_eq!(amounts(&set, 700), [Some(5 * each), Some(3 * each)], "{rewrites_tail}");
        }
    }

    #[test]
    fn rounds_multiply_and_a_search_has_no_rate_that_is_known_before() {
        let goal = Goal { percentile: 99.0, latency: Nanos::from_millis(1) };
        let search = Until::GoalFound { goal, precision_per_mille: 50, ceiling_step: None };
        let steady = Until::SteadyState {
            tracked: 0,
            tracking: Tracking::Iops,
            window: 5,
            excursion_per_mille: 200,
            slope_per_mille: 100,
        };
        let constant = Arrivals::Constant { rate_per_second: 100.0 };
        let rows = [
            (steady, Limit::Duration(SECOND), (Some(3 * 202 * BLOCK), Some(100 * BLOCK))),
            (search, Limit::Duration(SECOND), (None, None)),
            (search, Limit::Operations(4), (Some(12 * BLOCK), None)),
        ];
        for (until, limit, expected) in rows {
            let step = Step { section: Some(0), ..writes(limit, constant) };
            let mut plan = plan(new_file(FileLayout::Empty), vec![step]);
            let section = PlanSection {
                name: "s".to_owned(),
                summary: String::new(),
                kind: SectionKind::Single,
                first_step: 0,
                steps: 1,
                rounds: Some(Rounds { max: 3, until }),
                baseline: None,
            };
            plan.campaign = Some(Campaign { sections: vec![section], ..Campaign::default() });
            assert_eq!(of_plan(&plan), expected, "{limit:?}");
        }
    }
}
