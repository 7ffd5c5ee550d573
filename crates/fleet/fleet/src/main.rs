//! `durio-fleet`: what `durio fleet` needs a network for. The only program with an asynchronous
//! runtime: a process that measures has none.
//!
//! ```text
//!  coordinator ─ nats-server ─ ssh -R or TLS ─► agent on each host ─ gate ─► durio run
//!       └─ the same ─► relay ─ the same ─► agents of a region
//! ```
//!
//! The rules are in `durio-agree`, as machines that have neither clock nor socket. This program gives
//! them both, and carries out what they order.

mod agent;
mod bus;
mod call;
mod campaign;
mod campaign_bus;
mod carrier;
mod child;
mod coordinate;
mod doctor;
mod follow;
mod host_disk;
mod inbox;
mod invitation;
mod joined;
mod launch;
mod leftovers;
mod live_view;
mod man;
mod options;
mod passes;
mod plan;
mod programs;
mod regions;
mod relay;
mod secrets;
mod session;
mod standing_bus;
mod status;
mod terminal;
#[cfg(test)]
mod tests;
mod words;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use durio_command::{CommandError, CommandErrorKind, error_chain};

use campaign::CHECK_SPEC;
use options::{CoordinatorCommand, ProgramArguments};

/// The exit codes of durio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FleetExit {
    Fine,
    /// Not every host of the campaign has a result.
    Negative,
    Failed(CommandErrorKind),
    /// That of `durio fleet report`.
    Report(u8),
}

impl FleetExit {
    fn number(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Negative => 1,
            Self::Report(code) => code,
            Self::Failed(CommandErrorKind::WrongUse) => 2,
            Self::Failed(CommandErrorKind::Fault) => 4,
            Self::Failed(CommandErrorKind::Interrupted) => 130,
            Self::Failed(_) => 3,
        }
    }
}

fn main() -> ExitCode {
    let arguments = match ProgramArguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to stdout and is fine; a closed pipe is the reader's wish.
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let exit = execute(arguments.command).unwrap_or_else(|error| {
        words::remark(&format!("durio: {}", error_chain(&error)));
        error.hints.iter().for_each(|hint| words::remark(&format!("hint: {hint}")));
        FleetExit::Failed(error.kind)
    });
    ExitCode::from(exit.number())
}

fn execute(command: CoordinatorCommand) -> Result<FleetExit, CommandError> {
    match command {
        CoordinatorCommand::Plan(arguments) => plan::plan(&arguments),
        CoordinatorCommand::Doctor(arguments) => doctor::doctor(&arguments.rehearsal),
        CoordinatorCommand::Run(arguments) => campaign::run(&arguments.spec, &arguments.options),
        CoordinatorCommand::Check(arguments) => {
            campaign::run(Path::new(CHECK_SPEC), &arguments.options)
        }
        CoordinatorCommand::Confirm(arguments) => campaign::confirm(&arguments),
        CoordinatorCommand::Status { folder } => status::status(&folder),
        CoordinatorCommand::Stop { folder } => status::stop(&folder),
        CoordinatorCommand::Resume(arguments) => campaign::resume(&arguments),
        CoordinatorCommand::Collect(arguments) => campaign::collect(&arguments),
        CoordinatorCommand::Permissions(arguments) => {
            campaign_bus::show_permissions(&arguments).map(|()| FleetExit::Fine)
        }
        CoordinatorCommand::Serve(arguments) => {
            standing_bus::serve(&arguments).map(|()| FleetExit::Fine)
        }
        CoordinatorCommand::Invite(arguments) => {
            standing_bus::invite(&arguments).map(|()| FleetExit::Fine)
        }
        CoordinatorCommand::Join(arguments) => joined::join(&arguments).map(|()| FleetExit::Fine),
        CoordinatorCommand::Agent => agent::agent().map(|()| FleetExit::Fine),
        CoordinatorCommand::Relay => relay::relay().map(|()| FleetExit::Fine),
        CoordinatorCommand::Man { directory } => man::man(&directory).map(|()| FleetExit::Fine),
        CoordinatorCommand::Completions { shell } => {
            man::completions(shell).map(|()| FleetExit::Fine)
        }
        CoordinatorCommand::BusServer { program, folder } => {
            Err(bus::become_server(&program, &folder))
        }
    }
}
