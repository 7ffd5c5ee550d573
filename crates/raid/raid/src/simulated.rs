//! Members that are simulated disks, and an array of them behind one interface.
//!
//! Applies the engine's operations to a disk of durio-simdisk. The caller decides when an operation
//! starts or ends ([`array`] has a virtual clock, `sim` a scheduler).

pub mod array;

use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_block::Buffers;
use durio_simdisk::{Disk, DiskRequest, Leg, Ticket};

use crate::geometry::{BLOCK, SECTOR};
use crate::layout;
use crate::log_entry;
use crate::{
    Blocks, COPY_BUFFERS, Engine, FoundDevice, MemberOp, MemberOpKind, OpBuffer, OpOutcome,
    RecognizedMember, Sum, recognize,
};

/// An operation that the engine has asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedOp {
    pub(crate) op: MemberOp,
    /// `None` before it starts, and if the disk refuses it.
    pub(crate) ticket: Option<Ticket>,
    /// Its disk has no FUA: a durable write is a write and a flush, as in a kernel.
    pub(crate) flushes: bool,
    /// When the engine asked for it.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) issued: Nanos,
}

/// Memory that operations name.
#[derive(Debug)]
pub(crate) struct SimulatedMemory {
    /// By the buffer of a request.
    pub(crate) requests: Buffers,
    copies: Vec<Vec<u8>>,
    /// By part and member, allocated at their first use.
    stripes: BTreeMap<(u16, u8), Vec<u8>>,
    /// The data read for a comparison with one of them.
    compared: Vec<u8>,
}

impl SimulatedMemory {
    pub(crate) fn new(requests: Buffers, chunk: u32) -> Self {
        let chunk = vec![0; chunk as usize];
        let copies = vec![chunk.clone(); COPY_BUFFERS.into()];
        Self { requests, copies, stripes: BTreeMap::new(), compared: chunk }
    }

    fn written<'a>(&'a self, op: &MemberOp, engine: &'a Engine) -> &'a [u8] {
        let length = op.length as usize;
        match op.buffer {
            OpBuffer::Request { buffer, offset } => {
                &self.requests.slot(buffer as usize)[offset as usize..][..length]
            }
            OpBuffer::Copy(number) => &self.copies[usize::from(number)][..length],
            OpBuffer::Stripe { part, member } => {
                self.stripes.get(&(part, member)).map_or(&[], |bytes| &bytes[..length])
            }
            OpBuffer::Metadata(block) => engine.metadata(block),
            OpBuffer::None => &[],
        }
    }

    fn read_into(&mut self, op: &MemberOp) -> &mut [u8] {
        match op.kind {
            MemberOpKind::Read => self.slice_mut(op.buffer, op.length),
            MemberOpKind::Compare => &mut self.compared[..op.length as usize],
            _ => &mut [],
        }
    }

    /// The first bytes of a buffer of the caller's; a chunk of a stripe is there from its first use on.
    fn slice_mut(&mut self, buffer: OpBuffer, length: u32) -> &mut [u8] {
        let length = length as usize;
        match buffer {
            OpBuffer::Request { buffer, offset } => {
                &mut self.requests.slot_mut(buffer as usize)[offset as usize..][..length]
            }
            OpBuffer::Copy(number) => &mut self.copies[usize::from(number)][..length],
            OpBuffer::Stripe { part, member } => {
                let chunk = self.compared.len();
                let stripe = self.stripes.entry((part, member));
                &mut stripe.or_insert_with(|| vec![0; chunk])[..length]
            }
            OpBuffer::Metadata(_) | OpBuffer::None => &mut [],
        }
    }

    /// Carries out a sum of the engine's in memory.
    pub(crate) fn add(&mut self, sum: &Sum) {
        let bytes = self.slice_mut(sum.from, sum.length).to_vec();
        sum.carry_out(self.slice_mut(sum.to, sum.length), &bytes);
    }
}

