//! The life of a simulated array from cut to cut, and its operator.
//!
//! Takes a scenario and returns the first broken promise. `life.rs` runs the array between cuts.
//!
//! The operator leaves drives out, brings them back in another order, forces a start when it is
//! known to give nothing up, and gives up members that continued separately.

use durio_block::Buffers;
use durio_simdisk::{Chance, Profile};

use super::case::{Reduction, SimEventKind};
use super::drives::{Copies, Drive, Images, Liar, draw_geometry, draw_stripes, three_copies};
use super::model::ArrayModel;
use super::{Focus, Scenario, Tally};
use crate::geometry::{BLOCK, Geometry, SECTOR};
use crate::map_page::{REGIONS_PER_PAGE, simulate_regions_per_page};
use crate::server::leave_unsynced;
use crate::simulated::{self, SimulatedMemory};
use crate::{Fault, Id, Member, create, layout};

/// Requests in flight at most, and bytes of one.
pub(super) const DEPTH: usize = 8;
pub(super) const REQUEST_BYTES: usize = 4 * BLOCK as usize;

/// Not a power of two, and a map of up to six pages.
pub(super) const SMALL_PAGE: u32 = 3;

/// An array over several cuts.
#[derive(Debug)]
pub(super) struct CutCampaign {
    pub(super) chance: Chance,
    /// Seed of the campaign.
    seed: u64,
    life: u64,
    /// Steps of the life that may be left out, and others.
    step: u32,
    further: u32,
    pub(super) reduction: Reduction,
    pub(super) liar: Option<Liar>,
    pub(super) fault: Option<Fault>,
    pub(super) geometry: Geometry,
    /// Regions of a page of the map.
    pub(super) page_regions: u32,
    /// Earlier contents of drives.
    pub(super) images: Images,
    /// What they held while the array ran.
    pub(super) copies: Copies,
    pub(super) data_at: u64,
    pub(super) drives: Vec<Drive>,
    pub(super) memory: SimulatedMemory,
    pub(super) model: ArrayModel,
    /// Drives with all acknowledged data, a bit each.
    pub(super) serving: u64,
    /// A minority was forced to start: the rest may not know until all have run together.
    pub(super) is_forced: bool,
    /// Members were erased, and the array has not run since: it must be forced.
    pub(super) has_given_up: bool,
    /// Sometimes a slot of the log of the first drive is unreadable.
    pub(super) has_bad_drive: bool,
    /// A request may fail because of its data, not for lack of members.
    pub(super) may_be_unreadable: bool,
    /// One drive is away at the next start.
    pub(super) misses_one: bool,
    /// No drives make an array any more.
    is_lost: bool,
    /// Counts requests; a write writes its number.
    pub(super) number: u32,
    drives_made: u64,
    /// Leaves another drive out at each start, and cuts while superblocks are in flight.
    pub(super) hunts_starts: bool,
    pub(super) left_out: u8,
    /// This drive fails before it has stored the first superblock of the next start.
    pub(super) doomed: Option<u8>,
    /// Nothing comes back before the next cut.
    pub(super) keeps_out: bool,
    pub(super) tally: Tally,
    /// This life is traced, or all if only some are run.
    pub(super) traced: Option<u64>,
    pub(super) is_tracing: bool,
    pub(super) trace: Vec<String>,
    /// Those that a trace has, of all lives; it gives up when there were more than the most.
    pub(super) events: u64,
    pub(super) events_max: u64,
    idle_events: u64,
}

impl Drop for CutCampaign {
    fn drop(&mut self) {
        simulate_regions_per_page(REGIONS_PER_PAGE);
    }
}

