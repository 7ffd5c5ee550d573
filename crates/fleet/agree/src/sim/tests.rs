//! Honest machines break no promise, planted faults are found, and hundreds of hosts agree.

use durio_record::fleet::{CampaignEvent, CampaignOutcome, HostState};

use super::truth::SimChance;
use super::*;

/// Seeds in which each fault must be found.
const FAULT_SEEDS: u64 = 3_000;

#[test]
fn no_promise_is_broken_in_two_hundred_campaigns() {
    let (tally, violation) = simulate(1, 200, None);
    assert_eq!(violation, None);
    let CampaignTally { campaigns, lost, doubled, kills, resumes, cuts, .. } = tally;
    assert_eq!(campaigns, 200);
    let rare = [lost, doubled, kills, resumes, cuts, tally.barriers_cancelled, tally.losses];
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
