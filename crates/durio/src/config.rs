//! A user's defaults: options of commands, from a file.
//!
//! Takes the words of a command line, and `durio/config.toml` in the configuration folder; adds the
//! file's options that the user has not given. The parser of the command line interprets both.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use durio_command::CommandError;
use durio_spec::SpecText;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::geteuid;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use crate::args::Arguments;
use crate::exit_code::Exit;
use crate::output;

/// A larger file is not a set of options; one byte more than [`SpecText::parse`] takes.
const BYTES_MAX: u64 = (1 << 20) + 1;

/// Options that permit irreversible changes. They must be given on the command line each time.
const CONSENT: [&str; 7] =
    ["assume-clean", "create", "destroy", "force", "force-signature", "repair", "yes"];

/// Names another file, or no file if it is empty: for scripts that ignore the user's defaults.
const VARIABLE: &str = "DURIO_CONFIG";

/// The defaults of every command.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// Where they are, or would be; none without a home.
    pub(crate) path: Option<PathBuf>,
    table: Table,
    /// Why a file that exists is not used.
    pub(crate) ignored: Option<String>,
}

/// Why a file is not a set of options.
#[derive(Debug)]
struct UnusableConfig {
    why: String,
    /// It is probably another user's: unreadable, or not to be trusted.
    is_foreign: bool,
}

impl From<String> for UnusableConfig {
    fn from(why: String) -> Self {
        Self { why, is_foreign: false }
    }
}

impl Config {
    /// Reads the file; empty if it does not exist. `sudo` and containers may pass on the HOME of another
    /// user: a file that was found there is ignored, unless DURIO_CONFIG names it.
    pub(crate) fn read() -> Result<Self, CommandError> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let is_named = std::env::var_os(VARIABLE).is_some();
        let explained = |error: CommandError| {
            error.hint(format!("durio config explains the file; {VARIABLE}= runs without it"))
        };
        match read_text(&path) {
            Ok(text) => {
                let table = parse(&path.display().to_string(), &text).map_err(explained)?;
                Ok(Self { path: Some(path), table, ignored: None })
            }
            Err(UnusableConfig { why, is_foreign: true }) if !is_named => {
                let ignored = Some(format!("ignoring '{}': {why}", path.display()));
                Ok(Self { path: Some(path), table: Table::new(), ignored })
            }
            Err(UnusableConfig { why, .. }) => {
                let text = format!("cannot read '{}': {why}", path.display());
                Err(explained(CommandError::wrong_use(text)))
            }
        }
    }

    /// Warns of a file that is not used.
    pub(crate) fn warn(&self) {
        if let Some(ignored) = &self.ignored {
            output::remark(&format!("durio: {ignored}"));
            output::remark(&format!(
                "hint: set HOME or XDG_CONFIG_HOME to a directory that you own; {VARIABLE}= runs without a file"
            ));
        }
    }

    /// The command line with the defaults of its command, behind the command's name.
    pub(crate) fn applied(&self, mut line: Vec<OsString>) -> Vec<OsString> {
        let (mut table, mut at) = (&self.table, 1);
        while let Some(inner) = line.get(at).and_then(|word| table.get(word.to_str()?)?.as_table())
        {
            (table, at) = (inner, at + 1);
        }
        // Words after it belong to another program.
        let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
        let is_given = |key: &str| {
            let long = format!("--{key}");
            let with_value = format!("{long}=");
            let is_it =
                |word: &OsString| *word == *long || word.to_string_lossy().starts_with(&with_value);
            line[at.min(end)..end].iter().any(is_it)
        };
        let defaults = table.iter().filter(|(key, _)| at > 1 && !is_given(key));
        let words: Vec<OsString> = defaults.flat_map(|(key, value)| words(key, value)).collect();
        line.splice(at..at, words);
        line
    }

    /// Each command with its defaults, as a command line.
    pub(crate) fn lines(&self) -> Vec<String> {
        lines_of(&self.table, "durio")
    }
}

