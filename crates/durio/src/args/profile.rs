//! The arguments of `durio profile`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use durio_base::Nanos;

use super::OutputArguments;
use crate::exit_code::TABLE;

/// Show what databases do to their storage, field by field, each with its source
///
/// A profile is the log that commits wait for, and what runs meanwhile: lookups, checkpoints,
/// compactions. `durio run profile:NAME --target DIR` measures the log idle and under that load.
///
///   durio profile list
///   durio profile show postgresql
///   durio profile show ./mine.toml
///   durio profile calibrate postgresql --output mine.toml --command 'pgbench -c {clients} -T 5'
///   durio run profile:postgresql --target /data
///   durio run profile:./mine.toml --target log=/log --target data=/data
///
/// How to write one is in docs/formats/profile.md. Values that no document backs are marked as
/// general knowledge or as durio's guess: replace them by what your own database does.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProfileArguments {
    #[command(subcommand)]
    pub(crate) command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the built-in profiles
    List {
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Show a profile: every field, its value, and where it is from
    Show {
        /// Name of a profile, or the path of a TOML file
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    Calibrate(Calibrate),
}

/// Find out how long a database's software takes on this machine, with the database itself
///
/// durio predict runs a model of the database: its threads, and processor time as it was found on
/// another machine. This runs your database without a disk, by your command, in turns with that
/// model in memory, and writes a profile with which the model is as fast as the database. It takes
/// three to four minutes.
///
///   durio profile calibrate postgresql --output mine.toml \
///       --command 'pgbench -n -f insert.sql -c {clients} -T 5'
///   durio predict ./mine.toml /data
///
/// Set the database up so that it waits for no disk: PostgreSQL with fsync=off, Redis with
/// appendfsync no, any with its files in /dev/shm; use one that may lose its data. Its other
/// settings are to be yours. The command's transaction is the smallest durable one, such as one
/// INSERT. Nothing else may run meanwhile.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Calibrate {
    /// Name of a profile that has [software], or the path of a TOML file
    #[arg(value_name = "DATABASE")]
    pub(crate) name: String,

    /// What loads the database, for a shell; {clients} stands for the number of clients
    ///
    /// It prints its rate as pgbench, redis-benchmark, sysbench, db_bench or YCSB do, or ends with a line that
    /// is the transactions per second alone. Some five seconds for each number of clients are enough.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: String,

    /// Numbers of clients that commit at the same time [default: 1,8,32; 1 for SQLite]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Vec<u32>,

    /// Write the profile to this new file; durio predict FILE uses it
    #[arg(long = "output", value_name = "FILE")]
    pub(crate) profile: PathBuf,

    /// Measured time of the model per number of clients, in each round
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub(crate) duration: Nanos,

    /// Directory in memory for the model's log
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub(crate) memory: PathBuf,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
