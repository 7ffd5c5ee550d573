//! `durio check`, `durio predict`: checks whether storage is fit for a database, and predicts a
//! database's commits on it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr as _;

use clap::Args;
use durio_analyse::{Findings, Verdict, VerdictWord, each_once};
use durio_base::{Bytes, Nanos, did_you_mean};
use durio_command::{CommandError, CommandErrorKind, LocatedPlaces};
use durio_observe::process_names;
use durio_plan::Threshold;
use durio_spec::profile::{
    LogSetting, Profile, database_name, known_databases, profile, profile_names,
};
use durio_spec::written::PredictGoal;
use durio_spec::{
    CheckLength, CheckRequest, PredictRequest, plan_check, plan_predict, usual_databases, written,
};

use crate::exit_code::{Exit, TABLE};
use crate::measure::{begin, execute, locate};
use crate::options::{Measuring, OwnCommitArguments};
use crate::{output, values};

/// Check whether storage is fit for a database
///
/// Creates its own files in a directory (1.4 GiB, at most a tenth of the free space) and measures
/// eight workloads, one after the other, in about a minute:
///
///   commit           8 KiB into a recycled log, O_DIRECT, fdatasync each, one writer
///   commit-etcd      2300 bytes, buffered, into a preallocated segment, fdatasync each
///   commit-group-1   256-byte records of one committer, buffered, into a recycled log, batches
///                    filled up to 4 KiB, one fdatasync per batch
///   commit-group-8   the same of 8 committers, who share each sync
///   commit-group-64  the same of 64 committers
///   lookup           random 8 KiB reads, 8 jobs with 4 in flight each, O_DIRECT
///   scan             sequential 256 KiB reads, 2 jobs with 16 in flight each, O_DIRECT
///   mixed            random 8 KiB, 70 % reads, 8 jobs with 4 in flight each, not durable
///
/// Existing files and block devices are only read (lookup, scan) unless --destroy names them. With
/// several paths, such as a filesystem and its device, the report shows them side by side. Only the
/// run folder with the record and the report is kept.
///
/// In a directory with room for their logs, check also predicts how many commits PostgreSQL, MySQL
/// and MariaDB, SQLite, Redis and etcd reach with 1, 8 and 32 clients (SQLite: 1), in 13 s, as durio
/// predict does; --quick predicts 8 clients only. The report lists them first, the ones that run on
/// this machine at the top. --database names other databases, --no-predictions and --workload leave
/// them out. Published limits follow.
#[derive(Debug, Args)]
// Verbatim, for clap would join the lines of the table.
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct CheckArguments {
    /// Directories, files or block devices to check
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    /// Same as PATH; as in durio run and durio sweep
    #[arg(long, value_name = "PATH", conflicts_with = "paths", help_heading = "What")]
    pub(crate) target: Vec<PathBuf>,

    /// Finish in under 15 s, with 256 MiB of data
    #[arg(long, conflicts_with_all = ["thorough", "duration"], help_heading = "How long, how large")]
    pub(crate) quick: bool,

    /// Measure each workload for 300 s; shorter results are marked provisional
    #[arg(long, conflicts_with = "duration", help_heading = "How long, how large")]
    pub(crate) thorough: bool,

    /// Time per workload, such as 30s or 5m
    #[arg(long, value_name = "TIME", help_heading = "How long, how large")]
    pub(crate) duration: Option<Nanos>,

    /// Size of the data file, such as 4GiB; may exceed a tenth of the free space
    #[arg(long, value_name = "SIZE", help_heading = "How long, how large")]
    pub(crate) size: Option<Bytes>,

    /// Only this workload (can be repeated)
    #[arg(long = "workload", value_name = "NAME", value_parser = values::WORKLOAD,
          hide_possible_values = true, help_heading = "How long, how large")]
    pub(crate) workloads: Vec<String>,

    /// Leave out the predicted commits of databases
    #[arg(long, overrides_with = "no_predictions", help_heading = "How long, how large")]
    pub(crate) no_predictions: bool,

    /// Answer for this database alone; exit with 1 if the storage is unfit for it (can be repeated)
    ///
    /// The first sentence has its predicted commits, and the verdict by its published limit;
    /// without a published limit the exit code does not depend on it. Aliases such as postgres, pg,
    /// mysql (uses MariaDB's model), sqlite and mongo are accepted. Commits are predicted for databases
    /// with a built-in model; for others the report names the command that measures their I/O.
    #[arg(long = "database", value_name = "NAME", value_parser = values::DATABASE,
          hide_possible_values = true, help_heading = "Verdict")]
    pub(crate) databases: Vec<String>,

    /// Exit with 1 if this goal is missed, such as 'commit p99 < 5ms' (can be repeated)
    ///
    /// WORKLOAD MEASURE < TIME for a latency (mean, p50, p99, p99.9, max), WORKLOAD rate > N or WORKLOAD
    /// bandwidth > SIZE; WORKLOAD defaults to commit. Latencies are of commits or reads;
    /// name another operation between workload and measure: 'commit sync p99 < 2ms'.
    #[arg(long = "goal", value_name = "GOAL", value_parser = written::check_goal, help_heading = "Verdict")]
    pub(crate) goals: Vec<Threshold>,

    #[command(flatten)]
    pub(crate) own: OwnCommitArguments,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

