//! Values of a campaign that are more than a number: mixes, skews, regions, placements, words.

use durio_base::RaidLevel;
use durio_plan::{EngineKind, FileLayout, Goal, Placement, Tracking};
use durio_workload::{
    AtEnd, BlockShare, CacheMode, Coverage, Pattern, PerMille, Skew, SyncMethod, Zone,
};
use serde_json::json;
use toml::de::DeValue;

use crate::SpecError;
use crate::table::value::{
    Amount, KeyedValue, LevelValue, Scalar, WordValue, bytes, own_words, parsed, per_mille,
    percent, words,
};
use crate::table::{TableItem, ValueForm};
use crate::written::{checked_rate, goal, rate, thousandths};

parsed! {
    Skew skew, "", SKEWS, "^(uniform|(zipf|pareto|normal|zones):.+)$";
    Regions regions, "", REGIONS, "^(shared|share-each|offset:.+)$";
    Within within, "", "`\"0%..50%\"`", "^.+[.][.].+$";
    Placement placement, "", PLACEMENTS, "^(device-node|anywhere|node:[0-9]+|cpus:[0-9,-]+)$";
    Goal goal, "", "`\"p99 <= 10ms\"`", "^p[0-9.]+ *<= *.+$";
}

const SKEWS: &str = "`\"uniform\"`, `\"zipf:0.99\"`, `\"pareto:0.2\"`, `\"normal:10%\"`, \
                     `\"zones:80%/20%,20%/80%\"` (accesses/size)";
const REGIONS: &str = "`\"shared\"`, `\"share-each\"`, `\"offset:12%\"`, `\"offset:1GiB\"`, \
                       `\"offset:spread\"`";
const PLACEMENTS: &str = "`\"device-node\"`, `\"anywhere\"`, `\"node:0\"`, `\"cpus:0-3,8\"`";

/// Per second: 20000, "20k".
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RateValue(pub(crate) f64);

impl KeyedValue for RateValue {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let read = match item.scalar()? {
            Scalar::Text(text) => rate(text),
            _ => checked_rate(item.number()?),
        };
        read.map(Self).map_err(|reason| item.fail(reason))
    }

    fn form() -> ValueForm {
        let number = json!({ "type": "number", "exclusiveMinimum": 0 });
        let text = ValueForm::pattern("", "^[0-9.]+[kM]?$").schema;
        ValueForm::new("`20000`, `\"20k\"`", json!({ "anyOf": [number, text] }))
    }
}

impl LevelValue for RateValue {
    fn label(&self) -> String {
        format!("{}/s", self.0)
    }

    fn coordinate(&self) -> Option<f64> {
        Some(self.0)
    }
}

impl LevelValue for Skew {
    fn label(&self) -> String {
        match self {
            Self::Uniform => "uniform".to_owned(),
            Self::Zipf { theta_per_mille } => format!("zipf {}", f64::from(*theta_per_mille) / 1e3),
            Self::Pareto { h_per_mille } => format!("pareto {}", f64::from(*h_per_mille) / 1e3),
            Self::Normal { deviation_per_mille } => {
                format!("normal {} %", f64::from(*deviation_per_mille) / 10.0)
            }
            Self::Zones { zones } => format!("{} zones", zones.len()),
            Self::ByteZones { zones } => format!("{} zones by bytes", zones.len()),
        }
    }
}

