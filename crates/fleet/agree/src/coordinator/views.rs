//! What the coordinator knows of each host, and of what it does with it: the newest status, the clock,
//! a barrier, a folder that is being fetched.

use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_record::fleet::HostState;

use crate::clock::{ClockEstimate, PROBE_EVERY, ProbeSeries, later};
use crate::message::{CampaignStep, FolderDigest, HostStatus, PlanSummary, RunSummary};

const LAST_STEP: CampaignStep =
    CampaignStep { section: Some(u32::MAX), round: u32::MAX, step: u32::MAX };

#[derive(Debug, Default)]
pub(super) struct HostView {
    pub(super) name: String,
    /// The state that the record has.
    pub(super) recorded: HostState,
    pub(super) status: Option<HostStatus>,
    /// The last is the present one; words of earlier ones are stale.
    pub(super) boots: Vec<String>,
    pub(super) newest: (u64, u64),
    /// The newest time at which it is known to have lived.
    pub(super) alive: Nanos,
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
    pub(super) fetch: Option<Fetch>,
    pub(super) fetch_failures: u32,
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

    pub(super) fn begin_series(&mut self, probes: u32, now: Nanos) {
        self.series = ProbeSeries::new(probes, now);
        self.next_probe = later(now, PROBE_EVERY);
    }

    pub(super) fn lose(&mut self, now: Nanos) {
        (self.lost_since, self.fetch) = (Some(now), None);
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
        self.lost_since = None;
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
    use super::*;
    use crate::message::{HostIdentity, StartedStep};

    fn step(number: u32) -> CampaignStep {
        CampaignStep { section: Some(0), round: 0, step: number }
    }

    fn says(view: &mut HostView, state: HostState, started: Option<u32>) {
        let machine = HostIdentity {
            machine_id: "m".to_owned(),
            boot_id: "b".to_owned(),
            version: "0.1.0".to_owned(),
        };
        let started = started.map(|number| StartedStep { step: step(number), at_ns: 0 });
        let (plan, waiting, ordered, run, reason) = (None, None, None, None, None);
        let status =
            HostStatus { state, at_ns: 0, machine, plan, waiting, ordered, started, run, reason };
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
}
