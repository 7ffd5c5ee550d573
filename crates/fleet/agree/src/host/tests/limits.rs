//! What is stored before a host acts, the limits of the host's file, and how long a run is quiet.

use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::host_file::HostLimits;
use crate::message::PlannedStep;
use crate::permit::PlannedWrites;

#[test]
fn nothing_is_started_or_acknowledged_before_it_is_stored_and_the_host_answers_until_then() {
    let mut bench = Bench::planned();
    let run = bench.run_order(Barrier::Step);
    let message = bench.message(run.clone());
    let effects = bench.give_alone(HostInput::Message(message));
    assert!(matches!(&effects[..], [HostEffect::Remember(_)]), "{effects:?}");
    for now in (10_500..40_000).step_by(500) {
        bench.now = now;
        assert_eq!(bench.heartbeat(), (HostState::Planned, None), "{now}");
        let probe = Body::Probe { nonce: now, at_ns: (now + 3_000) * MS, clock: None };
        let message = bench.message(probe);
        let effects = bench.give_alone(HostInput::Message(message));
        let [HostEffect::Send(answer)] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(answer.body, Body::Answer { nonce: now, at_ns: now * MS });
    }
    let again = bench.message(run);
    assert_eq!(bench.give_alone(HostInput::Message(again)), []);
    assert_eq!(bench.give_alone(HostInput::Remembered(Ok(()))), [HostEffect::StartChild]);
    assert_eq!(bench.heartbeat().0, HostState::Permitted);
    assert_eq!(bench.give_alone(HostInput::Remembered(Ok(()))), [], "once");

    bench.give(HostInput::ChildExited(None));
    bench.give(HostInput::Inspected(Ok(run_summary())));
    let release = bench.message(Body::Release { run: "r".to_owned() });
    let effects = bench.give_alone(HostInput::Message(release));
    assert!(matches!(&effects[..], [HostEffect::Remember(_)]), "{effects:?}");
    assert_eq!(bench.heartbeat().0, HostState::Ended);
    // Collected twice is harmless, never collected is not: the end does not wait for a full disk.
    let full = HostInput::Remembered(Err("no space left".to_owned()));
    assert_eq!(bench.give_alone(full), [HostEffect::Unlock]);
    assert_eq!(bench.heartbeat().0, HostState::Collected);
}

#[test]
fn a_run_that_cannot_be_remembered_or_is_stopped_before_that_does_not_start() {
    let rows = [
        (None, Err("no space left".to_owned()), HostState::Failed, "no space left"),
        (Some("operator"), Ok(()), HostState::Stopped, "operator"),
    ];
    for (stop, stored, state, reason) in rows {
        let mut bench = Bench::planned();
        let run = bench.run_order(Barrier::Step);
        let message = bench.message(run);
        bench.give_alone(HostInput::Message(message));
        if let Some(reason) = stop {
            let message = bench.message(Body::Stop { reason: reason.to_owned() });
            assert_eq!(bench.give_alone(HostInput::Message(message)), []);
        }
        let effects = bench.give_alone(HostInput::Remembered(stored));
        let [HostEffect::Remember(memory)] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!((memory.has_run, memory.done), (false, Some(state)));
        assert_eq!(bench.heartbeat().0, HostState::Planned);
        assert_eq!(bench.give_alone(HostInput::Remembered(Ok(()))), [HostEffect::Unlock]);
        assert_eq!(bench.machine.state(), state);
        assert_eq!(bench.machine.reason.as_deref(), Some(reason));
    }
}

/// A plan of one hour whose steps take 20 s each, permitted from 10 s on its host's clock on, which is
/// two hours before the end of the permitted hours.
fn limited(duration_max: Option<u64>) -> Bench {
    const HOUR: u64 = 3_600;
    let mut bench = Bench::planned();
    let length_ns = Some(20_000 * MS);
    let steps = [STEP, NEXT].map(|step| PlannedStep { step, length_ns });
    bench.machine.plan = Some(PlanSummary::new("plan", steps.to_vec()));
    let duration = Some(Nanos::from_secs(HOUR));
    let plan = PlannedWrites { writes: Vec::new(), duration, is_watchable: true };
    let limits = HostLimits {
        duration_max: duration_max.map(Nanos::from_secs),
        hours: Some("20:00-06:00".parse().unwrap()),
    };
    let today = UNIX_EPOCH + Duration::from_secs(4 * HOUR);
    let now = Nanos::from_millis(bench.now);
    let permitted = PermittedTime::new(&plan, &limits, (today, now));
    bench.give(HostInput::Permitted(permitted));
    bench
}

#[test]
fn a_run_begins_while_it_can_still_end_within_the_hours_of_its_host() {
    const HOUR: u64 = 3_600_000;
    let begin_by = 10_000 + HOUR;
    for (now, state) in [(begin_by, HostState::Permitted), (begin_by + 1, HostState::Refused)] {
        let mut bench = limited(None);
        bench.now = now;
        let run = bench.run_order(Barrier::Step);
        bench.order(run);
        assert_eq!(bench.machine.state(), state, "{now}");
        let reason = "the run would not end within the hours 20:00-06:00 UTC any more";
        let is_refused = state == HostState::Refused;
        assert_eq!(bench.machine.reason.as_deref(), is_refused.then_some(reason));
    }
}

