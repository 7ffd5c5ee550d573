//! The walk from a path down to the devices, of this machine or of a copy of another machine's `/sys`
//! and `/proc`, read as that machine would be.
//!
//! A layer that vanishes or is hidden half-way becomes a layer of kind `Unknown`; only the target
//! itself must exist. A copy has no device nodes and no mounts, so a path's type follows from the
//! copied list of mounts and from sysfs.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use durio_base::Bytes;

use crate::block_facts::read_block_facts;
use crate::block_node::{self, DeviceNumber};
use crate::device_probe::{CopiedDevices, DeviceProbe, DeviceServer, LiveDevices, served};
use crate::dm_facts::dm_facts;
use crate::filesystem::{
    filesystem_facts, filesystem_state, filesystem_uuid, geometry, layer_kind,
};
use crate::host::host_in;
use crate::identity::{
    FileKind, ObservedSystem, PathIdentity, btrfs_devices, device_of_source, devices_of_source,
    identify,
};
use crate::layer::{Layer, LayerKind, Stack};
use crate::layer_facts::{bus_of, layer_facts};
use crate::mountinfo::{MountEntry, mount_of, parse_mountinfo};
use crate::system_dir::SystemDir;
use crate::{Fact, Host, StackError};

/// A guard against rings of layers, which the kernel does not allow.
const DEPTH_MAX: usize = 32;

/// A guard against layers that fan out again and again, as only a made-up tree has them.
const LAYERS_MAX: usize = 4096;

/// What the kernel appends to the name of a file that has been removed.
pub(crate) const DELETED: &[u8] = b" (deleted)";

/// The tree of layers under a file, a directory or a device.
///
/// For a file that does not exist yet, ask for its directory.
///
/// # Errors
/// If `path` does not exist or may not be looked at. What cannot be found out below it is a layer
/// of kind `Unknown`.
pub fn read_stack(path: &Path) -> Result<Stack, StackError> {
    let root = SystemDir::live_root();
    Survey::new(ObservedSystem { root: &root, identify: &identify }, &LiveDevices).stack(path)
}

pub(crate) struct Survey<'a> {
    system: ObservedSystem<'a>,
    probe: &'a dyn DeviceProbe,
    mounts: Vec<MountEntry>,
    /// How many more block layers may be added.
    left: Cell<usize>,
}

impl<'a> Survey<'a> {
    pub(crate) fn new(system: ObservedSystem<'a>, probe: &'a dyn DeviceProbe) -> Self {
        let mountinfo = system.root.bytes("proc/self/mountinfo").unwrap_or_default();
        let mounts = parse_mountinfo(&mountinfo);
        Self { system, probe, mounts, left: Cell::new(LAYERS_MAX) }
    }

    pub(crate) fn stack(&self, path: &Path) -> Result<Stack, StackError> {
        let identity =
            (self.system.identify)(path).map_err(|error| StackError::from_io(path, error))?;
        let root = self.layer_of(path, &identity, 0);
        Ok(Stack { target: path.display().to_string(), root })
    }

    /// The layer of a path that another layer names.
    fn layer_at(&self, path: &Path, depth: usize) -> Layer {
        match (self.system.identify)(path) {
            // A relative name is relative to the process that made the layer, not to this one.
            Ok(identity) if path.is_absolute() => self.layer_of(path, &identity, depth),
            _ => unknown(path.display().to_string()),
        }
    }

    fn layer_of(&self, path: &Path, identity: &PathIdentity, depth: usize) -> Layer {
        let name = path.display().to_string();
        match identity.kind {
            FileKind::Block(number) => self.device_layer(number, depth),
            FileKind::Character(number) => {
                let device = Some(number.to_string());
                Layer { device, ..Layer::new(LayerKind::CharacterDevice, name) }
            }
            FileKind::Regular => self.on_filesystem(LayerKind::File, name, identity, depth),
            FileKind::Directory => self.on_filesystem(LayerKind::Directory, name, identity, depth),
            FileKind::Other => unknown(name),
        }
    }

    fn on_filesystem(
        &self,
        kind: LayerKind,
        name: String,
        identity: &PathIdentity,
        depth: usize,
    ) -> Layer {
        let below = vec![self.filesystem_layer(identity, depth + 1)];
        Layer { below, ..Layer::new(kind, name) }
    }

