//! Whether a device, or an image in a file, may be overwritten: its users and its contents.
//!
//! The command line decides. Anything unreadable is an error, for a doubt must not look like an
//! unused device.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use durio_base::Bytes;
use durio_block::{ErrorKind, HeldTarget, TargetIdentity, TargetType, Usage, loop_backing};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, major, makedev, minor, statx};
use serde::{Deserialize, Serialize};

use crate::block_facts::{from_sectors, serial_of, size_of};
use crate::block_node::{self, DeviceNumber};
use crate::family::{DeviceFamily, Holder, Subject};
use crate::identity::{ObservedSystem, identify};
use crate::identity::{btrfs_of_member, device_of_source};
use crate::mountinfo::{MountEntry, decode_octal, parse_mountinfo};
use crate::signature::{Signature, find_signatures, is_claimed, read_sample, size_of_file};
use crate::system_dir::SystemDir;
use crate::{StackError, StackErrorKind};

/// A place where a device is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountUse {
    /// The mounted device: the one asked for, a part of it, or one built on it.
    pub device: String,
    /// Where, in this process's view or in that of the first process.
    pub mount_point: String,
}

/// The users and contents of a device.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceUse {
    /// The kernel's name of the device, or the path of a file.
    pub device: String,
    /// Size of the device or file.
    pub size: Bytes,
    /// The serial number of the device, or of the disk that a partition is on.
    pub serial: Option<String>,
    /// The partitions that the kernel knows on it.
    pub partitions: Vec<String>,
    /// Where it, a part of it, or a device built on it is mounted.
    pub mounts: Vec<MountUse>,
    /// Which of these are swap.
    pub swaps: Vec<String>,
    /// Holders of it or of a part of it.
    pub holders: Vec<Holder>,
    /// Programs that have it open for writing: "postgres (process 812)". Those of other users are seen
    /// by root alone.
    pub writers: Vec<String>,
    /// The kernel refuses it to a second owner: a filesystem, an array or a program has it,
    /// possibly in another namespace.
    pub claimed: bool,
    /// Both ends were read; false only for a device in use, and then `signatures` is empty.
    pub readable: bool,
    /// Signatures on it and on its partitions.
    pub signatures: Vec<Signature>,
}

impl DeviceUse {
    /// True if another user would be harmed by a write.
    pub fn is_in_use(&self) -> bool {
        self.claimed || !self.users().is_empty()
    }

    /// Its users, a clause each; may be empty though it is claimed.
    pub fn users(&self) -> Vec<String> {
        let mounted =
            |mount: &MountUse| format!("{} is mounted on {}", mount.device, mount.mount_point);
        let part = |holder: &Holder| format!("{} is part of {}", holder.device, holder.holder);
        let mounts = self.mounts.iter().map(mounted);
        let swaps = self.swaps.iter().map(|swap| format!("{swap} is swap"));
        let holders = self.holders.iter().map(part);
        let writers = self.writers.iter().map(|writer| format!("{writer} has it open for writing"));
        mounts.chain(swaps).chain(holders).chain(writers).collect()
    }

    /// What the guard asks before it permits a write.
    pub fn usage(&self) -> Usage {
        let mut users = self.users();
        if users.is_empty() && self.claimed {
            // The kernel refuses a second owner (EBUSY), and does not say who the first is.
            users.push("another process or filesystem holds it exclusively".to_owned());
        }
        let signatures = self.signature_names().into_iter().map(str::to_owned).collect();
        Usage { users, signatures }
    }

    /// The names of its signatures, each once.
    pub fn signature_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for signature in &self.signatures {
            if !names.contains(&signature.name.as_str()) {
                names.push(&signature.name);
            }
        }
        names
    }
}

/// Finds the users and contents of the block device or the file at `path`.
///
/// Both ends of it and of its partitions are read; nothing is written.
///
/// # Errors
/// If it does not exist, is neither a block device nor a regular file, or cannot be read and is
/// not known to be in use.
pub fn device_use(path: &Path) -> Result<DeviceUse, StackError> {
    let target = HeldTarget::open(path).map_err(|error| match error.kind {
        ErrorKind::WrongType => StackError::new(StackErrorKind::NotADevice, path),
        _ => StackError::from_io(path, error.source),
    })?;
    use_of(&target)
}

