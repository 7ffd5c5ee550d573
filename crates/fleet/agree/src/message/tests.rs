//! Messages are read as they were written, within their limits, and from the right version alone.

use super::*;
use crate::tests::{CAMPAIGN, planned_write, signed};

fn message(body: Body) -> BusMessage {
    signed("db-1.example", (7, 12), body)
}

fn status() -> HostStatus {
    let run = Some(run(&[("events.jsonl", 7)]));
    HostStatus { at_ns: u64::MAX, run, ..crate::tests::status("db-1.example", HostState::Ended) }
}

fn run(files: &[(&str, u64)]) -> RunSummary {
    let file = |&(name, bytes): &(&str, u64)| RunFile { name: name.to_owned(), bytes };
    RunSummary {
        name: "2026-11-30T120000-000Z-check-7".to_owned(),
        partial: false,
        digest: "00".to_owned(),
        files: files.iter().map(file).collect(),
    }
}

fn refused(message: &BusMessage) -> String {
    BusMessage::decode(&message.encode().unwrap()).unwrap_err().to_string()
}

fn refused_status(change: impl FnOnce(&mut HostStatus)) -> String {
    let mut status = status();
    change(&mut status);
    refused(&message(Body::Status(Box::new(status))))
}

#[test]
fn a_message_is_read_as_it_was_written() {
    let start = StartOrder {
        step: CampaignStep { section: Some(2), round: 1, step: 9 },
        attempt: 3,
        boot_id: "b00t".to_owned(),
        at: Nanos::from_millis(5_500),
        not_after: Nanos::from_millis(5_600),
        clock: ClockOffset { offset_ns: -17, bound_ns: 80_000 },
        timetable: vec![TimetableEntry {
            step: CampaignStep { section: None, round: 0, step: 10 },
            at: Nanos::from_secs(9),
            not_after: Nanos::from_secs(10),
        }],
    };
    let mut piece = message(Body::Piece {
        run: "r".to_owned(),
        file: "events.jsonl".to_owned(),
        offset: 262_144,
    });
    // The first line break ends the line, later ones are contents.
    piece.bytes = b"a\nb\n\xff".to_vec();
    for message in [
        message(Body::Status(Box::new(status()))),
        message(Body::Start(Box::new(start))),
        message(Body::Probe { nonce: u64::MAX, at_ns: 1, clock: None }),
        message(Body::Stop { reason: "a\nb".to_owned() }),
        message(Body::Clocks { at_ns: 7, clocks: clocks(2) }),
        message(Body::Repeat { hosts: hosts(2) }),
        message(region(2, vec![message(Body::Status(Box::new(status())))])),
        piece,
    ] {
        assert_eq!(BusMessage::decode(&message.encode().unwrap()).unwrap(), message);
    }
}

#[test]
fn fields_that_a_later_minor_version_adds_are_ignored_and_another_major_version_is_named() {
    let text = format!(
        r#"{{"protocol":{{"major":1,"minor":9}},"campaign":"{CAMPAIGN}","sender":"a","incarnation":1,
        "sequence":2,"body":{{"kind":"release","run":"r","new":[1]}},"other":true}}"#
    );
    let text = text.replace('\n', " ");
    let message = BusMessage::decode(text.as_bytes()).unwrap();
    assert_eq!((message.protocol.minor, message.body.kind()), (9, "release"));
    let other = r#"{"protocol":{"major":2,"minor":0},"sender":"db-7","body":"of another form"}"#;
    let error = BusMessage::decode(other.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "'db-7' speaks protocol 2.0; expected 1.1");
}

#[test]
fn what_is_larger_than_its_limit_is_refused_and_what_reaches_it_is_not() {
    let spec = |bytes: usize| Body::Plan { spec: "s".repeat(bytes), spec_digest: String::new() };
    assert!(BusMessage::decode(&message(spec(131_072)).encode().unwrap()).is_ok());
    assert_eq!(refused(&message(spec(131_073))), "message with invalid or too long spec");
    let mut piece = message(Body::Piece { run: "r".to_owned(), file: "f".to_owned(), offset: 0 });
    piece.bytes = vec![0; 262_144];
    assert!(BusMessage::decode(&piece.encode().unwrap()).is_ok());
    piece.bytes.push(0);
    assert_eq!(refused(&piece), "message with invalid or too long piece");
    piece.bytes = vec![0; 1 << 20];
    let length = piece.encode().unwrap_err().to_string();
    assert!(length.ends_with("at most 1048576 are accepted"), "{length}");
    assert_eq!(
        BusMessage::decode(&vec![b' '; (1 << 20) + 1]).unwrap_err().to_string(),
        "message of 1048577 bytes; at most 1048576 are accepted"
    );
}

