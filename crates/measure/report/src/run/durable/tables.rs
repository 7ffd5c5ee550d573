//! The tables of the cost of durable writes.
//!
//! Makes [`Table`]s from findings; the sentences are elsewhere.

use durio_analyse::durable::{
    ArmLatencies, CommandsFindings, CommitDelayFindings, CrossFindings, DeviceWork, DurableArm,
    DurableShare, FileModesFindings, FlushSlopeFindings, GroupCommitFindings, MethodRow,
    MethodsFindings, SizesFindings, SyncEveryFindings, WritersFindings,
};
use durio_base::Bytes;
use durio_workload::{CommitterThreads, SyncMethod};

use super::{layout_word, method_word, method_words};
use crate::document::{Cell, Section, Table};
use crate::figures::{decimal, precise};
use crate::run::machine::cache_name;

// Stands in the place of a share that cannot be: a sync does not make a write faster.
const NOISE: &str = "noise";

fn of_unsynced(share: Option<f64>) -> Cell {
    Cell::of(share, |it| if it > 1.0 { Cell::text(NOISE) } else { Cell::Share(it) })
}

/// The table, with a note below if it has a share that is noise.
pub(super) fn with_noise_note(table: Table, part: &mut Section) {
    let mut cells = table.rows.iter().flat_map(|row| &row.cells);
    let has_noise = cells.any(|cell| *cell == Cell::text(NOISE));
    part.table(table);
    if has_noise {
        let text = "durable writes were faster than the same without a sync, which cannot be: other \
                    work disturbed them differently; a longer run tells more";
        part.fact("noise", text);
    }
}

fn method(arm: &DurableArm) -> Cell {
    Cell::Text(method_words(&arm.setting))
}

fn layout(arm: &DurableArm) -> Cell {
    Cell::text(layout_word(arm.setting.layout))
}

fn block(arm: &DurableArm) -> Cell {
    Cell::Bytes(arm.setting.block_size.get())
}

fn jobs(arm: &DurableArm) -> Cell {
    Cell::Count(arm.setting.jobs.into())
}

fn committers(arm: &DurableArm) -> Cell {
    Cell::Count(arm.setting.committers().into())
}

fn rate(arm: &DurableArm) -> Cell {
    let rate = arm.figures.as_ref().map(|it| Cell::Rate(it.rate_per_second));
    // In this column, which every table has; the others stay empty.
    rate.unwrap_or_else(|| Cell::text("not measured"))
}

fn bandwidth(arm: &DurableArm) -> Cell {
    Cell::of(arm.figures.as_ref(), |it| Cell::Bandwidth(it.bandwidth_bytes_per_second))
}

fn mean(arm: &DurableArm) -> Cell {
    Cell::of(arm.figures.as_ref(), |it| Cell::Latency(it.latency.mean_ns))
}

fn percentile(arm: &DurableArm, of: fn(&ArmLatencies) -> Option<u64>) -> Cell {
    Cell::of(arm.figures.as_ref(), |it| Cell::percentile(of(&it.latency)))
}

fn p50(arm: &DurableArm) -> Cell {
    percentile(arm, |it| it.p50_ns)
}

fn p99(arm: &DurableArm) -> Cell {
    percentile(arm, |it| it.p99_ns)
}

fn device(arm: &DurableArm, of: fn(DeviceWork) -> Option<f64>) -> Cell {
    Cell::of(arm.figures.as_ref().and_then(|it| of(it.device?)), Cell::Number)
}

fn flushes(arm: &DurableArm) -> Cell {
    device(arm, |it| it.flushes_per_commit)
}

fn writes(arm: &DurableArm) -> Cell {
    device(arm, |it| Some(it.writes_per_commit))
}

fn device_bytes(arm: &DurableArm) -> Cell {
    device(arm, |it| Some(it.bytes_per_byte))
}

fn batch(arm: &DurableArm) -> Cell {
    let batches = arm.figures.as_ref().and_then(|it| it.batches.as_ref());
    let words = |mean, max| format!("{} (max {max})", decimal(mean));
    Cell::of(batches, |it| Cell::Text(words(it.records_mean, it.records_max)))
}

fn times(factor: Option<f64>) -> Cell {
    Cell::of(factor, |it| Cell::text(format!("{} ×", decimal(it))))
}

pub(super) fn methods(found: &MethodsFindings) -> Table {
    table_of_methods(&found.rows)
}

