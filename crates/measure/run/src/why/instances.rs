//! The two trace instances of a watch: calls of the watched threads, and everything that may hold
//! one up. The second runs over in a ring and is read only when a call was slow.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use durio_base::Nanos;
use durio_observe::{
    KERNEL_EVENTS, KernelEvent, KernelEventFormats, KernelEventName, KernelSymbols, STACK_EVENT,
    SubBuffer,
};

use super::calls::call_filter;
use crate::trace_files::{TraceFiles, event_text, read_pages, trace_also, trace_only};
use crate::tracefs::{TraceInstance, device_filter, remove_dead_in};

// Of all processors together.
const CALLS_KIB: u64 = 16 << 10;
const RING_KIB: std::ops::RangeInclusive<u64> = 8 << 10..=48 << 10;
/// The smallest ring of a processor that is of use with the kernel's pages.
const PROCESSOR_KIB: u64 = 64;
/// The largest of calls: more than are made between two looks.
const PROCESSOR_CALLS_KIB: u64 = 1 << 10;

/// Bytes that are held of the ring, beside it, for calls that still run.
const HELD_BYTES: usize = 8 << 20;

/// Events of one window: with their names and stacks some 10 MiB.
const WINDOW_EVENTS: usize = 40_000;

/// The filter of an event in the kernel has at most a page of text.
const FILTER_BYTES: usize = 4000;

/// A sub-buffer that was read from the ring.
#[derive(Debug)]
struct HeldPage {
    processor: u32,
    last: u64,
    bytes: Box<[u8]>,
}

#[derive(Debug)]
pub(super) struct CallRecorder {
    // First, because an instance cannot be removed while one of its files is open.
    call_buffers: Vec<(u32, File)>,
    ring_buffers: Vec<(u32, File)>,
    calls: TraceInstance,
    ring: TraceInstance,
    formats: KernelEventFormats,
    symbols: KernelSymbols,
    layout: SubBuffer,
    ring_kib: u64,
    /// The ring is as large as it may be, and held this many nanoseconds when it was too small.
    pub(super) too_small: Option<u64>,
    /// Events that were overwritten before the last look.
    overwritten: u64,
    drained: u64,
    held: VecDeque<HeldPage>,
    /// Before this time events are missing.
    complete_from: u64,
    // Last, because the instances are below it.
    _mount: Option<OwnedFd>,
}

impl CallRecorder {
    /// Begins to trace; also gives what cannot be told since the kernel lacks an event.
    pub(super) fn begin(
        files: TraceFiles,
        root: &Path,
        processes: &[u32],
        devices: &[(u32, u32)],
    ) -> Result<(Self, Vec<String>), String> {
        let TraceFiles { path: tracefs, layout, mount } = files;
        let _ = remove_dead_in(&tracefs, root);
        let (calls, _) = TraceInstance::make(&tracefs, root, &["mono"], 0)?;
        let (ring, _) = TraceInstance::make(&tracefs, root, &["mono"], 0)?;
        trace_only(&calls, root, processes)?;
        let (call_buffers, ring_buffers) = (calls.buffers()?, ring.buffers()?);
        let processors = u64::try_from(ring_buffers.len().max(1)).unwrap_or(1);
        let call_kib = (CALLS_KIB / processors).clamp(PROCESSOR_KIB, PROCESSOR_CALLS_KIB);
        calls.set("buffer_size_kb", &call_kib.to_string())?;
        let ring_kib = (RING_KIB.start() / processors).max(PROCESSOR_KIB);
        ring.set("buffer_size_kb", &ring_kib.to_string())?;
        let mut recorder = Self {
            call_buffers,
            ring_buffers,
            calls,
            ring,
            formats: KernelEventFormats::default(),
            symbols: KernelSymbols::read(root),
            layout,
            ring_kib,
            too_small: None,
            overwritten: 0,
            drained: 0,
            held: VecDeque::new(),
            complete_from: 0,
            _mount: mount,
        };
        let blind = recorder.switch_on(&tracefs, devices)?;
        recorder.ring.set("tracing_on", "1")?;
        recorder.calls.set("tracing_on", "1")?;
        // Threads that were started between the list and now.
        recorder.also(root, processes)?;
        Ok((recorder, blind))
    }

