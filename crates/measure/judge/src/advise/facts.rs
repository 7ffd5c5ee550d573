//! Facts: named values, each with the place where it was read; and texts with facts in them, such
//! as `echo ${device.scheduler} > …`.

use std::collections::BTreeMap;

use super::catalogue::Catalogue;
use super::value::FactValue;

/// A fact that is known, or whose text could not be understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KnownFact {
    /// The value, or why the text does not give one.
    pub(super) value: Result<FactValue, String>,
    /// The original text: commands that undo a change need it to the letter.
    pub(super) text: String,
    /// A file, a document, a run folder.
    pub(super) place: String,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Facts(BTreeMap<String, KnownFact>);

impl Facts {
    /// A value that needs no reading.
    pub(super) fn put(
        &mut self,
        name: impl Into<String>,
        value: FactValue,
        place: impl Into<String>,
    ) {
        let text = value.to_string();
        self.0.insert(name.into(), KnownFact { value: Ok(value), text, place: place.into() });
    }

    /// A text, read by the kind that the catalogue has for the name. False if no rule knows it.
    pub(super) fn read(
        &mut self,
        catalogue: &Catalogue,
        name: &str,
        text: &str,
        place: impl Into<String>,
    ) -> bool {
        let Some(kind) = catalogue.kind(name) else { return false };
        let (value, place) = (kind.read(text), place.into());
        // A text of another kind is kept with the reason: advice then says what stood there.
        self.0.insert(name.to_owned(), KnownFact { value, text: text.trim().to_owned(), place });
        true
    }

    pub(super) fn get(&self, name: &str) -> Option<&KnownFact> {
        self.0.get(name)
    }

    pub(super) fn value(&self, name: &str) -> Option<&FactValue> {
        self.0.get(name)?.value.as_ref().ok()
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.magnitude()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            FactValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Adds the facts of `other`.
    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().map(|(name, fact)| (name.clone(), fact.clone())));
    }
}

/// The parts of a text: literal text, each with the name of the fact that follows it.
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
pub(super) fn named_in(text: &str) -> impl Iterator<Item = &str> {
    parts(text).filter_map(|(_, name)| name)
}

/// The text with its facts; one that is missing stands as `<name>`.
pub(super) fn filled(text: &str, facts: &Facts) -> String {
    let part = |(before, name): (&str, Option<&str>)| match name {
        Some(name) => match facts.get(name) {
            Some(fact) => format!("{before}{}", fact.text),
            None => format!("{before}<{name}>"),
        },
        None => before.to_owned(),
    };
    parts(text).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::value::FactValue;

    #[test]
    fn facts_stand_as_they_were_read_and_missing_ones_by_name() {
        let mut known = Facts::default();
        known.put("device.name", FactValue::Text("sda".into()), "x");
        let text = "echo 8 > /sys/block/${device.name}/queue/${device.fua}; ATTR{queue/x}=\"1\"";
        let expected = "echo 8 > /sys/block/sda/queue/<device.fua>; ATTR{queue/x}=\"1\"";
        assert_eq!(filled(text, &known), expected);
        assert_eq!(named_in(text).collect::<Vec<_>>(), ["device.name", "device.fua"]);
        assert_eq!(filled("${unfinished", &known), "${unfinished");
    }
}
