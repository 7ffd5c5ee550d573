//! What a durable write costs, question by question: a table, what follows from it, a picture.
//!
//! In: the findings of `durio durable`. Out: sections. Not here: any figure that they do not have.

mod charts;
mod tables;

use durio_analyse::Declined;
use durio_analyse::cost_model::Estimate;
use durio_analyse::durable::{
    CommitDelayAdvice, CommitDelayFindings, Contention, CrossFindings, DurableFindings,
    FlushSlopeFindings, LeftOut, Misfit, MisfitKind, Setting, SharedSync, SizeCurve, SizesFindings,
    SlopeShape, WritersFindings, request_words,
};
use durio_plan::{FileLayout, Slice};
use durio_record::SyncCaller;
use durio_units::{Bytes, Nanos};

use super::machine::cache_name;
use crate::document::{Body, Document, Section, Tone};
use crate::figures::{bandwidth, counted, decimal, mean_latency, percent, rate};

/// A label and what is said.
type Said = (&'static str, String);

/// Adds every section that has something to show, in the order in which one reads them. It has no
/// rules that hold for all.
pub(super) fn add(found: &DurableFindings, document: &mut Document) -> Option<String> {
    let sections = [
        disagreements(found),
        methods(found),
        commands(found),
        sync_calls(found),
        file_modes(found),
        sizes(found),
        writers(found),
        cross(found),
        sync_every(found),
        slopes(found),
        group_commit(found),
        delays(found),
        whole_cross(found),
        left(&found.left_out),
    ];
    let says = |section: &Section| {
        section.blocks.iter().any(|block| !matches!(block.body, Body::Text(..)))
    };
    sections.into_iter().filter(says).for_each(|it| document.push(it));
    None
}

fn part(title: &str, summary: &str) -> Section {
    let mut part = Section::new(title);
    part.note(summary);
    part
}

fn tell(part: &mut Section, said: impl IntoIterator<Item = Said>) {
    for (label, text) in said {
        let tone = if label == "warning" { Tone::Warning } else { Tone::Plain };
        part.toned(tone, label, text);
    }
}

/// A file mode as users name it; nothing for what existed.
const fn layout_word(layout: Option<FileLayout>) -> &'static str {
    match layout {
        Some(FileLayout::Empty) => "extend",
        Some(FileLayout::Preallocated) => "preallocated",
        Some(FileLayout::ZeroFilled) => "zero-filled",
        Some(FileLayout::Incompressible) => "recycled",
        None => "as it is",
    }
}

/// The method with its cache mode: o_dsync direct, unsynced buffered.
fn method_words(setting: &Setting) -> String {
    format!("{} {}", method_word(setting), cache_name(setting.cache))
}

/// How its writes are made durable.
fn method_word(setting: &Setting) -> &'static str {
    if setting.is_durable() { setting.method.name() } else { "unsynced" }
}

/// A size that is a figure.
fn size(bytes: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let whole = bytes.round() as u64;
    Bytes::new(whole).to_string()
}

/// So many settings that disagree with themselves are shown.
const REPEATED_MAX: usize = 3;

/// Rows that should be the same and are not: before anybody compares rows.
fn disagreements(found: &DurableFindings) -> Section {
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
    let mut part = Section::new("The same, measured again");
    tell(&mut part, apart.iter().take(REPEATED_MAX).map(line));
    if let Some(more) = apart.len().checked_sub(REPEATED_MAX).filter(|more| *more > 0) {
        tell(&mut part, [("", format!("and {more} more that disagree with themselves"))]);
    }
    part
}

