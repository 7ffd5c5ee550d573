//! Why advice could not be given, and what to do.

use thiserror::Error;

/// What was asked for and is not there, or rules that cannot be read.
#[derive(Debug, Error)]
pub enum AdviceError {
    /// No rule has this name.
    #[error("there is no rule '{name}'{}", meant(nearest.as_deref()))]
    UnknownRule {
        /// As it was asked for.
        name: String,
        /// The one that looks most alike.
        nearest: Option<String>,
    },
    /// No rule knows this database.
    #[error("unknown database '{name}'{}", meant(nearest.as_deref()))]
    UnknownDatabase {
        /// As it was asked for.
        name: String,
        /// The one that looks most alike.
        nearest: Option<String>,
    },
    /// No rule reads this setting.
    #[error("no rule reads the setting '{name}'{}", meant(nearest.as_deref()))]
    UnknownSetting {
        /// As it was given.
        name: String,
        /// The one that looks most alike.
        nearest: Option<String>,
    },
    /// A setting whose value is of another kind.
    #[error("the setting '{name}': {reason}")]
    BadSetting {
        /// Its name.
        name: String,
        /// What is wrong with its value.
        reason: String,
    },
    /// The rules that this program was built with: a test would have said so.
    #[error("the rule '{rule}': {reason}")]
    BadRule {
        /// Its identifier, or the name of the file.
        rule: String,
        /// What is wrong.
        reason: String,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}
