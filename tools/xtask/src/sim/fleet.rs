//! `cargo xtask sim fleet`: simulated campaigns on many hosts, and the faults that they must find.
//!
//! Prints what happened and that no promise was broken; or the violation and how to replay it, with
//! exit code 1. With `--hosts`, what one campaign costs its coordinator, with relays and without.
//! durio-agree has the simulation.

use std::io::{self, Write};
use std::time::Instant;

use durio_agree::FleetFault;
use durio_agree::sim::{CampaignTally, HubLoad, hub_load, simulate, trace};
use durio_record::fleet::HostState;

use crate::bench::{live_report, print_table};

/// Campaigns in which a planted fault must be found.
const FAULT_SEEDS: u64 = 20_000;

#[derive(Debug, clap::Args)]
pub(crate) struct FleetArguments {
    /// Seed of the first campaign; each further one has the next
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Campaigns
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    seeds: u64,
    /// Plant each fault in turn, and print after how many campaigns it is found
    #[arg(long, conflicts_with = "trace")]
    faults: bool,
    /// Plant this fault
    #[arg(long, value_name = "FAULT", value_parser = parse_fault, conflicts_with = "faults")]
    fault: Option<FleetFault>,
    /// Print the record of the first campaign and what was done to it
    #[arg(long)]
    trace: bool,
    /// One campaign of this many hosts in which nothing goes wrong: messages, bytes and time of its
    /// coordinator, without relays and with them
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "faults", "fault", "trace"],
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    hosts: Option<u32>,
    /// Relays of these hosts, each for at most 2,000
    #[arg(long, value_name = "N", default_value_t = 10, requires = "hosts",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    relays: u32,
}

fn parse_fault(word: &str) -> Result<FleetFault, String> {
    let expected =
        || format!("expected one of: {}", FleetFault::ALL.map(FleetFault::word).join(", "));
    FleetFault::of_word(word).ok_or_else(expected)
}

/// True if nothing was found that must not be, or all that must be.
pub(super) fn run(arguments: &FleetArguments) -> bool {
    let FleetArguments { seed, seeds, fault, .. } = *arguments;
    println!("seed {seed}");
    if let Some(hosts) = arguments.hosts {
        return print_hub(seed, hosts, arguments.relays);
    }
    if arguments.trace {
        let (events, violation) = trace(seed, fault);
        // A reader that wants only the beginning closes the pipe.
        let _ = writeln!(io::stdout(), "{}", events.join("\n"));
        if let Some(violation) = &violation {
            println!("violation: {}", violation.what);
        }
        return violation.is_none();
    }
    if arguments.faults {
        return print_faults(seed, seeds.max(FAULT_SEEDS));
    }
    let start = Instant::now();
    let (tally, violation) = simulate(seed, seeds, fault);
    print_tally(&tally, start.elapsed().as_secs_f64());
    match violation {
        None => println!("no violation in {} campaigns", tally.campaigns),
        Some(violation) => {
            let planted = fault.map(|fault| format!(" --fault '{fault}'")).unwrap_or_default();
            let seed = violation.seed;
            println!("{}; cargo xtask sim fleet --seed {seed} --trace{planted}", violation.what);
            return false;
        }
    }
    true
}

/// States that no host of a campaign in which nothing goes wrong leaves out.
const REACHED: [HostState; 6] = [
    HostState::Joined,
    HostState::Planned,
    HostState::Armed,
    HostState::Running,
    HostState::Ended,
    HostState::Collected,
];
/// The share of a core that the coordinator of hosts behind relays may take.
const CORES_MAX: f64 = 1.0;

/// True if all hosts reached all states, and relays leave the coordinator a core or less.
fn print_hub(seed: u64, hosts: u32, relays: u32) -> bool {
    let Some(live) = live_report() else {
        println!("the figures of a host are too large");
        return false;
    };
    let (mut rows, mut is_good) = (Vec::new(), true);
    for relays in [0, relays] {
        let load = match hub_load(seed, hosts as usize, relays as usize, &live) {
            Ok(load) => load,
            Err(what) => {
                println!("{relays} relays: {what}");
                return false;
            }
        };
        let counts = REACHED.map(|state| load.states.get(&state).copied().unwrap_or(0));
        let missing = counts.map(|count| (hosts as usize).saturating_sub(count));
        let missing = missing.into_iter().max().unwrap_or(0);
        let cores = load.busy.as_secs_f64() / load.length.as_secs_f64();
        is_good &= missing == 0 && load.refused == 0 && (relays == 0 || cores <= CORES_MAX);
        rows.push(hub_row(relays, &load, missing));
    }
    println!("{hosts} hosts, each with figures of {} bytes a second while it runs\n", live.len());
    let header = [
        "relays",
        "length, s",
        "messages/s",
        "most in a second",
        "MB/s",
        "coordinator, % of a core",
        "most in a second, %",
        "refused",
        "missing",
    ];
    print_table(&header, rows);
    is_good
}

fn hub_row(relays: u32, load: &HubLoad, missing: usize) -> [String; 9] {
    let seconds = load.length.as_secs_f64();
    [
        relays.to_string(),
        format!("{seconds:.1}"),
        format!("{:.0}", load.messages as f64 / seconds),
        load.messages_max.to_string(),
        format!("{:.2}", load.bytes as f64 / seconds / 1e6),
        format!("{:.1}", 100.0 * load.busy.as_secs_f64() / seconds),
        format!("{:.1}", 100.0 * load.busy_max.as_secs_f64()),
        load.refused.to_string(),
        missing.to_string(),
    ]
}

fn print_tally(tally: &CampaignTally, seconds: f64) {
    let CampaignTally { campaigns, messages, lost, doubled, .. } = *tally;
    println!("{campaigns} campaigns, {:.0} per second", campaigns as f64 / seconds);
    println!("{messages} messages, {lost} lost, {doubled} doubled");
    println!(
        "{} agents, children and buses killed, {} relays, {} coordinators resumed, {} cuts and pauses",
        tally.kills, tally.relays_killed, tally.resumes, tally.cuts
    );
    println!(
        "{} starts, {} barriers cancelled, {} hosts lost, {} folders collected",
        tally.starts, tally.barriers_cancelled, tally.losses, tally.collected
    );
}

/// A fault that is not found is a fault of the simulator.
fn print_faults(seed: u64, seeds: u64) -> bool {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["planted fault", "found after campaigns", "as"]);
    let mut is_good = true;
    for fault in FleetFault::ALL {
        let row = match simulate(seed, seeds, Some(fault)) {
            (tally, Some(violation)) => [tally.campaigns.to_string(), violation.what],
            (_, None) => {
                is_good = false;
                [format!("not in {seeds}"), String::new()]
            }
        };
        let [after, what] = row;
        table.add_row([fault.word().to_owned(), after, what]);
    }
    println!("{table}");
    is_good
}
