//! The requests of one connection.
//!
//! ```text
//!  stream ──► Inbox ──► take: heads, checked ──► carry_out: the storage ──► Replies ──► stream
//!             one call   all that is whole         one call                  one call
//! ```
//!
//! Takes a stream after the handshake and the storage's connection. Requests that reach the storage
//! are within the export, aligned, allowed, and not empty; all others are refused here, with a
//! message if the client takes it. `replies` writes the answers.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::handshake::ServerAgreement;
use super::violation;
use crate::server::connections::{Budget, BudgetShare};
use crate::server::stream::{Inbox, Replies, ReplyBody};
use crate::wire::{RequestHead, command, flag, number_and_words};
use crate::{Command, Connection, Export, NbdError, Refusal, Request};

/// Bytes of data after which a batch is carried out, even if more has arrived: this plus one
/// request of the largest size bounds a connection's memory.
const BATCH_BYTES: usize = 4 << 20;

/// Requests of a batch.
const BATCH_REQUESTS: usize = 1024;

/// Memory for read data, kept between batches. More comes from the budget that all connections
/// share, and so does memory for a longer request.
const BYTES_KEPT: usize = 4 << 20;

/// How long a request with memory from the budget may take to arrive.
const LARGE_MAX: Duration = Duration::from_secs(60);

/// Serves requests until the client leaves.
pub(super) fn run(
    stream: &mut (impl Read + Write),
    connection: &mut dyn Connection,
    agreed: &ServerAgreement,
    budget: &Budget,
) -> Result<(), NbdError> {
    let mut session = ServerSession {
        agreed,
        inbox: Inbox::new(),
        batch: Vec::new(),
        batch_bytes: 0,
        data: Vec::new(),
        replies: Replies::new(agreed.structured),
        skipping: None,
    };
    let mut large: Option<Large<'_>> = None;
    loop {
        let (used, next) = session.take();
        if !session.batch.is_empty() {
            // A session that waits for memory holds none that others wait for.
            let share = session.share_to_read(budget, &mut large);
            let Some(_share) = share else { return Ok(()) };
            if !session.answer(connection, stream)? {
                return Ok(());
            }
        }
        session.inbox.consume(used);
        match next {
            TakeOutcome::Again => {}
            TakeOutcome::Wait(wanted) => {
                if wanted <= BYTES_KEPT {
                    large = None;
                } else if large.is_none() {
                    let Some(share) = budget.take(wanted) else { return Ok(()) };
                    large = Some(Large { _share: share, since: Instant::now() });
                }
                if large.as_ref().is_some_and(|large| large.is_late(Instant::now())) {
                    return Err(violation("a request took longer than a minute to arrive"));
                }
                match session.inbox.fill(stream, wanted) {
                    Ok(0) if session.is_between_requests() => return Ok(()),
                    Ok(0) => return Err(violation("the connection ended within a request")),
                    Ok(_) => {}
                    // Between two requests a client may be silent indefinitely.
                    Err(error) if is_silence(&error) && session.is_between_requests() => {}
                    Err(error) => return Err(lost(error)),
                }
            }
            TakeOutcome::End => return Ok(()),
            TakeOutcome::Garbage => return Err(violation("the client sent an invalid request")),
        }
    }
}

/// A request longer than each connection's memory.
struct Large<'b> {
    _share: BudgetShare<'b>,
    since: Instant,
}

impl Large<'_> {
    fn is_late(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) > LARGE_MAX
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// What follows the requests that were taken.
enum TakeOutcome {
    /// The batch is full, and more requests may have arrived.
    Again,
    /// Wait until this many bytes have arrived, in one piece.
    Wait(usize),
    /// The client has asked to leave.
    End,
    /// The bytes are not a request.
    Garbage,
}

/// A request, taken apart.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    pub(super) head: RequestHead,
    /// Its data, in the inbox.
    data: Range<usize>,
    /// Why it is refused: the protocol's error, and a message.
    pub(super) refusal: Option<(Refusal, &'static str)>,
}

