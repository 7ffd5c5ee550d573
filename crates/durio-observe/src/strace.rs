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
use crate::trace_text::{TraceTextError, each_line, not_of_calls};
use crate::tracefs::{CallRole, TRACED_CALLS, TracedCall};

/// A call that is told of.
pub(crate) fn traced_call(name: &str) -> Option<&'static TracedCall> {
    TRACED_CALLS.iter().find(|it| it.name == name)
}

/// What is no storage, or no file that a database would write.
const NO_FILES: [&str; 5] = ["/dev/null", "/dev/tty", "/dev/pts/", "/proc/", "/sys/"];

const DAY: u64 = 86_400_000_000_000;

/// In 1973, which no clock shows: such a time counts from something else.
const LONG_AGO: u64 = 100_000_000_000_000_000;

/// Reads a trace to its end.
///
/// # Errors
/// If it cannot be read, or has no call with a time on a file with a name.
pub fn read_strace(
    text: impl BufRead,
    emit: &mut dyn FnMut(CaptureEvent),
) -> Result<CaptureEnd, TraceTextError> {
    let mut trace = Trace::new(emit);
    let mut other = None;
    let ended_early = each_line(text, |line| {
        trace.line(line);
        if trace.calls == 0 && other.is_none() {
            other = not_of_calls(line);
        }
    })?;
    if trace.goes_back {
        return Err(TraceTextError::new(
            "its times go back, as those of -r whose first line is missing: run strace with -ttt",
        ));
    }
    if trace.calls == 0 {
        let why = match (trace.without_time, trace.without_name, other, &ended_early) {
            (1.., ..) => "its lines have no times: run strace with -ttt",
            (_, 1.., ..) => "its calls have no paths of files: run it with -y",
            (_, _, Some(why), _) => why,
            (_, _, None, Some(why)) => why,
            _ => "it has no call that writes or syncs a file",
        };
        return Err(TraceTextError::new(why));
    }
    Ok(trace.finish(ended_early))
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
    /// Calls that have begun, by thread.
    begun: HashMap<u32, Begun>,
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
    goes_back: bool,
    first: Option<u64>,
    /// The time of the last line.
    at: u64,
    /// The end of the last call.
    last: u64,
}

/// A call that has begun: when, its text, and itself if a capture was told.
struct Begun {
    at: u64,
    text: String,
    call: Option<&'static TracedCall>,
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
            without_end: 0,
            is_coarse: true,
            is_relative: false,
            goes_back: false,
            first: None,
            at: 0,
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
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.at = at;
        self.last = self.last.max(at);
        if let Some(text) = rest.strip_suffix("<unfinished ...>") {
            let text = text.trim_end().to_owned();
            let call = self.begin(task, &text, at);
            self.begun.insert(task, Begun { at, text, call });
            return;
        }
        let Some((text, answer)) = rest.rsplit_once(" = ") else { return };
        let Some(answer) = Answer::of(answer) else { return };
        if rest.starts_with("<... ") {
            let Some(Begun { at: begin, text, call }) = self.begun.remove(&task) else { return };
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
    fn time_of<'t>(&mut self, rest: &'t str) -> Option<(u64, &'t str)> {
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
        // With `-r` and `-t` both stand there.
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
        }
        Some((nanos, rest))
    }

    /// Tells that a call begins; none of what is not told.
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
        answer: &Answer<'_>,
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

    fn finish(self, ended_early: Option<String>) -> CaptureEnd {
        let mut not_shown = Vec::new();
        if self.without_end > 0 {
            not_shown.push("how long calls took is not in the text (strace -T shows it)");
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
        Some((number, rest)) => process(number.trim()).map(|task| (task, rest)),
        None => line.split_once(' ').and_then(|(word, rest)| Some((process(word)?, rest))),
    };
    found.map_or((0, line), |(task, rest)| (task, rest.trim_start()))
}

/// `812`, and `812<postgres>` by `-Y`.
fn process(word: &str) -> Option<u32> {
    word.split('<').next()?.parse().ok()
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
    // Before the name may stand its number (-n), or an address (-i).
    Some((traced_call(name.rsplit(' ').next()?)?, arguments))
}

/// True for a line of a call that counts.
pub(crate) fn is_call(line: &str) -> bool {
    call_of(line).is_some() && line.contains(" = ")
}

