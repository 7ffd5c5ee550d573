//! From the files in `rules/` to checked rules.
//!
//! In: TOML. Out: rules, or which of them is wrong and why. Not here: evaluating.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{AdviceRole, AdviceSource, Contradiction, Prove, Risk, Rule, SourceKind, Subject};
use crate::catalogue::Catalogue;
use crate::condition::Condition;
use crate::evidence::{self, ByRule};
use crate::templates;

const SOURCES: &str = include_str!("../rules/sources.toml");

const FILES: &[(&str, &str)] = &[
    ("block.toml", include_str!("../rules/block.toml")),
    ("read_ahead.toml", include_str!("../rules/read_ahead.toml")),
    ("cache.toml", include_str!("../rules/cache.toml")),
    ("host.toml", include_str!("../rules/host.toml")),
    ("filesystem.toml", include_str!("../rules/filesystem.toml")),
    ("raid.toml", include_str!("../rules/raid.toml")),
    ("zfs.toml", include_str!("../rules/zfs.toml")),
    ("postgresql.toml", include_str!("../rules/postgresql.toml")),
    ("mysql.toml", include_str!("../rules/mysql.toml")),
    ("databases.toml", include_str!("../rules/databases.toml")),
    ("validity.toml", include_str!("../rules/validity.toml")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    rule: Vec<Data>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    says: String,
    source: String,
}

/// A rule as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    id: String,
    name: String,
    title: String,
    layer: String,
    subject: Subject,
    roles: Vec<AdviceRole>,
    #[serde(default)]
    databases: Vec<String>,
    applies: Option<String>,
    met: String,
    advice: String,
    command: Option<String>,
    undo: Option<String>,
    udev: Option<String>,
    setting: Option<String>,
    risk: Risk,
    sources: Vec<String>,
    #[serde(default)]
    conflicts: Vec<String>,
    #[serde(default)]
    contradicted: Vec<Said>,
    prove: Option<Prove>,
}

type Sources = BTreeMap<String, AdviceSource>;

/// Which rule or file is wrong, and why.
pub(super) type Wrong = (String, String);

pub(super) fn shipped(catalogue: &Catalogue) -> Result<Vec<Rule>, Wrong> {
    let sources: Sources =
        toml::from_str(SOURCES).map_err(|error| ("sources.toml".into(), error.to_string()))?;
    let mut rules = Vec::new();
    for (file, text) in FILES {
        rules.extend(read(file, text, &sources, catalogue)?);
    }
    check_together(&rules)?;
    checked(rules, evidence::shipped()?)
}

/// The rules with what was measured of them. None is shipped without.
pub(super) fn checked(mut rules: Vec<Rule>, mut found: ByRule) -> Result<Vec<Rule>, Wrong> {
    for rule in &mut rules {
        rule.evidence = found.remove(&rule.id).ok_or_else(|| {
            let reason = "no measurement of it, and no reason why there is none";
            (rule.id.clone(), reason.to_owned())
        })?;
    }
    match found.into_keys().next() {
        Some(id) => Err((id, "there is evidence for it, but no such rule".to_owned())),
        None => Ok(rules),
    }
}

pub(super) fn read(
    file: &str,
    text: &str,
    sources: &Sources,
    catalogue: &Catalogue,
) -> Result<Vec<Rule>, Wrong> {
    let document: Document =
        toml::from_str(text).map_err(|error| (file.to_owned(), error.to_string()))?;
    let one = |data: Data| {
        let id = data.id.clone();
        rule(data, sources, catalogue).map_err(|reason| (id, reason))
    };
    document.rule.into_iter().map(one).collect()
}

fn rule(data: Data, sources: &Sources, catalogue: &Catalogue) -> Result<Rule, String> {
    let condition = |text: &String| {
        Condition::read(text, catalogue).map_err(|reason| format!("in \"{text}\": {reason}"))
    };
    let source = |key: &String| {
        sources.get(key).cloned().ok_or_else(|| format!("there is no source '{key}'"))
    };
    let contradiction = |said: Said| {
        Ok::<_, String>(Contradiction { source: source(&said.source)?, says: said.says })
    };
    let rule = Rule {
        applies: data.applies.as_ref().map(condition).transpose()?,
        met: condition(&data.met)?,
        sources: data.sources.iter().map(source).collect::<Result<_, _>>()?,
        contradicted: data.contradicted.into_iter().map(contradiction).collect::<Result<_, _>>()?,
        id: data.id,
        name: data.name,
        title: data.title,
        layer: data.layer,
        subject: data.subject,
        roles: data.roles,
        databases: data.databases,
        advice: data.advice,
        risk: data.risk,
        evidence: Vec::new(),
        prove: data.prove,
        command: data.command,
        undo: data.undo,
        udev: data.udev,
        setting: data.setting,
        conflicts: data.conflicts,
    };
    check(&rule, catalogue).map(|()| rule)
}

fn check(rule: &Rule, catalogue: &Catalogue) -> Result<(), String> {
    if rule.sources.is_empty() || rule.roles.is_empty() {
        return Err("it has no source or no role".to_owned());
    }
    let all = rule.sources.iter().chain(rule.contradicted.iter().map(|it| &it.source));
    for source in all {
        let needs_url = matches!(source.kind, SourceKind::VendorDoc | SourceKind::SourceCode);
        let is_read = source.kind == SourceKind::GeneralKnowledge
            || (evidence::is_date(&source.looked_up_date) && !source.read.is_empty());
        if source.document.is_empty() || (needs_url && source.url.is_empty()) || !is_read {
            return Err(format!("the source '{}' is incomplete", source.document));
        }
    }
    let unknown = |name: &&String| !catalogue.databases().any(|known| known == name.as_str());
    if let Some(name) = rule.databases.iter().find(unknown) {
        return Err(format!("there is no database '{name}'"));
    }
    if rule.command.is_some() != rule.undo.is_some() {
        return Err("a command and what undoes it belong together".to_owned());
    }
    for text in rule.templates() {
        for name in templates::facts(text) {
            catalogue.kind(name).ok_or_else(|| format!("there is no fact '{name}' for a text"))?;
        }
    }
    Ok(())
}

/// What can be wrong with rules only together.
fn check_together(rules: &[Rule]) -> Result<(), Wrong> {
    let mut names = BTreeSet::new();
    for rule in rules {
        if !names.insert(rule.id.as_str()) || !names.insert(rule.name.as_str()) {
            return Err((rule.id.clone(), "another rule has its id or name".to_owned()));
        }
    }
    for rule in rules {
        if let Some(other) = rule.conflicts.iter().find(|it| !names.contains(it.as_str())) {
            return Err((rule.id.clone(), format!("it contradicts '{other}', which is no rule")));
        }
    }
    Ok(())
}

impl Rule {
    /// The texts that may name facts.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &str> {
        let optional = [&self.command, &self.undo, &self.udev, &self.setting];
        let texts = optional.into_iter().flatten().map(String::as_str);
        texts.chain([self.advice.as_str()])
    }
}
