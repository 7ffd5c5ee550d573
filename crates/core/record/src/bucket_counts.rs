//! Latencies as the measured loop takes them: counts in the bucket layout of HdrHistogram.
//!
//! [`BucketCounts`] takes one latency at a time in some 20 instructions, where the crate's
//! histogram with an exact side takes 60 (and an asynchronous operation has three latencies). It
//! becomes a [`Latency`] outside the loop. A test holds the layout against the crate's for every
//! power of two and more.
//!
//! Only a job's counters in its loop are [`BucketCounts`], 330 KiB long; all others are sparse, so
//! a step can have thousands of jobs. A bucket is noted when it first gets a count: collecting the
//! counts of many jobs, many times in a step, visits no other buckets, and takes little processor
//! time from the measured jobs.

use crate::{Exact, LATENCY_NS_MAX, Latency};

/// Buckets of the same width per power of two: the next power of two above 2 × 10³, for three
/// significant digits.
const SUB_BUCKETS: u64 = 2048;

/// log2 of half of them: the upper half of each power's sub-buckets is its own.
const HALF_MAGNITUDE: u32 = 10;

/// Buckets up to [`LATENCY_NS_MAX`]: 2048 << 31 ns is the first power above it.
pub(crate) const BUCKETS: usize = 33 << HALF_MAGNITUDE;

