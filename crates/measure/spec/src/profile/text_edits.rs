//! Changes to the text of a profile: values of the log as a user has set them in the database
//! (`commit_delay=200us`), and times of the software as they were measured on another machine.
//!
//! The text is changed, and not the [`Profile`]: reading it again reports a fault at its line.

use std::fmt;
use std::str::FromStr;

use durio_base::{Nanos, did_you_mean};
use toml::de::{DeTable, DeValue};

use super::{LogProfile, Profile};
use crate::SpecError;
use crate::table::{SpecTable, SpecText};

/// A key of `[log]`, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSetting {
    key: String,
    value: String,
}

impl FromStr for LogSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("invalid setting '{text}'; expected NAME=VALUE, such as commit_delay=200us");
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        let is_plain = |part: &str| {
            !part.is_empty() && !part.contains(|c: char| c.is_control() || c == '"' || c == '\\')
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
    pub fn parse_with(name: &str, text: &str, settings: &[LogSetting]) -> Result<Self, SpecError> {
        // Errors of the profile itself come first, with its own lines.
        let mut profile = Self::parse(name, text)?;
        let mut text = text.to_owned();
        for setting in settings {
            setting.put_into(&mut text)?;
            profile =
                Self::parse(name, &text).map_err(|error| error.context(setting.to_string()))?;
        }
        Ok(profile)
    }
}

