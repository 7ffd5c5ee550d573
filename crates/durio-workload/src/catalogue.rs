//! The workloads that durio ships, each with what it stands for.

use durio_units::Bytes;

use crate::{AtEnd, CacheMode, Pattern, PerMille, RegionRule, SyncMethod, SyncPolicy, Workload};

/// Which of the laid-out files a shipped workload uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// The data file: laid out with incompressible contents.
    Data,
    /// The log file: zero-filled, overwritten in place.
    Log,
    /// The log segment: preallocated, unwritten.
    Segment,
}

fn workload(name: &str, summary: &str) -> Workload {
    Workload {
        name: name.to_owned(),
        summary: summary.to_owned(),
        block_size: Bytes::from_kib(8),
        ..Workload::default()
    }
}

/// The five workloads of `durio check`, in the order in which they run.
#[must_use]
pub fn check_workloads() -> Vec<(Files, Workload)> {
    vec![
        (Files::Log, commit()),
        (Files::Segment, commit_etcd()),
        (Files::Data, lookup()),
        (Files::Data, scan()),
        (Files::Data, mixed()),
    ]
}

/// One page into a recycled log, durable: what a commit of PostgreSQL or InnoDB waits for.
fn commit() -> Workload {
    Workload {
        read_share: PerMille::NONE,
        sync: SyncPolicy::each(SyncMethod::Fdatasync),
        ..workload(
            "commit",
            "durable commit: 8 KiB into a recycled log, fdatasync each, one writer",
        )
    }
}

/// etcd's log: records of about 2300 bytes (strace figures in ahrtr/etcd-issues#6) into a segment
/// of 64 × 1000 × 1000 bytes (etcd server/storage/wal, `SegmentSizeBytes`).
fn commit_etcd() -> Workload {
    Workload {
        read_share: PerMille::NONE,
        block_size: Bytes::new(2300),
        sync: SyncPolicy::each(SyncMethod::Fdatasync),
        cache: CacheMode::Buffered,
        at_end: AtEnd::Reallocate,
        ..workload(
            "commit-etcd",
            "etcd's log: 2300 bytes into a preallocated segment, fdatasync each, one writer",
        )
    }
}

/// Index lookups of several sessions.
fn lookup() -> Workload {
    Workload {
        pattern: Pattern::Random,
        jobs: 8,
        depth: 4,
        ..workload("lookup", "index lookup: random 8 KiB reads, 8 jobs with 4 in flight each")
    }
}

/// A parallel table scan.
fn scan() -> Workload {
    Workload {
        block_size: Bytes::from_kib(256),
        region: RegionRule::ShareEach,
        jobs: 2,
        depth: 16,
        ..workload("scan", "table scan: sequential 256 KiB reads, 2 jobs with 16 in flight each")
    }
}

/// Data pages read and written back, without durability.
fn mixed() -> Workload {
    Workload {
        pattern: Pattern::Random,
        read_share: PerMille(700),
        jobs: 8,
        depth: 4,
        ..workload(
            "mixed",
            "data pages: random 8 KiB, 70 % reads, 8 jobs with 4 in flight each, not durable",
        )
    }
}

/// Reads that a null target answers at once: their cost is durio's own.
#[must_use]
pub fn self_cost_workload(depth: u32) -> Workload {
    Workload {
        pattern: Pattern::Random,
        block_size: Bytes::from_kib(4),
        depth,
        cache: CacheMode::Buffered,
        ..workload("self", "durio's own cost per I/O: 4 KiB reads of the null target")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_workload_is_valid_and_named_once() {
        let mut names = Vec::new();
        for (_, workload) in check_workloads() {
            workload.validate().unwrap();
            names.push(workload.name);
        }
        assert_eq!(names, ["commit", "commit-etcd", "lookup", "scan", "mixed"]);
        self_cost_workload(32).validate().unwrap();
    }

    #[test]
    fn only_the_commits_are_durable() {
        let durable: Vec<_> = check_workloads()
            .into_iter()
            .filter(|(_, workload)| workload.is_durable())
            .map(|(_, workload)| workload.name)
            .collect();
        assert_eq!(durable, ["commit", "commit-etcd"]);
    }
}
