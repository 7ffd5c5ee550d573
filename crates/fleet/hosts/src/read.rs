//! Reads the run folders of many hosts: a campaign folder, a folder with a folder for each host, or
//! single run folders, as Ansible or scp collected them.
//!
//! Nothing in a folder is trusted. A host whose folder cannot be read is reported as such, and the
//! others count.

mod cut_runs;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use durio_analyse::RunState;
use durio_base::{Nanos, counted};
use durio_record::fleet::{
    CampaignEvent, CampaignFolder, HostState, ReadLines, TimedCampaignEvent, check_name,
    named_folders,
};
use durio_record::{FolderName, RecordError, file_names};

use crate::analyse::{MeasuredRun, load_run, sentence};
use crate::pooled::{CampaignTimes, HostRecord, Loss, PoolConditions, listed, pool};
use crate::screen::judge_hosts;
use crate::{
    FLEET_SCHEMA, FleetDoubt, FleetDoubtKind, FleetFindings, HostFindings, HostOutcome, HostRun,
    HostVerdict, ScreeningPower,
};
use cut_runs::{given_up, newest_complete};

/// Reasons that are listed one by one; a hostile folder has any number of bad names.
const REASONS_MAX: usize = 20;

/// No folder has a host.
#[derive(Debug)]
pub struct ReadError {
    /// The faults of the folders, as sentences.
    pub reasons: Vec<String>,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.reasons.iter().take(REASONS_MAX).map(String::as_str);
        let title = "no run of any host can be read";
        let texts: Vec<&str> = std::iter::once(title).chain(shown).collect();
        // The first separates the title from the reasons.
        f.write_str(&texts.join("; ").replacen("; ", ": ", 1))?;
        match self.reasons.len().saturating_sub(REASONS_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {}", counted(more as u64, "more reason")),
        }
    }
}

impl Error for ReadError {}

/// The findings of all hosts whose folders are at `paths`: of a campaign folder, of a folder with
/// folders of hosts or runs, or of a run folder.
///
/// # Errors
/// If none of them is a campaign folder or has a run that can be read.
pub fn read_hosts(paths: &[PathBuf]) -> Result<FleetFindings, ReadError> {
    let mut inventory = FoundRuns::default();
    paths.iter().for_each(|path| inventory.add_path(path));
    let records = inventory.load();
    if records.is_empty() && inventory.campaigns.is_empty() {
        let failed = inventory.failed.iter().map(ToString::to_string);
        return Err(ReadError { reasons: failed.chain(inventory.refused).collect() });
    }
    let conditions = PoolConditions {
        is_shared: inventory.is_shared,
        has_order: inventory.campaigns.len() <= 1,
        times: std::mem::take(&mut inventory.times),
    };
    let (pooled, skewed) = pool(&records, &conditions);
    let mut doubts = inventory.doubts(&records);
    doubts.extend(skewed);
    let hosts = inventory.hosts(records);
    let campaign = inventory.campaigns.join(", ");
    let mut findings = FleetFindings {
        schema: FLEET_SCHEMA.to_owned(),
        campaign: (!campaign.is_empty()).then_some(campaign),
        asked: hosts.len(),
        hosts,
        groups: Vec::new(),
        shared_facts: Vec::new(),
        pooled,
        power: ScreeningPower::default(),
        doubts,
    };
    judge_hosts(&mut findings);
    Ok(findings)
}

/// A run folder, and the host that it is filed under.
#[derive(Debug)]
struct FoundRun {
    host: Option<String>,
    path: PathBuf,
}

/// A host without a run, or a run of it that cannot be read.
#[derive(Debug)]
struct FailedHost {
    host: String,
    reason: String,
    is_unreadable: bool,
}

impl fmt::Display for FailedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.host, self.reason)
    }
}

/// The contents of the paths.
#[derive(Debug, Default)]
struct FoundRuns {
    campaigns: Vec<String>,
    is_shared: bool,
    /// Hosts of campaigns, in the operator's order.
    asked: Vec<String>,
    /// The last state of each, with its reason.
    states: BTreeMap<String, (HostState, Option<String>)>,
    /// Runs that a campaign ordered on each host, without those that confirm suspects.
    passes: usize,
    times: CampaignTimes,
    runs: Vec<FoundRun>,
    /// Runs by their real paths: the same one twice is not a repeat.
    known: BTreeSet<PathBuf>,
    failed: Vec<FailedHost>,
    /// Other things that were passed over, as sentences.
    refused: Vec<String>,
}