    fn filesystem_layer(&self, identity: &PathIdentity, depth: usize) -> Layer {
        let Some(mount) = mount_of(&self.mounts, identity.mount_id, &identity.absolute) else {
            return self.filesystem_without_mount(identity.device, depth);
        };
        let mut facts = filesystem_facts(mount, identity);
        let mut layer =
            Layer::new(layer_kind(&mount.fs_type), mount.mount_point.display().to_string());
        layer.device = Some(mount.device.to_string());
        layer.below = self.below_mount(mount, depth + 1);
        if let Some(device) = layer.below.first().filter(|below| below.block.is_some()) {
            facts.uuid = filesystem_uuid(self.system.root, &layer.below);
            layer.facts = filesystem_state(self.system.root, &mount.fs_type, &device.name);
            if let Some(dir) = block_node::by_name(self.system.root, &device.name) {
                layer.facts.extend(geometry(self.system.root, self.probe, mount, &dir));
            }
        }
        facts.memory_backed = layer.ends_in_memory();
        layer.filesystem = Some(facts);
        layer
    }

    /// Where `/proc` shows no mounts, the device number still leads on.
    fn filesystem_without_mount(&self, device: DeviceNumber, depth: usize) -> Layer {
        let mut layer = unknown("filesystem");
        layer.device = Some(device.to_string());
        if !device.is_anonymous() {
            layer.below = vec![self.device_layer(device, depth + 1)];
        }
        layer
    }

    fn below_mount(&self, mount: &MountEntry, depth: usize) -> Vec<Layer> {
        match layer_kind(&mount.fs_type) {
            LayerKind::Memory | LayerKind::Network => Vec::new(),
            LayerKind::Overlay => self.below_overlay(mount, depth),
            // fuseblk (ntfs-3g) has the number of its device, and plain FUSE an anonymous one.
            LayerKind::Fuse if mount.device.is_anonymous() => Vec::new(),
            _ => self.below_filesystem(mount, depth),
        }
    }

    /// Writes and syncs go to the upper directory; without one, reads go to the lower ones.
    fn below_overlay(&self, mount: &MountEntry, depth: usize) -> Vec<Layer> {
        let lower = || mount.option_value("lowerdir").unwrap_or_default().as_bytes();
        match mount.option_value("upperdir") {
            Some(upper) => vec![self.layer_at(Path::new(upper), depth)],
            None => lower()
                .split(|byte| *byte == b':')
                .filter(|path| !path.is_empty())
                .map(|path| self.layer_at(Path::new(OsStr::from_bytes(path)), depth))
                .collect(),
        }
    }

    fn below_filesystem(&self, mount: &MountEntry, depth: usize) -> Vec<Layer> {
        let mut layers = self.data_devices(mount, depth);
        for (option, role) in [("logdev", "external_log"), ("rtdev", "realtime_data")] {
            layers.extend(self.further_device(mount, option, role, depth));
        }
        layers
    }

    fn data_devices(&self, mount: &MountEntry, depth: usize) -> Vec<Layer> {
        if !mount.device.is_anonymous() {
            return vec![self.device_layer(mount.device, depth)];
        }
        // btrfs, bcachefs and ZFS have anonymous numbers: only the source leads to devices.
        let named = devices_of_source(self.system, &mount.source);
        let devices = match <[SystemDir; 1]>::try_from(named) {
            // mountinfo names only one of several devices.
            Ok([member]) if mount.fs_type == "btrfs" => btrfs_devices(self.system.root, member),
            Ok([only]) => vec![only],
            Err(devices) => devices,
        };
        if devices.is_empty() {
            return vec![unknown(mount.source.to_string_lossy())];
        }
        devices.iter().map(|dir| self.block_layer(dir, depth)).collect()
    }

    fn further_device(
        &self,
        mount: &MountEntry,
        option: &str,
        role: &str,
        depth: usize,
    ) -> Option<Layer> {
        let source = mount.option_value(option)?;
        let mut layer = match device_of_source(self.system, source) {
            Some(dir) => self.block_layer(&dir, depth),
            None => unknown(source.to_string_lossy()),
        };
        // Else a log device would pass for a second data device.
        layer.facts.push(Fact::new("role", role));
        Some(layer)
    }

    fn device_layer(&self, number: DeviceNumber, depth: usize) -> Layer {
        match block_node::by_number(self.system.root, number) {
            Some(dir) => self.block_layer(&dir, depth),
            None => Layer { device: Some(number.to_string()), ..unknown("block device") },
        }
    }

    fn block_layer(&self, dir: &SystemDir, depth: usize) -> Layer {
        let left = self.left.get();
        if depth > DEPTH_MAX || left == 0 {
            return unknown(dir.name());
        }
        // Shared by the whole walk: each layer may have several below it, and each of those again.
        self.left.set(left - 1);
        let kind = block_node::kind_of(dir);
        let mut layer = Layer {
            device: dir.text("dev"),
            block: Some(read_block_facts(dir)),
            facts: self.block_layer_facts(kind, dir),
            below: self.below_block(kind, dir, depth + 1),
            ..Layer::new(kind, dir.name())
        };
        if kind == LayerKind::Ublk {
            self.add_served(&mut layer, depth + 1);
        }
        layer
    }

