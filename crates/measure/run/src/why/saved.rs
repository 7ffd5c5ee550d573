//! Windows as text: a trace in the kernel's own form below comments that say which call was slow,
//! and what no event says. Any text of the kernel's file `trace` can be read, too.

use std::collections::HashSet;

use durio_base::Nanos;
use durio_observe::{
    KernelEvent, KernelEventKind, SlowCall, SlowWatchFacts, SlowWindow, TraceTask, WindowFacts,
    name_tasks, parse_kernel_events, write_kernel_events,
};

use super::calls::{CallFollower, FollowedCall, SlowLimit, Slowness, WatchedCallRole};

/// The first line of a saved window.
const HEAD: &str = "# durio why 1";

/// A window as text, which [`RecordedTrace`] reads again.
pub fn window_text(window: &SlowWindow) -> String {
    let SlowWindow { call, facts, .. } = window;
    let mut lines = vec![
        HEAD.to_owned(),
        format!(
            "# call {} process {} thread {} begin {} end {}",
            call.name, call.process, call.thread.id, call.begin, call.end
        ),
        format!("# name {}", in_a_line(&call.thread.name)),
    ];
    lines.extend(call.path.iter().map(|path| format!("# path {}", in_a_line(path))));
    let device =
        |((major, minor), name): &((u32, u32), String)| format!("# device {major}:{minor} {name}");
    lines.extend(facts.devices.iter().map(device));
    lines.extend(facts.resyncs.iter().map(|(name, action)| format!("# resync {name} {action}")));
    let steal: Vec<String> = facts.steal.iter().map(u64::to_string).collect();
    lines.push(format!("# steal {}", steal.join(" ")));
    lines.push(format!("# throttled {}", facts.cpu_throttled));
    lines.extend(facts.is_frozen.then(|| "# frozen".to_owned()));
    lines.extend(window.is_incomplete.then(|| "# incomplete".to_owned()));
    format!("{}\n{}", lines.join("\n"), write_kernel_events(&window.events))
}

/// A name that cannot begin another line.
fn in_a_line(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// The text of a trace: a saved window, or any other.
#[derive(Debug)]
pub struct RecordedTrace {
    events: Vec<KernelEvent>,
    /// The call that a saved window is about, with its facts.
    saved: Option<SlowWindow>,
    lost: u64,
    unreadable: u64,
}

impl RecordedTrace {
    /// Reads a text; the error says what it lacks.
    ///
    /// # Errors
    /// If it has no events of system calls.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let read = parse_kernel_events(text);
        let mut events = read.events;
        if events.is_empty() {
            return Err("no line is an event of the kernel that durio knows".to_owned());
        }
        let is_begin =
            |event: &KernelEvent| matches!(event.kind, KernelEventKind::CallEntered { .. });
        if !events.iter().any(is_begin) {
            return Err(
                "it has no begin of a system call (event raw_syscalls:sys_enter)".to_owned()
            );
        }
        events.sort_by_key(|event| event.at);
        name_tasks(&mut events);
        let saved = saved_call(&String::from_utf8_lossy(text), &events);
        Ok(Self { events, saved, lost: read.lost, unreadable: read.unreadable })
    }

    /// When the first event was.
    pub fn begin(&self) -> u64 {
        self.events.first().map_or(0, |event| event.at)
    }

    /// Gives the window of each slow call: of the one that a saved window is about, else of all
    /// that make writes durable. Writes count only in a text without such calls: it does not say
    /// what their descriptors were.
    pub fn slow_calls(self, limit: SlowLimit, emit: &mut dyn FnMut(SlowWindow)) -> SlowWatchFacts {
        let calls = self.calls();
        let threads: HashSet<u32> = calls.iter().map(|call| call.thread).collect();
        let mut latencies: Vec<u64> = calls.iter().map(FollowedCall::latency).collect();
        latencies.sort_unstable();
        let from = match (limit, &self.saved) {
            (_, Some(window)) => window.call.end.saturating_sub(window.call.begin),
            (SlowLimit::SlowerThan(limit), None) => limit.get(),
            (SlowLimit::Worst(worst), None) => {
                let at = latencies.len().saturating_sub(worst);
                latencies.get(at).copied().unwrap_or(0)
            }
        };
        let begin = self.begin();
        let mut all = Slowness::new(SlowLimit::SlowerThan(Nanos::new(from)), begin);
        for latency in &latencies {
            all.take(*latency, begin);
        }
        let end = self.events.last().map_or(begin, |event| event.at);
        let mut facts = SlowWatchFacts {
            processes: threads.len(),
            seconds: Nanos::new(end.saturating_sub(begin)).as_secs_f64(),
            calls: all.calls,
            p50_ns: all.quantile(0.5),
            p99_ns: all.quantile(0.99),
            max_ns: all.longest(),
            limit_ns: from,
            lost_events: self.lost,
            ..SlowWatchFacts::default()
        };
        if self.unreadable > 0 {
            facts.blind.push(format!("{} lines could not be read", self.unreadable));
        }
        if let Some(window) = self.saved {
            facts.slow = 1;
            emit(SlowWindow { events: self.events, ..window });
            return facts;
        }
        for call in calls.iter().filter(|call| call.latency() >= from) {
            facts.slow += 1;
            emit(self.window(call));
        }
        facts
    }

    fn calls(&self) -> Vec<FollowedCall> {
        let mut follower = CallFollower::default();
        let mut calls: Vec<FollowedCall> =
            self.events.iter().filter_map(|event| follower.take(event)).collect();
        let end = self.events.last().map_or(0, |event| event.at);
        calls.extend(follower.still_running(end));
        let is_sync = |call: &FollowedCall| call.call.role != WatchedCallRole::Write;
        if calls.iter().any(is_sync) {
            calls.retain(is_sync);
        }
        calls
    }

    fn window(&self, call: &FollowedCall) -> SlowWindow {
        let time = call.window();
        let first = self.events.partition_point(|event| event.at < *time.start());
        let end = self.events.partition_point(|event| event.at <= *time.end());
        let events = self.events.get(first..end).unwrap_or_default().to_vec();
        let own = events.iter().find(|event| event.task.id == call.thread);
        let name = own.map(|event| event.task.name.clone()).unwrap_or_default();
        SlowWindow {
            call: SlowCall {
                // The text has threads alone.
                process: call.thread,
                thread: TraceTask { id: call.thread, name },
                name: call.call.name.to_owned(),
                path: None,
                begin: call.begin,
                end: call.end,
            },
            events,
            is_incomplete: self.lost > 0 || self.begin() > call.begin,
            facts: WindowFacts::default(),
        }
    }
}

