//! The disk between two cuts: requests begin and end, the cache fills and empties.
//!
//! Takes requests with their arrival times and returns answers. `cut.rs` decides what a cut leaves.
//!
//! A request has two moments. At its beginning a write enters the cache, where reads see it; at its
//! end it is acknowledged, and a flush or a write with FUA is durable before that. A cut between
//! the two finds an unacknowledged write, which may survive, or not, or in part. A flush covers
//! what had *ended* when it began, as NVMe, SCSI and NBD have it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use durio_base::Nanos;

use crate::cut::{LieTold, Power, Truth};
use crate::image::{Cache, CachedPart, Image, ImagePage, PAGE, PagePiece, SECTOR, pieces};
use crate::profile::{CacheKind, Profile};
use crate::recording::{DiskEvent, Recorder, Recording};
use crate::{Chance, DiskError, DiskRequest, Leg, Lie, Stats};

/// A request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

#[derive(Debug, Clone, Copy)]
enum InFlightKind {
    Read { sector: u64 },
    Write { fua: bool },
    Flush { began: u64 },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightOperation {
    ticket: Ticket,
    connection: u32,
    kind: InFlightKind,
    /// Operations in flight when it started, including itself.
    depth: usize,
}

/// A disk. A clone is a fork: both continue from the same state, and share memory until they write.
#[derive(Debug, Clone)]
pub struct Disk {
    pub(crate) profile: Profile,
    pub(crate) size: u64,
    pub(crate) durable: Image,
    /// The contents that reads return.
    pub(crate) visible: Image,
    /// The contents of a mirror's second leg, while it lags.
    pub(crate) second_leg: Option<Image>,
    /// Contents of pages before they were last stored, the latest last; as many as a lagging leg
    /// lacks.
    pub(crate) undone: VecDeque<(u64, Option<Arc<ImagePage>>)>,
    /// Contents of pages before their last write, for stale reads.
    pub(crate) previous: HashMap<u64, Option<Arc<ImagePage>>>,
    pub(crate) unreadable: BTreeSet<u64>,
    pub(crate) cache: Cache,
    pub(crate) in_flight: Vec<InFlightOperation>,
    next_ticket: u64,
    /// Counts the ends of requests, so that a flush knows what had ended when it began.
    ended: u64,
    pub(crate) power: Power,
    pub(crate) chance: Chance,
    pub(crate) seed: u64,
    pub(crate) stats: Stats,
    pub(crate) truth: Truth,
    pub(crate) recorder: Recorder,
}

impl Disk {
    /// A disk of zeros, with the power on. The same profile, seed and requests give the same disk.
    ///
    /// # Panics
    /// If its size is not a multiple of 4096.
    #[must_use]
    pub fn new(profile: Profile, seed: u64) -> Self {
        assert!(
            profile.size.is_multiple_of(PAGE as u64),
            "{} bytes are not whole pages",
            profile.size
        );
        Self {
            size: profile.size,
            profile,
            durable: Image::default(),
            visible: Image::default(),
            second_leg: None,
            undone: VecDeque::new(),
            previous: HashMap::new(),
            unreadable: BTreeSet::new(),
            cache: Cache::default(),
            in_flight: Vec::new(),
            next_ticket: 0,
            ended: 0,
            power: Power::On,
            chance: Chance::new(seed),
            seed,
            stats: Stats::default(),
            truth: Truth::default(),
            recorder: Recorder::default(),
        }
    }

    /// The same contents in a disk with this many earlier cuts.
    #[must_use]
    pub fn after_cuts(&self, cuts: u64) -> Self {
        let mut disk = self.clone();
        disk.stats.cuts = cuts;
        // As after a cut: later choices follow from its number.
        disk.chance = Chance::new(self.seed.wrapping_add(cuts));
        disk
    }

    /// The profile it was made with.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Bytes that it has now.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Upper bound of the memory for its contents: images share equal pages.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        (self.visible.count() + self.durable.count()) * PAGE as u64 + self.cache.bytes()
    }

