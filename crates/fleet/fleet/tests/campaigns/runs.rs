//! Campaigns that go as they should.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::failures::{child_of, kill};
use crate::lab::{Lab, events, runs, states, wait_until};

#[test]
fn three_hosts_run_a_spec_together_and_their_runs_are_collected_whole() {
    let Some(lab) = Lab::new(3) else { return };
    let campaign = lab.campaign(1, &["--barrier", "step"]);
    let folder = campaign.folder.clone();
    let ended = campaign.wait().expect(0, "durio fleet report: tiny, 3 hosts");
    assert!(ended.said.contains("db1, db2, db3: 2 measured steps, 2 s"), "{}", ended.said);
    for host in ["db1", "db2", "db3"] {
        let found = states(&folder, host);
        assert_eq!(
            (found.first().unwrap(), found.last().unwrap()),
            (&"joined".into(), &"collected".into())
        );
        let [run] = &runs(&folder, host)[..] else { panic!("{:?}", runs(&folder, host)) };
        let text = fs::read_to_string(run.join("events.jsonl")).unwrap();
        // Each step started by order, and the run has its end.
        assert_eq!(text.matches("\"step_gated\"").count(), 2, "{host}");
        assert!(text.lines().last().unwrap().contains("run_ended"), "{host}");
        assert!(lab.leftovers(host).is_empty(), "{host}: {:?}", lab.leftovers(host));
        assert!(lab.processes(host, "durio").is_empty());
    }
    let passed = events(&folder, "barrier_passed");
    assert!(!passed.is_empty() && events(&folder, "barrier_cancelled").is_empty());
    let ended = events(&folder, "ended");
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0]["outcome"], "complete");
    for gone in ["coordinator.pid", "bus"] {
        assert!(!folder.join(gone).exists(), "{gone}");
    }
}

#[test]
fn the_digest_of_each_collected_folder_is_the_one_that_its_host_signed() {
    let Some(lab) = Lab::new(2) else { return };
    let campaign = lab.campaign(1, &[]);
    let folder = campaign.folder.clone();
    campaign.wait().expect(0, "2 hosts");
    for host in ["db1", "db2"] {
        let changes = crate::lab::lines(&folder.join("hosts.jsonl"));
        let collected = changes
            .iter()
            .find(|change| change["host"] == host && change["state"] == "collected")
            .unwrap();
        let found = durio_agree::folder_digest::folder_digest(&runs(&folder, host)[0]).unwrap();
        assert_eq!(collected["folder_digest"], Value::from(found));
    }
}

#[test]
fn runs_are_repeated_and_named() {
    let Some(lab) = Lab::new(2) else { return };
    let campaign = lab.campaign(1, &["--repeat", "2", "--name", "nightly"]);
    let folder = campaign.folder.clone();
    campaign.wait().expect(0, "run 2 of 2");
    for host in ["db1", "db2"] {
        let found = runs(&folder, host);
        assert_eq!(found.len(), 2, "{found:?}");
        for run in found {
            let manifest = fs::read_to_string(run.join("run.json")).unwrap();
            assert!(manifest.contains("\"nightly\""), "{manifest}");
        }
    }
    let times: Vec<u64> = crate::lab::lines(&folder.join("events.jsonl"))
        .iter()
        .map(|event| event["at_ns"].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    let status = lab.command(&["status", "campaign"]).output().unwrap();
    let said = String::from_utf8(status.stdout).unwrap();
    assert_eq!(said, "nightly: complete\n  db1  collected\n  db2  collected\n");
}

/// sshd of hosts without durio, whose folders have what is copied to them.
const WITHOUT_DURIO: &str = "SetEnv PATH=/usr/bin:/bin HOME=HOME_OF_HOST \
                             XDG_STATE_HOME=HOME_OF_HOST/state TMPDIR=HOME_OF_HOST";

/// Stripped, programs are small enough to be copied by a debug build within a test.
fn strip_programs(lab: &Lab) {
    for program in ["durio", "durio-fleet"] {
        let path = lab.path("bin").join(program);
        let original = fs::canonicalize(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let stripped = Command::new("strip").arg("-o").arg(&path).arg(&original).status();
        if !stripped.is_ok_and(|status| status.success()) {
            fs::copy(&original, &path).unwrap();
        }
    }
}

/// The folders of programs that were copied to a host.
fn copied(lab: &Lab, host: &str) -> Vec<String> {
    let entries = fs::read_dir(lab.path(host)).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("durio-fleet.")).collect()
}

#[test]
fn hosts_without_durio_get_it_for_the_time_of_the_campaign() {
    let Some(lab) = Lab::with(1, WITHOUT_DURIO) else { return };
    lab.campaign(1, &[]).wait().expect(3, "durio-fleet is not installed there");
    fs::remove_dir_all(lab.path("campaign")).unwrap();
    strip_programs(&lab);
    lab.campaign(1, &["--push"]).wait().expect(0, "tiny, 1 host");
    assert_eq!(copied(&lab, "db1"), [""; 0]);
}

#[test]
fn copied_programs_outlast_a_link_and_are_gone_when_the_run_was_collected() {
    let Some(lab) = Lab::with(2, WITHOUT_DURIO) else { return };
    strip_programs(&lab);
    let campaign = lab.campaign(3, &["--push", "--lost-after", "1.5s"]);
    campaign.await_state("db1", "running");
    kill(child_of(campaign.pid(), "ssh", "--\0db1\0"));
    wait_until("the session has ended", || lab.processes("db1", "durio-fleet join").is_empty());
    assert!(!copied(&lab, "db1").is_empty());
    let folder = campaign.folder.clone();
    campaign.wait().expect(1, "db1 is back");
    assert_eq!(states(&folder, "db1").last().unwrap(), "collected");
    for host in ["db1", "db2"] {
        assert_eq!(copied(&lab, host), [""; 0]);
    }
}
