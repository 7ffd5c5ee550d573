//! What no event says: the names of devices, arrays that resync, processors that the hypervisor
//! took away, and how long a control group was held back. Counters are sampled at each look, so that
//! a window has the difference over its time.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use durio_observe::{WindowFacts, block_device_number, descriptors, open_file};
use rustix::fs::OFlags;

use crate::watched_processes::stacks_below;

/// The devices of all layers below these places and the files that these processes may write, by
/// their numbers.
pub(super) fn devices_below(
    root: &Path,
    processes: &[u32],
    places: &[PathBuf],
) -> Vec<((u32, u32), String)> {
    let mut folders: BTreeSet<PathBuf> = places.iter().cloned().collect();
    for &process in processes {
        let opened = descriptors(root, process).into_iter();
        for file in opened.filter_map(|fd| open_file(root, process, fd)) {
            // O_RDONLY is zero.
            if file.flags & OFlags::ACCMODE.bits() != 0 {
                folders.extend(file.path.parent().map(Path::to_path_buf));
            }
        }
        // A database that holds no file yet has its data where it runs.
        folders.extend(fs::read_link(root.join(format!("proc/{process}/cwd"))));
    }
    let mut devices: Vec<((u32, u32), String)> = Vec::new();
    for stack in stacks_below(&folders) {
        for (_, layer) in stack.walk().filter(|(_, layer)| layer.block.is_some()) {
            let number = block_device_number(root, &layer.name);
            let new = number.filter(|number| devices.iter().all(|(known, _)| known != number));
            devices.extend(new.map(|number| (number, layer.name.clone())));
        }
    }
    devices
}

/// Counters at a time.
#[derive(Debug)]
struct CounterSample {
    at: u64,
    /// Nanoseconds of each processor.
    steal: Vec<u64>,
    /// Nanoseconds of each control group, by the file that shows them.
    throttled: Vec<(PathBuf, u64)>,
}

#[derive(Debug)]
pub(super) struct FactSampler<'a> {
    root: &'a Path,
    devices: Vec<((u32, u32), String)>,
    /// Files of the watched processes' control groups, and of those above them.
    groups: BTreeSet<PathBuf>,
    samples: VecDeque<CounterSample>,
}

impl<'a> FactSampler<'a> {
    pub(super) fn new(
        root: &'a Path,
        devices: Vec<((u32, u32), String)>,
        processes: &[u32],
    ) -> Self {
        let mut sampler = Self { root, devices, groups: BTreeSet::new(), samples: VecDeque::new() };
        sampler.also(processes);
        sampler
    }

    /// Samples the control groups of these processes too.
    pub(super) fn also(&mut self, processes: &[u32]) {
        let root = self.root;
        self.groups.extend(processes.iter().flat_map(|process| throttle_files(root, *process)));
    }

    /// The same unless the last sample is young: the text of many processors takes long to make.
    pub(super) fn sample_if_due(&mut self, now: u64, horizon: u64) {
        let is_due = self.samples.back().is_none_or(|last| {
            let pause = PROCESSOR_PAUSE.saturating_mul(last.steal.len() as u64);
            now.saturating_sub(last.at) >= pause
        });
        if is_due {
            self.sample(now, horizon);
        }
    }

    /// Reads the counters, and forgets samples that no window from `horizon` on needs.
    pub(super) fn sample(&mut self, now: u64, horizon: u64) {
        let value = |file: &PathBuf| Some((file.clone(), throttled(file)?));
        self.samples.push_back(CounterSample {
            at: now,
            steal: steal_of_processors(self.root),
            throttled: self.groups.iter().filter_map(value).collect(),
        });
        // The last one before it is where a window's time begins.
        while self.samples.get(1).is_some_and(|second| second.at <= horizon)
            || self.samples.len() > SAMPLES_MAX
        {
            self.samples.pop_front();
        }
    }

    /// What was true between these times for a process.
    pub(super) fn window(&self, process: u32, begin: u64, end: u64) -> WindowFacts {
        let before = self.samples.iter().rev().find(|sample| sample.at <= begin);
        let before = before.or(self.samples.front());
        let after = self.samples.iter().find(|sample| sample.at >= end).or(self.samples.back());
        let own = throttle_files(self.root, process);
        let (mut steal, mut cpu_throttled) = (Vec::new(), 0_u64);
        if let Some((before, after)) = before.zip(after) {
            let since = |(at, count): (usize, &u64)| {
                count.saturating_sub(before.steal.get(at).copied().unwrap_or(*count))
            };
            steal = after.steal.iter().enumerate().map(since).collect();
            for (file, nanos) in after.throttled.iter().filter(|(file, _)| own.contains(file)) {
                let earlier = before.throttled.iter().find(|(known, _)| known == file);
                let earlier = earlier.map_or(*nanos, |(_, earlier)| *earlier);
                cpu_throttled = cpu_throttled.saturating_add(nanos.saturating_sub(earlier));
            }
        }
        WindowFacts {
            devices: self.devices.clone(),
            resyncs: self.resyncs(),
            steal,
            cpu_throttled,
            // No file shows it: the stack of a thread that waits does.
            is_frozen: false,
        }
    }

    fn resyncs(&self) -> Vec<(String, String)> {
        let action = |(_, name): &((u32, u32), String)| {
            let path = self.root.join(format!("sys/class/block/{name}/md/sync_action"));
            let action = fs::read_to_string(path).ok()?.trim().to_owned();
            let is_at_work = !matches!(action.as_str(), "" | "idle" | "frozen");
            is_at_work.then(|| (name.clone(), action))
        };
        self.devices.iter().filter_map(action).collect()
    }
}

