//! The properties of a disk: its cache, its pace, the ways in which it lies; and the named disks,
//! honest ones and liars, each with the expected finding.
//!
//! `disk.rs` and `cut.rs` implement each lie next to the honest rule.

use durio_base::Nanos;

/// The fate of completed writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// A write is durable when it ends.
    WriteThrough,
    /// It waits in a volatile cache.
    WriteBack,
    /// It waits in a cache that survives a cut: power-loss protection.
    Protected,
}

/// Which cached writes survive a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survivors {
    None,
    /// A prefix of the writes.
    Prefix,
    /// Any of the writes, each whole.
    Writes,
    /// Any sectors of any.
    Sectors,
    /// Those in any lines of 64 KiB.
    Lines,
    All,
    /// By one of these rules, drawn at each cut.
    Mixed,
}

/// How long operations take; each takes up to half as long again, by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskPace {
    pub read: Nanos,
    /// A write into the cache.
    pub write: Nanos,
    /// A flush, or a write with FUA.
    pub durable: Nanos,
}

/// The properties of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Bytes, a multiple of 4096.
    pub size: u64,
    /// The fate of completed writes.
    pub cache: CacheKind,
    /// The oldest writes are stored when the cache holds more bytes than this.
    pub cache_bytes: u64,
    /// Writes are stored at this age, even without a flush.
    pub write_back_after: Option<Nanos>,
    /// The survivor rule of the cache at a cut.
    pub survivors: Survivors,
    /// How long operations take.
    pub pace: DiskPace,
    pub lies: Vec<Lie>,
}

impl Profile {
    /// An honest disk: a volatile cache of 16 MiB, with the pace of a desktop drive (20 us into the
    /// cache, 400 us for a flush).
    #[must_use]
    pub fn honest(size: u64) -> Self {
        let pace = DiskPace {
            read: Nanos::new(80_000),
            write: Nanos::new(20_000),
            durable: Nanos::new(400_000),
        };
        Self {
            size,
            cache: CacheKind::WriteBack,
            cache_bytes: 16 << 20,
            write_back_after: None,
            survivors: Survivors::Mixed,
            pace,
            lies: Vec::new(),
        }
    }

    /// The same, with a lie.
    #[must_use]
    pub fn telling(mut self, lie: Lie) -> Self {
        self.lies.push(lie);
        self
    }

    /// True if the disk declares a volatile cache, so that a kernel flushes it.
    #[must_use]
    pub fn declares_cache(&self) -> bool {
        self.cache != CacheKind::WriteThrough && !self.lies.contains(&Lie::ClaimsWriteThrough)
    }
}

/// One way in which a disk breaks its promise; a disk may combine several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// A flush is acknowledged, and nothing is made durable.
    FlushIgnored,
    /// A write with FUA is acknowledged as a plain write.
    FuaIgnored,
    /// Only every n-th flush works.
    FlushEvery(u64),
    /// A flush is acknowledged this long before its data is durable.
    FlushEarly(Nanos),
    /// A flush skips writes younger than this.
    FlushSkipsYoung(Nanos),
    /// Flush and FUA are ignored while at least this many operations are in flight.
    IgnoredAtDepth(usize),
    /// A flush covers the connection that asks for it alone.
    FlushOneConnection,
    /// Flushes are ignored while more than this many bytes are in the cache.
    IgnoredAbove(u64),
    /// A flush leaves each write that it covers in the cache with this chance per mille, though later
    /// ones become durable.
    ReordersPerMille(u16),
    /// This many writes in 1000 are acknowledged and never stored.
    DropsPerMille(u16),
    /// This many pages in 1000 that a flush or FUA covers become durable in some of their sectors
    /// only.
    TearsPerMille(u16),
    /// This many pages in 1000 are stored this many pages before their place, wrapping around at
    /// the start.
    Misdirects {
        per_mille: u16,
        /// How many pages before its place.
        pages: u64,
    },
    /// This many page reads in 1000 return the contents before the last write.
    StaleReadsPerMille(u16),
    /// This many bits of written data flip at each cut.
    BitRot(u32),
    /// This many written sectors become unreadable at each cut.
    LatentErrors(u32),
    /// Declares no volatile cache, so that hosts send no flush.
    ClaimsWriteThrough,
    /// A protected cache whose capacitor lasts for this many cuts.
    CapacitorDies(u64),
    /// A mirror whose second leg lacks this many of the last writes after a cut; either leg
    /// answers.
    MirrorLags(usize),
    /// Does not come back from this cut.
    Dies(u64),
    /// Comes back from this cut with half of its capacity.
    Shrinks(u64),
}

impl Lie {
    /// How it shows in a verification.
    #[must_use]
    pub fn shows_as(self) -> Symptom {
        match self {
            Self::FlushIgnored
            | Self::FuaIgnored
            | Self::FlushEvery(_)
            | Self::FlushEarly(_)
            | Self::FlushSkipsYoung(_)
            | Self::IgnoredAtDepth(_)
            | Self::FlushOneConnection
            | Self::IgnoredAbove(_)
            | Self::ReordersPerMille(_)
            | Self::DropsPerMille(_)
            | Self::ClaimsWriteThrough
            | Self::CapacitorDies(_) => Symptom::Lost,
            Self::TearsPerMille(_) => Symptom::Torn,
            Self::Misdirects { .. } => Symptom::Misdirected,
            Self::StaleReadsPerMille(_) | Self::MirrorLags(_) => Symptom::Unstable,
            Self::BitRot(_) => Symptom::Corrupt,
            Self::LatentErrors(_) => Symptom::Unreadable,
            Self::Dies(_) | Self::Shrinks(_) => Symptom::Gone,
        }
    }
}

