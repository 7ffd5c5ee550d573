//! The command line of durio: arguments, commands, terminal, exit codes.
//!
//! Takes arguments, environment and signals; writes answers to stdout, progress and errors to
//! stderr, and exits with a code from the table in `exit_code.rs`. The other crates do the work;
//! `durio-bench` joins them.

mod args;
mod commands;
mod config;
mod exit_code;
mod measure;
mod options;
mod output;
mod progress;
mod stop_signals;
mod usage;
mod values;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use durio_command::{CommandError, CommandErrorKind};

fn main() -> ExitCode {
    stop_signals::outlive_file_limits();
    // Before clap says anything, which asks the same library about colours.
    output::begin();
    // Before clap, which would refuse fio's options as unknown ones.
    let line = args::with_fio_words_last(std::env::args_os().collect());
    // `durio config` is how a file that cannot be read is looked into.
    let config = match config::Config::read() {
        Ok(config) => config,
        Err(error) => return output::conclude(Err(error)).into(),
    };
    config.warn();
    let line = usage::with_own_words(config.applied(line));
    durio_command::set_command_line(&line);
    if let Err(error) = usage::refuse_split_quantities(&line) {
        return output::conclude(Err(error)).into();
    }
    let arguments = match args::parse(line) {
        Ok(arguments) => arguments,
        Err(error) => return usage::show_usage(error),
    };
    // Unwinding has cleaned up everything; only the exit code remains.
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| commands::run(arguments)));
    let fault = |_| {
        Err(CommandError::new(CommandErrorKind::Fault, "internal error: see the message above")
            .hint("please report it with the command line and the run folder"))
    };
    output::conclude(outcome.unwrap_or_else(fault)).into()
}