/// `7</pg/wal/1>…`: the descriptor, and its path.
fn descriptor(text: &str) -> Option<(i32, &str)> {
    let (number, rest) = text.split_once('<')?;
    // In a path strace writes such signs as \\74 and \\76; of a device -yy adds what it is: `</dev/sda<block 8:0>>`.
    let (path, _) = rest.split_once('>')?;
    let (path, _) = path.split_once('<').unwrap_or((path, ""));
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
        assert_eq!(begins, [second, second + 100_000, second + 600_000]);
        // Both were under way at once, which a capture sees by the order of events.
        let is_begin = |event: &CaptureEvent| match event {
            CaptureEvent::Entered { .. } => Some(true),
            CaptureEvent::Left { .. } => Some(false),
            _ => None,
        };
        let order: Vec<bool> = events.iter().filter_map(is_begin).collect();
        assert_eq!(order, [true, true, false, false, true]);
        // By strace's own duration where it is there, else by the line.
        assert_eq!(left(&events), [(second + 250_000, 0), (second + 500_000, 0)]);
        let end = end.unwrap();
        assert_eq!((end.processes, end.events), (2, 2), "the third has no end");
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
    fn relative_times_are_added_up() {
        let text = "\
812        0.000000 pwrite64(7</w>, \"a\"..., 4096, 8192) = 4096 <0.000020>\n\
812        0.000250 fdatasync(7</w>) = 0 <0.000300>\n\
813        0.000050 lseek(0</dev/null>, 0, SEEK_CUR) = 0 <0.000001>\n\
812        1.500000 pwrite64(7</w>, \"a\"..., 512, 512) = 512 <0.000030>\n";
        let (events, end) = read(text);
        let begins: Vec<u64> = entered(&events).iter().map(|it| it.0).collect();
        assert_eq!(begins, [0, 250_000, 1_500_300_000]);
        assert_eq!(left(&events), [(20_000, 4096), (550_000, 0), (1_500_330_000, 512)]);
        assert_eq!(end.unwrap().duration_ns, 1_500_330_000);
        // Without its first line nobody knows where they count from.
        let (_, rest) = text.split_once('\n').unwrap();
        let error = read(rest).1.unwrap_err().to_string();
        assert!(error.contains("-r whose first line is missing"), "{error}");
        // A clock that is set back is none.
        let text = "1700000001.0 fsync(3</x>) = 0\n1700000000.9 fsync(3</x>) = 0\n";
        assert_eq!(entered(&read(text).0).len(), 2);
    }

    #[test]
    fn the_time_of_the_day_and_the_relative_one_may_stand_together() {
        let (events, end) = read(
            "13:59:01 (+     0.000000) fsync(3</x>) = 0 <0.000400>\n\
             13:59:03 (+     2.000123) fsync(3</x>) = 0 <0.000500>\n",
        );
        let begin = ((13 * 60 + 59) * 60 + 1) * 1_000_000_000;
        assert_eq!(left(&events), [(begin + 400_000, 0), (begin + 2_000_500_000, 0)]);
        let not_shown = end.unwrap().not_shown.unwrap();
        assert!(not_shown.contains("whole seconds") && !not_shown.contains("-T"), "{not_shown}");
    }

    #[test]
    fn what_a_text_does_not_show_is_said() {
        let not_shown = |text: &str| read(text).1.unwrap().not_shown;
        let full = "1.000000 fsync(3</x>) = 0 <0.000400>\n";
        assert_eq!(not_shown(full), None);
        let without_end = not_shown("1.000000 fsync(3</x>) = 0\n").unwrap();
        assert_eq!(without_end, "how long calls took is not in the text (strace -T shows it)");
        // The lines of both halves say it.
        let halves = "1.0 fsync(3</x> <unfinished ...>\n1.2 <... fsync resumed>) = 0\n";
        assert_eq!(not_shown(halves), None);
        let coarse = not_shown("13:59:01 fsync(3</x>) = 0 <0.000400>\n").unwrap();
        assert!(coarse.starts_with("its times are whole seconds"), "{coarse}");
    }

    #[test]
    fn what_other_options_add_is_passed_over() {
        // -Y, -i, -n and -yy.
        let text = "\
812<postgres> 1.0 [00007f2a5c0e1d5f] [  18] pwrite64(7</dev/sda<block 8:0>>, \"a\"..., 512, 1024) = 512 <0.000012>\n\
[pid   813<postgres>] 1.1 fsync(8</d/w>) = 0 <0.000013>\n";
        let (events, end) = read(text);
        let seen: Vec<_> = entered(&events).iter().map(|it| (it.1, it.2)).collect();
        assert_eq!(seen, [("pwrite64", Some(1024)), ("fsync", None)]);
        let paths: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                CaptureEvent::File(file) => Some(file.path.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(paths, ["/dev/sda", "/d/w"]);
        assert_eq!(end.unwrap().processes, 2);
    }

    #[test]
    fn a_time_of_the_day_goes_on_for_several_midnights() {
        let hours = |hour: u32| format!("{hour:02}:00:00.0 fsync(3</x>) = 0 <0.000001>\n");
        let text: String = [20, 2, 10, 20, 2].into_iter().map(hours).collect();
        let hour = 3600 * 1_000_000_000_u64;
        assert_eq!(read(&text).1.unwrap().duration_ns, 30 * hour + 1000);
    }

    #[test]
    fn a_text_of_another_tracer_is_named() {
        for (text, words) in [
            ("% time     seconds  usecs/call     calls    errors syscall\n", "strace -c"),
            ("  0.123 ( 0.010 ms): dd/12 write(fd: 1</d/x>, count: 512) = 512\n", "perf trace"),
            ("254,0    0       64     0.0023000   114  D WS 16 + 8 [dd]\n", "--block-trace"),
            ("0.000771 sync 22177 nvme1n1 W 41963894 3072 0.11 0.47\n", "--block-trace"),
            ("COMM  PID  TYPE DEV BLOCK BYTES LATms\n", "iosnoop without times"),
        ] {
            let error = read(text).1.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_used_says_what_is_missing_and_a_cut_line_is_told() {
        let why = |text: &str| read(text).1.unwrap_err().to_string();
        assert!(
            why("812 pwrite64(7</x>, \"\"..., 1, 0) = 1\n")
                .contains("no times: run strace with -ttt")
        );
        assert!(
            why("1.0 pwrite64(7, \"\"..., 1, 0) = 1\n")
                .contains("no paths of files: run it with -y")
        );
        assert!(why("").contains("no call"));
        assert!(why("\u{0}\u{1}(= <\n1.5 (((\n").contains("line 1 has zeros"));
        let (_, end) = read("1.0 fsync(7</x>) = 0\n1.1 fsync(7</x>) = ");
        assert_eq!(end.unwrap().ended_early.as_deref(), Some("the trace ends amid a line"));
    }
}
