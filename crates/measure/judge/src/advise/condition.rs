//! The language of conditions: comparisons of named facts, with `and`, `or`, `not` and parentheses.
//!
//! An example is `device.read_ahead_kb >= 128KiB and fs.options has 'noatime'`. A condition is
//! true, false or unknown, and reports the facts that it used and those that are missing.
//!
//! Logic is three-valued (Kleene): a missing fact decides nothing, unless the rest decides. Kinds
//! are checked when a rule is read, so that bytes are never compared with seconds. Text is parsed by
//! recursive descent:
//!
//! ```text
//! any     = all { "or" all }
//! all     = not { "and" not }
//! not     = "not" not | "(" any ")" | test
//! test    = fact | fact "has" word | fact "in" "[" word { "," word } "]" | term sign term
//! term    = fact | number [unit] | 'word' | number "*" fact
//! sign    = "==" | "!=" | "<" | "<=" | ">" | ">="
//! ```

use std::cmp::Ordering;

use serde::de::{Deserialize, Deserializer, Error as _};

use super::facts::{Catalogue, FactValue, Facts, ValueKind, literal};

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
        parse(&text).map_err(|reason| D::Error::custom(format!("in \"{text}\": {reason}")))
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
            _ => Err(format!("'{name}' is not a {words}")),
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

// Deeper nesting is a mistake, and recursion without a bound would overflow the stack.
const DEPTH_MAX: u32 = 16;

// The first match is taken: longer signs stand before their prefixes.
const SIGNS: &[&str] = &["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", "*"];

fn parse(text: &str) -> Result<Condition, String> {
    let mut parser = ConditionParser { tokens: tokens(text)?, at: 0, depth: 0 };
    let condition = parser.any()?;
    match parser.tokens.get(parser.at) {
        None => Ok(condition),
        Some(token) => Err(format!("\"{token}\" was not expected")),
    }
}

/// Names, numbers with their units, signs, and words, which keep their first quote.
fn tokens(text: &str) -> Result<Vec<&str>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        // The opening quote is kept: it is how `term` tells a word from a fact.
        let (length, skipped) = if first == '\'' {
            (1 + rest[1..].find('\'').ok_or("a word has no closing quote")?, 1)
        } else if first.is_ascii_digit() {
            (leading(rest, |c| c.is_ascii_alphanumeric() || c == '.'), 0)
        } else if first.is_ascii_alphabetic() {
            (leading(rest, |c| c.is_ascii_alphanumeric() || "._-".contains(c)), 0)
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            (sign.ok_or_else(|| format!("'{first}' was not expected"))?.len(), 0)
        };
        tokens.push(&rest[..length]);
        rest = rest[length + skipped..].trim_start();
    }
    Ok(tokens)
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

struct ConditionParser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    depth: u32,
}

