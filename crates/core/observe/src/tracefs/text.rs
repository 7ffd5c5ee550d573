//! The text of a `trace` file, as the kernel prints it (Documentation/trace/ftrace.rst), with the
//! block events (include/trace/events/block.h), the marks that were written to `trace_marker`, and what
//! follows one thread: system calls (events/syscalls.h), and when it left a processor and came back
//! (events/sched.h); and what a ring buffer could not keep: `per_cpu/cpu*/stats`.
//!
//! Takes the text, and the clock of its times.
//!
//! A line is the name of the task in 16 columns, its number, the processor, letters of state, the
//! time and the event:
//!
//! ```text
//!     kworker/0:1H-44      [000] ..... 12724.462437: block_rq_issue: 254,0 FF 0 () 0 + 0 ...
//! ```
//!
//! The name of a task is whatever the task likes; so it is passed over by its width.

use durio_base::Nanos;

/// One request, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRequest {
    /// Major and minor number of the device; of the disk, not of a partition.
    pub device: (u32, u32),
    /// The kernel's letters (blk_fill_rwbs), at most 16.
    pub flags: String,
    /// Bytes; zero for a flush.
    pub bytes: u64,
    /// First sector of 512 bytes; all ones where the kernel names none.
    pub sector: u64,
}

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
            Self::Tsc => {
                text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
            }
        }
    }
}

/// The contents of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceEventKind {
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
        /// The kernel's number of the thread.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// When: nanoseconds of CLOCK_MONOTONIC, or ticks of the time-stamp counter.
    pub at: u64,
    /// The task that ran on the processor; of an interrupt, whichever it interrupted.
    pub task: u32,
    pub kind: TraceEventKind,
}

/// The events of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceText {
    /// In the order of the text, which is that of time. A switch gives two: out, and in.
    pub events: Vec<TraceEvent>,
    /// Lines of events named above that could not be read.
    pub unreadable: u64,
}

/// Reads a trace. Comments, and events other than those of [`TraceEventKind`], are passed over.
pub fn parse_trace(text: &[u8], clock: TraceClock) -> TraceText {
    let mut trace = TraceText::default();
    each_line(text, clock, |line| {
        let TraceLine::Event(EventLine { at, task, event, .. }) = line else { return };
        let Some((name, rest)) = event.split_once(": ") else { return };
        match kinds(name, rest, task) {
            LineKinds::Known(kinds) => {
                let kinds = kinds.into_iter().flatten();
                trace.events.extend(kinds.map(|kind| TraceEvent { at, task, kind }));
            }
            LineKinds::Unreadable => trace.unreadable += 1,
            LineKinds::Other => {}
        }
    });
    trace
}

/// A line of a trace that says something.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TraceLine<'a> {
    Event(EventLine<'a>),
    /// A function of the stack whose event came before.
    Function(&'a str),
    /// A buffer lost this many events here.
    Lost(u64),
}

/// A line of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventLine<'a> {
    /// On the clock of the trace.
    pub(crate) at: u64,
    /// The name of the task; `<...>` if the kernel does not know it any more.
    pub(crate) task_name: &'a str,
    pub(crate) task: u32,
    pub(crate) processor: u32,
    /// An interrupt interrupted the task.
    pub(crate) in_interrupt: bool,
    /// The name of the event, a colon, and its contents; of a stack `<stack trace>`.
    pub(crate) event: &'a str,
}

/// Calls `take` with each line of a trace that is not a comment.
pub(crate) fn each_line(text: &[u8], clock: TraceClock, mut take: impl FnMut(TraceLine<'_>)) {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| line.len() <= LINE_MAX);
    for line in lines {
        if let Some((name, tail)) = line.split_at_checked(NAME_WIDTH) {
            let (name, tail) = (String::from_utf8_lossy(name), String::from_utf8_lossy(tail));
            if let Some(line) = event_line(&name, &tail, clock) {
                take(TraceLine::Event(line));
                continue;
            }
        }
        if let Some(function) = line.strip_prefix(b" => ") {
            take(TraceLine::Function(&String::from_utf8_lossy(function)));
        } else if let Some(lost) = line.strip_prefix(b"CPU:").and_then(lost_events) {
            take(TraceLine::Lost(lost));
        }
    }
}

/// `1 [LOST 7 EVENTS]`; some losses have no number.
fn lost_events(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, lost) = line.split_once(" [LOST ")?;
    let (number, _) = lost.split_once("EVENTS]")?;
    Some(number.trim_end().parse().unwrap_or(1))
}

