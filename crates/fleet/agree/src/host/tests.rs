//! What a host obeys, what it does not, and when it stops by itself.

mod deadlines;
mod limits;
mod orders;

use super::*;
use crate::message::{RunFile, TimetableEntry};
use crate::tests::{CAMPAIGN, OneWord, identity, signed};

const MS: u64 = 1_000_000;
/// The coordinator's clock is 3 s ahead of the host's.
const CLOCK: ClockOffset = ClockOffset { offset_ns: -3_000_000_000, bound_ns: 40_000 };
const STEP: CampaignStep = CampaignStep { section: Some(0), round: 0, step: 1 };
const NEXT: CampaignStep = CampaignStep { section: Some(0), round: 0, step: 2 };
const OTHER_SECTION: CampaignStep = CampaignStep { section: Some(1), round: 0, step: 3 };

/// A host with the coordinator's counter.
struct Bench {
    machine: HostMachine,
    sequence: u64,
    now: u64,
}

impl Bench {
    fn new(memory: HostMemory) -> (Self, Vec<HostEffect>) {
        let machine = HostIdentity { boot_id: "boot".to_owned(), ..identity("db-1") };
        let (name, campaign) = ("db-1".to_owned(), CAMPAIGN.to_owned());
        let config = HostConfig { name, campaign, machine, fault: None };
        let now = 10_000;
        let (machine, effects) = HostMachine::start(config, memory, Nanos::from_millis(now));
        let mut bench = Self { machine, sequence: 0, now };
        bench.give(HostInput::Connected(true));
        (bench, effects)
    }

    /// With a plan that is permitted.
    fn planned() -> Self {
        let (mut bench, effects) = Self::new(HostMemory::default());
        assert_eq!(effects, [HostEffect::Lock]);
        bench.give(HostInput::Locked(Ok(())));
        let spec = "spec".to_owned();
        let effects = bench.order(Body::Plan { spec_digest: digest(&spec), spec });
        assert_eq!(effects, [HostEffect::Plan { spec: "spec".to_owned() }]);
        let plan = PlanSummary::new("plan", Vec::new());
        bench.give(HostInput::Planned(Ok(plan)));
        assert_eq!(bench.machine.state(), HostState::Planned);
        bench
    }

    /// Whose child waits for the start of [`STEP`].
    fn armed(barrier: Barrier) -> Self {
        let mut bench = Self::planned();
        let effects = bench.order(bench.run_order(barrier));
        assert!(effects.contains(&HostEffect::StartChild), "{effects:?}");
        bench.give(HostInput::Child(ChildEvent::Ready(STEP)));
        assert_eq!(bench.machine.state(), HostState::Armed);
        bench
    }

    fn run_order(&self, barrier: Barrier) -> Body {
        Body::Run(Box::new(RunOrder {
            plan_digest: "plan".to_owned(),
            barrier,
            silence_max: Nanos::from_secs(30),
            run_max: Nanos::from_secs(100),
            boot_id: "boot".to_owned(),
            not_after: Nanos::from_millis(self.now + 3_000 + 5_000),
            clock: CLOCK,
        }))
    }

    /// A start at this time of the host's clock.
    fn start_order(step: CampaignStep, at: u64) -> StartOrder {
        StartOrder {
            step,
            attempt: 1,
            boot_id: "boot".to_owned(),
            at: Nanos::from_millis(at + 3_000),
            not_after: Nanos::from_millis(at + 3_100),
            clock: CLOCK,
            timetable: Vec::new(),
        }
    }

    fn start(&mut self, step: CampaignStep, at: u64) -> Vec<HostEffect> {
        self.order(Body::Start(Box::new(Self::start_order(step, at))))
    }

    fn message(&mut self, body: Body) -> BusMessage {
        self.sequence += 1;
        signed(COORDINATOR, (1, self.sequence), body)
    }

    /// Effects but for statuses, with a memory that is stored at once.
    fn give(&mut self, input: HostInput) -> Vec<HostEffect> {
        let mut effects = self.give_alone(input);
        if effects.iter().any(|effect| matches!(effect, HostEffect::Remember(_))) {
            effects.extend(self.give_alone(HostInput::Remembered(Ok(()))));
        }
        effects
    }

    fn give_alone(&mut self, input: HostInput) -> Vec<HostEffect> {
        let now = Nanos::from_millis(self.now);
        let mut effects = self.machine.handle(now, input, &OneWord);
        effects.retain(|effect| !is_status(effect));
        effects
    }

