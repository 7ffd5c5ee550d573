//! What a key of a table can be: a value, one that may be swept, a table, a list of tables.

use std::ops::Deref;

use toml::de::{DeArray, DeValue};

use super::reference::{ReferenceKey, ValueForm, object};
use super::value::{KeyedValue, LevelValue, TimeScale};
use super::{SpecTable, TableEntries, TableItem};
use crate::SpecError;

/// Values of one list.
pub(crate) const LIST_MAX: usize = 100_000;

/// What a key of a table becomes.
pub(crate) trait Field: Sized {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        // A field that is made of other keys; its name in a file is reported as unknown before.
        Err(item.fail("not a key"))
    }

    /// The field of a table that lacks the key: its default, or an error.
    fn absent(entries: &TableEntries<'_>, key: &'static str) -> Result<Self, SpecError>;

    /// The keys that it is read from: its own, unless it is made of others, which [`Self::absent`]
    /// looks for.
    fn names(key: &'static str) -> Vec<&'static str> {
        vec![key]
    }

    /// What the reference says of it; that of profiles is written by hand.
    fn key(name: &'static str, help: &'static str) -> ReferenceKey {
        ReferenceKey::new(name, help, ValueForm::new("", serde_json::json!({})))
    }
}

/// A value with its place in the file; as a field, one that must be there.
#[derive(Debug, Clone)]
pub(crate) struct PlacedValue<T> {
    pub(crate) value: T,
    /// Byte in the text.
    pub(crate) at: usize,
}

impl<T: PartialEq> PartialEq for PlacedValue<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> Deref for PlacedValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: KeyedValue> Field for PlacedValue<T> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        T::read(item).map(|value| Self { value, at: item.at() })
    }

    fn absent(entries: &TableEntries<'_>, key: &'static str) -> Result<Self, SpecError> {
        Err(entries.missing(key, T::EXAMPLE))
    }

    fn key(name: &'static str, help: &'static str) -> ReferenceKey {
        ReferenceKey { is_required: true, ..ReferenceKey::new(name, help, T::form()) }
    }
}

/// A text that must be there, and says something.
impl Field for String {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        // An empty name or source would pass for one that says something.
        item.text(|text| match text.trim() {
            "" => Err("expected a non-empty text".to_owned()),
            _ => Ok(text.to_owned()),
        })
    }

    fn absent(entries: &TableEntries<'_>, key: &'static str) -> Result<Self, SpecError> {
        Err(entries.missing(key, ""))
    }
}

impl Field for Option<String> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        <String as Field>::read(item).map(Some)
    }

    fn absent(_: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(None)
    }
}

/// Texts; none without the key.
impl Field for Vec<String> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let DeValue::Array(list) = item.value.get_ref() else {
            return Err(item.fail("expected a list of texts"));
        };
        list.iter().map(|value| <String as Field>::read(item.of(value))).collect()
    }

    fn absent(_: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(Vec::new())
    }
}

/// A key that may be left out, with one value.
pub(crate) type OptionalValue<T> = OptionalKey<T, false>;

/// A key that may be left out, with one value or a list of them, which makes an axis.
pub(crate) type Levels<T> = OptionalKey<T, true>;

/// A key that may be left out, with its values.
#[derive(Debug, Clone)]
pub(crate) struct OptionalKey<T, const SWEPT: bool> {
    /// Byte of the value in the text.
    pub(crate) at: usize,
    is_list: bool,
    /// None without the key.
    values: Vec<T>,
}

impl<T, const SWEPT: bool> Default for OptionalKey<T, SWEPT> {
    fn default() -> Self {
        Self { at: 0, is_list: false, values: Vec::new() }
    }
}

/// The same values, wherever they stand.
impl<T: PartialEq, const SWEPT: bool> PartialEq for OptionalKey<T, SWEPT> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl<T: Clone, const SWEPT: bool> OptionalKey<T, SWEPT> {
    /// A setting that stands in no file.
    pub(crate) fn of(value: T) -> Self {
        Self { values: vec![value], ..Self::default() }
    }

    /// The value, the first of a list.
    pub(crate) fn one(&self) -> Option<&T> {
        self.values.first()
    }

    pub(crate) fn get(&self) -> Option<T> {
        self.one().cloned()
    }

