//! From a trace to where the time of each operation went.
//!
//! Events in the order of time, with the begin and end of each operation on the same clock, give an
//! [`OperationPath`] for each. At every moment an operation is in one component
//! ([`LatencyComponents`]); the sum of the components is its time.
//!
//! [`DeviceState`] is the part of an operation that is under way at one block device. A device with requests does its queued I/O by requests, which may be parts of it, or several
//! joined; its driver may give a request back and be given it again. Other devices take queued I/O
//! as it is, whole or in parts.

use std::collections::VecDeque;

use durio_base::{Bytes, Nanos};
use durio_observe::{BlockRequest, TraceClock, TraceEvent, TraceEventKind};
use durio_record::{LatencyComponents, OperationPath, PathIo};

use super::{PathTrace, Stamps, TracedLayer};

/// Where the time of each operation went that the trace holds whole.
pub(super) fn timelines(
    followed: &PathTrace,
    layers: &[TracedLayer],
    stamps: &[Stamps],
    nanos: &dyn Fn(u64) -> u64,
) -> Vec<OperationPath> {
    // The text has whole microseconds: events in the microsecond of the begin are the operation's.
    let grain = match followed.clock {
        TraceClock::Monotonic => 1000,
        TraceClock::Tsc => 1,
    };
    let whole = |stamps: &&Stamps| stamps.begin >= followed.complete_from;
    let aligned = |stamps: &Stamps| Stamps { begin: stamps.begin / grain * grain, end: stamps.end };
    let mut left: VecDeque<Stamps> = stamps.iter().filter(whole).map(aligned).collect();
    let mut sweep = TimelineSweep::new(followed, layers);
    let mut found = Vec::with_capacity(left.len());
    let mut open = false;
    for event in &followed.text.events {
        while let Some(past) = left.front().copied().filter(|stamps| event.at > stamps.end) {
            left.pop_front();
            // One without any event was not seen.
            if std::mem::take(&mut open) {
                found.push(sweep.end(past.end, nanos));
            }
        }
        // Events after the last operation belong to none.
        let Some(next) = left.front() else { break };
        if !open && event.at >= next.begin {
            sweep.begin(next.begin);
            open = true;
        }
        if open {
            sweep.take(event);
        }
    }
    if let Some(last) = left.pop_front().filter(|_| open) {
        found.push(sweep.end(last.end, nanos));
    }
    found
}

/// A component of an operation's time: those of [`LatencyComponents`], in its order, and one that becomes
/// one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimelineComponent {
    Device,
    Queued,
    Entry,
    Exit,
    Between,
    Program,
    /// After something was done: until the next is queued, or until the exit; which, is seen later.
    Done,
}

#[derive(Debug, Clone, Copy, Default)]
struct SpentTicks([u64; 7]);

impl SpentTicks {
    fn add(&mut self, component: TimelineComponent, ticks: u64) {
        let sum = &mut self.0[component as usize];
        *sum = sum.saturating_add(ticks);
    }

    /// What came after the last thing done was this.
    fn settle(&mut self, component: TimelineComponent) {
        let done = std::mem::take(&mut self.0[TimelineComponent::Done as usize]);
        self.add(component, done);
    }

    /// The operation is over.
    fn finish(mut self, nanos: &dyn Fn(u64) -> u64) -> LatencyComponents {
        self.settle(TimelineComponent::Exit);
        let [device, queued, entry, exit, between, program, _] =
            self.0.map(|ticks| Nanos::new(nanos(ticks)));
        LatencyComponents { device, queued, entry, exit, between, program }
    }
}

/// The state of one operation after the other.
struct TimelineSweep<'a> {
    followed: &'a PathTrace,
    layers: &'a [TracedLayer],
    devices: Vec<DeviceState>,
    now: u64,
    in_kernel: bool,
    off_cpu: bool,
    /// Something was queued in this operation.
    has_queued: bool,
    spent: SpentTicks,
    off: SpentTicks,
    path: OperationPath,
}

impl<'a> TimelineSweep<'a> {
    fn new(followed: &'a PathTrace, layers: &'a [TracedLayer]) -> Self {
        Self {
            followed,
            layers,
            devices: layers.iter().map(|layer| DeviceState::new(layer.device.requests)).collect(),
            now: 0,
            in_kernel: false,
            off_cpu: false,
            has_queued: false,
            spent: SpentTicks::default(),
            off: SpentTicks::default(),
            path: OperationPath::default(),
        }
    }

