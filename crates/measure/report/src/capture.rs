//! A capture as a document: a database's requests to its storage.
//!
//! Shows [`CaptureFindings`]: the mix of sizes, a row for each file, one for each device, the
//! capture's cost and losses; bars on a page. Classes and numbers are those of the findings.

use durio_analyse::FOREIGN_CPUS_MAX;
use durio_analyse::capture::{
    BesideFigure, BesideRow, CaptureBeside, CaptureFindings, CapturedDeviceFindings,
    CapturedFileFindings, CapturedSize, OffsetPattern, ReplayFindings,
};
use durio_base::{Bytes, counted};
use durio_judge::summary::{Summary, of_capture};

use crate::document::chart::{Bar, BarGroup, Chart, Colour};
use crate::document::{
    Cell, Column, DetailLevel, Document, Section, Table, Tone, both, record, shown, words,
};
use crate::figures::{cut, latency, percent, precise, rate, whole};
use crate::{Report, why};

/// From here on the database was slowed down by the trace more than it should be.
const SLOWDOWN_MAX: f64 = 0.03;

/// Files that a screen has room for.
const FILES_SHOWN: usize = 8;

/// Sizes that are named of a mix.
const SIZES_SHOWN: usize = 4;

/// The same in a cell of a table.
const SIZES_SHOWN_IN_TABLE: usize = 2;

/// Bars of a chart.
const BARS_MAX: usize = 12;

/// Names of files are cut from the left where a table has no room.
const PATH_LENGTH: usize = 34;

impl Report for CaptureFindings {
    fn document(&self) -> Document {
        let name = if self.replay.is_some() { "durio replay" } else { "durio capture" };
        let mut document = Document::new(name, &self.source.target);
        document.push(match &self.replay {
            Some(replay) => replayed(self, replay),
            None => summary(self),
        });
        self.beside
            .iter()
            .for_each(|earlier| document.push(beside(earlier, self.replay.is_some())));
        if let Some(own) = &self.why {
            document.push(why::own_commits(own));
        }
        document.push(files(self));
        document.push(devices(self));
        document.push(cost(self));
        for it in &self.files {
            document.push(file(it));
        }
        document.records =
            Table::records(&file_columns(), self.files.iter().map(|file| (file, "")));
        document
    }

    fn summary(&self) -> Option<Summary> {
        Some(of_capture(self))
    }
}

/// `4k 55 %, 8k 23 %, 2 more 22 %`: the first sizes as fio writes them, with their shares of all writes.
fn mix(sizes: &[CapturedSize], shown: usize) -> String {
    let count = |sizes: &[CapturedSize]| sizes.iter().map(|size| size.count).sum::<u64>();
    let share = |part: u64| percent(precise(part) / precise(count(sizes)));
    let (named, others) = sizes.split_at(sizes.len().min(shown));
    let mut parts: Vec<String> =
        named.iter().map(|size| format!("{} {}", short(size.bytes), share(size.count))).collect();
    match others {
        [] => {}
        _ => parts.push(format!("{} more {}", others.len(), share(count(others)))),
    }
    parts.join(", ")
}

fn short(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

fn summary(it: &CaptureFindings) -> Section {
    let mut section = Section::default();
    let per_second = |count: u64| if it.seconds > 0.0 { precise(count) / it.seconds } else { 0.0 };
    section.fact("watched", format!("{:.1} s, processes: {}", it.seconds, it.processes));
    if let Some(why) = &it.ended_early {
        section.toned(
            Tone::Warning,
            "ended early",
            format!("{why}; results cover the time until then"),
        );
    }
    let mut writes = format!(
        "{} ({}), {}",
        it.writes,
        rate(per_second(it.writes)),
        Bytes::new(it.written_bytes)
    );
    for (name, nanos) in [("p50", it.write_p50_ns), ("p99", it.write_p99_ns)] {
        writes += &nanos.map(|nanos| format!(", {name} {}", latency(nanos))).unwrap_or_default();
    }
    section.fact("writes", writes);
    section.fact("durable", format!("{} ({})", it.durable, rate(per_second(it.durable))));
    section.toned(Tone::Strong, "write sizes", mix(&it.sizes, SIZES_SHOWN));
    if let Some(not_shown) = &it.not_shown {
        section.warn(not_shown);
    } else if it.durable == 0 {
        section.warn("no durable writes were seen: capture it under load");
    }
    if it.ring_operations > 0 {
        section.warn(format!(
            "{} writes and syncs went through io_uring: the kernel's event has neither file nor size, so \
             they are not below",
            it.ring_operations
        ));
    }
    if it.unnamed_calls > 0 {
        section.note(format!(
            "{} writes and syncs of files that were closed before they could be named are not below",
            it.unnamed_calls
        ));
    }
    section
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time is not negative"
)]
fn seconds(seconds: f64) -> String {
    latency((seconds * 1e9) as u64)
}

