//! The kernel's tracing files: where they are, and what their texts say.
//!
//! In: the list of mounts, texts of `trace` and of `per_cpu/cpu*/stats`. Out: the folder, and block
//! events as data.
//! Not here: making an instance, switching events on, removing it; that is the runner's.
//!
//! The text of `trace` is read, not the ring buffer: its times are in whole microseconds (of some
//! clocks in that clock's own ticks), and in return its form has hardly changed in ten years.

mod active;
mod path_text;
#[cfg(test)]
mod path_text_tests;
mod text;
#[cfg(test)]
mod text_tests;

use std::path::{Path, PathBuf};

use crate::mountinfo::{MountEntry, parse_mountinfo};
use crate::system_dir::SystemDir;

pub(crate) use active::active_tracing;
pub use path_text::{PathEvent, PathEventKind, PathText, TraceClock, parse_path_trace};
pub use text::{
    BlockRequest, BufferStats, TraceEvent, TraceEventKind, TraceText, parse_buffer_stats,
    parse_trace,
};

/// The folder of the tracing files of a system whose root is `root`; none if they are not mounted.
///
/// A mount of tracefs comes first; then the folder `tracing` that debugfs holds.
#[must_use]
pub fn find_tracefs(root: &Path) -> Option<PathBuf> {
    let content = SystemDir::at(root).bytes("proc/self/mountinfo")?;
    let mounts = parse_mountinfo(&content);
    let below_root = |entry: &MountEntry| {
        root.join(entry.mount_point.strip_prefix("/").unwrap_or(Path::new("")))
    };
    let of_type = |kind: &'static str| mounts.iter().filter(move |entry| entry.fs_type == kind);
    let direct = of_type("tracefs").map(below_root);
    let within = of_type("debugfs").map(|entry| below_root(entry).join("tracing"));
    direct.chain(within).find(|folder| folder.is_dir())
}

/// The number of the block device that the kernel calls `name`, major and minor; none if there is no
/// such device.
#[must_use]
pub fn block_device_number(root: &Path, name: &str) -> Option<(u32, u32)> {
    let dir = crate::block_node::by_name(&SystemDir::at(root), name)?;
    let number = crate::block_node::number_of(&dir)?;
    Some((number.major, number.minor))
}

/// True if the kernel gives the device requests of its own (blk-mq); false for those whose driver
/// takes what is queued as it is: zram, pmem, brd, and the heads of NVMe multipath.
#[must_use]
pub fn has_request_queue(root: &Path, name: &str) -> bool {
    crate::block_node::by_name(&SystemDir::at(root), name).is_some_and(|dir| dir.contains("mq"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    const DEBUGFS: &str = "24 23 0:7 / /sys/kernel/debug rw shared:3 - debugfs none rw\n";
    const TRACEFS: &str = "25 23 0:12 / /sys/kernel/tracing rw - tracefs tracefs rw\n";

    fn found(mounts: &str, folders: &[&str]) -> Option<PathBuf> {
        let fixture = Fixture::new();
        fixture.file("proc/self/mountinfo", mounts);
        for folder in folders {
            fixture.file(&format!("{folder}/trace"), "");
        }
        let root = fixture.root();
        let folder = find_tracefs(root.path())?;
        Some(Path::new("/").join(folder.strip_prefix(root.path()).unwrap()))
    }

    #[test]
    fn the_own_mount_comes_before_the_folder_in_debugfs() {
        let (own, within) = ("sys/kernel/tracing", "sys/kernel/debug/tracing");
        let both = format!("{DEBUGFS}{TRACEFS}");
        let at = |path: &str| Some(Path::new("/").join(path));
        assert_eq!(found(&both, &[own, within]), at(own));
        assert_eq!(found(DEBUGFS, &[own, within]), at(within));
        assert_eq!(found(TRACEFS, &[own]), at(own));
    }

    #[test]
    fn what_is_not_mounted_is_not_found() {
        assert_eq!(found("", &["sys/kernel/tracing"]), None, "only the place to mount it");
        assert_eq!(found(DEBUGFS, &["sys/kernel/debug"]), None, "a kernel without tracing");
        assert_eq!(find_tracefs(Path::new("/nowhere")), None);
    }

    #[test]
    fn devices_are_numbered_and_those_of_requests_are_told_from_others() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:16");
        let root = fixture.root();
        assert_eq!(block_device_number(root.path(), "sda"), Some((8, 16)));
        assert_eq!(block_device_number(root.path(), "sdb"), None);
        assert!(!has_request_queue(root.path(), "sda"));
        fixture.file("sys/block/sda/mq/0/nr_tags", "64\n");
        assert!(has_request_queue(root.path(), "sda"));
    }
}
