//! The client's side of the stream: requests on their way out, unprocessed bytes from the server, and
//! the answers in them.
//!
//! All requests of a call go out in one system call, and the data of both directions goes to and from
//! its slot without a copy.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsFd;

use durio_block::Buffers;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};

use crate::wire::{self, RequestHead, WireReader, chunk};

/// Takes the answers to a deep queue of small reads in one call.
const BYTES: usize = 256 << 10;

/// Unprocessed bytes from a server, except for data that went straight into its slot.
#[derive(Debug)]
pub(super) struct ClientInbox {
    memory: Box<[u8]>,
    filled: Range<usize>,
}

/// The result of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedBytes {
    /// Bytes in all; zero at the end of the connection.
    pub(super) count: usize,
    /// The number of these bytes that went into the slot.
    pub(super) in_slot: usize,
    /// All room was used.
    pub(super) may_be_more: bool,
}

impl ClientInbox {
    pub(super) fn new() -> Self {
        Self { memory: vec![0; BYTES].into_boxed_slice(), filled: 0..0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.filled.clone()]
    }

    pub(super) fn consume(&mut self, count: usize) {
        assert!(count <= self.filled.len(), "{count} of {} bytes", self.filled.len());
        self.filled.start += count;
    }

    /// Moves available bytes, up to the length of `place`; returns how many.
    pub(super) fn take_into(&mut self, place: &mut [u8]) -> usize {
        let count = place.len().min(self.filled.len());
        place[..count].copy_from_slice(&self.bytes()[..count]);
        self.consume(count);
        count
    }

    /// Receives, first into a slot if one is given; `None` if nothing has arrived and it may not
    /// wait.
    pub(super) fn receive(
        &mut self,
        socket: impl AsFd,
        slot: Option<&mut [u8]>,
        may_wait: bool,
    ) -> Result<Option<ReceivedBytes>, Errno> {
        // The remaining bytes are the beginning of an answer.
        self.memory.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        let slot = slot.unwrap_or_default();
        let slot_length = slot.len();
        let room = &mut self.memory[self.filled.end..];
        let room_length = slot_length + room.len();
        let flags = if may_wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let mut pieces = [IoSliceMut::new(slot), IoSliceMut::new(room)];
        let pieces = if slot_length > 0 { &mut pieces[..] } else { &mut pieces[1..] };
        let count = match recvmsg(socket, pieces, &mut RecvAncillaryBuffer::default(), flags) {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error),
        };
        let in_slot = count.min(slot_length);
        self.filled.end += count - in_slot;
        Ok(Some(ReceivedBytes { count, in_slot, may_be_more: count == room_length }))
    }
}

/// Pieces per call: enough for the usual number of requests in flight.
const PIECES: usize = 64;

const HEAD_BYTES: usize = RequestHead::BYTES;

#[derive(Debug)]
struct Outgoing {
    head: [u8; HEAD_BYTES],
    /// The slot with the data.
    slot: usize,
    length: usize,
    /// Bytes of both that have been sent.
    sent: usize,
}

impl Outgoing {
    fn left(&self) -> usize {
        HEAD_BYTES + self.length - self.sent
    }
}

