//! Like with like: hosts of the same hardware and layers are compared with each other.
//!
//! Firmware, kernel, mount options and other facts that an update changes do not separate hosts. They
//! are listed where they differ within a group, and tested as the reason of a difference
//! ([`shared_facts`]): separated by them, 12 hosts of a bad firmware would be
//! found to be like each other. Groups are never joined to have enough hosts: hosts of different
//! hardware have no common median.
//!
//! 12 hosts of 12 with a firmware that are 18 % slower are one finding, not 12 outliers.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use durio_base::stats::least_squares::median;
use durio_base::stats::multiple::{holm, rank_sum_above};

use super::levels::{ALPHA, FigureLevels, HostLevel, MARGIN};
use crate::findings::{
    DifferingFact, GroupFindings, HostFindings, JUDGED_HOSTS_MIN, ROBUST_HOSTS_MIN,
    ScreeningMethod, SharedFact,
};

/// Facts by which hosts are grouped.
const KIND: [&str; 6] = ["drive", "capacity", "layers", "cpu", "cpus", "virtual"];

/// Groups hosts that have runs, the largest group first, and gives each host its place.
pub(super) fn group_hosts(hosts: &mut [HostFindings]) -> Vec<GroupFindings> {
    let mut kinds: BTreeMap<BTreeMap<String, String>, Vec<usize>> = BTreeMap::new();
    for (at, host) in hosts.iter_mut().enumerate() {
        host.group = None;
        if !host.runs.is_empty() {
            kinds.entry(kind(host)).or_default().push(at);
        }
    }
    let mut groups: Vec<_> = kinds.into_iter().collect();
    groups.sort_by_key(|(_, members)| Reverse(members.len()));
    let mut found = Vec::new();
    for (place, (facts, members)) in groups.into_iter().enumerate() {
        found.push(GroupFindings {
            facts,
            hosts: members.len(),
            // By the number of hosts that have figures.
            method: ScreeningMethod::TooFew,
            figures: Vec::new(),
            differing: differing(hosts, &members),
        });
        for at in members {
            hosts[at].group = Some(place);
        }
    }
    found
}

fn kind(host: &HostFindings) -> BTreeMap<String, String> {
    let facts = host.facts.iter().filter(|(fact, _)| KIND.contains(&fact.as_str()));
    facts.map(|(fact, value)| (fact.clone(), value.clone())).collect()
}

pub(super) fn method(hosts: usize) -> ScreeningMethod {
    match hosts {
        ..JUDGED_HOSTS_MIN => ScreeningMethod::TooFew,
        JUDGED_HOSTS_MIN..ROBUST_HOSTS_MIN => ScreeningMethod::LeaveOneOut,
        _ => ScreeningMethod::Robust,
    }
}

fn differing(hosts: &[HostFindings], members: &[usize]) -> Vec<DifferingFact> {
    let mut facts: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for host in members.iter().filter_map(|&at| hosts.get(at)) {
        for (fact, value) in &host.facts {
            let values = facts.entry(fact).or_default();
            values.entry(value).or_default().push(host.name.clone());
        }
    }
    let differing = facts.into_iter().filter(|(_, values)| values.len() > 1);
    let fact = |(fact, values): (&str, BTreeMap<&str, Vec<String>>)| {
        let mut values: Vec<_> =
            values.into_iter().map(|(value, hosts)| (value.to_owned(), hosts)).collect();
        values.sort_by_key(|(_, hosts)| Reverse(hosts.len()));
        DifferingFact { fact: fact.to_owned(), values }
    };
    differing.map(fact).collect()
}

/// The grouping facts that are not the same in all groups.
pub(super) fn separating_facts(groups: &[GroupFindings]) -> Vec<&'static str> {
    let is_separating = |fact: &&str| {
        let mut values = groups.iter().map(|group| group.facts.get(*fact));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    KIND.into_iter().filter(is_separating).collect()
}

/// Fewest hosts with a fact, and fewest without, between which it may make the difference.
const HOSTS_MIN: usize = 3;

/// The facts whose hosts are worse than the others of their group, surest first; the error over all
/// facts and figures by Holm.
pub(super) fn shared_facts(
    hosts: &[HostFindings],
    levels: &[Vec<FigureLevels>],
) -> Vec<SharedFact> {
    let mut tested = Vec::new();
    for (group, figures) in levels.iter().enumerate() {
        for figure in figures {
            tested.extend(test_facts(hosts, group, figure));
        }
    }
    let p_values: Vec<f64> = tested.iter().map(|fact| fact.p).collect();
    tested.iter_mut().zip(holm(&p_values)).for_each(|(fact, p)| fact.p = p);
    tested.retain(|fact| fact.p <= ALPHA);
    tested.sort_by(|a, b| a.p.total_cmp(&b.p).then(b.factor.total_cmp(&a.factor)));
    tested
}

/// Every value of every fact that enough hosts have and enough have not.
fn test_facts(hosts: &[HostFindings], group: usize, figure: &FigureLevels) -> Vec<SharedFact> {
    let mut facts: BTreeMap<&str, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for level in &figure.hosts {
        for (fact, value) in hosts.get(level.host).into_iter().flat_map(|host| &host.facts) {
            let values = facts.entry(fact).or_default();
            values.entry(value).or_default().push(level.level);
        }
    }
    let mut tests = Vec::new();
    for (fact, values) in &facts {
        for (value, with) in values.iter().filter(|(_, with)| with.len() >= HOSTS_MIN) {
            let others = values.iter().filter(|(other, _)| *other != value);
            let without: Vec<f64> = others.flat_map(|(_, levels)| levels).copied().collect();
            let medians = median(with).zip(median(&without));
            let Some((here, there)) = medians.filter(|_| without.len() >= HOSTS_MIN) else {
                continue;
            };
            let is_worse = here - there >= MARGIN.ln();
            let p = rank_sum_above(with, &without).filter(|_| is_worse).unwrap_or(1.0);
            tests.push(SharedFact {
                group,
                fact: (*fact).to_owned(),
                value: (*value).to_owned(),
                key: figure.key.clone(),
                hosts_with: with.len(),
                hosts_without: without.len(),
                factor: (here - there).exp(),
                p,
            });
        }
    }
    tests
}

/// Takes the effect of the surest fact of each figure from the hosts that have it, so that they are
/// compared with each other for the rest.
pub(super) fn explain(
    hosts: &[HostFindings],
    levels: &mut [Vec<FigureLevels>],
    facts: &[SharedFact],
) {
    for (group, figures) in levels.iter_mut().enumerate() {
        for figure in figures {
            // Several facts of the same hosts would take their effect several times.
            let surest = facts.iter().find(|fact| fact.group == group && fact.key == figure.key);
            let Some(fact) = surest else { continue };
            let has_fact = |level: &&mut HostLevel| {
                let host = hosts.get(level.host);
                host.and_then(|host| host.facts.get(&fact.fact)) == Some(&fact.value)
            };
            let with = figure.hosts.iter_mut().filter(has_fact);
            with.for_each(|level| level.explain(fact.factor.ln()));
        }
    }
}
