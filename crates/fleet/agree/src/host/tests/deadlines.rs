//! The deadline that a machine names is the first moment at which its clock alone has an effect.

use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::host_file::HostLimits;
use crate::permit::PlannedWrites;

const NS: Nanos = Nanos::new(1);

fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// The first moment after this time.
fn after(millis: u64) -> Option<Nanos> {
    Some(later(ms(millis), NS))
}

/// With a bus and then without one.
fn deadlines(bench: &mut Bench) -> [Option<Nanos>; 2] {
    [true, false].map(|is_connected| {
        bench.give(HostInput::Connected(is_connected));
        bench.machine.next_deadline()
    })
}

/// Effects of the tick that is asked for, but for statuses; 1 ns earlier there are none, and after it
/// nothing is overdue.
fn tick_in_time(bench: &mut Bench) -> Vec<HostEffect> {
    let due = bench.machine.next_deadline().expect("a deadline");
    let early = bench.machine.handle(due.saturating_sub(NS), HostInput::Tick, &OneWord);
    assert_eq!(early, []);
    let mut effects = bench.machine.handle(due, HostInput::Tick, &OneWord);
    assert!(!effects.is_empty());
    let next = bench.machine.next_deadline();
    assert!(next.is_none_or(|next| next > due), "{next:?} after {due:?}");
    effects.retain(|effect| !is_status(effect));
    effects
}

#[test]
fn a_host_without_a_run_wakes_for_heartbeats_alone_and_without_a_bus_for_nothing() {
    let (mut bench, _) = Bench::new(HostMemory::default());
    assert_eq!(deadlines(&mut bench), [Some(ms(10_500)), None]);
    let mut bench = Bench::planned();
    bench.now = 12_000;
    assert_eq!(deadlines(&mut bench), [Some(ms(12_500)), None]);
    bench.give(HostInput::Connected(true));
    assert_eq!(tick_in_time(&mut bench), [], "a status");
    assert_eq!(bench.machine.next_deadline(), Some(ms(13_000)));
}

#[test]
fn an_ordered_start_is_due_100_ms_before_it_until_it_is_cancelled() {
    let mut bench = Bench::armed(Barrier::Step);
    assert_eq!(deadlines(&mut bench), [Some(ms(10_500)), after(40_000)]);
    bench.start(STEP, 10_599);
    assert_eq!(bench.machine.next_deadline(), Some(ms(10_499)));
    bench.order(Body::Cancel { step: STEP, attempt: 1 });
    assert_eq!(bench.machine.next_deadline(), after(40_000));

    let mut bench = Bench::armed(Barrier::Step);
    bench.start(STEP, 10_600);
    bench.give(HostInput::Connected(false));
    assert_eq!(bench.machine.next_deadline(), Some(ms(10_500)));
    assert_eq!(tick_in_time(&mut bench), [start_answer(10_600, 1)]);
    assert_eq!(bench.machine.state(), HostState::Running);
    assert_eq!(bench.machine.next_deadline(), after(40_000));
}

#[test]
fn a_start_of_the_timetable_is_due_without_a_bus() {
    let mut bench = Bench::armed(Barrier::Step);
    let [at, not_after] = [23_000, 24_000].map(Nanos::from_millis);
    let timetable = vec![TimetableEntry { step: NEXT, at, not_after }];
    let order = StartOrder { timetable, ..Bench::start_order(STEP, 10_600) };
    bench.order(Body::Start(Box::new(order)));
    bench.tick_at(10_500);
    bench.now = 15_000;
    bench.give(HostInput::Child(ChildEvent::Ready(NEXT)));
    bench.give(HostInput::Connected(false));
    assert_eq!(bench.machine.next_deadline(), Some(ms(19_900)));
    let answers = tick_in_time(&mut bench);
    let GateAnswer::Start { at_ns, .. } = answer(&answers) else { panic!("{answers:?}") };
    assert_eq!(at_ns, 20_000 * MS);
}

#[test]
fn silence_and_the_longest_time_of_a_run_are_due_1_ns_after_their_last_moment() {
    let mut bench = Bench::planned();
    let run = bench.run_order(Barrier::Step);
    let message = bench.message(run);
    bench.give_alone(HostInput::Message(message));
    assert_eq!(deadlines(&mut bench), [Some(ms(10_500)), after(40_000)], "it is stored");
    bench.give_alone(HostInput::Remembered(Ok(())));
    bench.now = 20_000;
    bench.probe_of(20_000);
    // The offset may be 40 µs off.
    let silent = Nanos::new(50_000 * MS - 40_000 + 1);
    assert_eq!(deadlines(&mut bench), [Some(ms(20_500)), Some(silent)]);
    bench.now = 95_000;
    bench.probe_of(95_000);
    assert_eq!(bench.machine.next_deadline(), after(110_000));
    assert_eq!(tick_in_time(&mut bench), [HostEffect::StopChild]);
    assert_eq!(bench.machine.next_deadline(), None, "it is stopping");
}

#[test]
fn a_limit_of_the_host_is_due_before_a_later_one_of_the_order() {
    for (duration_max, end) in [(Some(20), 30_000), (Some(86_400), 7_210_000), (None, 7_210_000)] {
        let mut bench = Bench::armed(Barrier::Step);
        let order = bench.machine.order.as_mut().expect("an order");
        (order.silence_max, order.run_max) = (Nanos::from_secs(86_400), Nanos::from_secs(86_400));
        let duration = Some(Nanos::from_secs(3_600));
        let plan = PlannedWrites { writes: Vec::new(), duration, is_watchable: true };
        let limits = HostLimits {
            duration_max: duration_max.map(Nanos::from_secs),
            hours: Some("20:00-06:00".parse().unwrap()),
        };
        // Two hours before the end of the permitted hours.
        let today = UNIX_EPOCH + Duration::from_secs(4 * 3_600);
        let permitted = PermittedTime::new(&plan, &limits, (today, ms(bench.now)));
        bench.give(HostInput::Permitted(permitted));
        bench.give(HostInput::Connected(false));
        assert_eq!(bench.machine.next_deadline(), after(end), "{duration_max:?}");
        assert!(tick_in_time(&mut bench).contains(&HostEffect::StopChild));
        assert_eq!(bench.machine.next_deadline(), None);
    }
}

#[test]
fn after_its_run_a_host_wakes_for_heartbeats_alone() {
    let mut bench = Bench::armed(Barrier::Step);
    bench.start(STEP, 10_600);
    let steps = [
        (HostInput::ChildExited(None), HostState::Ordered),
        (HostInput::Inspected(Ok(run_summary())), HostState::Ended),
    ];
    for (input, state) in steps {
        bench.give(input);
        assert_eq!(bench.machine.state(), state);
        assert_eq!(deadlines(&mut bench), [Some(ms(10_500)), None], "{state:?}");
    }
    bench.order(Body::Release { run: "r".to_owned() });
    assert_eq!(bench.machine.state(), HostState::Collected);
    assert_eq!(deadlines(&mut bench), [Some(ms(10_500)), None]);
}
