//! What goes wrong: when, for how long, and what it does to the world.

use super::truth::{Disturbance, MS, SECOND, SimEvent};
use super::world::World;
use crate::coordinator::{CoordinatorInput, OperatorOrder};
use crate::host::HostInput;

/// The last time at which something begins to go wrong.
const QUIET_AFTER: u64 = 14 * SECOND;
const NEVER: u64 = 1_000 * SECOND;

impl World {
    /// Draws what goes wrong in this campaign.
    pub(super) fn disturb(&mut self) {
        self.is_disturbed = true;
        let loss = [0, 5, 30, 100, 100][self.pick(5)];
        let doubles = [0, 20, 100][self.pick(3)];
        self.set_bus(loss, doubles);
        if self.chance.one_in(6) {
            self.add_campaign();
        }
        for agent in 0..self.agents.len() {
            self.agents[agent].is_refused = self.chance.one_in(10);
            if self.chance.one_in(10) {
                self.agents[agent].start_after = self.chance.between(3 * SECOND, 12 * SECOND);
            }
        }
        let host = self.pick(self.hosts.len());
        if self.chance.one_in(6) {
            self.hosts[host].version = "0.3.9";
        }
        if self.chance.one_in(6) {
            self.hosts[host].machine = self.hosts[0].machine;
        }
        let agent = self.pick(self.agents.len());
        if self.chance.one_in(4) {
            self.make_liar(agent);
        }
        self.is_large = self.chance.one_in(40);
        if self.chance.one_in(6) {
            let time = self.chance.below(QUIET_AFTER);
            self.at(time, SimEvent::Disturb(Disturbance::Stop(0)));
        }
        for _ in 0..self.chance.below(5) {
            let time = self.chance.below(QUIET_AFTER);
            let disturbance = self.draw();
            self.at(time, SimEvent::Disturb(disturbance));
        }
    }

    /// One of `count` places.
    fn pick(&mut self, count: usize) -> usize {
        usize::try_from(self.chance.below(count as u64)).unwrap_or(0)
    }

    fn draw(&mut self) -> Disturbance {
        let agent = self.pick(self.agents.len());
        let host = self.agents[agent].host;
        let campaign = self.agents[agent].campaign;
        let back = match self.chance.below(4) {
            0 => NEVER,
            1 => self.chance.between(5 * SECOND, 15 * SECOND),
            _ => self.chance.between(100 * MS, 5 * SECOND),
        };
        let short = self.chance.between(300 * MS, 7 * SECOND);
        match self.chance.below(11) {
            0 => Disturbance::KillAgent(agent, back),
            1 => Disturbance::Reboot(host, back.max(3 * SECOND)),
            2 => Disturbance::KillChild(agent),
            3 | 4 => Disturbance::Cut(host, back),
            5 => Disturbance::Pause(agent, short),
            6 => Disturbance::Stall(short),
            7 => Disturbance::BusDown(short),
            8 => Disturbance::KillCoordinator(campaign, self.chance.between(MS, 25 * SECOND)),
            9 => Disturbance::StepClock(host, short),
            _ => Disturbance::Stop(campaign),
        }
    }

    /// Sometimes something goes wrong just between an order and its start.
    pub(super) fn aim_at_start(&mut self, agent: usize) {
        if !self.is_disturbed || self.now > QUIET_AFTER || !self.chance.one_in(12) {
            return;
        }
        let (host, campaign) = (self.agents[agent].host, self.agents[agent].campaign);
        let span = self.chance.between(200 * MS, 6 * SECOND);
        let disturbance = match self.chance.below(4) {
            0 => Disturbance::Cut(host, span),
            1 => Disturbance::KillCoordinator(campaign, span),
            _ => Disturbance::Pause(agent, span),
        };
        let time = self.now + self.chance.between(50 * MS, 450 * MS);
        self.at(time, SimEvent::Disturb(disturbance));
    }

    /// Sometimes an agent is killed while its memory is being stored.
    pub(super) fn aim_at_store(&mut self, agent: usize, after: u64) {
        // By the clock and not by chance: what else happens with a seed stays.
        let is_hit = (self.now / MS).is_multiple_of(40);
        if self.is_disturbed && self.now < QUIET_AFTER && is_hit {
            let kill = Disturbance::KillAgent(agent, SECOND);
            self.at(self.now + after, SimEvent::Disturb(kill));
        }
    }

