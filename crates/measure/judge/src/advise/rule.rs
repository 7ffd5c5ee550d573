//! The rules, as they are shipped.
//!
//! The files in `rules/` become checked [`Rule`]s: every fact exists and has the kind that its
//! condition needs, every source is named, every conflict has its other side. An error names the
//! wrong rule and the reason.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use durio_analyse::{Explanation, ExplanationFact, ExplanationKind};
use serde::{Deserialize, Serialize};

use super::apply::{Apply, SettingChange};
use super::condition::Condition;
use super::evidence::{self, ByRule, Evidence, WrongRule};
use super::facts::{AdviceError, Catalogue, named_in};

word_enum! {
    /// What a storage is used for.
    #[serde(rename_all = "snake_case")]
    AdviceRole, name:
    /// Small writes in sequence, each waited for until it is durable.
    Log "log",
    /// Random reads and writes of pages.
    Data "data",
    /// Long reads in sequence.
    Scan "scan",
    /// Whatever it is used for.
    Any "any",
}

word_enum! {
    /// What a rule is about, and so how often it is evaluated.
    #[serde(rename_all = "snake_case")]
    Subject, name:
    /// The machine, once for all storage.
    Host "host",
    /// The filesystem that the target is on.
    Filesystem "filesystem",
    /// The block device that the filesystem is on; of a partition, its disk.
    Volume "volume",
    /// Every disk at the bottom.
    Disk "disk",
    /// Every partition, each by itself.
    Partition "partition",
    /// Every md array, each by itself.
    Array "array",
    /// The settings of the database that was asked for.
    Database "database",
}

word_enum! {
    /// What may come of it.
    #[serde(rename_all = "snake_case")]
    Risk, name:
    /// It can be set and set back at any time.
    Safe "safe",
    /// It may help or harm: measure before and after.
    Measure "measure",
    /// It takes the data or the machine away for a while, or needs a new filesystem.
    Dangerous "dangerous",
}

word_enum! {
    /// How a rule stands.
    #[serde(rename_all = "snake_case")]
    AdviceState, words:
    /// It is as the rule wants it.
    Met "met",
    NotMet "not met",
    /// Something that it needs is not known.
    CannotTell "undecided",
    /// There is nothing here that it is about.
    NotApplicable "not applicable",
}

word_enum! {
    /// What kind of source says so.
    #[serde(rename_all = "kebab-case")]
    SourceKind, name:
    /// Documents of the maker of the software.
    VendorDoc "vendor document",
    /// The maker's source code.
    SourceCode "source code",
    /// Published experience of users.
    Practice "practice",
    /// What those who know the field take for granted; no document was read for it.
    GeneralKnowledge "general knowledge",
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdviceSource {
    pub kind: SourceKind,
    /// Author and title of the document.
    pub document: String,
    /// Address; empty for general knowledge, and for publications whose address is not known.
    #[serde(default)]
    pub url: String,
    /// True if it was found, and says what the rules take from it.
    #[serde(default)]
    pub looked_up: bool,
    /// The day on which it was last looked for, as 2026-11-21.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub looked_up_date: String,
    /// The edition, or the file and its date; or why the source was not found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub read: String,
}

word_enum! {
    /// What durio can switch itself.
    #[serde(rename_all = "snake_case")]
    Switch, name:
    /// `queue/read_ahead_kb` of the volume.
    ReadAheadKb "read_ahead_kb",
    /// `queue/scheduler` of the disk.
    Scheduler "scheduler",
    /// `queue/nr_requests` of the disk.
    NrRequests "nr_requests",
    /// How durio's own writes are made durable.
    SyncMethod "sync method",
    /// How durio's own file is laid out.
    FileMode "file mode",
}

impl Switch {
    /// The file in a block device's sysfs directory; `None` for an option of durio.
    pub const fn file(self) -> Option<&'static str> {
        match self {
            Self::ReadAheadKb => Some("queue/read_ahead_kb"),
            Self::Scheduler => Some("queue/scheduler"),
            Self::NrRequests => Some("queue/nr_requests"),
            Self::SyncMethod | Self::FileMode => None,
        }
    }
}

