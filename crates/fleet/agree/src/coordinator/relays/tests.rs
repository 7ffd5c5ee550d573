//! What a coordinator believes of its relays: ages and clocks of the hosts in their regions.

use std::collections::BTreeMap;

use durio_record::fleet::Barrier;

use super::*;
use crate::coordinator::{CoordinatorEffect, CoordinatorInput};
use crate::message::PROTOCOL;
use crate::region::HostWord;
use crate::tests::{OneWord, config, signed};

const MS: u64 = 1_000_000;
/// The clocks of relays, less the coordinator's.
const AHEAD_MS: u64 = 5_000;

/// Host a is behind r1, and b behind r2.
fn machine() -> CoordinatorMachine {
    let region = |relay: &str, host: &str| (relay.to_owned(), vec![host.to_owned()]);
    let mut config = config(&["a", "b"]);
    config.relays = vec![region("r1", "a"), region("r2", "b")];
    (config.policy.barrier, config.policy.shared) = (Barrier::Start, false);
    CoordinatorMachine::new(config, Nanos::from_secs(10))
}

fn hear(machine: &mut CoordinatorMachine, time_ms: u64, host: &str, message: BusMessage) {
    let input = CoordinatorInput::Message { host: host.to_owned(), message };
    machine.handle(Nanos::from_millis(time_ms), input, &OneWord);
}

/// Ticks up to `until`, and relays answer each question after 2 ms. Returns all other messages.
fn run(machine: &mut CoordinatorMachine, from_ms: u64, until_ms: u64) -> Vec<(String, BusMessage)> {
    let mut sent = Vec::new();
    for time in (from_ms..until_ms).step_by(20) {
        for effect in machine.handle(Nanos::from_millis(time), CoordinatorInput::Tick, &OneWord) {
            let CoordinatorEffect::Send { to: Recipient::Host(to), message } = effect else {
                continue;
            };
            if let Body::Probe { nonce, .. } = message.body {
                let at_ns = (time + 1 + AHEAD_MS) * MS;
                let answer = signed(&to, (1, 1), Body::Answer { nonce, at_ns });
                hear(machine, time + 2, &to, answer);
            } else {
                sent.push((to, message));
            }
        }
    }
    sent
}

/// Inputs without effect, so that the machine has not stood still.
fn stay_awake(machine: &mut CoordinatorMachine, from_ms: u64, until_ms: u64) {
    for time in (from_ms..until_ms).step_by(500) {
        let (host, protocol) = ("a stranger".to_owned(), PROTOCOL);
        let input = CoordinatorInput::OtherProtocol { host, protocol };
        machine.handle(Nanos::from_millis(time), input, &OneWord);
    }
}

fn status(host: &str) -> BusMessage {
    let status = crate::tests::status(host, HostState::Joined);
    signed(host, (1, 1), Body::Status(Box::new(status)))
}

/// A relay's report of the moment at which it arrives.
fn report(
    (relay, sequence): (&str, u64),
    time_ms: u64,
    words: &[(&str, HostWord)],
    statuses: Vec<BusMessage>,
) -> BusMessage {
    let words: BTreeMap<String, HostWord> =
        words.iter().map(|&(host, word)| (host.to_owned(), word)).collect();
    let at_ns = (time_ms + AHEAD_MS) * MS;
    let report = Box::new(RegionReport { at_ns, boot_id: "r".to_owned(), words });
    signed(relay, (1, sequence), Body::Region { report, statuses })
}

/// 300 ms old, 7 s ahead of the relay ± 1 ms; the host's first status is as the newest.
const WORD: HostWord = (300 * MS, 7_000_000_000, MS, (1, 1));

