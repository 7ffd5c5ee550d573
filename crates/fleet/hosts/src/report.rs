//! The report of a campaign on many hosts: findings as a document.
//!
//! The text fits a screen of 45 lines at 100 columns, however many hosts there are: a [`LineBudget`]
//! limits every list, and the table of hosts has the remaining lines.

mod answer;
mod charts;
mod pooled;
mod tables;

use std::collections::BTreeSet;

use durio_base::counted;
use durio_record::OperationName;
use durio_report::document::{Cell, DetailLevel, Document, Section, Table, Tone};
use durio_report::figures::{factor, rate_bare, share};
use durio_report::{CaseOutcome, Report, Summary, TestCase};
use serde::Serialize;

use crate::goals::{FleetGoal, NAMED_MAX, figure_value, first_of};
use crate::{
    DifferingFact, FigureKey, FleetFindings, GroupFigure, GroupFindings, HostEvidence,
    HostFindings, HostOutcome, HostStatistic, HostVerdict, PooledFindings, ScreeningMethod,
    SharedFact,
};

/// Lines of a screen.
const LINES_MAX: usize = 45;
/// Characters of a line next to a label, without those that are lost where words are broken.
const LINE_CHARACTERS: usize = 80;
/// Lines of the title, of the table of the fleet, and of the frame of the table of hosts.
const FIXED_LINES: usize = 1 + 9 + 5;
/// Lines of the figures of shared storage.
const SHARED_LINES: usize = 11;
/// Lines of the table of hosts that are always there, and the most of its rows.
const HOST_LINES_MIN: usize = 3;
const HOST_ROWS_MAX: usize = 20;
/// Characters of a host's name and of the figure in which it is worst, on one line of the table.
const HOST_ROW_CHARACTERS: usize = 44;
/// Rows of the table of hosts with `--verbose`.
const HOST_ROWS_DETAIL: usize = 100;
/// Characters of a reason or a doubt; JSON has the whole of it.
const TEXT_MAX: usize = 200;
/// Room for the number of texts that are left out.
const MORE_CHARACTERS: usize = 16;

/// The findings, and the goals that they are compared with.
#[derive(Debug, Serialize)]
pub struct FleetReport<'f> {
    #[serde(flatten)]
    pub findings: &'f FleetFindings,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<FleetGoal>,
}

impl Report for FleetReport<'_> {
    fn document(&self) -> Document {
        document(self.findings, &self.goals)
    }

    fn summary(&self) -> Option<Summary> {
        Some(answer::summary(&FleetView::new(self.findings), &self.goals))
    }

    fn test_cases(&self) -> Vec<TestCase> {
        let of_goal = |goal: &FleetGoal| -> Vec<TestCase> {
            self.findings.hosts.iter().map(|host| test_case(goal, &host.name)).collect()
        };
        self.goals.iter().flat_map(of_goal).collect()
    }
}

impl Report for FleetFindings {
    fn document(&self) -> Document {
        document(self, &[])
    }

    fn summary(&self) -> Option<Summary> {
        Some(answer::summary(&FleetView::new(self), &[]))
    }
}

fn document(findings: &FleetFindings, goals: &[FleetGoal]) -> Document {
    let view = FleetView::new(findings);
    let hosts = counted(findings.hosts.len() as u64, "host");
    let title = match &findings.campaign {
        Some(campaign) => format!("{campaign}, {hosts}"),
        None => hosts,
    };
    let mut document = Document::new("durio fleet report", title);
    document.poster = view.headline().map(|figure| charts::strip(&view, &figure.key));
    let has_shared = findings.pooled.iter().any(|pooled| pooled.shared.is_some());
    let sentence = answer::summary(&view, goals).sentence;
    let fixed = FIXED_LINES + HOST_LINES_MIN + if has_shared { SHARED_LINES } else { 0 };
    let mut budget = LineBudget(LINES_MAX - fixed);
    budget.take(sentence.chars().count(), 0);
    document.push(named_hosts(&view, goals, &mut budget));
    document.push(fleet(&view));
    document.push(pooled::section(&view, "Shared storage", true));
    document.push(hosts_table(&view, HOST_LINES_MIN + budget.0));
    document.push(groups(findings));
    document.push(pooled::section(&view, "All hosts together", false));
    charts::sections(&view).into_iter().for_each(|section| document.push(section));
    document.records = tables::records(findings, goals);
    document
}

