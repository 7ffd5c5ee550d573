//! Who is let in, what the record has, which folders are fetched, and what a later process knows.

use super::*;

fn first_word(host: &str) -> Body {
    Body::Status(Box::new(status(host, HostState::Joined)))
}

#[test]
fn a_change_has_the_plan_the_run_and_the_digest_of_its_state_alone() {
    let mut bench = Bench::armed(&["a"], |_| ());
    bench.run_to_end("a", b"content");
    bench.pass(20, &[]);
    bench.piece("a", "run-of-a", b"content");
    let digest = bench.statuses["a"].run.as_ref().map(|run| run.digest.clone());
    let (plan, run) = (Some("p".to_owned()), Some("run-of-a".to_owned()));
    let found: Vec<_> = bench
        .changes
        .iter()
        .cloned()
        .map(|change| {
            let HostChange { at, state, plan_digest, run, folder_digest, .. } = change;
            (at, state, plan_digest, run, folder_digest)
        })
        .collect();
    let at = Nanos::from_millis;
    let expected = [
        (at(0), HostState::Joined, None, None, None),
        (at(600), HostState::Planned, plan, None, None),
        (at(640), HostState::Armed, None, None, None),
        (at(640), HostState::Ended, None, run.clone(), None),
        (at(660), HostState::Collected, None, run, digest),
    ];
    assert_eq!(found, expected);
    let offsets = bench.changes.iter().map(|change| change.clock.map(|clock| clock.offset_ns));
    let known = Some(7_000_000_000);
    assert_eq!(offsets.collect::<Vec<_>>(), [None, known, known, known, known]);
}

#[test]
fn a_hundred_strangers_are_recorded_and_all_are_refused() {
    let mut bench = Bench::new(config(&["a"], |_| ()));
    for number in 0..101 {
        let name = format!("x{number}");
        bench.say(&name, first_word(&name));
        assert_eq!(bench.sent_to(&name, "refuse"), 1, "{name}");
    }
    assert_eq!((bench.events().len(), bench.machine.ignored), (100, 1));
    bench.say("x0", first_word("x0"));
    assert_eq!((bench.events().len(), bench.machine.ignored), (100, 2));
    let refuse = Body::Refuse { reason: "this host was not asked".to_owned() };
    assert_eq!(bench.sent.last(), Some(&("x0".to_owned(), refuse)));
}

#[test]
fn a_word_of_another_campaign_is_ignored() {
    let mut bench = Bench::new(config(&["a"], |_| ()));
    for (campaign, state, ignored) in [("d", HostState::Asked, 1), (CAMPAIGN, HostState::Joined, 1)]
    {
        let first = signed("a", (1, 1), first_word("a"));
        let message = BusMessage { campaign: campaign.to_owned(), ..first };
        bench.give(CoordinatorInput::Message { host: "a".to_owned(), message });
        assert_eq!((bench.state("a"), bench.machine.ignored), (state, ignored), "{campaign}");
    }
}

#[test]
fn a_machine_may_join_under_another_name_when_its_first_one_is_out() {
    let is_same = |status: &mut HostStatus| status.machine.machine_id = "machine of a".to_owned();
    let out = [HostState::Refused, HostState::Failed, HostState::Stopped];
    for (state, expected) in out
        .map(|state| (state, HostState::Joined))
        .into_iter()
        .chain([(HostState::Planned, HostState::Refused)])
    {
        let mut bench = Bench::new(config(&["a", "b"], |_| ()));
        bench.report("a", |_| ());
        bench.report("a", |status| status.state = state);
        bench.report("b", is_same);
        assert_eq!(bench.state("b"), expected, "{state:?}");
    }
    // A lost one may come back.
    let mut bench = Bench::new(config(&["a", "b"], |_| ()));
    bench.report("a", |_| ());
    bench.pass(1_520, &["a"]);
    assert_eq!(bench.state("a"), HostState::Lost);
    bench.report("b", is_same);
    assert_eq!(bench.state("b"), HostState::Refused);
}

