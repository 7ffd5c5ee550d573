//! Skew: which blocks of a region are hot.
//!
//! A skew gives ranks (0 is the hottest); [`BlockDistribution`] turns them into blocks. Zipf and
//! pareto scatter their ranks over the region by a one-to-one map, so that hot blocks are not
//! neighbours; zones and the normal distribution mean places, and keep them. Uniform random offsets
//! need no ranks.

use durio_base::Bytes;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::{DefinitionError, PerMille};

/// A part of the region with its own share of the accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Share of the accesses.
    #[serde(rename = "accesses_per_mille")]
    pub accesses: PerMille,
    /// Share of the region, from where the zone before ends.
    #[serde(rename = "size_per_mille")]
    pub size: PerMille,
}

/// A part of the region by its bytes, with its own share of the accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteZone {
    /// Share of the accesses.
    #[serde(rename = "accesses_per_mille")]
    pub accesses: PerMille,
    /// Bytes, from where the zone before ends.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
}

/// Which blocks are hot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skew {
    /// All blocks are as likely.
    #[default]
    Uniform,
    /// Rank k (from 1) is drawn in proportion to 1 / k^theta.
    Zipf {
        /// Theta × 1000; 1 to 10000.
        theta_per_mille: u32,
    },
    /// Self-similar (Gray et al., "Quickly generating billion-record synthetic databases", 1994):
    /// a share h of the blocks gets the share 1 − h of the accesses, and so on within it.
    Pareto {
        /// h × 1000; 1 to 999. From 500 on the few hot blocks are less apart from the others.
        h_per_mille: u16,
    },
    /// Around the region's middle.
    Normal {
        /// Standard deviation in thousandths of the region; 1 to 1000.
        deviation_per_mille: u16,
    },
    /// Zones one after the other, each uniform within.
    Zones {
        /// At least one; sizes and accesses add up to 1000 each.
        zones: Vec<Zone>,
    },
    /// Zones one after the other by their bytes, each uniform within; behind the last one no block is
    /// touched.
    ByteZones {
        /// At least one; accesses add up to 1000, and the sizes fit into the region.
        zones: Vec<ByteZone>,
    },
}

impl Skew {
    /// True if all blocks are alike.
    pub fn is_uniform(&self) -> bool {
        *self == Self::Uniform
    }

    pub(crate) fn validate(&self) -> Result<(), DefinitionError> {
        let fail = |text: String| Err(DefinitionError(text));
        match self {
            Self::Zipf { theta_per_mille } if !(1..=10_000).contains(theta_per_mille) => fail(
                format!("zipf theta must be 0.001 to 10, not {}", thousandths(*theta_per_mille)),
            ),
            Self::Pareto { h_per_mille } if !(1..1000).contains(h_per_mille) => fail(format!(
                "pareto h must be 0.001 to 0.999, not {}",
                thousandths((*h_per_mille).into())
            )),
            Self::Normal { deviation_per_mille } if !(1..=1000).contains(deviation_per_mille) => {
                fail("the deviation of a normal distribution must be 0.1 % to 100 %".to_owned())
            }
            Self::Zones { zones } => validate_zones(zones),
            Self::ByteZones { zones } => validate_byte_zones(zones),
            _ => Ok(()),
        }
    }
}

fn thousandths(number: u32) -> f64 {
    f64::from(number) / 1000.0
}

fn validate_zones(zones: &[Zone]) -> Result<(), DefinitionError> {
    let sum =
        |of: fn(&Zone) -> PerMille| zones.iter().map(|zone| u32::from(of(zone).0)).sum::<u32>();
    if zones.len() > 256 || sum(|zone| zone.accesses) != 1000 || sum(|zone| zone.size) != 1000 {
        return Err(DefinitionError(
            "the accesses and the sizes of zones must add up to 100 % each".to_owned(),
        ));
    }
    if zones.iter().any(|zone| zone.size == PerMille::NONE && zone.accesses > PerMille::NONE) {
        return Err(DefinitionError("a zone with accesses needs a size".to_owned()));
    }
    Ok(())
}

fn validate_byte_zones(zones: &[ByteZone]) -> Result<(), DefinitionError> {
    let accesses = zones.iter().map(|zone| u32::from(zone.accesses.0)).sum::<u32>();
    if zones.len() > 256 || accesses != 1000 {
        let what = "the accesses of zones must add up to 100 %";
        return Err(DefinitionError(what.to_owned()));
    }
    if zones.iter().any(|zone| zone.size == Bytes::ZERO && zone.accesses > PerMille::NONE) {
        return Err(DefinitionError("a zone with accesses needs a size".to_owned()));
    }
    Ok(())
}

