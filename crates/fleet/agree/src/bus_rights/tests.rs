//! What a host may publish and hear, and which servers are accepted.

use durio_command::error_chain;

use super::*;
use crate::tests::CAMPAIGN;

/// Whether a subject is within a list, as NATS matches them.
fn allows(list: &[String], subject: &str) -> bool {
    list.iter().any(|allowed| match allowed.strip_suffix('>') {
        Some(begin) => subject.starts_with(begin) && subject.len() > begin.len(),
        None => allowed == subject,
    })
}

#[test]
fn a_host_speaks_for_itself_and_hears_the_coordinator_only() {
    let rights = permissions(CAMPAIGN, "db1.example");
    let subject = |rest: &str| format!("c.{CAMPAIGN}.{rest}");
    assert_eq!(rights.publish, [subject("h.db1,example.>")]);
    let inbox = "_INBOX.db1,example.>".to_owned();
    assert_eq!(rights.subscribe, [subject("all.>"), subject("to.db1,example.>"), inbox]);
    // Hosts of which one's name begins with the other's.
    for (other, may) in [("db1.example", true), ("db1", false), ("db1.example.org", false)] {
        let theirs = permissions(CAMPAIGN, other);
        let own = subject(&format!("h.{}.status", subject_token("db1.example")));
        let to_it = subject(&format!("to.{}.run", subject_token("db1.example")));
        assert_eq!(allows(&theirs.publish, &own), may, "{other}");
        assert_eq!(allows(&theirs.subscribe, &to_it), may, "{other}");
    }
    for order in ["all.start", "to.db1,example.run"] {
        assert!(!allows(&rights.publish, &subject(order)), "{order}");
    }
    for heard in
        [subject("h.db1,example.status"), "$JS.API.INFO".into(), "_INBOX.coordinator.1".into()]
    {
        assert!(!allows(&rights.subscribe, &heard), "{heard}");
    }
    assert!(!allows(&rights.publish, "c.ffff.h.db1,example.status"), "of another campaign");
}

#[test]
fn messages_go_to_subjects_that_their_senders_may_use() {
    use crate::message::{Body, BusMessage, COORDINATOR, Recipient};
    let message = |sender: &str, body| BusMessage::new(CAMPAIGN, sender, (1, 1), body);
    let name = "db1.example";
    let (host, coordinator) = (permissions(CAMPAIGN, name), coordinator_permissions(CAMPAIGN));
    let answer = message(name, Body::Answer { nonce: 1, at_ns: 7 });
    let answer = answer.subject(&Recipient::Coordinator);
    assert!(allows(&host.publish, &answer) && allows(&coordinator.subscribe, &answer), "{answer}");
    for to in [Recipient::All, Recipient::Host(name.to_owned())] {
        let order = message(COORDINATOR, Body::Stop { reason: String::new() }).subject(&to);
        assert!(allows(&coordinator.publish, &order) && allows(&host.subscribe, &order), "{order}");
        assert!(!allows(&host.publish, &order), "{order}");
    }
}

#[test]
fn a_relay_has_the_rights_of_one_host_and_its_hosts_have_none_on_the_coordinators_bus() {
    use crate::message::{Body, BusMessage, COORDINATOR, Recipient};
    use crate::relay::{host_behind, subject_by, subject_through};
    let (relay, host) = ("relay1.example", "db1.example");
    let (rights, coordinator) = (permissions(CAMPAIGN, relay), coordinator_permissions(CAMPAIGN));
    let stop = Body::Stop { reason: String::new() };
    let order = BusMessage::new(CAMPAIGN, COORDINATOR, (1, 1), stop);
    let to_host = subject_through(relay, host, &order);
    assert_eq!(to_host, format!("c.{CAMPAIGN}.to.relay1,example.db1,example.stop"));
    assert!(allows(&coordinator.publish, &to_host) && allows(&rights.subscribe, &to_host));
    assert!(!allows(&permissions(CAMPAIGN, host).subscribe, &to_host));
    assert!(!allows(&permissions(CAMPAIGN, "relay1").subscribe, &to_host), "another relay");
    assert_eq!(host_behind(&to_host).as_deref(), Some(host));
    assert_eq!(host_behind(&order.subject(&Recipient::Host(relay.to_owned()))), None);
    let answer = BusMessage::new(CAMPAIGN, host, (1, 1), Body::Answer { nonce: 1, at_ns: 7 });
    let passed_on = subject_by(relay, &answer);
    assert!(allows(&rights.publish, &passed_on) && allows(&coordinator.subscribe, &passed_on));
    assert!(!allows(&rights.publish, &answer.subject(&Recipient::Coordinator)));
}

