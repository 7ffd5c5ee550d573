//! `cargo xtask`: the project's commands for developers.
//!
//! Works on the checkout that this file is part of; durio itself needs none of it.
//!
//! A new command is a module, a variant of [`XtaskCommand`] and an arm in [`run`].

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
mod pictures;
mod prove;
mod seams;
mod sim;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's own commands")]
struct XtaskArguments {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Debug, Subcommand)]
enum XtaskCommand {
    /// Runs every check and every test; the last line is the sum
    Test(test::TestArguments),
    /// Checks the rules of the house that no compiler knows
    Tidy(tidy::TidyArguments),
    /// Proves that what newcomers add touches one existing file, on a copy of the tree
    Seams,
    /// Attacks durio, by seed: hostile input, kills, races, changing devices, names
    Attack(attack::AttackArguments),
    /// Simulates power cuts of arrays, and campaigns on many hosts
    #[command(subcommand)]
    Sim(sim::Sim),
    /// Fuzzes what reads input, with feedback from coverage
    Fuzz(fuzz::FuzzArguments),
    /// Plants faults in the code, one at a time, and counts those that no test finds
    Mutants(mutants::MutantsArguments),
    /// Measures durio itself, with the installed fio beside it
    Bench(bench::BenchArguments),
    /// Builds the book in docs/, generated pages first, and checks its links
    Book(book::BookArguments),
    Dist(dist::DistArguments),
    /// Holds databases that are installed here against their profiles
    #[command(subcommand)]
    Databases(databases::Databases),
    /// Fetches what the lab needs and is not part of the checkout
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Makes README's pictures and sample lines from real runs, and the chart of docs/results.md
    Pictures(pictures::PicturesArguments),
    /// Proofs that are too long for the tests
    #[command(subcommand)]
    Prove(prove::ProveTask),
}

fn main() -> ExitCode {
    run(&XtaskArguments::parse().command).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(command: &XtaskCommand) -> anyhow::Result<ExitCode> {
    match command {
        XtaskCommand::Test(arguments) => test::run(arguments),
        XtaskCommand::Tidy(arguments) => tidy::run(arguments),
        XtaskCommand::Seams => seams::run(),
        XtaskCommand::Attack(arguments) => attack::run(arguments),
        XtaskCommand::Sim(command) => sim::run(command),
        XtaskCommand::Fuzz(arguments) => fuzz::run(arguments),
        XtaskCommand::Mutants(arguments) => mutants::run(arguments),
        XtaskCommand::Bench(arguments) => bench::run(arguments),
        XtaskCommand::Book(arguments) => book::run(arguments),
        XtaskCommand::Dist(arguments) => dist::run(arguments),
        XtaskCommand::Databases(command) => databases::run(command),
        XtaskCommand::Lab(command) => lab::run(command),
        XtaskCommand::Pictures(arguments) => pictures::run(arguments),
        XtaskCommand::Prove(command) => prove::run(command),
    }
}
