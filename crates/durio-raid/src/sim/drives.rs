//! The drives of a simulated array, and operations on their way to them.
//!
//! In: member operations. Out: their ends, in an order that chance decides. Not here: what the engine
//! does with them.

use durio_simdisk::{Disk, Profile, Request, Ticket};
use durio_units::Nanos;

use crate::geometry::{BLOCK, SECTOR};
use crate::layout::{self, SUPERBLOCKS};
use crate::{Buffer, Engine, Found, Id, MemberOp, MemberOpKind, Outcome, newest};

/// Bytes of a sector that tell its value.
pub(super) const STAMP: usize = 8;

/// A drive.
#[derive(Debug, Clone)]
pub(super) struct Drive {
    pub(super) disk: Disk,
    pub(super) id: Id,
    /// Answers nothing, for ever.
    pub(super) is_stalled: bool,
}

/// An operation that the engine has asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) op: MemberOp,
    /// None before it begins.
    pub(super) ticket: Option<Ticket>,
}

/// Memory that operations name.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) requests: Vec<Vec<u8>>,
    pub(super) copy: Vec<u8>,
    /// What was read to be compared with it.
    pub(super) compared: Vec<u8>,
}

impl Drive {
    pub(super) fn blank(bytes: u64, number: u64, seed: u64) -> Self {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        let disk = Disk::new(Profile::honest(bytes), seed);
        Self { disk, id: Id(id), is_stalled: false }
    }

    /// What assembly reads of it; none if it has no superblock.
    pub(super) fn find(&mut self, device: u8) -> Option<Found> {
        let bytes = self.disk.size();
        let mut blocks = [[0; BLOCK as usize]; SUPERBLOCKS as usize];
        for (slot, block) in (0..).zip(&mut blocks) {
            self.read(layout::superblock_slot(bytes, slot)?, block);
        }
        let [a, b, c, d] = &blocks;
        let (superblock, slot) = newest([a, b, c, d]).ok()?;
        let map_bytes = layout::map_bytes(&superblock.table.geometry);
        let mut map = vec![0; usize::try_from(map_bytes).unwrap_or(0)];
        self.read(layout::map_slot(0, 0), &mut map);
        Some(Found { device, superblock, slot, map })
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) {
        self.disk.durable().read(offset / SECTOR, into);
    }

    /// Begins an operation; false if the drive has no power.
    pub(super) fn begin(&mut self, flight: &mut Flight, engine: &Engine, memory: &Memory) -> bool {
        let op = flight.op;
        let sector = op.offset / SECTOR;
        let length = op.length as usize;
        let request = match op.kind {
            MemberOpKind::Read | MemberOpKind::Compare => Request::Read { sector },
            MemberOpKind::Zero => {
                Request::Zero { sector, sectors: u64::from(op.length) / SECTOR, fua: true }
            }
            MemberOpKind::Write | MemberOpKind::VolatileWrite => {
                let data = match op.buffer {
                    Buffer::Request { buffer, offset } => {
                        &memory.requests[buffer as usize][offset as usize..][..length]
                    }
                    Buffer::Copy => &memory.copy[..length],
                    Buffer::Metadata(block) => engine.metadata(block),
                    Buffer::None => return false,
                };
                Request::Write { sector, data, fua: op.kind == MemberOpKind::Write }
            }
        };
        flight.ticket = self.disk.begin(0, Nanos::new(0), request).ok();
        flight.ticket.is_some()
    }

    /// Ends an operation that has begun.
    pub(super) fn end(&mut self, flight: &Flight, memory: &mut Memory) -> Outcome {
        let op = flight.op;
        let Some(ticket) = flight.ticket else { return Outcome::Error };
        let into: &mut [u8] = match (op.kind, op.buffer) {
            (MemberOpKind::Read, Buffer::Request { buffer, offset }) => {
                &mut memory.requests[buffer as usize][offset as usize..][..op.length as usize]
            }
            (MemberOpKind::Read, Buffer::Copy) => &mut memory.copy[..op.length as usize],
            (MemberOpKind::Compare, _) => &mut memory.compared[..op.length as usize],
            _ => &mut [],
        };
        if self.disk.end(ticket, Nanos::new(0), into).is_err() {
            return Outcome::Error;
        }
        let length = op.length as usize;
        let is_compared = op.kind == MemberOpKind::Compare;
        if is_compared && memory.compared[..length] != memory.copy[..length] {
            return Outcome::Differs;
        }
        Outcome::Done
    }

    /// Turns a bit on the medium, behind everybody's back.
    pub(super) fn turn_bit(&mut self, sector: u64, byte: usize) {
        let mut data = [0; SECTOR as usize];
        self.disk.durable().read(sector, &mut data);
        data[byte] ^= 1;
        let write = Request::Write { sector, data: &data, fua: true };
        // An honest disk with power takes what is within its size.
        let _ = self.disk.carry_out(0, Nanos::new(0), write, &mut []);
    }

    /// Takes its power away and gives it back: what was on its way is gone.
    pub(super) fn reset(&mut self) {
        self.disk.cut();
        // An honest disk comes back.
        let _ = self.disk.restore();
        self.is_stalled = false;
    }
}
