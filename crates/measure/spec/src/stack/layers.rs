//! A `[[stack]]` to a [`DeclaredStack`].
//!
//! Reads TOML with positions by the keys that the kinds of layers declare ([`SPEC_LAYERS`]);
//! returns the stack or the fault and its place, and the schema and reference of those keys.
//! `durio_layers` knows the kinds and whether such a stack can be built.

use durio_base::Bytes;
use durio_layers::{
    DeclaredKind, DeclaredLayer, DeclaredStack, SPEC_LAYERS, SpecForm, SpecKey, SpecLayer,
    SpecValue, SpecValues,
};
use serde_json::json;
use toml::de::DeValue;

use super::file::{Common, StackTable};
use crate::SpecError;
use crate::table::reference::object;
use crate::table::value::{Delay, KeyedValue, SpecTime, Texts, none_of};
use crate::table::{Faults, ReferenceKey, SpecTable, SpecText, TableEntries, TableItem, ValueForm};

const NAME_MAX: usize = 60;

const HINT: &str = "write { md = { level = 1 } }, { xfs = {} }";

/// A stack, and the one that is to be had of it with less redundancy.
#[derive(Debug)]
pub(crate) struct ReadStack {
    pub(crate) stack: DeclaredStack,
    /// Byte of its begin in the text.
    pub(crate) at: usize,
    pub(crate) degraded: Option<DeclaredStack>,
}

/// Reads a stack; `suffix` are the values of axes that its name lacks.
pub(crate) fn stack(
    source: SpecText<'_>,
    table: StackTable,
    at: usize,
    suffix: &[String],
) -> Result<ReadStack, SpecError> {
    let first = table.name.value.0;
    let name = suffix.iter().fold(first, |name, value| format!("{name}-{value}"));
    // Values of axes may be any text; the name of a stack becomes a part of folders' names.
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    if name.len() > NAME_MAX {
        let text = format!("the name '{name}' is longer than {NAME_MAX} letters");
        return Err(source.error(at, text).hint("use {AXIS} in a shorter name"));
    }
    if table.layers.is_empty() {
        let error = source.error(at, format!("stack '{name}' has no layers"));
        return Err(error.hint("add layers = [{ ram = { size = \"1GiB\" } }]"));
    }
    let layers = table.layers.into_iter().map(|table| table.value.0).collect();
    let mut stack = DeclaredStack { name, layers };
    let degraded: Vec<Option<DeclaredKind>> =
        stack.layers.iter_mut().map(|layer| layer.kind.take_degraded()).collect();
    let degraded = degraded.iter().any(Option::is_some).then(|| {
        let mut further = stack.clone();
        further.name.push_str("-degraded");
        for (layer, kind) in further.layers.iter_mut().zip(degraded) {
            layer.kind = kind.unwrap_or_else(|| layer.kind.clone());
        }
        further
    });
    Ok(ReadStack { stack, at, degraded })
}

const fn fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// One layer: a table with one key, whose name says which kind it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerTable(DeclaredLayer);

impl SpecTable for LayerTable {
    const NOUN: &'static str = "a layer";

    fn read(entries: &TableEntries<'_>, faults: &mut Faults) -> Option<Self> {
        let found = SPEC_LAYERS.iter().find_map(|kind| Some((kind, entries.item(kind.word)?)));
        let read = found.map(|(kind, item)| {
            layer(kind, item).map_err(|error| faults.add(item.at(), error)).ok()
        });
        // The fault of an unreadable layer is reported before that of a second one in the same
        // table.
        match read {
            Some(None) => None,
            read => entries.only_one(HINT, faults).then_some(read??).map(Self),
        }
    }

    fn keys() -> Vec<ReferenceKey> {
        let form = |kind: &SpecLayer| {
            let keys = (kind.keys)().iter().map(key).chain(Common::keys()).collect::<Vec<_>>();
            ValueForm::new("table", object(&keys))
        };
        SPEC_LAYERS.iter().map(|kind| ReferenceKey::new(kind.word, kind.help, form(kind))).collect()
    }

    fn all_keys() -> Vec<ReferenceKey> {
        Self::keys()
    }

    fn names() -> Vec<&'static str> {
        SPEC_LAYERS.iter().map(|kind| kind.word).collect()
    }
}

