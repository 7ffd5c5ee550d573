//! A document as Markdown (CommonMark with GitHub's tables), for issues and wikis: headings, lists
//! and tables with the contents of the terminal's output.
//!
//! Names from outside are escaped where they would make markup or, where a site lets that through,
//! HTML.

use std::io;

use durio_base::visible;

use super::text::{map_table, sparklines, tile_lines, tile_words};
use super::verdict_tone;
use crate::Options;
use crate::document::chart::{Chart, Drawing};
use crate::document::{
    Card, DetailLevel, Document, LabelledFact, LayerNode, Section, SectionBody, Table, Tone,
};

pub(crate) fn render(
    document: &Document,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let level = options.level();
    let title = document.heading();
    let mut text = match &document.summary {
        Some(summary) => {
            let (word, rest) = summary.parts();
            let word = toned(verdict_tone(summary.verdict), word);
            format!("# {word}{}\n\n{}\n", escaped(rest), escaped_line(&title))
        }
        None if title.is_empty() => String::new(),
        None => format!("# {}\n", escaped(&title)),
    };
    // As much as a terminal has: an issue is read by people, and JSON is there for the rest.
    for section in document.up_to(level).filter(|section| !section.is_local) {
        if !section.heading.is_empty() {
            text.push_str(&format!("\n## {}\n", escaped(&section.heading)));
        }
        blocks(section, level, "###", &mut text);
    }
    out.write_all(text.as_bytes())
}

/// `heading` is that of groups within.
fn blocks(section: &Section, level: DetailLevel, heading: &str, out: &mut String) {
    for block in section.up_to(level) {
        // Each block stands apart: otherwise a list or table would continue the block above.
        out.push('\n');
        match &block.body {
            SectionBody::Text(Tone::Plain, text) => line("", &escaped_line(text), out),
            SectionBody::Text(tone, text) => line("", &toned(*tone, &escaped(text)), out),
            SectionBody::Facts(facts) => facts.iter().for_each(|labelled| fact("", labelled, out)),
            SectionBody::Table(it) => table(it, level, out),
            SectionBody::Charts(charts) => {
                let drawn = charts.iter().filter(|chart| chart.level <= DetailLevel::Summary);
                drawn.for_each(|picture| chart(picture, level, out));
            }
            SectionBody::Cards(cards) => cards.iter().for_each(|judgement| card(judgement, out)),
            SectionBody::Tree(nodes) => nodes.iter().for_each(|layer| node("", layer, level, out)),
            // Indented code needs no fence, which the text might hold.
            SectionBody::Verbatim(text) => {
                text.lines().for_each(|verbatim| line("    ", &visible(verbatim), out));
            }
            SectionBody::Group(group) => {
                line(&format!("{heading} "), &escaped(&group.heading), out);
                blocks(group, level, &format!("{heading}#"), out);
            }
        }
    }
}

fn line(begin: &str, text: &str, out: &mut String) {
    out.push_str(&format!("{begin}{text}\n"));
}

fn fact(indent: &str, it: &LabelledFact, out: &mut String) {
    match it.label.as_str() {
        "" => line(&format!("{indent}- "), &escaped_line(&it.value), out),
        label => {
            let label = toned(Tone::Strong, &escaped(label));
            line(&format!("{indent}- {label}: "), &escaped(&it.value), out);
        }
    }
}

fn card(it: &Card, out: &mut String) {
    let word = toned(Tone::Strong, &escaped(&it.word.to_uppercase()));
    line(&format!("- {word} "), &escaped(&it.sentence()), out);
    it.facts.iter().for_each(|labelled| fact("  ", labelled, out));
}