/// Those that are known, each with its name.
fn times(named: &[(&str, Option<u64>)]) -> String {
    let known = named.iter();
    let known = known.filter_map(|(name, nanos)| Some(format!("{name} {}", latency((*nanos)?))));
    known.collect::<Vec<_>>().join(", ")
}

/// How punctual a replay was.
fn replayed(it: &CaptureFindings, replay: &ReplayFindings) -> Section {
    let mut section = Section::default();
    let pace = match replay.speed {
        1.0 => "at the trace's own times".to_owned(),
        speed => format!("at {speed} times the speed of the trace"),
    };
    section.fact(
        "replayed",
        format!(
            "{} operations by {} threads in {}, {pace}",
            replay.done,
            replay.threads,
            seconds(replay.taken_seconds)
        ),
    );
    let seconds = [replay.taken_seconds, replay.planned_seconds].map(seconds);
    match (&it.ended_early, replay.kept_up) {
        (Some(why), _) => {
            section.toned(Tone::Warning, "ended early", format!("{why}; results cover those"));
        }
        (None, Some(false)) if replay.taken_seconds > replay.planned_seconds => {
            let text = format!(
                "no: it took {} instead of {}; here this load is too much",
                seconds[0], seconds[1]
            );
            section.toned(Tone::Bad, "kept up", text);
        }
        (None, Some(false)) => {
            let text = "no: operations began too late, though it ended in time";
            section.toned(Tone::Bad, "kept up", text);
        }
        (None, _) => section.toned(Tone::Strong, "kept up", "yes"),
    }
    let late = times(&[
        ("p50", replay.late_p50_ns),
        ("p99", replay.late_p99_ns),
        ("at most", replay.late_max_ns),
    ]);
    let held = match replay.held {
        0 => "none".to_owned(),
        held => percent(precise(held as u64) / precise(replay.done as u64)),
    };
    section.fact("began late by", format!("{late}; {held} waited for an earlier one"));
    if let Some(lag) = replay.lag_p99_ns {
        let text = format!("p99 {}, of operations that waited for none", latency(lag));
        section.toned_at(DetailLevel::Detail, Tone::Plain, "durio's own delay", text);
    }
    if let Some(others) = replay.others.filter(|other| *other > FOREIGN_CPUS_MAX) {
        let text =
            format!("other work used {others:.1} CPUs in that time, which also delays operations");
        section.toned(Tone::Warning, "doubt", text);
    }
    if replay.is_cached_instead {
        section.warn(
            "the trace has O_DIRECT, which this filesystem does not take: such writes went through the page \
             cache",
        );
    }
    section.toned(Tone::Strong, "write sizes", mix(&it.sizes, SIZES_SHOWN));
    section
}

