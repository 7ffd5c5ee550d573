//! How long the coordinator waits and how often it repeats itself, on both sides of each bound.

use super::*;

/// A campaign of `asked`, some of which have joined.
fn joined(asked: &[&str], hosts: &[&str]) -> Bench {
    let mut bench = Bench::new(config(asked, |_| ()));
    hosts.iter().for_each(|host| bench.report(host, |_| ()));
    bench
}

fn last_reason(bench: &Bench, host: &str) -> Option<String> {
    let last = bench.changes.iter().rev().find(|change| change.host == host);
    last.and_then(|change| change.reason.clone())
}

fn operator(order: OperatorOrder) -> CoordinatorInput {
    CoordinatorInput::Operator(order)
}

#[test]
fn sixteen_questions_20_ms_apart_give_a_clock_and_one_every_5_s_keeps_it() {
    let mut bench = joined(&["a", "b"], &["a"]);
    for (millis, questions) in [(300, 15), (20, 16), (4_660, 16), (20, 17), (4_980, 17), (20, 18)] {
        bench.pass(millis, &[]);
        assert_eq!(bench.probes.len(), questions, "at {} ms", bench.now);
    }
}

#[test]
fn hosts_without_a_plan_are_left_out_after_60_s_and_the_operator_is_asked_about_the_others() {
    let mut bench = joined(&["a", "b"], &["a", "b"]);
    bench.pass(20, &[]);
    bench.report("a", |status| {
        let plan = PlanSummary::new("p", Vec::new());
        (status.state, status.plan) = (HostState::Planned, Some(plan));
    });
    bench.pass(60_000, &[]);
    assert_eq!((bench.questions, bench.sent_to("b", "stop")), (0, 0));
    bench.pass(20, &[]);
    let stops = ["a", "b"].map(|host| bench.sent_to(host, "stop"));
    assert_eq!((bench.questions, stops), (1, [0, 1]));
    let stop = Body::Stop { reason: "did not plan in time".to_owned() };
    assert!(bench.sent.contains(&("b".to_owned(), stop)), "{:?}", bench.sent.last());
}

#[test]
fn a_host_that_is_left_out_is_told_every_500_ms_and_is_lost_after_60_s() {
    let mut bench = joined(&["a", "b", "c"], &["a", "b"]);
    for host in ["b", "c"].map(str::to_owned) {
        bench.give(operator(OperatorOrder::Skip(host)));
    }
    // It has not joined, so it need not be told.
    assert_eq!(bench.state("c"), HostState::Stopped);
    assert_eq!(last_reason(&bench, "c").as_deref(), Some("left out by the operator"));
    bench.pass(60_000, &[]);
    assert_eq!((bench.state("b"), bench.sent_to("b", "stop")), (HostState::Joined, 120));
    bench.pass(20, &[]);
    assert_eq!(bench.state("b"), HostState::Lost);
    assert_eq!(last_reason(&bench, "b").as_deref(), Some("did not stop in 1 min"));
    assert_eq!(bench.sent_to("a", "stop"), 0);
}

#[test]
fn lost_hosts_are_waited_for_60_s_when_all_others_have_ended() {
    let mut bench = joined(&["a", "b"], &["a"]);
    bench.pass(60_020, &[]);
    assert_eq!(bench.state("b"), HostState::Lost);
    assert_eq!(last_reason(&bench, "b").as_deref(), Some("did not join"));
    bench.report("a", |status| status.state = HostState::Failed);
    bench.pass(60_000, &[]);
    assert_eq!(bench.finished, None);
    bench.pass(20, &[]);
    assert_eq!(bench.finished, Some(CampaignOutcome::TooFewHosts));
    let ended = CampaignEvent::Ended { outcome: CampaignOutcome::TooFewHosts };
    assert_eq!(bench.events().last(), Some(&&ended));
}

#[test]
fn no_host_is_lost_while_the_bus_is_away_or_within_2_s_of_its_return() {
    let mut bench = joined(&["a", "b"], &["a"]);
    bench.give(CoordinatorInput::Bus(false));
    bench.pass(10_000, &["a"]);
    bench.give(CoordinatorInput::Bus(true));
    // 2 s to connect, and 1.5 s of silence.
    bench.pass(3_500, &["a"]);
    assert_eq!(bench.state("a"), HostState::Joined);
    bench.pass(20, &["a"]);
    assert_eq!(bench.state("a"), HostState::Lost);
    let lost = CampaignEvent::HostLost { host: "a".to_owned(), silent_ns: 1_520_000_000 };
    assert_eq!(bench.events(), [&CampaignEvent::BusLost, &CampaignEvent::BusBack, &lost]);
}

