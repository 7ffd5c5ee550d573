//! Axes: which settings of a step vary, in which order, and the points that this gives.
//!
//! From the tables of a step come each [`SweepAxis`] in order, every [`AxisPoint`], and the settings at a
//! point.

use durio_plan::ParameterValue;

use super::file::{BesideTable, LimitSettings, LoadSettings, PointSettings, StepTable};
use crate::SpecError;
use crate::table::field::AnySetting;
use crate::table::value::TimeScale;
use crate::table::{PlacedValue, SpecText};

/// Values that a step walks through.
#[derive(Debug, Clone)]
pub(crate) struct SweepAxis {
    /// The key, `NAME.KEY` for a load in `beside`, or `points`.
    pub(crate) name: String,
    /// Byte of the list in the text.
    at: usize,
    /// Per position on it the levels: one, or those of a row of points.
    levels: Vec<Vec<ParameterValue>>,
    /// True if its values have a natural order.
    pub(crate) is_numeric: bool,
}

impl SweepAxis {
    #[expect(clippy::cast_precision_loss, reason = "positions in a list")]
    fn of(name: String, setting: &dyn AnySetting, scale: TimeScale) -> Self {
        let values = setting.levels(scale);
        // Words have no distance from each other: over them there is a table and no curve.
        let is_numeric = values.iter().all(|(coordinate, _)| coordinate.is_some());
        let level = |(index, (coordinate, label)): (usize, (Option<f64>, String))| {
            let value = coordinate.unwrap_or(index as f64);
            vec![ParameterValue { axis: name.clone(), value, label }]
        };
        let levels = values.into_iter().enumerate().map(level).collect();
        Self { at: setting.at(), levels, is_numeric, name }
    }

    /// The axis of `points`, whose rows change several settings together.
    fn of_points(rows: &[PlacedValue<PointSettings>], scale: TimeScale) -> Option<Self> {
        let levels = rows.iter().enumerate().map(|(index, row)| row_levels(index, row, scale));
        Some(Self {
            name: "points".to_owned(),
            at: rows.first()?.at,
            levels: levels.collect(),
            is_numeric: true,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.levels.len()
    }

    /// The name of its first varying key.
    pub(crate) fn leading_key(&self) -> &str {
        let first = self.levels.first().and_then(|levels| levels.first());
        first.map_or(&self.name, |level| &level.axis)
    }

    /// True if it is this setting that varies along it.
    pub(crate) fn is_of(&self, setting: &dyn AnySetting) -> bool {
        setting.is_axis() && setting.at() == self.at
    }
}

#[expect(clippy::cast_precision_loss, reason = "positions in a list")]
fn row_levels(index: usize, row: &PointSettings, scale: TimeScale) -> Vec<ParameterValue> {
    let mut said = row.fields();
    said.retain(|(_, setting)| setting.is_said());
    said.sort_by_key(|(_, setting)| setting.at());
    let level = |(name, setting): (&str, &dyn AnySetting)| {
        let (coordinate, label) = setting.levels(scale).swap_remove(0);
        ParameterValue { axis: name.to_owned(), value: coordinate.unwrap_or(index as f64), label }
    };
    said.into_iter().map(level).collect()
}

/// Every axis of a step, the outermost first; `defaults` are those that it takes lists from.
pub(crate) fn axes(
    source: SpecText<'_>,
    step: &StepTable,
    defaults: &PointSettings,
    scale: TimeScale,
) -> Result<Vec<SweepAxis>, SpecError> {
    let said = step.points.iter().fold(step.settings.clone(), |said, row| said.or(row));
    // A limit of the step replaces theirs whole: a duration that they sweep would else remain an
    // axis along which nothing changes.
    let mut defaults = defaults.clone();
    if step.settings.limit != LimitSettings::default() {
        defaults.limit = LimitSettings::default();
    } else if said.limit != LimitSettings::default()
        && let Some((key, list)) =
            defaults.limit.fields().iter().find(|(_, setting)| setting.is_axis())
    {
        let text = format!("'{key}' is swept, but points set their own end; give one of them");
        return Err(source.error(list.at(), text));
    }
    let inherited = defaults.fields().into_iter().zip(said.fields());
    let inherited = inherited.filter(|(_, (_, said))| !said.is_said()).map(|(default, _)| default);
    let all = step.settings.fields().into_iter().chain(inherited);
    let lists = all.filter(|(_, setting)| setting.is_axis());
    let mut axes: Vec<SweepAxis> =
        lists.map(|(name, setting)| SweepAxis::of(name.to_owned(), setting, scale)).collect();
    axes.extend(SweepAxis::of_points(&step.points, scale));
    for beside in &step.beside {
        let lists = beside.load.fields().into_iter().filter(|(_, setting)| setting.is_axis());
        let name = |key: &str| format!("{}.{key}", beside.name.0);
        axes.extend(lists.map(|(key, setting)| SweepAxis::of(name(key), setting, scale)));
    }
    // The loops stand as the lists do in the file, not as the fields do here.
    axes.sort_by_key(|axis| axis.at);
    ordered(source, step, axes)
}

fn ordered(
    source: SpecText<'_>,
    step: &StepTable,
    axes: Vec<SweepAxis>,
) -> Result<Vec<SweepAxis>, SpecError> {
    let Some(order) = step.order.one() else { return Ok(axes) };
    let mut rest = axes;
    let mut ordered = Vec::new();
    for name in &order.0 {
        let found = rest.iter().position(|axis| axis.name == name.value);
        let Some(found) = found else { return Err(no_axis(source, name.at, name, &rest)) };
        ordered.push(rest.remove(found));
    }
    match rest.first() {
        None => Ok(ordered),
        Some(left) => {
            let text = format!("'order' leaves out the axis '{}'", left.name);
            Err(source.error(step.order.at, text))
        }
    }
}

/// The error for a name that is not an axis.
pub(crate) fn no_axis(
    source: SpecText<'_>,
    at: usize,
    name: &str,
    axes: &[SweepAxis],
) -> SpecError {
    let what = format!("'{}' is not an axis of this step", name.escape_debug());
    let known: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    match known.is_empty() {
        true => source.error(at, what).hint("an axis is a key whose value is a list"),
        false => source.unknown(name, at, what, &known, "the axes are"),
    }
}

/// Every combination of indices below `lengths`, the last one fastest.
pub(crate) fn combinations(lengths: Vec<usize>) -> impl Iterator<Item = Vec<usize>> {
    (0..lengths.iter().product()).map(move |number| {
        let mut rest = number;
        let mut indices = vec![0; lengths.len()];
        for (index, length) in indices.iter_mut().zip(&lengths).rev() {
            *index = rest % length;
            rest /= length;
        }
        indices
    })
}

/// A position on each of some axes.
#[derive(Debug, Clone)]
pub(crate) struct AxisPoint<'a> {
    axes: &'a [SweepAxis],
    indices: Vec<usize>,
}

impl<'a> AxisPoint<'a> {
    /// Every point of all axes, the last axis fastest.
    pub(crate) fn all(axes: &'a [SweepAxis]) -> impl Iterator<Item = Self> {
        let lengths = axes.iter().map(SweepAxis::len).collect();
        combinations(lengths).map(move |indices| Self { axes, indices })
    }

