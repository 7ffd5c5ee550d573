//! The meaning of a durable write's cost for batches.
//!
//! A cost model gives [`BatchAdvice`]: how large a write must be for a share of the bandwidth, what
//! share a record size reaches alone, and the price of doing without batches.

use serde::{Deserialize, Serialize};

use crate::cost_model::CostModel;

/// A size and the share of the bandwidth that it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeShare {
    pub size_bytes: f64,
    /// Share of the highest bandwidth, 0 to 1.
    pub share: f64,
    /// The size is beyond those measured.
    pub is_extrapolated: bool,
}

/// The cost of making each record durable separately.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UnbatchedCost {
    /// Bytes of a record.
    pub record_bytes: f64,
    /// Records in a batch of [`BatchAdvice::batch_bytes`].
    pub records_per_batch: f64,
    /// Time of single records ÷ time of the batch, by the model. A record below the smallest
    /// measured size is taken to cost as much as that size.
    pub factor: f64,
}

/// What follows for batches, with one writer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchAdvice {
    /// The highest bandwidth by the model, in bytes per second, at whatever size.
    pub bandwidth_bytes_per_second: f64,
    /// Write sizes for 50, 80 and 95 % of it.
    pub for_shares: Vec<SizeShare>,
    /// What records of these sizes reach, each made durable by itself.
    pub of_records: Vec<SizeShare>,
    /// Reference batch: that for [`BATCH_SHARE`] of the bandwidth, at most the largest measured.
    pub batch_bytes: f64,
    /// The price of doing without batches.
    pub unbatched: Vec<UnbatchedCost>,
}

/// Shares whose size is reported.
const SHARES: [f64; 3] = [0.5, 0.8, 0.95];

/// Beyond it each doubling of the batch gains less than a tenth: with a fixed cost F and s / B, the
/// share is s ÷ (s + F·B), 0.8 at 4 F·B and 0.89 at 8 F·B.
pub const BATCH_SHARE: f64 = 0.8;

/// Record sizes of databases: a small row's log record, a filesystem block, a PostgreSQL page.
const RECORDS: [f64; 3] = [256.0, 4096.0, 8192.0];

/// `None` unless both the write and its bytes cost something.
pub(super) fn batch_advice(model: &CostModel, largest: f64, smallest: f64) -> Option<BatchAdvice> {
    let per_byte_beyond =
        model.bend.as_ref().map_or(model.ns_per_byte.value, |bend| bend.ns_per_byte_above.value);
    if model.fixed_ns.value <= 0.0 || model.ns_per_byte.value <= 0.0 || per_byte_beyond <= 0.0 {
        return None;
    }
    let asymptote = 1.0 / per_byte_beyond;
    let at_bend = model.bend.as_ref().map_or(0.0, |bend| rate(model, bend.at_bytes));
    // Where bytes cost more beyond the bend, the bandwidth is highest at the bend itself.
    let highest = asymptote.max(at_bend);
    let share = |size: f64| SizeShare {
        size_bytes: size,
        share: rate(model, size) / highest,
        is_extrapolated: size > largest,
    };
    let for_shares: Vec<SizeShare> =
        SHARES.iter().filter_map(|share| size_for(model, share * highest)).map(share).collect();
    // Within the measured sizes: beyond them the line is only extended, and no advice rests on
    // that.
    let batch = size_for(model, BATCH_SHARE * highest)?.min(largest).max(smallest);
    let unbatched = RECORDS.iter().filter(|record| **record < batch);
    Some(BatchAdvice {
        bandwidth_bytes_per_second: highest * 1e9,
        of_records: RECORDS.iter().map(|record| alone(model, *record, smallest, highest)).collect(),
        batch_bytes: batch,
        unbatched: unbatched.map(|record| price(model, *record, batch, smallest)).collect(),
        for_shares,
    })
}

/// Bytes per nanosecond with writes of a size.
fn rate(model: &CostModel, size: f64) -> f64 {
    size / model.latency_ns(size)
}

fn alone(model: &CostModel, record: f64, smallest: f64, highest: f64) -> SizeShare {
    let reached = record / model.latency_ns(record.max(smallest));
    SizeShare { size_bytes: record, share: reached / highest, is_extrapolated: record < smallest }
}

fn price(model: &CostModel, record: f64, batch: f64, smallest: f64) -> UnbatchedCost {
    // A batch holds whole records.
    let records_per_batch = (batch / record).floor();
    let each = model.latency_ns(record.max(smallest));
    let factor = records_per_batch * each / model.latency_ns(records_per_batch * record);
    UnbatchedCost { record_bytes: record, records_per_batch, factor }
}

