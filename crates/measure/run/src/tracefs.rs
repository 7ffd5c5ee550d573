//! A trace of durio's own: an instance in tracefs, which leaves the traces of others alone.
//!
//! It is gone when it is dropped, also by a panic. What a killed run left behind the next run removes:
//! the name of an instance says whose it is.
//!
//! Steps and captures switch events on in it and read it; durio-observe makes data of its texts.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use durio_base::Nanos;
use durio_observe::{
    BufferStats, TraceClock, TraceText, find_tracefs, parse_buffer_stats, parse_trace,
};
use rustix::fs::OFlags;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// The largest text that is read: more than the buffers below hold.
const TEXT_MAX: u64 = 256 << 20;

/// An event in the ring buffer with its header, at most.
const EVENT_BYTES: u64 = 96;

// KiB per processor: from the smallest that suits the kernel's pages to the most that a machine
// with hundreds of processors can spare.
const BUFFER_KIB: std::ops::RangeInclusive<u64> = 64..=4096;

/// Settings of the text that differ from system to system, as parse_trace wants them; the kernel
/// refuses options that it does not know, and does not print their output either.
const OPTIONS: [&str; 11] = [
    "noraw",
    "nohex",
    "nobin",
    "nofields",
    "noverbose",
    "nolatency-format",
    "norecord-tgid",
    "context-info",
    "irq-info",
    "markers",
    "overwrite",
];

/// The path of tracefs: where it is mounted, else a private mount that ends with this process. The
/// error has the remedy if neither is possible.
pub(crate) fn tracefs(root: &Path) -> Result<PathBuf, String> {
    static OWN: OnceLock<Option<OwnedFd>> = OnceLock::new();
    if let Some(path) = find_tracefs(root) {
        return Ok(path);
    }
    // In a copied tree nothing is mounted.
    let is_live = root == Path::new("/");
    let own = || OWN.get_or_init(|| detached_mount().ok()).as_ref();
    let own = is_live
        .then(own)
        .flatten()
        .ok_or("tracefs is not mounted (as root: mount -t tracefs tracefs /sys/kernel/tracing)")?;
    let path = Path::new(OWN_MOUNTS).join(own.as_raw_fd().to_string());
    // Remains of a killed run show only in a mount.
    let _ = remove_dead_in(&path, root);
    Ok(path)
}

/// Private mounts are reached by their descriptors.
const OWN_MOUNTS: &str = "/proc/self/fd";

