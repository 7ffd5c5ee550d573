//! The engine: its state, and the events that it takes.
//!
//! Takes the plan of an assembled array, then requests, completions and time; returns operations
//! and answers. Each event is carried out whole, without waiting. Each kind of work has a separate
//! file.

#[cfg(test)]
mod bound_tests;
mod copying;
mod dirty;
#[cfg(test)]
mod error_tests;
pub(crate) mod fault;
mod joining;
mod lanes;
mod membership;
pub(crate) mod output;
#[cfg(test)]
mod rejoining_tests;
#[cfg(test)]
mod replacing_tests;
mod replaying;
pub(crate) mod request;
mod scrubbing;
#[cfg(test)]
mod stripe_tests;
mod stripes;
#[cfg(test)]
mod tests;
mod transfer;

use durio_base::Nanos;
use durio_observe::ArrayScrub;

#[cfg(any(test, feature = "simulate"))]
use crate::assembly::in_sync;
use crate::assembly::{Doubt, RoleDevice, StartPlan};
use crate::geometry::{BLOCK, Geometry};
use crate::layout;
use crate::superblock::{MemberState, MemberTable, SPARES_MAX};
use copying::Copier;
use dirty::{DirtyRegion, MapPage, PageSlots};
use fault::Fault;
use lanes::{Chain, ChunkPart, NONE};
use membership::Update;
use output::{COPY_BUFFERS, EngineOutput, OpOutcome, OpOwner, OpTag, TagFields};
use replaying::ParityReplay;
use request::{RequestError, RequestSlot};
use scrubbing::Scrub;
use stripes::Work;

pub use joining::{JoinAs, Newcomer, OrderError};
pub use scrubbing::MISMATCHES_KEPT;

/// Places of copies: of each set one more than it has copies, for a replacement. Level 0 has most sets.
const PLACES_MAX: usize = 64;
/// Members of a set, a bit for each of its places.
type Members = u32;
/// The place of an entry that has no copy.
const NO_PLACE: u8 = u8::MAX;

/// How an engine works, beyond what its superblocks say.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Requests in flight at most.
    pub requests_max: u16,
    /// Parts in flight at most: a request has one for each chunk that it touches.
    pub parts_max: u16,
    /// A member that has an operation for longer than this has failed.
    pub timeout: Nanos,
    /// A region that was not written for this long, up to twice, is cleared.
    pub clear_after: Nanos,
    /// Bytes of a rebuild after which its watermark is stored.
    pub watermark_every: u64,
    /// What members ask of offsets and lengths, 512 bytes or more.
    pub alignment: u32,
    /// The planted fault; without the feature `simulate` it is not looked at.
    pub fault: Option<Fault>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            requests_max: 256,
            parts_max: 1024,
            timeout: Nanos::from_secs(30),
            clear_after: Nanos::from_secs(5),
            watermark_every: 64 << 20,
            alignment: BLOCK as u32,
            fault: None,
        }
    }
}

/// Why an array stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The last copy of a set failed, in this role.
    #[error("the last copy, member {0}, failed")]
    LastCopy(u8),
    /// More members of a stripe failed than it has parities, this one the last.
    #[error("member {0} failed, and no parity is left to replace it")]
    LastStripe(u8),
    /// More than half of the members failed at once: those could start without the rest.
    #[error("too many members failed at once: the others cannot know of later writes")]
    NoMajority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// The first superblocks are on their way; requests wait.
    Starting,
    Running,
    Stopped(StopReason),
}

/// Copies of a set, a bit for each of its places.
#[derive(Debug, Clone, Copy, Default)]
struct Set {
    /// They have all that was acknowledged.
    in_sync: Members,
    /// They get writes: those, and those that are rebuilt.
    writable: Members,
}