    /// The state that a heartbeat now has, and how long it says that the run has been quiet.
    fn heartbeat(&mut self) -> (HostState, Option<Nanos>) {
        let now = Nanos::from_millis(self.now);
        let effects = self.machine.handle(now, HostInput::Connected(true), &OneWord);
        let mut statuses = effects.into_iter().filter_map(|effect| match effect {
            HostEffect::Send(BusMessage { body: Body::Status(status), .. }) => Some(status),
            _ => None,
        });
        let status = statuses.next_back().expect("a status");
        assert_eq!(status.at_ns, self.now * MS);
        (status.state, status.quiet)
    }

    fn order(&mut self, body: Body) -> Vec<HostEffect> {
        let message = self.message(body);
        self.give(HostInput::Message(message))
    }

    /// A probe that the coordinator sent at this time of the host's clock.
    fn probe_of(&mut self, sent: u64) {
        let at_ns = (sent + 3_000) * MS;
        self.order(Body::Probe { nonce: 1, at_ns, clock: Some(CLOCK) });
    }

    fn tick_at(&mut self, now: u64) -> Vec<HostEffect> {
        self.now = now;
        self.give(HostInput::Tick)
    }
}

fn is_status(effect: &HostEffect) -> bool {
    matches!(effect, HostEffect::Send(BusMessage { body: Body::Status(_), .. }))
}

fn start_answer(at: u64, attempt: u32) -> HostEffect {
    let answer = GateAnswer::Start { at_ns: at * MS, offset_ns: 3_000_000_000, bound_ns: 40_000 };
    HostEffect::Answer { answer, attempt }
}

#[test]
fn the_child_is_told_100_ms_before_the_ordered_start_and_once() {
    let mut bench = Bench::armed(Barrier::Step);
    assert_eq!(bench.start(STEP, 10_600), []);
    assert_eq!(bench.machine.state(), HostState::Ordered);
    assert_eq!(bench.tick_at(10_499), []);
    assert_eq!(bench.tick_at(10_500), [start_answer(10_600, 1)]);
    assert_eq!(bench.machine.state(), HostState::Running);
    assert_eq!(bench.tick_at(10_550), []);
    // Ordered again, it does not wait for this step any more.
    assert_eq!(bench.start(STEP, 11_000), []);
    assert_eq!(bench.tick_at(10_950), []);
    assert_eq!(bench.machine.ignored(), 1);
}

#[test]
fn a_start_is_obeyed_until_its_last_moment_and_not_after() {
    let mut bench = Bench::armed(Barrier::Step);
    bench.now = 10_700;
    bench.start(STEP, 10_600);
    assert_eq!(bench.machine.state(), HostState::Ordered);
    // Late, it starts at once.
    let answers = bench.tick_at(10_700);
    let GateAnswer::Start { at_ns, .. } = answer(&answers) else { panic!("{answers:?}") };
    assert_eq!(at_ns, 10_700 * MS);

    let mut bench = Bench::armed(Barrier::Step);
    bench.now = 10_701;
    bench.start(STEP, 10_600);
    assert_eq!((bench.machine.state(), bench.machine.ignored()), (HostState::Armed, 1));

    // It had the order in time, and stood still.
    let mut bench = Bench::armed(Barrier::Step);
    bench.start(STEP, 10_600);
    assert_eq!(bench.tick_at(10_701), []);
    assert_eq!(bench.machine.state(), HostState::Armed);
}

fn answer(effects: &[HostEffect]) -> GateAnswer {
    let mut answers = effects.iter().filter_map(|effect| match effect {
        HostEffect::Answer { answer, .. } => Some(answer.clone()),
        _ => None,
    });
    answers.next_back().expect("an answer")
}

#[test]
fn a_cancelled_start_does_not_happen_and_its_duplicate_has_no_effect() {
    let mut bench = Bench::armed(Barrier::Step);
    let order = Box::new(Bench::start_order(STEP, 10_600));
    let start = bench.message(Body::Start(order));
    bench.give(HostInput::Message(start.clone()));
    bench.order(Body::Cancel { step: STEP, attempt: 2 });
    assert_eq!(bench.machine.state(), HostState::Ordered);
    bench.order(Body::Cancel { step: STEP, attempt: 1 });
    assert_eq!(bench.machine.state(), HostState::Armed);
    bench.give(HostInput::Message(start));
    assert_eq!(bench.tick_at(10_600), []);
    assert_eq!((bench.machine.state(), bench.machine.ignored()), (HostState::Armed, 2));
}

