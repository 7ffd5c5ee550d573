//! `cargo xtask sim raid`: power cuts of simulated arrays, and the faults that they must find.
//!
//! In: a seed, a number of cuts. Out: how many cuts without a violation, how fast; or the violation and
//! how to replay it, with exit code 1. Not here: the simulation (durio-raid).

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use durio_raid::Fault;
use durio_raid::sim::{Focus, Scenario, Tally, Violation, replay, simulate};

/// Cuts in which a planted fault must be found.
const FAULT_CUTS: u64 = 100_000;

/// What is simulated.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Sim {
    /// The RAID engine on drives that lose their power, fail, stall and come back
    Raid(Arguments),
}

/// How much of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Power cuts
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    cuts: u64,
    /// Seed of every decision
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Which arrays
    #[arg(long, value_enum, default_value_t = FocusArgument::Any)]
    focus: FocusArgument,
    /// Plant each fault in turn, and say after how many cuts it is found
    #[arg(long, conflicts_with_all = ["cut", "trace"])]
    faults: bool,
    /// Replay only the life that ends with this cut, counted from 0
    #[arg(long, value_name = "K", requires = "trace")]
    cut: Option<u64>,
    /// Print every event of it
    #[arg(long, requires = "cut")]
    trace: bool,
}

/// Which arrays are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FocusArgument {
    /// Levels 0, 1 and 10 of 2 to 6 members
    Any,
    /// Level 10 of four members
    Four,
    /// Three copies, each start with another member missing, cut while superblocks are written
    Starts,
    /// Levels 5 and 6 of 3 to 5 members
    Stripes,
}

/// Simulates. The first line is the seed.
pub(crate) fn run(Sim::Raid(arguments): &Sim) -> Result<ExitCode> {
    println!("seed {}", arguments.seed);
    let seed = arguments.seed;
    let focus = match arguments.focus {
        FocusArgument::Any => Focus::Any,
        FocusArgument::Four => Focus::Four,
        FocusArgument::Starts => Focus::Starts,
        FocusArgument::Stripes => Focus::Stripes,
    };
    let scenario = Scenario { seed, focus, fault: None };
    let is_good = match arguments.cut {
        Some(cut) => print_replay(scenario, cut),
        None if arguments.faults => print_faults(scenario, arguments.cuts.max(FAULT_CUTS)),
        None => print_simulation(scenario, arguments.cuts),
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_simulation(scenario: Scenario, cuts: u64) -> bool {
    let start = Instant::now();
    let (tally, violation) = simulate(scenario, cuts);
    let seconds = start.elapsed().as_secs_f64();
    print_tally(&tally);
    println!("{:.0} cuts per second", tally.cuts as f64 / seconds);
    match violation {
        None => println!("no violation in {} cuts", tally.cuts),
        Some(Violation { cut, what }) => {
            let focus = match scenario.focus {
                Focus::Any => "",
                Focus::Four => " --focus four",
                Focus::Starts => " --focus starts",
                Focus::Stripes => " --focus stripes",
            };
            println!("cut {cut}: {what}");
            println!("replay it: --seed {}{focus} --cut {cut} --trace", scenario.seed);
            return false;
        }
    }
    true
}

fn print_tally(tally: &Tally) {
    println!(
        "{} cuts: {} at the start, {} in a resync, {} in a rebuild",
        tally.cuts, tally.cuts_at_start, tally.cuts_in_resync, tally.cuts_in_rebuild
    );
    println!(
        "{} writes acknowledged, {} reads checked, {} members failed, {} came back, {} starts refused",
        tally.writes, tally.reads, tally.failures, tally.rejoined, tally.refusals
    );
    println!(
        "{} members that worked began to be replaced, {} were",
        tally.replacements, tally.replaced
    );
    println!(
        "{} scrubs, {} planted differences found and repaired",
        tally.scrubs, tally.differences
    );
}

fn print_replay(scenario: Scenario, cut: u64) -> bool {
    let (events, violation) = replay(scenario, cut);
    // Whoever reads only the begin of it closes the pipe.
    let _ = writeln!(io::stdout(), "{}", events.join("\n"));
    violation.is_none()
}

/// Faults that were not found are bad.
fn print_faults(scenario: Scenario, cuts: u64) -> bool {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["planted fault", "found after cuts", "as"]);
    let mut is_good = true;
    for fault in Fault::ALL {
        let (_, violation) = simulate(scenario.planting(fault), cuts);
        is_good &= violation.is_some();
        let (after, what) = violation.map_or_else(
            || (format!("not in {cuts}"), String::new()),
            |it| ((it.cut + 1).to_string(), short(&it.what).to_owned()),
        );
        table.add_row([fault.name().to_owned(), after, what]);
    }
    println!("{table}");
    is_good
}

/// Without what the model knew.
fn short(what: &str) -> &str {
    what.split_once(';').map_or(what, |(first, _)| first)
}

/// The part of a test suite: the violation, if there is one.
pub(crate) fn suite(cuts: u64) -> Option<String> {
    let scenario = Scenario { seed: 1, ..Scenario::default() };
    let (_, violation) = simulate(scenario, cuts);
    violation.map(|Violation { cut, what }| format!("seed 1, cut {cut}: {what}"))
}
