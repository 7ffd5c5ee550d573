//! The first sentence of the report of many hosts.

use durio_base::counted;
use durio_report::figures::{mean_latency, precise, rate_bare};
use durio_report::{Summary, SummaryFigure, SummaryVerdict};

use super::{FleetView, bare_value, cut, first_of, operation_unit, shared_fact, word};
use crate::goals::FleetGoal;
use crate::{
    FleetDoubt, FleetDoubtKind, GroupFindings, HostFindings, HostStatistic, HostVerdict,
    JUDGED_HOSTS_MIN, PooledFindings, ScreeningMethod,
};

/// Characters of the sentence; the lists below it have everything.
const SENTENCE_MAX: usize = 200;
/// Hosts that the sentence names with what is wrong, and characters of a name.
const HOSTS_MAX: usize = 2;
const NAME_MAX: usize = 24;
/// Characters of a caveat.
const CAVEAT_MAX: usize = 140;

type AnswerReason = (SummaryVerdict, String);

pub(super) fn summary(view: &FleetView<'_>, goals: &[FleetGoal]) -> Summary {
    let mut reasons = reasons(view, goals);
    // Stable: within a verdict they keep their order.
    reasons.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
    let verdict = reasons.first().map_or(SummaryVerdict::Good, |(verdict, _)| *verdict);
    let of = |wanted: SummaryVerdict| -> Vec<String> {
        let same = reasons.iter().filter(|(verdict, _)| *verdict == wanted);
        same.map(|(_, text)| text.clone()).collect()
    };
    let findings = view.findings;
    let mut clauses = match verdict {
        SummaryVerdict::Good => vec![format!(
            "{} of {} measured, no difference found",
            measured(view),
            counted(findings.asked as u64, "host")
        )],
        worse => of(worse),
    };
    clauses.extend(median(view));
    clauses.extend(findings.pooled.iter().find_map(together));
    let sentence = sentence(verdict, &clauses, &of(SummaryVerdict::Good));
    let reasons = reasons.into_iter().map(|(_, text)| text).collect();
    Summary { verdict, sentence, headline: headline(view), reasons }
}

/// The first clause, and the others and a caveat as far as there is room.
fn sentence(verdict: SummaryVerdict, clauses: &[String], caveats: &[String]) -> String {
    let (whole, short) = match caveats {
        [] => (String::new(), String::new()),
        [one] => (format!(" Caveat: {one}."), " 1 caveat below.".to_owned()),
        [one, more @ ..] => (
            format!(" Caveats: {one}; + {} more.", more.len()),
            format!(" {} caveats below.", caveats.len()),
        ),
    };
    let length = |text: &str| text.chars().count();
    let room = SENTENCE_MAX - ".".len() - length(&short);
    let mut clauses = clauses.iter();
    let first = clauses.next().map_or("", String::as_str);
    let mut sentence = cut(&format!("{}: {first}", verdict.word()), room);
    for clause in clauses.map(|clause| format!("; {clause}")) {
        if length(&sentence) + length(&clause) <= room {
            sentence.push_str(&clause);
        }
    }
    let has_room = length(&sentence) + length(&whole) < SENTENCE_MAX;
    format!("{sentence}.{}", if has_room { whole } else { short })
}

/// A doubt as part of a sentence: without its full stop, and without a capital unless it begins with
/// a name.
fn as_clause(doubt: &FleetDoubt) -> String {
    let text = cut(doubt.sentence.trim_end_matches('.'), CAVEAT_MAX);
    let mut letters = text.chars();
    let first = letters.next();
    let is_word = letters.clone().next().is_none_or(|second| !second.is_uppercase());
    let is_name = doubt.hosts.iter().any(|host| text.starts_with(host.as_str()));
    match first.filter(|_| is_word && !is_name) {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => text,
    }
}

fn measured(view: &FleetView<'_>) -> usize {
    view.findings.hosts.len() - view.unmeasured().count()
}

/// What the verdict rests on, in the order of the sentence within a verdict.
fn reasons(view: &FleetView<'_>, goals: &[FleetGoal]) -> Vec<AnswerReason> {
    use SummaryVerdict::{Bad, Caution, Good, Unknown};
    let findings = view.findings;
    let mut reasons: Vec<AnswerReason> = Vec::new();
    let mut add = |verdict, text: Option<String>| {
        reasons.extend(text.map(|text| (verdict, text)));
    };
    for goal in goals {
        add(Bad, goal.missed_text().map(|text| format!("goal missed: {text}")));
        add(Unknown, goal.open_text().map(|text| format!("goal not compared: {text}")));
    }
    add(Bad, differing(view, HostVerdict::Slow, "slow", ", confirmed by fresh runs"));
    let next = match findings.campaign {
        Some(_) => "; durio fleet confirm FOLDER runs them again",
        None => "; only fresh runs confirm that",
    };
    add(Caution, differing(view, HostVerdict::Suspect, "suspect", next));
    let shared = findings.shared_facts.first();
    add(Caution, shared.map(|shared| cut(&shared_fact(view, shared), CAVEAT_MAX)));
    add(Caution, unmeasured(view));
    add(Caution, differing(view, HostVerdict::Unsteady, "unsteady", ""));
    add(Unknown, too_few(view));
    add(Good, unjudged(view));
    // `too_few` has the number of hosts, and free starts are what the operator ordered.
    let is_caveat = |doubt: &&FleetDoubt| {
        !matches!(doubt.kind, FleetDoubtKind::FewHosts | FleetDoubtKind::FreeStart)
    };
    for doubt in findings.doubts.iter().filter(is_caveat) {
        add(Good, Some(as_clause(doubt)));
    }
    reasons
}

