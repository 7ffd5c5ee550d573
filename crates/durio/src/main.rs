//! The command line of durio: arguments, commands, terminal, exit codes.
//!
//! In: arguments, environment, signals. Out: answers on stdout, progress and errors on stderr, an
//! exit code from the table in `exit_code.rs`.
//! Not here: logic; that is in the other crates.

mod args;
mod bench;
mod commands;
mod execute;
mod exit_code;
mod failure;
mod leftovers;
mod locate;
mod output;
mod progress;
mod recording;
mod resume;
mod stack_findings;
mod state_folder;
mod stop_signals;
mod switched;
mod text_file;
mod values;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    output::begin();
    let line = args::with_fio_words_last(std::env::args_os().collect());
    let arguments = match args::Arguments::try_parse_from(line) {
        Ok(arguments) => arguments,
        Err(error) => return output::show_usage(&error),
    };
    let outcome = failure::catch_panic(|| commands::run(arguments));
    output::conclude(outcome).into()
}