#[test]
fn the_coordinator_has_the_reverse() {
    let rights = coordinator_permissions(CAMPAIGN);
    let subject = |rest: &str| format!("c.{CAMPAIGN}.{rest}");
    for order in [subject("all.start"), subject("to.db1.run"), "_INBOX.db1.7".to_owned()] {
        assert!(allows(&rights.publish, &order), "{order}");
    }
    assert!(allows(&rights.subscribe, &subject("h.db1.status")));
    for list in [&rights.publish, &rights.subscribe] {
        assert!(!allows(list, "$SYS.REQ.SERVER.PING"));
        assert!(!list.contains(&">".to_owned()));
    }
    assert!(!allows(&rights.publish, &subject("h.db1.status")), "it does not speak for hosts");
}

fn settings(address: &str, tls: Option<BusCertificate>) -> BusServer {
    BusServer {
        address: address.parse().unwrap(),
        port: 42_220,
        tls,
        coordinator: BusUser { key: "UC".to_owned(), rights: coordinator_permissions("7f") },
        hosts: vec![BusUser { key: "UH".to_owned(), rights: permissions("7f", "db1") }],
    }
}

#[test]
fn a_private_server_has_one_account_and_a_user_per_key() {
    let expected = r#"# Written by durio-fleet.
listen: "127.0.0.1:42220"
ping_interval: "1s"
ping_max: 2
max_payload: 1048576
max_connections: 131
accounts {
  DURIO {
    users: [
      { nkey: "UC", permissions: { publish: { allow: ["c.7f.all.>", "c.7f.to.>", "_INBOX.>"] }, subscribe: { allow: ["c.7f.h.>", "_INBOX.coordinator.>"] } } }
      { nkey: "UH", permissions: { publish: { allow: ["c.7f.h.db1.>"] }, subscribe: { allow: ["c.7f.all.>", "c.7f.to.db1.>", "_INBOX.db1.>"] }, allow_responses: { max: 1, expires: "1m" } } }
    ]
  }
}
"#;
    assert_eq!(server_configuration(&settings("127.0.0.1", None)).unwrap(), expected);
    let six = server_configuration(&settings("::1", None)).unwrap();
    assert!(six.contains("listen: \"[::1]:42220\"\n"), "{six}");
}

#[test]
fn users_of_a_sites_server_have_the_same_rights_in_all_campaigns() {
    let expected = r#"# coordinator
permissions: { publish: { allow: ["c.*.all.>", "c.*.to.>", "_INBOX.>", "j.all", "j.to.*"] }, subscribe: { allow: ["c.*.h.>", "_INBOX.coordinator.>", "j.h.*"] } }
# db1.example
permissions: { publish: { allow: ["c.*.h.db1,example.>", "j.h.db1,example"] }, subscribe: { allow: ["c.*.all.>", "c.*.to.db1,example.>", "_INBOX.db1,example.>", "j.all", "j.to.db1,example"] }, allow_responses: { max: 1, expires: "1m" } }
"#;
    assert_eq!(site_permissions(&["db1.example".to_owned()]), expected);
}

#[test]
fn a_host_that_joined_hears_its_own_calls_and_replies_for_itself_only() {
    let rights = standing_permissions("db1");
    for (list, subject, may) in [
        (&rights.subscribe, "j.to.db1", true),
        (&rights.subscribe, "j.to.db10", false),
        (&rights.subscribe, "j.h.db2", false),
        (&rights.publish, "j.h.db1", true),
        (&rights.publish, "j.h.db2", false),
        (&rights.publish, "j.to.db1", false),
        (&rights.publish, "j.all", false),
    ] {
        assert_eq!(allows(list, subject), may, "{subject}");
    }
}

