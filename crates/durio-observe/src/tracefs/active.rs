//! What the kernel traces now.
//!
//! In: the root of the tracing files. Out: facts. Not here: making an instance, tracing with it and
//! removing it; that is the runner's.

use std::path::Path;

use super::find_tracefs;
use crate::Fact;
use crate::system_dir::SystemDir;

/// So many events are named, the others counted.
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

    #[test]
    fn tracers_and_events_are_active_and_an_empty_instance_is_not() {
        let fixture = Fixture::new();
        fixture.file("proc/self/mountinfo", MOUNT);
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
