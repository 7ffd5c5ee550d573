//! The commands, one file each.

mod audit;
mod check;
mod compare;
mod completions;
mod fio;
mod man;
mod report;
mod run;

use crate::args::{Arguments, Command};
use crate::exit_code::Exit;
use crate::failure::Failure;

/// Runs the command that was given.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Check(arguments) => check::check(arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Audit(arguments) => audit::audit(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Fio(arguments) => fio::fio(&arguments),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => man::man(&arguments),
    }
}
