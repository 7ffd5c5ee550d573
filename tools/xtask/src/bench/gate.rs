//! `bench compare`: how often `durio compare --fail-over` is wrong, on recorded runs.
//!
//! Takes runs of a few workloads on the real disk, recorded here or given as folders. Prints how
//! often sides drawn from the same runs are called a regression, and how often sides of which one
//! is slowed by 10 % are. durio-analyse's tests have models of storage.

mod draw;
mod record;
mod stretch;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::goals::{self, BenchGoal};
use super::session::{BenchSession, Interrupt};
use super::{machine, table};
use draw::Outcomes;
use record::Pool;

/// Options of `bench compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct GateArguments {
    /// Runs to record of each workload
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(10..))]
    runs: u32,

    /// Seconds per run
    #[arg(long, default_value_t = 2)]
    seconds: u32,

    /// Comparisons to draw for each number of repeats
    #[arg(long, default_value_t = 500)]
    draws: u32,

    /// Draw from the runs of the same thing in this directory, instead of recording; repeatable
    #[arg(long, value_name = "DIR")]
    from: Vec<PathBuf>,
}

/// Repeats per side.
const REPEATS: [usize; 5] = [1, 2, 3, 5, 8];

/// Every time in the record of a slowed run is longer by this factor.
const SLOWED: f64 = 1.10;

/// The permitted regression.
const FAIL_OVER: f64 = 0.05;

/// The goals, in per cent.
const FALSE_ALARMS_MAX: f64 = 5.0;
const FOUND_MIN: f64 = 80.0;
const FOUND_WITH: usize = 5;

/// Beyond this scatter of single runs, no test of 5 against 5 finds 10 % in 80 % of cases: Welch's
/// power with 8 degrees of freedom at 2.5 %, one-sided, is 80 % at 3.2 standard errors, and
/// ln 1.1 / 3.2 / √(2/5) = 0.047.
const SCATTER_MAX: f64 = 0.047;

/// The outcome for one number of repeats.
struct RepeatsRow {
    repeats: usize,
    equal: Outcomes,
    slowed: Outcomes,
}

/// Runs `bench compare`.
pub(super) fn run(arguments: &GateArguments, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let pools = match arguments.from.is_empty() {
        true => recorded(arguments, interrupt)?,
        false => arguments.from.iter().map(|it| record::read(it)).collect::<Result<_>>()?,
    };
    let mut goals = Vec::new();
    for pool in &pools {
        let scatter = draw::scatter(pool);
        let rows = rows(pool, arguments.draws, interrupt)?;
        print(pool, scatter, &rows);
        goals.extend(goals_of(pool, scatter[0], &rows, arguments.draws));
    }
    let is_quiet = |it: &BenchGoal| it.goal.starts_with('≥');
    if !goals.iter().any(is_quiet) {
        println!("\nNo workload repeated within {:.1} %: power is not shown.", SCATTER_MAX * 100.0);
    }
    goals::print(&goals);
    Ok(goals)
}

fn recorded(arguments: &GateArguments, interrupt: &Interrupt) -> Result<Vec<Pool>> {
    let session = BenchSession::begin(interrupt)?;
    machine::print("How often compare --fail-over is wrong, on recorded runs", &session);
    println!(
        "- runs: {} of each workload, {} s each, in turns; O_DIRECT on one file",
        arguments.runs, arguments.seconds
    );
    record::record(&session, arguments.runs, arguments.seconds)
}

fn rows(pool: &Pool, draws: u32, interrupt: &Interrupt) -> Result<Vec<RepeatsRow>> {
    let mut rows = Vec::new();
    for repeats in REPEATS.into_iter().filter(|it| 2 * it <= pool.runs.len()) {
        interrupt.check()?;
        eprintln!("{}: {repeats} repeats", pool.name);
        let equal = draw::outcomes(pool, &pool.runs, repeats, draws);
        let slowed = draw::outcomes(pool, &pool.slowed, repeats, draws);
        rows.push(RepeatsRow { repeats, equal, slowed });
    }
    ensure!(!rows.is_empty(), "{}: fewer than two runs", pool.name);
    Ok(rows)
}

fn print(pool: &Pool, [rate, p99]: [f64; 2], rows: &[RepeatsRow]) {
    println!(
        "\n{}: {} runs, rate scatters by {:.1} %, p99 by {:.1} %\n",
        pool.name,
        pool.runs.len(),
        rate * 100.0,
        p99 * 100.0
    );
    let cell = |share: f64| format!("{share:.1} %");
    let row = |it: &RepeatsRow| {
        [
            it.repeats.to_string(),
            cell(it.equal.regression()),
            cell(it.equal.undecided()),
            cell(it.equal.excluded()),
            cell(it.slowed.regression()),
            cell(it.slowed.undecided()),
            cell(it.slowed.excluded()),
        ]
    };
    let header = [
        "repeats per side",
        "equal: exit 1",
        "exit 3",
        "exit 0",
        "10 % slower: exit 1",
        "exit 3",
        "exit 0",
    ];
    table::print(&header, rows.iter().map(row));
}

fn goals_of(pool: &Pool, scatter: f64, rows: &[RepeatsRow], draws: u32) -> Vec<BenchGoal> {
    let limit = false_alarms_max(draws);
    let alarms = rows.iter().map(|it| {
        let what =
            format!("{}: equal sides called a regression, {} repeats", pool.name, it.repeats);
        let measured = it.equal.regression();
        BenchGoal {
            what,
            goal: format!("≤ {FALSE_ALARMS_MAX} %, by chance of the draws {limit:.1} %"),
            measured: format!("{measured:.1} %"),
            holds: measured <= limit,
        }
    });
    let is_quiet = scatter <= SCATTER_MAX;
    let power = rows.iter().filter(|it| it.repeats == FOUND_WITH && is_quiet).map(|it| {
        let found = it.slowed.regression();
        BenchGoal {
            what: format!("{}: 10 % slower found with {FOUND_WITH} repeats", pool.name),
            goal: format!("≥ {FOUND_MIN} %"),
            measured: format!("{found:.1} %"),
            holds: found >= FOUND_MIN,
        }
    });
    alarms.chain(power).collect()
}

/// The most false alarms of this many draws if 5 % are wrong: 3.1 standard deviations above, one in
/// a thousand.
fn false_alarms_max(draws: u32) -> f64 {
    let share = FALSE_ALARMS_MAX / 100.0;
    FALSE_ALARMS_MAX + 310.0 * (share * (1.0 - share) / f64::from(draws)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_draws_leave_less_to_chance() {
        assert!((false_alarms_max(500) - 8.02).abs() < 0.01);
        assert!((false_alarms_max(1_000_000) - 5.07).abs() < 0.01);
    }
}
