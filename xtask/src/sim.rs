//! `cargo xtask sim raid`: power cuts of simulated arrays, and the faults that they must find.
//!
//! In: a seed, a number of cuts. Out: how many cuts without a violation, how fast; or the violation and
//! how to replay it, with exit code 1. Not here: the simulation (durio-raid).

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use durio_raid::Fault;
use durio_raid::sim::{
    Focus, Liars, Scenario, Tally, Violation, lies, replay, simulate, why_unseen,
};

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
    /// Say of each lie after how many cuts it is seen, if it is taken for honest
    #[arg(long, conflicts_with_all = ["faults", "cut", "trace", "lie"])]
    lies: bool,
    /// Which campaigns have a drive that lies: some, none, every, or a lie that every one has
    #[arg(long, value_name = "WHICH", default_value = "some", value_parser = liars)]
    lie: Liars,
    /// Judge a drive that lies as if it were honest
    #[arg(long, requires = "lie")]
    believed: bool,
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
}

/// Simulates. The first line is the seed.
pub(crate) fn run(Sim::Raid(arguments): &Sim) -> Result<ExitCode> {
    println!("seed {}", arguments.seed);
    let seed = arguments.seed;
    let focus = match arguments.focus {
        FocusArgument::Any => Focus::Any,
        FocusArgument::Four => Focus::Four,
        FocusArgument::Starts => Focus::Starts,
    };
    let liars = match arguments.lie {
        Liars::Only(name) if arguments.believed => Liars::Believed(name),
        _ if arguments.believed => anyhow::bail!("--believed needs the name of a lie in --lie"),
        liars => liars,
    };
    let scenario = Scenario { seed, focus, fault: None, liars };
    let is_good = match arguments.cut {
        Some(cut) => print_replay(scenario, cut),
        None if arguments.lies => print_lies(scenario, arguments.cuts),
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
    println!(
        "{} arrays with a drive that lies: {} times it had gone back, {} times it hid that a copy lacks something, {} scrubs made copies equal, {} arrays lost with it",
        tally.liars, tally.went_back, tally.misled, tally.repairs, tally.lost_with_liar
    );
}

/// `some`, `none`, `every`, or the name of a lie.
fn liars(text: &str) -> Result<Liars, String> {
    let named = || lies().find(|it| it.name == text).map(|it| Liars::Only(it.name));
    let names = || lies().map(|it| it.name).collect::<Vec<_>>().join(", ");
    match text {
        "some" => Ok(Liars::Some),
        "none" => Ok(Liars::None),
        "every" => Ok(Liars::Every),
        _ => named().ok_or_else(|| format!("expected some, none, every, or one of {}", names())),
    }
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

/// Lies that can be seen and were not are bad, and so are promises that they broke.
fn print_lies(scenario: Scenario, cuts: u64) -> bool {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["lie", "seen after cuts, believed", "as", "known to lie"]);
    let mut is_good = true;
    for named in lies() {
        let with = |liars| simulate(Scenario { liars, ..scenario }, cuts);
        let seen = with(Liars::Believed(named.name)).1;
        let (tally, broken) = with(Liars::Only(named.name));
        let why = why_unseen(named.name);
        is_good &= seen.is_some() == why.is_none() && broken.is_none();
        let (after, what) = match (seen, why) {
            (Some(it), _) => ((it.cut + 1).to_string(), short(&it.what).to_owned()),
            (None, Some(why)) => ("-".to_owned(), why.to_owned()),
            (None, None) => (format!("not in {cuts}"), String::new()),
        };
        let known = broken.map_or_else(
            || format!("no promise broken in {} cuts", tally.cuts),
            |it| format!("cut {}: {}", it.cut, it.what),
        );
        table.add_row([named.name.to_owned(), after, what, known]);
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