    /// The index on the axis of the list at this byte.
    fn index(&self, at: usize) -> Option<usize> {
        let found = self.axes.iter().position(|axis| axis.at == at)?;
        self.indices.get(found).copied()
    }

    /// What the step itself says here: a row of points, else its settings.
    pub(crate) fn own(&self, step: &StepTable) -> PointSettings {
        let settings = step.settings.pick(&|at| self.index(at));
        let rows = step.points.first().and_then(|first| self.index(first.at));
        let row = rows.and_then(|index| step.points.get(index));
        row.map_or_else(|| settings.clone(), |row| row.or(&settings))
    }

    /// These settings completed from the defaults; a limit here replaces all of theirs.
    pub(crate) fn settings(&self, own: &PointSettings, defaults: &PointSettings) -> PointSettings {
        let mut all = own.or(&defaults.pick(&|at| self.index(at)));
        if own.limit != LimitSettings::default() {
            all.limit = own.limit.clone();
        }
        all
    }

    /// The settings of a load in `beside`, which takes no lists from the defaults.
    pub(crate) fn beside(&self, beside: &BesideTable, defaults: &PointSettings) -> LoadSettings {
        // A list that two loads take from the defaults would be two axes, and multiply the steps by
        // itself.
        beside.load.pick(&|at| self.index(at)).or(&defaults.load.pick(&|_| None))
    }

    /// The coordinates on the axes from `first` on.
    pub(crate) fn levels(&self, first: usize) -> Vec<ParameterValue> {
        let axes = self.axes.iter().zip(&self.indices).skip(first);
        axes.filter_map(|(axis, &index)| axis.levels.get(index)).flatten().cloned().collect()
    }

    /// The coordinates on the first `count` axes, in words.
    pub(crate) fn outer_words(&self, count: usize) -> String {
        words(&Self { axes: &self.axes[..count], indices: self.indices.clone() }.levels(0))
    }

    /// Numbers that identify this point's position on the first `count` axes.
    pub(crate) fn outer(&self, count: usize) -> &[usize] {
        &self.indices[..count.min(self.indices.len())]
    }
}

/// Levels in words: "jobs 16, o_dsync".
pub(crate) fn words(levels: &[ParameterValue]) -> String {
    levels.iter().map(ParameterValue::words).collect::<Vec<_>>().join(", ")
}
