//! `cargo xtask attack`: seeded attacks on a built durio, and those that succeeded.
//!
//! Prints a table with a row for each kind of attack, the same for the same seed; exit code 1 if
//! any attack succeeded.
//!
//! Everything happens in one folder, on loop devices over files of that folder, and for root in
//! private namespaces (`arena`). Each finding says how to repeat it: `--only ROW --case K`.

mod archives;
mod arena;
mod devices;
mod inputs;
mod kills;
mod launch;
mod mutate;
mod names;
mod network;
mod races;
mod random;
mod rows;
mod session;
mod sockets;
mod witness;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use rows::AttackScale;
use session::carry_out;

use crate::bench::Interrupt;

pub(crate) use session::RowOutcome;

/// Exit code of a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;
/// Cases that are named in a cell of the table.
const NAMED_MAX: usize = 12;

/// What is tried, on what.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AttackArguments {
    /// Seed of every choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only this row of the table, or this group of rows (can be repeated)
    #[arg(long, value_name = "KIND")]
    pub(crate) only: Vec<String>,
    /// Only this case of each row
    #[arg(long, value_name = "K")]
    pub(crate) case: Option<usize>,
    /// So many cases of each row, whatever the scale
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<usize>,
    /// How many cases
    #[arg(long, value_enum, default_value = "small")]
    pub(crate) scale: AttackScale,
    /// This durio, instead of building one
    #[arg(long, value_name = "PATH")]
    pub(crate) durio: Option<PathBuf>,
    /// Folder in which the folder for everything is made [default: /var/tmp]; no memory filesystem
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Keep the folder: that of the last case is in it
    #[arg(long)]
    pub(crate) keep: bool,
    #[arg(long, hide = true)]
    pub(crate) inside: Option<PathBuf>,
}

impl AttackArguments {
    /// The arguments that recreate these, without those for the outer process.
    fn words(&self) -> Vec<String> {
        let mut words = vec!["--seed".to_owned(), self.seed.to_string()];
        words.extend(self.only.iter().flat_map(|row| ["--only".to_owned(), row.clone()]));
        words.extend(self.case.iter().flat_map(|case| ["--case".to_owned(), case.to_string()]));
        words.extend(self.count.iter().flat_map(|count| ["--count".to_owned(), count.to_string()]));
        let scale = if self.scale == AttackScale::Full { "full" } else { "small" };
        words.extend(["--scale".to_owned(), scale.to_owned()]);
        words
    }
}

/// The seed of the everyday suite.
// Fixed, so that a failure repeats in the next call.
const EVERYDAY_SEED: u64 = 12;

/// Part of the test suite: the everyday one takes a minute or two, the long one everything.
pub(crate) fn suite(durio: &Path, is_long: bool) -> Result<Vec<RowOutcome>> {
    let arguments = AttackArguments {
        seed: EVERYDAY_SEED,
        only: Vec::new(),
        case: None,
        count: None,
        scale: if is_long { AttackScale::Full } else { AttackScale::Small },
        durio: Some(durio.to_owned()),
        scratch: None,
        keep: false,
        inside: None,
    };
    println!("seed {EVERYDAY_SEED}");
    let outcomes = carry_out(&arguments, &Interrupt::watch()?)?;
    print(&outcomes);
    Ok(outcomes)
}

/// Runs the suite, or, inside of its namespaces, its rows.
pub(crate) fn run(arguments: &AttackArguments) -> Result<ExitCode> {
    if let Some(scratch) = &arguments.inside {
        return session::run_inside(arguments, scratch).map(|()| ExitCode::SUCCESS);
    }
    println!("seed {}", arguments.seed);
    let interrupt = Interrupt::watch()?;
    let outcomes = match carry_out(arguments, &interrupt) {
        Err(_) if interrupt.came() => {
            eprintln!("interrupted; everything is taken down");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        outcomes => outcomes?,
    };
    print(&outcomes);
    let is_good = outcomes.iter().all(|outcome| outcome.violations.is_empty());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the table, which is identical from one run to the next.
fn print(outcomes: &[RowOutcome]) {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["attack", "tried", "violations", "cases"]);
    for outcome in outcomes {
        let last = outcome
            .not_run
            .as_ref()
            .map_or_else(|| cases(outcome), |reason| format!("not run: {reason}"));
        let (tried, violations) = (outcome.tried.to_string(), outcome.violations.len().to_string());
        table.add_row([outcome.row.clone(), tried, violations, last]);
    }
    println!("{table}");
}

fn cases(outcome: &RowOutcome) -> String {
    let numbers = outcome.violations.iter().map(|(case, _)| case.to_string());
    let mut named: Vec<_> = numbers.take(NAMED_MAX).collect();
    if outcome.violations.len() > NAMED_MAX {
        named.push("…".to_owned());
    }
    named.join(" ")
}
