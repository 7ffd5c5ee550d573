//! A document for a terminal, as far as it fits, the answer first.
//!
//! Lays out a document in the terminal's width. It shows headline and summary, and details on
//! request; for charts the lines as sparklines, maps as tables, tiles as letters.

mod table;

use std::io;

use table::table;

use durio_base::visible;

use super::verdict_tone;
use crate::Options;
use crate::document::chart::{Chart, ChartSeries, Drawing, Map, Panel, Style, TileArea};
use crate::document::{
    Block, Card, Cell, DetailLevel, Document, LabelledFact, LayerNode, Section, SectionBody, Table,
    Tone,
};
use crate::figures::{sparkline, sparkline_below};

/// Bars of a sparkline.
const SPARKS_MAX: usize = 60;

/// Letters of a line.
const TILES_ACROSS: usize = 64;

/// The indent below a heading.
const INDENT: &str = "  ";

pub(crate) fn render(
    document: &Document,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut page = TextPage::new(options);
    if let Some(summary) = &document.summary {
        let (word, rest) = summary.parts();
        page.begun(verdict_tone(summary.verdict), word, Tone::Strong, rest);
    }
    let title = document.heading();
    if !title.is_empty() {
        let tone = if document.summary.is_some() { Tone::Note } else { Tone::Strong };
        page.paragraph("", tone, &title);
    }
    // The sentence has the results of headlines.
    let is_said = document.summary.is_some() && !options.verbose;
    let is_shown = |section: &&Section| !is_said || has_more(section, options.level());
    for (at, section) in document.up_to(page.level()).filter(is_shown).enumerate() {
        if at > 0 || !section.heading.is_empty() {
            page.blank();
        }
        let indent = match section.heading.is_empty() {
            true => "",
            false => {
                page.paragraph("", Tone::Strong, &section.heading);
                INDENT
            }
        };
        blocks(section, indent, is_said, &mut page);
    }
    out.write_all(page.text().as_bytes())
}

/// True if a section says more than the document's first sentence.
fn has_more(section: &Section, level: DetailLevel) -> bool {
    section.up_to(level).any(|block| match &block.body {
        SectionBody::Facts(facts) if block.level == DetailLevel::Headline => {
            facts.iter().any(|fact| fact.tone == Tone::Bad)
        }
        _ => true,
    })
}

/// `is_said`: the results of headlines are in the document's first sentence.
fn blocks(section: &Section, indent: &str, is_said: bool, page: &mut TextPage) {
    let mut is_after_figures = false;
    let shown: Vec<&Block> = section.up_to(page.level()).collect();
    // Facts that follow each other are of several blocks where some of them are details.
    for run in shown.chunk_by(|a, b| !lines_of(a).is_empty() && !lines_of(b).is_empty()) {
        let together: Vec<&LabelledFact> = run.iter().flat_map(|block| lines_of(block)).collect();
        if !together.is_empty() {
            facts(&together, indent, page);
            is_after_figures = true;
            continue;
        }
        for block in run {
            let is_apart = matches!(
                block.body,
                SectionBody::Table(_) | SectionBody::Group(_) | SectionBody::Text(Tone::Strong, _)
            );
            // Labels of one width and columns of another would run into each other.
            if is_after_figures && is_apart {
                page.blank();
            }
            is_after_figures = matches!(block.body, SectionBody::Table(_) | SectionBody::Facts(_));
            body(&block.body, indent, is_said, page);
        }
    }
}

/// The facts of a block whose labels are padded to one width; those of headlines are not.
fn lines_of(block: &Block) -> &[LabelledFact] {
    match &block.body {
        SectionBody::Facts(facts) if block.level != DetailLevel::Headline => facts,
        _ => &[],
    }
}

