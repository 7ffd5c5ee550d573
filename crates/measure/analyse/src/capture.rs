//! A database's operations on its storage, from the events of a capture.
//!
//! [`CaptureEvent`]s in the order of time, and how the capture went, give [`CaptureFindings`]:
//! files by their folded names, devices, the mix of sizes, cost and losses; and a profile of them
//! ([`profile_text`]).
//!
//! Files whose names differ by numbers alone are one (`pg_wal/#`): segments, generations. Each
//! write's place is judged by the one before it in the same file.

mod beside;
mod files;
mod profile;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use durio_observe::{
    CallRole, CaptureEnd, CaptureEvent, CapturedFile, DeviceRequest, TracedCall, WriteCallRates,
};
use durio_record::TracedOperation;
use serde::Serialize;

pub use beside::{BesideFigure, BesideRow, CaptureBeside, EarlierCapture};
pub use files::{CapturedFileFindings, CapturedSize, FileClass, OffsetPattern};
pub use profile::{CaptureSource, profile_text};
pub use replay::{ReplayFindings, ReplayedTrace};

use crate::distribution::percentile;
use crate::why::WhyFindings;
use durio_base::stats::least_squares::float;
use files::{FileState, OpenState};

/// Form of the JSON document.
pub const CAPTURE_SCHEMA: &str = "durio-capture-1";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaptureFindings {
    /// The form of the document.
    pub schema: &'static str,
    /// The processes that were watched, when and where.
    pub source: CaptureSource,
    /// Seconds that were watched.
    pub seconds: f64,
    /// Why it ended before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
    /// What cannot be known, since the text of a tracer does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_shown: Option<String>,
    /// Processes that called anything.
    pub processes: usize,
    /// Writes to files, of all of them.
    pub writes: u64,
    pub written_bytes: u64,
    /// Median latency of a write in nanoseconds, where syncs are not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_p50_ns: Option<u64>,
    /// The same, 99 of 100, of at least a hundred writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_p99_ns: Option<u64>,
    /// Syncs, and writes that are durable by themselves.
    pub durable: u64,
    /// Sizes of all writes, the most frequent first.
    pub sizes: Vec<CapturedSize>,
    /// The files, those that most was waited for first.
    pub files: Vec<CapturedFileFindings>,
    /// What reached the devices below, of whomever.
    pub devices: Vec<CapturedDeviceFindings>,
    /// Writes and syncs that were handed to rings (io_uring), of which sizes and files are not known.
    pub ring_operations: u64,
    /// Writes and syncs of files that were gone before they could be named.
    pub unnamed_calls: u64,
    /// What the capture itself took.
    pub cost: CaptureCost,
    /// How punctual it was, if it is a replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayFindings>,
    /// Why the slowest commits of a replay were slow, if it recorded that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<WhyFindings>,
    /// An earlier capture beside it, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<CaptureBeside>,
}

/// What reached a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CapturedDeviceFindings {
    pub name: String,
    pub reads: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// Writes that the filesystem itself made.
    pub metadata_writes: u64,
    /// Writes that are durable when they are done.
    pub fua: u64,
    /// Flushes of its cache.
    pub flushes: u64,
    /// Sizes of writes, the most frequent first.
    pub sizes: Vec<CapturedSize>,
}

/// What a capture took of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CaptureCost {
    /// Processor time of durio, without the kernel's own for each event.
    pub cpu_ns: u64,
    /// The same as a share of one processor.
    pub cpu_share: f64,
    /// Events that were read.
    pub events: u64,
    /// Events of a second.
    pub events_per_second: f64,
    /// What the watched processes did with and without a trace; none where nobody counted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_calls: Option<WriteCallRates>,
    /// How much less they did with it, 0 to 1; none where the halves of the trace differ by more, so that nothing
    /// can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// Events of calls that the kernel could not keep: counts of files are too low by as many.
    pub lost_calls: u64,
    /// The same of devices.
    pub lost_requests: u64,
}