impl ParsedRequest {
    /// Bytes of its answer on success.
    fn bytes_to_read(&self) -> usize {
        match (self.head.command, self.refusal) {
            // Checked against the largest payload, so it fits.
            (command::READ, None) => self.head.length as usize,
            _ => 0,
        }
    }
}

struct ServerSession<'a> {
    agreed: &'a ServerAgreement,
    inbox: Inbox,
    /// Requests to carry out together.
    batch: Vec<ParsedRequest>,
    /// Bytes of data that they carry or request.
    batch_bytes: usize,
    /// The data they read.
    data: Vec<u8>,
    replies: Replies,
    /// A write that is too long, and how many of its bytes are still to be skipped.
    skipping: Option<(ParsedRequest, u64)>,
}

impl ServerSession<'_> {
    /// Parses the received bytes; returns how many are used, and the next step.
    fn take(&mut self) -> (usize, TakeOutcome) {
        let mut used = 0;
        self.batch.clear();
        self.batch_bytes = 0;
        loop {
            if self.batch.len() >= BATCH_REQUESTS || self.batch_bytes >= BATCH_BYTES {
                return (used, TakeOutcome::Again);
            }
            if let Some(next) = self.skip(&mut used) {
                return (used, next);
            }
            match self.take_one(used) {
                Ok(end) => used = end,
                Err(next) => return (used, next),
            }
        }
    }

    /// Parses the request at `begin`; returns where it ends in the inbox, or the next step without
    /// a request. A request that is too long goes to `skipping`.
    fn take_one(&mut self, begin: usize) -> Result<usize, TakeOutcome> {
        let arrived = &self.inbox.bytes()[begin..];
        let head = arrived.first_chunk().ok_or(TakeOutcome::Wait(RequestHead::BYTES))?;
        let head = RequestHead::parse(head).ok_or(TakeOutcome::Garbage)?;
        if head.command == command::DISCONNECT {
            return Err(TakeOutcome::End);
        }
        let refusal = check(&head, self.agreed).err();
        let payload = if head.command == command::WRITE { head.length as usize } else { 0 };
        let data_begin = begin + RequestHead::BYTES;
        if payload > self.agreed.export.payload_max() as usize {
            let taken = ParsedRequest { head, data: 0..0, refusal };
            self.skipping = Some((taken, payload as u64));
            return Ok(data_begin);
        }
        if arrived.len() < RequestHead::BYTES + payload {
            return Err(TakeOutcome::Wait(RequestHead::BYTES + payload));
        }
        let taken = ParsedRequest { head, data: data_begin..data_begin + payload, refusal };
        self.batch_bytes += payload + taken.bytes_to_read();
        self.batch.push(taken);
        Ok(data_begin + payload)
    }

    /// Skips data that is too long to be kept; its request is answered when all has passed.
    fn skip(&mut self, used: &mut usize) -> Option<TakeOutcome> {
        let (taken, left) = self.skipping.take()?;
        let arrived = (self.inbox.bytes().len() - *used) as u64;
        let passed = arrived.min(left);
        // No more than is in memory.
        *used += usize::try_from(passed).unwrap_or(0);
        if passed < left {
            self.skipping = Some((taken, left - passed));
            return Some(TakeOutcome::Wait(1));
        }
        self.batch.push(taken);
        None
    }

    fn bytes_to_read(&self) -> usize {
        self.batch.iter().map(ParsedRequest::bytes_to_read).sum()
    }

    /// Memory for the batch's reads, until its answers are sent: a client may leave them unread.
    /// `None` if the server ends.
    fn share_to_read<'b>(
        &self,
        budget: &'b Budget,
        large: &mut Option<Large<'b>>,
    ) -> Option<Option<BudgetShare<'b>>> {
        let length = self.bytes_to_read();
        if length <= BYTES_KEPT {
            return Some(None);
        }
        *large = None;
        budget.take(length).map(Some)
    }

    /// Carries the batch out and answers it; false if the power is cut.
    fn answer(
        &mut self,
        connection: &mut dyn Connection,
        stream: &mut impl Write,
    ) -> Result<bool, NbdError> {
        let length = self.bytes_to_read();
        if self.data.len() < length {
            self.data.resize(length, 0);
        }
        let outcomes = carry_out(&self.batch, self.inbox.bytes(), &mut self.data, connection);
        if outcomes.contains(&Err(Refusal::Gone)) {
            return Ok(false);
        }
        let (mut outcomes, mut rest) = (outcomes.into_iter(), &self.data[..length]);
        for taken in &self.batch {
            let (data, after) = rest.split_at(taken.bytes_to_read());
            rest = after;
            let answer = match (taken.refusal, taken.head.command) {
                (Some((refusal, words)), _) => ReplyBody::Refused(refusal, words),
                (None, command::BLOCK_STATUS) => ReplyBody::Status(extents(taken, connection)),
                _ => match outcomes.next().unwrap_or(Err(Refusal::Io)) {
                    Ok(()) if taken.head.command == command::READ => ReplyBody::Data(data.len()),
                    Ok(()) => ReplyBody::Done,
                    Err(refusal) => ReplyBody::Refused(refusal, number_and_words(refusal).1),
                },
            };
            self.replies.push(&taken.head, answer, data.len());
        }
        self.replies.send(&self.data, stream).map_err(lost)?;
        if self.data.len() > BYTES_KEPT {
            self.data = Vec::new();
        }
        Ok(true)
    }

    fn is_between_requests(&self) -> bool {
        self.inbox.bytes().is_empty() && self.skipping.is_none()
    }
}

