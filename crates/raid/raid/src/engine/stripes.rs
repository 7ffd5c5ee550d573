//! Stripes of levels 5 and 6: degraded reads, writes with their parities, restored chunks.
//!
//! Takes parts that start; issues operations on members and sums of buffers. `replaying.rs` reads
//! the log at a start.
//!
//! ```text
//!  read:   its chunk ──► done          no member, or an error: others of the stripe ──► sum ──► done
//!  write:  mark ──► old data, old parities ──► sum ──► log ──► sum ──► data, parities ──► done
//! ```
//!
//! Each part has a buffer for each member of its stripe. Before a write, the parity without the
//! chunk to write (the partial parity) goes to the log of the member that has the parity. Whatever
//! part of the write is on the members after a cut, the partial parity and the chunk as it is give
//! the matching parity, so the stripe never loses the data of other members. Parts of stripes that
//! share a slot of the log wait for each other, and none is written while a failure is missing from
//! any superblock: so the log's entry for a stripe is the last write in flight, also to the member
//! that failed.

use super::copying::CopyJob;
use super::fault::Fault;
use super::lanes::{PartKind, PartPhase};
use super::output::{
    EngineOutput, MemberOp, MemberOpKind, OpBuffer, OpOutcome, OpOwner, Sum, TagFields,
};
use super::{Engine, Members, RequestError};
use crate::geometry::Stripe;
use crate::layout;
use crate::log_entry::LogEntry;
use crate::{BLOCK, galois};

/// A part's state of its stripe.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    /// Members whose chunks it reads or has read; none if it reads only its chunk.
    pub(super) reads: Members,
    /// Members that it writes.
    pub(super) targets: Members,
    /// It reads old data and parities, not the rest of the stripe.
    is_update: bool,
    /// The log has its entry: it may write.
    is_logged: bool,
    /// The number of its entry.
    number: u64,
    epoch: u64,
}

/// The members of a set.
fn each(members: Members) -> impl Iterator<Item = u8> {
    (0..32).filter(move |member| members & (1 << member) != 0)
}

pub(super) fn columns_of(stripe: Stripe) -> Members {
    (0..stripe.columns()).fold(0, |bits, column| bits | 1 << stripe.member(column))
}

/// A data chunk counts so often in a parity.
pub(super) fn factor_of(parity: u8, column: u8) -> u8 {
    if parity == 0 { 1 } else { galois::power_of_two(column) }
}

impl Engine {
    pub(super) fn work(&mut self, index: u16) -> &mut Work {
        &mut self.works[usize::from(index)]
    }

    /// The stripe of a part, and the member that has its chunk.
    fn stripe_of(&self, index: u16) -> (Stripe, u8) {
        let part = &self.parts[usize::from(index)];
        let stripe = self.geometry.stripe(part.offset);
        (stripe, stripe.member(part.column))
    }

    fn parities_of(&self, stripe: Stripe) -> Members {
        (0..self.parities).fold(0, |bits, number| bits | 1 << stripe.parity(number))
    }

    /// Members whose chunks a part can read.
    fn available(&self, index: u16) -> Members {
        let part = &self.parts[usize::from(index)];
        self.sets[0].in_sync & !part.tried
    }

    /// The chunks to read to know these data chunks; `None` if too few are available.
    fn reads_for(&self, stripe: Stripe, available: Members, wanted: Members) -> Option<Members> {
        if wanted & !available == 0 {
            return Some(wanted);
        }
        let columns = columns_of(stripe);
        let lost = (columns & !available).count_ones();
        let parities = (0..self.parities).map(|number| 1 << stripe.parity(number));
        let some = parities.filter(|bit| available & bit != 0).take(lost as usize);
        let some = some.fold(0, |bits, bit: Members| bits | bit);
        (some.count_ones() == lost).then_some((columns & available) | some)
    }

    pub(super) fn begin_stripe_read(&mut self, index: u16, out: &mut EngineOutput) {
        let (stripe, own) = self.stripe_of(index);
        let part = &self.parts[usize::from(index)];
        let is_unsynced = self.regions[part.region as usize].needs_sync;
        let available = self.available(index);
        if available & (1 << own) != 0 {
            self.work(index).reads = 0;
            return self.issue_read(index, own, out);
        }
        // Parities that may be wrong cannot restore data.
        match self.reads_for(stripe, available, 1 << own).filter(|_| !is_unsynced) {
            Some(reads) => self.read_stripe(index, reads, out),
            None => self.finish(index, Err(RequestError::Unreadable), out),
        }
    }

