//! What blkparse, perf script or iosnoop wrote of a device's requests, as a capture tells it of a file.
//!
//! In: their texts in their own formats, of one device. Out: [`CaptureEvent`]s: the device is a file, a request
//! that was issued and completed a write at its place, durable if it has FUA, a flush a sync. Not here: what
//! they add up to (`durio-analyse`).
//!
//! ```text
//! 254,0    0       64     0.002301000   114  D WFSM 1048640 + 8 [jbd2/nullb0-8]
//! 254,0    0       65     0.002321000   114  C WFSM 1048640 + 8 [0]
//!
//!     fio  7842 [001]  8087.078481:    block:block_rq_issue: 254,0 W 4096 () 179848760 + 8 0x2,0,4 [fio]
//!     fio  7842 [001]  8087.078643: block:block_rq_complete: 254,0 W () 179848760 + 8 0x2,0,4 [0]
//!
//! STARTs         ENDs           COMM             PID    TYPE DEV      BLOCK        BYTES     LATms
//! 5982800.302061 5982800.302679 supervise        1809   W    202,1    17039600     4096       0.62
//! ```

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use crate::capture_events::{CaptureEnd, CaptureEvent, CapturedFile, OPEN_FLAGS};
use crate::strace::{TraceTextError, each_line, seconds, traced_call};
use crate::tracefs::{DeviceRequest, TracedCall, request};

const SECTOR: u64 = 512;

/// What is issued and not completed: by sector, since two requests never write the same at once. Flushes have none,
/// and there may be several, one of each hardware queue: which of them ended is not said, and the last one is taken.
type Issued = HashMap<Option<u64>, Vec<(u64, u32, DeviceRequest)>>;

/// Reads a trace to its end.
///
/// # Errors
/// If it cannot be read, is of several devices, or no write or flush is completed in it.
pub fn read_block_trace(
    text: impl BufRead,
    emit: &mut dyn FnMut(CaptureEvent),
) -> Result<CaptureEnd, TraceTextError> {
    let calls = traced_call("pwrite64").zip(traced_call("fdatasync"));
    let (write, sync) = calls.ok_or_else(|| TraceTextError::new("no call stands for a request"))?;
    let mut devices = HashSet::new();
    let mut tasks = HashSet::new();
    let mut issued = Issued::new();
    let (mut first, mut last, mut events, mut lost) = (None, 0, 0, 0);
    let ended_early = each_line(text, |line| {
        let Some(it) = Line::of(line) else { return };
        first.get_or_insert(it.at);
        last = last.max(it.at);
        if !is_seen(it.request) {
            return;
        }
        if devices.is_empty() {
            // Past the page cache, as O_DIRECT would have it.
            let flags = OPEN_FLAGS.iter().filter(|(name, _)| *name == "O_DIRECT").map(|it| it.1);
            let (path, flags) = (format!("device {}", it.device), flags.sum());
            emit(CaptureEvent::File(CapturedFile { path, flags, size: None }));
        }
        devices.insert(it.device.to_owned());
        let (at, error) = match it.stage {
            Stage::Issued => {
                let begun = issued.entry(it.sector).or_default();
                if it.sector.is_some() {
                    // The end of the earlier one is not there.
                    lost += begun.drain(..).filter(|it| is_seen(it.2)).count() as u64;
                }
                begun.push((it.at, it.task, it.request));
                return;
            }
            Stage::Requeued => {
                issued.remove(&it.sector);
                return;
            }
            Stage::Completed(error) => (it.at, error),
            Stage::Both { end } => {
                issued.entry(it.sector).or_default().push((it.at, it.task, it.request));
                last = last.max(end);
                (end, 0)
            }
        };
        let begun = issued.get_mut(&it.sector).and_then(Vec::pop);
        let Some((begin, task, request)) = begun else { return };
        let (call, offset, durable, bytes): (&'static TracedCall, _, _, _) = match request {
            DeviceRequest::Write { bytes, fua, .. } => {
                (write, it.sector.map(|it| it.saturating_mul(SECTOR)), fua, bytes)
            }
            DeviceRequest::Flush => (sync, None, false, 0),
            DeviceRequest::Read(_) => return,
        };
        tasks.insert(task);
        events += 1;
        let result = match error {
            0 => i64::try_from(bytes).unwrap_or(i64::MAX),
            error => -error.abs(),
        };
        let (holder, file) = ((0, 0), Some(0));
        emit(CaptureEvent::Entered { at: begin, task, call, holder, file, offset, durable });
        emit(CaptureEvent::Left { at, task, call, result });
    })?;
    let duration_ns = last.saturating_sub(first.unwrap_or(last));
    // What began in the last tenth may have ended after the trace.
    let late = last - duration_ns / 10;
    let is_lost = |(at, _, request): &&(u64, u32, DeviceRequest)| *at < late && is_seen(*request);
    lost += issued.values().flatten().filter(is_lost).count() as u64;
    match (devices.len(), events) {
        (2.., _) => Err(TraceTextError::new("it is of several devices: trace one at a time")),
        (_, 0) => Err(TraceTextError::new("no write or flush is issued and completed in it")),
        _ => Ok(CaptureEnd {
            duration_ns,
            processes: tasks.len(),
            ended_early,
            events,
            lost_calls: lost,
            sizes: vec![Some(0)],
            ..CaptureEnd::default()
        }),
    }
}

