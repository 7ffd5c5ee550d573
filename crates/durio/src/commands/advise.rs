//! `durio advise`: checks settings against rules, and proves one.

mod server;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use durio_analyse::{Findings, RunState};
use durio_base::{Bytes, Nanos};
use durio_bench::{
    AbTestOutcome, AbTestRequest, KeptRuns, find_run, list_runs, prove, read_run, restore_settings,
};
use durio_block::{Folder, open_input, read_bounded};
use durio_command::{CommandError, CommandErrorKind};
use durio_judge::advise::{
    AdviceReport, AdviceRequest, AdviceRole, ConfigFile, DatabaseSetting, DatabaseSettings,
    FactOrigin, advise as judge, rule_named,
};
use durio_observe::{Stack, StackError, StackErrorKind, leaf_devices, read_readings, read_stack};
use durio_record::{RunFolder, file_names};
use durio_report::ShownAdvice;
use durio_spec::profile::database_name;

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::progress::Terminal;
use crate::stop_signals::stop_in_order;
use crate::{output, values};

/// Advise on settings of kernel, filesystem and database
///
/// Compares the settings in effect with rules from the documentation and source code of databases
/// and the kernel. Prints which settings to change, from which value to which, ordered by expected
/// gain, with the evidence: one of your runs, durio's A/B tests, or a source. Settings that those
/// tests found useless are listed separately. Changes no setting.
///
///   durio advise /data --database postgresql --role log
///   durio advise /data --database mysql --setting innodb_io_capacity=200
///   durio advise /data --database postgresql --write settings
///   durio advise /data --prove A01
///
/// Measured values come from the newest complete run on the same mount and devices, or from --run.
/// A PostgreSQL, MySQL or MariaDB server that runs here is asked for its settings, if durio runs as
/// its user or as root (SHOW, by psql or mariadb); without a client its configuration files are
/// read.
///
/// Where documents contradict each other, both are shown. durio never advises a setting that lowers
/// durability.
///
/// --prove measures a rule that durio can switch itself, alternating before and after (A B B A …), on a
/// file of its own. The old value is always restored, even if durio is interrupted; after a kill,
/// the next durio restores it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Advise {
    /// Directory, file or block device on the storage to advise on
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) path: PathBuf,

    /// Include the rules for this database
    #[arg(long, value_name = "NAME", help_heading = "Which rules")]
    pub(crate) database: Option<String>,

    /// Only rules for this use: log, data or scan
    #[arg(long, value_name = "ROLE", value_parser = values::advice_role,
          help_heading = "Which rules")]
    pub(crate) role: Option<AdviceRole>,

    /// Only this rule, by its identifier or name
    #[arg(long, value_name = "RULE", help_heading = "Which rules", conflicts_with = "prove")]
    pub(crate) rule: Option<String>,

    /// Also show rules that do not apply here
    #[arg(long, help_heading = "Which rules")]
    pub(crate) all: bool,

    /// A setting of the database, such as commit_delay=100 (can be repeated)
    #[arg(long = "setting", value_name = "NAME=VALUE", value_parser = values::setting,
          help_heading = "What is known")]
    pub(crate) settings: Vec<DatabaseSetting>,

    /// The database's configuration file (postgresql.conf, my.cnf, redis.conf)
    #[arg(long, value_name = "FILE", requires = "database", help_heading = "What is known")]
    pub(crate) config: Option<PathBuf>,

    /// A run on this storage [default: the newest complete one]
    #[arg(long, value_name = "RUN", help_heading = "What is known")]
    pub(crate) run: Option<PathBuf>,

    /// Write the suggested lines to new files in this directory, each with instructions to install it
    ///
    /// Files for udev, sysctl, tmpfiles.d, fstab, the kernel's command line and the database.
    /// Existing files are never replaced, and nothing is installed.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath,
          help_heading = "Output", conflicts_with = "prove")]
    pub(crate) write: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    // Last: its heading also covers options that follow.
    #[command(flatten)]
    pub(crate) proof: ProofArguments,
}

