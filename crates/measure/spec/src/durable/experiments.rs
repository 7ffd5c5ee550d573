//! The experiments: what each says of itself, and its points.
//!
//! How a write is made durable (commands, sync calls, methods, sync every, flush slope); contents
//! and places of writes (file modes, sizes, the whole cross); many writers on one file, on a file
//! each, and sharing a log's syncs.

use durio_base::{Bytes, Nanos};
use durio_plan::{EngineKind, FileLayout, Role};
use durio_workload::{
    CacheMode, CommitterThreads, Coverage, GroupCommit, Pattern, Region, SyncMethod, SyncPolicy,
    Workload,
};

use super::DurableLength;
use super::parts::{
    AxisChoices, DurablePoint, LAYOUTS, PointFiles, PointSpan, bytes_level, cache_level,
    count_level, durable, layout_level, level, method_level, named, shared,
};
use super::room::FileRoom;

/// What an experiment says of itself, and its points.
pub(super) type Slicing = (String, Vec<DurablePoint>);

/// Every durable method, and the engine that it needs. A method that is added to [`SyncMethod`] is
/// added here, and is then part of every experiment that compares methods.
pub(super) const METHODS: &[(SyncMethod, EngineKind)] = &[
    (SyncMethod::Fsync, EngineKind::Sync),
    (SyncMethod::Fdatasync, EngineKind::Sync),
    (SyncMethod::OSync, EngineKind::Sync),
    (SyncMethod::ODsync, EngineKind::Sync),
    (SyncMethod::RwfSync, EngineKind::Sync),
    (SyncMethod::RwfDsync, EngineKind::Sync),
    // By itself it flushes no device's cache (sync_file_range(2)): an fdatasync follows it.
    (SyncMethod::FileRange, EngineKind::Sync),
    // Only io_uring links a sync to the write before it.
    (SyncMethod::LinkedFsync, EngineKind::Uring),
    (SyncMethod::LinkedFdatasync, EngineKind::Uring),
];

/// The record of the experiments that do not vary its size.
// A page of the page cache, and the smallest block that every device takes past it.
pub(super) const RECORD: Bytes = Bytes::from_kib(4);

pub(super) const CACHES: [CacheMode; 2] = [CacheMode::Direct, CacheMode::Buffered];

/// Commits that are traced or probed.
// Enough to separate each commit's requests from chance ones.
const PROBED: u64 = 20;

/// Files of traced commits: the probed commits fit many times.
const PROBED_FILE: Bytes = Bytes::from_mib(1);

/// Which requests a commit sends: each method on a recycled log, and each file mode.
pub(super) fn commands(length: DurableLength, room: &FileRoom) -> Slicing {
    let summary = "the requests that a commit sends to the device, per method and file mode";
    let layouts = if room.makes_files { &LAYOUTS[..] } else { &LAYOUTS[..1] };
    let mut points = Vec::new();
    for &layout in layouts {
        for &(method, engine) in METHODS {
            // A recycled log shows the method's effect, fdatasync the file mode's.
            let is_wanted = layout == FileLayout::Incompressible
                || length != DurableLength::Quick
                || method == SyncMethod::Fdatasync;
            if is_wanted {
                points.push(traced(method, engine, layout, CacheMode::Buffered));
            }
        }
    }
    for &(method, engine) in METHODS {
        points.push(traced(method, engine, FileLayout::Incompressible, CacheMode::Direct));
    }
    (summary.to_owned(), points)
}

fn traced(
    method: SyncMethod,
    engine: EngineKind,
    layout: FileLayout,
    cache: CacheMode,
) -> DurablePoint {
    let levels = vec![method_level(method), layout_level(layout), cache_level(cache)];
    let files = match layout {
        FileLayout::Incompressible => PointFiles::Log,
        layout => PointFiles::Fresh { layout, size: PROBED_FILE, count: 1 },
    };
    let workload = durable(RECORD, method, cache);
    let role = Role::Trace;
    let span = PointSpan::Operations(PROBED);
    DurablePoint { engine, files, role, span, ..DurablePoint::new(workload, levels) }
}

/// The C library's sync calls against the kernel's own.
pub(super) fn sync_calls() -> Slicing {
    let summary = "whether sync calls reach the device, through the C library and without it";
    let workload = durable(RECORD, SyncMethod::Fsync, CacheMode::Buffered);
    let role = Role::ProbeSyncCalls;
    let span = PointSpan::Operations(PROBED);
    (
        summary.to_owned(),
        vec![DurablePoint { role, span, ..DurablePoint::new(workload, Vec::new()) }],
    )
}

