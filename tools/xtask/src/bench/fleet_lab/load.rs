//! `bench fleet-load`: what a campaign of hundreds of hosts costs its coordinator and its bus.
//!
//! Coordinator and nats-server are the real programs. The hosts are threads of this process with the
//! state machine of the real agent, and runs that do nothing; a script in the place of ssh hands over
//! their keys. Each tells its figures once a second, of two streams, as a run does, and asks the bus for
//! a sign of life as the agent's client does. What ssh takes for tunnels is not measured.

mod agent;
mod wire;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use durio_agree::sign::SigningKey;
use durio_record::fleet::HostState;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

use self::agent::{ScriptedAgent, ScriptedRun, serve};
use super::campaign::{LabCampaign, states, summary};
use super::cost::processor_seconds;
use super::hosts::{child_of, copy_programs, program_path};
use super::{CAMPAIGN_MAX, spec, wait_until};
use crate::bench::figures::{self, BenchGoal};
use crate::bench::machine;
use crate::bench::session::{self, Interrupt};
use crate::cargo;

pub(crate) use self::agent::live_report;

#[derive(Debug, clap::Args)]
pub(crate) struct FleetLoadArguments {
    /// Scripted hosts
    #[arg(long, value_name = "N", default_value_t = 300,
          value_parser = clap::value_parser!(u32).range(1..=4_000))]
    hosts: u32,

    /// Seconds that are measured while all run
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(5..=600))]
    seconds: u32,

    /// Folder with durio and durio-fleet [default: they are built]
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

/// Up to this many hosts, and for more: % of a core, and MB/s.
const FEW_HOSTS: u32 = 300;
const LIMITS_FEW: [f64; 2] = [20.0, 1.0];
const LIMITS_MANY: [f64; 2] = [40.0, 3.0];
const JOIN_MAX: Duration = Duration::from_secs(180);
const SETTLED: Duration = Duration::from_secs(3);
/// A scripted run outlasts the measurement by this.
const MARGIN: Duration = Duration::from_secs(15);
/// A thread of an agent needs little.
const STACK_BYTES: usize = 512 << 10;

/// In the place of ssh: tells the bench of the invitation, and the coordinator of the host's key.
const SSH: &str = r#"#!/bin/sh
bus= host=
while [ $# -gt 0 ]; do
  case "$1" in
    -R) bus=$2; shift ;;
    --) host=$2; break ;;
  esac
  shift
done
read -r invitation
printf '%s\n%s\n' "$bus" "$invitation" >"LAB/joined/.$host"
mv "LAB/joined/.$host" "LAB/joined/$host"
cat "LAB/keys/$host"
exec cat >/dev/null
"#;

/// The threads of the hosts.
struct Agents {
    folder: PathBuf,
    keys: Vec<(String, SigningKey)>,
    run: ScriptedRun,
    joined: BTreeSet<String>,
    threads: Vec<JoinHandle<Result<()>>>,
}

pub(in crate::bench) fn run(
    arguments: &FleetLoadArguments,
    interrupt: &Interrupt,
) -> Result<Vec<BenchGoal>> {
    if program_path("nats-server").is_none() {
        bail!("nats-server is missing");
    }
    raise_file_limit()?;
    machine::print_machine("A campaign of scripted hosts: coordinator and bus");
    let folder = session::folder(&cargo::metadata()?.target_directory.into_std_path_buf())?;
    copy_programs(arguments.programs.as_deref(), &folder.path().join("bin"))?;
    let measured = Duration::from_secs(u64::from(arguments.seconds));
    let mut agents = Agents::new(folder.path(), arguments.hosts, measured + MARGIN)?;
    let result = load(arguments, folder.path(), &mut agents, interrupt);
    // Before their errors are read, and whatever came.
    agents.run.is_over.store(true, Ordering::Relaxed);
    let mut failed = Vec::new();
    for thread in agents.threads.drain(..) {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed.push(format!("{error:#}")),
            Err(_) => failed.push("a thread panicked".to_owned()),
        }
    }
    if let Some(first) = failed.first() {
        eprintln!("{} scripted hosts failed: {first}", failed.len());
    }
    result
}

