//! The client: an engine whose target is an export of an NBD server.
//!
//! ```text
//!  operations ──► Outbox ──► socket ──► inbox ──► replies ──► data into slots, completions
//!                 one call             one call
//! ```
//!
//! A completion with -ENOTCONN means that the connection was lost: all operations in flight then,
//! and all later ones, get it. Reads end at the end of the export, writes beyond it get -ENOSPC, as
//! with a device of the kernel. The engine does not reconnect, and has one export.

pub(crate) mod handshake;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use durio_block::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, LookGap, Operation,
    OperationKind, Ticks, WATCHED, WriteFlags, wait_until,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::socket::Socket;
use crate::wire::{RequestHead, command, flag};
use crate::{Export, NbdError, NbdErrorKind, Uri};
use handshake::ClientAgreement;
use stream::{ClientInbox, Outbox, ReceivedBytes, Reply, ReplyPart};

/// How long a server may take for each word of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a dropped engine waits for operations in flight: longer than a stall of a disk.
const DROP_TIMEOUT: Duration = Duration::from_secs(10);

/// The engine over a connection to an NBD server.
#[derive(Debug)]
pub struct NbdEngine<C: Clock> {
    clock: C,
    socket: Socket,
    agreed: ClientAgreement,
    buffers: Buffers,
    outbox: Outbox,
    inbox: ClientInbox,
    /// Slots of operations whose completion the caller has not taken.
    busy: Vec<bool>,
    /// Requests in flight, by slot.
    flights: Vec<Option<UnansweredRequest>>,
    in_flight: usize,
    /// Distinguishes requests of one slot, so that a late answer does not match the next.
    sequence: u32,
    /// The place of arriving data.
    incoming: Option<IncomingRead>,
    ready: VecDeque<Completion>,
    watch: LookGap,
    lost: Option<NbdError>,
}

/// A request without its complete answer.
#[derive(Debug, Clone, Copy)]
struct UnansweredRequest {
    sequence: u32,
    is_transfer: bool,
    is_read: bool,
    offset: u64,
    length: u32,
    /// Bytes of a read that have arrived or are arriving.
    received: u32,
    /// The first error of its answer; 0 for none.
    errno: i32,
    submitted_at: Option<Ticks>,
}

/// Data that is arriving.
#[derive(Debug, Clone, Copy)]
struct IncomingRead {
    slot: usize,
    /// The next byte in the slot, and how many are missing.
    at: usize,
    left: usize,
    is_last: bool,
}

impl<C: Clock> NbdEngine<C> {
    /// Connects to an export.
    ///
    /// # Errors
    /// If no server answers, if it does not have the export or not in blocks of the slots' size, or
    /// if it violates the protocol.
    pub fn connect(uri: &Uri, clock: C, buffers: Buffers) -> Result<Self, NbdError> {
        let engine = Self::over(uri.connect()?, &uri.export, clock, buffers);
        engine.map_err(|error| match error.subject {
            None => error.about(uri),
            Some(_) => error,
        })
    }

    /// The same over a socket that is connected.
    pub fn over(
        socket: Socket,
        export: &str,
        clock: C,
        buffers: Buffers,
    ) -> Result<Self, NbdError> {
        let set = |timeout| {
            socket.set_timeout(timeout).map_err(|error| NbdError::new("set a timeout", error))
        };
        set(Some(HANDSHAKE_TIMEOUT))?;
        let agreed = handshake::run(&mut &socket, export, true)?;
        set(None)?;
        if buffers.slot_length() > agreed.export.block_size_max as usize {
            let (wanted, most) = (buffers.slot_length(), agreed.export.block_size_max);
            let reason = format!("the server takes at most {most} bytes at a time");
            let error = NbdError::because(NbdErrorKind::Unsupported, "send blocks of", reason);
            return Err(error.about(format!("{wanted} bytes")));
        }
        let slots = buffers.count();
        Ok(Self {
            clock,
            socket,
            agreed,
            buffers,
            outbox: Outbox::default(),
            inbox: ClientInbox::new(),
            busy: vec![false; slots],
            flights: vec![None; slots],
            in_flight: 0,
            sequence: 0,
            incoming: None,
            ready: VecDeque::with_capacity(slots),
            watch: LookGap::default(),
            lost: None,
        })
    }

