//! The kernel's counters of one block device, and of all processors together.
//!
//! [`DeviceCounters`] and [`CpuCounters`], and their differences; the analyser computes rates.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::block_node;
use crate::process_facts::throttled_usec;
use crate::system_dir::{SystemDir, line_after};
use crate::{StackError, StackErrorKind};

/// Fields that every kernel shows; those after them came later, in two groups.
// Linux 4.18 added four of discards, 5.5 two of flushes (iostats.rst).
const FIELDS_MIN: usize = 11;

/// The counters of a block device since it appeared, or between two readings.
///
/// Sectors are of 512 bytes whatever the device. Times are summed over requests, so that they can
/// exceed the time that passed, save for `io_ms`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceCounters {
    /// The kernel's name of the device.
    pub name: String,
    pub reads_completed: u64,
    /// Reads joined to another before they were issued.
    pub reads_merged: u64,
    pub sectors_read: u64,
    /// Milliseconds of all reads.
    pub read_ms: u64,
    pub writes_completed: u64,
    /// Writes joined to another before they were issued.
    pub writes_merged: u64,
    pub sectors_written: u64,
    /// Milliseconds of all writes.
    pub write_ms: u64,
    /// Requests under way at the moment of reading; a level, not a counter.
    pub in_flight: u64,
    /// Milliseconds with at least one request under way.
    pub io_ms: u64,
    /// Milliseconds of all requests.
    pub weighted_io_ms: u64,
    /// Discards completed (Linux 4.18 and later).
    pub discards_completed: Option<u64>,
    pub sectors_discarded: Option<u64>,
    /// Milliseconds of all discards.
    pub discard_ms: Option<u64>,
    /// Flushes completed (Linux 5.5 and later); concurrent ones are joined before they are issued,
    /// and partitions show none.
    pub flushes_completed: Option<u64>,
    /// Milliseconds of all flushes.
    pub flush_ms: Option<u64>,
    /// The kernel counts nothing for this device (queue/iostats is off, or its driver never
    /// counts): its zeros are not counts.
    #[serde(skip_serializing_if = "is_false")]
    pub not_counted: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl DeviceCounters {
    /// The counts after `earlier`; zero where a counter has gone back.
    ///
    /// `in_flight` stays as it is, for it is a level.
    pub fn saturating_since(&self, earlier: &Self) -> Self {
        let (mut since, mut earlier) = (self.clone(), earlier.clone());
        // A device that is attached again under the name starts at zero.
        for (now, before) in since.counts().into_iter().zip(earlier.counts()) {
            *now = now.saturating_sub(*before);
        }
        for (now, before) in since.later_counts().into_iter().zip(earlier.later_counts()) {
            *now = now.zip(*before).map(|(now, before)| now.saturating_sub(before));
        }
        // A level: the number in flight earlier is irrelevant to it.
        since.in_flight = self.in_flight;
        // Switched off at either end, something was missed in between.
        since.not_counted |= earlier.not_counted;
        since
    }

    /// The fields that every kernel shows, in the order of the text
    /// (Documentation/admin-guide/iostats.rst).
    fn counts(&mut self) -> [&mut u64; 11] {
        [
            &mut self.reads_completed,
            &mut self.reads_merged,
            &mut self.sectors_read,
            &mut self.read_ms,
            &mut self.writes_completed,
            &mut self.writes_merged,
            &mut self.sectors_written,
            &mut self.write_ms,
            &mut self.in_flight,
            &mut self.io_ms,
            &mut self.weighted_io_ms,
        ]
    }

    /// Those that came later, in the same order; discards that were joined are left out.
    fn later_counts(&mut self) -> [&mut Option<u64>; 5] {
        [
            &mut self.discards_completed,
            &mut self.sectors_discarded,
            &mut self.discard_ms,
            &mut self.flushes_completed,
            &mut self.flush_ms,
        ]
    }

    /// True if no read, write or flush was completed, and no time was spent on any.
    pub fn is_zero(&self) -> bool {
        let counts = [self.reads_completed, self.writes_completed, self.io_ms];
        counts == [0; 3] && self.flushes_completed.unwrap_or(0) == 0
    }
}

