//! What failures of ssh mean, ports, and what relays say.

use super::*;

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
    let hosts: Vec<serde_json::Value> =
        hosts.iter().map(|name| serde_json::json!({ "name": name, "address": name })).collect();
    let launch = serde_json::json!({
        "hosts": hosts, "targets": [], "ssh_config": null, "via": "ssh", "bus": "tunnel",
        "push": false, "fanout": 1, "run": null, "lost_wait_ns": 0, "lost_after_ns": 0,
    });
    RelayRegion { launch: serde_json::from_value(launch).unwrap(), is_known: false }
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
        let (events, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let region = region(&["db1", "db2"]);
        let hearing = hear_region(&mut output, Some(&region), &events);
        let waited = timeout(Duration::from_secs(20), async {
            tokio::select! {
                () = hearing => panic!("it ends with the session alone"),
                both = async { [heard.recv().await, heard.recv().await] } => both,
            }
        });
        waited.await.unwrap()
    });
    let [Some(LinkEvent::Key { host, key }), Some(refused)] = events else { panic!("{events:?}") };
    assert_eq!((host.as_str(), key.as_str()), ("db1", "U1"));
    let LinkEvent::Unreachable { host, reason, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((host.as_str(), reason.as_str()), ("db2", "no permit"));
}
