//! The contents of a state as one number: the sum of a value for each sector.
//!
//! Computes by how much a set of writes over an image changes the sum. States with equal sums are
//! taken as equal; among a million states, two different ones have the same sum once in 10^7 runs.

use std::collections::HashMap;

use durio_simdisk::{Image, Write};
use twox_hash::XxHash3_64;

/// The value of a sector with these bytes; that of zeros is 0.
pub(super) fn value_of(sector: u64, bytes: Option<&[u8]>) -> u64 {
    match bytes {
        Some(bytes) if bytes.iter().any(|&byte| byte != 0) => {
            mixed(XxHash3_64::oneshot(bytes) ^ mixed(sector))
        }
        _ => 0,
    }
}

/// The output function of SplitMix64 (Steele, Lea and Flood, 2014).
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The sectors that some writes touch, each with a place here.
pub(super) struct SectorContents {
    /// The values without the writes.
    before: Vec<u64>,
    /// For each write, its sectors by their places, and the values that it gives them.
    writes: Vec<Vec<(usize, u64)>>,
    /// The round in which each sector was last counted.
    counted: Vec<u64>,
    round: u64,
}

impl SectorContents {
    pub(super) fn new(image: &Image, writes: &[Write]) -> Self {
        let mut places = HashMap::new();
        let mut before = Vec::new();
        let sectors_of = |write: &Write| {
            let place_of = |(sector, bytes)| {
                let place = *places.entry(sector).or_insert_with(|| {
                    before.push(value_of(sector, image.sector(sector)));
                    before.len() - 1
                });
                (place, value_of(sector, bytes))
            };
            write.sectors().map(place_of).collect()
        };
        let writes = writes.iter().map(sectors_of).collect();
        let counted = vec![0; before.len()];
        Self { before, writes, counted, round: 0 }
    }

    /// By how much these writes change the sum, each over those before it.
    pub(super) fn change(&mut self, kept: &[usize]) -> u64 {
        self.round += 1;
        let mut change = 0_u64;
        for &write in kept.iter().rev() {
            for &(place, value) in &self.writes[write] {
                if self.counted[place] != self.round {
                    self.counted[place] = self.round;
                    change = change.wrapping_add(value).wrapping_sub(self.before[place]);
                }
            }
        }
        change
    }
}
