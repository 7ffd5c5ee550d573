//! Simulated relays: each serves some hosts of the first campaign, may be killed, and may lie.

use super::truth::{Disturbance, MS, SECOND, SimChance, SimClock, SimEvent, SimRelay, ToyKeys};
use super::world::{SimAgent, World};
use crate::host::HostInput;
use crate::message::{Body, BusMessage};
use crate::relay::{RelayConfig, RelayEffect, RelayInput, RelayMachine};

const RELAY_TICK: u64 = 20 * MS;

impl World {
    /// Some hosts are behind relays, if the seed says so.
    pub(super) fn draw_relays(&mut self, mut chance: SimChance) {
        if !chance.one_in(3) {
            return;
        }
        let count = if chance.one_in(2) { 1 } else { 2 };
        let direct = usize::from(chance.one_in(2));
        self.add_relays(count, self.hosts.len() - direct);
        for at in 0..count {
            self.relays[at].lies = chance.one_in(3);
            if chance.one_in(3) {
                let time = chance.below(14 * SECOND);
                let span = chance.between(200 * MS, 9 * SECOND);
                self.at(time, SimEvent::Disturb(Disturbance::KillRelay(at, span)));
            }
        }
    }

    /// The first hosts of the first campaign, as evenly as they go.
    pub(super) fn add_relays(&mut self, count: usize, hosts: usize) {
        for at in 0..count {
            let chance = &mut self.chance;
            let ppm = i128::from(chance.between(0, 200)) - 100;
            let clock = SimClock { offset: i128::from(chance.between(0, 900 * SECOND)), ppm };
            let slowest = if chance.one_in(3) { 20 * MS } else { MS };
            let delays = [chance.between(20_000, slowest), chance.between(20_000, slowest)];
            let (name, outages) = (format!("relay-{at}"), Vec::new());
            let relay = SimRelay { name, machine: None, clock, delays, outages, lies: false };
            self.relays.push(relay);
            let served = (0..hosts).filter(|host| host % count == at);
            let names = served.clone().map(|host| self.agents[host].name.clone()).collect();
            served.for_each(|host| self.agents[host].relay = Some(at));
            let region = (self.relays[at].name.clone(), names);
            self.coordinators[0].config.relays.push(region);
            self.start_relay(at);
            self.at(0, SimEvent::RelayTick(at));
        }
    }

    fn start_relay(&mut self, at: usize) {
        let (name, hosts) = self.coordinators[0].config.relays[at].clone();
        let campaign = self.coordinators[0].config.campaign.clone();
        let boot_id = format!("boot of {name}");
        let config = RelayConfig { name, campaign, boot_id, hosts, fault: self.fault };
        let relay = &mut self.relays[at];
        relay.machine = Some(RelayMachine::new(config, relay.clock.read(self.now)));
        self.tell_relay(at, RelayInput::Connected(self.is_bus_up));
    }

    pub(super) fn kill_relay(&mut self, at: usize, span: u64) {
        let now = self.now;
        let relay = &mut self.relays[at];
        if relay.machine.take().is_none() {
            return;
        }
        self.tally.relays_killed += 1;
        relay.outages.push((now, now + span));
        self.at(now + span, SimEvent::Disturb(Disturbance::RestartRelay(at)));
        for agent in self.agents_behind(at) {
            self.tell_agent(agent, HostInput::Connected(false));
        }
    }

    pub(super) fn restart_relay(&mut self, at: usize) {
        self.start_relay(at);
        for agent in self.agents_behind(at) {
            self.connect_later(agent);
        }
    }

    fn agents_behind(&self, relay: usize) -> Vec<usize> {
        (0..self.agents.len()).filter(|&agent| self.agents[agent].relay == Some(relay)).collect()
    }

    /// When the bus to the coordinator is lost or back.
    pub(super) fn connect_relays(&mut self, is_connected: bool) {
        let up: Vec<usize> = (0..self.relays.len()).filter(|&at| self.relays[at].is_up()).collect();
        for at in up {
            self.tell_relay(at, RelayInput::Connected(is_connected));
        }
    }

