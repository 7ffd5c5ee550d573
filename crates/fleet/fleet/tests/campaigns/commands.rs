//! What is known of hosts without running anything: plans and doctor; the built-in check.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::lab::{Lab, spec};

fn json_of(lab: &Lab, words: &[&str], code: i32) -> Value {
    let output = lab.command(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn plans_are_grouped_and_nothing_is_run_or_left() {
    let Some(lab) = Lab::new(3) else { return };
    fs::write(lab.path("tiny.toml"), spec(1)).unwrap();
    let target = format!("data={}", lab.path("data").display());
    let common = ["--target", &target, "--ssh-config", "ssh_config"];
    let words = [&["plan", "tiny.toml", "--hosts", "db1,db2,db3"], &common[..]].concat();
    let output = lab.command(&words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("Plan of tiny on 3 of 3 hosts; nothing was run\n"), "{text}");
    assert!(text.contains("\ndb1, db2, db3: 2 measured steps, 2 s\n"), "{text}");
    assert!(text.contains("  data: new files of 4 MiB in "), "{text}");
    for host in ["db1", "db2", "db3"] {
        assert!(lab.leftovers(host).is_empty(), "{host}: {:?}", lab.leftovers(host));
    }
    assert!(fs::read_dir(lab.path("data")).unwrap().next().is_none());
    assert!(!lab.path("campaign").exists());
    // The built-in check has three files in one folder.
    let words = [&["plan", "check", "--hosts", "db1", "--format", "json"], &common[..]].concat();
    let plan = json_of(&lab, &words, 0);
    let writes = plan["groups"][0]["writes"].as_array().unwrap();
    let sizes: Vec<(&str, u64)> = writes
        .iter()
        .map(|write| (write["target"].as_str().unwrap(), write["size_bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(sizes, [("data", 1 << 30), ("log", 128 << 20), ("segment", 64_000_000)]);
}

#[test]
fn a_host_that_cannot_plan_is_named_and_the_exit_code_is_1() {
    let Some(lab) = Lab::new(1) else { return };
    fs::write(lab.path("tiny.toml"), spec(1)).unwrap();
    let target = format!("data={}", lab.path("absent").display());
    let common = ["--hosts", "db1", "--target", &target, "--ssh-config", "ssh_config"];
    let plan =
        json_of(&lab, &[&["plan", "tiny.toml", "--format", "json"], &common[..]].concat(), 1);
    assert_eq!(plan["groups"].as_array().unwrap().len(), 0);
    assert_eq!(plan["without_plan"][0]["hosts"][0], "db1");
    assert_eq!(plan["without_plan"][0]["state"], "refused");
    let health = json_of(&lab, &[&["doctor", "--format", "json"], &common[..]].concat(), 1);
    assert_eq!(health["refused"][0]["hosts"][0], "db1");
}

#[test]
fn doctor_tells_what_each_host_has() {
    let Some(lab) = Lab::new(2) else { return };
    let target = format!("data={}", lab.path("data").display());
    let words = ["doctor", "--hosts", "db1,db2", "--target", &target, "--ssh-config", "ssh_config"];
    let health = json_of(&lab, &[&words[..], &["--format", "json"]].concat(), 0);
    let hosts = health["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 2);
    for host in hosts {
        assert_eq!(host["durio"], env!("CARGO_PKG_VERSION"));
        assert_eq!(host["has_host_file"], false);
        assert_eq!(host["places"][0]["target"], "data");
        assert!(host["places"][0]["free_bytes"].as_u64().unwrap() > 0);
        assert!(host["round_trip_ns"].as_u64().unwrap() > 0);
        assert_eq!(host["warnings"].as_array().unwrap().len(), 0, "{host}");
    }
    let output = lab.command(&words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("\n2 of 2 hosts can take part"), "{text}");
    assert!(text.contains("  ok      db1, db2: durio "), "{text}");
    assert!(lab.leftovers("db1").is_empty(), "{:?}", lab.leftovers("db1"));
}

#[test]
fn doctor_asks_no_host_when_this_machine_has_too_few_open_files() {
    let doctor = "ulimit -n 256 && exec \"$0\" doctor --hosts 'db[1-300]' --target data=/srv/x";
    let mut command = Command::new("sh");
    let output = command.args(["-c", doctor, env!("CARGO_BIN_EXE_durio-fleet")]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let reason = "open files: 300 hosts need 2000 open files, and the limit is 256\n";
    assert!(text.contains(&format!("  FAILED  {reason}")), "{text}");
    assert!(text.ends_with("\nNo host was asked.\n"), "{text}");
}

#[test]
fn a_missed_goal_is_exit_1_and_names_the_hosts() {
    let Some(lab) = Lab::new(2) else { return };
    let missed = lab.campaign(1, &["--goal", "commit rate > 1000000000"]).wait();
    missed.expect(1, "goal missed: commit rate > 1000000000 on 2 hosts (db");
}
