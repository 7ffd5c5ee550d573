//! Chunks of stripes: what was read of them, what they add up to, and what is written.
//!
//! In: sums and operations of the engine, as they were asked for. Out: the same done, and copies for writes. Not here:
//! which sums (the engine). An array with stripes has one thread.

use std::collections::BTreeMap;

use super::{Core, Memory, PieceName};
use crate::{BLOCK, Buffer, Engine, MemberOp, MemberOpKind, Sum};
use durio_block::Buffers;

/// The chunks that parts work on, by part and member, kept when they were used once.
#[derive(Debug, Default)]
pub(super) struct Stripes(BTreeMap<(u16, u8), Vec<u8>>);

impl Stripes {
    /// The first bytes of one.
    pub(super) fn chunk(&mut self, part: u16, member: u8, length: u32) -> &mut [u8] {
        let length = length as usize;
        let chunk = self.0.entry((part, member)).or_default();
        chunk.resize(chunk.len().max(length), 0);
        &mut chunk[..length]
    }
}

impl Core {
    /// Carries out what the engine adds up. Nothing that it names is on its way.
    pub(super) fn add_up(&mut self, sums: &mut Vec<Sum>) {
        for sum in sums.drain(..) {
            let length = sum.length as usize;
            let from = match sum.from {
                Buffer::Stripe { part, member } => {
                    self.stripes.chunk(part, member, sum.length).to_vec()
                }
                Buffer::Request { buffer, offset } => {
                    self.written_by(buffer, offset as usize, length).to_vec()
                }
                Buffer::Copy(_) | Buffer::Metadata(_) | Buffer::None => continue,
            };
            match sum.to {
                Buffer::Stripe { part, member } => {
                    sum.carry_out(self.stripes.chunk(part, member, sum.length), &from);
                }
                // A read: each is a part, so this is all of it.
                Buffer::Request { buffer, .. } => {
                    let data = self.desk().copy_of(&from);
                    let index = PieceName(buffer).index();
                    let before = std::mem::replace(&mut self.pieces[index].memory, Memory::Read(data));
                    if let Memory::Read(before) = before {
                        self.desk().give_back(before);
                    }
                }
                Buffer::Copy(_) | Buffer::Metadata(_) | Buffer::None => {}
            }
        }
    }

    /// The bytes of a request that writes.
    fn written_by(&self, buffer: u32, offset: usize, length: usize) -> &[u8] {
        let memory = &self.pieces[PieceName(buffer).index()].memory;
        let bytes = match (memory, &self.ring) {
            (Memory::Lent(lent), Some(ring)) => ring.contents(lent),
            (Memory::Read(read), _) => Some(read.slot(0)),
            (Memory::Lent(_) | Memory::None, _) => None,
        };
        bytes.and_then(|it| it.get(offset..offset + length)).unwrap_or_default()
    }

    /// A copy of what an operation writes of a stripe: it may be on its way to a member that was given up when the
    /// next part has the chunk.
    pub(super) fn stage_stripe(&mut self, engine: &Engine, op: &MemberOp) {
        let Buffer::Stripe { part, member } = op.buffer else { return };
        let chunk = self.stripes.chunk(part, member, op.length);
        let copy = if op.kind == MemberOpKind::Log {
            let mut header = [0; BLOCK as usize];
            engine.log_header(op, chunk, &mut header);
            let mut entry = Buffers::new(1, header.len() + chunk.len());
            let (block, partial) = entry.slot_mut(0).split_at_mut(header.len());
            block.copy_from_slice(&header);
            partial.copy_from_slice(chunk);
            entry
        } else {
            let chunk = chunk.to_vec();
            self.desk().copy_of(&chunk)
        };
        self.staged.push_back(copy);
    }
}
