//! The values of placeholders: `{loop0}` in words and paths.

use std::collections::BTreeMap;

/// What the machine answered, by the placeholder's name.
pub(super) type Values = BTreeMap<String, String>;

/// The text with every placeholder that has a value filled in; others stay.
pub(super) fn filled(text: &str, values: &Values) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        result.push_str(before);
        match after.split_once('}').and_then(|(name, tail)| Some((values.get(name)?, tail))) {
            Some((value, tail)) => {
                result.push_str(value);
                rest = tail;
            }
            None => {
                result.push('{');
                rest = after;
            }
        }
    }
    result.push_str(rest);
    result
}

/// True if a placeholder without a value is left. LVM's settings have braces too, with blanks.
pub(super) fn is_open(text: &str) -> bool {
    let inside = |part: &str| {
        let name = part.split_once('}').map(|(name, _)| name);
        name.is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace))
    };
    text.split('{').skip(1).any(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_placeholders_are_filled_in() {
        let values = Values::from([("a".into(), "1".into()), ("b-0".into(), "{a}".into())]);
        assert_eq!(filled("x{a}{b-0}{c} { a } }{", &values), "x1{a}{c} { a } }{");
        assert!(is_open("x{c}") && !is_open("devices { x=1 }") && !is_open("{"));
    }
}
