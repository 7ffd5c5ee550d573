//! What a machine lacks to build a stack: programs, drivers, the right.
//!
//! In: a declared stack, the machine. Out: [`Missing`], for an error that offers another machine.
//! Not here: loading drivers.

use std::fmt;

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use durio_block::{ANSWER_LIMIT, ask};

use super::plan::{dm_driver, md_driver};
use crate::{DeclaredKind, DeclaredStack, DmTarget, LvmLayout};

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// A program.
    Program {
        /// Its name.
        name: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A driver that is neither in the kernel nor can be loaded.
    Driver {
        /// The module's name.
        module: &'static str,
        /// What it is for.
        purpose: &'static str,
    },
    /// The process is not root's.
    Root,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { name, package } => {
                write!(f, "no program {name} (Debian package {package})")
            }
            Self::Driver { module, purpose } => write!(f, "no driver {module} ({purpose})"),
            Self::Root => f.write_str("only root can build it"),
        }
    }
}

/// What is missing here to build the stack, each once; empty if nothing is.
#[must_use]
pub fn missing(stack: &DeclaredStack) -> Vec<Missing> {
    let here = Here {
        is_root: rustix::process::geteuid().is_root(),
        has_program: &has_program,
        has_driver: &|module| has_driver(module) || can_load(module),
    };
    missing_in(stack, &here)
}

/// All programs and drivers that a machine must have to build the stack, each once.
#[must_use]
pub fn requirements(stack: &DeclaredStack) -> Vec<Missing> {
    let mut found = Vec::new();
    for need in stack.layers.iter().flat_map(|layer| needs(&layer.kind)) {
        if !found.contains(&need) {
            found.push(need);
        }
    }
    found
}

/// What is asked of a machine.
struct Here<'a> {
    is_root: bool,
    has_program: &'a dyn Fn(&str) -> bool,
    has_driver: &'a dyn Fn(&str) -> bool,
}

fn missing_in(stack: &DeclaredStack, here: &Here<'_>) -> Vec<Missing> {
    let mut found = Vec::new();
    for need in stack.layers.iter().flat_map(|layer| needs(&layer.kind)) {
        let is_there = match &need {
            Missing::Program { name, .. } => (here.has_program)(name),
            Missing::Driver { module, .. } => (here.has_driver)(module),
            Missing::Root => true,
        };
        if !is_there && !found.contains(&need) {
            found.push(need);
        }
    }
    if !here.is_root {
        found.push(Missing::Root);
    }
    found
}

/// All that a layer needs.
fn needs(kind: &DeclaredKind) -> Vec<Missing> {
    let program = |name, package| Missing::Program { name, package };
    let driver = |module, purpose| Missing::Driver { module, purpose };
    match kind {
        DeclaredKind::Ram(_) => {
            vec![program("modprobe", "kmod"), program("rmmod", "kmod"), driver("brd", "RAM disks")]
        }
        DeclaredKind::Zram(_) => vec![driver("zram", "compressed RAM disks")],
        DeclaredKind::Null { .. } => vec![driver("null_blk", "disks that do nothing")],
        DeclaredKind::Loop { .. } => {
            vec![program("losetup", "mount"), driver("loop", "files as disks")]
        }
        DeclaredKind::Device { .. } => vec![program("wipefs", "util-linux")],
        DeclaredKind::Md(md) => {
            vec![program("mdadm", "mdadm"), driver(md_driver(md.level), "RAID arrays")]
        }
        DeclaredKind::Lvm { layout, .. } => needs_of_lvm(*layout),
        DeclaredKind::Dm { target } => needs_of_target(*target),
        DeclaredKind::Ext4(_) => vec![program("mkfs.ext4", "e2fsprogs"), driver("ext4", "ext4")],
        DeclaredKind::Xfs(_) => vec![program("mkfs.xfs", "xfsprogs"), driver("xfs", "XFS")],
        DeclaredKind::Btrfs { .. } => {
            vec![program("mkfs.btrfs", "btrfs-progs"), driver("btrfs", "Btrfs")]
        }
        DeclaredKind::Zfs { .. } => {
            vec![program("zpool", "zfsutils-linux"), driver("zfs", "ZFS, built by zfs-dkms")]
        }
    }
}

