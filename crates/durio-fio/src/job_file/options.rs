//! fio's options as data: names, kinds, and what durio does with each.
//!
//! In: a name. Out: its [`OptionRow`]. The names are those of fio 3.33 to 3.42 (`options.c`, and
//! the option tables of its engines). Not here: how values are read (`values`).

mod engine;
mod foreign;
mod output;
mod profile;
mod program;
mod refused;
mod workload;

use durio_workload::nearest_word;

use program::program_option_names;
pub(super) use program::{Printing, ProgramClass, ProgramOption, Takes, find_program_option};

/// What an option's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A bare word is enough; a number after `=` sets or clears it.
    Flag,
    /// 0 or 1.
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
    /// Any text, or a list with a grammar of its own.
    Text,
    /// fio knows the name and does nothing, or refuses it.
    Deprecated,
}

/// What durio does with an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The job does it.
    Honoured,
    /// It changes only what fio prints, logs or calls things: ignored with a note.
    OutputOnly,
    /// fio itself does nothing with it: ignored with a note.
    WithoutEffect {
        /// Why fio does nothing.
        reason: &'static str,
    },
    /// It changes what is done and cannot be honoured.
    Refused {
        /// Values with which nothing changes; they are fine.
        unless: &'static [&'static str],
        /// What the option does, and what to do about it: a sentence.
        reason: &'static str,
    },
}

/// One option of fio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionRow {
    /// Its main name.
    pub name: &'static str,
    /// Its other name.
    pub alias: Option<&'static str>,
    /// What its value is.
    pub kind: Kind,
    /// What durio does with it.
    pub class: Class,
    /// The engines that have it; empty: every job has it.
    pub engines: &'static [&'static str],
}

const fn honoured(name: &'static str, kind: Kind) -> OptionRow {
    OptionRow { name, alias: None, kind, class: Class::Honoured, engines: &[] }
}

const fn output(name: &'static str, kind: Kind) -> OptionRow {
    OptionRow { name, alias: None, kind, class: Class::OutputOnly, engines: &[] }
}

const fn refused(
    name: &'static str,
    kind: Kind,
    unless: &'static [&'static str],
    reason: &'static str,
) -> OptionRow {
    OptionRow { name, alias: None, kind, class: Class::Refused { unless, reason }, engines: &[] }
}

impl OptionRow {
    const fn or(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    const fn of(self, engines: &'static [&'static str]) -> Self {
        Self { engines, ..self }
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }
}

/// All options, in no particular order.
pub fn option_rows() -> impl Iterator<Item = &'static OptionRow> {
    let common = [workload::ROWS, output::ROWS, refused::ROWS];
    let special = [engine::ROWS, foreign::ROWS, profile::ROWS];
    common.into_iter().chain(special).flatten()
}

/// The option of that name or alias.
pub fn find_option(name: &str) -> Option<&'static OptionRow> {
    option_rows().find(|row| row.is_called(name))
}

/// The names of options, of jobs and of the program, that begin with `text`, in alphabetical order.
pub(super) fn names_that_begin_with(text: &str) -> Vec<&'static str> {
    let of_jobs = option_rows().flat_map(|row| [Some(row.name), row.alias]).flatten();
    let all = of_jobs.chain(program_option_names());
    let mut names: Vec<_> = all.filter(|name| !text.is_empty() && name.starts_with(text)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The words of a choice.
pub(super) fn option_words(name: &str) -> &'static [&'static str] {
    match find_option(name).map(|row| row.kind) {
        Some(Kind::Choice(words)) => words,
        _ => &[],
    }
}

/// The name nearest to what was written, if it is near.
pub(super) fn nearest_name(written: &str) -> Option<&'static str> {
    nearest_word(written, option_rows().flat_map(|row| [Some(row.name), row.alias]).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_stands_for_one_option() {
        let mut seen = BTreeSet::new();
        for name in option_rows().flat_map(|row| [Some(row.name), row.alias]).flatten() {
            assert!(seen.insert(name), "{name} is there twice");
        }
        assert!(seen.len() > 300, "{}", seen.len());
    }

    #[test]
    fn every_refusal_is_a_sentence_and_every_engine_s_option_names_its_engines() {
        for row in option_rows() {
            if let Class::Refused { reason, .. } = row.class {
                assert!(reason.len() > 20 && !reason.ends_with('.'), "{}: {reason}", row.name);
            }
        }
        assert!(engine::ROWS.iter().chain(foreign::ROWS).all(|row| !row.engines.is_empty()));
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
