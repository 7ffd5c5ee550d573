//! Values of a spec: text and numbers of TOML to sizes, times, shares and words.

use durio_plan::{Goal, Placement};
use durio_units::{Bytes, Nanos};
use durio_workload::{BlockShare, PerMille, Skew, Zone};

use super::keys::Kind;
use super::reader::Block;
use super::text::nearest;
use crate::written::{checked_rate, goal, has_unit, rate, thousandths, time};

/// Bytes, or a share of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    Bytes(Bytes),
    /// In thousandths; may be more than the whole.
    Share(u64),
}

impl Amount {
    /// The bytes, where `whole` is 100 %.
    pub(crate) fn of(self, whole: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(per_mille) => {
                let product = u128::from(whole.get()) * u128::from(per_mille) / 1000;
                Bytes::new(u64::try_from(product).unwrap_or(u64::MAX))
            }
        }
    }
}

/// Where the jobs' regions begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RegionValue {
    Shared,
    ShareEach,
    OffsetEach(Amount),
    /// ⌊100 / jobs⌋ %.
    Spread,
}

/// A value of a spec.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Flag(bool),
    Count(u32),
    Number(f64),
    Bytes(Bytes),
    Time(Nanos),
    Delay(Nanos),
    Share(PerMille),
    Amount(Amount),
    Rate(f64),
    Choice(&'static str),
    Skew(Skew),
    Region(RegionValue),
    Within(Amount, Amount),
    Placement(Placement),
    Mix(Vec<BlockShare>),
    Goal(Goal),
    Block(Block),
}

impl Value {
    /// As a coordinate; none for words and flags.
    #[expect(clippy::cast_precision_loss, reason = "a coordinate of a chart")]
    pub(crate) fn coordinate(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(f64::from(*count)),
            Self::Number(number) | Self::Rate(number) => Some(*number),
            Self::Bytes(bytes) | Self::Amount(Amount::Bytes(bytes)) => Some(bytes.get() as f64),
            Self::Time(span) | Self::Delay(span) => Some(span.get() as f64),
            Self::Share(share) => Some(f64::from(share.0) / 10.0),
            Self::Amount(Amount::Share(per_mille)) => Some(*per_mille as f64 / 10.0),
            _ => None,
        }
    }
}

/// A number or text as TOML has it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scalar<'a> {
    Text(&'a str),
    Integer(i128),
    Float(f64),
    Flag(bool),
}

/// Reads a scalar as `kind` wants it; the error is a sentence without the place.
pub(crate) fn value(kind: Kind, scalar: Scalar<'_>) -> Result<Value, String> {
    match (kind, scalar) {
        (Kind::Flag, Scalar::Flag(flag)) => Ok(Value::Flag(flag)),
        (Kind::Flag, _) => Err("expected true or false".to_owned()),
        (Kind::Count, Scalar::Integer(number)) => u32::try_from(number)
            .map(Value::Count)
            .map_err(|_| format!("{number} is not between 0 and {}", u32::MAX)),
        (Kind::Count, _) => Err("expected a whole number without quotes".to_owned()),
        (Kind::Number, scalar) => number(scalar).map(Value::Number),
        (Kind::Rate, Scalar::Text(text)) => rate(text).map(Value::Rate),
        (Kind::Rate, scalar) => number(scalar).and_then(|rate| checked_rate(rate).map(Value::Rate)),
        (kind, Scalar::Text(text)) => of_text(kind, text),
        (
            Kind::Text | Kind::Texts | Kind::Name | Kind::Choice(_),
            Scalar::Integer(_) | Scalar::Float(_),
        ) => Err("expected a text in quotes".to_owned()),
        (_, Scalar::Integer(number)) => {
            Err(format!("{number} needs a unit, in quotes{}", example(kind)))
        }
        (_, Scalar::Float(number)) => {
            Err(format!("{number} needs a unit, in quotes{}", example(kind)))
        }
        (_, Scalar::Flag(_)) => Err(format!("expected a text in quotes{}", example(kind))),
    }
}

fn example(kind: Kind) -> &'static str {
    match kind {
        Kind::Bytes => ", such as \"4KiB\"",
        Kind::Time => ", such as \"60s\"",
        Kind::Delay => ", such as \"500us\"",
        Kind::Share => ", such as \"70%\"",
        Kind::Amount => ", such as \"4GiB\" or \"25%\"",
        _ => "",
    }
}