/// A mount of tracefs that no other process sees, and that ends when it is closed.
pub(crate) fn detached_mount() -> rustix::io::Result<OwnedFd> {
    let opened = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&opened)?;
    fsmount(&opened, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// A filter that lets the events of these devices through. The kernel keeps a number in one word
/// (MKDEV, kdev_t.h), which is `dev` in an event.
pub(crate) fn device_filter(numbers: impl Iterator<Item = (u32, u32)>) -> String {
    let each = numbers
        .map(|(major, minor)| format!("dev == {}", u64::from(major) << 20 | u64::from(minor)));
    each.collect::<Vec<_>>().join(" || ")
}

/// A trace on its way.
#[derive(Debug)]
pub(crate) struct TraceInstance {
    // First, because an instance cannot be removed while one of its files is open.
    marker: File,
    folder: InstanceFolder,
}

/// The folder of an instance; removed with all that the kernel keeps for it: its events end, too.
#[derive(Debug)]
struct InstanceFolder(PathBuf);

impl Drop for InstanceFolder {
    fn drop(&mut self) {
        // The error cannot be reported any more; the next run tries again.
        let _ = fs::remove_dir(&self.0);
    }
}

/// What a trace has seen.
#[derive(Debug)]
pub(crate) struct InstanceTrace {
    pub(crate) text: TraceText,
    /// Events that were not kept, or could not be read.
    pub(crate) lost: u64,
    /// Before this time events may be missing.
    pub(crate) complete_from: Nanos,
}

impl TraceInstance {
    /// An instance that traces nothing yet, with the first of these clocks that the kernel has,
    /// that clock's position, and room for this many events.
    pub(crate) fn make(
        tracefs: &Path,
        root: &Path,
        clocks: &[&str],
        events: u64,
    ) -> Result<(Self, usize), String> {
        let folder = make_folder(&tracefs.join("instances"), root)?;
        let path = folder.0.join("trace_marker");
        let marker = OpenOptions::new().write(true).open(&path);
        let marker = marker.map_err(|error| reason("open", &path, &error))?;
        let instance = Self { marker, folder };
        // Setting a clock clears the buffer (kernel documentation, ftrace.rst): nothing may come before.
        instance.set("tracing_on", "0")?;
        let clock = instance.set_clock(clocks)?;
        for option in OPTIONS {
            let _ = instance.set("trace_options", option);
        }
        instance.set("buffer_size_kb", &buffer_kib(events).to_string())?;
        Ok((instance, clock))
    }

    fn set_clock(&self, clocks: &[&str]) -> Result<usize, String> {
        let mut refusal = "no clock is named".to_owned();
        for (place, clock) in clocks.iter().enumerate() {
            match self.set("trace_clock", clock) {
                Ok(()) => return Ok(place),
                Err(reason) => refusal = reason,
            }
        }
        Err(refusal)
    }

    /// Writes to one of its files.
    pub(crate) fn set(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.folder.0.join(file);
        // Never created: a file that the kernel lacks must be an error.
        let file = OpenOptions::new().write(true).truncate(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| reason("write", &path, &error))
    }

    /// Appends to one of its files.
    pub(crate) fn add(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.folder.0.join(file);
        let file = OpenOptions::new().append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| reason("write", &path, &error))
    }

    /// The ring buffers, a file for each processor by its number; reading one does not wait.
    pub(crate) fn buffers(&self) -> Result<Vec<(u32, File)>, String> {
        let folder = self.folder.0.join("per_cpu");
        let entries = fs::read_dir(&folder).map_err(|error| reason("read", &folder, &error))?;
        let open = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix("cpu")?.parse::<u32>().ok()?;
            let path = entry.path().join("trace_pipe_raw");
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
            let file = options.open(&path).map_err(|error| reason("open", &path, &error));
            Some(file.map(|file| (number, file)))
        };
        entries.flatten().filter_map(open).collect()
    }

    pub(crate) fn reads(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.0.join(file)).ok()
    }

    pub(crate) fn place(&self) -> String {
        // The path of a private mount means nothing to the reader.
        match self.folder.0.strip_prefix(Path::new(OWN_MOUNTS)) {
            Ok(_) => self.folder.0.file_name().unwrap_or_default().display().to_string(),
            Err(_) => self.folder.0.display().to_string(),
        }
    }

    /// Writes a mark: `durio begin 7`.
    pub(crate) fn mark(&mut self, word: &str, commit: u64) -> Result<(), String> {
        self.mark_text(&format!("durio {word} {commit}"))
    }

    /// Writes any text as a mark.
    pub(crate) fn mark_text(&mut self, text: &str) -> Result<(), String> {
        self.marker
            .write_all(text.as_bytes())
            .map_err(|error| reason("write", &self.folder.0.join("trace_marker"), &error))
    }

    pub(crate) fn finish(self) -> Result<InstanceTrace, String> {
        let text = parse_trace(&self.stopped_text()?, TraceClock::Monotonic);
        let (lost, complete_from) = self.losses(text.unreadable, |stats| stats.oldest);
        Ok(InstanceTrace { text, lost, complete_from: complete_from.unwrap_or(Nanos::ZERO) })
    }

    /// Stops tracing, and gives the text of the trace.
    pub(crate) fn stopped_text(&self) -> Result<Vec<u8>, String> {
        self.set("tracing_on", "0")?;
        let path = self.folder.0.join("trace");
        let mut text = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(TEXT_MAX).read_to_end(&mut text));
        read.map_err(|error| reason("read", &path, &error))?;
        Ok(text)
    }

    /// Events that were not kept, with those that were `unreadable`, and from when on none is missing:
    /// the `oldest` event that is left in any buffer that lost some.
    pub(crate) fn losses<T: Ord>(
        &self,
        unreadable: u64,
        oldest: impl Fn(&BufferStats) -> Option<T>,
    ) -> (u64, Option<T>) {
        let entries = fs::read_dir(self.folder.0.join("per_cpu")).into_iter().flatten().flatten();
        let text = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("stats")).ok();
        let stats = entries.filter_map(text).map(|text| parse_buffer_stats(&text));
        let stats: Vec<BufferStats> = stats.filter(|stats| stats.lost > 0).collect();
        let lost = stats.iter().fold(unreadable, |sum, stats| sum.saturating_add(stats.lost));
        (lost, stats.iter().filter_map(oldest).max())
    }
}

