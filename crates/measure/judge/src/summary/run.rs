//! The summary of a run, whatever it was for.

use durio_analyse::campaign::CampaignFindings;
use durio_analyse::profile::ProfileFindings;
use durio_analyse::{
    FOREIGN_CPUS_MAX, Findings, ForeignIo, Headline, RateVariation, RunState, SearchFindings,
    SignalWord, Verdict, VerdictWord, WorkloadFindings, each_once,
};
use durio_base::stats::least_squares::{float, range};
use durio_base::{Bytes, Nanos, counted};
use durio_plan::Threshold;
use durio_record::OperationName;

use super::commits::{commits, fastest_durable, operations};
use super::{
    Summary, SummaryFigure, SummaryParts, SummaryReason, SummaryRule, bare_rate, database, listed,
    p99, rate, slow, whole,
};

/// What a run says of its storage.
pub fn of_run(findings: &Findings) -> Summary {
    let mut parts = results(findings);
    parts.reasons.extend(incomplete(findings));
    parts.reasons.extend(goals(findings));
    parts.reasons.extend(open_limits(findings));
    parts.reasons.extend(doubts_of_storage(findings));
    let published = limits(findings, &mut parts);
    parts.reasons.extend(published);
    parts.reasons.extend(caveats(findings));
    parts.finish()
}

/// The results of a run by what it was for.
fn results(findings: &Findings) -> SummaryParts {
    let predicted = database::predicted(findings);
    if !predicted.is_empty() {
        return database::parts(&predicted, findings);
    }
    if let Some(durable) = &findings.durable {
        return fastest_durable(durable, &findings.stack);
    }
    if let Some(profile) = &findings.profile {
        return of_profile(profile);
    }
    match (&findings.campaign, &findings.headline) {
        (Some(campaign), _) => of_campaign(findings, campaign),
        (None, Some(headline)) => commits(findings, headline),
        (None, None) => operations(findings),
    }
}

/// A database's log, idle and under load.
fn of_profile(profile: &ProfileFindings) -> SummaryParts {
    let mut parts = SummaryParts::default();
    let Some(first) = profile.comparisons.first() else { return parts };
    let operation = first.operation.name();
    let mut clauses = Vec::new();
    for (state, found) in [("idle", first.idle), ("under load", first.loaded)] {
        let Some(found) = found else { continue };
        clauses.push(format!(
            "{} {operation}s/s {state}, {}",
            bare_rate(found.rate_per_second),
            p99(found.p99_ns)
        ));
        parts.headline.push(SummaryFigure {
            label: format!("{operation}s, {state}"),
            value: found.rate_per_second,
            unit: "per second",
        });
        parts.headline.extend(found.p99_ns.map(|nanos| SummaryFigure {
            label: format!("p99 of a {operation}, {state}"),
            value: float(nanos),
            unit: "ns",
        }));
    }
    let product = database::product(&profile.name);
    parts.results = format!("{product}'s log, on the storage alone: {}", clauses.join("; "));
    parts
}

fn of_campaign(findings: &Findings, campaign: &CampaignFindings) -> SummaryParts {
    let searches = campaign.sections.iter().filter_map(|section| section.search.as_ref());
    let searches: Vec<&SearchFindings> = searches.collect();
    if !searches.is_empty() {
        return of_searches(&searches);
    }
    let rates = findings.workloads.iter().filter(|workload| !workload.operations.is_empty());
    let rates: Vec<f64> = rates.map(WorkloadFindings::headline_rate).collect();
    let mut parts = SummaryParts::default();
    if rates.is_empty() {
        return operations(findings);
    }
    let (least, most) = range(rates.iter().copied());
    for (label, value) in [("lowest rate", least), ("highest rate", most)] {
        parts.headline.push(SummaryFigure { label: label.to_owned(), value, unit: "per second" });
    }
    parts.results = format!(
        "{}: {} from {} to {}",
        campaign.name,
        counted(rates.len() as u64, "result"),
        bare_rate(least),
        rate(most)
    );
    parts
}

