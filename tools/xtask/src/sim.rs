//! `cargo xtask sim`: power cuts of simulated arrays, and the faults that they must find; campaigns of
//! simulated hosts are in [`fleet`].
//!
//! Prints how many cuts passed without a violation and how fast; or the violation, how to replay
//! it, and a smaller case of it, with exit code 1. durio-raid has the simulation.

mod fleet;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use durio_raid::Fault;
use durio_raid::sim::{
    CutCase, Focus, Liars, Reduction, Scenario, Tally, Violation, lies, parse_fault, parse_liars,
    replay, shrink, simulate, why_unseen,
};

/// Cuts in which a planted fault must be found.
const FAULT_CUTS: u64 = 100_000;

/// What is simulated.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Sim {
    /// The RAID engine on drives that lose their power, fail, stall and come back
    Raid(SimArguments),
    /// The coordinator and the hosts of a campaign, on a bus that loses, doubles and delays messages
    Fleet(fleet::FleetArguments),
}

/// How much of it.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArguments {
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
    /// Plant this fault
    #[arg(long, value_name = "FAULT", value_parser = parse_fault, conflicts_with_all = ["faults", "lies"])]
    fault: Option<Fault>,
    /// Say of each lie after how many cuts it is seen, if it is taken for honest
    #[arg(long, conflicts_with_all = ["faults", "cut", "trace", "lie"])]
    lies: bool,
    /// Which campaigns have a drive that lies: some, none, every, or a lie that every one has
    #[arg(long, value_name = "WHICH", default_value = "some", value_parser = parse_liars)]
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
    /// What is left out of its campaign, as a shrunk case says it
    #[arg(long, value_name = "CASE", requires = "cut", default_value_t)]
    shrunk: Reduction,
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
pub(crate) fn run(simulation: &Sim) -> Result<ExitCode> {
    let is_good = match simulation {
        Sim::Raid(arguments) => run_raid(arguments)?,
        Sim::Fleet(arguments) => fleet::run(arguments),
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_raid(arguments: &SimArguments) -> Result<bool> {
    println!("seed {}", arguments.seed);
    let seed = arguments.seed;
    let focus = match arguments.focus {
        FocusArgument::Any => Focus::Any,
        FocusArgument::Four => Focus::Four,
        FocusArgument::Starts => Focus::Starts,
        FocusArgument::Stripes => Focus::Stripes,
    };
    let liars = match arguments.lie {
        Liars::Only(name) if arguments.believed => Liars::Believed(name),
        _ if arguments.believed => anyhow::bail!("--believed needs the name of a lie in --lie"),
        liars => liars,
    };
    let scenario = Scenario { seed, focus, fault: arguments.fault, liars };
    Ok(match arguments.cut {
        Some(cut) => print_replay(&CutCase { scenario, cut, reduction: arguments.shrunk.clone() }),
        None if arguments.lies => print_lies(scenario, arguments.cuts),
        None if arguments.faults => print_faults(scenario, arguments.cuts.max(FAULT_CUTS)),
        None => print_simulation(scenario, arguments.cuts),
    })
}

fn print_simulation(scenario: Scenario, cuts: u64) -> bool {
    let start = Instant::now();
    let (tally, violation) = simulate(scenario, cuts);
    let seconds = start.elapsed().as_secs_f64();
    print_tally(&tally);
    println!("{:.0} cuts per second", tally.cuts as f64 / seconds);
    match violation {
        None => println!("no violation in {} cuts", tally.cuts),
        Some(violation) => {
            print_violation(scenario, &violation);
            return false;
        }
    }
    true
}

/// Prints the violation, and a smaller case of it.
fn print_violation(scenario: Scenario, violation: &Violation) {
    println!("cut {}: {}", violation.cut, violation.what);
    let reduction = Reduction::default();
    println!("replay it: {}", CutCase { scenario, cut: violation.cut, reduction });
    let (original, shrunk) = shrink(scenario, violation);
    println!("shrunk from {} events to {}: {}", original.events, shrunk.events, shrunk.what);
    println!("replay it: {}", shrunk.case);
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
        "{} drives damaged between starts, {} put back as they were while the array ran",
        tally.damages, tally.put_back
    );
    println!(
        "{} arrays with a drive that lies: {} times it had gone back, {} times it hid that a copy lacks something, {} scrubs made copies equal, {} arrays lost with it",
        tally.liars, tally.went_back, tally.misled, tally.repairs, tally.lost_with_liar
    );
}

fn print_replay(case: &CutCase) -> bool {
    let (events, violation) = replay(case);
    // A reader that wants only the beginning closes the pipe.
    let _ = writeln!(io::stdout(), "{}", events.join("\n"));
    violation.is_none()
}

/// Faults that were not found are bad.
fn print_faults(scenario: Scenario, cuts: u64) -> bool {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["planted fault", "found after cuts", "events", "shrunk to", "as"]);
    let (mut is_good, mut cases) = (true, Vec::new());
    for fault in Fault::ALL {
        let planted = scenario.planting(fault);
        let (_, violation) = simulate(planted, cuts);
        let name = fault.word().to_owned();
        let Some(violation) = violation else {
            is_good = false;
            table.add_row([name, format!("not in {cuts}")]);
            continue;
        };
        let (original, shrunk) = shrink(planted, &violation);
        let after = (violation.cut + 1).to_string();
        let events = [original.events, shrunk.events].map(|count| count.to_string());
        let [before, now] = events;
        table.add_row([name, after, before, now, short(&shrunk.what).to_owned()]);
        cases.push(shrunk.case.to_string());
    }
    println!("{table}");
    println!("{}", cases.join("\n"));
    is_good
}

/// Lies that could be seen but were not are bad, and so are promises that they broke.
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
            |violation| format!("cut {}: {}", violation.cut, violation.what),
        );
        table.add_row([named.name.to_owned(), after, what, known]);
    }
    println!("{table}");
    is_good
}

/// Without the model's knowledge.
fn short(what: &str) -> &str {
    what.split([';', '{']).next().unwrap_or(what)
}

/// Part of the test suite, half of it on stripes: the violation, and the command that replays it.
/// Each day has a seed, which is printed first.
pub(crate) fn suite(cuts: u64) -> Option<String> {
    let seed =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs() / 86_400);
    println!("simulated cuts of RAID: seed {seed}");
    [Focus::Any, Focus::Stripes].into_iter().find_map(|focus| {
        let scenario = Scenario { seed, focus, ..Scenario::default() };
        let (_, violation) = simulate(scenario, cuts / 2);
        let Violation { cut, what } = violation?;
        let case = CutCase { scenario, cut, reduction: Reduction::default() };
        Some(format!("{what}; cargo xtask sim raid {case}"))
    })
}
