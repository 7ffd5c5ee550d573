//! Simulated parties: children of agents with the run folders that they leave, hosts and senders that
//! lie, and processes of coordinators with what they send and record.

use durio_base::Nanos;
use durio_record::fleet::ClockOffset;

use super::truth::{MS, SECOND, SimEvent, ToyKeys};
use super::world::{Child, SimAgent, TrueStep, World};
use crate::coordinator::{CoordinatorEffect, CoordinatorInput, CoordinatorMachine};
use crate::host::{ChildEvent, GateAnswer, HostInput};
use crate::message::{
    Body, BusMessage, COORDINATOR, CampaignStep, FolderDigest, Recipient, RunFile, RunSummary,
    StartOrder,
};
use crate::relay::RelayInput;

impl World {
    pub(super) fn start_child(&mut self, agent: usize) {
        self.check_permitted(agent);
        let now = self.now;
        let state = &mut self.agents[agent];
        let process = state.process;
        state.child = Some(Child { next: 0, began: now, is_stopping: false });
        (state.has_run, state.is_partial) = (true, true);
        self.await_ready(agent, process);
    }

    /// The child lays out, and then asks for the start of its next step.
    pub(super) fn await_ready(&mut self, agent: usize, process: u32) {
        let Some(child) = &self.agents[agent].child else { return };
        let Some(planned) = self.steps.get(child.next).copied() else {
            self.agents[agent].is_partial = false;
            return self.after(10 * MS, SimEvent::ChildExit(agent, process, None));
        };
        let span = self.chance.between(1, if child.next == 0 { 900 } else { 150 }) * MS;
        let event = HostInput::Child(ChildEvent::Ready(planned.step));
        self.after(span, SimEvent::Input(agent, process, event));
        if self.agents[agent].orders.is_empty() && self.chance.one_in(6) {
            self.forge_start(agent, planned.step, span + 60 * MS);
        }
    }

    /// An order that the coordinator did not sign.
    pub(super) fn forge_start(&mut self, agent: usize, step: CampaignStep, after: u64) {
        let state = &self.agents[agent];
        let coordinator = &self.coordinators[state.campaign];
        let host = &self.hosts[state.host];
        let read = coordinator.clock.read(self.now + after).get();
        let offset = i128::from(host.clock.read(self.now).get())
            - i128::from(coordinator.clock.read(self.now).get());
        let clock = ClockOffset { offset_ns: i64::try_from(offset).unwrap_or(0), bound_ns: MS };
        let order = StartOrder {
            step,
            attempt: 1,
            boot_id: format!("boot-{}-{}", host.machine, host.boot),
            at: Nanos::new(read + 120 * MS),
            not_after: Nanos::new(read + 400 * MS),
            clock,
            timetable: Vec::new(),
        };
        let body = Body::Start(Box::new(order));
        let message = BusMessage {
            signature: Some("forged".to_owned()),
            ..BusMessage::new(&coordinator.config.campaign, COORDINATOR, (9, 9), body)
        };
        self.after(after, SimEvent::ToAgent(agent, message));
    }

    pub(super) fn answer(&mut self, agent: usize, answer: &GateAnswer, attempt: u32) {
        let GateAnswer::Start { at_ns, offset_ns, bound_ns } = *answer else { return };
        let process = self.agents[agent].process;
        let Some(child) = &self.agents[agent].child else { return };
        let Some(planned) = self.steps.get(child.next).copied() else { return };
        self.check_ordered(agent, planned.step, attempt);
        let clock = self.hosts[self.agents[agent].host].clock;
        let is_in_time = clock.read(self.now).get() < at_ns;
        let time = clock.when(at_ns, self.now);
        let answer = (at_ns, offset_ns, bound_ns);
        let order = (planned.step, attempt);
        self.at(time, SimEvent::StepStart(agent, process, answer, order, is_in_time));
    }

