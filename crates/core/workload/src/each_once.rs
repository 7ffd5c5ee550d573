//! Blocks that come once each: every block in random order, without a map of touched ones; and a map
//! for accesses of several sizes or uneven places.

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

/// A bit for each unit.
#[derive(Debug)]
pub(crate) struct TouchedUnits {
    words: Box<[u64]>,
    units: u64,
    free: u64,
}

const BITS: u64 = 64;

impl TouchedUnits {
    /// None of `units` is touched.
    pub(crate) fn new(units: u64) -> Self {
        let words = usize::try_from(units.div_ceil(BITS)).unwrap_or(usize::MAX);
        Self { words: vec![0; words].into_boxed_slice(), units, free: units }
    }

    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
        self.free = self.units;
    }

    /// The first unit from `unit` on that is not touched, around at the end; none if all are.
    pub(crate) fn next_free(&self, unit: u64) -> Option<u64> {
        if self.free == 0 {
            return None;
        }
        self.free_in(unit, self.units).or_else(|| self.free_in(0, unit))
    }

    fn free_in(&self, begin: u64, end: u64) -> Option<u64> {
        let mut unit = begin;
        while unit < end {
            let free = !self.word(unit) >> (unit % BITS);
            if free != 0 {
                let found = unit + u64::from(free.trailing_zeros());
                return (found < end).then_some(found);
            }
            // A word at a time: nearly all of a region may be touched before its last units are
            // found.
            unit = (unit / BITS + 1) * BITS;
        }
        None
    }

    fn word(&self, unit: u64) -> u64 {
        let index = usize::try_from(unit / BITS).unwrap_or(usize::MAX);
        self.words.get(index).copied().unwrap_or(u64::MAX)
    }

    /// Touches up to `count` units from a free one on; how many there were before the next that is
    /// touched, or before the end.
    pub(crate) fn touch(&mut self, unit: u64, count: u64) -> u64 {
        let mut touched = 0;
        while touched < count && unit + touched < self.units {
            let at = unit + touched;
            let bit = 1 << (at % BITS);
            let index = usize::try_from(at / BITS).unwrap_or(usize::MAX);
            match self.words.get_mut(index) {
                Some(word) if *word & bit == 0 => *word |= bit,
                _ => break,
            }
            touched += 1;
        }
        self.free -= touched;
        touched
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

    #[test]
    fn every_unit_is_found_once_and_a_run_ends_at_what_is_touched() {
        let mut touched = TouchedUnits::new(130);
        assert_eq!(touched.touch(100, 4), 4);
        assert_eq!(touched.touch(98, 9), 2);
        assert_eq!(touched.next_free(98), Some(104));
        assert_eq!(touched.touch(128, 9), 2, "the region ends");
        assert_eq!(touched.next_free(128), Some(0));
        let mut found = 0;
        while let Some(unit) = touched.next_free(77) {
            found += touched.touch(unit, 3);
        }
        assert_eq!((found, touched.free), (130 - 8, 0));
        touched.clear();
        assert_eq!(touched.next_free(5), Some(5));
    }

    #[test]
    fn the_next_free_unit_is_found_in_any_word_and_before_the_begin() {
        let free = |touched: &[(u64, u64)], units: u64| {
            let mut map = TouchedUnits::new(units);
            touched.iter().for_each(|&(unit, count)| assert_eq!(map.touch(unit, count), count));
            move |unit| map.next_free(unit)
        };
        let next = free(&[(0, 64), (65, 62)], 200);
        assert_eq!([0, 63, 64, 65, 127, 128].map(&next), [64, 64, 64, 127, 127, 128].map(Some));
        // All behind are touched, in the same word and in others.
        let next = free(&[(3, 197)], 200);
        assert_eq!([0, 2, 3, 64, 199].map(&next), [0, 2, 0, 0, 0].map(Some));
        let next = free(&[(0, 130)], 130);
        assert_eq!([0, 129].map(&next), [None, None]);
        // A last word that is not whole ends with the region.
        let next = free(&[(0, 69)], 70);
        assert_eq!([0, 69].map(&next), [Some(69), Some(69)]);
        let next = free(&[(1, 69)], 70);
        assert_eq!([0, 1, 69].map(&next), [Some(0), Some(0), Some(0)]);
    }

    #[test]
    fn only_what_was_free_is_touched_and_counted() {
        let mut map = TouchedUnits::new(130);
        assert_eq!((map.touch(60, 10), map.free), (10, 120));
        assert_eq!((map.touch(60, 1), map.touch(55, 9), map.free), (0, 5, 115));
        assert_eq!((map.touch(70, 0), map.touch(129, 5), map.free), (0, 1, 114));
        assert_eq!((map.touch(130, 1), map.free), (0, 114));
        map.clear();
        assert_eq!(map.free, 130);
        assert_eq!((map.touch(0, 200), map.free), (130, 0));
    }
}
