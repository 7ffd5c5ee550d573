//! Stack specs: stacks of layers, and the workloads that run on each of their points.
//!
//! The text of a spec becomes a [`StackBench`] ([`StackBench::parse`]): declared stacks, a campaign
//! for every point, published results. [`crate::plan_campaign`] plans the campaign on a stack.
//!
//! ```text
//!   text ── matrix ── layers ── stacks ─┐
//!     └── file ── campaign's file ──────┴── bench
//! ```

mod file;
mod matrix;
#[cfg(test)]
mod tests;

pub use file::{stack_spec_json_schema, stack_spec_reference};

use std::collections::BTreeSet;

use durio_base::Bytes;
use durio_layers::{DeclaredStack, check_declared};
use durio_plan::{PublishedShare, SeveralDevices};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::campaign::file::{CampaignFile, CampaignTargetTable, FewJobs};
use crate::campaign::steps::StepLadder;
use crate::table::value::{Amount, Name, TimeScale};
use crate::table::{OptionalValue, PlacedValue, SpecText};
use crate::{CampaignSpec, SpecError};
use file::{PublishedEntry, ReadStack, StackFile, StackTable, StackTargetTable};
use matrix::{ExpandedTable, MatrixAxis, STACKS_MAX, axes, expanded};

/// Sizes of devices and regions are whole multiples of this where they are scaled.
const GRAIN: Bytes = Bytes::from_mib(1);

/// The name of the one target of the campaign.
pub(crate) const TARGET_NAME: &str = "data";

/// A stack spec that was read: every stack can be built, every step is one.
#[derive(Debug, Clone, PartialEq)]
pub struct StackBench {
    pub name: String,
    /// What it shows, and after whom; may be empty.
    pub summary: String,
    /// The work that it follows: title, author, date.
    pub source: Option<String>,
    /// The stacks in order, one per combination of the axes that each names, the degraded ones
    /// after their whole ones. Names differ.
    pub stacks: Vec<DeclaredStack>,
    /// Whether one device or all are measured where a layer has several.
    pub several_devices: SeveralDevices,
    /// What others found on points of it.
    pub published: Vec<PublishedShare>,
    /// The file as it is.
    pub text: String,
    region: Option<Amount>,
    on_filesystem: CampaignSpec,
    on_devices: CampaignSpec,
}

impl StackBench {
    /// Reads a spec; `source_name` is its path or name, for messages.
    ///
    /// # Errors
    /// If it is not TOML, has an unknown key or a wrong value, lacks something, names what it does
    /// not have, has too many stacks, or one that cannot be built on any machine. The message begins
    /// with `NAME:LINE:COLUMN`.
    pub fn parse(source_name: &str, text: &str) -> Result<Self, SpecError> {
        let source = SpecText { name: source_name, text };
        let mut table = source.parse("a spec")?;
        // Where "{AXIS}" stands no typed field can be read: these two come first, as plain TOML.
        let (matrix, stack) = (table.remove("matrix"), table.remove("stack"));
        let file: StackFile = source.table("", 0, &table)?;
        // Both, whichever the layers ask for: a fault in the steps is told before anything is
        // built.
        let campaign = |on_files| CampaignSpec::of(source, campaign_file(&file, on_files));
        let (on_filesystem, on_devices) = (campaign(true)?, campaign(false)?);
        let axes = matrix.map_or(Ok(Vec::new()), |matrix| axes(source, &matrix))?;
        let stacks = stacks(source, stack.as_ref(), &axes)?;
        // Steps have the same names in both campaigns; those of devices stand for them.
        let published = published(source, &file, &stacks, &on_devices)?;
        let target = file.target.as_ref();
        Ok(Self {
            name: on_devices.name().to_owned(),
            summary: on_devices.summary(),
            source: file.head.source.get(),
            stacks,
            several_devices: target
                .and_then(|target| target.raw.get())
                .unwrap_or(SeveralDevices::One),
            published,
            text: text.to_owned(),
            region: target.and_then(|target| region(target)),
            on_filesystem,
            on_devices,
        })
    }

