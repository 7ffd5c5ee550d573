//! Database profiles: what a database does to its storage, field by field, each with its source.
//!
//! The TOML (docs/formats/profile.md) is a file in `profiles/` or a user's. It becomes a
//! [`Profile`], plain data, or an error that says where and how it is wrong;
//! [`crate::plan_profile`] makes a plan of a profile. The built-in ones are listed here, with what
//! `durio check` takes from them.

mod contradictions;
mod facts;
mod streams;
#[cfg(test)]
pub(crate) mod tests;
mod text_edits;
mod threshold;
mod values;

pub use facts::{ShownFact, SourcedValue};
pub use streams::{
    AccessOrderProfile, CachePath, FileHandling, LogProfile, Padding, SizesByWeight,
    SoftwareProfile, StreamKind, StreamPace, StreamProfile,
};
pub use text_edits::{LogSetting, calibrated_text};
pub use threshold::ProfileThreshold;

use durio_base::{did_you_mean, nearest_word};
use durio_plan::{Provenance, Threshold, ThresholdBound};
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::SpecError;
use crate::table::value::FormatVersion;
use crate::table::{Faults, Field, PlacedValue, SpecText, TableEntries, TableItem, table};

/// Version of the format of profiles.
const PROFILE_SCHEMA: u32 = 1;

table! {
    /// A profile with the version of its format.
    pub(crate) struct ProfileFile "the profile" [profile: Profile] {
        /// Version of this format: 1.
        schema: PlacedValue<FormatVersion<PROFILE_SCHEMA>>,
    }
}

table! {
    /// What a database does to its storage.
    #[derive(Serialize)]
    pub struct Profile "the profile" {
        /// Short name, as users write it.
        name: String,
        /// The database with its version, in a few words.
        title: String,
        /// One sentence: what a commit waits for, and the background load.
        summary: String,
        /// Where its fields come from; every field names one of them, and each is named by a field.
        sources: Vec<ProfileSource>,
        /// The log that commits wait for; none for a database that makes nothing durable by itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        log: Option<LogProfile>,
        /// What the database does itself for a commit, where that was found out.
        #[serde(skip_serializing_if = "Option::is_none")]
        software: Option<SoftwareProfile>,
        /// Concurrent streams: readers first, then writers.
        streams: Vec<StreamProfile>,
        /// Documented limits, held against the streams or the workloads of `durio check`.
        thresholds: Vec<ProfileThreshold>,
        /// The workload of `durio check` that represents its commits.
        check: SourcedValue<String>,
        /// What readers of its figures should know.
        notes: Vec<String>,
        /// Names of its server's processes; any of them shows that it runs.
        processes: Vec<String>,
    }
}

/// A source that fields name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileSource {
    /// Name that fields refer to.
    pub name: String,
    /// How its values are known.
    pub kind: Provenance,
    /// Publisher; required for published sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// The document and the place in it, or a description of the basis of the value.
    pub document: String,
    /// Address; required for published sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl ProfileSource {
    /// In one line: kind, publisher, document.
    pub fn line(&self) -> String {
        match &self.publisher {
            Some(publisher) => format!("{}: {publisher}, {}", self.kind.word(), self.document),
            None => format!("{}: {}", self.kind.word(), self.document),
        }
    }
}

table! {
    /// `[sources.NAME]`.
    pub(crate) struct SourceTable "the source" {
        /// How its values are known.
        kind: PlacedValue<Provenance>,
        /// Publisher; required for published sources.
        publisher: Option<String>,
        /// The document and the place in it.
        document: String,
        /// Address; required for published sources.
        url: Option<String>,
    }
}

impl Profile {
    /// Reads a profile; `name` of the file is for messages.
    ///
    /// # Errors
    /// The first fault, with line and column, and the remedy.
    pub fn parse(name: &str, text: &str) -> Result<Self, SpecError> {
        let source = SpecText { name, text };
        let table = source.parse("a profile")?;
        // First, for every field names one of them.
        check_sources(source, &table)?;
        let ProfileFile { profile, .. } = source.table("", 0, &table)?;
        contradictions::check(&profile)
            .map_err(|reason| SpecError::wrong_use(format!("{name}: {reason}")))?;
        Ok(profile)
    }

    /// The source of this name; every one that a field names is there.
    pub fn source(&self, name: &str) -> Option<&ProfileSource> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// What durio cannot do as the database does it, and does instead, with the stream's name.
    pub fn fittings(&self) -> impl Iterator<Item = (&str, &str)> {
        let log = self.log.iter().filter_map(|log| Some(("log", log.fitting.as_deref()?)));
        let streams = self.streams.iter();
        log.chain(
            streams.filter_map(|stream| Some((stream.name.as_str(), stream.fitting.as_deref()?))),
        )
    }
}

