//! The arguments of `durio prove`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Output;
use crate::exit_code::TABLE;

/// Prove by power cuts whether storage keeps the writes that it acknowledges
///
/// Writes stamped data by a durable path, keeps a ledger of what was acknowledged, cuts the power, and
/// says what is missing: lost, torn, misplaced, corrupt. Survival of n cuts is stated with its bound;
/// the first loss of acknowledged data ends a series.
#[derive(Debug, Args)]
pub(crate) struct Prove {
    #[command(subcommand)]
    pub(crate) command: ProveCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProveCommand {
    Run(ProveRun),
}

/// Run a proof spec: targets, paths, cuts
///
/// Each target is tried on each path until it loses acknowledged data, or has survived the number of
/// power cuts that the spec asks for. The seed is told first; with --seed the same table comes out
/// again. The result is a folder (docs/formats/proof-folder.md) that `durio report` shows.
///
///   durio prove run prove-smoke
///   durio prove run prove-smoke --only flush-ignored --seed 7
///   durio prove run --resume ~/.local/state/durio/runs/NAME
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveRun {
    /// A TOML file (docs/formats/proof-spec.md), or the name of a built-in proof spec
    #[arg(value_name = "SPEC", required_unless_present = "resume")]
    pub(crate) spec: Option<PathBuf>,

    /// Go on with an interrupted proof, in its own folder
    #[arg(long, value_name = "RUN", conflicts_with_all = ["spec", "seed", "cuts", "only", "out"])]
    pub(crate) resume: Option<PathBuf>,

    /// Only series whose name contains this text (can be repeated)
    #[arg(long, value_name = "TEXT", help_heading = "What")]
    pub(crate) only: Vec<String>,

    /// Cuts of each series, instead of what the spec says
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000),
          help_heading = "What")]
    pub(crate) cuts: Option<u32>,

    /// Seed of all random choices, to repeat a proof [default: a new one]
    #[arg(long, value_name = "NUMBER", help_heading = "What")]
    pub(crate) seed: Option<u64>,

    /// Create the folder in this directory instead of the state folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: Output,
}