/// Has the storage carry out the accepted requests, and returns their outcomes.
fn carry_out(
    batch: &[ParsedRequest],
    inbox: &[u8],
    mut data: &mut [u8],
    connection: &mut dyn Connection,
) -> Vec<Result<(), Refusal>> {
    let mut requests = Vec::with_capacity(batch.len());
    for taken in batch.iter().filter(|request| request.refusal.is_none()) {
        let (into, rest) = data.split_at_mut(taken.bytes_to_read());
        data = rest;
        if let Some(command) = command_of(&taken.head, into, &inbox[taken.data.clone()]) {
            requests.push(Request { command, outcome: Err(Refusal::Io) });
        }
    }
    if !requests.is_empty() {
        connection.carry_out(&mut requests);
    }
    requests.into_iter().map(|request| request.outcome).collect()
}

/// The storage's command; `None` if it has nothing to do.
fn command_of<'a>(head: &RequestHead, into: &'a mut [u8], data: &'a [u8]) -> Option<Command<'a>> {
    let (offset, length) = (head.offset, u64::from(head.length));
    let fua = head.flags & flag::FUA != 0;
    Some(match head.command {
        command::READ => Command::Read { offset, into },
        command::WRITE => Command::Write { offset, data, fua },
        command::FLUSH => Command::Flush,
        command::TRIM => Command::Trim { offset, length, fua },
        command::WRITE_ZEROES => {
            let no_hole = head.flags & flag::NO_HOLE != 0;
            Command::WriteZeroes { offset, length, fua, no_hole }
        }
        _ => return None,
    })
}

/// The extents of a block status; the first alone is a complete answer.
fn extents(taken: &ParsedRequest, connection: &mut dyn Connection) -> Vec<crate::Extent> {
    let mut extents = connection.extents(taken.head.offset, taken.head.length.into());
    if taken.head.flags & flag::REQ_ONE != 0 {
        extents.truncate(1);
    }
    extents
}

/// Checks whether a request may reach the storage, or why not.
fn check(head: &RequestHead, agreed: &ServerAgreement) -> Result<(), (Refusal, &'static str)> {
    let export = &agreed.export;
    let allowed = flags_of(head.command, agreed)
        .ok_or((Refusal::Invalid, "the export does not support this command"))?;
    if head.flags & !allowed != 0 {
        return Err((Refusal::Invalid, "this command does not support that flag"));
    }
    let writes = [command::WRITE, command::TRIM, command::WRITE_ZEROES].contains(&head.command);
    if writes && export.read_only {
        return Err((Refusal::Permission, "the export is read-only"));
    }
    if head.command == command::FLUSH {
        return match (head.offset, head.length) {
            (0, 0) => Ok(()),
            _ => Err((Refusal::Invalid, "a flush must not have an offset or a length")),
        };
    }
    check_range(head, export)
}

