//! The format of stack specs for programs and readers: a JSON schema, and tables of keys.

use durio_stack::build::tool_words_reference;
use serde_json::{Map, Value, json};

use super::STACK_SPEC_SCHEMA;
use super::keys::{FIRST, REST, SECTIONS};
use crate::campaign::reference::{object, property, shared, tables};

/// The JSON schema (draft 2020-12) of stack specs, for editors that check TOML by one.
#[must_use]
pub fn stack_spec_json_schema() -> String {
    let mut schema = object(&[REST, FIRST]);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("durio stack spec");
    schema["required"] = json!(["schema", "name", "stack", "step"]);
    let help = REST.first().map_or("", |key| key.help);
    schema["properties"]["schema"] = json!({ "const": STACK_SPEC_SCHEMA, "description": help });
    let shared: Map<String, Value> =
        shared().map(|key| (key.name.to_owned(), property(key))).collect();
    schema["$defs"] = Value::Object(shared);
    with_axes(&mut schema["properties"]["stack"]["items"]);
    format!("{schema:#}\n")
}

/// Where an axis may stand: `"{AXIS}"` instead of any value, and in the key of a layer.
fn with_axes(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(with_axes);
        fields.insert("patternProperties".to_owned(), json!({ "[{]": { "type": "object" } }));
    } else if let Some(items) = fields.get_mut("items").filter(|items| items["type"] == "object") {
        with_axes(items);
    } else if fields.get("anyOf").is_none() {
        let description = fields.remove("description");
        let own = Value::Object(std::mem::take(fields));
        fields.insert("anyOf".to_owned(), json!([own, { "type": "string", "pattern": "[{]" }]));
        fields.extend(description.map(|text| ("description".to_owned(), text)));
    }
}

/// Tables of all keys that are not those of campaigns, and of the words that programs are given, as
/// Markdown.
#[must_use]
pub fn stack_spec_reference() -> String {
    let words = tool_words_reference();
    format!("{}\n### Words for mkfs, mount and ZFS\n{words}", tables(SECTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::reference::compare;

    #[test]
    fn the_schema_file_is_what_the_code_says() {
        compare("stack-spec.schema.json", |_| stack_spec_json_schema());
    }

    #[test]
    fn the_reference_names_every_key_with_its_meaning() {
        compare("stack-spec.md", |now| {
            let (before, _) = now.split_once("\n## Every key\n").unwrap();
            format!("{before}\n## Every key\n{}", stack_spec_reference())
        });
    }

    #[test]
    fn every_key_is_explained_in_a_sentence() {
        for key in SECTIONS.iter().flat_map(|(_, keys)| *keys) {
            assert!(key.help.ends_with('.') && key.help.len() > 10, "{}", key.name);
        }
    }
}
