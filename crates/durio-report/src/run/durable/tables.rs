//! The tables of what a durable write costs.
//!
//! In: findings. Out: [`Table`]s. Not here: sentences.

use durio_analyse::durable::{
    Arm, CommandsFindings, CommitDelayFindings, CrossFindings, Figures, FileModesFindings,
    FlushSlopeFindings, GroupCommitFindings, MethodsFindings, SizesFindings, SyncEveryFindings,
    WritersFindings,
};

use durio_units::Bytes;
use durio_workload::CommitterThreads;

use super::{layout_word, method_word, method_words};
use crate::document::{Cell, Table};
use crate::figures::decimal;
use crate::run::machine::cache_name;

/// Shown where nothing was measured.
const NONE: &str = "not measured";

/// Stands in the place of a share that cannot be: a sync does not make a write faster.
const NOISE: &str = "noise";

fn of_unsynced(share: f64) -> Cell {
    if share > 1.0 { Cell::text(NOISE) } else { Cell::Share(share) }
}

/// Said below a table with such a share.
pub(super) fn noise_note(table: &Table) -> Option<String> {
    let mut cells = table.rows.iter().flat_map(|row| &row.cells);
    cells.any(|cell| *cell == Cell::text(NOISE)).then(|| {
        "durable writes were faster than the same without a sync, which cannot be: other work \
         disturbed them differently; a longer run tells more"
            .to_owned()
    })
}

fn rate_of(arm: &Arm) -> Cell {
    arm.figures.as_ref().map_or_else(|| Cell::text(NONE), |it| Cell::Rate(it.rate_per_second))
}

fn bandwidth_of(arm: &Arm) -> Cell {
    let figures = arm.figures.as_ref();
    Cell::of(figures, |it| Cell::Bandwidth(it.bandwidth_bytes_per_second))
}

/// Mean, p50, p99 and p99.9.
fn latencies(figures: Option<&Figures>) -> [Cell; 4] {
    let Some(it) = figures.map(|it| it.latency) else { return Default::default() };
    let [p50, p99, p99_9] = [it.p50_ns, it.p99_ns, it.p99_9_ns].map(Cell::percentile);
    [Cell::Latency(it.mean_ns), p50, p99, p99_9]
}

fn per_commit(arm: &Arm) -> [Cell; 3] {
    let device = arm.figures.as_ref().and_then(|it| it.device);
    [
        device.and_then(|it| it.flushes_per_commit),
        device.map(|it| it.writes_per_commit),
        device.map(|it| it.bytes_per_byte),
    ]
    .map(|it| Cell::of(it, Cell::Number))
}

fn times(factor: Option<f64>) -> Cell {
    Cell::of(factor, |it| Cell::text(format!("{} ×", decimal(it))))
}

fn number(count: u32) -> Cell {
    Cell::Count(count.into())
}

pub(super) fn methods(found: &MethodsFindings) -> Table {
    let header = [
        "method",
        "cache",
        "per second",
        "p50",
        "p99",
        "p99.9",
        "flushes",
        "of unsynced",
        "of best",
    ];
    let row = |it: &durio_analyse::durable::MethodRow| {
        let setting = &it.arm.setting;
        let [flushes, ..] = per_commit(&it.arm);
        let [_, p50, p99, p99_9] = latencies(it.arm.figures.as_ref());
        let cache = Cell::text(cache_name(setting.cache));
        let mut cells =
            vec![Cell::text(method_word(setting)), cache, rate_of(&it.arm), p50, p99, p99_9];
        cells.push(flushes);
        cells.push(Cell::of(it.share_of_unsynced, of_unsynced));
        cells.push(Cell::of(it.share_of_best, Cell::Share));
        cells
    };
    Table::new(header).with(found.rows.iter().map(row))
}

pub(super) fn commands(found: &[CommandsFindings]) -> Table {
    let header = ["method", "file", "requests per commit", "commits", "time"];
    let mut rows = Vec::new();
    for it in found {
        let name = format!("{} {}", it.method, cache_name(it.cache));
        let file = layout_word(it.layout);
        let sequences = it.short.iter().zip(&it.traced.sequences);
        rows.extend(sequences.map(|(short, sequence)| {
            let commits = format!("{} of {}", sequence.commits, it.traced.commits);
            let mut cells = [name.as_str(), file, short, &commits].map(Cell::text).to_vec();
            cells.push(Cell::nanos(sequence.commit.get()));
            cells
        }));
    }
    Table::new(header).with(rows)
}

