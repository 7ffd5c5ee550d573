//! Unprocessed bytes from a server, except for data that went straight into its slot.

use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};

/// Takes the answers to a deep queue of small reads in one call.
const BYTES: usize = 256 << 10;

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
