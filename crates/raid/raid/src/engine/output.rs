//! The engine's operations on members and its answers to requests.
//!
//! The caller owns the [`EngineOutput`] and empties it after each event; its allocations are kept.

use super::RequestError;
use crate::galois;

/// Names an operation on a member until it is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpTag(pub u64);

/// The purpose of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpOwner {
    Part,
    Page,
    Superblock,
}

/// A tag's fields: 8 bits of owner, 8 of role (the copy for a part, the place for a page, the entry
/// for a superblock), 24 of generation, 24 of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagFields {
    pub(crate) owner: OpOwner,
    pub(crate) role: u8,
    pub(crate) generation: u32,
    pub(crate) index: u32,
}

pub(crate) const GENERATION_MASK: u32 = (1 << 24) - 1;

impl TagFields {
    pub(crate) fn pack(self) -> OpTag {
        let high = u64::from(self.owner as u8) << 56 | u64::from(self.role) << 48;
        OpTag(high | u64::from(self.generation & GENERATION_MASK) << 24 | u64::from(self.index))
    }

    pub(crate) fn unpack(tag: OpTag) -> Option<Self> {
        let owner = match tag.0 >> 56 {
            0 => OpOwner::Part,
            1 => OpOwner::Page,
            2 => OpOwner::Superblock,
            _ => return None,
        };
        Some(Self {
            owner,
            role: (tag.0 >> 48) as u8,
            generation: (tag.0 >> 24) as u32 & GENERATION_MASK,
            index: tag.0 as u32 & GENERATION_MASK,
        })
    }
}

/// Background copies on their way at most.
pub const COPY_BUFFERS: u8 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpBuffer {
    /// The buffer that the request named, from this byte on.
    Request {
        buffer: u32,
        offset: u32,
    },
    /// One of the caller's [`COPY_BUFFERS`] for background copies, each of a chunk.
    Copy(u8),
    /// A chunk of a stripe in progress.
    Stripe {
        /// The part of a request, or the background copy, which has a buffer for each member.
        part: u16,
        member: u8,
    },
    /// A block of the engine's metadata: [`crate::Engine::metadata`].
    Metadata(u32),
    None,
}

#[cfg(test)]
impl OpBuffer {
    pub(crate) fn is_copy(self) -> bool {
        matches!(self, Self::Copy(_))
    }
}

/// An operation of a member. Each write is durable before it completes: a write with FUA, or a
/// write and a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberOpKind {
    Read,
    /// Write durably, as by FUA.
    Write,
    /// Write zeros durably, as by FUA.
    Zero,
    /// Read, and compare with the buffer, which does not change: [`OpOutcome::Done`] if all bytes are
    /// equal, [`OpOutcome::Differs`] if not.
    Compare,
    /// Write a slot of the log durably: a block that [`crate::Engine::log_header`] makes of the buffer, then
    /// the buffer. The length is that of the buffer alone.
    Log,
    /// Write, durable or not: only for a planted fault.
    #[cfg(any(test, feature = "simulate"))]
    VolatileWrite,
}

/// An operation on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberOp {
    /// The caller's name of the device.
    pub device: u8,
    pub kind: MemberOpKind,
    /// Bytes from the start of the device.
    pub offset: u64,
    pub length: u32,
    /// The source or destination. It must not be reused before the operation is completed, or
    /// before the device is closed.
    pub buffer: OpBuffer,
    /// To be given back with its completion.
    pub tag: OpTag,
}

/// Adds one buffer to another, in the field of parities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// The buffer that changes.
    pub to: OpBuffer,
    pub from: OpBuffer,
    /// The factor for the summand.
    pub factor: u8,
    /// False if the summand replaces `to`.
    pub adds: bool,
    pub length: u32,
}

impl Sum {
    pub fn carry_out(&self, to: &mut [u8], from: &[u8]) {
        if !self.adds {
            to.fill(0);
        }
        galois::add(to, from, self.factor);
    }
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpOutcome {
    /// Whole, and durable if it was a write.
    Done,
    /// A comparison whose bytes are not equal.
    Differs,
    /// Anything else, also a short transfer.
    Error,
}

/// A request is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestCompletion {
    pub tag: u64,
    pub result: Result<(), RequestError>,
}

/// The results of an event.
#[derive(Debug, Clone, Default)]
pub struct EngineOutput {
    /// To be carried out first, in this order.
    pub sums: Vec<Sum>,
    /// Operations to begin, in any order.
    pub ops: Vec<MemberOp>,
    /// Requests that are done.
    pub answers: Vec<RequestCompletion>,
    /// A member is out: operations on its device that have not started must not start. The consumer
    /// resets this.
    pub has_lost: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_holds_its_fields() {
        for (owner, role) in [(OpOwner::Part, 31), (OpOwner::Page, 0), (OpOwner::Superblock, 39)] {
            let fields = TagFields { owner, role, generation: 0x00ab_cdef, index: 0x0012_3456 };
            assert_eq!(TagFields::unpack(fields.pack()), Some(fields));
        }
        assert_eq!(TagFields::unpack(OpTag(u64::MAX)), None);
    }
}
