//! The effect of more writers: their law, sizes by writers, and one log that they share.
//!
//! Makes sections from findings; the fits are theirs.

use durio_analyse::durable::{
    CommitDelayAdvice, CommitDelayFindings, Contention, CrossFindings, DurableFindings,
    WritersFindings,
};
use durio_analyse::grouping::each_once;
use durio_base::Nanos;

use super::{charts, method_words, part, tables};
use crate::document::{LabelledText, Section};
use crate::figures::{counted, decimal, percent};

/// Where the writers write.
pub(super) fn files_words(found: &WritersFindings) -> String {
    let setting = found.rows.first().map(|row| &row.arm.setting);
    let method = setting.map_or_else(String::new, method_words);
    let block = setting.map_or_else(String::new, |it| it.block_size.to_string());
    let files = if found.file_each { "a file each" } else { "one file" };
    format!("{method}, {block}, {files}")
}

pub(super) fn writers(found: &DurableFindings) -> Section {
    let summary = "How total and per-writer throughput grow with writers. The law is Gunther's: \
                   σ is the share for which writers queue, κ the cost per pair; with κ = 0 it is \
                   Amdahl's.";
    let mut part = part("Writers", summary);
    part.table(tables::writers(&found.writers));
    for it in &found.writers {
        let name = files_words(it);
        part.facts(it.contention.iter().map(|law| ("law", law_words(&name, law))));
        part.facts(it.declined.iter().map(|reason| ("no law", format!("{name}: {reason}"))));
        part.facts(single_log(&name, it));
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
        // Numbers of writers are whole: from one on it holds for all.
        Some(from) if from > 1.5 => format!(
            "{name}: it holds from {from:.0} writers on, fewer are a case of their own: {figures}"
        ),
        _ => format!("{name}: {figures}; it errs by {}", percent(law.residual_share)),
    }
}

/// Whether one log with batches beats the most writers that a batch was measured for.
fn single_log(name: &str, found: &WritersFindings) -> Option<LabelledText> {
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

pub(super) fn cross(found: &DurableFindings) -> Section {
    let summary = "Sizes by writers at equal volume: time for 1 GiB, and the bandwidth of all \
                   writers together.";
    let mut part = part("Sizes by writers", summary);
    part.table(tables::crosses(&found.crosses));
    part.facts(found.crosses.iter().filter_map(limit));
    part
}

fn limit(found: &CrossFindings) -> Option<LabelledText> {
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

pub(super) fn group_commit(found: &DurableFindings) -> Section {
    let summary = "Committers that share a log's writes and syncs, against as many who write and \
                   sync for themselves; latency as a committer sees it.";
    let mut part = part("Group commit", summary);
    let Some(commits) = &found.group_commit else { return part };
    part.table(tables::group_commit(commits));
    let mut gains: Vec<_> = commits.rows.iter().filter_map(|row| Some((row.gain?, row))).collect();
    // The largest is the answer.
    gains.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    for (gain, row) in gains {
        let setting = &row.arm.setting;
        let text = format!(
            "{} with records of {}: {} × the commits of independent writers",
            counted(setting.committers().into(), "committer"),
            setting.block_size,
            decimal(gain)
        );
        part.fact("gain", text);
    }
    let methods = each_once(commits.rows.iter().map(|row| method_words(&row.arm.setting)));
    part.fact("method", methods.join(", "));
    part.charts([charts::batches(commits)]);
    part
}

pub(super) fn delays(found: &DurableFindings) -> Section {
    let summary = "What a leader gains by waiting for more records. Advised is the smallest delay \
                   within the noise of the best, if that gains more than the noise over none, and \
                   the smallest batch bound that costs nothing.";
    let mut part = part("Commit delay", summary);
    part.table(tables::commit_delays(&found.commit_delays));
    part.facts(found.commit_delays.iter().filter_map(advice));
    part
}

fn advice(found: &CommitDelayFindings) -> Option<LabelledText> {
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
