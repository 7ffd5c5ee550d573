//! The arguments of campaigns: `durio plan SPEC` and `durio run SPEC`.

use std::path::PathBuf;

use clap::Args;
use durio_base::{Bytes, Nanos};
use durio_bench::CampaignScale;

use super::JobArguments;
use super::OutputArguments;
use crate::exit_code::TABLE;
use crate::values;

/// Run one job given on the command line, or a campaign given as a spec
///
/// In a directory durio lays out a file of its own, without a name where the filesystem supports that;
/// with --create also at a path that does not exist. Existing files and devices are written only if
/// --destroy names them.
///
///   durio run --target /data --rw randread --bs 4k --engine uring --depth 32 --duration 30s
///   durio run --target /data --rw write --bs 8k --sync fdatasync
///   durio run --target /dev/zero --rw randread --engine uring --depth 32 --ops 1000000
///
/// A campaign is a sequence of steps. `durio plan` lists the built-in campaigns and shows what a
/// spec would do:
///
///   durio run db-ladder --target /data --quick
///   durio run my-spec.toml --target data=/data --target log=/log
///
/// A profile describes what a database does: its log is measured idle, and under the database's own
/// background load (`durio profile list`). --duration sets the time per step, --size the size of
/// the data file:
///
///   durio run profile:postgresql --target /data
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct RunCommand {
    /// Campaign to run instead of one job: a TOML file, a built-in spec, or profile:NAME
    // A spec sets all of this itself. --target, --duration and --size are for profiles and targets
    // too.
    #[arg(value_name = "SPEC", conflicts_with_all = [
        "rw", "bs", "mix", "sync", "sync_every", "share_each", "shared", "rewrite", "buffered", "engine", "jobs",
        "depth", "batch", "rate", "constant", "cpus", "node", "null_latency", "null_fails_at", "ops",
        "ramp", "interval", "no_self_cost", "trace_path", "committers",
    ])]
    pub(crate) spec: Option<PathBuf>,

    /// Start over instead of resuming an interrupted campaign
    #[arg(long, requires = "spec", help_heading = "Campaign")]
    pub(crate) fresh: bool,

    #[command(flatten)]
    pub(crate) expanding: Expanding,

    #[command(flatten)]
    pub(crate) job: JobArguments,
}

/// How a spec becomes a plan.
#[derive(Debug, Args)]
pub(crate) struct Expanding {
    /// Multiply durations, ramps and pauses by this (at least 100 ms each); marks figures
    /// provisional
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "Campaign")]
    pub(crate) scale_time: u32,

    /// Multiply file sizes and volumes in bytes by this, rounded to whole MiB
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "Campaign")]
    pub(crate) scale_size: u32,

    /// Scale a campaign's times and sizes by 0.02; run a profile with 2 s per step and small files
    #[arg(long, requires = "spec", conflicts_with_all = ["duration", "scale_time", "scale_size"],
          help_heading = "Campaign")]
    pub(crate) quick: bool,

    /// Allow sweeps that expand to this many steps; required above 10000
    #[arg(long, value_name = "N", requires = "spec", help_heading = "Campaign")]
    pub(crate) confirm_steps: Option<u64>,
}

// Five hours become some minutes, and 64 GiB a size for which every machine has room.
const QUICK_PER_MILLE: u32 = 20;

impl Expanding {
    /// How much of a spec.
    pub(crate) fn scale(&self) -> CampaignScale {
        let scaled = |given| if self.quick { QUICK_PER_MILLE } else { given };
        CampaignScale {
            time_per_mille: scaled(self.scale_time),
            size_per_mille: scaled(self.scale_size),
            steps_confirmed: self.confirm_steps.unwrap_or(0),
        }
    }

    /// True if more or less of a spec is asked for than it says.
    pub(crate) fn is_scaled(&self) -> bool {
        self.scale_time != 1000 || self.scale_size != 1000 || self.confirm_steps.is_some()
    }
}

/// Show what a campaign would do: every step, its time, and everything it would write
///
/// Writes nothing and measures nothing. Without SPEC it lists the built-in specs.
/// docs/formats/spec.md explains how to write one; --schema prints a JSON schema for editors.
///
///   durio plan
///   durio plan db-ladder --target /data
///   durio plan my-spec.toml --target data=/data --target log=/log --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct PlanArguments {
    /// A TOML file, the name of a built-in spec, or profile:NAME
    #[arg(value_name = "SPEC")]
    pub(crate) spec: Option<PathBuf>,

    /// [NAME=]PATH: where a target of the spec is; repeat for several targets or paths
    #[arg(long, value_name = "PATH", requires = "spec", help_heading = "What")]
    pub(crate) target: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) expanding: Expanding,

    /// For a profile: time per step
    #[arg(long, value_name = "TIME", requires = "spec", help_heading = "Campaign")]
    pub(crate) duration: Option<Nanos>,

    /// For a profile: size of the data file
    #[arg(long, value_name = "SIZE", requires = "spec", help_heading = "Campaign")]
    pub(crate) size: Option<Bytes>,

    /// As for `durio run`: allow overwriting this file or block device
    #[arg(long, value_name = "PATH", requires = "spec", help_heading = "Safety")]
    pub(crate) destroy: Vec<PathBuf>,

    /// As for `durio run`: allow --destroy on a device that holds a filesystem or a RAID member
    #[arg(long, requires = "destroy", help_heading = "Safety")]
    pub(crate) force_signature: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Print the JSON schema of spec files
    #[arg(long, conflicts_with = "spec", help_heading = "Output")]
    pub(crate) schema: bool,
}
