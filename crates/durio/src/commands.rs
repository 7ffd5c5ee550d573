//! The commands, one file each.

mod advise;
mod audit;
mod campaign;
mod check;
mod compare;
mod completions;
mod durable;
mod fio;
mod lab;
mod lab_compare;
mod man;
mod plan;
mod profile;
mod report;
mod run;
mod stack;
mod sweep;

use std::path::Path;

use crate::args::{Arguments, Command, RunCommand};
use crate::exit_code::Exit;
use crate::failure::Failure;

/// Runs the command that was given.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Check(arguments) => check::check(arguments),
        Command::Durable(arguments) => durable::durable(*arguments),
        Command::Run(arguments) => match &arguments.spec {
            Some(spec) if profile::is_profile(spec) => profile::run(spec, &arguments),
            Some(spec) if given_for_profiles(&arguments).is_some() => {
                refuse_profile_options(spec, given_for_profiles(&arguments)).map(|()| Exit::Fine)
            }
            Some(spec) if fio::is_job_file(spec) => fio::run_file(spec, &arguments),
            Some(spec) => campaign::run(spec, &arguments),
            None => run::run(&arguments.job),
        },
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Sweep(arguments) => sweep::sweep(&arguments),
        Command::Profile(arguments) => profile::show(&arguments),
        Command::Stack(arguments) => stack::stack(arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Advise(arguments) => advise::advise(&arguments),
        Command::Audit(arguments) => audit::audit(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Fio(arguments) => fio::fio(&arguments),
        Command::Lab(arguments) => lab::lab(&arguments),
        Command::LabInit => lab::init(),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => man::man(&arguments),
    }
}

fn given_for_profiles(arguments: &RunCommand) -> Option<&'static str> {
    arguments.expanding.for_profiles(arguments.job.duration, arguments.job.size)
}

/// Times and sizes of a spec are its own: it is scaled.
fn refuse_profile_options(spec: &Path, given: Option<&str>) -> Result<(), Failure> {
    let Some(option) = given else { return Ok(()) };
    let text = format!("{option} cannot be used with '{}', which is no profile", spec.display());
    Err(Failure::new(Exit::WrongUse, text).hint("a spec takes --scale-time and --scale-size"))
}