    pub(super) fn tick_relay(&mut self, at: usize) {
        self.after(RELAY_TICK, SimEvent::RelayTick(at));
        if self.relays[at].is_up() {
            self.tell_relay(at, RelayInput::Tick);
        }
    }

    /// From an agent, or from the coordinator.
    pub(super) fn deliver_to_relay(&mut self, at: usize, agent: Option<usize>, input: RelayInput) {
        let host = agent.map(|agent| self.agents[agent].host);
        if host.map_or(self.is_bus_up, |host| !self.hosts[host].is_cut) {
            self.tell_relay(at, input);
        } else {
            self.tally.lost += 1;
        }
    }

    fn tell_relay(&mut self, at: usize, input: RelayInput) {
        let relay = &mut self.relays[at];
        let Some(machine) = &mut relay.machine else {
            self.tally.lost += 1;
            return;
        };
        let effects = machine.handle(relay.clock.read(self.now), input, &ToyKeys);
        for effect in effects {
            match effect {
                RelayEffect::ToHost { host, message } => {
                    let Some(agent) = self.agent_named(0, &host) else { continue };
                    let host = self.agents[agent].host;
                    let delay = self.hosts[host].delays[0];
                    let is_open = !self.hosts[host].is_cut;
                    self.carry_if(is_open, delay, SimEvent::ToAgent(agent, message));
                }
                RelayEffect::ToCoordinator(message) => self.send_from_relay(at, message),
                RelayEffect::Live(encoded) => self.hear_live(Some(at), 0, &encoded),
            }
        }
    }

    fn send_from_relay(&mut self, at: usize, mut message: BusMessage) {
        let is_own = message.sender == self.relays[at].name;
        if is_own && self.relays[at].lies {
            self.vouch_for_others(at, &mut message);
        }
        if is_own {
            self.sign(&mut message);
        }
        let event = SimEvent::FromRelay(at, message);
        self.carry_if(self.is_bus_up, self.relays[at].delays[1], event);
    }

    /// As if all hosts of other regions lived, with clocks that say nothing.
    fn vouch_for_others(&self, at: usize, message: &mut BusMessage) {
        let Body::Region { report, .. } = &mut message.body else { return };
        let is_other = |agent: &&SimAgent| {
            agent.campaign == 0 && agent.relay != Some(at) && !report.words.is_empty()
        };
        let others: Vec<String> =
            self.agents.iter().filter(is_other).map(|agent| agent.name.clone()).collect();
        report.words.extend(others.into_iter().map(|name| (name, (0, 0, u64::MAX / 4, (0, 0)))));
    }

    /// A host's message to the relay that serves it.
    pub(super) fn send_to_relay(&mut self, agent: usize, relay: usize, message: BusMessage) {
        let state = &self.agents[agent];
        let (name, host) = (state.name.clone(), state.host);
        let input = RelayInput::Host { host: name, message };
        let (is_open, delay) = (!self.hosts[host].is_cut, self.hosts[host].delays[1]);
        self.carry_if(is_open, delay, SimEvent::ToRelay(relay, Some(agent), input));
    }

    /// When the relay of an agent was dead.
    pub(super) fn relay_outages(&self, agent: usize) -> &[(u64, u64)] {
        let relay = self.agents[agent].relay.map(|relay| &self.relays[relay]);
        relay.map_or(&[][..], |relay| relay.outages.as_slice())
    }

    /// False while nothing passes between an agent and its bus.
    pub(super) fn is_linked(&self, agent: usize) -> bool {
        let state = &self.agents[agent];
        let is_bus_up = state.relay.map_or(self.is_bus_up, |relay| self.relays[relay].is_up());
        is_bus_up && !self.hosts[state.host].is_cut
    }

    /// An agent finds its bus again after a while.
    pub(super) fn connect_later(&mut self, agent: usize) {
        let time = self.now + self.chance.between(100 * MS, 2 * SECOND);
        let process = self.agents[agent].process;
        if !self.hosts[self.agents[agent].host].is_cut {
            let input = HostInput::Connected(true);
            self.at(time, SimEvent::Input(agent, process, input));
        }
    }
}
