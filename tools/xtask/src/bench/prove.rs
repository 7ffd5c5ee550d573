//! `bench prove`: power cuts and crash states per second, and durio next to fio's verify.
//!
//! Takes release builds of durio and of an example of durio-prove, and fio. Prints cuts of
//! simulated disks per second, in process and over NBD; states of a recorded run per second; which
//! liars durio and fio find; the goals. Checks by commands are left out: they take as long as the
//! command.

mod fio_verify;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::figures::median;
use super::goals::{self, BenchGoal};
use super::session::Interrupt;
use super::{machine, table};
use crate::cargo;

const ROUNDS: usize = 5;
const GOAL: f64 = 2000.0;
/// Whole campaigns with their records, two series at once: which, how many cuts of each, the least rate.
const CUTS: [(&str, [&str; 2], u32, f64); 2] = [
    ("in process", ["write-back/fdatasync/8", "write-through/fdatasync/8"], 5000, 5000.0),
    ("over NBD", ["nbd/write-back/fdatasync/1", "nbd/write-through/fdatasync/1"], 300, 50.0),
];
const CASES: [&str; 2] = ["every cell of each state read", "none read"];

/// Runs `bench prove`.
pub(super) fn run(interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let build = |words: &[&str]| -> Result<()> {
        let words = [&["build", "--release"], words].concat();
        let status = cargo::command(&words).status().context("cannot run cargo")?;
        ensure!(status.success(), "{words:?} failed");
        Ok(())
    };
    build(&["-p", "durio-prove", "--example", "states_per_second"])?;
    build(&["-p", "durio"])?;
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    let program = target.join("release/examples/states_per_second");
    let durio = target.join("release/durio");
    machine::print_machine("Proofs: power cuts, crash states, and fio's verify on the same disks");
    println!("- disks of 256 cells of 4 KiB; {ROUNDS} rounds, medians");
    println!("- states: one thread, 32 writes in flight");
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
    let mut goals = vec![goal(median(&rates[0]))];
    for (how, series, cuts, least) in CUTS {
        let rates: Vec<f64> = (0..ROUNDS)
            .map(|_| interrupt.check().and_then(|()| cuts_per_second(&durio, series, cuts)))
            .collect::<Result<_>>()?;
        let what = format!("power cuts per second, {how}");
        goals.push(BenchGoal::at_least(what, median(&rates), least));
    }
    let [by_durio, by_fio, all] = fio_verify::side_by_side(&durio, interrupt)?;
    println!("\nOf {all} disks that lie durio has found {by_durio}, fio {by_fio}.");
    goals::print(&goals);
    Ok(goals)
}

/// A campaign as a user runs it, record and verdict included.
fn cuts_per_second(durio: &Path, series: [&str; 2], cuts: u32) -> Result<f64> {
    let folder = tempfile::tempdir().context("no folder for a proof")?;
    let mut command = Command::new(durio);
    let only = series.iter().flat_map(|it| ["--only", it]);
    command.args(["prove", "run", "prove-smoke"]).args(only);
    command.args(["--cuts", &cuts.to_string(), "--out"]);
    command.arg(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    ensure!(command.status().context("cannot run durio")?.success(), "{series:?}: not as expected");
    Ok(2.0 * f64::from(cuts) / begin.elapsed().as_secs_f64())
}

fn goal(per_second: f64) -> BenchGoal {
    BenchGoal::at_least("crash states per second, every cell read", per_second, GOAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goal_holds_from_its_rate_on() {
        assert!(goal(2000.0).holds && !goal(1999.0).holds && !goal(f64::NAN).holds);
    }
}
