//! Conditions from text, by recursive descent.
//!
//! In: text. Out: a condition whose facts are not checked. Not here: kinds.
//!
//! ```text
//! any     = all { "or" all }
//! all     = not { "and" not }
//! not     = "not" not | "(" any ")" | test
//! test    = fact | fact "has" word | fact "in" "[" word { "," word } "]" | term sign term
//! term    = fact | number [unit] | 'word' | number "*" fact
//! sign    = "==" | "!=" | "<" | "<=" | ">" | ">="
//! ```

use super::super::value::{Value, literal};
use super::{Comparison, Condition, Term};

/// Deeper nesting is a mistake.
const DEPTH_MAX: u32 = 16;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Number(String),
    Word(String),
    Sign(&'static str),
}

const SIGNS: &[&str] = &["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", "*"];

pub(super) fn parse(text: &str) -> Result<Condition, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let condition = parser.any()?;
    match parser.tokens.get(parser.at) {
        None => Ok(condition),
        Some(token) => Err(format!("{token:?} was not expected")),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first == '\'' {
            let word = rest[1..].split_once('\'').ok_or("a word has no closing quote")?.0;
            (Token::Word(word.to_owned()), word.len() + 2)
        } else if first.is_ascii_digit() {
            let number = leading(rest, |c| c.is_ascii_alphanumeric() || c == '.');
            (Token::Number(number.to_owned()), number.len())
        } else if first.is_ascii_alphabetic() {
            let name = leading(rest, |c| c.is_ascii_alphanumeric() || "._-".contains(c));
            (Token::Name(name.to_owned()), name.len())
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| format!("'{first}' was not expected"))?;
            (Token::Sign(sign), sign.len())
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len())).0
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

impl Parser {
    fn next(&mut self) -> Result<Token, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("it ends too early")?;
        self.at += 1;
        Ok(token)
    }

    fn takes(&mut self, expected: &Token) -> bool {
        let found = self.tokens.get(self.at) == Some(expected);
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        self.takes(&Token::Name(word.to_owned()))
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        if self.takes(&Token::Sign(sign)) { Ok(()) } else { Err(format!("'{sign}' is missing")) }
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.all()?];
        while self.takes_word("or") {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, Condition::Any))
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.not()?];
        while self.takes_word("and") {
            parts.push(self.not()?);
        }
        Ok(one_or(parts, Condition::All))
    }

    fn not(&mut self) -> Result<Condition, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deeply".to_owned());
        }
        let condition = if self.takes_word("not") {
            Condition::Not(Box::new(self.not()?))
        } else if self.takes(&Token::Sign("(")) {
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
            if self.takes_word("has") {
                return Ok(Condition::Has(name.clone(), self.word()?));
            }
            if self.takes_word("in") {
                return Ok(Condition::OneOf(name.clone(), self.words()?));
            }
        }
        match (self.comparison(), left) {
            (Some(comparison), left) => {
                self.at += 1;
                Ok(Condition::Compare(comparison, left, self.term()?))
            }
            (None, Term::Fact(name)) => Ok(Condition::IsOn(name)),
            (None, left) => Err(format!("{left:?} is compared with nothing")),
        }
    }

    fn comparison(&self) -> Option<Comparison> {
        let Token::Sign(sign) = self.tokens.get(self.at)? else { return None };
        Some(match *sign {
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    fn term(&mut self) -> Result<Term, String> {
        match self.next()? {
            Token::Name(name) => Ok(Term::Fact(name)),
            Token::Word(word) => Ok(Term::Literal(Value::Text(word))),
            Token::Number(text) => {
                let value = literal(&text).ok_or_else(|| format!("'{text}' is no number"))?;
                match (&value, self.takes(&Token::Sign("*"))) {
                    (Value::Number(factor), true) => Ok(Term::Times(*factor, self.name()?)),
                    (_, true) => Err(format!("'{text}' is no factor")),
                    (_, false) => Ok(Term::Literal(value)),
                }
            }
            Token::Sign(sign) => Err(format!("'{sign}' was not expected")),
        }
    }

    fn name(&mut self) -> Result<String, String> {
        match self.next()? {
            Token::Name(name) => Ok(name),
            other => Err(format!("{other:?} is no fact")),
        }
    }

    fn word(&mut self) -> Result<String, String> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => Err(format!("{other:?} is no word in quotes")),
        }
    }

    fn words(&mut self) -> Result<Vec<String>, String> {
        self.expect("[")?;
        let mut words = vec![self.word()?];
        while self.takes(&Token::Sign(",")) {
            words.push(self.word()?);
        }
        self.expect("]")?;
        Ok(words)
    }
}

fn one_or(mut parts: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            join(parts)
        }
    }
}