/// The counters of the device or partition that the kernel calls `name`.
///
/// # Errors
/// If the device does not exist, or its counters cannot be read.
pub fn read_device_counters(name: &str) -> Result<DeviceCounters, StackError> {
    device_counters_in(&SystemDir::live_root(), name)
}

fn device_counters_in(root: &SystemDir, name: &str) -> Result<DeviceCounters, StackError> {
    let error = |kind| StackError::new(kind, &Path::new("/sys/class/block").join(name));
    let dir = block_node::by_name(root, name).ok_or_else(|| error(StackErrorKind::NotFound))?;
    let text = dir.text("stat").ok_or_else(|| error(StackErrorKind::Unreadable))?;
    let counters = parse_device_stat(name, &text);
    let counters = counters.ok_or_else(|| error(StackErrorKind::Malformed))?;
    // A partition has no such file, and counts.
    let is_off = dir.text("queue/iostats").is_some_and(|text| text.trim() == "0");
    // The driver of the kernel's RAM disks (drivers/block/brd.c) does not count.
    let is_ram_disk = block_node::is_numbered(name, "ram");
    Ok(DeviceCounters { not_counted: is_off || is_ram_disk, ..counters })
}

fn parse_device_stat(name: &str, text: &str) -> Option<DeviceCounters> {
    let fields: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    let (every, later) = fields.as_deref().ok()?.split_at_checked(FIELDS_MIN)?;
    let mut counters = DeviceCounters { name: name.to_owned(), ..DeviceCounters::default() };
    for (count, field) in counters.counts().into_iter().zip(every) {
        *count = *field;
    }
    // The second, which is passed over, counts discards that were joined.
    let later = [0, 2, 3, 4, 5].map(|place| later.get(place).copied());
    for (count, field) in counters.later_counts().into_iter().zip(later) {
        *count = field;
    }
    Some(counters)
}

/// How the processors spent their time since start, or between two readings, in clock ticks
/// (1/100 s on every common system), summed over processors.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuCounters {
    /// In programs, those with a lower priority (nice) left out.
    pub user: u64,
    /// In programs of lowered priority.
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    /// Doing nothing while I/O was under way; unreliable, says the kernel.
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    /// Taken by the hypervisor for others.
    pub steal: u64,
    /// Microseconds for which this process's control groups were held back; absent where no group
    /// has a limit on processors to show.
    pub cgroup_throttled_usec: Option<u64>,
    /// Context switches of all processors; absent in records without them. Unlike the rest these
    /// are not ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<u64>,
    /// CPU time of kernel threads between two readings, in nanoseconds: it is part of `system`.
    /// Absent where they are not visible (in containers), and in older records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_threads_ns: Option<u64>,
    /// CPU time of each kernel thread so far, in nanoseconds, by its number; not saved.
    #[serde(skip)]
    pub kernel_threads: BTreeMap<u32, u64>,
}

impl CpuCounters {
    /// The counts after `earlier`; zero where a counter has gone back.
    pub fn saturating_since(&self, earlier: &Self) -> Self {
        let both = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        let mut since = Self {
            cgroup_throttled_usec: both(self.cgroup_throttled_usec, earlier.cgroup_throttled_usec),
            context_switches: both(self.context_switches, earlier.context_switches),
            kernel_threads_ns: self.kernel_threads_since(earlier),
            kernel_threads: BTreeMap::new(),
            ..self.clone()
        };
        for (now, before) in since.ticks().into_iter().zip(earlier.clone().ticks()) {
            *now = now.saturating_sub(*before);
        }
        since
    }

    /// CPU time of kernel threads after `earlier`, thread by thread: workers come and go, and one
    /// that ended would take its whole time away from a difference of sums.
    fn kernel_threads_since(&self, earlier: &Self) -> Option<u64> {
        let both = [self, earlier].map(|counters| &counters.kernel_threads);
        let is_known = both.iter().all(|threads| !threads.is_empty());
        let before = |thread: &u32| earlier.kernel_threads.get(thread).copied().unwrap_or(0);
        let spent = self.kernel_threads.iter().map(|(id, now)| now.saturating_sub(before(id)));
        is_known.then(|| spent.fold(0, u64::saturating_add))
    }

