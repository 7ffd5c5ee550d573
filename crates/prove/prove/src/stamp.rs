//! The stamp in every sector that the prover writes. A sector alone shows which write it belongs
//! to, where it belongs, and whether it is whole.
//!
//! This file has only the format, which docs/formats/stamp.md describes: offsets, the fill, the
//! checksum. The writer and the checker of stamps share this file and no other code.

use durio_simdisk::SECTOR;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// The first bytes of a stamp.
pub const MAGIC: [u8; 8] = *b"durioSTP";
pub const VERSION: u16 = 1;

/// The number of the write that is the label: the first cell of every target of the prover.
pub const LABEL_SEQ: u64 = u64::MAX;

/// The places of the fields; numbers are little-endian.
pub mod place {
    use std::ops::Range;

    pub const MAGIC: Range<usize> = 0..8;
    pub const VERSION: Range<usize> = 8..10;
    /// Bytes of a sector, 2 bytes: 512.
    pub const SECTOR_BYTES: Range<usize> = 10..12;
    /// The index of this sector in its write, 2 bytes, from 0.
    pub const INDEX: Range<usize> = 12..14;
    /// Sectors of the write, 2 bytes.
    pub const COUNT: Range<usize> = 14..16;
    pub const RUN: Range<usize> = 16..32;
    /// The target within the campaign, 8 bytes.
    pub const TARGET: Range<usize> = 32..40;
    /// This sector's place on the target, 8 bytes: a number of sectors.
    pub const SECTOR: Range<usize> = 40..48;
    /// The write's number, 8 bytes; 0 is the contents before the first write.
    pub const SEQ: Range<usize> = 48..56;
    /// Bytes derived from the fields before them.
    pub const FILL: Range<usize> = 56..504;
    /// XXH3 (64 bits) of everything before it, 8 bytes.
    pub const CHECKSUM: Range<usize> = 504..512;
}

/// Which campaign and target a stamp is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampOwner {
    /// The campaign: random bytes, or those of its seed.
    pub run: [u8; 16],
    /// The target within it.
    pub target: u64,
}

/// The fields of a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub owner: StampOwner,
    /// This sector's place on the target.
    pub sector: u64,
    pub seq: u64,
    /// Which sector of its write this is.
    pub index: u16,
    /// Sectors of the write.
    pub count: u16,
}

/// The words of the fill in their order. Word i is the output function of
/// SplitMix64 (Steele, Lea and Flood, 2014) of the sector's state, advanced i + 1 times.
pub fn fill_words(stamp: &Stamp) -> impl Iterator<Item = [u8; 8]> {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let run = u64::from_le_bytes(std::array::from_fn(|at| stamp.owner.run[at]));
    let key = run ^ stamp.seq.wrapping_mul(0xd134_2543_de82_ef95) ^ stamp.sector.rotate_left(32);
    let words = (place::FILL.end - place::FILL.start).div_ceil(8) as u64;
    (0..words).map(move |place| {
        let mut bits = key.wrapping_add((place + 1).wrapping_mul(STEP));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)).to_le_bytes()
    })
}

/// The checksum of a sector.
#[must_use]
pub fn checksum(sector: &[u8; SECTOR]) -> u64 {
    XxHash3_64::oneshot(&sector[..place::CHECKSUM.start])
}
