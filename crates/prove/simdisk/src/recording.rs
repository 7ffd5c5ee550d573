//! A recording of a disk's requests: writes, flushes and marks in order.
//!
//! Takes the beginnings and ends of requests, as a disk sees them, or the entries of a log. Returns
//! events, from which a log ([`Logger`]) or crash states (durio-prove) are made. A
//! recording has requests and answers, whether or not the disk lies.
//!
//! Events keep more than a log of dm-log-writes does: when each write began and ended, and what had
//! ended when a flush began. So the writes that a power cut may lose are known at each moment.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;

use crate::image::{
    CachedPart, Image, ImagePage, PAGE, PAGE_SECTORS, PagePiece, SECTOR, SectorMask, pieces,
};
use crate::trace::{CUT_MARK, DISCARD, END_MARK, FLUSH, FUA, MARK, WriteLogEntry, superblock};

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
    Ended {
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
                recording.events.push(DiskEvent::Flushed { covers: order });
            }
            if entry.sectors > 0 {
                order += 1;
                let write = Write::of_entry(order, entry, &mut touched);
                recording.events.push(DiskEvent::Begun(write));
                let durable = entry.flags & FUA != 0;
                recording.events.push(DiskEvent::Ended { write: order, order, durable });
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

    pub(crate) fn push(&mut self, event: impl FnOnce() -> DiskEvent) {
        if let Some(recording) = &mut self.0 {
            recording.events.push(event());
        }
    }

    /// Records the durable part of a write in one page that survived a cut.
    pub(crate) fn survived(&mut self, entry: &CachedPart) {
        let CachedPart { write, page, mask, ref data, .. } = *entry;
        self.push(|| {
            let part = WritePart { page, mask, data: data.clone() };
            DiskEvent::Begun(Write { number: write, parts: vec![part] })
        });
        self.push(|| DiskEvent::Ended { write, order: 0, durable: true });
    }

    pub(crate) fn take_events(&mut self) -> Vec<DiskEvent> {
        self.0.as_mut().map(|recording| std::mem::take(&mut recording.events)).unwrap_or_default()
    }
}

/// Writes that have started and are not known to be durable, in starting order: a power cut may lose
/// them. Turns events into the writes that each makes durable, in the order in which they must be stored.
///
/// If two writes cover a sector, the one that began later wins, even if it is durable first: only
/// the rest of the older write remains. dm-log-writes keeps the older write whole, and a replay of
/// its log stores it over the newer one.
#[derive(Debug, Clone, Default)]
pub struct Unflushed {
    writes: Vec<UnflushedWrite>,
}

#[derive(Debug, Clone)]
struct UnflushedWrite {
    write: Write,
    ended: Option<u64>,
}

/// For each page: the writes made durable there, each with its place among them.
type StoredWrites = HashMap<u64, Vec<(u64, usize, SectorMask)>>;

impl Unflushed {
    pub fn writes(&self) -> impl ExactSizeIterator<Item = &Write> {
        self.writes.iter().map(|pending| &pending.write)
    }

    /// Takes an event, and returns the writes that it made durable.
    pub fn take(&mut self, event: &DiskEvent) -> Vec<Write> {
        match event {
            DiskEvent::Begun(write) => {
                self.writes.push(UnflushedWrite { write: write.clone(), ended: None });
            }
            DiskEvent::Ended { write, order, durable } => {
                // The latest are found first: few are in flight.
                let mut latest = self.writes.iter_mut().rev();
                let Some(pending) = latest.find(|pending| pending.write.number == *write) else {
                    return Vec::new();
                };
                pending.ended = Some(*order);
                if *durable {
                    return self.settle(|pending| pending.write.number == *write);
                }
            }
            DiskEvent::Flushed { covers } => {
                return self.settle(|pending| pending.ended.is_some_and(|order| order <= *covers));
            }
            DiskEvent::Mark(_) => {}
            DiskEvent::Cut => self.writes.clear(),
        }
        Vec::new()
    }

    /// Whether an event would make something durable.
    #[must_use]
    pub fn changes_with(&self, event: &DiskEvent) -> bool {
        match event {
            DiskEvent::Ended { durable, .. } => *durable,
            DiskEvent::Flushed { covers } => self
                .writes
                .iter()
                .any(|pending| pending.ended.is_some_and(|order| order <= *covers)),
            DiskEvent::Begun(_) | DiskEvent::Mark(_) | DiskEvent::Cut => false,
        }
    }

    /// Takes writes out, in the order of their ends.
    fn settle(&mut self, takes: impl Fn(&UnflushedWrite) -> bool) -> Vec<Write> {
        let all = std::mem::take(&mut self.writes);
        let (mut taken, left): (Vec<UnflushedWrite>, Vec<UnflushedWrite>) =
            all.into_iter().partition(takes);
        self.writes = left;
        taken.sort_by_key(|pending| pending.ended);
        let mut stored = StoredWrites::new();
        for (place, pending) in taken.iter().enumerate() {
            for part in &pending.write.parts {
                let here = (pending.write.number, place, part.mask);
                stored.entry(part.page).or_default().push(here);
            }
        }
        let places = taken.iter_mut().enumerate().map(|(place, pending)| (pending, place));
        places.for_each(|(pending, place)| void(&mut pending.write, place, &stored));
        self.writes.iter_mut().for_each(|pending| void(&mut pending.write, usize::MAX, &stored));
        taken.retain(|pending| !pending.write.parts.is_empty());
        taken.into_iter().map(|pending| pending.write).collect()
    }
}

