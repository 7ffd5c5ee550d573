//! A copy of another machine's `/sys` and `/proc`, read as that machine would be.
//!
//! A copy has no device nodes and no mounts, so a path's type follows from the copied list of
//! mounts and from sysfs.

use std::io;
use std::path::Path;

use durio_base::Bytes;

use crate::block_node;
use crate::device_probe::CopiedDevices;
use crate::host::host_in;
use crate::identity::device_of_source;
use crate::identity::{FileKind, ObservedSystem, PathIdentity};
use crate::mountinfo::{MountEntry, mount_of, parse_mountinfo};
use crate::survey::Survey;
use crate::system_dir::SystemDir;
use crate::{Host, Stack, StackError};

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
mod tests {
    use super::*;
    use crate::tests::fixture::Fixture;
    use crate::{LayerKind, StackErrorKind};

    fn copied() -> Fixture {
        let fixture = Fixture::new();
        fixture.virtio_disk("vda", "254:0");
        fixture.loop_device("loop3", "7:3", "/srv/disk.img");
        fixture.file("srv/disk.img", "");
        fixture.mounts("27 1 254:0 / / rw - ext4 /dev/vda rw\n");
        fixture
    }

    fn outline(fixture: &Fixture, path: &str) -> Vec<LayerKind> {
        let stack = read_stack_in(fixture.root().path(), Path::new(path)).unwrap();
        stack.walk().map(|(_, layer)| layer.kind).collect()
    }

    #[test]
    fn directories_files_and_devices_are_told_apart_without_nodes() {
        use LayerKind::{Directory, Disk, File, Filesystem, Loop};
        let fixture = copied();
        assert_eq!(outline(&fixture, "/srv"), [Directory, Filesystem, Disk]);
        assert_eq!(outline(&fixture, "/dev/loop3"), [Loop, File, Filesystem, Disk]);
        assert_eq!(outline(&fixture, "/dev/vda"), [Disk]);
    }

    #[test]
    fn without_a_list_of_mounts_no_path_is_known() {
        let fixture = Fixture::new();
        let error = read_stack_in(fixture.root().path(), Path::new("/srv")).unwrap_err();
        assert_eq!(error.kind, StackErrorKind::NotFound);
    }

    #[test]
    fn the_copied_machine_tells_of_itself() {
        let fixture = copied();
        fixture.file("proc/sys/kernel/osrelease", "5.4.0-other\n");
        assert_eq!(read_host_in(fixture.root().path()).kernel, "5.4.0-other");
    }
}
