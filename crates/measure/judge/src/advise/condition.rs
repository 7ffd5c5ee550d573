//! The language of conditions: comparisons of named facts, with `and`, `or`, `not` and parentheses.
//!
//! An example is `device.read_ahead_kb >= 128KiB and fs.options has 'noatime'`. A condition is
//! true, false or unknown, and reports the facts that it used and those that are missing.
//!
//! Logic is three-valued (Kleene): a missing fact decides nothing, unless the rest decides. Kinds
//! are checked when a rule is read, so that bytes are never compared with seconds.

mod parse;

use std::cmp::Ordering;

use serde::de::{Deserialize, Deserializer, Error as _};

use super::catalogue::Catalogue;
use super::facts::Facts;
use super::value::{FactValue, ValueKind};

/// A condition, whose facts are not checked yet.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// By one of the signs of [`COMPARISONS`].
    Compare(&'static str, Term, Term),
    /// The text is one of these.
    OneOf(String, Vec<String>),
    /// The list has this word.
    Has(String, String),
    /// The flag is on.
    IsOn(String),
}

/// Whether a sign holds, by the order of its sides.
type Holds = fn(Ordering) -> bool;

const COMPARISONS: [(&str, Holds); 6] = [
    ("==", Ordering::is_eq),
    ("!=", Ordering::is_ne),
    ("<", Ordering::is_lt),
    ("<=", Ordering::is_le),
    (">", Ordering::is_gt),
    (">=", Ordering::is_ge),
];

/// One side of a comparison.
#[derive(Debug, Clone)]
pub(super) enum Term {
    Fact(String),
    Literal(FactValue),
    /// A factor times a fact.
    Times(f64, String),
}

/// The facts that a condition looked at.
#[derive(Debug, Default)]
pub(super) struct SeenFacts {
    pub(super) used: Vec<String>,
    pub(super) missing: Vec<String>,
}

impl SeenFacts {
    fn look<'a>(&mut self, facts: &'a Facts, name: &str) -> Option<&'a FactValue> {
        let value = facts.value(name);
        let list = if value.is_some() { &mut self.used } else { &mut self.missing };
        add_once(list, name.to_owned());
        value
    }

    fn join(&mut self, other: Self) {
        other.used.into_iter().for_each(|name| add_once(&mut self.used, name));
        other.missing.into_iter().for_each(|name| add_once(&mut self.missing, name));
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse::parse(&text).map_err(|reason| D::Error::custom(format!("in \"{text}\": {reason}")))
    }
}

impl Condition {
    /// Whether the condition holds; `None` if unknown.
    pub(super) fn holds(&self, facts: &Facts, seen: &mut SeenFacts) -> Option<bool> {
        match self {
            Self::All(parts) => decided(parts, false, facts, seen),
            Self::Any(parts) => decided(parts, true, facts, seen),
            Self::Not(part) => part.holds(facts, seen).map(|holds| !holds),
            Self::Compare(sign, left, right) => {
                // Both sides are looked at, so that everything missing is named at once.
                let (left, right) = (left.value(facts, seen), right.value(facts, seen));
                let order = order(&left?, &right?)?;
                let (_, holds) = COMPARISONS.iter().find(|(known, _)| known == sign)?;
                Some(holds(order))
            }
            Self::OneOf(name, words) => match seen.look(facts, name)? {
                FactValue::Text(text) => Some(words.contains(text)),
                _ => None,
            },
            Self::Has(name, word) => match seen.look(facts, name)? {
                FactValue::List(list) => Some(list.contains(word)),
                _ => None,
            },
            Self::IsOn(name) => match seen.look(facts, name)? {
                FactValue::Flag(flag) => Some(*flag),
                _ => None,
            },
        }
    }

    /// Checks it against the kinds of its facts; an error is a sentence.
    pub(super) fn check(&self, catalogue: &Catalogue) -> Result<(), String> {
        let is = |name: &str, kind: ValueKind, words: &str| match kind_of(name, catalogue)? {
            found if found.is_like(kind) => Ok(()),
            _ => Err(format!("'{name}' is no {words}")),
        };
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().try_for_each(|part| part.check(catalogue))
            }
            Self::Not(part) => part.check(catalogue),
            Self::OneOf(name, _) => is(name, ValueKind::Text, "text"),
            Self::Has(name, _) => is(name, ValueKind::List, "list"),
            Self::IsOn(name) => is(name, ValueKind::Flag, "flag"),
            Self::Compare(sign, left, right) => {
                let (left, right) = (left.kind(catalogue)?, right.kind(catalogue)?);
                if !left.is_like(right) {
                    return Err(format!("{left:?} is set against {right:?}"));
                }
                // Words and flags have no order, but can be equal.
                let is_equality = ["==", "!="].contains(sign);
                let has_order =
                    matches!(left, ValueKind::Number | ValueKind::Bytes(_) | ValueKind::Time(_));
                let fits = has_order || is_equality;
                if fits { Ok(()) } else { Err(format!("{left:?} has no order")) }
            }
        }
    }
}

fn add_once(list: &mut Vec<String>, name: String) {
    if !list.contains(&name) {
        list.push(name);
    }
}

/// Joins parts: the result is `deciding` if any part is, else unknown if any part is.
fn decided(
    parts: &[Condition],
    deciding: bool,
    facts: &Facts,
    seen: &mut SeenFacts,
) -> Option<bool> {
    let mut unknown = false;
    let mut all = SeenFacts::default();
    for part in parts {
        let mut own = SeenFacts::default();
        match part.holds(facts, &mut own) {
            Some(holds) if holds == deciding => {
                // This part decides alone: facts seen or missing in the others do not count.
                seen.join(own);
                return Some(deciding);
            }
            Some(_) => {}
            None => unknown = true,
        }
        // All parts are looked at, so that everything missing is named at once.
        all.join(own);
    }
    seen.join(all);
    (!unknown).then_some(!deciding)
}

fn kind_of(name: &str, catalogue: &Catalogue) -> Result<ValueKind, String> {
    catalogue.kind(name).ok_or_else(|| format!("there is no fact '{name}'"))
}

impl Term {
    fn value(&self, facts: &Facts, seen: &mut SeenFacts) -> Option<FactValue> {
        match self {
            Self::Fact(name) => seen.look(facts, name).cloned(),
            Self::Literal(value) => Some(value.clone()),
            Self::Times(factor, name) => seen.look(facts, name)?.times(*factor),
        }
    }

    fn kind(&self, catalogue: &Catalogue) -> Result<ValueKind, String> {
        match self {
            Self::Fact(name) => kind_of(name, catalogue),
            Self::Literal(value) => Ok(value.kind()),
            Self::Times(_, name) => match kind_of(name, catalogue)? {
                kind @ (ValueKind::Number | ValueKind::Bytes(_) | ValueKind::Time(_)) => Ok(kind),
                other => Err(format!("'{name}' cannot be multiplied: {other:?}")),
            },
        }
    }
}

/// `None` for values of different kinds, which the check of a rule refuses.
fn order(left: &FactValue, right: &FactValue) -> Option<Ordering> {
    match (left.magnitude(), right.magnitude()) {
        (Some(left), Some(right)) => left.partial_cmp(&right),
        // Words and flags are equal or not; that they have no order is checked.
        (None, None) => Some(if left == right { Ordering::Equal } else { Ordering::Less }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