fn layer(kind: &SpecLayer, item: TableItem<'_>) -> Result<DeclaredLayer, SpecError> {
    let DeValue::Table(table) = item.value.get_ref() else {
        return Err(item.fail("expected a table"));
    };
    let keys = (kind.keys)();
    let names: Vec<_> = keys.iter().map(|key| key.name).chain(Common::names()).collect();
    let mut faults = Faults::default();
    let entries =
        TableEntries { source: item.source, at: item.at(), noun: "the layer".into(), table };
    entries.refuse_unknown(&names, &mut faults);
    let common = Common::read(&entries, &mut faults);
    let mut values = SpecValues::new();
    for (key, item) in keys.iter().filter_map(|key| Some((key, entries.item(key.name)?))) {
        match value(key.form, item) {
            Ok(value) => drop(values.insert(key.name, value)),
            Err(error) => faults.add(item.at(), error),
        }
    }
    // The kind comes last: it checks values that all have their form.
    let common = faults.or(common, &entries)?;
    let kind = (kind.read)(&values).map_err(|fault| {
        let at = entries.item(fault.key).map_or(item.at(), |item| match item.value.get_ref() {
            DeValue::Array(list) => list.get(fault.index).map_or(item.at(), |it| it.span().start),
            _ => item.at(),
        });
        let error = item.source.error(at, fault.what);
        fault.hint.into_iter().fold(error, SpecError::hint)
    })?;
    let (groups, measured) = (common.groups.get(), common.measured.get());
    Ok(DeclaredLayer { kind, groups: groups.unwrap_or(1), measured: measured.unwrap_or(true) })
}

/// The value of a key of this form.
fn value(form: SpecForm, item: TableItem<'_>) -> Result<SpecValue, SpecError> {
    let text = |parse: &dyn Fn(&str) -> Result<(), String>| {
        item.text(|text| parse(text).map(|()| SpecValue::Texts(vec![text.to_owned()])))
    };
    Ok(match form {
        SpecForm::Flag => SpecValue::Flag(KeyedValue::read(item)?),
        SpecForm::Count => SpecValue::Count(KeyedValue::read(item)?),
        SpecForm::Bytes => SpecValue::Bytes(KeyedValue::read(item)?),
        SpecForm::Time => {
            let SpecTime(span) = Delay::read(item)?;
            SpecValue::Time(span)
        }
        SpecForm::Text => text(&|_| Ok(()))?,
        SpecForm::Texts => SpecValue::Texts(Texts::read(item)?.to_vec()),
        SpecForm::Numbers(known) => match u32::read(item)? {
            number if known.contains(&number) => SpecValue::Count(number),
            other => {
                return Err(item.fail(format!("{other} is no {}: {}", item.key, either(known))));
            }
        },
        SpecForm::Words(known) => text(&|text| one_of(text, known))?,
        SpecForm::WordsOrPath(words, prefix) => {
            let path = format!("{prefix}/FILE");
            text(&|text| match text.strip_prefix(prefix) {
                Some(file) if file.starts_with('/') => Ok(()),
                Some(_) => Err(format!("'{text}' names no file; write it as {path}")),
                None => one_of(text, &[words, &[path.as_str()]].concat()),
            })?
        }
    })
}

fn one_of(text: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&text) { Ok(()) } else { Err(none_of(text, known)) }
}

/// `0, 1 or 10`.
fn either(numbers: &[u32]) -> String {
    let texts = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    texts.rsplit_once(", ").map_or(texts.clone(), |(first, last)| format!("{first} or {last}"))
}

/// The key as schema and reference have it.
fn key(key: &SpecKey) -> ReferenceKey {
    let form = match key.form {
        SpecForm::Flag => bool::form(),
        SpecForm::Count => u32::form(),
        SpecForm::Bytes => Bytes::form(),
        SpecForm::Time => Delay::form(),
        SpecForm::Text => String::form(),
        SpecForm::Texts => Texts::form(),
        SpecForm::Numbers(known) => {
            let shown: Vec<String> = known.iter().map(u32::to_string).collect();
            ValueForm::new(shown.join(", "), json!({ "enum": known }))
        }
        SpecForm::Words(words) => ValueForm::new(words.join(", "), json!({ "enum": words })),
        SpecForm::WordsOrPath(words, prefix) => {
            let shown = format!("{}, `\"{prefix}/FILE\"`", words.join(", "));
            ValueForm::pattern(shown, &format!("^({}|{prefix}/.+)$", words.join("|")))
        }
    };
    ReferenceKey { is_required: key.is_required, ..ReferenceKey::new(key.name, key.help, form) }
}

/// The keys of all kinds, those together that the same kinds have, with these for a heading.
pub(crate) fn sections() -> Vec<(String, Vec<ReferenceKey>)> {
    let mut sections: Vec<(Vec<&str>, Vec<SpecKey>)> = Vec::new();
    let with_keys = SPEC_LAYERS.iter().map(|kind| (kind.word, (kind.keys)()));
    let all: Vec<(&str, Vec<SpecKey>)> = with_keys.collect();
    for key in all.iter().flat_map(|(_, keys)| keys) {
        let kinds = all.iter().filter(|(_, keys)| keys.contains(key)).map(|(word, _)| *word);
        let kinds: Vec<&str> = kinds.collect();
        match sections.iter_mut().find(|(known, _)| *known == kinds) {
            Some((_, keys)) if keys.contains(key) => (),
            Some((_, keys)) => keys.push(*key),
            None => sections.push((kinds, vec![*key])),
        }
    }
    let heading = |kinds: &[&str]| match kinds {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        kinds => kinds.concat(),
    };
    sections.iter().map(|(kinds, keys)| (heading(kinds), keys.iter().map(key).collect())).collect()
}