/// Findings, with what figures and hosts are called in this report.
#[derive(Debug)]
struct FleetView<'f> {
    findings: &'f FleetFindings,
    /// True if a figure needs its target to be known.
    has_targets: bool,
}

impl<'f> FleetView<'f> {
    fn new(findings: &'f FleetFindings) -> Self {
        let mut targets = findings
            .groups
            .iter()
            .flat_map(|group| &group.figures)
            .map(|figure| &figure.key.target);
        let first = targets.next();
        let has_targets = targets.any(|target| Some(target) != first);
        Self { findings, has_targets }
    }

    /// `commit rate`, `commit-group-8 sync p99`.
    fn figure(&self, key: &FigureKey) -> String {
        let place = match self.has_targets && !key.target.is_empty() {
            true => format!(" at {}", key.target),
            false => String::new(),
        };
        format!("{} {}{place}", operation(key), statistic(key.statistic))
    }

    /// The rate of commits in the largest group, or of its first workload without commits.
    fn headline(&self) -> Option<&'f GroupFigure> {
        let figures = &self.findings.groups.first()?.figures;
        let rates = || figures.iter().filter(|figure| figure.key.statistic == HostStatistic::Rate);
        let is_commit = |figure: &&GroupFigure| figure.key.operation == OperationName::Commit;
        rates().find(is_commit).or_else(|| rates().next()).or_else(|| figures.first())
    }

    /// The other hosts of its group that have the figure.
    fn like(&self, host: &HostFindings, key: &FigureKey) -> usize {
        let group = host.group.and_then(|group| self.findings.groups.get(group));
        let figure = group.and_then(|group| group.figures.iter().find(|known| known.key == *key));
        figure.map_or(0, |figure| figure.hosts.saturating_sub(1))
    }

    /// `commit rate 1.34 × lower than 199 like it`; fresh runs are compared with those of the hosts
    /// that made some at the same time.
    fn effect(&self, host: &HostFindings, evidence: &HostEvidence) -> String {
        let others = match evidence.is_confirmed {
            true => "others like it at the same time".to_owned(),
            false => format!("{} like it", self.like(host, &evidence.key)),
        };
        format!("{} than {others}", self.short_effect(evidence))
    }

    /// `commit rate 1.34 × lower`.
    fn short_effect(&self, evidence: &HostEvidence) -> String {
        format!("{} {}", self.figure(&evidence.key), worse(&evidence.key, evidence.factor))
    }

    /// A host with the evidence against it.
    fn evidence(&self, host: &HostFindings) -> String {
        let Some(evidence) = host.evidence.first() else { return host.name.clone() };
        let ends = evidence.interval.map(|[low, high]| match evidence.factor >= 1.0 {
            true => [low, high],
            false => [1.0 / high, 1.0 / low],
        });
        let interval =
            ends.map_or_else(String::new, |[low, high]| format!(" ({low:.2} to {high:.2})"));
        let value = figure_value(evidence.key.statistic, evidence.value);
        format!("{}: {}{interval}, {value}", host.name, self.effect(host, evidence))
    }

    /// An unsteady host with the figure that scatters most surely.
    fn scatter(&self, host: &HostFindings) -> String {
        let Some(figure) = host.unsteady.first() else { return host.name.clone() };
        let drift = match figure.drift {
            Some(times) => format!("; {} worse in the last run than in the first", factor(times)),
            None => String::new(),
        };
        format!(
            "{}: {} scatters by {} from run to run, on hosts like it by {}{drift}",
            host.name,
            self.figure(&figure.key),
            share(figure.scatter),
            share(figure.group_scatter)
        )
    }

    fn with_verdict(&self, verdict: HostVerdict) -> impl Iterator<Item = &'f HostFindings> {
        self.findings.hosts.iter().filter(move |host| host.verdict == verdict)
    }

    /// Hosts without a complete run.
    fn unmeasured(&self) -> impl Iterator<Item = &'f HostFindings> {
        self.findings.hosts.iter().filter(|host| host.outcome != HostOutcome::Measured)
    }
}

fn operation(key: &FigureKey) -> String {
    operation_of(&key.workload, key.operation)
}

