//! A thread of an array: passes requests to the engine, its operations to the ring, and its answers
//! to the requesters.
//!
//! Takes jobs, orders, completions and time. `array.rs` has the state that threads share.
//!
//! Each read or write lies within a chunk, so it is one part for the engine and one buffer; zeroes
//! may span several chunks, and need no buffer. A read gets a separate buffer for each member that
//! is asked: a late answer is discarded.
//!
//! ```text
//!  exchange ─► completions, requests ─► lock ─► engine ─► operations ─► unlock ─► push, answer ─┐
//!     └─────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

mod buffers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use durio_block::{
    Buffers, LentBuffer, MemberAction, MemberCompletion, MemberOperation, MemberRing, UblkKind,
    UblkRequest, WriteFlags,
};
use durio_nbd::Refusal;

use super::array::{LockedArray, PieceName, TICK, ThreadWork, Threads};
use super::queue::{
    ArrayJob, Asker, BUFFERS_KEPT, Desk, FinishedJob, ServerState, WATCHED, WritePayload,
};
use super::{DEVICES_MAX, MemberFile, ServerError};
use crate::{
    ArrayRequest, BLOCK, COPY_BUFFERS, MemberOp, MemberOpKind, OpBuffer, OpOutcome, OpTag,
    RequestCompletion, RequestError, RequestKind,
};
use buffers::{Own, Stripes};

/// The error code of a failed ublk request, whatever the cause.
const EIO: i32 = -5;
/// Bytes of registered buffers, for each thread.
const REGISTERED_BYTES: usize = 8 << 20;
/// Operations per call of the ring.
const RING_DEPTH: u32 = 256;

/// A request that the engine has.
#[derive(Debug)]
struct RequestPiece {
    from: Option<Asker>,
    length: u32,
    /// Distinguishes this piece from others that had its place.
    serial: u32,
    memory: PieceMemory,
}

impl RequestPiece {
    /// Keeps the new read data and returns the old.
    fn keep(&mut self, read: LentBuffer) -> Option<LentBuffer> {
        match std::mem::replace(&mut self.memory, PieceMemory::Read(read)) {
            PieceMemory::Read(before) => Some(before),
            PieceMemory::Written(_) | PieceMemory::None => None,
        }
    }
}

#[derive(Debug)]
enum PieceMemory {
    None,
    Written(LentBuffer),
    Read(LentBuffer),
}

/// An operation on its way.
#[derive(Debug)]
struct SubmittedOp {
    device: u8,
    tag: OpTag,
    length: u32,
    is_read: bool,
    is_metadata: bool,
    own: Own,
}

/// A thread's private state.
pub(super) struct RingThread {
    number: u8,
    ring: MemberRing,
    shared: Arc<ServerState>,
    desk: Arc<Desk>,
    backlog: VecDeque<ArrayJob>,
    completions: Vec<MemberCompletion>,
    /// Operations that the next turn hands to the ring.
    ops: Vec<MemberOp>,
    /// Copies of the engine's blocks to write, taken when the writes were requested.
    staged: VecDeque<Buffers>,
    /// Answers that the next turn gives to their requesters.
    answers: Vec<RequestCompletion>,
    pieces: Vec<RequestPiece>,
    free_pieces: Vec<u32>,
    flights: Vec<Option<SubmittedOp>>,
    free_flights: Vec<u32>,
    /// The data read for copies in progress; only on the first thread.
    copies: [Option<LentBuffer>; COPY_BUFFERS as usize],
    /// The same for the first slot, for comparisons: a given-up member may still be writing to the
    /// other.
    copied: Vec<u8>,
    has_copied: bool,
    stripes: Stripes,
    zeros: LentBuffer,
    looked: Instant,
    timeout: Duration,
    has_news: bool,
    last_news: Instant,
    /// No other thread has jobs for this one: every arrival wakes it.
    is_alone: bool,
}

