//! A lenient reader of JSON that knows its line.
//!
//! In: bytes. Out: values asked for by type, faults with line and keys. Not here: what keys mean.
//! serde_json does not do: fio prints `nan`, raw control characters and repeated keys, and the line
//! of every job is wanted. Memory: one string at a time; depth: [`DEPTH_MAX`].

mod scalars;
mod skip;

use std::borrow::Cow;

use crate::FioError;

/// fio's own documents are 8 deep. Text with ever more brackets is read once per bracket and depth.
const DEPTH_MAX: u32 = 16;

/// Why a document cannot be read, with the keys around the place, innermost first.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) line: u64,
    keys: Vec<String>,
    /// `None` if the bytes end.
    what: Option<String>,
}

impl Fault {
    pub(super) fn new(line: u64, what: impl Into<String>) -> Self {
        Self { line, keys: Vec::new(), what: Some(what.into()) }
    }

    fn inside(mut self, key: &str) -> Self {
        self.keys.push(key.chars().take(64).collect());
        self
    }

    fn place(&self) -> String {
        let keys: Vec<&str> = self.keys.iter().rev().map(String::as_str).collect();
        if keys.is_empty() { "the document".to_owned() } else { keys.join(".") }
    }
}

impl From<Fault> for FioError {
    fn from(fault: Fault) -> Self {
        let (line, inside) = (fault.line, fault.place());
        match fault.what {
            None => Self::CutOff { line, inside },
            Some(what) => Self::Malformed { line, inside, what },
        }
    }
}

pub(super) type Read<T> = Result<T, Fault>;

/// A place in the bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, line: 1 }
    }

    /// How many bytes are behind.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The line of the next value, from 1.
    pub(super) fn line(&mut self) -> u64 {
        self.skip_blank();
        self.line
    }

    /// Goes to the next `{`; false at the end of the bytes.
    pub(super) fn find_brace(&mut self) -> bool {
        while let Some(byte) = self.peek() {
            if byte == b'{' {
                return true;
            }
            self.step();
        }
        false
    }

    /// True if an object follows whose first key is one of these, which need no escapes.
    pub(super) fn has_first_key(mut self, keys: &[&str]) -> bool {
        self.step();
        self.skip_blank();
        self.step();
        let rest = self.rest();
        let is_key = |key: &&str| {
            rest.starts_with(key.as_bytes()) && rest.get(key.len()).is_some_and(|it| *it == b'"')
        };
        keys.iter().any(is_key)
    }

    /// Past one byte, which counts if it is a new line.
    pub(super) fn step(&mut self) {
        if let Some(byte) = self.peek() {
            self.at += 1;
            self.line += u64::from(byte == b'\n');
        }
    }

    /// Reads an object; `each` reads or skips the value of each key.
    pub(super) fn object(&mut self, mut each: impl FnMut(&mut Self, &str) -> Read<()>) -> Read<()> {
        self.open(b'{', "an object")?;
        let mut first = true;
        while self.goes_on(b'}', &mut first)? {
            let key = self.key()?;
            each(self, &key).map_err(|fault| fault.inside(&key))?;
        }
        Ok(())
    }

    /// Reads an array; `each` reads or skips each value.
    pub(super) fn array(&mut self, mut each: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.open(b'[', "an array")?;
        let mut first = true;
        while self.goes_on(b']', &mut first)? {
            each(self)?;
        }
        Ok(())
    }

    /// True if the next value is an array.
    pub(super) fn is_array(&mut self) -> bool {
        self.skip_blank();
        self.peek() == Some(b'[')
    }

    /// Past `null`, if that is next.
    pub(super) fn takes_null(&mut self) -> bool {
        self.skip_blank();
        let is_null = self.rest().starts_with(b"null");
        if is_null {
            self.at += 4;
        }
        is_null
    }

    fn key(&mut self) -> Read<Cow<'a, str>> {
        let key = self.quoted("a key")?;
        self.skip_blank();
        match self.peek() {
            Some(b':') => self.step(),
            Some(_) => return Err(self.fault("there is no ':'").inside(&key)),
            None => return Err(self.end().inside(&key)),
        }
        Ok(key)
    }

    fn open(&mut self, bracket: u8, expected: &str) -> Read<()> {
        self.skip_blank();
        match self.peek() {
            Some(byte) if byte == bracket => self.step(),
            _ => return Err(self.unexpected(expected)),
        }
        Ok(())
    }

    /// Past the comma to the next entry, or past the closing bracket.
    fn goes_on(&mut self, closing: u8, first: &mut bool) -> Read<bool> {
        self.skip_blank();
        let is_first = std::mem::replace(first, false);
        match self.peek() {
            None => Err(self.end()),
            Some(byte) if byte == closing => {
                self.step();
                Ok(false)
            }
            Some(_) if is_first => Ok(true),
            Some(b',') => {
                self.step();
                Ok(true)
            }
            Some(_) => Err(self.fault("there is no ',' between two values")),
        }
    }

    fn fault(&self, what: impl Into<String>) -> Fault {
        Fault::new(self.line, what)
    }

    fn end(&self) -> Fault {
        Fault { line: self.line, keys: Vec::new(), what: None }
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = match self.peek() {
            None => return self.end(),
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'"') => "a string",
            Some(b'-' | b'0'..=b'9') => "a number",
            Some(_) => "something else",
        };
        self.fault(format!("expected {expected}, found {found}"))
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.step();
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