    fn switch_on(&mut self, tracefs: &Path, devices: &[(u32, u32)]) -> Result<Vec<String>, String> {
        let mut blind = Vec::new();
        let jbd2 = tracefs.join("events/jbd2");
        for event in &KERNEL_EVENTS {
            match self.switch_on_event(event, tracefs, devices) {
                Ok(()) => {}
                Err(error) if event.is_needed => return Err(error),
                // No filesystem here has such a journal: its module is not loaded.
                Err(_) if event.name.starts_with("jbd2/") && !jbd2.is_dir() => {}
                Err(_) => blind.push(event.blind.to_owned()),
            }
        }
        // Where a thread waits, of those that wait for the kernel: TASK_UNINTERRUPTIBLE is 2.
        let trigger = "stacktrace if prev_state == 2";
        let stacks = event_text(tracefs, &format!("{STACK_EVENT}/format"))
            .is_ok_and(|format| self.formats.add(STACK_EVENT, &format))
            && self.ring.set("events/sched/sched_switch/trigger", trigger).is_ok();
        if !stacks {
            blind.push(
                "this kernel shows no stacks of waiting threads (trigger stacktrace): locks, \
                 journals and limits are told apart by other events alone"
                    .to_owned(),
            );
        }
        if self.symbols.is_empty() {
            blind.push(
                "the kernel hides its addresses (kernel.kptr_restrict): functions in which threads \
                 wait have no names"
                    .to_owned(),
            );
        }
        Ok(blind)
    }

    fn switch_on_event(
        &mut self,
        event: &KernelEventName,
        tracefs: &Path,
        devices: &[(u32, u32)],
    ) -> Result<(), String> {
        let format = |name: &str| event_text(tracefs, &format!("{name}/format"));
        let (name, text) = match (format(event.name), event.instead) {
            (Err(_), Some(older)) => (older, format(older)?),
            (text, _) => (event.name, text?),
        };
        if !self.formats.add(name, &text) {
            return Err(format!("the format of the kernel's event {name} is unknown"));
        }
        let is_call = name.starts_with("raw_syscalls/");
        let instance = if is_call { &self.calls } else { &self.ring };
        let filter = filter_of(name, devices);
        if !filter.is_empty() {
            let set = instance.set(&format!("events/{name}/filter"), &filter);
            // Unfiltered calls would be those of every kind; other events are only more.
            if is_call {
                set?;
            }
        }
        instance.set(&format!("events/{name}/enable"), "1")
    }

    /// Watches these processes too.
    pub(super) fn also(&self, root: &Path, processes: &[u32]) -> Result<(), String> {
        trace_also(&self.calls, root, processes)
    }

    /// Takes the events of calls, each processor's in order.
    pub(super) fn read_calls(&self, into: &mut Vec<KernelEvent>) -> Result<(), String> {
        read_pages(&self.call_buffers, self.layout, &mut |processor, page| {
            self.layout.events(page, |event| {
                into.extend(self.formats.read(event.at, processor, event.bytes, &self.symbols));
            });
            true
        })
    }

    /// Takes the ring's events up to `now`, and forgets those older than `horizon`.
    pub(super) fn drain(&mut self, now: u64, horizon: u64) -> Result<(), String> {
        self.forget(horizon);
        let layout = self.layout;
        let (held, complete_from) = (&mut self.held, &mut self.complete_from);
        read_pages(&self.ring_buffers, layout, &mut |processor, page| {
            if layout.follows_loss(page) {
                *complete_from = (*complete_from).max(layout.begin(page).unwrap_or(now));
            }
            let mut last = 0;
            layout.events(page, |event| last = event.at);
            if last >= horizon {
                held.push_back(HeldPage { processor, last, bytes: page.into() });
            }
            if held.len() > HELD_BYTES / layout.size.max(1) {
                let gone = held.pop_front().map_or(0, |page| page.last);
                *complete_from = (*complete_from).max(gone);
            }
            // What is traced while this reads is for the next time.
            last < now
        })?;
        self.drained = now;
        Ok(())
    }