impl RingThread {
    pub(super) fn new(
        number: u8,
        timeout: Duration,
        members: Vec<MemberFile>,
        shared: Arc<ServerState>,
    ) -> Result<Self, ServerError> {
        let desk = Arc::clone(&shared.desks[usize::from(number)]);
        let mut ring = MemberRing::new(DEVICES_MAX.into(), RING_DEPTH, desk.waker.clone())?;
        for member in members {
            ring.set_member(member.device.into(), Some((member.file, member.claim)))?;
        }
        let chunk = shared.chunk as usize;
        let count = (REGISTERED_BYTES / chunk).clamp(1, BUFFERS_KEPT);
        let mut buffers = ring.buffers(count, chunk)?;
        let zeros = buffers.next().ok_or(ServerError::Ended)?;
        buffers.for_each(|buffer| desk.give_back(buffer));
        let zeros = ring.lend(zeros);
        Ok(Self {
            number,
            ring,
            shared,
            desk,
            backlog: VecDeque::new(),
            completions: Vec::new(),
            ops: Vec::new(),
            staged: VecDeque::new(),
            answers: Vec::new(),
            pieces: Vec::new(),
            free_pieces: Vec::new(),
            flights: Vec::new(),
            free_flights: Vec::new(),
            copies: [const { None }; COPY_BUFFERS as usize],
            copied: Vec::new(),
            has_copied: false,
            stripes: Stripes::default(),
            zeros,
            looked: Instant::now(),
            timeout,
            has_news: false,
            last_news: Instant::now(),
            is_alone: false,
        })
    }

    pub(super) fn run(mut self) -> Result<(), ServerError> {
        let shared = Arc::clone(&self.shared);
        let mut is_time = true;
        loop {
            let mut array = shared.array()?;
            self.hand_in(&mut array, is_time)?;
            let others = self.take_over(&mut array);
            let is_over = array.is_over();
            drop(array);
            shared.wake(if is_over { Threads::MAX } else { others });
            if std::mem::take(&mut self.has_copied) {
                // Members that answer at once would starve a woken client on the same processor:
                // yield between two copies.
                std::thread::yield_now();
            }
            let mut ops = std::mem::take(&mut self.ops);
            ops.iter().try_for_each(|op| self.begin(op))?;
            ops.clear();
            self.ops = ops;
            self.answer()?;
            if is_over {
                return self.drain();
            }
            let patience = self.patience();
            is_time = self.ring.exchange(patience, &mut self.completions)?;
            self.desk.awakes();
            self.has_news |= !self.completions.is_empty();
        }
    }

    /// How long it may sleep: not at all for a moment after the last event, if another thread works
    /// on the next one, because waking takes longer than that.
    fn patience(&mut self) -> Duration {
        if !self.is_alone {
            if std::mem::take(&mut self.has_news) {
                self.last_news = self.looked;
            }
            if self.looked.saturating_duration_since(self.last_news) < WATCHED {
                std::thread::yield_now();
                return Duration::ZERO;
            }
        }
        if self.desk.falls_asleep() { TICK } else { Duration::ZERO }
    }

    /// Hands all pending events to the engine.
    fn hand_in(&mut self, array: &mut LockedArray, is_time: bool) -> Result<(), ServerError> {
        self.completed(array);
        self.take_requests(array)?;
        self.take_incoming(array);
        // As much of the backlog as the engine takes.
        while let Some(job) = self.backlog.pop_front() {
            if let Some(job) = self.submit(array, job)? {
                self.backlog.push_front(job);
                break;
            }
        }
        if is_time || !self.is_alone {
            self.looked = Instant::now();
            array.look(self.number, self.looked);
        }
        Ok(())
    }

