//! One life of a simulated array: from its start to the next cut.
//!
//! Takes an assembled array and returns the first broken promise. `starting.rs` has starts,
//! `media.rs` media, `operator.rs` scrubs.

use durio_base::Nanos;

use super::campaign::{CutCampaign, DEPTH, REQUEST_BYTES};
use super::case::SimEventKind;
use super::drives::STAMP;
use super::media::{self, TrustedMembers};
use super::model::ZERO;
use crate::geometry::{BLOCK, SECTOR};
use crate::simulated::SimulatedOp;
use crate::superblock::MemberState;
use crate::{
    ArrayRequest, Config, Engine, EngineOutput, MemberOp, MemberOpKind, OpBuffer, OpOutcome,
    RequestKind, RoleStatus, StartPlan,
};

/// Steps within which an array without requests must become idle: in 300,000 cuts none took 3000.
const SETTLE_STEPS: u32 = 20_000;
/// Further parts are background copies.
const PARTS_MAX: u16 = 64;
/// A life has fewer before that.
pub(super) const STEPS_MAX: u32 = 280;
const TIMEOUT: Nanos = Nanos::from_secs(50);

/// A request on its way.
#[derive(Debug, Clone, Copy)]
struct IssuedRequest {
    kind: RequestKind,
    number: u32,
    first: usize,
    sectors: usize,
}

/// The sources of answers, in an array with a liar.
#[derive(Debug, Default)]
pub(super) struct ReadSources {
    /// By slot of a request: the sectors of its buffer read from the liar.
    pub(super) requests: [u32; DEPTH],
    /// The buffers for background copies read from the liar.
    pub(super) copies: u32,
}

/// An array that runs.
#[derive(Debug)]
pub(super) struct Life<'a> {
    pub(super) campaign: &'a mut CutCampaign,
    pub(super) engine: Engine,
    pub(super) out: EngineOutput,
    pub(super) flights: Vec<SimulatedOp>,
    asked: [Option<IssuedRequest>; DEPTH],
    pub(super) now: Nanos,
    /// Drives that the engine uses, a bit each.
    pub(super) used: u64,
    /// Some of them were lost.
    pub(super) has_lost: bool,
    /// Regions that may be copied to members in sync, and to those that come back by the map.
    pub(super) may_resync: Vec<bool>,
    pub(super) may_rejoin: Vec<bool>,
    depth: usize,
    errors_per_mille: u64,
    /// Some operations may have failed.
    pub(super) had_errors: bool,
    /// Devices that went away, or have owed an answer for too long: the engine may give these up.
    pub(super) gone: u64,
    /// A member may be replaced, and leaves then.
    pub(super) may_retire: bool,
    /// How many of 10 000 steps have failures of members.
    failures: u64,
    fast: Option<u8>,
    submits: bool,
    /// Unused drives must not be added to this array.
    pub(super) is_calm: bool,
    /// The operator starts and stops scrubs.
    pub(super) scrubs: bool,
    /// Copies differ on purpose.
    pub(super) is_planted: bool,
    /// The newest replacement, until it has taken its role.
    pub(super) replacement: Option<u8>,
    /// The sources of answers.
    pub(super) sources: ReadSources,
}

