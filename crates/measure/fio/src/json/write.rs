//! fio's json+ from a result, in the form of fio 3.33.
//!
//! Byte for byte as fio 3.33 prints the same results, except where that would not be JSON: control
//! characters are escaped, counts above i64 stay positive, `nan` and `inf` become 0. fio's layout
//! has two spaces per level, blanks around the colon, and an empty line in empty objects. Keys that
//! fio 3.33 lacks are written only if the result has them.

use std::fmt::Write as _;

use super::output::FioOutput;
use super::table::Object as _;

/// The document as text, with a final new line. Keys of `None` values are left out.
///
/// ```
/// use durio_fio::json::{FioOutput, read, write};
/// let output = FioOutput { version: "fio-3.33".to_owned(), ..FioOutput::default() };
/// assert_eq!(read(write(&output).as_bytes()).unwrap().output, output);
/// ```
#[must_use]
pub fn write(output: &FioOutput) -> String {
    let mut printer = Printer::default();
    printer.object(None, |printer| output.fields(printer));
    printer.finish()
}

#[derive(Debug, Default)]
pub(super) struct Printer {
    text: String,
    level: usize,
    /// True if nothing stands yet between the innermost open brackets.
    is_first: bool,
}

impl Printer {
    pub(super) fn finish(mut self) -> String {
        self.text.push('\n');
        self.text
    }

    pub(super) fn object(&mut self, key: Option<&str>, fill: impl FnOnce(&mut Self)) {
        self.nested(key, ["{\n", "}"], fill);
    }

    pub(super) fn array(&mut self, key: &str, fill: impl FnOnce(&mut Self)) {
        self.nested(Some(key), ["[\n", "]"], fill);
    }

    pub(super) fn item(&mut self, value: u64) {
        self.entry(None);
        self.text.push_str(&value.to_string());
    }

    pub(super) fn plain(&mut self, key: &str, value: &impl ToString) {
        self.entry(Some(key));
        self.text.push_str(&value.to_string());
    }

    /// With six decimals; `nan` and `inf` would not be JSON.
    pub(super) fn figure(&mut self, key: &str, value: &f64) {
        self.entry(Some(key));
        let value = if value.is_finite() { *value } else { 0.0 };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{value:.6}");
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.entry(Some(key));
        self.quoted(value);
    }

    fn nested(
        &mut self,
        key: Option<&str>,
        [open, close]: [&str; 2],
        fill: impl FnOnce(&mut Self),
    ) {
        // The document itself has no key, and no comma before it.
        if self.level > 0 {
            self.entry(key);
        }
        self.text.push_str(open);
        self.level += 1;
        self.is_first = true;
        fill(self);
        self.level -= 1;
        self.is_first = false;
        self.text.push('\n');
        self.indent();
        self.text.push_str(close);
    }

    fn entry(&mut self, key: Option<&str>) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.text.push_str(",\n");
        }
        self.indent();
        if let Some(key) = key {
            self.quoted(key);
            self.text.push_str(" : ");
        }
    }

    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n("  ", self.level));
    }

    fn quoted(&mut self, value: &str) {
        self.text.push('"');
        for character in value.chars() {
            match character {
                '"' | '\\' => self.text.extend(['\\', character]),
                // Also DEL and C1, which a terminal may obey as it does C0.
                _ if character.is_control() => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(character));
                }
                _ => self.text.push(character),
            }
        }
        self.text.push('"');
    }
}

#[cfg(test)]
mod tests;
