//! The tables of what a durable write costs: the same in the terminal and in the page.
//!
//! In: findings. Out: [`SectionTable`]s. Not here: sentences, widths, borders, tags.

use durio_analyse::durable::{
    Arm, CommandsFindings, CommitDelayFindings, CrossFindings, Figures, FileModesFindings,
    FlushSlopeFindings, GroupCommitFindings, MethodsFindings, SizesFindings, SyncEveryFindings,
    WritersFindings,
};

use durio_workload::CommitterThreads;

use crate::campaign_table::{SectionTable, TableRow};
use crate::durable_facts::{cache_word, layout_word, method_word, method_words, size};
use crate::figures::{
    ABSENT, bandwidth, decimal, latency, latency_or_absent, mean_latency, percent, rate_bare,
};

/// Shown where nothing was measured.
const NONE: &str = "not measured";

fn table(header: &[&'static str], rows: Vec<Vec<String>>) -> SectionTable {
    let row = |cells| TableRow { is_part: false, cells };
    SectionTable { header: header.to_vec(), rows: rows.into_iter().map(row).collect() }
}

/// Empty where there is no figure.
fn cell(figure: Option<f64>, write: impl Fn(f64) -> String) -> String {
    figure.map_or_else(String::new, write)
}

/// Stands in the place of a share that cannot be: a sync does not make a write faster.
const NOISE: &str = "noise";

fn of_unsynced(share: f64) -> String {
    if share > 1.0 { NOISE.to_owned() } else { percent(share) }
}

/// Said below a table with such a share.
pub(crate) fn noise_note(table: &SectionTable) -> Option<String> {
    let has = table.rows.iter().any(|row| row.cells.iter().any(|cell| cell == NOISE));
    has.then(|| {
        "durable writes were faster than the same without a sync, which cannot be: other work \
         disturbed them differently; a longer run tells more"
            .to_owned()
    })
}

fn rate_of(arm: &Arm) -> String {
    arm.figures.as_ref().map_or_else(|| NONE.to_owned(), |it| rate_bare(it.rate_per_second))
}

fn bandwidth_of(arm: &Arm) -> String {
    cell(arm.figures.as_ref().map(|it| it.bandwidth_bytes_per_second), bandwidth)
}

/// Mean, p50, p99, p99.9 and maximum.
fn latencies(figures: Option<&Figures>) -> [String; 5] {
    let Some(it) = figures.map(|it| it.latency) else { return Default::default() };
    [
        mean_latency(it.mean_ns),
        latency_or_absent(it.p50_ns),
        latency_or_absent(it.p99_ns),
        latency_or_absent(it.p99_9_ns),
        latency(it.max_ns),
    ]
}

fn p99(arm: &Arm) -> String {
    arm.figures.as_ref().map_or_else(String::new, |it| latency_or_absent(it.latency.p99_ns))
}

fn per_commit(arm: &Arm) -> [String; 3] {
    let device = arm.figures.as_ref().and_then(|it| it.device);
    [
        cell(device.and_then(|it| it.flushes_per_commit), decimal),
        cell(device.map(|it| it.writes_per_commit), decimal),
        cell(device.map(|it| it.bytes_per_byte), decimal),
    ]
}

pub(crate) fn methods(found: &MethodsFindings) -> SectionTable {
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
        let [_, p50, p99, p99_9, _] = latencies(it.arm.figures.as_ref());
        let cache = cache_word(setting.cache).to_owned();
        let mut cells =
            vec![method_word(setting).to_owned(), cache, rate_of(&it.arm), p50, p99, p99_9];
        cells.push(flushes);
        cells.extend([cell(it.share_of_unsynced, of_unsynced), cell(it.share_of_best, percent)]);
        cells
    };
    table(&header, found.rows.iter().map(row).collect())
}

pub(crate) fn commands(found: &[CommandsFindings]) -> SectionTable {
    let header = ["method", "file", "requests per commit", "commits", "time"];
    let mut rows = Vec::new();
    for it in found {
        let name = format!("{} {}", it.method, cache_word(it.cache));
        let file = layout_word(it.layout).to_owned();
        let sequences = it.short.iter().zip(&it.traced.sequences);
        rows.extend(sequences.map(|(short, sequence)| {
            let commits = format!("{} of {}", sequence.commits, it.traced.commits);
            let time = sequence.commit.to_string();
            vec![name.clone(), file.clone(), short.clone(), commits, time]
        }));
    }
    table(&header, rows)
}

pub(crate) fn file_modes(found: &[FileModesFindings]) -> SectionTable {
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
        let mut cells = vec![layout_word(setting.layout).to_owned(), method_words(setting)];
        cells.extend([rate_of(&row.arm), p50, p99]);
        cells.extend(per_commit(&row.arm));
        cells.push(cell(row.share_of_recycled, percent));
        cells
    });
    table(&header, rows.collect())
}

pub(crate) fn sizes(found: &SizesFindings) -> SectionTable {
    let header =
        ["method", "size", "per second", "bandwidth", "mean", "p99", "device bytes", "of unsynced"];
    let mut rows = Vec::new();
    for (at, curve) in found.curves.iter().enumerate() {
        for arm in &curve.arms {
            let own = |it: &&durio_analyse::durable::DurableShare| {
                it.durable_curve == at && size(it.size_bytes) == arm.setting.block_size.to_string()
            };
            let share = found.shares.iter().find(own).map(|it| it.share);
            let [mean, _, p99, ..] = latencies(arm.figures.as_ref());
            let [_, _, bytes] = per_commit(arm);
            let mut cells = vec![method_words(&arm.setting), arm.setting.block_size.to_string()];
            cells.extend([rate_of(arm), bandwidth_of(arm), mean, p99, bytes]);
            cells.push(cell(share, of_unsynced));
            rows.push(cells);
        }
    }
    table(&header, rows)
}

