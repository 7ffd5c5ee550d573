//! Private buffers of operations, and the chunks of stripes: read data, sums, and data to write.
//!
//! Lends buffers to operations that start, and puts read data in place when they end. Carries out the
//! engine's sums and operations on stripes in order, with copies for writes; an array with stripes has
//! one thread. Buffers of requests, which go out to all copies at once, are elsewhere.

use std::collections::BTreeMap;

use durio_block::{Buffers, LentBuffer};

use super::{PieceMemory, PieceName, RingThread, ServerError};
use crate::{BLOCK, Engine, MemberOp, MemberOpKind, OpBuffer, Sum};

/// The purpose of an operation's private buffer.
#[derive(Debug)]
pub(super) enum Own {
    /// None: it uses the buffer of a piece, of the copier, or zeros.
    Nothing,
    /// Something staged for a write.
    Staged(LentBuffer),
    /// A read for a piece of this serial.
    Piece(LentBuffer, u32, u32),
    /// An entry of a log, which is longer than others.
    Log(LentBuffer),
    /// A read of the copier.
    Copy(LentBuffer, u8),
    /// A read of a stripe, by part and member.
    Stripe(LentBuffer, u16, u8),
    /// A read for comparison: with a chunk of a stripe, or with the copier's data.
    Compared(LentBuffer, Option<(u16, u8)>),
}

impl RingThread {
    /// A read gets a buffer. A write gets a copy if its source is a metadata block of the engine,
    /// which changes it, or read data: the request may be answered while a member that was given up
    /// still reads from that buffer.
    pub(super) fn own_buffer(&mut self, op: &MemberOp) -> Result<Own, ServerError> {
        let staged = match (op.kind, op.buffer) {
            (MemberOpKind::Zero, _) => return Ok(Own::Nothing),
            (MemberOpKind::Compare, buffer) => {
                let of_stripe = match buffer {
                    OpBuffer::Stripe { part, member } => Some((part, member)),
                    _ => None,
                };
                return Ok(Own::Compared(self.ring.lend(self.desk.buffer()), of_stripe));
            }
            (MemberOpKind::Read, buffer) => {
                let lent = self.ring.lend(self.desk.buffer());
                return Ok(match buffer {
                    OpBuffer::Request { buffer, .. } => {
                        let index = PieceName(buffer).index();
                        Own::Piece(lent, index as u32, self.pieces[index].serial)
                    }
                    OpBuffer::Copy(number) => Own::Copy(lent, number),
                    OpBuffer::Stripe { part, member } => Own::Stripe(lent, part, member),
                    // No reads use other buffers.
                    OpBuffer::Metadata(_) | OpBuffer::None => Own::Staged(lent),
                });
            }
            (MemberOpKind::Log, _) => {
                let entry = self.staged.pop_front().ok_or(ServerError::Ended)?;
                return Ok(Own::Log(self.ring.lend(entry)));
            }
            (_, OpBuffer::Metadata(_) | OpBuffer::Stripe { .. }) => {
                self.staged.pop_front().ok_or(ServerError::Ended)?
            }
            (_, OpBuffer::Request { buffer, .. }) => {
                match &self.pieces[PieceName(buffer).index()].memory {
                    PieceMemory::Read(read) => {
                        // No operation in flight uses the read data.
                        let bytes = self.ring.contents(read).ok_or(ServerError::Ended)?;
                        self.desk.copy_of(&bytes[..op.length as usize])
                    }
                    PieceMemory::None | PieceMemory::Written(_) => return Ok(Own::Nothing),
                }
            }
            (_, OpBuffer::Copy(_) | OpBuffer::None) => return Ok(Own::Nothing),
        };
        Ok(Own::Staged(self.ring.lend(staged)))
    }

