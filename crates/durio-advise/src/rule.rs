//! The rules, as they are shipped.
//!
//! In: the files in `rules/`. Out: [`Rule`]s, checked: every fact exists and is of the kind that its
//! condition needs, every source is named, every conflict has its other side.
//! Not here: evaluating them.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::catalogue::Catalogue;
use super::condition::Condition;
use super::error::AdviceError;
use super::evidence::Evidence;
use durio_workload::nearest_word;

mod load;

/// What a storage is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdviceRole {
    /// Small writes in sequence, each waited for until it is durable.
    Log,
    /// Random reads and writes of pages.
    Data,
    /// Long reads in sequence.
    Scan,
    /// Whatever it is used for.
    Any,
}

impl AdviceRole {
    /// The name that users write and read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Data => "data",
            Self::Scan => "scan",
            Self::Any => "any",
        }
    }
}

/// What a rule is about, and so how often it is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The machine.
    Host,
    /// The filesystem that the target is on.
    Filesystem,
    /// The block device that the filesystem is on; of a partition, its disk.
    Volume,
    /// Every disk at the bottom.
    Disk,
    /// Every partition.
    Partition,
    /// Every md array.
    Array,
    /// The database's settings.
    Database,
}

impl Subject {
    /// The name that users read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Filesystem => "filesystem",
            Self::Volume => "volume",
            Self::Disk => "disk",
            Self::Partition => "partition",
            Self::Array => "array",
            Self::Database => "database",
        }
    }
}

/// What may come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It can be set and set back at any time.
    Safe,
    /// It may help or harm: measure before and after.
    Measure,
    /// It takes the data or the machine away for a while, or needs a new filesystem.
    Dangerous,
}

impl Risk {
    /// The name that users read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Measure => "measure",
            Self::Dangerous => "dangerous",
        }
    }
}

/// How a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdviceState {
    /// It is as the rule wants it.
    Met,
    /// It is not.
    NotMet,
    /// Something that it needs is not known.
    CannotTell,
    /// There is nothing here that it is about.
    NotApplicable,
}

impl AdviceState {
    /// As users read it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotMet => "not met",
            Self::CannotTell => "cannot tell",
            Self::NotApplicable => "not applicable",
        }
    }
}

/// What kind of source says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// The maker's documents.
    VendorDoc,
    /// The maker's source code.
    SourceCode,
    /// Published experience.
    Practice,
    /// What those who know the field take for granted; no document was read for it.
    GeneralKnowledge,
}

impl SourceKind {
    /// The name that users read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::VendorDoc => "vendor document",
            Self::SourceCode => "source code",
            Self::Practice => "practice",
            Self::GeneralKnowledge => "general knowledge",
        }
    }
}

/// Who says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdviceSource {
    /// Of what kind.
    pub kind: SourceKind,
    /// Author and title.
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
    /// What was read: which edition, which file as of which day; or why it was not found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub read: String,
}

/// What durio can switch itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// `queue/read_ahead_kb` of the volume.
    ReadAheadKb,
    /// `queue/scheduler` of the disk.
    Scheduler,
    /// `queue/nr_requests` of the disk.
    NrRequests,
    /// How durio's own writes are made durable.
    SyncMethod,
    /// How durio's own file is laid out.
    FileMode,
}

impl Switch {
    /// The file in a block device's sysfs directory; none for what is durio's own.
    #[must_use]
    pub const fn file(self) -> Option<&'static str> {
        match self {
            Self::ReadAheadKb => Some("queue/read_ahead_kb"),
            Self::Scheduler => Some("queue/scheduler"),
            Self::NrRequests => Some("queue/nr_requests"),
            Self::SyncMethod | Self::FileMode => None,
        }
    }

    /// The name that users read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadAheadKb => "read_ahead_kb",
            Self::Scheduler => "scheduler",
            Self::NrRequests => "nr_requests",
            Self::SyncMethod => "sync method",
            Self::FileMode => "file mode",
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
pub struct Prove {
    /// What is switched.
    pub switch: Switch,
    /// From what, for what has no value outside of durio.
    #[serde(default)]
    pub from: Option<String>,
    /// To what.
    pub to: String,
    /// Under which load.
    pub load: ProveLoad,
}

/// Another document that says the opposite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contradiction {
    pub(super) says: String,
    pub(super) source: AdviceSource,
}

/// One rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Short and stable: a letter for the layer and a number.
    pub id: String,
    /// In words, as `--rule` takes it too.
    pub name: String,
    /// One sentence: what it wants.
    pub title: String,
    /// The layer in words.
    pub layer: String,
    /// What it is about.
    pub subject: Subject,
    /// For which uses of the storage.
    pub roles: Vec<AdviceRole>,
    /// For which databases; all, if none is named.
    pub databases: Vec<String>,
    /// What to do.
    pub advice: String,
    /// What may come of it.
    pub risk: Risk,
    /// Who says so.
    pub sources: Vec<AdviceSource>,
    /// What the project measured of it, or why it could not; at least one, what speaks
    /// against the rule first.
    pub evidence: Vec<Evidence>,
    /// How durio can prove it.
    pub prove: Option<Prove>,
    pub(super) applies: Option<Condition>,
    pub(super) met: Condition,
    pub(super) command: Option<String>,
    pub(super) undo: Option<String>,
    pub(super) udev: Option<String>,
    pub(super) setting: Option<String>,
    pub(super) conflicts: Vec<String>,
    pub(super) contradicted: Vec<Contradiction>,
}

impl Rule {
    /// True if `--rule` means this one.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.id.eq_ignore_ascii_case(name) || self.name == name
    }

    /// True if it is about storage used in this way.
    #[must_use]
    pub fn has_role(&self, role: AdviceRole) -> bool {
        self.roles.contains(&role) || self.roles.contains(&AdviceRole::Any)
    }
}

/// Every shipped rule, in the order of reports.
///
/// # Errors
/// If the data that this program was built with cannot be read: a test would have said so.
pub fn rules() -> Result<&'static [Rule], AdviceError> {
    static RULES: OnceLock<Result<Vec<Rule>, (String, String)>> = OnceLock::new();
    let catalogue = Catalogue::shipped()?;
    let rules = RULES.get_or_init(|| load::shipped(catalogue));
    rules.as_deref().map_err(|(rule, reason)| AdviceError::BadRule {
        rule: rule.clone(),
        reason: reason.clone(),
    })
}

/// The rule that `name` means, by identifier or name.
///
/// # Errors
/// If there is none; with the one that looks most alike.
pub fn rule_named(name: &str) -> Result<&'static Rule, AdviceError> {
    let rules = rules()?;
    rules.iter().find(|rule| rule.is_named(name)).ok_or_else(|| {
        let known = rules.iter().flat_map(|rule| [rule.id.as_str(), rule.name.as_str()]);
        AdviceError::UnknownRule {
            name: name.to_owned(),
            nearest: nearest_word(name, known).map(str::to_owned),
        }
    })
}

/// The databases that rules may be asked for.
///
/// # Errors
/// As [`rules`].
pub fn known_advice_databases() -> Result<Vec<&'static str>, AdviceError> {
    Ok(Catalogue::shipped()?.databases().collect())
}

#[cfg(test)]
mod tests;