    /// A write begins whose region is marked.
    pub(super) fn begin_stripe_write(&mut self, index: u16, out: &mut EngineOutput) {
        if self.work(index).is_logged && self.may_write_stripes() {
            return self.write_stripe(index, out);
        }
        if self.is_draining || !self.may_write_stripes() {
            return self.hold(index);
        }
        let (stripe, own) = self.stripe_of(index);
        let parities = self.parities_of(stripe);
        let targets = self.sets[0].writable & (parities | 1 << own);
        let (available, written) = (self.available(index), targets & parities);
        *self.work(index) = Work { targets, ..Work::default() };
        if written == 0 {
            return self.write_stripe(index, out);
        }
        let update = written | 1 << own;
        let is_update = update & !available == 0;
        let others = self.reads_for(stripe, available, columns_of(stripe) & !(1 << own));
        let fewer = |reads: &Members| !is_update || reads.count_ones() < update.count_ones();
        let (reads, is_update) = match others.filter(fewer) {
            Some(reads) => (reads, false),
            None if is_update => (update, true),
            None => return self.finish(index, Err(RequestError::Unreadable), out),
        };
        self.work(index).is_update = is_update;
        self.read_stripe(index, reads, out);
    }

    /// A write of a chunk whose member is missing, to a stripe without valid parities: it could
    /// never be read.
    pub(super) fn is_written_nowhere(&self, index: u16) -> bool {
        let part = &self.parts[usize::from(index)];
        let is_write = matches!(part.kind, PartKind::Write | PartKind::Zero);
        self.parities > 0 && is_write && self.regions[part.region as usize].needs_sync && {
            let (_, own) = self.stripe_of(index);
            self.works[usize::from(index)].targets & (1 << own) == 0
        }
    }

    fn may_write_stripes(&self) -> bool {
        self.is_settled() || self.has(Fault::StripeWrittenUnsettled)
    }

    /// Until superblocks are stored.
    fn hold(&mut self, index: u16) {
        self.parts[usize::from(index)].phase = PartPhase::Waiting;
        self.held.push(index, &mut self.links);
    }

    /// A background copy begins.
    pub(super) fn begin_stripe_copy(&mut self, index: u16, out: &mut EngineOutput) {
        if self.work(index).is_logged {
            return self.begin_stripe_write(index, out);
        }
        let (stripe, _) = self.stripe_of(index);
        let (available, columns) = (self.available(index), columns_of(stripe));
        let (wanted, available) = match self.copier.job_of(index) {
            Some(CopyJob::Rebuild { place, .. }) if columns & (1 << place) != 0 => {
                (1 << place, available & !(1 << place))
            }
            Some(CopyJob::Rebuild { place, .. }) => (columns, available & !(1 << place)),
            Some(CopyJob::Resync { .. } | CopyJob::Scrub { .. }) | None => (columns, available),
        };
        // Parities that may be wrong cannot restore data.
        let region = self.parts[usize::from(index)].region;
        let is_unsynced = self.regions[region as usize].needs_sync;
        let available = if is_unsynced { available & columns } else { available };
        *self.work(index) = Work::default();
        match self.reads_for(stripe, available, wanted) {
            Some(reads) => self.read_stripe(index, reads, out),
            None => self.finish(index, Err(RequestError::Unreadable), out),
        }
    }

    fn read_stripe(&mut self, index: u16, reads: Members, out: &mut EngineOutput) {
        self.work(index).reads = reads;
        self.parts[usize::from(index)].phase = PartPhase::Reading;
        let offset = self.data_at + self.parts[usize::from(index)].offset;
        self.ask_stripe(index, reads, MemberOpKind::Read, offset, out);
    }

    /// Issues the same operation to several members, each with its buffer.
    pub(super) fn ask_stripe(
        &mut self,
        index: u16,
        members: Members,
        kind: MemberOpKind,
        offset: u64,
        out: &mut EngineOutput,
    ) {
        for member in each(members) {
            let buffer = OpBuffer::Stripe { part: index, member };
            self.ask_member(index, member, kind, (offset, buffer), out);
        }
    }

    /// Asks one, with this buffer.
    pub(super) fn ask_member(
        &mut self,
        index: u16,
        member: u8,
        kind: MemberOpKind,
        (offset, buffer): (u64, OpBuffer),
        out: &mut EngineOutput,
    ) {
        let part = &mut self.parts[usize::from(index)];
        part.remaining |= 1 << member;
        part.issued = self.now;
        let (owner, generation, length) = (OpOwner::Part, part.generation, part.length);
        let tag = TagFields { owner, role: member, generation, index: index.into() }.pack();
        self.outstanding[usize::from(member)] += 1;
        let device = self.device_numbers[usize::from(member)];
        out.ops.push(MemberOp { device, kind, offset, length, buffer, tag });
    }