/// How a role stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleStatus {
    /// Its device, if it is here.
    pub device: Option<u8>,
    pub state: MemberState,
    /// True if it is read.
    pub is_read: bool,
    /// Bytes that are rebuilt.
    pub rebuilt: u64,
    /// A rebuild copies only what the map names.
    pub by_map: bool,
    /// The role that it takes when it is in sync, if it is a replacement.
    pub replaces: Option<u8>,
}

/// How an array stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// False while the first superblocks are on their way, and when it has stopped.
    pub is_running: bool,
    /// All members know of every failure: a member that failed may be erased or replaced.
    pub is_settled: bool,
    pub stopped: Option<StopReason>,
    /// The epoch of the newest table.
    pub epoch: u64,
    /// Each role, then each replacement and spare.
    pub roles: Vec<RoleStatus>,
    /// Regions whose copies may differ.
    pub regions_unsynced: u32,
    /// Regions that are marked.
    pub regions_dirty: u32,
    /// The newest scrub since the start, if there was one.
    pub scrub: Option<ArrayScrub>,
}

/// The engine of one array.
#[derive(Debug)]
pub struct Engine {
    // What every write looks at.
    geometry: Geometry,
    size: u64,
    data_at: u64,
    /// The geometry's, which counts them anew each time.
    chunks_in_row: u64,
    /// Length of a stripe; 0 without stripes.
    parities: u8,
    chunk_shift: u32,
    region_shift: u32,
    regions_per_set: u32,
    pages_per_set: u32,
    /// Members of a set.
    width: u8,
    /// Places of a set: its members, and a replacement.
    stride: u8,
    run: Run,
    is_closing: bool,
    /// Superblocks of an epoch that begins with the end were asked for.
    has_stored_end: bool,
    now: Nanos,
    sets: Vec<Set>,
    parts: Vec<ChunkPart>,
    lanes: Vec<u16>,
    /// A part is in one list at a time: of those below, or of a page.
    links: Vec<u16>,
    ready: Chain,
    /// Until superblocks are stored.
    held: Chain,
    /// What parts do with stripes, by part; none without stripes.
    works: Vec<Work>,
    /// The newest number of an entry of the log.
    log_number: u64,
    /// Nothing is written until a member is in sync.
    is_draining: bool,
    /// Written, and answered when superblocks are stored.
    unsettled: Chain,
    requests: Vec<RequestSlot>,
    free_parts: Vec<u16>,
    free_requests: Vec<u16>,
    /// Since the start, modulo 2^32.
    requests_done: u32,
    parts_max: u16,
    regions: Vec<DirtyRegion>,
    /// By place: operations of parts that are on their way.
    outstanding: [u16; PLACES_MAX],
    device_numbers: [u8; PLACES_MAX],
    // What changes seldom.
    /// By place: reads that failed in the last hours.
    read_errors: [u8; PLACES_MAX],
    errors_halved: Nanos,
    config: Config,
    pages: Vec<MapPage>,
    page_slots: Vec<PageSlots>,
    swept: Nanos,
    unsynced: u32,
    table: MemberTable,
    /// The newest table as it was found at the start, until it counts.
    uncounted: Option<MemberTable>,
    /// The last epoch that counts.
    committed: u64,
    /// Entries in sync by that, a bit each: half of them must store the next table.
    voters: u64,
    /// The present device of each entry of the table.
    devices: Vec<Option<RoleDevice>>,
    /// By entry: the place of its copy, which stays while a replacement takes its role.
    places: Vec<u8>,
    update: Update,
    copier: Copier,
    /// A member is rebuilt, or a scrub runs.
    has_background: bool,
    scrub: Scrub,
    /// Parities that a start has still to make right.
    doubts: Vec<(u8, Doubt)>,
    /// All that it found.
    all_doubts: Vec<(u8, Doubt)>,
    replaying: Option<ParityReplay>,
    /// What was being written may be given up.
    is_forced: bool,