impl CutCampaign {
    pub(super) fn new(scenario: Scenario, number: u64, reduction: Reduction) -> Self {
        let mixed = scenario.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number);
        let mut chance = Chance::new(mixed);
        let has_stripes = match scenario.focus {
            // Different from the cases kept before stripes existed.
            Focus::Any => matches!(number % 16, 3 | 6 | 9 | 15),
            Focus::Stripes => true,
            Focus::Four | Focus::Starts => false,
        };
        let hunts_starts = match scenario.focus {
            Focus::Any => chance.below(8) == 0 && !has_stripes,
            Focus::Four | Focus::Stripes => false,
            Focus::Starts => true,
        };
        let geometry = match hunts_starts {
            true => three_copies(),
            false if has_stripes => reduction.geometry(draw_stripes(&mut chance)),
            false => reduction.geometry(draw_geometry(&mut chance, scenario.focus == Focus::Four)),
        };
        let has_spares = !hunts_starts && geometry.set_members() > 1;
        let spares = u64::from(has_spares && chance.below(4) == 0);
        // Blank, for the operator.
        let others = u64::from(chance.below(if hunts_starts { 4 } else { 2 }) == 0);
        let (spares, others) =
            if reduction.has(SimEventKind::Spares) { (spares, others) } else { (0, 0) };
        // One campaign in four has its map in one page, and so have all with a fault whose kept
        // case is older than multi-page maps.
        let is_kept = scenario.fault.is_some_and(|fault| fault <= Fault::PromotedUnderWriter);
        let page_regions = if number % 4 == 1 || is_kept { REGIONS_PER_PAGE } else { SMALL_PAGE };
        simulate_regions_per_page(page_regions);
        let data_at = layout::data_at(&geometry, BLOCK);
        let drives = u64::from(geometry.members) + spares + others;
        let liar = Liar::draw(scenario.liars, mixed, drives);
        let has_copies = geometry.set_members() > 1 && geometry.level.parities() == 0;
        let liar = liar.filter(|_| has_copies && reduction.has(SimEventKind::Lies));
        let mut campaign = Self {
            chance,
            seed: mixed,
            life: 0,
            step: 0,
            further: 0,
            reduction,
            liar,
            fault: scenario.fault,
            geometry,
            page_regions,
            images: Images::default(),
            copies: Copies::default(),
            data_at,
            drives: Vec::new(),
            memory: SimulatedMemory::new(Buffers::new(DEPTH, REQUEST_BYTES), geometry.chunk),
            model: ArrayModel::new(usize::try_from(geometry.size() / SECTOR).unwrap_or(0)),
            serving: (1 << geometry.members) - 1,
            is_forced: false,
            has_given_up: false,
            has_bad_drive: false,
            may_be_unreadable: false,
            misses_one: false,
            is_lost: false,
            number: 0,
            drives_made: 0,
            hunts_starts,
            left_out: 0,
            doomed: None,
            keeps_out: false,
            tally: Tally::default(),
            traced: None,
            is_tracing: false,
            trace: Vec::new(),
            events: 0,
            events_max: u64::MAX,
            idle_events: 0,
        };
        for device in 0..drives as usize {
            let drive = campaign.blank_drive(device);
            campaign.drives.push(drive);
        }
        campaign.create((u64::from(geometry.members) + spares) as usize);
        if let Some(liar) = campaign.suspect() {
            campaign.model.holds_anything = liar.answers_anything();
            campaign.tally.liars += 1;
        }
        campaign
    }

    /// An array of the first drives.
    fn create(&mut self, count: usize) {
        let member = |drive: &Drive| Member { id: drive.id, device_bytes: drive.disk.size() };
        let members: Vec<Member> = self.drives[..count].iter().map(member).collect();
        let blocks = create(Id([1; 16]), "simulated", self.geometry, BLOCK, &members);
        let is_striped = self.geometry.level.parities() > 0;
        let is_unsynced = is_striped && self.chance.below(4) == 0;
        // The geometry was drawn to fit.
        for (device, mut blocks) in blocks.unwrap_or_default().into_iter().enumerate() {
            if is_unsynced {
                leave_unsynced(&mut blocks, &self.geometry);
            }
            blocks.iter().for_each(|(_, block)| self.note_superblock(device, block, false));
            let drive = &mut self.drives[device];
            simulated::write_blocks(&mut drive.disk, blocks);
        }
        if is_unsynced {
            self.spoil_parities();
        }
        self.has_bad_drive = is_striped && self.chance.below(6) == 0;
        self.may_be_unreadable = is_unsynced || self.has_bad_drive || self.liar.is_some();
    }

    /// A new drive in this place: a liar is replaced by a liar.
    pub(super) fn blank_drive(&mut self, device: usize) -> Drive {
        self.drives_made += 1;
        let bytes = layout::device_bytes(&self.geometry, self.data_at);
        let liar = self.liar.as_ref().filter(|liar| liar.device == device);
        let honest = (Profile::honest(bytes), false);
        let (profile, flushes) = liar.map_or(honest, |liar| liar.profile(bytes));
        Drive::blank(profile, flushes, self.drives_made, self.chance.bits())
    }

    /// Discards steps that had no effect, so that they do not make a case larger.
    pub(super) fn forget_events(&mut self, before: u64) {
        (self.events, self.idle_events) = (before, self.events - before);
    }

    /// The number of events so far.
    pub(super) fn effort(&self) -> u64 {
        self.events + self.idle_events
    }

    pub(super) fn trace(&mut self, line: impl FnOnce() -> String) {
        self.events += 1;
        if self.is_tracing {
            self.trace.push(line());
        }
    }

    /// The same as [`Self::run`], with a panic as a broken promise.
    pub(super) fn run_caught(&mut self, lives: u64) -> Result<(), (u64, String)> {
        simulate_regions_per_page(self.page_regions);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run(lives)));
        result.unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            let what = format!("panic: {}", text.unwrap_or_default());
            self.trace(|| format!("violation: {what}"));
            Err((self.life, what))
        })
    }

    /// The generator of those decisions of this life that later cases must not change.
    pub(super) fn chance_of_its_own(&self, purpose: u64) -> Chance {
        Chance::new(self.seed ^ purpose ^ self.life.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// Runs `lives` lives; an error has the life in which a promise was broken, and how.
    pub(super) fn run(&mut self, lives: u64) -> Result<(), (u64, String)> {
        for life in 0..lives {
            if self.events > self.events_max {
                return Ok(());
            }
            if !self.reduction.has_life(life) {
                continue;
            }
            (self.life, self.step, self.further) = (life, 0, 0);
            self.draw_anew(u32::MAX);
            let is_traced = |other: u64| other == life || self.reduction.lives().is_some();
            self.is_tracing = self.traced.is_some_and(is_traced);
            if let Some(liar) = &self.liar {
                let (device, name) = (liar.device, liar.name());
                self.trace(|| format!("device {device} lies: {name}"));
            }
            let splits = self.chance.below(25) == 0 && self.reduction.has(SimEventKind::Splits);
            let splits = splits && self.suspect().is_none();
            let result = if splits { self.split() } else { Ok(false) };
            let result = result.and_then(|did| if did { Ok(()) } else { self.live() });
            if self.is_lost {
                return Ok(());
            }
            if let Err(what) = result {
                self.trace(|| format!("violation: {what}"));
                return Err((life, what));
            }
        }
        Ok(())
    }

    /// Draws each step's decisions separately, so that other steps can be left out.
    fn draw_anew(&mut self, step: u32) {
        let number = self.life << 32 | u64::from(step);
        let mixed = number.wrapping_add(1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.chance = Chance::new(self.seed ^ mixed);
    }

    /// The next step begins; false if it is left out.
    pub(super) fn next_step(&mut self) -> bool {
        self.step += 1;
        self.draw_anew(self.step);
        self.reduction.has_step(self.life, self.step - 1)
    }

    /// Starts the next step of a wait for an event.
    pub(super) fn next_further_step(&mut self) {
        self.further += 1;
        self.draw_anew(self.further | 1 << 31);
    }

    fn live(&mut self) -> Result<(), String> {
        let damaged = self.damage_some()?;
        let put_back = if damaged.is_none() { self.put_copy_back() } else { None };
        let Some(plan) = self.assemble(put_back.is_some())? else {
            self.is_lost = true;
            return Ok(());
        };
        self.check_damaged(damaged.or(put_back), &plan)?;
        let steps = match self.chance.below(6) {
            0 => self.chance.below(30),
            _ => 30 + self.chance.below(250),
        };
        let is_settled = self.chance.below(if self.hunts_starts { 16 } else { 4 }) == 0;
        let is_settled = is_settled && self.reduction.has(SimEventKind::Settling);
        let epoch = plan.table.epoch;
        self.live_with(plan, steps, is_settled, false)?;
        put_back.into_iter().for_each(|device| self.erase_unless_after(device, epoch));
        Ok(())
    }
}
