//! TOML to blocks: every key known, every value of its kind, each with its place.

use durio_workload::BlockShare;
use toml::de::{DeArray, DeTable, DeValue};

use super::keys::{self, Key, Kind};
use super::text::{Source, nearest};
use super::value::{Scalar, Value, block_share, value};
use crate::SpecError;

/// Larger than any spec that a person writes.
const LENGTH_MAX: usize = 1 << 20;
/// Values of one list.
const LIST_MAX: usize = 100_000;

/// A value with its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    /// Byte in the text.
    pub(crate) at: usize,
}

/// A key with its values.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) at: usize,
    /// True if it was written as a list.
    pub(crate) is_list: bool,
    /// One, or those of the list.
    pub(crate) values: Vec<Placed<Value>>,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.key.name == other.key.name && self.values == other.values
    }
}

/// A table: its settings in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Block {
    pub(crate) at: usize,
    pub(crate) settings: Vec<Setting>,
}

impl Block {
    /// The setting of a key.
    pub(crate) fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key.name == name)
    }

    /// The value of a key; the first of a list.
    pub(crate) fn value(&self, name: &str) -> Option<&Placed<Value>> {
        self.setting(name)?.values.first()
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match &self.value(name)?.value {
            Value::Text(text) => Some(text),
            Value::Choice(word) => Some(word),
            _ => None,
        }
    }

    /// All texts of a list.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = Placed<&str>> {
        let values = self.setting(name).map_or(&[][..], |setting| &setting.values);
        values.iter().filter_map(|placed| match &placed.value {
            Value::Text(text) => Some(Placed { value: text.as_str(), at: placed.at }),
            _ => None,
        })
    }

    /// The tables of a key.
    pub(crate) fn blocks(&self, name: &str) -> impl Iterator<Item = &Block> {
        let values = self.setting(name).map_or(&[][..], |setting| &setting.values);
        values.iter().filter_map(|placed| match &placed.value {
            Value::Block(block) => Some(block),
            _ => None,
        })
    }
}

/// Reads a whole file.
pub(crate) fn read(source: Source<'_>) -> Result<Block, SpecError> {
    block(source, &parse(source)?, 0, &[keys::TOP])
}

/// A file as TOML, each value with its place.
pub(crate) fn parse(source: Source<'_>) -> Result<DeTable<'_>, SpecError> {
    if source.text.len() > LENGTH_MAX {
        return Err(SpecError::wrong_use(format!(
            "{}: a spec of {} bytes is longer than {LENGTH_MAX}",
            source.name,
            source.text.len()
        )));
    }
    let table = DeTable::parse(source.text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        source.error(at, error.message())
    })?;
    Ok(table.into_inner())
}

/// Reads a table whose keys are those of `tables`.
pub(crate) fn block(
    source: Source<'_>,
    table: &DeTable<'_>,
    at: usize,
    tables: &[&'static [Key]],
) -> Result<Block, SpecError> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut settings = Vec::new();
    for (name, value) in entries {
        let at = name.span().start;
        let Some(key) = keys::find(tables, name.get_ref()) else {
            return Err(unknown(source, at, name.get_ref(), tables));
        };
        settings.push(setting(source, key, at, value.get_ref(), value.span().start)?);
    }
    Ok(Block { at, settings })
}

fn unknown(source: Source<'_>, at: usize, name: &str, tables: &[&'static [Key]]) -> SpecError {
    let known: Vec<&str> =
        tables.iter().flat_map(|table| table.iter().map(|key| key.name)).collect();
    let error = source.error(at, format!("unknown key '{}'", name.escape_debug()));
    match nearest(name, known.iter().copied()) {
        Some(meant) => error.hint(format!("did you mean '{meant}'?")),
        None => error.hint(format!("the keys here are {}", known.join(", "))),
    }
}

