//! The tables of the cost of durable writes.

use durio_analyse::durable::{
    ArmLatencies, CommandsFindings, CommitDelayFindings, CrossFindings, DATABASE_METHODS,
    DeviceWork, DurableArm, DurableShare, FileModesFindings, FlushSlopeFindings,
    GroupCommitFindings, MethodRow, MethodsFindings, SizesFindings, SyncEveryFindings,
    WritersFindings,
};
use durio_base::Bytes;
use durio_workload::CommitterThreads;

use super::{layout_word, method_word, method_words};
use crate::document::{Cell, Section, Table};
use crate::figures::{decimal, precise};
use crate::run::machine::cache_name;

// Stands in the place of a share that cannot be: a sync does not make a write faster.
const NOISE: &str = "noise";

fn of_unsynced(share: Option<f64>) -> Cell {
    Cell::of(share, |share| if share > 1.0 { Cell::text(NOISE) } else { Cell::Share(share) })
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
    let rate = arm.figures.as_ref().map(|figures| Cell::Rate(figures.rate_per_second));
    // In this column, which every table has; the others stay empty.
    rate.unwrap_or_else(|| Cell::text("not measured"))
}

fn bandwidth(arm: &DurableArm) -> Cell {
    Cell::of(arm.figures.as_ref(), |figures| Cell::Bandwidth(figures.bandwidth_bytes_per_second))
}

fn mean(arm: &DurableArm) -> Cell {
    Cell::of(arm.figures.as_ref(), |figures| Cell::Latency(figures.latency.mean_ns))
}

fn percentile(arm: &DurableArm, of: fn(&ArmLatencies) -> Option<u64>) -> Cell {
    Cell::of(arm.figures.as_ref(), |figures| Cell::percentile(of(&figures.latency)))
}

fn p50(arm: &DurableArm) -> Cell {
    percentile(arm, |latency| latency.p50_ns)
}

fn p99(arm: &DurableArm) -> Cell {
    percentile(arm, |latency| latency.p99_ns)
}

fn device(arm: &DurableArm, of: fn(DeviceWork) -> Option<f64>) -> Cell {
    Cell::of(arm.figures.as_ref().and_then(|figures| of(figures.device?)), Cell::Number)
}

fn flushes(arm: &DurableArm) -> Cell {
    device(arm, |work| work.flushes_per_commit)
}

fn writes(arm: &DurableArm) -> Cell {
    device(arm, |work| Some(work.writes_per_commit))
}

fn device_bytes(arm: &DurableArm) -> Cell {
    device(arm, |work| Some(work.bytes_per_byte))
}

fn batch(arm: &DurableArm) -> Cell {
    let batches = arm.figures.as_ref().and_then(|figures| figures.batches.as_ref());
    let words = |mean, max| format!("{} (max {max})", decimal(mean));
    Cell::of(batches, |batch| Cell::Text(words(batch.records_mean, batch.records_max)))
}

fn times(factor: Option<f64>) -> Cell {
    Cell::of(factor, |factor| Cell::text(format!("{} ×", decimal(factor))))
}

pub(super) fn methods(found: &MethodsFindings) -> Table {
    table_of_methods(&found.rows)
}

/// The methods that databases use by default in their order, the fastest, and the unsynced write for
/// contrast.
pub(super) fn methods_of_databases(found: &MethodsFindings) -> Table {
    let is_shown = |(at, row): &(usize, &MethodRow)| {
        place(row) != DATABASE_METHODS.len() || found.fastest == Some(*at)
    };
    let rows = found.rows.iter().enumerate().filter(is_shown);
    let mut rows: Vec<&MethodRow> = rows.map(|(_, row)| row).collect();
    // Stable: direct and buffered stay in the order of the plan.
    rows.sort_by_key(|row| place(row));
    table_of_methods(rows)
}

/// The place of a method in the order of `wal_sync_method`: others follow, the unsynced write is last.
pub(super) fn place(row: &MethodRow) -> usize {
    let method = row.arm.setting.method;
    let known = DATABASE_METHODS.iter().position(|known| *known == method);
    known.unwrap_or(DATABASE_METHODS.len() + usize::from(!row.arm.setting.is_durable()))
}

