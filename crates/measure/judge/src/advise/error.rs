//! Why advice could not be given, and what to do.

use durio_base::nearest_word;
use durio_command::{CommandError, CommandErrorKind};
use thiserror::Error;

/// An unknown name, an unusable setting, or rules that cannot be read.
#[derive(Debug, Error)]
pub enum AdviceError {
    /// A rule, a database or a setting that no rule knows.
    #[error("{what} '{name}'{}", meant(nearest.as_deref()))]
    Unknown {
        /// The kind of name, such as `unknown database`.
        what: &'static str,
        /// As the user wrote it.
        name: String,
        /// The known one that looks most alike.
        nearest: Option<String>,
    },
    /// A setting whose value has another kind.
    #[error("the setting '{name}': {reason}")]
    BadSetting {
        name: String,
        /// Why the value is invalid.
        reason: String,
    },
    /// The rules that this program was built with: a test would have said so.
    #[error("the rule '{rule}': {reason}")]
    BadRule {
        /// Its identifier, or the name of the file.
        rule: String,
        reason: String,
    },
}

impl From<AdviceError> for CommandError {
    fn from(error: AdviceError) -> Self {
        let kind = match error {
            AdviceError::BadRule { .. } => CommandErrorKind::Fault,
            _ => CommandErrorKind::WrongUse,
        };
        let is_rule = matches!(error, AdviceError::Unknown { what: "there is no rule", .. });
        let hint = is_rule.then_some("durio explain lists the rules");
        hint.into_iter().fold(Self::of(kind, error), Self::hint)
    }
}

impl AdviceError {
    pub(crate) fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let nearest = nearest_word(name, known).map(str::to_owned);
        Self::Unknown { what, name: name.to_owned(), nearest }
    }

    pub(crate) fn bad_rule(rule: &str, reason: &str) -> Self {
        Self::BadRule { rule: rule.to_owned(), reason: reason.to_owned() }
    }
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}
