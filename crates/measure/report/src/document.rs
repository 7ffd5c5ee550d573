//! The contents of a report, independent of its look.
//!
//! Builders of this crate make a [`Document`] from findings, a plan or a comparison; renderers know
//! nothing else. It has no widths, borders or tags, and no number that was not given.

pub mod chart;

use std::borrow::Borrow;
use std::collections::BTreeSet;

use chart::Chart;
use durio_base::Bytes;
use durio_judge::summary::Summary;
use serde::Serialize;

use crate::figures::{self, decimal, precise, whole};

/// Why a percentile is absent.
pub const TOO_FEW: &str =
    "too few samples for this percentile; p99 needs 100, p99.9 1000, p99.99 10000";

/// What a report says, for renderers.
#[derive(Debug, Default)]
pub struct Document {
    /// What made it, such as `durio compare`; empty where the title says it.
    pub kind: String,
    /// What it is about.
    pub title: String,
    /// The answer, before everything else.
    pub summary: Option<Summary>,
    /// The picture of the answer, for the first screen of a page.
    pub poster: Option<Chart>,
    pub sections: Vec<Section>,
    /// The numbers for other programs: names with units, plain numbers, one row per result or step.
    pub records: Table,
}

/// How much a reader wants to know before this is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
// Ordered: a renderer shows all levels up to the detail that it has room for.
pub enum DetailLevel {
    /// The answer: the first lines of every format.
    Headline,
    /// What a screen has room for.
    #[default]
    Summary,
    /// On request (`--verbose`).
    Detail,
    /// Folded away on a browser's page, and absent in a terminal.
    Page,
}

/// What words mean for the reader. The words say it too: colours are never the only sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    /// How to read something; may be passed over.
    Note,
    /// A name or an answer.
    Strong,
    Good,
    Warning,
    Bad,
}

#[derive(Debug, Default)]
pub struct Section {
    /// Empty if the blocks need none.
    pub heading: String,
    pub level: DetailLevel,
    /// Useful on this machine only: a page and Markdown, which are sent around, leave it out.
    pub is_local: bool,
    pub blocks: Vec<Block>,
}

#[derive(Debug)]
pub struct Block {
    pub level: DetailLevel,
    pub body: SectionBody,
}

#[derive(Debug)]
pub enum SectionBody {
    Text(Tone, String),
    Facts(Vec<LabelledFact>),
    Table(Table),
    Charts(Vec<Chart>),
    Cards(Vec<Card>),
    Tree(Vec<LayerNode>),
    /// Not to be broken, so that it can be copied.
    Verbatim(String),
    Group(Section),
}

/// A label and its value; without a label it continues the one above.
#[derive(Debug, Default)]
pub struct LabelledFact {
    pub label: String,
    pub tone: Tone,
    pub value: String,
    /// Where the value can be read up; only addresses of the web.
    pub link: Option<String>,
}

/// A judgement: its word, its subject, and its evidence.
#[derive(Debug)]
pub struct Card {
    pub tone: Tone,
    pub word: String,
    pub title: String,
    /// Which of several things with that title; may be empty.
    pub about: String,
    pub text: String,
    pub facts: Vec<LabelledFact>,
}

