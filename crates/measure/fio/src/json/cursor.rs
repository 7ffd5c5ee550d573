//! A lenient reader of JSON that knows its line.
//!
//! Callers ask for values by type; faults carry the line and keys. serde_json will not do: fio
//! prints `nan`, raw control characters and repeated keys, and the line of every job is wanted.
//! Memory: one string at a time; depth: [`DEPTH_MAX`].

use std::borrow::Cow;

use crate::FioError;

// fio's own documents are 8 deep. Text with ever more brackets is read once per bracket and depth.
const DEPTH_MAX: u32 = 16;

/// Why a document cannot be read, with the keys around the place, innermost first.
#[derive(Debug)]
pub(super) struct JsonFault {
    pub(super) line: u64,
    keys: Vec<String>,
    /// `None` if the bytes end.
    what: Option<String>,
}

impl JsonFault {
    pub(super) fn new(line: u64, what: impl Into<String>) -> Self {
        Self { line, keys: Vec::new(), what: Some(what.into()) }
    }

    fn inside(mut self, key: &str) -> Self {
        // Whatever the file holds, the message is read by a person.
        self.keys.push(key.chars().take(64).collect());
        self
    }

    fn place(&self) -> String {
        let keys: Vec<&str> = self.keys.iter().rev().map(String::as_str).collect();
        if keys.is_empty() { "the document".to_owned() } else { keys.join(".") }
    }
}

impl From<JsonFault> for FioError {
    fn from(fault: JsonFault) -> Self {
        let (line, inside) = (fault.line, fault.place());
        Self::Other(match fault.what {
            None => format!(
                "line {line}: truncated inside {inside}: fio was killed or is still writing; repeat \
                 the run"
            ),
            Some(what) => format!("line {line}: {inside}: {what}"),
        })
    }
}

pub(super) type JsonResult<T> = Result<T, JsonFault>;

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
            rest.starts_with(key.as_bytes())
                && rest.get(key.len()).is_some_and(|byte| *byte == b'"')
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
    pub(super) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> JsonResult<()>,
    ) -> JsonResult<()> {
        self.open(b'{', "an object")?;
        let mut first = true;
        while self.goes_on(b'}', &mut first)? {
            let key = self.key()?;
            each(self, &key).map_err(|fault| fault.inside(&key))?;
        }
        Ok(())
    }

    pub(super) fn array(
        &mut self,
        mut each: impl FnMut(&mut Self) -> JsonResult<()>,
    ) -> JsonResult<()> {
        self.open(b'[', "an array")?;
        let mut first = true;
        while self.goes_on(b']', &mut first)? {
            each(self)?;
        }
        Ok(())
    }

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

    fn key(&mut self) -> JsonResult<Cow<'a, str>> {
        let key = self.quoted("a key")?;
        self.skip_blank();
        match self.peek() {
            Some(b':') => self.step(),
            Some(_) => return Err(self.fault("missing ':'").inside(&key)),
            None => return Err(self.end().inside(&key)),
        }
        Ok(key)
    }

    fn open(&mut self, bracket: u8, expected: &str) -> JsonResult<()> {
        self.skip_blank();
        match self.peek() {
            Some(byte) if byte == bracket => self.step(),
            _ => return Err(self.unexpected(expected)),
        }
        Ok(())
    }

    /// Past the comma to the next entry, or past the closing bracket.
    fn goes_on(&mut self, closing: u8, first: &mut bool) -> JsonResult<bool> {
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
            Some(_) => Err(self.fault("missing ',' between two values")),
        }
    }

    fn fault(&self, what: impl Into<String>) -> JsonFault {
        JsonFault::new(self.line, what)
    }

    fn end(&self) -> JsonFault {
        JsonFault { line: self.line, keys: Vec::new(), what: None }
    }

    fn unexpected(&self, expected: &str) -> JsonFault {
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

// The longest number that is looked at; fio's longest, a large double with `%f`, has 317 bytes.
const LENGTH_MAX: usize = 400;

impl Cursor<'_> {
    /// A count; a fraction is cut off.
    // fio prints counts as signed numbers: a negative one stands for its two's complement.
    pub(super) fn u64(&mut self) -> JsonResult<u64> {
        let text = self.number_text()?;
        let negative = || text.parse::<i64>().ok().map(i64::cast_unsigned);
        let found = text.parse::<u64>().ok().or_else(negative).or_else(|| whole(&text));
        found.ok_or_else(|| self.fault(format!("'{text}' is not a count")))
    }

    /// A whole number that may be negative.
    pub(super) fn i64(&mut self) -> JsonResult<i64> {
        let text = self.number_text()?;
        text.parse().map_err(|_| self.fault(format!("'{text}' is not a whole number")))
    }

    /// Any number; `nan` and `inf` too.
    pub(super) fn f64(&mut self) -> JsonResult<f64> {
        let text = self.number_text()?;
        text.parse().map_err(|_| self.fault(format!("'{text}' is not a number")))
    }

    fn number_text(&mut self) -> JsonResult<String> {
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
        // More digits may have followed: a document ends with a brace.
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
        reason = "within the range of u64; dropping the fraction is intended"
    )]
    (0.0..18_446_744_073_709_551_616.0).contains(&number).then_some(number as u64)
}

