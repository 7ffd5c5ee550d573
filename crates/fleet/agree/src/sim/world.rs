//! The simulated world: time, bus, hosts, agents, children and coordinators.

use std::collections::{BTreeMap, VecDeque};

use durio_base::Nanos;
use durio_record::fleet::{Barrier, CampaignPolicy, HostChange, LostPolicy, TimedCampaignEvent};

use super::hub::Hub;
use super::truth::{
    CampaignTally, Disturbance, MS, SECOND, SimChance, SimClock, SimEvent, SimRelay, ToyKeys,
    broken_deadline, toy_signature,
};
use crate::FleetFault;
use crate::coordinator::{
    CampaignLimits, CoordinatorConfig, CoordinatorInput, CoordinatorMachine, LOST_AFTER,
    OperatorOrder,
};
use crate::host::{HostConfig, HostEffect, HostInput, HostMachine, HostMemory};
use crate::message::{Body, BusMessage, CampaignStep, HostIdentity, PlanSummary, PlannedStep};

const AGENT_TICK: u64 = 50 * MS;
/// Until a memory is on the disk of its host.
const STORE_TIME: u64 = 6 * MS;
const HORIZON: u64 = 150 * SECOND;
/// Clocks of hosts at time zero, before their shifts.
const CLOCK_BASE: u64 = 1_000 * SECOND;
pub(super) const VERSION: &str = "0.4.1";

pub(super) const LIMITS: CampaignLimits = CampaignLimits {
    join_wait: Nanos::from_secs(3),
    plan_wait: Nanos::from_secs(4),
    arm_wait: Nanos::from_secs(8),
    stop_wait: Nanos::from_secs(20),
    lost_after: LOST_AFTER,
    lost_wait: Nanos::from_secs(6),
    silence_max: Nanos::from_secs(12),
    run_max: Nanos::from_secs(40),
};

/// A machine, on which an agent of each campaign may run.
#[derive(Debug)]
pub(super) struct SimHost {
    pub(super) clock: SimClock,
    pub(super) is_stepped: bool,
    pub(super) boot: u32,
    pub(super) machine: u64,
    pub(super) version: &'static str,
    /// The campaign that has the lock.
    lock: Option<usize>,
    pub(super) is_cut: bool,
    /// Of a message, to it and from it.
    pub(super) delays: [u64; 2],
}

#[derive(Debug)]
pub(super) struct Child {
    /// Index of its step in the plan.
    pub(super) next: usize,
    pub(super) began: u64,
    pub(super) is_stopping: bool,
}

/// What a child did, in truth.
#[derive(Debug, Clone)]
pub(super) struct TrueStep {
    pub(super) step: CampaignStep,
    pub(super) began: u64,
    pub(super) ended: u64,
}

#[derive(Debug, Default)]
pub(super) struct SimAgent {
    pub(super) host: usize,
    pub(super) campaign: usize,
    /// Which relay serves it, if one does.
    pub(super) relay: Option<usize>,
    pub(super) name: String,
    pub(super) machine: Option<HostMachine>,
    pub(super) memory: HostMemory,
    /// What is on its way to the disk.
    storing: Option<HostMemory>,
    /// Counts its processes; events of earlier ones are void.
    pub(super) process: u32,
    pub(super) child: Option<Child>,
    pub(super) has_run: bool,
    pub(super) is_partial: bool,
    pub(super) steps: Vec<TrueStep>,
    pub(super) is_refused: bool,
    /// Its first process began after the operator's word.
    pub(super) is_late: bool,
    pub(super) start_after: u64,
    pub(super) last_sent: u64,
    /// When its coordinator sent the newest probe that arrived.
    pub(super) heard: u64,
    /// The last moments of the starts that were ordered, by step and attempt.
    pub(super) orders: BTreeMap<(CampaignStep, u32), Nanos>,
    /// Stands still until then, with these inputs waiting.
    pub(super) paused: u64,
    backlog: VecDeque<HostInput>,
    /// Times in which nothing could come from it.
    pub(super) outages: Vec<(u64, u64)>,
    /// What the coordinator stored of its run.
    pub(super) stored: BTreeMap<String, Vec<u8>>,
    pub(super) lies: bool,
}

