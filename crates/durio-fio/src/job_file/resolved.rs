//! Jobs as they came out of a job file: typed options, each with its place.
//!
//! In: nothing. Out: the types that [`super::resolve()`] fills. Not here: the options
//! ([`super::JobOptions`]), defaults, and what durio does.

use super::{JobOptions, PerDirection, Place};

/// A value and where it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Given<T> {
    /// What was given.
    pub value: T,
    /// The option that gave it.
    pub option: &'static str,
    /// Where.
    pub at: Place,
}

/// What a job file says about one thing, if it does.
pub type One<T> = Option<Given<T>>;

/// What a job file says about reads, writes and trims.
pub type Each<T> = PerDirection<One<T>>;

/// Something said about an option that is ignored, with no effect on what is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The option.
    pub option: String,
    /// Its value as written.
    pub value: Option<String>,
    /// Where it stands.
    pub at: Place,
    /// Why it has no effect.
    pub what: String,
}

/// An option that changes what is done and cannot be honoured: it stops the import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The option.
    pub option: String,
    /// Its value as written.
    pub value: Option<String>,
    /// Where it stands.
    pub at: Place,
    /// Why, and what to do: a sentence without its end.
    pub reason: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { option, value, at, reason } = self;
        match value {
            Some(value) => write!(f, "{at}: {option}={value}: {reason}"),
            None => write!(f, "{at}: {option}: {reason}"),
        }
    }
}

/// A job section with its options after all defaults before it.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedJob {
    /// `name=`, or else the section's name.
    pub name: String,
    /// The section's name, after which fio names files.
    pub section: String,
    /// Where the job begins.
    pub at: Place,
    /// Jobs of one group run at the same time; groups run one after another, from 0.
    pub group: u32,
    /// Which reporting group, for [`ExitScope::Group`]: it also begins with `new_group`, from 0.
    pub reporting_group: u32,
    /// How many copies run, from 1.
    pub copies: u32,
    /// What the job does.
    pub options: JobOptions,
    /// The options of its own section that have a value, by name, as fio lists them.
    pub listed: Vec<(String, String)>,
    /// Options without effect on what is done.
    pub notes: Vec<Note>,
    /// Options that cannot be honoured; the job must not run if there is one.
    pub refusals: Vec<Refusal>,
}