#[test]
fn a_run_has_ended_when_its_folder_is_known_and_the_first_folder_counts() {
    let mut bench = Bench::armed(&["a", "b"], |_| ());
    bench.report("a", |status| status.state = HostState::Ended);
    assert_eq!(bench.state("a"), HostState::Armed);
    bench.run_to_end("a", b"content of a");
    assert_eq!(bench.state("a"), HostState::Ended);
    bench.report("a", |status| {
        let run = status.run.as_mut().expect("a run");
        run.name = "another".to_owned();
    });
    // A host that is back is not lost while it looks for its run.
    bench.pass(1_600, &["b"]);
    assert_eq!(bench.state("b"), HostState::Lost);
    bench.report("b", |status| status.state = HostState::Ended);
    assert_eq!(bench.state("b"), HostState::Ended);
    bench.pass(20, &[]);
    let fetched = bench.sent.iter().find_map(|(_, body)| match body {
        Body::Fetch { run, .. } => Some(run.as_str()),
        _ => None,
    });
    assert_eq!(fetched, Some("run-of-a"));
}

#[test]
fn eight_folders_are_fetched_at_a_time() {
    let hosts = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut bench = Bench::armed(&hosts, |_| ());
    hosts.iter().for_each(|host| bench.run_to_end(host, b"x"));
    bench.pass(40, &[]);
    let fetches = |bench: &Bench| hosts.map(|host| bench.sent_to(host, "fetch"));
    assert_eq!(fetches(&bench), [1, 1, 1, 1, 1, 1, 1, 1, 0]);
    bench.piece("c", "run-of-c", b"x");
    bench.pass(20, &[]);
    assert_eq!(fetches(&bench), [1; 9]);
}

#[test]
fn a_file_comes_in_pieces_of_256_kib_and_an_empty_one_needs_none() {
    let mut bench = Bench::armed(&["a"], |_| ());
    let content: Vec<u8> = (0..=250).cycle().take(300_000).collect();
    let files = [("empty", 0), ("events.jsonl", 300_000)]
        .map(|(name, bytes)| RunFile { name: name.to_owned(), bytes });
    let mut digest = FolderDigest::default();
    files.iter().for_each(|file| digest.begin_file(file));
    digest.update(&content);
    let (name, digest) = ("r".to_owned(), digest.finish());
    let run = RunSummary { name, partial: false, digest, files: files.into() };
    bench.report("a", |status| (status.state, status.run) = (HostState::Ended, Some(run)));
    bench.pass(20, &[]);
    // One byte short, the second before the first, and both.
    for (offset, end, stored) in
        [(0, 262_143, 0), (262_144, 300_000, 0), (0, 262_144, 262_144), (262_144, 300_000, 300_000)]
    {
        let (run, file) = ("r".to_owned(), "events.jsonl".to_owned());
        let body = Body::Piece { run, file, offset: offset as u64 };
        let bytes = content[offset..end].to_vec();
        let message = BusMessage { bytes, ..signed("a", (1, 1), body) };
        bench.give(CoordinatorInput::Message { host: "a".to_owned(), message });
        assert_eq!(bench.stored.len(), stored, "{offset} to {end}");
    }
    let fetched = bench.sent.iter().filter_map(|(_, body)| match body {
        Body::Fetch { file, offset, length, .. } => Some((file.as_str(), *offset, *length)),
        _ => None,
    });
    let expected = [("events.jsonl", 0, 262_144), ("events.jsonl", 262_144, 37_856)];
    assert_eq!(fetched.collect::<Vec<_>>(), expected);
    assert_eq!((bench.state("a"), bench.stored == content), (HostState::Collected, true));
}

#[test]
fn a_host_whose_folder_could_not_be_had_is_free_and_not_told_that_it_was_collected() {
    let mut bench = Bench::armed(&["a"], |_| ());
    bench.run_to_end("a", b"content");
    for _ in 0..3 {
        bench.pass(20, &[]);
        assert_eq!(bench.sent_to("a", "refuse"), 0);
        bench.piece("a", "run-of-a", b"CONTENT");
    }
    assert_eq!(bench.state("a"), HostState::Failed);
    let reason = bench.changes.last().and_then(|change| change.reason.clone());
    assert_eq!(reason.as_deref(), Some("the folder differed from its digest 3 times"));
    bench.pass(20, &[]);
    assert_eq!((bench.sent_to("a", "refuse"), bench.sent_to("a", "release")), (1, 0));
}

