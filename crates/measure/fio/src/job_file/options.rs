//! fio's options as one table: names, values, meanings, and what durio does with each.
//!
//! A name gives its [`OptionRow`], the source of the reading of values ([`super::resolve()`]),
//! refusals, notes, help, and docs/fio-options.md. The names are those of fio 3.33 to 3.42
//! (`options.c`, and the option tables of its engines and profiles). `reader` reads the values.
//! [`crate::import`] takes [`JobOptions`] apart by name: an option added to [`honoured`] does not
//! compile until it is taken there.

mod honoured;
mod reader;
mod reference;

use durio_base::nearest_word;
use std::sync::LazyLock;

pub use honoured::{
    DataOptions, DurabilityOptions, JobOptions, NameOptions, OutputOptions, PatternOptions,
    PlacementOptions, QueueOptions, TargetOptions, TimingOptions,
};
pub(super) use reader::WrittenValue;
pub use reference::option_help;

use super::program;
use super::values::choice;

/// One option of fio.
#[derive(Debug, Clone, Copy)]
pub struct OptionRow {
    /// The name under which fio lists it.
    pub name: &'static str,
    pub alias: Option<&'static str>,
    /// What its value is.
    pub kind: OptionKind,
    /// What it means to fio, in a few words.
    pub meaning: &'static str,
    /// What durio does with it.
    pub class: Class,
    /// The engines that have it; empty: every job has it.
    pub engines: &'static [&'static str],
    /// For an honoured option, the part that is refused all the same.
    pub limit: Option<&'static str>,
}

const NO_VALUE: &str = "it needs a value";

/// What an option's value is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptionKind {
    /// A bare word is enough; a number after `=` sets or clears it.
    Flag,
    /// A switch: 0 or 1.
    Bool,
    /// A whole number, decimal or hexadecimal, with a size unit.
    Integer,
    /// Up to three whole numbers: for reads, writes, trims.
    Integers,
    /// A number of bytes with a unit.
    Size,
    /// A number of bytes with a unit, or a share in percent, or a number of zones.
    SizeOrShare,
    /// Up to three numbers of bytes: for reads, writes, trims.
    Sizes,
    /// Up to three ranges of bytes.
    Ranges,
    /// A time, in seconds without a unit.
    Seconds,
    /// A time, in microseconds without a unit.
    Microseconds,
    /// One of these words, some with more after a colon.
    Choice(&'static [&'static str]),
    /// Numbers with fractions, separated by colons.
    Floats,
    /// Any text, or a list with its own grammar.
    Text,
    /// fio knows the name and does nothing, or refuses it.
    Deprecated,
}

/// Each kind but the choice, its name in the file of options, and how it is called.
const KINDS: [(OptionKind, &str, &str); 13] = [
    (OptionKind::Flag, "flag", "flag: the bare word, or a number"),
    (OptionKind::Bool, "bool", "0 or 1"),
    (OptionKind::Integer, "integer", "whole number"),
    (OptionKind::Integers, "integers", "whole numbers for reads, writes, trims"),
    (OptionKind::Size, "size", "size"),
    (OptionKind::SizeOrShare, "size or share", "size, or share in percent"),
    (OptionKind::Sizes, "sizes", "sizes for reads, writes, trims"),
    (OptionKind::Ranges, "ranges", "ranges of sizes for reads, writes, trims"),
    (OptionKind::Seconds, "seconds", "time in seconds"),
    (OptionKind::Microseconds, "microseconds", "time in microseconds"),
    (OptionKind::Floats, "floats", "decimal numbers between colons"),
    (OptionKind::Text, "text", "text"),
    (OptionKind::Deprecated, "deprecated", "none any more"),
];

impl OptionKind {
    /// The kind that the file of options names so.
    fn named(name: &'static str) -> Option<Self> {
        let plain = KINDS.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind);
        plain.or_else(|| Some(Self::Choice(list(name.strip_prefix("choice:")?))))
    }

    /// As people read it.
    fn words(self) -> String {
        match self {
            Self::Choice(words) => words.join(", "),
            plain => {
                KINDS.iter().find(|(kind, ..)| *kind == plain).map_or("", |kind| kind.2).to_owned()
            }
        }
    }

    /// Whether a noted option has no value that fio would take: a sentence if so. What fio misreads is
    /// fine here, as nothing depends on it.
    pub(super) fn check(self, it: &WrittenValue<'_>) -> Result<(), String> {
        let text = match (self, it.text) {
            (Self::Text | Self::Deprecated, _) | (Self::Flag, None) => return Ok(()),
            (_, text) => text.ok_or(NO_VALUE)?,
        };
        if let Self::Choice(words) = self {
            let word = text.split([',', ':']).next().unwrap_or(text);
            return choice(word, words).map(drop);
        }
        let number = text.trim_start().trim_start_matches('-');
        if !number.starts_with(|c: char| c.is_ascii_digit() || c == '(') {
            return Err(format!("{text:?} is not a number"));
        }
        let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        match (self, digits.parse::<u64>()) {
            (Self::Bool, Ok(2..)) => Err(format!("{text:?}: expected 0 or 1")),
            _ => Ok(()),
        }
    }
}

