//! Runs that were cut on hosts that also have complete ones: the complete ones are judged, and the
//! others are a doubt.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use durio_analyse::RunState;
use durio_base::counted;
use durio_record::fleet::HostState;

use super::FoundRuns;
use crate::analyse::MeasuredRun;
use crate::goals::first_of;
use crate::pooled::HostRecord;
use crate::{FleetDoubt, FleetDoubtKind, HostOutcome};

/// Different reasons that a doubt names.
const REASONS_NAMED: usize = 2;

/// The outcome of a host that the campaign gave up, and why if the campaign does not say.
pub(super) fn given_up(state: HostState) -> Option<(HostOutcome, &'static str)> {
    match state {
        HostState::Lost => Some((HostOutcome::Lost, "it fell silent")),
        HostState::Refused => Some((HostOutcome::Refused, "it was refused")),
        HostState::Failed => Some((HostOutcome::Failed, "durio failed there")),
        _ => None,
    }
}

fn main_runs(runs: &[MeasuredRun]) -> Vec<&MeasuredRun> {
    runs.iter().filter(|run| !run.run.is_confirmation).collect()
}

/// The newest complete run that was made with those of the other hosts.
pub(super) fn newest_complete(runs: &[MeasuredRun]) -> Option<&MeasuredRun> {
    main_runs(runs).into_iter().rev().find(|run| run.is_complete())
}

impl FoundRuns {
    /// True for a host with a complete run. The run of the pass in which the campaign gave the host up
    /// is not one, whatever its record says.
    pub(super) fn has_complete_run(&self, name: &str, runs: &[MeasuredRun]) -> bool {
        let main = main_runs(runs);
        let complete = main.iter().filter(|run| run.is_complete()).count();
        let is_given_up =
            self.states.get(name).is_some_and(|(state, _)| given_up(*state).is_some());
        let is_last_complete = main.last().is_some_and(|run| run.is_complete());
        let is_disowned = is_given_up && is_last_complete && main.len() >= self.passes;
        complete > usize::from(is_disowned)
    }

    /// A doubt for each run that was cut, with the hosts on which it was.
    pub(super) fn cut_runs(&self, records: &[HostRecord]) -> Vec<FleetDoubt> {
        let mut cut: BTreeMap<String, Vec<(&str, String)>> = BTreeMap::new();
        for record in records.iter().filter(|host| self.has_complete_run(&host.name, &host.runs)) {
            for (event, reason) in self.cut_runs_of(record) {
                cut.entry(event).or_default().push((&record.name, reason));
            }
        }
        let doubt = |(event, hosts): (String, Vec<(&str, String)>)| {
            let mut names: Vec<String> = hosts.iter().map(|(host, _)| (*host).to_owned()).collect();
            // A host can have two runs that cannot be read.
            names.dedup();
            let counted = counted(names.len() as u64, "host");
            let reasons = first_of(&most_common(&hosts), "; ", REASONS_NAMED);
            let sentence = format!("{event} on {counted}: {reasons}");
            FleetDoubt { kind: FleetDoubtKind::CutRun, hosts: names, sentence }
        };
        cut.into_iter().map(doubt).collect()
    }

    /// `run 3 of 3 was cut short`, and why.
    fn cut_runs_of(&self, record: &HostRecord) -> Vec<(String, String)> {
        let main = main_runs(&record.runs);
        let passes = self.passes.max(main.len());
        let cut_short = |number: usize| format!("run {number} of {passes} was cut short");
        let why = |run: &MeasuredRun| run.damage.clone().unwrap_or_else(|| ending(run).to_owned());
        let state = self.states.get(&record.name);
        // The last word of the campaign is about the last run.
        let told = state.and_then(|(state, reason)| {
            reason.clone().or_else(|| given_up(*state).map(|(_, words)| words.to_owned()))
        });
        let mut cut = Vec::new();
        for (at, run) in main.iter().enumerate().filter(|(_, run)| !run.is_complete()) {
            let told = told.clone().filter(|_| run.damage.is_none() && at + 1 == main.len());
            cut.push((cut_short(at + 1), told.unwrap_or_else(|| why(run))));
        }
        let has_ended = state.is_some_and(|(state, _)| {
            given_up(*state).is_some() || (*state == HostState::Stopped && main.len() < passes)
        });
        if has_ended && main.last().is_some_and(|run| run.is_complete()) {
            let told = told.unwrap_or_else(|| "it was stopped".to_owned());
            cut.push((cut_short((main.len() + 1).min(passes)), told));
        }
        let fresh = record.runs.iter().filter(|run| run.run.is_confirmation && !run.is_complete());
        cut.extend(fresh.map(|run| ("a fresh run was cut short".to_owned(), why(run))));
        let failed = self.failed.iter().filter(|failed| failed.host == record.name);
        cut.extend(failed.map(|run| ("a run cannot be read".to_owned(), run.reason.clone())));
        cut
    }
}

const fn ending(run: &MeasuredRun) -> &'static str {
    match run.run.state {
        RunState::Failed => "an error ended it",
        RunState::Interrupted => "it was interrupted",
        RunState::Partial | RunState::Complete => "its record has no end",
    }
}

/// Each reason once, the one of most hosts first.
fn most_common(hosts: &[(&str, String)]) -> Vec<String> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    hosts.iter().for_each(|(_, reason)| *counts.entry(reason).or_default() += 1);
    let mut reasons: Vec<(&String, usize)> = counts.into_iter().collect();
    reasons.sort_by_key(|(_, count)| Reverse(*count));
    reasons.into_iter().map(|(reason, _)| reason.clone()).collect()
}
