//! `[[published]]`: what somebody found on a point, to be set beside what is measured.

use durio_stack::DeclaredStack;

use crate::campaign::reader::{Block, Placed};
use crate::campaign::steps::Ladder;
use crate::campaign::text::{Source, nearest};
use crate::campaign::value::Value;
use crate::{CampaignSpec, SpecError};

/// A published figure of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedShare {
    /// Name of the stack.
    pub stack: String,
    /// Which layer, from 0 at the bottom.
    pub layer: usize,
    /// Name of the step; where it is several workloads, with the words of the one: `write, o_dsync`.
    pub workload: String,
    /// Which point of its ladder, where jobs are an axis.
    pub jobs: Option<u32>,
    /// Its rate as a share of the raw device's; 1 is as fast as raw.
    pub share_of_raw: f64,
    /// Its rate in accesses per second.
    pub rate: Option<f64>,
    /// Where it stands.
    pub source: Option<String>,
}

/// Reads all of them; each must be of a stack, a layer and a workload that are there.
pub(super) fn published(
    source: Source<'_>,
    root: &Block,
    stacks: &[DeclaredStack],
    campaign: &CampaignSpec,
) -> Result<Vec<PublishedShare>, SpecError> {
    let workloads = workloads(campaign)?;
    root.blocks("published").map(|block| one(source, root, block, stacks, &workloads)).collect()
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
    let steps = campaign.steps().into_iter().filter(|(is_precondition, _)| !is_precondition);
    let of_step = |(_, block)| {
        let ladder = Ladder::new(campaign, false, block)?;
        let jobs = ladder.axes.iter().flat_map(|axis| axis.counts_of("jobs")).collect();
        let step = block.text("name").unwrap_or_default();
        Ok(Workloads { step, names: ladder.section_names(), jobs })
    };
    steps.map(of_step).collect()
}

/// The workload of that name.
fn workload<'w>(
    source: Source<'_>,
    name: &Placed<&str>,
    workloads: &'w [Workloads<'_>],
) -> Result<&'w Workloads<'w>, SpecError> {
    let several = workloads.iter().find(|it| it.step == name.value && it.names.len() > 1);
    if let Some(Workloads { step, names, .. }) = several {
        let text = format!("'{step}' is {} workloads", names.len());
        return Err(source.error(name.at, text).hint(format!("name one: {}", names.join("; "))));
    }
    let found = workloads.iter().find(|it| it.names.iter().any(|known| known == name.value));
    found.ok_or_else(|| {
        let names: Vec<&str> =
            workloads.iter().flat_map(|it| it.names.iter().map(String::as_str)).collect();
        unknown(source, "step", (name.value, name.at), &names)
    })
}

/// Which point of a workload's ladder is meant.
fn jobs(
    source: Source<'_>,
    block: &Block,
    workload: &Workloads<'_>,
) -> Result<Option<u32>, SpecError> {
    let Some(Placed { value: Value::Count(jobs), at }) = block.value("jobs") else {
        return Ok(None);
    };
    if workload.jobs.contains(jobs) {
        return Ok(Some(*jobs));
    }
    let known: Vec<String> = workload.jobs.iter().map(u32::to_string).collect();
    let text = format!("'{}' has no point of {jobs} jobs", workload.step);
    Err(source.error(*at, text).hint(match known.is_empty() {
        true => "jobs are no axis of it; leave them out".to_owned(),
        false => format!("its jobs are {}", known.join(", ")),
    }))
}

fn one(
    source: Source<'_>,
    root: &Block,
    block: &Block,
    stacks: &[DeclaredStack],
    workloads: &[Workloads<'_>],
) -> Result<PublishedShare, SpecError> {
    let required = |key: &str| {
        let missing =
            || source.error(block.at, format!("'{key}' of what was published is missing"));
        block.texts(key).next().ok_or_else(missing)
    };
    let number = |key: &str| match block.value(key)?.value {
        Value::Number(number) => Some(number),
        _ => None,
    };
    let (stack_name, workload) = (required("stack")?, required("workload")?);
    let names: Vec<&str> = stacks.iter().map(|stack| stack.name.as_str()).collect();
    let Some(stack) = stacks.iter().find(|stack| stack.name == stack_name.value) else {
        return Err(unknown(source, "stack", (stack_name.value, stack_name.at), &names));
    };
    let of_step = self::workload(source, &workload, workloads)?;
    let share_of_raw = number("share_of_raw")
        .ok_or_else(|| source.error(block.at, "'share_of_raw' of what was published is missing"))?;
    Ok(PublishedShare {
        stack: stack.name.clone(),
        layer: layer(source, block, stack)?,
        workload: workload.value.to_owned(),
        jobs: jobs(source, block, of_step)?,
        share_of_raw,
        rate: number("rate"),
        source: block.text("source").or_else(|| root.text("source")).map(str::to_owned),
    })
}

/// The uppermost layer, or the uppermost one of the word.
fn layer(source: Source<'_>, block: &Block, stack: &DeclaredStack) -> Result<usize, SpecError> {
    let Some(word) = block.texts("layer").next() else {
        return Ok(stack.layers.len().saturating_sub(1));
    };
    let words: Vec<&str> = stack.layers.iter().map(|layer| layer.kind.name()).collect();
    words
        .iter()
        .rposition(|known| *known == word.value)
        .ok_or_else(|| unknown(source, "layer of this stack", (word.value, word.at), &words))
}

fn unknown(source: Source<'_>, what: &str, (name, at): (&str, usize), known: &[&str]) -> SpecError {
    let error = source.error(at, format!("there is no {what} '{}'", name.escape_debug()));
    match nearest(name, known.iter().copied()) {
        Some(meant) => error.hint(format!("did you mean '{meant}'?")),
        None => error.hint(format!("there are {}", known.join(", "))),
    }
}
