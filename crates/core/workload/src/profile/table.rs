//! Tables of a profile as structs: every key is a field, every fact has its source, each error its
//! place.
//! Structs made with [`table!`] are filled from parsed TOML, and list their facts. `values` knows
//! the meaning of a value.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::facts::FactText;
use super::{ProfileSource, SourcedValue};
use crate::DefinitionError;
use crate::words::{did_you_mean, line_and_column, nearest_word};

/// The text of a profile, to find lines in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    /// Path or name, for messages.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Text<'_> {
    pub(super) fn error(&self, byte: usize, message: impl AsRef<str>) -> DefinitionError {
        let (line, column) = line_and_column(self.text, byte);
        DefinitionError(format!("{}:{line}:{column}: {}", self.name, message.as_ref()))
    }
}

/// A struct that is a table of a profile; made with [`table!`].
pub(super) trait ProfileTable: Sized {
    fn keys() -> Vec<&'static str>;

    fn read(fields: &TableFields<'_>) -> Result<Self, DefinitionError>;

    /// Its sourced fields, in order.
    fn facts(&self) -> Vec<FieldFact<'_>>;
}

/// A sourced field as it is shown.
pub(super) struct FieldFact<'p> {
    pub(super) field: &'static str,
    pub(super) value: String,
    pub(super) from: &'p str,
    pub(super) note: Option<&'p String>,
}

impl<'p> FieldFact<'p> {
    pub(super) fn of<T: FactText>(field: &'static str, it: &'p SourcedValue<T>) -> Self {
        Self { field, value: it.value.shown(), from: &it.from, note: it.note.as_ref() }
    }
}

