//! What a durable write costs, in words: the same in the terminal and in the page.
//!
//! In: the findings of `durio durable`. Out: [`DurablePart`]s: a table and sentences for each
//! question. Not here: widths, borders, tags, pictures.

mod group_commit;

use durio_analyse::Declined;
use durio_analyse::cost_model::Estimate;
use durio_analyse::durable::{
    Contention, CrossFindings, DurableFindings, FlushSlopeFindings, LeftOut, Misfit, MisfitKind,
    Setting, SharedSync, SizeCurve, SizesFindings, SlopeShape, WritersFindings, request_words,
};
use durio_plan::{FileLayout, Slice};
use durio_record::SyncCaller;
use durio_units::{Bytes, Nanos};
use durio_workload::CacheMode;

use crate::campaign_table::SectionTable;
use crate::durable_tables as tables;
use crate::figures::{bandwidth, counted, decimal, mean_latency, percent, rate};

/// A label and what is said.
pub(crate) type Said = (&'static str, String);

/// One question and its answer.
#[derive(Debug)]
pub(crate) struct DurablePart {
    /// Which question, for the pictures.
    pub(crate) slice: Option<Slice>,
    pub(crate) title: String,
    pub(crate) summary: &'static str,
    pub(crate) tables: Vec<SectionTable>,
    pub(crate) said: Vec<Said>,
}

/// Every part that has something to show, in the order in which one reads them.
pub(crate) fn parts(found: &DurableFindings) -> Vec<DurablePart> {
    let mut parts = vec![
        disagreements(found),
        methods(found),
        commands(found),
        sync_calls(found),
        file_modes(found),
    ];
    parts.extend([sizes(found), writers(found), cross(found), sync_every(found), slopes(found)]);
    parts.extend([group_commit::group_commit(found), group_commit::delays(found)]);
    parts.extend([whole_cross(found), left(&found.left_out)]);
    parts.retain(|part| !part.tables.is_empty() || !part.said.is_empty());
    parts
}

fn part(slice: Slice, title: &str, summary: &'static str) -> DurablePart {
    let (title, tables, said) = (title.to_owned(), Vec::new(), Vec::new());
    DurablePart { slice: Some(slice), title, summary, tables, said }
}

/// A file mode as users name it; nothing for what existed.
pub(crate) const fn layout_word(layout: Option<FileLayout>) -> &'static str {
    match layout {
        Some(FileLayout::Empty) => "extend",
        Some(FileLayout::Preallocated) => "preallocated",
        Some(FileLayout::ZeroFilled) => "zero-filled",
        Some(FileLayout::Incompressible) => "recycled",
        None => "as it is",
    }
}

pub(crate) const fn cache_word(cache: CacheMode) -> &'static str {
    match cache {
        CacheMode::Direct => "direct",
        CacheMode::Buffered => "buffered",
    }
}

/// The method with its cache mode: o_dsync direct, unsynced buffered.
pub(crate) fn method_words(setting: &Setting) -> String {
    format!("{} {}", method_word(setting), cache_word(setting.cache))
}

/// How its writes are made durable.
pub(crate) fn method_word(setting: &Setting) -> &'static str {
    if setting.is_durable() { setting.method.name() } else { "unsynced" }
}

/// A size that is a figure.
pub(crate) fn size(bytes: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let whole = bytes.round() as u64;
    Bytes::new(whole).to_string()
}

/// So many settings that disagree with themselves are shown.
const REPEATED_MAX: usize = 3;

/// Rows that should be the same and are not: before anybody compares rows.
fn disagreements(found: &DurableFindings) -> DurablePart {
    let apart: Vec<_> = found.repeated.iter().filter(|it| !it.rates.agree).collect();
    let line = |it: &&durio_analyse::durable::RepeatedSetting| {
        let (low, high) = (it.rates.rate_min_per_second, it.rates.rate_max_per_second);
        let setting = &it.setting;
        let writers = counted(setting.committers().into(), "writer");
        let words = format!(
            "{}, {}, {writers}: {} in this run, {} to {}; a smaller difference between rows means \
             nothing",
            method_words(setting),
            setting.block_size,
            counted(it.rates.count, "measurement"),
            rate(low),
            rate(high)
        );
        ("warning", words)
    };
    let mut said: Vec<Said> = apart.iter().take(REPEATED_MAX).map(line).collect();
    if let Some(more) = apart.len().checked_sub(REPEATED_MAX).filter(|more| *more > 0) {
        said.push(("", format!("and {more} more that disagree with themselves")));
    }
    let title = "The same, measured again".to_owned();
    DurablePart { slice: None, title, summary: "", tables: Vec::new(), said }
}