fn is_run(path: &Path) -> bool {
    path.join(file_names::MANIFEST).is_file()
}

impl FoundRuns {
    fn add_path(&mut self, path: &Path) {
        if CampaignFolder::is_at(path) {
            match CampaignFolder::open(path) {
                Ok(campaign) => self.add_campaign(&campaign),
                Err(error) => self.refused.push(sentence(&error)),
            }
        } else if is_run(path) {
            self.add_run(None, path.to_owned());
        } else {
            self.add_hosts(path);
        }
    }

    fn add_campaign(&mut self, campaign: &CampaignFolder) {
        let manifest = &campaign.manifest;
        self.campaigns.push(manifest.name.clone());
        self.is_shared |= manifest.policy.shared;
        let known: BTreeSet<String> = self.asked.iter().cloned().collect();
        self.asked.extend(manifest.hosts.iter().filter(|host| !known.contains(*host)).cloned());
        let asked: BTreeSet<&String> = manifest.hosts.iter().collect();
        let (changes, events) = (self.lines(campaign.changes()), self.lines(campaign.events()));
        self.passes = self.passes.max(ordered_passes(manifest.policy.repeats, &events));
        let is_confirming = confirmations(&events);
        let changes = changes.into_iter();
        let changes = changes.filter(|line| asked.contains(&line.host) && !is_confirming(line.at));
        self.states.extend(changes.map(|line| (line.host, (line.state, line.reason))));
        self.times.add(campaign_times(&events));
        match campaign.host_folders() {
            Ok(found) => {
                self.refused.extend(found.refused);
                for host in found.names {
                    match campaign.host_path(&host) {
                        Ok(path) if asked.contains(&host) => self.add_host(&host, &path),
                        Ok(_) => self.refused.push(format!(
                            "'{host}' has a folder and is not a host of the campaign"
                        )),
                        Err(error) => self.refused.push(sentence(&error)),
                    }
                }
            }
            Err(error) => self.refused.push(sentence(&error)),
        }
    }

    fn lines<T>(&mut self, read: Result<ReadLines<T>, RecordError>) -> Vec<T> {
        match read {
            Ok(ReadLines { lines, damage, .. }) => {
                self.refused.extend(damage);
                lines
            }
            Err(error) => {
                self.refused.push(sentence(&error));
                Vec::new()
            }
        }
    }

    /// The folders in a folder are hosts, or runs under the name of their host.
    fn add_hosts(&mut self, path: &Path) {
        let found = match named_folders(path) {
            Ok(found) => found,
            Err(error) => return self.refused.push(sentence(&error)),
        };
        if found.names.is_empty() {
            self.refused.push(format!("'{}' has no folder of a host or a run", path.display()));
        }
        self.refused.extend(found.refused);
        for name in found.names {
            let child = path.join(&name);
            if is_run(&child) {
                // The name that durio gives a run folder says nothing of its host.
                let host = FolderName::parse(&name).is_none().then_some(name);
                self.add_run(host, child);
            } else {
                self.add_host(&name, &child);
            }
        }
    }

    fn add_host(&mut self, host: &str, path: &Path) {
        let found = match named_folders(path) {
            Ok(found) => found,
            Err(error) => return self.fail(host, sentence(&error), false),
        };
        self.refused.extend(found.refused);
        let runs = found.names.into_iter().map(|run| path.join(run)).filter(|run| is_run(run));
        let runs: Vec<PathBuf> = runs.collect();
        if runs.is_empty() {
            self.fail(host, "its folder has no run folder".to_owned(), false);
        }
        for run in runs {
            self.add_run(Some(host.to_owned()), run);
        }
    }

    fn add_run(&mut self, host: Option<String>, path: PathBuf) {
        let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        match self.known.insert(real) {
            true => self.runs.push(FoundRun { host, path }),
            false => self.refused.push(format!("'{}' is named twice", path.display())),
        }
    }

