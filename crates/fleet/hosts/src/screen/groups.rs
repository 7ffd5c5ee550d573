//! Like with like: hosts of the same hardware and layers are compared with each other.
//!
//! Firmware, kernel, mount options and other facts that an update changes do not separate hosts. They
//! are listed where they differ within a group, and tested as the reason of a difference
//! ([`shared_facts`](super::shared_facts)): separated by them, 12 hosts of a bad firmware would be
//! found to be like each other. Groups are never joined to have enough hosts: hosts of different
//! hardware have no common median.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::findings::{
    DifferingFact, GroupFindings, HostFindings, JUDGED_HOSTS_MIN, ROBUST_HOSTS_MIN, ScreeningMethod,
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
            method: method(members.len()),
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

fn method(hosts: usize) -> ScreeningMethod {
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
