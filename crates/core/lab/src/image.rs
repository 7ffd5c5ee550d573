//! The files that a guest is booted with.
//!
//! Makes an archive for the kernel once, and appends the orders for each boot.
//!
//! Always present: durio with its libraries, the modules by which the guest reaches its port (and
//! the shared root), and the orders below `/lab`. Everything else (modules for modprobe, programs,
//! files) is in the root of a hermetic guest, or in the layer over a shared root.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use durio_base::Bytes;
use durio_command::CommandError;
use durio_observe::LabFacts;
use durio_plan::proof::GuestFrontEnd;

use crate::cpio::Tree;
use crate::error::{cannot, cannot_read, memory_too_small, missing_tool};
use crate::modules::{Module, ModuleTree, closure, index_files};
use crate::programs::{KernelTools, Programs};
use crate::request::modules_of;
use crate::wire::{INIT_PATH, LAYER, ORDERS, Orders};
use crate::{LabRequest, LabRoot};

/// What a distribution's kernel needs to run, in addition to the files it is booted with.
const KERNEL_BYTES: u64 = 192 << 20;

/// Modules by which a guest reaches its host.
const PORT_MODULES: [&str; 2] = ["virtio_pci", "virtio_console"];
const SHARE_MODULES: [&str; 3] = ["9pnet_virtio", "9p", "overlay"];

/// Modules that stacks use, if the kernel has them.
const USEFUL_MODULES: &[&str] = &[
    "brd null_blk zram loop nbd ublk_drv",
    "raid0 raid1 raid10 raid456",
    "dm_mod dm_crypt dm_delay dm_flakey dm_raid dm_mirror dm_snapshot dm_thin_pool dm_integrity",
    "dm_log_writes",
    "ext4 xfs btrfs zfs overlay",
    // These are requested by the name of an algorithm, which no module's dependencies show: without
    // them mounting, mkfs or cryptsetup fails in a guest whose kernel has them as modules.
    "crc32c_generic crc32c_intel crc32c_x86_64 crct10dif_common xxhash_generic blake2b_generic",
    "sha256_generic sha256_ssse3 lzo lzo_rle lz4 zstd aes_generic aesni_intel xts cbc ecb essiv cryptd",
];

/// Programs of every hermetic guest, if they are installed here.
const USEFUL_PROGRAMS: &[&str] = &[
    "sh bash awk grep sed find xargs ps kill setsid cmp",
    "cat cp mv rm ln ls mkdir rmdir mknod touch chmod chown dd df du echo printf env false true test [",
    "head tail id nproc od readlink realpath seq sleep sort stat sync tee timeout tr truncate uname",
    "uniq wc cut date basename dirname expr md5sum sha256sum",
    "mount umount mountpoint findmnt losetup lsblk blkid wipefs blockdev blkdiscard fallocate sfdisk",
    "partprobe dmesg sysctl modprobe insmod rmmod lsmod modinfo",
    "mdadm dmsetup cryptsetup zramctl nbd-client fsfreeze fstrim",
    "lvm pvcreate vgcreate lvcreate lvremove vgremove pvremove lvs vgs pvs vgchange lvchange",
    "mkfs mkfs.ext4 tune2fs dumpe2fs fsck.ext4 mkfs.xfs xfs_info xfs_db xfs_io mkfs.btrfs btrfs",
    "zpool zfs",
];

