//! Reproducible random choices: all follow from the seed, the row and the number of a case.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The choices of one case.
#[derive(Debug)]
pub(super) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The choices for a case of a row, independent of other cases.
    pub(super) fn of_case(seed: u64, row: &str, case: usize) -> Self {
        // FNV-1a over everything that names the case. Not std's hasher: its algorithm may change,
        // and a case must stay the same.
        let bytes = seed.to_le_bytes().into_iter().chain(row.bytes());
        let bytes = bytes.chain((case as u64).to_le_bytes());
        let mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// Any number.
    pub(super) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        // The bias of the remainder does not matter here.
        usize::try_from(self.number() % bound.max(1) as u64).unwrap_or(0)
    }

    /// True once in `n` times.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of several, which must not be empty.
    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_makes_the_same_choices_again_and_others_make_others() {
        let first = |seed, row, case| Random::of_case(seed, row, case).number();
        assert_eq!(first(1, "kills", 7), first(1, "kills", 7));
        let all = [first(1, "kills", 7), first(2, "kills", 7), first(1, "races", 7)];
        assert!(all[1..].iter().all(|drawn| *drawn != all[0]) && first(1, "kills", 8) != all[0]);
    }

    #[test]
    fn nothing_is_below_nothing() {
        let mut random = Random::of_case(1, "x", 0);
        assert_eq!(random.below(0), 0);
        assert!((0..100).all(|_| random.below(3) < 3));
    }
}
