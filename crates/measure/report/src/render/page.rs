//! Lines of text that keep to a width.
//!
//! Lays out words with their tone; escape sequences are used only if colours are wanted.
//!
//! Paths and names come from outside: characters that would steer the terminal are spelt out on
//! entry.

use crate::Options;
use crate::document::{DetailLevel, Tone};
use crate::visible::visible;

// Narrower terminals get lines of this length, which they break themselves.
const WIDTH_MIN: usize = 40;

// The parameters of the escape sequence (ECMA-48, SGR).
const fn code(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Strong => "1",
        Tone::Note => "2",
        Tone::Good => "1;32",
        Tone::Bad => "1;31",
        Tone::Warning => "1;33",
    }
}

/// The text so far.
#[derive(Debug)]
pub(crate) struct TextPage {
    width: usize,
    colour: bool,
    level: DetailLevel,
    text: String,
}

impl TextPage {
    pub(crate) fn new(options: &Options) -> Self {
        let width = options.width.max(WIDTH_MIN);
        Self { width, colour: options.colour, level: options.level(), text: String::new() }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn colour(&self) -> bool {
        self.colour
    }

    /// How much is shown.
    pub(crate) fn level(&self) -> DetailLevel {
        self.level
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// An empty line.
    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A line that is not broken.
    pub(crate) fn line(&mut self, line: &str) {
        self.finished_line(&visible(line));
    }

    /// A line that already has escape sequences, with all else spelt out.
    pub(crate) fn finished_line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Words in lines that all begin with `indent`.
    pub(crate) fn paragraph(&mut self, indent: &str, tone: Tone, text: &str) {
        self.hanging(indent, Tone::Plain, indent, tone, text);
    }

    /// A label, and words whose further lines stand under the first one's.
    ///
    /// The label is padded to `width` columns.
    pub(crate) fn labelled(
        &mut self,
        indent: &str,
        label: &str,
        width: usize,
        tone: Tone,
        text: &str,
    ) {
        let label = visible(label);
        let padding = " ".repeat(width.saturating_sub(label.chars().count()));
        let first = format!("{indent}{label}{padding}  ");
        let further = " ".repeat(first.chars().count());
        self.hanging(&first, tone, &further, Tone::Plain, text);
    }

    /// Words after `first`, and after `further` on the lines that follow.
    pub(crate) fn hanging(
        &mut self,
        first: &str,
        first_tone: Tone,
        further: &str,
        tone: Tone,
        text: &str,
    ) {
        let (first, further) = (visible(first), visible(further));
        let indent = first.chars().count().max(further.chars().count());
        // A long label must not leave a column of single words.
        let room = self.width.saturating_sub(indent).max(WIDTH_MIN / 2);
        let mut begin = self.painted(first_tone, &first);
        for line in wrapped(&visible(text), room) {
            let line = format!("{begin}{}", self.painted(tone, &line));
            self.finished_line(&line);
            begin.clone_from(&further);
        }
    }

    fn painted(&self, tone: Tone, text: &str) -> String {
        // Escapes around blanks would keep trim_end from shortening the line.
        match self.colour && tone != Tone::Plain && !text.trim().is_empty() {
            true => format!("\x1b[{}m{text}\x1b[0m", code(tone)),
            false => text.to_owned(),
        }
    }
}

/// The text in lines of at most `room` columns, broken at spaces; a longer word is not broken.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let last = lines.len() - 1;
        let used = lines[last].chars().count();
        match used {
            0 => lines[last].push_str(word),
            _ if used + 1 + word.chars().count() <= room => {
                lines[last].push(' ');
                lines[last].push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_at_spaces_and_long_words_are_whole() {
        assert_eq!(wrapped("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrapped("/a/very/long/path b", 4), ["/a/very/long/path", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    #[test]
    fn all_that_comes_in_is_spelt_out() {
        let mut page = TextPage::new(&Options { width: 80, colour: true, ..Options::default() });
        page.line("a\x1b]0;b");
        page.labelled("  ", "c\x07", 2, Tone::Plain, "d\u{9b}");
        page.hanging("e\r", Tone::Strong, "", Tone::Plain, "f");
        let text = "a\\u{1b}]0;b\n  c\\u{7}  d\\u{9b}\n\x1b[1me\\r\x1b[0mf\n";
        assert_eq!(page.text(), text);
    }

    #[test]
    fn further_lines_stand_under_the_first() {
        let mut page = TextPage::new(&Options { width: 40, colour: false, ..Options::default() });
        page.labelled("  ", "seen", 6, Tone::Warning, "one two three four five six seven eight");
        assert_eq!(page.text(), "  seen    one two three four five six\n          seven eight\n");
    }

    #[test]
    fn colours_come_only_when_asked_for() {
        let mut page = TextPage::new(&Options { width: 80, colour: true, ..Options::default() });
        page.paragraph("  ", Tone::Good, "FIT");
        assert_eq!(page.text(), "  \x1b[1;32mFIT\x1b[0m\n");
    }
}
