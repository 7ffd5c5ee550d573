//! The witness: everything present that is not durio's, and all system state that durio could
//! change.
//!
//! Compares two looks at folders; the same difference always gives the same words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes per read.
const CHUNK: usize = 1 << 18;

/// Everything in a folder, by its path in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderTree(BTreeMap<PathBuf, String>);

impl FolderTree {
    /// Records every name, kind, permission, owner, size, and the contents.
    pub(super) fn of(folder: &Path) -> Self {
        Self::looked_at(folder, |path, it| format!("{} {}", identity(path, it), contents(path, it)))
    }

    /// Records the times of change instead of the contents: no program can set those back.
    pub(super) fn stamps_of(folder: &Path) -> Self {
        Self::looked_at(folder, |path, it| {
            // New entries of a directory are seen separately.
            let (s, ns) = if it.is_dir() { (0, 0) } else { (it.ctime(), it.ctime_nsec()) };
            format!("{} {s}.{ns}", identity(path, it))
        })
    }

    fn looked_at(folder: &Path, look: impl Fn(&Path, &Metadata) -> String) -> Self {
        let mut found = BTreeMap::new();
        let mut open = vec![folder.to_owned()];
        while let Some(path) = open.pop() {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_dir() {
                open.extend(entries(&path));
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
            found.insert(name, look(&path, &metadata));
        }
        Self(found)
    }

    /// Leaves out some folders and their contents.
    pub(super) fn without(mut self, folders: &[&str]) -> Self {
        self.0.retain(|path, _| !folders.iter().any(|folder| path.starts_with(folder)));
        self
    }

    /// Entries that are gone, new or changed in a later look.
    pub(super) fn differences(&self, later: &Self) -> Vec<String> {
        let names: BTreeSet<_> = self.0.keys().chain(later.0.keys()).collect();
        let differing = names.into_iter().filter_map(|name| {
            let what = match (self.0.get(name), later.0.get(name)) {
                (Some(_), None) => "gone",
                (None, Some(_)) => "left",
                (Some(before), Some(after)) if before != after => "changed",
                _ => return None,
            };
            Some(format!("{what}: {}", name.display()))
        });
        differing.collect()
    }
}

fn identity(path: &Path, it: &Metadata) -> String {
    // A directory's size and times change with its entries, which are seen separately.
    let size = if it.is_dir() { 0 } else { it.size() };
    let link = fs::read_link(path).unwrap_or_default();
    // With the inode: a file replaced by an equal one counts as changed.
    format!("{:o} {}:{} {size} {} {}", it.mode(), it.uid(), it.gid(), it.ino(), link.display())
}

fn contents(path: &Path, it: &Metadata) -> String {
    let is_device = it.file_type().is_block_device();
    if !it.is_file() && !is_device {
        return String::new();
    }
    hash(path).map_or_else(|error| error.kind().to_string(), |hash| format!("{hash:x}"))
}

/// The hash of a file's or device's bytes.
pub(super) fn hash(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    // Good enough against accidents: no attack here forges hashes.
    let (mut hasher, mut chunk) = (DefaultHasher::new(), vec![0; CHUNK]);
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.write(&chunk[..count]);
    }
}

/// The entries of a folder; empty if it is not a folder.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// The system state that durio could leave or change.
#[derive(Debug, Clone)]
pub(super) struct SystemState(BTreeSet<String>);

