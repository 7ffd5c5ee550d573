//! Hosts that fail or are slow, clocks that are set, and statuses that arrive twice or late.

use super::*;
use crate::clock::ClockEstimate;

#[test]
fn a_run_that_was_cut_is_collected_with_its_reason_and_not_pooled() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    bench.end_run("b", b"content of b", Some("signal 9"));
    bench.run_to_end("a", b"content of a");
    bench.pass(20, &[]);
    bench.piece("a", "run-of-a", b"content of a");
    bench.piece("b", "run-of-b", b"content of b");
    for (host, reason) in [("a", None), ("b", Some("signal 9"))] {
        let last = bench.changes.iter().rev().find(|change| change.host == host).unwrap();
        assert_eq!((last.state, last.reason.as_deref()), (HostState::Collected, reason));
    }
    assert_eq!(bench.machine.pooled_hosts(FIRST), ["a"]);
}

#[test]
fn a_host_that_answers_but_cannot_read_its_run_does_not_hold_the_campaign_up() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    bench.run_to_end("a", b"content of a");
    bench.run_to_end("b", b"content of b");
    bench.pass(20, &[]);
    bench.piece("a", "run-of-a", b"content of a");
    // Asked for after 20 ms, and again every 2.02 s.
    bench.pass(30 * 2_020, &[]);
    assert_eq!((bench.state("b"), bench.sent_to("b", "fetch")), (HostState::Ended, 31));
    bench.pass(2_020, &[]);
    assert_eq!((bench.state("b"), bench.sent_to("b", "fetch")), (HostState::Failed, 31));
    let reason = bench.changes.last().unwrap().reason.clone();
    assert_eq!(reason.unwrap(), "does not send 'events.jsonl' of its run folder");
}

#[test]
fn the_silence_after_which_a_host_is_lost_is_that_of_the_limits() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    bench.machine.config.limits.lost_after = Nanos::from_secs(4);
    bench.pass(4_000, &["b"]);
    assert_ne!(bench.state("b"), HostState::Lost);
    bench.pass(500, &["b"]);
    assert_eq!(bench.state("b"), HostState::Lost);
    assert_ne!(bench.state("a"), HostState::Lost);
}

#[test]
fn a_host_whose_run_was_cut_does_not_count_among_those_that_remain() {
    for (reason, hosts_min, stops) in [(Some("EIO"), 2, 1), (Some("EIO"), 1, 0), (None, 2, 0)] {
        let mut bench = Bench::armed(&["a", "b"], |policy| policy.hosts_min = hosts_min);
        bench.end_run("b", b"b", reason);
        bench.pass(20, &[]);
        assert_eq!(bench.sent_to("a", "stop"), stops, "{reason:?} {hosts_min}");
    }
}

#[test]
fn a_host_that_is_not_armed_long_after_half_of_the_others_is_left_or_ends_the_campaign() {
    for (lost, to_others) in [(LostPolicy::GoOn, 0), (LostPolicy::Stop, 1)] {
        let mut bench = Bench::armed(&["a", "b", "slow"], |policy| policy.lost = lost);
        bench.machine.config.limits.arm_wait = Nanos::from_secs(2);
        let lays_out = |status: &mut HostStatus| {
            (status.state, status.waiting) = (HostState::Permitted, None);
        };
        bench.report("slow", lays_out);
        bench.report("b", lays_out);
        bench.pass(5_000, &[]);
        assert_eq!(bench.sent_to("slow", "stop"), 0, "one of three is armed");
        bench.report("b", |status| {
            (status.state, status.waiting) = (HostState::Armed, Some(FIRST));
        });
        bench.pass(20 + 2_000, &[]);
        assert_eq!(bench.sent_to("slow", "stop"), 0);
        bench.pass(20, &[]);
        let stops = ["slow", "a"].map(|host| bench.sent_to(host, "stop"));
        assert_eq!(stops, [1, to_others], "{lost:?}");
        let reason = bench.sent.iter().find_map(|(_, body)| match body {
            Body::Stop { reason } => Some(reason.clone()),
            _ => None,
        });
        assert!(reason.is_some_and(|reason| reason.ends_with("not armed in time")));
    }
}

