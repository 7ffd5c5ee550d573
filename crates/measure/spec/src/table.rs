//! Tables of specs and profiles as structs: every key is a field, every fault has its place.
//!
//! Fills structs made with [`table!`] from TOML, or returns the error at its line and column. The
//! JSON schema and the references in docs/formats come from the same fields and their doc comments
//! ([`reference`]).
//!
//! ```text
//!   text ── DeTable ── SpecTable ──┬── Field: Levels, OptionalValue, PlacedValue, tables
//!                              └── Value: one scalar, text or mix
//! ```
//!
//! It reads every TOML file that a user writes; [`SpecText`] also gives the places in durio's own
//! configuration, whose keys are the options of the command line. serde reads the files that are built
//! in, where a test sees a fault first. It cannot read these: its `flatten`, which tables that share
//! keys need, loses both the places and the refusal of unknown keys, and a sweep is taken apart by
//! field.

pub(crate) mod field;
pub(crate) mod reference;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod value;

use durio_base::{did_you_mean, line_and_column};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) use field::{Field, Levels, OptionalValue, PlacedValue, Texts};
pub(crate) use reference::{ReferenceKey, ValueForm};

use crate::SpecError;

/// Larger than any spec that a person writes.
const LENGTH_MAX: usize = 1 << 20;

/// The text of a spec, or of another TOML file that a person writes, to find lines in.
#[derive(Debug, Clone, Copy)]
pub struct SpecText<'a> {
    /// Path or name, for messages.
    pub name: &'a str,
    pub text: &'a str,
}

impl<'a> SpecText<'a> {
    /// An error at a byte.
    pub fn error(self, byte: usize, message: impl AsRef<str>) -> SpecError {
        let (line, column) = line_and_column(self.text, byte);
        SpecError::wrong_use(format!("{}:{line}:{column}: {}", self.name, message.as_ref()))
    }

    /// The error at a name outside `known`; `what` is "unknown key 'x'" or the like, `others`
    /// begins the list of known names.
    pub fn unknown(
        self,
        name: &str,
        at: usize,
        what: impl AsRef<str>,
        known: &[&str],
        others: &str,
    ) -> SpecError {
        let error = self.error(at, what);
        error.hint(did_you_mean(name, known, others))
    }

    /// The file as TOML, each value with its place; `what` it is: "a spec".
    ///
    /// # Errors
    /// If it is too long or not TOML.
    pub fn parse(self, what: &str) -> Result<DeTable<'a>, SpecError> {
        let length = self.text.len();
        if length > LENGTH_MAX {
            let name = self.name;
            let text = format!("{name}: {what} of {length} bytes is longer than {LENGTH_MAX}");
            return Err(SpecError::wrong_use(text));
        }
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, error.message())
        })?;
        Ok(table.into_inner())
    }

    /// A table whose keys are those of `T` and no others.
    pub(crate) fn table<T: SpecTable>(
        self,
        key: &'static str,
        at: usize,
        table: &DeTable<'_>,
    ) -> Result<T, SpecError> {
        let noun = match T::NOUN {
            "" if !key.is_empty() => format!("the {key}"),
            noun => noun.to_owned(),
        };
        let (entries, mut faults) =
            (TableEntries { source: self, at, noun, table }, Faults::default());
        // All faults are gathered and the first of the file is reported: people correct from the
        // top.
        entries.refuse_unknown(&T::names(), &mut faults);
        let read = T::read(&entries, &mut faults);
        faults.or(read, &entries)
    }
}

/// The first fault of a table in the order of the file; missing keys come last.
#[derive(Debug, Default)]
pub(crate) struct Faults(Option<(usize, SpecError)>);

impl Faults {
    pub(crate) fn add(&mut self, at: usize, error: SpecError) {
        if self.0.as_ref().is_none_or(|(first, _)| at < *first) {
            self.0 = Some((at, error));
        }
    }

    /// The value, or the fault.
    pub(crate) fn or<T>(self, read: Option<T>, entries: &TableEntries<'_>) -> Result<T, SpecError> {
        match (self.0, read) {
            (None, Some(read)) => Ok(read),
            (Some((_, error)), _) => Err(error),
            (None, None) => Err(entries.source.error(entries.at, "this table cannot be read")),
        }
    }
}

