//! The contents of a disk, sparse and shared until written, and the writes in its volatile cache.
//!
//! A clone of an image costs a reference per MiB in use, so a disk can be forked for any number of
//! crash states.

use std::collections::BTreeMap;
use std::sync::Arc;

use durio_base::Nanos;

/// Bytes of a sector, the unit in which a disk keeps or loses data.
pub const SECTOR: usize = 512;
/// Bytes of a page, the unit in which images share memory.
pub(crate) const PAGE: usize = 4096;
/// Sectors of a page.
pub(crate) const PAGE_SECTORS: u64 = (PAGE / SECTOR) as u64;
/// The unit of sharing: 1 MiB.
const SEGMENT_PAGES: u64 = 256;

pub(crate) type ImagePage = [u8; PAGE];

/// Which sectors of a page are meant, the first by the lowest bit.
pub(crate) type SectorMask = u8;
pub(crate) const WHOLE_PAGE: SectorMask = SectorMask::MAX;

type Segment = Vec<Option<Arc<ImagePage>>>;

/// The contents of a disk; unwritten sectors are zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    segments: BTreeMap<u64, Arc<Segment>>,
    /// Pages that are there.
    count: u64,
}

impl Image {
    /// Fills `into` from a sector on; its length must be whole sectors.
    ///
    /// # Panics
    /// If it is not.
    pub fn read(&self, sector: u64, into: &mut [u8]) {
        for piece in pieces(sector, into.len()) {
            let to = &mut into[piece.at..piece.at + piece.length()];
            match self.page(piece.page) {
                Some(page) => to.copy_from_slice(&page[piece.within()]),
                None => to.fill(0),
            }
        }
    }

    /// The bytes of a sector; `None` if its page was never written.
    #[must_use]
    pub fn sector(&self, sector: u64) -> Option<&[u8]> {
        let start = in_page(sector) * SECTOR;
        self.page(sector / PAGE_SECTORS).map(|page| &page[start..start + SECTOR])
    }

    /// Stores bytes from a sector on.
    ///
    /// # Panics
    /// If they are not whole sectors.
    pub fn store(&mut self, sector: u64, data: &[u8]) {
        for piece in pieces(sector, data.len()) {
            let mut page = [0; PAGE];
            page[piece.within()].copy_from_slice(&data[piece.at..piece.at + piece.length()]);
            self.put(piece.page, Some(&Arc::new(page)), piece.mask());
        }
    }

    /// All written pages, in order: pieces of 4096 bytes, each with its sector. The rest is zero.
    pub fn written(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let page = |page: u64| self.page(page).map(|data| (page * PAGE_SECTORS, &data[..]));
        self.pages().filter_map(page)
    }

    pub(crate) fn page(&self, page: u64) -> Option<&Arc<ImagePage>> {
        let segment = self.segments.get(&(page / SEGMENT_PAGES))?;
        segment[place(page)].as_ref()
    }

    /// Copies these sectors of `data` into the page; `None` writes zeros.
    pub(crate) fn put(&mut self, page: u64, data: Option<&Arc<ImagePage>>, mask: SectorMask) {
        if mask == 0 || (data.is_none() && self.page(page).is_none()) {
            return;
        }
        let slot = self.slot(page);
        let was_there = slot.is_some();
        if mask == WHOLE_PAGE {
            *slot = data.cloned();
        } else {
            let kept = Arc::make_mut(slot.get_or_insert_with(|| Arc::new([0; PAGE])));
            copy_sectors(kept, data.map_or(&[0; PAGE], |data| data), mask);
        }
        let is_there = slot.is_some();
        self.count = self.count + u64::from(is_there) - u64::from(was_there);
    }

    /// Flips one bit, as a decaying medium does.
    pub(crate) fn flip(&mut self, sector: u64, bit: usize) {
        let slot = self.slot(sector / PAGE_SECTORS);
        let page = Arc::make_mut(slot.get_or_insert_with(|| Arc::new([0; PAGE])));
        page[in_page(sector) * SECTOR + (bit / 8) % SECTOR] ^= 1 << (bit % 8);
    }

    /// How many pages take memory, here or in an image that shares them.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Pages that were written.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> {
        let segments = self.segments.iter();
        segments.flat_map(|(&number, segment)| {
            let first = number * SEGMENT_PAGES;
            (first..).zip(segment.iter()).filter_map(|(page, data)| data.as_ref().map(|_| page))
        })
    }

    fn slot(&mut self, page: u64) -> &mut Option<Arc<ImagePage>> {
        let empty = || Arc::new(vec![None; place(SEGMENT_PAGES - 1) + 1]);
        let segment = self.segments.entry(page / SEGMENT_PAGES).or_insert_with(empty);
        &mut Arc::make_mut(segment)[place(page)]
    }
}

fn place(page: u64) -> usize {
    (page % SEGMENT_PAGES) as usize
}

/// Which sector of its page this is.
pub(crate) fn in_page(sector: u64) -> usize {
    (sector % PAGE_SECTORS) as usize
}

pub(crate) fn copy_sectors(to: &mut ImagePage, from: &ImagePage, mask: SectorMask) {
    for sector in (0..8).filter(|sector| mask & (1 << sector) != 0) {
        let range = sector * SECTOR..(sector + 1) * SECTOR;
        to[range.clone()].copy_from_slice(&from[range]);
    }
}

