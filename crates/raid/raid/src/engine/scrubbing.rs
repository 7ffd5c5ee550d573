//! Scrub: whether the copies of each chunk are equal, and repair of those that are not.
//!
//! Takes a start by the operator; runs one chunk at a time as a background copy in its lane
//! (`copying.rs`), so it never overlaps a write. The caller compares a member's data with the
//! buffer for background copies.
//!
//! ```text
//!  read the first copy ──► compare the others ──► equal ──► next chunk
//!                                     └──► differs ──► counted; repair: mark, write ──► next chunk
//! ```
//!
//! It runs after resync and rebuild, and skips copies that may differ: chunks that no copy could
//! read during a resync, and sets with one copy in sync.

use super::output::{EngineOutput, MemberOpKind, OpOutcome};
use super::{Engine, Members, OrderError, RequestError, Run};
use crate::geometry::BytePlace;
use durio_base::RaidLevel;
use durio_observe::{ArrayScrub, MismatchPlace};

/// Limit of mismatches listed with their place.
pub const MISMATCHES_KEPT: usize = 64;

/// The scrub, and its chunk on the way.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    /// `None` before the first.
    pub(super) status: Option<ArrayScrub>,
    /// The current scrub: operations of an earlier one are ignored.
    number: u32,
    /// Copies are being compared with the source.
    pub(super) is_comparing: bool,
    differing: Members,
    /// Copies that are written.
    pub(super) repairing: Members,
}

impl Scrub {
    pub(super) fn is_running(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.is_running)
    }

    pub(super) fn stop(&mut self) {
        if let Some(status) = &mut self.status {
            status.is_running = false;
        }
    }

    /// The status of the scrub with this number, if it is the newest.
    fn status_of(&mut self, number: u32) -> Option<&mut ArrayScrub> {
        self.status.as_mut().filter(|_| self.number == number)
    }
}

impl Engine {
    /// Starts to compare all copies, after resync and rebuild; with `repair`, a copy that differs
    /// from the first in sync is overwritten from that one. [`super::Status::scrub`] has the
    /// progress.
    ///
    /// # Errors
    /// [`OrderError`]; nothing has changed then.
    pub fn scrub(&mut self, repair: bool, out: &mut EngineOutput) -> Result<(), OrderError> {
        if self.geometry.level == RaidLevel::Raid0 {
            return Err(OrderError::NothingToCompare);
        }
        if self.run != Run::Running || self.is_closing {
            return Err(OrderError::NoScrub);
        }
        if self.scrub.is_running() {
            return Err(OrderError::Scrubbing);
        }
        self.scrub.number = self.scrub.number.wrapping_add(1);
        self.scrub.status = Some(ArrayScrub {
            is_running: true,
            repairs: repair,
            all_bytes: u64::from(self.geometry.sets()) * self.geometry.member_bytes,
            places: Vec::with_capacity(MISMATCHES_KEPT),
            ..ArrayScrub::default()
        });
        self.has_background = true;
        self.pump(out);
        Ok(())
    }

    /// Stops the scrub; the chunk in flight is still compared.
    pub fn stop_scrub(&mut self) {
        self.scrub.stop();
    }

    /// Starts the next chunk whose copies can be compared, if a scrub runs.
    pub(super) fn scrub_next(&mut self, out: &mut EngineOutput) {
        let (member_bytes, chunk) = (self.geometry.member_bytes, u64::from(self.geometry.chunk));
        while let Some(status) = self.scrub.status.as_mut().filter(|status| status.is_running) {
            if status.done_bytes == status.all_bytes {
                status.is_running = false;
                return;
            }
            self.has_background = true;
            let set = (status.done_bytes / member_bytes) as u8;
            let place = BytePlace { set, offset: status.done_bytes % member_bytes, column: 0 };
            let left_in_set = member_bytes - place.offset;
            // Stripes need all members.
            let needed = if self.parities > 0 { self.width } else { 2 };
            let has_one = self.sets[usize::from(set)].in_sync.count_ones() < u32::from(needed);
            let region = self.region_at(place);
            let skipped = match self.regions[region as usize].needs_sync {
                _ if has_one => left_in_set,
                true => chunk,
                false => {
                    let scrub = &mut self.scrub;
                    (scrub.is_comparing, scrub.differing, scrub.repairing) = (false, 0, 0);
                    let job = super::copying::CopyJob::Scrub { number: scrub.number };
                    return self.start_copy(job, place, out);
                }
            };
            if let Some(status) = &mut self.scrub.status {
                status.done_bytes += skipped;
                status.skipped_bytes += skipped;
            }
        }
    }