/// The methods that databases use by default, the fastest, and the unsynced write for contrast.
pub(super) fn methods_of_databases(found: &MethodsFindings) -> Table {
    const USED: [SyncMethod; 3] = [SyncMethod::Fsync, SyncMethod::Fdatasync, SyncMethod::ODsync];
    let is_shown = |(at, row): &(usize, &MethodRow)| {
        let setting = &row.arm.setting;
        !setting.is_durable() || USED.contains(&setting.method) || found.fastest == Some(*at)
    };
    let rows = found.rows.iter().enumerate().filter(is_shown);
    table_of_methods(rows.map(|(_, row)| row))
}

fn table_of_methods<'f>(rows: impl IntoIterator<Item = &'f MethodRow>) -> Table {
    Table::with_columns(
        rows,
        [
            ("method", |it| Cell::text(method_word(&it.arm.setting))),
            ("cache", |it| Cell::text(cache_name(it.arm.setting.cache))),
            ("per second", |it| rate(&it.arm)),
            ("p50", |it| p50(&it.arm)),
            ("p99", |it| p99(&it.arm)),
            ("p99.9", |it| percentile(&it.arm, |it| it.p99_9_ns)),
            ("flushes", |it| flushes(&it.arm)),
            ("of unsynced", |it| of_unsynced(it.share_of_unsynced)),
            ("of best", |it| Cell::of(it.share_of_best, Cell::Share)),
        ],
    )
}

pub(super) fn commands(found: &[CommandsFindings]) -> Table {
    let rows = found.iter().flat_map(|it| {
        let sequences = it.short.iter().zip(&it.traced.sequences);
        sequences.map(move |(short, sequence)| (it, short, sequence))
    });
    Table::with_columns(
        rows,
        [
            ("method", |(it, ..)| Cell::text(format!("{} {}", it.method, cache_name(it.cache)))),
            ("file", |(it, ..)| Cell::text(layout_word(it.layout))),
            ("requests per commit", |(_, short, _)| Cell::text(*short)),
            ("commits", |(it, _, sequence)| {
                Cell::text(format!("{} of {}", sequence.commits, it.traced.commits))
            }),
            ("time", |(.., sequence)| Cell::nanos(sequence.commit.get())),
        ],
    )
}

pub(super) fn file_modes(found: &[FileModesFindings]) -> Table {
    Table::with_columns(
        found.iter().flat_map(|it| &it.rows),
        [
            ("file", |it| layout(&it.arm)),
            ("method", |it| method(&it.arm)),
            ("per second", |it| rate(&it.arm)),
            ("p50", |it| p50(&it.arm)),
            ("p99", |it| p99(&it.arm)),
            ("flushes", |it| flushes(&it.arm)),
            ("writes", |it| writes(&it.arm)),
            ("device bytes", |it| device_bytes(&it.arm)),
            ("of recycled", |it| Cell::of(it.share_of_recycled, Cell::Share)),
        ],
    )
}

pub(super) fn sizes(found: &SizesFindings) -> Table {
    let rows = found.curves.iter().enumerate().flat_map(|(at, curve)| {
        curve.arms.iter().map(move |arm| {
            let is_its = |it: &&DurableShare| {
                it.durable_curve == at && is_same(it.size_bytes, arm.setting.block_size)
            };
            (arm, found.shares.iter().find(is_its).map(|it| it.share))
        })
    });
    Table::with_columns(
        rows,
        [
            ("method", |it| method(it.0)),
            ("size", |it| block(it.0)),
            ("per second", |it| rate(it.0)),
            ("bandwidth", |it| bandwidth(it.0)),
            ("mean", |it| mean(it.0)),
            ("p99", |it| p99(it.0)),
            ("device bytes", |it| device_bytes(it.0)),
            ("of unsynced", |it| of_unsynced(it.1)),
        ],
    )
}

/// Whether a computed size is that of these blocks.
fn is_same(size: f64, block: Bytes) -> bool {
    // Sizes of the model are floats, and may miss a whole byte by rounding.
    (size - precise(block.get())).abs() < 0.5
}

pub(super) fn writers(found: &[WritersFindings]) -> Table {
    Table::with_columns(
        found.iter().flat_map(|it| it.rows.iter().map(|row| (it.file_each, row))),
        [
            ("files", |it| Cell::text(if it.0 { "a file each" } else { "one file" })),
            ("writers", |it| jobs(&it.1.arm)),
            ("per second", |it| rate(&it.1.arm)),
            ("total", |it| bandwidth(&it.1.arm)),
            ("per writer", |it| Cell::Bandwidth(it.1.per_writer_bytes_per_second)),
            ("mean", |it| mean(&it.1.arm)),
            ("p99", |it| p99(&it.1.arm)),
            ("efficiency", |it| Cell::of(it.1.efficiency_share, Cell::Share)),
            ("batches gain", |it| times(it.1.batched_gain)),
        ],
    )
}

