//! Corrects parities by the log after an unclean stop, before anything is served.
//!
//! Takes doubts from assembly; issues operations on members and sums. `assembly.rs` decides which
//! entries count, `log_entry.rs` has their format.
//!
//! An entry has the parity without one data chunk of its stripe. Together with that chunk as it is
//! now, old or new, it gives the parity. If the chunk's member is away, P and its entry give the
//! chunk, and Q's entry then gives Q. The replay is idempotent, and harmless for completed writes.
//! If the slot of a stripe is unreadable, its region counts as one whose parities were never made:
//! they are recomputed in the background, and until then nothing is restored from them. The map
//! records this before the log is written again.

use super::lanes::{ChunkPart, PartKind, PartPhase};
use super::output::{EngineOutput, MemberOpKind, OpBuffer, OpOutcome};
use super::stripes::factor_of;
use super::{Engine, Members};
use crate::Fault;
use crate::assembly::Doubt;
use crate::geometry::BLOCK;
use crate::layout;
use crate::log_entry::LogEntry;

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplayStep {
    /// The chunk is read, and the entry.
    Data,
    /// The chunk's member is away: P is read, and the entry of Q.
    Parities,
    /// Then the entry of P.
    Partial,
    /// The parity is written.
    Written,
    /// Unreadable, and the array has no member to spare.
    Unreadable,
}

/// A parity that is made right.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParityReplay {
    /// The member that has it.
    role: u8,
    entry: LogEntry,
    step: ReplayStep,
    /// Members that it needs.
    members: Members,
}

impl Engine {
    /// Starts the next; superblocks are written when none is left.
    pub(super) fn replay_next(&mut self, out: &mut EngineOutput) {
        self.replaying = None;
        while let Some((role, doubt)) = self.doubts.pop() {
            let is_here = self.sets[0].in_sync & (1 << role) != 0;
            if !is_here || self.has(Fault::LogNotReplayed) {
                continue;
            }
            let has_begun = match doubt {
                Doubt::Entry(entry) => self.replay_entry(role, entry, out),
                Doubt::Lost(offset) => {
                    self.doubt_region(offset);
                    false
                }
            };
            if has_begun {
                return;
            }
        }
    }

    fn is_in_sync(&self, member: u8) -> bool {
        self.sets[0].in_sync & (1 << member) != 0
    }

    /// False if the parity is right, or cannot be corrected.
    fn replay_entry(&mut self, role: u8, entry: LogEntry, out: &mut EngineOutput) -> bool {
        let stripe = self.geometry.stripe(entry.offset);
        let own = stripe.member(entry.column);
        let data = self.data_at + entry.offset;
        if self.is_in_sync(own) {
            let index = self.start_replay(role, entry, ReplayStep::Data, 1 << own);
            self.ask_stripe(index, 1 << own, MemberOpKind::Read, data, out);
            self.ask_stripe(index, 1 << role, MemberOpKind::Read, self.partial_at(&entry), out);
            return true;
        }
        // One of the two may have been corrected while the chunk was there: the other must match
        // it.
        let of_write = |(role, doubt): &(u8, Doubt)| match doubt {
            Doubt::Entry(other) => {
                let is_same = (other.epoch, other.number, other.offset)
                    == (entry.epoch, entry.number, entry.offset);
                is_same.then_some((*role, *other))
            }
            Doubt::Lost(_) => None,
        };
        let mut pair = self.all_doubts.iter().filter_map(of_write);
        let (Some(one), Some(other)) = (pair.next(), pair.next()) else { return false };
        let (role, entry) = if one.1.parity == 1 { one } else { other };
        let p = stripe.parity(0);
        if !self.is_in_sync(p) || !self.is_in_sync(role) {
            return false;
        }
        let index = self.start_replay(role, entry, ReplayStep::Parities, 1 << p);
        self.ask_stripe(index, 1 << p, MemberOpKind::Read, data, out);
        self.ask_stripe(index, 1 << role, MemberOpKind::Read, self.partial_at(&entry), out);
        true
    }