#[test]
fn a_hostile_status_is_refused() {
    assert_eq!(
        refused_status(|status| status.run = Some(run(&[("a", 1), ("a", 1)]))),
        "message with invalid or too long run"
    );
    for name in ["../a", "a/b", ".hidden", "-o", "", "a b", "a\n", "n".repeat(254).as_str()] {
        let what = refused_status(|status| status.run = Some(run(&[(name, 1)])));
        assert_eq!(what, "message with invalid or too long run", "{name:?}");
    }
    let sizes = [("a", RUN_BYTES_MAX), ("b", 1)];
    assert!(refused_status(|status| status.run = Some(run(&sizes))).ends_with("run"));
    let sizes = [("a", u64::MAX), ("b", u64::MAX)];
    assert!(refused_status(|status| status.run = Some(run(&sizes))).ends_with("run"));
    let whole = BusMessage::decode(
        &message(Body::Status(Box::new(HostStatus {
            run: Some(run(&[("a", RUN_BYTES_MAX), ("b", 0)])),
            ..status()
        })))
        .encode()
        .unwrap(),
    );
    assert!(whole.is_ok());
    assert!(refused_status(|status| status.reason = Some("r".repeat(2_001))).ends_with("reason"));
    let long = |status: &mut HostStatus| status.machine.boot_id = "b".repeat(254);
    assert!(refused_status(long).ends_with("machine"));
}

fn clocks(hosts: usize) -> BTreeMap<String, ClockOffset> {
    let clock = ClockOffset { offset_ns: -5, bound_ns: 9 };
    (0..hosts).map(|host| (format!("db-{host}"), clock)).collect()
}

fn hosts(count: usize) -> Vec<String> {
    (0..count).map(|host| format!("db-{host}")).collect()
}

fn region(hosts: usize, statuses: Vec<BusMessage>) -> Body {
    let words = (0..hosts).map(|host| (format!("db-{host}"), (1, -5, 9, (7, 2)))).collect();
    let boot_id = "b00t".to_owned();
    let report = Box::new(RegionReport { at_ns: u64::MAX, boot_id, words });
    Body::Region { report, statuses }
}

#[test]
fn a_region_has_two_thousand_hosts_and_statuses_that_would_be_accepted_alone() {
    for body in [
        region(2_000, Vec::new()),
        Body::Clocks { at_ns: 1, clocks: clocks(2_000) },
        Body::Repeat { hosts: hosts(2_000) },
    ] {
        assert!(BusMessage::decode(&message(body).encode().unwrap()).is_ok());
    }
    let long = region(2_001, Vec::new());
    assert_eq!(refused(&message(long)), "message with invalid or too long region");
    let long = Body::Clocks { at_ns: 1, clocks: clocks(2_001) };
    assert_eq!(refused(&message(long)), "message with invalid or too long clocks");
    let long = Body::Repeat { hosts: hosts(2_001) };
    assert_eq!(refused(&message(long)), "message with invalid or too long hosts");
    let hostile = HostStatus { reason: Some("r".repeat(2_001)), ..status() };
    let inner = [
        message(Body::Release { run: "r".to_owned() }),
        message(Body::Status(Box::new(hostile))),
        BusMessage { sender: "../x".to_owned(), ..message(Body::Status(Box::new(status()))) },
        // A report within a report.
        message(region(1, Vec::new())),
    ];
    for inner in inner {
        let outer = message(region(0, vec![inner]));
        assert_eq!(refused(&outer), "message with invalid or too long status");
    }
}

#[test]
fn a_sender_or_campaign_of_another_form_is_refused() {
    for sender in ["", "-oProxyCommand=x", "a b", "a/b", "<b>"] {
        let message = BusMessage {
            sender: sender.to_owned(),
            ..message(Body::Stop { reason: String::new() })
        };
        assert_eq!(refused(&message), "message with invalid or too long sender", "{sender:?}");
    }
    for campaign in ["", "00112233445566778899AABBCCDDEEFF", "00112233445566778899aabbccddeef"] {
        let stop = Body::Stop { reason: String::new() };
        let message = BusMessage { campaign: campaign.to_owned(), ..message(stop) };
        assert_eq!(refused(&message), "message with invalid or too long campaign");
    }
}

