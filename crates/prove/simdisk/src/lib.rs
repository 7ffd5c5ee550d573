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
mod random;
mod recording;
mod request;
pub mod trace;

pub use cut::{CutTruth, LieTold, Truth, WaitingPage};
pub use disk::{Disk, Ticket};
pub use engine::{SharedDisk, SimEngine};
pub use image::{Image, SECTOR};
pub use profile::{
    CacheKind, DiskPace, Lie, NamedProfile, Profile, Survivors, Symptom, ZOO, named,
};
pub use random::Chance;
pub use recording::{DiskEvent, Logger, Recording, Unflushed, Write};
pub use request::{DiskRequest, Leg, Stats};

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
