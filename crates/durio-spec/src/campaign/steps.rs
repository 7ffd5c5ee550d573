//! Blocks of a spec to sections and steps.

use durio_plan::{Level, Limit, Load, Role, Section, SectionKind, Step, Target};
use durio_units::{Bytes, Nanos};

use super::axes::{Axis, LIMITS, Point, axes, no_axis, words};
use super::load::{Values, load};
use super::reader::{Block, Placed};
use super::rounds::rounds;
use super::spec::CampaignSpec;
use super::targets::{Group, scaled_size};
use super::value::{Amount, Value};
use crate::{INTERVALS_MAX, SpecError, interval_for, intervals};

/// Beyond a month, a unit was probably mistaken.
const TIME_MAX: Nanos = Nanos::from_secs(31 * 86_400);
/// A shortened step keeps at least this, or what the spec says.
const SCALED_MIN: Nanos = Nanos::from_millis(100);
const DURATION_DEFAULT: Nanos = Nanos::from_secs(60);

/// What every step is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making<'a> {
    pub(crate) spec: &'a CampaignSpec,
    pub(crate) targets: &'a [Target],
    pub(crate) groups: &'a [Group],
    pub(crate) time_scale_per_mille: u32,
    pub(crate) size_scale_per_mille: u32,
}

/// What has been made.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) sections: Vec<Section>,
    pub(crate) steps: Vec<Step>,
    /// Places of the steps whose operations are to be followed.
    pub(crate) followed: Vec<usize>,
}

/// A block with its axes; the first `outer` of them make sections.
#[derive(Debug)]
pub(crate) struct Ladder<'a> {
    pub(crate) is_precondition: bool,
    pub(crate) block: &'a Block,
    pub(crate) defaults: Option<&'a Block>,
    pub(crate) axes: Vec<Axis<'a>>,
    pub(crate) outer: usize,
    map: Option<(String, String)>,
}

impl<'a> Ladder<'a> {
    /// The ladder of a block.
    pub(crate) fn new(
        spec: &'a CampaignSpec,
        is_precondition: bool,
        block: &'a Block,
    ) -> Result<Self, SpecError> {
        let defaults = spec.root.blocks("defaults").next();
        // What is prepared does not depend on what is laddered afterwards.
        let inherited = defaults.filter(|_| !is_precondition);
        let mut axes = axes(spec.source(), block, inherited)?;
        let map = map_axes(spec, block, &axes)?;
        let outer = match &map {
            _ if is_precondition || block.setting("rounds").is_some() => 0,
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
        lengths.fold(u64::from(self.repeats().unwrap_or(1).max(1)), u64::saturating_mul)
    }

    /// The names of the targets that a block of this ladder works on; `first` without any.
    pub(crate) fn targets_named_by<'b>(&'b self, block: &'b Block, first: &'b str) -> Vec<&'b str> {
        let of = |block: &'b Block| block.texts("target").map(|name| name.value).collect();
        let mut names: Vec<&str> = of(block);
        if names.is_empty() {
            names = of(self.block);
        }
        if names.is_empty() {
            names = self.defaults.map(of).unwrap_or_default();
        }
        if names.is_empty() { vec![first] } else { names }
    }

    /// The names of its sections, as long as nothing is scaled.
    pub(crate) fn section_names(&self) -> Vec<String> {
        let points: Vec<_> = Point::all(self.block, self.defaults, &self.axes).collect();
        let sections = points.chunk_by(|a, b| a.outer(self.outer) == b.outer(self.outer));
        let firsts = sections.filter_map(<[_]>::first);
        firsts.map(|point| self.section_name(point, &Value::clone)).collect()
    }

    fn section_name(&self, point: &Point<'_>, scaled: &dyn Fn(&Value) -> Value) -> String {
        let name = self.block.text("name").unwrap_or_default();
        match point.outer_words(self.outer, scaled) {
            words if words.is_empty() => name.to_owned(),
            words => format!("{name}, {words}"),
        }
    }

    fn repeats(&self) -> Option<u32> {
        let own = self.block.value("repeats");
        let default = || self.defaults.filter(|_| !self.is_precondition)?.value("repeats");
        match own.or_else(default)?.value {
            Value::Count(count) => Some(count),
            _ => None,
        }
    }

    fn kind(&self) -> SectionKind {
        match (&self.map, self.axes.last()) {
            _ if self.is_precondition => SectionKind::Precondition,
            (Some((x, y)), _) => SectionKind::Map { x: x.clone(), y: y.clone() },
            (None, Some(axis)) if axis.is_numeric() && self.axes.len() - self.outer == 1 => {
                SectionKind::Ladder { axis: axis.leading_key().to_owned() }
            }
            _ => SectionKind::Single,
        }
    }
}

