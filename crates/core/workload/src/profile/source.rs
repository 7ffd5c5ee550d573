//! Where a field of a profile comes from.

use serde::{Deserialize, Serialize};

use super::facts::word_of;

/// How a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// The database's maker says so.
    VendorDoc,
    /// The database itself does so, under strace: docs/method/databases.md has the traces.
    Traced,
    /// The database's source code does so.
    SourceCode,
    /// People who run it say so; it is not the maker's word.
    Practice,
    /// An operator measured it in use.
    Operator,
    /// Chosen so that results computed from it come near to measurements.
    Fitted,
    /// Widely known; nothing was read again to confirm it.
    GeneralKnowledge,
    /// No source: a starting value of durio's, to be replaced by the user's.
    DurioGuess,
}

impl Provenance {
    /// Every kind with its word in files and reports, the firmest first.
    pub const WORDS: [(&'static str, Self); 8] = [
        ("vendor-doc", Self::VendorDoc),
        ("traced", Self::Traced),
        ("source-code", Self::SourceCode),
        ("practice", Self::Practice),
        ("operator", Self::Operator),
        ("fitted", Self::Fitted),
        ("general-knowledge", Self::GeneralKnowledge),
        ("durio-guess", Self::DurioGuess),
    ];

    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }

    /// True if a source of this kind must say who published it, and where.
    #[must_use]
    pub const fn is_published(self) -> bool {
        matches!(self, Self::VendorDoc | Self::SourceCode | Self::Practice)
    }
}

/// A source that fields name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileSource {
    /// The name by which fields name it.
    pub name: String,
    /// How it knows.
    pub kind: Provenance,
    /// Publisher; required for published sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// The document and the place in it; or in words on what a value rests.
    pub document: String,
    /// Address; required for published sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl ProfileSource {
    /// In one line: kind, publisher, document.
    #[must_use]
    pub fn line(&self) -> String {
        match &self.publisher {
            Some(publisher) => format!("{}: {publisher}, {}", self.kind.word(), self.document),
            None => format!("{}: {}", self.kind.word(), self.document),
        }
    }
}

/// A value, and the name of the source that it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourcedValue<T> {
    pub value: T,
    /// Name of one of the profile's sources.
    pub from: String,
    /// A remark about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
