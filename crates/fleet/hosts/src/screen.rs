//! Which hosts are slower than others like them, and what slower hosts have in common.
//!
//! Hosts are grouped with their like, facts that explain a difference are found and their effect is
//! taken out, then each host is screened against its group. A suspect becomes slow only by fresh runs.
//! docs/benchmarks.md has how often that is wrong, by simulation (`cargo xtask bench fleet-hosts`).

mod confirm;
mod groups;
mod levels;
mod outliers;
mod steadiness;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use durio_base::counted;
use durio_base::stats::least_squares::{count, median, robust_deviation};
use durio_base::stats::repeats::Mean;
use durio_base::stats::student_quantile;

use crate::findings::{
    FleetDoubt, FleetDoubtKind, FleetFindings, GroupFindings, HostEvidence, HostFindings, HostRun,
    HostVerdict, JUDGED_HOSTS_MIN, ScreeningMethod, ScreeningPower,
};
use levels::{ALPHA, FigureLevels};
use outliers::{Outlier, ROBUST_FREEDOM, Screening, is_judged, judged_hosts};

pub use confirm::choose_for_confirmation;

/// The effect that [`ScreeningPower::runs_for_ten_percent`] is about, and how often it is found.
const EFFECT: f64 = 1.1;
const FOUND: f64 = 0.9;

/// No campaign repeats a run more often.
const RUNS_MAX: u32 = 100;

/// Fills in the groups and everything that follows from them, and sorts the hosts.
pub fn judge_hosts(findings: &mut FleetFindings) {
    // They may have been judged before, without the runs that confirm.
    findings.doubts.retain(|doubt| doubt.kind != FleetDoubtKind::FewHosts);
    findings.groups = groups::group_hosts(&mut findings.hosts);
    let mut levels = levels::figure_levels(&findings.hosts, findings.groups.len());
    for (group, figures) in findings.groups.iter_mut().zip(&levels) {
        group.figures = figures.iter().filter_map(FigureLevels::summary).collect();
        group.method = groups::method(group.measured());
    }
    reset(&mut findings.hosts, &levels);
    findings.shared_facts = groups::shared_facts(&findings.hosts, &levels);
    groups::explain(&findings.hosts, &mut levels, &findings.shared_facts);
    let groups = findings.groups.iter().zip(&levels).enumerate();
    let screened: Vec<Screening> = groups
        .map(|(place, (group, figures))| outliers::screen(place, group.method, figures))
        .collect();
    let outliers: Vec<Outlier> =
        screened.iter().flat_map(|screening| &screening.outliers).copied().collect();
    name_suspects(&mut findings.hosts, &levels, &outliers);
    name_unsteady(&mut findings.hosts, &levels);
    findings.power = power(&findings.groups, &levels, &screened);
    let doubts = [too_few(findings), single_runs(findings)];
    findings.doubts.extend(doubts.into_iter().flatten());
    let hiding = screened.iter().map(|screening| hiding(findings, screening));
    let hiding: Vec<FleetDoubt> = hiding.flatten().collect();
    findings.doubts.extend(hiding);
    sort(&mut findings.hosts);
}

/// Every host as if no difference were found, with the effect that orders it.
fn reset(hosts: &mut [HostFindings], levels: &[Vec<FigureLevels>]) {
    let factors = shrunk_factors(levels);
    let judged = judged_hosts(levels);
    for (at, host) in hosts.iter_mut().enumerate() {
        host.verdict = match judged.contains(&at) {
            true => HostVerdict::Alike,
            false => HostVerdict::NotJudged,
        };
        host.evidence.clear();
        host.unsteady.clear();
        host.shrunk_factor = factors.get(&at).copied().unwrap_or(1.0);
    }
}