// What a proof measures; no doc comment, which would be taken for the command's.
#[derive(Debug, Args)]
#[command(next_help_heading = "Proof")]
pub(crate) struct ProofArguments {
    /// Measure this rule before and after, and restore
    #[arg(long, value_name = "RULE")]
    pub(crate) prove: Option<String>,

    /// With --prove: another value than the rule's
    #[arg(long, value_name = "VALUE", requires = "prove")]
    pub(crate) value: Option<String>,

    /// With --prove: runs of each side
    #[arg(long, value_name = "N", default_value_t = 5, requires = "prove",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) pairs: u32,

    /// With --prove: time of each run, where it is not given by the size
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "prove")]
    pub(crate) duration: Nanos,

    /// With --prove: size of durio's file
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "prove")]
    pub(crate) size: Bytes,
}

// A larger file is not a configuration.
const CONFIG_BYTES_MAX: Bytes = Bytes::from_mib(1);

pub(crate) fn advise(arguments: &Advise) -> Result<Exit, CommandError> {
    // First: advice about a setting left changed by a killed proof would be about durio's change.
    output::remarks(restore_settings());
    if let Some(rule) = &arguments.proof.prove {
        return proof(arguments, rule);
    }
    let unread = |error: StackError| {
        let kind = match error.kind {
            StackErrorKind::NotFound => CommandErrorKind::WrongUse,
            _ => CommandErrorKind::CannotMeasure,
        };
        CommandError::of(kind, error).hint("name an existing directory, file or block device")
    };
    let stack = read_stack(&arguments.path).map_err(unread)?;
    let readings = read_readings(&stack);
    let database = database(arguments)?;
    let mut origins = Vec::new();
    let run = match &arguments.run {
        Some(run) => Some(read_run(&find_run(run)?, false, &Terminal::new(true))?.findings),
        None => newest_run(&stack).map(|(findings, origin)| {
            origins.push(origin);
            findings
        }),
    };
    let (settings, origin) = settings(arguments, database.as_deref())?;
    origins.extend(origin);
    let report = judge(&AdviceRequest {
        target: arguments.path.display().to_string(),
        system: FactOrigin { stack: &stack, readings: &readings },
        role: arguments.role,
        database,
        settings,
        run: run.as_ref(),
        rule: arguments.rule.clone(),
    })?;
    let report = AdviceReport { origins, ..report };
    if let Some(directory) = &arguments.write {
        write_files(directory, &report.files)?;
    }
    // A rule that the user names is shown in any state.
    let all = arguments.all || arguments.rule.is_some();
    output::report(arguments.output, &ShownAdvice { report: &report, all })?;
    Ok(Exit::Fine)
}

/// The database that was named, or the only one that the named rule is about.
fn database(arguments: &Advise) -> Result<Option<String>, CommandError> {
    if let Some(word) = &arguments.database {
        // Rules are about the program; profiles also name its journal.
        let name = match database_name(word) {
            "sqlite-wal" => "sqlite",
            name => name,
        };
        return Ok(Some(name.to_owned()));
    }
    let rule = arguments.rule.as_deref().map(rule_named).transpose()?;
    Ok(match rule.map(|rule| rule.databases.as_slice()) {
        Some([only]) => Some(only.clone()),
        _ => None,
    })
}

/// Runs that are looked at for one of this storage.
const RUNS_MAX: usize = 100;

/// The findings of the newest complete run on the mount and devices of `here`, and which run that is.
// An unreadable state folder means no run, not an error: advice works without one.
fn newest_run(here: &Stack) -> Option<(Findings, String)> {
    let kept = KeptRuns::runs().ok()?;
    let folder = kept.path()?;
    let rows = list_runs(&kept).ok()?;
    let machine = rustix::system::uname();
    let is_own = |host: &str| machine.nodename().to_string_lossy() == host;
    let complete = rows.iter().filter(|row| row.state == Some(RunState::Complete));
    let own = complete.filter(|row| is_own(&row.host)).take(RUNS_MAX);
    let run = own.map(|row| folder.join(&row.run)).find(|run| is_of(run, here))?;
    let findings = read_run(&run, false, &Terminal::new(true)).ok()?.findings;
    let name = run.file_name().unwrap_or_default().display().to_string();
    let ended = fs::metadata(run.join(file_names::MANIFEST)).and_then(|facts| facts.modified());
    let age = ended.ok().and_then(|ended| ended.elapsed().ok());
    let age = age.map(|age| format!(", {} old", Nanos::from(age))).unwrap_or_default();
    Some((findings, format!("run {name}{age}")))
}