    rebuilt: [u64; PLACES_MAX],
    /// What was rebuilt of each place before the start: of stripes, what the map names there is made again, for a
    /// write may have reached others alone.
    rebuilt_before: [u64; PLACES_MAX],
    /// The first block of `metadata` that holds a page of the map.
    first_page: u32,
    metadata: Vec<u8>,
}

impl Engine {
    /// Starts an assembled array: superblocks of the next epoch are written, and requests wait for it.
    ///
    /// # Panics
    /// If `config` has no request or no part, or more than 32 768 of them.
    #[must_use]
    pub fn start(plan: StartPlan, config: &Config, out: &mut EngineOutput) -> Self {
        let limits = 1..=1 << 15;
        assert!(limits.contains(&config.requests_max) && limits.contains(&config.parts_max));
        let mut engine = Self::empty(&plan, *config);
        engine.devices = plan.devices;
        for at in 0..engine.table.entries.len() {
            let place = engine.first_place(at);
            engine.places.push(place);
            if place == NO_PLACE {
                continue;
            }
            let (entry, device) = (engine.table.entries[at], engine.devices[at]);
            let (set, bit) = engine.copy_at(place);
            let is_trusted = entry.state == MemberState::InSync;
            engine.sets[set].in_sync |= if is_trusted { bit } else { 0 };
            engine.sets[set].writable |= if device.is_some() { bit } else { 0 };
            match engine.parities {
                0 => engine.rebuilt[usize::from(place)] = entry.watermark,
                _ => engine.rebuilt_before[usize::from(place)] = entry.watermark,
            }
            engine.device_numbers[usize::from(place)] =
                device.map_or(u8::MAX, |device_number| device_number.device);
        }
        engine.load_map(&plan.pages);
        engine.all_doubts.clone_from(&plan.doubts);
        engine.log_number = plan.doubts.iter().map(|(_, doubt)| doubt.number()).max().unwrap_or(0);
        engine.doubts = plan.doubts;
        engine.replay_next(out);
        engine.start_pages(out);
        engine.start_update(out);
        engine
    }

    fn empty(plan: &StartPlan, config: Config) -> Self {
        let geometry = plan.table.geometry;
        let (width, sets) = (geometry.set_members(), u32::from(geometry.sets()));
        let pages_per_set = layout::map_pages(&geometry);
        // More than asked for, for background copies.
        let parts = config.parts_max + u16::from(COPY_BUFFERS);
        let page = MapPage {
            generation: 0,
            generation_seen: 0,
            issued: Nanos::new(0),
            waiting: Chain::EMPTY,
            riding: Chain::EMPTY,
            pending: 0,
            is_running: false,
            is_wanted: false,
        };
        // Two for each superblock that there may be, then the pages.
        let first_page = 2 * (u32::from(geometry.members) + SPARES_MAX as u32);
        let places = usize::from(geometry.sets()) * usize::from(width + 1);
        let blocks = (first_page + sets * pages_per_set) as usize;
        let lanes = usize::from(parts).next_power_of_two() * 2;
        let has_parity = geometry.level.parities() > 0;
        Self {
            geometry,
            size: geometry.size(),
            data_at: plan.table.data_at,
            chunks_in_row: geometry.chunks_in_row(),
            parities: geometry.level.parities(),
            chunk_shift: geometry.chunk_shift(),
            region_shift: geometry.region.trailing_zeros(),
            regions_per_set: geometry.regions(),
            pages_per_set,
            width,
            stride: width + 1,
            run: Run::Starting,
            is_closing: false,
            has_stored_end: false,
            now: Nanos::new(0),
            sets: vec![Set::default(); sets as usize],
            parts: vec![ChunkPart::FREE; usize::from(parts)],
            lanes: vec![NONE; lanes],
            links: vec![NONE; usize::from(parts)],
            ready: Chain::EMPTY,
            held: Chain::EMPTY,
            works: vec![Work::default(); if has_parity { usize::from(parts) } else { 0 }],
            log_number: 0,
            is_draining: false,
            unsettled: Chain::EMPTY,
            requests: vec![RequestSlot::default(); usize::from(config.requests_max)],
            free_parts: (0..config.parts_max).rev().collect(),
            free_requests: (0..config.requests_max).rev().collect(),
            requests_done: 0,
            parts_max: config.parts_max,
            regions: vec![DirtyRegion::default(); (sets * geometry.regions()) as usize],
            outstanding: [0; PLACES_MAX],
            read_errors: [0; PLACES_MAX],
            errors_halved: Nanos::new(0),
            device_numbers: [u8::MAX; PLACES_MAX],
            config,
            pages: vec![page; (sets * pages_per_set) as usize],
            page_slots: vec![PageSlots::default(); places * pages_per_set as usize],
            swept: Nanos::new(0),
            unsynced: 0,
            table: plan.table.clone(),
            uncounted: plan.uncounted.clone(),
            committed: plan.committed,
            voters: plan.voters,
            devices: Vec::new(),
            places: Vec::new(),
            update: Update::FIRST,
            copier: Copier::new(config.parts_max),
            has_background: true,
            scrub: Scrub::default(),
            doubts: Vec::new(),
            all_doubts: Vec::new(),
            replaying: None,
            is_forced: plan.is_forced,
            rebuilt: [0; PLACES_MAX],
            rebuilt_before: [0; PLACES_MAX],
            first_page,
            metadata: vec![0; blocks * BLOCK as usize],
        }
    }