/// A block other than labelled facts.
fn body(body: &SectionBody, indent: &str, is_said: bool, page: &mut TextPage) {
    match body {
        SectionBody::Text(tone, text) => page.paragraph(indent, *tone, text),
        SectionBody::Facts(facts) => headline(facts, indent, is_said, page),
        SectionBody::Table(it) => table(it, indent, page),
        SectionBody::Charts(charts) => {
            // The others have more points than a line has columns.
            let drawn = charts.iter().filter(|chart| chart.level <= DetailLevel::Summary);
            drawn.for_each(|series| chart(series, indent, page));
        }
        SectionBody::Cards(all) => cards(all, indent, page),
        SectionBody::Tree(nodes) => {
            nodes.iter().for_each(|layer| node(layer, indent, indent, page));
        }
        // A path that is broken over lines cannot be copied. What a shell takes for a comment may go.
        SectionBody::Verbatim(text) => {
            text.lines().map(|line| format!("{indent}{line}")).for_each(|line| {
                let command =
                    line.split_once("  # ").map_or(&*line, |(command, _)| command.trim_end());
                page.line(if line.chars().count() > page.width() { command } else { &line });
            });
        }
        SectionBody::Group(group) => {
            page.paragraph(indent, Tone::Strong, &group.heading);
            blocks(group, &format!("{indent}{INDENT}"), is_said, page);
        }
    }
}

/// Values with their names; a value with a tone is shown like any fact.
fn headline(all: &[LabelledFact], indent: &str, is_said: bool, page: &mut TextPage) {
    // Errors are told in full.
    let shown = all.iter().filter(|fact| !is_said || fact.tone == Tone::Bad);
    let shown: Vec<&LabelledFact> = shown.collect();
    for part in shown.chunk_by(|a, b| (a.tone == Tone::Plain) == (b.tone == Tone::Plain)) {
        match part.first() {
            Some(first) if first.tone == Tone::Plain => part.iter().for_each(|part| {
                page.paragraph(indent, Tone::Strong, &format!("{} {}", part.value, part.label));
            }),
            _ => facts(part, indent, page),
        }
    }
}

fn facts(facts: &[&LabelledFact], indent: &str, page: &mut TextPage) {
    let widths = facts.iter().map(|fact| visible(&fact.label).chars().count());
    let widest = widths.filter(|width| *width <= page.width() / 2).max().unwrap_or(0);
    for LabelledFact { label, tone, value, .. } in facts {
        page.labelled(indent, label, widest, *tone, value);
    }
}

fn cards(cards: &[Card], indent: &str, page: &mut TextPage) {
    let widest = cards.iter().map(|card| card.word.chars().count()).max().unwrap_or(0);
    for card in cards {
        page.labelled(indent, &card.word.to_uppercase(), widest, card.tone, &card.sentence());
        for fact in &card.facts {
            let text = format!("{}: {}", fact.label, fact.value);
            page.labelled(indent, "", widest, Tone::Plain, &text);
        }
    }
}

/// Draws a layer and those below: `first` stands before its line, `further` before the rest.
fn node(node: &LayerNode, first: &str, further: &str, page: &mut TextPage) {
    let bar = format!("{further}{}", if node.below.is_empty() { "    " } else { "│   " });
    page.hanging(first, Tone::Plain, &bar, Tone::Strong, &node.name);
    let other = if page.level() < DetailLevel::Detail { &[][..] } else { &node.other };
    for (label, text) in node.further.iter().chain(other) {
        let (first, further) = (format!("{bar}{label}: "), format!("{bar}  "));
        page.hanging(&first, Tone::Plain, &further, Tone::Note, text);
    }
    let last = node.below.len().saturating_sub(1);
    for (at, below) in node.below.iter().enumerate() {
        let (branch, gap) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        self::node(below, &format!("{further}{branch}"), &format!("{further}{gap}"), page);
    }
}

fn chart(chart: &Chart, indent: &str, page: &mut TextPage) {
    match &chart.drawing {
        Drawing::Plot(panels) => {
            let lines = sparks(panels);
            let length =
                |(name, line): &(&str, String)| name.chars().count() + line.chars().count();
            // A sparkline that is broken over lines shows nothing.
            if chart.title.len() + lines.iter().map(length).sum::<usize>() > page.width() {
                page.paragraph(indent, Tone::Strong, &chart.title);
                let widest = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
                for (name, line) in &lines {
                    page.labelled(indent, name, widest, Tone::Plain, line);
                }
                return;
            }
            let text = format!("{}: {}", chart.title, sparklines(panels));
            page.paragraph(indent, Tone::Plain, &text);
        }
        Drawing::Map(map) => {
            page.paragraph(indent, Tone::Strong, &chart.title);
            table(&map_table(map), indent, page);
        }
        Drawing::Tiles(tiles) => {
            page.paragraph(indent, Tone::Strong, &chart.title);
            let room = page.width().saturating_sub(indent.len());
            for line in tile_lines(tiles, room) {
                page.line(&format!("{indent}{line}"));
            }
            page.paragraph(indent, Tone::Note, &tile_words(tiles));
        }
        Drawing::Bars(_) | Drawing::Grid(_) | Drawing::Lanes(_) => {}
    }
}