/// Removes from a write the sectors that later, already stored writes have replaced.
fn void(write: &mut Write, place: usize, stored: &StoredWrites) {
    for part in &mut write.parts {
        for &(number, earlier, mask) in stored.get(&part.page).into_iter().flatten() {
            if number > write.number && earlier < place {
                part.mask &= !mask;
            }
        }
    }
    write.parts.retain(|part| part.mask != 0);
}

/// replay-log skips more zeros than this at once when it replays into a file.
const DISCARD_MAX: u64 = (128 << 20) / SECTOR as u64;

/// A growing log of a disk's events, in a seekable file or memory, in the order of dm-log-writes.
///
/// A write enters the log when the next flush that covers it ends, ordered by the ends of the writes;
/// one with FUA when it ends; discards like writes. So everything before a flush in the log was durable
/// after it. The superblock's count of entries is updated after each batch of events, so an unfinished
/// log can be read.
#[derive(Debug)]
pub struct Logger<W: io::Write + Seek> {
    out: W,
    unflushed: Unflushed,
    entries: u64,
    counted: u64,
}

impl<W: io::Write + Seek> Logger<W> {
    /// A log without entries.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&superblock(0))?;
        Ok(Self { out, unflushed: Unflushed::default(), entries: 0, counted: 0 })
    }

    /// Takes the next events.
    ///
    /// # Errors
    /// If the log cannot be written. Then it is damaged beyond the entries that the superblock
    /// counts.
    pub fn take(&mut self, events: &[DiskEvent]) -> io::Result<()> {
        for event in events {
            self.take_event(event)?;
        }
        self.count()
    }

    /// Finishes the log: completed but unflushed writes come last, then a mark.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        for write in self.unflushed.settle(|pending| pending.ended.is_some()) {
            self.add_write(&write, 0)?;
        }
        self.add(&WriteLogEntry::mark(END_MARK))?;
        self.count()?;
        Ok(self.out)
    }

    fn take_event(&mut self, event: &DiskEvent) -> io::Result<()> {
        let flags = if matches!(event, DiskEvent::Ended { .. }) { FUA } else { 0 };
        for write in self.unflushed.take(event) {
            self.add_write(&write, flags)?;
        }
        match event {
            DiskEvent::Flushed { .. } => self.add(&WriteLogEntry::write(0, FLUSH, &[])),
            DiskEvent::Mark(name) => self.add(&WriteLogEntry::mark(name)),
            DiskEvent::Cut => self.add(&WriteLogEntry::mark(CUT_MARK)),
            DiskEvent::Begun(_) | DiskEvent::Ended { .. } => Ok(()),
        }
    }

    fn add_write(&mut self, write: &Write, flags: u64) -> io::Result<()> {
        entries_of(write, flags).iter().try_for_each(|entry| self.add(entry))
    }

    fn add(&mut self, entry: &WriteLogEntry) -> io::Result<()> {
        self.entries += 1;
        self.out.write_all(&entry.to_bytes())
    }

    fn count(&mut self) -> io::Result<()> {
        if self.counted == self.entries {
            return Ok(());
        }
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&superblock(self.entries))?;
        self.out.seek(SeekFrom::End(0))?;
        self.out.flush()?;
        self.counted = self.entries;
        Ok(())
    }
}