fn methods(found: &DurableFindings) -> DurablePart {
    let summary = "One writer, as pg_test_fsync asks: operations per second and what each takes, \
                   past and through the page cache; the unsynced write stands for contrast.";
    let mut part = part(Slice::Methods, "Sync methods", summary);
    let Some(methods) = &found.methods else { return part };
    part.tables = vec![tables::methods(methods)];
    part.said.extend(part.tables.iter().filter_map(tables::noise_note).map(|it| ("noise", it)));
    let row = |at: Option<usize>| at.and_then(|at| methods.rows.get(at));
    if let Some(row) = row(methods.fastest)
        && let Some(figures) = &row.arm.figures
    {
        let each = mean_latency(1e9 / figures.rate_per_second.max(1e-9));
        part.said.push((
            "fastest",
            format!(
                "{}: {}, {each} each{}",
                method_words(&row.arm.setting),
                rate(figures.rate_per_second),
                scatter(figures.noise_share)
            ),
        ));
    }
    if let Some(row) = row(methods.steadiest).filter(|_| methods.steadiest != methods.fastest) {
        let words = format!("{} has the lowest p99", method_words(&row.arm.setting));
        part.said.push(("steadiest", words));
    }
    for row in &methods.rows {
        let name = method_words(&row.arm.setting);
        let problems = row.arm.problems.iter();
        part.said.extend(problems.map(|problem| ("warning", format!("{name}: {problem}"))));
    }
    part
}

/// A rate that is known no better than to a tenth is not the fastest for sure.
const NOISE_MAX: f64 = 0.05;

/// From here on two standard errors are half of the rate.
const UNKNOWN_FROM: f64 = 0.25;

/// How far a rate may be off by chance, where that is much: two standard errors.
fn scatter(noise_share: Option<f64>) -> String {
    match noise_share {
        Some(share) if share > UNKNOWN_FROM => {
            "; not steady: its intervals differ too much to rank it".to_owned()
        }
        Some(share) if share > NOISE_MAX => {
            format!("; not steady: by its intervals ± {}", percent(2.0 * share))
        }
        _ => String::new(),
    }
}

fn commands(found: &DurableFindings) -> DurablePart {
    let summary = "The requests that one commit sent to the driver, in their order. FF is a flush, \
                   an F after the operation's letter is FUA (past the cache), M is metadata.";
    let mut part = part(Slice::Commands, "What a commit sends to the device", summary);
    if found.commands.is_empty() {
        return part;
    }
    if found.commands.iter().any(|it| !it.traced.sequences.is_empty()) {
        part.tables = vec![tables::commands(&found.commands)];
    }
    let mut untraced: Vec<(String, Vec<String>)> = Vec::new();
    for it in &found.commands {
        let name = format!("{} {}, {}", it.method, cache_word(it.cache), layout_word(it.layout));
        if let Some(reason) = &it.traced.unavailable {
            match untraced.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name.clone()),
                None => untraced.push((reason.clone(), vec![name.clone()])),
            }
        }
        if it.traced.lost > 0 {
            let lost = counted(it.traced.lost, "event");
            part.said.push(("warning", format!("{name}: the kernel lost {lost}")));
        }
        if it.reaches_media == Some(false) {
            let words = "not every commit sent a flush or a write past the cache";
            part.said.push(("warning", format!("{name}: {words}")));
        }
        let first = it.traced.sequences.first().filter(|it| !it.requests.is_empty());
        if let Some(first) = first {
            let words: Vec<String> = first.requests.iter().map(request_words).collect();
            part.said.push(("in words", format!("{name}: {}", words.join("; "))));
        }
    }
    for (reason, names) in untraced {
        let all = names.len() == found.commands.len();
        let names = if all { "any commit".to_owned() } else { names.join("; ") };
        part.said.push(("not traced", format!("{names}: {reason}")));
    }
    part
}

fn sync_calls(found: &DurableFindings) -> DurablePart {
    let summary = "The C library's calls, which a preloaded library may have replaced, against the \
                   kernel's own.";
    let mut part = part(Slice::SyncCalls, "Sync calls", summary);
    for it in found.sync_calls.iter().flat_map(|it| &it.calls) {
        let caller = match it.caller {
            SyncCaller::Library => "library",
            SyncCaller::Kernel => "kernel",
        };
        let flushes = match it.flushes {
            Some(1) => "1 flush at the devices".to_owned(),
            Some(count) => format!("{count} flushes at the devices"),
            None => "flushes are not counted here".to_owned(),
        };
        let each = Nanos::new(it.elapsed.get() / it.calls.max(1));
        let error = it.errno.map_or_else(String::new, |errno| {
            format!("; ended by: {}", std::io::Error::from_raw_os_error(errno))
        });
        let calls = counted(it.calls, "call");
        part.said.push((caller, format!("{}: {calls}, {flushes}, {each} each{error}", it.call)));
    }
    part
}