/// The workload's operation; the workload alone where it is called so.
fn operation_of(workload: &str, operation: OperationName) -> String {
    match operation.name() {
        name if name == workload => name.to_owned(),
        name => format!("{workload} {name}"),
    }
}

fn pooled_label(pooled: &PooledFindings) -> String {
    let name = operation_of(&pooled.workload, pooled.operation);
    if pooled.target.is_empty() { name } else { format!("{name} at {}", pooled.target) }
}

const fn statistic(statistic: HostStatistic) -> &'static str {
    match statistic {
        HostStatistic::Rate => "rate",
        HostStatistic::P50 => "p50",
        HostStatistic::P99 => "p99",
        HostStatistic::P999 => "p99.9",
    }
}

/// A host against a goal, for services that run tests.
fn test_case(goal: &FleetGoal, host: &str) -> TestCase {
    let missed = goal.missed.iter().find(|(name, _)| name == host);
    let outcome = match missed {
        Some((_, value)) => {
            let [value, limit] =
                [*value, goal.limit].map(|number| figure_value(goal.statistic, number));
            CaseOutcome::Failed(format!("measured {value}, limit {limit}"))
        }
        None if goal.open.iter().any(|name| name == host) => {
            CaseOutcome::Skipped("no such figure of a complete run".to_owned())
        }
        None => CaseOutcome::Passed,
    };
    TestCase { class: goal.goal.clone(), name: host.to_owned(), outcome }
}

/// `1.34 × lower` for a rate, `1.34 × higher` for a latency; the opposite for a host that is better,
/// as one that was cleared may be.
fn worse(key: &FigureKey, times: f64) -> String {
    let is_lower = key.statistic.is_higher_better() == (times >= 1.0);
    let way = if is_lower { "lower" } else { "higher" };
    format!("{} {way}", factor(times.max(1.0 / times)))
}

/// The word as JSON has it, with spaces: `not judged`.
pub(crate) fn word(value: &impl Serialize) -> String {
    Cell::saved(value).shown().replace('_', " ")
}

/// The verdict of a host, or why it has none.
fn host_word(host: &HostFindings) -> (Tone, String) {
    let tone = match host.verdict {
        HostVerdict::NotJudged | HostVerdict::Alike if host.outcome != HostOutcome::Measured => {
            return (Tone::Warning, word(&host.outcome));
        }
        HostVerdict::Slow => Tone::Bad,
        HostVerdict::Suspect | HostVerdict::Unsteady => Tone::Warning,
        HostVerdict::Cleared | HostVerdict::Alike | HostVerdict::NotJudged => Tone::Plain,
    };
    (tone, word(&host.verdict))
}

/// A text of other hands, as long as a report has room.
fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Lines that are left on a screen.
#[derive(Debug)]
struct LineBudget(usize);

