//! What a machine lacks to build a stack: programs, drivers, the right.
//!
//! Returns [`Missing`], for an error that offers another machine. The needs of one kind of layer
//! are in [`crate::kinds`].

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use durio_block::{ANSWER_LIMIT, ask};

use crate::declared::DeclaredStack;
use crate::error::Missing;
use crate::kinds::KINDS;

/// The needs that this machine lacks to build the stack, each once.
pub fn missing(stack: &DeclaredStack) -> Vec<Missing> {
    let here = Here {
        is_root: rustix::process::geteuid().is_root(),
        has_program: &has_program,
        has_driver: &|module| has_driver(module) || can_load(module),
    };
    missing_in(stack, &here)
}

/// All programs and drivers that a machine must have to build the stack, each once.
pub fn requirements(stack: &DeclaredStack) -> Vec<Missing> {
    let mut found = Vec::new();
    for need in stack.layers.iter().flat_map(|layer| layer.kind.layer().needs()) {
        if !found.contains(&need) {
            found.push(need);
        }
    }
    found
}

/// The names of needed programs and drivers, each once, in order.
#[derive(Debug, Default)]
pub struct NamedNeeds {
    pub tools: Vec<String>,
    /// Drivers, as the kernel names their modules.
    pub modules: Vec<String>,
}

impl NamedNeeds {
    /// All that a machine must have to build any of the stacks.
    pub fn of_stacks(stacks: &[DeclaredStack]) -> Self {
        stacks.iter().flat_map(requirements).collect()
    }
}

impl FromIterator<Missing> for NamedNeeds {
    fn from_iter<I: IntoIterator<Item = Missing>>(needs: I) -> Self {
        let mut named = Self::default();
        for need in needs {
            match need {
                Missing::Program { name, .. } => named.tools.push(name.to_owned()),
                Missing::Driver { module, .. } => named.modules.push(module.to_owned()),
                Missing::Root => {}
            }
        }
        for names in [&mut named.tools, &mut named.modules] {
            names.sort_unstable();
            names.dedup();
        }
        named
    }
}

/// The answers of a machine.
struct Here<'a> {
    is_root: bool,
    has_program: &'a dyn Fn(&str) -> bool,
    has_driver: &'a dyn Fn(&str) -> bool,
}

