//! From a name that a mount or a list of swaps gives, such as `/dev/sda1` or `/dev/mapper/vg-data`,
//! to the block device's directory in sysfs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::block_node;
use crate::identity::{FileKind, ObservedSystem};
use crate::system_dir::SystemDir;

/// The block device that `source` names, by its node or, where `/dev` lacks it, by its name.
pub(crate) fn device_of_source(system: ObservedSystem<'_>, source: &OsStr) -> Option<SystemDir> {
    let path = Path::new(source);
    // `tmpfs` and the like name nothing, and a relative path was relative to the mounting process.
    if !path.is_absolute() {
        return None;
    }
    match (system.identify)(path).map(|identity| identity.kind) {
        Ok(FileKind::Block(number)) => block_node::by_number(system.root, number),
        _ => by_node_name(system.root, path),
    }
}

fn by_node_name(root: &SystemDir, node: &Path) -> Option<SystemDir> {
    let name = node.strip_prefix("/dev").ok()?.to_str()?;
    match name.strip_prefix("mapper/") {
        // udev makes the link; a container may have none.
        Some(volume) => by_volume_name(root, volume),
        None => block_node::by_name(root, name),
    }
}

fn by_volume_name(root: &SystemDir, volume: &str) -> Option<SystemDir> {
    let named = |dir: &SystemDir| dir.text("dm/name").as_deref() == Some(volume);
    let names = root.names("sys/block").into_iter();
    names.filter_map(|name| block_node::by_name(root, &name)).find(named)
}

/// The devices of a mount's source; bcachefs joins several by colons.
pub(crate) fn devices_of_source(system: ObservedSystem<'_>, source: &OsStr) -> Vec<SystemDir> {
    if let Some(device) = device_of_source(system, source) {
        return vec![device];
    }
    let parts = source.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes);
    parts.filter_map(|part| device_of_source(system, part)).collect()
}

/// All devices of the mounted btrfs that `member` is one of; only `member` if none is shown.
pub(crate) fn btrfs_devices(root: &SystemDir, member: SystemDir) -> Vec<SystemDir> {
    match btrfs_of_member(root, &member.name()) {
        Some(filesystem) => {
            let devices = filesystem.join("devices");
            devices.names("").iter().filter_map(|name| devices.follow(name)).collect()
        }
        None => vec![member],
    }
}

/// The sysfs directory of the mounted btrfs that the device of this name is one of.
pub(crate) fn btrfs_of_member(root: &SystemDir, member: &str) -> Option<SystemDir> {
    let mut filesystems = root.children("sys/fs/btrfs").into_iter();
    filesystems.find(|filesystem| filesystem.join("devices").follow(member).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn name_of(fixture: &Fixture, source: &str) -> Option<String> {
        let identify = fixture.identify();
        let system = ObservedSystem { root: &fixture.root(), identify: &identify };
        let device = device_of_source(system, OsStr::new(source));
        device.map(|dir| dir.name())
    }

    #[test]
    fn a_device_without_a_node_is_found_by_its_name() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        fixture.volume("dm-3", "253:3", "vg-data", &["sda"]);
        assert_eq!(name_of(&fixture, "/dev/sda").as_deref(), Some("sda"));
        assert_eq!(name_of(&fixture, "/dev/mapper/vg-data").as_deref(), Some("dm-3"));
        assert_eq!(name_of(&fixture, "/dev/mapper/vg-other"), None);
        assert_eq!(name_of(&fixture, "tmpfs"), None);
        assert_eq!(name_of(&fixture, "server:/export"), None);
    }

    #[test]
    fn several_devices_may_be_joined_by_colons() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        fixture.scsi_disk("sdb", "8:16");
        let identify = fixture.identify();
        let source = OsStr::new("/dev/sda:/dev/sdb");
        let system = ObservedSystem { root: &fixture.root(), identify: &identify };
        let devices = devices_of_source(system, source);
        let names: Vec<_> = devices.iter().map(SystemDir::name).collect();
        assert_eq!(names, ["sda", "sdb"]);
    }
}