/// Between two samples, for each processor.
const PROCESSOR_PAUSE: u64 = 1_000_000;

/// Of two minutes, for a call that hangs.
const SAMPLES_MAX: usize = 6000;

/// The kernel counts processor time for programs in hundredths of a second (USER_HZ).
const TICK_NANOS: u64 = 10_000_000;

/// Steal of each processor by its number: the eighth count of its line (proc_stat(5)).
fn steal_of_processors(root: &Path) -> Vec<u64> {
    let text = fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
    let mut steal = Vec::new();
    for line in text.lines().skip(1).take_while(|line| line.starts_with("cpu")) {
        let mut words = line.split_ascii_whitespace();
        let number = words.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
        let ticks = words.nth(7).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        // Lines of processors that are off are left out.
        if let Some(number) = number.filter(|number| *number >= steal.len()) {
            steal.resize(number, 0);
            steal.push(ticks.saturating_mul(TICK_NANOS));
        }
    }
    steal
}

/// The files that show how long the control groups of a process, and those above them, were held
/// back (cgroups(7)).
fn throttle_files(root: &Path, process: u32) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join(format!("proc/{process}/cgroup"))).unwrap_or_default();
    let mut files = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mount = match controllers {
            "" => "sys/fs/cgroup".to_owned(),
            named if named.split(',').any(|name| name == "cpu") => format!("sys/fs/cgroup/{named}"),
            _ => continue,
        };
        let top = root.join(mount);
        let groups = Path::new(path.trim_start_matches('/')).ancestors();
        let shown = groups.map(|group| top.join(group).join("cpu.stat"));
        files.extend(shown.filter(|file| throttled(file).is_some()));
    }
    files
}

/// Nanoseconds, from microseconds in version 2 and nanoseconds in version 1.
fn throttled(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok())
    };
    value("throttled_usec ")
        .map(|micros| micros.saturating_mul(1000))
        .or_else(|| value("throttled_time "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        write(&root, files);
        root
    }

    fn write(root: &tempfile::TempDir, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn steal_is_counted_by_processor_and_one_that_is_off_has_none() {
        let stat = "cpu  9 9 9 9 9 9 9 99 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n\
                    cpu2 1 2 3 4 5 6 7 30 9 0\nintr 5\n";
        let root = machine(&[("proc/stat", stat)]);
        let expected = [80_000_000, 0, 300_000_000];
        assert_eq!(steal_of_processors(root.path()), expected, "ns");
        assert!(steal_of_processors(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn a_window_has_what_was_counted_in_its_time_by_the_groups_of_its_process() {
        let group = "sys/fs/cgroup/db.slice/pg.service/cpu.stat";
        let root = machine(&[
            ("proc/stat", "cpu  0\ncpu0 0 0 0 0 0 0 0 5\n"),
            ("proc/12/cgroup", "0::/db.slice/pg.service\n"),
            ("proc/13/cgroup", "4:cpu,cpuacct:/other\n1:name=systemd:/x\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 7\n"),
            (group, "usage_usec 7\nthrottled_usec 1000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/other/cpu.stat", "nr_throttled 1\nthrottled_time 70\n"),
            ("sys/class/block/md0/md/sync_action", "resync\n"),
            ("sys/class/block/md1/md/sync_action", "idle\n"),
        ]);
        let devices = vec![((9, 0), "md0".to_owned()), ((9, 1), "md1".to_owned())];
        let mut sampler = FactSampler::new(root.path(), devices.clone(), &[12, 13]);
        sampler.sample(100, 0);
        sampler.sample(200, 0);
        write(
            &root,
            &[
                ("proc/stat", "cpu  0\ncpu0 0 0 0 0 0 0 0 7\n"),
                (group, "throttled_usec 1400\n"),
                ("sys/fs/cgroup/cpu,cpuacct/other/cpu.stat", "throttled_time 95\n"),
            ],
        );
        sampler.sample(300, 0);
        let facts = sampler.window(12, 210, 300);
        assert_eq!((&facts.steal[..], facts.cpu_throttled), (&[20_000_000][..], 400_000), "ns");
        assert_eq!(facts.resyncs, [("md0".to_owned(), "resync".to_owned())]);
        assert_eq!(facts.devices, devices);
        assert_eq!(sampler.window(13, 210, 300).cpu_throttled, 25, "ns");
        // Both samples around it are from before the change.
        let facts = sampler.window(12, 110, 200);
        assert_eq!((&facts.steal[..], facts.cpu_throttled), (&[0][..], 0), "ns");
        // What began before the first sample, and ended after the last.
        assert_eq!(sampler.window(12, 1, 900).cpu_throttled, 400_000, "ns");
    }

    #[test]
    fn samples_are_kept_from_the_last_one_before_the_oldest_call() {
        let root = machine(&[("proc/stat", "cpu  0\ncpu0 0 0 0 0 0 0 0 5\n")]);
        let mut sampler = FactSampler::new(root.path(), Vec::new(), &[]);
        for (at, horizon, kept) in [(10, 0, 1), (20, 5, 2), (30, 25, 2), (40, 25, 3), (50, 40, 2)] {
            sampler.sample(at, horizon);
            assert_eq!(sampler.samples.len(), kept, "at {at} ns");
        }
    }
}
