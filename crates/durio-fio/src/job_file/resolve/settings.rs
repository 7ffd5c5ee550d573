//! The settings of one job: defaults and its own, in the order in which they count.
//!
//! In: settings. Out: values by name, read with the `kb_base` that counted where they stand.

use std::collections::BTreeMap;

use super::super::values::{self, KbBase};
use super::super::{Given, PerDirection, Place, Setting};
use crate::FioError;

/// How often an option may be given for one job, defaults included: bounds the work per job.
const REPETITIONS_MAX: usize = 64;

/// A setting and the base of its units.
#[derive(Debug, Clone, Copy)]
struct Entry<'f> {
    setting: &'f Setting,
    base: KbBase,
    /// Counts all settings of the job: a larger one came later.
    order: usize,
}

/// The settings of a job; all of each name, the last of which counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings<'f> {
    entries: BTreeMap<&'static str, Vec<Entry<'f>>>,
    base: Option<KbBase>,
    count: usize,
    #[cfg(test)]
    pub(super) asked: std::cell::RefCell<std::collections::BTreeSet<&'static str>>,
}

impl<'f> Settings<'f> {
    /// Adds a section's settings: later ones win.
    ///
    /// fio reads `kb_base` before all others of a section in a file, and in order on a command
    /// line.
    pub(super) fn add(&mut self, settings: &'f [Setting]) -> Result<(), FioError> {
        let is_file = |setting: &&Setting| matches!(setting.at, Place::Line { .. });
        for setting in settings.iter().filter(is_file).filter(|it| it.name == "kb_base") {
            self.base = Some(kb_base(setting)?);
        }
        for setting in settings {
            if setting.name == "kb_base" {
                self.base = Some(kb_base(setting)?);
            }
            self.count += 1;
            let base = self.base.unwrap_or(1024);
            let entry = Entry { setting, base, order: self.count };
            let same = self.entries.entry(setting.name).or_default();
            if same.len() >= REPETITIONS_MAX {
                let what = format!("it counts for a job more than {REPETITIONS_MAX} times");
                return Err(complaint(setting, &what));
            }
            same.push(entry);
        }
        Ok(())
    }

