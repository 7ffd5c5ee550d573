//! Block devices in sysfs: their numbers, where they are, what kind they are, and their neighbours.
//!
//! Finds the directories of devices by number, name or directory; their facts are read elsewhere.

use std::fmt;
use std::str::FromStr;

use crate::layer::LayerKind;
use crate::system_dir::SystemDir;

/// A device number, written `8:1` as in sysfs and in mountinfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DeviceNumber {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl DeviceNumber {
    /// True for the numbers given to filesystems without a device.
    pub(crate) fn is_anonymous(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, minor) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self { major: major.parse()?, minor: minor.parse()? })
    }
}

pub(crate) fn by_number(root: &SystemDir, number: DeviceNumber) -> Option<SystemDir> {
    root.follow(format!("sys/dev/block/{number}"))
}

/// The directory of the device that the kernel calls `name`.
pub(crate) fn by_name(root: &SystemDir, name: &str) -> Option<SystemDir> {
    // These would lead out of the folder; a slash cannot, for it is replaced.
    if name.is_empty() || name == "." || name == ".." {
        return None;
    }
    // sysfs cannot have a slash in a name and writes an exclamation mark instead.
    let name = name.replace('/', "!");
    root.follow(format!("sys/class/block/{name}"))
        .or_else(|| root.follow(format!("sys/block/{name}")))
}

pub(crate) fn number_of(dir: &SystemDir) -> Option<DeviceNumber> {
    dir.number("dev")
}

pub(crate) fn kind_of(dir: &SystemDir) -> LayerKind {
    let name = dir.name();
    let numbered = |prefix| is_numbered(&name, prefix);
    match () {
        // By their folders first: an array or a volume may have any name.
        () if dir.contains("partition") => LayerKind::Partition,
        () if dir.contains("md") => LayerKind::Md,
        () if dir.contains("dm") => LayerKind::Dm,
        () if numbered("loop") => LayerKind::Loop,
        () if numbered("nbd") => LayerKind::Nbd,
        () if numbered("ublkb") => LayerKind::Ublk,
        () if numbered("bcache") => LayerKind::Bcache,
        () if numbered("zram") => LayerKind::Zram,
        () if numbered("ram") => LayerKind::Memory,
        () => LayerKind::Disk,
    }
}

/// True for `prefix` with a number behind it.
pub(crate) fn is_numbered(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The disk that the partition in `dir` is a part of.
pub(crate) fn disk_of(dir: &SystemDir) -> Option<SystemDir> {
    dir.contains("partition").then(|| dir.ancestors().nth(1))?
}

pub(crate) fn partitions_of(dir: &SystemDir) -> Vec<SystemDir> {
    dir.children("").into_iter().filter(|child| child.contains("partition")).collect()
}

/// The disk in `dir` as the SCSI driver shows it.
pub(crate) fn scsi_disk_of(dir: &SystemDir) -> Option<SystemDir> {
    dir.children("device/scsi_disk").into_iter().next()
}

/// The names of the devices below the one in `dir` (`slaves`), or above it (`holders`), with their
/// directories.
pub(crate) fn linked(
    root: &SystemDir,
    dir: &SystemDir,
    links: &str,
) -> Vec<(String, Option<SystemDir>)> {
    let links = dir.join(links);
    let resolved = |name: String| {
        let found = links.follow(&name).or_else(|| by_name(root, &name));
        (name, found)
    };
    links.names("").into_iter().map(resolved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::Fixture;

    #[test]
    fn a_namespace_and_its_partition_are_told_apart() {
        let fixture = Fixture::new();
        fixture.nvme_disk("nvme0n1", "259:0");
        fixture.partition("nvme0n1", "nvme0n1p2", "259:2", 2);
        let partition = by_number(&fixture.root(), "259:2".parse().unwrap()).unwrap();
        assert_eq!(kind_of(&partition), LayerKind::Partition);
        let disk = disk_of(&partition).unwrap();
        assert_eq!((disk.name().as_str(), kind_of(&disk)), ("nvme0n1", LayerKind::Disk));
        assert_eq!(disk_of(&disk), None);
        assert_eq!(partitions_of(&disk), [partition]);
    }

    #[test]
    fn kinds_are_told_by_directory_or_by_number_after_the_name() {
        assert!(is_numbered("loop0", "loop"));
        assert!(!is_numbered("loop", "loop"));
        assert!(!is_numbered("ramsan", "ram"));
        assert!(!is_numbered("sda", "ram"));
    }

    #[test]
    fn names_that_leave_the_directory_are_no_devices() {
        let fixture = Fixture::new();
        fixture.nvme_disk("nvme0n1", "259:0");
        assert!(by_name(&fixture.root(), "nvme0n1").is_some());
        for name in ["", ".", "..", "../block/nvme0n1"] {
            assert_eq!(by_name(&fixture.root(), name), None, "{name}");
        }
    }

    #[test]
    fn a_device_number_reads_as_it_prints() {
        let number: DeviceNumber = "259:12".parse().unwrap();
        assert_eq!(number, DeviceNumber { major: 259, minor: 12 });
        assert_eq!(number.to_string(), "259:12");
        assert!("259".parse::<DeviceNumber>().is_err());
    }

    #[test]
    fn every_kind_is_told_by_its_name_and_arrays_and_volumes_whatever_theirs() {
        let fixture = Fixture::new();
        let rows = [
            ("loop7", LayerKind::Loop),
            ("nbd12", LayerKind::Nbd),
            ("ublkb3", LayerKind::Ublk),
            ("bcache0", LayerKind::Bcache),
            ("zram1", LayerKind::Zram),
            ("ram15", LayerKind::Memory),
            ("sda", LayerKind::Disk),
            ("nbdx", LayerKind::Disk),
            ("loop", LayerKind::Disk),
            ("ramdisk", LayerKind::Disk),
        ];
        for (minor, (name, kind)) in rows.into_iter().enumerate() {
            let dir = format!("sys/devices/virtual/block/{name}");
            let dir = fixture.block(&dir, &format!("240:{minor}"));
            assert_eq!(kind_of(&dir), kind, "{name}");
        }
        fixture.mirror("array", "9:0", &[]);
        fixture.volume("loop9", "253:0", "data", &[]);
        let of = |name| kind_of(&by_name(&fixture.root(), name).unwrap());
        assert_eq!((of("array"), of("loop9")), (LayerKind::Md, LayerKind::Dm));
    }
}