    fn add_served(&self, layer: &mut Layer, depth: usize) {
        let kind_of = |path: &PathBuf| (self.system.identify)(path).map(|identity| identity.kind);
        let is_block = |path: &PathBuf| matches!(kind_of(path), Ok(FileKind::Block(_)));
        let DeviceServer { below, facts } = served(self.system.root, &layer.name, is_block);
        layer.facts.splice(0..0, facts);
        layer.below.extend(below.iter().map(|path| self.layer_at(path, depth)));
    }

    fn block_layer_facts(&self, kind: LayerKind, dir: &SystemDir) -> Vec<Fact> {
        let mut facts = layer_facts(self.system.root, kind, dir);
        facts.extend(match kind {
            LayerKind::Dm => dm_facts(&self.probe.volume_table(dir)),
            LayerKind::Disk => self.probe.identity(dir, bus_of(dir)),
            _ => Vec::new(),
        });
        facts
    }

    fn below_block(&self, kind: LayerKind, dir: &SystemDir, depth: usize) -> Vec<Layer> {
        match kind {
            LayerKind::Partition => {
                block_node::disk_of(dir).iter().map(|disk| self.block_layer(disk, depth)).collect()
            }
            LayerKind::Loop => self.below_loop(dir, depth).into_iter().collect(),
            _ => block_node::linked(self.system.root, dir, "slaves")
                .into_iter()
                .map(|(name, slave)| match slave {
                    Some(slave) => self.block_layer(&slave, depth),
                    None => unknown(name),
                })
                .collect(),
        }
    }

    fn below_loop(&self, dir: &SystemDir, depth: usize) -> Option<Layer> {
        let file = dir.path_value("loop/backing_file")?;
        // A file of that name may be another one, made since.
        let removed = file.as_os_str().as_bytes().ends_with(DELETED);
        let layer = if removed || depth > DEPTH_MAX {
            unknown(file.display().to_string())
        } else {
            self.layer_at(&file, depth)
        };
        Some(layer)
    }
}

fn unknown(name: impl Into<String>) -> Layer {
    Layer::new(LayerKind::Unknown, name)
}

/// The tree of layers under a path of the machine whose `/sys` and `/proc` are copied below `root`.
///
/// A path is a device if it is below `/dev` and sysfs knows it, a file if the copy holds one there,
/// and else a directory of the mount that it is below. Sizes of filesystems are zero. No device of
/// this machine is asked: tables of volumes are those of a file `dmsetup_table` at the root, as
/// `dmsetup table` prints them, superblocks those of a file `dev/NAME` with a device's first 4 KiB.
///
/// # Errors
/// If the path is below no mount of the copy.
pub fn read_stack_in(root: &Path, path: &Path) -> Result<Stack, StackError> {
    let root = SystemDir::at(root);
    let mounts = parse_mountinfo(&root.bytes("proc/self/mountinfo").unwrap_or_default());
    let identify = |path: &Path| identify_copied(&root, &mounts, path);
    Survey::new(ObservedSystem { root: &root, identify: &identify }, &CopiedDevices(&root))
        .stack(path)
}

/// The machine whose `/sys` and `/proc` are copied below `root`; its architecture is this one's.
pub fn read_host_in(root: &Path) -> Host {
    host_in(&SystemDir::at(root))
}

fn identify_copied(
    root: &SystemDir,
    mounts: &[MountEntry],
    path: &Path,
) -> io::Result<PathIdentity> {
    // Nodes of this machine must not be taken for those of the copied one.
    let unknown = |_: &Path| Err(io::ErrorKind::NotFound.into());
    let device = device_of_source(ObservedSystem { root, identify: &unknown }, path.as_os_str());
    let number = device.as_ref().and_then(block_node::number_of);
    // A copied list has identifiers that no path here can be asked for.
    let mount = mount_of(mounts, None, path).ok_or(io::ErrorKind::NotFound)?;
    let relative = path.strip_prefix("/").unwrap_or(path);
    let kind = match number {
        Some(number) => FileKind::Block(number),
        None if root.path().join(relative).is_file() => FileKind::Regular,
        None => FileKind::Directory,
    };
    Ok(PathIdentity {
        kind,
        absolute: path.to_owned(),
        device: mount.device,
        inode: 0,
        mount_id: None,
        size: Bytes::ZERO,
        free: Bytes::ZERO,
        direct_io: None,
    })
}

#[cfg(test)]
mod tests;
