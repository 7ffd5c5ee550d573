//! The passes of a campaign, one run on each host each, as its record has them; and what a pass that only
//! plans leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use durio_agree::clock::ClockEstimate;
use durio_agree::message::PlanSummary;
use durio_base::Nanos;
use durio_command::CommandError;
use durio_record::fleet::{
    CampaignEvent, CampaignFolder, CampaignManifest, CampaignOutcome, HostChange, HostState,
    TimedCampaignEvent,
};

/// A pass, and what was recorded of it by all processes that had it.
#[derive(Debug)]
pub(crate) struct RecordedPass {
    /// Empty for the runs that were ordered first.
    pub(crate) label: String,
    pub(crate) number: u32,
    /// How many were ordered with this label.
    pub(crate) passes: u32,
    pub(crate) hosts: Vec<String>,
    pub(crate) changes: Vec<HostChange>,
    pub(crate) events: Vec<TimedCampaignEvent>,
}

/// # Errors
/// If the record cannot be read.
pub(crate) fn recorded_passes(folder: &CampaignFolder) -> Result<Vec<RecordedPass>, CommandError> {
    Ok(split(&folder.manifest, folder.changes()?.lines, folder.events()?.lines))
}

/// Lines belong to the pass that was started last before them.
fn split(
    manifest: &CampaignManifest,
    changes: Vec<HostChange>,
    events: Vec<TimedCampaignEvent>,
) -> Vec<RecordedPass> {
    let mut passes: Vec<RecordedPass> = Vec::new();
    // When a pass was started or continued, and its position.
    let mut starts: Vec<(Nanos, usize)> = Vec::new();
    for line in events {
        if let Some(pass) = started(&line.event, manifest, &starts) {
            let is_same =
                |known: &RecordedPass| known.label == pass.label && known.number == pass.number;
            let at = passes.iter().position(is_same).unwrap_or(passes.len());
            starts.push((line.at, at));
            if at == passes.len() {
                passes.push(pass);
            }
        }
        if let Some(&(_, at)) = starts.last() {
            passes[at].events.push(line);
        }
    }
    for change in changes {
        let after = starts.partition_point(|&(start, _)| start <= change.at);
        if let Some(&(_, at)) = starts.get(after.saturating_sub(1)) {
            passes[at].changes.push(change);
        }
    }
    passes
}

/// The pass that begins with an event.
fn started(
    event: &CampaignEvent,
    manifest: &CampaignManifest,
    starts: &[(Nanos, usize)],
) -> Option<RecordedPass> {
    let (label, number, passes, named) = match event {
        CampaignEvent::PassStarted { label, number, passes, hosts } => {
            (label.clone(), *number, *passes, hosts.iter().collect::<BTreeSet<_>>())
        }
        // Records of earlier versions do not name their passes.
        _ if starts.is_empty() => (String::new(), 0, manifest.policy.repeats, BTreeSet::new()),
        _ => return None,
    };
    let is_named = |host: &&String| named.is_empty() || named.contains(*host);
    let hosts = manifest.hosts.iter().filter(is_named).cloned().collect();
    let (changes, events) = (Vec::new(), Vec::new());
    Some(RecordedPass { label, number, passes, hosts, changes, events })
}

impl RecordedPass {
    /// Those of these hosts that are ordered with a label.
    pub(crate) fn new_ones(
        label: &str,
        hosts: &[String],
        numbers: Range<u32>,
    ) -> impl Iterator<Item = Self> {
        let passes = numbers.end;
        numbers.map(move |number| {
            let (label, hosts) = (label.to_owned(), hosts.to_vec());
            Self { label, number, passes, hosts, changes: Vec::new(), events: Vec::new() }
        })
    }

