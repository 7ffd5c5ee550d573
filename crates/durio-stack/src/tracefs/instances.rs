//! Trace instances: which of them trace, and which are a dead durio's.
//!
//! In: the root of `/proc` and of the tracing files. Out: what traces now, as facts; the removal of
//! what dead durios left. Not here: making an instance and tracing with it; that is the runner's.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::find_tracefs;
use crate::Fact;
use crate::system_dir::SystemDir;

/// How the name of an instance begins that durio makes; the process follows.
const OWN_NAME: &str = "durio-";

/// So many events are named, the others counted.
const NAMED_MAX: usize = 4;

/// A process that makes instances: its number is given out again, with another start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
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

/// Removes the trace instances of durios that are no more, with all that they trace; gives their
/// folders.
///
/// Whether a process of another container lives cannot be seen. But who traces holds a file of its
/// instance open, and such an instance the kernel keeps (EBUSY).
#[must_use]
pub fn remove_dead_trace_instances(root: &Path) -> Vec<PathBuf> {
    let Some(tracefs) = find_tracefs(root) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(tracefs.join("instances")) else { return Vec::new() };
    let is_dead =
        |entry: &fs::DirEntry| owner(&entry.file_name()).is_some_and(|it| it.is_dead(root));
    let dead = entries.flatten().filter(is_dead).map(|entry| entry.path());
    dead.filter(|folder| fs::remove_dir(folder).is_ok()).collect()
}

/// The process that made an instance, if durio did.
fn owner(name: &OsStr) -> Option<Owner> {
    let numbers = name.to_str()?.strip_prefix(OWN_NAME)?.split('-').map(str::parse::<u64>);
    let (process, started) = match numbers.collect::<Result<Vec<_>, _>>().ok()?[..] {
        [process, _number] => (process, None),
        // Zero is unknown: no process but those of the kernel started with the machine.
        [process, started, _number] => (process, Some(started).filter(|&ticks| ticks > 0)),
        _ => return None,
    };
    Some(Owner { process: u32::try_from(process).ok()?, started })
}

impl Owner {
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
    let instances = tracefs.join("instances");
    let mut folders: Vec<SystemDir> = vec![tracefs];
    folders.extend(instances.names(".").into_iter().map(|name| instances.join(name)));
    let active = |folder: &SystemDir| {
        let place = folder.path().strip_prefix(root.path()).unwrap_or(folder.path());
        let name = Path::new("/").join(place).display().to_string();
        what_is_on(folder).map(|value| Fact { name, value })
    };
    folders.iter().filter_map(active).collect()
}

/// Tracer and events of an instance, in words.
fn what_is_on(folder: &SystemDir) -> Option<String> {
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
    use crate::fixture::Fixture;

    const MOUNT: &str = "25 23 0:12 / /sys/kernel/tracing rw - tracefs tracefs rw\n";
    const TRACEFS: &str = "sys/kernel/tracing";

    fn fixture(instances: &[&str]) -> Fixture {
        let fixture = Fixture::new();
        fixture.file("proc/self/mountinfo", MOUNT);
        fs::create_dir_all(fixture.root().path().join(TRACEFS).join("instances")).unwrap();
        for name in instances {
            fs::create_dir(fixture.root().path().join(TRACEFS).join("instances").join(name))
                .unwrap();
        }
        fixture
    }

    fn stat(process: u32, started: u64) -> (String, String) {
        let fields = "S 1 812 812 0 -1 4194560 2039 0 1 0 3 4 0 0 20 0 1 0";
        (format!("proc/{process}/stat"), format!("{process} (du) rio) {fields} {started} 0\n"))
    }

    #[test]
    fn only_durios_own_instances_have_an_owner() {
        let of = |name: &str| owner(OsStr::new(name));
        assert_eq!(of("durio-12-0"), Some(Owner { process: 12, started: None }));
        assert_eq!(of("durio-12-345-0"), Some(Owner { process: 12, started: Some(345) }));
        assert_eq!(of("durio-12-0-0"), Some(Owner { process: 12, started: None }));
        for other in
            ["durio-12", "durio-x-0", "durio-12-", "perf-12-0", "durio--1-0", "durio-1-2-3-4", ""]
        {
            assert_eq!(of(other), None, "{other}");
        }
        let fixture = Fixture::new();
        let (path, text) = stat(std::process::id(), 77);
        fixture.file(&path, text);
        let own = trace_instance_name(fixture.root().path(), 3);
        assert_eq!(of(&own), Some(Owner { process: std::process::id(), started: Some(77) }));
    }

    #[test]
    fn instances_of_the_dead_are_removed_and_those_of_the_living_stay() {
        let names =
            ["durio-7-0", "durio-7-500-0", "durio-8-0", "durio-8-500-0", "durio-8-499-1", "other"];
        let fixture = fixture(&names);
        // Process 8 lives, and is not the one that started at tick 499.
        let (path, text) = stat(8, 500);
        fixture.file(&path, text);
        let removed = remove_dead_trace_instances(fixture.root().path());
        let mut left = fixture.root().join(TRACEFS).names("instances");
        left.sort();
        assert_eq!(
            (removed.len(), left),
            (3, ["durio-8-0", "durio-8-500-0", "other"].map(Into::into).into())
        );
        assert!(remove_dead_trace_instances(fixture.root().path()).is_empty());
    }

    #[test]
    fn tracers_and_events_are_active_and_an_empty_instance_is_not() {
        let fixture = fixture(&["mine"]);
        let root = fixture.root();
        let set = |file: &str, text: &str| fixture.file(&format!("{TRACEFS}/{file}"), text);
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
        let active: Vec<_> =
            active_tracing(&root).into_iter().map(|it| (it.name, it.value)).collect();
        let events = "events raw_syscalls:sys_exit, block:a, block:b, block:c and 1 more";
        let expected = [
            ("/sys/kernel/tracing", "tracer function"),
            ("/sys/kernel/tracing/instances/mine", events),
        ];
        assert_eq!(active, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(active_tracing(&Fixture::new().root()).is_empty(), "not mounted");
    }
}