#[test]
fn a_host_that_was_silent_while_steps_ran_is_collected_with_that_remark_or_its_reason() {
    for (reason, expected) in [(None, "silent while steps ran"), (Some("EIO"), "EIO")] {
        let mut bench = Bench::armed(&["a", "b"], |_| ());
        bench.run_to_end("b", b"content of b");
        bench.report("a", |status| {
            (status.state, status.waiting) = (HostState::Running, None);
            status.started = Some(StartedStep { step: FIRST, at_ns: 1 });
        });
        bench.pass(1_600, &["a"]);
        assert_eq!(bench.state("a"), HostState::Lost);
        bench.report("a", |_| ());
        bench.end_run("a", b"content of a", reason);
        bench.pass(20, &[]);
        bench.piece("a", "run-of-a", b"content of a");
        let last = bench.changes.last().expect("a change");
        assert_eq!((last.host.as_str(), last.state), ("a", HostState::Collected));
        assert_eq!(last.reason.as_deref(), Some(expected));
    }
}

#[test]
fn a_step_is_one_of_the_plan_or_of_a_host_whose_plan_is_not_known() {
    let bench = Bench::armed(&["a"], |_| ());
    let has = |host: &str, step: u32| bench.machine.has_step(host, step);
    assert_eq!((has("a", 3), has("a", 4), has("b", 4)), (true, false, true));
    let is_alive = |host: &str| bench.machine.is_alive(host);
    assert_eq!((is_alive("a"), is_alive("b")), (true, false));
}

#[test]
fn a_resumed_coordinator_counts_on_from_all_earlier_ones_and_from_their_last_moment() {
    let line = |millis: u64, event| TimedCampaignEvent { at: Nanos::from_millis(millis), event };
    let resumed = || CampaignEvent::Resumed { hosts: 1 };
    let stranger = |host: &str| CampaignEvent::LateJoiner { host: host.to_owned() };
    let events = [line(10, resumed()), line(70, stranger("x")), line(40, resumed())];
    let config = config(&["a"], |_| ());
    let now = Nanos::from_secs(900);
    let (mut machine, effects) = CoordinatorMachine::resume(config, &[], &events, now);
    assert_eq!(effects, [CoordinatorEffect::Event(line(70, resumed()))]);
    let mut hear = |host: &str| {
        let (host, message) = (host.to_owned(), signed(host, (1, 1), first_word(host)));
        let input = CoordinatorInput::Message { host, message };
        machine.handle(Nanos::from_millis(900_005), input, &OneWord)
    };
    let effects = hear("y");
    let [CoordinatorEffect::Event(event), CoordinatorEffect::Send { to, message }] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!((event, to), (&line(75, stranger("y")), &Recipient::Host("y".to_owned())));
    assert_eq!((message.incarnation, message.sequence), (4, 1));
    // It is in the record already.
    let effects = hear("x");
    assert!(matches!(effects[..], [CoordinatorEffect::Send { .. }]), "{effects:?}");
}

#[test]
fn a_campaign_that_was_stopping_still_stops_when_it_is_resumed() {
    let mut bench = Bench::armed(&["a"], |_| ());
    bench.give(CoordinatorInput::Operator(OperatorOrder::Stop));
    let config = config(&["a"], |_| ());
    let now = Nanos::from_secs(900);
    let (machine, _) = CoordinatorMachine::resume(config, &bench.changes, &bench.events, now);
    let mut after = Bench::with(machine, 900_000);
    (after.sequence, after.statuses) = (bench.sequence, bench.statuses.clone());
    after.report("a", |_| ());
    after.pass(20, &[]);
    let stop = Body::Stop { reason: "the operator".to_owned() };
    assert_eq!(after.sent, [("a".to_owned(), stop)]);
    after.report("a", |status| status.state = HostState::Stopped);
    after.pass(20, &[]);
    assert_eq!(after.finished, Some(CampaignOutcome::Stopped));
}