fn file_modes(found: &DurableFindings) -> DurablePart {
    let summary = "The same log on files whose blocks are there already, or not. The recycled file, \
                   written before, is the measure.";
    let mut part = part(Slice::FileModes, "File modes", summary);
    if found.file_modes.is_empty() {
        return part;
    }
    part.tables = vec![tables::file_modes(&found.file_modes)];
    for row in found.file_modes.iter().flat_map(|it| &it.rows) {
        let is_slower = |share: &f64| *share < 0.9;
        if let Some(share) = row.share_of_recycled.filter(is_slower) {
            let setting = &row.arm.setting;
            let more = row.further_writes_per_commit.filter(|it| *it >= 0.1);
            let more = more.map_or_else(String::new, |it| {
                format!(", with {} more device writes per commit", decimal(it))
            });
            part.said.push((
                layout_word(setting.layout),
                format!(
                    "{}: {} of the rate of the recycled file{more}",
                    method_words(setting),
                    percent(share)
                ),
            ));
        }
    }
    part
}

fn with_interval(estimate: &Estimate, write: impl Fn(f64) -> String) -> String {
    match estimate.plus_minus {
        Some(half) => format!("{} ± {}", write(estimate.value), write(half)),
        None => write(estimate.value),
    }
}

fn sizes(found: &DurableFindings) -> DurablePart {
    let summary = "One writer, by the size of its writes. The time of a durable write is taken as a \
                   fixed cost + size ÷ bandwidth; intervals cover 95 %.";
    let mut part = part(Slice::Sizes, "Sizes and the cost of a durable write", summary);
    let Some(sizes) = &found.sizes else { return part };
    part.tables = vec![tables::sizes(sizes)];
    part.said.extend(part.tables.iter().filter_map(tables::noise_note).map(|it| ("noise", it)));
    for curve in sizes.curves.iter().filter(|it| it.setting.is_durable()) {
        part.said.extend(of_curve(curve));
    }
    part.said.extend(free(sizes));
    part
}

fn free(sizes: &SizesFindings) -> Option<Said> {
    let words = "small durable writes keep nearly all of the unsynced bandwidth: durability seems to \
                 cost nothing, as where a storage acknowledges too early; compare the flushes";
    (sizes.free_at_small_sizes == Some(true)).then(|| ("warning", words.to_owned()))
}

fn of_curve(curve: &SizeCurve) -> Vec<Said> {
    let name = method_words(&curve.setting);
    let Some(model) = &curve.model else {
        return curve.declined.iter().map(|it| no_model(&name, it)).collect();
    };
    let fixed = with_interval(&model.fixed_ns, mean_latency);
    let speed = curve.bandwidth_bytes_per_second.and_then(|it| match (it.low, it.high) {
        (Some(low), Some(high)) => {
            Some(format!("{} ({} to {})", bandwidth(it.value?), bandwidth(low), bandwidth(high)))
        }
        (Some(low), None) => Some(format!("at least {}", bandwidth(low))),
        _ => it.value.map(bandwidth),
    });
    let speed = speed.unwrap_or_else(|| "no bandwidth to be told".to_owned());
    let mut said = vec![("cost", format!("{name}: {fixed} + size ÷ {speed}"))];
    said.extend(curve.misfits.iter().map(|it| ("but", format!("{name}: {}", misfit(it)))));
    if let Some(batching) = &curve.batching {
        let shares = batching.for_shares.iter().map(|it| {
            let beyond = if it.is_extrapolated { " (beyond what was measured)" } else { "" };
            format!("{} for {:.0} %{beyond}", size(it.size_bytes), it.share * 100.0)
        });
        let shares: Vec<String> = shares.collect();
        said.push(("batch", format!("{name}: {} of the bandwidth", shares.join(", "))));
        let alone = batching
            .of_records
            .iter()
            .map(|it| format!("{} {}", size(it.size_bytes), percent(it.share)));
        let alone: Vec<String> = alone.collect();
        let words = format!("{name}: each record alone reaches {}", alone.join(", "));
        said.push(("alone", format!("{words} of the bandwidth")));
        let factors = batching
            .unbatched
            .iter()
            .map(|it| format!("{} × for {}", decimal(it.factor), size(it.record_bytes)));
        let factors: Vec<String> = factors.collect();
        if !factors.is_empty() {
            let against = size(batching.batch_bytes);
            let words = format!("{name}: {}; against batches of {against}", factors.join(", "));
            said.push(("without", words));
        }
    }
    said
}

