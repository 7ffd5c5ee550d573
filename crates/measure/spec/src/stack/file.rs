//! Every key that a stack spec has beyond those of a campaign, as the fields of structs; and a
//! `[[stack]]` to a [`DeclaredStack`].
//!
//! The reader, the JSON schema and the reference in docs/formats/stack-spec.md come from these
//! fields and their doc comments ([`crate::table`]); of layers, from what their kinds declare
//! ([`SPEC_LAYERS`]). `durio_layers` knows the kinds and whether such a stack can be built.

use durio_base::Bytes;
use durio_layers::{
    DeclaredKind, DeclaredLayer, DeclaredStack, SPEC_LAYERS, SpecForm, SpecKey, SpecLayer,
    SpecValue, SpecValues, tool_words_reference,
};
use durio_plan::{FileLayout, SeveralDevices};
use serde_json::{Value as Json, json};
use toml::de::DeValue;

use crate::SpecError;
use crate::campaign::file::{CampaignSteps, FileHead, Files, shared_keys};
use crate::table::value::{Amount, Delay, KeyedValue, Name, SpecTime, none_of, words};
use crate::table::{
    Faults, OptionalValue, PlacedValue, ReferenceKey, SpecTable, SpecText, TableEntries, TableItem,
    Texts, ValueForm, reference, table,
};

table! {
    /// The whole file.
    pub(crate) struct StackFile [head: FileHead, steps: CampaignSteps, first: First] {
        /// What of each point is read and written.
        target: Option<PlacedValue<StackTargetTable>>,
        /// Published results, for comparison.
        published: Vec<PlacedValue<PublishedEntry>>,
    }
}

table! {
    /// The part read first; it is removed before the rest is read.
    pub(crate) struct First {
        /// Axes: lists of texts, whole numbers or flags, which replace "{AXIS}" in stacks.
        matrix: OptionalValue<MatrixAxes>,
        /// A stack, or one for each of the axes' values that it names. At least one.
        stack: Vec<PlacedValue<StackTable>>,
    }
}

table! {
    /// `[[stack]]`.
    pub(crate) struct StackTable {
        /// Short name; values of axes that it does not name are appended.
        name: PlacedValue<Name>,
        /// The layers from the bottom, a source such as { ram = { size = "1GiB" } } first. At least
        /// one.
        layers: Vec<PlacedValue<LayerTable>>,
    }
}

table! {
    /// What every layer may have.
    pub(crate) struct Common {
        /// Divide the devices below into this many equal groups, in order; each becomes one device.
        /// Default: 1.
        groups: OptionalValue<u32>,
        /// false: build it, but run no workload on it. Default: true.
        measured: OptionalValue<bool>,
    }
}

table! {
    /// `[target]`.
    pub(crate) struct StackTargetTable {
        /// Bytes of the file on a filesystem, or a share of its free space. Default: 1 GiB, at most
        /// a tenth of the free space.
        size: OptionalValue<Amount>,
        /// Bytes accessed on each device, from its start, at most all of it. Default: size if that
        /// is in bytes, else 100%.
        region: OptionalValue<Amount>,
        /// Where a layer has several devices: only the first is measured, or all side by side.
        /// Default: one.
        raw: OptionalValue<SeveralDevices>,
        /// How a file is laid out before. Default: incompressible.
        layout: OptionalValue<FileLayout>,
        /// One file that all jobs share, or one for each. Default: shared.
        files: OptionalValue<Files>,
    }
}

table! {
    /// `[[published]]`.
    pub(crate) struct PublishedEntry "the published results" {
        /// Name of a stack, with the values of its axes.
        stack: PlacedValue<String>,
        /// Which of its layers, by its word: md, xfs. Default: the uppermost.
        layer: OptionalValue<String>,
        /// Name of a step; if it is several workloads, that of one, as a report has it: write,
        /// o_dsync.
        workload: PlacedValue<String>,
        /// Which point of its ladder, where jobs are one of its axes.
        jobs: OptionalValue<u32>,
        /// Its rate as a share of the raw device's: 0.0274. Required.
        share_of_raw: OptionalValue<f64>,
        /// Its rate, in accesses per second.
        rate: OptionalValue<f64>,
        /// Where it was published. Default: the source of the file.
        source: OptionalValue<String>,
    }
}

