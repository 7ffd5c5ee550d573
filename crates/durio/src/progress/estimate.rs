//! When a run ends: the rest of its plan, at the pace so far.
//!
//! The time of a run is divided among its steps and the layout of its files: the time from the end of
//! one step or piece of a file to the end of the next belongs to the latter. Timed steps and steps that
//! may end earlier have separate paces; files have a bandwidth.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use durio_base::{Bytes, Nanos};
use durio_plan::{FileLayout, Limit, Plan, Role, Step, TargetKind};
use durio_report::clock;

/// Planned seconds before the pace of the first steps counts in full: one slow step says little.
const PRIOR_SECONDS: f64 = 2.0;

/// The past of a run; times are since its start.
#[derive(Debug, Default)]
pub(super) struct RunEstimate {
    /// The end of the latest step or piece of a file.
    mark: Duration,
    /// By whether a step may end before its time.
    steps: [Pace; 2],
    files: Pace,
    laid_out: BTreeMap<usize, u64>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Pace {
    planned: f64,
    seconds: f64,
}

impl RunEstimate {
    /// `written` bytes of a target are there.
    pub(super) fn laid_out(&mut self, target: usize, written: Bytes, now: Duration) {
        let before = self.laid_out.insert(target, written.get()).unwrap_or(0);
        self.files.planned += bytes(written.get().saturating_sub(before));
        self.files.seconds += self.passed(now);
    }

    /// A step has ended.
    pub(super) fn step_ended(&mut self, step: &Step, now: Duration) {
        let seconds = self.passed(now);
        let planned = step.span().as_secs_f64();
        // Others have no planned time, and durio's own cost takes what it takes, so neither has a pace.
        if planned > 0.0 && step.role != Role::SelfCost {
            let pace = &mut self.steps[usize::from(may_end_early(step))];
            pace.planned += planned;
            pace.seconds += seconds;
        }
    }

    /// Sets the mark; the seconds since the last one.
    pub(super) fn passed(&mut self, now: Duration) -> f64 {
        let seconds = now.saturating_sub(self.mark).as_secs_f64();
        self.mark = now;
        seconds
    }

    /// `12 s of about 30 s` with `into` of a step of a round done; `None` without a known time.
    pub(super) fn words(
        &self,
        plan: &Plan,
        (index, round): (u32, u32),
        into: Nanos,
        now: Duration,
    ) -> Option<String> {
        let steps = planned_left(plan, (index, round), into, |step| self.factor(step))?;
        let expected = now.as_secs_f64() + steps + self.files_left(plan, index)?;
        let has_rounds =
            plan.steps.iter().skip(index as usize).any(|step| plan.rounds_of(step).is_some());
        // A steady state ends its rounds earlier.
        let about = if has_rounds { "at most" } else { "about" };
        Some(format!("{} of {about} {}", whole(now.as_secs_f64()), whole(expected)))
    }

    /// How much longer such a step takes than planned.
    fn factor(&self, step: &Step) -> f64 {
        let Pace { planned, seconds } = self.steps[usize::from(may_end_early(step))];
        (seconds + PRIOR_SECONDS) / (planned + PRIOR_SECONDS)
    }

