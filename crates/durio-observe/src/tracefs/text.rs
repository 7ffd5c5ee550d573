//! The text of a `trace` file, as the kernel prints it (Documentation/trace/ftrace.rst), with the
//! block events (include/trace/events/block.h) and the marks that were written to `trace_marker`; and
//! what a ring buffer could not keep: `per_cpu/cpu*/stats`.
//!
//! A line is the name of the task in 16 columns, its number, the processor, letters of state, the
//! time and the event:
//!
//! ```text
//!     kworker/0:1H-44      [000] ..... 12724.462437: block_rq_issue: 254,0 FF 0 () 0 + 0 ...
//! ```
//!
//! The name of a task is whatever the task likes; so it is passed over by its width.

use durio_units::Nanos;

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

/// What an event tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceEventKind {
    /// The driver was given a request (block_rq_issue).
    Issued(BlockRequest),
    /// The driver has done it (block_rq_complete).
    Completed(BlockRequest),
    /// A filesystem or the page cache wants something done (block_bio_queue).
    Queued(BlockRequest),
    /// That is done (block_bio_complete).
    Ended(BlockRequest),
    /// A program wrote this to `trace_marker`.
    Mark(String),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, on the clock of the trace, in whole microseconds.
    pub at: Nanos,
    /// What.
    pub kind: TraceEventKind,
}

/// The events of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceText {
    /// In the order of the text, which is that of time.
    pub events: Vec<TraceEvent>,
    /// Lines of events named above that could not be read.
    pub unreadable: u64,
}

/// Reads a trace. Comments, and events other than those of [`TraceEventKind`], are passed over.
#[must_use]
pub fn parse_trace(text: &[u8]) -> TraceText {
    let mut trace = TraceText::default();
    for line in text.split(|byte| *byte == b'\n') {
        match parse_line(line) {
            Line::Event(event) => trace.events.push(event),
            Line::Unreadable => trace.unreadable += 1,
            Line::Other => {}
        }
    }
    trace
}

enum Line {
    Event(TraceEvent),
    /// It should be an event of ours.
    Unreadable,
    Other,
}

/// Columns of a task's name (trace_print_context in the kernel's trace_output.c).
pub(super) const NAME_WIDTH: usize = 16;

/// Longer lines than the kernel prints are none of its own.
pub(super) const LINE_MAX: usize = 8192;

fn parse_line(line: &[u8]) -> Line {
    let Some(tail) = line.get(NAME_WIDTH..).filter(|_| line.len() <= LINE_MAX) else {
        return Line::Other;
    };
    let tail = String::from_utf8_lossy(tail);
    let Some((at, event)) = context(&tail) else { return Line::Other };
    let Some((name, rest)) = event.split_once(": ") else { return Line::Other };
    let kind = match name {
        "block_rq_issue" => issued(rest).map(TraceEventKind::Issued),
        "block_rq_complete" => completed(rest).map(TraceEventKind::Completed),
        "block_bio_queue" => of_bio(rest).map(TraceEventKind::Queued),
        "block_bio_complete" => of_bio(rest).map(TraceEventKind::Ended),
        // The function that writes marks; by its address, if names of functions are hidden.
        _ if name.contains("mark_write") || name.starts_with("0x") => {
            Some(TraceEventKind::Mark(rest.trim_end().to_owned()))
        }
        _ => return Line::Other,
    };
    kind.map_or(Line::Unreadable, |kind| Line::Event(TraceEvent { at, kind }))
}

/// What stands between the task's name and the event: the time is kept.
fn context(tail: &str) -> Option<(Nanos, &str)> {
    let (head, event) = tail.strip_prefix('-')?.split_once(": ")?;
    let mut words = head.split_whitespace();
    words.next()?.parse::<u32>().ok()?;
    let at = seconds(words.next_back()?)?;
    words.any(is_processor).then_some((at, event))
}

/// A processor's number: `[001]`.
pub(super) fn is_processor(word: &str) -> bool {
    let number = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Seconds with six decimals, as the kernel prints times.
pub(super) fn seconds(text: &str) -> Option<Nanos> {
    let (seconds, micros) = text.split_once('.').filter(|(_, micros)| micros.len() == 6)?;
    let micros = micros.bytes().all(|byte| byte.is_ascii_digit()).then_some(micros)?;
    let seconds: u64 = seconds.parse().ok()?;
    let micros: u64 = micros.parse().ok()?;
    let nanos = seconds.checked_mul(1_000_000)?.checked_add(micros)?.checked_mul(1000)?;
    Some(Nanos::new(nanos))
}

/// `254,0 WS 4096 () 173162880 + 8 be,0,4 [dd]`; before Linux 6.9 without the priority.
pub(super) fn issued(text: &str) -> Option<BlockRequest> {
    let (device, flags, rest) = device_and_flags(text)?;
    let (bytes, rest) = rest.split_once(' ')?;
    let (sector, _) = place(after_command(rest)?)?;
    Some(BlockRequest { device, flags, bytes: bytes.parse().ok()?, sector })
}

/// `254,0 WS () 173162880 + 8 be,0,4 [0]`.
pub(super) fn completed(text: &str) -> Option<BlockRequest> {
    let (device, flags, rest) = device_and_flags(text)?;
    let (sector, bytes) = place(after_command(rest)?)?;
    Some(BlockRequest { device, flags, bytes, sector })
}

/// `254,0 FWS 0 + 0 [dd]`.
pub(super) fn of_bio(text: &str) -> Option<BlockRequest> {
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

/// The state of the buffer of one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferStats {
    /// Events that were overwritten or dropped.
    pub lost: u64,
    /// The time of the oldest event that is still there, on the clock of the trace; before it this
    /// processor's events are incomplete if any was lost.
    pub oldest: Option<Nanos>,
    /// The same of a clock whose times are no nanoseconds, in its ticks.
    pub oldest_ticks: Option<u64>,
}

/// Reads the text of a `stats` file; what is absent counts as zero, for kernels differ in the lines
/// that they show.
#[must_use]
pub fn parse_buffer_stats(text: &str) -> BufferStats {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let count = |name: &str| value(name).and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    let lost = ["overrun", "commit overrun", "dropped events"].map(count);
    BufferStats {
        lost: lost.into_iter().fold(0, u64::saturating_add),
        oldest: value("oldest event ts").and_then(seconds),
        oldest_ticks: value("oldest event ts").and_then(|text| text.parse().ok()),
    }
}