/// Requests on their way out; never waits.
#[derive(Debug, Default)]
pub(super) struct Outbox(VecDeque<Outgoing>);

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a request with this many bytes of a slot.
    pub(super) fn push(&mut self, head: &RequestHead, slot: usize, length: usize) {
        self.0.push_back(Outgoing { head: head.bytes(), slot, length, sent: 0 });
    }

    /// Sends as much as the socket takes in one call; false if it took nothing.
    pub(super) fn send(&mut self, socket: impl AsFd, buffers: &Buffers) -> Result<bool, Errno> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        for outgoing in self.0.iter().take(PIECES / 2) {
            let head = outgoing.sent.min(HEAD_BYTES);
            let data = outgoing.sent - head;
            pieces[count] = IoSlice::new(&outgoing.head[head..]);
            count += 1;
            if outgoing.length > 0 {
                let slot = buffers.slot(outgoing.slot);
                pieces[count] = IoSlice::new(&slot[data..outgoing.length]);
                count += 1;
            }
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(socket, &pieces[..count], &mut SendAncillaryBuffer::default(), flags) {
            Ok(taken) => {
                self.advance(taken);
                Ok(taken > 0)
            }
            Err(Errno::INTR) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn advance(&mut self, mut taken: usize) {
        while let Some(first) = self.0.front_mut() {
            let now = taken.min(first.left());
            first.sent += now;
            taken -= now;
            if first.left() > 0 {
                return;
            }
            self.0.pop_front();
        }
    }
}

/// Bytes of an answer other than data: the protocol's limit for words, plus the fields around them.
const WORDS_BYTES_MAX: u32 = 4096 + 64;

/// An answer, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reply {
    /// The client's name for the request.
    pub(super) cookie: u64,
    pub(super) part: ReplyPart,
    /// The last part of the answer, except for its data.
    pub(super) is_last: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyPart {
    /// An unstructured answer reports success; the data of a read follows in full.
    Well,
    /// Success, unless an error came before.
    Nothing,
    /// It failed, with this errno.
    Failed(i32),
    /// This many bytes follow, for this place.
    Data { offset: u64, length: u32 },
    /// This many zeros at this place.
    Zeros { offset: u64, length: u32 },
}

/// Not an answer of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Garbage;

/// The first answer, and its length; `None` if more bytes must arrive.
pub(super) fn parse(bytes: &[u8], structured: bool) -> Result<Option<(usize, Reply)>, Garbage> {
    let Some(magic) = bytes.first_chunk() else { return Ok(None) };
    match u32::from_be_bytes(*magic) {
        wire::SIMPLE_REPLY_MAGIC => Ok(simple(bytes)),
        wire::CHUNK_MAGIC if structured => parse_chunk(bytes),
        _ => Err(Garbage),
    }
}

fn simple(bytes: &[u8]) -> Option<(usize, Reply)> {
    let mut reader = WireReader(bytes);
    let _magic = reader.u32()?;
    let part = match reader.u32()? {
        0 => ReplyPart::Well,
        number => ReplyPart::Failed(wire::errno(number)),
    };
    let reply = Reply { cookie: reader.u64()?, part, is_last: true };
    Some((bytes.len() - reader.0.len(), reply))
}

struct ChunkHead {
    kind: u16,
    is_last: bool,
    cookie: u64,
    length: u32,
}

fn chunk_head(reader: &mut WireReader<'_>) -> Option<ChunkHead> {
    let _magic = reader.u32()?;
    let is_last = reader.u16()? & chunk::DONE != 0;
    Some(ChunkHead { is_last, kind: reader.u16()?, cookie: reader.u64()?, length: reader.u32()? })
}

fn parse_chunk(bytes: &[u8]) -> Result<Option<(usize, Reply)>, Garbage> {
    let mut reader = WireReader(bytes);
    let Some(head) = chunk_head(&mut reader) else { return Ok(None) };
    let is_data = head.kind == chunk::OFFSET_DATA;
    if !is_data && head.length > WORDS_BYTES_MAX {
        return Err(Garbage);
    }
    let payload_length = if is_data { 8 } else { head.length };
    let Some(payload) = reader.bytes(payload_length as usize) else { return Ok(None) };
    let part = part_of(&head, payload).ok_or(Garbage)?;
    let reply = Reply { cookie: head.cookie, part, is_last: head.is_last };
    Ok(Some((bytes.len() - reader.0.len(), reply)))
}

/// Parses a chunk; `None` if the protocol does not define it.
fn part_of(head: &ChunkHead, payload: &[u8]) -> Option<ReplyPart> {
    let mut payload = WireReader(payload);
    match (head.kind, head.length) {
        (chunk::NONE, 0) if head.is_last => Some(ReplyPart::Nothing),
        (chunk::OFFSET_DATA, 9..) => {
            Some(ReplyPart::Data { offset: payload.u64()?, length: head.length - 8 })
        }
        (chunk::OFFSET_HOLE, 12) => {
            let (offset, length) = (payload.u64()?, payload.u32()?);
            (length > 0).then_some(ReplyPart::Zeros { offset, length })
        }
        // A message for people follows the number; it is ignored.
        (kind, 6..) if kind & chunk::IS_ERROR != 0 => {
            let (number, words) = (payload.u32()?, payload.u16()?);
            let fits = u32::from(words) <= head.length - 6;
            (fits && number != 0).then(|| ReplyPart::Failed(wire::errno(number)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk_of(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::push_chunk(&mut bytes, kind, 7, wire::length_u32(payload.len()));
        bytes.extend(payload);
        bytes
    }

    fn part(kind: u16, payload: &[u8]) -> Result<ReplyPart, Garbage> {
        parse(&chunk_of(kind, payload), true).map(|parsed| parsed.expect("it is whole").1.part)
    }

    #[test]
    fn an_answer_is_none_until_it_is_whole() {
        let mut bytes = Vec::new();
        wire::push_simple_reply(&mut bytes, 5, 7);
        let whole = Reply { cookie: 7, part: ReplyPart::Failed(libc::EIO), is_last: true };
        for length in 0..16 {
            assert_eq!(parse(&bytes[..length], false), Ok(None));
        }
        assert_eq!(parse(&bytes, false), Ok(Some((16, whole))));
        let bytes = chunk_of(chunk::ERROR, &[0, 0, 0, 28, 0, 2, b'n', b'o']);
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length], true), Ok(None));
        }
        assert_eq!(part(chunk::ERROR, &bytes[20..]), Ok(ReplyPart::Failed(libc::ENOSPC)));
    }

    #[test]
    fn data_follows_its_place() {
        let bytes = chunk_of(chunk::OFFSET_DATA, &[0, 0, 0, 0, 0, 0, 1, 0, 9, 9]);
        let expected = ReplyPart::Data { offset: 256, length: 2 };
        let (used, reply) = parse(&bytes, true).unwrap().unwrap();
        assert_eq!((used, reply.part), (28, expected));
        let zeros = [&256_u64.to_be_bytes()[..], &[0, 0, 0, 3]].concat();
        let expected = ReplyPart::Zeros { offset: 256, length: 3 };
        assert_eq!(part(chunk::OFFSET_HOLE, &zeros), Ok(expected));
    }

    #[test]
    fn what_the_protocol_does_not_have_is_garbage() {
        assert_eq!(part(chunk::NONE, &[1]), Err(Garbage));
        assert_eq!(part(chunk::OFFSET_DATA, &[0; 8]), Err(Garbage));
        assert_eq!(part(chunk::OFFSET_HOLE, &[0; 12]), Err(Garbage));
        assert_eq!(part(chunk::ERROR, &[0; 6]), Err(Garbage));
        assert_eq!(part(chunk::ERROR, &[0, 0, 0, 5, 0, 1]), Err(Garbage));
        assert_eq!(part(77, &[]), Err(Garbage));
        assert_eq!(parse(&chunk_of(chunk::NONE, &[]), false), Err(Garbage));
        let mut endless = Vec::new();
        wire::push_chunk(&mut endless, chunk::ERROR, 7, 1 << 20);
        assert_eq!(parse(&endless, true), Err(Garbage));
        // 4096 bytes of words, and 64 for what stands around them.
        let head = |length| {
            let mut bytes = Vec::new();
            wire::push_chunk(&mut bytes, 0x8002, 7, length);
            parse(&bytes, true)
        };
        assert_eq!((head(4160), head(4161)), (Ok(None), Err(Garbage)));
    }
}
