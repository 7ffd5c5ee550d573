//! What failures of ssh mean, ports, and what relays say.

use super::*;
use crate::launch::BusChoice;
use crate::tests::launch_settings;

#[test]
fn each_failure_of_ssh_has_its_sentence_and_its_hint() {
    let rows: [(Option<i32>, &[u8], &str, &str); 5] = [
        (
            Some(2),
            b"slurmstepd: error: execve(): durio-fleet: No such file or directory",
            "durio-fleet is not installed",
            "--push",
        ),
        (Some(127), b"sh: durio-fleet: not found", "durio-fleet is not installed", "--push"),
        (Some(255), b"root@db: Permission denied (publickey).", "Permission denied", "a key"),
        (Some(255), b"Host key verification failed.", "verification failed", "accept"),
        (
            Some(255),
            b"Error: remote port forwarding failed for listen port 20001",
            "sshd refuses to forward",
            "AllowTcpForwarding",
        ),
    ];
    for (code, said, reason, hint) in rows {
        let found = explained(code, said);
        assert!(found.0.contains(reason), "{found:?}");
        assert!(found.1.is_some_and(|found| found.contains(hint)), "{found:?}");
    }
    assert_eq!(explained(Some(255), b"ssh: x: No route to host\r\n").1, None);
}

#[test]
fn ports_are_below_those_that_systems_give_out() {
    for _ in 0..100 {
        assert!((20_000..32_000).contains(&random_port()));
    }
}

fn region(hosts: &[&str]) -> RelayRegion {
    RelayRegion { launch: launch_settings(hosts, BusChoice::Tunnel), is_known: false }
}

#[test]
fn a_relay_that_cannot_be_reached_is_the_reason_of_each_of_its_hosts() {
    let gateway = durio_agree::host_list::parse_list("gw1").unwrap().remove(0);
    let alone = without_session(&gateway, None, "no route");
    assert_eq!(alone, [("gw1".to_owned(), "no route".to_owned())]);
    let reason = "its relay gw1: no route".to_owned();
    let expected = ["db1", "db2"].map(|name| (name.to_owned(), reason.clone()));
    assert_eq!(without_session(&gateway, Some(&region(&["db1", "db2"])), "no route"), expected);
}

#[test]
fn a_relay_is_heard_on_the_hosts_of_its_region_and_on_no_others() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = [
        r#"{"host":"db1","reply":{"key":"U1"}}"#,
        r#"{"host":"db9","reply":{"key":"U9"}}"#,
        "no JSON",
        r#"{"host":"db2","reply":{"refused":"no permit"}}"#,
    ];
    let events = runtime.block_on(async {
        let mut command = tokio::process::Command::new("printf");
        command.arg("%s\\n").args(said).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let limited = |output: ChildStdout| tokio::io::AsyncReadExt::take(output, 1);
        let mut output =
            child.stdout.take().map(|output| Box::new(BufReader::new(limited(output))));
        let (answers, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let hear: HearAnswer = Arc::new(move |answer: HostAnswer| answers.send(answer).unwrap());
        let region = region(&["db1", "db2"]);
        let hearing = hear_region(&mut output, Some(&region), &hear);
        let waited = timeout(Duration::from_secs(20), async {
            tokio::select! {
                () = hearing => panic!("it ends with the session alone"),
                both = async { [heard.recv().await, heard.recv().await] } => both,
            }
        });
        waited.await.unwrap()
    });
    let key = HostAnswer::key("db1".to_owned(), "U1".to_owned());
    let refused = HostAnswer::refused("db2".to_owned(), "no permit".to_owned(), None);
    assert_eq!(events, [Some(key), Some(refused)]);
}

type Answer = Option<Result<String, (String, Option<&'static str>)>>;

#[test]
fn a_relay_of_another_release_is_refused_by_both_versions_and_a_host_is_not_asked_here() {
    let own = env!("CARGO_PKG_VERSION");
    let (release, _) = own.rsplit_once('.').unwrap();
    let line = |version: &str| format!("{{\"key\":\"U1\",\"version\":\"{version}\"}}\n");
    let accepted: Answer = Some(Ok("U1".to_owned()));
    for version in [own, &format!("{release}.999")] {
        assert_eq!(answer_in(line(version).as_bytes(), true), accepted, "{version}");
    }
    let hint = Some("install the same version on the relay, or copy it with --push");
    let refused = |other: &str| -> Answer {
        Some(Err((format!("it has durio-fleet {other}, expected {own}"), hint)))
    };
    for version in ["999.0.0", &format!("{release}9.0"), "x"] {
        assert_eq!(answer_in(line(version).as_bytes(), true), refused(version));
        assert_eq!(answer_in(line(version).as_bytes(), false), accepted);
    }
    let bare = b"{\"key\":\"U1\"}\n";
    assert_eq!(answer_in(bare, true), refused("of an earlier version"));
    assert_eq!(answer_in(bare, false), accepted);
    for is_relay in [true, false] {
        let permit: Answer = Some(Err(("no permit".to_owned(), None)));
        assert_eq!(answer_in(b"{\"refused\":\"no permit\"}\n", is_relay), permit);
        assert_eq!(answer_in(b"Welcome to gw1\n", is_relay), None);
    }
    // Another release may not understand the invitation: the version is the reason to show.
    let confused = br#"{"refused":"invalid invitation","version":"999.0.0"}"#;
    assert_eq!(answer_in(confused, true), refused("999.0.0"));
    // As a relay writes it.
    let greeting = SessionGreeting::of_relay(JoinReply::Key("U1".to_owned()));
    let written = crate::invitation::line_of(&greeting).unwrap();
    assert_eq!(answer_in(&written, true), accepted);
}
