//! The message for a wrong command line, with the likely intention.

use std::error::Error as _;
use std::ffi::OsString;
use std::io::{self, Write};
use std::num::ParseIntError;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use durio_base::{Bytes, Nanos, ParseQuantityError, shell_word};
use durio_command::{CommandError, CommandErrorKind};
use durio_report::{visible, visible_lines};

use crate::args::Arguments;
use crate::exit_code::Exit;
use crate::output::{answer, conclude, remark, takes_colour};

/// Shows clap's message: help and version on stdout, errors on stderr.
pub(crate) fn show_usage(mut error: clap::Error) -> ExitCode {
    if error.use_stderr() {
        let hint = hint(&error);
        if hint.is_some() {
            // clap's tips compare only spelling: `--quiet` for fio's `--direct`.
            error.remove(ContextKind::SuggestedArg);
            error.remove(ContextKind::Suggested);
        }
        let _ = io::stderr().lock().write_all(wrong_words(&error).as_bytes());
        hint.into_iter().for_each(|hint| remark(&format!("hint: {hint}")));
        return Exit::Failed(CommandErrorKind::WrongUse).into();
    }
    let text = error.render();
    let bytes = match takes_colour() {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    conclude(answer(bytes.as_bytes()).map(|()| Exit::Fine)).into()
}

// clap's message, which has the user's words as they are: first those are spelt out, then clap's styles
// are the only escape sequences, and taken out.
fn wrong_words(error: &clap::Error) -> String {
    let mut text = error.render().ansi().to_string();
    for word in std::env::args_os() {
        let word = word.to_string_lossy();
        let value = word.split_once('=').map(|(_, value)| value);
        // clap quotes the value of `--name=value` without the name.
        for part in [Some(&*word), value].into_iter().flatten() {
            let shown = visible(part);
            if shown != part {
                text = text.replace(part, &shown);
            }
        }
    }
    visible_lines(&anstream::adapter::strip_str(&text).to_string())
}

// The remedy, where durio knows it better than clap.
fn hint(error: &clap::Error) -> Option<String> {
    let text_of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let word = text_of(ContextKind::InvalidArg)?;
            let unsigned = word.strip_prefix('-').unwrap_or_default();
            match unsigned.starts_with(|c: char| c.is_ascii_digit()) {
                true => Some("sizes, times and counts are not negative".to_owned()),
                false => foreign_option(word),
            }
        }
        ErrorKind::ValueValidation => {
            let is_count = error.source().is_some_and(|source| source.is::<ParseIntError>());
            is_count.then(|| "it takes a whole number, such as 4".to_owned())
        }
        ErrorKind::ArgumentConflict => {
            let all = Arguments::command();
            let is_run = asked(&all, std::env::args_os().skip(1)).get_name() == "run";
            let is_spec = is_run && text_of(ContextKind::InvalidArg)? == "[SPEC]";
            let hint =
                "SPEC is a campaign and says this itself; one job takes --target PATH instead";
            is_spec.then(|| hint.to_owned())
        }
        // As in fio, where `--buffered=1` means `--buffered`.
        ErrorKind::TooManyValues => {
            let option = text_of(ContextKind::InvalidArg)?;
            Some(format!("{option} is given without a value"))
        }
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(all))
                if all.iter().any(|named| named.starts_with("--goal")) =>
            {
                Some("the goal is a percentile and its limit, such as --goal p99=2ms".to_owned())
            }
            _ => None,
        },
        ErrorKind::InvalidSubcommand => {
            let word = text_of(ContextKind::InvalidSubcommand)?;
            let is_place = Path::new(word).exists();
            is_place.then(|| format!("a command comes first: durio check {}", shell_word(word)))
        }
        _ => None,
    }
}

/// durio's counterparts of options that fio's users know.
const FIO_WORDS: [(&str, &str); 22] = [
    ("--numjobs", "--jobs N"),
    ("--iodepth", "--depth N"),
    ("--runtime", "--duration TIME, such as 30s"),
    ("--time_based", "nothing: --duration is always the measured time"),
    ("--group_reporting", "nothing: jobs are always reported together"),
    ("--ramp_time", "--ramp TIME"),
    ("--filename", "--target PATH"),
    ("--directory", "--target PATH"),
    ("--direct", "O_DIRECT unless --buffered is given"),
    ("--fsync", "--sync fsync, and --sync-every N for more than one write each"),
    ("--fdatasync", "--sync fdatasync, and --sync-every N for more than one write each"),
    ("--ioengine", "--engine ENGINE: libaio is aio, io_uring is uring, psync is sync"),
    ("--blocksize", "--bs SIZE"),
    ("--readwrite", "--rw PATTERN"),
    ("--rwmixread", "--mix READS"),
    ("--rwmixwrite", "--mix READS, the percentage of reads"),
    ("--rate_iops", "--rate PER_SECOND"),
    ("--iodepth_batch", "--batch N"),
    ("--number_ios", "--ops N"),
    ("--cpus_allowed", "--cpus LIST"),
    ("--randseed", "--seed N"),
    ("--output-format", "--format FORMAT"),
];

