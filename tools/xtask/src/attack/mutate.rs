//! Seeded mutations of a text: by bytes, by lines, by nodes of a document.
//!
//! Takes a good text and others; returns a text that is usually bad. `inputs` puts other objects in
//! the place of regular files.

use serde_json::{Map, Value, json};

use super::random::Random;

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    /// One JSON document.
    Json,
    /// A JSON document on each line.
    JsonLines,
    /// Lines `key = value` below `[headers]`: TOML, job files, configuration files.
    Settings,
    /// Cells between commas.
    Cells,
    /// Unknown.
    Bytes,
}

/// One to four mutations on top of each other.
pub(super) fn mutate(
    text: &[u8],
    form: TextForm,
    others: &[Vec<u8>],
    random: &mut Random,
) -> Vec<u8> {
    let mut mutated = text.to_vec();
    for _ in 0..=random.below(4) {
        mutated = match random.below(5) {
            0 | 1 => mutate_bytes(&mutated, others, random),
            _ => by_form(&mutated, form, others, random),
        };
    }
    mutated
}

fn by_form(text: &[u8], form: TextForm, others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    match form {
        TextForm::Bytes => mutate_bytes(text, others, random),
        TextForm::Json => mutate_json(text, random),
        TextForm::JsonLines => mutate_line(text, random),
        TextForm::Settings => mutate_settings(text, random),
        TextForm::Cells => mutate_cells(text, random),
    }
}

/// Texts that readers have stumbled over: numbers at the limits of types, truncated words, and
/// anything that a terminal, a page, a table or a shell would obey.
pub(super) const TOKENS: [&str; 64] = [
    "",
    "0",
    "-0",
    "-1",
    "1",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    // 2^53 + 1, the first whole number that a float of 64 bits cannot hold.
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "1e308",
    // Beyond the largest float of 64 bits, 1.8e308; further down one below the smallest.
    "1e309",
    "-1e309",
    "1e-400",
    "0.1",
    "NaN",
    "inf",
    "-inf",
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "[[",
    "{{",
    "0x10",
    "0b1",
    "1_000",
    "1k",
    "1KiB",
    // 2^64 bytes, one more than 64 bits can count.
    "16EiB",
    "17EiB",
    "99999999999999999999h",
    "1ns",
    "0s",
    "-1s",
    "100%",
    "101%",
    "-1%",
    "50/51",
    "..",
    "../../../../etc/passwd",
    "/",
    "/dev/null",
    "/dev/zero",
    "/proc/self/mem",
    "${HOME}",
    "$(reboot)",
    "%s%n%d",
    "\u{1b}[2J\u{1b}]0;x\u{7}",
    "\u{202e}txt",
    "\u{9b}31m",
    "\u{feff}",
    "<script>alert(1)</script>",
    "=cmd|'/c calc'!A0",
    "a\"b'c\\d",
    "name#1;x ",
];

/// One of the tokens.
pub(super) fn token(random: &mut Random) -> &'static str {
    random.pick(&TOKENS)
}

/// Length of nested or long text.
// A parser that recurses without a bound overflows its stack.
const DEEP: usize = 20_000;
/// A line this long is rare, because it burdens the reader and the disk.
const LONG_LINE_BYTES: usize = 100 << 20;
const LONG_LINE_ONCE_IN: usize = 4000;
const OPENERS: [&[u8]; 6] = [b"[", b"{\"a\":", b"[{\"a\":[", b"(", b"a.", b"[["];

fn mutate_bytes(text: &[u8], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    if random.once_in(LONG_LINE_ONCE_IN) {
        return long_line(text, random);
    }
    let (from, to) = range(text, random);
    match random.below(12) {
        0 | 1 => flipped(text, random),
        2 => text[..from].to_vec(),
        3 => [&text[..from], &text[to..]].concat(),
        4 => [&text[..to], &text[from..]].concat(),
        5 | 6 => [&text[..from], token(random).as_bytes(), &text[from..]].concat(),
        7 | 8 => other_number(text, random),
        9 => spliced(text, others, random),
        10 => [&text[..from], &random.pick(&OPENERS).repeat(random.below(DEEP)), &text[from..]]
            .concat(),
        _ => [&text[..from], &vec![byte(random); random.below(1 << 16)], &text[from..]].concat(),
    }
}

fn byte(random: &mut Random) -> u8 {
    u8::try_from(random.below(256)).unwrap_or(0)
}

/// A place, and one not far behind it.
fn range(text: &[u8], random: &mut Random) -> (usize, usize) {
    let from = random.below(text.len() + 1);
    (from, (from + random.below(200)).min(text.len()))
}

fn flipped(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut flipped = text.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(text.len());
        if let Some(it) = flipped.get_mut(at) {
            *it = if random.once_in(2) { byte(random) } else { *it ^ (1 << random.below(8)) };
        }
    }
    flipped
}