    /// The contents of the medium, without the cache.
    #[must_use]
    pub fn durable(&self) -> &Image {
        &self.durable
    }

    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { volatile_bytes: self.cache.bytes(), ..self.stats }
    }

    /// What really happened, which the disk's answers do not show.
    #[must_use]
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// Starts recording requests. The present contents count as durable; a fork is not recorded.
    pub fn record(&mut self) {
        self.recorder = Recorder(Some(Box::new(Recording::new(self.visible.clone()))));
    }

    /// Marks this moment in the recording, if there is one.
    pub fn mark(&mut self, name: &str) {
        self.recorder.push(|| DiskEvent::Mark(name.to_owned()));
    }

    /// The recording, which ends.
    pub fn take_recording(&mut self) -> Option<Recording> {
        self.recorder.0.take().map(|recorder| *recorder)
    }

    /// The events recorded since the last call; recording continues.
    pub fn take_events(&mut self) -> Vec<DiskEvent> {
        self.recorder.take_events()
    }

    /// Replaces the medium by `image`, with an empty cache. Fails without effect while requests are
    /// in flight.
    pub fn replace_medium(&mut self, image: Image) -> bool {
        if !self.in_flight.is_empty() {
            return false;
        }
        self.cache = Cache::default();
        self.undone.clear();
        self.previous.clear();
        self.unreadable.clear();
        self.second_leg = None;
        self.durable = image.clone();
        self.visible = image;
        true
    }

    /// Adds a lie from now on.
    pub fn add_lie(&mut self, lie: Lie) {
        self.profile.lies.push(lie);
    }

    /// Begins a request of a connection.
    ///
    /// # Errors
    /// [`DiskError::Gone`] without power, [`DiskError::BeyondEnd`]. Then nothing has happened.
    ///
    /// # Panics
    /// If `data` is not a multiple of a sector.
    pub fn begin(
        &mut self,
        connection: u32,
        now: Nanos,
        request: DiskRequest<'_>,
    ) -> Result<Ticket, DiskError> {
        self.settle(now)?;
        let ticket = Ticket(self.next_ticket);
        let kind = match request {
            DiskRequest::Read { sector } => {
                self.check(sector, 0)?;
                self.stats.reads += 1;
                InFlightKind::Read { sector }
            }
            DiskRequest::Write { sector, data, fua } => {
                self.check(sector, (data.len() / SECTOR) as u64)?;
                self.enter_data((ticket, connection, now), sector, data);
                self.count_write(fua)
            }
            DiskRequest::Zero { sector, sectors, fua } => {
                self.check(sector, sectors)?;
                self.enter_zeros((ticket, connection, now), sector, sectors);
                self.count_write(fua)
            }
            DiskRequest::Flush => {
                self.stats.flushes += 1;
                InFlightKind::Flush { began: self.ended }
            }
        };
        self.next_ticket += 1;
        let depth = self.in_flight.len() + 1;
        self.in_flight.push(InFlightOperation { ticket, connection, kind, depth });
        Ok(ticket)
    }

    /// Ends a request; a read fills `into`.
    ///
    /// # Errors
    /// [`DiskError::Gone`] if the power was cut since it began, [`DiskError::Medium`],
    /// [`DiskError::BeyondEnd`] of a read.
    ///
    /// # Panics
    /// If the request is unknown, or `into` is not a multiple of a sector.
    pub fn end(&mut self, ticket: Ticket, now: Nanos, into: &mut [u8]) -> Result<(), DiskError> {
        self.settle(now)?;
        let index = self.in_flight.iter().position(|pending| pending.ticket == ticket);
        let Some(index) = index else {
            // A cut has ended all earlier requests.
            assert!(self.stats.cuts > 0, "request {ticket:?} has not started");
            return Err(DiskError::Gone);
        };
        let request = self.in_flight.swap_remove(index);
        self.ended += 1;
        match request.kind {
            InFlightKind::Read { sector } => return self.read(sector, into, Leg::Any),
            InFlightKind::Write { fua } => self.end_write(&request, fua),
            InFlightKind::Flush { began } => self.end_flush(&request, began, now),
        }
        self.evict();
        Ok(())
    }

    /// A request from its beginning to its end.
    ///
    /// # Errors
    /// As [`Disk::begin`] and [`Disk::end`].
    ///
    /// # Panics
    /// As they do.
    pub fn carry_out(
        &mut self,
        connection: u32,
        now: Nanos,
        request: DiskRequest<'_>,
        into: &mut [u8],
    ) -> Result<(), DiskError> {
        let ticket = self.begin(connection, now, request)?;
        self.end(ticket, now, into)
    }

    /// Reads one leg, or the mirror's choice.
    ///
    /// # Errors
    /// [`DiskError::Gone`], [`DiskError::BeyondEnd`], [`DiskError::Medium`].
    pub fn read(&mut self, sector: u64, into: &mut [u8], leg: Leg) -> Result<(), DiskError> {
        let sectors = (into.len() / SECTOR) as u64;
        self.check(sector, sectors)?;
        if self.unreadable.range(sector..sector + sectors).next().is_some() {
            return Err(DiskError::Medium);
        }
        if self.second_leg.is_none() && self.previous.is_empty() {
            self.visible.read(sector, into);
            return Ok(());
        }
        for piece in pieces(sector, into.len()) {
            self.read_piece(piece, &mut into[piece.at..piece.at + piece.length()], leg);
        }
        Ok(())
    }

    fn read_piece(&mut self, piece: PagePiece, into: &mut [u8], leg: Leg) {
        let draw = self.chance.bits();
        let is_stale = self.lies().any(
            |lie| matches!(lie, Lie::StaleReadsPerMille(share) if draw % 1000 < u64::from(share)),
        );
        let second = leg == Leg::Second || (leg == Leg::Any && draw >> 63 == 1);
        let image = match &self.second_leg {
            Some(image) if second => image,
            _ => &self.visible,
        };
        let current = image.page(piece.page);
        let old = self.previous.get(&piece.page).filter(|_| is_stale);
        match old.map_or(current, Option::as_ref) {
            Some(page) => into.copy_from_slice(&page[piece.within()]),
            None => into.fill(0),
        }
    }

    pub(crate) fn lies(&self) -> impl Iterator<Item = Lie> + use<'_> {
        self.profile.lies.iter().copied()
    }

    fn count_write(&mut self, fua: bool) -> InFlightKind {
        self.stats.writes += 1;
        self.stats.fua_writes += u64::from(fua);
        InFlightKind::Write { fua }
    }

    fn check(&self, sector: u64, sectors: u64) -> Result<(), DiskError> {
        if self.power != Power::On {
            return Err(DiskError::Gone);
        }
        let end = sector.checked_add(sectors).ok_or(DiskError::BeyondEnd)?;
        if end > self.size / SECTOR as u64 { Err(DiskError::BeyondEnd) } else { Ok(()) }
    }

    fn enter_data(&mut self, from: (Ticket, u32, Nanos), sector: u64, data: &[u8]) {
        for piece in pieces(sector, data.len()) {
            let bytes = &data[piece.at..piece.at + piece.length()];
            let page = match <&ImagePage>::try_from(bytes) {
                Ok(whole) => Arc::new(*whole),
                Err(_) => {
                    let mut page = self.visible.page(piece.page).cloned().unwrap_or_else(zeros);
                    Arc::make_mut(&mut page)[piece.within()].copy_from_slice(bytes);
                    page
                }
            };
            self.enter(from, piece, Some(page));
        }
    }

    fn enter_zeros(&mut self, from: (Ticket, u32, Nanos), sector: u64, sectors: u64) {
        let mut at = sector;
        while at < sector + sectors {
            let left =
                usize::try_from(sector + sectors - at).unwrap_or(usize::MAX).min(PAGE / SECTOR);
            let Some(piece) = pieces(at, left * SECTOR).next() else { return };
            at += (piece.end - piece.first) as u64;
            self.enter(from, piece, None);
        }
    }

    fn enter(
        &mut self,
        (ticket, connection, now): (Ticket, u32, Nanos),
        piece: PagePiece,
        data: Option<Arc<ImagePage>>,
    ) {
        let mut entry = CachedPart {
            write: ticket.0,
            connection,
            entered: now,
            page: piece.page,
            home: piece.page,
            mask: piece.mask(),
            data,
            ended: None,
            promised: false,
            due: None,
            dropped: false,
        };
        self.recorder.begin(ticket.0, piece, entry.data.as_ref());
        if !self.profile.lies.is_empty() {
            self.lie_about_write(&mut entry);
        }
        if !self.unreadable.is_empty() {
            let first = piece.page * (PAGE / SECTOR) as u64;
            for sector in piece.first..piece.end {
                self.unreadable.remove(&(first + sector as u64));
            }
        }
        self.visible.put(piece.page, entry.data.as_ref(), entry.mask);
        if let Some(second) = &mut self.second_leg {
            second.put(piece.page, entry.data.as_ref(), entry.mask);
        }
        self.cache.entries.push(entry);
    }

    fn lie_about_write(&mut self, entry: &mut CachedPart) {
        for at in 0..self.profile.lies.len() {
            match self.profile.lies[at] {
                Lie::DropsPerMille(share) => entry.dropped |= self.chance.per_mille(share),
                Lie::Misdirects { per_mille, pages } if self.chance.per_mille(per_mille) => {
                    let all = self.size / PAGE as u64;
                    entry.page = (entry.page + all - pages % all) % all;
                }
                Lie::StaleReadsPerMille(_) => {
                    let old = self.visible.page(entry.page).cloned();
                    self.previous.insert(entry.page, old);
                }
                _ => {}
            }
        }
    }

    fn end_write(&mut self, request: &InFlightOperation, fua: bool) {
        let ended = self.ended;
        // Without a declared cache the end of a write is the promise: no flush follows.
        let promised = fua || !self.profile.declares_cache();
        let write = request.ticket.0;
        self.recorder.push(|| DiskEvent::Ended { write, order: ended, durable: promised });
        self.cache.of_write(request.ticket.0).for_each(|entry| {
            entry.ended = Some(ended);
            entry.promised |= promised;
        });
        let obeyed = match self.profile.cache {
            CacheKind::WriteThrough => true,
            CacheKind::Protected => false,
            CacheKind::WriteBack => fua && !self.ignores_fua(request.depth),
        };
        if obeyed {
            self.store_where(|entry| entry.write == request.ticket.0);
        }
    }

    fn ignores_fua(&self, depth: usize) -> bool {
        self.lies().any(|lie| match lie {
            Lie::FuaIgnored => true,
            Lie::IgnoredAtDepth(limit) => depth >= limit,
            _ => false,
        })
    }

    fn end_flush(&mut self, request: &InFlightOperation, began: u64, now: Nanos) {
        self.recorder.push(|| DiskEvent::Flushed { covers: began });
        let covers = |entry: &CachedPart| entry.ended.is_some_and(|ended| ended <= began);
        let entries = self.cache.entries.iter_mut();
        entries.filter(|entry| covers(entry)).for_each(|entry| entry.promised = true);
        if self.profile.cache == CacheKind::Protected || self.ignores_flush(request.depth) {
            return;
        }
        if self.profile.lies.is_empty() {
            return self.store_where(covers);
        }
        let covered = self.cache.entries.iter().filter(|entry| covers(entry));
        let covered: BTreeSet<u64> = covered.map(|entry| entry.write).collect();
        let obeys = |write: &u64| self.obeys_flush_for(*write, request.connection, now);
        let obeyed: BTreeSet<u64> = covered.into_iter().filter(obeys).collect();
        self.store_where(|entry| covers(entry) && obeyed.contains(&entry.write));
    }

    fn ignores_flush(&self, depth: usize) -> bool {
        self.lies().any(|lie| match lie {
            Lie::FlushIgnored => true,
            Lie::FlushEvery(n) => !self.stats.flushes.is_multiple_of(n),
            Lie::IgnoredAtDepth(limit) => depth >= limit,
            Lie::IgnoredAbove(bytes) => self.cache.bytes() > bytes,
            _ => false,
        })
    }

    /// Whether a working flush makes this write durable now.
    fn obeys_flush_for(&mut self, write: u64, connection: u32, now: Nanos) -> bool {
        let mut obeys = true;
        for at in 0..self.profile.lies.len() {
            let lie = self.profile.lies[at];
            obeys &= match lie {
                Lie::ReordersPerMille(share) => !self.chance.per_mille(share),
                Lie::FlushOneConnection => {
                    self.cache.all_of(write, |entry| entry.connection == connection)
                }
                Lie::FlushSkipsYoung(age) => {
                    self.cache.all_of(write, |entry| now.get() >= entry.entered.get() + age.get())
                }
                Lie::FlushEarly(delay) => {
                    let due = Nanos::new(now.get() + delay.get());
                    let entries = self.cache.of_write(write);
                    entries.for_each(|entry| entry.due = Some(entry.due.unwrap_or(due).min(due)));
                    false
                }
                _ => true,
            };
        }
        obeys
    }

    /// Advances time to `now`: stores everything that is due.
    fn settle(&mut self, now: Nanos) -> Result<(), DiskError> {
        if self.power != Power::On {
            return Err(DiskError::Gone);
        }
        if self.lies().any(|lie| matches!(lie, Lie::FlushEarly(_))) {
            self.store_where(|entry| entry.due.is_some_and(|due| due <= now));
        }
        if let Some(age) = self.profile.write_back_after {
            let is_old =
                |entry: &CachedPart| entry.entered.get().saturating_add(age.get()) <= now.get();
            if self.cache.entries.first().is_some_and(is_old) {
                self.store_where(|entry| entry.ended.is_some() && is_old(entry));
            }
        }
        Ok(())
    }

    /// Stores the oldest writes until the cache is within its capacity.
    fn evict(&mut self) {
        let excess = self.cache.bytes().saturating_sub(self.profile.cache_bytes);
        if excess == 0 || self.profile.cache == CacheKind::WriteThrough {
            return;
        }
        let mut left = excess.div_ceil(PAGE as u64);
        self.store_where(|entry| {
            let takes = left > 0 && entry.ended.is_some();
            left -= u64::from(takes);
            takes
        });
    }

    /// Moves entries of the cache to the medium.
    fn store_where(&mut self, takes: impl FnMut(&CachedPart) -> bool) {
        let mut taken = self.cache.take(takes);
        for entry in &mut taken {
            self.tear(entry);
            self.store(entry);
        }
        self.cache.give_back(taken);
    }

    fn tear(&mut self, entry: &mut CachedPart) {
        for at in 0..self.profile.lies.len() {
            let Lie::TearsPerMille(share) = self.profile.lies[at] else { continue };
            if entry.mask.count_ones() > 1 && self.chance.per_mille(share) {
                let kept = 1 + self.chance.below(7);
                self.truth.tell(LieTold::of(entry, Lie::TearsPerMille(share)));
                entry.mask &= u8::try_from((1_u16 << kept) - 1).unwrap_or(u8::MAX);
            }
        }
    }

    pub(crate) fn store(&mut self, entry: &CachedPart) {
        if entry.dropped || entry.page != entry.home {
            self.truth.tell_of_store(entry, self.profile.lies.as_slice());
        }
        if entry.dropped {
            return;
        }
        let lag = self.lies().find_map(|lie| match lie {
            Lie::MirrorLags(writes) => Some(writes),
            _ => None,
        });
        if let Some(lag) = lag {
            self.undone.push_back((entry.page, self.durable.page(entry.page).cloned()));
            self.undone.drain(..self.undone.len().saturating_sub(lag));
        }
        self.durable.put(entry.page, entry.data.as_ref(), entry.mask);
    }
}

fn zeros() -> Arc<ImagePage> {
    Arc::new([0; PAGE])
}
