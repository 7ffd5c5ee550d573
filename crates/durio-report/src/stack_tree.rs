//! The layers under a path as a tree, and as one JSON document.
//!
//! In: [`Stack`]s. Out: bytes, into a writer. Not here: what is said of a layer (`stack_tree/`),
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

use durio_stack::{Layer, Stack};
use serde::Serialize;

use crate::text::page::{Look, Page};
use crate::{AuditFormat, Options};

/// How stacks are written down: as findings of an audit are.
pub type StackFormat = AuditFormat;

/// The form of the JSON document.
pub const STACK_SCHEMA: &str = "durio-stack-1";

#[derive(Serialize)]
struct Document<'a> {
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
    match format {
        StackFormat::Text => out.write_all(text(stacks, options).as_bytes()),
        StackFormat::Json => {
            let document = Document { schema: STACK_SCHEMA, stacks };
            crate::json::write_document(&document, out)
        }
    }
}

fn text(stacks: &[Stack], options: &Options) -> String {
    let mut page = Page::new(options);
    for (index, stack) in stacks.iter().enumerate() {
        if index > 0 {
            page.blank();
        }
        // What was told under another path would be far away.
        let mut tree = Tree { page: &mut page, told: Vec::new() };
        tree.layer(&stack.root, "", "");
    }
    page.text().to_owned()
}

/// The page, and the devices that were described on it.
struct Tree<'a, 'p> {
    page: &'p mut Page,
    told: Vec<&'a Layer>,
}

impl<'a> Tree<'a, '_> {
    /// Writes a layer and those below: `first` stands before its line, `further` before the rest.
    fn layer(&mut self, layer: &'a Layer, first: &str, further: &str) {
        let description = words::description(layer);
        if layer.block.is_some() && self.told.contains(&layer) {
            let line = format!("{}, as above", description.title);
            self.hanging(first, further, Look::Plain, &line);
            return;
        }
        self.told.push(layer);
        let mut line = description.title;
        for essential in &description.essential {
            line.push_str(" · ");
            line.push_str(essential);
        }
        let has_below = !layer.below.is_empty();
        let bar = format!("{further}{}", if has_below { "│   " } else { "    " });
        self.hanging(first, &bar, Look::Bold, &line);
        for (label, text) in &description.further {
            self.labelled(&bar, label, text);
        }
        self.below(layer, further);
    }

    fn below(&mut self, layer: &'a Layer, further: &str) {
        let count = layer.below.len();
        for (index, below) in layer.below.iter().enumerate() {
            let (branch, gap) =
                if index + 1 == count { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.layer(below, &format!("{further}{branch}"), &format!("{further}{gap}"));
        }
    }

    fn hanging(&mut self, first: &str, further: &str, look: Look, text: &str) {
        self.page.hanging(first, Look::Plain, further, look, text);
    }

    fn labelled(&mut self, bar: &str, label: &str, text: &str) {
        let first = format!("{bar}{label}: ");
        let further = format!("{bar}  ");
        self.page.hanging(&first, Look::Plain, &further, Look::Dim, text);
    }
}
