//! The life of each request to a device, and of each commit of a journal.

use std::collections::HashMap;

use durio_observe::{
    KernelEvent, KernelEventKind, RequestEvent, RequestOperation, RequestStage, TraceTask,
};

pub(super) type DeviceNumber = (u32, u32);

const SECTOR_BYTES: u64 = 512;
/// Parts of requests that are kept while their request is not seen; more have lost it.
const WAITING_PARTS_MAX: usize = 4096;

/// A request from the wish to its end; times are `None` where no event says them.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLife<'w> {
    pub(super) device: DeviceNumber,
    pub(super) operation: RequestOperation,
    pub(super) sector: Option<u64>,
    pub(super) bytes: u64,
    /// A flush comes before or after its data.
    pub(super) is_flushing: bool,
    /// The device has no queue of requests: md, dm, zram.
    pub(super) is_layered: bool,
    pub(super) queued: Option<u64>,
    /// The thread that wanted it, or else the one that handed it to the driver.
    pub(super) by: Option<&'w TraceTask>,
    pub(super) issued: Option<u64>,
    /// The thread that handed it to the driver.
    pub(super) issued_by: Option<&'w TraceTask>,
    /// The driver gave it back: its queue was full.
    pub(super) is_requeued: bool,
    /// When its data was done.
    pub(super) data_done: Option<u64>,
    /// When all of it was done.
    pub(super) done: Option<u64>,
}

impl<'w> RequestLife<'w> {
    fn new(request: &RequestEvent, by: Option<&'w TraceTask>) -> Self {
        Self {
            device: request.device,
            operation: request.operation,
            sector: request.sector,
            bytes: request.bytes,
            is_flushing: request.preflush || request.fua,
            is_layered: false,
            queued: None,
            by,
            issued: None,
            issued_by: None,
            is_requeued: false,
            data_done: None,
            done: None,
        }
    }

    fn has(&self, sector: Option<u64>) -> bool {
        let (Some(first), Some(sector)) = (self.sector, sector) else { return false };
        let sectors = (self.bytes / SECTOR_BYTES).max(1);
        (first..first.saturating_add(sectors)).contains(&sector)
    }

    /// Nanoseconds at the device between two times.
    pub(super) fn at_device(&self, begin: u64, end: u64) -> u64 {
        let Some(issued) = self.issued else { return 0 };
        self.data_done.unwrap_or(u64::MAX).min(end).saturating_sub(issued.max(begin))
    }
}

/// A commit of a journal.
#[derive(Debug, Clone, Copy)]
pub(super) struct JournalCommit {
    device: DeviceNumber,
    transaction: u32,
    pub(super) began: u64,
    pub(super) ended: Option<u64>,
    pub(super) blocks: u32,
}

impl JournalCommit {
    pub(super) fn overlaps(&self, begin: u64, end: u64) -> bool {
        self.began < end && self.ended.is_none_or(|ended| ended > begin)
    }
}

#[derive(Debug, Default)]
pub(super) struct Requests<'w> {
    pub(super) lives: Vec<RequestLife<'w>>,
    pub(super) commits: Vec<JournalCommit>,
    /// The request that an event, by its position, ended.
    ended_by: HashMap<usize, usize>,
    queues: HashMap<DeviceNumber, Queue<'w>>,
}

/// What a device has before it, while events are read.
#[derive(Debug, Default)]
struct Queue<'w> {
    /// Parts that are not in a request yet.
    parts: Vec<RequestLife<'w>>,
    /// Flushes that were asked for.
    wanted_flushes: Vec<RequestLife<'w>>,
    /// Numbers of requests with data, and of flushes, that are not done.
    open: Vec<usize>,
    flushes: Vec<usize>,
    /// Requests whose data is done and whose last flush may not be.
    flushing: Vec<usize>,
}