/// How much less was done with a trace than after it, 0 to 1; none if it is not less by as much as the halves of the
/// trace differ from each other, and as so few calls differ by chance: three times the square root of their number.
fn slowdown(rates: WriteCallRates, seconds: f64) -> Option<f64> {
    // After it was looked for a tenth of the time, at most 4 s (measure/run/src/capture.rs).
    let calls = rates.after * (seconds / 10.0).min(4.0);
    let WriteCallRates { halves: [first, second], after } = rates;
    let less = 1.0 - f64::midpoint(first, second) / after;
    (after > 0.0 && less >= (first - second).abs() / after && less >= 3.0 / calls.sqrt())
        .then_some(less)
}

/// Operations of a ring that write or sync (include/uapi/linux/io_uring.h): WRITEV, FSYNC, WRITE_FIXED,
/// SYNC_FILE_RANGE, WRITE.
const RING_WRITES: [u8; 5] = [2, 3, 5, 8, 23];

/// Takes events, and tells at the end.
#[derive(Debug, Default)]
pub struct Capture {
    files: Vec<FileState>,
    /// The place among `files` by number of a captured file.
    places: Vec<usize>,
    by_path: HashMap<String, usize>,
    open: HashMap<(u32, i32), OpenState>,
    /// Calls that have not returned, by thread.
    pending: HashMap<u32, Pending>,
    devices: Vec<CapturedDeviceFindings>,
    device_sizes: Vec<BTreeMap<u64, u64>>,
    ring_operations: u64,
    unnamed_calls: u64,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    begin: u64,
    call: &'static TracedCall,
    holder: (u32, i32),
    file: usize,
    /// By number, for its flags.
    number: usize,
    offset: Option<u64>,
    durable: bool,
}

impl Capture {
    /// Takes one event; gives the operation that it ended, if that succeeded.
    pub fn take(&mut self, event: CaptureEvent) -> Option<TracedOperation> {
        match event {
            CaptureEvent::File(file) => self.file(&file),
            CaptureEvent::Opened { holder, file, position } => {
                self.open.insert(holder, OpenState { file, position });
            }
            CaptureEvent::Entered { at, task, call, holder, file, offset, durable } => {
                let Some((number, place)) =
                    file.and_then(|number| Some((number, *self.places.get(number)?)))
                else {
                    self.unnamed_calls += u64::from(call.role != CallRole::Seek);
                    return None;
                };
                if call.role == CallRole::Sync
                    && let Some(state) = self.files.get_mut(place)
                {
                    state.sync_begins(at);
                }
                let pending =
                    Pending { begin: at, call, holder, file: place, number, offset, durable };
                self.pending.insert(task, pending);
            }
            CaptureEvent::Left { at, task, call, result } => {
                return self.left(at, task, call, result);
            }
            CaptureEvent::Issued { device, request } => self.issued(device, request),
            CaptureEvent::Ring { opcode } => {
                self.ring_operations += u64::from(RING_WRITES.contains(&opcode));
            }
        }
        None
    }

    fn file(&mut self, file: &CapturedFile) {
        let new = self.files.len();
        let place = *self.by_path.entry(file.path.clone()).or_insert(new);
        if place == new {
            self.files.push(FileState::new(file));
        }
        if let Some(state) = self.files.get_mut(place) {
            state.flags.insert(self.places.len(), file.flag_names());
        }
        self.places.push(place);
    }

    fn left(
        &mut self,
        at: u64,
        task: u32,
        call: &'static TracedCall,
        result: i64,
    ) -> Option<TracedOperation> {
        // A call that was entered before the capture began has no begin here.
        let pending = self.pending.remove(&task).filter(|pending| pending.call == call)?;
        let state = self.files.get_mut(pending.file)?;
        let Pending { begin, number: file, durable, .. } = pending;
        let nanos = at.saturating_sub(begin).max(1);
        let sync =
            TracedOperation { begin, nanos, task, file, call, offset: None, bytes: 0, durable };
        if call.role == CallRole::Sync {
            state.sync_ends(begin, at, task, call.name, result >= 0);
            return (result >= 0).then_some(sync);
        }
        let Ok(result) = u64::try_from(result) else {
            state.errors += 1;
            return None;
        };
        let open = self.open.get_mut(&pending.holder);
        match call.role {
            CallRole::Seek => open.into_iter().for_each(|open| open.position = Some(result)),
            CallRole::Write if result > 0 => {
                let is_append = state.is_append(pending.number);
                let offset = pending.offset.or_else(|| match &open {
                    // Where the file ends then; nobody else decides.
                    _ if is_append => Some(state.end()),
                    Some(open) => open.position,
                    None => None,
                });
                if pending.offset.is_none()
                    && let (Some(open), Some(offset)) = (open, offset)
                {
                    open.position = Some(offset + result);
                }
                state.write((pending.begin, at), task, offset, result);
                if pending.durable || state.is_durable(pending.number) {
                    state.durable_write(pending.begin, at, task);
                }
                return Some(TracedOperation { offset, bytes: result, ..sync });
            }
            _ => {}
        }
        None
    }

