//! Hosts behind a relay, on a machine that reaches them by its own ssh.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::lab::{Campaign, Lab, events, lines, program_path, runs, spec, states, wait_until};

/// A campaign on db3, and on the hosts of a list behind db4.
fn start(lab: &Lab, seconds: u32, (list, more): (&str, &[&str])) -> Campaign {
    // The hosts have it in PATH, and the coordinator has not.
    let (ssh, config) = (program_path("ssh").unwrap(), lab.path("ssh_config"));
    let text = format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), config.display());
    fs::write(lab.path("bin/ssh"), text).unwrap();
    fs::set_permissions(lab.path("bin/ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(lab.path("tiny.toml"), spec(seconds)).unwrap();
    let target = format!("data={}", lab.path("data").display());
    let relay = format!("db4={list}");
    let mut words = vec!["run", "tiny.toml", "--hosts", "db3", "--relay", &relay];
    words.extend(["--target", &target, "--ssh-config", "ssh_config", "--yes", "-o", "campaign"]);
    words.extend(more);
    lab.start(&words)
}

#[test]
fn hosts_behind_a_relay_start_with_the_others_and_their_runs_are_collected_through_it() {
    let Some(lab) = Lab::new(4) else { return };
    let campaign = start(&lab, 2, ("db[1-2]", &["--lost-after", "10s"]));
    campaign.await_state("db1", "running");
    // Its own server and sessions; the coordinator has none to its hosts.
    assert_eq!(lab.processes("db4", "nats-server").len(), 1);
    let folder = campaign.folder.clone();
    let ended = campaign.wait().expect(0, "tiny, 3 hosts");
    assert!(!ended.said.contains("without a whole run"), "{}", ended.said);
    assert!(!ended.said.contains("relay db4"), "{}", ended.said);
    for host in ["db1", "db2", "db3"] {
        assert_eq!(states(&folder, host).last().unwrap(), "collected");
        assert_eq!(runs(&folder, host).len(), 1);
        wait_until("nothing is left", || lab.leftovers(host).is_empty());
    }
    assert_eq!(events(&folder, "barrier_reached")[0]["hosts"], 3);
    let passed = &events(&folder, "barrier_passed")[0];
    assert!(passed["bound_ns"].as_u64().unwrap() < 1_000_000_000, "{passed}");
    assert!(states(&folder, "db4").is_empty(), "it measures nothing");
    wait_until("the relay has ended", || lab.processes("db4", "durio-fleet relay").is_empty());
    assert!(lab.processes("db4", "nats-server").is_empty());
    let left = fs::read_dir(lab.path("db4")).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<String> = left.filter_map(|name| name.into_string().ok()).collect();
    assert!(!left.iter().any(|name| name.starts_with("durio-relay-")), "{left:?}");
}

#[test]
fn a_relay_that_is_killed_is_named_harms_no_run_and_the_next_one_brings_its_hosts_back() {
    let Some(lab) = Lab::new(4) else { return };
    let campaign = start(&lab, 5, ("db[1-2]", &["--lost-after", "4s"]));
    for host in ["db1", "db2", "db3"] {
        campaign.await_state(host, "running");
    }
    lab.kill("db4", "durio-fleet relay");
    let folder = campaign.folder.clone();
    let ended = campaign.wait().expect(1, "relay db4 has been silent for ");
    assert!(ended.said.contains("its 2 hosts follow their timetable"), "{}", ended.said);
    assert!(ended.said.contains("relay db4 is back"), "{}", ended.said);
    // Not once more for each of its hosts.
    assert!(!ended.said.contains("durio: db1 is lost"), "{}", ended.said);
    let silent = &events(&folder, "relay_lost")[0];
    assert_eq!((&silent["relay"], &silent["hosts"]), (&"db4".into(), &2.into()));
    let lost = events(&folder, "host_lost");
    let lost: BTreeSet<&str> = lost.iter().filter_map(|event| event["host"].as_str()).collect();
    assert_eq!(lost, BTreeSet::from(["db1", "db2"]));
    for host in ["db1", "db2"] {
        let [run] = &runs(&folder, host)[..] else { panic!("{:?}", runs(&folder, host)) };
        let record = lines(&run.join("events.jsonl"));
        assert!(record.last().unwrap().to_string().contains("\"complete\""), "{record:?}");
        assert_eq!(states(&folder, host).last().unwrap(), "collected");
        wait_until("nothing is left", || lab.leftovers(host).is_empty());
    }
    assert!(!states(&folder, "db3").contains(&"lost".to_owned()));
}

#[test]
fn a_relay_that_cannot_be_reached_is_the_reason_of_each_of_its_hosts() {
    let Some(lab) = Lab::new(4) else { return };
    lab.close("db4");
    let campaign = start(&lab, 1, ("db[1-2]", &["--lost-after", "10s"]));
    let ended = campaign.wait().expect(1, "db1 failed: its relay db4: ");
    assert!(ended.said.contains("2 of 3 hosts without a whole run"), "{}", ended.said);
    assert_eq!(states(&lab.path("campaign"), "db3").last().unwrap(), "collected");
    assert_eq!(states(&lab.path("campaign"), "db2").last().unwrap(), "failed");
}

#[test]
fn hosts_dial_their_relay_by_tls_where_sshd_forwards_no_port() {
    let Some(lab) = Lab::with(4, "AllowTcpForwarding no") else { return };
    let line = |host| format!("{host} ansible_host=127.0.0.1 ansible_port={}\n", lab.port(host));
    fs::write(lab.path("region.ini"), ["db1", "db2"].map(line).concat()).unwrap();
    let more = ["--bus", "direct:127.0.0.1", "--lost-after", "10s"];
    let ended = start(&lab, 1, ("region.ini", &more)).wait().expect(0, "tiny, 3 hosts");
    assert!(!ended.said.contains("without a whole run"), "{}", ended.said);
    for host in ["db1", "db2", "db3"] {
        assert_eq!(states(&lab.path("campaign"), host).last().unwrap(), "collected");
        // No tunnel holds the session until the agent has ended.
        wait_until("nothing is left", || lab.leftovers(host).is_empty());
    }
}

#[test]
fn a_relay_of_another_release_is_refused_with_both_versions_and_the_others_run() {
    let Some(lab) = Lab::new(4) else { return };
    let program = lab.path("bin/durio-fleet");
    let own = env!("CARGO_BIN_EXE_durio-fleet");
    let answer = r#"{"key":"U1","version":"999.0.0"}"#;
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = relay ]; then\n  read -r line\n  echo '{answer}'\n  \
         exec cat >/dev/null\nfi\nexec {own} \"$@\"\n"
    );
    fs::remove_file(&program).unwrap();
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let campaign = start(&lab, 1, ("db[1-2]", &["--lost-after", "10s"]));
    let expected = env!("CARGO_PKG_VERSION");
    let sentence = format!("its relay db4: it has durio-fleet 999.0.0, expected {expected}");
    let ended = campaign.wait().expect(1, &format!("db1 failed: {sentence}"));
    assert!(ended.said.contains(&format!("db2 failed: {sentence}")), "{}", ended.said);
    assert!(ended.said.contains("install the same version on the relay"), "{}", ended.said);
    assert_eq!(states(&lab.path("campaign"), "db3").last().unwrap(), "collected");
}
