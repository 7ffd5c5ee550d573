//! Whether a declaration can be built at all: order, counts, sizes.
//!
//! In: a declared stack. Out: nothing, or the first fault from the bottom. Not here: the system;
//! what exists on a machine is found out while building.

mod md;
mod size;

use durio_units::Bytes;

use super::error::BuildError;
use super::tool_words::{Tool, check_words};
use crate::{
    BtrfsProfile, DeclaredKind, DeclaredLayer, DeclaredStack, DmTarget, LvmLayout, Made, ZfsLayout,
};

/// More devices than anybody compares; a slip of the keyboard should not make a million.
pub(super) const MOST_DEVICES: u32 = 256;

/// More layers than this are no stack, and a name of a device must not grow without bounds.
pub(super) const MOST_LAYERS: usize = 16;

/// Checks order, counts and sizes.
///
/// # Errors
/// The first thing that is wrong, from the bottom, with what to do.
pub fn check_declared(stack: &DeclaredStack) -> Result<(), BuildError> {
    let whole = |what: &str| BuildError::Stack { stack: stack.name.clone(), what: what.to_owned() };
    if stack.layers.is_empty() {
        return Err(whole("it has no layers; the first one says where its devices come from"));
    }
    if stack.layers.len() > MOST_LAYERS {
        return Err(whole("it has more than 16 layers; nothing sensible does"));
    }
    let mut below = Below::default();
    for (index, layer) in stack.layers.iter().enumerate() {
        below = below.add(index, layer).map_err(|what| BuildError::Declared {
            stack: stack.name.clone(),
            layer: index,
            kind: layer.kind.name(),
            what,
        })?;
    }
    Ok(())
}

/// What a layer stands on.
#[derive(Debug, Clone, Copy, Default)]
struct Below {
    devices: u32,
    /// At most so large is each; unknown for existing devices.
    size: Option<Bytes>,
    is_filesystem: bool,
}

type Fault = String;

impl Below {
    /// What the next layer stands on.
    fn add(self, index: usize, layer: &DeclaredLayer) -> Result<Self, Fault> {
        self.check_order(index, layer)?;
        match &layer.kind {
            DeclaredKind::Ram(made) => made_devices(*made, Bytes::from_kib(4)),
            DeclaredKind::Zram(made) => made_devices(*made, Bytes::from_kib(4)),
            DeclaredKind::Loop { made, directory } => {
                check_directory(directory.as_deref())?;
                made_devices(*made, Bytes::from_kib(4))
            }
            // Its size is given in MiB (Documentation/block/null_blk.rst).
            DeclaredKind::Null { made, queue_depth, .. } => {
                check_queue_depth(*queue_depth)?;
                made_devices(*made, Bytes::from_mib(1))
            }
            DeclaredKind::Device { paths } => existing_devices(paths),
            DeclaredKind::Md(md) => md::check(md, self.in_groups(layer)?),
            DeclaredKind::Lvm { layout, chunk } => lvm(*layout, *chunk, self.in_groups(layer)?),
            DeclaredKind::Dm { target } => self.mapped(layer, *target),
            kind => self.filesystem(layer, kind),
        }
    }

    fn check_order(self, index: usize, layer: &DeclaredLayer) -> Result<(), Fault> {
        if layer.groups == 0 {
            return Err("groups is 0; leave it out, or say into how many".into());
        }
        match (index, layer.kind.is_source()) {
            (0, false) => {
                Err("it stands on nothing; put ram, null, loop, zram or device first".into())
            }
            (1.., true) => Err("it can only be the first layer, for it stands on nothing".into()),
            (0, true) if layer.groups > 1 => Err("the first layer has no groups".into()),
            _ if self.is_filesystem => {
                Err("nothing can stand on a filesystem; make the filesystem the last layer".into())
            }
            _ => Ok(()),
        }
    }

    /// The devices of one group, and how many groups there are.
    fn in_groups(self, layer: &DeclaredLayer) -> Result<Group, Fault> {
        let (devices, groups) = (self.devices, layer.groups);
        if devices % groups != 0 {
            return Err(format!("{devices} devices cannot be divided into {groups} equal groups"));
        }
        Ok(Group { groups, devices: devices / groups, size: self.size })
    }

