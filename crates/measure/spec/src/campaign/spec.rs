//! A spec that was read: every key known, every value of its kind, names that exist.

use std::collections::BTreeSet;

use super::file::{CampaignFile, LoadSettings};
use crate::SpecError;
use crate::table::SpecText;
use crate::table::field::AnySetting;

/// Version of the format of spec files.
pub const SPEC_SCHEMA: u32 = 1;

/// A spec file that was read and is consistent in itself; [`crate::plan_campaign`] checks the parts
/// that depend on targets.
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignSpec {
    /// Path or name, for messages.
    pub(crate) source_name: String,
    /// The file as it is.
    pub(crate) text: String,
    pub(crate) file: CampaignFile,
}

/// A target of a spec and the paths that it gives; none if `--target` must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecTarget {
    /// Its name in the spec.
    pub name: String,
    pub paths: Vec<String>,
}

impl CampaignSpec {
    /// Reads a spec; `source_name` is its path or name, for messages.
    ///
    /// # Errors
    /// If it is not TOML, has an unknown key or a wrong value, lacks something, or names something
    /// that it does not have. The message begins with `NAME:LINE:COLUMN`.
    pub fn parse(source_name: &str, text: &str) -> Result<Self, SpecError> {
        let source = SpecText { name: source_name, text };
        Self::of(source, source.table("", 0, &source.parse("a spec")?)?)
    }

    /// The spec with this file, checked.
    pub(crate) fn of(source: SpecText<'_>, file: CampaignFile) -> Result<Self, SpecError> {
        let (source_name, text) = (source.name.to_owned(), source.text.to_owned());
        let spec = Self { source_name, text, file };
        spec.check_targets()?;
        spec.check_steps()?;
        Ok(spec)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.file.head.name.0
    }

    /// Its summary and its sources.
    #[must_use]
    pub fn summary(&self) -> String {
        let summary = self.file.head.summary.get().unwrap_or_default();
        match self.file.head.source.one() {
            None => summary,
            Some(source) if summary.is_empty() => format!("after {source}"),
            Some(source) => format!("{summary} (after {source})"),
        }
    }

    /// Its targets, in order.
    #[must_use]
    pub fn targets(&self) -> Vec<SpecTarget> {
        let targets = self.file.target.iter();
        let paths = targets.clone().map(|it| it.path.get().unwrap_or_default().to_vec());
        let of = |(name, paths): (&str, _)| SpecTarget { name: name.to_owned(), paths };
        self.target_names().into_iter().zip(paths).map(of).collect()
    }

    pub(crate) fn target_names(&self) -> Vec<&str> {
        self.file.target.iter().map(|target| target.name.0.as_str()).collect()
    }

    pub(crate) fn source(&self) -> SpecText<'_> {
        SpecText { name: &self.source_name, text: &self.text }
    }

    fn check_targets(&self) -> Result<(), SpecError> {
        let targets = self.file.target.iter().map(|target| (target.name.0.as_str(), target.at));
        self.check_unique("target", targets)?;
        match self.file.target.is_empty() {
            true => {
                let error = self.source().error(0, "there is no target");
                Err(error.hint("add [[target]] with name = \"data\""))
            }
            false => Ok(()),
        }
    }

    fn check_unique<'a>(
        &self,
        what: &str,
        names: impl Iterator<Item = (&'a str, usize)>,
    ) -> Result<(), SpecError> {
        let mut known = BTreeSet::new();
        for (name, at) in names {
            if !known.insert(name) {
                return Err(self.source().error(at, format!("a second {what} is named '{name}'")));
            }
        }
        Ok(())
    }

    fn check_steps(&self) -> Result<(), SpecError> {
        let defaults = self.file.steps.defaults.iter();
        defaults.map(|it| &it.load).try_for_each(|load| self.check_target_names(load))?;
        let steps = self.file.all_steps();
        let names = steps.iter().map(|(_, step)| (step.name.0.as_str(), step.at));
        // A section finds its baseline's by name, and a reader its results.
        self.check_unique("step or precondition", names)?;
        for (_, step) in steps {
            self.check_target_names(&step.settings.load)?;
            let baseline = step.baseline.one();
            baseline.map_or(Ok(()), |name| self.check_target_name(name, step.baseline.at))?;
            let rows = step.points.iter().flat_map(|row| row.fields());
            let tracked = step.rounds.iter().flat_map(|rounds| &rounds.tracked);
            // Once the first value of such a list was taken and the others were lost without a
            // word.
            self.check_no_lists(rows.chain(tracked.flat_map(|load| load.fields())))?;
            let beside = step.beside.iter().map(|load| (load.name.0.as_str(), load.at));
            self.check_unique("load beside", beside)?;
            step.beside.iter().try_for_each(|load| self.check_target_names(&load.load))?;
        }
        match self.file.steps.step.is_empty() {
            true => Err(self.source().error(0, "there is no step to measure")),
            false => Ok(()),
        }
    }

    /// A point has one value of each setting.
    fn check_no_lists<'a>(
        &self,
        mut settings: impl Iterator<Item = (&'static str, &'a dyn AnySetting)>,
    ) -> Result<(), SpecError> {
        match settings.find(|(_, setting)| setting.is_axis()) {
            None => Ok(()),
            Some((key, list)) => {
                let text = format!("'{key}' of a point takes one value, not a list");
                Err(self.source().error(list.at(), text))
            }
        }
    }

    fn check_target_names(&self, load: &LoadSettings) -> Result<(), SpecError> {
        let named = load.target.one().map_or(&[][..], |names| &names.0);
        named.iter().try_for_each(|name| self.check_target_name(name, name.at))
    }

    fn check_target_name(&self, name: &str, at: usize) -> Result<(), SpecError> {
        let known = self.target_names();
        match known.contains(&name) {
            true => Ok(()),
            false => {
                let what = format!("there is no target '{}'", name.escape_debug());
                Err(self.source().unknown(name, at, what, &known, "the targets are"))
            }
        }
    }
}