impl<'a> Cursor<'a> {
    /// A string; numbers and words stand for their text.
    pub(super) fn string(&mut self) -> JsonResult<String> {
        self.skip_blank();
        if self.peek() == Some(b'"') {
            return Ok(self.quoted("a string")?.into_owned());
        }
        self.word("a string").map(|word| String::from_utf8_lossy(word).into_owned())
    }

    /// An unquoted word or number as it stands.
    fn word(&mut self, expected: &str) -> JsonResult<&'a [u8]> {
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
    fn quoted(&mut self, expected: &str) -> JsonResult<Cow<'a, str>> {
        let raw = self.quoted_bytes(expected)?;
        let text = String::from_utf8_lossy(raw);
        // Nearly no string has escapes: the text is borrowed.
        Ok(if raw.contains(&b'\\') { Cow::Owned(unescaped(&text)) } else { text })
    }

    fn quoted_bytes(&mut self, expected: &str) -> JsonResult<&'a [u8]> {
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
    // A lone surrogate is not a character.
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

/// The open brackets: bit 0 is the innermost, 1 for an object.
#[derive(Default)]
struct OpenBrackets {
    objects: u32,
    depth: u32,
}

impl Cursor<'_> {
    pub(super) fn skip_value(&mut self) -> JsonResult<()> {
        // No recursion: a million brackets would use up the stack.
        let mut open = OpenBrackets::default();
        loop {
            self.skip_blank();
            match self.peek() {
                Some(b'{') => self.enter(&mut open, true)?,
                Some(b'[') => self.enter(&mut open, false)?,
                Some(b'"') => drop(self.quoted_bytes("a string")?),
                _ => drop(self.word("a value")?),
            }
            if !self.leave(&mut open)? {
                return Ok(());
            }
        }
    }

    fn enter(&mut self, open: &mut OpenBrackets, is_object: bool) -> JsonResult<()> {
        if open.depth >= DEPTH_MAX {
            return Err(self.fault(format!("brackets are nested more than {DEPTH_MAX} deep")));
        }
        open.depth += 1;
        open.objects = (open.objects << 1) | u32::from(is_object);
        self.step();
        Ok(())
    }

    /// To the next value inside the open brackets; false once all are closed.
    fn leave(&mut self, open: &mut OpenBrackets) -> JsonResult<bool> {
        let mut needs_comma = !self.is_after_opening();
        while open.depth > 0 {
            let is_object = open.objects & 1 == 1;
            self.skip_blank();
            match self.peek() {
                None => return Err(self.end()),
                Some(b'}') if is_object => self.close(open),
                Some(b']') if !is_object => self.close(open),
                Some(b',') if needs_comma => {
                    self.step();
                    return self.past_key(is_object);
                }
                Some(_) if !needs_comma => return self.past_key(is_object),
                Some(_) => return Err(self.fault("missing ',' between two values")),
            }
            needs_comma = true;
        }
        Ok(false)
    }

    fn past_key(&mut self, is_object: bool) -> JsonResult<bool> {
        if is_object {
            self.key()?;
        }
        Ok(true)
    }

    fn close(&mut self, open: &mut OpenBrackets) {
        open.depth -= 1;
        open.objects >>= 1;
        self.step();
    }

    fn is_after_opening(&self) -> bool {
        let last = self.at.checked_sub(1).and_then(|last| self.bytes.get(last));
        matches!(last, Some(b'{' | b'['))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn u64_of(text: &str) -> JsonResult<u64> {
        Cursor::new(format!("{text} ").as_bytes()).u64()
    }

    #[test]
    fn counts_are_read_in_all_forms_that_occur() {
        let known = [("7", 7), ("\"7\"", 7), ("7.9", 7), ("1e3", 1000), ("-1", u64::MAX)];
        for (text, expected) in known {
            assert_eq!(u64_of(text).unwrap(), expected, "{text}");
        }
        assert_eq!(u64_of("18446744073709551615").unwrap(), u64::MAX);
    }

    #[test]
    fn what_is_not_a_count_is_said() {
        for text in ["nan", "{}", "[]", "x", "-1.5", "1e99", "\"\""] {
            assert!(u64_of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_double_may_be_nan_or_infinite() {
        let read = |text: &str| Cursor::new(text.as_bytes()).f64().unwrap();
        assert!(read("nan,").is_nan() && read("-nan,").is_nan());
        assert_eq!(read("-inf,"), f64::NEG_INFINITY);
        assert_eq!(read("12.500000}"), 12.5);
    }

    #[test]
    fn strings_keep_raw_control_characters_and_lose_escapes() {
        let read = |bytes: &[u8]| Cursor::new(bytes).string().unwrap();
        assert_eq!(read(b"\"a\tb\""), "a\tb");
        assert_eq!(read(br#""a\\b\"c\/\n\u00e9""#), "a\\b\"c/\n\u{e9}");
        assert_eq!(read(br#""\ud83d\ude00|\ud83d|\uzz""#), "\u{1f600}|\u{fffd}|\u{fffd}zz");
        assert_eq!(read(b"\"\xff\""), "\u{fffd}");
    }

    #[test]
    fn skipping_stops_right_after_the_value() {
        for value in
            ["{}", "[]", "{\"a\":[1,{\"b\":\"}]\"}],\"c\":nan}", "[[],[]]", "true", "\"\\\"\""]
        {
            let text = format!("{value},next");
            let mut cursor = Cursor::new(text.as_bytes());
            cursor.skip_value().unwrap();
            assert_eq!(cursor.at(), value.len(), "{value}");
        }
    }

    #[test]
    fn skipping_refuses_what_is_not_json() {
        for value in ["{1:2}", "[1 2]", "{\"a\" 1}", "[}", "{]", ",", "[,]", "]"] {
            assert!(Cursor::new(value.as_bytes()).skip_value().is_err(), "{value}");
        }
    }

    #[test]
    fn deep_brackets_are_refused_without_recursion() {
        let text = "[".repeat(1_000_000);
        let fault = Cursor::new(text.as_bytes()).skip_value().unwrap_err();
        assert!(FioError::from(fault).to_string().contains("nested more than 16"));
    }

    #[test]
    fn lines_count_in_blanks_strings_and_text() {
        let mut cursor = Cursor::new(b"x\ny\n{\"a\n\" :\n 1}");
        assert!(cursor.find_brace());
        assert_eq!(cursor.line(), 3);
        cursor
            .object(|cursor, _| {
                assert_eq!(cursor.line(), 5);
                cursor.skip_value()
            })
            .unwrap();
    }

    proptest! {
        #[test]
        fn every_strict_document_is_skipped_whole(text in documents()) {
            let mut cursor = Cursor::new(text.as_bytes());
            prop_assert!(cursor.skip_value().is_ok(), "{}", text);
            prop_assert_eq!(cursor.at(), text.len());
        }

        #[test]
        fn any_bytes_are_skipped_or_refused(bytes: Vec<u8>) {
            let _ = Cursor::new(&bytes).skip_value();
        }
    }

    fn documents() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            any::<f64>()
                .prop_filter("finite", |number| number.is_finite())
                .prop_map(serde_json::Value::from),
            any::<String>().prop_map(serde_json::Value::from),
            any::<bool>().prop_map(serde_json::Value::from),
            Just(serde_json::Value::Null),
        ];
        let value = leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
            ]
        });
        (value, any::<bool>()).prop_map(|(value, pretty)| {
            if pretty { format!("{value:#}") } else { value.to_string() }
        })
    }
}
