//! The command line: every command, with the arguments that its file in `commands` defines. Text is
//! checked as text; only the name of a file for the report is looked up.
//!
//! The doc comments are the help texts; man pages and completions come from the same definitions.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::advise::Advise;
use crate::commands::audit::Audit;
use crate::commands::capture::CaptureArguments;
use crate::commands::check::{CheckArguments, Predict};
use crate::commands::compare::Compare;
use crate::commands::doctor::Doctor;
use crate::commands::durable::Durable;
use crate::commands::explain::{Explain, Typical};
use crate::commands::fio::FioArguments;
use crate::commands::fleet::FleetArguments;
use crate::commands::lab::LabArguments;
use crate::commands::profile::ProfileArguments;
use crate::commands::prove::ProveArguments;
use crate::commands::raid::RaidArguments;
use crate::commands::replay::ReplayArguments;
use crate::commands::run::SweepArguments;
use crate::commands::runs::{ReportArguments, Runs, RunsHistory};
use crate::commands::simdisk::Simdisk;
use crate::commands::spec::SpecArguments;
use crate::commands::stack::StackArguments;
use crate::commands::watch::WatchArguments;
use crate::commands::why::WhyArguments;
use crate::exit_code::TABLE;
use crate::options::{PlanArguments, RunCommand};

/// Measures how well your storage serves a database, and flags the numbers you should not trust.
///
/// Start with `durio check DIR`, where DIR is on the storage you want to test.
#[derive(Debug, Parser)]
#[command(name = "durio", version, after_help = TABLE, max_term_width = HELP_WIDTH)]
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
    Spec(SpecArguments),
    Capture(CaptureArguments),
    Why(WhyArguments),
    Replay(ReplayArguments),
    Stack(StackArguments),
    Report(ReportArguments),
    Runs(Runs),
    History(RunsHistory),
    Watch(WatchArguments),
    Config(ConfigCommand),
    Doctor(Doctor),
    Explain(Explain),
    Typical(Typical),
    Audit(Audit),
    Advise(Box<Advise>),
    Compare(Compare),
    Fio(FioArguments),
    Fleet(FleetArguments),
    Prove(ProveArguments),
    Simdisk(Simdisk),
    Raid(RaidArguments),
    Lab(LabArguments),
    /// Run as the first process of a lab guest
    #[command(hide = true)]
    LabInit,
    Completions(Completions),
    Man(Man),
}

/// Show the defaults that your configuration file sets
///
/// The file is durio/config.toml in $XDG_CONFIG_HOME or ~/.config; DURIO_CONFIG names another file,
/// or none if it is empty. A table is a command, and a key is one of its long options:
///
///   [check]
///   size = "4GiB"
///   goal = ["commit p99 < 5ms"]
///
///   [stack.bench]
///   quiet = true
///
/// An option on the command line overrides the file. Options that permit a loss (--destroy,
/// --force, --force-signature, --create, --assume-clean, --repair, --yes) are ignored in a file,
/// and root does not use a file that another user owns or can write. Such a file, or one that
/// cannot be read, is ignored with a warning unless DURIO_CONFIG names it. The record of a run has
/// the combined command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ConfigCommand {}

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to complete for
    pub(crate) shell: clap_complete::Shell,
}

/// Write the man pages into a directory
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Directory for the pages; it must exist
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// The most columns of a help text.
const HELP_WIDTH: usize = 100;

/// The commands by their purpose, as the help lists them.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Measure",
        &[
            "check", "durable", "run", "plan", "sweep", "predict", "profile", "spec", "capture",
            "why", "replay", "fio", "watch", "fleet",
        ],
    ),
    ("Judge", &["compare", "typical", "advise", "audit", "explain"]),
    ("Prove", &["prove", "simdisk"]),
    ("Build", &["stack", "raid", "lab"]),
];

/// The title of all others.
const OTHER_GROUP: &str = "Keep";