/// Suspects, and by their fresh runs slow or cleared hosts, with their evidence.
fn name_suspects(hosts: &mut [HostFindings], levels: &[Vec<FigureLevels>], outliers: &[Outlier]) {
    let suspects: BTreeSet<usize> = outliers.iter().map(|outlier| outlier.host).collect();
    let fresh = confirm::confirm(levels, &suspects);
    let screened = |outlier: &Outlier| {
        let figure = levels.get(outlier.group)?.get(outlier.figure)?;
        figure.evidence(outlier.at, outlier.p)
    };
    for at in suspects {
        let Some(host) = hosts.get_mut(at) else { continue };
        let own = outliers.iter().filter(|outlier| outlier.host == at);
        let screened: Vec<HostEvidence> = own.filter_map(screened).collect();
        let tested = fresh.iter().filter(|(host, _)| *host == at).map(|(_, evidence)| evidence);
        let (confirmed, others): (Vec<&HostEvidence>, Vec<&HostEvidence>) =
            tested.partition(|evidence| evidence.p <= ALPHA);
        let again = |evidence: &HostEvidence| {
            others.iter().find(|other| other.key == evidence.key).map(|other| (*other).clone())
        };
        let cleared: Option<Vec<HostEvidence>> = screened.iter().map(again).collect();
        let named: (HostVerdict, Vec<HostEvidence>) = match (confirmed.is_empty(), cleared) {
            (false, _) => (HostVerdict::Slow, confirmed.into_iter().cloned().collect()),
            (true, Some(cleared)) => (HostVerdict::Cleared, cleared),
            // A figure without enough fresh runs may be the one in which the host is slow.
            (true, None) => (HostVerdict::Suspect, screened),
        };
        (host.verdict, host.evidence) = named;
        host.evidence.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    }
}

fn name_unsteady(hosts: &mut [HostFindings], levels: &[Vec<FigureLevels>]) {
    for (at, figure) in levels.iter().flat_map(|figures| steadiness::unsteady(figures)) {
        let Some(host) = hosts.get_mut(at) else { continue };
        if host.verdict == HostVerdict::Alike {
            host.verdict = HostVerdict::Unsteady;
        }
        host.unsteady.push(figure);
    }
}

/// Slow hosts, then suspects, then the others by their effect, then those without runs.
fn sort(hosts: &mut [HostFindings]) {
    let rank = |host: &HostFindings| match host.verdict {
        HostVerdict::Slow => 0,
        HostVerdict::Suspect => 1,
        _ if host.group.is_some() => 2,
        _ => 3,
    };
    hosts.sort_by(|a, b| {
        let by_effect = b.shrunk_factor.total_cmp(&a.shrunk_factor);
        rank(a).cmp(&rank(b)).then(by_effect).then_with(|| a.name.cmp(&b.name))
    });
}

/// The largest factor of each host, shrunk by the share of its variance that is due to its runs, so
/// that hosts with one noisy run do not lead the list.
fn shrunk_factors(levels: &[Vec<FigureLevels>]) -> BTreeMap<usize, f64> {
    let mut factors = BTreeMap::new();
    for figure in levels.iter().flatten() {
        let levels = figure.levels();
        let hosts = Mean::of(&levels).map(|mean| mean.variance * count(levels.len()));
        let between = hosts.and_then(|variance| figure.without_runs(variance));
        let Some((middle, between)) = median(&levels).zip(between) else { continue };
        let by_runs = figure.run_variance().unwrap_or(0.0);
        for host in &figure.hosts {
            let variance = between + by_runs / count(host.repeats.len());
            // Without any scatter there is nothing to shrink by.
            let weight = if variance > 0.0 { between / variance } else { 1.0 };
            let factor = (weight * (host.level - middle)).exp();
            let largest = factors.entry(host.host).or_insert(factor);
            *largest = factor.max(*largest);
        }
    }
    factors
}