/// The words of such a list.
fn words<'w>(list: &'w [&'w str]) -> impl Iterator<Item = &'w str> {
    list.iter().flat_map(|line| line.split(' '))
}

/// Settings of those programs.
// Without the first two, mkfs and lvm use their built-in defaults, not those of this machine; with
// the last the loader finds libraries in folders of /etc/ld.so.conf.
const USEFUL_FILES: &[&str] = &["/etc/mke2fs.conf", "/etc/lvm/lvm.conf", "/etc/ld.so.cache"];

/// The files of a guest, without its orders.
#[derive(Debug)]
pub(crate) struct GuestFiles {
    /// The archive, in memory that is freed when the file is closed.
    archive: File,
    /// The files of the modules that the guest itself loads, in order.
    modules: Vec<PathBuf>,
    made_for: LabRequest,
}

impl GuestFiles {
    pub(crate) fn of(request: &LabRequest) -> Result<Self, CommandError> {
        let (tree, modules) = tree(request)?;
        let files = Self { archive: tree.archive()?, modules, made_for: request.clone() };
        check_memory(request, files.length()?)?;
        Ok(files)
    }

    /// The archive for one boot, with its orders: the kernel unpacks several archives in sequence.
    pub(crate) fn with_orders(
        &self,
        request: &LabRequest,
        facts: &LabFacts,
    ) -> Result<File, CommandError> {
        let length = self.length()?;
        check_memory(request, length)?;
        let mut tree = Tree::default();
        put_orders(&mut tree, request, facts, &self.modules)?;
        tree.archive_behind(&self.archive, length)
    }

    /// Whether these files suffice for another request.
    pub(crate) fn serve(&self, other: &LabRequest) -> bool {
        let one = &self.made_for;
        let front_ends = |request: &LabRequest| -> BTreeSet<GuestFrontEnd> {
            request.disks.iter().map(|disk| disk.front_end).collect()
        };
        one.kernel == other.kernel
            && one.root == other.root
            && one.program == other.program
            && one.tools == other.tools
            && one.modules == other.modules
            && one.files == other.files
            && front_ends(other).is_subset(&front_ends(one))
    }

    fn length(&self) -> Result<u64, CommandError> {
        let metadata = self.archive.metadata();
        Ok(metadata.map_err(|error| cannot("make the guest's files", error))?.len())
    }
}

fn tree(request: &LabRequest) -> Result<(Tree, Vec<PathBuf>), CommandError> {
    let mut tree = Tree::default();
    base(&mut tree);
    let mut programs = Programs::with(KernelTools::of(&request.kernel));
    programs.add_file(&request.program)?;
    let modules = put_modules(&mut tree, request)?;
    if request.root == LabRoot::Shared {
        tree.directory(LAYER);
        tree.bytes(format!("{LAYER}/usr/local/bin/durio"), "");
    }
    if request.root == LabRoot::Hermetic {
        add_tools(&mut programs, request)?;
        for path in USEFUL_FILES.iter().map(Path::new).filter(|path| path.is_file()) {
            tree.host_file(path, path);
        }
    } else {
        put_kernel_tools(&mut tree, request)?;
    }
    put_programs(&mut tree, programs, &request.program);
    tree.host_file(INIT_PATH, &request.program);
    for file in &request.files {
        tree.host_tree(&placed(request, &file.guest), &file.source)?;
    }
    Ok((tree, modules))
}

/// The kernel holds the archive and its unpacked contents at the same time.
fn check_memory(request: &LabRequest, length: u64) -> Result<(), CommandError> {
    let needed = (2 * length + KERNEL_BYTES).next_multiple_of(1 << 20);
    if request.memory.get() < needed {
        let (given, needed) = (request.memory, Bytes::new(needed));
        return Err(memory_too_small(given, needed));
    }
    Ok(())
}

/// The files that every program expects: folders, links as on this machine, devices for the first
/// process, and users.
fn base(tree: &mut Tree) {
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
            tree.directory(Path::new("/").join(&target));
            tree.symlink(Path::new("/").join(name), target);
        }
    }
    for path in ["/dev", "/proc", "/sys", "/tmp", "/run", "/mnt", "/var/tmp", "/root", "/etc"] {
        tree.directory(path);
    }
    // The kernel opens it for the first process before anything can be mounted.
    tree.device("/dev/console", 5, 1);
    tree.device("/dev/null", 1, 3);
    tree.bytes("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    tree.bytes("/etc/group", "root:x:0:\ndisk:x:6:\n");
    tree.symlink("/etc/mtab", "/proc/self/mounts");
    tree.symlink("/usr/local/bin/durio", INIT_PATH);
}