/// One entry for all sectors that follow each other: as a rule one for the write.
fn entries_of(write: &Write, flags: u64) -> Vec<WriteLogEntry> {
    let mut entries: Vec<WriteLogEntry> = Vec::new();
    for (sector, bytes) in write.sectors() {
        let kind = if bytes.is_some() { 0 } else { DISCARD };
        let data = bytes.unwrap_or_default();
        match entries.last_mut() {
            Some(last)
                if last.sector + last.sectors == sector
                    && last.flags & DISCARD == kind
                    && last.sectors < DISCARD_MAX =>
            {
                last.sectors += 1;
                last.data.extend_from_slice(data);
            }
            _ => {
                let entry =
                    WriteLogEntry { sector, sectors: 1, flags: flags | kind, data: data.to_vec() };
                entries.push(entry);
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(number: u64, page: u64, mask: SectorMask) -> DiskEvent {
        DiskEvent::Begun(Write { number, parts: vec![WritePart { page, mask, data: None }] })
    }

    fn ended(write: u64, order: u64, durable: bool) -> DiskEvent {
        DiskEvent::Ended { write, order, durable }
    }

    fn numbers(writes: &[Write]) -> Vec<(u64, SectorMask)> {
        writes.iter().map(|write| (write.number, write.parts[0].mask)).collect()
    }

    #[test]
    fn the_order_is_that_of_the_kernel() {
        // The example in dm-log-writes.c: a, b, c; c and a end; a flush and d with FUA; b ends.
        let mut unflushed = Unflushed::default();
        let before = [write(1, 1, 1), write(2, 2, 1), write(3, 3, 1), ended(3, 1, false)];
        let after = [ended(1, 2, false), write(4, 4, 1), ended(2, 3, false)];
        for event in before.iter().chain(&after) {
            assert!(unflushed.take(event).is_empty());
        }
        let flushed = unflushed.take(&DiskEvent::Flushed { covers: 2 });
        assert_eq!(numbers(&flushed), [(3, 1), (1, 1)]);
        assert_eq!(numbers(&unflushed.take(&ended(4, 4, true))), [(4, 1)]);
        assert_eq!(unflushed.writes().map(Write::number).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn what_a_durable_write_replaced_of_an_older_one_is_void() {
        let mut unflushed = Unflushed::default();
        for event in [write(1, 1, 0b11), ended(1, 1, false), write(2, 1, 0b10)] {
            unflushed.take(&event);
        }
        assert_eq!(numbers(&unflushed.take(&ended(2, 2, true))), [(2, 0b10)]);
        assert_eq!(numbers(&unflushed.take(&DiskEvent::Flushed { covers: 2 })), [(1, 0b01)]);
    }

    #[test]
    fn of_two_that_end_the_other_way_round_the_later_stays() {
        let mut unflushed = Unflushed::default();
        let events = [write(1, 1, 0b11), write(2, 1, 0b10), ended(2, 1, false), ended(1, 2, false)];
        events.iter().for_each(|event| drop(unflushed.take(event)));
        let flushed = unflushed.take(&DiskEvent::Flushed { covers: 2 });
        assert_eq!(numbers(&flushed), [(2, 0b10), (1, 0b01)]);
    }

    #[test]
    fn a_flush_of_a_write_covers_those_before_it_and_not_the_write_itself() {
        let data = [7; 2 * SECTOR];
        let entries = [
            WriteLogEntry::write(8, 0, &data[..SECTOR]),
            WriteLogEntry::write(32, FLUSH, &data),
            WriteLogEntry::write(64, FLUSH | FUA, &data[..SECTOR]),
            WriteLogEntry::write(80, 0, &data),
            WriteLogEntry::mark("commit"),
            WriteLogEntry::write(0, FLUSH, &[]),
            WriteLogEntry { sector: 80, sectors: 2, flags: FLUSH | DISCARD, data: Vec::new() },
        ];
        let recording = Recording::from_log(Image::default(), &entries);
        let is_begin = |event: &&DiskEvent| matches!(event, DiskEvent::Begun(_));
        let (begun, others): (Vec<&DiskEvent>, Vec<&DiskEvent>) =
            recording.events().iter().partition(is_begin);
        let flushed = |covers| DiskEvent::Flushed { covers };
        let expected = [
            ended(1, 1, false),
            flushed(1),
            ended(2, 2, false),
            flushed(2),
            ended(3, 3, true),
            ended(4, 4, false),
            DiskEvent::Mark("commit".to_owned()),
            flushed(4),
            flushed(4),
            ended(5, 5, false),
        ];
        assert_eq!(others, expected.iter().collect::<Vec<&DiskEvent>>());
        assert_eq!(begun.len(), 5);
        let mut unflushed = Unflushed::default();
        let durable = recording.events().iter().flat_map(|event| unflushed.take(event));
        let durable: Vec<u64> = durable.map(|write| write.number).collect();
        assert_eq!(durable, [1, 2, 3, 4]);
        assert_eq!(unflushed.writes().map(Write::number).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn a_discard_in_a_log_takes_its_sectors_of_pages_that_hold_something() {
        let mut base = Image::default();
        base.store(24, &[1; SECTOR]);
        let discard = |sector, sectors| {
            let entry = WriteLogEntry { sector, sectors, flags: DISCARD, data: Vec::new() };
            let written = WriteLogEntry::write(8, 0, &[2; SECTOR]);
            let recording = Recording::from_log(base.clone(), &[written, entry]);
            let Some(DiskEvent::Begun(write)) = recording.events().get(2) else {
                panic!("{:?}", recording.events());
            };
            assert!(write.parts.iter().all(|part| part.data.is_none()));
            write.parts.iter().map(|part| (part.page, part.mask)).collect::<Vec<_>>()
        };
        assert_eq!(discard(10, 17), [(1, 0b1111_1100), (3, 0b0000_0111)]);
        assert_eq!(discard(12, 2), [(1, 0b0011_0000)]);
        assert!(discard(16, 8).is_empty());
        // A disk of any size at once.
        assert_eq!(discard(0, 1 << 50), [(1, 0b1111_1111), (3, 0b1111_1111)]);
    }
}