fn missing_in(stack: &DeclaredStack, here: &Here<'_>) -> Vec<Missing> {
    let is_missing = |need: &Missing| match need {
        Missing::Program { name, .. } => !(here.has_program)(name),
        Missing::Driver { module, .. } => !(here.has_driver)(module),
        Missing::Root => !here.is_root,
    };
    let all = requirements(stack).into_iter().chain([Missing::Root]);
    all.filter(is_missing).collect()
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
    let mut drivers = KINDS.iter().flat_map(|kind| kind.drivers);
    // A driver that is a part of the kernel has no directory unless it has parameters, and the list
    // of built-in ones is missing where no modules are installed, as in a guest.
    Path::new("/sys/module").join(module).exists()
        || drivers.any(|driver| driver.module == module && driver.shows_itself())
        || is_built_in(module)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::stacks::{btrfs, ext4, loops, made, md, raid_by, ram, stack, xfs};
    use crate::{
        BtrfsProfile, DeclaredKind, Dm, DmTarget, Lvm, LvmLayout, Null, RaidFront, Zfs, ZfsLayout,
        Zram,
    };
    use durio_base::Nanos;

    #[test]
    fn what_is_missing_is_named_once_with_its_package() {
        let declared =
            stack(vec![loops(4, 64), DeclaredKind::Md(md(10)), DeclaredKind::Md(md(10)), ext4()]);
        let here = Here {
            is_root: false,
            has_program: &|name| name != "mdadm",
            has_driver: &|module| module != "raid10",
        };
        let words: Vec<String> =
            missing_in(&declared, &here).iter().map(Missing::to_string).collect();
        assert_eq!(
            words,
            [
                "no program mdadm (Debian package mdadm)",
                "no driver raid10 (RAID arrays)",
                "only root can build it",
            ]
        );
        let all = Here { is_root: true, has_program: &|_| true, has_driver: &|_| true };
        assert_eq!(missing_in(&declared, &all), []);
    }

    #[test]
    fn a_layer_needs_the_program_that_makes_it_and_the_drivers_of_its_form() {
        let dm = |target| DeclaredKind::Dm(Dm { target });
        let lvm = |layout| DeclaredKind::Lvm(Lvm { layout, chunk: None });
        let array = |level| DeclaredKind::Md(md(level));
        let zfs = Zfs { layout: ZfsLayout::Single, properties: vec![], pool_properties: vec![] };
        let null = Null { made: made(1, 64), completion: None, queue_depth: None };
        let delay = DmTarget::Delay { delay: Nanos::from_millis(1) };
        let flakey = DmTarget::Flakey { up_seconds: 1, down_seconds: 1 };
        for (kind, tools, modules) in [
            (ram(1), &["modprobe", "rmmod"][..], &["brd"][..]),
            (DeclaredKind::Zram(Zram { made: made(1, 64) }), &[], &["zram"]),
            (DeclaredKind::Null(null), &[], &["null_blk"]),
            (loops(1, 64), &["losetup"], &["loop"]),
            (array(0), &["mdadm"], &["raid0"]),
            (array(1), &["mdadm"], &["raid1"]),
            (array(4), &["mdadm"], &["raid456"]),
            (array(5), &["mdadm"], &["raid456"]),
            (array(6), &["mdadm"], &["raid456"]),
            (array(10), &["mdadm"], &["raid10"]),
            (raid_by(1, RaidFront::Ublk), &[], &["ublk_drv"]),
            (raid_by(1, RaidFront::Nbd), &[], &["nbd"]),
            (lvm(LvmLayout::Linear), &["lvm"], &["dm_mod"]),
            (lvm(LvmLayout::Striped), &["lvm"], &["dm_mod"]),
            (lvm(LvmLayout::Raid1), &["lvm"], &["dm_mod", "dm_raid"]),
            (lvm(LvmLayout::Raid10), &["lvm"], &["dm_mod", "dm_raid"]),
            (dm(DmTarget::Linear), &["dmsetup"], &["dm_mod"]),
            (dm(DmTarget::Crypt), &["cryptsetup"], &["dm_crypt", "dm_mod"]),
            (dm(delay), &["dmsetup"], &["dm_delay", "dm_mod"]),
            (dm(flakey), &["dmsetup"], &["dm_flakey", "dm_mod"]),
            (ext4(), &["mkfs.ext4"], &["ext4"]),
            (xfs(), &["mkfs.xfs"], &["xfs"]),
            (btrfs(BtrfsProfile::Raid1), &["mkfs.btrfs"], &["btrfs"]),
            (DeclaredKind::Zfs(zfs), &["zpool"], &["zfs"]),
        ] {
            let label = format!("{kind:?}");
            let found = NamedNeeds::of_stacks(&[stack(vec![kind])]);
            assert_eq!(found.tools, tools, "{label}");
            assert_eq!(found.modules, modules, "{label}");
        }
    }

    #[test]
    fn every_kind_of_layer_needs_something() {
        let nothing = Here { is_root: true, has_program: &|_| false, has_driver: &|_| false };
        for declared in crate::tests::stacks::one_of_each() {
            for layer in &declared.layers {
                let alone = DeclaredStack { name: String::new(), layers: vec![layer.clone()] };
                assert!(!missing_in(&alone, &nothing).is_empty(), "{layer:?}");
            }
        }
    }

    #[test]
    fn programs_are_looked_for_in_the_path_and_drivers_in_the_kernel() {
        assert!(has_program("sh") && !has_program("no-such-program-of-durio"));
        assert!(!has_driver("no_such_driver_of_durio") && !can_load("no_such_driver_of_durio"));
    }
}
