//! The block devices below a target, by the numbers that a trace names them with.
//!
//! Lists the layers below the target as [`TracedLayer`]s, top to bottom.

use std::path::Path;

use durio_observe::{Layer, LayerKind, Stack, has_request_queue, leaf_devices};
use durio_record::PathDevice;

use crate::trace_step::instance::device_filter;

/// A block device whose events are traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TracedLayer {
    pub(super) device: PathDevice,
    /// Its number, and those of its partitions on the way: I/O queued to a partition is done by the
    /// requests of its disk.
    pub(super) numbers: Vec<(u32, u32)>,
}

impl TracedLayer {
    pub(super) fn filter(&self) -> String {
        device_filter(self.numbers.iter().copied())
    }
}

pub(super) fn traced_layers(root: &Path, stack: &Stack) -> Vec<TracedLayer> {
    let lowest = leaf_devices(stack);
    let mut traced: Vec<TracedLayer> = Vec::new();
    for (_, layer) in stack.walk() {
        let number = layer.device.as_deref().and_then(number_of);
        let (Some(number), Some(disk)) = (number, disk_of(layer)) else { continue };
        match traced.iter_mut().find(|known| known.device.name == disk.name) {
            // A disk below several members of an array is met several times.
            Some(known) if known.numbers.contains(&number) => {}
            Some(known) => known.numbers.push(number),
            None => {
                let device = PathDevice {
                    name: disk.name.clone(),
                    lowest: lowest.contains(&disk.name),
                    requests: has_request_queue(root, &disk.name),
                };
                traced.push(TracedLayer { device, numbers: vec![number] });
            }
        }
    }
    traced
}

/// The device that does a layer's I/O: for a partition its disk; none if the layer is not a block
/// device.
fn disk_of(layer: &Layer) -> Option<&Layer> {
    match layer.kind {
        LayerKind::Partition => layer.below.first().filter(|disk| disk.block.is_some()),
        _ => layer.block.as_ref().map(|_| layer),
    }
}

fn number_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use durio_observe::BlockFacts;

    use super::*;

    fn layer(kind: LayerKind, name: &str, device: &str, below: Vec<Layer>) -> Layer {
        let has_block = !matches!(kind, LayerKind::Filesystem | LayerKind::File);
        Layer {
            kind,
            name: name.to_owned(),
            device: Some(device.to_owned()),
            filesystem: None,
            block: has_block.then(BlockFacts::default),
            facts: Vec::new(),
            below,
        }
    }

    #[test]
    fn partitions_count_as_their_disks_and_members_as_themselves() {
        let disk = |name: &str, device| layer(LayerKind::Disk, name, device, vec![]);
        let part = layer(LayerKind::Partition, "sda1", "8:1", vec![disk("sda", "8:0")]);
        let array = layer(LayerKind::Md, "md0", "9:0", vec![part, disk("sdb", "8:16")]);
        let filesystem = layer(LayerKind::Filesystem, "/mnt", "9:0", vec![array]);
        let stack = Stack { target: "/mnt/file".to_owned(), root: filesystem };
        let traced = traced_layers(Path::new("/nowhere"), &stack);
        let short: Vec<_> = traced
            .iter()
            .map(|layer| (layer.device.name.as_str(), layer.device.lowest, &layer.numbers[..]))
            .collect();
        let numbers: [&[(u32, u32)]; 3] = [&[(9, 0)], &[(8, 1), (8, 0)], &[(8, 16)]];
        let [md0, sda, sdb] = numbers;
        assert_eq!(short, [("md0", false, md0), ("sda", true, sda), ("sdb", true, sdb)]);
        assert_eq!(traced[1].filter(), "dev == 8388609 || dev == 8388608");
    }

    #[test]
    fn what_has_no_number_is_not_traced() {
        for device in ["", "8", "x:y", "8:-1"] {
            let root = layer(LayerKind::Disk, "sda", device, vec![]);
            let stack = Stack { target: "/dev/sda".to_owned(), root };
            assert_eq!(traced_layers(Path::new("/nowhere"), &stack), [], "{device}");
        }
    }
}