    /// The seconds to write the remaining files of the steps from `index` on; `None` before the first.
    fn files_left(&self, plan: &Plan, index: u32) -> Option<f64> {
        let steps = plan.steps.iter().filter(|step| step.index >= index);
        let targets: BTreeSet<usize> =
            steps.flat_map(|step| step.loads().flat_map(|load| load.targets())).collect();
        let left = targets.into_iter().map(|target| {
            let done = self.laid_out.get(&target).copied().unwrap_or(0);
            written_size(plan, target).saturating_sub(done)
        });
        match left.fold(0, u64::saturating_add) {
            0 => Some(0.0),
            left => (self.files.planned > 0.0)
                .then(|| bytes(left) * self.files.seconds / self.files.planned),
        }
    }
}

/// True for a step whose time is a limit.
const fn may_end_early(step: &Step) -> bool {
    matches!(step.limit, Limit::VolumeWithin { .. })
}

/// The bytes that the layout of a target writes.
fn written_size(plan: &Plan, target: usize) -> u64 {
    let Some(target) = plan.targets.get(target) else { return 0 };
    match &target.kind {
        TargetKind::NewFile {
            layout: FileLayout::Incompressible | FileLayout::ZeroFilled, ..
        } => target.size.get(),
        _ => 0,
    }
}

/// The plan's remaining seconds with `into` of a step done, each step by its factor; `None` if no step's
/// time is known.
fn planned_left(
    plan: &Plan,
    (index, round): (u32, u32),
    into: Nanos,
    factor: impl Fn(&Step) -> f64,
) -> Option<f64> {
    let current = plan.steps.get(index as usize)?;
    let rounds = |step: &Step| plan.rounds_of(step).map_or(1, |rounds| rounds.max);
    let left = plan.steps.iter().map(|step| {
        let is_of_round = step.section == current.section && plan.rounds_of(step).is_some();
        let times = match (step.index > index, is_of_round) {
            (true, true) => rounds(step).saturating_sub(round),
            (true, false) => rounds(step),
            (false, true) => rounds(step).saturating_sub(round.saturating_add(1)),
            (false, false) => 0,
        };
        step.span().as_secs_f64() * f64::from(times) * factor(step)
    });
    let rest = current.span().saturating_sub(into).as_secs_f64() * factor(current);
    let is_known = plan.steps.iter().any(|step| step.span() > Nanos::ZERO);
    is_known.then(|| left.sum::<f64>() + rest)
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
const fn bytes(count: u64) -> f64 {
    count as f64
}

fn whole(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
    let seconds = seconds.round() as u64;
    if seconds == 0 { "0 s".to_owned() } else { clock(Nanos::from_secs(seconds)) }
}

#[cfg(test)]
mod tests {
    use durio_plan::Target;
    use testkit::plans::campaign;

    use super::*;

    /// A step of 1 s, two of 2 s and 4 s that are repeated up to three times, and one of 8 s.
    fn plan(limit: fn(Nanos) -> Limit) -> Plan {
        let steps = [(0, 1), (1, 2), (1, 4), (2, 8)]
            .map(|(section, seconds)| (section, Role::Measure, limit(Nanos::from_secs(seconds))));
        campaign(&steps, 1, 3)
    }

    fn file(size: Bytes, layout: FileLayout) -> Target {
        let kind = TargetKind::NewFile {
            directory: "/d".into(),
            file_name: "f".into(),
            named: false,
            layout,
        };
        Target { name: "log".into(), location: None, kind, size, destroy: false }
    }

    #[test]
    fn what_is_left_is_the_rest_of_the_step_and_of_the_rounds_and_what_follows() {
        let plan = plan(Limit::Duration);
        // The step, its round, the seconds into it, and those that are left.
        let rows = [
            (0, 0, 0, Some(1.0 + 3.0 * 6.0 + 8.0)),
            (1, 0, 1, Some(1.0 + 4.0 + 2.0 * 6.0 + 8.0)),
            (1, 2, 0, Some(2.0 + 4.0 + 8.0)),
            (2, 1, 4, Some(6.0 + 8.0)),
            (2, 2, 0, Some(4.0 + 8.0)),
            (3, 0, 10, Some(0.0)),
            (4, 0, 0, None),
        ];
        for (index, round, into, left) in rows {
            let found = planned_left(&plan, (index, round), Nanos::from_secs(into), |_| 1.0);
            assert_eq!(found, left, "{index} {round} {into}");
        }
        let slow = |step: &Step| if step.index == 3 { 2.5 } else { 1.0 };
        assert_eq!(planned_left(&plan, (2, 2), Nanos::from_secs(1), slow), Some(3.0 + 20.0));
    }

    #[test]
    fn steps_that_do_not_end_by_time_say_nothing_of_it() {
        let plan = plan(|_| Limit::Operations(1));
        assert_eq!(planned_left(&plan, (0, 0), Nanos::ZERO, |_| 1.0), None);
    }

    #[test]
    fn the_end_is_the_same_at_every_moment_of_a_run_with_even_pauses_and_files() {
        let mut plan = plan(Limit::Duration);
        plan.campaign = None;
        plan.targets = vec![
            file(Bytes::from_mib(100), FileLayout::Incompressible),
            file(Bytes::from_mib(50), FileLayout::ZeroFilled),
            file(Bytes::from_mib(70), FileLayout::Preallocated),
        ];
        plan.steps[1].load.target = 2;
        plan.steps[3].load.target = 1;
        let mut estimate = RunEstimate::default();
        let at = Duration::from_secs;
        let words = |estimate: &RunEstimate, index, into, now| {
            estimate.words(&plan, (index, 0), Nanos::from_secs(into), at(now))
        };
        assert_eq!(words(&estimate, 0, 0, 0), None, "how fast files are written is not known");
        // 25 MiB per second: 4 s now, and 2 s for the second file before the last step.
        estimate.laid_out(0, Bytes::from_mib(50), at(2));
        estimate.laid_out(0, Bytes::from_mib(100), at(4));
        assert_eq!(words(&estimate, 0, 0, 4).as_deref(), Some("4 s of about 21 s"));
        estimate.step_ended(&plan.steps[0], at(5));
        assert_eq!(words(&estimate, 1, 0, 5).as_deref(), Some("5 s of about 21 s"));
        assert_eq!(words(&estimate, 1, 1, 6).as_deref(), Some("6 s of about 21 s"));
        // In the middle of a long step, whose time is not yet counted as that of the steps before it.
        estimate.step_ended(&plan.steps[1], at(7));
        assert_eq!(words(&estimate, 2, 3, 10).as_deref(), Some("10 s of about 21 s"));
        estimate.step_ended(&plan.steps[2], at(11));
        estimate.laid_out(1, Bytes::from_mib(50), at(13));
        assert_eq!(words(&estimate, 3, 8, 21).as_deref(), Some("21 s of about 21 s"));
    }

    #[test]
    fn steps_that_take_longer_or_end_earlier_have_a_pace_of_their_own() {
        let mut plan = plan(Limit::Duration);
        plan.campaign = None;
        for step in [0, 3] {
            let duration = plan.steps[step].span();
            plan.steps[step].limit = Limit::VolumeWithin { volume: Bytes::from_mib(1), duration };
        }
        let mut estimate = RunEstimate::default();
        // Planned 1 s, and over at once: (0 + 2) ÷ (1 + 2) of each such step.
        estimate.step_ended(&plan.steps[0], Duration::ZERO);
        // Planned 2 s, took 6: (6 + 2) ÷ (2 + 2).
        estimate.step_ended(&plan.steps[1], Duration::from_secs(6));
        // 6 + 4 × 2 + 8 × 2 ÷ 3.
        let words = estimate.words(&plan, (2, 0), Nanos::ZERO, Duration::from_secs(6));
        assert_eq!(words.as_deref(), Some("6 s of about 19 s"));
        // A declined step takes nothing from the pace of others.
        estimate.passed(Duration::from_secs(9));
        estimate.step_ended(&plan.steps[2], Duration::from_secs(13));
        let words = estimate.words(&plan, (3, 0), Nanos::from_secs(8), Duration::from_secs(13));
        assert_eq!(words.as_deref(), Some("13 s of about 13 s"));
    }
}