    fn fail(&mut self, host: &str, reason: String, is_unreadable: bool) {
        self.failed.push(FailedHost { host: host.to_owned(), reason, is_unreadable });
    }

    /// Reads every run; hosts with one, by name, runs from the oldest on.
    fn load(&mut self) -> Vec<HostRecord> {
        let mut names = LooseNames::default();
        let mut hosts: BTreeMap<String, Vec<MeasuredRun>> = BTreeMap::new();
        for FoundRun { host, path } in std::mem::take(&mut self.runs) {
            match load_run(&path) {
                Ok(run) => {
                    let name = host.unwrap_or_else(|| names.name_of(&run));
                    hosts.entry(name).or_default().push(run);
                }
                Err(reason) => {
                    let folder = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                    self.fail(&host.unwrap_or_else(|| folder.into_owned()), reason, true);
                }
            }
        }
        let record = |(name, mut runs): (String, Vec<MeasuredRun>)| {
            runs.sort_by(|a, b| a.run.started.cmp(&b.run.started));
            HostRecord { name, runs }
        };
        hosts.into_iter().map(record).collect()
    }

    /// Every host, in the operator's order, then by name.
    fn hosts(&self, records: Vec<HostRecord>) -> Vec<HostFindings> {
        let mut runs: BTreeMap<String, Vec<MeasuredRun>> =
            records.into_iter().map(|record| (record.name, record.runs)).collect();
        let asked: BTreeSet<&String> = self.asked.iter().collect();
        let failed = self.failed.iter().map(|failed| &failed.host);
        let others: BTreeSet<String> =
            runs.keys().chain(failed).filter(|name| !asked.contains(*name)).cloned().collect();
        let names = self.asked.iter().cloned().chain(others);
        names.map(|name| self.host(runs.remove(&name).unwrap_or_default(), name)).collect()
    }

    fn host(&self, runs: Vec<MeasuredRun>, name: String) -> HostFindings {
        let (outcome, reason) = self.outcome(&name, &runs);
        let main = runs.iter().rev().find(|run| !run.run.is_confirmation);
        let newest = newest_complete(&runs).or(main).or(runs.last());
        let is_judged = |run: &HostRun| {
            let is_complete = run.is_confirmation || run.state == RunState::Complete;
            outcome != HostOutcome::Measured || is_complete
        };
        HostFindings {
            outcome,
            reason,
            group: None,
            facts: newest.map_or_else(BTreeMap::new, |run| run.facts.clone()),
            verdict: HostVerdict::NotJudged,
            evidence: Vec::new(),
            unsteady: Vec::new(),
            shrunk_factor: 1.0,
            rate_over_time: newest.map_or_else(Vec::new, |run| run.rate_over_time.clone()),
            runs: runs
                .into_iter()
                .map(|MeasuredRun { run, .. }| match is_judged(&run) {
                    true => run,
                    // The host is judged by its complete runs.
                    false => HostRun { figures: Vec::new(), ..run },
                })
                .collect(),
            name,
        }
    }

    fn outcome(&self, name: &str, runs: &[MeasuredRun]) -> (HostOutcome, Option<String>) {
        if self.has_complete_run(name, runs) {
            return (HostOutcome::Measured, None);
        }
        let state = self.states.get(name);
        let reason_or = |words: &str| {
            let reason = state.and_then(|(_, reason)| reason.clone());
            Some(reason.unwrap_or_else(|| words.to_owned()))
        };
        if let Some((outcome, words)) = state.and_then(|(state, _)| given_up(*state)) {
            return (outcome, reason_or(words));
        }
        let failed = self.failed.iter().find(|failed| failed.host == name);
        if let Some(failed) = failed {
            let outcome = match (runs.is_empty(), failed.is_unreadable) {
                (true, false) => HostOutcome::Missing,
                (true, true) => HostOutcome::Failed,
                (false, _) => HostOutcome::Partial,
            };
            return (outcome, Some(failed.reason.clone()));
        }
        let Some(run) = runs.iter().find(|run| !run.is_complete()) else {
            return match runs.is_empty() {
                true => (HostOutcome::Missing, reason_or("its run was not collected")),
                false => (HostOutcome::Measured, None),
            };
        };
        let ended = match run.run.state {
            RunState::Failed => return (HostOutcome::Failed, reason_or("an error ended its run")),
            RunState::Interrupted => "its run was interrupted",
            RunState::Partial | RunState::Complete => "its record has no end",
        };
        (HostOutcome::Partial, run.damage.clone().or_else(|| reason_or(ended)))
    }