fn methods(found: &DurableFindings) -> Section {
    let summary = "One writer, as pg_test_fsync asks: operations per second and what each takes, \
                   past and through the page cache; the unsynced write stands for contrast.";
    let mut part = part("Sync methods", summary);
    let Some(methods) = &found.methods else { return part };
    let table = tables::methods(methods);
    let noise = tables::noise_note(&table).map(|it| ("noise", it));
    part.table(table);
    tell(&mut part, noise);
    let row = |at: Option<usize>| at.and_then(|at| methods.rows.get(at));
    if let Some(row) = row(methods.fastest)
        && let Some(figures) = &row.arm.figures
    {
        let each = mean_latency(1e9 / figures.rate_per_second.max(1e-9));
        tell(
            &mut part,
            [(
                "fastest",
                format!(
                    "{}: {}, {each} each{}",
                    method_words(&row.arm.setting),
                    rate(figures.rate_per_second),
                    scatter(figures.noise_share)
                ),
            )],
        );
    }
    if let Some(row) = row(methods.steadiest).filter(|_| methods.steadiest != methods.fastest) {
        let words = format!("{} has the lowest p99", method_words(&row.arm.setting));
        tell(&mut part, [("steadiest", words)]);
    }
    for row in &methods.rows {
        let name = method_words(&row.arm.setting);
        let problems = row.arm.problems.iter();
        tell(&mut part, problems.map(|problem| ("warning", format!("{name}: {problem}"))));
    }
    part.charts(charts::methods(methods));
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

fn commands(found: &DurableFindings) -> Section {
    let summary = "The requests that one commit sent to the driver, in their order. FF is a flush, \
                   an F after the operation's letter is FUA (past the cache), M is metadata.";
    let mut part = part("What a commit sends to the device", summary);
    if found.commands.is_empty() {
        return part;
    }
    if found.commands.iter().any(|it| !it.traced.sequences.is_empty()) {
        part.table(tables::commands(&found.commands));
    }
    let mut untraced: Vec<(String, Vec<String>)> = Vec::new();
    for it in &found.commands {
        let name = format!("{} {}, {}", it.method, cache_name(it.cache), layout_word(it.layout));
        if let Some(reason) = &it.traced.unavailable {
            match untraced.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name.clone()),
                None => untraced.push((reason.clone(), vec![name.clone()])),
            }
        }
        if it.traced.lost > 0 {
            let lost = counted(it.traced.lost, "event");
            tell(&mut part, [("warning", format!("{name}: the kernel lost {lost}"))]);
        }
        if it.reaches_media == Some(false) {
            let words = "not every commit sent a flush or a write past the cache";
            tell(&mut part, [("warning", format!("{name}: {words}"))]);
        }
        let first = it.traced.sequences.first().filter(|it| !it.requests.is_empty());
        if let Some(first) = first {
            let words: Vec<String> = first.requests.iter().map(request_words).collect();
            tell(&mut part, [("in words", format!("{name}: {}", words.join("; ")))]);
        }
    }
    for (reason, names) in untraced {
        let all = names.len() == found.commands.len();
        let names = if all { "any commit".to_owned() } else { names.join("; ") };
        tell(&mut part, [("not traced", format!("{names}: {reason}"))]);
    }
    part.charts([charts::sequences(&found.commands)]);
    part
}

fn sync_calls(found: &DurableFindings) -> Section {
    let summary = "The C library's calls, which a preloaded library may have replaced, against the \
                   kernel's own.";
    let mut part = part("Sync calls", summary);
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
        tell(&mut part, [(caller, format!("{}: {calls}, {flushes}, {each} each{error}", it.call))]);
    }
    part
}