    /// An operation begins: the program runs, and nothing of it is anywhere.
    fn begin(&mut self, at: u64) {
        self.devices.iter_mut().for_each(DeviceState::clear);
        (self.in_kernel, self.off_cpu, self.has_queued) = (false, false, false);
        (self.spent, self.off, self.path) = Default::default();
        self.now = at;
    }

    fn end(&mut self, at: u64, nanos: &dyn Fn(u64) -> u64) -> OperationPath {
        self.pass(at);
        self.path.spent = self.spent.finish(nanos);
        self.path.off_cpu = self.off.finish(nanos);
        std::mem::take(&mut self.path)
    }

    /// Time passes until `at`.
    fn pass(&mut self, at: u64) {
        let ticks = at.saturating_sub(self.now);
        self.now = self.now.max(at);
        let component = self.component();
        self.spent.add(component, ticks);
        if self.off_cpu {
            self.off.add(component, ticks);
        }
    }

    fn component(&self) -> TimelineComponent {
        let mut busy = self.layers.iter().zip(&self.devices);
        if busy.any(|(layer, state)| layer.device.lowest && state.has_work()) {
            TimelineComponent::Device
        } else if self.devices.iter().any(|state| state.has_work() || state.has_queued()) {
            TimelineComponent::Queued
        } else if !self.in_kernel {
            TimelineComponent::Program
        } else if self.has_queued {
            TimelineComponent::Done
        } else {
            TimelineComponent::Entry
        }
    }

    fn take(&mut self, event: &TraceEvent) {
        self.pass(event.at);
        let is_own = event.task == self.followed.thread;
        match &event.kind {
            TraceEventKind::SwitchedOut { preempted } if is_own => {
                self.off_cpu = true;
                let count =
                    if *preempted { &mut self.path.preemptions } else { &mut self.path.waits };
                *count = count.saturating_add(1);
            }
            TraceEventKind::SwitchedIn { task } if *task == self.followed.thread => {
                self.off_cpu = false;
            }
            TraceEventKind::SwitchedOut { .. } | TraceEventKind::SwitchedIn { .. } => {}
            // Not every kernel shows the switch from the idle task: an event of the task shows that
            // it runs.
            _ if is_own => self.off_cpu = false,
            _ => {}
        }
        match &event.kind {
            TraceEventKind::Entered if is_own => self.in_kernel = true,
            TraceEventKind::Left if is_own => self.in_kernel = false,
            TraceEventKind::Queued(request) => self.queue(request, event.task),
            TraceEventKind::Ended(request) => self.at_device(request, DeviceState::end),
            TraceEventKind::Issued(request) => self.at_device(request, DeviceState::issue),
            TraceEventKind::Completed(request) => self.at_device(request, DeviceState::complete),
            _ => {}
        }
    }

    fn position(&self, request: &BlockRequest) -> Option<usize> {
        self.layers.iter().position(|layer| layer.numbers.contains(&request.device))
    }

    fn at_device(&mut self, request: &BlockRequest, change: fn(&mut DeviceState, &BlockRequest)) {
        let position = self.position(request);
        if let Some(state) = position.and_then(|position| self.devices.get_mut(position)) {
            change(state, request);
        }
    }

    fn queue(&mut self, request: &BlockRequest, task: u32) {
        // The kernel's threads are not strangers: they send a journal's writes.
        if self.followed.strangers.contains(&task) {
            return;
        }
        let Some(position) = self.position(request) else { return };
        self.has_queued = true;
        self.spent.settle(TimelineComponent::Between);
        self.off.settle(TimelineComponent::Between);
        if let Some(state) = self.devices.get_mut(position) {
            state.queue(request);
        }
        count(&mut self.path.io, position, request);
    }
}

