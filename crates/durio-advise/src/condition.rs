//! The language of conditions: comparisons of named facts, with `and`, `or`, `not` and parentheses.
//!
//! In: text such as `device.read_ahead_kb >= 128KiB and fs.options has 'noatime'`, and facts.
//! Out: true, false, or not to be told, with the facts that were used and those that are missing.
//! Not here: what follows from it.
//!
//! Logic has three values (Kleene): what is missing decides nothing, unless the rest decides.
//! Kinds are checked when a rule is read, so that bytes are never set against seconds.

mod parse;

use super::catalogue::Catalogue;
use super::facts::Facts;
use super::value::{Kind, Value};

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Compare(Comparison, Term, Term),
    /// The text is one of these.
    OneOf(String, Vec<String>),
    /// The list has this word.
    Has(String, String),
    /// The flag is on.
    IsOn(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Term {
    Fact(String),
    Literal(Value),
    /// So many times a fact.
    Times(f64, String),
}

/// The facts that a condition looked at.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) used: Vec<String>,
    pub(super) missing: Vec<String>,
}

impl Seen {
    fn look<'a>(&mut self, facts: &'a Facts, name: &str) -> Option<&'a Value> {
        let value = facts.value(name);
        let list = if value.is_some() { &mut self.used } else { &mut self.missing };
        if !list.iter().any(|known| known == name) {
            list.push(name.to_owned());
        }
        value
    }
}

impl Condition {
    /// Reads a condition and checks it against the kinds of its facts.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub(super) fn read(text: &str, catalogue: &Catalogue) -> Result<Self, String> {
        let condition = parse::parse(text)?;
        condition.check(catalogue)?;
        Ok(condition)
    }

    /// Whether it holds; none if that cannot be told.
    pub(super) fn holds(&self, facts: &Facts, seen: &mut Seen) -> Option<bool> {
        match self {
            Self::All(parts) => decided(parts, false, facts, seen),
            Self::Any(parts) => decided(parts, true, facts, seen),
            Self::Not(part) => part.holds(facts, seen).map(|holds| !holds),
            Self::Compare(comparison, left, right) => {
                let (left, right) = (left.value(facts, seen), right.value(facts, seen));
                comparison.holds(&left?, &right?)
            }
            Self::OneOf(name, words) => match seen.look(facts, name)? {
                Value::Text(text) => Some(words.contains(text)),
                _ => None,
            },
            Self::Has(name, word) => match seen.look(facts, name)? {
                Value::List(list) => Some(list.contains(word)),
                _ => None,
            },
            Self::IsOn(name) => match seen.look(facts, name)? {
                Value::Flag(flag) => Some(*flag),
                _ => None,
            },
        }
    }

    fn check(&self, catalogue: &Catalogue) -> Result<(), String> {
        let is = |name: &str, kind: Kind, words: &str| match kind_of(name, catalogue)? {
            found if found.is_like(kind) => Ok(()),
            _ => Err(format!("'{name}' is no {words}")),
        };
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().try_for_each(|part| part.check(catalogue))
            }
            Self::Not(part) => part.check(catalogue),
            Self::OneOf(name, _) => is(name, Kind::Text, "text"),
            Self::Has(name, _) => is(name, Kind::List, "list"),
            Self::IsOn(name) => is(name, Kind::Flag, "flag"),
            Self::Compare(comparison, left, right) => {
                let (left, right) = (left.kind(catalogue)?, right.kind(catalogue)?);
                if !left.is_like(right) {
                    return Err(format!("{left:?} is set against {right:?}"));
                }
                let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
                let has_order = matches!(left, Kind::Number | Kind::Bytes(_) | Kind::Time(_));
                let fits = has_order || is_equality;
                if fits { Ok(()) } else { Err(format!("{left:?} has no order")) }
            }
        }
    }
}

/// Of parts that are joined: one that is `deciding` decides, else one that is unknown.
fn decided(parts: &[Condition], deciding: bool, facts: &Facts, seen: &mut Seen) -> Option<bool> {
    // All parts are looked at, so that everything missing is named at once; what was seen of parts
    // that decide alone is what counts.
    let mut unknown = false;
    let mut all = Seen::default();
    for part in parts {
        let mut own = Seen::default();
        match part.holds(facts, &mut own) {
            Some(holds) if holds == deciding => {
                *seen = joined(std::mem::take(seen), own);
                return Some(deciding);
            }
            Some(_) => {}
            None => unknown = true,
        }
        all = joined(all, own);
    }
    *seen = joined(std::mem::take(seen), all);
    if unknown { None } else { Some(!deciding) }
}

fn joined(mut one: Seen, other: Seen) -> Seen {
    let add = |list: &mut Vec<String>, more: Vec<String>| {
        for name in more {
            if !list.contains(&name) {
                list.push(name);
            }
        }
    };
    add(&mut one.used, other.used);
    add(&mut one.missing, other.missing);
    one
}

fn kind_of(name: &str, catalogue: &Catalogue) -> Result<Kind, String> {
    catalogue.kind(name).ok_or_else(|| format!("there is no fact '{name}'"))
}

impl Term {
    fn value(&self, facts: &Facts, seen: &mut Seen) -> Option<Value> {
        match self {
            Self::Fact(name) => seen.look(facts, name).cloned(),
            Self::Literal(value) => Some(value.clone()),
            Self::Times(factor, name) => seen.look(facts, name)?.times(*factor),
        }
    }

    fn kind(&self, catalogue: &Catalogue) -> Result<Kind, String> {
        match self {
            Self::Fact(name) => kind_of(name, catalogue),
            Self::Literal(value) => Ok(value.kind()),
            Self::Times(_, name) => match kind_of(name, catalogue)? {
                kind @ (Kind::Number | Kind::Bytes(_) | Kind::Time(_)) => Ok(kind),
                other => Err(format!("'{name}' cannot be multiplied: {other:?}")),
            },
        }
    }
}

impl Comparison {
    /// None for values of different kinds, which the check of a rule does not let pass.
    fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        let order = match (left.magnitude(), right.magnitude()) {
            (Some(left), Some(right)) => left.partial_cmp(&right)?,
            (None, None) => match left == right {
                true => std::cmp::Ordering::Equal,
                false => std::cmp::Ordering::Less,
            },
            _ => return None,
        };
        Some(match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        })
    }
}

#[cfg(test)]
mod tests;