/// Another number in the place of one.
fn other_number(text: &[u8], random: &mut Random) -> Vec<u8> {
    let start = random.below(text.len() + 1);
    let digit = |at: &usize| text[*at].is_ascii_digit();
    let Some(from) = (start..text.len()).chain(0..start).find(digit) else { return text.to_vec() };
    let to = (from..text.len()).find(|at| !digit(at)).unwrap_or(text.len());
    let number = match random.below(3) {
        0 => token(random).to_owned(),
        1 => random.number().to_string(),
        _ => "9".repeat(random.below(400)),
    };
    [&text[..from], number.as_bytes(), &text[to..]].concat()
}

fn spliced(text: &[u8], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    if others.is_empty() {
        return text.to_vec();
    }
    let other = random.pick(others);
    let (at, from) = (random.below(text.len() + 1), random.below(other.len() + 1));
    [&text[..at], &other[from..]].concat()
}

fn long_line(text: &[u8], random: &mut Random) -> Vec<u8> {
    let at = random.below(text.len() + 1);
    [&text[..at], &vec![b'7'; LONG_LINE_BYTES], &text[at..]].concat()
}

/// Mutates one node; returns a text that is not a document as it is.
fn mutate_json(text: &[u8], random: &mut Random) -> Vec<u8> {
    let Ok(mut document) = serde_json::from_slice::<Value>(text) else { return text.to_vec() };
    let at = random.below(count(&document));
    if let Some(node) = nth(&mut document, &mut { at }) {
        change(node, random);
    }
    serde_json::to_vec(&document).unwrap_or_default()
}

/// Mutates a line of a text of documents: one node of it, or the line as a whole.
fn mutate_line(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let (at, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(8) {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, to),
        2 => lines.insert(to, lines[at].clone()),
        _ => lines[at] = mutate_json(&lines[at], random),
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

/// Values in TOML's form; the tokens alone are usually not valid TOML.
const VALUES: [&str; 28] = [
    "0",
    "1",
    "-1",
    "2",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5",
    "nan",
    "inf",
    "true",
    "\"\"",
    "\"0\"",
    "\"1\"",
    "\"4KiB\"",
    "\"16EiB\"",
    "\"0B\"",
    "\"100%\"",
    "\"1ns\"",
    "\"1h\"",
    "[]",
    "{}",
    "[1, \"2\", [3]]",
    "[\"4KiB\", \"8KiB\"]",
    "[0, 1, 1000000]",
    "1979-05-27T07:32:00Z",
    "\"\\u001B[2J\"",
    "\"\\u202E\"",
    "\"{x}\"",
];

/// Mutates lines `key = value`.
fn mutate_settings(text: &[u8], random: &mut Random) -> Vec<u8> {
    mutate_lines(text, random, |line, random| {
        let Some((key, value)) = line.split_once('=') else {
            return format!("{}{line}", token(random));
        };
        match random.below(6) {
            0 => format!("{key}={}", token(random)),
            1 => format!("{key}= \"{}\"", token(random)),
            2 => format!("{}={value}", token(random)),
            3 => format!("{key}={value}{}", token(random)),
            _ => format!("{key}= {}", random.pick(&VALUES)),
        }
    })
}

/// Mutates cells between commas.
fn mutate_cells(text: &[u8], random: &mut Random) -> Vec<u8> {
    mutate_lines(text, random, |line, random| {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        let at = random.below(cells.len());
        match random.below(5) {
            0 => cells.insert(at, token(random).to_owned()),
            1 => drop(cells.remove(at)),
            2 => cells[at] = format!("\"{}", cells[at]),
            _ => token(random).clone_into(&mut cells[at]),
        }
        cells.join(",")
    })
}

/// Drops, moves, doubles or changes a line.
fn mutate_lines(
    text: &[u8],
    random: &mut Random,
    change: impl Fn(&str, &mut Random) -> String,
) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let (at, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(9) {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, to),
        2 => lines.insert(to, lines[at].clone()),
        _ => lines[at] = change(&lines[at], random),
    }
    lines.join("\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &[u8] = b"schema = 1\nname = \"x\"\n[target]\nsize = \"4MiB\"\n";

    #[test]
    fn the_same_choices_make_the_same_text_and_most_texts_are_other() {
        let of =
            |case| mutate(SPEC, TextForm::Settings, &[], &mut Random::of_case(1, "spec", case));
        assert!((0..50).all(|case| of(case) == of(case)));
        assert!((0..50).filter(|&case| of(case) != SPEC).count() > 45);
    }

    #[test]
    fn a_document_stays_one_where_its_nodes_are_mutated() {
        let document = br#"{"a": [1, {"b": "c"}], "d": null}"#;
        for case in 0..200 {
            let mut random = Random::of_case(1, "json", case);
            let text = mutate_json(document, &mut random);
            assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn no_text_is_too_short_to_be_mutated() {
        let forms = [
            TextForm::Json,
            TextForm::JsonLines,
            TextForm::Settings,
            TextForm::Cells,
            TextForm::Bytes,
        ];
        for form in forms {
            for case in 0..300 {
                mutate(b"", form, &[], &mut Random::of_case(1, "empty", case));
            }
        }
    }
}
