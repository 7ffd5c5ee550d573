//! `bench fleet-lab`: campaigns on hosts in network namespaces of this machine, with a real sshd and a
//! real nats-server, in which a host is slow, things die, or all hosts load one disk.
//!
//! Needs root, nats-server, OpenSSH and iproute2, and for the shared disk nbdkit, nbdfuse and a loop
//! device. All hosts have one kernel and one disk: times of starts can be compared exactly, and rates
//! mean nothing for hosts of their own.

mod campaign;
mod cost;
mod failures;
mod hosts;
mod kills;
pub(super) mod load;
mod lost;
mod shared;
mod skew;
mod slow;
mod throttle;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;

use super::figures::{self, BenchGoal};
use super::machine;
use super::session::Interrupt;

#[derive(Debug, clap::Args)]
pub(crate) struct FleetLabArguments {
    /// What is done with the hosts
    #[arg(value_enum, required = true)]
    parts: Vec<LabPart>,

    /// Folder with durio and durio-fleet [default: they are built]
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,

    /// Kills of the part kills
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,

    /// Trials of each kind of the part lost
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,

    /// Seed of what is random, printed first [default: a new one]
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LabPart {
    /// Eight hosts with nothing but ssh, one of them slowed down: suspect, then named by confirm
    Slow,
    /// A host killed, a link cut, the bus killed, the coordinator killed and resumed: what hosts became
    Failures,
    /// Four hosts on one disk that is served over NBD: pooled rate and merged latencies
    Shared,
    /// Time until a lost host is shown: SIGKILL, SIGSTOP, a cut link
    Lost,
    /// Kills of bus, coordinator, agent or child at random moments
    Kills,
    /// Actual starts of eight idle hosts, and the printed bound
    Skew,
    /// What an agent costs next to a run
    Cost,
}

/// The longest time of one campaign of the lab.
const CAMPAIGN_MAX: Duration = Duration::from_secs(600);
const POLL_EVERY: Duration = Duration::from_millis(10);

pub(super) fn run(arguments: &FleetLabArguments, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    if let Some(reason) = hosts::obstacle() {
        bail!("no hosts can be made here: {reason}");
    }
    machine::print_machine("Campaigns on hosts in network namespaces");
    let seed = arguments.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| u64::from(now.subsec_nanos()))
    });
    println!("- seed: {seed}");
    let programs = arguments.programs.as_deref();
    let mut goals = Vec::new();
    for part in &arguments.parts {
        eprintln!("part {part:?}");
        goals.extend(match part {
            LabPart::Slow => slow::run(programs, interrupt)?,
            LabPart::Failures => failures::run(programs, interrupt)?,
            LabPart::Shared => shared::run(programs, interrupt)?,
            LabPart::Lost => lost::run(programs, arguments.trials, seed, interrupt)?,
            LabPart::Kills => kills::run(programs, arguments.kills, seed, interrupt)?,
            LabPart::Skew => skew::run(programs, interrupt)?,
            LabPart::Cost => cost::run(programs, interrupt)?,
        });
    }
    figures::print_goals(&goals);
    Ok(goals)
}

/// Random reads, then durable writes, of this length each; `rate` keeps hosts of one machine from
/// disturbing each other.
fn spec(seconds: u32, rate: Option<u32>) -> String {
    let rate = rate.map_or_else(String::new, |rate| format!("rate = {rate}\n"));
    format!(
        "schema = 1\nname = \"lab\"\n\n[[target]]\nname = \"data\"\nsize = \"16MiB\"\n\n\
         [defaults]\nblock_size = \"4KiB\"\npattern = \"random\"\nduration = \"{seconds}s\"\n{rate}\n\
         [[step]]\nname = \"read\"\nreads = \"100%\"\n\n\
         [[step]]\nname = \"commit\"\nreads = \"0%\"\nsync = \"fdatasync\"\n"
    )
}

/// Waits until something is so.
fn wait_until(
    what: &str,
    limit: Duration,
    interrupt: &Interrupt,
    mut is_so: impl FnMut() -> bool,
) -> Result<()> {
    let began = Instant::now();
    while !is_so() {
        interrupt.check()?;
        ensure!(began.elapsed() < limit, "waited {} s in vain until {what}", limit.as_secs());
        thread::sleep(POLL_EVERY);
    }
    Ok(())
}

/// A moment of the next `most`, by xorshift64.
fn random_time(state: &mut u64, most: Duration) -> Duration {
    let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
    Duration::from_micros(random(state) % most)
}

/// xorshift64, of a state that is not 0.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The state for a seed: each seed another, never 0.
fn random_state(seed: u64) -> u64 {
    // The golden ratio in 64 bits spreads small seeds.
    seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_it_is_so_and_at_its_limit() {
        let never = Interrupt::never();
        let mut calls = 0;
        let third = || {
            calls += 1;
            calls == 3
        };
        wait_until("the third call", Duration::from_secs(5), &never, third).unwrap();
        let error = wait_until("x", Duration::ZERO, &never, || false).unwrap_err();
        assert_eq!(error.to_string(), "waited 0 s in vain until x");
        wait_until("x", Duration::from_secs(5), &Interrupt::that_came(), || false).unwrap_err();
    }

    #[test]
    fn a_seed_gives_the_same_moments_and_another_seed_others() {
        let moments = |seed| {
            let mut state = random_state(seed);
            [0; 8].map(|_| random_time(&mut state, Duration::from_millis(600)))
        };
        assert_eq!(moments(0), moments(0));
        assert_ne!(moments(0), moments(2));
        assert!(moments(7).iter().all(|moment| *moment < Duration::from_millis(600)));
        assert_eq!(random_time(&mut 1, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_rate_is_a_line_of_the_spec_only_if_there_is_one() {
        assert!(spec(2, Some(50)).contains("duration = \"2s\"\nrate = 50\n"));
        assert!(!spec(2, None).contains("rate"));
    }
}
