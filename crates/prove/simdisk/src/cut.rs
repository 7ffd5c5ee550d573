//! Cuts and restores the power, and keeps the truth about it.
//!
//! Leaves a disk with its durable contents and the part of its cache that the survivor rule keeps.
//! A cut is one event: nothing happens between power off and on. The truth is apart from the disk's
//! answers: tests compare verdicts with it.

use crate::image::{CachedPart, PAGE, PAGE_SECTORS, SECTOR, SectorMask, WHOLE_PAGE};
use crate::profile::{CacheKind, Survivors};
use crate::recording::DiskEvent;
use crate::{Chance, Disk, DiskError, Lie};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Power {
    On,
    Off,
    /// It does not come back.
    Dead,
}

/// The rules among which [`Survivors::Mixed`] chooses.
const RULES: [Survivors; 5] =
    [Survivors::None, Survivors::Prefix, Survivors::Writes, Survivors::Sectors, Survivors::Lines];
/// Sectors of a line of the cache: 64 KiB.
const LINE_PAGES: u64 = 16;

impl Disk {
    /// Cuts the power: requests in flight are lost, and the cache except for its survivors. No
    /// effect without power.
    pub fn cut(&mut self) {
        if self.power != Power::On {
            return;
        }
        self.stats.cuts += 1;
        // Lost with the power.
        self.in_flight.clear();
        // The survivors follow from the cut's number, not from the requests before it.
        self.chance = Chance::new(self.seed.wrapping_add(self.stats.cuts));
        let rule = self.rule();
        let entries = std::mem::take(&mut self.cache.entries);
        self.recorder.push(|| DiskEvent::Cut);
        let prefix = self.chance.below(entries.len() as u64 + 1);
        let salt = self.chance.bits();
        let mut waiting = Vec::with_capacity(entries.len());
        for (place, mut entry) in (0..).zip(entries) {
            let kept = match rule {
                Survivors::Prefix if place < prefix => WHOLE_PAGE,
                _ => self.chance_of(rule, &entry, salt),
            };
            let survived = entry.mask & kept;
            waiting.push(WaitingPage::of(&entry, if entry.dropped { 0 } else { survived }));
            entry.mask = survived;
            if survived != 0 && !entry.dropped {
                self.recorder.survived(&entry);
            }
            self.store(&entry);
        }
        self.power = Power::Off;
        self.decay();
        self.truth.cut(rule, waiting);
    }

    /// Restores the power.
    ///
    /// # Errors
    /// [`DiskError::Gone`] if the disk does not come back.
    pub fn restore(&mut self) -> Result<(), DiskError> {
        let cut = self.stats.cuts;
        for at in 0..self.profile.lies.len() {
            match self.profile.lies[at] {
                Lie::Dies(after) if cut >= after => self.power = Power::Dead,
                Lie::Shrinks(after) if cut == after => {
                    self.size = self.size / 2 / PAGE as u64 * PAGE as u64;
                }
                _ => {}
            }
        }
        match self.power {
            Power::Dead => return Err(DiskError::Gone),
            Power::On => return Ok(()),
            Power::Off => self.power = Power::On,
        }
        self.visible = self.durable.clone();
        self.second_leg = None;
        if self.lies().any(|lie| matches!(lie, Lie::MirrorLags(_))) {
            let mut second = self.durable.clone();
            while let Some((page, old)) = self.undone.pop_back() {
                second.put(page, old.as_ref(), WHOLE_PAGE);
            }
            self.second_leg = Some(second);
        }
        Ok(())
    }

    fn rule(&mut self) -> Survivors {
        let holds = !self
            .lies()
            .any(|lie| matches!(lie, Lie::CapacitorDies(after) if self.stats.cuts > after));
        match (self.profile.cache, self.profile.survivors) {
            (CacheKind::Protected, _) if holds => Survivors::All,
            (CacheKind::Protected, _) => Survivors::None,
            (_, Survivors::Mixed) => {
                let choice = self.chance.below(RULES.len() as u64);
                usize::try_from(choice).map_or(Survivors::None, |rule| RULES[rule])
            }
            (_, rule) => rule,
        }
    }