    /// Turns pending requests of a ublk queue, each within a chunk except for zeroes, into jobs; answers
    /// go the way of all others. A request stays in its queue's thread, so a write wakes that one twice
    /// at most: when it comes, and when its last copy is durable.
    fn take_requests(&mut self, array: &mut LockedArray) -> Result<(), ServerError> {
        while let Some(request) = self.ring.next_request() {
            let UblkRequest { tag, kind, offset, length, buffer } = request;
            let from = Asker::Ublk(tag);
            let kind = match kind {
                UblkKind::Read => RequestKind::Read,
                UblkKind::Write => RequestKind::Write,
                UblkKind::Flush => RequestKind::Flush,
                UblkKind::Zero => RequestKind::Zero,
                UblkKind::Other => {
                    self.settle(from, Err(Refusal::Io), 0, Some(buffer))?;
                    continue;
                }
            };
            let length = if kind == RequestKind::Flush { 0 } else { length };
            let data = if kind == RequestKind::Write {
                WritePayload::Lent(buffer)
            } else {
                if let Some(unused) = self.ring.take_back(buffer) {
                    self.desk.give_back(unused);
                }
                WritePayload::None
            };
            let job = ArrayJob { kind, offset, length, data, from };
            // In the order in which they came.
            let waits = if self.backlog.is_empty() { self.submit(array, job)? } else { Some(job) };
            if let Some(job) = waits {
                self.backlog.push_back(job);
            }
        }
        Ok(())
    }

    fn take_incoming(&mut self, array: &mut LockedArray) {
        let Some(incoming) = self.desk.take() else { return };
        self.has_news |= !incoming.jobs.is_empty();
        self.backlog.extend(incoming.jobs);
        for order in incoming.orders {
            order(&mut self.ring, array);
        }
        self.is_alone = self.ring.serves_queue();
    }

    /// Takes this thread's work, and leaves the rest for other threads, which must be woken. With a
    /// single thread, only the lists move.
    fn take_over(&mut self, array: &mut LockedArray) -> Threads {
        array.note_lost();
        if !array.out.sums.is_empty() {
            self.add_up(&mut array.out.sums);
        }
        let (number, mut others) = (self.number, 0);
        std::mem::swap(&mut self.ops, &mut array.out.ops);
        let mut at = 0;
        while let Some(op) = self.ops.get(at) {
            let begins = array.begins(op);
            match LockedArray::thread_of(op.buffer) {
                Some(thread) if begins && thread == number => at += 1,
                None if begins => {
                    let op = *op;
                    self.stage(array, &op);
                    at += 1;
                }
                other => others |= self.leave(array, at, other.filter(|_| begins)),
            }
        }
        if !array.out.answers.is_empty() {
            std::mem::swap(&mut self.answers, &mut array.out.answers);
            array.requests -= self.answers.len() as u32;
            let mut at = 0;
            while let Some(answer) = self.answers.get(at) {
                let thread = PieceName(answer.tag as u32).thread();
                if thread == number {
                    at += 1;
                } else {
                    array.due[usize::from(thread)].answers.push(self.answers.swap_remove(at));
                    others |= 1 << thread;
                }
            }
            // There is room now.
            others |= array.waiting();
        }
        let ThreadWork { ops, answers, backlog } = &mut array.due[usize::from(number)];
        if !(ops.is_empty() && answers.is_empty()) {
            self.ops.append(ops);
            self.answers.append(answers);
        }
        *backlog = self.backlog.len() as u32;
        others & !(1 << number)
    }

    /// Copies the data to write as it is now, if the engine or the next sum changes it.
    #[cold]
    fn stage(&mut self, array: &LockedArray, op: &MemberOp) {
        match (op.buffer, op.kind) {
            (OpBuffer::Metadata(block), _) => {
                let copy = self.desk.copy_of(array.engine.metadata(block));
                self.staged.push_back(copy);
            }
            (OpBuffer::Stripe { .. }, MemberOpKind::Read | MemberOpKind::Compare) => {}
            (OpBuffer::Stripe { .. }, _) => self.stage_stripe(&array.engine, op),
            (OpBuffer::Request { .. } | OpBuffer::Copy(_) | OpBuffer::None, _) => {}
        }
    }

    /// Leaves an operation for its thread, or drops it if it has none.
    #[cold]
    fn leave(&mut self, array: &mut LockedArray, at: usize, thread: Option<u8>) -> Threads {
        let op = self.ops.swap_remove(at);
        let Some(thread) = thread else { return 0 };
        array.due[usize::from(thread)].ops.push(op);
        1 << thread
    }

