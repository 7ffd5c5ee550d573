//! `durio predict`: predicts a database's commits on this storage.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr as _;

use clap::Args;
use durio_base::Nanos;
use durio_command::{CommandError, CommandErrorKind, LocatedPlaces};
use durio_spec::profile::LogSetting;
use durio_spec::written::{self, PredictGoal};
use durio_spec::{PredictRequest, plan_predict};

use super::{check, profile};
use crate::exit_code::{Exit, TABLE};
use crate::measure::{begin, execute, locate};
use crate::options::Measuring;

/// Predict how many commits a database reaches on this storage
///
/// Writes and syncs a log in the directory as the database does, with threads that use as much CPU time
/// per commit as the database, and with clients that wait for their answers. A transaction is the
/// smallest durable one: one small insert, put or set. Clients and database share this machine.
///
///   durio predict postgresql /var/lib/postgresql
///   durio predict redis /data --clients 1,8,32,128
///   durio predict sqlite-wal /home --clients 1
///   durio predict mariadb /data --clients 32 --goal 'p99 < 5ms at 2000/s'
///   durio predict ./mine.toml /data --duration 20s
///
/// Not predicted: reads, checkpoints, compaction, replication, a network between clients and database,
/// and several clients of SQLite, which poll for their turn. docs/method/predict.md says how it works
/// and how near to real databases it came.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Predict {
    /// Name of a profile that has [software], or the path of a TOML file
    #[arg(value_name = "DATABASE")]
    pub(crate) database: String,

    /// Directory on the storage that the log would be on
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Numbers of clients that commit at the same time [default: 1,8,32; 1 for SQLite]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Vec<u32>,

    /// Measured time per number of clients [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// Another value of a key of the profile's log, such as commit_delay=200us (can be repeated)
    ///
    /// What the database was set to. Keys are those that durio profile show DATABASE names:
    /// commit_delay and commit_siblings as PostgreSQL has them, sync (fdatasync, fsync, o_dsync and
    /// others), cache, padding, batch_max.
    #[arg(long = "setting", value_name = "KEY=VALUE", value_parser = LogSetting::from_str)]
    pub(crate) settings: Vec<LogSetting>,

    /// Exit with 1 if this goal is missed, such as 'p99 < 5ms at 2000/s' (can be repeated)
    ///
    /// FIGURE < TIME for the latency of commits (mean, p50, p99, p99.9, max), or rate > N. With 'at N/s'
    /// transactions come at that rate, all clients together, at random times, and the latency counts from
    /// when each was due; that is run besides. A goal is held against every number of clients.
    #[arg(long = "goal", value_name = "GOAL", value_parser = written::predict_goal,
          help_heading = "Verdict")]
    pub(crate) goals: Vec<PredictGoal>,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

pub(super) fn predict(arguments: &Predict) -> Result<Exit, CommandError> {
    let options = &arguments.common;
    let profile = profile::read(OsStr::new(&arguments.database), &arguments.settings)?;
    let directory = [arguments.directory.clone()];
    let LocatedPlaces { places, held } = locate(&directory, options)?;
    let missing = || CommandError::new(CommandErrorKind::Fault, "a path was located nowhere");
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
    Ok(if exit == Exit::Fine { check::verdict(&findings, &[]) } else { exit })
}
