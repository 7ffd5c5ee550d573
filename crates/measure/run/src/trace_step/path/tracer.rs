//! The trace of one thread, in a private instance.
//!
//! Takes the layers below the target; gives [`PathTrace`], the events of the calling thread and of
//! the devices.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use durio_observe::{TraceClock, TraceEventKind, TraceText, parse_trace};
use rustix::thread::gettid;

use super::devices::TracedLayer;
use crate::job::RunClock;
use crate::trace_step::instance::{TraceInstance, tracefs};

/// Events of an operation: its calls, switches, and requests on several layers.
const EVENTS_EACH: u64 = 60;

// More would ask for more memory per processor than a small machine can spare.
const EVENTS_MAX: u64 = 40_000;

/// The mark by which a thread finds its number in the trace.
const HERE: &str = "durio is here";

/// The kernel's flag of kernel threads (PF_KTHREAD, sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

const BLOCK_EVENTS: [&str; 4] =
    ["block_bio_queue", "block_bio_complete", "block_rq_issue", "block_rq_complete"];

/// A trace that can begin.
pub(super) struct PathTracer {
    instance: TraceInstance,
    pub(super) clock: TraceClock,
    /// The calling thread, by the number that the trace has for it.
    thread: u32,
    root: PathBuf,
}

/// The events of a trace.
#[derive(Debug)]
pub(super) struct PathTrace {
    pub(super) text: TraceText,
    pub(super) clock: TraceClock,
    pub(super) thread: u32,
    /// Tasks of other programs that queued something during it.
    pub(super) strangers: BTreeSet<u32>,
    /// Events that were not kept, or could not be read.
    pub(super) lost: u64,
    /// Before this time events may be missing, on the clock of the trace.
    pub(super) complete_from: u64,
}

impl PathTracer {
    /// Makes an instance for this many operations; the error text says why it cannot.
    pub(super) fn make(
        root: &Path,
        layers: &[TracedLayer],
        clock: RunClock,
        operations: u64,
    ) -> Result<Self, String> {
        let clocks = match clock {
            RunClock::Tsc(_) => vec![TraceClock::Tsc, TraceClock::Monotonic],
            RunClock::Monotonic(_) => vec![TraceClock::Monotonic],
        };
        let names: Vec<&str> = clocks.iter().map(|clock| clock.name()).collect();
        let events = events_of(operations);
        let (mut instance, place) = TraceInstance::make(&tracefs(root)?, root, &names, events)?;
        let clock = clocks.get(place).copied().unwrap_or(TraceClock::Monotonic);
        let thread = number_in(&mut instance, clock)?;
        let tracer = Self { instance, clock, thread, root: root.to_path_buf() };
        tracer.set_up(layers)?;
        Ok(tracer)
    }

    fn set_up(&self, layers: &[TracedLayer]) -> Result<(), String> {
        let thread = self.thread;
        for call in ["sys_enter", "sys_exit"] {
            self.filter(&format!("raw_syscalls/{call}"), &format!("common_pid == {thread}"))?;
        }
        let switches = format!("prev_pid == {thread} || next_pid == {thread}");
        self.filter("sched/sched_switch", &switches)?;
        // Without a filter the events of every device would fill the buffer.
        if layers.is_empty() {
            return Ok(());
        }
        let devices: Vec<String> = layers.iter().map(TracedLayer::filter).collect();
        for event in BLOCK_EVENTS {
            self.filter(&format!("block/{event}"), &devices.join(" || "))?;
        }
        Ok(())
    }

    fn filter(&self, event: &str, filter: &str) -> Result<(), String> {
        self.instance.set(&format!("events/{event}/filter"), filter)
    }

    pub(super) fn place(&self) -> String {
        self.instance.place()
    }