    /// Gives a job to the engine; returns it if the engine has no room.
    #[inline(always)]
    fn submit(
        &mut self,
        array: &mut LockedArray,
        job: ArrayJob,
    ) -> Result<Option<ArrayJob>, ServerError> {
        let piece = self.free_piece();
        let PieceName(name) = PieceName::new(self.number, piece);
        let ArrayJob { kind, offset, length, .. } = job;
        let request = ArrayRequest { tag: name.into(), kind, offset, length, buffer: name };
        // The piece is there before the first operation that names it is carried out.
        let error = match array.engine.submit(request, &mut array.out) {
            Ok(()) => {
                array.requests += 1;
                let memory = self.lend(job.data).map_or(PieceMemory::None, PieceMemory::Written);
                let piece = &mut self.pieces[piece as usize];
                (piece.from, piece.length, piece.memory) = (Some(job.from), length, memory);
                piece.serial = piece.serial.wrapping_add(1);
                return Ok(None);
            }
            Err(error) => error,
        };
        self.free_pieces.push(piece);
        if error == RequestError::Busy {
            return Ok(Some(job));
        }
        let is_ending = error == RequestError::Stopped && array.is_closing;
        let error = if is_ending { Refusal::Shutdown } else { Refusal::Io };
        let data = self.lend(job.data);
        self.settle(job.from, Err(error), length, data)?;
        Ok(None)
    }

    fn free_piece(&mut self) -> u32 {
        self.free_pieces.pop().unwrap_or_else(|| {
            self.pieces.push(RequestPiece {
                from: None,
                length: 0,
                serial: 0,
                memory: PieceMemory::None,
            });
            self.pieces.len() as u32 - 1
        })
    }

    #[inline(always)]
    fn lend(&mut self, data: WritePayload) -> Option<LentBuffer> {
        match data {
            WritePayload::None => None,
            WritePayload::Lent(lent) => Some(lent),
            WritePayload::Own(buffer) => Some(self.ring.lend(buffer)),
        }
    }

    fn begin(&mut self, op: &MemberOp) -> Result<(), ServerError> {
        let own = self.own_buffer(op)?;
        let is_read = matches!(op.kind, MemberOpKind::Read | MemberOpKind::Compare);
        let is_metadata = matches!(op.buffer, OpBuffer::Metadata(_));
        let &MemberOp { device, tag, .. } = op;
        let header = if op.kind == MemberOpKind::Log { BLOCK as u32 } else { 0 };
        let length = op.length + header;
        let flight = SubmittedOp { device, tag, length, is_read, is_metadata, own };
        let index = self.free_flights.pop().unwrap_or(self.flights.len() as u32);
        let operation = MemberOperation {
            member: device.into(),
            action: if is_read {
                MemberAction::Read
            } else {
                MemberAction::Write(WriteFlags::Dsync)
            },
            offset: op.offset,
            length,
            tag: index,
        };
        #[cfg(test)]
        let operation = self.shared.probe.see(op, operation);
        let buffer = match (&flight.own, op.kind, op.buffer) {
            (
                Own::Staged(lent)
                | Own::Log(lent)
                | Own::Piece(lent, ..)
                | Own::Copy(lent, _)
                | Own::Stripe(lent, ..)
                | Own::Compared(lent, _),
                ..,
            ) => Some(lent),
            (Own::Nothing, MemberOpKind::Zero, _) => Some(&self.zeros),
            (Own::Nothing, _, OpBuffer::Copy(number)) => self.copies[usize::from(number)].as_ref(),
            (Own::Nothing, _, OpBuffer::Request { buffer, .. }) => {
                match &self.pieces[PieceName(buffer).index()].memory {
                    PieceMemory::Written(lent) => Some(lent),
                    PieceMemory::None | PieceMemory::Read(_) => None,
                }
            }
            (Own::Nothing, _, OpBuffer::Metadata(_) | OpBuffer::Stripe { .. } | OpBuffer::None) => {
                None
            }
        };
        self.ring.push(operation, buffer)?;
        match self.flights.get_mut(index as usize) {
            Some(place) => *place = Some(flight),
            None => self.flights.push(Some(flight)),
        }
        Ok(())
    }

