//! Campaigns in which something dies.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::lab::{Lab, events, runs, states, wait_until};

pub(crate) fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn a_host_whose_agent_is_killed_is_lost_and_its_cut_run_is_collected_when_it_is_back() {
    let Some(lab) = Lab::new(3) else { return };
    let campaign = lab.campaign(3, &["--lost-after", "4s"]);
    campaign.await_state("db2", "running");
    lab.kill("db2", "durio-fleet agent");
    // The child ends with the agent.
    wait_until("the child is gone", || lab.processes("db2", "durio run").is_empty());
    let folder = campaign.folder.clone();
    let ended = campaign.wait().expect(1, "db2 is lost: silent for 4");
    assert!(ended.said.contains("1 of 3 hosts without a whole run"), "{}", ended.said);
    let passed = states(&folder, "db2");
    assert!(passed.ends_with(&["running", "lost", "ended", "collected"].map(str::to_owned)));
    for host in ["db1", "db3"] {
        assert_eq!(states(&folder, host).last().unwrap(), "collected");
        assert!(!states(&folder, host).contains(&"lost".to_owned()));
    }
    assert_eq!(runs(&folder, "db2").len(), 1);
}

#[test]
fn a_host_that_stays_away_is_lost_and_the_others_are_collected() {
    let Some(lab) = Lab::new(3) else { return };
    let campaign = lab.campaign(3, &["--lost-wait", "2s", "--lost-after", "1.5s"]);
    campaign.await_state("db2", "running");
    lab.close("db2");
    lab.kill("db2", "durio-fleet");
    let folder = campaign.folder.clone();
    campaign.wait().expect(1, "db2 is lost: silent for 1.5");
    assert_eq!(states(&folder, "db2").last().unwrap(), "lost");
    for host in ["db1", "db3"] {
        assert_eq!(states(&folder, host).last().unwrap(), "collected");
    }
    assert_eq!(events(&folder, "host_lost")[0]["host"], "db2");
    // The campaign is over; the host is back, with the run that was cut.
    lab.open("db2");
    let ended = lab.start(&["collect", "campaign", "--yes"]).wait();
    ended.expect(1, "1 of 1 host without a whole run");
    assert_eq!(states(&folder, "db2").last().unwrap(), "collected");
    assert_eq!(runs(&folder, "db2").len(), 1);
    lab.start(&["collect", "campaign"]).wait().expect(0, "there is nothing to collect");
}

#[test]
fn a_link_that_breaks_harms_no_run_and_is_made_again() {
    let Some(lab) = Lab::new(2) else { return };
    let campaign = lab.campaign(3, &["--lost-after", "1.5s"]);
    campaign.await_state("db1", "running");
    campaign.await_state("db2", "running");
    kill(child_of(campaign.pid(), "ssh", "--\0db1\0"));
    let folder = campaign.folder.clone();
    let ended = campaign.wait().expect(1, "db1 is lost");
    assert!(ended.said.contains("db1 is back"), "{}", ended.said);
    // The run is whole, and its load while it was lost is not known.
    let [run] = &runs(&folder, "db1")[..] else { panic!("{:?}", runs(&folder, "db1")) };
    let text = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    assert!(text.lines().last().unwrap().contains("\"complete\""), "{text}");
    let changes = crate::lab::lines(&folder.join("hosts.jsonl"));
    let last = changes.iter().rfind(|change| change["host"] == "db1").unwrap();
    let found = (last["state"].as_str(), last["reason"].as_str());
    assert_eq!(found, (Some("collected"), Some("silent while steps ran")));
}

#[test]
fn a_host_takes_part_in_one_campaign_at_a_time() {
    let Some(lab) = Lab::new(1) else { return };
    let first = lab.campaign(3, &[]);
    first.await_state("db1", "running");
    let target = format!("data={}", lab.path("data").display());
    let second = lab.start(&[
        "run",
        "tiny.toml",
        "--hosts",
        "db1",
        "--target",
        &target,
        "--ssh-config",
        "ssh_config",
        "--yes",
        "-o",
        "second",
        "--quiet",
    ]);
    second.wait().expect(3, "db1 refused: campaign");
    assert_eq!(states(&lab.path("second"), "db1").last().unwrap(), "refused");
    let folder = first.folder.clone();
    first.wait().expect(0, "");
    assert_eq!(states(&folder, "db1").last().unwrap(), "collected");
}