impl LogSetting {
    fn put_into(&self, text: &mut String) -> Result<(), SpecError> {
        let Self { key, value } = self;
        let mut keys = LogProfile::names();
        // Words about the log, not values of it.
        keys.retain(|key| !["summary", "fitting"].contains(key));
        if !keys.contains(&key.as_str()) {
            let meant = did_you_mean(key, &keys, "the keys are");
            return Err(SpecError::wrong_use(format!(
                "'{key}' is not a key of a profile's [log]; {meant}"
            )));
        }
        let written = match value.parse::<u64>() {
            Ok(number) => number.to_string(),
            Err(_) => format!("\"{value}\""),
        };
        let (range, new) = {
            let none = || SpecError::wrong_use("the profile has no log");
            let table = SpecText { name: "profile", text: text.as_str() }.parse("a profile")?;
            let log = inner(&table, "log").ok_or_else(none)?;
            match inner(log, key).and_then(|fact| Some(entry(fact, "value")?.1.span())) {
                Some(range) => (range, written),
                None => {
                    // Next to a key that each profile has, and with the same source.
                    let (place, sync) = entry(log, "sync").ok_or_else(none)?;
                    let from = match sync.get_ref() {
                        DeValue::Table(fact) => {
                            entry(fact, "from").and_then(|(_, from)| from.get_ref().as_str())
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

type SettingEntry<'a, 'i> =
    (&'a toml::Spanned<std::borrow::Cow<'i, str>>, &'a toml::Spanned<DeValue<'i>>);

fn entry<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<SettingEntry<'a, 'i>> {
    table.iter().find(|(name, _)| name.get_ref() == key)
}

fn inner<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a DeTable<'i>> {
    match entry(table, key)?.1.get_ref() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    }
}

/// The source of calibrated times.
const SOURCE: &str = "calibrated";

/// The text of a profile in which every time of the software is `factor` times as long; `document` says where
/// that is from.
///
/// # Errors
/// If the text is not a profile, or it has no `[software]`.
pub fn calibrated_text(
    name: &str,
    text: &str,
    factor: f64,
    document: &str,
) -> Result<String, SpecError> {
    let none = || SpecError::wrong_use(format!("'{name}' has no [software] to calibrate"));
    let profile = Profile::parse(name, text)?;
    let software = profile.software.ok_or_else(none)?;
    let table = SpecText { name, text }.parse("a profile")?;
    let keys = inner(&table, "software").ok_or_else(none)?;
    let time = |(key, time): (&str, Nanos)| {
        let nanos = times_as_long(time, factor).get();
        let fact = format!("{{ value = \"{nanos}ns\", from = \"{SOURCE}\" }}");
        Some((entry(keys, key)?.1.span(), fact))
    };
    let mut changes: Vec<_> = software.times().into_iter().filter_map(time).collect();
    // An earlier calibration's document is replaced.
    let earlier = inner(&table, "sources").and_then(|sources| inner(sources, SOURCE));
    let earlier = earlier.and_then(|source| entry(source, "document"));
    changes.extend(earlier.map(|(_, old)| (old.span(), quoted(document))));
    // From the end, so that places before it stay where they are.
    changes.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut changed = text.to_owned();
    for (place, new) in changes {
        changed.replace_range(place, &new);
    }
    if earlier.is_none() {
        let document = quoted(document);
        let source = format!("\n[sources.{SOURCE}]\nkind = \"fitted\"\ndocument = {document}\n");
        changed.push_str(&source);
    }
    for source in &profile.sources {
        if !changed.contains(&format!("from = \"{}\"", source.name)) {
            remove_table(&mut changed, &format!("[sources.{}]", source.name));
        }
    }
    // Tables in other forms than the built-in profiles have.
    let is_right = |calibrated: &Profile| {
        (&calibrated.log, &calibrated.streams, &calibrated.thresholds)
            == (&profile.log, &profile.streams, &profile.thresholds)
    };
    if Profile::parse(name, &changed).is_ok_and(|calibrated| is_right(&calibrated)) {
        return Ok(changed);
    }
    Err(SpecError::wrong_use(format!(
        "the text of '{name}' cannot be changed: write its tables as built-in profiles have them, a line \
         [sources.NAME] for each source and one line for each time of [software]"
    )))
}

/// Removes a table whose header is a line: until the next header.
fn remove_table(text: &mut String, header: &str) {
    let Some(begin) = text.find(&format!("\n{header}\n")) else { return };
    let behind = begin + 1 + header.len();
    let end = text
        .get(behind..)
        .and_then(|rest| rest.find("\n["))
        .map_or(text.len(), |rest| behind + rest);
    text.replace_range(begin..end, "");
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "microseconds by a factor; what is too long or negative is refused when it is read"
)]
fn times_as_long(time: Nanos, factor: f64) -> Nanos {
    Nanos::new((time.get() as f64 * factor).round() as u64)
}

/// As a TOML string, without characters that need escapes.
fn quoted(text: &str) -> String {
    let plain = |c: char| match c {
        '"' | '\\' => '\'',
        c if c.is_control() => ' ',
        c => c,
    };
    format!("\"{}\"", text.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{profile, profile_names, profile_text};
    use durio_workload::SyncMethod;

    fn read(database: &str, settings: &[&str]) -> Result<Profile, String> {
        let settings: Vec<LogSetting> =
            settings.iter().map(|setting| setting.parse().unwrap()).collect();
        let text = profile_text(database).unwrap();
        Profile::parse_with(database, text, &settings).map_err(crate::profile::tests::told)
    }

    #[test]
    fn a_value_that_is_there_is_replaced_and_one_that_is_not_is_added() {
        let settings = ["commit_delay=200us", "commit_siblings=5", "sync=o_dsync"];
        let log = read("postgresql", &settings).unwrap().log.unwrap();
        assert_eq!(log.commit_delay.unwrap().value, Nanos::from_micros(200));
        assert_eq!(log.commit_siblings.unwrap().value.get(), 5);
        assert_eq!(log.sync.value, SyncMethod::ODsync);
        let plain = read("postgresql", &[]).unwrap();
        assert_eq!(plain, profile("postgresql").unwrap());
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

    #[test]
    fn every_profile_that_is_predicted_can_be_calibrated_again_and_again() {
        let mut calibrated = 0;
        for name in profile_names() {
            let before = profile(name).unwrap();
            let text = profile_text(name).unwrap();
            let Some(software) = before.software.as_ref().map(|software| software.software())
            else {
                let error = calibrated_text(name, text, 2.0, "x").unwrap_err();
                assert!(error.to_string().contains("no [software]"), "{error}");
                continue;
            };
            let once = calibrated_text(name, text, 2.0, "first \"here\"").unwrap();
            let twice = calibrated_text(name, &once, 1.5, "second\nline").unwrap();
            let after = Profile::parse(name, &twice).unwrap();
            assert_eq!(after.source(SOURCE).unwrap().document, "second line");
            let now = after.software.as_ref().unwrap().software();
            assert_eq!(now.before.get(), 3 * software.before.get(), "{name}");
            assert_eq!(now.wake.get(), 3 * software.wake.get(), "{name}");
            assert_eq!(
                now.apply.map(Nanos::get),
                software.apply.map(|apply| 3 * apply.get()),
                "{name}"
            );
            assert_eq!((now.yields, now.turn), (software.yields, software.turn), "{name}");
            assert_eq!((after.log, after.streams), (before.log, before.streams), "{name}");
            calibrated += 1;
        }
        assert!(calibrated > 5, "{calibrated}");
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        calibrated_text("mine", "schema = 1", 1.0, "x").unwrap_err();
    }
}