pub(crate) fn check(arguments: CheckArguments) -> Result<Exit, CommandError> {
    // Before anything is looked up or laid out: a misspelt name must not cost a minute.
    let databases = known(&arguments.databases)?;
    let paths = if arguments.target.is_empty() { &arguments.paths } else { &arguments.target };
    let LocatedPlaces { places: locations, held } = locate(paths, &arguments.common)?;
    let predicted = match arguments.workloads.is_empty() && !arguments.no_predictions {
        true => predicted(&databases, &process_names())?,
        false => Vec::new(),
    };
    let execution = begin("check", &arguments.common)?.with_why(arguments.own.explained());
    let plan = plan_check(&CheckRequest {
        locations,
        length: length(&arguments),
        duration: arguments.duration,
        size: arguments.size,
        only: arguments.workloads,
        predicted,
        asked: databases.clone(),
        goals: arguments.goals,
        seed: execution.seed,
        clock: arguments.common.clock,
        file_name: execution.file_name(),
    })?;
    let (exit, findings) = execute(&execution, &plan, held, &arguments.common)?;
    // A failed or interrupted run says nothing about fitness.
    Ok(if exit == Exit::Fine { verdict(&findings, &databases) } else { exit })
}

/// The databases whose commits to predict: the named ones that durio has a model of, or the usual
/// ones, first those that run here.
fn predicted(named: &[String], running: &BTreeSet<String>) -> Result<Vec<Profile>, CommandError> {
    if named.is_empty() {
        let mut usual = usual_databases()?;
        // Stable: the others keep their order.
        usual.sort_by_key(|profile| {
            !profile.processes.iter().any(|process| running.contains(process))
        });
        return Ok(usual);
    }
    let mut found = Vec::new();
    let profiles = profile_names();
    // Some limits have a name that is not a profile's.
    for name in named.iter().map(String::as_str).filter(|name| profiles.contains(name)) {
        let mut modelled = profile(if name == MYSQL { MYSQL_MODEL } else { name })?;
        if modelled.software.is_none() {
            continue;
        }
        if name == MYSQL {
            output::remark("durio: MySQL is predicted with the model of MariaDB");
            name.clone_into(&mut modelled.name);
        }
        found.push(modelled);
    }
    Ok(found)
}

const MYSQL: &str = "mysql";

/// The profile that predicts MySQL's commits.
const MYSQL_MODEL: &str = "mariadb";

fn length(arguments: &CheckArguments) -> CheckLength {
    match (arguments.quick, arguments.thorough) {
        (true, _) => CheckLength::Quick,
        (_, true) => CheckLength::Thorough,
        _ => CheckLength::Usual,
    }
}

fn known(names: &[String]) -> Result<Vec<String>, CommandError> {
    let databases = known_databases()?;
    let all: Vec<&str> = databases.iter().map(String::as_str).collect();
    let find = |name: &String| {
        databases.iter().find(|known| *known == database_name(name)).cloned().ok_or_else(|| {
            CommandError::wrong_use(format!("unknown database '{name}'")).hint(did_you_mean(
                name,
                &all,
                "known databases:",
            ))
        })
    };
    let found = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    Ok(each_once(found))
}

// Unfit decides; a threshold that could not be compared leaves the question open, and stderr names
// it.
pub(super) fn verdict(findings: &Findings, databases: &[String]) -> Exit {
    let is_asked = |verdict: &&Verdict| {
        databases.contains(&verdict.database) || verdict.database == Threshold::GOAL
    };
    let asked: Vec<_> = findings.verdicts.iter().filter(is_asked).collect();
    for verdict in
        asked.iter().filter(|verdict| verdict.verdict == VerdictWord::NoDocumentedThreshold)
    {
        output::remark(&format!(
            "durio: no limit is published for {}; name your own, such as --goal 'commit p99 < 5ms'",
            verdict.database
        ));
    }
    for verdict in asked.iter().filter(|verdict| verdict.verdict == VerdictWord::CannotTell) {
        let Verdict { database, criterion, measured, .. } = verdict;
        output::remark(&format!("durio: cannot tell for {database}: {criterion}: {measured}"));
    }
    // In a script the report may be JSON in a file, and the exit code alone says too little.
    for verdict in asked.iter().filter(|verdict| verdict.verdict == VerdictWord::Unfit) {
        output::remark(&format!("durio: {}", missed(verdict)));
    }
    let words: Vec<VerdictWord> = asked.iter().map(|verdict| verdict.verdict).collect();
    // One unfit database decides, even if others are undecided.
    if words.contains(&VerdictWord::Unfit) {
        Exit::Negative
    } else if words.contains(&VerdictWord::CannotTell) {
        Exit::CANNOT_MEASURE
    } else {
        Exit::Fine
    }
}

fn missed(verdict: &Verdict) -> String {
    let Verdict { database, location, criterion, measured, .. } = verdict;
    match database == Threshold::GOAL {
        true => format!("goal missed at {location}: {criterion}; measured {measured}"),
        false => format!("{location} is unfit for {database}: {criterion}; measured {measured}"),
    }
}

