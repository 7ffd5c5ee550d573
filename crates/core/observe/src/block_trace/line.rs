//! A line of a text of block requests, in the dialect of the tracer that wrote it.
//!
//! ```text
//! 254,0    0       64     0.002301000   114  D WFSM 1048640 + 8 [jbd2/nullb0-8]
//! 254,0    0       65     0.002321000   114  C WFSM 1048640 + 8 [0]
//!
//!     fio  7842 [001]  8087.078481:    block:block_rq_issue: 254,0 W 4096 () 179848760 + 8 0x2,0,4 [fio]
//!     fio-7842  [001] ..s1.  8087.078643: block_rq_complete: 254,0 W () 179848760 + 8 0x2,0,4 [0]
//!  10.503 fio/7842 block:block_rq_issue(dev: 266338304, sector: 16, nr_sector: 8, bytes: 4096, rwbs: "WS", comm: "fio")
//!
//! STARTs         ENDs           COMM             PID    TYPE DEV      BLOCK        BYTES     LATms
//! 5982800.302061 5982800.302679 supervise        1809   W    202,1    17039600     4096       0.62
//!
//! TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)
//! 0.000771    sync           22177   nvme1n1   W 41963894   3072      0.11    0.47
//! ```

use std::borrow::Cow;

use crate::trace_text::seconds;
use crate::tracefs::{DeviceRequest, request};

/// Bytes of a sector: tracers count in it whatever the size of a device's blocks.
pub(crate) const SECTOR: u64 = 512;

/// Who wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Blkparse,
    /// perf script, perf trace and the kernel's own text: events of one name.
    Events,
    Iosnoop,
    /// The tool of bcc; true if the letters of its column T say more than the direction.
    Biosnoop {
        letters: bool,
    },
}

/// A request, and how far it is.
#[derive(Debug)]
pub(crate) struct RequestLine<'t> {
    pub(crate) dialect: Dialect,
    pub(crate) device: Cow<'t, str>,
    pub(crate) at: u64,
    pub(crate) task: u32,
    pub(crate) request: DeviceRequest,
    pub(crate) sector: Option<u64>,
    pub(crate) stage: LineStage,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum LineStage {
    Issued,
    /// It was issued, and will be again.
    Requeued,
    /// With this error, 0 for none.
    Completed(i64),
    /// Issued at the line's time, and completed then.
    Both {
        end: u64,
    },
}

/// The head of a table, as far as the rows below depend on it.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// True if the only time of iosnoop is the end (`-t`), false if it is the start (`-s`).
    only_ends: Option<bool>,
    /// The last time of the day, of a text that has those.
    of_day: u64,
}

impl Columns {
    /// `13:59:01.123`, on after midnight.
    fn of_day(&mut self, word: &str) -> Option<u64> {
        let (hours, rest) = word.split_once(':')?;
        let (minutes, rest) = rest.split_once(':')?;
        let minutes =
            hours.parse::<u64>().ok()?.checked_mul(60)?.checked_add(minutes.parse().ok()?)?;
        let mut time = seconds(rest)?.checked_add(minutes.checked_mul(60_000_000_000)?)?;
        while time.checked_add(DAY / 2)? < self.of_day {
            time += DAY;
        }
        self.of_day = time;
        Some(time)
    }
}

/// Times of biosnoop count from its first line, whose request started earlier: they are moved by a
/// day.
const DAY: u64 = 86_400_000_000_000;

