//! `[[published]]`: a published result for a point, to compare with the measured one.

use durio_layers::DeclaredStack;
use durio_plan::PublishedShare;

use super::file::{PublishedEntry, StackFile};
use crate::campaign::steps::StepLadder;
use crate::table::value::TimeScale;
use crate::table::{PlacedValue, SpecText};
use crate::{CampaignSpec, SpecError};

/// Reads all of them; each must be of a stack, a layer and a workload that are there.
pub(super) fn published(
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
    let several = workloads.iter().find(|it| it.step == name.value && it.names.len() > 1);
    if let Some(Workloads { step, names, .. }) = several {
        let text = format!("'{step}' is {} workloads", names.len());
        return Err(source.error(name.at, text).hint(format!("name one: {}", names.join("; "))));
    }
    let found = workloads.iter().find(|it| it.names.contains(name));
    found.ok_or_else(|| {
        let names = workloads.iter().flat_map(|it| &it.names).map(String::as_str);
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
        true => "jobs are no axis of it; leave them out".to_owned(),
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
    let missing = "'share_of_raw' of what was published is missing";
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
    found.ok_or_else(|| unknown(source, "layer of this stack", word, table.layer.at, &words))
}

fn unknown(source: SpecText<'_>, what: &str, name: &str, at: usize, known: &[&str]) -> SpecError {
    let what = format!("there is no {what} '{}'", name.escape_debug());
    source.unknown(name, at, what, known, "there are")
}