pub(crate) fn writers(found: &[WritersFindings]) -> SectionTable {
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
                files.to_owned(),
                row.arm.setting.jobs.to_string(),
                rate_of(&row.arm),
                bandwidth_of(&row.arm),
                bandwidth(row.per_writer_bytes_per_second),
                mean,
                p99,
                cell(row.efficiency_share, percent),
                cell(row.batched_gain, |it| format!("{} ×", decimal(it))),
            ]
        }));
    }
    table(&header, rows)
}

pub(crate) fn crosses(found: &[CrossFindings]) -> SectionTable {
    let header = ["writers", "size", "per second", "bandwidth", "time for 1 GiB", "p99"];
    let rows = found.iter().flat_map(|it| &it.cells).map(|it| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let time = latency((it.seconds_per_volume * 1e9) as u64);
        let setting = &it.arm.setting;
        let (jobs, block) = (setting.jobs.to_string(), setting.block_size.to_string());
        vec![jobs, block, rate_of(&it.arm), bandwidth_of(&it.arm), time, p99(&it.arm)]
    });
    table(&header, rows.collect())
}

pub(crate) fn sync_every(found: &[SyncEveryFindings]) -> SectionTable {
    let header = ["method", "N", "writes per second", "per write", "sync p50", "sync p99"];
    let rows = found.iter().flat_map(|it| &it.rows).map(|row| {
        let sync = row.arm.figures.as_ref().and_then(|it| it.sync);
        let of = |nanos: Option<Option<u64>>| nanos.map_or_else(String::new, latency_or_absent);
        vec![
            method_words(&row.arm.setting),
            row.arm.setting.every.to_string(),
            rate_of(&row.arm),
            mean_latency(row.ns_per_write),
            of(sync.map(|it| it.p50_ns)),
            of(sync.map(|it| it.p99_ns)),
        ]
    });
    table(&header, rows.collect())
}

pub(crate) fn flush_slopes(found: &[FlushSlopeFindings]) -> SectionTable {
    let header = ["method", "blocks", "dirty data", "flush p50"];
    let mut rows = Vec::new();
    for it in found {
        let name = method_words(&it.setting);
        rows.extend(it.points.iter().map(|point| {
            let (blocks, dirty) = (point.blocks.to_string(), size(point.dirty_bytes));
            vec![name.clone(), blocks, dirty, mean_latency(point.flush_ns_p50)]
        }));
    }
    table(&header, rows)
}

pub(crate) fn group_commit(found: &GroupCommitFindings) -> SectionTable {
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
        let gain = cell(row.gain, |it| format!("{} ×", decimal(it)));
        rows.push(commits(&row.arm, gain, cell(row.predicted_per_second, rate_bare)));
        rows.extend(row.independent.iter().map(|arm| commits(arm, String::new(), String::new())));
    }
    rows.extend(found.others.iter().map(|arm| commits(arm, String::new(), String::new())));
    table(&header, rows)
}

fn commits(arm: &Arm, gain: String, predicted: String) -> Vec<String> {
    let setting = &arm.setting;
    let each = setting.group_commit.map(|policy| policy.threads);
    let name = match each {
        Some(CommitterThreads::Multiplexed) => "one log",
        Some(CommitterThreads::OneEach) => "one log, a thread each",
        None => "independent",
    };
    let [mean, _, p99, ..] = latencies(arm.figures.as_ref());
    let [_, writes, _] = per_commit(arm);
    let (committers, record) = (setting.committers().to_string(), setting.block_size.to_string());
    vec![
        committers,
        name.to_owned(),
        record,
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
fn batch(arm: &Arm) -> String {
    let batches = arm.figures.as_ref().and_then(|it| it.batches.as_ref());
    batches.map_or_else(String::new, |it| {
        format!("{} (max {})", decimal(it.records_mean), it.records_max)
    })
}

pub(crate) fn commit_delays(found: &[CommitDelayFindings]) -> SectionTable {
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
                policy.map_or_else(String::new, |it| it.delay.to_string()),
                policy.map_or_else(String::new, |it| it.batch_max.to_string()),
                arm.setting.committers().to_string(),
                rate_of(arm),
                mean,
                p99,
                batch(arm),
                is_advised.to_owned(),
            ]);
        }
    }
    table(&header, rows)
}

pub(crate) fn whole_cross(found: &[Arm]) -> SectionTable {
    let header = ["method", "file", "size", "writers", "per second", "bandwidth", "p50", "p99"];
    let rows = found.iter().map(|arm| {
        let setting = &arm.setting;
        let [_, p50, p99, ..] = latencies(arm.figures.as_ref());
        let file = layout_word(setting.layout).to_owned();
        let (block, jobs) = (setting.block_size.to_string(), setting.jobs.to_string());
        vec![method_words(setting), file, block, jobs, rate_of(arm), bandwidth_of(arm), p50, p99]
    });
    table(&header, rows.collect())
}

/// True if a percentile is absent in any of them.
pub(crate) fn has_absent(tables: &[SectionTable]) -> bool {
    tables.iter().flat_map(|it| &it.rows).any(|row| row.cells.iter().any(|it| it == ABSENT))
}