#[test]
fn a_host_that_does_not_confirm_its_release_is_told_for_3_s_and_then_the_campaign_ends() {
    let mut bench = Bench::armed(&["a"], |_| ());
    bench.run_to_end("a", b"content");
    bench.pass(20, &[]);
    bench.piece("a", "run-of-a", b"content");
    assert_eq!(bench.state("a"), HostState::Collected);
    bench.pass(3_000, &[]);
    assert_eq!((bench.finished, bench.sent_to("a", "release")), (None, 6));
    bench.pass(20, &[]);
    assert_eq!(bench.finished, Some(CampaignOutcome::Complete));
}

#[test]
fn a_host_that_is_lost_after_its_run_does_not_stop_the_others() {
    for (has_ended, stops) in [(true, 0), (false, 1)] {
        let mut bench = Bench::armed(&["a", "b"], |policy| policy.lost = LostPolicy::Stop);
        bench.report("a", |status| {
            (status.state, status.waiting) = (HostState::Running, None);
        });
        if has_ended {
            bench.run_to_end("b", b"content of b");
        }
        bench.pass(1_520, &["b"]);
        assert_eq!((bench.state("b"), bench.sent_to("a", "stop")), (HostState::Lost, stops));
    }
}

#[test]
fn half_of_the_hosts_suffice_to_wait_no_longer_and_a_host_that_runs_is_not_given_up() {
    for (state, stops) in [(HostState::Permitted, 1), (HostState::Running, 0)] {
        let mut bench = Bench::armed(&["a", "b"], |_| ());
        bench.machine.config.limits.arm_wait = Nanos::from_secs(2);
        bench.report("b", |status| (status.state, status.waiting) = (state, None));
        bench.pass(20 + 2_000, &[]);
        assert_eq!(bench.sent_to("b", "stop"), 0, "{state:?}");
        bench.pass(20, &[]);
        assert_eq!(bench.sent_to("b", "stop"), stops, "{state:?}");
    }
    assert_eq!(CampaignLimits::default().arm_wait, Nanos::from_secs(600));
}

#[test]
fn the_operators_word_counts_when_it_was_asked_for_and_the_first_stop_gives_the_outcome() {
    let mut early = joined(&["a", "b"], &["a"]);
    early.give(operator(OperatorOrder::Go));
    assert!(early.events().is_empty(), "{:?}", early.events());

    let mut bench = Bench::armed(&["a", "b"], |_| ());
    for order in [OperatorOrder::Go, OperatorOrder::Stop, OperatorOrder::Stop] {
        bench.give(operator(order));
    }
    for host in ["a", "b"] {
        bench.report(host, |status| status.state = HostState::Stopped);
    }
    bench.pass(20, &[]);
    let decisions = bench.events().into_iter().filter_map(|event| match event {
        CampaignEvent::Decision { decision, reason } => Some((decision.as_str(), reason.as_str())),
        _ => None,
    });
    let expected = [("go", "the operator, 2 hosts"), ("stop", "the operator")];
    assert_eq!(decisions.collect::<Vec<_>>(), expected);
    // No host is left, which would be another reason.
    assert_eq!(bench.finished, Some(CampaignOutcome::Stopped));
}

#[test]
fn only_a_host_that_has_not_joined_is_refused_for_its_protocol() {
    let mut bench = joined(&["a", "b"], &["a"]);
    let protocol = Protocol { major: 3, minor: 7 };
    for host in ["a", "b"].map(str::to_owned) {
        bench.give(CoordinatorInput::OtherProtocol { host, protocol });
    }
    assert_eq!((bench.state("a"), bench.state("b")), (HostState::Joined, HostState::Refused));
}

#[test]
fn a_coordinator_that_stood_still_hears_its_hosts_before_one_is_lost() {
    for (still, lost) in [(500, HostState::Lost), (520, HostState::Joined)] {
        let mut bench = joined(&["a", "b"], &["a", "b"]);
        bench.pass(1_000, &["a"]);
        // Its clock goes on; what hosts say waits for it.
        bench.now += still;
        bench.give(CoordinatorInput::Tick);
        assert_eq!(bench.state("a"), HostState::Joined, "1.5 s and no more");
        bench.pass(20, &["a"]);
        assert_eq!(bench.state("a"), lost, "after {still} ms");
        bench.pass(1_480, &["a"]);
        assert_eq!(bench.state("a"), lost, "after {still} ms");
        bench.pass(20, &["a"]);
        assert_eq!(bench.state("a"), HostState::Lost);
    }
}