/// Under which load a rule is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProveLoad {
    /// Buffered reads in sequence, the page cache dropped before.
    BufferedScan,
    /// Buffered random reads in short runs, the page cache dropped before.
    BufferedRandom,
    /// Random 8 KiB, 70 % reads, direct, several jobs.
    Mixed,
    /// 8 KiB in sequence, durable one by one.
    Commits,
}

/// How durio proves a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofMethod {
    pub switch: Switch,
    /// The starting value, for an option that has no value outside durio.
    #[serde(default)]
    pub from: Option<String>,
    pub to: String,
    pub load: ProveLoad,
}

/// The result of a run that shows how many times as much a rule gains.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GainFact {
    pub(super) fact: String,
    /// What it is a multiple of.
    pub(super) over: String,
}

/// Another document that says the opposite.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contradiction {
    says: String,
    /// Its key among the sources.
    source: String,
}

/// One rule, as its file has it; documents are named there by their keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Short and stable: a letter for the layer and a number.
    pub id: String,
    /// In words, as `--rule` takes it too.
    pub name: String,
    /// What to do, as an instruction without facts in it.
    pub title: String,
    /// The layer in words.
    pub layer: String,
    pub subject: Subject,
    /// For which uses of the storage.
    pub roles: Vec<AdviceRole>,
    /// For which databases; all, if none is named.
    #[serde(default)]
    pub databases: Vec<String>,
    /// True if only the authors of the software that writes can follow it.
    #[serde(default)]
    pub(super) is_design: bool,
    /// Why, and what to heed.
    pub advice: String,
    /// The present value in words, where it is not that of the settings or of what decided.
    pub(super) now: Option<String>,
    /// The settings that it changes; commands and lines follow from them.
    #[serde(default)]
    pub(super) set: Vec<SettingChange>,
    /// What a run measures of its gain.
    pub(super) gain: Option<GainFact>,
    /// True if acknowledged writes can be lost where it is not met.
    #[serde(default)]
    pub(super) guards_data: bool,
    /// The group of the database's settings; empty for a rule about no database.
    #[serde(skip)]
    pub(super) group: String,
    /// What may come of it.
    pub risk: Risk,
    #[serde(skip)]
    pub sources: Vec<AdviceSource>,
    /// The project's measurements of the rule, or the reason why there are none; at least one,
    /// evidence against the rule first.
    #[serde(skip)]
    pub evidence: Vec<Evidence>,
    /// How durio can prove it.
    pub prove: Option<ProofMethod>,
    #[serde(rename = "sources")]
    source_keys: Vec<String>,
    pub(super) applies: Option<Condition>,
    pub(super) met: Condition,
    pub(super) command: Option<String>,
    pub(super) undo: Option<String>,
    pub(super) udev: Option<String>,
    pub(super) setting: Option<String>,
    #[serde(default)]
    pub(super) conflicts: Vec<String>,
    #[serde(default)]
    contradicted: Vec<Contradiction>,
    /// What other documents say, and which.
    #[serde(skip)]
    pub(super) contradicting: Vec<(String, AdviceSource)>,
}

impl Rule {
    /// True if `--rule` means this one.
    fn is_named(&self, name: &str) -> bool {
        self.id.eq_ignore_ascii_case(name) || self.name == name
    }

    /// True if it is about storage used in this way.
    pub(super) fn has_role(&self, role: AdviceRole) -> bool {
        self.roles.contains(&role) || self.roles.contains(&AdviceRole::Any)
    }

    /// The texts that may name facts.
    fn templates(&self) -> impl Iterator<Item = &str> {
        let optional = [&self.command, &self.undo, &self.udev, &self.setting, &self.now];
        let texts = optional.into_iter().flatten().map(String::as_str);
        let facts = self.set.iter().map(|change| change.to.as_str());
        texts.chain(facts).chain([self.advice.as_str()])
    }