/// Reads a value into the field of an honoured option. The text that may come back says why the value
/// is refused although fio takes it; the error says why fio would not take it.
pub type Effect = fn(&mut JobOptions, &WrittenValue<'_>) -> Result<Option<String>, String>;

/// What durio does with an option.
#[derive(Debug, Clone, Copy)]
pub enum Class {
    /// The job does it: its value is read into a field of [`JobOptions`].
    Honoured(Effect),
    /// The measurement stays the same: ignored with a note.
    Noted {
        /// Values of which there is nothing to say.
        unless: &'static [&'static str],
        /// Why nothing changes: a sentence.
        reason: &'static str,
    },
    /// It changes the work done and cannot be honoured.
    Refused {
        /// Values with which nothing changes; they are fine.
        unless: &'static [&'static str],
        /// It only refines this other option, and is noted where that one is off.
        refines: Option<&'static str>,
        /// The option's effect, and what to do about it: a sentence.
        reason: &'static str,
    },
}

/// The options that durio does not honour.
// Read once: the file's contents live as long as the program, hence the leaks of `group`.
static OTHERS: LazyLock<Vec<OptionRow>> =
    LazyLock::new(|| OTHERS_TEXT.split("\n\n").filter_map(group).flatten().collect());
const OTHERS_TEXT: &str = include_str!("options/not_honoured.txt");

/// The rows of a group of the file; none if something in it is wrong, which a test finds.
fn group(text: &'static str) -> Option<Vec<OptionRow>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let (rows, head): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains('|'));
    // A reason may go over several lines.
    let head = head.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").leak();
    let (front, reason) = head.split_once(": ")?;
    let (class, engines) = front.split_once(" of ").unwrap_or((front, ""));
    let engines = list(engines);
    let row = |line: &&'static str| {
        let [names, kind, unless, meaning] = line.split('|').collect::<Vec<_>>()[..] else {
            return None;
        };
        let unless = list(unless);
        let class = match class.split_once(" with ") {
            None if class == "noted" => Class::Noted { unless, reason },
            None if class == "refused" => Class::Refused { unless, refines: None, reason },
            Some(("refused", other)) => Class::Refused { unless, refines: Some(other), reason },
            _ => return None,
        };
        let (names, kind) = (list(names), OptionKind::named(kind.trim())?);
        let alias = names.get(1).copied();
        Some(OptionRow {
            name: names.first()?,
            alias,
            kind,
            meaning: meaning.trim(),
            class,
            engines,
            limit: None,
        })
    };
    rows.iter().map(row).collect()
}

fn list(text: &'static str) -> &'static [&'static str] {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>().leak()
}

impl OptionRow {
    /// Its name and its other one.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        [Some(self.name), self.alias].into_iter().flatten()
    }
}

/// All options, in no particular order.
pub fn option_rows() -> impl Iterator<Item = &'static OptionRow> {
    honoured::ROWS.iter().chain(OTHERS.iter())
}

/// The option of that name or alias.
pub fn find_option(name: &str) -> Option<&'static OptionRow> {
    // Some four hundred rows for each line of a job file, which has few.
    option_rows().find(|row| row.names().any(|known| known == name))
}

/// The names of options, of jobs and of the program, that begin with `text`, in alphabetical order.
pub(super) fn names_that_begin_with(text: &str) -> Vec<&'static str> {
    let of_program = program::ROWS.iter().map(|row| row.name);
    let all = option_rows().flat_map(OptionRow::names).chain(of_program);
    let mut names: Vec<_> = all.filter(|name| !text.is_empty() && name.starts_with(text)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn nearest_name(written: &str) -> Option<&'static str> {
    nearest_word(written, option_rows().flat_map(OptionRow::names))
}

/// The message for a name that fio does not know either.
pub(super) fn unknown(name: &str) -> String {
    let meant =
        nearest_name(name).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("fio has no option named {name:?}{meant}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_stands_for_one_option() {
        let mut seen = BTreeSet::new();
        for name in option_rows().flat_map(OptionRow::names) {
            assert!(seen.insert(name), "{name} is there twice");
        }
        assert!(seen.len() > 400, "{}", seen.len());
    }

    #[test]
    fn every_reason_is_a_sentence_and_every_meaning_is_short() {
        let program = program::ROWS.iter().map(|row| (row.name, row.meaning));
        for (name, meaning) in option_rows().map(|row| (row.name, row.meaning)).chain(program) {
            assert!((5..=90).contains(&meaning.len()), "{name}: {meaning}");
            assert!(!meaning.ends_with('.') && !meaning.contains('|'), "{name}: {meaning}");
        }
        for row in option_rows() {
            if let Class::Refused { reason, .. } | Class::Noted { reason, .. } = row.class {
                assert!(reason.len() > 20 && !reason.ends_with('.'), "{}: {reason}", row.name);
            }
        }
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        for engine in option_rows().flat_map(|row| row.engines) {
            assert!(engine.chars().all(is_plain), "{engine}");
        }
    }

    #[test]
    fn no_line_of_the_file_of_options_is_lost() {
        let lines = OTHERS_TEXT.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(OTHERS.len(), lines.filter(|line| line.contains('|')).count());
        let of_engines = OTHERS.iter().filter(|row| !row.engines.is_empty()).count();
        assert_eq!(of_engines, 114 + 2, "those of engines.rs, and of io_uring's polling thread");
    }

    #[test]
    fn an_option_refines_one_that_is_there() {
        for row in option_rows() {
            if let Class::Refused { refines: Some(other), .. } = row.class {
                assert!(find_option(other).is_some(), "{}", row.name);
            }
        }
    }

    #[test]
    fn the_nearest_name_is_found_only_if_it_is_near() {
        assert_eq!(nearest_name("iodepht"), Some("iodepth"));
        assert_eq!(nearest_name("norandomap"), Some("norandommap"));
        assert_eq!(nearest_name("something else"), None);
        assert_eq!(nearest_name(""), None);
        assert_eq!(nearest_name(&"x".repeat(100_000)), None);
    }
}
