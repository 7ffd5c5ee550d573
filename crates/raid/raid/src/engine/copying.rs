//! Background copies: resync of regions that may differ, rebuild of members that lack data, chunks of a
//! scrub.
//!
//! Each copy of a chunk is a part in its lane, so it never overlaps a write. One runs at a time, or
//! several of a rebuild while no requests arrive. `membership.rs` and `joining.rs` decide which
//! members to rebuild, `scrubbing.rs` what to compare.
//!
//! Copies yield to users: after a copy that met requests, as many requests pass first as a chunk
//! has blocks. So a rebuild takes about half of the members' time, however fast they are, and all
//! of it without requests.
//!
//! Resync comes first, a scrub last. A rebuild goes from the start to the end and stores its
//! watermark behind it. A member that was in sync once gets only what the map names.

use super::fault::Fault;
use super::lanes::{ChunkPart, PartKind, PartPhase};
use super::output::{COPY_BUFFERS, EngineOutput};
use super::{Engine, Members, RequestError, Run};
use crate::geometry::{BLOCK, BytePlace};
use crate::superblock::{MemberEntry, MemberState};

/// The job of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyJob {
    /// A region, from its source copy to the others.
    Resync { region: u32 },
    /// The member in this place, in rebuild since this epoch.
    Rebuild { place: u8, since: u64 },
    /// A chunk of the scrub with this number.
    Scrub { number: u32 },
}

/// A copy in flight, with its reserved part.
#[derive(Debug, Clone, Copy)]
struct CopySlot {
    job: Option<CopyJob>,
    /// The copy that is read.
    source: u8,
}

/// Copies in progress: one, or several of a rebuild while no requests arrive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copier {
    /// The part of the first slot; those of the others follow.
    pub(super) first_part: u16,
    slots: [CopySlot; COPY_BUFFERS as usize],
    /// Where the search for a region continues, and how many of its bytes are done.
    region: u32,
    within: u64,
    /// Some of its bytes could not be read from any copy.
    has_failed: bool,
    /// The rebuild whose copies are in flight, and where its next one starts.
    rebuild: Option<CopyJob>,
    next: u64,
    /// The count of requests when the first of the copies in flight started.
    began_at: u32,
    /// The count at which the next may start.
    resumes_at: u32,
    /// The last that ended met no request.
    is_undisturbed: bool,
}

/// Requests that pass between two copies at least, if any arrive.
const PASS_MIN: u64 = 4;

/// Requests that pass between two copies of `chunk` bytes: as many as take the same time.
pub(super) fn pass_of(chunk: u64) -> u32 {
    (chunk / BLOCK).max(PASS_MIN) as u32
}

impl Copier {
    pub(super) fn new(first_part: u16) -> Self {
        Self {
            first_part,
            slots: [CopySlot { job: None, source: 0 }; COPY_BUFFERS as usize],
            region: 0,
            within: 0,
            has_failed: false,
            rebuild: None,
            next: 0,
            began_at: 0,
            resumes_at: 0,
            is_undisturbed: false,
        }
    }

    /// Users have had a tick: the next copy may start.
    pub(super) fn resume(&mut self, requests_done: u32) {
        self.resumes_at = requests_done;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| slot.job.is_none())
    }

    /// Ignore the copy in progress in the first slot.
    pub(super) fn forget(&mut self) {
        self.slots[0].job = None;
    }

    /// The job of a part.
    pub(super) fn job_of(&self, part: u16) -> Option<CopyJob> {
        self.slots[usize::from(self.number_of(part))].job
    }

    /// The slot of a part.
    pub(super) fn number_of(&self, part: u16) -> u8 {
        (part - self.first_part) as u8
    }

    fn slot(&mut self, part: u16) -> &mut CopySlot {
        let number = self.number_of(part);
        &mut self.slots[usize::from(number)]
    }

    /// The source copy of the first slot, which a scrub uses.
    pub(super) fn source(&self) -> u8 {
        self.slots[0].source
    }

    /// The number of the scrub whose chunk is in progress.
    pub(super) fn scrub_number(&self) -> Option<u32> {
        match self.slots[0].job {
            Some(CopyJob::Scrub { number }) => Some(number),
            _ => None,
        }
    }
}