    pub(super) fn start_step(
        &mut self,
        agent: usize,
        process: u32,
        answer: (u64, i64, u64),
        order: (CampaignStep, u32),
        is_in_time: bool,
    ) {
        let state = &self.agents[agent];
        let is_stopping = state.child.as_ref().is_none_or(|child| child.is_stopping);
        if state.process != process || is_stopping {
            return;
        }
        self.tally.starts += 1;
        self.check_start(agent, answer, order, is_in_time);
        let (now, step) = (self.now, order.0);
        self.agents[agent].steps.push(TrueStep { step, began: now, ended: now });
        let child = self.agents[agent].child.as_ref();
        let planned = child.and_then(|child| self.steps.get(child.next)).copied();
        let length = planned.and_then(|planned| planned.length_ns);
        let length = length.unwrap_or_else(|| self.chance.between(300, 2_500) * MS);
        self.after(length, SimEvent::StepEnd(agent, process));
    }

    pub(super) fn end_step(&mut self, agent: usize, process: u32) {
        let now = self.now;
        let state = &mut self.agents[agent];
        let Some(child) = state.child.as_mut().filter(|child| !child.is_stopping) else { return };
        if state.process != process {
            return;
        }
        child.next += 1;
        if let Some(step) = state.steps.last_mut() {
            step.ended = now;
            let ended = HostInput::Child(ChildEvent::Ended { step: step.step.step });
            self.tell_agent(agent, ended);
        }
        self.await_ready(agent, process);
    }

    /// Its result, as that of the next host.
    pub(super) fn lie(&mut self, agent: usize, message: &BusMessage) {
        let has_run = matches!(&message.body, Body::Status(status) if status.run.is_some());
        let (campaign, host) = (self.agents[agent].campaign, self.agents[agent].host);
        let is_victim = |other: &&SimAgent| other.campaign == campaign && other.host != host;
        let Some(victim) = self.agents.iter().find(is_victim).filter(|_| has_run) else { return };
        let sender = victim.name.clone();
        let incarnation = message.incarnation + SECOND;
        let lie = BusMessage { sender, incarnation, ..message.clone() };
        let delay = self.hosts[host].delays[1];
        self.carry(host, delay, SimEvent::ToCoordinator(campaign, agent, lie));
    }

    /// The run folder, as the agent finds it.
    pub(super) fn summary(&self, agent: usize) -> RunSummary {
        let mut digest = FolderDigest::default();
        let mut files = Vec::new();
        for name in ["manifest.json", "events.jsonl", "empty.log"] {
            let content = self.content(agent, name);
            let file = RunFile { name: name.to_owned(), bytes: content.len() as u64 };
            digest.begin_file(&file);
            digest.update(&content);
            files.push(file);
        }
        let (name, partial) = (self.run_name(agent), self.agents[agent].is_partial);
        RunSummary { name, partial, digest: digest.finish(), files }
    }

    pub(super) fn run_name(&self, agent: usize) -> String {
        let state = &self.agents[agent];
        format!("run-{}-{}", state.campaign, state.host)
    }

    /// The bytes of a file of the run, which are those of no other host.
    pub(super) fn content(&self, agent: usize, file: &str) -> Vec<u8> {
        let length = match file {
            "manifest.json" => 200,
            "events.jsonl" if agent == 1 && self.is_large => 300_000,
            "events.jsonl" => 1_500,
            _ => 0,
        };
        let byte = |place: usize| u8::try_from((place * 31 + agent * 7) % 251).unwrap_or(0);
        (0..length).map(byte).collect()
    }
}

/// Time between ticks of a coordinator.
const TICK: u64 = 20 * MS;

impl World {
    pub(super) fn tick_coordinator(&mut self, at: usize) {
        self.ticks += 1;
        self.after(TICK, SimEvent::CoordinatorTick(at));
        let coordinator = &mut self.coordinators[at];
        if coordinator.machine.is_none() && coordinator.dead.is_empty() {
            let clock = coordinator.clock.read(self.now);
            let machine = CoordinatorMachine::new(coordinator.config.clone(), clock);
            coordinator.machine = Some(machine);
        }
        self.tell_coordinator(at, CoordinatorInput::Tick);
        // Hundreds of hosts are looked at now and then.
        if self.agents.len() <= 20 || self.ticks.is_multiple_of(25) {
            self.check_views(at);
        }
    }

