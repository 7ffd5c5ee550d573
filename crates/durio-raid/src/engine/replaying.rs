//! Parities after a stop that was not clean: made right by the log, before anything is served.
//!
//! In: entries of the log, from assembly. Out: operations on members, sums. Not here: which entries count
//! (`assembly.rs`), the entries themselves (`log_entry.rs`).
//!
//! An entry has the parity without one data chunk of its stripe. With that chunk as it is now, old or new, it gives
//! the parity. If the chunk's member is away, P and its entry say what the chunk is, and the entry of Q what Q is
//! then. To do it again, or for a write that had ended, changes nothing.

use super::lanes::{Part, PartKind, Phase};
use super::output::{Buffer, MemberOpKind, Outcome, Output};
use super::stripes::factor_of;
use super::{Engine, Members};
use crate::Fault;
use crate::geometry::BLOCK;
use crate::layout;
use crate::log_entry::LogEntry;

/// How far an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The chunk is read, and the entry.
    Data,
    /// The chunk's member is away: P is read, and the entry of Q.
    Parities,
    /// Then the entry of P.
    Partial,
    /// The parity is written.
    Written,
}

/// An entry that is gone over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replay {
    /// The member that has it.
    role: u8,
    entry: LogEntry,
    step: Step,
    /// Members that it needs.
    members: Members,
}

impl Engine {
    /// Begins with the next entry; superblocks are written when there is none left.
    pub(super) fn replay_next(&mut self, out: &mut Output) {
        self.replaying = None;
        while let Some((role, entry)) = self.replays.pop() {
            if self.begin_replay(role, entry, out) {
                return;
            }
        }
    }

    /// False if its parity is right, or its member gone.
    fn begin_replay(&mut self, role: u8, entry: LogEntry, out: &mut Output) -> bool {
        let in_sync = self.sets[0].in_sync;
        if in_sync & (1 << role) == 0 || self.has(Fault::LogNotReplayed) {
            return false;
        }
        let stripe = self.geometry.stripe(entry.offset);
        let (own, p) = (stripe.member(entry.column), stripe.parity(0));
        let is_away = in_sync & (1 << own) == 0;
        let (mut role, mut entry) = (role, entry);
        if is_away {
            // One of the two may have been made right while the chunk was there: the other is made to fit.
            let is_pair = |(_, it): &&(u8, LogEntry)| {
                (it.epoch, it.number, it.offset) == (entry.epoch, entry.number, entry.offset)
            };
            let mut pair = self.replayable.iter().filter(is_pair);
            let (Some(_), Some(_)) = (pair.next(), pair.next()) else { return false };
            let of_q = self.replayable.iter().filter(is_pair).find(|(_, it)| it.parity == 1);
            (role, entry) = of_q.copied().unwrap_or((role, entry));
            if in_sync & (1 << p) == 0 || in_sync & (1 << role) == 0 {
                return false;
            }
        }
        let index = self.copier.first_part;
        let generation = self.parts[usize::from(index)].generation.wrapping_add(1);
        self.parts[usize::from(index)] = Part {
            kind: PartKind::Copy,
            phase: Phase::Reading,
            offset: entry.offset,
            length: entry.length,
            column: entry.column,
            generation,
            ..Part::FREE
        };
        let data = self.data_at + entry.offset;
        let (other, step) = if is_away { (p, Step::Parities) } else { (own, Step::Data) };
        let members = 1 << role | 1 << other;
        self.replaying = Some(Replay { role, entry, step, members });
        self.ask_stripe(index, 1 << other, MemberOpKind::Read, data, out);
        self.ask_stripe(index, 1 << role, MemberOpKind::Read, self.partial_at(&entry), out);
        true
    }

    /// Where the partial parity of an entry lies.
    fn partial_at(&self, entry: &LogEntry) -> u64 {
        let slot = layout::log_slot_of(&self.geometry, entry.offset);
        layout::log_slot(&self.geometry, slot) + BLOCK
    }

    /// An operation for an entry has ended. A member that fails now is out: what it has cannot be made right.
    pub(super) fn replay_completed(&mut self, member: u8, outcome: Outcome, out: &mut Output) {
        if outcome != Outcome::Done {
            return self.fail_place(member, out);
        }
        let part = &mut self.parts[usize::from(self.copier.first_part)];
        part.remaining &= !(1 << member);
        if part.remaining == 0 {
            self.replay_on(out);
        }
    }

    /// Nothing of an entry is on its way: the next step.
    pub(super) fn replay_on(&mut self, out: &mut Output) {
        let Some(replay) = self.replaying else { return };
        let Replay { role, entry, step, members } = replay;
        if members & !self.sets[0].in_sync != 0 {
            // One of them is lost: with those that are left it is another thing.
            self.replays.push((role, entry));
            return self.replayed(out);
        }
        let index = self.copier.first_part;
        let stripe = self.geometry.stripe(entry.offset);
        let (own, p) = (stripe.member(entry.column), stripe.parity(0));
        let factor = factor_of(entry.parity, entry.column);
        match step {
            Step::Data => {
                out.sums.push(self.sum(index, role, own, factor, true));
                self.write_replayed(replay, out);
            }
            Step::Parities => {
                self.replaying = Some(Replay { step: Step::Partial, ..replay });
                // Into the buffer of the chunk that is away.
                let buffer = Buffer::Stripe { part: index, member: own };
                let at = (self.partial_at(&entry), buffer);
                self.ask_member(index, p, MemberOpKind::Read, at, out);
            }
            Step::Partial => {
                // The chunk is what P has beyond the rest.
                out.sums.push(self.sum(index, own, p, 1, true));
                out.sums.push(self.sum(index, role, own, factor, true));
                self.write_replayed(replay, out);
            }
            Step::Written => self.replayed(out),
        }
    }

    fn write_replayed(&mut self, replay: Replay, out: &mut Output) {
        let index = self.copier.first_part;
        self.replaying = Some(Replay { step: Step::Written, ..replay });
        self.parts[usize::from(index)].phase = Phase::Writing;
        let at = self.data_at + replay.entry.offset;
        self.ask_stripe(index, 1 << replay.role, MemberOpKind::Write, at, out);
    }

    /// An entry is done.
    fn replayed(&mut self, out: &mut Output) {
        self.parts[usize::from(self.copier.first_part)].phase = Phase::Free;
        self.replay_next(out);
        if self.replaying.is_none() {
            self.start_update(out);
        }
    }
}