const fn is_seen(request: DeviceRequest) -> bool {
    !matches!(request, DeviceRequest::Read(_))
}

/// A request, and how far it is.
struct Line<'t> {
    device: &'t str,
    at: u64,
    task: u32,
    request: DeviceRequest,
    sector: Option<u64>,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
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

impl<'t> Line<'t> {
    /// None of every other event, and of what is no event.
    fn of(line: &'t str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let found = Self::of_perf(&words)
            .or_else(|| Self::of_iosnoop(&words))
            .or_else(|| Self::of_blkparse(&words))?;
        let is_device = found.device.split_once(',').is_some_and(|(major, minor)| {
            [major, minor].iter().all(|it| it.parse::<u32>().is_ok())
        });
        is_device.then_some(found)
    }

    fn of_blkparse(words: &[&'t str]) -> Option<Self> {
        let [device, _cpu, _number, at, task, action, flags, rest @ ..] = words else {
            return None;
        };
        let (at, task) = (seconds(at)?, task.parse().ok()?);
        let stage = match *action {
            "D" => Stage::Issued,
            "R" => Stage::Requeued,
            "C" => Stage::Completed(error(rest)),
            _ => return None,
        };
        let (sector, request) = place(rest, flags)?;
        Some(Self { device, at, task, request, sector, stage })
    }

    fn of_perf(words: &[&'t str]) -> Option<Self> {
        let is_event = |it: &&str| it.starts_with("block:block_rq_");
        let event = words.iter().position(is_event)?;
        let (before, behind) = (words.get(..event)?, words.get(event + 1..)?);
        let [.., task, _cpu, at] = before else { return None };
        // A process and its thread, if perf was asked for both.
        let task = task.rsplit('/').next()?.parse().ok()?;
        let at = seconds(at.trim_end_matches(':'))?;
        let [device, flags, rest @ ..] = behind else { return None };
        let stage = match *words.get(event)? {
            "block:block_rq_issue:" => Stage::Issued,
            "block:block_rq_requeue:" => Stage::Requeued,
            "block:block_rq_complete:" => Stage::Completed(error(rest)),
            _ => return None,
        };
        let (sector, request) = place(rest, flags)?;
        Some(Self { device, at, task, request, sector, stage })
    }

    /// With the times of begin and end, by `iosnoop -ts`.
    fn of_iosnoop(words: &[&'t str]) -> Option<Self> {
        // The name of a program may have blanks.
        let [at, end, _, .., task, flags, device, sector, bytes, _latency] = words else {
            return None;
        };
        let (at, end) = (seconds(at)?, seconds(end)?);
        let (task, bytes) = (task.parse().ok()?, bytes.parse().ok()?);
        let request = request(flags, bytes)?;
        let sector = sector.parse().ok().filter(|_| request != DeviceRequest::Flush);
        Some(Self { device, at, task, request, sector, stage: Stage::Both { end } })
    }
}

/// Where a request is, and what: `1048640 + 8 [name]`, `0 [0]`, `[name]`, `() 0 + 0 0x0,0,0 [name]`.
fn place(rest: &[&str], flags: &str) -> Option<(Option<u64>, DeviceRequest)> {
    let plus = rest.iter().position(|it| *it == "+");
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
    let last = rest.last().map(|it| it.trim_matches(['[', ']']));
    last.and_then(|it| it.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<CaptureEvent>, Result<CaptureEnd, TraceTextError>) {
        let mut events = Vec::new();
        let end = read_block_trace(text.as_bytes(), &mut |event| events.push(event));
        (events, end)
    }

    const TRACE: &str = "\
254,0    0       60     0.002000000   114  Q FWFSM 1048640 + 8 [jbd2/nullb0-8]
254,0    0       62     0.002100000    11  D  FN [kworker/0:0H]
254,0    0       63     0.002200000    11  C  FN 0 [0]
254,0    0       64     0.002300000   114  D WFSM 1048640 + 8 [jbd2/nullb0-8]
254,0    0       65     0.002400000     0  C WFSM 1048640 + 8 [0]
254,0    0       66     0.002410000     0  C WFSM 1048640 + 8 [0]
254,0    0       67     0.002500000   114  D  WS 16 + 16 [dd]
254,0    0       68     0.002600000     0  C  WS 16 + 16 [-5]
254,0    0       69     0.002700000   114  D  RM 1096 + 8 [dd]
254,0    0       70     0.002800000     0  C  RM 1096 + 8 [0]
CPU0 (bt):
 Reads Queued:           5,       20KiB\t Writes Queued:         827,     3308KiB
";

    #[test]
    fn requests_are_writes_at_their_place_and_flushes_are_syncs() {
        let (events, end) = read(TRACE);
        let end = end.unwrap();
        assert_eq!((end.events, end.duration_ns), (3, 700_000));
        let entered: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                CaptureEvent::Entered { at, call, offset, durable, .. } => {
                    Some((*at, call.name, *offset, *durable))
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            entered,
            [
                (2_100_000, "fdatasync", None, false),
                (2_300_000, "pwrite64", Some(1_048_640 * 512), true),
                (2_500_000, "pwrite64", Some(16 * 512), false)
            ]
        );
        let left: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                CaptureEvent::Left { at, result, .. } => Some((*at, *result)),
                _ => None,
            })
            .collect();
        assert_eq!(left, [(2_200_000, 0), (2_400_000, 4096), (2_600_000, -5)]);
    }

    #[test]
    fn a_request_whose_end_is_missing_is_lost_and_one_that_was_requeued_is_not() {
        let issue = "254,0 0 1 0.002300000 114 D WS 16 + 8 [dd]\n";
        let complete = "254,0 0 1 0.002400000 0 C WS 16 + 8 [0]\n";
        let flush = "254,0 0 1 0.002300000 11 D FN [kworker/0:0H]\n";
        let flushed = "254,0 0 1 0.002400000 11 C FN 0 [0]\n";
        let requeue = "254,0 0 1 0.002350000 0 R WS 16 + 8 [0]\n";
        for (text, lost) in [
            (format!("{issue}{complete}{issue}{complete}"), 0),
            (format!("{issue}{issue}{complete}"), 1),
            (format!("{issue}{requeue}{issue}{complete}"), 0),
            // Of two hardware queues.
            (format!("{flush}{flush}{flushed}{flushed}"), 0),
        ] {
            assert_eq!(read(&text).1.unwrap().lost_calls, lost, "{text}");
        }
    }

    const PERF: &str = "\
         fio  7842 [001]  8087.078481:    block:block_rq_issue: 254,0 WS 4096 () 179848760 + 8 0x2,0,4 [fio]
   DB Pool 2  7/43 [000]  8087.078500:    block:block_rq_issue: 254,0 RA 16384 () 26005504 + 32 [DB Pool 2]
 swapper         0 [001]  8087.078643: block:block_rq_complete: 254,0 WS () 179848760 + 8 0x2,0,4 [0]
 kworker/1:1H   44 [001]  8087.079077:    block:block_rq_issue: 254,0 FF 0 () 0 + 0 0x0,0,0 [kworker/1:1H]
 swapper         0 [000]  8087.079100: block:block_rq_complete: 254,0 RA () 26005504 + 32 0x2,0,4 [0]
 swapper         0 [001]  8087.079177: block:block_rq_complete: 254,0 FF () 0 + 0 0x0,0,0 [0]
";

    const IOSNOOP: &str = "\
Tracing block I/O. Ctrl-C to end.
STARTs         ENDs           COMM             PID    TYPE DEV      BLOCK        BYTES     LATms
5982800.302061 5982800.302679 supervise        1809   W    202,1    17039600     4096       0.62
5982800.302423 5982800.302842 DB Pool 2        1810   R    202,1    17039608     8192       0.42
5982800.302900 5982800.302950 jbd2/xvda1-212   212    FF   202,1    0            0          0.05
";

    #[test]
    fn perf_and_iosnoop_tell_the_same() {
        for (text, place, took) in
            [(PERF, 179_848_760, [162_000, 100_000]), (IOSNOOP, 17_039_600, [618_000, 50_000])]
        {
            let (events, end) = read(text);
            assert_eq!(end.unwrap().events, 2, "{text}");
            let mut begin = 0;
            let mut seen = Vec::new();
            for event in &events {
                match event {
                    CaptureEvent::Entered { at, .. } => begin = *at,
                    CaptureEvent::Left { at, call, result, .. } => {
                        seen.push((call.name, *result, at - begin));
                    }
                    _ => {}
                }
            }
            assert_eq!(seen, [("pwrite64", 4096, took[0]), ("fdatasync", 0, took[1])]);
            let is_there = |event: &CaptureEvent| matches!(event, CaptureEvent::Entered { offset: Some(it), .. } if *it == place * 512);
            assert!(events.iter().any(is_there), "{events:?}");
        }
    }

    #[test]
    fn several_devices_and_other_texts_are_refused() {
        let why = |text: &str| read(text).1.unwrap_err().to_string();
        let other = TRACE.replace("254,0    0       64", "8,16     0       64");
        assert!(why(&other).contains("several devices"));
        assert!(why("").contains("no write or flush"));
        assert!(why("812 1.0 write(3, 1) = 1\n").contains("no write or flush"));
        let (_, end) = read(&TRACE[..TRACE.len() - 3]);
        assert_eq!(end.unwrap().ended_early.as_deref(), Some("the trace ends amid a line"));
    }
}
