//! A disk as a state machine: its durable data, its volatile cache, the survivors of a power cut,
//! and the lies about them.
//!
//! ```text
//!  begin ──► cache ──► end: acknowledged ──► flush, FUA, eviction ──► medium
//!              │                                                        │
//!              └────────── cut: survivors by a rule and a seed ─────────┘──► restore
//! ```
//!
//! Takes a [`Profile`], a seed, and requests with their times. Returns answers and, separately, the
//! [`Truth`]. The same profile, seed and requests give the same disk, to the bit. durio-prove
//! writes and verifies.
//!
//! Rules of an honest disk: a flush makes durable what had ended when it began; a write with FUA is
//! durable when it ends; of everything else a cut leaves anything, sector by sector.

mod cut;
mod disk;
mod engine;
mod image;
mod profile;
mod recording;
pub mod trace;

pub use cut::{CutTruth, LieTold, Truth, WaitingPage};
pub use disk::{Disk, Ticket};
pub use engine::{SharedDisk, SimEngine};
pub use image::{Image, SECTOR};
pub use profile::{
    CacheKind, DiskPace, Lie, NamedProfile, Profile, Survivors, Symptom, ZOO, named,
};
pub use recording::{DiskEvent, Logger, Recording, Unflushed, Write};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// A request. Places are sectors of 512 bytes, lengths are multiples of it.
#[derive(Debug, Clone, Copy)]
pub enum DiskRequest<'a> {
    /// Read as many bytes as the buffer at the end has.
    Read { sector: u64 },
    Write {
        sector: u64,
        data: &'a [u8],
        /// Durable before it ends.
        fua: bool,
    },
    /// Write zeros, or discard, after which the sectors read as zeros.
    Zero {
        sector: u64,
        sectors: u64,
        /// Durable before it ends.
        fua: bool,
    },
    /// Make completed writes durable.
    Flush,
}

/// Which leg of a mirror answers a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leg {
    /// Any, as the mirror likes.
    #[default]
    Any,
    First,
    Second,
}

/// Why a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// It has no power, or never will again.
    #[error("the disk has no power")]
    Gone,
    /// The request reaches beyond the end.
    #[error("beyond the end of the disk")]
    BeyondEnd,
    /// The medium cannot be read there.
    #[error("the medium cannot be read")]
    Medium,
}

/// Counters since the disk was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stats {
    pub reads: u64,
    /// All writes, including those with FUA and those of zeros.
    pub writes: u64,
    pub fua_writes: u64,
    pub flushes: u64,
    pub cuts: u64,
    /// Bytes in the volatile cache now.
    pub volatile_bytes: u64,
}

/// A seeded source of decisions.
#[derive(Debug, Clone)]
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// The same seed gives the same decisions.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in 0 to `bound` - 1; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The product's upper half (Lemire, 2019); its bias is below bound / 2^64.
        let product = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    pub(crate) fn per_mille(&mut self, share: u16) -> bool {
        self.below(1000) < u64::from(share)
    }
}
