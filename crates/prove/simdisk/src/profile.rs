//! What a disk is: its cache, its pace, its lies. The named ones are in `zoo.rs`.

use durio_base::Nanos;

use crate::Lie;

/// What becomes of a write that was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// It is durable.
    WriteThrough,
    /// It waits in a volatile cache.
    WriteBack,
    /// It waits in a cache that outlives a cut: power-loss protection.
    Protected,
}

/// Which of the writes that wait in the cache a cut leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survivors {
    None,
    /// The first so and so many.
    Prefix,
    /// Any.
    Writes,
    /// Any sectors of any.
    Sectors,
    /// Those in any lines of 64 KiB.
    Lines,
    All,
    /// By one of these rules, another at each cut.
    Mixed,
}

/// How long operations take; each takes up to half as long again, by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    pub read: Nanos,
    /// A write into the cache.
    pub write: Nanos,
    /// A flush, or a write with FUA.
    pub durable: Nanos,
}

/// A disk as it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Bytes, a multiple of 4096.
    pub size: u64,
    /// What becomes of completed writes.
    pub cache: CacheKind,
    /// The oldest writes are stored when the cache holds more bytes than this.
    pub cache_bytes: u64,
    /// Writes are stored when they are this old, whether somebody asks for it or not.
    pub write_back_after: Option<Nanos>,
    /// What a cut leaves of the cache.
    pub survivors: Survivors,
    /// How long operations take.
    pub pace: Pace,
    pub lies: Vec<Lie>,
}

impl Profile {
    /// An honest disk: a volatile cache of 16 MiB that keeps its word, with the pace of a drive for
    /// desktops (20 us into the cache, 400 us for a flush).
    #[must_use]
    pub fn honest(size: u64) -> Self {
        let pace = Pace {
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
