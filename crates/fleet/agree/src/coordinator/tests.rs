//! What the coordinator orders, records and decides, host by host.

use super::*;
use crate::clock::PROBES;
use crate::message::{
    FolderDigest, HostStatus, OrderedStart, PlanSummary, PlannedStep, RunFile, RunSummary,
    StartOrder, StartedStep,
};
use crate::tests::{CAMPAIGN, OneWord, signed, status};

mod failures;
mod records;
mod silences;
mod starts;
mod waits;

const FIRST: CampaignStep = CampaignStep { section: Some(0), round: 0, step: 0 };
/// Clocks of hosts are this far ahead of the coordinator's.
const AHEAD: u64 = 7_000;

/// A coordinator, hosts that answer probes at once, and what was sent and recorded.
struct Bench {
    machine: CoordinatorMachine,
    now: u64,
    statuses: BTreeMap<String, HostStatus>,
    sequence: u64,
    sent: Vec<(String, Body)>,
    changes: Vec<HostChange>,
    events: Vec<TimedCampaignEvent>,
    stored: Vec<u8>,
    questions: u32,
    finished: Option<CampaignOutcome>,
    /// Hosts that were asked for their clocks, and whether they were told them.
    probes: Vec<(String, bool)>,
    nonce: u64,
    hears_answers: bool,
}

fn config(hosts: &[&str], change: impl FnOnce(&mut CampaignPolicy)) -> CoordinatorConfig {
    let mut config = crate::tests::config(hosts);
    change(&mut config.policy);
    config
}

impl Bench {
    fn new(config: CoordinatorConfig) -> Self {
        Self::with(CoordinatorMachine::new(config, Nanos::from_secs(100)), 100_000)
    }

    fn with(machine: CoordinatorMachine, now: u64) -> Self {
        Self {
            machine,
            now,
            statuses: BTreeMap::new(),
            sequence: 0,
            sent: Vec::new(),
            changes: Vec::new(),
            events: Vec::new(),
            stored: Vec::new(),
            questions: 0,
            finished: None,
            probes: Vec::new(),
            nonce: 0,
            hears_answers: true,
        }
    }

    fn give(&mut self, input: CoordinatorInput) {
        let now = Nanos::from_millis(self.now);
        let effects = self.machine.handle(now, input, &OneWord);
        for effect in effects {
            match effect {
                CoordinatorEffect::Send { to: Recipient::Host(host), message } => {
                    if let Body::Probe { nonce, clock, .. } = message.body {
                        self.nonce = nonce;
                        self.probes.push((host.clone(), clock.is_some()));
                        let at_ns = (self.now + AHEAD) * 1_000_000;
                        if self.hears_answers {
                            self.say(&host, Body::Answer { nonce, at_ns });
                        }
                    } else {
                        self.sent.push((host, message.body));
                    }
                }
                CoordinatorEffect::Send { .. } => {}
                CoordinatorEffect::Change(change) => self.changes.push(change),
                CoordinatorEffect::Event(line) => self.events.push(line),
                CoordinatorEffect::AskOperator { .. } => self.questions += 1,
                CoordinatorEffect::Store { bytes, .. } => self.stored.extend(bytes),
                CoordinatorEffect::Finish(outcome) => self.finished = Some(outcome),
            }
        }
    }

    fn say(&mut self, host: &str, body: Body) {
        self.sequence += 1;
        let message = signed(host, (1, self.sequence), body);
        self.give(CoordinatorInput::Message { host: host.to_owned(), message });
    }

    /// Changes what a host says, and says it.
    fn report(&mut self, host: &str, change: impl FnOnce(&mut HostStatus)) {
        let joined = || status(host, HostState::Joined);
        let known = self.statuses.entry(host.to_owned()).or_insert_with(joined);
        change(known);
        known.at_ns = (self.now + AHEAD) * 1_000_000;
        let status = known.clone();
        self.say(host, Body::Status(Box::new(status)));
    }

    /// Ticks of 20 ms; hosts that have said something say it again every 500 ms.
    fn pass(&mut self, millis: u64, silent: &[&str]) {
        let end = self.now + millis;
        while self.now < end {
            self.now += 20;
            if self.now.is_multiple_of(500) {
                let hosts: Vec<String> = self.statuses.keys().cloned().collect();
                for host in hosts.iter().filter(|host| !silent.contains(&host.as_str())) {
                    self.report(host, |_| ());
                }
            }
            self.give(CoordinatorInput::Tick);
        }
    }

    fn sent_to(&self, host: &str, kind: &str) -> usize {
        self.sent.iter().filter(|(to, body)| to == host && body.kind() == kind).count()
    }