#[test]
fn a_clock_that_was_set_is_recorded_and_one_within_its_bound_is_not() {
    for (ahead, times) in [(0, 0), (60_000, 1)] {
        let mut bench = Bench::armed(&["a"], |_| ());
        bench.hears_answers = false;
        bench.pass(5_000, &[]);
        let at_ns = (bench.now + AHEAD + ahead) * 1_000_000;
        bench.say("a", Body::Answer { nonce: bench.nonce, at_ns });
        let is_set = |change: &&HostChange| {
            change.reason.as_deref() == Some("its clock was set or stood still")
        };
        assert_eq!(bench.changes.iter().filter(is_set).count(), times, "{ahead} ms");
    }
}

#[test]
fn of_a_host_that_was_lost_nothing_is_known_once_its_clock_was_set() {
    for (silent, is_unknown) in [(&[][..], false), (&["b"][..], true)] {
        let mut bench = Bench::armed(&["a", "b"], |_| ());
        bench.pass(1_600, silent);
        bench.report("b", |_| ());
        assert!(!bench.machine.hosts[1].is_unknown(FIRST));
        let now = Nanos::from_millis(bench.now);
        let host = Nanos::from_millis(bench.now + AHEAD + 60_000);
        bench.machine.learn_clock(1, ClockEstimate::new(now, host, now, None));
        assert_eq!(bench.machine.hosts[1].is_unknown(FIRST), is_unknown, "{silent:?}");
    }
}

#[test]
fn statuses_that_come_twice_late_or_from_an_earlier_boot_have_no_effect_and_are_counted() {
    let mut bench = Bench::armed(&["a"], |_| ());
    let message = |bench: &Bench, boot: &str, sequence: u64| {
        let mut status = bench.statuses["a"].clone();
        (status.state, status.machine.boot_id) = (HostState::Permitted, boot.to_owned());
        signed("a", (1, sequence), Body::Status(Box::new(status)))
    };
    let newest = bench.sequence;
    let rows = [
        ("boot of a", newest, HostState::Armed, 1),
        ("boot of a", newest - 1, HostState::Armed, 2),
        ("boot of a", newest + 1, HostState::Permitted, 2),
        ("boot of a", newest + 1, HostState::Permitted, 3),
        // Counts from one again after a boot.
        ("next boot", 1, HostState::Permitted, 3),
        ("boot of a", newest + 2, HostState::Permitted, 4),
    ];
    let before = bench.machine.ignored;
    for (boot, sequence, state, ignored) in rows {
        let message = message(&bench, boot, sequence);
        bench.give(CoordinatorInput::Message { host: "a".to_owned(), message });
        let expected = (state, before + ignored);
        assert_eq!((bench.state("a"), bench.machine.ignored), expected, "{boot} {sequence}");
    }
}

#[test]
fn too_few_hosts_stop_the_campaign_and_enough_do_not() {
    for (hosts_min, outcome) in [(1, None), (2, Some(CampaignOutcome::TooFewHosts))] {
        let mut bench = Bench::armed(&["a", "b"], |policy| policy.hosts_min = hosts_min);
        bench.report("b", |status| status.state = HostState::Failed);
        bench.pass(20, &[]);
        bench.report("a", |status| {
            if outcome.is_some() {
                status.state = HostState::Stopped;
            }
        });
        bench.pass(100, &[]);
        assert_eq!(bench.finished, outcome, "{hosts_min}");
    }
}