fn setting(
    source: Source<'_>,
    key: &'static Key,
    at: usize,
    value: &DeValue<'_>,
    value_at: usize,
) -> Result<Setting, SpecError> {
    let setting = |is_list, values| Setting { key, at, is_list, values };
    match (key.kind, value) {
        (Kind::Table(tables), DeValue::Table(table)) => {
            let block = block(source, table, value_at, tables)?;
            Ok(setting(false, vec![Placed { value: Value::Block(block), at: value_at }]))
        }
        (Kind::Tables(tables), DeValue::Array(array)) => {
            Ok(setting(true, blocks(source, key, array, tables)?))
        }
        (Kind::Tables(_), _) => {
            let text = format!("'{}' is a list of tables; write [[{}]]", key.name, key.name);
            Err(source.error(value_at, text))
        }
        (Kind::Mix, DeValue::Table(table)) => {
            let value = Value::Mix(mix(source, table)?);
            Ok(setting(false, vec![Placed { value, at: value_at }]))
        }
        (kind, DeValue::Array(array)) if key.ladder || matches!(kind, Kind::Texts) => {
            Ok(setting(true, list(source, key, array, value_at)?))
        }
        (_, DeValue::Array(_)) => {
            Err(source.error(value_at, format!("'{}' takes one value, not a list", key.name)))
        }
        (_, value) => Ok(setting(false, vec![one(source, key, value, value_at)?])),
    }
}

fn blocks(
    source: Source<'_>,
    key: &Key,
    array: &DeArray<'_>,
    tables: &'static [&'static [Key]],
) -> Result<Vec<Placed<Value>>, SpecError> {
    let of = |item: &toml::Spanned<DeValue<'_>>| {
        let at = item.span().start;
        match item.get_ref() {
            DeValue::Table(table) => {
                let block = block(source, table, at, tables)?;
                Ok(Placed { value: Value::Block(block), at })
            }
            _ => Err(source.error(at, format!("expected a table of '{}'", key.name))),
        }
    };
    array.iter().map(of).collect()
}

fn list(
    source: Source<'_>,
    key: &Key,
    array: &DeArray<'_>,
    at: usize,
) -> Result<Vec<Placed<Value>>, SpecError> {
    if array.is_empty() || array.len() > LIST_MAX {
        let text = format!("'{}' needs 1 to {LIST_MAX} values, not {}", key.name, array.len());
        return Err(source.error(at, text));
    }
    array.iter().map(|item| one(source, key, item.get_ref(), item.span().start)).collect()
}

fn one(
    source: Source<'_>,
    key: &Key,
    item: &DeValue<'_>,
    at: usize,
) -> Result<Placed<Value>, SpecError> {
    let fail = |reason: String| source.error(at, format!("{}: {reason}", key.name));
    let scalar = scalar(item).map_err(&fail)?;
    value(key.kind, scalar).map(|value| Placed { value, at }).map_err(fail)
}

fn scalar<'a>(item: &'a DeValue<'_>) -> Result<Scalar<'a>, String> {
    match item {
        DeValue::String(text) => Ok(Scalar::Text(text)),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map(Scalar::Integer)
            .map_err(|_| "a number beyond all bounds".to_owned()),
        DeValue::Float(number) => {
            number.as_str().parse().map(Scalar::Float).map_err(|_| "not a number".to_owned())
        }
        DeValue::Boolean(flag) => Ok(Scalar::Flag(*flag)),
        DeValue::Datetime(_) => Err("a date has no meaning here".to_owned()),
        DeValue::Array(_) | DeValue::Table(_) => Err("expected a single value".to_owned()),
    }
}

fn mix(source: Source<'_>, table: &DeTable<'_>) -> Result<Vec<BlockShare>, SpecError> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let share = |(name, weight): &(&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let name: &toml::Spanned<std::borrow::Cow<'_, str>> = name;
        let weight_at = weight.span().start;
        let read = scalar(weight.get_ref()).and_then(|weight| block_share(name.get_ref(), weight));
        read.map_err(|reason| source.error(weight_at, reason))
    };
    entries.iter().map(share).collect()
}