fn add_tools(programs: &mut Programs, request: &LabRequest) -> Result<(), CommandError> {
    for name in words(USEFUL_PROGRAMS) {
        if programs.find(Path::new(name)).is_some() {
            programs.add(name)?;
        }
    }
    for name in &request.tools {
        programs.add(name)?;
    }
    let Some(command) = request.command.first().map(Path::new) else { return Ok(()) };
    // A command among the given files exists only once the guest runs.
    let is_given = request.files.iter().any(|file| command.starts_with(&file.guest));
    if command == OsStr::new("durio") || is_given {
        return Ok(());
    }
    // Without files, the command must be a program of this machine.
    match programs.find(command) {
        None if request.files.is_empty() => Err(missing_tool(&command.display().to_string())),
        None => Ok(()),
        Some(_) => programs.add(&command.to_string_lossy()),
    }
}

/// Over a shared root, only tools that belong to the kernel: the rest is there.
fn put_kernel_tools(tree: &mut Tree, request: &LabRequest) -> Result<(), CommandError> {
    let mut programs = Programs::with(KernelTools::of(&request.kernel));
    if let Some(tool) = request.tools.iter().find(|name| programs.find(Path::new(name)).is_none()) {
        return Err(missing_tool(tool));
    }
    let tools = request.tools.iter().map(String::as_str);
    for name in words(USEFUL_PROGRAMS).chain(tools) {
        if programs.find(Path::new(name)).is_some_and(|file| programs.is_of_kernel(&file)) {
            programs.add(name)?;
        }
    }
    for (path, file) in programs.files.iter().filter(|(_, file)| programs.is_of_kernel(file)) {
        tree.host_file(placed(request, path), file);
    }
    for (path, target) in programs.links.iter().filter(|(path, _)| path.components().count() > 2) {
        tree.symlink(placed(request, path), target);
    }
    Ok(())
}

/// All but durio itself, which exists once; its path on this machine becomes a link.
fn put_programs(tree: &mut Tree, programs: Programs, durio: &Path) {
    let durio = durio.canonicalize().unwrap_or_else(|_| durio.to_owned());
    for (path, file) in programs.files {
        // It is large, and the guest holds its files in memory.
        if file == durio {
            tree.symlink(path, INIT_PATH);
        } else {
            tree.host_file(path, file);
        }
    }
    for (path, target) in programs.links {
        // Those of the first level are there already.
        if path.components().count() > 2 {
            tree.symlink(path, target);
        }
    }
}

/// Adds the modules, and returns those that the guest itself loads, in order.
fn put_modules(tree: &mut Tree, request: &LabRequest) -> Result<Vec<PathBuf>, CommandError> {
    let (kernel, release) = (&request.kernel, request.kernel.release.as_str());
    let modules = ModuleTree::open(&kernel.modules)?;
    let mut needed: Vec<String> = PORT_MODULES.map(str::to_owned).to_vec();
    if request.root == LabRoot::Shared {
        needed.extend(SHARE_MODULES.map(str::to_owned));
    }
    let of_disks = request.disks.iter().flat_map(|disk| modules_of(disk.front_end));
    needed.extend(of_disks.map(|name| (*name).to_owned()));
    // Without those of the stacks: each loaded module lengthens the boot.
    let boot = closure(&modules, release, &needed, words(&[]))?;
    let mut order = Vec::new();
    for module in &boot {
        let path = PathBuf::from(format!("{ORDERS}/modules/{}.ko", module.name));
        tree.bytes(&path, module.content.clone());
        order.push(path);
    }
    // All once, each after those it needs.
    let mut all = boot;
    for module in closure(&modules, release, &request.modules, words(USEFUL_MODULES))? {
        if !all.iter().any(|known| known.name == module.name) {
            all.push(module);
        }
    }
    put_indexed(tree, request, all, &modules.built_in_list);
    Ok(order)
}

