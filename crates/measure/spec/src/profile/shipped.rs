//! The built-in profiles, and what `durio check` takes from them.

use durio_base::did_you_mean;
use durio_plan::{Threshold, ThresholdBound};

use super::Profile;
use crate::SpecError;

// `include_str!` takes no variable.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),*]
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
    if let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == name) {
        return Ok(text);
    }
    let names = profile_names();
    let meant = did_you_mean(name, &names, "the profiles are");
    Err(SpecError::wrong_use(format!("there is no profile '{}'; {meant}", name.escape_debug())))
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
