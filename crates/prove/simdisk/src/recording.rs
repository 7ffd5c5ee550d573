//! A recording of a disk's requests: writes, flushes and marks in order.
//!
//! Takes the beginnings and ends of requests, as a disk sees them, or the entries of a log. Returns
//! events, from which a log ([`crate::trace::Logger`]) or crash states (durio-prove) are made. A
//! recording has requests and answers, whether or not the disk lies.
//!
//! Events keep more than a log of dm-log-writes does: when each write began and ended, and what had
//! ended when a flush began. So the writes that a power cut may lose are known at each moment.

mod unflushed;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cache::CachedPart;
use crate::image::{Image, ImagePage, PAGE, PAGE_SECTORS, PagePiece, SECTOR, SectorMask, pieces};
use crate::trace::{DISCARD, FLUSH, FUA, MARK, WriteLogEntry};
pub use unflushed::Unflushed;

/// A write, zeros, or a discard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub(crate) number: u64,
    pub(crate) parts: Vec<WritePart>,
}

/// The part of a write in one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WritePart {
    pub(crate) page: u64,
    /// Which of its sectors.
    pub(crate) mask: SectorMask,
    /// The page with these sectors in it; `None` for zeros.
    pub(crate) data: Option<Arc<ImagePage>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskEvent {
    /// A write began: from now on a cut may leave it.
    Begun(Write),
    /// A write ended.
    Ended {
        /// Its number.
        write: u64,
        /// Counts the ends of requests.
        order: u64,
        /// Whether the write is durable now: it had FUA, or the disk declares no cache.
        durable: bool,
    },
    Flushed {
        /// It covers the writes whose end had at most this number.
        covers: u64,
    },
    /// The recorded program marked this moment.
    Mark(String),
    /// The power was cut. Survivors follow as separate writes.
    Cut,
}

/// Events, and the contents of the disk before the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    base: Image,
    events: Vec<DiskEvent>,
}

impl Recording {
    /// Begins one of a disk that holds this.
    #[must_use]
    pub fn new(base: Image) -> Self {
        Self { base, events: Vec::new() }
    }

    /// The recording that a log is of, on a disk that held `base`.
    ///
    /// A log of the kernel has less than a recording: its writes are placed where their flush
    /// ended. So a write is not known to have started before any earlier entry, and the log yields
    /// fewer crash states than were possible; all of them are possible.
    #[must_use]
    pub fn from_log(base: Image, entries: &[WriteLogEntry]) -> Self {
        let mut touched: BTreeSet<u64> = base.pages().collect();
        let mut recording = Self::new(base);
        let mut order = 0;
        for entry in entries {
            if entry.flags & MARK != 0 {
                recording.events.push(DiskEvent::Mark(entry.name().into_owned()));
                continue;
            }
            if entry.flags & FLUSH != 0 {
                recording.flushed(order);
            }
            if entry.sectors > 0 {
                order += 1;
                let write = Write::of_entry(order, entry, &mut touched);
                recording.events.push(DiskEvent::Begun(write));
                recording.ended(order, order, entry.flags & FUA != 0);
            }
        }
        recording
    }

    /// The contents of the disk before the recording. All of it counts as durable.
    #[must_use]
    pub fn base(&self) -> &Image {
        &self.base
    }

    #[must_use]
    pub fn events(&self) -> &[DiskEvent] {
        &self.events
    }

    /// Starts a write, or adds its next page.
    fn begin(&mut self, number: u64, part: WritePart) {
        match self.events.last_mut() {
            Some(DiskEvent::Begun(write)) if write.number == number => write.parts.push(part),
            _ => self.events.push(DiskEvent::Begun(Write { number, parts: vec![part] })),
        }
    }

    fn ended(&mut self, write: u64, order: u64, durable: bool) {
        self.events.push(DiskEvent::Ended { write, order, durable });
    }

    fn flushed(&mut self, covers: u64) {
        self.events.push(DiskEvent::Flushed { covers });
    }
}

impl Write {
    /// Its number: later writes have higher ones.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its first sector; `None` if later writes have replaced all of it.
    #[must_use]
    pub fn first_sector(&self) -> Option<u64> {
        self.sectors().next().map(|(sector, _)| sector)
    }

