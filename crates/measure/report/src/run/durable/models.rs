//! The models of durable writes: of sizes, shared syncs, dirty data, writers, one log for all.
//!
//! Makes sections from findings; the fits are theirs.

use durio_analyse::durable::{
    CommitDelayAdvice, CommitDelayFindings, Contention, CrossFindings, DeviationKind,
    DurableFindings, FlushSlopeFindings, ModelDeviation, SharedSync, SizeCurve, SlopeShape,
    WritersFindings,
};
use durio_analyse::{DeclinedAnalysis, each_once};
use durio_base::Nanos;

use super::{charts, method_words, part, tables, warn};
use crate::document::{LabelledText, Section};
use crate::figures::{bandwidth, counted, decimal, estimate, percent, size};
use crate::typical::range;

pub(super) fn sizes(found: &DurableFindings) -> Section {
    let summary = "One writer, by the size of its writes. The time of a durable write is taken as a \
                   fixed cost + size ÷ bandwidth; intervals cover 95 %.";
    let mut part = part("Sizes", summary);
    let Some(sizes) = &found.sizes else { return part };
    tables::with_noise_note(tables::sizes(sizes), &mut part);
    for curve in sizes.curves.iter().filter(|curve| curve.setting.is_durable()) {
        part.facts(of_curve(curve));
    }
    if sizes.free_at_small_sizes == Some(true) {
        let text = "small durable writes keep nearly all of the unsynced bandwidth: durability seems \
                    to cost nothing, as where a storage acknowledges too early; compare the flushes";
        warn(&mut part, text.to_owned());
    }
    part.charts([charts::costs(sizes)]);
    part
}

fn of_curve(curve: &SizeCurve) -> Vec<LabelledText> {
    let name = method_words(&curve.setting);
    let Some(model) = &curve.model else {
        return curve.declined.iter().map(|reason| no_model(&name, reason)).collect();
    };
    let fixed = estimate(&model.fixed_ns, 1.0);
    let speed = curve.bandwidth_bytes_per_second.and_then(|speed| match (speed.low, speed.high) {
        (Some(low), Some(high)) => {
            let interval = range(&bandwidth(low), &bandwidth(high));
            Some(format!("{} ({interval})", bandwidth(speed.value?)))
        }
        // The cost per byte may be zero within its interval: then bandwidth has no upper end.
        (Some(low), None) => Some(format!("at least {}", bandwidth(low))),
        _ => speed.value.map(bandwidth),
    });
    let speed = speed.unwrap_or_else(|| "an unknown bandwidth".to_owned());
    let mut said = vec![("cost", format!("{name}: {fixed} + size ÷ {speed}"))];
    said.extend(
        curve
            .deviations
            .iter()
            .map(|deviation| ("misfit", format!("{name}: {}", misfit(deviation)))),
    );
    if let Some(batching) = &curve.batching {
        let shares = batching.for_shares.iter().map(|batch| {
            let beyond = if batch.is_extrapolated { " (beyond what was measured)" } else { "" };
            format!("{} for {:.0} %{beyond}", size(batch.size_bytes), batch.share * 100.0)
        });
        let shares: Vec<String> = shares.collect();
        said.push(("batch", format!("{name}: {} of the bandwidth", shares.join(", "))));
        let alone = batching.of_records.iter();
        let alone =
            alone.map(|record| format!("{} {}", size(record.size_bytes), percent(record.share)));
        let alone: Vec<String> = alone.collect();
        let words = format!("{name}: each record alone reaches {}", alone.join(", "));
        said.push(("unbatched", format!("{words} of the bandwidth")));
        let factors = batching.unbatched.iter();
        let factors = factors.map(|factor| {
            format!("{} × for {}", decimal(factor.factor), size(factor.record_bytes))
        });
        let factors: Vec<String> = factors.collect();
        if !factors.is_empty() {
            let against = size(batching.batch_bytes);
            let words = format!("{name}: {}; against batches of {against}", factors.join(", "));
            said.push(("batching gain", words));
        }
    }
    said
}

fn no_model(name: &str, reason: &DeclinedAnalysis) -> LabelledText {
    ("no model", format!("{name}: {reason}"))
}