fn table_of_methods<'f>(rows: impl IntoIterator<Item = &'f MethodRow>) -> Table {
    Table::with_columns(
        rows,
        [
            ("method", |row| Cell::text(method_word(&row.arm.setting))),
            ("cache", |row| Cell::text(cache_name(row.arm.setting.cache))),
            ("per second", |row| rate(&row.arm)),
            ("p50", |row| p50(&row.arm)),
            ("p99", |row| p99(&row.arm)),
            ("p99.9", |row| percentile(&row.arm, |latency| latency.p99_9_ns)),
            ("flushes", |row| flushes(&row.arm)),
            ("of unsynced", |row| of_unsynced(row.share_of_unsynced)),
            ("of best", |row| Cell::of(row.share_of_best, Cell::Share)),
        ],
    )
}

pub(super) fn commands(found: &[CommandsFindings]) -> Table {
    let rows = found.iter().flat_map(|findings| {
        let sequences = findings.short.iter().zip(&findings.traced.sequences);
        sequences.map(move |(short, sequence)| (findings, short, sequence))
    });
    Table::with_columns(
        rows,
        [
            ("method", |(found, ..)| {
                Cell::text(format!("{} {}", found.method, cache_name(found.cache)))
            }),
            ("file", |(found, ..)| Cell::text(layout_word(found.layout))),
            ("requests per commit", |(_, short, _)| Cell::text(*short)),
            ("commits", |(found, _, sequence)| {
                Cell::text(format!("{} of {}", sequence.commits, found.traced.commits))
            }),
            ("time", |(.., sequence)| Cell::nanos(sequence.commit.get())),
        ],
    )
}

pub(super) fn file_modes(found: &[FileModesFindings]) -> Table {
    Table::with_columns(
        found.iter().flat_map(|findings| &findings.rows),
        [
            ("file", |row| layout(&row.arm)),
            ("method", |row| method(&row.arm)),
            ("per second", |row| rate(&row.arm)),
            ("p50", |row| p50(&row.arm)),
            ("p99", |row| p99(&row.arm)),
            ("flushes", |row| flushes(&row.arm)),
            ("writes", |row| writes(&row.arm)),
            ("device bytes", |row| device_bytes(&row.arm)),
            ("of recycled", |row| Cell::of(row.share_of_recycled, Cell::Share)),
        ],
    )
}

