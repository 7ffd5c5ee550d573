//! What hosts say: their statuses, versions and clocks, for which they are asked; and who is let in.

use durio_base::Nanos;
use durio_record::fleet::{CampaignEvent, HostState};

use super::views::HostView;
use super::{CampaignPhase, CoordinatorMachine};
use crate::clock::{ClockEstimate, PROBE_GAP, PROBES, QUESTION_EVERY, later, on_coordinator};
use crate::fault::FleetFault;
use crate::message::{
    Body, BusMessage, CampaignStep, HostStatus, PlanSummary, Recipient, Verify, is_same_release,
};

/// Hosts that were not asked and of which a record is made.
const STRANGERS_MAX: usize = 100;

impl CoordinatorMachine {
    pub(super) fn receive(&mut self, host: &str, message: BusMessage, verify: &dyn Verify) {
        if let Some(relay) = self.relay_of(&message.sender, host) {
            return self.hear_relay(relay, message, verify);
        }
        let trusts = FleetFault::ForeignResult.is_in(self.config.fault);
        let is_status = matches!(message.body, Body::Status(_));
        let is_own = message.sender == host || self.is_behind(&message.sender, host);
        let is_genuine = is_own && (!is_status || message.is_signed(verify));
        if message.campaign != self.config.campaign || !(is_genuine || trusts) {
            self.ignored += 1;
            return;
        }
        let Some(at) = self.position(&message.sender) else { return self.turn_away(host) };
        // Answers and pieces belong to one question each, whenever they come.
        if is_status && !self.is_newer(at, &message) {
            self.ignored += 1;
            return;
        }
        match message.body {
            Body::Status(status) => self.take_status(at, *status),
            Body::Answer { nonce, at_ns } => self.take_answer(at, nonce, Nanos::new(at_ns)),
            Body::Piece { run, file, offset } => {
                self.take_piece(at, (&run, &file, offset), message.bytes);
            }
            _ => self.ignored += 1,
        }
    }

    /// A host that was not asked.
    fn turn_away(&mut self, host: &str) {
        let is_known = self.strangers.iter().any(|name| name == host);
        if is_known || self.strangers.len() >= STRANGERS_MAX {
            self.ignored += 1;
        } else {
            self.strangers.push(host.to_owned());
            self.event(CampaignEvent::LateJoiner { host: host.to_owned() });
        }
        let reason = "this host was not asked".to_owned();
        self.send_to(Recipient::Host(host.to_owned()), Body::Refuse { reason });
    }

    /// False for a duplicate, for a status that a later one overtook, and for one of an earlier boot.
    fn is_newer(&mut self, at: usize, message: &BusMessage) -> bool {
        let Body::Status(status) = &message.body else { return true };
        let view = &mut self.hosts[at];
        let number = (message.incarnation, message.sequence);
        let is_new_boot = view.newest.take(&status.machine.boot_id, number);
        if is_new_boot == Some(true) {
            view.clock = None;
            view.begin_series(PROBES, self.now);
        }
        is_new_boot.is_some()
    }

    fn take_status(&mut self, at: usize, status: HostStatus) {
        let (now, view) = (self.now, &mut self.hosts[at]);
        if let Some(plan) = &status.plan {
            view.plan = Some(plan.clone());
        }
        if let Some(run) = &status.run {
            view.run.get_or_insert_with(|| run.clone());
        }
        (view.status, view.is_heard) = (Some(status), true);
        if view.relay.is_none() {
            view.alive = now;
            self.date_status(at);
        }
        let view = &self.hosts[at];
        if view.is_late {
            return;
        }
        if view.recorded == HostState::Lost {
            self.find_if_alive(at);
        } else if view.recorded == HostState::Asked {
            self.admit(at);
        } else if !view.recorded.is_final() {
            self.follow(at);
        }
    }

    pub(super) fn find_if_alive(&mut self, at: usize) {
        let view = &self.hosts[at];
        let Some(status) = &view.status else { return };
        let is_fresh = self.now.saturating_sub(view.alive) <= self.config.limits.lost_after;
        // A relay's word that a host lives may overtake the status that says what it has done.
        let is_newest = view.said.is_some_and(|said| view.newest.has(said));
        let is_known = view.relay.is_none() || is_newest;
        let has_ended = status.state >= HostState::Ended;
        if is_fresh && is_known && (has_ended || !view.is_overdue) {
            self.find(at);
        }
    }