    /// Its sectors, each with its bytes; `None` for zeros.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, Option<&[u8]>)> {
        self.parts.iter().flat_map(|part| {
            let in_part = (0..PAGE / SECTOR).filter(|sector| part.mask & (1 << sector) != 0);
            in_part.map(|sector| {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                let bytes = part.data.as_ref().map(|page| &page[range]);
                (part.page * PAGE_SECTORS + sector as u64, bytes)
            })
        })
    }

    pub fn store_to(&self, image: &mut Image) {
        for part in &self.parts {
            image.put(part.page, part.data.as_ref(), part.mask);
        }
    }

    /// Only discarded sectors that were ever written count: a log may discard a disk of any size at
    /// once.
    fn of_entry(number: u64, entry: &WriteLogEntry, touched: &mut BTreeSet<u64>) -> Self {
        let parts = if entry.flags & DISCARD == 0 {
            let parts = pieces(entry.sector, entry.data.len());
            parts.map(|piece| WritePart::of_piece(piece, &entry.data)).collect::<Vec<WritePart>>()
        } else {
            let end = entry.sector + entry.sectors;
            let pages = touched.range(entry.sector / PAGE_SECTORS..end.div_ceil(PAGE_SECTORS));
            let part =
                |&page: &u64| WritePart { page, mask: within(page, entry.sector, end), data: None };
            pages.map(part).collect()
        };
        touched.extend(parts.iter().map(|part| part.page));
        Self { number, parts }
    }
}

impl WritePart {
    fn of_piece(piece: PagePiece, data: &[u8]) -> Self {
        let mut page = [0; PAGE];
        page[piece.within()].copy_from_slice(&data[piece.at..piece.at + piece.length()]);
        Self { page: piece.page, mask: piece.mask(), data: Some(Arc::new(page)) }
    }

    pub(crate) fn of_cached(entry: &CachedPart) -> Self {
        Self { page: entry.page, mask: entry.mask, data: entry.data.clone() }
    }
}

/// The sectors of a page within a range of sectors.
fn within(page: u64, first: u64, end: u64) -> SectorMask {
    let start = page * PAGE_SECTORS;
    let is_in = |sector: &u64| (first..end).contains(&(start + sector));
    (0..PAGE_SECTORS).filter(is_in).fold(0, |mask, sector| mask | 1 << sector)
}

/// A disk's recording, if enabled. A fork does not record: it continues as another disk.
#[derive(Debug, Default)]
pub(crate) struct Recorder(pub(crate) Option<Box<Recording>>);

impl Clone for Recorder {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl Recorder {
    pub(crate) fn begin(&mut self, number: u64, piece: PagePiece, data: Option<&Arc<ImagePage>>) {
        if let Some(recording) = &mut self.0 {
            let part = WritePart { page: piece.page, mask: piece.mask(), data: data.cloned() };
            recording.begin(number, part);
        }
    }

    pub(crate) fn ended(&mut self, number: u64, order: u64, durable: bool) {
        if let Some(recording) = &mut self.0 {
            recording.ended(number, order, durable);
        }
    }

    pub(crate) fn flushed(&mut self, covers: u64) {
        if let Some(recording) = &mut self.0 {
            recording.flushed(covers);
        }
    }

    pub(crate) fn push(&mut self, event: impl FnOnce() -> DiskEvent) {
        if let Some(recording) = &mut self.0 {
            recording.events.push(event());
        }
    }

    /// Records the durable part of a write in one page that survived a cut.
    pub(crate) fn survived(&mut self, entry: &CachedPart) {
        if let Some(recording) = &mut self.0 {
            let write = Write { number: entry.write, parts: vec![WritePart::of_cached(entry)] };
            recording.events.push(DiskEvent::Begun(write));
            recording.ended(entry.write, 0, true);
        }
    }

    pub(crate) fn take_events(&mut self) -> Vec<DiskEvent> {
        self.0.as_mut().map(|it| std::mem::take(&mut it.events)).unwrap_or_default()
    }
}