    /// The server's description of its export.
    #[must_use]
    pub fn export(&self) -> &Export {
        &self.agreed.export
    }

    /// Why the connection was lost, if it was.
    #[must_use]
    pub fn lost(&self) -> Option<&NbdError> {
        self.lost.as_ref()
    }

    /// Takes the operations, and sends the requests for them.
    fn submit(&mut self, operations: &[Operation]) {
        self.claim(operations);
        let mut follows_link = false;
        for operation in operations {
            let follows = std::mem::replace(&mut follows_link, operation.link);
            let refusal = match (operation.link, follows) {
                (true, _) => Err(-libc::EOPNOTSUPP),
                (false, true) => Err(-libc::ECANCELED),
                (false, false) => self.request_of(operation),
            };
            match refusal {
                Ok(head) => self.ask(operation, head),
                Err(result) => self.finish(operation.slot, result, None, self.clock.now()),
            }
        }
        self.send();
        let now = self.clock.now();
        for operation in operations {
            if let Some(flight) = &mut self.flights[operation.slot as usize] {
                flight.submitted_at = Some(now);
            }
        }
    }

    /// Marks the slots as in flight. All programmer's errors show here, before any effect.
    fn claim(&mut self, operations: &[Operation]) {
        let slot_length = self.buffers.slot_length() as u64;
        for operation in operations {
            let (slot, length) = (operation.slot as usize, operation.length);
            assert!(!self.busy[slot], "slot {slot} is in flight");
            assert_eq!(operation.file, 0, "an engine over NBD has one file");
            if operation.kind.is_transfer() {
                assert!(length <= slot_length, "{length} bytes in a slot of {slot_length}");
                // Panics if the slot is bare.
                let _ = self.buffers.slot(slot);
            }
            self.busy[slot] = true;
        }
    }

    /// The request of an operation, or its result without one.
    fn request_of(&self, operation: &Operation) -> Result<RequestHead, i32> {
        if self.lost.is_some() {
            return Err(-libc::ENOTCONN);
        }
        let export = self.export();
        let (command, flags, length) = match operation.kind {
            OperationKind::Read => {
                let left = export.size.saturating_sub(operation.offset);
                (command::READ, 0, operation.length.min(left))
            }
            OperationKind::Write => {
                (command::WRITE, self.flags_of_write(operation)?, operation.length)
            }
            // A server without flushes has nothing to flush.
            OperationKind::Fsync | OperationKind::Fdatasync if !export.flush => return Err(0),
            OperationKind::Fsync | OperationKind::Fdatasync => {
                return Ok(self.head(command::FLUSH, 0, 0, 0));
            }
            OperationKind::Reallocate if export.write_zeroes => {
                (command::WRITE_ZEROES, flag::NO_HOLE, operation.length)
            }
            OperationKind::Reallocate | OperationKind::SyncFileRange => {
                return Err(-libc::EOPNOTSUPP);
            }
        };
        if operation.kind != OperationKind::Read {
            self.check_write(operation)?;
        }
        let min = u64::from(export.block_size_min);
        if !operation.offset.is_multiple_of(min) || !length.is_multiple_of(min) {
            return Err(-libc::EINVAL);
        }
        match u32::try_from(length) {
            Ok(0) => Err(0),
            Ok(length) => Ok(self.head(command, flags, operation.offset, length)),
            Err(_) => Err(-libc::EINVAL),
        }
    }

    fn head(&self, command: u16, flags: u16, offset: u64, length: u32) -> RequestHead {
        RequestHead { flags, command, cookie: 0, offset, length }
    }