/// The flags that a command may have; `None` for an unknown command.
fn flags_of(command: u16, agreed: &ServerAgreement) -> Option<u16> {
    let export = &agreed.export;
    // Clients are known to send it with any command.
    let fua = if export.fua { flag::FUA } else { 0 };
    let (is_there, own) = match command {
        command::READ => (true, if agreed.structured { flag::DF } else { 0 }),
        command::WRITE => (true, 0),
        command::FLUSH => (export.flush, 0),
        command::TRIM => (export.trim, 0),
        command::WRITE_ZEROES => (export.write_zeroes, flag::NO_HOLE),
        command::BLOCK_STATUS => (agreed.allocation, flag::REQ_ONE),
        _ => (false, 0),
    };
    is_there.then_some(fua | own)
}

fn check_range(head: &RequestHead, export: &Export) -> Result<(), (Refusal, &'static str)> {
    let (offset, length) = (head.offset, head.length);
    let has_payload = [command::READ, command::WRITE].contains(&head.command);
    if length == 0 {
        return Err((Refusal::Invalid, "a length of zero"));
    }
    if has_payload && length > export.payload_max() {
        return Err((Refusal::Invalid, "more data than a request may carry"));
    }
    let min = u64::from(export.block_size_min);
    if !offset.is_multiple_of(min) || !u64::from(length).is_multiple_of(min) {
        return Err((Refusal::Invalid, "not a multiple of the minimum block size"));
    }
    if offset.checked_add(length.into()).is_none_or(|end| end > export.size) {
        let adds = [command::WRITE, command::WRITE_ZEROES].contains(&head.command);
        let refusal = if adds { Refusal::NoSpace } else { Refusal::Invalid };
        return Err((refusal, "beyond the end of the export"));
    }
    Ok(())
}

fn lost(error: io::Error) -> NbdError {
    NbdError::new("serve a client", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ScriptedPeer;
    use crate::{MemoryStorage, Storage};

    /// What a server says to these requests that has no memory for all connections any more.
    fn answered_without_shared_memory(requests: &[Vec<u8>]) -> usize {
        let budget = Budget::new();
        budget.end();
        let export = Export::new("", 8 << 20);
        let storage = MemoryStorage::new(export.clone());
        let agreed = ServerAgreement { export, structured: false, allocation: false };
        let mut script = ScriptedPeer::new(&[&requests.concat()]);
        run(&mut script, storage.connect().as_mut(), &agreed, &budget).unwrap();
        script.output.len()
    }

    #[test]
    fn a_connection_has_4_mib_for_what_it_reads_and_for_a_request_without_a_share_of_the_rest() {
        let head = |command, length| {
            RequestHead { flags: 0, command, cookie: 1, offset: 0, length }.bytes().to_vec()
        };
        let read = |length| answered_without_shared_memory(&[head(command::READ, length)]);
        assert_eq!((read(4_194_304), read(4_194_305)), (16 + 4_194_304, 0));
        let write = |length: u32| {
            let data = vec![7; length as usize];
            answered_without_shared_memory(&[head(command::WRITE, length), data])
        };
        // The head takes 28 bytes of it.
        assert_eq!((write(4_194_276), write(4_194_277)), (16, 0));
    }

    #[test]
    fn a_large_request_has_a_minute_to_arrive() {
        let (budget, since) = (Budget::new(), Instant::now());
        let large = Large { _share: budget.take(1).unwrap(), since };
        let is_late = |nanos| large.is_late(since + Duration::from_nanos(nanos));
        assert!(!is_late(0) && !is_late(60_000_000_000) && is_late(60_000_000_001));
    }
}
