//! What is said of a layer: its title, what matters most, and the rest in groups.
//!
//! In: a layer. Out: a [`Description`]. Not here: drawing.

use durio_observe::{Layer, LayerKind};

use super::known::{Known, Parts};
use super::{device, filesystem, made};

/// The labels of what explains no figure: where that is the question, it is detail.
pub(super) const ASIDE: [&str; 4] = ["in effect", "features", "identity", "also"];

/// A layer in words.
pub(super) struct Description {
    /// What it is and what it is called.
    pub(super) title: String,
    /// What matters most, for the same line.
    pub(super) essential: Vec<String>,
    /// Further facts: a label and what belongs to it; none of them empty.
    pub(super) further: Vec<(&'static str, String)>,
}

/// What a function of a kind of layer has said: the title and the groups.
pub(super) struct Draft {
    pub(super) title: String,
    pub(super) essential: Parts,
    pub(super) further: Vec<(&'static str, Parts)>,
}

impl Draft {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), essential: Parts::default(), further: Vec::new() }
    }

    /// Adds a group, which is left out if it is empty.
    pub(super) fn group(&mut self, label: &'static str, parts: Parts) {
        self.further.push((label, parts));
    }
}

pub(super) fn description(layer: &Layer) -> Description {
    let known = Known::of(layer);
    let mut draft = draft(layer, &known);
    if let Some(role) = known.text("role") {
        draft.essential.say(role.replace('_', " "));
    }
    if let Some(block) = &layer.block {
        draft.further.extend(device::of_every_block(layer, block, &known));
    }
    let mut further: Vec<(&str, Vec<String>)> =
        draft.further.into_iter().map(|(label, parts)| (label, parts.all())).collect();
    further.push(("also", known.rest()));
    let said = further.into_iter().filter(|(_, parts)| !parts.is_empty());
    Description {
        title: draft.title,
        essential: draft.essential.all(),
        further: said.map(|(label, parts)| (label, parts.join(", "))).collect(),
    }
}

fn draft(layer: &Layer, known: &Known<'_>) -> Draft {
    if let Some(facts) = &layer.filesystem {
        return filesystem::draft(layer, facts, known);
    }
    match layer.kind {
        LayerKind::Md => made::array(layer, known),
        LayerKind::Dm => made::volume(layer, known),
        LayerKind::Loop => made::loop_device(layer, known),
        LayerKind::Zram => made::zram(layer, known),
        LayerKind::Nbd => made::nbd(layer, known),
        LayerKind::Bcache => made::bcache(layer, known),
        LayerKind::Partition => device::partition(layer, known),
        LayerKind::Disk => device::disk(layer, known),
        LayerKind::Memory => named("RAM disk", layer),
        LayerKind::Unknown => {
            let mut draft = named("unknown:", layer);
            draft.essential.say("nothing more is shown");
            draft
        }
        _ => named(kind(layer.kind), layer),
    }
}

/// The kind of a layer, in words.
pub(super) const fn kind(kind: LayerKind) -> &'static str {
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

/// The kind, the name, and the size if it is a device.
pub(super) fn named(kind: &str, layer: &Layer) -> Draft {
    let mut draft = Draft::new(format!("{kind} {}", layer.name));
    draft.essential.value(size(layer));
    draft
}

/// The size of a block device.
pub(super) fn size(layer: &Layer) -> Option<String> {
    layer.block.as_ref()?.size.map(|size| size.to_string())
}

pub(super) const fn yes_or_no(is_it: bool) -> &'static str {
    if is_it { "yes" } else { "no" }
}