    fn state(&self, host: &str) -> HostState {
        self.machine.state(host).expect("a host of the campaign")
    }

    fn events(&self) -> Vec<&CampaignEvent> {
        self.events.iter().map(|line| &line.event).collect()
    }

    /// All hosts armed for the first step.
    fn armed(hosts: &[&str], change: impl FnOnce(&mut CampaignPolicy)) -> Self {
        let mut bench = Self::new(config(hosts, change));
        hosts.iter().for_each(|host| bench.report(host, |_| ()));
        bench.pass(600, &[]);
        let step = |number: u32| PlannedStep {
            step: CampaignStep { step: number, ..FIRST },
            length_ns: (number < 2).then_some(4_000_000_000),
        };
        let plan = PlanSummary::new("p", (0..4).map(step).collect());
        for host in hosts {
            assert_eq!(bench.sent_to(host, "plan"), 2, "repeated after 500 ms");
            bench.report(host, |status| {
                (status.state, status.plan) = (HostState::Planned, Some(plan.clone()));
            });
        }
        bench.pass(20, &[]);
        assert_eq!(bench.questions, 1);
        assert_eq!(bench.sent_to(hosts[0], "run"), 0, "not before the operator's word");
        bench.give(CoordinatorInput::Operator(OperatorOrder::Go));
        bench.pass(20, &[]);
        for host in hosts {
            bench.report(host, |status| {
                (status.state, status.waiting) = (HostState::Armed, Some(FIRST));
            });
        }
        bench
    }

    /// The newest order to start.
    fn start_order(&self) -> StartOrder {
        let orders = self.sent.iter().rev().find_map(|(_, body)| match body {
            Body::Start(order) => Some((**order).clone()),
            _ => None,
        });
        orders.expect("an order to start")
    }

    fn acknowledge(&mut self, host: &str, attempt: u32) {
        self.report(host, |status| {
            status.state = HostState::Ordered;
            status.ordered = Some(OrderedStart { step: FIRST, attempt });
        });
    }

    fn run_to_end(&mut self, host: &str, content: &[u8]) {
        self.end_run(host, content, None);
    }

    /// A run that was cut has a reason.
    fn end_run(&mut self, host: &str, content: &[u8], reason: Option<&str>) {
        let mut digest = FolderDigest::default();
        let file = RunFile { name: "events.jsonl".to_owned(), bytes: content.len() as u64 };
        digest.begin_file(&file);
        digest.update(content);
        let name = format!("run-of-{host}");
        let (partial, digest) = (reason.is_some(), digest.finish());
        let run = RunSummary { name, partial, digest, files: vec![file] };
        self.report(host, |status| {
            (status.state, status.run) = (HostState::Ended, Some(run));
            status.reason = reason.map(str::to_owned);
        });
    }

    fn piece(&mut self, host: &str, run: &str, bytes: &[u8]) {
        self.sequence += 1;
        let body = Body::Piece { run: run.to_owned(), file: "events.jsonl".to_owned(), offset: 0 };
        let unsigned = BusMessage::new(CAMPAIGN, host, (1, self.sequence), body);
        let message = BusMessage { bytes: bytes.to_vec(), ..unsigned };
        self.give(CoordinatorInput::Message { host: host.to_owned(), message });
    }
}

#[test]
fn a_start_is_ordered_for_all_half_a_second_ahead_with_the_timetable_of_the_timed_steps() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    // 16 questions, 20 ms apart.
    bench.pass(20 * u64::from(PROBES), &[]);
    assert_eq!(bench.sent_to("a", "start"), 0);
    bench.pass(40, &[]);
    assert_eq!((bench.sent_to("a", "start"), bench.sent_to("b", "start")), (1, 1));
    let order = bench.start_order();
    let lead = order.at.get() / 1_000_000 - bench.now;
    assert!((460..=500).contains(&lead), "{lead}");
    assert_eq!(order.not_after.get() - order.at.get(), 100_000_000);
    assert_eq!(order.clock.offset_ns, 7_000_000_000);
    let times: Vec<(u32, u64)> = order
        .timetable
        .iter()
        .map(|entry| (entry.step.step, (entry.at.get() - order.at.get()) / 1_000_000))
        .collect();
    // 4 s and 1 s of slack each; step 2 has no length, so step 3 needs an order.
    assert_eq!(times, [(1, 5_000), (2, 10_000)]);
    for host in ["a", "b"] {
        bench.acknowledge(host, 1);
    }
    bench.pass(600, &[]);
    for (host, late) in [("a", 0), ("b", 70_000)] {
        let at_ns = order.at.get() + AHEAD * 1_000_000 + late;
        bench.report(host, |status| {
            status.state = HostState::Running;
            status.started = Some(StartedStep { step: FIRST, at_ns });
        });
    }
    bench.pass(20, &[]);
    let passed = bench.events().into_iter().find_map(|event| match event {
        CampaignEvent::BarrierPassed { step, skew_ns, .. } => Some((*step, *skew_ns)),
        _ => None,
    });
    assert_eq!(passed, Some((0, 70_000)));
    assert_eq!(bench.sent_to("a", "cancel"), 0);
}

