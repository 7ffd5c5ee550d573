//! fio's latency histogram: its buckets, its percentiles bit for bit, sparse counts.
//!
//! Built from latencies or from bins as fio prints them, with a compact form for the run record.
//! durio's own histogram is finer. The layout is that of `FIO_IO_U_PLAT_*` in fio's stat.h,
//! unchanged since fio 3.0: 29 groups of 64 buckets; exact below 128 ns, then 64 buckets per
//! doubling, the last one open.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::FioError;

/// How many bits of a value choose its bucket in a group.
const BUCKET_BITS: u32 = 6;
const GROUP_BUCKETS: u16 = 1 << BUCKET_BITS;
/// How many buckets there are.
pub const BUCKETS: u16 = 29 * GROUP_BUCKETS;

/// The bucket of a latency, 0 to 1855; all from 2^34 ns (17.2 s) share the last one.
#[must_use]
pub fn bucket(latency_ns: u64) -> u16 {
    let dropped_bits = latency_ns.checked_ilog2().unwrap_or(0).saturating_sub(BUCKET_BITS);
    // With d dropped bits the value is 64..=127 shifted by d: group d + 1, or group 0 and 1 exactly.
    let bucket = (u64::from(dropped_bits) << BUCKET_BITS) + (latency_ns >> dropped_bits);
    u16::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
}

/// The latency in ns that fio prints for a bucket: its middle; `None` from 1856.
#[must_use]
pub fn middle_ns(bucket: u16) -> Option<u64> {
    if bucket >= BUCKETS {
        return None;
    }
    let dropped_bits = (bucket >> BUCKET_BITS).saturating_sub(1);
    let first = u64::from(bucket - (dropped_bits << BUCKET_BITS)) << dropped_bits;
    Some(first + ((1 << dropped_bits) >> 1))
}

/// Counts per bucket of fio's histogram, without the empty ones.
///
/// Saved as a list of `[bucket, count]` in ascending order.
///
/// ```
/// use durio_fio::histogram::FioBins;
/// let bins = FioBins::from_middles([(10_048, 3), (8_160, 1)]).unwrap();
/// assert_eq!(bins.percentile_ns(50.0), Some(10_048));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u16, u64)>", into = "Vec<(u16, u64)>")]
pub struct FioBins {
    counts: BTreeMap<u16, u64>,
}

impl FioBins {
    /// Counts `count` latencies of `latency_ns`; counts stay at `u64::MAX` when they reach it.
    pub fn add(&mut self, latency_ns: u64, count: u64) {
        self.add_to(bucket(latency_ns), count);
    }

    /// Counts all of `other` too, as fio does for the jobs of a group.
    pub fn merge(&mut self, other: &Self) {
        for (&bucket, &count) in &other.counts {
            self.add_to(bucket, count);
        }
    }

    /// From `(middle in ns, count)` as in `bins` of json+, in any order.
    ///
    /// # Errors
    /// [`FioError::NotABucket`] for a value that is not the middle of a bucket.
    pub fn from_middles(bins: impl IntoIterator<Item = (u64, u64)>) -> Result<Self, FioError> {
        let mut found = Self::default();
        for (value_ns, count) in bins {
            found.add_middle(value_ns, count)?;
        }
        Ok(found)
    }

    /// Counts `count` more in the bucket whose middle is `value_ns`.
    ///
    /// # Errors
    /// [`FioError::NotABucket`] if no bucket has this middle.
    pub fn add_middle(&mut self, value_ns: u64, count: u64) -> Result<(), FioError> {
        let bucket = bucket(value_ns);
        if middle_ns(bucket) != Some(value_ns) {
            return Err(FioError::NotABucket { value_ns });
        }
        self.add_to(bucket, count);
        Ok(())
    }

    /// True if nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many latencies were counted; `u64::MAX` if more.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.values().fold(0, |total, &count| total.saturating_add(count))
    }

    /// The middle of each bucket in ns with its count, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts
            .iter()
            .filter_map(|(&bucket, &count)| middle_ns(bucket).map(|middle| (middle, count)))
    }

    /// Each bucket with its count, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.counts.iter().map(|(&bucket, &count)| (bucket, count))
    }

    /// The percentile as fio prints it, in ns: the middle of the first bucket at which the counts so
    /// far reach `percent` / 100 × total, computed as fio does on x86-64 (`calc_clat_percentiles`
    /// in fio's stat.c). It may exceed the largest latency, as fio's does. `None` if nothing was
    /// counted, or unless 0 < `percent` <= 100.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        // Written so that NaN is refused too.
        if !(percent > 0.0 && percent <= 100.0) {
            return None;
        }
        let per_percent = ExtendedFloat::HUNDREDTH.times(ExtendedFloat::from_count(self.total()));
        let needed = per_percent.times(ExtendedFloat::from_double(percent)).ceiling();
        // Compared as whole numbers: the count that is needed was rounded as fio rounds it.
        let mut so_far = 0_u64;
        self.iter().find_map(|(middle, count)| {
            so_far = so_far.saturating_add(count);
            (u128::from(so_far) >= needed).then_some(middle)
        })
    }

    fn add_to(&mut self, bucket: u16, count: u64) {
        if count > 0 {
            let old = self.counts.entry(bucket).or_default();
            *old = old.saturating_add(count);
        }
    }
}

