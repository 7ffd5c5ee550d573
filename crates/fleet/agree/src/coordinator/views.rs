//! What the coordinator knows of each host and relay, and of what it does with it: the newest status,
//! the clock, a barrier, a folder that is being fetched.

use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_record::fleet::{HostChange, HostState};

use crate::clock::{ClockEstimate, PROBE_EVERY, ProbeSeries, later};
use crate::message::{CampaignStep, FolderDigest, HostStatus, PlanSummary, RunSummary};
use crate::sign::Newest;

const LAST_STEP: CampaignStep =
    CampaignStep { section: Some(u32::MAX), round: u32::MAX, step: u32::MAX };

#[derive(Debug, Default)]
pub(super) struct HostView {
    pub(super) name: String,
    /// Which relay serves it, if one does.
    pub(super) relay: Option<usize>,
    /// The state that the record has.
    pub(super) recorded: HostState,
    pub(super) status: Option<HostStatus>,
    pub(super) newest: Newest,
    /// The newest time at which it is known to have lived.
    pub(super) alive: Nanos,
    /// The first status that says what it says now, as its relay reports.
    pub(super) said: Option<(u64, u64)>,
    /// It has spoken to this process, or its relay for it.
    pub(super) is_heard: bool,
    pub(super) has_joined: bool,
    /// Asked to join when the campaign had begun.
    pub(super) is_late: bool,
    pub(super) lost_since: Option<Nanos>,
    pub(super) clock: Option<ClockEstimate>,
    pub(super) series: ProbeSeries,
    pub(super) next_probe: Nanos,
    pub(super) next_order: Nanos,
    pub(super) refusal: Option<String>,
    /// Why and since when it is to stop.
    pub(super) stop: Option<(String, Nanos)>,
    pub(super) is_stop_sent: bool,
    pub(super) plan: Option<PlanSummary>,
    pub(super) run: Option<RunSummary>,
    /// Steps, from and to, some part of which may have run while the host was lost.
    pub(super) unknown: Vec<(CampaignStep, CampaignStep)>,
    pub(super) was_lost: bool,
    pub(super) fetch: Option<Fetch>,
    pub(super) fetch_failures: u32,
    /// It was told to stop long ago, so it counts as lost until its run has ended.
    pub(super) is_overdue: bool,
    pub(super) lines: HostLines,
}

/// Lines about a host in one pass, without the one of its end.
const LINES_MAX: u32 = 100;

/// Lines of the record about one host. States may alternate without end; lines do not.
#[derive(Debug, Default)]
pub(super) struct HostLines {
    written: u32,
    /// The state of the last line.
    state: HostState,
    /// The last change, while it has no line.
    pub(super) pending: Option<HostChange>,
}

impl HostLines {
    /// Notes a change; it is given back if it is to be written.
    pub(super) fn add(&mut self, mut change: HostChange) -> Option<HostChange> {
        change.unwritten = self.pending.take().map_or(0, |before| before.unwritten + 1);
        if !self.is_wanted(&change) {
            self.pending = Some(change);
            return None;
        }
        self.note(change.state);
        Some(change)
    }

    /// A line is written, or was by an earlier process.
    pub(super) fn note(&mut self, state: HostState) {
        (self.state, self.written) = (state, self.written.saturating_add(1));
    }

    /// A state of another kind than the last one gets a line.
    pub(super) fn has_room(&self) -> bool {
        self.written < LINES_MAX
    }

    /// A campaign with a barrier for each step goes through the same states again and again, and a
    /// bad link makes a host lost and found.
    fn is_wanted(&self, change: &HostChange) -> bool {
        let is_under_way = |state| (HostState::Armed..=HostState::Running).contains(&state);
        let is_repeated = is_under_way(self.state)
            && is_under_way(change.state)
            && change.state <= self.state
            && change.reason.is_none();
        let is_end = change.state.is_final() && change.state != HostState::Lost;
        is_end || !is_repeated && self.has_room()
    }
}

impl HostView {
    pub(super) fn new(name: &str, now: Nanos) -> Self {
        let name = name.to_owned();
        Self { name, alive: now, next_probe: now, next_order: now, ..Self::default() }
    }

    /// Takes part, and its run has not ended.
    pub(super) fn is_active(&self) -> bool {
        let is_over = self.recorded.is_final() || self.recorded == HostState::Ended;
        self.has_joined && !is_over && self.lost_since.is_none() && self.stop.is_none()
    }