#[test]
fn a_start_that_a_host_does_not_acknowledge_is_cancelled_three_times_and_then_the_host_is_left() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    for attempt in 1..=3 {
        bench.pass(400, &[]);
        assert_eq!(bench.start_order().attempt, attempt);
        bench.acknowledge("a", attempt);
        bench.pass(300, &[]);
        assert_eq!(bench.sent_to("a", "cancel"), attempt as usize);
        let again = |status: &mut HostStatus| {
            (status.state, status.ordered) = (HostState::Armed, None);
        };
        bench.report("a", again);
    }
    let silent: Vec<&CampaignEvent> = bench
        .events()
        .into_iter()
        .filter(|event| {
            matches!(event, CampaignEvent::BarrierCancelled { silent, .. } if silent == &["b"])
        })
        .collect();
    assert_eq!(silent.len(), 3);
    bench.pass(600, &[]);
    assert!(bench.sent_to("b", "stop") >= 1 && bench.sent_to("a", "stop") == 0);
    assert_eq!(bench.start_order().attempt, 4, "for the others");
}

#[test]
fn a_host_is_lost_after_1500_ms_by_the_time_inside_its_words_and_comes_back() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    let word = bench.now;
    let stale = (word + AHEAD) * 1_000_000;
    let silent = ["b"];
    bench.pass(1_500, &silent);
    assert_eq!(bench.state("b"), HostState::Armed);
    bench.pass(20, &silent);
    assert_eq!(bench.state("b"), HostState::Lost);
    // In its favour by the bound of its clock, 402 ns.
    let lost = CampaignEvent::HostLost { host: "b".to_owned(), silent_ns: 1_519_999_598 };
    assert!(bench.events().contains(&&lost), "{:?}", bench.events());
    // What the client kept while it was cut off does not show life.
    let mut old = bench.statuses["b"].clone();
    old.at_ns = stale;
    bench.say("b", Body::Status(Box::new(old)));
    assert_eq!(bench.state("b"), HostState::Lost);
    bench.report("b", |_| ());
    assert_eq!(bench.state("b"), HostState::Armed);
    assert!(bench.events().contains(&&CampaignEvent::HostBack { host: "b".to_owned() }));
}

#[test]
fn a_policy_that_stops_tells_all_hosts_to_stop_when_one_is_lost() {
    let mut bench = Bench::armed(&["a", "b"], |policy| policy.lost = LostPolicy::Stop);
    bench.pass(1_600, &["b"]);
    assert!(bench.sent_to("a", "stop") >= 1);
    bench.report("a", |status| status.state = HostState::Stopped);
    bench.pass(60_100, &["b"]);
    assert_eq!(bench.finished, Some(CampaignOutcome::Stopped));
    assert_eq!((bench.state("a"), bench.state("b")), (HostState::Stopped, HostState::Lost));
}

#[test]
fn hosts_of_other_versions_or_protocols_twins_and_late_ones_are_refused_by_name() {
    let mut bench = Bench::new(config(&["a", "b", "c", "d", "e"], |_| ()));
    bench.report("a", |_| ());
    bench.report("b", |status| status.machine.version = "0.5.0".to_owned());
    bench.report("c", |status| status.machine.machine_id = "machine of a".to_owned());
    bench.report("d", |status| status.machine.version = "0.4.9".to_owned());
    let protocol = Protocol { major: 2, minor: 1 };
    bench.give(CoordinatorInput::OtherProtocol { host: "e".to_owned(), protocol });
    let reason = |bench: &Bench, host: &str| {
        let last = bench.changes.iter().rev().find(|change| change.host == host);
        last.and_then(|change| change.reason.clone()).unwrap_or_default()
    };
    assert_eq!(reason(&bench, "b"), "has durio 0.5.0, expected 0.4.2");
    assert_eq!(reason(&bench, "c"), "is the same machine as a");
    assert_eq!(reason(&bench, "e"), "speaks protocol 2.1, expected 1.1");
    assert_eq!(
        (bench.state("d"), &*reason(&bench, "d")),
        (HostState::Joined, "durio 0.4.9, here 0.4.2")
    );
    bench.pass(40, &[]);
    assert!(bench.sent_to("b", "refuse") == 1 && bench.sent_to("d", "plan") == 1);

    let mut bench = Bench::new(config(&["a", "late"], |_| ()));
    bench.report("a", |_| ());
    bench.pass(60_000, &[]);
    assert_eq!(bench.state("late"), HostState::Asked);
    bench.pass(40, &[]);
    assert_eq!(bench.state("late"), HostState::Lost);
    bench.report("late", |_| ());
    bench.report("stranger", |_| ());
    bench.pass(20, &[]);
    assert_eq!(bench.state("late"), HostState::Refused);
    assert!(bench.sent_to("late", "plan") == 0 && bench.sent_to("late", "refuse") == 1);
    for host in ["late", "stranger"] {
        let event = CampaignEvent::LateJoiner { host: host.to_owned() };
        assert!(bench.events().contains(&&event), "{host}");
    }
}

