//! Block sizes: one, or a mix by weight.

use durio_base::Bytes;
use serde::{Deserialize, Serialize};

use crate::{DefinitionError, PerMille};

/// One size of a mix and how often it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockShare {
    /// Bytes per access.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// Share of the accesses, in thousandths; those of a mix add up to 1000.
    #[serde(rename = "weight_per_mille")]
    pub weight: PerMille,
}

/// The largest number of sizes in one mix.
const SIZES_MAX: usize = 512;

/// Checks a mix: sizes above zero, weights that add up to 1000.
pub(crate) fn validate_mix(mix: &[BlockShare], size_max: Bytes) -> Result<(), DefinitionError> {
    if mix.is_empty() {
        return Ok(());
    }
    let fail = |text: String| Err(DefinitionError(text));
    if mix.len() > SIZES_MAX {
        return fail(format!("a mix of {} block sizes is more than {SIZES_MAX}", mix.len()));
    }
    for share in mix {
        if share.size == Bytes::ZERO || share.size > size_max {
            return fail(format!("block sizes must be 1 B to {size_max}, not {}", share.size));
        }
    }
    let sum: u32 = mix.iter().map(|share| u32::from(share.weight.0)).sum();
    if sum != 1000 {
        return fail(format!("the weights of a block-size mix add up to {sum}, not to 1000"));
    }
    Ok(())
}

/// Draws sizes of a mix: 32 random bits choose one.
#[derive(Debug, Clone)]
pub(crate) struct SizeChoice {
    /// Upper bounds (2³² for the last) and sizes, in the mix's order.
    bounds: Box<[(u64, u64)]>,
}

impl SizeChoice {
    /// The mix, or without one the single size.
    pub(crate) fn new(mix: &[BlockShare], single: Bytes) -> Self {
        if mix.is_empty() {
            return Self { bounds: Box::new([(1 << 32, single.get())]) };
        }
        let mut sum = 0;
        let bounds = mix.iter().map(|share| {
            sum += u64::from(share.weight.0);
            // From the sums and not from the weights, so that rounding adds up to 2³².
            ((sum << 32) / 1000, share.size.get())
        });
        Self { bounds: bounds.collect() }
    }

    /// The size that `bits` (32 of them) choose.
    #[inline]
    pub(crate) fn choose(&self, bits: u64) -> u64 {
        let found = self.bounds.partition_point(|(bound, _)| *bound <= bits);
        self.bounds.get(found).or(self.bounds.last()).map_or(0, |(_, size)| *size)
    }

    pub(crate) fn smallest(&self) -> u64 {
        self.bounds.iter().map(|(_, size)| *size).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(weights: &[(u64, u16)]) -> Vec<BlockShare> {
        let share = |&(kib, weight): &(u64, u16)| BlockShare {
            size: Bytes::from_kib(kib),
            weight: PerMille(weight),
        };
        weights.iter().map(share).collect()
    }

    #[test]
    fn every_draw_of_32_bits_has_a_size_in_proportion_to_its_weight() {
        let mix = mix(&[(4, 550), (8, 230), (16, 168), (32, 52)]);
        let choice = SizeChoice::new(&mix, Bytes::from_kib(32));
        let mut counts = [0_u32; 4];
        for step in 0..1000_u64 {
            let size = choice.choose((step << 32) / 1000 + 1);
            counts[mix.iter().position(|share| share.size.get() == size).unwrap()] += 1;
        }
        assert_eq!(counts, [550, 230, 168, 52]);
        assert_eq!(choice.choose(u64::from(u32::MAX)), 32 << 10);
    }

    #[test]
    fn weights_that_do_not_add_up_are_refused() {
        let limit = Bytes::from_gib(1);
        assert!(validate_mix(&mix(&[(4, 500), (8, 500)]), limit).is_ok());
        assert!(validate_mix(&mix(&[(4, 500), (8, 499)]), limit).is_err());
        assert!(validate_mix(&mix(&[(0, 1000)]), limit).is_err());
        assert!(validate_mix(&mix(&[(4 << 20, 1000)]), limit).is_err());
    }

    #[test]
    fn a_mix_has_its_bounds_and_one_size_is_always_drawn() {
        let limit = Bytes::from_kib(8);
        let fits = |mix: &[BlockShare]| validate_mix(mix, limit).is_ok();
        assert!(fits(&[]) && fits(&mix(&[(8, 1000)])));
        assert!(!fits(&[BlockShare { size: Bytes::new(8193), weight: PerMille(1000) }]));
        assert!(fits(&[BlockShare { size: Bytes::new(1), weight: PerMille(1000) }]));
        assert!(!fits(&mix(&[(4, 500), (8, 501)])));
        let many = |count: usize| {
            let mut all = vec![(4, 0); count - 1];
            all.push((4, 1000));
            fits(&mix(&all))
        };
        assert!(many(512) && !many(513));
        let single = SizeChoice::new(&[], limit);
        assert_eq!([0, u64::from(u32::MAX)].map(|bits| single.choose(bits)), [8192, 8192]);
        assert_eq!(single.smallest(), 8192);
        let choice = SizeChoice::new(&mix(&[(8, 250), (2, 750)]), limit);
        assert_eq!(choice.smallest(), 2048);
        let quarter = 1_u64 << 30;
        let drawn = [0, quarter - 1, quarter, u64::from(u32::MAX)].map(|bits| choice.choose(bits));
        assert_eq!(drawn, [8192, 8192, 2048, 2048]);
    }
}