    fn doubts(&self, records: &[HostRecord]) -> Vec<FleetDoubt> {
        let mut doubts = Vec::new();
        let versions = grouped_by(records, |run| run.durio_version.clone());
        doubts.extend(mixed(FleetDoubtKind::MixedVersions, &versions, |versions| {
            let shown = versions.iter().map(|(version, hosts)| {
                format!("{version} ({})", counted(hosts.len() as u64, "host"))
            });
            format!(
                "hosts ran different versions of durio: {}",
                shown.collect::<Vec<_>>().join(", ")
            )
        }));
        let plans = grouped_by(records, |run| run.plan_hash);
        doubts.extend(mixed(FleetDoubtKind::MixedPlans, &plans, |plans| {
            let most = plans.first().map_or(0, |(_, hosts)| hosts.len());
            let others: usize = plans.iter().skip(1).map(|(_, hosts)| hosts.len()).sum();
            let hosts = counted(others as u64, "host");
            format!("{hosts} ran other steps or sizes than the {most} with the most common plan")
        }));
        doubts.extend(machine_doubts(records));
        doubts.extend(self.cut_runs(records));
        let is_lost = |(_, (state, _)): &(&String, &(HostState, _))| *state == HostState::Lost;
        let lost: Vec<String> =
            self.states.iter().filter(is_lost).map(|(host, _)| host.clone()).collect();
        if !lost.is_empty() {
            let hosts = counted(lost.len() as u64, "host");
            let sentence = format!("{hosts} fell silent while others ran: the load is unknown");
            doubts.push(FleetDoubt { kind: FleetDoubtKind::Lost, hosts: lost, sentence });
        }
        let contradiction = |sentence| FleetDoubt {
            kind: FleetDoubtKind::Contradiction,
            hosts: Vec::new(),
            sentence,
        };
        doubts.extend(self.refused.iter().take(REASONS_MAX).cloned().map(contradiction));
        if let Some(more @ 1..) = self.refused.len().checked_sub(REASONS_MAX) {
            let more = counted(more as u64, "more name");
            doubts.push(contradiction(format!("{more} passed over for such reasons")));
        }
        doubts
    }
}

/// The runs of each host that were ordered without a label; labels are those of confirmations.
fn ordered_passes(repeats: u32, events: &[TimedCampaignEvent]) -> usize {
    let passes = events.iter().filter_map(|line| match &line.event {
        CampaignEvent::PassStarted { label, passes, .. } if label.is_empty() => Some(*passes),
        _ => None,
    });
    passes.chain([repeats]).max().map_or(0, |passes| passes as usize)
}

/// Whether suspects were confirmed at a time: what happens to a host then does not change how it ended
/// the campaign.
fn confirmations(events: &[TimedCampaignEvent]) -> impl Fn(Nanos) -> bool {
    let start = |line: &TimedCampaignEvent| match &line.event {
        CampaignEvent::PassStarted { label, .. } => Some((line.at, !label.is_empty())),
        _ => None,
    };
    let starts: Vec<(Nanos, bool)> = events.iter().filter_map(start).collect();
    move |at| {
        let started = starts.partition_point(|(start, _)| *start <= at);
        let last = started.checked_sub(1).and_then(|last| starts.get(last));
        last.is_some_and(|(_, is_confirmation)| *is_confirmation)
    }
}