fn needs_of_lvm(layout: LvmLayout) -> Vec<Missing> {
    let mapper = Missing::Driver { module: "dm_mod", purpose: "device mapper" };
    let mut needs = vec![Missing::Program { name: "lvm", package: "lvm2" }, mapper];
    if matches!(layout, LvmLayout::Raid1 | LvmLayout::Raid10) {
        needs.push(Missing::Driver { module: "dm_raid", purpose: "RAID of logical volumes" });
    }
    needs
}

fn needs_of_target(target: DmTarget) -> Vec<Missing> {
    let program = match target {
        DmTarget::Crypt => Missing::Program { name: "cryptsetup", package: "cryptsetup-bin" },
        _ => Missing::Program { name: "dmsetup", package: "dmsetup" },
    };
    let mapper = Missing::Driver { module: "dm_mod", purpose: "device mapper" };
    let target = dm_driver(target);
    let target = target.map(|module| Missing::Driver { module, purpose: "device mapper" });
    [program, mapper].into_iter().chain(target).collect()
}

fn has_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| {
        let data = fs::metadata(directory.join(name));
        data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

/// True if the driver is loaded or a part of the kernel, as far as the kernel shows it.
pub(super) fn has_driver(module: &str) -> bool {
    Path::new("/sys/module").join(module).exists() || shows_itself(module) || is_built_in(module)
}

/// A driver that is a part of the kernel and has no parameters has no directory in `/sys/module`.
fn shows_itself(module: &str) -> bool {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let word = |text: String, word: &str| text.split_ascii_whitespace().any(|other| other == word);
    match module {
        "ext4" | "xfs" | "btrfs" | "zfs" => word(text("/proc/filesystems"), module),
        "raid0" | "raid1" | "raid10" => word(text("/proc/mdstat"), &format!("[{module}]")),
        "raid456" => word(text("/proc/mdstat"), "[raid5]"),
        "md_mod" => Path::new("/proc/mdstat").exists(),
        "dm_mod" => word(text("/proc/misc"), "device-mapper"),
        "loop" => Path::new("/dev/loop-control").exists(),
        "zram" => Path::new("/sys/class/zram-control").exists(),
        "configfs" => word(text("/proc/filesystems"), "configfs"),
        "null_blk" => Path::new(super::plan::NULL_CONFIG).exists(),
        _ => false,
    }
}

/// modules.builtin lists paths of files, with hyphens or underscores.
fn is_built_in(module: &str) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let list = format!("/lib/modules/{}/modules.builtin", release.trim());
    let list = fs::read_to_string(list).unwrap_or_default();
    let file = format!("{module}.ko");
    list.lines().any(|line| {
        let name = line.rsplit('/').next().unwrap_or_default();
        name.replace('-', "_") == file
    })
}

fn can_load(module: &str) -> bool {
    let mut command = Command::new("modprobe");
    let answer = ask(command.args(["--dry-run", "--quiet", module]), ANSWER_LIMIT);
    answer.is_ok_and(|answer| answer.status.success())
}

/// Why lockless bitmaps cannot be made: they are in Linux since 6.18 (drivers/md/md-llbitmap.c) and
/// in mdadm since 4.6 (md-raid-utilities/mdadm, pull request 233).
pub(super) fn lockless_fault(mdadm: &str, release: &str) -> Option<String> {
    let has = |text: &str, least: (u32, u32)| version_in(text).is_some_and(|found| found >= least);
    let found = |text: &str| version_in(text).map_or("unknown".into(), |(a, b)| format!("{a}.{b}"));
    if !has(release, (6, 18)) {
        return Some(format!("lockless bitmaps need Linux 6.18, and this is {}", found(release)));
    }
    if !has(mdadm, (4, 6)) {
        return Some(format!("lockless bitmaps need mdadm 4.6, and this is {}", found(mdadm)));
    }
    None
}

/// The first `major.minor` in a text.
fn version_in(text: &str) -> Option<(u32, u32)> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    words.filter_map(|word| word.split_once('.')).find_map(|(major, rest)| {
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

#[cfg(test)]
#[path = "missing_tests.rs"]
mod tests;
