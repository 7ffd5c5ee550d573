//! Facts: named values, each with the place where it was read; texts with facts in them, such as
//! `echo ${device.scheduler} > …`; and the catalogue of the facts that exist, with their kinds and
//! how to get the missing ones (`rules/facts.toml`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use durio_base::{Bytes, Nanos, nearest_word};
use durio_command::{CommandError, CommandErrorKind};
use serde::Deserialize;
use thiserror::Error;

/// A fact that is known, or whose text could not be understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KnownFact {
    /// The value, or why the text does not give one.
    pub(super) value: Result<FactValue, String>,
    /// The original text: commands that undo a change need it to the letter.
    pub(super) text: String,
    /// A file, a document, a run folder.
    pub(super) place: String,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Facts(BTreeMap<String, KnownFact>);

impl Facts {
    /// A value that needs no reading.
    pub(super) fn put(
        &mut self,
        name: impl Into<String>,
        value: FactValue,
        place: impl Into<String>,
    ) {
        let text = value.to_string();
        self.0.insert(name.into(), KnownFact { value: Ok(value), text, place: place.into() });
    }

    /// A text, read by the kind that the catalogue has for the name. False if no rule knows it.
    pub(super) fn read(
        &mut self,
        catalogue: &Catalogue,
        name: &str,
        text: &str,
        place: impl Into<String>,
    ) -> bool {
        let Some(kind) = catalogue.kind(name) else { return false };
        let (value, place) = (kind.read(text), place.into());
        // A text of another kind is kept with the reason: advice then says what stood there.
        self.0.insert(name.to_owned(), KnownFact { value, text: text.trim().to_owned(), place });
        true
    }

    pub(super) fn get(&self, name: &str) -> Option<&KnownFact> {
        self.0.get(name)
    }

    pub(super) fn value(&self, name: &str) -> Option<&FactValue> {
        self.0.get(name)?.value.as_ref().ok()
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.magnitude()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            FactValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Adds the facts of `other`.
    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().map(|(name, fact)| (name.clone(), fact.clone())));
    }
}

/// The parts of a text: literal text, each with the name of the fact that follows it.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let now = rest.take()?;
        let Some((before, after)) = now.split_once("${") else { return Some((now, None)) };
        let Some((name, after)) = after.split_once('}') else { return Some((now, None)) };
        rest = Some(after);
        Some((before, Some(name)))
    })
}

/// The facts that a text names.
pub(super) fn named_in(text: &str) -> impl Iterator<Item = &str> {
    parts(text).filter_map(|(_, name)| name)
}

/// The text with its facts; one that is missing stands as `<name>`.
pub(super) fn filled(text: &str, facts: &Facts) -> String {
    let part = |(before, name): (&str, Option<&str>)| match name {
        Some(name) => match facts.get(name) {
            Some(fact) => format!("{before}{}", fact.text),
            None => format!("{before}<{name}>"),
        },
        None => before.to_owned(),
    };
    parts(text).map(part).collect()
}

/// The kind of a fact's text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ValueKind {
    /// A count, a share, a ratio.
    Number,
    /// Bytes; a bare number is multiplied by this.
    Bytes(f64),
    /// Nanoseconds; a bare number is multiplied by this.
    Time(f64),
    /// Any text that is not empty.
    Text,
    /// On or off, in one of eight spellings.
    Flag,
    /// Words between commas or blanks.
    List,
}

/// The value of a fact.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FactValue {
    Number(f64),
    Bytes(f64),
    Time(f64),
    Text(String),
    Flag(bool),
    List(Vec<String>),
}

// As kernels and databases write them: all are powers of 1024, `kB` of PostgreSQL too.
const BYTES: &[(&str, f64)] = &[
    ("b", 1.0),
    ("k", 1024.0),
    ("kb", 1024.0),
    ("kib", 1024.0),
    ("m", 1_048_576.0),
    ("mb", 1_048_576.0),
    ("mib", 1_048_576.0),
    ("g", 1_073_741_824.0),
    ("gb", 1_073_741_824.0),
    ("gib", 1_073_741_824.0),
    ("t", 1_099_511_627_776.0),
    ("tb", 1_099_511_627_776.0),
    ("tib", 1_099_511_627_776.0),
];

// Suffixes of times, in nanoseconds.
const TIMES: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];