    /// The campaign for a mounted filesystem (true) or for devices; its one target is `data`.
    pub const fn campaign(&self, is_filesystem: bool) -> &CampaignSpec {
        if is_filesystem { &self.on_filesystem } else { &self.on_devices }
    }

    /// How much of a device of `size` is touched, from its begin, if bytes are in so many
    /// thousandths of what the spec says.
    pub fn region_of(&self, size: Bytes, size_scale_per_mille: u32) -> Bytes {
        match self.region {
            None => size,
            Some(Amount::Bytes(region)) => {
                let scale = TimeScale { size_per_mille: size_scale_per_mille, ..TimeScale::WHOLE };
                scale.size(region).min(size)
            }
            Some(share) if share.of(size) >= size => size,
            Some(share) => share.of(size).rounded_down_to(GRAIN),
        }
    }

    /// The stacks with the devices that durio makes in so many thousandths of their size.
    ///
    /// # Errors
    /// If a stack cannot be built at that size.
    pub fn scaled(&self, size_scale_per_mille: u32) -> Result<Vec<DeclaredStack>, SpecError> {
        let scaled = self.stacks.iter().map(|stack| scaled(stack, size_scale_per_mille));
        let stacks: Vec<DeclaredStack> = scaled.collect();
        // At full size they were checked when the spec was read.
        for stack in stacks.iter().filter(|_| size_scale_per_mille != 1000) {
            check_declared(stack).map_err(|error| {
                let text =
                    format!("scaled to {:.3}: {error}", f64::from(size_scale_per_mille) / 1e3);
                SpecError::wrong_use(text).hint(self.scale_hint(size_scale_per_mille))
            })?;
        }
        Ok(stacks)
    }

    /// Names the smallest scale above this one, in hundredths, at which every stack can be built.
    fn scale_hint(&self, per_mille: u32) -> String {
        let is_built = |scale: u32| {
            self.stacks.iter().all(|stack| check_declared(&scaled(stack, scale)).is_ok())
        };
        let mut scales = (per_mille / 10 + 1..=100).map(|hundredths| hundredths * 10);
        match scales.find(|&scale| is_built(scale)) {
            Some(scale) => {
                format!("the smallest --scale-size that fits is {}", f64::from(scale) / 1e3)
            }
            None => "give a larger --scale-size".to_owned(),
        }
    }
}

/// What of a device is touched: as it says, else as much as of a file.
fn region(target: &StackTargetTable) -> Option<Amount> {
    // A share is of the free space on a filesystem and of the device here: only bytes mean the
    // same.
    let size = target.size.get().filter(|size| matches!(size, Amount::Bytes(_)));
    target.region.get().or(size)
}

/// The campaign on a filesystem or on devices: they differ in the keys about files.
fn campaign_file(file: &StackFile, on_files: bool) -> CampaignFile {
    let said = file.target.as_ref();
    let of_files = said.filter(|_| on_files);
    let target = CampaignTargetTable {
        name: PlacedValue { value: Name(TARGET_NAME.to_owned()), at: 0 },
        path: OptionalValue::default(),
        size: of_files.map(|target| target.size.clone()).unwrap_or_default(),
        layout: of_files.map(|target| target.layout.clone()).unwrap_or_default(),
        files: of_files.map(|target| target.files.clone()).unwrap_or_default(),
        // A ladder that begins with one job has a point on eight devices too.
        few_jobs: OptionalValue::of(FewJobs::FirstPaths),
        declared: None,
        sheet: None,
    };
    let at = said.map_or(0, |target| target.at);
    let target = vec![PlacedValue { value: target, at }];
    CampaignFile { head: file.head.clone(), steps: file.steps.clone(), target }
}

