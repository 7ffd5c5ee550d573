//! The arguments of `durio runs` and `durio history`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use durio_analyse::history::Metric;
use durio_base::Nanos;

use super::OutputArguments;
use crate::exit_code::TABLE;
use crate::values;

/// List the runs that are kept, or remove some
///
/// Runs are kept in the state folder ($XDG_STATE_HOME/durio/runs or ~/.local/state/durio/runs), unless
/// --out said otherwise. Wherever a command takes a run, these words mean one:
///
///   last, last~1     the latest, the one before it
///   NAME             the run that was given this name (durio check --name NAME)
///   2026-11-23T15    the begin of a run's own name, if it is the only one
///   check-4711       the end of it
///   path/to/folder   its folder, wherever it is
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE, args_conflicts_with_subcommands = true)]
pub(crate) struct Runs {
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,

    /// Probes of durio watch instead of runs
    #[arg(long, global = true)]
    pub(crate) probes: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Remove runs
    Rm {
        /// Which, as for durio report
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<std::path::PathBuf>,

        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Remove old runs
    ///
    /// Runs that were given a name stay, and so do the latest ones.
    Prune {
        /// Keep so many of the latest
        #[arg(long, value_name = "N", default_value_t = 30)]
        keep: usize,

        /// Remove only what is older, in days such as 90d, or a time such as 12h
        #[arg(long, value_name = "AGE", default_value = "90d", value_parser = values::age)]
        older_than: Nanos,

        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// Show how a figure changed from run to run
///
/// Takes the runs of one machine on one target and shows the figure of each, the latest last, with a
/// line where it changed for good (Pettitt's test of ranks, which needs five runs on either side).
///
///   durio history /data
///   durio history /data --metric lookup.p99.9
///   durio history /data --metric commit.p99 --probes
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct RunsHistory {
    /// The target, as it was named [default: that of the latest run]
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<PathBuf>,

    /// Workload and figure: rate, p50, p99 or p99.9
    #[arg(long, value_name = "WORKLOAD.FIGURE", default_value = "commit.rate",
          value_parser = values::metric)]
    pub(crate) metric: Metric,

    /// Probes of durio watch instead of runs
    #[arg(long)]
    pub(crate) probes: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
