//! The cost of durable writes, question by question: a table, its conclusion, a picture.
//!
//! The first fact of a section is its answer; a screen has the methods that databases use, these
//! answers in a line each, and what speaks for or against the results. Adds no number to the
//! findings of `durio durable`.

mod charts;
mod models;
mod tables;

use durio_analyse::durable::{
    ArmSetting, DurableFindings, RepeatedSetting, SkippedParts, request_words,
};
use durio_base::Nanos;
use durio_plan::{Experiment, FileLayout};
use durio_record::SyncCaller;

pub(super) use charts::method_rates;

use super::machine::cache_name;
use crate::document::{DetailLevel, Document, LabelledFact, Section, SectionBody, Tone};
use crate::figures::{counted, decimal, grouped, mean_latency, percent, rate};

/// Adds every section that has something to show, in the order in which one reads them; `about` is
/// what a screen has below the answers.
pub(super) fn add(found: &DurableFindings, about: Section, document: &mut Document) {
    let sections = [
        disagreements(found),
        methods(found),
        commands(found),
        sync_calls(found),
        file_modes(found),
        models::sizes(found),
        models::writers(found),
        models::cross(found),
        models::sync_every(found),
        models::slopes(found),
        models::group_commit(found),
        models::delays(found),
        whole_cross(found),
    ];
    // A builder adds its summary before it looks for findings, so text alone is nothing to show.
    let says = |section: &Section| {
        section.blocks.iter().any(|block| !matches!(block.body, SectionBody::Text(..)))
    };
    let sections: Vec<Section> = sections.into_iter().filter(says).collect();
    let mut short = in_short(found, &sections);
    super::join(&mut short, about);
    document.push(short);
    let left = std::iter::once(left(&found.skipped)).filter(says);
    let sections = sections.into_iter().chain(left);
    sections.for_each(|section| document.push(Section { level: DetailLevel::Detail, ..section }));
}

fn in_short(found: &DurableFindings, sections: &[Section]) -> Section {
    let mut short = Section::default();
    let methods = found.methods.iter().map(tables::methods_of_databases);
    methods.for_each(|table| short.table(table));
    let mut without = Vec::new();
    // The document's first sentence has the fastest method.
    for it in sections.iter().filter(|section| section.heading != METHODS) {
        let facts = it.blocks.iter().find_map(|block| match &block.body {
            SectionBody::Facts(facts) => facts.first(),
            _ => None,
        });
        match facts {
            Some(LabelledFact { label, .. }) if NO_ANSWER.contains(&label.as_str()) => {
                without.push(it.heading.to_lowercase());
            }
            Some(LabelledFact { label, tone, value, .. }) => {
                // The rest of the answer is in its section.
                let answer = value.split("; ").next().unwrap_or_default();
                let level = match ANSWERS.contains(&it.heading.as_str()) {
                    true => DetailLevel::Summary,
                    false => DetailLevel::Detail,
                };
                let heading = it.heading.to_lowercase();
                short.toned_at(level, *tone, &heading, format!("{label}: {answer}"));
            }
            None => {}
        }
    }
    if !without.is_empty() {
        let text = format!("{}: no model fits", without.join(", "));
        short.fact_at(DetailLevel::Detail, LabelledFact::new(Tone::Plain, "no model", text));
    }
    short
}

/// The heading of the first section, whose answer is in the summary.
const METHODS: &str = "Sync methods";

/// Sections whose answers a screen has below the table: how a log should be written.
const ANSWERS: [&str; 3] = ["File modes", "Sizes", "Group commit"];

/// Labels of sections that looked for a formula and found none; why is a detail.
const NO_ANSWER: [&str; 2] = ["no model", "no law"];

fn part(title: &str, summary: &str) -> Section {
    let mut part = Section::new(title);
    part.note(summary);
    part
}

fn warn(part: &mut Section, text: String) {
    part.toned(Tone::Warning, "warning", text);
}

/// A file mode as users name it; nothing for existing files.
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
fn method_words(setting: &ArmSetting) -> String {
    format!("{} {}", method_word(setting), cache_name(setting.cache))
}

fn method_word(setting: &ArmSetting) -> &'static str {
    if setting.is_durable() { setting.method.name() } else { "unsynced" }
}

/// The most settings with contradicting repeats that are shown.
const REPEATED_MAX: usize = 3;

// Rows that should be the same and differ; shown before rows are compared.
fn disagreements(found: &DurableFindings) -> Section {
    let mut part = Section::new("Measured again");
    let apart: Vec<_> = found.repeated.iter().filter(|setting| !setting.rates.agree).collect();
    for RepeatedSetting { setting, rates, .. } in apart.iter().take(REPEATED_MAX) {
        let text = format!(
            "{}, {}, {}: {} in this run, {} to {}; ignore smaller differences between rows",
            method_words(setting),
            setting.block_size,
            counted(setting.committers().into(), "writer"),
            counted(rates.count, "measurement"),
            rate(rates.rate_min_per_second),
            rate(rates.rate_max_per_second)
        );
        warn(&mut part, text);
    }
    if let Some(more) = apart.len().checked_sub(REPEATED_MAX).filter(|more| *more > 0) {
        part.fact("", format!("and {more} more that contradict themselves"));
    }
    part
}

