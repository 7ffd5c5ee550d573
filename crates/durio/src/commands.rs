//! The commands, a file for each or for a few: its arguments, then what it does with them.

pub(crate) mod advise;
pub(crate) mod audit;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod durable;
pub(crate) mod explain;
pub(crate) mod fio;
pub(crate) mod fleet;
pub(crate) mod lab;
mod man;
pub(crate) mod profile;
pub(crate) mod prove;
mod prove_run;
pub(crate) mod raid;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod simdisk;
pub(crate) mod spec;
pub(crate) mod stack;
pub(crate) mod watch;
pub(crate) mod why;

use clap::CommandFactory as _;

use durio_command::CommandError;

use crate::args::{Arguments, DurioCommand};
use crate::config;
use crate::exit_code::Exit;

/// Runs the command that was given.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, CommandError> {
    match arguments.command {
        DurioCommand::Check(arguments) => check::check(arguments),
        DurioCommand::Durable(arguments) => durable::durable(*arguments),
        DurioCommand::Run(arguments) => run::run(&arguments),
        DurioCommand::Plan(arguments) => run::plan(&arguments),
        DurioCommand::Sweep(arguments) => run::sweep(&arguments),
        DurioCommand::Predict(arguments) => check::predict(&arguments),
        DurioCommand::Profile(arguments) => profile::show(&arguments),
        DurioCommand::Spec(arguments) => spec::spec(&arguments),
        DurioCommand::Capture(arguments) => capture::capture(&arguments),
        DurioCommand::Why(arguments) => why::why(&arguments),
        DurioCommand::Replay(arguments) => replay::replay(&arguments),
        DurioCommand::Stack(arguments) => stack::stack(arguments),
        DurioCommand::Report(arguments) => runs::report(&arguments),
        DurioCommand::Runs(arguments) => runs::runs(&arguments),
        DurioCommand::History(arguments) => runs::history(&arguments),
        DurioCommand::Config(_) => config::show(),
        DurioCommand::Watch(arguments) => watch::watch(&arguments),
        DurioCommand::Advise(arguments) => advise::advise(&arguments),
        DurioCommand::Doctor(arguments) => doctor::doctor(&arguments),
        DurioCommand::Explain(arguments) => explain::explain(&arguments),
        DurioCommand::Typical(arguments) => explain::show_typical(&arguments),
        DurioCommand::Audit(arguments) => audit::audit(&arguments),
        DurioCommand::Compare(arguments) => compare::run(&arguments),
        DurioCommand::Fio(arguments) => fio::fio(&arguments),
        DurioCommand::Fleet(arguments) => fleet::fleet(&arguments),
        DurioCommand::Prove(arguments) => prove::prove(&arguments),
        DurioCommand::Simdisk(arguments) => simdisk::simdisk(&arguments),
        DurioCommand::Raid(arguments) => raid::raid(&arguments),
        DurioCommand::Lab(arguments) => lab::lab(&arguments),
        DurioCommand::LabInit => lab::init(),
        DurioCommand::Completions(arguments) => man::completions(&arguments, Arguments::command()),
        DurioCommand::Man(arguments) => man::man(&arguments, Arguments::command()),
    }
}