fn file_modes(found: &DurableFindings) -> Section {
    let summary = "The same log on files whose blocks are there already, or not. The recycled file, \
                   written before, is the measure.";
    let mut part = part("File modes", summary);
    if found.file_modes.is_empty() {
        return part;
    }
    part.table(tables::file_modes(&found.file_modes));
    for row in found.file_modes.iter().flat_map(|it| &it.rows) {
        let is_slower = |share: &f64| *share < 0.9;
        if let Some(share) = row.share_of_recycled.filter(is_slower) {
            let setting = &row.arm.setting;
            let more = row.further_writes_per_commit.filter(|it| *it >= 0.1);
            let more = more.map_or_else(String::new, |it| {
                format!(", with {} more device writes per commit", decimal(it))
            });
            tell(
                &mut part,
                [(
                    layout_word(setting.layout),
                    format!(
                        "{}: {} of the rate of the recycled file{more}",
                        method_words(setting),
                        percent(share)
                    ),
                )],
            );
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

fn sizes(found: &DurableFindings) -> Section {
    let summary = "One writer, by the size of its writes. The time of a durable write is taken as a \
                   fixed cost + size ÷ bandwidth; intervals cover 95 %.";
    let mut part = part("Sizes and the cost of a durable write", summary);
    let Some(sizes) = &found.sizes else { return part };
    let table = tables::sizes(sizes);
    let noise = tables::noise_note(&table).map(|it| ("noise", it));
    part.table(table);
    tell(&mut part, noise);
    for curve in sizes.curves.iter().filter(|it| it.setting.is_durable()) {
        tell(&mut part, of_curve(curve));
    }
    tell(&mut part, free(sizes));
    part.charts([charts::costs(sizes)]);
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
fn files_words(found: &WritersFindings) -> String {
    let setting = found.rows.first().map(|row| &row.arm.setting);
    let method = setting.map_or_else(String::new, method_words);
    let block = setting.map_or_else(String::new, |it| it.block_size.to_string());
    let files = if found.file_each { "a file each" } else { "one file" };
    format!("{method}, {block}, {files}")
}

fn writers(found: &DurableFindings) -> Section {
    let summary = "How total and per-writer throughput grow with writers. The law is Gunther's: \
                   σ is the share for which writers queue, κ the cost per pair; with κ = 0 it is \
                   Amdahl's.";
    let mut part = part("Writers", summary);
    if found.writers.is_empty() {
        return part;
    }
    part.table(tables::writers(&found.writers));
    for it in &found.writers {
        let name = files_words(it);
        tell(&mut part, it.contention.iter().map(|law| ("law", law_words(&name, law))));
        tell(&mut part, it.declined.iter().map(|reason| ("no law", format!("{name}: {reason}"))));
        tell(&mut part, single_log(&name, it));
    }
    part.charts(found.writers.iter().map(charts::throughput));
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

fn cross(found: &DurableFindings) -> Section {
    let summary = "Sizes by writers at equal volume: time for 1 GiB, and the bandwidth of all \
                   writers together.";
    let mut part = part("Sizes by writers", summary);
    if found.crosses.is_empty() {
        return part;
    }
    part.table(tables::crosses(&found.crosses));
    tell(&mut part, found.crosses.iter().filter_map(limit));
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

fn sync_every(found: &DurableFindings) -> Section {
    let summary = "A sync after every N writes: the time of the writer per write, its share of the \
                   sync in it.";
    let mut part = part("A sync every N writes", summary);
    if found.sync_every.is_empty() {
        return part;
    }
    part.table(tables::sync_every(&found.sync_every));
    for it in &found.sync_every {
        let name = it.rows.first().map(|row| method_words(&row.arm.setting)).unwrap_or_default();
        tell(&mut part, it.line.iter().map(|line| ("cost", shared(&name, line))));
        tell(&mut part, it.declined.iter().map(|reason| no_model(&name, reason)));
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

fn slopes(found: &DurableFindings) -> Section {
    let summary = "The time of one flush against the data that was written before it. A volatile \
                   cache that is written back makes it rise; evidence, no verdict.";
    let mut part = part("Flush slope", summary);
    if found.flush_slopes.is_empty() {
        return part;
    }
    part.table(tables::flush_slopes(&found.flush_slopes));
    tell(&mut part, found.flush_slopes.iter().filter_map(slope));
    part.charts([charts::slopes(found)]);
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

fn group_commit(found: &DurableFindings) -> Section {
    let summary = "Committers that share a log's writes and syncs, against as many who write and \
                   sync for themselves; latency as a committer sees it.";
    let mut part = part("Group commit", summary);
    let Some(commits) = &found.group_commit else { return part };
    part.table(tables::group_commit(commits));
    let mut methods: Vec<String> =
        commits.rows.iter().map(|row| method_words(&row.arm.setting)).collect();
    methods.dedup();
    tell(&mut part, [("method", methods.join(", "))]);
    for row in commits.rows.iter().filter(|row| row.gain.is_some()) {
        let (gain, setting) = (row.gain.unwrap_or_default(), &row.arm.setting);
        tell(
            &mut part,
            [(
                "gain",
                format!(
                    "{} with records of {}: {} × the commits of independent writers",
                    counted(setting.committers().into(), "committer"),
                    setting.block_size,
                    decimal(gain)
                ),
            )],
        );
    }
    part.charts([charts::batches(commits)]);
    part
}

fn delays(found: &DurableFindings) -> Section {
    let summary = "What a leader gains by waiting for more records. Advised is the smallest delay \
                   within the noise of the best, if that gains more than the noise over none, and \
                   the smallest batch bound that costs nothing.";
    let mut part = part("Commit delay and batch bound", summary);
    if found.commit_delays.is_empty() {
        return part;
    }
    part.table(tables::commit_delays(&found.commit_delays));
    tell(&mut part, found.commit_delays.iter().filter_map(advice));
    part
}

fn advice(found: &CommitDelayFindings) -> Option<Said> {
    let advice = found.advice.as_ref()?;
    let setting = &found.arms.get(advice.arm)?.setting;
    let name = counted(setting.committers().into(), "committer");
    Some(("advised", format!("{name}: {}", delay_words(advice))))
}

fn delay_words(advice: &CommitDelayAdvice) -> String {
    let bound = advice.batch_max;
    if advice.delay == Nanos::ZERO {
        return format!(
            "no delay: the best gains {}, and up to {} is noise; batches up to {bound}",
            percent(advice.best_gain_share),
            percent(advice.noise_share)
        );
    }
    let tail =
        advice.p99_share.map_or_else(String::new, |share| format!(", p99 {:+.1} %", share * 100.0));
    let (delay, gain) = (advice.delay, percent(advice.gain_share));
    format!("a delay of {delay}: {gain} more commits than without{tail}; batches up to {bound}")
}

fn whole_cross(found: &DurableFindings) -> Section {
    let mut part = part("The whole cross", "Every combination that was measured.");
    if !found.whole_cross.is_empty() {
        part.table(tables::whole_cross(&found.whole_cross));
    }
    part
}

fn left(left: &LeftOut) -> Section {
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
    let mut part = Section::new("What was left out");
    tell(&mut part, said);
    part
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
