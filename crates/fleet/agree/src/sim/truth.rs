//! What only the world knows or decides: seeded decisions, true time, the entries of its queue, and
//! counts of what happened.

use durio_base::Nanos;

use crate::host::{HostEffect, HostInput};
use crate::message::{BusMessage, CampaignStep, Verify};
use crate::relay::{RelayInput, RelayMachine};

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;

/// What happened in simulated campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CampaignTally {
    pub campaigns: u64,
    pub messages: u64,
    /// Of those, by loss, cut links and a bus that was down.
    pub lost: u64,
    pub doubled: u64,
    /// Agents, children and hosts.
    pub kills: u64,
    pub resumes: u64,
    pub relays_killed: u64,
    /// Links that were cut, agents that stood still, and a bus that did.
    pub cuts: u64,
    pub barriers_cancelled: u64,
    pub starts: u64,
    pub collected: u64,
    pub losses: u64,
}

/// Decisions of a seed, by SplitMix64.
#[derive(Debug)]
pub(super) struct SimChance(pub(super) u64);

impl SimChance {
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in 0 to `bound` - 1, with a bias that does no harm here; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.bits().checked_rem(bound).unwrap_or(0)
    }

    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn per_mille(&mut self, share: u64) -> bool {
        self.below(1_000) < share
    }
}

/// A signature that only the simulator takes for one.
pub(super) struct ToyKeys;

pub(super) fn toy_signature(sender: &str, bytes: &[u8]) -> String {
    let mix = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = sender.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| mix(sum, &byte));
    // As long as a real one.
    format!("{:086x}", bytes.iter().fold(sum, mix))
}

impl Verify for ToyKeys {
    fn is_signed(&self, sender: &str, bytes: &[u8], signature: &str) -> bool {
        toy_signature(sender, bytes) == signature
    }
}

/// A clock against true time.
#[derive(Debug, Clone, Copy)]
pub(super) struct SimClock {
    pub(super) offset: i128,
    pub(super) ppm: i128,
}

impl SimClock {
    pub(super) fn read(self, time: u64) -> Nanos {
        let time = i128::from(time);
        let local = time + time * self.ppm / 1_000_000 + self.offset;
        Nanos::new(u64::try_from(local).unwrap_or(0))
    }

    /// The first time at which it shows `local` or more.
    pub(super) fn when(self, local: u64, now: u64) -> u64 {
        let wanted = (i128::from(local) - self.offset) * 1_000_000 / (1_000_000 + self.ppm);
        let mut time = u64::try_from(wanted).unwrap_or(0).saturating_sub(2).max(now);
        while self.read(time).get() < local {
            time += 1;
        }
        time
    }
}

/// Serves some hosts of the first campaign.
#[derive(Debug)]
pub(super) struct SimRelay {
    pub(super) name: String,
    pub(super) machine: Option<RelayMachine>,
    pub(super) clock: SimClock,
    /// How long a message takes to it, and from it.
    pub(super) delays: [u64; 2],
    /// Times in which it was dead.
    pub(super) outages: Vec<(u64, u64)>,
    /// Reports hosts of other regions as alive.
    pub(super) lies: bool,
}

impl SimRelay {
    pub(super) fn is_up(&self) -> bool {
        self.machine.is_some()
    }
}

#[derive(Debug, Clone)]
pub(super) enum SimEvent {
    AgentTick(usize),
    CoordinatorTick(usize),
    ToAgent(usize, BusMessage),
    ToCoordinator(usize, usize, BusMessage),
    RelayTick(usize),
    /// From an agent, or from the coordinator.
    ToRelay(usize, Option<usize>, RelayInput),
    /// To the first coordinator.
    FromRelay(usize, BusMessage),
    /// A host sends its figures.
    Live(usize),
    /// Of a process of an agent.
    Input(usize, u32, HostInput),
    /// A step starts, on the host's clock, with the answer of the gate.
    StepStart(usize, u32, (u64, i64, u64), (CampaignStep, u32), bool),
    StepEnd(usize, u32),
    ChildExit(usize, u32, Option<String>),
    Go(usize),
    Disturb(Disturbance),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Disturbance {
    StartAgent(usize),
    /// Its process and its child end; another process begins after this time.
    KillAgent(usize, u64),
    Reboot(usize, u64),
    KillChild(usize),
    /// Nothing passes to or from the host for this time.
    Cut(usize, u64),
    /// The client of a host notices that it is cut off.
    Notice(usize),
    Restore(usize),
    /// The agent stands still; its child does not.
    Pause(usize, u64),
    /// The bus keeps its messages, and delivers them later.
    Stall(u64),
    BusDown(u64),
    BusUp,
    KillCoordinator(usize, u64),
    Resume(usize),
    KillRelay(usize, u64),
    RestartRelay(usize),
    /// The host's clock jumps ahead.
    StepClock(usize, u64),
    Stop(usize),
}

/// Agents sleep until the deadline that the machine named before a tick: an earlier tick must have no
/// effect, and after one nothing is due.
pub(super) fn broken_deadline(
    clock: Nanos,
    [before, after]: [Option<Nanos>; 2],
    effects: &[HostEffect],
) -> Option<&'static str> {
    let is_due = |deadline: Option<Nanos>| deadline.is_some_and(|deadline| deadline <= clock);
    match (is_due(before), effects.is_empty(), is_due(after)) {
        (false, false, _) => Some("a host acts before its deadline"),
        (_, _, true) => Some("a host is overdue after a tick"),
        _ => None,
    }
}