/// The call and the facts of a saved window, from its comments.
fn saved_call(text: &str, events: &[KernelEvent]) -> Option<SlowWindow> {
    let mut lines = text.lines();
    if lines.next()? != HEAD {
        return None;
    }
    let mut facts = WindowFacts::default();
    let (mut call, mut path, mut is_incomplete) = (None, None, false);
    let mut name = "";
    for line in lines.map_while(|line| line.strip_prefix("# ")) {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        let pair = value.split_once(' ');
        match key {
            "call" => call = numbers_of_call(value),
            "name" => name = value,
            "path" => path = Some(value.to_owned()),
            "device" => facts.devices.extend(pair.and_then(|(number, name)| {
                let (major, minor) = number.split_once(':')?;
                Some(((major.parse().ok()?, minor.parse().ok()?), name.to_owned()))
            })),
            "resync" => facts
                .resyncs
                .extend(pair.map(|(name, action)| (name.to_owned(), action.to_owned()))),
            "steal" => {
                facts.steal = value.split(' ').filter_map(|nanos| nanos.parse().ok()).collect();
            }
            "throttled" => facts.cpu_throttled = value.parse().unwrap_or(0),
            "frozen" => facts.is_frozen = true,
            "incomplete" => is_incomplete = true,
            _ => {}
        }
    }
    let (called, [process, thread, begin, end]) = call?;
    let (process, thread) = (u32::try_from(process).ok()?, u32::try_from(thread).ok()?);
    // The text has whole microseconds, the comment nanoseconds.
    let own = |is_kind: fn(&KernelEventKind) -> bool, at: u64| {
        let near = events.iter().filter(|event| event.task.id == thread && is_kind(&event.kind));
        let near = near.map(|event| event.at).find(|time| time.abs_diff(at) <= 1000);
        near.unwrap_or(at / 1000 * 1000)
    };
    let begin = own(|kind| matches!(kind, KernelEventKind::CallEntered { .. }), begin);
    let end = own(|kind| matches!(kind, KernelEventKind::CallLeft { .. }), end);
    let thread = TraceTask { id: thread, name: name.to_owned() };
    let call = SlowCall { process, thread, name: called, path, begin, end };
    Some(SlowWindow { call, events: Vec::new(), is_incomplete, facts })
}

/// `fdatasync process 812 thread 815 begin 5 end 9`.
fn numbers_of_call(text: &str) -> Option<(String, [u64; 4])> {
    let mut words = text.split(' ');
    let name = words.next()?.to_owned();
    let mut number = |key: &str| {
        let found = words.next()?;
        words.next().filter(|_| found == key)?.parse::<u64>().ok()
    };
    let numbers = [number("process")?, number("thread")?, number("begin")?, number("end")?];
    (numbers[2] <= numbers[3]).then_some((name, numbers))
}

#[cfg(test)]
mod tests {
    use super::super::calls::{call_named, number_of};
    use super::*;