/// How a lie shows to a reader of the disk after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Symptom {
    /// An older state, where an acknowledged write should be.
    Lost,
    /// Some sectors of an acknowledged write.
    Torn,
    /// A write in the place of another.
    Misdirected,
    /// Reads that contradict each other.
    Unstable,
    /// Data that no write contained.
    Corrupt,
    Unreadable,
    /// No disk, or a smaller one.
    Gone,
}

/// A disk with a name.
#[derive(Debug, Clone, Copy)]
pub struct NamedProfile {
    pub name: &'static str,
    /// Its behaviour, in a line.
    pub about: &'static str,
    /// The fate of completed writes.
    pub cache: CacheKind,
    /// Its lie; `None` if it is honest.
    pub lie: Option<Lie>,
    /// Whether the lie shows if writes are made durable by a flush.
    pub on_flush: bool,
    /// Whether it shows if they are made durable one by one (FUA).
    pub on_fua: bool,
    /// Operations in flight that it takes.
    pub depth: u32,
    /// Cuts after which 99 campaigns of 100 have found it, measured by `cargo xtask prove zoo`.
    pub cuts: u32,
}

impl NamedProfile {
    /// The disk, with this size.
    #[must_use]
    pub fn profile(&self, size: u64) -> Profile {
        let honest = Profile { cache: self.cache, ..Profile::honest(size) };
        match self.lie {
            Some(lie) => honest.telling(lie),
            None => honest,
        }
    }

    /// How its lie shows; `None` if it is honest.
    #[must_use]
    pub fn symptom(&self) -> Option<Symptom> {
        self.lie.map(Lie::shows_as)
    }
}

const fn honest(name: &'static str, cache: CacheKind, about: &'static str) -> NamedProfile {
    NamedProfile {
        name,
        about,
        cache,
        lie: None,
        on_flush: false,
        on_fua: false,
        depth: 1,
        cuts: 0,
    }
}

/// A liar with a volatile cache; its lie shows on any path.
const fn liar(name: &'static str, lie: Lie, cuts: u32, about: &'static str) -> NamedProfile {
    let (cache, lie) = (CacheKind::WriteBack, Some(lie));
    NamedProfile { name, about, cache, lie, on_flush: true, on_fua: true, depth: 1, cuts }
}

const fn flush_liar(name: &'static str, lie: Lie, cuts: u32, about: &'static str) -> NamedProfile {
    NamedProfile { on_fua: false, ..liar(name, lie, cuts, about) }
}

/// All named disks, the honest first.
pub const ZOO: &[NamedProfile] = &[
    honest(
        "write-back",
        CacheKind::WriteBack,
        "honest: a volatile cache; flush and FUA are obeyed",
    ),
    honest("write-through", CacheKind::WriteThrough, "honest: no cache, every write is durable"),
    honest("protected", CacheKind::Protected, "honest: the cache survives a power cut"),
    flush_liar("flush-ignored", Lie::FlushIgnored, 2, "acknowledges flushes and does nothing"),
    NamedProfile {
        on_flush: false,
        ..liar("fua-ignored", Lie::FuaIgnored, 2, "ignores FUA on writes")
    },
    flush_liar("flush-every-third", Lie::FlushEvery(3), 9, "two flushes of three do nothing"),
    flush_liar(
        "flush-early",
        Lie::FlushEarly(Nanos::new(20_000_000)),
        2,
        "acknowledges a flush 20 ms before its data is durable",
    ),
    flush_liar(
        "flush-skips-young",
        Lie::FlushSkipsYoung(Nanos::new(5_000_000)),
        2,
        "a flush omits writes of the last 5 ms",
    ),
    NamedProfile {
        depth: 2,
        ..liar("ignored-at-depth", Lie::IgnoredAtDepth(2), 3, "obeys flush and FUA only at depth 1")
    },
    flush_liar(
        "flush-one-connection",
        Lie::FlushOneConnection,
        5,
        "a flush covers only the connection that sent it",
    ),
    flush_liar(
        "ignored-when-full",
        Lie::IgnoredAbove(64 << 10),
        2,
        "ignores flushes while more than 64 KiB wait",
    ),
    flush_liar(
        "reorders",
        Lie::ReordersPerMille(65),
        120,
        "a flush omits 6 writes of 100, and later writes overtake them",
    ),
    liar("drops", Lie::DropsPerMille(1), 80, "acknowledges 1 write of 1000 and never stores it"),
    liar("torn", Lie::TearsPerMille(2), 60, "stores only part of 2 acknowledged pages of 1000"),
    liar(
        "misdirected",
        Lie::Misdirects { per_mille: 20, pages: 100 },
        10,
        "stores 2 writes of 100 at 400 KiB before their offset",
    ),
    liar(
        "stale-reads",
        Lie::StaleReadsPerMille(20),
        5,
        "2 reads of 100 return the data from before the last write",
    ),
    liar("bit-rot", Lie::BitRot(1), 2, "one bit flips at each power cut"),
    liar("latent-errors", Lie::LatentErrors(1), 2, "one sector is unreadable after each cut"),
    liar(
        "claims-write-through",
        Lie::ClaimsWriteThrough,
        2,
        "claims to have no volatile cache, but has one",
    ),
    NamedProfile {
        cache: CacheKind::Protected,
        ..liar("capacitor-dies", Lie::CapacitorDies(5), 7, "its protection lasts for 5 cuts")
    },
    liar("mirror-lags", Lie::MirrorLags(8), 8, "a mirror whose second leg lacks the last 8 writes"),
    liar("dies", Lie::Dies(3), 3, "does not return from the third cut"),
    liar("shrinks", Lie::Shrinks(3), 3, "returns from the third cut with half its capacity"),
];

/// The disk of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static NamedProfile> {
    ZOO.iter().find(|profile| profile.name == name)
}
