//! The commands, one file each.

mod advise;
mod audit;
mod campaign;
mod check;
mod compare;
mod completions;
mod fio;
mod interleave;
mod man;
mod plan;
mod report;
mod run;
mod sweep;

use crate::args::{Arguments, Command};
use crate::exit_code::Exit;
use crate::failure::Failure;

/// Runs the command that was given.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Check(arguments) => check::check(arguments),
        Command::Run(arguments) => match &arguments.spec {
            Some(spec) if fio::is_job_file(spec) => fio::run_file(spec, &arguments),
            Some(spec) => campaign::run(spec, &arguments),
            None => run::run(&arguments.job),
        },
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Sweep(arguments) => sweep::sweep(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Advise(arguments) => advise::advise(&arguments),
        Command::Audit(arguments) => audit::audit(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Fio(arguments) => fio::fio(&arguments),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => man::man(&arguments),
    }
}