/// The lines of a plot, in one.
pub(super) fn sparklines(panels: &[Panel]) -> String {
    let lines = sparks(panels).into_iter().map(|(name, line)| format!("{name} {line}"));
    lines.collect::<Vec<_>>().join(", ")
}

/// The names of a plot's lines, and each in characters.
fn sparks(panels: &[Panel]) -> Vec<(&str, String)> {
    let is_line = |series: &&ChartSeries| series.style.is_sequence() && !series.name.is_empty();
    let lines = panels.iter().flat_map(|panel| {
        let drawn = move || panel.series.iter().filter(is_line);
        // Columns stand before each other: a high one of one series is as high as that of another.
        let columns = drawn()
            .filter(|series| series.style == Style::Columns)
            .flat_map(|series| &series.points);
        let highest = columns.map(|(_, y)| *y).fold(0.0, f64::max);
        drawn().map(move |series| {
            let figures = shortened(&series.points);
            let line = match series.style {
                Style::Columns => sparkline_below(&figures, highest),
                _ => sparkline(&figures),
            };
            (series.name.as_str(), line)
        })
    });
    lines.collect()
}

/// As many values as half a line has room for: each the highest of several.
fn shortened(points: &[(f64, f64)]) -> Vec<f64> {
    let highest = |part: &[(f64, f64)]| part.iter().map(|(_, y)| *y).fold(f64::NAN, f64::max);
    points.chunks(points.len().div_ceil(SPARKS_MAX).max(1)).map(highest).collect()
}

/// A letter for each piece, in lines of at most `width` characters.
pub(super) fn tile_lines(tiles: &TileArea, width: usize) -> Vec<String> {
    let labels = tiles.areas.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let room = width.saturating_sub(labels + 2).clamp(8, TILES_ACROSS);
    let letter = |kind: &usize| tiles.kinds.get(*kind).map_or(' ', |tile| tile.letter);
    // Whole eights, so that places can be counted.
    let lines = tiles.lines(room / 8 * 8).into_iter().map(|(label, line)| {
        format!("{label:labels$}  {}", line.iter().map(letter).collect::<String>())
    });
    lines.collect()
}

/// What the letters stand for.
pub(super) fn tile_words(tiles: &TileArea) -> String {
    let words = tiles.kinds.iter().map(|kind| format!("{} {}", kind.letter, kind.name));
    words.collect::<Vec<_>>().join(" · ")
}

pub(super) fn map_table(map: &Map) -> Table {
    let titles = std::iter::once(String::new()).chain(map.x.iter().cloned());
    let mut table = Table::new(titles);
    for (up, label) in map.y.iter().enumerate() {
        let cell = |across| {
            let cell = map.cells.iter().find(|cell| (cell.x, cell.y) == (across, up));
            Cell::of(cell, |cell| Cell::text(format!("{} · {}", cell.beside, cell.text)))
        };
        table.row(std::iter::once(Cell::text(&**label)).chain((0..map.x.len()).map(cell)));
    }
    table
}

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
struct TextPage {
    width: usize,
    colour: bool,
    level: DetailLevel,
    text: String,
}

impl TextPage {
    fn new(options: &Options) -> Self {
        let width = options.width.max(WIDTH_MIN);
        Self { width, colour: options.colour, level: options.level(), text: String::new() }
    }

    fn width(&self) -> usize {
        self.width
    }

    fn colour(&self) -> bool {
        self.colour
    }

