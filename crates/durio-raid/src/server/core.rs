//! The thread: events to the engine, its operations to the ring, its answers to whoever asked.
//!
//! In: jobs, orders, completions, time. Out: operations on members, answers. Not here: sockets.
//!
//! Each read or write lies within a chunk, so it is one part for the engine and one buffer; zeroes may go
//! over several chunks, and need none. A read gets a
//! buffer of its own for each member that is asked: what a member answers too late goes nowhere.

mod own;
mod ublk;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use durio_block::{
    Buffers, LentBuffer, MemberAction, MemberCompletion, MemberOperation, MemberRing, WriteFlags,
};
use durio_units::Nanos;

use self::own::Own;
use super::queue::{Asker, BUFFERS_KEPT, Done, Job, JobError, Shared, WATCHED};
use super::{DEVICES_MAX, DeviceCounters, MemberFile, ServerError, ServerStatus};
use crate::{
    Buffer, COPY_BUFFERS, Config, Engine, JoinAs, MemberOp, MemberOpKind, Newcomer, OpTag, Outcome,
    Output, Plan, Request, SubmitError,
};

/// What another thread has this one do.
pub(super) type Order = Box<dyn FnOnce(&mut Core) + Send>;

/// How often the engine is told the time.
const TICK: Duration = Duration::from_millis(250);
/// A longer time without a look at the clock was not the members'.
const STEP_MAX: Duration = Duration::from_secs(1);
/// How a ublk request fails, whatever the cause.
const EIO: i32 = -5;
/// Bytes of buffers that the kernel keeps the pages of.
const REGISTERED_BYTES: usize = 8 << 20;
/// Operations that the kernel takes in one call.
const RING_DEPTH: u32 = 256;

/// A request that the engine has.
#[derive(Debug)]
struct Piece {
    from: Option<Asker>,
    length: u32,
    /// Tells it from others that had its place.
    serial: u32,
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    None,
    /// What is written.
    Lent(LentBuffer),
    /// What was read.
    Read(Buffers),
}

/// An operation on its way.
#[derive(Debug)]
struct Flight {
    device: u8,
    tag: OpTag,
    length: u32,
    is_read: bool,
    is_metadata: bool,
    own: Own,
}

/// All that the thread has.
pub(super) struct Core {
    engine: Engine,
    out: Output,
    ring: Option<MemberRing>,
    shared: Arc<Shared>,
    backlog: VecDeque<Job>,
    pieces: Vec<Piece>,
    free_pieces: Vec<u32>,
    flights: Vec<Option<Flight>>,
    free_flights: Vec<u32>,
    metadata_in_flight: u32,
    /// What was read for the copies on their way.
    copies: [Option<LentBuffer>; COPY_BUFFERS as usize],
    /// The same of the first, for comparisons: a member that was given up may still be writing the other.
    copied: Vec<u8>,
    zeros: LentBuffer,
    devices: Vec<DeviceCounters>,
    looked: Instant,
    now: Duration,
    told: Duration,
    timeout: Duration,
    has_news: bool,
    last_news: Instant,
    is_closing: bool,
    /// No other thread has jobs for this one: whatever comes wakes it.
    is_alone: bool,
}

impl Core {
    pub(super) fn new(
        plan: Plan,
        config: Config,
        members: Vec<MemberFile>,
        shared: Arc<Shared>,
    ) -> Result<Self, ServerError> {
        let mut ring = MemberRing::new(DEVICES_MAX.into(), RING_DEPTH, shared.waker.clone())?;
        let mut devices = vec![DeviceCounters::default(); DEVICES_MAX.into()];
        for member in members {
            let device = &mut devices[usize::from(member.device)];
            (device.is_open, device.is_used) = (true, true);
            ring.set_member(member.device.into(), Some((member.file, member.claim)))?;
        }
        let chunk = shared.chunk as usize;
        let count = (REGISTERED_BYTES / chunk).clamp(1, BUFFERS_KEPT);
        let mut buffers = ring.buffers(count, chunk)?;
        let zeros = buffers.next().ok_or(ServerError::Ended)?;
        buffers.for_each(|it| shared.give_back(it));
        let zeros = ring.lend(zeros);
        let mut out = Output::default();
        // One part each, for each lies within a chunk; zeroes wait until they have theirs.
        let (parts_max, alignment) = (config.requests_max, shared.alignment);
        let config = Config { parts_max, alignment, ..config };
        let engine = Engine::start(plan, &config, &mut out);
        let mut core = Self {
            engine,
            out,
            ring: Some(ring),
            shared,
            backlog: VecDeque::new(),
            pieces: Vec::new(),
            free_pieces: Vec::new(),
            flights: Vec::new(),
            free_flights: Vec::new(),
            metadata_in_flight: 0,
            copies: [const { None }; COPY_BUFFERS as usize],
            copied: Vec::new(),
            zeros,
            devices,
            looked: Instant::now(),
            now: Duration::ZERO,
            told: Duration::ZERO,
            timeout: Duration::from_nanos(config.timeout.get()),
            has_news: false,
            last_news: Instant::now(),
            is_closing: false,
            is_alone: false,
        };
        // Members that are here and that the array does not trust.
        core.drop_unused();
        Ok(core)
    }

