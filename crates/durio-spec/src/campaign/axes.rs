//! Ladders: which keys vary, in which order, and the points that this gives.

use durio_plan::{Level, Placement};
use durio_workload::BlockShare;

use super::reader::{Block, Placed, Setting};
use super::text::{Source, nearest};
use super::value::{Amount, RegionValue, Value};
use crate::SpecError;

/// What varies along an axis.
#[derive(Debug, Clone, Copy)]
enum Along<'a> {
    /// A key of the main load or the step (none), or of a load beside.
    Setting(Option<usize>, &'a Setting),
    /// Several keys together.
    Points(&'a Setting),
}

/// A list that is walked through.
#[derive(Debug, Clone)]
pub(crate) struct Axis<'a> {
    pub(crate) name: String,
    along: Along<'a>,
}

impl Axis<'_> {
    pub(crate) fn len(&self) -> usize {
        match self.along {
            Along::Setting(_, setting) | Along::Points(setting) => setting.values.len(),
        }
    }

    fn at(&self) -> usize {
        match self.along {
            Along::Setting(_, setting) | Along::Points(setting) => setting.at,
        }
    }

    /// True if its values have an order of their own.
    pub(crate) fn is_numeric(&self) -> bool {
        match self.along {
            Along::Setting(_, setting) => {
                setting.values.iter().all(|placed| placed.value.coordinate().is_some())
            }
            Along::Points(_) => true,
        }
    }

    /// The values of a count of the main load along it.
    pub(crate) fn counts_of(&self, name: &str) -> Vec<u32> {
        let count = |value: &Value| match value {
            Value::Count(count) => Some(*count),
            _ => None,
        };
        match self.along {
            Along::Setting(None, setting) if setting.key.name == name => {
                setting.values.iter().filter_map(|placed| count(&placed.value)).collect()
            }
            Along::Setting(..) => Vec::new(),
            Along::Points(setting) => {
                let of_block = |placed: &Placed<Value>| match &placed.value {
                    Value::Block(block) => count(&block.value(name)?.value),
                    _ => None,
                };
                setting.values.iter().filter_map(of_block).collect()
            }
        }
    }

    /// The name of what varies first along it.
    pub(crate) fn leading_key(&self) -> &str {
        match self.along {
            Along::Setting(..) => &self.name,
            Along::Points(setting) => match setting.values.first().map(|placed| &placed.value) {
                Some(Value::Block(block)) => {
                    block.settings.first().map_or("points", |setting| setting.key.name)
                }
                _ => "points",
            },
        }
    }
}

/// Every axis of a step, the outermost first.
pub(crate) fn axes<'a>(
    source: Source<'_>,
    step: &'a Block,
    defaults: Option<&'a Block>,
) -> Result<Vec<Axis<'a>>, SpecError> {
    let points = step.setting("points").filter(|setting| !setting.values.is_empty());
    let in_points = |name: &str| step.blocks("points").any(|point| point.setting(name).is_some());
    let is_axis = |setting: &&Setting| setting.is_list && setting.key.ladder;
    let inherited = defaults.into_iter().flat_map(|block| &block.settings).filter(is_axis);
    let inherited = inherited.filter(|setting| {
        let name = setting.key.name;
        step.setting(name).is_none() && !in_points(name) && !replaces_limit(step, name)
    });
    let own = step.settings.iter().filter(is_axis).chain(inherited);
    let mut axes: Vec<Axis<'a>> = own
        .map(|setting| Axis {
            name: setting.key.name.to_owned(),
            along: Along::Setting(None, setting),
        })
        .collect();
    axes.extend(
        points.map(|setting| Axis { name: "points".to_owned(), along: Along::Points(setting) }),
    );
    for (index, beside) in step.blocks("beside").enumerate() {
        let name = beside.text("name").unwrap_or_default();
        axes.extend(beside.settings.iter().filter(is_axis).map(|setting| Axis {
            name: format!("{name}.{}", setting.key.name),
            along: Along::Setting(Some(index), setting),
        }));
    }
    axes.sort_by_key(Axis::at);
    ordered(source, step, axes)
}

/// The keys that say when a step ends: one of a step replaces all of the defaults.
pub(crate) const LIMITS: [&str; 4] = ["duration", "volume", "operations", "loops"];

fn replaces_limit(step: &Block, name: &str) -> bool {
    LIMITS.contains(&name) && LIMITS.iter().any(|limit| step.setting(limit).is_some())
}