    /// The setting of each name that counts, in the order in which they stand.
    pub(super) fn last_of_each(&self) -> Vec<&'f Setting> {
        let mut last: Vec<_> = self.entries.values().filter_map(|it| it.last()).collect();
        last.sort_by_key(|entry| entry.order);
        last.into_iter().map(|entry| entry.setting).collect()
    }

    /// All settings of a name, in order.
    fn all(&self, name: &'static str) -> &[Entry<'f>] {
        #[cfg(test)]
        self.asked.borrow_mut().insert(name);
        self.entries.get(name).map_or(&[], Vec::as_slice)
    }

    /// The setting of a name that counts.
    pub(super) fn last(&self, name: &'static str) -> Option<&'f Setting> {
        self.all(name).last().map(|entry| entry.setting)
    }

    /// The later one of two settings that set the same thing.
    pub(super) fn later(&self, a: &'static str, b: &'static str) -> Option<&'f Setting> {
        let candidates = [self.all(a).last(), self.all(b).last()];
        candidates.into_iter().flatten().max_by_key(|it| it.order).map(|it| it.setting)
    }

    /// Reads the value that counts.
    pub(super) fn read<T>(
        &self,
        name: &'static str,
        read: impl Fn(&str, KbBase) -> Result<T, String>,
    ) -> Result<Option<Given<T>>, FioError> {
        let Some(entry) = self.all(name).last() else { return Ok(None) };
        read_entry(entry, &read).map(Some)
    }

    /// Reads all lists of a name as one: each `filename` adds to those before, also to those of the
    /// defaults.
    pub(super) fn read_together<T>(
        &self,
        name: &'static str,
        read: impl Fn(&str) -> Result<Vec<T>, String>,
    ) -> Result<Option<Given<Vec<T>>>, FioError> {
        let mut all: Option<Given<Vec<T>>> = None;
        for entry in self.all(name) {
            let Given { value, at } = read_entry(entry, &|text: &str, _| read(text))?;
            let mut together = all.map_or_else(Vec::new, |given| given.value);
            together.extend(value);
            all = Some(Given { value: together, at });
        }
        Ok(all)
    }

    /// Reads a list by direction: a direction that the last setting leaves out keeps its value.
    pub(super) fn read_directions<T: Clone>(
        &self,
        name: &'static str,
        read: impl Fn(&str, KbBase) -> Result<PerDirection<Option<T>>, String>,
    ) -> Result<PerDirection<Option<Given<T>>>, FioError> {
        let mut found = PerDirection { read: None, write: None, trim: None };
        for entry in self.all(name).iter().rev() {
            let Given { value, at } = read_entry(entry, &read)?;
            let given = |value: T| Some(Given { value, at: at.clone() });
            found.read = found.read.or_else(|| value.read.and_then(given));
            found.write = found.write.or_else(|| value.write.and_then(given));
            found.trim = found.trim.or_else(|| value.trim.and_then(given));
            if found.read.is_some() && found.write.is_some() && found.trim.is_some() {
                break;
            }
        }
        Ok(found)
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Option<Given<String>>, FioError> {
        self.read(name, |text, _| match text {
            "" => Err("there is no value".to_owned()),
            text => Ok(text.to_owned()),
        })
    }

    pub(super) fn boolean(&self, name: &'static str) -> Result<Option<Given<bool>>, FioError> {
        self.read(name, |text, _| values::boolean(text))
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<Option<Given<bool>>, FioError> {
        let Some(setting) = self.last(name) else { return Ok(None) };
        let value = values::flag(setting.value.as_deref());
        let value = value.map_err(|what| complaint(setting, &what))?;
        Ok(Some(Given { value, at: setting.at.clone() }))
    }

    pub(super) fn integer(&self, name: &'static str) -> Result<Option<Given<u32>>, FioError> {
        self.read(name, values::integer)
    }

    /// A number from 1.
    pub(super) fn positive(&self, name: &'static str) -> Result<Option<Given<u32>>, FioError> {
        self.read(name, |text, base| match values::integer(text, base)? {
            0 => Err("at least 1 is needed".to_owned()),
            value => Ok(value),
        })
    }

    /// A number from 0 to 100.
    pub(super) fn percent(&self, name: &'static str) -> Result<Option<Given<u8>>, FioError> {
        self.read(name, percent)
    }

    pub(super) fn size(&self, name: &'static str) -> Result<Option<Given<u64>>, FioError> {
        self.read(name, values::size)
    }

    pub(super) fn seconds(&self, name: &'static str) -> Result<Option<Given<u64>>, FioError> {
        self.read(name, |text, _| values::seconds(text))
    }
}

/// A number from 0 to 100.
pub(super) fn percent(text: &str, base: KbBase) -> Result<u8, String> {
    values::check_uncut(text)?;
    let value = values::integer(text, base)?;
    let value = u8::try_from(value).ok().filter(|it| *it <= 100);
    value.ok_or_else(|| format!("{text:?}: 0 to 100 is possible here"))
}

fn read_entry<T>(
    entry: &Entry<'_>,
    read: &impl Fn(&str, KbBase) -> Result<T, String>,
) -> Result<Given<T>, FioError> {
    let Entry { setting, base, .. } = *entry;
    let text = setting.value.as_deref().ok_or_else(|| complaint(setting, "it needs a value"))?;
    let value = read(text, base).map_err(|what| complaint(setting, &what))?;
    Ok(Given { value, at: setting.at.clone() })
}

fn kb_base(setting: &Setting) -> Result<KbBase, FioError> {
    match setting.value.as_deref() {
        Some("1024") => Ok(1024),
        Some("1000") => Ok(1000),
        _ => Err(complaint(setting, "1024 or 1000 is possible here")),
    }
}

/// An error about a setting's value.
pub(super) fn complaint(setting: &Setting, what: &str) -> FioError {
    FioError::job_file(&setting.at, format!("{}: {what}", setting.name))
}