#[test]
fn offsets_and_bounds_of_relay_and_host_add_and_the_age_decides_when_a_host_is_lost() {
    let mut machine = machine();
    hear(&mut machine, 10_000, "r1", report(("r1", 1), 10_000, &[], vec![status("a")]));
    assert_eq!(machine.state("a"), Some(HostState::Joined));
    run(&mut machine, 10_000, 10_500);
    assert_eq!(machine.clock("a"), None);
    hear(&mut machine, 10_500, "r1", report(("r1", 2), 10_500, &[("a", WORD)], Vec::new()));
    let clock = machine.clock("a").map(|clock| clock.at(Nanos::from_millis(10_500)));
    let clock = clock.expect("a clock");
    assert_eq!(clock.offset_ns, 12_000_000_000);
    // 1 ms each, and the drift of up to 0.5 s.
    assert!((2_000_000..2_110_000).contains(&clock.bound_ns), "{clock:?}");
    // Its last sign of life is of 10.2 s.
    run(&mut machine, 10_520, 11_700);
    assert!(machine.is_alive("a"));
    run(&mut machine, 11_700, 11_740);
    assert_eq!(machine.state("a"), Some(HostState::Lost));
    // Fresh again by the next report alone.
    hear(&mut machine, 11_740, "r1", report(("r1", 3), 11_740, &[("a", WORD)], Vec::new()));
    assert_eq!((machine.is_alive("a"), machine.state("a")), (true, Some(HostState::Joined)));
    stay_awake(&mut machine, 12_000, 13_000);
    // A report that an earlier one overtook says nothing.
    hear(&mut machine, 13_000, "r1", report(("r1", 2), 13_000, &[("a", WORD)], Vec::new()));
    run(&mut machine, 13_000, 13_020);
    assert!(!machine.is_alive("a"));
}

/// What an input makes the record say of relays and losses.
fn told(machine: &mut CoordinatorMachine, time_ms: u64, input: CoordinatorInput) -> Vec<String> {
    let told = |effect: CoordinatorEffect| match effect {
        CoordinatorEffect::Event(line) => match line.event {
            CampaignEvent::RelayLost { relay, hosts, silent_ns } => {
                Some(format!("{relay} with {hosts} silent for {}", Nanos::new(silent_ns)))
            }
            CampaignEvent::RelayBack { relay } => Some(format!("{relay} back")),
            CampaignEvent::HostLost { host, .. } => Some(format!("{host} lost")),
            CampaignEvent::HostBack { host } => Some(format!("{host} back")),
            _ => None,
        },
        _ => None,
    };
    let effects = machine.handle(Nanos::from_millis(time_ms), input, &OneWord);
    effects.into_iter().filter_map(told).collect()
}

#[test]
fn a_silent_relay_is_named_before_its_hosts_and_is_not_blamed_for_a_host_that_is_silent_alone() {
    let mut machine = machine();
    let reported = |sequence: u64, time_ms: u64, age_ms: u64| {
        let word = (age_ms * MS, WORD.1, WORD.2, WORD.3);
        let message = report(("r1", sequence), time_ms, &[("a", word)], Vec::new());
        CoordinatorInput::Message { host: "r1".to_owned(), message }
    };
    hear(&mut machine, 10_000, "r1", report(("r1", 1), 10_000, &[], vec![status("a")]));
    run(&mut machine, 10_000, 10_500);
    assert!(told(&mut machine, 10_500, reported(2, 10_500, 300)).is_empty());
    stay_awake(&mut machine, 11_000, 12_000);
    // The relay continues, and says that the host is silent.
    assert!(told(&mut machine, 12_000, reported(3, 12_000, 2_000)).is_empty());
    assert_eq!(told(&mut machine, 12_000, CoordinatorInput::Tick), ["a lost"]);
    assert!(!machine.is_region_silent("a"));
    assert_eq!(told(&mut machine, 12_500, reported(4, 12_500, 300)), ["a back"]);
    stay_awake(&mut machine, 13_000, 14_500);
    let both = ["r1 with 1 silent for 2 s", "a lost"];
    assert_eq!(told(&mut machine, 14_500, CoordinatorInput::Tick), both);
    assert!(machine.is_region_silent("a") && !machine.is_region_silent("b"));
    assert_eq!(told(&mut machine, 14_600, reported(5, 14_600, 300)), ["r1 back", "a back"]);
    assert!(!machine.is_region_silent("a"));
}

