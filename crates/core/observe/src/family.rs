//! A device with everything that a write to it would harm: its partitions, and the holders of any
//! of them. Mounts and swap are looked at elsewhere.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::block_node::{self, DeviceNumber};
use crate::identity::device_of_source;
use crate::identity::{ObservedSystem, PathIdentity};
use crate::system_dir::SystemDir;

/// A device or filesystem built on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub device: String,
    /// The holder: an array, a volume, a loop device, a filesystem of several devices.
    pub holder: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Subject {
    /// A block device, by its directory in sysfs.
    Device(SystemDir),
    /// A regular file: a name of it, and by what all its names are known.
    File {
        /// Only for messages: a path may lead elsewhere by now.
        path: PathBuf,
        /// Device of its filesystem.
        device: DeviceNumber,
        inode: u64,
    },
}

impl Subject {
    /// True if this is the same file, by whatever name: a hard link, a bind mount.
    pub(crate) fn is_file(&self, identity: &PathIdentity) -> bool {
        match self {
            Self::Device(_) => false,
            Self::File { device, inode, .. } => {
                (*device, *inode) == (identity.device, identity.inode)
            }
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Device(dir) => dir.name(),
            Self::File { path, .. } => path.display().to_string(),
        }
    }

    /// The directory of a device in sysfs, where a file has none.
    pub(crate) fn dir(&self) -> Option<&SystemDir> {
        match self {
            Self::Device(dir) => Some(dir),
            Self::File { .. } => None,
        }
    }

    pub(crate) fn disk(&self) -> Option<SystemDir> {
        self.dir().map(|dir| block_node::disk_of(dir).unwrap_or_else(|| dir.clone()))
    }

    pub(crate) fn partitions(&self) -> Vec<SystemDir> {
        self.dir().map(block_node::partitions_of).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
pub(crate) struct DeviceFamily {
    pub(crate) members: Vec<SystemDir>,
    pub(crate) holders: Vec<Holder>,
}

impl DeviceFamily {
    pub(crate) fn of(system: ObservedSystem<'_>, subject: &Subject) -> Self {
        let loops = loop_devices(system.root);
        let mut family = Self::default();
        match subject {
            Subject::Device(dir) => family.add_with_partitions(dir),
            Subject::File { .. } => family.add_loops_on_file(&loops, system, subject),
        }
        // A holder of the whole disk holds a part of it too; the disk's other parts do not matter.
        family.members.extend(subject.disk().filter(|disk| !family.has(&disk.name())));
        // Members are added during the loop: a holder may have holders itself.
        let mut next = 0;
        while let Some(dir) = family.members.get(next).cloned() {
            family.add_holders_of(system.root, &dir);
            family.add_loops_on_device(&loops, system, &dir);
            next += 1;
        }
        family
    }

    /// True if the device of this name is concerned.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name() == name)
    }

    fn add_with_partitions(&mut self, dir: &SystemDir) {
        for dir in [dir.clone()].into_iter().chain(block_node::partitions_of(dir)) {
            if !self.has(&dir.name()) {
                self.members.push(dir);
            }
        }
    }

    fn add_holders_of(&mut self, root: &SystemDir, dir: &SystemDir) {
        for (holder, found) in block_node::linked(root, dir, "holders") {
            self.holders.push(Holder { device: dir.name(), holder });
            if let Some(found) = found {
                self.add_with_partitions(&found);
            }
        }
    }

    /// The kernel does not list a loop device among the holders of its backing device.
    fn add_loops_on_device(
        &mut self,
        loops: &[LoopDevice],
        system: ObservedSystem<'_>,
        dir: &SystemDir,
    ) {
        for (loop_dir, backing) in loops {
            let below = device_of_source(system, backing.as_os_str());
            if below.is_some_and(|below| below.name() == dir.name()) {
                self.add_loop(dir.name(), loop_dir);
            }
        }
    }

    fn add_loops_on_file(
        &mut self,
        loops: &[LoopDevice],
        system: ObservedSystem<'_>,
        file: &Subject,
    ) {
        for (loop_dir, backing) in loops {
            // By device and inode: a hard link or a bind mount is the same file by another name.
            if (system.identify)(backing).is_ok_and(|identity| file.is_file(&identity)) {
                self.add_loop(file.name(), loop_dir);
            }
        }
    }

    fn add_loop(&mut self, device: String, loop_dir: &SystemDir) {
        self.holders.push(Holder { device, holder: loop_dir.name() });
        self.add_with_partitions(loop_dir);
    }
}

/// A loop device, and its backing path.
type LoopDevice = (SystemDir, PathBuf);

/// All that are in use.
fn loop_devices(root: &SystemDir) -> Vec<LoopDevice> {
    let names = root.names("sys/block").into_iter();
    let loops = names.filter(|name| name.starts_with("loop"));
    let dirs = loops.filter_map(|name| block_node::by_name(root, &name));
    dirs.filter_map(|dir| Some((dir.clone(), dir.path_value("loop/backing_file")?))).collect()
}
