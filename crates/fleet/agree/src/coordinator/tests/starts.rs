//! What orders to run and to start say, and when a start is tried again.

use durio_record::fleet::Barrier;

use super::*;
use crate::message::TimetableEntry;

/// Until the start of the first step is ordered.
fn ordered(hosts: &[&str]) -> Bench {
    let mut bench = Bench::armed(hosts, |_| ());
    while bench.sent_to(hosts[0], "start") == 0 {
        bench.pass(20, &[]);
    }
    bench
}

#[test]
fn an_order_to_run_has_5_s_to_arrive_and_ends_a_run_on_shared_storage_after_30_s_of_silence() {
    let day = Nanos::from_secs(86_400);
    for (shared, silence_max) in [(true, Nanos::from_secs(30)), (false, day)] {
        let bench = Bench::armed(&["a"], |policy| policy.shared = shared);
        let order = bench.sent.iter().find_map(|(_, body)| match body {
            Body::Run(order) => Some((**order).clone()),
            _ => None,
        });
        let order = order.expect("an order to run");
        assert_eq!((order.silence_max, order.run_max), (silence_max, day), "{shared}");
        // The last tick ordered it.
        assert_eq!(order.not_after, Nanos::from_millis(bench.now + 5_000));
        assert_eq!((order.plan_digest.as_str(), order.boot_id.as_str()), ("p", "boot of a"));
        assert_eq!((order.barrier, order.clock.offset_ns), (Barrier::Step, 7_000_000_000));
    }
}

/// The timetable of two hosts with these plans: section, step and seconds, 0 for a step that does not
/// end by time. Steps with their start and its last moment, in milliseconds after the first start.
fn timetable(barrier: Barrier, plans: [&[(u32, u32, u64)]; 2]) -> Vec<(u32, u64, u64)> {
    let mut bench = Bench::armed(&["a", "b"], |policy| policy.barrier = barrier);
    for (host, plan) in ["a", "b"].into_iter().zip(plans) {
        let step = |&(section, step, seconds): &(u32, u32, u64)| PlannedStep {
            step: CampaignStep { section: Some(section), round: 0, step },
            length_ns: (seconds > 0).then_some(seconds * 1_000_000_000),
        };
        let plan = PlanSummary::new("p", plan.iter().map(step).collect());
        bench.report(host, |status| status.plan = Some(plan));
    }
    bench.pass(400, &[]);
    let order = bench.start_order();
    let millis = |time: Nanos| time.saturating_sub(order.at).get() / 1_000_000;
    let entry =
        |entry: &TimetableEntry| (entry.step.step, millis(entry.at), millis(entry.not_after));
    order.timetable.iter().map(entry).collect()
}

#[test]
fn a_timetable_has_the_slowest_host_and_a_slack_of_1_s_or_a_twentieth_as_far_as_plans_agree() {
    let plan = [(0, 0, 60), (0, 1, 10), (1, 2, 4), (1, 3, 0)];
    let both = [&plan[..], &plan[..]];
    let steps = [(1, 63_000, 66_000), (2, 74_000, 75_000), (3, 79_000, 80_000)];
    assert_eq!(timetable(Barrier::Step, both), steps);
    assert_eq!(timetable(Barrier::Section, both), steps[1..2]);
    assert_eq!(timetable(Barrier::Start, both), []);
    let slower = [(0, 0, 80), (0, 1, 10), (1, 2, 4), (1, 3, 0)];
    let steps = [(1, 84_000, 88_000), (2, 95_000, 96_000), (3, 100_000, 101_000)];
    assert_eq!(timetable(Barrier::Step, [&plan, &slower]), steps);
    // Another step follows on one host, or does not end by time.
    let other = [(0, 0, 60), (0, 1, 10), (1, 9, 4)];
    assert_eq!(timetable(Barrier::Step, [&plan, &other]), [(1, 63_000, 66_000)]);
    let open = [(0, 0, 60), (0, 1, 0), (1, 2, 4), (1, 3, 0)];
    assert_eq!(timetable(Barrier::Step, [&plan, &open]), [(1, 63_000, 66_000)]);
}

#[test]
fn a_start_is_ordered_five_times_as_far_ahead_as_the_last_order_took_to_arrive() {
    let mut bench = ordered(&["a"]);
    let order = bench.start_order();
    bench.pass(200, &[]);
    bench.acknowledge("a", 1);
    // Seen by the next tick, after 220 ms.
    bench.pass(300, &[]);
    let at_ns = order.at.get() + AHEAD * 1_000_000;
    bench.report("a", |status| {
        status.state = HostState::Running;
        status.started = Some(StartedStep { step: FIRST, at_ns });
    });
    bench.pass(20, &[]);
    bench.report("a", |status| {
        let next = CampaignStep { step: 1, ..FIRST };
        (status.state, status.waiting) = (HostState::Armed, Some(next));
    });
    bench.pass(400, &[]);
    let starts: Vec<(u32, u32, u64, u64)> = bench
        .events()
        .into_iter()
        .filter_map(|event| match *event {
            CampaignEvent::BarrierOrdered { step, attempt, start_ns, lead_ns } => {
                Some((step, attempt, start_ns, lead_ns))
            }
            _ => None,
        })
        .collect();
    // The campaign began at 100 s of the clock.
    let since_begin = |order: &StartOrder| order.at.get() - 100_000_000_000;
    let second = bench.start_order();
    let expected =
        [(0, 1, since_begin(&order), 500_000_000), (1, 1, since_begin(&second), 1_100_000_000)];
    assert_eq!(starts, expected);
    let reached = CampaignEvent::BarrierReached { step: 1, hosts: 1 };
    assert!(bench.events().contains(&&reached), "{:?}", bench.events());
}

#[test]
fn a_start_that_no_host_reports_is_tried_again_after_2_s() {
    let mut bench = ordered(&["a"]);
    let at = bench.start_order().at.get() / 1_000_000;
    bench.acknowledge("a", 1);
    bench.pass(20, &[]);
    bench.report("a", |status| (status.state, status.ordered) = (HostState::Armed, None));
    // Given up after 2,020 ms, reached again 20 ms later, and 340 ms of questions.
    bench.pass(at + 2_360 - bench.now, &[]);
    assert_eq!(bench.sent_to("a", "start"), 1);
    bench.pass(20, &[]);
    assert_eq!((bench.sent_to("a", "start"), bench.start_order().attempt), (2, 2));
    assert_eq!(bench.sent_to("a", "cancel"), 0);
}

#[test]
fn many_hosts_are_asked_4000_times_a_second_together_and_each_as_often_as_any_other() {
    let names: Vec<String> = (0..200).map(|number| format!("h{number:03}")).collect();
    let hosts: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::new(config(&hosts, |_| ()));
    hosts.iter().for_each(|host| bench.report(host, |_| ()));
    let asked = |bench: &Bench| -> Vec<usize> {
        let count = |host: &&str| bench.probes.iter().filter(|(name, _)| name == host).count();
        hosts.iter().map(count).collect()
    };
    let mut most = 0;
    for turn in 1..=50 {
        let before = bench.probes.len();
        bench.pass(20, &[]);
        most = most.max(bench.probes.len() - before);
        if turn == 25 {
            assert_eq!(asked(&bench), [10; 200], "2,000 questions");
        }
    }
    assert_eq!(most, 80, "in 20 ms");
    assert_eq!(asked(&bench), [PROBES as usize; 200]);
}
