//! What a relay passes on, what it says itself, and what it says nothing of.

use durio_record::fleet::ClockOffset;

use super::*;
use crate::message::{CampaignStep, PlanSummary, PlannedStep};
use crate::tests::{CAMPAIGN, OneWord, signed};

const SECOND: Nanos = Nanos::from_secs(1);

fn relay() -> RelayMachine {
    relay_of(["db-1", "db-2"].map(str::to_owned).into())
}

fn relay_of(hosts: Vec<String>) -> RelayMachine {
    let (name, campaign) = ("relay-1".to_owned(), CAMPAIGN.to_owned());
    let config = RelayConfig { name, campaign, boot_id: "r1".to_owned(), hosts, fault: None };
    let mut relay = RelayMachine::new(config, SECOND);
    relay.handle(SECOND, RelayInput::Connected(true), &OneWord);
    relay
}

/// `sequence` half seconds after the host's clock showed 100 s.
fn status(host: &str, sequence: u64, state: HostState) -> BusMessage {
    let at_ns = 100_000_000_000 + sequence * 500_000_000;
    let status = HostStatus { at_ns, ..crate::tests::status(host, state) };
    signed(host, (1, sequence), Body::Status(Box::new(status)))
}

fn from(host: &str, message: BusMessage) -> RelayInput {
    RelayInput::Host { host: host.to_owned(), message }
}

/// What the coordinator receives.
#[derive(Debug)]
struct Sent {
    report: RegionReport,
    statuses: Vec<BusMessage>,
}

/// Ticks up to `until`; the hosts answer each question after 2 ms, and their clocks are 99 s ahead.
fn run(relay: &mut RelayMachine, from_ms: u64, until_ms: u64) -> Vec<Sent> {
    let mut reports = Vec::new();
    for time in (from_ms..until_ms).step_by(20).map(Nanos::from_millis) {
        for effect in relay.handle(time, RelayInput::Tick, &OneWord) {
            match effect {
                RelayEffect::ToHost { host, message } => {
                    let Body::Probe { nonce, clock: None, .. } = message.body else { panic!() };
                    assert_eq!((message.sender.as_str(), message.signature), (RELAY, None));
                    let at_ns = time.get() + 99_001_000_000;
                    let answer = signed(&host, (1, 1), Body::Answer { nonce, at_ns });
                    let heard = later(time, Nanos::from_millis(2));
                    relay.handle(heard, from(&host, answer), &OneWord);
                }
                RelayEffect::ToCoordinator(message) => {
                    assert_eq!(message.sender, "relay-1");
                    let Body::Region { report, statuses } = message.body else { panic!() };
                    reports.push(Sent { report: *report, statuses });
                }
                RelayEffect::Live(_) => panic!("no figures were sent"),
            }
        }
    }
    reports
}

#[test]
fn a_status_is_passed_on_as_it_was_signed_and_hosts_are_reported_twice_a_second() {
    let mut relay = relay();
    let said = status("db-1", 1, HostState::Joined);
    relay.handle(SECOND, from("db-1", said.clone()), &OneWord);
    let reports = run(&mut relay, 1_000, 3_000);
    let statuses: Vec<&BusMessage> = reports.iter().flat_map(|report| &report.statuses).collect();
    // Twice, half a second apart, and then only now and then.
    assert_eq!(statuses, [&said, &said]);
    let reported = reports.iter().map(|sent| &sent.report);
    let words: Vec<&RegionReport> = reported.filter(|report| !report.words.is_empty()).collect();
    assert_eq!(words.len(), 3, "{reports:?}");
    for report in words {
        assert_eq!((report.boot_id.as_str(), report.words.len()), ("r1", 1));
        let (age_ns, offset_ns, bound_ns, number) = report.words["db-1"];
        assert_eq!((offset_ns, number), (99_000_000_000, (1, 1)));
        // Half of 2 ms, and drift of up to 1.3 s; the status was true at 1.5 s of the relay's clock.
        assert!((1_000_000..1_262_000).contains(&bound_ns), "{bound_ns}");
        let age = report.at_ns.saturating_sub(1_500_000_000 + bound_ns);
        assert_eq!(age_ns, age);
    }
}