#[test]
fn beyond_loopback_a_server_needs_tls() {
    let error = server_configuration(&settings("10.0.0.1", None)).unwrap_err();
    assert_eq!(error_chain(&error), "a bus on 10.0.0.1 needs TLS: it listens beyond this machine");
    assert!(server_configuration(&settings("0.0.0.0", None)).is_err());
    let tls = BusCertificate { certificate: "/k/a \"b\".pem".into(), key: "/k/key".into() };
    let text = server_configuration(&settings("10.0.0.1", Some(tls))).unwrap();
    let expected = "tls {\n  cert_file: \"/k/a \\\"b\\\".pem\"\n  key_file: \"/k/key\"\n}\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn servers_are_accepted_from_their_bounds_on() {
    let too_old =
        |version: &str| Err(format!("nats-server {version} is too old: 2.9.10 or later is needed"));
    let holes = |version: &str| {
        Err(format!(
            "nats-server {version} must not listen beyond loopback: its authorization has known \
             holes; 2.11.16, 2.12.7, 2.14.0 or later is needed"
        ))
    };
    // The version, on loopback, beyond it.
    let rows = [
        ("2.9.9", too_old("2.9.9"), too_old("2.9.9")),
        ("2.9.10-RC.1", too_old("2.9.10-RC.1"), too_old("2.9.10-RC.1")),
        ("2.9.10", Ok(()), holes("2.9.10")),
        ("v2.10.27", Ok(()), holes("v2.10.27")),
        ("2.11.15", Ok(()), holes("2.11.15")),
        ("2.11.16", Ok(()), Ok(())),
        ("2.11.17-beta.1", Ok(()), Ok(())),
        ("2.12.6", Ok(()), holes("2.12.6")),
        ("2.12.7", Ok(()), Ok(())),
        ("2.13.9", Ok(()), holes("2.13.9")),
        ("2.14.0-RC.1", Ok(()), holes("2.14.0-RC.1")),
        ("2.14.0", Ok(()), Ok(())),
        ("2.15.2", Ok(()), Ok(())),
        ("3.0.0", Ok(()), Ok(())),
        ("1.99.99", too_old("1.99.99"), too_old("1.99.99")),
        // As distributions number their builds.
        ("2.12.7+ds1-2", Ok(()), Ok(())),
        ("2.10.27~bpo12", Ok(()), holes("2.10.27~bpo12")),
    ];
    for (version, loopback, beyond) in rows {
        assert_eq!(accept_server(version, false), loopback, "{version}");
        assert_eq!(accept_server(version, true), beyond, "{version}");
    }
    for text in ["", "2", "2.9", "2.9.10.1", "2.x.1", "+2.9.10", "2.9.99999999999", "newest"] {
        let sentence = format!("'{text}' is not a version of nats-server");
        assert_eq!(accept_server(text, false), Err(sentence));
    }
}

#[test]
fn an_address_of_a_bus_has_no_secret_and_tls_beyond_this_machine() {
    for address in [
        "tls://fleet.example:4222",
        "tls://[2001:db8::1]:4222",
        "tls://10.0.0.1:1",
        "nats://127.0.0.1:4222",
        "nats://[::1]:4222",
        "nats://localhost:65535",
    ] {
        check_bus_address(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    }
    let rows = [
        ("fleet:4222", "invalid bus address: expected tls://HOST:PORT"),
        ("nats://u:hunter2@h:4222", "invalid bus address: it contains a user or a password"),
        ("nats://fleet:4222", "invalid bus address: nats:// is not encrypted"),
        ("nats://10.0.0.1:4222", "invalid bus address: nats:// is not encrypted"),
        ("ws://h:80", "invalid bus address: expected tls:// or, on this machine, nats://"),
        ("tls://fleet", "invalid bus address: 'fleet' has no port"),
        ("tls://fleet:0", "'fleet:0': invalid port '0'"),
        ("tls://fleet:65536", "'fleet:65536': invalid port '65536'"),
        ("tls://-x:4222", "host name '-x' begins with '-'"),
        ("tls://a[1-2]:4222", "invalid bus address: 'a[1-2]:4222' is not one host and port"),
        ("tls://a:1:2", "invalid bus address: 'a:1:2' is not one host and port"),
        ("tls://a b:4222", "host name 'a b' contains a space"),
    ];
    for (address, sentence) in rows {
        let error = check_bus_address(address).unwrap_err();
        assert_eq!(error_chain(&error), sentence, "{address}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}
