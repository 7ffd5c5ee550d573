//! Carries out a part: reads from one copy, or writes to all.
//!
//! Takes parts that start, and completions; issues operations on members. Marks are in `dirty.rs`,
//! failed members in `membership.rs`, background copies in `copying.rs`.
//!
//! ```text
//!  read:   one copy ──► done                      error ──► another copy ──► write the first ──► done
//!                        error, and copies may differ: so for each piece of it, then all of it again
//!  write:  mark, if the region is clean ──► all copies ──► superblocks, if one failed ──► done
//! ```

use durio_base::Nanos;

use super::fault::Fault;
use super::lanes::{ChunkPart, Mending, PartKind, PartPhase};
use super::output::{
    EngineOutput, MemberOp, MemberOpKind, OpBuffer, OpOutcome, OpOwner, TagFields,
};
use super::{Engine, Members, RequestError, Run};

/// Read errors of a member that are repaired before it fails, as many as in md (its
/// max_read_errors).
const READ_ERRORS_MAX: u8 = 20;

// Inlined where each write passes: by callgrind, a sixth of its instructions was entering
// functions.
impl Engine {
    /// Starts a part, or holds it until superblocks are stored.
    #[inline(always)]
    pub(super) fn begin(&mut self, index: u16, out: &mut EngineOutput) {
        let &ChunkPart { kind, region, .. } = &self.parts[usize::from(index)];
        let is_unsynced = self.regions[region as usize].needs_sync;
        // Until all survivors know of a failure, a copy that may differ is not read in its place:
        // after a power cut, the failed one could be read again.
        let must_hold = self.run == Run::Starting || (!self.is_settled() && is_unsynced);
        if must_hold {
            self.parts[usize::from(index)].phase = PartPhase::Waiting;
            self.held.push(index, &mut self.links);
            return;
        }
        match kind {
            PartKind::Read => self.begin_read(index, out),
            PartKind::Copy => self.begin_copy(index, out),
            PartKind::Write | PartKind::Zero => self.begin_write(index, out),
        }
    }

    fn begin_read(&mut self, index: u16, out: &mut EngineOutput) {
        if self.parities > 0 {
            return self.begin_stripe_read(index, out);
        }
        let part = self.parts[usize::from(index)];
        match self.copy_to_read(&part) {
            Some(copy) => self.issue_read(index, copy, out),
            None => self.finish(index, Err(RequestError::Unreadable), out),
        }
    }

    /// Always the same one of copies that may differ, else the least busy.
    fn copy_to_read(&mut self, part: &ChunkPart) -> Option<u8> {
        let in_sync = self.sets[usize::from(part.set)].in_sync & !part.tried;
        if in_sync == 0 {
            return None;
        }
        if self.regions[part.region as usize].needs_sync {
            return Some(if self.has(Fault::DirtyReadFromAny) {
                self.any_copy(in_sync)
            } else {
                in_sync.trailing_zeros() as u8
            });
        }
        let first = part.set * self.stride;
        let copies = (0..self.stride).filter(|copy| in_sync & (1 << copy) != 0);
        copies.min_by_key(|copy| self.outstanding[usize::from(first + copy)])
    }

    /// Another copy each time, by the count of requests: only for a fault.
    fn any_copy(&self, in_sync: Members) -> u8 {
        let other = in_sync & !(1 << in_sync.trailing_zeros());
        let is_odd =
            self.parts.iter().map(|part| part.generation).fold(0, u32::wrapping_add) % 2 == 1;
        let chosen = if is_odd && other != 0 { other } else { in_sync };
        chosen.trailing_zeros() as u8
    }

    pub(super) fn issue_read(&mut self, index: u16, copy: u8, out: &mut EngineOutput) {
        let part = &mut self.parts[usize::from(index)];
        part.phase = PartPhase::Reading;
        self.issue(index, 1 << copy, MemberOpKind::Read, out);
    }

    #[inline(always)]
    pub(super) fn begin_write(&mut self, index: u16, out: &mut EngineOutput) {
        let part = &mut self.parts[usize::from(index)];
        let holds_region = std::mem::replace(&mut part.holds_region, true);
        let region = &mut self.regions[part.region as usize];
        if !holds_region {
            region.writers += 1;
        }
        if region.durable || self.width == 1 {
            return self.issue_writes(index, out);
        }
        self.mark(index, out);
        if self.has(Fault::MarkNotAwaited) {
            self.issue_writes(index, out);
        }
    }

