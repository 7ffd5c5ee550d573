//! What really happened, apart from the disk's answers: tests compare verdicts with it.

use crate::Lie;
use crate::cache::CachedPart;
use crate::image::{PAGE_SECTORS, SectorMask};
use crate::profile::Survivors;

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
    /// Those that survived.
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
        self.waiting.iter().filter(|it| it.promised && it.survived != it.written)
    }
}

/// Everything.
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
