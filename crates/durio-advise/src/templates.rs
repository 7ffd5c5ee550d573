//! Texts with facts in them: `echo ${device.scheduler} > …`.
//!
//! In: a text and facts. Out: the text with the facts as they were read. Not here: which text.

use super::facts::Facts;

/// The parts of a text: what stands as it is, and names of facts.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let now = rest.take()?;
        let Some((before, after)) = now.split_once("${") else { return Some((now, None)) };
        let Some((name, after)) = after.split_once('}') else { return Some((now, None)) };
        rest = Some(after);
        Some((before, Some(name)))
    })
}

/// The facts that a text names.
pub(super) fn facts(text: &str) -> impl Iterator<Item = &str> {
    parts(text).filter_map(|(_, name)| name)
}

/// The text with its facts; one that is missing stands as `<name>`.
pub(super) fn filled(text: &str, facts: &Facts) -> String {
    let mut filled = String::with_capacity(text.len());
    for (before, name) in parts(text) {
        filled.push_str(before);
        match name.map(|name| (name, facts.get(name))) {
            Some((_, Some(fact))) => filled.push_str(&fact.text),
            Some((name, None)) => {
                filled.push('<');
                filled.push_str(name);
                filled.push('>');
            }
            None => {}
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn facts_stand_as_they_were_read_and_missing_ones_by_name() {
        let mut known = Facts::default();
        known.put("device.name", Value::Text("sda".into()), "x");
        let text = "echo 8 > /sys/block/${device.name}/queue/${device.fua}; ATTR{queue/x}=\"1\"";
        let expected = "echo 8 > /sys/block/sda/queue/<device.fua>; ATTR{queue/x}=\"1\"";
        assert_eq!(filled(text, &known), expected);
        assert_eq!(facts(text).collect::<Vec<_>>(), ["device.name", "device.fua"]);
        assert_eq!(filled("${unfinished", &known), "${unfinished");
    }
}