fn power(
    groups: &[GroupFindings],
    levels: &[Vec<FigureLevels>],
    screened: &[Screening],
) -> ScreeningPower {
    let judged = || groups.iter().zip(levels).filter(|(group, _)| is_screened(group));
    let figures = judged().flat_map(|(_, figures)| figures.iter().filter(|all| is_judged(all)));
    let mut keys: Vec<_> = figures.map(|figure| &figure.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let false_suspects = |(group, screening): (&GroupFindings, &Screening)| {
        let mut suspects: Vec<usize> = screening.outliers.iter().map(|found| found.host).collect();
        suspects.sort_unstable();
        suspects.dedup();
        match group.method {
            ScreeningMethod::TooFew => 0.0,
            // The probability of a single one.
            ScreeningMethod::LeaveOneOut => ALPHA,
            // A share of the suspects, and without any the probability of one.
            ScreeningMethod::Robust => ALPHA * count(suspects.len().max(1)),
        }
    };
    ScreeningPower {
        hosts_tested: judged_hosts(levels).len(),
        figures_tested: keys.len(),
        false_suspects: groups.iter().zip(screened).map(false_suspects).sum(),
        runs_for_ten_percent: judged().next().and_then(|(group, all)| runs_needed(group, all)),
    }
}

fn is_screened(group: &GroupFindings) -> bool {
    group.method != ScreeningMethod::TooFew
}

/// Runs that find the effect in the middle one of the group's figures.
fn runs_needed(group: &GroupFindings, figures: &[FigureLevels]) -> Option<u32> {
    let judged: Vec<&FigureLevels> = figures.iter().filter(|levels| is_judged(levels)).collect();
    let cells: usize = judged.iter().map(|levels| levels.hosts.len()).sum();
    let runs = |levels: &&FigureLevels| {
        let hosts = count(levels.hosts.len());
        let freedom = match group.method {
            ScreeningMethod::Robust => ROBUST_FREEDOM * (hosts - 1.0),
            ScreeningMethod::TooFew | ScreeningMethod::LeaveOneOut => hosts - 2.0,
        };
        let quantile = |below| student_quantile(freedom, below);
        let errors = quantile(1.0 - ALPHA / count(cells))? + quantile(FOUND)?;
        // Slow hosts, which are to be found, are not part of the others' scatter.
        let between = levels.without_runs(robust_deviation(&levels.levels())?.powi(2))?;
        let by_runs = levels.run_variance()?;
        let error = |runs: u32| (between + by_runs / f64::from(runs)).sqrt();
        // If none is enough, a number above RUNS_MAX: the figure sorts last, and is never the answer.
        Some((1..=RUNS_MAX).find(|&runs| errors * error(runs) <= EFFECT.ln()).unwrap_or(u32::MAX))
    };
    let mut needed: Vec<u32> = judged.iter().filter_map(runs).collect();
    needed.sort_unstable();
    needed.get(needed.len() / 2).copied().filter(|runs| *runs <= RUNS_MAX)
}

/// A doubt about these hosts; `rest` follows their number.
fn few_hosts(hosts: Vec<String>, rest: &str) -> Option<FleetDoubt> {
    let sentence = format!("{} {rest}", counted(hosts.len() as u64, "host"));
    let kind = FleetDoubtKind::FewHosts;
    (!hosts.is_empty()).then_some(FleetDoubt { kind, hosts, sentence })
}

/// Hosts that have too few others like them.
fn too_few(findings: &FleetFindings) -> Option<FleetDoubt> {
    let is_small = |group: usize| {
        findings.groups.get(group).is_some_and(|group| group.method == ScreeningMethod::TooFew)
    };
    let has_figures = |host: &HostFindings| {
        host.runs.iter().any(|run| !run.is_confirmation && !run.figures.is_empty())
    };
    let hosts: Vec<String> =
        names(findings, |host| has_figures(host) && host.group.is_some_and(is_small));
    let facts = groups::separating_facts(&findings.groups);
    let why = match facts.is_empty() {
        true => String::new(),
        false => format!("; groups differ in {}", facts.join(", ")),
    };
    few_hosts(hosts, &format!("not judged: a group of like hosts needs {JUDGED_HOSTS_MIN}{why}"))
}

/// Hosts with a single run, of those that were screened.
fn single_runs(findings: &FleetFindings) -> Option<FleetDoubt> {
    let hosts = names(findings, |host| {
        let has_figures = |run: &&HostRun| !run.is_confirmation && !run.figures.is_empty();
        let runs = host.runs.iter().filter(has_figures);
        host.verdict != HostVerdict::NotJudged && runs.count() == 1
    });
    let rest =
        "with a single run: its scatter is unknown, and a disturbed run looks like a slow host";
    few_hosts(hosts, rest)
}

/// Several suspects of a small group.
fn hiding(findings: &FleetFindings, screening: &Screening) -> Option<FleetDoubt> {
    let suspected = screening.hiding.iter().filter_map(|&at| findings.hosts.get(at));
    let rest = "of a small group are far from its median: they can hide each other from the test \
                against the other hosts, so distances from the median were tested as well";
    few_hosts(suspected.map(|host| host.name.clone()).collect(), rest)
}

fn names(findings: &FleetFindings, is_meant: impl Fn(&HostFindings) -> bool) -> Vec<String> {
    let hosts = findings.hosts.iter().filter(|host| is_meant(host));
    hosts.map(|host| host.name.clone()).collect()
}
