//! Owners of trace instances, and the removal of instances that dead durio processes left.
//!
//! Takes the root of `/proc` and of the tracing files; gives a name for an instance, and the
//! folders of removed ones. [`super::instance`] makes and uses an instance.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use durio_observe::find_tracefs;

/// How the name of an instance begins that durio makes; the process follows.
const OWN_NAME: &str = "durio-";

/// A process that makes instances: its number is given out again, with another start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnerProcess {
    process: u32,
    /// In ticks since the machine started; none in names that earlier versions gave.
    started: Option<u64>,
}

/// The name of this process's trace instance of this number.
#[must_use]
pub fn trace_instance_name(root: &Path, number: u32) -> String {
    let process = std::process::id();
    let started = start_ticks(root, process).unwrap_or_default();
    format!("{OWN_NAME}{process}-{started}-{number}")
}

/// Removes the trace instances of dead durio processes, with their traces; gives their folders.
///
/// Whether a process of another container lives cannot be seen. But a tracing process holds a file
/// of its instance open, and the kernel keeps such an instance (EBUSY).
#[must_use]
pub fn remove_dead_trace_instances(root: &Path) -> Vec<PathBuf> {
    find_tracefs(root).map_or_else(Vec::new, |tracefs| remove_dead_in(&tracefs, root))
}

/// The same where the tracing files are at `tracefs`.
pub(crate) fn remove_dead_in(tracefs: &Path, root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(tracefs.join("instances")) else { return Vec::new() };
    let is_dead =
        |entry: &fs::DirEntry| owner(&entry.file_name()).is_some_and(|owner| owner.is_dead(root));
    let dead = entries.flatten().filter(is_dead).map(|entry| entry.path());
    dead.filter(|folder| fs::remove_dir(folder).is_ok()).collect()
}

/// The process that made an instance, if durio did.
fn owner(name: &OsStr) -> Option<OwnerProcess> {
    let numbers = name.to_str()?.strip_prefix(OWN_NAME)?.split('-').map(str::parse::<u64>);
    let (process, started) = match numbers.collect::<Result<Vec<_>, _>>().ok()?[..] {
        [process, _number] => (process, None),
        // Zero is unknown: no process but those of the kernel started with the machine.
        [process, started, _number] => (process, Some(started).filter(|&ticks| ticks > 0)),
        _ => return None,
    };
    Some(OwnerProcess { process: u32::try_from(process).ok()?, started })
}

impl OwnerProcess {
    fn is_dead(self, root: &Path) -> bool {
        if !root.join("proc").join(self.process.to_string()).exists() {
            return true;
        }
        let now = start_ticks(root, self.process);
        self.started.zip(now).is_some_and(|(then, now)| then != now)
    }
}

/// The 22nd field of `/proc/PID/stat`, counted from behind the name (proc_pid_stat(5)).
fn start_ticks(root: &Path, process: u32) -> Option<u64> {
    let stat = fs::read_to_string(root.join(format!("proc/{process}/stat"))).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNT: &str = "25 23 0:12 / /sys/kernel/tracing rw - tracefs tracefs rw\n";
    const TRACEFS: &str = "sys/kernel/tracing";

    fn machine(instances: &[&str], processes: &[(u32, u64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/mountinfo"), MOUNT).unwrap();
        fs::create_dir_all(root.path().join(TRACEFS).join("instances")).unwrap();
        for name in instances {
            fs::create_dir(root.path().join(TRACEFS).join("instances").join(name)).unwrap();
        }
        for (process, started) in processes {
            let folder = root.path().join("proc").join(process.to_string());
            fs::create_dir(&folder).unwrap();
            let fields = "S 1 812 812 0 -1 4194560 2039 0 1 0 3 4 0 0 20 0 1 0";
            let text = format!("{process} (du) rio) {fields} {started} 0\n");
            fs::write(folder.join("stat"), text).unwrap();
        }
        root
    }

    #[test]
    fn only_durios_own_instances_have_an_owner() {
        let of = |name: &str| owner(OsStr::new(name));
        assert_eq!(of("durio-12-0"), Some(OwnerProcess { process: 12, started: None }));
        assert_eq!(of("durio-12-345-0"), Some(OwnerProcess { process: 12, started: Some(345) }));
        assert_eq!(of("durio-12-0-0"), Some(OwnerProcess { process: 12, started: None }));
        for other in
            ["durio-12", "durio-x-0", "durio-12-", "perf-12-0", "durio--1-0", "durio-1-2-3-4", ""]
        {
            assert_eq!(of(other), None, "{other}");
        }
        let machine = machine(&[], &[(std::process::id(), 77)]);
        let own = trace_instance_name(machine.path(), 3);
        assert_eq!(of(&own), Some(OwnerProcess { process: std::process::id(), started: Some(77) }));
    }

    #[test]
    fn instances_of_the_dead_are_removed_and_those_of_the_living_stay() {
        let names =
            ["durio-7-0", "durio-7-500-0", "durio-8-0", "durio-8-500-0", "durio-8-499-1", "other"];
        // Process 8 lives, and is not the one that started at tick 499.
        let machine = machine(&names, &[(8, 500)]);
        let removed = remove_dead_trace_instances(machine.path());
        let left = names.map(|name| machine.path().join(TRACEFS).join("instances").join(name));
        let left = left.map(|folder| folder.exists());
        assert_eq!((removed.len(), left), (3, [false, false, true, true, false, true]));
        assert!(remove_dead_trace_instances(machine.path()).is_empty());
    }
}