fn of_text(kind: Kind, text: &str) -> Result<Value, String> {
    match kind {
        Kind::Text | Kind::Texts => Ok(Value::Text(text.to_owned())),
        Kind::Name => name(text),
        Kind::Bytes => bytes(text).map(Value::Bytes),
        Kind::Time => time(text).map(Value::Time),
        Kind::Delay => time(text).map(Value::Delay),
        Kind::Share => match percent(text)? {
            share if share <= 1000 => Ok(Value::Share(PerMille(per_mille(share)))),
            _ => Err(format!("'{text}' is more than 100%")),
        },
        Kind::Amount => amount(text).map(Value::Amount),
        Kind::Choice(words) => choice(words, text),
        Kind::Skew => skew(text).map(Value::Skew),
        Kind::Region => region(text).map(Value::Region),
        Kind::Within => within(text),
        Kind::Placement => placement(text).map(Value::Placement),
        Kind::Goal => goal(text).map(Value::Goal),
        Kind::Mix | Kind::Axes | Kind::Table(_) | Kind::Tables(_) => {
            Err("expected a table".to_owned())
        }
        Kind::Flag | Kind::Count | Kind::Number | Kind::Rate => {
            Err("expected a number without quotes".to_owned())
        }
    }
}

fn per_mille(share: u64) -> u16 {
    u16::try_from(share).unwrap_or(u16::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "prices and rates")]
fn number(scalar: Scalar<'_>) -> Result<f64, String> {
    let number = match scalar {
        Scalar::Integer(number) => number as f64,
        Scalar::Float(number) => number,
        _ => return Err("expected a number without quotes".to_owned()),
    };
    match number.is_finite() && number >= 0.0 {
        true => Ok(number),
        false => Err(format!("{number} is no number from 0")),
    }
}

fn name(text: &str) -> Result<Value, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !text.is_empty() && text.len() <= 60 && text.chars().all(fits) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(format!("'{text}' is no name: 1 to 60 letters (a to z), digits, '-' and '_'")),
    }
}

pub(crate) fn bytes(text: &str) -> Result<Bytes, String> {
    let bytes = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    has_unit(text, "\"4KiB\"", bytes.get() == 0).map(|()| bytes)
}

/// Thousandths of "12.5%"; nothing is rounded.
fn percent(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no share; write it as \"70%\", at most one decimal");
    let digits = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim();
    let (whole, tenths) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str, most: usize| {
        !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole, 7) || !is_number(tenths, 1) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let tenths: u64 = tenths.parse().map_err(|_| wrong())?;
    Ok(whole * 10 + tenths)
}

fn amount(text: &str) -> Result<Amount, String> {
    match text.trim().ends_with('%') {
        true => percent(text).map(Amount::Share),
        false => bytes(text).map(Amount::Bytes),
    }
}

pub(crate) fn choice(words: &'static [&'static str], text: &str) -> Result<Value, String> {
    let found = words.iter().find(|word| **word == text);
    found.map(|word| Value::Choice(word)).ok_or_else(|| {
        let meant = nearest(text, words.iter().copied());
        let meant = meant.map_or(String::new(), |word| format!("; did you mean '{word}'?"));
        format!("'{text}' is none of {}{meant}", words.join(", "))
    })
}

