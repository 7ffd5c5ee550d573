//! Kills of bus, coordinator, agent or child at random moments of short campaigns.
//!
//! After each campaign its record is checked: every host is in exactly one final state, no bus that
//! died harmed a run, and what a host had is here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use durio_record::fleet::HostState;
use rustix::process::{Signal, kill_process};

use super::campaign::{LabCampaign, LabEnd, is_whole, last_lines, runs, states};
use super::hosts::{FleetLab, LabSettings, child_of};
use super::{CAMPAIGN_MAX, random, random_state, random_time, spec};
use crate::bench::figures::{self, BenchGoal};
use crate::bench::session::Interrupt;

const HOSTS: usize = 3;
/// Joining, layout, two steps of a second and collection take about this long.
const SPAN: Duration = Duration::from_millis(7_000);
/// The most kills of one campaign.
const KILLS_MAX: u64 = 3;
/// A campaign that was killed before it had a folder begins again.
const RESUMES_MAX: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Bus,
    Coordinator,
    Agent,
    Child,
}

impl Victim {
    const ALL: [Self; 4] = [Self::Bus, Self::Coordinator, Self::Agent, Self::Child];
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bus => "bus",
            Self::Coordinator => "coordinator",
            Self::Agent => "agent",
            Self::Child => "child (durio run)",
        })
    }
}

/// A kill to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PlannedKill {
    /// Since the one before, or since the start.
    after: Duration,
    victim: Victim,
    host: usize,
}

/// The kills of one campaign.
fn plan_kills(state: &mut u64, most: u64) -> Vec<PlannedKill> {
    let count = 1 + random(state) % most;
    let span = SPAN / u32::try_from(count).unwrap_or(1);
    let victim = |state: &mut u64| Victim::ALL[index(state, Victim::ALL.len())];
    (0..count)
        .map(|_| PlannedKill {
            after: random_time(state, span),
            victim: victim(state),
            host: index(state, HOSTS),
        })
        .collect()
}

fn index(state: &mut u64, length: usize) -> usize {
    // The upper bits are the better ones.
    usize::try_from(random(state) >> 33).unwrap_or(0) % length
}

/// What the kills of all campaigns did.
#[derive(Default)]
struct KillTally {
    kills: BTreeMap<Victim, u64>,
    /// A process that was not there at its moment.
    missed: BTreeMap<Victim, u64>,
    campaigns: u64,
    ends: BTreeMap<String, u64>,
    violations: Vec<String>,
}

