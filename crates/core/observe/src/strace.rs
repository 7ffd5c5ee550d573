//! A program's calls in the text of `strace -f -ttt -T -y`, as capture events ([`CaptureEvent`]) in
//! the order of time. strace does not see devices.
//!
//! A line is a call, or one half of a call during which another thread was reported:
//!
//! ```text
//! 812 1700000000.000100 pwrite64(7</pg/wal/1>, "\320\227"..., 8192, 0) = 8192 <0.000012>
//! 812 1700000000.000300 fdatasync(7</pg/wal/1> <unfinished ...>
//! 813 1700000000.000400 <... fdatasync resumed>) = 0 <0.000950>
//! ```
//!
//! Quoted contents are passed over. The text does not say which threads share descriptors: one
//! number with one path is taken for one descriptor. If its opening was not seen, its flags are not
//! known, and positions count from its first write.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use crate::block_trace::line::is_request;
use crate::capture_events::{CaptureEnd, CaptureEvent, CapturedFile, OPEN_FLAGS};
use crate::trace_text::{
    TraceTextError, each_line, is_call_of_perf, nanoseconds, not_of_requests, seconds,
};
use crate::tracefs::{CallRole, TRACED_CALLS, TracedCall};

/// A call that a capture reports.
pub(crate) fn traced_call(name: &str) -> Option<&'static TracedCall> {
    TRACED_CALLS.iter().find(|call| call.name == name)
}

/// Beginnings of paths that are not storage, or not a file that a database would write.
const NO_FILES: [&str; 4] = ["/dev/tty", "/dev/pts/", "/proc/", "/sys/"];

const DAY: u64 = 86_400_000_000_000;

/// A date in 1973, which no clock shows: such a time is relative.
const LONG_AGO: u64 = 100_000_000_000_000_000;

/// Reads a trace to its end.
///
/// # Errors
/// If it cannot be read, or has no call with a time on a file with a name.
pub fn read_strace(
    text: impl BufRead,
    emit: &mut dyn FnMut(CaptureEvent),
) -> Result<CaptureEnd, TraceTextError> {
    let mut trace = SyscallTrace::new(emit);
    let mut other = None;
    let ended_early = each_line(text, |line| {
        trace.line(line);
        if trace.calls == 0 && other.is_none() {
            other = not_of_calls(line);
        }
    })?;
    if trace.goes_back {
        return Err(TraceTextError::new(
            "its times go backwards, as with -r when the first line is missing: run strace with \
             -ttt",
        ));
    }
    if trace.lacks_first_line {
        return Err(TraceTextError::new(
            "its times are relative (strace -r) and its first line is missing: run strace with -f -ttt -T -y",
        ));
    }
    if trace.calls == 0 {
        let why = match (trace.without_time, trace.without_name, other, &ended_early) {
            (_, 1.., ..) if trace.is_relative => {
                "its times are relative (strace -r) and its calls have no file paths: run strace \
                 with -f -ttt -T -y"
            }
            (1.., ..) => "its lines have no times: run strace with -ttt",
            (_, 1.., ..) => "its calls have no file paths: run strace with -y",
            (_, _, Some(why), _) => why,
            (_, _, None, Some(why)) => why,
            _ => "it has no calls that write or sync a file",
        };
        return Err(TraceTextError::new(why));
    }
    Ok(trace.finish(ended_early))
}

/// A trace that is read.
struct SyscallTrace<'e> {
    emit: &'e mut dyn FnMut(CaptureEvent),
    /// By path: number and flags, as it was opened last.
    by_path: HashMap<String, (usize, u32)>,
    /// The size of each file, of which a trace says nothing but that it is gone.
    files: Vec<Option<u64>>,
    /// The path of each descriptor of which the position is known.
    positions: HashMap<i32, String>,
    /// Calls that have started, by thread.
    begun: HashMap<u32, BegunCall>,
    tasks: HashSet<u32>,
    calls: u64,
    without_time: u64,
    without_name: u64,
    /// Calls whose end no line says.
    without_end: u64,
    /// Times are whole seconds.
    is_coarse: bool,
    /// Each time counts from that of the line before (`-r`).
    is_relative: bool,
    /// The same, but the line before the first of them is missing.
    lacks_first_line: bool,
    goes_back: bool,
    first: Option<u64>,
    /// The time of the last line.
    at: u64,
    /// The end of the last call.
    last: u64,
}

