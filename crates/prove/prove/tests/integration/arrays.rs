//! Durio's own arrays of simulated disks against the prover: honest ones raise no alarm, a lying member is
//! found whichever copy it is, and so is each fault of the engine that can be seen from outside.

use std::thread;

use durio_base::{Bytes, RaidLevel};
use durio_plan::proof::{Arm, ArrayTarget, DurablePath, LossClass};
use durio_prove::simulation::{ArrayDisks, Simulation};
use durio_raid::Fault;

/// How many times as much is tried, as in the tests of the zoo.
fn scale() -> u64 {
    std::env::var("DURIO_ZOO_SCALE").map_or(1, |text| text.parse().unwrap())
}

fn disks(level: RaidLevel, profile: &str, liar: Option<u32>) -> ArrayDisks {
    let members = level.members().0.into();
    let (profile, size) = (profile.to_owned(), Bytes::from_mib(1));
    ArrayDisks::of(&ArrayTarget { level, members, profile, liar, size }).unwrap()
}

/// The cut at which something was found, and its class.
fn campaign(disks: &ArrayDisks, depth: u32, cuts: u64, seed: u64) -> Option<(u64, LossClass)> {
    let arm = Arm::new(DurablePath::Fdatasync, depth);
    let mut simulation = Simulation::of_array(disks, arm, seed).unwrap();
    (1..=cuts).find_map(|cut| Some((cut, simulation.cut().unwrap().class()?)))
}

/// Both processors, and the results in the order of the seeds.
fn campaigns<T: Send>(count: u64, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let run = &run;
        let halves = [0..count / 2, count / 2..count]
            .map(|seeds| scope.spawn(move || seeds.map(run).collect::<Vec<T>>()));
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    })
}

#[test]
fn arrays_of_honest_members_lose_nothing() {
    for level in ArrayTarget::LEVELS {
        for (profile, depth) in [("write-back", 1), ("write-back", 8), ("protected", 8)] {
            let disks = disks(level, profile, None);
            let run = |seed| Some((seed, campaign(&disks, depth, 40 * scale(), seed)?));
            let alarms: Vec<_> = campaigns(20, run).into_iter().flatten().collect();
            assert!(alarms.is_empty(), "{level:?} of {profile}, depth {depth}: {alarms:?}");
        }
    }
}

#[test]
fn one_member_that_loses_acknowledged_writes_is_found_whichever_copy_it_is() {
    let mut failures = Vec::new();
    println!("array, depth, found within, cut of the 50th and 99th percentile");
    for (profile, cuts) in [
        ("fua-ignored", 15),
        ("claims-write-through", 15),
        ("ignored-at-depth", 18),
        ("misdirected", 60),
        ("stale-reads", 30),
        ("bit-rot", 15),
    ] {
        for (level, liar) in ArrayTarget::LEVELS.map(|level| [(level, 0), (level, 1)]).concat() {
            for depth in [1, 8] {
                // A start that compares the superblocks at both ends leaves many of these out (below).
                let fault = Some(Fault::EndsNotCompared);
                let disks = ArrayDisks { fault, ..disks(level, profile, Some(liar)) };
                let run = |seed| campaign(&disks, depth, cuts, seed);
                let count = 10 * scale();
                let found = campaigns(count, run).into_iter().flatten();
                let mut needed: Vec<u64> = found.map(|(cut, _)| cut).collect();
                needed.sort_unstable();
                let at = |share: usize| needed.get(needed.len() * share / 100).copied();
                let all = needed.len();
                let what = format!("{} {profile}@{liar} depth {depth}", level.word());
                println!("{what}: {all} of {count} in {cuts}, {:?} {:?}", at(50), at(99));
                if (all as u64 + count / 100).max(all as u64 + 1) < count {
                    failures.push(format!("{what}: {all} of {count}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_member_that_loses_writes_is_often_left_out_for_its_superblocks() {
    for profile in ["fua-ignored", "claims-write-through", "ignored-at-depth"] {
        let disks = disks(RaidLevel::Raid1, profile, Some(0));
        let found = campaigns(20, |seed| campaign(&disks, 8, 18, seed));
        let lost = found.into_iter().flatten().count();
        // Without the comparison all 20 lose writes.
        assert!((1..=16).contains(&lost), "{profile}: {lost} of 20");
    }
}

#[test]
fn members_that_all_lie_are_found_at_once() {
    for level in ArrayTarget::LEVELS {
        let disks = disks(level, "fua-ignored", None);
        let late: Vec<_> = campaigns(20, |seed| campaign(&disks, 1, 1, seed))
            .into_iter()
            .filter(Option::is_none)
            .collect();
        assert!(late.is_empty(), "{level:?}: {} of 20", late.len());
    }
}

#[test]
fn a_member_that_is_gone_is_hidden_by_the_others() {
    for (level, profile) in
        ArrayTarget::LEVELS.map(|level| [(level, "dies"), (level, "shrinks")]).concat()
    {
        for liar in [0, 1] {
            let disks = disks(level, profile, Some(liar));
            let alarms = campaigns(4, |seed| campaign(&disks, 8, 20, seed));
            assert!(alarms.iter().all(Option::is_none), "{level:?} {profile}@{liar}: {alarms:?}");
        }
    }
}

#[test]
fn a_sector_that_cannot_be_read_is_hidden_by_the_other_copy_also_before_a_resync() {
    // With parities one in the log and one in the data are too much: what the log would say is not guessed.
    for level in [RaidLevel::Raid1, RaidLevel::Raid10] {
        for (liar, depth) in [(0, 8), (1, 8)] {
            let disks = disks(level, "latent-errors", Some(liar));
            let run = |seed| Some((seed, campaign(&disks, depth, 40 * scale(), seed)?));
            let alarms: Vec<_> = campaigns(20 * scale(), run).into_iter().flatten().collect();
            assert!(alarms.is_empty(), "{level:?}@{liar}, depth {depth}: {alarms:?}");
        }
    }
}

#[test]
fn faults_of_the_engine_that_can_be_seen_from_outside_are_found() {
    // The others need members that come and go, a scrub, requests that overlap or a discard, none of which
    // the prover has; or what they break is hidden by the other copy (docs/method/proof.md).
    for fault in [
        Fault::MarkNotAwaited,
        Fault::ClearUnderWriter,
        Fault::AnswerAfterOneCopy,
        Fault::DirtyReadFromAny,
        Fault::FuaLeftOut,
    ] {
        let honest = disks(RaidLevel::Raid1, "write-back", None);
        let disks = ArrayDisks { fault: Some(fault), ..honest };
        let found = campaigns(4, |seed| campaign(&disks, 8, 60, seed));
        assert!(found.iter().all(Option::is_some), "{}: {found:?}", fault.word());
    }
}