impl Engine {
    /// Starts the next copy; false if none may be started.
    pub(super) fn copy_next(&mut self, out: &mut EngineOutput) -> bool {
        if self.run != Run::Running || !self.is_settled() {
            return false;
        }
        let done = self.requests_done;
        if self.copier.is_idle() {
            let is_yielding =
                self.copier.resumes_at.wrapping_sub(done).cast_signed() > 0 && !self.is_draining;
            if is_yielding && !self.is_closing {
                return false;
            }
            self.copier.began_at = done;
            self.copier.rebuild = None;
            if self.unsynced > 0 && self.resync_next(out) {
                return true;
            }
        } else {
            let is_alone = self.has_no_request() && self.copier.began_at == done;
            let may_be_many = self.copier.is_undisturbed && self.copier.rebuild.is_some();
            let is_full = self.copier.slots.iter().all(|slot| slot.job.is_some());
            if !is_alone || !may_be_many || is_full || self.unsynced > 0 {
                return false;
            }
        }
        if !self.has_background {
            return false;
        }
        self.has_background = false;
        for at in 0..self.table.entries.len() {
            let MemberEntry { state, replaces, .. } = self.table.entries[at];
            if state == MemberState::Rebuilding {
                self.has_background = true;
                if self.rebuild_next(at, out) {
                    return true;
                }
                if self.is_draining {
                    // A copy would wait for writes that wait for this one.
                    return false;
                }
            } else if let (MemberState::InSync, Some(role)) = (state, replaces) {
                self.has_background = true;
                // The replacement is complete: the member leaves, if the table that says so counts.
                if self.is_known(at) {
                    self.fail_role(role, out);
                }
                return false;
            }
        }
        // Copies of a rebuild whose member failed may still be in flight: a scrub has the first
        // slot.
        match self.copier.is_idle() {
            _ if self.has_background => {}
            true => self.scrub_next(out),
            false => self.has_background = self.scrub.is_running(),
        }
        false
    }

    fn has_no_request(&self) -> bool {
        self.free_requests.len() == self.requests.len()
    }

    /// False if all regions are done.
    fn resync_next(&mut self, out: &mut EngineOutput) -> bool {
        while self.unsynced > 0 {
            let at = self.copier.region;
            let set = (at / self.regions_per_set) as u8;
            let region = &self.regions[at as usize];
            let writable = self.sets[usize::from(set)].writable;
            let length = self.region_bytes(at);
            let is_open = region.needs_sync && !region.is_unreadable;
            if is_open && writable.count_ones() > 1 && self.copier.within < length {
                let first = u64::from(at % self.regions_per_set) << self.region_shift;
                let place = BytePlace { set, offset: first + self.copier.within, column: 0 };
                self.start_copy(CopyJob::Resync { region: at }, place, out);
                return true;
            }
            if is_open {
                let region = &mut self.regions[at as usize];
                // Copies of it may still differ, so it is read from one, and stays marked.
                region.is_unreadable = self.copier.has_failed;
                region.needs_sync = self.copier.has_failed;
                region.touched = true;
                if !region.needs_sync {
                    self.note_synced(at, out);
                }
                self.unsynced -= 1;
            }
            (self.copier.within, self.copier.has_failed) = (0, false);
            self.copier.region = (at + 1) % self.regions.len() as u32;
        }
        false
    }

    fn region_bytes(&self, region: u32) -> u64 {
        let first = u64::from(region % self.regions_per_set) << self.region_shift;
        self.geometry.region.min(self.geometry.member_bytes - first)
    }

    /// False if this member needs no copy now.
    fn rebuild_next(&mut self, member: usize, out: &mut EngineOutput) -> bool {
        // It gets no writes before it knows that it is in rebuild.
        if !self.is_known(member) {
            return false;
        }
        let (entry, place) = (self.table.entries[member], self.places[member]);
        let (set, job) = (place / self.stride, CopyJob::Rebuild { place, since: entry.since });
        let is_first = self.copier.is_idle();
        if is_first {
            self.copier.next = self.rebuilt[usize::from(place)];
        } else if self.copier.rebuild != Some(job) {
            return false;
        }
        let mut at = self.copier.next;
        let named_below = match entry.by_map {
            true => self.geometry.member_bytes,
            false => self.rebuilt_before[usize::from(place)],
        };
        while at < named_below {
            let region = self.region_at(BytePlace { set, offset: at, column: 0 });
            if self.regions[region as usize].byte != 0 {
                break;
            }
            at = ((at >> self.region_shift) + 1) << self.region_shift;
        }
        at = at.min(self.geometry.member_bytes);
        if is_first {
            self.rebuilt[usize::from(place)] = at;
        }
        if at == self.geometry.member_bytes {
            let may_promote = is_first || self.has(Fault::PromotedBeforeLastCopy);
            return may_promote && self.promote(member, out);
        }
        self.copier.rebuild = Some(job);
        self.copier.next = at + u64::from(self.geometry.chunk);
        if self.has(Fault::WatermarkBeforeCopy) {
            let all = self.geometry.member_bytes;
            let ahead = at + self.config.watermark_every.max(u64::from(self.geometry.chunk));
            self.table.entries[member].watermark = ahead.min(all);
            self.want_revision(out);
        }
        self.start_copy(job, BytePlace { set, offset: at, column: 0 }, out);
        true
    }