impl From<FioBins> for Vec<(u16, u64)> {
    fn from(bins: FioBins) -> Self {
        bins.counts.into_iter().collect()
    }
}

impl TryFrom<Vec<(u16, u64)>> for FioBins {
    type Error = FioError;

    /// # Errors
    /// [`FioError::Bins`] if buckets do not ascend or exceed 1855, or if a count is 0.
    fn try_from(pairs: Vec<(u16, u64)>) -> Result<Self, FioError> {
        let wrong = |what: String| Err(FioError::Bins { what });
        if let Some((bucket, _)) = pairs.iter().find(|&&(bucket, _)| bucket >= BUCKETS) {
            return wrong(format!("bucket {bucket} is past the last one, {}", BUCKETS - 1));
        }
        // Empty buckets are never saved, so one was changed.
        if let Some((bucket, _)) = pairs.iter().find(|&&(_, count)| count == 0) {
            return wrong(format!("bucket {bucket} has no count"));
        }
        if !pairs.is_sorted_by(|(earlier, _), (later, _)| earlier < later) {
            return wrong("the buckets do not ascend".to_owned());
        }
        Ok(Self { counts: pairs.into_iter().collect() })
    }
}

/// The few operations of x86's extended floating point with which fio finds a percentile: `mantissa` ×
/// 2^`exponent`, the mantissa's highest bit set unless the value is 0.
// fio's source says `(long double) percent / 100.0 * count`; its Makefile has it compiled with
// `-ffast-math`, and so fio computes (count × 0.01) × percent, with 64 bits of mantissa, rounded to
// nearest, ties to even (seen in the machine code of Debian's fio 3.33 and of fio 3.42 built with gcc).
// Doubles do not do: 14 % of 50 samples are 8 samples in doubles, and 7 in fio. On other machines
// `long double` may differ where a percentage falls on a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExtendedFloat {
    mantissa: u64,
    exponent: i32,
}

impl ExtendedFloat {
    /// 0.01, rounded.
    const HUNDREDTH: Self = Self { mantissa: 0xa3d7_0a3d_70a3_d70a, exponent: -70 };

    /// The value of a positive finite double, exactly.
    fn from_double(value: f64) -> Self {
        let bits = value.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        let stored = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
        let (mantissa, exponent) = match stored {
            0 => (fraction, -1074),
            stored => (fraction | (1 << 52), stored - 1075),
        };
        Self::rounded(mantissa.into(), exponent)
    }

    fn from_count(value: u64) -> Self {
        Self::rounded(value.into(), 0)
    }

    fn times(self, factor: Self) -> Self {
        let product = u128::from(self.mantissa) * u128::from(factor.mantissa);
        Self::rounded(product, self.exponent.saturating_add(factor.exponent))
    }

    /// The smallest whole number that is not below the value; `u128::MAX` if that has more bits.
    fn ceiling(self) -> u128 {
        let mantissa = u128::from(self.mantissa);
        let places = self.exponent.unsigned_abs();
        if mantissa == 0 {
            0
        } else if self.exponent < 0 {
            // 64 places down to nothing: a positive value below 1.
            if places >= 64 { 1 } else { mantissa.div_ceil(1 << places) }
        } else if places < 64 {
            mantissa << places
        } else {
            u128::MAX
        }
    }

    /// `value` × 2^`exponent` to 64 bits.
    fn rounded(value: u128, exponent: i32) -> Self {
        let bits = 128 - value.leading_zeros();
        let Some(surplus) = bits.checked_sub(64).filter(|&surplus| surplus > 0) else {
            return Self::shifted_up(value, 64 - bits, exponent);
        };
        let (kept, half) = (value >> surplus, 1_u128 << (surplus - 1));
        let rest = value & ((1 << surplus) - 1);
        // Ties go to even, as the processor rounds.
        let up = rest > half || (rest == half && kept & 1 == 1);
        let exponent = exponent.saturating_add_unsigned(surplus);
        match u64::try_from(kept + u128::from(up)) {
            Ok(mantissa) => Self { mantissa, exponent },
            Err(_) => Self { mantissa: 1 << 63, exponent: exponent + 1 },
        }
    }

    fn shifted_up(value: u128, places: u32, exponent: i32) -> Self {
        let mantissa = u64::try_from(value << (places % 64)).unwrap_or(u64::MAX);
        Self { mantissa, exponent: exponent.saturating_sub_unsigned(places % 64) }
    }
}

#[cfg(test)]
mod tests;
