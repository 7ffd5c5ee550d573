//! Unprocessed bytes from a client.
//!
//! Keeps the bytes of a request contiguous. Memory grows with the received bytes, never with the
//! announced length: a client takes only as much memory as it has sent data.

use std::io::{self, Read};
use std::ops::Range;

/// Fits many small requests in one call, as many as a socket's buffer holds by default.
const BYTES_BASE: usize = 256 << 10;

/// More is given back when it has been used.
const BYTES_KEPT: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Inbox {
    memory: Vec<u8>,
    /// Received, unused bytes.
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
}