    pub(super) fn carry_out(&mut self, disturbance: Disturbance) {
        let now = self.now;
        if !matches!(disturbance, Disturbance::StartAgent(_)) {
            self.note(|| format!("{disturbance:?}"));
        }
        match disturbance {
            Disturbance::StartAgent(agent) => {
                let earliest = self.agents[agent].start_after;
                if now < earliest {
                    self.at(earliest, SimEvent::Disturb(disturbance));
                } else {
                    self.start_agent(agent);
                }
            }
            Disturbance::KillAgent(agent, back) => self.kill_agent(agent, back),
            Disturbance::Reboot(host, back) => self.reboot(host, back),
            Disturbance::KillChild(agent) => {
                if self.agents[agent].child.is_some() {
                    self.tally.kills += 1;
                    let process = self.agents[agent].process;
                    let failure = Some("signal 9".to_owned());
                    self.at(now, SimEvent::ChildExit(agent, process, failure));
                }
            }
            Disturbance::Cut(host, span) => self.cut(host, span),
            Disturbance::Notice(host) => {
                if self.hosts[host].is_cut {
                    self.connect_host(host, false);
                }
            }
            Disturbance::Restore(host) => {
                self.hosts[host].is_cut = false;
                self.connect_host(host, true);
            }
            Disturbance::Pause(agent, span) => {
                self.tally.cuts += 1;
                let state = &mut self.agents[agent];
                state.pause(now, state.paused.max(now + span));
            }
            Disturbance::Stall(span) => self.stall(span),
            Disturbance::BusDown(span) => self.bus_down(span),
            Disturbance::BusUp => self.bus_up(),
            Disturbance::KillCoordinator(at, span) => self.kill_coordinator(at, span),
            Disturbance::Resume(at) => self.resume(at),
            Disturbance::KillRelay(at, span) => self.kill_relay(at, span),
            Disturbance::RestartRelay(at) => self.restart_relay(at),
            Disturbance::StepClock(host, span) => {
                let host = &mut self.hosts[host];
                host.clock.offset += i128::from(span);
                host.is_stepped = true;
            }
            Disturbance::Stop(at) => {
                self.tell_coordinator(at, CoordinatorInput::Operator(OperatorOrder::Stop));
            }
        }
    }

    fn kill_coordinator(&mut self, at: usize, span: u64) {
        let now = self.now;
        let coordinator = &mut self.coordinators[at];
        if !coordinator.is_finished && coordinator.machine.take().is_some() {
            coordinator.dead.push((now, u64::MAX));
            self.at(now + span, SimEvent::Disturb(Disturbance::Resume(at)));
        }
    }

    fn kill_agent(&mut self, agent: usize, back: u64) {
        let now = self.now;
        let state = &mut self.agents[agent];
        if state.machine.take().is_none() {
            return;
        }
        self.tally.kills += 1;
        // The next process has another number, whichever event comes first.
        state.child = None;
        if now < state.paused {
            state.pause(now, now);
        }
        state.outages.push((now, now + back));
        state.process += 1;
        self.drop_backlog(agent);
        self.at(now + back, SimEvent::Disturb(Disturbance::StartAgent(agent)));
    }

    fn reboot(&mut self, host: usize, back: u64) {
        let on_host: Vec<usize> =
            (0..self.agents.len()).filter(|&agent| self.agents[agent].host == host).collect();
        on_host.into_iter().for_each(|agent| self.kill_agent(agent, back));
        let host = &mut self.hosts[host];
        host.boot += 1;
        host.is_stepped = true;
        host.clock.offset = i128::from(SECOND) - i128::from(self.now);
    }

    fn cut(&mut self, host: usize, span: u64) {
        if self.hosts[host].is_cut {
            return;
        }
        self.tally.cuts += 1;
        self.hosts[host].is_cut = true;
        let now = self.now;
        for agent in self.agents.iter_mut().filter(|agent| agent.host == host) {
            agent.outages.push((now, now + span));
        }
        self.at(now + SECOND, SimEvent::Disturb(Disturbance::Notice(host)));
        self.at(now + span, SimEvent::Disturb(Disturbance::Restore(host)));
    }

    fn connect_host(&mut self, host: usize, is_connected: bool) {
        for agent in 0..self.agents.len() {
            if self.agents[agent].host == host {
                let is_connected = is_connected && self.is_linked(agent);
                self.tell_agent(agent, HostInput::Connected(is_connected));
            }
        }
    }

    fn stall(&mut self, span: u64) {
        self.tally.cuts += 1;
        self.stalled = self.stalled.max(self.now + span);
        if self.chance.one_in(2) {
            let agent = self.pick(self.agents.len());
            let time = self.now + self.chance.below(span);
            self.at(time, SimEvent::Disturb(Disturbance::KillAgent(agent, 8 * SECOND)));
        }
    }

    fn bus_down(&mut self, span: u64) {
        if !self.is_bus_up {
            return;
        }
        self.tally.kills += 1;
        (self.is_bus_up, self.bus_changed) = (false, self.now);
        self.bus_outages.push((self.now, self.now + span));
        for agent in self.agents_on_the_bus() {
            self.tell_agent(agent, HostInput::Connected(false));
        }
        self.connect_relays(false);
        for at in 0..self.coordinators.len() {
            self.tell_coordinator(at, CoordinatorInput::Bus(false));
        }
        self.at(self.now + span, SimEvent::Disturb(Disturbance::BusUp));
    }

    fn bus_up(&mut self) {
        (self.is_bus_up, self.bus_changed) = (true, self.now);
        for at in 0..self.coordinators.len() {
            self.tell_coordinator(at, CoordinatorInput::Bus(true));
        }
        self.connect_relays(true);
        for agent in self.agents_on_the_bus() {
            self.connect_later(agent);
        }
    }
}
