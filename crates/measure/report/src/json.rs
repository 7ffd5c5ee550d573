//! JSON documents.
//!
//! Writes findings, or any other value, as one indented document with a line end. The form is that
//! of the value, whose schema is named in the document.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::visible::is_hidden;

/// A document in which every character that controls a terminal is an escape of JSON: a parser gets
/// the same text, and a reader in a terminal is not misled.
///
/// # Errors
/// If it cannot be written.
pub fn write_document(
    value: &(impl Serialize + ?Sized),
    out: &mut dyn io::Write,
) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Escaping::default()))?;
    out.write_all(b"\n")
}

/// Indented, as serde_json does it.
#[derive(Default)]
struct Escaping(PrettyFormatter<'static>);

/// Passes calls on to the indenting formatter.
macro_rules! hand_on {
    ($($name:ident($($value:ident: $of:ty)?);)*) => {
        $(fn $name<W: ?Sized + io::Write>(&mut self, out: &mut W $(, $value: $of)?) -> io::Result<()> {
            self.0.$name(out $(, $value)?)
        })*
    };
}

impl Formatter for Escaping {
    // All of them: methods not passed on fall back to the trait's defaults, which write no blanks.
    hand_on! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }

    // serde_json's fragments need no escape by the grammar of JSON.
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(is_hidden) {
            let (plain, hidden) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            let mut left = hidden.chars();
            // JSON spells characters beyond 16 bits as a pair of surrogates (RFC 8259, section 7).
            for unit in left.next().unwrap_or_default().encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = left.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_an_escape_and_the_text_is_the_same() {
        let names = ["\u{9b}31m", "a\u{7f}b", "\u{202e}x", "\u{e0041}", "plain é", "\u{1b}[0m"];
        let mut bytes = Vec::new();
        write_document(&names, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains(|c: char| is_hidden(c) && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), names);
        let nested = serde_json::json!({"a": [1, {"b": []}], "c": {}});
        let mut bytes = Vec::new();
        write_document(&nested, &mut bytes).unwrap();
        let expected = serde_json::to_string_pretty(&nested).unwrap() + "\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