fn skew(text: &str) -> Result<Skew, String> {
    let wrong = || {
        format!(
            "'{text}' is no skew; write it as uniform, zipf:0.99, pareto:0.2, normal:10% or \
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
    let share = |text: &str| Some(PerMille(per_mille(percent(text).ok()?.min(1001))));
    text.split(',')
        .map(|zone| {
            let (accesses, size) = zone.split_once('/')?;
            Some(Zone { accesses: share(accesses)?, size: share(size)? })
        })
        .collect()
}

fn region(text: &str) -> Result<RegionValue, String> {
    match text {
        "shared" => Ok(RegionValue::Shared),
        "share-each" => Ok(RegionValue::ShareEach),
        "offset:spread" => Ok(RegionValue::Spread),
        _ => match text.strip_prefix("offset:").map(amount) {
            Some(Ok(by)) => Ok(RegionValue::OffsetEach(by)),
            Some(Err(reason)) => Err(reason),
            None => Err(format!(
                "'{text}' is no region; write it as shared, share-each, offset:12%, offset:1GiB \
                 or offset:spread"
            )),
        },
    }
}

fn within(text: &str) -> Result<Value, String> {
    let wrong = || format!("'{text}' is no part of a target; write it as \"0%..50%\"");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    Ok(Value::Within(amount(from)?, amount(to)?))
}

fn placement(text: &str) -> Result<Placement, String> {
    let wrong = || {
        format!("'{text}' is no placement; write it as device-node, anywhere, node:0 or cpus:0-3,8")
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

/// One size of a mix, from its key and its weight.
pub(crate) fn block_share(size: &str, weight: Scalar<'_>) -> Result<BlockShare, String> {
    let size = bytes(size)?;
    match weight {
        Scalar::Integer(weight @ 0..=1000) => {
            let weight = PerMille(u16::try_from(weight).unwrap_or(u16::MAX));
            Ok(BlockShare { size, weight })
        }
        _ => Err("expected a weight in thousandths, 0 to 1000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: Kind, text: &str) -> Result<Value, String> {
        value(kind, Scalar::Text(text))
    }

    #[test]
    fn shares_and_amounts_are_exact() {
        assert_eq!(text(Kind::Share, "70%"), Ok(Value::Share(PerMille(700))));
        assert_eq!(text(Kind::Share, "99.5%"), Ok(Value::Share(PerMille(995))));
        for wrong in ["70", "101%", "-1%", "99.55%", "%", "x%", "1e2%"] {
            assert!(text(Kind::Share, wrong).is_err(), "{wrong}");
        }
        assert_eq!(text(Kind::Amount, "200%"), Ok(Value::Amount(Amount::Share(2000))));
        let whole = Bytes::new(u64::MAX);
        assert_eq!(Amount::Share(500).of(whole).get(), u64::MAX / 2);
        assert_eq!(Amount::Share(9_999_999).of(whole).get(), u64::MAX);
    }

    #[test]
    fn sizes_and_times_need_their_unit() {
        assert_eq!(text(Kind::Bytes, "4KiB"), Ok(Value::Bytes(Bytes::from_kib(4))));
        assert_eq!(text(Kind::Time, "1.5s"), Ok(Value::Time(Nanos::from_millis(1500))));
        assert!(text(Kind::Bytes, "4096").unwrap_err().contains("unit"));
        assert!(text(Kind::Time, "60 parsecs").is_err());
        assert!(value(Kind::Bytes, Scalar::Integer(4096)).unwrap_err().contains("4KiB"));
        assert!(value(Kind::Time, Scalar::Integer(60)).unwrap_err().contains("60s"));
    }

    #[test]
    fn skews_regions_placements_and_goals_are_read() {
        let zipf = Value::Skew(Skew::Zipf { theta_per_mille: 990 });
        assert_eq!(text(Kind::Skew, "zipf:0.99"), Ok(zipf));
        let Ok(Value::Skew(Skew::Zones { zones })) = text(Kind::Skew, "zones:80%/20%,20%/80%")
        else {
            panic!("zones");
        };
        assert_eq!(zones.len(), 2);
        let by = RegionValue::OffsetEach(Amount::Share(120));
        assert_eq!(text(Kind::Region, "offset:12%"), Ok(Value::Region(by)));
        let cpus = Value::Placement(Placement::Cpus(vec![0, 1, 8]));
        assert_eq!(text(Kind::Placement, "cpus:0-1,8"), Ok(cpus));
        let goal = Goal { percentile: 99.9, latency: Nanos::from_millis(10) };
        assert_eq!(text(Kind::Goal, "p99.9 <= 10ms"), Ok(Value::Goal(goal)));
        for (kind, wrong) in [
            (Kind::Skew, "zipf"),
            (Kind::Skew, "zones:80%"),
            (Kind::Region, "offset:"),
            (Kind::Placement, "cpus:3-1"),
            (Kind::Placement, "cpus:0-4294967295"),
            (Kind::Goal, "p100 <= 1ms"),
            (Kind::Goal, "p99 < 1ms"),
        ] {
            assert!(text(kind, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_that_are_nearly_right_are_suggested() {
        let error = text(Kind::Choice(super::super::keys::SYNCS), "odsync").unwrap_err();
        assert!(error.contains("did you mean 'o_dsync'?"), "{error}");
    }
}