/// `1 of 200 hosts is suspect (db17: commit rate 1.34 × lower than 197 like it)`,
/// `4 of 200 hosts are suspect (db17: commit rate 1.34 × lower; db4: …; + 2 more)`.
fn differing(
    view: &FleetView<'_>,
    verdict: HostVerdict,
    word: &str,
    after: &str,
) -> Option<String> {
    let is_one = view.with_verdict(verdict).nth(1).is_none();
    let named = |host: &HostFindings| {
        let name = cut(&host.name, NAME_MAX);
        match host.evidence.first() {
            Some(evidence) if is_one => format!("{name}: {}", view.effect(host, evidence)),
            Some(evidence) => format!("{name}: {}", view.short_effect(evidence)),
            None => name,
        }
    };
    let names: Vec<String> = view.with_verdict(verdict).map(named).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    let hosts = counted(view.findings.asked as u64, "host");
    let (count, named) = (names.len(), first_of(&names, "; ", HOSTS_MAX));
    let text = format!("{count} of {hosts} {are} {word} ({named}){after}");
    (!names.is_empty()).then_some(text)
}

/// `2 of 200 hosts have no complete run (db9 lost, db3 refused)`.
fn unmeasured(view: &FleetView<'_>) -> Option<String> {
    let named =
        |host: &HostFindings| format!("{} {}", cut(&host.name, NAME_MAX), word(&host.outcome));
    let names: Vec<String> = view.unmeasured().map(named).collect();
    let have = if names.len() == 1 { "has" } else { "have" };
    let hosts = counted(view.findings.asked as u64, "host");
    let (count, named) = (names.len(), first_of(&names, ", ", HOSTS_MAX));
    let text = format!("{count} of {hosts} {have} no complete run ({named})");
    (!names.is_empty()).then_some(text)
}

/// Why no host could be compared with others; `None` if one could.
fn too_few(view: &FleetView<'_>) -> Option<String> {
    let groups = &view.findings.groups;
    let hosts: usize = groups.iter().map(GroupFindings::measured).sum();
    let is_judged = groups.iter().any(|group| group.method != ScreeningMethod::TooFew);
    match hosts {
        _ if is_judged => None,
        0 => Some("no host was measured".to_owned()),
        hosts if hosts < JUDGED_HOSTS_MIN => Some(format!(
            "only {}; at least {JUDGED_HOSTS_MIN} alike are needed to judge one",
            counted(hosts as u64, "host")
        )),
        hosts => Some(format!(
            "no {JUDGED_HOSTS_MIN} of {hosts} hosts are alike, which are needed to judge one"
        )),
    }
}

/// Hosts in groups that are too small, next to others that are not.
fn unjudged(view: &FleetView<'_>) -> Option<String> {
    let groups = &view.findings.groups;
    let small = groups.iter().filter(|group| group.method == ScreeningMethod::TooFew);
    let hosts: usize = small.map(GroupFindings::measured).sum();
    let has_judged = groups.iter().any(|group| group.method != ScreeningMethod::TooFew);
    let text = format!(
        "{} not judged, because fewer than {JUDGED_HOSTS_MIN} are alike",
        counted(hosts as u64, "host")
    );
    (hosts > 0 && has_judged).then_some(text)
}

/// `median 12.1 k commits/s (11.8 k to 12.4 k)`.
fn median(view: &FleetView<'_>) -> Option<String> {
    let figure = view.headline()?;
    let which = if view.findings.groups.len() > 1 { " of the largest group" } else { "" };
    let (unit, statistic) = (operation_unit(&figure.key), figure.key.statistic);
    let values = [figure.median, figure.min, figure.max];
    let [median, low, high] = values.map(|value| bare_value(statistic, value));
    let median = match statistic {
        HostStatistic::Rate => format!("{median} {unit}"),
        _ => format!("of {unit} {median}"),
    };
    Some(format!("median{which} {median} ({low} to {high})"))
}

/// `8 hosts share storage that gives 48.2 k commits/s to all together, p99 4.1 ms`.
fn together(pooled: &PooledFindings) -> Option<String> {
    pooled.shared.as_ref()?;
    let p99 = pooled.latency.as_ref().and_then(|latency| latency.p99_ns);
    let p99 =
        p99.map_or_else(String::new, |nanos| format!(", p99 {}", mean_latency(precise(nanos))));
    let absent = pooled.absent.len();
    let hosts = counted((pooled.hosts + absent) as u64, "host");
    let together = match absent {
        0 => "all together".to_owned(),
        _ => format!("{} of them together", pooled.hosts),
    };
    let (given, operation) = (rate_bare(pooled.rate?), pooled.operation.name());
    Some(format!("{hosts} share storage that gives {given} {operation}s/s to {together}{p99}"))
}

fn headline(view: &FleetView<'_>) -> Vec<SummaryFigure> {
    let Some(figure) = view.headline() else { return Vec::new() };
    let (name, unit) = match figure.key.statistic {
        HostStatistic::Rate => (super::operation(&figure.key), "per second"),
        _ => (operation_unit(&figure.key), "ns"),
    };
    let named = [("median", figure.median), ("lowest", figure.min), ("highest", figure.max)];
    let all = named.map(|(which, value)| SummaryFigure {
        label: format!("{name}, {which} of hosts"),
        value,
        unit,
    });
    all.into()
}