    /// Whether this rule is broken on purpose.
    fn has(&self, fault: Fault) -> bool {
        fault.is_in(self.config.fault)
    }

    /// An operation has ended. Those of a failed member, and of a stopped array, are ignored.
    pub fn completed(&mut self, tag: OpTag, outcome: OpOutcome, out: &mut EngineOutput) {
        let Some(fields) = TagFields::unpack(tag).filter(|_| !self.is_stopped()) else { return };
        match fields.owner {
            OpOwner::Part => self.part_completed(fields, outcome, out),
            OpOwner::Page => self.page_completed(fields, outcome, out),
            OpOwner::Superblock => self.superblock_completed(fields, outcome, out),
        }
        self.pump(out);
    }

    /// Time has come to `now`: members that owe an answer for too long have failed, regions that nobody
    /// writes are cleared. To be called a few times in each `timeout` and `clear_after`.
    pub fn tick(&mut self, now: Nanos, out: &mut EngineOutput) {
        self.now = now;
        if self.is_stopped() {
            return;
        }
        self.copier.resume(self.requests_done);
        self.forget_read_errors();
        self.fail_late_parts(out);
        self.fail_late_metadata(self.config.timeout, out);
        if self.run == Run::Running && now.saturating_sub(self.swept) >= self.config.clear_after {
            self.sweep(false, out);
        }
        self.pump(out);
    }

    fn fail_late_parts(&mut self, out: &mut EngineOutput) {
        for index in 0..self.parts.len() {
            let part = self.parts[index];
            let is_late = self.now.saturating_sub(part.issued) > self.config.timeout;
            if part.remaining == 0 || !is_late {
                continue;
            }
            for copy in (0..self.stride).filter(|copy| part.remaining & (1 << copy) != 0) {
                self.fail_place(part.set * self.stride + copy, out);
            }
        }
    }

    /// Takes no requests from now on, ends a scrub, and clears the map when the last is answered: once the engine is
    /// idle, the next start finds nothing to resync.
    pub fn close(&mut self, out: &mut EngineOutput) {
        self.is_closing = true;
        self.scrub.stop();
        self.pump(out);
    }

