//! What hosts become when something dies.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use durio_record::fleet::HostState;
use rustix::process::{Pid, Signal, kill_process};

use super::campaign::{LabCampaign, is_whole, runs, states, summary};
use super::hosts::{FleetLab, LabSettings, child_of};
use super::{CAMPAIGN_MAX, spec};
use crate::bench::figures::{self, BenchGoal};
use crate::bench::session::Interrupt;

const HOSTS: usize = 8;
const STEP_SECONDS: u32 = 8;
/// Longer than the silence after which a host is lost, and shorter than the run.
const CUT: Duration = Duration::from_secs(5);

/// A deed while all hosts run, and what the hosts then must become.
struct FailureScenario {
    name: &'static str,
    more: &'static [&'static str],
    deed: fn(&FleetLab, LabCampaign) -> Result<Option<i32>>,
    expected: &'static str,
    whole: usize,
}

const SCENARIOS: [FailureScenario; 4] = [
    FailureScenario {
        name: "host db2 killed, and its sshd",
        more: &["--lost-wait", "2s"],
        deed: |lab, campaign| {
            lab.kill_host("db2")?;
            Ok(campaign.wait(CAMPAIGN_MAX)?.code)
        },
        expected: "7 collected, 1 lost",
        whole: 7,
    },
    FailureScenario {
        name: "link of db3 cut for 5 s",
        more: &[],
        deed: |lab, campaign| {
            lab.set_link("db3", "down")?;
            thread::sleep(CUT);
            lab.set_link("db3", "up")?;
            Ok(campaign.wait(CAMPAIGN_MAX)?.code)
        },
        expected: "8 collected",
        whole: 8,
    },
    FailureScenario {
        name: "bus killed",
        more: &[],
        deed: |_, campaign| {
            kill(child_of(campaign.process.id(), "nats-server").context("no bus")?);
            Ok(campaign.wait(CAMPAIGN_MAX)?.code)
        },
        expected: "8 collected",
        whole: 8,
    },
    FailureScenario {
        name: "coordinator killed, then resume",
        more: &[],
        deed: |lab, campaign| {
            // Dropped, it is killed.
            drop(campaign);
            let words = ["resume", "campaign", "--yes"].map(str::to_owned);
            Ok(lab.start(&words)?.wait(CAMPAIGN_MAX)?.code)
        },
        expected: "8 collected",
        whole: 8,
    },
];

pub(super) fn run(programs: Option<&Path>, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let settings =
        LabSettings { hosts: HOSTS, programs, is_installed: true, group: None, shared: None };
    let mut lab = FleetLab::new(settings, interrupt)?;
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for scenario in &SCENARIOS {
        eprintln!("{}", scenario.name);
        lab.clean()?;
        let mut campaign = lab.campaign(&spec(STEP_SECONDS, Some(50)), scenario.more)?;
        campaign.await_state(&lab.names(), HostState::Running, CAMPAIGN_MAX)?;
        let code = (scenario.deed)(&lab, campaign)?;
        let folder = lab.path("campaign");
        let states = states(&folder);
        let lost = states.iter().filter(|(_, states)| states.contains(&HostState::Lost));
        let lost: Vec<&str> = lost.map(|(host, _)| host.as_str()).collect();
        let became = summary(&states);
        let whole = whole_runs(&lab);
        let code = code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
        let is_so = became == scenario.expected && whole == scenario.whole;
        goals.push(BenchGoal::at_least(scenario.name, f64::from(u8::from(is_so)), 1.0));
        let was_lost = if lost.is_empty() { "none".to_owned() } else { lost.join(", ") };
        let name = scenario.name.to_owned();
        rows.push([name, was_lost, became, whole.to_string(), code]);
        // For a look at what did not become as it should.
        if !is_so {
            eprintln!("{}", fs::read_to_string(lab.path("output")).unwrap_or_default());
        }
    }
    println!("\n### What each host became\n");
    let header = ["while 8 hosts ran", "lost for a time", "in the end", "whole runs", "exit code"];
    figures::print_table(&header, rows);
    Ok(goals)
}

fn kill(pid: Pid) {
    // It may have ended by itself.
    let _ = kill_process(pid, Signal::KILL);
}

fn whole_runs(lab: &FleetLab) -> usize {
    let folder = lab.path("campaign");
    let names = lab.names();
    let runs = names.iter().flat_map(|host| runs(&folder, host));
    runs.filter(|run| is_whole(run)).count()
}