fn no_model(name: &str, reason: &Declined) -> Said {
    ("no model", format!("{name}: {reason}"))
}

fn misfit(it: &Misfit) -> String {
    let near: Vec<String> = it
        .near
        .iter()
        .map(|near| format!("{} of {} ({})", near.kind.words(), near.layer, size(near.size_bytes)))
        .collect();
    let why = match near.is_empty() {
        true => "no known kernel limit at this size; a device's own cache shows none".to_owned(),
        false => format!("{} lies there", near.join(", ")),
    };
    match it.kind {
        MisfitKind::Bend { from_bytes, to_bytes, factor } => format!(
            "between {} and {} the cost per byte changes by a factor of {}: {why}",
            size(from_bytes),
            size(to_bytes),
            decimal(factor)
        ),
        MisfitKind::Residual { size_bytes, share } => format!(
            "writes of {} take {} {} than the model says: {why}",
            size(size_bytes),
            percent(share.abs()),
            if share > 0.0 { "longer" } else { "shorter" }
        ),
    }
}

/// Where the writers write.
pub(crate) fn files_words(found: &WritersFindings) -> String {
    let setting = found.rows.first().map(|row| &row.arm.setting);
    let method = setting.map_or_else(String::new, method_words);
    let block = setting.map_or_else(String::new, |it| it.block_size.to_string());
    let files = if found.file_each { "a file each" } else { "one file" };
    format!("{method}, {block}, {files}")
}

fn writers(found: &DurableFindings) -> DurablePart {
    let summary = "How total and per-writer throughput grow with writers. The law is Gunther's: \
                   σ is the share for which writers queue, κ the cost per pair; with κ = 0 it is \
                   Amdahl's.";
    let mut part = part(Slice::Writers, "Writers", summary);
    if found.writers.is_empty() {
        return part;
    }
    part.tables = vec![tables::writers(&found.writers)];
    for it in &found.writers {
        let name = files_words(it);
        part.said.extend(it.contention.iter().map(|law| ("law", law_words(&name, law))));
        part.said.extend(it.declined.iter().map(|reason| ("no law", format!("{name}: {reason}"))));
        part.said.extend(single_log(&name, it));
    }
    part
}

fn law_words(name: &str, found: &Contention) -> String {
    let law = &found.law;
    let (sigma, kappa) = (law.contention, law.coherency);
    let peak = match law.peak_writers {
        Some(peak) => format!("highest at {} writers", decimal(peak.round())),
        None => "it never falls".to_owned(),
    };
    let figures = format!(
        "σ {} ({} to {}), κ {:.1e} ({:.1e} to {:.1e}), {peak}",
        percent(sigma.value),
        percent(sigma.low),
        percent(sigma.high),
        kappa.value,
        kappa.low,
        kappa.high
    );
    match found.holds_from {
        Some(from) if from > 1.5 => format!(
            "{name}: it holds from {from:.0} writers on, fewer are a case of their own: {figures}"
        ),
        _ => format!("{name}: {figures}; it errs by {}", percent(law.residual_share)),
    }
}

/// Whether one log with batches beats the most writers that a batch was measured for.
fn single_log(name: &str, found: &WritersFindings) -> Option<Said> {
    let row = found.rows.iter().rev().find(|row| row.batched_gain.is_some())?;
    let gain = row.batched_gain?;
    let jobs = row.arm.setting.jobs;
    let words = if gain > 1.0 { "beats" } else { "does not beat" };
    let text = format!(
        "{name}: one log that writes {jobs} records at once {words} {jobs} independent writers: \
         {} × their rate by the cost model of one writer",
        decimal(gain)
    );
    (jobs > 1).then_some(("one log", text))
}

fn cross(found: &DurableFindings) -> DurablePart {
    let summary = "Sizes by writers at equal volume: time for 1 GiB, and the bandwidth of all \
                   writers together.";
    let mut part = part(Slice::SizesAndWriters, "Sizes by writers", summary);
    if found.crosses.is_empty() {
        return part;
    }
    part.tables = vec![tables::crosses(&found.crosses)];
    part.said = found.crosses.iter().filter_map(limit).collect();
    part
}

fn limit(found: &CrossFindings) -> Option<Said> {
    let word = found.limited_by?;
    let name = found.cells.first().map(|it| method_words(&it.arm.setting))?;
    let steps = found.elasticities.len();
    let same = found.elasticities.iter().filter(|it| it.limited_by == word).count();
    let text = format!(
        "{name}: {} in {same} of {steps} steps from a size to the next, by how much longer the \
         larger write takes",
        word.words()
    );
    Some(("limited by", text))
}