    fn flags_of_write(&self, operation: &Operation) -> Result<u16, i32> {
        match operation.flags {
            WriteFlags::None => Ok(0),
            WriteFlags::Dsync | WriteFlags::Sync if self.export().fua => Ok(flag::FUA),
            // As in a kernel: without a volatile cache every write is durable.
            WriteFlags::Dsync | WriteFlags::Sync if !self.export().flush => Ok(0),
            WriteFlags::Dsync | WriteFlags::Sync => Err(-libc::EOPNOTSUPP),
        }
    }

    fn check_write(&self, operation: &Operation) -> Result<(), i32> {
        let end = operation.offset.checked_add(operation.length);
        if self.export().read_only {
            return Err(-libc::EPERM);
        }
        match end {
            Some(end) if end <= self.export().size => Ok(()),
            Some(_) => Err(-libc::ENOSPC),
            None => Err(-libc::EINVAL),
        }
    }

    fn ask(&mut self, operation: &Operation, head: RequestHead) {
        let slot = operation.slot as usize;
        self.sequence = self.sequence.wrapping_add(1);
        let cookie = u64::from(self.sequence) << 32 | u64::from(operation.slot);
        let is_write = head.command == command::WRITE;
        let length = if is_write { head.length as usize } else { 0 };
        if self.in_flight == 0 {
            // No completion was visible until here.
            self.watch.waited(self.clock.now());
        }
        self.flights[slot] = Some(UnansweredRequest {
            sequence: self.sequence,
            is_transfer: operation.kind.is_transfer(),
            is_read: head.command == command::READ,
            offset: head.offset,
            length: head.length,
            received: 0,
            errno: 0,
            submitted_at: None,
        });
        self.in_flight += 1;
        self.outbox.push(&RequestHead { cookie, ..head }, slot, length);
    }

    /// Sends everything pending. If the server takes no more until its answers are read, reads
    /// them.
    fn send(&mut self) {
        while !self.outbox.is_empty() {
            match self.outbox.send(&self.socket, &self.buffers) {
                Ok(true) => {}
                Ok(false) => {
                    self.wait(PollFlags::IN | PollFlags::OUT, None);
                    self.look(false);
                }
                Err(error) => self.lose(NbdError::new("send requests", error)),
            }
        }
    }

