//! The layers under a path as a document: a tree.
//!
//! A section for each [`Stack`]. The words for a kind of layer are in `stack_tree/`. Facts are not
//! judged, with one exception: a layer that arithmetic shows to be misaligned, degraded or below
//! its maximum is reported as such.
//!
//! Each layer has a line with its kind and its most important facts; further facts stand below it
//! in groups. Most facts are said by a row of a table: group, words, name of the fact, form. Each
//! is said once, and none is forgotten: facts without words stand under `also`. A device below
//! several layers is described once.

mod composed;
mod disk;

use std::collections::BTreeSet;
use std::fmt::Display;

use durio_base::Bytes;
use durio_observe::{Layer, LayerKind, Stack};
use serde::Serialize;

use crate::Report;
use crate::document::{DetailLevel, Document, LayerNode, Section, SectionBody};
use crate::figures::counted;

/// The form of the JSON document.
pub const STACK_SCHEMA: &str = "durio-stack-1";

/// The layers under each path, in order, each stack as it is in a run folder's record.
#[derive(Debug, Serialize)]
pub struct Stacks<'a> {
    schema: &'static str,
    stacks: &'a [Stack],
}

impl<'a> Stacks<'a> {
    /// Stacks with the schema of their document.
    pub const fn new(stacks: &'a [Stack]) -> Self {
        Self { schema: STACK_SCHEMA, stacks }
    }
}

impl Report for Stacks<'_> {
    fn document(&self) -> Document {
        let section = |stack: &Stack| {
            let mut section = Section::default();
            section.push(
                DetailLevel::Summary,
                SectionBody::Tree(vec![tree(&stack.root, DetailLevel::Summary)]),
            );
            section
        };
        Document { sections: self.stacks.iter().map(section).collect(), ..Document::default() }
    }
}

/// A layer and those below; facts that explain no result have the level `aside`.
pub(crate) fn tree(root: &Layer, aside: DetailLevel) -> LayerNode {
    // The list of one tree: a description under another path would be far away.
    node(root, aside, &mut Vec::new())
}

/// The layers in a line: `filesystem ext4 at /data on software RAID md0 on disk sda, disk sdb`.
pub(crate) fn in_short(stack: &Stack) -> String {
    // The path itself is already the title.
    let is_path = matches!(stack.root.kind, LayerKind::File | LayerKind::Directory);
    if is_path { on(&stack.root.below) } else { with_below(&stack.root) }
}

fn on(layers: &[Layer]) -> String {
    layers.iter().map(with_below).collect::<Vec<_>>().join(", ")
}

fn with_below(layer: &Layer) -> String {
    let model = layer.block.as_ref().and_then(|block| block.model.as_ref());
    let model = model.map_or_else(String::new, |model| format!(" ({model})"));
    let below = match layer.below.is_empty() {
        true => String::new(),
        false => format!(" on {}", on(&layer.below)),
    };
    format!("{}{model}{below}", LayerDraft::of(layer).title)
}

/// The labels of facts that explain no result: in a report on results they are detail.
const ASIDE: [&str; 4] = ["in effect", "features", "identity", "also"];

fn node<'a>(layer: &'a Layer, aside: DetailLevel, described: &mut Vec<&'a Layer>) -> LayerNode {
    let mut draft = LayerDraft::of(layer);
    // Files and filesystems have one place in a tree; only devices are shared by several layers.
    if layer.block.is_some() && described.contains(&layer) {
        return LayerNode { name: format!("{}, as above", draft.title), ..LayerNode::default() };
    }
    described.push(layer);
    // Facts of a newer kernel are shown too, before they have words here.
    draft.groups.push(("also", draft.rest()));
    let groups = draft.groups.into_iter().filter(|(_, parts)| !parts.is_empty());
    let (line, groups): (Vec<_>, Vec<_>) = groups.partition(|(label, _)| *label == LINE);
    let name = std::iter::once(draft.title).chain(line.into_iter().flat_map(|(_, parts)| parts));
    let is_shown = |label| aside < DetailLevel::Detail || !ASIDE.contains(&label);
    let groups = groups.into_iter().map(|(label, parts)| (label, parts.join(", ")));
    let (further, other) = groups.partition(|(label, _)| is_shown(*label));
    let below = layer.below.iter().map(|layer| node(layer, aside, described)).collect();
    LayerNode { name: name.collect::<Vec<_>>().join(" · "), further, other, below }
}

/// The group of the most important facts: it stands on the line of the title.
const LINE: &str = "";

/// How a fact is said; nothing is said of one that is absent.
#[derive(Clone, Copy)]
enum FactForm {
    Text,
    /// As it stands, unless it is a name for nothing, such as `none`.
    Set,
    /// A count of bytes other than zero; as it stands if it is not a number.
    Bytes,
    /// A count of the things that the words name.
    Count,
    /// In special words, or not at all.
    Words(fn(&str) -> Option<String>),
}