#[test]
fn a_host_without_a_clock_is_not_vouched_for_and_heartbeats_are_not_passed_on() {
    let mut relay = relay();
    relay.handle(SECOND, from("db-1", status("db-1", 1, HostState::Joined)), &OneWord);
    let silent = relay.handle(SECOND, RelayInput::Tick, &OneWord);
    let words: Vec<usize> = silent
        .iter()
        .filter_map(|effect| match effect {
            RelayEffect::ToCoordinator(message) => Some(message),
            _ => None,
        })
        .map(|message| match &message.body {
            Body::Region { report, statuses } => report.words.len() + statuses.len(),
            _ => panic!("{message:?}"),
        })
        .collect();
    assert_eq!(words, [0]);
    run(&mut relay, 1_020, 3_000);
    for sequence in 2..6 {
        relay.handle(SECOND, from("db-1", status("db-1", sequence, HostState::Joined)), &OneWord);
    }
    let reports = run(&mut relay, 3_000, 4_000);
    assert!(reports.iter().all(|report| report.statuses.is_empty()), "{reports:?}");
    relay.handle(SECOND, from("db-1", status("db-1", 6, HostState::Planned)), &OneWord);
    let reports = run(&mut relay, 4_000, 4_200);
    assert_eq!(reports.iter().map(|report| report.statuses.len()).sum::<usize>(), 1);
}

#[test]
fn how_long_a_run_is_quiet_is_told_anew_each_minute() {
    let mut relay = relay();
    let mut passed_on = |sequence: u64, seconds: u64| {
        let mut message = status("db-1", sequence, HostState::Running);
        let Body::Status(status) = &mut message.body else { panic!() };
        status.quiet = Some(Nanos::from_secs(seconds));
        let time = sequence * 2_000;
        relay.handle(Nanos::from_millis(time), from("db-1", message), &OneWord);
        let reports = run(&mut relay, time, time + 2_000);
        reports.iter().any(|report| !report.statuses.is_empty())
    };
    let passed = [(1, 0), (2, 59), (3, 60), (4, 61)].map(|(at, quiet)| passed_on(at, quiet));
    assert_eq!(passed, [true, false, true, false]);
}

#[test]
fn words_have_the_number_of_the_first_status_that_says_the_same_and_the_newest_is_sent() {
    let mut relay = relay();
    let mut told = |sequence: u64, state| {
        let time = sequence * 1_000;
        relay.handle(
            Nanos::from_millis(time),
            from("db-1", status("db-1", sequence, state)),
            &OneWord,
        );
        let reports = run(&mut relay, time, time + 1_000);
        let statuses = reports.iter().flat_map(|sent| &sent.statuses);
        let sent: Vec<u64> = statuses.map(|status| status.sequence).collect();
        let last = reports.iter().rev().find_map(|sent| sent.report.words.get("db-1"));
        (last.map(|word| word.3), sent)
    };
    use HostState::{Armed, Running};
    assert_eq!(told(1, Armed), (Some((1, 1)), vec![1, 1]));
    for sequence in 2..=10 {
        assert_eq!(told(sequence, Armed), (Some((1, 1)), Vec::new()));
    }
    // Ten seconds after the second sending.
    assert_eq!(told(11, Armed), (Some((1, 1)), vec![11]));
    assert_eq!(told(12, Running), (Some((1, 12)), vec![12, 12]));
}

#[test]
fn a_host_that_is_heard_is_asked_for_its_clock_again_as_soon_as_no_answer_can_come_any_more() {
    let mut relay = relay();
    let mut heard = |sequence, time: u64, until: u64| {
        let status = from("db-1", status("db-1", sequence, HostState::Joined));
        relay.handle(Nanos::from_millis(time), status, &OneWord);
        let times = (time..until).step_by(20).map(Nanos::from_millis);
        let effects = times.flat_map(|time| relay.handle(time, RelayInput::Tick, &OneWord));
        effects.filter(|effect| matches!(effect, RelayEffect::ToHost { .. })).count()
    };
    assert_eq!(heard(1, 2_000, 2_500), 16);
    // Answers are awaited until 820 ms after the first question.
    assert_eq!(heard(2, 2_500, 2_840), 0);
    assert_eq!(heard(3, 2_840, 4_000), 16);
    // It is not heard any more.
    assert_eq!(heard(3, 4_000, 6_000), 0);
}

