//! Software between this process and the kernel: preloaded libraries, filters, tracers; and the
//! names of other running programs. Whether a sync call works is measured elsewhere.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::system_dir::SystemDir;

/// A process table longer than this is not searched to its end.
const PROCESSES_MAX: usize = 100_000;

/// Parts of the names of libraries that are made to do nothing in fsync and its like: libeatmydata
/// (<https://www.flamingspork.com/projects/libeatmydata/>) and those that people write for tests.
const SYNC_SWALLOWERS: &[&str] = &["eatmydata", "nosync", "nofsync", "no-fsync", "fakefsync"];

/// Software between this process, as in this run, and the kernel; absent if not shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessFacts {
    /// `LD_PRELOAD`, as the process was started with.
    pub preload_environment: Option<String>,
    /// The libraries in `/etc/ld.so.preload`, in one line.
    pub preload_file: Option<String>,
    /// Files mapped into the process whose name is one of those that do nothing in sync calls.
    pub sync_swallowers: Vec<String>,
    /// The mode of seccomp: 0 none, 1 strict, 2 a filter.
    pub seccomp: Option<u32>,
    /// The process that traces this one; 0 for none.
    pub tracer: Option<u32>,
    /// The kernel's own line of release, builder and date.
    pub kernel_version: Option<String>,
}

/// Never fails, for every part may be absent.
pub(crate) fn process_facts(root: &SystemDir) -> ProcessFacts {
    ProcessFacts {
        preload_environment: preload_environment(root),
        preload_file: preload_file(root),
        sync_swallowers: sync_swallowers(root),
        seccomp: status_field(root, "Seccomp:"),
        tracer: status_field(root, "TracerPid:"),
        kernel_version: root.text("proc/version"),
    }
}

/// The names of the processes that this one may see, as far as the kernel keeps them: 15 bytes.
#[must_use]
pub fn process_names() -> BTreeSet<String> {
    names_of_processes(&SystemDir::live_root())
}

pub(crate) fn names_of_processes(root: &SystemDir) -> BTreeSet<String> {
    let processes = root.children("proc").into_iter().take(PROCESSES_MAX);
    let processes =
        processes.filter(|entry| entry.name().bytes().all(|byte| byte.is_ascii_digit()));
    processes.filter_map(|process| process.text("comm")).collect()
}

fn preload_environment(root: &SystemDir) -> Option<String> {
    let environment = root.bytes("proc/self/environ")?;
    let mut variables = environment.split(|byte| *byte == 0);
    // As the process was started: what it set later does not show in this file
    // (proc_pid_environ(5)).
    let value = variables.find_map(|variable| variable.strip_prefix(b"LD_PRELOAD="))?;
    let value = String::from_utf8_lossy(value).trim().to_owned();
    (!value.is_empty()).then_some(value)
}

/// The dynamic linker takes names apart at blanks and colons, and a `#` begins a comment.
fn preload_file(root: &SystemDir) -> Option<String> {
    let text = root.text("etc/ld.so.preload")?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

fn sync_swallowers(root: &SystemDir) -> Vec<String> {
    let maps = root.text("proc/self/maps").unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    // The path is the rest of the line after five fields (proc_pid_maps(5)).
    for path in maps.lines().filter_map(|line| line.get(line.find('/')?..)) {
        if swallows_by_name(path) && !found.iter().any(|known| known == path) {
            found.push(path.to_owned());
        }
    }
    found
}

fn swallows_by_name(path: &str) -> bool {
    let name = Path::new(path).file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let name = name.to_lowercase();
    // A program of such a name swallows nothing: the libraries that it preloads do.
    name.contains(".so") && SYNC_SWALLOWERS.iter().any(|known| name.contains(known))
}

fn status_field(root: &SystemDir, name: &str) -> Option<u32> {
    root.line_after("proc/self/status", name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn a_machine_that_shows_nothing_has_no_facts() {
        assert_eq!(process_facts(&Fixture::new().root()), ProcessFacts::default());
    }

    #[test]
    fn preloaded_libraries_are_read_from_the_environment_the_file_and_the_mappings() {
        let fixture = Fixture::new();
        fixture.file("proc/self/environ", b"HOME=/x\0LD_PRELOAD=libeatmydata.so\0XLD_PRELOAD=y\0");
        fixture.file("etc/ld.so.preload", "# none\n/usr/lib/a.so /usr/lib/b.so # c\n");
        fixture.file(
            "proc/self/maps",
            "55d0-55d1 r-xp 00000000 fe:00 12 /usr/bin/eatmydata-test\n\
             7f00-7f01 r-xp 00000000 fe:00 13   /usr/lib/libeatmydata.so.1.3.0\n\
             7f01-7f02 rw-p 00000000 fe:00 13   /usr/lib/libeatmydata.so.1.3.0\n\
             7f02-7f03 rw-p 00000000 00:00 0    [heap]\n\
             7f03-7f04 r-xp 00000000 fe:00 14   /usr/lib/libc.so.6\n",
        );
        let facts = process_facts(&fixture.root());
        assert_eq!(facts.preload_environment.as_deref(), Some("libeatmydata.so"));
        assert_eq!(facts.preload_file.as_deref(), Some("/usr/lib/a.so /usr/lib/b.so"));
        assert_eq!(facts.sync_swallowers, ["/usr/lib/libeatmydata.so.1.3.0"]);
    }

    #[test]
    fn filters_and_tracers_are_told_from_fields_with_longer_names() {
        let fixture = Fixture::new();
        let status = "Name:\tx\nTracerPid:\t7\nSeccomp_filters:\t3\nSeccomp:\t2\n";
        fixture.file("proc/self/status", status);
        let facts = process_facts(&fixture.root());
        assert_eq!((facts.seccomp, facts.tracer), (Some(2), Some(7)));
    }

    #[test]
    fn this_process_has_no_tracer_unless_the_kernel_says_so_and_survives_being_saved() {
        let facts = process_facts(&SystemDir::live_root());
        assert!(facts.kernel_version.is_some() && facts.tracer.is_some());
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<ProcessFacts>(&text).unwrap(), facts);
    }
}
