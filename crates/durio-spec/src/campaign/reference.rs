//! The format of specs for programs and readers: a JSON schema, and tables of keys.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::keys::{Key, Kind, LOAD, SECTIONS, STEP_COMMON, TOP};
use super::spec::SPEC_SCHEMA;

/// The JSON schema (draft 2020-12) of spec files, for editors that check TOML by one.
#[must_use]
pub fn spec_json_schema() -> String {
    let mut schema = object(&[TOP]);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("durio campaign spec");
    schema["required"] = json!(["schema", "name", "target", "step"]);
    schema["properties"]["schema"] = json!({ "const": SPEC_SCHEMA, "description": TOP[0].help });
    let shared: Map<String, Value> =
        shared().map(|key| (key.name.to_owned(), property(key))).collect();
    schema["$defs"] = Value::Object(shared);
    format!("{schema:#}\n")
}

/// Keys that stand in several tables.
pub(crate) fn shared() -> impl Iterator<Item = &'static Key> {
    LOAD.iter().chain(STEP_COMMON)
}

/// The schema of a key, or where it is.
fn reference(key: &Key) -> Value {
    match shared().any(|shared| shared.name == key.name && shared.help == key.help) {
        true => json!({ "$ref": format!("#/$defs/{}", key.name) }),
        false => property(key),
    }
}

pub(crate) fn object(tables: &[&[Key]]) -> Value {
    let keys = || tables.iter().flat_map(|table| table.iter());
    let properties: Map<String, Value> =
        keys().map(|key| (key.name.to_owned(), reference(key))).collect();
    let required: Vec<&str> =
        keys().filter(|key| key.help.ends_with("Required.")).map(|key| key.name).collect();
    let mut object = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

pub(crate) fn property(key: &Key) -> Value {
    let one = single(key.kind);
    let mut schema = match key.kind {
        Kind::Texts => json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] }),
        _ if key.ladder => {
            json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
        }
        _ => one,
    };
    schema["description"] = json!(key.help);
    schema
}

fn single(kind: Kind) -> Value {
    let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match kind {
        Kind::Text | Kind::Texts => json!({ "type": "string" }),
        Kind::Name => pattern("^[A-Za-z0-9_-]{1,60}$"),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Count => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Kind::Number => json!({ "type": "number", "minimum": 0 }),
        Kind::Bytes => pattern(BYTES),
        Kind::Time | Kind::Delay => pattern("^ *[0-9.]+ *(ns|us|µs|ms|s|m|h|d) *$"),
        Kind::Share => pattern("^ *[0-9]+([.][0-9])? *%$"),
        Kind::Amount => {
            json!({ "anyOf": [pattern(BYTES), pattern("^ *[0-9]+([.][0-9])? *%$")] })
        }
        Kind::Rate => {
            json!({ "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, pattern("^[0-9.]+[kM]?$")] })
        }
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Skew => pattern("^(uniform|(zipf|pareto|normal|zones):.+)$"),
        Kind::Region => pattern("^(shared|share-each|offset:.+)$"),
        Kind::Within => pattern("^.+[.][.].+$"),
        Kind::Placement => pattern("^(device-node|anywhere|node:[0-9]+|cpus:[0-9,-]+)$"),
        Kind::Mix => json!({
            "type": "object",
            "additionalProperties": { "type": "integer", "minimum": 0, "maximum": 1000 },
        }),
        Kind::Axes => json!({
            "type": "object",
            "additionalProperties": { "type": "array", "minItems": 1 },
        }),
        Kind::Goal => pattern("^p[0-9.]+ *<= *.+$"),
        Kind::Table(tables) => object(tables),
        Kind::Tables(tables) => json!({ "type": "array", "items": object(tables) }),
    }
}

const BYTES: &str = "^ *[0-9.]+ *([kKmMgGtT]i?)?[bB]? *$";

/// Tables of all keys, as Markdown.
#[must_use]
pub fn spec_reference() -> String {
    tables(SECTIONS)
}

/// A table of keys under each heading.
pub(crate) fn tables(sections: &[(&str, &[Key])]) -> String {
    let mut text = String::new();
    for (heading, keys) in sections {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n### {heading}\n\n| key | value | list | meaning |\n|---|---|---|---|\n"
        );
        for key in *keys {
            let list = if key.ladder { "axis" } else { "" };
            let (name, kind, help) = (key.name, shown(key.kind), key.help.replace('|', "\\|"));
            let _ = writeln!(text, "| `{name}` | {kind} | {list} | {help} |");
        }
    }
    text
}

fn shown(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Name => "name".to_owned(),
        Kind::Texts => "text, or a list of texts".to_owned(),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Count => "`16`".to_owned(),
        Kind::Number => "`1299.50`".to_owned(),
        Kind::Bytes => "`\"4KiB\"`".to_owned(),
        Kind::Time => "`\"60s\"`".to_owned(),
        Kind::Delay => "`\"500us\"`".to_owned(),
        Kind::Share => "`\"70%\"`".to_owned(),
        Kind::Amount => "`\"4GiB\"`, `\"25%\"`".to_owned(),
        Kind::Rate => "`20000`, `\"20k\"`".to_owned(),
        Kind::Choice(words) => words.join(", "),
        Kind::Skew => "`\"uniform\"`, `\"zipf:0.99\"`, `\"pareto:0.2\"`, `\"normal:10%\"`, \
             `\"zones:80%/20%,20%/80%\"` (accesses/size)"
            .to_owned(),
        Kind::Region => "`\"shared\"`, `\"share-each\"`, `\"offset:12%\"`, `\"offset:1GiB\"`, \
             `\"offset:spread\"`"
            .to_owned(),
        Kind::Within => "`\"0%..50%\"`".to_owned(),
        Kind::Placement => {
            "`\"device-node\"`, `\"anywhere\"`, `\"node:0\"`, `\"cpus:0-3,8\"`".to_owned()
        }
        Kind::Mix => "`{ \"4KiB\" = 550, \"8KiB\" = 450 }`".to_owned(),
        Kind::Axes => "`chunk = [\"4KiB\", \"64KiB\"]`".to_owned(),
        Kind::Goal => "`\"p99 <= 10ms\"`".to_owned(),
        Kind::Table(_) => "table".to_owned(),
        Kind::Tables(_) => "tables".to_owned(),
    }
}

/// Compares a file of docs/formats with what the code says; `DURIO_TEST_REWRITE=1` writes it.
#[cfg(test)]
pub(crate) fn compare(file: &str, expected: impl Fn(&str) -> String) {
    let path = format!("{}/../../docs/formats/{file}", env!("CARGO_MANIFEST_DIR"));
    let now = std::fs::read_to_string(&path).unwrap_or_default();
    let expected = expected(&now);
    if std::env::var_os("DURIO_TEST_REWRITE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(now == expected, "{path} is behind the code; DURIO_TEST_REWRITE=1 writes it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_file_is_what_the_code_says() {
        compare("spec.schema.json", |_| spec_json_schema());
    }

    #[test]
    fn the_reference_names_every_key_with_its_meaning() {
        compare("spec.md", |now| {
            let (before, _) = now.split_once("\n## Every key\n").unwrap();
            format!("{before}\n## Every key\n{}", spec_reference())
        });
    }

    #[test]
    fn every_key_is_explained_in_a_sentence() {
        for key in SECTIONS.iter().flat_map(|(_, keys)| *keys) {
            assert!(key.help.ends_with('.') && key.help.len() > 10, "{}", key.name);
        }
    }
}