impl<'a> ConditionParser<'a> {
    fn next(&mut self) -> Result<&'a str, String> {
        let token = *self.tokens.get(self.at).ok_or("it ends too early")?;
        self.at += 1;
        Ok(token)
    }

    fn takes(&mut self, expected: &str) -> bool {
        let found = self.tokens.get(self.at) == Some(&expected);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("'{sign}' is missing")) }
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.all()?];
        while self.takes("or") {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, Condition::Any))
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.not()?];
        while self.takes("and") {
            parts.push(self.not()?);
        }
        Ok(one_or(parts, Condition::All))
    }

    fn not(&mut self) -> Result<Condition, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deeply".to_owned());
        }
        let condition = if self.takes("not") {
            Condition::Not(Box::new(self.not()?))
        } else if self.takes("(") {
            let inner = self.any()?;
            self.expect(")")?;
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn test(&mut self) -> Result<Condition, String> {
        let left = self.term()?;
        if let Term::Fact(name) = &left {
            if self.takes("has") {
                return Ok(Condition::Has(name.clone(), self.word()?));
            }
            if self.takes("in") {
                return Ok(Condition::OneOf(name.clone(), self.words()?));
            }
        }
        let sign = COMPARISONS.iter().map(|(sign, _)| *sign).find(|sign| self.takes(sign));
        match (sign, left) {
            (Some(sign), left) => Ok(Condition::Compare(sign, left, self.term()?)),
            (None, Term::Fact(name)) => Ok(Condition::IsOn(name)),
            (None, left) => Err(format!("{left:?} is compared with nothing")),
        }
    }

    fn term(&mut self) -> Result<Term, String> {
        let token = self.next()?;
        if let Some(word) = token.strip_prefix('\'') {
            return Ok(Term::Literal(FactValue::Text(word.to_owned())));
        }
        if is_name(token) {
            return Ok(Term::Fact(token.to_owned()));
        }
        if SIGNS.contains(&token) {
            return Err(format!("'{token}' was not expected"));
        }
        let value = literal(token).ok_or_else(|| format!("'{token}' is not a number"))?;
        match (&value, self.takes("*")) {
            (FactValue::Number(factor), true) => Ok(Term::Times(*factor, self.name()?)),
            (_, true) => Err(format!("'{token}' is not a factor")),
            (_, false) => Ok(Term::Literal(value)),
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let token = self.next()?;
        is_name(token).then(|| token.to_owned()).ok_or_else(|| format!("\"{token}\" is not a fact"))
    }

    fn word(&mut self) -> Result<String, String> {
        let token = self.next()?;
        let word = token.strip_prefix('\'').map(str::to_owned);
        word.ok_or_else(|| format!("\"{token}\" is not a word in quotes"))
    }

    fn words(&mut self) -> Result<Vec<String>, String> {
        self.expect("[")?;
        let mut words = vec![self.word()?];
        while self.takes(",") {
            words.push(self.word()?);
        }
        self.expect("]")?;
        Ok(words)
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn one_or(mut parts: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    if parts.len() == 1 { parts.remove(0) } else { join(parts) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn catalogue() -> &'static Catalogue {
        Catalogue::shipped().unwrap()
    }

    fn read(text: &str) -> Result<Condition, String> {
        let condition = parse(text)?;
        condition.check(catalogue()).map(|()| condition)
    }

    fn facts() -> Facts {
        let mut facts = Facts::default();
        facts.put("device.read_ahead_kb", FactValue::Bytes(131_072.0), "a");
        facts.put("device.scheduler", FactValue::Text("none".into()), "b");
        facts.put("fs.options", FactValue::List(vec!["rw".into(), "noatime".into()]), "c");
        facts.put("device.fua", FactValue::Flag(false), "d");
        facts
    }

    fn holds(text: &str) -> Option<bool> {
        let condition = read(text).unwrap();
        condition.holds(&facts(), &mut SeenFacts::default())
    }

    #[test]
    fn comparisons_heed_units() {
        assert_eq!(holds("device.read_ahead_kb >= 128KiB"), Some(true));
        assert_eq!(holds("device.read_ahead_kb > 128KiB"), Some(false));
        assert_eq!(holds("64KiB <= device.read_ahead_kb"), Some(true));
        assert_eq!(holds("device.read_ahead_kb < 2 * device.read_ahead_kb"), Some(true));
        assert_eq!(holds("device.scheduler == 'none'"), Some(true));
        assert_eq!(holds("device.scheduler in ['bfq', 'kyber']"), Some(false));
        assert_eq!(holds("fs.options has 'noatime' and not device.fua"), Some(true));
    }

    #[test]
    fn and_binds_closer_than_or_and_parentheses_closer_still() {
        assert_eq!(holds("device.fua and device.fua or device.scheduler == 'none'"), Some(true));
        assert_eq!(holds("device.fua and (device.fua or device.scheduler == 'none')"), Some(false));
    }

    #[test]
    fn what_is_missing_decides_nothing_unless_the_rest_decides() {
        assert_eq!(holds("device.nr_requests > 4"), None);
        assert_eq!(holds("device.nr_requests > 4 and device.fua"), Some(false));
        assert_eq!(holds("device.nr_requests > 4 or not device.fua"), Some(true));
        assert_eq!(holds("device.nr_requests > 4 and not device.fua"), None);
        assert_eq!(holds("not device.nr_requests > 4"), None);
    }

    #[test]
    fn the_facts_that_decided_are_named_and_so_are_the_missing() {
        let condition = read("device.nr_requests > 4 and not device.fua").unwrap();
        let mut seen = SeenFacts::default();
        assert_eq!(condition.holds(&facts(), &mut seen), None);
        assert_eq!(
            (seen.used, seen.missing),
            (vec!["device.fua".into()], vec!["device.nr_requests".into()])
        );
    }

    #[test]
    fn kinds_that_do_not_fit_are_errors() {
        for text in [
            "device.read_ahead_kb > 5ms",
            "device.read_ahead_kb > 128",
            "device.scheduler > 'none'",
            "device.scheduler has 'none'",
            "fs.options == 'noatime'",
            "device.scheduler",
            "2 * device.scheduler == 'x'",
            "device.furlongs > 1",
            "fs.options in ['a']",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sentences_that_are_none_are_errors() {
        for text in [
            "",
            "and",
            "device.fua and",
            "(device.fua",
            "device.fua)",
            "device.fua device.fua",
            "device.scheduler == 'none",
            "device.scheduler in []",
            "3 * 4 == 5",
            "128KiB * device.read_ahead_kb == 1",
            "device.fua & device.fua",
            "5",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let deep = format!("{}device.fua{}", "(".repeat(1000), ")".repeat(1000));
        assert!(read(&deep).unwrap_err().contains("deeply"));
        assert!(read(&"not ".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z_.'()\\[\\]<>=!*0-9, é\u{0}]{0,60}") {
            let _ = read(&text);
        }
    }
}