/// Predict how many commits per second a database reaches on this storage
///
/// Writes and syncs a log in the directory as the database does, with threads that use as much CPU
/// time per commit as the database, and with clients that wait for their answers. Each transaction
/// is the smallest durable one: a small insert, put or set. Clients and database share this
/// machine.
///
///   durio predict postgresql /var/lib/postgresql
///   durio predict redis /data --clients 1,8,32,128
///   durio predict sqlite-wal /home --clients 1
///   durio predict mariadb /data --clients 32 --goal 'p99 < 5ms at 2000/s'
///   durio predict ./mine.toml /data --duration 20s
///
/// Not predicted: reads, checkpoints, compaction, replication, a network between clients and database,
/// and several clients of SQLite, which poll for their turn. Of 17 rates that were compared with real
/// databases, 14 were within 15 %.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Predict {
    /// Name of a profile that has [software], or the path of a TOML file
    ///
    /// postgres, sqlite (with its write-ahead log) and mysql (by the model of MariaDB) are understood.
    #[arg(value_name = "DATABASE")]
    pub(crate) database: String,

    /// Directory on the storage for the log
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Numbers of concurrent clients [default: 1,8,32; 1 for SQLite]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Vec<u32>,

    /// Measured time per number of clients [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// Another value of a key of the profile's log, such as commit_delay=200us (can be repeated)
    ///
    /// As in the database's settings. The keys are those of durio profile show DATABASE:
    /// commit_delay and commit_siblings as PostgreSQL has them, sync (fdatasync, fsync, o_dsync and
    /// others), cache, padding, batch_max.
    #[arg(long = "setting", value_name = "KEY=VALUE", value_parser = LogSetting::from_str)]
    pub(crate) settings: Vec<LogSetting>,

    /// Exit with 1 if this goal is missed, such as 'p99 < 5ms at 2000/s' (can be repeated)
    ///
    /// MEASURE < TIME for the latency of commits (mean, p50, p99, p99.9, max), or rate > N. With 'at
    /// N/s' transactions arrive at that total rate, at random times, and latency counts from when
    /// each was due; this is an additional run. A goal applies to every number of clients.
    #[arg(long = "goal", value_name = "GOAL", value_parser = written::predict_goal,
          help_heading = "Verdict")]
    pub(crate) goals: Vec<PredictGoal>,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

pub(super) fn predict(arguments: &Predict) -> Result<Exit, CommandError> {
    let options = &arguments.common;
    let profile = model(&arguments.database, &arguments.settings)?;
    let directory = [arguments.directory.clone()];
    let LocatedPlaces { places, held } = locate(&directory, options)?;
    let missing = || CommandError::new(CommandErrorKind::Fault, "a path has no location");
    let execution = begin("predict", options)?;
    let plan = plan_predict(&PredictRequest {
        profile,
        log: places.into_iter().next().ok_or_else(missing)?,
        clients: arguments.clients.clone(),
        settings: arguments.settings.clone(),
        goals: arguments.goals.clone(),
        duration: arguments.duration,
        seed: execution.seed,
        clock: options.clock,
        file_name: execution.file_name(),
    })?;
    let (exit, findings) = execute(&execution, &plan, held, options)?;
    Ok(if exit == Exit::Fine { verdict(&findings, &[]) } else { exit })
}

/// The profile of the database; for MySQL that of MariaDB, which was held against the database itself.
fn model(database: &str, settings: &[LogSetting]) -> Result<Profile, CommandError> {
    let is_mysql = database_name(database) == MYSQL;
    let modelled = if is_mysql { MYSQL_MODEL } else { database };
    let mut profile = super::profile::read(OsStr::new(modelled), settings)?;
    if is_mysql {
        profile.title = format!("MySQL, by the model of {}", profile.title);
        output::remark(&format!("durio: {}: durio has no model of MySQL", profile.title));
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_databases_alone_are_predicted_or_the_usual_ones_with_those_that_run_first() {
        let texts =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let of = |named: &[&str], running: &[&str]| -> Vec<String> {
            let running = texts(running).into_iter().collect();
            let found = predicted(&known(&texts(named)).unwrap(), &running).unwrap();
            assert!(found.iter().all(|profile| profile.software.is_some()), "{named:?}");
            found.into_iter().map(|profile| profile.name).collect()
        };
        let usual = ["postgresql", "mariadb", "sqlite-wal", "redis", "etcd"];
        assert_eq!(of(&[], &["bash"]), usual);
        let first = ["redis", "etcd", "postgresql", "mariadb", "sqlite-wal"];
        assert_eq!(of(&[], &["bash", "etcd", "redis-server"]), first);
        let named = ["postgres", "pg", "mysql", "sqlite", "mongo", "etcd-openshift", "kafka"];
        assert_eq!(of(&named, &["redis-server"]), ["postgresql", "mysql", "sqlite-wal"]);
        assert_eq!(of(&["kafka"], &["redis-server"]), texts(&[]));
    }
}
