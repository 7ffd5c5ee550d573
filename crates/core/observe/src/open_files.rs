//! Processes and the files that they hold open, as `/proc` has them.
//!
//! Lists processes and threads of a process, a unit or a directory, and files with their flags.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::survey::DELETED;

/// A file that a process has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// As the kernel names it now; a deleted file keeps its last name.
    pub path: PathBuf,
    /// The flags of open(2), as `fdinfo` has them.
    pub flags: u32,
    /// Where the next write without an offset goes.
    pub position: Option<u64>,
    /// Its present size in bytes; none for a device.
    pub size: Option<u64>,
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

fn processes(root: &Path) -> Vec<u32> {
    numbers(&root.join("proc"))
}

/// The threads of a process; none if the process does not exist.
pub fn threads_of(root: &Path, process: u32) -> Vec<u32> {
    numbers(&root.join(format!("proc/{process}/task")))
}

fn status(root: &Path, task: u32, key: &str) -> Option<u32> {
    let text = fs::read_to_string(root.join(format!("proc/{task}/status"))).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

/// The process of a thread.
pub fn process_of(root: &Path, thread: u32) -> Option<u32> {
    status(root, thread, "Tgid:")
}

/// Write calls of a process so far, which the kernel counts with or without a trace; none if it
/// does not count (CONFIG_TASK_IO_ACCOUNTING), or the process may not be looked at.
pub fn write_calls(root: &Path, process: u32) -> Option<u64> {
    io_count(&io_counts(root, process)?, "syscw:")
}

/// Bytes that a process, and each child that it has waited for, wrote to storage or to the page cache
/// of a file, and those that were read from storage for them; none as for [`write_calls`].
pub fn moved_bytes(root: &Path, process: u32) -> Option<[u64; 2]> {
    let counts = io_counts(root, process)?;
    Some([io_count(&counts, "write_bytes:")?, io_count(&counts, "read_bytes:")?])
}

fn io_counts(root: &Path, process: u32) -> Option<String> {
    fs::read_to_string(root.join(format!("proc/{process}/io"))).ok()
}

fn io_count(counts: &str, key: &str) -> Option<u64> {
    counts.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

/// A process and all that descend from it and live.
pub fn family_of(root: &Path, process: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = processes(root)
        .into_iter()
        .filter_map(|process| Some((process, status(root, process, "PPid:")?)))
        .collect();
    let mut found = vec![process];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        let children =
            parents.iter().filter(|(process, of)| *of == parent && !found.contains(process));
        let children: Vec<u32> = children.map(|(process, _)| *process).collect();
        found.extend(children);
        at += 1;
    }
    found.retain(|process| root.join(format!("proc/{process}")).is_dir());
    found
}

/// The processes of a unit of systemd, by the folder of its control group; none if no such unit
/// runs.
pub fn processes_of_unit(root: &Path, unit: &str) -> Option<Vec<u32>> {
    let has_type = UNIT_TYPES.iter().any(|suffix| unit.ends_with(suffix));
    let name = if has_type { unit.to_owned() } else { format!("{unit}.service") };
    let folder = find_folder(&root.join("sys/fs/cgroup"), &name, 0)?;
    let mut found = Vec::new();
    group_processes(&folder, &mut found);
    Some(found)
}

/// The types of units that have control groups.
const UNIT_TYPES: [&str; 3] = [".service", ".scope", ".slice"];

/// Deeper than systemd nests its slices.
const DEPTH_MAX: u32 = 12;

fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

fn find_folder(folder: &Path, name: &str, depth: u32) -> Option<PathBuf> {
    let own = folder.join(name);
    if own.is_dir() {
        return Some(own);
    }
    (depth < DEPTH_MAX)
        .then(|| folders(folder).find_map(|child| find_folder(&child, name, depth + 1)))?
}

fn group_processes(folder: &Path, found: &mut Vec<u32>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    found.extend(text.lines().filter_map(|line| line.trim().parse::<u32>().ok()));
    folders(folder).for_each(|child| group_processes(&child, found));
}

/// The processes that hold regular files below a directory open.
pub fn holders_below(root: &Path, directory: &Path) -> Vec<u32> {
    let holds = |process: &u32| {
        descriptors(root, *process).into_iter().any(|fd| {
            let link = fs::read_link(root.join(format!("proc/{process}/fd/{fd}")));
            // A shell whose directory it is holds no file.
            link.is_ok_and(|target| target.starts_with(directory) && target != directory)
        })
    };
    processes(root).into_iter().filter(holds).collect()
}

/// The descriptors of a process.
pub fn descriptors(root: &Path, process: u32) -> Vec<u32> {
    numbers(&root.join(format!("proc/{process}/fd")))
}

/// The open file of a process's descriptor; none if it is closed or not a file.
pub fn open_file(root: &Path, process: u32, fd: u32) -> Option<OpenFile> {
    let link = root.join(format!("proc/{process}/fd/{fd}"));
    let mut path = fs::read_link(&link).ok()?;
    // Sockets and pipes are named socket:[7], and in /dev only block devices hold data.
    if !path.as_os_str().as_bytes().starts_with(b"/") {
        return None;
    }
    let facts = fs::metadata(&link).ok();
    let kind = facts.as_ref().map(fs::Metadata::file_type);
    if kind.is_some_and(|kind| !(kind.is_file() || kind.is_dir() || kind.is_block_device())) {
        return None;
    }
    let text = fs::read_to_string(root.join(format!("proc/{process}/fdinfo/{fd}"))).ok()?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key).map(str::trim));
    let flags = value("flags:").and_then(|octal| u32::from_str_radix(octal, 8).ok())?;
    let position = value("pos:").and_then(|number| number.parse().ok());
    if let Some(facts) = &facts {
        let named = root.join(format!("proc/{process}/root")).join(path.strip_prefix("/").ok()?);
        path = before_it_was_deleted(path, facts, &named);
    }
    let size = facts.filter(|facts| !facts.file_type().is_block_device()).map(|facts| facts.len());
    Some(OpenFile { path, flags, position, size })
}

