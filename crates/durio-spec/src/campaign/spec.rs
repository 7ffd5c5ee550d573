//! A spec that was read: every key known, every value of its kind, names that exist.

use std::collections::BTreeSet;

use super::reader::{Block, Placed, read};
use super::text::{Source, nearest};
use super::value::Value;
use crate::SpecError;

/// Version of the format of spec files.
pub const SPEC_SCHEMA: u32 = 1;

/// A spec file that was read and is consistent in itself; what depends on targets is checked by
/// [`crate::plan_campaign`].
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignSpec {
    /// Path or name, for messages.
    pub(crate) source_name: String,
    /// The file as it is.
    pub(crate) text: String,
    pub(crate) root: Block,
}

/// A target of a spec and the paths that it gives; none if `--target` must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecTarget {
    /// Its name in the spec.
    pub name: String,
    /// Its paths.
    pub paths: Vec<String>,
}

impl CampaignSpec {
    /// Reads a spec; `source_name` is its path or name, for messages.
    ///
    /// # Errors
    /// If it is not TOML, has an unknown key or a wrong value, lacks something, or names what it
    /// does not have. The message begins with `NAME:LINE:COLUMN`.
    pub fn parse(source_name: &str, text: &str) -> Result<Self, SpecError> {
        Self::of(source_name, text, read(Source { name: source_name, text })?)
    }

    /// The spec whose blocks are in `root`, checked.
    pub(crate) fn of(source_name: &str, text: &str, root: Block) -> Result<Self, SpecError> {
        let spec = Self { source_name: source_name.to_owned(), text: text.to_owned(), root };
        spec.check_head()?;
        spec.check_targets()?;
        spec.check_steps()?;
        Ok(spec)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.root.text("name").unwrap_or("campaign")
    }

    /// What it shows, and after whom.
    #[must_use]
    pub fn summary(&self) -> String {
        let summary = self.root.text("summary").unwrap_or("");
        match self.root.text("source") {
            None => summary.to_owned(),
            Some(source) if summary.is_empty() => format!("after {source}"),
            Some(source) => format!("{summary} (after {source})"),
        }
    }

    /// Its targets, in order.
    #[must_use]
    pub fn targets(&self) -> Vec<SpecTarget> {
        let of = |block: &Block| SpecTarget {
            name: block.text("name").unwrap_or_default().to_owned(),
            paths: block.texts("path").map(|path| path.value.to_owned()).collect(),
        };
        self.root.blocks("target").map(of).collect()
    }

    pub(crate) fn source(&self) -> Source<'_> {
        Source { name: &self.source_name, text: &self.text }
    }

    /// Preconditions and steps in the order of the file; true for a precondition.
    pub(crate) fn steps(&self) -> Vec<(bool, &Block)> {
        let preconditions = self.root.blocks("precondition").map(|block| (true, block));
        let mut all: Vec<_> = preconditions.collect();
        all.extend(self.root.blocks("step").map(|block| (false, block)));
        all.sort_by_key(|(_, block)| block.at);
        all
    }

    fn check_head(&self) -> Result<(), SpecError> {
        let source = self.source();
        match self.root.value("schema") {
            Some(Placed { value: Value::Count(SPEC_SCHEMA), .. }) => {}
            Some(Placed { value: Value::Count(other), at }) => {
                let text =
                    format!("schema {other} is not the one that this durio reads, {SPEC_SCHEMA}");
                return Err(source
                    .error(*at, text)
                    .hint("use the durio that the spec was made for"));
            }
            _ => {
                return Err(source
                    .error(0, "'schema' is missing")
                    .hint(format!("begin the file with schema = {SPEC_SCHEMA}")));
            }
        }
        self.require(&self.root, "name", "the campaign")
    }

    fn require(&self, block: &Block, key: &str, of: &str) -> Result<(), SpecError> {
        match block.value(key) {
            Some(_) => Ok(()),
            None => Err(self.source().error(block.at, format!("'{key}' of {of} is missing"))),
        }
    }

    fn check_targets(&self) -> Result<(), SpecError> {
        let mut names = BTreeSet::new();
        for block in self.root.blocks("target") {
            self.require(block, "name", "the target")?;
            self.check_unique(&mut names, block, "target")?;
        }
        match names.is_empty() {
            true => Err(self
                .source()
                .error(0, "there is no target")
                .hint("add [[target]] with name = \"data\"")),
            false => Ok(()),
        }
    }

    fn check_unique<'a>(
        &self,
        names: &mut BTreeSet<&'a str>,
        block: &'a Block,
        what: &str,
    ) -> Result<(), SpecError> {
        let name = block.text("name").unwrap_or_default();
        match names.insert(name) {
            true => Ok(()),
            false => {
                Err(self.source().error(block.at, format!("a second {what} is named '{name}'")))
            }
        }
    }

    fn check_steps(&self) -> Result<(), SpecError> {
        let mut names = BTreeSet::new();
        let steps = self.steps();
        let defaults = self.root.blocks("defaults").next();
        defaults.map_or(Ok(()), |block| self.check_target_names(block))?;
        for (is_precondition, block) in &steps {
            let what = if *is_precondition { "precondition" } else { "step" };
            self.require(block, "name", &format!("the {what}"))?;
            self.check_unique(&mut names, block, "step or precondition")?;
            self.check_target_names(block)?;
            let mut beside = BTreeSet::new();
            for block in block.blocks("beside") {
                self.require(block, "name", "the load beside")?;
                self.check_unique(&mut beside, block, "load beside")?;
                self.check_target_names(block)?;
            }
        }
        match steps.iter().any(|(is_precondition, _)| !is_precondition) {
            true => Ok(()),
            false => Err(self.source().error(0, "there is no step to measure")),
        }
    }

    /// The targets that a block names exist.
    fn check_target_names(&self, block: &Block) -> Result<(), SpecError> {
        let baseline = block.setting("baseline").filter(|_| block.text("baseline").is_some());
        let named = block.texts("target").chain(
            baseline.into_iter().flat_map(|setting| &setting.values).filter_map(|placed| {
                match &placed.value {
                    Value::Text(text) => Some(Placed { value: text.as_str(), at: placed.at }),
                    _ => None,
                }
            }),
        );
        let known: Vec<&str> =
            self.root.blocks("target").filter_map(|target| target.text("name")).collect();
        for name in named {
            if !known.contains(&name.value) {
                let text = format!("there is no target '{}'", name.value.escape_debug());
                let meant = nearest(name.value, known.iter().copied());
                let hint = match meant {
                    Some(meant) => format!("did you mean '{meant}'?"),
                    None => format!("the targets are {}", known.join(", ")),
                };
                return Err(self.source().error(name.at, text).hint(hint));
            }
        }
        Ok(())
    }
}