/// The part of a transfer in one page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PagePiece {
    pub(crate) page: u64,
    /// The first of its sectors in the page, and the one after the last.
    pub(crate) first: usize,
    pub(crate) end: usize,
    /// Its first byte in the transfer.
    pub(crate) at: usize,
}

impl PagePiece {
    pub(crate) fn length(self) -> usize {
        (self.end - self.first) * SECTOR
    }

    /// Its bytes in the page.
    pub(crate) fn within(self) -> std::ops::Range<usize> {
        self.first * SECTOR..self.end * SECTOR
    }

    pub(crate) fn mask(self) -> SectorMask {
        let below = |sector: usize| (1_u16 << sector) - 1;
        let mask = below(self.end) & !below(self.first);
        u8::try_from(mask).unwrap_or(WHOLE_PAGE)
    }
}

/// Cuts a transfer at the borders of pages.
pub(crate) fn pieces(sector: u64, length: usize) -> impl Iterator<Item = PagePiece> {
    assert!(length.is_multiple_of(SECTOR), "{length} bytes are not whole sectors");
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = (length - at) / SECTOR;
        let here = sector + (at / SECTOR) as u64;
        let first = in_page(here);
        let end = (first + left).min(PAGE / SECTOR);
        let piece = PagePiece { page: here / PAGE_SECTORS, first, end, at };
        at += piece.length();
        (left > 0).then_some(piece)
    })
}

/// The part of a write in one page.
#[derive(Debug, Clone)]
pub(crate) struct CachedPart {
    pub(crate) write: u64,
    pub(crate) connection: u32,
    pub(crate) entered: Nanos,
    /// The page where it will be stored; differs from `home` if the disk misdirects it.
    pub(crate) page: u64,
    /// The page where it belongs.
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

/// Writes that are not on the medium yet, in order of arrival.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache {
    pub(crate) entries: Vec<CachedPart>,
    /// An empty vector with room, so that a flush allocates nothing.
    spare: Vec<CachedPart>,
}

impl Cache {
    pub(crate) fn bytes(&self) -> u64 {
        (self.entries.len() * PAGE) as u64
    }

    /// The parts of one write; the latest writes are found first.
    pub(crate) fn of_write(&mut self, write: u64) -> impl Iterator<Item = &mut CachedPart> {
        let latest_first = self.entries.iter_mut().rev();
        latest_first
            .skip_while(move |entry| entry.write != write)
            .take_while(move |entry| entry.write == write)
    }

    pub(crate) fn all_of(&mut self, write: u64, holds: impl Fn(&CachedPart) -> bool) -> bool {
        self.of_write(write).all(|entry| holds(entry))
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
                older.filter(|entry| entry.page == page).for_each(|entry| entry.mask &= !mask);
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

    /// Takes back the memory of a `take`, to reuse it.
    pub(crate) fn give_back(&mut self, mut taken: Vec<CachedPart>) {
        taken.clear();
        self.spare = taken;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_never_written_is_zero() {
        let mut bytes = [1; 3 * SECTOR];
        Image::default().read(1 << 40, &mut bytes);
        assert_eq!(bytes, [0; 3 * SECTOR]);
    }

    #[test]
    fn what_was_stored_is_what_was_written() {
        let mut image = Image::default();
        image.store(7, &[1; 2 * SECTOR]);
        let written: Vec<_> = image.written().map(|(at, bytes)| (at, bytes.to_vec())).collect();
        let (mut first, mut second) = (vec![0; PAGE], vec![0; PAGE]);
        first[7 * SECTOR..].fill(1);
        second[..SECTOR].fill(1);
        assert_eq!(written, [(0, first), (8, second)]);
    }

    #[test]
    fn a_fork_keeps_what_it_had() {
        let mut image = Image::default();
        image.put(3, Some(&Arc::new([1; PAGE])), WHOLE_PAGE);
        let fork = image.clone();
        image.put(3, Some(&Arc::new([2; PAGE])), 0b10);
        image.flip(3 * PAGE_SECTORS, 9);
        let mut bytes = [0; 2 * SECTOR];
        fork.read(3 * PAGE_SECTORS, &mut bytes);
        assert_eq!(bytes, [1; 2 * SECTOR]);
        image.read(3 * PAGE_SECTORS, &mut bytes);
        assert_eq!((bytes[0], bytes[1], bytes[SECTOR]), (1, 3, 2));
    }

    proptest! {
        #[test]
        fn pieces_cover_a_transfer_once(sector in 0_u64..64, sectors in 0_usize..40) {
            let pieces: Vec<_> = pieces(sector, sectors * SECTOR).collect();
            let covered: Vec<u64> = pieces.iter().flat_map(|piece| {
                (piece.first..piece.end).map(|sector| piece.page * PAGE_SECTORS + sector as u64)
            }).collect();
            prop_assert_eq!(covered, (sector..sector + sectors as u64).collect::<Vec<_>>());
            prop_assert!(pieces.iter().all(|piece| piece.mask().count_ones() as usize == piece.end - piece.first));
        }
    }
}
