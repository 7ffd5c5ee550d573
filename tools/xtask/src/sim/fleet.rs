//! `cargo xtask sim fleet`: simulated campaigns on many hosts, and the faults that they must find.
//!
//! Prints what happened and that no promise was broken; or the violation and how to replay it, with
//! exit code 1. durio-agree has the simulation.

use std::io::{self, Write};
use std::time::Instant;

use durio_agree::FleetFault;
use durio_agree::sim::{CampaignTally, simulate, trace};

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

fn print_tally(tally: &CampaignTally, seconds: f64) {
    let CampaignTally { campaigns, messages, lost, doubled, .. } = *tally;
    println!("{campaigns} campaigns, {:.0} per second", campaigns as f64 / seconds);
    println!("{messages} messages, {lost} lost, {doubled} doubled");
    println!(
        "{} agents, children and buses killed, {} coordinators resumed, {} cuts and pauses",
        tally.kills, tally.resumes, tally.cuts
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