/// The highest rates that keep a goal.
fn of_searches(searches: &[&SearchFindings]) -> SummaryParts {
    let mut parts = SummaryParts::default();
    for search in searches {
        let goal = format!("p{} < {}", search.goal.percentile, search.goal.latency);
        match search.kept_per_second {
            Some(found) => {
                parts.strengths.push(format!("{} keeps {goal}", rate(found)));
                parts.headline.push(SummaryFigure {
                    label: format!("highest rate that keeps {goal}"),
                    value: found,
                    unit: "per second",
                });
            }
            None => {
                let text = format!("no rate tried meets {goal}");
                parts.reasons.push(SummaryReason::new(SummaryRule::GoalMissed, text));
            }
        }
    }
    parts
}

fn incomplete(findings: &Findings) -> Option<SummaryReason> {
    let text = match (findings.state, findings.errors.first()) {
        (RunState::Complete, _) => return None,
        (RunState::Interrupted, _) => "the run was interrupted".to_owned(),
        (RunState::Failed, Some(error)) => format!("an error ended the run ({error})"),
        (RunState::Failed, None) => "an error ended the run".to_owned(),
        (RunState::Partial, _) => "the run was killed, or is still running".to_owned(),
    };
    Some(SummaryReason::new(SummaryRule::Incomplete, text))
}

/// Goals that are missed, and those that could not be compared.
fn goals(findings: &Findings) -> Vec<SummaryReason> {
    let places = each_once(findings.verdicts.iter().map(|verdict| verdict.location.as_str()));
    let several = places.len() > 1;
    let goals = findings.verdicts.iter().filter(|verdict| is_goal(verdict));
    let reason = |goal: &Verdict| {
        let place = if several { format!(" at {}", goal.location) } else { String::new() };
        let criterion = &goal.criterion;
        match goal.verdict {
            VerdictWord::Unfit => {
                let text = format!("goal missed{place}: {criterion} ({})", measured(goal));
                Some(SummaryReason::new(SummaryRule::GoalMissed, text))
            }
            VerdictWord::CannotTell => {
                let text = format!("goal not decided{place}: {criterion}");
                Some(SummaryReason::new(SummaryRule::GoalOpen, text))
            }
            VerdictWord::Fit | VerdictWord::NoDocumentedThreshold => None,
        }
    };
    goals.filter_map(reason).collect()
}

fn is_goal(verdict: &Verdict) -> bool {
    verdict.database == Threshold::GOAL
}

/// The value in the unit of its limit, and the workload where the goal does not name it.
fn measured(verdict: &Verdict) -> String {
    let value = verdict.value.unwrap_or_default();
    let value = match verdict.unit.as_str() {
        "per second" => rate(value),
        "bytes per second" => format!("{} MB/s", whole(value / 1e6)),
        _ => Nanos::new(whole(value)).to_string(),
    };
    match verdict.criterion.starts_with(&verdict.workload) {
        true => value,
        false => format!("{}: {value}", verdict.workload),
    }
}

/// Facts of the storage that let its results mean less: memory, contradictions, flushes.
fn doubts_of_storage(findings: &Findings) -> Vec<SummaryReason> {
    let mut reasons = Vec::new();
    let memory = findings.stack.iter().filter(|stack| stack.is_in_memory());
    let memory: Vec<String> = memory.map(|stack| stack.target.clone()).collect();
    if !memory.is_empty() {
        let meaning = match memory.len() {
            1 => "is in memory and does not survive a power cut",
            _ => "are in memory and do not survive a power cut",
        };
        let text = format!("{} {meaning}", listed(&memory));
        reasons.push(SummaryReason::new(SummaryRule::InMemory, text));
    }
    let about_headline = |about: &[String]| {
        let name = findings.headline.as_ref().map(|headline| headline.workload.as_str());
        name.is_none_or(|name| about.iter().any(|workload| workload.starts_with(name)))
    };
    let contradicted = findings.warnings.iter().filter(|warning| {
        matches!(warning.code.as_str(), "inconsistent" | "clock")
            && about_headline(warning.about.as_slice())
    });
    reasons.extend(contradicted.map(|warning| {
        let text = format!("the result contradicts itself ({})", warning.code);
        SummaryReason::new(SummaryRule::Contradiction, text)
    }));
    // Where data are in memory, flushes decide nothing.
    if memory.is_empty() {
        let lost = "a power cut can lose acknowledged commits";
        let unsafe_setting = signals(findings, SignalWord::UnsafeConfig, lost);
        let suspect = signals(findings, SignalWord::Suspect, "flushes are suspect");
        let rules = [SummaryRule::UnsafeSetting, SummaryRule::SuspectFlush];
        let found = rules.into_iter().zip([unsafe_setting, suspect]);
        reasons.extend(found.filter_map(|(rule, text)| Some(SummaryReason::new(rule, text?))));
    }
    reasons
}