pub(super) fn crosses(found: &[CrossFindings]) -> Table {
    Table::with_columns(
        found.iter().flat_map(|it| &it.cells),
        [
            ("writers", |it| jobs(&it.arm)),
            ("size", |it| block(&it.arm)),
            ("per second", |it| rate(&it.arm)),
            ("bandwidth", |it| bandwidth(&it.arm)),
            ("time for 1 GiB", |it| Cell::Latency(it.seconds_per_volume * 1e9)),
            ("p99", |it| p99(&it.arm)),
        ],
    )
}

pub(super) fn sync_every(found: &[SyncEveryFindings]) -> Table {
    fn sync(arm: &DurableArm, of: fn(&ArmLatencies) -> Option<u64>) -> Cell {
        let sync = arm.figures.as_ref().and_then(|it| it.sync);
        Cell::of(sync, |it| Cell::percentile(of(&it)))
    }
    Table::with_columns(
        found.iter().flat_map(|it| &it.rows),
        [
            ("method", |it| method(&it.arm)),
            ("N", |it| Cell::Count(it.arm.setting.every.into())),
            ("writes per second", |it| rate(&it.arm)),
            ("per write", |it| Cell::Latency(it.ns_per_write)),
            ("sync p50", |it| sync(&it.arm, |it| it.p50_ns)),
            ("sync p99", |it| sync(&it.arm, |it| it.p99_ns)),
        ],
    )
}

pub(super) fn flush_slopes(found: &[FlushSlopeFindings]) -> Table {
    Table::with_columns(
        found.iter().flat_map(|it| it.points.iter().map(|point| (&it.setting, point))),
        [
            ("method", |it| Cell::Text(method_words(it.0))),
            ("blocks", |it| Cell::Count(it.1.blocks.into())),
            ("dirty data", |it| Cell::bytes(it.1.dirty_bytes)),
            ("flush p50", |it| Cell::Latency(it.1.flush_ns_p50)),
        ],
    )
}

pub(super) fn group_commit(found: &GroupCommitFindings) -> Table {
    let rows = found.rows.iter().flat_map(|row| {
        let log = (&row.arm, row.gain, row.predicted_per_second);
        std::iter::once(log).chain(row.independent.iter().map(|arm| (arm, None, None)))
    });
    let others = found.others.iter().map(|arm| (arm, None, None));
    Table::with_columns(
        rows.chain(others),
        [
            ("committers", |it| committers(it.0)),
            ("arm", |it| log(it.0)),
            ("record", |it| block(it.0)),
            ("commits per second", |it| rate(it.0)),
            ("mean", |it| mean(it.0)),
            ("p99", |it| p99(it.0)),
            ("records per batch", |it| batch(it.0)),
            ("device writes", |it| writes(it.0)),
            ("gain", |it| times(it.1)),
            ("by the model", |it| Cell::of(it.2, Cell::Rate)),
        ],
    )
}

fn log(arm: &DurableArm) -> Cell {
    Cell::text(match arm.setting.group_commit.map(|policy| policy.threads) {
        Some(CommitterThreads::Multiplexed) => "one log",
        Some(CommitterThreads::OneEach) => "one log, a thread each",
        None => "independent",
    })
}

pub(super) fn commit_delays(found: &[CommitDelayFindings]) -> Table {
    let rows = found.iter().flat_map(|it| {
        let advised = it.advice.as_ref().map(|advice| advice.arm);
        it.arms.iter().enumerate().map(move |(at, arm)| (arm, advised == Some(at)))
    });
    Table::with_columns(
        rows,
        [
            ("delay", |it| Cell::of(it.0.setting.group_commit, |it| Cell::nanos(it.delay.get()))),
            ("batch bound", |it| {
                Cell::of(it.0.setting.group_commit, |it| Cell::text(it.batch_max.to_string()))
            }),
            ("committers", |it| committers(it.0)),
            ("commits per second", |it| rate(it.0)),
            ("mean", |it| mean(it.0)),
            ("p99", |it| p99(it.0)),
            ("records per batch", |it| batch(it.0)),
            ("advised", |it| Cell::text(if it.1 { "advised" } else { "" })),
        ],
    )
}

pub(super) fn whole_cross(found: &[DurableArm]) -> Table {
    Table::with_columns(
        found,
        [
            ("method", |it| method(it)),
            ("file", |it| layout(it)),
            ("size", |it| block(it)),
            ("writers", |it| jobs(it)),
            ("per second", |it| rate(it)),
            ("bandwidth", |it| bandwidth(it)),
            ("p50", |it| p50(it)),
            ("p99", |it| p99(it)),
        ],
    )
}