/// Each method past and through the page cache; methods that are not durable come last.
pub(super) fn methods() -> Slicing {
    let summary =
        format!("{RECORD} by one writer into a recycled log: each way to make a write durable");
    let unsynced = (SyncMethod::None, EngineKind::Sync);
    let point = |&(method, engine): &(SyncMethod, EngineKind), cache| {
        let levels = vec![method_level(method), cache_level(cache)];
        DurablePoint { engine, ..DurablePoint::new(durable(RECORD, method, cache), levels) }
    };
    let methods = METHODS.iter().chain([&unsynced]);
    let points = methods.flat_map(|method| CACHES.map(|cache| point(method, cache)));
    (summary, points.collect())
}

/// A sync after every N writes through the page cache.
pub(super) fn sync_every(axes: &AxisChoices<'_>, left_out: &mut Vec<String>) -> Slicing {
    let summary = format!("{RECORD} by one writer, buffered, and fdatasync after every N writes");
    let all = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
    let quick = [1, 4, 16, 64, 256, 1024];
    let point = |every| {
        let sync = SyncPolicy { method: SyncMethod::Fdatasync, every };
        let workload = durable(RECORD, SyncMethod::Fdatasync, CacheMode::Buffered);
        DurablePoint::new(Workload { sync, ..workload }, vec![count_level("every", every)])
    };
    let values = axes.values(&all, &quick, named("every"), left_out);
    (summary, values.into_iter().map(point).collect())
}

/// N writes past the page cache at random places, then a flush: all its work is in the device.
pub(super) fn flush_slope(axes: &AxisChoices<'_>, left_out: &mut Vec<String>) -> Slicing {
    let summary = format!("the time of a flush after N random writes of {RECORD}, O_DIRECT");
    let all = [1, 4, 16, 64, 256, 1024];
    let quick = [1, 8, 64, 256];
    // Where hundreds of writes come before each flush, time for one second share of them.
    let span = |every| PointSpan::Shares(if every >= 256 { 2 } else { 1 });
    let point = |every| {
        let workload = Workload {
            pattern: Pattern::Random,
            // Scattered, and no block twice: where the device's cache joins or replaces them, N
            // writes would be less than N to flush, and the slope flat without a lie.
            coverage: Coverage::EachOnce,
            sync: SyncPolicy { method: SyncMethod::Fdatasync, every },
            ..durable(RECORD, SyncMethod::Fdatasync, CacheMode::Direct)
        };
        DurablePoint {
            span: span(every),
            ..DurablePoint::new(workload, vec![count_level("every", every)])
        }
    };
    let values = axes.values(&all, &quick, named("every"), left_out);
    (summary, values.into_iter().map(point).collect())
}