#[test]
fn a_signature_covers_everything_but_itself() {
    struct Expecting(Vec<u8>);
    impl Verify for Expecting {
        fn is_signed(&self, sender: &str, bytes: &[u8], signature: &str) -> bool {
            (sender, signature) == ("db-1.example", "signed") && bytes == self.0
        }
    }
    let signed = message(Body::Release { run: "r".to_owned() });
    let verify = Expecting(signed.signed_bytes().unwrap());
    assert!(signed.is_signed(&verify));
    assert!(!BusMessage { signature: None, ..signed.clone() }.is_signed(&verify));
    assert!(!BusMessage { sequence: 13, ..signed.clone() }.is_signed(&verify));
    assert!(!BusMessage { bytes: vec![0], ..signed.clone() }.is_signed(&verify));
    assert!(
        !BusMessage { body: Body::Release { run: "s".to_owned() }, ..signed }.is_signed(&verify)
    );
}

#[test]
fn no_text_that_a_server_has_a_party_sign_is_a_message() {
    let bytes = message(Body::Stop { reason: String::new() }).signed_bytes().unwrap();
    assert!(std::str::from_utf8(&bytes).is_err());
    assert_eq!(signable(b"x"), b"\xffdurio-fleet\nx");
}

#[test]
fn subjects_are_those_of_the_permissions() {
    let message = message(Body::Stop { reason: String::new() });
    let subject = |to| message.subject(&to);
    let prefix = format!("c.{CAMPAIGN}");
    assert_eq!(subject(Recipient::Coordinator), format!("{prefix}.h.db-1,example.stop"));
    assert_eq!(subject(Recipient::Host("b.c".to_owned())), format!("{prefix}.to.b,c.stop"));
    assert_eq!(subject(Recipient::All), format!("{prefix}.all.stop"));
}

#[test]
fn the_digest_of_a_folder_depends_on_names_sizes_and_bytes() {
    let digest_of = |name: &str, bytes: &[u8]| {
        let mut digest = FolderDigest::default();
        digest.begin_file(&RunFile { name: name.to_owned(), bytes: bytes.len() as u64 });
        digest.update(bytes);
        digest.finish()
    };
    let whole = digest_of("a", b"xyz");
    assert_eq!(whole.len(), 64);
    assert!(whole != digest_of("b", b"xyz") && whole != digest_of("a", b"xyy"));
    assert!(digest_of("ab", b"") != digest_of("a", b"b"));
    // SHA-256 of nothing.
    assert!(digest("").starts_with("e3b0c44298fc1c149afbf4c8996fb924"));
}

fn with_status(change: impl FnOnce(&mut HostStatus)) -> Body {
    let mut status = status();
    change(&mut status);
    Body::Status(Box::new(status))
}

fn with_plan(plan: PlanSummary) -> Body {
    with_status(|status| status.plan = Some(plan))
}

fn with_facts(facts: HostFacts) -> Body {
    with_plan(PlanSummary { facts: Some(Box::new(facts)), ..PlanSummary::default() })
}

#[test]
fn each_limit_of_a_body_is_reached_and_not_passed() {
    type Make = fn(usize) -> Body;
    let rows: [(&str, usize, Make); 16] = [
        ("reason", 2_000, |bytes| Body::Stop { reason: "r".repeat(bytes) }),
        ("reason", 2_000, |bytes| Body::Refuse { reason: "r".repeat(bytes) }),
        ("run", 253, |bytes| Body::Release { run: "r".repeat(bytes) }),
        ("file", 253, |bytes| Body::Fetch {
            run: "r".repeat(bytes),
            file: "f".to_owned(),
            offset: 0,
            length: 0,
        }),
        ("file", 253, |bytes| Body::Fetch {
            run: "r".to_owned(),
            file: "f".repeat(bytes),
            offset: 0,
            length: 0,
        }),
        ("file", 253, |bytes| Body::Piece {
            run: "r".to_owned(),
            file: "f".repeat(bytes),
            offset: 0,
        }),
        ("timetable", 4_096, |steps| {
            let (step, at, not_after) = (CampaignStep::default(), Nanos::ZERO, Nanos::ZERO);
            Body::Start(Box::new(StartOrder {
                step,
                attempt: 1,
                boot_id: String::new(),
                at,
                not_after,
                clock: ClockOffset { offset_ns: 0, bound_ns: 0 },
                timetable: vec![TimetableEntry { step, at, not_after }; steps],
            }))
        }),
        ("plan", 4_096, |steps| {
            let step = PlannedStep { step: CampaignStep::default(), length_ns: None };
            with_plan(PlanSummary::new("p", vec![step; steps]))
        }),
        ("plan", 4_096, |writes| {
            let writes = vec![planned_write(); writes];
            with_plan(PlanSummary { writes, ..PlanSummary::default() })
        }),
        ("plan", 253, |bytes| {
            with_facts(HostFacts { fleet: "v".repeat(bytes), ..HostFacts::default() })
        }),
        ("plan", 4_096, |places| {
            let (target, filesystem) = ("t".to_owned(), "f".to_owned());
            let place = PlaceFacts { target, filesystem, free_bytes: 1 };
            with_facts(HostFacts { places: vec![place; places], ..HostFacts::default() })
        }),
        ("reason", 2_000, |bytes| with_status(|status| status.reason = Some("r".repeat(bytes)))),
        ("machine", 253, |bytes| with_status(|status| status.machine.version = "v".repeat(bytes))),
        ("machine", 253, |bytes| {
            with_status(|status| status.machine.machine_id = "m".repeat(bytes))
        }),
        ("run", 1_000, |files| {
            let name = |number: usize| RunFile { name: format!("f{number}"), bytes: 1 };
            let files = (0..files).map(name).collect();
            with_status(|status| status.run = Some(RunSummary { files, ..run(&[]) }))
        }),
        // 4 GiB.
        ("run", 4_294_967_296, |bytes| {
            with_status(|status| status.run = Some(run(&[("a", bytes as u64)])))
        }),
    ];
    for (wrong, most, make) in rows {
        let decode = |count| BusMessage::decode(&message(make(count)).encode().unwrap());
        assert!(decode(most).is_ok(), "{wrong} {most}");
        let sentence = decode(most + 1).unwrap_err().to_string();
        assert_eq!(sentence, format!("message with invalid or too long {wrong}"), "{most}");
    }
}

