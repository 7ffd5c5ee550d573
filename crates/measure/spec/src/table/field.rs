//! What a key of a table can be: a value, one that may be swept, a table, a list of tables.

use std::ops::Deref;

use toml::de::{DeArray, DeValue};

use super::reference::{Form, Key, object};
use super::value::{Scale, Shown, Value};
use super::{Entries, Item, Table};
use crate::SpecError;

/// Values of one list.
pub(crate) const LIST_MAX: usize = 100_000;

/// What a key of a table becomes.
pub(crate) trait Field: Sized {
    fn read(item: Item<'_>) -> Result<Self, SpecError>;

    /// Without the key.
    fn missing(entries: &Entries<'_>, key: &'static str) -> Result<Self, SpecError>;

    /// What the reference says of it.
    fn key(name: &'static str, help: &'static str) -> Key;
}

/// A value with its place in the file; as a field, one that must be there.
#[derive(Debug, Clone)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    /// Byte in the text.
    pub(crate) at: usize,
}

impl<T: PartialEq> PartialEq for Placed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Value> Field for Placed<T> {
    fn read(item: Item<'_>) -> Result<Self, SpecError> {
        T::read(item).map(|value| Self { value, at: item.at() })
    }

    fn missing(entries: &Entries<'_>, key: &'static str) -> Result<Self, SpecError> {
        let (of, add) = match entries.noun.as_str() {
            "" => (String::new(), "begin the file with"),
            noun => (format!(" of {noun}"), "add"),
        };
        let error = entries.source.error(entries.at, format!("'{key}'{of} is missing"));
        Err(match T::EXAMPLE {
            "" => error,
            example => error.hint(format!("{add} {key} = {example}")),
        })
    }

    fn key(name: &'static str, help: &'static str) -> Key {
        Key { is_required: true, ..Key::new(name, help, T::form()) }
    }
}

/// A key that may be left out, with one value.
pub(crate) type One<T> = Setting<T, false>;

/// A key that may be left out, with one value or a list of them, which makes an axis.
pub(crate) type Levels<T> = Setting<T, true>;

/// A key that may be left out, with its values.
#[derive(Debug, Clone)]
pub(crate) struct Setting<T, const SWEPT: bool> {
    /// Byte of the value in the text.
    pub(crate) at: usize,
    is_list: bool,
    /// None without the key.
    values: Vec<T>,
}

impl<T, const SWEPT: bool> Default for Setting<T, SWEPT> {
    fn default() -> Self {
        Self { at: 0, is_list: false, values: Vec::new() }
    }
}

/// The same values, wherever they stand.
impl<T: PartialEq, const SWEPT: bool> PartialEq for Setting<T, SWEPT> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl<T: Clone, const SWEPT: bool> Setting<T, SWEPT> {
    /// A setting that stands in no file.
    pub(crate) fn of(value: T) -> Self {
        Self { values: vec![value], ..Self::default() }
    }

    /// The value, the first of a list.
    pub(crate) fn one(&self) -> Option<&T> {
        self.values.first()
    }

    /// The value itself.
    pub(crate) fn get(&self) -> Option<T> {
        self.one().cloned()
    }

    /// Every value.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// This one, else `other`.
    pub(crate) fn or(&self, other: &Self) -> Self {
        if self.values.is_empty() { other.clone() } else { self.clone() }
    }

    /// A list as its value at the index given for its place, or as nothing.
    pub(crate) fn pick(&self, index: &dyn Fn(usize) -> Option<usize>) -> Self {
        match self.is_list {
            false => self.clone(),
            true => {
                let value = index(self.at).and_then(|index| self.values.get(index)).cloned();
                Self { at: self.at, is_list: false, values: value.into_iter().collect() }
            }
        }
    }
}

impl<T: Value, const SWEPT: bool> Field for Setting<T, SWEPT> {
    fn read(item: Item<'_>) -> Result<Self, SpecError> {
        let (is_list, values) = match item.value.get_ref() {
            DeValue::Array(list) if SWEPT => (true, values(item, list)?),
            _ => (false, vec![T::read(item)?]),
        };
        Ok(Self { at: item.at(), is_list, values })
    }

    fn missing(_: &Entries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(Self::default())
    }

    fn key(name: &'static str, help: &'static str) -> Key {
        let form = if SWEPT { T::form().or_list() } else { T::form() };
        Key { is_axis: SWEPT, ..Key::new(name, help, form) }
    }
}

/// The values of a list, of which there is at least one.
pub(crate) fn values<T: Value>(item: Item<'_>, list: &DeArray<'_>) -> Result<Vec<T>, SpecError> {
    if list.is_empty() || list.len() > LIST_MAX {
        let (key, count) = (item.key, list.len());
        let text = format!("'{key}' needs 1 to {LIST_MAX} values, not {count}");
        return Err(item.source.error(item.at(), text));
    }
    list.iter().map(|value| T::read(item.of(value))).collect()
}

/// A setting of any type, for the axes.
pub(crate) trait AnySetting {
    /// Byte of the value in the text.
    fn at(&self) -> usize;

    /// True if the file says it.
    fn is_said(&self) -> bool;

    /// True if it was written as a list that makes an axis.
    fn is_axis(&self) -> bool;

    /// Each value as a coordinate, if it has one, and as it is shown.
    fn levels(&self, scale: Scale) -> Vec<(Option<f64>, String)>;
}

impl<T: Shown, const SWEPT: bool> AnySetting for Setting<T, SWEPT> {
    fn at(&self) -> usize {
        self.at
    }

    fn is_said(&self) -> bool {
        !self.values.is_empty()
    }

    fn is_axis(&self) -> bool {
        self.is_list
    }

    fn levels(&self, scale: Scale) -> Vec<(Option<f64>, String)> {
        let scaled = self.values.iter().map(|value| value.scaled(scale));
        scaled.map(|value| (value.coordinate(), value.label())).collect()
    }
}

fn table<T: Table>(item: Item<'_>, otherwise: String) -> Result<Placed<T>, SpecError> {
    let DeValue::Table(table) = item.value.get_ref() else {
        return Err(item.source.error(item.at(), otherwise));
    };
    let value = item.source.table(item.key, item.at(), table)?;
    Ok(Placed { value, at: item.at() })
}

impl<T: Table> Field for Option<Placed<T>> {
    fn read(item: Item<'_>) -> Result<Self, SpecError> {
        table(item, format!("{}: expected a table", item.key)).map(Some)
    }

    fn missing(_: &Entries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(None)
    }

    fn key(name: &'static str, help: &'static str) -> Key {
        Key::new(name, help, Form::new("table", object(&T::all_keys())))
    }
}

impl<T: Table> Field for Vec<Placed<T>> {
    fn read(item: Item<'_>) -> Result<Self, SpecError> {
        let key = item.key;
        let DeValue::Array(list) = item.value.get_ref() else {
            let text = format!("'{key}' is a list of tables; write [[{key}]]");
            return Err(item.source.error(item.at(), text));
        };
        let one = |value| table(item.of(value), format!("expected a table of '{key}'"));
        list.iter().map(one).collect()
    }

    fn missing(_: &Entries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(Vec::new())
    }

    fn key(name: &'static str, help: &'static str) -> Key {
        let schema = serde_json::json!({ "type": "array", "items": object(&T::all_keys()) });
        Key::new(name, help, Form::new("tables", schema))
    }
}
