//! Traces of devices' requests, as capture events of files.
//!
//! The texts are those of blkparse, perf script, perf trace, the kernel's trace, iosnoop or
//! biosnoop, each line by itself ([`line`]). Each device becomes a file in the [`CaptureEvent`]s, a
//! request that was issued and completed a write at its place, durable if it has FUA, a flush a
//! sync.

pub(crate) mod line;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::io::BufRead;

use crate::capture_events::{CaptureEnd, CaptureEvent, CapturedFile, OPEN_FLAGS};
use crate::strace::{is_call, traced_call};
use crate::trace_text::{TraceTextError, each_line, not_of_requests};
use crate::tracefs::{DeviceRequest, TracedCall};
use line::{Columns, Dialect, LineStage, RequestLine, SECTOR};

/// Completed requests that wait until no earlier one can come: tracers write ends in their order, and a capture
/// begins in theirs. More than devices have in flight.
const HELD_MAX: usize = 4096;

/// Requests that are issued and not completed: by device and sector, since two requests never write the same at once. Flushes
/// have none, and there may be several, one of each hardware queue: which of them ended is not said, and the last
/// one is taken.
type Issued = HashMap<(usize, Option<u64>), Vec<(u64, u32, DeviceRequest)>>;

/// Reads a trace to its end.
///
/// # Errors
/// If it cannot be read, or no write or flush is completed in it.
pub fn read_block_trace(
    text: impl BufRead,
    emit: &mut dyn FnMut(CaptureEvent),
) -> Result<CaptureEnd, TraceTextError> {
    let mut trace = Trace::new(emit)?;
    let mut columns = Columns::default();
    let mut other = None;
    let ended_early = each_line(text, |line| {
        trace.lost += lost_events(line);
        match RequestLine::of(line, &mut columns) {
            Some(line) => trace.line(&line),
            None if other.is_none() => other = not_of_requests(line, is_call),
            None => {}
        }
    })?;
    if trace.requests == 0 {
        let why = match (other, &ended_early) {
            _ if trace.first.is_some() => "no write or flush is issued and completed in it",
            (Some(why), _) => why,
            (None, Some(why)) => why,
            _ => "it has no line of blkparse, perf script, perf trace, ftrace, iosnoop or biosnoop",
        };
        return Err(TraceTextError::new(why));
    }
    Ok(trace.finish(ended_early))
}

/// A trace that is read.
struct Trace<'e> {
    emit: &'e mut dyn FnMut(CaptureEvent),
    write: &'static TracedCall,
    sync: &'static TracedCall,
    devices: HashMap<String, usize>,
    issued: Issued,
    held: BinaryHeap<Reverse<Completed>>,
    tasks: HashSet<u32>,
    requests: u64,
    lost: u64,
    first: Option<u64>,
    last: u64,
    /// No line says whether a request is a flush or has FUA.
    hides_durability: bool,
}

/// A request that is done, in the order of its begin.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Completed {
    begin: u64,
    /// Among those of one begin.
    number: u64,
    end: u64,
    task: u32,
    device: usize,
    /// None of a flush.
    sector: Option<u64>,
    is_flush: bool,
    fua: bool,
    result: i64,
}

impl<'e> Trace<'e> {
    fn new(emit: &'e mut dyn FnMut(CaptureEvent)) -> Result<Self, TraceTextError> {
        let calls = traced_call("pwrite64").zip(traced_call("fdatasync"));
        let (write, sync) =
            calls.ok_or_else(|| TraceTextError::new("no call stands for a request"))?;
        Ok(Self {
            emit,
            write,
            sync,
            devices: HashMap::new(),
            issued: Issued::new(),
            held: BinaryHeap::new(),
            tasks: HashSet::new(),
            requests: 0,
            lost: 0,
            first: None,
            last: 0,
            hides_durability: true,
        })
    }

    fn line(&mut self, line: &RequestLine<'_>) {
        self.first = Some(self.first.map_or(line.at, |first| first.min(line.at)));
        self.last = self.last.max(line.at);
        self.hides_durability &= line.dialect == Dialect::Biosnoop { letters: false };
        if !is_seen(line.request) {
            if let LineStage::Both { end } = line.stage {
                self.last = self.last.max(end);
            }
            return;
        }
        let device = self.device(&line.device);
        let place = (device, line.sector);
        let (end, error) = match line.stage {
            LineStage::Both { end } => {
                let begun = (line.at, line.task, line.request);
                self.complete(device, begun, line.sector, (end, 0));
                return;
            }
            LineStage::Issued => {
                let issued = self.issued.entry(place).or_default();
                if line.sector.is_some() {
                    // The end of the earlier one is not there.
                    self.lost += issued.drain(..).count() as u64;
                }
                issued.push((line.at, line.task, line.request));
                return;
            }
            LineStage::Requeued => {
                self.issued.remove(&place);
                return;
            }
            LineStage::Completed(error) => (line.at, error),
        };
        let Entry::Occupied(mut issued) = self.issued.entry(place) else { return };
        let begun = issued.get_mut().pop();
        if issued.get().is_empty() {
            issued.remove();
        }
        if let Some(begun) = begun {
            self.complete(device, begun, line.sector, (end, error));
        }
    }