    #[inline(always)]
    fn completed(&mut self, array: &mut LockedArray) {
        for at in 0..self.completions.len() {
            let MemberCompletion { tag: index, result } = self.completions[at];
            let place = self.flights.get_mut(index as usize);
            let Some(flight) = place.and_then(Option::take) else { continue };
            self.free_flights.push(index);
            let is_good = u32::try_from(result) == Ok(flight.length);
            let SubmittedOp { device, tag, is_read, is_metadata, .. } = flight;
            // A member that was given up is not listened to.
            let is_heard = array.ended(device, is_good, is_read, is_metadata);
            let is_alike = self.keep_read(flight.own, is_good && is_heard, flight.length);
            if is_heard {
                array.completed(
                    tag,
                    match (is_good, is_alike) {
                        (false, _) => OpOutcome::Error,
                        (true, false) => OpOutcome::Differs,
                        (true, true) => OpOutcome::Done,
                    },
                );
            }
        }
        self.completions.clear();
    }

    fn answer(&mut self) -> Result<(), ServerError> {
        for at in 0..self.answers.len() {
            let answer = self.answers[at];
            let index = PieceName(answer.tag as u32).index();
            let piece = &mut self.pieces[index];
            let memory = std::mem::replace(&mut piece.memory, PieceMemory::None);
            let length = piece.length;
            let Some(from) = piece.from.take() else { continue };
            self.free_pieces.push(index as u32);
            let buffer = match memory {
                PieceMemory::Written(lent) | PieceMemory::Read(lent) => Some(lent),
                PieceMemory::None => None,
            };
            // The status has the cause.
            self.settle(from, answer.result.map_err(|_| Refusal::Io), length, buffer)?;
        }
        self.answers.clear();
        Ok(())
    }

    /// Answers the requester. The buffer has the read data, or is free.
    fn settle(
        &mut self,
        from: Asker,
        result: Result<(), Refusal>,
        length: u32,
        buffer: Option<LentBuffer>,
    ) -> Result<(), ServerError> {
        let ring = &mut self.ring;
        match from {
            Asker::Mailbox(number, mailbox) => {
                let data = buffer.and_then(|lent| ring.take_back(lent));
                mailbox.put(FinishedJob { number, result, data });
            }
            Asker::Ublk(tag) => {
                let buffer = buffer.and_then(|lent| ring.idle(lent));
                let buffer = buffer.unwrap_or_else(|| ring.lend(self.desk.buffer()));
                ring.answer(tag, result.map_or(EIO, |()| length.cast_signed()), buffer)?;
            }
        }
        Ok(())
    }

    /// Waits for background copies that are on their way, for as long as a member may take.
    fn drain(&mut self) -> Result<(), ServerError> {
        let (begin, shared) = (Instant::now(), Arc::clone(&self.shared));
        loop {
            let mut array = shared.array()?;
            self.completed(&mut array);
            let is_busy = self.flights.iter().flatten().any(|flight| array.is_used(flight.device));
            drop(array);
            if !is_busy || begin.elapsed() > self.timeout {
                return Ok(());
            }
            self.ring.exchange(TICK, &mut self.completions)?;
        }
    }
}

impl Drop for RingThread {
    /// Every requester gets an answer, also when this thread ends by a fault.
    fn drop(&mut self) {
        let incoming = self.shared.end(self.number);
        let waiting = std::mem::take(&mut self.backlog).into_iter().chain(incoming.jobs);
        let unanswered = self.pieces.iter_mut().filter_map(|piece| piece.from.take());
        for from in waiting.map(|job| job.from).chain(unanswered) {
            // The users of a ublk device wait for the next server.
            if let Asker::Mailbox(number, mailbox) = from {
                mailbox.put(FinishedJob { number, result: Err(Refusal::Shutdown), data: None });
            }
        }
        // A member that was given up may never answer.
        if self.ring.in_flight() > 0 {
            self.ring.abandon();
        }
    }
}