pub(super) fn sizes(found: &SizesFindings) -> Table {
    let rows = found.curves.iter().enumerate().flat_map(|(at, curve)| {
        curve.arms.iter().map(move |arm| {
            let is_its = |share: &&DurableShare| {
                share.durable_curve == at && is_same(share.size_bytes, arm.setting.block_size)
            };
            (arm, found.shares.iter().find(is_its).map(|share| share.share))
        })
    });
    Table::with_columns(
        rows,
        [
            ("method", |row| method(row.0)),
            ("size", |row| block(row.0)),
            ("per second", |row| rate(row.0)),
            ("bandwidth", |row| bandwidth(row.0)),
            ("mean", |row| mean(row.0)),
            ("p99", |row| p99(row.0)),
            ("device bytes", |row| device_bytes(row.0)),
            ("of unsynced", |row| of_unsynced(row.1)),
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
        found.iter().flat_map(|findings| findings.rows.iter().map(|row| (findings.file_each, row))),
        [
            ("files", |row| Cell::text(if row.0 { "a file each" } else { "one file" })),
            ("writers", |row| jobs(&row.1.arm)),
            ("per second", |row| rate(&row.1.arm)),
            ("total", |row| bandwidth(&row.1.arm)),
            ("per writer", |row| Cell::Bandwidth(row.1.per_writer_bytes_per_second)),
            ("mean", |row| mean(&row.1.arm)),
            ("p99", |row| p99(&row.1.arm)),
            ("efficiency", |row| Cell::of(row.1.efficiency_share, Cell::Share)),
            ("batches gain", |row| times(row.1.batched_gain)),
        ],
    )
}

pub(super) fn crosses(found: &[CrossFindings]) -> Table {
    Table::with_columns(
        found.iter().flat_map(|findings| &findings.cells),
        [
            ("writers", |row| jobs(&row.arm)),
            ("size", |row| block(&row.arm)),
            ("per second", |row| rate(&row.arm)),
            ("bandwidth", |row| bandwidth(&row.arm)),
            ("time for 1 GiB", |row| Cell::Latency(row.seconds_per_volume * 1e9)),
            ("p99", |row| p99(&row.arm)),
        ],
    )
}

pub(super) fn sync_every(found: &[SyncEveryFindings]) -> Table {
    fn sync(arm: &DurableArm, of: fn(&ArmLatencies) -> Option<u64>) -> Cell {
        let sync = arm.figures.as_ref().and_then(|figures| figures.sync);
        Cell::of(sync, |sync| Cell::percentile(of(&sync)))
    }
    Table::with_columns(
        found.iter().flat_map(|findings| &findings.rows),
        [
            ("method", |row| method(&row.arm)),
            ("N", |row| Cell::Count(row.arm.setting.every.into())),
            ("writes per second", |row| rate(&row.arm)),
            ("per write", |row| Cell::Latency(row.ns_per_write)),
            ("sync p50", |row| sync(&row.arm, |latency| latency.p50_ns)),
            ("sync p99", |row| sync(&row.arm, |latency| latency.p99_ns)),
        ],
    )
}

pub(super) fn flush_slopes(found: &[FlushSlopeFindings]) -> Table {
    Table::with_columns(
        found
            .iter()
            .flat_map(|findings| findings.points.iter().map(|point| (&findings.setting, point))),
        [
            ("method", |row| Cell::Text(method_words(row.0))),
            ("blocks", |row| Cell::Count(row.1.blocks.into())),
            ("dirty data", |row| Cell::bytes(row.1.dirty_bytes)),
            ("flush p50", |row| Cell::Latency(row.1.flush_ns_p50)),
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
            ("committers", |row| committers(row.0)),
            ("arm", |row| log(row.0)),
            ("record", |row| block(row.0)),
            ("commits per second", |row| rate(row.0)),
            ("mean", |row| mean(row.0)),
            ("p99", |row| p99(row.0)),
            ("records per batch", |row| batch(row.0)),
            ("device writes", |row| writes(row.0)),
            ("gain", |row| times(row.1)),
            ("by the model", |row| Cell::of(row.2, Cell::Rate)),
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
    let rows = found.iter().flat_map(|findings| {
        let advised = findings.advice.as_ref().map(|advice| advice.arm);
        findings.arms.iter().enumerate().map(move |(at, arm)| (arm, advised == Some(at)))
    });
    Table::with_columns(
        rows,
        [
            ("delay", |row| {
                Cell::of(row.0.setting.group_commit, |policy| Cell::nanos(policy.delay.get()))
            }),
            ("batch bound", |row| {
                Cell::of(row.0.setting.group_commit, |policy| {
                    Cell::text(policy.batch_max.to_string())
                })
            }),
            ("committers", |row| committers(row.0)),
            ("commits per second", |row| rate(row.0)),
            ("mean", |row| mean(row.0)),
            ("p99", |row| p99(row.0)),
            ("records per batch", |row| batch(row.0)),
            ("advised", |row| Cell::text(if row.1 { "advised" } else { "" })),
        ],
    )
}

pub(super) fn whole_cross(found: &[DurableArm]) -> Table {
    Table::with_columns(
        found,
        [
            ("method", |row| method(row)),
            ("file", |row| layout(row)),
            ("size", |row| block(row)),
            ("writers", |row| jobs(row)),
            ("per second", |row| rate(row)),
            ("bandwidth", |row| bandwidth(row)),
            ("p50", |row| p50(row)),
            ("p99", |row| p99(row)),
        ],
    )
}