#[test]
fn a_status_that_the_coordinator_does_not_have_is_sent_once_more_for_each_signed_question() {
    let mut relay = relay();
    for host in ["db-1", "db-2"] {
        relay.handle(SECOND, from(host, status(host, 1, HostState::Joined)), &OneWord);
    }
    run(&mut relay, 1_000, 3_000);
    let mut sent_for = |host: &str, time: u64, signature: Option<&str>| {
        let question =
            signed(COORDINATOR, (1, time), Body::Repeat { hosts: vec![host.to_owned()] });
        let message = BusMessage { signature: signature.map(str::to_owned), ..question };
        let input = RelayInput::Coordinator { to: "relay-1".to_owned(), message };
        relay.handle(Nanos::from_millis(time), input, &OneWord);
        let reports = run(&mut relay, time, time + 1_000);
        let statuses = reports.into_iter().flat_map(|sent| sent.statuses);
        statuses.map(|status| status.sender).collect::<Vec<String>>()
    };
    let signed = Some("signed");
    assert_eq!(sent_for("db-2", 3_000, signed), ["db-2"]);
    assert_eq!(sent_for("db-1", 4_000, signed), ["db-1"]);
    // Of no host of the region, and of another sender.
    assert!(sent_for("db-3", 5_000, signed).is_empty());
    assert!(sent_for("db-1", 6_000, None).is_empty());
}

#[test]
fn a_new_coordinator_and_a_bus_that_is_back_are_told_all_statuses_again() {
    let mut relay = relay();
    relay.handle(SECOND, from("db-1", status("db-1", 1, HostState::Joined)), &OneWord);
    run(&mut relay, 1_000, 3_000);
    let mut again = |input, from_ms| {
        relay.handle(Nanos::from_millis(from_ms), input, &OneWord);
        let reports = run(&mut relay, from_ms, from_ms + 300);
        // Each is sent twice.
        run(&mut relay, from_ms + 300, from_ms + 1_000);
        reports.iter().map(|report| report.statuses.len()).sum::<usize>()
    };
    let probe = |incarnation| RelayInput::Coordinator {
        to: "relay-1".to_owned(),
        message: signed(
            COORDINATOR,
            (incarnation, 1),
            Body::Probe { nonce: 9, at_ns: 5, clock: None },
        ),
    };
    assert_eq!(again(probe(1), 3_000), 1);
    assert_eq!(again(probe(1), 5_000), 0);
    assert_eq!(again(probe(2), 6_000), 1);
    assert_eq!(again(RelayInput::Connected(true), 8_000), 1);
}

#[test]
fn orders_go_unchanged_to_hosts_of_the_region_alone() {
    let mut relay = relay();
    let order = signed(COORDINATOR, (1, 7), Body::Stop { reason: "enough".to_owned() });
    let mut pass = |to: &str, message: &BusMessage| {
        let (to, message) = (to.to_owned(), message.clone());
        relay.handle(SECOND, RelayInput::Coordinator { to, message }, &OneWord)
    };
    let copy = |host: &str, message: &BusMessage| RelayEffect::ToHost {
        host: host.to_owned(),
        message: message.clone(),
    };
    assert_eq!(pass("db-2", &order), [copy("db-2", &order)]);
    assert!(pass("db-3", &order).is_empty());
    let clock = ClockOffset { offset_ns: -7, bound_ns: 2 };
    let clocks = ["db-1", "db-2", "db-3"].map(|host| (host.to_owned(), clock)).into();
    let clocks = signed(COORDINATOR, (1, 8), Body::Clocks { at_ns: 3, clocks });
    assert_eq!(pass("relay-1", &clocks), [copy("db-1", &clocks), copy("db-2", &clocks)]);
    // Of a sender that is not the coordinator.
    let forged = BusMessage { sender: "db-1".to_owned(), ..order.clone() };
    assert!(pass("db-2", &forged).is_empty());
    assert_eq!(relay.ignored(), 2);
}

#[test]
fn a_host_speaks_for_itself_alone_and_unsigned_or_stale_statuses_are_ignored() {
    let mut relay = relay();
    let mut hear = |host: &str, message: BusMessage| {
        relay.handle(SECOND, from(host, message), &OneWord);
        relay.ignored()
    };
    let joined = |sequence| status("db-1", sequence, HostState::Joined);
    assert_eq!(hear("db-2", joined(1)), 1);
    assert_eq!(hear("db-3", status("db-3", 1, HostState::Joined)), 2);
    assert_eq!(hear("db-1", BusMessage { signature: None, ..joined(1) }), 3);
    assert_eq!(hear("db-1", joined(2)), 3);
    assert_eq!(hear("db-1", joined(2)), 4);
    assert_eq!(hear("db-1", joined(1)), 5);
}

