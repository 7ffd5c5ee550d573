//! `durio advise`: checks settings against rules, and proves one.

use std::path::{Path, PathBuf};

use clap::Args;
use durio_base::{Bytes, Nanos};
use durio_bench::{AbTestOutcome, AbTestRequest, find_run, prove, read_run, restore_settings};
use durio_block::{open_input, read_bounded};
use durio_command::{CommandError, CommandErrorKind};
use durio_judge::advise::{
    AdviceRequest, AdviceRole, DatabaseSetting, DatabaseSettings, FactOrigin, advise as judge,
};
use durio_observe::{StackError, StackErrorKind, read_readings, read_stack};
use durio_report::ShownAdvice;
use durio_spec::profile::database_name;

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::progress::Terminal;
use crate::stop_signals::stop_in_order;
use crate::{output, values};

/// Advise on settings of kernel, filesystem and database for a storage
///
/// Reads what is set, and holds it against rules from the documents and sources of databases, of the
/// kernel and of those who published their experience. Each rule is met, not met, or cannot be told;
/// with the value and where it was read, the command, udev rule or setting that applies the advice,
/// what undoes it, the risk, and who says so. Changes nothing.
///
///   durio advise /data --database postgresql --role log --config postgresql.conf --run RUN
///   durio advise /data --database mysql --setting innodb_io_capacity=200
///   durio advise /data --prove A01
///
/// Documents that contradict each other are shown with both sides. Nothing that lowers durability is
/// ever advised.
///
/// --prove measures a rule that durio can switch itself, in turns before and after (A B B A …), on a
/// file of its own. The old value always comes back, also when durio is interrupted; after a kill
/// the next durio brings it back.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Advise {
    /// Directory, file or block device on the storage in question
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) path: PathBuf,

    /// Rules for this database too
    #[arg(long, value_name = "NAME", help_heading = "Which rules")]
    pub(crate) database: Option<String>,

    /// Only rules for this use: log, data or scan
    #[arg(long, value_name = "ROLE", value_parser = values::advice_role,
          help_heading = "Which rules")]
    pub(crate) role: Option<AdviceRole>,

    /// Only this rule, by its identifier or name
    #[arg(long, value_name = "RULE", help_heading = "Which rules", conflicts_with = "prove")]
    pub(crate) rule: Option<String>,

    /// Show also rules about what is not here
    #[arg(long, help_heading = "Which rules")]
    pub(crate) all: bool,

    /// A setting of the database, such as commit_delay=100 (can be repeated)
    #[arg(long = "setting", value_name = "NAME=VALUE", value_parser = values::setting,
          help_heading = "What is known")]
    pub(crate) settings: Vec<DatabaseSetting>,

    /// The database's configuration file (postgresql.conf, my.cnf, redis.conf)
    #[arg(long, value_name = "FILE", requires = "database", help_heading = "What is known")]
    pub(crate) config: Option<PathBuf>,

    /// The run folder of a measurement on this storage
    #[arg(long, value_name = "RUN", help_heading = "What is known")]
    pub(crate) run: Option<PathBuf>,

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
    let run = arguments.run.as_deref().map(find_run).transpose()?;
    let run = run.as_deref();
    let run = run.map(|path| read_run(path, false, &Terminal::new(true))).transpose()?;
    let report = judge(&AdviceRequest {
        target: arguments.path.display().to_string(),
        system: FactOrigin { stack: &stack, readings: &readings },
        role: arguments.role,
        database: arguments.database.as_deref().map(database_name).map(str::to_owned),
        settings: settings(arguments)?,
        run: run.as_ref().map(|run| &run.findings),
        rule: arguments.rule.clone(),
    })?;
    // A rule that the user names is shown in any state.
    let all = arguments.all || arguments.rule.is_some();
    output::report(arguments.output, &ShownAdvice { report: &report, all })?;
    Ok(Exit::Fine)
}

/// The rule measured before and after, in turns.
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

fn settings(arguments: &Advise) -> Result<DatabaseSettings, CommandError> {
    let mut settings =
        DatabaseSettings { given: arguments.settings.clone(), ..DatabaseSettings::default() };
    if let Some(path) = &arguments.config {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        settings.read_file(&name, &text_of(path)?);
    }
    Ok(settings)
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
