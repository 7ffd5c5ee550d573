//! What is known: named values, each with the place where it was read.
//!
//! In: values and texts from whoever reads. Out: [`Facts`]. Not here: reading, judging.

use std::collections::BTreeMap;

use super::catalogue::Catalogue;
use super::value::Value;

/// A fact that is known, or whose text could not be understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fact {
    /// What it is; or why it cannot be told from what was read.
    pub(super) value: Result<Value, String>,
    /// As it was written.
    pub(super) text: String,
    /// A file, a document, a run folder.
    pub(super) place: String,
}

/// Facts by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts(BTreeMap<String, Fact>);

impl Facts {
    /// A value that needs no reading.
    pub(super) fn put(&mut self, name: impl Into<String>, value: Value, place: impl Into<String>) {
        let text = value.to_string();
        self.0.insert(name.into(), Fact { value: Ok(value), text, place: place.into() });
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
        self.0.insert(name.to_owned(), Fact { value, text: text.trim().to_owned(), place });
        true
    }

    pub(super) fn get(&self, name: &str) -> Option<&Fact> {
        self.0.get(name)
    }

    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)?.value.as_ref().ok()
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.magnitude()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Takes over what the other has.
    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().map(|(name, fact)| (name.clone(), fact.clone())));
    }
}