    /// The part for it.
    fn start_replay(
        &mut self,
        role: u8,
        entry: LogEntry,
        step: ReplayStep,
        others: Members,
    ) -> u16 {
        self.replaying = Some(ParityReplay { role, entry, step, members: others | 1 << role });
        let LogEntry { offset, length, column, .. } = entry;
        let index = self.copier.first_part;
        let generation = self.parts[usize::from(index)].generation.wrapping_add(1);
        let (kind, phase) = (PartKind::Copy, PartPhase::Reading);
        let part = ChunkPart { kind, phase, offset, length, column, generation, ..ChunkPart::FREE };
        self.parts[usize::from(index)] = part;
        index
    }

    /// The place of an entry's partial parity.
    fn partial_at(&self, entry: &LogEntry) -> u64 {
        let slot = layout::log_slot_of(&self.geometry, entry.offset);
        layout::log_slot(&self.geometry, slot) + BLOCK
    }

    /// Handles the end of an operation. A member that fails now is out: its parities cannot be
    /// corrected. If the array cannot run without it and the start is forced, a failed read counts
    /// as an unreadable slot: otherwise one bad sector would prevent every start.
    pub(super) fn replay_completed(
        &mut self,
        member: u8,
        outcome: OpOutcome,
        out: &mut EngineOutput,
    ) {
        if outcome != OpOutcome::Done && !self.has(Fault::FailedReplayCounts) {
            let needed = u32::from(self.geometry.columns());
            let is_last = (self.sets[0].in_sync & !(1 << member)).count_ones() < needed;
            match self.replaying {
                Some(replay) if is_last && self.is_forced && replay.step != ReplayStep::Written => {
                    self.replaying = Some(ParityReplay { step: ReplayStep::Unreadable, ..replay });
                    self.doubt_region(replay.entry.offset);
                }
                _ => return self.fail_place(member, out),
            }
        }
        let part = &mut self.parts[usize::from(self.copier.first_part)];
        part.remaining &= !(1 << member);
        if part.remaining == 0 {
            self.replay_on(out);
        }
    }

    /// All operations of the step have ended: starts the next.
    pub(super) fn replay_on(&mut self, out: &mut EngineOutput) {
        let Some(replay) = self.replaying else { return };
        let ParityReplay { role, entry, step, members } = replay;
        if members & !self.sets[0].in_sync != 0 {
            // One of them is lost: try again with those that are left.
            self.doubts.push((role, Doubt::Entry(entry)));
            return self.replayed(out);
        }
        let index = self.copier.first_part;
        let stripe = self.geometry.stripe(entry.offset);
        let (own, p) = (stripe.member(entry.column), stripe.parity(0));
        let factor = factor_of(entry.parity, entry.column);
        match step {
            ReplayStep::Data => {
                out.sums.push(self.sum(index, role, own, factor, true));
                self.write_replayed(replay, out);
            }
            ReplayStep::Parities => {
                self.replaying = Some(ParityReplay { step: ReplayStep::Partial, ..replay });
                // Into the buffer of the missing chunk.
                let buffer = OpBuffer::Stripe { part: index, member: own };
                let at = (self.partial_at(&entry), buffer);
                self.ask_member(index, p, MemberOpKind::Read, at, out);
            }
            ReplayStep::Partial => {
                // P minus the rest gives the chunk.
                out.sums.push(self.sum(index, own, p, 1, true));
                out.sums.push(self.sum(index, role, own, factor, true));
                self.write_replayed(replay, out);
            }
            ReplayStep::Written | ReplayStep::Unreadable => self.replayed(out),
        }
    }

    fn write_replayed(&mut self, replay: ParityReplay, out: &mut EngineOutput) {
        let index = self.copier.first_part;
        self.replaying = Some(ParityReplay { step: ReplayStep::Written, ..replay });
        let part = &mut self.parts[usize::from(index)];
        part.phase = PartPhase::Writing;
        let at = self.data_at + part.offset;
        self.ask_stripe(index, 1 << replay.role, MemberOpKind::Write, at, out);
    }

    fn replayed(&mut self, out: &mut EngineOutput) {
        self.parts[usize::from(self.copier.first_part)].phase = PartPhase::Free;
        self.replay_next(out);
        if self.replaying.is_none() {
            self.start_pages(out);
            self.start_update(out);
        }
    }
}