pub(crate) fn parse(line: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let matches = with_groups(Arguments::command()).try_get_matches_from(line)?;
    Arguments::from_arg_matches(&matches)
        .map_err(|error| error.format(&mut with_groups(Arguments::command())))
}

/// durio itself, with a help that lists its commands by purpose. clap has no groups of commands.
fn with_groups(command: Command) -> Command {
    let template = help_template(&command);
    command.help_template(template)
}

fn help_template(command: &Command) -> String {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let shown = command.get_subcommands().filter(|listed| !listed.is_hide_set());
    let about = |listed: &Command| listed.get_about().map(ToString::to_string).unwrap_or_default();
    let mut all: Vec<(&str, String)> =
        shown.map(|listed| (listed.get_name(), about(listed))).collect();
    // clap adds it later.
    all.push(("help", "Show the help of durio or of a command".to_owned()));
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut listing = String::new();
    let mut list = |title: &str, commands: &[&(&str, String)]| {
        listing.push_str(&format!("\n{header}{title}:{header:#}\n"));
        for (name, about) in commands {
            let about = hanging(about, width + 4);
            listing.push_str(&format!("  {literal}{name:width$}{literal:#}  {about}\n"));
        }
    };
    for (title, names) in GROUPS {
        let of_group = |name: &&str| all.iter().find(|(listed, _)| listed == name);
        list(title, &names.iter().filter_map(of_group).collect::<Vec<_>>());
    }
    let is_other =
        |(name, _): &&(&str, String)| GROUPS.iter().all(|(_, names)| !names.contains(name));
    list(OTHER_GROUP, &all.iter().filter(is_other).collect::<Vec<_>>());
    let options = format!("{header}Options:{header:#}\n{{options}}{{after-help}}");
    format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{listing}\n{options}"
    )
}

/// Words that begin in this column, and go on below in the same one.
fn hanging(words: &str, begin: usize) -> String {
    let (mut text, mut column) = (String::new(), begin);
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if column > begin && column + 1 + length > HELP_WIDTH {
            text.push_str(&format!("\n{:begin$}", ""));
            column = begin;
        } else if column > begin {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text
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

/// Options of both programs that are fio's in its command line: they name a job, and the file for the
/// output of fio.
const FIO_NAMES: [&str; 2] = ["name", "output"];

/// Whether the word is an option of durio's, and if so whether the next word is its value.
fn own_option(own: &clap::Command, word: &OsStr) -> Option<bool> {
    let word = word.to_str()?;
    let (name, has_value) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
    let is_called = |argument: &&clap::Arg| {
        let long = argument.get_long().filter(|long| !FIO_NAMES.contains(long));
        let long = long.map(|long| format!("--{long}"));
        let short = argument.get_short().map(|short| format!("-{short}"));
        [long, short].into_iter().flatten().any(|known| known == name)
    };
    let argument = own.get_arguments().find(is_called)?;
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

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let command = Arguments::command();
        let help = with_groups(command.clone()).render_long_help().to_string();
        let shown = command.get_subcommands().filter(|listed| !listed.is_hide_set());
        for name in shown.map(Command::get_name).chain(["help"]) {
            let entry = format!("  {name} ");
            let lines = help.lines().filter(|line| line.starts_with(&entry));
            assert_eq!(lines.count(), 1, "{name} in {help}");
        }
        assert!(!help.contains("lab-init") && help.contains("\nExit codes:\n"), "{help}");
        let line = ["word"; 17].join(" ");
        assert_eq!(hanging(&format!("{line} end"), 12), format!("{line} end"));
        assert_eq!(hanging(&format!("{line} words"), 12), format!("{line}\n{:12}words", ""));
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
            ("durio fio -o page.html a.fio", "durio fio -o page.html -- a.fio"),
            ("durio fio --help", "durio fio --help --"),
            ("durio run --rw read", "durio run --rw read"),
            ("durio", "durio"),
        ] {
            assert_eq!(parted(line), expected);
        }
    }
}
