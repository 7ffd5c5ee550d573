//! What the coordinator knows of each host, and of what it does with it: the newest status, the clock,
//! a barrier, a folder that is being fetched.

use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_record::fleet::HostState;

use crate::clock::{ClockEstimate, PROBE_EVERY, ProbeSeries, later};
use crate::message::{CampaignStep, FolderDigest, HostStatus, PlanSummary, RunSummary};

const LAST_STEP: CampaignStep =
    CampaignStep { section: Some(u32::MAX), round: u32::MAX, step: u32::MAX };

#[derive(Debug)]
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
        Self {
            name: name.to_owned(),
            recorded: HostState::Asked,
            status: None,
            boots: Vec::new(),
            newest: (0, 0),
            alive: now,
            has_joined: false,
            is_late: false,
            lost_since: None,
            clock: None,
            series: ProbeSeries::default(),
            next_probe: now,
            next_order: now,
            refusal: None,
            stop: None,
            is_stop_sent: false,
            plan: None,
            run: None,
            unknown: Vec::new(),
            fetch: None,
            fetch_failures: 0,
        }
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
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
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
}