#[test]
fn pieces_of_folders_go_to_the_coordinator_as_they_are() {
    let mut relay = relay();
    let (run, file) = ("run".to_owned(), "events.jsonl".to_owned());
    let piece = Body::Piece { run, file, offset: 262_144 };
    let piece = BusMessage { bytes: vec![7; 1_000], ..signed("db-2", (1, 3), piece) };
    let effects = relay.handle(SECOND, from("db-2", piece.clone()), &OneWord);
    assert_eq!(effects, [RelayEffect::ToCoordinator(piece.clone())]);
    // Cut off, it keeps none: the coordinator asks again.
    relay.handle(SECOND, RelayInput::Connected(false), &OneWord);
    let effects = relay.handle(SECOND, from("db-2", piece), &OneWord);
    assert_eq!((effects, relay.ignored()), (Vec::new(), 1));
}

#[test]
fn messages_of_another_campaign_are_ignored_from_both_sides() {
    let mut relay = relay();
    let foreign = |message: BusMessage| BusMessage { campaign: "f".repeat(32), ..message };
    let joined = from("db-1", foreign(status("db-1", 1, HostState::Joined)));
    assert_eq!((relay.handle(SECOND, joined, &OneWord), relay.ignored()), (Vec::new(), 1));
    let stop = signed(COORDINATOR, (1, 1), Body::Stop { reason: String::new() });
    let stop = RelayInput::Coordinator { to: "db-1".to_owned(), message: foreign(stop) };
    assert_eq!((relay.handle(SECOND, stop, &OneWord), relay.ignored()), (Vec::new(), 2));
}

#[test]
fn a_host_that_was_booted_again_is_not_vouched_for_until_its_clock_is_known() {
    let mut relay = relay();
    relay.handle(SECOND, from("db-1", status("db-1", 1, HostState::Joined)), &OneWord);
    let reports = run(&mut relay, 1_000, 3_000);
    assert!(reports.iter().any(|sent| sent.report.words.contains_key("db-1")), "{reports:?}");
    let mut booted = status("db-1", 1, HostState::Joined);
    if let Body::Status(status) = &mut booted.body {
        status.machine.boot_id = "next boot".to_owned();
    }
    let later = Nanos::from_secs(3);
    relay.handle(later, from("db-1", booted), &OneWord);
    let effects = relay.handle(later, RelayInput::Tick, &OneWord);
    let words = effects.iter().find_map(|effect| match effect {
        RelayEffect::ToCoordinator(message) => match &message.body {
            Body::Region { report, .. } => Some(report.words.len()),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(words, Some(0), "{effects:?}");
}

#[test]
fn a_hundred_hosts_are_asked_for_their_clocks_at_a_time() {
    let names: Vec<String> = (0..101).map(|number| format!("db-{number}")).collect();
    let mut relay = relay_of(names.clone());
    for name in &names {
        relay.handle(SECOND, from(name, status(name, 1, HostState::Joined)), &OneWord);
    }
    let effects = relay.handle(SECOND, RelayInput::Tick, &OneWord);
    let is_question = |effect: &&RelayEffect| matches!(effect, RelayEffect::ToHost { .. });
    assert_eq!(effects.iter().filter(is_question).count(), 100);
}

#[test]
fn statuses_that_are_too_long_for_one_report_are_in_two_and_one_that_is_too_long_goes_alone() {
    // A step takes 30 bytes, and a report has 256 KiB of statuses.
    let long = |host: &str, sequence: u64, steps: usize| {
        let mut message = status(host, sequence, HostState::Planned);
        if let Body::Status(status) = &mut message.body {
            let step = PlannedStep { step: CampaignStep::default(), length_ns: None };
            status.plan = Some(PlanSummary::new("p", vec![step; steps]));
        }
        from(host, message)
    };
    let mut relay = relay();
    for host in ["db-1", "db-2"] {
        relay.handle(SECOND, from(host, status(host, 1, HostState::Joined)), &OneWord);
    }
    run(&mut relay, 1_000, 3_000);
    for host in ["db-1", "db-2"] {
        relay.handle(Nanos::from_secs(3), long(host, 2, 5_000), &OneWord);
    }
    let reports = run(&mut relay, 3_000, 3_100);
    let lengths: Vec<usize> = reports.iter().map(|sent| sent.statuses.len()).collect();
    assert_eq!(lengths.into_iter().filter(|length| *length > 0).collect::<Vec<_>>(), [1, 1]);
    let later = Nanos::from_secs(4);
    relay.handle(later, long("db-1", 3, 9_000), &OneWord);
    let effects = relay.handle(later, RelayInput::Tick, &OneWord);
    let is_alone = |effect: &RelayEffect| match effect {
        RelayEffect::ToCoordinator(message) => message.sender == "db-1",
        _ => false,
    };
    assert!(effects.iter().any(is_alone));
}