#[test]
fn a_host_that_cannot_be_reached_has_failed_unless_it_has_joined() {
    let mut bench = Bench::new(config(&["a", "b"], |_| {}));
    bench.report("b", |_| {});
    for host in ["a", "b"].map(str::to_owned) {
        bench.give(CoordinatorInput::Unreachable { host, reason: "no route".to_owned() });
    }
    assert_eq!((bench.state("a"), bench.state("b")), (HostState::Failed, HostState::Joined));
}

fn running(status: &mut HostStatus) {
    (status.state, status.waiting) = (HostState::Running, None);
    status.started = Some(StartedStep { step: FIRST, at_ns: 0 });
    status.quiet = Some(Nanos::ZERO);
}

#[test]
fn a_run_that_hangs_after_half_of_the_others_is_left_out_by_name_or_ends_the_campaign() {
    for (lost, decided) in [(LostPolicy::GoOn, "leave_out"), (LostPolicy::Stop, "stop")] {
        let mut bench = Bench::armed(&["a", "b", "db3"], |policy| policy.lost = lost);
        bench.machine.config.limits.arm_wait = Nanos::from_secs(2);
        ["a", "b", "db3"].iter().for_each(|host| bench.report(host, running));
        bench.run_to_end("a", b"a");
        bench.report("db3", |status| status.quiet = None);
        bench.pass(15_000, &[]);
        assert_eq!(bench.sent_to("db3", "stop"), 0, "one of three is done");
        bench.run_to_end("b", b"b");
        // Its plan states 8 s.
        bench.pass(20 + 10_000, &[]);
        assert_eq!(bench.sent_to("db3", "stop"), 0);
        // It is slow, not hung, as long as it does something.
        bench.report("db3", |status| status.quiet = Some(Nanos::from_secs(2)));
        bench.pass(1_000, &[]);
        assert_eq!(bench.sent_to("db3", "stop"), 0);
        bench.report("db3", |status| status.quiet = Some(Nanos::from_millis(2_001)));
        bench.pass(20, &[]);
        assert_eq!(bench.sent_to("db3", "stop"), 1);
        let decision = bench.events().into_iter().rev().find_map(|event| match event {
            CampaignEvent::Decision { decision, reason } => {
                Some((decision.clone(), reason.clone()))
            }
            _ => None,
        });
        let (decision, reason) = decision.unwrap();
        assert_eq!(decision, decided);
        assert!(reason.starts_with("db3: its run hangs: half of the hosts were done "), "{reason}");
    }
}

#[test]
fn a_run_that_hangs_while_the_others_wait_for_the_next_step_is_left_out() {
    let mut bench = Bench::armed(&["a", "b", "db3"], |_| ());
    bench.machine.config.limits.arm_wait = Nanos::from_secs(2);
    bench.report("db3", running);
    let next = CampaignStep { step: 1, ..FIRST };
    ["a", "b"].iter().for_each(|host| bench.report(host, |status| status.waiting = Some(next)));
    bench.report("db3", |status| status.quiet = None);
    bench.pass(20 + 10_000, &[]);
    assert_eq!(bench.sent_to("db3", "stop"), 0);
    bench.pass(20, &[]);
    assert_eq!((bench.sent_to("db3", "stop"), bench.sent_to("a", "stop")), (1, 0));
}