    /// Writes a part to its copies, after its region was marked.
    #[inline(always)]
    pub(super) fn issue_writes(&mut self, index: u16, out: &mut EngineOutput) {
        if self.parities > 0 {
            return match self.parts[usize::from(index)].kind {
                PartKind::Copy => self.write_copies(index, self.copy_targets(index), out),
                _ => self.begin_stripe_write(index, out),
            };
        }
        let part = &self.parts[usize::from(index)];
        let writable = self.sets[usize::from(part.set)].writable;
        let (mut copies, kind) = match part.kind {
            PartKind::Write => (writable, self.write_kind()),
            PartKind::Zero => (writable, MemberOpKind::Zero),
            PartKind::Read => (writable & part.tried, MemberOpKind::Write),
            PartKind::Copy => (writable & self.copy_targets(index), MemberOpKind::Write),
        };
        if part.kind != PartKind::Copy && self.has(Fault::ReplacementNotWritten) {
            copies &= !self.replacement_in(part.set);
        }
        if kind == MemberOpKind::Zero && self.has(Fault::DiscardNotMirrored) {
            copies &= copies.wrapping_neg();
        }
        let part = &mut self.parts[usize::from(index)];
        part.phase = PartPhase::Writing;
        if copies == 0 {
            return self.written(index, out);
        }
        self.issue(index, copies, kind, out);
    }

    pub(super) fn write_kind(&self) -> MemberOpKind {
        #[cfg(any(test, feature = "simulate"))]
        if self.has(Fault::FuaLeftOut) {
            return MemberOpKind::VolatileWrite;
        }
        MemberOpKind::Write
    }

    /// Issues the same operation to each of these copies.
    #[inline(always)]
    pub(super) fn issue(
        &mut self,
        index: u16,
        copies: Members,
        kind: MemberOpKind,
        out: &mut EngineOutput,
    ) {
        let part = &mut self.parts[usize::from(index)];
        part.remaining = copies;
        part.issued = self.now;
        let first = part.set * self.stride;
        let (at, length) = match part.mending {
            Mending::No | Mending::Over => (0, part.length),
            Mending::At(at) => (at, self.config.alignment.min(part.length - at)),
        };
        let buffer = match (part.kind, kind) {
            (PartKind::Copy, _) => OpBuffer::Copy(self.copier.number_of(index)),
            (_, MemberOpKind::Zero) => OpBuffer::None,
            _ => OpBuffer::Request {
                buffer: self.requests[usize::from(part.request)].buffer,
                offset: part.buffer_offset + at,
            },
        };
        let (owner, generation) = (OpOwner::Part, part.generation);
        let fields = TagFields { owner, role: 0, generation, index: u32::from(index) };
        let offset = self.data_at + part.offset + u64::from(at);
        let mut left = copies;
        while left != 0 {
            let copy = left.trailing_zeros() as u8;
            left &= left - 1;
            self.outstanding[usize::from(first + copy)] += 1;
            let device = self.device_numbers[usize::from(first + copy)];
            let tag = TagFields { role: copy, ..fields }.pack();
            out.ops.push(MemberOp { device, kind, offset, length, buffer, tag });
        }
    }

    /// An operation of a part has ended.
    #[inline(always)]
    pub(super) fn part_completed(
        &mut self,
        tag: TagFields,
        outcome: OpOutcome,
        out: &mut EngineOutput,
    ) {
        let index = tag.index as u16;
        let bit = 1 << (tag.role & 31);
        let Some(part) = self.parts.get_mut(usize::from(index)) else { return };
        let is_ours = part.generation & super::output::GENERATION_MASK == tag.generation;
        if !is_ours || part.remaining & bit == 0 {
            return;
        }
        let place = part.set * self.stride + tag.role;
        self.outstanding[usize::from(place)] -= 1;
        let (phase, kind) = (part.phase, part.kind);
        if self.parities > 0 && self.is_replaying() {
            return self.replay_completed(tag.role, outcome, out);
        }
        let is_written_copy = kind == PartKind::Copy && phase == PartPhase::Writing;
        let outcome = match is_written_copy && self.has(Fault::CopyErrorIgnored) {
            true => OpOutcome::Done,
            false => outcome,
        };
        let part = &mut self.parts[usize::from(index)];
        match (phase, outcome) {
            (PartPhase::Reading, _) => self.read_ended(index, bit, outcome, out),
            (_, OpOutcome::Done) => {
                part.remaining &= !bit;
                if part.remaining == 0 && part.phase == PartPhase::Logging {
                    self.logged(index, out);
                } else if part.remaining == 0 {
                    self.written(index, out);
                } else if self.has(Fault::AnswerAfterOneCopy) {
                    self.answer_early(index, out);
                }
            }
            (_, OpOutcome::Error | OpOutcome::Differs) => self.fail_place(place, out),
        }
    }

