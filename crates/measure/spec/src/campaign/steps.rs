//! Blocks of a spec to sections and steps, and what ends the rounds of a section.

use durio_base::{Bytes, Nanos};
use durio_plan::{
    Limit, Load, ParameterValue, PlanSection, Role, Rounds, SectionKind, Step, Target, Tracking,
    Until,
};
use durio_workload::PerMille;

use super::axes::{AxisPoint, SweepAxis, axes, no_axis, words};
use super::file::CampaignSpec;
use super::file::{
    JobCount, LimitSettings, LoadSettings, Over, PointSettings, RoundsTable, StepTable,
};
use super::load::load;
use super::targets::TargetGroup;
use crate::table::value::{SpecTime, TimeScale};
use crate::table::{OptionalValue, PlacedValue, SpecText};
use crate::{DURATION_MAX, INTERVALS_MAX, SpecError, interval_for, intervals};

const DURATION_DEFAULT: Nanos = Nanos::from_secs(60);

/// What every step is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepContext<'a> {
    pub(crate) spec: &'a CampaignSpec,
    pub(crate) targets: &'a [Target],
    pub(crate) groups: &'a [TargetGroup],
    pub(crate) scale: TimeScale,
}

/// The sections and steps made so far.
#[derive(Debug, Default)]
pub(crate) struct CampaignParts {
    pub(crate) sections: Vec<PlanSection>,
    pub(crate) steps: Vec<Step>,
    /// Places of the steps whose operations are to be followed.
    pub(crate) followed: Vec<usize>,
}

/// A block with its axes; the first `outer` of them make sections.
#[derive(Debug)]
pub(crate) struct StepLadder<'a> {
    pub(crate) is_precondition: bool,
    pub(crate) block: &'a PlacedValue<StepTable>,
    pub(crate) defaults: PointSettings,
    pub(crate) axes: Vec<SweepAxis>,
    outer: usize,
    map: Option<(String, String)>,
}

impl<'a> StepLadder<'a> {
    /// The ladder of a block.
    pub(crate) fn new(
        spec: &'a CampaignSpec,
        is_precondition: bool,
        block: &'a PlacedValue<StepTable>,
        scale: TimeScale,
    ) -> Result<Self, SpecError> {
        let mut defaults = spec.file.defaults();
        if is_precondition {
            // Preconditioning does not depend on the later sweep.
            defaults = defaults.pick(&|_| None);
        }
        let mut axes = axes(spec.source(), block, &defaults, scale)?;
        let map = map_axes(spec, block, &axes)?;
        let outer = match &map {
            // A round is all combinations: SNIA's test of IOPS runs every mix at every size before
            // it repeats, and judges the state by one of them.
            _ if is_precondition || block.rounds.is_some() => 0,
            Some((x, y)) => {
                axes.sort_by_key(|axis| axis.name == *x || axis.name == *y);
                axes.len() - 2
            }
            None => axes.len().saturating_sub(1),
        };
        Ok(Self { is_precondition, block, defaults, axes, outer, map })
    }

    /// Points of all axes, with repeats; more than any number counts as that.
    pub(crate) fn steps(&self) -> u64 {
        let lengths = self.axes.iter().map(|axis| axis.len() as u64);
        lengths.fold(u64::from(self.repeats()), u64::saturating_mul)
    }