impl ValueKind {
    /// The kind of `text`: number, bytes, `bytes 1KiB`, time, `time 1us`, text, flag, list.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (word, unit) = text.split_once(' ').unwrap_or((text, ""));
        let scaled = |table| match unit {
            "" => Ok(1.0),
            unit => quantity(unit, table, 1.0).ok_or_else(|| format!("'{unit}' is not a unit")),
        };
        match word {
            "bytes" => Ok(Self::Bytes(scaled(BYTES)?)),
            "time" => Ok(Self::Time(scaled(TIMES)?)),
            _ if !unit.is_empty() => Err(format!("'{word}' takes no unit")),
            "number" => Ok(Self::Number),
            "text" => Ok(Self::Text),
            "flag" => Ok(Self::Flag),
            "list" => Ok(Self::List),
            _ => Err(format!("'{word}' is not a kind of fact")),
        }
    }

    /// The value of `text`, if it has this kind.
    ///
    /// # Errors
    /// The expected form, if the text does not have it.
    pub(super) fn read(self, text: &str) -> Result<FactValue, String> {
        let text = text.trim();
        let (value, expected) = match self {
            Self::Number => (quantity(text, &[], 1.0).map(FactValue::Number), "number"),
            Self::Bytes(unit) => {
                (quantity(text, BYTES, unit).map(FactValue::Bytes), "number of bytes")
            }
            Self::Time(unit) => (quantity(text, TIMES, unit).map(FactValue::Time), "time"),
            Self::Flag => (flag(text).map(FactValue::Flag), "flag (on or off)"),
            Self::Text if text.is_empty() => return Err("it is empty".to_owned()),
            Self::Text => return Ok(FactValue::Text(text.to_owned())),
            Self::List => return Ok(FactValue::List(words(text))),
        };
        // A file of the kernel or of a user may have anything in it; an error is one short line.
        let shown = || text.chars().take(40).flat_map(char::escape_debug).collect::<String>();
        value.ok_or_else(|| format!("'{}' is not a {expected}", shown()))
    }

    /// True if values of both kinds can be compared.
    pub(super) fn is_like(self, other: Self) -> bool {
        // Units are those of a bare number in the text; values are in bytes and nanoseconds.
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// A literal of a condition: a number, maybe with a unit.
pub(super) fn literal(text: &str) -> Option<FactValue> {
    if let Some(number) = quantity(text, &[], 1.0) {
        return Some(FactValue::Number(number));
    }
    // No suffix is used for both times and bytes, so the order does not matter.
    let time = quantity(text, TIMES, 1.0).map(FactValue::Time);
    time.or_else(|| quantity(text, BYTES, 1.0).map(FactValue::Bytes))
}

/// A finite number, negative ones included, with one of the suffixes or without, which is `bare`.
fn quantity(text: &str, suffixes: &[(&str, f64)], bare: f64) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: f64 = number.trim().parse().ok()?;
    let unit = match suffix.trim() {
        "" => bare,
        suffix => suffixes.iter().find(|(name, _)| name.eq_ignore_ascii_case(suffix))?.1,
    };
    // A long row of digits overflows to infinity.
    Some(number * unit).filter(|value| value.is_finite())
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

fn words(text: &str) -> Vec<String> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

impl FactValue {
    pub(super) fn kind(&self) -> ValueKind {
        match self {
            Self::Number(_) => ValueKind::Number,
            Self::Bytes(_) => ValueKind::Bytes(1.0),
            Self::Time(_) => ValueKind::Time(1.0),
            Self::Text(_) => ValueKind::Text,
            Self::Flag(_) => ValueKind::Flag,
            Self::List(_) => ValueKind::List,
        }
    }

    /// The number in bytes, nanoseconds or as it is; `None` for words and flags.
    pub(super) fn magnitude(&self) -> Option<f64> {
        match self {
            Self::Number(number) | Self::Bytes(number) | Self::Time(number) => Some(*number),
            Self::Text(_) | Self::Flag(_) | Self::List(_) => None,
        }
    }

    pub(super) fn times(&self, factor: f64) -> Option<Self> {
        match self {
            Self::Number(number) => Some(Self::Number(number * factor)),
            Self::Bytes(number) => Some(Self::Bytes(number * factor)),
            Self::Time(number) => Some(Self::Time(number * factor)),
            Self::Text(_) | Self::Flag(_) | Self::List(_) => None,
        }
    }
}

impl fmt::Display for FactValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Ratios are quotients of floats, which would show all their digits.
            Self::Number(number) => write!(f, "{}", (number * 1000.0).round() / 1000.0),
            Self::Bytes(number) if *number >= 0.0 => write!(f, "{}", Bytes::new(whole(*number))),
            Self::Time(number) if *number >= 0.0 => write!(f, "{}", Nanos::new(whole(*number))),
            // Databases write -1 for a default or for off, as PostgreSQL does for wal_buffers.
            Self::Bytes(number) | Self::Time(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::Flag(true) => f.write_str("on"),
            Self::Flag(false) => f.write_str("off"),
            Self::List(words) => f.write_str(&words.join(",")),
        }
    }
}

