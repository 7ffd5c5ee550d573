//! The plans of a campaign that is not run.

use std::cell::RefCell;

use durio_agree::clock::ClockEstimate;
use durio_agree::message::PlanSummary;

/// The plans of hosts that nothing is run of.
#[derive(Debug, Default)]
pub(crate) struct Rehearsal(RefCell<Vec<RehearsedHost>>);

/// A host with a plan.
#[derive(Debug)]
pub(crate) struct RehearsedHost {
    pub(crate) name: String,
    pub(crate) plan: PlanSummary,
    pub(crate) clock: Option<ClockEstimate>,
}

impl Rehearsal {
    pub(crate) fn add(&self, host: &str, plan: &PlanSummary, clock: Option<ClockEstimate>) {
        let (name, plan) = (host.to_owned(), plan.clone());
        self.0.borrow_mut().push(RehearsedHost { name, plan, clock });
    }

    pub(crate) fn into_hosts(self) -> Vec<RehearsedHost> {
        self.0.into_inner()
    }
}

/// By the whole plan: a host may claim the digest of another's.
pub(crate) fn plan_groups(
    plans: impl IntoIterator<Item = (String, PlanSummary)>,
) -> Vec<(PlanSummary, Vec<String>)> {
    let mut groups: Vec<(PlanSummary, Vec<String>)> = Vec::new();
    for (name, plan) in plans {
        let plan = PlanSummary { facts: None, ..plan };
        match groups.iter_mut().find(|(known, _)| *known == plan) {
            Some((_, hosts)) => hosts.push(name),
            None => groups.push((plan, vec![name])),
        }
    }
    groups.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    groups
}
