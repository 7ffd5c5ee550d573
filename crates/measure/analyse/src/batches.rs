//! The batches of logs with group commit.
//!
//! The counts of each log, from the record, give [`BatchFindings`].

use std::collections::BTreeMap;

use durio_base::stats::least_squares::{quotient, saturating_sum};
use durio_record::Batches;

use crate::BatchFindings;

/// The findings of all logs together; `None` without batches. `record` is the size of every record
/// in bytes, if they have one, `written` are the bytes of their writes, `syncs` their sync calls.
/// The caller adds the devices' counts.
pub(crate) fn batch_findings<'a>(
    logs: impl Iterator<Item = &'a Batches>,
    syncs: u64,
    record: Option<u64>,
    written: u64,
) -> Option<BatchFindings> {
    let (mut sizes, mut padding, mut delayed, mut full) = (BTreeMap::<u32, u64>::new(), 0, 0, 0);
    for log in logs {
        for &(records, count) in &log.sizes {
            let sum = sizes.entry(records).or_default();
            *sum = sum.saturating_add(count);
        }
        padding = log.padding.get().saturating_add(padding);
        delayed = log.delayed.saturating_add(delayed);
        full = log.full.saturating_add(full);
    }
    let sizes: Vec<(u32, u64)> = sizes.into_iter().filter(|(_, count)| *count > 0).collect();
    let count = saturating_sum(sizes.iter().map(|(_, count)| *count));
    let (records_max, _) = *sizes.last()?;
    let each = |&(records, count): &(u32, u64)| u64::from(records).saturating_mul(count);
    let records = saturating_sum(sizes.iter().map(each));
    // Computed from the same batches: a write at the edge of the measured time may be on its other
    // side.
    let of_records = |record: u64| records.saturating_mul(record).saturating_add(padding);
    Some(BatchFindings {
        count,
        records_mean: quotient(records, count),
        records_p50: quantile(&sizes, count, 50),
        records_p99: quantile(&sizes, count, 99),
        records_max,
        commits_per_sync: (syncs > 0).then(|| quotient(records, syncs)),
        padding_share: quotient(padding, record.map_or(written, of_records)),
        delayed_share: quotient(delayed, count),
        full_share: quotient(full, count),
        device_writes_per_commit: None,
        sizes,
    })
}

/// The smallest number of records that `percent` of the batches do not exceed.
fn quantile(sizes: &[(u32, u64)], count: u64, percent: u64) -> u32 {
    // 128 bits: a damaged record may claim any count.
    let rank = (u128::from(count) * u128::from(percent)).div_ceil(100);
    let mut below = 0;
    let found = sizes.iter().find(|(_, count)| {
        below += u128::from(*count);
        below >= rank
    });
    found.or(sizes.last()).map_or(0, |(records, _)| *records)
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;

    use super::*;

    fn log(sizes: &[(u32, u64)], padding: u64) -> Batches {
        Batches { sizes: sizes.to_vec(), padding: Bytes::new(padding), delayed: 5, full: 2 }
    }

    #[test]
    fn logs_are_added_up() {
        let logs = [log(&[(1, 60), (4, 39)], 2800), log(&[(4, 0), (64, 1)], 0)];
        let found = batch_findings(logs.iter(), 50, Some(30), 9999).unwrap();
        assert_eq!((found.count, found.records_max), (100, 64));
        assert_eq!((found.records_p50, found.records_p99), (1, 4));
        assert!((found.records_mean - 2.8).abs() < 1e-9);
        assert_eq!((found.commits_per_sync, found.padding_share), (Some(5.6), 0.25));
        assert_eq!((found.delayed_share, found.full_share), (0.1, 0.04));
        assert_eq!(found.sizes, [(1, 60), (4, 39), (64, 1)]);
    }

    #[test]
    fn no_batch_is_no_finding_and_damaged_counts_do_not_overflow() {
        assert_eq!(batch_findings([].iter(), 0, None, 0), None);
        assert_eq!(batch_findings([log(&[(3, 0)], 0)].iter(), 0, None, 0), None);
        let huge = log(&[(u32::MAX, u64::MAX), (7, u64::MAX)], u64::MAX);
        let found = batch_findings([huge.clone(), huge].iter(), 0, None, 1).unwrap();
        assert_eq!((found.count, found.commits_per_sync), (u64::MAX, None));
    }
}