    /// The first copy was read.
    pub(super) fn compare_others(&mut self, index: u16, out: &mut EngineOutput) {
        let part = self.parts[usize::from(index)];
        let in_sync = self.sets[usize::from(part.set)].in_sync;
        let others = match self.parities {
            0 => in_sync & !part.tried & !(1 << self.copier.source()),
            _ => self.parities_to_compare(index),
        };
        self.scrub.is_comparing = true;
        if others == 0 {
            return self.compared(index, out);
        }
        if self.parities > 0 {
            let offset = self.data_at + part.offset;
            return self.ask_stripe(index, others, MemberOpKind::Compare, offset, out);
        }
        self.issue(index, others, MemberOpKind::Compare, out);
    }

    /// A copy was compared.
    pub(super) fn compare_ended(
        &mut self,
        index: u16,
        bit: Members,
        outcome: OpOutcome,
        out: &mut EngineOutput,
    ) {
        let part = &mut self.parts[usize::from(index)];
        part.remaining &= !bit;
        match outcome {
            OpOutcome::Done => {}
            OpOutcome::Differs => self.scrub.differing |= bit,
            OpOutcome::Error => part.tried |= bit,
        }
        self.compare_released(index, out);
    }

    /// One copy need not be awaited any more.
    pub(super) fn compare_released(&mut self, index: u16, out: &mut EngineOutput) {
        if self.parts[usize::from(index)].remaining == 0 {
            self.compared(index, out);
        }
    }

    /// All copies were compared: counts those that differ, and writes them if requested.
    fn compared(&mut self, index: u16, out: &mut EngineOutput) {
        self.scrub.is_comparing = false;
        let part = self.parts[usize::from(index)];
        let place = BytePlace { set: part.set, offset: part.offset, column: 0 };
        let in_sync = self.sets[usize::from(part.set)].in_sync;
        let compared_with = match self.parities {
            0 => 1 << self.copier.source(),
            _ => self.works[usize::from(index)].reads,
        };
        if compared_with & !in_sync != 0 {
            // They were compared with a copy that is now lost: the chunk is compared again.
            self.copier.forget();
            return self.finish(index, Err(RequestError::Unreadable), out);
        }
        let number = self.copier.scrub_number();
        let (offset, first) = (self.geometry.locate_back(place), part.set * self.stride);
        let differing = self.scrub.differing & in_sync;
        let differ = (0..self.stride).filter(|copy| differing & (1 << copy) != 0);
        let roles: Vec<u8> = differ.map(|copy| self.role_at(first + copy)).collect();
        let Some(status) = number.and_then(|number| self.scrub.status_of(number)) else {
            return self.finish(index, Ok(()), out);
        };
        status.mismatches += u64::from(differing.count_ones());
        let room = MISMATCHES_KEPT.saturating_sub(status.places.len());
        let places =
            roles.into_iter().take(room).map(|role| MismatchPlace { offset_bytes: offset, role });
        status.places.extend(places);
        let wrong = differing | (part.tried & in_sync);
        if !status.repairs || wrong == 0 {
            return self.finish(index, Ok(()), out);
        }
        self.scrub.repairing = wrong;
        self.begin_write(index, out);
    }

    /// A chunk is done, or no copy of it could be read.
    pub(super) fn scrub_ended(&mut self, number: u32) {
        let part = self.parts[usize::from(self.copier.first_part)];
        let in_sync = self.sets[usize::from(part.set)].in_sync;
        let repaired = self.scrub.repairing & in_sync;
        let chunk = u64::from(self.geometry.chunk);
        if let Some(status) = self.scrub.status_of(number) {
            status.done_bytes += chunk;
            status.unreadable += u64::from((part.tried & in_sync).count_ones());
            status.repaired += u64::from(repaired.count_ones());
        }
    }
}
