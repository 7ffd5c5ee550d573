//! Orders that come again or too late, and what a status says of them.

use super::*;

fn status_of(bench: &mut Bench) -> HostStatus {
    let now = Nanos::from_millis(bench.now);
    let effects = bench.machine.handle(now, HostInput::Connected(true), &OneWord);
    let mut statuses = effects.into_iter().filter_map(|effect| match effect {
        HostEffect::Send(BusMessage { body: Body::Status(status), .. }) => Some(*status),
        _ => None,
    });
    statuses.next_back().expect("a status")
}

#[test]
fn a_status_has_the_plan_until_the_run_is_ordered_and_then_the_steps() {
    let planned = status_of(&mut Bench::planned());
    assert_eq!((planned.state, planned.waiting), (HostState::Planned, None));
    assert_eq!(planned.plan, Some(PlanSummary::new("plan", Vec::new())));
    let mut bench = Bench::armed(Barrier::Step);
    let armed = status_of(&mut bench);
    assert_eq!((armed.plan, armed.waiting, armed.ordered), (None, Some(STEP), None));
    bench.start(STEP, 10_600);
    let ordered = OrderedStart { step: STEP, attempt: 1 };
    assert_eq!(status_of(&mut bench).ordered, Some(ordered));
    bench.tick_at(10_550);
    let running = status_of(&mut bench);
    let started = StartedStep { step: STEP, at_ns: 10_600 * MS };
    assert_eq!((running.waiting, running.started), (None, Some(started)));
    assert_eq!(running.at_ns, 10_550 * MS);
}

#[test]
fn a_refusal_ends_what_has_not_run_and_nothing_else() {
    let refuse = || Body::Refuse { reason: "late".to_owned() };
    let mut bench = Bench::planned();
    let effects = bench.order(refuse());
    assert!(effects.contains(&HostEffect::Unlock), "{effects:?}");
    let found = (bench.machine.state(), bench.machine.reason.as_deref());
    assert_eq!(found, (HostState::Refused, Some("late")));
    let mut bench = Bench::armed(Barrier::Step);
    assert_eq!((bench.order(refuse()), bench.machine.state()), (Vec::new(), HostState::Armed));
    // The folder of an earlier run is collected while another campaign has the lock.
    let memory = HostMemory { has_run: true, newest: (1, 7), ..HostMemory::default() };
    let (mut bench, _) = Bench::new(memory);
    bench.give(HostInput::Locked(Err("a7".to_owned())));
    assert_eq!(bench.machine.state(), HostState::Ended);
}

#[test]
fn a_spec_is_planned_once_however_often_it_comes() {
    let (mut bench, _) = Bench::new(HostMemory::default());
    bench.give(HostInput::Locked(Ok(())));
    let plan = || Body::Plan { spec: "spec".to_owned(), spec_digest: digest("spec") };
    assert_eq!(bench.order(plan()), [HostEffect::Plan { spec: "spec".to_owned() }]);
    assert_eq!(bench.order(plan()), [], "it plans");
    bench.give(HostInput::Planned(Ok(PlanSummary::new("plan", Vec::new()))));
    assert_eq!(bench.order(plan()), [], "it has planned");
    bench.give(HostInput::Planned(Err("too late".to_owned())));
    assert_eq!(bench.machine.state(), HostState::Planned);
}

#[test]
fn a_timetable_keeps_the_clock_of_the_coordinator_that_ordered_it() {
    let mut bench = Bench::armed(Barrier::Step);
    let [at, not_after] = [23_000, 24_000].map(Nanos::from_millis);
    let timetable = vec![TimetableEntry { step: NEXT, at, not_after }];
    let order = StartOrder { timetable, ..Bench::start_order(STEP, 10_600) };
    bench.order(Body::Start(Box::new(order)));
    bench.tick_at(10_550);
    bench.now = 15_000;
    let clock = Some(ClockOffset { offset_ns: -9_000_000_000, bound_ns: 20_000 });
    let probe = bench.message(Body::Probe { nonce: 1, at_ns: 24_000 * MS, clock });
    bench.give(HostInput::Message(BusMessage { incarnation: 2, ..probe }));
    bench.give(HostInput::Child(ChildEvent::Ready(NEXT)));
    let expected = GateAnswer::Start {
        at_ns: 20_000 * MS,
        offset_ns: 3_000_000_000,
        // 9.4 s after the start for which it was known, and one started millisecond.
        bound_ns: 40_000 + 9_401 * 201,
    };
    assert_eq!(answer(&bench.tick_at(19_950)), expected);
}