    /// The number of a device; a new one is told of.
    fn device(&mut self, name: &str) -> usize {
        if let Some(number) = self.devices.get(name) {
            return *number;
        }
        let number = self.devices.len();
        self.devices.insert(name.to_owned(), number);
        // Past the page cache, as O_DIRECT would have it.
        let flags = OPEN_FLAGS.iter().filter(|(name, _)| *name == "O_DIRECT").map(|flag| flag.1);
        let (path, flags) = (format!("device {name}"), flags.sum());
        (self.emit)(CaptureEvent::File(CapturedFile { path, flags, size: None }));
        number
    }

    fn complete(
        &mut self,
        device: usize,
        (begin, task, request): (u64, u32, DeviceRequest),
        sector: Option<u64>,
        (end, error): (u64, i64),
    ) {
        let (is_flush, fua, bytes) = match request {
            DeviceRequest::Write { bytes, fua, .. } => (false, fua, bytes),
            DeviceRequest::Flush => (true, false, 0),
            DeviceRequest::Read(_) => return,
        };
        self.last = self.last.max(end);
        self.tasks.insert(task);
        self.requests += 1;
        let number = self.requests;
        let result = match error {
            0 => i64::try_from(bytes).unwrap_or(i64::MAX),
            error => -error.abs(),
        };
        let sector = sector.filter(|_| !is_flush);
        let done = Completed { begin, number, end, task, device, sector, is_flush, fua, result };
        self.held.push(Reverse(done));
        if self.held.len() > HELD_MAX {
            self.release();
        }
    }

    /// Tells of the request that began first.
    fn release(&mut self) {
        let Some(Reverse(done)) = self.held.pop() else { return };
        let Completed { begin, end, task, device, sector, is_flush, fua, result, .. } = done;
        let call = if is_flush { self.sync } else { self.write };
        let holder = (0, i32::try_from(device).unwrap_or(i32::MAX));
        let (offset, file) = (sector.map(|sector| sector.saturating_mul(SECTOR)), Some(device));
        let durable = fua;
        (self.emit)(CaptureEvent::Entered { at: begin, task, call, holder, file, offset, durable });
        (self.emit)(CaptureEvent::Left { at: end, task, call, result });
    }

    fn finish(mut self, ended_early: Option<String>) -> CaptureEnd {
        while !self.held.is_empty() {
            self.release();
        }
        let duration_ns = self.last.saturating_sub(self.first.unwrap_or(self.last));
        // What began in the last tenth may have ended after the trace.
        let late = self.last - duration_ns / 10;
        let waiting = self.issued.values().flatten().filter(|(at, ..)| *at < late).count() as u64;
        let not_shown =
            "biosnoop of bcc shows neither flushes nor FUA: what was made durable is not in it";
        CaptureEnd {
            duration_ns,
            processes: self.tasks.len(),
            ended_early,
            events: self.requests,
            lost_calls: self.lost + waiting,
            sizes: vec![Some(0); self.devices.len()],
            not_shown: self.hides_durability.then(|| not_shown.to_owned()),
            ..CaptureEnd::default()
        }
    }
}

const fn is_seen(request: DeviceRequest) -> bool {
    !matches!(request, DeviceRequest::Read(_))
}

/// Events that the tracer itself says it lost: `CPU:0 [LOST 12 EVENTS]` of the kernel, `LOST 12 events!` of perf
/// trace, `Skips: 2 forward (12 -  3.4%)` of blkparse.
fn lost_events(line: &str) -> u64 {
    let number = |text: &str| text.split(' ').next()?.replace(',', "").parse().ok();
    let behind = |mark: &str| line.split_once(mark).and_then(|(_, rest)| number(rest));
    let is_lost = line.contains("LOST ") && line.to_ascii_lowercase().contains(" events");
    match is_lost {
        true => behind("LOST ").unwrap_or(0),
        false if line.starts_with("Skips: ") => behind("forward (").unwrap_or(0),
        false => 0,
    }
}