fn load(
    arguments: &FleetLoadArguments,
    folder: &Path,
    agents: &mut Agents,
    interrupt: &Interrupt,
) -> Result<Vec<BenchGoal>> {
    let hosts = arguments.hosts;
    eprintln!("{hosts} scripted hosts join");
    let mut campaign = start(folder, hosts, interrupt)?;
    let names: Vec<String> = agents.keys.iter().map(|(name, _)| name.clone()).collect();
    let began = Instant::now();
    wait_until("all hosts have an invitation", JOIN_MAX, interrupt, || {
        agents.start_invited();
        agents.joined.len() == names.len()
    })?;
    campaign.await_state(&names, HostState::Joined, JOIN_MAX)?;
    let joined = began.elapsed().as_secs_f64();
    eprintln!("joined after {joined:.1} s; waiting until all run");
    campaign.await_state(&names, HostState::Running, JOIN_MAX)?;
    thread::sleep(SETTLED);
    let coordinator = i32::try_from(campaign.process.id()).ok().and_then(Pid::from_raw);
    let coordinator = coordinator.context("no coordinator")?;
    let bus = child_of(campaign.process.id(), "nats-server").context("no bus")?;
    let read = || -> Result<[f64; 3]> {
        let bytes = agents.run.bytes.load(Ordering::Relaxed) as f64;
        Ok([processor_seconds(coordinator)?, processor_seconds(bus)?, bytes])
    };
    let (since, before) = (Instant::now(), read()?);
    eprintln!("measuring for {} s", arguments.seconds);
    thread::sleep(Duration::from_secs(u64::from(arguments.seconds)));
    let (after, seconds) = (read()?, since.elapsed().as_secs_f64());
    let known = states(&folder.join("campaign"));
    let has_ended = known.values().any(|found| found.contains(&HostState::Ended));
    ensure!(!has_ended, "runs ended before they had been measured for {seconds:.1} s");
    let per_second = |at: usize| (after[at] - before[at]) / seconds;
    let [coordinator, bus] = [0, 1].map(|at| 100.0 * per_second(at));
    let megabytes = per_second(2) / 1e6;
    eprintln!("waiting for the end");
    let ended = campaign.wait(CAMPAIGN_MAX)?;
    let states = states(&folder.join("campaign"));
    let collected = states.values().filter(|found| found.last() == Some(&HostState::Collected));
    let missing = hosts as usize - collected.count().min(hosts as usize);
    let lost = states.values().filter(|found| found.contains(&HostState::Lost)).count();
    println!("- measured for {seconds:.1} s while all ran; exit code {:?}", ended.code);
    println!("- hosts in the end: {}\n", summary(&states));
    let rows = [[
        hosts.to_string(),
        format!("{joined:.1}"),
        format!("{coordinator:.1}"),
        format!("{bus:.1}"),
        format!("{megabytes:.2}"),
        lost.to_string(),
        missing.to_string(),
    ]];
    let header = [
        "hosts",
        "joined, s",
        "coordinator, % of a core",
        "bus, %",
        "MB/s",
        "lost once",
        "missing",
    ];
    figures::print_table(&header, rows);
    let [cpu_max, rate_max] = if hosts <= FEW_HOSTS { LIMITS_FEW } else { LIMITS_MANY };
    let goals = vec![
        BenchGoal::at_most("coordinator and bus", coordinator + bus, cpu_max, 1, " % of a core"),
        BenchGoal::at_most("messages of hosts and to them", megabytes, rate_max, 2, " MB/s"),
        BenchGoal::at_most("hosts without a result", missing as f64, 0.0, 0, ""),
    ];
    figures::print_goals(&goals);
    Ok(goals)
}