    /// All ticks, idle ones included.
    pub fn total(&self) -> u64 {
        self.clone().ticks().into_iter().fold(0, |sum, ticks| sum.saturating_add(*ticks))
    }

    /// The fields of the line in the order of the text (proc_stat(5)). Those of guests, which follow,
    /// are part of `user` and `nice`.
    fn ticks(&mut self) -> [&mut u64; 8] {
        [
            &mut self.user,
            &mut self.nice,
            &mut self.system,
            &mut self.idle,
            &mut self.iowait,
            &mut self.irq,
            &mut self.softirq,
            &mut self.steal,
        ]
    }
}

/// The counters of all processors together.
///
/// # Errors
/// If `/proc/stat` cannot be read.
pub fn read_cpu_counters() -> Result<CpuCounters, StackError> {
    cpu_counters_in(&SystemDir::live_root())
}

fn cpu_counters_in(root: &SystemDir) -> Result<CpuCounters, StackError> {
    let error = |kind| StackError::new(kind, Path::new("/proc/stat"));
    let text = root.text("proc/stat").ok_or_else(|| error(StackErrorKind::Unreadable))?;
    let counters = parse_cpu_line(&text).ok_or_else(|| error(StackErrorKind::Malformed))?;
    let context_switches = line_after(&text, "ctxt ").and_then(|count| count.parse().ok());
    Ok(CpuCounters {
        cgroup_throttled_usec: throttled_usec(root),
        context_switches,
        kernel_threads: kernel_threads(root).unwrap_or_default(),
        ..counters
    })
}

/// More kernel threads than this are not read. At some 5 µs each they would take 10 ms between
/// steps, in which a drive is idle; machines with 100 CPUs have about a thousand.
const KERNEL_THREADS_MAX: usize = 2000;

/// CPU time of each kernel thread: they are the children of kthreadd, which is process 2 unless
/// this is a container (proc_pid(5), `children`; the first field of `schedstat` is in nanoseconds).
fn kernel_threads(root: &SystemDir) -> Option<BTreeMap<u32, u64>> {
    let kthreadd = root.join("proc/2");
    if kthreadd.text("comm")?.trim() != "kthreadd" {
        return None;
    }
    let children = kthreadd.text("task/2/children")?;
    let time = |id: &str| {
        let schedstat = root.text(format!("proc/{id}/schedstat"))?;
        Some((id.parse().ok()?, schedstat.split_whitespace().next()?.parse().ok()?))
    };
    let ids: Vec<&str> = children.split_whitespace().collect();
    (ids.len() <= KERNEL_THREADS_MAX).then(|| ids.into_iter().filter_map(time).collect())
}

