//! The tree of layers under a path.
//!
//! [`Stack`] and [`Layer`] are plain data, with ways to walk them.

use serde::{Deserialize, Serialize};

use crate::{BlockFacts, Fact, FilesystemFacts};

/// What kind of thing a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    File,
    Directory,
    /// A character device such as `/dev/zero`.
    CharacterDevice,
    /// A filesystem on block devices.
    Filesystem,
    /// A part of a disk.
    Partition,
    /// A software RAID array.
    Md,
    /// A device-mapper volume: LVM, dm-crypt, multipath, dm-cache.
    Dm,
    /// A file or device shown as a block device.
    Loop,
    /// A network block device.
    Nbd,
    /// A block device that a process serves, by ublk.
    Ublk,
    /// A cached device of bcache.
    Bcache,
    /// A compressed RAM disk.
    Zram,
    /// A device with nothing below it that the kernel shows.
    Disk,
    /// tmpfs, ramfs, or a RAM disk.
    Memory,
    /// A filesystem of another machine or of the host: NFS, CIFS, 9p, virtiofs, Ceph.
    Network,
    /// A filesystem served by a process.
    Fuse,
    /// An overlay of directories.
    Overlay,
    /// What could not be found out, or a kind that this version does not know.
    #[serde(other)]
    Unknown,
}

/// One layer and all that lies below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    pub kind: LayerKind,
    /// The kernel's name of a device, the mount point of a filesystem, or the path of a file.
    pub name: String,
    /// Major and minor number, as `8:1`.
    pub device: Option<String>,
    pub filesystem: Option<FilesystemFacts>,
    pub block: Option<BlockFacts>,
    /// What only this kind of layer has.
    #[serde(default)]
    pub facts: Vec<Fact>,
    /// The layers below; several for arrays.
    #[serde(default)]
    pub below: Vec<Layer>,
}

impl Layer {
    pub(crate) fn new(kind: LayerKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            device: None,
            filesystem: None,
            block: None,
            facts: Vec::new(),
            below: Vec::new(),
        }
    }

    /// The value of the fact of this name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
    }

    /// This layer and those below it, with their depth, top to bottom.
    pub fn walk(&self) -> impl Iterator<Item = (usize, &Self)> {
        let mut pending = vec![(0, self)];
        std::iter::from_fn(move || {
            let (depth, layer) = pending.pop()?;
            pending.extend(layer.below.iter().rev().map(|below| (depth + 1, below)));
            Some((depth, layer))
        })
    }

    pub(crate) fn ends_in_memory(&self) -> bool {
        match self.kind {
            LayerKind::Memory | LayerKind::Zram => true,
            _ => !self.below.is_empty() && self.below.iter().all(Self::ends_in_memory),
        }
    }

    fn is_lowest_block_device(&self) -> bool {
        let block_devices = self.walk().filter(|(_, layer)| layer.block.is_some()).count();
        // A loop device on a filesystem without a device below is the lowest, too.
        self.block.is_some() && block_devices == 1
    }
}

/// The tree of layers under a path, top to bottom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// The path as given; bytes that are not text are replaced.
    pub target: String,
    /// The path itself: a file, a directory or a device.
    pub root: Layer,
}

impl Stack {
    /// All layers with their depth, top to bottom; the root has depth 0.
    pub fn walk(&self) -> impl Iterator<Item = (usize, &Layer)> {
        self.root.walk()
    }

    /// True if all that is written ends in memory, and nothing survives a power cut.
    pub fn is_in_memory(&self) -> bool {
        self.root.ends_in_memory()
    }

    /// The topmost filesystem, which is what a file's I/O meets first.
    pub fn filesystem(&self) -> Option<&FilesystemFacts> {
        self.walk().find_map(|(_, layer)| layer.filesystem.as_ref())
    }
}

/// The kernel names of the block devices without another one below, each once, in order.
///
/// Their counters show the I/O that reaches the hardware. A loop device on a filesystem without a
/// device (tmpfs, NFS) is one of them.
pub fn leaf_devices(stack: &Stack) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (_, layer) in stack.walk() {
        if layer.is_lowest_block_device() && !names.contains(&layer.name) {
            names.push(layer.name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str) -> Layer {
        let mut layer = Layer::new(LayerKind::Disk, name);
        layer.block = Some(BlockFacts::default());
        layer
    }

    fn over(kind: LayerKind, below: Vec<Layer>) -> Layer {
        let mut layer = Layer::new(kind, format!("{kind:?}"));
        layer.below = below;
        layer
    }

    fn mirrored() -> Stack {
        let mut md = over(LayerKind::Md, vec![disk("sda"), disk("sdb"), disk("sda")]);
        md.block = Some(BlockFacts::default());
        Stack { target: "/db".into(), root: over(LayerKind::Filesystem, vec![md]) }
    }

    #[test]
    fn the_walk_goes_top_to_bottom_and_left_to_right() {
        let stack = mirrored();
        let seen: Vec<_> = stack.walk().map(|(depth, layer)| (depth, &*layer.name)).collect();
        assert_eq!(seen, [(0, "Filesystem"), (1, "Md"), (2, "sda"), (2, "sdb"), (2, "sda")]);
    }

    #[test]
    fn leaf_devices_are_named_once() {
        assert_eq!(leaf_devices(&mirrored()), ["sda", "sdb"]);
    }

    #[test]
    fn a_stack_survives_being_saved() {
        let stack = mirrored();
        let text = serde_json::to_string(&stack).unwrap();
        assert_eq!(serde_json::from_str::<Stack>(&text).unwrap(), stack);
    }

    #[test]
    fn a_kind_of_layer_from_a_later_version_is_unknown() {
        let text = r#"{"kind":"quantum_foam","name":"q0"}"#;
        let layer: Layer = serde_json::from_str(text).unwrap();
        assert_eq!(layer, Layer::new(LayerKind::Unknown, "q0"));
        assert_eq!(
            serde_json::to_string(&LayerKind::CharacterDevice).unwrap(),
            "\"character_device\""
        );
    }

    #[test]
    fn what_ends_in_memory_with_one_member_alone_does_not_end_in_it() {
        let zram = || Layer::new(LayerKind::Zram, "zram0");
        let memory = || Layer::new(LayerKind::Memory, "ram0");
        let rows = [
            (vec![zram(), memory()], true),
            (vec![zram(), disk("sda")], false),
            (vec![disk("sda"), zram()], false),
            (vec![over(LayerKind::Partition, vec![zram()])], true),
            (vec![], false),
        ];
        for (below, expected) in rows {
            let md = over(LayerKind::Md, below);
            let root = over(LayerKind::Filesystem, vec![md]);
            let stack = Stack { target: "/db".into(), root };
            assert_eq!(stack.is_in_memory(), expected, "{stack:?}");
        }
    }
}