/// Makes a struct that is a [`ProfileTable`]. A field's type is followed by the method of [`TableFields`] that
/// reads the field, with the reader of its value; the key is the field's name unless others follow
/// after `of`. So each key is written once, and only known keys can be asked for.
macro_rules! table {
    ($(#[doc = $about:literal])* struct $Name:ident {
        $($(#[$meta:meta])* $key:ident: $type:ty = $how:ident($($read:expr)?) $(of $keys:tt)?,)*
    }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        pub struct $Name {
            $($(#[$meta])* pub $key: $type,)*
        }

        impl $crate::profile::table::ProfileTable for $Name {
            fn keys() -> Vec<&'static str> {
                let keys: &[&[&'static str]] = &[$(table!(@keys $key $($keys)?)),*];
                keys.concat()
            }

            fn read(
                fields: &$crate::profile::table::TableFields<'_>,
            ) -> Result<Self, $crate::DefinitionError> {
                Ok(Self { $($key: fields.$how(stringify!($key), $($read)?)?,)* })
            }

            fn facts(&self) -> Vec<$crate::profile::table::FieldFact<'_>> {
                let facts = [$(table!(@facts self $key $how)),*];
                facts.into_iter().flatten().collect()
            }
        }
    };
    (@keys $key:ident) => { &[stringify!($key)] };
    (@keys $key:ident $keys:tt) => { &$keys };
    (@facts $it:ident $key:ident fact_needed) => {
        vec![$crate::profile::table::FieldFact::of(stringify!($key), &$it.$key)]
    };
    (@facts $it:ident $key:ident fact) => {
        $it.$key.iter().map(|it| $crate::profile::table::FieldFact::of(stringify!($key), it)).collect()
    };
    (@facts $it:ident $key:ident $how:ident) => { Vec::new() };
}
pub(super) use table;

/// Reads a value of TOML; an error is a sentence.
pub(super) type TomlReader<T> = fn(&DeValue<'_>) -> Result<T, String>;

#[derive(Debug, Clone, Copy)]
pub(super) struct TableFields<'a> {
    pub(super) text: Text<'a>,
    /// As it is called in messages: `[log]`.
    pub(super) place: &'a str,
    pub(super) at: usize,
    pub(super) table: &'a DeTable<'a>,
    /// Those that facts may name.
    pub(super) sources: &'a [ProfileSource],
}

impl<'a> TableFields<'a> {
    /// A table with no other keys than `known`.
    pub(super) fn new(
        text: Text<'a>,
        place: &'a str,
        (at, table): (usize, &'a DeTable<'a>),
        known: &[&str],
    ) -> Result<Self, DefinitionError> {
        // Before any value is read: a misspelt key is a missing one too, and this says which was
        // meant.
        let is_unknown = |name: &&Spanned<Cow<'_, str>>| !known.contains(&name.get_ref().as_ref());
        if let Some(name) = table.keys().find(is_unknown) {
            let meant = did_you_mean(name.get_ref(), known, &format!("the keys of {place} are"));
            let unknown = name.get_ref().escape_debug();
            return Err(text.error(name.span().start, format!("unknown key '{unknown}'; {meant}")));
        }
        Ok(Self { text, place, at, table, sources: &[] })
    }

    pub(super) fn error(&self, message: impl AsRef<str>) -> DefinitionError {
        self.text.error(self.at, message)
    }

    fn needed<T>(&self, key: &str, found: Option<T>) -> Result<T, DefinitionError> {
        found.ok_or_else(|| self.error(format!("{} says nothing about '{key}'", self.place)))
    }

    /// A value that needs no source, such as a name.
    pub(super) fn plain<T>(
        &self,
        key: &str,
        read: TomlReader<T>,
    ) -> Result<Option<T>, DefinitionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let fail = |reason| self.text.error(value.span().start, format!("{key}: {reason}"));
        read(value.get_ref()).map(Some).map_err(fail)
    }

    /// The same, which must be there.
    pub(super) fn plain_needed<T>(
        &self,
        key: &str,
        read: TomlReader<T>,
    ) -> Result<T, DefinitionError> {
        self.plain(key, read).and_then(|found| self.needed(key, found))
    }

    /// A value with its source.
    pub(super) fn fact<T>(
        &self,
        key: &str,
        read: TomlReader<T>,
    ) -> Result<Option<SourcedValue<T>>, DefinitionError> {
        let Some(field) = self.table.get(key) else { return Ok(None) };
        let at = field.span().start;
        let no_source = || {
            let text = "does not say where its value is from; write";
            let form = "{ value = …, from = \"NAME\" }, NAME being a table [sources.NAME]";
            self.text.error(at, format!("'{key}' {text} {key} = {form}"))
        };
        let DeValue::Table(table) = field.get_ref() else { return Err(no_source()) };
        let inner = TableFields::new(self.text, key, (at, table), &["value", "from", "note"])?;
        let value = inner.plain_needed("value", read)?;
        let from = inner.plain("from", super::values::text)?.ok_or_else(no_source)?;
        self.check_source(at, key, &from)?;
        Ok(Some(SourcedValue { value, from, note: inner.plain("note", super::values::text)? }))
    }

    /// The same, which must be there.
    pub(super) fn fact_needed<T>(
        &self,
        key: &str,
        read: TomlReader<T>,
    ) -> Result<SourcedValue<T>, DefinitionError> {
        self.fact(key, read).and_then(|found| self.needed(key, found))
    }

    /// Refuses a source that is not there.
    pub(super) fn check_source(
        &self,
        at: usize,
        key: &str,
        from: &str,
    ) -> Result<(), DefinitionError> {
        let names = || self.sources.iter().map(|source| source.name.as_str());
        if names().any(|name| name == from) {
            return Ok(());
        }
        let meant = nearest_word(from, names());
        let from = from.escape_debug();
        let meant = match meant {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("describe it in [sources.{from}]"),
        };
        Err(self.text.error(at, format!("{key}: there is no source '{from}'; {meant}")))
    }

    pub(super) fn table(
        &self,
        key: &str,
    ) -> Result<Option<(usize, &'a DeTable<'a>)>, DefinitionError> {
        match self.table.get(key).map(|value| (value.span().start, value.get_ref())) {
            None => Ok(None),
            Some((at, DeValue::Table(table))) => Ok(Some((at, table))),
            Some((at, _)) => Err(self.text.error(at, format!("'{key}' is a table: [{key}]"))),
        }
    }

    pub(super) fn tables(
        &self,
        key: &str,
    ) -> Result<Vec<(usize, &'a DeTable<'a>)>, DefinitionError> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
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
