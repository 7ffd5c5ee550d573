//! Experiments about how a write is made durable: commands, sync calls, methods, sync every, flush slope.

use durio_base::Bytes;
use durio_plan::{EngineKind, FileLayout, Role};
use durio_workload::{CacheMode, Coverage, Pattern, SyncMethod, SyncPolicy, Workload};

use super::DurableLength;
use super::parts::{
    AxisChoices, DurablePoint, LAYOUTS, PointFiles, PointSpan, cache_level, count_level, durable,
    layout_level, method_level, named,
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
