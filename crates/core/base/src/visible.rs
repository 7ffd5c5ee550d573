//! Text from outside, made safe for a terminal, a table and a page.
//!
//! Takes paths, names, labels, and messages of programs and kernels. Characters that would steer a
//! terminal, break a row, or hide the real text are spelt out. JSON's grammar has its own escapes.
//!
//! Spelt out as in Rust's strings (`\u{1b}`) are the control characters (C0, DEL, C1), the
//! separators of lines and paragraphs, characters that turn the direction of writing (Unicode
//! Standard Annex 9, and CVE-2021-42574 for the attack), and invisible characters by which two
//! names look alike. The zero-width joiner and non-joiner stay: Persian, Indic scripts and emoji
//! are written with them.

use std::fmt;

/// The text on one line, as a cell or a label needs it.
pub fn visible(text: &str) -> String {
    spelt_out(text, is_hidden)
}

/// The text with its lines and tabs, as a page of text or a message has them.
pub fn visible_lines(text: &str) -> String {
    spelt_out(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

fn spelt_out(text: &str, is_spelt_out: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // Spelt out and not left out: two names that differ must look different.
        if is_spelt_out(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// True for a character that is not to be sent as it is.
pub fn is_hidden(c: char) -> bool {
    // ARABIC LETTER MARK, then the marks, embeddings, overrides and isolates of both directions.
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}');
    let separates = matches!(c, '\u{2028}' | '\u{2029}');
    // Spaces and joins without width, marks of annotations, the tags that no font shows.
    let is_invisible = matches!(c, '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || turns || separates || is_invisible
}

/// Text as HTML, and as the value of an attribute.
#[derive(Debug, Clone, Copy)]
pub struct EscapedText<'a>(pub &'a str);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let (plain, special) = rest.split_at(at);
            // All five are ASCII: the byte is the number of the character.
            write!(f, "{plain}&#{};", special.as_bytes()[0])?;
            rest = &special[1..];
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_hides_is_spelt_out() {
        assert_eq!(visible("a\x1b[31mb\nc\u{202e}"), "a\\u{1b}[31mb\\nc\\u{202e}");
        assert_eq!(visible("\u{9b}2J\u{7f}\r\0"), "\\u{9b}2J\\u{7f}\\r\\u{0}");
        assert_eq!(visible("a\u{200b}b\u{feff}\u{2028}"), "a\\u{200b}b\\u{feff}\\u{2028}");
        assert_eq!(visible_lines("a\n\tb\x07"), "a\n\tb\\u{7}");
    }

    #[test]
    fn what_people_write_stays() {
        let text = "µs · 日本 می\u{200c}خواهم 👩\u{200d}💻 \\u{1b}";
        assert_eq!(visible(text), text);
    }
}