    /// A relay asks its hosts by itself.
    pub(super) fn begin_series(&mut self, probes: u32, now: Nanos) {
        if self.relay.is_some() {
            return;
        }
        self.series = ProbeSeries::new(probes, now);
        self.next_probe = later(now, PROBE_EVERY);
    }

    pub(super) fn lose(&mut self, now: Nanos) {
        (self.lost_since, self.fetch, self.was_lost) = (Some(now), None, true);
        if self.recorded == HostState::Ended {
            return;
        }
        let started = self.status.as_ref().and_then(|status| Some((status.started?.step, status)));
        let from = match started {
            None => CampaignStep::default(),
            Some((step, status)) if status.state == HostState::Running => step,
            Some((step, _)) => CampaignStep { step: step.step.saturating_add(1), ..step },
        };
        self.unknown.push((from, LAST_STEP));
    }

    /// Ends the time in which nothing was known of its steps.
    pub(super) fn find(&mut self) {
        (self.lost_since, self.is_overdue) = (None, false);
        let Some((from, to)) = self.unknown.pop() else { return };
        let started = self.status.as_ref().and_then(|status| status.started);
        let is_over = self.status.as_ref().is_some_and(|status| status.state >= HostState::Ended);
        let to = match started {
            _ if to != LAST_STEP => to,
            Some(started) => started.step,
            // An agent that was restarted does not know its steps.
            None if is_over => LAST_STEP,
            None => return,
        };
        if from <= to {
            self.unknown.push((from, to));
        }
    }

    /// The whole run, of which no part is known.
    pub(super) fn forget_all(&mut self) {
        self.unknown.push((CampaignStep::default(), LAST_STEP));
    }

    pub(super) fn is_unknown(&self, step: CampaignStep) -> bool {
        self.unknown.iter().any(|&(from, to)| (from..=to).contains(&step))
    }
}

#[derive(Debug, Default)]
pub(super) struct RelayView {
    pub(super) name: String,
    /// Where its hosts are among all.
    pub(super) hosts: Vec<usize>,
    pub(super) newest: Newest,
    pub(super) clock: Option<ClockEstimate>,
    pub(super) series: ProbeSeries,
    pub(super) next_probe: Nanos,
    /// When its hosts get their clocks.
    pub(super) next_clocks: Nanos,
    /// When its last report came.
    pub(super) heard: Nanos,
    /// The record says so.
    pub(super) is_silent: bool,
}

impl RelayView {
    pub(super) fn begin_series(&mut self, probes: u32, now: Nanos) {
        self.series = ProbeSeries::new(probes, now);
        self.next_probe = later(now, PROBE_EVERY);
    }
}

#[derive(Debug)]
pub(super) struct BarrierAttempt {
    pub(super) step: CampaignStep,
    pub(super) attempt: u32,
    /// Positions of the hosts.
    pub(super) hosts: Vec<usize>,
    pub(super) stage: BarrierStage,
}

#[derive(Debug)]
pub(super) enum BarrierStage {
    Probing { since: Nanos },
    Ordered(OrderedBarrier),
}

#[derive(Debug)]
pub(super) struct OrderedBarrier {
    pub(super) since: Nanos,
    pub(super) at: Nanos,
    pub(super) lead: Nanos,
    /// When each host was known to have the order.
    pub(super) acknowledged: BTreeMap<usize, Nanos>,
    /// When each host started, on the coordinator's clock.
    pub(super) started: BTreeMap<usize, Nanos>,
}

/// How far a folder has come.
#[derive(Debug, Default)]
pub(super) struct Fetch {
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) digest: FolderDigest,
    /// When the present piece was asked for.
    pub(super) asked: Option<Nanos>,
    /// Times that it was asked for again.
    pub(super) repeats: u32,
}

#[cfg(test)]
mod tests {
    use testkit::fleet::change;

    use super::*;
    use crate::message::StartedStep;
    use crate::tests::status;

    fn step(number: u32) -> CampaignStep {
        CampaignStep { section: Some(0), round: 0, step: number }
    }

    fn says(view: &mut HostView, state: HostState, started: Option<u32>) {
        let started = started.map(|number| StartedStep { step: step(number), at_ns: 0 });
        let status = HostStatus { started, ..status("a", state) };
        (view.recorded, view.status) = (state, Some(status));
    }