#[test]
fn foreign_unsigned_stale_and_misdirected_orders_are_ignored() {
    let mut bench = Bench::armed(Barrier::Step);
    let good = bench.message(Body::Stop { reason: "r".to_owned() });
    let bad = [
        BusMessage { campaign: "d".to_owned(), ..good.clone() },
        BusMessage { sender: "db-2".to_owned(), ..good.clone() },
        BusMessage { signature: None, ..good.clone() },
        BusMessage { signature: Some("forged".to_owned()), ..good.clone() },
        BusMessage { incarnation: 0, ..good.clone() },
        BusMessage { sequence: good.sequence - 1, ..good.clone() },
        BusMessage {
            body: Body::Piece { run: String::new(), file: String::new(), offset: 0 },
            ..good
        },
    ];
    for (count, message) in bad.into_iter().enumerate() {
        assert_eq!(bench.give(HostInput::Message(message)), []);
        assert_eq!(bench.machine.ignored(), count as u64 + 1);
    }
    // The last was newer than `good`, whose sequence it took.
    let other_boot =
        StartOrder { boot_id: "before".to_owned(), ..Bench::start_order(STEP, 10_600) };
    bench.order(Body::Start(Box::new(other_boot)));
    bench.start(NEXT, 10_600);
    assert_eq!((bench.machine.state(), bench.machine.ignored()), (HostState::Armed, 9));
}

#[test]
fn a_run_is_started_once_and_only_as_it_was_planned_and_while_the_order_lives() {
    let mut bench = Bench::planned();
    let Body::Run(order) = bench.run_order(Barrier::Step) else { panic!("a run") };
    let other = RunOrder { plan_digest: "other".to_owned(), ..(*order).clone() };
    assert_eq!(bench.order(Body::Run(Box::new(other))), []);
    // 5 s after the order.
    bench.now += 5_001;
    assert_eq!(bench.order(Body::Run(order.clone())), []);
    bench.now -= 1;
    let newest = (1, bench.sequence + 1);
    let memory = HostMemory { has_run: true, newest, ..HostMemory::default() };
    let effects = bench.order(Body::Run(order.clone()));
    assert_eq!(effects, [HostEffect::Remember(memory), HostEffect::StartChild]);
    assert_eq!(bench.order(Body::Run(order)), []);
    assert_eq!(bench.machine.ignored(), 3);
}

#[test]
fn without_permit_lock_or_an_honest_digest_nothing_is_started() {
    let refused = |inputs: Vec<HostInput>| {
        let (mut bench, _) = Bench::new(HostMemory::default());
        let effects = inputs.into_iter().flat_map(|input| bench.give(input)).collect::<Vec<_>>();
        let run = bench.run_order(Barrier::Step);
        assert_eq!(bench.order(run), []);
        (bench.machine.state(), bench.machine.reason.clone(), effects.last().cloned())
    };
    let (state, reason, last) = refused(vec![HostInput::Locked(Err("a7".to_owned()))]);
    assert_eq!(
        (state, reason.as_deref()),
        (HostState::Refused, Some("campaign a7 runs on this host"))
    );
    // The lock is the other's.
    assert!(!matches!(last, Some(HostEffect::Unlock)));
    let plan = Body::Plan { spec: "spec".to_owned(), spec_digest: digest("spec") };
    let lies = Body::Plan { spec: "spec".to_owned(), spec_digest: digest("other") };
    let mut bench = Bench::new(HostMemory::default()).0;
    let [plan, lies] = [plan, lies].map(|body| HostInput::Message(bench.message(body)));
    let (state, _, last) = refused(vec![HostInput::Locked(Ok(())), lies]);
    assert_eq!((state, last), (HostState::Refused, Some(HostEffect::Unlock)));
    let no_permit = HostInput::Planned(Err("/srv is not permitted".to_owned()));
    let (state, reason, last) = refused(vec![HostInput::Locked(Ok(())), plan, no_permit]);
    assert_eq!((state, last), (HostState::Refused, Some(HostEffect::Unlock)));
    assert_eq!(reason.as_deref(), Some("/srv is not permitted"));
}