/// A layer and those below it.
#[derive(Debug, Default)]
pub struct LayerNode {
    /// Its kind, with its most important facts.
    pub name: String,
    /// Facts of the summary, in a line each.
    pub further: Vec<(&'static str, String)>,
    /// Facts that readers see on request.
    pub other: Vec<(&'static str, String)>,
    pub below: Vec<LayerNode>,
}

/// A label, and the text under it.
pub type LabelledText = (&'static str, String);

/// Rows of values; the first cell of a row names it.
#[derive(Debug, Default)]
pub struct Table {
    pub columns: Vec<ColumnHead>,
    pub rows: Vec<Row>,
}

/// The head of a column. In records the title is the column's id.
#[derive(Debug, Default)]
pub struct ColumnHead {
    pub title: String,
    pub level: DetailLevel,
    /// True for words, which are aligned left; numbers are aligned right.
    pub is_words: bool,
}

/// What a column takes of a thing.
pub type ColumnValue<T> = fn(&T) -> Cell;

/// A column of a report about things of type `T`, declared once for all formats: people see it under
/// its title, programs (CSV, OpenMetrics) under its id.
#[derive(Debug)]
pub struct Column<T> {
    /// With the unit, as `p99_ns` or `rate_per_s`: OpenMetrics reads it there. None for people only.
    id: Option<&'static str>,
    /// None for programs only.
    pub title: Option<&'static str>,
    pub level: DetailLevel,
    is_words: bool,
    pub cell: ColumnValue<T>,
}

/// A column for people and programs.
pub const fn both<T>(id: &'static str, title: &'static str, cell: ColumnValue<T>) -> Column<T> {
    Column { id: Some(id), ..shown(title, cell) }
}

/// A column for people only.
pub const fn shown<T>(title: &'static str, cell: ColumnValue<T>) -> Column<T> {
    let (level, is_words) = (DetailLevel::Summary, false);
    Column { id: None, title: Some(title), level, is_words, cell }
}

/// A column for programs only.
pub const fn record<T>(id: &'static str, cell: ColumnValue<T>) -> Column<T> {
    Column { id: Some(id), title: None, ..shown("", cell) }
}

pub const fn words<T>(mut column: Column<T>) -> Column<T> {
    column.is_words = true;
    column
}

/// A column that people see on request.
pub const fn detail<T>(mut column: Column<T>) -> Column<T> {
    column.level = DetailLevel::Detail;
    column
}

/// A column for which only a page has room.
pub const fn page<T>(mut column: Column<T>) -> Column<T> {
    column.level = DetailLevel::Page;
    column
}

#[derive(Debug, Default)]
pub struct Row {
    pub level: DetailLevel,
    /// True for a part of the row above.
    pub is_part: bool,
    pub cells: Vec<Cell>,
}

/// A value with its kind, from which its unit follows.
#[derive(Debug, Clone, Default, PartialEq)]
// Not a string: renderers for people choose digits and units, records have the plain number, and a
// renderer of an absent cell gives the reason (docs/design/0011).
pub enum Cell {
    #[default]
    Empty,
    /// Why a value is missing; empty where the column says it.
    Absent(&'static str),
    Text(String),
    /// A judgement in a word or two.
    Word(Tone, String),
    Count(u64),
    Number(f64),
    /// Events per second.
    Rate(f64),
    /// Moved bytes per second.
    Bandwidth(f64),
    Bytes(u64),
    /// A latency in nanoseconds.
    Latency(f64),
    /// Nanoseconds more, or less.
    Added(f64),
    Share(f64),
    /// A deviation from one, with its sign.
    Deviation(f64),
    /// How many times as much.
    Factor(f64),
    /// Figures in the order of time, drawn from nothing to their highest.
    Trend(Vec<f64>),
}

impl Document {
    pub fn new(kind: &str, title: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), title: title.into(), ..Self::default() }
    }

    /// Kind and title, as far as there are any.
    pub fn heading(&self) -> String {
        match (self.kind.as_str(), self.title.as_str()) {
            (kind, "") => kind.to_owned(),
            ("", title) => title.to_owned(),
            (kind, title) => format!("{kind}: {title}"),
        }
    }

    /// The sections that have something to show at `level`.
    pub fn up_to(&self, level: DetailLevel) -> impl Iterator<Item = &Section> {
        let is_shown = move |section: &&Section| {
            section.level <= level && section.up_to(level).next().is_some()
        };
        self.sections.iter().filter(is_shown)
    }

    /// Adds a section, unless it says nothing.
    pub fn push(&mut self, section: Section) {
        // A heading alone would promise something.
        if !section.blocks.is_empty() {
            self.sections.push(section);
        }
    }

    /// Why cells of its tables are absent, each reason once.
    pub fn absences(&self) -> Vec<String> {
        // Sorted, so that the notes do not depend on which table has which reason first.
        let reasons: BTreeSet<_> = self.sections.iter().flat_map(Section::absences).collect();
        reasons.into_iter().map(|why| format!("- : {why}")).collect()
    }
}

impl Section {
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    pub fn detail(heading: impl Into<String>) -> Self {
        Self { level: DetailLevel::Detail, ..Self::new(heading) }
    }

    /// The blocks to show at `level`.
    pub fn up_to(&self, level: DetailLevel) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.level <= level)
    }

    pub fn push(&mut self, level: DetailLevel, body: SectionBody) {
        self.blocks.push(Block { level, body });
    }

    pub fn say(&mut self, tone: Tone, text: impl Into<String>) {
        self.say_at(DetailLevel::Summary, tone, text);
    }

    pub fn say_at(&mut self, level: DetailLevel, tone: Tone, text: impl Into<String>) {
        self.push(level, SectionBody::Text(tone, text.into()));
    }

    pub fn warn(&mut self, text: impl Into<String>) {
        self.say(Tone::Warning, text);
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.say(Tone::Note, text);
    }

    pub fn fact(&mut self, label: &str, value: impl Into<String>) {
        self.toned(Tone::Plain, label, value);
    }

    pub fn toned(&mut self, tone: Tone, label: &str, value: impl Into<String>) {
        self.toned_at(DetailLevel::Summary, tone, label, value);
    }

    pub fn toned_at(
        &mut self,
        level: DetailLevel,
        tone: Tone,
        label: &str,
        value: impl Into<String>,
    ) {
        self.fact_at(level, LabelledFact::new(tone, label, value));
    }