    fn mapped(self, layer: &DeclaredLayer, target: DmTarget) -> Result<Self, Fault> {
        if layer.groups != 1 && layer.groups != self.devices {
            return Err("a target stands on each device by itself; leave groups out".into());
        }
        match target {
            DmTarget::Delay { delay } if delay.get() % 1_000_000 != 0 || delay.get() == 0 => {
                Err("the kernel delays by whole milliseconds; say 1ms or more".into())
            }
            DmTarget::Flakey { up_seconds: 0, .. } => {
                Err("up_seconds is 0, so it would never work; say 1 or more".into())
            }
            _ => Ok(self),
        }
    }

    fn filesystem(self, layer: &DeclaredLayer, kind: &DeclaredKind) -> Result<Self, Fault> {
        if layer.groups > 1 {
            return Err("a filesystem has no groups".into());
        }
        let devices = self.devices;
        let (least, most) = member_limits(kind);
        if devices < least {
            return Err(format!("it needs {least} devices or more and stands on {devices}"));
        }
        if devices > most {
            return Err(format!(
                "it takes one device and stands on {devices}; join them with md or lvm, or use one"
            ));
        }
        size::check(kind, self.size)?;
        check_tool_words(kind)?;
        Ok(Self { is_filesystem: true, ..self })
    }
}

/// A stack that did not come from a spec, or from an older one, is held to the same lists.
fn check_tool_words(kind: &DeclaredKind) -> Result<(), Fault> {
    kind.tool_words()
        .into_iter()
        .try_for_each(|(tool, words)| check_words(tool, words).map_err(|fault| fault.to_string()))
}

impl DeclaredKind {
    /// The words that reach the command line of a program, with the program.
    fn tool_words(&self) -> Vec<(Tool, &[String])> {
        match self {
            Self::Ext4(made) => vec![(Tool::MkfsExt4, &made.mkfs), (Tool::MountExt4, &made.mount)],
            Self::Xfs(made) => vec![(Tool::MkfsXfs, &made.mkfs), (Tool::MountXfs, &made.mount)],
            Self::Btrfs { options, .. } => {
                vec![(Tool::MkfsBtrfs, &options.mkfs), (Tool::MountBtrfs, &options.mount)]
            }
            Self::Zfs { properties, pool_properties, .. } => {
                vec![(Tool::ZfsProperties, properties), (Tool::ZpoolProperties, pool_properties)]
            }
            _ => Vec::new(),
        }
    }
}

/// What becomes one device.
#[derive(Debug, Clone, Copy)]
struct Group {
    groups: u32,
    devices: u32,
    /// At most so large is each device.
    size: Option<Bytes>,
}

impl Group {
    /// One device for each group, as large as so many of its members at most.
    fn joined(self, members: u32) -> Below {
        let times = |size: Bytes| Bytes::new(size.get().saturating_mul(u64::from(members)));
        Below { devices: self.groups, size: self.size.map(times), is_filesystem: false }
    }
}

fn made_devices(made: Made, unit: Bytes) -> Result<Below, Fault> {
    if made.count == 0 || made.count > MOST_DEVICES {
        return Err(format!("count is {}; 1 to {MOST_DEVICES} can be made", made.count));
    }
    if made.size.get() == 0 || !made.size.is_multiple_of(unit) {
        return Err(format!("its size, {}, is no multiple of {unit}", made.size));
    }
    Ok(Below { devices: made.count, size: Some(made.size), is_filesystem: false })
}

/// Beyond BLK_MQ_MAX_DEPTH the kernel silently takes less (block/blk-mq.c).
fn check_queue_depth(depth: Option<u32>) -> Result<(), Fault> {
    match depth {
        Some(depth) if !(1..=10_240).contains(&depth) => {
            Err(format!("its queue_depth is {depth}; 1 to 10240 can be had"))
        }
        _ => Ok(()),
    }
}