impl SystemState {
    /// Looks at loop devices and swap over files in `scratch`, mounts, processes, tracing, kernel
    /// settings, and the folders for temporary files.
    ///
    /// Processes, mounts and temporary files are only ours in private namespaces; `is_alone` says
    /// whether we are in such.
    pub(super) fn now(scratch: &Path, is_alone: bool) -> Self {
        let mut facts: BTreeSet<String> = loop_devices(scratch)
            .map(|(_, over)| format!("loop device over {}", over.display()))
            .collect();
        facts.extend(swaps(scratch));
        if is_alone {
            facts.extend(mount_points().into_iter().map(|it| format!("{MOUNT_ON}{it}")));
            facts.extend(processes().into_iter().map(|(_, name)| format!("process {name}")));
            facts.extend(tracing());
            let folders = ["/tmp", "/dev/shm", "/run", "/run/durio"].map(PathBuf::from);
            facts.extend(
                folders.iter().flat_map(|it| entries(it)).map(|it| it.display().to_string()),
            );
        }
        facts.extend(settings());
        Self(facts)
    }

    /// The facts that appeared and disappeared.
    pub(super) fn differences(&self, later: &Self) -> Vec<String> {
        let came = later.0.difference(&self.0).map(|it| format!("left: {it}"));
        let went = self.0.difference(&later.0).filter(|it| !is_gone_with_its_folder(it));
        let went = went.map(|it| format!("gone: {it}"));
        came.chain(went).collect()
    }
}

/// True of a mount whose folder was removed, which takes the mount out of every namespace: other
/// tests do so with theirs. The user's folders are checked separately.
fn is_gone_with_its_folder(fact: &str) -> bool {
    fact.strip_prefix(MOUNT_ON).is_some_and(|it| !Path::new(it).exists())
}

const MOUNT_ON: &str = "mount on ";

/// Loop devices over files in a folder, with the file.
pub(super) fn loop_devices(folder: &Path) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let blocks = entries(Path::new("/sys/block")).into_iter();
    blocks.filter_map(move |block| {
        let over = fs::read_to_string(block.join("loop/backing_file")).ok()?;
        let over = PathBuf::from(over.trim_end());
        let name = block.file_name()?.to_owned();
        over.starts_with(folder).then(|| (Path::new("/dev").join(name), over))
    })
}

/// Swap files in a folder.
pub(super) fn swap_files(folder: &Path) -> Vec<PathBuf> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let files = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    files.map(PathBuf::from).filter(|file| file.starts_with(folder)).collect()
}

fn swaps(folder: &Path) -> Vec<String> {
    swap_files(folder).iter().map(|it| format!("swap on {}", it.display())).collect()
}

/// Where something is mounted, in this process's namespace.
pub(super) fn mount_points() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned).collect()
}

/// Living processes other than this one, with their names. A killed process counts as dead, though
/// on a busy machine it may not have had the processor time to exit.
pub(super) fn processes() -> Vec<(i32, String)> {
    let own = std::process::id().cast_signed();
    let all = entries(Path::new("/proc")).into_iter();
    let numbers = all.filter_map(|it| it.file_name()?.to_str()?.parse::<i32>().ok());
    let others = numbers.filter(|&it| it != own);
    others
        .filter_map(|number| {
            let (name, fields) = stat_of(number)?;
            let mut fields = fields.split_whitespace();
            let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
            // Past the group, the session, the terminal and its group (proc_pid_stat(5)).
            let flags: u32 = fields.nth(4)?.parse().ok()?;
            let is_dead = state == "Z" || state == "X" || flags & PF_EXITING != 0;
            let parent = stat_of(parent).map_or_else(|| "nobody".to_owned(), |(name, _)| name);
            (!is_dead && !is_killed(number)).then(|| (number, format!("{name} of {parent}")))
        })
        .collect()
}

/// A process flag in /proc/PID/stat: it is exiting (include/linux/sched.h).
const PF_EXITING: u32 = 4;
/// SIGKILL in a set of signals.
// Signal 1 is bit 0 (proc_pid_status(5)).
const KILL_BIT: u64 = 1 << 8;

/// The name of a process, and the fields after it in /proc/PID/stat: its state, its parent, and so
/// on.
fn stat_of(number: i32) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The last bracket: a program may have brackets and blanks in its name.
    let (front, rest) = stat.rsplit_once(')')?;
    Some((front.split_once('(')?.1.to_owned(), rest.to_owned()))
}