    /// The names of the targets that a load of this ladder works on; `first` without any.
    pub(crate) fn targets_named_by<'b>(
        &'b self,
        load: &'b LoadSettings,
        first: &'b str,
    ) -> Vec<&'b str> {
        let loads = [load, &self.block.settings.load, &self.defaults.load];
        let named = loads.into_iter().find_map(|load| load.target.one());
        named.map_or(vec![first], |names| names.iter().collect())
    }

    /// What holds at a point of it.
    pub(crate) fn at<'p>(&self, point: &'p AxisPoint<'p>) -> At<'p> {
        let own = point.own(self.block);
        let is_own_ramp = own.step.ramp.one().is_some();
        At { point, is_own_ramp, all: point.settings(&own, &self.defaults) }
    }

    /// The names of its sections.
    pub(crate) fn section_names(&self) -> Vec<String> {
        let points: Vec<_> = AxisPoint::all(&self.axes).collect();
        let sections = points.chunk_by(|a, b| a.outer(self.outer) == b.outer(self.outer));
        sections.filter_map(<[_]>::first).map(|point| self.section_name(point)).collect()
    }

    /// The jobs of its points, if they vary.
    pub(crate) fn jobs(&self) -> Vec<u32> {
        let (own, rows) = (&self.block.settings.load.jobs, &self.block.points);
        let jobs = own.or(&self.defaults.load.jobs);
        let swept = jobs.values().iter().filter(|_| self.axes.iter().any(|axis| axis.is_of(&jobs)));
        // Rows of points are a ladder over jobs as well, though no list stands at the key.
        let in_rows = rows.iter().filter_map(|row| row.load.jobs.one());
        swept.chain(in_rows).copied().collect()
    }

    fn section_name(&self, point: &AxisPoint<'_>) -> String {
        let name = &self.block.name.0;
        match point.outer_words(self.outer) {
            words if words.is_empty() => name.clone(),
            words => format!("{name}, {words}"),
        }
    }

    fn repeats(&self) -> u32 {
        let own = &self.block.settings.step.repeats;
        let repeats = match self.is_precondition {
            // The defaults' repeats are for the scatter of results, which conditioning does not
            // have.
            true => own.get(),
            false => own.or(&self.defaults.step.repeats).get(),
        };
        repeats.unwrap_or(1).max(1)
    }

    fn kind(&self) -> SectionKind {
        match (&self.map, self.axes.last()) {
            _ if self.is_precondition => SectionKind::Precondition,
            (Some((x, y)), _) => SectionKind::Map { x: x.clone(), y: y.clone() },
            // A curve needs numbers on one axis: with rounds all combinations are in one section
            // and make none.
            (None, Some(axis)) if axis.is_numeric && self.axes.len() - self.outer == 1 => {
                SectionKind::Ladder { axis: axis.leading_key().to_owned() }
            }
            _ => SectionKind::Single,
        }
    }
}

fn map_axes(
    spec: &CampaignSpec,
    block: &PlacedValue<StepTable>,
    axes: &[SweepAxis],
) -> Result<Option<(String, String)>, SpecError> {
    let source = spec.source();
    let named = |axis: &OptionalValue<String>| match axis.get() {
        Some(name) if !axes.iter().any(|axis| axis.name == name) => {
            Err(no_axis(source, axis.at, &name, axes))
        }
        name => Ok(name),
    };
    match (named(&block.x)?, named(&block.y)?) {
        (None, None) => Ok(None),
        (Some(x), Some(y)) if x != y => Ok(Some((x, y))),
        _ => Err(source.error(block.at, "a map needs two different axes, x and y")),
    }
}

/// A point with its settings.
pub(crate) struct At<'a> {
    point: &'a AxisPoint<'a>,
    /// True if the ramp is not one of the defaults.
    is_own_ramp: bool,
    pub(crate) all: PointSettings,
}

impl<'a> StepContext<'a> {
    /// Adds the sections and steps of a ladder.
    pub(crate) fn add(
        self,
        ladder: &StepLadder<'_>,
        made: &mut CampaignParts,
    ) -> Result<(), SpecError> {
        let variants: Vec<Option<usize>> = match ladder.block.over.get() {
            Some(Over::OneByOne) => {
                self.members(&self.named(ladder)).into_iter().map(Some).collect()
            }
            Some(Over::Together) | None => vec![None],
        };
        for only in variants {
            let points: Vec<AxisPoint<'_>> = AxisPoint::all(&ladder.axes).collect();
            for section in points.chunk_by(|a, b| a.outer(ladder.outer) == b.outer(ladder.outer)) {
                self.add_section(ladder, section, only, made)?;
            }
        }
        Ok(())
    }