fn check_directory(directory: Option<&str>) -> Result<(), Fault> {
    match directory {
        Some(path) if !path.starts_with('/') => {
            Err(format!("its directory, '{path}', is not an absolute path"))
        }
        _ => Ok(()),
    }
}

fn existing_devices(paths: &[String]) -> Result<Below, Fault> {
    let count = u32::try_from(paths.len()).unwrap_or(u32::MAX);
    if count == 0 || count > MOST_DEVICES {
        return Err(format!("it names {count} devices; name 1 to {MOST_DEVICES}"));
    }
    for (n, path) in paths.iter().enumerate() {
        check_device_path(path)?;
        if paths.iter().take(n).any(|earlier| earlier == path) {
            return Err(format!("{path} is named twice"));
        }
    }
    Ok(Below { devices: count, size: None, is_filesystem: false })
}

/// The path becomes a word of commands, a part of mount options, of a table of the device mapper
/// and of a pattern of LVM: nothing in it may mean something there.
fn check_device_path(path: &str) -> Result<(), Fault> {
    let shown = path.escape_debug();
    if !path.starts_with("/dev/") {
        return Err(format!("'{shown}' is not the path of a device; begin it with /dev/"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_-.:+@=%".contains(c);
    if !path.chars().all(is_plain) || path.split('/').any(|part| part == "..") {
        return Err(format!(
            "'{shown}' has characters that a device's path may not have here; name it by another \
             path, of letters, digits and /_-.:+@=% without '..'"
        ));
    }
    Ok(())
}

/// lvmraid(7): raid1 takes two devices or more, raid10 four or more. A stripe size is a power of
/// two from 4 KiB up to an extent, by default 4 MiB (lvcreate(8)).
fn lvm(layout: LvmLayout, chunk: Option<Bytes>, group: Group) -> Result<Below, Fault> {
    let devices = group.devices;
    let (least, data) = match layout {
        LvmLayout::Linear => (1, devices),
        LvmLayout::Striped => (2, devices),
        LvmLayout::Raid1 => (2, 1),
        LvmLayout::Raid10 => (4, devices / 2),
    };
    if devices < least {
        return Err(format!("this layout needs {least} devices or more and has {devices}"));
    }
    if layout == LvmLayout::Raid10 && devices % 2 == 1 {
        return Err(format!("raid10 needs an even number of devices and has {devices}"));
    }
    match (layout, chunk) {
        (LvmLayout::Linear | LvmLayout::Raid1, Some(_)) => {
            return Err("this layout has no stripes; leave the chunk out".into());
        }
        (_, Some(chunk)) => power_of_two(chunk, "the chunk", Bytes::from_mib(4))?,
        _ => (),
    }
    size::check_lvm(group.size)?;
    Ok(group.joined(data))
}

/// From 4 KiB, a page, up to `most`.
fn power_of_two(size: Bytes, what: &str, most: Bytes) -> Result<(), Fault> {
    let least = Bytes::from_kib(4);
    if size.get().is_power_of_two() && size >= least && size <= most {
        return Ok(());
    }
    Err(format!("{what}, {size}, is no power of two from {least} to {most}"))
}

/// The least and the most devices of a filesystem. btrfs(5), "PROFILES", for btrfs since Linux
/// 5.15; zpoolconcepts(7) for ZFS.
const fn member_limits(kind: &DeclaredKind) -> (u32, u32) {
    match kind {
        DeclaredKind::Btrfs { profile, .. } => match profile {
            BtrfsProfile::Single => (1, MOST_DEVICES),
            BtrfsProfile::Raid1 | BtrfsProfile::Raid10 => (2, MOST_DEVICES),
        },
        DeclaredKind::Zfs { layout, .. } => match layout {
            ZfsLayout::Single => (1, MOST_DEVICES),
            ZfsLayout::Mirror | ZfsLayout::Raidz1 => (2, MOST_DEVICES),
            ZfsLayout::Raidz2 => (3, MOST_DEVICES),
        },
        _ => (1, 1),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