impl SimAgent {
    /// Stands still until then; a pause that lasts becomes longer or shorter.
    pub(super) fn pause(&mut self, now: u64, until: u64) {
        let last = std::mem::replace(&mut self.paused, until);
        let is_this = |outage: &&mut (u64, u64)| now < last && outage.1 == last;
        match self.outages.iter_mut().find(is_this) {
            Some(outage) => outage.1 = until,
            None => self.outages.push((now, until)),
        }
    }
}

#[derive(Debug)]
pub(super) struct SimCoordinator {
    pub(super) machine: Option<CoordinatorMachine>,
    pub(super) config: CoordinatorConfig,
    pub(super) clock: SimClock,
    pub(super) changes: Vec<HostChange>,
    pub(super) events: Vec<TimedCampaignEvent>,
    /// When its process began.
    pub(super) began: u64,
    /// When it was told to go, and to stop.
    pub(super) gone: Option<u64>,
    pub(super) stopped: Option<u64>,
    pub(super) is_finished: bool,
    pub(super) dead: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) chance: SimChance,
    pub(super) fault: Option<FleetFault>,
    pub(super) now: u64,
    queue: BTreeMap<(u64, u64), SimEvent>,
    number: u64,
    pub(super) ticks: u64,
    pub(super) hosts: Vec<SimHost>,
    pub(super) agents: Vec<SimAgent>,
    pub(super) coordinators: Vec<SimCoordinator>,
    pub(super) relays: Vec<SimRelay>,
    /// What the first coordinator's work is measured by.
    pub(super) hub: Option<Hub>,
    /// Every campaign must have ended by then.
    pub(super) horizon: u64,
    /// Lengths of the steps.
    pub(super) steps: Vec<PlannedStep>,
    pub(super) loss: u64,
    doubles: u64,
    pub(super) is_bus_up: bool,
    /// The bus keeps what it has until then.
    pub(super) stalled: u64,
    pub(super) bus_changed: u64,
    pub(super) bus_outages: Vec<(u64, u64)>,
    pub(super) is_disturbed: bool,
    /// One run has more than a piece.
    pub(super) is_large: bool,
    pub(super) tally: CampaignTally,
    pub(super) trace: Option<Vec<String>>,
    pub(super) broken: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, fault: Option<FleetFault>) -> Self {
        let mut chance = SimChance(seed);
        let hosts = chance.between(2, 5);
        let mut world = Self::quiet(chance, fault, usize::try_from(hosts).unwrap_or(2));
        world.disturb();
        // By other draws: campaigns without relays do not depend on them.
        world.draw_relays(SimChance(!seed));
        world
    }

    /// Some hosts and a campaign, without a disturbance.
    pub(super) fn quiet(mut chance: SimChance, fault: Option<FleetFault>, hosts: usize) -> Self {
        let steps = Self::draw_steps(&mut chance);
        let mut world = Self {
            chance,
            fault,
            now: 0,
            queue: BTreeMap::new(),
            number: 0,
            ticks: 0,
            hosts: Vec::new(),
            agents: Vec::new(),
            coordinators: Vec::new(),
            relays: Vec::new(),
            hub: None,
            horizon: HORIZON,
            steps,
            loss: 0,
            doubles: 0,
            is_bus_up: true,
            stalled: 0,
            bus_changed: 0,
            bus_outages: Vec::new(),
            is_disturbed: false,
            is_large: false,
            tally: CampaignTally { campaigns: 1, ..CampaignTally::default() },
            trace: None,
            broken: None,
        };
        for number in 0..hosts {
            let host = world.draw_host(number as u64);
            world.hosts.push(host);
        }
        world.add_campaign();
        world
    }

    fn draw_steps(chance: &mut SimChance) -> Vec<PlannedStep> {
        let count = chance.between(1, 4);
        let sections = chance.between(1, 2);
        let is_timed = !chance.one_in(3);
        let planned = |number: u64, length: u64| PlannedStep {
            step: CampaignStep {
                section: Some(u32::from(number * sections >= count && sections == 2)),
                round: 0,
                step: u32::try_from(number).unwrap_or(0),
            },
            length_ns: is_timed.then_some(length),
        };
        (0..count).map(|number| planned(number, chance.between(300, 2_500) * MS)).collect()
    }

    fn draw_host(&mut self, number: u64) -> SimHost {
        let chance = &mut self.chance;
        let shift = i128::from(chance.between(0, SECOND)) - i128::from(SECOND / 2);
        let ppm = i128::from(chance.between(0, 200)) - 100;
        let slowest = if chance.one_in(3) { 20 * MS } else { MS };
        SimHost {
            clock: SimClock { offset: i128::from(CLOCK_BASE) + shift, ppm },
            is_stepped: false,
            boot: 0,
            machine: number,
            version: VERSION,
            lock: None,
            is_cut: false,
            delays: [chance.between(20_000, slowest), chance.between(20_000, slowest)],
        }
    }

    /// Another campaign on all hosts.
    pub(super) fn add_campaign(&mut self) {
        let campaign = self.coordinators.len();
        let chance = &mut self.chance;
        let barrier = match chance.below(3) {
            0 => Barrier::Start,
            1 => Barrier::Section,
            _ => Barrier::Step,
        };
        let lost = if chance.one_in(4) { LostPolicy::Stop } else { LostPolicy::GoOn };
        let shared = chance.one_in(2);
        let policy = CampaignPolicy { barrier, lost, hosts_min: 1, repeats: 1, shared };
        let names: Vec<String> = (0..self.hosts.len()).map(|host| format!("db-{host}")).collect();
        let config = CoordinatorConfig {
            campaign: format!("{campaign:032x}"),
            version: VERSION.to_owned(),
            hosts: names.clone(),
            relays: Vec::new(),
            policy,
            spec: "[workload]\n".to_owned(),
            limits: LIMITS,
            fault: self.fault,
        };
        let ppm = i128::from(chance.between(0, 200)) - 100;
        let clock = SimClock { offset: i128::from(50 * SECOND), ppm };
        let began = campaign as u64 * chance.below(4 * SECOND);
        self.coordinators.push(SimCoordinator {
            machine: None,
            config,
            clock,
            changes: Vec::new(),
            events: Vec::new(),
            began,
            gone: None,
            stopped: None,
            is_finished: false,
            dead: Vec::new(),
        });
        self.at(began, SimEvent::CoordinatorTick(campaign));
        for (host, name) in names.into_iter().enumerate() {
            self.add_agent(campaign, host, name, began);
        }
    }

    fn add_agent(&mut self, campaign: usize, host: usize, name: String, began: u64) {
        let agent = self.agents.len();
        let fresh = SimAgent::default();
        self.agents.push(SimAgent { host, campaign, name, is_partial: true, ..fresh });
        let soon = began + self.chance.below(SECOND);
        self.at(soon, SimEvent::Disturb(Disturbance::StartAgent(agent)));
    }

    /// The agent of a host in a campaign.
    pub(super) fn agent_named(&self, campaign: usize, name: &str) -> Option<usize> {
        let number: usize = name.strip_prefix("db-")?.parse().ok()?;
        // Each campaign has one on every host.
        let agent = campaign * self.hosts.len() + number;
        self.agents.get(agent).filter(|agent| agent.name == name).map(|_| agent)
    }

    /// Agents without a relay.
    pub(super) fn agents_on_the_bus(&self) -> Vec<usize> {
        (0..self.agents.len()).filter(|&agent| self.agents[agent].relay.is_none()).collect()
    }

    pub(super) fn set_bus(&mut self, loss: u64, doubles: u64) {
        (self.loss, self.doubles) = (loss, doubles);
    }

    /// A host that sends its results under the names of others.
    pub(super) fn make_liar(&mut self, agent: usize) {
        self.agents[agent].lies = true;
    }

    pub(super) fn at(&mut self, time: u64, event: SimEvent) {
        self.number += 1;
        self.queue.insert((time.max(self.now), self.number), event);
    }

    pub(super) fn after(&mut self, span: u64, event: SimEvent) {
        self.at(self.now + span, event);
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.trace {
            lines.push(format!("{:.3} {}", Nanos::new(self.now).as_secs_f64(), line()));
        }
    }

    pub(super) fn fail(&mut self, what: impl Into<String>) {
        self.broken.get_or_insert(what.into());
    }

    /// Runs until all campaigns have ended.
    pub(super) fn run(&mut self) -> Result<(), String> {
        while let Some(((time, _), event)) = self.queue.pop_first() {
            self.now = time;
            if self.coordinators.iter().all(|coordinator| coordinator.is_finished) {
                break;
            }
            if time > self.horizon {
                self.fail("a campaign does not end");
            }
            self.step(event);
            if let Some(what) = self.broken.take() {
                return Err(what);
            }
        }
        self.check_end()
    }

    fn step(&mut self, event: SimEvent) {
        match event {
            SimEvent::AgentTick(agent) => {
                self.after(AGENT_TICK, SimEvent::AgentTick(agent));
                self.check_child(agent);
                self.tell_agent(agent, HostInput::Tick);
            }
            SimEvent::CoordinatorTick(at) => self.tick_coordinator(at),
            SimEvent::ToAgent(agent, message) => self.deliver_to_agent(agent, message),
            SimEvent::RelayTick(relay) => self.tick_relay(relay),
            SimEvent::ToRelay(relay, agent, input) => self.deliver_to_relay(relay, agent, input),
            SimEvent::FromRelay(relay, message) if self.is_bus_up => {
                let host = self.relays[relay].name.clone();
                self.tell_coordinator(0, CoordinatorInput::Message { host, message });
            }
            SimEvent::FromRelay(..) => self.tally.lost += 1,
            SimEvent::Live(agent) => self.send_live(agent),
            SimEvent::ToCoordinator(at, agent, message) => {
                if self.is_bus_up && !self.hosts[self.agents[agent].host].is_cut {
                    let host = self.agents[agent].name.clone();
                    self.tell_coordinator(at, CoordinatorInput::Message { host, message });
                } else {
                    self.tally.lost += 1;
                }
            }
            SimEvent::Input(agent, process, input) => {
                if self.agents[agent].process == process {
                    if matches!(input, HostInput::Remembered(_))
                        && let Some(memory) = self.agents[agent].storing.take()
                    {
                        self.agents[agent].memory = memory;
                    }
                    self.tell_agent(agent, input);
                }
            }
            SimEvent::StepStart(agent, process, answer, order, is_in_time) => {
                self.start_step(agent, process, answer, order, is_in_time);
            }
            SimEvent::StepEnd(agent, process) => self.end_step(agent, process),
            SimEvent::ChildExit(agent, process, failure) => {
                if self.agents[agent].process == process && self.agents[agent].child.is_some() {
                    self.agents[agent].child = None;
                    self.tell_agent(agent, HostInput::ChildExited(failure));
                }
            }
            SimEvent::Go(at) => {
                self.tell_coordinator(at, CoordinatorInput::Operator(OperatorOrder::Go));
            }
            SimEvent::Disturb(disturbance) => self.carry_out(disturbance),
        }
    }

    fn deliver_to_agent(&mut self, agent: usize, message: BusMessage) {
        if !self.is_linked(agent) || self.agents[agent].machine.is_none() {
            self.tally.lost += 1;
            return;
        }
        if let Body::Probe { at_ns, .. } | Body::Clocks { at_ns, .. } = message.body
            && message.is_signed(&ToyKeys)
        {
            let state = &mut self.agents[agent];
            let sent = self.coordinators[state.campaign].clock.when(at_ns, 0);
            state.heard = state.heard.max(sent);
        }
        self.tell_agent(agent, HostInput::Message(message));
    }

    /// A new process of an agent.
    pub(super) fn start_agent(&mut self, agent: usize) {
        let now = self.now;
        let state = &mut self.agents[agent];
        let host = &self.hosts[state.host];
        if state.machine.is_some() {
            return;
        }
        if state.process == 0 {
            state.is_late = self.coordinators[state.campaign].gone.is_some();
        }
        state.heard = now;
        state.process += 1;
        let (process, is_first) = (state.process, state.process == 1);
        let config = HostConfig {
            name: state.name.clone(),
            campaign: self.coordinators[state.campaign].config.campaign.clone(),
            machine: HostIdentity {
                machine_id: format!("machine-{}", host.machine),
                boot_id: format!("boot-{}-{}", host.machine, host.boot),
                version: host.version.to_owned(),
            },
            fault: self.fault,
        };
        let clock = host.clock.read(now);
        let (machine, effects) = HostMachine::start(config, state.memory.clone(), clock);
        state.machine = Some(machine);
        self.apply_host(agent, effects);
        let is_reachable = self.is_linked(agent);
        self.at(now, SimEvent::Input(agent, process, HostInput::Connected(is_reachable)));
        if is_first {
            self.after(AGENT_TICK, SimEvent::AgentTick(agent));
        }
    }

    pub(super) fn tell_agent(&mut self, agent: usize, input: HostInput) {
        let state = &mut self.agents[agent];
        let is_paused = self.now < state.paused;
        match input {
            _ if state.machine.is_none() => return,
            HostInput::Tick if is_paused => return,
            // What waited comes in its order, after a first look at the clock.
            HostInput::Tick => state.backlog.push_front(input),
            _ => state.backlog.push_back(input),
        }
        while !is_paused && let Some(input) = self.agents[agent].backlog.pop_front() {
            let state = &mut self.agents[agent];
            let Some(machine) = &mut state.machine else { return };
            let clock = self.hosts[state.host].clock.read(self.now);
            let before = (input == HostInput::Tick).then(|| machine.next_deadline());
            let effects = machine.handle(clock, input, &ToyKeys);
            let deadlines = before.map(|before| [before, machine.next_deadline()]);
            let broken = deadlines.and_then(|named| broken_deadline(clock, named, &effects));
            self.apply_host(agent, effects);
            if let Some(what) = broken {
                self.fail(what);
            }
        }
    }

    pub(super) fn drop_backlog(&mut self, agent: usize) {
        self.agents[agent].backlog.clear();
    }

    fn apply_host(&mut self, agent: usize, effects: Vec<HostEffect>) {
        for effect in effects {
            let process = self.agents[agent].process;
            match effect {
                HostEffect::Send(message) => self.send_from_agent(agent, message),
                HostEffect::Remember(memory) => {
                    self.agents[agent].storing = Some(memory);
                    let stored = HostInput::Remembered(Ok(()));
                    self.after(STORE_TIME, SimEvent::Input(agent, process, stored));
                    self.aim_at_store(agent, STORE_TIME / 2);
                }
                HostEffect::Lock => {
                    let (host, campaign) = (self.agents[agent].host, self.agents[agent].campaign);
                    let holder = *self.hosts[host].lock.get_or_insert(campaign);
                    let is_own = holder == campaign;
                    let result = if is_own { Ok(()) } else { Err(holder.to_string()) };
                    self.at(self.now, SimEvent::Input(agent, process, HostInput::Locked(result)));
                }
                HostEffect::Unlock => {
                    let campaign = self.agents[agent].campaign;
                    let lock = &mut self.hosts[self.agents[agent].host].lock;
                    *lock = lock.filter(|&holder| holder != campaign);
                }
                HostEffect::Plan { .. } => {
                    let refused = self.agents[agent].is_refused;
                    let plan_digest = format!("plan of {} steps", self.steps.len());
                    let plan = PlanSummary::new(plan_digest, self.steps.clone());
                    let plan =
                        if refused { Err("/srv is not permitted".to_owned()) } else { Ok(plan) };
                    let span = self.chance.between(1, 200) * MS;
                    self.after(span, SimEvent::Input(agent, process, HostInput::Planned(plan)));
                }
                HostEffect::StartChild => self.start_child(agent),
                HostEffect::Answer { answer, attempt } => self.answer(agent, &answer, attempt),
                HostEffect::StopChild => {
                    if let Some(child) = &mut self.agents[agent].child {
                        child.is_stopping = true;
                    }
                    let span = self.chance.between(1, 300) * MS;
                    self.after(span, SimEvent::ChildExit(agent, process, None));
                }
                HostEffect::Inspect => {
                    let summary = self.summary(agent);
                    let input = HostInput::Inspected(Ok(summary));
                    self.after(20 * MS, SimEvent::Input(agent, process, input));
                }
                HostEffect::Read { file, offset, length } => {
                    let content = self.content(agent, &file);
                    let from = usize::try_from(offset).unwrap_or(0).min(content.len());
                    let to = from.saturating_add(usize::try_from(length).unwrap_or(0));
                    let bytes = content[from..to.min(content.len())].to_vec();
                    let input = HostInput::Read { file, offset, bytes };
                    self.after(MS, SimEvent::Input(agent, process, input));
                }
            }
        }
    }

    fn send_from_agent(&mut self, agent: usize, mut message: BusMessage) {
        let now = self.now;
        let state = &mut self.agents[agent];
        let (campaign, host) = (state.campaign, state.host);
        if matches!(message.body, Body::Status(_)) {
            state.last_sent = now;
        }
        self.sign(&mut message);
        if self.agents[agent].lies && self.chance.one_in(4) {
            self.lie(agent, &message);
        }
        if !message.bytes.is_empty() && self.agents[agent].lies && self.chance.one_in(2) {
            message.bytes[0] ^= 1;
        }
        if let Some(relay) = self.agents[agent].relay {
            return self.send_to_relay(agent, relay, message);
        }
        let delay = self.hosts[host].delays[1];
        self.carry(host, delay, SimEvent::ToCoordinator(campaign, agent, message));
    }

    pub(super) fn sign(&self, message: &mut BusMessage) {
        if message.bytes.is_empty() {
            let bytes = message.signed_bytes().unwrap_or_default();
            message.signature = Some(toy_signature(&message.sender, &bytes));
        }
    }

    /// The bus, which may lose, double, delay and keep what it carries.
    pub(super) fn carry(&mut self, host: usize, delay: u64, event: SimEvent) {
        self.carry_if(self.is_bus_up && !self.hosts[host].is_cut, delay, event);
    }

    pub(super) fn carry_if(&mut self, is_open: bool, delay: u64, event: SimEvent) {
        self.tally.messages += 1;
        if !is_open || self.chance.per_mille(self.loss) {
            self.tally.lost += 1;
            return;
        }
        if self.chance.per_mille(self.doubles) {
            self.tally.doubled += 1;
            let later = self.chance.between(MS, 4 * SECOND);
            self.after(delay + later, event.clone());
        }
        let jitter = self.chance.below(delay / 2 + 1);
        let spike =
            if self.chance.per_mille(self.loss / 2) { self.chance.below(SECOND) } else { 0 };
        let arrival = (self.now + delay + jitter + spike).max(self.stalled);
        self.at(arrival, event);
    }
}