/// True if a process has a pending SIGKILL.
fn is_killed(number: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
    let pending = |line: &str| {
        let set = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(set.trim(), 16).ok()
    };
    status.lines().filter_map(pending).any(|set| set & KILL_BIT != 0)
}

const TRACEFS: &str = "/sys/kernel/tracing";

fn tracing() -> Vec<String> {
    let folder = Path::new(TRACEFS);
    let switches = ["tracing_on", "current_tracer", "trace_clock", "events/enable"];
    let of_switch = |name: &&str| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        Some(format!("{name} is {}", text.trim()))
    };
    let instances = tracing_instances().into_iter();
    instances
        .map(|_| "tracing instance".to_owned())
        .chain(switches.iter().filter_map(of_switch))
        .collect()
}

/// Instances of processes of this namespace, whose numbers are smaller than those of a machine that
/// has run for a while; those of other programs come and go.
pub(super) fn tracing_instances() -> Vec<PathBuf> {
    let last = fs::read_to_string("/proc/sys/kernel/ns_last_pid").unwrap_or_default();
    let last: u32 = last.trim().parse().unwrap_or(0);
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        let number = name.strip_prefix("durio-").and_then(|it| it.split('-').next());
        number.and_then(|it| it.parse::<u32>().ok()).is_some_and(|number| number <= last)
    };
    let mut instances = entries(&Path::new(TRACEFS).join("instances"));
    instances.retain(is_ours);
    instances
}

/// Settings that durio reads, uses for proofs or could change; not those of devices without
/// hardware, which other tests create and remove.
fn settings() -> Vec<String> {
    let blocks = entries(Path::new("/sys/block"));
    let real = blocks.iter().filter(|it| it.join("device").exists());
    let queues = real.flat_map(|it| entries(&it.join("queue")));
    let files = entries(Path::new("/proc/sys/vm")).into_iter().chain(queues);
    let texts = files.filter_map(|file| {
        // Writing to these is a command, and reading them yields nothing.
        let is_order = ["stat_refresh", "compact_memory", "drop_caches", "nr_hugepages"]
            .iter()
            .any(|it| file.ends_with(it));
        let text = (!is_order).then(|| fs::read_to_string(&file).ok())??;
        Some(format!("{} is {}", file.display(), text.trim()))
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_a_new_name_and_a_lost_one_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b", "c"] {
            fs::write(path(name), "same length").unwrap();
        }
        let (before, stamps) =
            (FolderTree::of(folder.path()), FolderTree::stamps_of(folder.path()));
        assert_eq!(before.differences(&FolderTree::of(folder.path())), [""; 0]);
        fs::write(path("a"), "SAME LENGTH").unwrap();
        fs::remove_file(path("b")).unwrap();
        fs::write(path("d"), "").unwrap();
        let expected = ["changed: a", "gone: b", "left: d"];
        assert_eq!(before.differences(&FolderTree::of(folder.path())), expected);
        assert_eq!(stamps.differences(&FolderTree::stamps_of(folder.path())), expected);
    }

    #[test]
    fn a_file_that_took_a_name_is_another_even_with_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&a, "x").unwrap();
        fs::write(&b, "x").unwrap();
        let before = FolderTree::of(folder.path());
        fs::rename(b, a).unwrap();
        assert_eq!(before.differences(&FolderTree::of(folder.path())), ["changed: a", "gone: b"]);
    }

    #[test]
    fn a_process_is_there_until_it_is_killed() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let number = child.id().cast_signed();
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        let before = processes();
        child.kill().unwrap();
        let is_there = processes().iter().any(|it| it.0 == number);
        child.wait().unwrap();
        let found = before.into_iter().find(|it| it.0 == number);
        // The kernel's name of this process's first thread, which starts the tests.
        assert_eq!(found.unwrap().1, format!("sleep of {}", own.trim_end()));
        assert!(!is_there);
    }
}