    /// The steps from 0 to 9 of which nothing is known, after a time without a word.
    fn unknown(
        view: &mut HostView,
        before: (HostState, Option<u32>),
        after: (HostState, Option<u32>),
    ) -> Vec<u32> {
        says(view, before.0, before.1);
        view.lose(Nanos::from_secs(1));
        assert!(view.lost_since.is_some());
        says(view, after.0, after.1);
        view.find();
        assert_eq!(view.lost_since, None);
        (0..10).filter(|&number| view.is_unknown(step(number))).collect()
    }

    #[test]
    fn steps_that_may_have_run_unheard_are_unknown_and_no_others() {
        use HostState::{Armed, Ended, Running};
        let rows = [
            // The step that ran when it was lost, up to the one that runs now.
            ((Running, Some(2)), (Running, Some(4)), vec![2, 3, 4]),
            ((Running, Some(2)), (Running, Some(2)), vec![2]),
            // Armed, it had ended step 2.
            ((Armed, Some(2)), (Armed, Some(2)), vec![]),
            ((Armed, Some(2)), (Armed, Some(3)), vec![3]),
            ((Armed, Some(2)), (Ended, Some(9)), vec![3, 4, 5, 6, 7, 8, 9]),
            ((Armed, None), (Armed, None), vec![]),
            ((Armed, None), (Running, Some(0)), vec![0]),
            // Its agent was restarted, and does not know what ran.
            ((Running, Some(6)), (Ended, None), vec![6, 7, 8, 9]),
            // Nothing ran any more.
            ((Ended, Some(9)), (Ended, Some(9)), vec![]),
        ];
        for (before, after, expected) in rows {
            let mut view = HostView::new("a", Nanos::ZERO);
            assert_eq!(unknown(&mut view, before, after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn unknown_steps_stay_unknown_when_the_host_is_lost_again() {
        use HostState::{Ended, Running};
        let mut view = HostView::new("a", Nanos::ZERO);
        unknown(&mut view, (Running, Some(1)), (Running, Some(2)));
        let twice = unknown(&mut view, (Running, Some(5)), (Running, Some(6)));
        assert_eq!(twice, [1, 2, 5, 6]);
        // Also after its run, when no step can be unknown any more.
        let after_end = unknown(&mut view, (Ended, Some(9)), (Ended, Some(9)));
        assert_eq!(after_end, [1, 2, 5, 6]);
        view.forget_all();
        assert!((0..10).all(|number| view.is_unknown(step(number))));
    }

    #[test]
    fn a_state_that_comes_again_under_way_has_no_line_and_the_next_line_counts_it() {
        use HostState::{Armed, Collected, Ended, Lost, Ordered, Permitted, Running};
        let mut lines = HostLines::default();
        let mut written = Vec::new();
        let steps = [Armed, Ordered, Running].repeat(1_000);
        let after = [Lost, Armed, Armed, Running, Ordered, Ended, Collected];
        for state in [Permitted].into_iter().chain(steps).chain(after) {
            let line = lines.add(change("a", state, None));
            written.extend(line.map(|line| (line.state, line.unwritten)));
        }
        let expected = [
            (Permitted, 0),
            (Armed, 0),
            (Ordered, 0),
            (Running, 0),
            (Lost, 2_997),
            (Armed, 0),
            (Running, 1),
            (Ended, 1),
            (Collected, 0),
        ];
        assert_eq!(written, expected);
        // A clock that was set is told in any state.
        assert!(lines.add(change("a", Armed, None)).is_some());
        assert!(lines.add(change("a", Armed, Some("its clock was set"))).is_some());
    }

    #[test]
    fn a_host_that_is_lost_and_found_without_end_has_a_hundred_lines_and_its_end() {
        use HostState::{Collected, Lost, Running};
        let mut lines = HostLines::default();
        let written = |lines: &mut HostLines, count: usize| {
            let states = [Running, Lost].into_iter().cycle().take(count);
            states.filter_map(|state| lines.add(change("a", state, None))).count()
        };
        assert_eq!((written(&mut lines, 98), lines.has_room()), (98, true));
        assert_eq!((written(&mut lines, 2), lines.has_room()), (2, false));
        assert_eq!(written(&mut lines, 1_000), 0);
        let pending = lines.pending.as_ref().map(|change| (change.state, change.unwritten));
        assert_eq!(pending, Some((Lost, 999)));
        let end = lines.add(change("a", Collected, None)).map(|line| line.unwritten);
        assert_eq!((end, lines.pending.is_none()), (Some(1_000), true));
    }
}