#[test]
fn another_user_of_a_host_keeps_a_campaign_from_it() {
    let Some(lab) = Lab::new(1) else { return };
    let name = format!("durio-fleet-{}", lab.machine_id("db1"));
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let other = UnixListener::bind_addr(&address).unwrap();
    let campaign = lab.campaign(1, &[]);
    let folder = campaign.folder.clone();
    campaign.wait().expect(3, "db1 refused: campaign of another user runs on this host");
    assert_eq!(states(&folder, "db1").last().unwrap(), "refused");
    drop(other);
    std::fs::remove_dir_all(folder).unwrap();
    lab.campaign(1, &[]).wait().expect(0, "tiny, 1 host");
}

#[test]
fn runs_of_all_passes_are_collected_when_their_host_is_back() {
    let Some(lab) = Lab::new(2) else { return };
    let words = ["--repeat", "2", "--lost-wait", "2s", "--lost-after", "1.5s"];
    let campaign = lab.campaign(3, &words);
    campaign.await_state("db2", "running");
    lab.close("db2");
    lab.kill("db2", "durio-fleet");
    let folder = campaign.folder.clone();
    // The second run begins when the first has ended without db2, which is back then or a little later.
    wait_until("the second run", || campaign.said().contains("run 2 of 2"));
    lab.open("db2");
    campaign.wait().expect(1, "1 of 2 hosts without a whole run: db2 (");
    let status = lab.command(&["status", "campaign"]).output().unwrap();
    let said = String::from_utf8(status.stdout).unwrap();
    let before = runs(&folder, "db2").len();
    assert!(before == 1 || said.contains("db2  failed"), "{said}");
    assert!(said.contains("run 1 not collected"), "{said}");
    let ended = lab.start(&["collect", "campaign", "--yes"]).wait();
    ended.expect(1, "1 of 1 host without a whole run: db2 (");
    assert_eq!(runs(&folder, "db2").len(), before + 1);
    let starts: Vec<u64> = events(&folder, "pass_started")
        .iter()
        .map(|event| event["number"].as_u64().unwrap())
        .collect();
    assert_eq!(starts, [0, 1, 0]);
    lab.start(&["collect", "campaign"]).wait().expect(0, "there is nothing to collect");
}

#[test]
fn a_bus_that_is_killed_is_started_again_and_no_run_is_harmed() {
    let Some(lab) = Lab::new(2) else { return };
    let campaign = lab.campaign(2, &[]);
    campaign.await_state("db1", "running");
    campaign.await_state("db2", "running");
    let bus = child_of(campaign.pid(), "nats-server", "");
    kill(bus);
    let folder = campaign.folder.clone();
    let ended = campaign.wait().expect(0, "the bus is gone; running steps go on");
    assert!(ended.said.contains("the bus is back"), "{}", ended.said);
    for host in ["db1", "db2"] {
        assert_eq!(states(&folder, host).last().unwrap(), "collected");
    }
    assert_eq!(events(&folder, "ended")[0]["outcome"], "complete");
    assert!(events(&folder, "host_lost").is_empty(), "{:?}", events(&folder, "host_lost"));
}