fn put_indexed(tree: &mut Tree, request: &LabRequest, modules: Vec<Module>, built_in: &str) {
    let folder = Path::new("/lib/modules").join(&request.kernel.release);
    let folder = placed(request, &folder);
    for (name, content) in index_files(&modules, built_in) {
        tree.bytes(folder.join(name), content);
    }
    for module in modules {
        tree.bytes(folder.join(module.path), module.content);
    }
}

/// The place of a guest's path in the archive. Links in this machine's top level are followed,
/// because a layer with a folder in place of a link would hide the contents below it.
fn placed(request: &LabRequest, path: &Path) -> PathBuf {
    let mut components =
        path.components().filter(|component| matches!(component, Component::Normal(_)));
    let first = components.next().map(|part| Path::new("/").join(part)).unwrap_or_default();
    let first = fs::read_link(&first).map(|target| Path::new("/").join(target)).unwrap_or(first);
    let settled = components.fold(first, |path, part| path.join(part));
    match request.root {
        LabRoot::Hermetic => settled,
        LabRoot::Shared => Path::new(LAYER).join(settled.strip_prefix("/").unwrap_or(&settled)),
    }
}

fn put_orders(
    tree: &mut Tree,
    request: &LabRequest,
    facts: &LabFacts,
    modules: &[PathBuf],
) -> Result<(), CommandError> {
    let shares_root = request.root == LabRoot::Shared;
    let directory = match request.root {
        LabRoot::Hermetic => PathBuf::from("/tmp"),
        LabRoot::Shared => std::env::current_dir().unwrap_or_else(|_| "/".into()),
    };
    let orders = Orders {
        modules: modules.to_vec(),
        disks: request.disks.iter().map(|disk| disk.serial.clone()).collect(),
        has_witness: request.has_witness,
        command: guest_command(request)?,
        environment: request.environment.clone(),
        directory: directory.into_os_string(),
        facts: facts.clone(),
        brings_out: request.out.is_some(),
        shares_root,
    };
    let text = orders.to_text().map_err(|error| cannot("write the guest's orders", error))?;
    tree.bytes(format!("{ORDERS}/{}", Orders::FILE), text);
    for (path, content) in &request.texts {
        tree.bytes(placed(request, path), content.clone());
    }
    Ok(())
}

/// A program named by a path of this machine is at the same absolute path in the guest.
fn guest_command(request: &LabRequest) -> Result<Vec<OsString>, CommandError> {
    let mut command = request.command.clone();
    if let Some(first) = command.first_mut()
        && first.as_bytes().contains(&b'/')
    {
        let path = Path::new(first);
        // A hermetic guest runs it in another folder.
        let absolute = std::path::absolute(path).map_err(|error| cannot_read(path, error))?;
        *first = absolute.into_os_string();
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;

    #[test]
    fn a_guest_has_room_for_192_mib_and_twice_its_archive() {
        let kernel = Kernel { release: "6".into(), image: "/k".into(), modules: "/m".into() };
        let request = LabRequest::new(kernel, "/durio".into(), vec!["true".into()]);
        let of = |mib: u64, length: u64| {
            let request = LabRequest { memory: Bytes::from_mib(mib), ..request.clone() };
            check_memory(&request, length)
        };
        assert!(of(192, 0).is_ok() && of(191, 0).is_err());
        // Whole mebibytes, rounded up.
        assert!(of(212, 10 << 20).is_ok() && of(212, (10 << 20) + 1).is_err());
        let error = of(212, (10 << 20) + 1).unwrap_err();
        assert_eq!(error.hints, ["give --memory 213 MiB or more"]);
    }
}
