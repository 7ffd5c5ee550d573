//! Database profiles: what a database does to its storage, field by field, each with its source.
//!
//! The TOML (docs/formats/profile.md) is a file in `profiles/` or a user's. It becomes a
//! [`Profile`], plain data, or a sentence that says where and how it is wrong; `durio-spec` makes a
//! plan of a profile.
//!
//! ```text
//!   text ── parse ── table (keys, sources) ── values ── contradictions ── Profile
//! ```

mod calibrated;
mod contradictions;
mod facts;
mod parse;
mod setting;
mod shipped;
mod source;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod threshold;
mod values;
mod workloads;

pub use calibrated::calibrated_text;
pub use facts::ShownFact;
pub use setting::LogSetting;
pub use shipped::{check_thresholds, known_databases, profile, profile_names, profile_text};
pub use source::{ProfileSource, Provenance, SourcedValue};
pub use streams::{
    AccessOrderProfile, CachePath, FileHandling, LogProfile, SoftwareProfile, StreamKind,
    StreamPace, StreamProfile,
};
pub use threshold::{LatencyFigure, ProfileThreshold, Threshold, ThresholdBound, TimedOperation};

use table::table;
use values::text;

/// Version of the format of profiles.
pub const PROFILE_SCHEMA: u32 = 1;

table! {
    /// What a database does to its storage.
    struct Profile {
        /// Short name, as users write it.
        name: String = plain_needed(text),
        /// The database with its version, in a few words.
        title: String = plain_needed(text),
        /// One sentence: what it waits for, and what runs meanwhile.
        summary: String = plain_needed(text),
        /// Where its fields come from; every field names one of them, and each is named by a field.
        sources: Vec<ProfileSource> = all_sources(),
        /// The log that commits wait for; none for a database that makes nothing durable by itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        log: Option<LogProfile> = log(),
        /// What the database does itself for a commit, where that was found out.
        #[serde(skip_serializing_if = "Option::is_none")]
        software: Option<SoftwareProfile> = software(),
        /// What runs at the same time.
        streams: Vec<StreamProfile> = streams() of ["read", "write"],
        /// Documented limits.
        thresholds: Vec<ProfileThreshold> = thresholds() of ["threshold"],
        /// The workload of `durio check` that stands for what it waits for.
        check: SourcedValue<String> = fact_needed(text),
        /// What readers of its figures should know.
        notes: Vec<String> = list(),
        /// The names of its server's processes, of which one shows that it runs.
        processes: Vec<String> = list(),
    }
}

impl Profile {
    /// Reads a profile; `name` of the file is for messages.
    ///
    /// # Errors
    /// What is wrong, with line and column, and what to do.
    pub fn parse(name: &str, text: &str) -> Result<Self, crate::DefinitionError> {
        let profile = parse::profile(name, text)?;
        match contradictions::check(&profile) {
            Ok(()) => Ok(profile),
            Err(reason) => Err(crate::DefinitionError(format!("{name}: {reason}"))),
        }
    }

    /// The source of this name; every one that a field names is there.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&ProfileSource> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// What durio cannot do as the database does it, and does instead, with the stream's name.
    pub fn fittings(&self) -> impl Iterator<Item = (&str, &str)> {
        let log = self.log.iter().filter_map(|log| Some(("log", log.fitting.as_deref()?)));
        let streams = self.streams.iter();
        log.chain(streams.filter_map(|it| Some((it.name.as_str(), it.fitting.as_deref()?))))
    }
}
