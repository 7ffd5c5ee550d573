//! The server's side of the stream: unprocessed bytes from a client, and the answers of a batch, which go
//! out in one call.

use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;

use crate::wire::{self, RequestHead, chunk};
use crate::{Extent, Refusal};

/// Fits many small requests in one call, as many as a socket's buffer holds by default.
const BYTES_BASE: usize = 256 << 10;

/// More is given back when it has been used.
const BYTES_KEPT: usize = 4 << 20;

/// Unprocessed bytes from a client; those of a request are contiguous.
///
/// Memory grows with the received bytes, never with the announced length: a client takes only as much
/// memory as it has sent data.
#[derive(Debug)]
pub(super) struct Inbox {
    memory: Vec<u8>,
    filled: Range<usize>,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { memory: vec![0; BYTES_BASE], filled: 0..0 }
    }

    /// The received, unused bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.filled.clone()]
    }

    /// The first of them have been used.
    pub(super) fn consume(&mut self, count: usize) {
        assert!(count <= self.filled.len(), "{count} of {} bytes", self.filled.len());
        self.filled.start += count;
        if self.filled.is_empty() {
            self.filled = 0..0;
            if self.memory.len() > BYTES_KEPT {
                self.memory = vec![0; BYTES_BASE];
            }
        }
    }

    /// Waits for more bytes, until eventually `wanted` are contiguous; returns how many came, zero
    /// at the end of the stream.
    pub(super) fn fill(&mut self, stream: &mut impl Read, wanted: usize) -> io::Result<usize> {
        self.make_room(wanted);
        loop {
            match stream.read(&mut self.memory[self.filled.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(count) => {
                    self.filled.end += count;
                    return Ok(count);
                }
                error => return error,
            }
        }
    }

    fn make_room(&mut self, wanted: usize) {
        if self.filled.start + wanted > self.memory.len() || self.filled.end == self.memory.len() {
            self.memory.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        if self.filled.end == self.memory.len() {
            // Doubles, until the whole request fits.
            let length = (self.memory.len() * 2).min(wanted.max(BYTES_BASE));
            assert!(length > self.memory.len(), "a full inbox with a whole request in it");
            self.memory.resize(length, 0);
        }
    }
}

/// Extents of an answer, a small part of the protocol's limit.
const EXTENTS_MAX: usize = 4096;

pub(super) enum ReplyBody {
    Done,
    /// This many bytes of data, which come next.
    Data(usize),
    /// The extents of the range.
    Status(Vec<Extent>),
    /// It is not done, and why.
    Refused(Refusal, &'static str),
}

/// The answers of a batch. Data goes out from where it was read to, without a copy.
#[derive(Debug)]
pub(super) struct Replies {
    structured: bool,
    /// Everything of the answers except their data.
    heads: Vec<u8>,
    /// Pieces in order: the end in `heads`, then the range in the data.
    pieces: Vec<(usize, usize, usize)>,
    /// The start of the next request's data.
    data_begin: usize,
}

impl Replies {
    pub(super) fn new(structured: bool) -> Self {
        Self { structured, heads: Vec::new(), pieces: Vec::new(), data_begin: 0 }
    }

    /// Adds an answer to a request, whose data is in the next `reserved` bytes.
    pub(super) fn push(&mut self, head: &RequestHead, answer: ReplyBody, reserved: usize) {
        let begin = self.data_begin;
        self.data_begin += reserved;
        match answer {
            // Without data, the short form is permitted in any case.
            ReplyBody::Done => wire::push_simple_reply(&mut self.heads, 0, head.cookie),
            ReplyBody::Data(length) => {
                if self.structured {
                    let length = wire::length_u32(8 + length);
                    wire::push_chunk(&mut self.heads, chunk::OFFSET_DATA, head.cookie, length);
                    self.heads.extend(head.offset.to_be_bytes());
                } else {
                    wire::push_simple_reply(&mut self.heads, 0, head.cookie);
                }
                self.pieces.push((self.heads.len(), begin, begin + length));
            }
            ReplyBody::Status(extents) => self.push_status(head, &extents),
            ReplyBody::Refused(refusal, words) => self.push_refusal(head.cookie, refusal, words),
        }
    }

    /// Needs structured replies, which are negotiated before metadata contexts.
    fn push_status(&mut self, head: &RequestHead, extents: &[Extent]) {
        let descriptors = descriptors(extents, head.length);
        let length = wire::length_u32(4 + 8 * descriptors.len());
        wire::push_chunk(&mut self.heads, chunk::BLOCK_STATUS, head.cookie, length);
        self.heads.extend(super::handshake::ALLOCATION_ID.to_be_bytes());
        for (length, state) in descriptors {
            self.heads.extend(length.to_be_bytes());
            self.heads.extend(state.to_be_bytes());
        }
    }

    fn push_refusal(&mut self, cookie: u64, refusal: Refusal, words: &str) {
        let (number, _) = wire::number_and_words(refusal);
        if !self.structured {
            return wire::push_simple_reply(&mut self.heads, number, cookie);
        }
        let length = wire::length_u32(6 + words.len());
        wire::push_chunk(&mut self.heads, chunk::ERROR, cookie, length);
        self.heads.extend(number.to_be_bytes());
        // All messages are this server's, and short.
        self.heads.extend(u16::try_from(words.len()).unwrap_or(0).to_be_bytes());
        self.heads.extend(words.as_bytes());
    }

    /// Sends all answers, and forgets them.
    pub(super) fn send(&mut self, data: &[u8], stream: &mut impl Write) -> io::Result<()> {
        let outcome = if self.pieces.is_empty() {
            stream.write_all(&self.heads)
        } else {
            self.send_pieces(data, stream)
        };
        self.heads.clear();
        self.pieces.clear();
        self.data_begin = 0;
        outcome
    }

    fn send_pieces(&self, data: &[u8], stream: &mut impl Write) -> io::Result<()> {
        let mut slices = Vec::with_capacity(2 * self.pieces.len() + 1);
        let mut head_begin = 0;
        for &(head_end, begin, end) in &self.pieces {
            slices.push(IoSlice::new(&self.heads[head_begin..head_end]));
            slices.push(IoSlice::new(&data[begin..end]));
            head_begin = head_end;
        }
        slices.push(IoSlice::new(&self.heads[head_begin..]));
        write_all(&mut slices, stream)
    }
}

/// Like `write_all`, of several slices, as many per call as the system takes.
fn write_all(mut slices: &mut [IoSlice<'_>], stream: &mut impl Write) -> io::Result<()> {
    // Leading empty slices would look like a stream that takes nothing.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match stream.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut slices, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Lengths and states of extents, equal neighbours merged, up to the requested length; at least
/// one.
fn descriptors(extents: &[Extent], length: u32) -> Vec<(u32, u32)> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    let mut left = length;
    for extent in extents.iter().filter(|extent| extent.length > 0) {
        let length = u32::try_from(extent.length).unwrap_or(u32::MAX).min(left);
        let state = if extent.hole { wire::STATE_HOLE } else { 0 }
            | if extent.zero { wire::STATE_ZERO } else { 0 };
        let count = found.len();
        match found.last_mut().filter(|(_, last)| *last == state) {
            Some((so_far, _)) => *so_far += length,
            None if count == EXTENTS_MAX => break,
            None => found.push((length, state)),
        }
        left -= length;
        if left == 0 {
            break;
        }
    }
    if found.is_empty() {
        found.push((length, 0));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_what_arrived_and_not_with_what_is_announced() {
        let mut inbox = Inbox::new();
        inbox.fill(&mut &[1; 10][..], 32 << 20).unwrap();
        assert_eq!((inbox.bytes(), inbox.memory.len()), (&[1; 10][..], 262_144));
        let many = vec![2; 1 << 20];
        let mut stream = &many[..];
        while inbox.bytes().len() < 1 << 20 {
            assert!(inbox.fill(&mut stream, 32 << 20).unwrap() > 0);
        }
        assert!(inbox.memory.len() <= 2 << 20, "{}", inbox.memory.len());
    }

    #[test]
    fn what_is_left_moves_to_the_front_and_large_memory_is_given_back() {
        let mut inbox = Inbox::new();
        let many = vec![3; 8 << 20];
        let mut stream = &many[..];
        while inbox.bytes().len() < many.len() {
            inbox.fill(&mut stream, many.len()).unwrap();
        }
        inbox.consume(many.len() - 1);
        inbox.fill(&mut &[4; 9][..], 8 << 20).unwrap();
        assert_eq!(inbox.bytes(), [3, 4, 4, 4, 4, 4, 4, 4, 4, 4]);
        inbox.consume(10);
        assert_eq!(inbox.memory.len(), 262_144);
    }

    #[test]
    fn memory_of_4_mib_is_kept() {
        let after = |length: usize| {
            let mut inbox = Inbox::new();
            let many = vec![5; length];
            let mut stream = &many[..];
            while inbox.bytes().len() < length {
                inbox.fill(&mut stream, length).unwrap();
            }
            inbox.consume(length);
            inbox.memory.len()
        };
        assert_eq!((after(4 << 20), after((4 << 20) + 1)), (4 << 20, 256 << 10));
    }

    #[test]
    fn extents_end_with_the_request_and_equal_neighbours_are_one() {
        let extent = |length, hole| Extent { length, hole, zero: hole };
        let extents = [extent(4, false), extent(0, true), extent(4, false), extent(1 << 40, true)];
        assert_eq!(descriptors(&extents, 100), [(8, 0), (92, 3)]);
        assert_eq!(descriptors(&[], 100), [(100, 0)]);
    }

    #[test]
    fn an_answer_has_4096_extents_that_say_what_is_hole_and_what_is_zero() {
        let extent = |hole, zero| Extent { length: 2, hole, zero };
        let all = [extent(true, false), extent(false, true), extent(true, true)];
        assert_eq!(descriptors(&all, 100), [(2, 1), (2, 2), (2, 3)]);
        let states = |count: usize| (0..count).map(|at| extent(at % 2 == 0, false));
        let found = |count| descriptors(&states(count).collect::<Vec<_>>(), 1 << 20);
        assert_eq!((found(4095).len(), found(4096).len(), found(4097).len()), (4095, 4096, 4096));
        assert_eq!(found(4097)[4094..], [(2, 1), (2, 0)]);
    }
}