/// True if every stack of the run is on the mount and devices of `here`.
fn is_of(run: &Path, here: &Stack) -> bool {
    let place = |stack: &Stack| {
        let mut filesystems = stack.walk().filter_map(|(_, layer)| layer.filesystem.as_ref());
        (filesystems.next().map(|facts| facts.mount_point.clone()), leaf_devices(stack))
    };
    let Ok(folder) = RunFolder::open(run) else { return false };
    let stacks = &folder.environment.stacks;
    !stacks.is_empty() && stacks.iter().all(|stack| place(stack) == place(here))
}

/// Writes each file, none of which may exist.
fn write_files(directory: &Path, files: &[ConfigFile]) -> Result<(), CommandError> {
    let paths = [std::path::absolute(directory), fs::canonicalize(directory)];
    if paths.into_iter().flatten().any(|path| path.starts_with("/etc")) {
        let message = format!("'{}' is a directory of the system", directory.display());
        let hint = "name a directory that you can write to; each file says where to copy it";
        return Err(CommandError::wrong_use(message).hint(hint));
    }
    // All or none: a mixture of two advices would be installed as one.
    if let Some(file) = files.iter().find(|file| directory.join(&file.name).exists()) {
        let path = directory.join(&file.name);
        let message = format!("'{}' exists already", path.display());
        return Err(CommandError::wrong_use(message).hint("name another directory"));
    }
    let folder = Folder::open_or_make(directory)
        .map_err(|error| CommandError::io("make", directory, error))?;
    for file in files {
        let path = directory.join(&file.name);
        folder
            .make_file_with(&file.name, 0o644)
            .and_then(|mut made| made.write_all(file.text().as_bytes()))
            .map_err(|error| CommandError::io("write", &path, error))?;
        output::remarks([format!("wrote {}; {}", path.display(), file.install)]);
    }
    if files.is_empty() {
        output::remarks(["there are no lines to write"]);
    }
    Ok(())
}

/// The rule measured before and after, alternating.
fn proof(arguments: &Advise, rule: &str) -> Result<Exit, CommandError> {
    let request = AbTestRequest {
        rule,
        path: &arguments.path,
        value: arguments.proof.value.as_deref(),
        pairs: arguments.proof.pairs,
        duration: arguments.proof.duration,
        size: arguments.proof.size,
    };
    // The stop is orderly, so the old value always comes back.
    let AbTestOutcome { proof, ending } =
        prove(&request, &stop_in_order()?, &Terminal::new(false))?;
    if let Some(proof) = proof {
        output::report(arguments.output, &proof)?;
    }
    Ok(ending.into())
}

/// The settings that the user gives or the server has, and where the server's come from.
fn settings(
    arguments: &Advise,
    database: Option<&str>,
) -> Result<(DatabaseSettings, Option<String>), CommandError> {
    let mut found = server::ServerSettings::default();
    match (&arguments.config, database) {
        (Some(path), _) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.settings.read_file(&name, &text_of(path)?);
        }
        (None, Some(database)) => found = server::read_settings(database, &arguments.path)?,
        (None, None) => {}
    }
    found.settings.given = arguments.settings.clone();
    Ok((found.settings, found.origin))
}

fn text_of(path: &Path) -> Result<String, CommandError> {
    let read = open_input(path).and_then(|file| read_bounded(file, CONFIG_BYTES_MAX));
    let bytes = read.map_err(|error| {
        let message = format!("cannot read '{}': {error}", path.display());
        let failure = CommandError::cannot_measure(message);
        match error.kind() {
            std::io::ErrorKind::FileTooLarge => failure
                .hint("name postgresql.conf, my.cnf or the like, or give --setting NAME=VALUE"),
            _ => failure,
        }
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
