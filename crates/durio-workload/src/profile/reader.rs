//! Tables of a profile: every key known, every field with its source, each error with its place.
//!
//! In: parsed TOML. Out: labels (plain text) and sourced values. Not here: what a value means.

use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ProfileSource, Sourced};
use crate::DefinitionError;
use crate::words::{line_and_column, nearest_word};

/// The text of a profile, to find lines in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    /// Path or name, for messages.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Text<'_> {
    /// An error at a byte.
    pub(super) fn error(&self, byte: usize, message: impl AsRef<str>) -> DefinitionError {
        let (line, column) = line_and_column(self.text, byte);
        DefinitionError(format!("{}:{line}:{column}: {}", self.name, message.as_ref()))
    }
}

/// How a value of TOML is read; what is wrong as a sentence.
pub(super) type Read<T> = fn(&DeValue<'_>) -> Result<T, String>;

/// One table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) text: Text<'a>,
    /// As it is called in messages: `[log]`.
    place: &'a str,
    at: usize,
    table: &'a DeTable<'a>,
}

impl<'a> Fields<'a> {
    /// A table with no other keys than `known`.
    pub(super) fn new(
        text: Text<'a>,
        place: &'a str,
        (at, table): (usize, &'a DeTable<'a>),
        known: &[&str],
    ) -> Result<Self, DefinitionError> {
        for name in table.keys() {
            if known.contains(&name.get_ref().as_ref()) {
                continue;
            }
            let meant = match nearest_word(name.get_ref(), known.iter().copied()) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => format!("the keys of {place} are {}", known.join(", ")),
            };
            let unknown = name.get_ref().escape_debug();
            return Err(text.error(name.span().start, format!("unknown key '{unknown}'; {meant}")));
        }
        Ok(Self { text, place, at, table })
    }

    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    /// An error about the table as a whole.
    pub(super) fn error(&self, message: impl AsRef<str>) -> DefinitionError {
        self.text.error(self.at, message)
    }

    fn missing(&self, key: &str) -> DefinitionError {
        self.error(format!("{} says nothing about '{key}'", self.place))
    }

    /// A value that needs no source, such as a name.
    pub(super) fn plain<T>(&self, key: &str, read: Read<T>) -> Result<Option<T>, DefinitionError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let fail = |reason| self.text.error(value.span().start, format!("{key}: {reason}"));
        read(value.get_ref()).map(Some).map_err(fail)
    }

    /// The same, which must be there.
    pub(super) fn plain_needed<T>(&self, key: &str, read: Read<T>) -> Result<T, DefinitionError> {
        self.plain(key, read)?.ok_or_else(|| self.missing(key))
    }

    /// A value with its source.
    pub(super) fn fact<T>(
        &self,
        key: &str,
        sources: &[ProfileSource],
        read: Read<T>,
    ) -> Result<Option<Sourced<T>>, DefinitionError> {
        let Some(field) = self.get(key) else { return Ok(None) };
        let at = field.span().start;
        let DeValue::Table(table) = field.get_ref() else {
            return Err(self.text.error(at, no_source(key)));
        };
        let keys = ["value", "from", "note"];
        let inner = Fields::new(self.text, key, (at, table), &keys)?;
        let value = inner.plain_needed("value", read)?;
        let Some(from) = inner.plain("from", super::values::text)? else {
            return Err(self.text.error(at, no_source(key)));
        };
        check_source(self.text, at, key, &from, sources)?;
        Ok(Some(Sourced { value, from, note: inner.plain("note", super::values::text)? }))
    }

    /// The same, which must be there.
    pub(super) fn fact_needed<T>(
        &self,
        key: &str,
        sources: &[ProfileSource],
        read: Read<T>,
    ) -> Result<Sourced<T>, DefinitionError> {
        self.fact(key, sources, read)?.ok_or_else(|| self.missing(key))
    }

    /// The table of a key.
    pub(super) fn table(
        &self,
        key: &str,
    ) -> Result<Option<(usize, &'a DeTable<'a>)>, DefinitionError> {
        match self.get(key).map(|value| (value.span().start, value.get_ref())) {
            None => Ok(None),
            Some((at, DeValue::Table(table))) => Ok(Some((at, table))),
            Some((at, _)) => Err(self.text.error(at, format!("'{key}' is a table: [{key}]"))),
        }
    }

    /// The tables of a key.
    pub(super) fn tables(
        &self,
        key: &str,
    ) -> Result<Vec<(usize, &'a DeTable<'a>)>, DefinitionError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let wrong = |at| self.text.error(at, format!("'{key}' is a list of tables: [[{key}]]"));
        let DeValue::Array(array) = value.get_ref() else {
            return Err(wrong(value.span().start));
        };
        let of = |item: &'a Spanned<DeValue<'a>>| match item.get_ref() {
            DeValue::Table(table) => Ok((item.span().start, table)),
            _ => Err(wrong(item.span().start)),
        };
        array.iter().map(of).collect()
    }
}

fn no_source(key: &str) -> String {
    format!(
        "'{key}' does not say where its value is from; write {key} = {{ value = …, from = \"NAME\" \
         }}, NAME being a table [sources.NAME]"
    )
}

/// Refuses a source that is not there.
pub(super) fn check_source(
    text: Text<'_>,
    at: usize,
    key: &str,
    from: &str,
    sources: &[ProfileSource],
) -> Result<(), DefinitionError> {
    let names: BTreeSet<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    if names.contains(from) {
        return Ok(());
    }
    let meant = match nearest_word(from, names.iter().copied()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("describe it in [sources.{}]", from.escape_debug()),
    };
    Err(text.error(at, format!("{key}: there is no source '{}'; {meant}", from.escape_debug())))
}