    /// A client may deliver what it kept while it was cut off: the time inside counts, as soon as the
    /// clock is known, and in the host's favour as far as it is not.
    fn date_status(&mut self, at: usize) {
        let view = &mut self.hosts[at];
        let clock = view.clock.filter(|_| !FleetFault::StaleHeartbeat.is_in(self.config.fault));
        if let (Some(clock), Some(status)) = (clock.map(|clock| clock.at(self.now)), &view.status) {
            let sent = on_coordinator(Nanos::new(status.at_ns), clock);
            view.alive = later(sent, Nanos::new(clock.bound_ns)).min(self.now);
        }
    }

    /// A lost host is back.
    fn find(&mut self, at: usize) {
        if !self.hosts[at].has_joined {
            return self.admit(at);
        }
        let now = self.now;
        self.hosts[at].find();
        // It may be about to stop, for want of a word.
        match self.hosts[at].relay {
            Some(relay) => self.relays[relay].next_clocks = now,
            None => self.hosts[at].begin_series(PROBES, now),
        }
        if let Some(stop) = &mut self.hosts[at].stop {
            // It could not hear that it was to stop.
            stop.1 = now;
        }
        if self.hosts[at].lines.has_room() {
            let host = self.hosts[at].name.clone();
            self.event(CampaignEvent::HostBack { host });
        }
        self.follow(at);
    }

    /// The first word of a host.
    fn admit(&mut self, at: usize) {
        let now = self.now;
        let view = &mut self.hosts[at];
        view.lost_since = None;
        if view.relay.is_some() {
            // Its age comes with the next report of the relay.
            view.alive = now;
        }
        let is_late = self.phase != CampaignPhase::Joining;
        if is_late && !FleetFault::LateJoinerMixedIn.is_in(self.config.fault) {
            view.is_late = true;
            let host = view.name.clone();
            self.event(CampaignEvent::LateJoiner { host });
            let reason = "joined after the campaign had begun".to_owned();
            return self.record(at, HostState::Refused, Some(reason));
        }
        if let Some(reason) = self.objection(at) {
            return self.refuse(at, reason);
        }
        let view = &mut self.hosts[at];
        view.has_joined = true;
        view.begin_series(PROBES, self.now);
        let version = view.status.as_ref().map(|status| status.machine.version.clone());
        let other = version.filter(|version| *version != self.config.version);
        let reason = other.map(|other| format!("durio {other}, here {}", self.config.version));
        self.record(at, HostState::Joined, reason);
        self.follow(at);
    }

    pub(super) fn refuse(&mut self, at: usize, reason: String) {
        let host = self.hosts[at].name.clone();
        self.event(CampaignEvent::HostRefused { host, reason: reason.clone() });
        self.record(at, HostState::Refused, Some(reason));
    }

    /// Why a host cannot take part.
    fn objection(&self, at: usize) -> Option<String> {
        let own = &self.hosts[at].status.as_ref()?.machine;
        let is_other = !is_same_release(&own.version, &self.config.version);
        if is_other && !FleetFault::VersionNotCompared.is_in(self.config.fault) {
            return Some(format!("has durio {}, expected {}", own.version, self.config.version));
        }
        self.twin_of(at)
    }

    /// Says which other host of the campaign is the same machine.
    pub(super) fn twin_of(&self, at: usize) -> Option<String> {
        fn machine_id(view: &HostView) -> Option<&str> {
            view.status.as_ref().map(|status| status.machine.machine_id.as_str())
        }
        let own = machine_id(&self.hosts[at])?;
        let is_out = |state: HostState| {
            matches!(state, HostState::Refused | HostState::Failed | HostState::Stopped)
        };
        let is_twin = |&(other, view): &(usize, &HostView)| {
            let is_in = view.has_joined && !is_out(view.recorded);
            other != at && is_in && machine_id(view).is_some_and(|id| id == own)
        };
        let (_, twin) = self.hosts.iter().enumerate().find(is_twin)?;
        let is_planted = FleetFault::TwinAccepted.is_in(self.config.fault);
        (!is_planted).then(|| format!("is the same machine as {}", twin.name))
    }

    /// Records the state that a host reports.
    fn follow(&mut self, at: usize) {
        let view = &self.hosts[at];
        let Some(status) = &view.status else { return };
        let (state, reason) = match status.state {
            // The state of a run that is here is recorded when it arrives.
            HostState::Collected => {
                let reason = "says that its run was collected, but it is not here";
                (HostState::Failed, Some(reason.to_owned()))
            }
            state => (state, status.reason.clone()),
        };
        // A host that is back must not stay lost while it looks for its run.
        let is_early =
            state == HostState::Ended && status.run.is_none() && view.recorded != HostState::Lost;
        if state == view.recorded || is_early {
            return;
        }
        let refusal = match state {
            HostState::Refused => Some(reason.clone().unwrap_or_default()),
            // It may have been lost when the others were compared.
            HostState::Planned => self.twin_of(at),
            _ => None,
        };
        match refusal {
            Some(refusal) => self.refuse(at, refusal),
            None => self.record(at, state, reason),
        }
    }

