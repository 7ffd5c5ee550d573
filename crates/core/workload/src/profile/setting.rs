//! Another value of a key of the log, as a user has set it in the database: `commit_delay=200us`.
//! The value is not checked here; reading the new text reports an error with its line.

use std::fmt;
use std::str::FromStr;

use toml::de::{DeTable, DeValue};

use super::{LogProfile, Profile};
use crate::DefinitionError;
use crate::profile::table::ProfileTable;
use crate::words::did_you_mean;

/// A key of `[log]`, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSetting {
    key: String,
    value: String,
}

impl FromStr for LogSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no setting; expected such as commit_delay=200us");
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        let is_plain = |it: &str| {
            !it.is_empty() && !it.contains(|it: char| it.is_control() || it == '"' || it == '\\')
        };
        if is_plain(&key) && is_plain(&value) { Ok(Self { key, value }) } else { Err(wrong()) }
    }
}

impl fmt::Display for LogSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

impl Profile {
    /// Reads a profile of which the log has other values.
    ///
    /// # Errors
    /// As for [`Profile::parse`], or a sentence if a key is not one of the log's.
    pub fn parse_with(
        name: &str,
        text: &str,
        settings: &[LogSetting],
    ) -> Result<Self, DefinitionError> {
        // Errors of the profile itself come first, with its own lines.
        let mut profile = Self::parse(name, text)?;
        let mut text = text.to_owned();
        for setting in settings {
            setting.put_into(&mut text)?;
            let wrong = |error: DefinitionError| DefinitionError(format!("{setting}: {error}"));
            profile = Self::parse(name, &text).map_err(wrong)?;
        }
        Ok(profile)
    }
}

impl LogSetting {
    fn put_into(&self, text: &mut String) -> Result<(), DefinitionError> {
        let Self { key, value } = self;
        let mut keys = LogProfile::keys();
        // Words about the log, not values of it.
        keys.retain(|it| !["summary", "fitting"].contains(it));
        if !keys.contains(&key.as_str()) {
            let meant = did_you_mean(key, &keys, "the keys are");
            return Err(DefinitionError(format!(
                "'{key}' is no key of a profile's [log]; {meant}"
            )));
        }
        let written = match value.parse::<u64>() {
            Ok(number) => number.to_string(),
            Err(_) => format!("\"{value}\""),
        };
        let (range, new) = {
            let none = || DefinitionError("the database has no log of its own".to_owned());
            let table = DeTable::parse(text).map_err(|error| DefinitionError(error.to_string()))?;
            let log = inner(table.get_ref(), "log").ok_or_else(none)?;
            match inner(log, key).and_then(|fact| Some(entry(fact, "value")?.1.span())) {
                Some(range) => (range, written),
                None => {
                    // Next to a key that each profile has, and with the same source.
                    let (place, sync) = entry(log, "sync").ok_or_else(none)?;
                    let from = match sync.get_ref() {
                        DeValue::Table(fact) => {
                            entry(fact, "from").and_then(|it| it.1.get_ref().as_str())
                        }
                        _ => None,
                    };
                    let from = from.ok_or_else(none)?;
                    let line = format!("{key} = {{ value = {written}, from = \"{from}\" }}\n");
                    let at = place.span().start;
                    (at..at, line)
                }
            }
        };
        text.replace_range(range, &new);
        Ok(())
    }
}

pub(super) type SettingEntry<'a, 'i> =
    (&'a toml::Spanned<std::borrow::Cow<'i, str>>, &'a toml::Spanned<DeValue<'i>>);

pub(super) fn entry<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<SettingEntry<'a, 'i>> {
    table.iter().find(|(name, _)| name.get_ref() == key)
}

pub(super) fn inner<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a DeTable<'i>> {
    match entry(table, key)?.1.get_ref() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use durio_base::Nanos;

    use super::*;
    use crate::SyncMethod;
    use crate::profile::profile_text;

    fn read(database: &str, settings: &[&str]) -> Result<Profile, String> {
        let settings: Vec<LogSetting> = settings.iter().map(|it| it.parse().unwrap()).collect();
        let text = profile_text(database).unwrap();
        Profile::parse_with(database, text, &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_that_is_there_is_replaced_and_one_that_is_not_is_added() {
        let settings = ["commit_delay=200us", "commit_siblings=5", "sync=o_dsync"];
        let log = read("postgresql", &settings).unwrap().log.unwrap();
        assert_eq!(log.commit_delay.unwrap().value, Nanos::from_micros(200));
        assert_eq!(log.commit_siblings.unwrap().value, 5);
        assert_eq!(log.sync.value, SyncMethod::ODsync);
        let plain = read("postgresql", &[]).unwrap();
        assert_eq!(plain, crate::profile::profile("postgresql").unwrap());
    }

    #[test]
    fn what_is_no_key_or_no_value_is_refused_with_what_is_meant() {
        for (setting, words) in [
            ("comit_delay=1ms", "did you mean 'commit_delay'?"),
            ("summary=x", "the keys are"),
            ("commit_delay=1", "commit_delay=1: "),
            ("sync=never", "sync=never: "),
            ("committers=0", "committers=0: "),
        ] {
            let error = read("postgresql", &[setting]).unwrap_err();
            assert!(error.contains(words), "{setting}: {error}");
        }
        for text in ["commit_delay", "=1", "a=", "a=\"", "a=\n"] {
            text.parse::<LogSetting>().unwrap_err();
        }
    }
}