#[test]
fn a_lost_host_is_found_when_the_status_has_come_that_says_what_it_does() {
    let mut machine = machine();
    let mut sequence = 0;
    let mut told_by = |machine: &mut CoordinatorMachine, time_ms, said, statuses| {
        sequence += 1;
        let word = (0, WORD.1, WORD.2, said);
        let message = report(("r1", sequence), time_ms, &[("a", word)], statuses);
        let input = CoordinatorInput::Message { host: "r1".to_owned(), message };
        let effects = machine.handle(Nanos::from_millis(time_ms), input, &OneWord);
        let questions = effects.iter().filter(|effect| match effect {
            CoordinatorEffect::Send { to, message } => {
                let hosts = vec!["a".to_owned()];
                *to == Recipient::Host("r1".to_owned()) && message.body == Body::Repeat { hosts }
            }
            _ => false,
        });
        (machine.state("a"), machine.is_alive("a"), questions.count())
    };
    told_by(&mut machine, 10_000, (1, 1), vec![status("a")]);
    run(&mut machine, 10_000, 10_500);
    told_by(&mut machine, 10_500, (1, 1), Vec::new());
    run(&mut machine, 10_500, 12_100);
    // It is asked for once for each report.
    let lost = (Some(HostState::Lost), false, 1);
    // It says something else since; and so does another process of it.
    assert_eq!(told_by(&mut machine, 12_100, (1, 2), Vec::new()), lost);
    assert_eq!(told_by(&mut machine, 12_600, (9, 1), Vec::new()), lost);
    // A status that was overtaken by later words is not what they mean.
    let third = signed("a", (1, 3), status("a").body);
    assert_eq!(told_by(&mut machine, 13_100, (1, 4), vec![third]), lost);
    let fifth = signed("a", (1, 5), status("a").body);
    let found = (Some(HostState::Joined), true, 0);
    assert_eq!(told_by(&mut machine, 13_600, (1, 4), vec![fifth]), found);
}

#[test]
fn a_relay_speaks_for_its_region_alone_with_signatures_of_itself_and_of_the_hosts() {
    let mut machine = machine();
    let unsigned = BusMessage { signature: None, ..status("a") };
    for message in [
        report(("r2", 1), 10_000, &[], vec![status("a")]),
        report(("r1", 1), 10_000, &[], vec![unsigned]),
        BusMessage { signature: None, ..report(("r1", 2), 10_000, &[], vec![status("a")]) },
    ] {
        let relay = message.sender.clone();
        hear(&mut machine, 10_000, &relay, message);
        assert_eq!(machine.state("a"), Some(HostState::Asked));
    }
    hear(&mut machine, 10_000, "r1", report(("r1", 3), 10_000, &[], vec![status("a")]));
    run(&mut machine, 10_000, 10_500);
    for (sequence, time) in [(2, 10_500), (3, 11_000), (4, 11_500)] {
        let fresh = (0, 7_000_000_000, MS, (1, 1));
        let message = report(("r2", sequence), time, &[("a", fresh)], Vec::new());
        hear(&mut machine, time, "r2", message);
        assert_eq!(machine.clock("a"), None);
        run(&mut machine, time, time + 500);
    }
    assert_eq!(machine.state("a"), Some(HostState::Lost));
}

#[test]
fn hosts_that_are_heard_get_their_clocks_every_five_seconds_and_lost_ones_do_not() {
    let mut machine = machine();
    hear(&mut machine, 10_000, "r1", report(("r1", 1), 10_000, &[], vec![status("a")]));
    run(&mut machine, 10_000, 10_500);
    let mut clocks = 0;
    for (at, time) in (10_500..21_000).step_by(500).enumerate() {
        let message = report(("r1", at as u64 + 2), time, &[("a", WORD)], Vec::new());
        hear(&mut machine, time, "r1", message);
        for (to, message) in run(&mut machine, time, time + 500) {
            let Body::Clocks { clocks: known, .. } = message.body else { continue };
            assert_eq!((to.as_str(), known.len()), ("r1", 1));
            assert_eq!(known["a"].offset_ns, 12_000_000_000);
            clocks += 1;
        }
    }
    assert_eq!(clocks, 2);
    let silent = run(&mut machine, 21_000, 32_000);
    let is_clocks =
        |(_, message): &(String, BusMessage)| matches!(message.body, Body::Clocks { .. });
    assert!(!silent.iter().any(is_clocks));
}