#[test]
fn a_coordinator_that_is_killed_takes_its_bus_along_and_another_goes_on() {
    let Some(lab) = Lab::new(2) else { return };
    let campaign = lab.campaign(3, &[]);
    campaign.await_state("db1", "running");
    campaign.await_state("db2", "running");
    let (coordinator, folder) = (campaign.pid(), campaign.folder.clone());
    let bus = child_of(coordinator, "nats-server", "");
    kill(coordinator);
    drop(campaign);
    wait_until("the bus is gone", || !is_alive(bus));
    let status = lab.command(&["status", "campaign"]).output().unwrap();
    let said = String::from_utf8(status.stdout).unwrap();
    assert!(said.starts_with("tiny: cut: its coordinator ended before it"), "{said}");
    assert!(!lab.processes("db1", "durio run").is_empty(), "the run continues");
    // Hosts obey the key that began the campaign, which another user of the machine lacks.
    let mut other = lab.command(&["resume", "campaign", "--yes"]);
    let other = other.env("XDG_STATE_HOME", lab.path("other")).output().unwrap();
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(said.contains("the key of the campaign is not on this machine"), "{said}");
    assert_eq!(other.status.code(), Some(3));
    lab.start(&["resume", "campaign"]).wait().expect(0, "tiny, 2 hosts");
    for host in ["db1", "db2"] {
        assert_eq!(states(&folder, host).last().unwrap(), "collected");
        // The step ran once.
        assert_eq!(runs(&folder, host).len(), 1);
        assert!(lab.leftovers(host).is_empty());
    }
    assert_eq!(events(&folder, "resumed").len(), 1);
    assert_eq!(events(&folder, "ended")[0]["outcome"], json!("complete"));
    lab.start(&["resume", "campaign"]).wait().expect(2, "the campaign has ended");
}

#[test]
fn a_coordinator_that_is_killed_in_the_second_run_goes_on_with_that_one() {
    let Some(lab) = Lab::new(1) else { return };
    let campaign = lab.campaign(2, &["--repeat", "3"]);
    let folder = campaign.folder.clone();
    let begun = || states(&folder, "db1").iter().filter(|state| *state == "running").count();
    wait_until("the second run", || begun() == 2);
    kill(campaign.pid());
    drop(campaign);
    let ended = lab.start(&["resume", "campaign", "--yes"]).wait().expect(0, "run 3 of 3");
    assert!(!ended.said.contains("run 1 of 3"), "{}", ended.said);
    assert_eq!(runs(&folder, "db1").len(), 3);
    let started = events(&folder, "pass_started");
    let numbers: Vec<u64> = started.iter().map(|line| line["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [0, 1, 1, 2]);
    lab.start(&["resume", "campaign"]).wait().expect(2, "the campaign has ended");
    lab.start(&["collect", "campaign"]).wait().expect(0, "there is nothing to collect");
}

#[test]
fn a_campaign_is_stopped_from_another_terminal_and_what_hosts_have_is_collected() {
    let Some(lab) = Lab::new(2) else { return };
    let campaign = lab.campaign(20, &[]);
    campaign.await_state("db1", "running");
    let folder = campaign.folder.clone();
    let stopped = lab.command(&["stop", "campaign"]).status().unwrap();
    assert!(stopped.success());
    campaign.wait().expect(130, "stopping all hosts, and collecting what they have");
    for host in ["db1", "db2"] {
        assert_eq!(states(&folder, host).last().unwrap(), "collected");
        assert_eq!(runs(&folder, host).len(), 1);
    }
    assert_eq!(events(&folder, "ended")[0]["outcome"], "stopped");
    lab.start(&["stop", "campaign"]).wait().expect(2, "the campaign does not run");
}

/// The child of a process that runs this program, with such a part in its command line.
pub(crate) fn child_of(parent: Pid, program: &str, part: &str) -> Pid {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
        let of_parent = format!("PPid:\t{}\n", parent.as_raw_nonzero());
        read("status").is_ok_and(|text| text.contains(&of_parent))
            && read("comm").is_ok_and(|name| name.trim() == program)
            && read("cmdline").is_ok_and(|line| line.contains(part))
    };
    let found = pids.into_iter().find(is_child).unwrap();
    Pid::from_raw(found).unwrap()
}

fn is_alive(pid: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // One that its parent has not asked about yet counts as gone.
    state.is_ok_and(|text| !text.contains(") Z "))
}
