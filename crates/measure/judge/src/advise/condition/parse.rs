//! Conditions from text, by recursive descent.
//!
//! The kinds of facts are not checked here.
//!
//! ```text
//! any     = all { "or" all }
//! all     = not { "and" not }
//! not     = "not" not | "(" any ")" | test
//! test    = fact | fact "has" word | fact "in" "[" word { "," word } "]" | term sign term
//! term    = fact | number [unit] | 'word' | number "*" fact
//! sign    = "==" | "!=" | "<" | "<=" | ">" | ">="
//! ```

use super::super::value::{FactValue, literal};
use super::{COMPARISONS, Condition, Term};

// Deeper nesting is a mistake, and recursion without a bound would overflow the stack.
const DEPTH_MAX: u32 = 16;

// The first match is taken: longer signs stand before their prefixes.
const SIGNS: &[&str] = &["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", "*"];

pub(super) fn parse(text: &str) -> Result<Condition, String> {
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
        let value = literal(token).ok_or_else(|| format!("'{token}' is no number"))?;
        match (&value, self.takes("*")) {
            (FactValue::Number(factor), true) => Ok(Term::Times(*factor, self.name()?)),
            (_, true) => Err(format!("'{token}' is no factor")),
            (_, false) => Ok(Term::Literal(value)),
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let token = self.next()?;
        is_name(token).then(|| token.to_owned()).ok_or_else(|| format!("\"{token}\" is no fact"))
    }

    fn word(&mut self) -> Result<String, String> {
        let token = self.next()?;
        let word = token.strip_prefix('\'').map(str::to_owned);
        word.ok_or_else(|| format!("\"{token}\" is no word in quotes"))
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
