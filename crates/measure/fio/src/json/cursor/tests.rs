//! Tests of the lenient reader.

use proptest::prelude::*;

use super::*;

fn u64_of(text: &str) -> JsonResult<u64> {
    Cursor::new(format!("{text} ").as_bytes()).u64()
}

#[test]
fn counts_are_read_in_all_forms_that_occur() {
    let known = [("7", 7), ("\"7\"", 7), ("7.9", 7), ("1e3", 1000), ("-1", u64::MAX)];
    for (text, expected) in known {
        assert_eq!(u64_of(text).unwrap(), expected, "{text}");
    }
    assert_eq!(u64_of("18446744073709551615").unwrap(), u64::MAX);
}

#[test]
fn what_is_not_a_count_is_said() {
    for text in ["nan", "{}", "[]", "x", "-1.5", "1e99", "\"\""] {
        assert!(u64_of(text).is_err(), "{text}");
    }
}

#[test]
fn a_double_may_be_nan_or_infinite() {
    let read = |text: &str| Cursor::new(text.as_bytes()).f64().unwrap();
    assert!(read("nan,").is_nan() && read("-nan,").is_nan());
    assert_eq!(read("-inf,"), f64::NEG_INFINITY);
    assert_eq!(read("12.500000}"), 12.5);
}

#[test]
fn strings_keep_raw_control_characters_and_lose_escapes() {
    let read = |bytes: &[u8]| Cursor::new(bytes).string().unwrap();
    assert_eq!(read(b"\"a\tb\""), "a\tb");
    assert_eq!(read(br#""a\\b\"c\/\n\u00e9""#), "a\\b\"c/\n\u{e9}");
    assert_eq!(read(br#""\ud83d\ude00|\ud83d|\uzz""#), "\u{1f600}|\u{fffd}|\u{fffd}zz");
    assert_eq!(read(b"\"\xff\""), "\u{fffd}");
}

#[test]
fn skipping_stops_right_after_the_value() {
    for value in ["{}", "[]", "{\"a\":[1,{\"b\":\"}]\"}],\"c\":nan}", "[[],[]]", "true", "\"\\\"\""]
    {
        let text = format!("{value},next");
        let mut cursor = Cursor::new(text.as_bytes());
        cursor.skip_value().unwrap();
        assert_eq!(cursor.at(), value.len(), "{value}");
    }
}

#[test]
fn skipping_refuses_what_is_not_json() {
    for value in ["{1:2}", "[1 2]", "{\"a\" 1}", "[}", "{]", ",", "[,]", "]"] {
        assert!(Cursor::new(value.as_bytes()).skip_value().is_err(), "{value}");
    }
}

#[test]
fn deep_brackets_are_refused_without_recursion() {
    let text = "[".repeat(1_000_000);
    let fault = Cursor::new(text.as_bytes()).skip_value().unwrap_err();
    assert!(FioError::from(fault).to_string().contains("nested more than 16"));
}

#[test]
fn lines_count_in_blanks_strings_and_text() {
    let mut cursor = Cursor::new(b"x\ny\n{\"a\n\" :\n 1}");
    assert!(cursor.find_brace());
    assert_eq!(cursor.line(), 3);
    cursor
        .object(|cursor, _| {
            assert_eq!(cursor.line(), 5);
            cursor.skip_value()
        })
        .unwrap();
}

proptest! {
    #[test]
    fn every_strict_document_is_skipped_whole(text in documents()) {
        let mut cursor = Cursor::new(text.as_bytes());
        prop_assert!(cursor.skip_value().is_ok(), "{}", text);
        prop_assert_eq!(cursor.at(), text.len());
    }

    #[test]
    fn any_bytes_are_skipped_or_refused(bytes: Vec<u8>) {
        let _ = Cursor::new(&bytes).skip_value();
    }
}

fn documents() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<f64>().prop_filter("finite", |it| it.is_finite()).prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
    ];
    let value = leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    });
    (value, any::<bool>()).prop_map(
        |(value, pretty)| {
            if pretty { format!("{value:#}") } else { value.to_string() }
        },
    )
}
