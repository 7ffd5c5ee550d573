//! The commands, one file each.

mod advise;
mod audit;
mod calibrate;
mod capture;
mod check;
mod compare;
mod config;
mod doctor;
mod durable;
mod explain;
mod fio;
mod lab;
mod man;
mod new_file;
mod plan;
mod predict;
mod profile;
mod prove;
mod prove_exec;
mod prove_plan;
mod prove_states;
mod raid;
mod replay;
mod report;
mod run;
mod runs;
mod simdisk;
mod stack;
mod sweep;
mod watch;

use std::path::Path;

use durio_base::{Bytes, Nanos};
use durio_bench::BenchError;

use crate::args::{Arguments, DurioCommand, JobArguments};
use crate::exit_code::Exit;

/// Placeholder for the name of a run's file in a plan that is only displayed.
const PLAN_FILE_NAME: &str = ".durio-plan";

/// Runs the command that was given.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, BenchError> {
    match arguments.command {
        DurioCommand::Check(arguments) => check::check(arguments),
        DurioCommand::Durable(arguments) => durable::durable(*arguments),
        DurioCommand::Run(arguments) => match &arguments.spec {
            // By its prefix alone: a file of such a name is written ./profile:NAME.
            Some(spec) if profile::is_profile(spec) => profile::run(spec, &arguments),
            Some(spec) => {
                let JobArguments { duration, size, .. } = &arguments.job;
                refuse_profile_options(spec, *duration, *size)?;
                match fio::is_job_file(spec) {
                    true => fio::run_file(spec, &arguments),
                    false => run::campaign(spec, &arguments),
                }
            }
            None => run::run(&arguments.job),
        },
        DurioCommand::Plan(arguments) => plan::plan(&arguments),
        DurioCommand::Sweep(arguments) => sweep::sweep(&arguments),
        DurioCommand::Predict(arguments) => predict::predict(&arguments),
        DurioCommand::Profile(arguments) => profile::show(&arguments),
        DurioCommand::Capture(arguments) => capture::capture(&arguments),
        DurioCommand::Replay(arguments) => replay::replay(&arguments),
        DurioCommand::Stack(arguments) => stack::stack(arguments),
        DurioCommand::Report(arguments) => report::report(&arguments),
        DurioCommand::Runs(arguments) => runs::runs(&arguments),
        DurioCommand::History(arguments) => runs::history(&arguments),
        DurioCommand::Config(_) => config::config(),
        DurioCommand::Watch(arguments) => watch::watch(&arguments),
        DurioCommand::Advise(arguments) => advise::advise(&arguments),
        DurioCommand::Doctor(arguments) => doctor::doctor(&arguments),
        DurioCommand::Explain(arguments) => explain::explain(&arguments),
        DurioCommand::Audit(arguments) => audit::audit(&arguments),
        DurioCommand::Compare(arguments) => compare::run(&arguments),
        DurioCommand::Fio(arguments) => fio::fio(&arguments),
        DurioCommand::Prove(arguments) => prove::prove(&arguments),
        DurioCommand::Simdisk(arguments) => simdisk::simdisk(&arguments),
        DurioCommand::Raid(arguments) => raid::raid(&arguments),
        DurioCommand::Lab(arguments) => lab::lab(&arguments),
        DurioCommand::LabInit => lab::init(),
        DurioCommand::Completions(arguments) => man::completions(&arguments),
        DurioCommand::Man(arguments) => man::man(&arguments),
    }
}

// A spec has its own times and sizes, which are scaled.
fn refuse_profile_options(
    spec: &Path,
    duration: Option<Nanos>,
    size: Option<Bytes>,
) -> Result<(), BenchError> {
    let given = [("--duration", duration.is_some()), ("--size", size.is_some())];
    let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) else {
        return Ok(());
    };
    let text = format!("{option} cannot be used with '{}', which is no profile", spec.display());
    Err(BenchError::wrong_use(text).hint("a spec takes --quick, or --scale-time and --scale-size"))
}