    /// The values of a list, or the one value; none without the key.
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

impl<T: KeyedValue, const SWEPT: bool> Field for OptionalKey<T, SWEPT> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let (is_list, values) = match item.value.get_ref() {
            DeValue::Array(list) if SWEPT => (true, values(item, list)?),
            _ => (false, vec![T::read(item)?]),
        };
        Ok(Self { at: item.at(), is_list, values })
    }

    fn absent(_: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(Self::default())
    }

    fn key(name: &'static str, help: &'static str) -> ReferenceKey {
        let form = if SWEPT { T::form().or_list() } else { T::form() };
        ReferenceKey { is_axis: SWEPT, ..ReferenceKey::new(name, help, form) }
    }
}

/// The values of a list, of which there is at least one.
pub(crate) fn values<T: KeyedValue>(
    item: TableItem<'_>,
    list: &DeArray<'_>,
) -> Result<Vec<T>, SpecError> {
    if list.is_empty() || list.len() > LIST_MAX {
        let (key, count) = (item.key, list.len());
        let text = format!("'{key}' needs 1 to {LIST_MAX} values, not {count}");
        return Err(item.source.error(item.at(), text));
    }
    list.iter().map(|value| T::read(item.of(value))).collect()
}

/// A text or a list of texts that belong together (no axis).
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Texts(pub(crate) Vec<PlacedValue<String>>);

impl Texts {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|text| text.value.as_str())
    }

    pub(crate) fn to_vec(&self) -> Vec<String> {
        self.iter().map(str::to_owned).collect()
    }
}

impl KeyedValue for Texts {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        Ok(Self(match item.value.get_ref() {
            DeValue::Array(list) => values(item, list)?,
            _ => vec![KeyedValue::read(item)?],
        }))
    }

    fn form() -> ValueForm {
        ValueForm { shown: "text, or a list of texts".to_owned(), ..String::form().or_list() }
    }
}

impl LevelValue for Texts {
    fn label(&self) -> String {
        self.iter().collect::<Vec<_>>().join(" ")
    }
}

/// So that texts know their places in a list.
impl KeyedValue for PlacedValue<String> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        <String as KeyedValue>::read(item).map(|value| Self { value, at: item.at() })
    }
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
    fn levels(&self, scale: TimeScale) -> Vec<(Option<f64>, String)>;
}

impl<T: LevelValue, const SWEPT: bool> AnySetting for OptionalKey<T, SWEPT> {
    fn at(&self) -> usize {
        self.at
    }

    fn is_said(&self) -> bool {
        !self.values.is_empty()
    }

    fn is_axis(&self) -> bool {
        self.is_list
    }

    fn levels(&self, scale: TimeScale) -> Vec<(Option<f64>, String)> {
        let scaled = self.values.iter().map(|value| value.scaled(scale));
        scaled.map(|value| (value.coordinate(), value.label())).collect()
    }
}

fn table<T: SpecTable>(
    item: TableItem<'_>,
    otherwise: String,
) -> Result<PlacedValue<T>, SpecError> {
    let DeValue::Table(table) = item.value.get_ref() else {
        return Err(item.source.error(item.at(), otherwise));
    };
    let value = item.source.table(item.key, item.at(), table)?;
    Ok(PlacedValue { value, at: item.at() })
}

impl<T: SpecTable> Field for Option<PlacedValue<T>> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        table(item, format!("{}: expected a table", item.key)).map(Some)
    }

    fn absent(_: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(None)
    }

    fn key(name: &'static str, help: &'static str) -> ReferenceKey {
        ReferenceKey::new(name, help, ValueForm::new("table", object(&T::all_keys())))
    }
}

impl<T: SpecTable> Field for Option<T> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        Option::<PlacedValue<T>>::read(item).map(|table| table.map(|table| table.value))
    }

    fn absent(_: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(None)
    }
}

impl<T: SpecTable> Field for Vec<PlacedValue<T>> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let key = item.key;
        let DeValue::Array(list) = item.value.get_ref() else {
            let text = format!("'{key}' is a list of tables; write [[{key}]]");
            return Err(item.source.error(item.at(), text));
        };
        let one = |value| table(item.of(value), format!("expected a table of '{key}'"));
        list.iter().map(one).collect()
    }

    fn absent(_: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(Vec::new())
    }

    fn key(name: &'static str, help: &'static str) -> ReferenceKey {
        let schema = serde_json::json!({ "type": "array", "items": object(&T::all_keys()) });
        ReferenceKey::new(name, help, ValueForm::new("tables", schema))
    }
}
