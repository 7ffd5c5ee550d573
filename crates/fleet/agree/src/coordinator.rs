//! The coordinator of a campaign: it asks, orders and records, and decides by its policy.
//!
//! ```text
//!  statuses of hosts ──► views ──► record (HostChange, CampaignEvent)
//!                          │
//!  ticks ──► losses ─► probes ─► phase ─► orders that a host's status does not show yet
//!            Joining ─► Planning ─► Asking ─► Running (barriers, then collecting) ─► Finished
//! ```
//!
//! Takes messages, the operator's words and ticks with its monotonic time; returns effects, which the
//! caller carries out in their order. What it decides depends on the newest status of each host only,
//! so it may be killed at any time and go on from the folder ([`CoordinatorMachine::resume`]).

mod barrier;
mod collect;
mod relays;
mod resume;
mod statuses;
mod views;

use std::collections::{BTreeMap, HashMap};

use durio_base::Nanos;
use durio_record::fleet::{
    CampaignEvent, CampaignOutcome, CampaignPolicy, HostChange, HostState, LostPolicy,
    TimedCampaignEvent,
};

use crate::clock::later;
use crate::fault::FleetFault;
use crate::message::{
    Body, BusMessage, COORDINATOR, CampaignStep, PROTOCOL, Protocol, Recipient, RunOrder, Verify,
    digest,
};
use views::{BarrierAttempt, HostView, RelayView};

/// A coordinator that had no input for longer stood still itself: its inputs come every 20 ms.
const STALL: Nanos = Nanos::from_millis(500);
/// A host that is silent for this long is lost: three heartbeats.
pub const LOST_AFTER: Nanos = Nanos::from_millis(1_500);
/// Time between two sendings of an order that has no effect yet.
const ORDER_EVERY: Nanos = Nanos::from_millis(500);
/// How long an order to run may be under way.
const ORDER_LIFE: Nanos = Nanos::from_secs(5);
/// How long hosts are told that their folder has arrived before the campaign ends.
const RELEASE_WAIT: Nanos = Nanos::from_secs(3);

/// How long hosts may take to connect again to a bus that is back.
const RECONNECT_MAX: Nanos = Nanos::from_secs(2);

#[derive(Debug, Clone)]
pub struct CoordinatorConfig {
    pub campaign: String,
    pub version: String,
    pub hosts: Vec<String>,
    /// Relays, and which of the hosts each serves.
    pub relays: Vec<(String, Vec<String>)>,
    pub policy: CampaignPolicy,
    pub spec: String,
    pub limits: CampaignLimits,
    /// A rule that is broken on purpose, by the simulator.
    pub fault: Option<FleetFault>,
}

/// How long the coordinator waits.
#[derive(Debug, Clone, Copy)]
pub struct CampaignLimits {
    /// For hosts to join.
    pub join_wait: Nanos,
    /// Hosts without a plan after this time are left out.
    pub plan_wait: Nanos,
    /// For hosts that lay out, after half of them are armed; for hosts whose run hangs, after half of
    /// them are done, and beyond the time that the plan states.
    pub arm_wait: Nanos,
    /// For hosts that were told to stop.
    pub stop_wait: Nanos,
    /// A host is lost that has been silent for longer.
    pub lost_after: Nanos,
    /// For lost hosts to come back, when all others have ended.
    pub lost_wait: Nanos,
    /// Runs on shared storage end after this long without a coordinator.
    pub silence_max: Nanos,
    /// Every run ends after this long.
    pub run_max: Nanos,
}

