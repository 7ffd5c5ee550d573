//! Every key that a stack spec has beyond those of a campaign and of layers, as the fields of structs.
//!
//! The reader, the JSON schema and the reference in docs/formats/stack-spec.md come from these
//! fields and their doc comments ([`crate::table`]); of layers, from what their kinds declare
//! ([`super::layers`]).

use durio_layers::tool_words_reference;
use durio_plan::{FileLayout, SeveralDevices};
use serde_json::{Value as Json, json};

use super::layers::{self, LayerTable};
use crate::SpecError;
use crate::campaign::file::{CampaignSteps, FileHead, Files, shared_keys};
use crate::table::value::{Amount, KeyedValue, Name, words};
use crate::table::{
    OptionalValue, PlacedValue, ReferenceKey, SpecTable, TableItem, ValueForm, reference, table,
};

table! {
    /// The whole file.
    pub(crate) struct StackFile [head: FileHead, steps: CampaignSteps, first: First] {
        /// What of each point is read and written.
        target: Option<PlacedValue<StackTargetTable>>,
        /// What somebody found, to be set beside it.
        published: Vec<PlacedValue<PublishedEntry>>,
    }
}

table! {
    /// The part read first; it is removed before the rest is read.
    pub(crate) struct First {
        /// Axes: lists of texts, whole numbers or flags, for which "{AXIS}" stands in stacks.
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
        /// Divide the devices below into so many equal groups, in order; each becomes one device.
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
        /// What is touched of each device, from its begin, at most all of it. Default: size if that
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
    pub(crate) struct PublishedEntry "what was published" {
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
        /// Where it stands. Default: the source of the file.
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
#[must_use]
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
#[must_use]
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
    let layers = layers::sections().into_iter();
    before.map(own).into_iter().chain(layers).chain(after.map(own)).collect()
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