    /// The sectors of a page that this rule keeps.
    fn chance_of(&mut self, rule: Survivors, entry: &CachedPart, salt: u64) -> SectorMask {
        let all_or_none = |survives: bool| if survives { WHOLE_PAGE } else { 0 };
        match rule {
            Survivors::All => WHOLE_PAGE,
            Survivors::None | Survivors::Prefix | Survivors::Mixed => 0,
            // The pages of one write share its fate.
            Survivors::Writes => all_or_none(mixed(salt, entry.write)),
            Survivors::Lines => all_or_none(mixed(salt, entry.page / LINE_PAGES)),
            Survivors::Sectors => self.chance.bits().to_le_bytes()[0],
        }
    }

    /// Damages a medium without power, if the disk lies so.
    fn decay(&mut self) {
        for at in 0..self.profile.lies.len() {
            let (lie, count) = match self.profile.lies[at] {
                lie @ (Lie::BitRot(count) | Lie::LatentErrors(count)) => (lie, count),
                _ => continue,
            };
            let pages: Vec<u64> = self.durable.pages().collect();
            for _ in 0..if pages.is_empty() { 0 } else { count } {
                let choice = usize::try_from(self.chance.below(pages.len() as u64)).unwrap_or(0);
                let sector = pages[choice] * PAGE_SECTORS + self.chance.below(PAGE_SECTORS);
                self.truth.tell(LieTold { lie, sector });
                if matches!(lie, Lie::BitRot(_)) {
                    let bit = self.chance.below(SECTOR as u64 * 8);
                    self.durable.flip(sector, usize::try_from(bit).unwrap_or(0));
                } else {
                    self.unreadable.insert(sector);
                }
            }
        }
    }
}

/// One bit for a key, by the finalizer of SplitMix64.
fn mixed(salt: u64, key: u64) -> bool {
    let mut bits = salt ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) & 1 == 1
}

/// The effect of a lie on a page of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LieTold {
    pub lie: Lie,
    /// The first sector of the page where the write belongs.
    pub sector: u64,
}

impl LieTold {
    pub(crate) fn of(entry: &CachedPart, lie: Lie) -> Self {
        Self { lie, sector: entry.home * PAGE_SECTORS }
    }
}

/// A cached page of a write at a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingPage {
    /// The first sector of the page where it belongs.
    pub sector: u64,
    /// The sectors that were written, the first by the lowest bit.
    pub written: u8,
    /// The sectors of the page that survived, a bit each.
    pub survived: u8,
    /// Whether the write had ended.
    pub ended: bool,
    /// Whether it was acknowledged as durable.
    pub promised: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutTruth {
    /// The rule by which the cache was cut.
    pub survivors: Survivors,
    /// The cached entries at the cut, in order.
    pub waiting: Vec<WaitingPage>,
    /// Lies that changed the stored data since the previous cut.
    pub lies: Vec<LieTold>,
}

impl CutTruth {
    /// Pages for which a promise was broken by this cut, whether or not a later write hides it.
    pub fn broken_promises(&self) -> impl Iterator<Item = &WaitingPage> {
        self.waiting.iter().filter(|page| page.promised && page.survived != page.written)
    }
}

/// The real fate of the data, and every lie of the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Truth {
    last_cut: Option<CutTruth>,
    lies: Vec<LieTold>,
}

impl Truth {
    #[must_use]
    pub fn last_cut(&self) -> Option<&CutTruth> {
        self.last_cut.as_ref()
    }

    pub(crate) fn tell(&mut self, lie: LieTold) {
        self.lies.push(lie);
    }

    pub(crate) fn tell_of_store(&mut self, entry: &CachedPart, lies: &[Lie]) {
        let is_it = |lie: &&Lie| match lie {
            Lie::DropsPerMille(_) => entry.dropped,
            Lie::Misdirects { .. } => entry.page != entry.home,
            _ => false,
        };
        self.lies.extend(lies.iter().find(is_it).map(|&lie| LieTold::of(entry, lie)));
    }

    pub(crate) fn cut(&mut self, survivors: Survivors, waiting: Vec<WaitingPage>) {
        let lies = std::mem::take(&mut self.lies);
        self.last_cut = Some(CutTruth { survivors, waiting, lies });
    }
}

impl WaitingPage {
    pub(crate) fn of(entry: &CachedPart, survived: SectorMask) -> Self {
        Self {
            sector: entry.home * PAGE_SECTORS,
            written: entry.mask,
            survived,
            ended: entry.ended.is_some(),
            promised: entry.promised,
        }
    }
}
