//! The block of numbers that fio prints for each kind of latency, and percentages by label.
//!
//! Reads `slat_ns`, `clat_ns`, `lat_ns` into a [`LatencyBlock`], and objects like `iodepth_level`
//! or a histogram into [`Shares`].

use super::cursor::{Cursor, JsonFault, JsonResult};
use super::table::{Json, object};
use super::write::Printer;
use crate::histogram::FioBins;

/// `(percent, ns)`, ascending by percent.
pub type PercentileList = Vec<(f64, u64)>;

object! {
    /// One kind of latency of one kind of operation. All zero if nothing was measured.
    struct LatencyBlock {
        /// The smallest, in ns.
        min: u64,
        /// The largest, in ns; a percentile can exceed it, as it is the middle of a bucket.
        max: u64,
        /// In ns.
        mean: f64,
        /// In ns, of a sample (divided by N - 1).
        stddev: f64,
        /// How many were measured (`N`); `None` before fio 3.18, which does not say.
        n: Option<u64> => ["N"],
        /// Empty unless asked for and something was measured.
        percentiles: PercentileList => ["percentile"],
        /// All of the measured; empty unless in json+ and percentiles were asked for.
        bins: FioBins,
    }
    finish drop_zeros
}

impl LatencyBlock {
    /// The number of samples: fio's count, or else that of the bins.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.n.unwrap_or_else(|| self.bins.total())
    }

    /// The percentile that fio printed for exactly this percentage, in ns.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let printed = self.percentiles.iter().find(|&&(printed, _)| printed == percent);
        printed.map(|&(_, value_ns)| value_ns)
    }

    // For a latency that was not measured, fio before 3.18 prints percentiles of 0.
    fn drop_zeros(&mut self) {
        let is_of_nothing = self.samples() == 0 && self.max == 0;
        if is_of_nothing && self.percentiles.iter().all(|&(_, ns)| ns == 0) {
            self.percentiles.clear();
        }
    }
}

// Without the entries for 0 %, with which fio 3.0 fills its list.
impl Json for PercentileList {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        self.clear();
        cursor.object(|cursor, key| {
            let percent = key_number::<f64>(cursor, key)?;
            let value_ns = cursor.u64()?;
            if percent > 0.0 {
                self.push((percent, value_ns));
            }
            Ok(())
        })?;
        self.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Ok(())
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        if self.is_empty() {
            return;
        }
        printer.object(Some(key), |printer| {
            for (percent, value_ns) in self {
                printer.plain(&format!("{percent:.6}"), value_ns);
            }
        });
    }
}

impl Json for FioBins {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        *self = Self::default();
        cursor.object(|cursor, key| {
            let value_ns = key_number(cursor, key)?;
            let count = cursor.u64()?;
            let line = cursor.line();
            self.add_middle(value_ns, count)
                .map_err(|error| JsonFault::new(line, error.to_string()))
        })
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        if self.is_empty() {
            return;
        }
        printer.object(Some(key), |printer| {
            for (middle_ns, count) in self.iter() {
                printer.plain(&middle_ns.to_string(), &count);
            }
        });
    }
}

fn key_number<T: std::str::FromStr>(cursor: &mut Cursor<'_>, key: &str) -> JsonResult<T> {
    let line = cursor.line();
    key.trim().parse().map_err(|_| JsonFault::new(line, "the key is not a number"))
}

object! {
    /// The latency of operations of one I/O priority; only where there are at least two priorities.
    struct PriorityLatency {
        /// The class, 0 to 3.
        prioclass: u64,
        /// The level in the class, 0 to 7.
        prio: u64,
        /// The hint; since fio 3.36.
        priohint: Option<u64>,
        /// All of it, where the job has total latencies.
        lat_ns: Option<LatencyBlock>,
        /// Up to the completion, where it has not.
        clat_ns: Option<LatencyBlock>,
    }
}

/// `(label, percent)` in fio's order.
pub type Shares = Vec<(String, f64)>;

// fio's edges within each of ns, µs and ms: a label is the first value that is above its share.
const EDGES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// Percent of operations by completion latency: below 1 µs, below 1 ms, and from 1 ms. Together they
/// are 100 %.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencyShares {
    /// By ns: `2` to `1000`.
    pub ns: Shares,
    /// By µs: `2` to `1000`.
    pub us: Shares,
    /// By ms: `2` to `2000`, then `>=2000`.
    pub ms: Shares,
}

impl LatencyShares {
    /// From `(latency in ns, count)`; all 0 if nothing was counted. The edges are those of
    /// `io_u_mark_latency` in fio's io_u.c.
    pub fn from_counts(counts: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let (mut ns, mut us, mut ms) = ([0_u128; 10], [0_u128; 10], [0_u128; 12]);
        let mut total = 0_u128;
        for (latency_ns, count) in counts {
            let (shares, value) = match latency_ns {
                0..1_000 => (ns.as_mut_slice(), latency_ns),
                1_000..1_000_000 => (us.as_mut_slice(), latency_ns / 1_000),
                _ => (ms.as_mut_slice(), latency_ns / 1_000_000),
            };
            if let Some(share) = shares.get_mut(place(value)) {
                *share += u128::from(count);
            }
            total += u128::from(count);
        }
        Self { ns: labelled(&ns, total), us: labelled(&us, total), ms: labelled(&ms, total) }
    }
}

/// Where a value belongs among the edges, then `2000`, then the rest.
fn place(value: u64) -> usize {
    let edges = EDGES.into_iter().chain([2000]);
    edges.take_while(|&edge| value >= edge).count()
}

fn labelled(counts: &[u128], total: u128) -> Shares {
    let edges = EDGES.map(|edge| edge.to_string()).into_iter();
    let labels = edges.chain(["2000".to_owned(), ">=2000".to_owned()]);
    labels.zip(counts).map(|(label, &count)| (label, percent(count, total))).collect()
}

// The least percentage that fio shows for a count above 0.
const LEAST: f64 = 0.01;

#[expect(clippy::cast_precision_loss, reason = "printed with six decimals")]
fn percent(count: u128, total: u128) -> f64 {
    if total == 0 || count == 0 { 0.0 } else { (100.0 * count as f64 / total as f64).max(LEAST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_zero(shares: &Shares) -> Vec<(&str, f64)> {
        shares.iter().filter(|(_, it)| *it > 0.0).map(|(at, it)| (at.as_str(), *it)).collect()
    }

    #[test]
    fn a_label_is_the_first_value_above_its_share() {
        let counts = [(1, 1), (2, 1), (999, 1), (1_999, 1), (999_999, 1), (1_999_999, 1)];
        let late = [(1_000_000_000, 1), (1_999_999_999, 1), (2_000_000_000, 1), (u64::MAX, 1)];
        let shares = LatencyShares::from_counts(counts.into_iter().chain(late));
        assert_eq!(not_zero(&shares.ns), [("2", 10.0), ("4", 10.0), ("1000", 10.0)]);
        assert_eq!(not_zero(&shares.us), [("2", 10.0), ("1000", 10.0)]);
        assert_eq!(not_zero(&shares.ms), [("2", 10.0), ("2000", 20.0), (">=2000", 20.0)]);
    }

    #[test]
    fn nothing_counted_is_all_zero_with_every_label() {
        let shares = LatencyShares::from_counts([]);
        let lengths = [shares.ns.len(), shares.us.len(), shares.ms.len()];
        assert_eq!(lengths, [10, 10, 12]);
        assert!(not_zero(&shares.ms).is_empty());
    }
}