    /// False if it was compared and differs.
    pub(super) fn keep_read(&mut self, own: Own, is_good: bool, length: u32) -> bool {
        let ring = &mut self.ring;
        let mut is_alike = true;
        let freed = match own {
            Own::Nothing => None,
            Own::Copy(lent, number) if is_good => {
                let place = &mut self.copies[usize::from(number)];
                let before = place.take().and_then(|before| ring.take_back(before));
                // Its one operation has ended.
                if let Some(read) = ring.take_back(lent) {
                    if number == 0 {
                        self.copied.clear();
                        self.copied.extend_from_slice(&read.slot(0)[..length as usize]);
                    }
                    *place = Some(ring.lend(read));
                }
                self.has_copied = true;
                before
            }
            Own::Stripe(lent, part, member) => {
                let read = ring.take_back(lent);
                if let Some(read) = read.as_ref().filter(|_| is_good) {
                    let chunk = self.stripes.chunk(part, member, length);
                    chunk.copy_from_slice(&read.slot(0)[..length as usize]);
                }
                read
            }
            Own::Log(lent) => {
                self.stripes.give_back(ring.take_back(lent));
                None
            }
            Own::Compared(lent, of_stripe) => {
                let read = ring.take_back(lent);
                let with = match of_stripe {
                    Some((part, member)) => self.stripes.chunk(part, member, length),
                    None => &self.copied[..],
                };
                let same = |buffers: &Buffers| buffers.slot(0)[..length as usize] == *with;
                is_alike = !is_good || read.as_ref().is_some_and(same);
                read
            }
            Own::Staged(lent) | Own::Copy(lent, _) => ring.take_back(lent),
            Own::Piece(lent, piece, serial) => {
                let piece = &mut self.pieces[piece as usize];
                let is_wanted = is_good && piece.serial == serial && piece.from.is_some();
                let unused = if is_wanted { piece.keep(lent) } else { Some(lent) };
                unused.and_then(|lent| ring.take_back(lent))
            }
        };
        freed.into_iter().for_each(|buffers| self.desk.give_back(buffers));
        is_alike
    }
}

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

impl RingThread {
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
                            self.ring.contents(lent)
                        }
                        PieceMemory::None => None,
                    };
                    let from = offset as usize..(offset + sum.length) as usize;
                    let bytes = bytes.and_then(|bytes| bytes.get(from)).unwrap_or_default();
                    sum.carry_out(self.stripes.chunk(part, member, sum.length), bytes);
                }
                // A read: each is a part, so this is all of it.
                (OpBuffer::Request { buffer, .. }, OpBuffer::Stripe { part, member }) => {
                    let data = self.desk.copy_of(self.stripes.chunk(part, member, sum.length));
                    let piece = &mut self.pieces[PieceName(buffer).index()];
                    let before = piece.keep(self.ring.lend(data));
                    let before = before.and_then(|lent| self.ring.take_back(lent));
                    before.into_iter().for_each(|buffers| self.desk.give_back(buffers));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_of_its_part_and_member_and_keeps_what_is_behind_a_shorter_look() {
        let mut stripes = Stripes::default();
        stripes.chunk(1, 2, 3).copy_from_slice(&[1, 2, 3]);
        stripes.chunk(2, 1, 2).copy_from_slice(&[8, 9]);
        assert_eq!(stripes.chunk(1, 2, 2), [1, 2]);
        assert_eq!(stripes.chunk(1, 2, 5), [1, 2, 3, 0, 0]);
        assert_eq!(stripes.chunk(2, 1, 2), [8, 9]);
        assert_eq!(stripes.chunk(1, 1, 1), [0]);
    }

    #[test]
    fn a_sum_adds_to_a_chunk_or_replaces_it_in_as_many_bytes_as_it_says() {
        let sum = |factor, adds, length| Sum {
            to: OpBuffer::None,
            from: OpBuffer::None,
            factor,
            adds,
            length,
        };
        let mut stripes = Stripes::default();
        stripes.chunk(0, 0, 4).copy_from_slice(&[1, 2, 3, 4]);
        stripes.chunk(0, 1, 4).copy_from_slice(&[0x80, 5, 6, 7]);
        stripes.add(&sum(1, true, 3), (0, 0), (0, 1));
        assert_eq!(stripes.chunk(0, 0, 4), [0x81, 7, 5, 4]);
        // Twice 80 is 1d.
        stripes.add(&sum(2, false, 2), (0, 0), (0, 1));
        assert_eq!(stripes.chunk(0, 0, 4), [0x1d, 10, 5, 4]);
        stripes.add(&sum(1, true, 2), (0, 0), (7, 7));
        assert_eq!(stripes.chunk(0, 0, 4), [0x1d, 10, 5, 4]);
        assert_eq!(stripes.chunk(0, 1, 4), [0x80, 5, 6, 7]);
    }
}
