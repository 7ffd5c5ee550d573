//! `bench prove`: crash states per second.
//!
//! In: an example of durio-prove, built for release. Out: how many states of a recorded run are made and
//! checked in this process's way, and the goal. Not here: checks by commands, which take what the
//! command takes.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::figures::median;
use super::goals::{self, Goal};
use super::session::Interrupt;
use super::{machine, table};
use crate::cargo;

const ROUNDS: usize = 5;
const GOAL: f64 = 2000.0;
const CASES: [&str; 2] = ["every cell of each state read", "none read"];

/// Runs `bench prove`.
pub(super) fn run(interrupt: &Interrupt) -> Result<Vec<Goal>> {
    let words = ["build", "--release", "-p", "durio-prove", "--example", "states_per_second"];
    let status = cargo::command(&words).status().context("cannot run cargo")?;
    ensure!(status.success(), "the example cannot be built");
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    let program = target.join("release/examples/states_per_second");
    machine::print_machine("Crash states of a recorded run: 256 cells, 32 writes in flight");
    println!("- rounds: {ROUNDS}, one thread; medians");
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        interrupt.check()?;
        let output = Command::new(&program).output().context("cannot run the example")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let found: Vec<f64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(found.len() == CASES.len(), "the example printed '{text}'");
        rates.iter_mut().zip(found).for_each(|(rates, rate)| rates.push(rate));
    }
    let rows = CASES.iter().zip(&rates);
    println!();
    let row =
        |(case, rates): (&&str, &Vec<f64>)| [(*case).to_owned(), format!("{:.0}", median(rates))];
    table::print(&["states", "per second"], rows.map(row));
    let goals = vec![goal(median(&rates[0]))];
    goals::print(&goals);
    Ok(goals)
}

fn goal(per_second: f64) -> Goal {
    Goal::at_least("crash states per second, every cell read", per_second, GOAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goal_holds_from_its_rate_on() {
        assert!(goal(2000.0).holds && !goal(1999.0).holds && !goal(f64::NAN).holds);
    }
}
