//! Mutations of a JSON document: a node is replaced, dropped, doubled, renamed or nested.

use serde_json::{Map, Value, json};

use super::token;
use crate::attack::random::Random;

/// Mutates one node; returns a text that is not a document as it is.
pub(super) fn mutate(text: &[u8], random: &mut Random) -> Vec<u8> {
    let Ok(mut document) = serde_json::from_slice::<Value>(text) else { return text.to_vec() };
    let at = random.below(count(&document));
    if let Some(node) = nth(&mut document, &mut { at }) {
        change(node, random);
    }
    serde_json::to_vec(&document).unwrap_or_default()
}

/// Mutates a line of a text of documents: one node of it, or the line as a whole.
pub(super) fn mutate_line(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.split(|&it| it == b'\n').map(<[u8]>::to_vec).collect();
    let (at, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(8) {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, to),
        2 => lines.insert(to, lines[at].clone()),
        _ => lines[at] = mutate(&lines[at], random),
    }
    lines.join(&b'\n')
}

fn count(node: &Value) -> usize {
    let below: usize = match node {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    };
    below + 1
}

/// The node after `left` others, from the top.
fn nth<'a>(node: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(node);
    }
    *left -= 1;
    match node {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, left)),
        _ => None,
    }
}

fn change(node: &mut Value, random: &mut Random) {
    match random.below(4) {
        0 => *node = other(random),
        1 => *node = like(node, random),
        _ => match node {
            Value::Array(items) => change_items(items, random),
            Value::Object(fields) => change_fields(fields, random),
            _ => *node = like(node, random),
        },
    }
}

/// A value of another type, or of any.
fn other(random: &mut Random) -> Value {
    match random.below(9) {
        0 => Value::Null,
        1 => json!(random.once_in(2)),
        2 => json!(random.number()),
        3 => json!(-1.5e300),
        4 => json!([]),
        5 => json!({}),
        // serde_json gives up at a depth of 128: less depth reaches the readers behind it.
        6 => (0..100).fold(json!(1), |inner, _| json!([inner])),
        7 => json!("x".repeat(random.below(100_000))),
        _ => json!(token(random)),
    }
}

/// A value of the same type.
fn like(node: &Value, random: &mut Random) -> Value {
    const NUMBERS: [i64; 8] = [0, 1, -1, 2, i64::MAX, i64::MIN, 1 << 32, 1 << 53];
    match node {
        Value::Number(_) if random.once_in(3) => json!(random.number()),
        Value::Number(_) if random.once_in(3) => json!(u64::MAX - random.below(3) as u64),
        Value::Number(_) => json!(random.pick(&NUMBERS)),
        Value::String(text) if random.once_in(2) => json!(format!("{text}{}", token(random))),
        Value::String(_) => json!(token(random)),
        Value::Bool(it) => json!(!it),
        _ => other(random),
    }
}

fn change_items(items: &mut Vec<Value>, random: &mut Random) {
    let (at, to) = (random.below(items.len()), random.below(items.len()));
    match random.below(5) {
        _ if items.is_empty() => items.push(other(random)),
        0 => drop(items.remove(at)),
        1 => items.swap(at, to),
        2 => items.truncate(at),
        3 => items.extend(std::iter::repeat_n(items[at].clone(), random.below(2000))),
        _ => items.insert(to, items[at].clone()),
    }
}

fn change_fields(fields: &mut Map<String, Value>, random: &mut Random) {
    let at = random.below(fields.len());
    let Some(name) = fields.keys().nth(at).cloned() else { return };
    match random.below(4) {
        0 => drop(fields.remove(&name)),
        1 => {
            let value = fields.remove(&name).unwrap_or_default();
            fields.insert(token(random).to_owned(), value);
        }
        2 => drop(fields.insert(format!("{name}x"), other(random))),
        _ => drop(fields.insert(name, other(random))),
    }
}