/// The same numbers of an earlier capture; for a replay, of the trace's capture.
fn beside(it: &CaptureBeside, is_replay: bool) -> Section {
    let CaptureBeside { before, before_lost_calls, before_untraced, rows } = it;
    let heads = match is_replay {
        true => ["", "trace", "replay", "replay / trace"],
        false => ["", "before", "now", "now / before"],
    };
    let mut section =
        Section::new(format!("compared with the capture of {}, {}", before.target, before.date));
    let name = |figure: BesideFigure| match figure {
        BesideFigure::Writes => "writes/s".to_owned(),
        BesideFigure::Written => "written/s".to_owned(),
        BesideFigure::WrittenIn(bytes) => format!("  in writes of {}", short(bytes)),
        BesideFigure::Durable => "syncs and durable writes/s".to_owned(),
        BesideFigure::SyncingThreads => "threads that sync a file".to_owned(),
        BesideFigure::SyncsAtOnce => "parallel syncs of a file".to_owned(),
        BesideFigure::SyncP50 => "time of a sync, p50".to_owned(),
        BesideFigure::SyncP99 => "time of a sync, p99".to_owned(),
        BesideFigure::DeviceWrites => "writes of devices/s".to_owned(),
        BesideFigure::DeviceWritten => "written to devices/s".to_owned(),
        BesideFigure::DeviceFlushes => "flushes of devices/s".to_owned(),
    };
    let value = |figure: BesideFigure, value: f64| match figure {
        BesideFigure::Written | BesideFigure::WrittenIn(_) | BesideFigure::DeviceWritten => {
            Cell::Bytes(whole(value))
        }
        BesideFigure::SyncP50 | BesideFigure::SyncP99 => Cell::nanos(whole(value)),
        _ => Cell::Number(value.round()),
    };
    let row = |row: &BesideRow| {
        vec![
            Cell::text(name(row.figure)),
            value(row.figure, row.before),
            value(row.figure, row.now),
            Cell::of(row.ratio, |ratio| Cell::text(format!("{ratio:.2}"))),
        ]
    };
    section.table(Table::new(heads).with(rows.iter().map(row)));
    if *before_untraced > 0 && is_replay {
        section.warn(format!(
            "{before_untraced} writes and syncs of the database are not in the trace (io_uring, or files \
             that could not be named), and so not in the replay"
        ));
    }
    if *before_lost_calls > 0 {
        section.warn(format!(
            "the earlier capture lost {before_lost_calls} call events: its counts are too low"
        ));
    }
    section
}

/// Growing or in place, in order or not.
fn pattern(it: &CapturedFileFindings) -> String {
    let OffsetPattern { continued, tail_rewritten, elsewhere, unknown } = it.pattern;
    if it.writes == 0 {
        return String::new();
    }
    if unknown * 2 > it.writes {
        return "unknown".to_owned();
    }
    if elsewhere > continued + tail_rewritten {
        return "random".to_owned();
    }
    let place = if it.grows() { "append" } else { "in order, in place" };
    let is_rewritten = tail_rewritten * 10 > continued + elsewhere;
    format!("{place}{}", if is_rewritten { ", tail rewritten" } else { "" })
}

/// The folder that holds all files, with its slash; empty where it would say nothing.
fn common_folder(files: &[CapturedFileFindings]) -> &str {
    let Some(first) = files.first() else { return "" };
    let parts = first.path.match_indices('/').map(|(at, _)| first.path.split_at(at + 1).0);
    let is_common = |folder: &&str| files.iter().all(|file| file.path.starts_with(*folder));
    parts.take_while(is_common).last().unwrap_or_default()
}

/// A file, and the folder in which all files of the capture are.
type FileRow<'f> = (&'f CapturedFileFindings, &'f str);

fn file_columns<'f>() -> Vec<Column<FileRow<'f>>> {
    vec![
        shown("file", |(file, folder)| Cell::text(short_name(file, folder))),
        record("file", |(file, _)| Cell::text(&file.path)),
        words(both("class", "class", |(file, _)| Cell::text(file.class.word()))),
        both("writes", "writes", |(file, _)| Cell::Count(file.writes)),
        record("written_bytes", |(file, _)| Cell::Bytes(file.written_bytes)),
        record("new_bytes", |(file, _)| Cell::Bytes(file.new_bytes)),
        record("syncs", |(file, _)| Cell::Count(file.sync_calls())),
        record("durable_writes", |(file, _)| Cell::Count(file.durable_writes)),
        words(shown("sizes", |(file, _)| Cell::text(mix(&file.sizes, SIZES_SHOWN_IN_TABLE)))),
        words(shown("offsets", |(file, _)| Cell::text(pattern(file)))),
        shown("durable", |(file, _)| Cell::Count(file.durable())),
        shown("new bytes per sync", |(file, _)| {
            Cell::of(file.new_bytes_per_sync, |bytes| Cell::Number(bytes.round()))
        }),
        both("syncing_threads", "threads", |(file, _)| Cell::Count(file.syncing_threads as u64)),
        both("syncs_at_once", "parallel syncs", |(file, _)| Cell::Count(file.syncs_at_once.into())),
        record("sync_p50_ns", |(file, _)| Cell::of(file.sync_p50_ns, Cell::nanos)),
        record("sync_p99_ns", |(file, _)| Cell::of(file.sync_p99_ns, Cell::nanos)),
    ]
}

