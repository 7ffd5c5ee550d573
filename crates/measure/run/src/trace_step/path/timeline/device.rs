//! The part of an operation that is under way at one block device.
//!
//! A device with requests does its queued I/O by requests, which may be parts of it, or several
//! joined; its driver may give a request back and be given it again. Other devices take queued I/O
//! as it is, whole or in parts.

use durio_observe::BlockRequest;

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
pub(super) struct DeviceState {
    requests: bool,
    /// Queued, and not with the driver.
    queued: Vec<Range>,
    /// With the driver, of devices with requests.
    issued: Vec<Range>,
    /// A flush was asked for: flushes of the device are the operation's.
    flushes: bool,
}

impl DeviceState {
    pub(super) fn new(requests: bool) -> Self {
        Self { requests, queued: Vec::new(), issued: Vec::new(), flushes: false }
    }

    pub(super) fn clear(&mut self) {
        self.queued.clear();
        self.issued.clear();
        self.flushes = false;
    }

    /// Its driver has something; of a device without requests, it was given something.
    pub(super) fn has_work(&self) -> bool {
        if self.requests { !self.issued.is_empty() } else { !self.queued.is_empty() }
    }

    /// Something waits to be given to the driver.
    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    pub(super) fn queue(&mut self, request: &BlockRequest) {
        self.flushes |= request.flags.contains('F');
        self.queued.push(Range::of(request));
    }

    pub(super) fn issue(&mut self, request: &BlockRequest) {
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

    pub(super) fn complete(&mut self, request: &BlockRequest) {
        cut(&mut self.issued, Range::of(request));
    }

    /// Queued I/O is done, on devices without requests: its end may name the remainder, which is
    /// empty, at the place where it ended.
    pub(super) fn end(&mut self, request: &BlockRequest) {
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
