//! The kernel's tracing files, also where tracefs is not mounted, and what captures and watches of
//! slow calls do with them: trace the threads of some processes, read the ring buffers.

use std::collections::HashSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use durio_observe::{SubBuffer, find_tracefs, threads_of};
use rustix::io::Errno;

use crate::tracefs::{TraceInstance, detached_mount, remove_dead_in};

/// The tracing files; if tracefs is not mounted, a private mount that ends with this process.
#[derive(Debug)]
pub(crate) struct TraceFiles {
    pub(crate) path: PathBuf,
    pub(crate) layout: SubBuffer,
    pub(crate) mount: Option<OwnedFd>,
}

/// As any of the doors to tracefs is shut to others than root.
const NO_PERMISSION: &str = "no permission to trace the kernel: this needs root (sudo durio …)";

impl TraceFiles {
    /// Finds them; the error text names the missing part.
    pub(crate) fn open(root: &Path) -> Result<Self, String> {
        let (path, mount) = match find_tracefs(root) {
            Some(path) => (path, None),
            None => {
                let mount = detached_mount().map_err(mount_refused)?;
                (PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())), Some(mount))
            }
        };
        let layout = SubBuffer::parse(&event_text(&path, "header_page")?)
            .ok_or("the format of the kernel's events/header_page is unknown")?;
        Ok(Self { path, layout, mount })
    }
}

/// Removes the instances of dead captures, also where tracefs was mounted for a capture alone; gives their
/// folders, as they are called where tracefs is mounted.
///
/// # Errors
/// If this process may not see them.
pub fn remove_dead_captures(root: &Path) -> Result<Vec<PathBuf>, String> {
    let files = TraceFiles::open(root)?;
    let removed = remove_dead_in(&files.path, root);
    let names = removed.iter().filter_map(|folder| folder.file_name());
    Ok(names.map(|name| Path::new("/sys/kernel/tracing/instances").join(name)).collect())
}

fn mount_refused(error: Errno) -> String {
    match error {
        Errno::PERM | Errno::ACCESS => NO_PERMISSION.to_owned(),
        Errno::NODEV => {
            "this kernel has no tracefs (CONFIG_FTRACE, CONFIG_FTRACE_SYSCALLS)".to_owned()
        }
        // Kernels before 5.2 mount by a path alone.
        error => format!(
            "tracefs is not mounted and cannot be ({error}); as root: mount -t tracefs tracefs \
             /sys/kernel/tracing"
        ),
    }
}

/// A text of the folder `events`.
pub(crate) fn event_text(tracefs: &Path, place: &str) -> Result<String, String> {
    let path = tracefs.join("events").join(place);
    read_text(&path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => NO_PERMISSION.to_owned(),
        _ => format!("this kernel does not show '{}': {error}", path.display()),
    })
}

/// The text of a file of the kernel, which gives some (`header_page`) by the first read alone.
fn read_text(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = Vec::with_capacity(TEXT_BYTES);
    let mut part = vec![0; TEXT_BYTES];
    loop {
        let length = file.read(&mut part)?;
        if length == 0 {
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        text.extend_from_slice(part.get(..length).unwrap_or_default());
    }
}

/// Longer than a format, which has at most a page.
const TEXT_BYTES: usize = 16 << 10;

/// Threads that are named to the kernel at a time: a database may have thousands.
const THREADS_AT_ONCE: usize = 500;

/// Has an instance trace the threads of these processes alone, and the threads and children that
/// they start later.
pub(crate) fn trace_only(
    instance: &TraceInstance,
    root: &Path,
    processes: &[u32],
) -> Result<(), String> {
    // Before its list is written, so that processes forked in between are on it.
    let _ = instance.set("options/event-fork", "1");
    let all = all_threads(root, processes);
    let mut parts = all.chunks(THREADS_AT_ONCE).map(in_words);
    // An empty list would trace every process.
    let first = parts.next().ok_or("the process ended before it could be watched")?;
    instance.set("set_event_pid", &first)?;
    parts.try_for_each(|part| instance.add("set_event_pid", &part))
}

/// Has it trace the threads of these processes too.
pub(crate) fn trace_also(
    instance: &TraceInstance,
    root: &Path,
    processes: &[u32],
) -> Result<(), String> {
    let known = instance.reads("set_event_pid").unwrap_or_default();
    let known: HashSet<u32> =
        known.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let mut new = all_threads(root, processes);
    new.retain(|thread| !known.contains(thread));
    let mut parts = new.chunks(THREADS_AT_ONCE).map(in_words);
    parts.try_for_each(|part| instance.add("set_event_pid", &part))
}

fn all_threads(root: &Path, processes: &[u32]) -> Vec<u32> {
    processes.iter().flat_map(|process| threads_of(root, *process)).collect()
}

fn in_words(threads: &[u32]) -> String {
    threads.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// Takes the contents of each processor's buffer in order, a sub-buffer at a time, until it is
/// empty or `take` gives false.
pub(crate) fn read_pages(
    buffers: &[(u32, File)],
    layout: SubBuffer,
    take: &mut dyn FnMut(u32, &[u8]) -> bool,
) -> Result<(), String> {
    let mut page = vec![0; layout.size];
    for (processor, buffer) in buffers {
        let mut buffer = buffer;
        loop {
            match buffer.read(&mut page) {
                Ok(0) => break,
                Ok(length) => {
                    if !take(*processor, &page[..length]) {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("cannot read the trace: {error}")),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A root with a process that has these threads, and an instance in a folder of no tracefs.
    fn machine(threads: std::ops::Range<u32>) -> (tempfile::TempDir, TraceInstance) {
        let root = tempfile::tempdir().unwrap();
        for thread in threads {
            fs::create_dir_all(root.path().join(format!("proc/12/task/{thread}"))).unwrap();
        }
        let folder = root.path().join("instance");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("set_event_pid"), "7").unwrap();
        let instance = TraceInstance::that_lost(&folder, &[]);
        (root, instance)
    }

    #[test]
    fn all_of_two_thousand_threads_are_traced_and_those_that_are_new_later() {
        let (root, instance) = machine(12..2013);
        trace_only(&instance, root.path(), &[12]).unwrap();
        let listed = instance.reads("set_event_pid").unwrap();
        // A file keeps no separators between writes, as the kernel's list does: 2,001 numbers in 5.
        let digits: usize = (12..2013_u32).map(|thread| thread.to_string().len()).sum();
        assert_eq!(listed.len(), digits + 2001 - 5, "bytes");
        fs::write(root.path().join("instance/set_event_pid"), "12\n13\n").unwrap();
        fs::remove_dir_all(root.path().join("proc/12/task")).unwrap();
        for thread in [12, 13, 14, 31] {
            fs::create_dir_all(root.path().join(format!("proc/12/task/{thread}"))).unwrap();
        }
        trace_also(&instance, root.path(), &[12]).unwrap();
        assert_eq!(instance.reads("set_event_pid").unwrap(), "12\n13\n14 31");
    }

    #[test]
    fn without_a_thread_nothing_is_traced_instead_of_everything() {
        let (root, instance) = machine(0..0);
        let refused = trace_only(&instance, root.path(), &[12]).unwrap_err();
        assert_eq!(refused, "the process ended before it could be watched");
        assert_eq!(instance.reads("set_event_pid").unwrap(), "7");
    }
}