#[test]
fn later_steps_are_free_as_the_barrier_says() {
    for (barrier, next, other) in [
        (Barrier::Start, HostState::Running, HostState::Running),
        (Barrier::Section, HostState::Running, HostState::Armed),
        (Barrier::Step, HostState::Armed, HostState::Armed),
    ] {
        for (step, expected) in [(NEXT, next), (OTHER_SECTION, other)] {
            let mut bench = Bench::armed(barrier);
            bench.start(STEP, 10_600);
            bench.tick_at(10_550);
            bench.give(HostInput::Child(ChildEvent::Ready(step)));
            assert_eq!(bench.machine.state(), expected, "{barrier:?} {step:?}");
        }
    }
}

#[test]
fn a_step_of_the_timetable_needs_no_message_and_ends_the_run_if_it_is_missed() {
    let armed = || {
        let mut bench = Bench::armed(Barrier::Step);
        let entry = TimetableEntry {
            step: NEXT,
            at: Nanos::from_millis(23_000),
            not_after: Nanos::from_millis(24_000),
        };
        let order = StartOrder { timetable: vec![entry], ..Bench::start_order(STEP, 10_600) };
        bench.order(Body::Start(Box::new(order)));
        bench.tick_at(10_550);
        bench
    };
    let mut bench = armed();
    bench.now = 15_000;
    // A better offset, of the same coordinator.
    let clock = ClockOffset { offset_ns: -3_000_001_000, bound_ns: 20_000 };
    bench.order(Body::Probe { nonce: 1, at_ns: 18_000 * MS, clock: Some(clock) });
    bench.give(HostInput::Child(ChildEvent::Ready(NEXT)));
    assert_eq!(bench.machine.state(), HostState::Ordered);
    let expected = GateAnswer::Start {
        at_ns: 20_000 * MS - 1_000,
        offset_ns: 3_000_001_000,
        // 5 s later, and one started millisecond.
        bound_ns: 20_000 + 5_001 * 201,
    };
    assert_eq!(answer(&bench.tick_at(19_950)), expected);

    let mut bench = armed();
    bench.now = 21_000;
    bench.give(HostInput::Child(ChildEvent::Ready(NEXT)));
    assert!(matches!(answer(&bench.tick_at(21_000)), GateAnswer::Start { .. }));
    let mut bench = armed();
    bench.now = 21_001;
    bench.give(HostInput::Child(ChildEvent::Ready(NEXT)));
    let effects = bench.tick_at(21_001);
    assert!(matches!(answer(&effects), GateAnswer::Abort(_)), "{effects:?}");
    assert!(effects.contains(&HostEffect::StopChild));
}

#[test]
fn a_run_ends_after_30_s_without_a_word_or_after_its_longest_time() {
    let mut bench = Bench::armed(Barrier::Step);
    assert_eq!(bench.tick_at(40_000), []);
    // Its offset may be 40 µs off.
    bench.probe_of(40_000);
    assert_eq!(bench.tick_at(69_999), []);
    let effects = bench.tick_at(70_000);
    assert!(effects.contains(&HostEffect::StopChild), "{effects:?}");
    bench.give(HostInput::ChildExited(Some("stopped".to_owned())));
    let run = RunSummary {
        name: "r".to_owned(),
        partial: false,
        digest: String::new(),
        files: Vec::new(),
    };
    bench.give(HostInput::Inspected(Ok(run)));
    assert_eq!(bench.machine.state(), HostState::Ended);
    assert!(bench.machine.run.as_ref().is_some_and(|run| run.partial));

    let mut bench = Bench::armed(Barrier::Step);
    for now in (11_000..=110_000).step_by(11_000) {
        assert_eq!(bench.tick_at(now), [], "{now}");
        bench.probe_of(now);
    }
    assert!(bench.tick_at(110_001).contains(&HostEffect::StopChild));
}