/// Draws blocks of a region by their distribution.
///
/// The draws use floating point: on machines whose mathematical functions round differently, single
/// blocks may differ.
#[derive(Debug, Clone)]
pub(crate) enum BlockDistribution {
    Zipf {
        sampler: Zipf,
        scatter: Scatter,
    },
    Pareto {
        exponent: f64,
        count: u64,
        scatter: Scatter,
    },
    Normal {
        deviation: f64,
        count: u64,
    },
    /// Upper bound of 32 random bits, first block, blocks.
    Zones(Box<[(u64, u64, u64)]>),
}

impl BlockDistribution {
    /// The distribution of `count` blocks of `unit` bytes; none if all are alike.
    pub(crate) fn new(skew: &Skew, count: u64, unit: u64) -> Option<Self> {
        match skew {
            Skew::Uniform => None,
            Skew::Zipf { theta_per_mille } => {
                let sampler = Zipf::new(count, thousandths(*theta_per_mille));
                Some(Self::Zipf { sampler, scatter: Scatter::new(count) })
            }
            Skew::Pareto { h_per_mille } => {
                let h = thousandths((*h_per_mille).into());
                let exponent = h.ln() / (1.0 - h).ln();
                Some(Self::Pareto { exponent, count, scatter: Scatter::new(count) })
            }
            Skew::Normal { deviation_per_mille } => {
                let deviation = thousandths((*deviation_per_mille).into());
                Some(Self::Normal { deviation, count })
            }
            Skew::Zones { zones } => {
                let part = |per_mille: u64| {
                    let part = u128::from(count) * u128::from(per_mille) / 1000;
                    u64::try_from(part).unwrap_or(count)
                };
                let sizes = zones.iter().map(|zone| (zone.accesses, zone.size.0.into()));
                Some(Self::Zones(zone_bounds(sizes, part, count)))
            }
            Skew::ByteZones { zones } => {
                let part = |bytes: u64| bytes / unit;
                let sizes = zones.iter().map(|zone| (zone.accesses, zone.size.get()));
                Some(Self::Zones(zone_bounds(sizes, part, count)))
            }
        }
    }

    /// The next block, below the count.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        match self {
            Self::Zipf { sampler, scatter } => scatter.block(sampler.rank(random)),
            Self::Pareto { exponent, count, scatter } => {
                scatter.block(below(*count, unit(random).powf(*exponent)))
            }
            Self::Normal { deviation, count } => loop {
                let place = 0.5 + deviation * standard_normal(random);
                // What falls outside is drawn again: cut off at the ends, these would be hot.
                if (0.0..1.0).contains(&place) {
                    return below(*count, place);
                }
            },
            Self::Zones(bounds) => {
                // One draw for both: its low half chooses the zone, its high half the block.
                let draw = random.next_u64();
                let bits = draw & 0xFFFF_FFFF;
                let zone = bounds.iter().find(|(bound, ..)| bits < *bound).or(bounds.last());
                zone.map_or(0, |(_, first, blocks)| {
                    let offset = (u128::from(draw >> 32) * u128::from(*blocks)) >> 32;
                    // Below `blocks`.
                    first + u64::try_from(offset).unwrap_or(0)
                })
            }
        }
    }
}

/// Zones by their accesses and sizes; `part` makes blocks of a sum of sizes.
fn zone_bounds(
    zones: impl Iterator<Item = (PerMille, u64)>,
    part: impl Fn(u64) -> u64,
    count: u64,
) -> Box<[(u64, u64, u64)]> {
    let last = count.saturating_sub(1);
    let (mut accesses, mut size) = (0, 0_u64);
    let bounds = zones.map(|(share, length)| {
        // A zone smaller than a block is that block.
        let first = part(size).min(last);
        accesses += u64::from(share.0);
        size = size.saturating_add(length);
        let blocks = part(size).saturating_sub(first).clamp(1, count - first);
        ((accesses << 32) / 1000, first, blocks)
    });
    bounds.collect()
}

/// A number in (0, 1].
#[inline]
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
pub(crate) fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    // Never 0, whose logarithm the callers could not take.
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

#[inline]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count"
)]
fn below(count: u64, share: f64) -> u64 {
    // A share of exactly 1 is drawn too.
    ((count as f64 * share) as u64).min(count - 1)
}

// Box and Muller, 1958; one of the pair.
fn standard_normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let radius = (-2.0 * unit(random).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(random)).cos()
}

/// 2⁶⁴ divided by the golden ratio.
const GOLDEN: u128 = 0x9E37_79B9_7F4A_7C15;