impl Default for CampaignLimits {
    fn default() -> Self {
        Self {
            join_wait: Nanos::from_secs(60),
            plan_wait: Nanos::from_secs(60),
            arm_wait: Nanos::from_secs(600),
            stop_wait: Nanos::from_secs(60),
            lost_after: LOST_AFTER,
            lost_wait: Nanos::from_secs(60),
            silence_max: Nanos::from_secs(30),
            run_max: Nanos::from_secs(24 * 3_600),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum CoordinatorInput {
    Tick,
    /// From the subject of this host, which its key alone may use.
    Message {
        host: String,
        message: BusMessage,
    },
    /// A host that speaks another major version.
    OtherProtocol {
        host: String,
        protocol: Protocol,
    },
    /// No session to the host could be made, or it refused; before it has joined.
    Unreachable {
        host: String,
        reason: String,
    },
    Operator(OperatorOrder),
    /// The bus can be reached, or not any more.
    Bus(bool),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorOrder {
    /// The answer to [`CoordinatorEffect::AskOperator`].
    Go,
    Stop,
    /// The campaign goes on without this host.
    Skip(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum CoordinatorEffect {
    /// The message is signed before it is sent.
    Send {
        to: Recipient,
        message: BusMessage,
    },
    /// A line of hosts.jsonl, durable before the next effect.
    Change(HostChange),
    /// A line of events.jsonl, durable before the next effect.
    Event(TimedCampaignEvent),
    /// Show the plans, hosts by digest, and ask whether to run them.
    AskOperator {
        plans: BTreeMap<String, Vec<String>>,
    },
    /// Write a piece of a host's run folder.
    Store {
        host: String,
        run: String,
        file: String,
        offset: u64,
        bytes: Vec<u8>,
    },
    Finish(CampaignOutcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CampaignPhase {
    Joining,
    Planning,
    Asking,
    Running,
    Finished,
}

#[derive(Debug)]
pub struct CoordinatorMachine {
    config: CoordinatorConfig,
    spec_digest: String,
    hosts: Vec<HostView>,
    /// Where each is in `hosts`.
    places: HashMap<String, usize>,
    relays: Vec<RelayView>,
    phase: CampaignPhase,
    phase_began: Nanos,
    now: Nanos,
    /// The campaign's start, and what had passed before this process.
    began: Nanos,
    passed: Nanos,
    incarnation: u64,
    sequence: u64,
    nonce: u64,
    /// When the next question about a clock is due, and the host whose turn it is.
    next_question: Nanos,
    first_asked: usize,
    barrier: Option<BarrierAttempt>,
    /// The step that was tried last, and how often.
    attempts: Option<(CampaignStep, u32)>,
    /// When half of the hosts were armed, and when the runs of half of them had ended.
    half_armed: Option<Nanos>,
    half_ended: Option<Nanos>,
    /// How long the slowest of a hundred hosts took to acknowledge.
    fan_out: Nanos,
    is_bus_up: bool,
    bus_back: Nanos,
    /// Why the campaign is stopped.
    stopped: Option<(String, CampaignOutcome)>,
    /// When the last folder arrived.
    collected: Nanos,
    strangers: Vec<String>,
    ignored: u64,
    effects: Vec<CoordinatorEffect>,
}

impl CoordinatorMachine {
    pub fn new(config: CoordinatorConfig, now: Nanos) -> Self {
        let names = config.hosts.iter().enumerate();
        let mut machine = Self {
            spec_digest: digest(&config.spec),
            hosts: config.hosts.iter().map(|name| HostView::new(name, now)).collect(),
            places: names.map(|(at, name)| (name.clone(), at)).collect(),
            relays: Vec::new(),
            config,
            phase: CampaignPhase::Joining,
            phase_began: now,
            now,
            began: now,
            passed: Nanos::ZERO,
            incarnation: 1,
            sequence: 0,
            nonce: 0,
            next_question: Nanos::ZERO,
            first_asked: 0,
            barrier: None,
            attempts: None,
            half_armed: None,
            half_ended: None,
            fan_out: Nanos::ZERO,
            is_bus_up: true,
            bus_back: now,
            stopped: None,
            collected: now,
            strangers: Vec::new(),
            ignored: 0,
            effects: Vec::new(),
        };
        machine.place_relays();
        machine
    }

    pub fn handle(
        &mut self,
        now: Nanos,
        input: CoordinatorInput,
        verify: &dyn Verify,
    ) -> Vec<CoordinatorEffect> {
        if now.saturating_sub(self.now) > STALL {
            // Words of hosts that came while this process stood still are heard after this input.
            self.bus_back = self.bus_back.max(now);
        }
        self.now = now;
        match input {
            _ if self.phase == CampaignPhase::Finished => {}
            CoordinatorInput::Tick => self.tick(),
            CoordinatorInput::Message { host, message } => self.receive(&host, message, verify),
            CoordinatorInput::OtherProtocol { host, protocol } => {
                if let Some(at) = self.position(&host)
                    && self.hosts[at].recorded == HostState::Asked
                {
                    self.refuse(at, format!("speaks protocol {protocol}, expected {PROTOCOL}"));
                }
            }
            CoordinatorInput::Unreachable { host, reason } => {
                if let Some(at) = self.position(&host)
                    && self.hosts[at].recorded == HostState::Asked
                {
                    self.record(at, HostState::Failed, Some(reason));
                }
            }
            CoordinatorInput::Operator(order) => self.operate(order),
            CoordinatorInput::Bus(is_up) => {
                let event = if is_up { CampaignEvent::BusBack } else { CampaignEvent::BusLost };
                self.is_bus_up = is_up;
                self.bus_back = later(now, RECONNECT_MAX);
                self.event(event);
            }
        }
        std::mem::take(&mut self.effects)
    }

    fn operate(&mut self, order: OperatorOrder) {
        match order {
            OperatorOrder::Go if self.phase == CampaignPhase::Asking => {
                let hosts = self.hosts.iter().filter(|view| view.is_active()).count();
                let reason = format!("the operator, {}", durio_base::counted(hosts as u64, "host"));
                self.event(CampaignEvent::Decision { decision: "go".to_owned(), reason });
                self.enter(CampaignPhase::Running);
            }
            OperatorOrder::Go => {}
            OperatorOrder::Stop => self.stop("the operator", CampaignOutcome::Stopped),
            OperatorOrder::Skip(name) => self.skip(&name),
        }
    }

    fn tick(&mut self) {
        if self.is_bus_up {
            self.watch();
        }
        self.probe();
        self.tend_relays();
        match self.phase {
            CampaignPhase::Joining => self.join(),
            CampaignPhase::Planning => self.await_plans(),
            CampaignPhase::Running => self.run(),
            CampaignPhase::Asking | CampaignPhase::Finished => {}
        }
        self.send_orders();
        self.end();
    }

    /// Hosts whose last sign of life is too old are lost.
    fn watch(&mut self) {
        for at in 0..self.hosts.len() {
            let view = &self.hosts[at];
            let is_watched = view.has_joined && !view.recorded.is_final();
            let silent = self.now.saturating_sub(view.alive.max(self.bus_back));
            if !is_watched || silent <= self.config.limits.lost_after {
                continue;
            }
            let was_ended = view.recorded == HostState::Ended;
            self.blame_relay(at);
            let view = &self.hosts[at];
            let (host, has_room) = (view.name.clone(), view.lines.has_room());
            self.hosts[at].lose(self.now);
            if has_room {
                self.event(CampaignEvent::HostLost { host: host.clone(), silent_ns: silent.get() });
            }
            self.record(at, HostState::Lost, Some(format!("silent for {silent}")));
            if self.config.policy.lost == LostPolicy::Stop && !was_ended {
                self.stop(&format!("host {host} was lost"), CampaignOutcome::Stopped);
            }
        }
    }

    fn join(&mut self) {
        let is_over = self.now.saturating_sub(self.phase_began) > self.config.limits.join_wait;
        let is_asked = |view: &HostView| view.recorded == HostState::Asked;
        if !is_over && self.hosts.iter().any(is_asked) {
            return;
        }
        for at in 0..self.hosts.len() {
            if is_asked(&self.hosts[at]) {
                self.hosts[at].lost_since = Some(self.now);
                self.record(at, HostState::Lost, Some("did not join".to_owned()));
            }
        }
        self.enter(CampaignPhase::Planning);
    }

    fn await_plans(&mut self) {
        let is_over = self.now.saturating_sub(self.phase_began) > self.config.limits.plan_wait;
        let has_plan = |view: &HostView| view.recorded == HostState::Planned && view.plan.is_some();
        let late: Vec<usize> = (0..self.hosts.len())
            .filter(|&at| self.hosts[at].is_active() && !has_plan(&self.hosts[at]))
            .collect();
        if !late.is_empty() && !is_over {
            return;
        }
        late.into_iter().for_each(|at| self.leave_out(at, "did not plan in time"));
        for at in 0..self.hosts.len() {
            // An earlier process may have let in one, and this one the other.
            if let Some(reason) = self.twin_of(at).filter(|_| self.hosts[at].is_active()) {
                self.refuse(at, reason);
            }
        }
        if !self.has_enough() {
            return;
        }
        let mut plans: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for view in self.hosts.iter().filter(|view| view.is_active()) {
            let digest = view.plan.as_ref().map(|plan| plan.plan_digest.clone());
            plans.entry(digest.unwrap_or_default()).or_default().push(view.name.clone());
        }
        self.enter(CampaignPhase::Asking);
        self.effects.push(CoordinatorEffect::AskOperator { plans });
    }

    fn run(&mut self) {
        if !self.has_enough() {
            return;
        }
        self.advance_barrier();
        self.await_ends();
        let is_busy =
            |view: &HostView| !view.recorded.is_final() && view.recorded != HostState::Ended;
        // Collecting would disturb those that measure.
        if !self.hosts.iter().any(is_busy) {
            self.collect();
        }
    }

    /// Stops if fewer hosts remain than the policy wants; those whose run was cut do not count.
    fn has_enough(&mut self) -> bool {
        let remains = |view: &HostView| {
            let has_ended = matches!(view.recorded, HostState::Ended | HostState::Collected);
            let is_whole = view.run.as_ref().is_none_or(|run| !run.partial);
            view.is_active() || has_ended && is_whole
        };
        let hosts = self.hosts.iter().filter(|view| remains(view)).count() as u64;
        let wanted = u64::from(self.config.policy.hosts_min);
        if self.stopped.is_none() && hosts < wanted {
            let hosts = durio_base::counted(hosts, "host");
            let reason = format!("{hosts} left, {wanted} wanted");
            self.stop(&reason, CampaignOutcome::TooFewHosts);
            return false;
        }
        true
    }

    fn stop(&mut self, reason: &str, outcome: CampaignOutcome) {
        if self.stopped.is_some() {
            return;
        }
        self.stopped = Some((reason.to_owned(), outcome));
        let (decision, reason) = ("stop".to_owned(), reason.to_owned());
        self.event(CampaignEvent::Decision { decision, reason: reason.clone() });
        self.barrier = None;
        for at in 0..self.hosts.len() {
            self.leave_out(at, &reason);
        }
        self.enter(CampaignPhase::Running);
    }

    fn send_orders(&mut self) {
        for at in 0..self.hosts.len() {
            let view = &self.hosts[at];
            let is_away = view.lost_since.is_some() && !view.is_overdue;
            if is_away || self.now < view.next_order {
                continue;
            }
            if let Some(body) = self.order_for(at) {
                let view = &mut self.hosts[at];
                view.next_order = later(self.now, ORDER_EVERY);
                view.is_stop_sent |= matches!(body, Body::Stop { .. });
                self.send(at, body);
            }
        }
    }

    /// The order whose effect the host's status does not show.
    fn order_for(&self, at: usize) -> Option<Body> {
        let view = &self.hosts[at];
        let status = view.status.as_ref()?;
        let is_before_run = matches!(status.state, HostState::Joined | HostState::Planned);
        match view.recorded {
            HostState::Collected if status.state == HostState::Ended => {
                let run = status.run.as_ref()?.name.clone();
                return Some(Body::Release { run });
            }
            // It is free as well, and keeps the only whole copy.
            HostState::Failed if status.state == HostState::Ended => {
                let reason = "its run folder did not arrive, and stays on the host".to_owned();
                return Some(Body::Refuse { reason });
            }
            HostState::Refused | HostState::Stopped if is_before_run => {
                let reason = view.refusal.clone().unwrap_or_default();
                return Some(Body::Refuse { reason });
            }
            _ => {}
        }
        if let Some((reason, _)) = &view.stop {
            let is_over = status.state.is_final() || status.state == HostState::Ended;
            let is_once = FleetFault::StopSentOnce.is_in(self.config.fault) && view.is_stop_sent;
            return (!is_over && !is_once).then(|| Body::Stop { reason: reason.clone() });
        }
        if view.recorded.is_final() {
            return None;
        }
        match (self.phase, status.state) {
            (
                CampaignPhase::Planning | CampaignPhase::Asking | CampaignPhase::Running,
                HostState::Joined,
            ) => {
                let (spec, spec_digest) = (self.config.spec.clone(), self.spec_digest.clone());
                Some(Body::Plan { spec, spec_digest })
            }
            (CampaignPhase::Running, HostState::Planned) => {
                self.run_order(view).map(|order| Body::Run(Box::new(order)))
            }
            _ => None,
        }
    }

    fn run_order(&self, view: &HostView) -> Option<RunOrder> {
        let limits = &self.config.limits;
        let policy = &self.config.policy;
        let not_after = later(self.now, ORDER_LIFE);
        Some(RunOrder {
            plan_digest: view.plan.as_ref()?.plan_digest.clone(),
            barrier: policy.barrier,
            silence_max: if policy.shared { limits.silence_max } else { limits.run_max },
            run_max: limits.run_max,
            boot_id: view.status.as_ref()?.machine.boot_id.clone(),
            not_after,
            clock: view.clock?.at(not_after),
        })
    }

    /// The campaign ends when every host has its final state.
    fn end(&mut self) {
        let CampaignLimits { stop_wait, lost_wait, .. } = self.config.limits;
        for at in 0..self.hosts.len() {
            let view = &self.hosts[at];
            let is_over = view.recorded.is_final() || view.recorded == HostState::Ended;
            let told = view.stop.as_ref().map_or(self.now, |stop| stop.1);
            if !is_over && self.now.saturating_sub(told) > stop_wait {
                // Its run may end later, and is collected then.
                self.hosts[at].lose(self.now);
                self.hosts[at].is_overdue = true;
                self.record(at, HostState::Lost, Some(format!("did not stop in {stop_wait}")));
            }
        }
        let is_released = self.now.saturating_sub(self.collected) > RELEASE_WAIT;
        let is_final = |view: &HostView| match view.recorded {
            HostState::Lost => {
                view.lost_since.is_none_or(|since| self.now.saturating_sub(since) > lost_wait)
            }
            HostState::Collected => {
                let is_told = |status: &crate::message::HostStatus| status.state.is_final();
                is_released || view.status.as_ref().is_some_and(is_told)
            }
            recorded => recorded.is_final(),
        };
        if self.phase != CampaignPhase::Running || !self.hosts.iter().all(is_final) {
            return;
        }
        if self.ignored > 0 {
            self.event(CampaignEvent::MessagesIgnored { count: self.ignored });
        }
        let pending = self.hosts.iter_mut().filter_map(|view| view.lines.pending.take());
        self.effects.extend(pending.map(CoordinatorEffect::Change));
        let outcome = self.stopped.as_ref().map_or(CampaignOutcome::Complete, |stop| stop.1);
        self.event(CampaignEvent::Ended { outcome });
        self.enter(CampaignPhase::Finished);
        self.effects.push(CoordinatorEffect::Finish(outcome));
    }

    fn enter(&mut self, phase: CampaignPhase) {
        (self.phase, self.phase_began) = (phase, self.now);
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// A time as the record has it.
    fn since_begin(&self, time: Nanos) -> Nanos {
        later(self.passed, time.saturating_sub(self.began))
    }

    fn event(&mut self, event: CampaignEvent) {
        let at = self.since_begin(self.now);
        self.effects.push(CoordinatorEffect::Event(TimedCampaignEvent { at, event }));
    }

    fn record(&mut self, at: usize, state: HostState, reason: Option<String>) {
        let time = self.since_begin(self.now);
        let view = &mut self.hosts[at];
        (view.recorded, view.next_order) = (state, self.now);
        if matches!(state, HostState::Refused | HostState::Stopped) {
            view.refusal.clone_from(&reason);
        }
        let plan = view.plan.as_ref().filter(|_| state == HostState::Planned);
        let run = view.run.as_ref().filter(|_| state >= HostState::Ended);
        let is_collected = state == HostState::Collected;
        let change = HostChange {
            at: time,
            host: view.name.clone(),
            state,
            reason,
            plan_digest: plan.map(|plan| plan.plan_digest.clone()),
            clock: view.clock.map(|clock| clock.at(self.now)),
            run: run.map(|run| run.name.clone()),
            folder_digest: run.filter(|_| is_collected).map(|run| run.digest.clone()),
            unwritten: 0,
        };
        let change = view.lines.add(change);
        self.effects.extend(change.map(CoordinatorEffect::Change));
    }

    fn send(&mut self, at: usize, body: Body) {
        let to = Recipient::Host(self.hosts[at].name.clone());
        self.send_to(to, body);
    }

    fn send_to(&mut self, to: Recipient, body: Body) {
        self.sequence += 1;
        let number = (self.incarnation, self.sequence);
        let message = BusMessage::new(&self.config.campaign, COORDINATOR, number, body);
        self.effects.push(CoordinatorEffect::Send { to, message });
    }
}

#[cfg(test)]
mod tests;