    pub(super) fn forget(&mut self, horizon: u64) {
        self.held.retain(|page| page.last >= horizon);
    }

    /// True if the ring may soon overwrite what a call that is slow already needs.
    pub(super) fn is_drain_due(&self, now: u64, holds: u64) -> bool {
        now.saturating_sub(self.drained) >= holds / 2
    }

    /// Enlarges the ring until it holds `needed` nanoseconds of this machine's events.
    pub(super) fn fit(&mut self, now: u64, needed: u64) {
        let (overwritten, oldest) = self.ring.losses(0, |stats| stats.oldest);
        let is_known = overwritten > self.overwritten;
        self.overwritten = overwritten;
        // What was read is not there either.
        if !is_known || now.saturating_sub(self.drained) < needed.saturating_mul(2) {
            return;
        }
        let holds = now.saturating_sub(oldest.map_or(now, Nanos::get));
        let processors = u64::try_from(self.ring_buffers.len().max(1)).unwrap_or(1);
        let most = (RING_KIB.end() / processors).max(PROCESSOR_KIB);
        if holds >= needed {
            self.too_small = None;
        } else if self.ring_kib >= most {
            self.too_small = Some(holds);
        } else {
            let kib = enlarged(self.ring_kib, holds, needed).min(most);
            if self.ring.set("buffer_size_kb", &kib.to_string()).is_ok() {
                self.ring_kib = kib;
            } else {
                self.too_small = Some(holds);
            }
        }
    }

    /// MiB of the ring, of all processors.
    pub(super) fn ring_mib(&self) -> u64 {
        (self.ring_kib * u64::try_from(self.ring_buffers.len()).unwrap_or(1)) >> 10
    }

    /// The events of a time that were read from the ring, by processor, and whether all are there
    /// from `begin` on.
    pub(super) fn window(&self, from: u64, begin: u64, to: u64) -> (Vec<KernelEvent>, bool) {
        let mut times = Vec::new();
        for page in &self.held {
            self.layout.events(&page.bytes, |event| {
                times.extend(Some(event.at).filter(|at| (from..=to).contains(at)));
            });
        }
        // The youngest, of all processors alike.
        let over = times.len().saturating_sub(WINDOW_EVENTS);
        let from = match over {
            0 => from,
            over => *times.select_nth_unstable(over).1,
        };
        let mut events = Vec::with_capacity(times.len() - over);
        for page in &self.held {
            self.layout.events(&page.bytes, |event| {
                if (from..=to).contains(&event.at) {
                    let read =
                        self.formats.read(event.at, page.processor, event.bytes, &self.symbols);
                    events.extend(read);
                }
            });
        }
        (events, self.complete_from <= begin && (over == 0 || from <= begin))
    }

    /// Stops tracing; the rest of the buffers can be read.
    pub(super) fn stop(&self) {
        for instance in [&self.calls, &self.ring] {
            // It ends with the instance at the latest.
            let _ = instance.set("tracing_on", "0");
        }
    }

    /// Events of calls that the kernel could not keep.
    pub(super) fn lost_calls(&self) -> u64 {
        self.calls.losses(0, |stats| stats.oldest).0
    }
}

/// KiB of a ring that held `holds` nanoseconds and has to hold `needed`, with a half in reserve.
fn enlarged(kib: u64, holds: u64, needed: u64) -> u64 {
    let times = needed.saturating_mul(3).div_ceil(holds.max(1).saturating_mul(2));
    kib.saturating_mul(times.max(2))
}

