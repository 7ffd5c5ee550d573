//! One campaign of thousands of simulated hosts, with relays or without, and what its coordinator has to
//! do for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_record::fleet::HostState;

use super::hub::Hub;
use super::truth::{MS, SECOND, SimChance, SimEvent};
use super::world::World;
use crate::relay::RelayInput;

/// Thousands are collected for longer than campaigns of a few last.
const HORIZON: u64 = 900 * SECOND;
const JOIN_WAIT: Nanos = Nanos::from_secs(60);
const LIVE_EVERY: u64 = SECOND;

/// A campaign, as its coordinator had it.
#[derive(Debug, Clone, PartialEq)]
pub struct HubLoad {
    /// The time that was simulated.
    pub length: Duration,
    /// To the coordinator and from it.
    pub messages: u64,
    pub bytes: u64,
    /// In the simulated second in which they were most.
    pub messages_max: u64,
    /// Time of the coordinator on this machine.
    pub busy: Duration,
    /// In the simulated second in which this was longest.
    pub busy_max: Duration,
    /// Messages that were not accepted.
    pub refused: u64,
    /// How many hosts were in each state.
    pub states: BTreeMap<HostState, usize>,
}

/// One campaign of `hosts` hosts, behind relays if there are any, in which nothing goes wrong. Hosts
/// that run send `live` once a second.
///
/// # Errors
/// The first broken promise.
pub fn hub_load(seed: u64, hosts: usize, relays: usize, live: &[u8]) -> Result<HubLoad, String> {
    let mut world = World::quiet(SimChance(seed), None, hosts);
    world.horizon = HORIZON;
    world.coordinators[0].config.limits.join_wait = JOIN_WAIT;
    world.add_relays(relays, hosts);
    world.hub = Some(Hub::new(live).map_err(|error| error.to_string())?);
    for agent in 0..hosts {
        let time = world.chance.below(LIVE_EVERY);
        world.at(time, SimEvent::Live(agent));
    }
    world.run()?;
    let Some(hub) = &world.hub else { return Err("no hub".to_owned()) };
    let mut reached: BTreeMap<HostState, Vec<&str>> = BTreeMap::new();
    for change in &world.coordinators[0].changes {
        reached.entry(change.state).or_default().push(&change.host);
    }
    let count = |mut hosts: Vec<&str>| {
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len()
    };
    Ok(HubLoad {
        length: Duration::from_nanos(world.now),
        messages: hub.seconds.iter().map(|second| second.messages).sum(),
        bytes: hub.bytes,
        messages_max: hub.seconds.iter().map(|second| second.messages).max().unwrap_or(0),
        busy: hub.seconds.iter().map(|second| second.busy).sum(),
        busy_max: hub.seconds.iter().map(|second| second.busy).max().unwrap_or_default(),
        refused: hub.refused,
        states: reached.into_iter().map(|(state, hosts)| (state, count(hosts))).collect(),
    })
}

impl World {
    /// A second of a host's run.
    pub(super) fn send_live(&mut self, agent: usize) {
        self.after(LIVE_EVERY, SimEvent::Live(agent));
        let state = &self.agents[agent];
        let Some(hub) = self.hub.as_ref().filter(|_| state.child.is_some()) else { return };
        let encoded = hub.live.clone();
        match state.relay {
            Some(relay) => {
                let input = RelayInput::Live { host: state.name.clone(), encoded };
                self.after(MS, SimEvent::ToRelay(relay, Some(agent), input));
            }
            None => self.hear_live(None, agent, &encoded),
        }
    }

    /// Figures of a relay's hosts, or of one host.
    pub(super) fn hear_live(&mut self, relay: Option<usize>, agent: usize, encoded: &[u8]) {
        let (now, coordinator) = (self.now, &self.coordinators[0]);
        let (Some(hub), Some(machine)) = (&mut self.hub, &coordinator.machine) else { return };
        let clock = coordinator.clock.read(now);
        let began = Instant::now();
        let result = match relay {
            Some(relay) => {
                let relay = self.relays[relay].name.as_str();
                let is_planned = |host: &str, step| {
                    machine.is_behind(host, relay) && machine.has_step(host, step)
                };
                hub.board.take_region((relay, encoded), clock, is_planned)
            }
            None => {
                let host = self.agents[agent].name.as_str();
                hub.board.take((host, encoded), clock, |step| machine.has_step(host, step))
            }
        };
        hub.refused += u64::from(result.is_err());
        hub.count(now, &[encoded.len()], began.elapsed());
    }
}