/// Whose child waits for [`STEP`] since this time.
fn limited_and_armed(duration_max: Option<u64>, now: u64) -> Bench {
    let mut bench = limited(duration_max);
    let run = bench.run_order(Barrier::Section);
    bench.order(run);
    let order = bench.machine.order.as_mut().expect("an order");
    (order.silence_max, order.run_max) = (Nanos::from_secs(86_400), Nanos::from_secs(86_400));
    bench.now = now;
    bench.give(HostInput::Child(ChildEvent::Ready(STEP)));
    bench
}

#[test]
fn a_step_that_would_end_beyond_a_limit_of_the_host_is_neither_armed_nor_ordered_nor_freed() {
    // The hours end at 7,210 s of its clock, and 120 s after its begin the run is at duration_max.
    for (duration_max, end, limit) in [
        (None, 7_210_000, "the hours 20:00-06:00 UTC"),
        (Some(120), 130_000, "duration_max of 2 min"),
    ] {
        let stopped = |bench: &Bench| bench.machine.stopping.clone();
        let reason = Some(format!("the next step would not end within {limit}"));
        let mut bench = limited_and_armed(duration_max, end - 20_000);
        assert_eq!((bench.machine.state(), stopped(&bench)), (HostState::Armed, None));
        // Ordered for a little later, it does not fit.
        bench.start(STEP, end - 19_999);
        assert_eq!(stopped(&bench), reason);
        let bench = limited_and_armed(duration_max, end - 19_999);
        assert_eq!(stopped(&bench), reason);

        let mut bench = limited_and_armed(duration_max, end - 30_000);
        bench.start(STEP, end - 29_950);
        bench.tick_at(end - 29_950);
        assert_eq!(bench.machine.state(), HostState::Running);
        bench.now = end - 19_999;
        let effects = bench.give(HostInput::Child(ChildEvent::Ready(NEXT)));
        assert!(matches!(answer(&effects), GateAnswer::Abort(_)), "{effects:?}");
        assert_eq!(stopped(&bench), reason);
    }
}

#[test]
fn a_run_ends_by_itself_when_a_limit_of_its_host_is_reached() {
    for (duration_max, end, limit) in [
        (None, 7_210_000, "the hours 20:00-06:00 UTC"),
        (Some(120), 130_000, "duration_max of 2 min"),
    ] {
        let mut bench = limited_and_armed(duration_max, 11_000);
        bench.start(STEP, 11_100);
        assert_eq!(bench.tick_at(11_050).len(), 1, "the answer");
        assert_eq!(bench.tick_at(end), []);
        assert_eq!(bench.tick_at(end + 1), [HostEffect::StopChild]);
        bench.give(HostInput::ChildExited(None));
        bench.give(HostInput::Inspected(Ok(run_summary())));
        let reason = format!("the run was not over within {limit}");
        assert_eq!(bench.machine.reason.as_deref(), Some(reason.as_str()));
        assert!(bench.machine.run.as_ref().is_some_and(|run| run.partial));
    }
}

#[test]
fn a_heartbeat_says_for_how_long_a_run_that_waits_for_no_order_has_done_nothing() {
    let mut bench = Bench::planned();
    let run = bench.run_order(Barrier::Step);
    assert_eq!(bench.heartbeat().1, None);
    bench.order(run);
    bench.now += 7_000;
    assert_eq!(bench.heartbeat(), (HostState::Permitted, Some(Nanos::from_secs(7))));
    bench.give(HostInput::Progress);
    assert_eq!(bench.heartbeat().1, Some(Nanos::ZERO));
    bench.give(HostInput::Child(ChildEvent::Ready(STEP)));
    bench.now += 9_000;
    assert_eq!(bench.heartbeat(), (HostState::Armed, None), "the others are late");
    bench.start(STEP, bench.now + 200);
    bench.tick_at(bench.now + 150);
    bench.now += 3_000;
    assert_eq!(bench.heartbeat(), (HostState::Running, Some(Nanos::from_secs(3))));
    bench.give(HostInput::Child(ChildEvent::Ended { step: 1 }));
    assert_eq!(bench.heartbeat().1, Some(Nanos::ZERO));
    bench.give(HostInput::ChildExited(None));
    assert_eq!(bench.heartbeat().1, None);
}

#[test]
fn a_run_that_cannot_be_fetched_stays_on_its_host_which_is_free() {
    let mut bench = Bench::armed(Barrier::Step);
    let refuse = || Body::Refuse { reason: "did not arrive".to_owned() };
    assert_eq!(bench.order(refuse()), [], "it runs");
    bench.give(HostInput::ChildExited(None));
    assert_eq!(bench.order(refuse()), [], "its folder is looked for");
    bench.give(HostInput::Inspected(Ok(run_summary())));
    let effects = bench.order(refuse());
    let [HostEffect::Remember(memory), HostEffect::Unlock] = &effects[..] else {
        panic!("{effects:?}")
    };
    // The agent keeps the folder of such a run for 30 days.
    assert_eq!((memory.has_run, memory.done), (true, Some(HostState::Failed)));
    assert_eq!(bench.machine.state(), HostState::Failed);
    assert_eq!(bench.order(refuse()), []);
}

#[test]
fn a_lock_that_comes_after_the_end_is_given_back() {
    let (mut bench, _) = Bench::new(HostMemory::default());
    bench.order(Body::Refuse { reason: "another version".to_owned() });
    assert_eq!(bench.machine.state(), HostState::Refused);
    assert_eq!(bench.give(HostInput::Locked(Ok(()))), [HostEffect::Unlock]);
    // Repeated, until the coordinator knows the state.
    assert_eq!(bench.order(Body::Refuse { reason: "another version".to_owned() }), []);
}