/// A struct that is a table of a spec; made with [`table!`].
pub(crate) trait SpecTable: Sized {
    /// What it is called where it lacks a key; "the KEY" under which it stands, if empty.
    const NOUN: &'static str;

    /// Reads the fields; none after a fault.
    fn read(entries: &TableEntries<'_>, faults: &mut Faults) -> Option<Self>;

    /// Its own keys, without its parts', in the order of the fields.
    fn keys() -> Vec<ReferenceKey>;

    /// The keys of its parts and its own.
    fn all_keys() -> Vec<ReferenceKey>;

    /// The names of all keys.
    fn names() -> Vec<&'static str>;
}

/// The entries of a table that is read.
#[derive(Debug)]
pub(crate) struct TableEntries<'t> {
    pub(crate) source: SpecText<'t>,
    /// Byte of the table's begin.
    pub(crate) at: usize,
    /// "the step"; empty for the file.
    pub(crate) noun: String,
    pub(crate) table: &'t DeTable<'t>,
}

impl TableEntries<'_> {
    /// The field of a key; only [`table!`] asks, with the names of fields.
    pub(crate) fn take<F: Field>(&self, key: &'static str, faults: &mut Faults) -> Option<F> {
        let (at, read) = match self.item(key) {
            Some(item) => (item.at(), F::read(item)),
            // Behind every fault with a place: a misspelt key is reported as unknown, not as
            // missing.
            None => (usize::MAX, F::absent(self, key)),
        };
        read.map_err(|error| faults.add(at, error)).ok()
    }

    /// The value of a key, if it is there.
    pub(crate) fn item(&self, key: &'static str) -> Option<TableItem<'_>> {
        self.table.get(key).map(|value| TableItem { source: self.source, key, value })
    }

    /// The error without a key that must be there, with an `example` of its value if it helps.
    pub(crate) fn missing(&self, key: &str, example: &str) -> SpecError {
        let (of, add) = match self.noun.as_str() {
            "" => (String::new(), "begin the file with"),
            noun => (format!(" of {noun}"), "add"),
        };
        let error = self.source.error(self.at, format!("'{key}'{of} is missing"));
        if example.is_empty() { error } else { error.hint(format!("{add} {key} = {example}")) }
    }

    /// A fault at the first key outside `known`.
    pub(crate) fn refuse_unknown(&self, known: &[&str], faults: &mut Faults) {
        let unknown = self.table.keys().filter(|name| !known.contains(&name.get_ref().as_ref()));
        if let Some(name) = unknown.min_by_key(|name| name.span().start) {
            let what = format!("unknown key '{}'", name.get_ref().escape_debug());
            let (source, at) = (self.source, name.span().start);
            let others = match self.noun.as_str() {
                "" => "the keys here are".to_owned(),
                noun => format!("the keys of {noun} are"),
            };
            let error = source.unknown(name.get_ref(), at, what, known, &others);
            faults.add(at, error);
        }
    }

    /// False, with a fault, for no key and for several.
    pub(crate) fn only_one(&self, hint: &str, faults: &mut Faults) -> bool {
        let count = self.table.len();
        if count != 1 {
            let error =
                self.source.error(self.at, format!("{} has one word, not {count}", self.noun));
            faults.add(self.at, error.hint(hint));
        }
        count == 1
    }
}

/// A value that is not read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableItem<'t> {
    pub(crate) source: SpecText<'t>,
    pub(crate) key: &'static str,
    pub(crate) value: &'t Spanned<DeValue<'t>>,
}

impl<'t> TableItem<'t> {
    /// Byte of its begin.
    pub(crate) fn at(self) -> usize {
        self.value.span().start
    }

    /// The error that begins with the key.
    pub(crate) fn fail(self, reason: impl AsRef<str>) -> SpecError {
        self.source.error(self.at(), format!("{}: {}", self.key, reason.as_ref()))
    }

    /// The item of a list under the same key.
    pub(crate) fn of(self, value: &'t Spanned<DeValue<'t>>) -> Self {
        Self { value, ..self }
    }
}

