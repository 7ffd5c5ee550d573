//! What strace wrote of a program's calls, as a capture tells it.
//!
//! In: the text of `strace -f -ttt -T -y`. Out: [`CaptureEvent`]s in the order of time, and how it went.
//! Not here: what they add up to (`durio-analyse`); devices, which strace does not see.
//!
//! A line is a call, or one half of a call during which another thread was told of:
//!
//! ```text
//! 812 1700000000.000100 pwrite64(7</pg/wal/1>, "\320\227"..., 8192, 0) = 8192 <0.000012>
//! 812 1700000000.000300 fdatasync(7</pg/wal/1> <unfinished ...>
//! 813 1700000000.000400 <... fdatasync resumed>) = 0 <0.000950>
//! ```
//!
//! What strace quotes of contents is passed over. The text does not say which threads share descriptors: one
//! number with one path is taken for one descriptor. If nobody saw it being opened, its flags are not known,
//! and positions count from its first write.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use crate::capture_events::{CaptureEnd, CaptureEvent, CapturedFile, OPEN_FLAGS};
use crate::tracefs::{CallRole, TRACED_CALLS, TracedCall};

/// Why a text cannot be taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TraceTextError(String);

impl TraceTextError {
    pub(crate) fn new(why: &str) -> Self {
        Self(why.to_owned())
    }
}

/// Reads whole lines; tells if the last one was cut off.
pub(crate) fn each_line(
    mut text: impl BufRead,
    mut take: impl FnMut(&str),
) -> Result<Option<String>, TraceTextError> {
    let mut line = Vec::new();
    let mut is_whole = true;
    let io = |error: std::io::Error| TraceTextError(error.to_string());
    while text.read_until(b'\n', &mut line).map_err(io)? > 0 {
        is_whole = line.ends_with(b"\n");
        if is_whole {
            take(&String::from_utf8_lossy(&line));
        }
        line.clear();
    }
    Ok((!is_whole).then(|| "the trace ends amid a line".to_owned()))
}

/// A call that is told of.
pub(crate) fn traced_call(name: &str) -> Option<&'static TracedCall> {
    TRACED_CALLS.iter().find(|it| it.name == name)
}

/// What is no storage, or no file that a database would write.
const NO_FILES: [&str; 5] = ["/dev/null", "/dev/tty", "/dev/pts/", "/proc/", "/sys/"];

const DAY: u64 = 86_400_000_000_000;

/// Reads a trace to its end.
///
/// # Errors
/// If it cannot be read, or has no call with a time on a file with a name.
pub fn read_strace(
    text: impl BufRead,
    emit: &mut dyn FnMut(CaptureEvent),
) -> Result<CaptureEnd, TraceTextError> {
    let mut trace = Trace::new(emit);
    let ended_early = each_line(text, |line| trace.line(line))?;
    let Trace { calls, without_time, without_name, files, tasks, first, last, .. } = trace;
    if calls == 0 {
        let why = match (without_time, without_name) {
            (1.., _) => "its lines have no time",
            (_, 1..) => "its calls have no paths of files",
            _ => "it has no call that writes or syncs a file",
        };
        return Err(TraceTextError(why.to_owned()));
    }
    Ok(CaptureEnd {
        duration_ns: last.saturating_sub(first.unwrap_or(last)),
        processes: tasks.len(),
        ended_early,
        events: calls,
        sizes: files,
        ..CaptureEnd::default()
    })
}

/// A trace that is read.
struct Trace<'e> {
    emit: &'e mut dyn FnMut(CaptureEvent),
    /// By path: number and flags, as it was opened last.
    by_path: HashMap<String, (usize, u32)>,
    /// The size of each file, of which a trace says nothing but that it is gone.
    files: Vec<Option<u64>>,
    /// The path of each descriptor of which the position is known.
    positions: HashMap<i32, String>,
    /// Calls that have begun, by thread: when, and their arguments.
    begun: HashMap<u32, (u64, String)>,
    tasks: HashSet<u32>,
    calls: u64,
    without_time: u64,
    without_name: u64,
    first: Option<u64>,
    last: u64,
}

