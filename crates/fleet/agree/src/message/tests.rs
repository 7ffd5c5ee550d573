//! Messages are read as they were written, within their limits, and from the right version alone.

use super::*;

const CAMPAIGN: &str = "00112233445566778899aabbccddeeff";

fn message(body: Body) -> BusMessage {
    BusMessage {
        protocol: PROTOCOL,
        campaign: CAMPAIGN.to_owned(),
        sender: "db-1.example".to_owned(),
        incarnation: 7,
        sequence: 12,
        body,
        signature: Some("signed".to_owned()),
        bytes: Vec::new(),
    }
}

fn status() -> HostStatus {
    let machine = HostIdentity {
        machine_id: "4c4c".to_owned(),
        boot_id: "b00t".to_owned(),
        version: "0.1.0".to_owned(),
    };
    HostStatus {
        state: HostState::Ended,
        at_ns: u64::MAX,
        machine,
        plan: None,
        waiting: None,
        ordered: None,
        started: None,
        run: Some(run(&[("events.jsonl", 7)])),
        reason: None,
    }
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
    assert_eq!(error, "'db-7' speaks protocol 2.0; expected 1.0");
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