/// Makes a struct that is a [`SpecTable`], whose fields are as visible as itself. After its name may
/// stand its name in messages about missing keys, and its parts, tables whose keys stand in this one
/// too. The doc comment of a field is the text on its key in the reference.
macro_rules! table {
    ($(#[$($about:tt)+])*
     $visible:vis struct $name:ident $($noun:literal)? $([$($part:ident: $Part:ty),*])? {
        $($(#[$($about_key:tt)+])+ $key:ident: $type:ty,)*
    }) => {
        $(#[$($about)+])*
        #[derive(Debug, Clone, PartialEq)]
        $visible struct $name {
            $($($visible $part: $Part,)*)?
            $($(#[$($about_key)+])+ $visible $key: $type,)*
        }

        impl $crate::table::SpecTable for $name {
            const NOUN: &'static str = concat!($($noun)?);

            fn read(
                entries: &$crate::table::TableEntries<'_>,
                faults: &mut $crate::table::Faults,
            ) -> Option<Self> {
                $($(let $part = <$Part as $crate::table::SpecTable>::read(entries, faults);)*)?
                $(let $key = entries.take(stringify!($key), faults);)*
                Some(Self { $($($part: $part?,)*)? $($key: $key?,)* })
            }

            fn keys() -> Vec<$crate::table::ReferenceKey> {
                vec![$(<$type as $crate::table::Field>::key(
                    stringify!($key),
                    concat!($($crate::table::doc_text!($($about_key)+)),+),
                )),*]
            }

            fn all_keys() -> Vec<$crate::table::ReferenceKey> {
                let parts: &[fn() -> Vec<$crate::table::ReferenceKey>] =
                    &[$($(<$Part as $crate::table::SpecTable>::all_keys),*)?];
                parts.iter().flat_map(|part| part()).chain(Self::keys()).collect()
            }

            fn names() -> Vec<&'static str> {
                let parts: &[fn() -> Vec<&'static str>] =
                    &[$($(<$Part as $crate::table::SpecTable>::names),*)?];
                let own: &[Vec<&'static str>] =
                    &[$(<$type as $crate::table::Field>::names(stringify!($key))),*];
                own.iter().cloned().chain(parts.iter().map(|part| part())).flatten().collect()
            }
        }
    };
}

/// The text of a doc comment, nothing of any other attribute.
macro_rules! doc_text {
    (doc = $text:literal) => {
        $text
    };
    ($($other:tt)+) => {
        ""
    };
}

/// Makes a [`table!`] whose fields are all [`Setting`]s, with the operations of a sweep.
macro_rules! settings {
    ($(#[$($about:tt)+])*
     $visible:vis struct $name:ident $([$($part:ident: $Part:ty),*])? {
        $($(#[$($about_key:tt)+])+ $key:ident: $type:ty,)*
    }) => {
        table! {
            $(#[$($about)+])*
            #[derive(Default)]
            $visible struct $name $([$($part: $Part),*])? { $($(#[$($about_key)+])+ $key: $type,)* }
        }

        impl $name {
            /// Its settings by name.
            pub(crate) fn fields(&self) -> Vec<(&'static str, &dyn $crate::table::field::AnySetting)> {
                let own: Vec<(_, &dyn $crate::table::field::AnySetting)> =
                    vec![$((stringify!($key), &self.$key)),*];
                own.into_iter()$($(.chain(self.$part.fields()))*)?.collect()
            }

            /// These settings, and those of `other` where these have none.
            pub(crate) fn or(&self, other: &Self) -> Self {
                Self {
                    $($($part: self.$part.or(&other.$part),)*)?
                    $($key: self.$key.or(&other.$key),)*
                }
            }

            /// Every list as the one value whose index is given for its place, or left out.
            pub(crate) fn pick(&self, index: &dyn Fn(usize) -> Option<usize>) -> Self {
                Self {
                    $($($part: self.$part.pick(index),)*)?
                    $($key: self.$key.pick(index),)*
                }
            }
        }
    };
}

pub(crate) use {doc_text, settings, table};
