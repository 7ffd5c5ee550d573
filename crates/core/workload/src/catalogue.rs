//! The workloads that durio ships, each with the software it models.

use durio_base::Bytes;

use crate::{
    AtEnd, CacheMode, GroupCommit, Pattern, PerMille, RegionRule, SyncMethod, SyncPolicy, Workload,
};

/// Which of the laid-out files a shipped workload uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadFile {
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

/// The workloads of `durio check`, in the order in which they run.
pub fn check_workloads() -> Vec<(WorkloadFile, Workload)> {
    vec![
        (WorkloadFile::Log, commit()),
        (WorkloadFile::Segment, commit_etcd()),
        (WorkloadFile::Log, commit_group("commit-group-1", "1 committer", 1)),
        (WorkloadFile::Log, commit_group("commit-group-8", "8 committers", 8)),
        (WorkloadFile::Log, commit_group("commit-group-64", "64 committers", 64)),
        (WorkloadFile::Data, lookup()),
        (WorkloadFile::Data, scan()),
        (WorkloadFile::Data, mixed()),
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

/// etcd's log: records of about 2300 bytes into a segment of 64 × 1000 × 1000 bytes.
// strace results in ahrtr/etcd-issues#6; `SegmentSizeBytes` in etcd's server/storage/wal.
fn commit_etcd() -> Workload {
    Workload {
        read_share: PerMille::NONE,
        block_size: Bytes::new(2300),
        sync: SyncPolicy::each(SyncMethod::Fdatasync),
        cache: CacheMode::Buffered,
        // etcd moves on to a segment that is preallocated too (docs/design/0003).
        at_end: AtEnd::Reallocate,
        ..workload(
            "commit-etcd",
            "etcd's log: 2300 bytes into a preallocated segment, fdatasync each, one writer",
        )
    }
}

/// Transactions of several sessions that share the syncs of one log: records of 256 bytes, batches
/// filled up to 4 KiB.
fn commit_group(name: &str, who: &str, committers: u32) -> Workload {
    let summary = format!(
        "group commit: 256-byte records from {who} into a recycled log, one fdatasync per batch"
    );
    Workload {
        read_share: PerMille::NONE,
        block_size: Bytes::new(256),
        sync: SyncPolicy::each(SyncMethod::Fdatasync),
        cache: CacheMode::Buffered,
        group_commit: Some(GroupCommit::of(committers)),
        ..workload(name, &summary)
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
        // Walking the same blocks, one job would read what another has just brought into a cache:
        // up to 19 % faster than the storage.
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

/// Reads that a null target answers at once: their cost is durio's.
pub fn self_cost_workload(depth: u32) -> Workload {
    Workload {
        pattern: Pattern::Random,
        block_size: Bytes::from_kib(4),
        depth,
        // The null target takes no O_DIRECT.
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
        let groups = ["commit-group-1", "commit-group-8", "commit-group-64"];
        assert_eq!(names[..2], ["commit", "commit-etcd"]);
        assert_eq!(names[2..5], groups);
        assert_eq!(names[5..], ["lookup", "scan", "mixed"]);
        self_cost_workload(32).validate().unwrap();
    }

    #[test]
    fn only_the_commits_are_durable() {
        for (_, workload) in check_workloads() {
            assert_eq!(workload.is_durable(), workload.name.starts_with("commit"));
        }
    }

    #[test]
    fn committers_differ_in_their_number_alone() {
        let groups =
            check_workloads().into_iter().filter_map(|(_, workload)| workload.group_commit);
        let groups: Vec<_> = groups.collect();
        assert_eq!(groups, [1, 8, 64].map(GroupCommit::of));
    }

    #[test]
    fn each_shipped_workload_is_what_its_summary_says() {
        let all = check_workloads();
        let told: Vec<_> = all
            .iter()
            .map(|(files, workload)| {
                let (kib, jobs) = (workload.block_size.get(), workload.jobs);
                let share = workload.read_share.0;
                (*files, kib, share, jobs, workload.depth, workload.sync.method, workload.cache)
            })
            .collect();
        use CacheMode::{Buffered, Direct};
        use SyncMethod::{Fdatasync, None as NoSync};
        let group = (WorkloadFile::Log, 256, 0, 1, 1, Fdatasync, Buffered);
        let expected = [
            (WorkloadFile::Log, 8192, 0, 1, 1, Fdatasync, Direct),
            (WorkloadFile::Segment, 2300, 0, 1, 1, Fdatasync, Buffered),
            group,
            group,
            group,
            (WorkloadFile::Data, 8192, 1000, 8, 4, NoSync, Direct),
            (WorkloadFile::Data, 262_144, 1000, 2, 16, NoSync, Direct),
            (WorkloadFile::Data, 8192, 700, 8, 4, NoSync, Direct),
        ];
        assert_eq!(told, expected);
        let random =
            all.iter().map(|(_, workload)| workload.pattern == Pattern::Random).collect::<Vec<_>>();
        assert_eq!(random, [false, false, false, false, false, true, false, true]);
        assert_eq!(all[1].1.at_end, AtEnd::Reallocate);
        assert_eq!(all[6].1.region, RegionRule::ShareEach);
        let own = self_cost_workload(32);
        let told = (own.block_size, own.depth, own.cache, own.pattern);
        assert_eq!(told, (Bytes::from_kib(4), 32, Buffered, Pattern::Random));
    }
}
