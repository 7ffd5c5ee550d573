//! What blkparse wrote of a device's requests, as a capture tells it of a file.
//!
//! In: the text of `blkparse` in its own format, of one device. Out: [`CaptureEvent`]s: the device is a file,
//! a request that was issued and completed a write at its place, durable if it has FUA, a flush a sync. Not
//! here: what they add up to (`durio-analyse`).
//!
//! ```text
//! 254,0    0       62     0.002257146    11  D  FN [kworker/0:0H]
//! 254,0    0       63     0.002287234    11  C  FN 0 [0]
//! 254,0    0       64     0.002301000   114  D WFSM 1048640 + 8 [jbd2/nullb0-8]
//! 254,0    0       65     0.002321000   114  C WFSM 1048640 + 8 [0]
//! ```

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use crate::capture_events::{CaptureEnd, CaptureEvent, CapturedFile};
use crate::strace::{OPEN_FLAGS, TraceTextError, each_line, seconds, traced_call};
use crate::tracefs::{DeviceRequest, TracedCall, request};

const SECTOR: u64 = 512;

/// What is issued and not completed: by sector, since two requests never write the same at once; flushes have
/// none, and are one at a time for a device.
type Issued = HashMap<Option<u64>, (u64, u32, DeviceRequest)>;

/// Reads a trace to its end.
///
/// # Errors
/// If it cannot be read, is of several devices, or no write or flush is completed in it.
pub fn read_blkparse(
    text: impl BufRead,
    emit: &mut dyn FnMut(CaptureEvent),
) -> Result<CaptureEnd, TraceTextError> {
    let calls = traced_call("pwrite64").zip(traced_call("fdatasync"));
    let (write, sync) = calls.ok_or_else(|| TraceTextError::new("no call stands for a request"))?;
    let mut devices = HashSet::new();
    let mut tasks = HashSet::new();
    let mut issued = Issued::new();
    let (mut first, mut last, mut events) = (None, 0, 0);
    let ended_early = each_line(text, |line| {
        let Some(it) = Line::of(line) else { return };
        first.get_or_insert(it.at);
        last = last.max(it.at);
        if devices.is_empty() {
            // Past the page cache, as O_DIRECT would have it.
            let flags = OPEN_FLAGS.iter().filter(|(name, _)| *name == "O_DIRECT").map(|it| it.1);
            let (path, flags) = (format!("device {}", it.device), flags.sum());
            emit(CaptureEvent::File(CapturedFile { path, flags, size: None }));
        }
        devices.insert(it.device.to_owned());
        if it.action == "D" {
            issued.insert(it.sector, (it.at, it.task, it.request));
            return;
        }
        let Some((begin, task, request)) = issued.remove(&it.sector) else { return };
        let (call, offset, durable, bytes): (&'static TracedCall, _, _, _) = match request {
            DeviceRequest::Write { bytes, fua, .. } => {
                (write, it.sector.map(|it| it.saturating_mul(SECTOR)), fua, bytes)
            }
            DeviceRequest::Flush => (sync, None, false, 0),
            DeviceRequest::Read(_) => return,
        };
        tasks.insert(task);
        events += 1;
        let result = match it.error {
            0 => i64::try_from(bytes).unwrap_or(i64::MAX),
            error => -error.abs(),
        };
        let (holder, file) = ((0, 0), Some(0));
        emit(CaptureEvent::Entered { at: begin, task, call, holder, file, offset, durable });
        emit(CaptureEvent::Left { at: it.at, task, call, result });
    })?;
    match (devices.len(), events) {
        (2.., _) => Err(TraceTextError::new("it is of several devices: trace one at a time")),
        (_, 0) => Err(TraceTextError::new("no write or flush is issued and completed in it")),
        _ => Ok(CaptureEnd {
            duration_ns: last.saturating_sub(first.unwrap_or(last)),
            processes: tasks.len(),
            ended_early,
            events,
            sizes: vec![Some(0)],
            ..CaptureEnd::default()
        }),
    }
}

/// A request that is issued (D) or completed (C).
struct Line<'t> {
    device: &'t str,
    at: u64,
    task: u32,
    action: &'t str,
    request: DeviceRequest,
    sector: Option<u64>,
    error: i64,
}

impl<'t> Line<'t> {
    /// None of every other event, and of what is no event.
    fn of(line: &'t str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let mut next = || words.next();
        let (device, _cpu, _number) = (next()?, next()?, next()?);
        let (at, task, action, flags) =
            (seconds(next()?)?, next()?.parse().ok()?, next()?, next()?);
        let is_device = device.split_once(',').is_some_and(|(major, minor)| {
            [major, minor].iter().all(|it| it.parse::<u32>().is_ok())
        });
        if !is_device || !["D", "C"].contains(&action) {
            return None;
        }
        // `1048640 + 8 [name]`, `0 [0]`, `[name]`.
        let rest: Vec<&str> = words.collect();
        let (sector, sectors) = match rest.as_slice() {
            [sector, "+", sectors, ..] => (Some(sector.parse().ok()?), sectors.parse().ok()?),
            _ => (None, 0_u64),
        };
        let request = request(flags, sectors.saturating_mul(SECTOR))?;
        let sector = sector.filter(|_| request != DeviceRequest::Flush);
        let error = rest.last().map(|it| it.trim_matches(['[', ']']));
        let error = error.filter(|_| action == "C").and_then(|it| it.parse().ok()).unwrap_or(0);
        Some(Self { device, at, task, action, request, sector, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<CaptureEvent>, Result<CaptureEnd, TraceTextError>) {
        let mut events = Vec::new();
        let end = read_blkparse(text.as_bytes(), &mut |event| events.push(event));
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