/// A call that has started: when, its text, and itself if a capture reports it.
struct BegunCall {
    at: u64,
    text: String,
    call: Option<&'static TracedCall>,
}

impl<'e> SyscallTrace<'e> {
    fn new(emit: &'e mut dyn FnMut(CaptureEvent)) -> Self {
        Self {
            emit,
            by_path: HashMap::new(),
            files: Vec::new(),
            positions: HashMap::new(),
            begun: HashMap::new(),
            tasks: HashSet::new(),
            calls: 0,
            without_time: 0,
            without_name: 0,
            without_end: 0,
            is_coarse: true,
            is_relative: false,
            lacks_first_line: false,
            goes_back: false,
            first: None,
            at: 0,
            last: 0,
        }
    }

    /// Takes a line; ignores lines without a relevant call.
    fn line(&mut self, line: &str) {
        let text = line.trim();
        // strace pads the times of -r alone.
        let is_padded = line.starts_with(' ');
        let (task, rest) = task_of(text);
        let Some((at, rest)) = self.time_of(rest, is_padded) else {
            self.without_time += u64::from(call_of(rest).is_some());
            return;
        };
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.at = at;
        self.last = self.last.max(at);
        if let Some(text) = rest.strip_suffix("<unfinished ...>") {
            let text = text.trim_end().to_owned();
            let call = self.begin(task, &text, at);
            self.begun.insert(task, BegunCall { at, text, call });
            return;
        }
        let Some((text, answer)) = rest.rsplit_once(" = ") else { return };
        let Some(answer) = CallAnswer::of(answer) else { return };
        if rest.starts_with("<... ") {
            let Some(BegunCall { at: begin, text, call }) = self.begun.remove(&task) else {
                return;
            };
            let end = answer.took.map_or(at, |took| begin + took);
            self.end(task, call, &text, end, &answer);
        } else {
            let text = text.trim_end();
            let text = text.strip_suffix(')').unwrap_or(text);
            let call = self.begin(task, text, at);
            self.without_end += u64::from(answer.took.is_none() && call.is_some());
            self.end(task, call, text, at + answer.took.unwrap_or(0), &answer);
        }
    }