#[test]
fn words_that_waited_while_the_host_stood_still_count_from_when_they_were_sent() {
    let mut bench = Bench::armed(Barrier::Step);
    bench.probe_of(12_000);
    // It stands still from 13 s to 25 s; the coordinator was killed at 15 s.
    bench.now = 25_000;
    bench.probe_of(15_000);
    bench.order(Body::Cancel { step: STEP, attempt: 1 });
    // A new coordinator that does not know this clock yet.
    bench.order(Body::Probe { nonce: 2, at_ns: 28_000 * MS, clock: None });
    assert_eq!(bench.tick_at(44_999), []);
    let effects = bench.tick_at(45_000);
    assert!(effects.contains(&HostEffect::StopChild), "{effects:?}");

    // A time in the future counts as now.
    let mut bench = Bench::armed(Barrier::Step);
    bench.probe_of(900_000);
    assert_eq!(bench.tick_at(40_000), []);
    assert!(bench.tick_at(40_001).contains(&HostEffect::StopChild));
}

#[test]
fn the_order_to_run_is_a_word_for_a_host_that_was_cut_off_for_long() {
    let mut bench = Bench::planned();
    bench.now = 50_000;
    let run = bench.run_order(Barrier::Step);
    bench.order(run);
    assert_eq!(bench.tick_at(80_000), []);
    assert!(bench.tick_at(80_001).contains(&HostEffect::StopChild));
}

#[test]
fn the_last_words_of_a_child_that_has_exited_change_nothing() {
    let mut bench = Bench::armed(Barrier::Step);
    bench.give(HostInput::ChildExited(Some("signal 9".to_owned())));
    bench.give(HostInput::Inspected(Err("no folder".to_owned())));
    for event in [ChildEvent::Ready(NEXT), ChildEvent::Ended { step: 1 }] {
        assert_eq!(bench.give(HostInput::Child(event)), []);
        assert_eq!(bench.machine.state(), HostState::Failed);
    }
    assert_eq!(bench.machine.reason.as_deref(), Some("signal 9; no folder"));
}

fn run_summary() -> RunSummary {
    let name = "r".to_owned();
    RunSummary { name, partial: false, digest: "d".to_owned(), files: Vec::new() }
}

#[test]
fn a_child_that_fails_leaves_a_partial_run_to_collect_and_one_that_ends_a_whole_one() {
    for failure in [None, Some("signal 9".to_owned())] {
        let mut bench = Bench::armed(Barrier::Step);
        bench.start(STEP, 10_600);
        bench.tick_at(10_550);
        let effects = bench.give(HostInput::ChildExited(failure.clone()));
        assert_eq!(effects, [HostEffect::Inspect]);
        // Its order is not obeyed while the folder is read.
        assert_eq!(bench.start(NEXT, 10_700), []);
        bench.give(HostInput::Inspected(Ok(run_summary())));
        assert_eq!((bench.machine.state(), &bench.machine.reason), (HostState::Ended, &failure));
        let is_partial = bench.machine.run.as_ref().map(|run| run.partial);
        assert_eq!(is_partial, Some(failure.is_some()));
    }
}

#[test]
fn a_run_that_reaches_a_limit_of_its_host_ends_with_that_reason() {
    let limit = || HostInput::Stop("written_max".to_owned());
    let mut bench = Bench::armed(Barrier::Step);
    bench.start(STEP, 10_600);
    bench.tick_at(10_550);
    assert_eq!(bench.give(limit()), [HostEffect::StopChild]);
    assert_eq!(bench.give(limit()), [], "once");
    bench.give(HostInput::ChildExited(Some("interrupted".to_owned())));
    bench.give(HostInput::Inspected(Ok(run_summary())));
    assert_eq!(bench.machine.reason.as_deref(), Some("written_max"));
    assert!(bench.machine.run.as_ref().is_some_and(|run| run.partial));
}

#[test]
fn an_earlier_coordinator_is_not_obeyed_once_a_later_one_has_spoken() {
    let mut bench = Bench::armed(Barrier::Step);
    let stop = Body::Stop { reason: "r".to_owned() };
    let earlier = BusMessage { sequence: 1_000, ..bench.message(stop) };
    let later = BusMessage { incarnation: 2, sequence: 1, ..earlier.clone() };
    let probe = Body::Probe { nonce: 1, at_ns: 13_000 * MS, clock: None };
    let effects = bench.give(HostInput::Message(BusMessage { body: probe, ..later.clone() }));
    assert_eq!(effects.len(), 1, "an answer");
    assert_eq!(bench.give(HostInput::Message(earlier)), []);
    assert_eq!(bench.machine.ignored(), 1);
    let effects = bench.give(HostInput::Message(BusMessage { sequence: 2, ..later }));
    assert!(effects.contains(&HostEffect::StopChild), "{effects:?}");
}

