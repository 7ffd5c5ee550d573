//! Honest machines break no promise, planted faults are found, and hundreds of hosts agree.

use std::collections::BTreeSet;

use durio_record::fleet::{CampaignEvent, CampaignOutcome, HostState};

use super::truth::{Disturbance, SimChance, SimEvent};
use super::*;

/// Seeds in which each fault must be found.
const FAULT_SEEDS: u64 = 3_000;

#[test]
fn no_promise_is_broken_in_two_hundred_campaigns() {
    let (tally, violation) = simulate(1, 200, None);
    assert_eq!(violation, None);
    let CampaignTally { campaigns, lost, doubled, kills, resumes, cuts, .. } = tally;
    assert_eq!(campaigns, 200);
    let relays = tally.relays_killed;
    let rare =
        [lost, doubled, kills, resumes, cuts, relays, tally.barriers_cancelled, tally.losses];
    let common = [tally.starts, tally.collected];
    assert!(rare.iter().all(|&count| count >= 10), "{tally:?}");
    assert!(common.iter().all(|&count| count >= 100), "{tally:?}");
}

#[test]
fn every_planted_fault_is_found() {
    for fault in FleetFault::ALL {
        let (_, violation) = simulate(1, FAULT_SEEDS, Some(fault));
        assert!(violation.is_some(), "{fault} is not found in {FAULT_SEEDS} campaigns");
    }
}

#[test]
fn a_seed_gives_the_same_campaign_again() {
    let (first, _) = trace(42, None);
    let (second, _) = trace(42, None);
    assert!(first.len() > 20, "{first:?}");
    assert_eq!(first, second);
}

#[test]
fn three_hundred_hosts_on_a_quiet_bus_start_together_and_are_all_collected() {
    let mut world = World::quiet(SimChance(7), None, 300);
    assert_eq!(world.run(), Ok(()));
    let coordinator = &world.coordinators[0];
    let collected =
        |change: &&durio_record::fleet::HostChange| change.state == HostState::Collected;
    assert_eq!(coordinator.changes.iter().filter(collected).count(), 300);
    let events: Vec<&CampaignEvent> = coordinator.events.iter().map(|line| &line.event).collect();
    let ended = CampaignEvent::Ended { outcome: CampaignOutcome::Complete };
    assert!(events.contains(&&ended));
    assert!(!events.iter().any(|event| matches!(event, CampaignEvent::BarrierCancelled { .. })));
    let reached = events.iter().find_map(|event| match event {
        CampaignEvent::BarrierReached { hosts, .. } => Some(*hosts),
        _ => None,
    });
    assert_eq!(reached, Some(300));
}

#[test]
fn hosts_behind_relays_reach_all_states_and_their_coordinator_has_the_traffic_of_a_few() {
    let load = |relays| hub_load(7, 300, relays, b"{}").unwrap();
    let (direct, relayed) = (load(0), load(3));
    for load in [&direct, &relayed] {
        use HostState::{Armed, Collected, Ended, Joined, Planned, Running};
        for state in [Joined, Planned, Armed, Running, Ended, Collected] {
            assert_eq!(load.states.get(&state), Some(&300), "{state:?} {load:?}");
        }
        assert_eq!(load.states.get(&HostState::Lost), None);
        // Figures without a form: of each host each second, or none of a relay.
        assert_eq!(load.refused > 0, std::ptr::eq(load, &direct), "{load:?}");
    }
    assert!(relayed.messages * 2 < direct.messages, "{direct:?} {relayed:?}");
    assert!(relayed.bytes < direct.bytes, "{direct:?} {relayed:?}");
}

#[test]
fn a_killed_relay_costs_the_word_of_its_hosts_and_they_are_back_after_its_restart() {
    let mut world = World::quiet(SimChance(3), None, 6);
    world.add_relays(2, 6);
    // All have joined, and none has ended.
    world.at(2_000_000_000, SimEvent::Disturb(Disturbance::KillRelay(1, 3_000_000_000)));
    assert_eq!(world.run(), Ok(()));
    let names = |wanted: fn(&CampaignEvent) -> Option<&String>| -> BTreeSet<String> {
        let events = world.coordinators[0].events.iter();
        events.filter_map(|line| wanted(&line.event).cloned()).collect()
    };
    let lost = names(|event| match event {
        CampaignEvent::HostLost { host, .. } => Some(host),
        _ => None,
    });
    let behind: BTreeSet<String> = ["db-1", "db-3", "db-5"].map(str::to_owned).into();
    assert_eq!(lost, behind);
    let back = names(|event| match event {
        CampaignEvent::HostBack { host } => Some(host),
        _ => None,
    });
    assert_eq!(back, behind);
    assert_eq!(world.tally.relays_killed, 1);
}
