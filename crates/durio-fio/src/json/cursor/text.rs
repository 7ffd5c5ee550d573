//! Strings as fio prints them: only `"` and `\` are escaped.
//!
//! In: a quoted string, perhaps with control characters or broken UTF-8. Out: text. Not here: keys.

use std::borrow::Cow;

use super::{Cursor, Read};

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