    /// Starts tracing. Events whose filter was not set are not switched on.
    pub(super) fn start(&mut self) -> Result<(), String> {
        // An empty write clears the earlier trace.
        self.instance.set("trace", "")?;
        // Enabled last: the filters hold from the first event on.
        for event in ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit", "sched/sched_switch"] {
            self.instance.set(&format!("events/{event}/enable"), "1")?;
        }
        for event in BLOCK_EVENTS {
            let filter = format!("events/block/{event}/filter");
            if self.instance.reads(&filter).is_some_and(|text| text.trim() != "none") {
                self.instance.set(&format!("events/block/{event}/enable"), "1")?;
            }
        }
        self.instance.set("tracing_on", "1")
    }

    pub(super) fn finish(self) -> Result<PathTrace, String> {
        let text = parse_trace(&self.instance.stopped_text()?, self.clock);
        let (clock, thread) = (self.clock, self.thread);
        let (lost, complete_from) = self.instance.losses(text.unreadable, |stats| match clock {
            TraceClock::Monotonic => stats.oldest.map(durio_base::Nanos::get),
            TraceClock::Tsc => stats.oldest_ticks,
        });
        let strangers = self.strangers(&text);
        let complete_from = complete_from.unwrap_or(0);
        Ok(PathTrace { text, clock, thread, strangers, lost, complete_from })
    }

    /// Tasks that queued something and are neither this process nor the kernel. Where the numbers
    /// of tasks differ from the trace (in a container), no task is known to be a stranger.
    fn strangers(&self, text: &TraceText) -> BTreeSet<u32> {
        let own = gettid().as_raw_nonzero().get().cast_unsigned();
        if own != self.thread {
            return BTreeSet::new();
        }
        let queued =
            text.events.iter().filter(|event| matches!(event.kind, TraceEventKind::Queued(_)));
        let tasks: BTreeSet<u32> = queued.map(|event| event.task).collect();
        tasks.into_iter().filter(|&task| task != own && self.is_stranger(task)).collect()
    }

    fn is_stranger(&self, task: u32) -> bool {
        let proc = self.root.join("proc");
        if proc.join("self/task").join(task.to_string()).exists() {
            return false;
        }
        // A thread of the kernel's outlives the trace, most often; a program may have ended.
        let stat = fs::read_to_string(proc.join(task.to_string()).join("stat"));
        !stat.is_ok_and(|text| is_kernel_thread(&text))
    }
}

/// The most events that this many operations make, or that there is room for.
fn events_of(operations: u64) -> u64 {
    operations.saturating_mul(EVENTS_EACH).min(EVENTS_MAX)
}

/// By the flags in `/proc/PID/stat`, the seventh field after the name (proc_pid_stat(5)).
fn is_kernel_thread(stat: &str) -> bool {
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6));
    flags
        .and_then(|flags| flags.parse::<u64>().ok())
        .is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// The number of the calling thread as the trace has it, which in a container is another than its
/// own.
fn number_in(instance: &mut TraceInstance, clock: TraceClock) -> Result<u32, String> {
    instance.set("tracing_on", "1")?;
    instance.mark_text(HERE)?;
    let text = parse_trace(&instance.stopped_text()?, clock);
    let is_mark =
        |kind: &TraceEventKind| matches!(kind, TraceEventKind::Mark(text) if text == HERE);
    let found = text.events.iter().find(|event| is_mark(&event.kind));
    found.map(|event| event.task).ok_or_else(|| "a mark does not appear in the trace".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_60_events_of_each_operation_up_to_40_000() {
        let events = [0, 1, 300, 666, 667, u64::MAX].map(events_of);
        assert_eq!(events, [0, 60, 18_000, 39_960, 40_000, 40_000]);
    }

    #[test]
    fn threads_of_the_kernel_are_told_from_programs() {
        let kernel = "54 (kworker/1:1H) I 2 0 0 0 -1 69238880 0 0 0 0 0 7 0 0 0 -20 1 0 24";
        let program = "812 (a) b) S 1 812 812 0 -1 4194560 2039 0 1 0 3 4 0 0 20 0 1 0 510";
        assert!(is_kernel_thread(kernel) && !is_kernel_thread(program));
        for odd in ["", ")", "1 (x) S", "1 (x) S 0 0 0 0 -1 x", "no name"] {
            assert!(!is_kernel_thread(odd), "{odd}");
        }
    }
}