fn short_name(file: &CapturedFileFindings, folder: &str) -> String {
    cut(file.path.get(folder.len()..).unwrap_or(&file.path), PATH_LENGTH)
}

fn files(it: &CaptureFindings) -> Section {
    let common = common_folder(&it.files);
    let below =
        if common.len() > 1 { format!("files, below {common}") } else { "files".to_owned() };
    let mut section = Section::new(below);
    let rows = it.files.iter().map(|file| (file, common));
    let mut table = Table::shown(&file_columns(), rows);
    for row in table.rows.iter_mut().skip(FILES_SHOWN) {
        row.level = DetailLevel::Detail;
    }
    section.table(table);
    if it.files.len() > FILES_SHOWN {
        section.note(format!("{} more with --verbose", it.files.len() - FILES_SHOWN));
    }
    let most = it.files.iter().take(BARS_MAX);
    let bars = |title: &str, of: fn(&CapturedFileFindings) -> u64, text: fn(u64) -> String| {
        let bar = |file: &CapturedFileFindings| {
            Bar::new(short_name(file, common), precise(of(file)), Colour::First, text(of(file)))
        };
        let group = BarGroup::new("", most.clone().map(bar));
        Chart::bars(title, vec![group], Vec::<(String, Colour)>::new())
    };
    let all: u64 = it.sizes.iter().map(|size| size.count).sum();
    let size = |name: String, count: u64| {
        let share = precise(count) / precise(all);
        Bar::new(name, share, Colour::Second, percent(share))
    };
    let (named, others) = it.sizes.split_at(it.sizes.len().min(BARS_MAX));
    let mut bars_of_sizes: Vec<Bar> =
        named.iter().map(|size_of| size(short(size_of.bytes), size_of.count)).collect();
    if !others.is_empty() {
        bars_of_sizes.push(size("others".to_owned(), others.iter().map(|size| size.count).sum()));
    }
    let sizes = BarGroup::new("", bars_of_sizes);
    section.charts([
        Chart::bars("Sizes of writes", vec![sizes], Vec::<(String, Colour)>::new()),
        bars(
            "Bytes written, by file",
            |file| file.written_bytes,
            |bytes| Bytes::new(bytes).to_string(),
        ),
        bars("Syncs and durable writes, by file", CapturedFileFindings::durable, |count| {
            count.to_string()
        }),
    ]);
    section
}

fn devices(it: &CaptureFindings) -> Section {
    let mut section = Section::new("devices, of all who use them");
    fn per_sync(count: u64, durable: u64) -> Cell {
        let rate = (durable > 0).then(|| precise(count) / precise(durable));
        Cell::of(rate, Cell::Number)
    }
    let columns: &[Column<(&CapturedDeviceFindings, u64)>] = &[
        shown("device", |(device, _)| Cell::text(&device.name)),
        shown("writes", |(device, _)| Cell::Count(device.writes)),
        shown("written", |(device, _)| Cell::Bytes(device.written_bytes)),
        words(shown("sizes", |(device, _)| Cell::text(mix(&device.sizes, SIZES_SHOWN_IN_TABLE)))),
        shown("metadata", |(device, _)| Cell::Count(device.metadata_writes)),
        shown("flushes", |(device, _)| Cell::Count(device.flushes)),
        shown("FUA", |(device, _)| Cell::Count(device.fua)),
        shown("writes/sync", |(device, durable)| per_sync(device.writes, *durable)),
        shown("flushes/sync", |(device, durable)| per_sync(device.flushes, *durable)),
    ];
    section.table(Table::shown(columns, it.devices.iter().map(|device| (device, it.durable))));
    if it.cost.lost_requests > 0 {
        section.warn(format!(
            "{} events of devices were lost: these counts are too low",
            it.cost.lost_requests
        ));
    }
    section
}