/// The meaning of signals of one word, with the first of them.
fn signals(findings: &Findings, word: SignalWord, meaning: &str) -> Option<String> {
    let mut signals = findings.signals.iter().filter(|signal| signal.word == word);
    let first = signals.next()?;
    let more = match signals.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Some(format!("{meaning} ({}, {}{more})", first.id, first.layer))
}

/// Limits of databases that the user named, where they could not be compared.
fn open_limits(findings: &Findings) -> Vec<SummaryReason> {
    let is_open = |verdict: &&Verdict| {
        verdict.asked && !is_goal(verdict) && verdict.verdict == VerdictWord::CannotTell
    };
    let open = findings.verdicts.iter().filter(is_open);
    let databases = each_once(open.map(|verdict| verdict.database.clone()));
    match databases.is_empty() {
        true => Vec::new(),
        false => {
            let text = format!("the limit of {} could not be compared", listed(&databases));
            vec![SummaryReason::new(SummaryRule::NamedOpen, text)]
        }
    }
}

/// Published limits, and for commits without one the strictest of those. Of a run that is about
/// named databases, theirs alone.
fn limits(findings: &Findings, parts: &mut SummaryParts) -> Vec<SummaryReason> {
    let goals_met = findings
        .verdicts
        .iter()
        .filter(|verdict| is_goal(verdict) && verdict.verdict == VerdictWord::Fit)
        .count();
    match goals_met {
        0 => {}
        1 => parts.strengths.push("the goal is met".to_owned()),
        count => parts.strengths.push(format!("{count} goals are met")),
    }
    let is_named = findings.verdicts.iter().any(|verdict| verdict.asked);
    let compared: Vec<&Verdict> = findings
        .verdicts
        .iter()
        .filter(|verdict| !is_goal(verdict) && (verdict.asked || !is_named))
        .filter(|verdict| matches!(verdict.verdict, VerdictWord::Fit | VerdictWord::Unfit))
        .collect();
    let missed: Vec<&Verdict> =
        compared.iter().copied().filter(|verdict| verdict.verdict == VerdictWord::Unfit).collect();
    match (compared.len(), missed.len()) {
        (0, _) => return unpublished(findings, parts),
        (1, 0) => parts.strengths.push("the only documented limit that applies is met".to_owned()),
        (all, 0) => parts.strengths.push(format!("all {all} documented limits are met")),
        _ => {}
    }
    let named: Vec<String> = missed.iter().map(|verdict| limit_missed(verdict)).collect();
    let more = match missed.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    match missed.len() {
        0 => Vec::new(),
        _ if is_named => {
            let text = format!("the storage is unfit for {}{more}", named[0]);
            vec![SummaryReason::new(SummaryRule::NamedUnfit, text)]
        }
        count if count == compared.len() => {
            let text = match count {
                1 => format!("the storage misses the only limit that applies, of {}", named[0]),
                _ => format!("the storage misses all {count} limits, such as that of {}", named[0]),
            };
            vec![SummaryReason::new(SummaryRule::AllLimitsMissed, text)]
        }
        _ => {
            let text = format!("it misses the limit of {}{more}", named[0]);
            vec![SummaryReason::new(SummaryRule::LimitMissed, text)]
        }
    }
}

/// `oracle (mean of commit < 100 µs, measured 140 µs)`.
fn limit_missed(verdict: &Verdict) -> String {
    let value = Verdict { workload: String::new(), ..verdict.clone() };
    format!("{} ({}, measured {})", verdict.database, verdict.limit, measured(&value))
}

