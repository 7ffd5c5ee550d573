//! Experiments on contents and places of writes: file modes, sizes, and the whole cross of them
//! with methods and writers.

use durio_base::{Bytes, Nanos};
use durio_plan::{EngineKind, FileLayout};
use durio_workload::{CacheMode, Region, SyncMethod, Workload};

use super::methods::{CACHES, METHODS, RECORD, Slicing};
use super::parts::{
    AxisChoices, DurablePoint, LAYOUTS, PointFiles, PointSpan, bytes_level, cache_level,
    count_level, durable, layout_level, level, method_level,
};
use super::room::FileRoom;

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