#[test]
fn folders_are_collected_when_all_runs_have_ended_and_compared_with_their_digest() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    bench.run_to_end("a", b"content of a");
    bench.pass(100, &[]);
    assert_eq!(bench.sent_to("a", "fetch"), 0, "b still runs");
    bench.run_to_end("b", b"content of b");
    bench.pass(20, &[]);
    assert_eq!((bench.sent_to("a", "fetch"), bench.sent_to("b", "fetch")), (1, 1));
    // Of another run, and shorter than the file.
    bench.piece("a", "run-of-b", b"content of b");
    bench.piece("a", "run-of-a", b"content of");
    assert_eq!((bench.state("a"), bench.stored.len()), (HostState::Ended, 0));
    bench.piece("a", "run-of-a", b"content of a");
    assert_eq!(bench.state("a"), HostState::Collected);
    assert_eq!(bench.stored, b"content of a");
    for failures in 1..=3 {
        bench.piece("b", "run-of-b", b"content of x");
        let expected = if failures < 3 { HostState::Ended } else { HostState::Failed };
        assert_eq!(bench.state("b"), expected);
        bench.pass(20, &[]);
    }
    assert_eq!(bench.machine.pooled_hosts(FIRST), ["a"]);
    assert_eq!(bench.sent_to("a", "release"), 1);
    bench.report("a", |status| status.state = HostState::Collected);
    bench.pass(20, &[]);
    assert_eq!(bench.finished, Some(CampaignOutcome::Complete));
}

#[test]
fn a_message_under_the_name_of_another_host_or_without_its_signature_is_ignored() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    let mut failed = bench.statuses["a"].clone();
    failed.state = HostState::Failed;
    let failure = signed("a", (2, 1_000_000), Body::Status(Box::new(failed)));
    for (host, signature, expected) in [
        ("b", "signed", HostState::Armed),
        ("a", "forged", HostState::Armed),
        ("a", "signed", HostState::Failed),
    ] {
        let message = BusMessage { signature: Some(signature.to_owned()), ..failure.clone() };
        bench.give(CoordinatorInput::Message { host: host.to_owned(), message });
        assert_eq!(bench.state("a"), expected, "{host} {signature}");
    }
}

#[test]
fn a_resumed_campaign_goes_on_keeps_final_states_and_does_not_know_what_ran_before() {
    let mut bench = Bench::armed(&["a", "b", "c"], |_| ());
    bench.report("c", |status| {
        (status.state, status.reason) = (HostState::Failed, Some("EIO".to_owned()));
    });
    bench.pass(1_600, &["b"]);
    bench.report("b", |_| ());
    let (changes, events) = (bench.changes.clone(), bench.events.clone());
    let config = config(&["a", "b", "c"], |_| ());
    let now = Nanos::from_secs(900);
    let (machine, effects) = CoordinatorMachine::resume(config, &changes, &events, now);
    let resumed = effects.iter().any(|effect| {
        matches!(effect, CoordinatorEffect::Event(line)
            if line.event == CampaignEvent::Resumed { hosts: 3 } && line.at >= events[0].at)
    });
    assert!(resumed, "{effects:?}");
    let mut after = Bench::with(machine, 900_000);
    after.sequence = bench.sequence;
    assert_eq!(after.state("c"), HostState::Failed);
    after.statuses = bench.statuses.clone();
    for host in ["a", "b"] {
        after.report(host, |_| ());
    }
    after.pass(500, &[]);
    assert_eq!((after.sent_to("a", "start"), after.sent_to("c", "start")), (1, 0));
    assert_eq!(after.sent_to("a", "plan") + after.sent_to("a", "run"), 0);
    after.run_to_end("a", b"a");
    after.run_to_end("b", b"b");
    after.pass(20, &[]);
    // `b` was lost once.
    assert_eq!(after.machine.pooled_hosts(FIRST), ["a"]);
    assert_eq!(after.changes.iter().filter(|change| change.host == "c").count(), 0);
}

