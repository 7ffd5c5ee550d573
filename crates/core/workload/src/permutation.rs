//! Every block once, in random order, without a map of touched blocks.

use crate::block_filler::spread;

/// A keyed one-to-one map of `0..count` onto itself: a Feistel network over the next even power of
/// two, walked until it is below the count (cycle walking; Black and Rogaway, "Ciphers with
/// arbitrary finite domains", 2002). No cipher: the order has to look random, not to be secret.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// The map of `count` numbers (at least one) under `key`.
    pub(crate) fn new(count: u64, key: u64) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        let keys = [1, 2, 3, 4].map(|round| spread(key.wrapping_add(round)));
        Self { count, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// Where `index`, below the count, goes.
    #[inline]
    pub(crate) fn of(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            value = self.encrypt(value);
            // The domain is at most four times the count: few steps lead below it.
            if value < self.count {
                return value;
            }
        }
    }

    #[inline]
    fn encrypt(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (spread(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_for_every_count_and_key() {
        for count in [1, 2, 3, 5, 16, 17, 1000, 4096, 70_001] {
            for key in [0, 1, 99] {
                let permutation = Permutation::new(count, key);
                let mut seen = vec![false; usize::try_from(count).unwrap()];
                for index in 0..count {
                    let place = usize::try_from(permutation.of(index)).unwrap();
                    assert!(!std::mem::replace(&mut seen[place], true), "{count} {key} {index}");
                }
            }
        }
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let permutation = Permutation::new(100_000, 5);
        let near = (1..100_000)
            .filter(|&index| permutation.of(index).abs_diff(permutation.of(index - 1)) < 100)
            .count();
        // By chance 0.2 % of pairs are that near.
        assert!(near < 400, "{near}");
    }

    #[test]
    fn the_domain_is_the_next_power_of_four() {
        let bits = |count| Permutation::new(count, 0).half_bits;
        let counts = [0, 1, 2, 3, 4, 5, 16, 17, 1 << 40, (1 << 40) + 1];
        assert_eq!(counts.map(bits), [1, 1, 1, 1, 1, 2, 2, 3, 20, 21]);
    }
}
