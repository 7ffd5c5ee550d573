//! The text of a `trace` file that follows one thread through the kernel: its system calls
//! (include/trace/events/syscalls.h), when it left a processor and came back
//! (include/trace/events/sched.h), and the block events of everyone.
//!
//! In: the text, and the clock that its times are of. Out: [`PathText`]. Not here: what the events
//! mean for an operation.

use super::text::{
    BlockRequest, LINE_MAX, NAME_WIDTH, completed, is_processor, issued, of_bio, seconds,
};

/// The clock of a trace (Documentation/trace/ftrace.rst, trace_clock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceClock {
    /// CLOCK_MONOTONIC; the text has whole microseconds.
    Monotonic,
    /// The time-stamp counter; the text has its ticks.
    Tsc,
}

impl TraceClock {
    /// As the file `trace_clock` names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "mono",
            Self::Tsc => "x86-tsc",
        }
    }

    /// A time as the text has it: nanoseconds, or ticks.
    fn time(self, text: &str) -> Option<u64> {
        match self {
            Self::Monotonic => Some(seconds(text)?.get()),
            Self::Tsc => text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok())?,
        }
    }
}

/// What an event tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathEventKind {
    /// The task enters the kernel by a system call.
    Entered,
    /// It leaves the kernel.
    Left,
    /// It leaves its processor.
    SwitchedOut {
        /// It could have run on: the processor was taken from it.
        preempted: bool,
    },
    /// This other task takes a processor.
    SwitchedIn {
        /// Its number.
        task: u32,
    },
    /// A filesystem, the page cache or a layer wants something done (block_bio_queue).
    Queued(BlockRequest),
    /// That is done, of devices without requests (block_bio_complete).
    Ended(BlockRequest),
    /// The driver was given a request (block_rq_issue).
    Issued(BlockRequest),
    /// The driver has done it (block_rq_complete).
    Completed(BlockRequest),
    /// A program wrote this to `trace_marker`.
    Mark(String),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEvent {
    /// When: nanoseconds of CLOCK_MONOTONIC, or ticks of the time-stamp counter.
    pub at: u64,
    /// The task that ran on the processor; of an interrupt, whichever it interrupted.
    pub task: u32,
    /// What.
    pub kind: PathEventKind,
}

/// The events of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathText {
    /// In the order of the text, which is that of time. A switch gives two: out, and in.
    pub events: Vec<PathEvent>,
    /// Lines of events named above that could not be read.
    pub unreadable: u64,
}

/// Reads a trace. Comments, and events other than those of [`PathEventKind`], are passed over.
#[must_use]
pub fn parse_path_trace(text: &[u8], clock: TraceClock) -> PathText {
    let mut trace = PathText::default();
    for line in text.split(|byte| *byte == b'\n') {
        let tail = line.get(NAME_WIDTH..).filter(|_| line.len() <= LINE_MAX);
        let Some(tail) = tail.map(String::from_utf8_lossy) else { continue };
        let Some((at, task, event)) = context(&tail, clock) else { continue };
        let Some((name, rest)) = event.split_once(": ") else { continue };
        match kinds(name, rest, task) {
            Read::Events(kinds) => {
                let kinds = kinds.into_iter().flatten();
                trace.events.extend(kinds.map(|kind| PathEvent { at, task, kind }));
            }
            Read::Unreadable => trace.unreadable += 1,
            Read::Other => {}
        }
    }
    trace
}

enum Read {
    Events([Option<PathEventKind>; 2]),
    /// It should be an event of ours.
    Unreadable,
    Other,
}

fn kinds(name: &str, rest: &str, task: u32) -> Read {
    let kind = match name {
        "sys_enter" => call(rest).map(|()| PathEventKind::Entered),
        "sys_exit" => call(rest).map(|()| PathEventKind::Left),
        "sched_switch" => return switched(rest, task).map_or(Read::Unreadable, Read::Events),
        "block_bio_queue" => of_bio(rest).map(PathEventKind::Queued),
        "block_bio_complete" => of_bio(rest).map(PathEventKind::Ended),
        "block_rq_issue" => issued(rest).map(PathEventKind::Issued),
        "block_rq_complete" => completed(rest).map(PathEventKind::Completed),
        // The function that writes marks; by its address, if names of functions are hidden.
        _ if name.contains("mark_write") || name.starts_with("0x") => {
            Some(PathEventKind::Mark(rest.trim_end().to_owned()))
        }
        _ => return Read::Other,
    };
    kind.map_or(Read::Unreadable, |kind| Read::Events([Some(kind), None]))
}

/// What stands between the task's name and the event: time and task are kept.
fn context(tail: &str, clock: TraceClock) -> Option<(u64, u32, &str)> {
    let (head, event) = tail.strip_prefix('-')?.split_once(": ")?;
    let mut words = head.split_whitespace();
    let task = words.next()?.parse().ok()?;
    let at = clock.time(words.next_back()?)?;
    words.any(is_processor).then_some((at, task, event))
}

/// `NR 18 (3, …)`, `NR 18 = 4096`: the number alone is checked.
fn call(text: &str) -> Option<()> {
    let number = text.strip_prefix("NR ")?.split(' ').next()?;
    number.parse::<i64>().ok().map(|_| ())
}

/// `prev_comm=dd prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=x next_pid=9 next_prio=120`.
///
/// A name is whatever a task likes, so numbers are looked for from the end. The task that leaves is
/// the one that the line is of.
fn switched(text: &str, task: u32) -> Option<[Option<PathEventKind>; 2]> {
    let (head, next) = text.rsplit_once(" next_pid=")?;
    let next = next.split(' ').next()?.parse().ok()?;
    let (head, _) = head.rsplit_once(" ==> next_comm=")?;
    let (_, state) = head.rsplit_once(" prev_state=")?;
    let preempted = state.starts_with('R');
    // The idle task has number 0 on every processor: nothing is known by it.
    let out = (task > 0).then_some(PathEventKind::SwitchedOut { preempted });
    Some([out, Some(PathEventKind::SwitchedIn { task: next })])
}
