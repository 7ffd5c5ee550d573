//! Seeded mutations of a text: by bytes, by lines, by nodes of a document.
//!
//! Takes a good text and others; returns a text that is usually bad. `places` has objects other
//! than regular files.

mod bytes;
mod json;
mod lines;

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
            0 | 1 => bytes::mutate(&mutated, others, random),
            _ => by_form(&mutated, form, others, random),
        };
    }
    mutated
}

fn by_form(text: &[u8], form: TextForm, others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    match form {
        TextForm::Bytes => bytes::mutate(text, others, random),
        TextForm::Json => json::mutate(text, random),
        TextForm::JsonLines => json::mutate_line(text, random),
        TextForm::Settings => lines::mutate_settings(text, random),
        TextForm::Cells => lines::mutate_cells(text, random),
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
            let text = json::mutate(document, &mut random);
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
