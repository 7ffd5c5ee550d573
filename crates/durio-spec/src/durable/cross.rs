//! The whole cross: every method in every file mode, at every size and number of writers.

use durio_plan::FileLayout;
use durio_units::{Bytes, Nanos};
use durio_workload::Workload;

use super::methods::{CACHES, METHODS, Slicing};
use super::parts::{
    Files, LAYOUTS, Point, Span, bytes_level, cache_level, count_level, durable, layout_level,
    method_level,
};
use super::room::Room;

/// Each cell at most: of a device that answers in 20 ms, fifty commits.
const CELL: Nanos = Nanos::from_secs(1);

/// The cells; each writer has a file of its own, for one that grows cannot be shared.
pub(super) fn cross(room: &Room) -> Slicing {
    let summary = "every method in every file mode, at every size, by writers with a file each";
    let mut points = Vec::new();
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
    room: &Room,
    size: Bytes,
    jobs: u32,
    (layout, cache): (FileLayout, durio_workload::CacheMode),
) -> impl Iterator<Item = Point> {
    let each = Bytes::new(room.fresh.get() / u64::from(jobs)).rounded_down_to(size);
    // Of recycled logs also where fresh ones have no room.
    let volume = Bytes::new(each.max(size).get() * u64::from(jobs));
    METHODS.iter().map(move |&(method, engine)| {
        let files = match (layout, jobs) {
            (FileLayout::Incompressible, 1) => Files::Log,
            (FileLayout::Incompressible, jobs) => Files::OwnLogs(jobs),
            (layout, count) => Files::Fresh { layout, size: each, count },
        };
        let levels = vec![
            bytes_level("block_size", size),
            count_level("jobs", jobs),
            layout_level(layout),
            cache_level(cache),
            method_level(method),
        ];
        let workload = Workload { jobs, ..durable(size, method, cache) };
        Point { engine, files, span: Span::Fixed(CELL, volume), ..Point::new(workload, levels) }
    })
}