/// The same for a held target, whatever its name leads to by now.
///
/// # Errors
/// As [`device_use`].
pub fn use_of(target: &HeldTarget) -> Result<DeviceUse, StackError> {
    let (path, here) = (target.path(), target.path_here());
    let root = SystemDir::live_root();
    let subject = subject_of(&root, target)?;
    let system = ObservedSystem { root: &root, identify: &identify };
    let mut found = usage_in(system, &subject)?;
    // Only of a block device may O_EXCL be asked without O_CREAT (open(2)).
    found.claimed = matches!(subject, Subject::Device(_)) && is_claimed(&here);
    found.writers = writers_of(target.identity());
    found.holders.extend(unnamed_loops(&root, target.identity(), &found));
    match read_content(&here, &subject, &mut found) {
        Ok(()) => found.readable = true,
        // The refusal that matters is known already.
        Err(_) if found.is_in_use() => found.signatures.clear(),
        Err(error) => return Err(StackError::from_io(path, error)),
    }
    Ok(found)
}

/// True if the directory is one in which the system keeps its device nodes (devtmpfs, or in a
/// container the mount at /dev): a file that is made there is in memory.
pub fn holds_device_nodes(directory: &Path) -> bool {
    let Ok(identity) = identify(directory) else { return false };
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    parse_mountinfo(&text).iter().any(|mount| {
        // In containers /dev is a plain tmpfs.
        let is_dev = mount.fs_type == "devtmpfs" || mount.mount_point == Path::new("/dev");
        is_dev && mount.device == identity.device
    })
}

fn read_content(path: &Path, subject: &Subject, found: &mut DeviceUse) -> io::Result<()> {
    let mut file = File::open(path)?;
    found.size = Bytes::new(size_of_file(&mut file)?);
    for (name, start, size) in areas(subject, found) {
        let sample = read_sample(&file, start, size)?;
        found.signatures.extend(find_signatures(&name, &sample));
    }
    Ok(())
}

fn subject_of(root: &SystemDir, target: &HeldTarget) -> Result<Subject, StackError> {
    let number = |raw| DeviceNumber { major: major(raw), minor: minor(raw) };
    match (target.kind(), target.identity()) {
        (TargetType::BlockDevice(_), TargetIdentity::Device(raw)) => {
            block_node::by_number(root, number(raw))
                .map(Subject::Device)
                .ok_or_else(|| StackError::new(StackErrorKind::Unreadable, target.path()))
        }
        (TargetType::File(_), TargetIdentity::Inode(device, inode)) => {
            // Only for messages: the search is by inode.
            let path = std::path::absolute(target.path());
            let path = path.unwrap_or_else(|_| target.path().to_owned());
            Ok(Subject::File { path, device: number(device), inode })
        }
        _ => Err(StackError::new(StackErrorKind::NotADevice, target.path())),
    }
}

/// Everything except the answers that only the device itself can give.
fn usage_in(system: ObservedSystem<'_>, subject: &Subject) -> Result<DeviceUse, StackError> {
    let family = DeviceFamily::of(system, subject);
    let mut holders = family.holders.clone();
    holders.extend(family.members.iter().filter_map(|dir| btrfs_holder(system.root, dir)));
    Ok(DeviceUse {
        device: subject.name(),
        size: subject.dir().and_then(size_of).unwrap_or_default(),
        serial: subject.disk().and_then(|disk| serial_of(&disk)),
        partitions: subject.partitions().iter().map(SystemDir::name).collect(),
        mounts: mounts_of(system, &family)?,
        swaps: swaps_of(system, &family, subject),
        holders,
        ..DeviceUse::default()
    })
}

/// Loop devices on the file whose name of it leads elsewhere by now: the file was renamed or its name
/// removed, or they were made in another namespace.
fn unnamed_loops(root: &SystemDir, file: TargetIdentity, found: &DeviceUse) -> Vec<Holder> {
    let names = root.names("sys/block").into_iter();
    let is_other = |name: &String| !found.holders.iter().any(|holder| holder.holder == *name);
    names
        .filter(|name| name.starts_with("loop") && is_other(name))
        .filter(|name| loop_backing(&Path::new("/dev").join(name)) == Some(file))
        .map(|holder| Holder { device: found.device.clone(), holder })
        .collect()
}

fn btrfs_holder(root: &SystemDir, dir: &SystemDir) -> Option<Holder> {
    let filesystem = btrfs_of_member(root, &dir.name())?;
    Some(Holder { device: dir.name(), holder: format!("btrfs {}", filesystem.name()) })
}