/// Its text; empty if it does not exist.
fn read_text(path: &Path) -> Result<String, UnusableConfig> {
    let foreign = |why: String| UnusableConfig { why, is_foreign: true };
    // Not blocking: a pipe in its place would be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // A service account may have a home such as /dev/null.
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(String::new()),
        Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
            return Err(foreign(io::Error::from(errno).to_string()));
        }
        Err(errno) => return Err(io::Error::from(errno).to_string().into()),
    };
    let facts = file.metadata().map_err(|error| error.to_string())?;
    if !facts.is_file() {
        return Err("it is not a regular file".to_owned().into());
    }
    if let Some(why) = distrusted(geteuid().is_root(), facts.uid(), facts.mode()) {
        return Err(foreign(why));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// The options in the text of a file.
fn parse(name: &str, text: &str) -> Result<Table, CommandError> {
    // Most users have no file: the command line is not built for them a second time.
    if text.is_empty() {
        return Ok(Table::new());
    }
    let source = SpecText { name, text };
    check(source, &source.parse("a configuration")?, &Arguments::command())?;
    text.parse().map_err(|error: toml::de::Error| CommandError::wrong_use(error.to_string()))
}

/// Why root does not take options from a file of this owner and mode: a user who can write to it
/// could add options to root's commands.
fn distrusted(is_root: bool, owner: u32, mode: u32) -> Option<String> {
    const OTHERS_WRITE: u32 = 0o022;
    match (is_root, owner) {
        (true, 1..) => Some(format!("it belongs to user {owner}, and durio runs as root")),
        (true, 0) if mode & OTHERS_WRITE != 0 => {
            Some("others can write to it, and durio runs as root".to_owned())
        }
        _ => None,
    }
}

fn path() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return Some(PathBuf::from(named)).filter(|path| !path.as_os_str().is_empty());
    }
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        // The XDG base directory specification says to ignore a relative path.
        path.is_absolute().then_some(path)
    };
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(folder.join(Path::new("durio/config.toml")))
}

/// Every table is a command and every key one of its options.
fn check(source: SpecText<'_>, table: &DeTable<'_>, command: &Command) -> Result<(), CommandError> {
    for (key, value) in table {
        let (at, key, of) = (key.span().start, &**key.get_ref(), command.get_name());
        if let DeValue::Table(inner) = value.get_ref() {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let what = format!("[{key}] is not a command");
            let unknown = || source.unknown(key, at, what, &known, "there are");
            check(source, inner, command.find_subcommand(key).ok_or_else(unknown)?)?;
            continue;
        }
        let known: Vec<&str> =
            command.get_arguments().filter_map(|argument| argument.get_long()).collect();
        if !known.contains(&key) {
            let what = format!("'{key}' is not an option of {of}");
            return Err(source.unknown(key, at, what, &known, "there are"));
        }
        let why = match value.get_ref() {
            _ if CONSENT.contains(&key) => "gives consent, which only the command line can do",
            DeValue::Datetime(_) => "is a date; expected text, a number, true or a list",
            _ => continue,
        };
        return Err(source.error(at, format!("'{key}' of {of} {why}")));
    }
    Ok(())
}

fn words(key: &str, value: &Value) -> Vec<OsString> {
    let option = || OsString::from(format!("--{key}"));
    match value {
        Value::Boolean(true) => vec![option()],
        Value::Array(values) => values.iter().flat_map(|value| words(key, value)).collect(),
        Value::String(text) => vec![option(), text.into()],
        Value::Integer(number) => vec![option(), number.to_string().into()],
        Value::Float(number) => vec![option(), number.to_string().into()],
        Value::Boolean(false) | Value::Table(_) | Value::Datetime(_) => Vec::new(),
    }
}

fn lines_of(table: &Table, command: &str) -> Vec<String> {
    let words: Vec<OsString> = table.iter().flat_map(|(key, value)| words(key, value)).collect();
    let words = words.iter().map(|word| durio_base::shell_word(&word.to_string_lossy()));
    let own = words.fold(command.to_owned(), |line, word| format!("{line} {word}"));
    let own = (own != command).then_some(own);
    let inner = table.iter().filter_map(|(name, value)| Some((name, value.as_table()?)));
    let inner = inner.flat_map(|(name, inner)| lines_of(inner, &format!("{command} {name}")));
    own.into_iter().chain(inner).collect()
}