/// Each file mode until its file is full: then it would be another one.
pub(super) fn file_modes(
    axes: &AxisChoices<'_>,
    room: &FileRoom,
    left_out: &mut Vec<String>,
) -> Slicing {
    let summary = format!(
        "{RECORD} by one writer, buffered, into a log that is recycled, zero-filled, preallocated \
         or grows"
    );
    let all = [SyncMethod::Fdatasync, SyncMethod::Fsync, SyncMethod::ODsync];
    let words = |method: SyncMethod| method.name().to_owned();
    let methods = axes.values(&all, &all[..1], words, left_out);
    let mut points = Vec::new();
    for layout in LAYOUTS {
        for &method in &methods {
            let files = match layout {
                FileLayout::Incompressible => PointFiles::Log,
                layout => PointFiles::Fresh { layout, size: room.fresh, count: 1 },
            };
            let levels = vec![layout_level(layout), method_level(method)];
            let workload = durable(RECORD, method, CacheMode::Buffered);
            // Until it is full: later writes would overwrite blocks, and on ext4 fdatasync is a
            // quarter faster there (docs/design/0003).
            let span = PointSpan::Within(room.fresh);
            points.push(DurablePoint { files, span, ..DurablePoint::new(workload, levels) });
        }
    }
    (summary, points)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

// From the smallest sector to well beyond the largest request of the block layer.
const SIZES: [u64; 16] = [
    512,
    KIB,
    2 * KIB,
    4 * KIB,
    8 * KIB,
    16 * KIB,
    32 * KIB,
    64 * KIB,
    128 * KIB,
    256 * KIB,
    512 * KIB,
    MIB,
    2 * MIB,
    4 * MIB,
    8 * MIB,
    16 * MIB,
];

const SIZES_QUICK: [u64; 6] = [512, 4 * KIB, 32 * KIB, 256 * KIB, 2 * MIB, 16 * MIB];

/// From this size on a write takes so long that a step has twice the time.
const LARGE: u64 = 4 * MIB;

/// Unsynced writes stay within this part of the log. Dirty pages are flushed before the next step.
const UNSYNCED_REGION: Bytes = Bytes::from_mib(16);

/// How the writes of `sizes` are made, and whether they are durable; the unsynced arm comes last.
const ARMS: [(SyncMethod, CacheMode, &str); 4] = [
    (SyncMethod::Fdatasync, CacheMode::Direct, "fdatasync, direct"),
    (SyncMethod::ODsync, CacheMode::Direct, "o_dsync, direct"),
    (SyncMethod::Fdatasync, CacheMode::Buffered, "fdatasync, buffered"),
    (SyncMethod::None, CacheMode::Buffered, "unsynced, buffered"),
];

/// One writer's writes by size, durable and not.
pub(super) fn sizes(
    axes: &AxisChoices<'_>,
    room: &FileRoom,
    left_out: &mut Vec<String>,
) -> Slicing {
    let summary = "writes of 512 B to 16 MiB by one writer into a recycled log, durable and not";
    let sizes = axes.values(&SIZES, &SIZES_QUICK, |size| Bytes::new(size).to_string(), left_out);
    let places = [0, 1, 2, 3];
    let words = |place: usize| ARMS[place].2.to_owned();
    let arms = axes.values(&places, &[0, 2, 3], words, left_out);
    let mut points = Vec::new();
    for (number, arm) in (0_u32..).zip(arms) {
        for &size in &sizes {
            points.push(sized(ARMS[arm], number, Bytes::new(size), room));
        }
    }
    (summary.to_owned(), points)
}

fn sized(
    (method, cache, label): (SyncMethod, CacheMode, &str),
    number: u32,
    size: Bytes,
    room: &FileRoom,
) -> DurablePoint {
    let levels =
        vec![bytes_level("block_size", size), level("durability", f64::from(number), label)];
    let length = room.log.min(UNSYNCED_REGION.max(size));
    let within = (method == SyncMethod::None).then_some(Region { offset: Bytes::ZERO, length });
    let workload = Workload { within, ..durable(size, method, cache) };
    let span = PointSpan::Shares(if size.get() >= LARGE { 2 } else { 1 });
    DurablePoint { span, engine: EngineKind::Sync, ..DurablePoint::new(workload, levels) }
}

/// The most time per cell: fifty commits of a device that answers in 20 ms.
const CELL: Nanos = Nanos::from_secs(1);

/// The cells. Each writer has a separate file, because growing files cannot be shared.
pub(super) fn cross(room: &FileRoom) -> Slicing {
    let summary = "every method in every file mode, at every size, by writers with a file each";
    let mut points = Vec::new();
    // 864 cells of a second at most: the better part of the twenty minutes of --thorough.
    for size in [512, 4 << 10, 64 << 10, 1 << 20].map(Bytes::new) {
        for jobs in [1, 8, 64] {
            for layout in LAYOUTS {
                for cache in CACHES {
                    points.extend(cells(room, size, jobs, (layout, cache)));
                }
            }
        }
    }
    (summary.to_owned(), points)
}

fn cells(
    room: &FileRoom,
    size: Bytes,
    jobs: u32,
    (layout, cache): (FileLayout, CacheMode),
) -> impl Iterator<Item = DurablePoint> {
    let each = Bytes::new(room.fresh.get() / u64::from(jobs)).rounded_down_to(size);
    // Recycled logs are measured even without room for fresh ones.
    let volume = Bytes::new(each.max(size).get() * u64::from(jobs));
    METHODS.iter().map(move |&(method, engine)| {
        let files = match (layout, jobs) {
            (FileLayout::Incompressible, 1) => PointFiles::Log,
            (FileLayout::Incompressible, jobs) => PointFiles::OwnLogs(jobs),
            (layout, count) => PointFiles::Fresh { layout, size: each, count },
        };
        let levels = vec![
            bytes_level("block_size", size),
            count_level("jobs", jobs),
            layout_level(layout),
            cache_level(cache),
            method_level(method),
        ];
        let workload = Workload { jobs, ..durable(size, method, cache) };
        DurablePoint {
            engine,
            files,
            span: PointSpan::Fixed(CELL, volume),
            ..DurablePoint::new(workload, levels)
        }
    })
}

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
        left_out.push("writers: a file each, which needs a directory".into());
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
