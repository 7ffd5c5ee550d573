//! Honest members break no promise, and planted faults are found.

use super::*;

const HONEST: Scenario = Scenario { seed: 1, fault: None, focus: Focus::Any, liars: Liars::Some };
/// Three seeds found each fault within 1100 cuts, but that of bases that are not asked.
const FAULT_CUTS: u64 = 100_000;

#[test]
fn no_promise_is_broken_in_twenty_thousand_cuts() {
    let (tally, violation) = simulate(HONEST, 20_000);
    assert_eq!(violation, None, "seed {}", HONEST.seed);
    // A split is two cuts.
    assert!(tally.cuts >= 20_000);
    let rare = [tally.cuts_at_start, tally.cuts_in_resync, tally.cuts_in_rebuild, tally.refusals];
    let found = [tally.scrubs, tally.differences, tally.replacements, tally.replaced * 2];
    assert!(rare.iter().chain(&found).all(|&it| it > 1000), "{tally:?}");
}

#[test]
fn every_planted_fault_is_found() {
    for fault in Fault::ALL {
        let (_, violation) = simulate(HONEST.planting(fault), FAULT_CUTS);
        assert!(violation.is_some(), "{} is not found", fault.name());
    }
}

#[test]
fn a_drive_that_lies_breaks_no_more_than_its_own_copies() {
    let every = Scenario { liars: Liars::Every, ..HONEST };
    let (tally, violation) = simulate(every, 20_000);
    assert_eq!(violation, None, "seed {}", every.seed);
    assert!(tally.liars > 400 && tally.went_back > 200 && tally.repairs > 1000, "{tally:?}");
    assert!(tally.misled > 0 && tally.lost_with_liar < tally.liars / 5, "{tally:?}");
}

#[test]
fn every_lie_is_seen_where_it_is_taken_for_the_truth() {
    for named in lies() {
        let believed = Scenario { liars: Liars::Believed(named.name), ..HONEST };
        let (_, violation) = simulate(believed, 5000);
        assert_eq!(violation.is_some(), why_unseen(named.name).is_none(), "{}", named.name);
    }
}

/// What is asked of an array with a liar is enough to find these.
#[test]
fn faults_are_found_beside_a_drive_that_lies() {
    // Halves are not split there, and the chain of starts is too rare.
    let rest = [Fault::SplitHalvesJoined, Fault::BaseNotAsked];
    for fault in Fault::ALL.into_iter().filter(|it| !rest.contains(it)) {
        let beside = Scenario { liars: Liars::Every, fault: Some(fault), ..HONEST };
        let (_, violation) = simulate(beside, FAULT_CUTS);
        assert!(violation.is_some(), "{} is not found", fault.name());
    }
}

#[test]
fn a_cut_is_replayed_event_by_event() {
    let scenario = Scenario { fault: Some(Fault::NoOrder), ..HONEST };
    let (_, violation) = simulate(scenario, FAULT_CUTS);
    let found = violation.expect("it is found");
    let (events, again) = replay(scenario, found.cut);
    assert_eq!(again.as_ref(), Some(&found));
    assert_eq!(events.last(), Some(&format!("violation: {}", found.what)));
    assert_eq!(replay(scenario, found.cut).0, events);
}