/// A one-to-one map of ranks to blocks that puts neighbours far apart: multiples of the golden
/// ratio of the count step evenly through it (Knuth, The Art of Computer Programming 3, 6.4).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scatter {
    count: u128,
    /// Has no divisor in common with the count, so no two ranks meet.
    step: u128,
}

impl Scatter {
    pub(crate) fn new(count: u64) -> Self {
        let count = u128::from(count);
        let mut step = ((count * GOLDEN) >> 64).max(1);
        while greatest_common_divisor(step, count) != 1 {
            step += 1;
        }
        Self { count, step }
    }

    /// The block of `rank`, both below the count.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a remainder of 64 bits")]
    pub(crate) fn block(self, rank: u64) -> u64 {
        // Shifted by a third: rank 0 would always be the first block.
        ((u128::from(rank) + self.count / 3) * self.step % self.count) as u64
    }
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Zipf ranks by rejection inversion (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", ACM TOMACS 6(3), 1996): constant time for any
/// count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zipf {
    theta: f64,
    count: u64,
    /// H(1.5) − 1 and H(count + 0.5): between them draws are uniform.
    first: f64,
    last: f64,
    shortcut: f64,
}

impl Zipf {
    #[expect(clippy::cast_precision_loss, reason = "counts of blocks are below 2⁵³")]
    fn new(count: u64, theta: f64) -> Self {
        let blank = Self { theta, count, first: 0.0, last: 0.0, shortcut: 0.0 };
        Self {
            first: blank.integral(1.5) - 1.0,
            last: blank.integral(count as f64 + 0.5),
            shortcut: 2.0 - blank.inverse(blank.integral(2.5) - 2_f64.powf(-theta)),
            ..blank
        }
    }

    /// ∫ x^−theta from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        // With theta 1 the integral of 1 / x is a logarithm, and the quotient below 0 / 0.
        let exponent = 1.0 - self.theta;
        if exponent.abs() < 1e-9 { x.ln() } else { (x.powf(exponent) - 1.0) / exponent }
    }

    fn inverse(&self, y: f64) -> f64 {
        let exponent = 1.0 - self.theta;
        if exponent.abs() < 1e-9 { y.exp() } else { (1.0 + y * exponent).powf(1.0 / exponent) }
    }