fn ordered<'a>(
    source: Source<'_>,
    step: &Block,
    axes: Vec<Axis<'a>>,
) -> Result<Vec<Axis<'a>>, SpecError> {
    let Some(order) = step.setting("order") else { return Ok(axes) };
    let mut rest = axes;
    let mut ordered = Vec::new();
    for name in step.texts("order") {
        let found = rest.iter().position(|axis| axis.name == name.value);
        let Some(found) = found else { return Err(no_axis(source, &name, &rest)) };
        ordered.push(rest.remove(found));
    }
    match rest.first() {
        None => Ok(ordered),
        Some(left) => {
            Err(source.error(order.at, format!("'order' leaves out the axis '{}'", left.name)))
        }
    }
}

/// The error for a name that is no axis.
pub(crate) fn no_axis(source: Source<'_>, name: &Placed<&str>, axes: &[Axis<'_>]) -> SpecError {
    let text = format!("'{}' is no axis of this step", name.value.escape_debug());
    let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    let error = source.error(name.at, text);
    match nearest(name.value, names.iter().copied()) {
        Some(meant) => error.hint(format!("did you mean '{meant}'?")),
        None if names.is_empty() => error.hint("an axis is a key whose value is a list"),
        None => error.hint(format!("the axes are {}", names.join(", "))),
    }
}

/// A position on each of some axes.
#[derive(Debug, Clone)]
pub(crate) struct Point<'a> {
    pub(crate) step: &'a Block,
    /// Not asked for lists.
    pub(crate) defaults: Option<&'a Block>,
    axes: &'a [Axis<'a>],
    indices: Vec<usize>,
}

impl<'a> Point<'a> {
    /// Every point of all axes, the last axis fastest.
    pub(crate) fn all(
        step: &'a Block,
        defaults: Option<&'a Block>,
        axes: &'a [Axis<'a>],
    ) -> impl Iterator<Item = Self> {
        let count: usize = axes.iter().map(Axis::len).product();
        (0..count).map(move |number| {
            let mut rest = number;
            let mut indices: Vec<usize> = axes
                .iter()
                .rev()
                .map(|axis| {
                    let index = rest % axis.len();
                    rest /= axis.len();
                    index
                })
                .collect();
            indices.reverse();
            Self { step, defaults, axes, indices }
        })
    }

    /// The value of a key of the step or its main load, and whether the step itself gives it.
    pub(crate) fn find(&self, name: &str) -> Option<(&'a Placed<Value>, bool)> {
        self.on_axes(None, name)
            .or_else(|| self.step.value(name))
            .map(|placed| (placed, true))
            .or_else(|| self.default(name).map(|placed| (placed, false)))
    }

    /// The value of a key.
    pub(crate) fn value(&self, name: &str) -> Option<&'a Placed<Value>> {
        self.find(name).map(|(placed, _)| placed)
    }

    /// The value of a key of a load beside.
    pub(crate) fn beside(
        &self,
        index: usize,
        block: &'a Block,
        name: &str,
    ) -> Option<&'a Placed<Value>> {
        self.on_axes(Some(index), name).or_else(|| block.value(name)).or_else(|| self.default(name))
    }

    fn default(&self, name: &str) -> Option<&'a Placed<Value>> {
        let setting = self.defaults?.setting(name)?;
        setting.values.first().filter(|_| !(setting.is_list && setting.key.ladder))
    }

    fn on_axes(&self, load: Option<usize>, name: &str) -> Option<&'a Placed<Value>> {
        self.axes.iter().zip(&self.indices).find_map(|(axis, &index)| match axis.along {
            Along::Setting(of, setting) if of == load && setting.key.name == name => {
                setting.values.get(index)
            }
            Along::Points(setting) if load.is_none() => match &setting.values.get(index)?.value {
                Value::Block(block) => block.value(name),
                _ => None,
            },
            _ => None,
        })
    }

    /// The coordinates on the axes from `first` on, of values as `scaled` makes them.
    pub(crate) fn levels(&self, first: usize, scaled: &dyn Fn(&Value) -> Value) -> Vec<Level> {
        let axes = self.axes.iter().zip(&self.indices).skip(first);
        axes.flat_map(|(axis, &index)| levels_of(axis, index, scaled)).collect()
    }

    /// The coordinates on the first `count` axes, in words.
    pub(crate) fn outer_words(&self, count: usize, scaled: &dyn Fn(&Value) -> Value) -> String {
        let axes = self.axes.iter().zip(&self.indices).take(count);
        words(&axes.flat_map(|(axis, &index)| levels_of(axis, index, scaled)).collect::<Vec<_>>())
    }

    /// Numbers that tell this point's position on the first `count` axes.
    pub(crate) fn outer(&self, count: usize) -> &[usize] {
        &self.indices[..count.min(self.indices.len())]
    }
}

