//! The ways a disk may lie; a disk may combine several.
//!
//! `disk.rs` and `cut.rs` implement each lie next to the honest rule.

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
        /// Pages in 1000.
        per_mille: u16,
        /// How far off.
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
    /// An error.
    Unreadable,
    /// No disk, or a smaller one.
    Gone,
}
