//! The witness: everything present that is not durio's, and all system state that durio could
//! change.
//!
//! Compares two looks at folders; the same difference always gives the same words.
//!
//! How a process ended is judged by rules that hold for every command of durio, whatever its input. No
//! times or process numbers are in the words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::launch::EndedProcess;

/// Bytes per read.
const CHUNK: usize = 1 << 18;

/// Everything in a folder, by its path in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderTree(BTreeMap<PathBuf, String>);

impl FolderTree {
    /// Records every name, kind, permission, owner, size, and the contents.
    pub(super) fn of(folder: &Path) -> Self {
        Self::looked_at(folder, |path, facts| {
            format!("{} {}", identity(path, facts), contents(path, facts))
        })
    }

    /// Records the times of change instead of the contents: no program can set those back.
    pub(super) fn stamps_of(folder: &Path) -> Self {
        Self::looked_at(folder, |path, facts| {
            // New entries of a directory are seen separately.
            let (s, ns) = if facts.is_dir() { (0, 0) } else { (facts.ctime(), facts.ctime_nsec()) };
            format!("{} {s}.{ns}", identity(path, facts))
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
            facts.extend(mount_points().into_iter().map(|mount| format!("{MOUNT_ON}{mount}")));
            facts.extend(processes().into_iter().map(|(_, name)| format!("process {name}")));
            facts.extend(tracing());
            let folders = ["/tmp", "/dev/shm", "/run", "/run/durio"].map(PathBuf::from);
            facts.extend(
                folders
                    .iter()
                    .flat_map(|parent| entries(parent))
                    .map(|path| path.display().to_string()),
            );
        }
        facts.extend(settings());
        Self(facts)
    }

    /// The facts that appeared and disappeared.
    pub(super) fn differences(&self, later: &Self) -> Vec<String> {
        let came = later.0.difference(&self.0).map(|fact| format!("left: {fact}"));
        let went = self.0.difference(&later.0).filter(|fact| !is_gone_with_its_folder(fact));
        let went = went.map(|fact| format!("gone: {fact}"));
        came.chain(went).collect()
    }
}

/// True of a mount whose folder was removed, which takes the mount out of every namespace: other
/// tests do so with theirs. The user's folders are checked separately.
fn is_gone_with_its_folder(fact: &str) -> bool {
    fact.strip_prefix(MOUNT_ON).is_some_and(|point| !Path::new(point).exists())
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
    swap_files(folder).iter().map(|file| format!("swap on {}", file.display())).collect()
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
    let numbers = all.filter_map(|entry| entry.file_name()?.to_str()?.parse::<i32>().ok());
    let others = numbers.filter(|&number| number != own);
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
        let name = path.file_name().and_then(|text| text.to_str()).unwrap_or_default();
        let number = name.strip_prefix("durio-").and_then(|rest| rest.split('-').next());
        number.and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|number| number <= last)
    };
    let mut instances = entries(&Path::new(TRACEFS).join("instances"));
    instances.retain(is_ours);
    instances
}

/// Settings that durio reads, uses for proofs or could change; not those of devices without
/// hardware, which other tests create and remove.
fn settings() -> Vec<String> {
    let blocks = entries(Path::new("/sys/block"));
    let real = blocks.iter().filter(|device| device.join("device").exists());
    let queues = real.flat_map(|block| entries(&block.join("queue")));
    let files = entries(Path::new("/proc/sys/vm")).into_iter().chain(queues);
    let texts = files.filter_map(|file| {
        // Writing to these is a command, and reading them yields nothing.
        let is_order = ["stat_refresh", "compact_memory", "drop_caches", "nr_hugepages"]
            .iter()
            .any(|ending| file.ends_with(ending));
        let text = (!is_order).then(|| fs::read_to_string(&file).ok())??;
        Some(format!("{} is {}", file.display(), text.trim()))
    });
    texts.collect()
}

/// More than this is a fault, whatever good input needs.
const MEMORY_MAX_BYTES: u64 = 256 << 20;

/// The exit codes documented in `durio help`, except 4, "a fault in durio".
const CODES: [i32; 5] = [0, 1, 2, 3, 130];

/// The faults of a process that ended undisturbed.
pub(super) fn faults(ended: &EndedProcess) -> Vec<String> {
    faults_but(ended, &[])
}