#[cfg(test)]
impl TraceInstance {
    /// One in this folder of no tracefs, whose buffers lost so many events.
    pub(crate) fn that_lost(folder: &Path, lost: &[u64]) -> Self {
        for (processor, lost) in lost.iter().enumerate() {
            let own = folder.join(format!("per_cpu/cpu{processor}"));
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("stats"), format!("entries: 9\noverrun: {lost}\n")).unwrap();
        }
        let marker = File::create(folder.join("trace_marker")).unwrap();
        Self { marker, folder: InstanceFolder(folder.to_owned()) }
    }
}

/// KiB of each processor's buffer.
fn buffer_kib(events: u64) -> u64 {
    let kib = events.saturating_mul(EVENT_BYTES) / 1024;
    kib.clamp(*BUFFER_KIB.start(), *BUFFER_KIB.end())
}

/// Makes a folder that no other instance has.
fn make_folder(instances: &Path, root: &Path) -> Result<InstanceFolder, String> {
    let mut number = 0_u32;
    loop {
        let path = instances.join(trace_instance_name(root, number));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(InstanceFolder(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                number += 1;
            }
            Err(error) => return Err(reason("make the trace instance", &path, &error)),
        }
    }
}

/// Why nothing can be traced, in words.
fn reason(what: &str, path: &Path, error: &io::Error) -> String {
    let place = path.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "no permission to {what} '{place}': tracing needs root, and a kernel that is not \
             locked down"
        ),
        io::ErrorKind::NotFound => {
            format!("cannot {what} '{place}': this kernel does not have it, or does not show it")
        }
        _ => format!("cannot {what} '{place}': {error}"),
    }
}

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
pub fn trace_instance_name(root: &Path, number: u32) -> String {
    let process = std::process::id();
    let started = start_ticks(root, process).unwrap_or_default();
    format!("{OWN_NAME}{process}-{started}-{number}")
}

/// Removes the trace instances of dead durio processes, with their traces; gives their folders.
///
/// Whether a process of another container lives cannot be seen. But a tracing process holds a file
/// of its instance open, and the kernel keeps such an instance (EBUSY).
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

    #[test]
    fn a_reason_says_what_is_missing() {
        let of = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            reason("write", Path::new("/t/tracing_on"), &error)
        };
        assert!(of(13).starts_with("no permission to write '/t/tracing_on'"));
        assert!(of(2).contains("this kernel does not have it"));
        assert!(of(16).contains("busy") && of(30).contains("ead-only"), "{} {}", of(16), of(30));
    }

    #[test]
    fn an_instance_that_cannot_be_set_up_is_removed_again() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("instances")).unwrap();
        // A folder of no tracefs: nothing is in it.
        let error = TraceInstance::make(root.path(), root.path(), &["mono"], 1).unwrap_err();
        assert!(error.contains("trace_marker"), "{error}");
        assert_eq!(fs::read_dir(root.path().join("instances")).unwrap().count(), 0);
        let error =
            TraceInstance::make(Path::new("/nowhere"), root.path(), &["mono"], 1).unwrap_err();
        assert!(error.contains("make the trace instance"), "{error}");
    }

    #[test]
    fn a_buffer_has_96_bytes_for_each_event_between_64_and_4096_kib() {
        let kib = [0, 682, 683, 694, 43_690, 43_691, u64::MAX].map(buffer_kib);
        assert_eq!(kib, [64, 64, 64, 65, 4095, 4096, 4096]);
    }

    #[test]
    fn a_trace_is_complete_once_the_last_buffer_that_lost_events_is() {
        let folder = tempfile::tempdir().unwrap();
        for (processor, lost, oldest) in [
            (0, 3, "100.000001"),
            (1, 5, "250.500000"),
            (2, 7, "190.250000"),
            // It lost none: the oldest is its first.
            (3, 0, "900.000000"),
        ] {
            let own = folder.path().join(format!("per_cpu/cpu{processor}"));
            fs::create_dir_all(&own).unwrap();
            let text = format!("entries: 9\noverrun: {lost}\noldest event ts: {oldest}\n");
            fs::write(own.join("stats"), text).unwrap();
        }
        let marker = File::create(folder.path().join("trace_marker")).unwrap();
        let instance = TraceInstance { marker, folder: InstanceFolder(folder.path().to_owned()) };
        let (lost, complete_from) = instance.losses(2, |stats| stats.oldest);
        assert_eq!((lost, complete_from), (17, Some(Nanos::new(250_500_000_000))));
    }

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