    /// Facts of one level that follow each other are one block.
    pub fn fact_at(&mut self, level: DetailLevel, fact: LabelledFact) {
        match self.blocks.last_mut() {
            Some(Block { level: of, body: SectionBody::Facts(facts) }) if *of == level => {
                facts.push(fact);
            }
            // One block, so that a renderer can give all labels of it one width.
            _ => self.push(level, SectionBody::Facts(vec![fact])),
        }
    }

    pub fn facts<L: AsRef<str>>(&mut self, facts: impl IntoIterator<Item = (L, String)>) {
        facts.into_iter().for_each(|(label, value)| self.fact(label.as_ref(), value));
    }

    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.push(DetailLevel::Summary, SectionBody::Table(table));
        }
    }

    /// Those that can be drawn, in one block of the level of the first that is shown.
    pub fn charts(&mut self, charts: impl IntoIterator<Item = Chart>) {
        let charts: Vec<Chart> = charts.into_iter().filter(Chart::is_drawable).collect();
        // A terminal skips the block where none of its charts is for it.
        if let Some(level) = charts.iter().map(|chart| chart.level).min() {
            self.push(level, SectionBody::Charts(charts));
        }
    }

    pub fn group(&mut self, section: Section) {
        if !section.blocks.is_empty() {
            self.push(section.level, SectionBody::Group(section));
        }
    }

    fn absences(&self) -> Vec<&'static str> {
        let of_block = |block: &Block| match &block.body {
            SectionBody::Table(table) => table.absences(),
            SectionBody::Group(group) => group.absences(),
            _ => Vec::new(),
        };
        self.blocks.iter().flat_map(of_block).collect()
    }
}

impl LabelledFact {
    pub fn new(tone: Tone, label: &str, value: impl Into<String>) -> Self {
        Self { label: label.to_owned(), tone, value: value.into(), link: None }
    }
}

impl Card {
    /// Its title, subject and text as a sentence.
    pub fn sentence(&self) -> String {
        let about = if self.about.is_empty() { "".into() } else { format!(" ({})", self.about) };
        let text = if self.text.is_empty() { "".into() } else { format!(": {}", self.text) };
        format!("{}{about}{text}", self.title)
    }
}

impl Table {
    pub fn new<T: Into<String>>(titles: impl IntoIterator<Item = T>) -> Self {
        let column = |title: T| ColumnHead { title: title.into(), ..ColumnHead::default() };
        Self { columns: titles.into_iter().map(column).collect(), rows: Vec::new() }
    }

    /// What people see of the columns, and a row for each of `things`.
    pub fn shown<T, R: Borrow<T>>(
        columns: &[Column<T>],
        things: impl IntoIterator<Item = R>,
    ) -> Self {
        Self::of(columns.iter().filter_map(|column| Some((column.title?, column))), things)
    }

    /// The shown columns with these titles: one of several tables of the same things.
    pub fn part<T, R: Borrow<T>>(
        columns: &[Column<T>],
        titles: &[&str],
        things: impl IntoIterator<Item = R>,
    ) -> Self {
        let columns = columns.iter().filter_map(|column| Some((column.title?, column)));
        Self::of(columns.filter(|(title, _)| titles.contains(title)), things)
    }

    /// What programs read of the columns, and a record for each of `things`.
    pub fn records<T, R: Borrow<T>>(
        columns: &[Column<T>],
        things: impl IntoIterator<Item = R>,
    ) -> Self {
        Self::of(columns.iter().filter_map(|column| Some((column.id?, column))), things)
    }

