//! Writes that are not on the medium yet, in order of arrival.

use std::sync::Arc;

use durio_base::Nanos;

use crate::image::{ImagePage, PAGE, SectorMask};

/// The part of a write in one page.
#[derive(Debug, Clone)]
pub(crate) struct CachedPart {
    /// The write's ticket.
    pub(crate) write: u64,
    pub(crate) connection: u32,
    pub(crate) entered: Nanos,
    /// The page where it will be stored; differs from `home` if the disk misdirects it.
    pub(crate) page: u64,
    /// Where it belongs.
    pub(crate) home: u64,
    pub(crate) mask: SectorMask,
    /// The page with these sectors in it; `None` for zeros.
    pub(crate) data: Option<Arc<ImagePage>>,
    /// The number of the write's end, if it has ended.
    pub(crate) ended: Option<u64>,
    /// It was acknowledged as durable.
    pub(crate) promised: bool,
    /// When a disk that acknowledges flushes early will have stored it.
    pub(crate) due: Option<Nanos>,
    /// Will never be stored.
    pub(crate) dropped: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Cache {
    entries: Vec<CachedPart>,
    /// An empty vector with room, so that a flush allocates nothing.
    spare: Vec<CachedPart>,
}

impl Cache {
    pub(crate) fn bytes(&self) -> u64 {
        (self.entries.len() * PAGE) as u64
    }

    pub(crate) fn push(&mut self, entry: CachedPart) {
        self.entries.push(entry);
    }

    pub(crate) fn oldest(&self) -> Option<&CachedPart> {
        self.entries.first()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &CachedPart> {
        self.entries.iter()
    }

    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut CachedPart> {
        self.entries.iter_mut()
    }

    /// The parts of one write; the latest writes are found first.
    pub(crate) fn of_write(&mut self, write: u64) -> impl Iterator<Item = &mut CachedPart> {
        let latest_first = self.entries.iter_mut().rev();
        latest_first.skip_while(move |it| it.write != write).take_while(move |it| it.write == write)
    }

    pub(crate) fn all_of(&mut self, write: u64, holds: impl Fn(&CachedPart) -> bool) -> bool {
        self.of_write(write).all(|it| holds(it))
    }

    /// Takes entries out, in order. Sectors of an older entry that stays are void where a taken
    /// entry has them: they must not be stored over a later write.
    pub(crate) fn take(&mut self, mut takes: impl FnMut(&CachedPart) -> bool) -> Vec<CachedPart> {
        let mut taken = std::mem::take(&mut self.spare);
        let mut kept = 0;
        for at in 0..self.entries.len() {
            if takes(&self.entries[at]) {
                let (page, mask) = (self.entries[at].page, self.entries[at].mask);
                let older = self.entries[..kept].iter_mut();
                older.filter(|it| it.page == page).for_each(|it| it.mask &= !mask);
                // The entry left in its place is dropped below.
                taken.push(self.entries[at].clone());
            } else {
                self.entries.swap(kept, at);
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        taken
    }

    pub(crate) fn take_all(&mut self) -> Vec<CachedPart> {
        std::mem::take(&mut self.entries)
    }

    /// Takes back the memory of a `take`, to reuse it.
    pub(crate) fn give_back(&mut self, mut taken: Vec<CachedPart>) {
        taken.clear();
        self.spare = taken;
    }
}
