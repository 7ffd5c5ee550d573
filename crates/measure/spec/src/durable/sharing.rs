//! Experiments about many writers: on one file and on a file each, by size, and sharing a log's syncs.

use durio_base::{Bytes, Nanos};
use durio_workload::{CacheMode, CommitterThreads, GroupCommit, SyncMethod, Workload};

use super::methods::{RECORD, Slicing};
use super::parts::{
    AxisChoices, DurablePoint, PointFiles, PointSpan, bytes_level, count_level, durable, level,
    named, shared,
};
use super::room::FileRoom;

// fdatasync past the page cache: the contention is below the filesystem's locks, or in them.
fn writing(block_size: Bytes) -> Workload {
    durable(block_size, SyncMethod::Fdatasync, CacheMode::Direct)
}

/// Writers on one file, and on a file each.
pub(super) fn writers(
    axes: &AxisChoices<'_>,
    room: &FileRoom,
    left_out: &mut Vec<String>,
) -> Slicing {
    let summary = format!(
        "{RECORD}, O_DIRECT and fdatasync each, by 1 to 128 writers on one file and on a file each"
    );
    let all = [1, 2, 4, 8, 16, 32, 64, 128];
    let jobs = axes.values(&all, &[1, 4, 16, 64], named("writers"), left_out);
    let point = |jobs| {
        let levels = vec![count_level("jobs", jobs), level("files", 0.0, "one file")];
        DurablePoint::new(shared(jobs, writing(RECORD)), levels)
    };
    let own = |jobs| {
        let levels = vec![count_level("jobs", jobs), level("files", 1.0, "a file each")];
        let workload = Workload { jobs, ..writing(RECORD) };
        DurablePoint { files: PointFiles::OwnLogs(jobs), ..DurablePoint::new(workload, levels) }
    };
    let mut points: Vec<DurablePoint> = jobs.iter().copied().map(point).collect();
    if room.makes_files {
        // One writer on the shared file is the same as one writer with its own file.
        points.extend(jobs.into_iter().filter(|&jobs| jobs > 1).map(own));
    } else {
        left_out.push("writers: a file each, for only in a directory files can be made".into());
    }
    (summary, points)
}

/// Sizes and writers, each cell writing the same volume if the time allows.
pub(super) fn sizes_and_writers(
    axes: &AxisChoices<'_>,
    room: &FileRoom,
    left_out: &mut Vec<String>,
) -> Slicing {
    let summary = "sizes and writers on one file, O_DIRECT and fdatasync each, at equal volume";
    let sizes = [4, 16, 64, 256, 1024].map(Bytes::from_kib);
    let quick = [sizes[0], sizes[2], sizes[4]];
    let sizes = axes.values(&sizes, &quick, named("size"), left_out);
    let jobs = axes.values(&[1, 4, 16, 64], &[1, 16], named("writers"), left_out);
    // At equal volume the times tell whether the number of writes limits or their bytes.
    let volume = room.log.min(Bytes::from_mib(64));
    let mut points = Vec::new();
    for &size in &sizes {
        for &jobs in &jobs {
            let levels = vec![bytes_level("block_size", size), count_level("jobs", jobs)];
            let workload = shared(jobs, writing(size));
            points.push(DurablePoint {
                span: PointSpan::Within(volume),
                ..DurablePoint::new(workload, levels)
            });
        }
    }
    (summary.to_owned(), points)
}

// Most records of databases are smaller than a sector; some write whole pages.
const SMALL_RECORD: Bytes = Bytes::new(256);
const PAGE_RECORD: Bytes = Bytes::from_kib(8);

/// Committers that share a log's syncs against as many independent writers.
pub(super) fn group_commit(axes: &AxisChoices<'_>, left_out: &mut Vec<String>) -> Slicing {
    let summary = "committers that share the syncs of one log, and as many independent writers, \
                   buffered and fdatasync each";
    let all = [SMALL_RECORD, PAGE_RECORD];
    let records = axes.values(&all, &all[..1], named("records of"), left_out);
    let mut points = Vec::new();
    for record in records {
        // One is the control: alone, a log does the work of a writer, and the difference is its own
        // cost.
        for committers in [1, 8, 64] {
            let arms = [SharingArm::Group, SharingArm::Independent];
            points.extend(arms.map(|arm| committing(arm, committers, record)));
        }
    }
    let threads = [SharingArm::GroupOfThreads];
    let words = |_| "64 committers with a thread each".to_owned();
    let with_threads = axes.values(&threads, &[], words, left_out);
    points.extend(with_threads.into_iter().map(|arm| committing(arm, 64, SMALL_RECORD)));
    (summary.to_owned(), points)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SharingArm {
    Group,
    Independent,
    GroupOfThreads,
}

fn committing(arm: SharingArm, committers: u32, record: Bytes) -> DurablePoint {
    let log = durable(record, SyncMethod::Fdatasync, CacheMode::Buffered);
    let policy = GroupCommit::of(committers);
    let threads = CommitterThreads::OneEach;
    let (arm, workload) = match arm {
        SharingArm::Group => {
            (level("arm", 0.0, "group commit"), Workload { group_commit: Some(policy), ..log })
        }
        SharingArm::Independent => {
            (level("arm", 1.0, "independent writers"), shared(committers, log))
        }
        SharingArm::GroupOfThreads => {
            let group_commit = Some(GroupCommit { threads, ..policy });
            (level("arm", 2.0, "group commit, a thread each"), Workload { group_commit, ..log })
        }
    };
    let levels = vec![count_level("committers", committers), arm, bytes_level("record", record)];
    DurablePoint::new(workload, levels)
}

// PostgreSQL's default of commit_siblings (its documentation, "Write Ahead Log" settings).
const SIBLINGS: u32 = 5;

/// A delay that gathers more records, and a bound on the batch.
// With a thread each, for virtual committers of one thread are all there when the batch before is
// acknowledged: nothing would be left to wait for.
pub(super) fn commit_delay(axes: &AxisChoices<'_>, left_out: &mut Vec<String>) -> Slicing {
    let summary = "64 committers with a thread each: how long a leader waits for more records, and \
                   how many bytes a batch has at most";
    // PostgreSQL's documents advise half of a flush: these are halves of 0.1 to 10 ms, from drives
    // with protected caches to disks.
    let delays = [0, 50, 100, 200, 500, 1000, 2000, 5000].map(Nanos::from_micros);
    let quick = [delays[0], delays[3], delays[5]];
    let delays = axes.values(&delays, &quick, named("delay"), left_out);
    let bounds = [GroupCommit::BATCH_MAX_DEFAULT, Bytes::from_kib(4)];
    let bounds = axes.values(&bounds, &bounds[..1], named("batches of"), left_out);
    let mut points = Vec::new();
    for &batch_max in &bounds {
        for &delay in &delays {
            points.push(delayed(delay, batch_max));
        }
    }
    (summary.to_owned(), points)
}

fn delayed(delay: Nanos, batch_max: Bytes) -> DurablePoint {
    let policy = GroupCommit {
        threads: CommitterThreads::OneEach,
        delay,
        siblings: SIBLINGS,
        batch_max,
        ..GroupCommit::of(64)
    };
    let log = durable(SMALL_RECORD, SyncMethod::Fdatasync, CacheMode::Buffered);
    #[expect(clippy::cast_precision_loss, reason = "delays are far below 2^53 ns")]
    let delay = level("delay", delay.get() as f64, delay.to_string());
    let levels = vec![delay, bytes_level("batch_max", batch_max)];
    DurablePoint::new(Workload { group_commit: Some(policy), ..log }, levels)
}
