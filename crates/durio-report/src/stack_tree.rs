//! The layers under a path as a document: a tree.
//!
//! In: [`Stack`]s. Out: a section for each. Not here: what is said of a layer (`stack_tree/`),
//! findings of a run, and any judgement of a fact but one: what arithmetic shows to be misaligned,
//! degraded or below its maximum is said so.
//!
//! Each layer has a line with what it is and what matters most; further facts stand below it. A
//! device that several layers stand on is described once.

mod device;
mod filesystem;
mod known;
mod made;
mod words;

use std::io;

use durio_observe::{Layer, Stack};
use serde::Serialize;

use crate::document::{Body, Document, Level, Node, Section};
use crate::{AuditFormat, Options};

/// How stacks are written down: as findings of an audit are.
pub type StackFormat = AuditFormat;

/// The form of the JSON document.
pub const STACK_SCHEMA: &str = "durio-stack-1";

#[derive(Serialize)]
struct Stacks<'a> {
    schema: &'static str,
    stacks: &'a [Stack],
}

/// Writes the layers under each path, in order.
///
/// The JSON document has its schema and the stacks as a list, each as it is in a run folder's record.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk.
pub fn write_stacks(
    format: StackFormat,
    stacks: &[Stack],
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let stacks = Stacks { schema: STACK_SCHEMA, stacks };
    format.of_all().write(&stacks, document, options, out)
}

fn document(stacks: &Stacks<'_>) -> Document {
    let section = |stack: &Stack| {
        let mut section = Section::default();
        section.push(Level::Summary, Body::Tree(vec![tree(&stack.root, Level::Summary)]));
        section
    };
    Document { sections: stacks.stacks.iter().map(section).collect(), ..Document::default() }
}

/// A layer and those below; what explains no figure is of the level `aside`.
pub(crate) fn tree(root: &Layer, aside: Level) -> Node {
    // What was told under another path would be far away.
    node(root, aside, &mut Vec::new())
}

fn node<'a>(layer: &'a Layer, aside: Level, told: &mut Vec<&'a Layer>) -> Node {
    let description = words::description(layer);
    if layer.block.is_some() && told.contains(&layer) {
        return Node { name: format!("{}, as above", description.title), ..Node::default() };
    }
    told.push(layer);
    let title = std::iter::once(description.title);
    let name: Vec<String> = title.chain(description.essential).collect();
    let is_shown = |label| aside < Level::Detail || !words::ASIDE.contains(&label);
    let (further, other): (Vec<_>, Vec<_>) =
        description.further.into_iter().partition(|(label, _)| is_shown(*label));
    let below = layer.below.iter().map(|it| node(it, aside, told)).collect();
    Node { name: name.join(" · "), further, other, below }
}