    /// Waits for the socket: true if it is ready, false if the time is over.
    fn wait(&mut self, wanted: PollFlags, nanos: Option<u64>) -> bool {
        let timeout = nanos.map(|nanos| Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            // Below 10⁹.
            tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
        });
        let mut awaited = [PollFd::from_borrowed_fd(self.socket.as_fd(), wanted)];
        // Interrupted by a signal: the caller polls again.
        let is_ready = poll(&mut awaited, timeout.as_ref()) != Ok(0);
        self.watch.waited(self.clock.now());
        is_ready
    }

    /// Takes all available answers; waits for the first if `may_wait`.
    fn look(&mut self, may_wait: bool) {
        let mut may_wait = may_wait;
        loop {
            let slot = self.incoming.map(|incoming| {
                &mut self.buffers.slot_mut(incoming.slot)[incoming.at..incoming.at + incoming.left]
            });
            let arrived = match self.inbox.receive(&self.socket, slot, may_wait) {
                Ok(Some(arrived)) => arrived,
                Ok(None) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return self.lose(NbdError::new("receive answers", error)),
            };
            if arrived.count == 0 {
                let reason = "the server closed the connection";
                return self.lose(NbdError::because(NbdErrorKind::Lost, "receive answers", reason));
            }
            let now = self.clock.now();
            match may_wait {
                true => self.watch.waited(now),
                false => self.watch.looked(now),
            }
            if self.take(arrived, now).is_none() {
                let reason = "the server's answer does not match the request";
                let error = NbdError::because(NbdErrorKind::Protocol, "receive answers", reason);
                return self.lose(error);
            }
            if !arrived.may_be_more {
                return;
            }
            may_wait = false;
        }
        self.watch.looked(self.clock.now());
    }

    /// Processes arrived data; `None` if it violates the protocol.
    fn take(&mut self, arrived: ReceivedBytes, now: Ticks) -> Option<()> {
        self.advance(arrived.in_slot, now)?;
        loop {
            if let Some(incoming) = self.incoming {
                let slot = &mut self.buffers.slot_mut(incoming.slot)[incoming.at..];
                let moved = self.inbox.take_into(&mut slot[..incoming.left]);
                self.advance(moved, now)?;
                if self.incoming.is_some() {
                    return Some(());
                }
            }
            let bytes = self.inbox.bytes();
            let Some((used, reply)) = stream::parse(bytes, self.agreed.structured).ok()? else {
                return Some(());
            };
            self.inbox.consume(used);
            self.take_reply(reply, now)?;
        }
    }

    /// Accounts for incoming data that has reached its slot.
    fn advance(&mut self, count: usize, now: Ticks) -> Option<()> {
        let Some(incoming) = &mut self.incoming else { return Some(()) };
        incoming.at += count;
        incoming.left -= count;
        if incoming.left > 0 {
            return Some(());
        }
        let IncomingRead { slot, is_last, .. } = *incoming;
        self.incoming = None;
        if is_last { self.end(slot, now) } else { Some(()) }
    }

    fn take_reply(&mut self, reply: Reply, now: Ticks) -> Option<()> {
        let slot = usize::try_from(reply.cookie & u64::from(u32::MAX)).ok()?;
        let flight = self.flights.get_mut(slot)?.as_mut()?;
        if u64::from(flight.sequence) != reply.cookie >> 32 {
            return None;
        }
        match reply.part {
            ReplyPart::Well if flight.is_read => {
                // A read's structured answer always has structured data.
                let all = ReplyPart::Data { offset: flight.offset, length: flight.length };
                let is_simple = !self.agreed.structured;
                return is_simple
                    .then_some(())
                    .and_then(|()| self.take_reply(Reply { part: all, ..reply }, now));
            }
            ReplyPart::Well | ReplyPart::Nothing => {}
            ReplyPart::Failed(errno) if flight.errno == 0 => flight.errno = errno,
            ReplyPart::Failed(_) => {}
            ReplyPart::Data { offset, length } => {
                let at = flight.place_of(offset, length)?;
                let left = length as usize;
                self.incoming = Some(IncomingRead { slot, at, left, is_last: reply.is_last });
                return Some(());
            }
            ReplyPart::Zeros { offset, length } => {
                let at = flight.place_of(offset, length)?;
                self.buffers.slot_mut(slot)[at..at + length as usize].fill(0);
            }
        }
        if reply.is_last { self.end(slot, now) } else { Some(()) }
    }

    /// Ends a complete answer; `None` if it lacks data.
    fn end(&mut self, slot: usize, now: Ticks) -> Option<()> {
        let is_whole = |request: &UnansweredRequest| {
            request.errno != 0 || !request.is_read || request.received == request.length
        };
        // An incomplete flight stays, and ends with the connection.
        let flight = self.flights[slot].take_if(|flight| is_whole(flight))?;
        self.in_flight -= 1;
        let result = if flight.errno == 0 { flight.result() } else { -flight.errno };
        let slot = u32::try_from(slot).ok()?;
        self.finish(slot, result, flight.submitted_at, now);
        Some(())
    }

    fn finish(&mut self, slot: u32, result: i32, submitted_at: Option<Ticks>, now: Ticks) {
        let submitted_at = submitted_at.unwrap_or(now);
        self.ready.push_back(Completion { slot, result, submitted_at, completed_at: now });
    }

    /// Ends everything in flight: the connection is unusable.
    fn lose(&mut self, error: NbdError) {
        self.socket.shut_down();
        self.outbox.clear();
        self.incoming = None;
        for slot in 0..self.flights.len() {
            if let Some(flight) = self.flights[slot].take() {
                let slot = u32::try_from(slot).unwrap_or(u32::MAX);
                self.finish(slot, -libc::ENOTCONN, flight.submitted_at, self.clock.now());
            }
        }
        self.in_flight = 0;
        self.lost.get_or_insert(error);
    }

    /// Hands ready completions to the caller, oldest first.
    fn give(&mut self, completions: &mut [Completion]) -> usize {
        let count = completions.len().min(self.ready.len());
        for (place, completion) in completions.iter_mut().zip(self.ready.drain(..count)) {
            self.busy[completion.slot as usize] = false;
            *place = completion;
        }
        count
    }

    /// Polls until a completion is ready, or the deadline has passed.
    fn look_until(&mut self, deadline: Ticks) {
        loop {
            let left = self.clock.nanos(deadline.since(self.clock.now()));
            if left > WATCHED && self.ready.is_empty() {
                self.wait(PollFlags::IN, Some(left - WATCHED));
            }
            self.look(false);
            if left == 0 || !self.ready.is_empty() || self.in_flight == 0 {
                return;
            }
        }
    }
}