fn skew(text: &str) -> Result<Skew, String> {
    let wrong = || {
        format!(
            "'{text}' is not a skew; write it as uniform, zipf:0.99, pareto:0.2, normal:10% or \
             zones:80%/20%,20%/80% (accesses/size)"
        )
    };
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let in_thousandths = |text: &str| thousandths(text).ok_or_else(wrong);
    match kind {
        "uniform" if rest.is_empty() => Ok(Skew::Uniform),
        "zipf" => Ok(Skew::Zipf { theta_per_mille: in_thousandths(rest)? }),
        "pareto" => {
            let h = in_thousandths(rest)?;
            Ok(Skew::Pareto { h_per_mille: u16::try_from(h).map_err(|_| wrong())? })
        }
        "normal" => {
            let deviation = percent(rest).map_err(|_| wrong())?;
            Ok(Skew::Normal { deviation_per_mille: per_mille(deviation) })
        }
        "zones" => zones(rest).map(|zones| Skew::Zones { zones }).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

fn zones(text: &str) -> Option<Vec<Zone>> {
    // More than the whole stays so: the workload's own check refuses it, in words about zones.
    let share = |text: &str| Some(PerMille(per_mille(percent(text).ok()?.min(1001))));
    text.split(',')
        .map(|zone| {
            let (accesses, size) = zone.split_once('/')?;
            Some(Zone { accesses: share(accesses)?, size: share(size)? })
        })
        .collect()
}

/// Where the jobs' regions begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Regions {
    Shared,
    ShareEach,
    OffsetEach(Amount),
    /// ⌊100 / jobs⌋ %.
    Spread,
}

fn regions(text: &str) -> Result<Regions, String> {
    match text {
        "shared" => Ok(Regions::Shared),
        "share-each" => Ok(Regions::ShareEach),
        "offset:spread" => Ok(Regions::Spread),
        _ => match text.strip_prefix("offset:") {
            Some(by) => Amount::parse(by).map(Regions::OffsetEach),
            None => Err(format!(
                "'{text}' is not a region; write it as shared, share-each, offset:12%, offset:1GiB \
                 or offset:spread"
            )),
        },
    }
}

impl LevelValue for Regions {
    fn label(&self) -> String {
        match self {
            Self::Shared => "shared".to_owned(),
            Self::ShareEach => "share each".to_owned(),
            Self::Spread => "spread".to_owned(),
            Self::OffsetEach(by) => format!("offset {}", by.label()),
        }
    }
}

/// From one amount of a target to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Within(pub(crate) Amount, pub(crate) Amount);

fn within(text: &str) -> Result<Within, String> {
    let wrong = || format!("'{text}' is not a part of a target; write it as \"0%..50%\"");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    Ok(Within(Amount::parse(from)?, Amount::parse(to)?))
}

impl LevelValue for Within {
    fn label(&self) -> String {
        format!("{}..{}", self.0.label(), self.1.label())
    }
}

impl LevelValue for Placement {
    fn label(&self) -> String {
        match self {
            Self::DeviceNode => "device node".to_owned(),
            Self::Anywhere => "anywhere".to_owned(),
            Self::Node(node) => format!("node {node}"),
            Self::Cpus(cpus) => match cpus[..] {
                [] => "no CPU".to_owned(),
                [only] => format!("CPU {only}"),
                [first, ..] => format!("{} CPUs from {first}", cpus.len()),
            },
        }
    }
}

fn placement(text: &str) -> Result<Placement, String> {
    let wrong = || {
        format!(
            "'{text}' is not a placement; write it as device-node, anywhere, node:0 or cpus:0-3,8"
        )
    };
    match text.split_once(':') {
        None if text == "device-node" => Ok(Placement::DeviceNode),
        None if text == "anywhere" => Ok(Placement::Anywhere),
        Some(("node", number)) => number.parse().map(Placement::Node).map_err(|_| wrong()),
        Some(("cpus", list)) => cpus(list).map(Placement::Cpus).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// "0-3,8", at most as many as any machine has.
fn cpus(text: &str) -> Option<Vec<u32>> {
    // Linux on x86-64 has no more (CONFIG_NR_CPUS with CONFIG_MAXSMP).
    const CPU_MAX: u32 = 8192;
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CPU_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    (numbers.len() <= CPU_MAX as usize).then_some(numbers)
}

/// Sizes of blocks by weight in thousandths.
pub(crate) type Mix = Vec<BlockShare>;

impl KeyedValue for Mix {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let DeValue::Table(table) = item.value.get_ref() else {
            return Err(item.fail("expected a table such as { \"4KiB\" = 550, \"8KiB\" = 450 }"));
        };
        let mut entries: Vec<_> = table.iter().collect();
        // A table is sorted by its keys as texts, where 16KiB comes before 4KiB.
        entries.sort_by_key(|(size, _)| size.span().start);
        let share = |(size, weight)| {
            let (size, weight): (&toml::Spanned<std::borrow::Cow<'_, str>>, _) = (size, weight);
            let item = item.of(weight);
            let size = bytes(size.get_ref()).map_err(|reason| item.fail(reason))?;
            match item.scalar()? {
                Scalar::Integer(weight @ 0..=1000) => {
                    let weight = PerMille(u16::try_from(weight).unwrap_or(u16::MAX));
                    Ok(BlockShare { size, weight })
                }
                _ => Err(item.fail("expected a weight in thousandths, 0 to 1000")),
            }
        };
        entries.into_iter().map(share).collect()
    }

    fn form() -> ValueForm {
        let weight = json!({ "type": "integer", "minimum": 0, "maximum": 1000 });
        let schema = json!({ "type": "object", "additionalProperties": weight });
        ValueForm::new("`{ \"4KiB\" = 550, \"8KiB\" = 450 }`", schema)
    }
}

impl LevelValue for Mix {
    fn label(&self) -> String {
        let share = |block: &BlockShare| format!("{} of {}", block.weight.label(), block.size);
        format!("mix: {}", self.iter().map(share).collect::<Vec<_>>().join(" + "))
    }
}

words! {
    Pattern { "sequential" => Sequential, "random" => Random }
    CacheMode { "direct" => Direct, "buffered" => Buffered }
    EngineKind { "sync" => Sync, "uring" => Uring, "aio" => Aio, "mmap" => Mmap, "fio" => Fio }
    FileLayout {
        "incompressible" => Incompressible,
        "zeros" => ZeroFilled,
        "preallocated" => Preallocated,
        "empty" => Empty,
    }
    Coverage { "independent" => Independent, "each-once" => EachOnce }
    AtEnd { "wrap-around" => WrapAround, "reallocate" => Reallocate }
    Tracking { "iops" => Iops, "bandwidth" => Bandwidth, "latency" => LatencyMean }
}

own_words! { RaidLevel }

impl WordValue for SyncMethod {
    fn words() -> Vec<(&'static str, Self)> {
        Self::ALL.into_iter().map(|method| (method.name(), method)).collect()
    }

    fn shown(word: &'static str) -> &'static str {
        if word == Self::None.name() { "no sync" } else { word }
    }
}