fn map_axes(
    spec: &CampaignSpec,
    block: &Block,
    axes: &[Axis<'_>],
) -> Result<Option<(String, String)>, SpecError> {
    let source = spec.source();
    let named = |key: &str| -> Result<Option<String>, SpecError> {
        let Some(Placed { value: Value::Text(name), at }) = block.value(key) else {
            return Ok(None);
        };
        match axes.iter().any(|axis| axis.name == *name) {
            true => Ok(Some(name.clone())),
            false => Err(no_axis(source, &Placed { value: name.as_str(), at: *at }, axes)),
        }
    };
    match (named("x")?, named("y")?) {
        (None, None) => Ok(None),
        (Some(x), Some(y)) if x != y => Ok(Some((x, y))),
        _ => Err(source.error(block.at, "a map needs two different axes, x and y")),
    }
}

impl Making<'_> {
    /// Adds the sections and steps of a ladder.
    pub(crate) fn add(self, ladder: &Ladder<'_>, made: &mut Made) -> Result<(), SpecError> {
        let all = self.members(self.named(ladder.block, ladder.defaults));
        let one_by_one = ladder.block.text("over") == Some("one-by-one");
        let variants: Vec<Option<usize>> = match one_by_one {
            true => all.into_iter().map(Some).collect(),
            false => vec![None],
        };
        for only in variants {
            let points: Vec<Point<'_>> =
                Point::all(ladder.block, ladder.defaults, &ladder.axes).collect();
            for section in points.chunk_by(|a, b| a.outer(ladder.outer) == b.outer(ladder.outer)) {
                self.add_section(ladder, section, only, made)?;
            }
        }
        Ok(())
    }

    fn add_section(
        self,
        ladder: &Ladder<'_>,
        points: &[Point<'_>],
        only: Option<usize>,
        made: &mut Made,
    ) -> Result<(), SpecError> {
        let Some(first_point) = points.first() else { return Ok(()) };
        let name = ladder.section_name(first_point, &|value| self.scaled_value(value));
        let first_step = made.steps.len();
        let number = u32::try_from(made.sections.len()).unwrap_or(u32::MAX);
        for repeat in 0..ladder.repeats().unwrap_or(1).max(1) {
            for point in points {
                let step = self.step(ladder, point, &name, only)?;
                if flag(point, "trace_path") {
                    made.followed.push(made.steps.len());
                }
                made.steps.push(Step { repeat, section: Some(number), ..step });
            }
        }
        let steps = &made.steps[first_step..];
        let rounds = rounds(self.spec.source(), ladder, points, steps)?;
        let steps = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        made.sections.push(Section {
            name,
            summary: ladder.block.text("summary").unwrap_or_default().to_owned(),
            kind: ladder.kind(),
            first_step: u32::try_from(first_step).unwrap_or(u32::MAX),
            steps,
            rounds,
            baseline: self.baseline(ladder.block, only),
        });
        Ok(())
    }

    /// The name of the baseline's first target, unless that is what is measured.
    fn baseline(self, block: &Block, only: Option<usize>) -> Option<String> {
        let name = block.text("baseline")?;
        let group = self.groups.iter().find(|group| group.name == name)?;
        let is_itself = only.is_some_and(|only| group.members.contains(&only));
        let first = group.members.first().filter(|_| !is_itself)?;
        self.targets.get(*first).map(|target| target.name.clone())
    }

    /// The groups that a block names; the first one if none.
    fn named(self, block: &Block, defaults: Option<&Block>) -> Vec<usize> {
        let names = |block: &Block| -> Vec<usize> {
            let position =
                |name: Placed<&str>| self.groups.iter().position(|group| group.name == name.value);
            block.texts("target").filter_map(position).collect()
        };
        let own = names(block);
        let found = if own.is_empty() { defaults.map(names).unwrap_or_default() } else { own };
        if found.is_empty() { vec![0] } else { found }
    }

    fn members(self, groups: Vec<usize>) -> Vec<usize> {
        let groups = groups.into_iter().filter_map(|group| self.groups.get(group));
        groups.flat_map(|group| group.members.iter().copied()).collect()
    }

    /// The members that a load with these values works on.
    fn members_for(
        self,
        groups: Vec<usize>,
        only: Option<usize>,
        values: Values<'_>,
    ) -> Vec<usize> {
        let jobs = values.count("jobs").unwrap_or(1);
        let in_total = values.word("jobs_are") != Some("per-target");
        let is_limited = groups
            .iter()
            .filter_map(|&group| self.groups.get(group))
            .any(|group| group.is_per_job || (group.may_be_few && in_total));
        match only {
            Some(only) => vec![only],
            None if is_limited => {
                let members = self.members(groups);
                members.into_iter().take(jobs.max(1) as usize).collect()
            }
            None => self.members(groups),
        }
    }

    fn step(
        self,
        ladder: &Ladder<'_>,
        point: &Point<'_>,
        section: &str,
        only: Option<usize>,
    ) -> Result<Step, SpecError> {
        let levels = point.levels(ladder.outer, &|value| self.scaled_value(value));
        let name = full_name(section, &levels);
        let fail = |reason: String| {
            self.spec.source().error(ladder.block.at, format!("step '{name}': {reason}"))
        };
        let find = |key: &str| point.value(key);
        let values = Values(&find);
        let groups = self.named(ladder.block, ladder.defaults);
        let members = self.members_for(groups, only, values);
        let summary = ladder.block.text("summary").unwrap_or_default();
        // The levels stand beside the name, wherever it is shown.
        let main =
            load(values, section.to_owned(), summary, &members, self.targets).map_err(fail)?;
        let beside = self.beside(ladder, point, &members).map_err(fail)?;
        let whole: u64 = members.iter().map(|&member| self.targets[member].size.get()).sum();
        let role = if ladder.is_precondition { Role::Precondition } else { Role::Measure };
        let step = self.timed(point, role, main, Bytes::new(whole)).map_err(fail)?;
        Ok(Step {
            beside,
            first_job_ends_all: flag(point, "first_job_ends_all"),
            memory_bound: self.amount(point, "memory_bound", Bytes::new(whole)),
            read_ahead: bytes(point, "read_ahead"),
            drop_cache: flag(point, "drop_cache"),
            pause_before: self.scaled(time(point, "pause").unwrap_or(Nanos::ZERO)),
            levels,
            ..step
        })
    }

    fn beside(
        self,
        ladder: &Ladder<'_>,
        point: &Point<'_>,
        members: &[usize],
    ) -> Result<Vec<Load>, String> {
        let of = |(index, block): (usize, &Block)| {
            let find = |key: &str| point.beside(index, block, key);
            let own = match block.setting("target") {
                Some(_) => self.members_for(self.named(block, None), None, Values(&find)),
                None => members.to_vec(),
            };
            let name = block.text("name").unwrap_or_default();
            load(Values(&find), name.to_owned(), "", &own, self.targets)
                .map_err(|reason| format!("beside '{name}': {reason}"))
        };
        ladder.block.blocks("beside").enumerate().map(of).collect()
    }

    /// The step with its limit, ramp and intervals.
    fn timed(
        self,
        point: &Point<'_>,
        role: Role,
        load: Load,
        whole: Bytes,
    ) -> Result<Step, String> {
        let limit = self.limit(point, whole)?;
        let ramp = self.ramp(point, limit)?;
        let wanted = time(point, "interval");
        if wanted.is_some_and(|interval| interval < Nanos::from_millis(1)) {
            return Err("intervals under 1 ms cost more than they show".to_owned());
        }
        let interval = match limit {
            Limit::Duration(duration) => {
                let usual = interval_for(duration, ramp);
                wanted.filter(|wanted| *wanted <= duration).unwrap_or(usual)
            }
            Limit::Operations(_) | Limit::Volume(_) | Limit::VolumeWithin { .. } => {
                wanted.unwrap_or(Nanos::from_secs(1))
            }
        };
        if let Limit::Duration(duration) = limit
            && intervals(duration, ramp, interval) > INTERVALS_MAX
        {
            return Err(format!(
                "{duration} in intervals of {interval} are more than {INTERVALS_MAX}"
            ));
        }
        Ok(Step { ramp, ..Step::new(role, load, limit, interval) })
    }

    fn limit(self, point: &Point<'_>, whole: Bytes) -> Result<Limit, String> {
        let found: Vec<_> =
            LIMITS.iter().filter_map(|key| Some((*key, point.find(key)?))).collect();
        let own: Vec<_> = found.iter().filter(|(_, (_, is_own))| *is_own).collect();
        let candidates = if own.is_empty() { found.iter().collect() } else { own };
        if let [(first, _), (second, _), ..] = candidates[..] {
            return Err(format!("'{first}' and '{second}' both say when it ends; give one"));
        }
        let limit = match candidates.first().map(|(key, (placed, _))| (*key, &placed.value)) {
            None => Limit::Duration(self.scaled(DURATION_DEFAULT)),
            Some((_, Value::Time(span))) => Limit::Duration(self.scaled(*span)),
            Some((_, Value::Amount(amount))) => Limit::Volume(self.scaled_amount(*amount, whole)),
            Some(("loops", Value::Count(count))) => {
                let bytes = whole.get().checked_mul((*count).into());
                Limit::Volume(Bytes::new(bytes.ok_or("loops beyond all bounds")?))
            }
            Some((_, Value::Count(count))) => Limit::Operations((*count).into()),
            Some((key, _)) => return Err(format!("'{key}' is no limit")),
        };
        match limit {
            Limit::Duration(span) if span < Nanos::from_millis(1) || span > TIME_MAX => {
                Err(format!("a duration of {span} is not between 1 ms and a month"))
            }
            Limit::Operations(0) | Limit::Volume(Bytes::ZERO) => Err("it does nothing".to_owned()),
            limit => Ok(limit),
        }
    }

    /// Only what is bounded by time has a ramp; one of the defaults is meant for such steps.
    fn ramp(self, point: &Point<'_>, limit: Limit) -> Result<Nanos, String> {
        let Some((Placed { value: Value::Time(ramp), .. }, is_own)) = point.find("ramp") else {
            return Ok(Nanos::ZERO);
        };
        match limit {
            Limit::Duration(_) if *ramp > TIME_MAX => {
                Err(format!("a ramp of {ramp} is longer than a month"))
            }
            Limit::Duration(_) => Ok(self.scaled(*ramp)),
            _ if is_own && *ramp > Nanos::ZERO => {
                Err("a ramp needs a duration: a volume counts from the first operation".to_owned())
            }
            _ => Ok(Nanos::ZERO),
        }
    }

    /// A value of an axis as it will be: all times and amounts that make axes are scaled.
    fn scaled_value(self, value: &Value) -> Value {
        match value {
            Value::Time(span) => Value::Time(self.scaled(*span)),
            Value::Amount(Amount::Bytes(bytes)) => {
                Value::Amount(Amount::Bytes(scaled_size(*bytes, self.size_scale_per_mille)))
            }
            other => other.clone(),
        }
    }

    fn scaled(self, span: Nanos) -> Nanos {
        let scaled = u128::from(span.get()) * u128::from(self.time_scale_per_mille) / 1000;
        let scaled = Nanos::new(u64::try_from(scaled).unwrap_or(u64::MAX));
        scaled.max(SCALED_MIN.min(span))
    }

    /// A share follows the targets' size, which is scaled already.
    fn scaled_amount(self, amount: Amount, whole: Bytes) -> Bytes {
        match amount {
            Amount::Bytes(bytes) => scaled_size(bytes, self.size_scale_per_mille),
            share @ Amount::Share(_) => share.of(whole),
        }
    }

    fn amount(self, point: &Point<'_>, key: &str, whole: Bytes) -> Option<Bytes> {
        match point.value(key)?.value {
            Value::Amount(amount) => Some(self.scaled_amount(amount, whole)),
            _ => None,
        }
    }
}

fn full_name(section: &str, levels: &[Level]) -> String {
    match words(levels) {
        words if words.is_empty() => section.to_owned(),
        words => format!("{section}, {words}"),
    }
}

fn flag(point: &Point<'_>, key: &str) -> bool {
    matches!(point.value(key), Some(Placed { value: Value::Flag(true), .. }))
}

fn time(point: &Point<'_>, key: &str) -> Option<Nanos> {
    match point.value(key)?.value {
        Value::Time(span) => Some(span),
        _ => None,
    }
}

fn bytes(point: &Point<'_>, key: &str) -> Option<Bytes> {
    match point.value(key)?.value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}
