//! A named value that only some layers or hosts have.

use serde::{Deserialize, Serialize};

/// A named value, as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The name, such as `consistency_policy`.
    pub name: String,
    /// The value, such as `bitmap`.
    pub value: String,
}

impl Fact {
    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}