/// The losses of a campaign's newest pass, each with the barriers around it, the ordered starts, and
/// the stops.
fn campaign_times(events: &[TimedCampaignEvent]) -> CampaignTimes {
    let mut times = CampaignTimes::default();
    let (mut step, mut pass, mut is_pooled) = (None, 0, true);
    for TimedCampaignEvent { at, event } in events {
        match event {
            CampaignEvent::PassStarted { label, number, .. } => {
                // Runs that confirm suspects are not pooled, and an earlier pass is only collected.
                is_pooled = label.is_empty() && *number >= pass;
                if is_pooled && *number > pass {
                    (step, pass) = (None, *number);
                }
            }
            _ if !is_pooled => {}
            // The last attempt is the one that hosts started by.
            CampaignEvent::BarrierOrdered { step, start_ns, .. } => {
                times.orders.insert(*step, Nanos::new(*start_ns));
            }
            CampaignEvent::BarrierPassed { step: passed, .. } => {
                if step.is_none() {
                    // Hosts that were lost in earlier passes load no step of this one.
                    times.losses.clear();
                }
                let open = times.losses.iter_mut().filter(|loss| loss.next_step.is_none());
                open.for_each(|loss| loss.next_step = Some(*passed));
                step = Some(*passed);
            }
            CampaignEvent::HostLost { host, .. } => {
                // Before the first barrier it had no load.
                let loss = |step| Loss { host: host.clone(), at: *at, step, next_step: None };
                times.losses.extend(step.map(loss));
            }
            CampaignEvent::Decision { decision, .. } if decision == "stop" => times.stops.push(*at),
            _ => {}
        }
    }
    times
}

/// Names of hosts whose runs are filed under none.
#[derive(Debug, Default)]
struct LooseNames {
    by_machine: BTreeMap<String, String>,
}

impl LooseNames {
    /// The name that the machine has in its record; another machine of the same name (`localhost`)
    /// has a part of its ID behind it.
    fn name_of(&mut self, run: &MeasuredRun) -> String {
        let plain = run.hostname.clone().filter(|name| check_name(name).is_ok());
        let plain = plain.unwrap_or_else(|| "unnamed".to_owned());
        let Some(id) = &run.machine_id else { return plain };
        if let Some(known) = self.by_machine.get(id) {
            return known.clone();
        }
        let is_used = self.by_machine.values().any(|known| *known == plain);
        let name = if is_used { format!("{plain}-{}", id.get(..6).unwrap_or(id)) } else { plain };
        self.by_machine.insert(id.clone(), name.clone());
        name
    }
}

/// A value of hosts' newest runs, with the hosts that have it.
type HostsWith<T> = (T, Vec<String>);

/// Each value once, the one of most hosts first.
fn grouped_by<T: Ord>(
    records: &[HostRecord],
    value: impl Fn(&MeasuredRun) -> T,
) -> Vec<HostsWith<T>> {
    let mut groups: BTreeMap<T, Vec<String>> = BTreeMap::new();
    for record in records {
        if let Some(run) = record.newest_run() {
            groups.entry(value(run)).or_default().push(record.name.clone());
        }
    }
    let mut groups: Vec<HostsWith<T>> = groups.into_iter().collect();
    groups.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    groups
}

/// A doubt about all hosts that are not like most.
fn mixed<T>(
    kind: FleetDoubtKind,
    groups: &[HostsWith<T>],
    sentence: impl Fn(&[HostsWith<T>]) -> String,
) -> Option<FleetDoubt> {
    let hosts = groups.iter().skip(1).flat_map(|(_, hosts)| hosts.iter().cloned()).collect();
    (groups.len() > 1).then(|| FleetDoubt { kind, hosts, sentence: sentence(groups) })
}

/// Machines with two names, and names with two machines.
fn machine_doubts(records: &[HostRecord]) -> Vec<FleetDoubt> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut doubts = Vec::new();
    for record in records {
        let ids: BTreeSet<&str> =
            record.runs.iter().filter_map(|run| run.machine_id.as_deref()).collect();
        if ids.len() > 1 {
            let (name, count) = (&record.name, ids.len());
            doubts.push(FleetDoubt {
                kind: FleetDoubtKind::Contradiction,
                hosts: vec![name.clone()],
                sentence: format!("the runs of {name} are from {count} machines"),
            });
        }
        for id in ids {
            names.entry(id).or_default().insert(&record.name);
        }
    }
    let same = names.into_values().filter(|names| names.len() > 1).map(|names| {
        let names = Vec::from_iter(names);
        let hosts = listed(&names);
        FleetDoubt {
            kind: FleetDoubtKind::SameMachine,
            hosts: names.into_iter().map(str::to_owned).collect(),
            sentence: format!("{hosts} have the same machine ID: one machine, or copied images"),
        }
    });
    doubts.extend(same);
    doubts
}

#[cfg(test)]
mod tests;