/// `durio config`: the defaults in the file, and its path.
pub(crate) fn show() -> Result<Exit, CommandError> {
    let config = Config::read()?;
    let lines = config.lines();
    let text = match (&config.path, &config.ignored, lines.is_empty()) {
        (_, Some(ignored), _) => format!("{ignored}\n"),
        (None, None, _) => {
            "no configuration file: DURIO_CONFIG is empty, or there is no HOME\n".to_owned()
        }
        (Some(path), None, true) => {
            format!("{} sets no option; durio config --help shows an example\n", path.display())
        }
        (Some(path), None, false) => {
            format!("{} sets\n  {}\n", path.display(), lines.join("\n  "))
        }
    };
    output::answer_text(&text)?;
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(config: &str, line: &str) -> String {
        let config = Config { table: config.parse().unwrap(), ..Config::default() };
        let line = line.split(' ').map(OsString::from).collect();
        let words = config.applied(line);
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_that_are_given_replace_defaults_and_others_stay_out() {
        let config = "[check]\nsize = \"4GiB\"\ngoal = [\"a\", \"b\"]\nquiet = true\nquick = false\n\
                      [stack.bench]\nseed = 7\n";
        let goals = "--goal a --goal b";
        assert_eq!(
            applied(config, "durio check /d"),
            format!("durio check {goals} --quiet --size 4GiB /d")
        );
        assert_eq!(
            applied(config, "durio check --size=1G --quiet"),
            format!("durio check {goals} --size=1G --quiet")
        );
        assert_eq!(applied(config, "durio stack bench x"), "durio stack bench --seed 7 x");
        assert_eq!(applied(config, "durio stack x"), "durio stack x");
        assert_eq!(applied(config, "durio run -- --size"), "durio run -- --size");
    }

    #[test]
    fn an_option_whose_name_another_begins_with_is_not_given_by_that_one() {
        let config = "[run]\nsync = \"fsync\"\n";
        let line = "durio run --sync-every 4";
        assert_eq!(applied(config, line), "durio run --sync fsync --sync-every 4");
        assert_eq!(applied(config, "durio run --sync none"), "durio run --sync none");
        let line = "durio run -- --sync none";
        assert_eq!(applied(config, line), "durio run --sync fsync -- --sync none");
    }

    #[test]
    fn numbers_are_words_as_they_are_written() {
        let config = "[run]\njobs = 4\nrate = 1.5\n";
        assert_eq!(applied(config, "durio run"), "durio run --jobs 4 --rate 1.5");
        let config = Config { table: config.parse().unwrap(), ..Config::default() };
        assert_eq!(config.lines(), ["durio run --jobs 4 --rate 1.5"]);
    }

    #[test]
    fn what_is_no_command_or_no_option_says_so() {
        let wrong = |text: &str| {
            let error = parse("x", text).unwrap_err();
            format!("{error}; {}", error.hints.join("; "))
        };
        assert_eq!(
            wrong("[chek]\nsize = \"1G\""),
            "x:1:2: [chek] is not a command; did you mean 'check'?"
        );
        assert_eq!(
            wrong("[check]\n sise = \"1G\""),
            "x:2:2: 'sise' is not an option of check; did you mean 'size'?"
        );
        assert!(wrong("size = \"1G\"").starts_with("x:1:1: 'size' is not an option of durio"));
        assert!(
            wrong("[check]\nsize = 2026-01-01").starts_with("x:2:1: 'size' of check is a date")
        );
        assert!(wrong("[check]\nsize = ").starts_with("x:2:"));
        let long = format!("#{}", "x".repeat(1 << 20));
        assert!(wrong(&long).starts_with("x: a configuration of 1048577 bytes is longer than"));
        assert!(parse("x", &long[1..]).is_err() && parse("x", &long[..1 << 20]).is_ok());
    }

    #[test]
    fn no_option_that_permits_a_loss_is_taken_from_a_file() {
        fn options(command: &Command, of: &str, found: &mut Vec<(String, String)>) {
            for inner in command.get_subcommands() {
                let name = format!("{of}{}", inner.get_name());
                for option in inner.get_arguments() {
                    let heading = option.get_help_heading().unwrap_or_default();
                    let long = option.get_long().unwrap_or_default();
                    let is_consent = heading.contains("overwritten")
                        || ["destroy", "force", "yes", "create"].contains(&long);
                    if is_consent && !long.is_empty() {
                        found.push((name.clone(), long.to_owned()));
                    }
                }
                options(inner, &format!("{name}."), found);
            }
        }
        let mut found = Vec::new();
        options(&Arguments::command(), "", &mut found);
        assert!(found.len() > 20, "{found:?}");
        for (command, option) in found {
            let table = format!("[{command}]\n{option} = true");
            let why = parse("x", &table).unwrap_err().to_string();
            assert!(why.contains(&format!("'{option}' of")), "{table}: {why}");
            assert!(why.contains("only the command line can do"), "{table}: {why}");
        }
    }

    #[test]
    fn root_takes_options_from_its_own_files_alone() {
        assert_eq!(distrusted(true, 0, 0o100_644), None);
        assert_eq!(distrusted(true, 0, 0o100_600), None);
        assert!(distrusted(true, 0, 0o100_664).unwrap().contains("others can write"));
        assert!(distrusted(true, 0, 0o100_646).unwrap().contains("others can write"));
        assert!(distrusted(true, 1000, 0o100_600).unwrap().contains("user 1000"));
        assert_eq!(distrusted(false, 1000, 0o100_666), None);
        assert_eq!(distrusted(false, 0, 0o100_666), None);
    }
}