    /// A read of a stripe has ended on one member.
    pub(super) fn stripe_read_ended(
        &mut self,
        index: u16,
        member: u8,
        outcome: OpOutcome,
        out: &mut EngineOutput,
    ) {
        let part = &mut self.parts[usize::from(index)];
        part.remaining &= !(1 << member);
        if outcome != OpOutcome::Done {
            part.tried |= 1 << member;
        }
        if part.remaining == 0 {
            self.stripe_read(index, out);
        }
        if outcome != OpOutcome::Done {
            self.count_read_error(member, out);
        }
    }

    /// All chunks have arrived; starts again if a member was lost in the meantime.
    pub(super) fn stripe_read(&mut self, index: u16, out: &mut EngineOutput) {
        if self.works[usize::from(index)].reads & !self.available(index) != 0 {
            self.work(index).reads = 0;
            return self.begin(index, out);
        }
        self.restore_lost(index, out);
        match self.parts[usize::from(index)].kind {
            PartKind::Read => self.have_restored(index, out),
            PartKind::Write | PartKind::Zero => self.log(index, out),
            PartKind::Copy => self.copy_restored(index, out),
        }
    }

    pub(super) fn sum(&self, index: u16, to: u8, from: u8, factor: u8, adds: bool) -> Sum {
        let of = |member| OpBuffer::Stripe { part: index, member };
        let length = self.parts[usize::from(index)].length;
        Sum { to: of(to), from: of(from), factor, adds, length }
    }

    /// Computes the data chunks that were not read, if parities were.
    fn restore_lost(&mut self, index: u16, out: &mut EngineOutput) {
        let (stripe, _) = self.stripe_of(index);
        let Work { reads, is_update, .. } = self.works[usize::from(index)];
        let read = (0..self.parities).filter(|parity| reads & (1 << stripe.parity(*parity)) != 0);
        let read: [Option<u8>; 2] = {
            let mut read = read;
            std::array::from_fn(|_| read.next())
        };
        if is_update || read[0].is_none() {
            return;
        }
        let is_here = |column: &u8| reads & (1 << stripe.member(*column)) != 0;
        for parity in read.into_iter().flatten() {
            for column in (0..stripe.columns()).filter(is_here) {
                let (to, from) = (stripe.parity(parity), stripe.member(column));
                out.sums.push(self.sum(index, to, from, factor_of(parity, column), true));
            }
        }
        // The rest of a parity is the sum of the lost chunks.
        let mut lost = (0..stripe.columns()).filter(|column| !is_here(column));
        let (one, other) = (lost.next(), lost.next());
        match (one, other, read) {
            (Some(one), None, [Some(parity), _]) => {
                let factor = galois::inverse(factor_of(parity, one));
                let (to, from) = (stripe.member(one), stripe.parity(parity));
                out.sums.push(self.sum(index, to, from, factor, false));
            }
            (Some(one), Some(other), _) => {
                // a + b = p, f a + g b = q: a = (q + g p) / (f + g), b = p + a.
                let (f, g) = (factor_of(1, one), factor_of(1, other));
                let by = galois::inverse(f ^ g);
                let (p, q) = (stripe.parity(0), stripe.parity(1));
                let (a, b) = (stripe.member(one), stripe.member(other));
                out.sums.push(self.sum(index, a, q, by, false));
                out.sums.push(self.sum(index, a, p, galois::product(g, by), true));
                out.sums.push(self.sum(index, b, p, 1, false));
                out.sums.push(self.sum(index, b, a, 1, true));
            }
            _ => {}
        }
    }

    /// Makes a parity of all data chunks but one.
    pub(super) fn add_up(&self, index: u16, parity: u8, but: Option<u8>, out: &mut EngineOutput) {
        let (stripe, _) = self.stripe_of(index);
        let mut adds = false;
        for column in (0..stripe.columns()).filter(|column| Some(*column) != but) {
            let (to, from) = (stripe.parity(parity), stripe.member(column));
            out.sums.push(self.sum(index, to, from, factor_of(parity, column), adds));
            adds = true;
        }
    }

