//! The promises, against the truth that only the world knows.

use durio_record::fleet::{Barrier, CampaignEvent, HostChange, HostState, TimedCampaignEvent};

use super::truth::{MS, SECOND};
use super::world::{LIMITS, SimAgent, TrueStep, VERSION, World};
use crate::message::CampaignStep;

/// What stopping a child, a tick and a lost order may take.
const STOP_TIME: u64 = 5 * SECOND;
/// The longest silence of a host that counts as alive, were its clock known: three heartbeats, and
/// ticks.
const SILENCE_MAX: u64 = 1_600 * MS;
/// A coordinator knows little of hosts for this long after a bus is back.
const BUS_TIME: u64 = 5 * SECOND;
/// An outage of this length cannot pass unnoticed.
const NOTICED: u64 = 3 * SECOND;

impl World {
    /// A run begins: may it?
    pub(super) fn check_permitted(&mut self, agent: usize) {
        let state = &self.agents[agent];
        let host = &self.hosts[state.host];
        let is_other = |at: usize| at != agent && self.agents[at].campaign == state.campaign;
        let is_twin = |at: usize| self.hosts[self.agents[at].host].machine == host.machine;
        let runs_here = |other: &SimAgent| other.host == state.host && other.child.is_some();
        let has_twin =
            (0..self.agents.len()).any(|at| is_other(at) && is_twin(at) && self.agents[at].has_run);
        let what = if self.agents.iter().any(runs_here) {
            "two runs at a time on a host"
        } else if state.has_run {
            "a run is started again"
        } else if state.is_refused {
            "a run without permit"
        } else if host.version != VERSION {
            "a run of another version"
        } else if state.is_late {
            "a late joiner runs"
        } else if has_twin {
            "a machine runs under two names"
        } else {
            return;
        };
        self.fail(what);
    }

    /// A host answers its child: was the start ordered?
    pub(super) fn check_ordered(&mut self, agent: usize, step: CampaignStep, attempt: u32) {
        let state = &self.agents[agent];
        let barrier = self.coordinators[state.campaign].config.policy.barrier;
        let is_free = attempt == 0 && barrier != Barrier::Step && !state.steps.is_empty();
        if !is_free && !state.orders.contains_key(&(step, attempt)) {
            self.fail("a start without an order");
        }
    }

    /// A step starts on the host's clock: is it the right one, at the right time?
    pub(super) fn check_start(
        &mut self,
        agent: usize,
        (at_ns, offset_ns, bound_ns): (u64, i64, u64),
        (step, attempt): (CampaignStep, u32),
        is_in_time: bool,
    ) {
        let state = &self.agents[agent];
        if state.steps.iter().any(|known| known.step == step) {
            return self.fail("a step starts twice");
        }
        let Some(&not_after) = state.orders.get(&(step, attempt)) else { return };
        if self.hosts[state.host].is_stepped {
            return;
        }
        let time = self.coordinators[state.campaign].clock.read(self.now);
        // The bound is that of the start; until the last moment the clocks drift on.
        if time.get() > not_after.get() + bound_ns + MS {
            return self.fail("a step starts after its order's time");
        }
        let ordered = i128::from(at_ns) + i128::from(offset_ns);
        let error = (i128::from(time.get()) - ordered).unsigned_abs();
        if is_in_time && error > u128::from(bound_ns) {
            self.fail(format!("a step starts {error} ns from its time, bound {bound_ns} ns"));
        }
    }

    /// A child runs: does anything still want it?
    pub(super) fn check_child(&mut self, agent: usize) {
        let (now, state) = (self.now, &self.agents[agent]);
        let Some(child) = &state.child else { return };
        if now < state.paused + 2 * SECOND {
            return;
        }
        let coordinator = &self.coordinators[state.campaign];
        let (silence_max, run_max) = (LIMITS.silence_max.get(), LIMITS.run_max.get());
        let silence_max = if coordinator.config.policy.shared { silence_max } else { run_max };
        let slack = 2 * SECOND;
        if now > state.heard.max(child.began) + silence_max + slack
            || now > child.began + run_max + slack
        {
            return self.fail("a child runs without a coordinator");
        }
        let Some(stopped) = coordinator.stopped.filter(|_| !coordinator.is_finished) else {
            return;
        };
        let ends = |outages: &[(u64, u64)]| outages.iter().map(|outage| outage.1).max();
        let disturbed = [
            ends(&state.outages),
            ends(&coordinator.dead),
            ends(&self.bus_outages),
            ends(self.relay_outages(agent)),
            Some(self.stalled),
        ];
        let calm = disturbed.into_iter().flatten().max().unwrap_or(0).max(stopped);
        if now > calm.saturating_add(STOP_TIME) {
            self.fail("a child runs after a stop");
        }
    }