#[test]
fn an_answer_to_an_earlier_process_is_none_to_this_one() {
    let bench = Bench::armed(&["a"], |_| ());
    let now = Nanos::from_secs(900);
    let config = config(&["a"], |_| ());
    let (machine, _) = CoordinatorMachine::resume(config, &bench.changes, &bench.events, now);
    let mut after = Bench::with(machine, 900_000);
    (after.sequence, after.hears_answers) = (bench.sequence, false);
    after.statuses = bench.statuses.clone();
    after.report("a", |_| ());
    after.pass(20, &[]);
    let at_ns = (900_000 + 3 * AHEAD) * 1_000_000;
    (1..=100).for_each(|nonce| after.say("a", Body::Answer { nonce, at_ns }));
    assert_eq!(after.machine.clock("a"), None);
    after.hears_answers = true;
    after.pass(20, &[]);
    let clock = after.machine.clock("a").map(|clock| clock.at(Nanos::ZERO).offset_ns);
    assert_eq!(clock, Some(7_000_000_000));
}

#[test]
fn a_lost_host_is_asked_for_its_clock_and_told_nothing_that_keeps_it_running() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    bench.pass(1_600, &["b"]);
    assert_eq!(bench.state("b"), HostState::Lost);
    bench.probes.clear();
    bench.pass(5_000, &["b"]);
    let clocks = |bench: &Bench, host: &str| -> Vec<bool> {
        let of_host = |probe: &&(String, bool)| probe.0 == host;
        bench.probes.iter().filter(of_host).map(|probe| probe.1).collect()
    };
    assert!(clocks(&bench, "a").iter().all(|&has_clock| has_clock));
    assert!(clocks(&bench, "b").iter().all(|&has_clock| !has_clock));
    assert!(!clocks(&bench, "b").is_empty());
    // Back, it has words within 20 ms.
    bench.probes.clear();
    bench.report("b", |_| ());
    bench.pass(20, &[]);
    assert_eq!(clocks(&bench, "b"), [true]);
}

#[test]
fn a_host_whose_clock_is_hardly_known_is_not_lost_for_its_bound() {
    let mut bench = Bench::armed(&["a"], |_| ());
    // Its clock stood still for 4 s, and the bus kept the answer for 3 s.
    bench.hears_answers = false;
    bench.pass(5_000, &[]);
    let at_ns = (bench.now + AHEAD - 4_000) * 1_000_000;
    let nonce = bench.nonce;
    bench.now += 3_000;
    bench.report("a", |_| ());
    bench.say("a", Body::Answer { nonce, at_ns });
    for _ in 0..10 {
        bench.now += 500;
        bench.report("a", |_| ());
        bench.give(CoordinatorInput::Tick);
        assert!(bench.machine.is_alive("a"), "{}", bench.now);
    }
}

#[test]
fn a_twin_that_was_lost_when_the_others_planned_is_refused_when_it_is_back() {
    let joined = |host: &str| {
        let mut bench = Bench::new(config(&["a", "b"], |_| ()));
        bench.report(host, |_| ());
        bench.changes.clone()
    };
    // Each was let in by a process that did not know the other.
    let changes: Vec<HostChange> = joined("a").into_iter().chain(joined("b")).collect();
    let now = Nanos::from_secs(900);
    let config = config(&["a", "b"], |_| ());
    let (machine, _) = CoordinatorMachine::resume(config, &changes, &[], now);
    let mut bench = Bench::with(machine, 900_000);
    bench.sequence = 100;
    let plan = |status: &mut HostStatus| {
        status.machine.machine_id = "m".to_owned();
        status.state = HostState::Planned;
        status.plan = Some(PlanSummary::new("p", Vec::new()));
    };
    bench.report("a", plan);
    bench.pass(2_000, &["b"]);
    bench.give(CoordinatorInput::Operator(OperatorOrder::Go));
    assert_eq!((bench.state("a"), bench.state("b")), (HostState::Planned, HostState::Lost));
    bench.report("b", plan);
    assert_eq!(bench.state("b"), HostState::Refused);
    bench.pass(40, &[]);
    assert_eq!((bench.sent_to("a", "run"), bench.sent_to("b", "run")), (1, 0));
}