/// Texts below one label, of which at most `most` are shown.
type FactList = (Tone, &'static str, Vec<String>, usize);

impl LineBudget {
    /// Takes the lines of a text, if there are as many beyond those that are `reserved`.
    fn take(&mut self, characters: usize, reserved: usize) -> bool {
        let lines = characters.div_ceil(LINE_CHARACTERS).max(1);
        let fits = lines + reserved <= self.0;
        if fits {
            self.0 -= lines;
        }
        fits
    }

    /// Adds the lists that have texts, with as many of these as there is room for, at least one of
    /// each list; the last has the number of those that are left out.
    fn add(&mut self, section: &mut Section, lists: Vec<FactList>) {
        let lists: Vec<FactList> =
            lists.into_iter().filter(|(_, _, texts, _)| !texts.is_empty()).collect();
        let count = lists.len();
        for (at, (tone, mut label, texts, most)) in lists.into_iter().enumerate() {
            let mut shown: Vec<String> = Vec::new();
            for text in texts.iter().take(most) {
                let mut text = cut(text, TEXT_MAX);
                let more = if shown.len() + 1 < texts.len() { MORE_CHARACTERS } else { 0 };
                if !self.take(text.chars().count() + more, count - at - 1) {
                    if !shown.is_empty() {
                        break;
                    }
                    text = cut(&text, LINE_CHARACTERS - more);
                    self.take(0, 0);
                }
                shown.push(text);
            }
            let more = texts.len() - shown.len();
            if let Some(last) = shown.last_mut().filter(|_| more > 0) {
                last.push_str(&format!(" (and {more} more)"));
            }
            for text in shown {
                section.toned(tone, std::mem::take(&mut label), text);
            }
        }
    }
}

/// Goals, and the hosts that differ or have no result, with the reasons.
fn named_hosts(view: &FleetView<'_>, goals: &[FleetGoal], budget: &mut LineBudget) -> Section {
    let findings = view.findings;
    let mut section = Section::default();
    if let Some(figure) = view.headline() {
        let hosts = counted(figure.hosts as u64, "host");
        let label = format!("{}, median of {hosts}", operation_unit(&figure.key));
        let value = bare_value(figure.key.statistic, figure.median);
        section.toned_at(DetailLevel::Headline, Tone::Plain, &label, value);
    }
    let unsteady = view.with_verdict(HostVerdict::Unsteady).map(|host| view.scatter(host));
    let with_verdict = |verdict| -> Vec<String> {
        view.with_verdict(verdict).map(|host| view.evidence(host)).collect()
    };
    let mut lists: Vec<FactList> = vec![
        (Tone::Bad, "missed", goals.iter().filter_map(FleetGoal::missed_text).collect(), NAMED_MAX),
        (Tone::Bad, "slow", with_verdict(HostVerdict::Slow), NAMED_MAX),
        (Tone::Warning, "suspect", with_verdict(HostVerdict::Suspect), NAMED_MAX),
        (Tone::Plain, "cleared", with_verdict(HostVerdict::Cleared), 1),
        (Tone::Warning, "unsteady", unsteady.collect(), 2),
    ];
    let shared = findings.shared_facts.iter();
    let shared =
        shared.map(|shared| format!("{} (p = {:.1e})", shared_fact(view, shared), shared.p));
    lists.push((Tone::Warning, "in common", shared.collect(), 2));
    lists.push((Tone::Warning, "no result", view.unmeasured().map(with_reason).collect(), 2));
    let doubts = findings.doubts.iter().map(|doubt| doubt.sentence.clone());
    lists.push((Tone::Warning, "doubt", doubts.collect(), NAMED_MAX));
    lists.push((Tone::Plain, "differs", differing_facts(&findings.groups), NAMED_MAX));
    budget.add(&mut section, lists);
    section
}

/// `commits/s`, `lookup reads/s`; of a latency its name.
fn operation_unit(key: &FigureKey) -> String {
    match key.statistic {
        HostStatistic::Rate => format!("{}s/s", operation(key)),
        other => format!("{} {}", operation(key), statistic(other)),
    }
}

/// A value next to its [`operation_unit`].
fn bare_value(statistic: HostStatistic, value: f64) -> String {
    match statistic {
        HostStatistic::Rate => rate_bare(value),
        other => figure_value(other, value),
    }
}

fn with_reason(host: &HostFindings) -> String {
    let ended = format!("{} {}", host.name, word(&host.outcome));
    match &host.reason {
        Some(reason) => format!("{ended}: {reason}"),
        None => ended,
    }
}

/// `firmware GDC5 (12 hosts): commit p99 1.18 × higher than on the other 188`.
fn shared_fact(view: &FleetView<'_>, shared: &SharedFact) -> String {
    let SharedFact { fact, value, key, hosts_with, hosts_without, factor, .. } = shared;
    format!(
        "{fact} {value} ({}): {} {} than on the other {hosts_without}",
        counted(*hosts_with as u64, "host"),
        view.figure(key),
        worse(key, *factor)
    )
}

fn differing_fact(differing: &DifferingFact) -> String {
    let value = |(value, hosts): &(String, Vec<String>)| {
        format!("{value} on {}", counted(hosts.len() as u64, "host"))
    };
    let values: Vec<String> = differing.values.iter().map(value).collect();
    format!("{}: {}", differing.fact, first_of(&values, ", ", NAMED_MAX))
}

/// The facts that separate groups, then those that differ within one.
fn differing_facts(groups: &[GroupFindings]) -> Vec<String> {
    let facts: BTreeSet<&String> = groups.iter().flat_map(|group| group.facts.keys()).collect();
    let value =
        |group: &GroupFindings, fact: &String| group.facts.get(fact).cloned().unwrap_or_default();
    let mut texts = Vec::new();
    for fact in facts {
        let values: BTreeSet<String> = groups.iter().map(|group| value(group, fact)).collect();
        let of_group = |(at, group): (usize, &GroupFindings)| match value(group, fact) {
            none if none.is_empty() => format!("group {} unknown", at + 1),
            value => format!("group {} {value}", at + 1),
        };
        if values.len() > 1 {
            let shown: Vec<String> = groups.iter().enumerate().map(of_group).collect();
            texts.push(format!("{fact}: {}", first_of(&shown, ", ", NAMED_MAX)));
        }
    }
    for (at, group) in groups.iter().enumerate() {
        let place = if groups.len() > 1 { format!("in group {}, ", at + 1) } else { String::new() };
        texts.extend(group.differing.iter().map(|fact| format!("{place}{}", differing_fact(fact))));
    }
    texts
}

/// Each figure over the hosts, and what the screening can find.
fn fleet(view: &FleetView<'_>) -> Section {
    let mut section = Section::new("Fleet");
    let (table, left_out) = tables::figures(view);
    section.table(table);
    if left_out > 0 {
        let rows = counted(left_out as u64, "more figure");
        section.say_at(DetailLevel::Detail, Tone::Note, format!("{rows} in JSON"));
    }
    let power = &view.findings.power;
    if power.hosts_tested > 0 {
        let runs = match power.runs_for_ten_percent {
            Some(runs) => format!(
                "; {} of each find one that is 10 % slower (in 9 of 10 cases)",
                counted(u64::from(runs), "run")
            ),
            None => String::new(),
        };
        section.note(format!(
            "{} tested in {}; {:.1} innocent suspects expected{runs}",
            counted(power.hosts_tested as u64, "host"),
            counted(power.figures_tested as u64, "figure"),
            power.false_suspects
        ));
    }
    section
}

/// The table of hosts, for which a screen has this number of lines.
fn hosts_table(view: &FleetView<'_>, lines: usize) -> Section {
    let count = view.findings.hosts.len();
    let mut table: Table = tables::hosts(view);
    let words = table.rows.iter().map(|row| {
        let [host, worst] = [0, 2].map(|at| row.cells.get(at).map_or(0, characters));
        host + worst
    });
    let lines_of_row = words.max().unwrap_or(0).div_ceil(HOST_ROW_CHARACTERS).max(1);
    let rows = (lines / lines_of_row).clamp(1, HOST_ROWS_MAX);
    let mut section = Section::new("Hosts, worst first");
    if let Some(figure) = view.headline() {
        let more = match count > rows {
            true => format!("; the first {rows} of {count}, {HOST_ROWS_DETAIL} with --verbose"),
            false => String::new(),
        };
        section.note(format!("rate and p99 of {}{more}", operation(&figure.key)));
    }
    for (at, row) in table.rows.iter_mut().enumerate() {
        row.level = match at {
            at if at < rows => DetailLevel::Summary,
            at if at < HOST_ROWS_DETAIL => DetailLevel::Detail,
            _ => DetailLevel::Page,
        };
    }
    section.table(table);
    section
}

fn characters(cell: &Cell) -> usize {
    cell.shown().chars().count()
}

/// Which hosts were compared with each other, and how.
fn groups(findings: &FleetFindings) -> Section {
    let mut section = Section::detail("Groups of hosts that are alike");
    for (at, group) in findings.groups.iter().enumerate() {
        let label = format!("group {}", at + 1);
        section.fact(&label, group_text(group));
        for differing in &group.differing {
            section.fact("", format!("differs: {}", differing_fact(differing)));
        }
    }
    section
}

fn group_text(group: &GroupFindings) -> String {
    let method = match group.method {
        ScreeningMethod::TooFew => "not judged: fewer than 5 hosts with results",
        ScreeningMethod::LeaveOneOut => "each against the others: Student's t, Holm",
        ScreeningMethod::Robust => "each against the median: MAD, Benjamini-Hochberg",
    };
    let facts: Vec<String> =
        group.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let hosts = counted(group.hosts as u64, "host");
    format!("{hosts} ({method}): {}", facts.join(", "))
}