    /// Columns with these heads, where people and programs share none.
    pub fn with_columns<T, const N: usize>(
        things: impl IntoIterator<Item = T>,
        columns: [(&'static str, ColumnValue<T>); N],
    ) -> Self {
        Self::shown(&columns.map(|(title, cell)| shown(title, cell)), things)
    }

    fn of<'c, T: 'c, R: Borrow<T>>(
        columns: impl Iterator<Item = (&'static str, &'c Column<T>)>,
        things: impl IntoIterator<Item = R>,
    ) -> Self {
        let head = |(title, column): (&str, &'c Column<T>)| {
            let head = ColumnHead {
                title: title.to_owned(),
                level: column.level,
                is_words: column.is_words,
            };
            (head, column.cell)
        };
        // One list of pairs: a title cannot stand over the values of another column.
        let (columns, cells): (_, Vec<ColumnValue<T>>) = columns.map(head).unzip();
        let row = |thing: R| cells.iter().map(|cell| cell(thing.borrow())).collect();
        Self { columns, rows: Vec::new() }.with(things.into_iter().map(row))
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row { cells: cells.into_iter().collect(), ..Row::default() });
    }

    /// The columns to show at `level`, by their places; without those that are empty in all rows shown.
    pub fn columns_up_to(&self, level: DetailLevel) -> Vec<usize> {
        let is_filled = |at: usize| {
            self.rows_up_to(level)
                .any(|row| row.cells.get(at).is_some_and(|cell| *cell != Cell::Empty))
        };
        let columns = self.columns.iter().enumerate();
        let shown = columns.filter(|(at, it)| it.level <= level && (*at == 0 || is_filled(*at)));
        shown.map(|(at, _)| at).collect()
    }

    /// The rows to show at `level`.
    pub fn rows_up_to(&self, level: DetailLevel) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.level <= level)
    }

    /// The table, with columns of these titles at `level`.
    pub fn with_level(mut self, level: DetailLevel, titles: &[&str]) -> Self {
        let those =
            self.columns.iter_mut().filter(|column| titles.contains(&column.title.as_str()));
        those.for_each(|column| column.level = level);
        self
    }

    /// The table, with columns of these titles that hold words.
    pub fn with_words(mut self, titles: &[&str]) -> Self {
        let words =
            self.columns.iter_mut().filter(|column| titles.contains(&column.title.as_str()));
        words.for_each(|column| column.is_words = true);
        self
    }

    fn absences(&self) -> Vec<&'static str> {
        let reason = |cell: &Cell| match cell {
            Cell::Absent(why) if !why.is_empty() => Some(*why),
            _ => None,
        };
        self.rows.iter().flat_map(|row| &row.cells).filter_map(reason).collect()
    }

    /// The table, with these rows.
    pub fn with(mut self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        rows.into_iter().for_each(|cells| self.row(cells));
        self
    }
}

impl Cell {
    /// As people read it: three digits and a unit, which is left to the column where it says it.
    pub fn shown(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Absent(_) => "-".to_owned(),
            Self::Text(text) | Self::Word(_, text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) => decimal(*number),
            Self::Rate(rate) => figures::rate_bare(*rate),
            Self::Bandwidth(bytes) => figures::bandwidth(*bytes),
            Self::Bytes(bytes) => Bytes::new(*bytes).to_string(),
            Self::Latency(nanos) => figures::mean_latency(*nanos),
            Self::Share(share) => figures::share(*share),
            Self::Added(nanos) => figures::added(*nanos),
            Self::Deviation(share) => figures::deviation(*share),
            Self::Factor(times) => figures::factor(*times),
            Self::Trend(figures) => figures::sparkline(figures),
        }
    }

    /// As programs read it: a plain number in the column's unit.
    pub fn plain(&self) -> String {
        match self {
            Self::Empty | Self::Absent(_) => String::new(),
            Self::Text(text) | Self::Word(_, text) => text.clone(),
            Self::Count(count) | Self::Bytes(count) => count.to_string(),
            Self::Number(number)
            | Self::Rate(number)
            | Self::Bandwidth(number)
            | Self::Latency(number)
            | Self::Added(number)
            | Self::Share(number)
            | Self::Deviation(number)
            | Self::Factor(number) => number.to_string(),
            Self::Trend(figures) => {
                figures.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
            }
        }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The word of an enumeration, as the JSON document has it.
    pub fn saved(word: &impl Serialize) -> Self {
        match serde_json::to_value(word) {
            Ok(serde_json::Value::String(word)) => Self::Text(word),
            _ => Self::Empty,
        }
    }

    /// A latency that the histogram knows, or does not for want of samples.
    pub fn percentile(nanos: Option<u64>) -> Self {
        nanos.map_or(Self::Absent(TOO_FEW), Self::nanos)
    }

    pub fn nanos(nanos: u64) -> Self {
        Self::Latency(precise(nanos))
    }

    /// The number in its plain unit, if there is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) | Self::Bytes(count) => Some(precise(*count)),
            Self::Number(value)
            | Self::Rate(value)
            | Self::Bandwidth(value)
            | Self::Latency(value)
            | Self::Added(value)
            | Self::Share(value)
            | Self::Deviation(value)
            | Self::Factor(value) => Some(*value),
            Self::Empty | Self::Absent(_) | Self::Text(_) | Self::Word(..) | Self::Trend(_) => None,
        }
    }

    /// A mean of byte counts, in whole bytes.
    pub fn bytes(mean: f64) -> Self {
        Self::Bytes(whole(mean))
    }

    // A sync moves no bytes: nothing, rather than 0 B/s.
    pub fn bandwidth(bytes_per_second: f64) -> Self {
        if bytes_per_second > 0.0 { Self::Bandwidth(bytes_per_second) } else { Self::Empty }
    }

    pub fn of<T>(value: Option<T>, kind: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Empty, kind)
    }

    /// A value, or the sign for a missing one.
    pub fn or_absent<T>(value: Option<T>, kind: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Absent(""), kind)
    }
}
