//! Requests on their way out: all requests of a call go out in one system call, without copying
//! data. Never waits.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::AsFd;

use durio_block::Buffers;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::wire::RequestHead;

/// Pieces per call: enough for the usual number of requests in flight.
const PIECES: usize = 64;

const HEAD_BYTES: usize = RequestHead::BYTES;

#[derive(Debug)]
struct Outgoing {
    head: [u8; HEAD_BYTES],
    /// The slot with the data.
    slot: usize,
    /// Bytes of data.
    length: usize,
    /// Bytes of both that have been sent.
    sent: usize,
}

impl Outgoing {
    fn left(&self) -> usize {
        HEAD_BYTES + self.length - self.sent
    }
}

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