    /// Nanoseconds since 1970 (`-ttt`), of the day (`-tt`, `-t`), or since the line before (`-r`).
    fn time_of<'t>(&mut self, rest: &'t str, is_padded: bool) -> Option<(u64, &'t str)> {
        let (word, rest) = rest.split_once(' ')?;
        let is_of_day = word.split(':').count() == 3;
        // A number alone is a process.
        if !is_of_day && !word.contains('.') {
            return None;
        }
        let (whole, part) = word.split_once('.').unwrap_or((word, "0"));
        let seconds = whole
            .split(':')
            .try_fold(0_u64, |sum, field| sum.checked_mul(60)?.checked_add(field.parse().ok()?))?;
        let mut nanos = nanoseconds(seconds, part)?;
        self.is_coarse &= !word.contains('.');
        // With `-r` and `-t` the line has both.
        let rest = rest.trim_start();
        let rest = match rest.strip_prefix("(+").and_then(|rest| rest.split_once(") ")) {
            Some((_, rest)) => rest,
            None => rest,
        };
        if is_of_day {
            while nanos + DAY / 2 < self.at {
                nanos += DAY;
            }
        } else if self.is_relative || (self.first.is_none() && nanos == 0) {
            self.is_relative = true;
            nanos = self.at.checked_add(nanos)?;
        } else {
            self.goes_back |= nanos < self.at && nanos < LONG_AGO;
            self.lacks_first_line |= is_padded && nanos < LONG_AGO && call_of(rest).is_some();
        }
        Some((nanos, rest))
    }

    /// Reports that a call starts; none for calls that are not reported.
    fn begin(&mut self, task: u32, text: &str, at: u64) -> Option<&'static TracedCall> {
        let (call, arguments) = call_of(text)?;
        if call.role == CallRole::Open {
            return None;
        }
        let Some((fd, path)) = descriptor(arguments) else {
            self.without_name += u64::from(matches!(call.role, CallRole::Write | CallRole::Sync));
            return None;
        };
        if !is_file(path) {
            return None;
        }
        if call.role == CallRole::Close {
            self.positions.remove(&fd);
            return None;
        }
        let file = self.file(path, None);
        let holder = (0, fd);
        if self.positions.get(&fd).is_none_or(|known| known != path) {
            self.positions.insert(fd, path.to_owned());
            (self.emit)(CaptureEvent::Opened { holder, file, position: Some(0) });
        }
        let (offset, durable) = where_it_writes(call.name, arguments);
        let file = Some(file);
        (self.emit)(CaptureEvent::Entered { at, task, call, holder, file, offset, durable });
        Some(call)
    }

    fn end(
        &mut self,
        task: u32,
        call: Option<&'static TracedCall>,
        text: &str,
        at: u64,
        answer: &CallAnswer<'_>,
    ) {
        if let Some(call) = call {
            self.last = self.last.max(at);
            self.tasks.insert(task);
            self.calls += 1;
            (self.emit)(CaptureEvent::Left { at, task, call, result: answer.result });
        } else if let Some((call, arguments)) = call_of(text)
            && call.role == CallRole::Open
        {
            self.opened(arguments, answer);
        }
    }

    /// A descriptor is given: `openat(AT_FDCWD, "x", O_WRONLY|O_DSYNC) = 7</x>`.
    fn opened(&mut self, arguments: &str, answer: &CallAnswer<'_>) {
        let Some((fd, path)) = answer.descriptor.filter(|(_, path)| is_file(path)) else { return };
        let has = |name: &str| arguments.split(['|', ',', ' ']).any(|flag| flag == name);
        let flags =
            OPEN_FLAGS.iter().filter(|(name, _)| has(name)).fold(0, |sum, (_, bit)| sum | bit);
        // An appending file starts at the file's end, and positions count from there.
        let is_empty = has("O_TRUNC") || has("O_EXCL") || has("O_APPEND");
        // A file that is only read has none of these, and takes no flag away from its writers.
        if flags > 0 || is_empty {
            self.file(path, Some((flags, is_empty.then_some(0))));
        }
        self.positions.remove(&fd);
    }

    /// The number of a file, which is a new one if it is opened in another way.
    fn file(&mut self, path: &str, opened: Option<(u32, Option<u64>)>) -> usize {
        match self.by_path.get(path) {
            Some((number, known)) if opened.is_none_or(|(flags, _)| flags == *known) => *number,
            _ => {
                let (number, (flags, size)) = (self.files.len(), opened.unwrap_or_default());
                self.by_path.insert(path.to_owned(), (number, flags));
                self.files.push(Some(0));
                let path = path.to_owned();
                (self.emit)(CaptureEvent::File(CapturedFile { path, flags, size }));
                number
            }
        }
    }

    fn finish(self, ended_early: Option<String>) -> CaptureEnd {
        let mut not_shown = Vec::new();
        if self.without_end > 0 {
            not_shown.push("the durations of calls are missing (strace -T shows them)");
        }
        if self.is_coarse {
            not_shown.push(
                "its times are whole seconds (strace -t; -ttt shows microseconds), so rates and times between syncs are rough",
            );
        }
        CaptureEnd {
            duration_ns: self.last.saturating_sub(self.first.unwrap_or(self.last)),
            processes: self.tasks.len(),
            ended_early,
            events: self.calls,
            not_shown: (!not_shown.is_empty()).then(|| not_shown.join("; ")),
            sizes: self.files,
            ..CaptureEnd::default()
        }
    }
}

/// The part after ` = `: `8192 <0.000012>`, `7</x> <0.000066>`, `-1 ENOSPC (No space left)
/// <0.000008>`.
struct CallAnswer<'t> {
    result: i64,
    descriptor: Option<(i32, &'t str)>,
    took: Option<u64>,
}