    /// True if no process has started it.
    pub(crate) fn is_new(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn has_ended(&self) -> bool {
        let is_end = |line: &TimedCampaignEvent| matches!(line.event, CampaignEvent::Ended { .. });
        self.events.last().is_some_and(is_end)
    }

    /// True if it has ended as ordered, so that the next one may follow.
    pub(crate) fn is_complete(&self) -> bool {
        let complete = CampaignEvent::Ended { outcome: CampaignOutcome::Complete };
        self.events.last().is_some_and(|line| line.event == complete)
    }

    /// True if a process has done more than to start it.
    pub(crate) fn is_begun(&self) -> bool {
        let is_start =
            |line: &TimedCampaignEvent| matches!(line.event, CampaignEvent::PassStarted { .. });
        !self.changes.is_empty() || !self.events.iter().all(is_start)
    }

    /// The operator has agreed to its plans.
    pub(crate) fn is_agreed(&self) -> bool {
        self.events.iter().any(|line| match &line.event {
            CampaignEvent::Decision { decision, .. } => decision == "go",
            _ => false,
        })
    }

    /// The newest time in its record.
    pub(crate) fn newest(&self) -> Nanos {
        let times = self.changes.iter().map(|change| change.at);
        times.chain(self.events.iter().map(|line| line.at)).max().unwrap_or_default()
    }

    /// The last line of each host.
    fn last(&self) -> BTreeMap<&str, &HostChange> {
        self.changes.iter().map(|change| (change.host.as_str(), change)).collect()
    }

    /// Hosts whose run may still be on them.
    pub(crate) fn collectable(&self) -> Vec<String> {
        let last = self.last();
        let is_there = |host: &&String| {
            let state = last.get(host.as_str()).map(|change| change.state);
            matches!(state, Some(HostState::Lost | HostState::Ended))
        };
        self.hosts.iter().filter(is_there).cloned().collect()
    }

    /// Hosts without a whole run, each with its last state and the reason; and how many hosts have a
    /// run at all.
    pub(crate) fn lacking(&self) -> (Vec<(&str, HostState, &str)>, usize) {
        const NO_RUN: &str = "no run is here";
        let last = self.last();
        let (mut lacking, mut here) = (Vec::new(), 0);
        for host in &self.hosts {
            let change = last.get(host.as_str()).copied();
            let state = change.map_or(HostState::Asked, |change| change.state);
            let is_here =
                state == HostState::Collected && change.is_some_and(|change| change.run.is_some());
            here += usize::from(is_here);
            // A reason says that the run was cut, or that its load is not known as a whole.
            let reason = change.and_then(|change| change.reason.as_deref());
            if !is_here || reason.is_some() {
                lacking.push((host.as_str(), state, reason.unwrap_or(NO_RUN)));
            }
        }
        (lacking, here)
    }
}

/// A host with a plan, of which nothing is run.
#[derive(Debug)]
pub(crate) struct RehearsedHost {
    pub(crate) name: String,
    pub(crate) plan: PlanSummary,
    pub(crate) clock: Option<ClockEstimate>,
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

#[cfg(test)]
mod tests {
    use durio_agree::message::HostFacts;

    use super::*;
    use crate::tests::plan_with;

    fn manifest(repeats: u32) -> CampaignManifest {
        let mut manifest = testkit::fleet::manifest(&["db1", "db2", "db3"]);
        manifest.policy.repeats = repeats;
        manifest
    }

    fn line(at: u64, event: CampaignEvent) -> TimedCampaignEvent {
        TimedCampaignEvent { at: Nanos::new(at), event }
    }

    fn start(at: u64, label: &str, number: u32, hosts: &[&str]) -> TimedCampaignEvent {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        let label = label.to_owned();
        line(at, CampaignEvent::PassStarted { label, number, passes: 2, hosts })
    }

    fn end(at: u64) -> TimedCampaignEvent {
        line(at, CampaignEvent::Ended { outcome: CampaignOutcome::Complete })
    }

    fn change(at: u64, host: &str, state: HostState, reason: Option<&str>) -> HostChange {
        let (at, run) = (Nanos::new(at), (state == HostState::Collected).then(|| "run".to_owned()));
        HostChange { at, run, ..testkit::fleet::change(host, state, reason) }
    }

    #[test]
    fn every_pass_has_its_own_lines_also_those_of_a_later_collection() {
        use HostState::{Collected, Lost};
        let (decision, reason) = ("go".to_owned(), String::new());
        let go = line(5, CampaignEvent::Decision { decision, reason });
        let events = vec![
            start(1, "", 0, &[]),
            go,
            end(9),
            start(10, "", 1, &[]),
            end(19),
            start(20, "confirm 2", 0, &["db1", "db3", "stranger"]),
            end(29),
            start(30, "", 0, &["db2"]),
            end(39),
        ];
        let changes = vec![
            change(9, "db2", Lost, Some("silent")),
            change(10, "db2", Collected, None),
            change(25, "db1", Lost, Some("silent")),
            change(31, "db2", Collected, Some("silent while steps ran")),
        ];
        let passes = split(&manifest(2), changes, events);
        let found: Vec<_> = passes
            .iter()
            .map(|pass| (&*pass.label, pass.number, pass.hosts.len(), pass.changes.len()))
            .collect();
        assert_eq!(found, [("", 0, 3, 2), ("", 1, 3, 1), ("confirm 2", 0, 2, 1)]);
        let collectable: Vec<Vec<String>> = passes.iter().map(RecordedPass::collectable).collect();
        assert_eq!(collectable, [vec![], vec![], vec!["db1".to_owned()]]);
        assert_eq!((passes[0].newest(), passes[0].events.len()), (Nanos::new(39), 5));
        // A second collection knows that the first run was agreed to.
        assert!(passes[0].is_agreed() && !passes[1].is_agreed());
        assert!(passes.iter().all(RecordedPass::is_complete));
    }

