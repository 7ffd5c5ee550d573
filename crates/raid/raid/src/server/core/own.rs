//! Private buffers of operations.
//!
//! Lends buffers to operations that start, and puts read data in place when they end. Buffers of
//! requests, which go out to all copies at once, are elsewhere.

use durio_block::{Buffers, LentBuffer};

use super::{Core, PieceMemory, PieceName, ServerError};
use crate::{MemberOp, MemberOpKind, OpBuffer};

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

impl Core {
    /// A read gets a buffer. A write gets a copy if its source is a metadata block of the engine,
    /// which changes it, or read data: the request may be answered while a member that was given up
    /// still reads from that buffer.
    pub(super) fn own_buffer(&mut self, op: &MemberOp) -> Result<Own, ServerError> {
        let staged = match (op.kind, op.buffer) {
            (MemberOpKind::Zero, _) => return Ok(Own::Nothing),
            (MemberOpKind::Compare, buffer) => {
                let lent = self.desk.buffer();
                let of_stripe = match buffer {
                    OpBuffer::Stripe { part, member } => Some((part, member)),
                    _ => None,
                };
                return Ok(Own::Compared(self.ring()?.lend(lent), of_stripe));
            }
            (MemberOpKind::Read, buffer) => {
                let lent = self.desk.buffer();
                let lent = self.ring()?.lend(lent);
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
                return Ok(Own::Log(self.ring()?.lend(entry)));
            }
            (_, OpBuffer::Metadata(_) | OpBuffer::Stripe { .. }) => {
                self.staged.pop_front().ok_or(ServerError::Ended)?
            }
            (_, OpBuffer::Request { buffer, .. }) => {
                match &self.pieces[PieceName(buffer).index()].memory {
                    PieceMemory::Read(read) => {
                        let ring = self.ring.as_ref().ok_or(ServerError::Ended)?;
                        // No operation in flight uses the read data.
                        let bytes = ring.contents(read).ok_or(ServerError::Ended)?;
                        self.desk.copy_of(&bytes[..op.length as usize])
                    }
                    PieceMemory::None | PieceMemory::Written(_) => return Ok(Own::Nothing),
                }
            }
            (_, OpBuffer::Copy(_) | OpBuffer::None) => return Ok(Own::Nothing),
        };
        Ok(Own::Staged(self.ring()?.lend(staged)))
    }

    /// False if it was compared and differs.
    pub(super) fn keep_read(&mut self, own: Own, is_good: bool, length: u32) -> bool {
        let Some(ring) = &mut self.ring else { return true };
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
                let same = |it: &Buffers| it.slot(0)[..length as usize] == *with;
                is_alike = !is_good || read.as_ref().is_some_and(same);
                read
            }
            Own::Staged(lent) | Own::Copy(lent, _) => ring.take_back(lent),
            Own::Piece(lent, piece, serial) => {
                let piece = &mut self.pieces[piece as usize];
                let is_wanted = is_good && piece.serial == serial && piece.from.is_some();
                let unused = if is_wanted { piece.keep(lent) } else { Some(lent) };
                unused.and_then(|it| ring.take_back(it))
            }
        };
        freed.into_iter().for_each(|it| self.desk.give_back(it));
        is_alike
    }
}