    pub(super) fn tell_coordinator(&mut self, at: usize, input: CoordinatorInput) {
        let coordinator = &mut self.coordinators[at];
        let clock = coordinator.clock.read(self.now);
        let Some(machine) = &mut coordinator.machine else { return };
        let effects = match &mut self.hub {
            Some(hub) => hub.handle(machine, (self.now, clock), input),
            None => machine.handle(clock, input, &ToyKeys),
        };
        self.apply_coordinator(at, effects);
    }

    /// A coordinator that was killed goes on from its record.
    pub(super) fn resume(&mut self, at: usize) {
        let now = self.now;
        let coordinator = &mut self.coordinators[at];
        if coordinator.machine.is_some() || coordinator.is_finished {
            return;
        }
        self.tally.resumes += 1;
        let clock = coordinator.clock.read(now);
        let config = coordinator.config.clone();
        let (changes, events) = (&coordinator.changes, &coordinator.events);
        let (machine, effects) = CoordinatorMachine::resume(config, changes, events, clock);
        (coordinator.machine, coordinator.began) = (Some(machine), now);
        if let Some(dead) = coordinator.dead.last_mut() {
            dead.1 = now;
        }
        self.apply_coordinator(at, effects);
    }

    pub(super) fn apply_coordinator(&mut self, at: usize, effects: Vec<CoordinatorEffect>) {
        for effect in effects {
            match effect {
                CoordinatorEffect::Send { to: Recipient::Host(name), message } => {
                    self.send_from_coordinator(at, &name, message);
                }
                CoordinatorEffect::Send { .. } => {}
                CoordinatorEffect::Change(change) => {
                    self.note(|| format!("{at} {change:?}"));
                    self.check_change(at, &change);
                    self.coordinators[at].changes.push(change);
                }
                CoordinatorEffect::Event(line) => {
                    self.note(|| format!("{at} {line:?}"));
                    self.count_event(at, &line);
                    self.coordinators[at].events.push(line);
                }
                CoordinatorEffect::AskOperator { .. } => {
                    let span = self.chance.below(SECOND);
                    self.after(span, SimEvent::Go(at));
                }
                CoordinatorEffect::Store { host, file, offset, bytes, .. } => {
                    if let Some(agent) = self.agent_named(at, &host) {
                        let stored = self.agents[agent].stored.entry(file).or_default();
                        stored.truncate(usize::try_from(offset).unwrap_or(0));
                        stored.extend(bytes);
                    }
                }
                CoordinatorEffect::Finish(_) => {
                    self.coordinators[at].is_finished = true;
                    self.check_finish(at);
                }
            }
        }
    }

    pub(super) fn send_from_coordinator(&mut self, at: usize, name: &str, mut message: BusMessage) {
        self.sign(&mut message);
        let agent = self.agent_named(at, name);
        let own = || self.relays.iter().position(|relay| at == 0 && relay.name == name);
        let relay = agent.map_or_else(own, |agent| self.agents[agent].relay);
        if let (Some(agent), Body::Start(order)) = (agent, &message.body) {
            self.agents[agent].note_order(order);
            self.aim_at_start(agent);
        }
        if let Some(relay) = relay {
            let input = RelayInput::Coordinator { to: name.to_owned(), message };
            let delay = self.relays[relay].delays[0];
            return self.carry_if(self.is_bus_up, delay, SimEvent::ToRelay(relay, None, input));
        }
        let Some(agent) = agent else { return };
        let host = self.agents[agent].host;
        let delay = self.hosts[host].delays[0];
        self.carry(host, delay, SimEvent::ToAgent(agent, message));
    }
}

impl SimAgent {
    fn note_order(&mut self, order: &StartOrder) {
        let entries = order.timetable.iter().map(|entry| (entry.step, entry.not_after));
        for (step, not_after) in entries.chain([(order.step, order.not_after)]) {
            let key = (step, order.attempt);
            let known = self.orders.entry(key).or_insert(not_after);
            *known = not_after.max(*known);
        }
    }
}
