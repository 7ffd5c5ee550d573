//! Campaigns of simulated hosts, by seed: do the machines keep their promises?
//!
//! Takes a seed and optionally a planted fault; returns the first broken promise.
//!
//! ```text
//!  coordinators ◄──► bus: loses, doubles, delays, reorders, stalls, dies ◄──► agents ──► children
//!       │              └──► relays of some hosts: die, lie ◄──────────────────►  │
//!       │                         virtual time, one queue                        │
//!       └── killed, resumed from its record        killed, paused, cut off, rebooted, replayed
//! ```
//!
//! Every host has its own clock, up to 500 ms off and 100 ppm fast or slow; some are stepped. The
//! world knows the truth, so no machine's error hides itself ([`checks`]):
//!
//! - No host starts a step twice, without an order, after its order's time, or farther from the
//!   ordered time than the bound that it printed.
//! - No host runs what its permits refuse, for two campaigns, in another version, under two names, or
//!   after it came late.
//! - No child runs without a coordinator for longer than ordered, or after a stop that reached it.
//! - No host acts before the deadline that it named, or is overdue after it looked at its clock.
//! - Every host ends in one final state; every collected folder is the host's, whole.
//! - A silent host is lost, and a host that is heard is not; the load of a lost host and a cut run are
//!   not pooled.

mod checks;
mod disturbances;
mod hub;
mod load;
mod parties;
mod relays;
#[cfg(test)]
mod tests;
mod truth;
mod world;

use crate::FleetFault;
use world::World;

pub use load::{HubLoad, hub_load};
pub use truth::CampaignTally;

/// Something that a machine promised and did not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenPromise {
    pub seed: u64,
    pub what: String,
}

/// Simulates one campaign for each of `seeds` seeds from `first` on, up to the first violation.
pub fn simulate(
    first: u64,
    seeds: u64,
    fault: Option<FleetFault>,
) -> (CampaignTally, Option<BrokenPromise>) {
    let mut tally = CampaignTally::default();
    for seed in (0..seeds).map(|number| first.wrapping_add(number)) {
        let mut world = World::new(seed, fault);
        world.tally = CampaignTally { campaigns: tally.campaigns + 1, ..tally };
        let result = world.run();
        tally = world.tally;
        if let Err(what) = result {
            return (tally, Some(BrokenPromise { seed, what }));
        }
    }
    (tally, None)
}

/// The events of one campaign, in words, and its violation.
pub fn trace(seed: u64, fault: Option<FleetFault>) -> (Vec<String>, Option<BrokenPromise>) {
    let mut world = World::new(seed, fault);
    world.trace = Some(Vec::new());
    let violation = world.run().err().map(|what| BrokenPromise { seed, what });
    (world.trace.unwrap_or_default(), violation)
}