fn node(indent: &str, it: &LayerNode, level: DetailLevel, out: &mut String) {
    line(&format!("{indent}- "), &toned(Tone::Strong, &escaped(&it.name)), out);
    let other = if level < DetailLevel::Detail { &[][..] } else { &it.other };
    for (label, text) in it.further.iter().chain(other) {
        line(&format!("{indent}  - "), &escaped_line(&format!("{label}: {text}")), out);
    }
    it.below.iter().for_each(|layer| node(&format!("{indent}  "), layer, level, out));
}

fn chart(it: &Chart, level: DetailLevel, out: &mut String) {
    let title = escaped(&it.title);
    match &it.drawing {
        Drawing::Plot(panels) => {
            let text = format!("{}: {}", it.title, sparklines(panels));
            line("", &format!("{}\n", escaped_line(&text)), out);
        }
        Drawing::Map(map) => {
            line("", &format!("{}\n", toned(Tone::Strong, &title)), out);
            table(&map_table(map), level, out);
        }
        Drawing::Tiles(tiles) => {
            line("", &format!("{}\n", toned(Tone::Strong, &title)), out);
            line("", "```", out);
            tile_lines(tiles, usize::MAX).iter().for_each(|row| line("", row, out));
            line("", "```\n", out);
            line("", &format!("{}\n", escaped_line(&tile_words(tiles))), out);
        }
        Drawing::Bars(_) | Drawing::Grid(_) | Drawing::Lanes(_) => {}
    }
}

fn table(it: &Table, level: DetailLevel, out: &mut String) {
    let shown = it.columns_up_to(level);
    let row = |cell: &dyn Fn(usize) -> String| {
        shown.iter().map(|at| format!("| {} ", cell(*at))).collect::<String>()
    };
    line(&row(&|at| escaped(&it.columns[at].title)), "|", out);
    let rule = |at: usize| if at == 0 || it.columns[at].is_words { "---" } else { "---:" };
    line(&row(&|at| rule(at).to_owned()), "|", out);
    for line_of in it.rows_up_to(level) {
        let part = if line_of.is_part { "· " } else { "" };
        let cell = |at: usize| {
            let text = line_of.cells.get(at).map(|cell| escaped(&cell.shown())).unwrap_or_default();
            if at == 0 { format!("{part}{text}") } else { text }
        };
        line(&row(&cell), "|", out);
    }
}

// Words that begin or end with a blank would not be (CommonMark, flanking runs).
fn toned(tone: Tone, text: &str) -> String {
    match tone {
        Tone::Plain => text.to_owned(),
        _ if text.trim() != text || text.is_empty() => text.to_owned(),
        Tone::Note => format!("*{text}*"),
        Tone::Strong | Tone::Good | Tone::Warning | Tone::Bad => format!("**{text}**"),
    }
}

/// On one line, and without markup: what Markdown or HTML would take for theirs has a backslash, and
/// nothing else, so that issues can be read before they are rendered.
fn escaped(text: &str) -> String {
    let visible = visible(text);
    let mut shown = String::with_capacity(visible.len());
    let mut before = None;
    let mut rest = visible.chars();
    while let Some(c) = rest.next() {
        if is_markup(before, c, rest.clone().next()) {
            shown.push('\\');
        }
        shown.push(c);
        before = Some(c);
    }
    shown
}

/// The same at the beginning of a line or of a list's item, where `- `, `+`, `=`, `#` and `>` begin a
/// block.
fn escaped_line(text: &str) -> String {
    let shown = escaped(text);
    let begins_block = shown.starts_with(['+', '-', '=', '#', '>']);
    if begins_block { format!("\\{shown}") } else { shown }
}

