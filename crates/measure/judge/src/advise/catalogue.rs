//! The facts that exist: their kinds, how to get the missing ones, and the names under which
//! databases have their settings.
//!
//! All of it comes from `rules/facts.toml`; values are elsewhere.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::error::AdviceError;
use super::value::ValueKind;

const DATA: &str = include_str!("rules/facts.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueDocument {
    databases: BTreeMap<String, String>,
    facts: BTreeMap<String, RuleGroup>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleGroup {
    obtain: String,
    kinds: BTreeMap<String, String>,
}

/// The facts that conditions may name.
#[derive(Debug)]
pub(super) struct Catalogue {
    kinds: BTreeMap<String, ValueKind>,
    /// By the first part of a fact's name.
    obtain: BTreeMap<String, String>,
    /// A database's name, and the first part of its settings' names.
    databases: BTreeMap<String, String>,
}

impl Catalogue {
    /// The one that this program was built with; an error, if it cannot be read, would fail a test.
    pub(super) fn shipped() -> Result<&'static Self, AdviceError> {
        static CATALOGUE: OnceLock<Result<Catalogue, String>> = OnceLock::new();
        let catalogue = CATALOGUE.get_or_init(|| Self::parse(DATA)).as_ref();
        catalogue.map_err(|reason| AdviceError::bad_rule("facts.toml", reason))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: CatalogueDocument =
            toml::from_str(text).map_err(|error| error.to_string())?;
        let mut catalogue =
            Self { kinds: BTreeMap::new(), obtain: BTreeMap::new(), databases: document.databases };
        for (group, RuleGroup { obtain, kinds }) in document.facts {
            for (name, kind) in kinds {
                let name = format!("{group}.{name}");
                let kind = ValueKind::parse(&kind).map_err(|reason| format!("{name}: {reason}"))?;
                catalogue.kinds.insert(name, kind);
            }
            catalogue.obtain.insert(group, obtain);
        }
        Ok(catalogue)
    }

    pub(super) fn kind(&self, name: &str) -> Option<ValueKind> {
        self.kinds.get(name).copied()
    }

    /// Every fact's name.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// What to do to get a fact that is missing; `*` in the text is its name within its group.
    pub(super) fn obtain(&self, name: &str) -> String {
        let (group, short) = name.split_once('.').unwrap_or((name, ""));
        self.obtain.get(group).map(|text| text.replace('*', short)).unwrap_or_default()
    }

    /// Every database's name.
    pub(super) fn databases(&self) -> impl Iterator<Item = &str> {
        self.databases.keys().map(String::as_str)
    }

    /// The first part of the names of a database's settings.
    pub(super) fn settings_of(&self, database: &str) -> Option<&str> {
        self.databases.get(database).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_facts_can_be_read_and_every_group_says_how_to_get_one() {
        let catalogue = Catalogue::shipped().unwrap();
        assert!(catalogue.names().count() > 80);
        for name in catalogue.names() {
            assert!(!catalogue.obtain(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_missing_setting_says_where_to_look() {
        let catalogue = Catalogue::shipped().unwrap();
        let text = catalogue.obtain("postgresql.commit_delay");
        assert!(text.contains("SHOW commit_delay"), "{text}");
    }

    #[test]
    fn a_fact_of_no_kind_is_an_error() {
        let text = "[databases]\n[facts.x]\nobtain = 'look'\n[facts.x.kinds]\ny = 'furlongs'\n";
        assert!(Catalogue::parse(text).unwrap_err().contains("x.y"));
    }
}