/// Group, words before the value, name of the fact, form.
type FactRow = (&'static str, &'static str, &'static str, FactForm);

/// A layer that is being described, and which of its facts were said.
struct LayerDraft<'a> {
    layer: &'a Layer,
    said: BTreeSet<&'a str>,
    title: String,
    /// In order of first use.
    groups: Vec<(&'static str, Vec<String>)>,
}

impl<'a> LayerDraft<'a> {
    fn of(layer: &'a Layer) -> Self {
        let what = match layer.kind {
            LayerKind::Memory => "RAM disk",
            LayerKind::Unknown => "unknown:",
            other => kind(other),
        };
        let title = format!("{what} {}", layer.name);
        let mut draft = Self { layer, said: BTreeSet::new(), title, groups: Vec::new() };
        match (&layer.filesystem, layer.kind) {
            (Some(facts), _) => composed::filesystem(&mut draft, facts),
            (_, LayerKind::Md) => composed::array(&mut draft),
            (_, LayerKind::Dm) => composed::volume(&mut draft),
            (_, LayerKind::Loop) => draft.device(composed::LOOP),
            (_, LayerKind::Zram) => composed::zram(&mut draft),
            (_, LayerKind::Nbd) => draft.device(composed::NBD),
            (_, LayerKind::Ublk) => {
                composed::served(&mut draft);
                disk::disk(&mut draft);
            }
            (_, LayerKind::Bcache) => draft.device(composed::BCACHE),
            (_, LayerKind::Partition) => disk::partition(&mut draft),
            (_, LayerKind::Disk) => disk::disk(&mut draft),
            (_, LayerKind::Unknown) => {
                draft.device(&[]);
                draft.say(LINE, "nothing more is shown");
            }
            _ => draft.device(&[]),
        }
        let role = draft.text("role").map(|role| role.replace('_', " "));
        draft.value(LINE, role);
        if let Some(block) = &layer.block {
            disk::every_block(&mut draft, block);
        }
        draft
    }

    /// The size, and the facts of the rows.
    fn device(&mut self, rows: &[FactRow]) {
        let size = self.layer.block.as_ref().and_then(|block| block.size);
        self.value(LINE, size.map(|size| size.to_string()));
        self.tell(rows);
    }

    /// A fact's value, which counts as said.
    fn text(&mut self, name: &str) -> Option<&'a str> {
        let fact = self.layer.facts.iter().find(|fact| fact.name == name)?;
        self.said.insert(&fact.name);
        Some(&fact.value)
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    fn bytes(&mut self, name: &str) -> Option<String> {
        bytes(self.text(name)?)
    }

    /// The rest of the name and the value of each fact whose name begins with `prefix`.
    fn with_prefix(&mut self, prefix: &str) -> Vec<(&'a str, &'a str)> {
        let mut found = Vec::new();
        for fact in &self.layer.facts {
            if let Some(rest) = fact.name.strip_prefix(prefix) {
                self.said.insert(&fact.name);
                found.push((rest, fact.value.as_str()));
            }
        }
        found
    }

    /// The facts not yet said, as `name value`.
    fn rest(&self) -> Vec<String> {
        let left = self.layer.facts.iter().filter(|fact| !self.said.contains(fact.name.as_str()));
        left.map(|fact| format!("{} {}", fact.name, fact.value)).collect()
    }

    fn say(&mut self, group: &'static str, words: impl Into<String>) {
        match self.groups.iter_mut().find(|(label, _)| *label == group) {
            Some((_, parts)) => parts.push(words.into()),
            None => self.groups.push((group, vec![words.into()])),
        }
    }

    /// Says a value, if there is one.
    fn value(&mut self, group: &'static str, value: Option<impl Into<String>>) {
        value.into_iter().for_each(|value| self.say(group, value));
    }

    /// Says `name value`, if there is one.
    fn named(&mut self, group: &'static str, name: &str, value: Option<impl Display>) {
        self.value(group, value.map(|value| format!("{name} {value}")));
    }

    /// Says the facts that the rows name, except those already said.
    fn tell(&mut self, rows: &[FactRow]) {
        for &(group, words, name, form) in rows {
            // A builder that words a fact itself, or has a reason to omit it, runs before the rows.
            if self.said.contains(name) {
                continue;
            }
            let Some(text) = self.text(name) else { continue };
            let value = match form {
                FactForm::Text => Some(text.to_owned()),
                // The kernel's words for nothing.
                FactForm::Set => {
                    (!matches!(text, "none" | "(null)" | "0")).then(|| text.to_owned())
                }
                FactForm::Bytes => bytes(text),
                FactForm::Count => text.parse().ok().map(|count| counted(count, words)),
                FactForm::Words(shown) => shown(text),
            };
            match words.is_empty() || matches!(form, FactForm::Count) {
                true => self.value(group, value),
                false => self.named(group, words, value),
            }
        }
    }
}

fn bytes(text: &str) -> Option<String> {
    match text.parse::<u64>() {
        Ok(0) => None,
        Ok(bytes) => Some(Bytes::new(bytes).to_string()),
        Err(_) => Some(text.to_owned()),
    }
}

const fn kind(kind: LayerKind) -> &'static str {
    match kind {
        LayerKind::File => "file",
        LayerKind::Directory => "directory",
        LayerKind::CharacterDevice => "character device",
        LayerKind::Filesystem => "filesystem",
        LayerKind::Partition => "partition",
        LayerKind::Md => "software RAID",
        LayerKind::Dm => "device-mapper volume",
        LayerKind::Loop => "loop device",
        LayerKind::Nbd => "network block device",
        LayerKind::Ublk => "device served by a process",
        LayerKind::Bcache => "bcache device",
        LayerKind::Zram => "compressed RAM disk",
        LayerKind::Disk => "disk",
        LayerKind::Memory => "memory",
        LayerKind::Network => "network filesystem",
        LayerKind::Fuse => "FUSE filesystem",
        LayerKind::Overlay => "overlay",
        LayerKind::Unknown => "unknown layer",
    }
}