    pub(super) fn run(mut self) -> Result<(), ServerError> {
        let mut completions = Vec::new();
        let mut is_time = true;
        loop {
            self.take_incoming();
            self.submit_backlog()?;
            if is_time || !self.is_alone {
                self.tick();
            }
            self.begin_operations()?;
            self.answer()?;
            if self.is_over() {
                return self.drain();
            }
            let patience = self.patience();
            is_time = self.ring()?.exchange(patience, &mut completions)?;
            self.shared.awakes();
            self.has_news |= !completions.is_empty();
            for completion in completions.drain(..) {
                self.completed(completion);
            }
            self.take_requests()?;
        }
    }

    /// How long it may sleep: not at all for a moment after the last event, if another thread is at work
    /// on the next one, for waking takes longer than that.
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
        if self.shared.falls_asleep() { TICK } else { Duration::ZERO }
    }

    fn ring(&mut self) -> Result<&mut MemberRing, ServerError> {
        self.ring.as_mut().ok_or(ServerError::Ended)
    }

    fn take_incoming(&mut self) {
        let Some(incoming) = self.shared.take() else { return };
        self.has_news |= !incoming.jobs.is_empty();
        self.backlog.extend(incoming.jobs);
        for order in incoming.orders {
            order(self);
        }
    }

    /// Gives the engine what it takes.
    fn submit_backlog(&mut self) -> Result<(), ServerError> {
        while let Some(job) = self.backlog.pop_front() {
            if let Some(job) = self.submit(job)? {
                self.backlog.push_front(job);
                break;
            }
        }
        Ok(())
    }

    /// Gives a job to the engine, and back if that has no room.
    fn submit(&mut self, job: Job) -> Result<Option<Job>, ServerError> {
        let piece = self.free_piece();
        let Job { kind, offset, length, .. } = job;
        let request = Request { tag: piece.into(), kind, offset, length, buffer: piece };
        // The piece is there before the first operation that names it is carried out.
        let error = match self.engine.submit(request, &mut self.out) {
            Ok(()) => {
                self.keep_piece(piece, job);
                return Ok(None);
            }
            Err(error) => error,
        };
        self.free_pieces.push(piece);
        if error == SubmitError::Busy {
            return Ok(Some(job));
        }
        let is_ending = error == SubmitError::Stopped && self.is_closing;
        let error = if is_ending { JobError::Ending } else { JobError::Failed };
        self.settle(job.from, Err(error), job.length, job.data)?;
        Ok(None)
    }

    fn free_piece(&mut self) -> u32 {
        self.free_pieces.pop().unwrap_or_else(|| {
            self.pieces.push(Piece { from: None, length: 0, serial: 0, memory: Memory::None });
            self.pieces.len() as u32 - 1
        })
    }

    fn keep_piece(&mut self, index: u32, job: Job) {
        let Job { from, length, data, .. } = job;
        let lent = data.zip(self.ring.as_mut()).map(|(data, ring)| Memory::Lent(ring.lend(data)));
        let piece = &mut self.pieces[index as usize];
        piece.memory = lent.unwrap_or(Memory::None);
        (piece.from, piece.length) = (Some(from), length);
        piece.serial = piece.serial.wrapping_add(1);
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.now += now.saturating_duration_since(self.looked).min(STEP_MAX);
        self.looked = now;
        if self.now - self.told >= TICK {
            self.told = self.now;
            let now = u64::try_from(self.now.as_nanos()).unwrap_or(u64::MAX);
            self.engine.tick(Nanos::new(now), &mut self.out);
        }
    }

    fn begin_operations(&mut self) -> Result<(), ServerError> {
        self.note_lost();
        let mut at = 0;
        // Nothing is added on the way.
        while let Some(op) = self.out.ops.get(at).copied() {
            at += 1;
            self.begin(&op)?;
        }
        self.out.ops.clear();
        Ok(())
    }

    /// What a member that was just given up was to do is not begun.
    fn begin(&mut self, op: &MemberOp) -> Result<(), ServerError> {
        if !self.devices[usize::from(op.device)].is_used {
            return Ok(());
        }
        let own = self.own_buffer(op)?;
        let is_read = matches!(op.kind, MemberOpKind::Read | MemberOpKind::Compare);
        let is_metadata = matches!(op.buffer, Buffer::Metadata(_));
        let &MemberOp { device, tag, length, .. } = op;
        let flight = Flight { device, tag, length, is_read, is_metadata, own };
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
            tag: index.into(),
        };
        let buffer = match (&flight.own, op.kind, op.buffer) {
            (
                Own::Staged(lent) | Own::Piece(lent, ..) | Own::Copy(lent, _) | Own::Compared(lent),
                ..,
            ) => Some(lent),
            (Own::Nothing, MemberOpKind::Zero, _) => Some(&self.zeros),
            (Own::Nothing, _, Buffer::Copy(number)) => self.copies[usize::from(number)].as_ref(),
            (Own::Nothing, _, Buffer::Request { buffer, .. }) => {
                match &self.pieces[buffer as usize].memory {
                    Memory::Lent(lent) => Some(lent),
                    Memory::None | Memory::Read(_) => None,
                }
            }
            (Own::Nothing, _, Buffer::Metadata(_) | Buffer::None) => None,
        };
        let ring = self.ring.as_mut().ok_or(ServerError::Ended)?;
        ring.push(operation, buffer)?;
        self.devices[usize::from(device)].in_flight += 1;
        self.metadata_in_flight += u32::from(is_metadata);
        match self.flights.get_mut(index as usize) {
            Some(place) => *place = Some(flight),
            None => self.flights.push(Some(flight)),
        }
        Ok(())
    }

    fn completed(&mut self, completion: MemberCompletion) {
        let index = completion.tag as u32;
        let Some(flight) = self.flights.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        self.free_flights.push(index);
        self.metadata_in_flight -= u32::from(flight.is_metadata);
        let is_good = u32::try_from(completion.result) == Ok(flight.length);
        let device = &mut self.devices[usize::from(flight.device)];
        device.in_flight -= 1;
        match (is_good, flight.is_read) {
            (true, true) => device.reads += 1,
            (true, false) => device.writes += 1,
            (false, _) => device.errors += 1,
        }
        // A member that was given up is not listened to.
        let is_heard = device.is_used;
        let is_alike = self.keep_read(flight.own, is_good && is_heard, flight.length);
        if is_heard {
            let outcome = match (is_good, is_alike) {
                (false, _) => Outcome::Error,
                (true, false) => Outcome::Differs,
                (true, true) => Outcome::Done,
            };
            self.engine.completed(flight.tag, outcome, &mut self.out);
            self.note_lost();
        }
    }

    fn answer(&mut self) -> Result<(), ServerError> {
        for at in 0..self.out.answers.len() {
            let answer = self.out.answers[at];
            let index = answer.tag as u32;
            let piece = &mut self.pieces[index as usize];
            let memory = std::mem::replace(&mut piece.memory, Memory::None);
            let length = piece.length;
            let Some(from) = piece.from.take() else { continue };
            self.free_pieces.push(index);
            let buffer = match memory {
                Memory::Read(data) => Some(data),
                Memory::Lent(lent) => self.ring()?.take_back(lent),
                Memory::None => None,
            };
            // Which of its errors it was, the status tells.
            self.settle(from, answer.result.map_err(|_| JobError::Failed), length, buffer)?;
        }
        self.out.answers.clear();
        Ok(())
    }

    /// Tells whoever asked. The buffer is what was read, or a free one.
    fn settle(
        &mut self,
        from: Asker,
        result: Result<(), JobError>,
        length: u32,
        buffer: Option<Buffers>,
    ) -> Result<(), ServerError> {
        match from {
            Asker::Mailbox(number, mailbox) => mailbox.put(Done { number, result, data: buffer }),
            Asker::Ublk(tag) => {
                let buffer = buffer.unwrap_or_else(|| self.shared.buffer());
                let result = result.map_or(EIO, |()| length.cast_signed());
                self.ring()?.answer(tag, result, buffer)?;
            }
        }
        Ok(())
    }

    /// What a member that is out was to do does not begin, and what it still answers is not heard.
    fn note_lost(&mut self) {
        if std::mem::take(&mut self.out.has_lost) {
            self.drop_unused();
        }
    }

    fn drop_unused(&mut self) {
        let status = self.engine.status();
        for (number, device) in (0..).zip(&mut self.devices) {
            device.is_used &= status.roles.iter().any(|it| it.device == Some(number));
        }
    }

    fn is_over(&self) -> bool {
        let is_quiet = || {
            let has_no_request = self.free_pieces.len() == self.pieces.len();
            has_no_request && self.metadata_in_flight == 0 && self.backlog.is_empty()
        };
        self.is_closing && (is_quiet() || self.engine.status().stopped.is_some())
    }

    /// Waits for background copies that are on their way, for as long as a member may take.
    fn drain(&mut self) -> Result<(), ServerError> {
        let begin = Instant::now();
        let mut completions = Vec::new();
        let is_busy = |it: &DeviceCounters| it.is_used && it.in_flight > 0;
        while self.devices.iter().any(is_busy) && begin.elapsed() < self.timeout {
            self.ring()?.exchange(TICK, &mut completions)?;
            completions.drain(..).for_each(|it| self.completed(it));
        }
        Ok(())
    }

    pub(super) fn close(&mut self) {
        self.is_closing = true;
        self.engine.close(&mut self.out);
    }

    pub(super) fn status(&self) -> ServerStatus {
        let requests = self.pieces.len() - self.free_pieces.len() + self.backlog.len();
        ServerStatus {
            engine: self.engine.status(),
            devices: self.devices.clone(),
            requests: requests as u32,
        }
    }

    pub(super) fn fail(&mut self, device: u8) {
        self.engine.member_failed(device, &mut self.out);
        self.note_lost();
    }

    pub(super) fn scrub(&mut self, repair: bool) -> Result<(), ServerError> {
        Ok(self.engine.scrub(repair, &mut self.out)?)
    }

    pub(super) fn open(&mut self, member: MemberFile) -> Result<(), ServerError> {
        let MemberFile { device, file, claim } = member;
        self.ring()?.set_member(device.into(), Some((file, claim)))?;
        self.devices[usize::from(device)] =
            DeviceCounters { is_open: true, ..DeviceCounters::default() };
        Ok(())
    }

    pub(super) fn add(&mut self, what: JoinAs, newcomer: &Newcomer) -> Result<(), ServerError> {
        let device = &mut self.devices[usize::from(newcomer.device)];
        if device.is_used {
            return Err(ServerError::Used);
        }
        if device.in_flight > 0 {
            return Err(ServerError::Draining);
        }
        self.engine.add(what, newcomer, &mut self.out)?;
        device.is_used = true;
        Ok(())
    }

    pub(super) fn refuse_newcomer(
        &self,
        what: JoinAs,
        newcomer: &Newcomer,
    ) -> Result<(), ServerError> {
        Ok(self.engine.refuse_newcomer(what, newcomer)?)
    }

    pub(super) fn forget(&mut self, device: u8) -> Result<(), ServerError> {
        let counters = &mut self.devices[usize::from(device)];
        if counters.is_used {
            return Err(ServerError::Used);
        }
        if counters.in_flight > 0 {
            return Err(ServerError::Draining);
        }
        *counters = DeviceCounters::default();
        Ok(self.ring()?.set_member(device.into(), None)?)
    }
}

impl Drop for Core {
    /// Nobody waits for ever: whoever has asked gets an answer, also when this ends by a fault.
    fn drop(&mut self) {
        let incoming = self.shared.end();
        let waiting = std::mem::take(&mut self.backlog).into_iter().chain(incoming.jobs);
        let unanswered = self.pieces.iter_mut().filter_map(|it| it.from.take());
        for from in waiting.map(|it| it.from).chain(unanswered) {
            // The users of a ublk device wait for the next server.
            if let Asker::Mailbox(number, mailbox) = from {
                mailbox.put(Done { number, result: Err(JobError::Ending), data: None });
            }
        }
        // A member that was given up may never answer.
        let has_lost = self.devices.iter().any(|it| it.in_flight > 0);
        if let Some(ring) = self.ring.take().filter(|_| has_lost) {
            ring.abandon();
        }
    }
}
