//! Numbers and strings as fio prints them.
//!
//! In: a number, quoted or not; a quoted string, perhaps with control characters or broken UTF-8, in
//! which only `"` and `\` are escaped. Out: the number in the type asked for, text. Not here: units.

use std::borrow::Cow;

use super::{Cursor, Read};

/// The longest number that is looked at; fio's longest, a large double with `%f`, has 317 bytes.
const LENGTH_MAX: usize = 400;

impl Cursor<'_> {
    /// A count. fio prints counts as signed numbers: a negative one stands for its two's complement.
    /// A fraction is cut off.
    pub(in crate::json) fn u64(&mut self) -> Read<u64> {
        let text = self.number_text()?;
        let negative = || text.parse::<i64>().ok().map(i64::cast_unsigned);
        let found = text.parse::<u64>().ok().or_else(negative).or_else(|| whole(&text));
        found.ok_or_else(|| self.fault(format!("'{text}' is not a count")))
    }

    /// A whole number that may be negative.
    pub(in crate::json) fn i64(&mut self) -> Read<i64> {
        let text = self.number_text()?;
        text.parse().map_err(|_| self.fault(format!("'{text}' is not a whole number")))
    }

    /// Any number; `nan` and `inf` too.
    pub(in crate::json) fn f64(&mut self) -> Read<f64> {
        let text = self.number_text()?;
        text.parse().map_err(|_| self.fault(format!("'{text}' is not a number")))
    }

    fn number_text(&mut self) -> Read<String> {
        self.skip_blank();
        if self.peek() == Some(b'"') {
            return Ok(self.quoted("a number")?.trim().to_owned());
        }
        let rest = self.rest();
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let length = rest.iter().take(LENGTH_MAX).take_while(|&byte| is_part(byte)).count();
        if length == 0 {
            return Err(self.unexpected("a number"));
        }
        if length == rest.len() {
            self.at += length;
            return Err(self.end());
        }
        self.at += length;
        Ok(String::from_utf8_lossy(rest.get(..length).unwrap_or_default()).into_owned())
    }
}

/// The whole part of a number with a fraction or an exponent that fits a count.
fn whole(text: &str) -> Option<u64> {
    let number = text.parse::<f64>().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the range of u64; the fraction is meant to go"
    )]
    (0.0..18_446_744_073_709_551_616.0).contains(&number).then_some(number as u64)
}

impl<'a> Cursor<'a> {
    /// A string; numbers and words stand for their text.
    pub(in crate::json) fn string(&mut self) -> Read<String> {
        self.skip_blank();
        if self.peek() == Some(b'"') {
            return Ok(self.quoted("a string")?.into_owned());
        }
        self.word("a string").map(|word| String::from_utf8_lossy(word).into_owned())
    }

    /// An unquoted word or number as it stands.
    pub(super) fn word(&mut self, expected: &str) -> Read<&'a [u8]> {
        let rest = self.rest();
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
        let word = rest.split(|byte| !is_part(byte)).next().unwrap_or_default();
        if word.is_empty() {
            return Err(self.unexpected(expected));
        }
        self.at += word.len();
        Ok(word)
    }

    /// A quoted string without its escapes.
    pub(super) fn quoted(&mut self, expected: &str) -> Read<Cow<'a, str>> {
        let raw = self.quoted_bytes(expected)?;
        let text = String::from_utf8_lossy(raw);
        Ok(if raw.contains(&b'\\') { Cow::Owned(unescaped(&text)) } else { text })
    }

    /// The bytes between the quotes.
    pub(super) fn quoted_bytes(&mut self, expected: &str) -> Read<&'a [u8]> {
        self.open(b'"', expected)?;
        let start = self.at;
        loop {
            match self.peek() {
                None => return Err(self.end()),
                Some(b'"') => break,
                Some(b'\\') => {
                    self.step();
                    self.step();
                }
                Some(_) => self.step(),
            }
        }
        let raw = self.bytes.get(start..self.at).unwrap_or_default();
        self.step();
        Ok(raw)
    }
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let meant = if character == '\\' { escape(&mut rest) } else { Some(character) };
        plain.extend(meant);
    }
    plain
}

fn escape(rest: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => unit(rest),
        // fio escapes `"` and `\` alone, with a backslash before them.
        other => other,
    })
}

/// The character of `\uXXXX`, or of two of them that belong together.
fn unit(rest: &mut std::str::Chars<'_>) -> char {
    let high = hexadecimal(rest);
    if !(0xd800..0xdc00).contains(&high) {
        return char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    let mut ahead = rest.clone();
    if ahead.next() != Some('\\') || ahead.next() != Some('u') {
        return char::REPLACEMENT_CHARACTER;
    }
    let low = hexadecimal(&mut ahead);
    *rest = ahead;
    let code = 0x1_0000 + ((high - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff);
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn hexadecimal(rest: &mut std::str::Chars<'_>) -> u32 {
    let digits = rest.as_str().get(..4).unwrap_or_default();
    let Ok(code) = u32::from_str_radix(digits, 16) else {
        return u32::from(char::REPLACEMENT_CHARACTER);
    };
    rest.nth(3);
    code
}