fn cost(it: &CaptureFindings) -> Section {
    let mut section = Section::default();
    let cost = it.cost;
    // What a trace of others cost is not in it.
    let is_own = cost.cpu_ns > 0;
    if is_own {
        section.fact(
            "cost",
            format!(
                "{} events ({}); durio used {} of a CPU, in addition to the kernel's time for each event",
                cost.events,
                rate(cost.events_per_second),
                percent(cost.cpu_share),
            ),
        );
        if let Some(rates) = cost.write_calls {
            let [first, second, after] = [rates.halves[0], rates.halves[1], rates.after].map(rate);
            let text = format!(
                "calls that write: {first} and {second} in the halves of the trace, {after} after it"
            );
            let (tone, what) = match cost.slowdown {
                None => (Tone::Plain, "no slowdown can be derived from it".to_owned()),
                Some(less) if less > SLOWDOWN_MAX => (
                    Tone::Warning,
                    format!("{} less: rates here are too low by as much", percent(less)),
                ),
                Some(less) => (Tone::Plain, format!("{} less", percent(less))),
            };
            section.toned(tone, "", format!("{text}; {what}"));
        }
    }
    match cost.lost_calls {
        0 if is_own => section.fact("lost", "no event of a call"),
        0 => {}
        lost => section.toned(
            Tone::Bad,
            "lost",
            format!("{lost} events of calls: counts and rates of files are too low, and pairs are broken"),
        ),
    }
    section
}

fn file(it: &CapturedFileFindings) -> Section {
    let mut section = Section::detail(&it.path);
    let mut fact = |label: &str, value: String| {
        section.toned_at(DetailLevel::Detail, Tone::Plain, label, value);
    };
    fact("class", format!("{}: {}", it.class.word(), it.class_because));
    fact("files", format!("{}, {}", it.files, Bytes::new(it.file_bytes)));
    if !it.flags.is_empty() {
        fact("opened", it.flags.join(", "));
    }
    fact("write sizes", mix(&it.sizes, SIZES_SHOWN));
    fact("multiples of", Bytes::new(it.alignment).to_string());
    let OffsetPattern { continued, tail_rewritten, elsewhere, unknown } = it.pattern;
    fact(
        "offsets",
        format!(
            "{continued} continue, {tail_rewritten} rewrite the tail, {elsewhere} elsewhere, {unknown} unknown"
        ),
    );
    fact(
        "new bytes",
        format!(
            "{} of {}; {}",
            Bytes::new(it.new_bytes),
            Bytes::new(it.written_bytes),
            it.grown_bytes.map_or_else(
                || "by how much the file grew is not known".to_owned(),
                |bytes| format!("the file grew by {}", Bytes::new(bytes))
            )
        ),
    );
    let syncs: Vec<String> =
        it.syncs.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if !syncs.is_empty() {
        fact("syncs", syncs.join(", "));
    }
    if it.durable_writes > 0 {
        fact("durable writes", it.durable_writes.to_string());
    }
    if it.durable() > 0 {
        fact("between syncs", format!("{} by bytes", mix(&it.batches, SIZES_SHOWN)));
        if it.sync_p50_ns.is_some() {
            fact("time of a sync", times(&[("p50", it.sync_p50_ns), ("p99", it.sync_p99_ns)]));
        }
        let between = times(&[("p50", it.between_syncs_p50_ns), ("p99", it.between_syncs_p99_ns)]);
        fact("from sync to sync", between);
        fact(
            "who syncs",
            format!(
                "{}; at most {} in parallel, {} started during another",
                counted(it.syncing_threads as u64, "thread"),
                counted(it.syncs_at_once.into(), "sync"),
                it.overlapping_syncs
            ),
        );
    }
    if it.errors > 0 {
        fact("failed calls", it.errors.to_string());
    }
    section
}