impl<'a> Life<'a> {
    pub(super) fn begin(
        campaign: &'a mut CutCampaign,
        plan: StartPlan,
        trusted: &TrustedMembers,
        is_calm: bool,
    ) -> Self {
        let config = Config {
            requests_max: DEPTH as u16,
            parts_max: PARTS_MAX,
            timeout: TIMEOUT,
            clear_after: Nanos::from_secs(2),
            watermark_every: 2 * u64::from(campaign.geometry.chunk),
            alignment: SECTOR as u32,
            fault: campaign.fault,
        };
        let mut out = EngineOutput::default();
        let engine = Engine::start(plan, &config, &mut out);
        let chance = &mut campaign.chance;
        let depth = 1 + chance.below(DEPTH as u64) as usize;
        let errors_per_mille = if is_calm || chance.below(8) != 0 { 0 } else { 15 };
        let failures = if is_calm || chance.below(2) != 0 { 0 } else { 60 };
        // One drive is faster than the others: it may be the only one with a table.
        let fast = campaign.hunts_starts.then(|| chance.below(3) as u8);
        // Those lives are cut while superblocks are in flight: a scrub would achieve little.
        let scrubs = !campaign.hunts_starts && chance.below(4) == 0;
        let has = |kind| campaign.reduction.has(kind);
        let depth = if has(SimEventKind::Depth) { depth } else { 1 };
        let errors_per_mille = if has(SimEventKind::Errors) { errors_per_mille } else { 0 };
        let failures = if has(SimEventKind::Failures) { failures } else { 0 };
        let scrubs = scrubs && has(SimEventKind::Scrubs);
        campaign.may_be_unreadable |= errors_per_mille > 0;
        let mut life = Self {
            campaign,
            engine,
            out,
            flights: Vec::new(),
            asked: [None; DEPTH],
            now: Nanos::new(0),
            used: 0,
            has_lost: false,
            may_resync: trusted.resynced.clone(),
            may_rejoin: trusted.marked.clone(),
            depth,
            errors_per_mille,
            had_errors: errors_per_mille > 0,
            gone: 0,
            may_retire: false,
            failures,
            fast,
            submits: true,
            is_calm,
            scrubs,
            is_planted: false,
            replacement: None,
            sources: ReadSources::default(),
        };
        life.used = life.used_now();
        life.may_retire = life.engine.status().roles.iter().any(|role| role.replaces.is_some());
        life.note_members();
        life
    }

    pub(super) fn run(&mut self, steps: u64, copied_at: Option<u64>) -> Result<(), String> {
        self.take_output()?;
        for step in 0..steps {
            if copied_at == Some(step) {
                self.campaign.copy_drives();
            }
            if !self.campaign.next_step() {
                continue;
            }
            self.step()?;
            let is_over = match self.campaign.hunts_starts {
                true => {
                    // A table that takes a member into sync is the rarest kind.
                    let odds = if self.engine.is_promoting() { 8 } else { 64 };
                    self.engine.is_storing() && self.campaign.chance.below(odds) == 0
                }
                false => self.is_cut_while_promoting(),
            };
            if is_over {
                break;
            }
        }
        Ok(())
    }

    /// A stripe written at that moment has no entry in the log of the member that becomes in sync.
    fn is_cut_while_promoting(&mut self) -> bool {
        let writes = |flight: &SimulatedOp| {
            let is_of_request =
                matches!(flight.op.buffer, OpBuffer::Stripe { part, .. } if part < PARTS_MAX);
            is_of_request && flight.op.kind == MemberOpKind::Write
        };
        let is_cut = self.flights.iter().any(writes)
            && self.engine.is_promoting()
            && self.campaign.chance.below(12) == 0;
        self.campaign.misses_one |= is_cut;
        is_cut
    }

    /// Runs until the first superblocks are stored.
    pub(super) fn run_until_it_serves(&mut self) -> Result<(), String> {
        for _ in 0..SETTLE_STEPS {
            if self.engine.status().is_running {
                return Ok(());
            }
            self.campaign.next_further_step();
            self.step()?;
        }
        Err("the array does not start".to_owned())
    }

