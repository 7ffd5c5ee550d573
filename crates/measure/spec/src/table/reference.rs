//! Descriptions of tables: a JSON schema for programs, and Markdown tables of keys for readers.

use std::fmt::{Display, Write};

use serde_json::{Map, Value as Json, json};

/// How the value of a key is written.
#[derive(Debug, Clone)]
pub(crate) struct ValueForm {
    /// As the tables of docs/formats show it.
    pub(crate) shown: String,
    pub(crate) schema: Json,
}

impl ValueForm {
    pub(crate) fn new(shown: impl Into<String>, schema: Json) -> Self {
        Self { shown: shown.into(), schema }
    }

    /// A text of this pattern.
    pub(crate) fn pattern(shown: impl Into<String>, pattern: &str) -> Self {
        Self::new(shown, json!({ "type": "string", "pattern": pattern }))
    }

    /// Or a list of such values.
    pub(crate) fn or_list(self) -> Self {
        let Self { shown, schema: one } = self;
        let schema = json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] });
        Self { shown, schema }
    }
}

/// A key as the reference has it.
#[derive(Debug, Clone)]
pub(crate) struct ReferenceKey {
    pub(crate) name: &'static str,
    pub(crate) help: String,
    pub(crate) form: ValueForm,
    /// A list of values makes an axis.
    pub(crate) is_axis: bool,
    pub(crate) is_required: bool,
}

impl ReferenceKey {
    pub(crate) fn new(name: &'static str, help: &'static str, form: ValueForm) -> Self {
        Self { name, help: help.trim().to_owned(), form, is_axis: false, is_required: false }
    }

    fn help(&self) -> String {
        format!("{}{}", self.help, if self.is_required { " Required." } else { "" })
    }

    /// A list of which there is at least one is checked where its lack can be explained.
    fn must_be_there(&self) -> bool {
        self.is_required || self.help.ends_with("At least one.")
    }

    fn schema(&self) -> Json {
        let mut schema = self.form.schema.clone();
        schema["description"] = json!(self.help());
        schema
    }
}

/// The schema of a table with these keys.
pub(crate) fn object(keys: &[ReferenceKey]) -> Json {
    let properties = keys.iter().map(|key| (key.name.to_owned(), key.schema()));
    let mut object = json!({
        "type": "object",
        "properties": properties.collect::<Map<_, _>>(),
        "additionalProperties": false,
    });
    let required: Vec<&str> =
        keys.iter().filter(|key| key.must_be_there()).map(|key| key.name).collect();
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// The schema of a whole file (JSON Schema, draft 2020-12). What `shared` says stands in it once.
pub(crate) fn file(title: &str, keys: &[ReferenceKey], shared: &[ReferenceKey]) -> Json {
    let mut schema = object(keys);
    // Settings stand in defaults, steps, preconditions, points and `beside` loads: one definition
    // serves all.
    let definitions: Map<String, Json> =
        shared.iter().map(|key| (key.name.to_owned(), key.schema())).collect();
    refer(&mut schema, &definitions);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    schema["$defs"] = Json::Object(definitions);
    schema
}

/// Puts references where a property is one of `definitions`.
fn refer(schema: &mut Json, definitions: &Map<String, Json>) {
    let Some(fields) = schema.as_object_mut() else { return };
    let properties = fields.get_mut("properties").and_then(Json::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if definitions.get(name) == Some(property) {
            *property = json!({ "$ref": format!("#/$defs/{name}") });
        }
        refer(property, definitions);
    }
    if let Some(items) = fields.get_mut("items") {
        refer(items, definitions);
    }
}

/// A table of keys under each heading, as Markdown.
pub(crate) fn tables<H: Display>(sections: &[(H, Vec<ReferenceKey>)]) -> String {
    let mut text = String::new();
    for (heading, keys) in sections {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n### {heading}\n\n| key | value | list | meaning |\n|---|---|---|---|\n"
        );
        for key in keys {
            let list = if key.is_axis { "axis" } else { "" };
            let (name, shown, help) = (key.name, &key.form.shown, key.help().replace('|', "\\|"));
            let _ = writeln!(text, "| `{name}` | {shown} | {list} | {help} |");
        }
    }
    text
}