fn filter_of(name: &str, devices: &[(u32, u32)]) -> String {
    let filter = match name.split('/').next() {
        Some("raw_syscalls") => call_filter(),
        // Files in memory and on other machines have no devices: then those of others are told.
        Some("block") => device_filter(devices.iter().copied()),
        // The kernel tells of writers that need not wait, too.
        _ if name == "writeback/balance_dirty_pages" => "pause > 0".to_owned(),
        _ => String::new(),
    };
    if filter.len() > FILTER_BYTES { String::new() } else { filter }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::io::{Seek, Write};

    use super::*;

    const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

    const HEAD: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;
";
    const ENTER: (u32, &str) =
        (20, "\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n");
    const EXIT: (u32, &str) = (21, "\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n");

    /// An event of a call of this number: its time, and its bytes.
    fn call_event(at: u64, thread: u32, number: u32, event: u32, rest: usize) -> (u64, Vec<u8>) {
        let mut bytes = [event, thread].map(u32::to_ne_bytes).concat();
        bytes.extend(u64::from(number).to_ne_bytes());
        bytes.resize(16 + rest, 0);
        (at, bytes)
    }

    pub(in crate::why) fn entered(at: u64, thread: u32, number: u32) -> (u64, Vec<u8>) {
        call_event(at, thread, number, ENTER.0, 48)
    }

    pub(in crate::why) fn left(at: u64, thread: u32, number: u32) -> (u64, Vec<u8>) {
        call_event(at, thread, number, EXIT.0, 8)
    }

    /// A sub-buffer with these events, before which others were lost or not.
    pub(in crate::why) fn page_of(events: &[(u64, Vec<u8>)], follows_loss: bool) -> Vec<u8> {
        let begin = events[0].0;
        let (mut data, mut before) = (Vec::new(), begin);
        for (at, bytes) in events {
            let delta = u32::try_from(at - before).unwrap();
            let words = u32::try_from(bytes.len() / 4).unwrap();
            data.extend((words | delta << 5).to_ne_bytes());
            data.extend(bytes);
            before = *at;
        }
        let commit = u64::try_from(data.len()).unwrap() | u64::from(follows_loss) << 31;
        let mut page = [begin, commit].map(u64::to_ne_bytes).concat();
        page.extend(data);
        page.resize(4096, 0);
        page
    }

    fn page(times: &[u64], follows_loss: bool) -> Vec<u8> {
        let events: Vec<_> = times.iter().map(|&at| left(at, 7, 75)).collect();
        page_of(&events, follows_loss)
    }

    /// Buffers that have a page each.
    pub(in crate::why) fn buffers(pages: &[Vec<u8>]) -> Vec<(u32, File)> {
        let buffer = |page: &Vec<u8>| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(page).unwrap();
            file.rewind().unwrap();
            file
        };
        (0..).zip(pages.iter().map(buffer)).collect()
    }

    /// A recorder in folders of no tracefs, whose buffers have these pages.
    pub(in crate::why) fn recorder(
        folder: &Path,
        calls: &[Vec<u8>],
        ring: &[Vec<u8>],
    ) -> CallRecorder {
        let (call_buffers, ring_buffers) = (buffers(calls), buffers(ring));
        let [calls, ring] = ["calls", "ring"].map(|name| {
            fs::create_dir(folder.join(name)).unwrap();
            TraceInstance::that_lost(&folder.join(name), &[])
        });
        let mut formats = KernelEventFormats::default();
        for (event, (number, field)) in [("sys_enter", ENTER), ("sys_exit", EXIT)] {
            let text = format!("ID: {number}\n{HEAD}{field}");
            assert!(formats.add(&format!("raw_syscalls/{event}"), &text), "{text}");
        }
        CallRecorder {
            call_buffers,
            ring_buffers,
            calls,
            ring,
            formats,
            symbols: KernelSymbols::default(),
            layout: SubBuffer::parse(HEADER_PAGE).unwrap(),
            ring_kib: 100,
            too_small: None,
            overwritten: 0,
            drained: 0,
            held: VecDeque::new(),
            complete_from: 0,
            _mount: None,
        }
    }

    #[test]
    fn a_window_has_the_events_of_its_time_and_is_whole_from_the_last_loss_on() {
        let folder = tempfile::tempdir().unwrap();
        let pages = [page(&[1000, 1010, 1900], false), page(&[1500, 1520], true)];
        let mut recorder = recorder(folder.path(), &[], &pages);
        recorder.drain(5000, 900).unwrap();
        let window = |from, begin, to| {
            let (events, is_complete) = recorder.window(from, begin, to);
            let times = events.iter().map(|event| (event.processor, event.at));
            (times.collect::<Vec<_>>(), is_complete)
        };
        assert_eq!(window(1010, 1500, 1500), (vec![(0, 1010), (1, 1500)], true));
        assert_eq!(window(1011, 1499, 1900), (vec![(0, 1900), (1, 1500), (1, 1520)], false));
        assert_eq!(window(2000, 2000, 3000), (vec![], true));
        recorder.forget(1521);
        assert_eq!(recorder.window(0, 1600, 9000).0.len(), 3, "one page is left");
    }

    #[test]
    fn pages_that_no_window_needs_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let pages = [page(&[1000, 1010], false), page(&[1500, 1520], false)];
        let mut recorder = recorder(folder.path(), &[], &pages);
        recorder.drain(5000, 1011).unwrap();
        assert_eq!(recorder.held.len(), 1);
        assert!(!recorder.is_drain_due(5009, 20) && recorder.is_drain_due(5010, 20));
    }

    #[test]
    fn a_ring_that_held_less_than_is_needed_grows_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(folder.path(), &[], &[page(&[1], false)]);
        let path = |name: &str| folder.path().join("ring").join(name);
        fs::create_dir_all(path("per_cpu/cpu0")).unwrap();
        fs::write(path("buffer_size_kb"), "100").unwrap();
        let mut fitted = |lost: u64, now: u64, needed: u64| {
            // The oldest event is of 2 s.
            let stats = format!("overrun: {lost}\noldest event ts: 2.000000\n");
            fs::write(path("per_cpu/cpu0/stats"), stats).unwrap();
            recorder.fit(now, needed);
            let kib = fs::read_to_string(path("buffer_size_kb")).unwrap();
            (kib.trim().to_owned(), recorder.too_small)
        };
        let second = 1_000_000_000;
        assert_eq!(fitted(0, 3 * second, 4 * second), ("100".to_owned(), None), "nothing is lost");
        assert_eq!(fitted(5, 10 * second, 4 * second), ("100".to_owned(), None), "it held 8 s");
        assert_eq!(fitted(9, 9 * second, 4 * second), ("100".to_owned(), None), "it held 7 s");
        assert_eq!(fitted(12, 3 * second, second * 3 / 2), ("300".to_owned(), None), "1 of 1.5 s");
        let most = RING_KIB.end().to_string();
        assert_eq!(fitted(15, 3 * second, 1500 * second), ("300".to_owned(), None), "just drained");
        assert_eq!(fitted(19, 4000 * second, 1500 * second), ("300".to_owned(), None));
        assert_eq!(fitted(23, 2 * second + 10, second / 2), (most.clone(), None), "10 ns");
        assert_eq!(fitted(29, 2 * second + 10, second / 2), (most, Some(10)), "the limit");
    }

    #[test]
    fn a_ring_grows_by_as_much_as_it_was_too_short_and_a_half_and_at_least_doubles() {
        for (holds, needed, kib) in [
            (60, 60, 200),
            (30, 60, 300),
            (10, 60, 900),
            (59, 60, 200),
            (0, 60, 9000),
            (1, u64::MAX, u64::MAX),
        ] {
            assert_eq!(enlarged(100, holds, needed), kib, "{holds} of {needed} ns");
        }
    }

    #[test]
    fn requests_are_those_of_the_devices_below_unless_there_are_none_or_hundreds() {
        let block = |devices: &[(u32, u32)]| filter_of("block/block_rq_issue", devices);
        assert_eq!(block(&[(8, 0), (7, 3)]), "dev == 8388608 || dev == 7340035");
        assert_eq!(block(&[]), "");
        let many: Vec<(u32, u32)> = (0..300).map(|minor| (259, minor)).collect();
        assert_eq!(block(&many), "");
        assert!(block(&many[..180]).ends_with("|| dev == 271581363"));
        assert_eq!(filter_of("writeback/balance_dirty_pages", &[(8, 0)]), "pause > 0");
        assert_eq!(filter_of("sched/sched_switch", &[(8, 0)]), "");
        assert!(filter_of("raw_syscalls/sys_enter", &[]).starts_with("id == "));
    }
}