    /// A chunk restored from the others of its stripe goes to the user, and overwrites the
    /// unreadable one.
    fn have_restored(&mut self, index: u16, out: &mut EngineOutput) {
        let (_, own) = self.stripe_of(index);
        let to = self.request_buffer(index);
        out.sums.push(Sum { to, ..self.sum(index, own, own, 1, false) });
        let part = &mut self.parts[usize::from(index)];
        let tried = part.tried & (1 << own);
        self.works[usize::from(index)].reads = 0;
        if tried & self.sets[0].writable == 0 {
            return self.finish(index, Ok(()), out);
        }
        // Writes wait for it. It does not change the stripe's data, so it needs no entry.
        part.exclusive = true;
        part.phase = PartPhase::Writing;
        let offset = self.data_at + part.offset;
        self.ask_stripe(index, tried, MemberOpKind::Write, offset, out);
    }

    fn request_buffer(&self, index: u16) -> OpBuffer {
        let part = &self.parts[usize::from(index)];
        let buffer = self.requests[usize::from(part.request)].buffer;
        OpBuffer::Request { buffer, offset: part.buffer_offset }
    }

    /// The partial parities go to the log.
    fn log(&mut self, index: u16, out: &mut EngineOutput) {
        let (stripe, own) = self.stripe_of(index);
        let Work { targets, is_update, .. } = self.works[usize::from(index)];
        let (column, in_sync) = (self.parts[usize::from(index)].column, self.sets[0].in_sync);
        let mut members = 0;
        for parity in 0..self.parities {
            let to = stripe.parity(parity);
            if targets & (1 << to) == 0 {
                continue;
            }
            members |= in_sync & (1 << to);
            match is_update {
                true => out.sums.push(self.sum(index, to, own, factor_of(parity, column), true)),
                false => self.add_up(index, parity, Some(column), out),
            }
        }
        self.work(index).reads = 0;
        self.number_entry(index);
        if members == 0 || self.has(Fault::LogLeftOut) {
            // The loss of a parity must be in the superblocks first.
            return self.logged(index, out);
        }
        let part = &mut self.parts[usize::from(index)];
        part.phase = PartPhase::Logging;
        let slot = layout::log_slot_of(&self.geometry, part.offset);
        let at = layout::log_slot(&self.geometry, slot);
        self.ask_stripe(index, members, MemberOpKind::Log, at, out);
        if self.has(Fault::LogNotAwaited) {
            self.parts[usize::from(index)].remaining = 0;
            self.write_stripe(index, out);
        }
    }

    /// Numbers the next entry of the log for this part.
    pub(super) fn number_entry(&mut self, index: u16) {
        self.log_number += 1;
        let (number, epoch) = (self.log_number, self.table.epoch);
        let work = self.work(index);
        (work.number, work.epoch) = (number, epoch);
    }

    /// All remaining parities have the entry.
    pub(super) fn logged(&mut self, index: u16, out: &mut EngineOutput) {
        self.work(index).is_logged = true;
        if self.may_write_stripes() { self.write_stripe(index, out) } else { self.hold(index) }
    }

    /// The header of an entry of the log, for an operation that needs it.
    ///
    /// # Panics
    /// If the operation belongs to no part.
    pub fn log_header(&self, op: &MemberOp, partial: &[u8], to: &mut [u8; BLOCK as usize]) {
        let Some(TagFields { index, role, .. }) = TagFields::unpack(op.tag) else { return };
        let (part, work) = (&self.parts[index as usize], &self.works[index as usize]);
        let stripe = self.geometry.stripe(part.offset);
        let entry = LogEntry {
            array: self.table.array,
            member: self.table.entries[usize::from(role)].member,
            epoch: work.epoch,
            number: work.number,
            offset: part.offset,
            length: part.length,
            column: part.column,
            parity: u8::from(stripe.p != role),
        };
        entry.encode(partial, to);
    }

    /// Data and parities go to the members.
    fn write_stripe(&mut self, index: u16, out: &mut EngineOutput) {
        let (stripe, own) = self.stripe_of(index);
        let part = self.parts[usize::from(index)];
        let targets = self.works[usize::from(index)].targets & self.sets[0].writable;
        *self.work(index) = Work { targets, ..Work::default() };
        let offset = self.data_at + part.offset;
        let is_copy = part.kind == PartKind::Copy;
        let from = match part.kind {
            PartKind::Copy => OpBuffer::Stripe { part: index, member: own },
            _ => self.request_buffer(index),
        };
        self.parts[usize::from(index)].phase = PartPhase::Writing;
        for parity in 0..self.parities {
            let member = stripe.parity(parity);
            if targets & (1 << member) == 0 {
                continue;
            }
            if part.kind != PartKind::Zero {
                let factor = factor_of(parity, part.column);
                out.sums.push(Sum { from, ..self.sum(index, member, member, factor, true) });
            }
            self.ask_stripe(index, 1 << member, self.write_kind(), offset, out);
        }
        let columns = targets & columns_of(stripe);
        if is_copy {
            self.ask_stripe(index, columns, MemberOpKind::Write, offset, out);
        } else if columns != 0 {
            let (kind, buffer) = match part.kind {
                PartKind::Zero => (MemberOpKind::Zero, OpBuffer::None),
                _ => (self.write_kind(), from),
            };
            self.ask_member(index, own, kind, (offset, buffer), out);
        }
        if self.parts[usize::from(index)].remaining == 0 {
            self.written(index, out);
        }
    }