    /// How much is shown.
    fn level(&self) -> DetailLevel {
        self.level
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A line that is not broken.
    fn line(&mut self, line: &str) {
        self.finished_line(&visible(line));
    }

    /// A line that already has escape sequences, with all else spelt out.
    fn finished_line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Words in lines that all begin with `indent`.
    fn paragraph(&mut self, indent: &str, tone: Tone, text: &str) {
        self.hanging(indent, Tone::Plain, indent, tone, text);
    }

    /// A label, and words whose further lines stand under the first one's.
    ///
    /// The label is padded to `width` columns.
    fn labelled(&mut self, indent: &str, label: &str, width: usize, tone: Tone, text: &str) {
        let label = visible(label);
        // The name of a job may be as long as a line, and its words need room.
        if label.chars().count() > self.width / 2 {
            self.paragraph(indent, tone, &label);
            return self.labelled(indent, "", width, Tone::Plain, text);
        }
        let padding = " ".repeat(width.saturating_sub(label.chars().count()));
        let first = format!("{indent}{label}{padding}  ");
        let further = " ".repeat(first.chars().count());
        self.hanging(&first, tone, &further, Tone::Plain, text);
    }

    /// Words after `first`, and after `further` on the lines that follow.
    fn hanging(&mut self, first: &str, first_tone: Tone, further: &str, tone: Tone, text: &str) {
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

    /// A paragraph whose first word, if it has one, is in a tone of its own.
    fn begun(&mut self, word_tone: Tone, word: &str, tone: Tone, text: &str) {
        let whole = visible(&format!("{word}{text}"));
        for (at, line) in wrapped(&whole, self.width).iter().enumerate() {
            let line = match line.strip_prefix(word).filter(|_| at == 0 && !word.is_empty()) {
                Some(rest) => {
                    format!("{}{}", self.painted(word_tone, word), self.painted(tone, rest))
                }
                None => self.painted(tone, line),
            };
            self.finished_line(&line);
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
pub fn wrapped(text: &str, room: usize) -> Vec<String> {
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
    use durio_judge::summary::{Summary, SummaryVerdict};

    use super::*;

    fn shown(section: Section, options: &Options) -> String {
        let document = Document { sections: vec![section], ..Document::new("", "t") };
        let mut bytes = Vec::new();
        render(&document, options, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn hostile_names_leave_a_table_aligned_and_its_rows_whole() {
        let hostile = ["a\nb", "\x1b[31mred", "tab\tbed", "\u{9b}2J", "\u{202e}evil", "\r", "日本"];
        for colour in [false, true] {
            let mut section = Section::new("h");
            let rows = hostile.map(|name| vec![Cell::text(name), Cell::Count(7)]);
            section.table(Table::new(["na\x07me", "1"]).with(rows));
            let text = shown(section, &Options { width: 60, colour, ..Options::default() });
            let text = text.replace("\x1b[1m", "").replace("\x1b[0m", "");
            // Two columns for each of these.
            let width =
                |line: &str| line.chars().map(|c| 1 + usize::from("日本".contains(c))).sum();
            let widths: Vec<usize> = text.lines().skip(3).map(width).collect();
            assert_eq!(widths.len(), hostile.len() + 2, "{text}");
            assert!(widths.iter().all(|width| width == &widths[0]), "{text}");
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        }
    }

    #[test]
    fn a_command_is_never_broken_and_its_comment_goes_where_it_has_no_room() {
        let shown_at = |width| {
            let mut section = Section::new("Next");
            let text =
                "durio durable /data  # the fastest write, and its price\n/a/long/path/of/a/report"
                    .to_owned();
            section.push(DetailLevel::Summary, SectionBody::Verbatim(text));
            shown(section, &Options { width, ..Options::default() })
        };
        assert!(
            shown_at(60).contains("  durio durable /data  # the fastest write, and its price\n")
        );
        assert!(shown_at(40).contains("  durio durable /data\n"));
        assert!(shown_at(20).contains("  /a/long/path/of/a/report\n"));
    }

    #[test]
    fn the_sentence_is_the_first_line_with_its_word_in_its_colour_and_says_the_headline() {
        let findings = Summary {
            verdict: SummaryVerdict::Bad,
            sentence: "Bad: goal missed: commit p99 < 1 ms (3 ms); 363 commits/s.".to_owned(),
            headline: Vec::new(),
            reasons: Vec::new(),
        };
        let text = |summary: Option<Summary>, verbose: bool, colour: bool| {
            let mut section = Section::default();
            section.toned_at(DetailLevel::Headline, Tone::Plain, "commits", "363");
            section.toned_at(DetailLevel::Headline, Tone::Warning, "PARTIAL", "p");
            section.toned_at(DetailLevel::Headline, Tone::Bad, "ERROR", "e");
            let mut silent = Section::default();
            silent.toned_at(DetailLevel::Headline, Tone::Plain, "more", "7");
            let sections = vec![silent, section];
            let document = Document { sections, summary, ..Document::new("", "t") };
            let mut bytes = Vec::new();
            let options = Options { width: 40, colour, verbose };
            render(&document, &options, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let sentence = "Bad: goal missed: commit p99 < 1 ms (3\nms); 363 commits/s.\n";
        let said = |verbose| text(Some(findings.clone()), verbose, false);
        assert_eq!(said(false), format!("{sentence}t\nERROR  e\n"));
        let whole = "t\n7 more\n\n363 commits\nPARTIAL  p\nERROR    e\n";
        assert_eq!(said(true), format!("{sentence}{whole}"));
        assert_eq!(text(None, false, false), whole);
        let painted = text(Some(findings.clone()), false, true);
        let first = "\x1b[1;31mBad\x1b[0m\x1b[1m: goal missed: commit p99 < 1 ms (3\x1b[0m\n";
        assert!(painted.starts_with(first), "{painted:?}");
        let good = Summary { verdict: SummaryVerdict::Good, ..findings };
        assert!(text(Some(good), false, true).starts_with("\x1b[1mBad: "));
    }

    #[test]
    fn labels_of_one_block_are_of_one_width_and_detail_is_for_whom_asks() {
        let section = || {
            let mut section = Section::new("h");
            section.fact("a", "1");
            section.fact("long", "2");
            section.say_at(DetailLevel::Detail, Tone::Plain, "hidden");
            section
        };
        let summary = "t\n\nh\n  a     1\n  long  2\n";
        let mut options = Options::default();
        assert_eq!(shown(section(), &options), summary);
        options.verbose = true;
        assert_eq!(shown(section(), &options), format!("{summary}  hidden\n"));
    }

    #[test]
    fn facts_before_and_behind_hidden_ones_have_labels_of_one_width() {
        let section = || {
            let mut section = Section::default();
            section.toned(Tone::Warning, "PROVISIONAL", "steps of 1 s");
            section.toned(Tone::Warning, "WARNING", "raw rates differ");
            section.toned_at(DetailLevel::Detail, Tone::Plain, "", "why");
            section.fact("", "→ repeat");
            section
        };
        let warned = "t\nPROVISIONAL  steps of 1 s\nWARNING      raw rates differ\n";
        let mut options = Options::default();
        assert_eq!(shown(section(), &options), format!("{warned}             → repeat\n"));
        options.verbose = true;
        let whole = format!("{warned}             why\n             → repeat\n");
        assert_eq!(shown(section(), &options), whole);
    }

    #[test]
    fn a_line_is_a_sparkline_and_a_map_a_table() {
        use crate::document::chart::{AxisScale, AxisUnit, ChartMapCell, Colour};
        let points = [(0.0, 1.0), (1.0, 4.0), (2.0, 8.0)];
        let series = vec![ChartSeries::new("rate", Colour::First, Style::Line, points)];
        let (x, y) = (AxisScale::Linear(AxisUnit::Number), AxisScale::Linear(AxisUnit::Rate));
        let plot = Chart::plot("by depth", x, y, series);
        let (text, beside) = ("9".into(), "7 k".into());
        let cells = vec![ChartMapCell { x: 0, y: 0, value: Some(1.0), text, beside }];
        let map = Map { x: vec!["4 KiB".into()], y: vec!["1".into()], cells };
        let mut section = Section::new("h");
        section.charts([plot.in_summary(), Chart::map("m", map).in_summary()]);
        let text = shown(section, &Options::default());
        assert!(text.contains("  by depth: rate ▁▄█\n") && text.contains("7 k · 9"), "{text}");
    }

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
