//! What was measured on: the layers as a tree, and the machine.

use durio_analyse::Findings;
use durio_stack::Layer;

use super::page::{Look, Page};
use crate::facts::host_facts;
use crate::layer_facts::{relevant, title};

/// The widest name among the machine's facts: cgroup limits.
const NAME_WIDTH: usize = 13;

pub(super) fn write(findings: &Findings, page: &mut Page) {
    page.heading("Measured on");
    for stack in &findings.stack {
        layer(&stack.root, "  ", "  ", page);
    }
    for (name, value) in host_facts(&findings.host) {
        page.labelled(&name, NAME_WIDTH, Look::Plain, &value);
    }
}

/// Writes a layer and those below: `first` stands before its title, `further` before the rest.
fn layer(it: &Layer, first: &str, further: &str, page: &mut Page) {
    let facts: Vec<_> =
        relevant(it).into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    let text = match facts.is_empty() {
        true => title(it),
        false => format!("{}: {}", title(it), facts.join(", ")),
    };
    let bar = if it.below.is_empty() { "    " } else { "│   " };
    page.hanging(first, Look::Plain, &format!("{further}{bar}"), Look::Plain, &text);
    let count = it.below.len();
    for (index, below) in it.below.iter().enumerate() {
        let (branch, gap) =
            if index + 1 == count { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        layer(below, &format!("{further}{branch}"), &format!("{further}{gap}"), page);
    }
}
