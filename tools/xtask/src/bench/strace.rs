//! strace: system calls of a process and its threads, counted.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

pub(super) type CallCounts = BTreeMap<String, f64>;

/// Below this, a difference in calls per I/O is the start's, not an I/O's.
const NOTABLE: f64 = 0.002;

/// The words that count the calls of `command` into a file.
pub(super) fn wrap(command: Vec<OsString>, file: &Path) -> Vec<OsString> {
    // -f: durio's jobs are threads, and so are fio's here.
    let strace = ["strace", "-f", "-c", "-o"].into_iter().map(OsString::from);
    strace.chain([file.into()]).chain(command).collect()
}

/// Reads the table of `strace -c`: share, seconds, µs per call, calls, errors if any, name.
pub(super) fn parse(text: &str) -> CallCounts {
    text.lines()
        .filter_map(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let name = *columns.last()?;
            let calls = columns.get(3)?.parse().ok()?;
            (name != "total").then(|| (name.to_owned(), calls))
        })
        .collect()
}

/// The calls per I/O of `many` beyond `few`, `operations` I/Os apart; the frequent ones only.
pub(super) fn per_operation(few: &CallCounts, many: &CallCounts, operations: f64) -> CallCounts {
    many.iter()
        .map(|(name, calls)| {
            let start = few.get(name).copied().unwrap_or_default();
            (name.clone(), (calls - start) / operations)
        })
        .filter(|(_, calls)| calls.abs() >= NOTABLE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ------------------
 65.26    0.087823       10977         8         1 futex
 33.31    0.044826          17      2500           io_uring_enter
------ ----------- ----------- --------- --------- ------------------
100.00    0.134567          45      2508         1 total
";

    #[test]
    fn calls_are_the_fourth_column_and_the_total_is_none() {
        let calls = parse(FEW);
        assert_eq!(calls.get("io_uring_enter"), Some(&2500.0));
        assert_eq!(calls.get("futex"), Some(&8.0));
        assert_eq!(calls.len(), 2);
    }

    #[test]
    fn what_the_start_does_cancels() {
        let many = parse(&FEW.replace("2500", "7500").replace("  8  ", "  9  "));
        let calls = per_operation(&parse(FEW), &many, 20_000.0);
        assert_eq!(calls, CallCounts::from([("io_uring_enter".to_owned(), 0.25)]));
    }
}