    /// True if nothing is on its way and nothing is left to do without an event.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let is_whole = self.unsynced == 0 && self.copier.is_idle() && !self.has_background;
        let is_quiet = !self.update.is_running && self.has_quiet_map();
        let has_no_request = self.free_requests.len() == self.requests.len();
        self.is_stopped() || (self.run == Run::Running && is_whole && is_quiet && has_no_request)
    }

    /// A block of the engine's own, for an operation that names it.
    ///
    /// # Panics
    /// If no operation names it.
    #[must_use]
    pub fn metadata(&self, block: u32) -> &[u8] {
        &self.metadata[membership::metadata_range(block)]
    }

    /// The array's size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How the array stands.
    #[must_use]
    pub fn status(&self) -> Status {
        let role = |(at, entry): (usize, &crate::MemberEntry)| RoleStatus {
            device: self.devices[at].map(|device| device.device),
            state: entry.state,
            is_read: self.is_read(at),
            rebuilt: self.rebuilt.get(usize::from(self.places[at])).copied().unwrap_or(0),
            by_map: entry.by_map,
            replaces: entry.replaces,
        };
        let is_dirty = |region: &&DirtyRegion| region.byte & crate::map_page::DIRTY != 0;
        Status {
            is_running: self.run == Run::Running,
            is_settled: self.is_settled(),
            stopped: match self.run {
                Run::Stopped(reason) => Some(reason),
                Run::Starting | Run::Running => None,
            },
            epoch: self.table.epoch,
            roles: self.table.entries.iter().enumerate().map(role).collect(),
            regions_unsynced: self.unsynced,
            regions_dirty: self.regions.iter().filter(is_dirty).count() as u32,
            scrub: self.scrub.status.clone(),
        }
    }

    /// Devices that are read, a bit each.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn devices_read(&self) -> u64 {
        let read = (0..self.devices.len()).filter(|&at| self.is_read(at));
        read.filter_map(|at| self.devices[at]).fold(0, |bits, device| bits | 1 << device.device)
    }

    /// The place of each entry: of several copies, the first is that with the lowest.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn places(&self) -> &[u8] {
        &self.places
    }

    /// Whether it does not run yet.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn is_starting(&self) -> bool {
        self.run == Run::Starting
    }

    /// Mismatches that the newest scrub has found.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn mismatches(&self) -> u64 {
        self.scrub.status.as_ref().map_or(0, |status| status.mismatches)
    }

    /// Whether superblocks are on their way.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn is_storing(&self) -> bool {
        self.update.is_running
    }

    /// Whether they take a member into sync.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn is_promoting(&self) -> bool {
        let in_sync = in_sync(&self.table);
        (0..self.devices.len()).any(|at| in_sync & (1 << at) != 0 && !self.is_read(at))
    }

    /// Devices that the newest table has in sync, those too that are not read yet: they have all data.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn devices_in_sync(&self) -> u64 {
        let in_sync = in_sync(&self.table);
        let devices = (0..).zip(&self.devices).filter(|(role, _)| in_sync & (1_u64 << role) != 0);
        devices.filter_map(|(_, device)| *device).fold(0, |bits, device| bits | 1 << device.device)
    }

    /// Whether the copy of an entry is read.
    fn is_read(&self, at: usize) -> bool {
        let place = self.places[at];
        place != NO_PLACE && {
            let (set, bit) = self.copy_at(place);
            self.sets[set].in_sync & bit != 0
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.run, Run::Stopped(_))
    }

    /// Carries out what has become ready.
    #[inline(always)]
    fn pump(&mut self, out: &mut EngineOutput) {
        let has_copies = self.unsynced > 0 || self.has_background;
        if has_copies || self.is_closing || !self.ready.is_empty() {
            self.carry_out_ready(out);
        }
    }

    fn carry_out_ready(&mut self, out: &mut EngineOutput) {
        loop {
            if self.is_stopped() {
                return;
            }
            if let Some(index) = self.ready.pop(&self.links) {
                self.begin(index, out);
                continue;
            }
            if self.unsynced > 0 || self.has_background {
                while self.copy_next(out) {}
            }
            if self.ready.is_empty() {
                break;
            }
        }
        if self.is_closing && self.free_requests.len() == self.requests.len() {
            self.sweep(true, out);
            self.store_end(out);
        }
    }
}