/// Every stack that the tables stand for.
fn stacks<'a>(
    source: SpecText<'_>,
    tables: Option<&Spanned<DeValue<'a>>>,
    axes: &[MatrixAxis<'a>],
) -> Result<Vec<DeclaredStack>, SpecError> {
    let mut used = BTreeSet::new();
    let mut all: Vec<DeclaredStack> = Vec::new();
    for (at, table) in stack_tables(source, tables)? {
        for ExpandedTable { table, suffix } in expanded(source, table, axes, &mut used)? {
            let table: StackTable = source.table("stack", at, &table)?;
            let ReadStack { stack, at, degraded } = file::stack(source, table, at, &suffix)?;
            for stack in std::iter::once(stack).chain(degraded) {
                add(source, at, stack, &mut all)?;
            }
        }
    }
    match axes.iter().enumerate().find(|(index, _)| !used.contains(index)) {
        None => Ok(all),
        Some((_, axis)) => Err(source
            .error(axis.at, format!("no stack uses the axis '{}'", axis.name))
            .hint(format!("write \"{{{}}}\" where its values belong, or leave it out", axis.name))),
    }
}

/// The tables of `[[stack]]` with their places.
fn stack_tables<'t, 'a>(
    source: SpecText<'_>,
    tables: Option<&'t Spanned<DeValue<'a>>>,
) -> Result<Vec<(usize, &'t DeTable<'a>)>, SpecError> {
    let hint = "add [[stack]] with name = \"…\" and layers = [{ ram = { size = \"1GiB\" } }]";
    let Some(tables) = tables else {
        return Err(source.error(0, "no stack").hint(hint));
    };
    let list = match tables.get_ref() {
        DeValue::Array(list) if !list.is_empty() => list,
        _ => {
            let text = "'stack' is a list of tables; write [[stack]]";
            return Err(source.error(tables.span().start, text).hint(hint));
        }
    };
    let of = |item: &'t Spanned<DeValue<'a>>| match item.get_ref() {
        DeValue::Table(table) => Ok((item.span().start, table)),
        _ => Err(source.error(item.span().start, "expected a table of 'stack'")),
    };
    list.iter().map(of).collect()
}

/// The stack with the devices that durio makes in so many thousandths of their size.
fn scaled(stack: &DeclaredStack, per_mille: u32) -> DeclaredStack {
    let scale = TimeScale { size_per_mille: per_mille, ..TimeScale::WHOLE };
    let mut stack = stack.clone();
    for made in stack.layers.iter_mut().filter_map(|layer| layer.kind.made_mut()) {
        made.size = scale.size(made.size);
    }
    stack
}

/// Adds a stack that can be built and whose name is its own.
fn add(
    source: SpecText<'_>,
    at: usize,
    stack: DeclaredStack,
    all: &mut Vec<DeclaredStack>,
) -> Result<(), SpecError> {
    let fail = |text: String| source.error(at, text);
    if all.iter().any(|known| known.name == stack.name) {
        return Err(fail(format!("two stacks are named '{}'", stack.name))
            .hint("give it another name, or one with {AXIS} in it"));
    }
    if all.len() >= STACKS_MAX {
        return Err(fail(format!("more than {STACKS_MAX} stacks"))
            .hint("split the spec, or vary fewer things together"));
    }
    check_declared(&stack).map_err(|error| fail(error.to_string()))?;
    if !stack.layers.iter().any(|layer| layer.measured) {
        return Err(fail(format!("no layer of stack '{}' is measured", stack.name))
            .hint("leave measured = false out of one of them"));
    }
    all.push(stack);
    Ok(())
}

/// Reads all of them; each must be of a stack, a layer and a workload that are there.
fn published(
    source: SpecText<'_>,
    file: &StackFile,
    stacks: &[DeclaredStack],
    campaign: &CampaignSpec,
) -> Result<Vec<PublishedShare>, SpecError> {
    let workloads = workloads(campaign)?;
    file.published.iter().map(|table| one(source, file, table, stacks, &workloads)).collect()
}

/// What a step gives.
struct Workloads<'a> {
    step: &'a str,
    /// The names of its workloads.
    names: Vec<String>,
    /// The jobs of its points, if they are an axis.
    jobs: Vec<u32>,
}

