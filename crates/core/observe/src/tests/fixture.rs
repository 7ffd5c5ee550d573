//! Made-up trees of `/sys` and `/proc` for the tests.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use tempfile::TempDir;

use crate::block_node::DeviceNumber;
use crate::family::Subject;
use crate::identity::{FileKind, PathIdentity};
use crate::system_dir::SystemDir;

/// A tree in a temporary directory, and the files that the system is to know of.
pub(crate) struct Fixture {
    dir: TempDir,
    known: RefCell<HashMap<PathBuf, PathIdentity>>,
    inodes: Cell<u64>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), known: RefCell::default(), inodes: Cell::new(2) }
    }

    pub(crate) fn root(&self) -> SystemDir {
        SystemDir::at(self.dir.path())
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn files(&self, dir: &str, rows: &[(&str, &str)]) {
        for (name, content) in rows {
            self.file(&format!("{dir}/{name}"), format!("{content}\n"));
        }
    }

    /// A symbolic link at `path` to `target`, both relative to the root.
    pub(crate) fn link(&self, path: &str, target: &str) {
        let link = self.dir.path().join(path);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let up = "../".repeat(path.split('/').count() - 1);
        symlink(format!("{up}{target}"), link).unwrap();
    }

    pub(crate) fn mounts(&self, text: impl AsRef<[u8]>) {
        self.file("proc/self/mountinfo", text);
    }

    /// A block device whose directory is `path`, known by number and name.
    pub(crate) fn block(&self, path: &str, number: &str) -> SystemDir {
        let name = path.rsplit('/').next().unwrap();
        self.files(path, &[("dev", number), ("size", "2097152"), ("ro", "0")]);
        self.link(&format!("sys/dev/block/{number}"), path);
        self.link(&format!("sys/class/block/{name}"), path);
        self.link(&format!("sys/block/{name}"), path);
        self.root().follow(path).unwrap()
    }

    fn queue(&self, path: &str, write_cache: &str, fua: &str) {
        self.files(
            &format!("{path}/queue"),
            &[
                ("write_cache", write_cache),
                ("fua", fua),
                ("rotational", "0"),
                ("scheduler", "none [mq-deadline] kyber"),
                ("logical_block_size", "512"),
            ],
        );
    }

    pub(crate) fn virtio_disk(&self, name: &str, number: &str) -> SystemDir {
        let bus = "sys/devices/pci0000:00/virtio1";
        let path = format!("{bus}/block/{name}");
        let dir = self.block(&path, number);
        self.queue(&path, "write back", "0");
        self.files(&path, &[("cache_type", "write back"), ("serial", "overlayblk")]);
        self.files(bus, &[("features", "0010001001100100"), ("vendor", "0x1af4")]);
        self.link(&format!("{path}/device"), bus);
        dir
    }

    pub(crate) fn scsi_disk(&self, name: &str, number: &str) -> SystemDir {
        let bus = format!("sys/devices/pci0000:01/host0/target-{name}/0:0:0:0");
        let path = format!("{bus}/block/{name}");
        let dir = self.block(&path, number);
        self.queue(&path, "write back", "0");
        self.files("sys/devices/pci0000:01", &[("numa_node", "1")]);
        self.files(&bus, &[("model", "HARDDISK"), ("vendor", "ATA     ")]);
        self.file(&format!("{bus}/vpd_pg80"), b"\0\x80\0\x06S3RIAL");
        self.files(
            &format!("{bus}/scsi_disk/0:0:0:0"),
            &[("cache_type", "write through"), ("FUA", "0")],
        );
        self.link(&format!("{path}/device"), &bus);
        dir
    }

    pub(crate) fn nvme_disk(&self, name: &str, number: &str) -> SystemDir {
        let controller = name.split_at(name.rfind('n').unwrap()).0;
        let bus = format!("sys/devices/pci0000:02/nvme/{controller}");
        let path = format!("{bus}/{name}");
        let dir = self.block(&path, number);
        self.queue(&path, "write through", "1");
        self.files(&bus, &[("model", "FASTDISK 3000"), ("serial", "N1"), ("transport", "pcie")]);
        self.link(&format!("{path}/device"), &bus);
        dir
    }

    /// The directory of the device of this name, relative to the root.
    pub(crate) fn path_of(&self, name: &str) -> String {
        let dir = self.root().follow(format!("sys/class/block/{name}")).unwrap();
        let root = fs::canonicalize(self.dir.path()).unwrap();
        dir.path().strip_prefix(root).unwrap().display().to_string()
    }

    /// A partition of a disk that is already there.
    pub(crate) fn partition(&self, disk: &str, name: &str, number: &str, index: u32) -> SystemDir {
        let path = format!("{}/{name}", self.path_of(disk));
        self.file(&format!("{path}/partition"), format!("{index}\n"));
        self.file(&format!("{path}/start"), "2048\n");
        self.block(&path, number)
    }

    /// A device that stands on others, with both directions linked.
    pub(crate) fn stacked(&self, name: &str, number: &str, below: &[&str]) -> SystemDir {
        let path = format!("sys/devices/virtual/block/{name}");
        let dir = self.block(&path, number);
        for slave in below {
            let slave_path = self.path_of(slave);
            self.link(&format!("{path}/slaves/{slave}"), &slave_path);
            self.link(&format!("{slave_path}/holders/{name}"), &path);
        }
        dir
    }

    pub(crate) fn volume(&self, name: &str, number: &str, volume: &str, below: &[&str]) {
        self.stacked(name, number, below);
        let dm = format!("sys/devices/virtual/block/{name}/dm");
        self.files(&dm, &[("name", volume), ("uuid", "LVM-AbCdEf"), ("suspended", "0")]);
    }

    pub(crate) fn mirror(&self, name: &str, number: &str, below: &[&str]) {
        self.stacked(name, number, below);
        let md = format!("sys/devices/virtual/block/{name}/md");
        self.files(
            &md,
            &[
                ("level", "raid1"),
                ("raid_disks", "2"),
                ("degraded", "0"),
                ("consistency_policy", "bitmap"),
                ("bitmap/location", "+8"),
                ("dev-nvme0n1p1/state", "in_sync"),
            ],
        );
    }

    pub(crate) fn loop_device(&self, name: &str, number: &str, backing: impl AsRef<[u8]>) {
        let path = format!("sys/devices/virtual/block/{name}");
        self.block(&path, number);
        let mut content = backing.as_ref().to_vec();
        content.push(b'\n');
        self.file(&format!("{path}/loop/backing_file"), content);
        self.file(&format!("{path}/loop/dio"), "1\n");
    }

    /// Makes `path` known as a thing of this kind on a filesystem.
    pub(crate) fn knows(
        &self,
        path: impl AsRef<Path>,
        kind: FileKind,
        device: &str,
        mount_id: Option<u64>,
    ) {
        let absolute = path.as_ref().to_owned();
        self.inodes.set(self.inodes.get() + 1);
        let identity = PathIdentity {
            kind,
            absolute: absolute.clone(),
            device: device.parse().unwrap(),
            inode: self.inodes.get(),
            mount_id,
            size: Bytes::from_gib(4),
            free: Bytes::from_gib(3),
            direct_io: None,
        };
        self.known.borrow_mut().insert(absolute, identity);
    }

    /// Makes `name` known as another name of what is known as `path`, such as a hard link.
    pub(crate) fn knows_as(&self, name: &str, path: &str) {
        let mut known = self.known.borrow_mut();
        let identity = known.get(Path::new(path)).cloned().unwrap();
        known.insert(name.into(), PathIdentity { absolute: name.into(), ..identity });
    }

    /// Makes `name` known as a file of the same inode as `path`, on another filesystem.
    pub(crate) fn knows_on(&self, name: &str, device: &str, path: &str) {
        let mut known = self.known.borrow_mut();
        let identity = known.get(Path::new(path)).cloned().unwrap();
        let device = device.parse().unwrap();
        known.insert(name.into(), PathIdentity { absolute: name.into(), device, ..identity });
    }

    /// What is to be overwritten is this file.
    pub(crate) fn subject(&self, path: &str) -> Subject {
        let identity = self.known.borrow().get(Path::new(path)).cloned().unwrap();
        let PathIdentity { absolute, device, inode, .. } = identity;
        Subject::File { path: absolute, device, inode }
    }

    pub(crate) fn knows_block(&self, path: &str, number: &str) {
        let number: DeviceNumber = number.parse().unwrap();
        self.knows(path, FileKind::Block(number), "0:6", None);
    }

    pub(crate) fn identify(&self) -> impl Fn(&Path) -> io::Result<PathIdentity> + '_ {
        |path| self.known.borrow().get(path).cloned().ok_or(io::ErrorKind::NotFound.into())
    }
}
