//! The properties of a disk: its cache, its pace, its lies. The named ones are in `zoo.rs`.

use durio_base::Nanos;

use crate::Lie;

/// The fate of completed writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// It is durable.
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
    /// Any.
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
