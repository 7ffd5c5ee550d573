//! Summaries of captures and replays, of benches of stacks, and of proofs by power cuts.

use durio_analyse::FOREIGN_CPUS_MAX;
use durio_analyse::attribution::StackFindings;
use durio_analyse::capture::{CaptureFindings, ReplayFindings};
use durio_base::stats::least_squares::float;
use durio_base::{Bytes, Nanos, counted};
use durio_plan::proof::{ExpectedVerdict, ProofTarget};
use durio_record::Outcome;
use durio_record::proof::{ProofFindings, ProofVerdict, SeriesFindings};

use super::{
    Summary, SummaryFigure, SummaryParts, SummaryReason, SummaryRule, bare_rate, rate, whole,
};

/// What a database did to its storage, or whether storage kept up with that.
pub fn of_capture(findings: &CaptureFindings) -> Summary {
    let mut parts = SummaryParts::default();
    if let Some(why) = &findings.ended_early {
        let text = format!("it ended early ({why})");
        parts.reasons.push(SummaryReason::new(SummaryRule::Incomplete, text));
    }
    match &findings.replay {
        Some(replay) => replayed(replay, &mut parts),
        None => captured(findings, &mut parts),
    }
    parts.finish()
}

fn replayed(replay: &ReplayFindings, parts: &mut SummaryParts) {
    let [taken, planned] = [replay.taken_seconds, replay.planned_seconds].map(seconds);
    let operations = counted(replay.done as u64, "operation");
    match replay.kept_up {
        Some(true) => {
            parts.results = format!("the storage kept up with the trace, {operations} in {taken}");
        }
        Some(false) => {
            let text = format!(
                "the storage did not keep up with the trace ({operations} in {taken}, {planned} planned)"
            );
            parts.reasons.push(SummaryReason::new(SummaryRule::NotKeptUp, text));
        }
        None => {
            parts.results = format!("{operations} in {taken}");
            if parts.reasons.is_empty() {
                let text = "the replay is not whole";
                parts.reasons.push(SummaryReason::new(SummaryRule::Incomplete, text));
            }
        }
    }
    if let Some(others) = replay.others.filter(|others| *others > FOREIGN_CPUS_MAX) {
        let text = format!("other work used {others:.1} CPUs");
        parts.reasons.push(SummaryReason::new(SummaryRule::OtherWork, text));
    }
}

fn captured(findings: &CaptureFindings, parts: &mut SummaryParts) {
    let per_second = |count: u64| {
        if findings.seconds > 0.0 { float(count) / findings.seconds } else { 0.0 }
    };
    let figures = [
        ("writes", per_second(findings.writes)),
        ("syncs and durable writes", per_second(findings.durable)),
    ];
    for (label, value) in figures {
        parts.headline.push(SummaryFigure { label: label.to_owned(), value, unit: "per second" });
    }
    let [(_, writes), (_, durable)] = figures;
    parts.results = format!(
        "{} writes/s ({}/s) and {} syncs and durable writes/s by {} in {}",
        bare_rate(writes),
        Bytes::new(whole(per_second(findings.written_bytes))),
        bare_rate(durable),
        match findings.processes {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        },
        seconds(findings.seconds)
    );
    let text = "no limit applies to a capture";
    parts.reasons.push(SummaryReason::new(SummaryRule::NoLimit, text));
}

fn seconds(seconds: f64) -> Nanos {
    Nanos::new(whole(seconds * 1e9))
}

/// The fastest stack of a bench in its first workload; where instructions were counted, which are not
/// speeds, the one with the least software cost.
pub fn of_stacks(findings: &StackFindings) -> Option<Summary> {
    let workload = findings.workloads.first()?;
    let is_counted = findings.label.is_some();
    let is_top = |at: usize| findings.points.iter().all(|point| point.below != Some(at));
    let tops = workload.rows.iter().filter(|row| is_top(row.point));
    let measured = tops.filter_map(|row| {
        let (point, figures) = (findings.points.get(row.point)?, row.figures.as_ref()?);
        let rate = figures.rate_per_second;
        let value = if is_counted { figures.time_per_operation_ns } else { rate };
        Some((point.stack.as_str(), rate, value))
    });
    let mut stacks: Vec<(&str, f64, f64)> = measured.collect();
    stacks.sort_by(|(_, a, _), (_, b, _)| b.total_cmp(a));
    let mut parts = SummaryParts::default();
    let (first, last) = (stacks.first()?, stacks.last()?);
    let unit = if is_counted { "ns per operation" } else { "per second" };
    for (stack, _, value) in &stacks {
        let label = format!("{stack}, {}", workload.label);
        parts.headline.push(SummaryFigure { label, value: *value, unit });
    }
    let words = |value: f64| match is_counted {
        true => Nanos::new(whole(value)).to_string(),
        false => rate(value),
    };
    let ((best, _, most), (worst, _, least)) = (*first, *last);
    let (is_best, is_worst, cost) = match is_counted {
        true => ("has the least software cost", "the highest", " per operation"),
        false => ("is the fastest", "the slowest", ""),
    };
    parts.results = match stacks.len() {
        1 => format!("{best}: {}{cost} in {}", words(most), workload.label),
        count => format!(
            "{best} {is_best} of {count} stacks in {}: {}{cost}, against {} of {worst}, {is_worst}",
            workload.label,
            words(most),
            words(least)
        ),
    };
    let failed = findings.points.iter().filter_map(|point| Some((point, point.failure.as_ref()?)));
    let failed: Vec<_> = failed.collect();
    if let Some((point, why)) = failed.first() {
        let text =
            format!("{} failed ({}: {why})", counted(failed.len() as u64, "layer"), point.stack);
        parts.reasons.push(SummaryReason::new(SummaryRule::Incomplete, text));
    }
    let text = "stacks are compared with each other, not with a limit";
    parts.reasons.push(SummaryReason::new(SummaryRule::NoLimit, text));
    Some(parts.finish())
}