fn methods(found: &DurableFindings) -> Section {
    let summary = "One writer, as in pg_test_fsync: operations per second and the time of each, \
                   past and through the page cache; the unsynced write is shown for contrast.";
    let mut part = part(METHODS, summary);
    let Some(methods) = &found.methods else { return part };
    tables::with_noise_note(tables::methods(methods), &mut part);
    let row = |at: Option<usize>| at.and_then(|at| methods.rows.get(at));
    if let Some(row) = row(methods.fastest)
        && let Some(figures) = &row.arm.figures
    {
        let text = format!(
            "{}: {}, {} each{}",
            method_words(&row.arm.setting),
            rate(figures.rate_per_second),
            // By the rate and not by the latencies, to include a writer's time between two calls.
            mean_latency(1e9 / figures.rate_per_second.max(1e-9)),
            scatter(figures.noise_share)
        );
        part.fact("fastest", text);
    }
    // Where both are one method, it was named already.
    if let Some(row) = row(methods.steadiest).filter(|_| methods.steadiest != methods.fastest) {
        part.fact("steadiest", format!("{} has the lowest p99", method_words(&row.arm.setting)));
    }
    for row in &methods.rows {
        let name = method_words(&row.arm.setting);
        row.arm.problems.iter().for_each(|problem| warn(&mut part, format!("{name}: {problem}")));
    }
    part.charts([charts::method_latencies(methods)]);
    part
}

// A rate that is known no better than to a tenth is not the fastest for sure.
const NOISE_MAX: f64 = 0.05;

// From here on two standard errors are half of the rate.
const UNKNOWN_FROM: f64 = 0.25;

/// How far a rate may be off by chance, where that is much: two standard errors.
fn scatter(noise_share: Option<f64>) -> String {
    match noise_share {
        Some(share) if share > UNKNOWN_FROM => "; not steady: too noisy to rank".to_owned(),
        Some(share) if share > NOISE_MAX => {
            format!("; not steady: by its intervals ± {}", percent(2.0 * share))
        }
        _ => String::new(),
    }
}

fn commands(found: &DurableFindings) -> Section {
    let summary = "The requests that one commit sent to the driver, in their order. FF is a flush, \
                   an F after the operation's letter is FUA (past the cache), M is metadata.";
    let mut part = part("Requests of a commit", summary);
    part.table(tables::commands(&found.commands));
    let mut untraced: Vec<(&str, String)> = Vec::new();
    for it in &found.commands {
        let name = format!("{} {}, {}", it.method, cache_name(it.cache), layout_word(it.layout));
        untraced.extend(it.traced.unavailable.as_deref().map(|reason| (reason, name.clone())));
        if it.traced.lost > 0 {
            let lost = counted(it.traced.lost, "event");
            warn(&mut part, format!("{name}: the kernel lost {lost}"));
        }
        if it.reaches_media == Some(false) {
            let text = "not every commit sent a flush or a write past the cache";
            warn(&mut part, format!("{name}: {text}"));
        }
        let first = it.traced.sequences.first().filter(|sequence| !sequence.requests.is_empty());
        if let Some(first) = first {
            let words: Vec<String> = first.requests.iter().map(request_words).collect();
            part.fact("in words", format!("{name}: {}", words.join("; ")));
        }
    }
    for (reason, names) in grouped(untraced) {
        let all = names.len() == found.commands.len();
        let names = if all { "any commit".to_owned() } else { names.join("; ") };
        part.fact("not traced", format!("{names}: {reason}"));
    }
    part.charts([charts::sequences(&found.commands)]);
    part
}

fn sync_calls(found: &DurableFindings) -> Section {
    let summary = "The C library's calls, which a preloaded library may have replaced, against the \
                   kernel's own.";
    let mut part = part("Sync calls", summary);
    for it in found.sync_calls.iter().flat_map(|group| &group.calls) {
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
        part.fact(caller, format!("{}: {calls}, {flushes}, {each} each{error}", it.call));
    }
    part
}

fn file_modes(found: &DurableFindings) -> Section {
    let summary = "The same log on files whose blocks are there already, or not. The recycled file, \
                   written before, is the measure.";
    let mut part = part("File modes", summary);
    part.table(tables::file_modes(&found.file_modes));
    for row in found.file_modes.iter().flat_map(|findings| &findings.rows) {
        let Some(share) = row.share_of_recycled.filter(|share| *share < 0.9) else { continue };
        let setting = &row.arm.setting;
        let more = row.further_writes_per_commit.filter(|more| *more >= 0.1);
        // In a part of the answer that a screen leaves out, so that it keeps to one line.
        let more = more.map_or_else(String::new, |writes| {
            format!("; {} more device writes per commit", decimal(writes))
        });
        let (method, share) = (method_words(setting), percent(share));
        let text = format!("{method} reaches {share} of its rate on a recycled file{more}");
        part.fact(layout_word(setting.layout), text);
    }
    part
}

fn whole_cross(found: &DurableFindings) -> Section {
    let mut part = part("The whole cross", "Every combination that was measured.");
    part.table(tables::whole_cross(&found.whole_cross));
    part
}

fn left(left: &SkippedParts) -> Section {
    let mut part = Section::new("What was left out");
    if left.measured < left.combinations {
        let text = format!(
            "{} of the {} combinations of method, cache, file mode, size and writers that occur",
            left.measured, left.combinations
        );
        part.fact("measured", text);
    }
    part.facts(left.said.iter().map(|part| ("left out", part.clone())));
    let names: Vec<&str> =
        left.experiments.iter().map(|experiment| experiment_words(*experiment)).collect();
    if !names.is_empty() {
        part.fact("not asked", names.join(", "));
    }
    part
}

const fn experiment_words(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::Commands => "commands at the device",
        Experiment::SyncCalls => "sync calls",
        Experiment::Methods => "methods",
        Experiment::SyncEvery => "a sync every N writes",
        Experiment::FlushSlope => "flush slope",
        Experiment::FileModes => "file modes",
        Experiment::Sizes => "sizes",
        Experiment::Writers => "writers",
        Experiment::SizesAndWriters => "sizes by writers",
        Experiment::GroupCommit => "group commit",
        Experiment::CommitDelay => "commit delay",
        Experiment::Cross => "the whole cross",
    }
}