/// The smallest size with this many bytes per nanosecond: s = F · r ÷ (1 − a · r) on each of the
/// line's pieces, F its value at zero and a its slope.
fn size_for(model: &CostModel, rate: f64) -> Option<f64> {
    let on = |fixed: f64, slope: f64| {
        let size = fixed * rate / (1.0 - slope * rate);
        (slope * rate < 1.0 && size > 0.0).then_some(size)
    };
    let (fixed, slope) = (model.fixed_ns.value, model.ns_per_byte.value);
    let first = on(fixed, slope);
    let Some(bend) = &model.bend else { return first };
    let above = bend.ns_per_byte_above.value;
    let second = || on(fixed + (slope - above) * bend.at_bytes, above);
    first.filter(|size| *size <= bend.at_bytes).or_else(second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost_model::{SizeCost, fit};

    fn model(cost: impl Fn(f64) -> f64) -> CostModel {
        let sizes = (0..9).map(|power| 4096.0 * f64::from(1 << power));
        let point = |size_bytes| SizeCost { size_bytes, latency_ns: cost(size_bytes) };
        fit(&sizes.map(point).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_size_for_a_share_follows_from_fixed_cost_and_bandwidth() {
        // 1 ms, and a byte per nanosecond: half of the bandwidth with 1 MB, 80 % with 4, 95 % with 19.
        let found = batch_advice(&model(|size| 1e6 + size), 1_048_576.0, 4096.0).unwrap();
        let sizes: Vec<f64> = found.for_shares.iter().map(|share| share.size_bytes / 1e6).collect();
        for (found, planted) in sizes.iter().zip([1.0, 4.0, 19.0]) {
            assert!((found / planted - 1.0).abs() < 1e-6, "{sizes:?}");
        }
        let beyond: Vec<bool> =
            found.for_shares.iter().map(|share| share.is_extrapolated).collect();
        assert_eq!(beyond, [false, true, true]);
        assert!((found.bandwidth_bytes_per_second / 1e9 - 1.0).abs() < 1e-6);
        assert!((found.batch_bytes - 1_048_576.0).abs() < 1e-6, "no larger than what was measured");
    }

    #[test]
    fn the_price_of_doing_without_batches_is_the_fixed_cost_again_and_again() {
        let found = batch_advice(&model(|size| 1e6 + size), 1_048_576.0, 4096.0).unwrap();
        let small = found.unbatched[0];
        assert!((small.records_per_batch - 4096.0).abs() < 1e-9);
        let planted = 4096.0 * (1e6 + 4096.0) / (1e6 + 1_048_576.0);
        assert!((small.factor / planted - 1.0).abs() < 1e-6, "{small:?}");
        assert!(found.of_records[0].is_extrapolated && !found.of_records[1].is_extrapolated);
        assert!((found.of_records[1].share - 4096.0 / (1e6 + 4096.0)).abs() < 1e-6);
    }

    #[test]
    fn beyond_a_bend_the_second_line_counts() {
        let at = 65_536.0;
        let bent = |size: f64| 1e5 + 0.1 * size + 0.9 * (size - at).max(0.0);
        let model = model(bent);
        assert!(model.bend.is_some());
        for rate in [0.2, 0.5, 0.9] {
            let size = size_for(&model, rate).unwrap();
            assert!((size / bent(size) / rate - 1.0).abs() < 1e-6, "{rate}: {size}");
        }
    }

    #[test]
    fn a_write_that_costs_nothing_needs_no_batch() {
        assert_eq!(
            batch_advice(&model(|size| size), 1e6, 4096.0)
                .map(|advice| advice.for_shares.len())
                .unwrap_or(0),
            0
        );
    }

    #[test]
    fn the_reference_batch_has_four_fifths_of_the_bandwidth() {
        let found = batch_advice(&model(|size| 1e6 + size), 1e8, 4096.0).unwrap();
        assert!((found.batch_bytes / 4e6 - 1.0).abs() < 1e-6, "{found:?}");
        // Some 15 625 records of 256 bytes, each of which costs what 4 KiB do.
        let small = found.unbatched[0];
        let records = small.records_per_batch;
        assert!((records - 15_625.0).abs() < 1.5, "{small:?}");
        let factor = records * 1_004_096.0 / (1e6 + 256.0 * records);
        assert!((small.factor / factor - 1.0).abs() < 1e-6, "{small:?}");
    }
}
