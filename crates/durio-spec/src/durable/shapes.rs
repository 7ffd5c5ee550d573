//! Slices about what is written where: file modes and sizes.

use durio_plan::{EngineKind, FileLayout};
use durio_units::Bytes;
use durio_workload::{CacheMode, Region, SyncMethod, Workload};

use super::axes::Axes;
use super::methods::{RECORD, Slicing};
use super::parts::{
    Files, LAYOUTS, Point, Span, bytes_level, durable, layout_level, level, method_level,
};
use super::room::Room;

/// Each file mode until its file is full: then it would be another one.
pub(super) fn file_modes(axes: &Axes<'_>, room: &Room, left_out: &mut Vec<String>) -> Slicing {
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
                FileLayout::Incompressible => Files::Log,
                layout => Files::Fresh { layout, size: room.fresh, count: 1 },
            };
            let levels = vec![layout_level(layout), method_level(method)];
            let workload = durable(RECORD, method, CacheMode::Buffered);
            let span = Span::Within(room.fresh);
            points.push(Point { files, span, ..Point::new(workload, levels) });
        }
    }
    (summary, points)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// 512 B to 16 MiB: from the smallest sector to well beyond what one request of the block layer
/// holds.
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

/// Writes that nobody syncs stay within so much of the log: what is dirty at the end is flushed
/// before the next step.
const UNSYNCED_REGION: Bytes = Bytes::from_mib(16);

/// How the writes of `sizes` are made, and whether they are durable; what is not comes last.
const ARMS: [(SyncMethod, CacheMode, &str); 4] = [
    (SyncMethod::Fdatasync, CacheMode::Direct, "fdatasync, direct"),
    (SyncMethod::ODsync, CacheMode::Direct, "o_dsync, direct"),
    (SyncMethod::Fdatasync, CacheMode::Buffered, "fdatasync, buffered"),
    (SyncMethod::None, CacheMode::Buffered, "unsynced, buffered"),
];

/// One writer's writes by size, durable and not.
pub(super) fn sizes(axes: &Axes<'_>, room: &Room, left_out: &mut Vec<String>) -> Slicing {
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
    room: &Room,
) -> Point {
    let levels =
        vec![bytes_level("block_size", size), level("durability", f64::from(number), label)];
    let length = room.log.min(UNSYNCED_REGION.max(size));
    let within = (method == SyncMethod::None).then_some(Region { offset: Bytes::ZERO, length });
    let workload = Workload { within, ..durable(size, method, cache) };
    let span = Span::Shares(if size.get() >= LARGE { 2 } else { 1 });
    Point { span, engine: EngineKind::Sync, ..Point::new(workload, levels) }
}