#[test]
fn a_name_has_253_letters_digits_and_marks_at_most_and_begins_with_neither_dot_nor_dash() {
    let longest = "n".repeat(253);
    for name in ["a", "7", "_x", "db_1:2.Example-7", "a..b", longest.as_str()] {
        assert!(is_name(name), "{name}");
    }
    for name in ["", ".a", "-a", "a/b", "a b", "ä", "a\0", "a,b", "a*", "a>"] {
        assert!(!is_name(name), "{name}");
    }
}

/// What a party of another patch release sends and expects.
#[test]
fn bodies_have_the_keys_of_protocol_1() {
    for line in [
        r#"{"kind":"status","state":"running","at_ns":5,"machine":{"machine_id":"m","boot_id":"b","version":"0.1.0"},"waiting":{"round":1,"step":2},"ordered":{"step":{"round":0,"step":1},"attempt":3},"started":{"step":{"section":4,"round":0,"step":1},"at_ns":9},"run":{"name":"r","partial":true,"digest":"d","files":[{"name":"f","bytes":7}]},"reason":"EIO"}"#,
        r#"{"kind":"status","state":"planned","at_ns":5,"machine":{"machine_id":"m","boot_id":"b","version":"0.1.0"},"plan":{"plan_digest":"p","steps":[{"step":{"section":0,"round":0,"step":1},"length_ns":9}]}}"#,
        r#"{"kind":"answer","nonce":1,"at_ns":2}"#,
        r#"{"kind":"piece","run":"r","file":"f","offset":3}"#,
        r#"{"kind":"probe","nonce":1,"at_ns":2,"clock":{"offset_ns":-3,"bound_ns":4}}"#,
        r#"{"kind":"plan","spec":"s","spec_digest":"d"}"#,
        r#"{"kind":"run","plan_digest":"p","barrier":"section","silence_max_ns":1,"run_max_ns":2,"boot_id":"b","not_after_ns":3,"clock":{"offset_ns":-4,"bound_ns":5}}"#,
        r#"{"kind":"start","step":{"round":0,"step":1},"attempt":2,"boot_id":"b","at_ns":3,"not_after_ns":4,"clock":{"offset_ns":-5,"bound_ns":6},"timetable":[{"step":{"section":7,"round":0,"step":8},"at_ns":9,"not_after_ns":10}]}"#,
        r#"{"kind":"cancel","step":{"round":0,"step":1},"attempt":2}"#,
        r#"{"kind":"stop","reason":"r"}"#,
        r#"{"kind":"fetch","run":"r","file":"f","offset":1,"length":2}"#,
        r#"{"kind":"release","run":"r"}"#,
        r#"{"kind":"refuse","reason":"r"}"#,
    ] {
        let body: Body = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&body).unwrap(), line);
        let begin = format!("{{\"kind\":\"{}\"", body.kind());
        assert!(line.starts_with(&begin), "{begin}");
    }
}