/// Whether acknowledged writes survived, and as expected.
pub fn of_proof(findings: &ProofFindings) -> Summary {
    let mut parts = SummaryParts::default();
    let total = findings.series.len();
    let unexpected: Vec<&SeriesFindings> = findings.unexpected().collect();
    for series in &unexpected {
        let name = &series.series.name;
        let text = match series.verdict {
            ProofVerdict::Breaks { class } => format!("{name} {}", class.meaning()),
            ProofVerdict::NoLoss | ProofVerdict::Inconclusive => {
                format!("{name} did not come out as expected")
            }
        };
        parts.reasons.push(SummaryReason::new(SummaryRule::Lost, text));
    }
    if findings.outcome != Some(Outcome::Complete) || findings.not_begun > 0 {
        let text = "the proof is not finished";
        parts.reasons.push(SummaryReason::new(SummaryRule::Incomplete, text));
    }
    let open = findings.series.iter().filter(|series| is_open(series)).count();
    match open {
        0 => {}
        _ if open == total => {
            let text = "no power cut counts for a verdict";
            parts.reasons.push(SummaryReason::new(SummaryRule::Incomplete, text));
        }
        _ => {
            let text = format!("{open} of {total} series are undecided");
            parts.reasons.push(SummaryReason::new(SummaryRule::Unfinished, text));
        }
    }
    parts.results = match findings.series.as_slice() {
        _ if !unexpected.is_empty() => String::new(),
        [] => String::new(),
        [series] => survived(series),
        all if all.iter().all(|series| series.as_expected == Some(true)) => {
            format!("all {total} series came out as expected: {}", outcomes(all))
        }
        _ => format!("{} of {total} series came out as expected", total - open),
    };
    parts.finish()
}

/// How many series lost nothing, and how many lost data, by whether they had to.
fn outcomes(all: &[SeriesFindings]) -> String {
    let has_lost = |series: &&SeriesFindings| matches!(series.verdict, ProofVerdict::Breaks { .. });
    let lost = all.iter().filter(has_lost);
    let may = lost.clone().filter(|lost| lost.series.expected == Some(ExpectedVerdict::MayLose));
    let (lost, may) = (lost.count(), may.count());
    let (kept, lied) = (all.len() - lost, lost - may);
    let counts = [
        (kept, "lost nothing"),
        (lied, if lied == 1 { "lied and was caught" } else { "lied and were caught" }),
        (may, "lost data, which was expected to be possible"),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0);
    said.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

fn is_open(series: &SeriesFindings) -> bool {
    matches!(series.verdict, ProofVerdict::Inconclusive)
        || (series.series.expected.is_some() && series.as_expected.is_none())
}

/// What one series shows, if it shows no loss that was not expected.
fn survived(series: &SeriesFindings) -> String {
    let target = &series.series.target;
    let cuts = match target.is_enumerated() {
        true => counted(series.effective, "crash state"),
        false => counted(series.effective, "effective power cut"),
    };
    match series.verdict {
        ProofVerdict::Inconclusive => String::new(),
        ProofVerdict::Breaks { class } => {
            format!("as expected, {} {}", series.series.name, class.meaning())
        }
        ProofVerdict::NoLoss if matches!(target, ProofTarget::Command(_)) => {
            format!("{} passed its check after {cuts}", series.series.name)
        }
        ProofVerdict::NoLoss => {
            format!("{} lost no acknowledged write in {cuts}", series.series.name)
        }
    }
}