enum LineKinds {
    Known([Option<TraceEventKind>; 2]),
    /// It should be an event known here.
    Unreadable,
    Other,
}

/// Columns of a task's name (trace_print_context in the kernel's trace_output.c).
const NAME_WIDTH: usize = 16;

/// Longer lines are not the kernel's.
const LINE_MAX: usize = 8192;

fn kinds(name: &str, rest: &str, task: u32) -> LineKinds {
    let kind = match name {
        "sys_enter" => call(rest).map(|()| TraceEventKind::Entered),
        "sys_exit" => call(rest).map(|()| TraceEventKind::Left),
        // One line is the end of one task's turn and the start of another's.
        "sched_switch" => {
            return switched(rest, task).map_or(LineKinds::Unreadable, LineKinds::Known);
        }
        "block_bio_queue" => bio_request(rest).map(TraceEventKind::Queued),
        "block_bio_complete" => bio_request(rest).map(TraceEventKind::Ended),
        "block_rq_issue" => issued_request(rest).map(TraceEventKind::Issued),
        "block_rq_complete" => completed_request(rest).map(TraceEventKind::Completed),
        // The function that writes marks; by its address, if names of functions are hidden.
        _ if name.contains("mark_write") || name.starts_with("0x") => {
            Some(TraceEventKind::Mark(rest.trim_end().to_owned()))
        }
        _ => return LineKinds::Other,
    };
    kind.map_or(LineKinds::Unreadable, |kind| LineKinds::Known([Some(kind), None]))
}

/// Reads the task's name, and what follows it up to the event.
fn event_line<'a>(name: &'a str, tail: &'a str, clock: TraceClock) -> Option<EventLine<'a>> {
    let (head, event) = tail.strip_prefix('-')?.split_once(": ")?;
    let mut words = head.split_whitespace();
    let task = words.next()?.parse().ok()?;
    let at = clock.time(words.next_back()?)?;
    // Between number and time come, by option, the thread group, then the processor and, by option,
    // letters of state.
    let processor = words.find_map(processor)?;
    let in_interrupt = words.next().is_some_and(is_of_interrupt);
    Some(EventLine { at, task_name: name.trim_start(), task, processor, in_interrupt, event })
}