    /// Finds the commands and lines that follow from the settings, as far as its file has no others.
    fn apply_settings(&mut self, catalogue: &Catalogue) {
        let database = self.databases.first();
        let group = database.and_then(|name| catalogue.settings_of(name)).unwrap_or_default();
        self.group = group.to_owned();
        self.set.iter_mut().for_each(|change| change.find_fact(group));
        let all: Vec<Apply> = self.set.iter().map(|change| change.apply(group)).collect();
        let join = |part: fn(&Apply) -> Option<&String>, by: &str| {
            let texts: Vec<&str> = all.iter().filter_map(part).map(String::as_str).collect();
            (!texts.is_empty()).then(|| texts.join(by))
        };
        // A setting that only its own words describe cannot be changed by a command.
        if self.setting.is_none() {
            let command = join(|apply| apply.command.as_ref(), " && ");
            self.command = self.command.take().or(command);
            let undo = join(|apply| apply.undo.as_ref(), " && ");
            self.undo = self.undo.take().or(undo);
        }
        self.udev = self.udev.take().or_else(|| join(|apply| apply.udev.as_ref(), "\n"));
        let setting = join(|apply| apply.setting.as_ref(), " and ");
        self.setting = self.setting.take().or(setting);
    }

    /// The rule in words, without a machine to apply it to.
    pub(crate) fn explanation(&self) -> Explanation {
        let words = [self.id.as_str(), &self.title, &self.advice, ""];
        let mut explanation = Explanation::new(ExplanationKind::AdviceRule, words);
        let mut add = |label: &str, text: String, url: &str| {
            let (label, url) = (label.to_owned(), url.to_owned());
            explanation.facts.push(ExplanationFact { label, text, url });
        };
        add("name", self.name.clone(), "");
        add("layer", self.layer.clone(), "");
        let roles: Vec<&str> = self.roles.iter().map(|role| role.name()).collect();
        add("for", roles.join(", "), "");
        if !self.databases.is_empty() {
            add("databases", self.databases.join(", "), "");
        }
        add("risk", self.risk.name().to_owned(), "");
        let ways = [
            ("setting", &self.setting),
            ("command", &self.command),
            ("undo", &self.undo),
            ("udev rule", &self.udev),
        ];
        for (label, text) in ways {
            text.iter().for_each(|text| add(label, text.clone(), ""));
        }
        let title = |source: &AdviceSource| format!("{} [{}]", source.document, source.kind.name());
        self.sources.iter().for_each(|source| add("source", title(source), &source.url));
        for (says, source) in &self.contradicting {
            add("contradicted", format!("{says} ({})", title(source)), &source.url);
        }
        self.evidence.iter().for_each(|evidence| add("durio measured", evidence.line(), ""));
        explanation
    }
}

/// Every shipped rule, in the order of reports.
///
/// # Errors
/// If the data that this program was built with cannot be read: a test would have said so.
pub fn rules() -> Result<&'static [Rule], AdviceError> {
    // Read once: the command line, the proof and every report ask for them.
    static RULES: OnceLock<Result<Vec<Rule>, WrongRule>> = OnceLock::new();
    let catalogue = Catalogue::shipped()?;
    let rules = RULES.get_or_init(|| shipped(catalogue)).as_deref();
    rules.map_err(|(rule, reason)| AdviceError::bad_rule(rule, reason))
}

/// The rule that `name` means, by identifier or name.
///
/// # Errors
/// If there is none; the error names the most similar rule.
pub fn rule_named(name: &str) -> Result<&'static Rule, AdviceError> {
    let rules = rules()?;
    rules.iter().find(|rule| rule.is_named(name)).ok_or_else(|| {
        let known = rules.iter().flat_map(|rule| [rule.id.as_str(), rule.name.as_str()]);
        AdviceError::unknown("there is no rule", name, known)
    })
}

const SOURCES: &str = include_str!("rules/sources.toml");