impl<'e> Trace<'e> {
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
            first: None,
            last: 0,
        }
    }

    /// Takes a line; what is no call that counts is passed over.
    fn line(&mut self, line: &str) {
        let (task, rest) = task_of(line.trim_end());
        let Some((at, rest)) = self.time_of(rest) else {
            self.without_time += u64::from(call_of(rest).is_some());
            return;
        };
        self.first.get_or_insert(at);
        self.last = self.last.max(at);
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            self.begun.insert(task, (at, begun.trim_end().to_owned()));
            return;
        }
        let Some((call, answer)) = rest.rsplit_once(" = ") else { return };
        let Some(answer) = Answer::of(answer) else { return };
        let took = answer.took.unwrap_or(0);
        if rest.starts_with("<... ") {
            let Some((begin, call)) = self.begun.remove(&task) else { return };
            let end = answer.took.map_or(at, |took| begin + took);
            self.call(task, &call, (begin, end), &answer);
        } else {
            let call = call.trim_end();
            let call = call.strip_suffix(')').unwrap_or(call);
            self.call(task, call, (at, at + took), &answer);
        }
    }

    /// Nanoseconds since 1970 (`-ttt`), or of the day (`-tt`, `-t`).
    fn time_of<'t>(&self, rest: &'t str) -> Option<(u64, &'t str)> {
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
        let nanos = nanoseconds(seconds, part)?;
        let is_past_midnight = is_of_day && nanos + DAY / 2 < self.last;
        Some((nanos + if is_past_midnight { DAY } else { 0 }, rest.trim_start()))
    }

    fn call(&mut self, task: u32, text: &str, (begin, end): (u64, u64), answer: &Answer<'_>) {
        let Some((call, arguments)) = call_of(text) else { return };
        self.last = self.last.max(end);
        if call.role == CallRole::Open {
            self.opened(arguments, answer);
            return;
        }
        let Some((fd, path)) = descriptor(arguments) else {
            self.without_name += u64::from(matches!(call.role, CallRole::Write | CallRole::Sync));
            return;
        };
        if !is_file(path) {
            return;
        }
        if call.role == CallRole::Close {
            self.positions.remove(&fd);
            return;
        }
        let file = self.file(path, None);
        let holder = (0, fd);
        if self.positions.get(&fd).is_none_or(|known| known != path) {
            self.positions.insert(fd, path.to_owned());
            (self.emit)(CaptureEvent::Opened { holder, file, position: Some(0) });
        }
        self.tasks.insert(task);
        self.calls += 1;
        let (offset, durable) = where_it_writes(call.name, arguments);
        let file = Some(file);
        (self.emit)(CaptureEvent::Entered { at: begin, task, call, holder, file, offset, durable });
        (self.emit)(CaptureEvent::Left { at: end, task, call, result: answer.result });
    }

    /// A descriptor is given: `openat(AT_FDCWD, "x", O_WRONLY|O_DSYNC) = 7</x>`.
    fn opened(&mut self, arguments: &str, answer: &Answer<'_>) {
        let Some((fd, path)) = answer.descriptor.filter(|(_, path)| is_file(path)) else { return };
        let has = |name: &str| arguments.split(['|', ',', ' ']).any(|it| it == name);
        let flags =
            OPEN_FLAGS.iter().filter(|(name, _)| has(name)).fold(0, |sum, (_, it)| sum | it);
        // Whoever appends begins where the file ends, and that is where positions count from.
        let is_empty = has("O_TRUNC") || has("O_EXCL") || has("O_APPEND");
        // What is only read has none of these, and takes no flag away from who writes.
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
}

/// What stands behind ` = `: `8192 <0.000012>`, `7</x> <0.000066>`, `-1 ENOSPC (No space left) <0.000008>`.
struct Answer<'t> {
    result: i64,
    descriptor: Option<(i32, &'t str)>,
    took: Option<u64>,
}