    fn read_ended(&mut self, index: u16, bit: Members, outcome: OpOutcome, out: &mut EngineOutput) {
        if self.is_compared(index) {
            return self.compare_ended(index, bit, outcome, out);
        }
        if self.works.get(usize::from(index)).is_some_and(|work| work.reads != 0) {
            return self.stripe_read_ended(index, bit.trailing_zeros() as u8, outcome, out);
        }
        let part = &mut self.parts[usize::from(index)];
        part.remaining = 0;
        if outcome == OpOutcome::Done {
            return self.have_read(index, out);
        }
        let is_unsynced = self.regions[part.region as usize].needs_sync;
        if is_unsynced && part.mending == Mending::No && self.parities == 0 {
            part.mending = Mending::At(0);
        } else {
            part.tried |= bit;
        }
        let place = part.set * self.stride + bit.trailing_zeros() as u8;
        self.begin(index, out);
        if !is_unsynced {
            self.count_read_error(place, out);
        }
    }

    /// Gives up a member with too many read errors, if another copy can replace it. Errors where
    /// copies may differ do not count: the copy that is read there must stay.
    pub(super) fn count_read_error(&mut self, place: u8, out: &mut EngineOutput) {
        let errors = &mut self.read_errors[usize::from(place)];
        *errors = errors.saturating_add(1);
        let (is_over, (set, bit)) = (*errors > READ_ERRORS_MAX, self.copy_at(place));
        let needed = u32::from(self.geometry.columns());
        if is_over && (self.sets[set].in_sync & !bit).count_ones() >= needed {
            self.fail_place(place, out);
        }
    }

    /// Old errors count less: half as many each hour.
    pub(super) fn forget_read_errors(&mut self) {
        if self.now.saturating_sub(self.errors_halved) >= Nanos::from_secs(3600) {
            self.errors_halved = self.now;
            self.read_errors.iter_mut().for_each(|read_error| *read_error /= 2);
        }
    }

    /// Where copies may differ, a part with an unreadable piece cannot be read from another copy as
    /// a whole, because the rest may have been read before. So each unreadable piece is read from
    /// another copy and rewritten. When all pieces are readable, the part is read again.
    fn mend_next(&mut self, index: u16, at: u32, out: &mut EngineOutput) {
        let part = &mut self.parts[usize::from(index)];
        let next = at + self.config.alignment;
        part.mending = if next < part.length { Mending::At(next) } else { Mending::Over };
        part.tried = 0;
        self.begin(index, out);
    }

    /// True for the part of a scrub while its copies are compared.
    fn is_compared(&self, index: u16) -> bool {
        index == self.copier.first_part && self.scrub.is_comparing
    }

    fn have_read(&mut self, index: u16, out: &mut EngineOutput) {
        let part = &mut self.parts[usize::from(index)];
        match (part.mending, part.tried) {
            (Mending::At(at), 0) => return self.mend_next(index, at, out),
            (Mending::At(_), _) => {}
            _ if part.kind == PartKind::Copy => return self.copy_read(index, out),
            (_, 0) => return self.finish(index, Ok(()), out),
            _ => {}
        }
        if !part.exclusive {
            // Concurrent reads get the same bytes from another copy; writes wait for it.
            part.exclusive = true;
        }
        // A copy that could not be read is written, as any write is.
        self.begin_write(index, out);
    }

    /// All copies that are in sync have it.
    #[inline(always)]
    pub(super) fn written(&mut self, index: u16, out: &mut EngineOutput) {
        if let Mending::At(at) = self.parts[usize::from(index)].mending {
            self.mend_next(index, at, out);
        } else if self.is_settled() || self.has(Fault::EpochNotRaised) {
            self.finish(index, Ok(()), out);
        } else {
            self.parts[usize::from(index)].phase = PartPhase::Waiting;
            self.unsettled.push(index, &mut self.links);
        }
    }

    fn answer_early(&mut self, index: u16, out: &mut EngineOutput) {
        let part = self.parts[usize::from(index)];
        if matches!(part.kind, PartKind::Write | PartKind::Zero) {
            let slot = &mut self.requests[usize::from(part.request)];
            if slot.parts == 1 && !slot.answered {
                slot.answered = true;
                out.answers
                    .push(super::output::RequestCompletion { tag: slot.tag, result: Ok(()) });
            }
        }
    }

    /// A copy failed: no part waits for it.
    pub(super) fn release_parts(&mut self, place: u8, out: &mut EngineOutput) {
        let (set, bit) = (place / self.stride, 1 << (place % self.stride));
        self.forget_target(bit);
        for index in 0..self.parts.len() as u16 {
            let part = &mut self.parts[usize::from(index)];
            if part.phase == PartPhase::Free || part.set != set || part.remaining & bit == 0 {
                continue;
            }
            part.remaining &= !bit;
            // Its completion may still come, and must not count for another copy in the same place.
            let (phase, remaining) = (part.phase, part.remaining);
            match phase {
                PartPhase::Reading if self.is_compared(index) => self.compare_released(index, out),
                _ if self.parities > 0 && self.stripe_released(index, out) => {}
                PartPhase::Reading => self.begin(index, out),
                _ if remaining == 0 => self.written(index, out),
                _ => {}
            }
        }
    }
}