    #[test]
    fn hosts_of_an_earlier_pass_stay_collectable_when_a_later_one_has_their_runs() {
        use HostState::{Collected, Ended, Failed, Lost};
        let events = vec![start(1, "", 0, &[]), end(9), start(10, "", 1, &[]), end(19)];
        let changes = vec![
            change(2, "db1", Lost, Some("silent")),
            change(3, "db2", Ended, None),
            change(4, "db3", Failed, Some("EIO")),
            change(11, "db1", Collected, None),
            change(12, "db2", Collected, None),
        ];
        let passes = split(&manifest(2), changes, events);
        assert_eq!(passes[0].collectable(), ["db1", "db2"]);
        assert_eq!(passes[1].collectable(), [""; 0]);
    }

    #[test]
    fn a_record_without_starts_of_passes_is_one_pass_of_all_hosts() {
        let changes = vec![change(2, "db1", HostState::Lost, Some("silent"))];
        let passes = split(&manifest(3), changes, vec![line(1, CampaignEvent::BusLost), end(5)]);
        let [pass] = &passes[..] else { panic!("{passes:?}") };
        assert_eq!((&*pass.label, pass.number, pass.passes, pass.hosts.len()), ("", 0, 3, 3));
        assert_eq!(pass.collectable(), ["db1"]);
    }

    #[test]
    fn a_pass_that_was_only_started_or_continued_has_not_ended() {
        let of = |events| split(&manifest(2), Vec::new(), events).remove(0);
        let started = of(vec![start(1, "", 0, &[])]);
        assert!(!started.has_ended() && !started.is_begun());
        let resumed = line(12, CampaignEvent::Resumed { hosts: 1 });
        let cut = of(vec![start(1, "", 0, &[]), end(5), start(11, "", 0, &["db1"]), resumed]);
        assert!(!cut.has_ended() && cut.is_begun() && !cut.is_agreed());
    }

    #[test]
    fn the_newest_time_of_a_pass_may_be_that_of_a_host() {
        let changes = vec![change(7, "db1", HostState::Joined, None)];
        let passes = split(&manifest(1), changes, vec![start(1, "", 0, &[])]);
        assert_eq!(passes[0].newest(), Nanos::new(7));
    }

    #[test]
    fn a_host_that_is_collected_without_a_run_has_none() {
        use HostState::Collected;
        let events = vec![start(1, "", 0, &[]), end(9)];
        let without = HostChange { run: None, ..change(3, "db2", Collected, None) };
        let changes = vec![
            change(2, "db1", Collected, None),
            without,
            change(4, "db3", Collected, Some("EIO")),
        ];
        let passes = split(&manifest(1), changes, events);
        let (lacking, here) = passes[0].lacking();
        let expected = [("db2", Collected, "no run is here"), ("db3", Collected, "EIO")];
        assert_eq!((lacking, here), (expected.to_vec(), 2));
    }

    #[test]
    fn what_hosts_say_of_themselves_does_not_part_their_plans_and_the_largest_group_comes_first() {
        let plan = |digest: &str, durio: &str| {
            plan_with(digest, HostFacts { durio: durio.to_owned(), ..HostFacts::default() })
        };
        let hosts = [("a", plan("p", "1")), ("b", plan("q", "1")), ("c", plan("q", "2"))];
        let groups = plan_groups(hosts.map(|(name, plan)| (name.to_owned(), plan)));
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let expected = [
            (PlanSummary::new("q", Vec::new()), names(&["b", "c"])),
            (PlanSummary::new("p", Vec::new()), names(&["a"])),
        ];
        assert_eq!(groups, expected);
    }
}