/// No published limit could be compared: commits are held against the strictest.
fn unpublished(findings: &Findings, parts: &SummaryParts) -> Vec<SummaryReason> {
    // Predictions and durable writes have compared theirs, and a goal is the user's own limit.
    let is_compared = findings.durable.is_some() || !database::predicted(findings).is_empty();
    if is_compared || !parts.strengths.is_empty() {
        return Vec::new();
    }
    let no_limit = |why: &str| vec![SummaryReason::new(SummaryRule::NoLimit, why)];
    match &findings.headline {
        None if !parts.reasons.is_empty() => Vec::new(),
        None => no_limit("no limit applies to this result"),
        Some(headline) => match headline.commit_latency_ns_p99 {
            None => no_limit("fewer than 100 commits: their p99 is unknown"),
            Some(nanos) => slow(nanos, "commits take").into_iter().collect(),
        },
    }
}

/// A workload of commits is interrupted if more of its intervals stand still, or run at less than half the
/// median rate: durio's choice, a fifth.
const INTERRUPTED_MAX: f64 = 0.2;

/// Other work on the machine, and a rate that was not steady.
fn caveats(findings: &Findings) -> Vec<SummaryReason> {
    let range = findings.headline.as_ref().and_then(unsteady_range);
    let mut reasons = match (other_work(findings), range) {
        (Some(work), Some(range)) => {
            let text = format!("{work} while the rate ranged from {range}");
            vec![SummaryReason::new(SummaryRule::OtherWork, text)]
        }
        (Some(work), None) => vec![SummaryReason::new(SummaryRule::OtherWork, work)],
        (None, Some(range)) => {
            let text = format!("the rate was not steady ({range})");
            vec![SummaryReason::new(SummaryRule::NotSteady, text)]
        }
        (None, None) => Vec::new(),
    };
    // Predictions rest on other workloads than the headline, which may have been steady.
    let predicted = !database::predicted(findings).is_empty();
    let text = predicted.then(|| interrupted_commits(&findings.workloads)).flatten();
    reasons.extend(text.map(|text| SummaryReason::new(SummaryRule::NotSteady, text)));
    reasons
}

/// `commit-group-8 stood still in 10 of 30 intervals, and ran at less than half its median rate in 2`:
/// the workload of commits that was interrupted most.
fn interrupted_commits(workloads: &[WorkloadFindings]) -> Option<String> {
    let commits = workloads.iter().filter(|workload| {
        workload.headline == OperationName::Commit
            || workload.operation(OperationName::Commit).is_some()
    });
    let rates = commits.filter_map(|workload| Some((workload, workload.rate_variation?)));
    let disturbed = |rates: &RateVariation| rates.intervals_empty + rates.intervals_under_half;
    let share = |rates: &RateVariation| float(disturbed(rates)) / float(rates.intervals.max(1));
    let (workload, rates) = rates
        .filter(|(_, rates)| share(rates) > INTERRUPTED_MAX)
        .max_by(|(_, a), (_, b)| share(a).total_cmp(&share(b)))?;
    let RateVariation { intervals, intervals_empty, intervals_under_half, .. } = rates;
    let half = "ran at less than half its median rate in";
    let name = &workload.name;
    Some(match (intervals_empty, intervals_under_half) {
        (0, slow) => format!("{name} {half} {slow} of {intervals} intervals"),
        (empty, 0) => format!("{name} stood still in {empty} of {intervals} intervals"),
        (empty, slow) => {
            format!("{name} stood still in {empty} of {intervals} intervals, and {half} {slow}")
        }
    })
}

/// `other work used 1.9 of 2 CPUs and read 35 MiB/s from vda during lookup`.
pub fn other_work(findings: &Findings) -> Option<String> {
    let parts: Vec<String> =
        [other_cpus(findings), other_io(findings)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("other work {}", parts.join(" and ")))
}