fn workloads(campaign: &CampaignSpec) -> Result<Vec<Workloads<'_>>, SpecError> {
    let of_step = |step| {
        // As in the spec, whatever the scale of the bench: published results name these points.
        let ladder = StepLadder::new(campaign, false, step, TimeScale::WHOLE)?;
        let step = step.name.0.as_str();
        Ok(Workloads { step, names: ladder.section_names(), jobs: ladder.jobs() })
    };
    campaign.file.steps.step.iter().map(of_step).collect()
}

/// The workload of that name.
fn workload<'w>(
    source: SpecText<'_>,
    name: &PlacedValue<String>,
    workloads: &'w [Workloads<'_>],
) -> Result<&'w Workloads<'w>, SpecError> {
    // A share of a step with several workloads would be compared with one of them by chance.
    let several =
        workloads.iter().find(|workload| workload.step == name.value && workload.names.len() > 1);
    if let Some(Workloads { step, names, .. }) = several {
        let text = format!("'{step}' is {} workloads", names.len());
        return Err(source.error(name.at, text).hint(format!("name one: {}", names.join("; "))));
    }
    let found = workloads.iter().find(|workload| workload.names.contains(name));
    found.ok_or_else(|| {
        let names = workloads.iter().flat_map(|workload| &workload.names).map(String::as_str);
        unknown(source, "step", name, name.at, &names.collect::<Vec<_>>())
    })
}

/// Which point of a workload's ladder is meant.
fn jobs(
    source: SpecText<'_>,
    table: &PublishedEntry,
    workload: &Workloads<'_>,
) -> Result<Option<u32>, SpecError> {
    let Some(jobs) = table.jobs.get() else { return Ok(None) };
    if workload.jobs.contains(&jobs) {
        return Ok(Some(jobs));
    }
    let known: Vec<String> = workload.jobs.iter().map(u32::to_string).collect();
    let text = format!("'{}' has no point of {jobs} jobs", workload.step);
    Err(source.error(table.jobs.at, text).hint(match known.is_empty() {
        true => "jobs are not an axis of it; leave them out".to_owned(),
        false => format!("its jobs are {}", known.join(", ")),
    }))
}

fn one(
    source: SpecText<'_>,
    file: &StackFile,
    table: &PlacedValue<PublishedEntry>,
    stacks: &[DeclaredStack],
    workloads: &[Workloads<'_>],
) -> Result<PublishedShare, SpecError> {
    let Some(stack) = stacks.iter().find(|stack| stack.name == *table.stack) else {
        let names: Vec<&str> = stacks.iter().map(|stack| stack.name.as_str()).collect();
        return Err(unknown(source, "stack", &table.stack, table.stack.at, &names));
    };
    let of_step = workload(source, &table.workload, workloads)?;
    let missing = "'share_of_raw' of the published results is missing";
    Ok(PublishedShare {
        stack: stack.name.clone(),
        layer: layer(source, table, stack)?,
        workload: table.workload.value.clone(),
        jobs: jobs(source, table, of_step)?,
        share_of_raw: table.share_of_raw.get().ok_or_else(|| source.error(table.at, missing))?,
        rate: table.rate.get(),
        source: table.source.or(&file.head.source).get(),
    })
}

/// The uppermost layer, or the uppermost one of the word.
fn layer(
    source: SpecText<'_>,
    table: &PublishedEntry,
    stack: &DeclaredStack,
) -> Result<usize, SpecError> {
    let Some(word) = table.layer.one() else {
        return Ok(stack.layers.len().saturating_sub(1));
    };
    let words: Vec<&str> = stack.layers.iter().map(|layer| layer.kind.name()).collect();
    // In nested arrays the one on top is meant.
    let found = words.iter().rposition(|known| known == word);
    found.ok_or_else(|| unknown(source, "layer", word, table.layer.at, &words))
}

fn unknown(source: SpecText<'_>, what: &str, name: &str, at: usize, known: &[&str]) -> SpecError {
    let what = format!("unknown {what} '{}'", name.escape_debug());
    source.unknown(name, at, what, known, "there are")
}
