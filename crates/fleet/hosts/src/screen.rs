//! Which hosts are slower than others like them, and what slower hosts have in common.
//!
//! Hosts are grouped with their like, facts that explain a difference are found and their effect is
//! taken out, then each host is screened against its group. A suspect becomes slow only by fresh runs.
//! docs/benchmarks.md has how often that is wrong, by simulation (`cargo xtask bench fleet-hosts`).

mod confirm;
mod groups;
mod levels;
mod outliers;
mod power;
mod steadiness;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use durio_base::counted;

use crate::findings::{
    FleetDoubt, FleetDoubtKind, FleetFindings, HostEvidence, HostFindings, HostVerdict,
    JUDGED_HOSTS_MIN, ScreeningMethod,
};
use levels::{ALPHA, FigureLevels};
use outliers::{Outlier, Screening};

pub use confirm::choose_for_confirmation;

/// Fills in the groups and everything that follows from them, and sorts the hosts.
pub fn judge_hosts(findings: &mut FleetFindings) {
    // They may have been judged before, without the runs that confirm.
    findings.doubts.retain(|doubt| doubt.kind != FleetDoubtKind::FewHosts);
    findings.groups = groups::group_hosts(&mut findings.hosts);
    let mut levels = levels::figure_levels(&findings.hosts, findings.groups.len());
    for (group, figures) in findings.groups.iter_mut().zip(&levels) {
        group.figures = figures.iter().filter_map(FigureLevels::summary).collect();
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
    findings.power = power::power(&findings.groups, &levels, &screened);
    let doubts = [too_few(findings), single_runs(findings)];
    findings.doubts.extend(doubts.into_iter().flatten());
    let hiding = screened.iter().map(|screening| hiding(findings, screening));
    let hiding: Vec<FleetDoubt> = hiding.flatten().collect();
    findings.doubts.extend(hiding);
    sort(&mut findings.hosts);
}

/// Every host as if no difference were found, with the effect that orders it.
fn reset(hosts: &mut [HostFindings], levels: &[Vec<FigureLevels>]) {
    let factors = power::shrunk_factors(levels);
    let judged = levels.iter().flatten().filter(|figure| outliers::is_judged(figure));
    let judged: BTreeSet<usize> =
        judged.flat_map(|figure| &figure.hosts).map(|host| host.host).collect();
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

fn few_hosts(hosts: Vec<String>, sentence: String) -> FleetDoubt {
    FleetDoubt { kind: FleetDoubtKind::FewHosts, hosts, sentence }
}

/// Hosts that have too few others like them.
fn too_few(findings: &FleetFindings) -> Option<FleetDoubt> {
    let is_small = |group: usize| {
        findings.groups.get(group).is_some_and(|group| group.method == ScreeningMethod::TooFew)
    };
    let hosts: Vec<String> = names(findings, |host| host.group.is_some_and(is_small));
    let facts = groups::separating_facts(&findings.groups);
    let why = match facts.is_empty() {
        true => String::new(),
        false => format!("; groups differ in {}", facts.join(", ")),
    };
    let sentence = format!(
        "{} not judged: a group of like hosts needs {JUDGED_HOSTS_MIN}{why}",
        counted(hosts.len() as u64, "host")
    );
    (!hosts.is_empty()).then(|| few_hosts(hosts, sentence))
}

/// Hosts with a single run, of those that were screened.
fn single_runs(findings: &FleetFindings) -> Option<FleetDoubt> {
    let hosts = names(findings, |host| {
        let runs = host.runs.iter().filter(|run| !run.is_confirmation);
        host.verdict != HostVerdict::NotJudged && runs.count() == 1
    });
    let sentence = format!(
        "{} with a single run: its scatter is unknown, and a disturbed run looks like a slow host",
        counted(hosts.len() as u64, "host")
    );
    (!hosts.is_empty()).then(|| few_hosts(hosts, sentence))
}

/// Several suspects of a small group.
fn hiding(findings: &FleetFindings, screening: &Screening) -> Option<FleetDoubt> {
    let suspected = screening.hiding.iter().filter_map(|&at| findings.hosts.get(at));
    let hosts: Vec<String> = suspected.map(|host| host.name.clone()).collect();
    let sentence = format!(
        "{} of a small group are far from its median: they can hide each other from the test against \
         the other hosts, so distances from the median were tested as well",
        counted(hosts.len() as u64, "host")
    );
    (!hosts.is_empty()).then(|| few_hosts(hosts, sentence))
}

fn names(findings: &FleetFindings, is_meant: impl Fn(&HostFindings) -> bool) -> Vec<String> {
    let hosts = findings.hosts.iter().filter(|host| is_meant(host));
    hosts.map(|host| host.name.clone()).collect()
}
