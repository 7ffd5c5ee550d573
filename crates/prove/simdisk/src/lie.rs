//! How a disk may lie, each lie by itself; a disk may tell several.
//!
//! In: nothing. Out: data. What each does stands in `disk.rs` and `cut.rs`, where the honest disk has
//! its rule.

use durio_base::Nanos;

/// One way in which a disk breaks its word.
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
    /// A flush leaves out what was written within this time.
    FlushSkipsYoung(Nanos),
    /// Flush and FUA are ignored while at least so many operations are in flight.
    IgnoredAtDepth(usize),
    /// A flush covers the connection that asks for it alone.
    FlushOneConnection,
    /// Flushes are ignored while more than so many bytes are in the cache.
    IgnoredAbove(u64),
    /// A flush leaves each write that it covers in the cache with this chance per mille, though later
    /// ones become durable.
    ReordersPerMille(u16),
    /// So many writes in 1000 are acknowledged and never stored.
    DropsPerMille(u16),
    /// So many pages in 1000 that a flush or FUA covers become durable in a part of their sectors.
    TearsPerMille(u16),
    /// So many pages in 1000 are stored this many pages before their place, around at the begin.
    Misdirects {
        /// Pages in 1000.
        per_mille: u16,
        /// How far off.
        pages: u64,
    },
    /// So many reads of a page in 1000 answer what it held before its last write.
    StaleReadsPerMille(u16),
    /// So many bits turn at each cut, in data that was written.
    BitRot(u32),
    /// So many sectors that were written become unreadable at each cut.
    LatentErrors(u32),
    /// Declares that it has no volatile cache, so that nobody flushes it.
    ClaimsWriteThrough,
    /// A protected cache whose capacitor holds for so many cuts.
    CapacitorDies(u64),
    /// A mirror whose second leg lacks so many of the last writes after a cut; either leg answers.
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

/// What somebody who reads the disk after a cut finds of a lie.
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
    /// Data that nobody wrote.
    Corrupt,
    /// An error.
    Unreadable,
    /// No disk, or a smaller one.
    Gone,
}