pub(super) fn file_modes(found: &[FileModesFindings]) -> Table {
    let header = [
        "file",
        "method",
        "per second",
        "p50",
        "p99",
        "flushes",
        "writes",
        "device bytes",
        "of recycled",
    ];
    let rows = found.iter().flat_map(|it| &it.rows).map(|row| {
        let setting = &row.arm.setting;
        let [_, p50, p99, ..] = latencies(row.arm.figures.as_ref());
        let mut cells =
            [layout_word(setting.layout), &method_words(setting)].map(Cell::text).to_vec();
        cells.extend([rate_of(&row.arm), p50, p99]);
        cells.extend(per_commit(&row.arm));
        cells.push(Cell::of(row.share_of_recycled, Cell::Share));
        cells
    });
    Table::new(header).with(rows)
}

pub(super) fn sizes(found: &SizesFindings) -> Table {
    let header =
        ["method", "size", "per second", "bandwidth", "mean", "p99", "device bytes", "of unsynced"];
    let mut rows = Vec::new();
    for (at, curve) in found.curves.iter().enumerate() {
        for arm in &curve.arms {
            let own = |it: &&durio_analyse::durable::DurableShare| {
                it.durable_curve == at && same(it.size_bytes, arm.setting.block_size)
            };
            let share = found.shares.iter().find(own).map(|it| it.share);
            let [mean, _, p99, ..] = latencies(arm.figures.as_ref());
            let [_, _, bytes] = per_commit(arm);
            let mut cells = vec![Cell::Text(method_words(&arm.setting))];
            cells.push(Cell::Bytes(arm.setting.block_size.get()));
            cells.extend([rate_of(arm), bandwidth_of(arm), mean, p99, bytes]);
            cells.push(Cell::of(share, of_unsynced));
            rows.push(cells);
        }
    }
    Table::new(header).with(rows)
}

pub(super) fn writers(found: &[WritersFindings]) -> Table {
    let header = [
        "files",
        "writers",
        "per second",
        "total",
        "per writer",
        "mean",
        "p99",
        "efficiency",
        "batches gain",
    ];
    let mut rows = Vec::new();
    for it in found {
        let files = if it.file_each { "a file each" } else { "one file" };
        rows.extend(it.rows.iter().map(|row| {
            let [mean, _, p99, ..] = latencies(row.arm.figures.as_ref());
            vec![
                Cell::text(files),
                number(row.arm.setting.jobs),
                rate_of(&row.arm),
                bandwidth_of(&row.arm),
                Cell::Bandwidth(row.per_writer_bytes_per_second),
                mean,
                p99,
                Cell::of(row.efficiency_share, Cell::Share),
                times(row.batched_gain),
            ]
        }));
    }
    Table::new(header).with(rows)
}

pub(super) fn crosses(found: &[CrossFindings]) -> Table {
    let header = ["writers", "size", "per second", "bandwidth", "time for 1 GiB", "p99"];
    let rows = found.iter().flat_map(|it| &it.cells).map(|it| {
        let setting = &it.arm.setting;
        let [_, _, p99, _] = latencies(it.arm.figures.as_ref());
        let time = Cell::Latency(it.seconds_per_volume * 1e9);
        let (jobs, block) = (number(setting.jobs), Cell::Bytes(setting.block_size.get()));
        vec![jobs, block, rate_of(&it.arm), bandwidth_of(&it.arm), time, p99]
    });
    Table::new(header).with(rows)
}

pub(super) fn sync_every(found: &[SyncEveryFindings]) -> Table {
    let header = ["method", "N", "writes per second", "per write", "sync p50", "sync p99"];
    let rows = found.iter().flat_map(|it| &it.rows).map(|row| {
        let sync = row.arm.figures.as_ref().and_then(|it| it.sync);
        vec![
            Cell::Text(method_words(&row.arm.setting)),
            number(row.arm.setting.every),
            rate_of(&row.arm),
            Cell::Latency(row.ns_per_write),
            Cell::of(sync, |it| Cell::percentile(it.p50_ns)),
            Cell::of(sync, |it| Cell::percentile(it.p99_ns)),
        ]
    });
    Table::new(header).with(rows)
}