    /// The member has all data: the next table has it in sync.
    fn promote(&mut self, at: usize, out: &mut EngineOutput) -> bool {
        if !self.has_map(self.places[at]) {
            return false;
        }
        let first = u32::from(self.places[at] / self.stride) * self.regions_per_set;
        let of_set = first as usize..(first + self.regions_per_set) as usize;
        if self.regions[of_set].iter().any(|region| region.needs_sync) {
            // It lacks the unreadable data, and would be read in place of the source.
            self.fail_role(at as u8, out);
            return false;
        }
        if !self.has_drained() {
            return false;
        }
        let entry = &mut self.table.entries[at];
        let (state, since) = (MemberState::InSync, self.table.epoch + 1);
        *entry = MemberEntry { state, by_map: false, since, watermark: 0, ..*entry };
        self.want_epoch(out);
        false
    }

    pub(super) fn start_copy(&mut self, job: CopyJob, place: BytePlace, out: &mut EngineOutput) {
        let Some(number) = self.copier.slots.iter().position(|slot| slot.job.is_none()) else {
            return;
        };
        self.copier.slots[number].job = Some(job);
        let index = self.copier.first_part + number as u16;
        let generation = self.parts[usize::from(index)].generation.wrapping_add(1);
        self.parts[usize::from(index)] = ChunkPart {
            kind: PartKind::Copy,
            phase: PartPhase::Queued,
            exclusive: true,
            set: place.set,
            offset: place.offset,
            length: self.geometry.chunk,
            region: self.region_at(place),
            lane: self.lane_of(self.geometry.locate_back(place)),
            generation,
            issued: self.now,
            ..ChunkPart::FREE
        };
        self.enter_lane(index, out);
    }

    pub(super) fn begin_copy(&mut self, index: u16, out: &mut EngineOutput) {
        if self.parities > 0 {
            return self.begin_stripe_copy(index, out);
        }
        let part = self.parts[usize::from(index)];
        let in_sync = self.sets[usize::from(part.set)].in_sync & !part.tried;
        if in_sync == 0 {
            return self.finish(index, Err(RequestError::Unreadable), out);
        }
        let source = in_sync.trailing_zeros() as u8;
        self.copier.slot(index).source = source;
        self.issue_read(index, source, out);
    }

    /// A background copy was read.
    pub(super) fn copy_read(&mut self, index: u16, out: &mut EngineOutput) {
        match self.copier.slot(index).job {
            Some(CopyJob::Scrub { .. }) => self.compare_others(index, out),
            _ => self.issue_writes(index, out),
        }
    }

    /// The copies that a background copy writes.
    pub(super) fn copy_targets(&self, index: u16) -> Members {
        let CopySlot { job, source } = self.copier.slots[usize::from(self.copier.number_of(index))];
        let tried = self.parts[usize::from(index)].tried;
        match job {
            // Any copy that lacks it, and any that was unreadable.
            Some(CopyJob::Resync { .. }) => !(1 << source),
            Some(CopyJob::Rebuild { place, .. }) => (1 << (place % self.stride)) | tried,
            Some(CopyJob::Scrub { .. }) => self.scrub.repairing,
            None => 0,
        }
    }

    pub(super) fn copy_ended(&mut self, index: u16, is_good: bool, out: &mut EngineOutput) {
        let chunk = u64::from(self.geometry.chunk);
        let is_alone = self.has_no_request();
        let done = self.requests_done;
        let is_busy = !is_alone || self.copier.began_at != done;
        self.copier.is_undisturbed = !is_busy;
        self.copier.resumes_at = if is_busy { done.wrapping_add(pass_of(chunk)) } else { done };
        match self.copier.slot(index).job.take() {
            Some(CopyJob::Resync { region }) if region == self.copier.region => {
                self.copier.within += chunk;
                self.copier.has_failed |= !is_good;
            }
            Some(CopyJob::Rebuild { place, since }) => {
                let Some(at) = self.places.iter().position(|&other| other == place) else { return };
                let entry = &mut self.table.entries[at];
                if entry.state != MemberState::Rebuilding || entry.since != since {
                    return;
                }
                if !is_good {
                    return self.fail_role(at as u8, out);
                }
                // Everything below the first chunk still in flight.
                let parts = self.parts[usize::from(self.copier.first_part)..].iter();
                let busy = parts.zip(&self.copier.slots).filter(|(_, slot)| slot.job.is_some());
                let floor = busy.map(|(part, _)| part.offset).min().unwrap_or(self.copier.next);
                let rebuilt = &mut self.rebuilt[usize::from(place)];
                *rebuilt = floor;
                if *rebuilt - entry.watermark.min(*rebuilt) >= self.config.watermark_every {
                    entry.watermark = *rebuilt;
                    self.want_revision(out);
                }
            }
            Some(CopyJob::Scrub { number }) => self.scrub_ended(number),
            Some(CopyJob::Resync { .. }) | None => {}
        }
    }
}