#[test]
fn a_host_that_does_not_stop_is_lost_and_its_run_is_collected_when_it_has_ended() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    bench.report("b", running);
    for _ in 0..2 {
        bench.give(CoordinatorInput::Operator(OperatorOrder::Skip("b".to_owned())));
    }
    let (decision, reason) = ("leave_out".to_owned(), "b: left out by the operator".to_owned());
    let decided = CampaignEvent::Decision { decision, reason };
    assert_eq!(bench.events().into_iter().filter(|event| **event == decided).count(), 1);
    bench.run_to_end("a", b"a");
    bench.pass(60_000, &[]);
    assert_eq!(bench.state("b"), HostState::Running);
    bench.pass(40, &[]);
    let last = bench.changes.iter().rev().find(|change| change.host == "b").unwrap();
    assert_eq!(last.state, HostState::Lost);
    assert!(last.reason.as_ref().unwrap().starts_with("did not stop in "), "{last:?}");
    // Its heartbeats alone do not make it take part again; it is still told to stop.
    let stops = bench.sent_to("b", "stop");
    bench.pass(2_000, &[]);
    assert_eq!((bench.state("b"), bench.sent_to("b", "fetch")), (HostState::Lost, 0));
    assert_eq!(bench.sent_to("b", "stop"), stops + 4);
    bench.end_run("b", b"b", Some("left out"));
    bench.pass(20, &[]);
    assert_eq!((bench.state("b"), bench.sent_to("b", "fetch")), (HostState::Ended, 1));
}

#[test]
fn a_host_that_was_left_out_before_it_joined_is_refused_with_the_reason_also_by_a_later_process() {
    let mut bench = Bench::new(config(&["a", "b"], |_| ()));
    bench.report("a", |_| ());
    bench.give(CoordinatorInput::Operator(OperatorOrder::Skip("b".to_owned())));
    assert_eq!(bench.state("b"), HostState::Stopped);
    let refusal = |bench: &mut Bench| {
        bench.report("b", |_| ());
        bench.pass(20, &[]);
        bench.sent.iter().rev().find_map(|(to, body)| match body {
            Body::Refuse { reason } if to == "b" => Some(reason.clone()),
            _ => None,
        })
    };
    assert_eq!(refusal(&mut bench).as_deref(), Some("left out by the operator"));
    let (config, now) = (config(&["a", "b"], |_| ()), Nanos::from_secs(900));
    let (machine, _) = CoordinatorMachine::resume(config, &bench.changes, &bench.events, now);
    let mut bench = Bench::with(machine, 900_000);
    bench.sequence = 100;
    assert_eq!(refusal(&mut bench).as_deref(), Some("left out by the operator"));
}

#[test]
fn a_host_that_calls_its_run_collected_has_failed_if_the_run_is_not_here() {
    let mut bench = Bench::armed(&["a"], |_| ());
    bench.report("a", |status| status.state = HostState::Collected);
    let last = bench.changes.last().unwrap();
    let reason = "says that its run was collected, but it is not here";
    assert_eq!((last.state, last.reason.as_deref()), (HostState::Failed, Some(reason)));
    assert_eq!((bench.state("a"), &last.run), (HostState::Failed, &None));
}

#[test]
fn a_host_that_is_lost_and_found_without_end_has_bounded_lines_and_the_last_is_right() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    ["a", "b"].iter().for_each(|host| bench.report(host, running));
    for _ in 0..80 {
        bench.pass(1_600, &["b"]);
        bench.report("b", |_| ());
    }
    bench.run_to_end("a", b"a");
    bench.pass(1_600, &["b"]);
    bench.piece("a", "run-of-a", b"a");
    bench.pass(61_000, &["b"]);
    assert_eq!(bench.finished, Some(CampaignOutcome::Complete));
    let lines: Vec<&HostChange> =
        bench.changes.iter().filter(|change| change.host == "b").collect();
    // Joined, planned, armed, running; then 96 of 161 changes, and the last one.
    let last = lines.last().map(|line| (line.state, line.unwritten));
    assert_eq!((lines.len(), last), (101, Some((HostState::Lost, 64))));
    let is_lost = |event: &&&CampaignEvent| matches!(event, CampaignEvent::HostLost { .. });
    assert_eq!(bench.events().iter().filter(is_lost).count(), 48);
    // A later process counts on from them.
    let config = config(&["a", "b"], |_| ());
    let now = Nanos::from_secs(900);
    let (machine, _) = CoordinatorMachine::resume(config, &bench.changes, &bench.events, now);
    assert!(!machine.hosts[1].lines.has_room() && machine.hosts[0].lines.has_room());
}