impl<'t> CallAnswer<'t> {
    /// None for a call that never returned (`?`).
    fn of(text: &'t str) -> Option<Self> {
        let (answer, took) = match text.strip_suffix('>').and_then(|rest| rest.rsplit_once(" <")) {
            Some((answer, took)) => (answer, seconds(took)),
            None => (text, None),
        };
        let number = answer.find(|letter: char| letter != '-' && !letter.is_ascii_digit());
        let result = answer[..number.unwrap_or(answer.len())].parse().ok()?;
        Some(Self { result, descriptor: descriptor(answer), took })
    }
}

/// `812 …` and `[pid 812] …`; 0 where a single thread was traced.
fn task_of(line: &str) -> (u32, &str) {
    let bracketed = line.strip_prefix("[pid").and_then(|rest| rest.split_once(']'));
    let found = match bracketed {
        Some((number, rest)) => process(number.trim()).map(|task| (task, rest)),
        None => line.split_once(' ').and_then(|(word, rest)| Some((process(word)?, rest))),
    };
    found.map_or((0, line), |(task, rest)| (task, rest.trim_start()))
}

/// `812`, and `812<postgres>` by `-Y`.
fn process(word: &str) -> Option<u32> {
    word.split('<').next()?.parse().ok()
}

/// A call of those that count, and its arguments: `pwrite64`, `7</pg/wal/1>, "\320\227"..., 8192, 0`.
fn call_of(text: &str) -> Option<(&'static TracedCall, &str)> {
    let (name, arguments) = text.split_once('(')?;
    // The name may follow its number (-n), or an address (-i).
    Some((traced_call(name.rsplit(' ').next()?)?, arguments))
}

/// Recognises by one of its lines a text without system calls: its type, and what to do.
fn not_of_calls(line: &str) -> Option<&'static str> {
    if line.contains("usecs/call") {
        return Some("it is the table of strace -c, which has only sums: run strace without -c");
    }
    if is_call_of_perf(line) {
        return Some("it is the output of perf trace: run strace -f -ttt -T -y");
    }
    if is_request(line) {
        return Some("it has requests of block devices: read it with --block-trace");
    }
    not_of_requests(line, is_call)
}

/// True for a line of a call that counts.
pub(crate) fn is_call(line: &str) -> bool {
    call_of(line).is_some() && line.contains(" = ")
}

/// `7</pg/wal/1>…`: the descriptor, and its path.
fn descriptor(text: &str) -> Option<(i32, &str)> {
    let (number, rest) = text.split_once('<')?;
    // In a path strace writes such signs as \\74 and \\76; -yy adds the type of a device:
    // `</dev/sda<block 8:0>>`.
    let (path, _) = rest.split_once('>')?;
    let (path, _) = path.split_once('<').unwrap_or((path, ""));
    Some((number.parse().ok()?, before_it_was_deleted(path)))
}

/// Without the kernel's suffix on the path of a deleted file. A file may be named ` (deleted)`:
/// then the rest is a folder, and the suffix stays.
fn before_it_was_deleted(path: &str) -> &str {
    path.strip_suffix(" (deleted)").filter(|path| !path.ends_with('/')).unwrap_or(path)
}

fn is_file(path: &str) -> bool {
    // Whole: the disks of null_blk are called /dev/nullb0.
    let is_null = path == "/dev/null";
    path.starts_with('/') && !is_null && !NO_FILES.iter().any(|begin| path.starts_with(begin))
}

/// The offset of a write that says it, and whether its own flags make it durable.
fn where_it_writes(name: &str, arguments: &str) -> (Option<u64>, bool) {
    let mut from_end = arguments.rsplit(", ").map(str::trim);
    match name {
        "pwrite64" | "pwritev" => (from_end.next().and_then(|number| number.parse().ok()), false),
        "pwritev2" => {
            let flags = from_end.next().unwrap_or_default();
            let offset = from_end.next().and_then(|offset| offset.parse().ok());
            // -1 means the descriptor's position, and is not a number here.
            (offset, flags.split('|').any(|flag| flag == "RWF_DSYNC" || flag == "RWF_SYNC"))
        }
        _ => (None, false),
    }
}

#[cfg(test)]
mod tests;