fn start(folder: &Path, hosts: u32, interrupt: &Interrupt) -> Result<LabCampaign> {
    let scripts = folder.join("path");
    fs::create_dir(&scripts)?;
    let ssh = scripts.join("ssh");
    fs::write(&ssh, SSH.replace("LAB", &folder.display().to_string()))?;
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755))?;
    fs::write(folder.join("lab.toml"), spec(1, None))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let words = [
        format!("PATH={}:{path}", scripts.display()),
        folder.join("bin/durio-fleet").display().to_string(),
        "run".to_owned(),
        "lab.toml".to_owned(),
        "--hosts".to_owned(),
        format!("h[0001-{hosts:04}]"),
    ];
    let more = ["--target", "data=/srv/data", "--yes", "--fanout", "200", "-o", "campaign"];
    let words: Vec<String> = words.into_iter().chain(more.map(str::to_owned)).collect();
    // It becomes the coordinator, with another ssh in its PATH.
    LabCampaign::start(Path::new("/usr/bin/env"), folder, &words, interrupt)
}

impl Agents {
    fn new(folder: &Path, hosts: u32, length: Duration) -> Result<Self> {
        for name in ["keys", "joined"] {
            fs::create_dir(folder.join(name))?;
        }
        let mut keys = Vec::new();
        for number in 1..=hosts {
            let (name, key) = (format!("h{number:04}"), SigningKey::generate());
            let reply = format!("{}\n", serde_json::json!({ "key": key.public() }));
            fs::write(folder.join("keys").join(&name), reply)?;
            keys.push((name, key));
        }
        let run = ScriptedRun {
            length,
            live: Arc::new(live_report().context("the figures are too large")?),
            bytes: Arc::new(AtomicU64::new(0)),
            is_over: Arc::new(AtomicBool::new(false)),
            epoch: Instant::now(),
        };
        let (joined, threads) = (BTreeSet::new(), Vec::new());
        Ok(Self { folder: folder.to_owned(), keys, run, joined, threads })
    }

    /// Starts the agents whose invitations have come.
    fn start_invited(&mut self) {
        let folder = self.folder.join("joined");
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let come: BTreeSet<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        for (name, key) in &self.keys {
            if self.joined.contains(name) || !come.contains(name) {
                continue;
            }
            let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
            let Some(agent) = invited(name, key, &text) else { continue };
            let run = self.run.clone();
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            if let Ok(thread) = thread.spawn(move || serve(agent, &run)) {
                self.threads.push(thread);
                self.joined.insert(name.clone());
            }
        }
    }
}

/// The agent that an invitation asks for: the first line has ssh's option -R.
fn invited(name: &str, key: &SigningKey, text: &str) -> Option<ScriptedAgent> {
    let (forward, line) = text.split_once('\n')?;
    let invitation: serde_json::Value = serde_json::from_str(line).ok()?;
    Some(ScriptedAgent {
        name: name.to_owned(),
        key: key.clone(),
        port: forward.rsplit_once(':')?.1.parse().ok()?,
        campaign: invitation["campaign"].as_str()?.to_owned(),
        coordinator: invitation["coordinator"].as_str()?.to_owned(),
    })
}

/// Each host has a socket here.
fn raise_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_made_from_the_option_of_ssh_and_the_invitation() {
        let key = SigningKey::generate();
        let text = "127.0.0.1:20001:127.0.0.1:4222\n{\"campaign\":\"c1\",\"coordinator\":\"U1\"}\n";
        let agent = invited("h0001", &key, text).unwrap();
        assert_eq!((agent.port, agent.campaign.as_str()), (4222, "c1"));
        assert_eq!(agent.coordinator, "U1");
        assert!(invited("h0001", &key, "127.0.0.1:20001:127.0.0.1:4222\n").is_none());
    }
}
