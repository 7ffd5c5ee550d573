//! Arguments of `durio fio`: durio's own options, and words for fio wherever they stand.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use super::{Arguments, Measuring};
use crate::exit_code::TABLE;

/// Run fio jobs with durio: accepts fio's job files and command line, prints fio's output
///
/// Accepts fio's options and prints fio's output: --output, --output-format
/// (normal, terse, json, json+, and lists of them), --minimal, --terse-version, --append-terse, and
/// the logs of write_bw_log, write_lat_log and write_iops_log. For durio's own formats use --format.
/// Every fio option is honoured, or refused by name and line: --cmdhelp lists them, --cmdhelp=NAME
/// describes one. Differences from fio that do not change what the figures mean are printed as
/// notes: on stderr, or on stdout if --output names a file for the results. Sections of one stonewall
/// group run at the same time.
///
///   durio fio job.fio
///   durio fio --name=wal --rw=write --bs=8k --size=64m --fdatasync=1 --output-format=json
///   durio fio --destroy /dev/sdx --output=result.json --output-format=json+ job.fio
///   durio fio --plan job.fio
///
/// To let programs that call fio use durio, put a script named fio on the PATH that does
/// `exec durio fio "$@"`.
///
/// durio's options may be mixed with fio's; everything after -- is fio's. Existing files are
/// written only if --destroy names them; files that durio makes are removed. Logs have one line per
/// interval (log_avg_msec, or 100 ms), never one per I/O.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = TABLE,
    override_usage = "durio fio [OPTIONS] [FIO OPTIONS] [JOB FILE]..."
)]
pub(crate) struct FioArguments {
    /// fio's command line: options and job files
    #[arg(last = true, value_name = "FIO OPTIONS")]
    pub(crate) words: Vec<PathBuf>,

    /// Print the plan as JSON, and run nothing
    #[arg(long)]
    pub(crate) plan: bool,

    #[command(flatten)]
    pub(crate) common: Measuring,
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
        [long, short].into_iter().flatten().any(|it| it == name)
    };
    // fio's option, which names a job.
    let is_own = |argument: &&clap::Arg| argument.get_long() != Some("name");
    let argument = own.get_arguments().filter(is_own).find(is_called)?;
    Some(argument.get_action().takes_values() && !has_value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