/// The replacement for an option that the command does not have: one of fio's, or one of another
/// command of durio.
fn foreign_option(word: &str) -> Option<String> {
    let name = word.split(['=', ' ']).next()?;
    let all = Arguments::command();
    let command = asked(&all, std::env::args_os().skip(1));
    let fio = FIO_WORDS.iter().find(|(theirs, _)| *theirs == name);
    let ours = fio.map_or(name, |(_, ours)| ours);
    let option = ours.split(' ').next()?;
    let is_place = |argument: &clap::Arg| {
        ["path", "paths", "directory", "directories"].contains(&argument.get_id().as_str())
    };
    let takes_place = command.get_positionals().any(is_place);
    if option == "--target" && takes_place {
        let command = command.get_name();
        return Some(format!("give the PATH itself, without an option: durio {command} PATH"));
    }
    let others = all.get_subcommands().filter(|listed| has(listed, option));
    let others: Vec<_> = others.map(|other| format!("durio {}", other.get_name())).collect();
    let is_elsewhere = !has(command, option) && !others.is_empty();
    let as_it_is = "durio fio takes fio's own command lines";
    let others = others.join(", ");
    match (fio, is_elsewhere) {
        (Some(_), true) => {
            Some(format!("for fio's {name} there is {ours} (of {others}); {as_it_is}"))
        }
        (Some(_), false) => Some(format!("for fio's {name} durio has {ours}; {as_it_is}")),
        (None, true) => Some(format!("{name} is an option of {others}")),
        (None, false) => {
            let is_known = durio_fio::job_file::option_help(name.trim_start_matches('-')).is_ok();
            let is_meant = is_known && name.starts_with("--") && name.len() > 2;
            is_meant.then(|| format!("fio has {name}: {as_it_is}"))
        }
    }
}

/// The command that the words begin with.
fn asked(all: &clap::Command, words: impl Iterator<Item = OsString>) -> &clap::Command {
    let mut command = all;
    for word in words {
        let Some(inner) = command.find_subcommand(word) else { break };
        command = inner;
    }
    command
}

fn has(command: &clap::Command, option: &str) -> bool {
    option_of(command, option).is_some()
}

fn option_of<'c>(command: &'c clap::Command, option: &str) -> Option<&'c clap::Arg> {
    let name = option.strip_prefix("--")?;
    command.get_arguments().find(|argument| argument.get_long() == Some(name))
}

/// Refuses `--size 4 GB`: 4 would be taken as bytes, and GB for a path.
pub(crate) fn refuse_split_quantities(line: &[OsString]) -> Result<(), CommandError> {
    let words = line.iter().map(|word| word.to_string_lossy().into_owned());
    let words = words.take_while(|word| word != "--").flat_map(|word| match word.split_once('=') {
        Some((option, value)) => vec![option.to_owned(), value.to_owned()],
        None => vec![word],
    });
    let words: Vec<String> = words.collect();
    // Every command pays for making the definitions once more; most have nothing to look at.
    if !words.windows(3).any(|part| part[0].starts_with("--")) {
        return Ok(());
    }
    let all = Arguments::command();
    let command = asked(&all, line.iter().skip(1).cloned());
    for part in words.windows(3) {
        let [option, number, unit] = part else { continue };
        let Some(argument) = option_of(command, option) else { continue };
        let kind = argument.get_value_parser().type_id();
        let whole = format!("{number}{unit}");
        let meant = if kind == ValueParser::from(clap::value_parser!(Bytes)).type_id() {
            meant(&whole, whole.parse::<Bytes>())
        } else if kind == ValueParser::from(clap::value_parser!(Nanos)).type_id() {
            meant(&whole, whole.parse::<Nanos>())
        } else {
            None
        };
        // An existing path is meant as a path, whatever its name.
        if let Some(meant) = meant.filter(|_| !Path::new(unit).exists()) {
            let text = format!("'{option} {number} {unit}' has a blank between number and unit");
            return Err(CommandError::wrong_use(text).hint(format!("write {option} {meant}")));
        }
    }
    Ok(())
}

fn meant<T>(whole: &str, read: Result<T, ParseQuantityError>) -> Option<String> {
    match read {
        Ok(_) => Some(whole.to_owned()),
        Err(error) => error.meant,
    }
}