    /// What a coordinator believes of its hosts.
    pub(super) fn check_views(&mut self, at: usize) {
        let (now, coordinator) = (self.now, &self.coordinators[at]);
        let Some(machine) = coordinator.machine.as_ref().filter(|_| !coordinator.is_finished)
        else {
            return;
        };
        let clock = coordinator.clock.read(now);
        let is_calm = self.is_bus_up
            && now > coordinator.began + 3 * SECOND
            && now > self.bus_changed + BUS_TIME;
        let mut broken = None;
        for agent in self.agents.iter().filter(|agent| agent.campaign == at) {
            let host = &self.hosts[agent.host];
            let Some(estimate) = machine.clock(&agent.name).filter(|_| !host.is_stepped) else {
                continue;
            };
            let known = estimate.at(clock);
            let truth = i128::from(host.clock.read(now).get()) - i128::from(clock.get());
            let error = (truth - i128::from(known.offset_ns)).unsigned_abs();
            if error > u128::from(known.bound_ns) {
                broken = Some(format!("an offset is {error} ns off, bound {}", known.bound_ns));
            }
            let is_final = machine.state(&agent.name).is_none_or(HostState::is_final);
            let is_silent = now > agent.last_sent + SILENCE_MAX + 2 * known.bound_ns;
            if is_calm && is_silent && !is_final && machine.is_alive(&agent.name) {
                broken = Some("a silent host counts as alive".to_owned());
            }
        }
        if let Some(what) = broken {
            self.fail(what);
        }
    }

    /// A line of the record.
    pub(super) fn check_change(&mut self, at: usize, change: &HostChange) {
        let coordinator = &self.coordinators[at];
        let before = coordinator.changes.iter().rev().find(|before| before.host == change.host);
        let is_over =
            before.is_some_and(|before| before.state.is_final() && before.state != HostState::Lost);
        let Some(agent) = self.agent_named(at, &change.host) else { return };
        let is_foreign = change.run.as_ref().is_some_and(|run| *run != self.run_name(agent));
        if is_over {
            return self.fail("a host has two final states");
        }
        if is_foreign {
            return self.fail("a run counts for another host");
        }
        if change.state != HostState::Collected {
            return;
        }
        self.tally.collected += 1;
        let summary = self.summary(agent);
        let is_whole = summary.files.iter().all(|file| {
            let stored = self.agents[agent].stored.get(&file.name);
            stored.is_some_and(|stored| *stored == self.content(agent, &file.name))
        });
        if !is_whole {
            self.fail("a collected folder is not the host's");
        }
    }

    /// A host is lost: could its heartbeats be heard?
    fn check_lost(&mut self, at: usize, host: &str) {
        let Some(agent) = self.agent_named(at, host) else { return };
        let (now, state) = (self.now, &self.agents[agent]);
        let outages = [
            state.outages.as_slice(),
            self.coordinators[at].dead.as_slice(),
            self.bus_outages.as_slice(),
            self.relay_outages(agent),
        ];
        let ends = outages.into_iter().flatten().map(|outage| outage.1);
        let disturbed = ends.chain([self.stalled]).max().filter(|&end| end > 0);
        let is_calm = disturbed.is_none_or(|end| now > end.saturating_add(BUS_TIME));
        let is_heard = self.loss == 0 && is_calm;
        if is_heard && state.machine.is_some() && !self.hosts[state.host].is_stepped {
            self.fail("a host that is heard is lost");
        }
    }

    pub(super) fn count_event(&mut self, at: usize, line: &TimedCampaignEvent) {
        let now = self.now;
        if let CampaignEvent::HostLost { host, .. } = &line.event {
            self.check_lost(at, host);
        }
        let coordinator = &mut self.coordinators[at];
        match &line.event {
            CampaignEvent::BarrierCancelled { .. } => self.tally.barriers_cancelled += 1,
            CampaignEvent::HostLost { .. } => self.tally.losses += 1,
            CampaignEvent::Decision { decision, .. } if decision == "go" => {
                coordinator.gone.get_or_insert(now);
            }
            CampaignEvent::Decision { decision, .. } if decision == "stop" => {
                coordinator.stopped.get_or_insert(now);
            }
            _ => {}
        }
    }

    /// A campaign has ended.
    pub(super) fn check_finish(&mut self, at: usize) {
        let coordinator = &self.coordinators[at];
        let Some(machine) = &coordinator.machine else { return };
        let mut broken = None;
        for agent in self.agents.iter().filter(|agent| agent.campaign == at) {
            let last = coordinator.changes.iter().rev().find(|change| change.host == agent.name);
            let Some(last) = last.filter(|last| last.state.is_final()) else {
                broken = Some("a host has no final state");
                continue;
            };
            let is_told = last.state == HostState::Collected || last.reason.is_some();
            if agent.has_run && !agent.is_partial && !is_told {
                broken = Some("a run that ended is neither collected nor told");
            }
            for step in &agent.steps {
                if !machine.pooled_hosts(step.step).contains(&agent.name.as_str()) {
                    continue;
                }
                if agent.is_partial {
                    broken = Some("a cut run is pooled");
                } else if self.was_unknown(at, &agent.outages, step) {
                    broken = Some("the load of a lost host is pooled");
                }
            }
        }
        if let Some(what) = broken {
            self.fail(what);
        }
    }

    /// Whether the coordinator must have lost the host while the step ran.
    fn was_unknown(&self, at: usize, outages: &[(u64, u64)], step: &TrueStep) -> bool {
        let unheard = self.coordinators[at].dead.iter().chain(&self.bus_outages);
        let is_hidden = |outage: &(u64, u64)| {
            unheard.clone().any(|blind| {
                outage.0 < blind.1.saturating_add(BUS_TIME) && blind.0 < outage.1 + BUS_TIME
            })
        };
        outages.iter().any(|outage| {
            let is_over_step = outage.0 < step.ended && outage.1 > step.began;
            outage.1 - outage.0 > NOTICED && is_over_step && !is_hidden(outage)
        })
    }

    pub(super) fn check_end(&mut self) -> Result<(), String> {
        self.broken.take().map_or(Ok(()), Err)
    }
}