#[test]
fn a_restarted_host_does_not_run_again_and_a_finished_one_stays_finished() {
    let memory = HostMemory { has_run: true, newest: (1, 7), ..HostMemory::default() };
    let (mut bench, effects) = Bench::new(memory);
    assert_eq!(effects, [HostEffect::Lock, HostEffect::Inspect]);
    assert_eq!(bench.machine.state(), HostState::Ended);
    bench.sequence = 6;
    bench.order(Body::Stop { reason: String::new() });
    assert_eq!(bench.machine.ignored(), 1);
    let spec = "spec".to_owned();
    assert_eq!(bench.order(Body::Plan { spec_digest: digest(&spec), spec }), []);
    let memory = HostMemory { done: Some(HostState::Collected), ..HostMemory::default() };
    let (bench, effects) = Bench::new(memory);
    assert_eq!((bench.machine.state(), effects), (HostState::Collected, vec![]));
}

#[test]
fn files_are_read_from_the_list_of_the_run_and_the_host_is_released_once() {
    let mut bench = Bench::armed(Barrier::Step);
    bench.give(HostInput::ChildExited(None));
    let file = RunFile { name: "events.jsonl".to_owned(), bytes: 9 };
    let run = RunSummary {
        name: "r".to_owned(),
        partial: false,
        digest: "d".to_owned(),
        files: vec![file],
    };
    bench.give(HostInput::Inspected(Ok(run)));
    let fetch = |run: &str, file: &str, length| Body::Fetch {
        run: run.to_owned(),
        file: file.to_owned(),
        offset: 0,
        length,
    };
    assert_eq!(bench.order(fetch("r", "/etc/shadow", 9)), []);
    assert_eq!(bench.order(fetch("other", "events.jsonl", 9)), []);
    assert_eq!(bench.order(fetch("r", "events.jsonl", PIECE_BYTES + 1)), []);
    let effects = bench.order(fetch("r", "events.jsonl", PIECE_BYTES));
    assert!(matches!(&effects[..], [HostEffect::Read { .. }]), "{effects:?}");
    assert_eq!(bench.order(Body::Release { run: "other".to_owned() }), []);
    let effects = bench.order(Body::Release { run: "r".to_owned() });
    assert!(matches!(&effects[..], [HostEffect::Remember(_), HostEffect::Unlock]), "{effects:?}");
    assert_eq!(bench.order(Body::Release { run: "r".to_owned() }), []);
    assert_eq!(bench.machine.state(), HostState::Collected);
}

#[test]
fn heartbeats_come_every_500_ms_and_not_while_the_bus_is_away() {
    let (mut bench, _) = Bench::new(HostMemory::default());
    let mut statuses = |now: u64, input: HostInput| {
        let effects = bench.machine.handle(Nanos::from_millis(now), input, &OneWord);
        effects.len()
    };
    assert_eq!(statuses(10_499, HostInput::Tick), 0);
    assert_eq!(statuses(10_500, HostInput::Tick), 1);
    assert_eq!(statuses(10_999, HostInput::Tick), 0);
    assert_eq!(statuses(11_000, HostInput::Tick), 1);
    assert_eq!(statuses(11_001, HostInput::Connected(false)), 0);
    assert_eq!(statuses(12_000, HostInput::Tick), 0);
    assert_eq!(statuses(12_100, HostInput::Connected(true)), 1);
}

#[test]
fn the_lines_of_the_gate_are_those_of_the_child() {
    let ready =
        r#"{"ready":{"step":1,"section":0,"round":0,"workload":"w","target":"t","seconds":3.5}}"#;
    assert_eq!(serde_json::from_str::<ChildEvent>(ready).unwrap(), ChildEvent::Ready(STEP));
    let ended = r#"{"ended":{"step":4,"outcome":"complete"}}"#;
    assert_eq!(serde_json::from_str::<ChildEvent>(ended).unwrap(), ChildEvent::Ended { step: 4 });
    let abort = serde_json::to_string(&GateAnswer::Abort("r".to_owned())).unwrap();
    assert_eq!(abort, r#"{"abort":"r"}"#);
    let HostEffect::Answer { answer, .. } = start_answer(2, 1) else { panic!("an answer") };
    assert_eq!(
        serde_json::to_string(&answer).unwrap(),
        r#"{"start":{"at_ns":2000000,"offset_ns":3000000000,"bound_ns":40000}}"#
    );
}
