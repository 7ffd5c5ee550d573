//! The layers as boxes within boxes.

use askama::Template;
use durio_stack::Layer;

use crate::layer_facts::{Named, kind, other, relevant};

/// A layer, and those below it inside.
#[derive(Debug, Template)]
#[template(path = "layer.html")]
pub(super) struct LayerBox {
    kind: &'static str,
    name: String,
    facts: Vec<Named>,
    other: Vec<Named>,
    below: Vec<LayerBox>,
}

impl LayerBox {
    pub(super) fn of(layer: &Layer) -> Self {
        let name = match &layer.filesystem {
            Some(filesystem) => format!("{} at {}", filesystem.fs_type, filesystem.mount_point),
            None => layer.name.clone(),
        };
        Self {
            kind: kind(layer.kind),
            name,
            facts: relevant(layer),
            other: other(layer),
            below: layer.below.iter().map(Self::of).collect(),
        }
    }
}