/// The whole and its partitions: name, first byte and size of each.
fn areas(subject: &Subject, found: &DeviceUse) -> Vec<(String, u64, u64)> {
    let mut areas = vec![(found.device.clone(), 0, found.size.get())];
    for dir in subject.partitions() {
        let start = dir.number("start").map(from_sectors);
        if let (Some(start), Some(size)) = (start, size_of(&dir)) {
            areas.push((dir.name(), start.get(), size.get()));
        }
    }
    areas
}

fn mounts_of(
    system: ObservedSystem<'_>,
    family: &DeviceFamily,
) -> Result<Vec<MountUse>, StackError> {
    let own = system.root.bytes("proc/self/mountinfo").ok_or_else(|| {
        StackError::new(StackErrorKind::Unreadable, Path::new("/proc/self/mountinfo"))
    })?;
    // A container does not see the mounts of its host; where allowed, the first process does.
    let first = system.root.bytes("proc/1/mountinfo").unwrap_or_default();
    let mut uses: Vec<MountUse> = Vec::new();
    for mount in parse_mountinfo(&own).iter().chain(&parse_mountinfo(&first)) {
        let mount_point = mount.mount_point.display().to_string();
        let device = mounted_member(system, family, mount);
        let found = device.map(|device| MountUse { device, mount_point });
        uses.extend(found.filter(|found| !uses.contains(found)));
    }
    Ok(uses)
}

fn mounted_member(
    system: ObservedSystem<'_>,
    family: &DeviceFamily,
    mount: &MountEntry,
) -> Option<String> {
    if !mount.device.is_anonymous() {
        let mut members = family.members.iter();
        let member = members.find(|dir| block_node::number_of(dir) == Some(mount.device))?;
        return Some(member.name());
    }
    let device = device_of_source(system, &mount.source)?.name();
    family.has(&device).then_some(device)
}

fn swaps_of(system: ObservedSystem<'_>, family: &DeviceFamily, subject: &Subject) -> Vec<String> {
    let text = system.root.bytes("proc/swaps").unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    let paths = lines.filter_map(|line| line.split(u8::is_ascii_whitespace).next());
    paths
        .map(decode_octal)
        .filter_map(|path| match (system.identify)(Path::new(&path)) {
            Ok(identity) if subject.is_file(&identity) => Some(subject.name()),
            _ => device_of_source(system, &path).map(|dir| dir.name()),
        })
        .filter(|name| family.has(name) || *name == subject.name())
        .collect()
}

/// The programs that have it open for writing, this one left out. Those of other users are seen by root
/// alone; the kernel's own users, such as loop devices and swap, are not among them.
fn writers_of(identity: TargetIdentity) -> Vec<String> {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let named = processes.filter_map(|entry| entry.file_name().into_string().ok());
    named
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own)
        .filter(|process| writes_to(process, identity))
        .map(|process| format!("{} (process {process})", command_of(&process)))
        .collect()
}

fn writes_to(process: &str, identity: TargetIdentity) -> bool {
    let folder = Path::new("/proc").join(process);
    let files = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        let info = fs::read_to_string(folder.join("fdinfo").join(file.file_name()));
        is_open_for_writing(&info.unwrap_or_default()) && leads_to(&file.path(), identity)
    })
}

/// The kernel follows these links to the open file itself, not to its name. No server is asked: one that
/// does not answer would hold up the look at everybody's files.
fn leads_to(link: &Path, identity: TargetIdentity) -> bool {
    let mask = StatxFlags::TYPE | StatxFlags::INO;
    let Ok(stat) = statx(CWD, link, AtFlags::STATX_DONT_SYNC, mask) else { return false };
    match identity {
        TargetIdentity::Device(number) => {
            let is_block = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::BlockDevice;
            // A character device may have the same number.
            is_block && makedev(stat.stx_rdev_major, stat.stx_rdev_minor) == number
        }
        TargetIdentity::Inode(device, inode) => {
            (makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino) == (device, inode)
        }
    }
}

/// `flags:` is octal, with the access mode in its last two bits (proc_pid_fdinfo(5)); a descriptor
/// of O_PATH has no access.
fn is_open_for_writing(info: &str) -> bool {
    const PATH_ONLY: u32 = 0o10_000_000;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0);
    flags & PATH_ONLY == 0 && flags & 3 != 0
}

fn command_of(process: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests;