fn parse_cpu_line(stat: &str) -> Option<CpuCounters> {
    // With the blank: `cpu0` is a single processor.
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
    // Fields were added behind these, and more may be.
    let fields: [u64; 8] = *fields.ok()?.first_chunk()?;
    let mut counters = CpuCounters::default();
    for (ticks, field) in counters.ticks().into_iter().zip(fields) {
        *ticks = field;
    }
    Some(counters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::Fixture;

    const EARLIER: &str = "5 1 40 3 10 4 2047 5 1 14 43 3 0 41 2 131 68\n";
    const LATER: &str = "7 1 56 4 60 4 2447 9 2 20 50 3 0 41 2 181 90\n";

    #[test]
    fn flushes_between_two_readings_are_counted() {
        let earlier = parse_device_stat("vda", EARLIER).unwrap();
        let since = parse_device_stat("vda", LATER).unwrap().saturating_since(&earlier);
        assert_eq!((since.flushes_completed, since.flush_ms), (Some(50), Some(22)));
        assert_eq!((since.reads_completed, since.sectors_read), (2, 16));
        assert_eq!((since.writes_completed, since.sectors_written), (50, 400));
        assert_eq!((since.io_ms, since.in_flight), (6, 2));
        assert_eq!(since.discards_completed, Some(0));
    }

    #[test]
    fn each_field_is_counted_under_its_own_name() {
        let text = "1 20 300 4 50 600 7 80 900 10 110 120 13 1400 15 160 17\n";
        let expected = DeviceCounters {
            name: "vda".into(),
            reads_completed: 1,
            reads_merged: 20,
            sectors_read: 300,
            read_ms: 4,
            writes_completed: 50,
            writes_merged: 600,
            sectors_written: 7,
            write_ms: 80,
            in_flight: 900,
            io_ms: 10,
            weighted_io_ms: 110,
            discards_completed: Some(120),
            // 13 were merged.
            sectors_discarded: Some(1400),
            discard_ms: Some(15),
            flushes_completed: Some(160),
            flush_ms: Some(17),
            not_counted: false,
        };
        let read = parse_device_stat("vda", text).unwrap();
        assert_eq!(read, expected);
        // Each field has a value of its own; requests in flight are not a running total.
        let twice = "2 40 600 8 100 1200 14 160 1800 20 220 240 26 2800 30 320 34\n";
        let since = parse_device_stat("vda", twice).unwrap().saturating_since(&read);
        assert_eq!(since, DeviceCounters { in_flight: 1800, ..expected });
    }

    #[test]
    fn older_kernels_show_no_flushes_and_a_counter_never_goes_below_zero() {
        let old = parse_device_stat("vda", "5 1 40 3 10 4 2047 5 0 14 43").unwrap();
        assert_eq!((old.flushes_completed, old.discards_completed), (None, None));
        let new = parse_device_stat("vda", LATER).unwrap();
        let since = old.saturating_since(&new);
        assert_eq!((since.reads_completed, since.flushes_completed), (0, None));
    }

    #[test]
    fn a_device_that_counts_nothing_is_told_from_one_that_was_idle() {
        let fixture = Fixture::new();
        for (name, number) in [("sda", "8:0"), ("ram0", "1:0"), ("rambo", "8:16")] {
            fixture.scsi_disk(name, number);
            fixture.file(&format!("sys/block/{name}/stat"), LATER);
        }
        let read = |name: &str| device_counters_in(&fixture.root(), name).unwrap();
        let not_counted = ["sda", "ram0", "rambo"].map(|name| read(name).not_counted);
        assert_eq!(not_counted, [false, true, false]);
        fixture.file("sys/block/sda/queue/iostats", "0\n");
        let off = read("sda");
        fixture.file("sys/block/sda/queue/iostats", "1\n");
        let on = read("sda");
        assert!(off.not_counted && !on.not_counted);
        let since = on.saturating_since(&off);
        assert!(since.not_counted && since.is_zero(), "it did not count all the time");
    }

    #[test]
    fn a_device_that_is_not_there_is_told_from_counters_that_are_odd() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        let kind = |name: &str| device_counters_in(&fixture.root(), name).unwrap_err().kind;
        assert_eq!(kind("sdb"), StackErrorKind::NotFound);
        assert_eq!(kind("../../etc"), StackErrorKind::NotFound);
        assert_eq!(kind("sda"), StackErrorKind::Unreadable);
        fixture.file("sys/block/sda/stat", "1 2 3\n");
        assert_eq!(kind("sda"), StackErrorKind::Malformed);
        fixture.file("sys/block/sda/stat", LATER);
        assert_eq!(device_counters_in(&fixture.root(), "sda").unwrap().name, "sda");
    }

    #[test]
    fn time_between_two_readings_is_the_difference() {
        let fixture = Fixture::new();
        fixture.file("proc/stat", "cpu  10 1 20 300 4 0 5 6 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
        let earlier = cpu_counters_in(&fixture.root()).unwrap();
        fixture.file("proc/stat", "cpu  15 2 22 290 14 30 65 96 0 0\n");
        let since = cpu_counters_in(&fixture.root()).unwrap().saturating_since(&earlier);
        let expected = CpuCounters {
            user: 5,
            nice: 1,
            system: 2,
            // It went back, as it may.
            idle: 0,
            iowait: 10,
            irq: 30,
            softirq: 60,
            steal: 90,
            cgroup_throttled_usec: None,
            context_switches: None,
            kernel_threads_ns: None,
            kernel_threads: BTreeMap::new(),
        };
        assert_eq!((since.total(), since), (198, expected));
    }

    #[test]
    fn kernel_threads_are_counted_one_by_one_and_only_outside_of_containers() {
        let fixture = Fixture::new();
        fixture.file("proc/stat", "cpu  10 1 20 300 4 0 5 6 0 0\n");
        let read = |threads: &[(u32, u64)]| {
            let ids: Vec<String> = threads.iter().map(|(id, _)| id.to_string()).collect();
            fixture.file("proc/2/task/2/children", ids.join(" "));
            for (id, nanos) in threads {
                fixture.file(&format!("proc/{id}/schedstat"), format!("{nanos} 5 1\n"));
            }
            cpu_counters_in(&fixture.root()).unwrap()
        };
        fixture.file("proc/2/comm", "kthreadd\n");
        let earlier = read(&[(9, 1_000), (31, 7_000_000), (40, 50)]);
        // 31, which had the most time, ended; 77 began; 40 was idle.
        let later = read(&[(9, 1_900), (40, 50), (77, 30)]);
        let since = later.saturating_since(&earlier);
        assert_eq!((since.kernel_threads_ns, since.kernel_threads.len()), (Some(930), 0));
        let saved = serde_json::to_value(&since).unwrap();
        assert_eq!(saved["kernel_threads_ns"], 930);
        assert!(saved.get("kernel_threads").is_none());
        for (count, is_read) in [(1999, true), (2000, false)] {
            let mut ids = "7 ".repeat(count);
            ids.push_str("40");
            fixture.file("proc/2/task/2/children", ids);
            let read = cpu_counters_in(&fixture.root()).unwrap().kernel_threads;
            assert_eq!(!read.is_empty(), is_read, "{count} and one");
        }
        fixture.file("proc/2/comm", "postgres\n");
        let inside = read(&[(9, 2_000)]);
        assert!(inside.kernel_threads.is_empty());
        assert_eq!(inside.saturating_since(&earlier).kernel_threads_ns, None);
    }

    #[test]
    fn switches_of_all_processors_are_counted_where_the_kernel_shows_them() {
        let fixture = Fixture::new();
        let read = |text: &str| {
            fixture.file("proc/stat", text);
            cpu_counters_in(&fixture.root()).unwrap()
        };
        let times = "cpu  1 1 1 1 1 1 1 1 0 0\n";
        let earlier = read(&format!("{times}intr 5 0 1\nctxt 1000\nbtime 17\nprocesses 9\n"));
        let later = read(&format!("{times}intr 9 0 1\nctxt 1250\nbtime 17\nprocesses 9\n"));
        assert_eq!(later.saturating_since(&earlier).context_switches, Some(250));
        for absent in [times.to_owned(), format!("{times}ctxt x\n"), format!("{times}ctxt\n")] {
            let odd = read(&absent);
            assert_eq!(
                (odd.context_switches, odd.saturating_since(&earlier).context_switches),
                (None, None)
            );
        }
    }

    #[test]
    fn what_is_not_a_line_of_processor_times_is_refused() {
        for text in ["cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3\n", "cpu a b c d e f g h\n"] {
            assert_eq!(parse_cpu_line(text), None, "{text}");
        }
        let error = cpu_counters_in(&Fixture::new().root()).unwrap_err();
        assert_eq!(error.kind, StackErrorKind::Unreadable);
    }

    #[test]
    fn completed_operations_and_time_are_more_than_zero_and_a_level_is_not() {
        let is_zero = |change: fn(&mut DeviceCounters)| {
            let mut counters = DeviceCounters::default();
            change(&mut counters);
            counters.is_zero()
        };
        assert!(is_zero(|_| {}));
        assert!(is_zero(|counters| counters.in_flight = 7));
        assert!(is_zero(|counters| counters.flushes_completed = Some(0)));
        assert!(!is_zero(|counters| counters.reads_completed = 1));
        assert!(!is_zero(|counters| counters.writes_completed = 1));
        assert!(!is_zero(|counters| counters.io_ms = 1));
        assert!(!is_zero(|counters| counters.flushes_completed = Some(1)));
    }
}
