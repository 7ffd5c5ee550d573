//! Chunks of stripes: read data, sums, and data to write.
//!
//! Carries out the engine's sums and operations in order, with copies for writes. An array with
//! stripes has one thread.

use std::collections::BTreeMap;

use super::{Core, PieceMemory, PieceName};
use crate::{BLOCK, Engine, MemberOp, MemberOpKind, OpBuffer, Sum};
use durio_block::Buffers;

/// The chunks that parts work on, by part and member, kept for reuse.
#[derive(Debug, Default)]
pub(super) struct Stripes {
    chunks: BTreeMap<(u16, u8), Vec<u8>>,
    /// For entries of the log, which are longer than other buffers.
    entries: Vec<Buffers>,
}

impl Stripes {
    /// The first bytes of one.
    pub(super) fn chunk(&mut self, part: u16, member: u8, length: u32) -> &mut [u8] {
        let length = length as usize;
        let chunk = self.chunks.entry((part, member)).or_default();
        chunk.resize(chunk.len().max(length), 0);
        &mut chunk[..length]
    }

    /// Adds one to another, as a sum says.
    fn add(&mut self, sum: &Sum, to: (u16, u8), from: (u16, u8)) {
        let length = sum.length as usize;
        // Its place stays empty during the sum.
        let source = self.chunks.get_mut(&from).map(std::mem::take).unwrap_or_default();
        let target = self.chunk(to.0, to.1, sum.length);
        sum.carry_out(target, source.get(..length).unwrap_or_default());
        self.chunks.insert(from, source);
    }

    /// An entry has ended.
    pub(super) fn give_back(&mut self, entry: Option<Buffers>) {
        self.entries.extend(entry);
    }
}

impl Core {
    /// Carries out the engine's sums. None of their buffers is in flight.
    pub(super) fn add_up(&mut self, sums: &mut Vec<Sum>) {
        for sum in sums.drain(..) {
            match (sum.to, sum.from) {
                (
                    OpBuffer::Stripe { part: to, member: to_member },
                    OpBuffer::Stripe { part, member },
                ) => self.stripes.add(&sum, (to, to_member), (part, member)),
                (OpBuffer::Stripe { part, member }, OpBuffer::Request { buffer, offset }) => {
                    let bytes = match &self.pieces[PieceName(buffer).index()].memory {
                        PieceMemory::Written(lent) | PieceMemory::Read(lent) => {
                            self.ring.as_ref().and_then(|it| it.contents(lent))
                        }
                        PieceMemory::None => None,
                    };
                    let from = offset as usize..(offset + sum.length) as usize;
                    let bytes = bytes.and_then(|it| it.get(from)).unwrap_or_default();
                    sum.carry_out(self.stripes.chunk(part, member, sum.length), bytes);
                }
                // A read: each is a part, so this is all of it.
                (OpBuffer::Request { buffer, .. }, OpBuffer::Stripe { part, member }) => {
                    let data = self.desk.copy_of(self.stripes.chunk(part, member, sum.length));
                    let Some(ring) = &mut self.ring else { continue };
                    let piece = &mut self.pieces[PieceName(buffer).index()];
                    let before = piece.keep(ring.lend(data));
                    let before = before.and_then(|it| ring.take_back(it));
                    before.into_iter().for_each(|it| self.desk.give_back(it));
                }
                _ => {}
            }
        }
    }

    /// Copies an operation's data of a stripe: it may still be in flight to a given-up member when
    /// the next part has the chunk.
    pub(super) fn stage_stripe(&mut self, engine: &Engine, op: &MemberOp) {
        let OpBuffer::Stripe { part, member } = op.buffer else { return };
        let copy = if op.kind == MemberOpKind::Log {
            let length = BLOCK as usize + self.shared.chunk as usize;
            let entry = self.stripes.entries.pop();
            let mut entry = entry.unwrap_or_else(|| Buffers::new(1, length));
            let chunk = self.stripes.chunk(part, member, op.length);
            if let Some((header, partial)) = entry.slot_mut(0).split_first_chunk_mut() {
                engine.log_header(op, chunk, header);
                partial[..chunk.len()].copy_from_slice(chunk);
            }
            entry
        } else {
            self.desk.copy_of(self.stripes.chunk(part, member, op.length))
        };
        self.staged.push_back(copy);
    }
}