/// The kernel adds ` (deleted)` to the path of a file whose name is gone. A living file may have such a name:
/// its process finds it there (`named`).
fn before_it_was_deleted(path: PathBuf, facts: &fs::Metadata, named: &Path) -> PathBuf {
    let Some(name) = path.as_os_str().as_bytes().strip_suffix(DELETED) else { return path };
    // One with a further link has lost only this name.
    let is_here = || {
        fs::symlink_metadata(named)
            .is_ok_and(|named| (named.dev(), named.ino()) == (facts.dev(), facts.ino()))
    };
    match facts.nlink() > 0 && is_here() {
        true => path,
        false => PathBuf::from(OsStr::from_bytes(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::Fixture;

    #[test]
    fn a_family_is_a_process_with_all_that_descend_from_it() {
        let fixture = Fixture::new();
        for (process, parent) in [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1)] {
            let text = format!("Name:\tx\nTgid:\t{process}\nPPid:\t{parent}\n");
            fixture.file(&format!("proc/{process}/status"), &text);
        }
        let root = fixture.root();
        assert_eq!(family_of(root.path(), 10), [10, 11, 12]);
        assert!(family_of(root.path(), 99).is_empty());
        assert_eq!(process_of(root.path(), 12), Some(12));
    }

    #[test]
    fn calls_that_wrote_are_counted_where_the_kernel_counts_them() {
        let fixture = Fixture::new();
        fixture.file(
            "proc/10/io",
            "rchar: 5\nwchar: 7\nsyscr: 1\nsyscw: 42\nread_bytes: 4096\nwrite_bytes: 8192\n",
        );
        fixture.file("proc/11/status", "Tgid:\t11\n");
        let root = fixture.root();
        assert_eq!(write_calls(root.path(), 10), Some(42));
        assert_eq!(write_calls(root.path(), 11), None);
        assert_eq!(moved_bytes(root.path(), 10), Some([8192, 4096]));
        assert_eq!(moved_bytes(root.path(), 11), None);
        let own = write_calls(Path::new("/"), std::process::id());
        assert!(own.is_none_or(|calls| calls < u64::MAX / 2), "{own:?}");
    }

    #[test]
    fn a_unit_has_the_processes_of_its_groups_and_one_that_does_not_run_has_none() {
        let fixture = Fixture::new();
        let unit = "sys/fs/cgroup/system.slice/system-x.slice/x@1.service";
        fixture.file(&format!("{unit}/cgroup.procs"), "10\n");
        fixture.file(&format!("{unit}/worker/cgroup.procs"), "11\n12\n");
        let root = fixture.root();
        assert_eq!(processes_of_unit(root.path(), "x@1.service"), Some(vec![10, 11, 12]));
        assert_eq!(processes_of_unit(root.path(), "x@1"), Some(vec![10, 11, 12]));
        assert_eq!(processes_of_unit(root.path(), "y"), None);
    }

    #[test]
    fn an_open_file_is_known_with_its_flags_and_who_holds_it_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let own = std::process::id();
        assert!(!holders_below(Path::new("/"), folder.path()).contains(&own));
        let file = fs::File::create(&path).unwrap();
        file.set_len(5).unwrap();
        let fd = u32::try_from(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap();
        let open = open_file(Path::new("/"), own, fd).unwrap();
        assert_eq!((open.path, open.size, open.position), (path, Some(5), Some(0)));
        assert_eq!(open.flags & 3, 1, "O_WRONLY");
        assert!(holders_below(Path::new("/"), folder.path()).contains(&own));
        assert!(threads_of(Path::new("/"), own).contains(&own));
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = u32::try_from(std::os::fd::AsRawFd::as_raw_fd(&end)).unwrap();
        assert_eq!(open_file(Path::new("/"), own, socket), None);
    }

    #[test]
    fn a_file_that_is_named_like_a_deleted_one_keeps_its_name_until_it_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::process::id();
        for name in [" (deleted)", "x (deleted)", "plain", "y (deleted) (deleted)"] {
            let path = folder.path().join(name);
            let file = fs::File::create(&path).unwrap();
            let fd = u32::try_from(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap();
            let named = || open_file(Path::new("/"), own, fd).unwrap().path;
            assert_eq!(named(), path);
            // Whoever takes its place, or holds it by another name, changes nothing of what it was.
            fs::hard_link(&path, folder.path().join("other")).unwrap();
            fs::remove_file(&path).unwrap();
            assert_eq!(named(), path, "one of two names is gone");
            fs::remove_file(folder.path().join("other")).unwrap();
            assert_eq!(named(), path, "all are gone");
            fs::write(folder.path().join(format!("{name} (deleted)")), "another").unwrap();
            assert_eq!(named(), path, "another has the name that the kernel shows");
        }
    }

    #[test]
    fn a_scope_and_a_slice_are_units_too_and_a_name_without_a_type_is_of_a_service() {
        let fixture = Fixture::new();
        for (group, process) in
            [("a.slice", 5), ("a.slice/b.scope", 7), ("a.slice/b.service", 9), ("c.slice", 11)]
        {
            let path = format!("sys/fs/cgroup/{group}/cgroup.procs");
            fixture.file(&path, format!("{process}\n"));
        }
        let root = fixture.root();
        let of = |unit: &str| {
            processes_of_unit(root.path(), unit).map(|mut processes| {
                processes.sort_unstable();
                processes
            })
        };
        assert_eq!((of("b.scope"), of("b")), (Some(vec![7]), Some(vec![9])));
        assert_eq!((of("a.slice"), of("a")), (Some(vec![5, 7, 9]), None));
    }

    #[test]
    fn a_unit_is_found_below_twelve_groups_and_not_below_thirteen() {
        for (groups, expected) in [(12, Some(vec![10])), (13, None)] {
            let fixture = Fixture::new();
            let path = format!("sys/fs/cgroup/{}x.service/cgroup.procs", "d/".repeat(groups));
            fixture.file(&path, "10\n");
            assert_eq!(processes_of_unit(fixture.root().path(), "x"), expected, "{groups}");
        }
    }
}
