//! Random choices that can be made again: the seed is printed, and taken from `DURIO_TEST_SEED`.

use std::time::{SystemTime, UNIX_EPOCH};

/// splitmix64 (Steele, Lea, Flood 2014): enough for moments and positions.
pub(crate) struct Seeded(u64);

impl Seeded {
    /// Prints the seed first: the harness shows it when the test fails.
    pub(crate) fn new() -> Self {
        let given = std::env::var("DURIO_TEST_SEED").ok().map(|text| text.parse().unwrap());
        let seed = given.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            now.as_secs() ^ u64::from(now.subsec_nanos())
        });
        eprintln!("DURIO_TEST_SEED={seed}");
        Self(seed)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}