pub(super) fn flush_slopes(found: &[FlushSlopeFindings]) -> Table {
    let header = ["method", "blocks", "dirty data", "flush p50"];
    let mut rows = Vec::new();
    for it in found {
        let name = method_words(&it.setting);
        rows.extend(it.points.iter().map(|point| {
            let (blocks, dirty) = (number(point.blocks), Cell::bytes(point.dirty_bytes));
            vec![Cell::text(&name), blocks, dirty, Cell::Latency(point.flush_ns_p50)]
        }));
    }
    Table::new(header).with(rows)
}

pub(super) fn group_commit(found: &GroupCommitFindings) -> Table {
    let header = [
        "committers",
        "arm",
        "record",
        "commits per second",
        "mean",
        "p99",
        "records per batch",
        "device writes",
        "gain",
        "by the model",
    ];
    let mut rows = Vec::new();
    for row in &found.rows {
        let predicted = Cell::of(row.predicted_per_second, Cell::Rate);
        rows.push(commits(&row.arm, times(row.gain), predicted));
        rows.extend(row.independent.iter().map(|arm| commits(arm, Cell::Empty, Cell::Empty)));
    }
    rows.extend(found.others.iter().map(|arm| commits(arm, Cell::Empty, Cell::Empty)));
    Table::new(header).with(rows)
}

fn commits(arm: &Arm, gain: Cell, predicted: Cell) -> Vec<Cell> {
    let setting = &arm.setting;
    let each = setting.group_commit.map(|policy| policy.threads);
    let name = match each {
        Some(CommitterThreads::Multiplexed) => "one log",
        Some(CommitterThreads::OneEach) => "one log, a thread each",
        None => "independent",
    };
    let [mean, _, p99, ..] = latencies(arm.figures.as_ref());
    let [_, writes, _] = per_commit(arm);
    vec![
        number(setting.committers()),
        Cell::text(name),
        Cell::Bytes(setting.block_size.get()),
        rate_of(arm),
        mean,
        p99,
        batch(arm),
        writes,
        gain,
        predicted,
    ]
}

/// Mean records per batch and the most.
fn batch(arm: &Arm) -> Cell {
    let batches = arm.figures.as_ref().and_then(|it| it.batches.as_ref());
    let words = |mean, max| format!("{} (max {max})", decimal(mean));
    Cell::of(batches, |it| Cell::Text(words(it.records_mean, it.records_max)))
}

pub(super) fn commit_delays(found: &[CommitDelayFindings]) -> Table {
    let header = [
        "delay",
        "batch bound",
        "committers",
        "commits per second",
        "mean",
        "p99",
        "records per batch",
        "advised",
    ];
    let mut rows = Vec::new();
    for it in found {
        let advised = it.advice.as_ref().map(|advice| advice.arm);
        for (at, arm) in it.arms.iter().enumerate() {
            let policy = arm.setting.group_commit;
            let [mean, _, p99, ..] = latencies(arm.figures.as_ref());
            let is_advised = if advised == Some(at) { "advised" } else { "" };
            rows.push(vec![
                Cell::of(policy, |it| Cell::nanos(it.delay.get())),
                Cell::of(policy, |it| Cell::text(it.batch_max.to_string())),
                number(arm.setting.committers()),
                rate_of(arm),
                mean,
                p99,
                batch(arm),
                Cell::text(is_advised),
            ]);
        }
    }
    Table::new(header).with(rows)
}

pub(super) fn whole_cross(found: &[Arm]) -> Table {
    let header = ["method", "file", "size", "writers", "per second", "bandwidth", "p50", "p99"];
    let rows = found.iter().map(|arm| {
        let setting = &arm.setting;
        let [_, p50, p99, ..] = latencies(arm.figures.as_ref());
        let file = Cell::text(layout_word(setting.layout));
        let (block, jobs) = (Cell::Bytes(setting.block_size.get()), number(setting.jobs));
        let method = Cell::Text(method_words(setting));
        vec![method, file, block, jobs, rate_of(arm), bandwidth_of(arm), p50, p99]
    });
    Table::new(header).with(rows)
}

/// Whether a size that is a figure is that of these blocks.
#[expect(clippy::cast_precision_loss, reason = "2^53 bytes are 8 PiB")]
fn same(size: f64, block: Bytes) -> bool {
    (size - block.get() as f64).abs() < 0.5
}