    fn issued(&mut self, device: usize, request: DeviceRequest) {
        if self.devices.len() <= device {
            self.devices.resize_with(device + 1, Default::default);
            self.device_sizes.resize_with(device + 1, Default::default);
        }
        let (Some(it), Some(sizes)) =
            (self.devices.get_mut(device), self.device_sizes.get_mut(device))
        else {
            return;
        };
        match request {
            DeviceRequest::Read(_) => it.reads += 1,
            DeviceRequest::Flush => it.flushes += 1,
            DeviceRequest::Write { bytes, fua, metadata } => {
                it.writes += 1;
                it.written_bytes += bytes;
                it.fua += u64::from(fua);
                it.metadata_writes += u64::from(metadata);
                *sizes.entry(bytes).or_default() += 1;
            }
        }
    }

    pub fn finish(mut self, end: &CaptureEnd, source: CaptureSource) -> CaptureFindings {
        let seconds = float(end.duration_ns) / 1e9;
        for (number, place) in self.places.iter().enumerate() {
            if let Some(state) = self.files.get_mut(*place) {
                state.is_gone = end.sizes.get(number).is_some_and(Option::is_none);
            }
        }
        let mut write_times: Vec<u64> = match end.not_shown {
            Some(_) => self.files.iter_mut().flat_map(FileState::take_write_times).collect(),
            None => Vec::new(),
        };
        write_times.sort_unstable();
        let files = files::folded(self.files, seconds);
        self.devices.resize_with(end.devices.len(), Default::default);
        self.device_sizes.resize_with(end.devices.len(), Default::default);
        for ((it, known), sizes) in
            self.devices.iter_mut().zip(&end.devices).zip(&self.device_sizes)
        {
            it.name.clone_from(&known.name);
            it.sizes = files::by_frequency(sizes);
        }
        let sum = |of: fn(&CapturedFileFindings) -> u64| files.iter().map(of).sum::<u64>();
        let mut sizes = BTreeMap::new();
        for size in files.iter().flat_map(|file| &file.sizes) {
            *sizes.entry(size.bytes).or_default() += size.count;
        }
        CaptureFindings {
            schema: CAPTURE_SCHEMA,
            source,
            seconds,
            ended_early: end.ended_early.clone(),
            not_shown: end.not_shown.clone(),
            processes: end.processes,
            writes: sum(|file| file.writes),
            written_bytes: sum(|file| file.written_bytes),
            write_p50_ns: percentile(&write_times, 50),
            write_p99_ns: percentile(&write_times, 99),
            durable: sum(CapturedFileFindings::durable),
            sizes: files::by_frequency(&sizes),
            files,
            devices: self.devices,
            ring_operations: self.ring_operations,
            unnamed_calls: self.unnamed_calls,
            cost: CaptureCost {
                cpu_ns: end.cpu_ns,
                cpu_share: if seconds > 0.0 { float(end.cpu_ns) / 1e9 / seconds } else { 0.0 },
                events: end.events,
                events_per_second: files::per_second(end.events, seconds),
                write_calls: end.write_calls,
                slowdown: end.write_calls.and_then(|calls| slowdown(calls, seconds)),
                lost_calls: end.lost_calls,
                lost_requests: end.lost_requests,
            },
            replay: None,
            why: None,
            beside: None,
        }
    }
}