/// Counts per bucket, and the exact sum and bounds.
#[derive(Debug, Clone)]
pub struct BucketCounts {
    counts: Box<[u64; BUCKETS]>,
    /// Those that are not zero, as they came; each is there once.
    used: Box<[u16; BUCKETS]>,
    used_count: usize,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for BucketCounts {
    fn default() -> Self {
        // On the heap from the start, as zero pages of the kernel: only counted buckets take
        // memory.
        Self {
            counts: zeros(),
            used: zeros(),
            used_count: 0,
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

fn zeros<T: Copy + Default>() -> Box<[T; BUCKETS]> {
    let all = vec![T::default(); BUCKETS].into_boxed_slice();
    all.try_into().unwrap_or_else(|_| unreachable!("the length is the array's"))
}

/// The bucket of a value; [`BUCKETS`] or more for values beyond the last.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "at most 55 << 10, from 64 bits of value")]
pub(crate) fn bucket_of(nanos: u64) -> usize {
    let magnitude = (nanos | (SUB_BUCKETS - 1)).ilog2() - HALF_MAGNITUDE;
    let within = nanos >> magnitude;
    // The first power of two fills 2048 buckets, every further one 1024 more.
    ((u64::from(magnitude) << HALF_MAGNITUDE) + within) as usize
}

/// The bucket that counts a value; values beyond the last bucket count as an hour.
#[inline(always)]
fn bucket_within(nanos: u64) -> usize {
    let bucket = bucket_of(nanos);
    if bucket < BUCKETS { bucket } else { bucket_of(LATENCY_NS_MAX) }
}

/// The smallest value of a bucket.
pub(crate) fn lowest_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB_BUCKETS {
        return bucket;
    }
    let magnitude = (bucket >> HALF_MAGNITUDE) - 1;
    (bucket - (magnitude << HALF_MAGNITUDE)) << magnitude
}

/// The largest value of a bucket.
pub(crate) fn highest_of(bucket: usize) -> u64 {
    lowest_of(bucket + 1) - 1
}

impl BucketCounts {
    /// Bytes of memory once all buckets are in use.
    pub const BYTES: u64 = (BUCKETS * (size_of::<u64>() + size_of::<u16>())) as u64;

    /// Takes one latency. A value beyond the last bucket (73 minutes) is counted as 1 h, as the
    /// crate does; sum and maximum stay exact.
    #[inline(always)]
    pub fn record(&mut self, nanos: u64) {
        self.record_many(nanos, 1);
    }

    /// Takes the same latency `times` times, at least once.
    #[inline(always)]
    pub fn record_many(&mut self, nanos: u64, times: u64) {
        self.record_in(bucket_within(nanos), nanos, times);
    }

    /// The same in two histograms, whose bucket is looked up once.
    #[inline(always)]
    pub fn record_many_in_both(&mut self, other: &mut Self, nanos: u64, times: u64) {
        let bucket = bucket_within(nanos);
        self.record_in(bucket, nanos, times);
        other.record_in(bucket, nanos, times);
    }

    #[inline(always)]
    fn record_in(&mut self, bucket: usize, nanos: u64, times: u64) {
        if self.counts[bucket] == 0 {
            self.use_bucket(bucket);
        }
        self.counts[bucket] += times;
        // 584 years of latencies fit.
        self.sum_ns = self.sum_ns.wrapping_add(nanos.wrapping_mul(times));
        // Branches that are hardly ever taken are cheaper here than unconditional stores.
        if nanos < self.min_ns {
            self.min_ns = nanos;
        }
        if nanos > self.max_ns {
            self.max_ns = nanos;
        }
    }

    #[cold]
    #[expect(clippy::cast_possible_truncation, reason = "there are 33,792 buckets")]
    fn use_bucket(&mut self, bucket: usize) {
        self.used[self.used_count] = bucket as u16;
        self.used_count += 1;
    }

    fn used(&self) -> &[u16] {
        &self.used[..self.used_count]
    }

    /// True if it holds no latencies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used_count == 0
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        for &bucket in &self.used[..self.used_count] {
            self.counts[usize::from(bucket)] = 0;
        }
        (self.used_count, self.sum_ns, self.min_ns, self.max_ns) = (0, 0, u64::MAX, 0);
    }

    /// Adds all latencies to `total`.
    pub fn add_to(&self, total: &mut Latency) {
        if self.is_empty() {
            return;
        }
        let mut used = self.used().to_vec();
        used.sort_unstable();
        let counts = used.into_iter().map(|bucket| (bucket, self.counts[usize::from(bucket)]));
        let count = counts.clone().map(|bucket| bucket.1).sum();
        total.histogram.get_or_insert_default().add(counts);
        let (sum_ns, min_ns, max_ns) = (self.sum_ns, self.min_ns, self.max_ns);
        total.exact.add(&Exact { count, sum_ns, min_ns, max_ns });
    }

    /// The latencies as an event has them.
    #[must_use]
    pub fn latency(&self) -> Latency {
        let mut latency = Latency::default();
        self.add_to(&mut latency);
        latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LatencyHistogram;
    use proptest::prelude::*;

    fn check(values: &[u64]) {
        let (mut counts, mut direct) = (BucketCounts::default(), LatencyHistogram::new());
        for (&value, times) in values.iter().zip([1, 3].into_iter().cycle()) {
            counts.record_many(value, times);
            (0..times).for_each(|_| direct.record(value));
        }
        assert_eq!(counts.latency(), Latency::from(&direct), "{values:?}");
        let mut twice = counts.latency();
        counts.add_to(&mut twice);
        direct.add(&direct.clone());
        assert_eq!(twice, Latency::from(direct), "{values:?}");
        counts.clear();
        assert!(counts.is_empty() && counts.counts.iter().all(|&count| count == 0));
    }

    #[test]
    fn the_layout_is_the_crates_around_every_power_of_two() {
        let powers = (0..58).map(|power| 1_u64 << power);
        for power in powers {
            check(&[power - 1, power, power + 1, power + power / 3]);
        }
        check(&[]);
        check(&[0, LATENCY_NS_MAX - 1, LATENCY_NS_MAX, LATENCY_NS_MAX + 1, 1 << 60]);
    }

    proptest! {
        #[test]
        fn the_layout_is_the_crates_for_any_values(
            values in prop::collection::vec(0_u64..5_000_000_000_000, 0..100),
            small in prop::collection::vec(0_u64..5000, 0..100),
        ) {
            check(&values);
            check(&small);
        }
    }
}
