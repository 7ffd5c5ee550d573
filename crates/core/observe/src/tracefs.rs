//! The kernel's tracing files: where they are, their texts as data, and what the kernel traces now.
//!
//! The runner makes an instance, switches events on, and removes it. Steps read the text of
//! `trace`: its times are in whole microseconds (of some clocks in that clock's ticks), and in
//! return its form has hardly changed in ten years. A capture, which runs next to a database, reads
//! the ring buffer itself (`binary`, `calls`): making text costs more than the events do.

mod binary;
#[cfg(test)]
mod binary_tests;
#[cfg(test)]
mod path_text_tests;
mod text;
#[cfg(test)]
mod text_tests;

use std::path::{Path, PathBuf};

use crate::block_node;
use crate::mountinfo::{MountEntry, parse_mountinfo};
use crate::system_dir::{Fact, SystemDir};

pub use binary::{
    BinaryEvent, CallRole, CaptureEventKind, CaptureFormats, DeviceRequest, EventFormat, SubBuffer,
    TRACED_CALLS, TraceField, TracedCall,
};
pub(crate) use binary::{low_half, request};
pub use text::{
    BlockRequest, BufferStats, TraceClock, TraceEvent, TraceEventKind, TraceText,
    parse_buffer_stats, parse_trace,
};
pub(crate) use text::{
    EventLine, TraceLine, bio_request, completed_request, each_line, issued_request,
};

/// The folder of the tracing files of a system whose root is `root`; none if they are not mounted.
///
/// A mount of tracefs comes first; then the folder `tracing` that debugfs holds.
pub fn find_tracefs(root: &Path) -> Option<PathBuf> {
    let content = SystemDir::at(root).bytes("proc/self/mountinfo")?;
    let mounts = parse_mountinfo(&content);
    let below_root = |entry: &MountEntry| {
        root.join(entry.mount_point.strip_prefix("/").unwrap_or(Path::new("")))
    };
    let of_type = |kind: &'static str| mounts.iter().filter(move |entry| entry.fs_type == kind);
    // An own mount is newer (Linux 4.1), and is there on kernels without debugfs.
    let direct = of_type("tracefs").map(below_root);
    let within = of_type("debugfs").map(|entry| below_root(entry).join("tracing"));
    direct.chain(within).find(|folder| folder.is_dir())
}

/// The number of the block device that the kernel calls `name`, major and minor; none if the device
/// does not exist.
pub fn block_device_number(root: &Path, name: &str) -> Option<(u32, u32)> {
    let dir = block_node::by_name(&SystemDir::at(root), name)?;
    let number = block_node::number_of(&dir)?;
    Some((number.major, number.minor))
}

/// True if the kernel gives the device requests (blk-mq); false if its driver takes queued I/O as
/// it is: zram, pmem, brd, and the heads of NVMe multipath.
pub fn has_request_queue(root: &Path, name: &str) -> bool {
    block_node::by_name(&SystemDir::at(root), name).is_some_and(|dir| dir.contains("mq"))
}

/// Number of events that are named; the others are counted.
const NAMED_MAX: usize = 4;

/// What the kernel traces now: per folder the tracer and the events that are on. Nothing where the
/// tracing files are not mounted or not readable, and nothing of programs that perf or BPF attached.
///
/// An instance that is on and has neither costs nothing, and switched off with `tracing_on` the rest
/// costs less but not nothing. A cached read of 4 KiB took 930 ns without tracing, 930 with an
/// instance that traces nothing, 1550 with the events of system calls, 1310 with a filter that takes
/// none of them, and 1220 with `tracing_on` at 0 (Linux 6.18, least of 240 turns each). So this asks
/// for tracers and events alone.
pub(crate) fn active_tracing(root: &SystemDir) -> Vec<Fact> {
    let Some(tracefs) = find_tracefs(root.path()).map(SystemDir::at) else { return Vec::new() };
    let mut folders = tracefs.children("instances");
    folders.insert(0, tracefs);
    let active = |folder: &SystemDir| {
        let place = folder.path().strip_prefix(root.path()).unwrap_or(folder.path());
        let name = Path::new("/").join(place).display().to_string();
        what_is_on(folder).map(|value| Fact { name, value })
    };
    folders.iter().filter_map(active).collect()
}

/// Tracer and events of an instance, in words.
fn what_is_on(folder: &SystemDir) -> Option<String> {
    // `nop` traces nothing by itself.
    let tracer = folder.text("current_tracer").filter(|tracer| tracer != "nop");
    let text = folder.text("set_event").unwrap_or_default();
    let events: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut parts: Vec<String> =
        tracer.map(|tracer| format!("tracer {tracer}")).into_iter().collect();
    if !events.is_empty() {
        let more = events.len().saturating_sub(NAMED_MAX);
        let named = events[..events.len() - more].join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("events {named}{more}"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::Fixture;

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

    const FOLDER: &str = "sys/kernel/tracing";

    #[test]
    fn tracers_and_events_are_active_and_an_empty_instance_is_not() {
        let fixture = Fixture::new();
        fixture.file("proc/self/mountinfo", TRACEFS);
        let root = fixture.root();
        let set = |file: &str, text: &str| fixture.file(&format!("{FOLDER}/{file}"), text);
        for folder in ["", "instances/mine/"] {
            set(&format!("{folder}current_tracer"), "nop\n");
            set(&format!("{folder}set_event"), "");
            set(&format!("{folder}tracing_on"), "1\n");
        }
        assert!(active_tracing(&root).is_empty());
        set("current_tracer", "function\n");
        set(
            "instances/mine/set_event",
            "raw_syscalls:sys_exit\nblock:a\nblock:b\nblock:c\nblock:d\n",
        );
        let active: Vec<_> = active_tracing(&root)
            .into_iter()
            .map(|setting| (setting.name, setting.value))
            .collect();
        let events = "events raw_syscalls:sys_exit, block:a, block:b, block:c and 1 more";
        let expected = [
            ("/sys/kernel/tracing", "tracer function"),
            ("/sys/kernel/tracing/instances/mine", events),
        ];
        assert_eq!(active, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(active_tracing(&Fixture::new().root()).is_empty(), "not mounted");
    }
}