    /// The next rank, from 0.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts of blocks are below 2⁵³"
    )]
    fn rank(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        loop {
            let y = self.last + unit(random) * (self.first - self.last);
            let x = self.inverse(y);
            let rank = x.round().clamp(1.0, self.count as f64);
            // Most draws pass the first test, which needs neither a logarithm nor a power.
            if rank - x <= self.shortcut || y >= self.integral(rank + 0.5) - rank.powf(-self.theta)
            {
                return rank as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;

    use super::*;

    fn counts(skew: &Skew, blocks: u64, draws: u32) -> Vec<u32> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let distribution = BlockDistribution::new(skew, blocks, 4096).unwrap();
        let mut counts = vec![0; usize::try_from(blocks).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(distribution.draw(&mut random)).unwrap()] += 1;
        }
        counts
    }

    fn sorted(mut counts: Vec<u32>) -> Vec<u32> {
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn zipf_ranks_have_their_shares() {
        for theta_per_mille in [500_u32, 1000, 1200] {
            let theta = f64::from(theta_per_mille) / 1000.0;
            let counts = sorted(counts(&Skew::Zipf { theta_per_mille }, 1000, 1_000_000));
            let norm: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-theta)).sum();
            for rank in [1_u32, 2, 5, 20] {
                let expected = 1e6 * f64::from(rank).powf(-theta) / norm;
                let found = f64::from(counts[rank as usize - 1]);
                let tolerance = 5.0 * expected.sqrt();
                assert!((found - expected).abs() < tolerance, "{theta} {rank}: {found} {expected}");
            }
        }
    }

    #[test]
    fn a_fifth_of_the_blocks_gets_four_fifths_of_the_accesses_of_a_pareto_of_a_fifth() {
        let counts = sorted(counts(&Skew::Pareto { h_per_mille: 200 }, 1000, 1_000_000));
        let hot: u32 = counts[..200].iter().sum();
        assert!((795_000..805_000).contains(&hot), "{hot}");
    }

    #[test]
    fn zones_get_their_shares_in_their_places() {
        let zone = |accesses, size| Zone { accesses: PerMille(accesses), size: PerMille(size) };
        let skew = Skew::Zones { zones: vec![zone(500, 50), zone(300, 150), zone(200, 800)] };
        let counts = counts(&skew, 1000, 1_000_000);
        for (range, expected) in [(0..50, 500_000), (50..200, 300_000), (200..1000, 200_000)] {
            let found: u32 = counts[range.clone()].iter().sum();
            assert!(found.abs_diff(expected) < 3000, "{range:?}: {found}");
        }
        assert!(counts.iter().all(|&count| count > 0), "every block of a zone is reached");
    }

    #[test]
    fn a_normal_distribution_is_around_the_middle() {
        let counts = counts(&Skew::Normal { deviation_per_mille: 100 }, 1000, 100_000);
        let within: u32 = counts[400..600].iter().sum();
        assert!((67_000..69_500).contains(&within), "{within}");
    }

    #[test]
    fn scattering_loses_no_block() {
        for count in [1, 2, 3, 10, 999, 1000, 1 << 16] {
            let mut seen = vec![false; usize::try_from(count).unwrap()];
            for rank in 0..count {
                let block = usize::try_from(Scatter::new(count).block(rank)).unwrap();
                assert!(!std::mem::replace(&mut seen[block], true), "{rank} of {count}");
            }
        }
    }

    #[test]
    fn a_number_is_never_zero_and_may_be_one() {
        // From a state whose first and last word are 0, the next number is 0; with the last all ones, its
        // sum rotated.
        let of = |words: [u64; 4]| {
            let mut seed = [0; 32];
            for (bytes, word) in seed.chunks_exact_mut(8).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            unit(&mut Xoshiro256PlusPlus::from_seed(seed))
        };
        assert_eq!(of([0, 1, 1, 0]), 1.0 / 9_007_199_254_740_992.0);
        assert_eq!(of([0, 1, 1, u64::MAX]), 1.0);
        // 1 rotated by 23.
        assert_eq!(of([0, 1, 1, 1]), ((1_u64 << 12) + 1) as f64 / 9_007_199_254_740_992.0);
        assert_eq!([0.0, 0.25, 0.999, 1.0].map(|share| below(8, share)), [0, 2, 7, 7]);
    }

    #[test]
    fn zones_begin_where_the_one_before_ends_and_have_a_block_at_least() {
        let zone = |accesses, length| (PerMille(accesses), length);
        let bounds = |zones: &[(PerMille, u64)], count| {
            zone_bounds(zones.iter().copied(), |sum| sum / 10, count).into_vec()
        };
        let whole = 1_u64 << 32;
        let of = |per_mille: u64| (per_mille << 32) / 1000;
        let found = bounds(&[zone(600, 20), zone(300, 50), zone(100, 30)], 10);
        assert_eq!(found, [(of(600), 0, 2), (of(900), 2, 5), (whole, 7, 3)]);
        // A zone that is smaller than a block, and one that goes on past the region.
        let found = bounds(&[zone(500, 5), zone(500, 500)], 4);
        assert_eq!(found, [(of(500), 0, 1), (whole, 0, 4)]);
        let found = bounds(&[zone(500, 90), zone(500, 10)], 4);
        assert_eq!(found, [(of(500), 0, 4), (whole, 3, 1)]);
        assert_eq!(
            [(12, 18), (7, 5), (9, 0)].map(|(a, b)| greatest_common_divisor(a, b)),
            [6, 1, 9]
        );
    }

    #[test]
    fn each_rank_has_its_block_by_the_golden_ratio() {
        // 10 ÷ 1.618 is 6, and the next without a divisor in common is 7; ranks begin at a third.
        let ten = Scatter::new(10);
        assert_eq!(ten.step, 7);
        let blocks: Vec<_> = (0..10).map(|rank| ten.block(rank)).collect();
        assert_eq!(blocks, [1, 8, 5, 2, 9, 6, 3, 0, 7, 4]);
        assert_eq!((Scatter::new(1).step, Scatter::new(2).step), (1, 1));
    }

    #[test]
    fn an_integral_of_zipf_and_its_inverse_undo_each_other() {
        for theta in [0.5, 1.0, 1.2] {
            let zipf = Zipf::new(1000, theta);
            for x in [1.0, 1.5, 7.0, 900.0] {
                let back = zipf.inverse(zipf.integral(x));
                assert!((back / x - 1.0).abs() < 1e-9, "{theta}: {back} for {x}");
            }
        }
        // ∫ x^−½ from 1 to 4 is 2, of 1/x it is ln 4.
        assert!((Zipf::new(10, 0.5).integral(4.0) - 2.0).abs() < 1e-12);
        assert!((Zipf::new(10, 1.0).integral(4.0) - 4_f64.ln()).abs() < 1e-12);
    }
}