    /// All data of a background copy is known.
    fn copy_restored(&mut self, index: u16, out: &mut EngineOutput) {
        let (stripe, _) = self.stripe_of(index);
        let parities = self.parities_of(stripe);
        let targets = match self.copier.job_of(index) {
            Some(CopyJob::Rebuild { place, .. }) => 1 << place,
            Some(CopyJob::Resync { .. }) => parities,
            Some(CopyJob::Scrub { .. }) | None => 0,
        };
        let is_scrub = targets == 0;
        for parity in 0..self.parities {
            let member = 1 << stripe.parity(parity);
            if is_scrub || targets & member != 0 {
                self.add_up(index, parity, None, out);
            }
        }
        if is_scrub {
            return self.compare_others(index, out);
        }
        self.write_copies(index, targets, out);
    }

    /// Writes the result of a background copy. Parities get an entry in the log, as by a write of
    /// their first data chunk, because an older entry would revert them.
    pub(super) fn write_copies(&mut self, index: u16, targets: Members, out: &mut EngineOutput) {
        let targets = targets & self.sets[0].writable;
        if !matches!(self.copier.job_of(index), Some(CopyJob::Rebuild { .. })) {
            *self.work(index) = Work { targets, is_update: true, ..Work::default() };
            return self.log(index, out);
        }
        let part = &mut self.parts[usize::from(index)];
        part.phase = PartPhase::Writing;
        let offset = self.data_at + part.offset;
        *self.work(index) = Work { targets, ..Work::default() };
        if targets == 0 {
            return self.written(index, out);
        }
        self.ask_stripe(index, targets, MemberOpKind::Write, offset, out);
    }

    /// The members of a stripe whose parities a scrub compares with the data's sums.
    pub(super) fn parities_to_compare(&self, index: u16) -> Members {
        let (stripe, _) = self.stripe_of(index);
        let reads = self.works[usize::from(index)].reads;
        self.parities_of(stripe) & self.available(index) & !reads
    }

    /// A member of the set failed: no stripe waits to write it.
    pub(super) fn forget_target(&mut self, bit: Members) {
        self.works.iter_mut().for_each(|work| work.targets &= !bit);
    }

    /// Whether all writes have ended, so that a member can become in sync: a write in flight has no
    /// entry in the log of a member in rebuild.
    pub(super) fn has_drained(&mut self) -> bool {
        if self.parities == 0 || self.has(Fault::PromotedUnderWriter) {
            return true;
        }
        self.is_draining = true;
        let is_writing = |part: &super::lanes::ChunkPart| {
            let is_write = matches!(part.kind, PartKind::Write | PartKind::Zero);
            is_write
                && matches!(
                    part.phase,
                    PartPhase::Reading | PartPhase::Logging | PartPhase::Writing
                )
        };
        !self.parts.iter().any(is_writing)
    }

    /// A part waits for one member less. False if the part does not belong to a stripe.
    pub(super) fn stripe_released(&mut self, index: u16, out: &mut EngineOutput) -> bool {
        let part = &self.parts[usize::from(index)];
        let (phase, is_over) = (part.phase, part.remaining == 0);
        let reads = self.works[usize::from(index)].reads;
        let is_replaying = self.is_replaying();
        if is_replaying && is_over {
            self.replay_on(out);
        } else if phase == PartPhase::Reading && reads != 0 && is_over {
            self.stripe_read(index, out);
        } else if phase == PartPhase::Logging && is_over {
            self.logged(index, out);
        }
        is_replaying || (phase == PartPhase::Reading && reads != 0) || phase == PartPhase::Logging
    }

    /// Whether the log is still being replayed.
    pub(super) fn is_replaying(&self) -> bool {
        self.replaying.is_some()
    }
}