/// The same, with further permitted exit codes.
pub(super) fn faults_but(ended: &EndedProcess, also: &[i32]) -> Vec<String> {
    let code = ended.code();
    let is_known = CODES.contains(&code) || also.contains(&code);
    let is_heavy = ended.peak > MEMORY_MAX_BYTES;
    let faults = [
        (is_heavy, format!("takes more than {} MiB", MEMORY_MAX_BYTES >> 20)),
        (ended.is_late, "hangs".to_owned()),
        (!is_known && !ended.is_ended_by_us, format!("exit code {code}{}", last_line(ended))),
    ];
    let faults = faults.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what);
    faults.chain(panic(ended)).chain(escapes(ended)).collect()
}

fn panic(ended: &EndedProcess) -> Option<String> {
    let text = ended.stderr_text();
    let line = text.lines().find(|line| line.contains("panicked at"))?;
    Some(format!("panics: {}", shown(line)))
}

fn last_line(ended: &EndedProcess) -> String {
    let text = ended.stderr_text();
    text.lines().last().map_or_else(String::new, |line| format!(": {}", shown(line)))
}

/// Control characters that a terminal would obey.
pub(super) fn escapes(ended: &EndedProcess) -> Option<String> {
    let streams = [("stdout", &ended.stdout), ("stderr", &ended.stderr)];
    let found = streams.iter().find_map(|(name, bytes)| Some((name, escape_in(bytes)?)))?;
    Some(format!("control character {:?} on {}", found.1, found.0))
}

/// The first character that a terminal obeys: controls except line feed and tab, and in text for
/// people also those that change the direction of text. JSON and HTML keep the latter: a path is in
/// them as it is.
fn escape_in(bytes: &[u8]) -> Option<char> {
    let text = String::from_utf8_lossy(bytes);
    let is_document = text.trim_start().starts_with(['{', '[', '<']);
    text.chars().find(|&c| {
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        (turns && !is_document) || (c.is_control() && c != '\n' && c != '\t')
    })
}

/// A line without anything that a terminal obeys, shortened.
pub(super) fn shown(line: &str) -> String {
    let clean = line.escape_debug().to_string();
    clean.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

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
        let is_there = processes().iter().any(|process| process.0 == number);
        child.wait().unwrap();
        let found = before.into_iter().find(|process| process.0 == number);
        // The kernel's name of this process's first thread, which starts the tests.
        assert_eq!(found.unwrap().1, format!("sleep of {}", own.trim_end()));
        assert!(!is_there);
    }

    fn ended(code: i32, stderr: &[u8]) -> EndedProcess {
        EndedProcess {
            status: ExitStatus::from_raw(code << 8),
            stdout: Vec::new(),
            stderr: stderr.to_vec(),
            peak: 0,
            is_late: false,
            is_ended_by_us: false,
        }
    }

    #[test]
    fn a_refusal_is_right() {
        assert_eq!(faults(&ended(2, b"durio: no such file\n\thint\n")), [""; 0]);
    }

    #[test]
    fn a_panic_an_unknown_code_an_escape_and_a_turn_are_faults() {
        let panicked = faults(&ended(101, b"thread 'main' panicked at src/x.rs:1:\nboom\n"));
        assert_eq!(panicked.len(), 2, "{panicked:?}");
        assert_eq!(faults(&ended(4, b"")), ["exit code 4"]);
        assert_eq!(faults(&ended(2, b"'\x1b[2J'")), ["control character '\\u{1b}' on stderr"]);
        assert_eq!(faults(&ended(2, "\u{202e}".as_bytes())).len(), 1);
        assert_eq!(faults(&ended(2, "\u{9b}".as_bytes())).len(), 1);
        let document = EndedProcess { stdout: "{\"\u{202e}\"}".into(), ..ended(0, b"") };
        assert_eq!(faults(&document), [""; 0]);
    }

    #[test]
    fn memory_and_a_hang_are_faults() {
        let heavy = EndedProcess { peak: 1 << 30, is_ended_by_us: true, ..ended(137, b"") };
        assert_eq!(faults(&heavy), ["takes more than 256 MiB"]);
        assert_eq!(
            faults(&EndedProcess { is_late: true, is_ended_by_us: true, ..ended(9, b"") }),
            ["hangs"]
        );
    }
}
