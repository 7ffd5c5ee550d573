//! The arguments of `durio stack`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use durio_bench::{CampaignScale, StackChoice};

use super::OutputArguments;
use super::{InGuest, Measuring};
use crate::exit_code::TABLE;
use crate::values;

/// Show the layers below a path, and measure what each layer costs
///
/// A stack is what lies between a file and its devices: filesystem, volumes, RAID, caches. `show`
/// prints the stack below a path. `plan` and `bench` take a spec that declares stacks from the
/// bottom up: durio builds one after the other, runs the same workloads on the raw devices, the
/// array and the filesystem, and takes everything down again, even after errors.
///
///   durio stack show /var/lib/postgresql
///   durio stack plan
///   durio stack plan ram-layers
///   durio stack bench loop-layers --scale-time 0.1
///   durio stack clean
///
/// How to write a spec is in docs/formats/stack-spec.md.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct StackArguments {
    #[command(subcommand)]
    pub(crate) command: StackCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    Show(StackShow),
    Plan(StackPlan),
    Bench(Box<StackBenching>),
    Clean(StackClean),
}

/// Take down what a killed bench left behind
///
/// Before each build step, a bench writes its undo to a journal in the user's state folder. This
/// command takes down what a dead bench built, in reverse order, if it is provably still the same
/// thing. It does not touch running benches or anything that durio did not make. The next bench
/// does the same when it starts.
///
/// The exit code is 3 if something could not be taken down; it stays in the journal.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct StackClean {}

/// Show the layers from a path to its devices
///
/// Writes nothing and needs no privileges; facts that only root can read are left out without them.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct StackShow {
    /// Files, directories or devices
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Read another machine's /sys and /proc, copied to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// Show every command that a bench would run, with its undo, and its workloads with their times
///
/// Builds, writes and measures nothing. Without SPEC it lists the built-in specs. Names that the
/// kernel will choose are in braces.
///
///   durio stack plan
///   durio stack plan bitmap-cost
///   durio stack plan my-stacks.toml --only mirror-none --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct StackPlan {
    /// A TOML file, or the name of a built-in spec
    #[arg(value_name = "SPEC")]
    pub(crate) spec: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) choosing: Choosing,

    /// As for bench: allow overwriting this block device
    #[arg(long, value_name = "PATH", requires = "spec", help_heading = "Safety")]
    pub(crate) destroy: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Print the JSON schema of stack specs
    #[arg(long, conflicts_with = "spec", help_heading = "Output")]
    pub(crate) schema: bool,
}

/// Build the stacks of a spec one after the other, measure each layer, and take them down
///
/// Each stack is built layer by layer, and the workloads run on each layer: the devices, the array,
/// the filesystem. Then the stack is taken down and the next one is built; the raw devices are
/// measured again for each stack, which shows drift. If something cannot be built or measured, the
/// reason is recorded and the bench goes on with the next stack.
///
/// Building needs root and the kernel's modules. With --lab it needs neither: the bench runs in a
/// throw-away virtual machine. By default its clock counts instructions, so the figures are the
/// software cost per I/O without contention, the same on any machine, and not speed.
///
/// Devices that durio makes need no permission; each existing device in the spec must be named by
/// --destroy too. Ctrl-C takes the stack down and keeps what was measured so far. A second Ctrl-C
/// ends durio at once; `durio stack clean` then takes down the rest, as after a kill.
///
///   durio stack bench loop-layers
///   durio stack bench ram-layers --only xfs --only xfs-on-raid5 --scale-time 0.1
///   durio stack bench my-stacks.toml --destroy /dev/nvme1n1 --destroy /dev/nvme2n1
///   durio stack bench raid-modes --lab --scale-time 0.02 --scale-size 0.3
///
/// The result is a bench folder (docs/formats/bench-folder.md): a manifest, and a run folder for
/// each point. `durio report` accepts either.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct StackBenching {
    /// A TOML file, or the name of a built-in spec
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,

    /// Run in a guest of durio's lab (durio lab --help) instead of on this machine
    #[arg(long, help_heading = "Guest")]
    pub(crate) lab: bool,

    /// Kernel of the guest: an image, or a release as durio lab kernels lists it [default: the
    /// newest]
    #[arg(long, value_name = "KERNEL", requires = "lab", help_heading = "Guest")]
    pub(crate) kernel: Option<PathBuf>,

    /// Modules of the kernel: the folder lib/modules/RELEASE [default: those beside the kernel]
    #[arg(long, value_name = "DIR", requires = "kernel", help_heading = "Guest")]
    pub(crate) modules: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) guest: InGuest,

    #[command(flatten)]
    pub(crate) choosing: Choosing,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

// Selection and scale of a spec; no doc comment, which would be taken for a command's.
#[derive(Debug, Args)]
pub(crate) struct Choosing {
    /// Only this stack, by its full name (can be repeated)
    #[arg(long, value_name = "STACK", requires = "spec", help_heading = "What")]
    pub(crate) only: Vec<String>,

    /// Multiply durations, ramps and pauses by this (at least 100 ms each); marks figures
    /// provisional
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "How long, how large")]
    pub(crate) scale_time: u32,

    /// Multiply sizes of devices made by durio, files, regions and volumes by this, rounded to
    /// whole MiB
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "How long, how large")]
    pub(crate) scale_size: u32,

    /// Allow sweeps that expand to this many steps per point; required above 10000
    #[arg(long, value_name = "N", requires = "spec", help_heading = "How long, how large")]
    pub(crate) confirm_steps: Option<u64>,
}

impl Choosing {
    /// The same as a value.
    pub(crate) fn choice(&self) -> StackChoice {
        let scale = CampaignScale {
            time_per_mille: self.scale_time,
            size_per_mille: self.scale_size,
            steps_confirmed: self.confirm_steps.unwrap_or(0),
        };
        StackChoice { only: self.only.clone(), scale }
    }
}