fn sync_every(found: &DurableFindings) -> DurablePart {
    let summary = "A sync after every N writes: the time of the writer per write, its share of the \
                   sync in it.";
    let mut part = part(Slice::SyncEvery, "A sync every N writes", summary);
    if found.sync_every.is_empty() {
        return part;
    }
    part.tables = vec![tables::sync_every(&found.sync_every)];
    for it in &found.sync_every {
        let name = it.rows.first().map(|row| method_words(&row.arm.setting)).unwrap_or_default();
        part.said.extend(it.line.iter().map(|line| ("cost", shared(&name, line))));
        part.said.extend(it.declined.iter().map(|reason| no_model(&name, reason)));
    }
    part
}

fn shared(name: &str, line: &SharedSync) -> String {
    let holds = match line.residual_share_max > 0.25 {
        true => format!("; it errs by up to {}", percent(line.residual_share_max)),
        false => String::new(),
    };
    format!(
        "{name}: a write {} + a sync {} ÷ N{holds}",
        if line.write_ns.is_known() {
            with_interval(&line.write_ns, mean_latency)
        } else {
            "of next to nothing".to_owned()
        },
        with_interval(&line.sync_ns, mean_latency)
    )
}

fn slopes(found: &DurableFindings) -> DurablePart {
    let summary = "The time of one flush against the data that was written before it. A volatile \
                   cache that is written back makes it rise; evidence, no verdict.";
    let mut part = part(Slice::FlushSlope, "Flush slope", summary);
    if found.flush_slopes.is_empty() {
        return part;
    }
    part.tables = vec![tables::flush_slopes(&found.flush_slopes)];
    part.said = found.flush_slopes.iter().filter_map(slope).collect();
    part
}

fn slope(found: &FlushSlopeFindings) -> Option<Said> {
    let name = method_words(&found.setting);
    let Some(slope) = &found.slope else {
        return found.declined.as_ref().map(|reason| no_model(&name, reason));
    };
    let at = slope
        .flush_bytes_per_second
        .map_or_else(String::new, |it| format!("; that is {} of dirty data", bandwidth(it)));
    let (first, each) = (&slope.intercept_ns, &slope.ns_per_mib);
    let alone = first.is_known().then(|| with_interval(first, mean_latency));
    let text = match (slope.shape == SlopeShape::Rises, alone) {
        (true, Some(alone)) => {
            format!("{alone} + {} per MiB{at}", with_interval(each, mean_latency))
        }
        (true, None) => format!("{} per MiB{at}", with_interval(each, mean_latency)),
        (false, Some(alone)) => format!("{alone}, whatever was written before"),
        (false, None) => "no longer after much data than after little".to_owned(),
    };
    Some((slope.shape.words(), format!("{name}: {text}")))
}

fn whole_cross(found: &DurableFindings) -> DurablePart {
    let mut part = part(Slice::Cross, "The whole cross", "Every combination that was measured.");
    if !found.whole_cross.is_empty() {
        part.tables = vec![tables::whole_cross(&found.whole_cross)];
    }
    part
}

fn left(left: &LeftOut) -> DurablePart {
    let mut said: Vec<Said> = Vec::new();
    if left.measured < left.combinations {
        said.push((
            "measured",
            format!(
                "{} of the {} combinations of method, cache, file mode, size and writers that occur",
                left.measured, left.combinations
            ),
        ));
    }
    said.extend(left.said.iter().map(|it| ("left out", it.clone())));
    let names: Vec<&str> = left.slices.iter().map(|slice| slice_words(*slice)).collect();
    if !names.is_empty() {
        said.push(("not asked", names.join(", ")));
    }
    let title = "What was left out".to_owned();
    DurablePart { slice: None, title, summary: "", tables: Vec::new(), said }
}

const fn slice_words(slice: Slice) -> &'static str {
    match slice {
        Slice::Commands => "commands at the device",
        Slice::SyncCalls => "sync calls",
        Slice::Methods => "methods",
        Slice::SyncEvery => "a sync every N writes",
        Slice::FlushSlope => "flush slope",
        Slice::FileModes => "file modes",
        Slice::Sizes => "sizes",
        Slice::Writers => "writers",
        Slice::SizesAndWriters => "sizes by writers",
        Slice::GroupCommit => "group commit",
        Slice::CommitDelay => "commit delay",
        Slice::Cross => "the whole cross",
    }
}