impl<'w> Requests<'w> {
    /// Reads events in the order of time.
    pub(super) fn new(events: &[&'w KernelEvent]) -> Self {
        let mut requests = Self::default();
        for (position, &event) in events.iter().enumerate() {
            match &event.kind {
                KernelEventKind::Request(request) => requests.read(position, event, request),
                KernelEventKind::JournalCommitBegan { device, transaction } => {
                    let (device, transaction) = (*device, *transaction);
                    let (began, ended, blocks) = (event.at, None, 0);
                    requests.commits.push(JournalCommit {
                        device,
                        transaction,
                        began,
                        ended,
                        blocks,
                    });
                }
                KernelEventKind::JournalCommitEnded { device, transaction } => {
                    if let Some(commit) = requests.commit(*device, *transaction) {
                        commit.ended = Some(event.at);
                    }
                }
                KernelEventKind::JournalCommitted { device, transaction, blocks, .. } => {
                    if let Some(commit) = requests.commit(*device, *transaction) {
                        commit.blocks = *blocks;
                    }
                }
                _ => {}
            }
        }
        requests
    }

    /// The request that the event at this position ended.
    pub(super) fn ended_by(&self, position: usize) -> Option<usize> {
        self.ended_by.get(&position).copied()
    }

    fn commit(&mut self, device: DeviceNumber, transaction: u32) -> Option<&mut JournalCommit> {
        let is_same = |commit: &&mut JournalCommit| {
            commit.device == device && commit.transaction == transaction
        };
        self.commits.iter_mut().rev().find(is_same)
    }

    fn read(&mut self, position: usize, event: &'w KernelEvent, request: &RequestEvent) {
        let by = (!event.in_interrupt && event.task.id != 0).then_some(&event.task);
        let is_flush = request.bytes == 0 || request.operation == RequestOperation::Flush;
        match request.stage {
            RequestStage::Queued => self.queue(event.at, request, by, is_flush),
            RequestStage::Inserted if !is_flush => {
                self.open_request(request, by);
            }
            RequestStage::Issued if is_flush => {
                let mut flush = RequestLife::new(request, by);
                (flush.operation, flush.issued) = (RequestOperation::Flush, Some(event.at));
                flush.issued_by = by;
                let number = self.add(flush);
                self.queues.entry(request.device).or_default().flushes.push(number);
            }
            RequestStage::Issued => {
                let number = self.open_request(request, by);
                if let Some(life) = self.lives.get_mut(number) {
                    life.issued = life.issued.or(Some(event.at));
                    life.issued_by = by;
                }
            }
            RequestStage::Requeued => {
                let number = self.open_number(request);
                if let Some(life) = number.and_then(|number| self.lives.get_mut(number)) {
                    (life.issued, life.is_requeued) = (None, true);
                }
            }
            RequestStage::Completed if is_flush => self.end_flush(position, event.at, request),
            RequestStage::Completed => self.end_request(position, event.at, request, by),
            RequestStage::Ended => self.end_part(position, event.at, request, by),
            RequestStage::Inserted | RequestStage::Merged | RequestStage::Remapped { .. } => {}
        }
    }

    fn queue(&mut self, at: u64, request: &RequestEvent, by: Option<&'w TraceTask>, flush: bool) {
        let queue = self.queues.entry(request.device).or_default();
        let life = RequestLife { queued: Some(at), ..RequestLife::new(request, by) };
        let list = if flush { &mut queue.wanted_flushes } else { &mut queue.parts };
        if list.len() >= WAITING_PARTS_MAX {
            list.remove(0);
        }
        list.push(life);
    }

    /// The open request of this event, made of the parts that are in it.
    fn open_request(&mut self, request: &RequestEvent, by: Option<&'w TraceTask>) -> usize {
        let whole = RequestLife::new(request, by);
        let queue = self.queues.entry(request.device).or_default();
        let (mut queued, mut wanted_by, mut is_flushing) = (None, None, false);
        queue.parts.retain(|part| {
            let is_inside = whole.has(part.sector);
            if is_inside && queued.is_none() {
                (queued, wanted_by) = (part.queued, part.by);
            }
            is_flushing |= is_inside && part.is_flushing;
            !is_inside
        });
        let number = self.open_number(request).unwrap_or_else(|| {
            let number = self.add(whole);
            self.queues.entry(request.device).or_default().open.push(number);
            number
        });
        if let Some(life) = self.lives.get_mut(number) {
            // Parts may have been merged into it since it was inserted.
            (life.sector, life.bytes) = (request.sector, request.bytes.max(life.bytes));
            life.is_flushing |= is_flushing;
            if life.queued.is_none() {
                (life.queued, life.by) = (queued, wanted_by.or(life.by));
            }
        }
        number
    }

    fn open_number(&self, request: &RequestEvent) -> Option<usize> {
        let open = &self.queues.get(&request.device)?.open;
        let life = |number: &usize| self.lives.get(*number);
        let is_same =
            |number: &&usize| life(number).is_some_and(|life| life.sector == request.sector);
        let is_inside = |number: &&usize| life(number).is_some_and(|life| life.has(request.sector));
        open.iter().find(is_same).or_else(|| open.iter().find(is_inside)).copied()
    }

    fn add(&mut self, life: RequestLife<'w>) -> usize {
        self.lives.push(life);
        self.lives.len() - 1
    }

    fn end(&mut self, position: usize, at: u64, number: usize) {
        self.ended_by.insert(position, number);
        if let Some(life) = self.lives.get_mut(number) {
            life.done = Some(at);
            life.data_done = life.data_done.or(Some(at));
        }
    }

    fn end_request(
        &mut self,
        position: usize,
        at: u64,
        request: &RequestEvent,
        by: Option<&'w TraceTask>,
    ) {
        let number = match self.open_number(request) {
            Some(number) => number,
            // Its issue was lost.
            None => self.open_request(request, by),
        };
        self.end(position, at, number);
        let is_flushing = self.lives.get(number).is_some_and(|life| life.is_flushing);
        let queue = self.queues.entry(request.device).or_default();
        queue.open.retain(|open| *open != number);
        if is_flushing {
            queue.flushing.push(number);
        }
    }

    /// The device ends the flush that it has; the kernel then ends the requests that waited for it,
    /// each with an event.
    fn end_flush(&mut self, position: usize, at: u64, request: &RequestEvent) {
        let queue = self.queues.entry(request.device).or_default();
        let first = |list: &mut Vec<usize>| (!list.is_empty()).then(|| list.remove(0));
        if let Some(number) = first(&mut queue.flushes) {
            self.end(position, at, number);
        } else if !queue.wanted_flushes.is_empty() {
            let mut wanted = queue.wanted_flushes.remove(0);
            wanted.operation = RequestOperation::Flush;
            let number = self.add(wanted);
            self.end(position, at, number);
        } else if let Some(number) = first(&mut queue.flushing) {
            self.end(position, at, number);
        }
    }

    fn end_part(
        &mut self,
        position: usize,
        at: u64,
        request: &RequestEvent,
        by: Option<&'w TraceTask>,
    ) {
        let queue = self.queues.entry(request.device).or_default();
        let is_same = |part: &RequestLife<'_>| part.sector == request.sector;
        let list = if request.bytes == 0 { &mut queue.wanted_flushes } else { &mut queue.parts };
        let part = match list.iter().position(is_same) {
            Some(found) => list.remove(found),
            None => RequestLife::new(request, by),
        };
        let number = self.add(RequestLife { is_layered: true, issued: part.queued, ..part });
        self.end(position, at, number);
    }
}