/// A processor's number: `[001]`.
fn processor(word: &str) -> Option<u32> {
    word.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Letters of state, of which the third is that of interrupts: hard, soft, or not maskable.
fn is_of_interrupt(letters: &str) -> bool {
    letters.as_bytes().get(2).is_some_and(|letter| b"hHszZ".contains(letter))
}

/// Seconds with six decimals, as the kernel prints times.
fn seconds(text: &str) -> Option<Nanos> {
    let (seconds, micros) = text.split_once('.').filter(|(_, micros)| micros.len() == 6)?;
    let micros = micros.bytes().all(|byte| byte.is_ascii_digit()).then_some(micros)?;
    let seconds: u64 = seconds.parse().ok()?;
    let micros: u64 = micros.parse().ok()?;
    let nanos = seconds.checked_mul(1_000_000)?.checked_add(micros)?.checked_mul(1000)?;
    Some(Nanos::new(nanos))
}

/// `254,0 WS 4096 () 173162880 + 8 be,0,4 [dd]`; before Linux 6.9 without the priority.
pub(crate) fn issued_request(text: &str) -> Option<BlockRequest> {
    let (device, flags, rest) = device_and_flags(text)?;
    let (bytes, rest) = rest.split_once(' ')?;
    let (sector, whole_sectors) = place(after_command(rest)?)?;
    // Before Linux 4.11 the bytes of a filesystem's request were printed as zero.
    let bytes = bytes.parse().ok().map(|bytes| if bytes == 0 { whole_sectors } else { bytes })?;
    Some(BlockRequest { device, flags, bytes, sector })
}

/// `254,0 WS () 173162880 + 8 be,0,4 [0]`.
pub(crate) fn completed_request(text: &str) -> Option<BlockRequest> {
    let (device, flags, rest) = device_and_flags(text)?;
    let (sector, bytes) = place(after_command(rest)?)?;
    Some(BlockRequest { device, flags, bytes, sector })
}

/// `254,0 FWS 0 + 0 [dd]`.
pub(crate) fn bio_request(text: &str) -> Option<BlockRequest> {
    let (device, flags, rest) = device_and_flags(text)?;
    let (sector, bytes) = place(rest)?;
    Some(BlockRequest { device, flags, bytes, sector })
}

/// More letters than the kernel's buffer for them (RWBS_LEN) has had in any version.
const FLAGS_MAX: usize = 16;

fn device_and_flags(text: &str) -> Option<((u32, u32), String, &str)> {
    let (device, rest) = text.split_once(' ')?;
    let (major, minor) = device.split_once(',')?;
    let (flags, rest) = rest.split_once(' ')?;
    let is_flags = (1..=FLAGS_MAX).contains(&flags.len())
        && flags.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let device = (major.parse().ok()?, minor.parse().ok()?);
    is_flags.then(|| (device, flags.to_owned(), rest))
}

/// Passes over the bytes of a command that no block layer made, in parentheses; usually none.
fn after_command(text: &str) -> Option<&str> {
    text.strip_prefix('(')?.split_once(") ").map(|(_, rest)| rest)
}

/// Sector, and bytes: `173162880 + 8`.
fn place(text: &str) -> Option<(u64, u64)> {
    let (sector, rest) = text.split_once(" + ")?;
    let sectors: u64 = rest.split(' ').next()?.parse().ok()?;
    Some((sector.parse().ok()?, sectors.checked_mul(512)?))
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
fn switched(text: &str, task: u32) -> Option<[Option<TraceEventKind>; 2]> {
    let (head, next) = text.rsplit_once(" next_pid=")?;
    let next = next.split(' ').next()?.parse().ok()?;
    let (head, _) = head.rsplit_once(" ==> next_comm=")?;
    let (_, state) = head.rsplit_once(" prev_state=")?;
    // `R+` was preempted in the kernel, `R` could have run on outside of it.
    let preempted = state.starts_with('R');
    // The idle task has number 0 on every processor: nothing is known by it.
    let out = (task > 0).then_some(TraceEventKind::SwitchedOut { preempted });
    Some([out, Some(TraceEventKind::SwitchedIn { task: next })])
}

/// The state of the buffer of one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferStats {
    /// Events that were overwritten or dropped.
    pub lost: u64,
    /// The time of the oldest event that is still there, on the clock of the trace; before it this
    /// processor's events are incomplete if any was lost.
    pub oldest: Option<Nanos>,
    /// The same for a clock that does not count nanoseconds, in its ticks.
    pub oldest_ticks: Option<u64>,
}

/// Reads the text of a `stats` file; a missing line counts as zero, for kernels differ in the lines
/// that they show.
pub fn parse_buffer_stats(text: &str) -> BufferStats {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let count = |name: &str| value(name).and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    // Overwritten, lost while an interrupt wrote, and refused by a full buffer that does not
    // overwrite.
    let lost = ["overrun", "commit overrun", "dropped events"].map(count);
    BufferStats {
        lost: lost.into_iter().fold(0, u64::saturating_add),
        oldest: value("oldest event ts").and_then(seconds),
        oldest_ticks: value("oldest event ts").and_then(|text| text.parse().ok()),
    }
}