    fn add_section(
        self,
        ladder: &StepLadder<'_>,
        points: &[AxisPoint<'_>],
        only: Option<usize>,
        made: &mut CampaignParts,
    ) -> Result<(), SpecError> {
        let Some(first_point) = points.first() else { return Ok(()) };
        let name = ladder.section_name(first_point);
        let first_step = made.steps.len();
        let number = u32::try_from(made.sections.len()).unwrap_or(u32::MAX);
        for repeat in 0..ladder.repeats() {
            for point in points {
                let at = ladder.at(point);
                let step = self.step(ladder, &at, &name, only)?;
                if at.all.step.trace_path.get() == Some(true) {
                    made.followed.push(made.steps.len());
                }
                made.steps.push(Step { repeat, section: Some(number), ..step });
            }
        }
        let steps = &made.steps[first_step..];
        let rounds = rounds(self.spec.source(), ladder, points, steps)?;
        let steps = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        made.sections.push(PlanSection {
            name,
            summary: ladder.block.summary.get().unwrap_or_default(),
            kind: ladder.kind(),
            first_step: u32::try_from(first_step).unwrap_or(u32::MAX),
            steps,
            rounds,
            baseline: self.baseline(ladder.block, only),
        });
        Ok(())
    }

    /// The name of the baseline's first target, unless the step measures the baseline itself.
    fn baseline(self, block: &StepTable, only: Option<usize>) -> Option<String> {
        let name = block.baseline.one()?;
        let group = self.groups.iter().find(|group| group.name == *name)?;
        let is_itself = only.is_some_and(|only| group.members.contains(&only));
        let first = group.members.first().filter(|_| !is_itself)?;
        self.targets.get(*first).map(|target| target.name.clone())
    }

    /// The groups that a ladder names; the first one if none.
    fn named(self, ladder: &StepLadder<'_>) -> Vec<&'a TargetGroup> {
        let first = self.groups.first().map_or("", |group| &group.name);
        self.groups_of(&ladder.targets_named_by(&ladder.block.settings.load, first))
    }

    fn groups_of(self, names: &[&str]) -> Vec<&'a TargetGroup> {
        let group = |name: &&str| self.groups.iter().find(|group| group.name == *name);
        names.iter().filter_map(group).collect()
    }

    fn members(self, groups: &[&TargetGroup]) -> Vec<usize> {
        groups.iter().flat_map(|group| group.members.iter().copied()).collect()
    }

    /// The members that a load works on.
    fn members_for(
        self,
        groups: &[&TargetGroup],
        only: Option<usize>,
        load: &LoadSettings,
    ) -> Vec<usize> {
        let jobs = load.jobs.get().unwrap_or(1);
        let in_total = load.jobs_are.get() != Some(JobCount::PerTarget);
        let is_limited =
            groups.iter().any(|group| group.is_per_job || (group.may_be_few && in_total));
        let mut members = only.map_or_else(|| self.members(groups), |only| vec![only]);
        if is_limited && only.is_none() {
            // There are files for the step with the most jobs; one with fewer leaves the last ones
            // alone.
            members.truncate(jobs.max(1) as usize);
        }
        members
    }

    fn step(
        self,
        ladder: &StepLadder<'_>,
        at: &At<'_>,
        section: &str,
        only: Option<usize>,
    ) -> Result<Step, SpecError> {
        let levels = at.point.levels(ladder.outer);
        let name = full_name(section, &levels);
        let fail = |reason: String| {
            self.spec.source().error(ladder.block.at, format!("step '{name}': {reason}"))
        };
        let said = &at.all.step;
        let members = self.members_for(&self.named(ladder), only, &at.all.load);
        let summary = ladder.block.summary.get().unwrap_or_default();
        // The levels are shown next to the name.
        let main = load(&at.all.load, section, &summary, &members, self.targets).map_err(fail)?;
        let beside = self.beside(ladder, at.point, &members).map_err(fail)?;
        let whole: u64 = members.iter().map(|&member| self.targets[member].size.get()).sum();
        let whole = Bytes::new(whole);
        let role = if ladder.is_precondition { Role::Precondition } else { Role::Measure };
        let step = self.timed(at, role, main, whole).map_err(fail)?;
        Ok(Step {
            beside,
            first_job_ends_all: said.first_job_ends_all.get() == Some(true),
            memory_bound: said.memory_bound.get().map(|amount| self.scale.amount(amount, whole)),
            read_ahead: said.read_ahead.get(),
            drop_cache: said.drop_cache.get() == Some(true),
            pause_before: said.pause.get().map_or(Nanos::ZERO, |pause| self.scale.time(pause.0)),
            levels,
            ..step
        })
    }

    fn beside(
        self,
        ladder: &StepLadder<'_>,
        point: &AxisPoint<'_>,
        members: &[usize],
    ) -> Result<Vec<Load>, String> {
        let of = |table: &PlacedValue<_>| {
            let settings = point.beside(table, &ladder.defaults);
            let own = table.load.target.one().map(|names| names.iter().collect::<Vec<_>>());
            let own = own.map(|names| self.members_for(&self.groups_of(&names), None, &settings));
            let (name, own) = (&table.name.0, own.unwrap_or_else(|| members.to_vec()));
            load(&settings, name, "", &own, self.targets)
                .map_err(|reason| format!("beside '{name}': {reason}"))
        };
        ladder.block.beside.iter().map(of).collect()
    }

    /// The step with its limit, ramp and intervals.
    fn timed(self, at: &At<'_>, role: Role, load: Load, whole: Bytes) -> Result<Step, String> {
        let limit = self.limit(&at.all.limit, whole)?;
        let ramp = self.ramp(at, limit)?;
        let wanted = at.all.step.interval.get().map(|SpecTime(interval)| interval);
        if wanted.is_some_and(|interval| interval < Nanos::from_millis(1)) {
            return Err("intervals under 1 ms cost more than they reveal".to_owned());
        }
        let interval = match limit {
            Limit::Duration(duration) => {
                let usual = interval_for(duration, ramp);
                // A shortened run (--scale-time) may be shorter than an interval of its spec.
                wanted.filter(|wanted| *wanted <= duration).unwrap_or(usual)
            }
            // The time is unknown: a second, as for the longest steps.
            Limit::Operations(_) | Limit::Volume(_) | Limit::VolumeWithin { .. } => {
                wanted.unwrap_or(Nanos::from_secs(1))
            }
        };
        if let Limit::Duration(duration) = limit
            && intervals(duration, ramp, interval) > INTERVALS_MAX
        {
            return Err(format!(
                "{duration} in intervals of {interval} is more than {INTERVALS_MAX}"
            ));
        }
        Ok(Step { ramp, ..Step::new(role, load, limit, interval) })
    }

    fn limit(self, said: &LimitSettings, whole: Bytes) -> Result<Limit, String> {
        let names: Vec<&str> = said
            .fields()
            .iter()
            .filter(|(_, setting)| setting.is_said())
            .map(|(name, _)| *name)
            .collect();
        if let [first, second, ..] = names[..] {
            return Err(format!("'{first}' and '{second}' both set its end; give one"));
        }
        let limit = if let Some(amount) = said.volume.get() {
            Limit::Volume(self.scale.amount(amount, whole))
        } else if let Some(count) = said.loops.get() {
            let bytes = whole.get().checked_mul(count.into());
            Limit::Volume(Bytes::new(bytes.ok_or("too many loops")?))
        } else if let Some(count) = said.operations.get() {
            Limit::Operations(count.into())
        } else {
            let span = said.duration.get().map_or(DURATION_DEFAULT, |SpecTime(span)| span);
            Limit::Duration(self.scale.time(span))
        };
        match limit {
            Limit::Duration(span) if span < Nanos::from_millis(1) || span > DURATION_MAX => {
                Err(format!("a duration must be between 1 ms and a month, not {span}"))
            }
            Limit::Operations(0) | Limit::Volume(Bytes::ZERO) => Err("it does nothing".to_owned()),
            limit => Ok(limit),
        }
    }

    // Only steps bounded by time have a ramp; a default ramp is meant for such steps.
    fn ramp(self, at: &At<'_>, limit: Limit) -> Result<Nanos, String> {
        match (limit, at.all.step.ramp.get()) {
            (_, None) => Ok(Nanos::ZERO),
            (Limit::Duration(_), Some(SpecTime(ramp))) if ramp > DURATION_MAX => {
                Err(format!("a ramp of {ramp} is longer than a month"))
            }
            (Limit::Duration(_), Some(SpecTime(ramp))) => Ok(self.scale.time(ramp)),
            (_, Some(SpecTime(ramp))) if at.is_own_ramp && ramp > Nanos::ZERO => {
                Err("a ramp needs a duration: a volume counts from the first operation".to_owned())
            }
            _ => Ok(Nanos::ZERO),
        }
    }
}

fn full_name(section: &str, levels: &[ParameterValue]) -> String {
    match words(levels) {
        words if words.is_empty() => section.to_owned(),
        words => format!("{section}, {words}"),
    }
}

// SNIA Solid State Storage Performance Test Specification 2.0.2 (2020): at most 25 rounds, the last
// five of which are judged: excursion at most 20 %, slope of the fitted line at most 10 %.
const ROUNDS_MAX: u32 = 25;
const WINDOW: u32 = 5;
const EXCURSION: PerMille = PerMille(200);
const SLOPE: PerMille = PerMille(100);
/// The precision of a searched rate: 2 %.
const PRECISION: PerMille = PerMille(20);

/// The rounds of a section, if its block has any.
fn rounds(
    source: SpecText<'_>,
    ladder: &StepLadder<'_>,
    points: &[AxisPoint<'_>],
    steps: &[Step],
) -> Result<Option<Rounds>, SpecError> {
    let Some(table) = &ladder.block.rounds else { return Ok(None) };
    let fail = |text: &str| Err(source.error(table.at, text));
    if ladder.is_precondition {
        return fail(
            "a precondition has no rounds; a step with rounds preconditions its target itself",
        );
    }
    if steps.len() != points.len() {
        return fail("rounds already repeat the section; leave out 'repeats'");
    }
    let max = table.max.get().unwrap_or(ROUNDS_MAX);
    let until = match (table.steady_state.get(), table.goal.get()) {
        (Some(tracking), None) => steady_state(source, table, tracking, ladder, points, max)?,
        (None, Some(goal)) => {
            // Each round has one rate, which the search chooses by the round before.
            let [step] = steps else {
                return fail("a search for a goal needs one step: no ladders");
            };
            if step.load.arrivals.is_closed() {
                return fail("a search for a goal starts from a rate: give 'rate'");
            }
            let precision_per_mille = table.precision.get().unwrap_or(PRECISION).0;
            Until::GoalFound { goal, precision_per_mille, ceiling_step: None }
        }
        _ => return fail("rounds need either 'steady_state' or 'goal'"),
    };
    match max {
        0 => fail("there is at least one round"),
        max => Ok(Some(Rounds { max, until })),
    }
}

fn steady_state(
    source: SpecText<'_>,
    table: &PlacedValue<RoundsTable>,
    tracking: Tracking,
    ladder: &StepLadder<'_>,
    points: &[AxisPoint<'_>],
    max: u32,
) -> Result<Until, SpecError> {
    let window = table.window.get().unwrap_or(WINDOW);
    // One round has neither range nor slope.
    if window < 2 || window > max {
        let text = format!("a window must be 2 to {max} rounds, not {window}");
        return Err(source.error(table.at, text));
    }
    Ok(Until::SteadyState {
        tracked: tracked(source, table, ladder, points)?,
        tracking,
        window,
        excursion_per_mille: table.excursion.get().unwrap_or(EXCURSION).0,
        slope_per_mille: table.slope.get().unwrap_or(SLOPE).0,
    })
}

/// The one step that has all the values that `tracked` says.
fn tracked(
    source: SpecText<'_>,
    table: &RoundsTable,
    ladder: &StepLadder<'_>,
    points: &[AxisPoint<'_>],
) -> Result<u32, SpecError> {
    let Some(wanted) = &table.tracked else { return Ok(0) };
    let is_it = |point: &AxisPoint<'_>| {
        let load = ladder.at(point).all.load;
        // Put over those of the step, values that it has already change nothing.
        wanted.or(&load) == load
    };
    let found = (0..).zip(points).filter(|(_, point)| is_it(point));
    let found: Vec<u32> = found.map(|(index, _)| index).collect();
    match found[..] {
        [one] => Ok(one),
        _ => {
            let count = found.len();
            let text = format!("'tracked' must be set on one step of the section, not on {count}");
            Err(source.error(wanted.at, text))
        }
    }
}