words! {
    SeveralDevices { "one" => One, "all" => All }
}

/// A table whose keys are names of axes, with lists of values; read before the rest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MatrixAxes;

impl KeyedValue for MatrixAxes {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        // [matrix] is taken out before the rest is read, so whatever comes here is something else.
        Err(item.fail("expected a table"))
    }

    fn form() -> ValueForm {
        let axis = json!({ "type": "array", "minItems": 1 });
        let schema = json!({ "type": "object", "additionalProperties": axis });
        ValueForm::new("`chunk = [\"4KiB\", \"64KiB\"]`", schema)
    }
}

/// The JSON schema (draft 2020-12) of stack specs, for editors that check TOML by one.
pub fn stack_spec_json_schema() -> String {
    let keys = StackFile::all_keys();
    let mut schema = reference::file("durio stack spec", &keys, &shared_keys());
    with_axes(&mut schema["properties"]["stack"]["items"]);
    format!("{schema:#}\n")
}

/// Where an axis may stand: `"{AXIS}"` instead of any value, and in the key of a layer.
fn with_axes(schema: &mut Json) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(properties) = fields.get_mut("properties").and_then(Json::as_object_mut) {
        properties.values_mut().for_each(with_axes);
        fields.insert("patternProperties".to_owned(), json!({ "[{]": { "type": "object" } }));
    } else if let Some(items) = fields.get_mut("items").filter(|items| items["type"] == "object") {
        with_axes(items);
    } else if fields.get("anyOf").is_none() {
        let description = fields.remove("description");
        let own = Json::Object(std::mem::take(fields));
        fields.insert("anyOf".to_owned(), json!([own, { "type": "string", "pattern": "[{]" }]));
        fields.extend(description.map(|text| ("description".to_owned(), text)));
    }
}

/// Tables of all keys that are not those of campaigns, and of the words that programs are given, as
/// Markdown.
pub fn stack_spec_reference() -> String {
    let words = tool_words_reference();
    format!("{}\n### Words for mkfs, mount and ZFS\n{words}", reference::tables(&sections()))
}

/// Every table with the heading under which it is described.
fn sections() -> Vec<(String, Vec<ReferenceKey>)> {
    let before = [
        ("The file", [FileHead::keys(), StackFile::keys(), CampaignSteps::keys()].concat()),
        ("The file: what is made", First::keys()),
        ("[[stack]]", StackTable::keys()),
        ("A layer", LayerTable::keys()),
        ("Every layer", Common::keys()),
    ];
    let after = [("[target]", StackTargetTable::keys()), ("[[published]]", PublishedEntry::keys())];
    let own = |(heading, keys): (&str, _)| (heading.to_owned(), keys);
    let layers = layer_sections().into_iter();
    before.map(own).into_iter().chain(layers).chain(after.map(own)).collect()
}

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
        let text = format!("the name '{name}' is longer than {NAME_MAX} characters");
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
            ValueForm::new("table", reference::object(&keys))
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
            DeValue::Array(list) => {
                list.get(fault.index).map_or(item.at(), |text| text.span().start)
            }
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
                return Err(item.fail(format!(
                    "{other} is not a known {}: {}",
                    item.key,
                    either(known)
                )));
            }
        },
        SpecForm::Words(known) => text(&|text| one_of(text, known))?,
        SpecForm::WordsOrPath(words, prefix) => {
            let path = format!("{prefix}/FILE");
            text(&|text| match text.strip_prefix(prefix) {
                Some(file) if file.starts_with('/') => Ok(()),
                Some(_) => Err(format!("'{text}' does not name a file; write it as {path}")),
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
fn layer_sections() -> Vec<(String, Vec<ReferenceKey>)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::check_reference;

    #[test]
    fn the_reference_and_the_schema_are_what_the_code_says() {
        let (schema, words) = (stack_spec_json_schema(), stack_spec_reference());
        check_reference("stack-spec", &schema, &words, &sections());
    }
}