/// True if `c` between these two may be markup within a line (CommonMark, GitHub's tables and
/// references to issues).
fn is_markup(before: Option<char>, c: char, after: Option<char>) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_blank = |c: Option<char>| c.is_some_and(char::is_whitespace);
    match c {
        '\\' | '`' | '[' | '|' => true,
        // A tag, a comment or an address in brackets; `p99 < 5ms` is none of them.
        '<' => after.is_some_and(|c| c.is_alphabetic() || matches!(c, '/' | '!' | '?')),
        '&' => after.is_some_and(|c| c.is_alphabetic() || c == '#'),
        // Within a word or between blanks they neither open nor close emphasis.
        '_' => !(is_word(before) && is_word(after) || is_blank(before) && is_blank(after)),
        '*' | '~' => !(is_blank(before) && is_blank(after)),
        '>' => !(is_blank(before) || is_blank(after)),
        // An issue; and the end of a heading.
        '#' => after.is_none_or(char::is_alphanumeric),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use durio_judge::summary::{Summary, SummaryVerdict};

    use super::*;
    use crate::document::Cell;

    #[test]
    fn the_sentence_is_the_first_heading_and_the_title_stands_below() {
        let summary = Summary {
            verdict: SummaryVerdict::Caution,
            sentence: "Caution: a*b is slow.".to_owned(),
            headline: Vec::new(),
            reasons: Vec::new(),
        };
        let document = Document { summary: Some(summary), ..Document::new("durio check", "/d") };
        let mut bytes = Vec::new();
        render(&document, &Options::default(), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text, "# **Caution**: a\\*b is slow.\n\ndurio check: /d\n");
    }

    #[test]
    fn names_of_other_hands_are_no_markup() {
        let hostile = ["a|b", "<img src=x>", "`c`", "**d**", "[e](http://f)", "g\nh", "- i"];
        let mut section = Section::new("h");
        section.table(
            Table::new(["name", "1"])
                .with(hostile.map(|name| vec![Cell::text(name), Cell::Count(7)])),
        );
        section.fact("k*", hostile[1]);
        let document = Document { sections: vec![section], ..Document::new("", "t") };
        let mut bytes = Vec::new();
        render(&document, &Options::default(), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with("# t\n\n## h\n\n| name | 1 |\n| --- | ---: |\n| a\\|b | 7 |\n"),
            "{text}"
        );
        assert!(
            text.contains("| \\<img src=x\\> | 7 |\n") && text.contains("| - i | 7 |\n"),
            "{text}"
        );
        assert!(text.ends_with("- **k\\***: \\<img src=x\\>\n"), "{text}");
    }

    #[test]
    fn only_what_would_be_markup_has_a_backslash() {
        for plain in [
            "p99 < 5 ms, rate > 100/s",
            "o_dsync (direct), p50 -> p99",
            "SUSPECT, --verbose: 1 - 2 = -1",
            "a * b & c ~ d _ e",
            "C# 7, x <5, &, caveats (6): - +",
        ] {
            assert_eq!(escaped(plain), plain);
        }
        for (text, expected) in [
            ("_a_ b_", r"\_a\_ b\_"),
            ("a__b", r"a\_\_b"),
            ("*a* (* b", r"\*a\* (\* b"),
            ("<a </b <!-- <?", r"\<a \</b \<!-- \<?"),
            ("&lt; &#60;", r"\&lt; \&\#60;"),
            ("#12 x#", r"\#12 x\#"),
            ("~a~", r"\~a\~"),
            (r"a\b`c`[d]|", r"a\\b\`c\`\[d]\|"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn a_sign_that_would_begin_a_block_has_a_backslash_at_the_beginning_of_a_line_only() {
        let mut section = Section::new("- h");
        for begin in ["- i", "+ i", "= i", "# i", "> i"] {
            section.say(Tone::Plain, begin);
            section.fact("", begin);
            section.fact("l", begin);
        }
        let document = Document { sections: vec![section], ..Document::new("", "- t") };
        let mut bytes = Vec::new();
        render(&document, &Options::default(), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("# - t\n\n## - h\n"), "{text}");
        for begin in ["- i", "+ i", "= i", "# i", "> i"] {
            let lines = format!("\n\\{begin}\n\n- \\{begin}\n- **l**: {begin}\n");
            assert!(text.contains(&lines), "{begin}: {text}");
        }
    }
}
