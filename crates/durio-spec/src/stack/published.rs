//! `[[published]]`: what somebody found on a point, to be set beside what is measured.

use durio_stack::DeclaredStack;

use crate::SpecError;
use crate::campaign::reader::Block;
use crate::campaign::text::{Source, nearest};
use crate::campaign::value::Value;

/// A published figure of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedShare {
    /// Name of the stack.
    pub stack: String,
    /// Which layer, from 0 at the bottom.
    pub layer: usize,
    /// Name of the step.
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

/// Reads all of them; each must be of a stack, a layer and a step that are there.
pub(super) fn published(
    source: Source<'_>,
    root: &Block,
    stacks: &[DeclaredStack],
) -> Result<Vec<PublishedShare>, SpecError> {
    root.blocks("published").map(|block| one(source, root, block, stacks)).collect()
}

fn one(
    source: Source<'_>,
    root: &Block,
    block: &Block,
    stacks: &[DeclaredStack],
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
    let steps: Vec<&str> = root.blocks("step").filter_map(|step| step.text("name")).collect();
    if !steps.contains(&workload.value) {
        return Err(unknown(source, "step", (workload.value, workload.at), &steps));
    }
    let share_of_raw = number("share_of_raw")
        .ok_or_else(|| source.error(block.at, "'share_of_raw' of what was published is missing"))?;
    Ok(PublishedShare {
        stack: stack.name.clone(),
        layer: layer(source, block, stack)?,
        workload: workload.value.to_owned(),
        jobs: match block.value("jobs").map(|placed| &placed.value) {
            Some(Value::Count(jobs)) => Some(*jobs),
            _ => None,
        },
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
