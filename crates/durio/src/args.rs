//! The command line: every command, with the arguments that its file in `commands` defines. Text is
//! checked as text; nothing here touches the system.
//!
//! The doc comments are the help texts; man pages and completions come from the same definitions.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::commands::advise::Advise;
use crate::commands::audit::Audit;
use crate::commands::capture::CaptureArguments;
use crate::commands::check::{CheckArguments, Predict};
use crate::commands::compare::Compare;
use crate::commands::doctor::Doctor;
use crate::commands::durable::Durable;
use crate::commands::explain::Explain;
use crate::commands::fio::FioArguments;
use crate::commands::lab::LabArguments;
use crate::commands::profile::ProfileArguments;
use crate::commands::prove::ProveArguments;
use crate::commands::raid::RaidArguments;
use crate::commands::replay::ReplayArguments;
use crate::commands::run::SweepArguments;
use crate::commands::runs::{ReportArguments, Runs, RunsHistory};
use crate::commands::simdisk::Simdisk;
use crate::commands::stack::StackArguments;
use crate::commands::watch::WatchArguments;
use crate::exit_code::TABLE;
use crate::options::{PlanArguments, RunCommand};

/// Tells what a storage gives a database: durable commits, reads, their latencies, and what to
/// doubt.
///
/// Begin with `durio check DIR`, DIR being a directory on the storage in question.
#[derive(Debug, Parser)]
#[command(name = "durio", version, after_help = TABLE, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: DurioCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DurioCommand {
    Check(CheckArguments),
    Durable(Box<Durable>),
    Run(Box<RunCommand>),
    Plan(PlanArguments),
    Sweep(Box<SweepArguments>),
    Predict(Predict),
    Profile(ProfileArguments),
    Capture(CaptureArguments),
    Replay(ReplayArguments),
    Stack(StackArguments),
    Report(ReportArguments),
    Runs(Runs),
    History(RunsHistory),
    Watch(WatchArguments),
    Config(ConfigCommand),
    Doctor(Doctor),
    Explain(Explain),
    Audit(Audit),
    Advise(Box<Advise>),
    Compare(Compare),
    Fio(FioArguments),
    Prove(ProveArguments),
    Simdisk(Simdisk),
    Raid(RaidArguments),
    Lab(LabArguments),
    /// Be the first process of a guest of the lab
    #[command(hide = true)]
    LabInit,
    Completions(Completions),
    Man(Man),
}

/// Show the defaults that your configuration file sets
///
/// The file is durio/config.toml in $XDG_CONFIG_HOME or ~/.config; DURIO_CONFIG names another one, and
/// empty stands for none. A table is a command, and a key is one of its long options:
///
///   [check]
///   size = "4GiB"
///   goal = ["commit p99 < 5ms"]
///
///   [stack.bench]
///   quiet = true
///
/// An option on the command line overrides the file. What permits a loss (--destroy, --force,
/// --force-signature, --create, --assume-clean,
/// --repair, --yes) is not taken from a file, and root takes none that
/// belongs to, or can be written by, somebody else. The record of a run has the combined command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ConfigCommand {}

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// Write the man pages into a directory
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where; it must exist
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Moves fio's words in the command line of `durio fio` behind `--`: durio's options are recognised
/// by their names, and fio's need not be known here.
pub(crate) fn with_fio_words_last(line: Vec<OsString>) -> Vec<OsString> {
    if line.get(1).is_none_or(|command| command != "fio") {
        return line;
    }
    let arguments = Arguments::command();
    let Some(own) = arguments.find_subcommand("fio") else { return line };
    let mut line = line.into_iter();
    let mut result: Vec<OsString> = line.by_ref().take(2).collect();
    let mut words = Vec::new();
    while let Some(word) = line.next() {
        // Words that the user has marked as fio's stay fio's, whatever their names.
        if word == "--" {
            words.extend(line.by_ref());
        // Both programs have a help; a user of durio wants durio's.
        } else if word == "--help" || word == "-h" {
            result.push(word);
        } else if let Some(takes_next) = own_option(own, &word) {
            result.push(word);
            result.extend(line.by_ref().take(usize::from(takes_next)));
        } else {
            words.push(word);
        }
    }
    result.push("--".into());
    result.extend(words);
    result
}

/// Whether the word is an option of durio's, and if so whether the next word is its value.
fn own_option(own: &clap::Command, word: &OsStr) -> Option<bool> {
    let word = word.to_str()?;
    let (name, has_value) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
    let is_called = |argument: &&clap::Arg| {
        let long = argument.get_long().map(|long| format!("--{long}"));
        let short = argument.get_short().map(|short| format!("-{short}"));
        [long, short].into_iter().flatten().any(|known| known == name)
    };
    // fio's option, which names a job.
    let is_own = |argument: &&clap::Arg| argument.get_long() != Some("name");
    let argument = own.get_arguments().filter(is_own).find(is_called)?;
    Some(argument.get_action().takes_values() && !has_value)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent_and_every_option_has_a_help_text() {
        let mut command = Arguments::command();
        command.build();
        command.clone().debug_assert();
        for command in command.get_subcommands() {
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
        }
    }

    fn parted(line: &str) -> String {
        let words = line.split_whitespace().map(OsString::from).collect();
        let parted = with_fio_words_last(words);
        parted.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn durio_s_options_are_found_wherever_they_stand() {
        for (line, expected) in [
            ("durio fio --name=a --rw read job.fio", "durio fio -- --name=a --rw read job.fio"),
            ("durio fio a.fio --destroy f --seed=3", "durio fio --destroy f --seed=3 -- a.fio"),
            ("durio fio -q --output=x -- --plan", "durio fio -q -- --output=x --plan"),
            ("durio fio --help", "durio fio --help --"),
            ("durio run --rw read", "durio run --rw read"),
            ("durio", "durio"),
        ] {
            assert_eq!(parted(line), expected);
        }
    }
}
