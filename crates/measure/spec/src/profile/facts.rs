//! The fields of a profile that have a source: how they are read, and how they are shown.

use std::num::NonZeroU32;

use durio_base::{Bytes, Nanos};
use serde::Serialize;
use toml::de::DeValue;

use super::{Profile, ProfileSource};
use crate::SpecError;
use crate::table::value::{KeyedValue, WordValue};
use crate::table::{Faults, Field, TableEntries, TableItem};

/// A value, and the name of the source that it comes from: `{ value = …, from = "NAME" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourcedValue<T> {
    pub value: T,
    /// Name of one of the profile's sources.
    pub from: String,
    /// A remark about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl<T: KeyedValue> Field for SourcedValue<T> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let no_source = || {
            let what = format!("'{}' has no source for its value", item.key);
            let form = "{ value = …, from = \"NAME\" }, NAME being a table [sources.NAME]";
            item.source.error(item.at(), what).hint(format!("write {} = {form}", item.key))
        };
        let DeValue::Table(table) = item.value.get_ref() else { return Err(no_source()) };
        let noun = format!("'{}'", item.key);
        let entries = TableEntries { source: item.source, at: item.at(), noun, table };
        let mut faults = Faults::default();
        entries.refuse_unknown(&["value", "from", "note"], &mut faults);
        let value = match entries.item("value") {
            // Its message names the field.
            Some(value) => T::read(item.of(value.value)).map_err(|error| (value.at(), error)),
            None => Err((usize::MAX, entries.missing("value", ""))),
        };
        let value = value.map_err(|(at, error)| faults.add(at, error)).ok();
        if entries.item("from").is_none() {
            faults.add(usize::MAX, no_source());
        }
        let from = entries.take::<Option<String>>("from", &mut faults).flatten();
        let note = entries.take("note", &mut faults);
        let read = value.and_then(|value| Some(Self { value, from: from?, note: note? }));
        faults.or(read, &entries)
    }

    fn absent(entries: &TableEntries<'_>, key: &'static str) -> Result<Self, SpecError> {
        Err(entries.missing(key, ""))
    }
}

impl<T: KeyedValue> Field for Option<SourcedValue<T>> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        SourcedValue::read(item).map(Some)
    }

    fn absent(_: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(None)
    }
}

/// A field of a profile, as reports show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownFact {
    /// `log`, the name of another stream, or empty for the profile as a whole.
    pub stream: String,
    /// The key in the file.
    pub field: &'static str,
    /// Its value, as people read it.
    pub value: String,
    /// Where it is from.
    pub source: ProfileSource,
    /// A remark about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A sourced field of a table.
pub(super) struct FieldFact<'p> {
    field: &'static str,
    value: String,
    from: &'p str,
    note: Option<&'p String>,
}

/// A field of a table of a profile, which may be a fact.
pub(super) trait FactField {
    fn fact(&self, _field: &'static str) -> Option<FieldFact<'_>> {
        None
    }
}

impl FactField for String {}
impl FactField for Option<String> {}

impl<T: FactText> FactField for SourcedValue<T> {
    fn fact(&self, field: &'static str) -> Option<FieldFact<'_>> {
        let (value, note) = (self.value.shown(), self.note.as_ref());
        Some(FieldFact { field, value, from: &self.from, note })
    }
}

impl<T: FactText> FactField for Option<SourcedValue<T>> {
    fn fact(&self, field: &'static str) -> Option<FieldFact<'_>> {
        self.as_ref()?.fact(field)
    }
}

/// Makes a [`crate::table::table!`] that lists its facts.
macro_rules! facts_table {
    ($(#[$($about:tt)+])* pub struct $name:ident $($noun:literal)? {
        $($(#[$($about_key:tt)+])+ $key:ident: $type:ty,)*
    }) => {
        $crate::table::table! {
            $(#[$($about)+])*
            #[derive(serde::Serialize)]
            pub struct $name $($noun)? { $($(#[$($about_key)+])+ $key: $type,)* }
        }

        impl $name {
            /// Its sourced fields, in order.
            pub(super) fn facts(&self) -> Vec<$crate::profile::facts::FieldFact<'_>> {
                use $crate::profile::facts::FactField as _;
                [$(self.$key.fact(stringify!($key))),*].into_iter().flatten().collect()
            }
        }
    };
}
pub(super) use facts_table;

/// A value as people read it.
pub(super) trait FactText {
    fn shown(&self) -> String;
}

/// Words stand for themselves.
impl<T: WordValue> FactText for T {
    fn shown(&self) -> String {
        let words = T::words();
        words.iter().find(|(_, value)| value == self).map_or("", |(word, _)| word).to_owned()
    }
}

impl FactText for bool {
    fn shown(&self) -> String {
        if *self { "yes" } else { "no" }.to_owned()
    }
}

/// Values that are shown as they are printed.
macro_rules! printed {
    ($($type:ty),*) => {$(
        impl FactText for $type {
            fn shown(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

printed!(Bytes, Nanos, NonZeroU32, String);

impl Profile {
    /// Every field with its source: the log's, the software's, then the other streams', then the
    /// profile's own.
    pub fn facts(&self) -> Vec<ShownFact> {
        let log = self.log.iter().map(|log| ("log", log.facts()));
        let software = self.software.iter().map(|software| ("software", software.facts()));
        let streams = self.streams.iter().map(|stream| (stream.name.as_str(), stream.facts()));
        let own = [("", self.check.fact("check").into_iter().collect())];
        let shown = |(stream, facts): (&str, Vec<FieldFact<'_>>)| {
            let one = |fact: FieldFact<'_>| {
                Some(ShownFact {
                    stream: stream.to_owned(),
                    field: fact.field,
                    value: fact.value,
                    source: self.source(fact.from)?.clone(),
                    note: fact.note.cloned(),
                })
            };
            facts.into_iter().filter_map(one).collect::<Vec<_>>()
        };
        log.chain(software).chain(streams).chain(own).flat_map(shown).collect()
    }
}