fn misfit(it: &ModelDeviation) -> String {
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
        DeviationKind::Bend { from_bytes, to_bytes, factor } => format!(
            "between {} and {} the cost per byte changes by a factor of {}: {why}",
            size(from_bytes),
            size(to_bytes),
            decimal(factor)
        ),
        DeviationKind::Residual { size_bytes, share } => format!(
            "writes of {} take {} {} than the model says: {why}",
            size(size_bytes),
            percent(share.abs()),
            if share > 0.0 { "longer" } else { "shorter" }
        ),
    }
}

pub(super) fn sync_every(found: &DurableFindings) -> Section {
    let summary = "A sync after every N writes: the time of the writer per write, its share of the \
                   sync in it.";
    let mut part = part("Shared syncs", summary);
    part.table(tables::sync_every(&found.sync_every));
    for it in &found.sync_every {
        let name = it.rows.first().map(|row| method_words(&row.arm.setting)).unwrap_or_default();
        part.facts(it.line.iter().map(|line| ("cost", shared(&name, line))));
        part.facts(it.declined.iter().map(|reason| no_model(&name, reason)));
    }
    part
}

fn shared(name: &str, line: &SharedSync) -> String {
    let holds = match line.residual_share_max > 0.25 {
        true => format!("; it errs by up to {}", percent(line.residual_share_max)),
        false => String::new(),
    };
    let write = match line.write_ns.is_known() {
        true => estimate(&line.write_ns, 1.0),
        false => "of next to nothing".to_owned(),
    };
    format!("{name}: a write {write} + a sync {} ÷ N{holds}", estimate(&line.sync_ns, 1.0))
}

pub(super) fn slopes(found: &DurableFindings) -> Section {
    let summary = "The time of one flush against the data that was written before it. A volatile \
                   cache that is written back makes it rise; evidence, no verdict.";
    let mut part = part("Flush slope", summary);
    part.table(tables::flush_slopes(&found.flush_slopes));
    part.facts(found.flush_slopes.iter().filter_map(slope));
    part.charts([charts::slopes(found)]);
    part
}

fn slope(found: &FlushSlopeFindings) -> Option<LabelledText> {
    let name = method_words(&found.setting);
    let Some(slope) = &found.slope else {
        return found.declined.as_ref().map(|reason| no_model(&name, reason));
    };
    let at = slope
        .flush_bytes_per_second
        .map_or_else(String::new, |speed| format!("; that is {} of dirty data", bandwidth(speed)));
    let (first, each) = (&slope.intercept_ns, &slope.ns_per_mib);
    let alone = first.is_known().then(|| estimate(first, 1.0));
    let text = match (slope.shape == SlopeShape::Rises, alone) {
        (true, Some(alone)) => format!("{alone} + {} per MiB{at}", estimate(each, 1.0)),
        (true, None) => format!("{} per MiB{at}", estimate(each, 1.0)),
        (false, Some(alone)) => format!("{alone}, whatever was written before"),
        (false, None) => "no longer after much data than after little".to_owned(),
    };
    Some((slope.shape.words(), format!("{name}: {text}")))
}

pub(super) fn writers(found: &DurableFindings) -> Section {
    let summary = "How total and per-writer throughput grow with writers. The law is Gunther's: \
                   σ is the share for which writers queue, κ the cost per pair; with κ = 0 it is \
                   Amdahl's.";
    let mut part = part("Writers", summary);
    part.table(tables::writers(&found.writers));
    for it in &found.writers {
        let name = charts::files_words(it);
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
        Some(from) if from > 1.5 => {
            format!("{name}: it holds from {from:.0} writers on, not for fewer: {figures}")
        }
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
    let name = found.cells.first().map(|cell| method_words(&cell.arm.setting))?;
    let steps = found.elasticities.len();
    let same = found.elasticities.iter().filter(|elasticity| elasticity.limited_by == word).count();
    let text = format!("{name}: {} in {same} of {steps} size steps", word.words());
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
            "{} commit {} × as often by sharing syncs (records of {})",
            counted(setting.committers().into(), "committer"),
            decimal(gain),
            setting.block_size
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