/// Counts queued I/O by the kernel's letters (blk_fill_rwbs): an F before the kind of operation
/// asks for a flush before it, one after it is FUA.
fn count(all: &mut Vec<PathIo>, position: usize, request: &BlockRequest) {
    let device = u32::try_from(position).unwrap_or(u32::MAX);
    let place = all.iter().position(|io| io.device == device).unwrap_or_else(|| {
        all.push(PathIo { device, ..PathIo::default() });
        all.len() - 1
    });
    let Some(io) = all.get_mut(place) else { return };
    let (flush, rest) = match request.flags.strip_prefix('F') {
        Some(rest) => (1, rest),
        None => (0, request.flags.as_str()),
    };
    io.flushes = io.flushes.saturating_add(flush);
    let add = |sum: Bytes| Bytes::new(sum.get().saturating_add(request.bytes));
    match rest.as_bytes().first() {
        Some(b'R') => {
            (io.reads, io.read_bytes) = (io.reads.saturating_add(1), add(io.read_bytes));
        }
        Some(b'W') if request.bytes > 0 => {
            (io.writes, io.written_bytes) = (io.writes.saturating_add(1), add(io.written_bytes));
            io.fua = io
                .fua
                .saturating_add(u32::from(rest.get(1..).is_some_and(|rest| rest.contains('F'))));
        }
        _ => {}
    }
}

/// Bytes of a sector in events, whatever the device.
const SECTOR: u64 = 512;

/// A range of sectors; empty for a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: u64,
    to: u64,
}

impl Range {
    fn of(request: &BlockRequest) -> Self {
        let sectors = request.bytes / SECTOR;
        // A flush has no place; the kernel names zero, or all ones.
        let from = if sectors == 0 { 0 } else { request.sector };
        Self { from, to: from.saturating_add(sectors) }
    }

    fn is_empty(self) -> bool {
        self.from >= self.to
    }

    /// The rest of it without `other`: nothing, one part, or two.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = Self { from: self.from, to: self.to.min(other.from) };
        let after = Self { from: self.from.max(other.to), to: self.to };
        [before, after].into_iter().filter(|part| !part.is_empty())
    }

    fn meets(self, other: Self) -> bool {
        self.from < other.to && other.from < self.to
    }
}

/// Cuts a range out of others; an empty one takes all empty ones, because one flush of a device
/// serves all that wait for it.
fn cut(ranges: &mut Vec<Range>, range: Range) {
    if range.is_empty() {
        ranges.retain(|other| !other.is_empty());
        return;
    }
    let parts = |other: &Range| -> Vec<Range> {
        if other.is_empty() { vec![*other] } else { other.without(range).collect() }
    };
    *ranges = ranges.iter().flat_map(parts).collect();
}

/// The state of a device; everything in it is the operation's.
#[derive(Debug)]
struct DeviceState {
    requests: bool,
    /// Queued, and not with the driver.
    queued: Vec<Range>,
    /// With the driver, of devices with requests.
    issued: Vec<Range>,
    /// A flush was asked for: flushes of the device are the operation's.
    flushes: bool,
}

impl DeviceState {
    fn new(requests: bool) -> Self {
        Self { requests, queued: Vec::new(), issued: Vec::new(), flushes: false }
    }

    fn clear(&mut self) {
        self.queued.clear();
        self.issued.clear();
        self.flushes = false;
    }

    /// Its driver has something; of a device without requests, it was given something.
    fn has_work(&self) -> bool {
        if self.requests { !self.issued.is_empty() } else { !self.queued.is_empty() }
    }

    /// Something waits to be given to the driver.
    fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    fn queue(&mut self, request: &BlockRequest) {
        self.flushes |= request.flags.contains('F');
        self.queued.push(Range::of(request));
    }

    fn issue(&mut self, request: &BlockRequest) {
        let range = Range::of(request);
        // A driver may give a request back and be given it again.
        if self.take(range) && !self.issued.contains(&range) {
            self.issued.push(range);
        }
    }

    /// Takes a range out of the queued ones; false if none of it belongs to the operation.
    fn take(&mut self, range: Range) -> bool {
        let is_own = match range.is_empty() {
            true => self.flushes,
            false => self.queued.iter().any(|queued| queued.meets(range)),
        };
        cut(&mut self.queued, range);
        is_own
    }

    fn complete(&mut self, request: &BlockRequest) {
        cut(&mut self.issued, Range::of(request));
    }

    /// Queued I/O is done, on devices without requests: its end may name the remainder, which is
    /// empty, at the place where it ended.
    fn end(&mut self, request: &BlockRequest) {
        if self.requests {
            return;
        }
        let range = Range::of(request);
        if !range.is_empty() {
            self.take(range);
            return;
        }
        let ended =
            self.queued.iter().position(|range| !range.is_empty() && range.to == request.sector);
        let flush = || self.queued.iter().position(|range| range.is_empty());
        if let Some(place) = ended.or_else(flush) {
            self.queued.remove(place);
        }
    }
}