impl UnansweredRequest {
    /// The place of data in the slot; `None` if it was not requested.
    fn place_of(&mut self, offset: u64, length: u32) -> Option<usize> {
        let at = offset.checked_sub(self.offset)?;
        let fits = self.is_read && at.checked_add(length.into())? <= self.length.into();
        self.received =
            self.received.checked_add(length).filter(|&received| received <= self.length)?;
        usize::try_from(at).ok().filter(|_| fits)
    }

    /// Bytes moved: at most a slot's length.
    fn result(&self) -> i32 {
        if self.is_transfer { i32::try_from(self.length).unwrap_or(i32::MAX) } else { 0 }
    }
}

impl<C: Clock> Engine for NbdEngine<C> {
    type Clock = C;

    fn clock(&self) -> &C {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        let write_flags = self.export().fua || !self.export().flush;
        Capabilities { asynchronous: true, write_flags, range_syncs: false, links: false }
    }

    fn facts(&self) -> EngineFacts {
        let export = self.export();
        let has = [
            (true, "nbd"),
            (self.agreed.structured, "structured_replies"),
            (export.flush, "flush"),
            (export.fua, "fua"),
        ];
        let features = has.iter().filter(|(has, _)| *has).map(|(_, name)| (*name).to_owned());
        let mut facts = EngineFacts { features: features.collect(), fallbacks: Vec::new() };
        if !export.flush {
            let words = "syncs send nothing: the server says that it has no volatile cache";
            facts.fallbacks.push(words.to_owned());
        }
        facts
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        self.buffers.slot_mut(slot as usize)
    }

    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        assert!(!completions.is_empty(), "no room for completions");
        self.submit(operations);
        if self.in_flight > 0 {
            self.look(self.ready.is_empty());
        }
        while self.ready.is_empty() && self.in_flight > 0 {
            self.look(true);
        }
        Ok(self.give(completions))
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        assert!(!completions.is_empty(), "no room for completions");
        self.submit(operations);
        if self.in_flight > 0 {
            self.look_until(deadline);
        }
        let count = self.give(completions);
        if count == 0 {
            wait_until(&self.clock, deadline);
        }
        Ok(count)
    }

    fn looked_at(&self) -> Ticks {
        self.watch.last()
    }

    fn take_unwatched(&mut self) -> u64 {
        self.watch.take()
    }
}

impl<C: Clock> Drop for NbdEngine<C> {
    /// Waits for operations in flight, and disconnects in order.
    fn drop(&mut self) {
        let end = Instant::now() + DROP_TIMEOUT;
        while self.in_flight > 0 {
            let left = end.saturating_duration_since(Instant::now());
            let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
            if !self.wait(PollFlags::IN, Some(nanos)) {
                break;
            }
            self.look(false);
        }
        if self.lost.is_none() {
            self.outbox.push(&self.head(command::DISCONNECT, 0, 0, 0), 0, 0);
            // A server that does not accept it sees the end of the connection.
            let _ = self.outbox.send(&self.socket, &self.buffers);
        }
        self.socket.shut_down();
    }
}