    /// Asks hosts for their clocks, by turns where there are more than can be asked at once.
    pub(super) fn probe(&mut self) {
        let (now, first, hosts) = (self.now, self.first_asked, self.hosts.len());
        self.next_question = self.next_question.max(now);
        for at in (first..first + hosts).map(|turn| turn % hosts) {
            if self.next_question.saturating_sub(now) >= PROBE_GAP {
                self.first_asked = at;
                return;
            }
            let view = &mut self.hosts[at];
            let is_lost = view.lost_since.is_some();
            if view.relay.is_some() || !view.has_joined || (view.recorded.is_final() && !is_lost) {
                continue;
            }
            if view.series.is_done(now) && now >= view.next_probe {
                view.begin_series(if view.clock.is_some() { 1 } else { PROBES }, now);
            }
            self.nonce += 1;
            if view.series.ask(self.nonce, now) {
                self.next_question = later(self.next_question, QUESTION_EVERY);
                // A lost host shall not take it for a word: nothing is known of its load.
                let clock = view.clock.filter(|_| !is_lost).map(|clock| clock.at(now));
                self.send(at, Body::Probe { nonce: self.nonce, at_ns: now.get(), clock });
            }
        }
    }

    fn take_answer(&mut self, at: usize, nonce: u64, host: Nanos) {
        let (now, fault) = (self.now, self.config.fault);
        let view = &mut self.hosts[at];
        let Some(estimate) = view.series.answer((nonce, host), now, fault) else {
            self.ignored += 1;
            return;
        };
        self.learn_clock(at, estimate);
        self.date_status(at);
    }

    pub(super) fn learn_clock(&mut self, at: usize, estimate: ClockEstimate) {
        let view = &mut self.hosts[at];
        let (clock, is_stepped) = ClockEstimate::renewed(view.clock, estimate, self.now);
        view.clock = Some(clock);
        if is_stepped && view.was_lost {
            // The status by which it was found may have been older than its time said.
            view.forget_all();
        }
        let state = view.recorded;
        if is_stepped && !state.is_final() {
            self.record(at, state, Some("its clock was set or stood still".to_owned()));
        }
    }

    /// False for a host that is lost, or of which nothing is known yet.
    pub fn is_alive(&self, host: &str) -> bool {
        let view = self.position(host).map(|at| &self.hosts[at]);
        view.is_some_and(|view| view.has_joined && view.lost_since.is_none())
    }

    /// How old the last word of a host is; `None` if this process has heard none.
    pub fn silence(&self, host: &str) -> Option<Nanos> {
        let view = self.position(host).map(|at| &self.hosts[at])?;
        view.is_heard.then(|| self.now.saturating_sub(view.alive))
    }

    /// True if the host measures such a step, or its plan is not known because an earlier process had it.
    pub fn has_step(&self, host: &str, step: u32) -> bool {
        let plan = self.position(host).and_then(|at| self.hosts[at].plan.as_ref());
        plan.is_none_or(|plan| plan.steps.iter().any(|planned| planned.step.step == step))
    }

    /// The state that the record has.
    pub fn state(&self, host: &str) -> Option<HostState> {
        self.position(host).map(|at| self.hosts[at].recorded)
    }

    /// What a host would run.
    pub fn plan(&self, host: &str) -> Option<&PlanSummary> {
        self.hosts[self.position(host)?].plan.as_ref()
    }

    /// What is known of a host's clock.
    pub fn clock(&self, host: &str) -> Option<ClockEstimate> {
        self.hosts[self.position(host)?].clock
    }

    /// The hosts whose whole load during the step is known.
    pub fn pooled_hosts(&self, step: CampaignStep) -> Vec<&str> {
        let is_pooled = |view: &&HostView| {
            let run = view.run.as_ref();
            let cut_counts = FleetFault::CutRunPooled.is_in(self.config.fault);
            let lost_counts = FleetFault::LostLoadCounted.is_in(self.config.fault);
            matches!(view.recorded, HostState::Ended | HostState::Collected)
                && run.is_some_and(|run| !run.partial || cut_counts)
                && (!view.is_unknown(step) || lost_counts)
        };
        self.hosts.iter().filter(is_pooled).map(|view| view.name.as_str()).collect()
    }
}