/// Refuses a `from` in the file, of a field or a threshold, that names no source.
fn check_sources(source: SpecText<'_>, file: &DeTable<'_>) -> Result<(), SpecError> {
    let names: Vec<&str> = match file.get("sources").map(Spanned::get_ref) {
        Some(DeValue::Table(sources)) => sources.keys().map(|name| &**name.get_ref()).collect(),
        _ => Vec::new(),
    };
    let mut faults = Faults::default();
    let mut tables = vec![("", file)];
    while let Some((owner, table)) = tables.pop() {
        for (key, value) in table {
            let (key, at) = (&**key.get_ref(), value.span().start);
            match value.get_ref() {
                DeValue::String(from) if key == "from" && !names.contains(&from.as_ref()) => {
                    let from = from.escape_debug().to_string();
                    let hint = match nearest_word(&from, names.iter().copied()) {
                        Some(meant) => format!("did you mean '{meant}'?"),
                        None => format!("describe it in [sources.{from}]"),
                    };
                    let error = source.error(at, format!("{owner}: unknown source '{from}'"));
                    faults.add(at, error.hint(hint));
                }
                DeValue::Table(inner) => tables.push((key, inner)),
                DeValue::Array(list) => {
                    for item in list {
                        let DeValue::Table(inner) = item.get_ref() else { continue };
                        tables.push((key, inner));
                        let at = item.span().start;
                        if key == "threshold" && inner.get("from").is_none() {
                            let what = "a threshold needs a source";
                            faults.add(at, source.error(at, what).hint("name one with 'from'"));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    let entries = TableEntries { source, at: 0, noun: String::new(), table: file };
    faults.or(Some(()), &entries)
}

/// The tables `[sources.NAME]` in the order of the file, of which there is at least one.
impl Field for Vec<ProfileSource> {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let DeValue::Table(table) = item.value.get_ref() else {
            return Err(item.fail("a source is a table: [sources.NAME]"));
        };
        let mut named: Vec<_> = table.iter().collect();
        // TOML's tables are sorted by name; the file's order is what its writer meant.
        named.sort_by_key(|(name, _)| name.span().start);
        let found = named.into_iter().map(|(name, value)| {
            let DeValue::Table(table) = value.get_ref() else {
                return Err(item.of(value).fail("a source is a table: [sources.NAME]"));
            };
            let at = name.span().start;
            let table: SourceTable = item.source.table("", at, table)?;
            table.named(name.get_ref()).map_err(|reason| item.source.error(at, reason))
        });
        let found: Self = found.collect::<Result<_, _>>()?;
        if found.is_empty() { Err(item.source.error(item.at(), NO_SOURCES)) } else { Ok(found) }
    }

    fn absent(entries: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Err(entries.source.error(entries.at, NO_SOURCES))
    }
}

const NO_SOURCES: &str = "no sources: describe at least one in [sources.NAME]";

impl SourceTable {
    fn named(self, name: &str) -> Result<ProfileSource, String> {
        let Self { kind, publisher, document, url } = self;
        // Published documents can be looked up, so the source must say where.
        if kind.is_published() && (publisher.is_none() || url.is_none()) {
            return Err(format!("a source of kind {} has a publisher and a url", kind.word()));
        }
        if url.as_ref().is_some_and(|url| !url.starts_with("https://")) {
            return Err("a url begins with https://".to_owned());
        }
        Ok(ProfileSource { name: name.to_owned(), kind: kind.value, publisher, document, url })
    }
}

// `include_str!` takes no variable.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../profiles/", $name, ".toml")))),*]
    };
}

/// Name and file of each, in the order in which they are listed.
const SHIPPED: &[(&str, &str)] = shipped![
    "postgresql",
    "mysql",
    "mariadb",
    "etcd",
    "cockroachdb",
    "rocksdb",
    "mongodb",
    "sqlite-wal",
    "sqlite-rollback",
    "redis",
    "kafka",
    "redpanda",
    "cassandra",
    "scylladb",
    "clickhouse",
    "elasticsearch",
    "ceph",
    "ravendb",
    "zookeeper",
    "tigerbeetle",
    "sqlserver",
    "oracle",
];

/// Their names, in the order in which they are listed.
pub fn profile_names() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// The name of the profile of a database that people call by this word; the word itself, if it is
/// another.
pub fn database_name(word: &str) -> &str {
    match word.to_ascii_lowercase().as_str() {
        "postgres" | "pg" | "psql" => "postgresql",
        "maria" => "mariadb",
        "percona" => "mysql",
        "sqlite" | "sqlite3" => "sqlite-wal",
        "mongo" => "mongodb",
        "cockroach" | "crdb" => "cockroachdb",
        "scylla" => "scylladb",
        "elastic" => "elasticsearch",
        "mssql" => "sqlserver",
        "zk" => "zookeeper",
        _ => word,
    }
}

/// The profile of this name.
///
/// # Errors
/// If durio brings no such profile along: which one may be meant, or all names.
pub fn profile(name: &str) -> Result<Profile, SpecError> {
    Profile::parse(name, profile_text(name)?)
}

/// Its text.
///
/// # Errors
/// As for [`profile`].
pub fn profile_text(name: &str) -> Result<&'static str, SpecError> {
    let called = database_name(name);
    if let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == called) {
        return Ok(text);
    }
    let names = profile_names();
    let meant = did_you_mean(name, &names, "the profiles are");
    Err(SpecError::wrong_use(format!("unknown profile '{}'; {meant}", name.escape_debug())))
}

/// What `durio check` holds its workloads against: the thresholds of every profile, those that are
/// documented first.
///
/// # Errors
/// None as the files are; a test reads every one.
pub fn check_thresholds() -> Result<Vec<Threshold>, SpecError> {
    let mut all = Vec::new();
    for (name, text) in SHIPPED {
        all.extend(Profile::parse(name, text)?.thresholds_of_check());
    }
    all.sort_by_key(|threshold| threshold.bound == ThresholdBound::Undocumented);
    Ok(all)
}

/// Every name that a verdict can be asked for, each once.
///
/// # Errors
/// As for [`check_thresholds`].
pub fn known_databases() -> Result<Vec<String>, SpecError> {
    let mut names: Vec<String> = Vec::new();
    for threshold in check_thresholds()? {
        if !names.contains(&threshold.database) {
            names.push(threshold.database);
        }
    }
    Ok(names)
}