/// The nearest whole number; saturates at the largest.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
fn whole(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

const DATA: &str = include_str!("rules/facts.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueDocument {
    databases: BTreeMap<String, String>,
    facts: BTreeMap<String, RuleGroup>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleGroup {
    obtain: String,
    kinds: BTreeMap<String, String>,
}

/// The facts that conditions may name.
#[derive(Debug)]
pub(super) struct Catalogue {
    kinds: BTreeMap<String, ValueKind>,
    /// By the first part of a fact's name.
    obtain: BTreeMap<String, String>,
    /// A database's name, and the first part of its settings' names.
    databases: BTreeMap<String, String>,
}

impl Catalogue {
    /// The one that this program was built with; an error, if it cannot be read, would fail a test.
    pub(super) fn shipped() -> Result<&'static Self, AdviceError> {
        static CATALOGUE: OnceLock<Result<Catalogue, String>> = OnceLock::new();
        let catalogue = CATALOGUE.get_or_init(|| Self::parse(DATA)).as_ref();
        catalogue.map_err(|reason| AdviceError::bad_rule("facts.toml", reason))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: CatalogueDocument =
            toml::from_str(text).map_err(|error| error.to_string())?;
        let mut catalogue =
            Self { kinds: BTreeMap::new(), obtain: BTreeMap::new(), databases: document.databases };
        for (group, RuleGroup { obtain, kinds }) in document.facts {
            for (name, kind) in kinds {
                let name = format!("{group}.{name}");
                let kind = ValueKind::parse(&kind).map_err(|reason| format!("{name}: {reason}"))?;
                catalogue.kinds.insert(name, kind);
            }
            catalogue.obtain.insert(group, obtain);
        }
        Ok(catalogue)
    }

    pub(super) fn kind(&self, name: &str) -> Option<ValueKind> {
        self.kinds.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// What to do to get a fact that is missing; `*` in the text is its name within its group.
    pub(super) fn obtain(&self, name: &str) -> String {
        let (group, short) = name.split_once('.').unwrap_or((name, ""));
        self.obtain.get(group).map(|text| text.replace('*', short)).unwrap_or_default()
    }

    pub(super) fn databases(&self) -> impl Iterator<Item = &str> {
        self.databases.keys().map(String::as_str)
    }

    /// The first part of the names of a database's settings.
    pub(super) fn settings_of(&self, database: &str) -> Option<&str> {
        self.databases.get(database).map(String::as_str)
    }
}

/// An unknown name, an unusable setting, or rules that cannot be read.
#[derive(Debug, Error)]
pub enum AdviceError {
    /// A rule, a database or a setting that no rule knows.
    #[error("{what} '{name}'{}", meant(nearest.as_deref()))]
    Unknown {
        /// The kind of name, such as `unknown database`.
        what: &'static str,
        /// As the user wrote it.
        name: String,
        /// The known one that looks most alike.
        nearest: Option<String>,
    },
    /// A setting whose value has another kind.
    #[error("the setting '{name}': {reason}")]
    BadSetting {
        name: String,
        /// Why the value is invalid.
        reason: String,
    },
    /// The rules that this program was built with: a test would have said so.
    #[error("the rule '{rule}': {reason}")]
    BadRule {
        /// Its identifier, or the name of the file.
        rule: String,
        reason: String,
    },
}

impl From<AdviceError> for CommandError {
    fn from(error: AdviceError) -> Self {
        let kind = match error {
            AdviceError::BadRule { .. } => CommandErrorKind::Fault,
            _ => CommandErrorKind::WrongUse,
        };
        let is_rule = matches!(error, AdviceError::Unknown { what: "there is no rule", .. });
        let hint = is_rule.then_some("durio explain --all lists the rules");
        hint.into_iter().fold(Self::of(kind, error), Self::hint)
    }
}

impl AdviceError {
    pub(crate) fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let nearest = nearest_word(name, known).map(str::to_owned);
        Self::Unknown { what, name: name.to_owned(), nearest }
    }

    pub(crate) fn bad_rule(rule: &str, reason: &str) -> Self {
        Self::BadRule { rule: rule.to_owned(), reason: reason.to_owned() }
    }
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_stand_as_they_were_read_and_missing_ones_by_name() {
        let mut known = Facts::default();
        known.put("device.name", FactValue::Text("sda".into()), "x");
        let text = "echo 8 > /sys/block/${device.name}/queue/${device.fua}; ATTR{queue/x}=\"1\"";
        let expected = "echo 8 > /sys/block/sda/queue/<device.fua>; ATTR{queue/x}=\"1\"";
        assert_eq!(filled(text, &known), expected);
        assert_eq!(named_in(text).collect::<Vec<_>>(), ["device.name", "device.fua"]);
        assert_eq!(filled("${unfinished", &known), "${unfinished");
    }

    #[test]
    fn texts_are_read_by_their_kind() {
        let kib = ValueKind::parse("bytes 1KiB").unwrap();
        assert_eq!(kib.read("128"), Ok(FactValue::Bytes(131_072.0)));
        assert_eq!(kib.read("8kB"), Ok(FactValue::Bytes(8192.0)));
        let micros = ValueKind::parse("time 1us").unwrap();
        assert_eq!(micros.read("75000"), Ok(FactValue::Time(75e6)));
        assert_eq!(micros.read("10ms"), Ok(FactValue::Time(10e6)));
        assert_eq!(ValueKind::Flag.read("ON"), Ok(FactValue::Flag(true)));
        assert_eq!(ValueKind::List.read("rw,noatime").unwrap().to_string(), "rw,noatime");
        assert_eq!(ValueKind::Number.read("-1"), Ok(FactValue::Number(-1.0)));
    }

    #[test]
    fn texts_of_another_kind_are_errors_that_say_what_was_expected() {
        assert_eq!(ValueKind::Number.read("many").unwrap_err(), "'many' is not a number");
        assert_eq!(ValueKind::Flag.read("2").unwrap_err(), "'2' is not a flag (on or off)");
        for text in ["", "NaN", "inf", "1e999", "12 parsecs", "\u{0}\u{1}", "1MB2"] {
            assert!(ValueKind::Bytes(1.0).read(text).is_err(), "{text}");
            assert!(ValueKind::Time(1.0).read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn literals_have_units() {
        assert_eq!(literal("128KiB"), Some(FactValue::Bytes(131_072.0)));
        assert_eq!(literal("0.5ms"), Some(FactValue::Time(5e5)));
        assert_eq!(literal("16"), Some(FactValue::Number(16.0)));
        assert_eq!(literal("16furlongs"), None);
    }

    #[test]
    fn values_are_shown_with_their_units() {
        assert_eq!(FactValue::Bytes(131_072.0).to_string(), "128 KiB");
        assert_eq!(FactValue::Time(2.5e6).to_string(), "2.5 ms");
        assert_eq!(FactValue::Number(1.23456).to_string(), "1.235");
    }

    #[test]
    fn kinds_that_do_not_exist_are_errors() {
        for text in ["", "number 3", "bytes x", "furlongs"] {
            assert!(ValueKind::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_shipped_facts_can_be_read_and_every_group_says_how_to_get_one() {
        let catalogue = Catalogue::shipped().unwrap();
        assert!(catalogue.names().count() > 80);
        for name in catalogue.names() {
            assert!(!catalogue.obtain(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_missing_setting_says_where_to_look() {
        let catalogue = Catalogue::shipped().unwrap();
        let text = catalogue.obtain("postgresql.commit_delay");
        assert!(text.contains("SHOW commit_delay"), "{text}");
    }

    #[test]
    fn a_fact_of_no_kind_is_an_error() {
        let text = "[databases]\n[facts.x]\nobtain = 'look'\n[facts.x.kinds]\ny = 'furlongs'\n";
        assert!(Catalogue::parse(text).unwrap_err().contains("x.y"));
    }
}