    /// Runs until nothing is in flight; then all copies must be equal.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.submits = false;
        self.failures = 0;
        self.campaign.next_further_step();
        // Regions that no copy could read stay marked.
        self.errors_per_mille = 0;
        let had_errors = self.had_errors;
        let compares =
            self.campaign.chance.below(2) == 0 && self.campaign.reduction.has(SimEventKind::Scrubs);
        if !self.campaign.hunts_starts && compares {
            self.scrubs = false;
            self.run_until_idle()?;
            match self.campaign.suspect() {
                Some(_) => self.repair_all()?,
                None => self.plant_difference()?,
            }
        }
        let is_clean = self.campaign.chance.below(3) == 0;
        if is_clean {
            self.engine.close(&mut self.out);
            self.take_output()?;
        }
        self.scrubs = false;
        self.run_until_idle()?;
        let status = self.engine.status();
        if status.stopped.is_some() {
            return Ok(());
        }
        let geometry = self.campaign.geometry;
        let mut sets = vec![Vec::new(); geometry.sets().into()];
        for (at, role) in status.roles.iter().enumerate().filter(|(_, role)| role.is_read) {
            let set = geometry.set_of(at, role.replaces).zip(role.device);
            let set = set.filter(|(_, device)| !self.campaign.is_suspect((*device).into()));
            set.into_iter()
                .for_each(|(set, device)| sets[usize::from(set)].push((at, device.into())));
        }
        if status.roles.iter().any(|role| role.replaces.is_some()) {
            return Err(format!("a replacement has not finished: {:?}", status.roles));
        }
        let roles_in_sync = sets[0].len();
        let is_whole = self.are_whole();
        let trusted = TrustedMembers::read(&geometry, &self.campaign.drives, sets, is_whole, &[]);
        let (drives, data_at) = (&self.campaign.drives, self.campaign.data_at);
        let model = &mut self.campaign.model;
        media::check(&geometry, data_at, drives, &trusted, !had_errors, model)?;
        // The data of these drives counts from now on.
        self.campaign.serving = self.engine.devices_read();
        // Where a member is away, parities that were never made cannot be computed.
        let is_whole =
            roles_in_sync == usize::from(geometry.members) || geometry.level.parities() == 0;
        if is_clean && !had_errors && is_whole && trusted.dirty.contains(&true) {
            return Err("a clean stop left dirty regions".to_owned());
        }
        if is_clean {
            self.campaign.copies.ended |= self.used_now();
        }
        self.campaign.trace(|| "settled: all copies are equal".to_owned());
        Ok(())
    }

    /// Until nothing is left to do.
    pub(super) fn run_until_idle(&mut self) -> Result<(), String> {
        let mut steps = 0;
        let before = self.campaign.events;
        // A stopped array is idle at once.
        while !self.engine.is_idle() {
            self.campaign.next_further_step();
            self.step()?;
            steps += 1;
            if steps == SETTLE_STEPS {
                self.campaign.forget_events(before);
                return Err(format!("does not become idle: {:?}", self.engine.status()));
            }
        }
        Ok(())
    }

    /// Records the state at the cut. Returns whether the array ran, and with all its initial
    /// drives.
    pub(super) fn end(mut self) -> (bool, bool) {
        self.count_replaced();
        let status = self.engine.status();
        let tally = &mut self.campaign.tally;
        let is_rebuilding = |role: &RoleStatus| role.state == MemberState::Rebuilding;
        tally.cuts_at_start += u64::from(!status.is_running);
        tally.cuts_in_resync += u64::from(status.is_running && status.regions_unsynced > 0);
        tally.cuts_in_rebuild += u64::from(status.roles.iter().any(is_rebuilding));
        (status.is_running, status.is_running && !self.has_lost)
    }

    fn step(&mut self) -> Result<(), String> {
        let draw = self.campaign.chance.below(10_000);
        let is_hunted = self.campaign.hunts_starts && self.engine.is_starting();
        // Elsewhere it would lose too many copies.
        let failures = match self.campaign.hunts_starts {
            true if self.campaign.doomed.is_some() => 1000,
            true if is_hunted => self.failures * 15,
            true => 0,
            false => self.failures,
        };
        let additions = match self.campaign.hunts_starts {
            true if self.campaign.keeps_out => 400,
            true => 900,
            false => 500,
        };
        if draw < failures {
            self.fail_some();
        } else if draw < 400 {
            self.tick();
        } else if draw < additions {
            self.add_some();
        } else if self.scrubs && draw >= 9800 {
            self.scrub_some();
        } else {
            let may_submit = self.submits && self.asked.iter().flatten().count() < self.depth;
            match self.flights.is_empty() {
                true if may_submit => self.submit(),
                true => self.tick(),
                false if may_submit && draw.is_multiple_of(4) => self.submit(),
                false => self.advance(),
            }
        }
        self.take_output()
    }

    fn tick(&mut self) {
        let stalled = self.campaign.drives.iter().any(|drive| drive.is_stalled);
        let pause = self.campaign.chance.below(4) + if stalled { 20 } else { 0 };
        self.now = Nanos::new(self.now.get() + pause * 1_000_000_000);
        for flight in &self.flights {
            let is_late = self.now.saturating_sub(flight.issued) > TIMEOUT;
            self.gone |= u64::from(is_late) << flight.op.device;
        }
        let seconds = self.now.get() / 1_000_000_000;
        self.campaign.trace(|| format!("time: {seconds} s"));
        self.engine.tick(self.now, &mut self.out);
    }

    fn submit(&mut self) {
        let Some(slot) = self.asked.iter().position(Option::is_none) else { return };
        let asked = self.draw_request();
        let IssuedRequest { kind, number, first, sectors } = asked;
        let request = ArrayRequest {
            tag: slot as u64,
            kind,
            offset: first as u64 * SECTOR,
            length: (sectors as u64 * SECTOR) as u32,
            buffer: slot as u32,
        };
        if self.engine.submit(request, &mut self.out).is_err() {
            // It has stopped, and operations may still use the buffers.
            self.submits = false;
            return;
        }
        self.campaign.trace(|| format!("request {number}: {kind:?} of sectors {first}+{sectors}"));
        self.asked[slot] = Some(asked);
        self.sources.requests[slot] = 0;
        if kind != RequestKind::Read {
            self.write_stamps(slot, &asked);
        }
    }

    /// Fills the buffer of a write before any operation can begin.
    fn write_stamps(&mut self, slot: usize, asked: &IssuedRequest) {
        let &IssuedRequest { kind, number, first, sectors } = asked;
        let value = if kind == RequestKind::Write { number } else { ZERO };
        self.campaign.model.announce(first..first + sectors, number, value);
        let buffer = self.campaign.memory.requests.slot_mut(slot);
        for (sector, bytes) in (first..first + sectors).zip(buffer.chunks_mut(SECTOR as usize)) {
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            bytes[4..STAMP].copy_from_slice(&(sector as u32).to_le_bytes());
            bytes[STAMP..].fill(0);
        }
        self.allow_copies(first, sectors);
    }

    fn draw_request(&mut self) -> IssuedRequest {
        self.campaign.number += 1;
        let all = self.campaign.model.sectors();
        let has = |kind| self.campaign.reduction.has(kind);
        let (zeros, reads) = (has(SimEventKind::Zeros), has(SimEventKind::Reads));
        let chance = &mut self.campaign.chance;
        let kind = match chance.below(20) {
            11 | 12 if zeros => RequestKind::Zero,
            13.. if reads => RequestKind::Read,
            _ => RequestKind::Write,
        };
        let block = (BLOCK / SECTOR) as usize;
        // Half of all requests go to the same few blocks, so that they overlap.
        let blocks = (all / block) as u64;
        let blocks = if chance.below(2) == 0 { blocks.min(6) } else { blocks };
        let mut first = chance.below(blocks) as usize * block;
        let mut sectors = block;
        match chance.below(8) {
            0 => {
                first += chance.below(block as u64) as usize;
                sectors = 1 + chance.below(block as u64) as usize;
            }
            1 => sectors = REQUEST_BYTES / SECTOR as usize,
            _ => {}
        }
        IssuedRequest {
            kind,
            number: self.campaign.number,
            first,
            sectors: sectors.min(all - first),
        }
    }

    fn allow_copies(&mut self, first: usize, sectors: usize) {
        let geometry = self.campaign.geometry;
        for sector in first..first + sectors {
            let place = geometry.locate(sector as u64 * SECTOR);
            let region = self.region_of(place.set, place.offset);
            self.may_resync[region] = true;
            self.may_rejoin[region] = true;
        }
    }

    pub(super) fn region_of(&self, set: u8, offset: u64) -> usize {
        let geometry = &self.campaign.geometry;
        usize::from(set) * geometry.regions() as usize + (offset / geometry.region) as usize
    }

    /// One operation begins or ends.
    fn advance(&mut self) {
        let at = self.draw_flight();
        let mut flight = self.flights[at];
        let device = usize::from(flight.op.device);
        if self.campaign.drives[device].is_stalled || self.campaign.doomed == Some(device as u8) {
            return;
        }
        if flight.ticket.is_none() {
            let (drive, memory) = (&mut self.campaign.drives[device], &self.campaign.memory);
            flight.begin(&mut drive.disk, self.now, &self.engine, memory);
            self.flights[at] = flight;
            if let OpBuffer::Metadata(block) = flight.op.buffer {
                self.campaign.note_superblock(device, self.engine.metadata(block), false);
            }
            self.campaign.trace(|| format!("begins: {}", words(&flight.op)));
            return;
        }
        self.flights.swap_remove(at);
        let is_bad = self.campaign.chance.below(1000) < self.errors_per_mille;
        let (drive, memory) = (&mut self.campaign.drives[device], &mut self.campaign.memory);
        let outcome =
            if is_bad { OpOutcome::Error } else { flight.end(&mut drive.disk, self.now, memory) };
        let is_done = outcome != OpOutcome::Error;
        if let OpBuffer::Metadata(block) = flight.op.buffer {
            self.campaign.note_superblock(device, self.engine.metadata(block), is_done);
        }
        self.campaign.trace(|| format!("{outcome:?}: {}", words(&flight.op)));
        if !is_done {
            self.campaign.model.lose_copy(self.campaign.number);
        }
        self.engine.completed(flight.op.tag, outcome, &mut self.out);
    }

    fn draw_flight(&mut self) -> usize {
        let chance = &mut self.campaign.chance;
        if let Some(fast) = self.fast.filter(|_| chance.below(4) != 0) {
            let first = self.flights.iter().position(|flight| flight.op.device == fast);
            if let Some(at) = first {
                return at;
            }
        }
        chance.below(self.flights.len() as u64) as usize
    }

    pub(super) fn take_output(&mut self) -> Result<(), String> {
        self.check_scrub()?;
        if std::mem::take(&mut self.out.has_lost) {
            self.drop_unused()?;
            self.note_members();
        }
        self.check_stop()?;
        for sum in self.out.sums.drain(..) {
            self.campaign.memory.add(&sum);
        }
        for at in 0..self.out.ops.len() {
            let op = self.out.ops[at];
            self.check_copy(&op)?;
            self.note_source(&op);
            let flushes = self.campaign.drives[usize::from(op.device)].flushes;
            self.flights.push(SimulatedOp { op, ticket: None, flushes, issued: self.now });
        }
        self.out.ops.clear();
        for at in 0..self.out.answers.len() {
            let answer = self.out.answers[at];
            let slot = answer.tag as usize;
            let Some(asked) = self.asked[slot].take() else {
                return Err(format!("a second answer to a request: {slot}"));
            };
            self.campaign.trace(|| format!("request {}: {:?}", asked.number, answer.result));
            if answer.result.is_ok() {
                // A read does not show which drive lacks what; a write is answered when these have
                // it.
                let read = self.engine.devices_read();
                let is_read = asked.kind == RequestKind::Read;
                let before = if is_read { self.campaign.serving } else { 0 };
                self.campaign.serving = before | read;
                self.check_answer(slot, &asked)?;
            } else if self.engine.status().stopped.is_none() && !self.campaign.may_be_unreadable {
                return Err(format!("request {}: {:?}", asked.number, answer.result));
            }
        }
        self.out.answers.clear();
        self.campaign.serving |= self.engine.devices_in_sync();
        Ok(())
    }

    fn check_answer(&mut self, slot: usize, asked: &IssuedRequest) -> Result<(), String> {
        let &IssuedRequest { kind, number, first, sectors } = asked;
        let value = if kind == RequestKind::Write { number } else { ZERO };
        if kind != RequestKind::Read {
            self.campaign.tally.writes += 1;
            self.campaign.model.acknowledge(first..first + sectors, number, value);
            self.strengthen(first..first + sectors, number);
            return Ok(());
        }
        self.campaign.tally.reads += 1;
        let buffer = self.campaign.memory.requests.slot(slot);
        for (at, bytes) in (first..first + sectors).zip(buffer.chunks(SECTOR as usize)) {
            let value = media::read_stamp(bytes, at);
            if self.may_be_older(slot, at - first, at, number) {
                if self.campaign.model.may_ever_hold(at, value) {
                    continue;
                }
                return Err(format!("request {number} read {value:?} of sector {at} of a liar"));
            }
            let value = value.ok_or_else(|| {
                format!("request {number} read data of another sector at sector {at}")
            })?;
            if !self.campaign.model.read(at, number, value) {
                let held = self.campaign.model.describe(at);
                return Err(format!("request {number} read {value} of sector {at}; {held}"));
            }
        }
        Ok(())
    }

    /// A background copy may only write where copies may differ.
    fn check_copy(&mut self, op: &MemberOp) -> Result<(), String> {
        let is_of_copy = match op.buffer {
            OpBuffer::Copy(_) => true,
            OpBuffer::Stripe { part, .. } => part >= PARTS_MAX,
            OpBuffer::Request { .. } | OpBuffer::Metadata(_) | OpBuffer::None => false,
        };
        let is_copy = is_of_copy && op.kind == MemberOpKind::Write;
        // A copy that could not be read is written too.
        if !is_copy || self.had_errors {
            return Ok(());
        }
        let roles = self.engine.status().roles;
        let at = roles.iter().position(|role| role.device == Some(op.device)).unwrap_or(0);
        let role = roles[at];
        let set = self.campaign.geometry.set_of(at, role.replaces).unwrap_or(0);
        if self.campaign.suspect().is_some() && self.is_suspect_set(set) {
            return Ok(());
        }
        let region = self.region_of(set, op.offset - self.campaign.data_at);
        let may = match role.state {
            MemberState::Rebuilding => !role.by_map || self.may_rejoin[region],
            _ => self.may_resync[region],
        };
        if may { Ok(()) } else { Err(format!("region {region} is copied but was not dirty")) }
    }

    /// Checks that all parities match the data, in a complete and idle array.
    pub(super) fn check_stripes(&mut self) -> Result<(), String> {
        let geometry = self.campaign.geometry;
        let roles = self.engine.status().roles;
        let devices = roles.iter().enumerate().take(geometry.members.into());
        let set = devices.filter_map(|(at, role)| Some((at, role.device?.into()))).collect();
        let trusted =
            TrustedMembers::read(&geometry, &self.campaign.drives, vec![set], vec![true], &[]);
        let (drives, data_at) = (&self.campaign.drives, self.campaign.data_at);
        media::check_parities(&geometry, data_at, drives, &trusted, true, &mut self.campaign.model)
    }
}

fn words(op: &MemberOp) -> String {
    let MemberOp { device, kind, offset, length, buffer, .. } = op;
    format!("device {device} {kind:?} at {offset}+{length} {buffer:?}")
}
