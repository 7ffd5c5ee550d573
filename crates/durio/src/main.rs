//! The command line of durio: arguments, commands, terminal, exit codes.
//!
//! In: arguments, environment, signals. Out: answers on stdout, progress and errors on stderr, an
//! exit code from the table in `exit_code.rs`.
//! Not here: what is done; that is in the other crates, and `durio-bench` joins them.

mod args;
mod commands;
mod exit_code;
mod failure;
mod measure;
mod output;
mod progress;
mod stop_signals;
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
