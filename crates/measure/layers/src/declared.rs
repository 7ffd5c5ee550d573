//! A stack as declared, from the bottom up, before it exists.
//!
//! Plain data: [`DeclaredStack`], a one-line description of each layer, and the approximate size of
//! its devices. Each layer turns a list of devices into a list of devices, or into one mounted
//! filesystem. The kinds of layers are in [`crate::kinds`].

use durio_base::Bytes;
use serde::{Deserialize, Serialize};

use crate::kinds::{DeclaredKind, SizesBelow};

/// Layers from the bottom up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredStack {
    /// Its name, unique within a spec.
    pub name: String,
    /// The layers; the first one is a source of devices.
    pub layers: Vec<DeclaredLayer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredLayer {
    #[serde(flatten)]
    pub kind: DeclaredKind,
    /// The devices below are divided into this number of equal groups, in order, and each group
    /// becomes one device; 1 by default. Used to nest arrays.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub groups: u32,
    /// True if the workloads are run on it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub measured: bool,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(value: &u32) -> bool {
    *value == 1
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_yes(value: &bool) -> bool {
    *value
}

impl DeclaredLayer {
    /// The layer in a line: `md RAID10 n2 chunk 16 KiB bitmap none`.
    pub fn label(&self) -> String {
        let words = self.kind.layer().label().into_iter().filter(|word| !word.is_empty());
        let label = words.collect::<Vec<_>>().join(" ");
        if self.groups > 1 { format!("{} × {label}", self.groups) } else { label }
    }
}

impl DeclaredStack {
    /// The approximate sizes of the devices after each layer: the space a layer keeps for itself is
    /// not known before it exists. For a filesystem, nine tenths of the sizes below. `existing`
    /// gives the size of an existing device.
    pub fn device_sizes(&self, existing: impl Fn(&str) -> Option<Bytes>) -> Vec<Vec<Bytes>> {
        let mut all: Vec<Vec<Bytes>> = Vec::new();
        for layer in &self.layers {
            let sizes = all.last().map_or(&[][..], Vec::as_slice);
            let below = SizesBelow { sizes, groups: layer.groups, existing: &existing };
            all.push(layer.kind.layer().sizes(below));
        }
        all
    }
}

/// What a layer keeps of its devices is estimated in whole MiB.
const GRAIN: Bytes = Bytes::from_mib(1);

/// The devices that become one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupSizes {
    pub(crate) count: u64,
    /// The smallest of them.
    pub(crate) least: u64,
    pub(crate) sum: u64,
}

/// One size for each group of devices.
pub(crate) fn per_group(below: SizesBelow<'_>, held: impl Fn(GroupSizes) -> u64) -> Vec<Bytes> {
    let length = below.sizes.len() / (below.groups.max(1) as usize);
    let groups = below.sizes.chunks(length.max(1)).map(|group| GroupSizes {
        count: group.len() as u64,
        least: group.iter().copied().min().unwrap_or(Bytes::ZERO).get(),
        sum: group.iter().fold(0_u64, |sum, size| sum.saturating_add(size.get())),
    });
    groups.map(|group| Bytes::new(held(group)).rounded_down_to(GRAIN)).collect()
}

/// The same of a filesystem, which has its tables on its devices too.
pub(crate) fn filesystem_sizes(
    below: SizesBelow<'_>,
    held: impl Fn(GroupSizes) -> u64,
) -> Vec<Bytes> {
    per_group(below, |group| held(group) / 10 * 9)
}
