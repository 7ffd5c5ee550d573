//! JSON in fio's layout.
//!
//! In: keys and values in order. Out: text: two spaces per level, blanks around the colon, six
//! decimals, an empty line in what is empty. Not here: which keys there are.

use std::fmt::Write as _;

/// Text that grows.
#[derive(Debug, Default)]
pub(super) struct Printer {
    text: String,
    level: usize,
    /// True if nothing stands yet between the innermost open brackets.
    is_first: bool,
}

impl Printer {
    /// The text, with a final new line.
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

    pub(super) fn counts(&mut self, key: &str, values: &[u64]) {
        self.array(key, |printer| {
            for value in values {
                printer.entry(None);
                printer.text.push_str(&value.to_string());
            }
        });
    }

    pub(super) fn count(&mut self, key: &str, value: u64) {
        self.entry(Some(key));
        self.text.push_str(&value.to_string());
    }

    pub(super) fn maybe_count(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.count(key, value);
        }
    }

    pub(super) fn whole(&mut self, key: &str, value: i64) {
        self.entry(Some(key));
        self.text.push_str(&value.to_string());
    }

    pub(super) fn figure(&mut self, key: &str, value: f64) {
        self.entry(Some(key));
        let value = if value.is_finite() { value } else { 0.0 };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{value:.6}");
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.entry(Some(key));
        self.quoted(value);
    }

    pub(super) fn maybe_text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    fn nested(
        &mut self,
        key: Option<&str>,
        [open, close]: [&str; 2],
        fill: impl FnOnce(&mut Self),
    ) {
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