pub(super) fn run(
    programs: Option<&Path>,
    kills: u32,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<Vec<BenchGoal>> {
    println!("\n### {kills} kills at random moments, seed {seed}\n");
    let settings =
        LabSettings { hosts: HOSTS, programs, is_installed: true, group: None, shared: None };
    let mut lab = FleetLab::new(settings, interrupt)?;
    let mut state = random_state(seed);
    let mut tally = KillTally::default();
    let mut done = 0;
    while done < u64::from(kills) {
        lab.clean()?;
        let planned = plan_kills(&mut state, KILLS_MAX.min(u64::from(kills) - done));
        let found = campaign(&lab, &planned, &mut tally);
        interrupt.check()?;
        if let Err(error) = found {
            tally.violations.push(format!("campaign {}: {error:#}", tally.campaigns));
        }
        tally.campaigns += 1;
        done = tally.kills.values().sum();
        let violations = tally.violations.len();
        eprintln!(
            "{done} of {kills} kills, {} campaigns, {violations} violations",
            tally.campaigns
        );
        // Kills that always miss would never end this.
        if tally.campaigns > 10 * u64::from(kills) {
            tally.violations.push("most kills found no process".to_owned());
            break;
        }
    }
    lab.clean()?;
    Ok(print(&tally))
}

fn campaign(lab: &FleetLab, planned: &[PlannedKill], tally: &mut KillTally) -> Result<()> {
    let mut running = lab.campaign(&spec(1, Some(50)), &["--lost-wait", "15s"])?;
    let mut killed = Vec::new();
    for kill in planned {
        thread::sleep(kill.after);
        let host = format!("db{}", kill.host + 1);
        let is_done = match kill.victim {
            Victim::Bus => kill_bus(&running),
            Victim::Coordinator => {
                let is_alive = running.process.try_wait()?.is_none();
                if is_alive {
                    running = go_on(lab, running)?;
                }
                is_alive
            }
            Victim::Agent => lab.signal(&host, "durio-fleet agent", Signal::KILL).is_ok(),
            Victim::Child => lab.signal(&host, "durio run", Signal::KILL).is_ok(),
        };
        let counts = if is_done { &mut tally.kills } else { &mut tally.missed };
        *counts.entry(kill.victim).or_default() += 1;
        if is_done {
            killed.push(kill.victim);
        }
    }
    let ended = running.wait(CAMPAIGN_MAX)?;
    let before = tally.violations.len();
    check(lab, &killed, &ended, tally);
    if tally.violations.len() > before {
        eprintln!("{planned:?}\n{}", last_lines(&ended.said));
    }
    Ok(())
}

fn kill_bus(campaign: &LabCampaign) -> bool {
    let bus = child_of(campaign.process.id(), "nats-server");
    bus.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// Kills the coordinator, and continues its campaign by another one.
fn go_on(lab: &FleetLab, campaign: LabCampaign) -> Result<LabCampaign> {
    drop(campaign);
    for _ in 0..RESUMES_MAX {
        // A process that died before its folder was complete has started nothing.
        if !lab.path("campaign/launch.json").is_file() {
            let _ = std::fs::remove_dir_all(lab.path("campaign"));
            return lab.campaign(&spec(1, Some(50)), &["--lost-wait", "15s"]);
        }
        let mut resumed = lab.start(&["resume", "campaign", "--yes"].map(str::to_owned))?;
        thread::sleep(Duration::from_millis(300));
        match resumed.process.try_wait()? {
            // It had ended before it was killed, which the check decides about.
            Some(status) if status.code() != Some(2) => {}
            _ => return Ok(resumed),
        }
    }
    bail!("{RESUMES_MAX} coordinators that resumed ended at once")
}

/// Compares the record with the rules.
fn check(lab: &FleetLab, killed: &[Victim], ended: &LabEnd, tally: &mut KillTally) {
    let folder = lab.path("campaign");
    let states = states(&folder);
    let is_harmless = !killed.iter().any(|victim| matches!(victim, Victim::Agent | Victim::Child));
    let number = tally.campaigns;
    if ended.code.is_none() || matches!(ended.code, Some(4 | 101)) {
        tally
            .violations
            .push(format!("campaign {number}: durio-fleet ended with {:?}", ended.code));
    }
    for host in lab.names() {
        let of_host = states.get(&host).map_or(&[][..], Vec::as_slice);
        let found = runs(&folder, &host);
        let last = of_host.last().map_or_else(|| "none".to_owned(), |state| format!("{state:?}"));
        *tally.ends.entry(last.to_lowercase()).or_default() += 1;
        let has_whole = found.iter().any(|run| is_whole(run));
        for broken in violations(of_host, found.len(), has_whole, is_harmless) {
            let text = format!("campaign {number}, {host}: {broken}; {of_host:?}, {killed:?}");
            tally.violations.push(text);
        }
    }
}

/// The rules that the record of one host breaks.
fn violations(
    states: &[HostState],
    runs: usize,
    has_whole: bool,
    is_harmless: bool,
) -> Vec<&'static str> {
    let ends = |state: &&HostState| state.is_final() && **state != HostState::Lost;
    let is_collected = states.last() == Some(&HostState::Collected);
    let rules = [
        (states.last().is_none_or(|state| !state.is_final()), "no final state"),
        (states.iter().filter(ends).count() > 1, "more than one final state"),
        (states.contains(&HostState::Ended) && runs == 0, "a result is lost"),
        (is_collected && runs == 0, "collected, and nothing is here"),
        (runs > 1, "the run was repeated"),
        (is_harmless && !has_whole, "a run was harmed, though neither agent nor child was killed"),
    ];
    rules.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, text)| text).collect()
}

fn print(tally: &KillTally) -> Vec<BenchGoal> {
    let count = |counts: &BTreeMap<Victim, u64>, victim| {
        counts.get(&victim).copied().unwrap_or_default().to_string()
    };
    let rows = Victim::ALL.map(|victim| {
        [victim.to_string(), count(&tally.kills, victim), count(&tally.missed, victim)]
    });
    figures::print_table(&["killed", "kills", "not there at its moment"], rows);
    let ends: Vec<String> =
        tally.ends.iter().map(|(state, count)| format!("{count} {state}")).collect();
    println!("\n{} campaigns of {HOSTS} hosts; hosts ended: {}", tally.campaigns, ends.join(", "));
    tally.violations.iter().for_each(|violation| println!("- {violation}"));
    vec![BenchGoal::at_most("rules broken", tally.violations.len() as f64, 0.0, 0, "")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_kills() {
        let plans = |seed| {
            let mut state = random_state(seed);
            (0..40).map(|_| plan_kills(&mut state, 3)).collect::<Vec<_>>()
        };
        assert_eq!(plans(5), plans(5));
        let all: Vec<PlannedKill> = plans(5).into_iter().flatten().collect();
        for victim in Victim::ALL {
            assert!(all.iter().any(|kill| kill.victim == victim), "{victim}");
        }
        assert!(all.iter().all(|kill| kill.host < HOSTS && kill.after < SPAN));
        assert!(plans(5).iter().all(|kills| (1..=3).contains(&kills.len())));
    }

    #[test]
    fn each_rule_finds_what_breaks_it() {
        use HostState::{Collected, Ended, Failed, Lost, Running};
        let broken = violations;
        assert!(broken(&[Running, Ended, Collected], 1, true, true).is_empty());
        assert!(broken(&[Running, Lost, Ended, Collected], 1, false, false).is_empty());
        assert!(broken(&[Running, Lost], 0, false, false).is_empty());
        assert_eq!(broken(&[Running], 0, false, false), ["no final state"]);
        assert_eq!(broken(&[], 0, false, false), ["no final state"]);
        assert_eq!(broken(&[Failed, Collected], 1, true, true), ["more than one final state"]);
        assert_eq!(broken(&[Ended, Lost], 0, false, false), ["a result is lost"]);
        assert_eq!(broken(&[Collected], 2, true, true), ["the run was repeated"]);
        assert_eq!(broken(&[Collected], 1, false, true).len(), 1);
    }
}