impl SimulatedOp {
    /// Starts the operation; false if the disk refuses it. A durable write has FUA if the disk
    /// declares a cache, as in a kernel.
    pub(crate) fn begin(
        &mut self,
        disk: &mut Disk,
        now: Nanos,
        engine: &Engine,
        memory: &SimulatedMemory,
    ) -> bool {
        let op = self.op;
        let sector = op.offset / SECTOR;
        let has_cache = disk.profile().declares_cache() && !self.flushes;
        let request = match op.kind {
            MemberOpKind::Read | MemberOpKind::Compare => DiskRequest::Read { sector },
            MemberOpKind::Zero => {
                let sectors = u64::from(op.length) / SECTOR;
                DiskRequest::Zero { sector, sectors, fua: has_cache }
            }
            MemberOpKind::Log => {
                let partial = memory.written(&op, engine);
                let mut block = [0; BLOCK as usize];
                engine.log_header(&op, partial, &mut block);
                let data = [&block, partial].concat();
                self.ticket = disk
                    .begin(0, now, DiskRequest::Write { sector, data: &data, fua: has_cache })
                    .ok();
                return self.ticket.is_some();
            }
            kind => {
                let fua = kind == MemberOpKind::Write && has_cache;
                DiskRequest::Write { sector, data: memory.written(&op, engine), fua }
            }
        };
        self.ticket = disk.begin(0, now, request).ok();
        self.ticket.is_some()
    }

    pub(crate) fn end(
        &self,
        disk: &mut Disk,
        now: Nanos,
        memory: &mut SimulatedMemory,
    ) -> OpOutcome {
        let Some(ticket) = self.ticket else { return OpOutcome::Error };
        if disk.end(ticket, now, memory.read_into(&self.op)).is_err() {
            return OpOutcome::Error;
        }
        let is_durable =
            matches!(self.op.kind, MemberOpKind::Write | MemberOpKind::Zero | MemberOpKind::Log);
        if self.flushes && is_durable {
            let flush = disk.carry_out(0, now, DiskRequest::Flush, &mut []);
            return if flush.is_ok() { OpOutcome::Done } else { OpOutcome::Error };
        }
        let length = self.op.length as usize;
        let is_compared = self.op.kind == MemberOpKind::Compare;
        let is_equal = || match self.op.buffer {
            OpBuffer::Stripe { part, member } => memory
                .stripes
                .get(&(part, member))
                .is_some_and(|bytes| memory.compared[..length] == bytes[..length]),
            _ => memory.compared[..length] == memory.copies[0][..length],
        };
        if is_compared && !is_equal() {
            return OpOutcome::Differs;
        }
        OpOutcome::Done
    }
}

/// What assembly reads of a disk whose size others see as this; `None` if it has no superblock.
pub(crate) fn find(disk: &mut Disk, device: u8, bytes: u64) -> Option<FoundDevice> {
    let read_block = |place| {
        let mut block = vec![0; BLOCK as usize];
        read(disk, place, &mut block);
        Ok::<_, std::convert::Infallible>(block)
    };
    let Ok(recognized) = recognize(bytes, read_block);
    let RecognizedMember { superblock, slot, damage } = recognized.ok()?;
    let map_bytes = layout::map_bytes(&superblock.table.geometry);
    let mut map = vec![0; usize::try_from(map_bytes).unwrap_or(0)];
    let read_slot = |at: u64, into: &mut [u8]| disk.read(at / SECTOR, into, Leg::Any).is_ok();
    let log = log_entry::read_log(&superblock.table.geometry, read_slot);
    for (at, block) in
        (layout::map_slot(0, 0)..).step_by(BLOCK as usize).zip(map.chunks_mut(BLOCK as usize))
    {
        read(disk, at, block);
    }
    Some(FoundDevice { device, superblock, slot, map, log, damage })
}

/// An unreadable block leaves the buffer unchanged.
fn read(disk: &mut Disk, offset: u64, into: &mut [u8]) {
    let _ = disk.read(offset / SECTOR, into, Leg::Any);
}

/// Writes to a disk with power, durably, without the engine's knowledge.
pub(crate) fn write_blocks(disk: &mut Disk, blocks: Blocks) {
    for (place, data) in blocks {
        let write = DiskRequest::Write { sector: place / SECTOR, data: &data, fua: true };
        // It has power, and places are within its size.
        let _ = disk.carry_out(0, Nanos::ZERO, write, &mut []);
    }
}

/// Zeroes a disk, so that it is not taken for a member; false if it has no power.
pub(crate) fn make_blank(disk: &mut Disk) -> bool {
    let zero = DiskRequest::Zero { sector: 0, sectors: disk.size() / SECTOR, fua: true };
    disk.carry_out(0, Nanos::ZERO, zero, &mut []).is_ok()
}