// The order is that of reports.
const FILES: &[(&str, &str)] = &[
    ("block.toml", include_str!("rules/block.toml")),
    ("read_ahead.toml", include_str!("rules/read_ahead.toml")),
    ("cache.toml", include_str!("rules/cache.toml")),
    ("host.toml", include_str!("rules/host.toml")),
    ("filesystem.toml", include_str!("rules/filesystem.toml")),
    ("raid.toml", include_str!("rules/raid.toml")),
    ("zfs.toml", include_str!("rules/zfs.toml")),
    ("postgresql.toml", include_str!("rules/postgresql.toml")),
    ("mysql.toml", include_str!("rules/mysql.toml")),
    ("databases.toml", include_str!("rules/databases.toml")),
    ("validity.toml", include_str!("rules/validity.toml")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleDocument {
    rule: Vec<Rule>,
}

type SourcesByName = BTreeMap<String, AdviceSource>;

fn shipped(catalogue: &Catalogue) -> Result<Vec<Rule>, WrongRule> {
    let sources = evidence::parsed("sources.toml", SOURCES)?;
    let mut rules = Vec::new();
    for (file, text) in FILES {
        rules.extend(read(file, text, &sources, catalogue)?);
    }
    check_together(&rules)?;
    // Each rule is checked against the project's measurements before it ships.
    checked(rules, evidence::shipped()?)
}

/// Attaches the measurements to the rules; every shipped rule must have one.
fn checked(mut rules: Vec<Rule>, mut found: ByRule) -> Result<Vec<Rule>, WrongRule> {
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

fn read(
    file: &str,
    text: &str,
    sources: &SourcesByName,
    catalogue: &Catalogue,
) -> Result<Vec<Rule>, WrongRule> {
    let RuleDocument { rule: mut rules } = evidence::parsed(file, text)?;
    for rule in &mut rules {
        complete(rule, sources, catalogue).map_err(|reason| (rule.id.clone(), reason))?;
    }
    Ok(rules)
}

/// Looks the documents up, and checks the rule by itself.
fn complete(rule: &mut Rule, sources: &SourcesByName, catalogue: &Catalogue) -> Result<(), String> {
    let source = |key: &String| {
        sources.get(key).cloned().ok_or_else(|| format!("there is no source '{key}'"))
    };
    rule.apply_settings(catalogue);
    rule.sources = rule.source_keys.iter().map(source).collect::<Result<_, _>>()?;
    for other in &rule.contradicted {
        rule.contradicting.push((other.says.clone(), source(&other.source)?));
    }
    for (part, condition) in
        rule.applies.iter().map(|condition| ("applies", condition)).chain([("met", &rule.met)])
    {
        condition.check(catalogue).map_err(|reason| format!("in '{part}': {reason}"))?;
    }
    check(rule, catalogue)
}

fn check(rule: &Rule, catalogue: &Catalogue) -> Result<(), String> {
    if rule.sources.is_empty() || rule.roles.is_empty() {
        return Err("it has no source or no role".to_owned());
    }
    let all =
        rule.sources.iter().chain(rule.contradicting.iter().map(|contradiction| &contradiction.1));
    for source in all {
        // A document or a source file can be looked up, so it needs its address.
        let needs_url = matches!(source.kind, SourceKind::VendorDoc | SourceKind::SourceCode);
        // General knowledge is just what no document was read for.
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
    // A user who follows the advice must be able to undo it.
    if rule.command.is_some() != rule.undo.is_some() {
        return Err("a command and what undoes it belong together".to_owned());
    }
    let of_texts = rule.templates().flat_map(named_in);
    let of_settings = rule.set.iter().map(|change| change.fact.as_str());
    let of_gain = rule.gain.iter().map(|gain| gain.fact.as_str());
    for name in of_texts.chain(of_settings).chain(of_gain) {
        catalogue.kind(name).ok_or_else(|| format!("there is no fact '{name}' for a text"))?;
    }
    Ok(())
}

/// What can be wrong with rules only together.
fn check_together(rules: &[Rule]) -> Result<(), WrongRule> {
    // `--rule` takes either, so that one may not be another's.
    let mut names = BTreeSet::new();
    for rule in rules {
        if !names.insert(rule.id.as_str()) || !names.insert(rule.name.as_str()) {
            return Err((rule.id.clone(), "another rule has its id or name".to_owned()));
        }
    }
    for rule in rules {
        if let Some(other) = rule.conflicts.iter().find(|other| !names.contains(other.as_str())) {
            return Err((rule.id.clone(), format!("it contradicts '{other}', which is no rule")));
        }
    }
    Ok(())
}
