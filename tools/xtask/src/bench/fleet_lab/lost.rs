//! How long it takes until a lost host is shown.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use durio_record::fleet::HostState;
use rustix::process::Signal;

use super::campaign::{LabCampaign, states};
use super::hosts::{FleetLab, LabSettings};
use super::{CAMPAIGN_MAX, random_state, random_time, spec, wait_until};
use crate::bench::figures::{self, BenchGoal, median};
use crate::bench::session::Interrupt;

const HOSTS: u32 = 8;
/// A run outlasts the trials of its campaign.
const STEP_SECONDS: u32 = 120;
const SHOWN_MAX: f64 = 2.0;
const PATIENCE: Duration = Duration::from_secs(20);
/// Losses come at any moment between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(500);

type Deed = fn(&FleetLab, &str) -> Result<()>;

const AGENT: &str = "durio-fleet agent";

const KINDS: [(&str, Deed); 3] = [
    ("agent killed (SIGKILL)", |lab, host| lab.signal(host, AGENT, Signal::KILL)),
    ("agent stopped (SIGSTOP)", |lab, host| lab.signal(host, AGENT, Signal::STOP)),
    ("link cut", |lab, host| lab.set_link(host, "down")),
];

pub(super) fn run(
    programs: Option<&Path>,
    trials: u32,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<Vec<BenchGoal>> {
    let hosts = HOSTS as usize;
    let settings = LabSettings { hosts, programs, is_installed: true, group: None, shared: None };
    let mut lab = FleetLab::new(settings, interrupt)?;
    let mut state = random_state(seed);
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for (name, deed) in KINDS {
        let mut seconds = Vec::new();
        while seconds.len() < trials as usize {
            eprintln!("{name}: {} of {trials} trials", seconds.len());
            lab.clean()?;
            let mut campaign = lab.campaign(&spec(STEP_SECONDS, Some(20)), &[])?;
            campaign.await_state(&lab.names(), HostState::Running, CAMPAIGN_MAX)?;
            for host in lab.names().iter().take(trials as usize - seconds.len()) {
                thread::sleep(HEARTBEAT + random_time(&mut state, HEARTBEAT));
                seconds.push(trial(&lab, &campaign, host, deed)?);
            }
        }
        let longest = seconds.iter().copied().fold(f64::NAN, f64::max);
        rows.push([
            name.to_owned(),
            seconds.len().to_string(),
            format!("{:.2}", median(&seconds)),
            format!("{longest:.2}"),
        ]);
        goals.push(BenchGoal::at_most(format!("shown: {name}"), longest, SHOWN_MAX, 2, " s"));
    }
    lab.clean()?;
    println!("\n### Seconds until a lost host is shown\n");
    figures::print_table(&["what happens", "trials", "p50", "max"], rows);
    Ok(goals)
}

/// The seconds from the deed to the state in the record and the line for the user.
fn trial(lab: &FleetLab, campaign: &LabCampaign, host: &str, deed: Deed) -> Result<f64> {
    let began = Instant::now();
    deed(lab, host)?;
    let folder = lab.path("campaign");
    let line = format!("{host} is lost");
    wait_until(&line, PATIENCE, &lab.interrupt, || {
        let states = states(&folder);
        let is_lost = states.get(host).is_some_and(|states| states.contains(&HostState::Lost));
        is_lost && campaign.said().contains(&line)
    })?;
    Ok(began.elapsed().as_secs_f64())
}