    fn event(at: u64, thread: u32, kind: KernelEventKind) -> KernelEvent {
        let task = TraceTask { id: thread, name: "db".to_owned() };
        KernelEvent { at, processor: 1, task, in_interrupt: false, kind }
    }

    /// Calls of one thread after the other: the name, the begin and the microseconds of each.
    fn trace(calls: &[(&str, u32, u64, u64)]) -> Vec<KernelEvent> {
        let mut events = Vec::new();
        for &(name, thread, begin, micros) in calls {
            let number = number_of(call_named(name).unwrap());
            let entered = KernelEventKind::CallEntered { number, fd: 5 };
            events.push(event(begin * 1000, thread, entered));
            let left = KernelEventKind::CallLeft { number, result: 0 };
            events.push(event((begin + micros) * 1000, thread, left));
        }
        events.sort_by_key(|event| event.at);
        events
    }

    fn read(text: &str, limit: SlowLimit) -> (SlowWatchFacts, Vec<SlowWindow>) {
        let mut windows = Vec::new();
        let trace = RecordedTrace::parse(text.as_bytes()).unwrap();
        let facts = trace.slow_calls(limit, &mut |window| windows.push(window));
        (facts, windows)
    }

    #[test]
    fn a_saved_window_is_read_as_it_was_with_its_facts() {
        let events = trace(&[("pwrite64", 815, 90_000, 4), ("fdatasync", 815, 100_000, 70_000)]);
        let facts = WindowFacts {
            devices: vec![((8, 0), "sda".to_owned()), ((9, 127), "md127".to_owned())],
            resyncs: vec![("md127".to_owned(), "check".to_owned())],
            steal: vec![0, 10_000_000],
            cpu_throttled: 77,
            is_frozen: true,
        };
        let call = SlowCall {
            process: 812,
            thread: TraceTask { id: 815, name: "db".to_owned() },
            name: "fdatasync".to_owned(),
            path: Some("/var/lib/a b".to_owned()),
            begin: 100_000_000,
            end: 170_000_000,
        };
        let window = SlowWindow { call, events, is_incomplete: true, facts };
        let (facts, windows) = read(&window_text(&window), SlowLimit::Worst(20));
        assert_eq!((facts.slow, facts.limit_ns), (1, 70_000_000), "ns");
        assert_eq!(windows.len(), 1);
        assert_eq!((&windows[0].call, &windows[0].facts), (&window.call, &window.facts));
        assert!(windows[0].is_incomplete);
        assert_eq!(windows[0].events.len(), 4);
        // A line break in a name is no line of the text.
        let mut other = window;
        other.call.path = Some("/a\n# frozen".to_owned());
        other.facts.is_frozen = false;
        let (_, windows) = read(&window_text(&other), SlowLimit::Worst(20));
        assert_eq!(windows[0].call.path.as_deref(), Some("/a?# frozen"));
        assert!(!windows[0].facts.is_frozen);
    }

    #[test]
    fn the_slow_calls_of_any_trace_are_those_from_the_limit_on_or_the_worst() {
        let calls = [
            ("fsync", 7, 1_000, 300),
            ("write", 7, 2_000, 900_000),
            ("fsync", 8, 5_000, 20_000),
            ("fdatasync", 9, 6_000, 90_000),
        ];
        let text = write_kernel_events(&trace(&calls));
        let found = |limit| {
            let (facts, windows) = read(&text, limit);
            let slow: Vec<u32> = windows.iter().map(|window| window.call.thread.id).collect();
            (facts.calls, facts.slow, slow)
        };
        let limit = |micros| SlowLimit::SlowerThan(Nanos::from_micros(micros));
        assert_eq!(found(limit(20_000)), (3, 2, vec![8, 9]));
        assert_eq!(found(limit(20_001)), (3, 1, vec![9]));
        assert_eq!(found(limit(90_001)), (3, 0, vec![]));
        assert_eq!(found(SlowLimit::Worst(1)), (3, 1, vec![9]));
        assert_eq!(found(SlowLimit::Worst(20)).1, 3);
        let writes = write_kernel_events(&trace(&calls[1..2]));
        let (facts, windows) = read(&writes, SlowLimit::Worst(5));
        assert_eq!((facts.calls, windows[0].call.name.as_str()), (1, "write"));
    }

    #[test]
    fn what_is_no_trace_of_calls_says_what_it_lacks() {
        let refused = |text: &[u8]| RecordedTrace::parse(text).unwrap_err();
        for text in [&b""[..], b"no trace\n", b"\0\xff\n# durio why 1\n"] {
            assert_eq!(refused(text), "no line is an event of the kernel that durio knows");
        }
        let device = KernelEventKind::JournalCheckpoint { device: (8, 0) };
        let text = write_kernel_events(&[event(5_000, 7, device)]);
        assert!(refused(text.as_bytes()).contains("raw_syscalls:sys_enter"));
    }
}
