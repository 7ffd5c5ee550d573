//! `cargo xtask`: the project's commands for developers.
//!
//! Works on the checkout that this file is part of; durio itself needs none of it.
//!
//! A new command is a module, a variant of [`Command`] and an arm in [`run`].

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool: printing is its output"
)]

mod attack;
mod bench;
mod book;
mod cargo;
mod databases;
mod dist;
mod fuzz;
mod lab;
mod mutants;
mod packages;
mod prove;
mod seams;
mod sim;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's own commands")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs every check and every test; the last line is the sum
    Test(test::Arguments),
    /// Checks the rules of the house that no compiler knows
    Tidy(tidy::Arguments),
    /// Proves that what newcomers add touches one existing file, on a copy of the tree
    Seams,
    /// Attacks durio, by seed: hostile input, kills, races, changing devices, names
    Attack(attack::Arguments),
    /// Simulates power cuts
    #[command(subcommand)]
    Sim(sim::Sim),
    /// Fuzzes what reads input, with feedback from coverage
    Fuzz(fuzz::Arguments),
    /// Plants faults in the code, one at a time, and counts those that no test finds
    Mutants(mutants::Arguments),
    /// Measures durio itself, with the installed fio beside it
    Bench(bench::Arguments),
    /// Builds the book in docs/, generated pages first, and checks its links
    Book(book::Arguments),
    Dist(dist::Arguments),
    /// Holds databases that are installed here against their profiles
    #[command(subcommand)]
    Databases(databases::Databases),
    /// Fetches what the lab needs and is not part of the checkout
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Proofs that are too long for the tests
    #[command(subcommand)]
    Prove(prove::Prove),
}

fn main() -> ExitCode {
    run(&Arguments::parse().command).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Test(arguments) => test::run(arguments),
        Command::Tidy(arguments) => tidy::run(arguments),
        Command::Seams => seams::run(),
        Command::Attack(arguments) => attack::run(arguments),
        Command::Sim(command) => sim::run(command),
        Command::Fuzz(arguments) => fuzz::run(arguments),
        Command::Mutants(arguments) => mutants::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Book(arguments) => book::run(arguments),
        Command::Dist(arguments) => dist::run(arguments),
        Command::Databases(command) => databases::run(command),
        Command::Lab(command) => lab::run(command),
        Command::Prove(command) => prove::run(command),
    }
}