/// Levels in words: "jobs 16, o_dsync".
pub(crate) fn words(levels: &[Level]) -> String {
    levels.iter().map(Level::words).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "positions in a list")]
fn levels_of(axis: &Axis<'_>, index: usize, scaled: &dyn Fn(&Value) -> Value) -> Vec<Level> {
    let level = |name: &str, value: &Value| {
        let value = scaled(value);
        Level {
            axis: name.to_owned(),
            value: value.coordinate().unwrap_or(index as f64),
            label: label(&value),
        }
    };
    match axis.along {
        Along::Setting(_, setting) => setting
            .values
            .get(index)
            .map(|placed| level(&axis.name, &placed.value))
            .into_iter()
            .collect(),
        Along::Points(setting) => match setting.values.get(index).map(|placed| &placed.value) {
            Some(Value::Block(block)) => block
                .settings
                .iter()
                .filter_map(|setting| {
                    let placed = setting.values.first()?;
                    Some(level(setting.key.name, &placed.value))
                })
                .collect(),
            _ => Vec::new(),
        },
    }
}

/// A value as it is shown.
fn label(value: &Value) -> String {
    let share = |per_mille: u64| match per_mille % 10 {
        0 => format!("{} %", per_mille / 10),
        tenths => format!("{}.{tenths} %", per_mille / 10),
    };
    match value {
        Value::Text(text) => text.clone(),
        Value::Flag(flag) => flag.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Rate(rate) => format!("{rate}/s"),
        Value::Bytes(bytes) | Value::Amount(Amount::Bytes(bytes)) => bytes.to_string(),
        Value::Time(span) | Value::Delay(span) => span.to_string(),
        Value::Share(per_mille) => share(per_mille.0.into()),
        Value::Amount(Amount::Share(per_mille)) => share(*per_mille),
        Value::Choice("none") => "no sync".to_owned(),
        Value::Choice(word) => (*word).to_owned(),
        Value::Region(RegionValue::Shared) => "shared".to_owned(),
        Value::Region(RegionValue::ShareEach) => "share each".to_owned(),
        Value::Region(RegionValue::Spread) => "spread".to_owned(),
        Value::Region(RegionValue::OffsetEach(by)) => {
            format!("offset {}", label(&Value::Amount(*by)))
        }
        Value::Within(from, to) => {
            format!("{}..{}", label(&Value::Amount(*from)), label(&Value::Amount(*to)))
        }
        Value::Skew(skew) => skew_label(skew),
        Value::Placement(placement) => placement_label(placement),
        Value::Mix(mix) => mix_label(mix),
        Value::Goal(goal) => format!("p{} <= {}", goal.percentile, goal.latency),
        Value::Block(_) => "…".to_owned(),
    }
}

fn placement_label(placement: &Placement) -> String {
    match placement {
        Placement::DeviceNode => "device node".to_owned(),
        Placement::Anywhere => "anywhere".to_owned(),
        Placement::Node(node) => format!("node {node}"),
        Placement::Cpus(cpus) => match cpus[..] {
            [] => "no CPU".to_owned(),
            [only] => format!("CPU {only}"),
            [first, ..] => format!("{} CPUs from {first}", cpus.len()),
        },
    }
}

fn mix_label(mix: &[BlockShare]) -> String {
    let share = |it: &BlockShare| format!("{} of {}", label(&Value::Share(it.weight)), it.size);
    let words: Vec<String> = mix.iter().map(share).collect();
    format!("mix: {}", words.join(" + "))
}

fn skew_label(skew: &durio_workload::Skew) -> String {
    use durio_workload::Skew;
    match skew {
        Skew::Uniform => "uniform".to_owned(),
        Skew::Zipf { theta_per_mille } => format!("zipf {}", f64::from(*theta_per_mille) / 1e3),
        Skew::Pareto { h_per_mille } => format!("pareto {}", f64::from(*h_per_mille) / 1e3),
        Skew::Normal { deviation_per_mille } => {
            format!("normal {} %", f64::from(*deviation_per_mille) / 10.0)
        }
        Skew::Zones { zones } => format!("{} zones", zones.len()),
    }
}
