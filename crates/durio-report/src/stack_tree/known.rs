//! The facts of a layer, of which each is told once and none is forgotten.
//!
//! In: a layer. Out: values by name, and at the end those that nobody asked for.

use std::cell::RefCell;
use std::collections::BTreeSet;

use durio_observe::{Fact, Layer};
use durio_units::Bytes;

/// A layer's own facts, and which of them were told.
pub(super) struct Known<'a> {
    facts: &'a [Fact],
    told: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Known<'a> {
    pub(super) fn of(layer: &'a Layer) -> Self {
        Self { facts: &layer.facts, told: RefCell::default() }
    }

    /// The value, which counts as told.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let fact = self.facts.iter().find(|fact| fact.name == name)?;
        self.told.borrow_mut().insert(&fact.name);
        Some(&fact.value)
    }

    /// A value that is no more than a name for nothing, such as `none`, is none.
    pub(super) fn some(&self, name: &str) -> Option<&'a str> {
        self.text(name).filter(|value| !matches!(*value, "none" | "(null)" | "0"))
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// A count of bytes other than zero; as it stands if it is no number.
    pub(super) fn bytes(&self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        match text.parse::<u64>() {
            Ok(0) => None,
            Ok(bytes) => Some(Bytes::new(bytes).to_string()),
            Err(_) => Some(text.to_owned()),
        }
    }

    /// The rest of the name and the value of each fact whose name begins with `prefix`.
    pub(super) fn with_prefix(&self, prefix: &'a str) -> Vec<(&'a str, &'a str)> {
        let named = |fact: &'a Fact| Some((fact.name.strip_prefix(prefix)?, fact));
        let found: Vec<(&'a str, &'a Fact)> = self.facts.iter().filter_map(named).collect();
        self.told.borrow_mut().extend(found.iter().map(|(_, fact)| fact.name.as_str()));
        found.into_iter().map(|(rest, fact)| (rest, fact.value.as_str())).collect()
    }

    /// What was not asked for, as `name value`.
    pub(super) fn rest(&self) -> Vec<String> {
        let told = self.told.borrow();
        let left = self.facts.iter().filter(|fact| !told.contains(fact.name.as_str()));
        left.map(|fact| format!("{} {}", fact.name, fact.value)).collect()
    }
}

/// Parts of a sentence that may be absent.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<String>);

impl Parts {
    /// Adds `words` as they stand.
    pub(super) fn say(&mut self, words: impl Into<String>) {
        self.0.push(words.into());
    }

    /// Adds `name value`, if there is one.
    pub(super) fn named(&mut self, name: &str, value: Option<impl AsRef<str>>) {
        self.0.extend(value.map(|value| format!("{name} {}", value.as_ref())));
    }

    /// Adds a value, if there is one.
    pub(super) fn value(&mut self, value: Option<impl Into<String>>) {
        self.0.extend(value.map(Into::into));
    }

    pub(super) fn all(self) -> Vec<String> {
        self.0
    }
}