impl<'t> Answer<'t> {
    /// None of a call that never returned (`?`).
    fn of(text: &'t str) -> Option<Self> {
        let (answer, took) = match text.strip_suffix('>').and_then(|it| it.rsplit_once(" <")) {
            Some((answer, took)) => (answer, seconds(took)),
            None => (text, None),
        };
        let number = answer.find(|it: char| it != '-' && !it.is_ascii_digit());
        let result = answer[..number.unwrap_or(answer.len())].parse().ok()?;
        Some(Self { result, descriptor: descriptor(answer), took })
    }
}

/// `812 …` and `[pid 812] …`; 0 where a single thread was traced.
fn task_of(line: &str) -> (u32, &str) {
    let bracketed = line.strip_prefix("[pid").and_then(|it| it.split_once(']'));
    let found = match bracketed {
        Some((number, rest)) => number.trim().parse().ok().map(|task| (task, rest)),
        None => line.split_once(' ').and_then(|(word, rest)| Some((word.parse().ok()?, rest))),
    };
    found.map_or((0, line), |(task, rest)| (task, rest.trim_start()))
}

/// `0.000012`.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    nanoseconds(whole.parse().ok()?, part)
}

fn nanoseconds(seconds: u64, part: &str) -> Option<u64> {
    let digits = part.len().min(9);
    let part: u64 = part.get(..digits)?.parse().ok()?;
    let nanos = part * 10_u64.pow(9 - u32::try_from(digits).ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// A call of those that count, and its arguments: `pwrite64`, `7</pg/wal/1>, "\320\227"..., 8192, 0`.
fn call_of(text: &str) -> Option<(&'static TracedCall, &str)> {
    let (name, arguments) = text.split_once('(')?;
    Some((traced_call(name)?, arguments))
}

/// `7</pg/wal/1>…`: the descriptor, and its path.
fn descriptor(text: &str) -> Option<(i32, &str)> {
    let (number, rest) = text.split_once('<')?;
    // In a path strace writes such a sign as \\76.
    let (path, _) = rest.split_once('>')?;
    Some((number.parse().ok()?, path.trim_end_matches(" (deleted)")))
}

fn is_file(path: &str) -> bool {
    path.starts_with('/') && !NO_FILES.iter().any(|it| path.starts_with(it))
}

/// The offset of a write that says it, and whether its own flags make it durable.
fn where_it_writes(name: &str, arguments: &str) -> (Option<u64>, bool) {
    let mut from_end = arguments.rsplit(", ").map(str::trim);
    match name {
        "pwrite64" | "pwritev" => (from_end.next().and_then(|it| it.parse().ok()), false),
        "pwritev2" => {
            let flags = from_end.next().unwrap_or_default();
            let offset = from_end.next().and_then(|it| it.parse().ok());
            // -1 stands for the descriptor's position, and is no number here.
            (offset, flags.split('|').any(|it| it == "RWF_DSYNC" || it == "RWF_SYNC"))
        }
        _ => (None, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<CaptureEvent>, Result<CaptureEnd, TraceTextError>) {
        let mut events = Vec::new();
        let end = read_strace(text.as_bytes(), &mut |event| events.push(event));
        (events, end)
    }

    fn entered(events: &[CaptureEvent]) -> Vec<(u64, &'static str, Option<u64>, bool)> {
        let seen = events.iter().filter_map(|event| match event {
            CaptureEvent::Entered { at, call, offset, durable, .. } => {
                Some((*at, call.name, *offset, *durable))
            }
            _ => None,
        });
        seen.collect()
    }

    fn left(events: &[CaptureEvent]) -> Vec<(u64, i64)> {
        let seen = events.iter().filter_map(|event| match event {
            CaptureEvent::Left { at, result, .. } => Some((*at, *result)),
            _ => None,
        });
        seen.collect()
    }

    #[test]
    fn calls_have_their_times_offsets_and_results_whatever_is_quoted_of_contents() {
        let text = "\
812 1.000100 pwrite64(7</pg/wal/1>, \"a, 1) = 2 <3>\"..., 8192, 16384) = 8192 <0.000012>\n\
812 1.000200 write(9<socket:[123]>, \"x\", 1) = 1 <0.000001>\n\
812 1.000300 pwritev2(7</pg/wal/1>, [{iov_base=\"\\0\\0\", iov_len=512}], 1, 0, RWF_DSYNC) = -1 ENOSPC (No space left on device) <0.000005>\n\
812 1.000400 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
812 1.000500 read(7</pg/wal/1>, \"\"..., 10) = 10 <0.000001>\n";
        let (events, end) = read(text);
        let end = end.unwrap();
        let second = 1_000_000_000;
        assert_eq!(
            entered(&events),
            [
                (second + 100_000, "pwrite64", Some(16384), false),
                (second + 300_000, "pwritev2", Some(0), true)
            ]
        );
        assert_eq!(left(&events), [(second + 112_000, 8192), (second + 305_000, -1)]);
        assert_eq!((end.duration_ns, end.processes, end.events), (400_000, 1, 2));
        assert_eq!(end.ended_early, None);
    }

    #[test]
    fn halves_of_a_call_are_joined_by_their_thread() {
        let text = "\
[pid   812] 5.000000 fdatasync(7</w> <unfinished ...>\n\
[pid   813] 5.000100 fdatasync(7</w> <unfinished ...>\n\
[pid   812] 5.000300 <... fdatasync resumed>) = 0 <0.000250>\n\
[pid   813] 5.000500 <... fdatasync resumed>) = 0\n\
[pid   813] 5.000600 fsync(7</w> <unfinished ...>\n";
        let (events, end) = read(text);
        let second = 5_000_000_000;
        let begins: Vec<u64> = entered(&events).iter().map(|it| it.0).collect();
        assert_eq!(begins, [second, second + 100_000]);
        // By strace's own duration where it is there, else by the line.
        assert_eq!(left(&events), [(second + 250_000, 0), (second + 500_000, 0)]);
        assert_eq!(end.unwrap().processes, 2);
    }

    #[test]
    fn flags_and_an_empty_begin_are_those_of_the_last_time_it_was_opened() {
        let text = "\
1.0 openat(AT_FDCWD</tmp>, \"x\", O_WRONLY|O_CREAT|O_TRUNC|O_DSYNC, 0666) = 3</tmp/x> <0.000066>\n\
1.1 write(1</tmp/x>, \"\", 4096) = 4096 <0.000496>\n\
1.2 openat(AT_FDCWD</tmp>, \"x\", O_RDONLY) = 4</tmp/x> <0.000066>\n\
1.3 write(1</tmp/x>, \"\", 4096) = 4096 <0.000496>\n\
1.4 write(2</tmp/y>, \"\", 1) = 1 <0.000496>\n";
        let (events, _) = read(text);
        let files: Vec<_> = events
            .iter()
            .filter_map(|it| match it {
                CaptureEvent::File(file) => Some((file.path.as_str(), file.flags, file.size)),
                _ => None,
            })
            .collect();
        assert_eq!(files, [("/tmp/x", 0o10000, Some(0)), ("/tmp/y", 0, None)]);
        let opened = events.iter().filter(|it| matches!(it, CaptureEvent::Opened { .. }));
        assert_eq!(opened.count(), 2, "a position goes on from one write to the next");
    }

    #[test]
    fn times_of_the_day_go_on_after_midnight() {
        let (events, end) =
            read("23:59:59.900000 fsync(3</x>) = 0\n00:00:00.100000 fsync(3</x>) = 0\n");
        assert_eq!(entered(&events).len(), 2);
        assert_eq!(end.unwrap().duration_ns, 200_000_000);
    }

    #[test]
    fn what_cannot_be_used_says_what_is_missing_and_a_cut_line_is_told() {
        let why = |text: &str| read(text).1.unwrap_err().to_string();
        assert!(why("812 pwrite64(7</x>, \"\"..., 1, 0) = 1\n").contains("no time"));
        assert!(why("1.0 pwrite64(7, \"\"..., 1, 0) = 1\n").contains("no paths"));
        assert!(why("").contains("no call"));
        assert!(why("\u{0}\u{1}(= <\n1.5 (((\n").contains("no call"));
        let (_, end) = read("1.0 fsync(7</x>) = 0\n1.1 fsync(7</x>) = ");
        assert_eq!(end.unwrap().ended_early.as_deref(), Some("the trace ends amid a line"));
    }
}
