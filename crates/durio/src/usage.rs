//! The message for a wrong command line, with the likely intention.

use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::num::ParseIntError;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use durio_base::{Bytes, Nanos, ParseQuantityError, shell_word, visible, visible_lines};
use durio_command::{CommandError, CommandErrorKind};

use crate::args::Arguments;
use crate::exit_code::Exit;
use crate::output::{answer, conclude, remark, takes_colour};

/// Shows clap's message: help and version on stdout, errors on stderr.
pub(crate) fn show_usage(mut error: clap::Error) -> ExitCode {
    if error.use_stderr() {
        drop_tip_of_values(&mut error);
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

// `use '-- -v'` cannot help where no argument of a command can begin with a dash.
fn drop_tip_of_values(error: &mut clap::Error) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let all = Arguments::command();
    let command = asked(&all, std::env::args_os().skip(1));
    if command.get_positionals().any(|words| words.is_last_set() || words.is_trailing_var_arg_set())
    {
        return;
    }
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
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
    let text = anstream::adapter::strip_str(&text).to_string();
    // As all other errors begin.
    match text.strip_prefix("error: ") {
        Some(message) => visible_lines(&format!("durio: {message}")),
        None => visible_lines(&text),
    }
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
                true => Some("sizes, times and counts cannot be negative".to_owned()),
                false => path_option(word).or_else(|| foreign_option(word)),
            }
        }
        ErrorKind::ValueValidation => {
            let is_count = error.source().is_some_and(|source| source.is::<ParseIntError>());
            is_count.then(|| "expected a whole number, such as 4".to_owned())
        }
        ErrorKind::ArgumentConflict => {
            let all = Arguments::command();
            let is_run = asked(&all, std::env::args_os().skip(1)).get_name() == "run";
            let is_spec = is_run
                && [ContextKind::InvalidArg, ContextKind::PriorArg]
                    .into_iter()
                    .any(|kind| text_of(kind) == Some("[SPEC]"));
            let hint =
                "not for a SPEC, which sets this itself; one job takes --target PATH instead";
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
                let hint = "the goal is a percentile and its limit, such as --goal 'p99 < 2ms'";
                Some(hint.to_owned())
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
    ("--fsync", "--sync fsync, and --sync-every N for several writes per sync"),
    ("--fdatasync", "--sync fdatasync, and --sync-every N for several writes per sync"),
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

/// Words for options of durio that other programs use, or other commands of durio; the first that the
/// command has is meant.
const OTHER_WORDS: [(&str, &[&str]); 17] = [
    ("-v", &["--verbose"]),
    ("-q", &["--quiet"]),
    ("-o", &["--output FILE"]),
    ("-f", &["--format FORMAT"]),
    ("-j", &["--json"]),
    ("-n", &["--name NAME"]),
    ("--html", &["--output FILE, such as report.html"]),
    ("--out", &["--output FILE, such as report.html"]),
    ("--export-markdown", &["--output FILE, such as report.md"]),
    ("--runs", &["--pairs N"]),
    ("--quick", &["--duration TIME, such as 1s"]),
    ("--clients", &["--committers N"]),
    ("--committers", &["--clients LIST"]),
    ("--jobs", &["--clients LIST"]),
    ("--warmup", &["--ramp TIME"]),
    ("--repeats", &["--pairs N"]),
    ("--limit", &["--goal GOAL", "--fail-over PERCENT"]),
];

/// Words that are taken for an option of durio: what means the same has the same word everywhere.
const SPELLINGS: [(&str, &str); 3] =
    [("--for", "--duration"), ("--time", "--duration"), ("--interval", "--every")];

/// The command line with the words that durio has, and a hint for each that was another.
pub(crate) fn with_own_words(line: Vec<OsString>) -> Vec<OsString> {
    if line.get(1).is_some_and(|word| word == "sweep") && line.windows(2).any(has_old_goal) {
        remark("hint: a goal is written as in durio check and predict: --goal 'p99 < 2ms'");
    }
    let is_other = |word: &OsString| SPELLINGS.iter().any(|(other, _)| is_called(word, other));
    let is_version = line.get(1).is_some_and(|word| word == "version");
    // Every command pays for making the definitions once more; most have nothing to look at.
    if !is_version && !line.iter().any(is_other) {
        return line;
    }
    let all = Arguments::command();
    let command = asked(&all, line.iter().skip(1).cloned());
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    let spelled = |(at, word): (usize, OsString)| match at {
        1 if is_version => "--version".into(),
        _ if at < end => own_word(command, &word).unwrap_or(word),
        _ => word,
    };
    line.into_iter().enumerate().map(spelled).collect()
}

/// True for `--goal p99=2ms` and `--goal=p99=2ms`.
fn has_old_goal(pair: &[OsString]) -> bool {
    let [option, value] = pair else { return false };
    let joined = value.to_str().and_then(|value| value.strip_prefix("--goal="));
    let goal = joined.or_else(|| value.to_str().filter(|_| option == "--goal"));
    goal.is_some_and(|goal| goal.contains('=') && !goal.contains('<'))
}

fn own_word(command: &clap::Command, word: &OsStr) -> Option<OsString> {
    let is_meant = |(other, ours): &&(&str, &str)| {
        is_called(word, other) && !has(command, other) && has(command, ours)
    };
    let (other, ours) = SPELLINGS.iter().find(is_meant)?;
    remark(&format!("hint: {other} is {ours} in durio {}", command.get_name()));
    Some(format!("{ours}{}", word.to_str()?.strip_prefix(other)?).into())
}

/// True for `--for` and `--for=60s`.
fn is_called(word: &OsStr, option: &str) -> bool {
    let rest = word.to_str().and_then(|word| word.strip_prefix(option));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// For a path that the command takes as the value of an option.
fn path_option(word: &str) -> Option<String> {
    let all = Arguments::command();
    let command = asked(&all, std::env::args_os().skip(1));
    let is_target = !word.starts_with('-') && has(command, "--target") && Path::new(word).exists();
    is_target.then(|| format!("a path follows --target: --target {}", shell_word(word)))
}

/// The replacement for an option that the command does not have: one of fio's, or one of another
/// command of durio.
fn foreign_option(word: &str) -> Option<String> {
    let name = word.split(['=', ' ']).next()?;
    if ["-V", "--version"].contains(&name) {
        return Some("durio --version shows the version".to_owned());
    }
    let all = Arguments::command();
    let command = asked(&all, std::env::args_os().skip(1));
    let meant = OTHER_WORDS.iter().filter(|(other, _)| *other == name);
    let meant: Vec<&str> = meant.flat_map(|(_, ours)| ours.iter().copied()).collect();
    if let Some(ours) = meant.iter().find(|ours| has(command, first_word(ours))) {
        return Some(format!("durio {} has {ours}", command.get_name()));
    }
    let fio = FIO_WORDS.iter().find(|(theirs, _)| *theirs == name);
    // A long option of another meaning is not looked for in other commands.
    let short = meant.first().filter(|_| !name.starts_with("--"));
    let ours = fio.map_or(short.copied().unwrap_or(name), |(_, ours)| ours);
    let option = first_word(ours);
    let is_place = |argument: &clap::Arg| {
        ["path", "paths", "directory", "directories"].contains(&argument.get_id().as_str())
    };
    let takes_place = command.get_positionals().any(is_place);
    if option == "--target" && takes_place {
        let command = command.get_name();
        return Some(format!("give the PATH itself, without an option: durio {command} PATH"));
    }
    let others = commands_with(&all, command, option);
    let is_bare = std::ptr::eq(command, &all);
    if let (None, true, Some(first)) = (fio, is_bare, others.first()) {
        // In many programs -v is the version.
        let version = if name == "-v" { "; durio --version shows the version" } else { "" };
        return Some(format!("options follow a command, such as {first} {ours}{version}"));
    }
    let is_elsewhere = !has(command, option) && !others.is_empty();
    let as_it_is = "durio fio accepts fio's command lines";
    let others = match others.as_slice() {
        [a, b, c, rest @ ..] if rest.len() > 1 => {
            format!("{a}, {b}, {c} and {} more commands", rest.len())
        }
        few => few.join(", "),
    };
    match (fio, is_elsewhere) {
        (Some(_), true) => {
            Some(format!("instead of fio's {name}, use {ours} (of {others}); {as_it_is}"))
        }
        (Some(_), false) => Some(format!("instead of fio's {name}, use {ours}; {as_it_is}")),
        (None, true) => Some(format!("{option} is an option of {others}")),
        (None, false) => {
            let is_known = durio_fio::job_file::option_help(name.trim_start_matches('-')).is_ok();
            let is_meant = is_known && name.starts_with("--") && name.len() > 2;
            is_meant.then(|| format!("fio has {name}: {as_it_is}"))
        }
    }
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// The commands that have the option: those of the group that was asked for, or else all; only if there
/// are none, those of other groups.
fn commands_with(all: &clap::Command, asked: &clap::Command, option: &str) -> Vec<String> {
    let within = |group: &clap::Command| -> Vec<String> {
        let prefix = match group.get_name() {
            "durio" => "durio".to_owned(),
            name => format!("durio {name}"),
        };
        let inner = group.get_subcommands().filter(|listed| has(listed, option));
        inner.map(|listed| format!("{prefix} {}", listed.get_name())).collect()
    };
    let found = [within(asked), within(all)].into_iter().find(|found| !found.is_empty());
    found.unwrap_or_else(|| all.get_subcommands().flat_map(within).collect())
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
            let text = format!("'{option} {number} {unit}' has a space between number and unit");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &str) -> String {
        let line = with_own_words(line.split_whitespace().map(OsString::from).collect());
        line.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn what_means_the_same_has_the_same_word_in_every_command() {
        for (line, expected) in [
            ("durio capture --pid 1 --for 60s", "durio capture --pid 1 --duration 60s"),
            ("durio capture --for=60s", "durio capture --duration=60s"),
            ("durio watch /d --interval 1m", "durio watch /d --every 1m"),
            ("durio check --time 5s /d", "durio check --duration 5s /d"),
            ("durio profile calibrate x --time 5s", "durio profile calibrate x --duration 5s"),
            ("durio version", "durio --version"),
            // It has another meaning there, or none; what follows -- is another program's.
            ("durio run --interval 1s", "durio run --interval 1s"),
            ("durio report --for x", "durio report --for x"),
            ("durio check --forty 2", "durio check --forty 2"),
            ("durio lab run -- x --for 1s", "durio lab run -- x --for 1s"),
        ] {
            assert_eq!(spelled(line), expected);
        }
    }

    #[test]
    fn a_goal_of_a_sweep_with_an_equals_sign_is_an_old_one() {
        let is_old = |pair: [&str; 2]| has_old_goal(&pair.map(OsString::from));
        assert!(is_old(["--goal", "p99=2ms"]) && is_old(["sweep", "--goal=p99=2ms"]));
        for current in [["--goal", "p99 < 2ms"], ["--goal", "p99<=2ms"], ["--size", "a=b"]] {
            assert!(!is_old(current), "{current:?}");
        }
    }
}