/// `used 1.9 of 2 CPUs`, if it used more than a quarter of one on average.
fn other_cpus(findings: &Findings) -> Option<String> {
    // Streams of a step run at the same time: one of them knows it.
    let first = findings.workloads.iter().filter(|workload| workload.stream == 0);
    let known = first
        .filter_map(|workload| Some((workload.cpu.foreign_cores?, float(workload.measured.get()))));
    let (cores, time) = known.fold((0.0, 0.0), |(cores, time), (used, measured)| {
        (cores + used * measured, time + measured)
    });
    let cores = if time > 0.0 { cores / time } else { 0.0 };
    (cores > FOREIGN_CPUS_MAX).then(|| match findings.host.cpus_online {
        0 => format!("used {cores:.1} CPUs"),
        online => format!("used {cores:.1} of {}", counted(online.into(), "CPU")),
    })
}

/// `read 35 MiB/s from vda during lookup`: the step with most of it.
fn other_io(findings: &Findings) -> Option<String> {
    let steps = findings.workloads.iter();
    let known = steps.filter_map(|workload| Some((workload, workload.foreign_io.as_ref()?)));
    let all = |io: &ForeignIo| io.read_bytes_per_second + io.written_bytes_per_second;
    let (workload, io) = known.max_by(|(_, a), (_, b)| all(a).total_cmp(&all(b)))?;
    let part = |verb: &str, rate: f64, way: &str| {
        (rate > 0.0).then(|| format!("{verb} {}/s {way} {}", Bytes::new(whole(rate)), io.device))
    };
    let read = part("read", io.read_bytes_per_second, "from");
    let wrote = part("wrote", io.written_bytes_per_second, "to");
    let parts: Vec<String> = [read, wrote].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{} during {}", parts.join(" and "), workload.name))
}

/// `5.28 k to 6.43 k/s` over the fifths of the time, or over steps, if those differ too much.
fn unsteady_range(headline: &Headline) -> Option<String> {
    let between = |least: f64, most: f64| format!("{} to {}", bare_rate(least), rate(most));
    let steadiness = headline.rate_variation.and_then(|variation| variation.steadiness);
    let fifths = steadiness.filter(|found| !found.steady).map(|found| {
        let (least, most) = range(found.fifths_per_second);
        between(least, most)
    });
    let steps = headline.same_workload.filter(|steps| !steps.agree);
    fifths.or_else(|| {
        steps.map(|steps| between(steps.rate_min_per_second, steps.rate_max_per_second))
    })
}

#[cfg(test)]
mod tests {
    use durio_record::OperationName;

    use super::*;
    use crate::tests::sample;

    /// Commits of these names, in which so many of 30 intervals were empty, and under half.
    fn said(workloads: &[(&str, u64, u64)]) -> Option<String> {
        let first = sample().workloads[0].clone();
        let made = workloads.iter().map(|&(name, intervals_empty, intervals_under_half)| {
            let rates = first.rate_variation.map(|rates| RateVariation {
                intervals: 30,
                intervals_empty,
                intervals_under_half,
                ..rates
            });
            let (name, headline) = (name.to_owned(), OperationName::Commit);
            WorkloadFindings { name, headline, rate_variation: rates, ..first.clone() }
        });
        interrupted_commits(&made.collect::<Vec<_>>())
    }

    #[test]
    fn commits_that_stood_still_are_named_with_their_intervals_the_worst_first() {
        assert_eq!(said(&[("commit", 0, 0), ("commit-group-8", 4, 2)]), None, "a fifth");
        let worst = said(&[("commit", 0, 7), ("commit-group-8", 10, 2), ("commit-etcd", 9, 0)]);
        let text = "commit-group-8 stood still in 10 of 30 intervals, and ran at less than half its \
                    median rate in 2";
        assert_eq!(worst.as_deref(), Some(text));
        let still = said(&[("commit-etcd", 9, 0)]);
        assert_eq!(still.as_deref(), Some("commit-etcd stood still in 9 of 30 intervals"));
        let slow = said(&[("commit", 0, 7)]);
        let text = "commit ran at less than half its median rate in 7 of 30 intervals";
        assert_eq!(slow.as_deref(), Some(text));
    }
}