impl<'t> RequestLine<'t> {
    /// None for other events, and for other lines.
    pub(crate) fn of(line: &'t str, columns: &mut Columns) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match *words {
            ["STARTs", "COMM", ..] => columns.only_ends = Some(false),
            ["ENDs", "COMM", ..] => columns.only_ends = Some(true),
            _ => {}
        }
        Self::of_event(line)
            .or_else(|| Self::of_iosnoop(&words, columns))
            .or_else(|| Self::of_biosnoop(&words, columns))
            .or_else(|| Self::of_blkparse(&words))
            .or_else(|| Self::of_blkparse_with_a_format(&words))
    }

    fn of_blkparse(words: &[&'t str]) -> Option<Self> {
        let [device, _cpu, _number, at, task, action, flags, rest @ ..] = words else {
            return None;
        };
        let (at, task) = (seconds(at)?, task.parse().ok()?);
        let stage = action_of_blkparse(action, rest)?;
        let device = number(device)?.into();
        let (sector, request) = place(rest, flags)?;
        Some(Self { dialect: Dialect::Blkparse, device, at, task, request, sector, stage })
    }

    /// By `-f`, in any order before the action, and then as usual: `%T.%t %a %d %S + %n`.
    fn of_blkparse_with_a_format(words: &[&'t str]) -> Option<Self> {
        let is_time = |word: &&&str| word.split_once('.').is_some_and(|(_, part)| part.len() == 9);
        let at = seconds(words.iter().find(is_time)?)?;
        let action = words.iter().position(|word| matches!(*word, "D" | "R" | "C"))?;
        let [action, flags, rest @ ..] = words.get(action..)? else { return None };
        if !rest.contains(&"+") && !flags.starts_with('F') {
            return None;
        }
        let stage = action_of_blkparse(action, rest)?;
        let device = words.iter().find_map(|word| number(word)).unwrap_or("without a name").into();
        let (sector, request) = place(rest, flags)?;
        Some(Self { dialect: Dialect::Blkparse, device, at, task: 0, request, sector, stage })
    }

    /// A line of perf script, perf trace, or the kernel's `trace` and `trace_pipe`.
    fn of_event(line: &'t str) -> Option<Self> {
        let begin = line.find("block_rq_")?;
        let (before, event) = line.split_at(begin);
        let (at, task) = time_and_task(before.strip_suffix("block:").unwrap_or(before))?;
        let end = event.find([':', '('])?;
        let (name, rest) = event.split_at(end);
        let stage = |error: i64| match name {
            "block_rq_issue" => Some(LineStage::Issued),
            "block_rq_requeue" => Some(LineStage::Requeued),
            "block_rq_complete" => Some(LineStage::Completed(error)),
            _ => None,
        };
        let dialect = Dialect::Events;
        if let Some(fields) = rest.strip_prefix('(') {
            let field = |name: &str| {
                let value = fields.split(", ").find_map(|field| field.strip_prefix(name));
                value.map(|value| value.trim_start_matches(": ").trim_end_matches(')'))
            };
            let of_number = |name| field(name).and_then(|value| value.parse::<u64>().ok());
            let device = of_number("dev")?;
            // Packed as in the kernel (MINORBITS); fields that are zero are left out.
            let device = format!("{},{}", device >> 20, device & 0xf_ffff).into();
            let sectors = of_number("nr_sector").unwrap_or(0);
            let flags = field("rwbs")?.trim_matches('"');
            let request = request(flags, sectors.saturating_mul(SECTOR))?;
            let sector = of_number("sector").unwrap_or(0);
            let sector = Some(sector).filter(|_| request != DeviceRequest::Flush);
            let error = field("error").and_then(|value| value.parse().ok()).unwrap_or(0);
            let stage = stage(error)?;
            return Some(Self { dialect, device, at, task, request, sector, stage });
        }
        let words: Vec<&str> = rest.strip_prefix(':')?.split_ascii_whitespace().collect();
        let [device, flags, rest @ ..] = words.as_slice() else { return None };
        let device = number(device)?.into();
        let (sector, request) = place(rest, flags)?;
        Some(Self { dialect, device, at, task, request, sector, stage: stage(error(rest))? })
    }

    /// With the time of the start or the end (`-s`, `-t`), or both.
    fn of_iosnoop(words: &[&'t str], columns: &Columns) -> Option<Self> {
        // The name of a program may have blanks.
        let [times @ .., task, flags, device, sector, bytes, latency] = words else {
            return None;
        };
        let device = number(device)?.into();
        let (task, bytes) = (task.parse().ok()?, bytes.parse().ok()?);
        let latency = milliseconds(latency)?;
        let (at, end) = match *times {
            [at, end, _, ..] if seconds(end).is_some() => (seconds(at)?, seconds(end)?),
            [only, _, ..] => match columns.only_ends? {
                true => (seconds(only)?.saturating_sub(latency), seconds(only)?),
                false => (seconds(only)?, seconds(only)?.saturating_add(latency)),
            },
            _ => return None,
        };
        let request = request(flags, bytes)?;
        let sector = sector.parse().ok().filter(|_| request != DeviceRequest::Flush);
        let stage = LineStage::Both { end };
        Some(Self { dialect: Dialect::Iosnoop, device, at, task, request, sector, stage })
    }

    /// A line of bcc, with or without the pattern (`-P`) and the time in the queue (`-Q`). The time
    /// is that of the end.
    fn of_biosnoop(words: &[&'t str], columns: &mut Columns) -> Option<Self> {
        let (latency, rest) = words.split_last()?;
        let latency = milliseconds(latency)?;
        let rest = match rest.split_last()? {
            (queued, rest) if milliseconds(queued).is_some() || *queued == "-1.000" => rest,
            _ => rest,
        };
        let rest = match rest.split_last()? {
            (&("S" | "R" | "?"), rest) => rest,
            _ => rest,
        };
        let [end, _, .., task, device, flags, sector, bytes] = rest else { return None };
        let is_flags = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase());
        if !is_flags(flags) || device.contains(',') {
            return None;
        }
        let (task, bytes) = (task.parse().ok()?, bytes.parse().ok()?);
        let end = match end.contains(':') {
            false => seconds(end)?.saturating_add(DAY),
            true => columns.of_day(end)?,
        };
        let request = request(flags, bytes)?;
        let sector = sector.parse().ok().filter(|_| request != DeviceRequest::Flush);
        let dialect = Dialect::Biosnoop { letters: flags.len() > 1 };
        let (at, stage) = (end.saturating_sub(latency), LineStage::Both { end });
        Some(Self { dialect, device: (*device).into(), at, task, request, sector, stage })
    }
}

/// A device's numbers as words of a trace have them: `254,0`.
fn number(word: &str) -> Option<&str> {
    let (major, minor) = word.split_once(',')?;
    [major, minor].iter().all(|part| part.parse::<u32>().is_ok()).then_some(word)
}

fn action_of_blkparse(action: &str, rest: &[&str]) -> Option<LineStage> {
    match action {
        "D" => Some(LineStage::Issued),
        "R" => Some(LineStage::Requeued),
        "C" => Some(LineStage::Completed(error(rest))),
        _ => None,
    }
}

/// `0.47`, two digits or three behind the point.
fn milliseconds(word: &str) -> Option<u64> {
    let (_, part) = word.split_once('.')?;
    matches!(part.len(), 2 | 3).then(|| seconds(word).map(|nanos| nanos / 1000))?
}

/// The text before an event: `fio  7842 [001]  8087.078481:`, with or without the processor;
/// `fio-7842  [001] ..s1.  8087.078643:`; `10.503 fio/7842`.
fn time_and_task(before: &str) -> Option<(u64, u32)> {
    let mut words: Vec<&str> = before.split_ascii_whitespace().collect();
    // Some versions of perf have the count of events there.
    if let [.., time, count] = *words
        && time.ends_with(':')
        && count.parse::<u64>().is_ok()
    {
        words.pop();
    }
    let last = words.pop()?;
    let Some(time) = last.strip_suffix(':') else {
        // Milliseconds of perf trace; without a thread where it knows none.
        let time = words.first().unwrap_or(&last);
        let task = last.rsplit_once('/').and_then(|(_, task)| task.parse().ok());
        return Some((seconds(time)? / 1000, task.unwrap_or(0)));
    };
    let is_task = |word: &&&str| !word.starts_with('[') && !word.ends_with(')');
    let task_of = |word: &&str| word.rsplit(['/', '-']).next()?.parse().ok();
    // Letters of state may come between.
    Some((seconds(time)?, words.iter().rev().filter(is_task).find_map(task_of)?))
}

/// Where a request is, and what: `1048640 + 8 [name]`, `0 [0]`, `[name]`, `() 0 + 0 0x0,0,0 [name]`.
fn place(rest: &[&str], flags: &str) -> Option<(Option<u64>, DeviceRequest)> {
    let plus = rest.iter().position(|word| *word == "+");
    let (sector, sectors) = match plus {
        Some(plus) => {
            let [before, behind] = [plus.checked_sub(1)?, plus + 1].map(|at| rest.get(at));
            (Some(before?.parse().ok()?), behind?.parse().ok()?)
        }
        None => (None, 0_u64),
    };
    let request = request(flags, sectors.saturating_mul(SECTOR))?;
    Some((sector.filter(|_| request != DeviceRequest::Flush), request))
}

/// The error in brackets at the end of a completion.
fn error(rest: &[&str]) -> i64 {
    let last = rest.last().map(|word| word.trim_matches(['[', ']']));
    last.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// True for a line of a request, of a tracer that is read here.
pub(crate) fn is_request(line: &str) -> bool {
    RequestLine::of(line, &mut Columns::default()).is_some()
}
